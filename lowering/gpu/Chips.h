/// The features of the chips that kernels are built for.
#pragma once

#include "llvm/ADT/StringRef.h"

namespace cria::simt {

/// 90 for sm_90a.
inline int numberOf(llvm::StringRef chip) {
  int number = 0;
  chip.consume_front("sm_");
  chip.consumeInteger(10, number);
  return number;
}

/// Whether a chip has products of warpgroups, and copies of boxes.
inline bool hasWgmma(llvm::StringRef chip) { return chip == "sm_90a"; }

struct Chips {
  /// Whether some have wgmma, and some have not.
  bool wgmma = false, others = true;
};

} // namespace cria::simt
