/// Modifiers of collective instructions as numbers, for translated code and
/// the runtime.
#pragma once

#include <cstdint>

namespace cria::emulator {

enum class ShuffleMode : uint32_t { Butterfly, Index, Down, Up };
enum class VoteMode : uint32_t { Ballot, All, Any, Uniform };
enum class ReduceOp : uint32_t {
  Add,
  Min,
  Max,
  SignedMin,
  SignedMax,
  And,
  Or,
  Xor
};
enum class BarrierOp : uint32_t { Sync, Arrive, Count, And, Or };

/// A barrier instruction's modifiers.
struct BarrierConfig {
  BarrierOp op = BarrierOp::Sync;
  bool aligned = false; ///< all lanes of a warp must execute it together

  constexpr uint32_t packed() const { return uint32_t(op) | aligned << 8; }
  static constexpr BarrierConfig unpacked(uint32_t bits) {
    return {BarrierOp(bits & 255), bool(bits >> 8 & 1)};
  }
};

/// barrier.cluster.
struct ClusterBarrierConfig {
  bool waits = false; ///< else arrives
  bool isRelaxed = false;
  bool aligned = false; ///< all lanes of a warp must execute it together

  constexpr uint32_t packed() const {
    return uint32_t(waits) | isRelaxed << 1 | aligned << 2;
  }
  static constexpr ClusterBarrierConfig unpacked(uint32_t bits) {
    return {bool(bits & 1), bool(bits & 2), bool(bits & 4)};
  }
};

/// ldmatrix and stmatrix.
struct MatrixConfig {
  uint32_t count = 1; ///< matrices of 8x8 elements of 16 bits
  bool transposed = false;

  constexpr uint32_t packed() const { return count | transposed << 8; }
  static constexpr MatrixConfig unpacked(uint32_t bits) {
    return {bits & 255, bool(bits >> 8 & 1)};
  }
};

/// mma.sync of (16 x k) by (k x 8).
struct MmaConfig {
  enum Element : uint32_t { BFloat16, Half, Signed8, Unsigned8 };

  uint32_t k = 16;
  Element a = BFloat16, b = BFloat16;
  bool halfResult = false; ///< accumulates in f16 instead of f32

  constexpr bool isInteger() const { return a >= Signed8; }
  constexpr uint32_t packed() const {
    return k | a << 8 | b << 12 | uint32_t(halfResult) << 16;
  }
  static constexpr MmaConfig unpacked(uint32_t bits) {
    return {bits & 255, Element(bits >> 8 & 15), Element(bits >> 12 & 15),
            bool(bits >> 16 & 1)};
  }
  constexpr uint32_t elementsPerWord() const { return isInteger() ? 4 : 2; }
  /// Words a lane holds of each operand.
  constexpr uint32_t wordsB() const { return k / (4 * elementsPerWord()); }
  constexpr uint32_t wordsA() const { return 2 * wordsB(); }
  constexpr uint32_t wordsC() const { return halfResult ? 2 : 4; }
};

/// mbarrier.arrive.
struct MbarrierArrival {
  uint32_t count = 1;
  uint32_t bytes = 0; ///< that it expects first
  bool noComplete = false;
  bool drops = false; ///< later phases need that many arrivals less, too
  bool isRelaxed = false;

  /// All but the numbers.
  constexpr uint32_t packed() const {
    return uint32_t(noComplete) | drops << 1 | isRelaxed << 2;
  }
  static constexpr MbarrierArrival unpacked(uint32_t bits) {
    return {1, 0, bool(bits & 1), bool(bits & 2), bool(bits & 4)};
  }
};

/// mbarrier.test_wait and .try_wait.
struct MbarrierWait {
  uint64_t phase = 0; ///< the state of an arrival, or the parity of the phase
  bool isParity = false;
  bool mayBlock = false;
  bool isRelaxed = false;

  /// All but the phase.
  constexpr uint32_t packed() const {
    return uint32_t(isParity) | mayBlock << 1 | isRelaxed << 2;
  }
  static constexpr MbarrierWait unpacked(uint32_t bits) {
    return {0, bool(bits & 1), bool(bits & 2), bool(bits & 4)};
  }
};

/// wgmma.mma_async of m64nNk16.
struct ProductConfig {
  uint32_t n = 8;
  bool isHalf = false;       ///< else bf16
  bool halfResult = false;   ///< accumulates in f16 instead of f32
  bool aInRegisters = false; ///< else in shared memory
  bool negatesA = false, negatesB = false;
  bool transposesA = false, transposesB = false; ///< stored along M or N

  constexpr uint32_t packed() const {
    return n | isHalf << 9 | halfResult << 10 | aInRegisters << 11 |
           negatesA << 12 | negatesB << 13 | transposesA << 14 |
           transposesB << 15;
  }
  static constexpr ProductConfig unpacked(uint32_t bits) {
    auto bit = [bits](unsigned i) { return bool(bits >> i & 1); };
    return {bits & 511, bit(9),  bit(10), bit(11),
            bit(12),    bit(13), bit(14), bit(15)};
  }
  /// Accumulators of a thread.
  constexpr uint32_t words() const { return halfResult ? n / 4 : n / 2; }
};

} // namespace cria::emulator
