// RUN: cria-opt --convert-linalg-to-gpu --canonicalize --cse --split-input-file %s | FileCheck %s
// RUN: cria-opt --convert-linalg-to-gpu --split-input-file --remarks-filter=convert-linalg-to-gpu %s 2>&1 >/dev/null | FileCheck %s --check-prefix=REMARK --implicit-check-not=remark:

#q = affine_map<(h, g, t, s, d) -> (t, h, g, d)>
#k = affine_map<(h, g, t, s, d) -> (h, s, d)>
#s = affine_map<(h, g, t, s, d) -> (h, g, t, s)>
#p = affine_map<(t, h, g, d, s) -> (h, g, t, s)>
#v = affine_map<(t, h, g, d, s) -> (h, s, d)>
#o = affine_map<(t, h, g, d, s) -> (t, h, g, d)>
#same = affine_map<(h, g, t, s) -> (h, g, t, s)>
#bias = affine_map<(h, g, t, s) -> (h, s)>

// One token, query heads that share keys: a block for each KV head and split of its
// keys. A split leaves its state in memory of the launch; the block that arrives last
// merges them. A layer is a part of the caches. Warps copy tiles of 16 keys, in turn,
// and meet around the copies. A product has the heads, with zeros below, by 8 keys; the
// powers are the right operand of the next, and its sums are rescaled by what lanes of
// other heads say.
// CHECK-LABEL: func private @one.launch
// CHECK: memref.subview %{{.*}}[%[[LAYER:.*]], 0, 0, 0] [1, 2, 256, 16]
// CHECK: memref.subview %{{.*}}[%[[LAYER]], 0, 0, 0] [1, 2, 256, 16]
// CHECK: memref.alloc() : memref<48xf32>
// CHECK: memref.alloc() : memref<384xf32>
// CHECK: memref.get_global @one.zeros : memref<2xi32>
// CHECK: gpu.launch_func @kernels::@one blocks in (%c2, %c4, %c1) threads in (%c128, %c1, %c1)
// CHECK-LABEL: gpu.func @one
// CHECK-COUNT-2: nvvm.cp.async.commit.group
// CHECK: scf.for %{{.*}} step %c64_i32
// CHECK: nvvm.cp.async.wait.group 1
// CHECK-NEXT: nvvm.bar.warp.sync
// CHECK: nvgpu.ldmatrix {{.*}}transpose = false
// CHECK-COUNT-2: nvvm.mma.sync A[%[[Q:.*]], %c0_i32, %{{.*}}, %c0_i32]
// CHECK: nvvm.bar.warp.sync
// CHECK: nvgpu.device_async_copy
// CHECK: nvvm.cp.async.commit.group
// CHECK: %[[INSIDE:.*]] = arith.cmpi sgt, %[[LEFT:.*]], %c0_i32
// CHECK-NEXT: %[[SCORE:.*]] = arith.select %[[INSIDE]], %{{.*}}, %{{.*}} : f32
// CHECK-NEXT: arith.cmpi sgt, %[[LEFT]], %c1_i32
// CHECK: arith.maxnumf %{{.*}}, %[[SCORE]]
// CHECK: math.fma %[[SCORE]]
// CHECK-COUNT-2: gpu.shuffle idx
// CHECK: nvvm.cp.async.wait.group 1
// CHECK-NEXT: nvvm.bar.warp.sync
// CHECK: nvgpu.ldmatrix {{.*}}transpose = true
// CHECK: nvvm.mma.sync A[%{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}] B[%{{.*}}, %{{.*}}] C[
// CHECK-NOT: nvvm.mma.sync
// CHECK: nvvm.bar.warp.sync
// CHECK: nvvm.cp.async.commit.group
// CHECK: llvm.atomicrmw uinc_wrap
func.func private @one(%q: tensor<1x2x3x16xbf16>, %keys: tensor<4x2x256x16xbf16>, %values: tensor<4x2x256x16xbf16>, %layer: index, %pos: index, %len: index, %out: tensor<1x2x3x16xbf16>) -> tensor<1x2x3x16xbf16> {
  %zero = arith.constant 0.0 : f32
  %lowest = arith.constant -3.40282347E+38 : f32
  %scale = arith.constant 0.25 : f32
  %k = tensor.extract_slice %keys[%layer, 0, 0, 0] [1, 2, %len, 16] [1, 1, 1, 1] : tensor<4x2x256x16xbf16> to tensor<2x?x16xbf16>
  %e = tensor.empty(%len) : tensor<2x3x1x?xf32>
  %z = linalg.fill ins(%zero : f32) outs(%e : tensor<2x3x1x?xf32>) -> tensor<2x3x1x?xf32>
  %scores = linalg.contract indexing_maps = [#q, #k, #s] ins(%q, %k : tensor<1x2x3x16xbf16>, tensor<2x?x16xbf16>) outs(%z : tensor<2x3x1x?xf32>) -> tensor<2x3x1x?xf32>
  %in = linalg.generic {indexing_maps = [#same, #same], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%scores : tensor<2x3x1x?xf32>) outs(%e : tensor<2x3x1x?xf32>) {
  ^bb0(%x: f32, %o: f32):
    %shown = arith.mulf %x, %scale : f32
    linalg.yield %shown : f32
  } -> tensor<2x3x1x?xf32>
  %soft = linalg.softmax dimension(3) ins(%in : tensor<2x3x1x?xf32>) outs(%e : tensor<2x3x1x?xf32>) -> tensor<2x3x1x?xf32>
  %v = tensor.extract_slice %values[%layer, 0, 0, 0] [1, 2, %len, 16] [1, 1, 1, 1] : tensor<4x2x256x16xbf16> to tensor<2x?x16xbf16>
  %ef = tensor.empty() : tensor<1x2x3x16xf32>
  %zf = linalg.fill ins(%zero : f32) outs(%ef : tensor<1x2x3x16xf32>) -> tensor<1x2x3x16xf32>
  %pv = linalg.contract indexing_maps = [#p, #v, #o] ins(%soft, %v : tensor<2x3x1x?xf32>, tensor<2x?x16xbf16>) outs(%zf : tensor<1x2x3x16xf32>) -> tensor<1x2x3x16xf32>
  %eb = tensor.empty() : tensor<1x2x3x16xbf16>
  %r = linalg.generic {indexing_maps = [#same, #same], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%pv : tensor<1x2x3x16xf32>) outs(%eb : tensor<1x2x3x16xbf16>) {
  ^bb0(%x: f32, %o: bf16):
    %y = arith.truncf %x : f32 to bf16
    linalg.yield %y : bf16
  } -> tensor<1x2x3x16xbf16>
  %m = bufferization.materialize_in_destination %r in %out : (tensor<1x2x3x16xbf16>, tensor<1x2x3x16xbf16>) -> tensor<1x2x3x16xbf16>
  return %m : tensor<1x2x3x16xbf16>
}
func.func @layers(%q: tensor<1x2x3x16xbf16>, %keys: tensor<4x2x256x16xbf16>, %values: tensor<4x2x256x16xbf16>, %pos: index, %len: index, %out: tensor<1x2x3x16xbf16>) -> tensor<1x2x3x16xbf16> {
  %layer = arith.constant 3 : index
  %r = func.call @one(%q, %keys, %values, %layer, %pos, %len, %out) : (tensor<1x2x3x16xbf16>, tensor<4x2x256x16xbf16>, tensor<4x2x256x16xbf16>, index, index, index, tensor<1x2x3x16xbf16>) -> tensor<1x2x3x16xbf16>
  return %r : tensor<1x2x3x16xbf16>
}

// -----

#q = affine_map<(h, g, t, s, d) -> (t, h, g, d)>
#k = affine_map<(h, g, t, s, d) -> (h, s, d)>
#s = affine_map<(h, g, t, s, d) -> (h, g, t, s)>
#p = affine_map<(t, h, g, d, s) -> (h, g, t, s)>
#v = affine_map<(t, h, g, d, s) -> (h, s, d)>
#o = affine_map<(t, h, g, d, s) -> (t, h, g, d)>
#same = affine_map<(h, g, t, s) -> (h, g, t, s)>
#bias = affine_map<(h, g, t, s) -> (h, s)>

// The same in f32, which no tensor core multiplies. The scale is multiplied with the
// query, by log2(e), and a key is compared with the split's end alone. Keys and values
// are copied two turns ahead, from before the query is read on.
// CHECK-LABEL: gpu.func @floats
// CHECK: %[[FACTOR:.*]] = arith.constant 0.360673755 : f32
// CHECK-COUNT-2: nvvm.cp.async.commit.group
// CHECK: arith.select %{{.*}}, %[[FACTOR]], %{{.*}} : f32
// CHECK: scf.for
// CHECK: nvvm.cp.async.wait.group 1
// CHECK-COUNT-4: nvgpu.device_async_copy
// CHECK: nvvm.cp.async.commit.group
// CHECK: %[[INSIDE:.*]] = arith.cmpi slt
// CHECK-COUNT-2: gpu.shuffle xor
// CHECK-NEXT: %[[SUM:.*]] = arith.addf
// CHECK-NEXT: %[[SCORE:.*]] = arith.select %[[INSIDE]], %[[SUM]], %{{.*}} : f32
// CHECK: arith.maxnumf %{{.*}}, %[[SCORE]]
// CHECK: llvm.atomicrmw uinc_wrap
func.func private @floats(%q: tensor<1x2x3x16xf32>, %keys: tensor<4x2x256x16xf32>, %values: tensor<4x2x256x16xf32>, %layer: index, %pos: index, %len: index, %out: tensor<1x2x3x16xf32>) -> tensor<1x2x3x16xf32> {
  %zero = arith.constant 0.0 : f32
  %lowest = arith.constant -3.40282347E+38 : f32
  %scale = arith.constant 0.25 : f32
  %k = tensor.extract_slice %keys[%layer, 0, 0, 0] [1, 2, %len, 16] [1, 1, 1, 1] : tensor<4x2x256x16xf32> to tensor<2x?x16xf32>
  %e = tensor.empty(%len) : tensor<2x3x1x?xf32>
  %z = linalg.fill ins(%zero : f32) outs(%e : tensor<2x3x1x?xf32>) -> tensor<2x3x1x?xf32>
  %scores = linalg.contract indexing_maps = [#q, #k, #s] ins(%q, %k : tensor<1x2x3x16xf32>, tensor<2x?x16xf32>) outs(%z : tensor<2x3x1x?xf32>) -> tensor<2x3x1x?xf32>
  %in = linalg.generic {indexing_maps = [#same, #same], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%scores : tensor<2x3x1x?xf32>) outs(%e : tensor<2x3x1x?xf32>) {
  ^bb0(%x: f32, %o: f32):
    %shown = arith.mulf %x, %scale : f32
    linalg.yield %shown : f32
  } -> tensor<2x3x1x?xf32>
  %soft = linalg.softmax dimension(3) ins(%in : tensor<2x3x1x?xf32>) outs(%e : tensor<2x3x1x?xf32>) -> tensor<2x3x1x?xf32>
  %v = tensor.extract_slice %values[%layer, 0, 0, 0] [1, 2, %len, 16] [1, 1, 1, 1] : tensor<4x2x256x16xf32> to tensor<2x?x16xf32>
  %ef = tensor.empty() : tensor<1x2x3x16xf32>
  %zf = linalg.fill ins(%zero : f32) outs(%ef : tensor<1x2x3x16xf32>) -> tensor<1x2x3x16xf32>
  %pv = linalg.contract indexing_maps = [#p, #v, #o] ins(%soft, %v : tensor<2x3x1x?xf32>, tensor<2x?x16xf32>) outs(%zf : tensor<1x2x3x16xf32>) -> tensor<1x2x3x16xf32>
  %m = bufferization.materialize_in_destination %pv in %out : (tensor<1x2x3x16xf32>, tensor<1x2x3x16xf32>) -> tensor<1x2x3x16xf32>
  return %m : tensor<1x2x3x16xf32>
}

// -----

#q = affine_map<(h, g, t, s, d) -> (t, h, g, d)>
#k = affine_map<(h, g, t, s, d) -> (h, s, d)>
#s = affine_map<(h, g, t, s, d) -> (h, g, t, s)>
#p = affine_map<(t, h, g, d, s) -> (h, g, t, s)>
#v = affine_map<(t, h, g, d, s) -> (h, s, d)>
#o = affine_map<(t, h, g, d, s) -> (t, h, g, d)>
#same = affine_map<(h, g, t, s) -> (h, g, t, s)>
#bias = affine_map<(h, g, t, s) -> (h, s)>

// Many tokens: tensor cores, the last tokens first. The mask is a comparison with
// the end of what the row sees, in tiles that it sees a part of; its payload is not
// there. The scale and log2(e) are multiplied with the distance to the maximum.
// CHECK-LABEL: gpu.func @causal
// CHECK: %[[BLOCKS:.*]] = gpu.grid_dim y
// CHECK: arith.subi
// CHECK: nvvm.mma.sync
// CHECK: %[[WHOLE:.*]] = arith.andi
// CHECK-NEXT: %[[SCORES:.*]]:32 = scf.if %[[WHOLE]]
// CHECK-NEXT: scf.yield
// CHECK-NEXT: else
// CHECK: %[[BEFORE:.*]] = arith.cmpi slt, %{{.*}}, %[[END:.*]] : i32
// CHECK-NEXT: arith.select %[[BEFORE]], %{{.*}}, %[[HIDDEN:.*]] : f32
// CHECK-NOT: arith.cmpi sle
// CHECK: %[[LESS:.*]] = arith.subf
// CHECK-NEXT: %[[SHRINKS:.*]] = arith.mulf %[[LESS]]
// CHECK-NEXT: %[[BY:.*]] = math.exp2 %[[SHRINKS]]
// CHECK-NEXT: arith.mulf %{{.*}}, %[[BY]]
// CHECK-NEXT: %[[FAR:.*]] = arith.mulf %{{.*}}, %[[MINUS:.*]] fastmath
// CHECK: %[[POWER:.*]] = math.fma %[[SCORES]]#0, %{{.*}}, %[[FAR]]
// CHECK-NEXT: math.exp2 %[[POWER]]
func.func private @causal(%q: tensor<?x2x3x16xbf16>, %keys: tensor<4x2x256x16xbf16>, %values: tensor<4x2x256x16xbf16>, %layer: index, %pos: index, %len: index, %out: tensor<?x2x3x16xbf16>) -> tensor<?x2x3x16xbf16> {
  %zero = arith.constant 0.0 : f32
  %lowest = arith.constant -3.40282347E+38 : f32
  %scale = arith.constant 0.25 : f32
  %c0 = arith.constant 0 : index
  %n = tensor.dim %q, %c0 : tensor<?x2x3x16xbf16>
  %k = tensor.extract_slice %keys[%layer, 0, 0, 0] [1, 2, %len, 16] [1, 1, 1, 1] : tensor<4x2x256x16xbf16> to tensor<2x?x16xbf16>
  %e = tensor.empty(%n, %len) : tensor<2x3x?x?xf32>
  %z = linalg.fill ins(%zero : f32) outs(%e : tensor<2x3x?x?xf32>) -> tensor<2x3x?x?xf32>
  %scores = linalg.contract indexing_maps = [#q, #k, #s] ins(%q, %k : tensor<?x2x3x16xbf16>, tensor<2x?x16xbf16>) outs(%z : tensor<2x3x?x?xf32>) -> tensor<2x3x?x?xf32>
  %in = linalg.generic {indexing_maps = [#same, #same], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%scores : tensor<2x3x?x?xf32>) outs(%e : tensor<2x3x?x?xf32>) {
  ^bb0(%x: f32, %o: f32):
    %shown = arith.mulf %x, %scale : f32
    %t = linalg.index 2 : index
    %s = linalg.index 3 : index
    %at = arith.addi %pos, %t : index
    %seen = arith.cmpi sle, %s, %at : index
    %y = arith.select %seen, %shown, %lowest : f32
    linalg.yield %y : f32
  } -> tensor<2x3x?x?xf32>
  %soft = linalg.softmax dimension(3) ins(%in : tensor<2x3x?x?xf32>) outs(%e : tensor<2x3x?x?xf32>) -> tensor<2x3x?x?xf32>
  %seen_p = linalg.generic {indexing_maps = [#same, #same], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%soft : tensor<2x3x?x?xf32>) outs(%e : tensor<2x3x?x?xf32>) {
  ^bb0(%x: f32, %o: f32):
    %t = linalg.index 2 : index
    %s = linalg.index 3 : index
    %at = arith.addi %pos, %t : index
    %seen = arith.cmpi sle, %s, %at : index
    %y = arith.select %seen, %x, %zero : f32
    linalg.yield %y : f32
  } -> tensor<2x3x?x?xf32>
  %v = tensor.extract_slice %values[%layer, 0, 0, 0] [1, 2, %len, 16] [1, 1, 1, 1] : tensor<4x2x256x16xbf16> to tensor<2x?x16xbf16>
  %ef = tensor.empty(%n) : tensor<?x2x3x16xf32>
  %zf = linalg.fill ins(%zero : f32) outs(%ef : tensor<?x2x3x16xf32>) -> tensor<?x2x3x16xf32>
  %pv = linalg.contract indexing_maps = [#p, #v, #o] ins(%seen_p, %v : tensor<2x3x?x?xf32>, tensor<2x?x16xbf16>) outs(%zf : tensor<?x2x3x16xf32>) -> tensor<?x2x3x16xf32>
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

#q = affine_map<(h, g, t, s, d) -> (t, h, g, d)>
#k = affine_map<(h, g, t, s, d) -> (h, s, d)>
#s = affine_map<(h, g, t, s, d) -> (h, g, t, s)>
#p = affine_map<(t, h, g, d, s) -> (h, g, t, s)>
#v = affine_map<(t, h, g, d, s) -> (h, s, d)>
#o = affine_map<(t, h, g, d, s) -> (t, h, g, d)>
#same = affine_map<(h, g, t, s) -> (h, g, t, s)>
#bias = affine_map<(h, g, t, s) -> (h, s)>

// What else is done to a score is its payload, in whole tiles too, which reads its
// table at a key that exists; log2(e) is multiplied with the distance to the maximum.
// CHECK-LABEL: gpu.func @bias
// CHECK: nvvm.mma.sync
// CHECK: scf.if
// CHECK: memref.load %{{.*}} : memref<512xf32>
// CHECK-NEXT: arith.addf
// CHECK-NOT: arith.select
// CHECK: else
// CHECK: %[[BEFORE:.*]] = arith.cmpi slt
// CHECK-NEXT: arith.minsi
// CHECK: %[[BIAS:.*]] = memref.load %{{.*}} : memref<512xf32>
// CHECK-NEXT: %[[SUM:.*]] = arith.addf %{{.*}}, %[[BIAS]] : f32
// CHECK-NEXT: arith.select %[[BEFORE]], %[[SUM]]
// CHECK-NOT: arith.cmpi sle
// CHECK: %[[POWER:.*]] = math.fma
// CHECK-NEXT: math.exp2 %[[POWER]]
func.func private @bias(%q: tensor<?x2x3x16xbf16>, %keys: tensor<4x2x256x16xbf16>, %values: tensor<4x2x256x16xbf16>, %layer: index, %pos: index, %len: index, %bias: tensor<2x256xf32>, %out: tensor<?x2x3x16xbf16>) -> tensor<?x2x3x16xbf16> {
  %zero = arith.constant 0.0 : f32
  %lowest = arith.constant -3.40282347E+38 : f32
  %scale = arith.constant 0.25 : f32
  %c0 = arith.constant 0 : index
  %n = tensor.dim %q, %c0 : tensor<?x2x3x16xbf16>
  %k = tensor.extract_slice %keys[%layer, 0, 0, 0] [1, 2, %len, 16] [1, 1, 1, 1] : tensor<4x2x256x16xbf16> to tensor<2x?x16xbf16>
  %e = tensor.empty(%n, %len) : tensor<2x3x?x?xf32>
  %z = linalg.fill ins(%zero : f32) outs(%e : tensor<2x3x?x?xf32>) -> tensor<2x3x?x?xf32>
  %scores = linalg.contract indexing_maps = [#q, #k, #s] ins(%q, %k : tensor<?x2x3x16xbf16>, tensor<2x?x16xbf16>) outs(%z : tensor<2x3x?x?xf32>) -> tensor<2x3x?x?xf32>
  %b = tensor.extract_slice %bias[0, 0] [2, %len] [1, 1] : tensor<2x256xf32> to tensor<2x?xf32>
  %in = linalg.generic {indexing_maps = [#same, #bias, #same], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%scores, %b : tensor<2x3x?x?xf32>, tensor<2x?xf32>) outs(%e : tensor<2x3x?x?xf32>) {
  ^bb0(%x: f32, %bk: f32, %o: f32):
    %shown = arith.addf %x, %bk : f32
    %t = linalg.index 2 : index
    %s = linalg.index 3 : index
    %at = arith.addi %pos, %t : index
    %seen = arith.cmpi sle, %s, %at : index
    %y = arith.select %seen, %shown, %lowest : f32
    linalg.yield %y : f32
  } -> tensor<2x3x?x?xf32>
  %soft = linalg.softmax dimension(3) ins(%in : tensor<2x3x?x?xf32>) outs(%e : tensor<2x3x?x?xf32>) -> tensor<2x3x?x?xf32>
  %seen_p = linalg.generic {indexing_maps = [#same, #same], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%soft : tensor<2x3x?x?xf32>) outs(%e : tensor<2x3x?x?xf32>) {
  ^bb0(%x: f32, %o: f32):
    %t = linalg.index 2 : index
    %s = linalg.index 3 : index
    %at = arith.addi %pos, %t : index
    %seen = arith.cmpi sle, %s, %at : index
    %y = arith.select %seen, %x, %zero : f32
    linalg.yield %y : f32
  } -> tensor<2x3x?x?xf32>
  %v = tensor.extract_slice %values[%layer, 0, 0, 0] [1, 2, %len, 16] [1, 1, 1, 1] : tensor<4x2x256x16xbf16> to tensor<2x?x16xbf16>
  %ef = tensor.empty(%n) : tensor<?x2x3x16xf32>
  %zf = linalg.fill ins(%zero : f32) outs(%ef : tensor<?x2x3x16xf32>) -> tensor<?x2x3x16xf32>
  %pv = linalg.contract indexing_maps = [#p, #v, #o] ins(%seen_p, %v : tensor<2x3x?x?xf32>, tensor<2x?x16xbf16>) outs(%zf : tensor<?x2x3x16xf32>) -> tensor<?x2x3x16xf32>
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

#q = affine_map<(h, g, t, s, d) -> (t, h, g, d)>
#k = affine_map<(h, g, t, s, d) -> (h, s, d)>
#s = affine_map<(h, g, t, s, d) -> (h, g, t, s)>
#p = affine_map<(t, h, g, d, s) -> (h, g, t, s)>
#v = affine_map<(t, h, g, d, s) -> (h, s, d)>
#o = affine_map<(t, h, g, d, s) -> (t, h, g, d)>
#same = affine_map<(h, g, t, s) -> (h, g, t, s)>
#bias = affine_map<(h, g, t, s) -> (h, s)>

// A mask that is more than bounds is asked for each key.
// CHECK-LABEL: gpu.func @even
// CHECK: scf.for
// CHECK: nvvm.cp.async.commit.group
// CHECK: %[[INSIDE:.*]] = arith.cmpi sgt
// CHECK: arith.remui %{{.*}} : index
// CHECK: %[[MASK:.*]] = arith.andi
// CHECK: %[[SEEN:.*]] = arith.andi %[[INSIDE]], %[[MASK]]
// CHECK-NEXT: arith.select %[[SEEN]]
func.func private @even(%q: tensor<1x2x3x16xbf16>, %keys: tensor<4x2x256x16xbf16>, %values: tensor<4x2x256x16xbf16>, %layer: index, %pos: index, %len: index, %out: tensor<1x2x3x16xbf16>) -> tensor<1x2x3x16xbf16> {
  %zero = arith.constant 0.0 : f32
  %lowest = arith.constant -3.40282347E+38 : f32
  %scale = arith.constant 0.25 : f32
  %k = tensor.extract_slice %keys[%layer, 0, 0, 0] [1, 2, %len, 16] [1, 1, 1, 1] : tensor<4x2x256x16xbf16> to tensor<2x?x16xbf16>
  %e = tensor.empty(%len) : tensor<2x3x1x?xf32>
  %z = linalg.fill ins(%zero : f32) outs(%e : tensor<2x3x1x?xf32>) -> tensor<2x3x1x?xf32>
  %scores = linalg.contract indexing_maps = [#q, #k, #s] ins(%q, %k : tensor<1x2x3x16xbf16>, tensor<2x?x16xbf16>) outs(%z : tensor<2x3x1x?xf32>) -> tensor<2x3x1x?xf32>
  %in = linalg.generic {indexing_maps = [#same, #same], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%scores : tensor<2x3x1x?xf32>) outs(%e : tensor<2x3x1x?xf32>) {
  ^bb0(%x: f32, %o: f32):
    %shown = arith.mulf %x, %scale : f32
    %t = linalg.index 2 : index
    %s = linalg.index 3 : index
    %at = arith.addi %pos, %t : index
    %before = arith.cmpi sle, %s, %at : index
    %two = arith.constant 2 : index
    %half = arith.remui %s, %two : index
    %even = arith.cmpi eq, %half, %t : index
    %seen = arith.andi %before, %even : i1
    %y = arith.select %seen, %shown, %lowest : f32
    linalg.yield %y : f32
  } -> tensor<2x3x1x?xf32>
  %soft = linalg.softmax dimension(3) ins(%in : tensor<2x3x1x?xf32>) outs(%e : tensor<2x3x1x?xf32>) -> tensor<2x3x1x?xf32>
  %seen_p = linalg.generic {indexing_maps = [#same, #same], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%soft : tensor<2x3x1x?xf32>) outs(%e : tensor<2x3x1x?xf32>) {
  ^bb0(%x: f32, %o: f32):
    %t = linalg.index 2 : index
    %s = linalg.index 3 : index
    %at = arith.addi %pos, %t : index
    %before = arith.cmpi sle, %s, %at : index
    %two = arith.constant 2 : index
    %half = arith.remui %s, %two : index
    %even = arith.cmpi eq, %half, %t : index
    %seen = arith.andi %before, %even : i1
    %y = arith.select %seen, %x, %zero : f32
    linalg.yield %y : f32
  } -> tensor<2x3x1x?xf32>
  %v = tensor.extract_slice %values[%layer, 0, 0, 0] [1, 2, %len, 16] [1, 1, 1, 1] : tensor<4x2x256x16xbf16> to tensor<2x?x16xbf16>
  %ef = tensor.empty() : tensor<1x2x3x16xf32>
  %zf = linalg.fill ins(%zero : f32) outs(%ef : tensor<1x2x3x16xf32>) -> tensor<1x2x3x16xf32>
  %pv = linalg.contract indexing_maps = [#p, #v, #o] ins(%seen_p, %v : tensor<2x3x1x?xf32>, tensor<2x?x16xbf16>) outs(%zf : tensor<1x2x3x16xf32>) -> tensor<1x2x3x16xf32>
  %eb = tensor.empty() : tensor<1x2x3x16xbf16>
  %r = linalg.generic {indexing_maps = [#same, #same], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%pv : tensor<1x2x3x16xf32>) outs(%eb : tensor<1x2x3x16xbf16>) {
  ^bb0(%x: f32, %o: bf16):
    %y = arith.truncf %x : f32 to bf16
    linalg.yield %y : bf16
  } -> tensor<1x2x3x16xbf16>
  %m = bufferization.materialize_in_destination %r in %out : (tensor<1x2x3x16xbf16>, tensor<1x2x3x16xbf16>) -> tensor<1x2x3x16xbf16>
  return %m : tensor<1x2x3x16xbf16>
}

// -----

#q = affine_map<(h, g, t, s, d) -> (t, h, g, d)>
#k = affine_map<(h, g, t, s, d) -> (h, s, d)>
#s = affine_map<(h, g, t, s, d) -> (h, g, t, s)>
#p = affine_map<(t, h, g, d, s) -> (h, g, t, s)>
#v = affine_map<(t, h, g, d, s) -> (h, s, d)>
#o = affine_map<(t, h, g, d, s) -> (t, h, g, d)>
#same = affine_map<(h, g, t, s) -> (h, g, t, s)>
#bias = affine_map<(h, g, t, s) -> (h, s)>

// The payload of a score of one token; log2(e) is multiplied with the distance to the
// maximum.
// CHECK-LABEL: gpu.func @squared
// CHECK: %[[LOG2E:.*]] = arith.constant 1.44269502 : f32
// CHECK: scf.for
// CHECK: %[[SQUARE:.*]] = arith.mulf %[[X:.*]], %[[X]] : f32
// CHECK-NEXT: %[[SCALED:.*]] = arith.mulf %[[SQUARE]]
// CHECK-NEXT: %[[SCORE:.*]] = arith.select %{{.*}}, %[[SCALED]]
// CHECK: math.fma %[[SCORE]], %[[LOG2E]]
func.func private @squared(%q: tensor<1x2x3x16xbf16>, %keys: tensor<4x2x256x16xbf16>, %values: tensor<4x2x256x16xbf16>, %layer: index, %pos: index, %len: index, %out: tensor<1x2x3x16xbf16>) -> tensor<1x2x3x16xbf16> {
  %zero = arith.constant 0.0 : f32
  %lowest = arith.constant -3.40282347E+38 : f32
  %scale = arith.constant 0.25 : f32
  %k = tensor.extract_slice %keys[%layer, 0, 0, 0] [1, 2, %len, 16] [1, 1, 1, 1] : tensor<4x2x256x16xbf16> to tensor<2x?x16xbf16>
  %e = tensor.empty(%len) : tensor<2x3x1x?xf32>
  %z = linalg.fill ins(%zero : f32) outs(%e : tensor<2x3x1x?xf32>) -> tensor<2x3x1x?xf32>
  %scores = linalg.contract indexing_maps = [#q, #k, #s] ins(%q, %k : tensor<1x2x3x16xbf16>, tensor<2x?x16xbf16>) outs(%z : tensor<2x3x1x?xf32>) -> tensor<2x3x1x?xf32>
  %in = linalg.generic {indexing_maps = [#same, #same], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%scores : tensor<2x3x1x?xf32>) outs(%e : tensor<2x3x1x?xf32>) {
  ^bb0(%x: f32, %o: f32):
    %sq = arith.mulf %x, %x : f32
    %shown = arith.mulf %sq, %scale : f32
    linalg.yield %shown : f32
  } -> tensor<2x3x1x?xf32>
  %soft = linalg.softmax dimension(3) ins(%in : tensor<2x3x1x?xf32>) outs(%e : tensor<2x3x1x?xf32>) -> tensor<2x3x1x?xf32>
  %v = tensor.extract_slice %values[%layer, 0, 0, 0] [1, 2, %len, 16] [1, 1, 1, 1] : tensor<4x2x256x16xbf16> to tensor<2x?x16xbf16>
  %ef = tensor.empty() : tensor<1x2x3x16xf32>
  %zf = linalg.fill ins(%zero : f32) outs(%ef : tensor<1x2x3x16xf32>) -> tensor<1x2x3x16xf32>
  %pv = linalg.contract indexing_maps = [#p, #v, #o] ins(%soft, %v : tensor<2x3x1x?xf32>, tensor<2x?x16xbf16>) outs(%zf : tensor<1x2x3x16xf32>) -> tensor<1x2x3x16xf32>
  %eb = tensor.empty() : tensor<1x2x3x16xbf16>
  %r = linalg.generic {indexing_maps = [#same, #same], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%pv : tensor<1x2x3x16xf32>) outs(%eb : tensor<1x2x3x16xbf16>) {
  ^bb0(%x: f32, %o: bf16):
    %y = arith.truncf %x : f32 to bf16
    linalg.yield %y : bf16
  } -> tensor<1x2x3x16xbf16>
  %m = bufferization.materialize_in_destination %r in %out : (tensor<1x2x3x16xbf16>, tensor<1x2x3x16xbf16>) -> tensor<1x2x3x16xbf16>
  return %m : tensor<1x2x3x16xbf16>
}

// -----

#q = affine_map<(h, g, t, s, d) -> (t, h, g, d)>
#k = affine_map<(h, g, t, s, d) -> (h, s, d)>
#s = affine_map<(h, g, t, s, d) -> (h, g, t, s)>
#p = affine_map<(t, h, g, d, s) -> (h, g, t, s)>
#v = affine_map<(t, h, g, d, s) -> (h, s, d)>
#o = affine_map<(t, h, g, d, s) -> (t, h, g, d)>
#same = affine_map<(h, g, t, s) -> (h, g, t, s)>
#bias = affine_map<(h, g, t, s) -> (h, s)>

// Its result may not be part of something else.
// CHECK-LABEL: func private @sum(
// CHECK-NOT: gpu.func
// REMARK: remark: [Missed] no-schedule | Category:convert-linalg-to-gpu | Function=sum | Reason="another value than its result is stored"
func.func private @sum(%q: tensor<1x2x3x16xbf16>, %keys: tensor<4x2x256x16xbf16>, %values: tensor<4x2x256x16xbf16>, %layer: index, %pos: index, %len: index, %out: tensor<1x2x3x16xbf16>) -> tensor<1x2x3x16xbf16> {
  %zero = arith.constant 0.0 : f32
  %lowest = arith.constant -3.40282347E+38 : f32
  %scale = arith.constant 0.25 : f32
  %k = tensor.extract_slice %keys[%layer, 0, 0, 0] [1, 2, %len, 16] [1, 1, 1, 1] : tensor<4x2x256x16xbf16> to tensor<2x?x16xbf16>
  %e = tensor.empty(%len) : tensor<2x3x1x?xf32>
  %z = linalg.fill ins(%zero : f32) outs(%e : tensor<2x3x1x?xf32>) -> tensor<2x3x1x?xf32>
  %scores = linalg.contract indexing_maps = [#q, #k, #s] ins(%q, %k : tensor<1x2x3x16xbf16>, tensor<2x?x16xbf16>) outs(%z : tensor<2x3x1x?xf32>) -> tensor<2x3x1x?xf32>
  %in = linalg.generic {indexing_maps = [#same, #same], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%scores : tensor<2x3x1x?xf32>) outs(%e : tensor<2x3x1x?xf32>) {
  ^bb0(%x: f32, %o: f32):
    %shown = arith.mulf %x, %scale : f32
    linalg.yield %shown : f32
  } -> tensor<2x3x1x?xf32>
  %soft = linalg.softmax dimension(3) ins(%in : tensor<2x3x1x?xf32>) outs(%e : tensor<2x3x1x?xf32>) -> tensor<2x3x1x?xf32>
  %v = tensor.extract_slice %values[%layer, 0, 0, 0] [1, 2, %len, 16] [1, 1, 1, 1] : tensor<4x2x256x16xbf16> to tensor<2x?x16xbf16>
  %ef = tensor.empty() : tensor<1x2x3x16xf32>
  %zf = linalg.fill ins(%zero : f32) outs(%ef : tensor<1x2x3x16xf32>) -> tensor<1x2x3x16xf32>
  %pv = linalg.contract indexing_maps = [#p, #v, #o] ins(%soft, %v : tensor<2x3x1x?xf32>, tensor<2x?x16xbf16>) outs(%zf : tensor<1x2x3x16xf32>) -> tensor<1x2x3x16xf32>
  %eb = tensor.empty() : tensor<1x2x3x16xbf16>
  %r = linalg.generic {indexing_maps = [#same, #same], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%pv : tensor<1x2x3x16xf32>) outs(%eb : tensor<1x2x3x16xbf16>) {
  ^bb0(%x: f32, %o: bf16):
    %y = arith.truncf %x : f32 to bf16
    linalg.yield %y : bf16
  } -> tensor<1x2x3x16xbf16>
  %sum = linalg.add ins(%r, %q : tensor<1x2x3x16xbf16>, tensor<1x2x3x16xbf16>) outs(%out : tensor<1x2x3x16xbf16>) -> tensor<1x2x3x16xbf16>
  return %sum : tensor<1x2x3x16xbf16>
}
