#include "runtime/TokenizerSplitter.h"

#include "runtime/TokenizerJson.h"
#include "runtime/TokenizerText.h"

#include <algorithm>

namespace cria {

/// GPT-2's expression, which "ByteLevel" implies where "use_regex" is true.
static const char byteLevelExpression[] =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

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

Status Pattern::find(std::string_view text, Deadline deadline,
                     std::vector<Span> &spans) const {
  if (expression)
    return expression->find(text, deadline, spans);
  size_t done = 0;
  for (size_t at; (at = text.find(literal, done)) != text.npos;) {
    if (at > done)
      spans.push_back({done, at, false});
    done = at + literal.size();
    spans.push_back({at, done, true});
  }
  if (done < text.size())
    spans.push_back({done, text.size(), false});
  return Status();
}

void Normalizer::read(const JsonCursor &normalizer,
                      std::vector<Normalizer> &steps) {
  std::string type = normalizer["type"].string();
  Normalizer step;
  if (type == "Sequence") {
    onlyKeys(normalizer, {"type", "normalizers"});
    for (const JsonCursor &one : normalizer["normalizers"].elements(64))
      read(one, steps);
    return;
  }
  if (type == "Prepend") {
    onlyKeys(normalizer, {"type", "prepend"});
    step.content = normalizer["prepend"].string();
  } else if (type == "Replace") {
    onlyKeys(normalizer, {"type", "pattern", "content"});
    step.pattern = Pattern::read(normalizer["pattern"]);
    step.content = normalizer["content"].string();
  } else {
    refuse(normalizer["type"], "\"Prepend\", \"Replace\" or \"Sequence\"");
  }
  if (step.content.size() > 256)
    normalizer.fail("adds more than 256 bytes");
  steps.push_back(std::move(step));
}

Status Normalizer::apply(std::string &text, Deadline deadline) const {
  if (text.empty())
    return Status();
  if (!pattern) {
    text.insert(0, content);
    return Status();
  }
  std::vector<Span> spans;
  if (Status status = pattern->find(text, deadline, spans); !status.ok())
    return status;
  std::string result;
  result.reserve(text.size());
  for (const Span &span : spans) {
    if (span.match)
      result += content;
    else
      result.append(text, span.begin, span.end - span.begin);
    if (result.size() > maxTextBytes)
      return Status(CRIA_INVALID_ARGUMENT, "the text grows beyond " +
                                               std::to_string(maxTextBytes) +
                                               " bytes when it is normalized");
  }
  text = std::move(result);
  return Status();
}

PreTokenizer::Behavior PreTokenizer::readBehavior(const JsonCursor &behavior) {
  static const std::pair<const char *, Behavior> names[] = {
      {"Isolated", Behavior::Isolated},
      {"Removed", Behavior::Removed},
      {"MergedWithPrevious", Behavior::MergedWithPrevious},
      {"MergedWithNext", Behavior::MergedWithNext},
      {"Contiguous", Behavior::Contiguous}};
  std::string found = behavior.string();
  for (const auto &[name, value] : names)
    if (found == name)
      return value;
  refuse(behavior, "\"Isolated\", \"Removed\", \"MergedWithPrevious\", "
                   "\"MergedWithNext\" or \"Contiguous\"");
  return Behavior::None;
}

PreTokenizer PreTokenizer::readSplit(const JsonCursor &pre) {
  onlyKeys(pre, {"type", "pattern", "behavior", "invert"});
  PreTokenizer step;
  step.pattern = Pattern::read(pre["pattern"]);
  step.behavior = readBehavior(pre["behavior"]);
  step.invert = pre["invert"].boolean();
  return step;
}

PreTokenizer PreTokenizer::readByteLevel(const JsonCursor &pre) {
  onlyKeys(pre, {"type", "add_prefix_space", "trim_offsets", "use_regex"});
  PreTokenizer step;
  step.spell = true;
  if (pre["add_prefix_space"].boolean())
    step.prefix = Prefix::Always;
  auto useRegex = pre.find("use_regex");
  if (!useRegex || useRegex->boolean()) {
    step.pattern = Pattern::regex(byteLevelExpression);
    step.behavior = Behavior::Isolated;
  }
  return step;
}

PreTokenizer PreTokenizer::readMetaspace(const JsonCursor &pre) {
  onlyKeys(pre, {"type", "replacement", "add_prefix_space", "prepend_scheme",
                 "split", "str_rep"});
  PreTokenizer step;
  step.space = pre["replacement"].string();
  if (step.space.empty() || characterLength(step.space, 0) != step.space.size())
    pre["replacement"].expected("one character");
  auto scheme = pre.find("prepend_scheme");
  std::string name = scheme ? scheme->string() : "always";
  if (name != "always" && name != "first" && name != "never")
    refuse(*scheme, "\"always\", \"first\" or \"never\"");
  step.prefix = name == "always"  ? Prefix::Always
                : name == "first" ? Prefix::First
                                  : Prefix::Never;
  if (auto add = pre.find("add_prefix_space"); add && !add->boolean()) {
    if (scheme && name != "never")
      add->fail("is false, prepend_scheme says " + quote(name));
    step.prefix = Prefix::Never;
  }
  auto split = pre.find("split");
  if (!split || split->boolean()) {
    step.pattern = Pattern::text(step.space);
    step.behavior = Behavior::MergedWithNext;
  }
  return step;
}

void PreTokenizer::read(const JsonCursor &pre,
                        std::vector<PreTokenizer> &steps) {
  std::string type = pre["type"].string();
  if (type == "Sequence") {
    onlyKeys(pre, {"type", "pretokenizers"});
    for (const JsonCursor &one : pre["pretokenizers"].elements(64))
      read(one, steps);
  } else if (type == "Split") {
    steps.push_back(readSplit(pre));
  } else if (type == "ByteLevel") {
    steps.push_back(readByteLevel(pre));
  } else if (type == "Metaspace") {
    steps.push_back(readMetaspace(pre));
  } else if (type == "Digits") {
    onlyKeys(pre, {"type", "individual_digits"});
    PreTokenizer step;
    step.pattern = Pattern::regex("\\p{N}");
    step.behavior = pre["individual_digits"].boolean() ? Behavior::Isolated
                                                       : Behavior::Contiguous;
    steps.push_back(std::move(step));
  } else {
    refuse(pre["type"],
           "\"Split\", \"ByteLevel\", \"Metaspace\", \"Digits\" or "
           "\"Sequence\"");
  }
}

/// Joins matches to their neighbours as `behavior` asks.
std::vector<Span> PreTokenizer::join(const std::vector<Span> &spans,
                                     Behavior behavior) {
  std::vector<Span> joined;
  bool next = behavior == Behavior::MergedWithNext;
  bool afterMatch = false;
  for (size_t i = 0; i < spans.size(); ++i) {
    const Span &span = next ? spans[spans.size() - 1 - i] : spans[i];
    if (behavior == Behavior::Removed && span.match)
      continue;
    bool extends = behavior == Behavior::Contiguous ? span.match == afterMatch
                   : behavior == Behavior::MergedWithPrevious || next
                       ? span.match && !afterMatch
                       : false;
    afterMatch = span.match;
    if (!extends || joined.empty())
      joined.push_back(span);
    else if (next)
      joined.back().begin = span.begin;
    else
      joined.back().end = span.end;
  }
  if (next)
    std::reverse(joined.begin(), joined.end());
  return joined;
}

static void replaceSpaces(std::string &text, const std::string &with) {
  std::string result;
  for (char c : text)
    if (c == ' ')
      result += with;
    else
      result += c;
  text = std::move(result);
}

Status PreTokenizer::apply(Piece piece, Deadline deadline,
                           std::vector<Piece> &pieces) const {
  std::string &text = piece.text;
  if (space != " ")
    replaceSpaces(text, space);
  bool prefixed =
      prefix == Prefix::Always || (prefix == Prefix::First && piece.atHead);
  if (prefixed && text.compare(0, space.size(), space) != 0)
    text.insert(0, space);
  std::vector<Span> spans = {{0, text.size(), false}};
  if (pattern) {
    spans.clear();
    if (Status status = pattern->find(text, deadline, spans); !status.ok())
      return status;
    for (Span &span : spans)
      span.match ^= invert;
    spans = join(spans, behavior);
  }
  for (const Span &span : spans) {
    if (span.begin == span.end)
      continue;
    std::string part = text.substr(span.begin, span.end - span.begin);
    pieces.push_back({spell ? spellBytes(part) : std::move(part), -1,
                      piece.atHead && span.begin == 0});
  }
  return Status();
}

} // namespace cria
