/// The multiply-add instructions of this CPU, each as a loop that can be timed.
#pragma once

#include "runtime/base/DType.h"

#include <cstdint>
#include <string>
#include <vector>

namespace cria::bench {

/// A multiply-add instruction.
struct Unit {
  std::string name;
  /// Does `rounds` rounds in registers and returns the operations; the caller
  /// takes the time.
  double (*run)(int64_t rounds);
};

/// For f32 and f16 the f32 FMA; for bf16 also vdpbf16ps and AMX; for blocks of
/// integers vpdpbusd or vpmaddwd, and AMX; as far as this CPU has them.
std::vector<Unit> unitsFor(DType type);

} // namespace cria::bench
