#include "runtime/text/tokenizer/PreTokenizer.h"

#include "runtime/text/tokenizer/Text.h"
#include "runtime/text/tokenizer/Unicode.h"

namespace cria {

/// GPT-2's expression, which "ByteLevel" uses if "use_regex" is true.
static const char byteLevelExpression[] =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

/// "Whitespace" is words and runs of other characters, without white space.
static const char wordExpression[] =
    R"([\p{Alphabetic}\p{M}\p{Nd}\p{Pc}\p{Join_Control}]+|)"
    R"([^\s\p{Alphabetic}\p{M}\p{Nd}\p{Pc}\p{Join_Control}]+)";

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
  return Behavior::Isolated;
}

PreTokenizer PreTokenizer::readSplit(const JsonCursor &pre) {
  onlyKeys(pre, {"type", "pattern", "behavior", "invert"});
  return {Pattern::read(pre["pattern"]), readBehavior(pre["behavior"]),
          pre["invert"].boolean()};
}

PreTokenizer PreTokenizer::readByteLevel(const JsonCursor &pre) {
  onlyKeys(pre, {"type", "add_prefix_space", "trim_offsets", "use_regex"});
  PreTokenizer step;
  step.spell = true;
  if (pre["add_prefix_space"].boolean())
    step.prefix = Prefix::Always;
  auto useRegex = pre.find("use_regex");
  if (!useRegex || useRegex->boolean())
    step.pattern = Pattern::regex(byteLevelExpression);
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

PreTokenizer PreTokenizer::readDigits(const JsonCursor &pre) {
  onlyKeys(pre, {"type", "individual_digits"});
  return {Pattern::character(isNumeric), pre["individual_digits"].boolean()
                                             ? Behavior::Isolated
                                             : Behavior::Contiguous};
}

PreTokenizer PreTokenizer::readPunctuation(const JsonCursor &pre) {
  onlyKeys(pre, {"type", "behavior"});
  auto behavior = pre.find("behavior");
  return {Pattern::character(isPunctuation),
          behavior ? readBehavior(*behavior) : Behavior::Isolated};
}

/// The steps of a pre-tokenizer without members, or nullptr.
const std::vector<PreTokenizer> *PreTokenizer::plain(const std::string &type) {
  PreTokenizer noSpace(Pattern::character(isWhiteSpace), Behavior::Removed);
  static const std::pair<const char *, std::vector<PreTokenizer>> kinds[] = {
      {"Whitespace",
       {{Pattern::regex(wordExpression), Behavior::Removed, true}}},
      {"WhitespaceSplit", {noSpace}},
      {"BertPreTokenizer",
       {noSpace, {Pattern::character(isPunctuation), Behavior::Isolated}}}};
  for (const auto &[name, steps] : kinds)
    if (type == name)
      return &steps;
  return nullptr;
}

void PreTokenizer::read(const JsonCursor &pre, ComponentCount &count,
                        std::vector<PreTokenizer> &steps) {
  static const std::pair<const char *, PreTokenizer (*)(const JsonCursor &)>
      kinds[] = {{"Split", readSplit},
                 {"ByteLevel", readByteLevel},
                 {"Metaspace", readMetaspace},
                 {"Digits", readDigits},
                 {"Punctuation", readPunctuation}};
  if (!count.add(pre))
    return;
  std::string type = pre["type"].string();
  if (type == "Sequence") {
    onlyKeys(pre, {"type", "pretokenizers"});
    for (const JsonCursor &one : pre["pretokenizers"].elements(64))
      read(one, count, steps);
    return;
  }
  for (const auto &[name, make] : kinds)
    if (type == name)
      return steps.push_back(make(pre));
  if (const std::vector<PreTokenizer> *known = plain(type)) {
    onlyKeys(pre, {"type"});
    steps.insert(steps.end(), known->begin(), known->end());
    return;
  }
  refuse(pre["type"], "one of Split, ByteLevel, Metaspace, Digits, "
                      "Punctuation, Whitespace, WhitespaceSplit, "
                      "BertPreTokenizer and Sequence");
}

/// Cuts `text` as pattern and behavior ask. A span is held back as long as the
/// next span may join it.
Status PreTokenizer::join(std::string_view text, Effort &effort,
                          SpanSink sink) const {
  if (!pattern)
    return sink({0, text.size(), false});
  std::optional<Span> held;
  bool afterMatch = false;
  Status status = pattern->find(text, effort, [&](Span span) {
    span.match ^= invert;
    bool joins =
        held &&
        (behavior == Behavior::Contiguous           ? span.match == afterMatch
         : behavior == Behavior::MergedWithPrevious ? span.match && !afterMatch
         : behavior == Behavior::MergedWithNext     ? afterMatch && !span.match
                                                    : false);
    afterMatch = span.match;
    if (joins) {
      held->end = span.end;
      return Status();
    }
    Status done = held ? sink(*held) : Status();
    held = span;
    if (behavior == Behavior::Removed && span.match)
      held.reset();
    return done;
  });
  return status.ok() && held ? sink(*held) : status;
}

static std::string replaceSpaces(std::string_view text,
                                 const std::string &with) {
  std::string result;
  for (char c : text)
    if (c == ' ')
      result += with;
    else
      result += c;
  return result;
}

/// The cost of a piece, and of each of its bytes, in units of effort.
static constexpr uint64_t workPerPiece = 64, workPerByte = 16;

static Status grown() {
  return Status(CRIA_INVALID_ARGUMENT, "the text grows beyond " +
                                           std::to_string(maxTextBytes) +
                                           " bytes when it is cut into words");
}

static Status tooLong() {
  return Effort::tooLong("cutting the text into words");
}

Status PreTokenizer::apply(Piece piece, Effort &effort, PieceSink sink) const {
  if (!effort.spend(workPerPiece + workPerByte * piece.text.size()))
    return tooLong();
  std::string changed, spelled; // pieces may refer to these
  std::string_view text = piece.text;
  if (space != " ")
    text = changed = replaceSpaces(text, space);
  bool prefixed =
      prefix == Prefix::Always || (prefix == Prefix::First && piece.atHead);
  if (prefixed && text.substr(0, space.size()) != space)
    text = changed = space + std::string(text);
  if (text.size() > maxTextBytes)
    return grown();
  return join(text, effort, [&](Span span) {
    if (span.begin == span.end)
      return Status();
    std::string_view part = text.substr(span.begin, span.end - span.begin);
    if (!effort.spend(workPerPiece))
      return tooLong();
    if (spell)
      part = spelled = spellBytes(part);
    if (part.size() > maxTextBytes)
      return grown();
    return sink({part, piece.atHead && span.begin == 0});
  });
}

} // namespace cria
