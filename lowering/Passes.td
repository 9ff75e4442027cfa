#ifndef CRIA_LOWERING_PASSES_TD
#define CRIA_LOWERING_PASSES_TD

include "mlir/Pass/PassBase.td"

def AssignSlots : Pass<"assign-slots", "::mlir::ModuleOp"> {
  let summary = "give weights and rope tables their slots";
  let description = [{
    After: each `llama.weight` and `llama.rope_table` has the attribute `slot`.
    New slots are given in the order of the module. The importer gives slots
    itself; this pass is for programs that do not come from the importer.
  }];
}

def AttachTarget : Pass<"attach-target", "::mlir::ModuleOp"> {
  let summary = "write the target into the module";
  let description = [{
    The passes after this one are for the target, which the manifest names
    afterwards. A module without a manifest (lowering/artifact/Manifest.h) gets
    none.

    For a CPU, the module's attribute `cria.vector_unit` says what the CPU's
    vector unit can do; schedules depend on it (lowering/cpu/VectorUnit.h).

    ```mlir
    module attributes {cria.vector_unit = {block_for_l2, lanes = 16 : i64, registers = 32 : i64, streams = 1 : i64}}
    ```
  }];
  let options = [
    Option<"target", "target", "std::string", "\"cpu\"", "cpu or cuda">,
    Option<"cpu", "cpu", "std::string", "\"native\"",
           "the CPU as the user named it">,
    Option<"vectorUnit", "vector-unit", "std::string", "\"\"",
           "the entries of cria.vector_unit, such as {lanes=16,registers=32}; "
           "by default those of the CPU">,
    Option<"plain", "plain", "bool", "false",
           "compile without schedules">];
}

def DescribeKernels : Pass<"describe-kernels", "::mlir::ModuleOp"> {
  let summary = "write the cost of each kernel into the manifest";
  let description = [{
    Before: entry functions (see the llama dialect) whose computing ops are in
    `llama.kernel` regions. After: the manifest's `plan` has the module path,
    layers, bytes and operations of each kernel. A module without a manifest
    (lowering/artifact/Manifest.h) is left alone.
  }];
}

def ConvertLlamaToLinalg : Pass<"convert-llama-to-linalg", "::mlir::ModuleOp"> {
  let summary = "lower entry functions from llama to linalg on tensors";
  let description = [{
    Before: entry functions (see the llama dialect) whose computing ops are in
    `llama.kernel` regions, and symbols that have slots. After: upstream dialects
    only. Declarations stay; a function with a body that is no entry is an error.

    - An entry takes `(ids, tokens, position, first, logits, caches...)`. Ids and
      logits have room for `chunk` tokens (`@decode`: for one), and `tokens` of
      them are used. Logits and caches are also returned; bufferization must
      update them in place. Over paged caches an entry also takes `pages`, after
      `first`; if each token has pages of its own, it takes `positions` in place
      of `position`.
    - A weight becomes a private function, `index -> tensor` or `() -> tensor`,
      that carries checkpoint name, count and slot in the attribute `cria.weight`; a
      rope table becomes two, `.cos` and `.sin`.
    - A recurrence becomes a loop over tokens. In a prefill that is not
      `cria.invariant` it becomes a loop over chunks of `recurrence-chunk` tokens,
      whose sums are products of matrices, and a loop over the tokens that are left.
      With `recurrence-in-parts` the products take each number as the sum of two of
      bf16; f32, and sizes that are no multiples of 32 and 16, keep the loop over
      tokens.
    - Rows of a product with a matrix in fp8 are in 16 bits. One row multiplies the
      weights' numbers, and several rows these numbers rounded to their type.
    - Rows of a product with another matrix in blocks are rounded to blocks. In a prefill
      that is not `cria.invariant`, rows of `widened-types` (bf16, f16) are not: they
      multiply the weights' numbers, rounded to their type. The head's rows are
      rounded to blocks.
    - `llama.all_reduce` becomes `mpi.allreduce` of all processes, which adds in
      place. A module loses the attribute `llama.shards`.
    - A kernel becomes a call of a private function, whose name is the kernel's
      and the entry's. The function takes the tensors that it reads, the tensors
      that it updates in place, and for each further result a tensor that is
      written in place. It returns the updated and the written tensors.
  }];
  let options = [Option<"chunk", "chunk", "int64_t", "512",
                        "most tokens of one call of prefill">,
                 Option<"recurrenceChunk", "recurrence-chunk", "int64_t", "1",
                        "tokens that a recurrence takes at once in a prefill">,
                 Option<"recurrenceInParts", "recurrence-in-parts", "bool", "false",
                        "whether their products take numbers as sums of two of bf16">,
                 ListOption<"widenedTypes", "widened-types", "std::string",
                            "types of a prompt's rows that multiply widened weights">];
  let dependentDialects = [
    "::mlir::affine::AffineDialect", "::mlir::arith::ArithDialect",
    "::mlir::bufferization::BufferizationDialect",
    "::mlir::func::FuncDialect", "::mlir::linalg::LinalgDialect",
    "::mlir::math::MathDialect", "::mlir::mpi::MPIDialect",
    "::mlir::scf::SCFDialect", "::mlir::tensor::TensorDialect"];
}

def CarryInPlace : Pass<"carry-in-place", "::mlir::ModuleOp"> {
  let summary = "give a loop's tensors the same buffers in every iteration";
  let description = [{
    Bufferization refuses a loop that carries a different buffer into its next
    iteration. So a new tensor of an iteration is written to the tensor with
    which the iteration began. Two tensors that change places are copied first.
    A loop that begins with a slice begins with a copy of the slice: kernels take
    contiguous tensors, so each iteration would copy what it carries.
    Tensors that ops update through destinations, or that functions update and
    return, are left alone.
  }];
  let dependentDialects = ["::mlir::bufferization::BufferizationDialect"];
}

def VerifyCacheInPlace : Pass<"verify-cache-in-place", "::mlir::ModuleOp"> {
  let summary = "check that bufferization updates the KV caches in place";
  let description = [{
    Runs on bufferized entry functions and their kernels. Fails, and names the op,
    if a cache or a layer of a cache is copied, if a buffer of a cache's
    dimensions is allocated, or if a returned cache is not the argument. A layer
    of a state may be a copy of scratch. Then drops the results of the entries,
    which all are arguments.
  }];
}

def PlanArena : Pass<"plan-arena", "::mlir::ModuleOp"> {
  let summary = "give every temporary a place in one arena";
  let description = [{
    Adds an arena argument to each entry function and to each kernel that has
    temporaries, and turns every `memref.alloc` into a view of the arena. A
    kernel's arena is a part of the entry's. Buffers with disjoint lifetimes share
    space. Inside parallel loops an allocation becomes an `alloca`. Afterwards no
    function allocates from the heap; the attribute `cria.arena_bytes` of an
    entry says how many bytes the arena needs.

    The bound of a dynamic size follows from the ops that compute the size:
    constants, and numbers of tokens, which are at most the function's
    `cria.chunk`. A kernel's argument has the bound of the value it is called with.
  }];
  let options = [Option<"alignment", "alignment", "int64_t", "64",
                        "alignment of temporaries, in bytes">];
  let dependentDialects = ["::mlir::arith::ArithDialect",
                           "::mlir::memref::MemRefDialect"];
}

def ApproximateMath : Pass<"approximate-math"> {
  let summary = "replace functions by polynomials";
  let description = [{
    Ops of the math dialect in f32 become arithmetic (MLIR's expansions and
    approximations, accurate to a few ulp). So loops over them vectorize, and no
    library is called. Ops for which LLVM has instructions stay. A function of
    f64, or one without an approximation, is an error.

    With `exp2`, e^x becomes 2^(x log2 e), an approximate `math.exp2` (afn), and
    1 / sqrt(x) becomes a quotient: GPUs have instructions for both.
  }];
  let options = [Option<"exp2", "exp2", "bool", "false",
                        "the target has an instruction for 2^x">];
  let dependentDialects = ["::mlir::arith::ArithDialect",
                           "::mlir::math::MathDialect",
                           "::mlir::vector::VectorDialect"];
}

//===----------------------------------------------------------------------===//
// CPU
//===----------------------------------------------------------------------===//

def FlashAttention : Pass<"flash-attention", "::mlir::func::FuncOp"> {
  let summary = "make attention a loop over blocks of keys";
  let description = [{
    A `linalg.softmax` between two products over a KV cache becomes an online
    softmax, in parallel over KV heads and blocks of tokens. At most one block of
    scores is stored at a time, and blocks that no token sees are not read. Any
    elementwise ops on scores and output are kept.

    If the module's `cria.vector_unit` has `amx`, products of bf16 tensors stay in
    bf16, and probabilities are rounded to bf16.

    A softmax of another form becomes its parts, on all scores, with a
    missed-optimization remark that says which form was expected.
  }];
  let dependentDialects = [
    "::mlir::affine::AffineDialect", "::mlir::arith::ArithDialect",
    "::mlir::linalg::LinalgDialect", "::mlir::math::MathDialect",
    "::mlir::scf::SCFDialect", "::mlir::tensor::TensorDialect"];
}

def LowerContractions : Pass<"lower-contractions", "::mlir::func::FuncOp"> {
  let summary = "lower matrix products on memrefs to loops over vectors";
  let description = [{
    Every `linalg.generic` on memrefs that multiplies two matrices into f32
    becomes loops over vector ops. The second matrix may be in blocks of
    integers, or of floats of 8 bits, with a scale for each block. The rows of a
    product with the experts that each token chose are multiplied one by one if
    there are few, and else sorted by expert and multiplied with one expert
    after the other. The outer loop is parallel (`scf.forall`) unless the op is
    already inside a parallel loop. Extents may have any size. Only the token
    count may be dynamic, and is at most the function's `cria.chunk`. The pass
    leaves alone products of other forms, products that do more than multiply
    and add, and products whose terms must be added in order. A
    missed-optimization remark says why.

    The vectors and the schedules are those for the module's `cria.vector_unit`
    (see attach-target).
  }];
  let dependentDialects = [
    "::mlir::amx::AMXDialect", "::mlir::arith::ArithDialect", "::mlir::linalg::LinalgDialect", "::mlir::LLVM::LLVMDialect",
    "::mlir::math::MathDialect", "::mlir::memref::MemRefDialect", "::mlir::scf::SCFDialect", "::mlir::vector::VectorDialect",
    "::mlir::x86vector::X86VectorDialect"];
}

def RoundToBf16 : Pass<"round-to-bf16", "::mlir::func::FuncOp"> {
  let summary = "round f32 to bf16 by integer arithmetic";
  let description = [{
    Does the same as arith-expand, on scalars and vectors, but without a select.
    On CPUs without bf16, LLVM turns a select of vectors into one for each
    element.
  }];
  let dependentDialects = ["::mlir::arith::ArithDialect"];
}

def LowerToLoops : Pass<"lower-linalg-to-loops", "::mlir::func::FuncOp"> {
  let summary = "lower the remaining linalg ops on memrefs to loops";
  let description = [{
    Elementwise ops, reductions and copies become loops over scalars, which LLVM
    vectorizes. Elementwise ops on adjacent blocks of 8 to 64 bytes become loops
    over vectors. The outermost loop is parallel (`scf.forall`) if its extent is
    dynamic, which means the token count, and the op is not already inside a
    parallel loop. An innermost reduction is carried in a register. A
    missed-optimization remark names each sum whose terms may not be reordered,
    and which is therefore not vectorized.

    With `plain`, convert-linalg-to-loops makes the loops.
  }];
  let options = [Option<"plain", "plain", "bool", "false",
                        "let MLIR's convert-linalg-to-loops make the loops">];
  let dependentDialects = [
    "::mlir::affine::AffineDialect", "::mlir::arith::ArithDialect",
    "::mlir::linalg::LinalgDialect", "::mlir::memref::MemRefDialect",
    "::mlir::scf::SCFDialect", "::mlir::vector::VectorDialect"];
}

def LowerToAbi : Pass<"lower-to-abi", "::mlir::ModuleOp"> {
  let summary = "give entries the runtime's signatures, slots and parallel loops";
  let description = [{
    Entry functions get the signature `CriaEntry` of runtime/Abi.h and the name
    `cria_<entry>`. A call of a weight's function becomes a load from the slot
    table. Each `scf.forall` becomes a function over a range of iterations, and a
    call of the host's `parallel_for`. Before each call of a kernel, the host's
    `enter` is called with the kernel's number. Memrefs are built from bare
    pointers with `builtin.unrealized_conversion_cast`s that the conversion to
    LLVM resolves.
  }];
  // AMX is listed because the later convert-to-llvm only converts dialects that
  // are loaded.
  let dependentDialects = ["::mlir::amx::AMXDialect",
                           "::mlir::affine::AffineDialect",
                           "::mlir::func::FuncDialect",
                           "::mlir::arith::ArithDialect",
                           "::mlir::LLVM::LLVMDialect",
                           "::mlir::memref::MemRefDialect",
                           "::mlir::scf::SCFDialect"];
}

//===----------------------------------------------------------------------===//
// CUDA
//===----------------------------------------------------------------------===//

def ConvertLinalgToGpu : Pass<"convert-linalg-to-gpu", "::mlir::ModuleOp"> {
  let summary = "build the GPU kernels of functions that a schedule accepts";
  let description = [{
    Before: kernel functions on tensors, in linalg. After: a `gpu.module`. Each
    function `k` that a schedule accepts is followed by a function `k.launch` on
    memrefs, which launches the kernels. The function `k` stays, because
    bufferization needs it.

    The ops of a function choose its schedule:

    - attention, for a function with a softmax;
    - a matrix in registers that each token updates, for a function with a
      parallel loop (the delta rule);
    - a gemv for products of up to eight rows (decode), and for more rows a tiled
      product on tensor cores or by fma;
    - a block for each row, for statistics of rows (norms);
    - a thread for each element, for all others.

    Elementwise ops around a product become its prologue and epilogue. A function
    that does not fit into one launch becomes several, with a remark. A
    missed-optimization remark names functions that no schedule accepts. A new
    entry, `sample`, draws an id from the logits of `decode`.

    The module has the chips as targets. On sm_90 and later, products of few rows
    copy weights by `cp.async.bulk`, and the splits of a tile are a cluster. On
    chips with wgmma (sm_90a), products of more than 128 rows use warpgroups, and
    so does attention of prompts with heads 64 or 128 wide. If a kernel is not for
    all chips, the attribute `cria.generations` has those that it is for: 0 from
    sm_80 on, 1 from sm_90 on, 2 sm_90a.
  }];
  let options = [ListOption<"chips", "chips", "std::string",
                            "NVIDIA architectures to compile kernels for">,
                 Option<"schedules", "schedules", "std::string", "\"\"",
                        "sizes of schedules that differ from the defaults: "
                        "gemm_few.m=64,...">];
  let dependentDialects = [
    "::mlir::affine::AffineDialect", "::mlir::arith::ArithDialect",
    "::mlir::gpu::GPUDialect",
    "::mlir::LLVM::LLVMDialect", "::mlir::math::MathDialect",
    "::mlir::memref::MemRefDialect", "::mlir::nvgpu::NVGPUDialect",
    "::mlir::NVVM::NVVMDialect", "::mlir::scf::SCFDialect",
    "::mlir::vector::VectorDialect"];
}

def CutAtAllReduces : Pass<"cut-at-all-reduces", "::mlir::ModuleOp"> {
  let summary = "cut kernel functions at their sums over ranks";
  let description = [{
    Before: kernel functions on tensors, some with an `mpi.allreduce`. After:
    such a function `k` calls a function `k_partial`, which stores this rank's
    summands, has the `mpi.allreduce`, and calls a function `k_rest`, which
    computes the results of `k`. Other functions do not change.

    ```mlir
    %0 = linalg.generic ins(%x, %w) outs(%zero)       // f32
    %1 = tensor.collapse_shape %0 [[0, 1]]
    %2 = bufferization.to_buffer %1
    mpi.allreduce(%2, %2, MPI_SUM, %world)
    %3 = bufferization.to_tensor %2 restrict writable
    %4 = tensor.expand_shape %3 [[0, 1]]
    %5 = linalg.generic ins(%4) outs(%r)
    ```

    becomes

    ```mlir
    %0 = call @k_partial(%x, %w, %empty)
    %1 = tensor.collapse_shape %0 [[0, 1]]
    ...
    %4 = tensor.expand_shape %3 [[0, 1]]
    %5 = call @k_rest(%r, %4)
    ```

    A function with several sums, or with one in a region, is an error.
  }];
  let dependentDialects = ["::mlir::bufferization::BufferizationDialect",
                           "::mlir::func::FuncDialect",
                           "::mlir::tensor::TensorDialect"];
}

def DecomposeSoftmax : Pass<"decompose-softmax", "::mlir::ModuleOp"> {
  let summary = "decompose softmaxes that no schedule launches";
  let description = [{
    Each `linalg.softmax` on tensors becomes its parts, on all scores. A
    missed-optimization remark names softmaxes whose function nothing launches
    (see `inline-launches`).
  }];
  let dependentDialects = [
    "::mlir::arith::ArithDialect", "::mlir::linalg::LinalgDialect",
    "::mlir::math::MathDialect", "::mlir::tensor::TensorDialect"];
}

def InlineLaunches : Pass<"inline-launches", "::mlir::ModuleOp"> {
  let summary = "inline kernel functions, or their launches, into the entries";
  let description = [{
    Before: bufferized entries that call kernel functions `@k`. Some kernel
    functions have a function `@k.launch` that takes the same arguments, returns
    nothing, and launches kernels which compute the same. After: each call is
    replaced by the body of `@k.launch` if there is one, and otherwise by the body
    of `@k`, whose ops then have the attribute `cria.kernel` with the function's
    name. Both functions are removed. Declarations stay. A `@k.launch` that the
    plan cannot express (launches in a branch, or on a grid of unknown size) is
    not used; a missed-optimization remark says why.
  }];
}

def LowerLinalgToLaunches : Pass<"lower-linalg-to-launches", "::mlir::ModuleOp"> {
  let summary = "launch a kernel for each op that no schedule compiled";
  let description = [{
    Before: entries on memrefs, whose kernels are inlined. After: entries launch
    kernels, take sums over ranks (`mpi.allreduce`), and do nothing else.

    - A linalg op or a copy becomes a kernel with a thread for each element of its
      parallel loops; each thread runs the reductions. The number of tokens is a
      dimension of the grid. The bounds of other unknown sizes follow from the ops
      that compute these sizes.
    - One thread runs any other op that touches memory, and any op without a
      bound, with linalg ops as loops. The same thread runs later ops that use a
      buffer of such an op. Other results go through memory.
    - A loop stays on the host if its induction variable only selects layers.
      Otherwise one thread runs the loop, or, if the loop reads weights or
      launches kernels, its body is copied for each iteration.

    A missed-optimization remark names each such kernel.
  }];
  let dependentDialects = [
    "::mlir::affine::AffineDialect", "::mlir::arith::ArithDialect",
    "::mlir::gpu::GPUDialect", "::mlir::linalg::LinalgDialect",
    "::mlir::memref::MemRefDialect", "::mlir::scf::SCFDialect"];
}

def LowerKernelArguments : Pass<"lower-kernel-arguments", "::mlir::gpu::GPUFuncOp"> {
  let summary = "make memref arguments of a kernel bare pointers";
  let description = [{
    An argument that is a memref with constant strides in the default memory
    space becomes a pointer to device memory (address space 1) and keeps its
    attributes. The pointer is the address of the memref's first element, whatever
    the offset of its layout is. A `builtin.unrealized_conversion_cast`, which the
    conversion to LLVM resolves, builds the memref from the pointer. Its dynamic
    sizes are poison, so nothing may compute with them. A memref with dynamic
    strides may only be cast (`memref.reinterpret_cast`). An argument with the
    attribute `cria.tensor_map` becomes a pointer to a tensor map, and may only be
    cast to a tensor map; the kernel's attribute of that name lists these
    arguments. Other memrefs are an error. Other arguments stay.
  }];
  let dependentDialects = ["::mlir::LLVM::LLVMDialect"];
}

def MathToIntrinsics : Pass<"math-to-intrinsics", "::mlir::gpu::GPUFuncOp"> {
  let summary = "turn math functions in a kernel into calls of LLVM's intrinsics";
  let description = [{
    Functions that have instructions on a GPU become `llvm.call_intrinsic` with
    the op's fast-math flags: the ops of the math dialect that round, test or
    count, `absf`, `absi`, `copysign`, `exp2`, `fma` and `sqrt`, and
    `arith.maxnumf` and `minnumf`. Other functions (the rest of the math
    dialect, `arith.remf`) are errors. So MLIR's conversion to NVVM, which comes
    later, calls no function of NVIDIA's libdevice.

    In kernels with products by warpgroups, `arith.divf` and `math.sqrt` of f32
    become instructions that are wrong by at most 2 units in the last place and
    call nothing.
  }];
  let dependentDialects = ["::mlir::LLVM::LLVMDialect",
                           "::mlir::vector::VectorDialect"];
}

def OverlapLaunches : Pass<"overlap-launches", "::mlir::gpu::GPUFuncOp"> {
  let summary = "copy given memory, then wait for the launch before";
  let description = [{
    Moves copies of given memory to shared memory to a kernel's beginning. Given
    are the parameters that the kernel's attribute `cria.given` names, and the
    source of each copy that has this attribute. Other loads between the copies, and the ops that use these
    loads, move after the copies. A copy that needs such a load stays after the
    load.

    On sm_90 and later a launch may begin while the launch before it still runs.
    So `nvvm.griddepcontrol launch_dependents` and `wait` follow the copies, in
    the entry block. All threads of all blocks wait, so a kernel that has waited
    for one launch has waited for all launches before. Before the wait a kernel
    reads only given memory, which no launch of the step writes, and writes only
    shared memory. The PTX for older chips has neither instruction.
  }];
  let dependentDialects = ["::mlir::NVVM::NVVMDialect"];
}

def PlanLaunches : Pass<"plan-launches", "::mlir::ModuleOp"> {
  let summary = "turn the entries into the plan of the gpu.module";
  let description = [{
    Before: entry functions (lowering/entry/Entry.h) that launch kernels of one
    `gpu.module` and take sums over ranks, also in loops with constant bounds,
    and otherwise only compute numbers and views. After: the module's attribute
    `cria.plan` lists the launches and sums of each entry, in the form of
    docs/artifact.md. The entries, the globals, and the declarations of weights and rope tables are removed.

    - An `mpi.allreduce` in place of rows of f32 in the arena becomes a step
      `{all_reduce = {arena = 512}, rows = {tokens = 1}, columns = 64}`.
    - A kernel's memref argument is a view of an entry's argument, of a weight, or
      of a global of zeros. Globals share the first 64 KiB of the device's arena,
      which are zero when a session begins; the arenas of all entries begin after
      these 64 KiB.
    - A kernel's number arguments are removed. The kernel computes these numbers
      itself from `CriaStepState`, a new last parameter. So each kernel has one
      launch.
    - A memref parameter with a dynamic offset gets the offset 0: the address in
      the plan is that of the first element. If the offset is static, the address
      in the plan lies that far before the first element.
    - A kernel's attribute `cria.given` lists the parameters that are weights,
      rope tables, or the state. No launch of a step writes to their memory.

    A launch that the plan cannot express is an error, and so is any op that would
    have to run on the host.
  }];
  let dependentDialects = ["::mlir::arith::ArithDialect",
                           "::mlir::memref::MemRefDialect"];
}

#endif
