#include "runtime/text/Handles.h"

#include "runtime/text/Generation.h"

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
};

cria_status cria_tokenizer_open(const char *path, cria_tokenizer **tokenizer,
                                cria_error *error) {
  return guarded(error, [&] {
    Status status =
        first({notNull(path, "path"), notNull(tokenizer, "tokenizer")});
    if (!status.ok())
      return status;
    *tokenizer = nullptr;
    Result<Tokenizer> loaded = Tokenizer::load(path);
    if (!loaded.ok())
      return loaded.status();
    *tokenizer = new cria_tokenizer{
        std::make_shared<const Tokenizer>(std::move(*loaded))};
    return Status();
  });
}

void cria_tokenizer_free(cria_tokenizer **tokenizer) { freeHandle(tokenizer); }

static cria_status encode(const cria_tokenizer *tokenizer, const char *text,
                          size_t size, bool special, bool parseSpecial,
                          int32_t **ids, size_t *count, cria_error *error) {
  return guarded(error, [&] {
    Status status =
        first({notNull(tokenizer, "tokenizer"), notNull(text, "text"),
               notNull(ids, "ids"), notNull(count, "count")});
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

cria_status cria_stream_create(const cria_tokenizer *tokenizer, int special,
                               cria_stream **stream, cria_error *error) {
  return guarded(error, [&] {
    Status status =
        first({notNull(tokenizer, "tokenizer"), notNull(stream, "stream")});
    if (!status.ok())
      return status;
    *stream = nullptr; // should there be no memory
    *stream = new cria_stream{tokenizer->object,
                              TextStream(*tokenizer->object, special != 0), ""};
    return status;
  });
}

void cria_stream_free(cria_stream **stream) { freeHandle(stream); }

/// Makes `decoded` what the stream returns.
static Status take(Result<std::string> decoded, cria_stream &stream,
                   const char **text) {
  stream.text = decoded.ok() ? std::move(*decoded) : "";
  *text = stream.text.c_str();
  return decoded.status();
}

cria_status cria_stream_push(cria_stream *stream, int32_t id, const char **text,
                             cria_error *error) {
  return guarded(error, [&] {
    Status status = first({notNull(stream, "stream"), notNull(text, "text")});
    return status.ok() ? take(stream->object.push(id), *stream, text) : status;
  });
}

cria_status cria_stream_finish(cria_stream *stream, const char **text,
                               cria_error *error) {
  return guarded(error, [&] {
    Status status = first({notNull(stream, "stream"), notNull(text, "text")});
    return status.ok() ? take(stream->object.finish(), *stream, text) : status;
  });
}

cria_status cria_generation_open(const char *folder,
                                 cria_generation **generation,
                                 cria_error *error) {
  return guarded(error, [&] {
    Status status =
        first({notNull(folder, "folder"), notNull(generation, "generation")});
    if (!status.ok())
      return status;
    *generation = nullptr;
    Result<Generation> loaded = Generation::load(folder);
    if (loaded.ok())
      *generation = new cria_generation{std::move(*loaded)};
    return loaded.status();
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
    // A checkpoint's top_p of 0 leaves the likeliest id alone, as the smallest
    // number does; in cria_sampler_options, 0 is off.
    double topP = std::max(asked.topP, std::numeric_limits<double>::min());
    return writeStruct<cria_sampler_options>(
        {0, asked.temperature, asked.topK, topP, asked.minP,
         asked.repetitionPenalty, asked.seed},
        options, "options");
  });
}

int cria_generation_ends(const cria_generation *generation, int32_t id) {
  return generation && generation->object.ends(id);
}
