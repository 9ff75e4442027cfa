/// What text in MLIR's syntax must not have: MLIR's parser would crash.
#pragma once

#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"

namespace cria {

/// Reports an error, "NAME:LINE:COLUMN: ...", if the text of a module nests
/// deeper than MLIR's recursive parser, verifier and printer have stack for:
/// by brackets of any kind, by aliases of attributes and types that contain
/// other aliases, or by operators of affine expressions. Also reports an array
/// attribute on which the parser crashes.
llvm::Error checkNesting(llvm::StringRef text, llvm::StringRef name);

} // namespace cria
