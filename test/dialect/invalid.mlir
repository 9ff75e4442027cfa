// What the verifiers refuse. Each case carries the number of the constraint in
// Ops.td.
// RUN: cria-opt --split-input-file --verify-diagnostics %s

// weight_c1
// expected-error @below {{expected a static tensor of f32, f16 or bf16, or a matrix in blocks of 32, got 'tensor<?xf32>'}}
llama.weight @w : tensor<?xf32> from "w"

// -----

// weight_c1
// expected-error @below {{expected a static tensor of f32, f16 or bf16, or a matrix in blocks of 32, got 'tensor<4xi8>'}}
llama.weight @w : tensor<4xi8> from "w"

// -----

// weight_c1
// expected-error @below {{a matrix in blocks of 32, got 'tensor<4x48x!llama.blocks<q8_0>>'}}
llama.weight @w : tensor<4x48x!llama.blocks<q8_0>> from "w"

// -----

// weight_c1
// expected-error @below {{a matrix in blocks of 32, got 'tensor<32x!llama.blocks<q4_0>>'}}
llama.weight @w : tensor<32x!llama.blocks<q4_0>> from "w"

// -----

// weight_c2
// expected-error @below {{expected one '{}' in the name, got 0}}
llama.weight @w[2] : tensor<4xf32> from "layers.w"

// -----

// weight_c2
// expected-error @below {{expected no '{}' in the name, got 1}}
llama.weight @w : tensor<4xf32> from "layers.{}.w"

// -----

// weight_c3
// expected-error @below {{expected a positive count, got 0}}
llama.weight @w[0] : tensor<4xf32> from "layers.{}.w"

// -----

// weight_c3
// expected-error @below {{expected a positive count, got -3}}
llama.weight @w[-3] : tensor<4xf32> from "layers.{}.w"

// -----

// weight_c3
// expected-error @below {{expected a first layer of at least 0, and layers whose numbers fit 64 bits, got -1}}
llama.weight @w[2] : tensor<4xf32> from "layers.{}.w" {first = -1 : i64}

// -----

// rope_table_c1
// expected-error @below {{expected positions and frequencies, got 0 and 1}}
llama.rope_table @rope {positions = 0 : i64, inv_freq = array<f32: 1.0>}

// -----

// rope_table_c1
// expected-error @below {{expected positions and frequencies, got 4 and 0}}
llama.rope_table @rope {positions = 4 : i64, inv_freq = array<f32>}

// -----

// get_weight_c1
llama.rope_table @rope {positions = 4 : i64, inv_freq = array<f32: 1.0>}
func.func @get_weight() {
  // expected-error @below {{expected a llama.weight, got @rope}}
  %w = llama.get_weight @rope : tensor<4xf32>
  return
}

// -----

// get_weight_c2
llama.weight @w : tensor<4xf32> from "w"
func.func @get_weight() {
  // expected-error @below {{expected 'tensor<4xf32>', got 'tensor<5xf32>'}}
  %w = llama.get_weight @w : tensor<5xf32>
  return
}

// -----

// get_weight_c3
llama.weight @w : tensor<4xf32> from "w"
func.func @get_weight(%i: index) {
  // expected-error @below {{expected no layer}}
  %w = llama.get_weight @w[%i] : tensor<4xf32>
  return
}

// -----

// get_weight_c3
llama.weight @w[2] : tensor<4xf32> from "layers.{}.w"
func.func @get_weight() {
  // expected-error @below {{expected a layer}}
  %w = llama.get_weight @w : tensor<4xf32>
  return
}

// -----

// get_rope_c1
func.func @get_rope() {
  // expected-error @below {{expected a llama.rope_table, got @rope}}
  %cos, %sin = llama.get_rope @rope : tensor<4x1xf32>
  return
}

// -----

// get_rope_c2
llama.rope_table @rope {positions = 4 : i64, inv_freq = array<f32: 1.0>}
func.func @get_rope() {
  // expected-error @below {{expected 'tensor<4x1xf32>', got 'tensor<4x2xf32>'}}
  %cos, %sin = llama.get_rope @rope : tensor<4x2xf32>
  return
}

// -----

// Types are inferred before operands are verified.
func.func @embed(%ids: tensor<?xi32>, %t: tensor<8xf32>) {
  // expected-error @below {{expected a table of rank 2, got 'tensor<8xf32>'}}
  %x = llama.embed %ids, %t : tensor<?xi32>, tensor<8xf32>
  return
}

// -----

func.func @embed(%ids: tensor<2x2xi32>, %t: tensor<8x4xf32>) {
  // expected-error @below {{expected ids of rank 1, got 'tensor<2x2xi32>'}}
  %x = llama.embed %ids, %t : tensor<2x2xi32>, tensor<8x4xf32>
  return
}

// -----

// rmsnorm_c1
func.func @rmsnorm(%x: tensor<?x64xf32>, %w: tensor<63xf32>) {
  // expected-error @below {{expected a weight of size 64, got 63}}
  %y = llama.rmsnorm %x, %w {eps = 1.0e-05} : tensor<?x64xf32>, tensor<63xf32>
  return
}

// -----

// rmsnorm_c1
func.func @rmsnorm(%x: tensor<?x4x8xf32>, %w: tensor<2x8xf32>) {
  // expected-error @below {{expected a weight of size 4, got 2}}
  %y = llama.rmsnorm %x, %w {eps = 1.0e-05} : tensor<?x4x8xf32>, tensor<2x8xf32>
  return
}

// -----

// rmsnorm_c1
func.func @rmsnorm(%x: tensor<?x64xf32>, %w: tensor<1x64xf32>) {
  // expected-error @below {{expected heads beside a weight of two dimensions}}
  %y = llama.rmsnorm %x, %w {eps = 1.0e-05} : tensor<?x64xf32>, tensor<1x64xf32>
  return
}

// -----

// rmsnorm_c4
func.func @rmsnorm(%x: tensor<?x64xf32>) {
  // expected-error @below {{expected no size without squares}}
  %y = llama.rmsnorm %x {eps = 1.0e-05, size = 128} : tensor<?x64xf32>
  return
}

// -----

// rmsnorm_c4
func.func @rmsnorm(%x: tensor<?x8x8xf32>, %s: tensor<?x2xf32>) {
  // expected-error @below {{expected squares beside an x of two dimensions and a positive size}}
  %y = llama.rmsnorm %x squares(%s : tensor<?x2xf32>) {eps = 1.0e-05, size = 128} : tensor<?x8x8xf32>
  return
}

// -----

// rmsnorm_c4
func.func @rmsnorm(%x: tensor<?x64xf32>, %s: tensor<?x2xf32>) {
  // expected-error @below {{expected a column below 2, got 2}}
  %y = llama.rmsnorm %x squares(%s : tensor<?x2xf32>) {eps = 1.0e-05, column = 2, size = 128} : tensor<?x64xf32>
  return
}

// -----

// rmsnorm_c4
func.func @rmsnorm(%x: tensor<3x64xf32>, %s: tensor<2x1xf32>) {
  // expected-error @below {{expected the number of rows of squares to be 3, got 2}}
  %y = llama.rmsnorm %x squares(%s : tensor<2x1xf32>) {eps = 1.0e-05, size = 128} : tensor<3x64xf32>
  return
}

// -----

// square_sums_c1
func.func @square_sums(%x: tensor<3x64xf32>, %y: tensor<2x64xf32>) {
  // expected-error @below {{expected the number of tokens to be 3, got 2}}
  %s = llama.square_sums %x, %y : tensor<3x64xf32>, tensor<2x64xf32>
  return
}

// -----

// rmsnorm_c2
func.func @rmsnorm(%x: tensor<?x64xf32>) {
  // expected-error @below {{expected eps to be positive and finite in f32, got 0}}
  %y = llama.rmsnorm %x {eps = 0.0} : tensor<?x64xf32>
  return
}

// -----

// layernorm_c1
func.func @layernorm(%x: tensor<?x64xf32>, %w: tensor<63xf32>) {
  // expected-error @below {{expected gamma and beta of size 64, got 63}}
  %y = llama.layernorm %x gamma(%w : tensor<63xf32>) {eps = 1.0e-05} : tensor<?x64xf32>
  return
}

// -----

// layernorm_c2
func.func @layernorm(%x: tensor<?x64xf32>) {
  // expected-error @below {{expected eps to be positive and finite in f32, got -1}}
  %y = llama.layernorm %x {eps = -1.0} : tensor<?x64xf32>
  return
}

// -----

// layernorm_c3
func.func @layernorm(%x: tensor<?x64xf32>, %b: tensor<64xf32>) {
  // expected-error @below {{expected gamma beside beta}}
  %y = llama.layernorm %x beta(%b : tensor<64xf32>) {eps = 1.0e-05} : tensor<?x64xf32>
  return
}

// -----

// layernorm_c3
func.func @layernorm(%x: tensor<?x64xf32>) {
  // expected-error @below {{expected gamma beside unit_offset}}
  %y = llama.layernorm %x {eps = 1.0e-05, unit_offset} : tensor<?x64xf32>
  return
}

// -----

// linear_c1
func.func @linear(%x: tensor<?x64xf32>, %w: tensor<8x63xf32>) {
  // expected-error @below {{expected a weight of second dimension 64, got 63}}
  %y = llama.linear %x, %w : tensor<?x64xf32>, tensor<8x63xf32>
  return
}

// -----

// linear_c2
func.func @linear(%x: tensor<?x64xf32>, %w: tensor<8x64xf32>, %b: tensor<9xf32>) {
  // expected-error @below {{expected a bias of size 8, got 9}}
  %y = llama.linear %x, %w bias(%b : tensor<9xf32>) : tensor<?x64xf32>, tensor<8x64xf32>
  return
}

// -----

func.func @linear(%x: tensor<64xf32>, %w: tensor<8x64xf32>) {
  // expected-error @below {{expected an input of rank 2, got 'tensor<64xf32>'}}
  %y = llama.linear %x, %w : tensor<64xf32>, tensor<8x64xf32>
  return
}

// -----

// linear_c3
func.func @linear(%x: tensor<?x64xbf16>, %w: tensor<8x64xbf16>) {
  // expected-error @below {{expected 'as' f32, got 'f16'}}
  %y = llama.linear %x, %w as f16 : tensor<?x64xbf16>, tensor<8x64xbf16>
  return
}

// -----

// head_c1
func.func @head(%x: tensor<?x64xf32>, %w: tensor<512x63xf32>) {
  // expected-error @below {{expected a weight of second dimension 64, got 63}}
  %y = llama.head %x, %w : tensor<?x64xf32>, tensor<512x63xf32>
  return
}

// -----

// weight_c4
// expected-error @below {{expected 8 rows from 10 on within the tensor's 17}}
llama.weight @w : tensor<8x4xf32> from "w" rows 10 of 17

// -----

// weight_c5
llama.weight @e : tensor<8x4xf32> from "e"
// expected-error @below {{expected 'or' to name a whole weight of the shape of 'tensor<8x2xf32>', got @e}}
llama.weight @w : tensor<8x2xf32> from "w" or @e

// -----

// weight_c5
// expected-error @below {{expected 'or' to name a whole weight of the shape of 'tensor<8x4xf32>', got @e}}
llama.weight @w : tensor<8x4xf32> from "w" or @e

// -----

// weight_c5
llama.weight @e : tensor<8x4xf32> from "e" rows 0 of 9
// expected-error @below {{expected 'or' to name a whole weight of the shape of 'tensor<8x4xf32>', got @e}}
llama.weight @w : tensor<8x4xf32> from "w" or @e

// -----

// rope_table_c2
// expected-error @below {{expected a positive 'original' with 2 frequencies in 'long_inv_freq', or with 'growth' and 'theta'}}
llama.rope_table @r {positions = 8 : i64, inv_freq = array<f32: 1.0, 0.1>, original = 4 : i64, long_inv_freq = array<f32: 1.0>}

// -----

// rope_table_c2
// expected-error @below {{expected a positive 'original'}}
llama.rope_table @r {positions = 8 : i64, inv_freq = array<f32: 1.0, 0.1>, growth = 2.0, theta = 1.0e4}

// -----

// rope_table_c3
// expected-error @below {{expected 'original' beside 'recompute'}}
llama.rope_table @r {positions = 8 : i64, inv_freq = array<f32: 1.0, 0.1>, recompute}

// -----

// embed_c1
func.func @embed(%ids: tensor<?xi32>, %t: tensor<8x4xf32>) {
  // expected-error @below {{expected a scale that is finite in f32, got}}
  %y = llama.embed %ids, %t {scale = 0x7FF0000000000000 : f64} : tensor<?xi32>, tensor<8x4xf32>
  return
}

// -----

// embed_c2
func.func @embed(%ids: tensor<?xi32>, %t: tensor<8x4xf32>) {
  // expected-error @below {{expected no 'as' beside a table that is not in blocks}}
  %y = llama.embed %ids, %t as f32 : tensor<?xi32>, tensor<8x4xf32>
  return
}

// -----

// embed_c2
func.func @embed(%ids: tensor<?xi32>, %t: tensor<8x32x!llama.blocks<q4_0>>) {
  // expected-error @below {{expected 'as' f32, f16 or bf16 beside a table in blocks}}
  %y = llama.embed %ids, %t : tensor<?xi32>, tensor<8x32x!llama.blocks<q4_0>>
  return
}

// -----

// rmsnorm_c3
func.func @rmsnorm(%x: tensor<?x4xf32>) {
  // expected-error @below {{expected a weight beside unit_offset and round_once}}
  %y = llama.rmsnorm %x {eps = 1.0e-5, unit_offset} : tensor<?x4xf32>
  return
}

// -----

// head_c2
func.func @head(%x: tensor<?x64xf32>, %w: tensor<512x64xf32>) {
  // expected-error @below {{expected soft cap to be positive and finite in f32, got -3.0}}
  %y = llama.head %x, %w {softcap = -3.0} : tensor<?x64xf32>, tensor<512x64xf32>
  return
}

// -----

// residual_c1
func.func @residual(%x: tensor<?x4xf32>) {
  // expected-error @below {{expected a scale that is finite in f32, got}}
  %y = llama.residual %x, %x {scale = 0x7FF8000000000000 : f64} : tensor<?x4xf32>
  return
}

// -----

// head_c3
func.func @head(%x: tensor<?x64xf32>, %w: tensor<512x64xf32>, %b: tensor<64xf32>) {
  // expected-error @below {{expected a bias of size 512, got 64}}
  %y = llama.head %x, %w bias(%b : tensor<64xf32>) : tensor<?x64xf32>, tensor<512x64xf32>
  return
}

// -----

// add_rows_c1
func.func @add_rows(%x: tensor<?x64xf32>, %table: tensor<512x65xf32>, %position: index) {
  // expected-error @below {{expected a table of second dimension 64, got 65}}
  %y = llama.add_rows %x, %table at %position : tensor<?x64xf32>, tensor<512x65xf32>
  return
}

// -----

// add_rows_c5
func.func @add_rows(%x: tensor<?x64xf32>, %table: tensor<512x64xf32>, %position: index) {
  // expected-error @below {{expected 'first' from 0 to 2147483647, got -1}}
  %y = llama.add_rows %x, %table at %position {first = -1} : tensor<?x64xf32>, tensor<512x64xf32>
  return
}

// -----

// add_rows_c5
func.func @add_rows(%x: tensor<?x64xf32>, %row: tensor<1x64xf32>) {
  // expected-error @below {{expected 'first' beside one position}}
  %y = llama.add_rows %x, %row {first = 1} : tensor<?x64xf32>, tensor<1x64xf32>
  return
}

// -----

// set_rows_c1
func.func @set_rows(%x: tensor<?x64xf32>, %rows: tensor<4x65xf32>, %position: index) {
  // expected-error @below {{expected rows of second dimension 64, got 65}}
  %y = llama.set_rows %x, %rows at %position : tensor<?x64xf32>, tensor<4x65xf32>
  return
}

// -----

// set_rows_c2
func.func @set_rows(%x: tensor<?x64xf32>, %rows: tensor<4x64xf32>, %position: index) {
  // expected-error @below {{expected 'first' from 0 to 2147483647, got 2147483648}}
  %y = llama.set_rows %x, %rows at %position {first = 2147483648} : tensor<?x64xf32>, tensor<4x64xf32>
  return
}

// -----

// residual_c2
func.func @residual(%x: tensor<?x4xf32>, %f: tensor<5xf32>) {
  // expected-error @below {{expected a factor of size 4, got 5}}
  %y = llama.residual %x, %x factor(%f : tensor<5xf32>) : tensor<?x4xf32>
  return
}

// -----

// residual_c3
func.func @residual(%x: tensor<?x4xf32>, %f: tensor<4xf32>) {
  // expected-error @below {{expected times of size 1, got 4}}
  %y = llama.residual %x, %x times(%f : tensor<4xf32>) : tensor<?x4xf32>
  return
}

// -----

// weight_c11
// expected-error @below {{expected an input to be one whole row of floats, got 'tensor<2x48xf32>'}}
llama.weight @patches : tensor<2x48xf32> from "patches" input

// -----

// add_rows_c2
func.func @add_rows(%x: tensor<?x64xf32>, %table: tensor<2x64xf32>) {
  // expected-error @below {{expected the number of rows of a table without a position to be 1, got 2}}
  %y = llama.add_rows %x, %table : tensor<?x64xf32>, tensor<2x64xf32>
  return
}

// -----

// weight_c6
llama.weight @a : tensor<4xf32> from "a" {slot = 0 : index}
// expected-error @below {{expected a slot, as llama.weight @a has}}
llama.weight @b : tensor<4xf32> from "b"

// -----

// weight_c6
llama.weight @a[3] : tensor<4xf32> from "a.{}" {slot = 0 : index}
// expected-error @below {{expected slot 3, the next one, got 1}}
llama.weight @b : tensor<4xf32> from "b" {slot = 1 : index}

// -----

// rope_table_c4
llama.weight @a : tensor<4xf32> from "a" {slot = 2 : index}
// expected-error @below {{expected slot 0, the next one, got 1}}
llama.rope_table @r {positions = 8 : i64, inv_freq = array<f32: 1.0>, slot = 1 : index}

// -----

// weight_c7
// expected-error @below {{expected a weight with 'split' to be in a module with 'llama.shards'}}
llama.weight @w : tensor<4x8xf32> from "w" split rows

// -----

// weight_c7
module attributes {llama.shards = 2 : i64} {
  // expected-error @below {{expected 'split cols' on a matrix without 'rows'}}
  llama.weight @w : tensor<4x8xf32> from "w" rows 4 of 8 split cols
}

// -----

// weight_c7
module attributes {llama.shards = 2 : i64} {
  // expected-error @below {{expected 'split rows' on a tensor with rows}}
  llama.weight @w : tensor<f32> from "w" split rows
}

// -----

// weight_c4
module attributes {llama.shards = 2 : i64} {
  // expected-error @below {{expected 8 rows from 5 on within the tensor's 12}}
  llama.weight @w : tensor<4x8xf32> from "w" rows 5 of 12 split rows
}

// -----

// weight_c5
module attributes {llama.shards = 2 : i64} {
  llama.weight @e : tensor<4x8xf32> from "e"
  // expected-error @below {{expected 'or' to name a whole weight of the shape of 'tensor<8x8xf32>', got @e}}
  llama.weight @w : tensor<4x8xf32> from "w" or @e split rows
}

// -----

// all_reduce_c1
module attributes {llama.shards = 2 : i64} {
  func.func @all_reduce(%x: tensor<?x64xf32>, %b: tensor<32xf32>) {
    // expected-error @below {{expected a bias of size 64, got 32}}
    %y = llama.all_reduce %x bias(%b : tensor<32xf32>) : tensor<?x64xf32>
    return
  }
}

// -----

// all_reduce_c2
func.func @all_reduce(%x: tensor<?x64xf32>) {
  // expected-error @below {{expected to be in a module with 'llama.shards'}}
  %y = llama.all_reduce %x : tensor<?x64xf32>
  return
}

// -----

// expected-error @below {{expected 'llama.shards' to be an i64 from 2 to 1024 on a module, got 1 : i64}}
module attributes {llama.shards = 1 : i64} {}

// -----

// expected-error @below {{expected no attribute 'llama.ranks'}}
module attributes {llama.ranks = 2 : i64} {}

// -----

// weight_c3
// expected-error @below {{layers whose numbers fit 64 bits, got 9223372036854775807}}
llama.weight @w[2] : tensor<4xf32> from "w.{}" {first = 9223372036854775807 : i64}

// -----

// weight_c4
// expected-error @below {{expected first_row beside source_rows}}
llama.weight @w : tensor<4xf32> from "w" {source_rows = 8 : i64}

// -----

// rope_table_c5
// expected-error @below {{expected finite frequencies}}
llama.rope_table @r {positions = 8 : i64, inv_freq = array<f32: 1.0, 0x7FC00000>}

// -----

// rmsnorm_c2
func.func @rmsnorm(%x: tensor<?x64xf32>) {
  // expected-error @below {{expected eps to be positive and finite in f32, got 1.0}}
  %y = llama.rmsnorm %x {eps = 1.0e-300} : tensor<?x64xf32>
  return
}

// -----

// residual_c1
func.func @residual(%x: tensor<?x4xf32>) {
  // expected-error @below {{expected a scale that is finite in f32, got 1.0}}
  %y = llama.residual %x, %x {scale = 1.0e300 : f64} : tensor<?x4xf32>
  return
}

// -----

func.func @linear(%x: tensor<?x33xf32>, %w: tensor<8x33x!llama.blocks<q8_0>>) {
  // expected-error @below {{must be 2D tensor of floats, or of blocks with whole blocks in each row, but got 'tensor<8x33x!llama.blocks<q8_0>>'}}
  %y = llama.linear %x, %w : tensor<?x33xf32>, tensor<8x33x!llama.blocks<q8_0>>
  return
}

// -----

// add_rows_c4
func.func @add_rows(%x: tensor<600x4xf32>, %t: tensor<512x4xf32>, %p: index) {
  // expected-error @below {{expected at most 512 tokens, got 600}}
  %y = llama.add_rows %x, %t at %p : tensor<600x4xf32>, tensor<512x4xf32>
  return
}
