// RUN: cria-opt --llama-outline-kernels --split-input-file %s | FileCheck %s

!x = tensor<?x8xf32>

// Each op is a kernel of its own, named after it; reads of weights and tables
// stay outside, as do reshapes.
// CHECK-LABEL: func @each
// CHECK: llama.get_weight
// CHECK-NEXT: llama.kernel "embed"
// CHECK-NEXT: llama.embed
// CHECK: llama.kernel "swiglu"
// CHECK-NEXT: llama.swiglu
// CHECK: tensor.expand_shape
// CHECK-NEXT: llama.get_rope
// CHECK-NEXT: llama.kernel "rope"
// CHECK-NEXT: llama.rope
llama.weight @table : tensor<16x8xf32> from "table"
llama.rope_table @rope {positions = 4 : i64, inv_freq = array<f32: 1.0, 0.1>}
func.func @each(%ids: tensor<?xi32>, %n: index) -> tensor<?x2x4xf32> {
  %t = llama.get_weight @table : tensor<16x8xf32>
  %x = llama.embed %ids, %t : tensor<?xi32>, tensor<16x8xf32>
  %y = llama.swiglu %x, %x : !x
  %h = tensor.expand_shape %y [[0], [1, 2]] output_shape [%n, 2, 4]
      : !x into tensor<?x2x4xf32>
  %cos, %sin = llama.get_rope @rope : tensor<4x2xf32>
  %r = llama.rope %h, %cos, %sin at %n : tensor<?x2x4xf32>, tensor<4x2xf32>
  return %r : tensor<?x2x4xf32>
}

// -----

!x = tensor<?x8xf32>
!w = tensor<16x8xf32>

// A norm joins its one reader; with two it is a kernel of its own.
// CHECK-LABEL: func @norms
// CHECK: llama.kernel "head"
// CHECK-NEXT: llama.rmsnorm
// CHECK-NEXT: llama.head
// CHECK: llama.kernel "rmsnorm"
// CHECK-NEXT: llama.rmsnorm
// CHECK-NEXT: llama.yield
// CHECK: llama.kernel "linear"
// CHECK-NEXT: llama.linear
// CHECK: llama.kernel "linear_2"
func.func @norms(%x: !x, %w: !w)
    -> (tensor<?x16xf32>, tensor<?x16xf32>, tensor<?x16xf32>) {
  %y = llama.rmsnorm %x {eps = 1.0e-05} : !x
  %a = llama.head %y, %w : !x, !w
  %z = llama.rmsnorm %x {eps = 1.0e-03} : !x
  %b = llama.linear %z, %w : !x, !w
  %c = llama.linear %z, %w : !x, !w
  return %a, %b, %c : tensor<?x16xf32>, tensor<?x16xf32>, tensor<?x16xf32>
}

// -----

// A linear that only a sum over ranks reads shares its kernel.
// CHECK-LABEL: func @sums
// CHECK: llama.kernel "all_reduce"
// CHECK-NEXT: llama.rmsnorm
// CHECK-NEXT: llama.linear
// CHECK-NEXT: llama.all_reduce
// CHECK-NEXT: llama.yield
// CHECK: llama.kernel "linear"
// CHECK-NEXT: llama.linear
// CHECK-NEXT: llama.yield
// CHECK: llama.kernel "all_reduce_2"
module attributes {llama.shards = 2 : i64} {
  func.func @sums(%x: tensor<?x8xf32>, %w: tensor<8x8xf32>) -> (tensor<?x8xf32>, tensor<?x8xf32>, tensor<?x8xf32>) {
    %n = llama.rmsnorm %x {eps = 1.0e-05} : tensor<?x8xf32>
    %a = llama.linear %n, %w : tensor<?x8xf32>, tensor<8x8xf32>
    %b = llama.all_reduce %a : tensor<?x8xf32>
    %c = llama.linear %x, %w : tensor<?x8xf32>, tensor<8x8xf32>
    %d = llama.all_reduce %c : tensor<?x8xf32>
    return %b, %c, %d : tensor<?x8xf32>, tensor<?x8xf32>, tensor<?x8xf32>
  }
}

// -----

// Blocks of loops are outlined too, bodies of kernels are not.
// CHECK-LABEL: func @nested
// CHECK: scf.for
// CHECK: llama.kernel "swiglu"
// CHECK-NEXT: llama.swiglu
// CHECK: llama.kernel "mine"
// CHECK-NEXT: llama.swiglu
func.func @nested(%x: tensor<?x8xf32>, %i: index) -> tensor<?x8xf32> {
  %r = scf.for %l = %i to %i step %i iter_args(%a = %x) -> tensor<?x8xf32> {
    %b = llama.swiglu %a, %a : tensor<?x8xf32>
    %c = llama.kernel "mine" -> tensor<?x8xf32> {
      %d = llama.swiglu %b, %b : tensor<?x8xf32>
      llama.yield %d : tensor<?x8xf32>
    }
    scf.yield %c : tensor<?x8xf32>
  }
  return %r : tensor<?x8xf32>
}

// -----

!x = tensor<?x8xf32>
!w = tensor<8x8xf32>

// Names come from the paths in the locations: the op's module without "model",
// "*" and "_proj"; ops that read no weight add what they are.
// CHECK-LABEL: func @names
// CHECK: llama.kernel "embed"
// CHECK: llama.kernel "layers_attn_out"
// CHECK: llama.kernel "layers_residual"
// CHECK: llama.kernel "layers_attn_out_2"
// CHECK: llama.kernel "_3rd_x_y"
// CHECK: llama.kernel "head"
func.func @names(%ids: tensor<?xi32>, %w: !w) -> !x {
  %a = llama.embed %ids, %w : tensor<?xi32>, !w loc("model.embed_tokens")
  %b = llama.linear %a, %w : !x, !w loc("model.layers.*.self_attn.o_proj")
  %c = llama.residual %a, %b : !x loc("model.layers.*")
  %d = llama.linear %c, %w : !x, !w loc(fused["model.layers.7.self_attn.o_proj", "x"])
  %e = llama.linear %d, %w : !x, !w loc("3rd.x-y")
  %f = llama.head %e, %w : !x, !w loc("lm_head")
  return %f : !x
}

// -----

!x = tensor<?x8xf32>

// An elementwise op joins the elementwise op that alone reads it, as any operand. What
// makes a constant stays outside.
// CHECK-LABEL: func @elementwise
// CHECK: tensor.splat
// CHECK-NEXT: llama.kernel "addf"
// CHECK-NEXT: math.exp
// CHECK-NEXT: arith.mulf
// CHECK-NEXT: arith.addf
// CHECK-NEXT: llama.yield
// CHECK: llama.kernel "negf"
// CHECK-NEXT: arith.negf
// CHECK-NEXT: llama.yield
func.func @elementwise(%x: !x, %n: index, %c: f32) -> (!x, !x) {
  %s = tensor.splat %c[%n] : !x
  %e = math.exp %x : !x
  %m = arith.mulf %e, %s : !x
  %a = arith.addf %x, %m : !x
  %b = arith.negf %a : !x
  return %a, %b : !x, !x
}
