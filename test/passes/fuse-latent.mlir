// RUN: cria-opt --llama-fuse-latent --split-input-file %s | FileCheck %s
// RUN: cria-opt --llama-fuse-latent --split-input-file --remarks-filter=llama-.* %s 2>&1 >/dev/null | FileCheck %s --check-prefix=REMARK

!x = tensor<?x8xf32>
!c = tensor<2x1x32x6xf32>
!t = tensor<32x1xf32>

// The linears that read a norm are a kernel, the ops that make a row and append
// it another, and those that make queries a third. Slices stay outside.
// CHECK-LABEL: func @whole
// CHECK: %[[L:.*]]:2 = llama.kernel "latent_linears" -> tensor<?x20xf32>, tensor<?x6xf32> {
// CHECK-NEXT: %[[N:.*]] = llama.rmsnorm %arg0
// CHECK-NEXT: llama.linear %[[N]]
// CHECK-NEXT: llama.linear %[[N]]
// CHECK: %[[S:.*]] = tensor.extract_slice %[[L]]#1[0, 0]
// CHECK: %[[K:.*]] = llama.kernel "latent" -> tensor<2x1x32x6xf32> {
// CHECK-NEXT: llama.rmsnorm %[[S]]
// CHECK-NEXT: tensor.expand_shape
// CHECK-NEXT: tensor.expand_shape
// CHECK-NEXT: llama.rope
// CHECK-NEXT: tensor.concat
// CHECK-NEXT: llama.kv_append
// CHECK: %[[Q:.*]] = llama.kernel "latent_2" -> tensor<?x4x6xf32> {
// CHECK-NEXT: llama.head_linear
// CHECK-NEXT: llama.rope
// CHECK-NEXT: tensor.concat
// CHECK: llama.gqa %[[Q]], %[[K]], %[[K]]
// REMARK: [Passed] kernel | Category:llama-fuse-latent | Function=whole | Kernel=latent_linears, Ops=3
func.func @whole(%x: !x, %wq: tensor<20x8xf32>, %wk: tensor<6x8xf32>, %w: tensor<4x3x4xf32>, %c: !c, %cos: !t, %sin: !t, %n: index, %i: index) -> (tensor<?x4x4xf32>, !c) {
  %h = llama.rmsnorm %x {eps = 1.0e-05} : !x
  %0 = llama.linear %h, %wq : !x, tensor<20x8xf32>
  %q = tensor.expand_shape %0 [[0], [1, 2]] output_shape [%n, 4, 5] : tensor<?x20xf32> into tensor<?x4x5xf32>
  %r = llama.linear %h, %wk : !x, tensor<6x8xf32>
  %1 = tensor.extract_slice %r[0, 0] [%n, 4] [1, 1] : tensor<?x6xf32> to tensor<?x4xf32>
  %2 = llama.rmsnorm %1 {eps = 1.0e-06} : tensor<?x4xf32>
  %3 = tensor.extract_slice %r[0, 4] [%n, 2] [1, 1] : tensor<?x6xf32> to tensor<?x2xf32>
  %4 = tensor.expand_shape %2 [[0], [1, 2]] output_shape [%n, 1, 4] : tensor<?x4xf32> into tensor<?x1x4xf32>
  %5 = tensor.expand_shape %3 [[0], [1, 2]] output_shape [%n, 1, 2] : tensor<?x2xf32> into tensor<?x1x2xf32>
  %6 = llama.rope %5, %cos, %sin at %i : tensor<?x1x2xf32>, !t
  %7 = tensor.concat dim(2) %4, %6 : (tensor<?x1x4xf32>, tensor<?x1x2xf32>) -> tensor<?x1x6xf32>
  %k = llama.kv_append %7 into %c[%i] at %i : tensor<?x1x6xf32> into !c
  %8 = tensor.extract_slice %q[0, 0, 0] [%n, 4, 3] [1, 1, 1] : tensor<?x4x5xf32> to tensor<?x4x3xf32>
  %9 = tensor.extract_slice %q[0, 0, 3] [%n, 4, 2] [1, 1, 1] : tensor<?x4x5xf32> to tensor<?x4x2xf32>
  %10 = llama.head_linear %8, %w transposed : tensor<?x4x3xf32>, tensor<4x3x4xf32>
  %11 = llama.rope %9, %cos, %sin at %i : tensor<?x4x2xf32>, !t
  %12 = tensor.concat dim(2) %10, %11 : (tensor<?x4x4xf32>, tensor<?x4x2xf32>) -> tensor<?x4x6xf32>
  %o = llama.gqa %12, %k, %k[%i] at %i values 4 {scale = 0.5, causal} : tensor<?x4x6xf32>, !c
  return %o, %k : tensor<?x4x4xf32>, !c
}

// -----

!c = tensor<2x1x32x4xf32>

// Attention over two caches is left to other passes.
// CHECK-LABEL: func @two_caches
// CHECK-NOT: llama.kernel
func.func @two_caches(%q: tensor<?x4x4xf32>, %a: tensor<?x1x2xf32>, %k: !c, %v: !c, %i: index) -> tensor<?x4x4xf32> {
  %r = tensor.concat dim(2) %a, %a : (tensor<?x1x2xf32>, tensor<?x1x2xf32>) -> tensor<?x1x4xf32>
  %n = llama.kv_append %r into %k[%i] at %i : tensor<?x1x4xf32> into !c
  %o = llama.gqa %q, %n, %v[%i] at %i {scale = 0.5} : tensor<?x4x4xf32>, !c
  return %o : tensor<?x4x4xf32>
}
