// tanh of few rows, exp of many.
func.func private @x() -> tensor<20x37xf32> attributes {cria.weight = {slot = 0 : index, source = "x"}}

func.func private @branch(%x: tensor<20x37xf32>, %n: index, %out: tensor<20x37xf32>) -> tensor<20x37xf32> attributes {cria.chunk = 20 : index} {
  %c3 = arith.constant 3 : index
  %rows = tensor.extract_slice %x[0, 0] [%n, 37] [1, 1] : tensor<20x37xf32> to tensor<?x37xf32>
  %few = arith.cmpi slt, %n, %c3 : index
  %y = scf.if %few -> (tensor<?x37xf32>) {
    %e = tensor.empty(%n) : tensor<?x37xf32>
    %t = linalg.tanh ins(%rows : tensor<?x37xf32>) outs(%e : tensor<?x37xf32>) -> tensor<?x37xf32>
    scf.yield %t : tensor<?x37xf32>
  } else {
    %e = tensor.empty(%n) : tensor<?x37xf32>
    %t = linalg.exp ins(%rows : tensor<?x37xf32>) outs(%e : tensor<?x37xf32>) -> tensor<?x37xf32>
    scf.yield %t : tensor<?x37xf32>
  }
  %all = tensor.insert_slice %y into %out[0, 0] [%n, 37] [1, 1] : tensor<?x37xf32> into tensor<20x37xf32>
  return %all : tensor<20x37xf32>
}

func.func @prefill(%ids: tensor<20xi32>, %tokens: index, %position: index, %first: index, %source: index, %logits: tensor<20x37xf32>) -> tensor<20x37xf32>
    attributes {cria.arguments = ["ids", "tokens", "position", "first", "source", "logits"], cria.chunk = 20 : index} {
  %x = call @x() : () -> tensor<20x37xf32>
  %made = call @branch(%x, %tokens, %logits) : (tensor<20x37xf32>, index, tensor<20x37xf32>) -> tensor<20x37xf32>
  return %made : tensor<20x37xf32>
}
