// RUN: cria-opt %s --lower-linalg-to-launches --split-input-file --verify-diagnostics

func.func @size(%ids: memref<1xi32>, %n: index, %position: index, %first: index, %source: index, %logits: memref<1x4xf32>)
    attributes {cria.arguments = ["ids", "tokens", "position", "first", "source", "logits"], cria.chunk = 1 : index} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %zero = arith.constant 0.0 : f32
  scf.for %i = %c0 to %position step %c1 {
    // expected-error @below {{expected sizes with a constant bound, or numbers of tokens, got 'memref<?xf32>'}}
    %buffer = memref.alloc(%i) : memref<?xf32>
    linalg.fill ins(%zero : f32) outs(%buffer : memref<?xf32>)
  }
  return
}

// -----

module attributes {gpu.container_module} {
  func.func @buffer(%ids: memref<1xi32>, %n: index, %position: index, %first: index, %source: index, %logits: memref<1x4xf32>)
      attributes {cria.arguments = ["ids", "tokens", "position", "first", "source", "logits"], cria.chunk = 1 : index} {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %zero = arith.constant 0.0 : f32
    %buffer = memref.alloc() : memref<1x4xf32>
    %is = arith.cmpi eq, %position, %c1 : index
    %either = scf.if %is -> (memref<1x4xf32>) {
      memref.store %zero, %buffer[%c0, %c0] : memref<1x4xf32>
      scf.yield %buffer : memref<1x4xf32>
    } else {
      scf.yield %logits : memref<1x4xf32>
    }
    // expected-error @below {{'gpu.launch_func' op cannot use the result of 'scf.if', which one thread computes}}
    gpu.launch_func @kernels::@k blocks in (%c1, %c1, %c1) threads in (%c1, %c1, %c1) args(%either : memref<1x4xf32>)
    return
  }

  gpu.module @kernels {
    gpu.func @k(%x: memref<1x4xf32>) kernel {
      gpu.return
    }
  }
}

// -----

// The kernel @k computes with the number of the turn.
module attributes {gpu.container_module} {
  func.func @layers(%ids: memref<1xi32>, %n: index, %position: index, %first: index, %source: index, %logits: memref<1x4xf32>)
      attributes {cria.arguments = ["ids", "tokens", "position", "first", "source", "logits"], cria.chunk = 1 : index} {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %many = arith.constant 4611686018427387904 : index
    %x = memref.alloc() : memref<4xindex>
    // expected-error @below {{'scf.for' op expected a constant number of layers, of up to 1048576 ops together}}
    scf.for %layer = %c0 to %many step %c1 {
      linalg.fill ins(%layer : index) outs(%x : memref<4xindex>)
      gpu.launch_func @kernels::@k blocks in (%c1, %c1, %c1) threads in (%c1, %c1, %c1) args(%x : memref<4xindex>)
    }
    return
  }

  gpu.module @kernels {
    gpu.func @k(%x: memref<4xindex>) kernel {
      gpu.return
    }
  }
}
