/// How ids are drawn, as callers and generation_config.json say it.
#pragma once

#include "runtime/base/Status.h"

#include <cstdint>

namespace cria {

/// What decides how ids are drawn. The defaults draw from the plain
/// distribution.
struct SamplerOptions {
  double temperature = 1;       // divides the logits; 0: the largest one wins
  int64_t topK = 0;             // the K most likely ids; 0: all
  double topP = 1;              // the fewest most likely ids that reach P
  double minP = 0;              // at least P times the largest probability
  double repetitionPenalty = 1; // weakens every id of the text so far
  double presencePenalty = 0;   // lowers the logit of every id drawn so far
  double frequencyPenalty = 0;  // the same, for each time that it was drawn
  int64_t penaltyWindow = 0;    // last ids of the text that count; 0: all
  uint64_t seed = 0;

  /// Whether the ids of the text matter.
  bool penalizes() const {
    return repetitionPenalty != 1 || presencePenalty != 0 ||
           frequencyPenalty != 0;
  }

  /// CRIA_INVALID_ARGUMENT that names the first value out of range.
  Status check() const;
};

/// CRIA_INVALID_ARGUMENT that names an option and its value.
Status outOfRange(const char *name, double found, const char *expected);

} // namespace cria
