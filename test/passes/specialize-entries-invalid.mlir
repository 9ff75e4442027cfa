// RUN: cria-opt --llama-specialize-entries --split-input-file --verify-diagnostics %s

// expected-error @below {{expected a function @forward(ids, position, first, caches...)}}
module {
  func.func @other() {
    return
  }
}

// -----

// expected-error @below {{expected a function @forward(ids, position, first, caches...)}}
module {
  func.func @forward(%ids: tensor<?xi32>) {
    return
  }
}

// -----

llama.weight @t : tensor<4x4xf32> from "t"
func.func @forward(%ids: tensor<?xi32>, %p: index, %f: index) -> tensor<?x4xf32> {
  %t = llama.get_weight @t : tensor<4x4xf32>
  // expected-error @below {{expected no op with a region but scf.for, got llama.kernel}}
  %k = llama.kernel "embed" -> tensor<?x4xf32> {
    %x = llama.embed %ids, %t : tensor<?xi32>, tensor<4x4xf32>
    llama.yield %x : tensor<?x4xf32>
  }
  return %k : tensor<?x4xf32>
}

// -----

func.func @forward(%ids: tensor<?xi32>, %p: index, %f: index) -> tensor<?x4xf32> {
  // expected-error @below {{expected a type that can be inferred for one token}}
  %x = tensor.empty(%p) : tensor<?x4xf32>
  return %x : tensor<?x4xf32>
}

// -----

llama.weight @t : tensor<4x4xf32> from "t"
func.func @forward(%ids: tensor<?xi32>, %p: index, %f: index) -> tensor<?x4xf32> {
  %c0 = arith.constant 0 : index
  %n = tensor.dim %ids, %c0 : tensor<?xi32>
  %twice = arith.addi %n, %n : index
  %t = llama.get_weight @t : tensor<4x4xf32>
  %rows = tensor.extract_slice %t[0, 0] [%twice, 4] [1, 1]
      : tensor<4x4xf32> to tensor<?x4xf32>
  // expected-error @below {{expected one row of logits for one token}}
  return %rows : tensor<?x4xf32>
}

// -----

llama.weight @t : tensor<4x4xf32> from "t"
func.func @forward(%ids: tensor<?xi32>, %p: index, %f: index) -> tensor<?x4xf32> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %n = tensor.dim %ids, %c0 : tensor<?xi32>
  %twice = arith.addi %n, %n : index
  %t = llama.get_weight @t : tensor<4x4xf32>
  %x = llama.embed %ids, %t : tensor<?xi32>, tensor<4x4xf32>
  %r = scf.for %i = %c0 to %c1 step %c1 iter_args(%y = %x) -> tensor<?x4xf32> {
    %rows = tensor.extract_slice %t[0, 0] [%twice, 4] [1, 1]
        : tensor<4x4xf32> to tensor<?x4xf32>
    // expected-error @below {{expected a loop to carry the same number of tokens throughout}}
    scf.yield %rows : tensor<?x4xf32>
  }
  return %r : tensor<?x4xf32>
}
