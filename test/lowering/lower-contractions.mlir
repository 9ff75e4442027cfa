// RUN: cria-opt --lower-contractions --canonicalize %s | FileCheck %s
// RUN: cria-opt --attach-target="vector-unit={lanes=16,registers=32}" --lower-contractions --canonicalize %s | FileCheck %s --check-prefix=WIDE

#mk = affine_map<(m, n, k) -> (m, k)>
#km = affine_map<(m, n, k) -> (k, m)>
#nk = affine_map<(m, n, k) -> (n, k)>
#kn = affine_map<(m, n, k) -> (k, n)>
#mn = affine_map<(m, n, k) -> (m, n)>

// One row: a dot product for each row of b, in parallel, along k; what is left of
// k is a narrower vector. The sum is added to what c holds.
// CHECK-LABEL: func @dot
// CHECK: scf.forall (%[[N:.*]]) in (6)
// CHECK: vector.load %{{.*}}[%[[N]], %c0] : memref<6x21xf32>, vector<8xf32>
// CHECK: vector.fma
// CHECK: vector.load %{{.*}}[%[[N]], %c8] : memref<6x21xf32>, vector<8xf32>
// CHECK: vector.load %{{.*}}[%[[N]], %c16] : memref<6x21xf32>, vector<5xf32>
// CHECK: vector.reduction <add>
// CHECK: %[[OLD:.*]] = memref.load %{{.*}} : memref<1x6xf32>
// CHECK: arith.addf %{{.*}}, %[[OLD]]
// CHECK-NOT: linalg
// WIDE-LABEL: func @dot
// WIDE: vector<16xf32>
// WIDE: vector<5xf32>
func.func @dot(%a: memref<1x21xf32>, %b: memref<6x21xf32>, %c: memref<1x6xf32>) {
  linalg.generic {indexing_maps = [#mk, #nk, #mn], iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%a, %b : memref<1x21xf32>, memref<6x21xf32>) outs(%c : memref<1x6xf32>) {
    ^bb0(%x: f32, %w: f32, %acc: f32):
      %p = arith.mulf %x, %w : f32
      %s = arith.addf %acc, %p fastmath<reassoc> : f32
      linalg.yield %s : f32
  }
  return
}

// A fill with zero goes: the sum is stored as it is.
// CHECK-LABEL: func @from_zero
// CHECK-NOT: linalg.fill
// CHECK-NOT: memref.load
// CHECK: memref.store
func.func @from_zero(%a: memref<1x21xf32>, %b: memref<6x21xf32>, %c: memref<1x6xf32>) {
  %zero = arith.constant 0.0 : f32
  linalg.fill ins(%zero : f32) outs(%c : memref<1x6xf32>)
  linalg.generic {indexing_maps = [#mk, #nk, #mn], iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%a, %b : memref<1x21xf32>, memref<6x21xf32>) outs(%c : memref<1x6xf32>) {
    ^bb0(%x: f32, %w: f32, %acc: f32):
      %p = arith.mulf %x, %w : f32
      %s = arith.addf %acc, %p fastmath<reassoc> : f32
      linalg.yield %s : f32
  }
  return
}

// Long rows: a loop over equal turns of at most 64 vectors, which four sums share,
// then single ones.
// CHECK-LABEL: func @long
// CHECK: scf.for %{{.*}} = %c0 to %c1032 step %c344 iter_args({{.*}}, {{.*}}, {{.*}}, {{.*}}) -> (vector<8xf32>, vector<8xf32>, vector<8xf32>, vector<8xf32>)
// CHECK: vector.load %{{.*}}, %c1032] {{.*}} vector<8xf32>
// CHECK-NOT: vector<{{[1-7]}}xf32>
// CHECK: return
func.func @long(%a: memref<1x1040xf32>, %b: memref<6x1040xf32>, %c: memref<1x6xf32>) {
  linalg.generic {indexing_maps = [#mk, #nk, #mn], iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%a, %b : memref<1x1040xf32>, memref<6x1040xf32>) outs(%c : memref<1x6xf32>) {
    ^bb0(%x: f32, %w: f32, %acc: f32):
      %p = arith.mulf %x, %w : f32
      %s = arith.addf %acc, %p fastmath<reassoc> : f32
      linalg.yield %s : f32
  }
  return
}

// b with n innermost: outer products along n, accumulators in registers over
// all of k; 19 columns are two vectors and a narrower one.
// CHECK-LABEL: func @outer
// CHECK: scf.for %[[K:.*]] = %c0 to %c7 step %c1 iter_args
// CHECK: vector.load %{{.*}}[%[[K]], %c0] : memref<7x19xf32>, vector<8xf32>
// CHECK: vector.load %{{.*}}[%[[K]], %c8] : memref<7x19xf32>, vector<8xf32>
// CHECK: %[[A:.*]] = memref.load %{{.*}}[%c0, %[[K]]] : memref<5x7xf32>
// CHECK: vector.broadcast %[[A]]
// CHECK: vector.store %{{.*}}[%c0, %c16] : memref<5x19xf32>, vector<3xf32>
// CHECK-NOT: linalg
func.func @outer(%a: memref<5x7xf32>, %b: memref<7x19xf32>, %c: memref<5x19xf32>) {
  linalg.generic {indexing_maps = [#mk, #kn, #mn], iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%a, %b : memref<5x7xf32>, memref<7x19xf32>) outs(%c : memref<5x19xf32>) {
    ^bb0(%x: f32, %w: f32, %acc: f32):
      %p = arith.mulf %x, %w : f32
      %s = arith.addf %acc, %p fastmath<reassoc> : f32
      linalg.yield %s : f32
  }
  return
}

// A tile with few accumulators, which begin at zero, adds terms of two or more k
// at once: eight sums are on their way.
// CHECK-LABEL: func @few_sums
// CHECK: %[[SUMS:.*]]:8 = scf.for %{{.*}} = %c0 to %c16 step %c4
// CHECK-COUNT-8: vector.fma
// CHECK-COUNT-6: arith.addf
// WIDE-LABEL: func @few_sums
// WIDE: scf.for %{{.*}} = %c0 to %c16 step %c8
func.func @few_sums(%a: memref<1x16xf32>, %b: memref<16x16xf32>, %c: memref<1x16xf32>) {
  %zero = arith.constant 0.0 : f32
  linalg.fill ins(%zero : f32) outs(%c : memref<1x16xf32>)
  linalg.generic {indexing_maps = [#mk, #kn, #mn],
      iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%a, %b : memref<1x16xf32>, memref<16x16xf32>) outs(%c : memref<1x16xf32>) {
  ^bb0(%x: f32, %y: f32, %acc: f32):
    %0 = arith.mulf %x, %y fastmath<reassoc,contract> : f32
    %1 = arith.addf %acc, %0 fastmath<reassoc,contract> : f32
    linalg.yield %1 : f32
  }
  return
}

// Few rows of a, long rows of b: eight rows of b at a time, of which the next eight
// are fetched; a vector of c has one sum.
// CHECK-LABEL: func @in_order
// CHECK: scf.for %{{.*}} = %c0 to %c64 step %c32
// CHECK-COUNT-8: vector.store %cst
// CHECK: scf.for %[[K:.*]] = %c0 to %c16 step %c8
// CHECK: scf.for %[[N:.*]] = %c0 to %c64 step %c32
// CHECK-COUNT-8: vector.load %arg2
// CHECK: %[[NEXT:.*]] = arith.addi %[[K]], %c8
// CHECK: memref.prefetch %arg1[%[[NEXT]], %[[N]]], read, locality<3>
// CHECK-COUNT-64: vector.fma
// CHECK-COUNT-8: vector.store
// CHECK: vector.load %{{.*}}[%c0, %c64] : memref<2x70xf32>, vector<6xf32>
// WIDE-LABEL: func @in_order
// WIDE: scf.for %{{.*}} = %c0 to %c16 step %c8
func.func @in_order(%a: memref<2x16xf32>, %b: memref<16x70xf32>, %c: memref<2x70xf32>) {
  %zero = arith.constant 0.0 : f32
  linalg.fill ins(%zero : f32) outs(%c : memref<2x70xf32>)
  linalg.generic {indexing_maps = [#mk, #kn, #mn],
      iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%a, %b : memref<2x16xf32>, memref<16x70xf32>) outs(%c : memref<2x70xf32>) {
  ^bb0(%x: f32, %y: f32, %acc: f32):
    %0 = arith.mulf %x, %y fastmath<reassoc,contract> : f32
    %1 = arith.addf %acc, %0 fastmath<reassoc,contract> : f32
    linalg.yield %1 : f32
  }
  return
}

// Without rows there is nothing to compute.
// CHECK-LABEL: func @no_rows
// CHECK-NEXT: return
func.func @no_rows(%a: memref<0x7xf32>, %b: memref<7x19xf32>, %c: memref<0x19xf32>) {
  linalg.generic {indexing_maps = [#mk, #kn, #mn], iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%a, %b : memref<0x7xf32>, memref<7x19xf32>) outs(%c : memref<0x19xf32>) {
    ^bb0(%x: f32, %w: f32, %acc: f32):
      %p = arith.mulf %x, %w : f32
      %s = arith.addf %acc, %p fastmath<reassoc> : f32
      linalg.yield %s : f32
  }
  return
}

// a may lie transposed.
// CHECK-LABEL: func @transposed
// CHECK: scf.for %[[K:.*]] = %c0 to %c7
// CHECK: memref.load %{{.*}}[%[[K]], %c0] : memref<7x5xf32>
func.func @transposed(%a: memref<7x5xf32>, %b: memref<7x16xf32>, %c: memref<5x16xf32>) {
  linalg.generic {indexing_maps = [#km, #kn, #mn], iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%a, %b : memref<7x5xf32>, memref<7x16xf32>) outs(%c : memref<5x16xf32>) {
    ^bb0(%x: f32, %w: f32, %acc: f32):
      %p = arith.mulf %x, %w : f32
      %s = arith.addf %acc, %p fastmath<reassoc> : f32
      linalg.yield %s : f32
  }
  return
}

// What is no such product is left alone.
// CHECK-LABEL: func @other
// CHECK: linalg.generic
func.func @other(%a: memref<4xf32>, %b: memref<4xf32>) {
  linalg.generic {indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>], iterator_types = ["parallel"]}
      ins(%a : memref<4xf32>) outs(%b : memref<4xf32>) {
    ^bb0(%x: f32, %y: f32):
      %s = arith.addf %x, %y : f32
      linalg.yield %s : f32
  }
  return
}

// Without products there is nothing to schedule, and the op is removed.
// CHECK-LABEL: func @no_terms
// CHECK-NEXT: return
// CHECK-LABEL: func @no_columns
// CHECK-NEXT: return
func.func @no_terms(%a: memref<?x0xf32>, %b: memref<6x0xf32>, %c: memref<?x6xf32>) attributes {cria.chunk = 512 : index} {
  linalg.generic {indexing_maps = [#mk, #nk, #mn], iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%a, %b : memref<?x0xf32>, memref<6x0xf32>) outs(%c : memref<?x6xf32>) {
    ^bb0(%x: f32, %w: f32, %acc: f32):
      %p = arith.mulf %x, %w : f32
      %s = arith.addf %acc, %p fastmath<reassoc> : f32
      linalg.yield %s : f32
  }
  return
}

func.func @no_columns(%a: memref<?x6xf32>, %b: memref<0x6xf32>, %c: memref<?x0xf32>) attributes {cria.chunk = 512 : index} {
  linalg.generic {indexing_maps = [#mk, #nk, #mn], iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%a, %b : memref<?x6xf32>, memref<0x6xf32>) outs(%c : memref<?x0xf32>) {
    ^bb0(%x: f32, %w: f32, %acc: f32):
      %p = arith.mulf %x, %w : f32
      %s = arith.addf %acc, %p fastmath<reassoc> : f32
      linalg.yield %s : f32
  }
  return
}
