// RUN: cria-opt --plan-launches --split-input-file %s | FileCheck %s

// A launch's arguments say where memrefs are: the entry's own arguments, slots
// of weights and tables, and its arena, which begins behind 64 KiB. Nothing of
// the host stays.
// CHECK-NOT: func.func
// CHECK: gpu.module @kernels attributes {cria.plan = {arena = 66560 : i64, entries = {decode = [
// CHECK-SAME: {args = [{ids = 0 : i64}, {weight = 2 : i64}, {weight = 5 : i64}, {arena = 66048 : i64}, {cache = 0 : i64, offset = 0 : i64}, {cache = 1 : i64, offset = 0 : i64}, {logits = 0 : i64}],
// CHECK-SAME: block = [128, 2, 1], grid = [4, 1, 1], launch = "all", shared = 1024 : i64}]},
// CHECK-SAME: workspace_zeroed = {bytes = 0 : i64, offset = 0 : i64}}
// CHECK: gpu.func @all(%{{[^:]*}}: memref<1xi32>, %{{[^:]*}}: memref<8x4xbf16>, %{{[^:]*}}: memref<8x2xf32>, %{{[^:]*}}: memref<4xf32>, %{{[^:]*}}: memref<2x1x8x4xf32>, %{{[^:]*}}: memref<2x1x8x4xf32>, %{{[^:]*}}: memref<1x8xf32>) kernel attributes {cria.given = array<i32: 1, 2>}
// CHECK-NOT: func.func
module attributes {gpu.container_module} {
  func.func private @table() -> memref<8x4xbf16> attributes {cria.weight = {slot = 2 : index, source = "table"}}
  func.func private @rope.cos() -> memref<8x2xf32> attributes {cria.rope = {slot = 5 : index}}
  func.func @decode(%ids: memref<1xi32>, %tokens: index, %position: index, %first: index, %source: index, %logits: memref<1x8xf32>, %keys: memref<2x1x8x4xf32>, %values: memref<2x1x8x4xf32>, %arena: memref<1024xi8>)
      attributes {cria.arguments = ["ids", "tokens", "position", "first", "source", "logits", "cache", "cache", "arena"], cria.chunk = 1 : index, cria.arena_bytes = 1024 : index} {
    %c1 = arith.constant 1 : index
    %c2 = arith.constant 2 : index
    %c4 = arith.constant 4 : index
    %c128 = arith.constant 128 : index
    %c512 = arith.constant 512 : index
    %bytes = arith.constant 1024 : i32
    %table = call @table() : () -> memref<8x4xbf16>
    %cos = call @rope.cos() : () -> memref<8x2xf32>
    %x = memref.view %arena[%c512][] : memref<1024xi8> to memref<4xf32>
    gpu.launch_func @kernels::@all blocks in (%c4, %c1, %c1) threads in (%c128, %c2, %c1) dynamic_shared_memory_size %bytes
      args(%ids : memref<1xi32>, %table : memref<8x4xbf16>, %cos : memref<8x2xf32>, %x : memref<4xf32>, %keys : memref<2x1x8x4xf32>, %values : memref<2x1x8x4xf32>, %logits : memref<1x8xf32>)
    return
  }
  gpu.module @kernels {
    gpu.func @all(%ids: memref<1xi32>, %table: memref<8x4xbf16>, %cos: memref<8x2xf32>, %x: memref<4xf32>, %keys: memref<2x1x8x4xf32>, %values: memref<2x1x8x4xf32>, %logits: memref<1x8xf32>) kernel {
      gpu.return
    }
  }
}

// -----

// Weights of a loop are layered, from the loop's first layer on, so many slots a
// turn. A layer outside is a slot.
// CHECK: decode = [{body = [{args = [{layered = true, weight = 4 : i64}, {layered = true, stride = 2 : i64, weight = 5 : i64}], {{.*}}launch = "layer", {{.*}}], loop = 3 : i64},
// CHECK-SAME: {body = [{args = [{layered = true, stride = 2 : i64, weight = 6 : i64}],{{.*}}launch = "odd", {{.*}}], loop = 2 : i64},
// CHECK-SAME: {args = [{weight = 7 : i64}],
module attributes {gpu.container_module} {
  func.func private @w(index) -> memref<4xf32> attributes {cria.weight = {slot = 4 : index, source = "w.{}"}}
  func.func @decode(%ids: memref<1xi32>, %tokens: index, %position: index, %first: index, %source: index, %logits: memref<1x8xf32>)
      attributes {cria.arguments = ["ids", "tokens", "position", "first", "source", "logits"], cria.chunk = 1 : index} {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c2 = arith.constant 2 : index
    %c3 = arith.constant 3 : index
    %c5 = arith.constant 5 : index
    scf.for %layer = %c0 to %c3 step %c1 {
      %second = affine.apply affine_map<(d0) -> (d0 * 2 + 1)>(%layer)
      %v = func.call @w(%layer) : (index) -> memref<4xf32>
      %w = func.call @w(%second) : (index) -> memref<4xf32>
      gpu.launch_func @kernels::@layer blocks in (%c1, %c1, %c1) threads in (%c1, %c1, %c1) args(%v : memref<4xf32>, %w : memref<4xf32>)
    }
    scf.for %layer = %c1 to %c5 step %c2 {
      %next = arith.addi %layer, %c1 : index
      %w = func.call @w(%next) : (index) -> memref<4xf32>
      gpu.launch_func @kernels::@odd blocks in (%c1, %c1, %c1) threads in (%c1, %c1, %c1) args(%w : memref<4xf32>)
    }
    %w = call @w(%c3) : (index) -> memref<4xf32>
    gpu.launch_func @kernels::@last blocks in (%c1, %c1, %c1) threads in (%c1, %c1, %c1) args(%w : memref<4xf32>)
    return
  }
  gpu.module @kernels {
    gpu.func @layer(%v: memref<4xf32>, %w: memref<4xf32>) kernel {
      gpu.return
    }
    gpu.func @odd(%w: memref<4xf32>) kernel {
      gpu.return
    }
    gpu.func @last(%w: memref<4xf32>) kernel {
      gpu.return
    }
  }
}

// -----

// Experts of a layer lie together, and have a slot each: a layer is so many slots.
// CHECK: decode = [{body = [{args = [{layered = true, stride = 8 : i64, weight = 4 : i64}], {{.*}}launch = "layer", {{.*}}], loop = 3 : i64}]
module attributes {gpu.container_module} {
  func.func private @w(index) -> memref<8x4x4xf32> attributes {cria.weight = {experts = 8 : index, slot = 4 : index, source = "w.{}.{}"}}
  func.func @decode(%ids: memref<1xi32>, %tokens: index, %position: index, %first: index, %source: index, %logits: memref<1x8xf32>)
      attributes {cria.arguments = ["ids", "tokens", "position", "first", "source", "logits"], cria.chunk = 1 : index} {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c3 = arith.constant 3 : index
    scf.for %layer = %c0 to %c3 step %c1 {
      %w = func.call @w(%layer) : (index) -> memref<8x4x4xf32>
      gpu.launch_func @kernels::@layer blocks in (%c1, %c1, %c1) threads in (%c1, %c1, %c1) args(%w : memref<8x4x4xf32>)
    }
    return
  }
  gpu.module @kernels {
    gpu.func @layer(%w: memref<8x4x4xf32>) kernel {
      gpu.return
    }
  }
}

// -----

// A layer of a cache begins so many bytes further each turn. A type that says
// the offset has its address where the offset counts from.
// CHECK: decode = [{body = [{args = [{cache = 0 : i64, layer_bytes = 64 : i64}, {cache = 1 : i64, layer_bytes = 64 : i64, offset = 64 : i64}],{{.*}}loop = 2 : i64},
// CHECK-SAME: {args = [{cache = 1 : i64, offset = 0 : i64}, {cache = 1 : i64, offset = 128 : i64}],
module attributes {gpu.container_module} {
  func.func @decode(%ids: memref<1xi32>, %tokens: index, %position: index, %first: index, %source: index, %logits: memref<1x8xf32>, %keys: memref<3x1x8x4xbf16>, %values: memref<3x1x8x4xbf16>)
      attributes {cria.arguments = ["ids", "tokens", "position", "first", "source", "logits", "cache", "cache"], cria.chunk = 1 : index} {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c2 = arith.constant 2 : index
    scf.for %layer = %c0 to %c2 step %c1 {
      %next = arith.addi %layer, %c1 : index
      %k = memref.subview %keys[%layer, 0, 0, 0] [1, 1, 8, 4] [1, 1, 1, 1] : memref<3x1x8x4xbf16> to memref<8x4xbf16, strided<[4, 1], offset: ?>>
      %v = memref.subview %values[%next, 0, 0, 0] [1, 1, 8, 4] [1, 1, 1, 1] : memref<3x1x8x4xbf16> to memref<8x4xbf16, strided<[4, 1], offset: ?>>
      gpu.launch_func @kernels::@layer blocks in (%c1, %c1, %c1) threads in (%c1, %c1, %c1) args(%k : memref<8x4xbf16, strided<[4, 1], offset: ?>>, %v : memref<8x4xbf16, strided<[4, 1], offset: ?>>)
    }
    %v = memref.subview %values[2, 0, 0, 0] [1, 1, 8, 4] [1, 1, 1, 1] : memref<3x1x8x4xbf16> to memref<8x4xbf16, strided<[4, 1], offset: 64>>
    %w = memref.cast %v : memref<8x4xbf16, strided<[4, 1], offset: 64>> to memref<8x4xbf16, strided<[4, 1], offset: ?>>
    gpu.launch_func @kernels::@last blocks in (%c1, %c1, %c1) threads in (%c1, %c1, %c1) args(%v : memref<8x4xbf16, strided<[4, 1], offset: 64>>, %w : memref<8x4xbf16, strided<[4, 1], offset: ?>>)
    return
  }
  gpu.module @kernels {
    gpu.func @layer(%k: memref<8x4xbf16, strided<[4, 1], offset: ?>>, %v: memref<8x4xbf16, strided<[4, 1], offset: ?>>) kernel {
      gpu.return
    }
    gpu.func @last(%v: memref<8x4xbf16, strided<[4, 1], offset: 64>>, %w: memref<8x4xbf16, strided<[4, 1], offset: ?>>) kernel {
      gpu.return
    }
  }
}

// -----

// Reshapes, casts and assumptions are the same place. A reinterpretation counts
// from where the view of the arena begins, whatever the subview before it says.
// CHECK: decode = [{args = [{arena = 65600 : i64}, {arena = 65600 : i64}, {arena = 65632 : i64}, {arena = 65608 : i64}],
module attributes {gpu.container_module} {
  func.func @decode(%ids: memref<1xi32>, %tokens: index, %position: index, %first: index, %source: index, %logits: memref<1x8xf32>, %arena: memref<256xi8>)
      attributes {cria.arguments = ["ids", "tokens", "position", "first", "source", "logits", "arena"], cria.chunk = 1 : index, cria.arena_bytes = 256 : index} {
    %c1 = arith.constant 1 : index
    %c2 = arith.constant 2 : index
    %c64 = arith.constant 64 : index
    %x = memref.view %arena[%c64][] : memref<256xi8> to memref<4x4xf32>
    %flat = memref.collapse_shape %x [[0, 1]] : memref<4x4xf32> into memref<16xf32>
    %aligned = memref.assume_alignment %flat, 64 : memref<16xf32>
    %tall = memref.expand_shape %aligned [[0, 1]] output_shape [8, 2] : memref<16xf32> into memref<8x2xf32>
    %row = memref.subview %x[2, 0] [1, 4] [1, 1] : memref<4x4xf32> to memref<4xf32, strided<[1], offset: 8>>
    %any = memref.cast %row : memref<4xf32, strided<[1], offset: 8>> to memref<4xf32, strided<[1], offset: ?>>
    %other = memref.reinterpret_cast %row to offset: [%c2], sizes: [4], strides: [1] : memref<4xf32, strided<[1], offset: 8>> to memref<4xf32, strided<[1], offset: ?>>
    gpu.launch_func @kernels::@k blocks in (%c1, %c1, %c1) threads in (%c1, %c1, %c1) args(%tall : memref<8x2xf32>, %flat : memref<16xf32>, %any : memref<4xf32, strided<[1], offset: ?>>, %other : memref<4xf32, strided<[1], offset: ?>>)
    return
  }
  gpu.module @kernels {
    gpu.func @k(%x: memref<8x2xf32>, %y: memref<16xf32>, %z: memref<4xf32, strided<[1], offset: ?>>, %w: memref<4xf32, strided<[1], offset: ?>>) kernel {
      gpu.return
    }
  }
}

// -----

// Numbers of the step are no parameters: the kernel reads them from its state,
// once each, and computes what the host computed. What is memory of the kernel
// stays behind the parameters.
// CHECK: decode = [{args = [{ids = 0 : i64}, {logits = 0 : i64}, {state = 0 : i64}],
// CHECK: gpu.func @k(%{{[^:]*}}: memref<1xi32>, %{{[^:]*}}: memref<1x8xf32> {llvm.noalias}, %[[STATE:.*]]: memref<80xi8>) workgroup(%[[SHARED:.*]] : memref<8xindex, #gpu.address_space<workgroup>>) kernel attributes {cria.given = array<i32: 2>, known_block_size = array<i32: 1, 1, 1>} {
// CHECK: %[[O4:.*]] = arith.constant 4 : index
// CHECK: %[[FIELD:.*]] = memref.view %[[STATE]][%[[O4]]][] : memref<80xi8> to memref<i32>
// CHECK: %[[LOADED:.*]] = memref.load %[[FIELD]][] : memref<i32>
// CHECK: %[[TOKENS:.*]] = arith.index_cast %[[LOADED]] : i32 to index
// CHECK: %[[O8:.*]] = arith.constant 8 : index
// CHECK: memref.view %[[STATE]][%[[O8]]][]
// CHECK: %[[FIRST:.*]] = arith.index_cast
// CHECK: %[[REST:.*]] = arith.subi %[[TOKENS]], %[[FIRST]] : index
// CHECK: %[[O0:.*]] = arith.constant 0 : index
// CHECK: memref.view %[[STATE]][%[[O0]]][]
// CHECK: %[[POSITION:.*]] = arith.index_cast
// CHECK: %[[NEXT:.*]] = affine.apply #{{.*}}()[%[[POSITION]]]
// CHECK: %[[O12:.*]] = arith.constant 12 : index
// CHECK: memref.view %[[STATE]][%[[O12]]][]
// CHECK: %[[SOURCE:.*]] = arith.index_cast
// CHECK: %[[HALF:.*]] = arith.constant 5.000000e-01 : f32
// CHECK-NOT: memref.view
// CHECK: memref.store %[[TOKENS]], %[[SHARED]][%[[REST]]]
// CHECK: memref.store %[[SOURCE]], %[[SHARED]][%[[NEXT]]]
// CHECK: memref.store %[[HALF]]
module attributes {gpu.container_module} {
  func.func @decode(%ids: memref<1xi32>, %tokens: index, %position: index, %first: index, %source: index, %logits: memref<1x8xf32>)
      attributes {cria.arguments = ["ids", "tokens", "position", "first", "source", "logits"], cria.chunk = 1 : index} {
    %c1 = arith.constant 1 : index
    %half = arith.constant 0.5 : f32
    %rest = arith.subi %tokens, %first : index
    %next = affine.apply affine_map<()[s0] -> (s0 + 1)>()[%position]
    gpu.launch_func @kernels::@k blocks in (%c1, %c1, %c1) threads in (%c1, %c1, %c1)
      args(%tokens : index, %ids : memref<1xi32>, %rest : index, %next : index, %logits : memref<1x8xf32>, %source : index, %half : f32)
    return
  }
  gpu.module @kernels {
    gpu.func @k(%tokens: index, %ids: memref<1xi32>, %rest: index, %next: index, %logits: memref<1x8xf32> {llvm.noalias}, %source: index, %half: f32) workgroup(%shared: memref<8xindex, #gpu.address_space<workgroup>>) kernel attributes {known_block_size = array<i32: 1, 1, 1>} {
      memref.store %tokens, %shared[%rest] : memref<8xindex, #gpu.address_space<workgroup>>
      memref.store %source, %shared[%next] : memref<8xindex, #gpu.address_space<workgroup>>
      memref.store %half, %logits[%rest, %next] : memref<1x8xf32>
      gpu.return
    }
  }
}

// -----

// A constant needs no state.
// CHECK: decode = [{args = [{logits = 0 : i64}],
// CHECK: gpu.func @k(%{{[^:]*}}: memref<1x8xf32>) kernel attributes {cria.given = array<i32>} {
// CHECK-NEXT: arith.constant 3 : index
module attributes {gpu.container_module} {
  func.func @decode(%ids: memref<1xi32>, %tokens: index, %position: index, %first: index, %source: index, %logits: memref<1x8xf32>)
      attributes {cria.arguments = ["ids", "tokens", "position", "first", "source", "logits"], cria.chunk = 1 : index} {
    %c1 = arith.constant 1 : index
    %c3 = arith.constant 3 : index
    gpu.launch_func @kernels::@k blocks in (%c1, %c1, %c1) threads in (%c1, %c1, %c1) args(%c3 : index, %logits : memref<1x8xf32>)
    return
  }
  gpu.module @kernels {
    gpu.func @k(%n: index, %logits: memref<1x8xf32>) kernel {
      gpu.return
    }
  }
}

// -----

// Grids grow with the tokens or the rows of logits, however the host writes it.
// CHECK: prefill = [{{{.*}}grid = [{tokens = 1 : i64}, {tokens = 64 : i64}, {tokens = 16 : i64}], launch = "a"
// CHECK-SAME: grid = [{logits = 1 : i64}, {logits = 64 : i64}, {logits = 16 : i64}], launch = "b"
// CHECK-SAME: grid = [{tokens = 8 : i64}, {logits = 8 : i64}, 6], launch = "c"
// They are some at least, and none where there are other numbers of tokens.
// CHECK-SAME: grid = [{to = 8 : i64, tokens = 16 : i64}, {from = 9 : i64, least = 3 : i64, tokens = 16 : i64}, {from = 8 : i64, logits = 16 : i64}], launch = "d"
module attributes {gpu.container_module} {
  func.func @prefill(%ids: memref<16xi32>, %tokens: index, %position: index, %first: index, %source: index, %logits: memref<16x8xf32>)
      attributes {cria.arguments = ["ids", "tokens", "position", "first", "source", "logits"], cria.chunk = 16 : index} {
    %c1 = arith.constant 1 : index
    %c2 = arith.constant 2 : index
    %c3 = arith.constant 3 : index
    %c7 = arith.constant 7 : index
    %c8 = arith.constant 8 : index
    %c16 = arith.constant 16 : index
    %t64 = affine.apply affine_map<()[s0] -> (s0 ceildiv 64)>()[%tokens]
    %t16 = arith.ceildivui %tokens, %c16 : index
    gpu.launch_func @kernels::@a blocks in (%tokens, %t64, %t16) threads in (%c1, %c1, %c1)
    %rows = arith.subi %tokens, %first : index
    %r64 = affine.apply affine_map<(d0)[s0] -> ((s0 - d0) ceildiv 64)>(%first)[%tokens]
    %r16 = arith.ceildivsi %rows, %c16 : index
    gpu.launch_func @kernels::@b blocks in (%rows, %r64, %r16) threads in (%c1, %c1, %c1)
    %padded = arith.addi %tokens, %c7 : index
    %t8 = arith.divui %padded, %c8 : index
    %r8 = affine.apply affine_map<()[s0, s1] -> ((s0 - s1 + 7) floordiv 8)>()[%tokens, %first]
    %six = arith.muli %c2, %c3 : index
    gpu.launch_func @kernels::@c blocks in (%t8, %r8, %six) threads in (%c1, %c1, %c1)
    %none = arith.constant 0 : index
    %few = arith.cmpi ule, %tokens, %c8 : index
    %fewRows = arith.cmpi ule, %rows, %c7 : index
    %least = arith.maxui %t16, %c3 : index
    %x = arith.select %few, %t16, %none : index
    %y = arith.select %few, %none, %least : index
    %z = arith.select %fewRows, %none, %r16 : index
    gpu.launch_func @kernels::@d blocks in (%x, %y, %z) threads in (%c1, %c1, %c1)
    return
  }
  gpu.module @kernels {
    gpu.func @a() kernel {
      gpu.return
    }
    gpu.func @b() kernel {
      gpu.return
    }
    gpu.func @c() kernel {
      gpu.return
    }
    gpu.func @d() kernel {
      gpu.return
    }
  }
}

// -----

// Rows of hidden states are counted on their own; their first is read of the state.
// CHECK: prefill = [{args = [{hidden = 0 : i64}, {state = 0 : i64}]
// CHECK-SAME: grid = [{hidden = 1 : i64}, {hidden = 64 : i64}, 1], launch = "k"
// CHECK: gpu.func @k(%{{.*}}: memref<16x4xf32>, %[[STATE:.*]]: memref<80xi8>)
// CHECK: %[[AT:.*]] = arith.constant 72 : index
// CHECK: memref.view %[[STATE]][%[[AT]]]
module attributes {gpu.container_module} {
  func.func @prefill(%ids: memref<16xi32>, %tokens: index, %position: index, %first: index, %first_hidden: index, %source: index, %logits: memref<16x8xf32>, %hidden: memref<16x4xf32>)
      attributes {cria.arguments = ["ids", "tokens", "position", "first", "first_hidden", "source", "logits", "hidden"], cria.chunk = 16 : index} {
    %c1 = arith.constant 1 : index
    %rows = arith.subi %tokens, %first_hidden : index
    %r64 = affine.apply affine_map<()[s0, s1] -> ((s0 - s1) ceildiv 64)>()[%tokens, %first_hidden]
    gpu.launch_func @kernels::@k blocks in (%rows, %r64, %c1) threads in (%c1, %c1, %c1)
        args(%first_hidden : index, %hidden : memref<16x4xf32>)
    return
  }
  gpu.module @kernels {
    gpu.func @k(%n: index, %hidden: memref<16x4xf32>) kernel {
      %x = arith.constant 1.0 : f32
      memref.store %x, %hidden[%n, %n] : memref<16x4xf32>
      gpu.return
    }
  }
}

// -----

// Globals of all entries have places of their own among the zeroed bytes; the
// entries' arenas are one, as large as the largest. `sample` is given ids seen,
// how to draw, and where the id goes.
// CHECK-NOT: memref.global
// CHECK: arena = 66048 : i64
// CHECK-SAME: decode = [{args = [{arena = 768 : i64}, {arena = 65536 : i64}],
// CHECK-SAME: sample = [{args = [{logits = 0 : i64}, {seen = 0 : i64}, {sampled = 0 : i64}, {sampling = 0 : i64}, {arena = 0 : i64}, {arena = 65536 : i64}],
// CHECK-SAME: workspace_zeroed = {bytes = 1024 : i64, offset = 0 : i64}
module attributes {gpu.container_module} {
  memref.global "private" @best : memref<65xi64> = dense<0>
  memref.global "private" @arrivals : memref<3xf32> = dense<0.0>
  func.func @decode(%ids: memref<1xi32>, %tokens: index, %position: index, %first: index, %source: index, %logits: memref<1x8xf32>, %arena: memref<512xi8>)
      attributes {cria.arguments = ["ids", "tokens", "position", "first", "source", "logits", "arena"], cria.chunk = 1 : index, cria.arena_bytes = 512 : index} {
    %c1 = arith.constant 1 : index
    %arrivals = memref.get_global @arrivals : memref<3xf32>
    gpu.launch_func @kernels::@step blocks in (%c1, %c1, %c1) threads in (%c1, %c1, %c1) args(%arrivals : memref<3xf32>, %arena : memref<512xi8>)
    return
  }
  func.func @sample(%logits: memref<1x8xf32>, %seen: memref<1x1xi32>, %sampled: memref<1x4xi32>, %sampling: memref<1x40xi8>, %arena: memref<256xi8>)
      attributes {cria.arguments = ["logits", "seen", "sampled", "sampling", "arena"], cria.arena_bytes = 256 : index} {
    %c1 = arith.constant 1 : index
    %best = memref.get_global @best : memref<65xi64>
    gpu.launch_func @kernels::@draw blocks in (%c1, %c1, %c1) threads in (%c1, %c1, %c1)
      args(%logits : memref<1x8xf32>, %seen : memref<1x1xi32>, %sampled : memref<1x4xi32>, %sampling : memref<1x40xi8>, %best : memref<65xi64>, %arena : memref<256xi8>)
    return
  }
  gpu.module @kernels {
    gpu.func @step(%arrivals: memref<3xf32>, %arena: memref<512xi8>) kernel {
      gpu.return
    }
    gpu.func @draw(%logits: memref<1x8xf32>, %seen: memref<1x1xi32>, %sampled: memref<1x4xi32>, %sampling: memref<1x40xi8>, %best: memref<65xi64>, %arena: memref<256xi8>) kernel {
      gpu.return
    }
  }
}

// -----

// A kernel that is launched twice becomes two, which compute their own numbers.
// CHECK: launch = "shared"
// CHECK-SAME: launch = "shared_0"
// CHECK: gpu.func @shared(%{{[^:]*}}: memref<1x8xf32>, %[[STATE:[^:]*]]: memref<80xi8>) kernel
// CHECK: memref.view %[[STATE]]
// CHECK: gpu.func @shared_0(%{{[^:]*}}: memref<1x8xf32>) kernel
// CHECK-NEXT: arith.constant 7 : index
module attributes {gpu.container_module} {
  func.func @decode(%ids: memref<1xi32>, %tokens: index, %position: index, %first: index, %source: index, %logits: memref<1x8xf32>)
      attributes {cria.arguments = ["ids", "tokens", "position", "first", "source", "logits"], cria.chunk = 1 : index} {
    %c1 = arith.constant 1 : index
    %c7 = arith.constant 7 : index
    gpu.launch_func @kernels::@shared blocks in (%c1, %c1, %c1) threads in (%c1, %c1, %c1) args(%logits : memref<1x8xf32>, %position : index)
    gpu.launch_func @kernels::@shared blocks in (%c1, %c1, %c1) threads in (%c1, %c1, %c1) args(%logits : memref<1x8xf32>, %c7 : index)
    return
  }
  gpu.module @kernels {
    gpu.func @shared(%x: memref<1x8xf32>, %n: index) kernel {
      %c0 = arith.constant 0 : index
      %cast = arith.index_cast %n : index to i32
      %value = arith.sitofp %cast : i32 to f32
      memref.store %value, %x[%c0, %n] : memref<1x8xf32>
      gpu.return
    }
  }
}

// -----

// A kernel computes its numbers at its begin, but behind a loop that carries
// sixteen values.
// CHECK: gpu.func @wide(%{{.*}}: memref<4xf32>, %[[STATE:.*]]: memref<80xi8>)
// CHECK-NOT: memref.view
// CHECK: scf.for
// CHECK: memref.view %[[STATE]]
module attributes {gpu.container_module} {
  func.func @decode(%ids: memref<1xi32>, %tokens: index, %position: index, %first: index, %source: index, %logits: memref<1x4xf32>)
      attributes {cria.arguments = ["ids", "tokens", "position", "first", "source", "logits"], cria.chunk = 1 : index} {
    %c1 = arith.constant 1 : index
    %row = memref.collapse_shape %logits [[0, 1]] : memref<1x4xf32> into memref<4xf32>
    gpu.launch_func @kernels::@wide blocks in (%c1, %c1, %c1) threads in (%c1, %c1, %c1) args(%row : memref<4xf32>, %position : index)
    return
  }
  gpu.module @kernels {
    gpu.func @wide(%x: memref<4xf32>, %position: index) kernel {
      %c0 = arith.constant 0 : index
      %c1 = arith.constant 1 : index
      %c4 = arith.constant 4 : index
      %zero = arith.constant 0.0 : f32
      %r:16 = scf.for %k = %c0 to %c4 step %c1
          iter_args(%a0 = %zero, %a1 = %zero, %a2 = %zero, %a3 = %zero, %a4 = %zero, %a5 = %zero, %a6 = %zero, %a7 = %zero, %a8 = %zero, %a9 = %zero, %a10 = %zero, %a11 = %zero, %a12 = %zero, %a13 = %zero, %a14 = %zero, %a15 = %zero)
          -> (f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32) {
        scf.yield %a0, %a1, %a2, %a3, %a4, %a5, %a6, %a7, %a8, %a9, %a10, %a11, %a12, %a13, %a14, %a15 : f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32
      }
      memref.store %r#0, %x[%position] : memref<4xf32>
      gpu.return
    }
  }
}

// -----

// A parameter is a weight if it is one in all launches of the kernel.
// CHECK: gpu.func @twice({{.*}}) kernel attributes {cria.given = array<i32: 0>}
module attributes {gpu.container_module} {
  func.func private @a() -> memref<4xf32> attributes {cria.weight = {slot = 2 : index, source = "a"}}
  func.func private @b() -> memref<4xf32> attributes {cria.weight = {slot = 3 : index, source = "b"}}
  func.func @decode(%ids: memref<1xi32>, %tokens: index, %position: index, %first: index, %source: index, %logits: memref<1x4xf32>)
      attributes {cria.arguments = ["ids", "tokens", "position", "first", "source", "logits"], cria.chunk = 1 : index} {
    %c1 = arith.constant 1 : index
    %a = call @a() : () -> memref<4xf32>
    %b = call @b() : () -> memref<4xf32>
    %row = memref.collapse_shape %logits [[0, 1]] : memref<1x4xf32> into memref<4xf32>
    gpu.launch_func @kernels::@twice blocks in (%c1, %c1, %c1) threads in (%c1, %c1, %c1) args(%a : memref<4xf32>, %row : memref<4xf32>)
    gpu.launch_func @kernels::@twice blocks in (%c1, %c1, %c1) threads in (%c1, %c1, %c1) args(%a : memref<4xf32>, %b : memref<4xf32>)
    return
  }
  gpu.module @kernels {
    gpu.func @twice(%x: memref<4xf32>, %y: memref<4xf32>) kernel {
      gpu.return
    }
  }
}

// -----

// What a kernel copies from in boxes has a tensor map, of its own layer in a loop.
// A kernel for some generations of chips is launched by images of these.
// CHECK: {args = [{arena = 65536 : i64, map = {box = [64, 128], dtype = "bf16", sizes = [8, 16], strides = [8]}}, {layered = true, map = {box = [64, 8], dtype = "f16", sizes = [8, 8], strides = [8]}, weight = 4 : i64}], {{.*}}generations = [2], {{.*}}launch = "boxes", {{.*}}}, {args = [], {{.*}}generations = [0, 1], {{.*}}launch = "other", {{.*}}}], loop = 2 : i64}
module attributes {gpu.container_module} {
  func.func private @w(index) -> memref<8x8xf16> attributes {cria.weight = {slot = 4 : index, source = "w.{}"}}
  func.func @decode(%ids: memref<1xi32>, %tokens: index, %position: index, %first: index, %source: index, %logits: memref<1x8xf32>, %arena: memref<1024xi8>)
      attributes {cria.arguments = ["ids", "tokens", "position", "first", "source", "logits", "arena"], cria.chunk = 1 : index, cria.arena_bytes = 1024 : index} {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c2 = arith.constant 2 : index
    %x = memref.view %arena[%c0][] : memref<1024xi8> to memref<16x8xbf16>
    scf.for %layer = %c0 to %c2 step %c1 {
      %w = func.call @w(%layer) : (index) -> memref<8x8xf16>
      gpu.launch_func @kernels::@boxes blocks in (%c1, %c1, %c1) threads in (%c1, %c1, %c1) args(%x : memref<16x8xbf16>, %w : memref<8x8xf16>)
      gpu.launch_func @kernels::@other blocks in (%c1, %c1, %c1) threads in (%c1, %c1, %c1)
    }
    return
  }
  gpu.module @kernels {
    gpu.func @boxes(%x: memref<16x8xbf16> {cria.tensor_map = {box = [64, 128], sizes = [8, 16], strides = [8]}}, %w: memref<8x8xf16> {cria.tensor_map = {box = [64, 8], sizes = [8, 8], strides = [8]}}) kernel attributes {cria.generations = [2]} {
      gpu.return
    }
    gpu.func @other() kernel attributes {cria.generations = [0, 1]} {
      gpu.return
    }
  }
}

// -----

// A sum over ranks is a step: of a constant number of elements, or of as many rows
// as the plan can say.
// CHECK: decode = [{all_reduce = {arena = 66048 : i64}, columns = 8 : i64, rows = 1 : i64}],
// CHECK-SAME: prefill = [{body = [{all_reduce = {arena = 65536 : i64}, columns = 8 : i64, rows = {tokens = 1 : i64}}], loop = 3 : i64}]}
// CHECK-NOT: mpi
module attributes {gpu.container_module} {
  func.func @decode(%ids: memref<1xi32>, %tokens: index, %position: index, %first: index, %source: index, %logits: memref<1x8xf32>, %arena: memref<1024xi8>)
      attributes {cria.arguments = ["ids", "tokens", "position", "first", "source", "logits", "arena"], cria.chunk = 1 : index, cria.arena_bytes = 1024 : index} {
    %c512 = arith.constant 512 : index
    %x = memref.view %arena[%c512][] : memref<1024xi8> to memref<1x8xf32>
    %flat = memref.collapse_shape %x [[0, 1]] : memref<1x8xf32> into memref<8xf32>
    %world = mpi.comm_world : !mpi.comm
    mpi.allreduce(%flat, %flat, MPI_SUM, %world) : memref<8xf32>, memref<8xf32>
    return
  }
  func.func @prefill(%ids: memref<4xi32>, %tokens: index, %position: index, %first: index, %source: index, %logits: memref<4x8xf32>, %arena: memref<1024xi8>)
      attributes {cria.arguments = ["ids", "tokens", "position", "first", "source", "logits", "arena"], cria.chunk = 4 : index, cria.arena_bytes = 1024 : index} {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c3 = arith.constant 3 : index
    %world = mpi.comm_world : !mpi.comm
    scf.for %layer = %c0 to %c3 step %c1 {
      %x = memref.view %arena[%c0][%tokens] : memref<1024xi8> to memref<?x8xf32>
      %flat = memref.collapse_shape %x [[0, 1]] : memref<?x8xf32> into memref<?xf32>
      mpi.allreduce(%flat, %flat, MPI_SUM, %world) : memref<?xf32>, memref<?xf32>
    }
    return
  }
  gpu.module @kernels {
  }
}
