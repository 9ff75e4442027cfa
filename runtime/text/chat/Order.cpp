/// The filters of chat templates that order, choose or group elements.
#include "runtime/text/chat/Evaluator.h"

#include "runtime/base/Json.h"

#include <algorithm>
#include <utility>

namespace cria::chat {

using Type = Value::Type;

/// `value` as it is compared: texts in lower case, unless case counts.
static Value folded(Evaluator &in, const Value &value, bool caseCounts) {
  if (caseCounts || !value.is(Type::String))
    return value;
  return filtered(in, "lower", value);
}

/// Elements with what they are ordered by.
using Keyed = std::vector<std::pair<Value, Value>>;

/// What `element` is ordered by: itself, or its attributes "a,b.c".
static Value keyOf(Evaluator &in, const Value &element, const Value &attribute,
                   bool caseCounts) {
  if (attribute.is(Type::Undefined) || attribute.is(Type::None))
    return folded(in, element, caseCounts);
  const std::string &path = attribute.text();
  if (!attribute.is(Type::String) || path.find(',') == path.npos)
    return folded(in, pathOf(in, element, attribute), caseCounts);
  Value::List keys;
  for (size_t begin = 0, end; begin <= path.size(); begin = end + 1) {
    end = std::min(path.find(',', begin), path.size());
    Value one = in.text(path.substr(begin, end - begin));
    keys.push_back(folded(in, pathOf(in, element, one), caseCounts));
  }
  return Value::list(std::move(keys), in.budget);
}

static Keyed keyed(Evaluator &in, const Arguments &given,
                   const Value &caseCounts, const Value &attribute) {
  Keyed all;
  for (Value &element : iterate(given.get(0), in.budget))
    if (in.budget.spend(2 * sizeof(Value))) {
      Value key = keyOf(in, element, attribute, caseCounts.truth());
      all.emplace_back(std::move(key), std::move(element));
    }
  return all;
}

/// Sorts by keys; equal ones stay in order, in reverse, too.
static void sortKeyed(Evaluator &in, Keyed &all, bool reversed) {
  std::stable_sort(all.begin(), all.end(), [&](const auto &a, const auto &b) {
    return reversed ? less(b.first, a.first, in.budget)
                    : less(a.first, b.first, in.budget);
  });
}

static Value elementsOf(Evaluator &in, Keyed all,
                        Value::Shape shape = Value::Shape::List) {
  Value::List elements;
  for (auto &[key, element] : all)
    elements.push_back(std::move(element));
  return Value::list(std::move(elements), in.budget, shape);
}

static Value sort(Evaluator &in, const Arguments &given) {
  Keyed all = keyed(in, given, given.get(2, "case_sensitive"),
                    given.get(3, "attribute"));
  sortKeyed(in, all, given.get(1, "reverse").truth());
  return elementsOf(in, std::move(all));
}

static Value dictSort(Evaluator &in, const Arguments &given) {
  if (!given.get(0).is(Type::Dict))
    return in.fail(std::string("cannot sort the items of ") +
                   given.get(0).typeName());
  const Value &by = given.get(2, "by");
  if (!by.is(Type::Undefined) && by.text() != "key" && by.text() != "value")
    return in.fail("dictsort: expected by='key' or by='value'");
  Keyed all;
  bool caseCounts = given.get(1, "case_sensitive").truth();
  for (const auto &[key, value] : given.get(0).members())
    if (in.budget.spend(3 * sizeof(Value)))
      all.emplace_back(
          folded(in, by.text() == "value" ? value : key, caseCounts),
          Value::list({key, value}, in.budget, Value::Shape::Tuple));
  sortKeyed(in, all, given.get(3, "reverse").truth());
  return elementsOf(in, std::move(all));
}

static Value unique(Evaluator &in, const Arguments &given) {
  Keyed all = keyed(in, given, given.get(1, "case_sensitive"),
                    given.get(2, "attribute"));
  Keyed once;
  for (auto &[key, element] : all) {
    // Each element is compared with all that are kept.
    if (!in.budget.spend(8 * once.size()))
      break;
    auto same = [&, &key = key](const auto &other) {
      return equal(other.first, key, in.budget);
    };
    if (key.is(Type::List) || key.is(Type::Dict))
      return in.fail("unique: " + std::string(key.typeName()) +
                         " is not supported",
                     CRIA_UNIMPLEMENTED);
    if (std::none_of(once.begin(), once.end(), same) && in.budget.ok())
      once.emplace_back(key, element);
  }
  return elementsOf(in, std::move(once), Value::Shape::Generator);
}

template <bool largest>
static Value extreme(Evaluator &in, const Arguments &given) {
  Keyed all = keyed(in, given, given.get(1, "case_sensitive"),
                    given.get(2, "attribute"));
  if (all.empty())
    return Value::undefined("no element", in.budget);
  auto precedes = [&](const auto &a, const auto &b) {
    return less(a.first, b.first, in.budget);
  };
  // Of equal elements, both take the first.
  auto found = largest ? std::max_element(all.begin(), all.end(), precedes)
                       : std::min_element(all.begin(), all.end(), precedes);
  return found->second;
}

/// The integer in argument `index` or `name`, which must be positive; nothing
/// after an error.
static size_t sizeOf(Evaluator &in, const Arguments &given,
                     std::string_view name) {
  const Value &size = given.get(1, name);
  if (!size.isWhole() || size.asInteger() < 1) {
    in.fail(quote(name) + " is not supported: expected a positive integer",
            CRIA_UNIMPLEMENTED);
    return 0;
  }
  static constexpr Integer most = 1 << 30; // beyond every budget
  return static_cast<size_t>(std::min(size.asInteger(), most));
}

/// Lists of `linecount` elements; the last is filled if there is something to
/// fill it with.
static Value batch(Evaluator &in, const Arguments &given) {
  size_t size = sizeOf(in, given, "linecount");
  Value::List lists, current;
  for (Value &element : iterate(given.get(0), in.budget)) {
    if (size == 0 || !in.budget.spend(2 * sizeof(Value)))
      return {};
    current.push_back(std::move(element));
    if (current.size() == size)
      lists.push_back(Value::list(std::exchange(current, {}), in.budget));
  }
  const Value &fill = given.get(2, "fill_with");
  bool fills = !fill.is(Type::Undefined) && !fill.is(Type::None);
  if (!current.empty() && fills &&
      in.budget.spend((size - current.size()) * sizeof(Value)))
    current.resize(size, fill);
  if (!current.empty())
    lists.push_back(Value::list(std::move(current), in.budget));
  return Value::list(std::move(lists), in.budget, Value::Shape::Generator);
}

const Builtin *findOrderFilter(std::string_view name) {
  static const Builtin filters[] = {
      {"sort", sort, "reverse? case_sensitive? attribute?"},
      {"dictsort", dictSort, "case_sensitive? by? reverse?"},
      {"unique", unique, "case_sensitive? attribute?"},
      {"min", extreme<false>, "case_sensitive? attribute?"},
      {"max", extreme<true>, "case_sensitive? attribute?"},
      {"batch", batch, "linecount fill_with?"}};
  return findBuiltin(filters, name);
}

} // namespace cria::chat
