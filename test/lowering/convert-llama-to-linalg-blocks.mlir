// Matrices in blocks: the other factor is rounded to integers as well, and the
// rounding is part of the text.
// RUN: cria-opt --assign-slots --convert-llama-to-linalg=chunk=64 --canonicalize --split-input-file %s | FileCheck %s

// Weights are bytes: of 32 numbers 34 in q8_0, 18 in q4_0.
// CHECK: func private @w() -> tensor<6x3x34xi8>
// CHECK: func private @e() -> tensor<16x3x18xi8>
llama.weight @w : tensor<6x96x!llama.blocks<q8_0>> from "w"
llama.weight @e : tensor<16x96x!llama.blocks<q4_0>> from "e"

// A number of the table: d * (half - 8).
// CHECK-LABEL: func @prefill
// CHECK: linalg.generic
// CHECK: %[[ID:.*]] = arith.index_cast
// CHECK: %[[COLUMN:.*]] = linalg.index 1
// CHECK: %[[BLOCK:.*]] = arith.divui %[[COLUMN]], %c32
// CHECK: %[[PLACE:.*]] = arith.remui %[[COLUMN]], %c32
// CHECK: %[[HALF:.*]] = arith.divui %[[PLACE]], %c16
// CHECK: %[[REST:.*]] = arith.remui %[[PLACE]], %c16
// CHECK: %[[AT:.*]] = arith.addi %[[REST]], %c2
// CHECK: %[[BYTE:.*]] = tensor.extract %{{.*}}[%[[ID]], %[[BLOCK]], %[[AT]]]
// CHECK: tensor.extract %{{.*}}[%[[ID]], %[[BLOCK]], %c0]
// CHECK: tensor.extract %{{.*}}[%[[ID]], %[[BLOCK]], %c1]
// CHECK: arith.shrui %[[BYTE]]
// CHECK: arith.subi %{{.*}}, %c8_i8
// CHECK: arith.bitcast %{{.*}} : i16 to f16

// Rows become blocks once for both products: the largest number, integers to
// nearest even, scales in f16.
// CHECK: %[[X:.*]] = tensor.expand_shape %{{.*}} output_shape [%{{.*}}, 3, 32]
// CHECK: %[[MOST:.*]] = linalg.generic {{.*}}"reduction"]} ins(%[[X]]
// CHECK: math.absf
// CHECK: arith.maximumf
// CHECK: %[[CODES:.*]] = linalg.generic {{.*}} ins(%[[X]], %[[MOST]]
// CHECK: math.roundeven
// CHECK: arith.fptosi %{{.*}} : f32 to i8
// CHECK: %[[SCALES:.*]] = linalg.generic {{.*}} ins(%[[MOST]]
// CHECK: arith.truncf %{{.*}} : f32 to f16
// CHECK: %[[BYTES:.*]] = tensor.extract_slice %[[W:.*]][0, 0, 2] [6, 3, 32]
// CHECK: %[[LOW:.*]] = tensor.extract_slice %[[W]][0, 0, 0] [6, 3, 1]
// CHECK: %[[HIGH:.*]] = tensor.extract_slice %[[W]][0, 0, 1] [6, 3, 1]
// CHECK: linalg.generic {{.*}}"parallel", "parallel", "reduction", "reduction"]} ins(%[[CODES]], %[[SCALES]], %[[BYTES]], %[[LOW]], %[[HIGH]]
// CHECK: arith.addf %{{.*}} fastmath<reassoc,contract>
// CHECK-NOT: math.roundeven
// CHECK: linalg.generic {{.*}}"parallel", "parallel", "reduction", "reduction"]} ins(%[[CODES]], %[[SCALES]]
func.func @prefill(%ids: tensor<?xi32>, %position: index, %first: index) -> (tensor<?x6xf32>) {
  %e = llama.get_weight @e : tensor<16x96x!llama.blocks<q4_0>>
  %x = llama.embed %ids, %e as f32 : tensor<?xi32>, tensor<16x96x!llama.blocks<q4_0>>
  %w = llama.get_weight @w : tensor<6x96x!llama.blocks<q8_0>>
  %y = llama.linear %x, %w : tensor<?x96xf32>, tensor<6x96x!llama.blocks<q8_0>>
  %z = llama.linear %x, %w : tensor<?x96xf32>, tensor<6x96x!llama.blocks<q8_0>>
  %s = llama.residual %y, %z : tensor<?x6xf32>
  return %s : tensor<?x6xf32>
}

// -----

// A cache in blocks is bytes. Rows become integers and scales, which are put
// where they belong; attention widens the keys and values that it may see.
// CHECK-LABEL: func @prefill
// CHECK-SAME: %[[K:[^:]*]]: tensor<3x2x16x2x34xi8>, %[[V:[^:]*]]: tensor<3x2x16x2x34xi8>)
// CHECK: math.absf
// CHECK: %[[CODES:.*]] = linalg.generic
// CHECK: math.roundeven
// CHECK-NEXT: arith.fptosi %{{.*}} : f32 to i8
// CHECK: %[[SCALES:.*]] = linalg.generic
// CHECK: arith.truncf %{{.*}} : f32 to f16
// CHECK: %[[A:.*]] = tensor.insert_slice %[[CODES]] into %[[K]][1, 0, %[[P:.*]], 0, 2] [1, 2, %{{.*}}, 2, 32]
// CHECK: %[[LOW:.*]] = linalg.generic {{.*}} ins(%[[SCALES]]
// CHECK: arith.bitcast %{{.*}} : f16 to i16
// CHECK-NEXT: arith.trunci
// CHECK: %[[B:.*]] = tensor.insert_slice %[[LOW]] into %[[A]][1, 0, %[[P]], 0, 0] [1, 2, %{{.*}}, 2, 1]
// CHECK: %[[HIGH:.*]] = linalg.generic {{.*}} ins(%[[SCALES]]
// CHECK: arith.shrui %{{.*}}, %c8_i16
// CHECK: %[[KEYS:.*]] = tensor.insert_slice %[[HIGH]] into %[[B]][1, 0, %[[P]], 0, 1] [1, 2, %{{.*}}, 2, 1]
// CHECK: %[[BYTES:.*]] = tensor.extract_slice %[[KEYS]][1, 0, 0, 0, 2] [1, 2, %[[SEEN:.*]], 2, 32]
// CHECK: %[[LOWS:.*]] = tensor.extract_slice %[[KEYS]][1, 0, 0, 0, 0] [1, 2, %[[SEEN]], 2, 1]
// CHECK: %[[HIGHS:.*]] = tensor.extract_slice %[[KEYS]][1, 0, 0, 0, 1] [1, 2, %[[SEEN]], 2, 1]
// CHECK: %[[WIDE:.*]] = linalg.generic {{.*}} ins(%[[BYTES]], %[[LOWS]], %[[HIGHS]]
// CHECK: arith.bitcast %{{.*}} : i16 to f16
// CHECK: arith.sitofp %{{.*}} : i8 to f32
// CHECK: %[[NUMBERS:.*]] = tensor.collapse_shape %[[WIDE]] {{.*}} into tensor<2x?x64xf32>
// CHECK: linalg.generic {{.*}} ins(%{{.*}}, %[[NUMBERS]] : tensor<?x2x1x64xbf16>, tensor<2x?x64xf32>)
// CHECK: linalg.softmax
// CHECK: tensor.extract_slice %[[V]][1, 0, 0, 0, 2]
// CHECK: return %{{.*}}, %[[KEYS]], %[[V]]
!h = tensor<?x2x64xbf16>
!c = tensor<3x2x16x64x!llama.blocks<q8_0>>
func.func @prefill(%ids: tensor<?xi32>, %position: index, %first: index, %k: !c, %v: !c) -> (tensor<?x128xf32>, !c, !c) {
  %c1 = arith.constant 1 : index
  %e = llama.get_weight @e : tensor<16x128xbf16>
  %x = llama.embed %ids, %e : tensor<?xi32>, tensor<16x128xbf16>
  %c0 = arith.constant 0 : index
  %n = tensor.dim %ids, %c0 : tensor<?xi32>
  %r = tensor.expand_shape %x [[0], [1, 2]] output_shape [%n, 2, 64] : tensor<?x128xbf16> into !h
  %k1 = llama.kv_append %r into %k[%c1] at %position : !h into !c
  %o = llama.gqa %r, %k1, %v[%c1] at %position {scale = 1.0, causal} : !h, !c
  %y = tensor.collapse_shape %o [[0], [1, 2]] : !h into tensor<?x128xbf16>
  %w = llama.get_weight @w : tensor<128x128xbf16>
  %l = llama.head %y, %w : tensor<?x128xbf16>, tensor<128x128xbf16>
  return %l, %k1, %v : tensor<?x128xf32>, !c, !c
}
llama.weight @e : tensor<16x128xbf16> from "e"
llama.weight @w : tensor<128x128xbf16> from "w"
