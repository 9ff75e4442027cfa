/// A parsed chat template.
#pragma once

#include "runtime/text/chat/Value.h"

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace cria::chat {

/// An expression; its operands are in the order of their spelling.
struct Expression {
  enum class Kind {
    Literal,
    Name,
    List,
    Tuple,
    Dict,      // key, value, key, value, ...
    Attribute, // operand.name
    Item,      // operand[operand]
    Slice,     // operand[operand:operand:operand], None where left out
    Call,      // operand(operands, keywords); the
               // keywords "*" and "**" are a list and a dict of arguments
    Filter,    // operand | name(operands, keywords)
    Test,      // operand is name(operands)
    Operator,  // operand name operand: + - * / // % ** ~ and or
    Compare,   // operand name operand: == != < <= > >= in, not in
    Not,
    Negative,
    Positive,
    Conditional // operand if operand else operand
  };
  Kind kind = Kind::Literal;
  std::string name;
  Value literal;
  std::vector<Expression> operands;
  std::vector<std::pair<std::string, Expression>> keywords;
  int line = 0;
  int depth = 0; // of the expressions inside
};

/// A part of a template between `{%` and `%}`, or around that.
struct Statement {
  enum class Kind {
    Text,
    Print,    // expressions[0]
    If,       // body: its branches
    Branch,   // expressions[0], none for else; body
    For,      // targets in expressions[0] if expressions[1]; body, otherwise
    Set,      // targets, or targets[0].text, = expressions[0]
    SetBlock, // targets[0] = body, through the filters of expressions[0];
              // without a target, that is printed
    With,     // body, in which targets = expressions
    Call,     // expressions[0], a call, with the macro body[0] as its caller
    Macro,    // text(targets), expressions: defaults of the last ones; body
    Block,    // body alone: of "generation"
    Break,
    Continue
  };
  Kind kind = Kind::Text;
  std::string text;
  std::vector<std::string> targets;
  std::vector<Expression> expressions;
  std::vector<Statement> body, otherwise;
  bool takesCaller = false, takesMore = false, takesMoreNamed = false; // Macro
  int line = 0;
};

/// The name by which the expression of a SetBlock reads the block's text.
inline constexpr const char *blockBody = "{% set %}";

/// Parses a template. Text that is not Jinja, and parts of Jinja that are not
/// supported, are refused with line and name.
Result<std::vector<Statement>> parse(std::string_view source);

} // namespace cria::chat
