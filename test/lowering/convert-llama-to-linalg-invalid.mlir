// RUN: cria-opt --convert-llama-to-linalg --split-input-file --verify-diagnostics %s

// expected-error @below {{expected a slot; the pass assign-slots gives one}}
llama.weight @a : tensor<4xf32> from "a"

// -----

// expected-error @below {{expected rings of at least 527 places, for a window of 16 and calls of 512 tokens, got 128}}
func.func @prefill(%ids: tensor<?xi32>, %position: index, %first: index, %k: tensor<1x1x128x8xf32>) -> tensor<1x1x128x8xf32> {
  %c0 = arith.constant 0 : index
  %n = tensor.dim %ids, %c0 : tensor<?xi32>
  %q = tensor.empty(%n) : tensor<?x1x8xf32>
  %o = llama.gqa %q, %k, %k[%c0] at %position {scale = 0.5, causal, window = 16, ring} : tensor<?x1x8xf32>, tensor<1x1x128x8xf32>
  return %k : tensor<1x1x128x8xf32>
}
