// Products with the experts that tokens chose: of one token row by row, of more sorted
// by expert, in place or packed.
// RUN: cria-opt --lower-contractions --canonicalize --cse --split-input-file %s | FileCheck %s
// RUN: cria-opt --attach-target="vector-unit={streams=4}" --lower-contractions --canonicalize --cse --split-input-file %s | FileCheck %s --check-prefix=STREAMS
// RUN: cria-opt --attach-target="vector-unit={lanes=16,registers=32,amx}" --lower-contractions --canonicalize --cse --split-input-file %s | FileCheck %s --check-prefix=AMX
// RUN: cria-opt --attach-target="vector-unit={lanes=16,registers=32,dot_bf16}" --lower-contractions --canonicalize --cse --split-input-file %s | FileCheck %s --check-prefix=FOLD

#experts = affine_map<(t, s, n, k) -> (t, s)>
#row = affine_map<(t, s, n, k) -> (t, k)>
#out = affine_map<(t, s, n, k) -> (t, s, n)>

// Threads share the rows of all experts of one token, in units of 16.
// CHECK-LABEL: func @one
// CHECK-SAME: %[[E:[^:]*]]: memref<1x2xi32>, %[[X:[^:]*]]: memref<1x64xbf16>, %[[W:[^:]*]]: memref<8x40x64xbf16>
// CHECK: scf.forall (%[[I:.*]]) in (6)
// CHECK: %[[OF:.*]] = arith.divui %[[I]], %c3
// CHECK: %[[S:.*]] = arith.remui %[[OF]], %c2
// CHECK: %[[NUMBER:.*]] = memref.load %[[E]][%{{.*}}, %[[S]]]
// CHECK: %[[AT:.*]] = arith.index_cast %[[NUMBER]] : i32 to index
// CHECK: memref.subview %[[W]][%[[AT]], 0, 0] [1, 40, 64] [1, 1, 1] : memref<8x40x64xbf16> to memref<40x64xbf16, strided<[64, 1], offset: ?>>
// CHECK: %[[END:.*]] = arith.minsi %{{.*}}, %c40
// CHECK: scf.for %{{.*}} to %[[END]]
// CHECK-NOT: scf.forall
// CHECK: vector.fma
// CHECK-NOT: linalg.generic

// Four streams: two rows of each of two experts. The loads of x are shared.
// STREAMS-LABEL: func @one
// STREAMS: scf.forall (%{{.*}}) in (2)
// STREAMS: %[[FIRST:.*]] = memref.subview %{{.*}} to memref<40x64xbf16,
// STREAMS: %[[SECOND:.*]] = memref.subview %{{.*}} to memref<40x64xbf16,
// STREAMS: %[[N:.*]] = arith.addi %[[I:.*]], %c20
// STREAMS: memref.prefetch %[[FIRST]][%[[I]],
// STREAMS: memref.prefetch %[[FIRST]][%[[N]],
// STREAMS: memref.prefetch %[[SECOND]][%[[I]],
// STREAMS-NOT: memref<1x64xbf16
// STREAMS: memref.prefetch %[[SECOND]][%[[N]],
func.func @one(%e: memref<1x2xi32>, %x: memref<1x64xbf16>, %w: memref<8x40x64xbf16>, %y: memref<1x2x40xf32>) {
  linalg.generic {indexing_maps = [#experts, #row, #out], iterator_types = ["parallel", "parallel", "parallel", "reduction"]}
      ins(%e, %x : memref<1x2xi32>, memref<1x64xbf16>) outs(%y : memref<1x2x40xf32>) {
  ^bb0(%i: i32, %xk: bf16, %sum: f32):
    %n = linalg.index 2 : index
    %k = linalg.index 3 : index
    %at = arith.index_cast %i : i32 to index
    %wk = memref.load %w[%at, %n, %k] : memref<8x40x64xbf16>
    %a = arith.extf %xk : bf16 to f32
    %b = arith.extf %wk : bf16 to f32
    %p = arith.mulf %a, %b fastmath<reassoc,contract> : f32
    %r = arith.addf %sum, %p fastmath<reassoc,contract> : f32
    linalg.yield %r : f32
  }
  return
}

// -----

#experts = affine_map<(t, s, n, k) -> (t, s)>
#each = affine_map<(t, s, n, k) -> (t, s, k)>
#out = affine_map<(t, s, n, k) -> (t, s, n)>

// The rows of one token are multiplied one by one. Those of more are counted and sorted
// once for both products. A part is at most 32 rows of an expert, which begin at a
// multiple of 8; so there are at most 64 + 8 * 7 places, and 8 + 2 parts. Of up to 16
// tokens, which fill half of the vectors, two rows at a time are multiplied in place.
// Those of more are packed, once for both products.
// CHECK-LABEL: func @several
// CHECK-SAME: %[[E:[^:]*]]: memref<?x2xi32>, %[[X:[^:]*]]: memref<?x2x40xbf16>, %[[W:[^:]*]]: memref<8x64x40xbf16>
// CHECK: %[[TOKENS:.*]] = memref.dim %[[E]]
// CHECK: %[[SEVERAL:.*]] = arith.cmpi sgt, %[[TOKENS]], %c1
// CHECK: %[[ONE:.*]] = arith.select %[[SEVERAL]], %c0, %[[TOKENS]]
// CHECK: %[[UNITS:.*]] = arith.muli %[[ONE]], %c8
// CHECK: scf.forall (%{{.*}}) in (%[[UNITS]])
// CHECK: vector.fma
// CHECK: %[[NEXT:.*]] = memref.alloc() {{.*}} : memref<8xi32>
// CHECK: %[[ORDER:.*]] = memref.alloc() {{.*}} : memref<120xi32>
// CHECK: %[[PARTS:.*]] = memref.alloc() {{.*}} : memref<10x3xi32>
// CHECK: scf.for %[[T:.*]] = %[[ONE]] to %[[TOKENS]]
// CHECK: scf.for %[[S:.*]] = %c0 to %c2
// CHECK: memref.load %[[E]][%[[T]], %[[S]]]
// CHECK: %[[ENDS:.*]]:2 = scf.for
// CHECK: memref.store %{{.*}}, %[[PARTS]]
// CHECK: memref.store %c-1_i32, %[[ORDER]]
// CHECK: scf.for {{.*}} = %[[ONE]] to %[[TOKENS]]
// CHECK: memref.store %{{.*}}, %[[ORDER]]
// CHECK: %[[FEW:.*]] = arith.cmpi slt, %[[TOKENS]], %c17
// CHECK: %[[DOTS:.*]] = arith.select %[[FEW]], %[[ENDS]]#1, %c0
// CHECK: %[[MANY:.*]] = arith.cmpi sgt, %[[TOKENS]], %c16
// CHECK: %[[PLACES:.*]] = arith.select %[[MANY]], %[[ENDS]]#0, %c0
// CHECK: %[[COUNT:.*]] = arith.select %[[MANY]], %[[ENDS]]#1, %c0
// CHECK: %[[UNITS:.*]] = arith.muli %[[DOTS]], %c2
// CHECK: scf.forall (%{{.*}}) in (%[[UNITS]])
// CHECK: memref.load %[[PARTS]]
// CHECK: memref.subview %[[W]][
// CHECK: scf.for {{.*}} step %c2
// CHECK: memref.load %[[ORDER]]
// CHECK: memref.load %[[ORDER]]
// CHECK: vector.load %[[X]][
// CHECK: %[[PACKED:.*]] = memref.alloc() {{.*}} : memref<1x15x40x8xf32>
// CHECK: scf.forall
// CHECK: %[[ROW:.*]] = memref.load %[[ORDER]]
// CHECK: vector.load %[[X]][
// CHECK: vector.store %{{.*}}, %[[PACKED]]
// CHECK: %[[GROUPS:.*]] = arith.muli %[[COUNT]], %c11
// CHECK: scf.forall (%{{.*}}) in (%[[GROUPS]])
// CHECK: memref.load %[[PARTS]]
// CHECK: memref.subview %[[W]][
// CHECK: vector.load %[[PACKED]]
// CHECK: memref.load %[[ORDER]]
// CHECK: scf.forall
// CHECK: scf.forall (%{{.*}}) in (%[[UNITS]])
// CHECK: scf.forall
// CHECK-NOT: memref.store %{{.*}}, %[[ORDER]]
// CHECK-NOT: vector.store %{{.*}}, %[[PACKED]]
// CHECK: vector.load %[[PACKED]]
// CHECK-NOT: linalg.generic

// Tiles: parts begin at a multiple of 32.
// AMX-LABEL: func @several
// AMX: memref.alloc() {{.*}} : memref<320xi32>
// AMX: memref.alloc() {{.*}} : memref<10x3xi32>
// AMX: arith.cmpi slt, %{{.*}}, %c3
// AMX: memref.alloc() {{.*}} : memref<1x10x2x2x16x32xbf16>
// AMX: scf.forall (%{{.*}}) in (64)
// AMX: memref.subview %{{.*}} to memref<64x40xbf16,
// AMX: amx.tile_mulf
func.func @several(%e: memref<?x2xi32>, %x: memref<?x2x40xbf16>, %w: memref<8x64x40xbf16>, %u: memref<8x64x40xbf16>, %y: memref<?x2x64xf32>, %z: memref<?x2x64xf32>) attributes {cria.chunk = 32 : index} {
  linalg.generic {indexing_maps = [#experts, #each, #out], iterator_types = ["parallel", "parallel", "parallel", "reduction"]}
      ins(%e, %x : memref<?x2xi32>, memref<?x2x40xbf16>) outs(%y : memref<?x2x64xf32>) {
  ^bb0(%i: i32, %xk: bf16, %sum: f32):
    %n = linalg.index 2 : index
    %k = linalg.index 3 : index
    %at = arith.index_cast %i : i32 to index
    %wk = memref.load %w[%at, %n, %k] : memref<8x64x40xbf16>
    %a = arith.extf %xk : bf16 to f32
    %b = arith.extf %wk : bf16 to f32
    %p = arith.mulf %a, %b fastmath<reassoc,contract> : f32
    %r = arith.addf %sum, %p fastmath<reassoc,contract> : f32
    linalg.yield %r : f32
  }
  linalg.generic {indexing_maps = [#experts, #each, #out], iterator_types = ["parallel", "parallel", "parallel", "reduction"]}
      ins(%e, %x : memref<?x2xi32>, memref<?x2x40xbf16>) outs(%z : memref<?x2x64xf32>) {
  ^bb0(%i: i32, %xk: bf16, %sum: f32):
    %n = linalg.index 2 : index
    %k = linalg.index 3 : index
    %at = arith.index_cast %i : i32 to index
    %wk = memref.load %u[%at, %n, %k] : memref<8x64x40xbf16>
    %a = arith.extf %xk : bf16 to f32
    %b = arith.extf %wk : bf16 to f32
    %p = arith.mulf %a, %b fastmath<reassoc,contract> : f32
    %r = arith.addf %sum, %p fastmath<reassoc,contract> : f32
    linalg.yield %r : f32
  }
  return
}

// Where sums may not depend on the number of rows: few rows are sorted, but not packed.
// A row has one set of accumulators, alone and beside another.
// CHECK-LABEL: func @invariant
// CHECK: scf.forall
// CHECK: %[[EVEN:.*]] = vector.fma %{{.*}}, %{{.*}}, %cst{{.*}} : vector<8xf32>
// CHECK-NEXT: vector.fma %{{.*}}, %{{.*}}, %[[EVEN]] : vector<8xf32>
// CHECK: memref.alloc() {{.*}} : memref<8xi32>
// CHECK: scf.forall
// CHECK: scf.for {{.*}} step %c4
// CHECK: %[[EVEN:.*]] = vector.fma %{{.*}}, %{{.*}}, %cst{{.*}} : vector<8xf32>
// CHECK-NEXT: vector.fma %{{.*}}, %{{.*}}, %[[EVEN]] : vector<8xf32>
// CHECK-NOT: memref.alloc
// CHECK-NOT: scf.forall
// CHECK: return
func.func @invariant(%e: memref<?x2xi32>, %x: memref<?x2x40xbf16>, %w: memref<8x64x40xbf16>, %y: memref<?x2x64xf32>) attributes {cria.chunk = 64 : index, cria.invariant} {
  linalg.generic {indexing_maps = [#experts, #each, #out], iterator_types = ["parallel", "parallel", "parallel", "reduction"]}
      ins(%e, %x : memref<?x2xi32>, memref<?x2x40xbf16>) outs(%y : memref<?x2x64xf32>) {
  ^bb0(%i: i32, %xk: bf16, %sum: f32):
    %n = linalg.index 2 : index
    %k = linalg.index 3 : index
    %at = arith.index_cast %i : i32 to index
    %wk = memref.load %w[%at, %n, %k] : memref<8x64x40xbf16>
    %a = arith.extf %xk : bf16 to f32
    %b = arith.extf %wk : bf16 to f32
    %p = arith.mulf %a, %b fastmath<reassoc,contract> : f32
    %r = arith.addf %sum, %p fastmath<reassoc,contract> : f32
    linalg.yield %r : f32
  }
  return
}

// Many sorted, also those of one token. No panel is folded.
// FOLD-LABEL: func @sorted
// FOLD-NOT: vector.deinterleave
// FOLD: return
// CHECK-LABEL: func @sorted
// CHECK-NOT: arith.select
// CHECK: %[[NEXT:.*]] = memref.alloc() {{.*}} : memref<8xi32>
func.func @sorted(%e: memref<?x2xi32>, %x: memref<?x2x40xbf16>, %w: memref<8x64x40xbf16>, %y: memref<?x2x64xf32>) attributes {cria.chunk = 80 : index, cria.invariant} {
  linalg.generic {indexing_maps = [#experts, #each, #out], iterator_types = ["parallel", "parallel", "parallel", "reduction"]}
      ins(%e, %x : memref<?x2xi32>, memref<?x2x40xbf16>) outs(%y : memref<?x2x64xf32>) {
  ^bb0(%i: i32, %xk: bf16, %sum: f32):
    %n = linalg.index 2 : index
    %k = linalg.index 3 : index
    %at = arith.index_cast %i : i32 to index
    %wk = memref.load %w[%at, %n, %k] : memref<8x64x40xbf16>
    %a = arith.extf %xk : bf16 to f32
    %b = arith.extf %wk : bf16 to f32
    %p = arith.mulf %a, %b fastmath<reassoc,contract> : f32
    %r = arith.addf %sum, %p fastmath<reassoc,contract> : f32
    linalg.yield %r : f32
  }
  return
}

// -----

#experts = affine_map<(t, s, n, k) -> (t, s)>
#each = affine_map<(t, s, n, k) -> (t, s, k)>
#out = affine_map<(t, s, n, k) -> (t, s, n)>

// Pairs: a panel whose lane 8 has no row is folded. It has two steps of each row side by
// side, or four if lane 4 has none, as does a splat of the weights; at the end neighbouring
// lanes are added. Three panels are a tile, or two and a folded one. Only lanes with a row
// are stored, 16 columns of them at once.
// FOLD-LABEL: func @folded
// FOLD: %[[ORDER:.*]] = memref.alloc() {{.*}} : memref<{{.*}}xi32>
// FOLD: %[[PACKED:.*]] = memref.alloc() {{.*}} : memref<1x{{.*}}x20x32xbf16>
// FOLD: %[[MIDDLE:.*]] = memref.load %[[ORDER]]
// FOLD: %[[ROW:.*]] = arith.index_cast %[[MIDDLE]] : i32 to index
// FOLD: %[[HALF:.*]] = arith.cmpi slt, %[[ROW]], %c0
// FOLD: %[[TWO:.*]] = arith.select %[[HALF]], %c2, %c1
// FOLD: %[[FOLD:.*]] = arith.select %{{.*}}, %c4, %[[TWO]]
// FOLD: arith.cmpi eq, %[[FOLD]], %c1
// FOLD-COUNT-16: vector.bitcast %{{.*}} : vector<32xbf16> to vector<16xi32>
// FOLD: arith.cmpi eq, %[[FOLD]], %c2
// FOLD-COUNT-8: vector.bitcast %{{.*}} : vector<32xbf16> to vector<8xi64>
// FOLD: vector.bitcast %{{.*}} : vector<8xi64> to vector<32xbf16>
// FOLD: arith.cmpi eq, %[[FOLD]], %c4
// FOLD-COUNT-4: vector.bitcast %{{.*}} : vector<32xbf16> to vector<4xi128>
// FOLD: scf.forall
// FOLD: scf.for {{.*}} step %c3 {
// FOLD: :24 = scf.for {{.*}} step %c1 iter_args
// FOLD: scf.if
// FOLD: scf.if
// FOLD: %[[STEPS:.*]] = vector.bitcast %{{.*}} : vector<4xbf16> to vector<1xi64>
// FOLD: %[[BOTH:.*]] = vector.extract %[[STEPS]][0]
// FOLD: vector.broadcast %[[BOTH]] : i64 to vector<8xi64>
// FOLD: %[[EVEN:.*]], %[[ODD:.*]] = vector.deinterleave %{{.*}} : vector<16xf32> -> vector<8xf32>
// FOLD: %[[SUM:.*]] = arith.addf %[[EVEN]], %[[ODD]]
// FOLD: vector.store %[[SUM]]
// FOLD: :24 = scf.for {{.*}} step %c2 iter_args
// FOLD-COUNT-16: vector.broadcast %{{.*}} : i32 to vector<16xi32>
// FOLD-COUNT-8: vector.broadcast %{{.*}} : i64 to vector<8xi64>
// FOLD-COUNT-8: vector.deinterleave
// FOLD: %[[LANE:.*]] = arith.cmpi slt
// FOLD: scf.if %[[LANE]]
// FOLD: memref.load %[[ORDER]]
// FOLD: vector.store %{{.*}} : memref<?x2x64xf32>, vector<16xf32>
func.func @folded(%e: memref<?x2xi32>, %x: memref<?x2x40xbf16>, %w: memref<8x64x40xbf16>, %y: memref<?x2x64xf32>) attributes {cria.chunk = 64 : index} {
  linalg.generic {indexing_maps = [#experts, #each, #out], iterator_types = ["parallel", "parallel", "parallel", "reduction"]}
      ins(%e, %x : memref<?x2xi32>, memref<?x2x40xbf16>) outs(%y : memref<?x2x64xf32>) {
  ^bb0(%i: i32, %xk: bf16, %sum: f32):
    %n = linalg.index 2 : index
    %k = linalg.index 3 : index
    %at = arith.index_cast %i : i32 to index
    %wk = memref.load %w[%at, %n, %k] : memref<8x64x40xbf16>
    %a = arith.extf %xk : bf16 to f32
    %b = arith.extf %wk : bf16 to f32
    %p = arith.mulf %a, %b fastmath<reassoc,contract> : f32
    %r = arith.addf %sum, %p fastmath<reassoc,contract> : f32
    linalg.yield %r : f32
  }
  return
}

// -----

#experts = affine_map<(t, s, n, k) -> (t, s)>
#row = affine_map<(t, s, n, k) -> (t, k)>
#out = affine_map<(t, s, n, k) -> (t, s, n)>

// A weight that is read elsewhere than at the chosen expert's rows stays.
// CHECK-LABEL: func @turned
// CHECK-NOT: scf.for
// CHECK: linalg.generic
func.func @turned(%e: memref<1x2xi32>, %x: memref<1x64xf32>, %w: memref<8x64x64xf32>, %y: memref<1x2x64xf32>) {
  linalg.generic {indexing_maps = [#experts, #row, #out], iterator_types = ["parallel", "parallel", "parallel", "reduction"]}
      ins(%e, %x : memref<1x2xi32>, memref<1x64xf32>) outs(%y : memref<1x2x64xf32>) {
  ^bb0(%i: i32, %xk: f32, %sum: f32):
    %n = linalg.index 2 : index
    %k = linalg.index 3 : index
    %at = arith.index_cast %i : i32 to index
    %wk = memref.load %w[%at, %k, %n] : memref<8x64x64xf32>
    %p = arith.mulf %xk, %wk fastmath<reassoc,contract> : f32
    %r = arith.addf %sum, %p fastmath<reassoc,contract> : f32
    linalg.yield %r : f32
  }
  return
}

// -----

#experts = affine_map<(t, s, n, b, j) -> (t, s)>
#codes = affine_map<(t, s, n, b, j) -> (t, b, j)>
#scales = affine_map<(t, s, n, b, j) -> (t, b)>
#out = affine_map<(t, s, n, b, j) -> (t, s, n)>

// Experts in blocks: the row of one token is multiplied with each of its experts; the rows
// of up to 128 tokens are sorted by expert. An expert's only row is multiplied in place, and
// several rows with eight rows of weights in the lanes, from a copy.
// CHECK-LABEL: func @blocks
// CHECK-SAME: %[[E:[^:]*]]: memref<?x2xi32>, %[[X:[^:]*]]: memref<?x4x32xi8>, %{{[^:]*}}: memref<?x4xf16>, %[[W:[^:]*]]: memref<8x40x4x34xi8>
// CHECK: scf.forall (%[[T:.*]], %[[S:.*]]) in (%{{.*}}, 2)
// CHECK: memref.load %[[E]][%[[T]], %[[S]]]
// CHECK: memref.subview %[[W]][%{{.*}}, 0, 0, 0] [1, 40, 4, 34]
// CHECK: memref.subview %[[X]][%[[T]], 0, 0] [1, 4, 32]
// CHECK-NOT: scf.forall
// CHECK: vector.fma
// CHECK: memref.alloc() {{.*}} : memref<120xi32>
// CHECK: %[[PARTS:.*]] = memref.alloc() {{.*}} : memref<10x3xi32>
// CHECK: %[[COPY:.*]] = memref.alloc() {{.*}} : memref<120x4x32xi16>
// CHECK: scf.forall
// CHECK: vector.load %[[X]]
// CHECK: vector.store %{{.*}}, %[[COPY]]
// CHECK: scf.forall
// CHECK: memref.load %[[PARTS]]
// CHECK: memref.subview %[[W]][%{{.*}}, 0, 0, 0] [1, 40, 4, 34]
// CHECK: %[[SEVERAL:.*]] = arith.cmpi sgt, %{{.*}}, %c1
// CHECK: scf.if %[[SEVERAL]]
// CHECK: vector.load %[[COPY]]
// CHECK: scf.forall
// CHECK: memref.load %[[PARTS]]
// CHECK: %[[ALONE:.*]] = arith.cmpi eq
// CHECK: scf.if %[[ALONE]]
// CHECK: vector.load %[[X]]
// CHECK-NOT: linalg.generic

// Vectors of 16: no call has so many tokens that their rows are packed.
// AMX-LABEL: func @blocks
// AMX: memref.alloc() {{.*}} : memref<{{.*}}x3xi32>
// AMX: scf.forall
// AMX-NOT: memref.alloc
// AMX-LABEL: func @none
func.func @blocks(%e: memref<?x2xi32>, %x: memref<?x4x32xi8>, %d: memref<?x4xf16>, %w: memref<8x40x4x34xi8>, %y: memref<?x2x40xf32>) attributes {cria.chunk = 32 : index} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %eight = arith.constant 8 : i16
  linalg.generic {indexing_maps = [#experts, #codes, #scales, #out], iterator_types = ["parallel", "parallel", "parallel", "reduction", "reduction"]}
      ins(%e, %x, %d : memref<?x2xi32>, memref<?x4x32xi8>, memref<?x4xf16>) outs(%y : memref<?x2x40xf32>) {
  ^bb0(%i: i32, %code: i8, %scale: f16, %sum: f32):
    %xd = arith.extf %scale : f16 to f32
    %at = arith.index_cast %i : i32 to index
    %n = linalg.index 2 : index
    %b = linalg.index 3 : index
    %j = linalg.index 4 : index
    %byte = arith.addi %j, %c2 : index
    %q = memref.load %w[%at, %n, %b, %byte] : memref<8x40x4x34xi8>
    %low = memref.load %w[%at, %n, %b, %c0] : memref<8x40x4x34xi8>
    %high = memref.load %w[%at, %n, %b, %c1] : memref<8x40x4x34xi8>
    %xq = arith.sitofp %code : i8 to f32
    %a = arith.mulf %xq, %xd fastmath<reassoc,contract> : f32
    %wq = arith.sitofp %q : i8 to f32
    %l = arith.extui %low : i8 to i16
    %h = arith.extui %high : i8 to i16
    %hs = arith.shli %h, %eight : i16
    %bits = arith.ori %l, %hs : i16
    %f16 = arith.bitcast %bits : i16 to f16
    %wd = arith.extf %f16 : f16 to f32
    %v = arith.mulf %wq, %wd fastmath<reassoc,contract> : f32
    %p = arith.mulf %a, %v fastmath<reassoc,contract> : f32
    %r = arith.addf %sum, %p fastmath<reassoc,contract> : f32
    linalg.yield %r : f32
  }
  return
}

// -----

#experts = affine_map<(t, s, n, k) -> (t, s)>
#row = affine_map<(t, s, n, k) -> (t, k)>
#out = affine_map<(t, s, n, k) -> (t, s, n)>

// Tokens that choose no expert: no schedule, and then nothing.
// CHECK-LABEL: func @none
// CHECK-NEXT: return
func.func @none(%e: memref<?x0xi32>, %x: memref<?x40xbf16>, %w: memref<8x64x40xbf16>, %y: memref<?x0x64xf32>) attributes {cria.chunk = 32 : index} {
  linalg.generic {indexing_maps = [#experts, #row, #out], iterator_types = ["parallel", "parallel", "parallel", "reduction"]}
      ins(%e, %x : memref<?x0xi32>, memref<?x40xbf16>) outs(%y : memref<?x0x64xf32>) {
  ^bb0(%i: i32, %xk: bf16, %sum: f32):
    %n = linalg.index 2 : index
    %k = linalg.index 3 : index
    %at = arith.index_cast %i : i32 to index
    %wk = memref.load %w[%at, %n, %k] : memref<8x64x40xbf16>
    %a = arith.extf %xk : bf16 to f32
    %b = arith.extf %wk : bf16 to f32
    %p = arith.mulf %a, %b fastmath<reassoc,contract> : f32
    %r = arith.addf %sum, %p fastmath<reassoc,contract> : f32
    linalg.yield %r : f32
  }
  return
}
