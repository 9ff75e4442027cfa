#include "lowering/gpu/cuda/Image.h"

#include "lowering/gpu/Chips.h"
#include "lowering/gpu/KernelBuilder.h"
#include "lowering/gpu/Launches.h"

#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/Dialect/GPU/Transforms/Passes.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/IR/Threading.h"
#include "mlir/Pass/PassManager.h"

using namespace mlir;
using namespace cria;
namespace json = llvm::json;

/// The first chip that has griddepcontrol.
static constexpr int kOverlapChip = 90;

static json::Value toJson(Attribute attr) {
  if (auto number = dyn_cast<IntegerAttr>(attr)) {
    if (number.getType().isInteger(1))
      return number.getValue().getBoolValue();
    return number.getInt();
  }
  if (auto text = dyn_cast<StringAttr>(attr))
    return text.getValue();
  if (auto array = dyn_cast<ArrayAttr>(attr)) {
    json::Array values;
    for (Attribute value : array)
      values.push_back(toJson(value));
    return values;
  }
  json::Object object;
  for (NamedAttribute entry : cast<DictionaryAttr>(attr))
    object[entry.getName().strref()] = toJson(entry.getValue());
  return object;
}

std::vector<std::string> cria::chipsOf(ModuleOp module) {
  std::vector<std::string> chips;
  for (auto kernels : module.getOps<gpu::GPUModuleOp>())
    if (ArrayAttr targets = kernels.getTargetsAttr())
      for (auto target : targets.getAsRange<NVVM::NVVMTargetAttr>())
        chips.push_back(target.getChip().str());
  return chips;
}

bool cria::overlapsLaunches(StringRef chip) {
  return simt::numberOf(chip) >= kOverlapChip;
}

/// Fits kernels to a chip. Without `dependent` the waits for the launch before
/// are removed: the chip has no griddepcontrol. With `dependent` that launch
/// may still write what a kernel reads. So only weights are constant while a
/// kernel runs (ld.global.nc), and only weights may be read before the wait.
/// LLVM concludes both from noalias, so that only weights keep it.
static void adapt(gpu::GPUModuleOp kernels, bool dependent) {
  if (!dependent) {
    kernels.walk([](NVVM::GriddepcontrolOp op) { op.erase(); });
    return;
  }
  for (auto kernel : kernels.getOps<LLVM::LLVMFuncOp>())
    for (unsigned i = 0; i < kernel.getNumArguments(); ++i)
      if (!simt::isGiven(kernel, static_cast<int32_t>(i)))
        kernel.removeArgAttr(i, LLVM::LLVMDialect::getNoAliasAttrName());
}

/// Removes the kernels that are only for chips with wgmma, or only for chips
/// without.
static void takeKernelsOf(gpu::GPUModuleOp kernels, bool wgmma) {
  for (auto kernel :
       llvm::make_early_inc_range(kernels.getOps<LLVM::LLVMFuncOp>()))
    if (auto own = kernel->getAttrOfType<BoolAttr>(simt::kWgmmaAttribute))
      if (own.getValue() != wgmma)
        kernel.erase();
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

static FailureOr<CudaBinary> makePtx(ModuleOp module,
                                     NVVM::NVVMTargetAttr target) {
  OwningOpRef<ModuleOp> copy(module.clone());
  auto kernels = *copy->getOps<gpu::GPUModuleOp>().begin();
  bool wgmma = simt::hasWgmma(target.getChip());
  takeKernelsOf(kernels, wgmma);
  for (auto kernel : kernels.getOps<LLVM::LLVMFuncOp>())
    passTensorMaps(kernel);
  auto verified = NVVM::NVVMTargetAttr::get(
      target.getContext(), target.getO(), target.getTriple(), target.getChip(),
      target.getFeatures(), target.getFlags(), target.getLink());
  kernels.setTargetsAttr(Builder(target.getContext()).getArrayAttr(verified));
  bool dependent = overlapsLaunches(target.getChip());
  adapt(kernels, dependent);
  PassManager pm(module.getContext());
  GpuModuleToBinaryPassOptions options;
  options.compilationTarget = "isa";
  pm.addPass(createGpuModuleToBinaryPass(options));
  if (failed(pm.run(*copy)))
    return failure();
  auto binary = *copy->getOps<gpu::BinaryOp>().begin();
  auto object = cast<gpu::ObjectAttr>(binary.getObjects()[0]);
  // LLVM ends the text with a zero byte.
  std::string text = object.getObject().getValue().rtrim('\0').str();
  return CudaBinary{"ptx",           target.getChip().str(),
                    std::move(text), dependent,
                    wgmma,           /*log=*/""};
}

llvm::Expected<CudaImage> cria::makeCudaImage(ModuleOp module) {
  CudaImage image;
  auto kernels = *module.getOps<gpu::GPUModuleOp>().begin();
  image.plan = *toJson(kernels->getAttr("cria.plan")).getAsObject();
  for (auto kernel : kernels.getOps<LLVM::LLVMFuncOp>())
    image.kernels.push_back(kernel.getName().str());
  auto targets = llvm::to_vector(
      kernels.getTargetsAttr().getAsRange<NVVM::NVVMTargetAttr>());
  image.binaries.resize(targets.size());
  auto make = [&](size_t i) -> LogicalResult {
    FailureOr<CudaBinary> ptx = makePtx(module, targets[i]);
    if (succeeded(ptx))
      image.binaries[i] = std::move(*ptx);
    return ptx;
  };
  if (failed(failableParallelForEachN(module.getContext(), 0, targets.size(),
                                      make)))
    return llvm::createStringError("");
  return image;
}
