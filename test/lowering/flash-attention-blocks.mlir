// Keys and values that an op widens: here integers of 8 bits, 32 of them behind
// their scale, one of 8 bits, too. No widened cache is left.
// RUN: cria-opt --attach-target="vector-unit={amx}" --flash-attention --canonicalize --split-input-file %s | FileCheck %s --implicit-check-not=linalg.softmax --implicit-check-not='tensor<2x?x2x32xf32>'

#q = affine_map<(h, g, t, s, d) -> (t, h, g, d)>
#k = affine_map<(h, g, t, s, d) -> (h, s, d)>
#s = affine_map<(h, g, t, s, d) -> (h, g, t, s)>
#p = affine_map<(t, h, g, d, s) -> (h, g, t, s)>
#v = affine_map<(t, h, g, d, s) -> (h, s, d)>
#o = affine_map<(t, h, g, d, s) -> (t, h, g, d)>
#number = affine_map<(h, s, b, i) -> (h, s, b, i)>
#block = affine_map<(h, s, b, i) -> (h, s, b)>

// One token: 64 keys become f32 at a time, and both products read them.
// CHECK-LABEL: func private @one
// CHECK-SAME: (%[[Q:[^:]*]]: tensor<1x2x1x64xbf16>, %[[K:[^:]*]]: tensor<4x2x256x2x33xi8>, %[[V:[^:]*]]: tensor<4x2x256x2x33xi8>, %[[LAYER:[^:]*]]: index
// CHECK: scf.forall (%[[HEAD:.*]]) in (2)
// CHECK: scf.for %[[BLOCK:.*]] = %{{.*}} iter_args
// CHECK: %[[FIRST:.*]] = affine.apply #{{.*}}(%[[BLOCK]])
// CHECK: %[[CODES:.*]] = tensor.extract_slice %[[K]][%[[LAYER]], %[[HEAD]], %[[FIRST]], 0, 1] [1, 1, 64, 2, 32] {{.*}} to tensor<64x2x32xi8>
// CHECK: %[[SCALES:.*]] = tensor.extract_slice %[[K]][%[[LAYER]], %[[HEAD]], %[[FIRST]], 0, 0] [1, 1, 64, 2, 1] {{.*}} to tensor<64x2xi8>
// CHECK: %[[WIDE:.*]] = linalg.generic {{.*}} ins(%[[CODES]], %[[SCALES]]
// CHECK: arith.uitofp
// CHECK: %[[KEYS:.*]] = tensor.collapse_shape %[[WIDE]] {{.*}} into tensor<64x64xf32>
// CHECK: tensor.extract_slice %[[V]][%[[LAYER]], %[[HEAD]], %{{.*}}, 0, 1]
// CHECK: linalg.generic {{.*}} ins(%{{.*}}, %[[KEYS]] : tensor<1x64xf32>, tensor<64x64xf32>)
func.func private @one(%q: tensor<1x2x1x64xbf16>, %keys: tensor<4x2x256x2x33xi8>, %values: tensor<4x2x256x2x33xi8>, %layer: index, %len: index, %out: tensor<1x2x1x64xf32>) -> tensor<1x2x1x64xf32> {
  %zero = arith.constant 0.0 : f32
  %k0 = tensor.extract_slice %keys[%layer, 0, 0, 0, 1] [1, 2, %len, 2, 32] [1, 1, 1, 1, 1] : tensor<4x2x256x2x33xi8> to tensor<2x?x2x32xi8>
  %k1 = tensor.extract_slice %keys[%layer, 0, 0, 0, 0] [1, 2, %len, 2, 1] [1, 1, 1, 1, 1] : tensor<4x2x256x2x33xi8> to tensor<2x?x2xi8>
  %k2 = tensor.empty(%len) : tensor<2x?x2x32xf32>
  %k3 = linalg.generic {indexing_maps = [#number, #block, #number], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%k0, %k1 : tensor<2x?x2x32xi8>, tensor<2x?x2xi8>) outs(%k2 : tensor<2x?x2x32xf32>) {
  ^bb0(%a: i8, %c: i8, %o: f32):
    %x = arith.sitofp %a : i8 to f32
    %y = arith.uitofp %c : i8 to f32
    %w = arith.mulf %x, %y : f32
    linalg.yield %w : f32
  } -> tensor<2x?x2x32xf32>
  %k = tensor.collapse_shape %k3 [[0], [1], [2, 3]] : tensor<2x?x2x32xf32> into tensor<2x?x64xf32>
  %e = tensor.empty(%len) : tensor<2x1x1x?xf32>
  %z = linalg.fill ins(%zero : f32) outs(%e : tensor<2x1x1x?xf32>) -> tensor<2x1x1x?xf32>
  %scores = linalg.contract indexing_maps = [#q, #k, #s] ins(%q, %k : tensor<1x2x1x64xbf16>, tensor<2x?x64xf32>) outs(%z : tensor<2x1x1x?xf32>) -> tensor<2x1x1x?xf32>
  %soft = linalg.softmax dimension(3) ins(%scores : tensor<2x1x1x?xf32>) outs(%e : tensor<2x1x1x?xf32>) -> tensor<2x1x1x?xf32>
  %v0 = tensor.extract_slice %values[%layer, 0, 0, 0, 1] [1, 2, %len, 2, 32] [1, 1, 1, 1, 1] : tensor<4x2x256x2x33xi8> to tensor<2x?x2x32xi8>
  %v1 = tensor.extract_slice %values[%layer, 0, 0, 0, 0] [1, 2, %len, 2, 1] [1, 1, 1, 1, 1] : tensor<4x2x256x2x33xi8> to tensor<2x?x2xi8>
  %v2 = tensor.empty(%len) : tensor<2x?x2x32xf32>
  %v3 = linalg.generic {indexing_maps = [#number, #block, #number], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%v0, %v1 : tensor<2x?x2x32xi8>, tensor<2x?x2xi8>) outs(%v2 : tensor<2x?x2x32xf32>) {
  ^bb0(%a: i8, %c: i8, %o: f32):
    %x = arith.sitofp %a : i8 to f32
    %y = arith.uitofp %c : i8 to f32
    %w = arith.mulf %x, %y : f32
    linalg.yield %w : f32
  } -> tensor<2x?x2x32xf32>
  %v = tensor.collapse_shape %v3 [[0], [1], [2, 3]] : tensor<2x?x2x32xf32> into tensor<2x?x64xf32>
  %ef = tensor.empty() : tensor<1x2x1x64xf32>
  %zf = linalg.fill ins(%zero : f32) outs(%ef : tensor<1x2x1x64xf32>) -> tensor<1x2x1x64xf32>
  %pv = linalg.contract indexing_maps = [#p, #v, #o] ins(%soft, %v : tensor<2x1x1x?xf32>, tensor<2x?x64xf32>) outs(%zf : tensor<1x2x1x64xf32>) -> tensor<1x2x1x64xf32>
  %m = bufferization.materialize_in_destination %pv in %out : (tensor<1x2x1x64xf32>, tensor<1x2x1x64xf32>) -> tensor<1x2x1x64xf32>
  return %m : tensor<1x2x1x64xf32>
}

// -----

#q = affine_map<(h, g, t, s, d) -> (t, h, g, d)>
#k = affine_map<(h, g, t, s, d) -> (h, s, d)>
#s = affine_map<(h, g, t, s, d) -> (h, g, t, s)>
#p = affine_map<(t, h, g, d, s) -> (h, g, t, s)>
#v = affine_map<(t, h, g, d, s) -> (h, s, d)>
#o = affine_map<(t, h, g, d, s) -> (t, h, g, d)>
#number = affine_map<(h, s, b, i) -> (h, s, b, i)>
#block = affine_map<(h, s, b, i) -> (h, s, b)>

// More tokens of bf16: with AMX, which multiplies bf16, they are rounded to it.
// CHECK-LABEL: func private @more
// CHECK: scf.for
// CHECK: linalg.generic
// CHECK: %[[NUMBER:.*]] = arith.mulf
// CHECK-NEXT: arith.truncf %[[NUMBER]] : f32 to bf16
// CHECK: tensor.collapse_shape {{.*}} into tensor<64x64xbf16>
func.func private @more(%q: tensor<?x2x1x64xbf16>, %keys: tensor<4x2x256x2x33xi8>, %values: tensor<4x2x256x2x33xi8>, %layer: index, %len: index, %out: tensor<?x2x1x64xf32>) -> tensor<?x2x1x64xf32> {
  %zero = arith.constant 0.0 : f32
  %c0 = arith.constant 0 : index
  %n = tensor.dim %q, %c0 : tensor<?x2x1x64xbf16>
  %k0 = tensor.extract_slice %keys[%layer, 0, 0, 0, 1] [1, 2, %len, 2, 32] [1, 1, 1, 1, 1] : tensor<4x2x256x2x33xi8> to tensor<2x?x2x32xi8>
  %k1 = tensor.extract_slice %keys[%layer, 0, 0, 0, 0] [1, 2, %len, 2, 1] [1, 1, 1, 1, 1] : tensor<4x2x256x2x33xi8> to tensor<2x?x2xi8>
  %k2 = tensor.empty(%len) : tensor<2x?x2x32xf32>
  %k3 = linalg.generic {indexing_maps = [#number, #block, #number], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%k0, %k1 : tensor<2x?x2x32xi8>, tensor<2x?x2xi8>) outs(%k2 : tensor<2x?x2x32xf32>) {
  ^bb0(%a: i8, %c: i8, %o: f32):
    %x = arith.sitofp %a : i8 to f32
    %y = arith.uitofp %c : i8 to f32
    %w = arith.mulf %x, %y : f32
    linalg.yield %w : f32
  } -> tensor<2x?x2x32xf32>
  %k = tensor.collapse_shape %k3 [[0], [1], [2, 3]] : tensor<2x?x2x32xf32> into tensor<2x?x64xf32>
  %e = tensor.empty(%n, %len) : tensor<2x1x?x?xf32>
  %z = linalg.fill ins(%zero : f32) outs(%e : tensor<2x1x?x?xf32>) -> tensor<2x1x?x?xf32>
  %scores = linalg.contract indexing_maps = [#q, #k, #s] ins(%q, %k : tensor<?x2x1x64xbf16>, tensor<2x?x64xf32>) outs(%z : tensor<2x1x?x?xf32>) -> tensor<2x1x?x?xf32>
  %soft = linalg.softmax dimension(3) ins(%scores : tensor<2x1x?x?xf32>) outs(%e : tensor<2x1x?x?xf32>) -> tensor<2x1x?x?xf32>
  %v0 = tensor.extract_slice %values[%layer, 0, 0, 0, 1] [1, 2, %len, 2, 32] [1, 1, 1, 1, 1] : tensor<4x2x256x2x33xi8> to tensor<2x?x2x32xi8>
  %v1 = tensor.extract_slice %values[%layer, 0, 0, 0, 0] [1, 2, %len, 2, 1] [1, 1, 1, 1, 1] : tensor<4x2x256x2x33xi8> to tensor<2x?x2xi8>
  %v2 = tensor.empty(%len) : tensor<2x?x2x32xf32>
  %v3 = linalg.generic {indexing_maps = [#number, #block, #number], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%v0, %v1 : tensor<2x?x2x32xi8>, tensor<2x?x2xi8>) outs(%v2 : tensor<2x?x2x32xf32>) {
  ^bb0(%a: i8, %c: i8, %o: f32):
    %x = arith.sitofp %a : i8 to f32
    %y = arith.uitofp %c : i8 to f32
    %w = arith.mulf %x, %y : f32
    linalg.yield %w : f32
  } -> tensor<2x?x2x32xf32>
  %v = tensor.collapse_shape %v3 [[0], [1], [2, 3]] : tensor<2x?x2x32xf32> into tensor<2x?x64xf32>
  %ef = tensor.empty(%n) : tensor<?x2x1x64xf32>
  %zf = linalg.fill ins(%zero : f32) outs(%ef : tensor<?x2x1x64xf32>) -> tensor<?x2x1x64xf32>
  %pv = linalg.contract indexing_maps = [#p, #v, #o] ins(%soft, %v : tensor<2x1x?x?xf32>, tensor<2x?x64xf32>) outs(%zf : tensor<?x2x1x64xf32>) -> tensor<?x2x1x64xf32>
  %m = bufferization.materialize_in_destination %pv in %out : (tensor<?x2x1x64xf32>, tensor<?x2x1x64xf32>) -> tensor<?x2x1x64xf32>
  return %m : tensor<?x2x1x64xf32>
}
