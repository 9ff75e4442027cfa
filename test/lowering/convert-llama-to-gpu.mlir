// RUN: cria-opt --convert-llama-to-gpu=chunk=16 --split-input-file --verify-diagnostics %s | FileCheck %s

// The plan: args are slots (each layer its own in a loop), offsets in the arena,
// the call's state; grids grow with the tokens or the rows of logits. A prompt's
// norm is a launch of its own; the stream stays where it is.
// CHECK: gpu.module @kernels [#nvvm.target<{{.*}}chip = "sm_80", features = "+ptx80">]
// CHECK-SAME: entries = {prefill = [{args = [{ids = 0 : i64}, {weight = 0 : i64}, {arena = [[#X:]] : i64}]
// CHECK-SAME: grid = [{tokens = 1 : i64}, 1, 1], launch = "embed_prefill", shared = 0 : i64},
// CHECK-SAME: {body = [{args = [{arena = [[#H:]] : i64}, {arena = [[#X]] : i64}, {layered = true, weight = 1 : i64}]
// CHECK-SAME: grid = [{tokens = 1 : i64}, 1, 1], launch = "mix_prefill_norm"
// CHECK-SAME: {args = [{arena = [[#H]] : i64}, {layered = true, weight = 4 : i64}, {state = 0 : i64}, {arena = [[#P:]] : i64}]
// CHECK-SAME: grid = [1, {tokens = 64 : i64}, 1], launch = "mix_prefill"
// CHECK-SAME: {args = [{arena = [[#X]] : i64}, {arena = [[#P]] : i64}]{{.*}}launch = "add_prefill", shared = 0 : i64}], loop = 3 : i64},
// CHECK-SAME: {args = [{arena = [[#X]] : i64}, {state = 0 : i64}, {weight = 7 : i64}, {logits = 0 : i64}]
// CHECK-SAME: grid = [1, {logits = 64 : i64}, 1], launch = "head_prefill"
// CHECK-SAME: workspace_zeroed = {bytes = 0 : i64, offset = 0 : i64}
// An op without products runs an element a thread.
// CHECK-LABEL: llvm.func @add_prefill
// CHECK: scf.if
// CHECK: arith.addf
// CHECK: llvm.store
// CHECK-NOT: func.func
// CHECK-NOT: llama.weight
llama.weight @table : tensor<32x24xf32> from "table"
llama.weight @norm[3] : tensor<24xf32> from "norm.{}"
llama.weight @w[3] : tensor<24x24xf32> from "w.{}"
llama.weight @out : tensor<32x24xf32> from "out"
func.func @prefill(%ids: tensor<?xi32>, %position: index, %first: index) -> tensor<?x32xf32> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c3 = arith.constant 3 : index
  %n = tensor.dim %ids, %c0 : tensor<?xi32>
  %table = llama.get_weight @table : tensor<32x24xf32>
  %x = llama.kernel "embed" -> tensor<?x24xf32> {
    %e = llama.embed %ids, %table : tensor<?xi32>, tensor<32x24xf32>
    llama.yield %e : tensor<?x24xf32>
  }
  %y = scf.for %l = %c0 to %c3 step %c1 iter_args(%s = %x) -> (tensor<?x24xf32>) {
    %g = llama.get_weight @norm[%l] : tensor<24xf32>
    %w = llama.get_weight @w[%l] : tensor<24x24xf32>
    %mixed = llama.kernel "mix" -> tensor<?x24xf32> {
      %h = llama.rmsnorm %s, %g {eps = 1.0e-05} : tensor<?x24xf32>, tensor<24xf32>
      %p = llama.linear %h, %w : tensor<?x24xf32>, tensor<24x24xf32>
      llama.yield %p : tensor<?x24xf32>
    }
    %next = llama.kernel "add" -> tensor<?x24xf32> {
      %r = llama.residual %s, %mixed : tensor<?x24xf32>
      llama.yield %r : tensor<?x24xf32>
    }
    scf.yield %next : tensor<?x24xf32>
  }
  %m = arith.subi %n, %first : index
  %rows = tensor.extract_slice %y[%first, 0] [%m, 24] [1, 1] : tensor<?x24xf32> to tensor<?x24xf32>
  %out = llama.get_weight @out : tensor<32x24xf32>
  %logits = llama.kernel "head" -> tensor<?x32xf32> {
    %h = llama.head %rows, %out : tensor<?x24xf32>, tensor<32x24xf32>
    llama.yield %h : tensor<?x32xf32>
  }
  return %logits : tensor<?x32xf32>
}

// -----

// A stream that is read again stays: the sum gets a place of its own. Layers may
// be constants, which choose a weight's slot.
// CHECK: {args = [{arena = [[#X:]] : i64}, {weight = 2 : i64}, {arena = [[#S:]] : i64}]{{.*}}launch = "add_decode"
// CHECK-SAME: {args = [{arena = [[#S]] : i64}, {arena = [[#X]] : i64}, {logits = 0 : i64}]{{.*}}launch = "again_decode"
llama.weight @table : tensor<8x8xf32> from "table"
llama.weight @rows[3] : tensor<1x8xf32> from "rows.{}"
func.func @decode(%ids: tensor<1xi32>, %position: index, %first: index) -> tensor<1x8xf32> {
  %c1 = arith.constant 1 : index
  %table = llama.get_weight @table : tensor<8x8xf32>
  %row = llama.get_weight @rows[%c1] : tensor<1x8xf32>
  %x = llama.kernel "embed" -> tensor<1x8xf32> {
    %e = llama.embed %ids, %table : tensor<1xi32>, tensor<8x8xf32>
    llama.yield %e : tensor<1x8xf32>
  }
  %y = llama.kernel "add" -> tensor<1x8xf32> {
    %r = llama.residual %x, %row : tensor<1x8xf32>
    llama.yield %r : tensor<1x8xf32>
  }
  %z = llama.kernel "again" -> tensor<1x8xf32> {
    %r = llama.residual %y, %x : tensor<1x8xf32>
    llama.yield %r : tensor<1x8xf32>
  }
  return %z : tensor<1x8xf32>
}

// -----

// What a kernel cannot be: products of two inputs,
func.func @decode(%ids: tensor<1xi32>, %position: index, %first: index, %x: tensor<1x8xf32>, %y: tensor<1x8xf32>, %w: tensor<8x8xf32>) -> tensor<1x8xf32> {
  %z = llama.kernel "two" -> tensor<1x8xf32> {
    %a = llama.linear %x, %w : tensor<1x8xf32>, tensor<8x8xf32>
    // expected-error @below {{'llama.linear' op has another input than the product before it in one kernel; the cuda target takes one}}
    %b = llama.linear %y, %w : tensor<1x8xf32>, tensor<8x8xf32>
    %s = llama.swiglu %a, %b : tensor<1x8xf32>
    llama.yield %s : tensor<1x8xf32>
  }
  return %z : tensor<1x8xf32>
}

// -----

// a norm that something else reads too,
func.func @decode(%ids: tensor<1xi32>, %position: index, %first: index, %x: tensor<1x8xf32>, %w: tensor<8x8xf32>) -> tensor<1x8xf32> {
  %z = llama.kernel "norm" -> tensor<1x8xf32> {
    // expected-error @below {{'llama.rmsnorm' op is not what all products of its kernel read; the cuda target takes no other norm in one}}
    %n = llama.rmsnorm %x {eps = 1.0e-05} : tensor<1x8xf32>
    %a = llama.linear %n, %w : tensor<1x8xf32>, tensor<8x8xf32>
    %s = llama.residual %n, %a : tensor<1x8xf32>
    llama.yield %s : tensor<1x8xf32>
  }
  return %z : tensor<1x8xf32>
}

// -----

// weights of two types,
func.func @decode(%ids: tensor<1xi32>, %position: index, %first: index, %x: tensor<1x8xf32>, %v: tensor<8x8xbf16>, %w: tensor<8x8xf32>) -> tensor<1x8xf32> {
  %z = llama.kernel "two" -> tensor<1x8xf32> {
    %a = llama.linear %x, %v : tensor<1x8xf32>, tensor<8x8xbf16>
    // expected-error @below {{'llama.linear' op has weights of another type than the product before it in one kernel; the cuda target takes one}}
    %b = llama.linear %x, %w : tensor<1x8xf32>, tensor<8x8xf32>
    %s = llama.swiglu %a, %b : tensor<1x8xf32>
    llama.yield %s : tensor<1x8xf32>
  }
  return %z : tensor<1x8xf32>
}

// -----

// an op in the middle that has no place there,
func.func @decode(%ids: tensor<1xi32>, %position: index, %first: index, %x: tensor<1x8xf32>, %t: tensor<8x8xf32>, %c: tensor<4x2xf32>) -> tensor<1x8xf32> {
  %z = llama.kernel "turned" -> tensor<1x8xf32> {
    %e = tensor.expand_shape %x [[0], [1, 2]] output_shape [1, 2, 4] : tensor<1x8xf32> into tensor<1x2x4xf32>
    // expected-error @below {{'llama.rope' op has no kernel on the cuda target here}}
    %r = llama.rope %e, %c, %c at %position : tensor<1x2x4xf32>, tensor<4x2xf32>
    %f = tensor.collapse_shape %r [[0], [1, 2]] : tensor<1x2x4xf32> into tensor<1x8xf32>
    %s = llama.residual %x, %f : tensor<1x8xf32>
    llama.yield %s : tensor<1x8xf32>
  }
  return %z : tensor<1x8xf32>
}

// -----

// an op outside,
func.func @decode(%ids: tensor<1xi32>, %position: index, %first: index, %x: tensor<1x8xf32>) -> tensor<1x8xf32> {
  // expected-error @below {{'llama.residual' op is in no kernel: the cuda target cannot run it on the host}}
  %s = llama.residual %x, %x : tensor<1x8xf32>
  %z = llama.kernel "add" -> tensor<1x8xf32> {
    %r = llama.residual %s, %x : tensor<1x8xf32>
    llama.yield %r : tensor<1x8xf32>
  }
  return %z : tensor<1x8xf32>
}

// -----

// heads that no warp divides,
func.func @decode(%ids: tensor<1xi32>, %position: index, %first: index, %q: tensor<1x1x33xf32>, %k: tensor<1x1x4x33xf32>) -> tensor<1x1x33xf32> {
  %c0 = arith.constant 0 : index
  %z = llama.kernel "attention" -> tensor<1x1x33xf32> {
    // expected-error @below {{'llama.gqa' op has no kernel on the cuda target: its heads are not made of 32 equal parts or fewer}}
    %a = llama.gqa %q, %k, %k[%c0] at %position {scale = 1.0} : tensor<1x1x33xf32>, tensor<1x1x4x33xf32>
    llama.yield %a : tensor<1x1x33xf32>
  }
  return %z : tensor<1x1x33xf32>
}

// -----

// a cache of before that is read after it was changed,
func.func @decode(%ids: tensor<1xi32>, %position: index, %first: index, %k: tensor<1x1x4x8xf32>, %x: tensor<1x1x8xf32>) -> (tensor<1x1x8xf32>, tensor<1x1x4x8xf32>) {
  %c0 = arith.constant 0 : index
  %new = llama.kernel "append" -> tensor<1x1x4x8xf32> {
    // expected-error @below {{'llama.kv_append' op changes a cache that is read as it was later; the cuda target copies none}}
    %a = llama.kv_append %x into %k[%c0] at %position : tensor<1x1x8xf32> into tensor<1x1x4x8xf32>
    llama.yield %a : tensor<1x1x4x8xf32>
  }
  %z = llama.kernel "attention" -> tensor<1x1x8xf32> {
    %a = llama.gqa %x, %k, %k[%c0] at %position {scale = 1.0} : tensor<1x1x8xf32>, tensor<1x1x4x8xf32>
    llama.yield %a : tensor<1x1x8xf32>
  }
  return %z, %new : tensor<1x1x8xf32>, tensor<1x1x4x8xf32>
}

// -----

// layers that are no constant and not the loop's number,
llama.weight @w[3] : tensor<8xf32> from "w.{}"
func.func @decode(%ids: tensor<1xi32>, %position: index, %first: index, %x: tensor<1x8xf32>) -> tensor<1x8xf32> {
  // expected-error @below {{'llama.get_weight' op reads a layer that is neither constant nor a number of a loop; the cuda target knows no other}}
  %w = llama.get_weight @w[%position] : tensor<8xf32>
  %z = llama.kernel "norm" -> tensor<1x8xf32> {
    %r = llama.rmsnorm %x, %w {eps = 1.0e-05} : tensor<1x8xf32>, tensor<8xf32>
    llama.yield %r : tensor<1x8xf32>
  }
  return %z : tensor<1x8xf32>
}

// -----

// a stream that a loop carries but no kernel updates in place,
func.func @decode(%ids: tensor<1xi32>, %position: index, %first: index, %x: tensor<1x8xf32>) -> tensor<1x8xf32> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c3 = arith.constant 3 : index
  // expected-error @below {{'scf.for' op carries a tensor that no kernel updates in place; the cuda target copies none}}
  %y = scf.for %l = %c0 to %c3 step %c1 iter_args(%s = %x) -> (tensor<1x8xf32>) {
    %t = llama.kernel "norm" -> tensor<1x8xf32> {
      %r = llama.rmsnorm %s {eps = 1.0e-05} : tensor<1x8xf32>
      llama.yield %r : tensor<1x8xf32>
    }
    scf.yield %t : tensor<1x8xf32>
  }
  %z = llama.kernel "add" -> tensor<1x8xf32> {
    %r = llama.residual %y, %x : tensor<1x8xf32>
    llama.yield %r : tensor<1x8xf32>
  }
  return %z : tensor<1x8xf32>
}

// -----

// loops of no constant length, and logits that no kernel makes.
func.func @decode(%ids: tensor<1xi32>, %position: index, %first: index, %x: tensor<1x8xf32>) -> tensor<1x8xf32> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  // expected-error @below {{'scf.for' op has no constant number of layers}}
  scf.for %l = %c0 to %position step %c1 {
  }
  %z = llama.kernel "add" -> tensor<1x8xf32> {
    %r = llama.residual %x, %x : tensor<1x8xf32>
    llama.yield %r : tensor<1x8xf32>
  }
  return %z : tensor<1x8xf32>
}

// -----

func.func @decode(%ids: tensor<1xi32>, %position: index, %first: index, %x: tensor<1x2x4xf32>) -> tensor<1x8xf32> {
  // expected-error @below {{the logits are no kernel's result; the cuda target copies none}}
  %z = tensor.collapse_shape %x [[0], [1, 2]] : tensor<1x2x4xf32> into tensor<1x8xf32>
  return %z : tensor<1x8xf32>
}
