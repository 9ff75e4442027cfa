// Outer products of bf16 by AMX, or by pairs, as attention has them for a block of keys.
// RUN: cria-opt --attach-target="vector-unit={lanes=16,registers=32,amx}" --lower-contractions --canonicalize --cse --split-input-file %s | FileCheck %s
// RUN: cria-opt --attach-target="vector-unit={lanes=16,registers=32,dot_bf16}" --lower-contractions --canonicalize --cse --split-input-file %s | FileCheck %s --check-prefix=PAIR

#mk = affine_map<(m, n, k) -> (m, k)>
#kn = affine_map<(m, n, k) -> (k, n)>
#mn = affine_map<(m, n, k) -> (m, n)>

// b is packed, two of k side by side; a is read where it lies, and sums go where
// they belong. Two tiles by two, from zero.
// CHECK-LABEL: func @scores
// CHECK-SAME: (%[[A:[^:]*]]: memref<64x64xbf16, strided<[128, 1], offset: ?>>, %[[B:[^:]*]]: memref<64x48xbf16>, %[[C:[^:]*]]: memref<64x48xf32>)
// CHECK: %[[PACKED:.*]] = memref.alloca() {alignment = 64 : i64} : memref<3x2x16x32xbf16>
// CHECK-COUNT-2: vector.load %[[B]]{{.*}} vector<16xbf16>
// CHECK: vector.interleave %{{.*}} : vector<16xi16> -> vector<32xi16>
// CHECK: vector.store %{{.*}}, %[[PACKED]]
// CHECK-NOT: vector.transpose
// CHECK-COUNT-4: amx.tile_zero
// CHECK: scf.for
// CHECK-COUNT-2: amx.tile_load %[[A]]
// CHECK-COUNT-2: amx.tile_load %[[PACKED]]
// CHECK-COUNT-4: amx.tile_mulf
// CHECK-NOT: amx.tile_mulf
// CHECK: scf.yield
// CHECK-COUNT-4: amx.tile_store %[[C]]
// The odd tile of columns.
// CHECK-COUNT-2: amx.tile_zero
// CHECK-COUNT-2: amx.tile_mulf
// CHECK-COUNT-2: amx.tile_store %[[C]]
// CHECK-NOT: amx.tile_store

// Eight rows of a by three vectors: pairs of a are where they lie.
// PAIR-LABEL: func @scores
// PAIR-SAME: (%[[A:[^:]*]]: memref<64x64xbf16, strided<[128, 1], offset: ?>>, %[[B:[^:]*]]: memref<64x48xbf16>, %[[C:[^:]*]]: memref<64x48xf32>)
// PAIR: %[[PACKED:.*]] = memref.alloca() {alignment = 64 : i64} : memref<32x96xbf16>
// PAIR-COUNT-2: vector.load %[[B]]{{.*}} vector<16xbf16>
// PAIR: vector.interleave %{{.*}} : vector<16xi16> -> vector<32xi16>
// PAIR: vector.store %{{.*}}, %[[PACKED]]
// PAIR: scf.for {{.*}} step %c8
// PAIR: scf.for %[[K:.*]] = %c0 to %c32 step %c1 iter_args
// PAIR-COUNT-3: vector.load %[[PACKED]][%[[K]], {{.*}} vector<32xbf16>
// PAIR: vector.load %[[A]]{{.*}} vector<2xbf16>
// PAIR-COUNT-24: x86vector.avx512.dot
// PAIR-COUNT-24: vector.store %{{.*}}, %[[C]]
func.func @scores(%a: memref<64x64xbf16, strided<[128, 1], offset: ?>>, %b: memref<64x48xbf16>, %c: memref<64x48xf32>) {
  %zero = arith.constant 0.0 : f32
  linalg.fill ins(%zero : f32) outs(%c : memref<64x48xf32>)
  linalg.contract indexing_maps = [#mk, #kn, #mn] ins(%a, %b : memref<64x64xbf16, strided<[128, 1], offset: ?>>, memref<64x48xbf16>) outs(%c : memref<64x48xf32>)
  return
}

// -----

#km = affine_map<(m, n, k) -> (k, m)>
#kn = affine_map<(m, n, k) -> (k, n)>
#mn = affine_map<(m, n, k) -> (m, n)>

// a lies with k outermost: it is turned in registers, two of k as one number.
// What c holds is added to.
// CHECK-LABEL: func @values
// CHECK-SAME: (%[[A:[^:]*]]: memref<32x64xbf16>, %{{[^:]*}}: memref<32x32xbf16>, %[[C:[^:]*]]: memref<64x32xf32>)
// CHECK: %[[TURNED:.*]] = memref.alloca() {alignment = 64 : i64} : memref<4x1x16x32xbf16>
// CHECK: vector.load %[[A]]
// CHECK: vector.interleave
// CHECK-COUNT-64: vector.shuffle %{{.*}} : vector<16xf32>, vector<16xf32>
// CHECK: vector.store %{{.*}}, %[[TURNED]]
// CHECK-COUNT-4: amx.tile_load %[[C]]
// CHECK: amx.tile_load %[[TURNED]]

// Rows of a are paired, and not turned.
// PAIR-LABEL: func @values
// PAIR: %[[PACKED:.*]] = memref.alloca() {alignment = 64 : i64} : memref<16x64xbf16>
// PAIR: %[[PAIRED:.*]] = memref.alloca() {alignment = 64 : i64} : memref<16x128xbf16>
// PAIR-NOT: vector.shuffle
// PAIR: vector.load %[[PAIRED]]{{.*}} vector<2xbf16>
// PAIR: x86vector.avx512.dot
func.func @values(%a: memref<32x64xbf16>, %b: memref<32x32xbf16>, %c: memref<64x32xf32>) {
  linalg.contract indexing_maps = [#km, #kn, #mn] ins(%a, %b : memref<32x64xbf16>, memref<32x32xbf16>) outs(%c : memref<64x32xf32>)
  return
}

// -----

#mk = affine_map<(m, n, k) -> (m, k)>
#kn = affine_map<(m, n, k) -> (k, n)>
#mn = affine_map<(m, n, k) -> (m, n)>

// No whole tiles: vectors do it, and pairs as before.
// PAIR-LABEL: func @odd
// PAIR: x86vector.avx512.dot
// CHECK-LABEL: func @odd
// CHECK-NOT: amx
// CHECK: vector.fma
func.func @odd(%a: memref<64x24xbf16>, %b: memref<24x32xbf16>, %c: memref<64x32xf32>) {
  linalg.contract indexing_maps = [#mk, #kn, #mn] ins(%a, %b : memref<64x24xbf16>, memref<24x32xbf16>) outs(%c : memref<64x32xf32>)
  return
}

// -----

#mk = affine_map<(m, n, k) -> (m, k)>
#kn = affine_map<(m, n, k) -> (k, n)>
#mn = affine_map<(m, n, k) -> (m, n)>

// So few rows of a that packing b would take longer, an odd k, and so large a b that it
// would not fit on the stack.
// PAIR-LABEL: func @few
// PAIR-NOT: avx512.dot
// PAIR: return
func.func @few(%a: memref<8x24xbf16>, %b: memref<24x32xbf16>, %c: memref<8x32xf32>) {
  linalg.contract indexing_maps = [#mk, #kn, #mn] ins(%a, %b : memref<8x24xbf16>, memref<24x32xbf16>) outs(%c : memref<8x32xf32>)
  return
}
// PAIR-LABEL: func @unpaired
// PAIR-NOT: avx512.dot
// PAIR: return
func.func @unpaired(%a: memref<64x25xbf16>, %b: memref<25x32xbf16>, %c: memref<64x32xf32>) {
  linalg.contract indexing_maps = [#mk, #kn, #mn] ins(%a, %b : memref<64x25xbf16>, memref<25x32xbf16>) outs(%c : memref<64x32xf32>)
  return
}
// PAIR-LABEL: func @large
// PAIR-NOT: avx512.dot
// PAIR: return
func.func @large(%a: memref<64x2048xbf16>, %b: memref<2048x128xbf16>, %c: memref<64x128xf32>) {
  linalg.contract indexing_maps = [#mk, #kn, #mn] ins(%a, %b : memref<64x2048xbf16>, memref<2048x128xbf16>) outs(%c : memref<64x128xf32>)
  return
}

// -----

#mk = affine_map<(m, n, k) -> (m, k)>
#kn = affine_map<(m, n, k) -> (k, n)>
#mn = affine_map<(m, n, k) -> (m, n)>

// Numbers of f32 in parts: both matrices are packed, high parts and low parts. A pair is
// k and k + 16. A step has three products, and loads a tile once or twice.
// CHECK-LABEL: func @parts
// CHECK-SAME: (%[[A:[^:]*]]: memref<32x64xf32, strided<[128, 1], offset: ?>>, %[[B:[^:]*]]: memref<64x32xf32>, %[[C:[^:]*]]: memref<32x32xf32>)
// CHECK-COUNT-2: memref.alloca() {alignment = 64 : i64} : memref<2x2x16x32xbf16>
// CHECK: %[[K:.*]] = arith.addi %{{.*}}, %[[I:.*]] : index
// CHECK: vector.load %[[B]][%[[K]], %{{.*}}] : memref<64x32xf32>, vector<16xf32>
// CHECK: %[[NEXT:.*]] = arith.addi %[[K]], %c16
// CHECK: vector.load %[[B]][%[[NEXT]], %{{.*}}] : memref<64x32xf32>, vector<16xf32>
// CHECK-COUNT-2: vector.store {{.*}} vector<32xbf16>
// CHECK-COUNT-2: vector.load %[[A]]
// CHECK-COUNT-2: vector.store {{.*}} vector<32xbf16>
// CHECK-NOT: vector.shuffle
// CHECK-COUNT-4: amx.tile_zero
// CHECK: scf.for
// CHECK-COUNT-4: amx.tile_load
// CHECK-COUNT-4: amx.tile_mulf
// CHECK-COUNT-2: amx.tile_load
// CHECK-COUNT-4: amx.tile_mulf
// CHECK-COUNT-2: amx.tile_load
// CHECK-COUNT-4: amx.tile_mulf
// CHECK-NOT: amx.tile_mulf
// CHECK-COUNT-4: amx.tile_store %[[C]]

// Nothing else multiplies parts.
// PAIR-LABEL: func @parts
// PAIR: linalg.generic
func.func @parts(%a: memref<32x64xf32, strided<[128, 1], offset: ?>>, %b: memref<64x32xf32>, %c: memref<32x32xf32>) {
  %zero = arith.constant 0.0 : f32
  linalg.fill ins(%zero : f32) outs(%c : memref<32x32xf32>)
  linalg.generic {indexing_maps = [#mk, #kn, #mn], iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%a, %b : memref<32x64xf32, strided<[128, 1], offset: ?>>, memref<64x32xf32>) outs(%c : memref<32x32xf32>) {
    ^bb0(%x: f32, %y: f32, %sum: f32):
      %xr = arith.truncf %x : f32 to bf16
      %xh = arith.extf %xr : bf16 to f32
      %yr = arith.truncf %y : f32 to bf16
      %yh = arith.extf %yr : bf16 to f32
      %xd = arith.subf %x, %xh : f32
      %xdr = arith.truncf %xd : f32 to bf16
      %xl = arith.extf %xdr : bf16 to f32
      %yd = arith.subf %y, %yh : f32
      %ydr = arith.truncf %yd : f32 to bf16
      %yl = arith.extf %ydr : bf16 to f32
      %p = arith.mulf %xl, %yh : f32
      %s = arith.addf %sum, %p fastmath<reassoc> : f32
      %q = arith.mulf %xh, %yh : f32
      %t = arith.addf %s, %q fastmath<reassoc> : f32
      %r = arith.mulf %xh, %yl : f32
      %u = arith.addf %t, %r fastmath<reassoc> : f32
      linalg.yield %u : f32
  }
  return
}

// -----

#mk = affine_map<(m, n, k) -> (m, k)>
#nk = affine_map<(m, n, k) -> (n, k)>
#mn = affine_map<(m, n, k) -> (m, n)>

// b lies with n outermost: its tiles are turned where they lie. What c holds is added to.
// CHECK-LABEL: func @parts_across
// CHECK-SAME: (%{{[^:]*}}: memref<32x32xf32>, %{{[^:]*}}: memref<16x32xf32>, %[[C:[^:]*]]: memref<32x16xf32>)
// CHECK: %[[TILES:.*]] = memref.alloca() {alignment = 64 : i64} : memref<1x1x16x32xbf16>
// CHECK-COUNT-16: vector.load %[[TILES]]
// CHECK-COUNT-64: vector.shuffle %{{.*}} : vector<16xf32>, vector<16xf32>
// CHECK-COUNT-16: vector.store %{{.*}}, %[[TILES]]
// CHECK-COUNT-64: vector.shuffle %{{.*}} : vector<16xf32>, vector<16xf32>
// CHECK-NOT: vector.shuffle
// CHECK-COUNT-2: amx.tile_load %[[C]]
// CHECK-COUNT-6: amx.tile_mulf
// CHECK-COUNT-2: amx.tile_store %[[C]]
// PAIR-LABEL: func @parts_across
func.func @parts_across(%a: memref<32x32xf32>, %b: memref<16x32xf32>, %c: memref<32x16xf32>) {
  linalg.generic {indexing_maps = [#mk, #nk, #mn], iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%a, %b : memref<32x32xf32>, memref<16x32xf32>) outs(%c : memref<32x16xf32>) {
    ^bb0(%x: f32, %y: f32, %sum: f32):
      %xr = arith.truncf %x : f32 to bf16
      %xh = arith.extf %xr : bf16 to f32
      %yr = arith.truncf %y : f32 to bf16
      %yh = arith.extf %yr : bf16 to f32
      %xd = arith.subf %x, %xh : f32
      %xdr = arith.truncf %xd : f32 to bf16
      %xl = arith.extf %xdr : bf16 to f32
      %yd = arith.subf %y, %yh : f32
      %ydr = arith.truncf %yd : f32 to bf16
      %yl = arith.extf %ydr : bf16 to f32
      %p = arith.mulf %xl, %yh : f32
      %s = arith.addf %sum, %p fastmath<reassoc> : f32
      %q = arith.mulf %xh, %yh : f32
      %t = arith.addf %s, %q fastmath<reassoc> : f32
      %r = arith.mulf %xh, %yl : f32
      %u = arith.addf %t, %r fastmath<reassoc> : f32
      linalg.yield %u : f32
  }
  return
}
