// The sum of the columns up to each one, as a reduction of all columns that
// masks the later ones.
#j = affine_map<(t, i, j) -> (t, j)>
#i = affine_map<(t, i, j) -> (t, i)>

func.func private @x() -> tensor<20x37xf32> attributes {cria.weight = {slot = 0 : index, source = "x"}}

func.func private @masked_sum(%x: tensor<20x37xf32>, %n: index, %out: tensor<20x37xf32>) -> tensor<20x37xf32> attributes {cria.chunk = 20 : index} {
  %zero = arith.constant 0.0 : f32
  %rows = tensor.extract_slice %x[0, 0] [%n, 37] [1, 1] : tensor<20x37xf32> to tensor<?x37xf32>
  %e = tensor.empty(%n) : tensor<?x37xf32>
  %z = linalg.fill ins(%zero : f32) outs(%e : tensor<?x37xf32>) -> tensor<?x37xf32>
  %y = linalg.generic {indexing_maps = [#j, #i], iterator_types = ["parallel", "parallel", "reduction"]} ins(%rows : tensor<?x37xf32>) outs(%z : tensor<?x37xf32>) {
  ^bb0(%v: f32, %acc: f32):
    %i = linalg.index 1 : index
    %j = linalg.index 2 : index
    %before = arith.cmpi sle, %j, %i : index
    %term = arith.select %before, %v, %zero : f32
    %next = arith.addf %acc, %term fastmath<reassoc> : f32
    linalg.yield %next : f32
  } -> tensor<?x37xf32>
  %all = tensor.insert_slice %y into %out[0, 0] [%n, 37] [1, 1] : tensor<?x37xf32> into tensor<20x37xf32>
  return %all : tensor<20x37xf32>
}

func.func @prefill(%ids: tensor<20xi32>, %tokens: index, %position: index, %first: index, %source: index, %logits: tensor<20x37xf32>) -> tensor<20x37xf32>
    attributes {cria.arguments = ["ids", "tokens", "position", "first", "source", "logits"], cria.chunk = 20 : index} {
  %x = call @x() : () -> tensor<20x37xf32>
  %made = call @masked_sum(%x, %tokens, %logits) : (tensor<20x37xf32>, index, tensor<20x37xf32>) -> tensor<20x37xf32>
  return %made : tensor<20x37xf32>
}
