// Products with 8-bit floats: one row multiplies the weights' numbers, and several rows these
// numbers rounded to their type. Rows in f32 are rounded to bf16.
// RUN: cria-opt --assign-slots --convert-llama-to-linalg=chunk=64 --canonicalize --split-input-file %s | FileCheck %s

!x = tensor<?x96xbf16>
!e = tensor<16x96x!llama.blocks<fp8>>
!w = tensor<8x96x!llama.blocks<fp8>>

// CHECK-LABEL: func @prefill
// CHECK: %[[BYTE:.*]] = tensor.extract %{{.*}} : tensor<16x3x34xi8>
// CHECK: arith.extsi %[[BYTE]] : i8 to i16
// CHECK: linalg.generic {{.*}} : tensor<?x3x32xbf16>, tensor<8x3x32xi8>, tensor<8x3xi8>, tensor<8x3xi8>)
// CHECK-NEXT: ^bb0(%[[X:.*]]: bf16, %[[BYTE:.*]]: i8, %{{.*}}: i8, %{{.*}}: i8, %[[SUM:.*]]: f32):
// CHECK: %[[WIDE:.*]] = arith.extsi %[[BYTE]] : i8 to i16
// CHECK-NEXT: %[[SHIFTED:.*]] = arith.shli %[[WIDE]], %c7_i16
// CHECK-NEXT: %[[BITS:.*]] = arith.andi %[[SHIFTED]], %c-16385_i16
// CHECK-NEXT: %[[HALF:.*]] = arith.bitcast %[[BITS]] : i16 to f16
// CHECK-NEXT: %[[CODE:.*]] = arith.extf %[[HALF]] : f16 to f32
// CHECK: %[[SCALE:.*]] = arith.extf %{{.*}} : f16 to f32
// CHECK-NEXT: %[[NUMBER:.*]] = arith.mulf %[[CODE]], %[[SCALE]] : f32
// CHECK-NEXT: %[[ROUNDED:.*]] = arith.truncf %[[NUMBER]] : f32 to bf16
// CHECK-NEXT: %[[W:.*]] = arith.extf %[[ROUNDED]]
// CHECK: %[[TERM:.*]] = arith.mulf %{{.*}}, %[[W]] fastmath<reassoc,contract>
// CHECK-NEXT: arith.addf %[[SUM]], %[[TERM]] fastmath<reassoc,contract>
func.func @prefill(%ids: tensor<?xi32>, %position: index, %first: index) -> (tensor<?x8xf32>) {
  %e = llama.get_weight @e : !e
  %x = llama.embed %ids, %e as bf16 : tensor<?xi32>, !e
  %w = llama.get_weight @w : !w
  %h = llama.head %x, %w : !x, !w
  return %h : tensor<?x8xf32>
}
llama.weight @e : !e from "e"
llama.weight @w : !w from "w"

// -----

!x = tensor<?x96xf32>
!e = tensor<16x96xf32>
!w = tensor<8x96x!llama.blocks<fp8>>

// CHECK-LABEL: func @prefill
// CHECK: arith.truncf %{{.*}} : f32 to bf16
// CHECK: linalg.generic {{.*}} : tensor<?x3x32xbf16>, tensor<8x3x32xi8>
// CHECK: arith.truncf %{{.*}} : f32 to bf16
func.func @prefill(%ids: tensor<?xi32>, %position: index, %first: index) -> (tensor<?x8xf32>) {
  %e = llama.get_weight @e : !e
  %x = llama.embed %ids, %e : tensor<?xi32>, !e
  %w = llama.get_weight @w : !w
  %h = llama.head %x, %w : !x, !w
  return %h : tensor<?x8xf32>
}
llama.weight @e : !e from "e"
llama.weight @w : !w from "w"
