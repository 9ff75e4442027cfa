/// The names of registers in PTX.
#pragma once

#include "llvm/ADT/StringRef.h"

#include <string>

namespace cria::cuda {

/// Renames the registers of a kernel, whose PTX is as LLVM prints it, so that
/// equal code is equal text, which zstd packs well. LLVM numbers the values of
/// a kernel, so that not even the turns of an unrolled loop are equal. Here a
/// value that only one basic block has takes a register that is free there,
/// from its definition to its last use. Every other value keeps a register of
/// its own; so does every operand of wgmma.mma_async, whose registers are in
/// use until the product is waited for. ptxas finds the values again.
std::string reuseRegisters(llvm::StringRef kernel);

} // namespace cria::cuda
