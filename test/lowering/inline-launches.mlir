// RUN: cria-opt %s --inline-launches --split-input-file --verify-diagnostics=only-expected --remarks-filter=inline-launches | FileCheck %s

// A kernel that has launches becomes those. Results are the arguments that they
// are in the kernel.
// CHECK-LABEL: module @launched
// CHECK-NOT: @k(
// CHECK-NOT: .launch
// CHECK: func.func private @w() -> memref<4xf32>
// CHECK: func.func @decode(
// CHECK-SAME: %[[LOGITS:[^:]*]]: memref<1x4xf32>)
// CHECK: gpu.launch_func @kernels::@k_0 {{.*}} args(%[[LOGITS]] : memref<1x4xf32>)
// CHECK-NEXT: memref.dealloc %[[LOGITS]]
// CHECK-NEXT: return
module @launched attributes {gpu.container_module} {
  func.func private @w() -> memref<4xf32> attributes {cria.weight = {slot = 0 : index}}
  func.func private @k(%x: memref<1x4xf32>) -> memref<1x4xf32> {
    linalg.exp ins(%x : memref<1x4xf32>) outs(%x : memref<1x4xf32>)
    return %x : memref<1x4xf32>
  }
  func.func private @k.launch(%x: memref<1x4xf32>) {
    %c1 = arith.constant 1 : index
    gpu.launch_func @kernels::@k_0 blocks in (%c1, %c1, %c1) threads in (%c1, %c1, %c1) args(%x : memref<1x4xf32>)
    return
  }
  func.func @decode(%ids: memref<1xi32>, %tokens: index, %position: index, %first: index, %source: index, %logits: memref<1x4xf32>)
      attributes {cria.arguments = ["ids", "tokens", "position", "first", "source", "logits"], cria.chunk = 1 : index} {
    %y = call @k(%logits) : (memref<1x4xf32>) -> memref<1x4xf32>
    memref.dealloc %y : memref<1x4xf32>
    return
  }
  gpu.module @kernels {
    gpu.func @k_0(%x: memref<1x4xf32>) kernel {
      gpu.return
    }
  }
}

// -----

// One that has none is put into the entry, and its ops say which it was; also
// where another calls it.
// CHECK-LABEL: module @plain
// CHECK-NOT: func.func private
// CHECK: scf.for
// CHECK-NEXT: linalg.exp {cria.kernel = "inner"} ins(%[[X:.*]] : memref<4xf32>) outs(%[[X]] : memref<4xf32>)
// CHECK-NEXT: linalg.log {cria.kernel = "outer"}
// CHECK-NEXT: }
// CHECK-NEXT: return
module @plain {
  func.func private @inner(%x: memref<4xf32>) {
    linalg.exp ins(%x : memref<4xf32>) outs(%x : memref<4xf32>)
    return
  }
  func.func private @outer(%x: memref<4xf32>) {
    func.call @inner(%x) : (memref<4xf32>) -> ()
    linalg.log ins(%x : memref<4xf32>) outs(%x : memref<4xf32>)
    return
  }
  func.func @decode(%ids: memref<1xi32>, %tokens: index, %position: index, %first: index, %source: index, %logits: memref<1x4xf32>)
      attributes {cria.arguments = ["ids", "tokens", "position", "first", "source", "logits"], cria.chunk = 1 : index} {
    %c0 = arith.constant 0 : index
    %x = memref.alloc() : memref<4xf32>
    %c1 = arith.constant 1 : index
    scf.for %i = %c0 to %position step %c1 {
      func.call @outer(%x) : (memref<4xf32>) -> ()
    }
    return
  }
}

// -----

// The size of a buffer is what the kernel is called with: the plan knows it.
// CHECK-LABEL: module @sizes
// CHECK: func.func @decode({{[^,]*}}, %[[N:[^:]*]]: index,
// CHECK-NOT: memref.dim
// CHECK: gpu.launch_func @kernels::@k_0 blocks in (%[[N]],
module @sizes attributes {gpu.container_module} {
  func.func private @k(%x: memref<?xf32>) {
    return
  }
  func.func private @k.launch(%x: memref<?xf32>) {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %n = memref.dim %x, %c0 : memref<?xf32>
    gpu.launch_func @kernels::@k_0 blocks in (%n, %c1, %c1) threads in (%c1, %c1, %c1) args(%x : memref<?xf32>)
    return
  }
  func.func @decode(%ids: memref<1xi32>, %tokens: index, %position: index, %first: index, %source: index, %logits: memref<1x4xf32>)
      attributes {cria.arguments = ["ids", "tokens", "position", "first", "source", "logits"], cria.chunk = 1 : index} {
    %x = memref.alloc(%tokens) : memref<?xf32>
    call @k(%x) : (memref<?xf32>) -> ()
    return
  }
  gpu.module @kernels {
    gpu.func @k_0(%x: memref<?xf32>) kernel {
      gpu.return
    }
  }
}

// -----

// What the plan cannot launch is not launched: a grid of a size that it cannot
// say, or a kernel of a number that is in memory.
// CHECK-LABEL: module @unplanned
// CHECK: func.func @decode(
// CHECK: %[[HALF:.*]] = arith.divui
// CHECK-NOT: gpu.launch_func
// CHECK: linalg.fill {cria.kernel = "k"}
// CHECK-NOT: gpu.launch_func
// CHECK: linalg.fill {cria.kernel = "other"}
module @unplanned attributes {gpu.container_module} {
  func.func private @k(%x: memref<1x4xf32>, %n: index) {
    %zero = arith.constant 0.0 : f32
    linalg.fill ins(%zero : f32) outs(%x : memref<1x4xf32>)
    return
  }
  func.func private @k.launch(%x: memref<1x4xf32>, %n: index) {
    %c1 = arith.constant 1 : index
    // expected-remark @below {{its grid is no number that the plan can say}}
    gpu.launch_func @kernels::@k_0 blocks in (%n, %c1, %c1) threads in (%c1, %c1, %c1) args(%x : memref<1x4xf32>)
    return
  }
  func.func private @other(%x: memref<1x4xf32>, %n: index) {
    %zero = arith.constant 0.0 : f32
    linalg.fill ins(%zero : f32) outs(%x : memref<1x4xf32>)
    return
  }
  func.func private @other.launch(%x: memref<1x4xf32>, %n: index) {
    %c1 = arith.constant 1 : index
    // expected-remark @below {{it takes a number that a kernel cannot compute}}
    gpu.launch_func @kernels::@other_0 blocks in (%c1, %c1, %c1) threads in (%c1, %c1, %c1) args(%x : memref<1x4xf32>, %n : index)
    return
  }
  func.func @decode(%ids: memref<1xi32>, %tokens: index, %position: index, %first: index, %source: index, %logits: memref<1x4xf32>)
      attributes {cria.arguments = ["ids", "tokens", "position", "first", "source", "logits"], cria.chunk = 1 : index} {
    %c0 = arith.constant 0 : index
    %c2 = arith.constant 2 : index
    %half = arith.divui %position, %c2 : index
    call @k(%logits, %half) : (memref<1x4xf32>, index) -> ()
    %id = memref.load %ids[%c0] : memref<1xi32>
    %n = arith.index_cast %id : i32 to index
    call @other(%logits, %n) : (memref<1x4xf32>, index) -> ()
    return
  }
  gpu.module @kernels {
    gpu.func @k_0(%x: memref<1x4xf32>) kernel {
      gpu.return
    }
    gpu.func @other_0(%x: memref<1x4xf32>, %n: index) kernel {
      gpu.return
    }
  }
}

// -----

// Nor what a branch or an inner loop runs, or what takes memory that these choose.
// CHECK-LABEL: module @branches
// CHECK: %[[EITHER:.*]] = scf.if
// CHECK-NOT: gpu.launch_func
// CHECK: linalg.fill {cria.kernel = "k"}
// CHECK: linalg.fill {cria.kernel = "k"} ins(%{{.*}}) outs(%[[EITHER]] :
// CHECK: scf.for
// CHECK: gpu.launch_func
// CHECK: scf.for
// CHECK-NOT: gpu.launch_func
// CHECK: linalg.fill {cria.kernel = "k"}
module @branches attributes {gpu.container_module} {
  func.func private @k(%x: memref<1x4xf32>) {
    %zero = arith.constant 0.0 : f32
    linalg.fill ins(%zero : f32) outs(%x : memref<1x4xf32>)
    return
  }
  func.func private @k.launch(%x: memref<1x4xf32>) {
    %c1 = arith.constant 1 : index
    // expected-remark @below 2 {{it is in a branch, or in a loop other than one of layers}}
    // expected-remark @below {{it takes memory that other code chooses}}
    gpu.launch_func @kernels::@k_0 blocks in (%c1, %c1, %c1) threads in (%c1, %c1, %c1) args(%x : memref<1x4xf32>)
    return
  }
  func.func @decode(%ids: memref<1xi32>, %tokens: index, %position: index, %first: index, %source: index, %logits: memref<1x4xf32>)
      attributes {cria.arguments = ["ids", "tokens", "position", "first", "source", "logits"], cria.chunk = 1 : index} {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c2 = arith.constant 2 : index
    %x = memref.alloc() : memref<1x4xf32>
    %is = arith.cmpi eq, %position, %c1 : index
    %either = scf.if %is -> (memref<1x4xf32>) {
      func.call @k(%x) : (memref<1x4xf32>) -> ()
      scf.yield %x : memref<1x4xf32>
    } else {
      scf.yield %logits : memref<1x4xf32>
    }
    call @k(%either) : (memref<1x4xf32>) -> ()
    scf.for %layer = %c0 to %c2 step %c1 {
      func.call @k(%x) : (memref<1x4xf32>) -> ()
      scf.for %i = %c0 to %c2 step %c1 {
        func.call @k(%x) : (memref<1x4xf32>) -> ()
      }
    }
    return
  }
  gpu.module @kernels {
    gpu.func @k_0(%x: memref<1x4xf32>) kernel {
      gpu.return
    }
  }
}

// -----

func.func private @k(%x: memref<4xf32>) {
  return
}
// expected-error @below {{'func.func' op expected one block with the kernel's arguments and without results}}
func.func private @k.launch(%x: memref<?xf32>) {
  return
}
func.func @decode(%ids: memref<1xi32>, %tokens: index, %position: index, %first: index, %source: index, %logits: memref<1x4xf32>)
    attributes {cria.arguments = ["ids", "tokens", "position", "first", "source", "logits"], cria.chunk = 1 : index} {
  %x = memref.alloc() : memref<4xf32>
  // expected-note @below {{it is called here}}
  call @k(%x) : (memref<4xf32>) -> ()
  return
}

// -----

func.func private @k(%x: memref<4xf32>) -> memref<4xf32> {
  %y = memref.alloc() : memref<4xf32>
  return %y : memref<4xf32>
}
func.func private @k.launch(%x: memref<4xf32>) {
  return
}
func.func @decode(%ids: memref<1xi32>, %tokens: index, %position: index, %first: index, %source: index, %logits: memref<1x4xf32>)
    attributes {cria.arguments = ["ids", "tokens", "position", "first", "source", "logits"], cria.chunk = 1 : index} {
  %x = memref.alloc() : memref<4xf32>
  // expected-error @below {{'func.call' op expected result 0 of a kernel that is launched to be an argument}}
  %y = call @k(%x) : (memref<4xf32>) -> memref<4xf32>
  memref.dealloc %y : memref<4xf32>
  return
}

// -----

func.func private @k(%x: memref<1x4xf32>) {
  func.call @k(%x) : (memref<1x4xf32>) -> ()
  return
}
func.func @decode(%ids: memref<1xi32>, %tokens: index, %position: index, %first: index, %source: index, %logits: memref<1x4xf32>)
    attributes {cria.arguments = ["ids", "tokens", "position", "first", "source", "logits"], cria.chunk = 1 : index} {
  // expected-error @-5 {{'func.call' op calls a kernel that calls itself}}
  call @k(%logits) : (memref<1x4xf32>) -> ()
  return
}
