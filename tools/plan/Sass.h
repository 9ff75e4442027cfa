/// Figures of a kernel's main loops, from a listing of nvdisasm.
///
/// PTX does not show what runs: ptxas moves loads to the place where their
/// registers are read. So the figures come from SASS:
///
///   loads   the number of 16-byte loads of a lane that are on their way from
///           memory, on average over time. A load takes kLatency cycles, any
///           other instruction takes one. A warp runs in order: an instruction
///           waits for the loads whose registers it reads, and DEPBAR waits for
///           groups of asynchronous copies. If one lane begins a bulk copy for
///           its warp, each lane has a part of it. A turn waits for the bulk
///           copies that the turn before has begun, barrier by barrier. By
///           Little's law the average is the 16-byte loads of a turn times
///           kLatency divided by the turn's cycles:
///
///             ld a, ld b, use a, use b    2   both arrive in one kLatency
///             ld a, use a, ld b, use b    1   one after the other
///
///           Only loads of weights and caches count: they are streamed, that
///           is, no block has read them before. All blocks read the input of a
///           product, so that loads of it take kCached cycles. A load streams
///           if a kernel parameter that points to a weight or a cache flows
///           into its address. If the main loops of a kernel stream nothing,
///           all loads count.
///   mma     instructions of a turn for each MMA in it
///
/// A loop reaches from a label to the last branch back to it. The main loop of
/// a kernel is the loop with the most MMAs or, if the kernel has no MMAs, with
/// the most bytes streamed. Instructions of inner loops are not counted for the
/// outer loop: they count for their own loop. A kernel of several products (q,
/// k, v) has a main loop for each weight; of the main loops with more than half
/// of the largest count, the worst figure is reported. Where several loops go
/// over one weight, the first counts: ptxas or the schedule may have made
/// another loop for the rest of a row. A kernel that streams without a loop is
/// treated as one turn.
#pragma once

#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/Support/Error.h"

#include <map>
#include <optional>
#include <vector>

namespace cria::sass {

struct Instruction {
  /// The predicate; with "!" if it must be false; empty if there is none.
  llvm::StringRef guard;
  /// The name without modifiers.
  llvm::StringRef op;
  llvm::SmallVector<llvm::StringRef, 4> modifiers, operands;
  /// The target of a branch.
  llvm::StringRef label;
  /// Numbers of registers; those of uniform registers, which the threads of a
  /// warp share, begin at kUniform.
  llvm::SmallVector<int, 8> reads, writes;
  /// An offset in the constant bank that has the parameters, and whether a
  /// register is added to it.
  std::optional<int64_t> constant;
  bool indexed = false;
  /// The parameters, one bit each, that a load's address is computed from.
  uint64_t streams = 0;

  bool isMma() const;
  bool has(llvm::StringRef modifier) const;
  /// Of a load or a copy: the bytes that it brings to a lane.
  int64_t bytes() const;
  /// Of a bulk copy: the bytes that it brings to its warp, if they are
  /// constant.
  std::optional<int64_t> bulk;
  bool isBulk() const { return op == "UBLKCP"; }
  /// Whether it arrives at a barrier and announces bytes; whether it waits for
  /// a barrier.
  bool announces() const;
  bool awaitsBarrier() const;
};

/// Adds the registers that an operand names. From each named register on
/// `width` follow one another, or two if the name ends in ".64".
void addRegisters(llvm::StringRef operand, int width,
                  llvm::SmallVectorImpl<int> &numbers);

inline constexpr int kUniform = 256, kRegisters = 2 * kUniform;

/// The first and the last instruction.
using Loop = std::pair<size_t, size_t>;

struct Kernel {
  std::vector<Instruction> code;
  llvm::StringMap<size_t> labels;
  std::vector<Loop> loops;

  /// The instruction that a branch goes to. BSSY is no branch: it only names
  /// the place where paths meet.
  std::optional<size_t> target(const Instruction &instruction) const;
  llvm::SmallVector<size_t, 2> successors(size_t index) const;
};

/// The kernels in the output of `nvdisasm -c`, which must outlive them.
std::map<std::string, Kernel> readListing(llvm::StringRef listing);

/// Parameters of a kernel, by the words of the constant bank.
struct Parameters {
  /// The bit of the parameter that each word belongs to.
  std::map<int64_t, uint64_t> words;
  /// The bits of the parameters that are weights or caches.
  uint64_t streamed = 0;
};

struct Figures {
  std::optional<double> loads, mma;
};

/// The figures of a kernel of `threads` threads. Errors: an instruction that
/// copies in a way that is not known here.
llvm::Expected<Figures> figuresOf(Kernel kernel, int64_t threads,
                                  const Parameters &parameters);

} // namespace cria::sass
