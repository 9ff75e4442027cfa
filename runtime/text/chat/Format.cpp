/// Python's two ways to put values into a text: '%s' % value and
/// '{}'.format(value).
#include "runtime/text/chat/Evaluator.h"

#include "runtime/base/Json.h"

#include <algorithm>
#include <cstdio>

namespace cria::chat {

using Type = Value::Type;

namespace {

/// "%(name)-08.3f"
struct Spec {
  std::string name, flags;
  size_t width = 0;
  std::optional<size_t> precision;
  char type = 0;

  bool has(char flag) const { return flags.find(flag) != flags.npos; }
};

/// Formats by '%'.
class Percent {
public:
  Percent(Evaluator &in, TextView form, const Value &value)
      : in(in), form(form), value(value), result(in.budget) {}

  Value run() {
    while (at < form.size() && in.budget.ok()) {
      size_t mark = std::min(form.bytes.find('%', at), form.size());
      result.add(form.substr(at, mark - at));
      at = mark + 1;
      if (mark == form.size())
        break;
      if (form.bytes.substr(at, 1) == "%")
        result.add(form.substr(at++, 1));
      else
        write(readSpec());
    }
    bool tuple = value.is(Type::List) && value.shape() == Value::Shape::Tuple;
    bool left = tuple ? used < value.elements().size()
                      : used == 0 && !named && !value.is(Type::Dict) &&
                            !value.is(Type::List);
    if (left && in.budget.ok())
      return in.fail("not all values are used in formatting a string");
    return in.text(result.take());
  }

private:
  size_t readNumber() {
    size_t number = 0;
    for (; at < form.size() &&
           isdigit(static_cast<unsigned char>(form.bytes[at]));
         ++at)
      number = std::min<size_t>(number * 10 + (form.bytes[at] - '0'), 1 << 30);
    return number;
  }

  Spec readSpec() {
    Spec spec;
    if (form.bytes.substr(at, 1) == "(") {
      size_t end = std::min(form.bytes.find(')', at), form.size());
      spec.name = form.bytes.substr(at + 1, end - at - 1);
      named = true;
      at = std::min(end + 1, form.size());
    }
    static constexpr std::string_view flags = "-+ 0#";
    while (at < form.size() && flags.find(form.bytes[at]) != flags.npos)
      spec.flags += form.bytes[at++];
    spec.width = readNumber();
    if (form.bytes.substr(at, 1) == ".") {
      ++at;
      spec.precision = readNumber();
    }
    if (at < form.size())
      spec.type = form.bytes[at++];
    return spec;
  }

  const Value &next(const Spec &spec) {
    static const Value missing;
    if (named) {
      const Value *found = value.members().find(spec.name, in.budget);
      if (!found)
        in.fail("a string's format has no value for " + quote(spec.name));
      return found ? *found : missing;
    }
    bool tuple = value.is(Type::List) && value.shape() == Value::Shape::Tuple;
    if (used >= (tuple ? value.elements().size() : 1)) {
      in.fail("not enough values to format a string");
      return missing;
    }
    return tuple ? value.elements()[used++] : (++used, value);
  }

  void write(const Spec &spec) {
    const Value &one = next(spec);
    Text text;
    std::string sign;
    if (spec.type == 's' || spec.type == 'r')
      text = textOf(one, spec);
    else
      text = Text(number(one, spec, sign));
    std::vector<uint32_t> bounds = characterBounds(text.bytes, in.budget);
    size_t taken = bounds.size() - 1 + sign.size();
    size_t fill = spec.width > taken ? spec.width - taken : 0;
    if (!in.budget.spend(fill))
      return;
    bool zeros =
        spec.has('0') && !spec.has('-') && spec.type != 's' && spec.type != 'r';
    std::string blanks(zeros || spec.has('-') ? 0 : fill, ' ');
    result.add(blanks + sign + std::string(zeros ? fill : 0, '0'));
    result.add(text);
    result.add(std::string(spec.has('-') ? fill : 0, ' '));
  }

  Text textOf(const Value &one, const Spec &spec) {
    Writer writer(in.budget);
    if (spec.type == 'r')
      represent(one, writer);
    else
      writer.add(print(one, in.budget));
    Text text = writer.take();
    std::vector<uint32_t> bounds = characterBounds(text.bytes, in.budget);
    if (spec.precision && *spec.precision < bounds.size() - 1)
      text = TextView(text).substr(0, bounds[*spec.precision]);
    return text;
  }

  /// The digits of a number; its sign goes to `sign`.
  std::string number(const Value &one, const Spec &spec, std::string &sign) {
    static constexpr std::string_view types = "diuf";
    bool large = spec.precision.value_or(0) > 100 || spec.has('#');
    if (types.find(spec.type) == types.npos || large ||
        (spec.type != 'f' && spec.precision)) {
      in.fail("formatting a string by '%" + std::string(1, spec.type) +
                  "' is not supported",
              CRIA_UNIMPLEMENTED);
      return "";
    }
    if (!one.isNumber()) {
      in.fail(std::string("'%") + spec.type + "' expects a number, found " +
              one.typeName());
      return "";
    }
    std::string digits;
    if (spec.type == 'f') {
      char buffer[512];
      snprintf(buffer, sizeof(buffer), "%.*f",
               static_cast<int>(spec.precision.value_or(6)), one.asNumber());
      digits = buffer;
    } else if (one.isWhole()) {
      digits = printInteger(one.asInteger());
    } else if (!(one.asNumber() < 0x1p127 && one.asNumber() > -0x1p127)) {
      in.fail("an integer of more than 127 bits is not supported",
              CRIA_UNIMPLEMENTED);
    } else {
      digits = printInteger(static_cast<Integer>(one.asNumber()));
    }
    bool negative = !digits.empty() && digits[0] == '-';
    sign = negative ? "-" : spec.has('+') ? "+" : spec.has(' ') ? " " : "";
    return digits.substr(negative);
  }

  Evaluator &in;
  TextView form;
  const Value &value;
  Writer result;
  size_t at = 0, used = 0;
  bool named = false;
};

} // namespace

Value formatPercent(Evaluator &in, TextView form, const Value &value) {
  return in.budget.spend(form.size()) ? Percent(in, form, value).run()
                                      : Value();
}

Value formatBraces(Evaluator &in, const Arguments &arguments) {
  TextView form = arguments.get(0).view();
  Writer result(in.budget);
  size_t next = 1;
  for (size_t at = 0; at < form.size() && in.budget.ok();) {
    char c = form.bytes[at];
    bool twice = form.bytes.substr(at + 1, 1) == std::string_view(&c, 1);
    if ((c != '{' && c != '}') || twice) {
      result.add(form.substr(at, 1));
      at += c == '{' || c == '}' ? 2 : 1;
      continue;
    }
    size_t end = form.bytes.find('}', at);
    if (c == '}' || end == std::string_view::npos)
      return in.fail("a single " + quote(std::string_view(&c, 1)) +
                     " in a string's format");
    std::string field(form.bytes.substr(at + 1, end - at - 1));
    if (field.find_first_of("{:!.[") != field.npos)
      return in.fail("the format " + quote("{" + field + "}") +
                         " is not supported",
                     CRIA_UNIMPLEMENTED);
    bool tooLarge = false;
    auto index = parseInteger(field, tooLarge);
    size_t place = field.empty() ? next++
                   : index && *index >= 0 && *index < 1 << 20
                       ? static_cast<size_t>(*index) + 1
                       : SIZE_MAX;
    if (!arguments.has(place, field))
      return in.fail("a string's format has no value for " +
                     quote("{" + field + "}"));
    result.add(print(arguments.get(place, field), in.budget));
    at = end + 1;
  }
  return in.text(result.take());
}

} // namespace cria::chat
