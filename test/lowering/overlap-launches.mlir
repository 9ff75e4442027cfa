// RUN: cria-opt --pass-pipeline='builtin.module(gpu.module(gpu.func(overlap-launches)))' %s | FileCheck %s

gpu.module @kernels {
  // The wait is behind copies of weights, and before what others have written:
  // a number that stood first moves, with what is computed from it.
  // CHECK-LABEL: gpu.func @copies
  // CHECK-NOT: memref.load
  // CHECK: scf.if
  // CHECK: nvgpu.device_async_copy
  // CHECK: nvvm.cp.async.commit.group
  // CHECK-NEXT: }
  // CHECK-NEXT: nvvm.griddepcontrol launch_dependents
  // CHECK-NEXT: nvvm.griddepcontrol wait
  // CHECK-NEXT: memref.load
  // CHECK-NEXT: arith.index_cast
  // CHECK-NEXT: gpu.barrier
  // CHECK: memref.load
  // CHECK: memref.store
  gpu.func @copies(%w: memref<256xbf16>, %x: memref<8xf32>, %state: memref<4xi32>)
      workgroup(%stage: memref<256xbf16, #gpu.address_space<workgroup>>) kernel attributes {cria.given = array<i32: 0>} {
    %c0 = arith.constant 0 : index
    %position = memref.load %state[%c0] : memref<4xi32>
    %thread = gpu.thread_id x
    %at = arith.index_cast %position : i32 to index
    %c4 = arith.constant 4 : index
    %some = arith.cmpi ult, %thread, %c4 : index
    scf.if %some {
      %copy = nvgpu.device_async_copy %w[%thread], %stage[%thread], 8 {bypassL1} : memref<256xbf16> to memref<256xbf16, #gpu.address_space<workgroup>>
      nvvm.cp.async.commit.group
    }
    gpu.barrier
    %v = memref.load %x[%at] : memref<8xf32>
    memref.store %v, %x[%thread] : memref<8xf32>
    gpu.return
  }

  // Bulk copies of weights, and barriers that count them, do not wait either.
  // CHECK-LABEL: gpu.func @bulk
  // CHECK: nvgpu.mbarrier.init
  // CHECK: nvvm.cp.async.bulk.shared.cluster.global
  // CHECK-NEXT: }
  // CHECK-NEXT: nvvm.griddepcontrol launch_dependents
  // CHECK-NEXT: nvvm.griddepcontrol wait
  // CHECK-NEXT: nvgpu.mbarrier.try_wait.parity
  gpu.func @bulk(%w: memref<256xbf16>)
      workgroup(%stage: memref<256xbf16, #gpu.address_space<workgroup>>) kernel attributes {cria.given = array<i32: 0>} {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c512 = arith.constant 512 : index
    %bytes = arith.constant 512 : i32
    %even = arith.constant false
    %leads = nvvm.elect.sync -> i1
    %full = nvgpu.mbarrier.create -> <memorySpace = #gpu.address_space<workgroup>>
    scf.if %leads {
      nvgpu.mbarrier.init %full[%c0], %c1 : <memorySpace = #gpu.address_space<workgroup>>
      nvvm.fence.mbarrier.init
      nvgpu.mbarrier.arrive.expect_tx %full[%c0], %c512 : <memorySpace = #gpu.address_space<workgroup>>
      %to = memref.extract_aligned_pointer_as_index %stage : memref<256xbf16, #gpu.address_space<workgroup>> -> index
      %to64 = arith.index_cast %to : index to i64
      %there = llvm.inttoptr %to64 : i64 to !llvm.ptr<7>
      %from = memref.extract_aligned_pointer_as_index %w : memref<256xbf16> -> index
      %from64 = arith.index_cast %from : index to i64
      %here = llvm.inttoptr %from64 : i64 to !llvm.ptr<1>
      %barrier = nvgpu.mbarrier.get %full[%c0] : <memorySpace = #gpu.address_space<workgroup>> -> i32
      %count = llvm.inttoptr %barrier : i32 to !llvm.ptr<3>
      nvvm.cp.async.bulk.shared.cluster.global %there, %here, %count, %bytes : !llvm.ptr<7>, !llvm.ptr<1>
    }
    nvgpu.mbarrier.try_wait.parity %full[%c0], %even, %c512 : <memorySpace = #gpu.address_space<workgroup>>
    gpu.return
  }

  // Neither do copies of what a schedule says is given, from a place that the state
  // says, a parameter that is given.
  // CHECK-LABEL: gpu.func @given
  // CHECK: memref.load
  // CHECK: nvgpu.device_async_copy {{.*}}cria.given
  // CHECK-NEXT: nvvm.griddepcontrol launch_dependents
  // CHECK-NEXT: nvvm.griddepcontrol wait
  // CHECK-NEXT: nvgpu.device_async_copy
  gpu.func @given(%keys: memref<256xbf16>, %state: memref<4xi32>)
      workgroup(%stage: memref<256xbf16, #gpu.address_space<workgroup>>) kernel attributes {cria.given = array<i32: 1>} {
    %c0 = arith.constant 0 : index
    %c8 = arith.constant 8 : index
    %position = memref.load %state[%c0] : memref<4xi32>
    %at = arith.index_cast %position : i32 to index
    %old = nvgpu.device_async_copy %keys[%at], %stage[%c0], 8 {bypassL1, cria.given} : memref<256xbf16> to memref<256xbf16, #gpu.address_space<workgroup>>
    %new = nvgpu.device_async_copy %keys[%at], %stage[%c8], 8 {bypassL1} : memref<256xbf16> to memref<256xbf16, #gpu.address_space<workgroup>>
    gpu.return
  }

  // Copies of one of two weights do not wait; those of one of a weight and an input do.
  // CHECK-LABEL: gpu.func @either
  // CHECK: nvgpu.device_async_copy
  // CHECK-NEXT: nvvm.griddepcontrol launch_dependents
  // CHECK-NEXT: nvvm.griddepcontrol wait
  // CHECK-NEXT: nvgpu.device_async_copy
  gpu.func @either(%q: memref<256xbf16>, %k: memref<256xbf16>, %x: memref<256xbf16>, %first: i1)
      workgroup(%stage: memref<256xbf16, #gpu.address_space<workgroup>>) kernel attributes {cria.given = array<i32: 0, 1>} {
    %c0 = arith.constant 0 : index
    %c8 = arith.constant 8 : index
    %w = arith.select %first, %q, %k : memref<256xbf16>
    %other = arith.select %first, %q, %x : memref<256xbf16>
    %weights = nvgpu.device_async_copy %w[%c0], %stage[%c0], 8 {bypassL1} : memref<256xbf16> to memref<256xbf16, #gpu.address_space<workgroup>>
    %input = nvgpu.device_async_copy %other[%c0], %stage[%c8], 8 {bypassL1} : memref<256xbf16> to memref<256xbf16, #gpu.address_space<workgroup>>
    gpu.return
  }

  // Those of what is no weight do.
  // CHECK-LABEL: gpu.func @bulk_input
  // CHECK: nvvm.griddepcontrol wait
  // CHECK-NEXT: nvvm.cp.async.bulk.shared.cluster.global
  gpu.func @bulk_input(%x: memref<256xbf16>, %there: !llvm.ptr<7>, %count: !llvm.ptr<3>) kernel {
    %bytes = arith.constant 512 : i32
    %from = memref.extract_aligned_pointer_as_index %x : memref<256xbf16> -> index
    %from64 = arith.index_cast %from : index to i64
    %here = llvm.inttoptr %from64 : i64 to !llvm.ptr<1>
    nvvm.cp.async.bulk.shared.cluster.global %there, %here, %count, %bytes : !llvm.ptr<7>, !llvm.ptr<1>
    gpu.return
  }

  // Copies from a place that a number says wait for it.
  // CHECK-LABEL: gpu.func @place
  // CHECK: nvvm.griddepcontrol wait
  // CHECK-NEXT: memref.load
  // CHECK-NEXT: arith.index_cast
  // CHECK-NEXT: nvgpu.device_async_copy
  gpu.func @place(%w: memref<256xbf16>, %state: memref<4xi32>)
      workgroup(%stage: memref<256xbf16, #gpu.address_space<workgroup>>) kernel attributes {cria.given = array<i32: 0>} {
    %c0 = arith.constant 0 : index
    %position = memref.load %state[%c0] : memref<4xi32>
    %at = arith.index_cast %position : i32 to index
    %copy = nvgpu.device_async_copy %w[%at], %stage[%c0], 8 {bypassL1} : memref<256xbf16> to memref<256xbf16, #gpu.address_space<workgroup>>
    gpu.return
  }

  // What is read of shared memory stays before copies to it: these wait, too.
  // CHECK-LABEL: gpu.func @shared
  // CHECK: nvvm.griddepcontrol wait
  // CHECK-NEXT: memref.load
  // CHECK-NEXT: arith.index_cast
  // CHECK-NEXT: memref.load
  // CHECK-NEXT: nvgpu.device_async_copy
  gpu.func @shared(%w: memref<256xbf16>, %state: memref<4xi32>, %x: memref<4xbf16>)
      workgroup(%stage: memref<256xbf16, #gpu.address_space<workgroup>>) kernel attributes {cria.given = array<i32: 0>} {
    %c0 = arith.constant 0 : index
    %position = memref.load %state[%c0] : memref<4xi32>
    %at = arith.index_cast %position : i32 to index
    %v = memref.load %stage[%at] : memref<256xbf16, #gpu.address_space<workgroup>>
    %copy = nvgpu.device_async_copy %w[%c0], %stage[%c0], 8 {bypassL1} : memref<256xbf16> to memref<256xbf16, #gpu.address_space<workgroup>>
    memref.store %v, %x[%c0] : memref<4xbf16>
    gpu.return
  }

  // A copy of what is no weight waits.
  // CHECK-LABEL: gpu.func @input
  // CHECK: nvvm.griddepcontrol wait
  // CHECK-NEXT: nvgpu.device_async_copy
  gpu.func @input(%x: memref<256xbf16>)
      workgroup(%stage: memref<256xbf16, #gpu.address_space<workgroup>>) kernel {
    %c0 = arith.constant 0 : index
    %copy = nvgpu.device_async_copy %x[%c0], %stage[%c0], 8 {bypassL1} : memref<256xbf16> to memref<256xbf16, #gpu.address_space<workgroup>>
    gpu.return
  }

  // All blocks wait, also those without work: outside of the condition.
  // CHECK-LABEL: gpu.func @some
  // CHECK: nvvm.griddepcontrol wait
  // CHECK-NEXT: scf.if
  gpu.func @some(%x: memref<8xf32>, %some: i1) kernel {
    %c0 = arith.constant 0 : index
    scf.if %some {
      %v = memref.load %x[%c0] : memref<8xf32>
      memref.store %v, %x[%c0] : memref<8xf32>
    }
    gpu.return
  }

  // CHECK-LABEL: gpu.func @nothing
  // CHECK: nvvm.griddepcontrol wait
  // CHECK-NEXT: gpu.return
  gpu.func @nothing(%w: memref<8xf32>) kernel attributes {cria.given = array<i32: 0>} {
    gpu.return
  }
}
