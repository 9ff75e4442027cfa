// A model that no config.json describes: layer norms, biases everywhere, no
// rotary embedding, attention within 10 positions, its gated unit beside the
// attention, first layer 4.
!x = tensor<?x24xf32>
!heads = tensor<?x4x6xf32>
!kv = tensor<?x2x6xf32>
!cache = tensor<3x2x96x6xf32>
llama.weight @embed : tensor<96x24xf32> from "wte"
llama.weight @gamma[3] : tensor<24xf32> from "h.{}.norm.weight" {first = 4 : i64}
llama.weight @beta[3] : tensor<24xf32> from "h.{}.norm.bias" {first = 4 : i64}
llama.weight @q[3] : tensor<24x24xf32> from "h.{}.q" {first = 4 : i64}
llama.weight @q_bias[3] : tensor<24xf32> from "h.{}.q.bias" {first = 4 : i64}
llama.weight @k[3] : tensor<12x24xf32> from "h.{}.k" {first = 4 : i64}
llama.weight @v[3] : tensor<12x24xf32> from "h.{}.v" {first = 4 : i64}
llama.weight @o[3] : tensor<24x24xf32> from "h.{}.o" {first = 4 : i64}
llama.weight @o_bias[3] : tensor<24xf32> from "h.{}.o.bias" {first = 4 : i64}
llama.weight @gate[3] : tensor<24x24xf32> from "h.{}.gate" {first = 4 : i64}
llama.weight @head : tensor<96x24xf32> from "head"

func.func @forward(%ids: tensor<?xi32>, %position: index, %first: index, %kc: !cache, %vc: !cache)
    -> (tensor<?x96xf32>, !cache, !cache) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c3 = arith.constant 3 : index
  %n = tensor.dim %ids, %c0 : tensor<?xi32>
  %table = llama.get_weight @embed : tensor<96x24xf32>
  %x0 = llama.embed %ids, %table : tensor<?xi32>, tensor<96x24xf32>
  %r:3 = scf.for %l = %c0 to %c3 step %c1 iter_args(%x = %x0, %kl = %kc, %vl = %vc) -> (!x, !cache, !cache) {
    %g = llama.get_weight @gamma[%l] : tensor<24xf32>
    %b = llama.get_weight @beta[%l] : tensor<24xf32>
    %y = llama.layernorm %x gamma(%g : tensor<24xf32>) beta(%b : tensor<24xf32>) {eps = 1.0e-03} : !x
    %wq = llama.get_weight @q[%l] : tensor<24x24xf32>
    %bq = llama.get_weight @q_bias[%l] : tensor<24xf32>
    %wk = llama.get_weight @k[%l] : tensor<12x24xf32>
    %wv = llama.get_weight @v[%l] : tensor<12x24xf32>
    %q0 = llama.linear %y, %wq bias(%bq : tensor<24xf32>) : !x, tensor<24x24xf32>
    %k0 = llama.linear %y, %wk : !x, tensor<12x24xf32>
    %v0 = llama.linear %y, %wv : !x, tensor<12x24xf32>
    %q = tensor.expand_shape %q0 [[0], [1, 2]] output_shape [%n, 4, 6] : !x into !heads
    %k = tensor.expand_shape %k0 [[0], [1, 2]] output_shape [%n, 2, 6] : tensor<?x12xf32> into !kv
    %v = tensor.expand_shape %v0 [[0], [1, 2]] output_shape [%n, 2, 6] : tensor<?x12xf32> into !kv
    %k1 = llama.kv_append %k into %kl[%l] at %position : !kv into !cache
    %v1 = llama.kv_append %v into %vl[%l] at %position : !kv into !cache
    %a = llama.gqa %q, %k1, %v1[%l] at %position {causal, scale = 4.0, window = 10 : i64} : !heads, !cache
    %a2 = tensor.collapse_shape %a [[0], [1, 2]] : !heads into !x
    %wo = llama.get_weight @o[%l] : tensor<24x24xf32>
    %bo = llama.get_weight @o_bias[%l] : tensor<24xf32>
    %o = llama.linear %a2, %wo bias(%bo : tensor<24xf32>) : !x, tensor<24x24xf32>
    %wg = llama.get_weight @gate[%l] : tensor<24x24xf32>
    %u = llama.linear %y, %wg : !x, tensor<24x24xf32>
    %h = llama.swiglu %u, %o : !x
    %x1 = llama.residual %x, %h : !x
    %x2 = llama.residual %x1, %o : !x
    scf.yield %x2, %k1, %v1 : !x, !cache, !cache
  }
  %m = arith.subi %n, %first : index
  %rows = tensor.extract_slice %r#0[%first, 0] [%m, 24] [1, 1] : !x to !x
  %w = llama.get_weight @head : tensor<96x24xf32>
  %logits = llama.head %rows, %w : !x, tensor<96x24xf32>
  return %logits, %r#1, %r#2 : tensor<?x96xf32>, !cache, !cache
}
