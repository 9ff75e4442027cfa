// An attribute that an op does not define is warned of once for each name, however often
// ops are verified. Attributes with the name of a dialect are that dialect's.
// RUN: cria-opt %s --canonicalize --cse --verify-diagnostics

func.func @norms(%x: tensor<4x32xf32>) -> (tensor<4x32xf32>, tensor<4x32xf32>) {
  // expected-warning @below {{'llama.rmsnorm' has no attribute 'unit_ofset', which is ignored; did you mean 'unit_offset'?}}
  %y = llama.rmsnorm %x {eps = 1.0e-5, unit_ofset} : tensor<4x32xf32>
  %z = llama.rmsnorm %y {eps = 1.0e-6, unit_ofset, other.note} : tensor<4x32xf32>
  return %y, %z : tensor<4x32xf32>, tensor<4x32xf32>
}

// expected-warning @below {{'llama.weight' has no attribute 'colour', which is ignored}}
llama.weight @w : tensor<4x4xf32> from "w" {colour}
