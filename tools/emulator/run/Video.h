/// The video instructions: arithmetic on bytes and halves of 32-bit operands.
#pragma once

#include <cstdint>

namespace cria::emulator {

struct Thread;

enum class VideoOp : uint32_t {
  Add,
  Sub,
  Average,
  AbsoluteDifference,
  Min,
  Max,
  ShiftLeft,
  ShiftRight,
  Equal,
  NotEqual,
  Less,
  LessEqual,
  Greater,
  GreaterEqual
};

/// What follows the operation: the result is merged into operand c, or combined
/// with it.
enum class VideoSecond : uint32_t { Merge, Add, Min, Max };

/// An instruction's modifiers. A part is a byte, a half or the whole of an
/// operand; `parts` are computed at once.
struct VideoConfig {
  VideoOp op = VideoOp::Add;
  VideoSecond second = VideoSecond::Merge;
  uint32_t parts = 1;
  bool signedD = false, signedA = false, signedB = false;
  bool saturates = false, wraps = false; ///< wraps: shifts by the amount mod 32

  constexpr uint32_t packed() const {
    return uint32_t(op) | uint32_t(second) << 4 | parts << 8 | signedD << 12 |
           signedA << 13 | signedB << 14 | saturates << 15 | wraps << 16;
  }
  static constexpr VideoConfig unpacked(uint32_t bits) {
    auto bit = [bits](unsigned i) { return bool(bits >> i & 1); };
    return {VideoOp(bits & 15),
            VideoSecond(bits >> 4 & 15),
            bits >> 8 & 15,
            bit(12),
            bit(13),
            bit(14),
            bit(15),
            bit(16)};
  }
};

/// Where the parts of an operand are: a nibble for each part, which counts
/// parts of `bits` from the low end of {b, a}.
struct VideoSelector {
  uint32_t bits = 32, places = 0;

  constexpr uint32_t packed() const { return bits | places << 8; }
  static constexpr VideoSelector unpacked(uint32_t packed) {
    return {packed & 255, packed >> 8};
  }
};

} // namespace cria::emulator

extern "C" {
/// The selectors of A, B and D. That of D names parts of D; `mask` says which
/// of the results are wanted.
uint32_t emulatorVideo(cria::emulator::Thread *thread, uint32_t config,
                       uint32_t selectA, uint32_t selectB, uint32_t selectD,
                       uint32_t mask, uint32_t a, uint32_t b, uint32_t c);
/// fns: the place of the n-th set bit; all ones if there is none.
uint32_t emulatorFindNth(cria::emulator::Thread *thread, uint32_t mask,
                         uint32_t base, int32_t n);
}
