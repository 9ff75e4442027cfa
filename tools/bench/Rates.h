/// What this machine can do at best, measured: how fast it reads the weights,
/// how many operations a second its multiply-add units do.
#pragma once

#include "runtime/Model.h"
#include "runtime/cpu/Pool.h"

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace cria::bench {

/// A range of memory that a decode step reads.
struct Span {
  const std::byte *data;
  uint64_t bytes;
};

/// Where the weights of `model` lie, in the order of their slots.
std::vector<Span> weightSpans(const Model &model);

/// Bytes a second of a plain loop that reads `spans` once or for some
/// milliseconds: each thread streams through its part of each span.
double readRate(Pool &pool, const std::vector<Span> &spans);

/// A multiply-add instruction of this CPU.
struct Unit {
  std::string name; // "vdpbf16ps"
  /// Does `rounds` rounds in registers and returns the operations (a
  /// multiply-add is two); the caller takes the time.
  double (*run)(int64_t rounds);
};

/// The units that can compute products of `type`: for f32 and f16 the f32 FMA,
/// for bf16 also vdpbf16ps and AMX where they are.
std::vector<Unit> unitsFor(DType type);

/// Operations a second of `unit` on all threads together.
double computeRate(Pool &pool, const Unit &unit);

} // namespace cria::bench
