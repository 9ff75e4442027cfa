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
// CHECK-LABEL: gpu.func @add_prefill
// CHECK: scf.if
// CHECK: arith.addf
// CHECK: memref.store
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
func.func @decode(%ids: tensor<1xi32>, %position: index, %first: index, %x: tensor<1x8xf32>, %y: tensor<1x8xf32>, %w: tensor<8x8xf32>) -> (tensor<1x8xf32>, tensor<1x8xf32>, tensor<1x8xf32>, tensor<8x8xf32>) {
  %z = llama.kernel "two" -> tensor<1x8xf32> {
    %a = llama.linear %x, %w : tensor<1x8xf32>, tensor<8x8xf32>
    // expected-error @below {{'llama.linear' op has another input than the product before it in one kernel; the cuda target takes one}}
    %b = llama.linear %y, %w : tensor<1x8xf32>, tensor<8x8xf32>
    %s = llama.swiglu %a, %b : tensor<1x8xf32>
    llama.yield %s : tensor<1x8xf32>
  }
  return %z, %x, %y, %w : tensor<1x8xf32>, tensor<1x8xf32>, tensor<1x8xf32>, tensor<8x8xf32>
}

// -----

// a norm that something else reads too,
func.func @decode(%ids: tensor<1xi32>, %position: index, %first: index, %x: tensor<1x8xf32>, %w: tensor<8x8xf32>) -> (tensor<1x8xf32>, tensor<1x8xf32>, tensor<8x8xf32>) {
  %z = llama.kernel "norm" -> tensor<1x8xf32> {
    // expected-error @below {{'llama.rmsnorm' op is not what all products of its kernel read; the cuda target takes no other norm in one}}
    %n = llama.rmsnorm %x {eps = 1.0e-05} : tensor<1x8xf32>
    %a = llama.linear %n, %w : tensor<1x8xf32>, tensor<8x8xf32>
    %s = llama.residual %n, %a : tensor<1x8xf32>
    llama.yield %s : tensor<1x8xf32>
  }
  return %z, %x, %w : tensor<1x8xf32>, tensor<1x8xf32>, tensor<8x8xf32>
}

// -----

// weights of two types,
func.func @decode(%ids: tensor<1xi32>, %position: index, %first: index, %x: tensor<1x8xf32>, %v: tensor<8x8xbf16>, %w: tensor<8x8xf32>) -> (tensor<1x8xf32>, tensor<1x8xf32>, tensor<8x8xbf16>, tensor<8x8xf32>) {
  %z = llama.kernel "two" -> tensor<1x8xf32> {
    %a = llama.linear %x, %v : tensor<1x8xf32>, tensor<8x8xbf16>
    // expected-error @below {{'llama.linear' op has weights of another type than the product before it in one kernel; the cuda target takes one}}
    %b = llama.linear %x, %w : tensor<1x8xf32>, tensor<8x8xf32>
    %s = llama.swiglu %a, %b : tensor<1x8xf32>
    llama.yield %s : tensor<1x8xf32>
  }
  return %z, %x, %v, %w : tensor<1x8xf32>, tensor<1x8xf32>, tensor<8x8xbf16>, tensor<8x8xf32>
}

// -----

// an op in the middle that has no place there,
func.func @decode(%ids: tensor<1xi32>, %position: index, %first: index, %x: tensor<1x8xf32>, %t: tensor<8x8xf32>, %c: tensor<4x2xf32>) -> (tensor<1x8xf32>, tensor<1x8xf32>, tensor<8x8xf32>, tensor<4x2xf32>) {
  %z = llama.kernel "turned" -> tensor<1x8xf32> {
    %e = tensor.expand_shape %x [[0], [1, 2]] output_shape [1, 2, 4] : tensor<1x8xf32> into tensor<1x2x4xf32>
    // expected-error @below {{'llama.rope' op has no kernel on the cuda target here}}
    %r = llama.rope %e, %c, %c at %position : tensor<1x2x4xf32>, tensor<4x2xf32>
    %f = tensor.collapse_shape %r [[0], [1, 2]] : tensor<1x2x4xf32> into tensor<1x8xf32>
    %s = llama.residual %x, %f : tensor<1x8xf32>
    llama.yield %s : tensor<1x8xf32>
  }
  return %z, %x, %t, %c : tensor<1x8xf32>, tensor<1x8xf32>, tensor<8x8xf32>, tensor<4x2xf32>
}

// -----

// an op outside,
func.func @decode(%ids: tensor<1xi32>, %position: index, %first: index, %x: tensor<1x8xf32>) -> (tensor<1x8xf32>, tensor<1x8xf32>) {
  // expected-error @below {{'llama.residual' op is in no kernel: the cuda target cannot run it on the host}}
  %s = llama.residual %x, %x : tensor<1x8xf32>
  %z = llama.kernel "add" -> tensor<1x8xf32> {
    %r = llama.residual %s, %x : tensor<1x8xf32>
    llama.yield %r : tensor<1x8xf32>
  }
  return %z, %x : tensor<1x8xf32>, tensor<1x8xf32>
}

// -----

// heads that no warp divides,
func.func @decode(%ids: tensor<1xi32>, %position: index, %first: index, %q: tensor<1x1x33xf32>, %k: tensor<1x1x4x33xf32>) -> (tensor<1x1x33xf32>, tensor<1x1x33xf32>, tensor<1x1x4x33xf32>) {
  %c0 = arith.constant 0 : index
  %z = llama.kernel "attention" -> tensor<1x1x33xf32> {
    // expected-error @below {{'llama.gqa' op has no kernel on the cuda target: its heads are not made of 32 equal parts or fewer}}
    %a = llama.gqa %q, %k, %k[%c0] at %position {scale = 1.0} : tensor<1x1x33xf32>, tensor<1x1x4x33xf32>
    llama.yield %a : tensor<1x1x33xf32>
  }
  return %z, %q, %k : tensor<1x1x33xf32>, tensor<1x1x33xf32>, tensor<1x1x4x33xf32>
}

// -----

// a cache of before that is read after it was changed,
func.func @decode(%ids: tensor<1xi32>, %position: index, %first: index, %k: tensor<1x1x4x8xf32>, %x: tensor<1x1x8xf32>) -> (tensor<1x1x8xf32>, tensor<1x1x4x8xf32>, tensor<1x1x8xf32>) {
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
  return %z, %new, %x : tensor<1x1x8xf32>, tensor<1x1x4x8xf32>, tensor<1x1x8xf32>
}

// -----

// layers that are no constant and not the loop's number,
llama.weight @w[3] : tensor<8xf32> from "w.{}"
func.func @decode(%ids: tensor<1xi32>, %position: index, %first: index, %x: tensor<1x8xf32>) -> (tensor<1x8xf32>, tensor<1x8xf32>) {
  // expected-error @below {{'llama.get_weight' op expected a constant layer, or one that a loop between constants counts}}
  %w = llama.get_weight @w[%position] : tensor<8xf32>
  %z = llama.kernel "norm" -> tensor<1x8xf32> {
    %r = llama.rmsnorm %x, %w {eps = 1.0e-05} : tensor<1x8xf32>, tensor<8xf32>
    llama.yield %r : tensor<1x8xf32>
  }
  return %z, %x : tensor<1x8xf32>, tensor<1x8xf32>
}

// -----

// a stream that a loop carries but no kernel updates in place,
func.func @decode(%ids: tensor<1xi32>, %position: index, %first: index, %x: tensor<1x8xf32>) -> (tensor<1x8xf32>, tensor<1x8xf32>) {
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
  return %z, %x : tensor<1x8xf32>, tensor<1x8xf32>
}

// -----

// loops of no constant length, and logits that no kernel makes.
func.func @decode(%ids: tensor<1xi32>, %position: index, %first: index, %x: tensor<1x8xf32>) -> (tensor<1x8xf32>, tensor<1x8xf32>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  // expected-error @below {{'scf.for' op has no constant number of layers}}
  scf.for %l = %c0 to %position step %c1 {
  }
  %z = llama.kernel "add" -> tensor<1x8xf32> {
    %r = llama.residual %x, %x : tensor<1x8xf32>
    llama.yield %r : tensor<1x8xf32>
  }
  return %z, %x : tensor<1x8xf32>, tensor<1x8xf32>
}

// -----

func.func @decode(%ids: tensor<1xi32>, %position: index, %first: index, %x: tensor<1x2x4xf32>) -> (tensor<1x8xf32>, tensor<1x2x4xf32>) {
  // expected-error @below {{the logits are no kernel's result; the cuda target copies none}}
  %z = tensor.collapse_shape %x [[0], [1, 2]] : tensor<1x2x4xf32> into tensor<1x8xf32>
  return %z, %x : tensor<1x8xf32>, tensor<1x2x4xf32>
}

// -----

// Slices are memory of their source: the rows from the third argument on to the
// last token, and a constant number of first rows. What has rows from there on
// may be normalized and added before the head: its grids count those rows.
// CHECK: {args = [{arena = [[#N:]] : i64}, {arena = [[#X:]] : i64}, {state = 0 : i64}], block = [128, 1, 1], grid = [{logits = 1 : i64}, 1, 1], launch = "norm_prefill"
// CHECK-SAME: {args = [{weight = 1 : i64}, {arena = [[#X]] : i64}, {state = 0 : i64}, {arena = [[#N]] : i64}, {logits = 0 : i64}], block = [256, 1, 1], grid = [1, {logits = 1 : i64}, 1], launch = "sum_prefill"
llama.weight @table : tensor<8x8xf32> from "table"
llama.weight @rows : tensor<4x8xf32> from "rows"
func.func @prefill(%ids: tensor<?xi32>, %position: index, %first: index) -> tensor<?x8xf32> {
  %c0 = arith.constant 0 : index
  %table = llama.get_weight @table : tensor<8x8xf32>
  %rows = llama.get_weight @rows : tensor<4x8xf32>
  %row = tensor.extract_slice %rows[0, 0] [1, 8] [1, 1] : tensor<4x8xf32> to tensor<1x8xf32>
  %x = llama.kernel "embed" -> tensor<?x8xf32> {
    %e = llama.embed %ids, %table : tensor<?xi32>, tensor<8x8xf32>
    llama.yield %e : tensor<?x8xf32>
  }
  %n = tensor.dim %x, %c0 : tensor<?x8xf32>
  %m = arith.subi %n, %first : index
  %last = tensor.extract_slice %x[%first, 0] [%m, 8] [1, 1] : tensor<?x8xf32> to tensor<?x8xf32>
  %y = llama.kernel "norm" -> tensor<?x8xf32> {
    %e = llama.rmsnorm %last {eps = 1.0e-05} : tensor<?x8xf32>
    llama.yield %e : tensor<?x8xf32>
  }
  %z = llama.kernel "sum" -> tensor<?x8xf32> {
    %r = llama.residual %last, %y : tensor<?x8xf32>
    %s = llama.add_rows %r, %row : tensor<?x8xf32>, tensor<1x8xf32>
    llama.yield %s : tensor<?x8xf32>
  }
  return %z : tensor<?x8xf32>
}

// -----

// No other slice has a place: of rows that begin elsewhere,
llama.weight @table : tensor<16x8xf32> from "table"
func.func @prefill(%ids: tensor<?xi32>, %position: index, %first: index) -> tensor<?x8xf32> {
  %c0 = arith.constant 0 : index
  %table = llama.get_weight @table : tensor<16x8xf32>
  %x = llama.kernel "embed" -> tensor<?x8xf32> {
    %e = llama.embed %ids, %table : tensor<?xi32>, tensor<16x8xf32>
    llama.yield %e : tensor<?x8xf32>
  }
  %n = tensor.dim %ids, %c0 : tensor<?xi32>
  %m = arith.subi %n, %first : index
  // expected-error @below {{'tensor.extract_slice' op expected all columns of the rows from the argument 'first' to the last token, or of a constant number of first rows; the cuda target supports no other slice}}
  %s = tensor.extract_slice %x[%position, 0] [%m, 8] [1, 1] : tensor<?x8xf32> to tensor<?x8xf32>
  %z = llama.kernel "norm" -> tensor<?x8xf32> {
    %e = llama.rmsnorm %s {eps = 1.0e-05} : tensor<?x8xf32>
    llama.yield %e : tensor<?x8xf32>
  }
  return %z : tensor<?x8xf32>
}

// -----

// of a constant row on,
llama.weight @table : tensor<16x8xf32> from "table"
func.func @prefill(%ids: tensor<?xi32>, %position: index, %first: index) -> tensor<?x8xf32> {
  %c0 = arith.constant 0 : index
  %table = llama.get_weight @table : tensor<16x8xf32>
  %x = llama.kernel "embed" -> tensor<?x8xf32> {
    %e = llama.embed %ids, %table : tensor<?xi32>, tensor<16x8xf32>
    llama.yield %e : tensor<?x8xf32>
  }
  %n = tensor.dim %ids, %c0 : tensor<?xi32>
  %m = arith.subi %n, %first : index
  // expected-error @below {{'tensor.extract_slice' op expected all columns of the rows from the argument 'first' to the last token, or of a constant number of first rows; the cuda target supports no other slice}}
  %s = tensor.extract_slice %x[1, 0] [%m, 8] [1, 1] : tensor<?x8xf32> to tensor<?x8xf32>
  %z = llama.kernel "norm" -> tensor<?x8xf32> {
    %e = llama.rmsnorm %s {eps = 1.0e-05} : tensor<?x8xf32>
    llama.yield %e : tensor<?x8xf32>
  }
  return %z : tensor<?x8xf32>
}

// -----

// of fewer rows,
llama.weight @table : tensor<16x8xf32> from "table"
func.func @prefill(%ids: tensor<?xi32>, %position: index, %first: index) -> tensor<?x8xf32> {
  %c0 = arith.constant 0 : index
  %table = llama.get_weight @table : tensor<16x8xf32>
  %x = llama.kernel "embed" -> tensor<?x8xf32> {
    %e = llama.embed %ids, %table : tensor<?xi32>, tensor<16x8xf32>
    llama.yield %e : tensor<?x8xf32>
  }
  %n = tensor.dim %ids, %c0 : tensor<?xi32>
  %m = arith.subi %n, %first : index
  %half = arith.subi %m, %position : index
  // expected-error @below {{'tensor.extract_slice' op expected all columns of the rows from the argument 'first' to the last token, or of a constant number of first rows; the cuda target supports no other slice}}
  %s = tensor.extract_slice %x[%first, 0] [%half, 8] [1, 1] : tensor<?x8xf32> to tensor<?x8xf32>
  %z = llama.kernel "norm" -> tensor<?x8xf32> {
    %e = llama.rmsnorm %s {eps = 1.0e-05} : tensor<?x8xf32>
    llama.yield %e : tensor<?x8xf32>
  }
  return %z : tensor<?x8xf32>
}

// -----

// of every other row,
llama.weight @table : tensor<16x8xf32> from "table"
func.func @prefill(%ids: tensor<?xi32>, %position: index, %first: index) -> tensor<?x8xf32> {
  %c0 = arith.constant 0 : index
  %table = llama.get_weight @table : tensor<16x8xf32>
  %x = llama.kernel "embed" -> tensor<?x8xf32> {
    %e = llama.embed %ids, %table : tensor<?xi32>, tensor<16x8xf32>
    llama.yield %e : tensor<?x8xf32>
  }
  %n = tensor.dim %ids, %c0 : tensor<?xi32>
  %m = arith.subi %n, %first : index
  // expected-error @below {{'tensor.extract_slice' op expected all columns of the rows from the argument 'first' to the last token, or of a constant number of first rows; the cuda target supports no other slice}}
  %s = tensor.extract_slice %x[%first, 0] [%m, 8] [2, 1] : tensor<?x8xf32> to tensor<?x8xf32>
  %z = llama.kernel "norm" -> tensor<?x8xf32> {
    %e = llama.rmsnorm %s {eps = 1.0e-05} : tensor<?x8xf32>
    llama.yield %e : tensor<?x8xf32>
  }
  return %z : tensor<?x8xf32>
}

// -----

// of a slice,
llama.weight @table : tensor<16x8xf32> from "table"
func.func @prefill(%ids: tensor<?xi32>, %position: index, %first: index) -> tensor<?x8xf32> {
  %c0 = arith.constant 0 : index
  %table = llama.get_weight @table : tensor<16x8xf32>
  %x = llama.kernel "embed" -> tensor<?x8xf32> {
    %e = llama.embed %ids, %table : tensor<?xi32>, tensor<16x8xf32>
    llama.yield %e : tensor<?x8xf32>
  }
  %n = tensor.dim %ids, %c0 : tensor<?xi32>
  %m = arith.subi %n, %first : index
  %t = tensor.extract_slice %x[%first, 0] [%m, 8] [1, 1] : tensor<?x8xf32> to tensor<?x8xf32>
  // expected-error @below {{'tensor.extract_slice' op expected all columns of the rows from the argument 'first' to the last token, or of a constant number of first rows; the cuda target supports no other slice}}
  %s = tensor.extract_slice %t[%first, 0] [%m, 8] [1, 1] : tensor<?x8xf32> to tensor<?x8xf32>
  %z = llama.kernel "norm" -> tensor<?x8xf32> {
    %e = llama.rmsnorm %s {eps = 1.0e-05} : tensor<?x8xf32>
    llama.yield %e : tensor<?x8xf32>
  }
  return %z : tensor<?x8xf32>
}

// -----

// of columns,
llama.weight @table : tensor<16x16xf32> from "table"
func.func @decode(%ids: tensor<1xi32>, %position: index, %first: index) -> tensor<1x8xf32> {
  %table = llama.get_weight @table : tensor<16x16xf32>
  %x = llama.kernel "embed" -> tensor<1x16xf32> {
    %e = llama.embed %ids, %table : tensor<1xi32>, tensor<16x16xf32>
    llama.yield %e : tensor<1x16xf32>
  }
  // expected-error @below {{'tensor.extract_slice' op expected all columns of the rows}}
  %s = tensor.extract_slice %x[0, 8] [1, 8] [1, 1] : tensor<1x16xf32> to tensor<1x8xf32>
  %z = llama.kernel "norm" -> tensor<1x8xf32> {
    %e = llama.rmsnorm %s {eps = 1.0e-05} : tensor<1x8xf32>
    llama.yield %e : tensor<1x8xf32>
  }
  return %z : tensor<1x8xf32>
}

// -----

// or of a weight's rows that are not the first.
llama.weight @table : tensor<16x8xf32> from "table"
func.func @decode(%ids: tensor<1xi32>, %position: index, %first: index) -> tensor<1x8xf32> {
  %table = llama.get_weight @table : tensor<16x8xf32>
  // expected-error @below {{'tensor.extract_slice' op expected all columns of the rows}}
  %s = tensor.extract_slice %table[3, 0] [1, 8] [1, 1] : tensor<16x8xf32> to tensor<1x8xf32>
  %z = llama.kernel "norm" -> tensor<1x8xf32> {
    %e = llama.rmsnorm %s {eps = 1.0e-05} : tensor<1x8xf32>
    llama.yield %e : tensor<1x8xf32>
  }
  return %z : tensor<1x8xf32>
}

// -----

// A kernel's rows are all tokens', or those from 'first' on.
llama.weight @table : tensor<16x8xf32> from "table"
func.func @prefill(%ids: tensor<?xi32>, %position: index, %first: index) -> tensor<?x8xf32> {
  %c0 = arith.constant 0 : index
  %table = llama.get_weight @table : tensor<16x8xf32>
  %x = llama.kernel "embed" -> tensor<?x8xf32> {
    %e = llama.embed %ids, %table : tensor<?xi32>, tensor<16x8xf32>
    llama.yield %e : tensor<?x8xf32>
  }
  %n = tensor.dim %ids, %c0 : tensor<?xi32>
  %m = arith.subi %n, %first : index
  %s = tensor.extract_slice %x[%first, 0] [%m, 8] [1, 1] : tensor<?x8xf32> to tensor<?x8xf32>
  %z = llama.kernel "sum" -> tensor<?x8xf32> {
    // expected-error @below {{'llama.residual' op reads the rows of all tokens where its kernel reads those from the argument 'first' on, or the other way round; expected one of the two}}
    %e = llama.residual %x, %s : tensor<?x8xf32>
    llama.yield %e : tensor<?x8xf32>
  }
  return %z : tensor<?x8xf32>
}

// -----

// Logits are of the rows that are wanted.
llama.weight @table : tensor<16x8xf32> from "table"
func.func @prefill(%ids: tensor<?xi32>, %position: index, %first: index) -> tensor<?x8xf32> {
  %table = llama.get_weight @table : tensor<16x8xf32>
  // expected-error @below {{expected logits of the rows from the argument 'first' on, got those of all tokens}}
  %x = llama.kernel "embed" -> tensor<?x8xf32> {
    %e = llama.embed %ids, %table : tensor<?xi32>, tensor<16x8xf32>
    llama.yield %e : tensor<?x8xf32>
  }
  return %x : tensor<?x8xf32>
}

// -----

// Reshapes leave the rows alone.
llama.weight @table : tensor<16x8xf32> from "table"
func.func @prefill(%ids: tensor<?xi32>, %position: index, %first: index) -> tensor<?x4xf32> {
  %table = llama.get_weight @table : tensor<16x8xf32>
  %x = llama.kernel "embed" -> tensor<?x8xf32> {
    %e = llama.embed %ids, %table : tensor<?xi32>, tensor<16x8xf32>
    llama.yield %e : tensor<?x8xf32>
  }
  %c0 = arith.constant 0 : index
  %n = tensor.dim %ids, %c0 : tensor<?xi32>
  %h = tensor.expand_shape %x [[0], [1, 2]] output_shape [%n, 2, 4] : tensor<?x8xf32> into tensor<?x2x4xf32>
  // expected-error @below {{'tensor.collapse_shape' op expected a reshape that keeps the first dimension, the tokens; the cuda target supports no other}}
  %s = tensor.collapse_shape %h [[0, 1], [2]] : tensor<?x2x4xf32> into tensor<?x4xf32>
  %z = llama.kernel "norm" -> tensor<?x4xf32> {
    %e = llama.rmsnorm %s {eps = 1.0e-05} : tensor<?x4xf32>
    llama.yield %e : tensor<?x4xf32>
  }
  return %z : tensor<?x4xf32>
}

// -----

func.func @decode(%ids: tensor<1xi32>, %position: index, %first: index, %x: tensor<1x8xf32>) -> (tensor<2x4xf32>, tensor<1x8xf32>) {
  %z = llama.kernel "split" -> tensor<2x4xf32> {
    %r = llama.residual %x, %x : tensor<1x8xf32>
    %h = tensor.expand_shape %r [[0], [1, 2]] output_shape [1, 2, 4] : tensor<1x8xf32> into tensor<1x2x4xf32>
    // expected-error @below {{'tensor.collapse_shape' op changes the number of rows inside a kernel; the cuda target supports one number of rows in a kernel}}
    %s = tensor.collapse_shape %h [[0, 1], [2]] : tensor<1x2x4xf32> into tensor<2x4xf32>
    llama.yield %s : tensor<2x4xf32>
  }
  return %z, %x : tensor<2x4xf32>, tensor<1x8xf32>
}

// -----

// Outside of kernels nothing computes tensors.
func.func @decode(%ids: tensor<1xi32>, %position: index, %first: index, %x: tensor<1x8xf32>) -> (tensor<1x8xf32>, tensor<1x8xf32>) {
  // expected-error @below {{'arith.constant' op is in no kernel: the cuda target cannot run it on the host}}
  %one = arith.constant dense<1.0> : tensor<1x8xf32>
  %z = llama.kernel "add" -> tensor<1x8xf32> {
    %r = llama.residual %x, %one : tensor<1x8xf32>
    llama.yield %r : tensor<1x8xf32>
  }
  return %z, %x : tensor<1x8xf32>, tensor<1x8xf32>
}

// -----

// Caches stay where they are.
func.func @decode(%ids: tensor<1xi32>, %position: index, %first: index, %k: tensor<1x1x4x8xf32>, %v: tensor<1x1x4x8xf32>) -> (tensor<1x8xf32>, tensor<1x1x4x8xf32>, tensor<1x1x4x8xf32>) {
  %w = llama.get_weight @w : tensor<16x8xf32>
  %z = llama.kernel "embed" -> tensor<1x8xf32> {
    %e = llama.embed %ids, %w : tensor<1xi32>, tensor<16x8xf32>
    llama.yield %e : tensor<1x8xf32>
  }
  // expected-error @below {{'func.return' op expected to return cache 0 in its place, got another tensor; the cuda target copies none}}
  return %z, %v, %k : tensor<1x8xf32>, tensor<1x1x4x8xf32>, tensor<1x1x4x8xf32>
}
llama.weight @w : tensor<16x8xf32> from "w"

// -----

llama.weight @w : tensor<1x1x4x8xf32> from "w"
func.func @decode(%ids: tensor<1xi32>, %position: index, %first: index, %q: tensor<1x1x8xf32>) -> (tensor<1x1x8xf32>, tensor<1x1x8xf32>) {
  %c0 = arith.constant 0 : index
  %w = llama.get_weight @w : tensor<1x1x4x8xf32>
  %z = llama.kernel "attention" -> tensor<1x1x8xf32> {
    // expected-error @below {{'llama.gqa' op expected a cache among the function's arguments; the cuda target supports no other}}
    %a = llama.gqa %q, %w, %w[%c0] at %position {scale = 1.0} : tensor<1x1x8xf32>, tensor<1x1x4x8xf32>
    llama.yield %a : tensor<1x1x8xf32>
  }
  return %z, %q : tensor<1x1x8xf32>, tensor<1x1x8xf32>
}

// -----

func.func @decode(%ids: tensor<1xi32>, %position: index, %first: index, %k: tensor<1x1x4x8xf32>, %x: tensor<1x1x8xf32>) -> (tensor<1x1x4x8xf32>, tensor<1x1x8xf32>) {
  %c0 = arith.constant 0 : index
  %new, %other = llama.kernel "append" -> tensor<1x1x4x8xf32>, tensor<1x1x4x8xf32> {
    %a = llama.kv_append %x into %k[%c0] at %position : tensor<1x1x8xf32> into tensor<1x1x4x8xf32>
    // expected-error @below {{'llama.kv_append' op is the second append of its kernel to one cache; the cuda target copies none}}
    %b = llama.kv_append %x into %k[%c0] at %position : tensor<1x1x8xf32> into tensor<1x1x4x8xf32>
    llama.yield %a, %b : tensor<1x1x4x8xf32>, tensor<1x1x4x8xf32>
  }
  return %new, %x : tensor<1x1x4x8xf32>, tensor<1x1x8xf32>
}

// -----

// Layers exist; kernels take the position from the call.
func.func @decode(%ids: tensor<1xi32>, %position: index, %first: index, %k: tensor<2x1x4x8xf32>, %x: tensor<1x1x8xf32>) -> (tensor<2x1x4x8xf32>, tensor<1x1x8xf32>) {
  %c2 = arith.constant 2 : index
  %new = llama.kernel "append" -> tensor<2x1x4x8xf32> {
    // expected-error @below {{'llama.kv_append' op expected layers below 2, got 2 to 2}}
    %a = llama.kv_append %x into %k[%c2] at %position : tensor<1x1x8xf32> into tensor<2x1x4x8xf32>
    llama.yield %a : tensor<2x1x4x8xf32>
  }
  return %new, %x : tensor<2x1x4x8xf32>, tensor<1x1x8xf32>
}

// -----

llama.weight @w[3] : tensor<8xf32> from "w.{}"
func.func @decode(%ids: tensor<1xi32>, %position: index, %first: index, %x: tensor<1x8xf32>) -> (tensor<1x8xf32>, tensor<1x8xf32>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c4 = arith.constant 4 : index
  scf.for %l = %c0 to %c4 step %c1 {
    // expected-error @below {{'llama.get_weight' op expected layers below 3, got 0 to 3}}
    %w = llama.get_weight @w[%l] : tensor<8xf32>
  }
  return %x, %x : tensor<1x8xf32>, tensor<1x8xf32>
}

// -----

func.func @decode(%ids: tensor<1xi32>, %position: index, %first: index, %k: tensor<1x1x4x8xf32>, %x: tensor<1x1x8xf32>) -> (tensor<1x1x4x8xf32>, tensor<1x1x8xf32>) {
  %c0 = arith.constant 0 : index
  %new = llama.kernel "append" -> tensor<1x1x4x8xf32> {
    // expected-error @below {{'llama.kv_append' op expected the position that the function is given}}
    %a = llama.kv_append %x into %k[%c0] at %first : tensor<1x1x8xf32> into tensor<1x1x4x8xf32>
    llama.yield %a : tensor<1x1x4x8xf32>
  }
  return %new, %x : tensor<1x1x4x8xf32>, tensor<1x1x8xf32>
}

// -----

func.func @decode(%ids: tensor<1xi32>, %position: index, %first: index, %k: tensor<1x1x4x8xf32>, %q: tensor<1x1x8xf32>) -> (tensor<1x1x8xf32>, tensor<1x1x4x8xf32>, tensor<1x1x8xf32>) {
  %c0 = arith.constant 0 : index
  %z = llama.kernel "attention" -> tensor<1x1x8xf32> {
    // expected-error @below {{'llama.gqa' op expected 'over' the source that the function is given}}
    %a = llama.gqa %q, %k, %k[%c0] at %position over %first {scale = 1.0} : tensor<1x1x8xf32>, tensor<1x1x4x8xf32>
    llama.yield %a : tensor<1x1x8xf32>
  }
  return %z, %k, %q : tensor<1x1x8xf32>, tensor<1x1x4x8xf32>, tensor<1x1x8xf32>
}

// -----

// Loops are not in loops.
func.func @decode(%ids: tensor<1xi32>, %position: index, %first: index, %x: tensor<1x8xf32>) -> (tensor<1x8xf32>, tensor<1x8xf32>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c4 = arith.constant 4 : index
  scf.for %l = %c0 to %c4 step %c1 {
    // expected-error @below {{'scf.for' op is inside another loop; the cuda target supports no nested loops}}
    scf.for %m = %c0 to %c4 step %c1 {
    }
  }
  return %x, %x : tensor<1x8xf32>, tensor<1x8xf32>
}

// -----

// Lookups and attention have kernels of their own.
llama.weight @w : tensor<16x8xf32> from "w"
func.func @decode(%ids: tensor<1xi32>, %position: index, %first: index, %x: tensor<1x8xf32>) -> (tensor<1x8xf32>, tensor<1x8xf32>) {
  %w = llama.get_weight @w : tensor<16x8xf32>
  %z = llama.kernel "embed" -> tensor<1x8xf32> {
    // expected-error @below {{'llama.embed' op expected no other op but reshapes in its kernel on the cuda target}}
    %e = llama.embed %ids, %w : tensor<1xi32>, tensor<16x8xf32>
    %r = llama.residual %x, %e : tensor<1x8xf32>
    llama.yield %r : tensor<1x8xf32>
  }
  return %z, %x : tensor<1x8xf32>, tensor<1x8xf32>
}

// -----

// A unit has two sums at most.
func.func @decode(%ids: tensor<1xi32>, %position: index, %first: index, %x: tensor<1x8xf32>, %w: tensor<8x8xf32>) -> (tensor<1x8xf32>, tensor<1x8xf32>, tensor<8x8xf32>) {
  %z = llama.kernel "three" -> tensor<1x8xf32> {
    %a = llama.linear %x, %w : tensor<1x8xf32>, tensor<8x8xf32>
    %b = llama.linear %x, %w : tensor<1x8xf32>, tensor<8x8xf32>
    // expected-error @below {{'llama.linear' op is one of 3 products of an output; the cuda target supports two}}
    %c = llama.linear %x, %w : tensor<1x8xf32>, tensor<8x8xf32>
    %s = llama.swiglu %a, %b : tensor<1x8xf32>
    %r = llama.residual %s, %c : tensor<1x8xf32>
    llama.yield %r : tensor<1x8xf32>
  }
  return %z, %x, %w : tensor<1x8xf32>, tensor<1x8xf32>, tensor<8x8xf32>
}

// -----

// A product reads memory.
func.func @decode(%ids: tensor<1xi32>, %position: index, %first: index, %x: tensor<1x8xf32>, %w: tensor<8x8xf32>) -> (tensor<1x8xf32>, tensor<1x8xf32>, tensor<8x8xf32>) {
  %z = llama.kernel "chain" -> tensor<1x8xf32> {
    // expected-error @below {{the cuda target reads this value from device memory, but no kernel stores it there}}
    %a = llama.activate relu %x : tensor<1x8xf32>
    %b = llama.linear %a, %w : tensor<1x8xf32>, tensor<8x8xf32>
    llama.yield %b : tensor<1x8xf32>
  }
  return %z, %x, %w : tensor<1x8xf32>, tensor<1x8xf32>, tensor<8x8xf32>
}

// -----

// What is no entry.
// expected-error @below {{'func.func' op expected (ids, position, first, caches...) -> (logits, caches...), got '(tensor<1xi32>) -> tensor<1xi32>'}}
func.func @decode(%ids: tensor<1xi32>) -> tensor<1xi32> {
  return %ids : tensor<1xi32>
}

// -----

// A weight is not written over, whatever reads it later.
// CHECK: {args = [{weight = 0 : i64}, {weight = 1 : i64}, {arena = {{[0-9]+}} : i64}]{{.*}}launch = "both_decode"
llama.weight @a : tensor<1x8xf32> from "a"
llama.weight @b : tensor<1x8xf32> from "b"
llama.weight @table : tensor<8x8xf32> from "table"
func.func @decode(%ids: tensor<1xi32>, %position: index, %first: index) -> tensor<1x8xf32> {
  %a = llama.get_weight @a : tensor<1x8xf32>
  %b = llama.get_weight @b : tensor<1x8xf32>
  %table = llama.get_weight @table : tensor<8x8xf32>
  %both = llama.kernel "both" -> tensor<1x8xf32> {
    %r = llama.residual %a, %b : tensor<1x8xf32>
    llama.yield %r : tensor<1x8xf32>
  }
  %x = llama.kernel "embed" -> tensor<1x8xf32> {
    %e = llama.embed %ids, %table : tensor<1xi32>, tensor<8x8xf32>
    llama.yield %e : tensor<1x8xf32>
  }
  %z = llama.kernel "add" -> tensor<1x8xf32> {
    %r = llama.add_rows %x, %both : tensor<1x8xf32>, tensor<1x8xf32>
    llama.yield %r : tensor<1x8xf32>
  }
  return %z : tensor<1x8xf32>
}
