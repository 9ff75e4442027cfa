// What the verifiers of attention and kernels refuse.
// RUN: cria-opt --split-input-file --verify-diagnostics %s

// rope_c1
func.func @rope(%x: tensor<?x8x8xf32>, %t: tensor<512x5xf32>, %p: index) {
  // expected-error @below {{expected tables of 1 to half of 8 columns, got 5}}
  %y = llama.rope %x, %t, %t at %p : tensor<?x8x8xf32>, tensor<512x5xf32>
  return
}

// -----

// rope_c2
func.func @rope(%x: tensor<2x8x8xf32>, %t: tensor<512x4xf32>, %p: tensor<3xi32>) {
  // expected-error @below {{expected the number of positions to be 2, got 3}}
  %y = llama.rope %x, %t, %t at (%p : tensor<3xi32>) : tensor<2x8x8xf32>, tensor<512x4xf32>
  return
}

// -----

// add_rows_c3
func.func @add_rows(%x: tensor<2x8xf32>, %t: tensor<512x8xf32>, %p: tensor<3xi32>) {
  // expected-error @below {{expected the number of positions to be 2, got 3}}
  %y = llama.add_rows %x, %t at (%p : tensor<3xi32>) : tensor<2x8xf32>, tensor<512x8xf32>
  return
}

// -----

// kv_append_c4
func.func @kv_append(%r: tensor<?x4x8xf32>, %k: tensor<?x5x4x16x8xf32>, %i: index) {
  // expected-error @below {{expected 'pages' with the paged cache 'tensor<?x5x4x16x8xf32>'}}
  %y = llama.kv_append %r into %k[%i] at %i : tensor<?x4x8xf32> into tensor<?x5x4x16x8xf32>
  return
}

// -----

// kv_append_c4
func.func @kv_append(%r: tensor<?x4x8xf32>, %k: tensor<5x4x16x8xf32>, %i: index, %p: tensor<8xi32>) {
  // expected-error @below {{expected a paged cache with 'pages', got 'tensor<5x4x16x8xf32>'}}
  %y = llama.kv_append %r into %k[%i] at %i pages(%p : tensor<8xi32>) : tensor<?x4x8xf32> into tensor<5x4x16x8xf32>
  return
}

// -----

// kv_append_c5
func.func @kv_append(%r: tensor<?x4x8xf32>, %k: tensor<?x5x4x16x8xf32>, %i: index, %p: tensor<?x8xi32>) {
  // expected-error @below {{expected pages of each token if and only if each token has a position}}
  %y = llama.kv_append %r into %k[%i] at %i pages(%p : tensor<?x8xi32>) : tensor<?x4x8xf32> into tensor<?x5x4x16x8xf32>
  return
}

// -----

// kv_append_c5
func.func @kv_append(%r: tensor<2x4x8xf32>, %k: tensor<?x5x4x16x8xf32>, %i: index, %t: tensor<2xi32>, %p: tensor<3x8xi32>) {
  // expected-error @below {{expected the number of rows of pages to be 2, got 3}}
  %y = llama.kv_append %r into %k[%i] at (%t : tensor<2xi32>) pages(%p : tensor<3x8xi32>) : tensor<2x4x8xf32> into tensor<?x5x4x16x8xf32>
  return
}

// -----

// gqa_c7
func.func @gqa(%q: tensor<?x8x8xf32>, %k: tensor<?x5x4x16x8xf32>, %i: index, %p: tensor<8xi32>) {
  // expected-error @below {{expected no 'over' with 'pages'}}
  %y = llama.gqa %q, %k, %k[%i] at %i pages(%p : tensor<8xi32>) over %i {scale = 1.0} : tensor<?x8x8xf32>, tensor<?x5x4x16x8xf32>
  return
}

// -----

// gqa_c8
func.func @gqa(%q: tensor<?x8x8xf32>, %k: tensor<?x5x4x16x8xf32>, %i: index, %t: tensor<?xi32>, %p: tensor<?x8xi32>) {
  // expected-error @below {{expected 'causal', because each token has a position}}
  %y = llama.gqa %q, %k, %k[%i] at (%t : tensor<?xi32>) pages(%p : tensor<?x8xi32>) {scale = 1.0} : tensor<?x8x8xf32>, tensor<?x5x4x16x8xf32>
  return
}

// -----

// kv_append_c1
func.func @kv_append(%r: tensor<?x3x8xf32>, %k: tensor<5x4x512x8xf32>, %i: index) {
  // expected-error @below {{expected heads 4, got 3}}
  %y = llama.kv_append %r into %k[%i] at %i : tensor<?x3x8xf32> into tensor<5x4x512x8xf32>
  return
}

// -----

// kv_append_c1
func.func @kv_append(%r: tensor<?x4x6xf32>, %k: tensor<5x4x512x8xf32>, %i: index) {
  // expected-error @below {{expected head size 8, got 6}}
  %y = llama.kv_append %r into %k[%i] at %i : tensor<?x4x6xf32> into tensor<5x4x512x8xf32>
  return
}

// -----

// kv_append_c2
func.func @kv_append(%r: tensor<?x4x8xf32>, %k: tensor<5x4x512x8xbf16>, %i: index) {
  // expected-error @below {{expected rows of 'bf16', got 'f32'}}
  %y = llama.kv_append %r into %k[%i] at %i : tensor<?x4x8xf32> into tensor<5x4x512x8xbf16>
  return
}

// -----

// kv_append_c3
func.func @kv_append(%r: tensor<?x4x48xf32>, %k: tensor<5x4x512x48x!llama.blocks<q8_0>>, %i: index) {
  // expected-error @below {{expected a head size in whole blocks of 32, got 48}}
  %y = llama.kv_append %r into %k[%i] at %i : tensor<?x4x48xf32> into tensor<5x4x512x48x!llama.blocks<q8_0>>
  return
}

// -----

// A cache has blocks of q8_0 alone.
func.func @kv_append(%r: tensor<?x4x32xf32>, %k: tensor<5x4x512x32x!llama.blocks<q4_0>>, %i: index) {
  // expected-error @below {{operand #1 must be 4D/5D tensor of 32-bit float or 16-bit float or bfloat16 type or blocks of q8_0 values}}
  %y = llama.kv_append %r into %k[%i] at %i : tensor<?x4x32xf32> into tensor<5x4x512x32x!llama.blocks<q4_0>>
  return
}

// -----

// gqa_c1
func.func @gqa(%q: tensor<?x7x8xf32>, %k: tensor<5x4x512x8xf32>, %i: index) {
  // expected-error @below {{expected query heads a multiple of the 4 KV heads, got 7}}
  %y = llama.gqa %q, %k, %k[%i] at %i {scale = 1.0} : tensor<?x7x8xf32>, tensor<5x4x512x8xf32>
  return
}

// -----

// gqa_c2
func.func @gqa(%q: tensor<?x8x6xf32>, %k: tensor<5x4x512x8xf32>, %i: index) {
  // expected-error @below {{expected head size 8, got 6}}
  %y = llama.gqa %q, %k, %k[%i] at %i {scale = 1.0} : tensor<?x8x6xf32>, tensor<5x4x512x8xf32>
  return
}

// -----

// gqa_c3
func.func @gqa(%q: tensor<?x8x8xf32>, %k: tensor<5x4x512x8xf32>, %i: index) {
  // expected-error @below {{expected a scale that is finite in f32, got}}
  %y = llama.gqa %q, %k, %k[%i] at %i {scale = 0x7FF0000000000000 : f64} : tensor<?x8x8xf32>, tensor<5x4x512x8xf32>
  return
}

// -----

// gqa_c3
func.func @gqa(%q: tensor<?x8x8xf32>, %k: tensor<5x4x512x8xf32>, %i: index) {
  // expected-error @below {{expected a positive window, got -1}}
  %y = llama.gqa %q, %k, %k[%i] at %i {scale = 1.0, window = -1 : i64} : tensor<?x8x8xf32>, tensor<5x4x512x8xf32>
  return
}

// -----

// kernel_c1
func.func @kernel(%x: tensor<2x4xf32>) {
  // expected-error @below {{expected to yield values of the results' types}}
  %y = llama.kernel "k" -> tensor<2x5xf32> {
    llama.yield %x : tensor<2x4xf32>
  }
  return
}

// -----

// kernel_c2
func.func @kernel() {
  // expected-error @below {{expected a C identifier, got "layers.attn"}}
  llama.kernel "layers.attn" {
    llama.yield
  }
  return
}

// -----

// kernel_c2
func.func @kernel() {
  // expected-error @below {{expected a C identifier, got "0_layers"}}
  llama.kernel "0_layers" {
    llama.yield
  }
  return
}

// -----

// kernel_c3
func.func @kernel() {
  llama.kernel "outer" {
    // expected-error @below {{expected a function, and no kernel, around a kernel}}
    llama.kernel "inner" {
      llama.yield
    }
    llama.yield
  }
  return
}

// -----

// kernel_c3
// expected-error @below {{expected a function, and no kernel, around a kernel}}
llama.kernel "alone" {
  llama.yield
}

// -----

// rope_c1
func.func @rope(%x: tensor<?x8x8xf32>, %t: tensor<512x4611686018427387904xf32>, %p: index) {
  // expected-error @below {{expected tables of 1 to half of 8 columns, got 4611686018427387904}}
  %y = llama.rope %x, %t, %t at %p : tensor<?x8x8xf32>, tensor<512x4611686018427387904xf32>
  return
}

// -----

// rope_c1
func.func @rope(%x: tensor<?x8x8xf32>, %t: tensor<512x0xf32>, %p: index) {
  // expected-error @below {{expected tables of 1 to half of 8 columns, got 0}}
  %y = llama.rope %x, %t, %t at %p : tensor<?x8x8xf32>, tensor<512x0xf32>
  return
}

// -----

// rope_c3
func.func @rope(%x: tensor<600x8x8xf32>, %t: tensor<512x4xf32>, %p: index) {
  // expected-error @below {{expected at most 512 tokens, got 600}}
  %y = llama.rope %x, %t, %t at %p : tensor<600x8x8xf32>, tensor<512x4xf32>
  return
}

// -----

// kv_append_c6
func.func @append(%x: tensor<?x4x8xf32>, %k: tensor<1x4x512x8xf32>, %p: index) {
  %c9 = arith.constant 9 : index
  // expected-error @below {{expected a layer from 0 to 0, got 9}}
  %y = llama.kv_append %x into %k[%c9] at %p : tensor<?x4x8xf32> into tensor<1x4x512x8xf32>
  return
}

// -----

// kv_append_c6
func.func @append(%x: tensor<2x4x8xf32>, %k: tensor<1x4x512x8xf32>, %l: index) {
  %c900 = arith.constant 900 : index
  // expected-error @below {{expected a position from 0 to 510, got 900}}
  %y = llama.kv_append %x into %k[%l] at %c900 : tensor<2x4x8xf32> into tensor<1x4x512x8xf32>
  return
}

// -----

// gqa_c9
func.func @gqa(%q: tensor<?x8x8xf32>, %k: tensor<5x4x512x8xf32>, %p: index) {
  %c5 = arith.constant 5 : index
  // expected-error @below {{expected a layer from 0 to 4, got 5}}
  %y = llama.gqa %q, %k, %k[%c5] at %p {scale = 1.0} : tensor<?x8x8xf32>, tensor<5x4x512x8xf32>
  return
}

// -----

// gqa_c10
func.func @gqa(%q: tensor<?x8x8xf32>, %k: tensor<1x4x16x8xf32>, %l: index, %p: index, %s: tensor<4xf32>) {
  // expected-error @below {{expected sinks of size 8, got 4}}
  %y = llama.gqa %q, %k, %k[%l] at %p sinks(%s : tensor<4xf32>) {scale = 1.0} : tensor<?x8x8xf32>, tensor<1x4x16x8xf32>
  return
}

// -----

// gqa_c11
func.func @gqa(%q: tensor<?x8x8xf32>, %k: tensor<1x4x16x8xf32>, %l: index, %p: index) {
  // expected-error @below {{expected values of 1 to 8 numbers, got 9}}
  %y = llama.gqa %q, %k, %k[%l] at %p values 9 {scale = 1.0} : tensor<?x8x8xf32>, tensor<1x4x16x8xf32>
  return
}

// -----

// gqa_c11
func.func @gqa(%q: tensor<?x8x64xf32>, %k: tensor<1x4x16x64x!llama.blocks<q8_0>>, %l: index, %p: index) {
  // expected-error @below {{expected values of whole blocks of 32 numbers, got 48}}
  %y = llama.gqa %q, %k, %k[%l] at %p values 48 {scale = 1.0} : tensor<?x8x64xf32>, tensor<1x4x16x64x!llama.blocks<q8_0>>
  return
}

// -----

// head_linear_c1
func.func @head_linear(%x: tensor<?x4x16xf32>, %w: tensor<3x24x16xf32>) {
  // expected-error @below {{expected a matrix for each head: 4, got 3}}
  %y = llama.head_linear %x, %w : tensor<?x4x16xf32>, tensor<3x24x16xf32>
  return
}

// -----

// head_linear_c2
func.func @head_linear(%x: tensor<?x4x16xf32>, %w: tensor<4x24x16xf32>) {
  // expected-error @below {{expected matrices with rows of 16, got 24}}
  %y = llama.head_linear %x, %w transposed : tensor<?x4x16xf32>, tensor<4x24x16xf32>
  return
}

// -----

// gqa_c4
func.func @gqa(%q: tensor<?x8x8xf32>, %k: tensor<1x4x16x8xf32>, %l: index, %p: index) {
  // expected-error @below {{expected soft cap to be positive and finite in f32, got 0}}
  %y = llama.gqa %q, %k, %k[%l] at %p {scale = 1.0, softcap = 0.0} : tensor<?x8x8xf32>, tensor<1x4x16x8xf32>
  return
}

// -----

// gqa_c5
func.func @gqa(%q: tensor<?x8x8xf32>, %k: tensor<5x4x512x8xf32>, %i: index) {
  // expected-error @below {{expected neither causal nor a window beside 'over'}}
  %o = llama.gqa %q, %k, %k[%i] at %i over %i {scale = 1.0, causal} : tensor<?x8x8xf32>, tensor<5x4x512x8xf32>
  return
}

// -----

// gqa_c5
func.func @gqa(%q: tensor<?x8x8xf32>, %k: tensor<5x4x512x8xf32>, %i: index) {
  // expected-error @below {{expected neither causal nor a window beside 'over'}}
  %o = llama.gqa %q, %k, %k[%i] at %i over %i {scale = 1.0, window = 3 : i64} : tensor<?x8x8xf32>, tensor<5x4x512x8xf32>
  return
}

// -----

// gqa_c6
func.func @gqa(%q: tensor<?x8x8xf32>, %k: tensor<5x4x512x8x!llama.blocks<q8_0>>, %i: index) {
  // expected-error @below {{expected a head size in whole blocks of 32, got 8}}
  %y = llama.gqa %q, %k, %k[%i] at %i {scale = 1.0} : tensor<?x8x8xf32>, tensor<5x4x512x8x!llama.blocks<q8_0>>
  return
}

// -----

// kv_append_c7
func.func @append(%x: tensor<?x4x8xf32>, %k: tensor<?x5x4x16x8xf32>, %l: index, %p: tensor<8xi32>) {
  // expected-error @below {{expected no pages of a ring}}
  %y = llama.kv_append %x into %k[%l] at %l pages(%p : tensor<8xi32>) {ring} : tensor<?x4x8xf32> into tensor<?x5x4x16x8xf32>
  return
}

// -----

// kv_append_c7
func.func @append(%x: tensor<17x4x8xf32>, %k: tensor<1x4x16x8xf32>, %l: index, %p: index) {
  // expected-error @below {{expected a ring of at least 17 places, got 16}}
  %y = llama.kv_append %x into %k[%l] at %p {ring} : tensor<17x4x8xf32> into tensor<1x4x16x8xf32>
  return
}

// -----

// gqa_c13
func.func @gqa(%q: tensor<?x8x8xf32>, %k: tensor<1x4x16x8xf32>, %l: index, %p: index) {
  // expected-error @below {{expected causal and one position of all tokens beside 'ahead'}}
  %y = llama.gqa %q, %k, %k[%l] at %p ahead %l {scale = 1.0} : tensor<?x8x8xf32>, tensor<1x4x16x8xf32>
  return
}

// -----

// gqa_c13
func.func @gqa(%q: tensor<?x8x8xf32>, %k: tensor<?x1x4x16x8xf32>, %l: index, %p: tensor<?xi32>, %t: tensor<?x2xi32>) {
  // expected-error @below {{expected causal and one position of all tokens beside 'ahead'}}
  %y = llama.gqa %q, %k, %k[%l] at (%p : tensor<?xi32>) pages(%t : tensor<?x2xi32>) ahead %l {scale = 1.0, causal} : tensor<?x8x8xf32>, tensor<?x1x4x16x8xf32>
  return
}

// -----

// gqa_c12
func.func @gqa(%q: tensor<?x8x8xf32>, %k: tensor<1x4x16x8xf32>, %l: index, %p: index) {
  // expected-error @below {{expected a window beside 'ring'}}
  %y = llama.gqa %q, %k, %k[%l] at %p {scale = 1.0, causal, ring} : tensor<?x8x8xf32>, tensor<1x4x16x8xf32>
  return
}

// -----

// gqa_c12
func.func @gqa(%q: tensor<4x8x8xf32>, %k: tensor<1x4x16x8xf32>, %l: index, %p: index) {
  // expected-error @below {{expected a ring of at least 18 places, got 16}}
  %y = llama.gqa %q, %k, %k[%l] at %p {scale = 1.0, causal, window = 15 : i64, ring} : tensor<4x8x8xf32>, tensor<1x4x16x8xf32>
  return
}
