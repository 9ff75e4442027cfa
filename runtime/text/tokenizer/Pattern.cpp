#include "runtime/text/tokenizer/Pattern.h"

#include "runtime/base/Json.h"
#include "runtime/text/tokenizer/Text.h"
#include "runtime/text/tokenizer/Unicode.h"

namespace cria {

Pattern Pattern::read(const JsonCursor &pattern) {
  Pattern result;
  onlyKeys(pattern, {"Regex", "String"});
  if (auto regex = pattern.find("Regex")) {
    Result<Regex> compiled = Regex::compile(regex->string());
    if (compiled.ok())
      result.expression = *compiled;
    else
      regex->fail(compiled.status().message(), compiled.status().code());
  } else {
    result.literal = pattern["String"].string();
    if (result.literal.empty())
      pattern.expected("a text or an expression");
  }
  return result;
}

Pattern Pattern::regex(const char *expression) {
  Pattern result;
  if (Result<Regex> compiled = Regex::compile(expression); compiled.ok())
    result.expression = *compiled;
  return result;
}

Pattern Pattern::text(std::string literal) {
  Pattern result;
  result.literal = std::move(literal);
  return result;
}

Pattern Pattern::character(Kind kind) {
  Pattern result;
  result.kind = kind;
  return result;
}

/// The cost of a search, and of each byte, in units of effort.
static constexpr uint64_t searchWork = 64, workPerByte = 16;

Status Pattern::find(std::string_view text, Effort &effort,
                     SpanSink sink) const {
  if (expression)
    return expression->find(text, effort, sink);
  if (!effort.spend(searchWork + workPerByte * text.size()))
    return Effort::tooLong("searching the text for a pattern");
  Status status;
  size_t done = 0; // end of the last match
  auto match = [&](size_t begin, size_t end) {
    if (begin > done)
      status = sink({done, begin, false});
    if (status.ok())
      status = sink({begin, end, true});
    done = end;
  };
  if (kind)
    for (size_t at = 0; at < text.size() && status.ok();) {
      size_t begin = at;
      if (kind(takeCharacter(text, at)))
        match(begin, at);
    }
  else
    for (size_t at;
         status.ok() && (at = findText(text, literal, done)) != text.npos;)
      match(at, at + literal.size());
  if (status.ok() && done < text.size())
    status = sink({done, text.size(), false});
  return status;
}

} // namespace cria
