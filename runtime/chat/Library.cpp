/// The filters of chat templates that are not about strings, the methods of
/// dicts, and the functions.
#include "runtime/chat/Evaluator.h"

#include "runtime/Json.h"

#include <algorithm>
#include <charconv>
#include <ctime>
#include <utility>

namespace cria::chat {

using Type = Value::Type;
using Named = std::pair<const char *, Builtin>;

template <size_t size>
static Builtin findIn(const Named (&table)[size], const std::string &name) {
  for (const auto &[known, builtin] : table)
    if (name == known)
      return builtin;
  return nullptr;
}

// ---- Filters ----------------------------------------------------------------

static Value length(Evaluator &in, const Arguments &given) {
  const Value &value = given.get(0);
  bool sized = value.is(Type::List)
                   ? value.shape() != Value::Shape::Generator
                   : value.is(Type::Dict) || value.is(Type::String) ||
                         value.is(Type::Undefined);
  if (!sized)
    return in.fail(std::string(value.typeName()) + " has no length");
  if (value.is(Type::List))
    return Value::integer(static_cast<int64_t>(value.elements().size()));
  if (value.is(Type::Dict))
    return Value::integer(static_cast<int64_t>(value.members().size()));
  if (value.is(Type::Undefined) || !in.budget.spend(value.text().size()))
    return Value::integer(0);
  return Value::integer(
      std::count_if(value.text().begin(), value.text().end(),
                    [](char c) { return (c & 0xC0) != 0x80; }));
}

static Value defaultTo(Evaluator &in, const Arguments &given) {
  const Value &value = given.get(0);
  bool absent = value.is(Type::Undefined) ||
                (given.get(2, "boolean").truth() && !value.truth());
  if (!absent)
    return value;
  return given.has(1, "default_value") ? given.get(1, "default_value")
                                       : in.text("");
}

static Value toJson(Evaluator &in, const Arguments &given) {
  JsonStyle style;
  style.ascii = given.get(1, "ensure_ascii").truth();
  const Value &indent = given.get(2, "indent");
  const Value &separators = given.get(3, "separators");
  style.sorted = given.get(4, "sort_keys").truth();
  if (indent.isNumber()) {
    style.indent = std::min<int64_t>(indent.asInteger(), 1000);
    style.comma = ",";
  } else if (!indent.is(Type::Undefined) && !indent.is(Type::None)) {
    return in.fail("the indent of tojson is not supported: expected a number",
                   CRIA_UNIMPLEMENTED);
  }
  if (separators.elements().size() == 2) {
    style.comma = separators.elements()[0].text();
    style.colon = separators.elements()[1].text();
  }
  return in.text(dump(given.get(0), style, in.budget));
}

/// The attribute "a.b.0" of `value`.
static Value pathOf(Evaluator &in, Value value, const Value &attribute) {
  std::string path = print(attribute, in.budget);
  for (size_t begin = 0, end; begin <= path.size(); begin = end + 1) {
    end = std::min(path.find('.', begin), path.size());
    int64_t index = 0;
    auto read = std::from_chars(&path[begin], path.data() + end, index);
    bool number =
        begin < end && read.ec == std::errc() && read.ptr == path.data() + end;
    std::string name = path.substr(begin, end - begin);
    value = in.item(value, number ? Value::integer(index) : in.text(name));
    if (!in.budget.spend(32))
      break;
  }
  return value;
}

static Value join(Evaluator &in, const Arguments &given) {
  std::string separator =
      given.has(1, "d") ? print(given.get(1, "d"), in.budget) : "";
  const Value &attribute = given.get(2, "attribute");
  bool whole = attribute.is(Type::Undefined) || attribute.is(Type::None);
  std::string result;
  bool first = true;
  for (const Value &part : iterate(given.get(0), in.budget)) {
    Value one = whole ? part : pathOf(in, part, attribute);
    if (!in.budget.spend(separator.size() + 1))
      return {};
    result += std::exchange(first, false) ? "" : separator;
    result += print(one, in.budget);
  }
  return in.text(std::move(result));
}

static Value toList(Evaluator &in, const Arguments &given) {
  return Value::list(iterate(given.get(0), in.budget), in.budget);
}

template <bool last> static Value end(Evaluator &in, const Arguments &given) {
  if (last && given.get(0).shape() == Value::Shape::Generator)
    return in.fail("what a filter generates has no last element");
  Value::List elements = iterate(given.get(0), in.budget);
  if (elements.empty())
    return Value::undefined(last ? "the last element" : "the first element");
  return last ? elements.back() : elements.front();
}

static Value reverse(Evaluator &in, const Arguments &given) {
  Value::List elements = iterate(given.get(0), in.budget);
  std::reverse(elements.begin(), elements.end());
  if (!given.get(0).is(Type::String)) // Python reverses no generator
    return Value::list(std::move(elements), in.budget,
                       given.get(0).shape() == Value::Shape::Generator
                           ? Value::Shape::List
                           : Value::Shape::Generator);
  std::string text;
  for (const Value &character : elements)
    text += character.text();
  return in.text(std::move(text));
}

/// Calls `function` with `value` and the arguments of `given` from `from` on.
static Value apply(Evaluator &in, Builtin function, const Value &value,
                   const Arguments &given, size_t from) {
  Arguments arguments;
  arguments.positional.push_back(value);
  for (size_t i = from; i < given.positional.size(); ++i)
    arguments.positional.push_back(given.positional[i]);
  arguments.named = given.named;
  return function(in, arguments);
}

static Value map(Evaluator &in, const Arguments &given) {
  const Value &attribute = given.get(SIZE_MAX, "attribute");
  const Value &otherwise = given.get(SIZE_MAX, "default");
  bool named = attribute.is(Type::Undefined);
  Builtin filter = named ? findFilter(given.get(1).text()) : nullptr;
  if (named && !filter)
    return in.fail("map: the filter " + quote(given.get(1).text()) +
                       " is not supported",
                   CRIA_UNIMPLEMENTED);
  Value::List results;
  for (const Value &one : iterate(given.get(0), in.budget)) {
    if (!in.budget.spend(64))
      return {};
    Value result =
        filter ? apply(in, filter, one, given, 2) : pathOf(in, one, attribute);
    if (!filter && result.is(Type::Undefined))
      result = otherwise;
    results.push_back(std::move(result));
  }
  return Value::list(std::move(results), in.budget, Value::Shape::Generator);
}

/// select, reject, and the two that look at an attribute: what a test holds
/// for, without a test what is true.
template <bool keep, bool attribute>
static Value filterBy(Evaluator &in, const Arguments &given) {
  size_t at = attribute ? 2 : 1; // of the test's name
  std::string name = given.get(at).text();
  Builtin test = name.empty() ? nullptr : findTest(name);
  if (!name.empty() && !test)
    return in.fail("the test " + quote(name) + " is not supported",
                   CRIA_UNIMPLEMENTED);
  Value::List kept;
  for (const Value &one : iterate(given.get(0), in.budget)) {
    if (!in.budget.spend(64))
      return {};
    Value value = attribute ? pathOf(in, one, given.get(1)) : one;
    Value holds = test ? apply(in, test, value, given, at + 1) : value;
    if (holds.truth() == keep)
      kept.push_back(one);
  }
  return Value::list(std::move(kept), in.budget, Value::Shape::Generator);
}

static Value toText(Evaluator &in, const Arguments &given) {
  return in.text(print(given.get(0), in.budget));
}

static Value same(Evaluator &, const Arguments &given) { return given.get(0); }

/// As Python's int() of a number, or of what a string spells.
static Value toInteger(Evaluator &in, const Arguments &given) {
  const Value &value = given.get(0);
  if (value.is(Type::Undefined) && in.budget.ok())
    return in.fail(quote(value.text()) + " is undefined");
  if (value.isNumber() && !value.is(Type::Float))
    return Value::integer(value.asInteger());
  double number = value.asNumber();
  bool right = value.is(Type::Float);
  if (value.is(Type::String)) {
    Arguments string;
    string.positional.push_back(value);
    std::string text = findFilter("trim")(in, string).text();
    const char *begin = text.data() + (text[0] == '+');
    const char *end = text.data() + text.size();
    int64_t whole = 0;
    if (auto read = std::from_chars(begin, end, whole);
        read.ec == std::errc() && read.ptr == end)
      return Value::integer(whole);
    auto read = std::from_chars(begin, end, number);
    right = read.ec == std::errc() && read.ptr == end;
  }
  if (right && !(number > -9e18 && number < 9e18))
    return in.fail("an integer beyond 64 bits is not supported",
                   CRIA_UNIMPLEMENTED);
  if (right)
    return Value::integer(static_cast<int64_t>(number));
  return given.has(1, "default") ? given.get(1, "default") : Value::integer(0);
}

// ---- Dicts ------------------------------------------------------------------

static Value items(Evaluator &in, const Arguments &given) {
  Value::List pairs;
  if (!given.get(0).is(Type::Dict) && !given.get(0).is(Type::Undefined))
    return in.fail(std::string("cannot take the items of ") +
                   given.get(0).typeName());
  for (const auto &[key, value] : given.get(0).members())
    if (in.budget.spend(3 * sizeof(Value)))
      pairs.push_back(
          Value::list({in.text(key), value}, in.budget, Value::Shape::Tuple));
  return Value::list(std::move(pairs), in.budget);
}

static Value keys(Evaluator &in, const Arguments &given) {
  return Value::list(iterate(given.get(0), in.budget), in.budget);
}

static Value values(Evaluator &in, const Arguments &given) {
  Value::List all;
  for (const auto &[key, value] : given.get(0).members())
    all.push_back(value);
  return Value::list(std::move(all), in.budget);
}

static Value getMember(Evaluator &in, const Arguments &given) {
  in.budget.spend(given.get(0).members().size());
  const Value *member = given.get(1).is(Type::String)
                            ? given.get(0).find(given.get(1).text())
                            : nullptr;
  return member ? *member : given.has(2) ? given.get(2) : Value::none();
}

// ---- Functions --------------------------------------------------------------

static Value range(Evaluator &in, const Arguments &given) {
  int64_t bounds[3] = {0, 0, 1};
  size_t count = given.positional.size();
  for (size_t i = 0; i < count && i < 3; ++i) {
    if (!given.get(i).isNumber())
      return in.fail(std::string("a bound of range is ") +
                     given.get(i).typeName());
    bounds[count == 1 ? 1 : i] = given.get(i).asInteger();
  }
  auto [begin, end, step] = bounds;
  if (count == 0 || count > 3 || step == 0)
    return in.fail("range expects an end; or a begin, an end and a step");
  Value::List numbers;
  for (int64_t at = begin; step > 0 ? at < end : at > end;) {
    if (numbers.size() == 100'000) // as Jinja's sandbox
      return in.fail("range has more than 100000 elements",
                     CRIA_RESOURCE_EXHAUSTED);
    numbers.push_back(Value::integer(at));
    if (__builtin_add_overflow(at, step, &at))
      break;
  }
  return Value::list(std::move(numbers), in.budget);
}

static Value::Dict namedArguments(const Arguments &given) {
  Value::Dict members = given.get(0).members();
  for (const auto &[name, value] : given.named)
    members.emplace_back(name, value);
  return members;
}

static Value makeNamespace(Evaluator &in, const Arguments &given) {
  for (const auto &[name, value] : given.named)
    if (value.holdsNamespace())
      return in.fail("a namespace in a namespace is not supported",
                     CRIA_UNIMPLEMENTED);
  return Value::newNamespace(namedArguments(given));
}

static Value makeDict(Evaluator &in, const Arguments &given) {
  return Value::dict(namedArguments(given), in.budget);
}

static Value raise(Evaluator &in, const Arguments &given) {
  return in.fail("the template says: " + quote(print(given.get(0), in.budget)));
}

static Value now(Evaluator &in, const Arguments &given) {
  const std::string &format = given.get(0).text();
  char text[256] = "";
  std::time_t time = std::time(nullptr);
  std::tm parts = {};
  localtime_r(&time, &parts);
  if (!format.empty() &&
      std::strftime(text, sizeof(text), format.c_str(), &parts) == 0)
    return in.fail("strftime_now makes more than 255 bytes");
  return in.text(text);
}

Builtin findFilter(const std::string &name) {
  static const Named filters[] = {{"length", length},
                                  {"count", length},
                                  {"default", defaultTo},
                                  {"d", defaultTo},
                                  {"tojson", toJson},
                                  {"join", join},
                                  {"list", toList},
                                  {"first", end<false>},
                                  {"last", end<true>},
                                  {"reverse", reverse},
                                  {"map", map},
                                  {"select", filterBy<true, false>},
                                  {"reject", filterBy<false, false>},
                                  {"selectattr", filterBy<true, true>},
                                  {"rejectattr", filterBy<false, true>},
                                  {"string", toText},
                                  {"safe", same},
                                  {"int", toInteger},
                                  {"items", items}};
  Builtin string = findStringFilter(name);
  return string ? string : findIn(filters, name);
}

Builtin findMethod(const Value &value, const std::string &name) {
  static const Named methods[] = {
      {"items", items}, {"keys", keys}, {"values", values}, {"get", getMember}};
  if (value.is(Type::String))
    return findStringMethod(name);
  return value.is(Type::Dict) ? findIn(methods, name) : nullptr;
}

Builtin findFunction(const std::string &name) {
  static const Named functions[] = {{"range", range},
                                    {"namespace", makeNamespace},
                                    {"dict", makeDict},
                                    {"raise_exception", raise},
                                    {"strftime_now", now}};
  return findIn(functions, name);
}

} // namespace cria::chat
