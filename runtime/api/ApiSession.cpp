#include "runtime/api/Handles.h"

using namespace cria;

cria_status cria_session_create(const cria_model *model,
                                const cria_session_options *options,
                                cria_session **session, cria_error *error) {
  return guarded(error, [&] {
    cria_session_options asked = {};
    Status status =
        first({notNull(model, "model"), notNull(session, "session"),
               options ? readStruct(options, "options", asked) : Status()});
    if (!status.ok())
      return status;
    *session = nullptr;
    Threads threads(asked.threads);
    threads.run = asked.parallel_for;
    threads.data = asked.parallel_data;
    auto made = Session::create(model->object, threads);
    if (made.ok())
      *session = new cria_session{std::move(*made)};
    return made.status();
  });
}

void cria_session_free(cria_session **session) { freeHandle(session); }

/// INVALID_ARGUMENT unless `capacity` floats at `logits` hold `rows` rows.
static Status checkCapacity(const Session &session, size_t rows,
                            const float *logits, size_t capacity) {
  size_t vocab = static_cast<size_t>(session.model().manifest().vocabSize);
  if (capacity / vocab < rows)
    return Status(
        CRIA_INVALID_ARGUMENT,
        {"capacity is ", capacity, " floats, expected ", rows, " x ", vocab});
  return rows ? notNull(logits, "logits") : Status();
}

/// FAILED_PRECONDITION if the model returns no hidden states; INVALID_ARGUMENT
/// if `capacity` floats at `hidden` do not hold `rows` rows of them.
static Status checkHidden(const Session &session, size_t rows,
                          const float *hidden, size_t capacity,
                          const char *what) {
  if (!rows)
    return Status();
  if (Status status = session.model().checkHidden(); !status.ok())
    return status;
  auto width = static_cast<size_t>(session.model().manifest().hiddenSize);
  if (capacity / width < rows)
    return Status(CRIA_INVALID_ARGUMENT,
                  "the capacity of " + std::string(what) + " is " +
                      std::to_string(capacity) + " floats, expected " +
                      std::to_string(rows) + " x " + std::to_string(width));
  return notNull(hidden, what);
}

/// INVALID_ARGUMENT unless `capacity` floats at `logits` hold the logits that
/// are asked for.
static Status checkLogits(const Session &session, size_t count, int32_t which,
                          const float *logits, size_t capacity) {
  if (which == CRIA_LOGITS_NONE)
    return Status();
  if (which != CRIA_LOGITS_LAST && which != CRIA_LOGITS_ALL)
    return Status(CRIA_INVALID_ARGUMENT,
                  {"which is ", which, ", no cria_logits"});
  return checkCapacity(session, which == CRIA_LOGITS_ALL ? count : 1, logits,
                       capacity);
}

cria_status cria_session_feed(cria_session *session, const int32_t *ids,
                              size_t count, int32_t which, float *logits,
                              size_t capacity, cria_error *error) {
  return guarded(error, [&] {
    Status status = notNull({{session, "session"}, {ids, "ids"}});
    if (!status.ok())
      return status;
    Session &object = *session->object;
    if (status = checkCount(count, "count"); !status.ok())
      return status;
    // Range errors come first: they say more than a wrong capacity.
    status = object.check(ids, static_cast<int64_t>(count));
    if (status.ok())
      status = checkLogits(object, count, which, logits, capacity);
    if (!status.ok())
      return status;
    return object.feed(ids, static_cast<int64_t>(count),
                       static_cast<cria_logits>(which), logits);
  });
}

cria_status cria_session_feed_rows(cria_session *session, const int32_t *ids,
                                   size_t count, const int64_t *rows,
                                   size_t row_count, float *logits,
                                   size_t capacity, cria_error *error) {
  return guarded(error, [&] {
    Status status =
        first({notNull(session, "session"), notNull(ids, "ids"),
               row_count ? notNull(rows, "rows") : Status(),
               checkCount(count, "count"), checkCount(row_count, "row_count")});
    if (!status.ok())
      return status;
    Session &object = *session->object;
    status = object.check(ids, static_cast<int64_t>(count));
    if (status.ok())
      status = checkCapacity(object, row_count, logits, capacity);
    if (!status.ok())
      return status;
    Outputs outputs;
    outputs.logits = {CRIA_LOGITS_NONE, logits, rows,
                      static_cast<int64_t>(row_count)};
    return object.feed(ids, static_cast<int64_t>(count), outputs);
  });
}

/// Checks `asked` for a feed of `count` ids and copies it to `outputs`.
static Status readOutputs(const Session &session, size_t count,
                          const cria_outputs &asked, Outputs &outputs) {
  if (asked.logit_row_count && asked.logits_of != CRIA_LOGITS_NONE)
    return Status(CRIA_INVALID_ARGUMENT,
                  "logits_of and logit_rows both say which logits are wanted");
  if (asked.hidden_of < CRIA_LOGITS_NONE || asked.hidden_of > CRIA_LOGITS_ALL)
    return Status(CRIA_INVALID_ARGUMENT, "hidden_of is " +
                                             std::to_string(asked.hidden_of) +
                                             ", no cria_logits");
  size_t hiddenRows = asked.hidden_of == CRIA_LOGITS_ALL    ? count
                      : asked.hidden_of == CRIA_LOGITS_LAST ? 1
                                                            : 0;
  size_t rows = asked.logit_row_count;
  Status status = first(
      {checkCount(rows, "logit_row_count"),
       rows ? notNull(asked.logit_rows, "logit_rows") : Status(),
       rows ? checkCapacity(session, rows, asked.logits, asked.logits_capacity)
            : checkLogits(session, count, asked.logits_of, asked.logits,
                          asked.logits_capacity),
       checkHidden(session, hiddenRows, asked.hidden, asked.hidden_capacity,
                   "hidden")});
  outputs.logits = {static_cast<cria_logits>(asked.logits_of), asked.logits,
                    asked.logit_rows, static_cast<int64_t>(rows)};
  outputs.hidden = {static_cast<cria_logits>(asked.hidden_of), asked.hidden};
  return status;
}

cria_status cria_session_feed_outputs(cria_session *session, const int32_t *ids,
                                      size_t count, const cria_outputs *outputs,
                                      cria_error *error) {
  return guarded(error, [&] {
    cria_outputs asked = {};
    Status status = first({notNull(session, "session"), notNull(ids, "ids"),
                           readStruct(outputs, "outputs", asked),
                           checkCount(count, "count")});
    if (!status.ok())
      return status;
    Session &object = *session->object;
    Outputs wanted;
    status = object.check(ids, static_cast<int64_t>(count));
    if (status.ok())
      status = readOutputs(object, count, asked, wanted);
    return status.ok() ? object.feed(ids, static_cast<int64_t>(count), wanted)
                       : status;
  });
}

cria_status cria_session_embed(cria_session *session, const int32_t *ids,
                               size_t count, const cria_embed_options *options,
                               float *embedding, size_t capacity,
                               cria_error *error) {
  return guarded(error, [&] {
    cria_embed_options asked = {};
    Status status =
        first({notNull(session, "session"), notNull(ids, "ids"),
               options ? readStruct(options, "options", asked) : Status(),
               checkCount(count, "count")});
    if (!status.ok())
      return status;
    if (asked.pooling < CRIA_POOLING_MEAN || asked.pooling > CRIA_POOLING_FIRST)
      return Status(CRIA_INVALID_ARGUMENT, "pooling is " +
                                               std::to_string(asked.pooling) +
                                               ", no cria_pooling");
    Session &object = *session->object;
    status = object.check(ids, static_cast<int64_t>(count));
    if (status.ok())
      status = checkHidden(object, 1, embedding, capacity, "embedding");
    if (!status.ok())
      return status;
    return object.embed(ids, static_cast<int64_t>(count),
                        static_cast<cria_pooling>(asked.pooling),
                        asked.normalize, embedding);
  });
}

cria_status cria_session_encode(cria_session *session, const int32_t *ids,
                                size_t count, cria_error *error) {
  return guarded(error, [&] {
    Status status = notNull({{session, "session"}, {ids, "ids"}});
    if (!status.ok())
      return status;
    if (status = checkCount(count, "count"); !status.ok())
      return status;
    return session->object->encode(ids, static_cast<int64_t>(count));
  });
}

cria_status cria_session_feed_embeddings(cria_session *session,
                                         const float *rows, size_t count,
                                         size_t hidden, cria_error *error) {
  return cria_session_feed_embeddings_outputs(session, rows, count, hidden,
                                              nullptr, error);
}

cria_status cria_session_feed_embeddings_outputs(cria_session *session,
                                                 const float *rows,
                                                 size_t count, size_t hidden,
                                                 const cria_outputs *outputs,
                                                 cria_error *error) {
  return guarded(error, [&] {
    cria_outputs asked = {};
    Status status =
        first({notNull(session, "session"), notNull(rows, "rows"),
               outputs ? readStruct(outputs, "outputs", asked) : Status(),
               checkCount(count, "count")});
    if (!status.ok())
      return status;
    Session &object = *session->object;
    Outputs wanted;
    if (status = readOutputs(object, count, asked, wanted); !status.ok())
      return status;
    // A width that does not fit int64_t becomes INT64_MAX, which no model has.
    auto width = static_cast<int64_t>(std::min<size_t>(hidden, INT64_MAX));
    return object.feedEmbeddings(rows, static_cast<int64_t>(count), width,
                                 wanted);
  });
}

cria_status cria_session_expect_prompt(cria_session *session, size_t count,
                                       cria_error *error) {
  return guarded(error, [&] {
    Status status = notNull(session, "session");
    if (!status.ok())
      return status;
    if (status = checkCount(count, "count"); !status.ok())
      return status;
    return session->object->expectPrompt(static_cast<int64_t>(count));
  });
}

cria_status cria_session_draw(cria_session *session, const int32_t *ids,
                              size_t count, cria_sampler *sampler, int32_t *id,
                              cria_error *error) {
  return guarded(error, [&] {
    Status status = notNull(
        {{session, "session"}, {ids, "ids"}, {sampler, "sampler"}, {id, "id"}});
    if (!status.ok())
      return status;
    SamplerUse use(sampler->object.get());
    if (status = first({checkCount(count, "count"), use.status()});
        !status.ok())
      return status;
    Result<int32_t> drawn = session->object->draw(
        ids, static_cast<int64_t>(count), *sampler->object);
    if (drawn.ok())
      *id = *drawn;
    return drawn.status();
  });
}

cria_status cria_session_set_lora(cria_session *session,
                                  const cria_lora_set *set, cria_error *error) {
  return guarded(error, [&] {
    Status status = notNull(session, "session");
    return status.ok() ? session->object->setLoras(set ? set->object : nullptr)
                       : status;
  });
}

cria_status cria_session_position(const cria_session *session,
                                  int64_t *position, cria_error *error) {
  return guarded(error, [&] {
    Status status = notNull({{session, "session"}, {position, "position"}});
    if (status.ok())
      *position = session->object->position();
    return status;
  });
}

cria_status cria_session_rewind(cria_session *session, int64_t position,
                                cria_error *error) {
  return guarded(error, [&] {
    Status status = notNull(session, "session");
    return status.ok() ? session->object->rewind(position) : status;
  });
}

cria_status cria_session_drop(cria_session *session, int64_t begin, int64_t end,
                              cria_error *error) {
  return guarded(error, [&] {
    Status status = notNull(session, "session");
    return status.ok() ? session->object->drop(begin, end) : status;
  });
}

cria_status cria_session_state_size(const cria_session *session, size_t *size,
                                    cria_error *error) {
  return guarded(error, [&] {
    Status status = notNull({{session, "session"}, {size, "size"}});
    if (status.ok())
      *size = session->object->stateBytes();
    return status;
  });
}

cria_status cria_session_save(const cria_session *session, void *state,
                              size_t capacity, cria_error *error) {
  return guarded(error, [&] {
    Status status = notNull({{session, "session"}, {state, "state"}});
    if (!status.ok())
      return status;
    size_t size = session->object->stateBytes();
    if (capacity < size)
      return Status(CRIA_INVALID_ARGUMENT,
                    {"capacity is ", capacity, " bytes, expected ", size});
    return session->object->save(static_cast<std::byte *>(state));
  });
}

cria_status cria_session_restore(cria_session *session, const void *state,
                                 size_t size, cria_error *error) {
  return guarded(error, [&] {
    Status status = notNull({{session, "session"}, {state, "state"}});
    if (!status.ok())
      return status;
    return session->object->restore(static_cast<const std::byte *>(state),
                                    size);
  });
}

cria_status cria_session_copy(const cria_session *from, cria_session *to,
                              cria_error *error) {
  return guarded(error, [&] {
    Status status = notNull({{from, "from"}, {to, "to"}});
    return status.ok() ? to->object->copy(*from->object) : status;
  });
}

cria_status cria_session_cancel(cria_session *session) {
  if (!session)
    return CRIA_INVALID_ARGUMENT;
  session->object->cancel();
  return CRIA_OK;
}

cria_status cria_session_resume(cria_session *session) {
  if (!session)
    return CRIA_INVALID_ARGUMENT;
  session->object->resume();
  return CRIA_OK;
}

cria_status cria_session_get_timings(const cria_session *session,
                                     cria_session_timings *timings,
                                     cria_error *error) {
  return guarded(error, [&] {
    Status status = notNull(session, "session");
    if (!status.ok())
      return status;
    const PhaseTime &prefill = session->object->prefillTime();
    const PhaseTime &decode = session->object->decodeTime();
    cria_session_timings known = {};
    known.prefill_seconds = prefill.seconds;
    known.prefill_tokens = prefill.tokens;
    known.decode_seconds = decode.seconds;
    known.decode_tokens = decode.tokens;
    return writeStruct(known, timings, "timings");
  });
}
