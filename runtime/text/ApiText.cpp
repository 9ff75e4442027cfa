#include "runtime/text/Handles.h"

#include "runtime/base/Json.h"
#include "runtime/text/Generation.h"
#include "runtime/text/GenerationKeys.h"
#include "runtime/text/tokenizer/TextStream.h"

#include <algorithm>
#include <limits>

using namespace cria;

struct cria_stream {
  std::shared_ptr<const Tokenizer> tokenizer;
  TextStream object;
  std::string text;
};

struct cria_generation {
  Generation object;
  std::vector<int32_t> ends;
  std::vector<const char *> stops; // of `object`
};

cria_status cria_tokenizer_open(const char *path, cria_tokenizer **tokenizer,
                                cria_error *error) {
  return guarded(error, [&] {
    Status status = notNull({{path, "path"}, {tokenizer, "tokenizer"}});
    if (!status.ok())
      return status;
    *tokenizer = nullptr;
    Result<Tokenizer> loaded = Tokenizer::load(path);
    if (!loaded.ok())
      return loaded.status();
    *tokenizer = new cria_tokenizer{
        std::make_shared<const Tokenizer>(std::move(*loaded)), {}, nullptr};
    return Status();
  });
}

void cria_tokenizer_free(cria_tokenizer **tokenizer) { freeHandle(tokenizer); }

static cria_status encode(const cria_tokenizer *tokenizer, const char *text,
                          size_t size, bool special, bool parseSpecial,
                          int32_t **ids, size_t *count, cria_error *error) {
  return guarded(error, [&] {
    Status status = notNull({{tokenizer, "tokenizer"},
                             {text, "text"},
                             {ids, "ids"},
                             {count, "count"}});
    if (!status.ok())
      return status;
    return copyIds(tokenizer->object->encode(std::string_view(text, size),
                                             special, parseSpecial),
                   ids, count);
  });
}

cria_status cria_tokenizer_encode(const cria_tokenizer *tokenizer,
                                  const char *text, size_t size, int special,
                                  int32_t **ids, size_t *count,
                                  cria_error *error) {
  return encode(tokenizer, text, size, special != 0, true, ids, count, error);
}

cria_status cria_tokenizer_encode_text(const cria_tokenizer *tokenizer,
                                       const char *text, size_t size,
                                       int special, int32_t **ids,
                                       size_t *count, cria_error *error) {
  return encode(tokenizer, text, size, special != 0, false, ids, count, error);
}

cria_status cria_tokenizer_decode(const cria_tokenizer *tokenizer,
                                  const int32_t *ids, size_t count, int special,
                                  char **text, cria_error *error) {
  return guarded(error, [&] {
    Status status =
        first({notNull(tokenizer, "tokenizer"), notNull(text, "text"),
               count ? notNull(ids, "ids") : Status()});
    if (!status.ok())
      return status;
    *text = nullptr;
    Result<std::string> decoded = tokenizer->object->decode(
        std::vector<int32_t>(ids, ids + count), special != 0);
    if (decoded.ok())
      *text =
          static_cast<char *>(copyOut(decoded->c_str(), decoded->size() + 1));
    return decoded.status();
  });
}

cria_status cria_tokenizer_vocab_size(const cria_tokenizer *tokenizer,
                                      int64_t *size, cria_error *error) {
  return guarded(error, [&] {
    Status status = notNull({{tokenizer, "tokenizer"}, {size, "size"}});
    if (status.ok())
      *size = tokenizer->object->idLimit();
    return status;
  });
}

cria_status cria_tokenizer_token(const cria_tokenizer *tokenizer, int32_t id,
                                 const char **token, cria_error *error) {
  return guarded(error, [&] {
    Status status = notNull({{tokenizer, "tokenizer"}, {token, "token"}});
    if (!status.ok())
      return status;
    const std::string *found = tokenizer->object->token(id);
    *token = found ? found->c_str() : nullptr;
    return found ? status
                 : Status(CRIA_NOT_FOUND,
                          "id " + std::to_string(id) + " has no token");
  });
}

cria_status cria_tokenizer_bytes(const cria_tokenizer *tokenizer, int32_t id,
                                 char **bytes, size_t *size,
                                 cria_error *error) {
  return guarded(error, [&] {
    Status status =
        notNull({{tokenizer, "tokenizer"}, {bytes, "bytes"}, {size, "size"}});
    if (!status.ok())
      return status;
    *bytes = nullptr;
    Result<std::string> found = tokenizer->object->bytes(id);
    if (!found.ok())
      return found.status();
    *bytes = static_cast<char *>(copyOut(found->c_str(), found->size() + 1));
    *size = found->size();
    return status;
  });
}

cria_status cria_tokenizer_find(const cria_tokenizer *tokenizer,
                                const char *token, int32_t *id,
                                cria_error *error) {
  return guarded(error, [&] {
    Status status =
        notNull({{tokenizer, "tokenizer"}, {token, "token"}, {id, "id"}});
    if (!status.ok())
      return status;
    auto found = tokenizer->object->find(token);
    if (!found)
      return Status(CRIA_NOT_FOUND, quote(token) + " is no token");
    *id = *found;
    return status;
  });
}

cria_status cria_stream_create(const cria_tokenizer *tokenizer, int special,
                               cria_stream **stream, cria_error *error) {
  return guarded(error, [&] {
    Status status = notNull({{tokenizer, "tokenizer"}, {stream, "stream"}});
    if (!status.ok())
      return status;
    *stream = nullptr; // in case there is no memory
    *stream = new cria_stream{tokenizer->object,
                              TextStream(*tokenizer->object, special != 0), ""};
    return status;
  });
}

void cria_stream_free(cria_stream **stream) { freeHandle(stream); }

/// Keeps `decoded` in the stream and gives it to the caller.
static Status take(Result<std::string> decoded, cria_stream &stream,
                   const char **text) {
  stream.text = decoded.ok() ? std::move(*decoded) : "";
  *text = stream.text.c_str();
  return decoded.status();
}

cria_status cria_stream_set_stop_strings(cria_stream *stream,
                                         const char *const *strings,
                                         size_t count, const int32_t *prompt,
                                         size_t prompt_count,
                                         cria_error *error) {
  return guarded(error, [&] {
    Status status =
        first({notNull(stream, "stream"),
               count ? notNull(strings, "strings") : Status(),
               prompt_count ? notNull(prompt, "prompt") : Status()});
    for (size_t i = 0; status.ok() && i < count; ++i)
      status = notNull(strings[i], "one of strings");
    return status.ok() ? stream->object.stopAt({strings, strings + count},
                                               {prompt, prompt + prompt_count})
                       : status;
  });
}

int cria_stream_stopped(const cria_stream *stream) {
  return stream && stream->object.stopped();
}

cria_status cria_stream_push(cria_stream *stream, int32_t id, const char **text,
                             cria_error *error) {
  return guarded(error, [&] {
    Status status = notNull({{stream, "stream"}, {text, "text"}});
    return status.ok() ? take(stream->object.push(id), *stream, text) : status;
  });
}

cria_status cria_stream_finish(cria_stream *stream, const char **text,
                               cria_error *error) {
  return guarded(error, [&] {
    Status status = notNull({{stream, "stream"}, {text, "text"}});
    return status.ok() ? take(stream->object.finish(), *stream, text) : status;
  });
}

cria_status cria_generation_open(const char *folder,
                                 cria_generation **generation,
                                 cria_error *error) {
  return cria_generation_open_allowing(folder, nullptr, 0, generation, error);
}

const char *cria_generation_keys(void) {
  try {
    static const std::string text = generationKeysText();
    return text.c_str();
  } catch (const std::bad_alloc &) {
    return "";
  }
}

cria_status cria_generation_open_allowing(const char *folder,
                                          const char *const *allowed,
                                          size_t count,
                                          cria_generation **generation,
                                          cria_error *error) {
  return guarded(error, [&] {
    Status status = notNull({{folder, "folder"}, {generation, "generation"}});
    if (status.ok() && count > 0)
      status = notNull({{allowed, "allowed"}});
    for (size_t i = 0; status.ok() && i < count; ++i)
      status = notNull({{allowed[i], "a key of allowed"}});
    if (!status.ok())
      return status;
    *generation = nullptr;
    Result<Generation> loaded =
        Generation::load(folder, {allowed, allowed + count});
    if (!loaded.ok())
      return loaded.status();
    std::vector<int32_t> ends(loaded->eos.begin(), loaded->eos.end());
    auto made = std::make_unique<cria_generation>(
        cria_generation{std::move(*loaded), std::move(ends), {}});
    for (const std::string &text : made->object.stopStrings)
      made->stops.push_back(text.c_str());
    *generation = made.release();
    return status;
  });
}

void cria_generation_free(cria_generation **generation) {
  freeHandle(generation);
}

cria_status cria_generation_options(const cria_generation *generation,
                                    cria_sampler_options *options,
                                    cria_error *error) {
  return guarded(error, [&] {
    SamplerOptions asked =
        generation ? generation->object.defaults() : SamplerOptions();
    // With a top_p of 0, a checkpoint keeps only the likeliest id, as with the
    // smallest positive number. In cria_sampler_options, 0 means off.
    double topP = std::max(asked.topP, std::numeric_limits<double>::min());
    return writeStruct<cria_sampler_options>(
        {0, asked.temperature, asked.topK, topP, asked.minP,
         asked.repetitionPenalty, asked.seed, asked.presencePenalty,
         asked.frequencyPenalty, asked.penaltyWindow},
        options, "options");
  });
}

cria_status cria_generation_begin(const cria_generation *generation,
                                  int32_t *id, cria_error *error) {
  return guarded(error, [&] {
    Status status = notNull({{generation, "generation"}, {id, "id"}});
    if (!status.ok())
      return status;
    if (!generation->object.bos)
      return Status(CRIA_NOT_FOUND, "no id begins a text");
    *id = static_cast<int32_t>(*generation->object.bos);
    return status;
  });
}

cria_status cria_generation_end_ids(const cria_generation *generation,
                                    const int32_t **ids, size_t *count,
                                    cria_error *error) {
  return guarded(error, [&] {
    Status status =
        notNull({{generation, "generation"}, {ids, "ids"}, {count, "count"}});
    if (!status.ok())
      return status;
    *ids = generation->ends.data();
    *count = generation->ends.size();
    return status;
  });
}

cria_status cria_generation_stop_strings(const cria_generation *generation,
                                         const char *const **strings,
                                         size_t *count, cria_error *error) {
  return guarded(error, [&] {
    Status status = notNull(
        {{generation, "generation"}, {strings, "strings"}, {count, "count"}});
    if (!status.ok())
      return status;
    *strings = generation->stops.data();
    *count = generation->stops.size();
    return status;
  });
}

cria_status cria_generation_get_limits(const cria_generation *generation,
                                       cria_generation_limits *limits,
                                       cria_error *error) {
  return guarded(error, [&] {
    Status status = notNull(generation, "generation");
    if (!status.ok())
      return status;
    const Generation &known = generation->object;
    return writeStruct<cria_generation_limits>(
        {0, known.maxNewTokens.value_or(-1), known.maxLength.value_or(-1)},
        limits, "limits");
  });
}

int cria_generation_ends(const cria_generation *generation, int32_t id) {
  return generation && generation->object.ends(id);
}
