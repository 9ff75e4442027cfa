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
           "the CPU as the user named it">,
    Option<"plain", "plain", "bool", "false",
           "whether it is compiled without schedules">];
}

def DescribeKernels : Pass<"describe-kernels", "::mlir::ModuleOp"> {
  let summary = "write into the manifest what each kernel costs";
  let description = [{
    Before: entry functions (see the llama dialect) whose computing ops are in
    `llama.kernel` regions. After: the manifest's `plan` has, of each kernel, its
    module path, layers, bytes and operations. A module without the attribute
    `cria.manifest` (lowering/artifact/Manifest.h) is left alone.
  }];
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

def AddTaps : Pass<"add-taps", "::mlir::ModuleOp"> {
  let summary = "make the results of kernels visible, and replaceable";
  let description = [{
    Runs on entry functions on tensors. After each kernel, each result that is no
    cache and no logits is stored into memory of the session, `made`, with a
    place for each turn of the loop around; while the tap's number in `force` is
    not 0, what reads the result gets `given` instead. The memory follows the KV caches
    among the entries' arguments. The manifest (lowering/artifact/Manifest.h)
    lists it under `caches`; under `taps` it says what lies where, and has the
    module's text.

    With `kept`, other kernels are not called: what they would have made is
    `given`.
  }];
  let options = [ListOption<"kept", "kept", "std::string",
                            "the kernels that are called (default: all)">];
  let dependentDialects = ["::mlir::affine::AffineDialect",
                           "::mlir::arith::ArithDialect",
                           "::mlir::linalg::LinalgDialect",
                           "::mlir::tensor::TensorDialect"];
}

def CarryInPlace : Pass<"carry-in-place", "::mlir::ModuleOp"> {
  let summary = "give a loop's tensors the same buffers in every turn";
  let description = [{
    Bufferization refuses a loop that carries another buffer into its next turn.
    A tensor that a turn makes anew is written to the one that the turn began
    with; two that change places are copied before. What is updated by ops with
    destinations, or by functions that return them, stays as it is.
  }];
  let dependentDialects = ["::mlir::bufferization::BufferizationDialect"];
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
  let options = [Option<"alignment", "alignment", "int64_t", "64",
                        "what the places of temporaries are multiples of">];
  let dependentDialects = ["::mlir::arith::ArithDialect",
                           "::mlir::memref::MemRefDialect"];
}

def ApproximateMath : Pass<"approximate-math"> {
  let summary = "replace functions by polynomials";
  let description = [{
    Ops of the math dialect in f32 become arithmetic (upstream's expansions and
    approximations, a few ulp), so that loops over them vectorize and no library
    is called; those that LLVM has instructions for stay. A function of f64, or
    one that has no approximation, is an error.

    With `exp2`, e^x is 2^(x log2 e), approximate (afn), which stays, and 1 /
    sqrt(x) is a quotient: GPUs have instructions for these.
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
    softmax, in parallel over KV heads and blocks of tokens: no more than a block
    of scores is ever stored, and blocks that no token may see are not read. What
    is done to scores and output elementwise is kept, whatever it is.

    A softmax of another form becomes its parts, on all scores, with a
    missed-optimization remark that says what was expected.
  }];
  let options = [
    Option<"amx", "amx", "bool", "false",
           "the CPU multiplies tiles of bf16 (AMX-BF16): of bf16, products are made "
           "of bf16, to which probabilities are rounded">];
  let dependentDialects = [
    "::mlir::affine::AffineDialect", "::mlir::arith::ArithDialect",
    "::mlir::linalg::LinalgDialect", "::mlir::math::MathDialect",
    "::mlir::scf::SCFDialect", "::mlir::tensor::TensorDialect"];
}

def LowerContractions : Pass<"lower-contractions", "::mlir::func::FuncOp"> {
  let summary = "lower matrix products on memrefs to loops over vectors";
  let description = [{
    Every `linalg.generic` on memrefs that is a product of two matrices into f32,
    the second one perhaps in blocks of integers, each with a scale, becomes loops
    over vector ops, in parallel (`scf.forall`) where it is not inside a parallel
    loop yet. Extents may be any number; the token count alone
    may be dynamic, at most the function's `chunk`. Products of other forms, those
    that do more than to multiply and add, and those whose terms have an order are
    left alone, each with a missed-optimization remark that says why.
  }];
  let options = [
    Option<"lanes", "lanes", "int64_t", "8", "f32 values in a vector">,
    Option<"registers", "registers", "int64_t", "16", "vector registers">,
    Option<"dotBf16", "dot-bf16", "bool", "false",
           "the CPU multiplies bf16 pairs (AVX512-BF16), faster than f32">,
    Option<"dotBytes", "dot-bytes", "bool", "false",
           "the CPU multiplies four neighbours of 8 bits (vpdpbusd)">,
    Option<"amx", "amx", "bool", "false",
           "the CPU multiplies tiles of bf16 (AMX-BF16)">,
    Option<"amxBytes", "amx-bytes", "bool", "false",
           "the CPU multiplies tiles of 8 bits (AMX-INT8)">,
    Option<"streams", "streams", "int64_t", "1",
           "rows of b that one row of a is multiplied with at once">,
    Option<"blockForL2", "block-for-l2", "bool", "false",
           "block products of matrices for the second cache">];
  let dependentDialects = [
    "::mlir::amx::AMXDialect", "::mlir::arith::ArithDialect", "::mlir::LLVM::LLVMDialect",
    "::mlir::math::MathDialect", "::mlir::memref::MemRefDialect", "::mlir::scf::SCFDialect", "::mlir::vector::VectorDialect",
    "::mlir::x86vector::X86VectorDialect"];
}

def EmulateAmx : Pass<"emulate-amx", "::mlir::func::FuncOp"> {
  let summary = "lower AMX to loops over buffers, for tests";
  let description = [{
    Every op of the `amx` dialect becomes linalg on a buffer in memory, so that
    the schedule of lower-contractions runs on a CPU without AMX. A tile that a
    loop carries must be the sum of a product in the loop.
  }];
  let dependentDialects = [
    "::mlir::arith::ArithDialect", "::mlir::linalg::LinalgDialect",
    "::mlir::memref::MemRefDialect"];
}

def RoundToBf16 : Pass<"round-to-bf16", "::mlir::func::FuncOp"> {
  let summary = "round f32 to bf16 by integer arithmetic";
  let description = [{
    As arith-expand does, of scalars and vectors, but without a choice, which LLVM
    makes of single elements where a CPU does not know bf16.
  }];
  let dependentDialects = ["::mlir::arith::ArithDialect"];
}

def LowerToLoops : Pass<"lower-linalg-to-loops", "::mlir::func::FuncOp"> {
  let summary = "lower what is left of linalg on memrefs to loops";
  let description = [{
    Elementwise ops, reductions and copies become loops of scalars, which LLVM
    vectorizes; elementwise ops on blocks of 8 to 64 bytes that lie side by side
    become loops of vectors. The outermost loop is parallel (`scf.forall`) where
    its extent is dynamic, the token count, and it is not inside a parallel loop
    yet. An innermost reduction is carried in a register; a missed-optimization
    remark names each sum whose terms may not be reordered, and so not vectorized.

    With `plain`, upstream's loops take the place of these.
  }];
  let options = [Option<"plain", "plain", "bool", "false",
                        "the loops of upstream's convert-linalg-to-loops">];
  let dependentDialects = [
    "::mlir::affine::AffineDialect", "::mlir::arith::ArithDialect",
    "::mlir::memref::MemRefDialect", "::mlir::scf::SCFDialect",
    "::mlir::vector::VectorDialect"];
}

def LowerToAbi : Pass<"lower-to-abi", "::mlir::ModuleOp"> {
  let summary = "meet the runtime: entry signatures, slots, parallel loops";
  let description = [{
    Entry functions get the signature `CriaEntry` of runtime/Abi.h and the name
    `cria_<entry>`; a call of a weight's function becomes a load from the slot
    table; each `scf.forall` becomes a function over a range of iterations and a
    call of the host's `parallel_for`; before each call of a kernel, the host's
    `enter` is told which. Memrefs are built from bare pointers with
    `builtin.unrealized_conversion_cast`s that the conversion to LLVM resolves.
  }];
  // AMX: convert-to-llvm, which follows, takes only dialects that are loaded.
  let dependentDialects = ["::mlir::amx::AMXDialect",
                           "::mlir::func::FuncDialect",
                           "::mlir::arith::ArithDialect",
                           "::mlir::LLVM::LLVMDialect",
                           "::mlir::scf::SCFDialect"];
}

//===----------------------------------------------------------------------===//
// CUDA
//===----------------------------------------------------------------------===//

def ConvertLinalgToGpu : Pass<"convert-linalg-to-gpu", "::mlir::ModuleOp"> {
  let summary = "build the GPU kernels of functions that a schedule takes";
  let description = [{
    Before: kernel functions on tensors, in linalg. After: a `gpu.module`, and
    behind each function `k` that a schedule takes a function `k.launch` on
    memrefs that launches its kernels. It stays itself: bufferization needs it.

    What a function is made of chooses the schedule: attention (around a
    softmax), products of up to eight rows (decode) a gemv, of more a tiled
    product on tensor cores or by fma, statistics of rows (norms) a block a row,
    the rest a thread an element. Elementwise ops around a product become its
    prologue and epilogue; what does not fit into one launch becomes several,
    with a remark. A missed-optimization remark names functions that no schedule
    takes. A further entry, `sample`, draws an id from the logits of `decode`.

    The module has the chips as targets. Where some have wgmma (sm_90a), products of
    more than 128 rows, and attention of prompts with heads 64 or 128 wide, are by
    warpgroups there; where others have not, kernels of both kinds have the attribute
    `cria.wgmma`, which says whom they are for.
  }];
  let options = [ListOption<"chips", "chips", "std::string",
                            "NVIDIA architectures that kernels are for">];
  let dependentDialects = [
    "::mlir::affine::AffineDialect", "::mlir::arith::ArithDialect",
    "::mlir::gpu::GPUDialect",
    "::mlir::LLVM::LLVMDialect", "::mlir::math::MathDialect",
    "::mlir::memref::MemRefDialect", "::mlir::nvgpu::NVGPUDialect",
    "::mlir::NVVM::NVVMDialect", "::mlir::scf::SCFDialect",
    "::mlir::vector::VectorDialect"];
}

def DecomposeSoftmax : Pass<"decompose-softmax", "::mlir::ModuleOp"> {
  let summary = "take softmaxes apart that no schedule launches";
  let description = [{
    Each `linalg.softmax` on tensors becomes its parts, on all scores, with a
    missed-optimization remark where nothing launches its function (see
    `inline-launches`).
  }];
  let dependentDialects = [
    "::mlir::arith::ArithDialect", "::mlir::linalg::LinalgDialect",
    "::mlir::math::MathDialect", "::mlir::tensor::TensorDialect"];
}

def InlineLaunches : Pass<"inline-launches", "::mlir::ModuleOp"> {
  let summary = "put kernel functions, or what launches them, into the entries";
  let description = [{
    Before: bufferized entries that call kernel functions `@k`, some of which
    have a function `@k.launch` beside them that takes the same arguments,
    returns nothing, and launches kernels which compute the same. After: the
    entries have the bodies of the latter, else those of the former, whose ops
    have the name in the attribute `cria.kernel`; both are gone. Declarations
    stay. Launches that the plan cannot say (in a branch, on a grid of a size
    that it does not know) are not made: a missed-optimization remark says why.
  }];
}

def LowerLinalgToLaunches : Pass<"lower-linalg-to-launches", "::mlir::ModuleOp"> {
  let summary = "launch a kernel for each op that has none";
  let description = [{
    Before: entries on memrefs, whose kernels are inlined. After: they launch
    kernels and do nothing else.

    - A linalg op or a copy becomes a kernel of a thread for each element of its
      parallel loops; a thread runs the reductions. The number of tokens is a
      dimension of the grid; other sizes that the plan does not know are bounded
      by what can be told from the ops that make them.
    - Any other op that touches memory, and one that nothing bounds, is run whole
      by one thread, linalg in it as loops; so are ops behind it that use a
      buffer which it makes. Other results go through memory.
    - A loop stays on the host where its turn chooses layers alone. Else it is
      run by one thread, or copied for each turn where it reads weights or
      launches kernels.

    Each such kernel is named by a missed-optimization remark.
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
    attributes. The memref begins there whatever the offset of its layout is,
    and is built with a `builtin.unrealized_conversion_cast` that the conversion
    to LLVM resolves; its dynamic sizes are poison, so nothing may compute with
    them. One with dynamic strides is only cast (`memref.reinterpret_cast`).
    One with the attribute `cria.tensor_map` becomes a pointer to a tensor map, and
    may only be cast to one; the kernel's attribute of that name numbers these.
    Other memrefs are an error, other arguments stay.
  }];
  let dependentDialects = ["::mlir::LLVM::LLVMDialect"];
}

def MathToIntrinsics : Pass<"math-to-intrinsics", "::mlir::gpu::GPUFuncOp"> {
  let summary = "make functions in a kernel calls of LLVM's intrinsics";
  let description = [{
    Functions that have instructions on a GPU become `llvm.call_intrinsic` with
    the op's fast-math flags: of the math dialect those that round, test or
    count, `absf`, `absi`, `copysign`, `exp2`, `fma` and `sqrt`, and
    `arith.maxnumf` and `minnumf`. Other functions (the rest of the math
    dialect, `arith.remf`) are errors. After it, upstream's conversion to NVVM calls no
    function of NVIDIA's libdevice.
  }];
  let dependentDialects = ["::mlir::LLVM::LLVMDialect"];
}

def OverlapLaunches : Pass<"overlap-launches", "::mlir::gpu::GPUFuncOp"> {
  let summary = "wait in a kernel for the launch before it, behind copies of weights";
  let description = [{
    Copies of weights to shared memory at a kernel's begin come first. Weights are
    the parameters that `cria.weights` names. Loads of anything else that stand
    between the copies, and what is computed from these loads, move behind them. A
    copy that needs such a load stays behind it.

    On sm_90 and later a launch may begin while the launch before it still runs.
    Where the `gpu.module` has such a target, `nvvm.griddepcontrol
    launch_dependents` and `wait` stand behind the copies, in the entry block: all
    threads of all blocks wait, so who waits for a launch has waited for all before
    it. Before the wait a kernel reads weights only, which no launch writes, and
    writes shared memory only. The code for other targets has neither op.
  }];
  let dependentDialects = ["::mlir::NVVM::NVVMDialect"];
}

def PlanLaunches : Pass<"plan-launches", "::mlir::ModuleOp"> {
  let summary = "turn the host's functions into the plan of the gpu.module";
  let description = [{
    Before: entry functions (lowering/Entry.h) that launch kernels of one
    `gpu.module`, also in loops between constants, and otherwise only compute
    numbers and views. After: the module's attribute `cria.plan` says what the
    entries launch, in the form of docs/artifact.md; entries, weights' and rope
    tables' declarations and globals are gone.

    - A memref that a kernel is given is a view of an entry's argument, of a
      weight, or of a global of zeros. Globals share the first 64 KiB of the
      device's arena, which are zero when a session begins; the entries' arenas
      begin behind them, all at the same place.
    - A number that a kernel is given is no parameter any more: the kernel reads
      `CriaStepState`, a parameter behind the others, and computes it. So each
      kernel has one launch.
    - A kernel's memref parameter with a dynamic offset has offset 0: the address
      in the plan is that of its first element. One with a static offset begins
      so far before it.
    - A kernel's attribute `cria.weights` has the numbers of the parameters that
      are weights or tables of rope: no launch writes to their memory.

    What the plan cannot say is an error at the launch, and so is any op that
    would have to run on the host.
  }];
  let dependentDialects = ["::mlir::arith::ArithDialect",
                           "::mlir::memref::MemRefDialect"];
}

#endif
