// x W^T W^T, by one kernel.
#tk = affine_map<(t, n, k) -> (t, k)>
#nk = affine_map<(t, n, k) -> (n, k)>
#tn = affine_map<(t, n, k) -> (t, n)>

func.func private @x() -> tensor<20x37xf32> attributes {cria.weight = {slot = 0 : index, source = "x"}}
func.func private @w() -> tensor<37x37xf32> attributes {cria.weight = {slot = 1 : index, source = "w"}}

func.func private @called_twice(%x: tensor<20x37xf32>, %w: tensor<37x37xf32>, %n: index, %out: tensor<20x37xf32>) -> tensor<20x37xf32> attributes {cria.chunk = 20 : index} {
  %zero = arith.constant 0.0 : f32
  %rows = tensor.extract_slice %x[0, 0] [%n, 37] [1, 1] : tensor<20x37xf32> to tensor<?x37xf32>
  %e = tensor.empty(%n) : tensor<?x37xf32>
  %z = linalg.fill ins(%zero : f32) outs(%e : tensor<?x37xf32>) -> tensor<?x37xf32>
  %y = linalg.contract indexing_maps = [#tk, #nk, #tn] ins(%rows, %w : tensor<?x37xf32>, tensor<37x37xf32>) outs(%z : tensor<?x37xf32>) -> tensor<?x37xf32>
  %all = tensor.insert_slice %y into %out[0, 0] [%n, 37] [1, 1] : tensor<?x37xf32> into tensor<20x37xf32>
  return %all : tensor<20x37xf32>
}

func.func @prefill(%ids: tensor<20xi32>, %tokens: index, %position: index, %first: index, %source: index, %logits: tensor<20x37xf32>) -> tensor<20x37xf32>
    attributes {cria.arguments = ["ids", "tokens", "position", "first", "source", "logits"], cria.chunk = 20 : index} {
  %x = call @x() : () -> tensor<20x37xf32>
  %w = call @w() : () -> tensor<37x37xf32>
  %empty = tensor.empty() : tensor<20x37xf32>
  %once = call @called_twice(%x, %w, %tokens, %empty) : (tensor<20x37xf32>, tensor<37x37xf32>, index, tensor<20x37xf32>) -> tensor<20x37xf32>
  %twice = call @called_twice(%once, %w, %tokens, %logits) : (tensor<20x37xf32>, tensor<37x37xf32>, index, tensor<20x37xf32>) -> tensor<20x37xf32>
  return %twice : tensor<20x37xf32>
}
