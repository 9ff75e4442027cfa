// RUN: cria-opt --convert-linalg-to-gpu=chips=sm_80,sm_90a --split-input-file %s | FileCheck %s
// RUN: cria-opt --convert-linalg-to-gpu=chips=sm_90a --split-input-file %s | FileCheck %s --check-prefix=ALONE
// RUN: cria-opt --convert-linalg-to-gpu=chips=sm_80,sm_90 --split-input-file %s | FileCheck %s --check-prefix=NONE
// RUN: cria-opt --convert-linalg-to-gpu="chips=sm_90a schedules=gemm_warpgroups.wide_splits=4" --split-input-file %s | FileCheck %s --check-prefix=WIDE
// RUN: sed "s/%values\[/%keys[/" %s | cria-opt --convert-linalg-to-gpu=chips=sm_90a --split-input-file | FileCheck %s --check-prefix=SHARED

#xk = affine_map<(t, n, k) -> (t, k)>
#wk = affine_map<(t, n, k) -> (n, k)>
#tn = affine_map<(t, n, k) -> (t, n)>

// More than 128 rows are for warpgroups where a chip has them, in a persistent grid:
// one block on each multiprocessor. sm_80's own kernel is launched beside, for images
// of its kind, and no verifier looks for wgmma there.
// CHECK-LABEL: func.func private @many.launch(
// CHECK: %[[BLOCKS:.*]] = arith.maxui %{{.*}}, %c66{{.*}} : index
// CHECK: %[[GRID:.*]] = arith.select %{{.*}}, %c0{{.*}}, %[[BLOCKS]] : index
// CHECK: gpu.launch_func @kernels::@many_wgmma blocks in (%[[GRID]], %c2{{[_0-9]*}}, %{{.*}}) threads in (%c384{{.*}} dynamic_shared_memory_size %c131072_i32 args(%arg0 : memref<?x352xbf16>, %arg1 : memref<64x352xbf16>, %{{.*}} : index, %arg2 : memref<?x64xf32>)
// CHECK: gpu.launch_func @kernels::@many blocks in (%c1{{.*}}, %{{.*}}, %{{.*}}) threads in (%c128{{[_0-9]*}},
// CHECK: gpu.module @kernels [#nvvm.target<O = 3, chip = "sm_80", features = "+ptx80", verifyTarget = false>, #nvvm.target<O = 3, chip = "sm_90a", features = "+ptx80">]
// CHECK: memref.global @launched_shared : memref<0xi8, #gpu.address_space<workgroup>> {alignment = 1024 : i64}

// Maps of the input, of all rows that it may have, and of the weight, whose rows
// are copied as lanes have their sums: 32 units are 2 x 4 x 4. A box is half of a
// tile.
// CHECK-LABEL: gpu.func @many_wgmma(
// CHECK-SAME: memref<?x352xbf16> {cria.tensor_map = {box = [64, 128], sizes = [352, 512], strides = [352]}}
// CHECK-SAME: memref<64x352xbf16> {cria.tensor_map = {box = [64, 2, 4, 4, 2], sizes = [352, 2, 4, 4, 2], strides = [352, 2816, 704, 11264]}}
// CHECK-SAME: cria.generations = [2]
// CHECK-SAME: known_block_size = array<i32: 384, 1, 1>
// CHECK-SAME: known_cluster_size = array<i32: 1, 2, 1>
// CHECK-SAME: nvvm.minctasm = 1

// The four warpgroups of both blocks free a stage.
// CHECK: nvgpu.mbarrier.create -> <{{.*}}num_barriers = 8>
// CHECK: nvgpu.mbarrier.init %{{.*}}, %c1{{[_0-9]*}}
// CHECK: nvgpu.mbarrier.init %{{.*}}, %c4{{[_0-9]*}}
// CHECK-COUNT-6: nvgpu.mbarrier.init
// CHECK: nvvm.fence.mbarrier.init
// CHECK: nvvm.cluster.arrive {aligned}
// CHECK: nvvm.cluster.wait {aligned}

// Two warpgroups multiply tile after tile: a stage is waited for, and freed in both
// blocks when the products of the turn behind have begun, the last one before the
// tile is finished.
// CHECK: nvvm.setmaxregister increase 232
// CHECK: scf.for %{{.*}} = %{{.*}} to %{{.*}} step %c66
// CHECK: scf.for
// CHECK: nvgpu.mbarrier.try_wait.parity
// CHECK: wgmma.fence.sync.aligned;
// CHECK-COUNT-4: nvvm.wgmma.mma_async {{.*}}m = 64, n = 128, k = 16
// CHECK: nvvm.wgmma.commit.group.sync.aligned
// CHECK: nvvm.wgmma.wait.group.sync.aligned 1
// CHECK: nvvm.mapa %{{.*}} : !llvm.ptr<3> -> !llvm.ptr<7>
// CHECK: nvvm.mbarrier.arrive %{{.*}} : !llvm.ptr<7>
// CHECK: wgmma.wait_group.sync.aligned 0;
// CHECK: nvvm.mbarrier.arrive %{{.*}} : !llvm.ptr<7>
// CHECK: vector.store {{.*}} : memref<?xf32>, vector<4xf32>

// One thread of the third copies half of the weights for both blocks, and the
// other half where these are its own.
// CHECK: nvvm.setmaxregister decrease 40
// CHECK: scf.for %{{.*}} = %{{.*}} to %{{.*}} step %c66
// CHECK: scf.for
// CHECK: nvgpu.mbarrier.try_wait.parity
// CHECK: nvgpu.mbarrier.arrive.expect_tx %{{.*}}, %c32768
// CHECK: nvgpu.tma.async.load %{{[^,]*}}, %{{[^,]*}}], {{.*}} -> memref<128x64xbf16,
// CHECK: nvgpu.tma.async.load {{.*}} multicast_mask = %{{.*}} -> memref<2x4x4x2x64xbf16,
// CHECK: scf.if
// CHECK: } else {
// CHECK: nvgpu.tma.async.load {{.*}} multicast_mask = %{{.*}} -> memref<2x4x4x2x64xbf16,
// CHECK-NOT: nvgpu.tma.async.load
// CHECK: nvvm.cluster.arrive {aligned}
// CHECK: nvvm.cluster.wait {aligned}
// CHECK-LABEL: gpu.func @many(
// CHECK-SAME: cria.generations = [0, 1]
// CHECK: nvvm.mma.sync

// ALONE: gpu.func @many_wgmma(
// ALONE-SAME: cria.generations = [2]
// ALONE-NOT: gpu.func @many(
// NONE-NOT: wgmma
// NONE: [#nvvm.target<{{.*}}chip = "sm_80", {{.*}}verifyTarget = false>, #nvvm.target<O = 3, chip = "sm_90", features = "+ptx80">]
// NONE-NOT: wgmma
func.func private @many(%x: tensor<?x352xbf16>, %w: tensor<64x352xbf16>, %out: tensor<?x64xf32>) -> tensor<?x64xf32> attributes {cria.chunk = 512 : index} {
  %zero = arith.constant 0.0 : f32
  %c0 = arith.constant 0 : index
  %n = tensor.dim %x, %c0 : tensor<?x352xbf16>
  %pe = tensor.empty(%n) : tensor<?x64xf32>
  %pz = linalg.fill ins(%zero : f32) outs(%pe : tensor<?x64xf32>) -> tensor<?x64xf32>
  %p = linalg.contract indexing_maps = [#xk, #wk, #tn] ins(%x, %w : tensor<?x352xbf16>, tensor<64x352xbf16>) outs(%pz : tensor<?x64xf32>) -> tensor<?x64xf32>
  %made = bufferization.materialize_in_destination %p in %out : (tensor<?x64xf32>, tensor<?x64xf32>) -> tensor<?x64xf32>
  return %made : tensor<?x64xf32>
}

// -----

#xk = affine_map<(t, n, k) -> (t, k)>
#wk = affine_map<(t, n, k) -> (n, k)>
#tn = affine_map<(t, n, k) -> (t, n)>

// An input that is also the weight has a map for each.
// CHECK-LABEL: func.func private @square.launch(
// CHECK: gpu.launch_func @kernels::@square_wgmma {{.*}} args(%arg0 : memref<512x352xbf16>, %arg0 : memref<512x352xbf16>, %arg1 : memref<512x512xf32>)
// CHECK-LABEL: gpu.func @square_wgmma(
// CHECK-SAME: memref<512x352xbf16> {cria.tensor_map = {box = [64, 2, 4, 4, 2],
// CHECK-SAME: memref<512x352xbf16> {cria.tensor_map = {box = [64, 128],
func.func private @square(%x: tensor<512x352xbf16>, %out: tensor<512x512xf32>) -> tensor<512x512xf32> attributes {cria.chunk = 512 : index} {
  %zero = arith.constant 0.0 : f32
  %pe = tensor.empty() : tensor<512x512xf32>
  %pz = linalg.fill ins(%zero : f32) outs(%pe : tensor<512x512xf32>) -> tensor<512x512xf32>
  %p = linalg.contract indexing_maps = [#xk, #wk, #tn] ins(%x, %x : tensor<512x352xbf16>, tensor<512x352xbf16>) outs(%pz : tensor<512x512xf32>) -> tensor<512x512xf32>
  %made = bufferization.materialize_in_destination %p in %out : (tensor<512x512xf32>, tensor<512x512xf32>) -> tensor<512x512xf32>
  return %made : tensor<512x512xf32>
}

// -----

#xk = affine_map<(t, n, k) -> (t, k)>
#wk = affine_map<(t, n, k) -> (n, k)>
#tn = affine_map<(t, n, k) -> (t, n)>

// Tiles of 256 rows of weights would be 64 blocks, with the two splits that count:
// too few for the machine. So tiles have 128 rows.
// CHECK-LABEL: gpu.func @down_wgmma(
// CHECK-SAME: box = [64, 2, 4, 4, 2]
// WIDE-LABEL: gpu.func @down_wgmma(
// WIDE-SAME: box = [64, 2, 4, 4, 4]
func.func private @down(%x: tensor<512x8192xbf16>, %w: tensor<2048x8192xbf16>, %out: tensor<512x2048xf32>) -> tensor<512x2048xf32> attributes {cria.chunk = 512 : index} {
  %zero = arith.constant 0.0 : f32
  %pe = tensor.empty() : tensor<512x2048xf32>
  %pz = linalg.fill ins(%zero : f32) outs(%pe : tensor<512x2048xf32>) -> tensor<512x2048xf32>
  %p = linalg.contract indexing_maps = [#xk, #wk, #tn] ins(%x, %w : tensor<512x8192xbf16>, tensor<2048x8192xbf16>) outs(%pz : tensor<512x2048xf32>) -> tensor<512x2048xf32>
  %made = bufferization.materialize_in_destination %p in %out : (tensor<512x2048xf32>, tensor<512x2048xf32>) -> tensor<512x2048xf32>
  return %made : tensor<512x2048xf32>
}

// -----

#xk = affine_map<(t, n, k) -> (t, k)>
#wk = affine_map<(t, n, k) -> (n, k)>
#tn = affine_map<(t, n, k) -> (t, n)>

// Rows whose elements are no chunks of 16 bytes are not copied in boxes, nor are
// 20 rows of weights, which are no groups of 8.
// CHECK-LABEL: func.func private @odd.launch(
// CHECK-NOT: _wgmma
// CHECK: gpu.launch_func @kernels::@odd blocks
// CHECK-NOT: _wgmma
// ALONE: gpu.func @odd(
func.func private @odd(%x: tensor<?x36xbf16>, %w: tensor<64x36xbf16>, %out: tensor<?x64xf32>) -> tensor<?x64xf32> attributes {cria.chunk = 512 : index} {
  %zero = arith.constant 0.0 : f32
  %c0 = arith.constant 0 : index
  %n = tensor.dim %x, %c0 : tensor<?x36xbf16>
  %pe = tensor.empty(%n) : tensor<?x64xf32>
  %pz = linalg.fill ins(%zero : f32) outs(%pe : tensor<?x64xf32>) -> tensor<?x64xf32>
  %p = linalg.contract indexing_maps = [#xk, #wk, #tn] ins(%x, %w : tensor<?x36xbf16>, tensor<64x36xbf16>) outs(%pz : tensor<?x64xf32>) -> tensor<?x64xf32>
  %made = bufferization.materialize_in_destination %p in %out : (tensor<?x64xf32>, tensor<?x64xf32>) -> tensor<?x64xf32>
  return %made : tensor<?x64xf32>
}

// CHECK-LABEL: func.func private @few_units.launch(
// CHECK-NOT: _wgmma
// CHECK: gpu.launch_func @kernels::@few_units blocks
func.func private @few_units(%x: tensor<?x32xbf16>, %w: tensor<20x32xbf16>, %out: tensor<?x20xf32>) -> tensor<?x20xf32> attributes {cria.chunk = 512 : index} {
  %zero = arith.constant 0.0 : f32
  %c0 = arith.constant 0 : index
  %n = tensor.dim %x, %c0 : tensor<?x32xbf16>
  %pe = tensor.empty(%n) : tensor<?x20xf32>
  %pz = linalg.fill ins(%zero : f32) outs(%pe : tensor<?x20xf32>) -> tensor<?x20xf32>
  %p = linalg.contract indexing_maps = [#xk, #wk, #tn] ins(%x, %w : tensor<?x32xbf16>, tensor<20x32xbf16>) outs(%pz : tensor<?x20xf32>) -> tensor<?x20xf32>
  %made = bufferization.materialize_in_destination %p in %out : (tensor<?x20xf32>, tensor<?x20xf32>) -> tensor<?x20xf32>
  return %made : tensor<?x20xf32>
}

// -----

#q = affine_map<(h, g, t, s, d) -> (t, h, g, d)>
#k = affine_map<(h, g, t, s, d) -> (h, s, d)>
#s = affine_map<(h, g, t, s, d) -> (h, g, t, s)>
#p = affine_map<(t, h, g, d, s) -> (h, g, t, s)>
#v = affine_map<(t, h, g, d, s) -> (h, s, d)>
#o = affine_map<(t, h, g, d, s) -> (t, h, g, d)>
#same = affine_map<(h, g, t, s) -> (h, g, t, s)>


// Attention of many tokens: 128 rows of warpgroups are 32 tokens with the four query
// heads of a KV head. Caches are rows of all positions of all layers' heads.
// CHECK-LABEL: func.func private @causal.launch(
// CHECK: gpu.launch_func @kernels::@causal_wgmma blocks in (%c2{{[_0-9]*}}, %{{.*}}, %{{.*}}) threads in (%c384{{.*}} dynamic_shared_memory_size %c81920_i32
// CHECK: gpu.launch_func @kernels::@causal blocks in (%c2{{[_0-9]*}}, %{{.*}}, %{{.*}}) threads in (%c128
// CHECK-LABEL: gpu.func @causal_wgmma(
// CHECK-SAME: memref<4x2x256x64xbf16> {cria.tensor_map = {box = [64, 128], sizes = [64, 2048], strides = [64]}}
// CHECK-SAME: memref<4x2x256x64xbf16> {cria.tensor_map = {box = [64, 128], sizes = [64, 2048], strides = [64]}}
// CHECK-SAME: memref<?x2x4x64xbf16> {cria.tensor_map = {box = [64, 4, 1, 32], sizes = [64, 4, 2, 512], strides = [64, 256, 512]}}
// CHECK-SAME: cria.generations = [2]

// The first scores begin with zeros.
// CHECK: nvgpu.mbarrier.create -> <{{.*}}num_barriers = 9>
// CHECK: nvvm.setmaxregister increase 232
// CHECK: nvvm.wgmma.fence.aligned
// CHECK: nvvm.wgmma.mma_async {{.*}}m = 64, n = 128, k = 16>, D[<f32>, <zero>]
// CHECK-COUNT-3: nvvm.wgmma.mma_async {{.*}}D[<f32>, <one>]
// CHECK: wgmma.wait_group.sync.aligned 0;
// CHECK: math.exp2

// Values are multiplied while the softmax of the next scores runs, which ends before
// the values of the turn have come.
// CHECK: scf.for
// CHECK: nvgpu.mbarrier.try_wait.parity
// CHECK: wgmma.fence.sync.aligned;
// CHECK-COUNT-4: nvvm.wgmma.mma_async
// CHECK: nvvm.wgmma.commit.group.sync.aligned
// CHECK-COUNT-8: wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {{.*}}, p, 1, 1, 1;
// CHECK: nvvm.wgmma.commit.group.sync.aligned
// CHECK: wgmma.wait_group.sync.aligned 1;
// CHECK: nvgpu.mbarrier.arrive
// CHECK: math.exp2
// CHECK: nvgpu.mbarrier.try_wait.parity
// CHECK: wgmma.wait_group.sync.aligned 0;
// CHECK: nvgpu.mbarrier.arrive
// CHECK: scf.yield

// Values behind the last key are cleared.
// CHECK: vector.store {{.*}} vector<8xbf16>
// CHECK: nvvm.fence.proxy
// CHECK: nvvm.barrier
// CHECK-COUNT-8: wgmma.mma_async.sync.aligned.m64n64k16
// CHECK: wgmma.wait_group.sync.aligned 0;
// CHECK-COUNT-1: arith.divf
// CHECK: vector.store {{.*}} vector<2xbf16>

// CHECK: nvvm.setmaxregister decrease 40
// CHECK: nvgpu.mbarrier.arrive.expect_tx %{{.*}}, %c16384
// CHECK: nvgpu.tma.async.load {{.*}} -> memref<32x1x4x64xbf16,
// CHECK: scf.for
// CHECK-COUNT-2: nvgpu.tma.async.load {{.*}} -> memref<128x64xbf16,
// CHECK-LABEL: gpu.func @causal(
// CHECK-SAME: cria.generations = [0, 1]

// ALONE: gpu.func @causal_wgmma(
// ALONE-NOT: gpu.func @causal(

// Keys that are the values, too, have a map of their own.
// SHARED: gpu.launch_func @kernels::@causal_wgmma {{.*}} args(%[[KEYS:.*]] : memref<4x2x256x64xbf16>, %[[KEYS]] : memref<4x2x256x64xbf16>, %{{.*}} : memref<?x2x4x64xbf16>,
// SHARED: gpu.func @causal_wgmma(
// SHARED-SAME: memref<4x2x256x64xbf16> {cria.tensor_map = {box = [64, 128], sizes = [64, 2048], strides = [64]}}
// SHARED-SAME: memref<4x2x256x64xbf16> {cria.tensor_map = {box = [64, 128], sizes = [64, 2048], strides = [64]}}
// SHARED-SAME: memref<?x2x4x64xbf16> {cria.tensor_map
func.func private @causal(%q: tensor<?x2x4x64xbf16>, %keys: tensor<4x2x256x64xbf16>, %values: tensor<4x2x256x64xbf16>, %layer: index, %pos: index, %len: index, %out: tensor<?x2x4x64xbf16>) -> tensor<?x2x4x64xbf16> attributes {cria.chunk = 512 : index} {
  %zero = arith.constant 0.0 : f32
  %lowest = arith.constant -3.40282347E+38 : f32
  %scale = arith.constant 0.25 : f32
  %c0 = arith.constant 0 : index
  %n = tensor.dim %q, %c0 : tensor<?x2x4x64xbf16>
  %k = tensor.extract_slice %keys[%layer, 0, 0, 0] [1, 2, %len, 64] [1, 1, 1, 1] : tensor<4x2x256x64xbf16> to tensor<2x?x64xbf16>
  %e = tensor.empty(%n, %len) : tensor<2x4x?x?xf32>
  %z = linalg.fill ins(%zero : f32) outs(%e : tensor<2x4x?x?xf32>) -> tensor<2x4x?x?xf32>
  %scores = linalg.contract indexing_maps = [#q, #k, #s] ins(%q, %k : tensor<?x2x4x64xbf16>, tensor<2x?x64xbf16>) outs(%z : tensor<2x4x?x?xf32>) -> tensor<2x4x?x?xf32>
  %in = linalg.generic {indexing_maps = [#same, #same], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%scores : tensor<2x4x?x?xf32>) outs(%e : tensor<2x4x?x?xf32>) {
  ^bb0(%x: f32, %o: f32):
    %shown = arith.mulf %x, %scale : f32
    %t = linalg.index 2 : index
    %s = linalg.index 3 : index
    %at = arith.addi %pos, %t : index
    %seen = arith.cmpi sle, %s, %at : index
    %y = arith.select %seen, %shown, %lowest : f32
    linalg.yield %y : f32
  } -> tensor<2x4x?x?xf32>
  %soft = linalg.softmax dimension(3) ins(%in : tensor<2x4x?x?xf32>) outs(%e : tensor<2x4x?x?xf32>) -> tensor<2x4x?x?xf32>
  %seen_p = linalg.generic {indexing_maps = [#same, #same], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%soft : tensor<2x4x?x?xf32>) outs(%e : tensor<2x4x?x?xf32>) {
  ^bb0(%x: f32, %o: f32):
    %t = linalg.index 2 : index
    %s = linalg.index 3 : index
    %at = arith.addi %pos, %t : index
    %seen = arith.cmpi sle, %s, %at : index
    %y = arith.select %seen, %x, %zero : f32
    linalg.yield %y : f32
  } -> tensor<2x4x?x?xf32>
  %v = tensor.extract_slice %values[%layer, 0, 0, 0] [1, 2, %len, 64] [1, 1, 1, 1] : tensor<4x2x256x64xbf16> to tensor<2x?x64xbf16>
  %ef = tensor.empty(%n) : tensor<?x2x4x64xf32>
  %zf = linalg.fill ins(%zero : f32) outs(%ef : tensor<?x2x4x64xf32>) -> tensor<?x2x4x64xf32>
  %pv = linalg.contract indexing_maps = [#p, #v, #o] ins(%seen_p, %v : tensor<2x4x?x?xf32>, tensor<2x?x64xbf16>) outs(%zf : tensor<?x2x4x64xf32>) -> tensor<?x2x4x64xf32>
  %eb = tensor.empty(%n) : tensor<?x2x4x64xbf16>
  %r = linalg.generic {indexing_maps = [#same, #same], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%pv : tensor<?x2x4x64xf32>) outs(%eb : tensor<?x2x4x64xbf16>) {
  ^bb0(%x: f32, %o: bf16):
    %y = arith.truncf %x : f32 to bf16
    linalg.yield %y : bf16
  } -> tensor<?x2x4x64xbf16>
  %m = bufferization.materialize_in_destination %r in %out : (tensor<?x2x4x64xbf16>, tensor<?x2x4x64xbf16>) -> tensor<?x2x4x64xbf16>
  return %m : tensor<?x2x4x64xbf16>
}

// -----

#xk = affine_map<(t, n, k) -> (t, k)>
#wk = affine_map<(t, n, k) -> (n, k)>
#tn = affine_map<(t, n, k) -> (t, n)>

// Of few rows k is split. Where a chip has clusters the splits of a tile are one: each
// block leaves its sums, waits for the others, and loads a quarter of the sums of all
// four. Elsewhere the block that arrives last adds all of them.
// CHECK-LABEL: func.func private @split.launch(
// CHECK: gpu.launch_func @kernels::@split_few_cluster blocks in (%c4{{[_0-9]*}},
// CHECK: gpu.launch_func @kernels::@split_few blocks in (%c4{{[_0-9]*}},
// CHECK-LABEL: gpu.func @split_few_cluster(
// CHECK-SAME: cria.generations = [1, 2]
// CHECK-SAME: known_cluster_size = array<i32: 4, 1, 1>
// CHECK: nvvm.mma.sync
// CHECK-COUNT-4: vector.store {{.*}} : memref<{{[0-9]+}}xf32>, vector<4xf32>
// CHECK-NOT: vector.store
// CHECK: nvvm.cluster.arrive {aligned}
// CHECK-NEXT: nvvm.cluster.wait {aligned}
// CHECK-NOT: memref.atomic_rmw
// CHECK-COUNT-4: vector.load {{.*}} : memref<{{[0-9]+}}xf32>, vector<4xf32>
// CHECK-NOT: vector.load
// CHECK: vector.store {{.*}} : memref<?xf32>, vector<4xf32>
// CHECK-LABEL: gpu.func @split_few(
// CHECK-SAME: cria.generations = [0]
// CHECK-NOT: nvvm.cluster
// CHECK: gpu.func @split_some_cluster(
// ALONE: gpu.func @split_few_cluster(
// ALONE-NOT: gpu.func @split_few(
// NONE: gpu.func @split_few_cluster(
// NONE: gpu.func @split_few(
func.func private @split(%x: tensor<?x1024xbf16>, %w: tensor<64x1024xbf16>, %out: tensor<?x64xf32>) -> tensor<?x64xf32> attributes {cria.chunk = 512 : index} {
  %zero = arith.constant 0.0 : f32
  %c0 = arith.constant 0 : index
  %n = tensor.dim %x, %c0 : tensor<?x1024xbf16>
  %pe = tensor.empty(%n) : tensor<?x64xf32>
  %pz = linalg.fill ins(%zero : f32) outs(%pe : tensor<?x64xf32>) -> tensor<?x64xf32>
  %p = linalg.contract indexing_maps = [#xk, #wk, #tn] ins(%x, %w : tensor<?x1024xbf16>, tensor<64x1024xbf16>) outs(%pz : tensor<?x64xf32>) -> tensor<?x64xf32>
  %made = bufferization.materialize_in_destination %p in %out : (tensor<?x64xf32>, tensor<?x64xf32>) -> tensor<?x64xf32>
  return %made : tensor<?x64xf32>
}

// -----

#x = affine_map<(t, n, b, j) -> (t, b, j)>
#bytes = affine_map<(t, n, b, j) -> (n, b, j)>
#byte = affine_map<(t, n, b, j) -> (n, b)>
#sum = affine_map<(t, n, b, j) -> (t, n)>
#id = affine_map<(t, n) -> (t, n)>

// Weights in blocks are copied as bytes, 144 of each row for four blocks of 34, so
// that eight lanes read neighbouring rows. Lanes widen them to registers,
// which are what is multiplied: the input is the other operand, in two boxes.
// CHECK-LABEL: gpu.func @blocks_wgmma(
// CHECK-SAME: memref<300x256xbf16> {cria.tensor_map = {box = [64, 128], sizes = [256, 300], strides = [256]}}
// CHECK-SAME: memref<64x8x34xi8> {cria.tensor_map = {box = [144, 8, 2, 4], sizes = [272, 8, 2, 4], strides = [544, 272, 4352]}}
// CHECK: nvgpu.mbarrier.try_wait.parity
// CHECK: vector.load {{.*}} vector<2xi8>
// CHECK: nvvm.prmt <default>
// CHECK: llvm.inline_asm {{.*}}wgmma.fence
// CHECK: wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 {{.*}} p, 1, 1, 0;
// CHECK: nvvm.wgmma.wait.group.sync.aligned 1
// CHECK-COUNT-2: nvgpu.tma.async.load {{.*}} <tensor = memref<128x64xbf16
// CHECK: nvgpu.tma.async.load {{.*}} <tensor = memref<4x2x8x144xi8, {{.*}} swizzle = none
// CHECK-LABEL: gpu.func @blocks(
// CHECK: nvvm.mma.sync
func.func private @blocks(%x: tensor<300x256xbf16>, %w: tensor<64x8x34xi8>, %out: tensor<300x64xf32>) -> tensor<300x64xf32> {
  %zero = arith.constant 0.0 : f32
  %c8 = arith.constant 8 : i16
  %e = tensor.empty() : tensor<300x64xf32>
  %z = linalg.fill ins(%zero : f32) outs(%e : tensor<300x64xf32>) -> tensor<300x64xf32>
  %rows = tensor.expand_shape %x [[0], [1, 2]] output_shape [300, 8, 32] : tensor<300x256xbf16> into tensor<300x8x32xbf16>
  %codes = tensor.extract_slice %w[0, 0, 2] [64, 8, 32] [1, 1, 1] : tensor<64x8x34xi8> to tensor<64x8x32xi8>
  %low = tensor.extract_slice %w[0, 0, 0] [64, 8, 1] [1, 1, 1] : tensor<64x8x34xi8> to tensor<64x8xi8>
  %high = tensor.extract_slice %w[0, 0, 1] [64, 8, 1] [1, 1, 1] : tensor<64x8x34xi8> to tensor<64x8xi8>
  %p = linalg.generic {indexing_maps = [#x, #bytes, #byte, #byte, #sum], iterator_types = ["parallel", "parallel", "reduction", "reduction"]}
      ins(%rows, %codes, %low, %high : tensor<300x8x32xbf16>, tensor<64x8x32xi8>, tensor<64x8xi8>, tensor<64x8xi8>) outs(%z : tensor<300x64xf32>) {
  ^bb0(%a: bf16, %q: i8, %lo: i8, %hi: i8, %acc: f32):
    %wide = arith.extf %a : bf16 to f32
    %fq = arith.sitofp %q : i8 to f32
    %l16 = arith.extui %lo : i8 to i16
    %h16 = arith.extui %hi : i8 to i16
    %hs = arith.shli %h16, %c8 : i16
    %both = arith.ori %l16, %hs : i16
    %half = arith.bitcast %both : i16 to f16
    %scale = arith.extf %half : f16 to f32
    %number = arith.mulf %fq, %scale : f32
    %rounded = arith.truncf %number : f32 to bf16
    %factor = arith.extf %rounded : bf16 to f32
    %term = arith.mulf %wide, %factor fastmath<reassoc> : f32
    %next = arith.addf %acc, %term fastmath<reassoc> : f32
    linalg.yield %next : f32
  } -> tensor<300x64xf32>
  %r = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]} ins(%p : tensor<300x64xf32>) outs(%out : tensor<300x64xf32>) {
  ^bb0(%v: f32, %o: f32):
    %s = arith.addf %o, %v : f32
    linalg.yield %s : f32
  } -> tensor<300x64xf32>
  return %r : tensor<300x64xf32>
}
