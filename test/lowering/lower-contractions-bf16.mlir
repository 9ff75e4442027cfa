// Products of bf16 pairs, where the CPU has them and they are faster than f32.
// RUN: cria-opt --attach-target="vector-unit={lanes=16,registers=32,dot_bf16}" --lower-contractions --canonicalize %s | FileCheck %s
// RUN: cria-opt --attach-target="vector-unit={lanes=16,registers=32}" --lower-contractions --canonicalize %s | FileCheck %s --check-prefix=NONE

// NONE-NOT: x86vector
#mk = affine_map<(m, n, k) -> (m, k)>
#km = affine_map<(m, n, k) -> (k, m)>
#nk = affine_map<(m, n, k) -> (n, k)>
#kn = affine_map<(m, n, k) -> (k, n)>
#mn = affine_map<(m, n, k) -> (m, n)>

// A vector of k is 32 wide; what is left of it is widened to f32.
// CHECK-LABEL: func @dot
// CHECK: %[[W:.*]] = vector.load {{.*}} vector<32xbf16>
// CHECK: %[[X:.*]] = vector.load {{.*}} vector<32xbf16>
// CHECK: x86vector.avx512.dot %{{.*}}, %[[W]], %[[X]] : vector<32xbf16> -> vector<16xf32>
// CHECK: vector.load {{.*}} vector<3xbf16>
// CHECK: arith.extf {{.*}} : vector<3xbf16> to vector<3xf32>
func.func @dot(%a: memref<1x35xbf16>, %b: memref<6x35xbf16>, %c: memref<1x6xf32>) {
  linalg.generic {indexing_maps = [#mk, #nk, #mn], iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%a, %b : memref<1x35xbf16>, memref<6x35xbf16>) outs(%c : memref<1x6xf32>) {
    ^bb0(%x: bf16, %w: bf16, %acc: f32):
      %xw = arith.extf %x : bf16 to f32
      %ww = arith.extf %w : bf16 to f32
      %p = arith.mulf %xw, %ww : f32
      %s = arith.addf %acc, %p fastmath<reassoc> : f32
      linalg.yield %s : f32
  }
  return
}

// Neighbours of k share a lane of a panel; the last of an odd number is beside a
// zero.
// CHECK-LABEL: func @panel
// CHECK: memref.alloc() {alignment = 64 : i64} : memref<1x4x18x32xbf16>
// CHECK: vector.load {{.*}} vector<2xbf16>
// CHECK: } else {
// CHECK: x86vector.avx512.dot
// CHECK: arith.extui {{.*}} : i16 to i32
// CHECK: x86vector.avx512.dot
func.func @panel(%a: memref<?x35xbf16>, %b: memref<6x35xbf16>, %c: memref<?x6xf32>) attributes {cria.chunk = 64 : index} {
  linalg.generic {indexing_maps = [#mk, #nk, #mn], iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%a, %b : memref<?x35xbf16>, memref<6x35xbf16>) outs(%c : memref<?x6xf32>) {
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
// CHECK-NOT: x86vector
// CHECK: return
func.func @mixed(%a: memref<1x64xf32>, %b: memref<6x64xbf16>, %c: memref<1x6xf32>) {
  linalg.generic {indexing_maps = [#mk, #nk, #mn], iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%a, %b : memref<1x64xf32>, memref<6x64xbf16>) outs(%c : memref<1x6xf32>) {
    ^bb0(%x: f32, %w: bf16, %acc: f32):
      %ww = arith.extf %w : bf16 to f32
      %p = arith.mulf %x, %ww : f32
      %s = arith.addf %acc, %p fastmath<reassoc> : f32
      linalg.yield %s : f32
  }
  return
}
