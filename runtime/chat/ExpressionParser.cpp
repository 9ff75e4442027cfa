/// From the loosest operator to the tightest: if-else; or; and; not;
/// comparisons; + -; ~; * / // %; signs; attributes, subscripts and calls;
/// filters and tests. As in Jinja, a filter binds tighter than an operator to
/// its left, so that "a + b | trim" trims b.
#include "runtime/chat/ExpressionParser.h"

#include "runtime/Json.h"

#include <algorithm>
#include <charconv>

namespace cria::chat {

/// How deep expressions may be inside each other.
static constexpr int maxDepth = 200;

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

Expression ExpressionParser::make(Kind kind, std::string name,
                                  std::vector<Expression> operands) {
  Expression expression;
  expression.kind = kind;
  expression.name = std::move(name);
  expression.line = peek().line;
  for (const Expression &operand : operands)
    expression.depth = std::max(expression.depth, operand.depth + 1);
  expression.operands = std::move(operands);
  if (expression.depth > maxDepth)
    fail("an expression deeper than " + std::to_string(maxDepth));
  return expression;
}

/// Without this, moving operands into a braced list would copy them.
template <typename... Operands>
static std::vector<Expression> list(Operands &&...operands) {
  std::vector<Expression> all;
  (all.push_back(std::forward<Operands>(operands)), ...);
  return all;
}

Expression ExpressionParser::parseExpression(bool conditional) {
  if (++nesting > maxDepth)
    fail("an expression deeper than " + std::to_string(maxDepth));
  Expression expression = parseBinary(0);
  while (conditional && skipName("if")) {
    Expression condition = parseBinary(0);
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

/// or; and; [not and comparisons]; + -; ~; * / // %
Expression ExpressionParser::parseBinary(size_t level) {
  static const std::vector<std::string> levels[] = {
      {"or"}, {"and"}, {}, {"+", "-"}, {"~"}, {"*", "/", "//", "%"}};
  auto operand = [&] {
    return level == 1                      ? parseNot()
           : level + 1 < std::size(levels) ? parseBinary(level + 1)
                                           : parseUnary(true);
  };
  Expression left = operand();
  for (bool found = true; found && ok();) {
    found = false;
    for (const std::string &name : levels[level])
      if (level < 2 ? skipName(name) : skipOperator(name)) {
        Expression right = operand();
        left =
            make(Kind::Operator, name, list(std::move(left), std::move(right)));
        found = true;
        break;
      }
  }
  if (atOperator("**"))
    fail("the operator '**' is not supported", CRIA_UNIMPLEMENTED);
  return left;
}

Expression ExpressionParser::parseNot() {
  if (++nesting > maxDepth)
    fail("an expression deeper than " + std::to_string(maxDepth));
  Expression expression =
      skipName("not") ? make(Kind::Not, "", list(parseNot())) : parseCompare();
  --nesting;
  return expression;
}

/// a < b < c means a < b and b < c.
Expression ExpressionParser::parseCompare() {
  Expression left = parseBinary(3);
  Expression result, middle;
  for (bool chained = false; ok(); chained = true) {
    std::string name;
    for (const char *symbol : {"==", "!=", "<", "<=", ">", ">="})
      if (name.empty() && skipOperator(symbol))
        name = symbol;
    if (name.empty() && skipName("in"))
      name = "in";
    if (name.empty() && atName("not") && peek(1).text == "in") {
      take();
      take();
      name = "not in";
    }
    if (name.empty())
      return chained ? std::move(result) : std::move(left);
    Expression right = parseBinary(3);
    Expression one = make(Kind::Compare, name,
                          list(chained ? middle : std::move(left), right));
    middle = std::move(right);
    result = chained ? make(Kind::Operator, "and",
                            list(std::move(result), std::move(one)))
                     : std::move(one);
  }
  return left;
}

Expression ExpressionParser::parseUnary(bool filters) {
  if (++nesting > maxDepth)
    fail("an expression deeper than " + std::to_string(maxDepth));
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
  int64_t whole = 0;
  double real = 0;
  bool right = token.kind == Token::Kind::Integer
                   ? std::from_chars(begin, end, whole).ec == std::errc()
                   : std::from_chars(begin, end, real).ec == std::errc();
  if (!right)
    fail("the number " + quote(token.text) + " is too large");
  literal.literal = token.kind == Token::Kind::Integer ? Value::integer(whole)
                                                       : Value::real(real);
  return literal;
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
      return make(Kind::Name, token.text, {});
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
      operand = make(Kind::Call, "", list(std::move(operand)));
      parseArguments(operand);
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

void ExpressionParser::parseArguments(Expression &call) {
  expectOperator("(");
  while (ok() && !atOperator(")")) {
    if (atOperator("*") || atOperator("**"))
      return fail("arguments after '*' are not supported", CRIA_UNIMPLEMENTED);
    bool keyword = peek().kind == Token::Kind::Name &&
                   peek(1).kind == Token::Kind::Operator && peek(1).text == "=";
    std::string name = keyword ? take().text : "";
    if (keyword)
      take();
    Expression value = parseExpression();
    call.depth = std::max(call.depth, value.depth + 1);
    if (keyword)
      call.keywords.emplace_back(std::move(name), std::move(value));
    else
      call.operands.push_back(std::move(value));
    if (!skipOperator(","))
      break;
  }
  expectOperator(")");
  if (call.depth > maxDepth)
    fail("an expression deeper than " + std::to_string(maxDepth));
}

Expression ExpressionParser::parseFilters(Expression operand) {
  while (ok()) {
    if (skipOperator("|")) {
      operand = make(Kind::Filter, expectName(), list(std::move(operand)));
      if (atOperator("("))
        parseArguments(operand);
    } else if (skipName("is")) {
      operand = parseTest(std::move(operand));
    } else if (atOperator("(")) {
      operand = make(Kind::Call, "", list(std::move(operand)));
      parseArguments(operand);
    } else {
      break;
    }
  }
  return operand;
}

/// The argument of a test may stand without parentheses.
Expression ExpressionParser::parseTest(Expression operand) {
  bool negated = skipName("not");
  Expression test = make(Kind::Test, expectName(), list(std::move(operand)));
  Token::Kind next = peek().kind;
  if (atOperator("(")) {
    parseArguments(test);
  } else if (next == Token::Kind::String || next == Token::Kind::Integer ||
             next == Token::Kind::Float || atOperator("[") || atOperator("{") ||
             (next == Token::Kind::Name && !atName("else") && !atName("or") &&
              !atName("and") && !atName("is"))) {
    bool keyword = atName("if") || atName("in") || atName("not");
    if (!keyword)
      test.operands.push_back(parsePostfix(parsePrimary()));
  }
  return negated ? make(Kind::Not, "", list(std::move(test))) : std::move(test);
}

} // namespace cria::chat
