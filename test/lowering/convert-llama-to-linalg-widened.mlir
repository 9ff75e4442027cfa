// Of the rows of a prompt, products with matrices in blocks may take the weights'
// numbers, rounded to the rows' type; the rows are then not rounded to blocks.
// RUN: cria-opt --assign-slots --convert-llama-to-linalg="chunk=64 widened-types=bf16" --canonicalize --split-input-file %s | FileCheck %s
// RUN: not cria-opt --convert-llama-to-linalg=widened-types=f64 --split-input-file %s 2>&1 | FileCheck %s --check-prefix=TYPE
// TYPE: error: widened-types=f64: expected bf16 or f16

!x = tensor<?x96xbf16>
!e = tensor<16x96xbf16>
!w = tensor<96x96x!llama.blocks<q4_0>>

// A head multiplies integers.
// CHECK-LABEL: func @prefill
// CHECK: %[[ROWS:.*]] = tensor.expand_shape %{{.*}} output_shape [%{{.*}}, 3, 2, 16] : tensor<?x96xbf16>
// CHECK: linalg.generic {{.*}} ins(%[[ROWS]], %{{.*}} : tensor<?x3x2x16xbf16>, tensor<96x3x16xi8>, tensor<96x3xi8>, tensor<96x3xi8>)
// CHECK-NEXT: ^bb0(%[[X:.*]]: bf16, %[[BYTE:.*]]: i8, %{{.*}}: i8, %{{.*}}: i8, %[[SUM:.*]]: f32):
// CHECK: %[[XW:.*]] = arith.extf %[[X]]
// CHECK: arith.shrui %[[BYTE]]
// CHECK: %[[CODE:.*]] = arith.sitofp
// CHECK: %[[SCALE:.*]] = arith.extf %{{.*}} : f16 to f32
// CHECK-NEXT: %[[NUMBER:.*]] = arith.mulf %[[CODE]], %[[SCALE]] : f32
// CHECK-NEXT: %[[ROUNDED:.*]] = arith.truncf %[[NUMBER]] : f32 to bf16
// CHECK-NEXT: %[[W:.*]] = arith.extf %[[ROUNDED]]
// CHECK-NEXT: %[[TERM:.*]] = arith.mulf %[[XW]], %[[W]] fastmath<reassoc,contract>
// CHECK-NEXT: arith.addf %[[SUM]], %[[TERM]] fastmath<reassoc,contract>
// CHECK: math.roundeven
// CHECK: linalg.generic {{.*}} : tensor<?x3x2x16xi8>, tensor<?x3xf16>, tensor<96x3x16xi8>
func.func @prefill(%ids: tensor<?xi32>, %position: index, %first: index) -> (tensor<?x96xf32>) {
  %e = llama.get_weight @e : !e
  %x = llama.embed %ids, %e : tensor<?xi32>, !e
  %w = llama.get_weight @w : !w
  %y = llama.linear %x, %w : !x, !w
  %h = llama.head %y, %w : !x, !w
  return %h : tensor<?x96xf32>
}
llama.weight @e : !e from "e"
llama.weight @w : !w from "w"

// -----

// So do rows of another type, fewer than 32 rows of weights, and rows whose results must not depend on where a
// text is cut.
!wide = tensor<?x96xf32>
!table = tensor<16x96xf32>
!v = tensor<96x96x!llama.blocks<q8_0>>
// CHECK-LABEL: func @prefill
// CHECK: linalg.generic {{.*}} : tensor<?x3x32xi8>, tensor<?x3xf16>, tensor<96x3x32xi8>
func.func @prefill(%ids: tensor<?xi32>, %position: index, %first: index) -> (!wide) {
  %e = llama.get_weight @e : !table
  %x = llama.embed %ids, %e : tensor<?xi32>, !table
  %v = llama.get_weight @v : !v
  %y = llama.linear %x, %v : !wide, !v
  return %y : !wide
}
llama.weight @e : !table from "e"
llama.weight @v : !v from "v"

// -----

!x = tensor<?x96xbf16>
!e = tensor<16x96xbf16>
!v = tensor<96x96x!llama.blocks<q8_0>>
// CHECK-LABEL: func @prefill
// CHECK: linalg.generic {{.*}} : tensor<?x3x32xi8>, tensor<?x3xf16>, tensor<96x3x32xi8>
func.func @prefill(%ids: tensor<?xi32>, %position: index, %first: index) -> (tensor<?x96xf32>) attributes {cria.invariant} {
  %e = llama.get_weight @e : !e
  %x = llama.embed %ids, %e : tensor<?xi32>, !e
  %v = llama.get_weight @v : !v
  %y = llama.linear %x, %v : !x, !v
  %h = llama.head %y, %v : !x, !v
  return %h : tensor<?x96xf32>
}
llama.weight @e : !e from "e"
llama.weight @v : !v from "v"

// -----

!x = tensor<?x96xbf16>
!e = tensor<16x96xbf16>
!few = tensor<31x96x!llama.blocks<q8_0>>
// CHECK-LABEL: func @prefill
// CHECK: linalg.generic {{.*}} : tensor<?x3x32xi8>, tensor<?x3xf16>, tensor<31x3x32xi8>
func.func @prefill(%ids: tensor<?xi32>, %position: index, %first: index) -> (tensor<?x4xf32>) {
  %e = llama.get_weight @e : !e
  %x = llama.embed %ids, %e : tensor<?xi32>, !e
  %few = llama.get_weight @few : !few
  %y = llama.linear %x, %few : !x, !few
  %w = llama.get_weight @w : tensor<4x31xbf16>
  %h = llama.head %y, %w : tensor<?x31xbf16>, tensor<4x31xbf16>
  return %h : tensor<?x4xf32>
}
llama.weight @e : !e from "e"
llama.weight @few : !few from "few"
llama.weight @w : tensor<4x31xbf16> from "w"
