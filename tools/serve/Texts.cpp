#include "tools/serve/Texts.h"

#include "tools/serve/Answer.h"

#include <algorithm>
#include <cfloat>
#include <random>

namespace cria::serve {

static ApiError tooLong(const Engine &engine, const std::string &length) {
  return {400,
          "the prompt has " + length + " and the model's context holds " +
              std::to_string(engine.maxSeq) + " tokens",
          "", "context_length_exceeded"};
}

static const char *promptField(const Request &request) {
  return request.endpoint == Responses    ? "input"
         : !request.messages.is_null()    ? "messages"
         : request.endpoint == Embeddings ? "input"
                                          : "prompt";
}

/// Refuses a text that no tokenizer makes short enough, before it is encoded:
/// that may take seconds.
static std::optional<ApiError> checkBytes(const Engine &engine, size_t bytes) {
  size_t most = static_cast<size_t>(engine.maxSeq) * engine.longestToken;
  if (bytes <= most)
    return std::nullopt;
  return tooLong(engine, std::to_string(bytes) + " bytes");
}

/// The variables of the chat template.
static std::optional<ApiError>
variablesOf(const Engine &engine, const Request &request, std::string &text) {
  if (!engine.chat)
    return ApiError{400, "the model has no chat template; use /v1/completions",
                    "messages", "no_chat_template"};
  if (!request.images.empty() && !engine.tower)
    return ApiError{400,
                    std::string("'") + promptField(request) +
                        "' has images, and the server reads none of this model",
                    promptField(request), "unsupported_value"};
  json messages = request.messages;
  // Templates of models that read images want parts.
  if (engine.tower)
    for (json &message : messages)
      if (auto content = message.find("content");
          content != message.end() && content->is_string())
        *content = json::array({{{"type", "text"}, {"text", *content}}});
  json variables = {{"messages", std::move(messages)},
                    {"add_generation_prompt", request.addGenerationPrompt}};
  if (!request.tools.is_null())
    variables["tools"] = request.tools;
  if (request.templateOptions.is_object())
    for (const auto &[key, value] : request.templateOptions.items())
      if (!variables.contains(key))
        variables[key] = value;
  text = toText(variables);
  return checkBytes(engine, text.size());
}

static ApiError about(const Request &request, const Error &error) {
  return {error.status() == CRIA_INTERNAL ? 500 : 400, error.what(),
          promptField(request), "invalid_value"};
}

std::optional<ApiError> renderMessages(const Engine &engine,
                                       const Request &request,
                                       std::string &text) {
  std::string variables;
  if (auto error = variablesOf(engine, request, variables))
    return error;
  try {
    text = engine.chat->render(variables);
  } catch (const Error &error) {
    return about(request, error);
  }
  return std::nullopt;
}

/// Sets `ids` to the ids of a prompt, which is a text or has ids.
static std::optional<ApiError> encode(const Engine &engine,
                                      const Request &request,
                                      const Prompt &prompt,
                                      std::vector<int32_t> &ids) {
  if (!prompt.text) {
    ids = prompt.ids;
    return std::nullopt;
  }
  if (auto error = checkBytes(engine, prompt.text->size()))
    return error;
  try {
    ids = engine.tokenizer->encode(*prompt.text, request.addSpecialTokens);
  } catch (const Error &error) {
    return about(request, error);
  }
  return std::nullopt;
}

std::optional<ApiError> encodePrompts(const Engine &engine,
                                      const Request &request,
                                      std::vector<Ids> &prompts) {
  if (!request.messages.is_null()) {
    std::string variables;
    if (auto error = variablesOf(engine, request, variables))
      return error;
    try {
      std::vector<int32_t> ids =
          engine.chat->encode(*engine.tokenizer, variables);
      // Processors of models that read images begin as the tokenizer does.
      std::vector<int32_t> begin;
      if (engine.tower)
        begin = engine.tokenizer->encode("", true);
      if (!begin.empty() && !ids.empty() && ids[0] != begin[0])
        ids.insert(ids.begin(), begin[0]);
      prompts.push_back({std::move(ids), ""});
    } catch (const Error &error) {
      return about(request, error);
    }
    return std::nullopt;
  }
  for (const Prompt &prompt : request.prompts)
    if (auto error =
            encode(engine, request, prompt, prompts.emplace_back().ids))
      return error;
  return std::nullopt;
}

/// Reads the images, and makes room for their rows in the prompt.
static std::optional<ApiError> placeImages(const Engine &engine,
                                           const Request &request, Job &job) {
  const char *field = promptField(request);
  auto refuse = [&](const std::string &what, const char *code) {
    return ApiError{400, what, field, code};
  };
  size_t count = request.images.size();
  if (count == 0)
    return std::nullopt;
  const VisionTower &tower = *engine.tower;
  if (count > kMostImages)
    return refuse("expected at most " + std::to_string(kMostImages) +
                      " images, got " + std::to_string(count),
                  "invalid_value");
  std::vector<int32_t> &ids = job.prompts[0].ids, without;
  try {
    without = surrounded(tower, *engine.tokenizer, ids);
  } catch (const Error &error) {
    return about(request, error);
  }
  int32_t id = tower.numbers.id;
  auto found =
      static_cast<size_t>(std::count(without.begin(), without.end(), id));
  if (found != count || without.back() == id)
    return refuse("the chat template writes " + std::to_string(found) +
                      " images for " + std::to_string(count) +
                      ", expected as many, and text after them",
                  "invalid_value");
  ids.clear();
  for (int32_t each : without) {
    if (each != id) {
      ids.push_back(each);
      continue;
    }
    PlacedImage &image = job.images.emplace_back();
    image.begin = ids.size();
    ids.insert(ids.end(), static_cast<size_t>(tower.rows), id);
  }
  if (static_cast<int64_t>(ids.size()) >= engine.maxSeq)
    return tooLong(engine, std::to_string(ids.size()) + " tokens");
  for (size_t i = 0; i < count; ++i)
    if (auto error =
            readPatches(tower, request.images[i], field, job.images[i].patches))
      return error;
  return std::nullopt;
}

/// Refuses prompts that are empty, or leave no room in the context.
static std::optional<ApiError> checkPrompts(const Engine &engine,
                                            const Request &request, Job &job) {
  for (Ids &prompt : job.prompts) {
    std::vector<int32_t> &ids = prompt.ids;
    if (ids.empty() && engine.begin && !job.embeds)
      ids.push_back(*engine.begin);
    const char *field = promptField(request);
    if (ids.empty())
      return ApiError{400, std::string("'") + field + "' has no tokens", field,
                      "invalid_value"};
    int64_t room = engine.maxSeq - static_cast<int64_t>(ids.size());
    if (room < (job.embeds || request.maxTokens == 0 ? 0 : 1))
      return tooLong(engine, std::to_string(ids.size()) + " tokens");
    for (int32_t id : ids) // a tokenizer may know more ids than the model
      if (id >= engine.vocabSize)
        return ApiError{400,
                        "the prompt has the id " + std::to_string(id) +
                            ", and the model has " +
                            std::to_string(engine.vocabSize),
                        field, "invalid_value"};
  }
  return std::nullopt;
}

/// The most ids to draw of each text. Each ends where its context is full, too.
static int64_t mostIds(const Engine &engine, const Request &request,
                       const Job &job) {
  if (request.maxTokens)
    return *request.maxTokens;
  if (request.endpoint == Completions)
    return 16; // as OpenAI's
  if (engine.limits.max_new_tokens >= 0)
    return engine.limits.max_new_tokens;
  if (engine.limits.max_length >= 0)
    return std::max<int64_t>(
        1, engine.limits.max_length -
               static_cast<int64_t>(job.prompts[0].ids.size()));
  return engine.maxSeq;
}

static cria_sampler_options samplingOf(const Engine &engine,
                                       const Request &request) {
  cria_sampler_options options = engine.sampling;
  bool samples = request.topK || request.topP || request.minP;
  if (options.temperature == 0 && samples) // they ask for it
    options.temperature = 1;
  options.temperature = request.temperature.value_or(options.temperature);
  if (request.topK)
    options.top_k = std::max<int64_t>(*request.topK, 0); // -1: all, as vLLM
  if (request.topP) // of 0: the likeliest alone; the library's 0 means all
    options.top_p = std::max(*request.topP, DBL_MIN);
  options.min_p = request.minP.value_or(options.min_p);
  options.repetition_penalty =
      request.repetitionPenalty.value_or(options.repetition_penalty);
  options.presence_penalty = request.presencePenalty;
  options.frequency_penalty = request.frequencyPenalty;
  options.seed = request.seed ? static_cast<uint64_t>(*request.seed)
                              : uint64_t(std::random_device()()) << 32 |
                                    std::random_device()();
  return options;
}

/// The text that a prompt's ids are shown as.
static std::string shown(const Engine &engine, const Ids &prompt,
                         bool special) {
  Stream stream(*engine.tokenizer, special);
  std::string text;
  for (int32_t id : prompt.ids)
    text += stream.push(id);
  return text;
}

/// Sets what the answer takes in memory until it is whole. The constants are
/// measured sizes of its JSON.
static void countKept(const Request &request, Job &job) {
  constexpr int64_t kLogProb = 192; // of completions
  if (job.scores)                   // by prompt, and by text
    job.kept += 2 * job.ids() * (1 + *job.logProbs) * kLogProb;
  if (request.stream && request.endpoint != Responses)
    return;
  int64_t logProb = request.endpoint == Completions ? kLogProb : 512;
  int64_t id = request.returnIds ? 24 : 0;
  int64_t call = request.mayCall() ? 64 : 0; // of the ids of a call
  job.keptOfId =
      8 + id + call + (job.logProbs ? (1 + *job.logProbs) * logProb : 0);
  for (const Ids &prompt : job.prompts)
    job.kept += job.n * (static_cast<int64_t>(prompt.echo.size()) +
                         static_cast<int64_t>(prompt.ids.size()) * id);
}

static void setTextOptions(const Engine &engine, const Request &request,
                           Job &job) {
  job.most = mostIds(engine, request, job);
  job.n = request.n;
  job.minimum = request.minTokens;
  job.sampling = samplingOf(engine, request);
  for (auto [id, bias] : request.bias) {
    job.biasIds.push_back(id);
    job.biases.push_back(bias);
  }
  if (!request.ignoreEos)
    job.endIds = engine.ends;
  job.endIds.insert(job.endIds.end(), request.stopIds.begin(),
                    request.stopIds.end());
  job.stops = request.stops.value_or(engine.stops);
  job.logProbs = request.logProbs;
  job.scores = request.echo && request.logProbs;
  job.special = !request.skipSpecialTokens;
  job.continues = request.endpoint == Completions;
  if (request.echo)
    for (Ids &prompt : job.prompts)
      prompt.echo = shown(engine, prompt, job.special);
  countKept(request, job);
}

/// A grammar that is wrong or too large is the client's: it costs nobody else.
static std::optional<ApiError> setGrammar(const Engine &engine,
                                          const Constraint &constraint,
                                          const char *field, Job &job) {
  try {
    job.grammar = engine.grammars.get(*engine.tokenizer, engine.vocabSize,
                                      constraint, job.endIds, job.salt);
  } catch (const Error &error) {
    if (error.status() == CRIA_INTERNAL)
      throw;
    return ApiError{400, std::string("'") + field + "': " + error.what(), field,
                    error.status() == CRIA_UNIMPLEMENTED ? "unsupported_value"
                                                         : "invalid_value"};
  }
  return std::nullopt;
}

/// Has the text be a call: the prompt ends with what begins a call, and the
/// constraint says how the call goes on.
static Constraint beginCall(const Engine &engine, const Request &request,
                            std::vector<int32_t> &prompt) {
  ForcedCall call = forceCall(engine.calls.format, request.tools,
                              request.toolName, request.parallelCalls);
  std::vector<int32_t> begin = engine.tokenizer->encode(call.prefix, false);
  prompt.insert(prompt.end(), begin.begin(), begin.end());
  return {CRIA_GRAMMAR_JSON_SCHEMA, std::move(call.schema)};
}

std::optional<ApiError> makeJob(const Engine &engine, const Request &request,
                                Job &job) {
  auto adapters = engine.find(request.model);
  if (!adapters)
    return ApiError{404, "there is no model '" + request.model + "'", "model",
                    "model_not_found"};
  job.adapters = *adapters;
  job.embeds = request.endpoint == Embeddings;
  if (job.embeds && engine.hiddenSize == 0)
    return ApiError{400, "the artifact returns no hidden states", "",
                    "no_embeddings"};
  if (!request.tools.is_null() && engine.calls.format == CallFormat::None)
    return ApiError{400,
                    "'tools' is not supported: the model's chat template "
                    "writes no calls that the server can read",
                    "tools", "unsupported_value"};
  if (auto error = encodePrompts(engine, request, job.prompts))
    return error;
  if (auto error = placeImages(engine, request, job))
    return error;
  std::optional<Constraint> constraint = request.constraint;
  const char *constrainedBy = request.constrainedBy;
  if (request.mustCall()) {
    constraint = beginCall(engine, request, job.prompts[0].ids);
    constrainedBy = "tool_choice";
  }
  if (auto error = checkPrompts(engine, request, job))
    return error;
  if (!job.embeds) {
    setTextOptions(engine, request, job);
    if (job.kept > kMostKept)
      return answerTooLarge();
    try {
      Sampler(job.sampling, engine.vocabSize);
    } catch (const Error &error) {
      return ApiError{400, error.what(), "", "invalid_value"};
    }
    if (constraint)
      if (auto error = setGrammar(engine, *constraint, constrainedBy, job))
        return error;
  }
  job.delivery = job.embeds ? answerEmbeddings(engine, request, job)
                 : request.endpoint == Completions
                     ? answerCompletions(engine, request, job)
                 : request.endpoint == Responses
                     ? answerResponses(engine, request, job)
                     : answerChat(engine, request, job);
  return std::nullopt;
}

} // namespace cria::serve
