#ifndef CRIA_PASSES_PASSES_TD
#define CRIA_PASSES_PASSES_TD

include "mlir/Pass/PassBase.td"

def SpecializeEntries : Pass<"llama-specialize-entries", "::mlir::ModuleOp"> {
  let summary = "make prefill and decode entries of the forward pass";
  let description = [{
    Before: a function `@forward` (see the llama dialect). After: `@prefill`,
    the same function under that name, and `@decode`, its copy for one token:
    every token dimension is 1 and the first logit is that of token 0. Both take
    the same arguments but for the type of the ids, and `@decode` ignores
    `first`.

    Expects no `llama.kernel` yet. Fails on an op whose type for one token it
    cannot infer.
  }];
  let dependentDialects = ["::mlir::arith::ArithDialect",
                           "::mlir::tensor::TensorDialect"];
}

def QuantizeWeights : Pass<"llama-quantize-weights", "::mlir::ModuleOp"> {
  let summary = "store matrices in blocks of few bits";
  let description = [{
    Before: a program at import. After: each matrix that only products read, or
    lookups, has elements in blocks of `format`; a matrix that heads read those
    of `head`, one in which ids are looked up those of `embedding`.

    ```mlir
    llama.weight @q_proj[2] : tensor<64x64x!llama.blocks<q8_0>> from "model.layers.{}.self_attn.q_proj.weight"
    ```

    Each format is `q8_0`, `q4_0` or `none`; that of heads and lookups is
    `format` where it is not given. A matrix whose rows are no whole blocks stays
    as it is, with a warning; adapters and what other ops read stay, too.
  }];
  let options = [
    Option<"format", "format", "std::string", "\"none\"", "of products">,
    Option<"embedding", "embedding", "std::string", "\"\"", "of lookups">,
    Option<"head", "head", "std::string", "\"\"", "of heads">];
}

def QuantizeCache : Pass<"llama-quantize-cache", "::mlir::ModuleOp"> {
  let summary = "store keys and values in blocks of few bits";
  let description = [{
    Before: a program at import. After: all its caches have elements in blocks of
    `format`, which is `q8_0` or `none`, wherever they go.

    ```mlir
    %k1 = llama.kv_append %rows into %k[%layer] at %position : tensor<?x4x64xbf16> into tensor<5x4x512x64x!llama.blocks<q8_0>>
    ```

    Fails where heads are no whole blocks of 32 numbers.
  }];
  let options = [
    Option<"format", "format", "std::string", "\"none\"", "of caches">];
  let dependentDialects = ["::cria::llama::LlamaDialect"];
}

class FusionPass<string argument>
    : Pass<argument, "::mlir::func::FuncOp"> {
  let dependentDialects = ["::cria::llama::LlamaDialect"];
}

def FuseQKV : FusionPass<"llama-fuse-qkv"> {
  let summary = "fuse what makes queries, keys and values of one attention";
  let description = [{
    Before: `llama.gqa` whose query and caches come from `linear`, `rmsnorm`,
    `tensor.expand_shape`, `rmsnorm`, `rope` and `kv_append`, in this order, each
    optional. After: these ops are one `llama.kernel`, with the norm in front of the
    linears where all of them read it and nothing else does.

    ```mlir
    %q, %k, %v = llama.kernel "layers_attn_qkv" -> ... {
      %n = llama.rmsnorm %x, %input_layernorm ...
      %0 = llama.linear %n, %q_proj ...
      %1 = tensor.expand_shape %0 ...
      %2 = llama.rope %1, %cos, %sin at %position ...
      ...
    ```

    A `kv_append` to a cache in blocks stays outside. So does an op whose result
    is used elsewhere, with what is before it; a missed remark says so. Weights
    are read outside of the kernel.
  }];
}

def FuseAttention : FusionPass<"llama-fuse-attention"> {
  let summary = "fuse attention with the merging of its heads";
  let description = [{
    Before: `llama.gqa` outside of kernels. After: it is in a `llama.kernel`,
    with the `tensor.collapse_shape` of its result where that is the only use.

    ```mlir
    %a = llama.kernel "layers_attn" -> tensor<?x64xf32> {
      %0 = llama.gqa %q, %k, %v[%layer] at %position ...
      %1 = tensor.collapse_shape %0 ...
      llama.yield %1 : tensor<?x64xf32>
    }
    ```
  }];
}

def FuseResidual : FusionPass<"llama-fuse-residual"> {
  let summary = "fuse a linear into the addition to the residual stream";
  let description = [{
    Before: `llama.residual` whose update is a `llama.linear` that nothing else
    reads, or the norm of one. After: they are one `llama.kernel`, with a
    `tensor.collapse_shape` in front of the linear that nothing else reads.

    ```mlir
    %y = llama.kernel "layers_attn_out" -> tensor<?x64xf32> {
      %0 = llama.linear %a, %o_proj ...
      %1 = llama.residual %x, %0 ...
      llama.yield %1 : tensor<?x64xf32>
    }
    ```

    An update that is no linear, or is read elsewhere, leaves the addition
    alone; a missed remark says so.
  }];
}

def FuseGateUp : FusionPass<"llama-fuse-gate-up"> {
  let summary = "fuse the first linears of an MLP with what joins them";
  let description = [{
    Before: `llama.swiglu` or `llama.activate` of linears. After: it and the
    linears that only it reads are one `llama.kernel`, with the norm in front of
    the linears where all of them read it and nothing else does.

    ```mlir
    %h = llama.kernel "layers_mlp_gate_up" -> tensor<?x172xf32> {
      %0 = llama.rmsnorm %x, %post_attention_layernorm ...
      %1 = llama.linear %0, %gate_proj ...
      %2 = llama.linear %0, %up_proj ...
      %3 = llama.swiglu %1, %2 ...
      llama.yield %3 : tensor<?x172xf32>
    }
    ```

    Missed remarks say what stayed
    outside and why.
  }];
}

def OutlineKernels : FusionPass<"llama-outline-kernels"> {
  let summary = "make kernels of the ops that no fusion took";
  let description = [{
    After: every op of the llama dialect that computes is in a `llama.kernel`;
    `get_weight` and `get_rope` never are. A norm that only one linear or head
    reads shares its kernel; any other op has its own.
  }];
}

#endif
