/// The llama dialect: ops of Llama-family transformers on tensors. See
/// dialect/README.md.
#pragma once

#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Dialect.h"
#include "mlir/IR/OpDefinition.h"
#include "mlir/IR/OpImplementation.h"
#include "mlir/IR/RegionKindInterface.h"
#include "mlir/IR/SymbolTable.h"
#include "mlir/Interfaces/ControlFlowInterfaces.h"
#include "mlir/Interfaces/InferTypeOpInterface.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/Support/Mutex.h"

#include "dialect/Dialect.h.inc"

namespace cria::llama {
/// See LlamaDialect::warnOfUnknownAttributes.
template <typename Op>
struct KnownAttributes : mlir::OpTrait::TraitBase<Op, KnownAttributes> {
  static mlir::LogicalResult verifyTrait(mlir::Operation *op) {
    mlir::cast<LlamaDialect>(op->getDialect())->warnOfUnknownAttributes(op);
    return mlir::success();
  }
};
} // namespace cria::llama

#include "dialect/Enums.h.inc"

#define GET_TYPEDEF_CLASSES
#include "dialect/Types.h.inc"

#include "dialect/Interfaces.h.inc"

#define GET_OP_CLASSES
#include "dialect/Ops.h.inc"

namespace cria::llama {
/// The type with which a weight or cache is stored in memory. A tensor (..., K)
/// in blocks is stored as (..., K / 32, bytes of a block) of i8. Other types
/// are stored as they are.
mlir::RankedTensorType storageType(mlir::RankedTensorType type);
/// The bytes of a tensor of this type in memory.
int64_t storageBytes(mlir::RankedTensorType type);
} // namespace cria::llama
