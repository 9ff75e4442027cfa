#ifndef CRIA_DIALECT_OPS_TD
#define CRIA_DIALECT_OPS_TD

include "dialect/Dialect.td"
include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/BuiltinAttributes.td"
include "mlir/IR/CommonAttrConstraints.td"
include "mlir/IR/CommonTypeConstraints.td"
include "mlir/IR/EnumAttr.td"
include "mlir/IR/OpAsmInterface.td"
include "mlir/IR/RegionKindInterface.td"
include "mlir/IR/SymbolInterfaces.td"
include "mlir/Interfaces/ControlFlowInterfaces.td"
include "mlir/Interfaces/InferTypeOpInterface.td"
include "mlir/Interfaces/SideEffectInterfaces.td"

/// Its verifier warns of attributes that the op does not define.
def KnownAttributes : NativeOpTrait<"KnownAttributes"> {
  let cppNamespace = "::cria::llama";
}

class Llama_Op<string mnemonic, list<Trait> traits = []>
    : Op<Llama_Dialect, mnemonic, traits # [KnownAttributes,
        DeclareOpInterfaceMethods<OpAsmOpInterface, ["getAsmResultNames"]>]> {
  let extraClassDefinition = [{
    void $cppClass::getAsmResultNames(::mlir::OpAsmSetValueNameFn setName) {
      nameResults(*this, setName);
    }
  }];
}

//===----------------------------------------------------------------------===//
// Types
//===----------------------------------------------------------------------===//

def Llama_BlockFormat : I32EnumAttr<"BlockFormat", "a format of blocks",
    [I32EnumAttrCase<"Q8_0", 0, "q8_0">, I32EnumAttrCase<"Q4_0", 1, "q4_0">,
     I32EnumAttrCase<"FP8", 2, "fp8">]> {
  let cppNamespace = "::cria::llama";
}

def Llama_Blocks : TypeDef<Llama_Dialect, "Blocks"> {
  let mnemonic = "blocks";
  let summary = "numbers that are stored in blocks of 32";
  let description = [{
    The element type of a quantized matrix or cache. Each 32 numbers of a row are
    a block: a scale d in f16, then, in ggml's formats of the same names,

    - `q8_0`: 32 integers q of 8 bits; the numbers are d * q. 34 bytes.
    - `q4_0`: 16 bytes, byte i with the integer q of number i in its low half
      and that of number i + 16 in its high half; the numbers are d * (q - 8).
      18 bytes.

    or

    - `fp8`: 32 floats q of 8 bits (OCP's E4M3, without NaN); the numbers are
      d * q / 256. 34 bytes. Scales of checkpoints in fp8 are mostly 1e-4 to 1e-2,
      of which f16 would round many; not so 256 times as much.

    ```mlir
    tensor<2048x2048x!llama.blocks<q8_0>>
    ```

    A product with a matrix in blocks of integers also rounds the other operand
    to blocks, as ggml does: each 32 numbers of a row become a scale
    d = max |x| / 127 in f16 and integers x / d, rounded to nearest even. A product
    with a matrix in fp8 takes the other operand in 16 bits; f32 is rounded to
    bf16.
  }];
  let parameters = (ins EnumParameter<Llama_BlockFormat>:$format);
  let assemblyFormat = "`<` $format `>`";
  let extraClassDeclaration = [{
    /// Numbers of a block.
    static constexpr int64_t kNumbers = 32;
    /// Bytes of the scale, the first of a block.
    static constexpr int64_t kScaleBytes = 2;
    /// Bytes of a block.
    int64_t getBytes() const {
      return kScaleBytes + (getFormat() == BlockFormat::Q4_0 ? 16 : 32);
    }
  }];
}

/// Storage and activation types.
def Llama_Float : AnyTypeOf<[F32, F16, BF16]>;
class Llama_Tensor<int rank> : TensorRankOf<[F32, F16, BF16], [rank]>;
def Llama_Vector : Llama_Tensor<1>;
def Llama_Matrix : Llama_Tensor<2>;
/// Matrices of a weight, which may be quantized. Rows in blocks are whole
/// blocks.
class Llama_Weights<int rank> : Type<And<[
    TensorRankOf<[F32, F16, BF16, Llama_Blocks], [rank]>.predicate,
    CPred<"hasWholeBlocks(::llvm::cast<::mlir::RankedTensorType>($_self))">]>,
    rank # "D tensor of floats, or of blocks with whole blocks in each row",
    "::mlir::RankedTensorType">;
def Llama_WeightMatrix : Llama_Weights<2>;
/// The matrices of all experts: (experts, out, in).
def Llama_Experts : Type<And<[Llama_Weights<3>.predicate,
    CPred<"!hasFloatBlocks(::llvm::cast<::mlir::RankedTensorType>($_self))">]>,
    "3D tensor of floats, or of blocks of integers with whole blocks in each row",
    "::mlir::RankedTensorType">;
/// The numbers of the experts that a token chose: (tokens, chosen experts).
def Llama_Chosen : TensorRankOf<[I32], [2]>;
/// A number for each chosen expert: (tokens, chosen experts).
def Llama_Shares : TensorRankOf<[F32], [2]>;
/// (tokens, heads, head size)
def Llama_Heads : Llama_Tensor<3>;
/// (tokens, size) or (tokens, heads, head size)
def Llama_Rows : TensorRankOf<[F32, F16, BF16], [2, 3]>;
/// The element type of a quantized cache.
def Llama_Q8_0 : Type<And<[Llama_Blocks.predicate,
    CPred<"::llvm::cast<::cria::llama::BlocksType>($_self).getFormat() == "
          "::cria::llama::BlockFormat::Q8_0">]>, "blocks of q8_0">;
/// (layers, KV heads, positions, head size), or paged: (pages, layers, KV
/// heads, positions of a page, head size)
def Llama_Cache : TensorRankOf<[F32, F16, BF16, Llama_Q8_0], [4, 5]>;
/// What a layer remembers of all tokens before the call's: (layers, rows,
/// numbers). A call overwrites it. The states of many texts are (states, layers,
/// rows, numbers).
class Llama_State<list<Type> types> : TensorRankOf<types, [3, 4]>;
def Llama_RopeTable : TensorRankOf<[F32], [2]>;
def Llama_Ids : TensorRankOf<[I32], [1]>;
/// The position of the first token, if the others follow it; or one position
/// for each token.
def Llama_Position : AnyTypeOf<[Index, Llama_Ids]>;
/// Page numbers: (pages) of one text, or (tokens, pages) with a row for each
/// token.
def Llama_Pages : TensorRankOf<[I32], [1, 2]>;
/// The numbers of two states: of the one that is read and of the one that is
/// written; (2) of one text, or (tokens, 2) with a row for each token.
def Llama_States : TensorRankOf<[I32], [1, 2]>;

//===----------------------------------------------------------------------===//
// Symbols: what the runtime binds
//===----------------------------------------------------------------------===//

def Llama_Split : I32EnumAttr<"Split", "the dimension that ranks share",
    [I32EnumAttrCase<"Rows", 0, "rows">, I32EnumAttrCase<"Cols", 1, "cols">]> {
  let cppNamespace = "::cria::llama";
}

def Llama_WeightOp : Llama_Op<"weight",
    [Symbol, DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "a tensor of the checkpoint, or one per layer";
  let description = [{
    Declares a tensor of the checkpoint by its name.

    - With `[count]` the op declares a table of `count` tensors of one shape,
      for the layers `first` to `first + count - 1`; `{}` in the name is the
      layer. These tensors need not be adjacent, and are never copied together.
    - With `experts` the op declares the matrices (N, K) of E experts, of each
      layer if there is a count; the type is (E, N, K). If the name has a `{}` more
      than a count needs, the last `{}` is the expert, and each expert has a tensor
      of its own. Else one tensor (E, N, K) has all experts. In both cases experts
      are read where they lie. `rows r of n` then counts rows of one expert.
    - With `layers` only these of the `count` layers have a tensor. No
      `llama.get_weight` reads another layer.
    - With `rows r of n` the op declares rows of a tensor of n rows, starting at
      row r. The rows are used in place.
    - With `transposed` the checkpoint has (K, N) in place of (N, K). The tensor is
      transposed when it is loaded.
    - An `adapter` is a matrix of the LoRA adapters with which the model is
      loaded. Without adapters the matrix is zero. It is not a tensor of the
      checkpoint.
    - An `input` is not a tensor of the checkpoint either: a call gives its rows in
      place of ids, as `cria_session_feed_embeddings` does. A model with an `input`,
      such as a vision tower, takes no ids.
    - With `or @other`, a checkpoint without a tensor of this name uses the weight
      `@other` instead, as a head that is tied to the embedding does.
    - A `private` weight is removed by `symbol-dce` if nothing uses it. The
      runtime then binds no tensor for it.

    With `split rows` or `split cols` the type is the share of one of the
    module's N ranks. If n is the type's number of rows, rank r has the rows
    from `r n` to `(r + 1) n - 1`; columns likewise. If the op also has
    `rows f of m`, which is part of a fused tensor, these are the rows `f + r n`
    to `f + (r + 1) n - 1`. Of `experts` each matrix is split.

    ```mlir
    llama.weight @embed_tokens : tensor<128256x2048xbf16> from "model.embed_tokens.weight"
    llama.weight @lm_head : tensor<128256x2048xbf16> from "lm_head.weight" or @embed_tokens
    llama.weight @q_proj[16] : tensor<2048x2048xbf16> from "model.layers.{}.self_attn.q_proj.weight"
    llama.weight @k_proj[32] : tensor<1024x3072xbf16> from "model.layers.{}.self_attn.qkv_proj.weight" rows 3072 of 5120
    llama.weight @q_proj_lora_a[16] : tensor<8x2048xbf16> from "model.layers.{}.self_attn.q_proj.lora_A.weight" adapter
    llama.weight @v_proj[16] : tensor<256x2048xbf16> from "model.layers.{}.self_attn.v_proj.weight" split rows
    llama.weight @down_proj[16] : tensor<2048x4096xbf16> from "model.layers.{}.mlp.down_proj.weight" split cols
    llama.weight @experts_up[48] experts : tensor<128x768x2048xbf16> from "model.layers.{}.mlp.experts.{}.up_proj.weight"
    llama.weight @experts_down[24] experts : tensor<32x1024x512xbf16> from "model.layers.{}.block_sparse_moe.output_linear.weight"
    llama.weight @c_fc[12] : tensor<3072x768xf32> from "h.{}.mlp.c_fc.weight" transposed
    llama.weight @patches : tensor<1x588xf32> from "patches" input
    llama.weight @router[5] : tensor<64x2560xbf16> from "model.layers.{}.mlp.gate.weight" {first = 1 : i64, layers = array<i64: 1, 3, 5>}
    llama.weight private @gate_proj[16] : tensor<8192x2048xbf16> from "model.layers.{}.mlp.gate_proj.weight"
    ```

    Constraints:
    - (C1) the type is a static tensor of f32, f16 or bf16, or a static matrix, or
      matrices of experts, of blocks. Rows in blocks are whole blocks.
    - (C2) a name with a count holds `{}` once, a name without a count never. A
      name of `experts` may hold one `{}` more.
    - (C3) the count is positive, the first layer is not negative, and the
      number of the last layer fits 64 bits.
    - (C4) the declared rows of all ranks together lie within the tensor; `first_row`
      and `source_rows` come together.
    - (C5) `@other` is a `llama.weight` of the same shape; the shape counts the
      shares of all ranks. Neither this weight nor `@other` has a count or rows,
      and `@other` has no `or`. The element types may differ; the tensor is then
      converted.
    - (C6) either no weight and no rope table of the module has a `slot`, or all
      have. Then the slots 0, 1, 2, ... are each used once: a weight uses one
      slot for each expert of each layer; a rope table uses two.
    - (C7) the module of a weight with `split` has `llama.shards`. A weight with
      `split cols` is a matrix, or has matrices of experts, without `rows`.
    - (C8) the type of `experts` has three dimensions; the weight is no adapter, and
      has no `or`.
    - (C9) `layers` ascend from the first layer of a count to the last.
    - (C10) what is `transposed` is a matrix, or the matrices of experts in one
      tensor; no adapter, and without `or`.
    - (C11) an `input` is a matrix of one row, of floats, in which only
      `llama.embed` looks; no adapter, without a count, rows, `or`, experts,
      `transposed` and `split`.

    The importer creates the op with its slot: the index of the weight's first
    pointer in the table through which compiled code reads weights. The
    artifact's manifest lists the weight.
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, OptionalAttr<I64Attr>:$count,
      TypeAttrOf<AnyRankedTensor>:$type, StrAttr:$source,
      OptionalAttr<I64Attr>:$first_row, OptionalAttr<I64Attr>:$source_rows,
      DefaultValuedAttr<I64Attr, "0">:$first, UnitAttr:$adapter,
      OptionalAttr<FlatSymbolRefAttr>:$tied, OptionalAttr<IndexAttr>:$slot,
      OptionalAttr<Llama_Split>:$split, OptionalAttr<StrAttr>:$sym_visibility,
      OptionalAttr<DenseI64ArrayAttr>:$layers, UnitAttr:$transposed,
      UnitAttr:$experts, UnitAttr:$input);
  let assemblyFormat = [{
    (custom<Visibility>($sym_visibility)^)? $sym_name (`[` $count^ `]`)?
    (`experts` $experts^)? `:` $type `from` $source (`or` $tied^)?
    (`rows` $first_row^ `of` $source_rows)? (`transposed` $transposed^)?
    (`split` $split^)? (`adapter` $adapter^)? (`input` $input^)? attr-dict
  }];
  let extraClassDeclaration = [{
    ::mlir::RankedTensorType getTensorType() {
      return ::llvm::cast<::mlir::RankedTensorType>(getType());
    }
    /// The experts of a layer; 1 for a weight without `experts`.
    int64_t getExpertCount();
    /// The most that fits 64 bits, if there are more slots.
    int64_t getSlotCount();
    /// The layers that have a tensor; 1 without a count.
    int64_t getLayerCount();
    /// Whether the layer of this index, counted from the first layer, has a
    /// tensor.
    bool hasLayer(int64_t index);
    /// The dimension of the type that has the rows of a matrix.
    unsigned getRowDimension() { return getExperts() ? 1 : 0; }
    /// The type of the shares of all ranks put together: (N n, K) for a weight
    /// (n, K) with `split rows`.
    ::mlir::RankedTensorType getWholeType();
  }];
  let hasVerifier = 1;
}

def Llama_RopeTableOp : Llama_Op<"rope_table", [Symbol]> {
  let summary = "cosines and sines of the rotary position embedding";
  let description = [{
    Two f32 tables of shape (positions, D/2) that the runtime fills when the
    model is loaded: `cos[p, i] = cos(p * inv_freq[i]) * scale`, and the sines
    likewise. The product p * inv_freq[i] is taken in f32, as in Hugging Face
    transformers.

    With `original`, the frequencies depend on the number n of tokens of a text.
    Up to `original` tokens they are `inv_freq`. For longer texts they are
    `long_inv_freq` (LongRoPE), or, with a `growth` g, the frequencies of the
    base `theta * (g * n / original - (g - 1))^(R / (R - 2))` (dynamic NTK),
    where R is twice the number of frequencies. The runtime fills these tables
    for each session, as generation with a cache in transformers does: the rows
    of a prompt with n = the prompt's length, each later row p with n = p + 1.
    With `recompute`, a text that grows beyond `original` is computed again as a
    prompt, as in transformers' Phi 3.

    ```mlir
    llama.rope_table @rope {positions = 512 : i64, inv_freq = array<f32: 1.0, 0.1>}
    llama.rope_table @long {positions = 512 : i64, inv_freq = array<f32: 1.0, 0.1>, original = 128 : i64, long_inv_freq = array<f32: 0.5, 0.01>, scale = 1.19 : f64, recompute}
    llama.rope_table @dynamic {positions = 512 : i64, inv_freq = array<f32: 1.0, 0.01>, original = 128 : i64, growth = 4.0 : f64, theta = 10000.0 : f64}
    ```

    Constraints:
    - (C1) `positions` is positive and `inv_freq` is not empty.
    - (C2) `original` is positive and requires either `long_inv_freq`, with as
      many frequencies as `inv_freq`, or `growth` and `theta`, both positive, and
      at least two frequencies.
    - (C3) `recompute` requires `original`.
    - (C4) `slot` obeys C6 of `llama.weight`, with one slot for each table.
    - (C5) frequencies and scale are finite in f32.
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, I64Attr:$positions,
      DenseF32ArrayAttr:$inv_freq, DefaultValuedAttr<F64Attr, "1.0">:$scale,
      OptionalAttr<I64Attr>:$original,
      OptionalAttr<DenseF32ArrayAttr>:$long_inv_freq,
      OptionalAttr<F64Attr>:$growth, OptionalAttr<F64Attr>:$theta,
      UnitAttr:$recompute, OptionalAttr<IndexAttr>:$slot,
      OptionalAttr<StrAttr>:$sym_visibility);
  let assemblyFormat = [{
    (custom<Visibility>($sym_visibility)^)? $sym_name attr-dict
  }];
  let extraClassDeclaration = [{
    /// The type of either table: tensor<positions x D/2 x f32>.
    ::mlir::RankedTensorType getTensorType();
    int64_t getSlotCount() { return 2; }
  }];
  let hasVerifier = 1;
}

def Llama_GetWeightOp : Llama_Op<"get_weight",
    [Pure, DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "a weight as a tensor";
  let description = [{
    Reads the tensor of a `llama.weight`, or the tensor of one layer. No data is
    copied.

    ```mlir
    %w = llama.get_weight @q_proj[%layer] : tensor<2048x2048xbf16>
    ```

    Constraints:
    - (C1) the symbol is a `llama.weight`.
    - (C2) the result has the weight's type.
    - (C3) a layer is given if and only if the weight has a count. Layer 0 is the
      weight's first layer.
  }];
  let arguments = (ins FlatSymbolRefAttr:$weight, Optional<Index>:$layer);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = [{
    $weight (`[` $layer^ `]`)? attr-dict `:` type($result)
  }];
}

def Llama_GetRopeOp : Llama_Op<"get_rope",
    [Pure, DeclareOpInterfaceMethods<SymbolUserOpInterface>,
     AllTypesMatch<["cos", "sin"]>]> {
  let summary = "the tables of a rope_table as tensors";
  let description = [{
    ```mlir
    %cos, %sin = llama.get_rope @rope : tensor<512x32xf32>
    ```

    Constraints:
    - (C1) the symbol is a `llama.rope_table`.
    - (C2) the results have the table's shape.
  }];
  let arguments = (ins FlatSymbolRefAttr:$table);
  let results = (outs Llama_RopeTable:$cos, Llama_RopeTable:$sin);
  let assemblyFormat = "$table attr-dict `:` type($cos)";
}

//===----------------------------------------------------------------------===//
// Token-wise ops
//===----------------------------------------------------------------------===//

def Llama_EmbedOp : Llama_Op<"embed",
    [Pure, InferTypeOpAdaptor]> {
  let summary = "token embedding lookup";
  let description = [{
    `result[t, :] = scale * table[ids[t], :]`, in f32. Ids must lie in [0, V);
    the runtime checks them.

    ```mlir
    %x = llama.embed %ids, %table : tensor<?xi32>, tensor<512x64xbf16>
    %y = llama.embed %ids, %table {scale = 8.0 : f64} : tensor<?xi32>, tensor<512x64xbf16>
    %z = llama.embed %ids, %blocks as bf16 : tensor<?xi32>, tensor<512x64x!llama.blocks<q8_0>>
    ```

    Constraints:
    - (C1) the scale is finite in f32.
    - (C2) `as`, the result's element type, is given if and only if the table is
      in blocks.
  }];
  let arguments = (ins Llama_Ids:$ids, Llama_WeightMatrix:$table,
      DefaultValuedAttr<F64Attr, "1.0">:$scale, OptionalAttr<TypeAttr>:$as);
  let results = (outs Llama_Matrix:$result);
  let assemblyFormat = [{
    $ids `,` $table (`as` $as^)? attr-dict `:` type($ids) `,` type($table)
  }];
  let hasVerifier = 1;
}

def Llama_RMSNormOp : Llama_Op<"rmsnorm",
    [Pure, AttrSizedOperandSegments, AllTypesMatch<["input", "result"]>]> {
  let summary = "root mean square normalization of each token";
  let description = [{
    `result[t, i] = cast(x[t, i] / sqrt(mean_j x[t, j]^2 + eps)) * weight[i]`,
    where everything inside the cast is in f32 and the cast is to x's type
    (LlamaRMSNorm of Hugging Face transformers). Without a weight there is no
    product. With `round_once` the product is inside the cast (Olmo2RMSNorm).
    With `unit_offset` the factor is `1 + weight[i]` (GemmaRMSNorm). In an x of
    three dimensions, each head of a token is normalized (Qwen3Attention). A
    weight of two dimensions has a row for each head (the groups of
    NemotronHRMSNormGated).

    With `squares`, x is one rank's share of a row of `size` numbers, and the
    mean is over the whole row: `squares[t, column] / size`.

    ```mlir
    %y = llama.rmsnorm %x, %weight {eps = 1.0e-05} : tensor<?x64xbf16>, tensor<64xbf16>
    %z = llama.rmsnorm %x, %weight {eps = 1.0e-06, round_once, unit_offset} : tensor<?x64xbf16>, tensor<64xbf16>
    %q = llama.rmsnorm %heads, %head_weight {eps = 1.0e-06} : tensor<?x8x8xbf16>, tensor<8xbf16>
    %g = llama.rmsnorm %heads, %head_weights {eps = 1.0e-06} : tensor<?x8x8xbf16>, tensor<8x8xbf16>
    %s = llama.rmsnorm %x, %weight squares(%sums : tensor<?x2xf32>) {eps = 1.0e-06, column = 1, size = 128} : tensor<?x64xbf16>, tensor<64xbf16>
    ```

    Constraints:
    - (C1) the weight's shape is that of x's last dimension, or of a token's heads.
    - (C2) `eps` is positive and finite in f32.
    - (C3) `unit_offset` and `round_once` require a weight.
    - (C4) `squares` and a positive `size` come together, for an x of two
      dimensions. `squares` has a row for each token, and a `column`.
  }];
  let arguments = (ins Llama_Rows:$input,
      Optional<TensorRankOf<[F32, F16, BF16], [1, 2]>>:$weight,
      Optional<TensorRankOf<[F32], [2]>>:$squares, F64Attr:$eps,
      UnitAttr:$round_once, UnitAttr:$unit_offset,
      DefaultValuedAttr<I64Attr, "0">:$column, OptionalAttr<I64Attr>:$size);
  let results = (outs Llama_Rows:$result);
  let assemblyFormat = [{
    $input (`,` $weight^)? (`squares` `(` $squares^ `:` type($squares) `)`)?
    attr-dict `:` type($input) (`,` type($weight)^)?
  }];
  let hasVerifier = 1;
}

def Llama_SquareSumsOp : Llama_Op<"square_sums",
    [Pure, InferTypeOpAdaptor]> {
  let summary = "sum of the squares of each token, for several tensors";
  let description = [{
    `result[t, n] = sum_i x_n[t, i]^2` in f32, for the tensors x_0, x_1, ... If
    ranks share the numbers of a token, `llama.all_reduce` adds the results of
    all ranks, and `llama.rmsnorm` takes them as `squares`.

    ```mlir
    %s = llama.square_sums %q, %k : tensor<?x64xbf16>, tensor<?x32xbf16>
    %sums = llama.all_reduce %s : tensor<?x2xf32>
    ```

    Constraints:
    - (C1) there is a tensor, and all have the same number of tokens.

    The pass `llama-shard-weights` creates it.
  }];
  let arguments = (ins Variadic<Llama_Matrix>:$inputs);
  let results = (outs TensorRankOf<[F32], [2]>:$result);
  let assemblyFormat = "$inputs attr-dict `:` type($inputs)";
  let hasVerifier = 1;
}

def Llama_LayerNormOp : Llama_Op<"layernorm",
    [Pure, AttrSizedOperandSegments, AllTypesMatch<["input", "result"]>]> {
  let summary = "mean and variance normalization of each token";
  let description = [{
    `result[t, i] = (x[t, i] - mean_t) / sqrt(var_t + eps) * gamma[i] + beta[i]`
    in f32 with the biased variance, rounded once (torch.nn.LayerNorm). Gamma
    and beta are optional; beta requires gamma. With `unit_offset` the factor is
    `1 + gamma[i]` (NemotronLayerNorm1P).

    ```mlir
    %y = llama.layernorm %x gamma(%g : tensor<64xf32>) beta(%b : tensor<64xf32>) {eps = 1.0e-05} : tensor<?x64xf32>
    %z = llama.layernorm %x gamma(%g : tensor<64xf32>) {eps = 1.0e-05, unit_offset} : tensor<?x64xf32>
    ```

    Constraints:
    - (C1) gamma's and beta's size is x's last dimension.
    - (C2) `eps` is positive and finite in f32.
    - (C3) beta and `unit_offset` require gamma.
  }];
  let arguments = (ins Llama_Matrix:$input, Optional<Llama_Vector>:$gamma,
      Optional<Llama_Vector>:$beta, F64Attr:$eps, UnitAttr:$unit_offset);
  let results = (outs Llama_Matrix:$result);
  let assemblyFormat = [{
    $input (`gamma` `(` $gamma^ `:` type($gamma) `)`)?
    (`beta` `(` $beta^ `:` type($beta) `)`)? attr-dict `:` type($input)
  }];
  let hasVerifier = 1;
}

def Llama_LinearOp : Llama_Op<"linear",
    [Pure, InferTypeOpAdaptor]> {
  let summary = "matrix product with a row-major (out, in) weight";
  let description = [{
    `result[t, n] = sum_k x[t, k] * weight[n, k] + bias[n]`, accumulated in f32
    and rounded to the type of x (torch.nn.Linear). With `as f32` the result stays
    in f32, as `llama.route` needs it.

    ```mlir
    %y = llama.linear %x, %w : tensor<?x64xbf16>, tensor<172x64xbf16>
    %z = llama.linear %x, %w bias(%b : tensor<172xbf16>) : tensor<?x64xbf16>, tensor<172x64xbf16>
    %r = llama.linear %x, %w as f32 : tensor<?x64xbf16>, tensor<172x64xbf16>
    ```

    Constraints:
    - (C1) the weight's second dimension is x's.
    - (C2) the bias has the weight's first dimension.
    - (C3) `as` is f32.
  }];
  let arguments = (ins Llama_Matrix:$input, Llama_WeightMatrix:$weight,
      Optional<Llama_Vector>:$bias, OptionalAttr<TypeAttr>:$as);
  let results = (outs Llama_Matrix:$result);
  let builders = [OpBuilder<(ins "::mlir::Value":$input,
      "::mlir::Value":$weight, "::mlir::Value":$bias), [{
    build($_builder, $_state, input, weight, bias, /*as=*/::mlir::TypeAttr());
  }]>];
  let assemblyFormat = [{
    $input `,` $weight (`bias` `(` $bias^ `:` type($bias) `)`)? (`as` $as^)?
    attr-dict `:` type($input) `,` type($weight)
  }];
  let hasVerifier = 1;
}

def Llama_HeadOp : Llama_Op<"head",
    [Pure, InferTypeOpAdaptor]> {
  let summary = "projection to the vocabulary, logits in f32";
  let description = [{
    `logits[t, v] = scale * sum_k x[t, k] * weight[v, k] + bias[v]` in f32. Logits
    are not rounded to the type of x, so they are closer to a model in f32 than
    Hugging Face's bf16 logits. With a soft cap c the result is
    `c * tanh(logits / c)`.

    ```mlir
    %logits = llama.head %x, %w : tensor<?x64xbf16>, tensor<512x64xbf16>
    %biased = llama.head %x, %w bias(%b : tensor<512xbf16>) : tensor<?x64xbf16>, tensor<512x64xbf16>
    %capped = llama.head %x, %w {scale = 0.125 : f64, softcap = 30.0 : f64} : tensor<?x64xbf16>, tensor<512x64xbf16>
    ```

    Constraints:
    - (C1) the weight's second dimension is x's.
    - (C2) the scale is finite and a soft cap positive and finite in f32.
    - (C3) the bias has the weight's first dimension.
  }];
  let arguments = (ins Llama_Matrix:$input, Llama_WeightMatrix:$weight,
      Optional<Llama_Vector>:$bias, DefaultValuedAttr<F64Attr, "1.0">:$scale,
      OptionalAttr<F64Attr>:$softcap);
  let results = (outs Llama_Matrix:$result);
  let assemblyFormat = [{
    $input `,` $weight (`bias` `(` $bias^ `:` type($bias) `)`)? attr-dict
    `:` type($input) `,` type($weight)
  }];
  let hasVerifier = 1;
}

def Llama_Activation : I32EnumAttr<"Activation", "the function of a gate",
    [I32EnumAttrCase<"Silu", 0, "silu">,
     I32EnumAttrCase<"GeluTanh", 1, "gelu_tanh">,
     I32EnumAttrCase<"Gelu", 2, "gelu">,
     I32EnumAttrCase<"Relu", 3, "relu">,
     I32EnumAttrCase<"Relu2", 4, "relu2">,
     I32EnumAttrCase<"Sigmoid", 5, "sigmoid">,
     I32EnumAttrCase<"QuickGelu", 6, "quick_gelu">,
     I32EnumAttrCase<"Identity", 7, "identity">,
     I32EnumAttrCase<"Softplus", 8, "softplus">]> {
  let cppNamespace = "::cria::llama";
}

def Llama_SwiGLUOp : Llama_Op<"swiglu",
    [Pure, AllTypesMatch<["up", "result"]>]> {
  let summary = "gated linear unit, with the SiLU gate unless another is named";
  let description = [{
    `result = f(gate) * up`, in f32, where f(x) is

    | activation | f(x) |
    |---|---|
    | `silu` | `x * sigmoid(x)` |
    | `gelu_tanh` | `x * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 x^3))) / 2` |
    | `gelu` | `x * (1 + erf(x / sqrt(2))) / 2` |
    | `relu` | `max(x, 0)` |
    | `relu2` | `max(x, 0)^2` |
    | `sigmoid` | `1 / (1 + e^-x)` |
    | `quick_gelu` | `x * sigmoid(1.702 x)` |
    | `identity` | `x` |
    | `softplus` | `log(1 + e^x)` |

    With a limit L the result is
    `min(gate, L) * sigmoid(alpha * min(gate, L)) * (clamp(up, -L, L) + 1)`
    (gpt-oss).

    Operands of three dimensions have a row for each expert that a token chose. A
    gate with one column gates all columns of `up`, as the gate of a shared expert
    does.

    ```mlir
    %h = llama.swiglu %gate, %up : tensor<?x172xbf16>
    %g = llama.swiglu %gate, %up activation gelu_tanh : tensor<?x172xbf16>
    %e = llama.swiglu %gates, %ups : tensor<?x2x96xbf16>
    %s = llama.swiglu %one, %up activation sigmoid : tensor<?x1xbf16>, tensor<?x172xbf16>
    %c = llama.swiglu %gate, %up {limit = 7.0 : f64, alpha = 1.702 : f64} : tensor<?x172xbf16>
    ```

    Constraints:
    - (C1) the gate has up's type, or one column and up's other dimensions.
    - (C2) a limit and alpha are positive and finite in f32. An alpha other than 1
      requires a limit, and a limit the activation `silu`.
  }];
  let arguments = (ins Llama_Rows:$gate, Llama_Rows:$up,
      DefaultValuedAttr<Llama_Activation,
                        "::cria::llama::Activation::Silu">:$activation,
      OptionalAttr<F64Attr>:$limit, DefaultValuedAttr<F64Attr, "1.0">:$alpha);
  let results = (outs Llama_Rows:$result);
  let assemblyFormat = [{
    $gate `,` $up (`activation` $activation^)? attr-dict
    `:` custom<GateTypes>(type($gate), type($up))
  }];
  let hasVerifier = 1;
}

def Llama_ActivateOp : Llama_Op<"activate",
    [Pure, AllTypesMatch<["input", "result"]>]> {
  let summary = "the function between the linears of an MLP without a gate";
  let description = [{
    `result = f(x)` in f32, with f(x) as in `llama.swiglu`. An x of three dimensions
    has a row for each expert that a token chose.

    ```mlir
    %h = llama.activate relu %x : tensor<?x172xf32>
    ```
  }];
  let arguments = (ins Llama_Activation:$activation, Llama_Rows:$input);
  let results = (outs Llama_Rows:$result);
  let assemblyFormat = "$activation $input attr-dict `:` type($input)";
}

def Llama_AddRowsOp : Llama_Op<"add_rows",
    [Pure, AllTypesMatch<["input", "result"]>]> {
  let summary = "addition of learned positions, or of one row to every token";
  let description = [{
    `result[t, i] = x[t, i] + table[p, i]` in f32. With one position,
    `p = position + t`; with positions, `p = positions[t]`. Without a position the
    row is `table[0, i]`. With `first` the table begins at that position: the row is
    `table[p - first, i]`, and nothing is added to the tokens before `first`.

    ```mlir
    %p = llama.add_rows %x, %learned at %position : tensor<?x64xf32>, tensor<512x64xf32>
    %f = llama.add_rows %x, %learned at %position {first = 4} : tensor<?x64xf32>, tensor<512x64xf32>
    %r = llama.add_rows %x, %learned at (%positions : tensor<?xi32>) : tensor<?x64xf32>, tensor<512x64xf32>
    %s = llama.add_rows %p, %segment : tensor<?x64xf32>, tensor<1x64xf32>
    ```

    Constraints:
    - (C1) the table's second dimension is x's.
    - (C2) without a position the table has one row.
    - (C3) there are as many positions as tokens.
    - (C4) tokens at constant positions are within the table.
    - (C5) `first` is not negative and fits 32 bits; another one than 0 requires
      one position.
  }];
  let arguments = (ins Llama_Matrix:$input, Llama_Matrix:$table,
      Optional<Llama_Position>:$position,
      DefaultValuedAttr<I64Attr, "0">:$first);
  let results = (outs Llama_Matrix:$result);
  let assemblyFormat = [{
    $input `,` $table (`at` custom<Position>($position, type($position))^)?
    attr-dict `:` type($input) `,` type($table)
  }];
  let hasVerifier = 1;
}

def Llama_SetRowsOp : Llama_Op<"set_rows",
    [Pure, AllTypesMatch<["input", "result"]>]> {
  let summary = "learned rows in place of the tokens at some positions";
  let description = [{
    With `p = position + t - first`, and R rows:
    `result[t, i] = rows[p, i]` where `0 <= p < R`, else `x[t, i]`. So a vision
    tower has a row for the class, and registers, in front of an image's patches.

    ```mlir
    %c = llama.set_rows %x, %class at %position : tensor<?x64xf32>, tensor<1x64xf32>
    %r = llama.set_rows %x, %registers at %position {first = 1} : tensor<?x64xf32>, tensor<4x64xf32>
    ```

    Constraints:
    - (C1) the rows' second dimension is x's.
    - (C2) `first` is not negative and fits 32 bits.
  }];
  let arguments = (ins Llama_Matrix:$input, Llama_Matrix:$rows,
      Index:$position, DefaultValuedAttr<I64Attr, "0">:$first);
  let results = (outs Llama_Matrix:$result);
  let assemblyFormat = [{
    $input `,` $rows `at` $position attr-dict `:` type($input) `,` type($rows)
  }];
  let hasVerifier = 1;
}

def Llama_ResidualOp : Llama_Op<"residual",
    [Pure, AttrSizedOperandSegments,
     AllTypesMatch<["stream", "update", "result"]>]> {
  let summary = "addition to the residual stream";
  let description = [{
    `result = stream + scale * update`, in f32. Bufferization updates the buffer
    of the first operand, the stream, in place. With a factor,
    `result[t, i] = stream[t, i] + scale * factor[i] * update[t, i]` (DINOv2's layer
    scale). With `times`, the sum is multiplied with one number: `times[0] * (stream
    + scale * update)`, rounded once (Gemma 4's layer scalar).

    ```mlir
    %x1 = llama.residual %x, %update : tensor<?x64xbf16>
    %x2 = llama.residual %x, %update {scale = 0.22 : f64} : tensor<?x64xbf16>
    %x3 = llama.residual %x, %update factor(%f : tensor<64xbf16>) : tensor<?x64xbf16>
    %x4 = llama.residual %x, %update times(%one : tensor<1xbf16>) : tensor<?x64xbf16>
    ```

    Constraints:
    - (C1) the scale is finite in f32.
    - (C2) the factor has a number for each column.
    - (C3) `times` has one number.
  }];
  let arguments = (ins Llama_Matrix:$stream, Llama_Matrix:$update,
      Optional<Llama_Vector>:$factor, Optional<Llama_Vector>:$times,
      DefaultValuedAttr<F64Attr, "1.0">:$scale);
  let results = (outs Llama_Matrix:$result);
  let builders = [OpBuilder<(ins "::mlir::Value":$stream,
      "::mlir::Value":$update, "double":$scale), [{
    build($_builder, $_state, stream, update, /*factor=*/::mlir::Value(),
          /*times=*/::mlir::Value(), ::llvm::APFloat(scale));
  }]>];
  let assemblyFormat = [{
    $stream `,` $update (`factor` `(` $factor^ `:` type($factor) `)`)?
    (`times` `(` $times^ `:` type($times) `)`)? attr-dict `:` type($stream)
  }];
  let hasVerifier = 1;
}

def Llama_AllReduceOp : Llama_Op<"all_reduce",
    [Pure, AllTypesMatch<["input", "result"]>]> {
  let summary = "sum of a tensor over all ranks";
  let description = [{
    `result[t, i] = sum_r x_r[t, i] + bias[i]`, in f32, over the ranks r of a
    module with `llama.shards`. Each rank gets the sum. The op follows a product
    whose columns the ranks share: each rank sums `x[t, k] * weight[n, k]` over
    its own columns k, and the op adds these sums. If the product is in the same
    kernel, it is not rounded before the ranks add. The bias, if any, is added
    once.

    ```mlir
    %y = llama.all_reduce %x : tensor<?x64xbf16>
    %z = llama.all_reduce %x bias(%b : tensor<64xbf16>) : tensor<?x64xbf16>
    ```

    Constraints:
    - (C1) the bias has x's second dimension.
    - (C2) the module has `llama.shards`.

    The pass `llama-shard-weights` creates it.
  }];
  let arguments = (ins Llama_Matrix:$input, Optional<Llama_Vector>:$bias);
  let results = (outs Llama_Matrix:$result);
  let assemblyFormat = [{
    $input (`bias` `(` $bias^ `:` type($bias) `)`)? attr-dict `:` type($input)
  }];
  let hasVerifier = 1;
}

//===----------------------------------------------------------------------===//
// Mixtures of experts
//===----------------------------------------------------------------------===//

def Llama_Score : I32EnumAttr<"Score", "the score of an expert's logit",
    [I32EnumAttrCase<"Softmax", 0, "softmax">,
     I32EnumAttrCase<"Sigmoid", 1, "sigmoid">,
     I32EnumAttrCase<"Logits", 2, "logits">]> {
  let cppNamespace = "::cria::llama";
}

def Llama_Normalization : I32EnumAttr<"Normalization",
    "how the scores of the chosen experts become their weights",
    [I32EnumAttrCase<"None", 0, "none">,
     I32EnumAttrCase<"Sum", 1, "sum">,
     I32EnumAttrCase<"SumAtLeast", 2, "sum_at_least">,
     I32EnumAttrCase<"Softmax", 3, "softmax">,
     I32EnumAttrCase<"Sigmoid", 4, "sigmoid">]> {
  let cppNamespace = "::cria::llama";
}

def Llama_RouteOp : Llama_Op<"route",
    [Pure, AttrSizedOperandSegments, InferTypeOpAdaptor]> {
  let summary = "the experts that each token chooses, and their weights";
  let description = [{
    Token t has a score `s[e]` for each of the E experts e: the softmax of its
    logits over all experts, the sigmoid of each logit, or the logits themselves.
    Logits are first multiplied with `logit_scale`.
    The token chooses the k experts with the largest `c[e] = s[e] + correction[e]`,
    the largest first. Of equal numbers the lower expert comes first. NaN counts as
    larger than any number, as in `torch.topk`. So the chosen experts are k
    different numbers in [0, E), whatever the logits are.

    With `groups` G, expert e is of group `e / (E / G)`. A group's score is the sum
    of its `group_best` largest c. The token only chooses among the `kept_groups`
    groups with the largest scores: in the others, c is -infinity.

    With `w[j] = s[experts[j]]`, without the correction, the weights are
    `scale * n(w)[j]`, where n is

    | normalize | n(w)[j] |
    |---|---|
    | `none` | `w[j]` |
    | `sum` | `w[j] / (sum_i w[i] + floor)` |
    | `sum_at_least` | `w[j] / max(sum_i w[i], floor)` |
    | `softmax` | `e^w[j] / sum_i e^w[i]` |
    | `sigmoid` | `1 / (1 + e^-w[j])` |

    With `factors`, weight j is also multiplied with `factors[experts[j]]`
    (Gemma 4). All is in f32.

    ```mlir
    %experts, %weights = llama.route %logits top 2 normalize sum : tensor<?x8xf32>
    %e, %w = llama.route %logits top 2 score sigmoid correction(%c : tensor<8xf32>) normalize sum {floor = 1.0e-20 : f64, scale = 2.5 : f64, groups = 4, kept_groups = 2} : tensor<?x8xf32>
    %f, %v = llama.route %logits top 2 normalize sum factors(%c : tensor<8xf32>) {logit_scale = 0.125 : f64} : tensor<?x8xf32>
    ```

    Constraints:
    - (C1) k is at least 1 and at most E.
    - (C2) `groups` divides E; `groups` and `kept_groups` come together. 1 <=
      `kept_groups` <= `groups`, k <= `kept_groups` * E / `groups`, and 1 <=
      `group_best` <= E / `groups`.
    - (C3) `scale`, `logit_scale` and `floor` are finite in f32, and `floor` is
      not negative.
    - (C4) the correction has E numbers, and so have the factors.
  }];
  let arguments = (ins Llama_Shares:$logits,
      Optional<Llama_Vector>:$correction, Optional<Llama_Vector>:$factors,
      I64Attr:$k,
      DefaultValuedAttr<Llama_Score, "::cria::llama::Score::Softmax">:$score,
      DefaultValuedAttr<Llama_Normalization,
                        "::cria::llama::Normalization::None">:$normalize,
      DefaultValuedAttr<F64Attr, "0.0">:$floor,
      DefaultValuedAttr<F64Attr, "1.0">:$scale,
      DefaultValuedAttr<F64Attr, "1.0">:$logit_scale,
      OptionalAttr<I64Attr>:$groups, OptionalAttr<I64Attr>:$kept_groups,
      DefaultValuedAttr<I64Attr, "2">:$group_best);
  let results = (outs Llama_Chosen:$experts, Llama_Shares:$weights);
  let assemblyFormat = [{
    $logits `top` $k (`score` $score^)?
    (`correction` `(` $correction^ `:` type($correction) `)`)?
    (`normalize` $normalize^)?
    (`factors` `(` $factors^ `:` type($factors) `)`)? attr-dict
    `:` type($logits)
  }];
  let hasVerifier = 1;
}

def Llama_ExpertLinearOp : Llama_Op<"expert_linear",
    [Pure, InferTypeOpAdaptor]> {
  let summary = "products with the matrices of the experts that a token chose";
  let description = [{
    `result[t, s, n] = sum_k x[t, k] * weight[e, n, k] + bias[e, n]` with
    `e = experts[t, s]`, accumulated in f32 and rounded to the type of x. An x of
    three dimensions has a row `x[t, s, :]` for each chosen expert. Experts that no
    token chose are not read. In a program, `experts` must be what `llama.route`
    chose among as many experts as the weight has, or rows of that.

    ```mlir
    %u = llama.expert_linear %x, %up[%experts] : tensor<?x64xbf16>, tensor<8x96x64xbf16>, tensor<?x2xi32>
    %d = llama.expert_linear %u, %down[%experts] : tensor<?x2x96xbf16>, tensor<8x64x96xbf16>, tensor<?x2xi32>
    %b = llama.expert_linear %x, %up[%experts] bias(%bias : tensor<8x96xbf16>) : tensor<?x64xbf16>, tensor<8x96x64xbf16>, tensor<?x2xi32>
    ```

    Constraints:
    - (C1) the weight's last dimension is x's.
    - (C2) an x of three dimensions has a row for each chosen expert.
    - (C3) the bias has the weight's first two dimensions.
    - (C4) x has as many tokens as `experts`.
  }];
  let arguments = (ins Llama_Rows:$input, Llama_Experts:$weight,
      Llama_Chosen:$experts, Optional<Llama_Matrix>:$bias);
  let results = (outs Llama_Tensor<3>:$result);
  let assemblyFormat = [{
    $input `,` $weight `[` $experts `]`
    (`bias` `(` $bias^ `:` type($bias) `)`)? attr-dict
    `:` type($input) `,` type($weight) `,` type($experts)
  }];
  let hasVerifier = 1;
}

def Llama_CombineOp : Llama_Op<"combine", [Pure, InferTypeOpAdaptor]> {
  let summary = "weighted sum of what a token's experts computed";
  let description = [{
    `result[t, n] = sum_s weights[t, s] * x[t, s, n]` in f32, added in the order of
    s, and rounded once.

    ```mlir
    %y = llama.combine %weights, %d : tensor<?x2xf32>, tensor<?x2x64xbf16>
    ```

    Constraints:
    - (C1) there are as many tokens and chosen experts in both operands.
  }];
  let arguments = (ins Llama_Shares:$weights, Llama_Tensor<3>:$input);
  let results = (outs Llama_Matrix:$result);
  let assemblyFormat = [{
    $weights `,` $input attr-dict `:` type($weights) `,` type($input)
  }];
  let hasVerifier = 1;
}

//===----------------------------------------------------------------------===//
// Attention
//===----------------------------------------------------------------------===//

def Llama_HeadLinearOp : Llama_Op<"head_linear", [Pure, InferTypeOpAdaptor]> {
  let summary = "matrix product of each head with a matrix of its own";
  let description = [{
    `result[t, h, n] = sum_k x[t, h, k] * weight[h, n, k]`, accumulated in f32 and
    rounded to the type of x. With `transposed` the weight has `weight[h, k, n]`.
    The weight may be a slice and a reshape of a `llama.weight`, which is read in
    place: the two products of latent attention (DeepSeek) read one matrix of
    the checkpoint, one of them transposed.

    ```mlir
    %v = llama.head_linear %x, %w : tensor<?x4x16xbf16>, tensor<4x24x16xbf16>
    %u = llama.head_linear %x, %w transposed : tensor<?x4x24xbf16>, tensor<4x24x16xbf16>
    ```

    Constraints:
    - (C1) x has as many heads as the weight has matrices.
    - (C2) the weight's last dimension is x's; with `transposed`, its second.
  }];
  let arguments = (ins Llama_Heads:$input, Llama_Heads:$weight,
      UnitAttr:$transposed);
  let results = (outs Llama_Heads:$result);
  let assemblyFormat = [{
    $input `,` $weight (`transposed` $transposed^)? attr-dict
    `:` type($input) `,` type($weight)
  }];
  let hasVerifier = 1;
}

def Llama_RopeOp : Llama_Op<"rope",
    [Pure, AllTypesMatch<["input", "result"]>, AllTypesMatch<["cos", "sin"]>]> {
  let summary = "rotary position embedding of pairs of a head's elements";
  let description = [{
    With `p = position + t`, or `p = positions[t]` if each token has a position,
    and for i below the tables' second dimension R:

    `result[t, h, i]     = x[t, h, i] * cos[p, i] - x[t, h, i + R] * sin[p, i]`
    `result[t, h, i + R] = x[t, h, i + R] * cos[p, i] + x[t, h, i] * sin[p, i]`

    in f32 from f32 tables. The elements of a head from 2R on are not rotated.
    With `interleaved`, pairs are neighbours: elements 2i and 2i + 1 take the
    places of i and i + R (GLM, Cohere).

    ```mlir
    %r = llama.rope %q, %cos, %sin at %position : tensor<?x8x8xbf16>, tensor<512x4xf32>
    %s = llama.rope %q, %cos, %sin at (%positions : tensor<?xi32>) : tensor<?x8x8xbf16>, tensor<512x4xf32>
    %i = llama.rope %q, %cos, %sin at %position {interleaved} : tensor<?x8x8xbf16>, tensor<512x4xf32>
    ```

    Constraints:
    - (C1) the tables' second dimension is at least 1 and at most half the head
      size.
    - (C2) there are as many positions as tokens.
    - (C3) tokens at constant positions are within the tables.
  }];
  let arguments = (ins Llama_Heads:$input, Llama_RopeTable:$cos,
      Llama_RopeTable:$sin, Llama_Position:$position, UnitAttr:$interleaved);
  let results = (outs Llama_Heads:$result);
  let assemblyFormat = [{
    $input `,` $cos `,` $sin `at` custom<Position>($position, type($position))
    attr-dict `:` type($input) `,` type($cos)
  }];
  let hasVerifier = 1;
}

def Llama_KVAppendOp : Llama_Op<"kv_append",
    [Pure, AllTypesMatch<["cache", "result"]>]> {
  let summary = "writes a chunk's keys or values into the cache";
  let description = [{
    `result[layer, h, position + t, :] = rows[t, h, :]`; the rest of the cache
    is unchanged. The cache is a tensor; the pass `verify-cache-in-place` checks
    that bufferization updates it in place. A cache in blocks stores each 32
    numbers of a row as a scale d = max |x| / 127 in f16 and integers x / d,
    rounded to nearest even.

    With `pages` the cache is paged: position p of a text is place `p mod P` of
    page `pages[p / P]`, where a page has P places: with `p = position + t`

    `result[pages[p / P], layer, h, p mod P, :] = rows[t, h, :]`

    Tokens of several texts have a position each and pages of two dimensions:
    row t has the pages of token t's text. No two tokens have the same place.

    With `ring` the cache has the last R positions of a text, where R is its
    number of places: position p is place `p mod R`. A call writes at most R rows.

    ```mlir
    %k1 = llama.kv_append %rows into %k[%layer] at %position : tensor<?x4x8xbf16> into tensor<5x4x512x8xbf16>
    %q1 = llama.kv_append %wide into %q[%layer] at %position : tensor<?x4x64xbf16> into tensor<5x4x512x64x!llama.blocks<q8_0>>
    %p1 = llama.kv_append %rows into %paged[%layer] at %position pages(%pages : tensor<32xi32>) : tensor<?x4x8xbf16> into tensor<?x5x4x16x8xbf16>
    %t1 = llama.kv_append %rows into %paged[%layer] at (%positions : tensor<?xi32>) pages(%tables : tensor<?x32xi32>) : tensor<?x4x8xbf16> into tensor<?x5x4x16x8xbf16>
    %r1 = llama.kv_append %rows into %k[%layer] at %position {ring} : tensor<?x4x8xbf16> into tensor<5x4x512x8xbf16>
    ```

    Constraints:
    - (C1) rows and cache have the same number of heads and the same head size.
    - (C2) rows and cache have the same element type, unless the cache has blocks.
    - (C3) heads of a cache in blocks are whole blocks.
    - (C4) the op has `pages` if and only if the cache is paged.
    - (C5) pages of two dimensions require a position for each token and have a
      row for each token.
    - (C6) a constant layer, and tokens at constant positions, are within the
      cache. Positions of a ring may be beyond its places.
    - (C7) a ring has no pages, and a place for each token.
  }];
  let arguments = (ins Llama_Heads:$rows, Llama_Cache:$cache, Index:$layer,
      Llama_Position:$position, Optional<Llama_Pages>:$pages,
      UnitAttr:$ring);
  let results = (outs Llama_Cache:$result);
  let assemblyFormat = [{
    $rows `into` $cache `[` $layer `]`
    `at` custom<Position>($position, type($position))
    (`pages` `(` $pages^ `:` type($pages) `)`)? attr-dict
    `:` type($rows) `into` type($cache)
  }];
  let hasVerifier = 1;
}

def Llama_GQAOp : Llama_Op<"gqa",
    [Pure, AttrSizedOperandSegments, InferTypeOpAdaptor,
     AllTypesMatch<["key_cache", "value_cache"]>]> {
  let summary = "grouped-query attention over the cache";
  let description = [{
    Query head h reads KV head `h / (H / KVH)`: multi-head where H = KVH,
    multi-query where KVH = 1. With `p = position + t`, over the keys s that
    token t may see,

    `result[t, h, :] = sum_s softmax_s(scale * q[t, h, :] . k[layer, kv, s, :]) * v[layer, kv, s, :]`

    in f32. Token t sees the keys `s < position + T`, where T is the number of
    tokens. With `causal`, s must also be `<= p`; with a window w, s must also
    be `> p - w`. With `ahead` n, causal attention sees n keys more: s must be
    `<= p + n`. So the tokens of a call that are an image see one another, where
    n is T - 1, and other calls are causal, where n is 0. With `over` n, token t
    sees the keys `s < n` instead: it attends to the n tokens of another text.
    With a soft cap c,
    `c * tanh(score / c)` replaces each score. With sinks, the softmax of head h
    has one score more, `sinks[h]`, whose value is zero. Keys and values in blocks
    are read as d * q in f32; queries are not rounded. With `pages` the caches are
    paged, as in `llama.kv_append`. If each token has its own position p and its
    own pages, the token sees the keys `s <= p` of these pages.

    With `ring` the caches are rings, as in `llama.kv_append`: key s is at place
    `s mod R`. The window and the tokens of a call must fit: `w - 1 + T <= R`.

    With `values` V, values are the first V numbers of the value cache's rows, and
    so the result has heads of V numbers. Both caches may be one: in latent
    attention (DeepSeek) a value is the first numbers of its key.

    ```mlir
    %o = llama.gqa %q, %k, %v[%layer] at %position {scale = 0.125, causal} : tensor<?x8x8xbf16>, tensor<5x4x512x8xbf16>
    %x = llama.gqa %q, %k, %v[%layer] at %position over %source {scale = 0.125} : tensor<?x8x8xbf16>, tensor<5x4x512x8xbf16>
    %i = llama.gqa %q, %k, %v[%layer] at %position ahead %more {scale = 0.125, causal} : tensor<?x8x8xbf16>, tensor<5x4x512x8xbf16>
    %s = llama.gqa %q, %k, %v[%layer] at %position sinks(%sinks : tensor<8xbf16>) {scale = 0.125, causal} : tensor<?x8x8xbf16>, tensor<5x4x512x8xbf16>
    %l = llama.gqa %q, %k, %k[%layer] at %position values 6 {scale = 0.125, causal} : tensor<?x8x8xbf16>, tensor<5x4x512x8xbf16>
    %p = llama.gqa %q, %pk, %pv[%layer] at %position pages(%pages : tensor<32xi32>) {scale = 0.125, causal} : tensor<?x8x8xbf16>, tensor<?x5x4x16x8xbf16>
    %t = llama.gqa %q, %pk, %pv[%layer] at (%positions : tensor<?xi32>) pages(%tables : tensor<?x32xi32>) {scale = 0.125, causal} : tensor<?x8x8xbf16>, tensor<?x5x4x16x8xbf16>
    %r = llama.gqa %q, %k, %v[%layer] at %position {scale = 0.125, causal, window = 64 : i64, ring} : tensor<?x8x8xbf16>, tensor<5x4x512x8xbf16>
    ```

    Constraints:
    - (C1) the query heads are a multiple of the KV heads.
    - (C2) query and caches have the same head size.
    - (C3) the scale is finite in f32, and a window is positive.
    - (C4) a soft cap is positive and finite in f32.
    - (C5) `over` excludes `causal` and a window.
    - (C6) heads of caches in blocks are whole blocks.
    - (C7) the op has `pages` if and only if the caches are paged, and then has
      no `over`.
    - (C8) pages of two dimensions require a position for each token and
      `causal`, and have a row for each token.
    - (C9) a constant layer is within the caches.
    - (C10) there is a sink for each query head.
    - (C11) `values` is at least 1 and at most the head size; values in blocks are
      whole blocks.
    - (C12) a ring has a window and no pages, and places for the window of each
      token of a call.
    - (C13) `ahead` requires `causal`, and excludes a position for each token.

    Canonical form: a window that covers the whole cache is dropped, unless the
    cache is a ring. A `values` of the head size is dropped, and so are `causal` and
    `ahead` of a single query token at one position, which sees the same keys without
    them.
  }];
  let arguments = (ins Llama_Heads:$query, Llama_Cache:$key_cache,
      Llama_Cache:$value_cache, Index:$layer, Llama_Position:$position,
      Optional<Llama_Pages>:$pages, Optional<Index>:$over,
      Optional<Index>:$ahead, Optional<Llama_Vector>:$sinks, F64Attr:$scale,
      UnitAttr:$causal, OptionalAttr<I64Attr>:$window,
      OptionalAttr<F64Attr>:$softcap, OptionalAttr<I64Attr>:$value_size,
      UnitAttr:$ring);
  let results = (outs Llama_Heads:$result);
  let hasCanonicalizer = 1;
  let extraClassDeclaration = [{
    /// How many positions of a text the cache has room for. If it is paged, a
    /// text has as many pages as `pages` has numbers.
    int64_t getRoom();
    /// Whether keys and values are rows of one cache.
    bool hasOneCache() { return getKeyCache() == getValueCache(); }
  }];
  let assemblyFormat = [{
    $query `,` $key_cache `,` $value_cache `[` $layer `]`
    `at` custom<Position>($position, type($position))
    (`pages` `(` $pages^ `:` type($pages) `)`)? (`over` $over^)?
    (`ahead` $ahead^)? (`sinks` `(` $sinks^ `:` type($sinks) `)`)? (`values` $value_size^)?
    attr-dict `:` type($query) `,` type($key_cache)
  }];
  let hasVerifier = 1;
}

//===----------------------------------------------------------------------===//
// States
//===----------------------------------------------------------------------===//

def Llama_StateOpInterface : OpInterface<"StateOpInterface"> {
  let description = "An op that reads a layer of a state and overwrites it.";
  let cppNamespace = "::cria::llama";
  let methods = [
    InterfaceMethod<"The state.",
        "::mlir::TypedValue<::mlir::RankedTensorType>", "getState">,
    InterfaceMethod<"The operand of the state.",
        "::mlir::OpOperand &", "getStateMutable">,
    InterfaceMethod<"The state after the call's tokens.",
        "::mlir::TypedValue<::mlir::RankedTensorType>", "getNext">,
    InterfaceMethod<"The layer.",
        "::mlir::TypedValue<::mlir::IndexType>", "getLayer">,
    InterfaceMethod<"The position of the first token, or of each.",
        "::mlir::Value", "getPosition">,
    InterfaceMethod<"The numbers of the states; null if there is one state.",
        "::mlir::TypedValue<::mlir::RankedTensorType>", "getStates">,
    InterfaceMethod<"The operand of the numbers.",
        "::mlir::MutableOperandRange", "getStatesMutable">,
  ];
}

/// An op of a state.
class Llama_StateOp<string mnemonic, list<Trait> traits>
    : Llama_Op<mnemonic, [Pure, Llama_StateOpInterface,
                          AllTypesMatch<["state", "next"]>] # traits>;

def Llama_CausalConvOp : Llama_StateOp<"causal_conv",
    [AttrSizedOperandSegments, AllTypesMatch<["input", "result"]>]> {
  let summary = "convolution of each column over a token and those before it";
  let description = [{
    Each column i has a filter of K numbers, the last for the token itself. With
    `p = position + t`, and the tokens of a text counted from position 0,

    `result[t, i] = sum_j weight[i, j] * x[p - (K - 1) + j, i] + bias[i]`

    in f32. Tokens before position 0 count as zeros. The state has the rows of the
    K - 1 tokens before the call's: that of position p is row `p mod (K - 1)` of
    the layer. In `next` the layer has the rows of the call's tokens; other layers
    are as they were. What the state holds at position 0 has no effect.

    With `states` there are states of many texts: the op reads state `states[0]`, and
    `next` has the rows in state `states[1]`, with those of `states[0]` that no token
    of the call replaces. If each token has a position and a row of `states`, the op
    does so token after token: a token reads what the token before it wrote if its
    first number is that token's second one. No token may write a state that a
    token of another text reads or writes: GPUs compute the texts at the same time.

    ```mlir
    %y, %s1 = llama.causal_conv %x, %w, %s[%layer] at %position : tensor<?x64xbf16>, tensor<64x3xbf16>, tensor<5x2x64xbf16>
    %z, %s2 = llama.causal_conv %x, %w, %s[%layer] at %position bias(%b : tensor<64xbf16>) : tensor<?x64xbf16>, tensor<64x3xbf16>, tensor<5x2x64xbf16>
    %u, %p1 = llama.causal_conv %x, %w, %p[%layer] at (%positions : tensor<?xi32>) states(%states : tensor<?x2xi32>) : tensor<?x64xbf16>, tensor<64x3xbf16>, tensor<?x5x2x64xbf16>
    ```

    Constraints:
    - (C1) x, the weight, the state and the bias have the same number of columns.
    - (C2) the state has a row less than a filter has numbers, and at least one.
    - (C3) x and the state have the same element type.
    - (C4) a constant layer is within the state.
    - (C5) the op has `states`, two numbers, if and only if there are states of many
      texts.
    - (C6) each token has a row of `states` if and only if each has a position.
  }];
  let arguments = (ins Llama_Matrix:$input, Llama_Matrix:$weight,
      Llama_State<[F32, F16, BF16]>:$state, Index:$layer,
      Llama_Position:$position, Optional<Llama_States>:$states,
      Optional<Llama_Vector>:$bias);
  let results = (outs Llama_Matrix:$result,
      Llama_State<[F32, F16, BF16]>:$next);
  let assemblyFormat = [{
    $input `,` $weight `,` $state `[` $layer `]`
    `at` custom<Position>($position, type($position))
    (`states` `(` $states^ `:` type($states) `)`)?
    (`bias` `(` $bias^ `:` type($bias) `)`)? attr-dict
    `:` type($input) `,` type($weight) `,` type($state)
  }];
  let hasVerifier = 1;
}

def Llama_DeltaRuleOp : Llama_StateOp<"delta_rule",
    [AllTypesMatch<["query", "key"]>, AllTypesMatch<["value", "result"]>,
     AllTypesMatch<["step", "rate"]>]> {
  let summary = "linear attention with a state that each token corrects";
  let description = [{
    The gated delta rule (Gated DeltaNet). Head h has a state S, a matrix (D, V)
    that maps keys of D numbers to values of V. Query and key are those of head
    `h / (H / KH)`, divided by their lengths: `x / sqrt(sum_i x[i]^2 + eps)`. Token
    after token, in f32, with `decay = e^(-e^log_decay[h] * step[t, h])`,

    `S = decay * S`
    `S = S + k[t] (rate[t, h] * (v[t, h] - S^T k[t]))^T`
    `result[t, h, :] = scale * S^T q[t]`

    At position 0 S is zero, whatever the state holds. Row `h D + d` of a layer of the
    state is row d of S. `next` is the state with the layer's matrices after the
    last token. `states` are those of `llama.causal_conv`.

    ```mlir
    %o, %s1 = llama.delta_rule %q, %k, %v step(%dt, %beta) decay(%a : tensor<4xf32>) on %s[%layer] at %position {scale = 0.125 : f64, eps = 1.0e-06 : f64} : tensor<?x2x8xbf16>, tensor<?x4x16xbf16>, tensor<?x4xf32>, tensor<5x32x16xf32>
    %u, %p1 = llama.delta_rule %q, %k, %v step(%dt, %beta) decay(%a : tensor<4xf32>) on %p[%layer] at (%positions : tensor<?xi32>) states(%states : tensor<?x2xi32>) {scale = 0.125 : f64, eps = 1.0e-06 : f64} : tensor<?x2x8xbf16>, tensor<?x4x16xbf16>, tensor<?x4xf32>, tensor<?x5x32x16xf32>
    ```

    Constraints:
    - (C1) the heads are a multiple of the heads of queries and keys.
    - (C2) step, rate and log_decay have a number for each head.
    - (C3) a layer of the state has D rows of V numbers for each head.
    - (C4) scale is finite, and eps positive and finite in f32.
    - (C5) a constant layer is within the state.
    - (C6) `states` fit the state and the position as in `llama.causal_conv`.
  }];
  let arguments = (ins Llama_Heads:$query, Llama_Heads:$key, Llama_Heads:$value,
      Llama_Shares:$step, Llama_Shares:$rate, Llama_Vector:$log_decay,
      Llama_State<[F32]>:$state, Index:$layer, Llama_Position:$position,
      Optional<Llama_States>:$states, F64Attr:$scale, F64Attr:$eps);
  let results = (outs Llama_Heads:$result, Llama_State<[F32]>:$next);
  let assemblyFormat = [{
    $query `,` $key `,` $value `step` `(` $step `,` $rate `)`
    `decay` `(` $log_decay `:` type($log_decay) `)`
    `on` $state `[` $layer `]`
    `at` custom<Position>($position, type($position))
    (`states` `(` $states^ `:` type($states) `)`)? attr-dict
    `:` type($query) `,` type($value) `,` type($step) `,` type($state)
  }];
  let hasVerifier = 1;
}

def Llama_SelectiveScanOp : Llama_StateOp<"selective_scan",
    [AllTypesMatch<["query", "key"]>, AllTypesMatch<["value", "result"]>]> {
  let summary = "state space model whose steps each token selects";
  let description = [{
    The scan of Mamba 2. Head h has a state S, a matrix (D, V) that maps keys of
    D numbers to values of V. Query and key (C and B of Mamba) are those of head
    `h / (H / KH)`, which Mamba calls a group. Token after token, in f32, with
    `decay = e^(-e^log_decay[h] * step[t, h])`,

    `S = decay * S + k[t] (step[t, h] * v[t, h])^T`
    `result[t, h, :] = S^T q[t] + skip[h] * v[t, h]`

    At position 0 S is zero, whatever the state holds. Row `h D + d` of a layer of the
    state is row d of S. `next` is the state with the layer's matrices after the
    last token. `states` are those of `llama.causal_conv`.

    ```mlir
    %o, %s1 = llama.selective_scan %c, %b, %x step(%dt) decay(%a : tensor<4xf32>) skip(%d : tensor<4xf32>) on %s[%layer] at %position : tensor<?x2x8xbf16>, tensor<?x4x16xbf16>, tensor<?x4xf32>, tensor<5x32x16xf32>
    %u, %p1 = llama.selective_scan %c, %b, %x step(%dt) decay(%a : tensor<4xf32>) skip(%d : tensor<4xf32>) on %p[%layer] at (%positions : tensor<?xi32>) states(%states : tensor<?x2xi32>) : tensor<?x2x8xbf16>, tensor<?x4x16xbf16>, tensor<?x4xf32>, tensor<?x5x32x16xf32>
    ```

    Constraints:
    - (C1) the heads are a multiple of the heads of queries and keys.
    - (C2) step, log_decay and skip have a number for each head.
    - (C3) a layer of the state has D rows of V numbers for each head.
    - (C4) a constant layer is within the state.
    - (C5) `states` fit the state and the position as in `llama.causal_conv`.
  }];
  let arguments = (ins Llama_Heads:$query, Llama_Heads:$key, Llama_Heads:$value,
      Llama_Shares:$step, Llama_Vector:$log_decay, Llama_Vector:$skip,
      Llama_State<[F32]>:$state, Index:$layer, Llama_Position:$position,
      Optional<Llama_States>:$states);
  let results = (outs Llama_Heads:$result, Llama_State<[F32]>:$next);
  let assemblyFormat = [{
    $query `,` $key `,` $value `step` `(` $step `)`
    `decay` `(` $log_decay `:` type($log_decay) `)`
    `skip` `(` $skip `:` type($skip) `)`
    `on` $state `[` $layer `]`
    `at` custom<Position>($position, type($position))
    (`states` `(` $states^ `:` type($states) `)`)? attr-dict
    `:` type($query) `,` type($value) `,` type($step) `,` type($state)
  }];
  let hasVerifier = 1;
}

//===----------------------------------------------------------------------===//
// Fusion
//===----------------------------------------------------------------------===//

def Llama_KernelOp : Llama_Op<"kernel",
    [RecursiveMemoryEffects, RecursivelySpeculatable, SingleBlock,
     NoRegionArguments]> {
  let summary = "the ops of one fused kernel";
  let description = [{
    Holds the ops that run as one kernel. The ops may use values from outside
    directly; values that are used outside are yielded. The kernel's function is
    called by this name, followed by the entry's name.

    ```mlir
    %h = llama.kernel "layers_mlp_gate_up" -> tensor<?x172xbf16> {
      %n = llama.rmsnorm %x, %w {eps = 1.0e-05} : tensor<?x64xbf16>, tensor<64xbf16>
      %g = llama.linear %n, %wg : tensor<?x64xbf16>, tensor<172x64xbf16>
      %u = llama.linear %n, %wu : tensor<?x64xbf16>, tensor<172x64xbf16>
      %s = llama.swiglu %g, %u : tensor<?x172xbf16>
      llama.yield %s : tensor<?x172xbf16>
    }
    ```

    Constraints:
    - (C1) the yielded types are the results'.
    - (C2) the name is a C identifier.
    - (C3) kernels are in functions and do not nest.

    Canonical form: every result is used, made inside and yielded once; a kernel
    without results is removed.

    The fusion passes create it; the lowering to linalg removes it.
  }];
  let arguments = (ins StrAttr:$kernel_name);
  let results = (outs Variadic<AnyRankedTensor>:$results);
  let regions = (region SizedRegion<1>:$body);
  let hasCanonicalizer = 1;
  let assemblyFormat = [{
    $kernel_name (`->` type($results)^)? attr-dict-with-keyword $body
  }];
  let hasRegionVerifier = 1;
  let hasVerifier = 1;
}

def Llama_YieldOp : Llama_Op<"yield",
    [Pure, Terminator, ReturnLike, HasParent<"KernelOp">]> {
  let summary = "the results of a kernel";
  let description = "Ends the body of a `llama.kernel`.";
  let arguments = (ins Variadic<AnyType>:$values);
  let assemblyFormat = "attr-dict ($values^ `:` type($values))?";
}

#endif
