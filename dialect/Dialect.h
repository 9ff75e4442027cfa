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

#include "dialect/Dialect.h.inc"

#include "dialect/Enums.h.inc"

#define GET_TYPEDEF_CLASSES
#include "dialect/Types.h.inc"

#define GET_OP_CLASSES
#include "dialect/Ops.h.inc"

namespace cria::llama {
/// The tensor of a weight or cache as it lies in memory: (..., K) in blocks is
/// (..., K / 32, bytes of a block) of i8, any other tensor itself.
mlir::RankedTensorType storageType(mlir::RankedTensorType type);
/// The bytes of that tensor.
int64_t storageBytes(mlir::RankedTensorType type);
} // namespace cria::llama
