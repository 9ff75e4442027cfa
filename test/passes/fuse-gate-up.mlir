// RUN: cria-opt --llama-fuse-gate-up --split-input-file %s | FileCheck %s
// RUN: cria-opt --llama-fuse-gate-up --split-input-file --remarks-filter=llama-.* %s 2>&1 >/dev/null | FileCheck %s --check-prefix=REMARK

!x = tensor<?x8xf32>
!h = tensor<?x12xf32>
!w = tensor<12x8xf32>

// Norm, both linears and their product are one kernel; the norm is in it once.
// CHECK-LABEL: func @whole
// CHECK: %[[K:.*]] = llama.kernel "gate_up" -> tensor<?x12xf32> {
// CHECK-NEXT: %[[Y:.*]] = llama.rmsnorm
// CHECK-NEXT: %[[G:.*]] = llama.linear %[[Y]]
// CHECK-NEXT: %[[U:.*]] = llama.linear %[[Y]]
// CHECK-NEXT: %[[S:.*]] = llama.swiglu %[[G]], %[[U]]
// CHECK-NEXT: llama.yield %[[S]]
// REMARK: [Passed] kernel | Category:llama-fuse-gate-up | Function=whole | Kernel=gate_up, Ops=4
func.func @whole(%x: !x, %wg: !w, %wu: !w) -> !h {
  %y = llama.rmsnorm %x {eps = 1.0e-05} : !x
  %g = llama.linear %y, %wg : !x, !w
  %u = llama.linear %y, %wu : !x, !w
  %s = llama.swiglu %g, %u : !h
  return %s : !h
}

// -----

!x = tensor<?x8xf32>
!h = tensor<?x12xf32>
!w = tensor<12x8xf32>

// Without a gate: norm, linear and what follows are one kernel.
// CHECK-LABEL: func @activate
// CHECK: llama.kernel "activate" -> tensor<?x12xf32> {
// CHECK-NEXT: %[[Y:.*]] = llama.rmsnorm
// CHECK-NEXT: %[[U:.*]] = llama.linear %[[Y]]
// CHECK-NEXT: %[[S:.*]] = llama.activate relu %[[U]]
// CHECK-NEXT: llama.yield %[[S]]
func.func @activate(%x: !x, %w: !w) -> !h {
  %y = llama.rmsnorm %x {eps = 1.0e-05} : !x
  %u = llama.linear %y, %w : !x, !w
  %s = llama.activate relu %u : !h
  return %s : !h
}

// -----

!x = tensor<?x8xf32>
!h = tensor<?x12xf32>
!w = tensor<12x8xf32>

// A factor that no linear makes comes from outside.
// CHECK-LABEL: func @one_linear
// CHECK: llama.kernel "gate_up"
// CHECK-NEXT: llama.linear
// CHECK-NEXT: llama.swiglu %{{.*}}, %arg1
// REMARK: [Missed] left-out | Category:llama-fuse-gate-up | Function=one_linear | Op=llama.swiglu, Reason="a factor is not a linear of this block"
func.func @one_linear(%x: !x, %u: !h, %w: !w) -> !h {
  %g = llama.linear %x, %w : !x, !w
  %s = llama.swiglu %g, %u : !h
  return %s : !h
}

// -----

!x = tensor<?x8xf32>
!h = tensor<?x12xf32>
!w = tensor<12x8xf32>

// A gate that others read too is made outside, and with it the norm.
// CHECK-LABEL: func @further_uses
// CHECK-NEXT: llama.rmsnorm
// CHECK-NEXT: llama.linear
// CHECK-NEXT: llama.kernel "gate_up"
// CHECK-NEXT: llama.linear
// CHECK-NEXT: llama.swiglu
// REMARK: [Missed] left-out | Category:llama-fuse-gate-up | Function=further_uses | Op=llama.linear, Reason="its result has further uses"
// REMARK: [Missed] left-out | Category:llama-fuse-gate-up | Function=further_uses | Op=llama.rmsnorm, Reason="its result has further uses"
func.func @further_uses(%x: !x, %wg: !w, %wu: !w) -> (!h, !h) {
  %y = llama.rmsnorm %x {eps = 1.0e-05} : !x
  %g = llama.linear %y, %wg : !x, !w
  %u = llama.linear %y, %wu : !x, !w
  %s = llama.swiglu %g, %u : !h
  return %s, %g : !h, !h
}

// -----

!x = tensor<?x8xf32>
!w = tensor<8x8xf32>

// Both factors may be one linear.
// CHECK-LABEL: func @same_factor
// CHECK: llama.kernel "gate_up"
// CHECK-NEXT: %[[G:.*]] = llama.linear
// CHECK-NEXT: llama.swiglu %[[G]], %[[G]]
func.func @same_factor(%x: !x, %w: !w) -> !x {
  %g = llama.linear %x, %w : !x, !w
  %s = llama.swiglu %g, %g : !x
  return %s : !x
}

// -----

!x = tensor<?x8xf32>
!h = tensor<?x12xf32>
!w = tensor<12x8xf32>

// An op between the ops that reads one of them moves behind the kernel.
// CHECK-LABEL: func @reader_in_between
// CHECK: %[[K:.*]] = llama.kernel "gate_up"
// CHECK: }
// CHECK-NEXT: llama.residual %[[K]], %[[K]]
// CHECK-NEXT: %[[L:.*]] = llama.kernel "gate_up_2"
func.func @reader_in_between(%x: !x, %w: !w) -> (!h, !h) {
  %g = llama.linear %x, %w : !x, !w
  %h = llama.linear %x, %w : !x, !w
  %s = llama.swiglu %g, %g : !h
  %r = llama.residual %s, %s : !h
  %t = llama.swiglu %h, %h : !h
  return %r, %t : !h, !h
}

// -----

!x = tensor<?x8xf32>
!e = tensor<4x6x8xf32>

// Linears of experts are fused as others are.
// CHECK-LABEL: func @experts
// CHECK: llama.kernel "gate_up" -> tensor<?x2x6xf32> {
// CHECK-NEXT: %[[Y:.*]] = llama.rmsnorm
// CHECK-NEXT: %[[G:.*]] = llama.expert_linear %[[Y]], %arg1[%arg3]
// CHECK-NEXT: %[[U:.*]] = llama.expert_linear %[[Y]], %arg2[%arg3]
// CHECK-NEXT: llama.swiglu %[[G]], %[[U]]
func.func @experts(%x: !x, %wg: !e, %wu: !e, %e: tensor<?x2xi32>) -> tensor<?x2x6xf32> {
  %y = llama.rmsnorm %x {eps = 1.0e-05} : !x
  %g = llama.expert_linear %y, %wg[%e] : !x, !e, tensor<?x2xi32>
  %u = llama.expert_linear %y, %wu[%e] : !x, !e, tensor<?x2xi32>
  %s = llama.swiglu %g, %u : tensor<?x2x6xf32>
  return %s : tensor<?x2x6xf32>
}

// -----

!x = tensor<?x8xf32>
!w = tensor<8x8xf32>

// The gate of a shared expert reads the norm, the other factor what the expert
// computed: the gate stays outside.
// CHECK-LABEL: func @shared_gate
// CHECK: %[[G:.*]] = llama.linear %arg0, %arg2 : tensor<?x8xf32>, tensor<1x8xf32>
// CHECK: llama.kernel "gate_up" -> tensor<?x8xf32> {
// CHECK-NEXT: %[[D:.*]] = llama.linear %arg1, %arg3
// CHECK-NEXT: llama.swiglu %[[G]], %[[D]]
// REMARK: [Missed] left-out | Category:llama-fuse-gate-up | Function=shared_gate | Op=llama.linear, Reason="the linears read different values"
func.func @shared_gate(%x: !x, %h: !x, %g: tensor<1x8xf32>, %d: !w) -> !x {
  %0 = llama.linear %x, %g : !x, tensor<1x8xf32>
  %1 = llama.linear %h, %d : !x, !w
  %2 = llama.swiglu %0, %1 activation sigmoid : tensor<?x1xf32>, !x
  return %2 : !x
}

// -----

!x = tensor<?x8xf32>
!e = tensor<4x12x8xf32>
!p = tensor<?x2x6x2xf32>
!c = tensor<?x2x6x1xf32>
!h = tensor<?x2x6xf32>

// Gate and up in turns, as columns of one linear: the slices that take them
// apart are in the kernel, and so are the linear and the norm.
// CHECK-LABEL: func @in_turns
// CHECK: llama.kernel "gate_up" -> tensor<?x2x6xf32> {
// CHECK-NEXT: %[[Y:.*]] = llama.rmsnorm
// CHECK-NEXT: %[[B:.*]] = llama.expert_linear %[[Y]]
// CHECK-NEXT: %[[P:.*]] = tensor.expand_shape %[[B]]
// CHECK-NEXT: %[[F:.*]] = tensor.extract_slice %[[P]][0, 0, 0, 0]
// CHECK-NEXT: %[[G:.*]] = tensor.collapse_shape %[[F]]
// CHECK-NEXT: %[[S:.*]] = tensor.extract_slice %[[P]][0, 0, 0, 1]
// CHECK-NEXT: %[[U:.*]] = tensor.collapse_shape %[[S]]
// CHECK-NEXT: llama.swiglu %[[G]], %[[U]]
func.func @in_turns(%x: !x, %w: !e, %e: tensor<?x2xi32>, %t: index) -> !h {
  %y = llama.rmsnorm %x {eps = 1.0e-05} : !x
  %b = llama.expert_linear %y, %w[%e] : !x, !e, tensor<?x2xi32>
  %p = tensor.expand_shape %b [[0], [1], [2, 3]] output_shape [%t, 2, 6, 2] : tensor<?x2x12xf32> into !p
  %0 = tensor.extract_slice %p[0, 0, 0, 0] [%t, 2, 6, 1] [1, 1, 1, 1] : !p to !c
  %g = tensor.collapse_shape %0 [[0], [1], [2, 3]] : !c into !h
  %1 = tensor.extract_slice %p[0, 0, 0, 1] [%t, 2, 6, 1] [1, 1, 1, 1] : !p to !c
  %u = tensor.collapse_shape %1 [[0], [1], [2, 3]] : !c into !h
  %s = llama.swiglu %g, %u : !h
  return %s : !h
}

// -----

!x = tensor<?x8xf32>
!e = tensor<4x12x8xf32>
!p = tensor<?x2x6x2xf32>
!c = tensor<?x2x6x1xf32>
!h = tensor<?x2x6xf32>

// Columns in turns that others read, too, are made outside.
// CHECK-LABEL: func @in_turns_further_uses
// CHECK: llama.expert_linear
// CHECK: %[[P:.*]] = tensor.expand_shape
// CHECK: llama.kernel "gate_up" -> tensor<?x2x6xf32> {
// CHECK-NEXT: tensor.extract_slice %[[P]]
// REMARK: [Missed] left-out | Category:llama-fuse-gate-up | Function=in_turns_further_uses | Op=tensor.expand_shape, Reason="its result has further uses"
func.func @in_turns_further_uses(%y: !x, %w: !e, %e: tensor<?x2xi32>, %t: index) -> (!h, !p) {
  %b = llama.expert_linear %y, %w[%e] : !x, !e, tensor<?x2xi32>
  %p = tensor.expand_shape %b [[0], [1], [2, 3]] output_shape [%t, 2, 6, 2] : tensor<?x2x12xf32> into !p
  %0 = tensor.extract_slice %p[0, 0, 0, 0] [%t, 2, 6, 1] [1, 1, 1, 1] : !p to !c
  %g = tensor.collapse_shape %0 [[0], [1], [2, 3]] : !c into !h
  %1 = tensor.extract_slice %p[0, 0, 0, 1] [%t, 2, 6, 1] [1, 1, 1, 1] : !p to !c
  %u = tensor.collapse_shape %1 [[0], [1], [2, 3]] : !c into !h
  %s = llama.swiglu %g, %u : !h
  return %s, %p : !h, !p
}
