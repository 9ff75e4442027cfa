/// Regular expressions of tokenizers, which are written for Oniguruma, run by
/// PCRE2.
#pragma once

#include "runtime/Status.h"
#include "runtime/tokenizer/FunctionRef.h"

#include <chrono>
#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

namespace cria {

/// A range of bytes, and whether the expression matches it.
struct Span {
  size_t begin, end;
  bool match;
};

/// Takes the spans of a text one by one; what it returns ends the search unless
/// it is OK.
using SpanSink = FunctionRef<Status(Span)>;

/// What a text of some size may take - time, many times what a sane tokenizer
/// needs - and PCRE2's scratch memory. One a text, for one thread.
class Effort {
public:
  explicit Effort(size_t bytes);
  Effort(const Effort &) = delete;
  Effort &operator=(const Effort &) = delete;
  ~Effort();

  /// Whether it is time to give up. Looks at the clock every 256th time.
  bool late();

private:
  friend class Regex;
  std::chrono::steady_clock::time_point deadline;
  unsigned steps = 0;
  void *match;   // pcre2_match_data
  void *context; // pcre2_match_context
};

/// A compiled expression; immutable, so that threads may share it.
class Regex {
public:
  /// Compiles `pattern` with Oniguruma's meaning; refuses the syntax that
  /// PCRE2 understands otherwise.
  static Result<Regex> compile(std::string_view pattern);

  /// Cuts `text`, valid UTF-8, into matches and what lies between them. Empty
  /// matches are spans, too. An expression that backtracks beyond `effort` or
  /// 64 MiB is CRIA_INVALID_ARGUMENT.
  Status find(std::string_view text, Effort &effort, SpanSink sink) const;

private:
  int match(std::string_view text, size_t from, Effort &effort) const;

  std::shared_ptr<void> code; // pcre2_code, interpreted, with callouts
  std::shared_ptr<void> fast; // pcre2_code, machine code; may be missing
};

} // namespace cria
