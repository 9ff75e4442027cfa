// Products of bf16 on AMX: lowering/cpu/Amx.cpp.
// RUN: cria-opt --attach-target="vector-unit={lanes=16,registers=32,amx}" --lower-contractions --canonicalize %s | FileCheck %s

#mk = affine_map<(m, n, k) -> (m, k)>
#nk = affine_map<(m, n, k) -> (n, k)>
#mn = affine_map<(m, n, k) -> (m, n)>

// Two rows and more go to AMX. A step of k loads two tiles of b where it lies
// and two of packed a, then multiplies each with each. Two blocks share the 32
// lines that a step has of the next panel.
// CHECK-LABEL: func @whole
// CHECK-SAME: %[[B:[^:]*]]: memref<512x2048xbf16>
// CHECK: %[[A:.*]] = memref.alloc() {alignment = 64 : i64} : memref<1x2x64x2x16x32xbf16>
// CHECK: scf.forall
// CHECK: vector.store %{{.*}}, %[[A]]
// CHECK: arith.cmpi slt, %{{.*}}, %c2
// CHECK: } else {
// CHECK: scf.forall {{.*}} in (8)
// CHECK: %[[SUMS:.*]] = memref.alloca() {alignment = 64 : i64} : memref<1x1x2x2x32x16xf32>
// CHECK-COUNT-4: amx.tile_zero
// CHECK: scf.for %{{.*}} = %c0 to %c64 step %c1 iter_args
// CHECK: %[[B0:.*]] = amx.tile_load %[[B]]
// CHECK-NEXT: %[[A0:.*]] = amx.tile_load %[[A]]
// CHECK: %[[B1:.*]] = amx.tile_load %[[B]]
// CHECK-NEXT: %[[A1:.*]] = amx.tile_load %[[A]]
// CHECK-COUNT-16: memref.prefetch %[[A]]
// CHECK-NOT: memref.prefetch
// CHECK: amx.tile_mulf %[[B0]], %[[A0]]
// CHECK-NEXT: amx.tile_mulf %[[B0]], %[[A1]]
// CHECK-NEXT: amx.tile_mulf %[[B1]], %[[A0]]
// CHECK-NEXT: amx.tile_mulf %[[B1]], %[[A1]]
// CHECK-NEXT: scf.yield
// CHECK-COUNT-4: amx.tile_store %[[SUMS]]
func.func @whole(%a: memref<?x2048xbf16>, %b: memref<512x2048xbf16>, %c: memref<?x512xf32>) attributes {cria.chunk = 64 : index} {
  linalg.generic {indexing_maps = [#mk, #nk, #mn], iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%a, %b : memref<?x2048xbf16>, memref<512x2048xbf16>) outs(%c : memref<?x512xf32>) {
    ^bb0(%x: bf16, %w: bf16, %acc: f32):
      %xw = arith.extf %x : bf16 to f32
      %ww = arith.extf %w : bf16 to f32
      %p = arith.mulf %xw, %ww : f32
      %s = arith.addf %acc, %p fastmath<reassoc> : f32
      linalg.yield %s : f32
  }
  return
}

// A panel of at most 16 rows has one tile, and no panel behind it.
// CHECK-LABEL: func @narrow
// CHECK: amx.tile_store
// CHECK: } else {
// CHECK: %[[B0:.*]] = amx.tile_load
// CHECK-NEXT: %[[A0:.*]] = amx.tile_load
// CHECK-NOT: memref.prefetch
// CHECK: %[[B1:.*]] = amx.tile_load
// CHECK-NEXT: amx.tile_mulf %[[B0]], %[[A0]]
// CHECK-NEXT: amx.tile_mulf %[[B1]], %[[A0]]
// CHECK-NEXT: scf.yield
func.func @narrow(%a: memref<?x128xbf16>, %b: memref<96x128xbf16>, %c: memref<?x96xf32>) attributes {cria.chunk = 64 : index} {
  linalg.generic {indexing_maps = [#mk, #nk, #mn], iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%a, %b : memref<?x128xbf16>, memref<96x128xbf16>) outs(%c : memref<?x96xf32>) {
    ^bb0(%x: bf16, %w: bf16, %acc: f32):
      %xw = arith.extf %x : bf16 to f32
      %ww = arith.extf %w : bf16 to f32
      %p = arith.mulf %xw, %ww : f32
      %s = arith.addf %acc, %p fastmath<reassoc> : f32
      linalg.yield %s : f32
  }
  return
}

// The last block of 41 rows begins at row 9, and gives 9 columns.
// CHECK-LABEL: func @rows
// CHECK: amx.tile_mulf
// CHECK: vector.extract_strided_slice %{{.*}} {offsets = [0], sizes = [9], strides = [1]}
// CHECK: vector.store %{{.*}} vector<9xf32>
func.func @rows(%a: memref<?x64xbf16>, %b: memref<41x64xbf16>, %c: memref<?x41xf32>) attributes {cria.chunk = 64 : index} {
  linalg.generic {indexing_maps = [#mk, #nk, #mn], iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%a, %b : memref<?x64xbf16>, memref<41x64xbf16>) outs(%c : memref<?x41xf32>) {
    ^bb0(%x: bf16, %w: bf16, %acc: f32):
      %xw = arith.extf %x : bf16 to f32
      %ww = arith.extf %w : bf16 to f32
      %p = arith.mulf %xw, %ww : f32
      %s = arith.addf %acc, %p fastmath<reassoc> : f32
      linalg.yield %s : f32
  }
  return
}

// The last 7 of 71 columns of b stand beside zeros.
// CHECK-LABEL: func @columns
// CHECK-SAME: %[[B:[^:]*]]: memref<32x71xbf16>
// CHECK: %[[TAILS:.*]] = memref.alloca() {alignment = 64 : i64} : memref<1x2x16x32xbf16>
// CHECK: vector.load %[[B]][%{{.*}}, %c64] : memref<32x71xbf16>, vector<7xbf16>
// CHECK: vector.store %{{.*}}, %[[TAILS]]
// CHECK: amx.tile_load %[[B]]
// CHECK: amx.tile_load %[[TAILS]]
func.func @columns(%a: memref<?x71xbf16>, %b: memref<32x71xbf16>, %c: memref<?x32xf32>) attributes {cria.chunk = 64 : index} {
  linalg.generic {indexing_maps = [#mk, #nk, #mn], iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%a, %b : memref<?x71xbf16>, memref<32x71xbf16>) outs(%c : memref<?x32xf32>) {
    ^bb0(%x: bf16, %w: bf16, %acc: f32):
      %xw = arith.extf %x : bf16 to f32
      %ww = arith.extf %w : bf16 to f32
      %p = arith.mulf %xw, %ww : f32
      %s = arith.addf %acc, %p fastmath<reassoc> : f32
      linalg.yield %s : f32
  }
  return
}

// More than 2048 columns are added up in chunks of 1024, a group's sums kept.
// CHECK-LABEL: func @chunks
// CHECK: %[[SUMS:.*]] = memref.alloc() {alignment = 64 : i64} : memref<8x2x1x2x32x16xf32>
// CHECK-NOT: memref<8x1x32x2x16x32xbf16>
// CHECK: scf.for %{{.*}} = %c0 to %c3 step %c1
// CHECK: scf.if
// CHECK-COUNT-4: amx.tile_zero
// CHECK: } else {
// CHECK-COUNT-4: amx.tile_load %[[SUMS]]
func.func @chunks(%a: memref<?x3072xbf16>, %b: memref<256x3072xbf16>, %c: memref<?x256xf32>) attributes {cria.chunk = 64 : index} {
  linalg.generic {indexing_maps = [#mk, #nk, #mn], iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%a, %b : memref<?x3072xbf16>, memref<256x3072xbf16>) outs(%c : memref<?x256xf32>) {
    ^bb0(%x: bf16, %w: bf16, %acc: f32):
      %xw = arith.extf %x : bf16 to f32
      %ww = arith.extf %w : bf16 to f32
      %p = arith.mulf %xw, %ww : f32
      %s = arith.addf %acc, %p fastmath<reassoc> : f32
      linalg.yield %s : f32
  }
  return
}

// Rows of 8192 bytes: panels past the first read a copy that the first leaves.
// CHECK-LABEL: func @copied
// CHECK-SAME: %[[B:[^:]*]]: memref<256x4096xbf16>
// CHECK: %[[COPY:.*]] = memref.alloc() {alignment = 64 : i64} : memref<8x1x32x2x16x32xbf16>
// CHECK: %[[TILE:.*]] = amx.tile_load %[[B]]
// CHECK: amx.tile_store %[[COPY]]{{.*}}, %[[TILE]]
// CHECK: amx.tile_load %[[COPY]]
func.func @copied(%a: memref<?x4096xbf16>, %b: memref<256x4096xbf16>, %c: memref<?x256xf32>) attributes {cria.chunk = 64 : index} {
  linalg.generic {indexing_maps = [#mk, #nk, #mn], iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%a, %b : memref<?x4096xbf16>, memref<256x4096xbf16>) outs(%c : memref<?x256xf32>) {
    ^bb0(%x: bf16, %w: bf16, %acc: f32):
      %xw = arith.extf %x : bf16 to f32
      %ww = arith.extf %w : bf16 to f32
      %p = arith.mulf %xw, %ww : f32
      %s = arith.addf %acc, %p fastmath<reassoc> : f32
      linalg.yield %s : f32
  }
  return
}

// At most 64 groups have buffers of their own.
// CHECK-LABEL: func @slots
// CHECK: memref.alloc() {alignment = 64 : i64} : memref<64x2x8x2x32x16xf32>
// CHECK: scf.forall {{.*}} in (64)
func.func @slots(%a: memref<?x3072xbf16>, %b: memref<32000x3072xbf16>, %c: memref<?x32000xf32>) attributes {cria.chunk = 64 : index} {
  linalg.generic {indexing_maps = [#mk, #nk, #mn], iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%a, %b : memref<?x3072xbf16>, memref<32000x3072xbf16>) outs(%c : memref<?x32000xf32>) {
    ^bb0(%x: bf16, %w: bf16, %acc: f32):
      %xw = arith.extf %x : bf16 to f32
      %ww = arith.extf %w : bf16 to f32
      %p = arith.mulf %xw, %ww : f32
      %s = arith.addf %acc, %p fastmath<reassoc> : f32
      linalg.yield %s : f32
  }
  return
}

// Fewer than 32 rows of b fill no block.
// CHECK-LABEL: func @few
// CHECK-NOT: amx
// CHECK: return
func.func @few(%a: memref<?x64xbf16>, %b: memref<31x64xbf16>, %c: memref<?x31xf32>) attributes {cria.chunk = 64 : index} {
  linalg.generic {indexing_maps = [#mk, #nk, #mn], iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%a, %b : memref<?x64xbf16>, memref<31x64xbf16>) outs(%c : memref<?x31xf32>) {
    ^bb0(%x: bf16, %w: bf16, %acc: f32):
      %xw = arith.extf %x : bf16 to f32
      %ww = arith.extf %w : bf16 to f32
      %p = arith.mulf %xw, %ww : f32
      %s = arith.addf %acc, %p fastmath<reassoc> : f32
      linalg.yield %s : f32
  }
  return
}

// Both operands must be bf16.
// CHECK-LABEL: func @mixed
// CHECK-NOT: amx
// CHECK: return
func.func @mixed(%a: memref<?x64xf32>, %b: memref<64x64xbf16>, %c: memref<?x64xf32>) attributes {cria.chunk = 64 : index} {
  linalg.generic {indexing_maps = [#mk, #nk, #mn], iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%a, %b : memref<?x64xf32>, memref<64x64xbf16>) outs(%c : memref<?x64xf32>) {
    ^bb0(%x: f32, %w: bf16, %acc: f32):
      %ww = arith.extf %w : bf16 to f32
      %p = arith.mulf %x, %ww : f32
      %s = arith.addf %acc, %p fastmath<reassoc> : f32
      linalg.yield %s : f32
  }
  return
}
