#include "runtime/text/grammar/Gbnf.h"

#include "runtime/base/Json.h"
#include "runtime/text/grammar/Regex.h"
#include "runtime/text/tokenizer/Text.h"

#include <algorithm>
#include <map>
#include <string>

namespace cria::grammar {

namespace {

/// Parses a grammar. After the first error, `status` has it, and the parser
/// goes to the end.
class GbnfParser {
public:
  explicit GbnfParser(std::string_view text) : text(text) { ruleOf("root"); }

  std::vector<Rule> parse();
  Status status;

private:
  bool atEnd() const { return at == text.size(); }
  char here() const { return atEnd() ? '\0' : text[at]; }
  bool take(std::string_view what);
  void skipBlanks(bool lines);
  void fail(const std::string &message,
            cria_status code = CRIA_INVALID_ARGUMENT);
  void failAt(size_t place, const std::string &message,
              cria_status code = CRIA_INVALID_ARGUMENT);
  void failExpected(const std::string &what);

  RuleId ruleOf(const std::string &name);
  std::string name();
  void rule();
  Expression alternatives();
  Expression alternative();
  bool beginsItem() const;
  Expression item();
  Expression quantified(Expression part);
  void counts(uint32_t &least, uint32_t &most);
  uint32_t number();
  Expression quoted();
  Expression set();
  uint32_t character();

  std::string_view text;
  size_t at = 0;
  int depth = 0;
  std::vector<Rule> rules;
  std::vector<bool> defined;
  std::vector<size_t> uses; // where the text has each rule's name first
  std::map<std::string, RuleId> ids;
};

bool isOfName(char c) {
  return (c >= '0' && c <= '9') || ((c | 32) >= 'a' && (c | 32) <= 'z') ||
         c == '-' || c == '_';
}

} // namespace

bool GbnfParser::take(std::string_view what) {
  bool found = text.compare(at, what.size(), what) == 0;
  at += found ? what.size() : 0;
  return found;
}

/// Blanks and comments, and ends of lines if `lines`.
void GbnfParser::skipBlanks(bool lines) {
  for (; !atEnd(); ++at) {
    if (here() == '#')
      at = std::min(text.find('\n', at), text.size());
    bool isEnd = here() == '\n' || here() == '\r';
    if (atEnd() || (isEnd ? !lines : here() != ' ' && here() != '\t'))
      return;
  }
}

void GbnfParser::fail(const std::string &message, cria_status code) {
  failAt(at, message, code);
}

/// Says what is found in its place.
void GbnfParser::failExpected(const std::string &what) {
  std::string found =
      atEnd() ? "the end" : quote(text.substr(at, characterLength(text, at)));
  fail("expected " + what + ", got " + found);
}

void GbnfParser::failAt(size_t place, const std::string &message,
                        cria_status code) {
  if (!status.ok())
    return;
  auto line =
      std::count(text.begin(), text.begin() + static_cast<long>(place), '\n');
  status = Status(code, "line " + std::to_string(line + 1) + ": " + message);
  at = text.size();
}

RuleId GbnfParser::ruleOf(const std::string &name) {
  auto [found, isNew] =
      ids.try_emplace(name, static_cast<RuleId>(rules.size()));
  if (isNew) {
    rules.push_back({name, {}});
    defined.push_back(false);
    uses.push_back(at);
  }
  return found->second;
}

std::vector<Rule> GbnfParser::parse() {
  for (skipBlanks(true); !atEnd(); skipBlanks(true))
    rule();
  for (size_t i = 0; i < rules.size(); ++i)
    if (!defined[i])
      failAt(uses[i], "rule " + quote(rules[i].name) + " is not defined");
  return std::move(rules);
}

std::string GbnfParser::name() {
  size_t begin = at;
  while (!atEnd() && isOfName(here()))
    ++at;
  return std::string(text.substr(begin, at - begin));
}

void GbnfParser::rule() {
  std::string called = name();
  if (called.empty())
    return failExpected("the name of a rule");
  skipBlanks(false);
  if (!take("::="))
    return failExpected("'::=' after " + quote(called));
  RuleId id = ruleOf(called);
  if (defined[id])
    return fail("rule " + quote(called) + " is defined twice");
  skipBlanks(true);
  Expression body = alternatives();
  rules[id].body = std::move(body);
  defined[id] = true;
  if (!atEnd() && here() != '\n' && here() != '\r')
    failExpected("the end of the line");
}

Expression GbnfParser::alternatives() {
  std::vector<Expression> parts;
  for (bool more = true; more;) {
    parts.push_back(alternative());
    size_t end = at;
    skipBlanks(true);
    more = take("|");
    if (more)
      skipBlanks(true);
    else if (depth == 0)
      at = end; // the line's end is the rule's
  }
  return choice(std::move(parts));
}

bool GbnfParser::beginsItem() const {
  return !atEnd() && (isOfName(here()) || here() == '"' || here() == '[' ||
                      here() == '(' || here() == '.');
}

Expression GbnfParser::alternative() {
  std::vector<Expression> parts;
  while (beginsItem())
    parts.push_back(quantified(item()));
  if (here() == '<')
    fail("a token in '<>' is not supported: write its text",
         CRIA_UNIMPLEMENTED);
  return sequence(std::move(parts));
}

Expression GbnfParser::item() {
  if (take("\""))
    return quoted();
  if (take("["))
    return set();
  if (take("."))
    return oneOf(Characters::all());
  if (!take("("))
    return call(ruleOf(name()));
  if (++depth > mostNesting)
    fail("parentheses are nested more than " + std::to_string(mostNesting) +
             " deep",
         CRIA_RESOURCE_EXHAUSTED);
  skipBlanks(true);
  Expression inside = alternatives();
  --depth;
  if (!take(")"))
    failExpected("')'");
  return inside;
}

uint32_t GbnfParser::number() {
  size_t begin = at;
  uint32_t value = 0;
  for (; here() >= '0' && here() <= '9'; ++at)
    value = std::min<uint32_t>(value * 10 + here() - '0', mostRepeats + 1);
  if (at == begin)
    failExpected("a number in '{}'");
  if (value > mostRepeats)
    fail("a repetition of more than " + std::to_string(mostRepeats) + " times",
         CRIA_RESOURCE_EXHAUSTED);
  return value;
}

Expression GbnfParser::quantified(Expression part) {
  skipBlanks(depth > 0);
  uint32_t least = 0, most = Expression::unbounded;
  if (take("?")) {
    most = 1;
  } else if (take("+")) {
    least = 1;
  } else if (take("{")) {
    counts(least, most);
  } else if (!take("*")) {
    return part;
  }
  skipBlanks(depth > 0);
  if (here() == '*' || here() == '+' || here() == '?' || here() == '{')
    fail("a second repetition of one part: put the first in parentheses");
  return repeat(std::move(part), least, most);
}

/// Takes "2}", "2,}", ",5}" or "2,5}".
void GbnfParser::counts(uint32_t &least, uint32_t &most) {
  size_t begin = at;
  skipBlanks(false);
  least = here() == ',' ? 0 : number();
  skipBlanks(false);
  most = least;
  if (take(",")) {
    skipBlanks(false);
    most = here() == '}' ? Expression::unbounded : number();
  }
  skipBlanks(false);
  if (!take("}"))
    failExpected("'}'");
  if (most < least)
    fail("the numbers of the repetition " +
         quote("{" + std::string(text.substr(begin, at - begin))) +
         " are out of order");
}

/// A character of a literal or a set, maybe an escape.
uint32_t GbnfParser::character() {
  if (!take("\\"))
    return takeCharacter(text, at);
  static constexpr std::string_view letters = "nrt\\\"[]-^",
                                    meaning = "\n\r\t\\\"[]-^";
  char letter = here();
  size_t known = letters.find(letter), digits = letter == 'x'   ? 2
                                                : letter == 'u' ? 4
                                                : letter == 'U' ? 8
                                                                : 0;
  if (atEnd() || (known == letters.npos && digits == 0)) {
    fail("the escape " +
             quote("\\" + std::string(text.substr(
                              at, atEnd() ? 0 : characterLength(text, at)))) +
             " is not supported",
         CRIA_UNIMPLEMENTED);
    return 0;
  }
  size_t begin = at++;
  if (digits == 0)
    return static_cast<uint8_t>(meaning[known]);
  uint64_t value = 0;
  for (size_t i = 0; i < digits; ++i, ++at) {
    char c = here();
    bool isLetter = (c | 32) >= 'a' && (c | 32) <= 'f';
    if (!isLetter && (c < '0' || c > '9')) {
      failExpected(std::to_string(digits) + " hexadecimal digits");
      return 0;
    }
    value = value * 16 + (isLetter ? (c | 32) - 'a' + 10 : c - '0');
  }
  if (value > Characters::last || value >> 11 == 0xD800 >> 11) {
    fail("the escape " +
         quote("\\" + std::string(text.substr(begin, at - begin))) +
         " is no character");
    return 0;
  }
  return static_cast<uint32_t>(value);
}

Expression GbnfParser::quoted() {
  size_t begin = at;
  std::string bytes;
  while (!atEnd() && here() != '"')
    bytes += utf8Of(character());
  if (!take("\""))
    failAt(begin, "the literal that begins here has no '\"' at its end");
  return literal(std::move(bytes));
}

Expression GbnfParser::set() {
  size_t begin = at;
  bool negated = take("^");
  std::vector<Characters::Range> ranges;
  while (!atEnd() && here() != ']') {
    size_t from = at;
    uint32_t first = character(), last = first;
    if (here() == '-' && at + 1 < text.size() && text[at + 1] != ']') {
      ++at;
      last = character();
    }
    if (last < first)
      fail("expected a range from a lower to a higher character, got " +
           quote(text.substr(from, at - from)));
    ranges.push_back({first, last});
  }
  if (!take("]"))
    failAt(begin, "the set that begins here has no ']' at its end");
  Characters characters(std::move(ranges));
  return oneOf(negated ? characters.complement() : characters);
}

Result<std::vector<Rule>> parseGbnf(std::string_view source) {
  if (size_t bad = findInvalidUtf8(source); bad != source.npos)
    return Status(CRIA_INVALID_ARGUMENT,
                  "not UTF-8 at byte " + std::to_string(bad));
  GbnfParser parser(source);
  std::vector<Rule> rules = parser.parse();
  if (!parser.status.ok())
    return parser.status;
  return rules;
}

} // namespace cria::grammar
