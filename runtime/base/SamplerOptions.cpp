#include "runtime/base/SamplerOptions.h"

#include <cmath>
#include <cstdio>
#include <utility>

namespace cria {

Status outOfRange(const char *name, double found, const char *expected) {
  char text[160];
  snprintf(text, sizeof(text), "%s is %g, expected %s", name, found, expected);
  return Status(CRIA_INVALID_ARGUMENT, text);
}

Status SamplerOptions::check() const {
  if (!std::isfinite(temperature) || temperature < 0)
    return outOfRange("temperature", temperature, "a finite number >= 0");
  if (topK < 0)
    return Status(CRIA_INVALID_ARGUMENT,
                  {"top_k is ", topK, ", expected 0 (all) or more"});
  if (!(topP >= 0 && topP <= 1))
    return outOfRange("top_p", topP, "a number from 0 to 1");
  if (!(minP >= 0 && minP <= 1))
    return outOfRange("min_p", minP, "a number from 0 to 1");
  if (!std::isfinite(repetitionPenalty) || repetitionPenalty <= 0)
    return outOfRange("repetition_penalty", repetitionPenalty,
                      "a finite number > 0");
  for (auto [name, penalty] : {std::pair("presence_penalty", presencePenalty),
                               {"frequency_penalty", frequencyPenalty}})
    if (!std::isfinite(static_cast<float>(penalty)))
      return outOfRange(name, penalty, "a finite number");
  if (penaltyWindow < 0)
    return Status(CRIA_INVALID_ARGUMENT, {"penalty_window is ", penaltyWindow,
                                          ", expected 0 (all) or more"});
  return Status();
}

} // namespace cria
