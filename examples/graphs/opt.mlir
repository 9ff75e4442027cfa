// OPT (Zhang et al. 2022; OPTForCausalLM): a decoder with learned positions,
// layer norms in front, biases everywhere and a ReLU between the linears of its
// MLP. The head is the embedding. Position p is row p + 2 of the table.
!x = tensor<?x32xf32>
!heads = tensor<?x4x8xf32>
!cache = tensor<2x4x64x8xf32>
!v = tensor<32xf32>
!m = tensor<32x32xf32>

llama.weight @embed : tensor<96x32xf32> from "model.decoder.embed_tokens.weight"
llama.weight @positions : tensor<64x32xf32> from "model.decoder.embed_positions.weight" rows 2 of 66
llama.weight @attn_norm[2] : !v from "model.decoder.layers.{}.self_attn_layer_norm.weight"
llama.weight @attn_norm_bias[2] : !v from "model.decoder.layers.{}.self_attn_layer_norm.bias"
llama.weight @q[2] : !m from "model.decoder.layers.{}.self_attn.q_proj.weight"
llama.weight @q_bias[2] : !v from "model.decoder.layers.{}.self_attn.q_proj.bias"
llama.weight @k[2] : !m from "model.decoder.layers.{}.self_attn.k_proj.weight"
llama.weight @k_bias[2] : !v from "model.decoder.layers.{}.self_attn.k_proj.bias"
llama.weight @v[2] : !m from "model.decoder.layers.{}.self_attn.v_proj.weight"
llama.weight @v_bias[2] : !v from "model.decoder.layers.{}.self_attn.v_proj.bias"
llama.weight @o[2] : !m from "model.decoder.layers.{}.self_attn.out_proj.weight"
llama.weight @o_bias[2] : !v from "model.decoder.layers.{}.self_attn.out_proj.bias"
llama.weight @mlp_norm[2] : !v from "model.decoder.layers.{}.final_layer_norm.weight"
llama.weight @mlp_norm_bias[2] : !v from "model.decoder.layers.{}.final_layer_norm.bias"
llama.weight @fc1[2] : tensor<64x32xf32> from "model.decoder.layers.{}.fc1.weight"
llama.weight @fc1_bias[2] : tensor<64xf32> from "model.decoder.layers.{}.fc1.bias"
llama.weight @fc2[2] : tensor<32x64xf32> from "model.decoder.layers.{}.fc2.weight"
llama.weight @fc2_bias[2] : !v from "model.decoder.layers.{}.fc2.bias"
llama.weight @norm : !v from "model.decoder.final_layer_norm.weight"
llama.weight @norm_bias : !v from "model.decoder.final_layer_norm.bias"

func.func private @layer(%x: !x, %l: index, %k0: !cache, %v0: !cache, %n: index, %position: index) -> (!x, !cache, !cache) {
    %an = llama.get_weight @attn_norm[%l] : !v
    %anb = llama.get_weight @attn_norm_bias[%l] : !v
    %wq = llama.get_weight @q[%l] : !m
    %bq = llama.get_weight @q_bias[%l] : !v
    %wk = llama.get_weight @k[%l] : !m
    %bk = llama.get_weight @k_bias[%l] : !v
    %wv = llama.get_weight @v[%l] : !m
    %bv = llama.get_weight @v_bias[%l] : !v
    %wo = llama.get_weight @o[%l] : !m
    %bo = llama.get_weight @o_bias[%l] : !v
    %a = llama.layernorm %x gamma(%an : !v) beta(%anb : !v) {eps = 1.0e-05} : !x
    %q = llama.linear %a, %wq bias(%bq : !v) : !x, !m
    %k = llama.linear %a, %wk bias(%bk : !v) : !x, !m
    %v = llama.linear %a, %wv bias(%bv : !v) : !x, !m
    %qh = tensor.expand_shape %q [[0], [1, 2]] output_shape [%n, 4, 8] : !x into !heads
    %kh = tensor.expand_shape %k [[0], [1, 2]] output_shape [%n, 4, 8] : !x into !heads
    %vh = tensor.expand_shape %v [[0], [1, 2]] output_shape [%n, 4, 8] : !x into !heads
    %k1 = llama.kv_append %kh into %k0[%l] at %position : !heads into !cache
    %v1 = llama.kv_append %vh into %v0[%l] at %position : !heads into !cache
    %oh = llama.gqa %qh, %k1, %v1[%l] at %position {causal, scale = 0.35355339059327373} : !heads, !cache
    %om = tensor.collapse_shape %oh [[0], [1, 2]] : !heads into !x
    %o = llama.linear %om, %wo bias(%bo : !v) : !x, !m
    %x1 = llama.residual %x, %o : !x

    %mn = llama.get_weight @mlp_norm[%l] : !v
    %mnb = llama.get_weight @mlp_norm_bias[%l] : !v
    %w1 = llama.get_weight @fc1[%l] : tensor<64x32xf32>
    %b1 = llama.get_weight @fc1_bias[%l] : tensor<64xf32>
    %w2 = llama.get_weight @fc2[%l] : tensor<32x64xf32>
    %b2 = llama.get_weight @fc2_bias[%l] : !v
    %m = llama.layernorm %x1 gamma(%mn : !v) beta(%mnb : !v) {eps = 1.0e-05} : !x
    %u = llama.linear %m, %w1 bias(%b1 : tensor<64xf32>) : !x, tensor<64x32xf32>
    %h = llama.activate relu %u : tensor<?x64xf32>
    %d = llama.linear %h, %w2 bias(%b2 : !v) : tensor<?x64xf32>, tensor<32x64xf32>
    %x2 = llama.residual %x1, %d : !x
    return %x2, %k1, %v1 : !x, !cache, !cache
}

func.func @forward(%ids: tensor<?xi32>, %position: index, %first: index, %keys: !cache, %values: !cache)
    -> (tensor<?x96xf32>, !cache, !cache) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %n = tensor.dim %ids, %c0 : tensor<?xi32>
  %table = llama.get_weight @embed : tensor<96x32xf32>
  %rows = llama.get_weight @positions : tensor<64x32xf32>
  %e = llama.embed %ids, %table : tensor<?xi32>, tensor<96x32xf32>
  %x0 = llama.add_rows %e, %rows at %position : !x, tensor<64x32xf32>
  %r:3 = scf.for %l = %c0 to %c2 step %c1 iter_args(%x = %x0, %k0 = %keys, %v0 = %values) -> (!x, !cache, !cache) {
    %y2:3 = func.call @layer(%x, %l, %k0, %v0, %n, %position) : (!x, index, !cache, !cache, index, index) -> (!x, !cache, !cache)
    scf.yield %y2#0, %y2#1, %y2#2 : !x, !cache, !cache
  }
  %count = arith.subi %n, %first : index
  %last = tensor.extract_slice %r#0[%first, 0] [%count, 32] [1, 1] : !x to !x
  %fn = llama.get_weight @norm : !v
  %fnb = llama.get_weight @norm_bias : !v
  %y = llama.layernorm %last gamma(%fn : !v) beta(%fnb : !v) {eps = 1.0e-05} : !x
  %logits = llama.head %y, %table : !x, tensor<96x32xf32>
  return %logits, %r#1, %r#2 : tensor<?x96xf32>, !cache, !cache
}
