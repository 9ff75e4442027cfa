// Keys and values that an op widens: here integers of 8 bits, 32 of them behind
// their scale, one of 8 bits, too. A lane reads those of its columns, and the scale
// of their block; bytes that lie at odd places are read one by one.
// RUN: cria-opt --convert-linalg-to-gpu --canonicalize --cse %s | FileCheck %s
// RUN: cria-opt --convert-linalg-to-gpu --remarks-filter=convert-linalg-to-gpu %s 2>&1 >/dev/null | count 0

#q = affine_map<(h, g, t, s, d) -> (t, h, g, d)>
#k = affine_map<(h, g, t, s, d) -> (h, s, d)>
#s = affine_map<(h, g, t, s, d) -> (h, g, t, s)>
#p = affine_map<(t, h, g, d, s) -> (h, g, t, s)>
#v = affine_map<(t, h, g, d, s) -> (h, s, d)>
#o = affine_map<(t, h, g, d, s) -> (t, h, g, d)>
#number = affine_map<(h, s, b, i) -> (h, s, b, i)>
#block = affine_map<(h, s, b, i) -> (h, s, b)>

// CHECK-LABEL: func private @one.launch
// CHECK: gpu.launch_func @kernels::@one blocks in (%c2, %c4, %c1)
// CHECK-LABEL: gpu.func @one
// CHECK: scf.for
// CHECK: %[[CODES:.*]] = vector.from_elements %{{.*}} : vector<4xi8>
// CHECK: %[[SCALE:.*]] = memref.load %{{.*}} {alignment = 1 : i64} : memref<33792xi8, strided<[1], offset: ?>>
// CHECK: %[[WIDE:.*]] = arith.sitofp %[[CODES]] : vector<4xi8> to vector<4xf32>
// CHECK: %[[ONE:.*]] = arith.uitofp %[[SCALE]] : i8 to f32
// CHECK: %[[ALL:.*]] = vector.broadcast %[[ONE]] : f32 to vector<4xf32>
// CHECK: arith.mulf %[[WIDE]], %[[ALL]]
func.func private @one(%q: tensor<1x2x1x64xf32>, %keys: tensor<4x2x256x2x33xi8>, %values: tensor<4x2x256x2x33xi8>, %layer: index, %len: index, %out: tensor<1x2x1x64xf32>) -> tensor<1x2x1x64xf32> {
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
  %scores = linalg.contract indexing_maps = [#q, #k, #s] ins(%q, %k : tensor<1x2x1x64xf32>, tensor<2x?x64xf32>) outs(%z : tensor<2x1x1x?xf32>) -> tensor<2x1x1x?xf32>
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
func.func @call(%q: tensor<1x2x1x64xf32>, %keys: tensor<4x2x256x2x33xi8>, %values: tensor<4x2x256x2x33xi8>, %len: index, %out: tensor<1x2x1x64xf32>) -> tensor<1x2x1x64xf32> {
  %layer = arith.constant 1 : index
  %0 = call @one(%q, %keys, %values, %layer, %len, %out) : (tensor<1x2x1x64xf32>, tensor<4x2x256x2x33xi8>, tensor<4x2x256x2x33xi8>, index, index, tensor<1x2x1x64xf32>) -> tensor<1x2x1x64xf32>
  return %0 : tensor<1x2x1x64xf32>
}
