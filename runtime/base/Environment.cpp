#include "runtime/base/Environment.h"

#include <cstdlib>

namespace cria {

std::string environment(const char *name) {
  const char *value = getenv(name);
  return value ? value : "";
}

double secondsOf(const char *name, double otherwise) {
  std::string text = environment(name);
  char *end = nullptr;
  double seconds = strtod(text.c_str(), &end);
  return !text.empty() && !*end && seconds >= 0 ? seconds : otherwise;
}

} // namespace cria
