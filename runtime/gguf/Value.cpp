#include "runtime/gguf/Header.h"

#include "runtime/base/Json.h"

#include <charconv>
#include <cmath>
#include <cstring>

namespace cria::gguf {

template <typename T> static T load(std::string_view payload) {
  T value;
  memcpy(&value, payload.data(), sizeof(value));
  return value;
}

std::optional<int64_t> Value::integer() const {
  switch (type) {
  case ValueType::U8:
    return load<uint8_t>(payload);
  case ValueType::I8:
    return load<int8_t>(payload);
  case ValueType::U16:
    return load<uint16_t>(payload);
  case ValueType::I16:
    return load<int16_t>(payload);
  case ValueType::U32:
    return load<uint32_t>(payload);
  case ValueType::I32:
    return load<int32_t>(payload);
  case ValueType::I64:
    return load<int64_t>(payload);
  case ValueType::U64:
    if (auto value = load<uint64_t>(payload); value <= INT64_MAX)
      return static_cast<int64_t>(value);
    return std::nullopt;
  case ValueType::F32:
  case ValueType::F64:
    return wholeNumber(*number());
  default:
    return std::nullopt;
  }
}

/// The double nearest to the shortest decimal number that rounds to `value`.
static double widened(float value) {
  if (!std::isfinite(value))
    return value;
  char text[64];
  char *end = std::to_chars(text, text + sizeof(text), value).ptr;
  double result = value;
  std::from_chars(text, end, result);
  return result;
}

std::optional<double> Value::number() const {
  if (type == ValueType::F32)
    return widened(load<float>(payload));
  if (type == ValueType::F64)
    return load<double>(payload);
  std::optional<int64_t> whole = integer();
  return whole ? std::optional<double>(static_cast<double>(*whole))
               : std::nullopt;
}

std::optional<bool> Value::boolean() const {
  if (type != ValueType::Bool)
    return std::nullopt;
  return payload[0] != 0;
}

std::optional<std::string_view> Value::text() const {
  if (type != ValueType::String)
    return std::nullopt;
  return payload;
}

/// An element of an array of values of one size, or the value itself.
Value Value::at(uint64_t index) const {
  size_t size = payload.size() / count;
  return Value(element, element, 1, payload.substr(index * size, size));
}

/// The results of `get` for all elements; nothing if one element has none.
template <typename T, typename Get>
static std::optional<std::vector<T>> all(uint64_t count, Get get) {
  std::vector<T> result;
  result.reserve(count);
  for (uint64_t i = 0; i < count; ++i) {
    std::optional<T> one = get(i);
    if (!one)
      return std::nullopt;
    result.push_back(*one);
  }
  return result;
}

std::optional<std::vector<int64_t>> Value::integers() const {
  if (element == ValueType::String)
    return std::nullopt;
  return all<int64_t>(count, [&](uint64_t i) { return at(i).integer(); });
}

std::optional<std::vector<double>> Value::numbers() const {
  if (element == ValueType::String)
    return std::nullopt;
  return all<double>(count, [&](uint64_t i) { return at(i).number(); });
}

std::optional<std::vector<std::string_view>> Value::texts() const {
  if (element != ValueType::String)
    return std::nullopt;
  if (!isArray())
    return std::vector<std::string_view>{payload};
  std::vector<std::string_view> result;
  result.reserve(count);
  for (std::string_view rest = payload; !rest.empty();) {
    auto length = load<uint64_t>(rest);
    result.push_back(rest.substr(sizeof(length), length));
    rest.remove_prefix(sizeof(length) + length);
  }
  return result;
}

std::optional<std::vector<bool>> Value::flags() const {
  if (element != ValueType::Bool)
    return std::nullopt;
  return all<bool>(count, [&](uint64_t i) { return at(i).boolean(); });
}

std::string Value::shown() const {
  static constexpr uint64_t mostShown = 8;
  if (isArray() && element == ValueType::String)
    return concat({"[", count, " strings]"});
  if (isArray() && count > mostShown)
    return concat({"[", count, " values]"});
  if (isArray()) {
    std::string list;
    for (uint64_t i = 0; i < count; ++i)
      list += (i ? ", " : "") + at(i).shown();
    return concat({"[", list, "]"});
  }
  if (auto string = text()) {
    std::string quoted = quote(*string); // printable, and cut
    quoted.front() = quoted.back() = '"';
    return quoted;
  }
  if (auto flag = boolean())
    return *flag ? "true" : "false";
  if (auto whole = integer())
    return std::to_string(*whole);
  if (type == ValueType::U64)
    return std::to_string(load<uint64_t>(payload));
  char buffer[64];
  double value = *number();
  return std::string(buffer,
                     std::to_chars(buffer, buffer + sizeof(buffer), value).ptr);
}

} // namespace cria::gguf
