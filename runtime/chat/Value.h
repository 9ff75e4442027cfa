/// Values of a chat template, with Python's meaning.
#pragma once

#include "runtime/Status.h"

#include <nlohmann/json.hpp>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace cria::chat {

struct Statement; // of a macro

/// What one rendering may take. All that takes time or memory is spent from it,
/// in units of about a byte that is made or read; once it is gone, or another
/// error is noted, everything comes out empty.
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
  enum class Type {
    Undefined,
    None,
    Boolean,
    Integer,
    Float,
    String,
    List,
    Dict,
    Namespace,
    Method, // a method of a value, or a function of the template language
    Macro
  };
  /// A tuple prints as one; a generator, which some filters return, is true,
  /// empty or not, and has no length.
  enum class Shape { List, Tuple, Generator };
  using List = std::vector<Value>;
  using Dict = std::vector<std::pair<std::string, Value>>; // as they came
  struct Method;

  Value() = default; // undefined
  static Value undefined(std::string name);
  static Value none();
  static Value boolean(bool value);
  static Value integer(int64_t value);
  static Value real(double value);
  static Value string(std::string text, Budget &budget);
  static Value list(List elements, Budget &budget, Shape shape = Shape::List);
  static Value dict(Dict members, Budget &budget);
  /// The one thing a template may change.
  static Value newNamespace(Dict members);
  /// The method `name` of `self`; without `self`, a function.
  static Value method(std::string name, Value self);
  static Value macro(const Statement *definition);
  /// A JSON document.
  static Value fromJson(const nlohmann::ordered_json &document, Budget &budget);

  Type type() const { return kind; }
  bool is(Type other) const { return kind == other; }
  bool isNumber() const; // booleans are numbers
  Shape shape() const { return form; }
  /// "a string", for messages.
  const char *typeName() const;

  /// Python's truth.
  bool truth() const;
  int64_t asInteger() const; // of integers and booleans
  double asNumber() const;
  const std::string &text() const; // of a string, or the name of an undefined
  const List &elements() const;    // of a list
  const Dict &members() const;     // of a dict or namespace
  const Method &callable() const;
  const Statement *macroDefinition() const;

  /// The member of a dict or namespace, or nullptr.
  const Value *find(std::string_view key) const;
  /// Sets the member of a namespace; `value` must hold none.
  void set(const std::string &key, Value value);
  /// Whether a namespace is, or is in, the value.
  bool holdsNamespace() const { return mutates; }

private:
  bool adopt(const Value &part, Budget &budget);

  Type kind = Type::Undefined;
  bool mutates = false;
  int depth = 0; // of the values inside
  Shape form = Shape::List;
  std::variant<std::monostate, bool, int64_t, double,
               std::shared_ptr<const std::string>, std::shared_ptr<const List>,
               std::shared_ptr<Dict>, std::shared_ptr<const Method>,
               const Statement *>
      held;
};

struct Value::Method {
  std::string name;
  Value self;
};

/// Python's ==. Spends what it reads.
bool equal(const Value &a, const Value &b, Budget &budget);
/// Python's <; an error where the two do not compare.
bool less(const Value &a, const Value &b, Budget &budget);
/// Whether `value` is in `container`, as Python's `in`.
bool contains(const Value &container, const Value &value, Budget &budget);

/// What "{{ value }}" prints: Python's str().
std::string print(const Value &value, Budget &budget);
/// What a list prints of its element: Python's repr().
std::string represent(const Value &value, Budget &budget);

/// How Python's json.dumps writes.
struct JsonStyle {
  std::optional<int64_t> indent;
  bool ascii = false;
  bool sorted = false;
  std::string comma = ", ", colon = ": ";
};
std::string dump(const Value &value, const JsonStyle &style, Budget &budget);

/// The elements that a loop sees: of a list, the keys of a dict, the characters
/// of a string.
Value::List iterate(const Value &value, Budget &budget);

/// What Python's str.isspace() takes for white space.
bool isPythonSpace(char32_t character);

} // namespace cria::chat
