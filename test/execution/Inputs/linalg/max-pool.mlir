// The largest of each three columns, from every second one on.
#window = affine_map<(t, c, w) -> (t, c * 2 + w)>
#of = affine_map<(t, c, w) -> (w)>
#out = affine_map<(t, c, w) -> (t, c)>

func.func private @x() -> tensor<20x37xf32> attributes {cria.weight = {slot = 0 : index, source = "x"}}

func.func private @max_pool(%x: tensor<20x37xf32>, %n: index, %out: tensor<20x18xf32>) -> tensor<20x18xf32> attributes {cria.chunk = 20 : index} {
  %lowest = arith.constant 0xFF800000 : f32
  %rows = tensor.extract_slice %x[0, 0] [%n, 37] [1, 1] : tensor<20x37xf32> to tensor<?x37xf32>
  %shape = tensor.empty() : tensor<3xf32>
  %e = tensor.empty(%n) : tensor<?x18xf32>
  %z = linalg.fill ins(%lowest : f32) outs(%e : tensor<?x18xf32>) -> tensor<?x18xf32>
  %y = linalg.generic {indexing_maps = [#window, #of, #out], iterator_types = ["parallel", "parallel", "reduction"]} ins(%rows, %shape : tensor<?x37xf32>, tensor<3xf32>) outs(%z : tensor<?x18xf32>) {
  ^bb0(%v: f32, %w: f32, %most: f32):
    %m = arith.maximumf %v, %most : f32
    linalg.yield %m : f32
  } -> tensor<?x18xf32>
  %all = tensor.insert_slice %y into %out[0, 0] [%n, 18] [1, 1] : tensor<?x18xf32> into tensor<20x18xf32>
  return %all : tensor<20x18xf32>
}

func.func @prefill(%ids: tensor<20xi32>, %tokens: index, %position: index, %first: index, %source: index, %logits: tensor<20x18xf32>) -> tensor<20x18xf32>
    attributes {cria.arguments = ["ids", "tokens", "position", "first", "source", "logits"], cria.chunk = 20 : index} {
  %x = call @x() : () -> tensor<20x37xf32>
  %made = call @max_pool(%x, %tokens, %logits) : (tensor<20x37xf32>, index, tensor<20x18xf32>) -> tensor<20x18xf32>
  return %made : tensor<20x18xf32>
}
