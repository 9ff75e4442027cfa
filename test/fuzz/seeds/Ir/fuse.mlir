// The passes together on one layer: exactly five kernels, named after the
// modules, in both entries.


!c = tensor<2x1x32x4xbf16>
!x = tensor<?x8xbf16>
llama.weight @embed_tokens : tensor<16x8xbf16> from "model.embed_tokens.weight"
llama.weight @ln1[2] : tensor<8xbf16> from "model.layers.{}.input_layernorm.weight"
llama.weight @wq[2] : tensor<8x8xbf16> from "model.layers.{}.self_attn.q_proj.weight"
llama.weight @wk[2] : tensor<4x8xbf16> from "model.layers.{}.self_attn.k_proj.weight"
llama.weight @wg[2] : tensor<12x8xbf16> from "model.layers.{}.mlp.gate_proj.weight"
llama.weight @wd[2] : tensor<8x12xbf16> from "model.layers.{}.mlp.down_proj.weight"
llama.rope_table @rope {positions = 32 : i64, inv_freq = array<f32: 1.0, 0.01>}

func.func @forward(%ids: tensor<?xi32>, %position: index, %first: index, %k0: !c, %v0: !c)
    -> (tensor<?x16xf32>, !c, !c) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %n = tensor.dim %ids, %c0 : tensor<?xi32>
  %cos, %sin = llama.get_rope @rope : tensor<32x2xf32>
  %table = llama.get_weight @embed_tokens : tensor<16x8xbf16>
  %x0 = llama.embed %ids, %table : tensor<?xi32>, tensor<16x8xbf16> loc("model.embed_tokens")
  %r:3 = scf.for %l = %c0 to %c2 step %c1 iter_args(%x = %x0, %k = %k0, %v = %v0) -> (!x, !c, !c) {
    %ln = llama.get_weight @ln1[%l] : tensor<8xbf16>
    %wq = llama.get_weight @wq[%l] : tensor<8x8xbf16>
    %wk = llama.get_weight @wk[%l] : tensor<4x8xbf16>
    %a = llama.rmsnorm %x, %ln {eps = 1.0e-05} : !x, tensor<8xbf16> loc("model.layers.*.input_layernorm")
    %q = llama.linear %a, %wq : !x, tensor<8x8xbf16> loc("model.layers.*.self_attn.q_proj")
    %qh = tensor.expand_shape %q [[0], [1, 2]] output_shape [%n, 2, 4] : !x into tensor<?x2x4xbf16>
    %qr = llama.rope %qh, %cos, %sin at %position : tensor<?x2x4xbf16>, tensor<32x2xf32>
    // The norm is written twice: it is one by the time fusion looks.
    %a1 = llama.rmsnorm %x, %ln {eps = 1.0e-05} : !x, tensor<8xbf16>
    %key = llama.linear %a1, %wk : !x, tensor<4x8xbf16> loc("model.layers.*.self_attn.k_proj")
    %kh = tensor.expand_shape %key [[0], [1, 2]] output_shape [%n, 1, 4] : tensor<?x4xbf16> into tensor<?x1x4xbf16>
    %kr = llama.rope %kh, %cos, %sin at %position : tensor<?x1x4xbf16>, tensor<32x2xf32>
    %k1 = llama.kv_append %kr into %k[%l] at %position : tensor<?x1x4xbf16> into !c
    %b = arith.constant dense<0.0> : tensor<4xbf16>
    %val = llama.linear %a, %wk bias(%b : tensor<4xbf16>) : !x, tensor<4x8xbf16> loc("model.layers.*.self_attn.v_proj")
    %vh = tensor.expand_shape %val [[0], [1, 2]] output_shape [%n, 1, 4] : tensor<?x4xbf16> into tensor<?x1x4xbf16>
    %v1 = llama.kv_append %vh into %v[%l] at %position : tensor<?x1x4xbf16> into !c
    %o = llama.gqa %qr, %k1, %v1[%l] at %position {causal, scale = 0.5} : tensor<?x2x4xbf16>, !c loc("model.layers.*.self_attn")
    %f = tensor.collapse_shape %o [[0], [1, 2]] : tensor<?x2x4xbf16> into !x
    %out = llama.linear %f, %wq : !x, tensor<8x8xbf16> loc("model.layers.*.self_attn.o_proj")
    %x1 = llama.residual %x, %out : !x
    %y = llama.rmsnorm %x1, %ln {eps = 1.0e-05} : !x, tensor<8xbf16>
    %wg = llama.get_weight @wg[%l] : tensor<12x8xbf16>
    %g = llama.linear %y, %wg : !x, tensor<12x8xbf16> loc("model.layers.*.mlp.gate_proj")
    %bu = arith.constant dense<0.0> : tensor<12xbf16>
    %u = llama.linear %y, %wg bias(%bu : tensor<12xbf16>) : !x, tensor<12x8xbf16> loc("model.layers.*.mlp.up_proj")
    %s = llama.swiglu %g, %u : tensor<?x12xbf16>
    %wd = llama.get_weight @wd[%l] : tensor<8x12xbf16>
    %d = llama.linear %s, %wd : tensor<?x12xbf16>, tensor<8x12xbf16> loc("model.layers.*.mlp.down_proj")
    %x2 = llama.residual %x1, %d : !x
    scf.yield %x2, %k1, %v1 : !x, !c, !c
  }
  %m = arith.subi %n, %first : index
  %rows = tensor.extract_slice %r#0[%first, 0] [%m, 8] [1, 1] : !x to !x
  %last = llama.rmsnorm %rows {eps = 1.0e-05} : !x
  %logits = llama.head %last, %table : !x, tensor<16x8xbf16> loc("lm_head")
  return %logits, %r#1, %r#2 : tensor<?x16xf32>, !c, !c
}
