/// What expressions of chat templates are worth.
#include "runtime/chat/Evaluator.h"

#include "runtime/Json.h"
#include "runtime/tokenizer/Unicode.h"

#include <algorithm>
#include <cmath>

namespace cria::chat {

using Type = Value::Type;
using Kind = Expression::Kind;

Value Evaluator::evaluate(const Expression &expression) {
  Nested nested(*this, expression.line);
  if (!budget.spend(32))
    return {};
  Value value = evaluateKind(expression);
  return budget.ok() ? value : Value();
}

Value Evaluator::evaluateKind(const Expression &expression) {
  const std::vector<Expression> &operands = expression.operands;
  switch (expression.kind) {
  case Kind::Literal:
    return expression.literal;
  case Kind::Name:
    return evaluateName(expression);
  case Kind::List:
  case Kind::Tuple:
    return evaluateCollection(expression);
  case Kind::Dict:
    return evaluateDict(expression);
  case Kind::Attribute:
    return attribute(evaluate(operands[0]), expression.name);
  case Kind::Item:
    return evaluateItem(expression);
  case Kind::Slice:
    return evaluateSlice(expression);
  case Kind::Call:
  case Kind::Filter:
  case Kind::Test:
    return evaluateCall(expression);
  case Kind::Operator:
    return evaluateOperator(expression);
  case Kind::Compare:
    return evaluateCompare(expression);
  case Kind::Not:
    return Value::boolean(!evaluate(operands[0]).truth());
  case Kind::Negative:
  case Kind::Positive:
    return evaluateSign(expression);
  case Kind::Conditional:
    return evaluate(operands[evaluate(operands[1]).truth() ? 0 : 2]);
  }
  return {};
}

Value Evaluator::evaluateItem(const Expression &expression) {
  Value value = evaluate(expression.operands[0]);
  return item(value, evaluate(expression.operands[1]));
}

Value Evaluator::evaluateCall(const Expression &expression) {
  if (expression.kind == Kind::Call) {
    Value function = evaluate(expression.operands[0]);
    return call(function, evaluateArguments(expression, 1));
  }
  bool filter = expression.kind == Kind::Filter;
  Builtin builtin =
      filter ? findFilter(expression.name) : findTest(expression.name);
  if (!builtin)
    return fail(std::string("the ") + (filter ? "filter " : "test ") +
                    quote(expression.name) + " is not supported",
                CRIA_UNIMPLEMENTED);
  return builtin(*this, evaluateArguments(expression, 0));
}

Value Evaluator::evaluateSign(const Expression &expression) {
  Value value = evaluate(expression.operands[0]);
  bool negative = expression.kind == Kind::Negative;
  if (negative && value.is(Type::Float)) // 0 - 0.0 is no -0.0
    return Value::real(-value.asNumber());
  return arithmetic(negative ? "-" : "+", Value::integer(0), value);
}

Value Evaluator::evaluateName(const Expression &expression) {
  for (auto scope = scopes.rbegin(); scope != scopes.rend(); ++scope)
    if (auto found = scope->find(expression.name); found != scope->end())
      return found->second;
  if (findFunction(expression.name))
    return Value::method(expression.name, {});
  return Value::undefined(expression.name);
}

Value Evaluator::evaluateCollection(const Expression &expression) {
  Value::List elements;
  for (const Expression &operand : expression.operands)
    elements.push_back(evaluate(operand));
  return Value::list(std::move(elements), budget,
                     expression.kind == Kind::Tuple ? Value::Shape::Tuple
                                                    : Value::Shape::List);
}

Value Evaluator::evaluateDict(const Expression &expression) {
  Value::Dict members;
  const std::vector<Expression> &operands = expression.operands;
  for (size_t i = 0; i + 1 < operands.size() && budget.ok(); i += 2) {
    Value key = evaluate(operands[i]), value = evaluate(operands[i + 1]);
    if (!key.is(Type::String))
      return fail(std::string("the key of a dict is ") + key.typeName() +
                      ", which is not supported: expected a string",
                  CRIA_UNIMPLEMENTED);
    auto known = std::find_if(members.begin(), members.end(), [&](auto &one) {
      return one.first == key.text();
    });
    if (known != members.end())
      known->second = std::move(value);
    else
      members.emplace_back(key.text(), std::move(value));
  }
  return Value::dict(std::move(members), budget);
}

Arguments Evaluator::evaluateArguments(const Expression &expression,
                                       size_t first) {
  Arguments arguments;
  for (size_t i = first; i < expression.operands.size(); ++i)
    arguments.positional.push_back(evaluate(expression.operands[i]));
  for (const auto &[name, value] : expression.keywords)
    arguments.named.emplace_back(name, evaluate(value));
  return arguments;
}

Value Evaluator::call(const Value &function, const Arguments &arguments) {
  if (!budget.ok())
    return {};
  if (function.is(Type::Macro))
    return callMacro(*function.macroDefinition(), arguments);
  if (!function.is(Type::Method))
    return fail(function.is(Type::Undefined)
                    ? quote(function.text()) +
                          " is not defined, or not supported here"
                    : std::string("cannot call ") + function.typeName());
  const Value::Method &method = function.callable();
  if (method.self.is(Type::Undefined))
    return findFunction(method.name)(*this, arguments);
  Arguments all = arguments;
  all.positional.insert(all.positional.begin(), method.self);
  return findMethod(method.self, method.name)(*this, all);
}

Value Evaluator::attribute(const Value &value, const std::string &name) {
  if (value.is(Type::Undefined) && budget.ok())
    return fail(quote(value.text()) + " is undefined, and so has no " +
                quote(name));
  if (findMethod(value, name))
    return Value::method(name, value);
  budget.spend(value.members().size());
  if (const Value *member = value.find(name))
    return *member;
  if (name.compare(0, 2, "__") == 0)
    return fail("the attribute " + quote(name) + " is not supported",
                CRIA_UNIMPLEMENTED);
  return Value::undefined(name);
}

static bool isWhole(const Value &value) {
  return value.is(Type::Integer) || value.is(Type::Boolean);
}

/// Where `index`, from the end if negative, lies in `size`; or nothing.
static std::optional<size_t> place(const Value &index, size_t size) {
  if (!isWhole(index))
    return std::nullopt;
  int64_t at = index.asInteger();
  if (at < 0)
    at += static_cast<int64_t>(size);
  if (at < 0 || at >= static_cast<int64_t>(size))
    return std::nullopt;
  return static_cast<size_t>(at);
}

Value Evaluator::item(const Value &value, const Value &index) {
  if (value.is(Type::Undefined) && budget.ok())
    return fail(quote(value.text()) + " is undefined, and so has no elements");
  if (index.is(Type::String)) {
    budget.spend(value.members().size());
    const Value *member = value.find(index.text());
    return member ? *member : attribute(value, index.text());
  }
  if (value.is(Type::List) && value.shape() != Value::Shape::Generator)
    if (auto at = place(index, value.elements().size()))
      return value.elements()[*at];
  if (value.is(Type::String)) {
    Value::List characters = iterate(value, budget);
    if (auto at = place(index, characters.size()))
      return characters[*at];
  }
  return Value::undefined("element");
}

/// Python's: start, stop and step, each maybe left out and maybe negative.
Value Evaluator::evaluateSlice(const Expression &expression) {
  Value value = evaluate(expression.operands[0]);
  if (!value.is(Type::List) && !value.is(Type::String))
    return fail(std::string("a part of ") + value.typeName() +
                    " is not supported",
                CRIA_UNIMPLEMENTED);
  Value::List elements = iterate(value, budget), part;
  auto size = static_cast<int64_t>(elements.size());
  Value bounds[3];
  for (int i = 0; i < 3; ++i) {
    bounds[i] = evaluate(expression.operands[i + 1]);
    if (!bounds[i].is(Type::None) && !isWhole(bounds[i]))
      return fail(std::string("a bound of a part is ") + bounds[i].typeName() +
                  ", expected an integer");
  }
  int64_t step = bounds[2].isNumber() ? bounds[2].asInteger() : 1;
  if (step == 0)
    return fail("the step of a slice is 0");
  auto bound = [&](const Value &given, int64_t otherwise) {
    if (!given.isNumber())
      return otherwise;
    int64_t at = given.asInteger();
    at = at < 0 ? std::max(at, -size - 1) + size : std::min(at, size);
    return std::clamp<int64_t>(at, step < 0 ? -1 : 0,
                               step < 0 ? size - 1 : size);
  };
  int64_t at = bound(bounds[0], step < 0 ? size - 1 : 0);
  int64_t stop = bound(bounds[1], step < 0 ? -1 : size);
  step = std::clamp<int64_t>(step, -size - 1, size + 1);
  for (; step < 0 ? at > stop : at < stop; at += step)
    part.push_back(elements[static_cast<size_t>(at)]);
  if (value.is(Type::List))
    return Value::list(std::move(part), budget, value.shape());
  std::string joined;
  for (const Value &character : part)
    joined += character.text();
  return text(std::move(joined));
}

Value Evaluator::evaluateOperator(const Expression &expression) {
  Value left = evaluate(expression.operands[0]);
  if (expression.name == "and")
    return left.truth() ? evaluate(expression.operands[1]) : left;
  if (expression.name == "or")
    return left.truth() ? left : evaluate(expression.operands[1]);
  Value right = evaluate(expression.operands[1]);
  if (expression.name == "~")
    return text(print(left, budget) + print(right, budget));
  if (expression.name == "+")
    return sum(left, right);
  return arithmetic(expression.name, left, right);
}

Value Evaluator::evaluateCompare(const Expression &expression) {
  Value a = evaluate(expression.operands[0]);
  Value b = evaluate(expression.operands[1]);
  const std::string &name = expression.name;
  if (!budget.ok())
    return {};
  if (name == "==" || name == "!=")
    return Value::boolean(equal(a, b, budget) == (name == "=="));
  if (name == "in" || name == "not in")
    return Value::boolean(contains(b, a, budget) == (name == "in"));
  if (name == "<" || name == ">=")
    return Value::boolean(less(a, b, budget) == (name == "<"));
  return Value::boolean(less(b, a, budget) == (name == ">"));
}

Value Evaluator::sum(const Value &a, const Value &b) {
  if (a.is(Type::String) && b.is(Type::String))
    return budget.spend(a.text().size() + b.text().size())
               ? text(a.text() + b.text())
               : Value();
  if (a.is(Type::List) && b.is(Type::List) && a.shape() == b.shape() &&
      a.shape() != Value::Shape::Generator) {
    Value::List all = iterate(a, budget), more = iterate(b, budget);
    all.insert(all.end(), more.begin(), more.end());
    return Value::list(std::move(all), budget, a.shape());
  }
  return arithmetic("+", a, b);
}

static int64_t floorDivide(int64_t a, int64_t b) {
  return a / b - (a % b != 0 && (a < 0) != (b < 0));
}

static double computeReal(char name, double a, double b) {
  switch (name) {
  case '+':
    return a + b;
  case '-':
    return a - b;
  case '*':
    return a * b;
  case '/':
    return a / b;
  case 'f':
    return std::floor(a / b);
  default: { // Python's remainder has the sign of b
    double rest = std::fmod(a, b);
    return rest == 0               ? std::copysign(0.0, b)
           : (rest < 0) != (b < 0) ? rest + b
                                   : rest;
  }
  }
}

/// `value`, a string or list, `count` times.
Value Evaluator::repeat(const Value &value, const Value &count) {
  if (!isWhole(count) || (!value.is(Type::String) && !value.is(Type::List)))
    return fail(std::string("cannot multiply ") + value.typeName() + " by " +
                count.typeName());
  std::string repeated;
  Value::List elements;
  for (int64_t i = 0; i < count.asInteger(); ++i) {
    if (!budget.spend(16 + value.text().size() +
                      value.elements().size() * sizeof(Value)))
      return {};
    repeated += value.text();
    elements.insert(elements.end(), value.elements().begin(),
                    value.elements().end());
  }
  return value.is(Type::String)
             ? text(std::move(repeated))
             : Value::list(std::move(elements), budget, value.shape());
}

Value Evaluator::arithmetic(const std::string &name, const Value &a,
                            const Value &b) {
  char kind = name == "//" ? 'f' : name[0];
  if (kind == '*' && (a.isNumber() != b.isNumber()))
    return a.isNumber() ? repeat(b, a) : repeat(a, b);
  if (kind == '%' && a.is(Type::String))
    return fail("formatting a string by '%' is not supported",
                CRIA_UNIMPLEMENTED);
  if (!a.isNumber() || !b.isNumber())
    return fail("cannot compute " + std::string(a.typeName()) + " " + name +
                " " + b.typeName());
  bool divides = kind == '/' || kind == 'f' || kind == '%';
  if (divides && b.asNumber() == 0)
    return fail("a division by zero");
  if (kind == '/' || a.is(Type::Float) || b.is(Type::Float))
    return Value::real(computeReal(kind, a.asNumber(), b.asNumber()));
  int64_t left = a.asInteger(), right = b.asInteger(), result = 0;
  bool tooLarge = kind == '+'   ? __builtin_add_overflow(left, right, &result)
                  : kind == '-' ? __builtin_sub_overflow(left, right, &result)
                  : kind == '*' ? __builtin_mul_overflow(left, right, &result)
                                : right == -1 && left == INT64_MIN;
  if (tooLarge)
    return fail("an integer beyond 64 bits is not supported",
                CRIA_UNIMPLEMENTED);
  if (divides)
    result = kind == 'f' ? floorDivide(left, right)
                         : left - floorDivide(left, right) * right;
  return Value::integer(result);
}

} // namespace cria::chat
