// RUN: cria-opt --convert-linalg-to-gpu --canonicalize --split-input-file %s | FileCheck %s

// The entry that draws an id from the logits of `decode`: three launches of a
// block for every 1024 ids, which share counts of arrivals that begin with 0.
// What they hand over is its own memory; all read how to draw. Those that draw an id
// leave it, and the state of the step that it is fed in, where that step reads them.
// CHECK: memref.global "private" @sample.zeros : memref<1xi32> = dense<0>
// CHECK-LABEL: func.func @sample(
// CHECK-SAME: %[[LOGITS:[^:]*]]: memref<1x2000xf32>, %[[SEEN:[^:]*]]: memref<1x2147483647xi32>, %[[SAMPLED:[^:]*]]: memref<2x4xi32>, %[[SAMPLING:[^:]*]]: memref<1x56xi8>, %[[IDS:[^:]*]]: memref<1xi32>, %[[STATE:[^:]*]]: memref<1x20xi32>) attributes {cria.arguments = ["logits", "seen", "sampled", "sampling", "ids", "state"]}
// CHECK: %[[SCORES:.*]] = memref.alloc() : memref<1x2048xf32>
// CHECK: %[[BEST:.*]] = memref.alloc() : memref<1x2xi64>
// CHECK: %[[COUNTS:.*]] = memref.alloc() : memref<1x2048xi32>
// CHECK: %[[WEIGHTS:.*]] = memref.alloc() : memref<1x2048xi64>
// CHECK: %[[KEPT:.*]] = memref.alloc() : memref<1x2xi64>
// CHECK: %[[LIST:.*]] = memref.alloc() : memref<1x2048xi64>
// CHECK: %[[MEASURES:.*]] = memref.alloc() : memref<1x2048xi64>
// CHECK: %[[LISTED:.*]] = memref.alloc() : memref<1x1xi32>
// CHECK: %[[FOUND:.*]] = memref.alloc() : memref<1x7xi64>
// CHECK: %[[ARRIVALS:.*]] = memref.get_global @sample.zeros
// CHECK: gpu.launch_func  @kernels::@sample_scores blocks in (%c2, %c1, %c1) threads in (%c512, %c1, %c1){{ +}}args(%[[COUNTS]] : memref<1x2048xi32>, %[[WEIGHTS]] : memref<1x2048xi64>, %[[SAMPLING]] : memref<1x56xi8>, %[[SEEN]] : memref<1x2147483647xi32>, %[[LOGITS]] : memref<1x2000xf32>, %[[SCORES]] : memref<1x2048xf32>, %[[BEST]] : memref<1x2xi64>, %[[ARRIVALS]] : memref<1xi32>, %[[STATE]] : memref<1x20xi32>, %[[SAMPLED]] : memref<2x4xi32>, %[[IDS]] : memref<1xi32>, %[[LISTED]] : memref<1x1xi32>, %[[FOUND]] : memref<1x7xi64>)
// CHECK: gpu.launch_func  @kernels::@sample_bins blocks in (%c2, %c1, %c1) threads in (%c512, %c1, %c1){{ +}}args(%[[FOUND]] : memref<1x7xi64>, %[[SAMPLING]] : memref<1x56xi8>, %[[SCORES]] : memref<1x2048xf32>, %[[COUNTS]] : memref<1x2048xi32>, %[[WEIGHTS]] : memref<1x2048xi64>, %[[ARRIVALS]] : memref<1xi32>)
// CHECK: gpu.launch_func  @kernels::@sample blocks in (%c2, %c1, %c1) threads in (%c512, %c1, %c1){{ +}}args(%[[FOUND]] : memref<1x7xi64>, %[[SAMPLING]] : memref<1x56xi8>, %[[SCORES]] : memref<1x2048xf32>, %[[KEPT]] : memref<1x2xi64>, %[[LISTED]] : memref<1x1xi32>, %[[LIST]] : memref<1x2048xi64>, %[[ARRIVALS]] : memref<1xi32>, %[[MEASURES]] : memref<1x2048xi64>, %[[STATE]] : memref<1x20xi32>, %[[LOGITS]] : memref<1x2000xf32>, %[[SAMPLED]] : memref<2x4xi32>, %[[IDS]] : memref<1xi32>)
func.func @decode(%ids: tensor<1xi32>, %tokens: index, %position: index, %first: index, %source: index, %logits: tensor<1x2000xf32>) -> tensor<1x2000xf32>
    attributes {cria.arguments = ["ids", "tokens", "position", "first", "source", "logits"], cria.chunk = 1 : index} {
  return %logits : tensor<1x2000xf32>
}

// -----

// Of a batch, each row of logits has blocks, counts and memory of its own. How
// many rows are drawn from is known at run time.
// CHECK: gpu.func @sample_scores(
// CHECK: gpu.block_id  y
// CHECK: memref.global "private" @sample.zeros : memref<3xi32> = dense<0>
// CHECK-LABEL: func.func @sample(
// CHECK-SAME: memref<3x2000xf32>, {{.*}}: memref<1x2147483647xi32>, {{.*}}: memref<3x4xi32>, {{.*}}: memref<3x56xi8>, %[[ROWS:.*]]: index) attributes {cria.arguments = ["logits", "seen", "sampled", "sampling", "tokens"]}
// CHECK: memref.alloc() : memref<3x2048xf32>
// CHECK: gpu.launch_func  @kernels::@sample_scores blocks in (%c2, %[[ROWS]], %c1) threads in (%c512, %c1, %c1)
// CHECK: gpu.launch_func  @kernels::@sample_bins blocks in (%c2, %[[ROWS]], %c1) threads in (%c512, %c1, %c1)
// CHECK: gpu.launch_func  @kernels::@sample blocks in (%c2, %[[ROWS]], %c1) threads in (%c512, %c1, %c1)
func.func @batch(%ids: tensor<3xi32>, %tokens: index, %positions: tensor<3xi32>, %first: index, %pages: tensor<3x4xi32>, %logits: tensor<3x2000xf32>) -> tensor<3x2000xf32>
    attributes {cria.arguments = ["ids", "tokens", "positions", "first", "pages", "logits"], cria.chunk = 3 : index} {
  return %logits : tensor<3x2000xf32>
}
