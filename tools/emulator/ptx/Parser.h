/// PTX text to a syntax tree.
#pragma once

#include "tools/emulator/ptx/Ast.h"

#include <variant>

namespace cria::emulator {

/// The module that `text` says, or the first error in it. Any bytes may be
/// given. What instructions mean is not looked at.
std::variant<PtxModule, Error> parsePtx(llvm::StringRef text);

} // namespace cria::emulator
