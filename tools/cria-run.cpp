/// cria-run: generates text with an artifact and the weights of a checkpoint.
///
/// stdout receives the text and nothing else, in whole characters as they
/// come; everything else goes to stderr.
#include "runtime/Artifact.h"
#include "runtime/Ids.h"
#include "tools/run/Process.h"
#include "tools/run/Run.h"

#include <cstdio>
#include <filesystem>
#include <string>
#include <sys/resource.h>
#include <unistd.h>

using namespace cria;

// ---- Loading ---------------------------------------------------------------

static Status openModel(Run &run) {
  const RunOptions &options = run.options;
  auto artifact = Artifact::open(options.artifact);
  if (!artifact.ok())
    return artifact.status();
  auto model =
      Model::load(*artifact, weightSource(options), deviceOptions(options));
  if (!model.ok())
    return model.status();
  run.model = *model;
  for (const std::string &line : run.model->warnings())
    fprintf(stderr, "cria-run: warning: %s\n", line.c_str());
  auto session = Session::create(run.model, options.threads);
  if (!session.ok())
    return session.status();
  run.session = std::move(*session);
  return Status();
}

/// Defaults of generation, and begin and end ids, from the checkpoint's folder
/// or else the config the artifact was compiled from.
static Status loadGeneration(Run &run) {
  if (!run.options.weights.empty()) {
    Result<Generation> loaded = Generation::load(run.options.weights);
    if (!loaded.ok())
      return loaded.status();
    run.generation = *loaded;
  }
  Status status = run.generation.complete(run.manifest().config.root(),
                                          run.options.artifact);
  return status.ok() ? run.generation.fits(run.manifest().vocabSize) : status;
}

static Status loadTokenizer(Run &run) {
  if (run.options.weights.empty())
    return Status();
  std::string path = run.options.weights + "/tokenizer.json";
  std::error_code ignored;
  if (!std::filesystem::exists(path, ignored))
    return Status();
  Result<Tokenizer> tokenizer = Tokenizer::load(path);
  if (!tokenizer.ok())
    return tokenizer.status();
  run.tokenizer.emplace(std::move(*tokenizer));
  return run.tokenizer->fits(run.manifest().vocabSize);
}

// ---- The prompt ------------------------------------------------------------

static Status readPrompt(Run &run) {
  const RunOptions &options = run.options;
  if (options.hasIds) {
    Result<std::vector<int32_t>> ids = parseIds(options.ids);
    if (!ids.ok())
      return Status(ids.status().code(), "--ids: " + ids.status().message());
    if (ids->empty())
      return Status(CRIA_INVALID_ARGUMENT, "--ids is empty");
    run.prompt = *ids;
  } else if (run.tokenizer) {
    Result<std::vector<int32_t>> ids = run.tokenizer->encode(options.prompt);
    if (!ids.ok())
      return Status(ids.status().code(), "--prompt: " + ids.status().message());
    run.prompt = *ids;
  } else if (options.hasPrompt) {
    return Status(CRIA_NOT_FOUND,
                  options.weights + "/tokenizer.json is missing: give --ids");
  }
  if (run.prompt.empty() && run.generation.bos)
    run.prompt.push_back(static_cast<int32_t>(*run.generation.bos));
  if (run.prompt.empty())
    return Status(CRIA_INVALID_ARGUMENT,
                  "the prompt is empty, and there is no bos_token_id");
  for (int32_t id : run.prompt)
    if (id >= run.manifest().vocabSize)
      return Status(CRIA_INVALID_ARGUMENT,
                    "prompt id " + std::to_string(id) +
                        ", expected less than " + "the model's vocab_size " +
                        std::to_string(run.manifest().vocabSize));
  return Status();
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

static void printSummary(const Run &run, double loaded) {
  rusage usage = {};
  getrusage(RUSAGE_SELF, &usage);
  if (isatty(STDOUT_FILENO) && isatty(STDERR_FILENO))
    fputc('\n', stderr);
  if (run.options.printIds)
    fprintf(stderr, "%s\n", joinIds(run.generated).c_str());
  if (!run.model->onCpu())
    fprintf(stderr, "device %s\n", run.model->device().c_str());
  fprintf(stderr, "load %.3f s, %s, %s, peak memory %.1f MiB\n", loaded,
          phase(run, "prefill").c_str(), phase(run, "decode").c_str(),
          static_cast<double>(usage.ru_maxrss) / 1024);
}

static int runAll(Run &run) {
  Status status = checkOptions(run.options);
  bool chat = run.options.chat;
  for (auto step : {openModel, loadGeneration, loadTokenizer})
    if (status.ok())
      status = step(run);
  for (auto step : {readPrompt, setLimit})
    if (status.ok() && !chat)
      status = step(run);
  double loaded = now();
  if (status.ok()) {
    status = chat ? runChat(run) : runPrompt(run);
    if (status.ok() || caughtSignal())
      printSummary(run, loaded);
    if (status.ok() && !run.options.profile.empty())
      status = writeTrace(run.options.profile, run.events);
  }
  if (int signal = caughtSignal())
    return 128 + signal;
  if (status.ok())
    return 0;
  fprintf(stderr, "cria-run: error: %s\n", status.message().c_str());
  return 1;
}

int main(int argc, char **argv) {
  now();
  catchSignals();
  Run run;
  if (std::optional<int> code = parseOptions(argc, argv, run.options))
    return *code;
  try {
    return runAll(run);
  } catch (const std::bad_alloc &) {
    fprintf(stderr, "cria-run: error: out of memory\n");
  } catch (const std::exception &problem) {
    fprintf(stderr, "cria-run: error: %s\n", problem.what());
  }
  return 1;
}
