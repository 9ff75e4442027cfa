// BART (Lewis et al. 2020; BartForConditionalGeneration): an encoder that reads
// the source once and leaves, for every layer of the decoder, the keys and values
// of its cross-attention; a decoder that attends to the text before and to the
// source. Norms stand behind the sums, the MLPs have a GELU, positions are learned
// (position p is row p + 2), and the head is the embedding. `final_logits_bias` of
// the checkpoint, zero unless its vocabulary was resized, is left out.
!x = tensor<?x32xf32>
!heads = tensor<?x4x8xf32>
!one = tensor<1x4x64x8xf32>
!cache = tensor<2x4x64x8xf32>
!v = tensor<32xf32>
!m = tensor<32x32xf32>

llama.weight @embed : tensor<96x32xf32> from "model.shared.weight"
llama.weight @enc_positions : tensor<64x32xf32> from "model.encoder.embed_positions.weight" rows 2 of 66
llama.weight @enc_embed_norm : !v from "model.encoder.layernorm_embedding.weight"
llama.weight @enc_embed_norm_bias : !v from "model.encoder.layernorm_embedding.bias"
llama.weight @enc_q[2] : !m from "model.encoder.layers.{}.self_attn.q_proj.weight"
llama.weight @enc_q_bias[2] : !v from "model.encoder.layers.{}.self_attn.q_proj.bias"
llama.weight @enc_k[2] : !m from "model.encoder.layers.{}.self_attn.k_proj.weight"
llama.weight @enc_k_bias[2] : !v from "model.encoder.layers.{}.self_attn.k_proj.bias"
llama.weight @enc_v[2] : !m from "model.encoder.layers.{}.self_attn.v_proj.weight"
llama.weight @enc_v_bias[2] : !v from "model.encoder.layers.{}.self_attn.v_proj.bias"
llama.weight @enc_o[2] : !m from "model.encoder.layers.{}.self_attn.out_proj.weight"
llama.weight @enc_o_bias[2] : !v from "model.encoder.layers.{}.self_attn.out_proj.bias"
llama.weight @enc_attn_norm[2] : !v from "model.encoder.layers.{}.self_attn_layer_norm.weight"
llama.weight @enc_attn_norm_bias[2] : !v from "model.encoder.layers.{}.self_attn_layer_norm.bias"
llama.weight @enc_fc1[2] : tensor<64x32xf32> from "model.encoder.layers.{}.fc1.weight"
llama.weight @enc_fc1_bias[2] : tensor<64xf32> from "model.encoder.layers.{}.fc1.bias"
llama.weight @enc_fc2[2] : tensor<32x64xf32> from "model.encoder.layers.{}.fc2.weight"
llama.weight @enc_fc2_bias[2] : !v from "model.encoder.layers.{}.fc2.bias"
llama.weight @enc_mlp_norm[2] : !v from "model.encoder.layers.{}.final_layer_norm.weight"
llama.weight @enc_mlp_norm_bias[2] : !v from "model.encoder.layers.{}.final_layer_norm.bias"
llama.weight @dec_positions : tensor<64x32xf32> from "model.decoder.embed_positions.weight" rows 2 of 66
llama.weight @dec_embed_norm : !v from "model.decoder.layernorm_embedding.weight"
llama.weight @dec_embed_norm_bias : !v from "model.decoder.layernorm_embedding.bias"
llama.weight @dec_q[2] : !m from "model.decoder.layers.{}.self_attn.q_proj.weight"
llama.weight @dec_q_bias[2] : !v from "model.decoder.layers.{}.self_attn.q_proj.bias"
llama.weight @dec_k[2] : !m from "model.decoder.layers.{}.self_attn.k_proj.weight"
llama.weight @dec_k_bias[2] : !v from "model.decoder.layers.{}.self_attn.k_proj.bias"
llama.weight @dec_v[2] : !m from "model.decoder.layers.{}.self_attn.v_proj.weight"
llama.weight @dec_v_bias[2] : !v from "model.decoder.layers.{}.self_attn.v_proj.bias"
llama.weight @dec_o[2] : !m from "model.decoder.layers.{}.self_attn.out_proj.weight"
llama.weight @dec_o_bias[2] : !v from "model.decoder.layers.{}.self_attn.out_proj.bias"
llama.weight @dec_attn_norm[2] : !v from "model.decoder.layers.{}.self_attn_layer_norm.weight"
llama.weight @dec_attn_norm_bias[2] : !v from "model.decoder.layers.{}.self_attn_layer_norm.bias"
llama.weight @dec_cross_q[2] : !m from "model.decoder.layers.{}.encoder_attn.q_proj.weight"
llama.weight @dec_cross_q_bias[2] : !v from "model.decoder.layers.{}.encoder_attn.q_proj.bias"
llama.weight @dec_cross_k[2] : !m from "model.decoder.layers.{}.encoder_attn.k_proj.weight"
llama.weight @dec_cross_k_bias[2] : !v from "model.decoder.layers.{}.encoder_attn.k_proj.bias"
llama.weight @dec_cross_v[2] : !m from "model.decoder.layers.{}.encoder_attn.v_proj.weight"
llama.weight @dec_cross_v_bias[2] : !v from "model.decoder.layers.{}.encoder_attn.v_proj.bias"
llama.weight @dec_cross_o[2] : !m from "model.decoder.layers.{}.encoder_attn.out_proj.weight"
llama.weight @dec_cross_o_bias[2] : !v from "model.decoder.layers.{}.encoder_attn.out_proj.bias"
llama.weight @dec_cross_attn_norm[2] : !v from "model.decoder.layers.{}.encoder_attn_layer_norm.weight"
llama.weight @dec_cross_attn_norm_bias[2] : !v from "model.decoder.layers.{}.encoder_attn_layer_norm.bias"
llama.weight @dec_fc1[2] : tensor<64x32xf32> from "model.decoder.layers.{}.fc1.weight"
llama.weight @dec_fc1_bias[2] : tensor<64xf32> from "model.decoder.layers.{}.fc1.bias"
llama.weight @dec_fc2[2] : tensor<32x64xf32> from "model.decoder.layers.{}.fc2.weight"
llama.weight @dec_fc2_bias[2] : !v from "model.decoder.layers.{}.fc2.bias"
llama.weight @dec_mlp_norm[2] : !v from "model.decoder.layers.{}.final_layer_norm.weight"
llama.weight @dec_mlp_norm_bias[2] : !v from "model.decoder.layers.{}.final_layer_norm.bias"

// The encoder's layers take turns in one layer of keys and values of their own:
// nothing reads them later.
func.func @encode(%ids: tensor<?xi32>, %position: index, %first: index, %source: index,
                  %ek: !one, %ev: !one, %ck: !cache, %cv: !cache, %k: !cache, %v: !cache)
    -> (!one, !one, !cache, !cache, !cache, !cache) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %n = tensor.dim %ids, %c0 : tensor<?xi32>
  %table = llama.get_weight @embed : tensor<96x32xf32>
  %enc_positions = llama.get_weight @enc_positions : tensor<64x32xf32>
  %enc_embed_norm = llama.get_weight @enc_embed_norm : !v
  %enc_embed_norm_bias = llama.get_weight @enc_embed_norm_bias : !v
  %e0 = llama.embed %ids, %table : tensor<?xi32>, tensor<96x32xf32>
  %e1 = llama.add_rows %e0, %enc_positions at %position : !x, tensor<64x32xf32>
  %x0 = llama.layernorm %e1 gamma(%enc_embed_norm : !v) beta(%enc_embed_norm_bias : !v) {eps = 1.0e-05} : !x
  %r:3 = scf.for %l = %c0 to %c2 step %c1 iter_args(%x = %x0, %k0 = %ek, %v0 = %ev) -> (!x, !one, !one) {
    %enc_q = llama.get_weight @enc_q[%l] : !m
    %enc_q_bias = llama.get_weight @enc_q_bias[%l] : !v
    %qx = llama.linear %x, %enc_q bias(%enc_q_bias : !v) : !x, !m
    %enc_k = llama.get_weight @enc_k[%l] : !m
    %enc_k_bias = llama.get_weight @enc_k_bias[%l] : !v
    %kx = llama.linear %x, %enc_k bias(%enc_k_bias : !v) : !x, !m
    %enc_v = llama.get_weight @enc_v[%l] : !m
    %enc_v_bias = llama.get_weight @enc_v_bias[%l] : !v
    %vx = llama.linear %x, %enc_v bias(%enc_v_bias : !v) : !x, !m
    %qh = tensor.expand_shape %qx [[0], [1, 2]] output_shape [%n, 4, 8] : !x into !heads
    %kh = tensor.expand_shape %kx [[0], [1, 2]] output_shape [%n, 4, 8] : !x into !heads
    %vh = tensor.expand_shape %vx [[0], [1, 2]] output_shape [%n, 4, 8] : !x into !heads
    %k1 = llama.kv_append %kh into %k0[%c0] at %position : !heads into !one
    %v1 = llama.kv_append %vh into %v0[%c0] at %position : !heads into !one
    %oh = llama.gqa %qh, %k1, %v1[%c0] at %position {scale = 0.35355339059327373} : !heads, !one
    %om = tensor.collapse_shape %oh [[0], [1, 2]] : !heads into !x
    %enc_o = llama.get_weight @enc_o[%l] : !m
    %enc_o_bias = llama.get_weight @enc_o_bias[%l] : !v
    %o = llama.linear %om, %enc_o bias(%enc_o_bias : !v) : !x, !m
    %s = llama.residual %x, %o : !x
    %enc_attn_norm = llama.get_weight @enc_attn_norm[%l] : !v
    %enc_attn_norm_bias = llama.get_weight @enc_attn_norm_bias[%l] : !v
    %x1 = llama.layernorm %s gamma(%enc_attn_norm : !v) beta(%enc_attn_norm_bias : !v) {eps = 1.0e-05} : !x
    %enc_fc1 = llama.get_weight @enc_fc1[%l] : tensor<64x32xf32>
    %enc_fc1_bias = llama.get_weight @enc_fc1_bias[%l] : tensor<64xf32>
    %u = llama.linear %x1, %enc_fc1 bias(%enc_fc1_bias : tensor<64xf32>) : !x, tensor<64x32xf32>
    %h = llama.activate gelu %u : tensor<?x64xf32>
    %enc_fc2 = llama.get_weight @enc_fc2[%l] : tensor<32x64xf32>
    %enc_fc2_bias = llama.get_weight @enc_fc2_bias[%l] : !v
    %d = llama.linear %h, %enc_fc2 bias(%enc_fc2_bias : !v) : tensor<?x64xf32>, tensor<32x64xf32>
    %sum = llama.residual %x1, %d : !x
    %enc_mlp_norm = llama.get_weight @enc_mlp_norm[%l] : !v
    %enc_mlp_norm_bias = llama.get_weight @enc_mlp_norm_bias[%l] : !v
    %x2 = llama.layernorm %sum gamma(%enc_mlp_norm : !v) beta(%enc_mlp_norm_bias : !v) {eps = 1.0e-05} : !x
    scf.yield %x2, %k1, %v1 : !x, !one, !one
  }
  %c:2 = scf.for %l = %c0 to %c2 step %c1 iter_args(%k0 = %ck, %v0 = %cv) -> (!cache, !cache) {
    %dec_cross_k = llama.get_weight @dec_cross_k[%l] : !m
    %dec_cross_k_bias = llama.get_weight @dec_cross_k_bias[%l] : !v
    %kx = llama.linear %r#0, %dec_cross_k bias(%dec_cross_k_bias : !v) : !x, !m
    %dec_cross_v = llama.get_weight @dec_cross_v[%l] : !m
    %dec_cross_v_bias = llama.get_weight @dec_cross_v_bias[%l] : !v
    %vx = llama.linear %r#0, %dec_cross_v bias(%dec_cross_v_bias : !v) : !x, !m
    %kh = tensor.expand_shape %kx [[0], [1, 2]] output_shape [%n, 4, 8] : !x into !heads
    %vh = tensor.expand_shape %vx [[0], [1, 2]] output_shape [%n, 4, 8] : !x into !heads
    %k1 = llama.kv_append %kh into %k0[%l] at %position : !heads into !cache
    %v1 = llama.kv_append %vh into %v0[%l] at %position : !heads into !cache
    scf.yield %k1, %v1 : !cache, !cache
  }
  return %r#1, %r#2, %c#0, %c#1, %k, %v : !one, !one, !cache, !cache, !cache, !cache
}

func.func @forward(%ids: tensor<?xi32>, %position: index, %first: index, %source: index,
                   %ek: !one, %ev: !one, %ck: !cache, %cv: !cache, %k: !cache, %v: !cache)
    -> (tensor<?x96xf32>, !one, !one, !cache, !cache, !cache, !cache) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %n = tensor.dim %ids, %c0 : tensor<?xi32>
  %table = llama.get_weight @embed : tensor<96x32xf32>
  %dec_positions = llama.get_weight @dec_positions : tensor<64x32xf32>
  %dec_embed_norm = llama.get_weight @dec_embed_norm : !v
  %dec_embed_norm_bias = llama.get_weight @dec_embed_norm_bias : !v
  %e0 = llama.embed %ids, %table : tensor<?xi32>, tensor<96x32xf32>
  %e1 = llama.add_rows %e0, %dec_positions at %position : !x, tensor<64x32xf32>
  %x0 = llama.layernorm %e1 gamma(%dec_embed_norm : !v) beta(%dec_embed_norm_bias : !v) {eps = 1.0e-05} : !x
  %r:3 = scf.for %l = %c0 to %c2 step %c1 iter_args(%x = %x0, %k0 = %k, %v0 = %v) -> (!x, !cache, !cache) {
    %dec_q = llama.get_weight @dec_q[%l] : !m
    %dec_q_bias = llama.get_weight @dec_q_bias[%l] : !v
    %qx = llama.linear %x, %dec_q bias(%dec_q_bias : !v) : !x, !m
    %dec_k = llama.get_weight @dec_k[%l] : !m
    %dec_k_bias = llama.get_weight @dec_k_bias[%l] : !v
    %kx = llama.linear %x, %dec_k bias(%dec_k_bias : !v) : !x, !m
    %dec_v = llama.get_weight @dec_v[%l] : !m
    %dec_v_bias = llama.get_weight @dec_v_bias[%l] : !v
    %vx = llama.linear %x, %dec_v bias(%dec_v_bias : !v) : !x, !m
    %qh = tensor.expand_shape %qx [[0], [1, 2]] output_shape [%n, 4, 8] : !x into !heads
    %kh = tensor.expand_shape %kx [[0], [1, 2]] output_shape [%n, 4, 8] : !x into !heads
    %vh = tensor.expand_shape %vx [[0], [1, 2]] output_shape [%n, 4, 8] : !x into !heads
    %k1 = llama.kv_append %kh into %k0[%l] at %position : !heads into !cache
    %v1 = llama.kv_append %vh into %v0[%l] at %position : !heads into !cache
    %oh = llama.gqa %qh, %k1, %v1[%l] at %position {causal, scale = 0.35355339059327373} : !heads, !cache
    %om = tensor.collapse_shape %oh [[0], [1, 2]] : !heads into !x
    %dec_o = llama.get_weight @dec_o[%l] : !m
    %dec_o_bias = llama.get_weight @dec_o_bias[%l] : !v
    %o = llama.linear %om, %dec_o bias(%dec_o_bias : !v) : !x, !m
    %s = llama.residual %x, %o : !x
    %dec_attn_norm = llama.get_weight @dec_attn_norm[%l] : !v
    %dec_attn_norm_bias = llama.get_weight @dec_attn_norm_bias[%l] : !v
    %x1 = llama.layernorm %s gamma(%dec_attn_norm : !v) beta(%dec_attn_norm_bias : !v) {eps = 1.0e-05} : !x

    %dec_cross_q = llama.get_weight @dec_cross_q[%l] : !m
    %dec_cross_q_bias = llama.get_weight @dec_cross_q_bias[%l] : !v
    %cq = llama.linear %x1, %dec_cross_q bias(%dec_cross_q_bias : !v) : !x, !m
    %cqh = tensor.expand_shape %cq [[0], [1, 2]] output_shape [%n, 4, 8] : !x into !heads
    %ch = llama.gqa %cqh, %ck, %cv[%l] at %position over %source {scale = 0.35355339059327373} : !heads, !cache
    %cm = tensor.collapse_shape %ch [[0], [1, 2]] : !heads into !x
    %dec_cross_o = llama.get_weight @dec_cross_o[%l] : !m
    %dec_cross_o_bias = llama.get_weight @dec_cross_o_bias[%l] : !v
    %co = llama.linear %cm, %dec_cross_o bias(%dec_cross_o_bias : !v) : !x, !m
    %cs = llama.residual %x1, %co : !x
    %dec_cross_attn_norm = llama.get_weight @dec_cross_attn_norm[%l] : !v
    %dec_cross_attn_norm_bias = llama.get_weight @dec_cross_attn_norm_bias[%l] : !v
    %x2 = llama.layernorm %cs gamma(%dec_cross_attn_norm : !v) beta(%dec_cross_attn_norm_bias : !v) {eps = 1.0e-05} : !x

    %dec_fc1 = llama.get_weight @dec_fc1[%l] : tensor<64x32xf32>
    %dec_fc1_bias = llama.get_weight @dec_fc1_bias[%l] : tensor<64xf32>
    %u = llama.linear %x2, %dec_fc1 bias(%dec_fc1_bias : tensor<64xf32>) : !x, tensor<64x32xf32>
    %h = llama.activate gelu %u : tensor<?x64xf32>
    %dec_fc2 = llama.get_weight @dec_fc2[%l] : tensor<32x64xf32>
    %dec_fc2_bias = llama.get_weight @dec_fc2_bias[%l] : !v
    %d = llama.linear %h, %dec_fc2 bias(%dec_fc2_bias : !v) : tensor<?x64xf32>, tensor<32x64xf32>
    %sum = llama.residual %x2, %d : !x
    %dec_mlp_norm = llama.get_weight @dec_mlp_norm[%l] : !v
    %dec_mlp_norm_bias = llama.get_weight @dec_mlp_norm_bias[%l] : !v
    %x3 = llama.layernorm %sum gamma(%dec_mlp_norm : !v) beta(%dec_mlp_norm_bias : !v) {eps = 1.0e-05} : !x
    scf.yield %x3, %k1, %v1 : !x, !cache, !cache
  }
  %count = arith.subi %n, %first : index
  %last = tensor.extract_slice %r#0[%first, 0] [%count, 32] [1, 1] : !x to !x
  %logits = llama.head %last, %table : !x, tensor<96x32xf32>
  return %logits, %ek, %ev, %ck, %cv, %r#1, %r#2 : tensor<?x96xf32>, !one, !one, !cache, !cache, !cache, !cache
}
