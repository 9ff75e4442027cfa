// With AMX, or pairs of bf16 on x86, products of bf16 are made of bf16: queries and blocks
// of the cache as they are, probabilities rounded.
// RUN: cria-opt --attach-target="vector-unit={amx}" --flash-attention --canonicalize %s | FileCheck %s
// RUN: cria-opt --attach-target="vector-unit={dot_bf16}" --flash-attention --canonicalize %s | FileCheck %s
// RUN: cria-opt --attach-target="vector-unit={lanes=4,registers=32,dot_bf16,neon}" --flash-attention --canonicalize %s | FileCheck %s --check-prefix=HALF
// RUN: sed 's/bf16/f16/g' %s | cria-opt --attach-target="vector-unit={amx}" --flash-attention | FileCheck %s --check-prefix=HALF
// RUN: sed 's/x32xbf16/x48xbf16/g; s/x32xf32/x48xf32/g; s/, 32]/, 48]/g' %s | cria-opt --attach-target="vector-unit={amx}" --flash-attention | FileCheck %s --check-prefix=ODD

#q = affine_map<(h, g, t, s, d) -> (t, h, g, d)>
#k = affine_map<(h, g, t, s, d) -> (h, s, d)>
#s = affine_map<(h, g, t, s, d) -> (h, g, t, s)>
#p = affine_map<(t, h, g, d, s) -> (h, g, t, s)>
#v = affine_map<(t, h, g, d, s) -> (h, s, d)>
#o = affine_map<(t, h, g, d, s) -> (t, h, g, d)>

// CHECK-LABEL: func @all
// CHECK: %[[Q:.*]] = tensor.collapse_shape %{{.*}} : tensor<32x16x4xbf16> into tensor<32x64xbf16>
// CHECK: scf.for
// CHECK: %[[K:.*]] = tensor.extract_slice {{.*}} to tensor<64x32xbf16>
// CHECK: %[[V:.*]] = tensor.extract_slice {{.*}} to tensor<64x32xbf16>
// CHECK: ins(%[[K]], %[[Q]] : tensor<64x32xbf16>, tensor<32x64xbf16>) outs(%{{.*}} : tensor<64x64xf32>)
// CHECK: math.exp
// CHECK: %[[P:.*]] = linalg.generic {{.*}} outs(%{{.*}} : tensor<64x64xbf16>)
// CHECK: arith.truncf
// CHECK: ins(%[[V]], %[[P]] : tensor<64x32xbf16>, tensor<64x64xbf16>) outs(%{{.*}} : tensor<32x64xf32>)

// f16, and heads that are no whole tiles, are multiplied in f32.
// HALF-LABEL: func @all
// HALF: scf.for
// HALF: outs(%{{.*}} : tensor<64x32xf32>)
// ODD-LABEL: func @all
// ODD: scf.for
// ODD: outs(%{{.*}} : tensor<64x48xf32>)
func.func @all(%q: tensor<?x2x4x32xbf16>, %keys: tensor<4x2x256x32xbf16>, %values: tensor<4x2x256x32xbf16>, %layer: index, %len: index, %out: tensor<?x2x4x32xbf16>) -> tensor<?x2x4x32xbf16> {
  %zero = arith.constant 0.0 : f32
  %c0 = arith.constant 0 : index
  %n = tensor.dim %q, %c0 : tensor<?x2x4x32xbf16>
  %k = tensor.extract_slice %keys[%layer, 0, 0, 0] [1, 2, %len, 32] [1, 1, 1, 1] : tensor<4x2x256x32xbf16> to tensor<2x?x32xbf16>
  %e = tensor.empty(%n, %len) : tensor<2x4x?x?xf32>
  %z = linalg.fill ins(%zero : f32) outs(%e : tensor<2x4x?x?xf32>) -> tensor<2x4x?x?xf32>
  %scores = linalg.contract indexing_maps = [#q, #k, #s] ins(%q, %k : tensor<?x2x4x32xbf16>, tensor<2x?x32xbf16>) outs(%z : tensor<2x4x?x?xf32>) -> tensor<2x4x?x?xf32>
  %soft = linalg.softmax dimension(3) ins(%scores : tensor<2x4x?x?xf32>) outs(%e : tensor<2x4x?x?xf32>) -> tensor<2x4x?x?xf32>
  %v = tensor.extract_slice %values[%layer, 0, 0, 0] [1, 2, %len, 32] [1, 1, 1, 1] : tensor<4x2x256x32xbf16> to tensor<2x?x32xbf16>
  %ef = tensor.empty(%n) : tensor<?x2x4x32xf32>
  %zf = linalg.fill ins(%zero : f32) outs(%ef : tensor<?x2x4x32xf32>) -> tensor<?x2x4x32xf32>
  %pv = linalg.contract indexing_maps = [#p, #v, #o] ins(%soft, %v : tensor<2x4x?x?xf32>, tensor<2x?x32xbf16>) outs(%zf : tensor<?x2x4x32xf32>) -> tensor<?x2x4x32xf32>
  %same = tensor.empty(%n) : tensor<?x2x4x32xbf16>
  %r = linalg.generic {indexing_maps = [affine_map<(t, h, g, d) -> (t, h, g, d)>, affine_map<(t, h, g, d) -> (t, h, g, d)>], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%pv : tensor<?x2x4x32xf32>) outs(%same : tensor<?x2x4x32xbf16>) {
  ^bb0(%x: f32, %o: bf16):
    %y = arith.truncf %x : f32 to bf16
    linalg.yield %y : bf16
  } -> tensor<?x2x4x32xbf16>
  %m = bufferization.materialize_in_destination %r in %out : (tensor<?x2x4x32xbf16>, tensor<?x2x4x32xbf16>) -> tensor<?x2x4x32xbf16>
  return %m : tensor<?x2x4x32xbf16>
}
