/// cria-run: generates text with an artifact and the weights of a checkpoint.
///
/// stdout receives only the text, in whole characters as they come, or one
/// other result instead: with --print-ids, the ids. Everything else goes to
/// stderr.
#include "runtime/artifact/Artifact.h"
#include "runtime/gguf/Files.h"
#include "tools/Compile.h"
#include "tools/Ids.h"
#include "tools/Ranks.h"
#include "tools/run/Constraint.h"
#include "tools/run/Process.h"
#include "tools/run/Run.h"

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <random>
#include <sstream>
#include <string>
#include <sys/resource.h>
#include <unistd.h>

using namespace cria;

// ---- Loading ---------------------------------------------------------------

static Status openMachine(Run &run) {
  if (run.options.machine.empty())
    return Status();
  Result<MachineRates> rates = readMachine(run.options.machine);
  if (rates.ok())
    run.rates = *rates;
  return rates.status();
}

static void printWarnings(const Run &run,
                          const std::vector<std::string> &lines) {
  for (const std::string &line : lines)
    if (run.talks())
      fprintf(stderr, "cria-run: warning: %s\n", line.c_str());
}

Result<std::string> cria::compileFor(const Run &run, CompileRequest request) {
  request.device = deviceOptions(run.options).kind;
  request.setChild = setChild;
  auto say = [](const std::string &line) {
    fprintf(stderr, "cria-run: %s\n", line.c_str());
  };
  auto quiet = [](const std::string &) {};
  return run.options.quiet ? compiled(request, quiet) : compiled(request, say);
}

/// Compiles the model if it is no artifact. Its artifact then takes its place.
static Status compileModel(Run &run) {
  RunOptions &options = run.options;
  if (!isModel(options.artifact))
    return Status();
  CompileRequest request;
  request.model = options.artifact;
  std::istringstream words(options.compile);
  for (std::string word; words >> word;)
    request.flags.push_back(word);
  auto isBatch = [](const std::string &flag) {
    return flag.rfind("--batch", 0) == 0;
  };
  if (!options.prompts.empty() &&
      std::none_of(request.flags.begin(), request.flags.end(), isBatch)) {
    run.texts = kTexts; // as cria-serve, whose artifact this is, too
    request.defaults = {"--batch=" + std::to_string(rowsFor(kTexts))};
  }
  Result<std::string> artifact = compileFor(run, std::move(request));
  if (artifact.ok())
    run.compiledFrom = std::exchange(options.artifact, *artifact);
  return artifact.status();
}

/// Joins the other ranks of an artifact that is compiled for several. Rank 0
/// prints and writes for all ranks; the others do the same steps.
static Status joinOthers(Run &run, const Artifact &artifact) {
  RunOptions &options = run.options;
  auto ranks = openRanks("cria-run", artifact, options.threads);
  if (!ranks.ok())
    return ranks.status();
  run.ranks = *ranks;
  if (run.isFirst())
    return Status();
  for (std::string *path :
       {&options.logits, &options.hidden, &options.embedding, &options.profile})
    if (!path->empty())
      *path = "-";
  return Status();
}

static Status openModel(Run &run) {
  const RunOptions &options = run.options;
  auto artifact = Artifact::open(options.artifact, options.cpu);
  if (!artifact.ok())
    return artifact.status();
  if ((*artifact)->manifest().takesRows())
    return Status(CRIA_INVALID_ARGUMENT,
                  options.artifact +
                      ": the model takes rows of numbers, such as an image's "
                      "patches, in place of ids: a program gives them "
                      "(docs/images.md)");
  if (Status status = joinOthers(run, **artifact); !status.ok())
    return status;
  DeviceOptions device = deviceOptions(options);
  device.ranks = run.ranks;
  auto model = Model::load(*artifact, weightSource(options), device);
  if (!model.ok())
    return model.status();
  run.model = *model;
  printWarnings(run, run.model->warnings());
  if (!options.prompts.empty()) // a batch takes the session's place
    return Status();
  auto session = Session::create(run.model, options.threads);
  if (!session.ok())
    return session.status();
  run.session = std::move(*session);
  return options.profile.empty() ? Status() : run.session->trace(&run.kernels);
}

/// Draws a seed, the same on all ranks, if the user gives none.
static Status chooseSeed(Run &run) {
  uint64_t seed = std::random_device()();
  if (run.ranks)
    run.ranks->broadcast(run.ranks->data, &seed, sizeof(seed));
  run.options.seed = run.options.seed.value_or(seed);
  return Status();
}

/// Loads the defaults of generation, and the begin and end ids, from the
/// checkpoint's folder, or else from the config that the artifact was compiled
/// from.
static Status loadGeneration(Run &run) {
  if (!run.options.weights.empty()) {
    Result<Generation> loaded =
        Generation::load(run.options.weights, run.options.allowUnknown);
    if (!loaded.ok())
      return loaded.status();
    run.generation = *loaded;
  }
  Status status = run.generation.complete(run.manifest().config.root(),
                                          run.options.artifact);
  printWarnings(run, run.generation.warnings);
  return status.ok() ? run.generation.fits(run.manifest().vocabSize) : status;
}

/// The path of the tokenizer of the checkpoint `weights`.
static std::string tokenizerPath(const std::string &weights) {
  return gguf::isGguf(weights) ? weights : weights + "/tokenizer.json";
}

static Status loadTokenizer(Run &run) {
  if (run.options.weights.empty())
    return Status();
  std::string path = tokenizerPath(run.options.weights);
  std::error_code ignored;
  if (!std::filesystem::exists(path, ignored))
    return Status();
  Result<Tokenizer> tokenizer = Tokenizer::load(path);
  if (tokenizer.status().code() == CRIA_NOT_FOUND) // a file without a tokenizer
    return Status();
  if (!tokenizer.ok())
    return tokenizer.status();
  run.tokenizer.emplace(std::move(*tokenizer));
  return run.tokenizer->fits(run.manifest().vocabSize);
}

// ---- The prompt ------------------------------------------------------------

/// An error in an option's value, with the option's name.
static Status of(const std::string &option, const Status &status) {
  return status.ok() ? status
                     : Status(status.code(), option + ": " + status.message());
}

/// The ids of an option such as --ids=1,2,3.
static Result<std::vector<int32_t>> readIds(const std::string &option,
                                            const std::string &text) {
  Result<std::vector<int32_t>> ids = parseIds(text);
  if (!ids.ok())
    return of(option, ids.status());
  if (ids->empty())
    return Status(CRIA_INVALID_ARGUMENT, option + " is empty");
  return ids;
}

/// The ids of an option's text. `instead` is the option that takes ids if there
/// is no tokenizer.
static Result<std::vector<int32_t>> readText(const Run &run,
                                             const std::string &option,
                                             const std::string &text,
                                             const std::string &instead) {
  if (!run.tokenizer)
    return Status(CRIA_NOT_FOUND, tokenizerPath(run.options.weights) +
                                      (gguf::isGguf(run.options.weights)
                                           ? ": has no tokenizer: give "
                                           : " is missing: give ") +
                                      instead);
  Result<std::vector<int32_t>> ids = run.tokenizer->encode(text);
  if (!ids.ok())
    return of(option, ids.status());
  return ids;
}

/// Encodes the source text of a model with an encoder.
static Status encodeSource(Run &run) {
  const RunOptions &options = run.options;
  if (!options.hasSource && !options.hasSourceIds)
    return Status();
  auto ids = options.hasSourceIds
                 ? readIds("--source-ids", options.sourceIds)
                 : readText(run, "--source", options.source, "--source-ids");
  if (!ids.ok())
    return ids.status();
  auto count = static_cast<int64_t>(ids->size());
  return of(options.hasSource ? "--source" : "--source-ids",
            timed(run, "encode", count, 0,
                  [&] { return run.session->encode(ids->data(), count); }));
}

/// The begin id if there are no ids.
static Result<std::vector<int32_t>> orBegin(const Run &run,
                                            Result<std::vector<int32_t>> ids) {
  if (ids.ok() && ids->empty() && run.generation.bos)
    ids->push_back(static_cast<int32_t>(*run.generation.bos));
  if (ids.ok() && ids->empty())
    return Status(CRIA_INVALID_ARGUMENT,
                  "the prompt is empty, and there is no bos_token_id");
  return ids;
}

Result<std::vector<int32_t>> cria::promptOf(const Run &run,
                                            const std::string &option,
                                            const std::string &text,
                                            const std::string &instead) {
  return orBegin(run, readText(run, option, text, instead));
}

static Status readPrompt(Run &run) {
  const RunOptions &options = run.options;
  Result<std::vector<int32_t>> ids = std::vector<int32_t>();
  if (options.hasIds) {
    ids = readIds("--ids", options.ids);
  } else if (!options.promptFile.empty()) {
    Result<Lines> file = Lines::open(options.promptFile);
    Result<std::string> text = file.ok() ? file->rest() : file.status();
    ids = text.ok() ? readText(run, "--file", *text, "--ids") : text.status();
  } else if (run.tokenizer || options.hasPrompt) {
    ids = readText(run, "--prompt", options.prompt, "--ids");
  }
  ids = orBegin(run, std::move(ids));
  if (!ids.ok())
    return ids.status();
  run.prompt = std::move(*ids);
  if (run.actions && !options.hasIds)
    run.actions->finishPrompt(*run.tokenizer, run.prompt);
  for (int32_t id : run.prompt)
    if (id >= run.manifest().vocabSize)
      return Status(CRIA_INVALID_ARGUMENT,
                    "prompt id " + std::to_string(id) +
                        ", expected less than " + "the model's vocab_size " +
                        std::to_string(run.manifest().vocabSize));
  return Status();
}

static Status readPrefix(Run &run) {
  const std::string &path = run.options.prefixEmbeddings;
  const Manifest &manifest = run.manifest();
  if (path.empty() || !manifest.embedding) // the session then says why it
                                           // cannot
    return Status();
  uint64_t width = manifest.weights[*manifest.embedding].shape[1];
  Result<NpyMatrix> prefix =
      readNpyMatrix(path, static_cast<uint64_t>(manifest.maxSeq) * width);
  if (prefix.ok())
    run.prefix = std::move(*prefix);
  return prefix.status();
}

// ---- What is said at the end -----------------------------------------------

static std::string phase(const Run &run, const char *name) {
  double seconds = 0;
  int64_t tokens = 0;
  for (const RunEvent &event : run.events)
    if (event.name == std::string(name)) {
      seconds += event.seconds;
      tokens += event.tokens;
    }
  char text[128];
  snprintf(text, sizeof(text), "%s %lld tokens in %.3f s (%.1f tokens/s)", name,
           static_cast<long long>(tokens), seconds,
           seconds > 0 ? static_cast<double>(tokens) / seconds : 0.0);
  return text;
}

/// `seed` is that of the first text.
static void printSummary(const Run &run, double loaded, uint64_t seed) {
  rusage usage = {};
  getrusage(RUSAGE_SELF, &usage);
  auto peak = static_cast<uint64_t>(usage.ru_maxrss);
  if (run.ranks)
    run.ranks->max(run.ranks->data, &peak, 1);
  if (!run.talks())
    return;
  if (isatty(STDOUT_FILENO) && isatty(STDERR_FILENO))
    fputc('\n', stderr);
  if (!run.model->onCpu())
    fprintf(stderr, "device %s\n", run.model->device().c_str());
  std::string phases;
  if (run.options.prompts.empty())
    phases = phase(run, "prefill") + ", " + phase(run, "decode") + ", ";
  if (samplerOptions(run).temperature > 0)
    phases += "seed " + std::to_string(seed) + ", ";
  fprintf(stderr, "load %.3f s, %speak memory %s%.1f MiB\n", loaded,
          phases.c_str(), run.ranks ? "of a rank " : "",
          static_cast<double>(peak) / 1024);
}

static int runAll(Run &run) {
  Status status = checkOptions(run.options);
  bool chat = run.options.chat, prompts = !run.options.prompts.empty();
  for (auto step : {readImages, compileModel, openMachine, openModel,
                    chooseSeed, loadGeneration, loadTokenizer, loadGrammar,
                    loadConfig, loadActions, loadImages})
    if (status.ok())
      status = step(run);
  for (auto step :
       {encodeSource, readPrompt, placeImages, readPrefix, setLimit})
    if (status.ok() && !chat && !prompts)
      status = step(run);
  if (status.ok())
    status = agree(run);
  double loaded = now();
  uint64_t seed = run.options.seed.value_or(0);
  if (status.ok()) {
    status = chat ? runChat(run) : prompts ? runPrompts(run) : runPrompt(run);
    if (run.options.printIds && (status.ok() || caughtSignal()))
      if (Status written = writeOut(joinIds(run.generated) + "\n"); status.ok())
        status = written;
    if (status.ok() && run.actions)
      status = printActions(run);
    if (status.ok() || caughtSignal())
      printSummary(run, loaded, seed);
    if (status.ok() && !run.options.profile.empty())
      status = writeTrace(run.options.profile, run.manifest(), run.rates,
                          run.events);
  }
  if (int signal = caughtSignal())
    return 128 + signal;
  if (status.ok())
    return 0;
  if (run.failsTogether && !run.isFirst())
    return 1;
  std::string who = run.ranks && !run.failsTogether
                        ? "rank " + std::to_string(run.ranks->rank) + ": "
                        : "";
  fprintf(stderr, "cria-run: %serror: %s\n", who.c_str(),
          status.message().c_str());
  return 1;
}

static int finish(const Run &run, int code) {
  closeRanks(run.ranks, run.failsTogether ? 0 : code);
  return code;
}

int main(int argc, char **argv) {
  now();
  catchSignals();
  Run run;
  if (std::optional<int> code = parseOptions(argc, argv, run.options))
    return *code;
  try {
    return finish(run, runAll(run));
  } catch (const std::bad_alloc &) {
    fprintf(stderr, "cria-run: error: out of memory\n");
  } catch (const std::exception &problem) {
    fprintf(stderr, "cria-run: error: %s\n", problem.what());
  }
  return finish(run, 1);
}
