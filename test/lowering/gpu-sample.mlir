// RUN: cria-opt --convert-linalg-to-gpu --canonicalize %s | FileCheck %s

// The entry that draws an id from the logits of `decode`: what the two kernels
// hand over is its own memory; both read the state.
// CHECK-LABEL: func.func @sample(
// CHECK-SAME: %[[LOGITS:[^:]*]]: memref<1x2000xf32>, %[[SEEN:[^:]*]]: memref<63xi32>, %[[SAMPLED:[^:]*]]: memref<4xi32>, %[[STATE:[^:]*]]: memref<56xi8>) attributes {arguments = ["logits", "seen", "sampled", "state"]}
// CHECK: %[[SCORES:.*]] = memref.alloc() : memref<2048xf32>
// CHECK: %[[BEST:.*]] = memref.alloc() : memref<2xi64>
// CHECK: gpu.launch_func  @kernels::@sample_scores blocks in (%c2, %c1, %c1) threads in (%c256, %c1, %c1){{ +}}args(%[[SCORES]] : memref<2048xf32>, %[[BEST]] : memref<2xi64>, %[[LOGITS]] : memref<1x2000xf32>, %[[STATE]] : memref<56xi8>, %[[SEEN]] : memref<63xi32>)
// CHECK: %[[LIST:.*]] = memref.alloc() : memref<2048xf32>
// CHECK: gpu.launch_func  @kernels::@sample blocks in (%c1, %c1, %c1) threads in (%c512, %c1, %c1){{ +}}args(%[[SCORES]] : memref<2048xf32>, %[[BEST]] : memref<2xi64>, %[[LIST]] : memref<2048xf32>, %[[STATE]] : memref<56xi8>, %[[SAMPLED]] : memref<4xi32>, %[[LOGITS]] : memref<1x2000xf32>)
func.func @decode(%ids: tensor<1xi32>, %tokens: index, %position: index, %first: index, %source: index, %logits: tensor<1x2000xf32>) -> tensor<1x2000xf32>
    attributes {arguments = ["ids", "tokens", "position", "first", "source", "logits"], chunk = 1 : index} {
  return %logits : tensor<1x2000xf32>
}
