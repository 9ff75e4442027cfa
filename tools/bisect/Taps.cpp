#include "tools/bisect/Taps.h"

#include "runtime/base/Json.h"

#include <algorithm>

namespace cria {

std::string TapName::at(int64_t turn) const {
  std::string text = path;
  if (size_t place = text.find("{}"); place != text.npos)
    text.replace(place, 2, std::to_string(layer(turn)));
  return side.empty() ? text : text + ":" + side;
}

std::string TapKernel::key(size_t result, int64_t turn) const {
  std::string base = name;
  size_t tail = base.size() - std::min(base.size(), entry.size() + 1);
  // An encoder runs a source text, with kernels of its own.
  if (entry != "encode" && base.compare(tail, base.npos, "_" + entry) == 0)
    base.resize(tail);
  return base + "." + std::to_string(result) + "@" + std::to_string(turn);
}

std::string Taps::textOf(const std::string &kernel) const {
  size_t begin = linalg.find("  func.func private @" + kernel + "(");
  if (begin == linalg.npos)
    return "";
  size_t end = linalg.find("\n  }\n", begin);
  std::string text =
      linalg.substr(begin, end == linalg.npos ? linalg.npos : end + 5 - begin);
  for (size_t at = 0; at < text.size(); ++at) {
    if (text.compare(at, 2, "  ") == 0)
      text.erase(at, 2);
    at = std::min(text.find('\n', at), text.size());
  }
  return text;
}

bool Taps::isPart() const {
  return std::any_of(kernels.begin(), kernels.end(),
                     [](const TapKernel &kernel) { return kernel.leftOut; });
}

static int64_t number(const JsonCursor &at, const char *key) {
  auto found = at.find(key);
  return found ? found->integer(0, 1 << 24) : 0;
}

static std::vector<TapName> readNames(const JsonCursor &array) {
  std::vector<TapName> names;
  for (const JsonCursor &at : array.elements()) {
    auto side = at.find("side");
    names.push_back({at["path"].string(), side ? side->string() : "",
                     number(at, "first"), number(at, "step")});
  }
  return names;
}

static TapResult readResult(const JsonCursor &at, const Manifest &manifest) {
  TapResult result;
  auto last = static_cast<int64_t>(manifest.caches.size()) - 1;
  for (auto [key, to] : {std::pair("made", &result.made),
                         {"given", &result.given},
                         {"cache", &result.cache}})
    if (auto found = at.find(key))
      *to = static_cast<size_t>(found->integer(0, last));
  result.first = number(at, "first");
  result.step = number(at, "step");
  if (result.made)
    result.force = static_cast<size_t>(number(at, "force"));
  if (auto row = at.find("row")) {
    result.width = 1;
    for (const JsonCursor &size : row->elements(3))
      result.width *= static_cast<uint64_t>(size.integer(1, 1 << 20));
  }
  result.logits = at.find("logits").has_value();
  result.integers = at.find("integers").has_value();
  if (auto names = at.find("names"))
    result.names = readNames(*names);
  return result;
}

/// Whether the memory of a result has room for the rows of all turns.
static bool fits(const TapResult &result, const TapKernel &kernel,
                 const Manifest &manifest) {
  if (result.cache && manifest.caches[*result.cache].shape.size() != 4)
    return false;
  if (!result.made || !result.given)
    return !result.made && !result.given;
  const CacheSpec &made = manifest.caches[*result.made],
                  &given = manifest.caches[*result.given];
  auto turns = static_cast<uint64_t>(kernel.turns);
  auto rows =
      static_cast<uint64_t>(kernel.entry == "decode" ? 1 : manifest.chunk);
  std::optional<DType> type = dtypeNamed(made.type);
  return made.shape == given.shape && made.type == given.type && type &&
         !made.shape.empty() && made.shape[0] == turns && turns > 0 &&
         result.width > 0 &&
         made.bytes / turns / bytesOf(*type, 1) >= rows * result.width;
}

static TapKernel readKernel(const JsonCursor &at, const Manifest &manifest) {
  TapKernel kernel;
  kernel.name = at["kernel"].string();
  kernel.entry = at["entry"].string();
  kernel.block = number(at, "block");
  kernel.turns = at["turns"].integer(0, 1 << 20);
  kernel.modules = readNames(at["modules"]);
  for (const JsonCursor &result : at["results"].elements())
    kernel.results.push_back(readResult(result, manifest));
  kernel.leftOut = at.find("left_out").has_value();
  for (const TapResult &result : kernel.results)
    if (!fits(result, kernel, manifest))
      at.fail("has results in memory that does not fit");
  return kernel;
}

Result<Taps> readTaps(const Artifact &artifact) {
  auto document = parseJson(artifact.manifestText(), artifact.path());
  if (!document.ok())
    return document.status();
  Status status;
  JsonCursor root(document->root(), artifact.path(), status);
  auto at = root.find("taps");
  if (!at)
    return Status(CRIA_FAILED_PRECONDITION,
                  artifact.path() +
                      ": has no taps: compile it with cria-compile --taps");
  const Manifest &manifest = artifact.manifest();
  Taps taps;
  taps.force = static_cast<size_t>((*at)["force"].integer(
      0, static_cast<int64_t>(manifest.caches.size()) - 1));
  for (const JsonCursor &kernel : (*at)["kernels"].elements())
    taps.kernels.push_back(readKernel(kernel, manifest));
  taps.linalg = (*at)["linalg"].string();
  uint64_t count = manifest.caches[taps.force].bytes / sizeof(float);
  for (const TapKernel &kernel : taps.kernels)
    for (const TapResult &result : kernel.results)
      if (result.force >= count && result.made)
        (*at)["force"].fail("has no number for each tap");
  if (!status.ok())
    return status;
  return taps;
}

} // namespace cria
