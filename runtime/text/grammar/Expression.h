/// What the front ends make of a grammar: for each rule an expression, a tree.
#pragma once

#include "runtime/text/grammar/Characters.h"

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace cria::grammar {

using RuleId = uint32_t;

/// The texts of a part of a grammar.
struct Expression {
  enum class Kind : uint8_t {
    Literal,  // `text`
    Set,      // one character of `set`
    Call,     // a text of `rule`
    Sequence, // `parts`, one after another; without parts, the empty text
    Choice,   // one of `parts`; without parts, no text
    Repeat    // `parts[0]`, `least` to `most` times
  };
  static constexpr uint32_t unbounded = UINT32_MAX;

  Kind kind = Kind::Sequence;
  RuleId rule = 0;
  uint32_t least = 0, most = 0;
  std::string text;
  Characters set;
  std::vector<Expression> parts;
};

/// A rule; the first one of a grammar is its root. Errors say `name`.
struct Rule {
  std::string name;
  Expression body;
};

Expression literal(std::string text);
Expression oneOf(Characters set);
Expression call(RuleId rule);
Expression sequence(std::vector<Expression> parts);
Expression choice(std::vector<Expression> parts);
Expression repeat(Expression part, uint32_t least, uint32_t most);
inline Expression optional(Expression part) {
  return repeat(std::move(part), 0, 1);
}

} // namespace cria::grammar
