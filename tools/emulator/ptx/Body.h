/// The bodies of functions.
#pragma once

#include "tools/emulator/ptx/Cursor.h"

namespace cria::emulator {

/// One argument of an instruction or of an initializer.
Operand parseOperand(Cursor &cursor);

/// `{ ... }` into the scopes, the variables and the body of `function`.
void parseBody(Cursor &cursor, Function &function);

} // namespace cria::emulator
