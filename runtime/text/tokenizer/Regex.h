/// Regular expressions of tokenizers. They are written for Oniguruma and run by
/// PCRE2.
#pragma once

#include "runtime/base/FunctionRef.h"
#include "runtime/base/Status.h"
#include "runtime/text/tokenizer/Effort.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

namespace cria {

/// A range of bytes, and whether the expression matches it.
struct Span {
  size_t begin, end;
  bool match;
};

/// Takes the spans of a text one by one. A result that is not OK ends the
/// search.
using SpanSink = FunctionRef<Status(Span)>;

/// A compiled expression; immutable, so that threads may share it.
class Regex {
public:
  /// Compiles `pattern` with Oniguruma's meaning; refuses syntax that has
  /// another meaning in PCRE2.
  static Result<Regex> compile(std::string_view pattern);

  /// Cuts `text`, valid UTF-8, into matches and the text between them. Empty
  /// matches are spans, too. An expression that backtracks beyond `effort` or
  /// 64 MiB is CRIA_INVALID_ARGUMENT.
  Status find(std::string_view text, Effort &effort, SpanSink sink) const;

private:
  using Scratch = Effort::Scratch;

  static Scratch *scratchOf(Effort &effort);
  int match(std::string_view text, size_t from, Scratch &scratch) const;
  int matchFast(std::string_view text, size_t &from, Scratch &scratch) const;

  std::shared_ptr<void> code; // pcre2_code, interpreted
  std::shared_ptr<void> fast; // pcre2_code, machine code; may be missing
  uint32_t fastSteps = 0;     // steps that machine code may take at a place
  uint64_t longestRepeat = 1; // the n of x{n}
};

} // namespace cria
