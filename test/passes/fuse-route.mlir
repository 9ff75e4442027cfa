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
