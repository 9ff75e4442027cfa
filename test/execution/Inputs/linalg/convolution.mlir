// y[t, c] = sum over w of x[t + w - 2, c] kernel[w, c]: along the tokens, from
// two rows of zeros on.
#x = affine_map<(t, c, w) -> (t + w, c)>
#k = affine_map<(t, c, w) -> (w, c)>
#y = affine_map<(t, c, w) -> (t, c)>

func.func private @x() -> tensor<20x37xf32> attributes {cria.weight = {slot = 0 : index, source = "x"}}
func.func private @kernel() -> tensor<3x37xf32> attributes {cria.weight = {slot = 1 : index, source = "kernel"}}

func.func private @convolution(%x: tensor<20x37xf32>, %kernel: tensor<3x37xf32>, %n: index, %out: tensor<20x37xf32>) -> tensor<20x37xf32> attributes {cria.chunk = 20 : index} {
  %zero = arith.constant 0.0 : f32
  %rows = tensor.extract_slice %x[0, 0] [%n, 37] [1, 1] : tensor<20x37xf32> to tensor<?x37xf32>
  %padded = tensor.pad %rows low[2, 0] high[0, 0] {
  ^bb0(%i: index, %j: index):
    tensor.yield %zero : f32
  } : tensor<?x37xf32> to tensor<?x37xf32>
  %e = tensor.empty(%n) : tensor<?x37xf32>
  %z = linalg.fill ins(%zero : f32) outs(%e : tensor<?x37xf32>) -> tensor<?x37xf32>
  %y = linalg.generic {indexing_maps = [#x, #k, #y], iterator_types = ["parallel", "parallel", "reduction"]} ins(%padded, %kernel : tensor<?x37xf32>, tensor<3x37xf32>) outs(%z : tensor<?x37xf32>) {
  ^bb0(%v: f32, %k: f32, %acc: f32):
    %p = arith.mulf %v, %k : f32
    %s = arith.addf %acc, %p : f32
    linalg.yield %s : f32
  } -> tensor<?x37xf32>
  %all = tensor.insert_slice %y into %out[0, 0] [%n, 37] [1, 1] : tensor<?x37xf32> into tensor<20x37xf32>
  return %all : tensor<20x37xf32>
}

func.func @prefill(%ids: tensor<20xi32>, %tokens: index, %position: index, %first: index, %source: index, %logits: tensor<20x37xf32>) -> tensor<20x37xf32>
    attributes {cria.arguments = ["ids", "tokens", "position", "first", "source", "logits"], cria.chunk = 20 : index} {
  %x = call @x() : () -> tensor<20x37xf32>
  %kernel = call @kernel() : () -> tensor<3x37xf32>
  %made = call @convolution(%x, %kernel, %tokens, %logits) : (tensor<20x37xf32>, tensor<3x37xf32>, index, tensor<20x37xf32>) -> tensor<20x37xf32>
  return %made : tensor<20x37xf32>
}
