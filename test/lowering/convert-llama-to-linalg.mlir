// RUN: cria-opt --convert-llama-to-linalg=chunk=64 --split-input-file %s | FileCheck %s

// Weights and tables become functions that carry their slots: a weight with a
// count takes as many, a table two.
// CHECK: func private @embed() -> tensor<16x8xf32> attributes {weight = {slot = 0 : index, source = "embed"}}
// CHECK: func private @w(index) -> tensor<6x8xf32> attributes {weight = {slot = 1 : index, source = "l.{}.w"}}
// CHECK: func private @rope.cos() -> tensor<4x2xf32> attributes {rope = {slot = 4 : index}}
// CHECK: func private @rope.sin() -> tensor<4x2xf32> attributes {rope = {slot = 5 : index}}
llama.weight @embed : tensor<16x8xf32> from "embed"
llama.weight @w[3] : tensor<6x8xf32> from "l.{}.w"
llama.rope_table @rope {positions = 4 : i64, inv_freq = array<f32: 1.0, 0.1>}

// An entry has room for a chunk of ids and logits; the head writes into the
// logits; a kernel is a region that keeps its name.
// CHECK-LABEL: func @prefill
// CHECK-SAME: (%[[IDS:.*]]: tensor<64xi32>, %[[TOKENS:[^:]*]]: index, %{{[^:]*}}: index, %[[FIRST:[^:]*]]: index, %{{[^:]*}}: index, %[[LOGITS:.*]]: tensor<64x16xf32>, %[[K:.*]]: tensor<1x1x4x8xf32>) -> (tensor<64x16xf32>, tensor<1x1x4x8xf32>) attributes {chunk = 64 : index}
// CHECK: %[[ROWS:.*]] = arith.subi %[[TOKENS]], %[[FIRST]]
// CHECK: %[[USED:.*]] = tensor.extract_slice %[[IDS]][0] [%[[TOKENS]]] [1]
// CHECK: %[[TABLE:.*]] = call @embed()
// CHECK: scf.execute_region
// CHECK: linalg.generic {{.*}} ins(%[[USED]] : tensor<?xi32>)
// CHECK: tensor.extract %[[TABLE]]
// CHECK: } {kernel = "embed"}
// CHECK: %[[L:.*]] = scf.execute_region
// CHECK: %[[INTO:.*]] = tensor.extract_slice %[[LOGITS]][0, 0] [%[[ROWS]], 16]
// CHECK: %[[ZERO:.*]] = linalg.fill {{.*}} outs(%[[INTO]]
// CHECK: linalg.generic {{.*}}"reduction"]} {{.*}} outs(%[[ZERO]]
// CHECK: } {kernel = "head"}
// CHECK: %[[ALL:.*]] = tensor.insert_slice %[[L]] into %[[LOGITS]]
// CHECK: return %[[ALL]], %[[K]]
func.func @prefill(%ids: tensor<?xi32>, %position: index, %first: index, %k: tensor<1x1x4x8xf32>)
    -> (tensor<?x16xf32>, tensor<1x1x4x8xf32>) {
  %t = llama.get_weight @embed : tensor<16x8xf32>
  %x = llama.kernel "embed" -> tensor<?x8xf32> {
    %0 = llama.embed %ids, %t : tensor<?xi32>, tensor<16x8xf32>
    llama.yield %0 : tensor<?x8xf32>
  }
  %l = llama.kernel "head" -> tensor<?x16xf32> {
    %0 = llama.head %x, %t : tensor<?x8xf32>, tensor<16x8xf32>
    llama.yield %0 : tensor<?x16xf32>
  }
  return %l, %k : tensor<?x16xf32>, tensor<1x1x4x8xf32>
}

// -----

// Inside a kernel f32 is kept: the product is not rounded before the addition,
// which starts from the stream's buffer and rounds once.
// CHECK-LABEL: func @decode
// CHECK-SAME: attributes {chunk = 1 : index}
// CHECK: call @w
// CHECK: %[[X:.*]] = scf.execute_region
// CHECK: scf.execute_region
// CHECK: %[[Y:.*]] = linalg.generic {{.*}}"reduction"]} ins(%[[X]]
// CHECK-NOT: arith.truncf
// CHECK: linalg.generic {{.*}} ins(%[[Y]] : tensor<1x8xf32>) outs(%[[X]] : tensor<1x8xbf16>)
// CHECK-NEXT: ^bb0(%[[UPDATE:.*]]: f32, %[[OLD:.*]]: bf16)
// CHECK-NEXT: %[[WIDE:.*]] = arith.extf %[[OLD]] : bf16 to f32
// CHECK-NEXT: %[[SUM:.*]] = arith.addf %[[WIDE]], %[[UPDATE]] : f32
// CHECK-NEXT: arith.truncf %[[SUM]] : f32 to bf16
llama.weight @w : tensor<8x8xbf16> from "w"
func.func @decode(%ids: tensor<1xi32>, %position: index, %first: index) -> tensor<1x8xf32> {
  %w = llama.get_weight @w : tensor<8x8xbf16>
  %x = llama.kernel "embed" -> tensor<1x8xbf16> {
    %0 = llama.embed %ids, %w : tensor<1xi32>, tensor<8x8xbf16>
    llama.yield %0 : tensor<1x8xbf16>
  }
  %z = llama.kernel "out" -> tensor<1x8xbf16> {
    %y = llama.linear %x, %w : tensor<1x8xbf16>, tensor<8x8xbf16>
    %0 = llama.residual %x, %y : tensor<1x8xbf16>
    llama.yield %0 : tensor<1x8xbf16>
  }
  %l = llama.head %z, %w : tensor<1x8xbf16>, tensor<8x8xbf16>
  return %l : tensor<1x8xf32>
}

// -----

// The norm is rounded to the type of x before its weight multiplies it.
// CHECK-LABEL: func @norm
// CHECK: math.rsqrt
// CHECK: %[[N:.*]] = arith.mulf
// CHECK-NEXT: %[[ROUNDED:.*]] = arith.truncf %[[N]] : f32 to f16
// CHECK-NEXT: %[[WIDE:.*]] = arith.extf %[[ROUNDED]]
// CHECK-NEXT: arith.mulf %{{.*}}, %[[WIDE]]
llama.weight @x : tensor<1x8xf16> from "x"
llama.weight @g : tensor<8xf16> from "g"
llama.weight @e : tensor<8x8xf16> from "e"
func.func @norm(%ids: tensor<1xi32>, %position: index, %first: index) -> tensor<1x8xf32> {
  %x = llama.get_weight @x : tensor<1x8xf16>
  %g = llama.get_weight @g : tensor<8xf16>
  %e = llama.get_weight @e : tensor<8x8xf16>
  %y = llama.rmsnorm %x, %g {eps = 1.0e-05} : tensor<1x8xf16>, tensor<8xf16>
  %l = llama.head %y, %e : tensor<1x8xf16>, tensor<8x8xf16>
  return %l : tensor<1x8xf32>
}

// -----

// A loop, an append and what leaves a kernel may be written over: a weight
// there is copied first.
// CHECK-LABEL: func @stays
// CHECK: %[[W:.*]] = call @w()
// CHECK: %[[C:.*]] = call @c()
// CHECK: %[[LOOP:.*]] = bufferization.materialize_in_destination %[[W]] in
// CHECK: scf.for {{.*}} iter_args(%{{.*}} = %[[LOOP]])
// CHECK: %[[TURN:.*]] = bufferization.materialize_in_destination %[[W]] in
// CHECK: scf.yield %[[TURN]]
// CHECK: %[[CACHE:.*]] = bufferization.materialize_in_destination %[[C]] in
// CHECK: scf.for {{.*}} iter_args(%{{.*}} = %[[CACHE]])
// CHECK: scf.execute_region
// CHECK: %[[LEAVES:.*]] = bufferization.materialize_in_destination %[[W]] in
// CHECK: scf.yield %[[LEAVES]]
llama.weight @w : tensor<1x8xf32> from "w"
llama.weight @c : tensor<1x1x4x8xf32> from "c"
llama.weight @e : tensor<8x8xf32> from "e"
func.func @stays(%ids: tensor<1xi32>, %position: index, %first: index) -> tensor<1x8xf32> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %w = llama.get_weight @w : tensor<1x8xf32>
  %c = llama.get_weight @c : tensor<1x1x4x8xf32>
  %e = llama.get_weight @e : tensor<8x8xf32>
  %x = scf.for %i = %c0 to %c1 step %c1 iter_args(%s = %w) -> tensor<1x8xf32> {
    scf.yield %w : tensor<1x8xf32>
  }
  %rows = tensor.expand_shape %x [[0], [1, 2]] output_shape [1, 1, 8] : tensor<1x8xf32> into tensor<1x1x8xf32>
  %k = llama.kv_append %rows into %c[%c0] at %position : tensor<1x1x8xf32> into tensor<1x1x4x8xf32>
  %a = llama.gqa %rows, %k, %k[%c0] at %position {scale = 1.0} : tensor<1x1x8xf32>, tensor<1x1x4x8xf32>
  %b = tensor.collapse_shape %a [[0], [1, 2]] : tensor<1x1x8xf32> into tensor<1x8xf32>
  %y = llama.kernel "same" -> tensor<1x8xf32> {
    llama.yield %w : tensor<1x8xf32>
  }
  %z = llama.residual %y, %b : tensor<1x8xf32>
  %l = llama.head %z, %e : tensor<1x8xf32>, tensor<8x8xf32>
  return %l : tensor<1x8xf32>
}
