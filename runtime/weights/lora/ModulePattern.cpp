#include "runtime/weights/lora/ModulePattern.h"

#include <algorithm>
#include <bitset>
#include <iterator>
#include <optional>
#include <string>
#include <vector>

namespace cria {

static constexpr int maxDepth = 64;

namespace {

/// Positions in a module's name, sorted.
using Positions = std::vector<size_t>;
using Bytes = std::bitset<256>;

/// Recursive descent over the pattern. Each function reads a part of it and
/// returns the positions after a match of this part that begins at one of
/// `from`. After an error nothing more is read.
class Walk {
public:
  Walk(std::string_view text, std::string_view module, uint64_t &budget)
      : text(text), module(module), budget(budget) {}

  Positions all(const Positions &from) {
    Positions ends = alternatives(from);
    if (at < text.size())
      invalid("unbalanced parenthesis");
    return ends;
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
    fail(CRIA_INVALID_ARGUMENT,
         concat({"is not a pattern: ", what, " at byte ", at}));
  }
  void unsupported(std::string_view what) {
    fail(CRIA_UNIMPLEMENTED, concat({"has '", what,
                                     "' in a pattern, which is not "
                                     "supported"}));
  }
  void pay(size_t cost) {
    if (cost > budget)
      fail(CRIA_INVALID_ARGUMENT, "takes too long to match");
    budget -= std::min<uint64_t>(cost, budget);
  }

  static Positions unite(const Positions &a, const Positions &b) {
    Positions both;
    std::set_union(a.begin(), a.end(), b.begin(), b.end(),
                   std::back_inserter(both));
    return both;
  }

  Positions alternatives(const Positions &from) {
    Positions ends = sequence(from);
    while (take("|"))
      ends = unite(ends, sequence(from));
    return ends;
  }

  Positions sequence(Positions from) {
    while (!done() && text[at] != '|' && text[at] != ')')
      from = repeated(from);
    return from;
  }

  Positions atom(const Positions &from) {
    pay(from.size() + 1);
    if (done())
      return {};
    char character = text[at];
    if (take("("))
      return group(from);
    if (take("["))
      return characterClass(from);
    if (take("."))
      return anyBut(Bytes().set('\n'), from);
    if (take("^"))
      return from.empty() || from[0] ? Positions() : Positions{0};
    if (take("$"))
      return from.empty() || from.back() != module.size()
                 ? Positions()
                 : Positions{module.size()};
    if (character == '\\')
      return byte(escape(), from);
    if (character == '*' || character == '+' || character == '?')
      invalid("nothing to repeat");
    ++at;
    return byte(Bytes().set(static_cast<uint8_t>(character)), from);
  }

  Positions group(const Positions &from) {
    if (++depth > maxDepth)
      fail(CRIA_UNIMPLEMENTED, concat({"is nested deeper than ", maxDepth,
                                       ", which is not supported"}));
    if (!take("?:") && take("?"))
      unsupported("(?" + std::string(text.substr(at, 1)));
    Positions ends = done() ? Positions() : alternatives(from);
    --depth;
    if (status.ok() && !take(")"))
      invalid("missing ')'");
    return ends;
  }

  /// One of `bytes`.
  Positions byte(const Bytes &bytes, const Positions &from) const {
    Positions ends;
    for (size_t i : from)
      if (i < module.size() && bytes[static_cast<uint8_t>(module[i])])
        ends.push_back(i + 1);
    return ends;
  }

  /// A UTF-8 character that is none of the ASCII characters `bytes`.
  Positions anyBut(const Bytes &bytes, const Positions &from) const {
    Positions ends = byte(~bytes, from);
    for (size_t &i : ends)
      while (i < module.size() && (module[i] & 0xc0) == 0x80)
        ++i;
    return ends;
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

  Positions characterClass(const Positions &from) {
    bool negated = take("^");
    Bytes bytes;
    for (bool first = true; !done() && (first || text[at] != ']');
         first = false) {
      uint8_t low = static_cast<uint8_t>(text[at]);
      Bytes some = member();
      if (!done() && text[at] == '-' && at + 1 < text.size() &&
          text[at + 1] != ']') {
        ++at;
        uint8_t high = static_cast<uint8_t>(text[at]);
        if (low == '\\' || high == '\\')
          unsupported("a range of escapes");
        else if (high < low)
          invalid("bad character range");
        member();
        some = range(low, high);
      }
      bytes |= some;
    }
    if (!take("]"))
      invalid("missing ']'");
    return negated ? anyBut(bytes, from) : byte(bytes, from);
  }

  /// Reads a number; a large one means as much as a larger one. None if there
  /// is no digit.
  std::optional<size_t> number(size_t &from) const {
    std::optional<size_t> value;
    for (; from < text.size() && text[from] >= '0' && text[from] <= '9'; ++from)
      value = std::min<size_t>(value.value_or(0) * 10 +
                                   static_cast<size_t>(text[from] - '0'),
                               INT32_MAX);
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

  Positions repeated(const Positions &from) {
    size_t begin = at;
    Positions now = atom(from);
    std::optional<Bounds> times = quantifier();
    if (!times)
      return now;
    take("?"); // lazy: whether the whole text matches is the same
    if (!done() && text[at] == '+')
      unsupported("possessive repetition");
    if (!done() && (text[at] == '*' || text[at] == '?'))
      invalid("multiple repeat");
    if (times->most && *times->most < times->least)
      invalid("min repeat greater than max repeat");
    size_t end = at, most = times->most.value_or(SIZE_MAX);
    Positions ends = times->least == 0 ? from : Positions();
    for (size_t count = 1; status.ok() && count <= most; ++count) {
      if (count >= times->least)
        ends = unite(ends, now);
      if (count == most || now.empty())
        break;
      at = begin;
      Positions next = atom(now);
      // What does not change once does not change any more.
      if (next == now && count < times->least)
        count = times->least - 1;
      else if (next == now)
        break;
      now = std::move(next);
    }
    if (status.ok())
      at = end;
    return ends;
  }

  std::string_view text, module;
  uint64_t &budget;
  size_t at = 0;
  int depth = 0;
};

} // namespace

Result<bool> matchesModule(std::string_view pattern, std::string_view module,
                           uint64_t &budget) {
  Positions from;
  for (size_t i = 0; i <= module.size(); ++i)
    if (i == 0 || module[i - 1] == '.')
      from.push_back(i);
  Walk walk(pattern, module, budget);
  Positions ends = walk.all(from);
  if (!walk.status.ok())
    return walk.status;
  return !ends.empty() && ends.back() == module.size();
}

} // namespace cria
