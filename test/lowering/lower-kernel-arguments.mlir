// RUN: cria-opt %s --pass-pipeline='builtin.module(gpu.module(gpu.func(lower-kernel-arguments)))' --split-input-file --verify-diagnostics | FileCheck %s

// A memref is a pointer to device memory, with the argument's attributes; shared
// memory and other arguments stay. Its sizes are constants or poison.
// CHECK-LABEL: gpu.func @static
// CHECK-SAME: (%[[X:.*]]: !llvm.ptr<1> {llvm.noalias, llvm.readonly}, %{{.*}}: i32)
// CHECK-SAME: workgroup(%{{.*}} : memref<4xf32, #gpu.address_space<workgroup>>) kernel
// CHECK: %[[P:.*]] = llvm.addrspacecast %[[X]] : !llvm.ptr<1> to !llvm.ptr
// CHECK: %[[D0:.*]] = llvm.mlir.poison
// CHECK: %[[D1:.*]] = llvm.insertvalue %[[P]], %[[D0]][0]
// CHECK: %[[D2:.*]] = llvm.insertvalue %[[P]], %[[D1]][1]
// CHECK: %[[ZERO:.*]] = llvm.mlir.constant(0 : index)
// CHECK: llvm.insertvalue %[[ZERO]], %[[D2]][2]
// CHECK: %[[M:.*]] = builtin.unrealized_conversion_cast {{.*}} to memref<8xf32>
// CHECK: memref.load %[[M]]
gpu.module @kernels {
  gpu.func @static(%x: memref<8xf32> {llvm.noalias, llvm.readonly}, %i: i32) workgroup(%s: memref<4xf32, #gpu.address_space<workgroup>>) kernel {
    %0 = arith.index_cast %i : i32 to index
    %1 = memref.load %x[%0] : memref<8xf32>
    memref.store %1, %s[%0] : memref<4xf32, #gpu.address_space<workgroup>>
    gpu.return
  }
}

// -----

// A dynamic size is never set; a dynamic offset is none: the pointer has it.
// CHECK-LABEL: gpu.func @dynamic
// CHECK-DAG: llvm.mlir.constant(0 : index)
// CHECK-DAG: llvm.mlir.constant(64 : index)
// CHECK-NOT: [3, 0]
// CHECK: unrealized_conversion_cast {{.*}} to memref<?x64xbf16, strided<[64, 1], offset: ?>>
gpu.module @kernels {
  gpu.func @dynamic(%x: memref<?x64xbf16, strided<[64, 1], offset: ?>>) kernel {
    %c0 = arith.constant 0 : index
    %1 = memref.load %x[%c0, %c0] : memref<?x64xbf16, strided<[64, 1], offset: ?>>
    gpu.return
  }
}

// -----

// Dynamic strides are those of a cast.
// CHECK-LABEL: gpu.func @cast(%{{.*}}: !llvm.ptr<1>, %{{.*}}: index)
// CHECK-NOT: [4, 0]
// CHECK: %[[X:.*]] = builtin.unrealized_conversion_cast {{.*}} to memref<4x?xf32>
// CHECK: memref.reinterpret_cast %[[X]]
gpu.module @kernels {
  gpu.func @cast(%x: memref<4x?xf32>, %n: index) kernel {
    %0 = memref.reinterpret_cast %x to offset: [0], sizes: [4, %n], strides: [%n, 1] : memref<4x?xf32> to memref<4x?xf32>
    %1 = memref.load %0[%n, %n] : memref<4x?xf32>
    gpu.return
  }
}

// -----

gpu.module @kernels {
  // expected-error @below {{'gpu.func' op expected arguments with constant strides in the default memory space, got 'memref<4x?xf32>'}}
  gpu.func @strides(%x: memref<4x?xf32>, %i: index) kernel {
    %0 = memref.load %x[%i, %i] : memref<4x?xf32>
    gpu.return
  }
}

// -----

gpu.module @kernels {
  // expected-error @below {{expected arguments with constant strides in the default memory space, got 'memref<4xf32, 3>'}}
  gpu.func @space(%x: memref<4xf32, 3>) kernel {
    gpu.return
  }
}

// -----

// Of memory that is copied in boxes a kernel has the tensor map: what casts the
// memref to one casts the pointer. The kernel keeps which arguments these are.
// CHECK-LABEL: gpu.func @boxes
// CHECK-SAME: (%{{.*}}: !llvm.ptr<1>, %[[MAP:.*]]: !llvm.ptr) kernel attributes {cria.tensor_map = array<i32: 1>}
// CHECK: builtin.unrealized_conversion_cast %[[MAP]] : !llvm.ptr to !nvgpu.tensormap.descriptor
!map = !nvgpu.tensormap.descriptor<tensor = memref<8x64xbf16, 3>, swizzle = swizzle_128b, l2promo = l2promo_256b, oob = zero, interleave = none>
gpu.module @kernels {
  gpu.func @boxes(%x: memref<8xf32>, %w: memref<64x64xbf16> {cria.tensor_map = {box = [64, 8]}}) kernel {
    %map = builtin.unrealized_conversion_cast %w : memref<64x64xbf16> to !map
    nvgpu.tma.prefetch.descriptor %map : !map
    gpu.return
  }
}

// -----

gpu.module @kernels {
  // expected-error @below {{expected argument 0, which has a tensor map, to be cast alone}}
  gpu.func @loaded(%w: memref<64xbf16> {cria.tensor_map = {box = [64]}}) kernel {
    %c0 = arith.constant 0 : index
    %0 = memref.load %w[%c0] : memref<64xbf16>
    gpu.return
  }
}
