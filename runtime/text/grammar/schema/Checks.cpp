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
