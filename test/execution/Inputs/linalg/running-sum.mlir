// The sum of the columns up to each one, as a loop that carries it.
#t = affine_map<(t) -> (t)>

func.func private @x() -> tensor<20x37xf32> attributes {cria.weight = {slot = 0 : index, source = "x"}}

func.func private @running_sum(%x: tensor<20x37xf32>, %n: index, %out: tensor<20x37xf32>) -> tensor<20x37xf32> attributes {cria.chunk = 20 : index} {
  %zero = arith.constant 0.0 : f32
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c37 = arith.constant 37 : index
  %e = tensor.empty(%n) : tensor<?xf32>
  %z = linalg.fill ins(%zero : f32) outs(%e : tensor<?xf32>) -> tensor<?xf32>
  %end:2 = scf.for %i = %c0 to %c37 step %c1 iter_args(%sum = %z, %made = %out) -> (tensor<?xf32>, tensor<20x37xf32>) {
    %column = tensor.extract_slice %x[0, %i] [%n, 1] [1, 1] : tensor<20x37xf32> to tensor<?xf32>
    %next = linalg.generic {indexing_maps = [#t, #t], iterator_types = ["parallel"]} ins(%column : tensor<?xf32>) outs(%sum : tensor<?xf32>) {
    ^bb0(%v: f32, %acc: f32):
      %s = arith.addf %acc, %v : f32
      linalg.yield %s : f32
    } -> tensor<?xf32>
    %put = tensor.insert_slice %next into %made[0, %i] [%n, 1] [1, 1] : tensor<?xf32> into tensor<20x37xf32>
    scf.yield %next, %put : tensor<?xf32>, tensor<20x37xf32>
  }
  return %end#1 : tensor<20x37xf32>
}

func.func @prefill(%ids: tensor<20xi32>, %tokens: index, %position: index, %first: index, %source: index, %logits: tensor<20x37xf32>) -> tensor<20x37xf32>
    attributes {cria.arguments = ["ids", "tokens", "position", "first", "source", "logits"], cria.chunk = 20 : index} {
  %x = call @x() : () -> tensor<20x37xf32>
  %made = call @running_sum(%x, %tokens, %logits) : (tensor<20x37xf32>, index, tensor<20x37xf32>) -> tensor<20x37xf32>
  return %made : tensor<20x37xf32>
}
