/// cria-serve: serves a model over HTTP, by the API of OpenAI.
///
/// Three kinds of threads: this one computes (serve/Scheduler.h), one does all
/// I/O (serve/Http.h), and workers read requests (serve/Texts.h). If ranks
/// share the model, rank 0 serves, and the others compute
/// (serve/SharedBatch.h).
#include "runtime/base/files/File.h"
#include "runtime/base/threads/Cores.h"
#include "runtime/device/Device.h"
#include "tools/CommandLine.h"
#include "tools/Compile.h"
#include "tools/serve/Engine.h"
#include "tools/serve/Http.h"
#include "tools/serve/Metrics.h"
#include "tools/serve/Scheduler.h"
#include "tools/serve/Service.h"

#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <pthread.h>
#include <sstream>
#include <stdexcept>
#include <sys/resource.h>
#include <thread>
#include <unistd.h>

using namespace cria;
using namespace cria::serve;

namespace {

/// The chat page.
const unsigned char page[] = {
#include "serve/page.html.inc"
};

struct ServeOptions {
  std::string model, compile, draft, keyFile, device = "auto", pooling;
  std::string generation = "auto";
  bool noKey = false, quiet = false;
  std::vector<std::string> loras; // NAME=DIR
  EngineOptions engine;
  SchedulerOptions scheduler;
  ServiceOptions service;
  HttpOptions http;
};

/// An error of the command line or its files, in words.
struct Problem : std::runtime_error {
  using runtime_error::runtime_error;
};

std::atomic<bool> isQuiet{false};

void say(const std::string &line) {
  if (!isQuiet)
    fprintf(stderr, "cria-serve: %s\n", line.c_str());
}

// ---- The command line ------------------------------------------------------

void addModel(CLI::App &app, ServeOptions &options) {
  HelpGroup group(app, "Model");
  app.add_option("-m,--model,MODEL", options.model,
                 "a folder from Hugging Face, or file.gguf, which is compiled "
                 "first, once; or an artifact of cria-compile --batch=N")
      ->type_name("PATH")
      ->required();
  app.add_option("--weights", options.engine.weights,
                 "folder of *.safetensors, tokenizer.json, "
                 "generation_config.json; or one file.gguf")
      ->type_name("DIR");
  app.add_option("--compile", options.compile,
                 "options of cria-compile for a folder or file.gguf: "
                 "--compile='--quantize=q8_0 --max-seq=8192'")
      ->type_name("OPTIONS");
  app.add_option("--batch", options.scheduler.texts,
                 "texts that are computed at once (default 8, or the "
                 "artifact's). A folder or file.gguf is compiled for four "
                 "times as many rows, which compute short prompts and drafts")
      ->type_name("N")
      ->check(wholeNumber<int64_t>(1, 256));
  app.add_option("--name", options.engine.name,
                 "the model's name for clients (default: that of its folder)");
  app.add_option("--lora", options.loras,
                 "serve the LoRA adapter in DIR as the model NAME, too; "
                 "repeatable. Needs room in the artifact (cria-compile "
                 "--lora-rank)")
      ->type_name("NAME=DIR")
      ->allow_extra_args(false);
  app.add_option("--generation-config", options.generation,
                 "auto: sampling defaults come from generation_config.json; "
                 "none: they are OpenAI's")
      ->type_name("auto|none");
  app.add_option("--allow-unknown", options.engine.allowUnknown,
                 "ignore this key of generation_config.json")
      ->type_name("KEY");
  app.add_option("--part", options.engine.parts,
                 "the artifact of a part of the model that reads images "
                 "(cria-compile --part=vision); repeatable. A folder needs "
                 "none")
      ->type_name("FILE")
      ->allow_extra_args(false);
  app.add_option("--pooling", options.pooling,
                 "how /v1/embeddings pools hidden states (default: as "
                 "1_Pooling/config.json says, else mean)")
      ->type_name("mean|last|first");
}

void addDrafts(CLI::App &app, ServeOptions &options) {
  HelpGroup group(app, "Drafts");
  auto *rows =
      app.add_option("--draft-rows", options.scheduler.draftRows,
                     "try tokens that may come next beside those that do, up "
                     "to this number of rows in a step: a text may get several "
                     "tokens from a step, and stays the same; 0, the default: "
                     "none")
          ->check(wholeNumber<int64_t>(0, INT32_MAX));
  auto *draft =
      app.add_option("--draft", options.draft,
                     "a smaller model of the same vocabulary, which proposes "
                     "the tokens to try: a folder, file.gguf or ARTIFACT; "
                     "without it they are looked up in the text")
          ->type_name("MODEL")
          ->needs(rows);
  app.add_option("--draft-weights", options.engine.drafterWeights,
                 "the checkpoint of an ARTIFACT of --draft")
      ->type_name("DIR")
      ->needs(draft);
}

void addMachine(CLI::App &app, ServeOptions &options) {
  HelpGroup group(app, "Machine");
  app.add_option("--device", options.device,
                 "device to run on; auto: the GPU if possible; cuda:1: the "
                 "second of several GPUs")
      ->check(anyDevice)
      ->type_name("auto|cpu|cuda|emulated");
  app.add_option("-t,--threads", options.scheduler.threads,
                 "number of threads that compute; 0, the default: one for each "
                 "core")
      ->check(wholeNumber(0, 1024));
  app.add_option("--pages", options.scheduler.pages,
                 "pages of the KV caches, of 16 tokens each; 0, the default: a "
                 "whole context for each text that is computed at once")
      ->check(wholeNumber<int64_t>(0, INT32_MAX));
  app.add_option("--chunk", options.scheduler.chunk,
                 "most tokens of a prompt that one step computes; 0, the "
                 "default: the artifact's")
      ->check(wholeNumber<int64_t>(0, INT32_MAX));
  app.add_flag("--reuse-replies", options.scheduler.reuseReplies,
               "a prompt that has an earlier reply uses its pages as well: "
               "chats begin faster, and the last bits of a reply may differ");
  app.add_option("--cache", options.engine.weightCache,
                 "folder that keeps quantized weights for the next start")
      ->type_name("DIR");
}

void addNetwork(CLI::App &app, ServeOptions &options) {
  HelpGroup group(app, "Clients");
  app.add_option("--host", options.http.host,
                 "address to listen on (default 127.0.0.1, this machine alone)")
      ->type_name("ADDRESS");
  app.add_option("--port", options.http.port,
                 "port to listen on (default 8080); 0: any, which is printed")
      ->check(wholeNumber(0, 65535));
  app.add_option("--api-key-file", options.keyFile,
                 "file of keys, a line each, of which clients send one as "
                 "Authorization: Bearer KEY (default: CRIA_API_KEY)")
      ->type_name("FILE");
  app.add_flag("--no-key", options.noKey, "serve other machines without a key");
  app.add_option("--cors", options.service.origin,
                 "let pages of this origin use the server; *: all pages")
      ->type_name("ORIGIN");
  app.add_option("--queue", options.scheduler.queue,
                 "requests that may wait; more are refused with status 429 "
                 "(default 256)")
      ->check(wholeNumber<int64_t>(1, 1 << 20));
  app.add_option("--queue-seconds", options.scheduler.queueSeconds,
                 "longest time that a request waits (default 60)")
      ->check(wholeNumber<int64_t>(1, 1 << 20));
  app.add_option("--drain-seconds", options.http.drainSeconds,
                 "time for texts to end after SIGTERM (default 30)")
      ->check(wholeNumber(0, 1 << 20));
  app.add_option("--connections", options.http.connections,
                 "most connections of clients (default 1024)")
      ->check(wholeNumber<int64_t>(1, 1 << 20));
}

std::optional<int> parseOptions(int argc, char **argv, ServeOptions &options) {
  CLI::App app{"Serves a model over HTTP, by the API of OpenAI."};
  addModel(app, options);
  addDrafts(app, options);
  addMachine(app, options);
  addNetwork(app, options);
  app.add_flag("-q,--quiet", options.quiet, "print errors alone");
  app.footer("Clients use http://127.0.0.1:8080/v1; a browser finds a chat at "
             "http://127.0.0.1:8080/. SIGTERM ends the server after the texts "
             "that are computed; docs/serve.md has the rest.");
  std::optional<int> code = parseCommandLine(app, "cria-serve", argc, argv);
  return code;
}

// ---- What the options mean -------------------------------------------------

/// The value of `result`, or its error as a Problem.
template <typename T> T orThrow(Result<T> result) {
  if (!result.ok())
    throw Problem(result.status().message());
  return std::move(*result);
}

void readDevice(ServeOptions &options) {
  DeviceOptions device = *deviceNamed(options.device);
  options.engine.device = static_cast<int32_t>(device.kind);
  if (device.index)
    options.engine.devices.push_back(*device.index);
}

/// The keys in a file, or that of the environment.
void readKeys(ServeOptions &options) {
  std::vector<std::string> &keys = options.service.keys;
  if (const char *key = getenv("CRIA_API_KEY");
      key && options.keyFile.empty() && *key)
    keys.push_back(key);
  if (options.keyFile.empty())
    return;
  std::istringstream lines(orThrow(readFile(options.keyFile, 1 << 20)));
  for (std::string line; std::getline(lines, line);) {
    line.erase(line.find_last_not_of(" \t\r") + 1);
    if (!line.empty())
      keys.push_back(line);
  }
  if (keys.empty())
    throw Problem(options.keyFile + ": has no key");
}

/// Other machines need a key, and this one's names are the only ones for pages.
void readHost(ServeOptions &options) {
  const std::string &host = options.http.host;
  bool isLoopback =
      host == "localhost" || host == "::1" || host.rfind("127.", 0) == 0;
  if (isLoopback) {
    options.service.hosts = {"localhost", "127.0.0.1", "[::1]", host};
    options.service.openMetrics = true;
  } else if (options.service.keys.empty() && !options.noKey) {
    throw Problem("--host=" + host +
                  " serves other machines: give --api-key-file, or --no-key");
  }
}

void readLoras(ServeOptions &options) {
  for (const std::string &lora : options.loras) {
    size_t equals = lora.find('=');
    if (equals == 0 || equals >= lora.size() - 1)
      throw Problem("--lora: expected NAME=DIR, got " + lora);
    options.engine.loras.emplace_back(lora.substr(0, equals),
                                      lora.substr(equals + 1));
  }
}

void checkOptions(ServeOptions &options) {
  isQuiet = options.quiet;
  options.service.page.assign(page, page + sizeof(page));
  std::error_code ignored;
  if (!std::filesystem::exists(options.model, ignored))
    throw Problem(options.model + ": no such file or folder");
  if (options.generation != "auto" && options.generation != "none")
    throw Problem("--generation-config is '" + options.generation +
                  "', expected auto or none");
  options.engine.openAiDefaults = options.generation == "none";
  std::optional<cria_pooling> &pooling = options.engine.pooling;
  if (options.pooling == "mean")
    pooling = CRIA_POOLING_MEAN;
  else if (options.pooling == "last")
    pooling = CRIA_POOLING_LAST;
  else if (options.pooling == "first")
    pooling = CRIA_POOLING_FIRST;
  else if (!options.pooling.empty())
    throw Problem("--pooling is '" + options.pooling +
                  "', expected mean, last or first");
  if (!options.compile.empty() && !isModel(options.model))
    throw Problem("--compile: expected a folder or a file.gguf to compile, "
                  "got " +
                  options.model);
  if (options.engine.weights.empty() && !isModel(options.model))
    throw Problem("expected --weights=DIR, the checkpoint of the artifact");
  if (options.engine.weights.empty())
    options.engine.weights = options.model;
  readDevice(options);
  readKeys(options);
  readHost(options);
  readLoras(options);
}

// ---- Before the server runs ------------------------------------------------

std::atomic<pid_t> compiler{0};

/// Ends the compiler with this process.
void onSignal(int signal) {
  if (pid_t child = compiler.load())
    kill(child, SIGTERM);
  _exit(128 + signal);
}

void prepareProcess() {
  struct sigaction action = {};
  action.sa_handler = onSignal;
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
  signal(SIGPIPE, SIG_IGN); // writing returns an error
  // A connection is a file.
  rlimit files = {};
  if (getrlimit(RLIMIT_NOFILE, &files) == 0) {
    files.rlim_cur = files.rlim_max;
    setrlimit(RLIMIT_NOFILE, &files);
  }
}

/// Compiles a model with `defaults` besides the user's `flags`.
std::string compile(const ServeOptions &options, const std::string &model,
                    const std::string &flags,
                    std::vector<std::string> defaults) {
  CompileRequest request;
  request.model = model;
  request.device = deviceNamed(options.device)->kind;
  std::istringstream words(flags);
  for (std::string word; words >> word;)
    request.flags.push_back(word);
  request.defaults = std::move(defaults);
  request.setChild = [](pid_t child) { compiler = child; };
  return orThrow(compiled(request, say));
}

/// Sets the paths of the artifacts, which are compiled if the model is none.
void findArtifacts(ServeOptions &options) {
  EngineOptions &engine = options.engine;
  bool compiles = isModel(options.model);
  int64_t &texts = options.scheduler.texts;
  if (compiles && texts == 0)
    texts = kTexts;
  engine.artifact = compiles
                        ? compile(options, options.model, options.compile,
                                  {"--batch=" + std::to_string(rowsFor(texts))})
                        : options.model;
  if (compiles && engine.parts.empty())
    for (const std::string &part : imageParts(options.model))
      engine.parts.push_back(
          compile(options, options.model, "--part=" + part, {}));
  if (options.draft.empty())
    return;
  bool compilesDraft = isModel(options.draft);
  engine.drafter =
      compilesDraft ? compile(options, options.draft, "", {}) : options.draft;
  if (compilesDraft && engine.drafterWeights.empty())
    engine.drafterWeights = options.draft;
  if (engine.drafterWeights.empty())
    throw Problem("--draft: expected --draft-weights=DIR, the checkpoint of "
                  "the artifact");
}

// ---- Running ---------------------------------------------------------------

/// Joins the processes that mpirun has started with this one, if it has.
void joinOthers(ServeOptions &options, cria_ranks &ranks) {
  auto error = make<cria_error>();
  cria_status status = cria_ranks_join(&ranks, &error);
  if (status == CRIA_FAILED_PRECONDITION)
    return;
  if (status != CRIA_OK)
    throw Error(error);
  options.engine.ranks = &ranks;
  if (options.scheduler.threads == 0)
    options.scheduler.threads = std::max(coreCount() / ranks.locals, 1);
  if (ranks.rank == 0)
    return;
  // Rank 0 says when the others end.
  signal(SIGINT, SIG_IGN);
  signal(SIGTERM, SIG_IGN);
  isQuiet = true;
}

/// Serves until a signal ends the server.
void serve(ServeOptions &options, Engine &engine) {
  Metrics metrics;
  HttpServer server(options.http, metrics); // a port that is taken: say it now
  findArtifacts(options);
  load(options.engine, engine, say);
  Scheduler scheduler(engine, options.scheduler, metrics);
  Service service(
      engine, metrics, options.service,
      [&](std::shared_ptr<Job> job) {
        return scheduler.submit(std::move(job));
      },
      [&] { return scheduler.isDraining(); });
  server.listen();
  std::string ranks;
  if (engine.ranks) { // mpirun would end them at once
    say("SIGTERM to process " + std::to_string(getpid()) + " ends all ranks");
    ranks = std::to_string(engine.ranks->count) + " ranks of ";
  }
  say("serves " + engine.name + " on " + ranks + engine.device + " at " +
      server.url() + "/v1");
  std::string failure;
  std::thread serves([&] {
    pthread_setname_np(pthread_self(), "cria-io");
    try {
      server.run(
          service, [&] { scheduler.drain(); }, [&] { scheduler.stop(); });
    } catch (const std::exception &error) {
      failure = error.what();
    }
    scheduler.stop();
  });
  // MPI wants the thread that has joined the ranks, which is this one.
  std::optional<ApiError> problem = scheduler.run();
  if (problem)
    server.shutDown();
  serves.join();
  if (problem)
    failure = problem->message;
  if (!failure.empty())
    throw Problem(failure);
}

/// Serves, or computes with the rank that serves.
void serveOrFollow(ServeOptions &options) {
  Engine engine;
  if (!options.engine.ranks || options.engine.ranks->rank == 0)
    return serve(options, engine);
  findArtifacts(options);
  load(options.engine, engine, say);
  follow(engine, options.scheduler.threads);
}

} // namespace

int main(int argc, char **argv) {
  prepareProcess();
  ServeOptions options;
  if (std::optional<int> code = parseOptions(argc, argv, options))
    return *code;
  auto ranks = make<cria_ranks>();
  std::string problem;
  try {
    checkOptions(options);
    joinOthers(options, ranks);
    serveOrFollow(options);
    leaveRanks();
    return 0;
  } catch (const std::bad_alloc &) {
    problem = "out of memory";
  } catch (const std::exception &error) {
    problem = error.what();
  }
  std::string who =
      ranks.count ? "rank " + std::to_string(ranks.rank) + ": " : "";
  fprintf(stderr, "cria-serve: %serror: %s\n", who.c_str(), problem.c_str());
  if (ranks.count) // mpirun ends the others, which may wait for this one
    _exit(1);
  return 1;
}
