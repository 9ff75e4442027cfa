/// What chat templates do with strings: Python's methods of str, and Jinja's
/// filters that are like them. Letters change case one by one.
#include "runtime/chat/Evaluator.h"

#include "runtime/Json.h"
#include "runtime/tokenizer/Unicode.h"

#include <algorithm>
#include <utility>

namespace cria::chat {

using Type = Value::Type;

/// The text of argument `index`, which must be a string.
static std::string_view textOf(Evaluator &in, const Arguments &arguments,
                               size_t index) {
  const Value &value = arguments.get(index);
  if (!value.is(Type::String))
    in.fail("argument " + std::to_string(index) + " of a string's method is " +
            value.typeName() + ", expected a string");
  in.budget.spend(value.text().size());
  return value.text();
}

static std::string stripped(std::string_view text, bool left, bool right,
                            const Value &set) {
  auto goes = [&](char32_t c) {
    if (!set.is(Type::String))
      return isPythonSpace(c);
    for (size_t at = 0; at < set.text().size();)
      if (takeCharacter(set.text(), at) == c)
        return true;
    return false;
  };
  size_t begin = std::string_view::npos, end = 0; // of what stays
  for (size_t at = 0; at < text.size();) {
    size_t place = at;
    if (goes(takeCharacter(text, at)))
      continue;
    begin = std::min(begin, place);
    end = at;
  }
  text = text.substr(0, right ? end : text.size());
  return std::string(text.substr(left ? std::min(begin, text.size()) : 0));
}

template <bool left, bool right>
static Value strip(Evaluator &in, const Arguments &arguments) {
  const Value &set = arguments.get(1, "chars");
  std::string_view text = textOf(in, arguments, 0);
  if (!in.budget.spend(text.size() * (1 + set.text().size())))
    return {};
  return in.text(stripped(text, left, right, set));
}

/// Jinja's filter takes any value.
static Value trim(Evaluator &in, const Arguments &arguments) {
  Arguments strings = arguments;
  strings.positional[0] = in.text(print(arguments.get(0), in.budget));
  return in.budget.ok() ? strip<true, true>(in, strings) : Value();
}

enum class Case { Upper, Lower, Capital, Title, TitleFilter };

/// Whether a word goes on behind `c`: behind a letter for the method, for the
/// filter behind what is no blank and opens nothing.
static bool goesOn(Case to, char32_t c) {
  if (to == Case::Title)
    return isLetter(c);
  static constexpr std::u32string_view opening = U"-({[<";
  return !isPythonSpace(c) && opening.find(c) == opening.npos;
}

template <Case to>
static Value toCase(Evaluator &in, const Arguments &arguments) {
  std::string text = print(arguments.get(0), in.budget), result;
  in.budget.spend(text.size());
  bool begins = true;
  for (size_t at = 0; at < text.size();) {
    char32_t c = takeCharacter(text, at);
    bool upper = to == Case::Upper || (to != Case::Lower && begins);
    appendCharacter(result, upper ? toUpper(c) : toLower(c));
    begins = (to == Case::Title || to == Case::TitleFilter) && !goesOn(to, c);
  }
  return in.text(std::move(result));
}

static Value replace(Evaluator &in, const Arguments &arguments) {
  std::string text = print(arguments.get(0), in.budget), result;
  std::string_view from = textOf(in, arguments, 1);
  std::string_view to = textOf(in, arguments, 2);
  const Value &limit = arguments.get(3, "count");
  int64_t left = limit.isNumber() ? limit.asInteger() : -1;
  if (from.empty() && in.budget.ok())
    return in.fail("replacing the empty text is not supported",
                   CRIA_UNIMPLEMENTED);
  size_t done = 0;
  for (size_t at; left-- != 0 && in.budget.spend(to.size() + 1) &&
                  (at = text.find(from, done)) != text.npos;
       done = at + from.size())
    result.append(text, done, at - done).append(to);
  return in.text(result.append(text, done));
}

/// Python's split at runs of white space.
static std::vector<std::string> words(std::string_view text, int64_t limit) {
  std::vector<std::string> parts;
  size_t begin = 0;
  auto skip = [&](size_t at, bool space) { // to the end of a run
    while (at < text.size()) {
      size_t next = at;
      if (isPythonSpace(takeCharacter(text, next)) != space)
        break;
      at = next;
    }
    return at;
  };
  while ((begin = skip(begin, true)) < text.size()) {
    if (limit-- == 0) {
      parts.emplace_back(text.substr(begin));
      break;
    }
    size_t end = skip(begin, false);
    parts.emplace_back(text.substr(begin, end - begin));
    begin = end;
  }
  return parts;
}

static std::vector<std::string> pieces(std::string_view text,
                                       std::string_view separator,
                                       int64_t limit, bool fromRight) {
  std::vector<std::string> parts;
  size_t size = separator.size();
  for (size_t at; limit-- != 0;) {
    at = fromRight ? text.rfind(separator) : text.find(separator);
    if (at == text.npos)
      break;
    parts.emplace_back(fromRight ? text.substr(at + size) : text.substr(0, at));
    text = fromRight ? text.substr(0, at) : text.substr(at + size);
  }
  parts.emplace_back(text);
  if (fromRight)
    std::reverse(parts.begin(), parts.end());
  return parts;
}

static Value listOf(Evaluator &in, std::vector<std::string> parts) {
  Value::List elements;
  for (std::string &part : parts)
    if (in.budget.spend(2 * sizeof(Value)))
      elements.push_back(in.text(std::move(part)));
  return Value::list(std::move(elements), in.budget);
}

template <bool fromRight>
static Value split(Evaluator &in, const Arguments &arguments) {
  const Value &separator = arguments.get(1, "sep");
  const Value &limit = arguments.get(2, "maxsplit");
  int64_t most = limit.isNumber() ? limit.asInteger() : -1;
  std::string_view text = textOf(in, arguments, 0);
  if (!in.budget.ok())
    return {};
  if (separator.is(Type::String) && !separator.text().empty())
    return listOf(in, pieces(text, separator.text(), most, fromRight));
  if (separator.is(Type::String) || (fromRight && most >= 0))
    return in.fail("splitting so is not supported", CRIA_UNIMPLEMENTED);
  return listOf(in, words(text, most));
}

static Value splitLines(Evaluator &in, const Arguments &arguments) {
  std::string text(textOf(in, arguments, 0));
  if (!text.empty() && text.back() == '\n')
    text.pop_back();
  else if (text.empty())
    return listOf(in, {});
  return listOf(in, pieces(text, "\n", -1, false));
}

/// Whether the string begins, or ends, with the argument or one of a tuple.
template <bool atEnd>
static Value hasAffix(Evaluator &in, const Arguments &arguments) {
  std::string_view text = textOf(in, arguments, 0);
  const Value &given = arguments.get(1);
  Value::List affixes =
      given.is(Type::List) ? iterate(given, in.budget) : Value::List{given};
  bool found = false;
  for (const Value &one : affixes) {
    if (!one.is(Type::String))
      return in.fail(std::string("an affix is ") + one.typeName() +
                     ", expected a string");
    const std::string &affix = one.text();
    found |= text.size() >= affix.size() && in.budget.spend(affix.size()) &&
             text.substr(atEnd ? text.size() - affix.size() : 0,
                         affix.size()) == affix;
  }
  return Value::boolean(found);
}

/// Where the argument stands, in characters; -1 where it does not.
template <bool fromRight>
static Value findText(Evaluator &in, const Arguments &arguments) {
  std::string_view text = textOf(in, arguments, 0);
  std::string_view what = textOf(in, arguments, 1);
  if (arguments.positional.size() > 2)
    return in.fail("find with bounds is not supported", CRIA_UNIMPLEMENTED);
  size_t at = fromRight ? text.rfind(what) : text.find(what);
  if (at == text.npos)
    return Value::integer(-1);
  return Value::integer(
      std::count_if(text.begin(), text.begin() + at,
                    [](char c) { return (c & 0xC0) != 0x80; }));
}

static Value countText(Evaluator &in, const Arguments &arguments) {
  std::string_view text = textOf(in, arguments, 0);
  std::string_view what = textOf(in, arguments, 1);
  if (what.empty())
    return in.fail("counting the empty text is not supported",
                   CRIA_UNIMPLEMENTED);
  return Value::integer(
      static_cast<int64_t>(pieces(text, what, -1, false).size()) - 1);
}

static Value joinTexts(Evaluator &in, const Arguments &arguments) {
  std::string_view separator = textOf(in, arguments, 0);
  std::string result;
  bool first = true;
  for (const Value &part : iterate(arguments.get(1), in.budget)) {
    if (!part.is(Type::String))
      return in.fail(std::string("cannot join ") + part.typeName());
    in.budget.spend(separator.size() + part.text().size());
    if (!in.budget.ok())
      return {};
    result.append(std::exchange(first, false) ? "" : separator)
        .append(part.text());
  }
  return in.text(std::move(result));
}

template <bool (*kind)(char32_t)>
static Value all(Evaluator &in, const Arguments &arguments) {
  std::string_view text = textOf(in, arguments, 0);
  bool every = !text.empty();
  for (size_t at = 0; at < text.size();)
    every &= kind(takeCharacter(text, at));
  return Value::boolean(every);
}

static bool isDecimal(char32_t c) { return isNumeric(c) && c < 0x80; }

using Named = std::pair<const char *, Builtin>;

Builtin findStringFilter(const std::string &name) {
  static const Named filters[] = {{"trim", trim},
                                  {"upper", toCase<Case::Upper>},
                                  {"lower", toCase<Case::Lower>},
                                  {"capitalize", toCase<Case::Capital>},
                                  {"title", toCase<Case::TitleFilter>},
                                  {"replace", replace}};
  for (const auto &[known, filter] : filters)
    if (name == known)
      return filter;
  return nullptr;
}

Builtin findStringMethod(const std::string &name) {
  static const Named methods[] = {{"strip", strip<true, true>},
                                  {"lstrip", strip<true, false>},
                                  {"rstrip", strip<false, true>},
                                  {"upper", toCase<Case::Upper>},
                                  {"lower", toCase<Case::Lower>},
                                  {"capitalize", toCase<Case::Capital>},
                                  {"title", toCase<Case::Title>},
                                  {"replace", replace},
                                  {"split", split<false>},
                                  {"rsplit", split<true>},
                                  {"splitlines", splitLines},
                                  {"startswith", hasAffix<false>},
                                  {"endswith", hasAffix<true>},
                                  {"find", findText<false>},
                                  {"rfind", findText<true>},
                                  {"count", countText},
                                  {"join", joinTexts},
                                  {"isdigit", all<isDecimal>},
                                  {"isalpha", all<isLetter>},
                                  {"isspace", all<isPythonSpace>}};
  for (const auto &[known, method] : methods)
    if (name == known)
      return method;
  return nullptr;
}

} // namespace cria::chat
