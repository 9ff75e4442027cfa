/// From the loosest operator to the tightest: if-else; or; and; not;
/// comparisons; + -; ~; * / // %; **; signs; attributes, subscripts and calls;
/// filters and tests. As in Jinja, a filter binds tighter than an operator to
/// its left, so that "a + b | trim" trims b.
#include "runtime/text/chat/ExpressionParser.h"

#include "runtime/base/Json.h"

#include <algorithm>
#include <charconv>

namespace cria::chat {

/// How deeply expressions may be nested.
static constexpr int maxDepth = 200;

/// How tightly operators bind.
enum Level { Or = 1, And, Not, Compare, Add, Concatenate, Multiply, Power };

const Token &ExpressionParser::peek(size_t ahead) const {
  return tokens[ok() ? std::min(at + ahead, tokens.size() - 1)
                     : tokens.size() - 1];
}

Token ExpressionParser::take() {
  Token token = peek();
  at = std::min(at + 1, tokens.size() - 1);
  return token;
}

void ExpressionParser::fail(const std::string &what, cria_status code) {
  if (ok())
    status = Status(code, "line " + std::to_string(peek().line) + ": " + what);
}

void ExpressionParser::unexpected(const std::string &expected) {
  fail("expected " + expected + ", found " + quote(peek().text));
}

bool ExpressionParser::atName(std::string_view name) const {
  return peek().kind == Token::Kind::Name && peek().text == name;
}

bool ExpressionParser::atOperator(std::string_view name) const {
  return peek().kind == Token::Kind::Operator && peek().text == name;
}

bool ExpressionParser::skipName(std::string_view name) {
  bool found = atName(name);
  at += found;
  return found;
}

bool ExpressionParser::skipOperator(std::string_view name) {
  bool found = atOperator(name);
  at += found;
  return found;
}

void ExpressionParser::expectOperator(std::string_view name) {
  if (!skipOperator(name))
    unexpected("'" + std::string(name) + "'");
}

std::string ExpressionParser::expectName() {
  if (peek().kind != Token::Kind::Name)
    unexpected("a name");
  return take().text;
}

/// Counts how deeply the parser recurses. The function that calls it lowers
/// `nesting` again before it returns.
void ExpressionParser::enter() {
  if (++nesting > maxDepth)
    fail("an expression deeper than " + std::to_string(maxDepth));
}

Expression ExpressionParser::make(Kind kind, std::string name,
                                  std::vector<Expression> operands) {
  Expression expression;
  expression.kind = kind;
  expression.name = std::move(name);
  expression.line = peek().line;
  expression.operands = std::move(operands);
  return measured(std::move(expression));
}

/// Sets the depth of `expression`; an error if it is too deep.
Expression ExpressionParser::measured(Expression expression) {
  for (const Expression &operand : expression.operands)
    expression.depth = std::max(expression.depth, operand.depth + 1);
  for (const auto &[name, operand] : expression.keywords)
    expression.depth = std::max(expression.depth, operand.depth + 1);
  if (expression.depth > maxDepth)
    fail("an expression deeper than " + std::to_string(maxDepth));
  return expression;
}

/// A braced list would copy its operands; this function moves them.
template <typename... Operands>
static std::vector<Expression> list(Operands &&...operands) {
  std::vector<Expression> all;
  (all.push_back(std::forward<Operands>(operands)), ...);
  return all;
}

Expression ExpressionParser::parseExpression(bool conditional) {
  enter();
  Expression expression = parseOperators(Or);
  while (conditional && skipName("if")) {
    Expression condition = parseOperators(Or);
    Expression other =
        skipName("else") ? parseExpression() : make(Kind::Literal, "", {});
    expression = make(
        Kind::Conditional, "",
        list(std::move(expression), std::move(condition), std::move(other)));
  }
  --nesting;
  return expression;
}

Expression ExpressionParser::parseTuple(bool conditional) {
  Expression first = parseExpression(conditional);
  if (!atOperator(","))
    return first;
  std::vector<Expression> elements = list(std::move(first));
  while (skipOperator(",")) {
    bool ends = peek().kind == Token::Kind::CloseBlock ||
                peek().kind == Token::Kind::ClosePrint || atOperator(")") ||
                atOperator("=") || atName("in");
    if (ends || !ok())
      break;
    elements.push_back(parseExpression(conditional));
  }
  return make(Kind::Tuple, "", std::move(elements));
}

/// The next operator, which may have two words, and its level; level 0 if no
/// operator comes next.
std::pair<std::string, int> ExpressionParser::peekOperator() const {
  static const std::pair<const char *, Level> symbols[] = {
      {"==", Compare}, {"!=", Compare}, {"<", Compare},   {"<=", Compare},
      {">", Compare},  {">=", Compare}, {"+", Add},       {"-", Add},
      {"*", Multiply}, {"/", Multiply}, {"//", Multiply}, {"%", Multiply},
      {"or", Or},      {"and", And},    {"in", Compare},  {"~", Concatenate},
      {"**", Power}};
  if (atName("not") && peek(1).kind == Token::Kind::Name &&
      peek(1).text == "in")
    return {"not in", Compare};
  for (const auto &[name, level] : symbols)
    if (atOperator(name) || atName(name))
      return {name, level};
  return {"", 0};
}

/// An expression whose operators have `least` or a higher level, by precedence
/// climbing: one function for all levels takes less stack than one for each.
Expression ExpressionParser::parseOperators(int least) {
  enter();
  Expression left = least <= Not && skipName("not")
                        ? make(Kind::Not, "", list(parseOperators(Not)))
                        : parseUnary(true);
  while (ok()) {
    auto [name, level] = peekOperator();
    if (level < least) // also if there is none
      break;
    if (level == Compare) {
      left = parseChain(std::move(left));
      continue;
    }
    take();
    Expression right = parseOperators(level + 1);
    left = make(Kind::Operator, std::move(name),
                list(std::move(left), std::move(right)));
  }
  --nesting;
  return left;
}

/// One comparison, or several: a < b < c means a < b and b < c.
Expression ExpressionParser::parseChain(Expression left) {
  Expression chain = make(Kind::Compare, "", list(std::move(left)));
  while (ok()) {
    auto [name, level] = peekOperator();
    if (level != Compare)
      break;
    take();
    if (name == "not in")
      take();
    chain.keywords.emplace_back(std::move(name), parseOperators(Compare + 1));
  }
  return measured(std::move(chain));
}

Expression ExpressionParser::parseUnary(bool filters) {
  enter();
  Expression expression =
      skipOperator("-")   ? make(Kind::Negative, "", list(parseUnary(false)))
      : skipOperator("+") ? make(Kind::Positive, "", list(parseUnary(false)))
                          : parsePrimary();
  expression = parsePostfix(std::move(expression));
  if (filters)
    expression = parseFilters(std::move(expression));
  --nesting;
  return expression;
}

Expression ExpressionParser::parseNumber(const Token &token) {
  Expression literal = make(Kind::Literal, "", {});
  const char *begin = token.text.data(), *end = begin + token.text.size();
  double real = 0;
  bool tooLarge = false;
  if (auto whole = parseInteger(token.text, tooLarge);
      whole && token.kind == Token::Kind::Integer)
    literal.literal = Value::integer(*whole);
  else if (!tooLarge && std::from_chars(begin, end, real).ec == std::errc())
    literal.literal = Value::real(real);
  else
    fail("the number " + quote(token.text) + " is too large");
  return literal;
}

Expression ExpressionParser::parseName(const std::string &name) {
  namesCaller |= name == "caller";
  namesVarargs |= name == "varargs";
  namesKwargs |= name == "kwargs";
  return make(Kind::Name, name, {});
}

Expression ExpressionParser::parsePrimary() {
  Token token = peek();
  Expression literal = make(Kind::Literal, "", {});
  Budget unlimited; // the template itself is bounded
  switch (token.kind) {
  case Token::Kind::Integer:
  case Token::Kind::Float:
    return parseNumber(take());
  case Token::Kind::String: {
    std::string text;
    while (peek().kind == Token::Kind::String)
      text += take().text;
    literal.literal = Value::string(std::move(text), unlimited);
    return literal;
  }
  case Token::Kind::Name:
    take();
    if (token.text == "true" || token.text == "True")
      literal.literal = Value::boolean(true);
    else if (token.text == "false" || token.text == "False")
      literal.literal = Value::boolean(false);
    else if (token.text == "none" || token.text == "None")
      literal.literal = Value::none();
    else
      return parseName(token.text);
    return literal;
  default:
    break;
  }
  if (atOperator("["))
    return parseList();
  if (atOperator("{"))
    return parseDict();
  if (!skipOperator("(")) {
    unexpected("an expression");
    return literal;
  }
  Expression inner = atOperator(")") ? make(Kind::Tuple, "", {}) : parseTuple();
  expectOperator(")");
  return inner;
}

Expression ExpressionParser::parseList() {
  std::vector<Expression> elements;
  expectOperator("[");
  while (ok() && !atOperator("]")) {
    elements.push_back(parseExpression());
    if (!skipOperator(","))
      break;
  }
  expectOperator("]");
  return make(Kind::List, "", std::move(elements));
}

Expression ExpressionParser::parseDict() {
  std::vector<Expression> parts;
  expectOperator("{");
  while (ok() && !atOperator("}")) {
    parts.push_back(parseExpression());
    expectOperator(":");
    parts.push_back(parseExpression());
    if (!skipOperator(","))
      break;
  }
  expectOperator("}");
  return make(Kind::Dict, "", std::move(parts));
}

Expression ExpressionParser::parsePostfix(Expression operand) {
  while (ok()) {
    if (skipOperator(".")) {
      if (peek().kind == Token::Kind::Integer) {
        Expression index = parseNumber(take());
        operand =
            make(Kind::Item, "", list(std::move(operand), std::move(index)));
      } else {
        operand = make(Kind::Attribute, expectName(), list(std::move(operand)));
      }
    } else if (skipOperator("[")) {
      operand = parseSubscript(std::move(operand));
    } else if (atOperator("(")) {
      operand = parseArguments(make(Kind::Call, "", list(std::move(operand))));
    } else {
      break;
    }
  }
  return operand;
}

Expression ExpressionParser::parseSubscript(Expression operand) {
  std::vector<Expression> parts = list(std::move(operand));
  auto nothing = [&] {
    Expression none = make(Kind::Literal, "", {});
    none.literal = Value::none();
    return none;
  };
  bool slice = false;
  while (ok() && parts.size() < 4) {
    bool empty = atOperator(":") || atOperator("]");
    parts.push_back(empty ? nothing() : parseExpression());
    if (!skipOperator(":"))
      break;
    slice = true;
  }
  expectOperator("]");
  if (!slice)
    return make(Kind::Item, "", std::move(parts));
  while (parts.size() < 4)
    parts.push_back(nothing());
  return make(Kind::Slice, "", std::move(parts));
}

/// An argument: "value", "name=value", "*list" or "**dict".
void ExpressionParser::parseArgument(Expression &call) {
  bool keyword = peek().kind == Token::Kind::Name &&
                 peek(1).kind == Token::Kind::Operator && peek(1).text == "=";
  bool spread = atOperator("*") || atOperator("**");
  std::string name = keyword || spread ? take().text : "";
  if (keyword)
    take();
  std::string last = call.keywords.empty() ? "" : call.keywords.back().first;
  if (last == "**" || (!keyword && !last.empty() && name != "**" &&
                       (last == "*" || name.empty())))
    unexpected("a named argument");
  Expression value = parseExpression();
  if (name.empty())
    call.operands.push_back(std::move(value));
  else
    call.keywords.emplace_back(std::move(name), std::move(value));
}

Expression ExpressionParser::parseArguments(Expression call) {
  expectOperator("(");
  while (ok() && !atOperator(")")) {
    if (call.operands.size() + call.keywords.size() > maxArguments)
      fail("a call with more than " + std::to_string(maxArguments) +
               " arguments is not supported",
           CRIA_UNIMPLEMENTED);
    parseArgument(call);
    if (!skipOperator(","))
      break;
  }
  expectOperator(")");
  return measured(std::move(call));
}

Expression ExpressionParser::parseFilter(Expression operand) {
  Expression filter =
      make(Kind::Filter, expectName(), list(std::move(operand)));
  return atOperator("(") ? parseArguments(std::move(filter))
                         : std::move(filter);
}

Expression ExpressionParser::parseFilters(Expression operand) {
  while (ok()) {
    if (skipOperator("|")) {
      operand = parseFilter(std::move(operand));
    } else if (skipName("is")) {
      operand = parseTest(std::move(operand));
    } else if (atOperator("(")) {
      operand = parseArguments(make(Kind::Call, "", list(std::move(operand))));
    } else {
      break;
    }
  }
  return operand;
}

/// Parses a test. Its argument may stand without parentheses.
Expression ExpressionParser::parseTest(Expression operand) {
  bool negated = skipName("not");
  Expression test = make(Kind::Test, expectName(), list(std::move(operand)));
  Token::Kind next = peek().kind;
  if (atOperator("(")) {
    test = parseArguments(std::move(test));
  } else if (atName("is")) {
    fail("a test cannot follow a test: write 'and' between them");
  } else if (next == Token::Kind::String || next == Token::Kind::Integer ||
             next == Token::Kind::Float || atOperator("[") || atOperator("{") ||
             (next == Token::Kind::Name && !atName("else") && !atName("or") &&
              !atName("and"))) {
    bool keyword = atName("if") || atName("in") || atName("not");
    if (!keyword)
      test.operands.push_back(parsePostfix(parsePrimary()));
  }
  test = measured(std::move(test));
  return negated ? make(Kind::Not, "", list(std::move(test))) : std::move(test);
}

} // namespace cria::chat
