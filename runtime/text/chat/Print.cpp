/// Values as text: Python's str(), repr() and json.dumps().
#include "runtime/text/chat/Value.h"

#include "runtime/text/tokenizer/Unicode.h"

#include <algorithm>
#include <charconv>
#include <cmath>

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

std::string printInteger(Integer value) {
  char digits[40];
  char *at = std::end(digits);
  bool negative = value < 0;
  do { // the remainder of a negative number is negative
    auto digit = static_cast<int>(value % 10);
    *--at = static_cast<char>('0' + (digit < 0 ? -digit : digit));
    value /= 10;
  } while (value != 0);
  if (negative)
    *--at = '-';
  return std::string(at, std::end(digits));
}

std::optional<Integer> parseInteger(std::string_view text, bool &tooLarge) {
  bool sign = !text.empty() && (text[0] == '-' || text[0] == '+');
  std::string_view digits = text.substr(sign);
  if (digits.empty() || digits.find_first_not_of("0123456789") != text.npos)
    return std::nullopt;
  bool negative = text[0] == '-';
  Integer value = 0;
  for (char c : digits) {
    int digit = c - '0';
    tooLarge |=
        __builtin_mul_overflow(value, 10, &value) ||
        __builtin_add_overflow(value, negative ? -digit : digit, &value);
  }
  return tooLarge ? std::nullopt : std::optional<Integer>(value);
}

void Writer::addCharacter(char32_t character) {
  std::string bytes;
  appendCharacter(bytes, character);
  add(bytes);
}

static void addEscape(Writer &writer, const char *form, char32_t c) {
  char escape[16];
  snprintf(escape, sizeof(escape), form, static_cast<unsigned>(c));
  writer.add(escape);
}

/// Whether repr() writes the character itself.
static bool isPrintable(char32_t c) {
  return c == ' ' || (c > ' ' && c != 0x7F && !isOther(c) && !isWhiteSpace(c));
}

Text escapeMarkup(TextView text, Budget &budget) {
  static constexpr std::pair<char, const char *> entities[] = {{'&', "&amp;"},
                                                               {'<', "&lt;"},
                                                               {'>', "&gt;"},
                                                               {'\'', "&#39;"},
                                                               {'"', "&#34;"}};
  Writer writer(budget);
  for (size_t at = 0; at < text.size() && budget.ok(); ++at) {
    writer.origin = text.origin(at);
    std::string_view written = text.bytes.substr(at, 1);
    for (const auto &[mark, entity] : entities)
      if (text.bytes[at] == mark)
        written = entity;
    writer.add(written);
  }
  return writer.take();
}

static void representText(TextView view, Writer &writer) {
  std::string_view text = view;
  bool doubled = text.find('\'') != text.npos && text.find('"') == text.npos;
  char mark = doubled ? '"' : '\'';
  writer.add(mark);
  for (size_t at = 0; at < text.size() && writer.budget.ok();) {
    writer.origin = view.origin(at);
    char32_t c = takeCharacter(text, at);
    if (c == static_cast<char32_t>(mark) || c == '\\') {
      writer.add('\\');
      writer.addCharacter(c);
    } else if (c == '\n' || c == '\r' || c == '\t') {
      writer.add(c == '\n' ? "\\n" : c == '\r' ? "\\r" : "\\t");
    } else if (isPrintable(c)) {
      writer.addCharacter(c);
    } else {
      const char *form = c < 0x100     ? "\\x%02x"
                         : c < 0x10000 ? "\\u%04x"
                                       : "\\U%08x";
      addEscape(writer, form, c);
    }
  }
  writer.origin = Origin::Template;
  writer.add(mark);
}

static void representList(const Value &value, Writer &writer) {
  if (!value.isListOrTuple())
    writer.budget.fail("printing a filter's generator, a range or a dict's "
                       "view is not supported: expected a list",
                       CRIA_UNIMPLEMENTED);
  bool tuple = value.shape() == Value::Shape::Tuple;
  writer.add(tuple ? "(" : "[");
  for (size_t i = 0; i < value.elements().size() && writer.budget.ok(); ++i) {
    writer.add(i ? ", " : "");
    represent(value.elements()[i], writer);
  }
  writer.add(!tuple ? "]" : value.elements().size() == 1 ? ",)" : ")");
}

static void representDict(const Value &value, Writer &writer) {
  writer.add("{");
  for (size_t i = 0; i < value.members().size() && writer.budget.ok(); ++i) {
    const auto &[key, member] = value.members()[i];
    writer.add(i ? ", " : "");
    represent(key, writer);
    writer.add(": ");
    represent(member, writer);
  }
  writer.add("}");
}

/// A function of its own, to keep the stack frame of represent() small: it
/// recurses.
static void representSimple(const Value &value, Writer &writer) {
  switch (value.type()) {
  case Type::Undefined:
    return writer.add("Undefined");
  case Type::None:
    return writer.add("None");
  case Type::Boolean:
    return writer.add(value.truth() ? "True" : "False");
  case Type::Integer:
    return writer.add(printInteger(value.asInteger()));
  case Type::Float:
    return writer.add(printFloat(value.asNumber(), false));
  case Type::String:
    if (value.shape() != Value::Shape::Markup)
      return representText(value.view(), writer);
    writer.add("Markup(");
    representText(value.view(), writer);
    return writer.add(")");
  default:
    writer.budget.fail(std::string("cannot print ") + value.typeName());
  }
}

/// The cost of printing a value, besides its text.
static constexpr size_t printCost = 16;

void represent(const Value &value, Writer &writer) {
  if (!writer.budget.spend(printCost))
    return;
  if (value.is(Type::List))
    representList(value, writer);
  else if (value.is(Type::Dict))
    representDict(value, writer);
  else
    representSimple(value, writer);
}

Text print(const Value &value, Budget &budget) {
  if (value.is(Type::Undefined))
    return "";
  Writer writer(budget);
  if (value.is(Type::String))
    writer.add(value.view());
  else
    represent(value, writer);
  return budget.ok() ? writer.take() : Text();
}

static void dumpText(TextView view, bool ascii, Writer &writer) {
  std::string_view text = view;
  static constexpr std::string_view named = "\"\\\n\r\t\b\f";
  writer.add("\"");
  for (size_t at = 0; at < text.size() && writer.budget.ok();) {
    writer.origin = view.origin(at);
    char32_t c = takeCharacter(text, at);
    size_t name = c < 0x80 ? named.find(static_cast<char>(c)) : named.npos;
    if (name != named.npos) {
      writer.add('\\');
      writer.add("\"\\nrtbf"[name]);
    } else if (c < 0x20 || (ascii && c > 0x7F && c < 0x10000)) {
      addEscape(writer, "\\u%04x", c);
    } else if (ascii && c >= 0x10000) {
      addEscape(writer, "\\u%04x", 0xD800 + ((c - 0x10000) >> 10));
      addEscape(writer, "\\u%04x", 0xDC00 + ((c - 0x10000) & 0x3FF));
    } else {
      writer.addCharacter(c);
    }
  }
  writer.origin = Origin::Template;
  writer.add("\"");
}

namespace {

/// Writes JSON in a given style.
struct Dumper {
  const JsonStyle &style;
  Writer writer;

  void breakLine(int64_t depth) {
    if (!style.indent)
      return;
    writer.add("\n");
    for (int64_t i = 0; i < *style.indent * depth && writer.budget.ok(); ++i)
      writer.add(" ");
  }

  /// Writes what separates part `index` of a list or dict from the part before
  /// it.
  void separate(size_t index, int64_t depth) {
    writer.add(index ? TextView(style.comma) : TextView());
    breakLine(depth + 1);
  }

  void dumpList(const Value::List &elements, int64_t depth) {
    writer.add("[");
    for (size_t i = 0; i < elements.size() && writer.budget.ok(); ++i) {
      separate(i, depth);
      dump(elements[i], depth + 1);
    }
    if (!elements.empty())
      breakLine(depth);
    writer.add("]");
  }

  void dumpDict(const Value::Dict &members, int64_t depth) {
    writer.add("{");
    if (style.sorted && members.size() > 1) // an error if they do not compare
      less(members[members.sorted().front()].key,
           members[members.sorted().back()].key, writer.budget);
    for (size_t i = 0; i < members.size() && writer.budget.ok(); ++i) {
      const auto &[key, value] =
          members[style.sorted ? members.sorted()[i] : i];
      separate(i, depth);
      writer.add(key.is(Type::String) ? "" : "\"");
      dumpSimple(key);
      writer.add(key.is(Type::String) ? "" : "\"");
      writer.add(style.colon);
      dump(value, depth + 1);
    }
    if (!members.empty())
      breakLine(depth);
    writer.add("}");
  }

  /// A function of its own, to keep the stack frame of dump() small: it
  /// recurses.
  void dumpSimple(const Value &value) {
    if (value.is(Type::None))
      writer.add("null");
    else if (value.is(Type::Boolean))
      writer.add(value.truth() ? "true" : "false");
    else if (value.is(Type::Integer))
      writer.add(printInteger(value.asInteger()));
    else if (value.is(Type::Float))
      writer.add(printFloat(value.asNumber(), true));
    else if (value.is(Type::String))
      dumpText(value.view(), style.ascii, writer);
    else
      writer.budget.fail(std::string("tojson: ") + value.typeName() +
                         " is not a value of JSON");
  }

  void dump(const Value &value, int64_t depth) {
    if (!writer.budget.spend(printCost))
      return;
    if (value.isListOrTuple())
      dumpList(value.elements(), depth);
    else if (value.is(Type::Dict))
      dumpDict(value.members(), depth);
    else
      dumpSimple(value);
  }
};

} // namespace

Text dump(const Value &value, const JsonStyle &style, Budget &budget) {
  Dumper dumper{style, Writer(budget)};
  dumper.dump(value, 0);
  return budget.ok() ? dumper.writer.take() : Text();
}

} // namespace cria::chat
