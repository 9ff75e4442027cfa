/// cria-bench: how fast an artifact runs, compared with the best that the
/// machine can do.
#include "tools/CommandLine.h"
#include "tools/Ranks.h"
#include "tools/bench/Bench.h"

#include "runtime/base/Features.h"

#include <CLI/CLI.hpp>

#include <cstdio>
#include <new>
#include <string>

using namespace cria;
using namespace cria::bench;

/// The ranks that share the model, once they are joined.
static const CriaRanks *ranks = nullptr;

static int fail(const std::string &message) {
  std::string who = ranks ? "rank " + std::to_string(ranks->rank) + ": " : "";
  fprintf(stderr, "cria-bench: %serror: %s\n", who.c_str(), message.c_str());
  return closeRanks(ranks, 1);
}

static void addOptions(CLI::App &app, BenchOptions &options,
                       std::string &device) {
  app.add_option("OUT.cria", options.artifact, "an artifact of cria-compile")
      ->required();
  auto *weights = app.add_option("--weights", options.weights,
                                 "a folder with *.safetensors, or a file.gguf")
                      ->type_name("DIR");
  auto *seed = app.add_option("--random-weights", options.seed,
                              "draw the weights from SEED (default: 1)");
  seed->check(wholeNumber<uint64_t>(0, UINT64_MAX))
      ->type_name("SEED")
      ->excludes(weights);
  addWeightOptions(app, options.binding);
  addCacheOption(app, options.binding);
  app.add_option("--prompt-len", options.promptLengths,
                 "tokens of the prefills (default: 512, or as many as fit)")
      ->type_name("N,...")
      ->delimiter(',')
      ->check(wholeNumber(1, 1 << 24));
  app.add_option("--gen-len", options.genLength,
                 "tokens decoded at each depth (default: 32)")
      ->check(wholeNumber(1, 1 << 24));
  app.add_option("--depth", options.depths,
                 "positions before the decoded tokens (default: 0)")
      ->type_name("N,...")
      ->delimiter(',')
      ->check(wholeNumber(0, 1 << 24));
  app.add_option("--batch", options.batches,
                 "decode so many sequences at once, too")
      ->type_name("N,...")
      ->delimiter(',')
      ->check(wholeNumber(1, 1 << 16));
  app.add_option("--threads", options.threads, "threads (default: one a core)")
      ->check(wholeNumber(1, 1024));
  app.add_option("--device", device,
                 "device to run on; auto: the GPU if possible")
      ->check(anyDevice)
      ->type_name("auto|cpu|cuda|emulated");
  app.add_option("--save-machine", options.saveMachine,
                 "write the measured rates of the CPU, for cria-compile "
                 "--machine")
      ->type_name("FILE");
  app.add_flag("--kernels", options.kernels,
               "time each kernel of these steps, too");
  app.add_flag("--json", options.json, "print JSON, for scripts");
}

static void printRow(const std::string &what, const Measured &row) {
  printf("%-24s %10.1f tok/s %10.3f ms  ", what.c_str(), row.tokensPerSecond,
         row.seconds * 1e3);
  if (row.floorSeconds > 0)
    printf("floor %10.3f ms (%s)  %5.1f %%\n", row.floorSeconds * 1e3,
           row.boundByBytes ? "read" : "compute", row.fraction * 100);
  else
    printf("floor not measured\n");
}

/// Why a rate was not measured.
static void printProblem(const char *what, const Rate &rate) {
  printf("%-10s not measured, %s: %s\n", what, rate.name.c_str(),
         rate.problem.c_str());
}

static void print(const KernelTable &table) {
  printf("\nkernels of %lld tokens at depth %lld: %.1f us\n"
         "%-32s %8s %10s %10s %10s %7s\n",
         static_cast<long long>(table.tokens),
         static_cast<long long>(table.depth), table.seconds() * 1e6, "kernel",
         "launches", "us", "MB read", "floor us", "");
  for (const KernelRow &row : table.rows)
    printf("%-32s %8lld %10.1f %10.3f %10.1f %5.1f %%\n", row.name.c_str(),
           static_cast<long long>(row.launches), row.seconds * 1e6,
           row.bytes / 1e6, row.floorSeconds * 1e6,
           row.seconds > 0 ? row.floorSeconds / row.seconds * 100 : 0);
}

static void print(const Report &report) {
  printf("artifact   %s, %.1f KiB, %s\n", report.artifact.c_str(),
         static_cast<double>(report.artifactBytes) / 1024,
         report.compiler.c_str());
  printf("target     %s; this CPU: %s, %d threads\n", report.target.c_str(),
         cpuName().c_str(), report.threads);
  if (report.ranks > 1)
    printf(
        "ranks      %lld; weights, KV caches and rates of one, the slowest\n",
        static_cast<long long>(report.ranks));
  if (report.device != "cpu")
    printf("device     %s\n", report.device.c_str());
  printf("loaded     artifact in %.3f s, weights in %.3f s\n",
         report.openSeconds, report.bindSeconds);
  printf("weights    %.1f MiB of %s, KV caches %.1f MiB",
         static_cast<double>(report.weightBytes) / (1 << 20),
         report.type.c_str(),
         static_cast<double>(report.cacheBytes) / (1 << 20));
  if (report.device == "cpu")
    printf(", resident %.1f MiB: %.2f of both",
           static_cast<double>(report.residentBytes) / (1 << 20),
           report.residentFraction());
  printf("\n");
  if (report.read.problem.empty())
    printf("read       %.4g GB/s, %s\n", report.read.perSecond / 1e9,
           report.read.name.c_str());
  else
    printProblem("read", report.read);
  for (const Rate &rate : report.compute)
    if (rate.problem.empty())
      printf("compute    %.1f GFLOP/s, %s\n", rate.perSecond / 1e9,
             rate.name.c_str());
    else
      printProblem("compute", rate);
  for (const auto &[depth, row] : report.decode)
    printRow("decode at " + std::to_string(depth), row);
  for (const auto &[tokens, row] : report.prefill)
    printRow("prefill of " + std::to_string(tokens), row);
  printRow("first token, prompt " + std::to_string(report.firstLength),
           report.firstToken);
  for (const BatchRow &row : report.batches) {
    printRow(std::to_string(row.sequences) + " sequences at " +
                 std::to_string(row.depth),
             row.measured);
    if (row.ratio > 0)
      printf("%-24s %10.2f times one sequence\n", "", row.ratio);
  }
  for (const KernelTable &table : report.kernels)
    print(table);
}

int main(int argc, char **argv) try {
  CLI::App app{"Measures prefill and decode beside their floors: the bytes a "
               "step reads over the bandwidth of the fastest of several read "
               "loops, its operations over the multiply-add rate, both "
               "measured between the repetitions. The "
               "fraction is floor over time, the median of all repetitions."};
  BenchOptions options;
  std::string device = "auto";
  addOptions(app, options, device);
  if (auto code = parseCommandLine(app, "cria-bench", argc, argv))
    return *code;
  options.device = *deviceNamed(device);
  Result<Report> report = runBench(options, ranks);
  if (!report.ok())
    return fail(report.status().message());
  if (options.json)
    printf("%s\n", toJson(*report).dump(2).c_str());
  else
    print(*report);
  return closeRanks(ranks, finishOutput("cria-bench"));
} catch (const std::bad_alloc &) {
  return fail("out of memory");
}
