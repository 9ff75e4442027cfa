// RUN: cria-opt --convert-linalg-to-gpu --canonicalize %s | FileCheck %s

// The entry that draws an id from the logits of `decode`: three launches of a
// block for every 1024 ids, which share counts of arrivals that begin with 0.
// What they hand over is its own memory; all read the state.
// CHECK: memref.global "private" @sample.zeros : memref<1xi32> = dense<0>
// CHECK-LABEL: func.func @sample(
// CHECK-SAME: %[[LOGITS:[^:]*]]: memref<1x2000xf32>, %[[SEEN:[^:]*]]: memref<63xi32>, %[[SAMPLED:[^:]*]]: memref<4xi32>, %[[STATE:[^:]*]]: memref<64xi8>) attributes {arguments = ["logits", "seen", "sampled", "state"]}
// CHECK: %[[SCORES:.*]] = memref.alloc() : memref<2048xf32>
// CHECK: %[[BEST:.*]] = memref.alloc() : memref<2xi64>
// CHECK: %[[COUNTS:.*]] = memref.alloc() : memref<2048xi32>
// CHECK: %[[WEIGHTS:.*]] = memref.alloc() : memref<2048xi64>
// CHECK: %[[KEPT:.*]] = memref.alloc() : memref<2xi64>
// CHECK: %[[LIST:.*]] = memref.alloc() : memref<2048xi64>
// CHECK: %[[MEASURES:.*]] = memref.alloc() : memref<2048xi64>
// CHECK: %[[LISTED:.*]] = memref.alloc() : memref<1xi32>
// CHECK: %[[FOUND:.*]] = memref.alloc() : memref<7xi64>
// CHECK: %[[ARRIVALS:.*]] = memref.get_global @sample.zeros
// CHECK: gpu.launch_func  @kernels::@sample_scores blocks in (%c2, %c1, %c1) threads in (%c512, %c1, %c1){{ +}}args(%[[COUNTS]] : memref<2048xi32>, %[[WEIGHTS]] : memref<2048xi64>, %[[LOGITS]] : memref<1x2000xf32>, %[[STATE]] : memref<64xi8>, %[[SEEN]] : memref<63xi32>, %[[SCORES]] : memref<2048xf32>, %[[BEST]] : memref<2xi64>, %[[ARRIVALS]] : memref<1xi32>, %[[SAMPLED]] : memref<4xi32>, %[[LISTED]] : memref<1xi32>, %[[FOUND]] : memref<7xi64>)
// CHECK: gpu.launch_func  @kernels::@sample_bins blocks in (%c2, %c1, %c1) threads in (%c512, %c1, %c1){{ +}}args(%[[FOUND]] : memref<7xi64>, %[[STATE]] : memref<64xi8>, %[[SCORES]] : memref<2048xf32>, %[[COUNTS]] : memref<2048xi32>, %[[WEIGHTS]] : memref<2048xi64>, %[[ARRIVALS]] : memref<1xi32>)
// CHECK: gpu.launch_func  @kernels::@sample blocks in (%c2, %c1, %c1) threads in (%c512, %c1, %c1){{ +}}args(%[[FOUND]] : memref<7xi64>, %[[STATE]] : memref<64xi8>, %[[SCORES]] : memref<2048xf32>, %[[KEPT]] : memref<2xi64>, %[[LISTED]] : memref<1xi32>, %[[LIST]] : memref<2048xi64>, %[[ARRIVALS]] : memref<1xi32>, %[[MEASURES]] : memref<2048xi64>, %[[LOGITS]] : memref<1x2000xf32>, %[[SAMPLED]] : memref<4xi32>)
func.func @decode(%ids: tensor<1xi32>, %tokens: index, %position: index, %first: index, %source: index, %logits: tensor<1x2000xf32>) -> tensor<1x2000xf32>
    attributes {arguments = ["ids", "tokens", "position", "first", "source", "logits"], chunk = 1 : index} {
  return %logits : tensor<1x2000xf32>
}
