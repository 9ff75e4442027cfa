// y[t, n] = a[t] b[n]: a product without a sum.
#t = affine_map<(t, n) -> (t)>
#n = affine_map<(t, n) -> (n)>
#id = affine_map<(t, n) -> (t, n)>

func.func private @a() -> tensor<20xf32> attributes {cria.weight = {slot = 0 : index, source = "a"}}
func.func private @b() -> tensor<29xf32> attributes {cria.weight = {slot = 1 : index, source = "b"}}

func.func private @outer_product(%a: tensor<20xf32>, %b: tensor<29xf32>, %n: index, %out: tensor<20x29xf32>) -> tensor<20x29xf32> attributes {cria.chunk = 20 : index} {
  %rows = tensor.extract_slice %a[0] [%n] [1] : tensor<20xf32> to tensor<?xf32>
  %e = tensor.empty(%n) : tensor<?x29xf32>
  %y = linalg.generic {indexing_maps = [#t, #n, #id], iterator_types = ["parallel", "parallel"]} ins(%rows, %b : tensor<?xf32>, tensor<29xf32>) outs(%e : tensor<?x29xf32>) {
  ^bb0(%v: f32, %w: f32, %o: f32):
    %p = arith.mulf %v, %w : f32
    linalg.yield %p : f32
  } -> tensor<?x29xf32>
  %all = tensor.insert_slice %y into %out[0, 0] [%n, 29] [1, 1] : tensor<?x29xf32> into tensor<20x29xf32>
  return %all : tensor<20x29xf32>
}

func.func @prefill(%ids: tensor<20xi32>, %tokens: index, %position: index, %first: index, %source: index, %logits: tensor<20x29xf32>) -> tensor<20x29xf32>
    attributes {cria.arguments = ["ids", "tokens", "position", "first", "source", "logits"], cria.chunk = 20 : index} {
  %a = call @a() : () -> tensor<20xf32>
  %b = call @b() : () -> tensor<29xf32>
  %made = call @outer_product(%a, %b, %tokens, %logits) : (tensor<20xf32>, tensor<29xf32>, index, tensor<20x29xf32>) -> tensor<20x29xf32>
  return %made : tensor<20x29xf32>
}
