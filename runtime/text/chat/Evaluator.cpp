#include "runtime/text/chat/Evaluator.h"

#include "runtime/base/Json.h"

#include <algorithm>

namespace cria::chat {

using Type = Value::Type;

/// How deeply expressions, blocks and macros may be nested.
static constexpr int maxDepth = 500;
static constexpr size_t maxOutput = 16u << 20;

const Value &Arguments::get(size_t index, std::string_view name) const {
  static const Value missing;
  if (index < positional.size())
    return positional[index];
  for (const auto &[key, value] : named)
    if (!name.empty() && key == name)
      return value;
  return missing;
}

bool Arguments::has(size_t index, std::string_view name) const {
  return &get(index, name) != &get(SIZE_MAX);
}

Value Evaluator::fail(const std::string &message, cria_status code) {
  budget.fail(message, code);
  return {};
}

Evaluator::Nested::Nested(Evaluator &evaluator) : depth(evaluator.depth) {
  if (++depth > maxDepth)
    evaluator.fail("expressions, blocks and macros are nested deeper than " +
                       std::to_string(maxDepth),
                   CRIA_RESOURCE_EXHAUSTED);
}

Text Evaluator::render(const std::vector<Statement> &statements) {
  run(statements);
  return budget.ok() ? std::move(output) : Text();
}

// ---- Statements -------------------------------------------------------------

Evaluator::Flow Evaluator::run(const std::vector<Statement> &statements) {
  for (const Statement &statement : statements) {
    if (!budget.spend(32))
      return Flow::Break;
    Flow flow = run(statement);
    if (flow != Flow::Next)
      return flow;
  }
  return Flow::Next;
}

Evaluator::Flow Evaluator::run(const Statement &statement) {
  budget.at(statement.line);
  Nested nested(*this);
  if (!budget.ok())
    return Flow::Break;
  switch (statement.kind) {
  case Statement::Kind::Text:
    if (budget.spend(statement.text.size()))
      output.add(statement.text);
    break;
  case Statement::Kind::Print:
    output.add(print(evaluate(statement.expressions[0]), budget));
    break;
  case Statement::Kind::If:
    return runIf(statement);
  case Statement::Kind::For:
    return runFor(statement);
  case Statement::Kind::Set:
    runSet(statement);
    break;
  case Statement::Kind::SetBlock:
    runSetBlock(statement);
    break;
  case Statement::Kind::Macro:
    assign(statement.text, makeMacro(statement));
    break;
  case Statement::Kind::With:
    return runWith(statement);
  case Statement::Kind::Call:
    runCall(statement);
    break;
  case Statement::Kind::Block:
    scopes.emplace_back();
    run(statement.body);
    scopes.pop_back();
    break;
  case Statement::Kind::Break:
    return Flow::Break;
  case Statement::Kind::Continue:
    return Flow::Continue;
  default: // Branch: run by runIf
    break;
  }
  if (output.bytes.size() > maxOutput)
    fail("the text is longer than " + std::to_string(maxOutput) + " bytes",
         CRIA_RESOURCE_EXHAUSTED);
  return Flow::Next;
}

Evaluator::Flow Evaluator::runIf(const Statement &statement) {
  for (const Statement &branch : statement.body)
    if (branch.expressions.empty() || evaluate(branch.expressions[0]).truth())
      return run(branch.body);
  return Flow::Next;
}

/// The cost of a variable, besides its name and value.
static constexpr size_t entryCost = 128;

void Evaluator::assign(std::string_view name, Value value) {
  if (budget.spend(entryCost + 2 * name.size()))
    scopes.back().insert_or_assign(name, std::move(value));
}

void Evaluator::bind(const std::vector<std::string> &targets,
                     const Value &value) {
  if (targets.size() == 1)
    return assign(targets[0], value);
  Value::List parts = iterate(value, budget);
  if (parts.size() != targets.size() && budget.ok())
    fail("cannot unpack " + std::to_string(parts.size()) + " values into " +
         std::to_string(targets.size()));
  for (size_t i = 0; i < targets.size() && budget.ok(); ++i)
    assign(targets[i], parts[i]);
}

Evaluator::Flow Evaluator::runFor(const Statement &statement) {
  Value::List elements = iterate(evaluate(statement.expressions[0]), budget);
  if (statement.expressions.size() > 1) {
    Value::List kept;
    scopes.emplace_back();
    for (Value &element : elements) {
      bind(statement.targets, element);
      if (evaluate(statement.expressions[1]).truth() && budget.ok())
        kept.push_back(std::move(element));
    }
    scopes.pop_back();
    elements = std::move(kept);
  }
  return runBody(statement, std::move(elements));
}

Evaluator::Flow Evaluator::runBody(const Statement &statement,
                                   Value::List elements) {
  bool finished = false; // whether a turn came to its end
  for (size_t i = 0; i < elements.size() && budget.spend(512); ++i) {
    scopes.emplace_back();
    Value::Loop turn = {i, elements.size(), {}, {}};
    if (i > 0)
      turn.before = elements[i - 1];
    if (i + 1 < elements.size())
      turn.after = elements[i + 1];
    assign("loop", Value::loop(std::move(turn), budget));
    bind(statement.targets, elements[i]);
    Flow flow = run(statement.body);
    scopes.pop_back();
    if (flow == Flow::Break)
      break;
    finished |= flow == Flow::Next;
  }
  if (finished || !budget.ok())
    return Flow::Next;
  // As in Jinja, "else" also follows turns that all end by break or continue.
  scopes.emplace_back();
  Flow flow = run(statement.otherwise);
  scopes.pop_back();
  return flow;
}

void Evaluator::runSet(const Statement &statement) {
  Value value = evaluate(statement.expressions[0]);
  if (statement.text.empty())
    return bind(statement.targets, value);
  Value target = lookUp(statement.targets[0]);
  if (!target.is(Type::Namespace))
    fail("cannot set " + quote(statement.text) + " of " + target.typeName() +
         ", expected a namespace");
  else if (statement.text[0] == '_')
    fail("cannot set " + quote(statement.text) + " of a namespace");
  else if (value.holdsNamespace())
    fail("a namespace in a namespace is not supported", CRIA_UNIMPLEMENTED);
  else
    target.set(statement.text, std::move(value), budget);
}

Text Evaluator::capture(const std::vector<Statement> &statements) {
  Text outside = std::exchange(output, Text());
  run(statements);
  return std::exchange(output, std::move(outside));
}

void Evaluator::runSetBlock(const Statement &statement) {
  scopes.emplace_back();
  Text body = capture(statement.body);
  scopes.pop_back();
  scopes.emplace_back();
  assign(blockBody, text(std::move(body)));
  Value value = evaluate(statement.expressions[0]);
  scopes.pop_back();
  if (statement.targets.empty())
    output.add(print(value, budget));
  else
    assign(statement.targets[0], std::move(value));
}

Evaluator::Flow Evaluator::runWith(const Statement &statement) {
  Value::List values;
  for (const Expression &expression : statement.expressions)
    values.push_back(evaluate(expression));
  scopes.emplace_back();
  for (size_t i = 0; i < values.size(); ++i)
    assign(statement.targets[i], std::move(values[i]));
  Flow flow = run(statement.body);
  scopes.pop_back();
  return flow;
}

/// A macro that sees what is visible here.
Value Evaluator::makeMacro(const Statement &statement) {
  for (size_t i = 1; i < scopes.size(); ++i)
    if (!budget.spend(entryCost * (1 + scopes[i].size())))
      return {};
  return Value::macro({&statement, {scopes.begin() + 1, scopes.end()}});
}

void Evaluator::runCall(const Statement &statement) {
  const Expression &expression = statement.expressions[0];
  Value function = evaluate(expression.operands[0]);
  Arguments arguments = evaluateArguments(expression, 1);
  arguments.named.emplace_back("caller", makeMacro(statement.body[0]));
  output.add(print(call(function, arguments), budget));
}

/// Whether the argument `name` is none of the macro's own, or one that has a
/// value by its place.
static bool isMore(const Statement &macro, const Arguments &arguments,
                   std::string_view name) {
  const std::vector<std::string> &names = macro.targets;
  return std::find(names.begin() +
                       std::min(arguments.positional.size(), names.size()),
                   names.end(), name) == names.end();
}

/// Whether `arguments` fit `macro`. A function of its own, to keep the stack
/// frame of callMacro() small: macros recurse.
bool Evaluator::fits(const Statement &macro, const Arguments &arguments) {
  const std::vector<std::string> &names = macro.targets;
  if (arguments.positional.size() > names.size() && !macro.takesMore)
    fail("the macro " + quote(macro.text) + " takes " +
         std::to_string(names.size()) + " arguments, found " +
         std::to_string(arguments.positional.size()));
  for (const auto &[name, value] : arguments.named)
    if (isMore(macro, arguments, name) && !macro.takesMoreNamed &&
        !(name == "caller" && macro.takesCaller))
      fail("the macro " + quote(macro.text) + " has no argument " +
           quote(name));
  return budget.ok();
}

/// Assigns to the names of a macro that fits: "varargs", "kwargs" and "caller",
/// too, if it reads them.
void Evaluator::assignArguments(const Statement &macro,
                                const Arguments &arguments) {
  const std::vector<std::string> &names = macro.targets;
  const Value::List &all = arguments.positional;
  size_t required = names.size() - macro.expressions.size();
  for (size_t i = 0; i < names.size(); ++i) {
    if (arguments.has(i, names[i]))
      assign(names[i], arguments.get(i, names[i]));
    else if (i >= required)
      assign(names[i], evaluate(macro.expressions[i - required]));
    else
      assign(names[i], Value::undefined(names[i], budget));
  }
  if (macro.takesCaller)
    assign("caller", arguments.has(SIZE_MAX, "caller")
                         ? arguments.get(SIZE_MAX, "caller")
                         : Value::undefined("caller", budget));
  if (macro.takesMore)
    assign("varargs",
           Value::list(
               {all.begin() + std::min(names.size(), all.size()), all.end()},
               budget, Value::Shape::Tuple));
  std::vector<Value::Dict::Member> more;
  for (const auto &[name, value] : arguments.named)
    if (macro.takesMoreNamed && name != "caller" &&
        isMore(macro, arguments, name))
      more.push_back({text(std::string(name)), value});
  if (macro.takesMoreNamed)
    assign("kwargs", Value::dict(Value::Dict(std::move(more), budget), budget));
}

/// A macro sees its arguments, the variables around its definition, and those
/// outside of all loops.
Value Evaluator::callMacro(const Value::Macro &macro,
                           const Arguments &arguments) {
  Nested nested(*this);
  if (!fits(*macro.definition, arguments))
    return {};
  if (!budget.spend(scopes.size() * 2 * sizeof(Scope)))
    return {};
  std::vector<Scope> outside(std::make_move_iterator(scopes.begin() + 1),
                             std::make_move_iterator(scopes.end()));
  scopes.resize(1);
  for (const Scope &scope : macro.around)
    if (budget.spend(entryCost * (1 + scope.size())))
      scopes.push_back(scope);
  scopes.emplace_back();
  assignArguments(*macro.definition, arguments);
  Text result = capture(macro.definition->body);
  scopes.resize(1);
  std::move(outside.begin(), outside.end(), std::back_inserter(scopes));
  return text(std::move(result));
}

} // namespace cria::chat
