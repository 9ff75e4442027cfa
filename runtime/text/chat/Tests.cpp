/// The tests of chat templates: the words after "is".
#include "runtime/text/chat/Evaluator.h"

#include <utility>

namespace cria::chat {

using Type = Value::Type;

template <Type type> static Value isType(Evaluator &, const Arguments &given) {
  return Value::boolean(given.get(0).is(type));
}

static Value isDefined(Evaluator &, const Arguments &given) {
  return Value::boolean(!given.get(0).is(Type::Undefined));
}

/// In Python, a dict is a sequence, too: it has a length and elements.
static Value isSequence(Evaluator &, const Arguments &given) {
  const Value &value = given.get(0);
  return Value::boolean(value.hasPlaces() || value.is(Type::String) ||
                        value.is(Type::Dict) || value.is(Type::Undefined));
}

static Value isIterable(Evaluator &, const Arguments &given) {
  const Value &value = given.get(0);
  return Value::boolean(value.is(Type::List) || value.is(Type::String) ||
                        value.is(Type::Dict) || value.is(Type::Undefined));
}

static Value isNumber(Evaluator &, const Arguments &given) {
  return Value::boolean(given.get(0).isNumber());
}

static Value isCallable(Evaluator &, const Arguments &given) {
  const Value &value = given.get(0); // calling an undefined one is an error
  return Value::boolean(value.is(Type::Method) || value.is(Type::Macro) ||
                        value.is(Type::Undefined));
}

template <bool wanted>
static Value isFlag(Evaluator &, const Arguments &given) {
  const Value &value = given.get(0);
  return Value::boolean(value.is(Type::Boolean) && value.truth() == wanted);
}

static Value isEqual(Evaluator &in, const Arguments &given) {
  return Value::boolean(equal(given.get(0), given.get(1), in.budget));
}

static Value isUnequal(Evaluator &in, const Arguments &given) {
  return Value::boolean(!equal(given.get(0), given.get(1), in.budget));
}

static Value isSame(Evaluator &in, const Arguments &given) {
  return Value::boolean(given.get(0).type() == given.get(1).type() &&
                        equal(given.get(0), given.get(1), in.budget));
}

static Value isIn(Evaluator &in, const Arguments &given) {
  return Value::boolean(contains(given.get(1), given.get(0), in.budget));
}

template <bool swapped, bool negated>
static Value isLess(Evaluator &in, const Arguments &given) {
  bool found = less(given.get(swapped), given.get(!swapped), in.budget);
  return Value::boolean(found != negated);
}

static Value divides(Evaluator &in, const Value &value, Integer by,
                     Integer rest) {
  if (!value.is(Type::Integer) || by == 0)
    return in.fail(std::string("cannot divide ") + value.typeName() + " by " +
                   printInteger(by));
  Integer found = by == -1 ? 0 : value.asInteger() % by;
  return Value::boolean((found < 0 ? found + by : found) == rest);
}

static Value isEven(Evaluator &in, const Arguments &given) {
  return divides(in, given.get(0), 2, 0);
}
static Value isOdd(Evaluator &in, const Arguments &given) {
  return divides(in, given.get(0), 2, 1);
}
static Value isDivisible(Evaluator &in, const Arguments &given) {
  return divides(in, given.get(0), given.get(1).asInteger(), 0);
}

const Builtin *findTest(std::string_view name) {
  static const Builtin tests[] = {
      {"defined", isDefined},
      {"undefined", isType<Type::Undefined>},
      {"none", isType<Type::None>},
      {"boolean", isType<Type::Boolean>},
      {"integer", isType<Type::Integer>},
      {"float", isType<Type::Float>},
      {"string", isType<Type::String>},
      {"mapping", isType<Type::Dict>},
      {"sequence", isSequence},
      {"iterable", isIterable},
      {"number", isNumber},
      {"upper", isUpperText},
      {"lower", isLowerText},
      {"callable", isCallable},
      {"true", isFlag<true>},
      {"false", isFlag<false>},
      {"equalto", isEqual, "/ other"},
      {"eq", isEqual, "/ other"},
      {"==", isEqual, "/ other"},
      {"ne", isUnequal, "/ other"},
      {"!=", isUnequal, "/ other"},
      {"sameas", isSame, "/ other"},
      {"in", isIn, "/ other"},
      {"lt", isLess<false, false>, "/ other"},
      {"<", isLess<false, false>, "/ other"},
      {"lessthan", isLess<false, false>, "/ other"},
      {"gt", isLess<true, false>, "/ other"},
      {">", isLess<true, false>, "/ other"},
      {"greaterthan", isLess<true, false>, "/ other"},
      {"ge", isLess<false, true>, "/ other"},
      {">=", isLess<false, true>, "/ other"},
      {"le", isLess<true, true>, "/ other"},
      {"<=", isLess<true, true>, "/ other"},
      {"even", isEven},
      {"odd", isOdd},
      {"divisibleby", isDivisible, "/ other"}};
  return findBuiltin(tests, name);
}

} // namespace cria::chat
