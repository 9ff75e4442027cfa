/// The strings of chat templates: Python's methods of str, and similar filters
/// of Jinja. Letters change case one by one.
#include "runtime/text/chat/Evaluator.h"

#include "runtime/base/Json.h"
#include "runtime/text/tokenizer/Text.h"
#include "runtime/text/tokenizer/Unicode.h"

#include <algorithm>
#include <utility>

namespace cria::chat {

using Type = Value::Type;

/// The text of argument `index` or `name`, which must be a string.
static TextView textOf(Evaluator &in, const Arguments &arguments, size_t index,
                       std::string_view name = {}) {
  const Value &value = arguments.get(index, name);
  if (!value.is(Type::String))
    in.fail("argument " + std::to_string(index) + " of a string's method is " +
            value.typeName() + ", expected a string");
  in.budget.spend(value.text().size());
  return value.view();
}

static TextView stripped(TextView text, bool left, bool right,
                         const Value &set) {
  auto goes = [&](char32_t c) {
    if (!set.is(Type::String))
      return isPythonSpace(c);
    for (size_t at = 0; at < set.text().size();)
      if (takeCharacter(set.text(), at) == c)
        return true;
    return false;
  };
  size_t begin = std::string_view::npos, end = 0; // of the part that stays
  for (size_t at = 0; at < text.size();) {
    size_t place = at;
    if (goes(takeCharacter(text, at)))
      continue;
    begin = std::min(begin, place);
    end = at;
  }
  text = text.substr(0, right ? end : text.size());
  return text.substr(left ? std::min(begin, text.size()) : 0);
}

template <bool left, bool right>
static Value strip(Evaluator &in, const Arguments &arguments) {
  const Value &set = arguments.get(1, "chars");
  TextView text = textOf(in, arguments, 0);
  if (!in.budget.spend(text.size() * (1 + set.text().size())))
    return {};
  return in.text(stripped(text, left, right, set));
}

/// trim as a filter of Jinja, which takes any value.
static Value trim(Evaluator &in, const Arguments &arguments) {
  Arguments strings = arguments;
  strings.positional[0] = in.text(print(arguments.get(0), in.budget));
  return in.budget.ok() ? strip<true, true>(in, strings) : Value();
}

enum class Case { Upper, Lower, Capital, Title, TitleFilter };

/// Whether a word continues after `c`. For the method: if `c` is a letter. For
/// the filter: unless `c` is white space, a hyphen or an opening bracket.
static bool goesOn(Case to, char32_t c) {
  if (to == Case::Title)
    return isLetter(c);
  static constexpr std::u32string_view opening = U"-({[<";
  return !isPythonSpace(c) && opening.find(c) == opening.npos;
}

template <Case to>
static Value toCase(Evaluator &in, const Arguments &arguments) {
  Text text = print(arguments.get(0), in.budget);
  Writer result(in.budget);
  bool begins = true;
  for (size_t at = 0; at < text.bytes.size() && in.budget.ok();) {
    result.origin = TextView(text).origin(at);
    char32_t c = takeCharacter(text.bytes, at);
    bool upper = to == Case::Upper || (to != Case::Lower && begins);
    result.addCharacter(upper ? toUpper(c) : toLower(c));
    begins = (to == Case::Title || to == Case::TitleFilter) && !goesOn(to, c);
  }
  return in.text(result.take());
}

/// The cost of a search, besides reading its texts.
static constexpr size_t searchCost = 64;

/// The integer in argument `index` or `name`; -1, for no limit, if there is
/// none.
static Integer limitOf(Evaluator &in, const Arguments &arguments, size_t index,
                       std::string_view name) {
  const Value &limit = arguments.get(index, name);
  if (limit.isWhole())
    return limit.asInteger();
  if (!limit.is(Type::Undefined) && !limit.is(Type::None))
    in.fail("the argument " + quote(name) + " is " + limit.typeName() +
            ", expected an integer");
  return -1;
}

static Value replace(Evaluator &in, const Arguments &arguments) {
  Text printed = print(arguments.get(0), in.budget);
  TextView text = printed, from = textOf(in, arguments, 1, "old"),
           to = textOf(in, arguments, 2, "new");
  Integer left = limitOf(in, arguments, 3, "count");
  if (from.size() == 0 && in.budget.ok())
    return in.fail("replacing the empty text is not supported",
                   CRIA_UNIMPLEMENTED);
  Writer result(in.budget);
  size_t done = 0;
  while (left-- != 0 && in.budget.spend(searchCost)) {
    size_t at = findText(text, from, done);
    if (at == std::string_view::npos)
      break;
    result.add(text.substr(done, at - done));
    result.add(to);
    done = at + from.size();
  }
  result.add(text.substr(done));
  return in.text(result.take());
}

/// Collects the strings of a list.
class Pieces {
public:
  explicit Pieces(Evaluator &in) : in(in) {}
  void add(TextView piece) {
    if (in.budget.spend(sizeof(Value) + piece.cost()))
      elements.push_back(in.text(piece));
  }
  Value take(bool reversed) {
    if (reversed)
      std::reverse(elements.begin(), elements.end());
    return Value::list(std::move(elements), in.budget);
  }

private:
  Evaluator &in;
  Value::List elements;
};

/// Python's split at runs of white space.
static Value words(Evaluator &in, TextView text, Integer limit) {
  Pieces parts(in);
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
  while ((begin = skip(begin, true)) < text.size() && in.budget.ok()) {
    if (limit-- == 0) {
      parts.add(text.substr(begin));
      break;
    }
    size_t end = skip(begin, false);
    parts.add(text.substr(begin, end - begin));
    begin = end;
  }
  return parts.take(false);
}

static Value pieces(Evaluator &in, TextView text, std::string_view separator,
                    Integer limit) {
  Pieces parts(in);
  while (limit-- != 0 && in.budget.spend(searchCost)) {
    size_t at = findText(text, separator);
    if (at == std::string_view::npos)
      break;
    parts.add(text.substr(0, at));
    text = text.substr(at + separator.size());
  }
  parts.add(text);
  return parts.take(false);
}

/// The bytes of `text` in reverse order. A search from the right in `text` is a
/// search from the left in the result.
static std::string mirror(Evaluator &in, std::string_view text) {
  return in.budget.spend(text.size()) ? std::string(text.rbegin(), text.rend())
                                      : std::string();
}

static Value piecesFromRight(Evaluator &in, TextView text,
                             std::string_view separator, Integer limit) {
  std::string mirrored = mirror(in, text), wanted = mirror(in, separator);
  Pieces parts(in);
  size_t done = 0; // bytes at the right
  while (limit-- != 0 && in.budget.spend(searchCost)) {
    size_t at = findText(mirrored, wanted, done);
    if (at == std::string_view::npos)
      break;
    parts.add(text.substr(text.size() - at, at - done));
    done = at + separator.size();
  }
  parts.add(text.substr(0, text.size() - done));
  return parts.take(true);
}

template <bool fromRight>
static Value split(Evaluator &in, const Arguments &arguments) {
  const Value &separator = arguments.get(1, "sep");
  Integer most = limitOf(in, arguments, 2, "maxsplit");
  TextView text = textOf(in, arguments, 0);
  if (!in.budget.ok())
    return {};
  if (separator.is(Type::String) && !separator.text().empty()) {
    std::string_view mark = separator.text();
    in.budget.spend(mark.size());
    return fromRight ? piecesFromRight(in, text, mark, most)
                     : pieces(in, text, mark, most);
  }
  bool blank = separator.is(Type::Undefined) || separator.is(Type::None);
  if (!blank || (fromRight && most >= 0))
    return in.fail("splitting so is not supported", CRIA_UNIMPLEMENTED);
  return words(in, text, most);
}

/// The lines, without their ends: \n, \r, \r\n, and rarer characters.
static Value splitLines(Evaluator &in, const Arguments &arguments) {
  TextView text = textOf(in, arguments, 0);
  if (arguments.get(1, "keepends").truth())
    return in.fail("splitting lines with their ends is not supported",
                   CRIA_UNIMPLEMENTED);
  static constexpr std::u32string_view ends =
      U"\n\r\v\f\x1C\x1D\x1E\x85\u2028\u2029";
  Pieces lines(in);
  size_t begin = 0;
  for (size_t at = 0; at < text.size() && in.budget.ok();) {
    size_t end = at;
    char32_t c = takeCharacter(text, at);
    if (ends.find(c) == ends.npos)
      continue;
    lines.add(text.substr(begin, end - begin));
    at += c == '\r' && text.bytes.substr(at, 1) == "\n";
    begin = at;
  }
  if (begin < text.size())
    lines.add(text.substr(begin));
  return lines.take(false);
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

/// The place of the argument in the string, in characters; -1 if it has none.
template <bool fromRight>
static Value findText(Evaluator &in, const Arguments &arguments) {
  std::string_view text = textOf(in, arguments, 0);
  std::string_view what = textOf(in, arguments, 1);
  if (!in.budget.ok())
    return {};
  size_t at = fromRight ? cria::findText(mirror(in, text), mirror(in, what))
                        : cria::findText(text, what);
  if (at == text.npos)
    return Value::integer(-1);
  if (fromRight)
    at = text.size() - what.size() - at;
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
  Integer count = 0;
  for (size_t at = 0; in.budget.spend(searchCost); ++count) {
    at = cria::findText(text, what, at);
    if (at == text.npos)
      break;
    at += what.size();
  }
  return Value::integer(count);
}

static Value joinTexts(Evaluator &in, const Arguments &arguments) {
  TextView separator = textOf(in, arguments, 0);
  Writer result(in.budget);
  bool first = true;
  for (const Value &part : iterate(arguments.get(1), in.budget)) {
    if (!part.is(Type::String))
      return in.fail(std::string("cannot join ") + part.typeName());
    result.add(std::exchange(first, false) ? TextView() : separator);
    result.add(part.view());
  }
  return in.text(result.take());
}

template <bool (*kind)(char32_t)>
static Value all(Evaluator &in, const Arguments &arguments) {
  std::string_view text = textOf(in, arguments, 0);
  bool every = !text.empty();
  for (size_t at = 0; at < text.size();)
    every &= kind(takeCharacter(text, at));
  return Value::boolean(every);
}

/// Jinja's indent: each line but the first, and no empty one unless asked.
static Value indent(Evaluator &in, const Arguments &arguments) {
  TextView text = textOf(in, arguments, 0);
  const Value &width = arguments.get(1, "width");
  Text by = width.is(Type::String) ? Text(width.view()) : Text();
  Integer count = width.isWhole() ? width.asInteger() : 4;
  if (!width.is(Type::String) &&
      in.budget.spend(std::clamp<Integer>(count, 0, 1 << 30)))
    by = std::string(static_cast<size_t>(std::max<Integer>(count, 0)), ' ');
  bool first = arguments.get(2, "first").truth();
  bool blank = arguments.get(3, "blank").truth();
  Writer result(in.budget);
  for (size_t begin = 0, end; in.budget.spend(32); begin = end + 1) {
    end = std::min(text.bytes.find('\n', begin), text.size());
    if (begin == 0 ? first : blank || end > begin)
      result.add(by);
    result.add(text.substr(begin, end + 1 - begin));
    if (end == text.size())
      break;
  }
  return in.text(result.take());
}

static Value wordCount(Evaluator &in, const Arguments &arguments) {
  Text text = print(arguments.get(0), in.budget);
  Integer count = 0;
  bool inside = false;
  for (size_t at = 0; at < text.bytes.size();) {
    char32_t c = takeCharacter(text.bytes, at);
    bool word = isLetter(c) || isNumeric(c) || c == '_';
    count += word && !inside;
    inside = word;
  }
  return Value::integer(count);
}

/// The text in the middle (filter and method "center"), at the left or at the
/// right of `width` characters.
enum class Side { Left, Middle, Right };
template <Side side, int otherwise>
static Value justify(Evaluator &in, const Arguments &arguments) {
  Text text = print(arguments.get(0), in.budget);
  const Value &width = arguments.get(1, "width");
  const Value &mark = arguments.get(2);
  if (!mark.is(Type::Undefined) || (!width.isWhole() && otherwise == 0))
    return in.fail("justifying so is not supported", CRIA_UNIMPLEMENTED);
  Integer size =
      static_cast<Integer>(characterBounds(text.bytes, in.budget).size() - 1);
  Integer wanted = width.isWhole() ? width.asInteger() : otherwise;
  Integer fill = std::clamp<Integer>(wanted - size, 0, 1 << 30);
  if (!in.budget.spend(static_cast<size_t>(fill)))
    return {};
  Integer left = side == Side::Left    ? 0
                 : side == Side::Right ? fill
                                       : fill / 2 + (fill & wanted & 1);
  Writer result(in.budget);
  result.add(std::string(static_cast<size_t>(left), ' '));
  result.add(text);
  result.add(std::string(static_cast<size_t>(fill - left), ' '));
  return in.text(result.take());
}

/// removeprefix and removesuffix.
template <bool atEnd>
static Value removeAffix(Evaluator &in, const Arguments &arguments) {
  TextView text = textOf(in, arguments, 0), affix = textOf(in, arguments, 1);
  bool fits = text.size() >= affix.size();
  size_t begin = atEnd ? text.size() - affix.size() : 0;
  if (!fits || text.bytes.substr(begin, affix.size()) != affix.bytes)
    return in.text(text);
  return in.text(atEnd ? text.substr(0, begin) : text.substr(affix.size()));
}

/// partition and rpartition: before, the separator, and after it.
template <bool fromRight>
static Value partition(Evaluator &in, const Arguments &arguments) {
  TextView text = textOf(in, arguments, 0), mark = textOf(in, arguments, 1);
  if (mark.size() == 0 && in.budget.ok())
    return in.fail("partition: the separator is empty");
  size_t at = fromRight ? cria::findText(mirror(in, text), mirror(in, mark))
                        : cria::findText(text, mark);
  bool found = at != std::string_view::npos;
  if (found && fromRight)
    at = text.size() - mark.size() - at;
  TextView parts[] = {text, {}, {}};
  if (found) {
    parts[0] = text.substr(0, at);
    parts[1] = text.substr(at, mark.size());
    parts[2] = text.substr(at + mark.size());
  } else if (fromRight) {
    std::swap(parts[0], parts[2]);
  }
  return Value::list({in.text(parts[0]), in.text(parts[1]), in.text(parts[2])},
                     in.budget, Value::Shape::Tuple);
}

template <bool upper>
static Value isCased(Evaluator &in, const Arguments &arguments) {
  Text printed = print(arguments.get(0), in.budget);
  bool cased = false, right = true;
  for (size_t at = 0; at < printed.bytes.size();) {
    char32_t c = takeCharacter(printed.bytes, at);
    bool isUpper = toLower(c) != c, isLower = toUpper(c) != c;
    cased |= isUpper || isLower;
    right &= upper ? !isLower : !isUpper;
  }
  return Value::boolean(cased && right);
}

static bool isAlphanumeric(char32_t c) { return isLetter(c) || isNumeric(c); }

static bool isDecimal(char32_t c) { return isNumeric(c) && c < 0x80; }

Value isUpperText(Evaluator &in, const Arguments &given) {
  return isCased<true>(in, given);
}
Value isLowerText(Evaluator &in, const Arguments &given) {
  return isCased<false>(in, given);
}

const Builtin *findStringFilter(std::string_view name) {
  static const Builtin filters[] = {
      {"trim", trim, "chars?"},
      {"upper", toCase<Case::Upper>},
      {"lower", toCase<Case::Lower>},
      {"capitalize", toCase<Case::Capital>},
      {"title", toCase<Case::TitleFilter>},
      {"indent", indent, "width? first? blank?"},
      {"wordcount", wordCount},
      {"center", justify<Side::Middle, 80>, "width?"},
      {"replace", replace, "old new count?"}};
  return findBuiltin(filters, name);
}

const Builtin *findStringMethod(std::string_view name) {
  static const Builtin methods[] = {
      {"strip", strip<true, true>, "/ chars?"},
      {"lstrip", strip<true, false>, "/ chars?"},
      {"rstrip", strip<false, true>, "/ chars?"},
      {"upper", toCase<Case::Upper>},
      {"lower", toCase<Case::Lower>},
      {"capitalize", toCase<Case::Capital>},
      {"title", toCase<Case::Title>},
      {"replace", replace, "/ old new count?"},
      {"split", split<false>, "sep? maxsplit?"},
      {"rsplit", split<true>, "sep? maxsplit?"},
      {"splitlines", splitLines, "keepends?"},
      {"startswith", hasAffix<false>, "/ prefix"},
      {"endswith", hasAffix<true>, "/ suffix"},
      {"find", findText<false>, "/ text"},
      {"rfind", findText<true>, "/ text"},
      {"count", countText, "/ text"},
      {"join", joinTexts, "/ texts"},
      {"isdigit", all<isDecimal>},
      {"isalpha", all<isLetter>},
      {"isspace", all<isPythonSpace>},
      {"isalnum", all<isAlphanumeric>},
      {"isnumeric", all<isNumeric>},
      {"isdecimal", all<isDecimal>},
      {"isupper", isCased<true>},
      {"islower", isCased<false>},
      {"removeprefix", removeAffix<false>, "/ prefix"},
      {"removesuffix", removeAffix<true>, "/ suffix"},
      {"partition", partition<false>, "/ separator"},
      {"rpartition", partition<true>, "/ separator"},
      {"center", justify<Side::Middle, 0>, "/ width fill?"},
      {"ljust", justify<Side::Left, 0>, "/ width fill?"},
      {"rjust", justify<Side::Right, 0>, "/ width fill?"},
      {"format", formatBraces, "* **"}};
  return findBuiltin(methods, name);
}

} // namespace cria::chat
