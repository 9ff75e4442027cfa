#include "runtime/chat/Value.h"

#include "runtime/Json.h"
#include "runtime/tokenizer/Unicode.h"

#include <algorithm>

namespace cria::chat {

bool Budget::spend(size_t units) {
  if (units > left)
    return fail("takes too long or too much memory", CRIA_RESOURCE_EXHAUSTED);
  left -= units;
  return ok();
}

bool Budget::fail(const std::string &message, cria_status code) {
  if (status.ok())
    status = Status(code, line ? "line " + std::to_string(line) + ": " + message
                               : message);
  return false;
}

Value Value::undefined(std::string name) {
  Value value;
  value.held = std::make_shared<const std::string>(std::move(name));
  return value;
}

Value Value::none() {
  Value value;
  value.kind = Type::None;
  return value;
}

Value Value::boolean(bool flag) {
  Value value;
  value.kind = Type::Boolean;
  value.held = flag;
  return value;
}

Value Value::integer(int64_t number) {
  Value value;
  value.kind = Type::Integer;
  value.held = number;
  return value;
}

Value Value::real(double number) {
  Value value;
  value.kind = Type::Float;
  value.held = number;
  return value;
}

Value Value::string(std::string text, Budget &budget) {
  Value value;
  if (!budget.spend(text.size()))
    return value;
  value.kind = Type::String;
  value.held = std::make_shared<const std::string>(std::move(text));
  return value;
}

/// Values inside each other too deeply could not even be freed; a namespace in
/// itself would not be.
static constexpr int maxDepth = 200;

/// Notes what `part` means for a value that holds it.
bool Value::adopt(const Value &part, Budget &budget) {
  depth = std::max(depth, part.depth + 1);
  mutates |= part.mutates;
  return depth <= maxDepth || budget.fail("values are nested deeper than " +
                                              std::to_string(maxDepth),
                                          CRIA_RESOURCE_EXHAUSTED);
}

Value Value::list(List elements, Budget &budget, Shape shape) {
  Value value;
  if (!budget.spend(elements.size() * sizeof(Value)))
    return value;
  for (const Value &element : elements)
    if (!value.adopt(element, budget))
      return {};
  value.kind = Type::List;
  value.form = shape;
  value.held = std::make_shared<const List>(std::move(elements));
  return value;
}

Value Value::dict(Dict members, Budget &budget) {
  Value value;
  if (!budget.spend(members.size() * sizeof(members[0])))
    return value;
  for (const auto &[key, member] : members)
    if (!value.adopt(member, budget))
      return {};
  value.kind = Type::Dict;
  value.held = std::make_shared<Dict>(std::move(members));
  return value;
}

Value Value::newNamespace(Dict members) {
  Value value;
  value.kind = Type::Namespace;
  value.mutates = true;
  value.held = std::make_shared<Dict>(std::move(members));
  return value;
}

Value Value::method(std::string name, Value self) {
  Value value;
  value.kind = Type::Method;
  value.depth = self.depth + 1;
  value.mutates = self.mutates;
  value.held =
      std::make_shared<const Method>(Method{std::move(name), std::move(self)});
  return value;
}

Value Value::macro(const Statement *definition) {
  Value value;
  value.kind = Type::Macro;
  value.held = definition;
  return value;
}

Value Value::fromJson(const nlohmann::ordered_json &document, Budget &budget) {
  if (!budget.spend(sizeof(Value)))
    return {};
  if (document.is_null())
    return none();
  if (document.is_boolean())
    return boolean(document.get<bool>());
  if (document.is_number_integer())
    return integer(document.get<int64_t>());
  if (document.is_number())
    return real(document.get<double>());
  if (document.is_string())
    return string(document.get<std::string>(), budget);
  if (document.is_array()) {
    List elements;
    for (const auto &element : document)
      elements.push_back(fromJson(element, budget));
    return list(std::move(elements), budget);
  }
  Dict members;
  for (const auto &[key, member] : document.items())
    members.emplace_back(key, fromJson(member, budget));
  return dict(std::move(members), budget);
}

bool Value::isNumber() const {
  return is(Type::Boolean) || is(Type::Integer) || is(Type::Float);
}

const char *Value::typeName() const {
  static const char *const names[] = {
      "an undefined value", "none",       "a boolean", "an integer",
      "a number",           "a string",   "a list",    "a dict",
      "a namespace",        "a function", "a macro"};
  return names[static_cast<int>(kind)];
}

bool Value::truth() const {
  switch (kind) {
  case Type::Undefined:
  case Type::None:
    return false;
  case Type::Boolean:
  case Type::Integer:
  case Type::Float:
    return asNumber() != 0;
  case Type::String:
    return !text().empty();
  case Type::List:
    return form == Shape::Generator || !elements().empty();
  case Type::Dict:
    return !members().empty();
  default:
    return true;
  }
}

int64_t Value::asInteger() const {
  if (const bool *flag = std::get_if<bool>(&held))
    return *flag;
  const int64_t *number = std::get_if<int64_t>(&held);
  return number ? *number : 0;
}

double Value::asNumber() const {
  const double *number = std::get_if<double>(&held);
  return number ? *number : static_cast<double>(asInteger());
}

const std::string &Value::text() const {
  static const std::string empty;
  auto *text = std::get_if<std::shared_ptr<const std::string>>(&held);
  return text ? **text : empty;
}

const Value::List &Value::elements() const {
  static const List empty;
  auto *list = std::get_if<std::shared_ptr<const List>>(&held);
  return list ? **list : empty;
}

const Value::Dict &Value::members() const {
  static const Dict empty;
  auto *dict = std::get_if<std::shared_ptr<Dict>>(&held);
  return dict ? **dict : empty;
}

const Value::Method &Value::callable() const {
  return *std::get<std::shared_ptr<const Method>>(held);
}

const Statement *Value::macroDefinition() const {
  return std::get<const Statement *>(held);
}

const Value *Value::find(std::string_view key) const {
  for (const auto &[name, value] : members())
    if (name == key)
      return &value;
  return nullptr;
}

void Value::set(const std::string &key, Value value) {
  Dict &members = *std::get<std::shared_ptr<Dict>>(held);
  for (auto &[name, old] : members)
    if (name == key) {
      old = std::move(value);
      return;
    }
  members.emplace_back(key, std::move(value));
}

using Type = Value::Type;

static bool equalDicts(const Value &a, const Value &b, Budget &budget) {
  if (a.members().size() != b.members().size())
    return false;
  for (const auto &[key, value] : a.members()) {
    if (!budget.spend(b.members().size()))
      return false;
    const Value *other = b.find(key);
    if (!other || !equal(value, *other, budget))
      return false;
  }
  return true;
}

bool equal(const Value &a, const Value &b, Budget &budget) {
  if (!budget.spend(1))
    return false;
  if (a.isNumber() && b.isNumber())
    return a.is(Type::Float) || b.is(Type::Float)
               ? a.asNumber() == b.asNumber()
               : a.asInteger() == b.asInteger();
  if (a.type() != b.type())
    return false;
  switch (a.type()) {
  case Type::Undefined:
  case Type::None:
    return true;
  case Type::String:
    return budget.spend(std::min(a.text().size(), b.text().size())) &&
           a.text() == b.text();
  case Type::List:
    if (a.elements().size() != b.elements().size() || a.shape() != b.shape())
      return false;
    for (size_t i = 0; i < a.elements().size(); ++i)
      if (!equal(a.elements()[i], b.elements()[i], budget))
        return false;
    return true;
  case Type::Dict:
    return equalDicts(a, b, budget);
  case Type::Macro:
    return a.macroDefinition() == b.macroDefinition();
  default:
    return &a.members() == &b.members();
  }
}

bool less(const Value &a, const Value &b, Budget &budget) {
  if (!budget.spend(1))
    return false;
  if (a.isNumber() && b.isNumber())
    return a.is(Type::Float) || b.is(Type::Float)
               ? a.asNumber() < b.asNumber()
               : a.asInteger() < b.asInteger();
  if (a.is(Type::String) && b.is(Type::String))
    return budget.spend(std::min(a.text().size(), b.text().size())) &&
           a.text() < b.text(); // UTF-8 sorts by code point
  if (!a.is(Type::List) || !b.is(Type::List) || a.shape() != b.shape())
    return budget.fail(std::string("cannot compare ") + a.typeName() +
                       " with " + b.typeName());
  size_t shared = std::min(a.elements().size(), b.elements().size());
  for (size_t i = 0; i < shared; ++i)
    if (!equal(a.elements()[i], b.elements()[i], budget))
      return less(a.elements()[i], b.elements()[i], budget);
  return a.elements().size() < b.elements().size();
}

bool contains(const Value &container, const Value &value, Budget &budget) {
  switch (container.type()) {
  case Type::String:
    if (!value.is(Type::String))
      return budget.fail(std::string("cannot look for ") + value.typeName() +
                         " in a string");
    return budget.spend(container.text().size() + value.text().size()) &&
           container.text().find(value.text()) != std::string::npos;
  case Type::List:
    for (const Value &element : container.elements())
      if (equal(element, value, budget))
        return true;
    return false;
  case Type::Dict:
    if (value.is(Type::List) || value.is(Type::Dict))
      return budget.fail(std::string(value.typeName()) +
                         " cannot be a key of a dict");
    return budget.spend(container.members().size()) && value.is(Type::String) &&
           container.find(value.text());
  case Type::Undefined:
    return false;
  default:
    return budget.fail(std::string("cannot look into ") + container.typeName());
  }
}

Value::List iterate(const Value &value, Budget &budget) {
  Value::List elements;
  switch (value.type()) {
  case Type::Undefined:
    break;
  case Type::List:
    budget.spend(value.elements().size() * sizeof(Value));
    return budget.ok() ? value.elements() : elements;
  case Type::Dict:
    for (const auto &[key, member] : value.members())
      if (budget.spend(sizeof(Value)))
        elements.push_back(Value::string(key, budget));
    break;
  case Type::String:
    for (size_t at = 0; at < value.text().size() && budget.ok();) {
      size_t begin = at;
      takeCharacter(value.text(), at);
      budget.spend(2 * sizeof(Value));
      elements.push_back(
          Value::string(value.text().substr(begin, at - begin), budget));
    }
    break;
  default:
    budget.fail(std::string("cannot loop over ") + value.typeName());
  }
  return elements;
}

bool isPythonSpace(char32_t character) {
  return isWhiteSpace(character) || (character >= 0x1C && character <= 0x1F);
}

} // namespace cria::chat
