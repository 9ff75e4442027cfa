/// cria-run: generates text with an artifact and the weights of a checkpoint.
///
/// stdout receives the text and nothing else, in whole characters as they
/// come; everything else goes to stderr.
#include "runtime/Artifact.h"
#include "runtime/Generation.h"
#include "runtime/Ids.h"
#include "runtime/Model.h"
#include "runtime/OutputFile.h"
#include "runtime/Sampler.h"
#include "runtime/Session.h"
#include "runtime/Tokenizer.h"
#include "tools/RunOptions.h"
#include "tools/RunTrace.h"

#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <sys/resource.h>
#include <unistd.h>
#include <vector>

using namespace cria;

/// All that a run holds.
struct Run {
  RunOptions options;
  std::shared_ptr<const Model> model;
  std::unique_ptr<Session> session;
  Generation generation;
  std::optional<Tokenizer> tokenizer;
  std::vector<int32_t> prompt, generated;
  std::vector<float> last; // (vocab): the logits after the last id fed
  std::vector<RunEvent> events;
  int64_t limit = 0; // of new ids

  const Manifest &manifest() const { return model->manifest(); }
};

/// What the signal handler knows: the session to stop, the file to take away.
static std::atomic<Session *> running{nullptr};
static std::atomic<const char *> partialFile{nullptr};
static volatile sig_atomic_t caught = 0;

/// The first signal during generation stops it before the next token, any other
/// ends the process at once.
static void onSignal(int signal) {
  Session *session = running.load();
  if (caught || !session) {
    if (const char *path = partialFile.load())
      unlink(path);
    _exit(128 + signal);
  }
  caught = signal;
  session->cancel();
}

static void catchSignals() {
  struct sigaction action = {};
  action.sa_handler = onSignal; // no SA_RESTART: a blocked write ends, too
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
  signal(SIGPIPE, SIG_IGN); // write() reports EPIPE
}

static double now() {
  static const auto start = std::chrono::steady_clock::now();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start)
      .count();
}

static Status writeOut(const std::string &text) {
  for (size_t done = 0; done < text.size();) {
    ssize_t written =
        write(STDOUT_FILENO, text.data() + done, text.size() - done);
    if (written >= 0)
      done += static_cast<size_t>(written);
    else if (errno == EINTR && caught)
      return Status(CRIA_CANCELLED, "interrupted");
    else if (errno != EINTR)
      return Status(CRIA_UNAVAILABLE,
                    std::string("stdout: ") + strerror(errno));
  }
  return Status();
}

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
  Status status =
      run.generation.complete(run.manifest().config, run.options.artifact);
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

/// How many ids to generate: what the user asks for must fit the context; a
/// default is cut to fit.
static Status setLimit(Run &run) {
  auto prompt = static_cast<int64_t>(run.prompt.size());
  int64_t room = run.manifest().maxSeq - prompt;
  if (room < 0)
    return Status(CRIA_OUT_OF_RANGE, "the prompt has " +
                                         std::to_string(prompt) +
                                         " tokens, the artifact's max_seq is " +
                                         std::to_string(run.manifest().maxSeq));
  const Generation &generation = run.generation;
  if (auto wanted = run.options.maxTokens) {
    if (*wanted > room)
      return Status(CRIA_OUT_OF_RANGE,
                    "the prompt's " + std::to_string(prompt) +
                        " tokens and --max-tokens=" + std::to_string(*wanted) +
                        " exceed the artifact's max_seq " +
                        std::to_string(run.manifest().maxSeq));
    run.limit = *wanted;
  } else if (generation.maxNewTokens) {
    run.limit = std::min(*generation.maxNewTokens, room);
  } else if (generation.maxLength) {
    run.limit = std::clamp<int64_t>(*generation.maxLength - prompt, 0, room);
  } else {
    run.limit = room;
  }
  return Status();
}

/// The checkpoint's defaults with what the command line says instead. Naming a
/// sampling parameter asks for sampling.
static SamplerOptions samplerOptions(const Run &run) {
  const RunOptions &options = run.options;
  SamplerOptions sampling = run.generation.defaults();
  if (options.topK || options.topP || options.minP)
    sampling = run.generation.options;
  sampling.temperature = options.temperature.value_or(sampling.temperature);
  sampling.topK = options.topK.value_or(sampling.topK);
  sampling.topP = options.topP.value_or(sampling.topP);
  sampling.minP = options.minP.value_or(sampling.minP);
  sampling.seed = options.seed;
  return sampling;
}

// ---- Generating ------------------------------------------------------------

static Status feed(Run &run, const char *name, const int32_t *ids,
                   int64_t count, cria_logits which, float *logits) {
  double begin = now();
  int64_t position = run.session->position();
  Status status = run.session->feed(ids, count, which, logits);
  run.events.push_back({name, begin, now() - begin, position, count});
  if (status.ok() && caught) // the signal came after the last check
    return Status(CRIA_CANCELLED, "interrupted");
  return status;
}

/// Feeds the prompt chunk by chunk; `logits`, if there, gets those of every id.
static Status prefill(Run &run, OutputFile *logits) {
  auto count = static_cast<int64_t>(run.prompt.size());
  int64_t chunk = run.manifest().chunk;
  int64_t vocab = run.manifest().vocabSize;
  std::vector<float> rows(logits ? std::min(chunk, count) * vocab : vocab);
  bool showProgress = isatty(STDERR_FILENO) && count > 2 * chunk;
  for (int64_t at = 0; at < count; at += chunk) {
    int64_t tokens = std::min(chunk, count - at);
    bool end = at + tokens == count;
    cria_logits which = logits ? CRIA_LOGITS_ALL
                        : end  ? CRIA_LOGITS_LAST
                               : CRIA_LOGITS_NONE;
    Status status =
        feed(run, "prefill", &run.prompt[at], tokens, which, rows.data());
    if (status.ok() && logits)
      status = logits->write(rows.data(), tokens * vocab * sizeof(float));
    if (!status.ok())
      return status;
    if (showProgress)
      fprintf(stderr, "\rprefill %lld/%lld%s",
              static_cast<long long>(at + tokens),
              static_cast<long long>(count), end ? "\r\033[K" : "");
    if (end)
      run.last.assign(&rows[logits ? (tokens - 1) * vocab : 0],
                      &rows[logits ? (tokens - 1) * vocab : 0] + vocab);
  }
  return Status();
}

static Status prefillAll(Run &run) {
  if (run.options.logits.empty())
    return prefill(run, nullptr);
  Result<OutputFile> file = OutputFile::create(run.options.logits);
  if (!file.ok())
    return file.status();
  partialFile = file->temporary().c_str();
  std::string header = npyHeader(
      {run.prompt.size(), static_cast<uint64_t>(run.manifest().vocabSize)});
  Status status = file->write(header.data(), header.size());
  if (status.ok())
    status = prefill(run, &*file);
  if (status.ok())
    status = file->commit();
  partialFile = nullptr;
  return status;
}

/// Draws ids until one ends the text or there are `limit`, and prints them.
static Status generate(Run &run, Sampler &sampler, TextStream *text) {
  while (static_cast<int64_t>(run.generated.size()) < run.limit) {
    Result<int32_t> id = sampler.sample(run.last.data());
    if (!id.ok())
      return id.status();
    sampler.accept(*id);
    run.generated.push_back(*id);
    if (text)
      if (Status status = writeOut(text->push(*id)); !status.ok())
        return status;
    if (run.generation.ends(*id) ||
        static_cast<int64_t>(run.generated.size()) == run.limit)
      break;
    if (Status status =
            feed(run, "decode", &*id, 1, CRIA_LOGITS_LAST, run.last.data());
        !status.ok())
      return status;
  }
  return Status();
}

static Status runPrompt(Run &run) {
  Result<Sampler> sampler =
      Sampler::create(samplerOptions(run), run.manifest().vocabSize);
  if (!sampler.ok())
    return sampler.status();
  std::optional<TextStream> text;
  if (run.tokenizer)
    text.emplace(*run.tokenizer);
  std::string printed;
  for (int32_t id : run.prompt) {
    sampler->accept(id);
    if (text)
      printed += text->push(id);
  }
  running = run.session.get();
  Status status = prefillAll(run);
  if (status.ok())
    status = writeOut(printed);
  if (status.ok())
    status = generate(run, *sampler, text ? &*text : nullptr);
  running = nullptr;
  if (text && (status.ok() || caught)) {
    Status flushed = writeOut(text->finish());
    if (status.ok())
      status = flushed;
  }
  return status;
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
  for (auto step :
       {openModel, loadGeneration, loadTokenizer, readPrompt, setLimit})
    if (status.ok())
      status = step(run);
  double loaded = now();
  if (status.ok()) {
    status = runPrompt(run);
    if (status.ok() || caught)
      printSummary(run, loaded);
    if (status.ok() && !run.options.profile.empty())
      status = writeTrace(run.options.profile, run.events);
  }
  if (caught)
    return 128 + caught;
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
