// y = sqrt |x W^T|, all of it in f64.
#tk = affine_map<(t, n, k) -> (t, k)>
#nk = affine_map<(t, n, k) -> (n, k)>
#tn = affine_map<(t, n, k) -> (t, n)>
#id = affine_map<(t, n) -> (t, n)>

func.func private @x() -> tensor<20x37xf64> attributes {cria.weight = {slot = 0 : index, source = "x"}}
func.func private @w() -> tensor<29x37xf64> attributes {cria.weight = {slot = 1 : index, source = "w"}}

func.func private @doubles(%x: tensor<20x37xf64>, %w: tensor<29x37xf64>, %n: index, %out: tensor<20x29xf32>) -> tensor<20x29xf32> attributes {cria.chunk = 20 : index} {
  %zero = arith.constant 0.0 : f64
  %rows = tensor.extract_slice %x[0, 0] [%n, 37] [1, 1] : tensor<20x37xf64> to tensor<?x37xf64>
  %pe = tensor.empty(%n) : tensor<?x29xf64>
  %pz = linalg.fill ins(%zero : f64) outs(%pe : tensor<?x29xf64>) -> tensor<?x29xf64>
  %p = linalg.contract indexing_maps = [#tk, #nk, #tn] ins(%rows, %w : tensor<?x37xf64>, tensor<29x37xf64>) outs(%pz : tensor<?x29xf64>) -> tensor<?x29xf64>
  %e = tensor.empty(%n) : tensor<?x29xf32>
  %y = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]} ins(%p : tensor<?x29xf64>) outs(%e : tensor<?x29xf32>) {
  ^bb0(%v: f64, %o: f32):
    %abs = math.absf %v : f64
    %root = math.sqrt %abs : f64
    %f = arith.truncf %root : f64 to f32
    linalg.yield %f : f32
  } -> tensor<?x29xf32>
  %all = tensor.insert_slice %y into %out[0, 0] [%n, 29] [1, 1] : tensor<?x29xf32> into tensor<20x29xf32>
  return %all : tensor<20x29xf32>
}

func.func @prefill(%ids: tensor<20xi32>, %tokens: index, %position: index, %first: index, %source: index, %logits: tensor<20x29xf32>) -> tensor<20x29xf32>
    attributes {cria.arguments = ["ids", "tokens", "position", "first", "source", "logits"], cria.chunk = 20 : index} {
  %x = call @x() : () -> tensor<20x37xf64>
  %w = call @w() : () -> tensor<29x37xf64>
  %made = call @doubles(%x, %w, %tokens, %logits) : (tensor<20x37xf64>, tensor<29x37xf64>, index, tensor<20x29xf32>) -> tensor<20x29xf32>
  return %made : tensor<20x29xf32>
}
