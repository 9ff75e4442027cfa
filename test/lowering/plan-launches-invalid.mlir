// RUN: cria-opt --plan-launches --split-input-file --verify-diagnostics %s

// A kernel reads from a weight, a global or an argument,
module attributes {gpu.container_module} {
  func.func @decode(%ids: memref<1xi32>, %tokens: index, %position: index, %first: index, %source: index, %logits: memref<1x8xf32>, %cache: memref<2x1x8x4xf32>, %arena: memref<256xi8>)
      attributes {cria.arguments = ["ids", "tokens", "position", "first", "source", "logits", "cache", "arena"], cria.chunk = 1 : index} {
    %c1 = arith.constant 1 : index
    %x = memref.memory_space_cast %logits : memref<1x8xf32> to memref<1x8xf32, 1>
    // expected-error @below {{'gpu.launch_func' op expected argument 0 to lie in a weight, a global or an argument of the entry, got a result of 'memref.memory_space_cast'}}
    gpu.launch_func @kernels::@k blocks in (%c1, %c1, %c1) threads in (%c1, %c1, %c1) args(%x : memref<1x8xf32, 1>)
    return
  }
  gpu.module @kernels {
    gpu.func @k(%x: memref<1x8xf32, 1>) kernel {
      gpu.return
    }
  }
}

// -----

// at a place that the plan can say:
module attributes {gpu.container_module} {
  func.func @decode(%ids: memref<1xi32>, %tokens: index, %position: index, %first: index, %source: index, %logits: memref<1x8xf32>, %cache: memref<2x1x8x4xf32>, %arena: memref<256xi8>)
      attributes {cria.arguments = ["ids", "tokens", "position", "first", "source", "logits", "cache", "arena"], cria.chunk = 1 : index} {
    %c1 = arith.constant 1 : index
    %x = memref.subview %cache[%position, 0, 0, 0] [1, 1, 8, 4] [1, 1, 1, 1] : memref<2x1x8x4xf32> to memref<8x4xf32, strided<[4, 1], offset: ?>>
    // expected-error @below {{'gpu.launch_func' op expected argument 1 to begin at a constant, or at one that a loop between constants counts}}
    gpu.launch_func @kernels::@k blocks in (%c1, %c1, %c1) threads in (%c1, %c1, %c1) args(%ids : memref<1xi32>, %x : memref<8x4xf32, strided<[4, 1], offset: ?>>)
    return
  }
  gpu.module @kernels {
    gpu.func @k(%ids: memref<1xi32>, %x: memref<8x4xf32, strided<[4, 1], offset: ?>>) kernel {
      gpu.return
    }
  }
}

// -----

// a layer that exists,
module attributes {gpu.container_module} {
  func.func @decode(%ids: memref<1xi32>, %tokens: index, %position: index, %first: index, %source: index, %logits: memref<1x8xf32>, %cache: memref<2x1x8x4xf32>, %arena: memref<256xi8>)
      attributes {cria.arguments = ["ids", "tokens", "position", "first", "source", "logits", "cache", "arena"], cria.chunk = 1 : index} {
    %c1 = arith.constant 1 : index
    %c0 = arith.constant 0 : index
    %c3 = arith.constant 3 : index
    scf.for %layer = %c0 to %c3 step %c1 {
      %x = memref.subview %cache[%layer, 0, 0, 0] [1, 1, 8, 4] [1, 1, 1, 1] : memref<2x1x8x4xf32> to memref<8x4xf32, strided<[4, 1], offset: ?>>
      // expected-error @below {{'gpu.launch_func' op expected argument 0 to begin below byte 256 of its cache, got 256}}
      gpu.launch_func @kernels::@k blocks in (%c1, %c1, %c1) threads in (%c1, %c1, %c1) args(%x : memref<8x4xf32, strided<[4, 1], offset: ?>>)
    }
    return
  }
  gpu.module @kernels {
    gpu.func @k(%x: memref<8x4xf32, strided<[4, 1], offset: ?>>) kernel {
      gpu.return
    }
  }
}

// -----

// whose number fits,
module attributes {gpu.container_module} {
  func.func @decode(%ids: memref<1xi32>, %tokens: index, %position: index, %first: index, %source: index, %logits: memref<1x8xf32>, %cache: memref<2x1x8x4xf32>)
      attributes {cria.arguments = ["ids", "tokens", "position", "first", "source", "logits", "cache"], cria.chunk = 1 : index} {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %step = arith.constant 4611686018427387904 : index
    %end = arith.constant 9223372036854775807 : index
    scf.for %layer = %c0 to %end step %step {
      %x = memref.subview %cache[%layer, 0, 0, 0] [1, 1, 8, 4] [1, 1, 1, 1] : memref<2x1x8x4xf32> to memref<8x4xf32, strided<[4, 1], offset: ?>>
      // expected-error @below {{'gpu.launch_func' op expected argument 0 to begin at a constant, or at one that a loop between constants counts}}
      gpu.launch_func @kernels::@k blocks in (%c1, %c1, %c1) threads in (%c1, %c1, %c1) args(%x : memref<8x4xf32, strided<[4, 1], offset: ?>>)
    }
    return
  }
  gpu.module @kernels {
    gpu.func @k(%x: memref<8x4xf32, strided<[4, 1], offset: ?>>) kernel {
      gpu.return
    }
  }
}

// -----

// one place of the arena,
module attributes {gpu.container_module} {
  func.func @decode(%ids: memref<1xi32>, %tokens: index, %position: index, %first: index, %source: index, %logits: memref<1x8xf32>, %cache: memref<2x1x8x4xf32>, %arena: memref<256xi8>)
      attributes {cria.arguments = ["ids", "tokens", "position", "first", "source", "logits", "cache", "arena"], cria.chunk = 1 : index} {
    %c1 = arith.constant 1 : index
    %c0 = arith.constant 0 : index
    %c64 = arith.constant 64 : index
    scf.for %i = %c0 to %c64 step %c1 {
      %x = memref.view %arena[%i][] : memref<256xi8> to memref<4xf32>
      // expected-error @below {{'gpu.launch_func' op expected argument 0 to lie at one place of the arena in all turns}}
      gpu.launch_func @kernels::@k blocks in (%c1, %c1, %c1) threads in (%c1, %c1, %c1) args(%x : memref<4xf32>)
    }
    return
  }
  gpu.module @kernels {
    gpu.func @k(%x: memref<4xf32>) kernel {
      gpu.return
    }
  }
}

// -----

// and the whole of logits, or what a type says is behind their beginning.
module attributes {gpu.container_module} {
  func.func @decode(%ids: memref<1xi32>, %tokens: index, %position: index, %first: index, %source: index, %logits: memref<1x8xf32>, %cache: memref<2x1x8x4xf32>, %arena: memref<256xi8>)
      attributes {cria.arguments = ["ids", "tokens", "position", "first", "source", "logits", "cache", "arena"], cria.chunk = 1 : index} {
    %c1 = arith.constant 1 : index
    %c4 = arith.constant 4 : index
    %x = memref.subview %logits[0, %c4] [1, 4] [1, 1] : memref<1x8xf32> to memref<4xf32, strided<[1], offset: ?>>
    // expected-error @below {{'gpu.launch_func' op expected argument 0 to begin at byte 0 of 'logits'}}
    gpu.launch_func @kernels::@k blocks in (%c1, %c1, %c1) threads in (%c1, %c1, %c1) args(%x : memref<4xf32, strided<[1], offset: ?>>)
    return
  }
  gpu.module @kernels {
    gpu.func @k(%x: memref<4xf32, strided<[1], offset: ?>>) kernel {
      gpu.return
    }
  }
}

// -----

// Layers are constants or counted,
module attributes {gpu.container_module} {
  func.func private @w(index) -> memref<4xf32> attributes {cria.weight = {slot = 4 : index, source = "w.{}"}}
  func.func @decode(%ids: memref<1xi32>, %tokens: index, %position: index, %first: index, %source: index, %logits: memref<1x8xf32>, %cache: memref<2x1x8x4xf32>, %arena: memref<256xi8>)
      attributes {cria.arguments = ["ids", "tokens", "position", "first", "source", "logits", "cache", "arena"], cria.chunk = 1 : index} {
    %c1 = arith.constant 1 : index
    %x = call @w(%position) : (index) -> memref<4xf32>
    // expected-error @below {{'gpu.launch_func' op expected argument 0 to be of a constant layer, or one that a loop between constants counts}}
    gpu.launch_func @kernels::@k blocks in (%c1, %c1, %c1) threads in (%c1, %c1, %c1) args(%x : memref<4xf32>)
    return
  }
  gpu.module @kernels {
    gpu.func @k(%x: memref<4xf32>) kernel {
      gpu.return
    }
  }
}

// -----

// and loops carry nothing.
module attributes {gpu.container_module} {
  func.func @decode(%ids: memref<1xi32>, %tokens: index, %position: index, %first: index, %source: index, %logits: memref<1x8xf32>, %cache: memref<2x1x8x4xf32>, %arena: memref<256xi8>)
      attributes {cria.arguments = ["ids", "tokens", "position", "first", "source", "logits", "cache", "arena"], cria.chunk = 1 : index} {
    %c1 = arith.constant 1 : index
    %c0 = arith.constant 0 : index
    // expected-error @below {{'scf.for' op carries values; the cuda target supports loops that update memory alone}}
    %last = scf.for %i = %c0 to %c1 step %c1 iter_args(%x = %logits) -> memref<1x8xf32> {
      scf.yield %x : memref<1x8xf32>
    }
    return
  }
  gpu.module @kernels {
  }
}

// -----

// They have a constant number of turns,
module attributes {gpu.container_module} {
  func.func @decode(%ids: memref<1xi32>, %tokens: index, %position: index, %first: index, %source: index, %logits: memref<1x8xf32>, %cache: memref<2x1x8x4xf32>, %arena: memref<256xi8>)
      attributes {cria.arguments = ["ids", "tokens", "position", "first", "source", "logits", "cache", "arena"], cria.chunk = 1 : index} {
    %c1 = arith.constant 1 : index
    // expected-error @below {{'scf.for' op has no constant number of layers}}
    scf.for %i = %c1 to %tokens step %c1 {
    }
    return
  }
  gpu.module @kernels {
  }
}

// -----

// and are not in each other.
module attributes {gpu.container_module} {
  func.func @decode(%ids: memref<1xi32>, %tokens: index, %position: index, %first: index, %source: index, %logits: memref<1x8xf32>, %cache: memref<2x1x8x4xf32>, %arena: memref<256xi8>)
      attributes {cria.arguments = ["ids", "tokens", "position", "first", "source", "logits", "cache", "arena"], cria.chunk = 1 : index} {
    %c1 = arith.constant 1 : index
    %c4 = arith.constant 4 : index
    scf.for %i = %c1 to %c4 step %c1 {
      // expected-error @below {{'scf.for' op is inside another loop; the cuda target supports no nested loops}}
      scf.for %j = %c1 to %c4 step %c1 {
      }
    }
    return
  }
  gpu.module @kernels {
  }
}

// -----

// The step's state has no layer,
module attributes {gpu.container_module} {
  func.func @decode(%ids: memref<1xi32>, %tokens: index, %position: index, %first: index, %source: index, %logits: memref<1x8xf32>, %cache: memref<2x1x8x4xf32>, %arena: memref<256xi8>)
      attributes {cria.arguments = ["ids", "tokens", "position", "first", "source", "logits", "cache", "arena"], cria.chunk = 1 : index} {
    %c1 = arith.constant 1 : index
    %c4 = arith.constant 4 : index
    scf.for %i = %c1 to %c4 step %c1 {
      %next = arith.addi %i, %c1 : index
      // expected-error @below {{'gpu.launch_func' op expected argument 1 to be a memref, or to be computed from constants and the entry's tokens, position, first, first_hidden and source}}
      gpu.launch_func @kernels::@k blocks in (%c1, %c1, %c1) threads in (%c1, %c1, %c1) args(%tokens : index, %next : index)
    }
    return
  }
  gpu.module @kernels {
    gpu.func @k(%tokens: index, %layer: index) kernel {
      gpu.return
    }
  }
}

// -----

// and grids are of its tokens and logits,
module attributes {gpu.container_module} {
  func.func @decode(%ids: memref<1xi32>, %tokens: index, %position: index, %first: index, %source: index, %logits: memref<1x8xf32>, %cache: memref<2x1x8x4xf32>, %arena: memref<256xi8>)
      attributes {cria.arguments = ["ids", "tokens", "position", "first", "source", "logits", "cache", "arena"], cria.chunk = 1 : index} {
    %c1 = arith.constant 1 : index
    %x = arith.addi %tokens, %c1 : index
    // expected-error @below {{'gpu.launch_func' op expected dimension 1 of the grid to be a constant, or the entry's tokens, tokens - first or tokens - first_hidden, over a constant, rounded up; a least size, and a range of counts outside which it is 0, may come with it}}
    gpu.launch_func @kernels::@k blocks in (%tokens, %x, %c1) threads in (%c1, %c1, %c1)
    return
  }
  gpu.module @kernels {
    gpu.func @k() kernel {
      gpu.return
    }
  }
}

// -----

// chosen by their own number,
module attributes {gpu.container_module} {
  func.func @decode(%ids: memref<1xi32>, %tokens: index, %position: index, %first: index, %source: index, %logits: memref<1x8xf32>, %cache: memref<2x1x8x4xf32>, %arena: memref<256xi8>)
      attributes {cria.arguments = ["ids", "tokens", "position", "first", "source", "logits", "cache", "arena"], cria.chunk = 1 : index} {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c8 = arith.constant 8 : index
    %rows = arith.subi %tokens, %first : index
    %few = arith.cmpi ule, %tokens, %c8 : index
    %x = arith.select %few, %rows, %c0 : index
    // expected-error @below {{'gpu.launch_func' op expected dimension 0 of the grid to be a constant, or the entry's tokens}}
    gpu.launch_func @kernels::@k blocks in (%x, %c1, %c1) threads in (%c1, %c1, %c1)
    return
  }
  gpu.module @kernels {
    gpu.func @k() kernel {
      gpu.return
    }
  }
}

// -----

// rounded up.
module attributes {gpu.container_module} {
  func.func @decode(%ids: memref<1xi32>, %tokens: index, %position: index, %first: index, %source: index, %logits: memref<1x8xf32>, %cache: memref<2x1x8x4xf32>, %arena: memref<256xi8>)
      attributes {cria.arguments = ["ids", "tokens", "position", "first", "source", "logits", "cache", "arena"], cria.chunk = 1 : index} {
    %c1 = arith.constant 1 : index
    %c8 = arith.constant 8 : index
    %x = arith.divui %tokens, %c8 : index
    // expected-error @below {{'gpu.launch_func' op expected dimension 0 of the grid to be a constant, or the entry's tokens, tokens - first or tokens - first_hidden, over a constant, rounded up; a least size, and a range of counts outside which it is 0, may come with it}}
    gpu.launch_func @kernels::@k blocks in (%x, %c1, %c1) threads in (%c1, %c1, %c1)
    return
  }
  gpu.module @kernels {
    gpu.func @k() kernel {
      gpu.return
    }
  }
}

// -----

// A kernel is for generations of chips that there are.
module attributes {gpu.container_module} {
  func.func @decode(%ids: memref<1xi32>, %tokens: index, %position: index, %first: index, %source: index, %logits: memref<1x8xf32>, %cache: memref<2x1x8x4xf32>, %arena: memref<256xi8>)
      attributes {cria.arguments = ["ids", "tokens", "position", "first", "source", "logits", "cache", "arena"], cria.chunk = 1 : index} {
    %c1 = arith.constant 1 : index
    // expected-error @below {{'gpu.launch_func' op expected `cria.generations` of its kernel to be numbers below 3, one after the other, got [2, 3]}}
    gpu.launch_func @kernels::@k blocks in (%c1, %c1, %c1) threads in (%c1, %c1, %c1)
    return
  }
  gpu.module @kernels {
    gpu.func @k() kernel attributes {cria.generations = [2, 3]} {
      gpu.return
    }
  }
}

// -----

// Blocks are constant
module attributes {gpu.container_module} {
  func.func @decode(%ids: memref<1xi32>, %tokens: index, %position: index, %first: index, %source: index, %logits: memref<1x8xf32>, %cache: memref<2x1x8x4xf32>, %arena: memref<256xi8>)
      attributes {cria.arguments = ["ids", "tokens", "position", "first", "source", "logits", "cache", "arena"], cria.chunk = 1 : index} {
    %c1 = arith.constant 1 : index
    // expected-error @below {{'gpu.launch_func' op expected blocks of a constant number of threads, at most 1024}}
    gpu.launch_func @kernels::@k blocks in (%c1, %c1, %c1) threads in (%tokens, %c1, %c1)
    return
  }
  gpu.module @kernels {
    gpu.func @k() kernel {
      gpu.return
    }
  }
}

// -----

// and those that the kernel is made for;
module attributes {gpu.container_module} {
  func.func @sample(%logits: memref<1x8xf32>, %seen: memref<1x1xi32>, %sampled: memref<1x4xi32>, %sampling: memref<1x40xi8>)
      attributes {cria.arguments = ["logits", "seen", "sampled", "sampling"]} {
    %c1 = arith.constant 1 : index
    %c64 = arith.constant 64 : index
    // expected-error @below {{'gpu.launch_func' op expected blocks of [128, 1, 1] threads as its kernel says, got [64, 1, 1]}}
    gpu.launch_func @kernels::@k blocks in (%c1, %c1, %c1) threads in (%c64, %c1, %c1)
    return
  }
  gpu.module @kernels {
    gpu.func @k() kernel attributes {known_block_size = array<i32: 128, 1, 1>} {
      gpu.return
    }
  }
}

// -----

// a grid is made of whole clusters, where the kernel has them;
module attributes {gpu.container_module} {
  func.func @sample(%logits: memref<1x8xf32>, %seen: memref<1x1xi32>, %sampled: memref<1x4xi32>, %sampling: memref<1x40xi8>)
      attributes {cria.arguments = ["logits", "seen", "sampled", "sampling"]} {
    %c1 = arith.constant 1 : index
    %c3 = arith.constant 3 : index
    // expected-error @below {{'gpu.launch_func' op expected dimension 1 of the grid to be a multiple of 2, as clusters of its kernel are, got 3}}
    gpu.launch_func @kernels::@k blocks in (%c1, %c3, %c1) threads in (%c1, %c1, %c1)
    return
  }
  gpu.module @kernels {
    gpu.func @k() kernel attributes {known_cluster_size = array<i32: 1, 2, 1>} {
      gpu.return
    }
  }
}

// -----

// shared memory is constant.
module attributes {gpu.container_module} {
  func.func @decode(%ids: memref<1xi32>, %tokens: index, %position: index, %first: index, %source: index, %logits: memref<1x8xf32>, %cache: memref<2x1x8x4xf32>, %arena: memref<256xi8>)
      attributes {cria.arguments = ["ids", "tokens", "position", "first", "source", "logits", "cache", "arena"], cria.chunk = 1 : index} {
    %c1 = arith.constant 1 : index
    %bytes = arith.index_cast %tokens : index to i32
    // expected-error @below {{'gpu.launch_func' op expected a constant size of shared memory}}
    gpu.launch_func @kernels::@k blocks in (%c1, %c1, %c1) threads in (%c1, %c1, %c1) dynamic_shared_memory_size %bytes
    return
  }
  gpu.module @kernels {
    gpu.func @k() kernel {
      gpu.return
    }
  }
}

// -----

// Launches have an order already.
module attributes {gpu.container_module} {
  func.func @decode(%ids: memref<1xi32>, %tokens: index, %position: index, %first: index, %source: index, %logits: memref<1x8xf32>, %cache: memref<2x1x8x4xf32>, %arena: memref<256xi8>)
      attributes {cria.arguments = ["ids", "tokens", "position", "first", "source", "logits", "cache", "arena"], cria.chunk = 1 : index} {
    %c1 = arith.constant 1 : index
    // expected-error @below {{'gpu.launch_func' op expected a launch without tokens, streams and clusters: launches run one after the other}}
    %done = gpu.launch_func async @kernels::@k blocks in (%c1, %c1, %c1) threads in (%c1, %c1, %c1)
    return
  }
  gpu.module @kernels {
    gpu.func @k() kernel {
      gpu.return
    }
  }
}

// -----

// No op runs on the host,
module attributes {gpu.container_module} {
  func.func @decode(%ids: memref<1xi32>, %tokens: index, %position: index, %first: index, %source: index, %logits: memref<1x8xf32>, %cache: memref<2x1x8x4xf32>, %arena: memref<256xi8>)
      attributes {cria.arguments = ["ids", "tokens", "position", "first", "source", "logits", "cache", "arena"], cria.chunk = 1 : index} {
    %c1 = arith.constant 1 : index
    %c0 = arith.constant 0 : index
    // expected-error @below {{'memref.load' op cannot run on the host: the cuda target launches kernels, takes sums over ranks, and nothing else}}
    %x = memref.load %ids[%c0] : memref<1xi32>
    return
  }
  gpu.module @kernels {
  }
}

// -----

// and no function but the entries.
module attributes {gpu.container_module} {
  func.func private @other()
  func.func @decode(%ids: memref<1xi32>, %tokens: index, %position: index, %first: index, %source: index, %logits: memref<1x8xf32>, %cache: memref<2x1x8x4xf32>, %arena: memref<256xi8>)
      attributes {cria.arguments = ["ids", "tokens", "position", "first", "source", "logits", "cache", "arena"], cria.chunk = 1 : index} {
    %c1 = arith.constant 1 : index
    // expected-error @below {{'func.call' op cannot run on the host: the cuda target launches kernels, takes sums over ranks, and nothing else}}
    call @other() : ()  -> ()
    return
  }
  gpu.module @kernels {
  }
}

// -----

// Globals are zeros,
module attributes {gpu.container_module} {
  // expected-error @below {{'memref.global' op expected zeros: the arena has no other values when a session begins}}
  memref.global "private" @one : memref<4xi32> = dense<[0, 0, 1, 0]>
  gpu.module @kernels {
  }
}

// -----

// that fit into the zeroed bytes.
module attributes {gpu.container_module} {
  memref.global "private" @one : memref<16320xi32> = dense<0>
  // expected-error @below {{'memref.global' op expected at most 65536 bytes of globals, got 65792}}
  memref.global "private" @two : memref<65xi32> = dense<0>
  gpu.module @kernels {
  }
}

// -----

// Kernels are in one module.
// expected-error @below {{expected one gpu.module, got 0}}
module {
}

// -----

// Kernels are functions of the gpu dialect.
module attributes {gpu.container_module} {
  func.func @decode(%ids: memref<1xi32>, %tokens: index, %position: index, %first: index, %source: index, %logits: memref<1x8xf32>, %cache: memref<2x1x8x4xf32>, %arena: memref<256xi8>)
      attributes {cria.arguments = ["ids", "tokens", "position", "first", "source", "logits", "cache", "arena"], cria.chunk = 1 : index} {
    %c1 = arith.constant 1 : index
    // expected-error @below {{expected a kernel that is a gpu.func, got @kernels::@k}}
    gpu.launch_func @kernels::@k blocks in (%c1, %c1, %c1) threads in (%c1, %c1, %c1)
    return
  }
  gpu.module @kernels {
    llvm.func @k() attributes {gpu.kernel} {
      llvm.return
    }
  }
}

// -----

// Arguments of entries are contiguous,
module attributes {gpu.container_module} {
  // expected-error @below {{'func.func' op expected contiguous arguments, got 'memref<1x8xf32, strided<[8, 1], offset: ?>>'}}
  func.func @sample(%logits: memref<1x8xf32, strided<[8, 1], offset: ?>>, %seen: memref<1x1xi32>, %sampled: memref<1x4xi32>, %sampling: memref<1x40xi8>)
      attributes {cria.arguments = ["logits", "seen", "sampled", "sampling"]} {
    return
  }
  gpu.module @kernels {
  }
}

// -----

// and entries have no branches.
module attributes {gpu.container_module} {
  // expected-error @below {{'func.func' op expected one block}}
  func.func @sample(%logits: memref<1x8xf32>, %seen: memref<1x1xi32>, %sampled: memref<1x4xi32>, %sampling: memref<1x40xi8>)
      attributes {cria.arguments = ["logits", "seen", "sampled", "sampling"]} {
    cf.br ^end
  ^end:
    return
  }
  gpu.module @kernels {
  }
}

// -----

// An entry is one.
module attributes {gpu.container_module} {
  // expected-error @below {{expected the attribute 'cria.arguments' with a name for each of 0 arguments}}
  func.func @decode() {
    return
  }
  gpu.module @kernels {
  }
}

// -----

// A sum over ranks is of floats in the arena, in their place,
module attributes {gpu.container_module} {
  func.func @decode(%ids: memref<1xi32>, %tokens: index, %position: index, %first: index, %source: index, %logits: memref<1x8xf32>, %arena: memref<256xi8>)
      attributes {cria.arguments = ["ids", "tokens", "position", "first", "source", "logits", "arena"], cria.chunk = 1 : index} {
    %c0 = arith.constant 0 : index
    %x = memref.view %arena[%c0][] : memref<256xi8> to memref<8xf32>
    %world = mpi.comm_world : !mpi.comm
    // expected-error @below {{'mpi.allreduce' op expected an in-place sum of memref<?xf32>}}
    mpi.allreduce(%x, %x, MPI_MAX, %world) : memref<8xf32>, memref<8xf32>
    return
  }
  gpu.module @kernels {
  }
}

// -----

// and of rows that the plan can say.
module attributes {gpu.container_module} {
  func.func @decode(%ids: memref<1xi32>, %tokens: index, %position: index, %first: index, %source: index, %logits: memref<1x8xf32>, %arena: memref<256xi8>)
      attributes {cria.arguments = ["ids", "tokens", "position", "first", "source", "logits", "arena"], cria.chunk = 1 : index} {
    %c0 = arith.constant 0 : index
    %x = memref.view %arena[%c0][%position] : memref<256xi8> to memref<?x8xf32>
    %flat = memref.collapse_shape %x [[0, 1]] : memref<?x8xf32> into memref<?xf32>
    %world = mpi.comm_world : !mpi.comm
    // expected-error @below {{'mpi.allreduce' op expected rows of a constant number of elements in the arena: as many as the plan can say}}
    mpi.allreduce(%flat, %flat, MPI_SUM, %world) : memref<?xf32>, memref<?xf32>
    return
  }
  gpu.module @kernels {
  }
}

// -----

module attributes {gpu.container_module} {
  // expected-error @below {{expected an entry on memrefs, got}}
  func.func @decode(%ids: tensor<1xi32>, %tokens: index, %position: index, %first: index, %source: index, %logits: tensor<1x8xf32>)
      attributes {cria.arguments = ["ids", "tokens", "position", "first", "source", "logits"], cria.chunk = 1 : index} {
    return
  }
  gpu.module @kernels {
  }
}
