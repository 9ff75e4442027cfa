/// cria-inspect: shows an artifact, and checks whether a checkpoint fits it.
#include "runtime/artifact/Artifact.h"
#include "runtime/base/Features.h"
#include "runtime/base/Limits.h"
#include "runtime/base/Printable.h"
#include "runtime/session/Preflight.h"
#include "tools/CommandLine.h"
#include "tools/WeightOptions.h"

#include <CLI/CLI.hpp>

#include <cinttypes>
#include <cstdio>
#include <new>
#include <optional>
#include <string>

using namespace cria;

static int fail(const std::string &message) {
  fprintf(stderr, "cria-inspect: error: %s\n", message.c_str());
  return 1;
}

// Text of a manifest is printed through printable(), because the artifact may
// be untrusted.
static void print(const char *key, const std::string &value) {
  printf("%-10s %s\n", key, printable(value).c_str());
}

/// The strings with spaces between them.
static std::string join(const std::vector<std::string> &strings) {
  std::string text;
  for (const std::string &string : strings)
    text += (text.empty() ? "" : " ") + string;
  return text;
}

static void printTarget(const Manifest &manifest) {
  print("target", manifest.kind + " " + manifest.arch + " " + manifest.os);
  for (const CpuCode &code : manifest.cpus) {
    print("cpu", code.cpu);
    print("features", join(code.features));
    std::vector<std::string> missing = missingCpuFeatures(code.features);
    if (!missing.empty())
      print("", "this CPU lacks: " + join(missing));
    if (manifest.encoder)
      print("encode", code.encode);
    print("prefill", code.prefill);
    print(manifest.batch ? "batch" : "decode",
          manifest.batch ? code.batch : code.decode);
  }
}

/// "12 launches of kernels" of one step, all layers counted; and sums over
/// ranks, where there are some.
static std::string launchesOf(const cuda::Entry &entry) {
  uint64_t launches = 0, sums = 0;
  for (const cuda::EntryStep &step : entry)
    for (const cuda::LaunchStep &launch : step.launches)
      (launch.isSum() ? sums : launches) += step.layers;
  std::string text = std::to_string(launches) + " launches of kernels";
  return sums ? text + " and " + std::to_string(sums) + " sums over ranks"
              : text;
}

static void printCuda(const cuda::Plan &plan) {
  std::string images;
  for (const cuda::Image &image : plan.images)
    images += (images.empty() ? "" : ", ") + image.chip +
              (image.isPtx ? " PTX" : " cubin");
  print("cuda", images);
  if (!plan.encode.empty())
    print("encode", launchesOf(plan.encode));
  print("prefill", launchesOf(plan.prefill));
  if (!plan.batch.empty()) {
    print("batch", launchesOf(plan.batch));
    print("sample", launchesOf(plan.sample));
    return;
  }
  print("decode", launchesOf(plan.decode) + ", replayed as a graph");
  print("sample", launchesOf(plan.sample) + ", in that graph");
}

static void printWeights(const Manifest &manifest) {
  printf("\n%-16s %-6s %-16s %6s %12s  %s\n", "weights", "type", "shape",
         "layers", "bytes", "checkpoint");
  for (const WeightSpec &weight : manifest.weights) {
    std::string from = weight.pattern;
    if (weight.split != Split::None)
      from += weight.split == Split::Rows ? ", a rank's rows"
                                          : ", a rank's columns";
    if (weight.tied)
      from += ", else " + manifest.origin(weight).pattern;
    printf("%-16s %-6s %-16s %6" PRIu64 " %12" PRIu64 "  %s\n",
           printable(weight.symbol).c_str(), dtypeName(weight.type),
           shapeText(weight.shape).c_str(), weight.count,
           manifest.isShared(weight) ? 0 : weight.bytes() * weight.tensors(),
           printable(from).c_str());
  }
  for (const RopeSpec &rope : manifest.ropes)
    printf("%-16s %-6s %-16s %6s %12" PRIu64 "  computed when loaded\n",
           printable(rope.symbol).c_str(), "f32",
           shapeText({2, rope.rows, rope.inverseFrequencies.size()}).c_str(),
           "-", 2 * rope.bytes());
  printf("%-16s %-6s %-16s %6s %12" PRIu64 "\n", "total", "", "", "",
         manifest.weightBytes());
}

static void printSession(const Manifest &manifest) {
  printf("\n%-16s %-6s %-30s %12s\n", "session", "type", "shape", "bytes");
  for (size_t i = 0; i < manifest.caches.size(); ++i) {
    const CacheSpec &cache = manifest.caches[i];
    int64_t count = manifest.sessionPages().of(cache.kind());
    std::string pages = manifest.batch ? std::to_string(count) + " of " : "";
    std::string kind =
        cache.isState ? "  state"
        : cache.window
            ? (manifest.batch ? "  pages" : "  ring") +
                  (" for a window of " + std::to_string(cache.window))
            : "";
    printf("%-16s %-6s %-30s %12" PRIu64 "%s\n",
           printable(cache.symbol).c_str(), cache.type.c_str(),
           (pages + shapeText(cache.shape)).c_str(), manifest.cacheBytes(i),
           kind.c_str());
  }
  printf("%-16s %-6s %-30s %12" PRIu64 "\n", "arena", "", "",
         manifest.scratchBytes());
}

/// One line for each key: its value, what became of it, and why.
static void printLedger(const std::vector<LedgerRow> &ledger) {
  printf("\nledger\n");
  for (const LedgerRow &row : ledger)
    printf("  %-32s %-28s %-10s %s\n", printable(row.key).c_str(),
           printable(row.value).c_str(), printable(row.fate).c_str(),
           printable(row.note).c_str());
}

static void printArtifact(const Artifact &artifact) {
  const Manifest &manifest = artifact.manifest();
  print("artifact", artifact.path());
  print("bytes", std::to_string(artifact.fileBytes()));
  print("compiler", manifest.compiler);
  if (!manifest.flags.root().is_null())
    print("flags", manifest.flags.root().dump());
  printTarget(manifest);
  if (manifest.shards > 1)
    print("ranks", std::to_string(manifest.shards) +
                       ", each with its share: sizes below are a rank's");
  print("vocabulary", std::to_string(manifest.vocabSize));
  print("context", std::to_string(manifest.maxSeq));
  print("chunk", std::to_string(manifest.chunk) + " tokens a call of prefill");
  if (manifest.bidirectional)
    print("attention", "both ways: a text is one call");
  if (manifest.batch) {
    uint64_t window = manifest.pageBytes(PageKind::Window);
    print("batch",
          std::to_string(manifest.batch->rows) +
              " sequences at once, pages of " +
              std::to_string(manifest.batch->page) + " positions, " +
              std::to_string(manifest.pageBytes(PageKind::Whole)) + " bytes" +
              (window ? ", and of windows " + std::to_string(window) : ""));
  }
  if (manifest.cuda)
    printCuda(*manifest.cuda);
  printWeights(manifest);
  printSession(manifest);
  printf("\nkernels\n");
  for (const std::string &kernel : manifest.kernels)
    printf("  %s\n", printable(kernel).c_str());
  if (!manifest.ledger.empty())
    printLedger(manifest.ledger);
  if (!manifest.config.root().is_null())
    printf("\nconfig\n%s\n",
           printableLines(manifest.config.root().dump(2)).c_str());
}

/// The pre-flight check; reads only headers.
static Status checkWeights(const Artifact &artifact, const WeightSource &source,
                           std::optional<int64_t> context, uint64_t memory) {
  Manifest manifest = artifact.manifest().ofRank(0); // as large as any other
                                                     // rank's
  int64_t positions = context.value_or(manifest.maxSeq);
  const std::string &weights = *source.checkpoint;
  Result<Checkpoint> checkpoint = Checkpoint::open(weights);
  if (!checkpoint.ok())
    return checkpoint.status();
  Result<Loras> loras = Loras::open(source, manifest);
  if (!loras.ok())
    return loras.status();
  if (Status status = loras->replaceIn(*checkpoint); !status.ok())
    return status;
  Binding binding =
      matchWeights(manifest, *checkpoint, *loras, source.allowUnused);
  printf(
      "\n%s",
      preflightReport(artifact, binding, weights, positions, memory).c_str());
  return binding.status(weights);
}

int main(int argc, char **argv) try {
  CLI::App app{"Prints an artifact's manifest; checks whether weights fit."};
  std::string path, weights;
  app.add_option("OUT.cria", path, "an artifact of cria-compile")->required();
  app.add_option("--weights", weights,
                 "a folder with *.safetensors, or a file.gguf, to check; only "
                 "headers are read")
      ->type_name("DIR");
  WeightOptions binding;
  addWeightOptions(app, binding);
  std::optional<int64_t> context;
  app.add_option("--context", context,
                 "positions to count memory for (default: the artifact's "
                 "max_seq)")
      ->check(wholeNumber(1, 1 << 24));
  std::optional<int64_t> mebibytes;
  app.add_option("--memory", mebibytes,
                 "MiB of memory to count with, of each machine or rank "
                 "(default: what this machine has available)")
      ->check(wholeNumber<int64_t>(1, int64_t(1) << 32));
  bool raw = false;
  app.add_flag("--json", raw,
               "print the manifest's JSON, with control characters escaped");
  if (auto code = parseCommandLine(app, "cria-inspect", argc, argv))
    return *code;
  // Not Artifact::open: artifacts of other machines can be looked at.
  auto artifact = Artifact::inspect(path);
  if (!artifact.ok())
    return fail(artifact.status().message());
  if (raw)
    printf("%s\n", printableLines((*artifact)->manifestText()).c_str());
  else
    printArtifact(**artifact);
  Status status;
  if (!weights.empty())
    status =
        checkWeights(**artifact, weightSource(weights, 0, binding), context,
                     mebibytes ? static_cast<uint64_t>(*mebibytes) << 20
                               : availableMemory());
  int code = finishOutput("cria-inspect");
  return status.ok() || code ? code : fail(status.message());
} catch (const std::bad_alloc &) {
  return fail("out of memory");
}
