// BERT (Devlin et al. 2019; BertForMaskedLM): an encoder whose tokens see all
// of the text, norms behind the sums, a GELU, and the head of masked language
// modelling. All tokens are of the first segment. A text is one call. It returns
// hidden states, of which embeddings of texts are made.
!x = tensor<?x32xf32>
!heads = tensor<?x4x8xf32>
!cache = tensor<2x4x64x8xf32>
!v = tensor<32xf32>
!m = tensor<32x32xf32>

llama.weight @embed : tensor<96x32xf32> from "bert.embeddings.word_embeddings.weight"
llama.weight @positions : tensor<64x32xf32> from "bert.embeddings.position_embeddings.weight"
llama.weight @segment : tensor<1x32xf32> from "bert.embeddings.token_type_embeddings.weight" rows 0 of 2
llama.weight @embed_norm : !v from "bert.embeddings.LayerNorm.weight"
llama.weight @embed_norm_bias : !v from "bert.embeddings.LayerNorm.bias"
llama.weight @q[2] : !m from "bert.encoder.layer.{}.attention.self.query.weight"
llama.weight @q_bias[2] : !v from "bert.encoder.layer.{}.attention.self.query.bias"
llama.weight @k[2] : !m from "bert.encoder.layer.{}.attention.self.key.weight"
llama.weight @k_bias[2] : !v from "bert.encoder.layer.{}.attention.self.key.bias"
llama.weight @v[2] : !m from "bert.encoder.layer.{}.attention.self.value.weight"
llama.weight @v_bias[2] : !v from "bert.encoder.layer.{}.attention.self.value.bias"
llama.weight @o[2] : !m from "bert.encoder.layer.{}.attention.output.dense.weight"
llama.weight @o_bias[2] : !v from "bert.encoder.layer.{}.attention.output.dense.bias"
llama.weight @attn_norm[2] : !v from "bert.encoder.layer.{}.attention.output.LayerNorm.weight"
llama.weight @attn_norm_bias[2] : !v from "bert.encoder.layer.{}.attention.output.LayerNorm.bias"
llama.weight @fc1[2] : tensor<64x32xf32> from "bert.encoder.layer.{}.intermediate.dense.weight"
llama.weight @fc1_bias[2] : tensor<64xf32> from "bert.encoder.layer.{}.intermediate.dense.bias"
llama.weight @fc2[2] : tensor<32x64xf32> from "bert.encoder.layer.{}.output.dense.weight"
llama.weight @fc2_bias[2] : !v from "bert.encoder.layer.{}.output.dense.bias"
llama.weight @mlp_norm[2] : !v from "bert.encoder.layer.{}.output.LayerNorm.weight"
llama.weight @mlp_norm_bias[2] : !v from "bert.encoder.layer.{}.output.LayerNorm.bias"
llama.weight @transform : !m from "cls.predictions.transform.dense.weight"
llama.weight @transform_bias : !v from "cls.predictions.transform.dense.bias"
llama.weight @transform_norm : !v from "cls.predictions.transform.LayerNorm.weight"
llama.weight @transform_norm_bias : !v from "cls.predictions.transform.LayerNorm.bias"
llama.weight @head_bias : tensor<96xf32> from "cls.predictions.bias"

func.func @forward(%ids: tensor<?xi32>, %position: index, %first: index, %first_hidden: index,
                   %keys: !cache, %values: !cache)
    -> (tensor<?x96xf32>, !x, !cache, !cache) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %n = tensor.dim %ids, %c0 : tensor<?xi32>
  %table = llama.get_weight @embed : tensor<96x32xf32>
  %rows = llama.get_weight @positions : tensor<64x32xf32>
  %row = llama.get_weight @segment : tensor<1x32xf32>
  %en = llama.get_weight @embed_norm : !v
  %enb = llama.get_weight @embed_norm_bias : !v
  %e0 = llama.embed %ids, %table : tensor<?xi32>, tensor<96x32xf32>
  %e1 = llama.add_rows %e0, %rows at %position : !x, tensor<64x32xf32>
  %e2 = llama.add_rows %e1, %row : !x, tensor<1x32xf32>
  %x0 = llama.layernorm %e2 gamma(%en : !v) beta(%enb : !v) {eps = 1.0e-12} : !x
  %r:3 = scf.for %l = %c0 to %c2 step %c1 iter_args(%x = %x0, %k0 = %keys, %v0 = %values) -> (!x, !cache, !cache) {
    %wq = llama.get_weight @q[%l] : !m
    %bq = llama.get_weight @q_bias[%l] : !v
    %wk = llama.get_weight @k[%l] : !m
    %bk = llama.get_weight @k_bias[%l] : !v
    %wv = llama.get_weight @v[%l] : !m
    %bv = llama.get_weight @v_bias[%l] : !v
    %wo = llama.get_weight @o[%l] : !m
    %bo = llama.get_weight @o_bias[%l] : !v
    %q = llama.linear %x, %wq bias(%bq : !v) : !x, !m
    %k = llama.linear %x, %wk bias(%bk : !v) : !x, !m
    %v = llama.linear %x, %wv bias(%bv : !v) : !x, !m
    %qh = tensor.expand_shape %q [[0], [1, 2]] output_shape [%n, 4, 8] : !x into !heads
    %kh = tensor.expand_shape %k [[0], [1, 2]] output_shape [%n, 4, 8] : !x into !heads
    %vh = tensor.expand_shape %v [[0], [1, 2]] output_shape [%n, 4, 8] : !x into !heads
    %k1 = llama.kv_append %kh into %k0[%l] at %position : !heads into !cache
    %v1 = llama.kv_append %vh into %v0[%l] at %position : !heads into !cache
    %oh = llama.gqa %qh, %k1, %v1[%l] at %position {scale = 0.35355339059327373} : !heads, !cache
    %om = tensor.collapse_shape %oh [[0], [1, 2]] : !heads into !x
    %o = llama.linear %om, %wo bias(%bo : !v) : !x, !m
    %s1 = llama.residual %x, %o : !x
    %an = llama.get_weight @attn_norm[%l] : !v
    %anb = llama.get_weight @attn_norm_bias[%l] : !v
    %x1 = llama.layernorm %s1 gamma(%an : !v) beta(%anb : !v) {eps = 1.0e-12} : !x

    %w1 = llama.get_weight @fc1[%l] : tensor<64x32xf32>
    %b1 = llama.get_weight @fc1_bias[%l] : tensor<64xf32>
    %w2 = llama.get_weight @fc2[%l] : tensor<32x64xf32>
    %b2 = llama.get_weight @fc2_bias[%l] : !v
    %u = llama.linear %x1, %w1 bias(%b1 : tensor<64xf32>) : !x, tensor<64x32xf32>
    %h = llama.activate gelu %u : tensor<?x64xf32>
    %d = llama.linear %h, %w2 bias(%b2 : !v) : tensor<?x64xf32>, tensor<32x64xf32>
    %s2 = llama.residual %x1, %d : !x
    %mn = llama.get_weight @mlp_norm[%l] : !v
    %mnb = llama.get_weight @mlp_norm_bias[%l] : !v
    %x2 = llama.layernorm %s2 gamma(%mn : !v) beta(%mnb : !v) {eps = 1.0e-12} : !x
    scf.yield %x2, %k1, %v1 : !x, !cache, !cache
  }
  %wanted = arith.subi %n, %first_hidden : index
  %hidden = tensor.extract_slice %r#0[%first_hidden, 0] [%wanted, 32] [1, 1] : !x to !x
  %wt = llama.get_weight @transform : !m
  %bt = llama.get_weight @transform_bias : !v
  %tn = llama.get_weight @transform_norm : !v
  %tnb = llama.get_weight @transform_norm_bias : !v
  %bh = llama.get_weight @head_bias : tensor<96xf32>
  %t = llama.linear %r#0, %wt bias(%bt : !v) : !x, !m
  %g = llama.activate gelu %t : !x
  %y = llama.layernorm %g gamma(%tn : !v) beta(%tnb : !v) {eps = 1.0e-12} : !x
  %count = arith.subi %n, %first : index
  %last = tensor.extract_slice %y[%first, 0] [%count, 32] [1, 1] : !x to !x
  %logits = llama.head %last, %table bias(%bh : tensor<96xf32>) : !x, tensor<96x32xf32>
  return %logits, %hidden, %r#1, %r#2 : tensor<?x96xf32>, !x, !cache, !cache
}
