#include "tools/serve/Engine.h"

#include "runtime/base/Json.h"
#include "runtime/gguf/Files.h"

#include <algorithm>
#include <filesystem>
#include <sstream>

namespace cria::serve {

void raise(const Status &status) {
  auto error = make<cria_error>();
  error.status = status.code();
  snprintf(error.message, sizeof(error.message), "%s",
           status.message().c_str());
  throw Error(error);
}

/// What `read` returns; nothing if the file does not say it.
template <typename Read>
static auto ifThere(Read read) -> std::optional<decltype(read())> {
  try {
    return read();
  } catch (const Error &error) {
    if (error.status() != CRIA_NOT_FOUND)
      throw;
    return std::nullopt;
  }
}

/// How sentence-transformers says that the checkpoint's embeddings are pooled;
/// nothing if it says nothing. Throws Error if that is done in another way.
static std::optional<cria_pooling> poolingOf(const std::string &weights) {
  constexpr std::pair<const char *, cria_pooling> known[] = {
      {"pooling_mode_mean_tokens", CRIA_POOLING_MEAN},
      {"pooling_mode_lasttoken", CRIA_POOLING_LAST},
      {"pooling_mode_cls_token", CRIA_POOLING_FIRST}};
  std::string path = weights + "/1_Pooling/config.json";
  if (!std::filesystem::exists(path))
    return std::nullopt;
  auto document = readJson(path);
  Status status = document.status();
  std::vector<cria_pooling> found;
  if (document.ok()) {
    JsonCursor root(document->root(), path, status);
    for (auto [key, pooling] : known)
      if (auto says = root.find(key); says && says->boolean())
        found.push_back(pooling);
  }
  if (status.ok() && found.size() != 1)
    status = Status(CRIA_UNIMPLEMENTED,
                    {path, ": expected one of pooling_mode_mean_tokens, "
                           "pooling_mode_lasttoken and pooling_mode_cls_token; "
                           "--pooling says how to pool instead"});
  if (status.ok())
    return found.front();
  raise(status);
}

void loadText(const EngineOptions &options, Engine &engine) {
  const std::string &weights = options.weights;
  engine.tokenizer.emplace(gguf::isGguf(weights) ? weights
                                                 : weights + "/tokenizer.json");
  engine.chat = ifThere([&] { return Chat(weights); });
  if (engine.chat)
    engine.calls = callSyntaxOf(*engine.chat, *engine.tokenizer);
  int64_t size = engine.tokenizer->vocabSize();
  for (int64_t id = 0; id < size; ++id)
    engine.longestToken =
        std::max(engine.longestToken,
                 engine.tokenizer->bytes(static_cast<int32_t>(id)).size());
  Generation generation(weights, options.allowUnknown);
  if (engine.hiddenSize)
    engine.pooling = options.pooling
                         ? *options.pooling
                         : poolingOf(weights).value_or(CRIA_POOLING_MEAN);
  engine.begin = ifThere([&] { return generation.begin(); });
  engine.ends = generation.endIds();
  engine.stops = generation.stopStrings();
  engine.limits = generation.limits();
  if (options.openAiDefaults)
    call(cria_generation_options, static_cast<cria_generation *>(nullptr),
         &engine.sampling);
  else
    engine.sampling = generation.options();
}

/// The artifact with the weights.
static Model loadModel(const EngineOptions &options, const Artifact &artifact,
                       const std::string &weights, const cria_ranks *ranks,
                       void (*say)(const std::string &line)) {
  auto given = make<cria_model_options>();
  given.weights = weights.c_str();
  given.device = options.device;
  given.devices = options.devices.data();
  given.device_count = options.devices.size();
  given.ranks = ranks;
  if (!options.weightCache.empty())
    given.weight_cache = options.weightCache.c_str();
  Model model(artifact, given);
  std::istringstream warnings(model.warnings());
  for (std::string line; std::getline(warnings, line);)
    say("warning: " + line);
  return model;
}

/// The name of the checkpoint's folder or file.
static std::string nameOf(const std::string &weights) {
  auto path = std::filesystem::weakly_canonical(weights);
  return gguf::isGguf(weights) ? path.stem().string()
                               : path.filename().string();
}

/// Throws if the artifact's vocabulary is not the model's.
static void loadDrafter(const EngineOptions &options, Engine &engine,
                        void (*say)(const std::string &line)) {
  Artifact artifact(options.drafter);
  cria_artifact_info info = artifact.info();
  if (info.vocab_size != engine.vocabSize)
    raise(Status(CRIA_INVALID_ARGUMENT,
                 {options.drafter, ": its vocabulary has ", info.vocab_size,
                  " ids, expected the model's ", engine.vocabSize}));
  engine.drafterSeq = info.max_seq;
  engine.drafter =
      loadModel(options, artifact, options.drafterWeights, nullptr, say);
}

/// Loads what reads images.
static void loadVisionTower(const EngineOptions &options, const Artifact &text,
                            Engine &engine,
                            void (*say)(const std::string &line)) {
  if (options.ranks)
    raise(Status(CRIA_UNIMPLEMENTED,
                 "images: expected an artifact for one rank"));
  engine.tower =
      openVisionTower(text, options.artifact, options.parts, options.weights);
  for (VisionPart &part : engine.tower->parts)
    part.model =
        loadModel(options, part.artifact, options.weights, nullptr, say);
}

void load(const EngineOptions &options, Engine &engine,
          void (*say)(const std::string &line)) {
  Artifact artifact(options.artifact);
  cria_artifact_info info = artifact.info();
  engine.maxSeq = info.max_seq;
  engine.vocabSize = info.vocab_size;
  engine.chunk = info.chunk;
  engine.hiddenSize = info.hidden_size;
  engine.name = options.name.empty() ? nameOf(options.weights) : options.name;
  loadText(options, engine);
  engine.ranks = options.ranks;
  engine.model =
      loadModel(options, artifact, options.weights, options.ranks, say);
  engine.device = engine.model->device();
  if (!options.parts.empty())
    loadVisionTower(options, artifact, engine, say);
  if (!options.drafter.empty() && !(options.ranks && options.ranks->rank))
    loadDrafter(options, engine, say);
  for (const auto &[name, folder] : options.loras) {
    auto lora = make<cria_lora>();
    lora.folder = folder.c_str();
    lora.scale = 1;
    engine.adapters.emplace(name, LoraSet(*engine.model, {lora}));
  }
}

} // namespace cria::serve
