// Two products of the same rows, with weights in blocks of 8 and of 4 bits: the sums of
// the packed rows begin with other offsets, so each kind packs its own.
// RUN: cria-compile %s --cpu=icelake-server --chunk=64 -j1 --emit=tile -o - | FileCheck %s

// CHECK: func.func private @[[KERNEL:.*]]_prefill
// CHECK: arith.muli %{{.*}}, %c-128_i32
// CHECK: arith.muli %{{.*}}, %c-8_i32
llama.weight @table : tensor<64x128xbf16> from "table"
llama.weight @gate : tensor<32x128x!llama.blocks<q8_0>> from "gate"
llama.weight @up : tensor<32x128x!llama.blocks<q4_0>> from "up"
llama.weight @head : tensor<64x32xbf16> from "head"
func.func @forward(%ids: tensor<?xi32>, %position: index, %first: index) -> tensor<?x64xf32> {
  %c0 = arith.constant 0 : index
  %n = tensor.dim %ids, %c0 : tensor<?xi32>
  %m = arith.subi %n, %first : index
  %table = llama.get_weight @table : tensor<64x128xbf16>
  %x = llama.embed %ids, %table : tensor<?xi32>, tensor<64x128xbf16>
  %gate = llama.get_weight @gate : tensor<32x128x!llama.blocks<q8_0>>
  %g = llama.linear %x, %gate : tensor<?x128xbf16>, tensor<32x128x!llama.blocks<q8_0>>
  %up = llama.get_weight @up : tensor<32x128x!llama.blocks<q4_0>>
  %u = llama.linear %x, %up : tensor<?x128xbf16>, tensor<32x128x!llama.blocks<q4_0>>
  %y = llama.swiglu %g, %u : tensor<?x32xbf16>
  %last = tensor.extract_slice %y[%first, 0] [%m, 32] [1, 1] : tensor<?x32xbf16> to tensor<?x32xbf16>
  %head = llama.get_weight @head : tensor<64x32xbf16>
  %logits = llama.head %last, %head : tensor<?x32xbf16>, tensor<64x32xbf16>
  return %logits : tensor<?x64xf32>
}
