// RUN: cria-opt --llama-fuse-residual --split-input-file %s | FileCheck %s
// RUN: cria-opt --llama-fuse-residual --split-input-file --remarks-filter=llama-.* %s 2>&1 >/dev/null | FileCheck %s --check-prefix=REMARK

!x = tensor<?x8xf32>
!w = tensor<8x8xf32>

// The linear and the addition of its result are one kernel.
// CHECK-LABEL: func @plain
// CHECK: %[[K:.*]] = llama.kernel "linear_residual" -> tensor<?x8xf32> {
// CHECK-NEXT: %[[L:.*]] = llama.linear
// CHECK-NEXT: %[[R:.*]] = llama.residual %arg0, %[[L]]
// CHECK-NEXT: llama.yield %[[R]]
// CHECK-NEXT: }
// CHECK-NEXT: return %[[K]]
// REMARK: [Passed] kernel | Category:llama-fuse-residual | Function=plain | Kernel=linear_residual, Ops=2
func.func @plain(%x: !x, %y: !x, %w: !w) -> !x {
  %u = llama.linear %y, %w : !x, !w
  %r = llama.residual %x, %u : !x
  return %r : !x
}

// -----

!x = tensor<?x8xf32>
!w = tensor<8x8xf32>

// Heads that are merged only for the linear are merged in the kernel.
// CHECK-LABEL: func @merged_heads
// CHECK: llama.kernel
// CHECK-NEXT: tensor.collapse_shape
// CHECK-NEXT: llama.linear
// CHECK-NEXT: llama.residual
func.func @merged_heads(%x: !x, %h: tensor<?x2x4xf32>, %w: !w) -> !x {
  %y = tensor.collapse_shape %h [[0], [1, 2]] : tensor<?x2x4xf32> into !x
  %u = llama.linear %y, %w : !x, !w
  %r = llama.residual %x, %u : !x
  return %r : !x
}

// -----

!x = tensor<?x8xf32>
!w = tensor<8x8xf32>

// An update that others read too is made outside.
// CHECK-LABEL: func @further_uses
// CHECK-NOT: llama.kernel
// REMARK: [Missed] left-out | Category:llama-fuse-residual | Function=further_uses | Op=llama.linear, Reason="its result has further uses"
func.func @further_uses(%x: !x, %y: !x, %w: !w) -> (!x, !x) {
  %u = llama.linear %y, %w : !x, !w
  %r = llama.residual %x, %u : !x
  return %r, %u : !x, !x
}

// -----

!x = tensor<?x8xf32>
!w = tensor<8x8xf32>

// An update that no linear makes is left alone, and so is a linear that is the
// stream.
// CHECK-LABEL: func @other_update
// CHECK-NOT: llama.kernel
// REMARK: [Missed] left-out | Category:llama-fuse-residual | Function=other_update | Op=llama.residual, Reason="its update is not a linear of this block"
func.func @other_update(%x: !x, %y: !x, %w: !w) -> !x {
  %u = llama.linear %y, %w : !x, !w
  %r = llama.residual %u, %x : !x
  return %r : !x
}

// -----

!x = tensor<?x8xf32>
!w = tensor<8x8xf32>

// Two updates of one stream (attention and MLP in parallel): two kernels, the
// second named apart.
// CHECK-LABEL: func @parallel
// CHECK: %[[A:.*]] = llama.kernel "linear_residual"
// CHECK: llama.residual %arg0
// CHECK: llama.kernel "linear_residual_2"
// CHECK: llama.residual %[[A]]
func.func @parallel(%x: !x, %y: !x, %z: !x, %w: !w) -> !x {
  %a = llama.linear %y, %w : !x, !w
  %b = llama.linear %z, %w : !x, !w
  %r = llama.residual %x, %a : !x
  %s = llama.residual %r, %b : !x
  return %s : !x
}

// -----

!x = tensor<?x8xf32>
!w = tensor<8x8xf32>

// What ranks sum is summed in the kernel, before a norm.
// CHECK-LABEL: func @all_reduce
// CHECK: llama.kernel
// CHECK-NEXT: llama.linear
// CHECK-NEXT: llama.all_reduce
// CHECK-NEXT: llama.rmsnorm
// CHECK-NEXT: llama.residual
// CHECK-NEXT: llama.yield
module attributes {llama.shards = 2 : i64} {
  func.func @all_reduce(%x: !x, %y: !x, %w: !w) -> !x {
    %u = llama.linear %y, %w : !x, !w
    %s = llama.all_reduce %u : !x
    %n = llama.rmsnorm %s {eps = 1.0e-5} : !x
    %r = llama.residual %x, %n : !x
    return %r : !x
  }
}

// -----

!x = tensor<?x8xf32>
!h = tensor<?x2x6xf32>
!e = tensor<4x8x6xf32>

// The sum over experts, and their products, are in the kernel.
// CHECK-LABEL: func @experts
// CHECK: llama.kernel "experts_residual" -> tensor<?x8xf32> {
// CHECK-NEXT: %[[D:.*]] = llama.expert_linear %arg1, %arg2[%arg3]
// CHECK-NEXT: %[[C:.*]] = llama.combine %arg4, %[[D]]
// CHECK-NEXT: llama.residual %arg0, %[[C]]
// CHECK-NEXT: llama.yield
func.func @experts(%x: !x, %h: !h, %w: !e, %e: tensor<?x2xi32>, %s: tensor<?x2xf32>) -> !x {
  %d = llama.expert_linear %h, %w[%e] : !h, !e, tensor<?x2xi32>
  %c = llama.combine %s, %d : tensor<?x2xf32>, tensor<?x2x8xf32>
  %r = llama.residual %x, %c : !x
  return %r : !x
}

// -----

!x = tensor<?x8xf32>
!h = tensor<?x2x6xf32>
!e = tensor<4x8x6xf32>

// So is the addition of a shared expert.
// CHECK-LABEL: func @shared
// CHECK: %[[L:.*]] = llama.linear
// CHECK: llama.kernel "experts_residual" -> tensor<?x8xf32> {
// CHECK-NEXT: %[[D:.*]] = llama.expert_linear
// CHECK-NEXT: %[[C:.*]] = llama.combine %{{.*}}, %[[D]]
// CHECK-NEXT: %[[A:.*]] = llama.residual %[[C]], %[[L]]
// CHECK-NEXT: llama.residual %arg0, %[[A]]
func.func @shared(%x: !x, %h: !h, %w: !e, %e: tensor<?x2xi32>, %s: tensor<?x2xf32>, %v: tensor<8x8xf32>) -> !x {
  %d = llama.expert_linear %h, %w[%e] : !h, !e, tensor<?x2xi32>
  %c = llama.combine %s, %d : tensor<?x2xf32>, tensor<?x2x8xf32>
  %l = llama.linear %x, %v : !x, tensor<8x8xf32>
  %a = llama.residual %c, %l : !x
  %r = llama.residual %x, %a : !x
  return %r : !x
}

// -----

!x = tensor<?x8xf32>
!h = tensor<?x2x6xf32>
!e = tensor<4x8x6xf32>

// Ranks add up what experts computed in the kernel, before the addition of a
// shared expert, whose sum over ranks is outside.
// CHECK-LABEL: func @experts_all_reduce
// CHECK: llama.kernel "experts_residual" -> tensor<?x8xf32> {
// CHECK-NEXT: %[[D:.*]] = llama.expert_linear
// CHECK-NEXT: %[[C:.*]] = llama.combine %{{.*}}, %[[D]]
// CHECK-NEXT: %[[S:.*]] = llama.all_reduce %[[C]]
// CHECK-NEXT: %[[X:.*]] = llama.residual %arg0, %[[S]]
// CHECK-NEXT: llama.yield %[[X]]
// CHECK: %[[L:.*]] = llama.all_reduce
// CHECK: llama.kernel "experts_residual_2" -> tensor<?x8xf32> {
// CHECK-NEXT: llama.expert_linear
// CHECK-NEXT: llama.combine
// CHECK-NEXT: %[[S:.*]] = llama.all_reduce
// CHECK-NEXT: %[[A:.*]] = llama.residual %[[S]], %[[L]]
// CHECK-NEXT: llama.residual %{{.*}}, %[[A]]
// REMARK: Function=experts_all_reduce | Kernel=experts_residual, Ops=4
// REMARK: Function=experts_all_reduce | Kernel=experts_residual_2, Ops=5
module attributes {llama.shards = 2 : i64} {
  func.func @experts_all_reduce(%x: !x, %h: !h, %w: !e, %e: tensor<?x2xi32>, %s: tensor<?x2xf32>, %v: tensor<8x8xf32>) -> !x {
    %d = llama.expert_linear %h, %w[%e] : !h, !e, tensor<?x2xi32>
    %c = llama.combine %s, %d : tensor<?x2xf32>, tensor<?x2x8xf32>
    %c_all = llama.all_reduce %c : !x
    %r = llama.residual %x, %c_all : !x
    %d2 = llama.expert_linear %h, %w[%e] : !h, !e, tensor<?x2xi32>
    %c2 = llama.combine %s, %d2 : tensor<?x2xf32>, tensor<?x2x8xf32>
    %c2_all = llama.all_reduce %c2 : !x
    %l = llama.linear %r, %v : !x, tensor<8x8xf32>
    %l_all = llama.all_reduce %l : !x
    %a = llama.residual %c2_all, %l_all : !x
    %r2 = llama.residual %r, %a : !x
    return %r2 : !x
  }
}

// -----

!x = tensor<?x8xf32>
!h = tensor<?x2x6xf32>
!e = tensor<4x8x6xf32>

// A sum over ranks that others read, too, is made outside.
// CHECK-LABEL: func @all_reduce_further_uses
// CHECK: %[[S:.*]] = llama.all_reduce
// CHECK: llama.kernel "experts_residual"
// CHECK-NEXT: llama.residual %arg0, %[[S]]
// REMARK: [Missed] left-out | Category:llama-fuse-residual | Function=all_reduce_further_uses | Op=llama.all_reduce, Reason="its result has further uses"
module attributes {llama.shards = 2 : i64} {
  func.func @all_reduce_further_uses(%x: !x, %h: !h, %w: !e, %e: tensor<?x2xi32>, %s: tensor<?x2xf32>) -> (!x, !x) {
    %d = llama.expert_linear %h, %w[%e] : !h, !e, tensor<?x2xi32>
    %c = llama.combine %s, %d : tensor<?x2xf32>, tensor<?x2x8xf32>
    %c_all = llama.all_reduce %c : !x
    %r = llama.residual %x, %c_all : !x
    return %r, %c_all : !x, !x
  }
}
