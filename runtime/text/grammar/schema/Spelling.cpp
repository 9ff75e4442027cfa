#include "runtime/text/grammar/schema/Spelling.h"

#include "runtime/text/grammar/Gbnf.h"
#include "runtime/text/grammar/schema/Numbers.h"

#include <algorithm>
#include <optional>
#include <string>

namespace cria::grammar {

using Type = JsonTree::Type;

/// JSON without a schema. A blank or a line may follow a bracket, a comma and a
/// colon, and precede a closing bracket.
static constexpr const char *json = R"(
root ::= value
value ::= object | array | string | number | "true" | "false" | "null"
object ::= "{" ws (string ":" ws value ("," ws string ":" ws value)* ws)? "}"
array ::= "[" ws (value ("," ws value)* ws)? "]"
string ::= "\"" char* "\""
char ::= [^"\\\x00-\x1F] | "\\" (["\\/bfnrt] | "u" unit)
unit ::= ([0-9A-CE-Fa-ce-f] hex | [dD] [0-7]) hex hex |
         [dD] [89ABab] hex hex "\\u" [dD] [C-Fc-f] hex hex
hex ::= [0-9A-Fa-f]
number ::= integer ("." [0-9]+)? ([eE] [+-]? [0-9]+)?
integer ::= "-"? ("0" | [1-9] [0-9]*)
ws ::= (" " | "\n" [ \t]{0,20})?
plain ::= [^"\\\x00-\x1F] | "\\" (["\\bfnrt] | "u00" [01] [0-9a-f])
)";

Status Spelling::begin() {
  Result<std::vector<Rule>> parsed = parseGbnf(json);
  if (!parsed.ok())
    return parsed.status();
  rules = std::move(*parsed);
  for (RuleId id = 0; id < rules.size(); ++id)
    builtin[rules[id].name] = id;
  return Status();
}

RuleId Spelling::addRule() {
  if (rules.size() == mostRules) {
    checks.fail("needs more than " + std::to_string(mostRules) + " rules",
                CRIA_RESOURCE_EXHAUSTED);
    return 0;
  }
  rules.push_back({"the schema", {}});
  return static_cast<RuleId>(rules.size() - 1);
}

Expression Spelling::exactly(const JsonTree &value) {
  std::vector<Expression> parts;
  if (!checks.spend(64 + value.text.size()))
    return {};
  switch (value.type) {
  case Type::Null:
    return literal("null");
  case Type::Boolean:
    return literal(value.boolean ? "true" : "false");
  case Type::String:
    return literal(jsonString(value.text));
  case Type::Number: {
    auto decimal = Decimal::parse(value.text);
    std::string plain = decimal ? (decimal->negative ? "-" : "") +
                                      std::to_string(decimal->whole)
                                : value.text;
    if (decimal && !decimal->fraction.empty())
      plain += "." + decimal->fraction;
    if (plain == value.text)
      return literal(plain);
    return choice({literal(plain), literal(value.text)});
  }
  case Type::Array:
    for (const JsonTree &element : value.elements) {
      parts.push_back(parts.empty() ? blank() : next());
      parts.push_back(exactly(element));
    }
    parts.push_back(blank());
    parts.insert(parts.begin(), literal("["));
    parts.push_back(literal("]"));
    return sequence(std::move(parts));
  case Type::Object:
    for (const auto &[key, member] : value.members) {
      checks.spend(key.size());
      parts.push_back(parts.empty() ? blank() : next());
      parts.push_back(literal(jsonString(key) + ":"));
      parts.push_back(blank());
      parts.push_back(exactly(member));
    }
    parts.push_back(blank());
    parts.insert(parts.begin(), literal("{"));
    parts.push_back(literal("}"));
    return sequence(std::move(parts));
  }
  return {};
}

/// One character of a set as JSON spells it within a string. A set with escaped
/// characters has a rule of its own, because it takes many states: `.` takes
/// 200.
Expression Spelling::spelledSet(const Characters &set) {
  Characters special{{0, 0x1F}, {'"', '"'}, {'\\', '\\'}};
  Characters escapes = set.intersection(special);
  if (escapes.empty())
    return oneOf(set);
  auto [found, isNew] = setRules.try_emplace(set.ranges(), 0);
  if (isNew) {
    std::vector<Expression> parts;
    for (auto [first, last] : escapes.ranges())
      for (uint32_t c = first; c <= last; ++c)
        parts.push_back(spelled(literal(utf8Of(c))));
    parts.push_back(oneOf(set.intersection(special.complement())));
    RuleId rule = found->second = addRule();
    rules[rule].body = choice(std::move(parts));
  }
  return call(found->second);
}

/// The characters of a text as JSON spells them within a string.
Expression Spelling::spelled(Expression text) {
  switch (text.kind) {
  case Expression::Kind::Literal: {
    std::string quoted = jsonString(text.text);
    text.text = quoted.substr(1, quoted.size() - 2);
    return text;
  }
  case Expression::Kind::Set:
    return spelledSet(text.set);
  default:
    for (Expression &part : text.parts)
      part = spelled(std::move(part));
    return text;
  }
}

Expression Spelling::patternOf(const JsonTree &place, std::string_view regex,
                               Match match) {
  auto [found, isNew] = regexRules.try_emplace({regex, match}, 0);
  if (isNew && checks.spend(32 * regex.size())) {
    Result<Expression> parsed = parseRegex(regex, match);
    if (!parsed.ok()) {
      checks.fail(place, parsed.status().message(), parsed.status().code());
      return {};
    }
    Expression text = spelled(std::move(*parsed));
    RuleId rule = found->second = addRule();
    rules[rule].body =
        sequence({literal("\""), std::move(text), literal("\"")});
  }
  return call(found->second);
}

Expression Spelling::keyExcept(Names names) {
  // Each beginning of a name has a rule, which says how a key goes on.
  struct Beginning {
    size_t begin, end, size; // the names that begin so, and its bytes
    RuleId rule;
  };
  Expression rest =
      sequence({repeat(any("plain"), 0, Expression::unbounded), literal("\"")});
  std::vector<Beginning> work = {{0, names.size(), 0, addRule()}};
  RuleId first = work[0].rule;
  while (!work.empty() && checks.ok()) {
    auto [begin, end, size, rule] = work.back();
    work.pop_back();
    std::vector<Characters::Range> used;
    std::vector<Expression> choices;
    bool isName = names[begin].size() == size;
    for (size_t at = begin + isName; at < end;) {
      size_t after = size;
      uint32_t character = takeCharacter(names[at], after);
      std::string_view piece = names[at].substr(size, after - size);
      size_t stop = at + 1;
      while (stop < end && names[stop].substr(size, piece.size()) == piece)
        ++stop;
      used.push_back({character, character});
      RuleId below = addRule();
      work.push_back({at, stop, after, below});
      choices.push_back(
          sequence({spelled(literal(std::string(piece))), call(below)}));
      at = stop;
    }
    choices.push_back(sequence(
        {spelled(oneOf(Characters(std::move(used)).complement())), rest}));
    if (!isName)
      choices.push_back(literal("\""));
    rules[rule].body = choice(std::move(choices));
  }
  return sequence({literal("\""), call(first)});
}

Expression Spelling::elementsOf(Expression element, bool first, uint32_t least,
                                uint32_t most) {
  if (most < least)
    return choice({});
  Expression another = sequence({next(), element});
  if (!first)
    return repeat(std::move(another), least, most);
  if (most == 0)
    return sequence({});
  uint32_t left = most == Expression::unbounded ? most : most - 1;
  Expression others = repeat(std::move(another), least - (least > 0), left);
  Expression all = sequence({std::move(element), std::move(others), blank()});
  return least == 0 ? optional(std::move(all)) : all;
}

} // namespace cria::grammar
