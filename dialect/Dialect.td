#ifndef CRIA_DIALECT_DIALECT_TD
#define CRIA_DIALECT_DIALECT_TD

include "mlir/IR/OpBase.td"

def Llama_Dialect : Dialect {
  let name = "llama";
  let cppNamespace = "::cria::llama";
  let summary = "Forward passes of Llama-family transformers";
  let description = [{
    A program is a function

    ```mlir
    func.func @forward(%ids: tensor<?xi32>, %position: index, %first: index,
                       %k: tensor<LxHxSxDxf32>, %v: tensor<LxHxSxDxf32>)
        -> (tensor<?xVxf32>, tensor<LxHxSxDxf32>, tensor<LxHxSxDxf32>)
    ```

    over symbols: `llama.weight` for tensors of the checkpoint and
    `llama.rope_table` for the rotary tables. It runs the tokens `%ids` at
    positions `%position`, `%position + 1`, ... It returns the logits of the
    tokens from `%first` on, and the updated caches in the order of their
    arguments. A program may also return hidden states:

    ```mlir
    func.func @forward(%ids: tensor<?xi32>, %position: index, %first: index,
                       %first_hidden: index, %k: ...)
        -> (tensor<?xVxf32>, tensor<?xCxf32>, caches...)
    ```

    The second result then has a row for each token from `%first_hidden` on. A
    program may also have a function

    ```mlir
    func.func @encode(%ids: tensor<?xi32>, %position: index, %first: index,
                      %source: index, %k: ...) -> (caches...)
    ```

    which runs another text of `%source` tokens once, and fills the caches that
    `@forward` attends `over`; `@forward` then also takes `%source`, after
    `%first`. If attention sees tokens `ahead`, `@forward` takes their number
    there, `@prefill` over paged caches after the numbers of pages and states.
    Equal layers are one `scf.for`, whose body reads the weights of its layer with
    `llama.get_weight`.

    A program may also have private functions that the others call, such as one
    for a layer. Calls are inlined when the program is read
    (`llama-verify-helpers` in passes/README.md says what can be inlined).

    A program may also have states, which stand among the caches: tensors of three
    dimensions, (layers, rows, numbers). A layer keeps in its state what it
    remembers of all earlier tokens, and overwrites it in each call. A state has no
    positions: to take a text back to an earlier one, it is computed anew.

    Letters in shapes: T tokens, C hidden size, H heads, D head size, S cache
    positions, L layers, V vocabulary. All ops are pure: a cache is a tensor.
    Bufferization updates caches and states in place, and the pass
    `verify-cache-in-place` checks this.

    Arithmetic is Hugging Face's: norms and softmax are in f32, and a norm's
    result is rounded to the activation type before the weight multiplies it.
    Results have the activation type. Within one `llama.kernel` a lowering may
    keep f32 between ops, which is closer to a model in f32.

    A program may also compute with elementwise ops of `arith` and `math` on
    tensors of integers or floats, and make constants by `tensor.splat`. Each
    result is rounded as the op says. Functions that need a library, such as
    `math.exp` of f64 or `arith.minnumf`, are refused.

    The elements of a quantized matrix are `!llama.blocks`.

    A module with the attribute `llama.shards`, a number N of at least 2, is the
    program that each of N ranks runs (tensor parallelism). Its types are those
    of one rank's share. `llama.weight` says which part of a tensor a rank has,
    and `llama.all_reduce` adds the results of all ranks. A program does not
    depend on the number of the rank that runs it.
  }];
  let hasOperationAttrVerify = 1;
  let extraClassDeclaration = [{
    /// The module's attribute that says how many ranks share the model.
    static constexpr ::llvm::StringLiteral kShards = "llama.shards";
    /// The number of ranks of the module around `op`; 1 if the module does not
    /// have the attribute.
    static int64_t shardsOf(::mlir::Operation *op);
    /// Warns of attributes that the op, of this dialect, does not define: once
    /// for each name in a context. A misspelt attribute, such as `unit_ofset`,
    /// makes another model.
    void warnOfUnknownAttributes(::mlir::Operation *op);

  private:
    ::llvm::sys::Mutex mutex;     // of `warned`: ops are verified in parallel
    ::llvm::StringSet<> warned; // "llama.rmsnorm unit_ofset"
  }];
  let useDefaultTypePrinterParser = 1;
}

#endif
