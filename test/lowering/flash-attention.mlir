// RUN: cria-opt --flash-attention --canonicalize --split-input-file %s | FileCheck %s
// RUN: cria-opt --flash-attention --split-input-file --remarks-filter=flash-.* %s 2>&1 >/dev/null | FileCheck %s --check-prefix=REMARK --implicit-check-not=remark:

#q = affine_map<(h, g, t, s, d) -> (t, h, g, d)>
#k = affine_map<(h, g, t, s, d) -> (h, s, d)>
#s = affine_map<(h, g, t, s, d) -> (h, g, t, s)>
#p = affine_map<(t, h, g, d, s) -> (h, g, t, s)>
#v = affine_map<(t, h, g, d, s) -> (h, s, d)>
#o = affine_map<(t, h, g, d, s) -> (t, h, g, d)>
#same = affine_map<(h, g, t, s) -> (h, g, t, s)>
#bias = affine_map<(h, g, t, s) -> (h, s)>
#half = affine_map<(h, g, t, s) -> (h, g, t)>

// No scores of all keys are left, and what is done to one is done in a block:
// here a bias for each head and key, read where it lies. The result goes where it
// was put. A bias that there is none of is not read. Blocks of 64 keys are read to the last key that the last token sees.
// CHECK-LABEL: func @causal
// CHECK-SAME: (%[[Q:[^:]*]]: tensor<?x2x3x16xbf16>, %[[K:[^:]*]]: tensor<4x2x256x16xbf16>, %{{[^:]*}}: tensor<4x2x256x16xbf16>, %{{[^:]*}}: index, %[[P:[^:]*]]: index, %[[LEN:[^:]*]]: index, %[[BIAS:[^:]*]]: tensor<2x?xf32>, %[[OUT:[^:]*]]: tensor<?x2x3x16xbf16>)
// CHECK-NOT: linalg.softmax
// CHECK: scf.forall (%[[HEAD:.*]], %{{.*}}) in (2, %{{.*}}) shared_outs(%{{.*}} = %[[OUT]])
// CHECK: %[[SEEN:.*]] = affine.apply #{{.*}}%[[P]]
// CHECK: %[[END:.*]] = arith.minsi %[[LEN]], %[[SEEN]] : index
// CHECK: %[[BLOCKS:.*]] = affine.apply #{{.*}}(%[[END]])
// CHECK: scf.for %[[BLOCK:.*]] = %{{.*}} to %[[BLOCKS]]
// CHECK: tensor.extract_slice %[[K]][%{{.*}}, %[[HEAD]], %{{.*}}, 0] [1, 1, 64, 16]
// CHECK: linalg.generic
// CHECK: linalg.index 0 : index
// CHECK: %[[LAST:.*]] = arith.subi %{{.*}}, %{{.*}} : index
// CHECK: %[[KEY:.*]] = arith.minui %{{.*}}, %[[LAST]] : index
// CHECK: tensor.extract %[[BIAS]][%{{.*}}, %[[KEY]]]
// CHECK: %[[SHOW:.*]] = arith.cmpi sle
// CHECK: %[[SUM:.*]] = arith.addf
// CHECK: arith.select %[[SHOW]], %[[SUM]]
// CHECK: math.exp
// CHECK: arith.divf
// CHECK-NEXT: arith.truncf %{{.*}} : f32 to bf16
// CHECK-NOT: tensor<2x3x?x?xf32>
func.func @causal(%q: tensor<?x2x3x16xbf16>, %keys: tensor<4x2x256x16xbf16>, %values: tensor<4x2x256x16xbf16>, %layer: index, %pos: index, %len: index, %bias: tensor<2x?xf32>, %out: tensor<?x2x3x16xbf16>) -> tensor<?x2x3x16xbf16> {
  %zero = arith.constant 0.0 : f32
  %lowest = arith.constant -3.40282347E+38 : f32
  %c0 = arith.constant 0 : index
  %n = tensor.dim %q, %c0 : tensor<?x2x3x16xbf16>
  %k = tensor.extract_slice %keys[%layer, 0, 0, 0] [1, 2, %len, 16] [1, 1, 1, 1] : tensor<4x2x256x16xbf16> to tensor<2x?x16xbf16>
  %e = tensor.empty(%n, %len) : tensor<2x3x?x?xf32>
  %z = linalg.fill ins(%zero : f32) outs(%e : tensor<2x3x?x?xf32>) -> tensor<2x3x?x?xf32>
  %scores = linalg.contract indexing_maps = [#q, #k, #s] ins(%q, %k : tensor<?x2x3x16xbf16>, tensor<2x?x16xbf16>) outs(%z : tensor<2x3x?x?xf32>) -> tensor<2x3x?x?xf32>
  %masked = linalg.generic {indexing_maps = [#same, #bias, #same], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%scores, %bias : tensor<2x3x?x?xf32>, tensor<2x?xf32>) outs(%e : tensor<2x3x?x?xf32>) {
  ^bb0(%x: f32, %b: f32, %o: f32):
    %t = linalg.index 2 : index
    %s = linalg.index 3 : index
    %p = arith.addi %pos, %t : index
    %seen = arith.cmpi sle, %s, %p : index
    %sum = arith.addf %x, %b : f32
    %y = arith.select %seen, %sum, %lowest : f32
    linalg.yield %y : f32
  } -> tensor<2x3x?x?xf32>
  %soft = linalg.softmax dimension(3) ins(%masked : tensor<2x3x?x?xf32>) outs(%e : tensor<2x3x?x?xf32>) -> tensor<2x3x?x?xf32>
  %shown = linalg.generic {indexing_maps = [#same, #same], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%soft : tensor<2x3x?x?xf32>) outs(%e : tensor<2x3x?x?xf32>) {
  ^bb0(%x: f32, %o: f32):
    %t = linalg.index 2 : index
    %s = linalg.index 3 : index
    %p = arith.addi %pos, %t : index
    %seen = arith.cmpi sle, %s, %p : index
    %y = arith.select %seen, %x, %zero : f32
    linalg.yield %y : f32
  } -> tensor<2x3x?x?xf32>
  %v = tensor.extract_slice %values[%layer, 0, 0, 0] [1, 2, %len, 16] [1, 1, 1, 1] : tensor<4x2x256x16xbf16> to tensor<2x?x16xbf16>
  %ef = tensor.empty(%n) : tensor<?x2x3x16xf32>
  %zf = linalg.fill ins(%zero : f32) outs(%ef : tensor<?x2x3x16xf32>) -> tensor<?x2x3x16xf32>
  %pv = linalg.contract indexing_maps = [#p, #v, #o] ins(%shown, %v : tensor<2x3x?x?xf32>, tensor<2x?x16xbf16>) outs(%zf : tensor<?x2x3x16xf32>) -> tensor<?x2x3x16xf32>
  %eb = tensor.empty(%n) : tensor<?x2x3x16xbf16>
  %r = linalg.generic {indexing_maps = [#same, #same], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%pv : tensor<?x2x3x16xf32>) outs(%eb : tensor<?x2x3x16xbf16>) {
  ^bb0(%x: f32, %o: bf16):
    %y = arith.truncf %x : f32 to bf16
    linalg.yield %y : bf16
  } -> tensor<?x2x3x16xbf16>
  %m = bufferization.materialize_in_destination %r in %out : (tensor<?x2x3x16xbf16>, tensor<?x2x3x16xbf16>) -> tensor<?x2x3x16xbf16>
  return %m : tensor<?x2x3x16xbf16>
}

// -----

// A softmax that is no attention is its parts: a maximum, exponents, their sum,
// in any order.
// CHECK-LABEL: func @alone
// CHECK-NOT: linalg.softmax
// CHECK: arith.maxnumf
// CHECK: math.exp
// CHECK: arith.addf {{.*}} fastmath<reassoc>
// CHECK: arith.divf
// REMARK: remark: [Missed] scores-stored | Category:flash-attention | Function=alone | Op=linalg.softmax, Reason="its input does not come from a product that only the softmax reads"
func.func @alone(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %e = tensor.empty() : tensor<4x8xf32>
  %p = linalg.softmax dimension(1) ins(%x : tensor<4x8xf32>) outs(%e : tensor<4x8xf32>) -> tensor<4x8xf32>
  return %p : tensor<4x8xf32>
}

// -----

#q = affine_map<(h, g, t, s, d) -> (t, h, g, d)>
#k = affine_map<(h, g, t, s, d) -> (h, s, d)>
#s = affine_map<(h, g, t, s, d) -> (h, g, t, s)>
#p = affine_map<(t, h, g, d, s) -> (h, g, t, s)>
#v = affine_map<(t, h, g, d, s) -> (h, s, d)>
#o = affine_map<(t, h, g, d, s) -> (t, h, g, d)>
#same = affine_map<(h, g, t, s) -> (h, g, t, s)>

// A row that sees nothing would be the mean of all values, not zero.
// CHECK-LABEL: func @blind
// CHECK-NOT: scf.forall
// REMARK: remark: [Missed] scores-stored | Category:flash-attention | {{.*}}Reason="the keys masked before it are not zeroed after it"
func.func @blind(%q: tensor<1x2x3x16xf32>, %keys: tensor<4x2x256x16xf32>, %values: tensor<4x2x256x16xf32>, %limit: index) -> tensor<1x2x3x16xf32> {
  %zero = arith.constant 0.0 : f32
  %lowest = arith.constant 0xFF800000 : f32
  %k = tensor.extract_slice %keys[0, 0, 0, 0] [1, 2, 64, 16] [1, 1, 1, 1] : tensor<4x2x256x16xf32> to tensor<2x64x16xf32>
  %e = tensor.empty() : tensor<2x3x1x64xf32>
  %z = linalg.fill ins(%zero : f32) outs(%e : tensor<2x3x1x64xf32>) -> tensor<2x3x1x64xf32>
  %scores = linalg.contract indexing_maps = [#q, #k, #s] ins(%q, %k : tensor<1x2x3x16xf32>, tensor<2x64x16xf32>) outs(%z : tensor<2x3x1x64xf32>) -> tensor<2x3x1x64xf32>
  %masked = linalg.generic {indexing_maps = [#same, #same], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%scores : tensor<2x3x1x64xf32>) outs(%e : tensor<2x3x1x64xf32>) {
  ^bb0(%x: f32, %o: f32):
    %s = linalg.index 3 : index
    %seen = arith.cmpi slt, %s, %limit : index
    %y = arith.select %seen, %x, %lowest : f32
    linalg.yield %y : f32
  } -> tensor<2x3x1x64xf32>
  %soft = linalg.softmax dimension(3) ins(%masked : tensor<2x3x1x64xf32>) outs(%e : tensor<2x3x1x64xf32>) -> tensor<2x3x1x64xf32>
  %v = tensor.extract_slice %values[0, 0, 0, 0] [1, 2, 64, 16] [1, 1, 1, 1] : tensor<4x2x256x16xf32> to tensor<2x64x16xf32>
  %ef = tensor.empty() : tensor<1x2x3x16xf32>
  %zf = linalg.fill ins(%zero : f32) outs(%ef : tensor<1x2x3x16xf32>) -> tensor<1x2x3x16xf32>
  %pv = linalg.contract indexing_maps = [#p, #v, #o] ins(%soft, %v : tensor<2x3x1x64xf32>, tensor<2x64x16xf32>) outs(%zf : tensor<1x2x3x16xf32>) -> tensor<1x2x3x16xf32>
  return %pv : tensor<1x2x3x16xf32>
}
