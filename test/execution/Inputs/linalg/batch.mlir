// y[h, t, n] = sum over k of x[t, h, k] w[h, k, n]: a product for each head.
#x = affine_map<(h, t, n, k) -> (t, h, k)>
#w = affine_map<(h, t, n, k) -> (h, k, n)>
#y = affine_map<(h, t, n, k) -> (h, t, n)>

func.func private @x() -> tensor<20x3x11xf32> attributes {cria.weight = {slot = 0 : index, source = "x"}}
func.func private @w() -> tensor<3x11x7xf32> attributes {cria.weight = {slot = 1 : index, source = "w"}}

func.func private @batch(%x: tensor<20x3x11xf32>, %w: tensor<3x11x7xf32>, %n: index, %out: tensor<20x21xf32>) -> tensor<20x21xf32> attributes {cria.chunk = 20 : index} {
  %zero = arith.constant 0.0 : f32
  %rows = tensor.extract_slice %x[0, 0, 0] [%n, 3, 11] [1, 1, 1] : tensor<20x3x11xf32> to tensor<?x3x11xf32>
  %e = tensor.empty(%n) : tensor<3x?x7xf32>
  %z = linalg.fill ins(%zero : f32) outs(%e : tensor<3x?x7xf32>) -> tensor<3x?x7xf32>
  %heads = linalg.contract indexing_maps = [#x, #w, #y] ins(%rows, %w : tensor<?x3x11xf32>, tensor<3x11x7xf32>) outs(%z : tensor<3x?x7xf32>) -> tensor<3x?x7xf32>
  %et = tensor.empty(%n) : tensor<?x3x7xf32>
  %tokens = linalg.transpose ins(%heads : tensor<3x?x7xf32>) outs(%et : tensor<?x3x7xf32>) permutation = [1, 0, 2]
  %y = tensor.collapse_shape %tokens [[0], [1, 2]] : tensor<?x3x7xf32> into tensor<?x21xf32>
  %all = tensor.insert_slice %y into %out[0, 0] [%n, 21] [1, 1] : tensor<?x21xf32> into tensor<20x21xf32>
  return %all : tensor<20x21xf32>
}

func.func @prefill(%ids: tensor<20xi32>, %tokens: index, %position: index, %first: index, %source: index, %logits: tensor<20x21xf32>) -> tensor<20x21xf32>
    attributes {cria.arguments = ["ids", "tokens", "position", "first", "source", "logits"], cria.chunk = 20 : index} {
  %x = call @x() : () -> tensor<20x3x11xf32>
  %w = call @w() : () -> tensor<3x11x7xf32>
  %made = call @batch(%x, %w, %tokens, %logits) : (tensor<20x3x11xf32>, tensor<3x11x7xf32>, index, tensor<20x21xf32>) -> tensor<20x21xf32>
  return %made : tensor<20x21xf32>
}
