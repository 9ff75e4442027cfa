// RUN: cria-opt --llama-quantize-weights="format=q4_0 head=q8_0" --split-input-file %s | FileCheck %s
// RUN: cria-opt --llama-quantize-weights="format=q8_0 embedding=none" --split-input-file %s | FileCheck %s --check-prefix=SOME
// RUN: cria-opt --llama-quantize-weights="format=q4_0" --split-input-file %s 2>&1 >/dev/null | FileCheck %s --check-prefix=WARN
// RUN: cria-opt --llama-quantize-weights --split-input-file %s | FileCheck %s --check-prefix=NONE
// RUN: not cria-opt --llama-quantize-weights=format=q5_1 --split-input-file %s 2>&1 | FileCheck %s --check-prefix=BAD

// BAD: error: expected a format q8_0, q4_0, fp8 or none, got 'q5_1'
// NONE-NOT: blocks

// Matrices of products, lookups and heads have a format each; a lookup keeps the
// type of its result. What an adapter, a norm or a bias reads stays.
// CHECK: @e : tensor<64x32x!llama.blocks<q4_0>>
// CHECK: @w[2] : tensor<32x32x!llama.blocks<q4_0>>
// CHECK: @h : tensor<64x32x!llama.blocks<q8_0>> from "h" or @e
// CHECK: @a : tensor<4x32xbf16> from "a" adapter
// CHECK: @n : tensor<32xbf16>
// CHECK: llama.embed %{{.*}}, %{{.*}} as bf16 : tensor<?xi32>, tensor<64x32x!llama.blocks<q4_0>>
// CHECK: llama.get_weight @w[%{{.*}}] : tensor<32x32x!llama.blocks<q4_0>>
// CHECK: llama.linear {{.*}} : tensor<?x32xbf16>, tensor<32x32x!llama.blocks<q4_0>>
// CHECK: llama.head {{.*}} : tensor<?x32xbf16>, tensor<64x32x!llama.blocks<q8_0>>
// SOME: @e : tensor<64x32xbf16>
// SOME: @w[2] : tensor<32x32x!llama.blocks<q8_0>>
// SOME: @h : tensor<64x32x!llama.blocks<q8_0>>
llama.weight @e : tensor<64x32xbf16> from "e"
llama.weight @w[2] : tensor<32x32xbf16> from "l.{}.w"
llama.weight @h : tensor<64x32xbf16> from "h" or @e
llama.weight @a : tensor<4x32xbf16> from "a" adapter
llama.weight @n : tensor<32xbf16> from "n"
func.func @forward(%ids: tensor<?xi32>, %layer: index) -> tensor<?x64xf32> {
  %e = llama.get_weight @e : tensor<64x32xbf16>
  %x = llama.embed %ids, %e : tensor<?xi32>, tensor<64x32xbf16>
  %n = llama.get_weight @n : tensor<32xbf16>
  %y = llama.rmsnorm %x, %n {eps = 1.0e-5} : tensor<?x32xbf16>, tensor<32xbf16>
  %w = llama.get_weight @w[%layer] : tensor<32x32xbf16>
  %z = llama.linear %y, %w : tensor<?x32xbf16>, tensor<32x32xbf16>
  %a = llama.get_weight @a : tensor<4x32xbf16>
  %u = llama.linear %z, %a : tensor<?x32xbf16>, tensor<4x32xbf16>
  %h = llama.get_weight @h : tensor<64x32xbf16>
  %l = llama.head %z, %h : tensor<?x32xbf16>, tensor<64x32xbf16>
  return %l : tensor<?x64xf32>
}

// -----

// Rows that are no whole blocks stay.
// CHECK: @w : tensor<32x48xf32>
// WARN: warning: stays 'f32': its rows of 48 numbers are not whole blocks of 32
llama.weight @w : tensor<32x48xf32> from "w"
func.func @forward(%x: tensor<?x48xf32>) -> tensor<?x32xf32> {
  %w = llama.get_weight @w : tensor<32x48xf32>
  %y = llama.linear %x, %w : tensor<?x48xf32>, tensor<32x48xf32>
  return %y : tensor<?x32xf32>
}

// -----

// Matrices of experts, whose biases stay.
// CHECK: @experts experts : tensor<2x32x32x!llama.blocks<q4_0>>
// CHECK: @bias : tensor<2x32xf32>
// CHECK: llama.expert_linear {{.*}} tensor<2x32x32x!llama.blocks<q4_0>>
llama.weight @experts experts : tensor<2x32x32xf32> from "e.{}"
llama.weight @bias : tensor<2x32xf32> from "b"
func.func @forward(%x: tensor<?x32xf32>, %e: tensor<?x1xi32>) -> tensor<?x1x32xf32> {
  %w = llama.get_weight @experts : tensor<2x32x32xf32>
  %b = llama.get_weight @bias : tensor<2x32xf32>
  %y = llama.expert_linear %x, %w[%e] bias(%b : tensor<2x32xf32>) : tensor<?x32xf32>, tensor<2x32x32xf32>, tensor<?x1xi32>
  return %y : tensor<?x1x32xf32>
}

// -----

// A router stays.
// CHECK: @router : tensor<4x32xf32>
llama.weight @router : tensor<4x32xf32> from "r"
func.func @forward(%x: tensor<?x32xf32>) -> tensor<?x4xf32> {
  %w = llama.get_weight @router : tensor<4x32xf32>
  %y = llama.linear %x, %w as f32 : tensor<?x32xf32>, tensor<4x32xf32>
  return %y : tensor<?x4xf32>
}

// -----

// A matrix that is read otherwise, too, stays.
// CHECK: @w : tensor<32x32xf32>
llama.weight @w : tensor<32x32xf32> from "w"
func.func @forward(%x: tensor<?x32xf32>) -> tensor<?x32xf32> {
  %w = llama.get_weight @w : tensor<32x32xf32>
  %n = llama.rmsnorm %w {eps = 1.0e-5} : tensor<32x32xf32>
  %y = llama.linear %x, %w : tensor<?x32xf32>, tensor<32x32xf32>
  return %y : tensor<?x32xf32>
}
