/// The expressions of chat templates.
#pragma once

#include "runtime/text/chat/Lexer.h"
#include "runtime/text/chat/Syntax.h"

#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

namespace cria::chat {

/// How many arguments a call, and a macro, may have.
inline constexpr size_t maxArguments = 255;

/// Walks through the tokens of a template. The first error is kept; after it,
/// only the end of the template is seen.
class ExpressionParser {
public:
  explicit ExpressionParser(std::vector<Token> tokens)
      : tokens(std::move(tokens)) {}

protected:
  /// An expression with `if` and `else`, or without them.
  Expression parseExpression(bool conditional = true);
  /// One or several with commas between: a tuple.
  Expression parseTuple(bool conditional = true);
  Expression parseFilters(Expression operand);
  /// A filter's name and arguments.
  Expression parseFilter(Expression operand);
  /// `a, b = c, ...`: names and defaults between parentheses.
  bool atName(std::string_view name) const;
  bool atOperator(std::string_view name) const;
  bool skipName(std::string_view name);
  bool skipOperator(std::string_view name);
  void expectOperator(std::string_view name);
  std::string expectName();
  const Token &peek(size_t ahead = 0) const;
  Token take();
  void fail(const std::string &what, cria_status code = CRIA_INVALID_ARGUMENT);
  void unexpected(const std::string &expected);
  bool ok() const { return status.ok(); }

  Status status;
  /// The names that are read, of those that tell what a macro takes.
  bool namesCaller = false, namesVarargs = false, namesKwargs = false;

private:
  using Kind = Expression::Kind;

  Expression make(Kind kind, std::string name,
                  std::vector<Expression> operands);
  void enter();
  std::pair<std::string, int> peekOperator() const;
  Expression parseOperators(int least);
  Expression parseChain(Expression left);
  Expression parseUnary(bool filters);
  Expression parseName(const std::string &name);
  Expression parsePrimary();
  Expression parseNumber(const Token &token);
  Expression parseList();
  Expression parseDict();
  Expression parsePostfix(Expression operand);
  Expression parseSubscript(Expression operand);
  Expression parseTest(Expression operand);
  Expression parseArguments(Expression call);
  void parseArgument(Expression &call);
  Expression measured(Expression expression);

  std::vector<Token> tokens;
  size_t at = 0;
  int nesting = 0; // of the functions that call themselves
};

} // namespace cria::chat
