/// What running a model will take, known before a weight is read.
#pragma once

#include "runtime/artifact/Artifact.h"
#include "runtime/weights/Binding.h"

#include <cstdint>
#include <string>

namespace cria {

/// Bytes of memory that a model and one session need to run at full speed; if
/// ranks share the model, those of one rank.
struct MemoryNeed {
  uint64_t weights = 0;
  uint64_t code = 0;    // the artifact
  uint64_t scratch = 0; // of the session
  uint64_t states = 0;  // of the session, whatever the length of its text
  uint64_t rings = 0;   // the same
  uint64_t cachePerPosition = 0;

  uint64_t total(int64_t positions) const;
  /// The most positions that fit into `memory` bytes.
  int64_t longestContext(uint64_t memory) const;
};

MemoryNeed memoryNeed(const Artifact &artifact);

/// Whether `memory` bytes are enough for `positions`. RESOURCE_EXHAUSTED, with
/// the bytes needed and available, if not.
Status fitsMemory(const Artifact &artifact, int64_t positions, uint64_t memory);

/// The binding in words, one line each: the problems, the warnings, the memory
/// for `positions` positions, and the longest context that fits `memory` bytes.
/// If the model does not fit, or ranks share it, another line says how many
/// ranks would do. The binding is that of one rank.
std::string preflightReport(const Artifact &artifact, const Binding &binding,
                            const std::string &checkpoint, int64_t positions,
                            uint64_t memory);

} // namespace cria
