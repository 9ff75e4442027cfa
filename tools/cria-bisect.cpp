/// cria-bisect: names the first kernel whose result is wrong.
///
/// Exit code 0: no kernel leaves its tolerance; 1: a kernel does; 2: an error.
#include "runtime/base/Printable.h"
#include "tools/CommandLine.h"
#include "tools/Ids.h"
#include "tools/WeightOptions.h"
#include "tools/bisect/Difference.h"
#include "tools/bisect/Runner.h"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <new>
#include <optional>
#include <sstream>
#include <string>

using namespace cria;

namespace {
/// The command line.
struct Options {
  std::string artifact, weights, ids, sourceIds, device = "auto";
  std::string against, againstDevice = "auto", reference, dump, save;
  std::optional<uint64_t> randomWeights;
  std::optional<double> tolerance;
  WeightOptions binding;
  int threads = 0;

  WeightSource source() const {
    return weightSource(weights, randomWeights.value_or(0), binding);
  }
};

/// A result that is wrong.
struct Finding {
  Made made;
  Rows want; // for the same positions
  Difference difference;
  Tolerance tolerance;
};
} // namespace

static void addOptions(CLI::App &app, Options &options) {
  app.add_option("OUT.cria", options.artifact,
                 "the artifact, compiled with --taps")
      ->required();
  app.add_option("--weights", options.weights, "folder or file of weights")
      ->type_name("DIR");
  app.add_option("--random-weights", options.randomWeights,
                 "seed of weights to draw instead")
      ->check(wholeNumber<uint64_t>(0, UINT64_MAX))
      ->type_name("SEED");
  app.add_option("--ids", options.ids,
                 "token ids of the prompt (default: the reference's)")
      ->type_name("1,2,3");
  app.add_option("--source-ids", options.sourceIds,
                 "token ids for the model's encoder")
      ->type_name("1,2,3");
  app.add_option("--device", options.device,
                 "device to run on; auto: the GPU if possible")
      ->check(anyDevice)
      ->type_name("auto|cpu|cuda|emulated");
  auto *against = app.add_option("--against", options.against,
                                 "another artifact with taps to compare with")
                      ->type_name("FILE");
  app.add_option("--against-device", options.againstDevice,
                 "the device of --against")
      ->check(anyDevice)
      ->type_name("auto|cpu|cuda|emulated")
      ->needs(against);
  app.add_option("--reference", options.reference,
                 "file.safetensors of results to compare with, made by --dump "
                 "or scripts/dump_activations.py")
      ->type_name("FILE")
      ->excludes(against);
  app.add_option("--dump", options.dump,
                 "file.safetensors for the artifact's own results")
      ->type_name("FILE");
  app.add_option("--tolerance", options.tolerance,
                 "largest NMSE of a row; the bias is not checked (default: by "
                 "type)");
  app.add_option("--save", options.save,
                 "folder for files that reproduce a wrong kernel alone")
      ->type_name("DIR");
  app.add_option("--threads", options.threads, "0, the default: all cores")
      ->check(wholeNumber(0, 1024));
  addWeightOptions(app, options.binding);
}

//===----------------------------------------------------------------------===//
// Both sides
//===----------------------------------------------------------------------===//

static Result<Runner> openRunner(const std::string &path,
                                 const std::string &device,
                                 const Options &options) {
  return Runner::open(path, options.source(), *deviceNamed(device),
                      options.threads);
}

/// The ids of an option, or those of the reference.
static Status readIds(const char *option, const std::string &text,
                      std::vector<int32_t> &ids) {
  if (text.empty())
    return Status();
  Result<std::vector<int32_t>> asked = parseIds(text);
  if (!asked.ok())
    return Status(asked.status().code(),
                  std::string(option) + ": " + asked.status().message());
  if (!ids.empty() && ids != *asked)
    return Status(CRIA_INVALID_ARGUMENT, std::string(option) +
                                             ": expected the reference's, " +
                                             joinIds(ids));
  ids = std::move(*asked);
  return Status();
}

/// The prompt, with the results of a reference if there is one.
static Result<Recording> readReference(const Options &options) {
  Recording recording;
  if (!options.reference.empty()) {
    Result<Recording> read = Recording::read(options.reference);
    if (!read.ok())
      return read.status();
    recording = std::move(*read);
  }
  Status status = readIds("--ids", options.ids, recording.ids);
  if (status.ok())
    status = readIds("--source-ids", options.sourceIds, recording.sourceIds);
  if (status.ok() && recording.ids.empty())
    status = Status(CRIA_INVALID_ARGUMENT, "expected --ids=1,2,3");
  if (status.ok() && !options.against.empty()) {
    Result<Runner> other =
        openRunner(options.against, options.againstDevice, options);
    status = other.ok() ? other->record(recording) : other.status();
  }
  if (!status.ok())
    return status;
  return recording;
}

/// The tolerance of a result of the artifact against a result of the reference.
/// Another artifact of the same type rounds the same values; transformers
/// rounds more, and where the scores of two experts nearly tie, that chooses:
/// then any experts do, as their scores are compared, too.
static Tolerance toleranceFor(const Runner &runner, const Made &made,
                              const Recording &reference,
                              const Options &options) {
  bool isArtifact = reference.results.count(made.names().front());
  DType type = reference.type();
  bool isSame = isArtifact && runner.type() == type;
  Tolerance tolerance =
      toleranceOf(coarser(runner.type(), type), isSame, runner.isBlocked());
  if (made.kernel.results[made.result].integers)
    tolerance = {isSame ? 0 : INFINITY, INFINITY, DType::F32};
  if (options.tolerance)
    tolerance = {*options.tolerance, INFINITY, tolerance.type};
  return tolerance;
}

//===----------------------------------------------------------------------===//
// The report
//===----------------------------------------------------------------------===//

/// "layers_mlp_down_decode, turn 1 of 2"
static std::string placeOf(const Made &made) {
  std::string text = made.kernel.name;
  if (made.kernel.turns > 1)
    text += ", turn " + std::to_string(made.turn) + " of " +
            std::to_string(made.kernel.turns);
  return text;
}

/// Prints the modules whose weights the kernel reads. A kernel that reads no
/// weights belongs to the module around the module that reads its result.
static void printModules(const Made &made) {
  std::vector<TapName> names = made.kernel.modules;
  if (names.empty())
    for (TapName name : made.kernel.results[made.result].names) {
      name.path.resize(std::min(name.path.size(), name.path.rfind('.')));
      name.side.clear();
      names.push_back(name);
    }
  for (const TapName &name : names)
    printf("  module      %s\n", printable(name.at(made.turn)).c_str());
}

static void printFinding(const Finding &finding) {
  const Made &made = finding.made;
  const Difference &apart = finding.difference;
  const TapResult &result = made.kernel.results[made.result];
  printf("wrong: %s\n", printable(placeOf(made)).c_str());
  printModules(made);
  printf("  result      %zu", made.result);
  if (!result.names.empty())
    printf(", %s", printable(result.names.front().at(made.turn)).c_str());
  printf("\n  difference  NMSE %.2e, expected at most %.2e", apart.nmse,
         finding.tolerance.nmse);
  if (std::abs(apart.bias) > finding.tolerance.bias)
    printf("; bias %+.2f ulp of %s, expected at most %.2f", apart.bias,
           dtypeName(finding.tolerance.type), finding.tolerance.bias);
  printf("\n  value       %.9g at position %llu, column %llu; expected %.9g\n",
         apart.got,
         static_cast<unsigned long long>(static_cast<uint64_t>(made.position) +
                                         apart.row),
         static_cast<unsigned long long>(apart.column), apart.want);
}

/// The option that names the weights.
static std::string weightsFlag(const Options &options) {
  if (!options.weights.empty())
    return "--weights=" + options.weights;
  return "--random-weights=" +
         std::to_string(options.randomWeights.value_or(0));
}

/// Writes program and reference into the folder of --save, and prints the
/// commands that run only the kernel.
static Status saveCase(const Finding &finding, const Runner &runner,
                       const Recording &reference, const Options &options) {
  std::string folder = options.save;
  std::error_code failed;
  std::filesystem::create_directories(folder, failed);
  if (failed)
    return Status(CRIA_UNAVAILABLE, folder + ": " + failed.message());
  OutputFile file(folder + "/model.mlir", OutputFile::Named::ByProgram);
  const std::string &text = runner.taps().linalg;
  file.write(text.data(), text.size());
  file.commit();
  Status status = statusOf(file);
  if (status.ok())
    status = reference.write(folder + "/reference.safetensors",
                             OutputFile::Named::ByProgram);
  if (!status.ok())
    return status;
  bool onCpu = runner.device() == "cpu";
  printf("  alone       cria-compile %s/model.mlir --target=%s --taps=%s -o "
         "%s/kernel.cria\n",
         folder.c_str(), onCpu ? "cpu" : "cuda",
         printable(finding.made.kernel.name).c_str(), folder.c_str());
  printf("              cria-bisect %s/kernel.cria %s --device=%s "
         "--reference=%s/reference.safetensors\n",
         folder.c_str(), weightsFlag(options).c_str(),
         onCpu ? "cpu" : options.device.c_str(), folder.c_str());
  return Status();
}

/// Prints how far the logits of the whole model are off, if each kernel reads
/// the results of other kernels.
static Status printDrift(const Runner &runner, const Recording &reference) {
  double worst = 0;
  uint64_t same = 0, rows = 0;
  Status status = runner.run(reference, nullptr, [&](const Made &made) {
    uint64_t position = static_cast<uint64_t>(made.position),
             count = made.rows.count(), width = made.rows.width;
    if (!made.kernel.results[made.result].logits)
      return;
    const Rows *want = reference.find(made.names(), width, position + count);
    if (!want)
      return;
    Difference apart = compare(made.rows.values.data(), want->at(position),
                               count, width, DType::F32);
    worst = std::max(worst, apart.nmse);
    for (uint64_t row = 0; row < count; ++row) {
      auto best = [&](const float *at) {
        return std::max_element(at, at + width) - at;
      };
      same += best(made.rows.at(row)) == best(want->at(position + row));
    }
    rows += count;
  });
  if (rows)
    printf("logits of the whole model: NMSE %.2e, the same best id at %llu of "
           "%llu positions\n",
           worst, static_cast<unsigned long long>(same),
           static_cast<unsigned long long>(rows));
  return status;
}

//===----------------------------------------------------------------------===//
// The search
//===----------------------------------------------------------------------===//

/// Runs each kernel on the reference's values of its inputs, and returns the
/// first wrong result. `compared` counts the results that the reference has.
static Result<std::optional<Finding>> search(const Runner &runner,
                                             const Recording &reference,
                                             const Options &options,
                                             uint64_t &compared) {
  std::optional<Finding> found;
  Status status = runner.run(reference, &reference, [&](const Made &made) {
    uint64_t position = static_cast<uint64_t>(made.position),
             count = made.rows.count();
    const Rows *want =
        reference.find(made.names(), made.rows.width, position + count);
    if (!want || found)
      return;
    ++compared;
    Tolerance tolerance = toleranceFor(runner, made, reference, options);
    Difference apart = compare(made.rows.values.data(), want->at(position),
                               count, made.rows.width, tolerance.type);
    if (!apart.within(tolerance))
      found.emplace(Finding{made, *want, apart, tolerance});
  });
  if (!status.ok())
    return status;
  return found;
}

static Result<int> compareAll(const Runner &runner, const Recording &reference,
                              const Options &options) {
  uint64_t compared = 0;
  auto found = search(runner, reference, options, compared);
  if (!found.ok())
    return found.status();
  if (!compared)
    return Status(CRIA_NOT_FOUND,
                  "the reference has none of the artifact's results");
  if (!*found) {
    printf("%llu results compared, none wrong\n",
           static_cast<unsigned long long>(compared));
    Status status =
        runner.taps().isPart() ? Status() : printDrift(runner, reference);
    if (!status.ok())
      return status;
    return 0;
  }
  const Finding &finding = **found;
  printFinding(finding);
  if (!options.save.empty())
    if (Status status = saveCase(finding, runner, reference, options);
        !status.ok())
      return status;
  printf("\n");
  std::istringstream text(runner.taps().textOf(finding.made.kernel.name));
  for (std::string line; std::getline(text, line);)
    printf("%s\n", printable(line).c_str());
  return 1;
}

static Result<int> bisect(const Options &options) {
  if (options.weights.empty() && !options.randomWeights)
    return Status(CRIA_INVALID_ARGUMENT,
                  "expected --weights=DIR or --random-weights=SEED");
  if (options.against.empty() && options.reference.empty() &&
      options.dump.empty())
    return Status(CRIA_INVALID_ARGUMENT,
                  "expected --against=OTHER.cria, --reference=FILE or "
                  "--dump=FILE");
  Result<Recording> reference = readReference(options);
  if (!reference.ok())
    return reference.status();
  Result<Runner> runner = openRunner(options.artifact, options.device, options);
  if (!runner.ok())
    return runner.status();
  if (!options.dump.empty()) {
    Recording own = {reference->ids, reference->sourceIds, {}};
    Status status = runner->record(own);
    if (status.ok())
      status = own.write(options.dump);
    if (!status.ok())
      return status;
  }
  if (options.against.empty() && options.reference.empty())
    return 0;
  return compareAll(*runner, *reference, options);
}

int main(int argc, char **argv) {
  Options options;
  CLI::App app{"Names the first kernel whose result is wrong."};
  addOptions(app, options);
  if (auto code = parseCommandLine(app, "cria-bisect", argc, argv))
    return *code;
  try {
    Result<int> code = bisect(options);
    if (code.ok())
      return finishOutput("cria-bisect") ? 2 : *code;
    fprintf(stderr, "cria-bisect: error: %s\n",
            code.status().message().c_str());
  } catch (const std::bad_alloc &) {
    fprintf(stderr, "cria-bisect: error: out of memory\n");
  } catch (const std::exception &problem) {
    fprintf(stderr, "cria-bisect: error: %s\n", problem.what());
  }
  return 2;
}
