/// The functions of a program, `@forward` and, beside it, `@encode`: see
/// verifyProgram.
#pragma once

#include "mlir/IR/BuiltinTypes.h"

namespace cria {

/// The types of the KV caches that a program's function takes: all inputs
/// behind the ids and the numbers that follow these.
inline llvm::ArrayRef<mlir::Type> cacheTypes(mlir::FunctionType type) {
  auto isIndex = [](mlir::Type input) { return input.isIndex(); };
  return type.getInputs().drop_until(isIndex).drop_while(isIndex);
}

} // namespace cria
