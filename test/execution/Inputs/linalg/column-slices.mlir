// y = x[:, :23] W^T + x[:, 14:] U^T: slices of rows, which overlap.
#tk = affine_map<(t, n, k) -> (t, k)>
#nk = affine_map<(t, n, k) -> (n, k)>
#tn = affine_map<(t, n, k) -> (t, n)>

func.func private @x() -> tensor<20x37xf32> attributes {cria.weight = {slot = 0 : index, source = "x"}}
func.func private @w() -> tensor<29x23xf32> attributes {cria.weight = {slot = 1 : index, source = "w"}}
func.func private @u() -> tensor<29x23xf32> attributes {cria.weight = {slot = 2 : index, source = "u"}}

func.func private @column_slices(%x: tensor<20x37xf32>, %w: tensor<29x23xf32>, %u: tensor<29x23xf32>, %n: index, %out: tensor<20x29xf32>) -> tensor<20x29xf32> attributes {cria.chunk = 20 : index} {
  %zero = arith.constant 0.0 : f32
  %left = tensor.extract_slice %x[0, 0] [%n, 23] [1, 1] : tensor<20x37xf32> to tensor<?x23xf32>
  %right = tensor.extract_slice %x[0, 14] [%n, 23] [1, 1] : tensor<20x37xf32> to tensor<?x23xf32>
  %ae = tensor.empty(%n) : tensor<?x29xf32>
  %az = linalg.fill ins(%zero : f32) outs(%ae : tensor<?x29xf32>) -> tensor<?x29xf32>
  %a = linalg.contract indexing_maps = [#tk, #nk, #tn] ins(%left, %w : tensor<?x23xf32>, tensor<29x23xf32>) outs(%az : tensor<?x29xf32>) -> tensor<?x29xf32>
  %y = linalg.contract indexing_maps = [#tk, #nk, #tn] ins(%right, %u : tensor<?x23xf32>, tensor<29x23xf32>) outs(%a : tensor<?x29xf32>) -> tensor<?x29xf32>
  %all = tensor.insert_slice %y into %out[0, 0] [%n, 29] [1, 1] : tensor<?x29xf32> into tensor<20x29xf32>
  return %all : tensor<20x29xf32>
}

func.func @prefill(%ids: tensor<20xi32>, %tokens: index, %position: index, %first: index, %source: index, %logits: tensor<20x29xf32>) -> tensor<20x29xf32>
    attributes {cria.arguments = ["ids", "tokens", "position", "first", "source", "logits"], cria.chunk = 20 : index} {
  %x = call @x() : () -> tensor<20x37xf32>
  %w = call @w() : () -> tensor<29x23xf32>
  %u = call @u() : () -> tensor<29x23xf32>
  %made = call @column_slices(%x, %w, %u, %tokens, %logits) : (tensor<20x37xf32>, tensor<29x23xf32>, tensor<29x23xf32>, index, tensor<20x29xf32>) -> tensor<20x29xf32>
  return %made : tensor<20x29xf32>
}
