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

    over symbols: `llama.weight` for what lies in the checkpoint and
    `llama.rope_table` for the rotary tables. It runs the tokens `%ids` at
    positions `%position`, `%position + 1`, ..., and returns the logits of
    tokens `%first` and later and the updated caches, in the order of their
    arguments. Beside it there may be

    ```mlir
    func.func @encode(%ids: tensor<?xi32>, %position: index, %first: index,
                      %source: index, %k: ...) -> (caches...)
    ```

    which runs another text once, of `%source` tokens, and leaves in caches what
    `@forward` attends `over`; `@forward` then takes `%source` as well. Equal
    layers are one `scf.for`; its body reads its layer's
    weights with `llama.get_weight`.

    Letters in shapes: T tokens, H heads, D head size, S cache positions, L
    layers, V vocabulary. All ops are pure: a cache is a tensor, and that it is
    updated in place is bufferization's doing (and checked there).

    Arithmetic is Hugging Face's: norms and softmax in f32, a norm's result
    rounded to the activation type before the weight multiplies it. Results
    carry the activation type; within one `llama.kernel` a lowering may keep
    f32 between ops, which is closer to the f32 reference.

    Matrices may be quantized: their elements are then `!llama.blocks`.
  }];
  let useDefaultTypePrinterParser = 1;
}

#endif
