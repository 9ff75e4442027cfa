// What the verifiers of ops with a state refuse.
// RUN: cria-opt --split-input-file --verify-diagnostics %s

// causal_conv_c1
func.func @causal_conv(%x: tensor<?x8xf32>, %w: tensor<9x3xf32>, %s: tensor<5x2x8xf32>, %l: index, %p: index) {
  // expected-error @below {{expected the weight's columns to be 8, got 9}}
  %y, %n = llama.causal_conv %x, %w, %s[%l] at %p : tensor<?x8xf32>, tensor<9x3xf32>, tensor<5x2x8xf32>
  return
}

// -----

// causal_conv_c1
func.func @causal_conv(%x: tensor<?x8xf32>, %w: tensor<8x3xf32>, %s: tensor<5x2x9xf32>, %l: index, %p: index) {
  // expected-error @below {{expected the state's columns to be 8, got 9}}
  %y, %n = llama.causal_conv %x, %w, %s[%l] at %p : tensor<?x8xf32>, tensor<8x3xf32>, tensor<5x2x9xf32>
  return
}

// -----

// causal_conv_c1
func.func @causal_conv(%x: tensor<?x8xf32>, %w: tensor<8x3xf32>, %s: tensor<5x2x8xf32>, %l: index, %p: index, %b: tensor<4xf32>) {
  // expected-error @below {{expected the bias's size to be 8, got 4}}
  %y, %n = llama.causal_conv %x, %w, %s[%l] at %p bias(%b : tensor<4xf32>) : tensor<?x8xf32>, tensor<8x3xf32>, tensor<5x2x8xf32>
  return
}

// -----

// causal_conv_c2
func.func @causal_conv(%x: tensor<?x8xf32>, %w: tensor<8x1xf32>, %s: tensor<5x2x8xf32>, %l: index, %p: index) {
  // expected-error @below {{expected filters of at least 2 numbers, got 1}}
  %y, %n = llama.causal_conv %x, %w, %s[%l] at %p : tensor<?x8xf32>, tensor<8x1xf32>, tensor<5x2x8xf32>
  return
}

// -----

// causal_conv_c2
func.func @causal_conv(%x: tensor<?x8xf32>, %w: tensor<8x3xf32>, %s: tensor<5x3x8xf32>, %l: index, %p: index) {
  // expected-error @below {{expected the state's rows to be 2, got 3}}
  %y, %n = llama.causal_conv %x, %w, %s[%l] at %p : tensor<?x8xf32>, tensor<8x3xf32>, tensor<5x3x8xf32>
  return
}

// -----

// causal_conv_c3
func.func @causal_conv(%x: tensor<?x8xf32>, %w: tensor<8x3xf32>, %s: tensor<5x2x8xbf16>, %l: index, %p: index) {
  // expected-error @below {{expected a state of 'f32', got 'bf16'}}
  %y, %n = llama.causal_conv %x, %w, %s[%l] at %p : tensor<?x8xf32>, tensor<8x3xf32>, tensor<5x2x8xbf16>
  return
}

// -----

// causal_conv_c4
func.func @causal_conv(%x: tensor<?x8xf32>, %w: tensor<8x3xf32>, %s: tensor<5x2x8xf32>, %l: index, %p: index) {
  %c = arith.constant 5 : index
  // expected-error @below {{expected a layer from 0 to 4, got 5}}
  %y, %n = llama.causal_conv %x, %w, %s[%c] at %p : tensor<?x8xf32>, tensor<8x3xf32>, tensor<5x2x8xf32>
  return
}

// -----

// causal_conv_c5
func.func @causal_conv(%x: tensor<?x8xf32>, %w: tensor<8x3xf32>, %s: tensor<?x5x2x8xf32>, %l: index, %p: index) {
  // expected-error @below {{expected 'states' with the states of many texts 'tensor<?x5x2x8xf32>'}}
  %y, %n = llama.causal_conv %x, %w, %s[%l] at %p : tensor<?x8xf32>, tensor<8x3xf32>, tensor<?x5x2x8xf32>
  return
}

// -----

// causal_conv_c5
func.func @causal_conv(%x: tensor<?x8xf32>, %w: tensor<8x3xf32>, %s: tensor<?x5x2x8xf32>, %l: index, %p: index, %n: tensor<3xi32>) {
  // expected-error @below {{expected numbers of states to be 2, got 3}}
  %y, %z = llama.causal_conv %x, %w, %s[%l] at %p states(%n : tensor<3xi32>) : tensor<?x8xf32>, tensor<8x3xf32>, tensor<?x5x2x8xf32>
  return
}

// -----

// causal_conv_c6
func.func @causal_conv(%x: tensor<?x8xf32>, %w: tensor<8x3xf32>, %s: tensor<?x5x2x8xf32>, %l: index, %p: tensor<?xi32>, %n: tensor<2xi32>) {
  // expected-error @below {{expected states of each token if and only if each token has a position}}
  %y, %z = llama.causal_conv %x, %w, %s[%l] at (%p : tensor<?xi32>) states(%n : tensor<2xi32>) : tensor<?x8xf32>, tensor<8x3xf32>, tensor<?x5x2x8xf32>
  return
}

// -----

// delta_rule_c1
func.func @delta_rule(%q: tensor<?x3x8xf32>, %v: tensor<?x4x16xf32>, %t: tensor<?x4xf32>, %a: tensor<4xf32>, %s: tensor<5x32x16xf32>, %l: index, %p: index) {
  // expected-error @below {{expected heads a multiple of the 3 heads of keys, got 4}}
  %o, %n = llama.delta_rule %q, %q, %v step(%t, %t) decay(%a : tensor<4xf32>) on %s[%l] at %p {scale = 0.5 : f64, eps = 1.0e-06 : f64} : tensor<?x3x8xf32>, tensor<?x4x16xf32>, tensor<?x4xf32>, tensor<5x32x16xf32>
  return
}

// -----

// delta_rule_c2
func.func @delta_rule(%q: tensor<?x2x8xf32>, %v: tensor<?x4x16xf32>, %t: tensor<?x2xf32>, %a: tensor<4xf32>, %s: tensor<5x32x16xf32>, %l: index, %p: index) {
  // expected-error @below {{expected the number of steps to be 4, got 2}}
  %o, %n = llama.delta_rule %q, %q, %v step(%t, %t) decay(%a : tensor<4xf32>) on %s[%l] at %p {scale = 0.5 : f64, eps = 1.0e-06 : f64} : tensor<?x2x8xf32>, tensor<?x4x16xf32>, tensor<?x2xf32>, tensor<5x32x16xf32>
  return
}

// -----

// delta_rule_c2
func.func @delta_rule(%q: tensor<?x2x8xf32>, %v: tensor<?x4x16xf32>, %t: tensor<?x4xf32>, %a: tensor<2xf32>, %s: tensor<5x32x16xf32>, %l: index, %p: index) {
  // expected-error @below {{expected the number of decays to be 4, got 2}}
  %o, %n = llama.delta_rule %q, %q, %v step(%t, %t) decay(%a : tensor<2xf32>) on %s[%l] at %p {scale = 0.5 : f64, eps = 1.0e-06 : f64} : tensor<?x2x8xf32>, tensor<?x4x16xf32>, tensor<?x4xf32>, tensor<5x32x16xf32>
  return
}

// -----

// delta_rule_c3
func.func @delta_rule(%q: tensor<?x2x8xf32>, %v: tensor<?x4x16xf32>, %t: tensor<?x4xf32>, %a: tensor<4xf32>, %s: tensor<5x31x16xf32>, %l: index, %p: index) {
  // expected-error @below {{expected the state's rows to be 32, got 31}}
  %o, %n = llama.delta_rule %q, %q, %v step(%t, %t) decay(%a : tensor<4xf32>) on %s[%l] at %p {scale = 0.5 : f64, eps = 1.0e-06 : f64} : tensor<?x2x8xf32>, tensor<?x4x16xf32>, tensor<?x4xf32>, tensor<5x31x16xf32>
  return
}

// -----

// delta_rule_c3
func.func @delta_rule(%q: tensor<?x2x8xf32>, %v: tensor<?x4x16xf32>, %t: tensor<?x4xf32>, %a: tensor<4xf32>, %s: tensor<5x32x8xf32>, %l: index, %p: index) {
  // expected-error @below {{expected the state's numbers to be 16, got 8}}
  %o, %n = llama.delta_rule %q, %q, %v step(%t, %t) decay(%a : tensor<4xf32>) on %s[%l] at %p {scale = 0.5 : f64, eps = 1.0e-06 : f64} : tensor<?x2x8xf32>, tensor<?x4x16xf32>, tensor<?x4xf32>, tensor<5x32x8xf32>
  return
}

// -----

// delta_rule_c4
func.func @delta_rule(%q: tensor<?x2x8xf32>, %v: tensor<?x4x16xf32>, %t: tensor<?x4xf32>, %a: tensor<4xf32>, %s: tensor<5x32x16xf32>, %l: index, %p: index) {
  // expected-error @below {{expected a scale that is finite in f32, got 1.000000e+300}}
  %o, %n = llama.delta_rule %q, %q, %v step(%t, %t) decay(%a : tensor<4xf32>) on %s[%l] at %p {scale = 1.0e+300 : f64, eps = 1.0e-06 : f64} : tensor<?x2x8xf32>, tensor<?x4x16xf32>, tensor<?x4xf32>, tensor<5x32x16xf32>
  return
}

// -----

// delta_rule_c4
func.func @delta_rule(%q: tensor<?x2x8xf32>, %v: tensor<?x4x16xf32>, %t: tensor<?x4xf32>, %a: tensor<4xf32>, %s: tensor<5x32x16xf32>, %l: index, %p: index) {
  // expected-error @below {{expected eps to be positive and finite in f32, got 0.000000e+00}}
  %o, %n = llama.delta_rule %q, %q, %v step(%t, %t) decay(%a : tensor<4xf32>) on %s[%l] at %p {scale = 0.5 : f64, eps = 0.0 : f64} : tensor<?x2x8xf32>, tensor<?x4x16xf32>, tensor<?x4xf32>, tensor<5x32x16xf32>
  return
}

// -----

// delta_rule_c5
func.func @delta_rule(%q: tensor<?x2x8xf32>, %v: tensor<?x4x16xf32>, %t: tensor<?x4xf32>, %a: tensor<4xf32>, %s: tensor<5x32x16xf32>, %l: index, %p: index) {
  %c = arith.constant -1 : index
  // expected-error @below {{expected a layer from 0 to 4, got -1}}
  %o, %n = llama.delta_rule %q, %q, %v step(%t, %t) decay(%a : tensor<4xf32>) on %s[%c] at %p {scale = 0.5 : f64, eps = 1.0e-06 : f64} : tensor<?x2x8xf32>, tensor<?x4x16xf32>, tensor<?x4xf32>, tensor<5x32x16xf32>
  return
}

// -----

// selective_scan_c1
func.func @selective_scan(%c: tensor<?x3x8xf32>, %x: tensor<?x4x16xf32>, %t: tensor<?x4xf32>, %a: tensor<4xf32>, %d: tensor<4xf32>, %s: tensor<5x32x16xf32>, %l: index, %p: index) {
  // expected-error @below {{expected heads a multiple of the 3 heads of keys, got 4}}
  %o, %n = llama.selective_scan %c, %c, %x step(%t) decay(%a : tensor<4xf32>) skip(%d : tensor<4xf32>) on %s[%l] at %p : tensor<?x3x8xf32>, tensor<?x4x16xf32>, tensor<?x4xf32>, tensor<5x32x16xf32>
  return
}

// -----

// selective_scan_c2
func.func @selective_scan(%c: tensor<?x2x8xf32>, %x: tensor<?x4x16xf32>, %t: tensor<?x2xf32>, %a: tensor<4xf32>, %d: tensor<4xf32>, %s: tensor<5x32x16xf32>, %l: index, %p: index) {
  // expected-error @below {{expected the number of steps to be 4, got 2}}
  %o, %n = llama.selective_scan %c, %c, %x step(%t) decay(%a : tensor<4xf32>) skip(%d : tensor<4xf32>) on %s[%l] at %p : tensor<?x2x8xf32>, tensor<?x4x16xf32>, tensor<?x2xf32>, tensor<5x32x16xf32>
  return
}

// -----

// selective_scan_c2
func.func @selective_scan(%c: tensor<?x2x8xf32>, %x: tensor<?x4x16xf32>, %t: tensor<?x4xf32>, %a: tensor<2xf32>, %d: tensor<4xf32>, %s: tensor<5x32x16xf32>, %l: index, %p: index) {
  // expected-error @below {{expected the number of decays to be 4, got 2}}
  %o, %n = llama.selective_scan %c, %c, %x step(%t) decay(%a : tensor<2xf32>) skip(%d : tensor<4xf32>) on %s[%l] at %p : tensor<?x2x8xf32>, tensor<?x4x16xf32>, tensor<?x4xf32>, tensor<5x32x16xf32>
  return
}

// -----

// selective_scan_c2
func.func @selective_scan(%c: tensor<?x2x8xf32>, %x: tensor<?x4x16xf32>, %t: tensor<?x4xf32>, %a: tensor<4xf32>, %d: tensor<2xf32>, %s: tensor<5x32x16xf32>, %l: index, %p: index) {
  // expected-error @below {{expected the number of skips to be 4, got 2}}
  %o, %n = llama.selective_scan %c, %c, %x step(%t) decay(%a : tensor<4xf32>) skip(%d : tensor<2xf32>) on %s[%l] at %p : tensor<?x2x8xf32>, tensor<?x4x16xf32>, tensor<?x4xf32>, tensor<5x32x16xf32>
  return
}

// -----

// selective_scan_c3
func.func @selective_scan(%c: tensor<?x2x8xf32>, %x: tensor<?x4x16xf32>, %t: tensor<?x4xf32>, %a: tensor<4xf32>, %d: tensor<4xf32>, %s: tensor<5x31x16xf32>, %l: index, %p: index) {
  // expected-error @below {{expected the state's rows to be 32, got 31}}
  %o, %n = llama.selective_scan %c, %c, %x step(%t) decay(%a : tensor<4xf32>) skip(%d : tensor<4xf32>) on %s[%l] at %p : tensor<?x2x8xf32>, tensor<?x4x16xf32>, tensor<?x4xf32>, tensor<5x31x16xf32>
  return
}

// -----

// selective_scan_c3
func.func @selective_scan(%c: tensor<?x2x8xf32>, %x: tensor<?x4x16xf32>, %t: tensor<?x4xf32>, %a: tensor<4xf32>, %d: tensor<4xf32>, %s: tensor<5x32x8xf32>, %l: index, %p: index) {
  // expected-error @below {{expected the state's numbers to be 16, got 8}}
  %o, %n = llama.selective_scan %c, %c, %x step(%t) decay(%a : tensor<4xf32>) skip(%d : tensor<4xf32>) on %s[%l] at %p : tensor<?x2x8xf32>, tensor<?x4x16xf32>, tensor<?x4xf32>, tensor<5x32x8xf32>
  return
}

// -----

// selective_scan_c4
func.func @selective_scan(%c: tensor<?x2x8xf32>, %x: tensor<?x4x16xf32>, %t: tensor<?x4xf32>, %a: tensor<4xf32>, %d: tensor<4xf32>, %s: tensor<5x32x16xf32>, %l: index, %p: index) {
  %c5 = arith.constant 5 : index
  // expected-error @below {{expected a layer from 0 to 4, got 5}}
  %o, %n = llama.selective_scan %c, %c, %x step(%t) decay(%a : tensor<4xf32>) skip(%d : tensor<4xf32>) on %s[%c5] at %p : tensor<?x2x8xf32>, tensor<?x4x16xf32>, tensor<?x4xf32>, tensor<5x32x16xf32>
  return
}

// -----

// delta_rule_c6
func.func @delta_rule(%q: tensor<4x2x8xf32>, %v: tensor<4x4x16xf32>, %t: tensor<4x4xf32>, %a: tensor<4xf32>, %s: tensor<?x5x32x16xf32>, %l: index, %p: tensor<4xi32>, %n: tensor<3x2xi32>) {
  // expected-error @below {{expected the number of rows of states to be 4, got 3}}
  %o, %m = llama.delta_rule %q, %q, %v step(%t, %t) decay(%a : tensor<4xf32>) on %s[%l] at (%p : tensor<4xi32>) states(%n : tensor<3x2xi32>) {scale = 0.5 : f64, eps = 1.0e-06 : f64} : tensor<4x2x8xf32>, tensor<4x4x16xf32>, tensor<4x4xf32>, tensor<?x5x32x16xf32>
  return
}

// -----

// selective_scan_c5
func.func @selective_scan(%c: tensor<?x2x8xf32>, %x: tensor<?x4x16xf32>, %t: tensor<?x4xf32>, %a: tensor<4xf32>, %s: tensor<5x32x16xf32>, %l: index, %p: index, %n: tensor<2xi32>) {
  // expected-error @below {{expected states of many texts with 'states', got 'tensor<5x32x16xf32>'}}
  %o, %m = llama.selective_scan %c, %c, %x step(%t) decay(%a : tensor<4xf32>) skip(%a : tensor<4xf32>) on %s[%l] at %p states(%n : tensor<2xi32>) : tensor<?x2x8xf32>, tensor<?x4x16xf32>, tensor<?x4xf32>, tensor<5x32x16xf32>
  return
}
