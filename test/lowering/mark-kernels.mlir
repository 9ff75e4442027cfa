// The name of a kernel is in its location, where bufferization keeps it.
// RUN: cria-opt --mark-kernels --mlir-print-debuginfo --mlir-print-local-scope %s | FileCheck %s
// RUN: cria-opt --mark-kernels --one-shot-bufferize="bufferize-function-boundaries" --canonicalize --mlir-print-debuginfo --mlir-print-local-scope %s | FileCheck %s --check-prefix=KEPT

// CHECK-LABEL: func @kernels
// CHECK: scf.execute_region
// CHECK: } {kernel = "out"} loc(fused<"out">["model.layers.*.self_attn.o_proj"])
// What is no kernel keeps its location.
// CHECK: scf.execute_region
// CHECK: } loc("other")
// KEPT-LABEL: func @kernels
// KEPT: loc(fused<"out">["model.layers.*.self_attn.o_proj"])
func.func @kernels(%x: tensor<4xf32>, %v: f32, %i: index) -> tensor<4xf32> {
  %y = scf.execute_region -> tensor<4xf32> no_inline {
    %0 = tensor.insert %v into %x[%i] : tensor<4xf32>
    scf.yield %0 : tensor<4xf32>
  } {kernel = "out"} loc("model.layers.*.self_attn.o_proj")
  %z = scf.execute_region -> tensor<4xf32> no_inline {
    %0 = tensor.insert %v into %y[%i] : tensor<4xf32>
    scf.yield %0 : tensor<4xf32>
  } loc("other")
  return %z : tensor<4xf32>
}
