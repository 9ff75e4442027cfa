// RUN: cria-opt %s --decompose-softmax --remarks-filter=decompose-softmax 2> %t | FileCheck %s
// RUN: FileCheck %s --check-prefix=REMARK --implicit-check-not=Missed < %t

// A softmax becomes its parts, whose sum has no order. A remark says so where no
// launches stand for the function.
// REMARK: remark: [Missed] scores-stored | Category:decompose-softmax | Function=alone | Op=linalg.softmax, Reason="no fast schedule takes it"
// CHECK-NOT: linalg.softmax
// CHECK-LABEL: func.func private @alone
// CHECK: arith.maxnumf
// CHECK: math.exp
// CHECK: arith.addf {{.*}} fastmath<reassoc>
// CHECK: arith.divf
// CHECK-LABEL: func.func private @taken
// CHECK-NOT: linalg.softmax
func.func private @alone(%x: tensor<4x8xf32>, %y: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %0 = linalg.softmax dimension(1) ins(%x : tensor<4x8xf32>) outs(%y : tensor<4x8xf32>) -> tensor<4x8xf32>
  return %0 : tensor<4x8xf32>
}
func.func private @taken(%x: tensor<4x8xf32>, %y: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %0 = linalg.softmax dimension(1) ins(%x : tensor<4x8xf32>) outs(%y : tensor<4x8xf32>) -> tensor<4x8xf32>
  return %0 : tensor<4x8xf32>
}
func.func private @taken.launch(%x: memref<4x8xf32>, %y: memref<4x8xf32>) {
  return
}
