/// Renders parsed chat templates.
#pragma once

#include "runtime/text/chat/Syntax.h"

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace cria::chat {

/// What a filter, test, method or function is called with.
struct Arguments {
  std::vector<Value> positional; // of filters and tests, the value first
  std::vector<std::pair<std::string_view, Value>> named; // as in the template
  Value spread; // the dict of "**", which has some of the names

  /// The argument at `index`, or the one named `name`, or undefined.
  const Value &get(size_t index, std::string_view name = {}) const;
  bool has(size_t index, std::string_view name = {}) const;
};

/// One rendering of a template. It computes with values alone: nothing outside
/// of it can be reached.
class Evaluator {
public:
  /// `variables` are what the template sees at first.
  Evaluator(Budget &budget, Value::Dict variables)
      : budget(budget), variables(std::move(variables)), scopes(1) {}

  /// The text; empty if the budget has an error.
  Text render(const std::vector<Statement> &statements);

  Budget &budget;

  /// Notes an error, and returns undefined.
  Value fail(const std::string &message,
             cria_status code = CRIA_INVALID_ARGUMENT);
  Value call(const Value &function, const Arguments &arguments);
  /// Calls `builtin`, which may itself use this function, with a value first
  /// unless it is a function of the template language.
  Value apply(const Builtin &builtin, const Arguments &arguments,
              bool hasValue = true);
  /// The attribute or member `name`: "value.name".
  Value attribute(const Value &value, const std::string &name);
  /// "value[index]".
  Value item(const Value &value, const Value &index);
  Value sum(const Value &a, const Value &b);
  Value text(Text text) { return Value::string(std::move(text), budget); }

private:
  enum class Flow { Next, Break, Continue };
  /// Counts how deeply the evaluator recurses; too deep is an error.
  struct Nested {
    explicit Nested(Evaluator &evaluator);
    ~Nested() { --depth; }
    int &depth;
  };

  Flow run(const std::vector<Statement> &statements);
  Flow run(const Statement &statement);
  Flow runIf(const Statement &statement);
  Flow runFor(const Statement &statement);
  Flow runBody(const Statement &statement, Value::List elements);
  void runSet(const Statement &statement);
  void runSetBlock(const Statement &statement);
  Flow runWith(const Statement &statement);
  void runCall(const Statement &statement);
  Value makeMacro(const Statement &statement);
  Text capture(const std::vector<Statement> &statements);
  void assign(std::string_view name, Value value);
  void bind(const std::vector<std::string> &targets, const Value &value);

  Value evaluate(const Expression &expression);
  Value evaluateKind(const Expression &expression);
  Value lookUp(std::string_view name);
  Value evaluateCollection(const Expression &expression);
  Value evaluateDict(const Expression &expression);
  Value evaluateItem(const Expression &expression);
  Value evaluateCall(const Expression &expression);
  Value evaluateSign(const Expression &expression);
  Value evaluateSlice(const Expression &expression);
  Value evaluateOperator(const Expression &expression);
  Value evaluateCompare(const Expression &expression);
  bool compare(const std::string &sign, const Value &a, const Value &b);
  Value arithmetic(const std::string &name, const Value &a, const Value &b);
  Value repeat(const Value &value, const Value &count);
  bool fits(const Statement &macro, const Arguments &arguments);
  bool fits(const Builtin &builtin, const Arguments &arguments, bool hasValue);
  void assignArguments(const Statement &macro, const Arguments &arguments);
  Value callMacro(const Value::Macro &macro, const Arguments &arguments);
  Arguments evaluateArguments(const Expression &expression, size_t first);
  void spread(std::string_view sign, const Value &value, Arguments &arguments);
  Value power(const Value &a, const Value &b);

  Value::Dict variables;     // what the template sees at first
  std::vector<Scope> scopes; // the innermost last
  Text output;
  int depth = 0;
};

template <size_t size>
const Builtin *findBuiltin(const Builtin (&table)[size],
                           std::string_view name) {
  for (const Builtin &builtin : table)
    if (name == builtin.name)
      return &builtin;
  return nullptr;
}

/// The functions that a template can call by name; nullptr if there is none.
const Builtin *findFilter(std::string_view name);
const Builtin *findStringFilter(std::string_view name);
const Builtin *findOrderFilter(std::string_view name);
const Builtin *findTest(std::string_view name);
const Builtin *findFunction(std::string_view name);
/// Methods of strings and dicts, the value first.
const Builtin *findStringMethod(std::string_view name);
const Builtin *findMethod(const Value &value, std::string_view name);

/// `value` after a filter without other arguments.
Value filtered(Evaluator &in, std::string_view filter, const Value &value);

/// The attribute "a.b.0" of `value`.
Value pathOf(Evaluator &in, Value value, const Value &attribute);

/// The tests "upper" and "lower" of a text.
Value isUpperText(Evaluator &in, const Arguments &given);
Value isLowerText(Evaluator &in, const Arguments &given);

/// Python's `form % value`.
Value formatPercent(Evaluator &in, TextView form, const Value &value);
/// form.format(...), the text first.
Value formatBraces(Evaluator &in, const Arguments &arguments);

} // namespace cria::chat
