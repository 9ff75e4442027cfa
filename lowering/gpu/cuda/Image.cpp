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

/// The oldest chip. Kernels that several chips run are compiled for this one.
static constexpr StringLiteral kBaseChip = "sm_80";
/// The first chip that has griddepcontrol.
static constexpr int kOverlapChip = 90;
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

/// Makes griddepcontrol inline assembly, for kBaseChip, which does not have it.
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

static bool isForWgmma(LLVM::LLVMFuncOp kernel) {
  auto own = kernel->getAttrOfType<BoolAttr>(simt::kWgmmaAttribute);
  return own && own.getValue();
}

/// Generates PTX for `target` of the kernels that have wgmma or, in a module
/// for kBaseChip, of all others.
static FailureOr<Ptx> makePtx(ModuleOp module, NVVM::NVVMTargetAttr target) {
  OwningOpRef<ModuleOp> copy(module.clone());
  auto kernels = *copy->getOps<gpu::GPUModuleOp>().begin();
  bool wgmma = simt::hasWgmma(target.getChip());
  for (auto kernel : llvm::to_vector(kernels.getOps<LLVM::LLVMFuncOp>()))
    if (isForWgmma(kernel) != wgmma)
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
      add(image, rest.take_front(size), isIn);
      rest = after;
      continue;
    }
    add(image, before, isIn);
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

/// Joins each binary's PTX from `base`, the kernels compiled for kBaseChip, and
/// `wgmma`, the kernels that use wgmma. If `own` has a kernel, it is only for
/// chips with wgmma (true) or only for the others (false); else it is for all
/// chips.
static void joinPtx(CudaImage &image, const Ptx &base, const Ptx &wgmma,
                    const llvm::StringMap<bool> &own) {
  auto all = [](const CudaBinary &) { return true; };
  auto [before, after] = StringRef(base.header).split(kBaseChip);
  for (CudaBinary &only : image.binaries)
    add(image, (before + only.chip + after).str(),
        [&](const CudaBinary &binary) { return &binary == &only; });
  add(image, base.declarations, all);
  add(image, newLines(wgmma.declarations, base.declarations),
      [](const CudaBinary &binary) { return binary.wgmma; });
  for (const Ptx *ptx : {&base, &wgmma})
    for (const auto &[name, text] : ptx->kernels) {
      auto is = own.find(name);
      addKernel(image, text, [&](const CudaBinary &binary) {
        return is == own.end() || is->second == binary.wgmma;
      });
    }
  add(image, base.end, all);
}

llvm::Expected<CudaImage> cria::makeCudaImage(ModuleOp module) {
  CudaImage image;
  auto kernels = *module.getOps<gpu::GPUModuleOp>().begin();
  image.plan = kernels->getAttrOfType<DictionaryAttr>(simt::kPlanAttribute);
  bool hasWgmma = false;
  llvm::StringMap<bool> own;
  for (auto kernel : kernels.getOps<LLVM::LLVMFuncOp>()) {
    image.kernels.push_back(kernel.getName().str());
    hasWgmma |= isForWgmma(kernel);
    if (kernel->hasAttr(simt::kWgmmaAttribute))
      own[kernel.getName()] = isForWgmma(kernel);
  }
  auto targetOf = [&](NVVM::NVVMTargetAttr like, StringRef chip) {
    return NVVM::NVVMTargetAttr::get(like.getContext(), like.getO(),
                                     like.getTriple(), chip, like.getFeatures(),
                                     like.getFlags(), like.getLink());
  };
  SmallVector<NVVM::NVVMTargetAttr> compiled;
  for (auto target :
       kernels.getTargetsAttr().getAsRange<NVVM::NVVMTargetAttr>()) {
    CudaBinary &ptx = image.binaries.emplace_back();
    ptx.format = "ptx";
    ptx.chip = target.getChip().str();
    ptx.dependent = overlapsLaunches(ptx.chip);
    ptx.wgmma = simt::hasWgmma(ptx.chip);
    if (compiled.empty())
      compiled.push_back(targetOf(target, kBaseChip));
    if (ptx.wgmma && hasWgmma)
      compiled.push_back(targetOf(target, ptx.chip));
  }
  Ptx made[2];
  auto make = [&](size_t i) -> LogicalResult {
    FailureOr<Ptx> ptx = makePtx(module, compiled[i]);
    if (succeeded(ptx))
      made[i] = std::move(*ptx);
    return ptx;
  };
  if (failed(failableParallelForEachN(module.getContext(), 0, compiled.size(),
                                      make)))
    return llvm::createStringError("");
  joinPtx(image, made[0], made[1], own);
  return image;
}
