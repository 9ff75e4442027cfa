/// Renders parsed chat templates.
#pragma once

#include "runtime/chat/Syntax.h"

#include <map>
#include <string>
#include <vector>

namespace cria::chat {

/// What a filter, test, method or function is called with.
struct Arguments {
  std::vector<Value> positional; // of filters and tests, the value first
  std::vector<std::pair<std::string, Value>> named;

  /// The argument at `index`, or the one named `name`, or undefined.
  const Value &get(size_t index, std::string_view name = {}) const;
  bool has(size_t index, std::string_view name = {}) const;
};

/// One rendering of a template. It computes with values alone: nothing outside
/// of it can be reached.
class Evaluator {
public:
  /// `variables` are what the template sees at first.
  Evaluator(Budget &budget, Value::Dict variables);

  /// The text, empty where the budget has an error.
  std::string render(const std::vector<Statement> &statements);

  Budget &budget;

  /// Notes an error, and returns undefined.
  Value fail(const std::string &message,
             cria_status code = CRIA_INVALID_ARGUMENT);
  Value call(const Value &function, const Arguments &arguments);
  /// The attribute or member `name`, as "value.name" has it.
  Value attribute(const Value &value, const std::string &name);
  /// "value[index]".
  Value item(const Value &value, const Value &index);
  Value text(std::string text) {
    return Value::string(std::move(text), budget);
  }

private:
  using Scope = std::map<std::string, Value>;
  enum class Flow { Next, Break, Continue };
  /// Counts how deep the evaluator is inside itself, where too deep is an
  /// error, and says in which line of the template.
  struct Nested {
    Nested(Evaluator &evaluator, int line);
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
  std::string capture(const std::vector<Statement> &statements);
  void bind(const std::vector<std::string> &targets, const Value &value);

  Value evaluate(const Expression &expression);
  Value evaluateKind(const Expression &expression);
  Value evaluateName(const Expression &expression);
  Value evaluateCollection(const Expression &expression);
  Value evaluateDict(const Expression &expression);
  Value evaluateItem(const Expression &expression);
  Value evaluateCall(const Expression &expression);
  Value evaluateSign(const Expression &expression);
  Value evaluateSlice(const Expression &expression);
  Value evaluateOperator(const Expression &expression);
  Value evaluateCompare(const Expression &expression);
  Value arithmetic(const std::string &name, const Value &a, const Value &b);
  Value sum(const Value &a, const Value &b);
  Value repeat(const Value &value, const Value &count);
  Value callMacro(const Statement &macro, const Arguments &arguments);
  Arguments evaluateArguments(const Expression &expression, size_t first);

  std::vector<Scope> scopes; // the innermost last
  std::string output;
  int depth = 0;
};

/// What a template can call by name; nullptr where there is no such thing.
using Builtin = Value (*)(Evaluator &, const Arguments &);
Builtin findFilter(const std::string &name);
Builtin findStringFilter(const std::string &name);
Builtin findTest(const std::string &name);
Builtin findFunction(const std::string &name);
/// Methods of strings and dicts, the value first.
Builtin findStringMethod(const std::string &name);
Builtin findMethod(const Value &value, const std::string &name);

} // namespace cria::chat
