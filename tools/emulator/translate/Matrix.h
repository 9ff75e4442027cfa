/// What mma.sync and wmma share.
#pragma once

#include "tools/emulator/ptx/Ast.h"
#include "tools/emulator/ptx/Type.h"
#include "tools/emulator/run/matrix/Fragment.h"

namespace cria::emulator {

class Emitter;

/// The element that a type suffix means.
MmaElement elementOf(const Type &type);

/// Registers (of 32 bits, for f64 of 64) that a lane needs for a matrix.
unsigned registersOf(const FragmentLayout &layout);

/// How many registers an operand names.
inline size_t partCount(const Operand &operand) {
  return operand.kind == Operand::Vector ? operand.parts.size() : 1;
}

/// d = a * b + c, where the operands of A and B have `countA` and `countB`
/// registers. Registers that the matrices do not need are ignored.
void emitProduct(Emitter &e, const MmaConfig &config, size_t countA,
                 size_t countB);

} // namespace cria::emulator
