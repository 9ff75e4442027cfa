module {
  func.func private @sum(%x: tensor<8xf32>) -> tensor<8xf32> attributes {cria.chunk = 1 : index} {
    %y = tensor.empty() : tensor<8xf32>
    %0 = linalg.exp ins(%x : tensor<8xf32>) outs(%y : tensor<8xf32>) -> tensor<8xf32>
    return %0 : tensor<8xf32>
  }
  func.func @decode(%ids: tensor<1xi32>, %tokens: index, %position: index, %first: index, %source: index, %logits: tensor<1x8xf32>) -> tensor<1x8xf32> attributes {cria.arguments = ["ids", "tokens", "position", "first", "source", "logits"], cria.chunk = 1 : index} {
    %x = tensor.empty() : tensor<8xf32>
    // expected-error @below {{expected results (tokens, row) or (tokens, heads, size) to make visible, got 'tensor<8xf32>'}}
    %0 = call @sum(%x) : (tensor<8xf32>) -> tensor<8xf32>
    return %logits : tensor<1x8xf32>
  }
  module attributes {cria.manifest = {caches = [], compiler = "cria VERSION", flags = {}, model = {chunk = 4, max_seq = 4, vocab_size = 8}, rope = [], weights = []}} {
  }
}

// -----

module {
  func.func private @sum(%x: tensor<1x8xf32>) -> tensor<1x8xf32> attributes {cria.chunk = 1 : index} {
    %y = tensor.empty() : tensor<1x8xf32>
    %0 = linalg.exp ins(%x : tensor<1x8xf32>) outs(%y : tensor<1x8xf32>) -> tensor<1x8xf32>
    return %0 : tensor<1x8xf32>
  }
  func.func @decode(%ids: tensor<1xi32>, %tokens: index, %position: index, %first: index, %source: index, %logits: tensor<1x8xf32>) -> tensor<1x8xf32> attributes {cria.arguments = ["ids", "tokens", "position", "first", "source", "logits"], cria.chunk = 1 : index} {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %x = tensor.empty() : tensor<1x8xf32>
    %y = scf.for %i = %c0 to %position step %c1 iter_args(%a = %x) -> tensor<1x8xf32> {
      // expected-error @below {{expected to be called once, or in a loop with constant bounds}}
      %0 = func.call @sum(%a) : (tensor<1x8xf32>) -> tensor<1x8xf32>
      scf.yield %0 : tensor<1x8xf32>
    }
    return %logits : tensor<1x8xf32>
  }
  module attributes {cria.manifest = {caches = [], compiler = "cria VERSION", flags = {}, model = {chunk = 4, max_seq = 4, vocab_size = 8}, rope = [], weights = []}} {
  }
}
