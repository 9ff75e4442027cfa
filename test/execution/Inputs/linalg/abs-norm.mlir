// y = x / (mean |x| + 1e-3) * gamma. The terms of the sum have an order.
#id = affine_map<(t, k) -> (t, k)>
#t = affine_map<(t, k) -> (t)>
#k = affine_map<(t, k) -> (k)>

func.func private @x() -> tensor<20x37xf32> attributes {cria.weight = {slot = 0 : index, source = "x"}}
func.func private @gamma() -> tensor<37xf32> attributes {cria.weight = {slot = 1 : index, source = "gamma"}}

func.func private @abs_norm(%x: tensor<20x37xf32>, %gamma: tensor<37xf32>, %n: index, %out: tensor<20x37xf32>) -> tensor<20x37xf32> attributes {cria.chunk = 20 : index} {
  %zero = arith.constant 0.0 : f32
  %count = arith.constant 37.0 : f32
  %eps = arith.constant 1.0e-3 : f32
  %rows = tensor.extract_slice %x[0, 0] [%n, 37] [1, 1] : tensor<20x37xf32> to tensor<?x37xf32>
  %es = tensor.empty(%n) : tensor<?xf32>
  %zs = linalg.fill ins(%zero : f32) outs(%es : tensor<?xf32>) -> tensor<?xf32>
  %sum = linalg.generic {indexing_maps = [#id, #t], iterator_types = ["parallel", "reduction"]} ins(%rows : tensor<?x37xf32>) outs(%zs : tensor<?xf32>) {
  ^bb0(%v: f32, %acc: f32):
    %abs = math.absf %v : f32
    %next = arith.addf %acc, %abs : f32
    linalg.yield %next : f32
  } -> tensor<?xf32>
  %e = tensor.empty(%n) : tensor<?x37xf32>
  %y = linalg.generic {indexing_maps = [#id, #t, #k, #id], iterator_types = ["parallel", "parallel"]} ins(%rows, %sum, %gamma : tensor<?x37xf32>, tensor<?xf32>, tensor<37xf32>) outs(%e : tensor<?x37xf32>) {
  ^bb0(%v: f32, %s: f32, %g: f32, %o: f32):
    %mean = arith.divf %s, %count : f32
    %by = arith.addf %mean, %eps : f32
    %q = arith.divf %v, %by : f32
    %qg = arith.mulf %q, %g : f32
    linalg.yield %qg : f32
  } -> tensor<?x37xf32>
  %all = tensor.insert_slice %y into %out[0, 0] [%n, 37] [1, 1] : tensor<?x37xf32> into tensor<20x37xf32>
  return %all : tensor<20x37xf32>
}

func.func @prefill(%ids: tensor<20xi32>, %tokens: index, %position: index, %first: index, %source: index, %logits: tensor<20x37xf32>) -> tensor<20x37xf32>
    attributes {cria.arguments = ["ids", "tokens", "position", "first", "source", "logits"], cria.chunk = 20 : index} {
  %x = call @x() : () -> tensor<20x37xf32>
  %gamma = call @gamma() : () -> tensor<37xf32>
  %made = call @abs_norm(%x, %gamma, %tokens, %logits) : (tensor<20x37xf32>, tensor<37xf32>, index, tensor<20x37xf32>) -> tensor<20x37xf32>
  return %made : tensor<20x37xf32>
}
