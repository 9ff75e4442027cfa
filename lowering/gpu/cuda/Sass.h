/// What a listing of nvdisasm says of a kernel's main loop.
///
/// PTX does not show what runs: ptxas moves loads to where their registers are
/// read. So figures come from SASS, of the main loops of a kernel:
///
///   loads   how many 16-byte loads of a lane are on their way from memory, on
///           average over time, if each takes kLatency cycles and any other
///           instruction one. In order, as a warp runs: an instruction waits
///           for the loads whose registers it reads, and DEPBAR for groups of
///           asynchronous copies. Bulk copies that one lane begins for its warp
///           have a part for each lane; a turn waits for those that the turn
///           before has begun, barrier by barrier. By Little's law the average
///           is the 16-byte loads of a turn times kLatency over the turn's
///           cycles:
///
///             ld a, ld b, use a, use b    2   both arrive in one kLatency
///             ld a, use a, ld b, use b    1   one after the other
///
///           Loads of what is streamed count: weights and caches, which no
///           block has read before. The input of a product is read by all, and
///           takes kCached cycles. A load streams if a pointer to a weight or a
///           cache, a parameter of the kernel, flows into its address. In a
///           kernel whose main loops stream nothing, all loads count.
///   mma     instructions of a turn for each MMA in it
///
/// A loop is what lies between a label and the last branch back to it. The main
/// loop of a kernel is the one with the most MMAs or, in a kernel without, the
/// most bytes streamed, those of loops within not counted: these are in loops
/// of their own. A kernel of several products (q, k, v) has a main loop for
/// each weight: of those that have more than half of the most, the worst figure
/// counts. Of loops over one weight the first counts, where ptxas or the
/// schedule has made another of what remains of a row. A kernel that streams
/// without a loop is one turn.
#pragma once

#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/Support/Error.h"

#include <map>
#include <optional>
#include <vector>

namespace cria::sass {

struct Instruction {
  /// The predicate, with "!" where it must not hold; empty without.
  llvm::StringRef guard;
  /// The name, without modifiers.
  llvm::StringRef op;
  llvm::SmallVector<llvm::StringRef, 4> modifiers, operands;
  /// Of a branch.
  llvm::StringRef label;
  /// Numbers of registers, from kUniform on those that warps share.
  llvm::SmallVector<int, 8> reads, writes;
  /// An offset in the bank of constants that has the parameters, and whether a
  /// register is added to it.
  std::optional<int64_t> constant;
  bool indexed = false;
  /// The parameters, a bit each, that the address of a load is of.
  uint64_t streams = 0;

  bool isMma() const;
  bool has(llvm::StringRef modifier) const;
  /// Of a load or a copy, what it brings to a lane.
  int64_t bytes() const;
  /// Of a bulk copy, what it brings to its warp, where that is a constant.
  std::optional<int64_t> bulk;
  bool isBulk() const { return op == "UBLKCP"; }
  /// Arrives at a barrier and announces bytes, or waits for a barrier.
  bool announces() const;
  bool awaitsBarrier() const;
};

/// Adds the registers that an operand names, so many from each on: two of what
/// ends in ".64".
void addRegisters(llvm::StringRef operand, int width,
                  llvm::SmallVectorImpl<int> &numbers);

inline constexpr int kUniform = 256, kRegisters = 2 * kUniform;

/// First and last instruction.
using Loop = std::pair<size_t, size_t>;

struct Kernel {
  std::vector<Instruction> code;
  llvm::StringMap<size_t> labels;
  std::vector<Loop> loops;

  /// Where a branch goes. BSSY only names where paths meet.
  std::optional<size_t> target(const Instruction &instruction) const;
  llvm::SmallVector<size_t, 2> successors(size_t index) const;
};

/// The kernels of what `nvdisasm -c` prints, which must outlive them.
std::map<std::string, Kernel> readListing(llvm::StringRef listing);

/// Parameters of a kernel, in the words of the bank of constants.
struct Parameters {
  /// The bit of each word that has one.
  std::map<int64_t, uint64_t> words;
  /// Those that are weights or caches.
  uint64_t streamed = 0;
};

struct Figures {
  std::optional<double> loads, mma;
};

/// The figures of a kernel of so many threads. Errors: an instruction that
/// copies and is not known here.
llvm::Expected<Figures> figuresOf(Kernel kernel, int64_t threads,
                                  const Parameters &parameters);

} // namespace cria::sass
