// Latent attention of DeepSeek's shape: rows of 512 + 64 numbers, 16 query heads.
llama.weight @mixed : tensor<64x9792xbf16> from "mixed"
llama.weight @head : tensor<64x8192xbf16> from "head"

func.func @forward(%ids: tensor<?xi32>, %position: index, %first: index, %cache: tensor<1x1x512x576xbf16>)
    -> (tensor<?x64xf32>, tensor<1x1x512x576xbf16>) {
  %zero = arith.constant 0 : index
  %n = tensor.dim %ids, %zero : tensor<?xi32>
  %m = arith.subi %n, %first : index
  %table = llama.get_weight @mixed : tensor<64x9792xbf16>
  %mixed = llama.embed %ids, %table : tensor<?xi32>, tensor<64x9792xbf16>
  %q = tensor.extract_slice %mixed[0, 0] [%n, 9216] [1, 1] : tensor<?x9792xbf16> to tensor<?x9216xbf16>
  %k = tensor.extract_slice %mixed[0, 9216] [%n, 576] [1, 1] : tensor<?x9792xbf16> to tensor<?x576xbf16>
  %queries = tensor.expand_shape %q [[0], [1, 2]] output_shape [%n, 16, 576] : tensor<?x9216xbf16> into tensor<?x16x576xbf16>
  %rows = tensor.expand_shape %k [[0], [1, 2]] output_shape [%n, 1, 576] : tensor<?x576xbf16> into tensor<?x1x576xbf16>
  %next = llama.kv_append %rows into %cache[%zero] at %position : tensor<?x1x576xbf16> into tensor<1x1x512x576xbf16>
  %o = llama.gqa %queries, %next, %next[%zero] at %position values 512 {scale = 0.125 : f64, causal}
      : tensor<?x16x576xbf16>, tensor<1x1x512x576xbf16>
  %flat = tensor.collapse_shape %o [[0], [1, 2]] : tensor<?x16x512xbf16> into tensor<?x8192xbf16>
  %last = tensor.extract_slice %flat[%first, 0] [%m, 8192] [1, 1] : tensor<?x8192xbf16> to tensor<?x8192xbf16>
  %head = llama.get_weight @head : tensor<64x8192xbf16>
  %logits = llama.head %last, %head : tensor<?x8192xbf16>, tensor<64x8192xbf16>
  return %logits, %next : tensor<?x64xf32>, tensor<1x1x512x576xbf16>
}
