/// Several PTX modules to one.
#pragma once

#include "tools/emulator/ptx/Ast.h"

#include "llvm/ADT/ArrayRef.h"

#include <variant>

namespace cria::emulator {

/// The module of `texts`: names that one text declares with `.extern` are the
/// definitions of another; names that are private to a text stay so. Lines
/// count through all texts, as if they were written one after the other.
std::variant<PtxModule, Error> linkPtx(llvm::ArrayRef<std::string> texts);

} // namespace cria::emulator
