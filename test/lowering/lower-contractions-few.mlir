// Where a row's sums may not depend on how many rows there are, each is added up
// alike in tiles of one row and of two.
// RUN: cria-opt --lower-contractions --canonicalize --cse %s | FileCheck %s
// RUN: cria-opt --attach-target="vector-unit={lanes=16,registers=32}" --lower-contractions --canonicalize --cse %s | FileCheck %s --check-prefix=WIDE
// RUN: cria-opt --attach-target="vector-unit={streams=4}" --lower-contractions --canonicalize --cse %s | FileCheck %s --check-prefix=STREAMS

#mk = affine_map<(m, n, k) -> (m, k)>
#nk = affine_map<(m, n, k) -> (n, k)>
#mn = affine_map<(m, n, k) -> (m, n)>

// One row: two accumulators take turns. More: two for each result, of two rows and
// two rows of b, or four. Rows of 576 bytes are fetched four rows ahead, so that 2 KiB are
// on their way. Several streams of 16
// registers: one for each result, of four rows, two or one.
// CHECK-LABEL: func @few
// CHECK: scf.if
// CHECK: scf.forall (%{{.*}}) in (21)
// CHECK: %[[EVEN:.*]] = vector.fma %{{.*}}, %{{.*}}, %cst
// CHECK-NEXT: {{.*}}vector.load
// CHECK-NEXT: {{.*}}vector.load
// CHECK-NEXT: vector.fma %{{.*}}, %{{.*}}, %cst
// CHECK: vector.fma %{{.*}}, %{{.*}}, %[[EVEN]]
// CHECK: scf.forall (%{{.*}}) in (10)
// CHECK: scf.for {{.*}} -> (vector<8xf32>, vector<8xf32>, vector<8xf32>, vector<8xf32>, vector<8xf32>, vector<8xf32>, vector<8xf32>, vector<8xf32>) {
// CHECK: %[[AHEAD:.*]] = arith.addi %{{.*}}, %c4
// CHECK: memref.prefetch %{{.*}}[%[[AHEAD]], %{{.*}}], read, locality<2>
// CHECK: scf.for {{.*}} -> (vector<8xf32>, vector<8xf32>, vector<8xf32>, vector<8xf32>) {
// WIDE-LABEL: func @few
// WIDE: scf.forall (%{{.*}}) in (21)
// WIDE: scf.forall (%{{.*}}) in (5)
// STREAMS-LABEL: func @few
// STREAMS: scf.forall (%{{.*}}) in (5)
// STREAMS: scf.forall (%{{.*}}) in (10)
// STREAMS: scf.for {{.*}} -> (vector<8xf32>, vector<8xf32>, vector<8xf32>, vector<8xf32>, vector<8xf32>, vector<8xf32>, vector<8xf32>, vector<8xf32>) {
// STREAMS: memref.prefetch %{{.*}}, read, locality<3>
// STREAMS: scf.for {{.*}} -> (vector<8xf32>, vector<8xf32>, vector<8xf32>, vector<8xf32>) {
// STREAMS: scf.for {{.*}} -> (vector<8xf32>, vector<8xf32>) {
func.func @few(%a: memref<?x144xf32>, %b: memref<21x144xf32>, %c: memref<?x21xf32>) attributes {cria.chunk = 8 : index, cria.invariant} {
  linalg.generic {indexing_maps = [#mk, #nk, #mn], iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%a, %b : memref<?x144xf32>, memref<21x144xf32>) outs(%c : memref<?x21xf32>) {
    ^bb0(%x: f32, %w: f32, %acc: f32):
      %p = arith.mulf %x, %w : f32
      %s = arith.addf %acc, %p fastmath<reassoc> : f32
      linalg.yield %s : f32
  }
  return
}

// Pairs of bf16 are split into those in even and those in odd places. Each half has
// accumulators of its own.
// CHECK-LABEL: func @halves
// CHECK: %[[PAIRS:.*]] = vector.bitcast %{{.*}} : vector<16xbf16> to vector<8xi32>
// CHECK: %[[LOW:.*]] = arith.shli %[[PAIRS]], %{{.*}} : vector<8xi32>
// CHECK: %[[HIGH:.*]] = arith.andi %[[PAIRS]], %{{.*}} : vector<8xi32>
// CHECK: %[[X0:.*]] = vector.bitcast %[[LOW]] : vector<8xi32> to vector<8xf32>
// CHECK: %[[X1:.*]] = vector.bitcast %[[HIGH]] : vector<8xi32> to vector<8xf32>
// CHECK: vector.fma %[[X0]], %{{.*}}, %[[ZERO:cst.*]] :
// CHECK: vector.fma %[[X1]], %{{.*}}, %[[ZERO]] :
// WIDE-LABEL: func @halves
// WIDE: vector<32xbf16> to vector<16xi32>
func.func @halves(%a: memref<?x144xbf16>, %b: memref<21x144xbf16>, %c: memref<?x21xf32>) attributes {cria.chunk = 8 : index, cria.invariant} {
  linalg.generic {indexing_maps = [#mk, #nk, #mn], iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%a, %b : memref<?x144xbf16>, memref<21x144xbf16>) outs(%c : memref<?x21xf32>) {
    ^bb0(%h: bf16, %g: bf16, %acc: f32):
      %x = arith.extf %h : bf16 to f32
      %w = arith.extf %g : bf16 to f32
      %p = arith.mulf %x, %w : f32
      %s = arith.addf %acc, %p fastmath<reassoc> : f32
      linalg.yield %s : f32
  }
  return
}

// Many rows: panels, also for one row, and for one panel one accumulator.
// CHECK-LABEL: func @many
// CHECK-NOT: scf.if %{{.*}} -> {
// CHECK: memref.alloc
// CHECK: scf.for {{.*}} -> (vector<8xf32>, vector<8xf32>, vector<8xf32>, vector<8xf32>, vector<8xf32>, vector<8xf32>) {
// CHECK-NOT: iter_args({{.*}}) -> (vector<8xf32>, vector<8xf32>) {
func.func @many(%a: memref<?x144xf32>, %b: memref<24x144xf32>, %c: memref<?x24xf32>) attributes {cria.chunk = 512 : index, cria.invariant} {
  linalg.generic {indexing_maps = [#mk, #nk, #mn], iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%a, %b : memref<?x144xf32>, memref<24x144xf32>) outs(%c : memref<?x24xf32>) {
    ^bb0(%x: f32, %w: f32, %acc: f32):
      %p = arith.mulf %x, %w : f32
      %s = arith.addf %acc, %p fastmath<reassoc> : f32
      linalg.yield %s : f32
  }
  return
}
