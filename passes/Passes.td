#ifndef CRIA_PASSES_PASSES_TD
#define CRIA_PASSES_PASSES_TD

include "mlir/Pass/PassBase.td"

def VerifyHelpers : Pass<"llama-verify-helpers", "::mlir::ModuleOp"> {
  let summary = "check that calls of helper functions can be inlined";
  let description = [{
    A program may have private functions that `@forward`, `@encode` and each
    other call, so that a block of a model is written once. This pass,
    symbol-dce, the inliner and symbol-dce again come before all passes that take
    a program, and leave a program without calls:

    ```mlir
    func.func private @mlp(%x: tensor<?x64xbf16>, %layer: index) -> tensor<?x64xbf16> {
      %w = llama.get_weight @fc1[%layer] ...
      ...
    }
    func.func @forward(...) {
      ...
      %x1 = func.call @mlp(%x0, %l) : (tensor<?x64xbf16>, index) -> tensor<?x64xbf16>
    ```

    The module stays as it is. Fails if a function that is called is public, has
    no body or several blocks, may not be inlined, or calls itself; if calls are
    in each other more than 32 deep; if a function has more than 2^20 ops when
    calls are inlined; or if another module in the program has ops. Private
    functions that nothing uses may be anything: the first symbol-dce removes
    them, before the inliner would inline their calls.
  }];
}

def SpecializeEntries : Pass<"llama-specialize-entries", "::mlir::ModuleOp"> {
  let summary = "make prefill and decode entries of the forward pass";
  let description = [{
    Before: a function `@forward` (see the llama dialect). After: the function is
    called `@prefill`, and has a copy `@decode` for one token: every token
    dimension is 1, and the first logit is token 0's. Both functions take the
    same arguments, except that the types of the ids differ; `@decode` ignores
    `first`. Only `@prefill` returns hidden states, and has the ops that compute
    them and the argument `first_hidden`.

    Expects a program without `llama.kernel`. Fails on an op whose type for one
    token cannot be inferred.
  }];
  let dependentDialects = ["::mlir::arith::ArithDialect",
                           "::mlir::tensor::TensorDialect"];
}

def ShardWeights : Pass<"llama-shard-weights", "::mlir::ModuleOp"> {
  let summary = "split heads, MLP and vocabulary over ranks";
  let description = [{
    Before: a program at import. After, if `shards` is a number N of 2 or more:
    the program of each of N ranks, in a module with `llama.shards`. A rank has
    one N-th of the query heads, of the KV heads and caches, and of the MLP's
    inner dimension. Linears that make heads or the inner dimension are split by
    rows, and linears that read them are split by columns. `llama.all_reduce`
    adds the partial sums of the latter, and then their bias. The head is split
    by rows if N divides the vocabulary and nothing else reads the head's
    weight: the program then returns a rank's part of the logits. Each rank has
    all of the embeddings and norms. A norm of all heads of queries or keys
    together is split as these are; the sums of squares of all ranks make its
    mean, and norms of one token's queries and keys share one sum. Factors of
    adapters are split as their linear's weight is: B by rows, or A by columns.
    Matrices of experts are split as those of an MLP are, and `llama.all_reduce`
    adds what `llama.combine` makes of the partial sums.

    ```mlir
    llama.weight @down_proj[2] : tensor<64x96xbf16> from "model.layers.{}.mlp.down_proj.weight" split cols
    ...
    %1 = llama.linear %h, %down_proj : tensor<?x96xbf16>, tensor<64x96xbf16>
    %2 = llama.all_reduce %1 : tensor<?x64xbf16>
    ...
    %3 = llama.square_sums %q, %k : tensor<?x32xbf16>, tensor<?x16xbf16>
    %4 = llama.all_reduce %3 : tensor<?x2xf32>
    %5 = llama.rmsnorm %q, %q_norm squares(%4 : tensor<?x2xf32>) {eps = 1.0e-05, size = 64} : tensor<?x32xbf16>, tensor<32xbf16>
    ```

    Fails, naming the op, if N does not divide the KV heads or the inner
    dimension, or if another op reads a value that ranks share. With `shards` 1
    nothing changes.
  }];
  let options = [
    Option<"shards", "shards", "int64_t", "1", "the number of ranks">];
  let dependentDialects = ["::cria::llama::LlamaDialect",
                           "::mlir::tensor::TensorDialect"];
}

def QuantizeWeights : Pass<"llama-quantize-weights", "::mlir::ModuleOp"> {
  let summary = "store matrices in blocks of few bits";
  let description = [{
    Before: a program at the phase import. After: each matrix that is only read
    by linears, heads and lookups has elements in blocks, and so have matrices of
    experts. The option `head` names the format of a matrix that heads read,
    `embedding` that of a matrix in which ids are looked up, and `format` that
    of all others.

    ```mlir
    llama.weight @q_proj[2] : tensor<64x64x!llama.blocks<q8_0>> from "model.layers.{}.self_attn.q_proj.weight"
    ```

    A format is `q8_0`, `q4_0`, `fp8` or `none`. The default of `head` and
    `embedding` is `format`. A matrix whose rows are not whole blocks keeps its
    type, with a warning, and so do matrices of experts in `fp8`. Adapters, routers (linears `as f32`), and weights that other ops
    read, also keep their types.
  }];
  let dependentDialects = ["::cria::llama::LlamaDialect"];
  let options = [
    Option<"format", "format", "std::string", "\"none\"", "format of matrices">,
    Option<"embedding", "embedding", "std::string", "\"\"",
           "format of the embedding">,
    Option<"head", "head", "std::string", "\"\"", "format of the head">];
}

def QuantizeCache : Pass<"llama-quantize-cache", "::mlir::ModuleOp"> {
  let summary = "store keys and values in blocks of few bits";
  let description = [{
    Before: a program at the phase import, whose caches go through appends,
    states and loops alone. After: all caches (arguments, results
    and values in between) have elements in blocks of `format`, which is `q8_0`
    or `none`.

    ```mlir
    %k1 = llama.kv_append %rows into %k[%layer] at %position : tensor<?x4x64xbf16> into tensor<5x4x512x64x!llama.blocks<q8_0>>
    ```

    Fails if heads are not whole blocks of 32 numbers.
  }];
  let options = [
    Option<"format", "format", "std::string", "\"none\"", "format of caches">];
  let dependentDialects = ["::cria::llama::LlamaDialect"];
}

def PageCaches : Pass<"llama-page-caches", "::mlir::ModuleOp"> {
  let summary = "make prefill and batch entries over paged caches";
  let description = [{
    Before: a function `@forward` (see the llama dialect) over caches of one
    text, which go through appends, states and loops alone. After: two functions
    over paged caches. `@prefill` is the same function for one text; an argument
    has the page numbers of the text. `@batch` is a copy for tokens of several
    texts; each token has its own position and page numbers. A state becomes the
    states of many texts, and an argument after the page numbers has the numbers of
    the states that the text, or each token's text, reads and writes.

    ```mlir
    func.func @prefill(%ids: tensor<?xi32>, %position: index, %first: index, %pages: tensor<32xi32>, %k: tensor<?x5x4x16x64xbf16>, ...) attributes {invariant}
    func.func @batch(%ids: tensor<?xi32>, %positions: tensor<?xi32>, %first: index, %tables: tensor<?x32xi32>, %k: tensor<?x5x4x16x64xbf16>, ...) attributes {chunk = 8 : index, invariant}
    ```

    `cria.chunk` is the most tokens of a call of `@batch`. A function with
    `cria.invariant` computes the same bits for a token, whichever other tokens are
    in the call and however many they are. If attention sees tokens `ahead`, that of
    `@prefill` does, with their number after those of pages and states; that of
    `@batch` sees none.

    Caches that only attention with a window reads have pages of their own,
    whose numbers are an argument after the page numbers: pages behind the window
    may hold anything that is finite. So it is if `chunk` is given, and a window
    and a chunk take fewer pages than all positions.

    Fails if there is an encoder, attention that is not causal, a rope table
    that depends on a text's length, or a ring.
  }];
  let options = [
    Option<"rows", "rows", "int64_t", "1", "the most tokens of a batch">,
    Option<"chunk", "chunk", "int64_t", "0",
           "the most tokens of a prefill, if caches of layers with a window are to "
           "have pages of their own">,
    Option<"page", "page", "int64_t", "16", "positions of a page">];
  let dependentDialects = ["::cria::llama::LlamaDialect",
                           "::mlir::arith::ArithDialect"];
}

class FusionPass<string argument>
    : Pass<argument, "::mlir::func::FuncOp"> {
  let dependentDialects = ["::cria::llama::LlamaDialect"];
}

def FuseLatent : FusionPass<"llama-fuse-latent"> {
  let summary = "fuse the ops that make queries and rows of latent attention";
  let description = [{
    Before: `llama.gqa` over one cache of keys and values, whose rows and queries
    are each put together of two parts by `tensor.concat`. After: the linears
    that read the same norm as the linear of the row are one `llama.kernel`, with
    this norm if nothing else reads it. The ops that make the row from that
    linear's result, and its `kv_append`, are a second kernel, and the ops that
    make the queries a third.

    ```mlir
    %0 = llama.kernel "layers_attn_kv_append" -> ... {
      %n = llama.rmsnorm %latent, %kv_a_layernorm ...
      %1 = tensor.expand_shape %n ...
      %2 = llama.rope %key, %cos, %sin at %position ...
      %3 = tensor.concat dim(2) %1, %2 ...
      %4 = llama.kv_append %3 into %cache[%layer] at %position ...
      ...
    ```

    A `kv_append` to a cache in blocks stays outside of the kernel. What other
    passes leave out stays outside here, too (`llama-fuse-qkv`).
  }];
}

def FuseQKV : FusionPass<"llama-fuse-qkv"> {
  let summary = "fuse the ops that make queries, keys and values";
  let description = [{
    Before: `llama.gqa` whose query and caches come from `linear`, `rmsnorm`,
    `tensor.expand_shape`, `rmsnorm`, `rope` and `kv_append`, in this order, each
    optional. After: these ops are one `llama.kernel`. The kernel includes the
    norm before the linears if all linears read the norm and nothing else does.

    ```mlir
    %q, %k, %v = llama.kernel "layers_attn_qkv" -> ... {
      %n = llama.rmsnorm %x, %input_layernorm ...
      %0 = llama.linear %n, %q_proj ...
      %1 = tensor.expand_shape %0 ...
      %2 = llama.rope %1, %cos, %sin at %position ...
      ...
    ```

    If norms read sums over ranks (`squares`), the linears are one kernel, and
    the other ops are a second one, with `square_sums` and `all_reduce`.

    A `kv_append` to a cache in blocks stays outside of the kernel. An op whose
    result has other uses stays outside, too, with the ops that it needs; a
    missed-optimization remark says so. Weights are read outside of the kernel.
  }];
}

def FuseAttention : FusionPass<"llama-fuse-attention"> {
  let summary = "fuse attention with the merging of its heads";
  let description = [{
    Before: `llama.gqa` outside of kernels. After: the op is in a `llama.kernel`,
    with the `tensor.collapse_shape` of its result if that is the only use.

    ```mlir
    %a = llama.kernel "layers_attn" -> tensor<?x64xf32> {
      %0 = llama.gqa %q, %k, %v[%layer] at %position ...
      %1 = tensor.collapse_shape %0 ...
      llama.yield %1 : tensor<?x64xf32>
    }
    ```
  }];
}

def FuseRoute : FusionPass<"llama-fuse-route"> {
  let summary = "fuse the choice of experts";
  let description = [{
    Before: `llama.route` outside of kernels. After: the op is in a `llama.kernel`
    with the linear that only it reads, and the norm before. If the linears of
    other kernels read the norm, too, each of these kernels gets a norm of its
    own.

    ```mlir
    %e, %w = llama.kernel "layers_mlp_gate" -> tensor<?x2xi32>, tensor<?x2xf32> {
      %0 = llama.rmsnorm %x, %post_attention_layernorm ...
      %1 = llama.linear %0, %router as f32 ...
      %2, %3 = llama.route %1 top 2 normalize sum ...
      llama.yield %2, %3 : tensor<?x2xi32>, tensor<?x2xf32>
    }
    ```
  }];
}

def FuseResidual : FusionPass<"llama-fuse-residual"> {
  let summary = "fuse a linear into the addition to the residual stream";
  let description = [{
    Before: a `llama.residual` whose update is a `llama.linear`, or the norm of a
    `llama.linear`, that nothing else reads. After: these ops are one
    `llama.kernel`, with a `tensor.collapse_shape` before the linear if only the
    linear reads it. An update may also be the `llama.combine` of a
    `llama.expert_linear`, to which another addition may have added a shared
    expert. A `llama.all_reduce` of the linear or of the `llama.combine` is in the
    kernel, too: ranks add their sums before the sums are rounded.

    ```mlir
    %y = llama.kernel "layers_attn_out" -> tensor<?x64xf32> {
      %0 = llama.linear %a, %o_proj ...
      %1 = llama.residual %x, %0 ...
      llama.yield %1 : tensor<?x64xf32>
    }
    ```

    An addition is left alone if its update is not a linear or is read elsewhere;
    a missed-optimization remark says so.
  }];
}

def FuseGateUp : FusionPass<"llama-fuse-gate-up"> {
  let summary = "fuse the first linears of an MLP with the gate";
  let description = [{
    Before: `llama.swiglu` or `llama.activate` of linears, or of linears of
    experts. After: the op is in one `llama.kernel` with the linears that only
    this op reads. The kernel includes the norm before the linears if all linears
    read the norm and nothing else does. Gate and up may be the columns of one
    linear in turns, which slices of its result take apart. A row that is added
    to each token before the function is in the kernel, too. A gate that reads
    another value than `up`, as that of a shared expert does, stays outside.

    ```mlir
    %h = llama.kernel "layers_mlp_gate_up" -> tensor<?x172xf32> {
      %0 = llama.rmsnorm %x, %post_attention_layernorm ...
      %1 = llama.linear %0, %gate_proj ...
      %2 = llama.linear %0, %up_proj ...
      %3 = llama.swiglu %1, %2 ...
      llama.yield %3 : tensor<?x172xf32>
    }
    ```

    A missed-optimization remark says which op stayed outside, and why.
  }];
}

def OutlineKernels : FusionPass<"llama-outline-kernels"> {
  let summary = "make kernels of the ops that were not fused";
  let description = [{
    After: every op of the llama dialect that computes is in a `llama.kernel`;
    `get_weight` and `get_rope` never are. A norm that only one linear or head
    reads shares that op's kernel, and a linear that only an all_reduce reads
    shares that one's; any other op gets a kernel of its own.
  }];
}

#endif
