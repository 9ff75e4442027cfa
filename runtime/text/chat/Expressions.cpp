/// Evaluates the expressions of chat templates.
#include "runtime/text/chat/Evaluator.h"

#include "runtime/base/Concat.h"
#include "runtime/base/Json.h"

#include <algorithm>
#include <cmath>

namespace cria::chat {

using Type = Value::Type;
using Kind = Expression::Kind;

Value Evaluator::evaluate(const Expression &expression) {
  budget.at(expression.line);
  Nested nested(*this);
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
    return lookUp(expression.name);
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
  const Builtin *builtin =
      filter ? findFilter(expression.name) : findTest(expression.name);
  if (!builtin)
    return fail(std::string("the ") + (filter ? "filter " : "test ") +
                    quote(expression.name) + " is not supported",
                CRIA_UNIMPLEMENTED);
  return apply(*builtin, evaluateArguments(expression, 0));
}

Value Evaluator::evaluateSign(const Expression &expression) {
  Value value = evaluate(expression.operands[0]);
  bool negative = expression.kind == Kind::Negative;
  if (negative && value.is(Type::Float)) // 0 - 0.0 would be 0.0
    return Value::real(-value.asNumber());
  return arithmetic(negative ? "-" : "+", Value::integer(0), value);
}

Value Evaluator::lookUp(std::string_view name) {
  for (auto scope = scopes.rbegin(); scope != scopes.rend(); ++scope) {
    if (!budget.spend(8 + name.size() / 2))
      return {};
    if (auto found = scope->find(name); found != scope->end())
      return found->second;
  }
  if (const Value *variable = variables.find(name, budget))
    return *variable;
  if (const Builtin *function = findFunction(name))
    return Value::method(function, {}, budget);
  return Value::undefined(name, budget);
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
  std::vector<Value::Dict::Member> members;
  const std::vector<Expression> &operands = expression.operands;
  for (size_t i = 0; i + 1 < operands.size() && budget.ok(); i += 2) {
    Value key = evaluate(operands[i]), value = evaluate(operands[i + 1]);
    if (!Value::Dict::isKey(key))
      return fail(std::string("the key of a dict is ") + key.typeName() +
                      ", which is not supported: expected a string, a number "
                      "or none",
                  CRIA_UNIMPLEMENTED);
    members.push_back({std::move(key), std::move(value)});
  }
  return Value::dict(Value::Dict(std::move(members), budget), budget);
}

Arguments Evaluator::evaluateArguments(const Expression &expression,
                                       size_t first) {
  Arguments arguments;
  if (!budget.spend((expression.operands.size() + expression.keywords.size()) *
                    sizeof(arguments.named[0])))
    return arguments;
  for (size_t i = first; i < expression.operands.size(); ++i)
    arguments.positional.push_back(evaluate(expression.operands[i]));
  for (const auto &[name, value] : expression.keywords)
    if (name[0] == '*')
      spread(name, evaluate(value), arguments);
    else
      arguments.named.emplace_back(name, evaluate(value));
  return arguments;
}

/// Adds the arguments of "*list" and "**dict".
void Evaluator::spread(std::string_view sign, const Value &value,
                       Arguments &arguments) {
  if (value.is(Type::Undefined) && budget.ok()) {
    fail(quote(value.text()) + " is undefined, and so no arguments");
  } else if (sign == "*") {
    Value::List more = iterate(value, budget);
    arguments.positional.insert(arguments.positional.end(), more.begin(),
                                more.end());
  } else if (!value.is(Type::Dict)) {
    fail(std::string("the arguments after '**' are ") + value.typeName() +
         ", expected a dict");
  } else if (budget.spend(value.members().size() *
                          sizeof(arguments.named[0]))) {
    arguments.spread = value;
    for (const auto &[key, member] : arguments.spread.members()) {
      if (!key.is(Type::String))
        fail(std::string("the name of an argument is ") + key.typeName());
      if (arguments.has(SIZE_MAX, key.text()))
        fail("the argument " + quote(key.text()) + " comes twice");
      arguments.named.emplace_back(key.text(), member);
    }
  }
}

Value Evaluator::call(const Value &function, const Arguments &arguments) {
  if (!budget.ok())
    return {};
  if (function.is(Type::Macro))
    return callMacro(function.macro(), arguments);
  if (!function.is(Type::Method))
    return fail(function.is(Type::Undefined)
                    ? quote(function.text()) +
                          " is not defined, or not supported here"
                    : std::string("cannot call ") + function.typeName());
  const Value::Method &method = function.callable();
  if (method.self.is(Type::Undefined))
    return apply(*method.function, arguments, false);
  Arguments all = arguments;
  all.positional.insert(all.positional.begin(), method.self);
  return apply(*method.function, all);
}

/// Takes the next word from `words`, which blanks divide; empty at the end.
static std::string_view takeWord(std::string_view &words) {
  std::string_view word = words.substr(0, words.find(' '));
  words.remove_prefix(std::min(word.size() + 1, words.size()));
  return word;
}

/// The name of a parameter: "count?" may be left out.
static std::string_view nameOf(std::string_view word) {
  return word.substr(0, word.find('?'));
}

static bool hasParameter(std::string_view words, std::string_view name) {
  for (std::string_view word; !(word = takeWord(words)).empty();)
    if (nameOf(word) == name)
      return true;
  return false;
}

/// Fails unless `builtin` has a parameter for each argument, and gets an
/// argument for each parameter that it needs.
bool Evaluator::fits(const Builtin &builtin, const Arguments &arguments,
                     bool hasValue) {
  size_t given = arguments.positional.size() - hasValue, taken = 0;
  bool byName = true, anyPlaces = false, anyNames = false;
  std::string_view words = builtin.parameters;
  for (std::string_view word; !(word = takeWord(words)).empty();) {
    if (word == "/") {
      byName = false;
    } else if (word == "*" || word == "**") {
      (word == "*" ? anyPlaces : anyNames) = true;
    } else {
      std::string_view name = nameOf(word);
      bool found = byName && arguments.has(SIZE_MAX, name);
      if (found ? taken < given : taken >= given && name == word)
        fail(concat({quote(builtin.name), " expects the argument ", quote(name),
                     found ? " once" : ""}));
      ++taken;
    }
  }
  if (given > taken && !anyPlaces)
    fail(concat({quote(builtin.name), " with ", given,
                 " arguments is not supported: expected at most ", taken}),
         CRIA_UNIMPLEMENTED);
  for (const auto &[name, value] : arguments.named)
    if (!anyNames && (!byName || !hasParameter(builtin.parameters, name)))
      fail(concat({quote(builtin.name), " with the argument ", quote(name),
                   " is not supported: expected (", builtin.parameters, ")"}),
           CRIA_UNIMPLEMENTED);
  return budget.ok();
}

Value Evaluator::apply(const Builtin &builtin, const Arguments &arguments,
                       bool hasValue) {
  Nested nested(*this);
  return budget.ok() && fits(builtin, arguments, hasValue)
             ? builtin.compute(*this, arguments)
             : Value();
}

/// The member `name` of the variable "loop"; undefined if it has no such
/// member.
static Value memberOf(const Value::Loop &turn, std::string_view name) {
  if (name == "first")
    return Value::boolean(turn.index == 0);
  if (name == "last")
    return Value::boolean(turn.index + 1 == turn.count);
  if (name == "previtem")
    return turn.before;
  if (name == "nextitem")
    return turn.after;
  const std::pair<std::string_view, size_t> numbers[] = {
      {"depth", 1}, // of recursive loops
      {"depth0", 0},
      {"index", turn.index + 1},
      {"index0", turn.index},
      {"revindex", turn.count - turn.index},
      {"revindex0", turn.count - turn.index - 1},
      {"length", turn.count}};
  for (const auto &[known, number] : numbers)
    if (name == known)
      return Value::integer(static_cast<Integer>(number));
  return {};
}

Value Evaluator::attribute(const Value &value, const std::string &name) {
  if (value.is(Type::Undefined) && budget.ok())
    return fail(quote(value.text()) + " is undefined, and so has no " +
                quote(name));
  if (const Builtin *method = findMethod(value, name))
    return Value::method(method, value, budget);
  if (const Value *member = value.members().find(name, budget))
    return *member;
  if (value.is(Type::Loop))
    if (Value member = memberOf(value.turn(), name);
        !member.is(Type::Undefined))
      return member;
  if (name.compare(0, 2, "__") == 0)
    return fail("the attribute " + quote(name) + " is not supported",
                CRIA_UNIMPLEMENTED);
  return Value::undefined(name, budget);
}

/// The place of `index` among `size` elements, counted from the end if
/// negative; nothing if there is no such place.
static std::optional<size_t> place(const Value &index, size_t size) {
  if (!index.isWhole())
    return std::nullopt;
  auto count = static_cast<Integer>(size);
  Integer at = index.asInteger();
  if (at < -count || at >= count)
    return std::nullopt;
  return static_cast<size_t>(at < 0 ? at + count : at);
}

Value Evaluator::item(const Value &value, const Value &index) {
  if (value.is(Type::Undefined) && budget.ok())
    return fail(quote(value.text()) + " is undefined, and so has no elements");
  if (index.is(Type::String)) {
    const Value *member = value.members().find(index.text(), budget);
    return member ? *member : attribute(value, index.text());
  }
  if (value.is(Type::Dict))
    if (const Value *member = value.members().find(index, budget))
      return *member;
  if (value.hasPlaces())
    if (auto at = place(index, value.elements().size()))
      return value.elements()[*at];
  if (value.is(Type::String)) {
    std::vector<uint32_t> bounds = characterBounds(value.text(), budget);
    if (auto at = place(index, bounds.size() - 1))
      return text(
          value.view().substr(bounds[*at], bounds[*at + 1] - bounds[*at]));
  }
  return Value::undefined("element", budget);
}

/// The characters of `whole` from `at` on, every `step`-th, before `stop`.
/// `bounds` has the places where characters begin.
static Text sliceText(TextView whole, const std::vector<uint32_t> &bounds,
                      Integer at, Integer stop, Integer step, Budget &budget) {
  auto bound = [&](Integer index) {
    return bounds[static_cast<size_t>(index)];
  };
  Writer part(budget);
  if (step == 1 && at < stop)
    part.add(whole.substr(bound(at), bound(stop) - bound(at)));
  else
    for (; (step < 0 ? at > stop : at < stop) && budget.ok(); at += step)
      part.add(whole.substr(bound(at), bound(at + 1) - bound(at)));
  return part.take();
}

/// Python's slice: start, stop and step may each be left out or negative.
Value Evaluator::evaluateSlice(const Expression &expression) {
  Value value = evaluate(expression.operands[0]);
  if (!value.hasPlaces() && !value.is(Type::String))
    return fail(std::string("a part of ") + value.typeName() +
                    " is not supported",
                CRIA_UNIMPLEMENTED);
  Value bounds[3];
  for (int i = 0; i < 3; ++i) {
    bounds[i] = evaluate(expression.operands[i + 1]);
    if (!bounds[i].is(Type::None) && !bounds[i].isWhole())
      return fail(std::string("a bound of a part is ") + bounds[i].typeName() +
                  ", expected an integer");
  }
  Integer step = bounds[2].isNumber() ? bounds[2].asInteger() : 1;
  if (step == 0)
    return fail("the step of a slice is 0");
  bool isText = value.is(Type::String);
  std::vector<uint32_t> characters;
  if (isText)
    characters = characterBounds(value.text(), budget);
  auto size = static_cast<Integer>(isText ? characters.size() - 1
                                          : value.elements().size());
  auto bound = [&](const Value &given, Integer otherwise) {
    if (!given.isNumber())
      return otherwise;
    Integer at = given.asInteger();
    at = at < 0 ? std::max(at, -size - 1) + size : std::min(at, size);
    return std::clamp<Integer>(at, step < 0 ? -1 : 0,
                               step < 0 ? size - 1 : size);
  };
  Integer at = bound(bounds[0], step < 0 ? size - 1 : 0);
  Integer stop = bound(bounds[1], step < 0 ? -1 : size);
  step = std::clamp<Integer>(step, -size - 1, size + 1);
  if (!budget.ok())
    return {};
  if (isText)
    return text(sliceText(value.view(), characters, at, stop, step, budget));
  Value::List part;
  for (; step < 0 ? at > stop : at < stop; at += step)
    if (budget.spend(sizeof(Value)))
      part.push_back(value.elements()[static_cast<size_t>(at)]);
  return Value::list(std::move(part), budget, value.shape());
}

Value Evaluator::evaluateOperator(const Expression &expression) {
  Value left = evaluate(expression.operands[0]);
  if (expression.name == "and")
    return left.truth() ? evaluate(expression.operands[1]) : left;
  if (expression.name == "or")
    return left.truth() ? left : evaluate(expression.operands[1]);
  Value right = evaluate(expression.operands[1]);
  if (expression.name == "~") {
    Text both = print(left, budget);
    both.add(print(right, budget));
    return text(std::move(both));
  }
  if (expression.name == "+")
    return sum(left, right);
  return arithmetic(expression.name, left, right);
}

/// a < b < c means a < b and b < c.
Value Evaluator::evaluateCompare(const Expression &expression) {
  Value left = evaluate(expression.operands[0]);
  for (const auto &[sign, operand] : expression.keywords) {
    Value right = evaluate(operand);
    if (!budget.ok() || !compare(sign, left, right))
      return Value::boolean(false);
    left = std::move(right);
  }
  return Value::boolean(true);
}

bool Evaluator::compare(const std::string &sign, const Value &a,
                        const Value &b) {
  if (sign == "==" || sign == "!=")
    return equal(a, b, budget) == (sign == "==");
  if (sign == "in" || sign == "not in")
    return contains(b, a, budget) == (sign == "in");
  if (a.isNumber() && b.isNumber() &&
      (std::isnan(a.asNumber()) || std::isnan(b.asNumber())))
    return false;
  if (sign == "<" || sign == ">=")
    return less(a, b, budget) == (sign == "<");
  return less(b, a, budget) == (sign == ">");
}

Value Evaluator::sum(const Value &a, const Value &b) {
  if (a.is(Type::String) && b.is(Type::String)) {
    using Shape = Value::Shape;
    bool marked = a.shape() == Shape::Markup || b.shape() == Shape::Markup;
    Writer both(budget);
    for (const Value *part : {&a, &b})
      both.add(marked && part->shape() != Shape::Markup
                   ? escapeMarkup(part->view(), budget)
                   : Text(part->view()));
    return Value::string(both.take(), budget,
                         marked ? Shape::Markup : Shape::List);
  }
  if (a.isListOrTuple() && b.isListOrTuple() && a.shape() == b.shape()) {
    Value::List all = iterate(a, budget), more = iterate(b, budget);
    all.insert(all.end(), more.begin(), more.end());
    return Value::list(std::move(all), budget, a.shape());
  }
  return arithmetic("+", a, b);
}

static Integer floorDivide(Integer a, Integer b) {
  return a / b - (a % b != 0 && (a < 0) != (b < 0));
}

/// Python's remainder, which has the sign of `b`.
static double remainder(double a, double b) {
  double rest = std::fmod(a, b);
  return rest == 0               ? std::copysign(0.0, b)
         : (rest < 0) != (b < 0) ? rest + b
                                 : rest;
}

/// Python's quotient, computed without the remainder: 1 // 0.1 is 9. The floor
/// of 1 / 0.1 would be 10, because the quotient is rounded to 10.
static double floorDivide(double a, double b) {
  double quotient = (a - remainder(a, b)) / b;
  if (quotient == 0)
    return std::copysign(0.0, a / b);
  double whole = std::floor(quotient);
  return quotient - whole > 0.5 ? whole + 1 : whole;
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
    return floorDivide(a, b);
  default:
    return remainder(a, b);
  }
}

/// `value`, a string or a list, repeated `count` times.
Value Evaluator::repeat(const Value &value, const Value &count) {
  if (!count.isWhole() || (!value.is(Type::String) && !value.isListOrTuple()))
    return fail(std::string("cannot multiply ") + value.typeName() + " by " +
                count.typeName());
  bool isText = value.is(Type::String);
  size_t each =
      isText ? value.view().cost() : value.elements().size() * sizeof(Value);
  Integer times = each ? std::max<Integer>(count.asInteger(), 0) : 0;
  static constexpr Integer most = 1 << 30; // beyond every budget
  if (!budget.spend(static_cast<size_t>(std::min(times, most)) * each))
    return {};
  Text repeated;
  Value::List elements;
  for (Integer i = 0; i < times; ++i)
    if (isText)
      repeated.add(value.view());
    else
      elements.insert(elements.end(), value.elements().begin(),
                      value.elements().end());
  return isText ? text(std::move(repeated))
                : Value::list(std::move(elements), budget, value.shape());
}

/// a ** b.
Value Evaluator::power(const Value &a, const Value &b) {
  if (!a.isNumber() || !b.isNumber())
    return fail("cannot compute " + std::string(a.typeName()) + " ** " +
                b.typeName());
  if (a.isWhole() && b.isWhole() && b.asInteger() >= 0) {
    Integer result = 1, base = a.asInteger();
    bool small = base >= -1 && base <= 1; // whatever the exponent
    Integer times =
        small ? std::min<Integer>(b.asInteger(), 2 + b.asInteger() % 2)
              : b.asInteger();
    for (; times > 0; --times)
      if (__builtin_mul_overflow(result, base, &result))
        return fail("an integer of more than 127 bits is not supported",
                    CRIA_UNIMPLEMENTED);
    return Value::integer(result);
  }
  double result = std::pow(a.asNumber(), b.asNumber());
  if (!std::isfinite(result))
    return fail("cannot compute " + print(a, budget).bytes + " ** " +
                    print(b, budget).bytes,
                CRIA_UNIMPLEMENTED);
  return Value::real(result);
}

Value Evaluator::arithmetic(const std::string &name, const Value &a,
                            const Value &b) {
  char kind = name == "//" ? 'f' : name[0];
  if (name == "**")
    return power(a, b);
  if (kind == '*' && (a.isNumber() != b.isNumber()))
    return a.isNumber() ? repeat(b, a) : repeat(a, b);
  if (kind == '%' && a.is(Type::String) && a.shape() == Value::Shape::Markup)
    return fail("formatting what the filter safe gives is not supported",
                CRIA_UNIMPLEMENTED);
  if (kind == '%' && a.is(Type::String))
    return formatPercent(*this, a.view(), b);
  if (!a.isNumber() || !b.isNumber())
    return fail("cannot compute " + std::string(a.typeName()) + " " + name +
                " " + b.typeName());
  bool divides = kind == '/' || kind == 'f' || kind == '%';
  if (divides && b.asNumber() == 0)
    return fail("a division by zero");
  if (a.is(Type::Float) || b.is(Type::Float))
    return Value::real(computeReal(kind, a.asNumber(), b.asNumber()));
  Integer left = a.asInteger(), right = b.asInteger(), result = 0;
  static constexpr Integer exact = Integer{1} << 53; // as a double
  bool tooLarge =
      kind == '+'   ? __builtin_add_overflow(left, right, &result)
      : kind == '-' ? __builtin_sub_overflow(left, right, &result)
      : kind == '*' ? __builtin_mul_overflow(left, right, &result)
      : kind == '/'
          ? std::max(left, right) > exact || std::min(left, right) < -exact
          : right == -1 && __builtin_sub_overflow(0, left, &result);
  if (tooLarge)
    return fail(kind == '/' ? "dividing an integer of more than 53 bits is not "
                              "supported"
                            : "an integer of more than 127 bits is not "
                              "supported",
                CRIA_UNIMPLEMENTED);
  if (kind == '/')
    return Value::real(a.asNumber() / b.asNumber());
  if (divides)
    result = kind == 'f' ? floorDivide(left, right)
                         : left - floorDivide(left, right) * right;
  return Value::integer(result);
}

} // namespace cria::chat
