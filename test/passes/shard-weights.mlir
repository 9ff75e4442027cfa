// RUN: cria-opt --llama-shard-weights=shards=2 --split-input-file --verify-diagnostics %s | FileCheck %s
// RUN: cria-opt --llama-shard-weights --split-input-file %s | FileCheck %s --check-prefix=ONE
// RUN: not cria-opt --llama-shard-weights=shards=-1 --split-input-file %s 2>&1 | FileCheck %s --check-prefix=NEGATIVE
// NEGATIVE: error: expected at least 1 rank, got -1

// ONE-NOT: split rows

// Weights that make heads or the MLP's inner dimension have half of the rows; weights
// that read them have half of the columns. Sums over ranks complete the products and
// add the bias. Lookups and norms are whole, the head is split.
// CHECK: module attributes {llama.shards = 2 : i64}
// CHECK: @e : tensor<16x8xf32> from "e"{{$}}
// CHECK: @n : tensor<8xf32> from "n"{{$}}
// CHECK: @q[1] : tensor<8x8xf32> from "l.{}.q" split rows
// CHECK: @q_bias[1] : tensor<8xf32> from "l.{}.q.bias" split rows
// CHECK: @k[1] : tensor<4x8xf32> from "l.{}.qkv" rows 16 of 32 split rows
// CHECK: @o[1] : tensor<8x8xf32> from "l.{}.o" split cols
// CHECK: @o_bias[1] : tensor<8xf32> from "l.{}.o.bias"{{$}}
// CHECK: @up[1] : tensor<6x8xf32> from "l.{}.up" split rows
// CHECK: @down[1] : tensor<8x6xf32> from "l.{}.down" split cols
// CHECK: @head : tensor<8x8xf32> from "h" or @e split rows
llama.weight @e : tensor<16x8xf32> from "e"
llama.weight @n : tensor<8xf32> from "n"
llama.weight @q[1] : tensor<16x8xf32> from "l.{}.q"
llama.weight @q_bias[1] : tensor<16xf32> from "l.{}.q.bias"
llama.weight @k[1] : tensor<8x8xf32> from "l.{}.qkv" rows 16 of 32
llama.weight @o[1] : tensor<8x16xf32> from "l.{}.o"
llama.weight @o_bias[1] : tensor<8xf32> from "l.{}.o.bias"
llama.weight @up[1] : tensor<12x8xf32> from "l.{}.up"
llama.weight @down[1] : tensor<8x12xf32> from "l.{}.down"
llama.weight @head : tensor<16x8xf32> from "h" or @e
llama.rope_table @rope {positions = 32 : i64, inv_freq = array<f32: 1.0, 0.1>}

!cache = tensor<1x2x32x4xf32>
// CHECK-LABEL: func @forward
// CHECK-SAME: %{{.*}}: tensor<1x1x32x4xf32>, %{{.*}}: tensor<1x1x32x4xf32>) -> (tensor<?x8xf32>, tensor<1x1x32x4xf32>, tensor<1x1x32x4xf32>)
func.func @forward(%ids: tensor<?xi32>, %position: index, %first: index, %keys: !cache, %values: !cache) -> (tensor<?x16xf32>, !cache, !cache) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %t = tensor.dim %ids, %c0 : tensor<?xi32>
  %cos, %sin = llama.get_rope @rope : tensor<32x2xf32>
  %e = llama.get_weight @e : tensor<16x8xf32>
  %x0 = llama.embed %ids, %e : tensor<?xi32>, tensor<16x8xf32>
  // CHECK: scf.for {{.*}} -> (tensor<?x8xf32>, tensor<1x1x32x4xf32>, tensor<1x1x32x4xf32>)
  %x, %k2, %v2 = scf.for %l = %c0 to %c1 step %c1 iter_args(%x = %x0, %k = %keys, %v = %values) -> (tensor<?x8xf32>, !cache, !cache) {
    %n = llama.get_weight @n : tensor<8xf32>
    %y = llama.rmsnorm %x, %n {eps = 1.0e-5} : tensor<?x8xf32>, tensor<8xf32>
    %wq = llama.get_weight @q[%l] : tensor<16x8xf32>
    %bq = llama.get_weight @q_bias[%l] : tensor<16xf32>
    // CHECK: %[[Q:.*]] = llama.linear %{{.*}}, %{{.*}} bias(%{{.*}} : tensor<8xf32>) : tensor<?x8xf32>, tensor<8x8xf32>
    %q1 = llama.linear %y, %wq bias(%bq : tensor<16xf32>) : tensor<?x8xf32>, tensor<16x8xf32>
    // CHECK: tensor.expand_shape %[[Q]] {{.*}} output_shape [%{{.*}}, 2, 4] : tensor<?x8xf32> into tensor<?x2x4xf32>
    %q3 = tensor.expand_shape %q1 [[0], [1, 2]] output_shape [%t, 4, 4] : tensor<?x16xf32> into tensor<?x4x4xf32>
    %qr = llama.rope %q3, %cos, %sin at %position : tensor<?x4x4xf32>, tensor<32x2xf32>
    %wk = llama.get_weight @k[%l] : tensor<8x8xf32>
    %k1 = llama.linear %y, %wk : tensor<?x8xf32>, tensor<8x8xf32>
    %k3 = tensor.expand_shape %k1 [[0], [1, 2]] output_shape [%t, 2, 4] : tensor<?x8xf32> into tensor<?x2x4xf32>
    %hn = llama.rmsnorm %k3 {eps = 1.0e-5} : tensor<?x2x4xf32>
    // CHECK: llama.kv_append {{.*}} : tensor<?x1x4xf32> into tensor<1x1x32x4xf32>
    %ka = llama.kv_append %hn into %k[%l] at %position : tensor<?x2x4xf32> into !cache
    %va = llama.kv_append %k3 into %v[%l] at %position : tensor<?x2x4xf32> into !cache
    // CHECK: llama.gqa {{.*}} : tensor<?x2x4xf32>, tensor<1x1x32x4xf32>
    %a = llama.gqa %qr, %ka, %va[%l] at %position {scale = 0.5, causal} : tensor<?x4x4xf32>, !cache
    // CHECK: tensor.collapse_shape {{.*}} into tensor<?x8xf32>
    %m = tensor.collapse_shape %a [[0], [1, 2]] : tensor<?x4x4xf32> into tensor<?x16xf32>
    %wo = llama.get_weight @o[%l] : tensor<8x16xf32>
    %bo = llama.get_weight @o_bias[%l] : tensor<8xf32>
    // CHECK: %[[O:.*]] = llama.linear %{{.*}}, %{{.*}} : tensor<?x8xf32>, tensor<8x8xf32>
    // CHECK-NEXT: %[[SUM:.*]] = llama.all_reduce %[[O]] bias(%{{.*}} : tensor<8xf32>) : tensor<?x8xf32>
    // CHECK: llama.residual %{{.*}}, %[[SUM]]
    %o = llama.linear %m, %wo bias(%bo : tensor<8xf32>) : tensor<?x16xf32>, tensor<8x16xf32>
    %x1 = llama.residual %x, %o : tensor<?x8xf32>
    %wu = llama.get_weight @up[%l] : tensor<12x8xf32>
    %u = llama.linear %x1, %wu : tensor<?x8xf32>, tensor<12x8xf32>
    // CHECK: llama.activate relu %{{.*}} : tensor<?x6xf32>
    %h = llama.activate relu %u : tensor<?x12xf32>
    %wd = llama.get_weight @down[%l] : tensor<8x12xf32>
    // CHECK: %[[D:.*]] = llama.linear %{{.*}} : tensor<?x6xf32>, tensor<8x6xf32>
    // CHECK-NEXT: llama.all_reduce %[[D]] : tensor<?x8xf32>
    %d = llama.linear %h, %wd : tensor<?x12xf32>, tensor<8x12xf32>
    %x2 = llama.residual %x1, %d : tensor<?x8xf32>
    scf.yield %x2, %ka, %va : tensor<?x8xf32>, !cache, !cache
  }
  %h = llama.get_weight @head : tensor<16x8xf32>
  // CHECK: llama.head %{{.*}} : tensor<?x8xf32>, tensor<8x8xf32>
  %logits = llama.head %x, %h : tensor<?x8xf32>, tensor<16x8xf32>
  return %logits, %k2, %v2 : tensor<?x16xf32>, !cache, !cache
}

// -----

// Norms of all heads together: one sum over ranks has the squares of both, the
// mean is over all heads, and a rank has a part of the weights.
// CHECK: @q : tensor<8x8xf32> from "q" split rows
// CHECK: @q_norm : tensor<8xf32> from "q_norm" split rows
// CHECK: @k : tensor<4x8xf32> from "k" split rows
!cache = tensor<1x2x32x4xf32>
llama.weight @q : tensor<16x8xf32> from "q"
llama.weight @q_norm : tensor<16xf32> from "q_norm"
llama.weight @k : tensor<8x8xf32> from "k"
// CHECK-LABEL: func @forward
func.func @forward(%x: tensor<?x8xf32>, %position: index, %keys: !cache, %values: !cache) -> (!cache, !cache) {
  %c0 = arith.constant 0 : index
  %t = tensor.dim %x, %c0 : tensor<?x8xf32>
  %wq = llama.get_weight @q : tensor<16x8xf32>
  // CHECK: %[[Q:.*]] = llama.linear
  %q1 = llama.linear %x, %wq : tensor<?x8xf32>, tensor<16x8xf32>
  %nq = llama.get_weight @q_norm : tensor<16xf32>
  // CHECK: %[[K:.*]] = llama.linear
  // CHECK: %[[PART:.*]] = llama.square_sums %[[Q]], %[[K]] : tensor<?x8xf32>, tensor<?x4xf32>
  // CHECK-NEXT: %[[SUMS:.*]] = llama.all_reduce %[[PART]] : tensor<?x2xf32>
  // CHECK-NEXT: llama.rmsnorm %[[Q]], %{{.*}} squares(%[[SUMS]] : tensor<?x2xf32>) {eps = {{.*}}, round_once, size = 16 : i64} : tensor<?x8xf32>, tensor<8xf32>
  %q2 = llama.rmsnorm %q1, %nq {eps = 1.0e-5, round_once} : tensor<?x16xf32>, tensor<16xf32>
  %q3 = tensor.expand_shape %q2 [[0], [1, 2]] output_shape [%t, 4, 4] : tensor<?x16xf32> into tensor<?x4x4xf32>
  %wk = llama.get_weight @k : tensor<8x8xf32>
  %k1 = llama.linear %x, %wk : tensor<?x8xf32>, tensor<8x8xf32>
  // CHECK: llama.rmsnorm %[[K]] squares(%[[SUMS]] : tensor<?x2xf32>) {column = 1 : i64, eps = {{.*}}, size = 8 : i64} : tensor<?x4xf32>
  %k2 = llama.rmsnorm %k1 {eps = 1.0e-5} : tensor<?x8xf32>
  %k3 = tensor.expand_shape %k2 [[0], [1, 2]] output_shape [%t, 2, 4] : tensor<?x8xf32> into tensor<?x2x4xf32>
  %k = llama.kv_append %k3 into %keys[%c0] at %position : tensor<?x2x4xf32> into !cache
  %v = llama.kv_append %k3 into %values[%c0] at %position : tensor<?x2x4xf32> into !cache
  %a = llama.gqa %q3, %k, %v[%c0] at %position {scale = 0.5, causal} : tensor<?x4x4xf32>, !cache
  return %k, %v : !cache, !cache
}

// -----

// Factors of adapters: B has a part of the rows, or A of the columns, whose product
// ranks sum.
// CHECK: @up_a : tensor<2x8xf32> from "up.lora_A" adapter
// CHECK: @up_b : tensor<6x2xf32> from "up.lora_B" split rows adapter
// CHECK: @down_a : tensor<2x6xf32> from "down.lora_A" split cols adapter
// CHECK: @down_b : tensor<8x2xf32> from "down.lora_B" adapter
llama.weight @up : tensor<12x8xf32> from "up"
llama.weight @up_a : tensor<2x8xf32> from "up.lora_A" adapter
llama.weight @up_b : tensor<12x2xf32> from "up.lora_B" adapter
llama.weight @down : tensor<8x12xf32> from "down"
llama.weight @down_a : tensor<2x12xf32> from "down.lora_A" adapter
llama.weight @down_b : tensor<8x2xf32> from "down.lora_B" adapter
// CHECK-LABEL: func @forward
func.func @forward(%x: tensor<?x8xf32>) -> tensor<?x8xf32> {
  %up = llama.get_weight @up : tensor<12x8xf32>
  %up_a = llama.get_weight @up_a : tensor<2x8xf32>
  %up_b = llama.get_weight @up_b : tensor<12x2xf32>
  %down = llama.get_weight @down : tensor<8x12xf32>
  %down_a = llama.get_weight @down_a : tensor<2x12xf32>
  %down_b = llama.get_weight @down_b : tensor<8x2xf32>
  %u = llama.linear %x, %up : tensor<?x8xf32>, tensor<12x8xf32>
  // CHECK: llama.linear %{{.*}} : tensor<?x8xf32>, tensor<2x8xf32>
  %ua = llama.linear %x, %up_a : tensor<?x8xf32>, tensor<2x8xf32>
  // CHECK: llama.linear %{{.*}} : tensor<?x2xf32>, tensor<6x2xf32>
  %ub = llama.linear %ua, %up_b : tensor<?x2xf32>, tensor<12x2xf32>
  // CHECK: llama.residual %{{.*}} : tensor<?x6xf32>
  %us = llama.residual %u, %ub : tensor<?x12xf32>
  %h = llama.activate relu %us : tensor<?x12xf32>
  // CHECK: llama.all_reduce %{{.*}} : tensor<?x8xf32>
  %d = llama.linear %h, %down : tensor<?x12xf32>, tensor<8x12xf32>
  // CHECK: %[[A:.*]] = llama.linear %{{.*}} : tensor<?x6xf32>, tensor<2x6xf32>
  // CHECK-NEXT: %[[SUM:.*]] = llama.all_reduce %[[A]] : tensor<?x2xf32>
  %da = llama.linear %h, %down_a : tensor<?x12xf32>, tensor<2x12xf32>
  // CHECK: llama.linear %[[SUM]], %{{.*}} : tensor<?x2xf32>, tensor<8x2xf32>
  %db = llama.linear %da, %down_b : tensor<?x2xf32>, tensor<8x2xf32>
  %ds = llama.residual %d, %db : tensor<?x8xf32>
  return %ds : tensor<?x8xf32>
}

// -----

// A rank has a share of each expert, and of each expert's biases. Ranks add up what a
// token's experts compute together.
// CHECK: @router : tensor<4x8xf32> from "r"{{$}}
// CHECK: @gate experts : tensor<4x6x8xf32> from "e.{}.gate" split rows
// CHECK: @up experts : tensor<4x6x8xf32> from "e.up" rows 12 of 24 split rows
// CHECK: @up_bias : tensor<4x6xf32> from "e.up.bias" split cols
// CHECK: @down experts : tensor<4x8x6xf32> from "e.{}.down" split cols
llama.weight @router : tensor<4x8xf32> from "r"
llama.weight @gate experts : tensor<4x12x8xf32> from "e.{}.gate"
llama.weight @up experts : tensor<4x12x8xf32> from "e.up" rows 12 of 24
llama.weight @up_bias : tensor<4x12xf32> from "e.up.bias"
llama.weight @down experts : tensor<4x8x12xf32> from "e.{}.down"
// CHECK-LABEL: func @forward
func.func @forward(%x: tensor<?x8xf32>) -> tensor<?x8xf32> {
  %wr = llama.get_weight @router : tensor<4x8xf32>
  %wg = llama.get_weight @gate : tensor<4x12x8xf32>
  %wu = llama.get_weight @up : tensor<4x12x8xf32>
  %bu = llama.get_weight @up_bias : tensor<4x12xf32>
  %wd = llama.get_weight @down : tensor<4x8x12xf32>
  %r = llama.linear %x, %wr as f32 : tensor<?x8xf32>, tensor<4x8xf32>
  %e, %w = llama.route %r top 2 : tensor<?x4xf32>
  %g = llama.expert_linear %x, %wg[%e] : tensor<?x8xf32>, tensor<4x12x8xf32>, tensor<?x2xi32>
  %u = llama.expert_linear %x, %wu[%e] bias(%bu : tensor<4x12xf32>) : tensor<?x8xf32>, tensor<4x12x8xf32>, tensor<?x2xi32>
  // CHECK: llama.swiglu %{{.*}} : tensor<?x2x6xf32>
  %h = llama.swiglu %g, %u : tensor<?x2x12xf32>
  // CHECK: %[[D:.*]] = llama.expert_linear {{.*}} : tensor<?x2x6xf32>, tensor<4x8x6xf32>, tensor<?x2xi32>
  // CHECK: %[[C:.*]] = llama.combine %{{.*}}, %[[D]]
  // CHECK-NEXT: %[[SUM:.*]] = llama.all_reduce %[[C]] : tensor<?x8xf32>
  // CHECK: llama.residual %{{.*}}, %[[SUM]]
  %d = llama.expert_linear %h, %wd[%e] : tensor<?x2x12xf32>, tensor<4x8x12xf32>, tensor<?x2xi32>
  %c = llama.combine %w, %d : tensor<?x2xf32>, tensor<?x2x8xf32>
  %y = llama.residual %x, %c : tensor<?x8xf32>
  return %y : tensor<?x8xf32>
}

// -----

// A vocabulary that cannot be shared equally, and a table that is looked up,
// stay whole; so does what is no MLP.
// CHECK-NOT: split
llama.weight @e : tensor<16x8xf32> from "e"
llama.weight @odd : tensor<15x8xf32> from "odd"
func.func @forward(%ids: tensor<?xi32>, %position: index, %first: index) -> tensor<?x15xf32> {
  %e = llama.get_weight @e : tensor<16x8xf32>
  %x = llama.embed %ids, %e : tensor<?xi32>, tensor<16x8xf32>
  %y = llama.linear %x, %e : tensor<?x8xf32>, tensor<16x8xf32>
  %a = llama.activate relu %x : tensor<?x8xf32>
  %odd = llama.get_weight @odd : tensor<15x8xf32>
  %l = llama.head %a, %odd : tensor<?x8xf32>, tensor<15x8xf32>
  return %l : tensor<?x15xf32>
}

// -----

!cache = tensor<1x3x32x4xf32>
func.func @forward(%ids: tensor<?xi32>, %position: index, %q: tensor<?x3x4xf32>, %k: !cache) -> tensor<?x3x4xf32> {
  %c0 = arith.constant 0 : index
  // expected-error @below {{expected shards to divide 3 KV heads, got 2}}
  %a = llama.gqa %q, %k, %k[%c0] at %position {scale = 0.5} : tensor<?x3x4xf32>, !cache
  return %a : tensor<?x3x4xf32>
}

// -----

llama.weight @up : tensor<9x8xf32> from "up"
func.func @forward(%x: tensor<?x8xf32>, %w: tensor<8x9xf32>) -> tensor<?x8xf32> {
  %up = llama.get_weight @up : tensor<9x8xf32>
  %u = llama.linear %x, %up : tensor<?x8xf32>, tensor<9x8xf32>
  // expected-error @below {{expected shards to divide 9 of the MLP's intermediate size, got 2}}
  %h = llama.activate relu %u : tensor<?x9xf32>
  %d = llama.linear %h, %w : tensor<?x9xf32>, tensor<8x9xf32>
  return %d : tensor<?x8xf32>
}

// -----

// A norm without a sum over ranks of what they share.
llama.weight @up : tensor<8x8xf32> from "up"
func.func @forward(%x: tensor<?x8xf32>, %w: tensor<8x8xf32>) -> tensor<?x8xf32> {
  %up = llama.get_weight @up : tensor<8x8xf32>
  %u = llama.linear %x, %up : tensor<?x8xf32>, tensor<8x8xf32>
  // expected-error @below {{expected no llama.layernorm on a value that ranks share}}
  %n = llama.layernorm %u {eps = 1.0e-5} : tensor<?x8xf32>
  %h = llama.activate relu %n : tensor<?x8xf32>
  %d = llama.linear %h, %w : tensor<?x8xf32>, tensor<8x8xf32>
  return %d : tensor<?x8xf32>
}

// -----

func.func @forward(%x: tensor<?x8xf32>, %w: tensor<8x8xf32>) -> tensor<?x8xf32> {
  // expected-error @below {{expected a llama.linear to make a value that ranks share, got an argument}}
  %h = llama.activate relu %x : tensor<?x8xf32>
  %d = llama.linear %h, %w : tensor<?x8xf32>, tensor<8x8xf32>
  return %d : tensor<?x8xf32>
}

// -----

// A bias of each expert would be added by all ranks.
llama.weight @up experts : tensor<4x12x8xf32> from "e.{}.up"
llama.weight @down experts : tensor<4x8x12xf32> from "e.{}.down"
func.func @forward(%x: tensor<?x8xf32>, %e: tensor<?x2xi32>, %w: tensor<?x2xf32>, %b: tensor<4x8xf32>) -> tensor<?x8xf32> {
  %wu = llama.get_weight @up : tensor<4x12x8xf32>
  %wd = llama.get_weight @down : tensor<4x8x12xf32>
  %u = llama.expert_linear %x, %wu[%e] : tensor<?x8xf32>, tensor<4x12x8xf32>, tensor<?x2xi32>
  %h = llama.swiglu %u, %u : tensor<?x2x12xf32>
  // expected-error @below {{expected only a llama.combine to read a product with experts that ranks share, and no bias}}
  %d = llama.expert_linear %h, %wd[%e] bias(%b : tensor<4x8xf32>) : tensor<?x2x12xf32>, tensor<4x8x12xf32>, tensor<?x2xi32>
  %c = llama.combine %w, %d : tensor<?x2xf32>, tensor<?x2x8xf32>
  return %c : tensor<?x8xf32>
}

// -----

// One weight, whole here and shared there.
llama.weight @up : tensor<8x8xf32> from "up"
func.func @forward(%x: tensor<?x8xf32>) -> tensor<?x8xf32> {
  %up = llama.get_weight @up : tensor<8x8xf32>
  %u = llama.linear %x, %up : tensor<?x8xf32>, tensor<8x8xf32>
  %h = llama.activate relu %u : tensor<?x8xf32>
  // expected-error @below {{expected no reader of the whole weight @up, which ranks share}}
  %again = llama.get_weight @up : tensor<8x8xf32>
  %other = llama.linear %x, %again : tensor<?x8xf32>, tensor<8x8xf32>
  return %other : tensor<?x8xf32>
}

// -----

// expected-error @below {{expected a program to split over ranks: @forward without @encode, not split yet}}
module attributes {llama.shards = 2 : i64} {
  func.func @forward(%x: tensor<?x8xf32>) -> tensor<?x8xf32> {
    return %x : tensor<?x8xf32>
  }
}

// -----

// Latent attention: each rank has the whole cache and the rows for it, and the
// queries, matrices and values of its heads.
// CHECK: llama.weight @qb : tensor<10x8xf32> from "qb" split rows
// CHECK: llama.weight @kva : tensor<6x8xf32> from "kva"
// CHECK-NOT: split
// CHECK: llama.weight @kvb : tensor<14x4xf32> from "kvb" split rows
// CHECK: llama.weight @out : tensor<8x8xf32> from "out" split cols
llama.weight @qb : tensor<20x8xf32> from "qb"
llama.weight @kva : tensor<6x8xf32> from "kva"
llama.weight @kvb : tensor<28x4xf32> from "kvb"
llama.weight @out : tensor<8x16xf32> from "out"
// CHECK: func.func @forward(%{{.*}}: tensor<1x1x32x6xf32>)
func.func @forward(%x: tensor<?x8xf32>, %position: index, %c: tensor<1x1x32x6xf32>) -> (tensor<?x8xf32>, tensor<1x1x32x6xf32>) {
  %c0 = arith.constant 0 : index
  %n = tensor.dim %x, %c0 : tensor<?x8xf32>
  %qb = llama.get_weight @qb : tensor<20x8xf32>
  %kva = llama.get_weight @kva : tensor<6x8xf32>
  %kvb = llama.get_weight @kvb : tensor<28x4xf32>
  %out = llama.get_weight @out : tensor<8x16xf32>
  %q = llama.linear %x, %qb : tensor<?x8xf32>, tensor<20x8xf32>
  // CHECK: tensor.expand_shape %{{.*}} output_shape [%{{.*}}, 2, 5] : tensor<?x10xf32> into tensor<?x2x5xf32>
  %heads = tensor.expand_shape %q [[0], [1, 2]] output_shape [%n, 4, 5] : tensor<?x20xf32> into tensor<?x4x5xf32>
  // CHECK: %[[ROW:.*]] = llama.linear %{{.*}} : tensor<?x8xf32>, tensor<6x8xf32>
  %row = llama.linear %x, %kva : tensor<?x8xf32>, tensor<6x8xf32>
  %rows = tensor.expand_shape %row [[0], [1, 2]] output_shape [%n, 1, 6] : tensor<?x6xf32> into tensor<?x1x6xf32>
  %k = llama.kv_append %rows into %c[%c0] at %position : tensor<?x1x6xf32> into tensor<1x1x32x6xf32>
  // CHECK: tensor.expand_shape %{{.*}} output_shape [2, 7, 4] : tensor<14x4xf32> into tensor<2x7x4xf32>
  %w = tensor.expand_shape %kvb [[0, 1], [2]] output_shape [4, 7, 4] : tensor<28x4xf32> into tensor<4x7x4xf32>
  // CHECK: tensor.extract_slice %{{.*}}[0, 0, 0] [2, 3, 4]
  %wk = tensor.extract_slice %w[0, 0, 0] [4, 3, 4] [1, 1, 1] : tensor<4x7x4xf32> to tensor<4x3x4xf32>
  // CHECK: tensor.extract_slice %{{.*}}[0, 3, 0] [2, 4, 4]
  %wv = tensor.extract_slice %w[0, 3, 0] [4, 4, 4] [1, 1, 1] : tensor<4x7x4xf32> to tensor<4x4x4xf32>
  %plain = tensor.extract_slice %heads[0, 0, 0] [%n, 4, 3] [1, 1, 1] : tensor<?x4x5xf32> to tensor<?x4x3xf32>
  %turned = tensor.extract_slice %heads[0, 0, 3] [%n, 4, 2] [1, 1, 1] : tensor<?x4x5xf32> to tensor<?x4x2xf32>
  %0 = llama.head_linear %plain, %wk transposed : tensor<?x4x3xf32>, tensor<4x3x4xf32>
  // CHECK: tensor.concat dim(2) {{.*}} -> tensor<?x2x6xf32>
  %1 = tensor.concat dim(2) %0, %turned : (tensor<?x4x4xf32>, tensor<?x4x2xf32>) -> tensor<?x4x6xf32>
  // CHECK: llama.gqa {{.*}} : tensor<?x2x6xf32>, tensor<1x1x32x6xf32>
  %o = llama.gqa %1, %k, %k[%c0] at %position values 4 {scale = 0.5, causal} : tensor<?x4x6xf32>, tensor<1x1x32x6xf32>
  // CHECK: llama.head_linear {{.*}} : tensor<?x2x4xf32>, tensor<2x4x4xf32>
  %v = llama.head_linear %o, %wv : tensor<?x4x4xf32>, tensor<4x4x4xf32>
  %flat = tensor.collapse_shape %v [[0], [1, 2]] : tensor<?x4x4xf32> into tensor<?x16xf32>
  // CHECK: llama.all_reduce
  %y = llama.linear %flat, %out : tensor<?x16xf32>, tensor<8x16xf32>
  return %y, %k : tensor<?x8xf32>, tensor<1x1x32x6xf32>
}

// -----

!cache = tensor<1x1x32x4xf32>
func.func @forward(%ids: tensor<?xi32>, %position: index, %q: tensor<?x3x4xf32>, %k: !cache) -> tensor<?x3x4xf32> {
  %c0 = arith.constant 0 : index
  // expected-error @below {{expected shards to divide 3 heads, got 2}}
  %a = llama.gqa %q, %k, %k[%c0] at %position {scale = 0.5} : tensor<?x3x4xf32>, !cache
  return %a : tensor<?x3x4xf32>
}
