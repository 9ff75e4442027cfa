// y[t, n] = sum over k of x[k, t] w[n, k].
#kt = affine_map<(t, n, k) -> (k, t)>
#nk = affine_map<(t, n, k) -> (n, k)>
#tn = affine_map<(t, n, k) -> (t, n)>

func.func private @x() -> tensor<37x20xf32> attributes {cria.weight = {slot = 0 : index, source = "x"}}
func.func private @w() -> tensor<29x37xf32> attributes {cria.weight = {slot = 1 : index, source = "w"}}

func.func private @both_transposed(%x: tensor<37x20xf32>, %w: tensor<29x37xf32>, %n: index, %out: tensor<20x29xf32>) -> tensor<20x29xf32> attributes {cria.chunk = 20 : index} {
  %zero = arith.constant 0.0 : f32
  %columns = tensor.extract_slice %x[0, 0] [37, %n] [1, 1] : tensor<37x20xf32> to tensor<37x?xf32>
  %e = tensor.empty(%n) : tensor<?x29xf32>
  %z = linalg.fill ins(%zero : f32) outs(%e : tensor<?x29xf32>) -> tensor<?x29xf32>
  %y = linalg.contract indexing_maps = [#kt, #nk, #tn] ins(%columns, %w : tensor<37x?xf32>, tensor<29x37xf32>) outs(%z : tensor<?x29xf32>) -> tensor<?x29xf32>
  %all = tensor.insert_slice %y into %out[0, 0] [%n, 29] [1, 1] : tensor<?x29xf32> into tensor<20x29xf32>
  return %all : tensor<20x29xf32>
}

func.func @prefill(%ids: tensor<20xi32>, %tokens: index, %position: index, %first: index, %source: index, %logits: tensor<20x29xf32>) -> tensor<20x29xf32>
    attributes {cria.arguments = ["ids", "tokens", "position", "first", "source", "logits"], cria.chunk = 20 : index} {
  %x = call @x() : () -> tensor<37x20xf32>
  %w = call @w() : () -> tensor<29x37xf32>
  %made = call @both_transposed(%x, %w, %tokens, %logits) : (tensor<37x20xf32>, tensor<29x37xf32>, index, tensor<20x29xf32>) -> tensor<20x29xf32>
  return %made : tensor<20x29xf32>
}
