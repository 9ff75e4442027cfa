/// Regular expressions of tokenizers, which are written for Oniguruma, run by
/// PCRE2.
#pragma once

#include "runtime/Status.h"

#include <chrono>
#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace cria {

/// A range of bytes, and whether the expression matches it.
struct Span {
  size_t begin, end;
  bool match;
};

/// When to give up on a text.
using Deadline = std::chrono::steady_clock::time_point;

/// What a text of `bytes` bytes may take: many times what a sane expression
/// needs.
Deadline deadlineFor(size_t bytes);

/// A compiled expression; immutable, so that threads may share it.
class Regex {
public:
  /// Compiles `pattern` with Oniguruma's meaning; refuses the syntax that
  /// PCRE2 understands otherwise.
  static Result<Regex> compile(std::string_view pattern);

  /// Cuts `text`, valid UTF-8, into matches and what lies between them. Empty
  /// matches are spans, too. An expression that backtracks beyond `deadline`
  /// or 64 MiB is CRIA_INVALID_ARGUMENT.
  Status find(std::string_view text, Deadline deadline,
              std::vector<Span> &spans) const;

private:
  std::shared_ptr<void> code; // pcre2_code
};

} // namespace cria
