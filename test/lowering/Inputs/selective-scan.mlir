// A scan of Granite 4 H's shape: two heads of 128 x 64 with one key.
llama.weight @mixed : tensor<64x384xbf16> from "mixed"
llama.weight @steps : tensor<64x2xf32> from "steps"
llama.weight @log_decay : tensor<2xbf16> from "log_decay"
llama.weight @skip : tensor<2xbf16> from "skip"
llama.weight @head : tensor<64x128xbf16> from "head"

func.func @forward(%ids: tensor<?xi32>, %position: index, %first: index, %state: tensor<3x256x64xf32>)
    -> (tensor<?x64xf32>, tensor<3x256x64xf32>) {
  %zero = arith.constant 0 : index
  %one = arith.constant 1 : index
  %n = tensor.dim %ids, %zero : tensor<?xi32>
  %m = arith.subi %n, %first : index
  %table = llama.get_weight @mixed : tensor<64x384xbf16>
  %mixed = llama.embed %ids, %table : tensor<?xi32>, tensor<64x384xbf16>
  %x = tensor.extract_slice %mixed[0, 0] [%n, 128] [1, 1] : tensor<?x384xbf16> to tensor<?x128xbf16>
  %b = tensor.extract_slice %mixed[0, 128] [%n, 128] [1, 1] : tensor<?x384xbf16> to tensor<?x128xbf16>
  %c = tensor.extract_slice %mixed[0, 256] [%n, 128] [1, 1] : tensor<?x384xbf16> to tensor<?x128xbf16>
  %values = tensor.expand_shape %x [[0], [1, 2]] output_shape [%n, 2, 64] : tensor<?x128xbf16> into tensor<?x2x64xbf16>
  %keys = tensor.expand_shape %b [[0], [1, 2]] output_shape [%n, 1, 128] : tensor<?x128xbf16> into tensor<?x1x128xbf16>
  %queries = tensor.expand_shape %c [[0], [1, 2]] output_shape [%n, 1, 128] : tensor<?x128xbf16> into tensor<?x1x128xbf16>
  %numbers = llama.get_weight @steps : tensor<64x2xf32>
  %steps = llama.embed %ids, %numbers : tensor<?xi32>, tensor<64x2xf32>
  %decay = llama.get_weight @log_decay : tensor<2xbf16>
  %skip = llama.get_weight @skip : tensor<2xbf16>
  %rows, %next = llama.selective_scan %queries, %keys, %values step(%steps)
      decay(%decay : tensor<2xbf16>) skip(%skip : tensor<2xbf16>) on %state[%one] at %position
      : tensor<?x1x128xbf16>, tensor<?x2x64xbf16>, tensor<?x2xf32>, tensor<3x256x64xf32>
  %flat = tensor.collapse_shape %rows [[0], [1, 2]] : tensor<?x2x64xbf16> into tensor<?x128xbf16>
  %last = tensor.extract_slice %flat[%first, 0] [%m, 128] [1, 1] : tensor<?x128xbf16> to tensor<?x128xbf16>
  %head = llama.get_weight @head : tensor<64x128xbf16>
  %logits = llama.head %last, %head : tensor<?x128xbf16>, tensor<64x128xbf16>
  return %logits, %next : tensor<?x64xf32>, tensor<3x256x64xf32>
}
