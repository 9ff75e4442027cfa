// RUN: cria-opt --approximate-math --split-input-file --verify-diagnostics %s | FileCheck %s

// exp is a polynomial, of scalars and vectors; other functions too, some by way
// of others. Of what LLVM has instructions for, all stays.
// CHECK-LABEL: func @exp
// CHECK-NOT: math.exp
// CHECK: math.fma
// CHECK: return
func.func @exp(%x: f32, %y: vector<8xf32>) -> (f32, vector<8xf32>) {
  %0 = math.exp %x : f32
  %1 = math.exp %y : vector<8xf32>
  return %0, %1 : f32, vector<8xf32>
}

// CHECK-LABEL: func @others
// CHECK-NOT: {{math.(tanh|pow|log|log2|exp)}}
// CHECK: return
func.func @others(%x: f32, %y: vector<8xf32>) -> (f32, f32, vector<8xf32>) {
  %0 = math.tanh %x : f32
  %1 = math.powf %x, %0 : f32
  %2 = math.log10 %y : vector<8xf32>
  return %0, %1, %2 : f32, f32, vector<8xf32>
}

// CHECK-LABEL: func @rsqrt
// CHECK-NEXT: math.rsqrt
// CHECK-NEXT: math.floor
func.func @rsqrt(%x: f32) -> f32 {
  %0 = math.rsqrt %x : f32
  %1 = math.floor %0 : f32
  return %1 : f32
}

// The turns of an angle are taken off in f64.
// CHECK-LABEL: func @sin
// CHECK: %[[WIDE:.*]] = arith.extf %{{.*}} : f32 to f64
// CHECK: %[[TURNS:.*]] = math.roundeven
// CHECK: %[[PART:.*]] = math.fma %[[TURNS]], %{{.*}}, %[[WIDE]] : f64
// CHECK: arith.truncf %[[PART]] : f64 to f32
// CHECK-NOT: math.sin
func.func @sin(%x: f32) -> f32 {
  %0 = math.sin %x : f32
  return %0 : f32
}

// -----

func.func @wide(%x: f64) -> f64 {
  // expected-error @below {{expected a function that is computed without a library, got one of 'f64'}}
  %0 = math.exp %x : f64
  return %0 : f64
}

// -----

func.func @remainder(%x: f32) -> f32 {
  // expected-error @below {{expected a function that is computed without a library, got one of 'f32'}}
  %0 = arith.remf %x, %x : f32
  return %0 : f32
}
