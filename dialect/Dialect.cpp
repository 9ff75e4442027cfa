#include "dialect/Dialect.h"

#include "mlir/IR/DialectImplementation.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace cria::llama;

#include "dialect/Dialect.cpp.inc"

#define GET_TYPEDEF_CLASSES
#include "dialect/Types.cpp.inc"

RankedTensorType cria::llama::storageType(RankedTensorType type) {
  auto blocks = dyn_cast<BlocksType>(type.getElementType());
  if (!blocks)
    return type;
  SmallVector<int64_t> shape(type.getShape());
  shape.back() /= BlocksType::kNumbers;
  shape.push_back(blocks.getBytes());
  return RankedTensorType::get(shape, IntegerType::get(type.getContext(), 8));
}

int64_t cria::llama::storageBytes(RankedTensorType type) {
  type = storageType(type);
  return type.getNumElements() * (type.getElementTypeBitWidth() / 8);
}

void LlamaDialect::initialize() {
  addTypes<
#define GET_TYPEDEF_LIST
#include "dialect/Types.cpp.inc"
      >();
  addOperations<
#define GET_OP_LIST
#include "dialect/Ops.cpp.inc"
      >();
}
