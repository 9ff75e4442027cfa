// Results are named after their symbol, after the weight that they multiply with, or
// after their op.
// RUN: cria-opt %s | FileCheck %s

llama.weight @q_proj : tensor<8x8xf32> from "q"
llama.weight @fc : tensor<8x8xf32> from "fc"
llama.rope_table @rope {positions = 16 : i64, inv_freq = array<f32: 1.0, 0.5>}

func.func @f(%x: tensor<?x8xf32>, %w: tensor<8x8xf32>, %h: tensor<?x2x4xf32>, %p: index) -> (tensor<?x8xf32>, tensor<?x8xf32>, tensor<?x2x4xf32>) {
  // CHECK: %q_proj = llama.get_weight @q_proj
  %0 = llama.get_weight @q_proj : tensor<8x8xf32>
  // CHECK: %fc = llama.get_weight @fc
  %1 = llama.get_weight @fc : tensor<8x8xf32>
  // CHECK: %rmsnorm = llama.rmsnorm
  %2 = llama.rmsnorm %x {eps = 1.0e-05} : tensor<?x8xf32>
  // CHECK: %cos, %sin = llama.get_rope @rope
  %cos, %sin = llama.get_rope @rope : tensor<16x2xf32>
  // CHECK: %rope = llama.rope %{{.*}}, %cos, %sin
  %3 = llama.rope %h, %cos, %sin at %p : tensor<?x2x4xf32>, tensor<16x2xf32>
  // CHECK: %qs:2 = llama.kernel "qs"
  %4:2 = llama.kernel "qs" -> tensor<?x8xf32>, tensor<?x8xf32> {
    // CHECK: %q = llama.linear %rmsnorm, %q_proj
    %5 = llama.linear %2, %0 : tensor<?x8xf32>, tensor<8x8xf32>
    // CHECK: %q_0 = llama.linear %q, %q_proj
    %6 = llama.linear %5, %0 : tensor<?x8xf32>, tensor<8x8xf32>
    // CHECK: %linear = llama.linear %q_0, %fc
    %7 = llama.linear %6, %1 : tensor<?x8xf32>, tensor<8x8xf32>
    // CHECK: %linear_1 = llama.linear %linear, %arg1
    %8 = llama.linear %7, %w : tensor<?x8xf32>, tensor<8x8xf32>
    llama.yield %7, %8 : tensor<?x8xf32>, tensor<?x8xf32>
  }
  return %4#0, %4#1, %3 : tensor<?x8xf32>, tensor<?x8xf32>, tensor<?x2x4xf32>
}
