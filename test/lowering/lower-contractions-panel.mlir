// RUN: cria-opt --lower-contractions --canonicalize %s | FileCheck %s
// RUN: cria-opt --attach-target="vector-unit={lanes=16,registers=32}" --lower-contractions --canonicalize %s | FileCheck %s --check-prefix=WIDE

#mk = affine_map<(m, n, k) -> (m, k)>
#nk = affine_map<(m, n, k) -> (n, k)>
#mn = affine_map<(m, n, k) -> (m, n)>

// As many rows as there are tokens: dot products for one, else panels of packed
// a for all rows that the chunk can have, and 6 rows of b at a time. The next
// 6 rows are fetched meanwhile.
// CHECK-LABEL: func @rows
// CHECK: %[[ROWS:.*]] = memref.dim
// CHECK: %[[SEVERAL:.*]] = arith.cmpi sgt, %[[ROWS]], %c1
// CHECK: arith.select %[[SEVERAL]], %[[ROWS]], %c0
// CHECK: %[[PACKED:.*]] = memref.alloc() {alignment = 64 : i64} : memref<1x8x7x8xf32>
// CHECK: scf.forall
// CHECK: vector.store %{{.*}}, %[[PACKED]]
// CHECK: %[[ONE:.*]] = arith.cmpi slt, %[[ROWS]], %c2
// CHECK: scf.if %[[ONE]]
// CHECK: scf.forall {{.*}} in (13)
// CHECK: } else {
// CHECK: scf.forall {{.*}} in (2)
// CHECK: memref.alloca() {alignment = 64 : i64} : memref<6x64xf32>
// CHECK: memref.load %{{.*}}[%c12, %{{.*}}] : memref<13x7xf32>
// WIDE-LABEL: func @rows
// WIDE: memref.alloc() {alignment = 64 : i64} : memref<1x4x7x16xf32>
func.func @rows(%a: memref<?x7xf32>, %b: memref<13x7xf32>, %c: memref<?x13xf32>) attributes {cria.chunk = 64 : index} {
  linalg.generic {indexing_maps = [#mk, #nk, #mn], iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%a, %b : memref<?x7xf32>, memref<13x7xf32>) outs(%c : memref<?x13xf32>) {
    ^bb0(%x: f32, %w: f32, %acc: f32):
      %p = arith.mulf %x, %w : f32
      %s = arith.addf %acc, %p fastmath<reassoc> : f32
      linalg.yield %s : f32
  }
  return
}

// Products that read the same rows share the packed rows, unless the rows are
// written in between.
// CHECK-LABEL: func @shared
// CHECK: memref.alloc() {{.*}} : memref<1x8x7x8xf32>
// CHECK-NOT: memref.alloc()
// CHECK: linalg.fill
// CHECK: memref.alloc() {{.*}} : memref<1x8x7x8xf32>
// CHECK-NOT: memref.alloc()
// CHECK: return
func.func @shared(%a: memref<?x7xf32>, %b: memref<13x7xf32>, %c: memref<?x13xf32>, %d: memref<9x7xf32>, %e: memref<?x9xf32>) attributes {cria.chunk = 64 : index} {
  linalg.generic {indexing_maps = [#mk, #nk, #mn], iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%a, %b : memref<?x7xf32>, memref<13x7xf32>) outs(%c : memref<?x13xf32>) {
    ^bb0(%x: f32, %w: f32, %acc: f32):
      %p = arith.mulf %x, %w : f32
      %s = arith.addf %acc, %p fastmath<reassoc> : f32
      linalg.yield %s : f32
  }
  linalg.generic {indexing_maps = [#mk, #nk, #mn], iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%a, %d : memref<?x7xf32>, memref<9x7xf32>) outs(%e : memref<?x9xf32>) {
    ^bb0(%x: f32, %w: f32, %acc: f32):
      %p = arith.mulf %x, %w : f32
      %s = arith.addf %acc, %p fastmath<reassoc> : f32
      linalg.yield %s : f32
  }
  %one = arith.constant 1.0 : f32
  linalg.fill ins(%one : f32) outs(%a : memref<?x7xf32>)
  linalg.generic {indexing_maps = [#mk, #nk, #mn], iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%a, %d : memref<?x7xf32>, memref<9x7xf32>) outs(%e : memref<?x9xf32>) {
    ^bb0(%x: f32, %w: f32, %acc: f32):
      %p = arith.mulf %x, %w : f32
      %s = arith.addf %acc, %p fastmath<reassoc> : f32
      linalg.yield %s : f32
  }
  return
}

// Nor does a product share them whose result is in the memory of the rows.
// CHECK-LABEL: func @overwritten
// CHECK: memref.alloc() {{.*}} : memref<1x8x7x8xf32>
// CHECK: memref.alloc() {{.*}} : memref<1x8x7x8xf32>
// CHECK: return
func.func @overwritten(%all: memref<?x20xf32>, %b: memref<13x7xf32>, %d: memref<9x7xf32>, %e: memref<?x9xf32>) attributes {cria.chunk = 64 : index} {
  %zero = arith.constant 0 : index
  %rows = memref.dim %all, %zero : memref<?x20xf32>
  %a = memref.subview %all[0, 0] [%rows, 7] [1, 1] : memref<?x20xf32> to memref<?x7xf32, strided<[20, 1]>>
  %c = memref.subview %all[0, 0] [%rows, 13] [1, 1] : memref<?x20xf32> to memref<?x13xf32, strided<[20, 1]>>
  linalg.generic {indexing_maps = [#mk, #nk, #mn], iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%a, %b : memref<?x7xf32, strided<[20, 1]>>, memref<13x7xf32>) outs(%c : memref<?x13xf32, strided<[20, 1]>>) {
    ^bb0(%x: f32, %w: f32, %acc: f32):
      %p = arith.mulf %x, %w : f32
      %s = arith.addf %acc, %p fastmath<reassoc> : f32
      linalg.yield %s : f32
  }
  linalg.generic {indexing_maps = [#mk, #nk, #mn], iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%a, %d : memref<?x7xf32, strided<[20, 1]>>, memref<9x7xf32>) outs(%e : memref<?x9xf32>) {
    ^bb0(%x: f32, %w: f32, %acc: f32):
      %p = arith.mulf %x, %w : f32
      %s = arith.addf %acc, %p fastmath<reassoc> : f32
      linalg.yield %s : f32
  }
  return
}

// 16-bit weights are widened once for all panels, at most 512 columns at a time.
// CHECK-LABEL: func @widened
// CHECK: memref.alloc() {alignment = 64 : i64} : memref<3x8x512x8xf32>
// CHECK: } else {
// CHECK: scf.forall {{.*}} in (2)
// CHECK: memref.alloca() {alignment = 64 : i64} : memref<6x528xf32>
// CHECK: scf.for %{{.*}} = %c0 to %c3 step %c1
// CHECK: arith.extf
// CHECK: memref.prefetch
// CHECK: vector.fma
func.func @widened(%a: memref<?x1500xf32>, %b: memref<12x1500xbf16>, %c: memref<?x12xf32>) attributes {cria.chunk = 64 : index} {
  linalg.generic {indexing_maps = [#mk, #nk, #mn], iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%a, %b : memref<?x1500xf32>, memref<12x1500xbf16>) outs(%c : memref<?x12xf32>) {
    ^bb0(%x: f32, %w: bf16, %acc: f32):
      %ww = arith.extf %w : bf16 to f32
      %p = arith.mulf %x, %ww : f32
      %s = arith.addf %acc, %p fastmath<reassoc> : f32
      linalg.yield %s : f32
  }
  return
}

// Slices are even, up to a cache line: a slice prefetches as much of the next one as it
// has itself.
// CHECK-LABEL: func @even
// CHECK: memref.alloc() {alignment = 64 : i64} : memref<2x8x352x8xf32>
// CHECK: memref.alloca() {alignment = 64 : i64} : memref<6x368xf32>
func.func @even(%a: memref<?x704xf32>, %b: memref<12x704xbf16>, %c: memref<?x12xf32>) attributes {cria.chunk = 64 : index} {
  linalg.generic {indexing_maps = [#mk, #nk, #mn], iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%a, %b : memref<?x704xf32>, memref<12x704xbf16>) outs(%c : memref<?x12xf32>) {
    ^bb0(%x: f32, %w: bf16, %acc: f32):
      %ww = arith.extf %w : bf16 to f32
      %p = arith.mulf %x, %ww : f32
      %s = arith.addf %acc, %p fastmath<reassoc> : f32
      linalg.yield %s : f32
  }
  return
}

// Without a chunk nobody knows how many rows to pack; columns are static.
// CHECK-LABEL: func @dynamic
// CHECK-COUNT-2: linalg.generic
func.func @dynamic(%a: memref<?x?xf32>, %b: memref<8x?xf32>, %c: memref<?x8xf32>, %d: memref<4x?xf32>, %e: memref<4x8xf32>) {
  linalg.generic {indexing_maps = [#mk, #nk, #mn], iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%a, %b : memref<?x?xf32>, memref<8x?xf32>) outs(%c : memref<?x8xf32>) {
    ^bb0(%x: f32, %w: f32, %acc: f32):
      %p = arith.mulf %x, %w : f32
      %s = arith.addf %acc, %p fastmath<reassoc> : f32
      linalg.yield %s : f32
  }
  linalg.generic {indexing_maps = [#mk, #nk, #mn], iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%d, %b : memref<4x?xf32>, memref<8x?xf32>) outs(%e : memref<4x8xf32>) {
    ^bb0(%x: f32, %w: f32, %acc: f32):
      %p = arith.mulf %x, %w : f32
      %s = arith.addf %acc, %p fastmath<reassoc> : f32
      linalg.yield %s : f32
  }
  return
}
