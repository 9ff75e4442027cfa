// y[t, n] = sum over k of |x[t, k]| * exp(w[n, k]): more than a product.
#tk = affine_map<(t, n, k) -> (t, k)>
#nk = affine_map<(t, n, k) -> (n, k)>
#tn = affine_map<(t, n, k) -> (t, n)>

func.func private @x() -> tensor<20x37xf32> attributes {cria.weight = {slot = 0 : index, source = "x"}}
func.func private @w() -> tensor<29x37xf32> attributes {cria.weight = {slot = 1 : index, source = "w"}}

func.func private @payload_product(%x: tensor<20x37xf32>, %w: tensor<29x37xf32>, %n: index, %out: tensor<20x29xf32>) -> tensor<20x29xf32> attributes {cria.chunk = 20 : index} {
  %zero = arith.constant 0.0 : f32
  %rows = tensor.extract_slice %x[0, 0] [%n, 37] [1, 1] : tensor<20x37xf32> to tensor<?x37xf32>
  %e = tensor.empty(%n) : tensor<?x29xf32>
  %z = linalg.fill ins(%zero : f32) outs(%e : tensor<?x29xf32>) -> tensor<?x29xf32>
  %y = linalg.generic {indexing_maps = [#tk, #nk, #tn], iterator_types = ["parallel", "parallel", "reduction"]} ins(%rows, %w : tensor<?x37xf32>, tensor<29x37xf32>) outs(%z : tensor<?x29xf32>) {
  ^bb0(%v: f32, %w1: f32, %acc: f32):
    %abs = math.absf %v : f32
    %exp = math.exp %w1 : f32
    %p = arith.mulf %abs, %exp : f32
    %s = arith.addf %acc, %p : f32
    linalg.yield %s : f32
  } -> tensor<?x29xf32>
  %all = tensor.insert_slice %y into %out[0, 0] [%n, 29] [1, 1] : tensor<?x29xf32> into tensor<20x29xf32>
  return %all : tensor<20x29xf32>
}

func.func @prefill(%ids: tensor<20xi32>, %tokens: index, %position: index, %first: index, %source: index, %logits: tensor<20x29xf32>) -> tensor<20x29xf32>
    attributes {cria.arguments = ["ids", "tokens", "position", "first", "source", "logits"], cria.chunk = 20 : index} {
  %x = call @x() : () -> tensor<20x37xf32>
  %w = call @w() : () -> tensor<29x37xf32>
  %made = call @payload_product(%x, %w, %tokens, %logits) : (tensor<20x37xf32>, tensor<29x37xf32>, index, tensor<20x29xf32>) -> tensor<20x29xf32>
  return %made : tensor<20x29xf32>
}
