// y = x[:, :67] W[:, 3:]^T + x[:, 41:] U^T of bf16: slices of rows, a rest of
// every size, and a sum that is there before.
#tk = affine_map<(t, n, k) -> (t, k)>
#nk = affine_map<(t, n, k) -> (n, k)>
#tn = affine_map<(t, n, k) -> (t, n)>

func.func private @x() -> tensor<20x108xbf16> attributes {cria.weight = {slot = 0 : index, source = "x"}}
func.func private @w() -> tensor<45x70xbf16> attributes {cria.weight = {slot = 1 : index, source = "w"}}
func.func private @u() -> tensor<45x67xbf16> attributes {cria.weight = {slot = 2 : index, source = "u"}}

func.func private @bf16_slices(%x: tensor<20x108xbf16>, %w: tensor<45x70xbf16>, %u: tensor<45x67xbf16>, %n: index, %out: tensor<20x45xf32>) -> tensor<20x45xf32> attributes {cria.chunk = 20 : index} {
  %zero = arith.constant 0.0 : f32
  %left = tensor.extract_slice %x[0, 0] [%n, 67] [1, 1] : tensor<20x108xbf16> to tensor<?x67xbf16>
  %right = tensor.extract_slice %x[0, 41] [%n, 67] [1, 1] : tensor<20x108xbf16> to tensor<?x67xbf16>
  %wr = tensor.extract_slice %w[0, 3] [45, 67] [1, 1] : tensor<45x70xbf16> to tensor<45x67xbf16>
  %ae = tensor.empty(%n) : tensor<?x45xf32>
  %az = linalg.fill ins(%zero : f32) outs(%ae : tensor<?x45xf32>) -> tensor<?x45xf32>
  %a = linalg.contract indexing_maps = [#tk, #nk, #tn] ins(%left, %wr : tensor<?x67xbf16>, tensor<45x67xbf16>) outs(%az : tensor<?x45xf32>) -> tensor<?x45xf32>
  %y = linalg.contract indexing_maps = [#tk, #nk, #tn] ins(%right, %u : tensor<?x67xbf16>, tensor<45x67xbf16>) outs(%a : tensor<?x45xf32>) -> tensor<?x45xf32>
  %all = tensor.insert_slice %y into %out[0, 0] [%n, 45] [1, 1] : tensor<?x45xf32> into tensor<20x45xf32>
  return %all : tensor<20x45xf32>
}

func.func @prefill(%ids: tensor<20xi32>, %tokens: index, %position: index, %first: index, %source: index, %logits: tensor<20x45xf32>) -> tensor<20x45xf32>
    attributes {cria.arguments = ["ids", "tokens", "position", "first", "source", "logits"], cria.chunk = 20 : index} {
  %x = call @x() : () -> tensor<20x108xbf16>
  %w = call @w() : () -> tensor<45x70xbf16>
  %u = call @u() : () -> tensor<45x67xbf16>
  %made = call @bf16_slices(%x, %w, %u, %tokens, %logits) : (tensor<20x108xbf16>, tensor<45x70xbf16>, tensor<45x67xbf16>, index, tensor<20x45xf32>) -> tensor<20x45xf32>
  return %made : tensor<20x45xf32>
}
