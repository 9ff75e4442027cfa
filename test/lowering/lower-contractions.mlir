// RUN: cria-opt --lower-contractions --canonicalize %s | FileCheck %s
// RUN: cria-opt --lower-contractions="lanes=16 registers=32" --canonicalize %s | FileCheck %s --check-prefix=WIDE

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
      %s = arith.addf %acc, %p : f32
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
      %s = arith.addf %acc, %p : f32
      linalg.yield %s : f32
  }
  return
}

// Long rows: a loop over four vectors at a time, then single ones.
// CHECK-LABEL: func @long
// CHECK: scf.for %{{.*}} = %c0 to %c96 step %c32 iter_args({{.*}}, {{.*}}, {{.*}}, {{.*}}) -> (vector<8xf32>, vector<8xf32>, vector<8xf32>, vector<8xf32>)
// CHECK: vector.load %{{.*}}, %c96] {{.*}} vector<8xf32>
// CHECK-NOT: vector<{{[1-7]}}xf32>
// CHECK: return
func.func @long(%a: memref<1x104xf32>, %b: memref<6x104xf32>, %c: memref<1x6xf32>) {
  linalg.generic {indexing_maps = [#mk, #nk, #mn], iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%a, %b : memref<1x104xf32>, memref<6x104xf32>) outs(%c : memref<1x6xf32>) {
    ^bb0(%x: f32, %w: f32, %acc: f32):
      %p = arith.mulf %x, %w : f32
      %s = arith.addf %acc, %p : f32
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
      %s = arith.addf %acc, %p : f32
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
      %s = arith.addf %acc, %p : f32
      linalg.yield %s : f32
  }
  return
}

// As many rows as there are tokens: tiles of dot products for few, else panels
// of packed a for all rows that the chunk can have, and 6 rows of b at a time.
// CHECK-LABEL: func @rows
// CHECK: %[[ROWS:.*]] = memref.dim
// CHECK: %[[FEW:.*]] = arith.cmpi slt, %[[ROWS]], %c32
// CHECK: scf.if %[[FEW]]
// CHECK: scf.forall {{.*}} in (3)
// CHECK: } else {
// CHECK: %[[PACKED:.*]] = memref.alloc() {alignment = 64 : i64} : memref<8x7x8xf32>
// CHECK: scf.forall
// CHECK: memref.store %{{.*}}, %[[PACKED]]
// CHECK: scf.forall {{.*}} in (2)
// CHECK: memref.alloca() {alignment = 64 : i64} : memref<6x64xf32>
// CHECK: memref.alloca() {alignment = 64 : i64} : memref<1x64xf32>
// WIDE-LABEL: func @rows
// WIDE: memref.alloc() {alignment = 64 : i64} : memref<4x7x16xf32>
func.func @rows(%a: memref<?x7xf32>, %b: memref<13x7xf32>, %c: memref<?x13xf32>) attributes {chunk = 64 : index} {
  linalg.generic {indexing_maps = [#mk, #nk, #mn], iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%a, %b : memref<?x7xf32>, memref<13x7xf32>) outs(%c : memref<?x13xf32>) {
    ^bb0(%x: f32, %w: f32, %acc: f32):
      %p = arith.mulf %x, %w : f32
      %s = arith.addf %acc, %p : f32
      linalg.yield %s : f32
  }
  return
}

// 16-bit weights are widened once for all panels, 512 columns at a time.
// CHECK-LABEL: func @widened
// CHECK: } else {
// CHECK: memref.alloca() {alignment = 64 : i64} : memref<6x512xf32>
// CHECK: arith.extf
// CHECK: scf.for %{{.*}} = %c512 to %c1500 step %c512
// CHECK: memref.alloca() {alignment = 64 : i64} : memref<6x512xf32>
func.func @widened(%a: memref<?x1500xf32>, %b: memref<12x1500xbf16>, %c: memref<?x12xf32>) attributes {chunk = 64 : index} {
  linalg.generic {indexing_maps = [#mk, #nk, #mn], iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%a, %b : memref<?x1500xf32>, memref<12x1500xbf16>) outs(%c : memref<?x12xf32>) {
    ^bb0(%x: f32, %w: bf16, %acc: f32):
      %ww = arith.extf %w : bf16 to f32
      %p = arith.mulf %x, %ww : f32
      %s = arith.addf %acc, %p : f32
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
