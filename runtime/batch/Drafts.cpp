#include "runtime/batch/Drafts.h"

#include <algorithm>
#include <utility>

namespace cria {

static constexpr int64_t kLeastMatch = 2, kMostMatch = 8; // ids
static constexpr int64_t kMostWidth = 16, kMostPause = 64;

/// The ids that followed when the last ids of `text` stood there before; where
/// that was several times, the most ids, and the last time, decide.
static std::vector<int32_t> lookUp(const std::vector<int32_t> &text,
                                   int64_t most) {
  auto end = static_cast<int64_t>(text.size());
  int64_t found = 0, longest = kLeastMatch - 1;
  for (int64_t at = end - 1; at > 0 && longest < kMostMatch; --at) {
    int64_t match = 0;
    while (match < std::min(at, kMostMatch) &&
           text[at - 1 - match] == text[end - 1 - match])
      ++match;
    if (match <= longest)
      continue;
    longest = match;
    found = at;
  }
  if (!found)
    return {};
  auto first = text.begin() + found;
  return {first, first + std::min(most, end - found)};
}

/// Tries more ids after a success, and none for some steps after a failure.
void Drafts::learn() {
  if (tries == 0)
    return;
  width = drawn == tries ? std::min(2 * width, kMostWidth) : drawn + 1;
  pause = drawn ? 1 : std::min(2 * pause, kMostPause);
  rest = drawn ? 0 : pause;
  tries = drawn = 0;
}

const Draft &Drafts::next(const std::vector<int32_t> &text, int64_t most,
                          bool isMasked) {
  learn();
  current = std::exchange(proposed, {});
  std::vector<int32_t> &ids = current.ids;
  if (!ids.empty() && after == text.size() &&
      (!isMasked || !current.masks.empty())) {
    ids.resize(std::min(ids.size(), static_cast<size_t>(most)));
    return current;
  }
  current = {};
  if (rest > 0)
    --rest;
  else if (!isMasked)
    ids = lookUp(text, std::min(most, width));
  return current;
}

} // namespace cria
