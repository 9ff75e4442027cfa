// y = p * tanh(softplus(p)) of a product p = x W^T.
#tk = affine_map<(t, n, k) -> (t, k)>
#nk = affine_map<(t, n, k) -> (n, k)>
#tn = affine_map<(t, n, k) -> (t, n)>
#id = affine_map<(t, n) -> (t, n)>

func.func private @x() -> tensor<20x37xf32> attributes {cria.weight = {slot = 0 : index, source = "x"}}
func.func private @w() -> tensor<29x37xf32> attributes {cria.weight = {slot = 1 : index, source = "w"}}

func.func private @gate(%x: tensor<20x37xf32>, %w: tensor<29x37xf32>, %n: index, %out: tensor<20x29xf32>) -> tensor<20x29xf32> attributes {cria.chunk = 20 : index} {
  %zero = arith.constant 0.0 : f32
  %rows = tensor.extract_slice %x[0, 0] [%n, 37] [1, 1] : tensor<20x37xf32> to tensor<?x37xf32>
  %pe = tensor.empty(%n) : tensor<?x29xf32>
  %pz = linalg.fill ins(%zero : f32) outs(%pe : tensor<?x29xf32>) -> tensor<?x29xf32>
  %p = linalg.contract indexing_maps = [#tk, #nk, #tn] ins(%rows, %w : tensor<?x37xf32>, tensor<29x37xf32>) outs(%pz : tensor<?x29xf32>) -> tensor<?x29xf32>
  %e = tensor.empty(%n) : tensor<?x29xf32>
  %y = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]} ins(%p : tensor<?x29xf32>) outs(%e : tensor<?x29xf32>) {
  ^bb0(%v: f32, %o: f32):
    %abs = math.absf %v : f32
    %minus = arith.negf %abs : f32
    %exp = math.exp %minus : f32
    %log = math.log1p %exp : f32
    %above = arith.maximumf %v, %zero : f32
    %softplus = arith.addf %above, %log : f32
    %tanh = math.tanh %softplus : f32
    %g = arith.mulf %v, %tanh : f32
    linalg.yield %g : f32
  } -> tensor<?x29xf32>
  %all = tensor.insert_slice %y into %out[0, 0] [%n, 29] [1, 1] : tensor<?x29xf32> into tensor<20x29xf32>
  return %all : tensor<20x29xf32>
}

func.func @prefill(%ids: tensor<20xi32>, %tokens: index, %position: index, %first: index, %source: index, %logits: tensor<20x29xf32>) -> tensor<20x29xf32>
    attributes {cria.arguments = ["ids", "tokens", "position", "first", "source", "logits"], cria.chunk = 20 : index} {
  %x = call @x() : () -> tensor<20x37xf32>
  %w = call @w() : () -> tensor<29x37xf32>
  %made = call @gate(%x, %w, %tokens, %logits) : (tensor<20x37xf32>, tensor<29x37xf32>, index, tensor<20x29xf32>) -> tensor<20x29xf32>
  return %made : tensor<20x29xf32>
}
