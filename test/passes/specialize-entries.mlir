// RUN: cria-opt --llama-specialize-entries --split-input-file %s | FileCheck %s

llama.weight @table : tensor<16x8xf32> from "table"
llama.weight @wq[2] : tensor<8x8xf32> from "layers.{}.q"

// Prefill is the forward pass under another name.
// CHECK-LABEL: func @prefill(
// CHECK-SAME: tensor<?xi32>, %{{.*}}: index, %{{.*}}: index, %{{.*}}: tensor<2x2x32x4xf32>) -> (tensor<?x16xf32>, tensor<2x2x32x4xf32>)
// CHECK: tensor.dim
// CHECK: scf.for {{.*}} -> (tensor<?x8xf32>, tensor<2x2x32x4xf32>)
// CHECK: tensor.extract_slice

// Decode has one token everywhere: no size is computed, no dimension dynamic.
// CHECK-LABEL: func @decode(
// CHECK-SAME: tensor<1xi32>, %[[P:.*]]: index, %{{.*}}: index, %{{.*}}: tensor<2x2x32x4xf32>) -> (tensor<1x16xf32>, tensor<2x2x32x4xf32>)
// CHECK-NOT: tensor.dim
// CHECK-NOT: ?
// CHECK: llama.embed %{{.*}}, %{{.*}} : tensor<1xi32>, tensor<16x8xf32>
// CHECK: scf.for {{.*}} -> (tensor<1x8xf32>, tensor<2x2x32x4xf32>)
// CHECK: llama.linear {{.*}} : tensor<1x8xf32>, tensor<8x8xf32>
// CHECK: tensor.expand_shape {{.*}} output_shape [1, 2, 4] : tensor<1x8xf32> into tensor<1x2x4xf32>
// CHECK: llama.kv_append {{.*}} at %[[P]] : tensor<1x2x4xf32>
// CHECK: tensor.collapse_shape {{.*}} : tensor<1x2x4xf32> into tensor<1x8xf32>
// CHECK: scf.yield {{.*}} : tensor<1x8xf32>, tensor<2x2x32x4xf32>
// The first logit is that of token 0: the slice of rows is all of them.
// CHECK-NOT: tensor.extract_slice
// CHECK: llama.head {{.*}} : tensor<1x8xf32>, tensor<16x8xf32>
// CHECK-NOT: func @forward
func.func @forward(%ids: tensor<?xi32>, %position: index, %first: index,
                   %cache: tensor<2x2x32x4xf32>)
    -> (tensor<?x16xf32>, tensor<2x2x32x4xf32>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %n = tensor.dim %ids, %c0 : tensor<?xi32>
  %table = llama.get_weight @table : tensor<16x8xf32>
  %x0 = llama.embed %ids, %table : tensor<?xi32>, tensor<16x8xf32>
  %r:2 = scf.for %l = %c0 to %c2 step %c1 iter_args(%x = %x0, %k = %cache)
      -> (tensor<?x8xf32>, tensor<2x2x32x4xf32>) {
    %w = llama.get_weight @wq[%l] : tensor<8x8xf32>
    %q = llama.linear %x, %w : tensor<?x8xf32>, tensor<8x8xf32>
    %h = tensor.expand_shape %q [[0], [1, 2]] output_shape [%n, 2, 4]
        : tensor<?x8xf32> into tensor<?x2x4xf32>
    %k1 = llama.kv_append %h into %k[%l] at %position
        : tensor<?x2x4xf32> into tensor<2x2x32x4xf32>
    %o = llama.gqa %h, %k1, %k1[%l] at %position {causal, scale = 0.5}
        : tensor<?x2x4xf32>, tensor<2x2x32x4xf32>
    %f = tensor.collapse_shape %o [[0], [1, 2]]
        : tensor<?x2x4xf32> into tensor<?x8xf32>
    %x1 = llama.residual %x, %f : tensor<?x8xf32>
    scf.yield %x1, %k1 : tensor<?x8xf32>, tensor<2x2x32x4xf32>
  }
  %m = arith.subi %n, %first : index
  %rows = tensor.extract_slice %r#0[%first, 0] [%m, 8] [1, 1]
      : tensor<?x8xf32> to tensor<?x8xf32>
  %logits = llama.head %rows, %table : tensor<?x8xf32>, tensor<16x8xf32>
  return %logits, %r#1 : tensor<?x16xf32>, tensor<2x2x32x4xf32>
}

// -----

// Arithmetic on token counts folds; ops between tensors of tokens follow.
// CHECK-LABEL: func @decode(
// CHECK: arith.addf %{{.*}}, %{{.*}} : tensor<1x16xf32>
// CHECK: return %{{.*}} : tensor<1x16xf32>
llama.weight @table : tensor<16x16xf32> from "table"
func.func @forward(%ids: tensor<?xi32>, %position: index, %first: index)
    -> tensor<?x16xf32> {
  %c0 = arith.constant 0 : index
  %table = llama.get_weight @table : tensor<16x16xf32>
  %x = llama.embed %ids, %table : tensor<?xi32>, tensor<16x16xf32>
  %y = arith.addf %x, %x : tensor<?x16xf32>
  return %y : tensor<?x16xf32>
}

// -----

// The types of sums over ranks are inferred.
// CHECK-LABEL: func @decode(
// CHECK: llama.all_reduce %{{.*}} : tensor<1x16xf32>
// CHECK: llama.all_reduce %{{.*}} : tensor<1x1xf32>
module attributes {llama.shards = 2 : i64} {
  llama.weight @table : tensor<16x16xf32> from "table"
  func.func @forward(%ids: tensor<?xi32>, %position: index, %first: index)
      -> tensor<?x16xf32> {
    %table = llama.get_weight @table : tensor<16x16xf32>
    %x = llama.embed %ids, %table : tensor<?xi32>, tensor<16x16xf32>
    %y = llama.all_reduce %x : tensor<?x16xf32>
    %part = llama.square_sums %x : tensor<?x16xf32>
    %sums = llama.all_reduce %part : tensor<?x1xf32>
    %z = llama.rmsnorm %y squares(%sums : tensor<?x1xf32>) {eps = 1.0e-5, size = 32} : tensor<?x16xf32>
    return %z : tensor<?x16xf32>
  }
}

// -----

// Hidden states are results of prefill alone: decode has neither them nor what makes
// them, nor the argument that says of which token on they are wanted.
// CHECK-LABEL: func @prefill(
// CHECK-SAME: tensor<?xi32>, %{{.*}}: index, %{{.*}}: index, %[[H:.*]]: index) -> (tensor<?x16xf32>, tensor<?x8xf32>)
// CHECK: tensor.extract_slice %{{.*}}[%[[H]], 0]
// CHECK: llama.rmsnorm
// CHECK-LABEL: func @decode(
// CHECK-SAME: tensor<1xi32>, %{{.*}}: index, %{{.*}}: index) -> tensor<1x16xf32>
// CHECK-NEXT: llama.get_weight @table
// CHECK-NEXT: %[[X:.*]] = llama.embed
// CHECK-NEXT: %[[L:.*]] = llama.head %[[X]]
// CHECK-NEXT: return %[[L]] : tensor<1x16xf32>
llama.weight @table : tensor<16x8xf32> from "table"
llama.weight @norm : tensor<8xf32> from "norm"
func.func @forward(%ids: tensor<?xi32>, %position: index, %first: index, %first_hidden: index)
    -> (tensor<?x16xf32>, tensor<?x8xf32>) {
  %c0 = arith.constant 0 : index
  %n = tensor.dim %ids, %c0 : tensor<?xi32>
  %table = llama.get_weight @table : tensor<16x8xf32>
  %x = llama.embed %ids, %table : tensor<?xi32>, tensor<16x8xf32>
  %wanted = arith.subi %n, %first_hidden : index
  %slice = tensor.extract_slice %x[%first_hidden, 0] [%wanted, 8] [1, 1]
      : tensor<?x8xf32> to tensor<?x8xf32>
  %w = llama.get_weight @norm : tensor<8xf32>
  %hidden = llama.rmsnorm %slice, %w {eps = 1.0e-05} : tensor<?x8xf32>, tensor<8xf32>
  %m = arith.subi %n, %first : index
  %rows = tensor.extract_slice %x[%first, 0] [%m, 8] [1, 1]
      : tensor<?x8xf32> to tensor<?x8xf32>
  %logits = llama.head %rows, %table : tensor<?x8xf32>, tensor<16x8xf32>
  return %logits, %hidden : tensor<?x16xf32>, tensor<?x8xf32>
}
