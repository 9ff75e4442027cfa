// Mixtral (Jiang et al. 2024; MixtralForCausalLM): each token is multiplied with the
// matrices of 2 of 4 experts, which a router chooses. Each expert has tensors of its
// own; the program reads them where they lie.
!x = tensor<?x32xf32>
!heads = tensor<?x4x8xf32>
!kv = tensor<?x16xf32>
!kv_heads = tensor<?x2x8xf32>
!cache = tensor<2x2x64x8xf32>
!v = tensor<32xf32>
!m = tensor<32x32xf32>
!kv_m = tensor<16x32xf32>
!table = tensor<96x32xf32>
!router = tensor<4x32xf32>
!up = tensor<4x24x32xf32>
!down = tensor<4x32x24xf32>
!inner = tensor<?x2x24xf32>
!each = tensor<?x2x32xf32>
!chosen = tensor<?x2xi32>
// These stay f32 in a model of another type.
!f32_shares = tensor<?x2xf32>
!f32_routes = tensor<?x4xf32>
!f32_rope = tensor<64x4xf32>
!f32_logits = tensor<?x96xf32>

llama.weight @embed : !table from "model.embed_tokens.weight"
llama.weight @attn_norm[2] : !v from "model.layers.{}.input_layernorm.weight"
llama.weight @q[2] : !m from "model.layers.{}.self_attn.q_proj.weight"
llama.weight @k[2] : !kv_m from "model.layers.{}.self_attn.k_proj.weight"
llama.weight @v[2] : !kv_m from "model.layers.{}.self_attn.v_proj.weight"
llama.weight @o[2] : !m from "model.layers.{}.self_attn.o_proj.weight"
llama.weight @mlp_norm[2] : !v from "model.layers.{}.post_attention_layernorm.weight"
llama.weight @router[2] : !router from "model.layers.{}.block_sparse_moe.gate.weight"
llama.weight @experts_gate[2] experts : !up from "model.layers.{}.block_sparse_moe.experts.{}.w1.weight"
llama.weight @experts_up[2] experts : !up from "model.layers.{}.block_sparse_moe.experts.{}.w3.weight"
llama.weight @experts_down[2] experts : !down from "model.layers.{}.block_sparse_moe.experts.{}.w2.weight"
llama.weight @norm : !v from "model.norm.weight"
llama.weight @head : !table from "lm_head.weight"
llama.rope_table @rope {positions = 64 : i64, inv_freq = array<f32: 1.0, 0.0316227766, 0.001, 3.16227766e-05>}

func.func @forward(%ids: tensor<?xi32>, %position: index, %first: index, %keys: !cache, %values: !cache)
    -> (!f32_logits, !cache, !cache) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %n = tensor.dim %ids, %c0 : tensor<?xi32>
  %table = llama.get_weight @embed : !table
  %cos, %sin = llama.get_rope @rope : !f32_rope
  %x0 = llama.embed %ids, %table : tensor<?xi32>, !table
  %r:3 = scf.for %l = %c0 to %c2 step %c1 iter_args(%x = %x0, %k0 = %keys, %v0 = %values) -> (!x, !cache, !cache) {
    %an = llama.get_weight @attn_norm[%l] : !v
    %wq = llama.get_weight @q[%l] : !m
    %wk = llama.get_weight @k[%l] : !kv_m
    %wv = llama.get_weight @v[%l] : !kv_m
    %wo = llama.get_weight @o[%l] : !m
    %a = llama.rmsnorm %x, %an {eps = 1.0e-05} : !x, !v
    %q = llama.linear %a, %wq : !x, !m
    %k = llama.linear %a, %wk : !x, !kv_m
    %v = llama.linear %a, %wv : !x, !kv_m
    %qh = tensor.expand_shape %q [[0], [1, 2]] output_shape [%n, 4, 8] : !x into !heads
    %kh = tensor.expand_shape %k [[0], [1, 2]] output_shape [%n, 2, 8] : !kv into !kv_heads
    %vh = tensor.expand_shape %v [[0], [1, 2]] output_shape [%n, 2, 8] : !kv into !kv_heads
    %qr = llama.rope %qh, %cos, %sin at %position : !heads, !f32_rope
    %kr = llama.rope %kh, %cos, %sin at %position : !kv_heads, !f32_rope
    %k1 = llama.kv_append %kr into %k0[%l] at %position : !kv_heads into !cache
    %v1 = llama.kv_append %vh into %v0[%l] at %position : !kv_heads into !cache
    %oh = llama.gqa %qr, %k1, %v1[%l] at %position {causal, scale = 0.35355339059327373} : !heads, !cache
    %om = tensor.collapse_shape %oh [[0], [1, 2]] : !heads into !x
    %o = llama.linear %om, %wo : !x, !m
    %x1 = llama.residual %x, %o : !x

    %mn = llama.get_weight @mlp_norm[%l] : !v
    %wr = llama.get_weight @router[%l] : !router
    %wg = llama.get_weight @experts_gate[%l] : !up
    %wu = llama.get_weight @experts_up[%l] : !up
    %wd = llama.get_weight @experts_down[%l] : !down
    %m = llama.rmsnorm %x1, %mn {eps = 1.0e-05} : !x, !v
    %routes = llama.linear %m, %wr as f32 : !x, !router
    %experts, %shares = llama.route %routes top 2 normalize sum : !f32_routes
    %g = llama.expert_linear %m, %wg[%experts] : !x, !up, !chosen
    %u = llama.expert_linear %m, %wu[%experts] : !x, !up, !chosen
    %h = llama.swiglu %g, %u : !inner
    %d = llama.expert_linear %h, %wd[%experts] : !inner, !down, !chosen
    %y = llama.combine %shares, %d : !f32_shares, !each
    %x2 = llama.residual %x1, %y : !x
    scf.yield %x2, %k1, %v1 : !x, !cache, !cache
  }
  %count = arith.subi %n, %first : index
  %last = tensor.extract_slice %r#0[%first, 0] [%count, 32] [1, 1] : !x to !x
  %fn = llama.get_weight @norm : !v
  %y = llama.rmsnorm %last, %fn {eps = 1.0e-05} : !x, !v
  %head = llama.get_weight @head : !table
  %logits = llama.head %y, %head : !x, !table
  return %logits, %r#1, %r#2 : !f32_logits, !cache, !cache
}
