#include "runtime/text/grammar/Regex.h"

#include "runtime/base/Json.h"
#include "runtime/text/tokenizer/Text.h"

#include <optional>
#include <string>

namespace cria::grammar {

namespace {

/// Parses an expression. After the first error, `status` has it, and the
/// parser goes to the end.
class RegexParser {
public:
  RegexParser(std::vector<uint32_t> text, Match match)
      : text(std::move(text)), match(match) {}

  Expression parse();
  Status status;

private:
  bool atEnd() const { return at == text.size(); }
  bool sees(std::string_view ascii) const;
  bool take(std::string_view ascii);
  void fail(const std::string &message,
            cria_status code = CRIA_INVALID_ARGUMENT);
  void failExpected(const std::string &what);
  std::string textFrom(size_t begin) const;
  void refuse(const std::string &what) {
    fail(what + " is not supported", CRIA_UNIMPLEMENTED);
  }

  Expression alternatives();
  Expression alternative();
  Expression atom();
  Expression group();
  Expression quantified(Expression part);
  bool takeCounts(uint32_t &least, uint32_t &most);
  std::optional<uint32_t> number();
  Expression set();
  Characters setMember(bool &isOne, uint32_t &character);
  std::optional<Characters> classOf(uint32_t letter);
  uint32_t escaped(bool inSet);
  uint32_t hex(size_t digits);
  uint32_t unicode();

  std::vector<uint32_t> text;
  Match match;
  size_t at = 0;
  int depth = 0;
};

} // namespace

bool RegexParser::sees(std::string_view ascii) const {
  for (size_t i = 0; i < ascii.size(); ++i)
    if (at + i >= text.size() || text[at + i] != static_cast<uint8_t>(ascii[i]))
      return false;
  return true;
}

bool RegexParser::take(std::string_view ascii) {
  bool found = sees(ascii);
  at += found ? ascii.size() : 0;
  return found;
}

void RegexParser::fail(const std::string &message, cria_status code) {
  if (status.ok())
    status =
        Status(code, "at character " + std::to_string(at) + ": " + message);
  at = text.size();
}

/// Says what is found in its place.
void RegexParser::failExpected(const std::string &what) {
  fail("expected " + what + ", got " +
       (atEnd() ? "the end" : quote(utf8Of(text[at]))));
}

/// What was read since `begin`.
std::string RegexParser::textFrom(size_t begin) const {
  std::string read;
  for (size_t i = begin; i < at; ++i)
    read += utf8Of(text[i]);
  return quote(read);
}

Expression RegexParser::parse() {
  Expression result = alternatives();
  if (!atEnd())
    fail("')' without '('");
  return result;
}

Expression RegexParser::alternatives() {
  std::vector<Expression> parts;
  do
    parts.push_back(alternative());
  while (take("|"));
  return choice(std::move(parts));
}

Expression RegexParser::alternative() {
  bool searches = depth == 0 && match == Match::Part;
  auto anything = [] {
    return repeat(oneOf(Characters::all()), 0, Expression::unbounded);
  };
  std::vector<Expression> parts;
  if (depth == 0 && take("^"))
    ;
  else if (searches)
    parts.push_back(anything());
  while (!atEnd() && !sees("|") && !sees(")")) {
    if (depth == 0 && take("$")) {
      if (!atEnd() && !sees("|"))
        refuse("'$' before the end");
      return sequence(std::move(parts));
    }
    Expression part = quantified(atom());
    bool isText = part.kind == Expression::Kind::Literal && !parts.empty() &&
                  parts.back().kind == Expression::Kind::Literal;
    if (isText)
      parts.back().text += part.text;
    else
      parts.push_back(std::move(part));
  }
  if (searches)
    parts.push_back(anything());
  return sequence(std::move(parts));
}

Expression RegexParser::atom() {
  if (take("("))
    return group();
  if (take("["))
    return set();
  if (take("."))
    return oneOf(Characters::one('\n').complement());
  if (sees("^") || sees("$")) {
    refuse(std::string("'") + static_cast<char>(text[at]) + "' here");
    return {};
  }
  for (std::string_view sign : {"*", "+", "?"})
    if (sees(sign)) {
      fail("nothing to repeat before '" + std::string(sign) + "'");
      return {};
    }
  if (!take("\\"))
    return literal(utf8Of(text[at++]));
  if (auto characters = atEnd() ? std::nullopt : classOf(text[at])) {
    ++at;
    return oneOf(std::move(*characters));
  }
  return literal(utf8Of(escaped(false)));
}

Expression RegexParser::group() {
  if (take("?")) {
    if (take("P<") || (sees("<") && !sees("<=") && !sees("<!") && take("<"))) {
      while (!atEnd() && !sees(">"))
        ++at;
      if (!take(">"))
        failExpected("'>' after the name of a group");
    } else if (!take(":")) {
      refuse(sees("=") || sees("!") || sees("<") ? "looking around"
             : sees(">")                         ? "an atomic group"
             : atEnd()                           ? "'(?' at the end"
                       : quote("(?" + utf8Of(text[at])));
    }
  }
  if (++depth > mostNesting)
    fail("groups are nested more than " + std::to_string(mostNesting) + " deep",
         CRIA_RESOURCE_EXHAUSTED);
  Expression inside = alternatives();
  --depth;
  if (!take(")"))
    failExpected("')'");
  return inside;
}

std::optional<uint32_t> RegexParser::number() {
  size_t begin = at;
  uint32_t value = 0;
  for (; !atEnd() && text[at] >= '0' && text[at] <= '9'; ++at)
    value = std::min(value * 10 + text[at] - '0', mostRepeats + 1);
  return at == begin ? std::nullopt : std::optional<uint32_t>(value);
}

/// Takes "{2}", "{2,}" or "{2,5}"; another brace is a character.
bool RegexParser::takeCounts(uint32_t &least, uint32_t &most) {
  size_t begin = at;
  if (take("{"))
    if (auto low = number()) {
      bool open = take(",");
      auto high = open ? number() : low;
      least = *low;
      most = high.value_or(Expression::unbounded);
      if (take("}"))
        return true;
    }
  at = begin;
  return false;
}

Expression RegexParser::quantified(Expression part) {
  size_t begin = at;
  uint32_t least = 0, most = Expression::unbounded;
  if (take("?"))
    most = 1;
  else if (take("+"))
    least = 1;
  else if (!take("*") && !takeCounts(least, most))
    return part;
  if (least > mostRepeats ||
      (most != Expression::unbounded && most > mostRepeats))
    fail("a repetition of more than " + std::to_string(mostRepeats) + " times",
         CRIA_RESOURCE_EXHAUSTED);
  if (most < least)
    fail("the numbers of the repetition " + textFrom(begin) +
         " are out of order");
  take("?"); // which of several readings is found makes no difference
  if (sees("+"))
    refuse("a possessive repetition");
  if (uint32_t a = 0, b = 0; sees("*") || sees("?") || takeCounts(a, b))
    fail("a second repetition of one part: put the first in parentheses");
  return repeat(std::move(part), least, most);
}

/// The characters of \d and the like.
std::optional<Characters> RegexParser::classOf(uint32_t letter) {
  switch (letter) {
  case 'd':
    return Characters{{'0', '9'}};
  case 'w':
    return Characters{{'0', '9'}, {'A', 'Z'}, {'a', 'z'}, {'_', '_'}};
  case 's':
    return Characters{{'\t', '\r'}, {' ', ' '}};
  case 'D':
  case 'W':
  case 'S':
    return classOf(letter + 'a' - 'A')->complement();
  default:
    return std::nullopt;
  }
}

uint32_t RegexParser::hex(size_t digits) {
  uint32_t value = 0;
  for (size_t i = 0; i < digits; ++i) {
    uint32_t c = atEnd() ? 0 : text[at];
    if ((c < '0' || c > '9') && ((c | 32) < 'a' || (c | 32) > 'f')) {
      failExpected(std::to_string(digits) + " hexadecimal digits");
      return 0;
    }
    value = value * 16 + (c <= '9' ? c - '0' : (c | 32) - 'a' + 10);
    ++at;
  }
  return value;
}

/// What follows "\u": one of a pair of surrogates, too.
uint32_t RegexParser::unicode() {
  if (take("{")) {
    size_t digits = 0;
    while (at + digits < text.size() && text[at + digits] != '}')
      ++digits;
    if (digits == 0 || digits > 6)
      fail("expected 1 to 6 hexadecimal digits in '\\u{}', got " +
           std::to_string(digits));
    uint32_t value = hex(digits);
    if (!take("}"))
      failExpected("'}'");
    return value;
  }
  uint32_t value = hex(4);
  if (value >> 10 == 0xD800 >> 10 && take("\\u")) {
    uint32_t low = hex(4);
    return low >> 10 == 0xDC00 >> 10
               ? 0x10000 + ((value & 0x3FF) << 10 | (low & 0x3FF))
               : 1u << 24;
  }
  return value;
}

/// The character of an escape, whose backslash is taken.
uint32_t RegexParser::escaped(bool inSet) {
  static constexpr std::string_view letters = "nrtfv0",
                                    meaning{"\n\r\t\f\v\0", 6};
  if (atEnd()) {
    fail("a backslash at the end");
    return 0;
  }
  size_t begin = at - 1;
  uint32_t c = text[at];
  if (inSet && take("b"))
    return '\b';
  bool alone =
      at + 1 == text.size() || text[at + 1] < '0' || text[at + 1] > '9';
  if (size_t i = c < 128 ? letters.find(static_cast<char>(c)) : letters.npos;
      i != letters.npos && (c != '0' || alone)) {
    ++at;
    return static_cast<uint8_t>(meaning[i]);
  }
  if (take("x"))
    return hex(2);
  if (take("u")) {
    uint32_t value = unicode();
    if (value > Characters::last || value >> 11 == 0xD800 >> 11) {
      fail("the escape " + textFrom(begin) + " is no character");
      return 0;
    }
    return value;
  }
  bool isLetter = c >= 128 || (c >= '0' && c <= '9') ||
                  ((c | 32) >= 'a' && (c | 32) <= 'z');
  if (isLetter) {
    refuse("the escape " + quote("\\" + utf8Of(c)));
    return 0;
  }
  ++at;
  return c;
}

Characters RegexParser::setMember(bool &isOne, uint32_t &character) {
  isOne = true;
  if (sees("[:") || sees("[=") || sees("[.")) {
    refuse("a POSIX class");
    return {};
  }
  if (take("\\")) {
    if (auto characters = atEnd() ? std::nullopt : classOf(text[at])) {
      ++at;
      isOne = false;
      return *characters;
    }
    character = escaped(true);
  } else {
    character = text[at++];
  }
  return Characters::one(character);
}

Expression RegexParser::set() {
  bool negated = take("^");
  std::vector<Characters::Range> ranges;
  if (sees("]"))
    refuse("an empty set");
  while (!atEnd() && !sees("]")) {
    size_t begin = at;
    bool isOne = false, isLast = false;
    uint32_t first = 0, last = 0;
    Characters member = setMember(isOne, first);
    if (isOne && sees("-") && at + 1 < text.size() && text[at + 1] != ']') {
      take("-");
      setMember(isLast, last);
      if (!isLast || last < first)
        fail("expected a range from a lower to a higher character, got " +
             textFrom(begin));
      member = {{first, last}};
    }
    ranges.insert(ranges.end(), member.ranges().begin(), member.ranges().end());
  }
  Characters characters(std::move(ranges));
  if (!take("]"))
    failExpected("']'");
  return oneOf(negated ? characters.complement() : characters);
}

Result<Expression> parseRegex(std::string_view source, Match match) {
  if (size_t bad = findInvalidUtf8(source); bad != source.npos)
    return Status(CRIA_INVALID_ARGUMENT,
                  "not UTF-8 at byte " + std::to_string(bad));
  std::vector<uint32_t> text;
  for (size_t at = 0; at < source.size();)
    text.push_back(takeCharacter(source, at));
  RegexParser parser(std::move(text), match);
  Expression result = parser.parse();
  if (!parser.status.ok())
    return parser.status;
  return result;
}

} // namespace cria::grammar
