// A product of each head with a matrix of its own becomes products of matrices.
// RUN: cria-opt --lower-contractions --canonicalize --cse --split-input-file %s | FileCheck %s

#x = affine_map<(t, h, n, k) -> (t, h, k)>
#rows = affine_map<(t, h, n, k) -> (h, n, k)>
#columns = affine_map<(t, h, n, k) -> (h, k, n)>
#y = affine_map<(t, h, n, k) -> (t, h, n)>

// One token: threads share the heads. Matrices are read as they lie.
// CHECK-LABEL: func @one
// CHECK-SAME: %[[X:[^:]*]]: memref<1x4x16xf32>, %[[W:[^:]*]]: memref<4x24x16xf32>, %[[V:[^:]*]]: memref<4x16x24xf32>
// CHECK: scf.forall (%[[H:.*]]) in (4)
// CHECK: memref.subview %[[W]][%[[H]], 0, 0] [1, 24, 16] [1, 1, 1]
// CHECK-NOT: scf.forall
// CHECK: vector.fma
// CHECK: scf.forall (%[[H:.*]]) in (4)
// CHECK: memref.subview %[[V]][%[[H]], 0, 0] [1, 16, 24] [1, 1, 1]
// CHECK-NOT: scf.forall
// CHECK: vector.fma
// CHECK-NOT: linalg.generic
func.func @one(%x: memref<1x4x16xf32>, %w: memref<4x24x16xf32>, %v: memref<4x16x24xf32>, %y: memref<1x4x24xf32>, %z: memref<1x4x24xf32>) {
  linalg.generic {indexing_maps = [#x, #rows, #y], iterator_types = ["parallel", "parallel", "parallel", "reduction"]}
      ins(%x, %w : memref<1x4x16xf32>, memref<4x24x16xf32>) outs(%y : memref<1x4x24xf32>) {
    ^bb0(%a: f32, %b: f32, %acc: f32):
      %p = arith.mulf %a, %b : f32
      %s = arith.addf %acc, %p fastmath<reassoc> : f32
      linalg.yield %s : f32
  }
  linalg.generic {indexing_maps = [#x, #columns, #y], iterator_types = ["parallel", "parallel", "parallel", "reduction"]}
      ins(%x, %v : memref<1x4x16xf32>, memref<4x16x24xf32>) outs(%z : memref<1x4x24xf32>) {
    ^bb0(%a: f32, %b: f32, %acc: f32):
      %p = arith.mulf %a, %b : f32
      %s = arith.addf %acc, %p fastmath<reassoc> : f32
      linalg.yield %s : f32
  }
  return
}

// -----

#x = affine_map<(t, h, n, k) -> (t, h, k)>
#columns = affine_map<(t, h, n, k) -> (h, k, n)>
#y = affine_map<(t, h, n, k) -> (t, h, n)>

// More tokens: one head after the other. Matrices that lie transposed are copied
// first; the product begins at zero.
// CHECK-LABEL: func @more
// CHECK-SAME: %{{.*}}: memref<?x4x16xf32>, %[[V:[^:]*]]: memref<4x16x24xf32>
// CHECK: %[[W:.*]] = memref.alloc() {{.*}}: memref<4x24x16xf32>
// CHECK: linalg.generic {{.*}} ins(%[[V]] : {{.*}} outs(%[[W]]
// CHECK: scf.for %[[H:.*]] = %c0 to %c4
// CHECK: memref.subview %[[W]][%[[H]], 0, 0] [1, 24, 16] [1, 1, 1]
// CHECK-NOT: linalg.fill
// CHECK: scf.forall
// CHECK-NOT: linalg.generic
func.func @more(%x: memref<?x4x16xf32>, %v: memref<4x16x24xf32>, %y: memref<?x4x24xf32>) attributes {cria.chunk = 64 : index} {
  %zero = arith.constant 0.0 : f32
  linalg.fill ins(%zero : f32) outs(%y : memref<?x4x24xf32>)
  linalg.generic {indexing_maps = [#x, #columns, #y], iterator_types = ["parallel", "parallel", "parallel", "reduction"]}
      ins(%x, %v : memref<?x4x16xf32>, memref<4x16x24xf32>) outs(%y : memref<?x4x24xf32>) {
    ^bb0(%a: f32, %b: f32, %acc: f32):
      %p = arith.mulf %a, %b : f32
      %s = arith.addf %acc, %p fastmath<reassoc> : f32
      linalg.yield %s : f32
  }
  return
}
