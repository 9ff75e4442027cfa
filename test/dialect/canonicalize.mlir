// RUN: cria-opt --canonicalize --split-input-file %s | FileCheck %s
// RUN: cria-opt --cse --split-input-file %s | FileCheck %s --check-prefix=CSE

// A result without uses is not yielded, and the ops that made it are gone.
// CHECK-LABEL: func @unused_result
// CHECK: %[[K:.*]] = llama.kernel "k" -> tensor<2x4xf32> {
// CHECK-NEXT: %[[A:.*]] = llama.residual
// CHECK-NEXT: llama.yield %[[A]] : tensor<2x4xf32>
// CHECK-NEXT: }
// CHECK-NEXT: return %[[K]]
func.func @unused_result(%x: tensor<2x4xf32>) -> tensor<2x4xf32> {
  %k:2 = llama.kernel "k" -> tensor<2x4xf32>, tensor<2x4xf32> {
    %a = llama.residual %x, %x : tensor<2x4xf32>
    %b = llama.swiglu %x, %x : tensor<2x4xf32>
    llama.yield %b, %a : tensor<2x4xf32>, tensor<2x4xf32>
  }
  return %k#1 : tensor<2x4xf32>
}

// -----

// A kernel that nobody reads is gone.
// CHECK-LABEL: func @unused_kernel
// CHECK-NEXT: return
func.func @unused_kernel(%x: tensor<2x4xf32>) {
  %k = llama.kernel "k" -> tensor<2x4xf32> {
    %a = llama.residual %x, %x : tensor<2x4xf32>
    llama.yield %a : tensor<2x4xf32>
  }
  return
}

// -----

// What is yielded twice is one result; what comes from outside is none.
// CHECK-LABEL: func @repeated_and_outside
// CHECK-SAME: %[[X:.*]]: tensor<2x4xf32>
// CHECK: %[[K:.*]] = llama.kernel "k" -> tensor<2x4xf32> {
// CHECK: llama.yield %{{.*}} : tensor<2x4xf32>
// CHECK: return %[[K]], %[[K]], %[[X]]
func.func @repeated_and_outside(%x: tensor<2x4xf32>)
    -> (tensor<2x4xf32>, tensor<2x4xf32>, tensor<2x4xf32>) {
  %k:3 = llama.kernel "k"
      -> tensor<2x4xf32>, tensor<2x4xf32>, tensor<2x4xf32> {
    %a = llama.residual %x, %x : tensor<2x4xf32>
    llama.yield %a, %a, %x : tensor<2x4xf32>, tensor<2x4xf32>, tensor<2x4xf32>
  }
  return %k#0, %k#1, %k#2 : tensor<2x4xf32>, tensor<2x4xf32>, tensor<2x4xf32>
}

// -----

// A kernel whose results all come from outside is gone.
// CHECK-LABEL: func @only_outside
// CHECK-SAME: %[[X:.*]]: tensor<2x4xf32>
// CHECK-NEXT: return %[[X]]
func.func @only_outside(%x: tensor<2x4xf32>) -> tensor<2x4xf32> {
  %k = llama.kernel "k" -> tensor<2x4xf32> {
    llama.yield %x : tensor<2x4xf32>
  }
  return %k : tensor<2x4xf32>
}

// -----

// A window as long as the cache hides nothing; a shorter one stays, and so does that of a
// ring.
// CHECK-LABEL: func @window
// CHECK: llama.gqa {{.*}} {causal, scale
// CHECK-NEXT: llama.gqa {{.*}} {causal, scale = 1.000000e+00 : f64, window = 15 : i64}
// CHECK-NEXT: llama.gqa {{.*}} {ring, scale = 1.000000e+00 : f64, window = 16 : i64}
func.func @window(%q: tensor<2x2x4xf32>, %k: tensor<1x2x16x4xf32>, %i: index, %one: tensor<1x2x4xf32>)
    -> (tensor<2x2x4xf32>, tensor<2x2x4xf32>, tensor<1x2x4xf32>) {
  %a = llama.gqa %q, %k, %k[%i] at %i {causal, scale = 1.0, window = 16 : i64}
      : tensor<2x2x4xf32>, tensor<1x2x16x4xf32>
  %b = llama.gqa %q, %k, %k[%i] at %i {causal, scale = 1.0, window = 15 : i64}
      : tensor<2x2x4xf32>, tensor<1x2x16x4xf32>
  %c = llama.gqa %one, %k, %k[%i] at %i {causal, scale = 1.0, window = 16 : i64, ring}
      : tensor<1x2x4xf32>, tensor<1x2x16x4xf32>
  return %a, %b, %c : tensor<2x2x4xf32>, tensor<2x2x4xf32>, tensor<1x2x4xf32>
}

// -----

// One token sees what is there, causal or not; of several it depends.
// CHECK-LABEL: func @causal
// CHECK: llama.gqa {{.*}} at %{{[a-z0-9]*}} {scale = 1.000000e+00 : f64} : tensor<1x2x4xf32>
// CHECK: llama.gqa {{.*}} {causal, {{.*}} : tensor<?x2x4xf32>
func.func @causal(%q: tensor<1x2x4xf32>, %r: tensor<?x2x4xf32>,
                  %k: tensor<1x2x16x4xf32>, %i: index)
    -> (tensor<1x2x4xf32>, tensor<?x2x4xf32>) {
  %a = llama.gqa %q, %k, %k[%i] at %i ahead %i {causal, scale = 1.0}
      : tensor<1x2x4xf32>, tensor<1x2x16x4xf32>
  %b = llama.gqa %r, %k, %k[%i] at %i {causal, scale = 1.0}
      : tensor<?x2x4xf32>, tensor<1x2x16x4xf32>
  return %a, %b : tensor<1x2x4xf32>, tensor<?x2x4xf32>
}

// -----

// Values of the head size are whole rows.
// CHECK-LABEL: func @values
// CHECK: llama.gqa {{.*}} {scale = 1.000000e+00 : f64} : tensor<1x2x4xf32>
// CHECK-NEXT: llama.gqa {{.*}} values 3 {
func.func @values(%q: tensor<1x2x4xf32>, %k: tensor<1x2x16x4xf32>, %i: index)
    -> (tensor<1x2x4xf32>, tensor<1x2x3xf32>) {
  %a = llama.gqa %q, %k, %k[%i] at %i values 4 {scale = 1.0}
      : tensor<1x2x4xf32>, tensor<1x2x16x4xf32>
  %b = llama.gqa %q, %k, %k[%i] at %i values 3 {scale = 1.0}
      : tensor<1x2x4xf32>, tensor<1x2x16x4xf32>
  return %a, %b : tensor<1x2x4xf32>, tensor<1x2x3xf32>
}

// -----

// A weight that is read twice is read once.
// CSE-LABEL: func @read_twice
// CSE-COUNT-1: llama.get_weight
// CSE-NOT: llama.get_weight
llama.weight @w : tensor<4xf32> from "w"
func.func @read_twice() -> (tensor<4xf32>, tensor<4xf32>) {
  %a = llama.get_weight @w : tensor<4xf32>
  %b = llama.get_weight @w : tensor<4xf32>
  return %a, %b : tensor<4xf32>, tensor<4xf32>
}
