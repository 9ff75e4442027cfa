/// Instructions and their meaning in C++.
///
/// A case's code is PTX. It finds its inputs in %x0 ... %x3 (64 bits), whose
/// low parts are also in %a0 ... (32 bits), %h0 ... (16 bits) and %p0 ...
/// (bit 0), and leaves results in %y, %r0, %r1, %s and the predicates %q0,
/// %q1, which begin as 0. It may use %t0 ... %t3 (32 bits) and %z (64 bits), 64
/// bytes of its own at %g in global, at %sh in shared and at `own` in local
/// memory, and the thread's number in %n. Registers have no type, so one set
/// serves all types.
#pragma once

#include <cstdint>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

namespace cria::emulator {

/// Inputs of a thread.
struct Inputs {
  uint64_t x[4];

  uint32_t a(int i) const { return uint32_t(x[i]); }
  int32_t sa(int i) const { return int32_t(x[i]); }
  int64_t sx(int i) const { return int64_t(x[i]); }
  uint16_t h(int i) const { return uint16_t(x[i]); }
  bool p(int i) const { return x[i] & 1; }
  float f(int i) const { return as<float>(a(i)); }
  double d(int i) const { return as<double>(x[i]); }

  template <typename T, typename Bits> static T as(Bits bits) {
    T value;
    static_assert(sizeof value == sizeof bits);
    std::memcpy(&value, &bits, sizeof value);
    return value;
  }
};

/// Results of a thread.
struct Results {
  uint64_t y = 0;
  uint32_t r[2] = {0, 0};
  uint32_t s = 0; ///< 16 bits
  uint32_t q[2] = {0, 0};

  void f(float value, int i = 0) { r[i] = Inputs::as<uint32_t>(value); }
  void d(double value) { y = Inputs::as<uint64_t>(value); }
};

/// What inputs a case wants.
enum class Inputs64 { Integers, Floats, Doubles, Halves, BFloats, Small };

/// How results are compared: bit by bit, or as floats.
enum class Compare {
  Bits,
  Float,
  Approx,
  Double,
  Half,
  BFloat,
  HalfPair,
  BFloatPair
};

struct OpcodeCase {
  std::string code;
  /// The results of thread `lane` of a warp of 32.
  std::function<void(const Inputs *warp, unsigned lane, Results &out)>
      reference;
  Inputs64 inputs = Inputs64::Integers;
  Compare compare = Compare::Bits;
  unsigned capability = 80;
  unsigned threads = 64; ///< of a block
};

/// A case whose threads do not meet.
inline OpcodeCase
alone(std::string code,
      std::function<void(const Inputs &, Results &)> reference,
      Inputs64 inputs = Inputs64::Integers, Compare compare = Compare::Bits,
      unsigned capability = 80) {
  return {std::move(code),
          [reference](const Inputs *warp, unsigned lane, Results &out) {
            reference(warp[lane], out);
          },
          inputs, compare, capability};
}

void addIntegerCases(std::vector<OpcodeCase> &cases);
void addBitCases(std::vector<OpcodeCase> &cases);
void addFloatCases(std::vector<OpcodeCase> &cases);
void addNarrowFloatCases(std::vector<OpcodeCase> &cases);
void addConvertCases(std::vector<OpcodeCase> &cases);
void addCompareCases(std::vector<OpcodeCase> &cases);
void addMemoryCases(std::vector<OpcodeCase> &cases);
void addAtomicCases(std::vector<OpcodeCase> &cases);
void addWarpCases(std::vector<OpcodeCase> &cases);
void addMatrixCases(std::vector<OpcodeCase> &cases);
void addMmaCases(std::vector<OpcodeCase> &cases);
void addVideoCases(std::vector<OpcodeCase> &cases);
void addAsyncCases(std::vector<OpcodeCase> &cases);
void addWarpgroupCases(std::vector<OpcodeCase> &cases);

/// Makes small floats in f16 or bf16 of the bits of %m`number`.
std::string smallFloats(const std::string &type, int number);

} // namespace cria::emulator
