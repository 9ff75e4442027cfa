/// Modifiers of collective instructions as numbers, for translated code and
/// the runtime.
#pragma once

#include <cstdint>

namespace cria::emulator {

/// The spaces that generic addresses tell apart at run time.
enum class Space : uint32_t { Other, Local, Param };

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

/// The element types of matrix products.
enum class MmaElement : uint32_t {
  BFloat16,
  Half,
  TFloat32,
  E4M3,
  E5M2,
  Float32,
  Float64,
  Signed4,
  Unsigned4,
  Signed8,
  Unsigned8,
  Int32,
  Bit
};

constexpr uint32_t bitsOf(MmaElement element) {
  switch (element) {
  case MmaElement::BFloat16:
  case MmaElement::Half:
    return 16;
  case MmaElement::E4M3:
  case MmaElement::E5M2:
  case MmaElement::Signed8:
  case MmaElement::Unsigned8:
    return 8;
  case MmaElement::Signed4:
  case MmaElement::Unsigned4:
    return 4;
  case MmaElement::Float64:
    return 64;
  case MmaElement::Bit:
    return 1;
  default:
    return 32;
  }
}

/// (m x k) times (k x n); powers of two, m and n from 8 to 32, k up to 256.
struct MmaShape {
  uint32_t m = 16, n = 8, k = 16;

  constexpr uint32_t packed() const {
    return uint32_t(__builtin_ctz(m)) | __builtin_ctz(n) << 4 |
           __builtin_ctz(k) << 8;
  }
  static constexpr MmaShape unpacked(uint32_t bits) {
    return {1u << (bits & 15), 1u << (bits >> 4 & 15), 1u << (bits >> 8 & 15)};
  }
};

/// D = A * B + C of mma.sync and wmma.mma.
struct MmaConfig {
  MmaShape shape;
  MmaElement a = MmaElement::BFloat16, b = MmaElement::BFloat16;
  MmaElement c = MmaElement::Float32, d = MmaElement::Float32;
  bool saturates = false;
  bool isXor = false; ///< of bits; else and

  constexpr uint32_t packed() const {
    return shape.packed() | uint32_t(a) << 12 | uint32_t(b) << 16 |
           uint32_t(c) << 20 | uint32_t(d) << 24 | uint32_t(saturates) << 28 |
           uint32_t(isXor) << 29;
  }
  static constexpr MmaConfig unpacked(uint32_t bits) {
    auto element = [bits](unsigned at) { return MmaElement(bits >> at & 15); };
    return {MmaShape::unpacked(bits),
            element(12),
            element(16),
            element(20),
            element(24),
            bool(bits >> 28 & 1),
            bool(bits >> 29 & 1)};
  }
};

/// The matrices of a product; C is D, too.
enum class FragmentRole : uint32_t { A, B, C };

/// wmma.load and wmma.store.
struct FragmentConfig {
  FragmentRole role = FragmentRole::A;
  MmaElement element = MmaElement::Half;
  MmaShape shape;
  bool byColumns = false; ///< in memory, columns are contiguous
  bool isStore = false;
  bool isShared = false, isGeneric = false; ///< else global memory

  constexpr uint32_t packed() const {
    return shape.packed() | uint32_t(role) << 12 | uint32_t(element) << 16 |
           uint32_t(byColumns) << 20 | uint32_t(isStore) << 21 |
           uint32_t(isShared) << 22 | uint32_t(isGeneric) << 23;
  }
  static constexpr FragmentConfig unpacked(uint32_t bits) {
    auto bit = [bits](unsigned at) { return bool(bits >> at & 1); };
    return {FragmentRole(bits >> 12 & 3),
            MmaElement(bits >> 16 & 15),
            MmaShape::unpacked(bits),
            bit(20),
            bit(21),
            bit(22),
            bit(23)};
  }
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
