// RUN: cria-opt --verify-cache-in-place --split-input-file --verify-diagnostics %s | FileCheck %s

// Caches that are returned are the arguments: the results go. Other buffers may
// be allocated and copied, those as large as a cache too.
// CHECK-LABEL: func @in_place
// CHECK-SAME: memref<2x1x4x8xf32>) attributes
// CHECK: memref.alloc
// CHECK: memref.copy
// CHECK: return{{$}}
func.func @in_place(%ids: memref<1xi32>, %n: index, %p: index, %f: index, %source: index, %logits: memref<1x16xf32>, %k: memref<2x1x4x8xf32>)
    -> (memref<1x16xf32>, memref<2x1x4x8xf32>)
    attributes {cria.arguments = ["ids", "tokens", "position", "first", "source", "logits", "cache"], cria.chunk = 1 : index} {
  %row = memref.alloc() : memref<1x16xf32>
  memref.copy %row, %logits : memref<1x16xf32> to memref<1x16xf32>
  %scratch = memref.alloc() : memref<4x8xf32>
  %other = memref.alloc() : memref<4x8xf32>
  memref.copy %scratch, %other : memref<4x8xf32> to memref<4x8xf32>
  return %logits, %k : memref<1x16xf32>, memref<2x1x4x8xf32>
}

// -----

// A layer of a state may be computed in scratch.
// CHECK-LABEL: func @state
func.func @state(%ids: memref<1xi32>, %n: index, %p: index, %f: index, %source: index, %logits: memref<1x16xf32>, %s: memref<2x4x8xf32>)
    -> (memref<1x16xf32>, memref<2x4x8xf32>)
    attributes {cria.arguments = ["ids", "tokens", "position", "first", "source", "logits", "cache"], cria.chunk = 1 : index} {
  %layer = memref.subview %s[1, 0, 0] [1, 4, 8] [1, 1, 1]
      : memref<2x4x8xf32> to memref<4x8xf32, strided<[8, 1], offset: 32>>
  %scratch = memref.alloc() : memref<4x8xf32>
  memref.copy %scratch, %layer : memref<4x8xf32> to memref<4x8xf32, strided<[8, 1], offset: 32>>
  return %logits, %s : memref<1x16xf32>, memref<2x4x8xf32>
}

// -----

func.func @allocates(%ids: memref<1xi32>, %n: index, %p: index, %f: index, %source: index, %logits: memref<1x16xf32>, %k: memref<2x1x4x8xf32>)
    -> (memref<1x16xf32>, memref<2x1x4x8xf32>)
    attributes {cria.arguments = ["ids", "tokens", "position", "first", "source", "logits", "cache"], cria.chunk = 1 : index} {
  // expected-error @below {{expected the KV cache to be updated in place, but this op allocates 'memref<2x1x4x8xf32>', as large as the cache 'memref<2x1x4x8xf32>'}}
  %copy = memref.alloc() : memref<2x1x4x8xf32>
  // expected-error @below {{but this op copies 'memref<2x1x4x8xf32>'}}
  memref.copy %k, %copy : memref<2x1x4x8xf32> to memref<2x1x4x8xf32>
  return %logits, %k : memref<1x16xf32>, memref<2x1x4x8xf32>
}

// -----

// A layer of a cache counts as well, whatever its leading ones, and in whatever
// region.
func.func @layer(%ids: memref<1xi32>, %n: index, %p: index, %f: index, %source: index, %logits: memref<1x16xf32>, %k: memref<2x3x4x8xf32>, %v: memref<2x3x4x8xf32>)
    -> (memref<1x16xf32>, memref<2x3x4x8xf32>, memref<2x3x4x8xf32>)
    attributes {cria.arguments = ["ids", "tokens", "position", "first", "source", "logits", "cache", "cache"], cria.chunk = 1 : index} {
  // expected-error @below {{this op allocates 'memref<1x3x4x8xf32>', as large as the cache 'memref<2x3x4x8xf32>'}}
  %0 = memref.alloc() : memref<1x3x4x8xf32>
  %1 = memref.alloc() : memref<3x4x8xf32>
  scf.execute_region {
    %layer = memref.subview %k[1, 0, 0, 0] [1, 3, 4, 8] [1, 1, 1, 1]
        : memref<2x3x4x8xf32> to memref<1x3x4x8xf32, strided<[96, 32, 8, 1], offset: 96>>
    // expected-error @below {{this op copies 'memref<1x3x4x8xf32>', as large as the cache 'memref<2x3x4x8xf32>'}}
    memref.copy %layer, %0 : memref<1x3x4x8xf32, strided<[96, 32, 8, 1], offset: 96>> to memref<1x3x4x8xf32>
    %rows = memref.collapse_shape %layer [[0, 1], [2], [3]]
        : memref<1x3x4x8xf32, strided<[96, 32, 8, 1], offset: 96>> into memref<3x4x8xf32, strided<[32, 8, 1], offset: 96>>
    // expected-error @below {{as large as the cache 'memref<2x3x4x8xf32>'}}
    memref.copy %1, %rows : memref<3x4x8xf32> to memref<3x4x8xf32, strided<[32, 8, 1], offset: 96>>
    scf.yield
  }
  return %logits, %k, %v : memref<1x16xf32>, memref<2x3x4x8xf32>, memref<2x3x4x8xf32>
}

// -----

func.func @other_result(%ids: memref<1xi32>, %n: index, %p: index, %f: index, %source: index, %logits: memref<1x16xf32>, %k: memref<2x1x4x8xf32>, %v: memref<2x1x4x8xf32>)
    -> (memref<1x16xf32>, memref<2x1x4x8xf32>, memref<2x1x4x8xf32>)
    attributes {cria.arguments = ["ids", "tokens", "position", "first", "source", "logits", "cache", "cache"], cria.chunk = 1 : index} {
  // expected-error @below {{expected result 1 to be cache 0, updated in place, got cache 1}}
  return %logits, %v, %k : memref<1x16xf32>, memref<2x1x4x8xf32>, memref<2x1x4x8xf32>
}

// -----

// A kernel must not copy an entry's cache either.
func.func private @kernel(%k: memref<2x1x4x8xf32>) {
  // expected-error @below {{but this op allocates 'memref<2x1x4x8xf32>', as large as the cache}}
  %copy = memref.alloc() : memref<2x1x4x8xf32>
  // expected-error @below {{but this op copies 'memref<2x1x4x8xf32>'}}
  memref.copy %copy, %k : memref<2x1x4x8xf32> to memref<2x1x4x8xf32>
  return
}
func.func @entry(%ids: memref<1xi32>, %n: index, %p: index, %f: index, %source: index, %logits: memref<1x16xf32>, %k: memref<2x1x4x8xf32>)
    -> (memref<1x16xf32>, memref<2x1x4x8xf32>)
    attributes {cria.arguments = ["ids", "tokens", "position", "first", "source", "logits", "cache"], cria.chunk = 1 : index} {
  call @kernel(%k) : (memref<2x1x4x8xf32>) -> ()
  return %logits, %k : memref<1x16xf32>, memref<2x1x4x8xf32>
}

// -----

// What an entry takes is what its attribute says.
// expected-error @below {{expected the attribute 'cria.arguments' with a name for each of 1 arguments}}
func.func @unnamed(%ids: memref<1xi32>) {
  return
}

// -----

// expected-error @below {{expected argument 1 to be one of an entry, got "ids" of type 'memref<1xi32>'}}
func.func @twice(%a: memref<1xi32>, %b: memref<1xi32>) attributes {cria.arguments = ["ids", "ids"], cria.chunk = 1 : index} {
  return
}

// -----

// expected-error @below {{expected argument 0 to be one of an entry, got "tokens" of type 'memref<1xi32>'}}
func.func @type(%a: memref<1xi32>) attributes {cria.arguments = ["tokens"], cria.chunk = 1 : index} {
  return
}

// -----

// expected-error @below {{expected an argument 'tokens'}}
func.func @lacks(%a: memref<1xi32>) attributes {cria.arguments = ["ids"], cria.chunk = 1 : index} {
  return
}

// -----

// Declarations have no buffers.
// CHECK-LABEL: func private @weight
func.func private @weight() -> memref<16x8xf32>

// -----

// An entry draws an id, or it runs tokens.
// expected-error @below {{expected an argument 'sampling'}}
func.func @sample(%logits: memref<1x8xf32>, %seen: memref<1x1xi32>, %sampled: memref<1x4xi32>)
    attributes {cria.arguments = ["logits", "seen", "sampled"]} {
  return
}

// -----

// expected-error @below {{expected arguments 'ids' and 'state', or neither}}
func.func @sample(%logits: memref<1x8xf32>, %seen: memref<1x1xi32>, %sampled: memref<1x4xi32>, %sampling: memref<1x40xi8>, %ids: memref<1xi32>)
    attributes {cria.arguments = ["logits", "seen", "sampled", "sampling", "ids"]} {
  return
}

// -----

// expected-error @below {{expected no argument 'position' beside 'sampled'}}
func.func @sample(%logits: memref<1x8xf32>, %seen: memref<1x1xi32>, %sampled: memref<1x4xi32>, %sampling: memref<1x40xi8>, %position: index)
    attributes {cria.arguments = ["logits", "seen", "sampled", "sampling", "position"]} {
  return
}

// -----

// expected-error @below {{expected no argument 'seen' beside 'ids'}}
func.func @decode(%ids: memref<1xi32>, %n: index, %p: index, %f: index, %s: index, %l: memref<1x8xf32>, %seen: memref<1x1xi32>)
    attributes {cria.arguments = ["ids", "tokens", "position", "first", "source", "logits", "seen"], cria.chunk = 1 : index} {
  return
}
