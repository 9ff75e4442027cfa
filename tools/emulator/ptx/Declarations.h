/// Variables, parameters and registers.
#pragma once

#include "tools/emulator/ptx/Cursor.h"

namespace cria::emulator {

/// A variable of `space`; the cursor stands after the space's name and is left
/// before the `;`.
Variable parseVariable(Cursor &cursor, llvm::StringRef space);

/// `(.param .u64 a, ...)`, offsets not yet set.
std::vector<Parameter> parseParameters(Cursor &cursor);

/// `.b32 %r<5>, %x;` after `.reg`, the `;` included.
void parseRegisters(Cursor &cursor, Scope &scope);

/// `value` rounded up to a multiple of `align`.
inline uint64_t alignTo(uint64_t value, uint64_t align) {
  return (value + align - 1) / align * align;
}

} // namespace cria::emulator
