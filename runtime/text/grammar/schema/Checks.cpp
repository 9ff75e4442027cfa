#include "runtime/text/grammar/schema/Checks.h"

#include "runtime/base/Json.h"

namespace cria::grammar {

void Checks::fail(const JsonTree &place, const std::string &what,
                  cria_status code) {
  if (!ok())
    return;
  std::string path = place.path();
  first =
      Status(code, (path.empty() ? "the schema" : quote(path)) + ": " + what);
}

/// A value for a message: short, on one line.
static std::string described(const JsonTree &value) {
  switch (value.type) {
  case JsonTree::Type::Null:
    return "null";
  case JsonTree::Type::Boolean:
    return value.boolean ? "true" : "false";
  case JsonTree::Type::Number:
    return value.text.substr(0, 100);
  case JsonTree::Type::String:
    return quote(value.text);
  case JsonTree::Type::Array:
    return value.elements.empty() ? "an empty list" : "a list";
  case JsonTree::Type::Object:
    return "an object";
  }
  return "";
}

void Checks::failExpected(const JsonTree &place, const std::string &what,
                          cria_status code) {
  if (ok())
    fail(place, "expected " + what + ", got " + described(place), code);
}

void Checks::fail(const std::string &what, cria_status code) {
  if (ok())
    first = Status(code, "the schema: " + what);
}

bool Checks::spend(size_t units) {
  work += units;
  if (work > mostWork)
    fail("takes too much work", CRIA_RESOURCE_EXHAUSTED);
  return ok();
}

} // namespace cria::grammar
