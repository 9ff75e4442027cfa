// Where a row's sums may not depend on how many rows there are, each is added up
// alike in tiles of any number of rows.
// RUN: cria-opt --lower-contractions --canonicalize --cse %s | FileCheck %s
// RUN: cria-opt --attach-target="vector-unit={lanes=16,registers=32}" --lower-contractions --canonicalize --cse %s | FileCheck %s --check-prefix=WIDE
// RUN: cria-opt --attach-target="vector-unit={streams=4}" --lower-contractions --canonicalize --cse %s | FileCheck %s --check-prefix=STREAMS
// RUN: cria-opt --attach-target="vector-unit={lanes=16,registers=32,dot_bf16}" --lower-contractions --canonicalize --cse %s | FileCheck %s --check-prefix=DOT

#mk = affine_map<(m, n, k) -> (m, k)>
#nk = affine_map<(m, n, k) -> (n, k)>
#mn = affine_map<(m, n, k) -> (m, n)>

// Each result has one accumulator. One row of a is multiplied by two rows of b at a time, or
// by four far ones. Several rows make tiles of four by two, with 32 registers of four by four.
// The last tile computes the last row again. Each tile fetches the next rows of b in its share
// of the loop's turns.
// CHECK-LABEL: func @few
// CHECK: scf.if
// CHECK: scf.forall (%{{.*}}) in (10)
// CHECK: scf.for {{.*}} -> (vector<8xf32>, vector<8xf32>) {
// CHECK-NOT: memref.prefetch
// CHECK: scf.forall (%{{.*}}) in (10)
// CHECK: arith.minsi
// CHECK: scf.for {{.*}} -> (vector<8xf32>, vector<8xf32>, vector<8xf32>, vector<8xf32>, vector<8xf32>, vector<8xf32>, vector<8xf32>, vector<8xf32>) {
// CHECK: %[[TURN:.*]] = arith.andi
// CHECK: arith.cmpi eq, %[[TURN]]
// CHECK: arith.cmpi eq, %[[TURN]]
// CHECK: memref.prefetch %{{.*}}, read, locality<2>
// CHECK: scf.for {{.*}} -> (vector<8xf32>, vector<8xf32>, vector<8xf32>, vector<8xf32>) {
// CHECK: scf.for {{.*}} -> (vector<8xf32>, vector<8xf32>) {
// WIDE-LABEL: func @few
// WIDE: scf.forall (%{{.*}}) in (10)
// WIDE: scf.forall (%{{.*}}) in (5)
// WIDE: scf.for {{.*}} -> ({{((vector<16xf32>, ){15}vector<16xf32>)}}) {
// STREAMS-LABEL: func @few
// STREAMS: scf.forall (%{{.*}}) in (5)
// STREAMS: scf.for {{.*}} -> (vector<8xf32>, vector<8xf32>, vector<8xf32>, vector<8xf32>) {
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

// Pairs of bf16 are split into those in even and those in odd places, which are added
// after each other.
// CHECK-LABEL: func @halves
// CHECK: %[[PAIRS:.*]] = vector.bitcast %{{.*}} : vector<16xbf16> to vector<8xi32>
// CHECK: %[[LOW:.*]] = arith.shli %[[PAIRS]], %{{.*}} : vector<8xi32>
// CHECK: %[[HIGH:.*]] = arith.andi %[[PAIRS]], %{{.*}} : vector<8xi32>
// CHECK: %[[X0:.*]] = vector.bitcast %[[LOW]] : vector<8xi32> to vector<8xf32>
// CHECK: %[[X1:.*]] = vector.bitcast %[[HIGH]] : vector<8xi32> to vector<8xf32>
// CHECK: %[[SUM:.*]] = vector.fma %[[X0]],
// CHECK: vector.fma %[[X1]], %{{.*}}, %[[SUM]] :
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

// Eight rows by two of b where bf16 is multiplied in pairs; long rows in slices, between
// which the sums of a group's blocks are in memory.
// DOT-LABEL: func @pairs
// DOT: scf.forall (%{{.*}}) in (128)
// DOT: %[[SUMS:.*]] = memref.alloca() {{.*}} : memref<8x16x16xf32>
// DOT: vector.store %{{.*}}, %[[SUMS]]
// DOT: scf.for {{.*}} = %c0 to %c8192 step %c2048 {
// DOT: vector.load %[[SUMS]]
// DOT: scf.for {{.*}} -> ({{((vector<16xf32>, ){15}vector<16xf32>)}}) {
// DOT: x86vector.avx512.dot
// DOT: vector.store %{{.*}}, %[[SUMS]]
func.func @pairs(%a: memref<?x8192xbf16>, %b: memref<2048x8192xbf16>, %c: memref<?x2048xf32>) attributes {cria.chunk = 8 : index, cria.invariant} {
  linalg.generic {indexing_maps = [#mk, #nk, #mn], iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%a, %b : memref<?x8192xbf16>, memref<2048x8192xbf16>) outs(%c : memref<?x2048xf32>) {
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
