llama.weight @embedding : tensor<16x4xf32> from "embedding"
llama.rope_table @rope {positions = 8 : i64, inv_freq = array<f32: 1.0, 0.5>, scale = 1.0 : f64}
func.func @forward(%ids: tensor<?xi32>, %position: index, %first: index, %cache: tensor<1x1x8x4xf32>) -> (tensor<?x16xf32>, tensor<1x1x8x4xf32>) {
  %c0 = arith.constant 0 : index
  %n = tensor.dim %ids, %c0 : tensor<?xi32>
  %m = arith.subi %n, %first : index
  %table = llama.get_weight @embedding : tensor<16x4xf32>
  %x = llama.embed %ids, %table : tensor<?xi32>, tensor<16x4xf32>
  %heads = tensor.expand_shape %x [[0], [1, 2]] output_shape [%n, 1, 4] : tensor<?x4xf32> into tensor<?x1x4xf32>
  %rope:2 = llama.get_rope @rope : tensor<8x2xf32>
  %keys = llama.rope %heads, %rope#0, %rope#1 at %position : tensor<?x1x4xf32>, tensor<8x2xf32>
  %kept = llama.kv_append %keys into %cache[%c0] at %position : tensor<?x1x4xf32> into tensor<1x1x8x4xf32>
  %flat = tensor.collapse_shape %keys [[0], [1, 2]] : tensor<?x1x4xf32> into tensor<?x4xf32>
  %idle = llama.residual %flat, %flat : tensor<?x4xf32>
  %rows = tensor.extract_slice %x[%first, 0] [%m, 4] [1, 1] : tensor<?x4xf32> to tensor<?x4xf32>
  %logits = llama.head %rows, %table : tensor<?x4xf32>, tensor<16x4xf32>
  return %logits, %kept : tensor<?x16xf32>, tensor<1x1x8x4xf32>
}
