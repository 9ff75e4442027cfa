// RUN: cria-opt --llama-fuse-attention --split-input-file %s | FileCheck %s
// RUN: cria-opt --llama-fuse-attention --split-input-file --remarks-filter=llama-.* %s 2>&1 >/dev/null | FileCheck %s --check-prefix=REMARK

!h = tensor<?x2x4xf32>
!c = tensor<2x2x32x4xf32>

// Attention takes the merging of its heads along.
// CHECK-LABEL: func @merged
// CHECK: %[[K:.*]] = llama.kernel "attention" -> tensor<?x8xf32> {
// CHECK-NEXT: %[[O:.*]] = llama.gqa
// CHECK-NEXT: %[[F:.*]] = tensor.collapse_shape %[[O]]
// CHECK-NEXT: llama.yield %[[F]]
// CHECK-NEXT: }
// CHECK-NEXT: return %[[K]]
// REMARK: [Passed] kernel | Category:llama-fuse-attention | Function=merged | Kernel=attention, Ops=2
func.func @merged(%q: !h, %k: !c, %i: index) -> tensor<?x8xf32> {
  %o = llama.gqa %q, %k, %k[%i] at %i {scale = 0.5} : !h, !c
  %f = tensor.collapse_shape %o [[0], [1, 2]] : !h into tensor<?x8xf32>
  return %f : tensor<?x8xf32>
}

// -----

!h = tensor<?x2x4xf32>
!c = tensor<2x2x32x4xf32>

// Heads that others read too are merged outside.
// CHECK-LABEL: func @further_uses
// CHECK: %[[K:.*]] = llama.kernel "attention" -> tensor<?x2x4xf32> {
// CHECK-NEXT: %[[O:.*]] = llama.gqa
// CHECK-NEXT: llama.yield %[[O]]
// CHECK-NEXT: }
// CHECK-NEXT: tensor.collapse_shape %[[K]]
// REMARK: [Missed] left-out | Category:llama-fuse-attention | Function=further_uses | Op=tensor.collapse_shape, Reason="attention has further uses"
func.func @further_uses(%q: !h, %k: !c, %i: index) -> (!h, tensor<?x8xf32>) {
  %o = llama.gqa %q, %k, %k[%i] at %i {scale = 0.5} : !h, !c
  %f = tensor.collapse_shape %o [[0], [1, 2]] : !h into tensor<?x8xf32>
  return %o, %f : !h, tensor<?x8xf32>
}

// -----

!h = tensor<?x2x4xf32>
!c = tensor<2x2x32x4xf32>

// What is in a kernel stays as it is.
// CHECK-LABEL: func @in_kernel
// CHECK-COUNT-1: llama.kernel
// CHECK-NOT: llama.kernel
func.func @in_kernel(%q: !h, %k: !c, %i: index) -> !h {
  %r = llama.kernel "mine" -> !h {
    %o = llama.gqa %q, %k, %k[%i] at %i {scale = 0.5} : !h, !c
    llama.yield %o : !h
  }
  return %r : !h
}
