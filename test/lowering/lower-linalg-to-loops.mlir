// RUN: cria-opt --lower-linalg-to-loops --canonicalize --split-input-file %s | FileCheck %s

#id = affine_map<(t, i) -> (t, i)>
#row = affine_map<(t, i) -> (t)>

// The loop over tokens, the dynamic one, is parallel; static ones are not.
// CHECK-LABEL: func @tokens
// CHECK: %[[N:.*]] = memref.dim
// CHECK: scf.forall (%[[T:.*]]) in (%[[N]])
// CHECK: scf.for %[[I:.*]] = %c0 to %c8 step %c1
// CHECK: %[[X:.*]] = memref.load %{{.*}}[%[[T]], %[[I]]]
// CHECK: %[[Y:.*]] = arith.mulf %[[X]], %[[X]]
// CHECK: memref.store %[[Y]], %{{.*}}[%[[T]], %[[I]]]
// CHECK-NOT: linalg
// CHECK-LABEL: func @one_token
// CHECK-NOT: scf.forall
// CHECK: return
func.func @tokens(%x: memref<?x8xf32>, %y: memref<?x8xf32>) {
  linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]}
      ins(%x : memref<?x8xf32>) outs(%y : memref<?x8xf32>) {
    ^bb0(%a: f32, %b: f32):
      %s = arith.mulf %a, %a : f32
      linalg.yield %s : f32
  }
  return
}
func.func @one_token(%x: memref<1x8xf32>, %y: memref<1x8xf32>) {
  linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]}
      ins(%x : memref<1x8xf32>) outs(%y : memref<1x8xf32>) {
    ^bb0(%a: f32, %b: f32):
      %s = arith.mulf %a, %a : f32
      linalg.yield %s : f32
  }
  return
}

// -----

#id = affine_map<(t, i) -> (t, i)>
#row = affine_map<(t, i) -> (t)>

// An innermost reduction is carried by the loop: one load before, one store
// behind.
// CHECK-LABEL: func @reduction
// CHECK: scf.forall (%[[T:.*]]) in
// CHECK: %[[OLD:.*]] = memref.load %[[S:.*]][%[[T]]]
// CHECK: %[[SUM:.*]] = scf.for %[[I:.*]] = %c0 to %c8 step %c1 iter_args(%[[ACC:.*]] = %[[OLD]])
// CHECK-NEXT: %[[X:.*]] = memref.load %{{.*}}[%[[T]], %[[I]]]
// CHECK-NEXT: %[[NEXT:.*]] = arith.addf %[[ACC]], %[[X]]
// CHECK-NEXT: scf.yield %[[NEXT]]
// CHECK: memref.store %[[SUM]], %[[S]][%[[T]]]
func.func @reduction(%x: memref<?x8xf32>, %s: memref<?xf32>) {
  linalg.generic {indexing_maps = [#id, #row], iterator_types = ["parallel", "reduction"]}
      ins(%x : memref<?x8xf32>) outs(%s : memref<?xf32>) {
    ^bb0(%a: f32, %acc: f32):
      %n = arith.addf %acc, %a : f32
      linalg.yield %n : f32
  }
  return
}

// -----

#row = affine_map<(k, r) -> (r)>
#id = affine_map<(k, r) -> (k, r)>

// An outer reduction goes through memory. Inside a parallel loop no second one
// is made.
// CHECK-LABEL: func @outer_reduction
// CHECK-COUNT-1: scf.forall
// CHECK-NOT: scf.forall
// CHECK: scf.for %[[K:.*]] = %c0 to %{{.*}} step %c1
// CHECK-NEXT: scf.for %[[R:.*]] = %c0 to %c8 step %c1
// CHECK-NEXT: memref.load %{{.*}}[%[[R]]]
// CHECK-NEXT: memref.load %{{.*}}[%[[K]], %[[R]]]
// CHECK: memref.store %{{.*}}[%[[R]]]
func.func @outer_reduction(%x: memref<?x8xf32>, %s: memref<8xf32>) {
  scf.forall (%i) in (4) {
    linalg.generic {indexing_maps = [#id, #row], iterator_types = ["reduction", "parallel"]}
        ins(%x : memref<?x8xf32>) outs(%s : memref<8xf32>) {
      ^bb0(%a: f32, %acc: f32):
        %n = arith.addf %acc, %a : f32
        linalg.yield %n : f32
    }
  }
  return
}

// -----

// Indices are the loops'; a scalar input needs no load; fills and copies are
// loops as well.
// CHECK-LABEL: func @others
// CHECK: scf.for %[[I:.*]] = %c0 to %c8
// CHECK: %[[V:.*]] = arith.index_cast %[[I]]
// CHECK: memref.store %[[V]], %{{.*}}[%[[I]]]
// CHECK: scf.for
// CHECK-NEXT: memref.store %{{.*}}, %[[F:.*]][
// CHECK: scf.for
// CHECK-NEXT: %[[E:.*]] = memref.load %[[F]]
// CHECK-NEXT: memref.store %[[E]]
// CHECK-NOT: memref.copy
func.func @others(%i: memref<8xi32>, %f: memref<8xf32>, %g: memref<8xf32>, %value: f32) {
  linalg.generic {indexing_maps = [affine_map<(i) -> (i)>], iterator_types = ["parallel"]}
      outs(%i : memref<8xi32>) {
    ^bb0(%out: i32):
      %n = linalg.index 0 : index
      %v = arith.index_cast %n : index to i32
      linalg.yield %v : i32
  }
  linalg.fill ins(%value : f32) outs(%f : memref<8xf32>)
  memref.copy %f, %g : memref<8xf32> to memref<8xf32>
  return
}

// -----

#number = affine_map<(r, b, i) -> (r, b, i)>
#block = affine_map<(r, b, i) -> (r, b)>

// What is done to blocks of bytes is done to vectors; what all of a block share
// stays a scalar.
// CHECK-LABEL: func @blocks
// CHECK: scf.for %[[R:.*]] = %c0 to %c4
// CHECK-NEXT: scf.for %[[B:.*]] = %c0 to %c2
// CHECK-NEXT: %[[CODES:.*]] = vector.load %{{.*}}[%[[R]], %[[B]], %c0] : memref<4x2x32xi8>, vector<32xi8>
// CHECK-NEXT: %[[SCALE:.*]] = memref.load %{{.*}}[%[[R]], %[[B]]] : memref<4x2xf16>
// CHECK-NEXT: %[[WIDE:.*]] = arith.extf %[[SCALE]] : f16 to f32
// CHECK-NEXT: %[[X:.*]] = arith.sitofp %[[CODES]] : vector<32xi8> to vector<32xf32>
// CHECK-NEXT: %[[ALL:.*]] = vector.broadcast %[[WIDE]] : f32 to vector<32xf32>
// CHECK-NEXT: %[[Y:.*]] = arith.mulf %[[X]], %[[ALL]] : vector<32xf32>
// CHECK-NEXT: vector.store %[[Y]], %{{.*}}[%[[R]], %[[B]], %c0]
func.func @blocks(%codes: memref<4x2x32xi8>, %scales: memref<4x2xf16>, %out: memref<4x2x32xf32>) {
  linalg.generic {indexing_maps = [#number, #block, #number], iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%codes, %scales : memref<4x2x32xi8>, memref<4x2xf16>) outs(%out : memref<4x2x32xf32>) {
    ^bb0(%c: i8, %s: f16, %o: f32):
      %wide = arith.extf %s : f16 to f32
      %x = arith.sitofp %c : i8 to f32
      %y = arith.mulf %x, %wide : f32
      linalg.yield %y : f32
  }
  return
}

// -----

#id = affine_map<(r, i) -> (r, i)>
#turned = affine_map<(r, i) -> (i, r)>

// Bytes that do not lie side by side are scalars.
// CHECK-LABEL: func @turned
// CHECK-NOT: vector
func.func @turned(%x: memref<32x4xi8>, %y: memref<4x32xi8>) {
  linalg.generic {indexing_maps = [#turned, #id], iterator_types = ["parallel", "parallel"]}
      ins(%x : memref<32x4xi8>) outs(%y : memref<4x32xi8>) {
    ^bb0(%a: i8, %o: i8):
      linalg.yield %a : i8
  }
  return
}

// -----

#weight = affine_map<(t, n, s) -> (t, s)>
#row = affine_map<(t, n, s) -> (t, s, n)>
#column = affine_map<(t, n, s) -> (t, n, s)>
#sum = affine_map<(t, n, s) -> (t, n)>

// Sums whose terms must stay in order: those of columns are added row by row, so that LLVM
// can vectorize the loop over columns. Those of rows stay sums in a register.
// CHECK-LABEL: func @ordered
// CHECK-SAME: %[[W:[^:]*]]: memref<4x3xf32>, %[[X:[^:]*]]: memref<4x3x16xf32>, %{{.*}}, %[[Y:[^:]*]]: memref<4x16xf32>
// CHECK: scf.for %[[T:.*]] = %c0 to %c4
// CHECK-NEXT: scf.for %[[S:.*]] = %c0 to %c3
// CHECK-NEXT: scf.for %[[N:.*]] = %c0 to %c16
// CHECK-NEXT: %[[SUM:.*]] = memref.load %[[Y]][%[[T]], %[[N]]]
// CHECK-NEXT: memref.load %[[W]][%[[T]], %[[S]]]
// CHECK-NEXT: memref.load %[[X]][%[[T]], %[[S]], %[[N]]]
// CHECK: %[[NEXT:.*]] = arith.addf %[[SUM]]
// CHECK-NEXT: memref.store %[[NEXT]], %[[Y]][%[[T]], %[[N]]]
// CHECK: scf.for %{{.*}} = %c0 to %c16
// CHECK-NEXT: memref.load
// CHECK-NEXT: scf.for {{.*}} = %c0 to %c3 step %c1 iter_args
func.func @ordered(%w: memref<4x3xf32>, %x: memref<4x3x16xf32>, %z: memref<4x16x3xf32>, %y: memref<4x16xf32>) {
  linalg.generic {indexing_maps = [#weight, #row, #sum], iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%w, %x : memref<4x3xf32>, memref<4x3x16xf32>) outs(%y : memref<4x16xf32>) {
    ^bb0(%a: f32, %b: f32, %c: f32):
      %p = arith.mulf %a, %b : f32
      %r = arith.addf %c, %p : f32
      linalg.yield %r : f32
  }
  linalg.generic {indexing_maps = [#weight, #column, #sum], iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%w, %z : memref<4x3xf32>, memref<4x16x3xf32>) outs(%y : memref<4x16xf32>) {
    ^bb0(%a: f32, %b: f32, %c: f32):
      %p = arith.mulf %a, %b : f32
      %r = arith.addf %c, %p : f32
      linalg.yield %r : f32
  }
  return
}
