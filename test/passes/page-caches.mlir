// RUN: cria-opt --llama-page-caches="rows=3 page=4 chunk=2" --split-input-file --verify-diagnostics %s | FileCheck %s

!h = tensor<?x2x8xf32>
!c = tensor<3x2x10x8xf32>

// Ten positions take three pages of four. Prefill has one text's, batch those of
// each token, with its position; caches have pages wherever they go.
// CHECK-LABEL: func @prefill
// CHECK-SAME: (%{{.*}}: tensor<?xi32>, %[[P:[^:]*]]: index, %{{.*}}: index, %[[PAGES:[^:]*]]: tensor<3xi32>, %{{.*}}: tensor<?x3x2x4x8xf32>) -> (tensor<?x2x8xf32>, tensor<?x3x2x4x8xf32>) attributes {cria.invariant}
// CHECK: scf.for {{.*}} -> (tensor<?x2x8xf32>, tensor<?x3x2x4x8xf32>)
// CHECK: llama.kv_append {{.*}} at %[[P]] pages(%[[PAGES]] : tensor<3xi32>) : tensor<?x2x8xf32> into tensor<?x3x2x4x8xf32>
// CHECK: llama.gqa {{.*}} at %[[P]] pages(%[[PAGES]] : tensor<3xi32>)
// CHECK-LABEL: func @batch
// CHECK-SAME: (%{{.*}}: tensor<?xi32>, %[[P:[^:]*]]: tensor<?xi32>, %{{.*}}: index, %[[PAGES:[^:]*]]: tensor<?x3xi32>, %{{.*}}: tensor<?x3x2x4x8xf32>) -> (tensor<?x2x8xf32>, tensor<?x3x2x4x8xf32>) attributes {cria.chunk = 3 : index, cria.invariant}
// CHECK: llama.rope {{.*}} at (%[[P]] : tensor<?xi32>)
// CHECK: llama.kv_append {{.*}} at (%[[P]] : tensor<?xi32>) pages(%[[PAGES]] : tensor<?x3xi32>)
// CHECK: llama.gqa {{.*}} at (%[[P]] : tensor<?xi32>) pages(%[[PAGES]] : tensor<?x3xi32>)
func.func @forward(%ids: tensor<?xi32>, %p: index, %first: index, %k: !c) -> (!h, !c) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c3 = arith.constant 3 : index
  %n = tensor.dim %ids, %c0 : tensor<?xi32>
  %x = tensor.empty(%n) : !h
  %t = tensor.empty() : tensor<10x4xf32>
  %r = llama.rope %x, %t, %t at %p : !h, tensor<10x4xf32>
  %y, %k2 = scf.for %i = %c0 to %c3 step %c1 iter_args(%a = %r, %b = %k) -> (!h, !c) {
    %k1 = llama.kv_append %a into %b[%i] at %p : !h into !c
    %o = llama.gqa %a, %k1, %k1[%i] at %p {scale = 1.0, causal} : !h, !c
    scf.yield %o, %k1 : !h, !c
  }
  return %y, %k2 : !h, !c
}

// -----

// Both functions return hidden states. Their first token stays the last number
// before the caches.
// CHECK-LABEL: func @prefill
// CHECK-SAME: (%{{.*}}: tensor<?xi32>, %{{.*}}: index, %{{.*}}: index, %{{.*}}: tensor<4xi32>, %[[FIRST:[^:]*]]: index, %{{.*}}: tensor<?x3x2x4x8xf32>) -> (tensor<?x8xf32>, tensor<?x8xf32>, tensor<?x3x2x4x8xf32>)
// CHECK: tensor.empty(%[[FIRST]])
// CHECK-LABEL: func @batch
// CHECK-SAME: %{{.*}}: tensor<?x4xi32>, %[[FIRST:[^:]*]]: index, %{{.*}}: tensor<?x3x2x4x8xf32>) -> (tensor<?x8xf32>, tensor<?x8xf32>, tensor<?x3x2x4x8xf32>)
// CHECK: tensor.empty(%[[FIRST]])
func.func @forward(%ids: tensor<?xi32>, %p: index, %first: index, %first_hidden: index, %k: tensor<3x2x16x8xf32>) -> (tensor<?x8xf32>, tensor<?x8xf32>, tensor<3x2x16x8xf32>) {
  %logits = tensor.empty(%first) : tensor<?x8xf32>
  %hidden = tensor.empty(%first_hidden) : tensor<?x8xf32>
  return %logits, %hidden, %k : tensor<?x8xf32>, tensor<?x8xf32>, tensor<3x2x16x8xf32>
}

// -----

// There are states of many texts, also if a state is the first cache. Prefill has
// the two numbers of one text, batch those of each token.
// CHECK-LABEL: func @prefill
// CHECK-SAME: %[[P:[^:]*]]: index, %{{.*}}: index, %{{.*}}: tensor<4xi32>, %[[STATES:[^:]*]]: tensor<2xi32>, %{{.*}}: tensor<?x3x2x8xf32>, %{{.*}}: tensor<?x3x2x4x8xf32>)
// CHECK: llama.causal_conv {{.*}} at %[[P]] states(%[[STATES]] : tensor<2xi32>) : tensor<?x8xf32>, tensor<8x3xf32>, tensor<?x3x2x8xf32>
// CHECK-LABEL: func @batch
// CHECK-SAME: (%{{.*}}: tensor<?xi32>, %[[P:[^:]*]]: tensor<?xi32>, %{{.*}}: index, %{{.*}}: tensor<?x4xi32>, %[[STATES:[^:]*]]: tensor<?x2xi32>, %{{.*}}: tensor<?x3x2x8xf32>, %{{.*}}: tensor<?x3x2x4x8xf32>)
// CHECK: llama.causal_conv {{.*}} at (%[[P]] : tensor<?xi32>) states(%[[STATES]] : tensor<?x2xi32>)
func.func @forward(%ids: tensor<?xi32>, %p: index, %first: index, %s: tensor<3x2x8xf32>, %k: tensor<3x2x16x8xf32>) -> (tensor<?x8xf32>, tensor<3x2x8xf32>, tensor<3x2x16x8xf32>) {
  %x = tensor.empty(%first) : tensor<?x8xf32>
  %w = tensor.empty() : tensor<8x3xf32>
  %y, %s1 = llama.causal_conv %x, %w, %s[%first] at %p : tensor<?x8xf32>, tensor<8x3xf32>, tensor<3x2x8xf32>
  return %y, %s1, %k : tensor<?x8xf32>, tensor<3x2x8xf32>, tensor<3x2x16x8xf32>
}

// -----

// Caches that only attention with a window reads have pages of their own. Forty
// positions take ten pages; a window of nine and three rows take four.
// CHECK-LABEL: func @prefill
// CHECK-SAME: %{{.*}}: index, %{{.*}}: index, %[[PAGES:[^:]*]]: tensor<10xi32>, %[[WINDOWS:[^:]*]]: tensor<10xi32>, %{{.*}}: tensor<?x2x8xf32>
// CHECK: llama.kv_append {{.*}} pages(%[[WINDOWS]] : tensor<10xi32>)
// CHECK: llama.gqa {{.*}} pages(%[[WINDOWS]] : tensor<10xi32>) {{.*}}window = 9
// CHECK: llama.gqa {{.*}} pages(%[[PAGES]] : tensor<10xi32>)
// CHECK-LABEL: func @batch
// CHECK-SAME: %{{.*}}: index, %[[PAGES:[^:]*]]: tensor<?x10xi32>, %[[WINDOWS:[^:]*]]: tensor<?x10xi32>, %{{.*}}: tensor<?x2x8xf32>
// CHECK: llama.gqa {{.*}} pages(%[[WINDOWS]] : tensor<?x10xi32>) {{.*}}window = 9
// CHECK: llama.gqa {{.*}} pages(%[[PAGES]] : tensor<?x10xi32>)
func.func @forward(%ids: tensor<?xi32>, %p: index, %first: index, %q: tensor<?x2x8xf32>, %k: tensor<3x2x40x8xf32>, %v: tensor<3x2x40x8xf32>) -> (tensor<?x2x8xf32>, tensor<3x2x40x8xf32>, tensor<3x2x40x8xf32>) {
  %k1 = llama.kv_append %q into %k[%first] at %p : tensor<?x2x8xf32> into tensor<3x2x40x8xf32>
  %o = llama.gqa %q, %k1, %k1[%first] at %p {scale = 1.0, causal, window = 9} : tensor<?x2x8xf32>, tensor<3x2x40x8xf32>
  %y = llama.gqa %o, %v, %v[%first] at %p {scale = 1.0, causal} : tensor<?x2x8xf32>, tensor<3x2x40x8xf32>
  return %y, %k1, %v : tensor<?x2x8xf32>, tensor<3x2x40x8xf32>, tensor<3x2x40x8xf32>
}

// -----

// One that reads all positions has all that are read with its cache in the same
// pages, and so has a window that takes as many.
// CHECK-LABEL: func @prefill
// CHECK-SAME: %{{.*}}: index, %{{.*}}: index, %[[PAGES:[^:]*]]: tensor<10xi32>, %{{.*}}: tensor<?x2x8xf32>
// CHECK-COUNT-3: pages(%[[PAGES]] : tensor<10xi32>)
func.func @forward(%ids: tensor<?xi32>, %p: index, %first: index, %q: tensor<?x2x8xf32>, %k: tensor<3x2x40x8xf32>, %v: tensor<3x2x40x8xf32>, %w: tensor<3x2x40x8xf32>) -> (tensor<?x2x8xf32>, tensor<3x2x40x8xf32>, tensor<3x2x40x8xf32>, tensor<3x2x40x8xf32>) {
  %o = llama.gqa %q, %k, %v[%first] at %p {scale = 1.0, causal, window = 9} : tensor<?x2x8xf32>, tensor<3x2x40x8xf32>
  %y = llama.gqa %o, %k, %k[%first] at %p {scale = 1.0, causal} : tensor<?x2x8xf32>, tensor<3x2x40x8xf32>
  %z = llama.gqa %y, %w, %w[%first] at %p {scale = 1.0, causal, window = 36} : tensor<?x2x8xf32>, tensor<3x2x40x8xf32>
  return %z, %k, %v, %w : tensor<?x2x8xf32>, tensor<3x2x40x8xf32>, tensor<3x2x40x8xf32>, tensor<3x2x40x8xf32>
}

// -----

func.func @forward(%ids: tensor<?xi32>, %p: index, %first: index, %q: tensor<?x2x8xf32>, %k: tensor<3x2x16x8xf32>) -> tensor<?x2x8xf32> {
  // expected-error @below {{expected causal attention over paged caches}}
  %o = llama.gqa %q, %k, %k[%p] at %p {scale = 1.0} : tensor<?x2x8xf32>, tensor<3x2x16x8xf32>
  return %o : tensor<?x2x8xf32>
}

// -----

// Attention of prefill sees tokens ahead, whose number follows the pages; that of
// batch sees none.
// CHECK-LABEL: func @prefill
// CHECK-SAME: (%{{.*}}: tensor<?xi32>, %[[P:[^:]*]]: index, %{{.*}}: index, %[[PAGES:[^:]*]]: tensor<4xi32>, %[[AHEAD:[^:]*]]: index, %{{.*}}: tensor<?x2x8xf32>, %{{.*}}: tensor<?x3x2x4x8xf32>)
// CHECK: llama.gqa {{.*}} at %[[P]] pages(%[[PAGES]] : tensor<4xi32>) ahead %[[AHEAD]] {causal
// CHECK-LABEL: func @batch
// CHECK-SAME: (%{{.*}}: tensor<?xi32>, %[[P:[^:]*]]: tensor<?xi32>, %{{.*}}: index, %[[PAGES:[^:]*]]: tensor<?x4xi32>, %{{.*}}: tensor<?x2x8xf32>, %{{.*}}: tensor<?x3x2x4x8xf32>)
// CHECK: llama.gqa {{.*}} at (%[[P]] : tensor<?xi32>) pages(%[[PAGES]] : tensor<?x4xi32>) {causal
func.func @forward(%ids: tensor<?xi32>, %p: index, %first: index, %n: index, %q: tensor<?x2x8xf32>, %k: tensor<3x2x16x8xf32>) -> tensor<?x2x8xf32> {
  %o = llama.gqa %q, %k, %k[%first] at %p ahead %n {scale = 1.0, causal} : tensor<?x2x8xf32>, tensor<3x2x16x8xf32>
  return %o : tensor<?x2x8xf32>
}

// -----

func.func @forward(%ids: tensor<?xi32>, %p: index, %first: index, %q: tensor<?x2x8xf32>, %k: tensor<3x2x16x8xf32>) -> tensor<?x2x8xf32> {
  // expected-error @below {{expected no ring beside paged caches (--window-cache=whole)}}
  %o = llama.gqa %q, %k, %k[%p] at %p {scale = 1.0, causal, window = 4, ring} : tensor<?x2x8xf32>, tensor<3x2x16x8xf32>
  return %o : tensor<?x2x8xf32>
}

// -----

// expected-error @below {{expected frequencies that do not depend on the length of a text, beside paged caches}}
llama.rope_table @long {positions = 16 : i64, inv_freq = array<f32: 1.0>, original = 8 : i64, long_inv_freq = array<f32: 0.5>}
func.func @forward(%ids: tensor<?xi32>, %p: index, %first: index, %k: tensor<3x2x16x8xf32>) {
  return
}

// -----

func.func @forward(%ids: tensor<?xi32>, %p: index, %first: index, %k: tensor<3x2x16x8xf32>) {
  return
}
// expected-error @below {{expected no encoder beside paged caches}}
func.func @encode(%ids: tensor<?xi32>, %p: index, %first: index, %k: tensor<3x2x16x8xf32>) {
  return
}

// -----

func.func @forward(%ids: tensor<?xi32>, %p: index, %first: index, %more: index, %k: tensor<3x2x16x8xf32>) -> (tensor<?x2x8xf32>, tensor<3x2x16x8xf32>) {
  %layer = arith.constant 0 : index
  %q = tensor.empty(%first) : tensor<?x2x8xf32>
  // expected-error @below {{expected 'ahead' to be the argument of @forward after 'first'}}
  %y = llama.gqa %q, %k, %k[%layer] at %p ahead %layer {scale = 1.0, causal} : tensor<?x2x8xf32>, tensor<3x2x16x8xf32>
  return %y, %k : tensor<?x2x8xf32>, tensor<3x2x16x8xf32>
}

// -----

func.func private @layer(%k: tensor<3x2x16x8xf32>) -> tensor<3x2x16x8xf32> {
  return %k : tensor<3x2x16x8xf32>
}
func.func @forward(%ids: tensor<?xi32>, %p: index, %first: index, %k: tensor<3x2x16x8xf32>) -> tensor<3x2x16x8xf32> {
  // expected-error @below {{expected caches to go through appends, states and loops alone, got func.call}}
  %0 = call @layer(%k) : (tensor<3x2x16x8xf32>) -> tensor<3x2x16x8xf32>
  return %0 : tensor<3x2x16x8xf32>
}

// -----

// expected-error @below {{expected a function @forward(ids, position, first, caches...), with a cache that has positions, and rows and a page of at least 1}}
module {
}
