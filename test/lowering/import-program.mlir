// A program that comes as IR is taken as it is.
// RUN: cria-compile %s --emit=import | FileCheck %s
// CHECK: llama.weight @table : tensor<16x8xf32> from "table"
// CHECK: func.func @forward
llama.weight @table : tensor<16x8xf32> from "table"
func.func @forward(%ids: tensor<?xi32>, %position: index, %first: index)
    -> tensor<?x16xf32> {
  %t = llama.get_weight @table : tensor<16x8xf32>
  %x = llama.embed %ids, %t : tensor<?xi32>, tensor<16x8xf32>
  %c0 = arith.constant 0 : index
  %n = tensor.dim %ids, %c0 : tensor<?xi32>
  %m = arith.subi %n, %first : index
  %rows = tensor.extract_slice %x[%first, 0] [%m, 8] [1, 1]
      : tensor<?x8xf32> to tensor<?x8xf32>
  %logits = llama.head %rows, %t : tensor<?x8xf32>, tensor<16x8xf32>
  return %logits : tensor<?x16xf32>
}
