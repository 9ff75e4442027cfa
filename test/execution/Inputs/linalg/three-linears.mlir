// y = (x W^T) * (x U^T) * (x V^T).
#tk = affine_map<(t, n, k) -> (t, k)>
#nk = affine_map<(t, n, k) -> (n, k)>
#tn = affine_map<(t, n, k) -> (t, n)>
#id = affine_map<(t, n) -> (t, n)>

func.func private @x() -> tensor<20x37xf32> attributes {cria.weight = {slot = 0 : index, source = "x"}}
func.func private @w() -> tensor<29x37xf32> attributes {cria.weight = {slot = 1 : index, source = "w"}}
func.func private @u() -> tensor<29x37xf32> attributes {cria.weight = {slot = 2 : index, source = "u"}}
func.func private @v() -> tensor<29x37xf32> attributes {cria.weight = {slot = 3 : index, source = "v"}}

func.func private @three_linears(%x: tensor<20x37xf32>, %w: tensor<29x37xf32>, %u: tensor<29x37xf32>, %v: tensor<29x37xf32>, %n: index, %out: tensor<20x29xf32>) -> tensor<20x29xf32> attributes {cria.chunk = 20 : index} {
  %zero = arith.constant 0.0 : f32
  %rows = tensor.extract_slice %x[0, 0] [%n, 37] [1, 1] : tensor<20x37xf32> to tensor<?x37xf32>
  %ae = tensor.empty(%n) : tensor<?x29xf32>
  %az = linalg.fill ins(%zero : f32) outs(%ae : tensor<?x29xf32>) -> tensor<?x29xf32>
  %a = linalg.contract indexing_maps = [#tk, #nk, #tn] ins(%rows, %w : tensor<?x37xf32>, tensor<29x37xf32>) outs(%az : tensor<?x29xf32>) -> tensor<?x29xf32>
  %be = tensor.empty(%n) : tensor<?x29xf32>
  %bz = linalg.fill ins(%zero : f32) outs(%be : tensor<?x29xf32>) -> tensor<?x29xf32>
  %b = linalg.contract indexing_maps = [#tk, #nk, #tn] ins(%rows, %u : tensor<?x37xf32>, tensor<29x37xf32>) outs(%bz : tensor<?x29xf32>) -> tensor<?x29xf32>
  %ce = tensor.empty(%n) : tensor<?x29xf32>
  %cz = linalg.fill ins(%zero : f32) outs(%ce : tensor<?x29xf32>) -> tensor<?x29xf32>
  %c = linalg.contract indexing_maps = [#tk, #nk, #tn] ins(%rows, %v : tensor<?x37xf32>, tensor<29x37xf32>) outs(%cz : tensor<?x29xf32>) -> tensor<?x29xf32>
  %e = tensor.empty(%n) : tensor<?x29xf32>
  %y = linalg.generic {indexing_maps = [#id, #id, #id, #id], iterator_types = ["parallel", "parallel"]} ins(%a, %b, %c : tensor<?x29xf32>, tensor<?x29xf32>, tensor<?x29xf32>) outs(%e : tensor<?x29xf32>) {
  ^bb0(%p: f32, %q: f32, %s: f32, %o: f32):
    %pq = arith.mulf %p, %q : f32
    %pqs = arith.mulf %pq, %s : f32
    linalg.yield %pqs : f32
  } -> tensor<?x29xf32>
  %all = tensor.insert_slice %y into %out[0, 0] [%n, 29] [1, 1] : tensor<?x29xf32> into tensor<20x29xf32>
  return %all : tensor<20x29xf32>
}

func.func @prefill(%ids: tensor<20xi32>, %tokens: index, %position: index, %first: index, %source: index, %logits: tensor<20x29xf32>) -> tensor<20x29xf32>
    attributes {cria.arguments = ["ids", "tokens", "position", "first", "source", "logits"], cria.chunk = 20 : index} {
  %x = call @x() : () -> tensor<20x37xf32>
  %w = call @w() : () -> tensor<29x37xf32>
  %u = call @u() : () -> tensor<29x37xf32>
  %v = call @v() : () -> tensor<29x37xf32>
  %made = call @three_linears(%x, %w, %u, %v, %tokens, %logits) : (tensor<20x37xf32>, tensor<29x37xf32>, tensor<29x37xf32>, tensor<29x37xf32>, index, tensor<20x29xf32>) -> tensor<20x29xf32>
  return %made : tensor<20x29xf32>
}
