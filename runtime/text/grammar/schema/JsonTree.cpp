#include "runtime/text/grammar/schema/JsonTree.h"

#include "runtime/base/Json.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <map>

namespace cria::grammar {

using Type = JsonTree::Type;

namespace {

/// Builds the tree as the parser goes through a document.
class Reader : public JsonSink {
public:
  void scalar(nlohmann::json value, const std::string &spelling) override {
    JsonTree made;
    made.type = value.is_boolean()  ? Type::Boolean
                : value.is_string() ? Type::String
                : value.is_number() ? Type::Number
                                    : Type::Null;
    if (value.is_boolean())
      made.boolean = value.get<bool>();
    if (value.is_string())
      made.text = std::move(value.get_ref<std::string &>());
    if (value.is_number())
      made.text = value.is_number_integer() ? value.dump() : spelling;
    place(std::move(made));
  }
  void open(bool object) override {
    open_.emplace_back();
    open_.back().type = object ? Type::Object : Type::Array;
  }
  void key(std::string name) override {
    open_.back().members.push_back({std::move(name), {}});
  }
  void close() override {
    JsonTree made = std::move(open_.back());
    open_.pop_back();
    std::vector<std::string_view> keys;
    for (const auto &[key, value] : made.members)
      keys.push_back(key);
    std::sort(keys.begin(), keys.end());
    auto twice = std::adjacent_find(keys.begin(), keys.end());
    if (twice != keys.end() && status.ok())
      status = Status(CRIA_INVALID_ARGUMENT, "duplicate key " + quote(*twice));
    place(std::move(made));
  }

  JsonTree root;

private:
  void place(JsonTree value) {
    if (open_.empty())
      root = std::move(value);
    else if (open_.back().type == Type::Object)
      open_.back().members.back().second = std::move(value);
    else
      open_.back().elements.push_back(std::move(value));
  }

  std::vector<JsonTree> open_;
};

} // namespace

static void setParents(JsonTree &tree) {
  for (JsonTree &element : tree.elements) {
    element.parent = &tree;
    setParents(element);
  }
  for (auto &[key, value] : tree.members) {
    value.parent = &tree;
    setParents(value);
  }
}

Status parseJsonTree(std::string_view text, JsonTree &root) {
  JsonLimits limits;
  limits.bytes = 4u << 20;
  limits.values = 200'000;
  Reader reader;
  Status status = parseJson(text, "the schema", limits, reader);
  if (!status.ok())
    return status;
  root = std::move(reader.root);
  setParents(root);
  return status;
}

const JsonTree *JsonTree::find(std::string_view key) const {
  for (const auto &[name, value] : members)
    if (name == key)
      return &value;
  return nullptr;
}

std::string JsonTree::path() const {
  if (!parent)
    return "";
  std::string step;
  for (const auto &[key, value] : parent->members)
    if (&value == this)
      step = (parent->parent ? "." : "") + key;
  if (parent->type == Type::Array)
    step = "[" + std::to_string(this - parent->elements.data()) + "]";
  return parent->path() + step;
}

namespace {
/// A number without zeros at its ends: 1200 has the digits 12 and exponent 2.
struct Significant {
  std::string digits; // with the sign; none of 0
  long exponent = 0;
};
} // namespace

static Significant significant(std::string_view number) {
  Significant made;
  size_t end = std::min(number.find_first_of("eE"), number.size());
  constexpr long most = 1L << 40; // more than a document has digits
  if (end < number.size())
    made.exponent = std::clamp(
        strtol(std::string(number.substr(end + 1)).c_str(), nullptr, 10), -most,
        most);
  bool negative = number[0] == '-';
  made.digits = number.substr(negative, end - negative);
  if (size_t point = made.digits.find('.'); point != std::string::npos) {
    made.exponent -= static_cast<long>(made.digits.size() - point - 1);
    made.digits.erase(point, 1);
  }
  made.digits.erase(0, made.digits.find_first_not_of('0'));
  size_t kept = made.digits.find_last_not_of('0') + 1;
  made.exponent += static_cast<long>(made.digits.size() - kept);
  made.digits.resize(kept);
  if (kept == 0)
    return {};
  made.digits.insert(0, negative, '-');
  return made;
}

bool isWhole(const JsonTree &number) {
  return significant(number.text).exponent >= 0;
}

static void addCanonical(const JsonTree &value, std::string &text) {
  switch (value.type) {
  case Type::Null:
    text += "null";
    break;
  case Type::Boolean:
    text += value.boolean ? "true" : "false";
    break;
  case Type::Number: {
    Significant number = significant(value.text);
    text += number.digits + "e" + std::to_string(number.exponent);
    break;
  }
  case Type::String:
    text += jsonString(value.text);
    break;
  case Type::Array:
    text += '[';
    for (const JsonTree &element : value.elements) {
      addCanonical(element, text);
      text += ',';
    }
    text += ']';
    break;
  case Type::Object: {
    std::map<std::string_view, const JsonTree *> sorted;
    for (const auto &[key, member] : value.members)
      sorted[key] = &member;
    text += '{';
    for (auto [key, member] : sorted) {
      text += jsonString(key) + ":";
      addCanonical(*member, text);
      text += ',';
    }
    text += '}';
    break;
  }
  }
}

std::string canonical(const JsonTree &value) {
  std::string text;
  addCanonical(value, text);
  return text;
}

std::string jsonString(std::string_view text) {
  static constexpr std::string_view plain = "\"\\\b\f\n\r\t",
                                    letters = "\"\\bfnrt";
  std::string result = "\"";
  for (char c : text) {
    if (size_t i = plain.find(c); i != plain.npos) {
      result += {'\\', letters[i]};
    } else if (static_cast<uint8_t>(c) < 0x20) {
      char code[8];
      snprintf(code, sizeof(code), "\\u%04x", c);
      result += code;
    } else {
      result += c;
    }
  }
  return result + "\"";
}

} // namespace cria::grammar
