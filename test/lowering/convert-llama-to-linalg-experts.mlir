// Mixtures of experts in linalg.
// RUN: cria-opt --assign-slots --convert-llama-to-linalg=chunk=64 --split-input-file %s | FileCheck %s

// Each expert of each layer has a slot.
// CHECK: func private @up(index) -> tensor<4x6x8xbf16> attributes {cria.weight = {experts = 4 : index, slot = 0 : index, source = "l.{}.e.{}"}}
// CHECK: func private @t() -> tensor<16x8xbf16> attributes {cria.weight = {slot = 12 : index, source = "t"}}
llama.weight @up[3] experts : tensor<4x6x8xbf16> from "l.{}.e.{}"
llama.weight @t : tensor<16x8xbf16> from "t"

// The router's product stays in f32. The rank of an expert counts those that come
// before it; the chosen experts are found by their ranks.
// CHECK: func private @route_prefill(%[[X:[^:]*]]: tensor<?x8xbf16>, %{{.*}}: tensor<16x8xbf16>,
// CHECK: %[[LOGITS:.*]] = linalg.generic {{.*}}"reduction"]} ins(%[[X]],
// CHECK-NOT: arith.truncf
// CHECK: arith.maximumf
// CHECK: math.exp
// CHECK: arith.divf
// CHECK: %[[RANKS:.*]] = linalg.generic {{.*}}"parallel", "parallel", "reduction"]} ins(%[[S:[^,]*]], %[[S]] : tensor<?x4xf32>, tensor<?x4xf32>) outs({{.*}} : tensor<?x4xi32>)
// CHECK: arith.cmpi ult
// CHECK: arith.cmpf ugt
// CHECK: arith.cmpf ord
// CHECK: arith.extui
// CHECK: %[[CHOSEN:.*]] = linalg.generic {{.*}}"parallel", "parallel", "reduction"]} ins(%[[RANKS]]
// CHECK: arith.cmpi eq
// CHECK: arith.select
// CHECK: linalg.generic {{.*}} ins(%[[CHOSEN]]
// CHECK: tensor.extract %[[S]]

// A product extracts numbers of the expert that a token chose: no copy of a weight.
// CHECK: func private @up_prefill(%[[X:[^:]*]]: tensor<?x8xbf16>, %[[W:[^:]*]]: tensor<4x6x8xbf16>, %[[E:[^:]*]]: tensor<?x2xi32>,
// CHECK: linalg.generic {{.*}}"parallel", "parallel", "parallel", "reduction"]} ins(%[[E]], %[[X]]
// CHECK: %[[N:.*]] = linalg.index 2
// CHECK: %[[K:.*]] = linalg.index 3
// CHECK: %[[AT:.*]] = arith.index_cast
// CHECK: tensor.extract %[[W]][%[[AT]], %[[N]], %[[K]]]
// CHECK: arith.mulf {{.*}} fastmath<reassoc,contract>
// CHECK: arith.addf {{.*}} fastmath<reassoc,contract>

// The sum over chosen experts keeps their order.
// CHECK: func private @combine_prefill
// CHECK: arith.mulf %{{[^ ]*}}, %{{[^ ]*}} : f32
// CHECK: arith.addf %{{[^ ]*}}, %{{[^ ]*}} : f32
func.func @prefill(%ids: tensor<?xi32>, %position: index, %first: index, %k: tensor<1x1x4x8xbf16>, %v: tensor<1x1x4x8xbf16>)
    -> (tensor<?x16xf32>, tensor<1x1x4x8xbf16>, tensor<1x1x4x8xbf16>) {
  %l = arith.constant 1 : index
  %t = llama.get_weight @t : tensor<16x8xbf16>
  %up = llama.get_weight @up[%l] : tensor<4x6x8xbf16>
  %x = llama.kernel "embed" -> tensor<?x8xbf16> {
    %0 = llama.embed %ids, %t : tensor<?xi32>, tensor<16x8xbf16>
    llama.yield %0 : tensor<?x8xbf16>
  }
  %r = tensor.extract_slice %t[0, 0] [4, 8] [1, 1] : tensor<16x8xbf16> to tensor<4x8xbf16>
  %e, %w = llama.kernel "route" -> tensor<?x2xi32>, tensor<?x2xf32> {
    %0 = llama.linear %x, %r as f32 : tensor<?x8xbf16>, tensor<4x8xbf16>
    %1, %2 = llama.route %0 top 2 normalize sum : tensor<?x4xf32>
    llama.yield %1, %2 : tensor<?x2xi32>, tensor<?x2xf32>
  }
  %u = llama.kernel "up" -> tensor<?x2x6xbf16> {
    %0 = llama.expert_linear %x, %up[%e] : tensor<?x8xbf16>, tensor<4x6x8xbf16>, tensor<?x2xi32>
    llama.yield %0 : tensor<?x2x6xbf16>
  }
  %y = llama.kernel "combine" -> tensor<?x6xbf16> {
    %0 = llama.combine %w, %u : tensor<?x2xf32>, tensor<?x2x6xbf16>
    llama.yield %0 : tensor<?x6xbf16>
  }
  %h = tensor.extract_slice %t[0, 0] [16, 6] [1, 1] : tensor<16x8xbf16> to tensor<16x6xbf16>
  %logits = llama.head %y, %h : tensor<?x6xbf16>, tensor<16x6xbf16>
  return %logits, %k, %v : tensor<?x16xf32>, tensor<1x1x4x8xbf16>, tensor<1x1x4x8xbf16>
}
