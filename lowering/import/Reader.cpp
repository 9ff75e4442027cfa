#include "lowering/import/Reader.h"

#include "runtime/base/Json.h"

#include <cfloat>

using namespace cria;
using nlohmann::json;

const json *ObjectReader::find(llvm::StringRef key) const {
  auto found = object.find(key.str());
  return found == object.end() || found->is_null() ? nullptr : &*found;
}

std::string ObjectReader::fullName(llvm::StringRef key) const {
  bool isInner = inner && inner->contains(key.str());
  return name + (isInner ? innerName : "") + key.str();
}

std::string ObjectReader::quoted(llvm::StringRef key) const {
  return "'" + shownText(fullName(key)) + "'";
}

void ObjectReader::fail(const llvm::Twine &text) {
  if (problem.empty())
    problem = text.str();
}

void ObjectReader::failKey(llvm::StringRef key, const llvm::Twine &text) {
  fail(quoted(key) + ": " + text);
}

void ObjectReader::expected(llvm::StringRef key, const llvm::Twine &what,
                            const json &got) {
  failKey(key, "expected " + what + ", got " + shownJson(got));
}

void ObjectReader::missing(llvm::StringRef key) {
  fail(quoted(key) + " is missing");
}

llvm::Error ObjectReader::takeError() const {
  return failed() ? textError(problem) : llvm::Error::success();
}

int64_t ObjectReader::integer(llvm::StringRef key, int64_t low, int64_t high,
                              std::optional<int64_t> fallback) {
  const json *value = find(key);
  if (!value) {
    if (!fallback)
      missing(key);
    return fallback.value_or(low);
  }
  std::optional<int64_t> whole = wholeNumber(*value);
  if (whole && *whole >= low && *whole <= high)
    return *whole;
  if (whole || value->is_number_integer())
    expected(key, llvm::Twine(low) + " to " + llvm::Twine(high), *value);
  else
    expected(key, "an integer", *value);
  return low;
}

double ObjectReader::positive(llvm::StringRef key,
                              std::optional<double> fallback) {
  const json *value = find(key);
  if (!value) {
    if (!fallback)
      missing(key);
    return fallback.value_or(1.0);
  }
  double number = value->is_number() ? value->get<double>() : 0.0;
  if (number >= FLT_MIN && number <= FLT_MAX)
    return number;
  expected(key, "a positive f32", *value);
  return 1.0;
}

bool ObjectReader::flag(llvm::StringRef key, bool fallback) {
  const json *value = find(key);
  if (!value)
    return fallback;
  if (value->is_boolean())
    return value->get<bool>();
  expected(key, "true or false", *value);
  return fallback;
}

std::string ObjectReader::text(llvm::StringRef key,
                               std::optional<std::string> fallback) {
  const json *value = find(key);
  if (value && value->is_string())
    return value->get<std::string>();
  if (value)
    expected(key, "a string", *value);
  else if (!fallback)
    missing(key);
  return fallback.value_or("");
}

std::string
cria::renamed(std::string message,
              llvm::ArrayRef<std::pair<std::string, std::string>> names) {
  for (const auto &[name, other] : names)
    for (const char *end : {"'", "."}) {
      std::string quoted = "'" + name + end;
      for (size_t at; (at = message.find(quoted)) != message.npos;)
        message.replace(at, quoted.size(), "'" + other + end);
    }
  return message;
}
