// y = exp(x) * (x + gamma), each op in bf16.
#id = affine_map<(t, k) -> (t, k)>
#t = affine_map<(t, k) -> (t)>
#k = affine_map<(t, k) -> (k)>

func.func private @x() -> tensor<20x37xbf16> attributes {cria.weight = {slot = 0 : index, source = "x"}}
func.func private @gamma() -> tensor<37xbf16> attributes {cria.weight = {slot = 1 : index, source = "gamma"}}

func.func private @bf16_arithmetic(%x: tensor<20x37xbf16>, %gamma: tensor<37xbf16>, %n: index, %out: tensor<20x37xf32>) -> tensor<20x37xf32> attributes {cria.chunk = 20 : index} {
  %rows = tensor.extract_slice %x[0, 0] [%n, 37] [1, 1] : tensor<20x37xbf16> to tensor<?x37xbf16>
  %e = tensor.empty(%n) : tensor<?x37xf32>
  %y = linalg.generic {indexing_maps = [#id, #k, #id], iterator_types = ["parallel", "parallel"]} ins(%rows, %gamma : tensor<?x37xbf16>, tensor<37xbf16>) outs(%e : tensor<?x37xf32>) {
  ^bb0(%v: bf16, %g: bf16, %o: f32):
    %exp = math.exp %v : bf16
    %s = arith.addf %v, %g : bf16
    %p = arith.mulf %exp, %s : bf16
    %f = arith.extf %p : bf16 to f32
    linalg.yield %f : f32
  } -> tensor<?x37xf32>
  %all = tensor.insert_slice %y into %out[0, 0] [%n, 37] [1, 1] : tensor<?x37xf32> into tensor<20x37xf32>
  return %all : tensor<20x37xf32>
}

func.func @prefill(%ids: tensor<20xi32>, %tokens: index, %position: index, %first: index, %source: index, %logits: tensor<20x37xf32>) -> tensor<20x37xf32>
    attributes {cria.arguments = ["ids", "tokens", "position", "first", "source", "logits"], cria.chunk = 20 : index} {
  %x = call @x() : () -> tensor<20x37xbf16>
  %gamma = call @gamma() : () -> tensor<37xbf16>
  %made = call @bf16_arithmetic(%x, %gamma, %tokens, %logits) : (tensor<20x37xbf16>, tensor<37xbf16>, index, tensor<20x37xf32>) -> tensor<20x37xf32>
  return %made : tensor<20x37xf32>
}
