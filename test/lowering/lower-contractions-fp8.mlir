// Products with matrices in blocks of 8-bit floats.
// RUN: cria-opt --attach-target="vector-unit={lanes=16,registers=32,dot_bf16,streams=4}" --lower-contractions --canonicalize --cse %s | FileCheck %s
// RUN: cria-opt --lower-contractions --canonicalize --cse %s | FileCheck %s --check-prefix=AVX2
// RUN: cria-opt --attach-target="vector-unit={lanes=16,registers=32,amx,streams=4}" --lower-contractions --canonicalize --cse %s | FileCheck %s --check-prefix=AMX

#t = affine_map<(t, n, b, j) -> (t, b, j)>
#n = affine_map<(t, n, b, j) -> (n, b, j)>
#ns = affine_map<(t, n, b, j) -> (n, b)>
#tn = affine_map<(t, n, b, j) -> (t, n)>
#product = {indexing_maps = [#t, #n, #ns, #ns, #tn], iterator_types = ["parallel", "parallel", "reduction", "reduction"]}

// One row, in f32: four rows of weights at once, each fetched ahead. The bits of
// 32 codes move to those of f16, and the sum of a block's products is multiplied
// with its scale.
// CHECK-LABEL: func @one_row(
// CHECK: %[[X:.*]] = memref.alloc() {alignment = 64 : i64} : memref<544xf32>
// CHECK: vector.store %{{.*}}, %[[X]]
// CHECK: scf.forall (%[[N:.*]]) in (5)
// CHECK: scf.for %[[B:.*]] = %c0 to %c16 step %c4 iter_args
// CHECK: memref.prefetch %{{.*}}[%[[N]], %{{.*}}, %c4], read, locality<3>, data
// CHECK: %[[X0:.*]] = vector.load %[[X]]
// CHECK: %[[X1:.*]] = vector.load %[[X]]
// CHECK: vector.load %{{.*}}[%[[N]], %[[B]], %c0] : memref<21x17x34xi8>, vector<2xi8>
// CHECK: %[[SCALE:.*]] = arith.extf %{{.*}} : vector<16xf16> to vector<16xf32>
// CHECK: vector.load %{{.*}}[%[[N]], %[[B]], %c2] : memref<21x17x34xi8>, vector<32xi8>
// CHECK: %[[BITS:.*]] = arith.andi %{{.*}} : vector<32xi16>
// CHECK: arith.bitcast %[[BITS]] : vector<32xi16> to vector<32xf16>
// CHECK: %[[W0:.*]] = arith.extf %{{.*}} : vector<16xf16> to vector<16xf32>
// CHECK: %[[W1:.*]] = arith.extf %{{.*}} : vector<16xf16> to vector<16xf32>
// CHECK: %[[FIRST:.*]] = arith.mulf %[[X0]], %[[W0]]
// CHECK: %[[BLOCK:.*]] = vector.fma %[[X1]], %[[W1]], %[[FIRST]]
// CHECK: vector.fma %[[BLOCK]], %[[SCALE]]
// CHECK: vector.load %{{.*}}[%c20, %{{.*}}, %c2] : memref<21x17x34xi8>, vector<32xi8>
// AVX2-LABEL: func @one_row(
// AVX2-NOT: prefetch
// AVX2-COUNT-3: vector.fma %{{.*}} : vector<8xf32>
func.func @one_row(%x: memref<1x544xbf16>, %w: memref<21x17x34xi8>, %y: memref<1x21xf32>) {
  %c7 = arith.constant 7 : i16
  %c8 = arith.constant 8 : i16
  %mask = arith.constant -16385 : i16
  %rows = memref.expand_shape %x [[0], [1, 2]] output_shape [1, 17, 32] : memref<1x544xbf16> into memref<1x17x32xbf16>
  %codes = memref.subview %w[0, 0, 2] [21, 17, 32] [1, 1, 1] : memref<21x17x34xi8> to memref<21x17x32xi8, strided<[578, 34, 1], offset: 2>>
  %low = memref.subview %w[0, 0, 0] [21, 17, 1] [1, 1, 1] : memref<21x17x34xi8> to memref<21x17xi8, strided<[578, 34]>>
  %high = memref.subview %w[0, 0, 1] [21, 17, 1] [1, 1, 1] : memref<21x17x34xi8> to memref<21x17xi8, strided<[578, 34], offset: 1>>
  linalg.generic #product
      ins(%rows, %codes, %low, %high : memref<1x17x32xbf16>, memref<21x17x32xi8, strided<[578, 34, 1], offset: 2>>, memref<21x17xi8, strided<[578, 34]>>, memref<21x17xi8, strided<[578, 34], offset: 1>>)
      outs(%y : memref<1x21xf32>) {
    ^bb0(%a: bf16, %b: i8, %l: i8, %h: i8, %acc: f32):
      %0 = arith.extf %a : bf16 to f32
      %1 = arith.extui %l : i8 to i16
      %2 = arith.extui %h : i8 to i16
      %3 = arith.shli %2, %c8 : i16
      %4 = arith.ori %1, %3 : i16
      %5 = arith.bitcast %4 : i16 to f16
      %6 = arith.extf %5 : f16 to f32
      %7 = arith.extsi %b : i8 to i16
      %8 = arith.shli %7, %c7 : i16
      %9 = arith.andi %8, %mask : i16
      %10 = arith.bitcast %9 : i16 to f16
      %11 = arith.extf %10 : f16 to f32
      %14 = arith.mulf %11, %6 fastmath<reassoc> : f32
      %15 = arith.mulf %0, %14 fastmath<reassoc> : f32
      %16 = arith.addf %acc, %15 fastmath<reassoc> : f32
      linalg.yield %16 : f32
  }
  return
}

// Many rows: a slice of a group's rows of weights is widened, and rounded, to
// pairs of bf16, or to f32, before it is multiplied; on AMX to tiles. A prompt's
// last row alone has no panel.
// CHECK-LABEL: func @rows(
// CHECK: scf.if
// CHECK: scf.if
// CHECK: memref.alloc() {alignment = 64 : i64} : memref<1088xf32>
// CHECK: } else {
// CHECK: scf.forall
// CHECK: %[[COPY:.*]] = memref.alloca() {alignment = 64 : i64} : memref<8x576xbf16>
// CHECK: %[[W:.*]] = arith.truncf %{{.*}} : vector<16xf32> to vector<16xbf16>
// CHECK: vector.store %[[W]], %[[COPY]]
// CHECK: memref.prefetch %{{.*}}[%{{.*}}, %{{.*}}, %c0], read, locality<2>, data : memref<37x34x34xi8>
// CHECK: vector.load %[[COPY]]{{.*}} vector<2xbf16>
// CHECK: x86vector.avx512.dot
// AVX2-LABEL: func @rows(
// AVX2: %[[COPY:.*]] = memref.alloca() {alignment = 64 : i64} : memref<6x
// AVX2: %[[ROUNDED:.*]] = arith.truncf %{{.*}} : vector<8xf32> to vector<8xbf16>
// AVX2: %[[W:.*]] = arith.extf %[[ROUNDED]]
// AVX2: vector.store %[[W]], %[[COPY]]
// AVX2: memref.load %[[COPY]]
// AVX2: vector.fma
// AMX-LABEL: func @rows(
// AMX: memref.alloc() {alignment = 64 : i64} : memref<1088xf32>
// AMX: } else {
// AMX: %[[COPY:.*]] = memref.alloc() {alignment = 64 : i64} : memref<2x34x2x16x32xbf16>
// AMX: scf.forall
// AMX: arith.bitcast %{{.*}} : vector<32xi16> to vector<32xf16>
// AMX: %[[W:.*]] = arith.truncf %{{.*}} : vector<16xf32> to vector<16xbf16>
// AMX: vector.store %[[W]], %[[COPY]]
// AMX: amx.tile_load %[[COPY]]
// AMX: amx.tile_mulf
func.func @rows(%x: memref<?x1088xbf16>, %w: memref<37x34x34xi8>, %y: memref<?x37xf32>) attributes {cria.chunk = 69 : index} {
  %c7 = arith.constant 7 : i16
  %c8 = arith.constant 8 : i16
  %mask = arith.constant -16385 : i16
  %c0 = arith.constant 0 : index
  %size = memref.dim %x, %c0 : memref<?x1088xbf16>
  %rows = memref.expand_shape %x [[0], [1, 2]] output_shape [%size, 34, 32] : memref<?x1088xbf16> into memref<?x34x32xbf16>
  %codes = memref.subview %w[0, 0, 2] [37, 34, 32] [1, 1, 1] : memref<37x34x34xi8> to memref<37x34x32xi8, strided<[1156, 34, 1], offset: 2>>
  %low = memref.subview %w[0, 0, 0] [37, 34, 1] [1, 1, 1] : memref<37x34x34xi8> to memref<37x34xi8, strided<[1156, 34]>>
  %high = memref.subview %w[0, 0, 1] [37, 34, 1] [1, 1, 1] : memref<37x34x34xi8> to memref<37x34xi8, strided<[1156, 34], offset: 1>>
  linalg.generic #product
      ins(%rows, %codes, %low, %high : memref<?x34x32xbf16>, memref<37x34x32xi8, strided<[1156, 34, 1], offset: 2>>, memref<37x34xi8, strided<[1156, 34]>>, memref<37x34xi8, strided<[1156, 34], offset: 1>>)
      outs(%y : memref<?x37xf32>) {
    ^bb0(%a: bf16, %b: i8, %l: i8, %h: i8, %acc: f32):
      %0 = arith.extf %a : bf16 to f32
      %1 = arith.extui %l : i8 to i16
      %2 = arith.extui %h : i8 to i16
      %3 = arith.shli %2, %c8 : i16
      %4 = arith.ori %1, %3 : i16
      %5 = arith.bitcast %4 : i16 to f16
      %6 = arith.extf %5 : f16 to f32
      %7 = arith.extsi %b : i8 to i16
      %8 = arith.shli %7, %c7 : i16
      %9 = arith.andi %8, %mask : i16
      %10 = arith.bitcast %9 : i16 to f16
      %11 = arith.extf %10 : f16 to f32
      %12 = arith.mulf %11, %6 : f32
      %13 = arith.truncf %12 : f32 to bf16
      %14 = arith.extf %13 : bf16 to f32
      %15 = arith.mulf %0, %14 fastmath<reassoc> : f32
      %16 = arith.addf %acc, %15 fastmath<reassoc> : f32
      linalg.yield %16 : f32
  }
  return
}

// A few rows of an invariant function: a group's rows are widened once, for all
// tiles of rows, which fetch the next group.
// CHECK-LABEL: func @few_rows(
// CHECK: scf.forall (%{{.*}}) in (10)
// CHECK: %[[COPY:.*]] = memref.alloca() {alignment = 64 : i64} : memref<2x544xbf16>
// CHECK: %[[W:.*]] = arith.truncf %{{.*}} : vector<16xf32> to vector<16xbf16>
// CHECK: vector.store %[[W]], %[[COPY]]
// CHECK: memref.prefetch %{{.*}}[%{{.*}}, %{{.*}}, %c0], read, locality<2>, data : memref<21x17x34xi8>
// CHECK: vector.load %[[COPY]]{{.*}} vector<32xbf16>
// CHECK: x86vector.avx512.dot
// CHECK-NOT: memref.alloc()
// AVX2-LABEL: func @few_rows(
// AVX2: %[[COPY:.*]] = memref.alloca() {alignment = 64 : i64} : memref<2x544xbf16>
// AVX2: vector.load %[[COPY]]
// AVX2: vector.fma
func.func @few_rows(%x: memref<?x544xbf16>, %w: memref<21x17x34xi8>, %y: memref<?x21xf32>) attributes {cria.chunk = 8 : index, cria.invariant} {
  %c7 = arith.constant 7 : i16
  %c8 = arith.constant 8 : i16
  %mask = arith.constant -16385 : i16
  %c0 = arith.constant 0 : index
  %size = memref.dim %x, %c0 : memref<?x544xbf16>
  %rows = memref.expand_shape %x [[0], [1, 2]] output_shape [%size, 17, 32] : memref<?x544xbf16> into memref<?x17x32xbf16>
  %codes = memref.subview %w[0, 0, 2] [21, 17, 32] [1, 1, 1] : memref<21x17x34xi8> to memref<21x17x32xi8, strided<[578, 34, 1], offset: 2>>
  %low = memref.subview %w[0, 0, 0] [21, 17, 1] [1, 1, 1] : memref<21x17x34xi8> to memref<21x17xi8, strided<[578, 34]>>
  %high = memref.subview %w[0, 0, 1] [21, 17, 1] [1, 1, 1] : memref<21x17x34xi8> to memref<21x17xi8, strided<[578, 34], offset: 1>>
  linalg.generic #product
      ins(%rows, %codes, %low, %high : memref<?x17x32xbf16>, memref<21x17x32xi8, strided<[578, 34, 1], offset: 2>>, memref<21x17xi8, strided<[578, 34]>>, memref<21x17xi8, strided<[578, 34], offset: 1>>)
      outs(%y : memref<?x21xf32>) {
    ^bb0(%a: bf16, %b: i8, %l: i8, %h: i8, %acc: f32):
      %0 = arith.extf %a : bf16 to f32
      %1 = arith.extui %l : i8 to i16
      %2 = arith.extui %h : i8 to i16
      %3 = arith.shli %2, %c8 : i16
      %4 = arith.ori %1, %3 : i16
      %5 = arith.bitcast %4 : i16 to f16
      %6 = arith.extf %5 : f16 to f32
      %7 = arith.extsi %b : i8 to i16
      %8 = arith.shli %7, %c7 : i16
      %9 = arith.andi %8, %mask : i16
      %10 = arith.bitcast %9 : i16 to f16
      %11 = arith.extf %10 : f16 to f32
      %12 = arith.mulf %11, %6 : f32
      %13 = arith.truncf %12 : f32 to bf16
      %14 = arith.extf %13 : bf16 to f32
      %15 = arith.mulf %0, %14 fastmath<reassoc> : f32
      %16 = arith.addf %acc, %15 fastmath<reassoc> : f32
      linalg.yield %16 : f32
  }
  return
}

// One row of rounded numbers: each is multiplied with the scale first.
// CHECK-LABEL: func @one_rounded_row(
// CHECK: scf.forall
// CHECK: %[[NUMBER:.*]] = arith.mulf %{{.*}} : vector<16xf32>
// CHECK: %[[ROUNDED:.*]] = arith.truncf %[[NUMBER]] : vector<16xf32> to vector<16xbf16>
// CHECK: %[[W:.*]] = arith.extf %[[ROUNDED]]
// CHECK: arith.mulf %{{.*}}, %[[W]] : vector<16xf32>
func.func @one_rounded_row(%x: memref<1x64xbf16>, %w: memref<21x2x34xi8>, %y: memref<1x21xf32>) {
  %c7 = arith.constant 7 : i16
  %c8 = arith.constant 8 : i16
  %mask = arith.constant -16385 : i16
  %rows = memref.expand_shape %x [[0], [1, 2]] output_shape [1, 2, 32] : memref<1x64xbf16> into memref<1x2x32xbf16>
  %codes = memref.subview %w[0, 0, 2] [21, 2, 32] [1, 1, 1] : memref<21x2x34xi8> to memref<21x2x32xi8, strided<[68, 34, 1], offset: 2>>
  %low = memref.subview %w[0, 0, 0] [21, 2, 1] [1, 1, 1] : memref<21x2x34xi8> to memref<21x2xi8, strided<[68, 34]>>
  %high = memref.subview %w[0, 0, 1] [21, 2, 1] [1, 1, 1] : memref<21x2x34xi8> to memref<21x2xi8, strided<[68, 34], offset: 1>>
  linalg.generic #product
      ins(%rows, %codes, %low, %high : memref<1x2x32xbf16>, memref<21x2x32xi8, strided<[68, 34, 1], offset: 2>>, memref<21x2xi8, strided<[68, 34]>>, memref<21x2xi8, strided<[68, 34], offset: 1>>)
      outs(%y : memref<1x21xf32>) {
    ^bb0(%a: bf16, %b: i8, %l: i8, %h: i8, %acc: f32):
      %0 = arith.extf %a : bf16 to f32
      %1 = arith.extui %l : i8 to i16
      %2 = arith.extui %h : i8 to i16
      %3 = arith.shli %2, %c8 : i16
      %4 = arith.ori %1, %3 : i16
      %5 = arith.bitcast %4 : i16 to f16
      %6 = arith.extf %5 : f16 to f32
      %7 = arith.extsi %b : i8 to i16
      %8 = arith.shli %7, %c7 : i16
      %9 = arith.andi %8, %mask : i16
      %10 = arith.bitcast %9 : i16 to f16
      %11 = arith.extf %10 : f16 to f32
      %12 = arith.mulf %11, %6 : f32
      %13 = arith.truncf %12 : f32 to bf16
      %14 = arith.extf %13 : bf16 to f32
      %15 = arith.mulf %0, %14 fastmath<reassoc> : f32
      %16 = arith.addf %acc, %15 fastmath<reassoc> : f32
      linalg.yield %16 : f32
  }
  return
}

// Several rows of numbers that are not rounded: the copy is in f32.
// CHECK-LABEL: func @unrounded_rows(
// CHECK: memref.alloca() {alignment = 64 : i64} : memref<6x80xf32>
// CHECK-NOT: truncf
// CHECK: vector.fma
func.func @unrounded_rows(%x: memref<3x64xbf16>, %w: memref<6x2x34xi8>, %y: memref<3x6xf32>) {
  %c7 = arith.constant 7 : i16
  %c8 = arith.constant 8 : i16
  %mask = arith.constant -16385 : i16
  %rows = memref.expand_shape %x [[0], [1, 2]] output_shape [3, 2, 32] : memref<3x64xbf16> into memref<3x2x32xbf16>
  %codes = memref.subview %w[0, 0, 2] [6, 2, 32] [1, 1, 1] : memref<6x2x34xi8> to memref<6x2x32xi8, strided<[68, 34, 1], offset: 2>>
  %low = memref.subview %w[0, 0, 0] [6, 2, 1] [1, 1, 1] : memref<6x2x34xi8> to memref<6x2xi8, strided<[68, 34]>>
  %high = memref.subview %w[0, 0, 1] [6, 2, 1] [1, 1, 1] : memref<6x2x34xi8> to memref<6x2xi8, strided<[68, 34], offset: 1>>
  linalg.generic #product
      ins(%rows, %codes, %low, %high : memref<3x2x32xbf16>, memref<6x2x32xi8, strided<[68, 34, 1], offset: 2>>, memref<6x2xi8, strided<[68, 34]>>, memref<6x2xi8, strided<[68, 34], offset: 1>>)
      outs(%y : memref<3x6xf32>) {
    ^bb0(%a: bf16, %b: i8, %l: i8, %h: i8, %acc: f32):
      %0 = arith.extf %a : bf16 to f32
      %1 = arith.extui %l : i8 to i16
      %2 = arith.extui %h : i8 to i16
      %3 = arith.shli %2, %c8 : i16
      %4 = arith.ori %1, %3 : i16
      %5 = arith.bitcast %4 : i16 to f16
      %6 = arith.extf %5 : f16 to f32
      %7 = arith.extsi %b : i8 to i16
      %8 = arith.shli %7, %c7 : i16
      %9 = arith.andi %8, %mask : i16
      %10 = arith.bitcast %9 : i16 to f16
      %11 = arith.extf %10 : f16 to f32
      %14 = arith.mulf %11, %6 fastmath<reassoc> : f32
      %15 = arith.mulf %0, %14 fastmath<reassoc> : f32
      %16 = arith.addf %acc, %15 fastmath<reassoc> : f32
      linalg.yield %16 : f32
  }
  return
}

// Inside a parallel loop, all groups have one copy.
// CHECK-LABEL: func @in_parallel(
// CHECK: scf.forall
// CHECK-NOT: scf.forall
// CHECK: %[[COPY:.*]] = memref.alloca() {alignment = 64 : i64} : memref<2x64xbf16>
// CHECK: scf.for
// CHECK: vector.store %{{.*}}, %[[COPY]]
// CHECK: x86vector.avx512.dot
func.func @in_parallel(%x: memref<3x64xbf16>, %w: memref<6x2x34xi8>, %y: memref<3x6xf32>) {
  %c7 = arith.constant 7 : i16
  %c8 = arith.constant 8 : i16
  %mask = arith.constant -16385 : i16
  %rows = memref.expand_shape %x [[0], [1, 2]] output_shape [3, 2, 32] : memref<3x64xbf16> into memref<3x2x32xbf16>
  %codes = memref.subview %w[0, 0, 2] [6, 2, 32] [1, 1, 1] : memref<6x2x34xi8> to memref<6x2x32xi8, strided<[68, 34, 1], offset: 2>>
  %low = memref.subview %w[0, 0, 0] [6, 2, 1] [1, 1, 1] : memref<6x2x34xi8> to memref<6x2xi8, strided<[68, 34]>>
  %high = memref.subview %w[0, 0, 1] [6, 2, 1] [1, 1, 1] : memref<6x2x34xi8> to memref<6x2xi8, strided<[68, 34], offset: 1>>
  scf.forall (%i) in (2) {
    linalg.generic #product
        ins(%rows, %codes, %low, %high : memref<3x2x32xbf16>, memref<6x2x32xi8, strided<[68, 34, 1], offset: 2>>, memref<6x2xi8, strided<[68, 34]>>, memref<6x2xi8, strided<[68, 34], offset: 1>>)
        outs(%y : memref<3x6xf32>) {
      ^bb0(%a: bf16, %b: i8, %l: i8, %h: i8, %acc: f32):
        %0 = arith.extf %a : bf16 to f32
        %1 = arith.extui %l : i8 to i16
        %2 = arith.extui %h : i8 to i16
        %3 = arith.shli %2, %c8 : i16
        %4 = arith.ori %1, %3 : i16
        %5 = arith.bitcast %4 : i16 to f16
        %6 = arith.extf %5 : f16 to f32
        %7 = arith.extsi %b : i8 to i16
        %8 = arith.shli %7, %c7 : i16
        %9 = arith.andi %8, %mask : i16
        %10 = arith.bitcast %9 : i16 to f16
        %11 = arith.extf %10 : f16 to f32
        %12 = arith.mulf %11, %6 : f32
        %13 = arith.truncf %12 : f32 to bf16
        %14 = arith.extf %13 : bf16 to f32
        %15 = arith.mulf %0, %14 fastmath<reassoc> : f32
        %16 = arith.addf %acc, %15 fastmath<reassoc> : f32
        linalg.yield %16 : f32
    }
  }
  return
}
