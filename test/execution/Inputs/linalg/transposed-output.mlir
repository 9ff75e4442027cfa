// y[n, t] = (x W^T)[t, n].
#tk = affine_map<(t, n, k) -> (t, k)>
#nk = affine_map<(t, n, k) -> (n, k)>
#nt = affine_map<(t, n, k) -> (n, t)>

func.func private @x() -> tensor<20x37xf32> attributes {cria.weight = {slot = 0 : index, source = "x"}}
func.func private @w() -> tensor<29x37xf32> attributes {cria.weight = {slot = 1 : index, source = "w"}}

func.func private @transposed_output(%x: tensor<20x37xf32>, %w: tensor<29x37xf32>, %n: index, %out: tensor<29x20xf32>) -> tensor<29x20xf32> attributes {cria.chunk = 20 : index} {
  %zero = arith.constant 0.0 : f32
  %rows = tensor.extract_slice %x[0, 0] [%n, 37] [1, 1] : tensor<20x37xf32> to tensor<?x37xf32>
  %e = tensor.empty(%n) : tensor<29x?xf32>
  %z = linalg.fill ins(%zero : f32) outs(%e : tensor<29x?xf32>) -> tensor<29x?xf32>
  %y = linalg.contract indexing_maps = [#tk, #nk, #nt] ins(%rows, %w : tensor<?x37xf32>, tensor<29x37xf32>) outs(%z : tensor<29x?xf32>) -> tensor<29x?xf32>
  %all = tensor.insert_slice %y into %out[0, 0] [29, %n] [1, 1] : tensor<29x?xf32> into tensor<29x20xf32>
  return %all : tensor<29x20xf32>
}

func.func @prefill(%ids: tensor<20xi32>, %tokens: index, %position: index, %first: index, %source: index, %logits: tensor<29x20xf32>) -> tensor<29x20xf32>
    attributes {cria.arguments = ["ids", "tokens", "position", "first", "source", "logits"], cria.chunk = 20 : index} {
  %x = call @x() : () -> tensor<20x37xf32>
  %w = call @w() : () -> tensor<29x37xf32>
  %made = call @transposed_output(%x, %w, %tokens, %logits) : (tensor<20x37xf32>, tensor<29x37xf32>, index, tensor<29x20xf32>) -> tensor<29x20xf32>
  return %made : tensor<29x20xf32>
}
