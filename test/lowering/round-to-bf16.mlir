// f32 is rounded to bf16 in integers, to nearest, ties to even; of a NaN all bits
// of the exponent and the first of the mantissa are set.
// RUN: cria-opt --round-to-bf16 --canonicalize %s | FileCheck %s

// CHECK-LABEL: func @vectors
// CHECK-SAME: %[[X:.*]]: vector<8xf32>
// CHECK-DAG: %[[ONE:.*]] = arith.constant dense<1> : vector<8xi32>
// CHECK-DAG: %[[SIXTEEN:.*]] = arith.constant dense<16> : vector<8xi32>
// CHECK-DAG: %[[BIAS:.*]] = arith.constant dense<32767> : vector<8xi32>
// CHECK-DAG: %[[NAN:.*]] = arith.constant dense<32704> : vector<8xi16>
// CHECK: %[[BITS:.*]] = arith.bitcast %[[X]] : vector<8xf32> to vector<8xi32>
// CHECK: %[[HIGH:.*]] = arith.shrui %[[BITS]], %[[SIXTEEN]]
// CHECK: %[[LAST:.*]] = arith.andi %[[HIGH]], %[[ONE]]
// CHECK: %[[ADDED:.*]] = arith.addi %[[LAST]], %[[BIAS]]
// CHECK: %[[SUM:.*]] = arith.addi %[[BITS]], %[[ADDED]]
// CHECK: %[[UPPER:.*]] = arith.shrui %[[SUM]], %[[SIXTEEN]]
// CHECK: %[[ROUNDED:.*]] = arith.trunci %[[UPPER]] : vector<8xi32> to vector<8xi16>
// CHECK: %[[ISNAN:.*]] = arith.cmpf uno, %[[X]], %[[X]]
// CHECK: %[[MASK:.*]] = arith.extsi %[[ISNAN]] : vector<8xi1> to vector<8xi16>
// CHECK: %[[BITSOFNAN:.*]] = arith.andi %[[MASK]], %[[NAN]]
// CHECK: %[[RESULT:.*]] = arith.ori %[[ROUNDED]], %[[BITSOFNAN]]
// CHECK: arith.bitcast %[[RESULT]] : vector<8xi16> to vector<8xbf16>
func.func @vectors(%x: vector<8xf32>) -> vector<8xbf16> {
  %0 = arith.truncf %x : vector<8xf32> to vector<8xbf16>
  return %0 : vector<8xbf16>
}

// CHECK-LABEL: func @scalar
// CHECK-NOT: truncf
// CHECK: arith.bitcast %{{.*}} : i16 to bf16
func.func @scalar(%x: f32) -> bf16 {
  %0 = arith.truncf %x : f32 to bf16
  return %0 : bf16
}

// What is rounded to another type, from another or in another way stays, and so do
// tensors.
// CHECK-LABEL: func @others
// CHECK: arith.truncf %{{.*}} : f32 to f16
// CHECK: arith.truncf %{{.*}} : f64 to bf16
// CHECK: arith.truncf %{{.*}} downward : f32 to bf16
// CHECK: arith.truncf %{{.*}} : tensor<?xf32> to tensor<?xbf16>
func.func @others(%x: f32, %y: f64, %t: tensor<?xf32>) -> (f16, bf16, bf16, tensor<?xbf16>) {
  %0 = arith.truncf %x : f32 to f16
  %1 = arith.truncf %y : f64 to bf16
  %2 = arith.truncf %x downward : f32 to bf16
  %3 = arith.truncf %t : tensor<?xf32> to tensor<?xbf16>
  return %0, %1, %2, %3 : f16, bf16, bf16, tensor<?xbf16>
}
