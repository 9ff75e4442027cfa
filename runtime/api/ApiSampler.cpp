#include "runtime/api/Handles.h"

using namespace cria;

cria_status cria_sampler_create(const cria_sampler_options *options,
                                int64_t vocabSize, cria_sampler **sampler,
                                cria_error *error) {
  return guarded(error, [&] {
    cria_sampler_options given;
    Status status = first(
        {readStruct(options, "options", given), notNull(sampler, "sampler")});
    if (!status.ok())
      return status;
    *sampler = nullptr;
    SamplerOptions asked; // 0 in `given` leaves a default
    asked.temperature = given.temperature;
    asked.topK = given.top_k;
    if (given.top_p != 0)
      asked.topP = given.top_p;
    asked.minP = given.min_p;
    if (given.repetition_penalty != 0)
      asked.repetitionPenalty = given.repetition_penalty;
    asked.presencePenalty = given.presence_penalty;
    asked.frequencyPenalty = given.frequency_penalty;
    asked.penaltyWindow = given.penalty_window;
    asked.seed = given.seed;
    Result<Sampler> made = Sampler::create(asked, vocabSize);
    if (made.ok())
      *sampler = new cria_sampler{std::make_shared<Sampler>(std::move(*made))};
    return made.status();
  });
}

void cria_sampler_free(cria_sampler **sampler) { freeHandle(sampler); }

/// Runs `body` with a sampler that nobody else is using meanwhile.
static cria_status withSampler(cria_sampler *sampler, cria_error *error,
                               FunctionRef<Status(Sampler &)> body) {
  return guarded(error, [&] {
    if (Status status = notNull(sampler, "sampler"); !status.ok())
      return status;
    SamplerUse use(sampler->object.get());
    Status status = use.status();
    return status.ok() ? body(*sampler->object) : status;
  });
}

cria_status cria_sampler_accept(cria_sampler *sampler, int32_t id,
                                cria_error *error) {
  return withSampler(sampler, error, [&](Sampler &object) {
    object.accept(id, true);
    return Status();
  });
}

cria_status cria_sampler_accept_prompt(cria_sampler *sampler,
                                       const int32_t *ids, size_t count,
                                       cria_error *error) {
  return withSampler(sampler, error, [&](Sampler &object) {
    Status status = count ? notNull(ids, "ids") : Status();
    for (size_t i = 0; i < count && status.ok(); ++i)
      object.accept(ids[i], false);
    return status;
  });
}

cria_status cria_sampler_sample(cria_sampler *sampler, const float *logits,
                                int32_t *id, cria_error *error) {
  return withSampler(sampler, error, [&](Sampler &object) {
    Status status = notNull({{logits, "logits"}, {id, "id"}});
    if (!status.ok())
      return status;
    Result<int32_t> drawn = object.sample(logits);
    if (drawn.ok())
      *id = *drawn;
    return drawn.status();
  });
}

cria_status cria_sampler_set_bias(cria_sampler *sampler, const int32_t *ids,
                                  const float *biases, size_t count,
                                  cria_error *error) {
  return withSampler(sampler, error, [&](Sampler &object) {
    Status status = first({count ? notNull(ids, "ids") : Status(),
                           count ? notNull(biases, "biases") : Status()});
    if (!status.ok())
      return status;
    std::vector<std::pair<int32_t, float>> bias;
    for (size_t i = 0; i < count; ++i)
      bias.emplace_back(ids[i], biases[i]);
    return object.setBias(bias);
  });
}

cria_status cria_sampler_allow(cria_sampler *sampler, const uint32_t *bits,
                               size_t words, cria_error *error) {
  return withSampler(sampler, error, [&](Sampler &object) {
    Status status = words ? notNull(bits, "bits") : Status();
    if (!status.ok())
      return status;
    return object.allow(words ? std::vector<uint32_t>(bits, bits + words)
                              : std::vector<uint32_t>());
  });
}

/// INVALID_ARGUMENT unless a vocabulary may have this number of ids.
static Status checkVocabulary(int64_t vocabSize) {
  if (vocabSize >= 1)
    return Status();
  return Status(CRIA_INVALID_ARGUMENT,
                {"vocab_size is ", vocabSize, ", expected 1 or more"});
}

cria_status cria_top_log_probabilities(const float *logits, int64_t vocabSize,
                                       size_t count, int32_t *ids,
                                       double *logProbabilities,
                                       cria_error *error) {
  return guarded(error, [&] {
    Status status = notNull(logits, "logits");
    if (status.ok() && count > 0)
      status = notNull({{ids, "ids"}, {logProbabilities, "log_probabilities"}});
    if (status.ok())
      status = checkVocabulary(vocabSize);
    if (status.ok() && count > static_cast<uint64_t>(vocabSize))
      status = Status(CRIA_INVALID_ARGUMENT,
                      {"count is ", count, ", of ", vocabSize, " ids"});
    if (!status.ok())
      return status;
    likeliestIds(logits, vocabSize, count, ids);
    cria::logProbabilities(logits, vocabSize, ids, count, logProbabilities);
    return status;
  });
}

cria_status cria_log_probabilities(const float *logits, int64_t vocabSize,
                                   const int32_t *ids, size_t count,
                                   double *logProbabilities,
                                   cria_error *error) {
  return guarded(error, [&] {
    Status status = notNull({{logits, "logits"},
                             {ids, "ids"},
                             {logProbabilities, "log_probabilities"}});
    if (status.ok())
      status = checkVocabulary(vocabSize);
    for (size_t i = 0; i < count && status.ok(); ++i)
      if (ids[i] < 0 || ids[i] >= vocabSize)
        status =
            Status(CRIA_INVALID_ARGUMENT, {"id ", ids[i], " at index ", i,
                                           ", expected 0 to ", vocabSize - 1});
    if (status.ok())
      cria::logProbabilities(logits, vocabSize, ids, count, logProbabilities);
    return status;
  });
}
