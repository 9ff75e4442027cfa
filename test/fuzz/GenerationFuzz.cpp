/// generation_config.json, or config.json in its place.
#include "runtime/base/Json.h"
#include "runtime/text/Generation.h"
#include "test/fuzz/Fuzz.h"

using namespace cria;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  auto document = parseJson(fuzz::textOf(data, size), "g.json");
  if (!document.ok())
    return 0;
  auto parsed = Generation::parse(document->root(), "g.json");
  if (parsed.ok())
    fuzz::require(parsed->defaults().check().ok(),
                  "options that are taken can be sampled with");
  Generation other;
  Status completed = other.complete(document->root(), "config.json");
  fuzz::require(!completed.ok() || other.fits(INT64_MAX).ok(), "ids are ids");
  return 0;
}
