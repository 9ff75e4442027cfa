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

} // namespace cria::emulator
