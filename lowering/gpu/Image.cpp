#include "lowering/gpu/Image.h"

#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/Dialect/GPU/Transforms/Passes.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Pass/PassManager.h"

using namespace mlir;
using namespace cria;
namespace json = llvm::json;

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

llvm::Expected<CudaImage> cria::makeCudaImage(ModuleOp module) {
  CudaImage image;
  auto kernels = *module.getOps<gpu::GPUModuleOp>().begin();
  image.chip =
      cast<NVVM::NVVMTargetAttr>(kernels.getTargetsAttr()[0]).getChip().str();
  image.plan = *toJson(kernels->getAttr("cria.plan")).getAsObject();
  for (auto kernel : kernels.getOps<LLVM::LLVMFuncOp>())
    image.kernels.push_back(kernel.getName().str());
  OwningOpRef<ModuleOp> copy = module.clone();
  PassManager pm(module.getContext());
  GpuModuleToBinaryPassOptions options;
  options.compilationTarget = "isa";
  pm.addPass(createGpuModuleToBinaryPass(options));
  if (failed(pm.run(*copy)))
    return llvm::createStringError("");
  auto binary = *copy->getOps<gpu::BinaryOp>().begin();
  auto object = cast<gpu::ObjectAttr>(binary.getObjects()[0]);
  // LLVM ends the text with a zero.
  image.ptx = object.getObject().getValue().rtrim('\0').str();
  return image;
}
