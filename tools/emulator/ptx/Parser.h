/// PTX text to a syntax tree.
#pragma once

#include "tools/emulator/ptx/Ast.h"

#include <variant>

namespace cria::emulator {

/// The module of `text`, or the first error in it. The bytes may be anything.
/// The meaning of instructions is not checked.
std::variant<PtxModule, Error> parsePtx(llvm::StringRef text);

} // namespace cria::emulator
