// Products with matrices in blocks: integers, each 32 of them with a scale.
// RUN: cria-opt --attach-target="vector-unit={lanes=16,registers=32,dot_bytes,streams=4}" --lower-contractions --canonicalize --cse %s | FileCheck %s
// RUN: cria-opt --lower-contractions --canonicalize --cse %s | FileCheck %s --check-prefix=AVX2
// RUN: cria-opt --attach-target="vector-unit={lanes=16,registers=32,dot_bytes,amx_bytes,streams=4}" --lower-contractions --canonicalize --cse %s | FileCheck %s --check-prefix=AMX

#t = affine_map<(t, n, b, j) -> (t, b, j)>
#ts = affine_map<(t, n, b, j) -> (t, b)>
#n = affine_map<(t, n, b, j) -> (n, b, j)>
#ns = affine_map<(t, n, b, j) -> (n, b)>
#tn = affine_map<(t, n, b, j) -> (t, n)>
#product = {indexing_maps = [#t, #ts, #n, #ns, #ns, #tn], iterator_types = ["parallel", "parallel", "reduction", "reduction"]}

// One row: four rows of weights at once, each fetched ahead; scales of eight
// blocks become f32 together. Weights are unsigned by an offset, with which the
// sums begin; without vpdpbusd they are widened to 16 bits.
// CHECK-LABEL: func @one_row
// CHECK: %[[FIRST:.*]] = memref.alloc() {alignment = 64 : i64} : memref<17x8xi32>
// CHECK: llvm.call_intrinsic "llvm.x86.avx512.vpdpbusd.256"
// CHECK: arith.muli
// CHECK: vector.store %{{.*}}, %[[FIRST]]
// CHECK: scf.forall (%[[N:.*]]) in (5)
// CHECK: scf.for %[[B:.*]] = %c0 to %c16 step %c8 iter_args({{.*}}) -> (vector<8xf32>, vector<8xf32>, vector<8xf32>, vector<8xf32>)
// CHECK: %[[X:.*]] = vector.load %{{.*}}[%c0, %[[B]], %c0] : memref<1x17x32xi8>, vector<32xi8>
// CHECK: memref.prefetch %{{.*}}[%[[N]], %{{.*}}, %c4], read, locality<3>, data
// CHECK-COUNT-8: vector.load %{{.*}}[%[[N]], %{{.*}}, %c0] : memref<21x17x34xi8>, vector<2xi8>
// CHECK: arith.extf %{{.*}} : vector<8xf16> to vector<8xf32>
// CHECK: %[[W:.*]] = vector.load %{{.*}}[%[[N]], %[[B]], %c2] : memref<21x17x34xi8>, vector<32xi8>
// CHECK: %[[UNSIGNED:.*]] = arith.xori %[[W]]
// CHECK: %[[BEGIN:.*]] = vector.load %[[FIRST]][%[[B]], %c0] : memref<17x8xi32>, vector<8xi32>
// CHECK: llvm.call_intrinsic "llvm.x86.avx512.vpdpbusd.256"(%[[BEGIN]], %[[UNSIGNED]], %[[X]])
// CHECK: arith.sitofp %{{.*}} : vector<8xi32> to vector<8xf32>
// CHECK: vector.fma
// CHECK: vector.load %{{.*}}[%c20, %{{.*}}, %c2] : memref<21x17x34xi8>, vector<32xi8>
// AVX2-LABEL: func @one_row
// AVX2-NOT: prefetch
// AVX2: %[[W:.*]] = vector.load %{{.*}} : memref<21x17x34xi8>, vector<32xi8>
// AVX2: %[[LOW:.*]] = vector.extract_strided_slice %[[W]] {offsets = [0], sizes = [16], strides = [1]}
// AVX2: arith.extsi %[[LOW]] : vector<16xi8> to vector<16xi16>
// AVX2: llvm.call_intrinsic "llvm.x86.avx2.pmadd.wd"
// AVX2: vector.extract_strided_slice %[[W]] {offsets = [16], sizes = [16], strides = [1]}
// AVX2: llvm.call_intrinsic "llvm.x86.avx2.pmadd.wd"
func.func @one_row(%x: memref<1x17x32xi8>, %xs: memref<1x17xf16>, %w: memref<21x17x34xi8>, %y: memref<1x21xf32>) {
  %c8 = arith.constant 8 : i16
  %codes = memref.subview %w[0, 0, 2] [21, 17, 32] [1, 1, 1] : memref<21x17x34xi8> to memref<21x17x32xi8, strided<[578, 34, 1], offset: 2>>
  %low = memref.subview %w[0, 0, 0] [21, 17, 1] [1, 1, 1] : memref<21x17x34xi8> to memref<21x17xi8, strided<[578, 34]>>
  %high = memref.subview %w[0, 0, 1] [21, 17, 1] [1, 1, 1] : memref<21x17x34xi8> to memref<21x17xi8, strided<[578, 34], offset: 1>>
  linalg.generic #product
      ins(%x, %xs, %codes, %low, %high : memref<1x17x32xi8>, memref<1x17xf16>, memref<21x17x32xi8, strided<[578, 34, 1], offset: 2>>, memref<21x17xi8, strided<[578, 34]>>, memref<21x17xi8, strided<[578, 34], offset: 1>>)
      outs(%y : memref<1x21xf32>) {
    ^bb0(%a: i8, %as: f16, %b: i8, %l: i8, %h: i8, %acc: f32):
      %0 = arith.extf %as : f16 to f32
      %1 = arith.extui %l : i8 to i16
      %2 = arith.extui %h : i8 to i16
      %3 = arith.shli %2, %c8 : i16
      %4 = arith.ori %1, %3 : i16
      %5 = arith.bitcast %4 : i16 to f16
      %6 = arith.extf %5 : f16 to f32
      %7 = arith.sitofp %b : i8 to f32
      %8 = arith.mulf %7, %6 fastmath<reassoc> : f32
      %9 = arith.sitofp %a : i8 to f32
      %10 = arith.mulf %9, %0 fastmath<reassoc> : f32
      %11 = arith.mulf %10, %8 fastmath<reassoc> : f32
      %12 = arith.addf %acc, %11 fastmath<reassoc> : f32
      linalg.yield %12 : f32
  }
  return
}

// Many rows: a row a lane, packed in fours of bytes, with what sums begin with;
// six rows of weights by two panels. Without instructions for bytes, in twos of
// 16 bits.
// CHECK-LABEL: func @rows
// CHECK: %[[CODES:.*]] = memref.alloc() {alignment = 64 : i64} : memref<5x17x8x64xi8>
// CHECK: memref.alloc() {alignment = 64 : i64} : memref<5x17x16xf32>
// CHECK: %[[FIRST:.*]] = memref.alloc() {alignment = 64 : i64} : memref<5x17x16xi32>
// CHECK: scf.forall
// CHECK: vector.load %{{.*}} : memref<?x17x32xi8>, vector<4xi8>
// CHECK: vector.store %{{.*}}, %[[CODES]]
// CHECK: vector.reduction <add>, %{{.*}} : vector<32xi16> into i16
// CHECK: arith.muli %{{.*}}, %c-128_i32
// CHECK: memref.store %{{.*}}, %[[FIRST]]
// CHECK: scf.if
// CHECK: scf.forall
// CHECK: %[[COPY:.*]] = memref.alloca() {alignment = 64 : i64} : memref<24x544xi8>
// CHECK: %[[UNSIGNED:.*]] = arith.xori
// CHECK: vector.store %[[UNSIGNED]], %[[COPY]]
// CHECK: scf.for %[[B:.*]] = %c0 to %c17 step %c1 iter_args
// CHECK: vector.load %[[FIRST]][%{{.*}}, %[[B]], %c0]
// CHECK: vector.load %[[CODES]][%{{.*}}, %[[B]], %c0, %c0] : memref<5x17x8x64xi8>, vector<64xi8>
// CHECK: vector.load %[[COPY]]{{.*}} vector<4xi8>
// CHECK-COUNT-96: llvm.call_intrinsic "llvm.x86.avx512.vpdpbusd.512"
// CHECK-NOT: vpdpbusd.512
// CHECK: arith.sitofp
// AVX2-LABEL: func @rows
// AVX2: memref.alloc() {alignment = 64 : i64} : memref<9x17x16x16xi16>
// AVX2: arith.extsi %{{.*}} : vector<2xi8> to vector<2xi16>
// AVX2: llvm.call_intrinsic "llvm.x86.avx2.pmadd.wd"(%{{.*}}) : (vector<16xi16>, vector<16xi16>) -> vector<8xi32>
// On AMX 16 rows of weights, signed, by a panel: three tiles and 16 rows of sums
// for each block.
// AMX-LABEL: func @rows
// AMX: memref.alloc() {alignment = 64 : i64} : memref<5x17x8x64xi8>
// AMX: %[[COPY:.*]] = memref.alloca() {alignment = 64 : i64} : memref<32x544xi8>
// AMX-NOT: arith.xori
// AMX: scf.for %[[B:.*]] = %c0 to %c17 step %c1 iter_args
// AMX: %[[AT:.*]] = arith.muli %[[B]], %c32
// AMX: %[[W:.*]] = amx.tile_load %[[COPY]][%{{.*}}, %[[AT]]] : memref<32x544xi8> into !amx.tile<16x32xi8>
// AMX: %[[X:.*]] = amx.tile_load %{{.*}}[%{{.*}}, %[[B]], %c0, %c0] : memref<5x17x8x64xi8> into !amx.tile<8x64xi8>
// AMX: %[[S:.*]] = amx.tile_muli %[[W]], %[[X]], %{{.*}} : !amx.tile<16x32xi8>, !amx.tile<8x64xi8>, !amx.tile<16x16xi32>
// AMX: amx.tile_store %[[SUMS:.*]][%c0, %c0], %[[S]]
// AMX-COUNT-16: vector.load %[[SUMS]][%{{.*}}, %c0] : memref<16x16xi32>, vector<16xi32>
// AMX-COUNT-16: vector.fma
// AMX-NOT: amx.
// AMX: scf.yield
func.func @rows(%x: memref<?x17x32xi8>, %xs: memref<?x17xf16>, %w: memref<21x17x34xi8>, %y: memref<?x21xf32>) attributes {cria.chunk = 69 : index} {
  %c8 = arith.constant 8 : i16
  %codes = memref.subview %w[0, 0, 2] [21, 17, 32] [1, 1, 1] : memref<21x17x34xi8> to memref<21x17x32xi8, strided<[578, 34, 1], offset: 2>>
  %low = memref.subview %w[0, 0, 0] [21, 17, 1] [1, 1, 1] : memref<21x17x34xi8> to memref<21x17xi8, strided<[578, 34]>>
  %high = memref.subview %w[0, 0, 1] [21, 17, 1] [1, 1, 1] : memref<21x17x34xi8> to memref<21x17xi8, strided<[578, 34], offset: 1>>
  linalg.generic #product
      ins(%x, %xs, %codes, %low, %high : memref<?x17x32xi8>, memref<?x17xf16>, memref<21x17x32xi8, strided<[578, 34, 1], offset: 2>>, memref<21x17xi8, strided<[578, 34]>>, memref<21x17xi8, strided<[578, 34], offset: 1>>)
      outs(%y : memref<?x21xf32>) {
    ^bb0(%a: i8, %as: f16, %b: i8, %l: i8, %h: i8, %acc: f32):
      %0 = arith.extf %as : f16 to f32
      %1 = arith.extui %l : i8 to i16
      %2 = arith.extui %h : i8 to i16
      %3 = arith.shli %2, %c8 : i16
      %4 = arith.ori %1, %3 : i16
      %5 = arith.bitcast %4 : i16 to f16
      %6 = arith.extf %5 : f16 to f32
      %7 = arith.sitofp %b : i8 to f32
      %8 = arith.mulf %7, %6 fastmath<reassoc> : f32
      %9 = arith.sitofp %a : i8 to f32
      %10 = arith.mulf %9, %0 fastmath<reassoc> : f32
      %11 = arith.mulf %10, %8 fastmath<reassoc> : f32
      %12 = arith.addf %acc, %11 fastmath<reassoc> : f32
      linalg.yield %12 : f32
  }
  return
}

// Up to 32 rows have a row of weights in each lane, 16 at a time: eight blocks are
// copied, a word of each row beside those of the others, while the next 16 rows
// are fetched; then eight rows, four and one multiply what was copied. More rows
// are panels. Sums of both have the same order.
// CHECK-LABEL: func @few_rows
// CHECK: %[[SCALES:.*]] = memref.alloc() {alignment = 64 : i64} : memref<32x17xf32>
// CHECK: %[[FIRST:.*]] = memref.alloc() {alignment = 64 : i64} : memref<32x17xi32>
// CHECK: scf.forall
// CHECK: scf.forall (%[[TURN:.*]]) in
// CHECK: %[[N:.*]] = arith.muli %[[TURN]], %c16
// CHECK: %[[COPY:.*]] = memref.alloca() {alignment = 64 : i64} : memref<8x8x64xi8>
// CHECK: %[[ACC:.*]] = memref.alloca() {alignment = 64 : i64} : memref<32x16xf32>
// CHECK: scf.for %{{.*}} = %c0 to %c17 step %c8
// CHECK-COUNT-16: memref.prefetch %{{.*}}, read, locality<2>, data : memref<32x17x34xi8>
// CHECK-COUNT-32: vector.load %{{.*}} : memref<32x17x34xi8>, vector<16xi8>
// CHECK-COUNT-8: vector.store %{{.*}}, %[[COPY]]
// CHECK-COUNT-16: vector.load %{{.*}} : memref<32x17x34xi8>, vector<2xi8>
// CHECK: scf.for %{{.*}} step %c8
// CHECK: %[[W:.*]] = vector.load %[[COPY]]{{.*}} vector<64xi8>
// CHECK: %[[WORD:.*]] = vector.load %{{.*}} : memref<?x17x32xi8>, vector<4xi8>
// CHECK-COUNT-8: llvm.call_intrinsic "llvm.x86.avx512.vpdpbusd.512"
// CHECK: scf.for %{{.*}} step %c4
// CHECK-COUNT-8: llvm.call_intrinsic "llvm.x86.avx512.vpdpbusd.512"
// CHECK: scf.for %{{.*}} step %c1
// CHECK-COUNT-8: llvm.call_intrinsic "llvm.x86.avx512.vpdpbusd.512"
// CHECK: vector.store %{{.*}} : memref<?x32xf32>, vector<16xf32>
// CHECK-COUNT-96: llvm.call_intrinsic "llvm.x86.avx512.vpdpbusd.512"
// CHECK-NOT: vpdpbusd.512
// CHECK: arith.sitofp
// AMX-LABEL: func @few_rows
// AMX: llvm.call_intrinsic "llvm.x86.avx512.vpdpbusd.512"
// AMX: amx.tile_muli
// Without vpdpbusd, even and odd bytes are widened to 16 bits: two k a lane.
// AVX2-LABEL: func @few_rows
// AVX2: %[[WIDE:.*]] = memref.alloc() {alignment = 64 : i64} : memref<32x17x32xi16>
// AVX2: %[[BOTH:.*]] = vector.bitcast %{{.*}} : vector<32xi8> to vector<16xi16>
// AVX2: %[[UPPER:.*]] = arith.shli %[[BOTH]]
// AVX2: %[[EVEN:.*]] = arith.shrsi %[[UPPER]]
// AVX2: %[[ODD:.*]] = arith.shrsi %[[BOTH]]
// AVX2: vector.store %[[EVEN]], %[[WIDE]][%{{.*}}, %{{.*}}, %c0]
// AVX2: vector.store %[[ODD]], %[[WIDE]][%{{.*}}, %{{.*}}, %c16]
// AVX2: %[[COPY:.*]] = memref.alloca() {alignment = 64 : i64} : memref<8x16x32xi8>
// AVX2-COUNT-16: vector.store %{{.*}}, %[[COPY]]
// AVX2: scf.for %{{.*}} = %c0 to %c16 step %c2
// AVX2: vector.load %{{.*}} : memref<32x17x32xi16>, vector<2xi16>
// AVX2-COUNT-8: llvm.call_intrinsic "llvm.x86.avx2.pmadd.wd"
// AVX2-NOT: vpdpbusd
// AVX2: return
func.func @few_rows(%x: memref<?x17x32xi8>, %xs: memref<?x17xf16>, %w: memref<32x17x34xi8>, %y: memref<?x32xf32>) attributes {cria.chunk = 69 : index} {
  %c8 = arith.constant 8 : i16
  %codes = memref.subview %w[0, 0, 2] [32, 17, 32] [1, 1, 1] : memref<32x17x34xi8> to memref<32x17x32xi8, strided<[578, 34, 1], offset: 2>>
  %low = memref.subview %w[0, 0, 0] [32, 17, 1] [1, 1, 1] : memref<32x17x34xi8> to memref<32x17xi8, strided<[578, 34]>>
  %high = memref.subview %w[0, 0, 1] [32, 17, 1] [1, 1, 1] : memref<32x17x34xi8> to memref<32x17xi8, strided<[578, 34], offset: 1>>
  linalg.generic #product
      ins(%x, %xs, %codes, %low, %high : memref<?x17x32xi8>, memref<?x17xf16>, memref<32x17x32xi8, strided<[578, 34, 1], offset: 2>>, memref<32x17xi8, strided<[578, 34]>>, memref<32x17xi8, strided<[578, 34], offset: 1>>)
      outs(%y : memref<?x32xf32>) {
    ^bb0(%a: i8, %as: f16, %b: i8, %l: i8, %h: i8, %acc: f32):
      %0 = arith.extf %as : f16 to f32
      %1 = arith.extui %l : i8 to i16
      %2 = arith.extui %h : i8 to i16
      %3 = arith.shli %2, %c8 : i16
      %4 = arith.ori %1, %3 : i16
      %5 = arith.bitcast %4 : i16 to f16
      %6 = arith.extf %5 : f16 to f32
      %7 = arith.sitofp %b : i8 to f32
      %8 = arith.mulf %7, %6 fastmath<reassoc> : f32
      %9 = arith.sitofp %a : i8 to f32
      %10 = arith.mulf %9, %0 fastmath<reassoc> : f32
      %11 = arith.mulf %10, %8 fastmath<reassoc> : f32
      %12 = arith.addf %acc, %11 fastmath<reassoc> : f32
      linalg.yield %12 : f32
  }
  return
}

// Two products with the same rows share what is packed of them.
// AMX-LABEL: func @shared
// AMX: memref.alloc() {alignment = 64 : i64} : memref<5x17x8x64xi8>
// AMX-NOT: memref<5x17x8x64xi8>{{$}}
// AMX: return
func.func @shared(%x: memref<?x17x32xi8>, %xs: memref<?x17xf16>, %w: memref<21x17x34xi8>, %y: memref<?x21xf32>, %z: memref<?x21xf32>) attributes {cria.chunk = 69 : index} {
  %c8 = arith.constant 8 : i16
  %codes = memref.subview %w[0, 0, 2] [21, 17, 32] [1, 1, 1] : memref<21x17x34xi8> to memref<21x17x32xi8, strided<[578, 34, 1], offset: 2>>
  %low = memref.subview %w[0, 0, 0] [21, 17, 1] [1, 1, 1] : memref<21x17x34xi8> to memref<21x17xi8, strided<[578, 34]>>
  %high = memref.subview %w[0, 0, 1] [21, 17, 1] [1, 1, 1] : memref<21x17x34xi8> to memref<21x17xi8, strided<[578, 34], offset: 1>>
  linalg.generic #product
      ins(%x, %xs, %codes, %low, %high : memref<?x17x32xi8>, memref<?x17xf16>, memref<21x17x32xi8, strided<[578, 34, 1], offset: 2>>, memref<21x17xi8, strided<[578, 34]>>, memref<21x17xi8, strided<[578, 34], offset: 1>>)
      outs(%y : memref<?x21xf32>) {
    ^bb0(%a: i8, %as: f16, %b: i8, %l: i8, %h: i8, %acc: f32):
      %0 = arith.extf %as : f16 to f32
      %1 = arith.extui %l : i8 to i16
      %2 = arith.extui %h : i8 to i16
      %3 = arith.shli %2, %c8 : i16
      %4 = arith.ori %1, %3 : i16
      %5 = arith.bitcast %4 : i16 to f16
      %6 = arith.extf %5 : f16 to f32
      %7 = arith.sitofp %b : i8 to f32
      %8 = arith.mulf %7, %6 fastmath<reassoc> : f32
      %9 = arith.sitofp %a : i8 to f32
      %10 = arith.mulf %9, %0 fastmath<reassoc> : f32
      %11 = arith.mulf %10, %8 fastmath<reassoc> : f32
      %12 = arith.addf %acc, %11 fastmath<reassoc> : f32
      linalg.yield %12 : f32
  }
  linalg.generic #product
      ins(%x, %xs, %codes, %low, %high : memref<?x17x32xi8>, memref<?x17xf16>, memref<21x17x32xi8, strided<[578, 34, 1], offset: 2>>, memref<21x17xi8, strided<[578, 34]>>, memref<21x17xi8, strided<[578, 34], offset: 1>>)
      outs(%z : memref<?x21xf32>) {
    ^bb0(%a: i8, %as: f16, %b: i8, %l: i8, %h: i8, %acc: f32):
      %0 = arith.extf %as : f16 to f32
      %1 = arith.extui %l : i8 to i16
      %2 = arith.extui %h : i8 to i16
      %3 = arith.shli %2, %c8 : i16
      %4 = arith.ori %1, %3 : i16
      %5 = arith.bitcast %4 : i16 to f16
      %6 = arith.extf %5 : f16 to f32
      %7 = arith.sitofp %b : i8 to f32
      %8 = arith.mulf %7, %6 fastmath<reassoc> : f32
      %9 = arith.sitofp %a : i8 to f32
      %10 = arith.mulf %9, %0 fastmath<reassoc> : f32
      %11 = arith.mulf %10, %8 fastmath<reassoc> : f32
      %12 = arith.addf %acc, %11 fastmath<reassoc> : f32
      linalg.yield %12 : f32
  }
  return
}

// Rows that are written over in between are packed again.
// AMX-LABEL: func @written
// AMX-COUNT-2: memref.alloc() {alignment = 64 : i64} : memref<5x17x8x64xi8>
func.func @written(%x: memref<?x17x32xi8>, %xs: memref<?x17xf16>, %w: memref<21x17x34xi8>, %y: memref<?x21xf32>, %z: memref<?x21xf32>) attributes {cria.chunk = 69 : index} {
  %c8 = arith.constant 8 : i16
  %codes = memref.subview %w[0, 0, 2] [21, 17, 32] [1, 1, 1] : memref<21x17x34xi8> to memref<21x17x32xi8, strided<[578, 34, 1], offset: 2>>
  %low = memref.subview %w[0, 0, 0] [21, 17, 1] [1, 1, 1] : memref<21x17x34xi8> to memref<21x17xi8, strided<[578, 34]>>
  %high = memref.subview %w[0, 0, 1] [21, 17, 1] [1, 1, 1] : memref<21x17x34xi8> to memref<21x17xi8, strided<[578, 34], offset: 1>>
  %c0 = arith.constant 0 : index
  %zero = arith.constant 0 : i8
  linalg.generic #product
      ins(%x, %xs, %codes, %low, %high : memref<?x17x32xi8>, memref<?x17xf16>, memref<21x17x32xi8, strided<[578, 34, 1], offset: 2>>, memref<21x17xi8, strided<[578, 34]>>, memref<21x17xi8, strided<[578, 34], offset: 1>>)
      outs(%y : memref<?x21xf32>) {
    ^bb0(%a: i8, %as: f16, %b: i8, %l: i8, %h: i8, %acc: f32):
      %0 = arith.extf %as : f16 to f32
      %1 = arith.extui %l : i8 to i16
      %2 = arith.extui %h : i8 to i16
      %3 = arith.shli %2, %c8 : i16
      %4 = arith.ori %1, %3 : i16
      %5 = arith.bitcast %4 : i16 to f16
      %6 = arith.extf %5 : f16 to f32
      %7 = arith.sitofp %b : i8 to f32
      %8 = arith.mulf %7, %6 fastmath<reassoc> : f32
      %9 = arith.sitofp %a : i8 to f32
      %10 = arith.mulf %9, %0 fastmath<reassoc> : f32
      %11 = arith.mulf %10, %8 fastmath<reassoc> : f32
      %12 = arith.addf %acc, %11 fastmath<reassoc> : f32
      linalg.yield %12 : f32
  }
  memref.store %zero, %x[%c0, %c0, %c0] : memref<?x17x32xi8>
  linalg.generic #product
      ins(%x, %xs, %codes, %low, %high : memref<?x17x32xi8>, memref<?x17xf16>, memref<21x17x32xi8, strided<[578, 34, 1], offset: 2>>, memref<21x17xi8, strided<[578, 34]>>, memref<21x17xi8, strided<[578, 34], offset: 1>>)
      outs(%z : memref<?x21xf32>) {
    ^bb0(%a: i8, %as: f16, %b: i8, %l: i8, %h: i8, %acc: f32):
      %0 = arith.extf %as : f16 to f32
      %1 = arith.extui %l : i8 to i16
      %2 = arith.extui %h : i8 to i16
      %3 = arith.shli %2, %c8 : i16
      %4 = arith.ori %1, %3 : i16
      %5 = arith.bitcast %4 : i16 to f16
      %6 = arith.extf %5 : f16 to f32
      %7 = arith.sitofp %b : i8 to f32
      %8 = arith.mulf %7, %6 fastmath<reassoc> : f32
      %9 = arith.sitofp %a : i8 to f32
      %10 = arith.mulf %9, %0 fastmath<reassoc> : f32
      %11 = arith.mulf %10, %8 fastmath<reassoc> : f32
      %12 = arith.addf %acc, %11 fastmath<reassoc> : f32
      linalg.yield %12 : f32
  }
  return
}

// Of four bits: the bytes twice, the second ones shifted by a half.
// CHECK-LABEL: func @halves
// CHECK: %[[SHIFTS:.*]] = arith.constant dense<[0, 0, 0, 0, 4, 4, 4, 4]> : vector<8xi32>
// CHECK: scf.forall
// CHECK: %[[BYTES:.*]] = vector.load %{{.*}}, %c2] : memref<21x1x18xi8>, vector<16xi8>
// CHECK: %[[TWICE:.*]] = vector.shuffle %[[BYTES]], %[[BYTES]] [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15]
// CHECK: %[[WORDS:.*]] = vector.bitcast %[[TWICE]] : vector<32xi8> to vector<8xi32>
// CHECK: arith.shrui %[[WORDS]], %[[SHIFTS]]
// Without instructions for bytes many rows have sums of 16 bits, two a lane.
// AVX2-LABEL: func @halves
// AVX2: memref.alloc() {alignment = 64 : i64} : memref<9x1x8x32xi8>
// AVX2: arith.muli %{{.*}}, %c-8_i32
// AVX2: memref.alloca() {alignment = 64 : i64} : memref<24x32xi8>
// AVX2: %[[SUM:.*]] = llvm.call_intrinsic "llvm.x86.avx2.pmadd.ub.sw"(%{{.*}}) : (vector<32xi8>, vector<32xi8>) -> vector<16xi16>
// AVX2-COUNT-47: llvm.call_intrinsic "llvm.x86.avx2.pmadd.ub.sw"
// AVX2-NOT: pmadd.ub.sw
// AVX2-COUNT-6: llvm.call_intrinsic "llvm.x86.avx2.pmadd.wd"
func.func @halves(%x: memref<?x1x32xi8>, %xs: memref<?x1xf16>, %w: memref<21x1x18xi8>, %y: memref<?x21xf32>) attributes {cria.chunk = 69 : index} {
  %c2 = arith.constant 2 : i8
  %c8 = arith.constant 8 : i16
  %c8_i8 = arith.constant 8 : i8
  %c15 = arith.constant 15 : i8
  %c0 = arith.constant 0 : index
  %count = memref.dim %x, %c0 : memref<?x1x32xi8>
  %halves = memref.expand_shape %x [[0], [1], [2, 3]] output_shape [%count, 1, 2, 16] : memref<?x1x32xi8> into memref<?x1x2x16xi8>
  %codes = memref.subview %w[0, 0, 2] [21, 1, 16] [1, 1, 1] : memref<21x1x18xi8> to memref<21x1x16xi8, strided<[18, 18, 1], offset: 2>>
  %low = memref.subview %w[0, 0, 0] [21, 1, 1] [1, 1, 1] : memref<21x1x18xi8> to memref<21x1xi8, strided<[18, 18]>>
  %high = memref.subview %w[0, 0, 1] [21, 1, 1] [1, 1, 1] : memref<21x1x18xi8> to memref<21x1xi8, strided<[18, 18], offset: 1>>
  linalg.generic {indexing_maps = [affine_map<(t, n, b, h, j) -> (t, b, h, j)>, affine_map<(t, n, b, h, j) -> (t, b)>, affine_map<(t, n, b, h, j) -> (n, b, j)>, affine_map<(t, n, b, h, j) -> (n, b)>, affine_map<(t, n, b, h, j) -> (n, b)>, affine_map<(t, n, b, h, j) -> (t, n)>], iterator_types = ["parallel", "parallel", "reduction", "reduction", "reduction"]}
      ins(%halves, %xs, %codes, %low, %high : memref<?x1x2x16xi8>, memref<?x1xf16>, memref<21x1x16xi8, strided<[18, 18, 1], offset: 2>>, memref<21x1xi8, strided<[18, 18]>>, memref<21x1xi8, strided<[18, 18], offset: 1>>)
      outs(%y : memref<?x21xf32>) {
    ^bb0(%a: i8, %as: f16, %b: i8, %l: i8, %h: i8, %acc: f32):
      %half = linalg.index 3 : index
      %index = arith.index_cast %half : index to i8
      %shift = arith.shli %index, %c2 : i8
      %shifted = arith.shrui %b, %shift : i8
      %masked = arith.andi %shifted, %c15 : i8
      %code = arith.subi %masked, %c8_i8 : i8
      %0 = arith.extf %as : f16 to f32
      %1 = arith.extui %l : i8 to i16
      %2 = arith.extui %h : i8 to i16
      %3 = arith.shli %2, %c8 : i16
      %4 = arith.ori %1, %3 : i16
      %5 = arith.bitcast %4 : i16 to f16
      %6 = arith.extf %5 : f16 to f32
      %7 = arith.sitofp %code : i8 to f32
      %8 = arith.mulf %7, %6 fastmath<reassoc> : f32
      %9 = arith.sitofp %a : i8 to f32
      %10 = arith.mulf %9, %0 fastmath<reassoc> : f32
      %11 = arith.mulf %10, %8 fastmath<reassoc> : f32
      %12 = arith.addf %acc, %11 fastmath<reassoc> : f32
      linalg.yield %12 : f32
  }
  return
}
