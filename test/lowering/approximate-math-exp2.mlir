// RUN: cria-opt --approximate-math=exp2=true --split-input-file --verify-diagnostics %s | FileCheck %s

// Where 2^x has an instruction, it stays, e^x is made of it, and so is what is
// made of e^x.
// CHECK-LABEL: func @exp
// CHECK-SAME: (%[[X:.*]]: f32, %[[Y:.*]]: f32)
// CHECK: %[[LOG2E:.*]] = arith.constant 1.442{{.*}} : f32
// CHECK-NEXT: %[[POWER:.*]] = arith.mulf %[[X]], %[[LOG2E]] : f32
// CHECK-NEXT: %[[EXP:.*]] = math.exp2 %[[POWER]] fastmath<afn> : f32
// CHECK-NEXT: %[[EXP2:.*]] = math.exp2 %[[Y]] : f32
// CHECK-NEXT: return %[[EXP]], %[[EXP2]]
func.func @exp(%x: f32, %y: f32) -> (f32, f32) {
  %0 = math.exp %x : f32
  %1 = math.exp2 %y : f32
  return %0, %1 : f32, f32
}

// CHECK-LABEL: func @powf
// CHECK-NOT: math.{{exp |powf|log}}
// CHECK: math.exp2 %{{.*}} fastmath<afn>
// CHECK-NOT: math.{{exp |powf|log}}
// CHECK: return
func.func @powf(%x: f32, %y: f32) -> f32 {
  %0 = math.powf %x, %y : f32
  return %0 : f32
}

// CHECK-LABEL: func @rsqrt
// CHECK: %[[ROOT:.*]] = math.sqrt
// CHECK: arith.divf %{{.*}}, %[[ROOT]]
func.func @rsqrt(%x: f32) -> f32 {
  %0 = math.rsqrt %x : f32
  return %0 : f32
}

// -----

func.func @wide(%x: f64) -> f64 {
  // expected-error @below {{expected a function that is computed without a library, got one of 'f64'}}
  %0 = math.exp %x : f64
  return %0 : f64
}
