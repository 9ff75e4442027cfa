#include "runtime/text/grammar/Expression.h"

namespace cria::grammar {

using Kind = Expression::Kind;

static Expression make(Kind kind) {
  Expression made;
  made.kind = kind;
  return made;
}

Expression literal(std::string text) {
  Expression made = make(Kind::Literal);
  made.text = std::move(text);
  return made;
}

Expression oneOf(Characters set) {
  Expression made = make(Kind::Set);
  made.set = std::move(set);
  return made;
}

Expression call(RuleId rule) {
  Expression made = make(Kind::Call);
  made.rule = rule;
  return made;
}

Expression sequence(std::vector<Expression> parts) {
  if (parts.size() == 1)
    return std::move(parts[0]);
  Expression made = make(Kind::Sequence);
  made.parts = std::move(parts);
  return made;
}

Expression choice(std::vector<Expression> parts) {
  if (parts.size() == 1)
    return std::move(parts[0]);
  Expression made = make(Kind::Choice);
  made.parts = std::move(parts);
  return made;
}

Expression repeat(Expression part, uint32_t least, uint32_t most) {
  Expression made = make(Kind::Repeat);
  made.least = least;
  made.most = most;
  made.parts.push_back(std::move(part));
  return made;
}

} // namespace cria::grammar
