// RUN: cria-opt --approximate-math %s | FileCheck %s

// exp is a polynomial, of scalars and vectors; other functions stay.
// CHECK-LABEL: func @exp
// CHECK-NOT: math.exp
// CHECK: math.fma
// CHECK: return
func.func @exp(%x: f32, %y: vector<8xf32>) -> (f32, vector<8xf32>) {
  %0 = math.exp %x : f32
  %1 = math.exp %y : vector<8xf32>
  return %0, %1 : f32, vector<8xf32>
}

// CHECK-LABEL: func @rsqrt
// CHECK-NEXT: math.rsqrt
func.func @rsqrt(%x: f32) -> f32 {
  %0 = math.rsqrt %x : f32
  return %0 : f32
}
