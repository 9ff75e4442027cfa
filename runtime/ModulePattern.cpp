#include "runtime/ModulePattern.h"

#include <optional>
#include <string>

namespace cria {

static constexpr size_t maxStates = 4096;
static constexpr int maxDepth = 64;

/// Recursive descent over the pattern. After an error nothing more is read.
class ModulePattern::Parser {
public:
  using Code = std::vector<State>;
  using Bytes = std::bitset<256>;

  explicit Parser(std::string_view text) : text(text) {}

  Code parse() {
    Code code = alternatives();
    if (at < text.size())
      invalid("unbalanced parenthesis");
    return code;
  }

  Status status;

private:
  bool done() const { return at >= text.size() || !status.ok(); }
  bool take(std::string_view what) {
    if (!status.ok() || text.substr(at, what.size()) != what)
      return false;
    at += what.size();
    return true;
  }
  void fail(cria_status code, std::string_view what) {
    if (status.ok())
      status = Status(code, what);
  }
  void invalid(std::string_view what) {
    fail(CRIA_INVALID_ARGUMENT, concat({what, " at byte ", at}));
  }
  void unsupported(std::string_view what) {
    fail(CRIA_UNIMPLEMENTED,
         concat({"'", what, "' in a pattern is not supported"}));
  }

  void append(Code &code, const Code &more) {
    if (code.size() + more.size() > maxStates)
      return fail(CRIA_UNIMPLEMENTED,
                  concat({"a pattern of more than ", maxStates,
                          " states is not supported"}));
    code.insert(code.end(), more.begin(), more.end());
  }

  static State fork(size_t next, size_t other) {
    return {State::Fork, static_cast<int32_t>(next),
            static_cast<int32_t>(other)};
  }

  Code alternatives() {
    Code code = sequence();
    while (take("|")) {
      Code other = sequence(), all = {fork(1, code.size() + 2)};
      append(all, code);
      append(all, {fork(other.size() + 1, other.size() + 1)});
      append(all, other);
      code = std::move(all);
    }
    return code;
  }

  Code sequence() {
    Code code;
    while (!done() && text[at] != '|' && text[at] != ')')
      append(code, repeated(atom()));
    return code;
  }

  Code atom() {
    char character = text[at];
    if (take("("))
      return group();
    if (take("["))
      return characterClass();
    if (take("."))
      return anyBut(Bytes().set('\n'));
    if (take("^"))
      return {{State::Begin}};
    if (take("$"))
      return {{State::End}};
    if (character == '\\')
      return byte(escape());
    if (character == '*' || character == '+' || character == '?') {
      invalid("nothing to repeat");
      return {};
    }
    ++at;
    return byte(Bytes().set(static_cast<uint8_t>(character)));
  }

  Code group() {
    if (++depth > maxDepth)
      fail(CRIA_UNIMPLEMENTED, concat({"a pattern nested deeper than ",
                                       maxDepth, " is not supported"}));
    if (!take("?:") && take("?"))
      unsupported("(?" + std::string(text.substr(at, 1)));
    Code code = done() ? Code() : alternatives();
    --depth;
    if (status.ok() && !take(")"))
      invalid("missing ')'");
    return code;
  }

  static Code byte(const Bytes &bytes) { return {{State::Byte, 1, 1, bytes}}; }

  /// Matches a UTF-8 character that is none of the ASCII characters `bytes`.
  static Code anyBut(const Bytes &bytes) {
    Bytes first = ~bytes, continuation;
    for (size_t i = 0x80; i < 0xc0; ++i) {
      first.reset(i);
      continuation.set(i);
    }
    return {{State::Byte, 1, 1, first},
            fork(1, 2),
            {State::Byte, -1, 1, continuation}};
  }

  static Bytes range(uint8_t first, uint8_t last) {
    Bytes bytes;
    for (unsigned i = first; i <= last; ++i)
      bytes.set(i);
    return bytes;
  }

  /// An escape: \d, or a character that is no letter or digit.
  Bytes escape() {
    ++at;
    if (at >= text.size()) {
      invalid("bad escape");
      return {};
    }
    char character = text[at++];
    if (character == 'd')
      return range('0', '9');
    bool isWord = (character >= '0' && character <= '9') ||
                  (character >= 'A' && character <= 'Z') ||
                  (character >= 'a' && character <= 'z');
    if (isWord)
      unsupported(text.substr(at - 2, 2));
    return Bytes().set(static_cast<uint8_t>(character));
  }

  /// A member of a class, or the first or last of a range.
  Bytes member() {
    if (text[at] == '\\')
      return escape();
    if (static_cast<uint8_t>(text[at]) >= 0x80)
      unsupported("a class of characters that are not ASCII");
    return Bytes().set(static_cast<uint8_t>(text[at++]));
  }

  Code characterClass() {
    bool negated = take("^");
    Bytes bytes;
    for (bool first = true; !done() && (first || text[at] != ']');
         first = false) {
      uint8_t low = static_cast<uint8_t>(text[at]);
      Bytes from = member();
      if (!done() && text[at] == '-' && at + 1 < text.size() &&
          text[at + 1] != ']') {
        ++at;
        uint8_t high = static_cast<uint8_t>(text[at]);
        if (low == '\\' || high == '\\')
          unsupported("a range of escapes");
        else if (high < low)
          invalid("bad character range");
        member();
        from = range(low, high);
      }
      bytes |= from;
    }
    if (!take("]"))
      invalid("missing ']'");
    return negated ? anyBut(bytes) : byte(bytes);
  }

  /// Reads a number, at most `maxStates` + 1; none if there is no digit.
  std::optional<size_t> number(size_t &from) const {
    std::optional<size_t> value;
    for (; from < text.size() && text[from] >= '0' && text[from] <= '9'; ++from)
      value = std::min<size_t>(value.value_or(0) * 10 +
                                   static_cast<size_t>(text[from] - '0'),
                               maxStates + 1);
    return value;
  }

  struct Bounds {
    size_t least;
    std::optional<size_t> most; // none: unbounded
  };

  /// {2}, {2,}, {,3} or {2,3}. Anything else after a brace is text.
  std::optional<Bounds> bounds() {
    size_t end = at + 1;
    std::optional<size_t> least = number(end), most = least;
    if (end < text.size() && text[end] == ',') {
      ++end;
      most = number(end);
      least = least.value_or(0);
    }
    if (!least || end >= text.size() || text[end] != '}')
      return std::nullopt;
    at = end + 1;
    return Bounds{*least, most};
  }

  std::optional<Bounds> quantifier() {
    if (take("*"))
      return Bounds{0, std::nullopt};
    if (take("+"))
      return Bounds{1, std::nullopt};
    if (take("?"))
      return Bounds{0, 1};
    if (!done() && text[at] == '{')
      return bounds();
    return std::nullopt;
  }

  Code repeated(Code once) {
    std::optional<Bounds> times = quantifier();
    if (!times)
      return once;
    take("?"); // lazy: whether the whole text matches is the same
    if (!done() && text[at] == '+')
      unsupported("possessive repetition");
    if (!done() && (text[at] == '*' || text[at] == '?'))
      invalid("multiple repeat");
    if (times->most && *times->most < times->least)
      invalid("min repeat greater than max repeat");
    Code code;
    for (size_t i = 0; i < times->least && status.ok(); ++i)
      append(code, once);
    if (!times->most) {
      append(code, {fork(1, once.size() + 2)});
      append(code, once);
      State back = fork(0, 0);
      back.next = back.other = -static_cast<int32_t>(once.size() + 1);
      append(code, {back});
    }
    for (size_t i = times->least; i < times->most.value_or(0) && status.ok();
         ++i) {
      append(code, {fork(1, once.size() + 1)});
      append(code, once);
    }
    return code;
  }

  std::string_view text;
  size_t at = 0;
  int depth = 0;
};

Result<ModulePattern> ModulePattern::compile(std::string_view pattern) {
  Parser parser(pattern);
  ModulePattern result;
  result.states = parser.parse();
  if (!parser.status.ok())
    return parser.status;
  result.states.push_back({State::Match});
  return result;
}

Result<bool> ModulePattern::matches(std::string_view module,
                                    uint64_t &budget) const {
  std::vector<size_t> seen(states.size()), now, next, waiting;
  bool matched = false;
  for (size_t at = 0; at <= module.size(); ++at) {
    if (at == 0 || module[at - 1] == '.')
      next.push_back(0);
    // `next` has the states that the last byte leads to. The states that these
    // lead to without a byte belong to `now`, too. `seen` is at + 1 for the
    // states in `now`.
    now.clear();
    waiting.swap(next);
    next.clear();
    while (!waiting.empty()) {
      size_t index = waiting.back();
      waiting.pop_back();
      if (seen[index] == at + 1)
        continue;
      seen[index] = at + 1;
      if (budget-- == 0) {
        budget = 0;
        return Status(CRIA_INVALID_ARGUMENT, "takes too long to match");
      }
      const State &state = states[index];
      size_t first = index + static_cast<size_t>(state.next);
      if (state.kind == State::Byte)
        now.push_back(index);
      else if (state.kind == State::Match)
        matched = at == module.size();
      else if (state.kind == State::Fork)
        waiting.insert(waiting.end(),
                       {first, index + static_cast<size_t>(state.other)});
      else if (state.kind == State::Begin ? at == 0 : at == module.size())
        waiting.push_back(first);
    }
    if (at < module.size())
      for (size_t index : now)
        if (states[index].bytes[static_cast<uint8_t>(module[at])])
          next.push_back(index + static_cast<size_t>(states[index].next));
  }
  return matched;
}

} // namespace cria
