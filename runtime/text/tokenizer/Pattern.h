/// Cuts a text at the matches of a pattern.
#pragma once

#include "runtime/base/FunctionRef.h"
#include "runtime/base/Json.h"
#include "runtime/text/tokenizer/Regex.h"

#include <optional>
#include <string>
#include <string_view>

namespace cria {

/// What is searched for: an expression, a text that stands for itself, or any
/// character of a kind.
class Pattern {
public:
  using Kind = bool (*)(char32_t);

  /// Reads {"Regex": ...} or {"String": ...}.
  static Pattern read(const JsonCursor &pattern);
  /// An expression known to be right.
  static Pattern regex(const char *expression);
  /// A text that stands for itself.
  static Pattern text(std::string literal);
  /// One character of the kind.
  static Pattern character(Kind kind);

  /// Cuts `text` into matches and the rest, in order.
  Status find(std::string_view text, Effort &effort, SpanSink sink) const;

private:
  std::string literal;
  std::optional<Regex> expression;
  Kind kind = nullptr;
};

} // namespace cria
