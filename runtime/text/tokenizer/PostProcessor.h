/// The special tokens that a tokenizer.json puts around a text.
#pragma once

#include "runtime/base/Json.h"
#include "runtime/text/tokenizer/ComponentCount.h"

#include <cstdint>
#include <functional>
#include <vector>

namespace cria {

/// The ids before a text and the ids after it.
struct PostProcessor {
  std::vector<int32_t> before, after;

  /// Reads the member "post_processor"; `contains` knows the ids of tokens.
  static PostProcessor read(const JsonCursor &post, ComponentCount &count,
                            const std::function<bool(int64_t)> &contains);
};

} // namespace cria
