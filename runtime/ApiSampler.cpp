#include "runtime/Handles.h"

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
    SamplerOptions asked; // of which 0 in `given` leaves the defaults
    asked.temperature = given.temperature;
    asked.topK = given.top_k;
    if (given.top_p != 0)
      asked.topP = given.top_p;
    asked.minP = given.min_p;
    if (given.repetition_penalty != 0)
      asked.repetitionPenalty = given.repetition_penalty;
    asked.seed = given.seed;
    Result<Sampler> made = Sampler::create(asked, vocabSize);
    if (made.ok())
      *sampler = new cria_sampler{std::move(*made)};
    return made.status();
  });
}

void cria_sampler_free(cria_sampler **sampler) { freeHandle(sampler); }

cria_status cria_sampler_accept(cria_sampler *sampler, int32_t id,
                                cria_error *error) {
  return guarded(error, [&] {
    Status status = notNull(sampler, "sampler");
    if (status.ok())
      sampler->object.accept(id);
    return status;
  });
}

cria_status cria_sampler_sample(cria_sampler *sampler, const float *logits,
                                int32_t *id, cria_error *error) {
  return guarded(error, [&] {
    Status status = first({notNull(sampler, "sampler"),
                           notNull(logits, "logits"), notNull(id, "id")});
    if (!status.ok())
      return status;
    Result<int32_t> drawn = sampler->object.sample(logits);
    if (drawn.ok())
      *id = *drawn;
    return drawn.status();
  });
}
