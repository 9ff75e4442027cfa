// (a, b) = (b, a + b), three times, from |x| and e^x; then a / b.
func.func private @x() -> tensor<20x37xf32> attributes {cria.weight = {slot = 0 : index, source = "x"}}

func.func private @recurrence(%x: tensor<20x37xf32>, %n: index, %out: tensor<20x37xf32>) -> tensor<20x37xf32> attributes {cria.chunk = 20 : index} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c3 = arith.constant 3 : index
  %rows = tensor.extract_slice %x[0, 0] [%n, 37] [1, 1] : tensor<20x37xf32> to tensor<?x37xf32>
  %e = tensor.empty(%n) : tensor<?x37xf32>
  %a = linalg.abs ins(%rows : tensor<?x37xf32>) outs(%e : tensor<?x37xf32>) -> tensor<?x37xf32>
  %b = linalg.exp ins(%rows : tensor<?x37xf32>) outs(%e : tensor<?x37xf32>) -> tensor<?x37xf32>
  %end:2 = scf.for %i = %c0 to %c3 step %c1 iter_args(%p = %a, %q = %b) -> (tensor<?x37xf32>, tensor<?x37xf32>) {
    %sum = linalg.add ins(%p, %q : tensor<?x37xf32>, tensor<?x37xf32>) outs(%e : tensor<?x37xf32>) -> tensor<?x37xf32>
    scf.yield %q, %sum : tensor<?x37xf32>, tensor<?x37xf32>
  }
  %y = linalg.div ins(%end#0, %end#1 : tensor<?x37xf32>, tensor<?x37xf32>) outs(%e : tensor<?x37xf32>) -> tensor<?x37xf32>
  %all = tensor.insert_slice %y into %out[0, 0] [%n, 37] [1, 1] : tensor<?x37xf32> into tensor<20x37xf32>
  return %all : tensor<20x37xf32>
}

func.func @prefill(%ids: tensor<20xi32>, %tokens: index, %position: index, %first: index, %source: index, %logits: tensor<20x37xf32>) -> tensor<20x37xf32>
    attributes {cria.arguments = ["ids", "tokens", "position", "first", "source", "logits"], cria.chunk = 20 : index} {
  %x = call @x() : () -> tensor<20x37xf32>
  %made = call @recurrence(%x, %tokens, %logits) : (tensor<20x37xf32>, index, tensor<20x37xf32>) -> tensor<20x37xf32>
  return %made : tensor<20x37xf32>
}
