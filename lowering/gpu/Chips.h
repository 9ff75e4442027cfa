/// What the chips have that kernels are built for.
#pragma once

#include "llvm/ADT/StringRef.h"

namespace cria::simt {

/// Whether a chip has products of warpgroups, and copies of boxes.
inline bool hasWgmma(llvm::StringRef chip) { return chip == "sm_90a"; }

struct Chips {
  /// Whether some have wgmma, and some have not.
  bool wgmma = false, others = true;
};

} // namespace cria::simt
