// RUN: cria-opt --convert-llama-to-linalg --verify-diagnostics %s

// expected-error @below {{expected a slot; the pass assign-slots gives one}}
llama.weight @a : tensor<4xf32> from "a"
