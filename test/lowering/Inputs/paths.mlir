llama.weight @table : tensor<16x8xf32> from "table"
llama.weight @gate : tensor<12x8xf32> from "gate"
llama.weight @up : tensor<12x8xf32> from "up"
llama.weight @out : tensor<16x12xf32> from "out"
func.func @forward(%ids: tensor<?xi32>, %position: index, %first: index)
    -> tensor<?x16xf32> {
  %t = llama.get_weight @table : tensor<16x8xf32>
  %gate = llama.get_weight @gate : tensor<12x8xf32>
  %up = llama.get_weight @up : tensor<12x8xf32>
  %out = llama.get_weight @out : tensor<16x12xf32>
  %x = llama.embed %ids, %t : tensor<?xi32>, tensor<16x8xf32> loc("model.embed_tokens")
  %g = llama.linear %x, %gate : tensor<?x8xf32>, tensor<12x8xf32> loc("model.layers.*.mlp.gate_proj")
  %u = llama.linear %x, %up : tensor<?x8xf32>, tensor<12x8xf32> loc("model.layers.*.mlp.up_proj")
  %h = llama.swiglu %g, %u : tensor<?x12xf32> loc("model.layers.*.mlp")
  %c0 = arith.constant 0 : index
  %n = tensor.dim %ids, %c0 : tensor<?xi32>
  %m = arith.subi %n, %first : index
  %rows = tensor.extract_slice %h[%first, 0] [%m, 12] [1, 1]
      : tensor<?x12xf32> to tensor<?x12xf32>
  %logits = llama.head %rows, %out : tensor<?x12xf32>, tensor<16x12xf32> loc("lm_head")
  return %logits : tensor<?x16xf32>
}
