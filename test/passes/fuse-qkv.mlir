// RUN: cria-opt --llama-fuse-qkv --split-input-file %s | FileCheck %s
// RUN: cria-opt --llama-fuse-qkv --split-input-file --remarks-filter=llama-.* %s 2>&1 >/dev/null | FileCheck %s --check-prefix=REMARK

!x = tensor<?x8xf32>
!w = tensor<8x8xf32>
!h = tensor<?x2x4xf32>
!t = tensor<32x2xf32>
!c = tensor<2x2x32x4xf32>

// Norm, linears, reshapes, rope and append are one kernel; without names in
// the locations its name is the pass's own. Weights stay outside.
// CHECK-LABEL: func @whole
// CHECK: llama.get_weight
// CHECK: %[[K:.*]]:3 = llama.kernel "qkv" -> tensor<?x2x4xf32>, tensor<2x2x32x4xf32>, tensor<2x2x32x4xf32> {
// CHECK-NEXT: llama.rmsnorm
// CHECK-NEXT: %[[Q:.*]] = llama.linear
// CHECK-NEXT: llama.linear
// CHECK-NEXT: llama.linear {{.*}} bias
// CHECK-NEXT: %[[H:.*]] = tensor.expand_shape %[[Q]]
// CHECK-NEXT: tensor.expand_shape
// CHECK-NEXT: tensor.expand_shape
// CHECK-NEXT: %[[R:.*]] = llama.rope %[[H]]
// CHECK-NEXT: llama.rope
// CHECK-NEXT: %[[A:.*]] = llama.kv_append
// CHECK-NEXT: %[[B:.*]] = llama.kv_append
// CHECK-NEXT: llama.yield %[[R]], %[[A]], %[[B]]
// CHECK-NEXT: }
// CHECK-NEXT: llama.gqa %[[K]]#0, %[[K]]#1, %[[K]]#2
// REMARK: remark: [Passed] kernel | Category:llama-fuse-qkv | Function=whole | Kernel=qkv, Ops=11
llama.weight @w : tensor<8x8xf32> from "w"
func.func @whole(%x: !x, %g: tensor<8xf32>, %b: tensor<8xf32>, %cos: !t,
                 %k: !c, %v: !c, %n: index, %i: index) -> (!h, !c, !c) {
  %w = llama.get_weight @w : !w
  %y = llama.rmsnorm %x, %g {eps = 1.0e-05} : !x, tensor<8xf32>
  %q0 = llama.linear %y, %w : !x, !w
  %k0 = llama.linear %y, %w : !x, !w
  %v0 = llama.linear %y, %w bias(%b : tensor<8xf32>) : !x, !w
  %q1 = tensor.expand_shape %q0 [[0], [1, 2]] output_shape [%n, 2, 4] : !x into !h
  %k1 = tensor.expand_shape %k0 [[0], [1, 2]] output_shape [%n, 2, 4] : !x into !h
  %v1 = tensor.expand_shape %v0 [[0], [1, 2]] output_shape [%n, 2, 4] : !x into !h
  %q2 = llama.rope %q1, %cos, %cos at %i : !h, !t
  %k2 = llama.rope %k1, %cos, %cos at %i : !h, !t
  %k3 = llama.kv_append %k2 into %k[%i] at %i : !h into !c
  %v3 = llama.kv_append %v1 into %v[%i] at %i : !h into !c
  %o = llama.gqa %q2, %k3, %v3[%i] at %i {scale = 0.5} : !h, !c
  return %o, %k3, %v3 : !h, !c, !c
}

// -----

!x = tensor<?x8xf32>
!w = tensor<8x8xf32>
!h = tensor<?x2x4xf32>
!c = tensor<2x2x32x4xf32>

// Without rope, with a layernorm, and with a linear only for the query: what is
// there is fused. Keys that are not appended are not touched.
// CHECK-LABEL: func @parts
// CHECK: %[[K:.*]] = llama.kernel "qkv" -> tensor<?x2x4xf32> {
// CHECK-NEXT: llama.layernorm
// CHECK-NEXT: llama.linear
// CHECK-NEXT: %[[H:.*]] = tensor.expand_shape
// CHECK-NEXT: llama.yield %[[H]]
// CHECK-NEXT: }
// CHECK-NEXT: llama.gqa %[[K]], %arg2, %arg2
func.func @parts(%x: !x, %w: !w, %k: !c, %n: index, %i: index) -> !h {
  %y = llama.layernorm %x {eps = 1.0e-05} : !x
  %q0 = llama.linear %y, %w : !x, !w
  %q1 = tensor.expand_shape %q0 [[0], [1, 2]] output_shape [%n, 2, 4] : !x into !h
  %o = llama.gqa %q1, %k, %k[%i] at %i {scale = 0.5} : !h, !c
  return %o : !h
}

// -----

!x = tensor<?x8xf32>
!w = tensor<8x8xf32>
!h = tensor<?x2x4xf32>
!c = tensor<2x2x32x4xf32>

// A norm that others read too stays outside, as does a linear.
// CHECK-LABEL: func @further_uses
// CHECK-NEXT: %[[Y:.*]] = llama.rmsnorm
// CHECK-NEXT: %[[Q:.*]] = llama.linear %[[Y]]
// CHECK-NEXT: %[[K:.*]]:2 = llama.kernel "qkv" -> tensor<?x2x4xf32>, tensor<2x2x32x4xf32> {
// CHECK-NEXT: tensor.expand_shape %[[Q]]
// CHECK-NEXT: llama.linear %[[Y]]
// CHECK-NEXT: tensor.expand_shape
// CHECK-NEXT: llama.kv_append
// CHECK-NEXT: llama.yield
// CHECK-NEXT: }
// REMARK: remark: [Missed] left-out | Category:llama-fuse-qkv | Function=further_uses | Op=llama.linear, Reason="its result has further uses"
// REMARK: remark: [Missed] left-out | Category:llama-fuse-qkv | Function=further_uses | Op=llama.rmsnorm, Reason="its result has further uses"
func.func @further_uses(%x: !x, %w: !w, %k: !c, %n: index, %i: index) -> (!h, !x) {
  %y = llama.rmsnorm %x {eps = 1.0e-05} : !x
  %q0 = llama.linear %y, %w : !x, !w
  %q1 = tensor.expand_shape %q0 [[0], [1, 2]] output_shape [%n, 2, 4] : !x into !h
  %k0 = llama.linear %y, %w : !x, !w
  %k1 = tensor.expand_shape %k0 [[0], [1, 2]] output_shape [%n, 2, 4] : !x into !h
  %k2 = llama.kv_append %k1 into %k[%i] at %i : !h into !c
  %o = llama.gqa %q1, %k2, %k2[%i] at %i {scale = 0.5} : !h, !c
  return %o, %q0 : !h, !x
}

// -----

!x = tensor<?x8xf32>
!w = tensor<8x8xf32>
!h = tensor<?x2x4xf32>
!c = tensor<2x2x32x4xf32>

// Linears of different values share a kernel, but not a norm.
// CHECK-LABEL: func @two_inputs
// CHECK-NEXT: %[[Y:.*]] = llama.rmsnorm
// CHECK-NEXT: llama.kernel "qkv"
// CHECK-NEXT: llama.linear %[[Y]]
// REMARK: remark: [Missed] left-out | Category:llama-fuse-qkv | Function=two_inputs | Op=llama.linear, Reason="the linears read different values"
func.func @two_inputs(%x: !x, %z: !x, %w: !w, %k: !c, %n: index, %i: index) -> !h {
  %y = llama.rmsnorm %x {eps = 1.0e-05} : !x
  %q0 = llama.linear %y, %w : !x, !w
  %q1 = tensor.expand_shape %q0 [[0], [1, 2]] output_shape [%n, 2, 4] : !x into !h
  %k0 = llama.linear %z, %w : !x, !w
  %k1 = tensor.expand_shape %k0 [[0], [1, 2]] output_shape [%n, 2, 4] : !x into !h
  %k2 = llama.kv_append %k1 into %k[%i] at %i : !h into !c
  %o = llama.gqa %q1, %k2, %k2[%i] at %i {scale = 0.5} : !h, !c
  return %o : !h
}

// -----

!h = tensor<?x2x4xf32>
!c = tensor<2x2x32x4xf32>

// Nothing of the block makes query and caches.
// CHECK-LABEL: func @arguments
// CHECK-NOT: llama.kernel
// REMARK: remark: [Missed] left-out | Category:llama-fuse-qkv | Function=arguments | Op=llama.gqa, Reason="query and caches come from outside of the block"
func.func @arguments(%q: !h, %k: !c, %i: index) -> !h {
  %o = llama.gqa %q, %k, %k[%i] at %i {scale = 0.5} : !h, !c
  return %o : !h
}

// -----

!h = tensor<?x2x4xf32>
!c = tensor<2x2x32x4xf32>

// The query of the second append depends on the first: one kernel would need
// its own result.
// CHECK-LABEL: func @in_between
// CHECK-NOT: llama.kernel
// REMARK: remark: [Missed] left-out | Category:llama-fuse-qkv | Function=in_between | Op=llama.kv_append, Reason="an op outside of the kernel is between its ops"
func.func @in_between(%q: !h, %k: !c, %i: index) -> !h {
  %k1 = llama.kv_append %q into %k[%i] at %i : !h into !c
  %r = tensor.extract_slice %k1[0, 0, 0, 0] [1, 2, 1, 4] [1, 1, 1, 1]
      : !c to tensor<2x4xf32>
  %s = tensor.expand_shape %r [[0, 1], [2]] output_shape [1, 2, 4]
      : tensor<2x4xf32> into tensor<1x2x4xf32>
  %t = tensor.cast %s : tensor<1x2x4xf32> to !h
  %v1 = llama.kv_append %t into %k[%i] at %i : !h into !c
  %o = llama.gqa %q, %k1, %v1[%i] at %i {scale = 0.5} : !h, !c
  return %o : !h
}

// -----

!x = tensor<?x32xf32>
!w = tensor<32x32xf32>
!h = tensor<?x1x32xf32>
!c = tensor<2x1x32x32x!llama.blocks<q8_0>>

// What is appended to caches in blocks leaves the kernel.
// CHECK-LABEL: func @blocks
// CHECK: %[[K:.*]]:3 = llama.kernel "qkv" -> tensor<?x1x32xf32>, tensor<?x1x32xf32>, tensor<?x1x32xf32> {
// CHECK: llama.yield
// CHECK-NEXT: }
// CHECK-NEXT: %[[A:.*]] = llama.kv_append %[[K]]#{{.}}
// CHECK-NEXT: %[[B:.*]] = llama.kv_append %[[K]]#{{.}}
// CHECK-NEXT: llama.gqa %[[K]]#{{.}}, %[[A]], %[[B]]
// REMARK: remark: [Passed] kernel | Category:llama-fuse-qkv | Function=blocks | Kernel=qkv, Ops=6
func.func @blocks(%x: !x, %w: !w, %k: !c, %v: !c, %n: index, %i: index) -> (!h, !c, !c) {
  %q0 = llama.linear %x, %w : !x, !w
  %k0 = llama.linear %x, %w : !x, !w
  %v0 = llama.linear %x, %w : !x, !w
  %q1 = tensor.expand_shape %q0 [[0], [1, 2]] output_shape [%n, 1, 32] : !x into !h
  %k1 = tensor.expand_shape %k0 [[0], [1, 2]] output_shape [%n, 1, 32] : !x into !h
  %v1 = tensor.expand_shape %v0 [[0], [1, 2]] output_shape [%n, 1, 32] : !x into !h
  %k2 = llama.kv_append %k1 into %k[%i] at %i : !h into !c
  %v2 = llama.kv_append %v1 into %v[%i] at %i : !h into !c
  %o = llama.gqa %q1, %k2, %v2[%i] at %i {scale = 0.5} : !h, !c
  return %o, %k2, %v2 : !h, !c, !c
}

// -----

!x = tensor<?x32xf32>
!w = tensor<32x32xf32>
!h = tensor<?x1x32xf32>
!c = tensor<2x1x32x32xf32>
!s = tensor<?x2xf32>

// Linears whose results ranks sum are a kernel before the one with the sum.
module attributes {llama.shards = 2 : i64} {
  // CHECK-LABEL: func @sums
  // CHECK: %[[L:.*]]:3 = llama.kernel "qkv" -> tensor<?x32xf32>, tensor<?x32xf32>, tensor<?x32xf32> {
  // CHECK-COUNT-3: llama.linear
  // CHECK-NEXT: llama.yield
  // CHECK: llama.kernel "qkv_2" -> tensor<?x1x32xf32>, {{.*}} {
  // CHECK: llama.square_sums %[[L]]#0, %[[L]]#1
  // CHECK: llama.all_reduce
  // CHECK-COUNT-2: llama.rmsnorm {{.*}} squares(
  // CHECK-NOT: llama.kernel
  // CHECK-COUNT-2: llama.kv_append
  // CHECK-NEXT: llama.yield
  // REMARK: remark: [Passed] kernel | Category:llama-fuse-qkv | Function=sums | Kernel=qkv, Ops=3
  func.func @sums(%x: !x, %w: !w, %k: !c, %v: !c, %n: index, %i: index) -> (!h, !c, !c) {
    %q0 = llama.linear %x, %w : !x, !w
    %k0 = llama.linear %x, %w : !x, !w
    %part = llama.square_sums %q0, %k0 : !x, !x
    %sums = llama.all_reduce %part : !s
    %q1 = llama.rmsnorm %q0 squares(%sums : !s) {eps = 1.0e-5, size = 64} : !x
    %q2 = tensor.expand_shape %q1 [[0], [1, 2]] output_shape [%n, 1, 32] : !x into !h
    %k1 = llama.rmsnorm %k0 squares(%sums : !s) {eps = 1.0e-5, column = 1, size = 64} : !x
    %k2 = tensor.expand_shape %k1 [[0], [1, 2]] output_shape [%n, 1, 32] : !x into !h
    %v0 = llama.linear %x, %w : !x, !w
    %v1 = tensor.expand_shape %v0 [[0], [1, 2]] output_shape [%n, 1, 32] : !x into !h
    %k3 = llama.kv_append %k2 into %k[%i] at %i : !h into !c
    %v3 = llama.kv_append %v1 into %v[%i] at %i : !h into !c
    %o = llama.gqa %q2, %k3, %v3[%i] at %i {scale = 0.5} : !h, !c
    return %o, %k3, %v3 : !h, !c, !c
  }
}

// -----

!x = tensor<?x8xf32>
!w = tensor<24x8xf32>
!h = tensor<?x2x4xf32>
!c = tensor<2x2x32x4xf32>

// A slice of one product of queries, keys and values is not fused.
// CHECK-LABEL: func @slices
// CHECK: llama.linear
// CHECK-COUNT-3: tensor.extract_slice
// CHECK: llama.kernel "qkv"
// REMARK-COUNT-3: remark: [Missed] left-out | Category:llama-fuse-qkv | Function=slices | Op=tensor.extract_slice, Reason="only linear, expand_shape, rmsnorm and rope are fused in front of attention"
func.func @slices(%x: !x, %w: !w, %k: !c, %v: !c, %n: index, %i: index) -> (!h, !c, !c) {
  %qkv = llama.linear %x, %w : !x, !w
  %q0 = tensor.extract_slice %qkv[0, 0] [%n, 8] [1, 1] : tensor<?x24xf32> to !x
  %k0 = tensor.extract_slice %qkv[0, 8] [%n, 8] [1, 1] : tensor<?x24xf32> to !x
  %v0 = tensor.extract_slice %qkv[0, 16] [%n, 8] [1, 1] : tensor<?x24xf32> to !x
  %q1 = tensor.expand_shape %q0 [[0], [1, 2]] output_shape [%n, 2, 4] : !x into !h
  %k1 = tensor.expand_shape %k0 [[0], [1, 2]] output_shape [%n, 2, 4] : !x into !h
  %v1 = tensor.expand_shape %v0 [[0], [1, 2]] output_shape [%n, 2, 4] : !x into !h
  %k2 = llama.kv_append %k1 into %k[%i] at %i : !h into !c
  %v2 = llama.kv_append %v1 into %v[%i] at %i : !h into !c
  %o = llama.gqa %q1, %k2, %v2[%i] at %i {scale = 0.5} : !h, !c
  return %o, %k2, %v2 : !h, !c, !c
}

// -----

!x = tensor<?x8xf32>
!w = tensor<8x8xf32>
!h = tensor<?x2x4xf32>
!c = tensor<2x2x32x4xf32>

// Values may be a part of the rows of their own cache.
// CHECK-LABEL: func @short_values
// CHECK: %[[QKV:.*]]:3 = llama.kernel "qkv"
// CHECK: llama.gqa %[[QKV]]#{{.}}, %[[QKV]]#{{.}}, %[[QKV]]#{{.}}[%{{.*}}] at %{{.*}} values 3
func.func @short_values(%x: !x, %w: !w, %k: !c, %v: !c, %n: index, %i: index) -> (tensor<?x2x3xf32>, !c, !c) {
  %q0 = llama.linear %x, %w : !x, !w
  %k0 = llama.linear %x, %w : !x, !w
  %v0 = llama.linear %x, %w : !x, !w
  %q1 = tensor.expand_shape %q0 [[0], [1, 2]] output_shape [%n, 2, 4] : !x into !h
  %k1 = tensor.expand_shape %k0 [[0], [1, 2]] output_shape [%n, 2, 4] : !x into !h
  %v1 = tensor.expand_shape %v0 [[0], [1, 2]] output_shape [%n, 2, 4] : !x into !h
  %k2 = llama.kv_append %k1 into %k[%i] at %i : !h into !c
  %v2 = llama.kv_append %v1 into %v[%i] at %i : !h into !c
  %o = llama.gqa %q1, %k2, %v2[%i] at %i values 3 {scale = 0.5} : !h, !c
  return %o, %k2, %v2 : tensor<?x2x3xf32>, !c, !c
}
