// One row of a times rows of b that lie far apart, each the next of a stream.
// RUN: cria-opt --attach-target="vector-unit={streams=4}" --lower-contractions --canonicalize --cse %s | FileCheck %s
// RUN: cria-opt --attach-target="vector-unit={lanes=16,registers=32,streams=8}" --lower-contractions --canonicalize --cse %s | FileCheck %s --check-prefix=EIGHT
// RUN: cria-opt --attach-target="vector-unit={lanes=16,registers=32}" --lower-contractions --canonicalize --cse %s | FileCheck %s --check-prefix=WIDE
// RUN: cria-opt --lower-contractions --canonicalize --cse %s | FileCheck %s --check-prefix=ONE

// ONE-NOT: memref.prefetch
#mk = affine_map<(m, n, k) -> (m, k)>
#nk = affine_map<(m, n, k) -> (n, k)>
#mn = affine_map<(m, n, k) -> (m, n)>

// Turn i of 5 has rows i, i + 5, i + 10 and i + 15; each is fetched 1 KiB ahead,
// and has two of the accumulators. Row 20 is left.
// CHECK-LABEL: func @streams
// CHECK: scf.forall (%[[I:.*]]) in (5)
// CHECK: %[[SECOND:.*]] = arith.addi %[[I]], %c5
// CHECK: arith.addi %[[I]], %c10
// CHECK: arith.addi %[[I]], %c15
// CHECK: scf.for %[[K:.*]] = %c0 to %c64 step %c32 iter_args({{.*}}) -> (vector<8xf32>, vector<8xf32>, vector<8xf32>, vector<8xf32>, vector<8xf32>, vector<8xf32>, vector<8xf32>, vector<8xf32>)
// CHECK: %[[AHEAD:.*]] = arith.addi %[[K]], %c256
// CHECK: memref.prefetch %{{.*}}[%[[I]], %[[AHEAD]]], read, locality<3>, data
// CHECK: %[[FURTHER:.*]] = arith.addi %[[K]], %c272
// CHECK: memref.prefetch %{{.*}}[%[[I]], %[[FURTHER]]]
// CHECK: memref.prefetch %{{.*}}[%[[SECOND]], %[[AHEAD]]]
// CHECK: vector.load %{{.*}}[%[[I]], %[[K]]] : memref<21x70xf32>
// CHECK: vector.load %{{.*}}[%[[SECOND]], %[[K]]] : memref<21x70xf32>
// CHECK: memref.store %{{.*}}[%c0, %[[I]]] : memref<1x21xf32>
// CHECK: memref.store %{{.*}}[%c0, %[[SECOND]]] : memref<1x21xf32>
// CHECK: vector.load %{{.*}}[%c20, %{{.*}}] : memref<21x70xf32>
// CHECK: memref.store %{{.*}}[%c0, %c20] : memref<1x21xf32>
// EIGHT-LABEL: func @streams
// EIGHT: scf.forall (%{{.*}}) in (2)
func.func @streams(%a: memref<1x70xf32>, %b: memref<21x70xf32>, %c: memref<1x21xf32>) {
  linalg.generic {indexing_maps = [#mk, #nk, #mn], iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%a, %b : memref<1x70xf32>, memref<21x70xf32>) outs(%c : memref<1x21xf32>) {
    ^bb0(%x: f32, %w: f32, %acc: f32):
      %p = arith.mulf %x, %w : f32
      %s = arith.addf %acc, %p fastmath<reassoc> : f32
      linalg.yield %s : f32
  }
  return
}

// A cache line of 16-bit weights is fetched once.
// CHECK-LABEL: func @halves
// CHECK: arith.addi %{{.*}}, %c512
// CHECK-COUNT-4: memref.prefetch
// CHECK-NOT: memref.prefetch
// CHECK: return
// Without streams, AVX-512 reads four neighbouring rows of f16.
// WIDE-NOT: memref.prefetch
// WIDE-LABEL: func @halves
// WIDE: scf.forall (%[[I:.*]]) in (2)
// WIDE: %[[N:.*]] = arith.muli %[[I]], %c4
// WIDE: arith.addi %[[N]], %c3
// WIDE-COUNT-8: memref.prefetch
// WIDE-NOT: memref.prefetch
// WIDE: vector.load %{{.*}}[%[[N]], %{{.*}}] : memref<8x70xf16>
func.func @halves(%a: memref<1x70xf32>, %b: memref<8x70xf16>, %c: memref<1x8xf32>) {
  linalg.generic {indexing_maps = [#mk, #nk, #mn], iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%a, %b : memref<1x70xf32>, memref<8x70xf16>) outs(%c : memref<1x8xf32>) {
    ^bb0(%x: f32, %h: f16, %acc: f32):
      %w = arith.extf %h : f16 to f32
      %p = arith.mulf %x, %w : f32
      %s = arith.addf %acc, %p fastmath<reassoc> : f32
      linalg.yield %s : f32
  }
  return
}
