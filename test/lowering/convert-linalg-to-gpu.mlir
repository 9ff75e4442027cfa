// RUN: cria-opt --convert-linalg-to-gpu --split-input-file --remarks-filter=.* %s -o %t.mlir 2> %t.remarks
// RUN: FileCheck %s < %t.mlir
// RUN: FileCheck %s --check-prefix=REMARK < %t.remarks

#id = affine_map<(t, k) -> (t, k)>
#row = affine_map<(t, k) -> (t)>
#xk = affine_map<(t, n, k) -> (t, k)>
#wk = affine_map<(t, n, k) -> (n, k)>
#tn = affine_map<(t, n, k) -> (t, n)>

// Few rows: the block computes the products' input, with its statistics, in
// shared memory; the epilogue is the payload, stored where the stream lies.
// CHECK-LABEL: func.func private @few.launch(%arg0: memref<1x32xf32>, %arg1: memref<24x32xf32>, %arg2: memref<1x24xf32>)
// CHECK: gpu.launch_func @kernels::@few blocks in (%c6,
// CHECK-LABEL: gpu.func @few(
// CHECK-SAME: memref<1x32xf32> {llvm.noalias, llvm.readonly}
// CHECK-SAME: workgroup(
// CHECK: gpu.shuffle xor
// CHECK: gpu.barrier
// CHECK: math.rsqrt
// CHECK: vector.store {{.*}}#gpu.address_space<workgroup>
// CHECK: gpu.barrier
// CHECK: math.fma {{.*}} : vector<4xf32>
// CHECK: memref.load
// CHECK: arith.addf {{.*}} : f32
// CHECK: memref.store
func.func private @few(%x: tensor<1x32xf32>, %w: tensor<24x32xf32>, %stream: tensor<1x24xf32>) -> tensor<1x24xf32> {
  %zero = arith.constant 0.0 : f32
  %es = tensor.empty() : tensor<1xf32>
  %zs = linalg.fill ins(%zero : f32) outs(%es : tensor<1xf32>) -> tensor<1xf32>
  %sum = linalg.generic {indexing_maps = [#id, #row], iterator_types = ["parallel", "reduction"]} ins(%x : tensor<1x32xf32>) outs(%zs : tensor<1xf32>) {
  ^bb0(%v: f32, %acc: f32):
    %square = arith.mulf %v, %v : f32
    %next = arith.addf %acc, %square fastmath<reassoc> : f32
    linalg.yield %next : f32
  } -> tensor<1xf32>
  %ey = tensor.empty() : tensor<1x32xf32>
  %y = linalg.generic {indexing_maps = [#id, #row, #id], iterator_types = ["parallel", "parallel"]} ins(%x, %sum : tensor<1x32xf32>, tensor<1xf32>) outs(%ey : tensor<1x32xf32>) {
  ^bb0(%v: f32, %s: f32, %o: f32):
    %r = math.rsqrt %s : f32
    %n = arith.mulf %v, %r : f32
    linalg.yield %n : f32
  } -> tensor<1x32xf32>
  %pe = tensor.empty() : tensor<1x24xf32>
  %pz = linalg.fill ins(%zero : f32) outs(%pe : tensor<1x24xf32>) -> tensor<1x24xf32>
  %p = linalg.contract indexing_maps = [#xk, #wk, #tn] ins(%y, %w : tensor<1x32xf32>, tensor<24x32xf32>) outs(%pz : tensor<1x24xf32>) -> tensor<1x24xf32>
  %out = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]} ins(%p : tensor<1x24xf32>) outs(%stream : tensor<1x24xf32>) {
  ^bb0(%v: f32, %o: f32):
    %n = arith.addf %o, %v : f32
    linalg.yield %n : f32
  } -> tensor<1x24xf32>
  return %out : tensor<1x24xf32>
}

// -----

#id = affine_map<(t, k) -> (t, k)>
#xk = affine_map<(t, n, k) -> (t, k)>
#wk = affine_map<(t, n, k) -> (n, k)>
#tn = affine_map<(t, n, k) -> (t, n)>

// Many rows: what the product reads is computed before, by another launch. One
// launch is for 32 rows at most, one for up to 64, one for more; the others have
// no blocks.
// CHECK-LABEL: func.func private @many.launch(
// CHECK: %[[N:.*]] = memref.dim %arg0, %c0
// CHECK: %[[Y:.*]] = memref.alloc(%[[N]]) : memref<?x32xbf16>
// CHECK: gpu.launch_func @kernels::@many_input {{.*}} args(%arg0 : memref<?x32xbf16>, %[[Y]] : memref<?x32xbf16>)
// CHECK: %[[ONE:.*]] = arith.ceildivui %{{.*}}, %c32
// CHECK: %[[IS_FEW:.*]] = arith.cmpi ule, %{{.*}}, %c32
// CHECK: %[[FEW:.*]] = arith.select %[[IS_FEW]], %[[ONE]], %c0
// CHECK: gpu.launch_func @kernels::@many_few blocks in (%c1{{.*}}, %[[FEW]], {{.*}} args(
// CHECK: %[[B:.*]] = arith.ceildivui %{{.*}}, %c64
// CHECK: %[[IS_SOME:.*]] = arith.cmpi ule, %{{.*}}, %c64
// CHECK: %[[MOST:.*]] = arith.select %[[IS_SOME]], %[[B]], %c0
// CHECK: %[[IS_FEW:.*]] = arith.cmpi ule, %{{.*}}, %c32
// CHECK: %[[SOME:.*]] = arith.select %[[IS_FEW]], %c0{{.*}}, %[[MOST]]
// CHECK: gpu.launch_func @kernels::@many_some blocks in (%c1{{.*}}, %[[SOME]], {{.*}} args(
// CHECK: %[[B:.*]] = arith.ceildivui %{{.*}}, %c128
// CHECK: %[[IS_SOME:.*]] = arith.cmpi ule, %{{.*}}, %c64
// CHECK: %[[MANY:.*]] = arith.select %[[IS_SOME]], %c0{{.*}}, %[[B]]
// CHECK: gpu.launch_func @kernels::@many blocks in (%c1{{.*}}, %[[MANY]], {{.*}} args(%[[Y]] : memref<?x32xbf16>, %arg1 : memref<24x32xbf16>, %{{.*}} : index, %arg2 : memref<?x24xf32>)
// CHECK-LABEL: gpu.func @many_input(
// CHECK: math.absf {{.*}} : vector<8xbf16>
// A step's copies are no loop: of few rows two of the input and four of the
// weights a thread, of some and of many four each.
// CHECK-LABEL: gpu.func @many_few(
// CHECK: scf.for
// CHECK: nvvm.cp.async.wait.group 2
// CHECK: scf.if
// CHECK-COUNT-6: nvgpu.device_async_copy {{.*}}, 8,
// CHECK-NOT: nvgpu.device_async_copy
// CHECK: nvvm.mma.sync
// CHECK-LABEL: gpu.func @many_some(
// CHECK-SAME: nvvm.minctasm = 3
// CHECK: scf.for
// CHECK: scf.if
// CHECK-COUNT-8: nvgpu.device_async_copy {{.*}}, 8,
// CHECK-NOT: nvgpu.device_async_copy
// CHECK: nvvm.mma.sync
// CHECK-LABEL: gpu.func @many(
// CHECK-SAME: nvvm.minctasm = 2
// CHECK: scf.for
// CHECK: scf.if
// CHECK-COUNT-8: nvgpu.device_async_copy {{.*}}, 8,
// CHECK-NOT: nvgpu.device_async_copy
// CHECK: nvvm.cp.async.commit.group
// CHECK: nvvm.mma.sync
// Stores, of neighbouring columns each, are there once, whether or not the tile
// has all of its rows and columns.
// CHECK: scf.if
// CHECK-COUNT-32: vector.store {{.*}} : memref<?xf32>, vector<4xf32>
// CHECK-NOT: vector.store
// CHECK: gpu.return
func.func private @many(%x: tensor<?x32xbf16>, %w: tensor<24x32xbf16>, %out: tensor<?x24xf32>) -> tensor<?x24xf32> {
  %zero = arith.constant 0.0 : f32
  %c0 = arith.constant 0 : index
  %n = tensor.dim %x, %c0 : tensor<?x32xbf16>
  %ey = tensor.empty(%n) : tensor<?x32xbf16>
  %y = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]} ins(%x : tensor<?x32xbf16>) outs(%ey : tensor<?x32xbf16>) {
  ^bb0(%v: bf16, %o: bf16):
    %a = math.absf %v : bf16
    linalg.yield %a : bf16
  } -> tensor<?x32xbf16>
  %pe = tensor.empty(%n) : tensor<?x24xf32>
  %pz = linalg.fill ins(%zero : f32) outs(%pe : tensor<?x24xf32>) -> tensor<?x24xf32>
  %p = linalg.contract indexing_maps = [#xk, #wk, #tn] ins(%y, %w : tensor<?x32xbf16>, tensor<24x32xbf16>) outs(%pz : tensor<?x24xf32>) -> tensor<?x24xf32>
  %made = bufferization.materialize_in_destination %p in %out : (tensor<?x24xf32>, tensor<?x24xf32>) -> tensor<?x24xf32>
  return %made : tensor<?x24xf32>
}

// -----

#id = affine_map<(t, k) -> (t, k)>
#xk = affine_map<(t, n, k) -> (t, k)>
#wk = affine_map<(t, n, k) -> (n, k)>
#tn = affine_map<(t, n, k) -> (t, n)>

// Long rows of weights are split, over eight blocks, or the fewer the more rows
// there are. Splits leave their sums; the block that arrives last adds them up.
// CHECK-LABEL: func.func private @split.launch(
// CHECK: %[[SUMS:.*]] = memref.alloc() : memref<3244032xf32>
// CHECK: gpu.launch_func @kernels::@split_few blocks in (%c8{{.*}} args({{.*}}%[[SUMS]] : memref<3244032xf32>, %{{.*}} : memref<198xi32>
// CHECK: gpu.launch_func @kernels::@split_some
// CHECK: %[[B:.*]] = arith.ceildivui %{{.*}}, %c128
// CHECK: %[[LEAST:.*]] = arith.maxui %[[B]], %c198
// CHECK: arith.select {{.*}}, %[[LEAST]]
// CHECK: gpu.launch_func @kernels::@split blocks
// CHECK-LABEL: gpu.func @split_some(
// CHECK: arith.ceildivui
// CHECK: nvvm.mma.sync
// CHECK: vector.store {{.*}} : memref<3244032xf32>, vector<4xf32>
// CHECK: llvm.fence syncscope("device") seq_cst
// CHECK-NEXT: gpu.barrier
// CHECK: llvm.atomicrmw uinc_wrap {{.*}} syncscope("device")
// CHECK: gpu.barrier
// CHECK: scf.if
// CHECK: llvm.fence syncscope("device") seq_cst
// CHECK: vector.load {{.*}} : memref<3244032xf32>, vector<4xf32>
// CHECK: vector.store {{.*}} : memref<?xf32>, vector<4xf32>
func.func private @split(%x: tensor<?x2048xbf16>, %w: tensor<24x2048xbf16>, %out: tensor<?x24xf32>) -> tensor<?x24xf32> {
  %zero = arith.constant 0.0 : f32
  %c0 = arith.constant 0 : index
  %n = tensor.dim %x, %c0 : tensor<?x2048xbf16>
  %pe = tensor.empty(%n) : tensor<?x24xf32>
  %pz = linalg.fill ins(%zero : f32) outs(%pe : tensor<?x24xf32>) -> tensor<?x24xf32>
  %p = linalg.contract indexing_maps = [#xk, #wk, #tn] ins(%x, %w : tensor<?x2048xbf16>, tensor<24x2048xbf16>) outs(%pz : tensor<?x24xf32>) -> tensor<?x24xf32>
  %made = bufferization.materialize_in_destination %p in %out : (tensor<?x24xf32>, tensor<?x24xf32>) -> tensor<?x24xf32>
  return %made : tensor<?x24xf32>
}

// -----

#id = affine_map<(t, k) -> (t, k)>
#xk = affine_map<(t, n, k) -> (t, k)>
#wk = affine_map<(t, n, k) -> (n, k)>
#tn = affine_map<(t, n, k) -> (t, n)>

// Weights of few rows come by a ring of eight stages: seven turns are asked for
// before the input is computed, and each turn asks for the seventh after it.
// CHECK-LABEL: gpu.func @ring(
// CHECK-NOT: gpu.barrier
// CHECK-COUNT-7: nvgpu.device_async_copy
// CHECK-NOT: nvgpu.device_async_copy
// CHECK: math.absf
// CHECK: gpu.barrier
// CHECK: scf.for {{.*}} step %c8_i32
// CHECK-COUNT-8: nvvm.cp.async.wait.group 6
// CHECK-NOT: nvvm.cp.async.wait.group
// CHECK: scf.yield {{.*}} : vector<8xf32>
// CHECK-NEXT: }
// CHECK: nvvm.cp.async.wait.group 6
// CHECK-NOT: nvvm.cp.async.wait.group
// CHECK: gpu.return
func.func private @ring(%x: tensor<1x2304xbf16>, %w: tensor<24x2304xbf16>, %out: tensor<1x24xf32>) -> tensor<1x24xf32> {
  %zero = arith.constant 0.0 : f32
  %ey = tensor.empty() : tensor<1x2304xbf16>
  %y = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]} ins(%x : tensor<1x2304xbf16>) outs(%ey : tensor<1x2304xbf16>) {
  ^bb0(%v: bf16, %o: bf16):
    %a = math.absf %v : bf16
    linalg.yield %a : bf16
  } -> tensor<1x2304xbf16>
  %pe = tensor.empty() : tensor<1x24xf32>
  %pz = linalg.fill ins(%zero : f32) outs(%pe : tensor<1x24xf32>) -> tensor<1x24xf32>
  %p = linalg.contract indexing_maps = [#xk, #wk, #tn] ins(%y, %w : tensor<1x2304xbf16>, tensor<24x2304xbf16>) outs(%pz : tensor<1x24xf32>) -> tensor<1x24xf32>
  %made = bufferization.materialize_in_destination %p in %out : (tensor<1x24xf32>, tensor<1x24xf32>) -> tensor<1x24xf32>
  return %made : tensor<1x24xf32>
}

// -----

#xk = affine_map<(t, n, k) -> (t, k)>
#wk = affine_map<(t, n, k) -> (n, k)>
#tn = affine_map<(t, n, k) -> (t, n)>

// Halves that are made of the same two columns of a product are a unit: one
// warp has both sums, and stores both.
// CHECK-LABEL: gpu.func @halves(
// CHECK-COUNT-4: gpu.shuffle xor
// CHECK: scf.if
// CHECK: arith.subf
// CHECK: arith.addf
// CHECK: memref.store
// CHECK: memref.store
#half = affine_map<(t, n) -> (t, n)>
func.func private @halves(%x: tensor<1x32xf32>, %w: tensor<24x32xf32>, %out: tensor<1x24xf32>) -> tensor<1x24xf32> {
  %zero = arith.constant 0.0 : f32
  %pe = tensor.empty() : tensor<1x24xf32>
  %pz = linalg.fill ins(%zero : f32) outs(%pe : tensor<1x24xf32>) -> tensor<1x24xf32>
  %p = linalg.contract indexing_maps = [#xk, #wk, #tn] ins(%x, %w : tensor<1x32xf32>, tensor<24x32xf32>) outs(%pz : tensor<1x24xf32>) -> tensor<1x24xf32>
  %low = tensor.extract_slice %p[0, 0] [1, 12] [1, 1] : tensor<1x24xf32> to tensor<1x12xf32>
  %high = tensor.extract_slice %p[0, 12] [1, 12] [1, 1] : tensor<1x24xf32> to tensor<1x12xf32>
  %e = tensor.empty() : tensor<1x12xf32>
  %a = linalg.generic {indexing_maps = [#half, #half, #half], iterator_types = ["parallel", "parallel"]} ins(%low, %high : tensor<1x12xf32>, tensor<1x12xf32>) outs(%e : tensor<1x12xf32>) {
  ^bb0(%l: f32, %h: f32, %o: f32):
    %d = arith.subf %l, %h : f32
    linalg.yield %d : f32
  } -> tensor<1x12xf32>
  %b = linalg.generic {indexing_maps = [#half, #half, #half], iterator_types = ["parallel", "parallel"]} ins(%low, %high : tensor<1x12xf32>, tensor<1x12xf32>) outs(%e : tensor<1x12xf32>) {
  ^bb0(%l: f32, %h: f32, %o: f32):
    %s = arith.addf %l, %h : f32
    linalg.yield %s : f32
  } -> tensor<1x12xf32>
  %first = tensor.insert_slice %a into %out[0, 0] [1, 12] [1, 1] : tensor<1x12xf32> into tensor<1x24xf32>
  %both = tensor.insert_slice %b into %first[0, 12] [1, 12] [1, 1] : tensor<1x12xf32> into tensor<1x24xf32>
  return %both : tensor<1x24xf32>
}

// -----

#id = affine_map<(t, k) -> (t, k)>
#row = affine_map<(t, k) -> (t)>
#xk = affine_map<(t, n, k) -> (t, k)>
#wk = affine_map<(t, n, k) -> (n, k)>
#tn = affine_map<(t, n, k) -> (t, n)>

// Statistics of a product are computed from memory, where another launch has
// stored it.
// CHECK-LABEL: func.func private @statistics.launch(
// CHECK: %[[P:.*]] = memref.alloc() : memref<1x24xf32>
// CHECK: gpu.launch_func @kernels::@statistics blocks {{.*}} args(%arg0 : memref<1x32xf32>, %arg1 : memref<24x32xf32>, %[[P]] : memref<1x24xf32>)
// CHECK: gpu.launch_func @kernels::@statistics_finish {{.*}} args(%[[P]] : memref<1x24xf32>, %arg2 : memref<1x24xf32>)
// CHECK-LABEL: gpu.func @statistics_finish(
// CHECK: arith.maximumf
// CHECK: gpu.barrier
// CHECK: arith.divf
func.func private @statistics(%x: tensor<1x32xf32>, %w: tensor<24x32xf32>, %out: tensor<1x24xf32>) -> tensor<1x24xf32> {
  %zero = arith.constant 0.0 : f32
  %lowest = arith.constant 0xFF800000 : f32
  %pe = tensor.empty() : tensor<1x24xf32>
  %pz = linalg.fill ins(%zero : f32) outs(%pe : tensor<1x24xf32>) -> tensor<1x24xf32>
  %p = linalg.contract indexing_maps = [#xk, #wk, #tn] ins(%x, %w : tensor<1x32xf32>, tensor<24x32xf32>) outs(%pz : tensor<1x24xf32>) -> tensor<1x24xf32>
  %es = tensor.empty() : tensor<1xf32>
  %zs = linalg.fill ins(%lowest : f32) outs(%es : tensor<1xf32>) -> tensor<1xf32>
  %most = linalg.generic {indexing_maps = [#id, #row], iterator_types = ["parallel", "reduction"]} ins(%p : tensor<1x24xf32>) outs(%zs : tensor<1xf32>) {
  ^bb0(%v: f32, %acc: f32):
    %next = arith.maximumf %acc, %v : f32
    linalg.yield %next : f32
  } -> tensor<1xf32>
  %ey = tensor.empty() : tensor<1x24xf32>
  %y = linalg.generic {indexing_maps = [#id, #row, #id], iterator_types = ["parallel", "parallel"]} ins(%p, %most : tensor<1x24xf32>, tensor<1xf32>) outs(%ey : tensor<1x24xf32>) {
  ^bb0(%v: f32, %s: f32, %o: f32):
    %n = arith.divf %v, %s : f32
    linalg.yield %n : f32
  } -> tensor<1x24xf32>
  %made = bufferization.materialize_in_destination %y in %out : (tensor<1x24xf32>, tensor<1x24xf32>) -> tensor<1x24xf32>
  return %made : tensor<1x24xf32>
}

// -----

#id = affine_map<(t, k) -> (t, k)>

// What is read where the kernel writes, at another place, no launch may do.
// REMARK: further-launch {{.*}}Function=many {{.*}}Reason="many blocks read the input of its products"
// REMARK: further-launch {{.*}}Function=statistics {{.*}}Reason="rows of its products have statistics"
// REMARK: no-schedule {{.*}}Function=shifted {{.*}}Reason="it reads other elements of a tensor that it overwrites"
// CHECK-NOT: @shifted.launch
func.func private @shifted(%x: tensor<1x24xf32>) -> tensor<1x24xf32> {
  %from = tensor.extract_slice %x[0, 1] [1, 12] [1, 1] : tensor<1x24xf32> to tensor<1x12xf32>
  %e = tensor.empty() : tensor<1x12xf32>
  %y = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]} ins(%from : tensor<1x12xf32>) outs(%e : tensor<1x12xf32>) {
  ^bb0(%v: f32, %o: f32):
    %n = arith.negf %v : f32
    linalg.yield %n : f32
  } -> tensor<1x12xf32>
  %made = tensor.insert_slice %y into %x[0, 0] [1, 12] [1, 1] : tensor<1x12xf32> into tensor<1x24xf32>
  return %made : tensor<1x24xf32>
}

// -----

#id = affine_map<(t, k) -> (t, k)>

// Weights are read through a view at places that a payload computes: blocks share the columns
// of a token, as a convolution's.
// CHECK-LABEL: func.func private @viewed.launch
// CHECK: gpu.launch_func @kernels::@viewed blocks in (%c8{{.*}} threads in (%c128
// CHECK-NOT: gpu.launch_func
// CHECK-LABEL: gpu.func @viewed(
// CHECK-NOT: workgroup
// CHECK: memref.load {{.*}} : memref<2048xf32>
func.func private @viewed(%x: tensor<1x1024xf32>, %w: tensor<1024x1x2xf32>, %out: tensor<1x1024xf32>) -> tensor<1x1024xf32> {
  %c1 = arith.constant 1 : index
  %view = tensor.collapse_shape %w [[0, 1], [2]] : tensor<1024x1x2xf32> into tensor<1024x2xf32>
  %y = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]} ins(%x : tensor<1x1024xf32>) outs(%out : tensor<1x1024xf32>) {
  ^bb0(%v: f32, %o: f32):
    %k = linalg.index 1 : index
    %f = tensor.extract %view[%k, %c1] : tensor<1024x2xf32>
    %n = arith.mulf %v, %f : f32
    linalg.yield %n : f32
  } -> tensor<1x1024xf32>
  return %y : tensor<1x1024xf32>
}

// -----

#id = affine_map<(t, k) -> (t, k)>

// What is read of one state may go to the same place of another one, whose numbers each
// thread reads.
// CHECK-LABEL: func.func private @moved.launch
// CHECK: gpu.launch_func @kernels::@moved blocks
// CHECK-NOT: gpu.launch_func
// CHECK-LABEL: gpu.func @moved(
// CHECK: %[[FROM:.*]] = memref.load {{.*}} : memref<2xi32>
// CHECK: vector.load
// CHECK: %[[INTO:.*]] = memref.load {{.*}} : memref<2xi32>
// CHECK: vector.store
// REMARK-NOT: no-schedule {{.*}}Function=moved |
func.func private @moved(%state: tensor<?x1x2x24xf32>, %numbers: tensor<2xi32>) -> tensor<?x1x2x24xf32> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %first = tensor.extract %numbers[%c0] : tensor<2xi32>
  %from = arith.index_cast %first : i32 to index
  %second = tensor.extract %numbers[%c1] : tensor<2xi32>
  %into = arith.index_cast %second : i32 to index
  %old = tensor.extract_slice %state[%from, 0, 0, 0] [1, 1, 2, 24] [1, 1, 1, 1] : tensor<?x1x2x24xf32> to tensor<2x24xf32>
  %e = bufferization.alloc_tensor() : tensor<2x24xf32>
  %y = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]} ins(%old : tensor<2x24xf32>) outs(%e : tensor<2x24xf32>) {
  ^bb0(%v: f32, %o: f32):
    %n = arith.negf %v : f32
    linalg.yield %n : f32
  } -> tensor<2x24xf32>
  %made = tensor.insert_slice %y into %state[%into, 0, 0, 0] [1, 1, 2, 24] [1, 1, 1, 1] : tensor<2x24xf32> into tensor<?x1x2x24xf32>
  return %made : tensor<?x1x2x24xf32>
}

// -----

#id = affine_map<(t, k) -> (t, k)>

// It may not go to another place: both numbers may be those of one state.
// REMARK: no-schedule {{.*}}Function=moved_aside {{.*}}Reason="it reads other elements of a tensor that it overwrites"
// CHECK-NOT: @moved_aside.launch
func.func private @moved_aside(%state: tensor<?x1x2x24xf32>, %numbers: tensor<2xi32>) -> tensor<?x1x2x24xf32> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %first = tensor.extract %numbers[%c0] : tensor<2xi32>
  %from = arith.index_cast %first : i32 to index
  %second = tensor.extract %numbers[%c1] : tensor<2xi32>
  %into = arith.index_cast %second : i32 to index
  %old = tensor.extract_slice %state[%from, 0, 0, 1] [1, 1, 2, 12] [1, 1, 1, 1] : tensor<?x1x2x24xf32> to tensor<2x12xf32>
  %e = bufferization.alloc_tensor() : tensor<2x12xf32>
  %y = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]} ins(%old : tensor<2x12xf32>) outs(%e : tensor<2x12xf32>) {
  ^bb0(%v: f32, %o: f32):
    %n = arith.negf %v : f32
    linalg.yield %n : f32
  } -> tensor<2x12xf32>
  %made = tensor.insert_slice %y into %state[%into, 0, 0, 0] [1, 1, 2, 12] [1, 1, 1, 1] : tensor<2x12xf32> into tensor<?x1x2x24xf32>
  return %made : tensor<?x1x2x24xf32>
}

// -----

#id = affine_map<(t, k) -> (t, k)>
#row = affine_map<(t, k) -> (t)>

// The terms of a sum have an order, unless it says otherwise: one thread adds
// them.
// CHECK-LABEL: func.func private @ordered.launch
// CHECK: gpu.launch_func @kernels::@ordered blocks in (%c2,
// CHECK-LABEL: gpu.func @ordered(
// CHECK: scf.for {{.*}} iter_args(
// CHECK-COUNT-8: arith.addf %{{[^ ]*}}, %{{[^ ]*}} : f32
// CHECK: memref.store {{.*}}#gpu.address_space<workgroup>
// CHECK: gpu.barrier
func.func private @ordered(%x: tensor<2x24xf32>, %out: tensor<2xf32>) -> tensor<2xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<2xf32>
  %z = linalg.fill ins(%zero : f32) outs(%e : tensor<2xf32>) -> tensor<2xf32>
  %sum = linalg.generic {indexing_maps = [#id, #row], iterator_types = ["parallel", "reduction"]} ins(%x : tensor<2x24xf32>) outs(%z : tensor<2xf32>) {
  ^bb0(%v: f32, %acc: f32):
    %next = arith.addf %acc, %v : f32
    linalg.yield %next : f32
  } -> tensor<2xf32>
  %made = bufferization.materialize_in_destination %sum in %out : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  return %made : tensor<2xf32>
}

// -----

#xk = affine_map<(t, n, k) -> (t, k)>
#wk = affine_map<(t, n, k) -> (n, k)>
#tn = affine_map<(t, n, k) -> (t, n)>

// Rows of a slice that begin at odd elements are not copied in pairs, which
// tensor cores read.
// CHECK-LABEL: gpu.func @odd(
// CHECK-NOT: nvgpu.device_async_copy
// CHECK: math.fma
// CHECK-NOT: nvvm.mma.sync
// CHECK: gpu.return
func.func private @odd(%x: tensor<?x31xbf16>, %w: tensor<24x12xbf16>, %out: tensor<?x24xf32>) -> tensor<?x24xf32> {
  %zero = arith.constant 0.0 : f32
  %c0 = arith.constant 0 : index
  %n = tensor.dim %x, %c0 : tensor<?x31xbf16>
  %some = tensor.extract_slice %x[0, 7] [%n, 12] [1, 1] : tensor<?x31xbf16> to tensor<?x12xbf16>
  %pe = tensor.empty(%n) : tensor<?x24xf32>
  %pz = linalg.fill ins(%zero : f32) outs(%pe : tensor<?x24xf32>) -> tensor<?x24xf32>
  %p = linalg.contract indexing_maps = [#xk, #wk, #tn] ins(%some, %w : tensor<?x12xbf16>, tensor<24x12xbf16>) outs(%pz : tensor<?x24xf32>) -> tensor<?x24xf32>
  %made = bufferization.materialize_in_destination %p in %out : (tensor<?x24xf32>, tensor<?x24xf32>) -> tensor<?x24xf32>
  return %made : tensor<?x24xf32>
}

// -----

#xk = affine_map<(t, n, k) -> (t, k)>
#wk = affine_map<(t, n, k) -> (n, k)>
#tn = affine_map<(t, n, k) -> (t, n)>
#id = affine_map<(t, n) -> (t, n)>

// A tile reads a weight, and rows of a larger one: memory of two sizes.
// CHECK-LABEL: gpu.func @two_sizes(
// CHECK: arith.select {{.*}} : memref<?xf32>
func.func private @two_sizes(%x: tensor<?x8xf32>, %w: tensor<24x8xf32>, %larger: tensor<40x8xf32>, %out: tensor<?x24xf32>) -> tensor<?x24xf32> {
  %zero = arith.constant 0.0 : f32
  %c0 = arith.constant 0 : index
  %n = tensor.dim %x, %c0 : tensor<?x8xf32>
  %rows = tensor.extract_slice %larger[3, 0] [24, 8] [1, 1] : tensor<40x8xf32> to tensor<24x8xf32>
  %e = tensor.empty(%n) : tensor<?x24xf32>
  %z = linalg.fill ins(%zero : f32) outs(%e : tensor<?x24xf32>) -> tensor<?x24xf32>
  %p = linalg.contract indexing_maps = [#xk, #wk, #tn] ins(%x, %w : tensor<?x8xf32>, tensor<24x8xf32>) outs(%z : tensor<?x24xf32>) -> tensor<?x24xf32>
  %q = linalg.contract indexing_maps = [#xk, #wk, #tn] ins(%x, %rows : tensor<?x8xf32>, tensor<24x8xf32>) outs(%z : tensor<?x24xf32>) -> tensor<?x24xf32>
  %y = linalg.generic {indexing_maps = [#id, #id, #id], iterator_types = ["parallel", "parallel"]} ins(%p, %q : tensor<?x24xf32>, tensor<?x24xf32>) outs(%out : tensor<?x24xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %m = arith.mulf %a, %b : f32
    linalg.yield %m : f32
  } -> tensor<?x24xf32>
  return %y : tensor<?x24xf32>
}

// -----

// What writes memory and returns nothing has no elements to read.
// REMARK: no-schedule {{.*}}Function=in_memory {{.*}}Reason="a result is not put together from elements"
// CHECK-LABEL: func.func private @in_memory(
// CHECK: linalg.fill
func.func private @in_memory(%out: memref<2xf32>) {
  %zero = arith.constant 0.0 : f32
  linalg.fill ins(%zero : f32) outs(%out : memref<2xf32>)
  return
}
