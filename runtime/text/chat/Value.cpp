#include "runtime/text/chat/Value.h"

#include "runtime/text/tokenizer/Text.h"
#include "runtime/text/tokenizer/Unicode.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>

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

/// The cost of a value that is allocated on its own, besides its content.
static constexpr size_t holderBytes = 64;

Value Value::undefined(std::string_view name, Budget &budget) {
  Value value;
  if (budget.spend(holderBytes + name.size()))
    value.held = std::make_shared<const std::string>(name);
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

Value Value::integer(Integer number) {
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

Value Value::string(Text text, Budget &budget, Shape shape) {
  Value value;
  if (!budget.spend(holderBytes + TextView(text).cost()))
    return value;
  value.kind = Type::String;
  value.form = shape;
  if (text.origins.empty())
    value.held = std::make_shared<const std::string>(std::move(text.bytes));
  else
    value.held = std::make_shared<const Text>(std::move(text));
  return value;
}

/// Deeper values could not be freed, because freeing recurses. The depth of a
/// namespace does not count what is set in it later. A namespace cannot contain
/// a namespace, so this at most doubles the depth.
static constexpr int maxDepth = 200;

/// Updates this value for `part`, which it holds; an error if it is too deep.
bool Value::adopt(const Value &part, Budget &budget) {
  depth = std::max(depth, part.depth + 1);
  mutates |= part.mutates;
  return depth <= maxDepth || budget.fail("values are nested deeper than " +
                                              std::to_string(maxDepth),
                                          CRIA_RESOURCE_EXHAUSTED);
}

Value Value::list(List elements, Budget &budget, Shape shape) {
  Value value;
  if (!budget.spend(holderBytes + elements.size() * sizeof(Value)))
    return value;
  for (const Value &element : elements)
    if (!value.adopt(element, budget))
      return {};
  value.kind = Type::List;
  value.form = shape;
  value.held = std::make_shared<const List>(std::move(elements));
  return value;
}

Value Value::holding(Type type, Dict members, Budget &budget) {
  Value value;
  if (!budget.spend(holderBytes + members.size()))
    return value;
  for (const auto &[key, member] : members)
    if (!value.adopt(member, budget))
      return {};
  value.kind = type;
  value.held = std::make_shared<Dict>(std::move(members));
  return value;
}

Value Value::dict(Dict members, Budget &budget) {
  return holding(Type::Dict, std::move(members), budget);
}

Value Value::newNamespace(Dict members, Budget &budget) {
  Value value = holding(Type::Namespace, std::move(members), budget);
  value.mutates = true;
  return value;
}

Value Value::loop(Loop turn, Budget &budget) {
  Value value;
  if (!budget.spend(holderBytes + sizeof(Loop)) ||
      !value.adopt(turn.before, budget) || !value.adopt(turn.after, budget))
    return {};
  value.kind = Type::Loop;
  value.mutates = true; // Jinja's changes with each turn: it cannot be kept
  value.held = std::make_shared<const Loop>(std::move(turn));
  return value;
}

Value Value::method(const Builtin *function, Value self, Budget &budget) {
  Value value;
  if (!budget.spend(2 * holderBytes) || !value.adopt(self, budget))
    return {};
  value.kind = Type::Method;
  value.held =
      std::make_shared<const Method>(Method{function, std::move(self)});
  return value;
}

Value Value::macro(Macro macro) {
  Value value;
  value.kind = Type::Macro;
  // A namespace that held it might hold itself.
  value.mutates = !macro.around.empty();
  value.held = std::make_shared<const Macro>(std::move(macro));
  return value;
}

bool Value::isNumber() const {
  return is(Type::Boolean) || is(Type::Integer) || is(Type::Float);
}

const char *Value::typeName() const {
  static const char *const names[] = {
      "an undefined value", "none",     "a boolean",  "an integer",
      "a number",           "a string", "a list",     "a dict",
      "a namespace",        "the loop", "a function", "a macro"};
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

Integer Value::asInteger() const {
  if (const bool *flag = std::get_if<bool>(&held))
    return *flag;
  const Integer *number = std::get_if<Integer>(&held);
  return number ? *number : 0;
}

double Value::asNumber() const {
  const double *number = std::get_if<double>(&held);
  return number ? *number : static_cast<double>(asInteger());
}

const std::string &Value::text() const {
  static const std::string empty;
  if (auto *text = std::get_if<std::shared_ptr<const Text>>(&held))
    return (*text)->bytes;
  auto *text = std::get_if<std::shared_ptr<const std::string>>(&held);
  return text ? **text : empty;
}

TextView Value::view() const {
  auto *text = std::get_if<std::shared_ptr<const Text>>(&held);
  return text ? TextView(**text) : TextView(this->text());
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

const Value::Loop &Value::turn() const {
  return *std::get<std::shared_ptr<const Loop>>(held);
}

const Value::Method &Value::callable() const {
  return *std::get<std::shared_ptr<const Method>>(held);
}

const Value::Macro &Value::macro() const {
  return *std::get<std::shared_ptr<const Macro>>(held);
}

void Value::set(std::string_view key, Value value, Budget &budget) {
  std::get<std::shared_ptr<Dict>>(held)->set(key, std::move(value), budget);
}

// ---- Dicts ------------------------------------------------------------------

using Type = Value::Type;

/// Less than 0, 0 or more than 0 if `a` is less than, equal to or more than
/// `b`, without rounding; nothing if one is NaN.
static std::optional<int> compareNumbers(const Value &a, const Value &b) {
  auto sign = [](auto x, auto y) { return (x > y) - (x < y); };
  if (!a.is(Type::Float) && !b.is(Type::Float))
    return sign(a.asInteger(), b.asInteger());
  if (std::isnan(a.asNumber()) || std::isnan(b.asNumber()))
    return std::nullopt;
  if (a.is(Type::Float) == b.is(Type::Float))
    return sign(a.asNumber(), b.asNumber());
  if (a.is(Type::Float))
    return -*compareNumbers(b, a);
  double real = b.asNumber(), whole = std::trunc(real);
  if (std::fabs(real) >= 0x1p127)
    return sign(0.0, real);
  int way = sign(a.asInteger(), static_cast<Integer>(whole));
  return way ? way : sign(whole, real);
}

static int rankOf(const Value &key) {
  return key.is(Type::String) ? 0 : key.isNumber() ? 1 : 2;
}

bool Value::Dict::isKey(const Value &value) {
  return value.is(Type::String) || value.is(Type::None) ||
         (value.isNumber() && !std::isnan(value.asNumber()));
}

int Value::Dict::compareKeys(const Value &a, const Value &b) {
  if (int way = rankOf(a) - rankOf(b))
    return way;
  return a.isNumber() ? *compareNumbers(a, b) : a.text().compare(b.text());
}

/// The most that a binary search costs for a key of `bytes` among `count` keys.
static size_t searchCost(size_t bytes, size_t count) {
  size_t steps = 0;
  for (; count > 0; count /= 2)
    ++steps;
  return steps * (8 + bytes / 8);
}

Value::Dict::Dict(std::vector<Member> given, Budget &budget, Value *twice)
    : members(std::move(given)) {
  size_t cost = members.size() * (sizeof(Member) + sizeof(uint32_t));
  for (const Member &member : members)
    cost += searchCost(member.key.text().size(), members.size());
  if (!budget.spend(cost)) {
    members.clear();
    return;
  }
  order.resize(members.size());
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) {
    int way = compareKeys(members[a].key, members[b].key);
    return way != 0 ? way < 0 : a < b;
  });
  auto same = [&](uint32_t a, uint32_t b) {
    return compareKeys(members[a].key, members[b].key) == 0;
  };
  if (std::adjacent_find(order.begin(), order.end(), same) == order.end())
    return;
  std::vector<bool> stays(members.size(), true);
  for (size_t i = 0, first = 0; i + 1 < order.size(); ++i) {
    if (!same(order[first], order[i + 1])) {
      first = i + 1;
      continue;
    }
    stays[order[i + 1]] = false;
    members[order[first]].value = members[order[i + 1]].value;
    if (twice)
      *twice = members[order[first]].key;
  }
  std::vector<Member> once;
  for (size_t i = 0; i < members.size(); ++i)
    if (stays[i])
      once.push_back(std::move(members[i]));
  *this = Dict(std::move(once), budget);
}

/// The place in `order` of the first key that is not less than `key`.
size_t Value::Dict::lowerBound(std::string_view key) const {
  auto found =
      std::lower_bound(order.begin(), order.end(), key,
                       [&](uint32_t place, std::string_view wanted) {
                         const Value &at = members[place].key;
                         return at.is(Type::String) && at.text() < wanted;
                       });
  return static_cast<size_t>(found - order.begin());
}

/// Whether the key at `place` of `order` is `key`.
bool Value::Dict::isAt(size_t place, std::string_view key) const {
  return place < order.size() && members[order[place]].key.is(Type::String) &&
         members[order[place]].key.text() == key;
}

const Value *Value::Dict::find(std::string_view key, Budget &budget) const {
  if (!budget.spend(searchCost(key.size(), members.size())))
    return nullptr;
  size_t place = lowerBound(key);
  return isAt(place, key) ? &members[order[place]].value : nullptr;
}

const Value *Value::Dict::find(const Value &key, Budget &budget) const {
  if (key.is(Type::String))
    return find(key.text(), budget);
  if (!isKey(key) || !budget.spend(searchCost(0, members.size())))
    return nullptr;
  auto found =
      std::lower_bound(order.begin(), order.end(), key,
                       [&](uint32_t place, const Value &wanted) {
                         return compareKeys(members[place].key, wanted) < 0;
                       });
  bool same =
      found != order.end() && compareKeys(members[*found].key, key) == 0;
  return same ? &members[*found].value : nullptr;
}

void Value::Dict::set(std::string_view key, Value value, Budget &budget) {
  // A new key moves the places after it.
  if (!budget.spend(searchCost(key.size(), members.size()) + sizeof(Member) +
                    members.size() * sizeof(uint32_t)))
    return;
  size_t place = lowerBound(key);
  if (isAt(place, key)) {
    members[order[place]].value = std::move(value);
    return;
  }
  order.insert(order.begin() + static_cast<ptrdiff_t>(place),
               static_cast<uint32_t>(members.size()));
  members.push_back(
      {Value::string(std::string(key), budget), std::move(value)});
}

// ---- Comparisons ------------------------------------------------------------

/// The cost of comparing two values, besides their texts.
static constexpr size_t compareCost = 8;

static bool equalDicts(const Value &a, const Value &b, Budget &budget) {
  if (a.members().size() != b.members().size())
    return false;
  for (const auto &[key, value] : a.members()) {
    const Value *other = b.members().find(key, budget);
    if (!other || !equal(value, *other, budget))
      return false;
  }
  return true;
}

bool equal(const Value &a, const Value &b, Budget &budget) {
  if (!budget.spend(compareCost))
    return false;
  if (a.isNumber() && b.isNumber())
    return compareNumbers(a, b) == 0;
  if (a.type() != b.type())
    return false;
  switch (a.type()) {
  case Type::Undefined:
  case Type::None:
    return true;
  case Type::String:
    return a.text().size() == b.text().size() &&
           budget.spend(a.text().size()) && a.text() == b.text();
  case Type::List:
    if (a.elements().size() != b.elements().size() || a.shape() != b.shape())
      return false;
    for (size_t i = 0; i < a.elements().size(); ++i)
      if (!equal(a.elements()[i], b.elements()[i], budget))
        return false;
    return true;
  case Type::Dict:
    return equalDicts(a, b, budget);
  case Type::Method: // methods of values are equal only to themselves
    return &a.callable() == &b.callable() ||
           (a.callable().function == b.callable().function &&
            a.callable().self.is(Type::Undefined) &&
            b.callable().self.is(Type::Undefined));
  case Type::Macro:
    return a.macro().definition == b.macro().definition;
  case Type::Loop:
    return &a.turn() == &b.turn();
  default:
    return &a.members() == &b.members();
  }
}

bool less(const Value &a, const Value &b, Budget &budget) {
  if (!budget.spend(compareCost))
    return false;
  if (a.isNumber() && b.isNumber())
    return compareNumbers(a, b).value_or(0) < 0;
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

// ---- Parts ------------------------------------------------------------------

bool contains(const Value &container, const Value &value, Budget &budget) {
  switch (container.type()) {
  case Type::String:
    if (!value.is(Type::String))
      return budget.fail(std::string("cannot look for ") + value.typeName() +
                         " in a string");
    return budget.spend(container.text().size() + value.text().size()) &&
           findText(container.text(), value.text()) != std::string::npos;
  case Type::List:
    for (const Value &element : container.elements())
      if (equal(element, value, budget))
        return true;
    return false;
  case Type::Dict:
    if (value.is(Type::List) || value.is(Type::Dict))
      return budget.fail(std::string(value.typeName()) +
                         " cannot be a key of a dict");
    return container.members().find(value, budget);
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
    if (budget.spend(value.elements().size() * sizeof(Value)))
      elements = value.elements();
    break;
  case Type::Dict:
    if (budget.spend(value.members().size() * sizeof(Value)))
      for (const auto &[key, member] : value.members())
        elements.push_back(key);
    break;
  case Type::String:
    for (size_t at = 0; at < value.text().size() && budget.ok();) {
      size_t begin = at;
      takeCharacter(value.text(), at);
      if (budget.spend(sizeof(Value)))
        elements.push_back(
            Value::string(value.view().substr(begin, at - begin), budget));
    }
    break;
  default:
    budget.fail(std::string("cannot loop over ") + value.typeName());
  }
  return elements;
}

std::vector<uint32_t> characterBounds(std::string_view text, Budget &budget) {
  std::vector<uint32_t> bounds;
  if (!budget.spend((text.size() + 1) * sizeof(uint32_t)))
    return {0};
  bounds.reserve(text.size() + 1);
  for (size_t at = 0; at < text.size(); takeCharacter(text, at))
    bounds.push_back(static_cast<uint32_t>(at));
  bounds.push_back(static_cast<uint32_t>(text.size()));
  return bounds;
}

bool isPythonSpace(char32_t character) {
  return isWhiteSpace(character) || (character >= 0x1C && character <= 0x1F);
}

} // namespace cria::chat
