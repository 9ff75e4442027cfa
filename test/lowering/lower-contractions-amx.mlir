// Products of bf16 on AMX: lowering/cpu/Amx.cpp.
// RUN: cria-opt --attach-target="vector-unit={lanes=16,registers=32,amx}" --lower-contractions --canonicalize %s | FileCheck %s

#mk = affine_map<(m, n, k) -> (m, k)>
#nk = affine_map<(m, n, k) -> (n, k)>
#mn = affine_map<(m, n, k) -> (m, n)>
#mbj = affine_map<(m, n, b, j) -> (m, b, j)>
#nbj = affine_map<(m, n, b, j) -> (n, b, j)>
#nb = affine_map<(m, n, b, j) -> (n, b)>
#mnb = affine_map<(m, n, b, j) -> (m, n)>

// Two rows and more go to AMX. A step of k loads two tiles of b where it lies
// and two of packed a, then multiplies each with each. A group's eight blocks
// share the 32 lines that a step has of the next panel.
// CHECK-LABEL: func @whole
// CHECK-SAME: %[[B:[^:]*]]: memref<512x2048xbf16>
// CHECK: %[[A:.*]] = memref.alloc() {alignment = 64 : i64} : memref<1x2x64x2x16x32xbf16>
// CHECK: scf.forall
// CHECK: vector.store %{{.*}}, %[[A]]
// CHECK: arith.cmpi slt, %{{.*}}, %c2
// CHECK: } else {
// Threads share blocks, and multiply up to eight at once.
// CHECK: scf.forall (%[[I:.*]]) in (16)
// CHECK: %[[SUMS:.*]] = memref.alloca() {alignment = 64 : i64} : memref<8x1x2x32x16xf32>
// CHECK: llvm.inline_asm {cria.range_end} "", "=r,0" %{{.*}} : (i64) -> i64
// CHECK: %[[BLOCKS:.*]] = arith.subi %{{.*}}, %[[I]]
// CHECK: arith.addi %[[BLOCKS]], %c7
// CHECK-COUNT-4: amx.tile_zero
// CHECK: scf.for %{{.*}} = %c0 to %c64 step %c1 iter_args
// CHECK: %[[B0:.*]] = amx.tile_load %[[B]]
// CHECK-NEXT: %[[A0:.*]] = amx.tile_load %[[A]]
// CHECK: %[[B1:.*]] = amx.tile_load %[[B]]
// CHECK-NEXT: %[[A1:.*]] = amx.tile_load %[[A]]
// CHECK-COUNT-4: memref.prefetch %[[A]]
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
// CHECK: %[[SUMS:.*]] = memref.alloc() {alignment = 64 : i64} : memref<8x2x2x32x16xf32>
// CHECK-NOT: memref<8x32x2x16x32xbf16>
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
// CHECK: %[[COPY:.*]] = memref.alloc() {alignment = 64 : i64} : memref<8x32x2x16x32xbf16>
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

// At most 512 blocks have buffers of their own at once.
// CHECK-LABEL: func @buffers
// CHECK: memref.alloc() {alignment = 64 : i64} : memref<512x2x2x32x16xf32>
// CHECK: scf.for %[[FIRST:.*]] = %c0 to %c1000 step %c512
// CHECK: %[[LEFT:.*]] = arith.subi %c1000, %[[FIRST]]
// CHECK: %[[COUNT:.*]] = arith.minsi %[[LEFT]], %c512
// CHECK: scf.forall {{.*}} in (%[[COUNT]])
func.func @buffers(%a: memref<?x3072xbf16>, %b: memref<32000x3072xbf16>, %c: memref<?x32000xf32>) attributes {cria.chunk = 64 : index} {
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

// Numbers of weights in blocks are rounded into a copy of a group's slice, before
// its first panel; one row of a, too, is multiplied in tiles.
// CHECK-LABEL: func @widened
// CHECK-SAME: %[[X:[^:]*]]: memref<40x96xbf16>, %[[W:[^:]*]]: memref<64x3x34xi8>
// CHECK: %[[A:.*]] = memref.alloc() {alignment = 64 : i64} : memref<1x2x3x2x16x32xbf16>
// CHECK: vector.load %[[X]]
// CHECK: %[[COPY:.*]] = memref.alloc() {alignment = 64 : i64} : memref<2x3x2x16x32xbf16>
// CHECK: scf.forall
// CHECK: vector.load %[[W]][%{{.*}}, %{{.*}}, %c0]
// CHECK: vector.load %[[W]][%{{.*}}, %{{.*}}, %c2] : memref<64x3x34xi8>, vector<32xi8>
// CHECK: arith.sitofp
// CHECK: arith.mulf
// CHECK: %[[HALF:.*]] = arith.truncf %{{.*}} : vector<16xf32> to vector<16xbf16>
// CHECK: vector.store %[[HALF]], %[[COPY]]
// CHECK: amx.tile_zero
// CHECK: amx.tile_load %[[COPY]]
// CHECK-NEXT: amx.tile_load %[[A]]
// CHECK-NOT: vector.load %[[W]]
// CHECK: return
func.func @widened(%x: memref<40x96xbf16>, %w: memref<64x3x34xi8>, %y: memref<40x64xf32>) {
  %c8 = arith.constant 8 : i16
  %rows = memref.expand_shape %x [[0], [1, 2]] output_shape [40, 3, 32] : memref<40x96xbf16> into memref<40x3x32xbf16>
  %codes = memref.subview %w[0, 0, 2] [64, 3, 32] [1, 1, 1] : memref<64x3x34xi8> to memref<64x3x32xi8, strided<[102, 34, 1], offset: 2>>
  %low = memref.subview %w[0, 0, 0] [64, 3, 1] [1, 1, 1] : memref<64x3x34xi8> to memref<64x3xi8, strided<[102, 34]>>
  %high = memref.subview %w[0, 0, 1] [64, 3, 1] [1, 1, 1] : memref<64x3x34xi8> to memref<64x3xi8, strided<[102, 34], offset: 1>>
  linalg.generic {indexing_maps = [#mbj, #nbj, #nb, #nb, #mnb], iterator_types = ["parallel", "parallel", "reduction", "reduction"]}
      ins(%rows, %codes, %low, %high : memref<40x3x32xbf16>, memref<64x3x32xi8, strided<[102, 34, 1], offset: 2>>, memref<64x3xi8, strided<[102, 34]>>, memref<64x3xi8, strided<[102, 34], offset: 1>>)
      outs(%y : memref<40x64xf32>) {
    ^bb0(%a: bf16, %b: i8, %l: i8, %h: i8, %acc: f32):
      %0 = arith.extf %a : bf16 to f32
      %1 = arith.extui %l : i8 to i16
      %2 = arith.extui %h : i8 to i16
      %3 = arith.shli %2, %c8 : i16
      %4 = arith.ori %1, %3 : i16
      %5 = arith.bitcast %4 : i16 to f16
      %6 = arith.extf %5 : f16 to f32
      %7 = arith.sitofp %b : i8 to f32
      %8 = arith.mulf %7, %6 : f32
      %9 = arith.truncf %8 : f32 to bf16
      %10 = arith.extf %9 : bf16 to f32
      %11 = arith.mulf %0, %10 fastmath<reassoc> : f32
      %12 = arith.addf %acc, %11 fastmath<reassoc> : f32
      linalg.yield %12 : f32
  }
  return
}
