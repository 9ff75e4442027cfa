// RUN: cria-opt --llama-fuse-route --split-input-file %s | FileCheck %s
// RUN: cria-opt --llama-fuse-route --split-input-file --remarks-filter=llama-.* %s 2>&1 >/dev/null | FileCheck %s --check-prefix=REMARK

!x = tensor<?x8xf32>
!e = tensor<4x6x8xf32>
!h = tensor<?x2x6xf32>

// The choice of experts is a kernel with the linear and the norm before. The
// experts' linears read a norm of their own, one for both.
// CHECK-LABEL: func @whole
// CHECK: %[[M:.*]] = llama.rmsnorm %arg0
// CHECK: %[[K:.*]]:2 = llama.kernel "route" -> tensor<?x2xi32>, tensor<?x2xf32> {
// CHECK-NEXT: %[[N:.*]] = llama.rmsnorm %arg0
// CHECK-NEXT: %[[L:.*]] = llama.linear %[[N]]
// CHECK-NEXT: %[[E:.*]], %[[W:.*]] = llama.route %[[L]]
// CHECK-NEXT: llama.yield %[[E]], %[[W]]
// CHECK-NEXT: }
// CHECK-NEXT: llama.expert_linear %[[M]], %arg2[%[[K]]#0]
// CHECK-NEXT: llama.expert_linear %[[M]], %arg3[%[[K]]#0]
// REMARK: [Passed] kernel | Category:llama-fuse-route | Function=whole | Kernel=route, Ops=3
func.func @whole(%x: !x, %r: tensor<4x8xf32>, %g: !e, %u: !e) -> (!h, tensor<?x2xf32>) {
  %n = llama.rmsnorm %x {eps = 1.0e-05} : !x
  %l = llama.linear %n, %r as f32 : !x, tensor<4x8xf32>
  %e, %w = llama.route %l top 2 : tensor<?x4xf32>
  %a = llama.expert_linear %n, %g[%e] : !x, !e, tensor<?x2xi32>
  %b = llama.expert_linear %n, %u[%e] : !x, !e, tensor<?x2xi32>
  %s = llama.swiglu %a, %b : !h
  return %s, %w : !h, tensor<?x2xf32>
}

// -----

!x = tensor<?x8xf32>

// A norm that also others read than linears of kernels to come stays outside.
// CHECK-LABEL: func @further_uses
// CHECK: llama.rmsnorm
// CHECK-NOT: llama.rmsnorm
// CHECK: llama.kernel "route"
// CHECK-NEXT: llama.linear
// CHECK-NEXT: llama.route
// REMARK: [Missed] left-out | Category:llama-fuse-route | Function=further_uses | Op=llama.rmsnorm, Reason="its result has further uses"
func.func @further_uses(%x: !x, %r: tensor<4x8xf32>) -> (!x, tensor<?x2xi32>, tensor<?x2xf32>) {
  %n = llama.rmsnorm %x {eps = 1.0e-05} : !x
  %l = llama.linear %n, %r as f32 : !x, tensor<4x8xf32>
  %e, %w = llama.route %l top 2 : tensor<?x4xf32>
  return %n, %e, %w : !x, tensor<?x2xi32>, tensor<?x2xf32>
}

// -----

!x = tensor<?x8xf32>
!e = tensor<4x12x8xf32>
!p = tensor<?x2x6x2xf32>
!c = tensor<?x2x6x1xf32>
!h = tensor<?x2x6xf32>

// The experts' linear, whose columns are gate and up in turns, reads a norm of
// its own.
// CHECK-LABEL: func @in_turns
// CHECK: %[[M:.*]] = llama.rmsnorm %arg0
// CHECK: llama.kernel "route"
// CHECK-NEXT: llama.rmsnorm %arg0
// CHECK: llama.expert_linear %[[M]]
func.func @in_turns(%x: !x, %r: tensor<4x8xf32>, %w: !e, %t: index) -> (!h, tensor<?x2xf32>) {
  %y = llama.rmsnorm %x {eps = 1.0e-05} : !x
  %l = llama.linear %y, %r as f32 : !x, tensor<4x8xf32>
  %e, %v = llama.route %l top 2 : tensor<?x4xf32>
  %b = llama.expert_linear %y, %w[%e] : !x, !e, tensor<?x2xi32>
  %p = tensor.expand_shape %b [[0], [1], [2, 3]] output_shape [%t, 2, 6, 2] : tensor<?x2x12xf32> into !p
  %0 = tensor.extract_slice %p[0, 0, 0, 0] [%t, 2, 6, 1] [1, 1, 1, 1] : !p to !c
  %g = tensor.collapse_shape %0 [[0], [1], [2, 3]] : !c into !h
  %1 = tensor.extract_slice %p[0, 0, 0, 1] [%t, 2, 6, 1] [1, 1, 1, 1] : !p to !c
  %u = tensor.collapse_shape %1 [[0], [1], [2, 3]] : !c into !h
  %s = llama.swiglu %g, %u : !h
  return %s, %v : !h, tensor<?x2xf32>
}
