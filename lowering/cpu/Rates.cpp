#include "lowering/cpu/Rates.h"

#include "lowering/support/Json.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringExtras.h"
#include <map>

using namespace cria;

namespace {
/// CPUs that share features, and the rates measured on one of them.
struct Family {
  const char *features; // separated by commas
  double dotBf16, tilesBf16;
  int64_t readStreams;
  bool blocksForL2;
};
} // namespace

static constexpr const char *kOperations = "operations_per_second",
                            *kReads = "read_bytes_per_second";

// The first row whose features a CPU has is used.
static constexpr Family kFamilies[] = {
    // Sapphire Rapids, Granite Rapids.
    {"amx-bf16", 0.5, 14.7, 8, true},
    // Zen 5. Its L3 cache is slower than its multiplications.
    {"avx512bf16,avxvnni,sse4a", 2, 0, 1, true},
    // Zen 4. Its L3 cache is as fast as its multiplications.
    {"avx512bf16,sse4a", 2, 0, 1, false},
    // Cooper Lake: the rate of Sapphire Rapids.
    {"avx512bf16", 0.5, 0, 1, true},
    // Arm's CPUs, as far as LLVM's tables have them, start as many bfdot and
    // bfmmla in a cycle as fmla.
    {"bf16", 2, 4, 1, true},
    // Zen 3, whose L3 cache does not hold 512 packed rows of 8192 numbers.
    {"avx2,sse4a", 0, 0, 4, true},
    {"", 0, 0, 1, true},
};

CpuRates cria::knownRates(const std::function<bool(llvm::StringRef)> &has) {
  for (const Family &family : kFamilies) {
    llvm::SmallVector<llvm::StringRef> features;
    llvm::StringRef(family.features)
        .split(features, ',', /*MaxSplit=*/-1, /*KeepEmpty=*/false);
    if (llvm::all_of(features, has))
      return {features.empty() ? "any CPU"
                               : std::string("CPUs with ") + family.features,
              family.dotBf16,
              family.tilesBf16,
              family.readStreams,
              family.blocksForL2,
              0,
              0,
              0};
  }
  llvm_unreachable("the last row fits all");
}

/// The numbers of an object. All must be known and positive.
static llvm::Expected<std::map<std::string, double>>
numbers(llvm::StringRef path, const nlohmann::json &file, const char *key,
        llvm::ArrayRef<const char *> known) {
  std::map<std::string, double> result;
  std::string at = (path + ": " + key).str();
  if (!file.contains(key))
    return result;
  if (!file[key].is_object())
    return textError(at + ": expected an object, got " + shownJson(file[key]));
  for (const auto &[name, value] : file[key].items()) {
    if (!llvm::is_contained(known, name))
      return textError(at + ": unknown key \"" + shownText(name) +
                       "\"; expected \"" + llvm::join(known, "\", \"") + "\"");
    if (!value.is_number() || !(value.get<double>() > 0))
      return textError(at + ": \"" + name + "\": expected a rate, got " +
                       shownJson(value));
    result[name] = value.get<double>();
  }
  return result;
}

llvm::Error cria::readRates(llvm::StringRef path, CpuRates &rates) {
  constexpr uint64_t most = 1 << 20;
  llvm::Expected<std::string> text = readTextFile(path, most);
  if (!text)
    return text.takeError();
  llvm::Expected<nlohmann::json> file = parseJsonObject(*text);
  if (!file)
    return textError(path + ": " + llvm::toString(file.takeError()));
  for (const auto &[key, value] : file->items())
    if (key != "cpu" && key != kOperations && key != kReads)
      return textError(path + ": unknown key \"" + shownText(key) + "\"");
  auto units =
      numbers(path, *file, kOperations,
              {"f32 FMA", "vdpbf16ps", "tdpbf16ps", "bfdot", "bfmmla"});
  if (!units)
    return units.takeError();
  auto reads = numbers(path, *file, kReads, {"1", "4", "8"});
  if (!reads)
    return reads.takeError();
  if (!units->empty() && !units->count("f32 FMA"))
    return textError(
        path + ": " + kOperations +
        ": expected \"f32 FMA\", which the others are measured by");
  auto take = [&](const char *unit, double &rate) {
    if (rate && units->count(unit))
      rate = (*units)[unit] / (*units)["f32 FMA"];
  };
  take("vdpbf16ps", rates.dotBf16);
  take("bfdot", rates.dotBf16);
  take("bfmmla", rates.tilesBf16);
  take("tdpbf16ps", rates.tilesBf16);
  if (!units->empty()) {
    rates.f32Flops = (*units)["f32 FMA"];
    rates.flops =
        rates.f32Flops * std::max({1.0, rates.dotBf16, rates.tilesBf16});
  }
  for (const auto &[streams, rate] : *reads)
    if (rate > rates.bytesPerSecond) {
      rates.bytesPerSecond = rate;
      rates.readStreams = std::stoi(streams);
    }
  rates.origin = path.str();
  return llvm::Error::success();
}
