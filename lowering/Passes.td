#ifndef CRIA_LOWERING_PASSES_TD
#define CRIA_LOWERING_PASSES_TD

include "mlir/Pass/PassBase.td"

def AssignSlots : Pass<"assign-slots", "::mlir::ModuleOp"> {
  let summary = "give weights and rope tables their slots";
  let description = [{
    After: each `llama.weight` and `llama.rope_table` has the attribute `slot`,
    in module order where one had none. Import does the same: for programs that
    do not come from there.
  }];
}

def AttachTarget : Pass<"attach-target", "::mlir::ModuleOp"> {
  let summary = "write into the manifest what the module is compiled for";
  let description = [{
    From here on the module is one target's. A module without the attribute
    `cria.manifest` (lowering/artifact/Manifest.h) is left alone.
  }];
  let options = [
    Option<"target", "target", "std::string", "\"cpu\"", "cpu or cuda">,
    Option<"cpu", "cpu", "std::string", "\"native\"",
           "the CPU as the user named it">];
}

def ConvertLlamaToLinalg : Pass<"convert-llama-to-linalg", "::mlir::ModuleOp"> {
  let summary = "lower entry functions from llama to linalg on tensors";
  let description = [{
    Before: entry functions (see the llama dialect) whose computing ops are in
    `llama.kernel` regions, and symbols that have slots. After: upstream dialects
    only.

    - An entry takes `(ids, tokens, position, first, logits, caches...)`: ids and
      logits have room for `chunk` tokens (one, where the entry runs one token),
      `tokens` of which are used; logits and caches are also returned, and are
      meant to be updated in place.
    - A weight becomes a private function, `index -> tensor` or `() -> tensor`,
      that carries checkpoint name, count and slot in the attribute `weight`; a
      rope table becomes two, `.cos` and `.sin`.
    - A kernel becomes a private function of its name and the entry's, and a
      call. It takes what it reads, tensors to be updated in place, and for each
      further result the tensor that takes it, which is meant to be written in
      place as well. It returns what it updated or made.
  }];
  let options = [Option<"chunk", "chunk", "int64_t", "512",
                        "the most tokens the prefill entry takes">];
  let dependentDialects = [
    "::mlir::affine::AffineDialect", "::mlir::arith::ArithDialect",
    "::mlir::bufferization::BufferizationDialect",
    "::mlir::func::FuncDialect", "::mlir::linalg::LinalgDialect",
    "::mlir::math::MathDialect", "::mlir::scf::SCFDialect",
    "::mlir::tensor::TensorDialect"];
}

//===----------------------------------------------------------------------===//
// CPU
//===----------------------------------------------------------------------===//

def FlashAttention : Pass<"flash-attention", "::mlir::func::FuncOp"> {
  let summary = "make attention a loop over blocks of keys";
  let description = [{
    A `linalg.softmax` between two products over a KV cache becomes an online
    softmax, in parallel over KV heads and blocks of tokens: no more than a block
    of scores is ever stored, and blocks that no token may see are not read. What
    is done to scores and output elementwise is kept, whatever it is.

    A softmax of another form becomes its parts, on all scores, with a
    missed-optimization remark that says what was expected.
  }];
  let dependentDialects = [
    "::mlir::affine::AffineDialect", "::mlir::arith::ArithDialect",
    "::mlir::linalg::LinalgDialect", "::mlir::math::MathDialect",
    "::mlir::scf::SCFDialect", "::mlir::tensor::TensorDialect"];
}

def VerifyCacheInPlace : Pass<"verify-cache-in-place", "::mlir::ModuleOp"> {
  let summary = "check that bufferization updates the KV caches in place";
  let description = [{
    Runs on bufferized entry functions and their kernels. Fails, naming the ops,
    where a cache, or one layer of it, is copied from or to, where a buffer of
    its dimensions is allocated, and where a cache that is returned is not the
    argument. Then drops the entries' results: all are arguments.
  }];
}

def LowerContractions : Pass<"lower-contractions", "::mlir::func::FuncOp"> {
  let summary = "lower matrix products on memrefs to loops over vectors";
  let description = [{
    Every `linalg.generic` on memrefs that is a product of two matrices into f32
    becomes loops over vector ops, in parallel (`scf.forall`) where it is not
    inside a parallel loop yet. Extents may be any number; the token count alone
    may be dynamic, at most the function's `chunk`. Products of other forms, those
    that do more than to multiply and add, and those whose terms have an order are
    left alone, each with a missed-optimization remark that says why.
  }];
  let options = [
    Option<"lanes", "lanes", "int64_t", "8", "f32 values in a vector">,
    Option<"registers", "registers", "int64_t", "16", "vector registers">,
    Option<"dotBf16", "dot-bf16", "bool", "false",
           "the CPU multiplies bf16 pairs (AVX512-BF16)">,
    Option<"dotBf16Fast", "dot-bf16-fast", "bool", "false",
           "... faster than f32 FMA">];
  let dependentDialects = [
    "::mlir::arith::ArithDialect", "::mlir::memref::MemRefDialect",
    "::mlir::scf::SCFDialect", "::mlir::vector::VectorDialect",
    "::mlir::x86vector::X86VectorDialect"];
}

def LowerToLoops : Pass<"lower-linalg-to-loops", "::mlir::func::FuncOp"> {
  let summary = "lower what is left of linalg on memrefs to loops";
  let description = [{
    Elementwise ops, reductions and copies become loops of scalars, which LLVM
    vectorizes. The outermost loop is parallel (`scf.forall`) where its extent
    is dynamic, the token count, and it is not inside a parallel loop yet. An
    innermost reduction is carried in a register; a missed-optimization remark
    names each sum whose terms may not be reordered, and so not vectorized.
  }];
  let dependentDialects = [
    "::mlir::affine::AffineDialect", "::mlir::arith::ArithDialect",
    "::mlir::memref::MemRefDialect", "::mlir::scf::SCFDialect"];
}

def PlanArena : Pass<"plan-arena", "::mlir::ModuleOp"> {
  let summary = "give every temporary a place in one arena";
  let description = [{
    Adds an argument, the arena, to each entry function, and one to each kernel
    that has temporaries, and turns every `memref.alloc` into a view of it; a
    kernel's is a part of the entry's while it runs. Buffers whose lifetimes do
    not meet share space. Inside parallel loops an allocation becomes an
    `alloca`. After it no function allocates from the heap; the attribute
    `arena_bytes` of an entry says how much is needed.

    A dynamic size is bounded by what can be told from the ops that make it:
    constants, and numbers of tokens, at most the function's `chunk`. What a
    kernel takes is as large as what it is called with.
  }];
  let dependentDialects = ["::mlir::arith::ArithDialect",
                           "::mlir::memref::MemRefDialect"];
}

def LowerToAbi : Pass<"lower-to-abi", "::mlir::ModuleOp"> {
  let summary = "meet the runtime: entry signatures, slots, parallel loops";
  let description = [{
    Entry functions get the signature `CriaEntry` of runtime/Abi.h and the name
    `cria_<entry>`; a call of a weight's function becomes a load from the slot
    table; each `scf.forall` becomes a function over a range of iterations and a
    call of the host's `parallel_for`. Memrefs are built from bare pointers with
    `builtin.unrealized_conversion_cast`s that the conversion to LLVM resolves.
  }];
  let dependentDialects = ["::mlir::func::FuncDialect",
                           "::mlir::arith::ArithDialect",
                           "::mlir::LLVM::LLVMDialect",
                           "::mlir::scf::SCFDialect"];
}

def ApproximateMath : Pass<"approximate-math", "::mlir::func::FuncOp"> {
  let summary = "replace functions by polynomials";
  let description = [{
    Ops of the math dialect in f32 become arithmetic (upstream's expansions and
    approximations, a few ulp), so that loops over them vectorize and no library
    is called; those that LLVM has instructions for stay. A function of f64, or
    one that has no approximation, is an error.
  }];
  let dependentDialects = ["::mlir::arith::ArithDialect",
                           "::mlir::math::MathDialect",
                           "::mlir::vector::VectorDialect"];
}

//===----------------------------------------------------------------------===//
// CUDA
//===----------------------------------------------------------------------===//

def ConvertLlamaToGpu : Pass<"convert-llama-to-gpu", "::mlir::ModuleOp"> {
  let summary = "emit CUDA kernels and a host plan for entry functions";
  let description = [{
    Before: entry functions (see the llama dialect) whose computing ops are in
    `llama.kernel` regions. After: a `gpu.module` of `llvm.func` kernels, whose
    attribute `cria.plan` holds what the host runs; the entries are gone.

    What a region computes chooses the skeleton: products of up to eight rows
    (decode) a gemv, of more a tiled product on tensor cores or by fma,
    attention its own; norms, lookups and elementwise ops run a row or an
    element a thread. Elementwise ops around a product become its prologue and
    epilogue. What no skeleton takes is an error that names the op. A further
    entry of the plan, `sample`, draws an id from the logits.
  }];
  let options = [
    Option<"chunk", "chunk", "int64_t", "512",
           "the most tokens the prefill entry takes">,
    Option<"chip", "chip", "std::string", "\"sm_80\"",
           "the oldest architecture that runs the kernels">,
    Option<"ptxVersion", "ptx", "std::string", "\"ptx80\"",
           "the version of PTX">];
  let dependentDialects = [
    "::mlir::arith::ArithDialect", "::mlir::gpu::GPUDialect",
    "::mlir::LLVM::LLVMDialect", "::mlir::math::MathDialect",
    "::mlir::NVVM::NVVMDialect", "::mlir::scf::SCFDialect",
    "::mlir::vector::VectorDialect"];
}

#endif
