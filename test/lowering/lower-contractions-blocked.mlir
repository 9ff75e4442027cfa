// Products of many rows blocked for the second cache.
// RUN: cria-opt --attach-target="vector-unit={lanes=16,registers=32,block_for_l2}" --lower-contractions --canonicalize --cse %s | FileCheck %s
// RUN: cria-opt --attach-target="vector-unit={lanes=16,registers=32,dot_bf16,block_for_l2}" --lower-contractions --canonicalize --cse %s | FileCheck %s --check-prefix=DOT

#mk = affine_map<(m, n, k) -> (m, k)>
#nk = affine_map<(m, n, k) -> (n, k)>
#mn = affine_map<(m, n, k) -> (m, n)>

// More than 262144 elements of a: chunks of 256 columns of 2 panels beside each
// other; groups of up to 96 rows of b, in units of 16, each chunk copied.
// CHECK-LABEL: func @blocked
// CHECK-SAME: %[[B:[^:]*]]: memref<4100x2048xf32>
// CHECK: memref.alloc() {alignment = 64 : i64} : memref<1x8x2048x16xf32>
// CHECK: %[[PACKED:.*]] = memref.alloc() {alignment = 64 : i64} : memref<8x16x256x32xf32>
// CHECK: %[[MANY:.*]] = arith.cmpi sgt, %{{.*}}, %c128
// CHECK: scf.if %[[MANY]]
// CHECK: scf.forall (%[[UNIT:.*]]) in (257)
// CHECK-DAG: %[[SUMS:.*]] = memref.alloca() {alignment = 64 : i64} : memref<96x512xf32>
// CHECK-DAG: %[[COPY:.*]] = memref.alloca() {alignment = 64 : i64} : memref<96x272xf32>
// CHECK: llvm.inline_asm {cria.range_end} "", "=r,0" %{{.*}} : (i64) -> i64
// CHECK: %[[UNITS:.*]] = arith.subi %{{.*}}, %[[UNIT]]
// CHECK: scf.for
// CHECK: %[[FIRST:.*]] = arith.addi %[[UNIT]],
// CHECK: %[[N:.*]] = arith.muli %[[FIRST]], %c16
// CHECK: %[[LEFT:.*]] = arith.subi %c4100, %[[N]]
// CHECK: %[[COUNT:.*]] = arith.minsi %{{.*}}, %[[LEFT]]
// CHECK: scf.for %[[CHUNK:.*]] = %c0 to %c8 step %c1
// The rows that fill up the last block are b's last.
// CHECK: arith.minsi %{{.*}}, %c4099
// CHECK: memref.store %{{.*}}, %[[COPY]]
// CHECK: scf.for %[[PANEL:.*]] = %c0 to %{{.*}} step %c2
// CHECK: scf.for %{{.*}} = %c0 to %[[COUNT]] step %c8
// CHECK: vector.load %[[SUMS]]
// Of five tiles at least each fetches two rows: this group's in the next chunk,
// and behind the last chunk the next group's. Of the next panels each of 12 blocks
// fetches a share.
// CHECK: %[[MORE:.*]] = arith.cmpi slt, %[[CHUNK]], %c7
// CHECK: arith.select %[[MORE]], %[[N]],
// CHECK-COUNT-2: memref.prefetch %[[B]]
// CHECK-COUNT-3: memref.prefetch %[[PACKED]]
// CHECK-NOT: memref.prefetch
// CHECK: memref.load %[[COPY]]
// CHECK: vector.fma
// Few rows are multiplied as they lie in b.
// CHECK: } else {
// CHECK: scf.forall {{.*}} in (512)
func.func @blocked(%a: memref<?x2048xf32>, %b: memref<4100x2048xf32>, %c: memref<?x4100xf32>) attributes {cria.chunk = 512 : index} {
  linalg.generic {indexing_maps = [#mk, #nk, #mn], iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%a, %b : memref<?x2048xf32>, memref<4100x2048xf32>) outs(%c : memref<?x4100xf32>) {
    ^bb0(%x: f32, %w: f32, %acc: f32):
      %p = arith.mulf %x, %w : f32
      %s = arith.addf %acc, %p fastmath<reassoc> : f32
      linalg.yield %s : f32
  }
  return
}

// Threads share few rows of b, too.
// CHECK-LABEL: func @few_rows
// CHECK: scf.if
// CHECK: scf.forall {{.*}} in (32)
// CHECK: memref.alloca() {alignment = 64 : i64} : memref<96x512xf32>
func.func @few_rows(%a: memref<?x2048xf32>, %b: memref<512x2048xf32>, %c: memref<?x512xf32>) attributes {cria.chunk = 512 : index} {
  linalg.generic {indexing_maps = [#mk, #nk, #mn], iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%a, %b : memref<?x2048xf32>, memref<512x2048xf32>) outs(%c : memref<?x512xf32>) {
    ^bb0(%x: f32, %w: f32, %acc: f32):
      %p = arith.mulf %x, %w : f32
      %s = arith.addf %acc, %p fastmath<reassoc> : f32
      linalg.yield %s : f32
  }
  return
}

// No more rows than are few: one form.
// CHECK-LABEL: func @small
// CHECK: memref.alloc() {alignment = 64 : i64} : memref<1x8x2048x16xf32>
// CHECK-NOT: memref.alloc()
// CHECK: return
func.func @small(%a: memref<?x2048xf32>, %b: memref<512x2048xf32>, %c: memref<?x512xf32>) attributes {cria.chunk = 128 : index} {
  linalg.generic {indexing_maps = [#mk, #nk, #mn], iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%a, %b : memref<?x2048xf32>, memref<512x2048xf32>) outs(%c : memref<?x512xf32>) {
    ^bb0(%x: f32, %w: f32, %acc: f32):
      %p = arith.mulf %x, %w : f32
      %s = arith.addf %acc, %p fastmath<reassoc> : f32
      linalg.yield %s : f32
  }
  return
}

// Pairs of bf16 are read where they are, in slices of 512 numbers. Rows that fill no block
// of eight are a group of their own.
// DOT-LABEL: func @pairs
// DOT-SAME: %[[B:[^:]*]]: memref<1028x2048xbf16>
// DOT: memref.alloc() {alignment = 64 : i64} : memref<4x16x256x64xbf16>
// DOT: scf.forall {{.*}} in (64)
// DOT: memref.alloca() {alignment = 64 : i64} : memref<96x512xf32>
// DOT-NOT: memref.alloca
// DOT: scf.for %[[SLICE:.*]] = %c0 to %c4 step %c1
// DOT: %[[FIRST:.*]] = arith.muli %[[SLICE]], %c256
// DOT: scf.for %[[K:.*]] = %c0 to %c256 step %c16
// DOT: scf.for %[[STEP:[a-z0-9]*]] = %[[K]] to
// DOT: %[[AT:.*]] = arith.addi %[[FIRST]], %[[STEP]]
// DOT: %[[COLUMN:.*]] = arith.muli %[[AT]], %c2
// DOT: vector.load %[[B]][%{{.*}}, %[[COLUMN]]]
// DOT: memref.alloca() {alignment = 64 : i64} : memref<96x512xf32>
func.func @pairs(%a: memref<?x2048xbf16>, %b: memref<1028x2048xbf16>, %c: memref<?x1028xf32>) attributes {cria.chunk = 512 : index} {
  linalg.generic {indexing_maps = [#mk, #nk, #mn], iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%a, %b : memref<?x2048xbf16>, memref<1028x2048xbf16>) outs(%c : memref<?x1028xf32>) {
    ^bb0(%h: bf16, %g: bf16, %acc: f32):
      %x = arith.extf %h : bf16 to f32
      %w = arith.extf %g : bf16 to f32
      %p = arith.mulf %x, %w : f32
      %s = arith.addf %acc, %p fastmath<reassoc> : f32
      linalg.yield %s : f32
  }
  return
}
