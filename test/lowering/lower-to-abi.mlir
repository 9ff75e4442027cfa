// RUN: cria-opt --lower-to-abi --split-input-file --verify-diagnostics %s | FileCheck %s

// Weights and tables are no functions any more.
// CHECK-NOT: @w(
// CHECK-NOT: @rope.cos
func.func private @w(index) -> memref<6x8xf32> attributes {cria.weight = {slot = 3 : index, source = "l.{}.w"}}
func.func private @rope.cos() -> memref<4x2xf32> attributes {cria.rope = {slot = 7 : index}}

// A parallel loop is a function over iterations of the product of its extents.
// It reads what it uses from its context, and has its scratch once.
// CHECK-LABEL: func private @k_decode.0
// CHECK-SAME: (%[[CONTEXT:.*]]: !llvm.ptr, %[[BEGIN:.*]]: i64, %[[END:.*]]: i64)
// CHECK: llvm.getelementptr %[[CONTEXT]][0, 0]
// CHECK: llvm.load
// CHECK: memref.alloca() {alignment = 64 : i64} : memref<4xf32>
// CHECK-DAG: %[[E:.*]] = arith.index_cast %[[END]]
// CHECK-DAG: %[[B:.*]] = arith.index_cast %[[BEGIN]]
// CHECK: scf.for %[[I:.*]] = %[[B]] to %[[E]] step %c1
// CHECK-NEXT: %[[C5:.*]] = arith.constant 5 : index
// CHECK-NEXT: %[[COLUMN:.*]] = arith.remui %[[I]], %[[C5]]
// CHECK-NEXT: %[[ROW:.*]] = arith.divui %[[I]], %[[C5]]
// CHECK-NOT: memref.alloca
// CHECK: memref.store %{{.*}}[%[[ROW]], %[[COLUMN]]] : memref<6x8xf32>

// A kernel takes the host as well and calls its first field, parallel_for, with
// the host, the function, the context and the count.
// CHECK-LABEL: func private @k_decode(
// CHECK-SAME: %[[N:[^:]*]]: index, %[[V:[^:]*]]: f32, %[[HOST:[^:]*]]: !llvm.ptr)
// CHECK: %[[FRAME:.*]] = llvm.alloca
// CHECK: %[[COUNT:.*]] = arith.muli %[[N]], %c5
// CHECK: %[[COUNT64:.*]] = arith.index_cast %[[COUNT]]
// CHECK: llvm.getelementptr %[[FRAME]][0, 0]
// CHECK: llvm.store
// CHECK: %[[F:.*]] = constant @k_decode.0
// CHECK: %[[PARALLEL:.*]] = llvm.load %[[HOST]]
// CHECK: %[[BODY:.*]] = builtin.unrealized_conversion_cast %[[F]]
// CHECK: llvm.call %[[PARALLEL]](%[[HOST]], %[[BODY]], %[[FRAME]], %[[COUNT64]])
func.func private @k_decode(%w: memref<6x8xf32>, %n: index, %v: f32) {
  %c2 = arith.constant 2 : index
  scf.forall (%i, %j) in (%n, 5) {
    %s = memref.alloca() {alignment = 64 : i64} : memref<4xf32>
    memref.store %v, %s[%c2] : memref<4xf32>
    memref.store %v, %w[%i, %j] : memref<6x8xf32>
  }
  return
}

// The entry has the signature of runtime/Abi.h: ids, tokens, position,
// first_logit, first_hidden, source, logits, hidden, caches, arena, slots, host. Caches
// and slots are tables.
// CHECK-LABEL: func @cria_decode
// CHECK-SAME: (%[[IDS:[^:]*]]: !llvm.ptr, %[[TOKENS:[^:]*]]: i64, %[[POSITION:[^:]*]]: i64, %{{[^:]*}}: i64, %{{[^:]*}}: i64, %{{[^:]*}}: i64, %{{[^:]*}}: !llvm.ptr, %{{[^:]*}}: !llvm.ptr, %[[CACHES:[^:]*]]: !llvm.ptr, %[[ARENA:[^:]*]]: !llvm.ptr, %[[SLOTS:[^:]*]]: !llvm.ptr, %[[HOST:[^:]*]]: !llvm.ptr) {
// CHECK: llvm.insertvalue %[[IDS]]
// CHECK: %[[P:.*]] = arith.index_cast %[[POSITION]]
// CHECK: %[[ONE:.*]] = arith.constant 1 : i64
// CHECK: %[[AT:.*]] = llvm.getelementptr %[[CACHES]][%[[ONE]]]
// CHECK: %[[CACHE:.*]] = llvm.load %[[AT]]
// CHECK: llvm.insertvalue %[[CACHE]]
// CHECK: llvm.insertvalue %[[ARENA]]
// CHECK: %[[FIRST:.*]] = arith.constant 3 : i64
// CHECK: %[[LAYER:.*]] = arith.index_cast %[[P]]
// CHECK: %[[SLOT:.*]] = arith.addi %[[FIRST]], %[[LAYER]]
// CHECK: llvm.getelementptr %[[SLOTS]][%[[SLOT]]]
// CHECK: %[[SEVEN:.*]] = arith.constant 7 : i64
// CHECK: llvm.getelementptr %[[SLOTS]][%[[SEVEN]]]
// The host's second field, enter, is told the number of the kernel.
// CHECK: %[[NUMBER:.*]] = arith.constant 0 : i64
// CHECK: %[[ENTER_AT:.*]] = llvm.getelementptr %[[HOST]][1] : (!llvm.ptr) -> !llvm.ptr, !llvm.ptr
// CHECK: %[[ENTER:.*]] = llvm.load %[[ENTER_AT]]
// CHECK: llvm.call %[[ENTER]](%[[HOST]], %[[NUMBER]])
// CHECK: call @k_decode({{.*}}, %[[HOST]])
func.func @decode(%ids: memref<1xi32>, %tokens: index, %position: index, %first: index, %source: index, %logits: memref<1x16xf32>, %k: memref<2x1x4x8xf32>, %v: memref<2x1x4x8xf32>, %arena: memref<64xi8>)
    attributes {cria.arguments = ["ids", "tokens", "position", "first", "source", "logits", "cache", "cache", "arena"], cria.chunk = 1 : index, cria.arena_bytes = 64 : index} {
  %w = call @w(%position) : (index) -> memref<6x8xf32>
  %r = call @rope.cos() : () -> memref<4x2xf32>
  %c0 = arith.constant 0 : index
  %0 = memref.load %v[%c0, %c0, %c0, %c0] : memref<2x1x4x8xf32>
  call @k_decode(%w, %tokens, %0) : (memref<6x8xf32>, index, f32) -> ()
  return
}

// -----

// expected-error @below {{expected an entry that runs tokens: the runtime draws ids on the CPU itself}}
func.func @sample(%logits: memref<1x8xf32>, %seen: memref<1x1xi32>, %sampled: memref<1x4xi32>, %sampling: memref<1x40xi8>)
    attributes {cria.arguments = ["logits", "seen", "sampled", "sampling"]} {
  return
}

// -----

// A sum over ranks is the host's third field, all_reduce: host, values, count, type.
// CHECK-LABEL: func private @sum_decode(
// CHECK-SAME: %[[X:[^:]*]]: memref<?xf32>, %[[HOST:[^:]*]]: !llvm.ptr)
// CHECK: %[[SIZE:.*]] = memref.dim %[[X]]
// CHECK: %[[COUNT:.*]] = arith.index_cast %[[SIZE]] : index to i64
// CHECK: %[[VALUES:.*]] = llvm.extractvalue %{{.*}}[1]
// CHECK: %[[TYPE:.*]] = arith.constant 0 : i32
// CHECK: %[[AT:.*]] = llvm.getelementptr %[[HOST]][2] : (!llvm.ptr) -> !llvm.ptr, !llvm.ptr
// CHECK: %[[SUM:.*]] = llvm.load %[[AT]]
// CHECK: llvm.call %[[SUM]](%[[HOST]], %[[VALUES]], %[[COUNT]], %[[TYPE]])
// CHECK-NOT: mpi.
func.func private @sum_decode(%x: memref<?xf32>) {
  %all = mpi.comm_world : !mpi.comm
  mpi.allreduce(%x, %x, MPI_SUM, %all) : memref<?xf32>, memref<?xf32>
  return
}
func.func @decode(%ids: memref<1xi32>, %tokens: index, %position: index, %first: index, %source: index, %logits: memref<1x16xf32>, %arena: memref<64xi8>)
    attributes {cria.arguments = ["ids", "tokens", "position", "first", "source", "logits", "arena"], cria.chunk = 1 : index, cria.arena_bytes = 64 : index} {
  %c0 = arith.constant 0 : index
  %x = memref.view %arena[%c0][%tokens] : memref<64xi8> to memref<?xf32>
  call @sum_decode(%x) : (memref<?xf32>) -> ()
  return
}

// -----

func.func private @sum_decode(%x: memref<?xbf16>) {
  %all = mpi.comm_world : !mpi.comm
  // expected-error @below {{expected an in-place sum of memref<?xf32>}}
  mpi.allreduce(%x, %x, MPI_SUM, %all) : memref<?xbf16>, memref<?xbf16>
  return
}
func.func @decode(%ids: memref<1xi32>, %tokens: index, %position: index, %first: index, %source: index, %logits: memref<1x16xf32>, %arena: memref<64xi8>)
    attributes {cria.arguments = ["ids", "tokens", "position", "first", "source", "logits", "arena"], cria.chunk = 1 : index, cria.arena_bytes = 64 : index} {
  %c0 = arith.constant 0 : index
  %x = memref.view %arena[%c0][%tokens] : memref<64xi8> to memref<?xbf16>
  call @sum_decode(%x) : (memref<?xbf16>) -> ()
  return
}

// -----

// Experts need not lie together: a kernel takes a table of pointers to them, which is
// a part of the table of slots, and loads the pointer of the expert that it reads.
// CHECK-LABEL: func private @up_decode(
// CHECK-SAME: %[[TABLE:[^:]*]]: !llvm.ptr, %[[E:[^:]*]]: index, %[[N:[^:]*]]: index, %{{[^:]*}}: !llvm.ptr) -> f32
// CHECK: %[[NUMBER:.*]] = arith.index_cast %[[E]] : index to i64
// CHECK: %[[AT:.*]] = llvm.getelementptr %[[TABLE]][%[[NUMBER]]] : (!llvm.ptr, i64) -> !llvm.ptr, !llvm.ptr
// CHECK: %[[EXPERT:.*]] = llvm.load %[[AT]]
// CHECK: llvm.insertvalue %[[EXPERT]]
// CHECK: %[[MATRIX:.*]] = builtin.unrealized_conversion_cast {{.*}} to memref<6x8xf32>
// CHECK: memref.load %[[MATRIX]][%[[N]], %[[N]]] : memref<6x8xf32>
// CHECK-LABEL: func @cria_decode
// CHECK-SAME: %[[SLOTS:[^:]*]]: !llvm.ptr, %{{[^:]*}}: !llvm.ptr) {
// CHECK: %[[FIRST:.*]] = arith.constant 3 : i64
// CHECK: %[[LAYER:.*]] = arith.index_cast
// CHECK: %[[COUNT:.*]] = arith.constant 4 : i64
// CHECK: %[[STEP:.*]] = arith.muli %[[LAYER]], %[[COUNT]]
// CHECK: %[[SLOT:.*]] = arith.addi %[[FIRST]], %[[STEP]]
// CHECK: %[[EXPERTS:.*]] = llvm.getelementptr %[[SLOTS]][%[[SLOT]]]
// CHECK-NOT: llvm.load %[[EXPERTS]]
// CHECK: call @up_decode(%[[EXPERTS]],
func.func private @up(index) -> memref<4x6x8xf32> attributes {cria.weight = {experts = 4 : index, slot = 3 : index, source = "l.{}.e.{}"}}
func.func private @up_decode(%w: memref<4x6x8xf32>, %e: index, %n: index) -> f32 {
  %0 = memref.load %w[%e, %n, %n] : memref<4x6x8xf32>
  return %0 : f32
}
func.func @decode(%ids: memref<1xi32>, %tokens: index, %position: index, %first: index, %source: index, %logits: memref<1x16xf32>)
    attributes {cria.arguments = ["ids", "tokens", "position", "first", "source", "logits"], cria.chunk = 1 : index} {
  %w = call @up(%position) : (index) -> memref<4x6x8xf32>
  %0 = call @up_decode(%w, %tokens, %first) : (memref<4x6x8xf32>, index, index) -> f32
  return
}

// -----

func.func private @up() -> memref<4x6x8xf32> attributes {cria.weight = {experts = 4 : index, slot = 0 : index, source = "e.{}"}}
func.func private @up_decode(%w: memref<4x6x8xf32>) {
  // expected-error @below {{expected only loads of the numbers of experts, and views of one expert}}
  %0 = memref.collapse_shape %w [[0, 1], [2]] : memref<4x6x8xf32> into memref<24x8xf32>
  return
}
func.func @decode(%ids: memref<1xi32>, %tokens: index, %position: index, %first: index, %source: index, %logits: memref<1x16xf32>)
    attributes {cria.arguments = ["ids", "tokens", "position", "first", "source", "logits"], cria.chunk = 1 : index} {
  %w = call @up() : () -> memref<4x6x8xf32>
  call @up_decode(%w) : (memref<4x6x8xf32>) -> ()
  return
}

// -----

func.func private @up() -> memref<4x6x8xf32> attributes {cria.weight = {experts = 4 : index, slot = 0 : index, source = "e.{}"}}
func.func @decode(%ids: memref<1xi32>, %tokens: index, %position: index, %first: index, %source: index, %logits: memref<1x16xf32>)
    attributes {cria.arguments = ["ids", "tokens", "position", "first", "source", "logits"], cria.chunk = 1 : index} {
  %w = call @up() : () -> memref<4x6x8xf32>
  // expected-error @below {{expected a kernel to read experts}}
  %0 = memref.load %w[%tokens, %first, %first] : memref<4x6x8xf32>
  return
}

// -----

// Iterations count from 0, whatever a loop's bounds and steps are. Two entries may call one
// kernel.
// CHECK-DAG: #[[PLACE:.*]] = affine_map<(d0) -> (d0 * 2 + 3)>
// CHECK-LABEL: func private @k.0
// CHECK: scf.for %[[I:.*]] =
// CHECK: %[[J:.*]] = affine.apply #[[PLACE]](%[[I]])
// CHECK: memref.store %{{.*}}, %{{.*}}[%{{.*}}, %[[J]]]
// CHECK-LABEL: func private @k(
// CHECK-SAME: memref<1x16xf32>, %{{[^:]*}}: !llvm.ptr)
// CHECK: %[[FIVE:c5_.*]] = arith.constant 5 : index
// CHECK: %[[COUNT:.*]] = arith.index_cast %[[FIVE]] : index to i64
// CHECK: llvm.call %{{.*}}(%{{.*}}, %{{.*}}, %{{.*}}, %[[COUNT]])
func.func private @k(%x: memref<1x16xf32>) {
  %c0 = arith.constant 0 : index
  %v = arith.constant 1.0 : f32
  scf.forall (%i) = (3) to (12) step (2) {
    memref.store %v, %x[%c0, %i] : memref<1x16xf32>
  }
  return
}
// CHECK-LABEL: func @cria_decode
// CHECK: call @k(
func.func @decode(%ids: memref<1xi32>, %tokens: index, %position: index, %first: index, %source: index, %logits: memref<1x16xf32>)
    attributes {cria.arguments = ["ids", "tokens", "position", "first", "source", "logits"], cria.chunk = 1 : index} {
  call @k(%logits) : (memref<1x16xf32>) -> ()
  return
}
// CHECK-LABEL: func @cria_prefill
// CHECK: call @k(
func.func @prefill(%ids: memref<1xi32>, %tokens: index, %position: index, %first: index, %source: index, %logits: memref<1x16xf32>)
    attributes {cria.arguments = ["ids", "tokens", "position", "first", "source", "logits"], cria.chunk = 1 : index} {
  call @k(%logits) : (memref<1x16xf32>) -> ()
  return
}

// -----

// A loop whose body takes ranges runs once for all iterations of a thread.
// CHECK-LABEL: func private @r.0
// CHECK-SAME: %[[BEGIN:[^:]*]]: i64, %[[END:[^:]*]]: i64)
// CHECK-DAG: %[[I:.*]] = arith.index_cast %[[BEGIN]]
// CHECK-DAG: %[[LAST:.*]] = arith.index_cast %[[END]]
// CHECK-NOT: inline_asm
// CHECK: scf.for %{{.*}} = %[[I]] to %[[LAST]]
// CHECK-NOT: scf.for
// CHECK: return
func.func private @r(%x: memref<1x16xf32>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %v = arith.constant 1.0 : f32
  scf.forall (%i) in (16) {
    %next = arith.addi %i, %c1 : index
    %bits = arith.index_cast %next : index to i64
    %end = llvm.inline_asm {cria.range_end} "", "=r,0" %bits : (i64) -> i64
    %last = arith.index_cast %end : i64 to index
    scf.for %j = %i to %last step %c1 {
      memref.store %v, %x[%c0, %j] : memref<1x16xf32>
    }
  }
  return
}
func.func @decode(%ids: memref<1xi32>, %tokens: index, %position: index, %first: index, %source: index, %logits: memref<1x16xf32>)
    attributes {cria.arguments = ["ids", "tokens", "position", "first", "source", "logits"], cria.chunk = 1 : index} {
  call @r(%logits) : (memref<1x16xf32>) -> ()
  return
}

// -----

// A weight without a slot is no kernel.
func.func private @w() -> memref<4xf32> attributes {cria.weight = {source = "w"}}
func.func @decode(%ids: memref<1xi32>, %tokens: index, %position: index, %first: index, %source: index, %logits: memref<1x16xf32>)
    attributes {cria.arguments = ["ids", "tokens", "position", "first", "source", "logits"], cria.chunk = 1 : index} {
  // expected-error @below {{expected a call of a kernel, or of a weight or rope table that has a slot}}
  %w = call @w() : () -> memref<4xf32>
  return
}

// -----

func.func private @w() -> memref<4x?xf32> attributes {cria.weight = {slot = 0 : index, source = "w"}}
func.func @decode(%ids: memref<1xi32>, %tokens: index, %position: index, %first: index, %source: index, %logits: memref<1x16xf32>)
    attributes {cria.arguments = ["ids", "tokens", "position", "first", "source", "logits"], cria.chunk = 1 : index} {
  // expected-error @below {{expected contiguous memory of a static shape, got 'memref<4x?xf32>'}}
  %w = call @w() : () -> memref<4x?xf32>
  return
}

// -----

// expected-error @below {{expected contiguous arguments, got 'memref<1x16xf32, strided<[32, 1]>>'}}
func.func @decode(%ids: memref<1xi32>, %tokens: index, %position: index, %first: index, %source: index, %logits: memref<1x16xf32, strided<[32, 1]>>)
    attributes {cria.arguments = ["ids", "tokens", "position", "first", "source", "logits"], cria.chunk = 1 : index} {
  return
}

// -----

func.func private @k(%x: memref<1x16xf32>, %t: tensor<4xf32>) {
  // expected-error @below {{expected to read memrefs and numbers, got 'tensor<4xf32>'}}
  scf.forall (%i) in (4) {
    %v = tensor.extract %t[%i] : tensor<4xf32>
    memref.store %v, %x[%i, %i] : memref<1x16xf32>
  }
  return
}
func.func @decode(%ids: memref<1xi32>, %tokens: index, %position: index, %first: index, %source: index, %logits: memref<1x16xf32>)
    attributes {cria.arguments = ["ids", "tokens", "position", "first", "source", "logits"], cria.chunk = 1 : index} {
  %t = tensor.empty() : tensor<4xf32>
  call @k(%logits, %t) : (memref<1x16xf32>, tensor<4xf32>) -> ()
  return
}

// -----

func.func private @k(%t: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error @below {{expected no results}}
  %r = scf.forall (%i) in (4) shared_outs(%o = %t) -> tensor<4xf32> {
    %v = tensor.extract_slice %o[0] [1] [1] : tensor<4xf32> to tensor<1xf32>
    scf.forall.in_parallel {
      tensor.parallel_insert_slice %v into %o[%i] [1] [1] : tensor<1xf32> into tensor<4xf32>
    }
  }
  return %r : tensor<4xf32>
}
func.func @decode(%ids: memref<1xi32>, %tokens: index, %position: index, %first: index, %source: index, %logits: memref<1x16xf32>)
    attributes {cria.arguments = ["ids", "tokens", "position", "first", "source", "logits"], cria.chunk = 1 : index} {
  %t = tensor.empty() : tensor<4xf32>
  %r = call @k(%t) : (tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

// expected-error @below {{expected argument 6 to be one of an entry, got "cache" of type 'memref<*xf32>'}}
func.func @decode(%ids: memref<1xi32>, %tokens: index, %position: index, %first: index, %source: index, %logits: memref<1x16xf32>, %cache: memref<*xf32>)
    attributes {cria.arguments = ["ids", "tokens", "position", "first", "source", "logits", "cache"], cria.chunk = 1 : index} {
  return
}
