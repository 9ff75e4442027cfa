/// The features of the chips that kernels are built for.
#pragma once

#include "llvm/ADT/StringRef.h"
#include <algorithm>
#include <array>

namespace cria::simt {

/// 90 for sm_90a.
inline int numberOf(llvm::StringRef chip) {
  int number = 0;
  chip.consume_front("sm_");
  chip.consumeInteger(10, number);
  return number;
}

/// Chips by what kernels may use on them; each also runs what the generations
/// before it run.
enum class Generation {
  Ampere, ///< sm_80: cp.async, mma.sync
  Hopper, ///< sm_90 and later, Blackwell among them: cp.async.bulk, clusters
  Wgmma,  ///< sm_90a alone: products of warpgroups, copies of boxes (TMA)
};
inline constexpr int kGenerations = 3;

inline Generation generationOf(llvm::StringRef chip) {
  if (chip == "sm_90a")
    return Generation::Wgmma;
  return numberOf(chip) < 90 ? Generation::Ampere : Generation::Hopper;
}
/// The oldest chip of a generation. LLVM compiles the generation's kernels for
/// it.
inline llvm::StringRef oldestChip(Generation generation) {
  static constexpr llvm::StringLiteral kChips[] = {"sm_80", "sm_90", "sm_90a"};
  return kChips[static_cast<int>(generation)];
}

/// The generations of the chips of a compilation.
struct Chips {
  std::array<bool, kGenerations> has = {};

  /// Whether there are some from `first` on, before `end`.
  bool haveSome(int first, int end) const {
    return std::any_of(has.begin() + first, has.begin() + end,
                       [](bool each) { return each; });
  }
};

} // namespace cria::simt
