// What the verifiers of mixtures of experts refuse.
// RUN: cria-opt --split-input-file --verify-diagnostics %s

// weight_c2
// expected-error @below {{expected one '{}' in the name, or one more, for the expert, got 3}}
llama.weight @w[2] experts : tensor<4x8x16xf32> from "l.{}.e.{}.{}"

// -----

// weight_c2
// expected-error @below {{expected one '{}' in the name, or one more, for the expert, got 0}}
llama.weight @w[2] experts : tensor<4x8x16xf32> from "stacked"

// -----

// weight_c4
// expected-error @below {{expected 8 rows from 9 on within the tensor's 16}}
llama.weight @w experts : tensor<4x8x16xf32> from "stacked" rows 9 of 16

// -----

// weight_c6
llama.weight @a[3] experts : tensor<4x8x16xf32> from "l.{}.e.{}" {slot = 0 : index}
// expected-error @below {{expected slot 12, the next one, got 3}}
llama.weight @b : tensor<4xf32> from "b" {slot = 3 : index}

// -----

// weight_c8
// expected-error @below {{expected experts of three dimensions, without 'adapter' and 'or', got 'tensor<8x16xf32>'}}
llama.weight @w experts : tensor<8x16xf32> from "e.{}"

// -----

// weight_c8
// expected-error @below {{expected experts of three dimensions, without 'adapter' and 'or', got 'tensor<4x8x16xf32>'}}
llama.weight @w experts : tensor<4x8x16xf32> from "e.{}" adapter

// -----

// weight_c9
// expected-error @below {{expected layers that ascend from 1 to 4, the layers of the count}}
llama.weight @w[4] : tensor<8x16xf32> from "l.{}" {first = 1 : i64, layers = array<i64: 1, 3, 3, 4>}

// -----

// weight_c9
// expected-error @below {{expected layers that ascend from 0 to 3, the layers of the count}}
llama.weight @w[4] : tensor<8x16xf32> from "l.{}" {layers = array<i64: 0, 2>}

// -----

// weight_c10
// expected-error @below {{expected one tensor with a matrix, or with those of experts, to be transposed, got 'tensor<4x8x16xf32>'}}
llama.weight @w experts : tensor<4x8x16xf32> from "e.{}" transposed

// -----

// weight_c10
// expected-error @below {{expected one tensor with a matrix, or with those of experts, to be transposed, got 'tensor<8xf32>'}}
llama.weight @w : tensor<8xf32> from "e" transposed

// -----

// swiglu_c2
func.func @swiglu(%gate: tensor<?x8xf32>, %up: tensor<?x8xf32>) {
  // expected-error @below {{expected a limit beside alpha, and the activation silu}}
  %y = llama.swiglu %gate, %up {alpha = 2.0 : f64} : tensor<?x8xf32>
  return
}

// -----

// swiglu_c2
func.func @swiglu(%gate: tensor<?x8xf32>, %up: tensor<?x8xf32>) {
  // expected-error @below {{expected limit to be positive and finite in f32, got 0}}
  %y = llama.swiglu %gate, %up {limit = 0.0 : f64} : tensor<?x8xf32>
  return
}

// -----

// swiglu_c1
func.func @swiglu(%gate: tensor<?x2xf32>, %up: tensor<?x8xf32>) {
  // expected-error @below {{expected a gate of type 'tensor<?x8xf32>', or of one column, got 'tensor<?x2xf32>'}}
  %y = llama.swiglu %gate, %up : tensor<?x2xf32>, tensor<?x8xf32>
  return
}

// -----

// route_c1
func.func @route(%logits: tensor<?x8xf32>) {
  // expected-error @below {{expected to choose at most 8 experts, got 9}}
  %e, %w = llama.route %logits top 9 : tensor<?x8xf32>
  return
}

// -----

// route_c1
func.func @route(%logits: tensor<?x8xf32>) {
  // expected-error @below {{expected to choose at least 1 expert, got 0}}
  %e, %w = llama.route %logits top 0 : tensor<?x8xf32>
  return
}

// -----

// route_c1
func.func @route(%logits: tensor<?x?xf32>) {
  // expected-error @below {{expected to choose at most ? experts, got 1}}
  %e, %w = llama.route %logits top 1 : tensor<?x?xf32>
  return
}

// -----

// route_c2
func.func @route(%logits: tensor<?x8xf32>) {
  // expected-error @below {{expected groups that divide 8 experts, and to choose 3 of the kept groups, got 1 of 4 groups, scored by their best 2}}
  %e, %w = llama.route %logits top 3 {groups = 4, kept_groups = 1} : tensor<?x8xf32>
  return
}

// -----

// route_c2
func.func @route(%logits: tensor<?x8xf32>) {
  // expected-error @below {{expected groups that divide 8 experts, and to choose 1 of the kept groups, got 1 of 3 groups, scored by their best 2}}
  %e, %w = llama.route %logits top 1 {groups = 3, kept_groups = 1} : tensor<?x8xf32>
  return
}

// -----

// route_c2
func.func @route(%logits: tensor<?x8xf32>) {
  // expected-error @below {{got 0 of 4 groups, scored by their best 2}}
  %e, %w = llama.route %logits top 1 {groups = 4} : tensor<?x8xf32>
  return
}

// -----

// route_c2
func.func @route(%logits: tensor<?x8xf32>) {
  // expected-error @below {{got 2 of 4 groups, scored by their best 3}}
  %e, %w = llama.route %logits top 1 {groups = 4, kept_groups = 2, group_best = 3} : tensor<?x8xf32>
  return
}

// -----

// route_c3
func.func @route(%logits: tensor<?x8xf32>) {
  // expected-error @below {{expected a scale that is finite in f32, got 1.0}}
  %e, %w = llama.route %logits top 1 {scale = 1.0e300 : f64} : tensor<?x8xf32>
  return
}

// -----

// route_c3
func.func @route(%logits: tensor<?x8xf32>) {
  // expected-error @below {{expected a floor of at least 0, finite in f32, got -1.0}}
  %e, %w = llama.route %logits top 1 normalize sum {floor = -1.0 : f64} : tensor<?x8xf32>
  return
}

// -----

// route_c4
func.func @route(%logits: tensor<?x8xf32>, %c: tensor<7xf32>) {
  // expected-error @below {{expected a correction of size 8, got 7}}
  %e, %w = llama.route %logits top 1 correction(%c : tensor<7xf32>) : tensor<?x8xf32>
  return
}

// -----

// expert_linear_c1
func.func @expert_linear(%x: tensor<?x64xf32>, %w: tensor<4x8x63xf32>, %e: tensor<?x2xi32>) {
  // expected-error @below {{expected a weight of last dimension 64, got 63}}
  %y = llama.expert_linear %x, %w[%e] : tensor<?x64xf32>, tensor<4x8x63xf32>, tensor<?x2xi32>
  return
}

// -----

// expert_linear_c2
func.func @expert_linear(%x: tensor<?x3x64xf32>, %w: tensor<4x8x64xf32>, %e: tensor<?x2xi32>) {
  // expected-error @below {{expected rows of a token 2, got 3}}
  %y = llama.expert_linear %x, %w[%e] : tensor<?x3x64xf32>, tensor<4x8x64xf32>, tensor<?x2xi32>
  return
}

// -----

// expert_linear_c3
func.func @expert_linear(%x: tensor<?x64xf32>, %w: tensor<4x8x64xf32>, %e: tensor<?x2xi32>, %b: tensor<4x9xf32>) {
  // expected-error @below {{expected a bias of columns 8, got 9}}
  %y = llama.expert_linear %x, %w[%e] bias(%b : tensor<4x9xf32>) : tensor<?x64xf32>, tensor<4x8x64xf32>, tensor<?x2xi32>
  return
}

// -----

// expert_linear_c4
func.func @expert_linear(%x: tensor<5x64xf32>, %w: tensor<4x8x64xf32>, %e: tensor<6x2xi32>) {
  // expected-error @below {{expected tokens of x 6, got 5}}
  %y = llama.expert_linear %x, %w[%e] : tensor<5x64xf32>, tensor<4x8x64xf32>, tensor<6x2xi32>
  return
}

// -----

func.func @expert_linear(%x: tensor<?x64xf32>, %w: tensor<4x8x64xf32>, %e: tensor<?xi32>) {
  // expected-error @below {{expected experts of rank 2, got 'tensor<?xi32>'}}
  %y = llama.expert_linear %x, %w[%e] : tensor<?x64xf32>, tensor<4x8x64xf32>, tensor<?xi32>
  return
}

// -----

// combine_c1
func.func @combine(%w: tensor<?x3xf32>, %x: tensor<?x2x64xf32>) {
  // expected-error @below {{expected chosen experts 3, got 2}}
  %y = llama.combine %w, %x : tensor<?x3xf32>, tensor<?x2x64xf32>
  return
}
