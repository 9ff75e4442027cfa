/// The filters of chat templates that are not about strings, the methods of
/// dicts, and the functions.
#include "runtime/text/chat/Evaluator.h"

#include "runtime/base/Json.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <optional>
#include <utility>

namespace cria::chat {

using Type = Value::Type;

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
    return Value::integer(static_cast<Integer>(value.elements().size()));
  if (value.is(Type::Dict))
    return Value::integer(static_cast<Integer>(value.members().size()));
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
  if (indent.isWhole()) {
    static constexpr Integer most = 1 << 30; // beyond every budget
    style.indent =
        static_cast<int64_t>(std::clamp<Integer>(indent.asInteger(), 0, most));
    style.comma = ",";
  } else if (!indent.is(Type::Undefined) && !indent.is(Type::None)) {
    return in.fail("the indent of tojson is " + std::string(indent.typeName()) +
                       ", which is not supported: expected an integer",
                   CRIA_UNIMPLEMENTED);
  }
  const Value::List &marks = separators.elements();
  if (marks.size() == 2 && marks[0].is(Type::String) &&
      marks[1].is(Type::String)) {
    style.comma = marks[0].view();
    style.colon = marks[1].view();
    in.budget.spend(marks[0].view().cost() + marks[1].view().cost());
  } else if (!separators.is(Type::Undefined) && !separators.is(Type::None)) {
    return in.fail("the separators of tojson are not supported: expected two "
                   "strings",
                   CRIA_UNIMPLEMENTED);
  }
  return in.text(dump(given.get(0), style, in.budget));
}

Value filtered(Evaluator &in, std::string_view filter, const Value &value) {
  Arguments only;
  only.positional.push_back(value);
  return in.apply(*findFilter(filter), only);
}

Value pathOf(Evaluator &in, Value value, const Value &attribute) {
  std::string path = print(attribute, in.budget).bytes;
  if (!in.budget.spend(path.size()))
    return {};
  for (size_t begin = 0, end; begin <= path.size(); begin = end + 1) {
    end = std::min(path.find('.', begin), path.size());
    if (!in.budget.spend(32))
      break;
    std::string name = path.substr(begin, end - begin);
    bool tooLarge = false;
    std::optional<Integer> index = parseInteger(name, tooLarge);
    value = in.item(value, index ? Value::integer(*index) : in.text(name));
  }
  return value;
}

static Value join(Evaluator &in, const Arguments &given) {
  Text separator =
      given.has(1, "d") ? print(given.get(1, "d"), in.budget) : Text();
  const Value &attribute = given.get(2, "attribute");
  bool whole = attribute.is(Type::Undefined) || attribute.is(Type::None);
  Writer result(in.budget);
  bool first = true;
  for (const Value &part : iterate(given.get(0), in.budget)) {
    Value one = whole ? part : pathOf(in, part, attribute);
    if (!in.budget.spend(1))
      return {};
    result.add(std::exchange(first, false) ? TextView() : TextView(separator));
    result.add(print(one, in.budget));
  }
  return in.text(result.take());
}

static Value toList(Evaluator &in, const Arguments &given) {
  return Value::list(iterate(given.get(0), in.budget), in.budget);
}

template <bool last> static Value end(Evaluator &in, const Arguments &given) {
  if (last && given.get(0).shape() == Value::Shape::Generator)
    return in.fail("a filter's generator has no last element");
  Value::List elements = iterate(given.get(0), in.budget);
  if (elements.empty())
    return Value::undefined(last ? "the last element" : "the first element",
                            in.budget);
  return last ? elements.back() : elements.front();
}

static Value reverse(Evaluator &in, const Arguments &given) {
  const Value &value = given.get(0);
  if (value.is(Type::String)) {
    std::vector<uint32_t> bounds = characterBounds(value.text(), in.budget);
    Writer reversed(in.budget);
    for (size_t i = bounds.size() - 1; i > 0 && in.budget.ok(); --i)
      reversed.add(
          value.view().substr(bounds[i - 1], bounds[i] - bounds[i - 1]));
    return in.text(reversed.take());
  }
  Value::List elements = iterate(value, in.budget);
  std::reverse(elements.begin(), elements.end());
  return Value::list(std::move(elements), in.budget, // no generator in Python
                     value.shape() == Value::Shape::Generator
                         ? Value::Shape::List
                         : Value::Shape::Generator);
}

/// Calls `function` with `value` and the arguments of `given` from `from` on.
static Value apply(Evaluator &in, const Builtin &function, const Value &value,
                   const Arguments &given, size_t from) {
  Arguments arguments;
  if (!in.budget.spend((1 + given.positional.size() + given.named.size()) *
                       sizeof(given.named[0])))
    return {};
  arguments.positional.push_back(value);
  for (size_t i = from; i < given.positional.size(); ++i)
    arguments.positional.push_back(given.positional[i]);
  arguments.named = given.named;
  return in.apply(function, arguments);
}

/// What map, select and their kin see: of what is false, such as none, nothing.
static Value::List elementsOf(Evaluator &in, const Value &value) {
  return value.truth() ? iterate(value, in.budget) : Value::List();
}

static Value map(Evaluator &in, const Arguments &given) {
  const Value &attribute = given.get(SIZE_MAX, "attribute");
  const Value &otherwise = given.get(SIZE_MAX, "default");
  bool named = attribute.is(Type::Undefined);
  const Builtin *filter = named ? findFilter(given.get(1).text()) : nullptr;
  if (named && !filter)
    return in.fail("map: the filter " + quote(given.get(1).text()) +
                       " is not supported",
                   CRIA_UNIMPLEMENTED);
  Value::List results;
  for (const Value &one : elementsOf(in, given.get(0))) {
    if (!in.budget.spend(64))
      return {};
    Value result =
        filter ? apply(in, *filter, one, given, 2) : pathOf(in, one, attribute);
    if (!filter && result.is(Type::Undefined))
      result = otherwise;
    results.push_back(std::move(result));
  }
  return Value::list(std::move(results), in.budget, Value::Shape::Generator);
}

/// select, reject, selectattr and rejectattr: the elements that pass a test, or
/// that are true if no test is given.
template <bool keep, bool attribute>
static Value filterBy(Evaluator &in, const Arguments &given) {
  size_t at = attribute ? 2 : 1; // index of the test's name
  std::string name = given.get(at).text();
  const Builtin *test = name.empty() ? nullptr : findTest(name);
  if (!name.empty() && !test)
    return in.fail("the test " + quote(name) + " is not supported",
                   CRIA_UNIMPLEMENTED);
  Value::List kept;
  for (const Value &one : elementsOf(in, given.get(0))) {
    if (!in.budget.spend(64))
      return {};
    Value value = attribute ? pathOf(in, one, given.get(1)) : one;
    Value holds = test ? apply(in, *test, value, given, at + 1) : value;
    if (holds.truth() == keep)
      kept.push_back(one);
  }
  return Value::list(std::move(kept), in.budget, Value::Shape::Generator);
}

static Value toText(Evaluator &in, const Arguments &given) {
  const Value &value = given.get(0);
  return value.is(Type::String) ? value : in.text(print(value, in.budget));
}

static Value same(Evaluator &, const Arguments &given) { return given.get(0); }

/// What Jinja calls Markup: of safe, the text as it is.
template <bool escapes>
static Value toMarkup(Evaluator &in, const Arguments &given) {
  const Value &value = given.get(0);
  Text text = print(value, in.budget);
  if (escapes && value.shape() != Value::Shape::Markup)
    text = escapeMarkup(text, in.budget);
  return Value::string(std::move(text), in.budget, Value::Shape::Markup);
}

static Value truncate(Evaluator &in, double number) {
  if (!(std::fabs(number) < 0x1p127))
    return in.fail("an integer of more than 127 bits is not supported",
                   CRIA_UNIMPLEMENTED);
  return Value::integer(static_cast<Integer>(number));
}

/// `text` without the underscores that Python allows between digits.
static std::string joinDigits(const std::string &text) {
  auto isDigit = [&](size_t at) {
    return at < text.size() && text[at] >= '0' && text[at] <= '9';
  };
  std::string joined;
  for (size_t i = 0; i < text.size(); ++i)
    if (text[i] != '_' || i == 0 || !isDigit(i - 1) || !isDigit(i + 1))
      joined += text[i];
  return joined;
}

/// Python's int() of a string that spells an integer or a float; `otherwise` if
/// it spells neither.
static Value readInteger(Evaluator &in, const std::string &spelling,
                         const Value &otherwise) {
  std::string text = joinDigits(spelling);
  bool tooLarge = false;
  if (auto whole = parseInteger(text, tooLarge))
    return Value::integer(*whole);
  double number = 0;
  bool plus = text[0] == '+' && text[1] != '-';
  const char *end = text.data() + text.size();
  auto read = std::from_chars(text.data() + plus, end, number);
  if (tooLarge || read.ec == std::errc::result_out_of_range)
    return truncate(in, HUGE_VAL);
  bool right = read.ec == std::errc() && read.ptr == end;
  return right && std::isfinite(number) ? truncate(in, number) : otherwise;
}

/// Python's int() of a number or a string.
static Value toInteger(Evaluator &in, const Arguments &given) {
  const Value &value = given.get(0);
  if (value.is(Type::Undefined) && in.budget.ok())
    return in.fail(quote(value.text()) + " is undefined");
  if (value.isWhole())
    return Value::integer(value.asInteger());
  if (value.is(Type::Float))
    return truncate(in, value.asNumber());
  Value otherwise =
      given.has(1, "default") ? given.get(1, "default") : Value::integer(0);
  if (!value.is(Type::String) || !in.budget.spend(2 * value.text().size()))
    return otherwise;
  const Value &base = given.get(2, "base");
  if (!base.is(Type::Undefined) && base.asInteger() != 10)
    return in.fail("'int' of another base than 10 is not supported",
                   CRIA_UNIMPLEMENTED);
  Value trimmed = filtered(in, "trim", value);
  return readInteger(in, trimmed.text(), otherwise);
}

/// Python's float() of a number or a string.
static Value toFloat(Evaluator &in, const Arguments &given) {
  const Value &value = given.get(0);
  if (value.is(Type::Undefined) && in.budget.ok())
    return in.fail(quote(value.text()) + " is undefined");
  if (value.isNumber())
    return Value::real(value.asNumber());
  Value otherwise =
      given.has(1, "default") ? given.get(1, "default") : Value::real(0);
  if (!value.is(Type::String) || !in.budget.spend(2 * value.text().size()))
    return otherwise;
  Value trimmed = filtered(in, "trim", value);
  std::string text = joinDigits(trimmed.text());
  double number = 0;
  bool plus = text[0] == '+' && text[1] != '-';
  const char *end = text.data() + text.size();
  auto read = std::from_chars(text.data() + plus, end, number);
  bool right = read.ec == std::errc() && read.ptr == end;
  return right ? Value::real(number) : otherwise;
}

static Value absolute(Evaluator &in, const Arguments &given) {
  const Value &value = given.get(0);
  if (value.is(Type::Float))
    return Value::real(std::fabs(value.asNumber()));
  if (!value.isWhole())
    return in.fail(std::string("cannot take abs of ") + value.typeName());
  Integer whole = value.asInteger();
  return Value::integer(whole < 0 ? -whole : whole);
}

/// Jinja's round, whose result is a float.
static Value round(Evaluator &in, const Arguments &given) {
  const Value &value = given.get(0);
  const Value &precision = given.get(1, "precision");
  const std::string &method = given.get(2, "method").text();
  Integer places = precision.isWhole() ? precision.asInteger() : 0;
  bool common = method.empty() || method == "common";
  if (!value.isNumber() || (!common && method != "ceil" && method != "floor"))
    return in.fail("round expects a number, and 'common', 'ceil' or 'floor'");
  if (places < 0 || places > 15 || (common && value.isWhole()))
    return in.fail("rounding so is not supported", CRIA_UNIMPLEMENTED);
  double number = value.asNumber();
  if (!std::isfinite(number))
    return value;
  if (common) { // correctly rounded, as Python does
    char text[512];
    snprintf(text, sizeof(text), "%.*f", static_cast<int>(places), number);
    std::from_chars(text, text + strlen(text), number);
    return Value::real(number);
  }
  double factor = std::pow(10.0, static_cast<double>(places));
  number *= factor;
  return Value::real(
      (method == "ceil" ? std::ceil(number) : std::floor(number)) / factor);
}

static Value sum(Evaluator &in, const Arguments &given) {
  const Value &attribute = given.get(1, "attribute");
  bool whole = attribute.is(Type::Undefined) || attribute.is(Type::None);
  Value total =
      given.has(2, "start") ? given.get(2, "start") : Value::integer(0);
  if (total.is(Type::String))
    return in.fail("sum cannot add texts");
  for (const Value &one : iterate(given.get(0), in.budget))
    if (in.budget.spend(64))
      total = in.sum(total, whole ? one : pathOf(in, one, attribute));
  return total;
}

static Value attributeOf(Evaluator &in, const Arguments &given) {
  if (given.get(0).is(Type::Dict)) // not its members
    return in.fail("attr of a dict is not supported", CRIA_UNIMPLEMENTED);
  return in.attribute(given.get(0), given.get(1, "name").text());
}

static Value formatWith(Evaluator &in, const Arguments &given) {
  Text form = print(given.get(0), in.budget);
  Value::List values(given.positional.begin() + 1, given.positional.end());
  if (given.named.empty())
    return formatPercent(
        in, form,
        Value::list(std::move(values), in.budget, Value::Shape::Tuple));
  std::vector<Value::Dict::Member> members;
  for (const auto &[name, value] : given.named)
    members.push_back({in.text(std::string(name)), value});
  if (!values.empty())
    return in.fail("format takes values, or names and values, not both");
  return formatPercent(
      in, form,
      Value::dict(Value::Dict(std::move(members), in.budget), in.budget));
}

// ---- Lists and loops --------------------------------------------------------

static Value indexOf(Evaluator &in, const Arguments &given) {
  const Value::List &elements = given.get(0).elements();
  for (size_t i = 0; i < elements.size(); ++i)
    if (equal(elements[i], given.get(1), in.budget))
      return Value::integer(static_cast<Integer>(i));
  return in.fail("the list has no such element");
}

static Value countOf(Evaluator &in, const Arguments &given) {
  Integer count = 0;
  for (const Value &element : given.get(0).elements())
    count += equal(element, given.get(1), in.budget);
  return Value::integer(count);
}

static Value cycle(Evaluator &in, const Arguments &given) {
  size_t count = given.positional.size() - 1;
  if (count == 0)
    return in.fail("loop.cycle expects values");
  return given.positional[1 + given.get(0).turn().index % count];
}

// ---- Dicts ------------------------------------------------------------------

/// The method, and the filter, which gives a generator.
template <Value::Shape shape>
static Value items(Evaluator &in, const Arguments &given) {
  Value::List pairs;
  if (!given.get(0).is(Type::Dict) && !given.get(0).is(Type::Undefined))
    return in.fail(std::string("cannot take the items of ") +
                   given.get(0).typeName());
  for (const auto &[key, value] : given.get(0).members())
    if (in.budget.spend(sizeof(Value)))
      pairs.push_back(
          Value::list({key, value}, in.budget, Value::Shape::Tuple));
  return Value::list(std::move(pairs), in.budget, shape);
}

static Value keys(Evaluator &in, const Arguments &given) {
  return Value::list(iterate(given.get(0), in.budget), in.budget,
                     Value::Shape::View);
}

static Value values(Evaluator &in, const Arguments &given) {
  Value::List all;
  if (in.budget.spend(given.get(0).members().size() * sizeof(Value)))
    for (const auto &[key, value] : given.get(0).members())
      all.push_back(value);
  return Value::list(std::move(all), in.budget, Value::Shape::View);
}

static Value getMember(Evaluator &in, const Arguments &given) {
  const Value *member = given.get(0).members().find(given.get(1), in.budget);
  return member ? *member : given.has(2) ? given.get(2) : Value::none();
}

// ---- Functions --------------------------------------------------------------

static Value range(Evaluator &in, const Arguments &given) {
  Integer bounds[3] = {0, 0, 1};
  size_t count = given.positional.size();
  for (size_t i = 0; i < count && i < 3; ++i) {
    if (!given.get(i).isWhole())
      return in.fail(std::string("a bound of range is ") +
                     given.get(i).typeName());
    bounds[count == 1 ? 1 : i] = given.get(i).asInteger();
  }
  auto [begin, end, step] = bounds;
  if (step == 0)
    return in.fail("the step of range is 0");
  Value::List numbers;
  for (Integer at = begin; step > 0 ? at < end : at > end;) {
    if (numbers.size() == 100'000) // as in Jinja's sandbox
      return in.fail("range has more than 100000 elements",
                     CRIA_RESOURCE_EXHAUSTED);
    if (!in.budget.spend(sizeof(Value)))
      return {};
    numbers.push_back(Value::integer(at));
    if (__builtin_add_overflow(at, step, &at))
      break;
  }
  return Value::list(std::move(numbers), in.budget, Value::Shape::Range);
}

/// The members of the dict that is given, if any, and the named arguments.
static Value::Dict membersOf(Evaluator &in, const Arguments &given) {
  if (!given.get(0).is(Type::Dict) && !given.get(0).is(Type::Undefined))
    in.fail(std::string("a dict of ") + given.get(0).typeName() +
                " is not supported: expected a dict",
            CRIA_UNIMPLEMENTED);
  const Value::Dict &first = given.get(0).members();
  std::vector<Value::Dict::Member> members;
  if (!in.budget.spend((first.size() + given.named.size()) *
                       sizeof(members[0])))
    return {};
  members.assign(first.begin(), first.end());
  for (const auto &[name, value] : given.named)
    members.push_back({in.text(std::string(name)), value});
  return Value::Dict(std::move(members), in.budget);
}

static Value makeNamespace(Evaluator &in, const Arguments &given) {
  Value::Dict members = membersOf(in, given);
  for (const auto &[name, value] : members)
    if (name.text()[0] == '_')
      return in.fail("cannot set " + quote(name.text()) + " of a namespace");
    else if (value.holdsNamespace())
      return in.fail("a namespace in a namespace is not supported",
                     CRIA_UNIMPLEMENTED);
  return Value::newNamespace(std::move(members), in.budget);
}

static Value makeDict(Evaluator &in, const Arguments &given) {
  return Value::dict(membersOf(in, given), in.budget);
}

static Value raise(Evaluator &in, const Arguments &given) {
  return in.fail("the template says: " +
                 quote(print(given.get(0, "message"), in.budget).bytes));
}

static Value now(Evaluator &in, const Arguments &given) {
  const std::string &format = given.get(0, "format").text();
  if (!in.budget.spend(512 + format.size()))
    return {};
  char text[256] = "";
  std::time_t time = std::time(nullptr);
  std::tm parts = {};
  localtime_r(&time, &parts);
  if (!format.empty() &&
      std::strftime(text, sizeof(text), format.c_str(), &parts) == 0)
    return in.fail("strftime_now makes more than 255 bytes");
  return in.text(text);
}

const Builtin *findFilter(std::string_view name) {
  static const Builtin filters[] = {
      {"length", length},
      {"count", length},
      {"default", defaultTo, "default_value? boolean?"},
      {"d", defaultTo, "default_value? boolean?"},
      {"tojson", toJson, "ensure_ascii? indent? separators? sort_keys?"},
      {"join", join, "d? attribute?"},
      {"list", toList},
      {"first", end<false>},
      {"last", end<true>},
      {"reverse", reverse},
      {"map", map, "* **"},
      {"select", filterBy<true, false>, "* **"},
      {"reject", filterBy<false, false>, "* **"},
      {"selectattr", filterBy<true, true>, "/ name * **"},
      {"rejectattr", filterBy<false, true>, "/ name * **"},
      {"string", toText},
      {"safe", toMarkup<false>},
      {"escape", toMarkup<true>},
      {"e", toMarkup<true>},
      {"int", toInteger, "default? base?"},
      {"float", toFloat, "default?"},
      {"abs", absolute},
      {"round", round, "precision? method?"},
      {"sum", sum, "attribute? start?"},
      {"attr", attributeOf, "/ name"},
      {"format", formatWith, "* **"},
      {"items", items<Value::Shape::Generator>}};
  for (auto find : {findStringFilter, findOrderFilter})
    if (const Builtin *found = find(name))
      return found;
  return findBuiltin(filters, name);
}

const Builtin *findMethod(const Value &value, std::string_view name) {
  static const Builtin methods[] = {{"items", items<Value::Shape::View>},
                                    {"keys", keys},
                                    {"values", values},
                                    {"get", getMember, "/ key default?"},
                                    {"copy", same}};
  static const Builtin ofLists[] = {{"index", indexOf, "/ value"},
                                    {"count", countOf, "/ value"}};
  static const Builtin ofLoops[] = {{"cycle", cycle, "*"}};
  if (value.is(Type::String))
    return findStringMethod(name);
  if (value.hasPlaces())
    return findBuiltin(ofLists, name);
  if (value.is(Type::Loop))
    return findBuiltin(ofLoops, name);
  return value.is(Type::Dict) ? findBuiltin(methods, name) : nullptr;
}

const Builtin *findFunction(std::string_view name) {
  static const Builtin functions[] = {
      {"range", range, "/ start stop? step?"},
      {"namespace", makeNamespace, "/ members? **"},
      {"dict", makeDict, "/ members? **"},
      {"raise_exception", raise, "message"},
      {"strftime_now", now, "format"}};
  return findBuiltin(functions, name);
}

} // namespace cria::chat
