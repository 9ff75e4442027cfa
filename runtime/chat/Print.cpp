/// Values as text: Python's str(), repr() and json.dumps().
#include "runtime/chat/Value.h"

#include "runtime/tokenizer/Unicode.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <numeric>

namespace cria::chat {

using Type = Value::Type;

/// Python's repr of a float: the shortest digits that read back the same,
/// without an exponent from 1e-4 up to 1e16.
static std::string printFloat(double value, bool json) {
  if (std::isnan(value))
    return json ? "NaN" : "nan";
  if (std::isinf(value))
    return std::string(value < 0 ? "-" : "") + (json ? "Infinity" : "inf");
  char text[64];
  double size = std::fabs(value);
  bool plain = size == 0 || (size >= 1e-4 && size < 1e16);
  auto end = std::to_chars(text, text + sizeof(text), value,
                           plain ? std::chars_format::fixed
                                 : std::chars_format::scientific)
                 .ptr;
  std::string result(text, end);
  return plain && result.find('.') == result.npos ? result + ".0" : result;
}

static void appendEscape(std::string &text, const char *form, char32_t c) {
  char escape[16];
  snprintf(escape, sizeof(escape), form, static_cast<unsigned>(c));
  text += escape;
}

/// Whether repr() writes the character itself.
static bool isPrintable(char32_t c) {
  return c == ' ' || (c > ' ' && c != 0x7F && !isOther(c) && !isWhiteSpace(c));
}

static std::string representText(const std::string &text) {
  bool doubled = text.find('\'') != text.npos && text.find('"') == text.npos;
  char32_t mark = doubled ? '"' : '\'';
  std::string result(1, static_cast<char>(mark));
  for (size_t at = 0; at < text.size();) {
    char32_t c = takeCharacter(text, at);
    if (c == mark || c == '\\')
      result += {'\\', static_cast<char>(c)};
    else if (c == '\n' || c == '\r' || c == '\t')
      result += c == '\n' ? "\\n" : c == '\r' ? "\\r" : "\\t";
    else if (isPrintable(c))
      appendCharacter(result, c);
    else
      appendEscape(result,
                   c < 0x100     ? "\\x%02x"
                   : c < 0x10000 ? "\\u%04x"
                                 : "\\U%08x",
                   c);
  }
  return result + static_cast<char>(mark);
}

static std::string representList(const Value &value, Budget &budget) {
  if (value.shape() == Value::Shape::Generator)
    budget.fail("printing what a filter generates is not supported",
                CRIA_UNIMPLEMENTED);
  bool tuple = value.shape() == Value::Shape::Tuple;
  std::string text = tuple ? "(" : "[";
  for (size_t i = 0; i < value.elements().size() && budget.ok(); ++i)
    text += (i ? ", " : "") + represent(value.elements()[i], budget);
  if (tuple)
    return text + (value.elements().size() == 1 ? ",)" : ")");
  return text + "]";
}

static std::string representDict(const Value &value, Budget &budget) {
  std::string text = "{";
  for (const auto &[key, member] : value.members()) {
    if (!budget.spend(key.size()))
      break;
    text += (text.size() > 1 ? ", " : "") + representText(key) + ": " +
            represent(member, budget);
  }
  return text + "}";
}

std::string represent(const Value &value, Budget &budget) {
  std::string text;
  switch (value.type()) {
  case Type::Undefined:
    text = "Undefined";
    break;
  case Type::None:
    text = "None";
    break;
  case Type::Boolean:
    text = value.truth() ? "True" : "False";
    break;
  case Type::Integer:
    text = std::to_string(value.asInteger());
    break;
  case Type::Float:
    text = printFloat(value.asNumber(), false);
    break;
  case Type::String:
    budget.spend(value.text().size());
    text = representText(value.text());
    break;
  case Type::List:
    text = representList(value, budget);
    break;
  case Type::Dict:
    text = representDict(value, budget);
    break;
  default:
    budget.fail(std::string("cannot print ") + value.typeName());
  }
  budget.spend(text.size());
  return budget.ok() ? text : "";
}

std::string print(const Value &value, Budget &budget) {
  if (value.is(Type::Undefined))
    return "";
  if (!value.is(Type::String))
    return represent(value, budget);
  return budget.spend(value.text().size()) ? value.text() : "";
}

static std::string dumpText(const std::string &text, bool ascii) {
  std::string result = "\"";
  for (size_t at = 0; at < text.size();) {
    char32_t c = takeCharacter(text, at);
    static constexpr std::string_view named = "\"\\\n\r\t\b\f";
    size_t name = c < 0x80 ? named.find(static_cast<char>(c)) : named.npos;
    if (name != named.npos)
      result += {'\\', "\"\\nrtbf"[name]};
    else if (c < 0x20 || (ascii && c >= 0x7F && c < 0x10000 && c != 0x7F))
      appendEscape(result, "\\u%04x", c);
    else if (ascii && c >= 0x10000) {
      appendEscape(result, "\\u%04x", 0xD800 + ((c - 0x10000) >> 10));
      appendEscape(result, "\\u%04x", 0xDC00 + ((c - 0x10000) & 0x3FF));
    } else
      appendCharacter(result, c);
  }
  return result + "\"";
}

namespace {

/// Writes JSON as a style asks.
struct Dumper {
  const JsonStyle &style;
  Budget &budget;
  std::string text;

  void breakLine(int64_t depth) {
    if (!style.indent)
      return;
    int64_t blanks = std::max<int64_t>(*style.indent, 0) * depth;
    if (budget.spend(static_cast<size_t>(blanks)))
      text += '\n' + std::string(static_cast<size_t>(blanks), ' ');
  }

  /// The parts of a list or dict between `open` and `close`.
  template <typename Part>
  void wrap(const char *marks, size_t count, int64_t depth, Part part) {
    text += marks[0];
    for (size_t i = 0; i < count && budget.ok(); ++i) {
      text += i ? style.comma : "";
      breakLine(depth + 1);
      part(i);
    }
    if (count > 0)
      breakLine(depth);
    text += marks[1];
  }

  void dict(const Value::Dict &members, int64_t depth) {
    std::vector<size_t> order(members.size());
    std::iota(order.begin(), order.end(), 0);
    if (style.sorted)
      std::sort(order.begin(), order.end(), [&](size_t a, size_t b) {
        return members[a].first < members[b].first;
      });
    wrap("{}", members.size(), depth, [&](size_t i) {
      budget.spend(members[order[i]].first.size());
      text += dumpText(members[order[i]].first, style.ascii) + style.colon;
      dump(members[order[i]].second, depth + 1);
    });
  }

  void dump(const Value &value, int64_t depth) {
    if (!budget.spend(8 + value.text().size()))
      return;
    if (value.is(Type::None))
      text += "null";
    else if (value.is(Type::Boolean))
      text += value.truth() ? "true" : "false";
    else if (value.is(Type::Integer))
      text += std::to_string(value.asInteger());
    else if (value.is(Type::Float))
      text += printFloat(value.asNumber(), true);
    else if (value.is(Type::String))
      text += dumpText(value.text(), style.ascii);
    else if (value.is(Type::List) && value.shape() != Value::Shape::Generator)
      wrap("[]", value.elements().size(), depth,
           [&](size_t i) { dump(value.elements()[i], depth + 1); });
    else if (value.is(Type::Dict))
      dict(value.members(), depth);
    else
      budget.fail(std::string("tojson: ") + value.typeName() +
                  " is not a value of JSON");
  }
};

} // namespace

std::string dump(const Value &value, const JsonStyle &style, Budget &budget) {
  Dumper dumper{style, budget, ""};
  dumper.dump(value, 0);
  return budget.ok() ? dumper.text : "";
}

} // namespace cria::chat
