#include "lowering/gpu/cuda/Image.h"

#include "lowering/gpu/build/Chips.h"
#include "lowering/gpu/build/KernelBuilder.h"
#include "lowering/gpu/cuda/Registers.h"
#include "lowering/kernel/Launches.h"

#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/Dialect/GPU/Transforms/Passes.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/IR/Threading.h"
#include "mlir/Pass/PassManager.h"

using namespace mlir;
using namespace cria;

/// The first chip that has griddepcontrol.
static constexpr int kOverlapChip = 90;
/// The first chip whose PTX has a version in which a bulk copy can name the
/// block's own shared memory. Older versions name that of any block of a
/// cluster: then ptxas makes a call of each copy on sm_120, and registers
/// spill.
static constexpr int kOwnCopiesChip = 100;
static constexpr StringLiteral kVersion = ".version 8.0",
                               kOwnCopiesVersion = ".version 8.6";
static constexpr StringLiteral kBulkCopy = "cp.async.bulk.shared::",
                               kToCluster = "cluster", kToOwn = "cta",
                               kFromGlobal = ".global.mbarrier::complete_tx::"
                                             "bytes [";
static constexpr StringLiteral kWait = "griddepcontrol.wait;",
                               kLaunchDependents =
                                   "griddepcontrol.launch_dependents;";

std::vector<std::string> cria::chipsOf(ModuleOp module) {
  std::vector<std::string> chips;
  for (auto kernels : module.getOps<gpu::GPUModuleOp>())
    if (ArrayAttr targets = kernels.getTargetsAttr())
      for (auto target : targets.getAsRange<NVVM::NVVMTargetAttr>())
        chips.push_back(target.getChip().str());
  return chips;
}

/// Whether launches may overlap on a chip: its kernels can wait for the launch
/// before (griddepcontrol).
static bool overlapsLaunches(StringRef chip) {
  return simt::numberOf(chip) >= kOverlapChip;
}

static bool hasOwnCopies(StringRef chip) {
  return simt::numberOf(chip) >= kOwnCopiesChip;
}

/// Lets launches overlap, on the chips that can. The launch before may still
/// write what a kernel reads. So only weights are constant while a kernel runs
/// (ld.global.nc), and only weights may be read before the wait. LLVM concludes
/// both from noalias, so that only weights keep it.
static void allowOverlap(gpu::GPUModuleOp kernels) {
  for (auto kernel : kernels.getOps<LLVM::LLVMFuncOp>())
    for (unsigned i = 0; i < kernel.getNumArguments(); ++i)
      if (!simt::isGiven(kernel, static_cast<int32_t>(i)))
        kernel.removeArgAttr(i, LLVM::LLVMDialect::getNoAliasAttrName());
}

/// Makes griddepcontrol inline assembly, for sm_80, which does not have it.
static void hideWaits(gpu::GPUModuleOp kernels) {
  kernels.walk([&](NVVM::GriddepcontrolOp op) {
    OpBuilder b(op);
    bool waits = op.getKind() == NVVM::GridDepActionKind::wait;
    LLVM::InlineAsmOp::create(
        b, op.getLoc(), TypeRange(), ValueRange(),
        waits ? kWait : kLaunchDependents, "~{memory}",
        /*has_side_effects=*/true, /*is_align_stack=*/false,
        LLVM::TailCallKind::None, LLVM::AsmDialectAttr(), ArrayAttr());
    op.erase();
  });
}

/// Tensor maps are passed by value and never copied: the hardware reads them
/// where they are. A tensor map has 128 bytes and is aligned to 128.
static void passTensorMaps(LLVM::LLVMFuncOp kernel) {
  Builder b(kernel.getContext());
  auto bytes = LLVM::LLVMArrayType::get(b.getI8Type(), 128);
  auto maps =
      kernel->getAttrOfType<DenseI32ArrayAttr>(simt::kTensorMapAttribute);
  for (int32_t i : maps ? maps.asArrayRef() : ArrayRef<int32_t>()) {
    kernel.setArgAttr(i, LLVM::LLVMDialect::getByValAttrName(),
                      TypeAttr::get(bytes));
    kernel.setArgAttr(i, LLVM::LLVMDialect::getAlignAttrName(),
                      b.getI64IntegerAttr(128));
    kernel.setArgAttr(i, NVVM::NVVMDialect::getGridConstantAttrName(),
                      b.getUnitAttr());
  }
}

namespace {
/// PTX as LLVM prints it, divided.
struct Ptx {
  struct Kernel {
    std::string name, text;
  };
  std::string header;       // ".version", ".target", ".address_size"
  std::string declarations; // of the module, a line each
  std::vector<Kernel> kernels;
  std::string end; // what follows the kernels
};
} // namespace

static Ptx divide(StringRef text) {
  static constexpr StringLiteral kSize = ".address_size 64\n",
                                 kEntry = "\n.visible .entry ", kEnd = "\n}\n";
  Ptx ptx;
  auto take = [&](size_t size) {
    StringRef taken = text.take_front(size);
    text = text.drop_front(taken.size());
    return taken;
  };
  ptx.header = take(text.find(kSize) + kSize.size());
  for (StringRef line : llvm::split(take(text.find(kEntry)), '\n'))
    if (!line.empty() && !line.ltrim().starts_with("//"))
      ptx.declarations += (line + "\n").str();
  while (text.starts_with(kEntry)) {
    size_t next = text.find(kEntry, 1);
    StringRef name = text.drop_front(kEntry.size());
    ptx.kernels.push_back(
        {name.take_until([](char c) { return c == '('; }).str(),
         take(text.take_front(next).rfind(kEnd) + kEnd.size()).str()});
    if (next != StringRef::npos) // A comment names the next kernel.
      take(text.find(kEntry));
  }
  ptx.end = text;
  return ptx;
}

using Generations = std::pair<int64_t, int64_t>;

/// Those of a kernel. Of one that is not launched, nothing has checked them.
static Generations generationsOf(LLVM::LLVMFuncOp kernel) {
  return simt::generationsOf(kernel).value_or(
      Generations(0, simt::kGenerations - 1));
}

/// Generates PTX for `target` of the kernels that need its generation.
static FailureOr<Ptx> makePtx(ModuleOp module, NVVM::NVVMTargetAttr target) {
  OwningOpRef<ModuleOp> copy(module.clone());
  auto kernels = *copy->getOps<gpu::GPUModuleOp>().begin();
  auto own = static_cast<int64_t>(simt::generationOf(target.getChip()));
  for (auto kernel : llvm::to_vector(kernels.getOps<LLVM::LLVMFuncOp>()))
    if (generationsOf(kernel).first != own)
      kernel.erase();
    else
      passTensorMaps(kernel);
  kernels.setTargetsAttr(Builder(target.getContext()).getArrayAttr(target));
  allowOverlap(kernels);
  if (!overlapsLaunches(target.getChip()))
    hideWaits(kernels);
  PassManager pm(module.getContext());
  GpuModuleToBinaryPassOptions options;
  options.compilationTarget = "isa";
  pm.addPass(createGpuModuleToBinaryPass(options));
  if (failed(pm.run(*copy)))
    return failure();
  auto binary = *copy->getOps<gpu::BinaryOp>().begin();
  auto object = cast<gpu::ObjectAttr>(binary.getObjects()[0]);
  // LLVM ends the text with a zero byte.
  Ptx ptx = divide(object.getObject().getValue().rtrim('\0'));
  for (Ptx::Kernel &kernel : ptx.kernels)
    kernel.text = cuda::reuseRegisters(kernel.text);
  return ptx;
}

/// Adds a piece to the PTX of some of the image's binaries, all in one order.
static void add(CudaImage &image, StringRef piece,
                llvm::function_ref<bool(const CudaBinary &)> isIn) {
  bool isTaken = false;
  for (CudaBinary &binary : image.binaries) {
    if (!isIn(binary) || piece.empty())
      continue;
    isTaken = true;
    std::vector<TextSpan> &spans = binary.spans;
    if (!spans.empty() &&
        spans.back().offset + spans.back().size == image.text.size())
      spans.back().size += piece.size();
    else
      spans.push_back({image.text.size(), piece.size()});
    binary.bytes += piece;
  }
  if (isTaken)
    image.text += piece;
}

/// Adds a text in which bulk copies go to the block's own shared memory, on the
/// chips whose PTX can say so.
static void addCopies(CudaImage &image, StringRef text,
                      llvm::function_ref<bool(const CudaBinary &)> isIn) {
  std::string copy = (kBulkCopy + kToCluster + kFromGlobal).str();
  for (size_t at; (at = text.find(copy)) != StringRef::npos;) {
    add(image, text.take_front(at + kBulkCopy.size()), isIn);
    for (bool own : {false, true})
      add(image, own ? kToOwn : kToCluster, [&](const CudaBinary &binary) {
        return isIn(binary) && hasOwnCopies(binary.chip) == own;
      });
    text = text.drop_front(at + kBulkCopy.size() + kToCluster.size());
  }
  add(image, text, isIn);
}

/// Adds a kernel, without griddepcontrol for the chips that do not have it.
static void addKernel(CudaImage &image, StringRef kernel,
                      llvm::function_ref<bool(const CudaBinary &)> isIn) {
  static constexpr StringLiteral kBegin = "\t// begin inline asm\n",
                                 kEnd = "\t// end inline asm\n";
  const std::string waits[] = {("\t" + kLaunchDependents + "\n").str(),
                               ("\t" + kWait + "\n").str()};
  auto waitsIn = [&](const CudaBinary &binary) {
    return isIn(binary) && binary.dependent;
  };
  StringRef rest = kernel;
  while (!rest.empty()) {
    auto [before, after] = rest.split(kBegin);
    const std::string *wait =
        llvm::find_if(waits, [after = after](StringRef text) {
          return after.starts_with(text);
        });
    if (wait == std::end(waits)) { // other assembly, or none
      size_t size = rest.size() - after.size();
      addCopies(image, rest.take_front(size), isIn);
      rest = after;
      continue;
    }
    addCopies(image, before, isIn);
    add(image, *wait, waitsIn);
    rest = after.drop_front(wait->size());
    rest.consume_front(kEnd);
  }
}

/// The lines of `declarations` that `known` does not have.
static std::string newLines(StringRef declarations, StringRef known) {
  std::string lines;
  for (StringRef line : llvm::split(declarations, '\n'))
    if (!line.empty() && !known.contains(line))
      lines += (line + "\n").str();
  return lines;
}

/// Joins each binary's PTX from `made`, the kernels that need each generation,
/// which are for the generations of `of`.
static void joinPtx(CudaImage &image, ArrayRef<Ptx> made,
                    const llvm::StringMap<Generations> &of) {
  auto all = [](const CudaBinary &) { return true; };
  for (CudaBinary &only : image.binaries) {
    auto [comment, rest] = StringRef(made[0].header).split(kVersion);
    auto [before, after] = rest.split(oldestChip(simt::Generation::Ampere));
    StringRef version = hasOwnCopies(only.chip) ? kOwnCopiesVersion : kVersion;
    add(image, (comment + version + before + only.chip + after).str(),
        [&](const CudaBinary &binary) { return &binary == &only; });
  }
  std::string known;
  for (auto [i, ptx] : llvm::enumerate(made)) {
    auto first = static_cast<int>(i);
    std::string lines = newLines(ptx.declarations, known);
    add(image, lines,
        [&](const CudaBinary &binary) { return binary.generation >= first; });
    known += lines;
  }
  for (const Ptx &ptx : made)
    for (const auto &[name, text] : ptx.kernels) {
      auto [first, last] = of.at(name);
      addKernel(
          image, text, [first = first, last = last](const CudaBinary &binary) {
            return first <= binary.generation && binary.generation <= last;
          });
    }
  add(image, made[0].end, all);
}

llvm::Expected<CudaImage> cria::makeCudaImage(ModuleOp module) {
  CudaImage image;
  auto kernels = *module.getOps<gpu::GPUModuleOp>().begin();
  image.plan = kernels->getAttrOfType<DictionaryAttr>(simt::kPlanAttribute);
  llvm::StringMap<Generations> of;
  std::array<bool, simt::kGenerations> needed = {true}; // for the header
  for (auto kernel : kernels.getOps<LLVM::LLVMFuncOp>()) {
    image.kernels.push_back(kernel.getName().str());
    Generations generations = generationsOf(kernel);
    needed[static_cast<size_t>(generations.first)] = true;
    of.insert({kernel.getName(), generations});
  }
  NVVM::NVVMTargetAttr like;
  for (auto target :
       kernels.getTargetsAttr().getAsRange<NVVM::NVVMTargetAttr>()) {
    CudaBinary &ptx = image.binaries.emplace_back();
    ptx.format = "ptx";
    ptx.chip = target.getChip().str();
    ptx.dependent = overlapsLaunches(ptx.chip);
    ptx.generation = static_cast<int>(simt::generationOf(ptx.chip));
    like = target;
  }
  std::array<Ptx, simt::kGenerations> made;
  auto make = [&](size_t i) -> LogicalResult {
    if (!needed[i])
      return success();
    StringRef chip = oldestChip(static_cast<simt::Generation>(i));
    auto target = NVVM::NVVMTargetAttr::get(
        like.getContext(), like.getO(), like.getTriple(), chip,
        like.getFeatures(), like.getFlags(), like.getLink());
    FailureOr<Ptx> ptx = makePtx(module, target);
    if (succeeded(ptx))
      made[i] = std::move(*ptx);
    return ptx;
  };
  if (failed(
          failableParallelForEachN(module.getContext(), 0, made.size(), make)))
    return llvm::createStringError("");
  joinPtx(image, made, of);
  return image;
}
