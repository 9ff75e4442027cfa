// Every op parses and prints the same. The first case of each is the example
// of its documentation.
// RUN: cria-opt %s | cria-opt | FileCheck %s
// RUN: cria-opt %s --mlir-print-op-generic | cria-opt | FileCheck %s
// RUN: cria-opt %s --emit-bytecode | cria-opt | FileCheck %s

// CHECK: llama.weight @embed_tokens : tensor<128256x2048xbf16> from "model.embed_tokens.weight"
llama.weight @embed_tokens : tensor<128256x2048xbf16> from "model.embed_tokens.weight"
// CHECK: llama.weight @q_proj[16] : tensor<2048x2048xbf16> from "model.layers.{}.self_attn.q_proj.weight"
llama.weight @q_proj[16] : tensor<2048x2048xbf16> from "model.layers.{}.self_attn.q_proj.weight"
// CHECK: llama.weight @k_proj[32] : tensor<1024x3072xbf16> from "model.layers.{}.self_attn.qkv_proj.weight" rows 3072 of 5120
llama.weight @k_proj[32] : tensor<1024x3072xbf16> from "model.layers.{}.self_attn.qkv_proj.weight" rows 3072 of 5120
// CHECK: llama.weight @q_proj_lora_a[16] : tensor<8x2048xbf16> from "model.layers.{}.self_attn.q_proj.lora_A.weight" adapter
llama.weight @q_proj_lora_a[16] : tensor<8x2048xbf16> from "model.layers.{}.self_attn.q_proj.lora_A.weight" adapter
// CHECK: llama.weight @experts_up[48] experts : tensor<128x768x2048xbf16> from "model.layers.{}.mlp.experts.{}.up_proj.weight"
llama.weight @experts_up[48] experts : tensor<128x768x2048xbf16> from "model.layers.{}.mlp.experts.{}.up_proj.weight"
// CHECK: llama.weight @experts_down[24] experts : tensor<32x1024x512xbf16> from "model.layers.{}.block_sparse_moe.output_linear.weight"
llama.weight @experts_down[24] experts : tensor<32x1024x512xbf16> from "model.layers.{}.block_sparse_moe.output_linear.weight"
// CHECK: llama.weight @c_fc[12] : tensor<3072x768xf32> from "h.{}.mlp.c_fc.weight" transposed
llama.weight @c_fc[12] : tensor<3072x768xf32> from "h.{}.mlp.c_fc.weight" transposed
// CHECK: llama.weight @patches : tensor<1x588xf32> from "patches" input
llama.weight @patches : tensor<1x588xf32> from "patches" input
// CHECK: llama.weight @router[5] : tensor<64x2560xbf16> from "model.layers.{}.mlp.gate.weight" {first = 1 : i64, layers = array<i64: 1, 3, 5>}
llama.weight @router[5] : tensor<64x2560xbf16> from "model.layers.{}.mlp.gate.weight" {first = 1 : i64, layers = array<i64: 1, 3, 5>}
// CHECK: llama.weight @stacked experts : tensor<4x8x16xf32> from "stacked" rows 8 of 16
llama.weight @stacked experts : tensor<4x8x16xf32> from "stacked" rows 8 of 16
// CHECK: llama.weight @o_proj[16] : tensor<2048x2048x!llama.blocks<q8_0>> from "model.layers.{}.self_attn.o_proj.weight"
llama.weight @o_proj[16] : tensor<2048x2048x!llama.blocks<q8_0>> from "model.layers.{}.self_attn.o_proj.weight"
// CHECK: llama.weight @lm_head : tensor<128256x2048x!llama.blocks<q4_0>> from "lm_head.weight" or @embed_tokens
llama.weight @lm_head : tensor<128256x2048x!llama.blocks<q4_0>> from "lm_head.weight" or @embed_tokens
// CHECK: llama.weight @late[2] : tensor<8xf16> from "l.{}.w" {first = 3 : i64}
llama.weight @late[2] : tensor<8xf16> from "l.{}.w" {first = 3 : i64}

// CHECK: llama.rope_table @rope {inv_freq = array<f32: 1.000000e+00, 1.000000e-01>, positions = 512 : i64}
llama.rope_table @rope {positions = 512 : i64, inv_freq = array<f32: 1.0, 0.1>}
// CHECK: llama.rope_table @long {{{.*}}long_inv_freq = array<f32: 5.000000e-01, 0.00999999977>, original = 128 : i64, positions = 512 : i64, recompute, scale = 1.190000e+00 : f64}
llama.rope_table @long {positions = 512 : i64, inv_freq = array<f32: 1.0, 0.1>, original = 128 : i64, long_inv_freq = array<f32: 0.5, 0.01>, scale = 1.19 : f64, recompute}
// CHECK: llama.rope_table @dynamic {growth = 4.000000e+00 : f64, {{.*}}original = 128 : i64, positions = 512 : i64, theta = 1.000000e+04 : f64}
llama.rope_table @dynamic {positions = 512 : i64, inv_freq = array<f32: 1.0, 0.01>, original = 128 : i64, growth = 4.0 : f64, theta = 10000.0 : f64}
// CHECK: llama.rope_table @scaled {{.*}} scale = 1.190000e+00 : f64}
llama.rope_table @scaled {positions = 8 : i64, inv_freq = array<f32: 1.0>, scale = 1.19 : f64}

// CHECK-LABEL: func @get_weight
func.func @get_weight(%layer: index) {
  // CHECK: llama.get_weight @q_proj[%{{.*}}] : tensor<2048x2048xbf16>
  %w = llama.get_weight @q_proj[%layer] : tensor<2048x2048xbf16>
  // CHECK: llama.get_weight @embed_tokens : tensor<128256x2048xbf16>
  %e = llama.get_weight @embed_tokens : tensor<128256x2048xbf16>
  return
}

// CHECK-LABEL: func @get_rope
func.func @get_rope() {
  // CHECK: %{{.*}}, %{{.*}} = llama.get_rope @rope : tensor<512x2xf32>
  %cos, %sin = llama.get_rope @rope : tensor<512x2xf32>
  return
}

// CHECK-LABEL: func @embed
func.func @embed(%ids: tensor<?xi32>, %table: tensor<512x64xbf16>, %blocks: tensor<512x64x!llama.blocks<q8_0>>)
    -> tensor<?x64xbf16> {
  // CHECK: llama.embed %{{.*}}, %{{.*}} : tensor<?xi32>, tensor<512x64xbf16>
  %x = llama.embed %ids, %table : tensor<?xi32>, tensor<512x64xbf16>
  // CHECK: llama.embed %{{.*}}, %{{.*}} {scale = 8.000000e+00 : f64} : tensor<?xi32>, tensor<512x64xbf16>
  %y = llama.embed %ids, %table {scale = 8.0 : f64} : tensor<?xi32>, tensor<512x64xbf16>
  // CHECK: %{{.*}} = llama.embed %{{.*}}, %{{.*}} as bf16 : tensor<?xi32>, tensor<512x64x!llama.blocks<q8_0>>
  %z = llama.embed %ids, %blocks as bf16 : tensor<?xi32>, tensor<512x64x!llama.blocks<q8_0>>
  return %x : tensor<?x64xbf16>
}

// CHECK-LABEL: func @rmsnorm
func.func @rmsnorm(%x: tensor<?x64xbf16>, %weight: tensor<64xbf16>, %heads: tensor<?x8x8xbf16>, %head_weight: tensor<8xbf16>, %sums: tensor<?x2xf32>) {
  // CHECK: llama.rmsnorm %{{.*}}, %{{.*}} {eps = 1.000000e-05 : f64} : tensor<?x64xbf16>, tensor<64xbf16>
  %y = llama.rmsnorm %x, %weight {eps = 1.0e-05} : tensor<?x64xbf16>, tensor<64xbf16>
  // CHECK: llama.rmsnorm %{{.*}}, %{{.*}} {eps = {{.*}}, round_once, unit_offset} : tensor<?x64xbf16>, tensor<64xbf16>
  %o = llama.rmsnorm %x, %weight {eps = 1.0e-06, round_once, unit_offset} : tensor<?x64xbf16>, tensor<64xbf16>
  // CHECK: llama.rmsnorm %{{.*}}, %{{.*}} {eps = {{.*}}} : tensor<?x8x8xbf16>, tensor<8xbf16>
  %q = llama.rmsnorm %heads, %head_weight {eps = 1.0e-06} : tensor<?x8x8xbf16>, tensor<8xbf16>
  // CHECK: llama.rmsnorm %{{.*}} {eps = 1.000000e-03 : f64} : tensor<?x64xbf16>
  %z = llama.rmsnorm %x {eps = 1.0e-03} : tensor<?x64xbf16>
  // CHECK: llama.rmsnorm %{{.*}}, %{{.*}} squares(%{{.*}} : tensor<?x2xf32>) {column = 1 : i64, eps = {{.*}}, size = 128 : i64} : tensor<?x64xbf16>, tensor<64xbf16>
  %s = llama.rmsnorm %x, %weight squares(%sums : tensor<?x2xf32>) {eps = 1.0e-06, column = 1, size = 128} : tensor<?x64xbf16>, tensor<64xbf16>
  return
}

// CHECK-LABEL: func @square_sums
func.func @square_sums(%q: tensor<?x64xbf16>, %k: tensor<?x32xbf16>) -> tensor<?x2xf32> {
  // CHECK: llama.square_sums %{{.*}}, %{{.*}} : tensor<?x64xbf16>, tensor<?x32xbf16>
  %s = llama.square_sums %q, %k : tensor<?x64xbf16>, tensor<?x32xbf16>
  return %s : tensor<?x2xf32>
}

// CHECK-LABEL: func @layernorm
func.func @layernorm(%x: tensor<?x64xf32>, %g: tensor<64xf32>, %b: tensor<64xf32>) {
  // CHECK: llama.layernorm %{{.*}} gamma(%{{.*}} : tensor<64xf32>) beta(%{{.*}} : tensor<64xf32>) {eps = 1.000000e-05 : f64} : tensor<?x64xf32>
  %y = llama.layernorm %x gamma(%g : tensor<64xf32>) beta(%b : tensor<64xf32>) {eps = 1.0e-05} : tensor<?x64xf32>
  // CHECK: llama.layernorm %{{.*}} gamma(%{{.*}} : tensor<64xf32>) {eps
  %z = llama.layernorm %x gamma(%g : tensor<64xf32>) {eps = 1.0e-05} : tensor<?x64xf32>
  // CHECK: llama.layernorm %{{.*}} gamma(%{{.*}} : tensor<64xf32>) {eps = 1.000000e-05 : f64, unit_offset}
  %o = llama.layernorm %x gamma(%g : tensor<64xf32>) {eps = 1.0e-05, unit_offset} : tensor<?x64xf32>
  // CHECK: llama.layernorm %{{.*}} {eps
  %w = llama.layernorm %x {eps = 1.0e-05} : tensor<?x64xf32>
  return
}

// CHECK-LABEL: func @linear
func.func @linear(%x: tensor<?x64xbf16>, %w: tensor<172x64xbf16>, %b: tensor<172xbf16>)
    -> tensor<?x172xbf16> {
  // CHECK: llama.linear %{{.*}}, %{{.*}} : tensor<?x64xbf16>, tensor<172x64xbf16>
  %y = llama.linear %x, %w : tensor<?x64xbf16>, tensor<172x64xbf16>
  // CHECK: llama.linear %{{.*}}, %{{.*}} bias(%{{.*}} : tensor<172xbf16>) : tensor<?x64xbf16>, tensor<172x64xbf16>
  %z = llama.linear %x, %w bias(%b : tensor<172xbf16>) : tensor<?x64xbf16>, tensor<172x64xbf16>
  // CHECK: llama.linear %{{.*}}, %{{.*}} as f32 : tensor<?x64xbf16>, tensor<172x64xbf16>
  %r = llama.linear %x, %w as f32 : tensor<?x64xbf16>, tensor<172x64xbf16>
  // CHECK: llama.residual %{{.*}}, %{{.*}} : tensor<?x172xf32>
  %f = llama.residual %r, %r : tensor<?x172xf32>
  return %z : tensor<?x172xbf16>
}

// CHECK-LABEL: func @head
func.func @head(%x: tensor<?x64xbf16>, %w: tensor<512x64xbf16>) -> tensor<?x512xf32> {
  // CHECK: llama.head %{{.*}}, %{{.*}} : tensor<?x64xbf16>, tensor<512x64xbf16>
  %logits = llama.head %x, %w : tensor<?x64xbf16>, tensor<512x64xbf16>
  // CHECK: llama.head %{{.*}}, %{{.*}} {scale = 1.250000e-01 : f64, softcap = 3.000000e+01 : f64} : tensor<?x64xbf16>, tensor<512x64xbf16>
  %capped = llama.head %x, %w {scale = 0.125 : f64, softcap = 30.0 : f64} : tensor<?x64xbf16>, tensor<512x64xbf16>
  return %logits : tensor<?x512xf32>
}

// CHECK-LABEL: func @biased_head
func.func @biased_head(%x: tensor<?x64xbf16>, %w: tensor<512x64xbf16>, %b: tensor<512xbf16>) {
  // CHECK: llama.head %{{.*}}, %{{.*}} bias(%{{.*}} : tensor<512xbf16>) : tensor<?x64xbf16>, tensor<512x64xbf16>
  %logits = llama.head %x, %w bias(%b : tensor<512xbf16>) : tensor<?x64xbf16>, tensor<512x64xbf16>
  return
}

// CHECK-LABEL: func @activate
func.func @activate(%x: tensor<?x172xf32>) {
  // CHECK: llama.activate relu %{{.*}} : tensor<?x172xf32>
  %h = llama.activate relu %x : tensor<?x172xf32>
  return
}

// CHECK-LABEL: func @add_rows
func.func @add_rows(%x: tensor<?x64xf32>, %table: tensor<512x64xf32>, %row: tensor<1x64xf32>, %position: index) {
  // CHECK: llama.add_rows %{{.*}}, %{{.*}} at %{{.*}} : tensor<?x64xf32>, tensor<512x64xf32>
  %p = llama.add_rows %x, %table at %position : tensor<?x64xf32>, tensor<512x64xf32>
  // CHECK: llama.add_rows %{{.*}}, %{{.*}} at %{{.*}} {first = 4 : i64} : tensor<?x64xf32>, tensor<512x64xf32>
  %f = llama.add_rows %x, %table at %position {first = 4} : tensor<?x64xf32>, tensor<512x64xf32>
  // CHECK: llama.add_rows %{{.*}}, %{{.*}} : tensor<?x64xf32>, tensor<1x64xf32>
  %s = llama.add_rows %p, %row : tensor<?x64xf32>, tensor<1x64xf32>
  return
}

// CHECK-LABEL: func @set_rows
func.func @set_rows(%x: tensor<?x64xf32>, %class: tensor<1x64xf32>, %registers: tensor<4x64xf32>, %position: index) {
  // CHECK: llama.set_rows %{{.*}}, %{{.*}} at %{{.*}} : tensor<?x64xf32>, tensor<1x64xf32>
  %c = llama.set_rows %x, %class at %position : tensor<?x64xf32>, tensor<1x64xf32>
  // CHECK: llama.set_rows %{{.*}}, %{{.*}} at %{{.*}} {first = 1 : i64} : tensor<?x64xf32>, tensor<4x64xf32>
  %r = llama.set_rows %x, %registers at %position {first = 1} : tensor<?x64xf32>, tensor<4x64xf32>
  return
}

// CHECK-LABEL: func @swiglu
func.func @swiglu(%gate: tensor<?x172xbf16>, %up: tensor<?x172xbf16>, %gates: tensor<?x2x96xbf16>, %ups: tensor<?x2x96xbf16>, %one: tensor<?x1xbf16>) {
  // CHECK: llama.swiglu %{{.*}}, %{{.*}} : tensor<?x172xbf16>
  %h = llama.swiglu %gate, %up : tensor<?x172xbf16>
  // CHECK: llama.swiglu %{{.*}}, %{{.*}} activation gelu_tanh : tensor<?x172xbf16>
  %g = llama.swiglu %gate, %up activation gelu_tanh : tensor<?x172xbf16>
  // CHECK: llama.swiglu %{{.*}}, %{{.*}} : tensor<?x2x96xbf16>
  %e = llama.swiglu %gates, %ups : tensor<?x2x96xbf16>
  // CHECK: llama.swiglu %{{.*}}, %{{.*}} activation sigmoid : tensor<?x1xbf16>, tensor<?x172xbf16>
  %s = llama.swiglu %one, %up activation sigmoid : tensor<?x1xbf16>, tensor<?x172xbf16>
  // CHECK: llama.swiglu %{{.*}}, %{{.*}} {alpha = 1.702000e+00 : f64, limit = 7.000000e+00 : f64} : tensor<?x172xbf16>
  %c = llama.swiglu %gate, %up {limit = 7.0 : f64, alpha = 1.702 : f64} : tensor<?x172xbf16>
  return
}

// CHECK-LABEL: func @route
func.func @route(%logits: tensor<?x8xf32>, %c: tensor<8xf32>) -> (tensor<?x2xi32>, tensor<?x2xf32>) {
  // CHECK: %[[E:.*]], %[[W:.*]] = llama.route %{{.*}} top 2 normalize sum : tensor<?x8xf32>
  %experts, %weights = llama.route %logits top 2 normalize sum : tensor<?x8xf32>
  // CHECK: llama.route %{{.*}} top 2 score sigmoid correction(%{{.*}} : tensor<8xf32>) normalize sum {floor = 9.99{{.*}}E-21 : f64, groups = 4 : i64, kept_groups = 2 : i64, scale = 2.500000e+00 : f64} : tensor<?x8xf32>
  %e, %w = llama.route %logits top 2 score sigmoid correction(%c : tensor<8xf32>) normalize sum {floor = 1.0e-20 : f64, scale = 2.5 : f64, groups = 4, kept_groups = 2} : tensor<?x8xf32>
  // CHECK: llama.route %{{.*}} top 2 normalize sum factors(%{{.*}} : tensor<8xf32>) {logit_scale = 1.250000e-01 : f64} : tensor<?x8xf32>
  %f, %v = llama.route %logits top 2 normalize sum factors(%c : tensor<8xf32>) {logit_scale = 0.125 : f64} : tensor<?x8xf32>
  // CHECK: return %[[E]], %[[W]]
  return %experts, %weights : tensor<?x2xi32>, tensor<?x2xf32>
}

// CHECK-LABEL: func @expert_linear
func.func @expert_linear(%x: tensor<?x64xbf16>, %up: tensor<8x96x64xbf16>, %down: tensor<8x64x96xbf16>, %experts: tensor<?x2xi32>, %bias: tensor<8x96xbf16>) -> tensor<?x2x64xbf16> {
  // CHECK: llama.expert_linear %{{.*}}, %{{.*}}[%{{.*}}] : tensor<?x64xbf16>, tensor<8x96x64xbf16>, tensor<?x2xi32>
  %u = llama.expert_linear %x, %up[%experts] : tensor<?x64xbf16>, tensor<8x96x64xbf16>, tensor<?x2xi32>
  // CHECK: llama.expert_linear %{{.*}}, %{{.*}}[%{{.*}}] : tensor<?x2x96xbf16>, tensor<8x64x96xbf16>, tensor<?x2xi32>
  %d = llama.expert_linear %u, %down[%experts] : tensor<?x2x96xbf16>, tensor<8x64x96xbf16>, tensor<?x2xi32>
  // CHECK: llama.expert_linear %{{.*}}, %{{.*}}[%{{.*}}] bias(%{{.*}} : tensor<8x96xbf16>) : tensor<?x64xbf16>, tensor<8x96x64xbf16>, tensor<?x2xi32>
  %b = llama.expert_linear %x, %up[%experts] bias(%bias : tensor<8x96xbf16>) : tensor<?x64xbf16>, tensor<8x96x64xbf16>, tensor<?x2xi32>
  return %d : tensor<?x2x64xbf16>
}

// CHECK-LABEL: func @combine
func.func @combine(%weights: tensor<?x2xf32>, %d: tensor<?x2x64xbf16>) -> tensor<?x64xbf16> {
  // CHECK: llama.combine %{{.*}}, %{{.*}} : tensor<?x2xf32>, tensor<?x2x64xbf16>
  %y = llama.combine %weights, %d : tensor<?x2xf32>, tensor<?x2x64xbf16>
  return %y : tensor<?x64xbf16>
}

// CHECK-LABEL: func @residual
func.func @residual(%x: tensor<?x64xbf16>, %update: tensor<?x64xbf16>, %f: tensor<64xbf16>, %one: tensor<1xbf16>) {
  // CHECK: llama.residual %{{.*}}, %{{.*}} : tensor<?x64xbf16>
  %x1 = llama.residual %x, %update : tensor<?x64xbf16>
  // CHECK: llama.residual %{{.*}}, %{{.*}} {scale = 2.200000e-01 : f64} : tensor<?x64xbf16>
  %x2 = llama.residual %x, %update {scale = 0.22 : f64} : tensor<?x64xbf16>
  // CHECK: llama.residual %{{.*}}, %{{.*}} factor(%{{.*}} : tensor<64xbf16>) : tensor<?x64xbf16>
  %x3 = llama.residual %x, %update factor(%f : tensor<64xbf16>) : tensor<?x64xbf16>
  // CHECK: llama.residual %{{.*}}, %{{.*}} times(%{{.*}} : tensor<1xbf16>) : tensor<?x64xbf16>
  %x4 = llama.residual %x, %update times(%one : tensor<1xbf16>) : tensor<?x64xbf16>
  return
}

// CHECK-LABEL: func @rope_half
func.func @rope_half(%q: tensor<?x8x8xbf16>, %wide: tensor<?x8x16xbf16>, %cos: tensor<512x4xf32>, %sin: tensor<512x4xf32>, %position: index) {
  // CHECK: llama.rope %{{.*}}, %{{.*}}, %{{.*}} at %{{.*}} : tensor<?x8x8xbf16>, tensor<512x4xf32>
  %r = llama.rope %q, %cos, %sin at %position : tensor<?x8x8xbf16>, tensor<512x4xf32>
  // CHECK: llama.rope {{.*}} : tensor<?x8x16xbf16>, tensor<512x4xf32>
  %p = llama.rope %wide, %cos, %sin at %position : tensor<?x8x16xbf16>, tensor<512x4xf32>
  // CHECK: llama.rope {{.*}} {interleaved} : tensor<?x8x8xbf16>, tensor<512x4xf32>
  %i = llama.rope %q, %cos, %sin at %position {interleaved} : tensor<?x8x8xbf16>, tensor<512x4xf32>
  return
}

// CHECK-LABEL: func @kv_append
func.func @kv_append(%rows: tensor<?x4x8xbf16>, %k: tensor<5x4x512x8xbf16>, %layer: index, %position: index) {
  // CHECK: llama.kv_append %{{.*}} into %{{.*}}[%{{.*}}] at %{{.*}} : tensor<?x4x8xbf16> into tensor<5x4x512x8xbf16>
  %k1 = llama.kv_append %rows into %k[%layer] at %position : tensor<?x4x8xbf16> into tensor<5x4x512x8xbf16>
  // CHECK: llama.kv_append %{{.*}} into %{{.*}}[%{{.*}}] at %{{.*}} {ring} : tensor<?x4x8xbf16> into tensor<5x4x512x8xbf16>
  %r1 = llama.kv_append %rows into %k[%layer] at %position {ring} : tensor<?x4x8xbf16> into tensor<5x4x512x8xbf16>
  return
}

// CHECK-LABEL: func @cache_in_blocks
func.func @cache_in_blocks(%wide: tensor<?x4x64xbf16>, %q: tensor<5x4x512x64x!llama.blocks<q8_0>>, %layer: index, %position: index) {
  // CHECK: llama.kv_append %{{.*}} into %{{.*}}[%{{.*}}] at %{{.*}} : tensor<?x4x64xbf16> into tensor<5x4x512x64x!llama.blocks<q8_0>>
  %q1 = llama.kv_append %wide into %q[%layer] at %position : tensor<?x4x64xbf16> into tensor<5x4x512x64x!llama.blocks<q8_0>>
  // CHECK: llama.gqa {{.*}} : tensor<?x4x64xbf16>, tensor<5x4x512x64x!llama.blocks<q8_0>>
  %o = llama.gqa %wide, %q1, %q[%layer] at %position {scale = 0.125} : tensor<?x4x64xbf16>, tensor<5x4x512x64x!llama.blocks<q8_0>>
  return
}

// CHECK-LABEL: func @positions
func.func @positions(%x: tensor<?x64xf32>, %learned: tensor<512x64xf32>, %q: tensor<?x8x8xbf16>, %cos: tensor<512x4xf32>, %sin: tensor<512x4xf32>, %positions: tensor<?xi32>) {
  // CHECK: llama.add_rows %{{.*}}, %{{.*}} at (%{{.*}} : tensor<?xi32>) : tensor<?x64xf32>, tensor<512x64xf32>
  %r = llama.add_rows %x, %learned at (%positions : tensor<?xi32>) : tensor<?x64xf32>, tensor<512x64xf32>
  // CHECK: llama.rope %{{.*}}, %{{.*}}, %{{.*}} at (%{{.*}} : tensor<?xi32>) : tensor<?x8x8xbf16>, tensor<512x4xf32>
  %s = llama.rope %q, %cos, %sin at (%positions : tensor<?xi32>) : tensor<?x8x8xbf16>, tensor<512x4xf32>
  return
}

// CHECK-LABEL: func @paged
func.func @paged(%q: tensor<?x8x8xbf16>, %rows: tensor<?x4x8xbf16>, %paged: tensor<?x5x4x16x8xbf16>, %pv: tensor<?x5x4x16x8xbf16>, %pages: tensor<32xi32>, %tables: tensor<?x32xi32>, %layer: index, %position: index, %positions: tensor<?xi32>) {
  // CHECK: llama.kv_append %{{.*}} into %{{.*}}[%{{.*}}] at %{{.*}} pages(%{{.*}} : tensor<32xi32>) : tensor<?x4x8xbf16> into tensor<?x5x4x16x8xbf16>
  %p1 = llama.kv_append %rows into %paged[%layer] at %position pages(%pages : tensor<32xi32>) : tensor<?x4x8xbf16> into tensor<?x5x4x16x8xbf16>
  // CHECK: llama.kv_append %{{.*}} into %{{.*}}[%{{.*}}] at (%{{.*}} : tensor<?xi32>) pages(%{{.*}} : tensor<?x32xi32>) : tensor<?x4x8xbf16> into tensor<?x5x4x16x8xbf16>
  %t1 = llama.kv_append %rows into %paged[%layer] at (%positions : tensor<?xi32>) pages(%tables : tensor<?x32xi32>) : tensor<?x4x8xbf16> into tensor<?x5x4x16x8xbf16>
  // CHECK: llama.gqa {{.*}} at %{{.*}} pages(%{{.*}} : tensor<32xi32>) {causal, scale = 1.250000e-01 : f64} : tensor<?x8x8xbf16>, tensor<?x5x4x16x8xbf16>
  %p = llama.gqa %q, %p1, %pv[%layer] at %position pages(%pages : tensor<32xi32>) {scale = 0.125, causal} : tensor<?x8x8xbf16>, tensor<?x5x4x16x8xbf16>
  // CHECK: llama.gqa {{.*}} at (%{{.*}} : tensor<?xi32>) pages(%{{.*}} : tensor<?x32xi32>) {causal, scale = 1.250000e-01 : f64} : tensor<?x8x8xbf16>, tensor<?x5x4x16x8xbf16>
  %t = llama.gqa %q, %t1, %pv[%layer] at (%positions : tensor<?xi32>) pages(%tables : tensor<?x32xi32>) {scale = 0.125, causal} : tensor<?x8x8xbf16>, tensor<?x5x4x16x8xbf16>
  return
}

// CHECK-LABEL: func @gqa
func.func @gqa(%q: tensor<?x8x8xbf16>, %k: tensor<5x4x512x8xbf16>, %v: tensor<5x4x512x8xbf16>, %sinks: tensor<8xbf16>, %layer: index, %position: index) {
  // CHECK: llama.gqa %{{.*}}, %{{.*}}, %{{.*}}[%{{.*}}] at %{{.*}} {causal, scale = 1.250000e-01 : f64} : tensor<?x8x8xbf16>, tensor<5x4x512x8xbf16>
  %o = llama.gqa %q, %k, %v[%layer] at %position {scale = 0.125, causal} : tensor<?x8x8xbf16>, tensor<5x4x512x8xbf16>
  // CHECK: llama.gqa {{.*}} {scale = 1.250000e-01 : f64, window = 64 : i64}
  %w = llama.gqa %q, %k, %v[%layer] at %position {scale = 0.125, window = 64 : i64} : tensor<?x8x8xbf16>, tensor<5x4x512x8xbf16>
  // CHECK: llama.gqa {{.*}} {causal, ring, scale = 1.250000e-01 : f64, window = 64 : i64}
  %r = llama.gqa %q, %k, %v[%layer] at %position {scale = 0.125, causal, window = 64 : i64, ring} : tensor<?x8x8xbf16>, tensor<5x4x512x8xbf16>
  // CHECK: llama.gqa {{.*}} at %{{.*}} over %{{.*}} {scale = 1.250000e-01 : f64}
  %x = llama.gqa %q, %k, %v[%layer] at %position over %layer {scale = 0.125} : tensor<?x8x8xbf16>, tensor<5x4x512x8xbf16>
  // CHECK: llama.gqa {{.*}} at %{{.*}} ahead %{{.*}} {causal, scale = 1.250000e-01 : f64}
  %i = llama.gqa %q, %k, %v[%layer] at %position ahead %layer {scale = 0.125, causal} : tensor<?x8x8xbf16>, tensor<5x4x512x8xbf16>
  // CHECK: llama.gqa {{.*}} {scale = 1.250000e-01 : f64, softcap = 5.000000e+01 : f64}
  %c = llama.gqa %q, %k, %v[%layer] at %position {scale = 0.125, softcap = 50.0} : tensor<?x8x8xbf16>, tensor<5x4x512x8xbf16>
  // CHECK: llama.gqa {{.*}} at %{{.*}} sinks(%{{.*}} : tensor<8xbf16>) {causal, scale = 1.250000e-01 : f64}
  %s = llama.gqa %q, %k, %v[%layer] at %position sinks(%sinks : tensor<8xbf16>) {scale = 0.125, causal} : tensor<?x8x8xbf16>, tensor<5x4x512x8xbf16>
  // CHECK: %[[L:.*]] = llama.gqa %{{.*}}, %[[K:.*]], %[[K]][%{{.*}}] at %{{.*}} values 6 {causal, scale = 1.250000e-01 : f64} : tensor<?x8x8xbf16>, tensor<5x4x512x8xbf16>
  %l = llama.gqa %q, %k, %k[%layer] at %position values 6 {scale = 0.125, causal} : tensor<?x8x8xbf16>, tensor<5x4x512x8xbf16>
  // CHECK: tensor.collapse_shape %[[L]] {{.*}} : tensor<?x8x6xbf16>
  %f = tensor.collapse_shape %l [[0], [1, 2]] : tensor<?x8x6xbf16> into tensor<?x48xbf16>
  return
}

// CHECK-LABEL: func @head_linear
func.func @head_linear(%x: tensor<?x4x16xbf16>, %w: tensor<4x24x16xbf16>) {
  // CHECK: %[[V:.*]] = llama.head_linear %{{.*}}, %{{.*}} : tensor<?x4x16xbf16>, tensor<4x24x16xbf16>
  %v = llama.head_linear %x, %w : tensor<?x4x16xbf16>, tensor<4x24x16xbf16>
  // CHECK: llama.head_linear %[[V]], %{{.*}} transposed : tensor<?x4x24xbf16>, tensor<4x24x16xbf16>
  %u = llama.head_linear %v, %w transposed : tensor<?x4x24xbf16>, tensor<4x24x16xbf16>
  return
}

// CHECK-LABEL: func @kernel
func.func @kernel(%x: tensor<?x64xbf16>, %w: tensor<64xbf16>, %wg: tensor<172x64xbf16>, %wu: tensor<172x64xbf16>)
    -> tensor<?x172xbf16> {
  // CHECK: %[[H:.*]] = llama.kernel "layers_mlp_gate_up" -> tensor<?x172xbf16> {
  // CHECK: llama.yield %{{.*}} : tensor<?x172xbf16>
  %h = llama.kernel "layers_mlp_gate_up" -> tensor<?x172xbf16> {
    %n = llama.rmsnorm %x, %w {eps = 1.0e-05} : tensor<?x64xbf16>, tensor<64xbf16>
    %g = llama.linear %n, %wg : tensor<?x64xbf16>, tensor<172x64xbf16>
    %u = llama.linear %n, %wu : tensor<?x64xbf16>, tensor<172x64xbf16>
    %s = llama.swiglu %g, %u : tensor<?x172xbf16>
    llama.yield %s : tensor<?x172xbf16>
  }
  // CHECK: llama.kernel "nothing" {
  // CHECK-NEXT: llama.yield
  llama.kernel "nothing" {
    llama.yield
  }
  // CHECK: return %[[H]]
  return %h : tensor<?x172xbf16>
}

// CHECK-LABEL: func @causal_conv
func.func @causal_conv(%x: tensor<?x64xbf16>, %w: tensor<64x3xbf16>, %b: tensor<64xbf16>, %s: tensor<5x2x64xbf16>, %p: tensor<?x5x2x64xbf16>, %layer: index, %position: index, %positions: tensor<?xi32>, %states: tensor<?x2xi32>) {
  // CHECK: %{{.*}}, %{{.*}} = llama.causal_conv %{{.*}}, %{{.*}}, %{{.*}}[%{{.*}}] at %{{.*}} : tensor<?x64xbf16>, tensor<64x3xbf16>, tensor<5x2x64xbf16>
  %y, %s1 = llama.causal_conv %x, %w, %s[%layer] at %position : tensor<?x64xbf16>, tensor<64x3xbf16>, tensor<5x2x64xbf16>
  // CHECK: llama.causal_conv %{{.*}}, %{{.*}}, %{{.*}}[%{{.*}}] at %{{.*}} bias(%{{.*}} : tensor<64xbf16>) : tensor<?x64xbf16>, tensor<64x3xbf16>, tensor<5x2x64xbf16>
  %z, %s2 = llama.causal_conv %x, %w, %s[%layer] at %position bias(%b : tensor<64xbf16>) : tensor<?x64xbf16>, tensor<64x3xbf16>, tensor<5x2x64xbf16>
  // CHECK: llama.causal_conv %{{.*}}, %{{.*}}, %{{.*}}[%{{.*}}] at (%{{.*}} : tensor<?xi32>) states(%{{.*}} : tensor<?x2xi32>) : tensor<?x64xbf16>, tensor<64x3xbf16>, tensor<?x5x2x64xbf16>
  %u, %p1 = llama.causal_conv %x, %w, %p[%layer] at (%positions : tensor<?xi32>) states(%states : tensor<?x2xi32>) : tensor<?x64xbf16>, tensor<64x3xbf16>, tensor<?x5x2x64xbf16>
  return
}

// CHECK-LABEL: func @delta_rule
func.func @delta_rule(%q: tensor<?x2x8xbf16>, %k: tensor<?x2x8xbf16>, %v: tensor<?x4x16xbf16>, %dt: tensor<?x4xf32>, %beta: tensor<?x4xf32>, %a: tensor<4xf32>, %s: tensor<5x32x16xf32>, %p: tensor<?x5x32x16xf32>, %layer: index, %position: index, %positions: tensor<?xi32>, %states: tensor<?x2xi32>) {
  // CHECK: %{{.*}}, %{{.*}} = llama.delta_rule %{{.*}}, %{{.*}}, %{{.*}} step(%{{.*}}, %{{.*}}) decay(%{{.*}} : tensor<4xf32>) on %{{.*}}[%{{.*}}] at %{{.*}} {eps = 9.9999999999999995E-7 : f64, scale = 1.250000e-01 : f64} : tensor<?x2x8xbf16>, tensor<?x4x16xbf16>, tensor<?x4xf32>, tensor<5x32x16xf32>
  %o, %s1 = llama.delta_rule %q, %k, %v step(%dt, %beta) decay(%a : tensor<4xf32>) on %s[%layer] at %position {scale = 0.125 : f64, eps = 1.0e-06 : f64} : tensor<?x2x8xbf16>, tensor<?x4x16xbf16>, tensor<?x4xf32>, tensor<5x32x16xf32>
  // CHECK: llama.delta_rule {{.*}} at (%{{.*}} : tensor<?xi32>) states(%{{.*}} : tensor<?x2xi32>) {{.*}} tensor<?x5x32x16xf32>
  %u, %p1 = llama.delta_rule %q, %k, %v step(%dt, %beta) decay(%a : tensor<4xf32>) on %p[%layer] at (%positions : tensor<?xi32>) states(%states : tensor<?x2xi32>) {scale = 0.125 : f64, eps = 1.0e-06 : f64} : tensor<?x2x8xbf16>, tensor<?x4x16xbf16>, tensor<?x4xf32>, tensor<?x5x32x16xf32>
  return
}

// CHECK-LABEL: func @selective_scan
func.func @selective_scan(%c: tensor<?x2x8xbf16>, %b: tensor<?x2x8xbf16>, %x: tensor<?x4x16xbf16>, %dt: tensor<?x4xf32>, %a: tensor<4xf32>, %d: tensor<4xbf16>, %s: tensor<5x32x16xf32>, %p: tensor<?x5x32x16xf32>, %layer: index, %position: index, %positions: tensor<?xi32>, %states: tensor<?x2xi32>) {
  // CHECK: %{{.*}}, %{{.*}} = llama.selective_scan %{{.*}}, %{{.*}}, %{{.*}} step(%{{.*}}) decay(%{{.*}} : tensor<4xf32>) skip(%{{.*}} : tensor<4xbf16>) on %{{.*}}[%{{.*}}] at %{{.*}} : tensor<?x2x8xbf16>, tensor<?x4x16xbf16>, tensor<?x4xf32>, tensor<5x32x16xf32>
  %o, %s1 = llama.selective_scan %c, %b, %x step(%dt) decay(%a : tensor<4xf32>) skip(%d : tensor<4xbf16>) on %s[%layer] at %position : tensor<?x2x8xbf16>, tensor<?x4x16xbf16>, tensor<?x4xf32>, tensor<5x32x16xf32>
  // CHECK: llama.selective_scan {{.*}} at (%{{.*}} : tensor<?xi32>) states(%{{.*}} : tensor<?x2xi32>) {{.*}} tensor<?x5x32x16xf32>
  %u, %p1 = llama.selective_scan %c, %b, %x step(%dt) decay(%a : tensor<4xf32>) skip(%d : tensor<4xbf16>) on %p[%layer] at (%positions : tensor<?xi32>) states(%states : tensor<?x2xi32>) : tensor<?x2x8xbf16>, tensor<?x4x16xbf16>, tensor<?x4xf32>, tensor<?x5x32x16xf32>
  return
}

// A module of several ranks: weights are shares, and products are summed.
// CHECK: module attributes {llama.shards = 2 : i64}
module attributes {llama.shards = 2 : i64} {
  // CHECK: llama.weight @embed_tokens : tensor<512x64xbf16>
  llama.weight @embed_tokens : tensor<512x64xbf16> from "model.embed_tokens.weight"
  // CHECK: llama.weight @v_proj[16] : tensor<256x2048xbf16> from "model.layers.{}.self_attn.v_proj.weight" split rows
  llama.weight @v_proj[16] : tensor<256x2048xbf16> from "model.layers.{}.self_attn.v_proj.weight" split rows
  // CHECK: llama.weight @down_proj[16] : tensor<2048x4096xbf16> from "model.layers.{}.mlp.down_proj.weight" split cols
  llama.weight @down_proj[16] : tensor<2048x4096xbf16> from "model.layers.{}.mlp.down_proj.weight" split cols
  // CHECK: llama.weight private @gate_proj[16] : tensor<8192x2048xbf16> from "model.layers.{}.mlp.gate_proj.weight"
  llama.weight private @gate_proj[16] : tensor<8192x2048xbf16> from "model.layers.{}.mlp.gate_proj.weight"
  // CHECK: llama.rope_table private @private {
  llama.rope_table private @private {positions = 512 : i64, inv_freq = array<f32: 1.0, 0.1>}
  // CHECK: llama.weight @k_proj[32] : tensor<512x3072xbf16> from "model.layers.{}.self_attn.qkv_proj.weight" rows 3072 of 5120 split rows
  llama.weight @k_proj[32] : tensor<512x3072xbf16> from "model.layers.{}.self_attn.qkv_proj.weight" rows 3072 of 5120 split rows
  // CHECK: llama.weight @lm_head : tensor<256x64xbf16> from "lm_head.weight" or @embed_tokens split rows
  llama.weight @lm_head : tensor<256x64xbf16> from "lm_head.weight" or @embed_tokens split rows

  // CHECK-LABEL: func @all_reduce
  func.func @all_reduce(%x: tensor<?x64xbf16>, %b: tensor<64xbf16>) {
    // CHECK: llama.all_reduce %{{.*}} : tensor<?x64xbf16>
    %y = llama.all_reduce %x : tensor<?x64xbf16>
    // CHECK: llama.all_reduce %{{.*}} bias(%{{.*}} : tensor<64xbf16>) : tensor<?x64xbf16>
    %z = llama.all_reduce %x bias(%b : tensor<64xbf16>) : tensor<?x64xbf16>
    return
  }
}
