// RUN: cria-opt --hoist-kernel-results --split-input-file %s | FileCheck %s

// A buffer that a kernel yields is allocated before it, with the sizes it needs;
// what stays inside stays.
// CHECK-LABEL: func @allocation
// CHECK-SAME: (%[[N:.*]]: index, %[[I:.*]]: index
// CHECK: %[[SIZE:.*]] = arith.addi %[[N]], %[[N]]
// CHECK-NEXT: %[[OUT:.*]] = memref.alloc(%[[SIZE]]) : memref<?xf32>
// CHECK: scf.execute_region
// CHECK: memref.alloc() : memref<4xf32>
// CHECK: memref.store %{{.*}}, %[[OUT]]
// CHECK: memref.load %[[OUT]][%[[I]]]
func.func @allocation(%n: index, %i: index, %v: f32) -> f32 {
  %y = scf.execute_region -> memref<?xf32> no_inline {
    %scratch = memref.alloc() : memref<4xf32>
    memref.store %v, %scratch[%i] : memref<4xf32>
    %size = arith.addi %n, %n : index
    %out = memref.alloc(%size) : memref<?xf32>
    memref.store %v, %out[%i] : memref<?xf32>
    scf.yield %out : memref<?xf32>
  } loc(fused<"kernel">["k"])
  %r = memref.load %y[%i] : memref<?xf32>
  return %r : f32
}

// -----

// A view of an argument is taken before the kernel; an argument is itself.
// CHECK-LABEL: func @view
// CHECK-SAME: (%[[X:.*]]: memref<8xf32>, %[[I:.*]]: index
// CHECK: %[[V:.*]] = memref.subview %[[X]]
// CHECK: scf.execute_region
// CHECK: memref.load %[[V]][%[[I]]]
// CHECK: memref.load %[[X]][%[[I]]]
func.func @view(%x: memref<8xf32>, %i: index, %v: f32) -> (f32, f32) {
  %y:2 = scf.execute_region -> (memref<4xf32, strided<[1], offset: 2>>, memref<8xf32>) no_inline {
    %0 = memref.subview %x[2] [4] [1] : memref<8xf32> to memref<4xf32, strided<[1], offset: 2>>
    memref.store %v, %0[%i] : memref<4xf32, strided<[1], offset: 2>>
    scf.yield %0, %x : memref<4xf32, strided<[1], offset: 2>>, memref<8xf32>
  } loc(fused<"kernel">["k"])
  %a = memref.load %y#0[%i] : memref<4xf32, strided<[1], offset: 2>>
  %b = memref.load %y#1[%i] : memref<8xf32>
  return %a, %b : f32, f32
}

// -----

// A region that is no kernel is left alone.
// CHECK-LABEL: func @other
// CHECK: scf.execute_region
// CHECK-NEXT: memref.alloc
func.func @other(%i: index) -> f32 {
  %y = scf.execute_region -> memref<4xf32> no_inline {
    %0 = memref.alloc() : memref<4xf32>
    scf.yield %0 : memref<4xf32>
  }
  %r = memref.load %y[%i] : memref<4xf32>
  return %r : f32
}
