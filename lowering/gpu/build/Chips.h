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

/// Whether a chip has products of warpgroups (wgmma), and copies of boxes
/// (TMA).
inline bool hasWgmma(llvm::StringRef chip) { return chip == "sm_90a"; }

struct Chips {
  /// Whether some chips have wgmma, and some do not.
  bool wgmma = false, others = true;
};

} // namespace cria::simt
