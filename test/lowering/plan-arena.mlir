// RUN: cria-opt --plan-arena --split-input-file --verify-diagnostics %s | FileCheck %s
// RUN: cria-opt --plan-arena=alignment=256 --split-input-file --verify-diagnostics %s | FileCheck --check-prefix=WIDE %s
// RUN: not cria-opt --plan-arena=alignment=0 --split-input-file %s 2>&1 | FileCheck --check-prefix=ZERO %s
// ZERO: plan-arena: expected a positive alignment

// Buffers that live one after the other share a place; those that live at the
// same time do not. Places are multiples of 64 bytes; a use of a view is a use.
// CHECK-LABEL: func private @lifetimes
// CHECK-SAME: %[[ARENA:[^:]*]]: memref<128xi8>) attributes
// CHECK: %[[O0:.*]] = arith.constant 0 : index
// CHECK: memref.view %[[ARENA]][%[[O0]]][] : memref<128xi8> to memref<4xf32>
// CHECK: %[[O1:.*]] = arith.constant 64 : index
// CHECK: memref.view %[[ARENA]][%[[O1]]][] : memref<128xi8> to memref<4xf32>
// CHECK: %[[O2:.*]] = arith.constant 0 : index
// CHECK: memref.view %[[ARENA]][%[[O2]]][] : memref<128xi8> to memref<4xf32>
// CHECK-NOT: memref.alloc
// WIDE-LABEL: func private @lifetimes
// WIDE-SAME: memref<512xi8>)
// WIDE: arith.constant 256 : index
func.func private @lifetimes(%i: index, %v: f32) attributes {cria.chunk = 1 : index} {
  %a = memref.alloc() : memref<4xf32>
  %a2 = memref.cast %a : memref<4xf32> to memref<?xf32>
  %b = memref.alloc() : memref<4xf32>
  memref.store %v, %a2[%i] : memref<?xf32>
  %c = memref.alloc() : memref<4xf32>
  memref.store %v, %b[%i] : memref<4xf32>
  memref.store %v, %c[%i] : memref<4xf32>
  return
}

// -----

// The token count is at most the chunk, and the view has it as its size. Nothing
// is freed.
// CHECK-LABEL: func private @tokens
// CHECK-SAME: (%[[N:.*]]: index, %[[ARENA:.*]]: memref<4096xi8>) attributes
// CHECK: memref.view %[[ARENA]][%{{.*}}][%[[N]]] : memref<4096xi8> to memref<?x8xbf16>
// CHECK-NOT: memref.dealloc
func.func private @tokens(%n: index) attributes {cria.chunk = 256 : index} {
  %a = memref.alloc(%n) : memref<?x8xbf16>
  memref.dealloc %a : memref<?x8xbf16>
  return
}

// -----

// A use in a loop lasts for all of the loop, where the buffer comes from before
// it: %b must not lie where %a does.
// CHECK-LABEL: func private @loop
// CHECK-SAME: memref<128xi8>)
func.func private @loop(%i: index, %v: f32) attributes {cria.chunk = 1 : index} {
  %a = memref.alloc() : memref<4xf32>
  scf.for %j = %i to %i step %i {
    memref.store %v, %a[%j] : memref<4xf32>
    %b = memref.alloc() : memref<4xf32>
    memref.store %v, %b[%j] : memref<4xf32>
  }
  return
}

// -----

// A loop's result is the buffer it carries: %b must not lie where %a does.
// CHECK-LABEL: func private @carried
// CHECK-SAME: memref<128xi8>)
func.func private @carried(%i: index, %v: f32) -> f32 attributes {cria.chunk = 1 : index} {
  %a = memref.alloc() : memref<4xf32>
  %r = scf.for %j = %i to %i step %i iter_args(%m = %a) -> memref<4xf32> {
    scf.yield %m : memref<4xf32>
  }
  %b = memref.alloc() : memref<4xf32>
  memref.store %v, %b[%i] : memref<4xf32>
  %x = memref.load %r[%i] : memref<4xf32>
  return %x : f32
}

// -----

// A buffer that an iteration passes to the next one is in use from the loop's start:
// %t must not lie where %next does.
// CHECK-LABEL: func private @passed
// CHECK-SAME: memref<128xi8>)
func.func private @passed(%i: index, %v: f32, %a: memref<4xf32>) -> f32 attributes {cria.chunk = 1 : index} {
  %r = scf.for %j = %i to %i step %i iter_args(%m = %a) -> memref<4xf32> {
    %t = memref.alloc() : memref<4xf32>
    memref.store %v, %t[%i] : memref<4xf32>
    %x = memref.load %m[%i] : memref<4xf32>
    %next = memref.alloc() : memref<4xf32>
    memref.store %x, %next[%i] : memref<4xf32>
    scf.yield %next : memref<4xf32>
  }
  %x = memref.load %r[%i] : memref<4xf32>
  return %x : f32
}

// -----

// The larger buffer is placed first, the smaller one into the gap beside it.
// CHECK-LABEL: func private @first_fit
// CHECK-SAME: memref<320xi8>)
// CHECK: arith.constant 256 : index
// CHECK: arith.constant 0 : index
// CHECK: arith.constant 256 : index
func.func private @first_fit(%i: index, %v: f32) attributes {cria.chunk = 1 : index} {
  %small = memref.alloc() : memref<1xf32>
  %large = memref.alloc() : memref<64xf32>
  memref.store %v, %small[%i] : memref<1xf32>
  %other = memref.alloc() : memref<16xf32>
  memref.store %v, %large[%i] : memref<64xf32>
  memref.store %v, %other[%i] : memref<16xf32>
  return
}

// -----

// Scratch of a parallel iteration is on the stack, in front of the iteration's
// loops: none is left for the arena.
// CHECK-LABEL: func private @parallel(%{{[^,]*}}: index, %{{[^,]*}}: f32) attributes
// CHECK: scf.forall
// CHECK-NEXT: memref.alloca() {alignment = 64 : i64} : memref<4xf32>
// CHECK: scf.for
// CHECK-NOT: memref.alloc
func.func private @parallel(%i: index, %v: f32) attributes {cria.chunk = 1 : index} {
  scf.forall (%t) in (8) {
    scf.for %j = %i to %i step %i {
      %a = memref.alloc() : memref<4xf32>
      memref.store %v, %a[%j] : memref<4xf32>
    }
  }
  return
}

// -----

func.func private @dynamic(%i: index, %v: f32) attributes {cria.chunk = 1 : index} {
  scf.forall (%t) in (8) {
    // expected-error @below {{expected scratch of a static size in a parallel loop}}
    %a = memref.alloc(%i) : memref<?xf32>
    memref.store %v, %a[%i] : memref<?xf32>
  }
  return
}

// -----

// A kernel's temporaries are a part of the entry's arena while it runs: %b may
// lie where the kernel's lie, %a may not. A kernel without any takes none.
// CHECK: func private @scratch(%{{.*}}: memref<4xf32>, %{{.*}}: index, %[[S:.*]]: memref<128xi8>) attributes {cria.chunk = 8 : index}
// CHECK: memref.view %[[S]]
// CHECK: memref.view %[[S]]
// CHECK-NOT: memref.alloc
// CHECK: func private @none(%{{[^,]*}}: memref<4xf32>) attributes
// CHECK: func private @weight() -> memref<4xf32>
// CHECK-LABEL: func @entry
// CHECK-SAME: %[[ARENA:[^:]*]]: memref<192xi8>) attributes {cria.arena_bytes = 192 : index, cria.arguments = ["ids", "tokens", "position", "first", "source", "logits", "arena"]
// CHECK: memref.view %[[ARENA]][%{{.*}}][] : memref<192xi8> to memref<4xf32>
// CHECK: %[[PART:.*]] = memref.view %[[ARENA]][%{{.*}}][] : memref<192xi8> to memref<128xi8>
// CHECK: call @scratch(%{{.*}}, %{{.*}}, %[[PART]])
// CHECK: call @none(%{{[^,]*}})
func.func private @scratch(%a: memref<4xf32>, %n: index) attributes {cria.chunk = 8 : index} {
  %v = arith.constant 1.0 : f32
  %x = memref.alloc() : memref<4xf32>
  %y = memref.alloc(%n) : memref<?xf32>
  memref.store %v, %x[%n] : memref<4xf32>
  memref.store %v, %y[%n] : memref<?xf32>
  memref.store %v, %a[%n] : memref<4xf32>
  return
}
func.func private @none(%a: memref<4xf32>) attributes {cria.chunk = 8 : index} {
  return
}
func.func private @weight() -> memref<4xf32>
func.func @entry(%ids: memref<8xi32>, %n: index, %p: index, %f: index, %s: index, %l: memref<8x16xf32>)
    attributes {cria.arguments = ["ids", "tokens", "position", "first", "source", "logits"], cria.chunk = 8 : index} {
  %a = memref.alloc() : memref<4xf32>
  call @scratch(%a, %n) : (memref<4xf32>, index) -> ()
  %b = memref.alloc() : memref<4xf32>
  call @none(%b) : (memref<4xf32>) -> ()
  call @none(%a) : (memref<4xf32>) -> ()
  return
}

// -----

// A buffer that is chosen, or that a loop carries, is as large as the largest that
// it may be, even where the loop exchanges what it carries.
// CHECK-LABEL: func private @chosen
// CHECK-SAME: memref<192xi8>)
func.func private @chosen(%n: index, %c: i1, %a: memref<?xi8>, %b: memref<?xi8>) attributes {cria.chunk = 130 : index} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c3 = arith.constant 3 : index
  %view = memref.cast %b : memref<?xi8> to memref<?xi8>
  %one = arith.select %c, %a, %view : memref<?xi8>
  %first:2 = scf.for %i = %c0 to %c3 step %c1 iter_args(%x = %one, %y = %a) -> (memref<?xi8>, memref<?xi8>) {
    %size = memref.dim %x, %c0 : memref<?xi8>
    %new = memref.alloc(%size) : memref<?xi8>
    scf.yield %y, %x : memref<?xi8>, memref<?xi8>
  }
  %size = memref.dim %first#1, %c0 : memref<?xi8>
  %last = memref.alloc(%size) : memref<?xi8>
  return
}

// -----

// A size that a constant bounds is that large at most, wherever it comes from;
// fewer than the tokens are at most the chunk.
// CHECK-LABEL: func private @bounded
// CHECK-SAME: memref<192xi8>)
func.func private @bounded(%n: index, %p: index) attributes {cria.chunk = 8 : index} {
  %c0 = arith.constant 0 : index
  %few = affine.min affine_map<(d0) -> (d0, 16)>(%p)
  %rest = arith.subi %n, %p : index
  %a = memref.alloc(%few) : memref<?xf32>
  %b = memref.alloc(%rest, %few) : memref<?x?xi8>
  %v = memref.load %a[%c0] : memref<?xf32>
  %w = memref.load %b[%c0, %c0] : memref<?x?xi8>
  return
}

// -----

// What a kernel takes is what it is called with: tokens, and here two more. An
// index has 8 bytes.
// CHECK-LABEL: func private @padded
// CHECK-SAME: memref<128xi8>)
func.func private @padded(%n: index) attributes {cria.chunk = 8 : index} {
  %c2 = arith.constant 2 : index
  %more = arith.addi %n, %c2 : index
  %a = memref.alloc(%more) : memref<?xindex>
  %b = memref.load %a[%c2] : memref<?xindex>
  return
}
func.func @entry(%ids: memref<8xi32>, %tokens: index, %position: index, %first: index, %source: index, %logits: memref<8x4xf32>)
    attributes {cria.arguments = ["ids", "tokens", "position", "first", "source", "logits"], cria.chunk = 8 : index} {
  call @padded(%tokens) : (index) -> ()
  return
}

// -----

// A loop's number is at most the loop's end, and what it carries at most what it
// begins with and yields.
// CHECK-LABEL: func private @counted
// CHECK-SAME: memref<256xi8>)
func.func private @counted(%n: index, %p: index) attributes {cria.chunk = 130 : index} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c3 = arith.constant 3 : index
  %last = scf.for %i = %c0 to %n step %c1 iter_args(%size = %c3) -> (index) {
    %a = memref.alloc(%i) : memref<?xi8>
    %x = memref.load %a[%c0] : memref<?xi8>
    %fewer = arith.subi %n, %i : index
    %next = affine.min affine_map<(d0)[s0] -> (d0 + 1, s0)>(%size)[%fewer]
    scf.yield %next : index
  }
  %b = memref.alloc(%last) : memref<?xi8>
  %c = memref.alloc(%c3) : memref<?xi8>
  %y = memref.load %b[%c0] : memref<?xi8>
  %z = memref.load %c[%c0] : memref<?xi8>
  return
}

// -----

// A size that grows with every turn has no bound.
func.func private @grown(%n: index) attributes {cria.chunk = 8 : index} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %last = scf.for %i = %c0 to %n step %c1 iter_args(%size = %c1) -> (index) {
    %more = arith.addi %size, %size : index
    scf.yield %more : index
  }
  // expected-error @below {{expected sizes with a constant bound, or numbers of tokens, got 'memref<?xf32>'}}
  %a = memref.alloc(%last) : memref<?xf32>
  return
}

// -----

// Nothing bounds how long the text is.
func.func private @unbounded(%p: index) attributes {cria.chunk = 8 : index} {
  // expected-error @below {{expected sizes with a constant bound, or numbers of tokens, got 'memref<?xf32>'}}
  %a = memref.alloc(%p) : memref<?xf32>
  return
}
func.func @entry(%ids: memref<8xi32>, %tokens: index, %position: index, %first: index, %source: index, %logits: memref<8x4xf32>)
    attributes {cria.arguments = ["ids", "tokens", "position", "first", "source", "logits"], cria.chunk = 8 : index} {
  call @unbounded(%position) : (index) -> ()
  return
}

// -----

// A kernel's own buffers end with it.
// expected-error @below {{expected a kernel to return only buffers among its arguments}}
func.func private @returns() -> memref<4xf32> attributes {cria.chunk = 8 : index} {
  %a = memref.alloc() : memref<4xf32>
  return %a : memref<4xf32>
}

// -----

// expected-error @below {{expected the attribute 'cria.chunk'}}
func.func private @other() {
  return
}

// -----

// expected-error @below {{expected the attribute 'cria.chunk', a number of tokens}}
func.func private @negative_chunk() attributes {cria.chunk = -1 : index} {
  return
}

// -----

// A launch uses what it is given: %a must not lie where %b does. The entry draws
// an id, and has no tokens.
// CHECK-LABEL: func @sample
// CHECK-SAME: %[[ARENA:[^:]*]]: memref<128xi8>) attributes {cria.arena_bytes = 128 : index, cria.arguments = ["logits", "seen", "sampled", "sampling", "arena"]}
// CHECK: memref.view %[[ARENA]]
// CHECK: memref.view %[[ARENA]]
// CHECK-NOT: memref.alloc
module attributes {gpu.container_module} {
  func.func @sample(%logits: memref<1x32xf32>, %seen: memref<1x1xi32>, %sampled: memref<1x4xi32>, %sampling: memref<1x40xi8>)
      attributes {cria.arguments = ["logits", "seen", "sampled", "sampling"]} {
    %c1 = arith.constant 1 : index
    %a = memref.alloc() : memref<4xf32>
    %b = memref.alloc() : memref<4xf32>
    gpu.launch_func @kernels::@two blocks in (%c1, %c1, %c1) threads in (%c1, %c1, %c1) args(%b : memref<4xf32>)
    gpu.launch_func @kernels::@one blocks in (%c1, %c1, %c1) threads in (%c1, %c1, %c1) args(%a : memref<4xf32>)
    return
  }
  gpu.module @kernels {
    gpu.func @one(%a: memref<4xf32>) kernel {
      gpu.return
    }
    gpu.func @two(%a: memref<4xf32>) kernel {
      gpu.return
    }
  }
}

// -----

// A kernel whose buffers have no bytes takes an arena, too.
// CHECK-LABEL: func private @empty(
// CHECK-SAME: %{{.*}}: memref<0xi8>)
// CHECK-LABEL: func @entry
// CHECK: %[[VIEW:.*]] = memref.view
// CHECK: call @empty(%[[VIEW]])
func.func private @empty() attributes {cria.chunk = 8 : index} {
  %a = memref.alloc() : memref<0xf32>
  return
}
func.func @entry(%ids: memref<8xi32>, %tokens: index, %position: index, %first: index, %source: index, %logits: memref<8x4xf32>)
    attributes {cria.arguments = ["ids", "tokens", "position", "first", "source", "logits"], cria.chunk = 8 : index} {
  call @empty() : () -> ()
  return
}

// -----

// A difference from a negative number is more than the number of tokens.
func.func private @negative(%n: index) attributes {cria.chunk = 8 : index} {
  %c = arith.constant -500 : index
  %m = arith.subi %n, %c : index
  // expected-error @below {{expected sizes with a constant bound, or numbers of tokens, got 'memref<?xf32>'}}
  %a = memref.alloc(%m) : memref<?xf32>
  return
}

// -----

// What a branch gives a block is no argument of the function.
func.func private @branch(%n: index) attributes {cria.chunk = 8 : index} {
  %c500 = arith.constant 500 : index
  cf.br ^bb1(%c500 : index)
^bb1(%m: index):
  // expected-error @below {{expected sizes with a constant bound, or numbers of tokens, got 'memref<?xf32>'}}
  %a = memref.alloc(%m) : memref<?xf32>
  return
}

// -----

func.func private @unranked(%x: memref<*xf32>) attributes {cria.chunk = 8 : index} {
  %c0 = arith.constant 0 : index
  %m = memref.dim %x, %c0 : memref<*xf32>
  // expected-error @below {{expected sizes with a constant bound, or numbers of tokens, got 'memref<?xf32>'}}
  %a = memref.alloc(%m) : memref<?xf32>
  return
}

// -----

// Products and sums that overflow bound nothing.
func.func private @overflow(%n: index) attributes {cria.chunk = 8 : index} {
  %c = arith.constant 9223372036854775807 : index
  %m = arith.addi %n, %c : index
  // expected-error @below {{expected sizes with a constant bound, or numbers of tokens, got 'memref<?xf32>'}}
  %a = memref.alloc(%m) : memref<?xf32>
  return
}

// -----

func.func private @huge() attributes {cria.chunk = 8 : index} {
  // expected-error @below {{expected a buffer of 0 to 140737488355328 bytes, got 'memref<4611686018427387904x4xf32>'}}
  %a = memref.alloc() : memref<4611686018427387904x4xf32>
  return
}

// -----

// A bound follows from so many numbers, and no more.
func.func private @sums(%n: index) attributes {cria.chunk = 8 : index} {
  %1 = arith.addi %n, %n : index
  %2 = arith.addi %1, %1 : index
  %3 = arith.addi %2, %2 : index
  %4 = arith.addi %3, %3 : index
  %5 = arith.addi %4, %4 : index
  %6 = arith.addi %5, %5 : index
  %7 = arith.addi %6, %6 : index
  %8 = arith.addi %7, %7 : index
  %9 = arith.addi %8, %8 : index
  %10 = arith.addi %9, %9 : index
  %a = memref.alloc(%10) : memref<?xi8>
  %11 = arith.addi %10, %10 : index
  %12 = arith.addi %11, %11 : index
  %13 = arith.addi %12, %12 : index
  %14 = arith.addi %13, %13 : index
  // expected-error @below {{expected sizes with a constant bound, or numbers of tokens, got 'memref<?xi8>'}}
  %b = memref.alloc(%14) : memref<?xi8>
  return
}

// -----

func.func private @scalable() attributes {cria.chunk = 8 : index} {
  // expected-error @below {{expected contiguous memory of numbers, got 'memref<4xvector<[4]xf32>>'}}
  %a = memref.alloc() : memref<4xvector<[4]xf32>>
  return
}

// -----

func.func private @strided() attributes {cria.chunk = 8 : index} {
  // expected-error @below {{expected contiguous memory of numbers, got 'memref<4x4xf32, strided<[8, 1]>>'}}
  %a = memref.alloc() : memref<4x4xf32, strided<[8, 1]>>
  return
}

// -----

func.func private @undefined(%x: memref<?xi8>) attributes {cria.chunk = 8 : index} {
  %c7 = arith.constant 7 : index
  // expected-error @below {{expected a dimension of 'memref<?xi8>', got 7}}
  %size = memref.dim %x, %c7 : memref<?xi8>
  %a = memref.alloc(%size) : memref<?xi8>
  return
}
