// RUN: cria-opt --llama-quantize-cache=format=q8_0 --split-input-file --verify-diagnostics %s | FileCheck %s
// RUN: cria-opt --llama-quantize-cache --split-input-file %s | FileCheck %s --check-prefix=NONE
// RUN: not cria-opt --llama-quantize-cache=format=q4_0 --split-input-file %s 2>&1 | FileCheck %s --check-prefix=BAD

// BAD: error: expected a format q8_0 or none, got 'q4_0'
// NONE-NOT: blocks

!h = tensor<?x2x32xbf16>
!c = tensor<3x2x16x32xbf16>

// Wherever a cache goes: through appends and loops, out of the function. What is
// appended keeps its type.
// CHECK-LABEL: func @forward
// CHECK-SAME: %[[K:[^:]*]]: tensor<3x2x16x32x!llama.blocks<q8_0>>, %[[V:[^:]*]]: tensor<3x2x16x32x!llama.blocks<q8_0>>) -> (tensor<?x2x32xbf16>, tensor<3x2x16x32x!llama.blocks<q8_0>>, tensor<3x2x16x32x!llama.blocks<q8_0>>)
// CHECK: scf.for {{.*}} iter_args(%[[A:.*]] = %{{.*}}, %[[B:.*]] = %[[K]]) -> (tensor<?x2x32xbf16>, tensor<3x2x16x32x!llama.blocks<q8_0>>)
// CHECK: llama.kv_append %[[A]] into %[[B]]{{.*}} : tensor<?x2x32xbf16> into tensor<3x2x16x32x!llama.blocks<q8_0>>
// CHECK: llama.gqa {{.*}} : tensor<?x2x32xbf16>, tensor<3x2x16x32x!llama.blocks<q8_0>>
func.func @forward(%x: !h, %p: index, %k: !c, %v: !c) -> (!h, !c, !c) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c3 = arith.constant 3 : index
  %y, %k2 = scf.for %i = %c0 to %c3 step %c1 iter_args(%a = %x, %b = %k) -> (!h, !c) {
    %k1 = llama.kv_append %a into %b[%i] at %p : !h into !c
    %o = llama.gqa %a, %k1, %v[%i] at %p {scale = 1.0} : !h, !c
    scf.yield %o, %k1 : !h, !c
  }
  return %y, %k2, %v : !h, !c, !c
}

// -----

// expected-error @below {{expected a head_dim that is a multiple of 32, for caches in blocks, got 24}}
func.func @forward(%k: tensor<3x2x16x24xf32>) -> tensor<3x2x16x24xf32> {
  return %k : tensor<3x2x16x24xf32>
}

// -----

func.func @forward(%k: tensor<3x2x16x32xf32>) -> tensor<3x2x16x32xf32> {
  %0 = llama.kernel "k" -> tensor<3x2x16x32xf32> {
    // expected-error @below {{expected caches to go through appends, states and loops alone, got llama.yield}}
    llama.yield %k : tensor<3x2x16x32xf32>
  }
  return %0 : tensor<3x2x16x32xf32>
}
