/// Values of a chat template, with Python's meaning.
#pragma once

#include "runtime/base/Status.h"
#include "runtime/text/chat/Text.h"

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace cria::chat {

struct Statement; // of a macro
class Evaluator;
struct Arguments;

class Value;

/// What a template calls: a filter, a test, a method or a function.
struct Builtin {
  const char *name;
  Value (*compute)(Evaluator &, const Arguments &);
  /// The arguments after the value, by their names: "old new count?". "?"
  /// marks an argument that may be left out. After "/", arguments are given by
  /// their places alone; "*" is any number more, and "**" any more by name.
  const char *parameters = "";
};

/// Integers are exact up to 127 bits. A larger integer is an error.
__extension__ typedef __int128 Integer;

/// The budget of one rendering. A unit is about a byte that is allocated or
/// read, or a nanosecond. Operations that allocate or take time spend first.
/// When nothing is left, or another error is noted, all results are empty.
class Budget {
public:
  /// Spends; false once nothing is left or something failed.
  bool spend(size_t units);
  /// Notes an error, unless there is one. Returns false.
  bool fail(const std::string &message,
            cria_status code = CRIA_INVALID_ARGUMENT);
  bool ok() const { return status.ok(); }
  const Status &error() const { return status; }
  /// The line of the template that is rendered, for errors.
  void at(int number) { line = number; }

private:
  int line = 0;
  size_t left = size_t{128} << 20;
  Status status;
};

/// Immutable, but for namespaces; copies share what they hold.
class Value {
public:
  enum class Type : uint8_t {
    Undefined,
    None,
    Boolean,
    Integer,
    Float,
    String,
    List,
    Dict,
    Namespace,
    Loop,   // the variable "loop"
    Method, // a method of a value, or a function of the template language
    Macro
  };
  /// A tuple prints as one; a generator, which some filters return, is true,
  /// empty or not, and has no length. A view, of a dict's members, has no
  /// places. A string that is Markup, of the filter safe, escapes what is added
  /// to it.
  enum class Shape : uint8_t { List, Tuple, Range, View, Generator, Markup };
  using List = std::vector<Value>;
  class Dict;
  struct Method;
  struct Loop;
  struct Macro;

  Value() = default; // undefined
  static Value undefined(std::string_view name, Budget &budget);
  static Value none();
  static Value boolean(bool value);
  static Value integer(Integer value);
  static Value real(double value);
  static Value string(Text text, Budget &budget, Shape shape = Shape::List);
  static Value list(List elements, Budget &budget, Shape shape = Shape::List);
  static Value dict(Dict members, Budget &budget);
  /// The one thing a template may change.
  static Value newNamespace(Dict members, Budget &budget);
  static Value loop(Loop turn, Budget &budget);
  /// `function` as a method of `self`; as a function if `self` is undefined.
  static Value method(const Builtin *function, Value self, Budget &budget);
  static Value macro(Macro macro);

  Type type() const { return kind; }
  bool is(Type other) const { return kind == other; }
  bool isNumber() const; // booleans are numbers
  bool isWhole() const { return is(Type::Integer) || is(Type::Boolean); }
  Shape shape() const { return form; }
  bool isListOrTuple() const {
    return is(Type::List) && (form == Shape::List || form == Shape::Tuple);
  }
  /// Whether it is a list whose elements have places: "value[0]".
  bool hasPlaces() const {
    return isListOrTuple() || (is(Type::List) && form == Shape::Range);
  }
  /// "a string", for messages.
  const char *typeName() const;

  /// Python's truth.
  bool truth() const;
  Integer asInteger() const; // of integers and booleans
  double asNumber() const;
  const std::string &text() const; // of a string, or the name of an undefined
  TextView view() const;           // of a string: its text
  const List &elements() const;    // of a list
  const Dict &members() const;     // of a dict or namespace
  const Loop &turn() const;
  const Method &callable() const;
  const Macro &macro() const;

  /// Sets the member `key` of a namespace; `value` must hold no namespace.
  void set(std::string_view key, Value value, Budget &budget);
  /// Whether a namespace is, or is in, the value.
  bool holdsNamespace() const { return mutates; }

private:
  bool adopt(const Value &part, Budget &budget);
  static Value holding(Type type, Dict members, Budget &budget);

  Type kind = Type::Undefined;
  Shape form = Shape::List;
  bool mutates = false;
  int depth = 0; // of the values inside
  std::variant<std::monostate, bool, Integer, double,
               std::shared_ptr<const std::string>, std::shared_ptr<const Text>,
               std::shared_ptr<const List>, std::shared_ptr<Dict>,
               std::shared_ptr<const Method>, std::shared_ptr<const Loop>,
               std::shared_ptr<const Macro>>
      held;
};

/// Keys and their values, in the order in which the keys came. A key is a
/// string, a number or none; in JSON documents all are strings. Keys are found
/// by a binary search in their sorted order: the author of a template could
/// choose keys that collide in a hash table.
class Value::Dict {
public:
  struct Member {
    Value key, value;
  };

  Dict() = default;
  /// A key that comes twice keeps its first place and has its last value;
  /// `twice`, if it is not null, receives that key.
  Dict(std::vector<Member> given, Budget &budget, Value *twice = nullptr);

  /// Whether `value` may be a key.
  static bool isKey(const Value &value);
  /// Less than 0, 0 or more than 0 as the key `a` is before, the same as or
  /// after the key `b`: strings come first, then numbers, then none.
  static int compareKeys(const Value &a, const Value &b);
  /// The value of `key`, or nullptr.
  const Value *find(std::string_view key, Budget &budget) const;
  const Value *find(const Value &key, Budget &budget) const;
  void set(std::string_view key, Value value, Budget &budget);

  size_t size() const { return members.size(); }
  bool empty() const { return members.empty(); }
  const Member &operator[](size_t index) const { return members[index]; }
  std::vector<Member>::const_iterator begin() const { return members.begin(); }
  std::vector<Member>::const_iterator end() const { return members.end(); }
  /// The places of the members, ordered by their keys.
  const std::vector<uint32_t> &sorted() const { return order; }

private:
  size_t lowerBound(std::string_view key) const;
  bool isAt(size_t place, std::string_view key) const;

  std::vector<Member> members;
  std::vector<uint32_t> order;
};

/// The variables of a block, by names of the template, which outlives them.
using Scope = std::map<std::string_view, Value>;

struct Value::Macro {
  const Statement *definition;
  /// What is visible where it is defined, besides the template's own variables.
  std::vector<Scope> around;
};

struct Value::Method {
  const Builtin *function;
  Value self;
};

/// One turn of a loop: the element `index` of `count`, and those beside it.
struct Value::Loop {
  size_t index, count;
  Value before, after; // undefined at the ends
};

/// Python's ==. Spends as much as it reads.
bool equal(const Value &a, const Value &b, Budget &budget);
/// Python's <; an error if the two do not compare.
bool less(const Value &a, const Value &b, Budget &budget);
/// Whether `value` is in `container`, as Python's `in`.
bool contains(const Value &container, const Value &value, Budget &budget);

/// A text that grows. It pays for each byte before it adds the byte.
class Writer {
public:
  explicit Writer(Budget &budget) : budget(budget) {}

  /// The bytes of `part` that the template wrote become `origin`'s.
  void add(TextView part) {
    bool isTemplates = part.isTemplates() && origin == Origin::Template;
    if (budget.spend(part.size() * (isTemplates ? 1 : 2)))
      text.add(part, origin);
  }
  void add(char part) { add(std::string_view(&part, 1)); }
  void addCharacter(char32_t character);
  Text take() { return std::move(text); }

  Budget &budget;
  Origin origin = Origin::Template;

private:
  Text text;
};

/// What "{{ value }}" prints: Python's str().
Text print(const Value &value, Budget &budget);
/// What a list prints of its element: Python's repr().
void represent(const Value &value, Writer &writer);
/// `text` with &, <, >, ' and " as entities of HTML.
Text escapeMarkup(TextView text, Budget &budget);
std::string printInteger(Integer value);

/// The integer that `text` spells, a sign and digits; nothing if it spells
/// none. A number with too many digits sets `tooLarge`.
std::optional<Integer> parseInteger(std::string_view text, bool &tooLarge);

/// How Python's json.dumps writes.
struct JsonStyle {
  std::optional<int64_t> indent;
  bool ascii = false;
  bool sorted = false;
  Text comma = ", ", colon = ": ";
};
Text dump(const Value &value, const JsonStyle &style, Budget &budget);

/// The value of an untrusted JSON document; errors begin with `name`.
Result<Value> readValue(std::string_view json, const std::string &name,
                        Budget &budget);

/// The elements that a loop sees: of a list, the keys of a dict, the characters
/// of a string.
Value::List iterate(const Value &value, Budget &budget);

/// Where the characters of `text` begin, and where the last one ends.
std::vector<uint32_t> characterBounds(std::string_view text, Budget &budget);

/// The characters that Python's str.isspace() counts as white space.
bool isPythonSpace(char32_t character);

} // namespace cria::chat
