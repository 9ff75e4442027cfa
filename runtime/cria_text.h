/* The C API of text: ids of text and text of ids, chat templates, and what a
 * checkpoint says of generating text.
 *
 *   tokenizer   text to ids and back; a stream decodes ids as they come
 *   chat        a conversation to text or ids
 *   grammar     which ids may come next in a text of some form
 *   generation  how a checkpoint wants ids drawn, and what ends a text
 *
 * These functions are in libcria-text (-lcria-text), which needs PCRE2 and
 * utf8proc, and not libcria. A program that generates text from text links
 * both: -lcria-text -lcria. The rules at the head of cria.h hold here, too.
 * cria_version and cria_status_name are in either library.
 */
#ifndef CRIA_RUNTIME_CRIA_TEXT_H
#define CRIA_RUNTIME_CRIA_TEXT_H

#include "cria.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Tokenizers -------------------------------------------------------- */

typedef struct cria_tokenizer cria_tokenizer;

/* Reads a Hugging Face tokenizer.json with a BPE, Unigram or WordPiece model,
 * of at most 256 MiB, or the tokenizer of a file.gguf. A part of the file that
 * would change the ids and is not supported is CRIA_UNIMPLEMENTED. The work for
 * a text is bounded, whatever the file and the text; a call that needs more is
 * CRIA_INVALID_ARGUMENT. */
CRIA_API cria_status cria_tokenizer_open(const char *path,
                                         cria_tokenizer **tokenizer,
                                         cria_error *error);
CRIA_API void cria_tokenizer_free(cria_tokenizer **tokenizer);

/* One more than the largest id that has a token. The model's vocabulary, of
 * cria_artifact_info, may be larger, but not smaller. */
CRIA_API cria_status cria_tokenizer_vocab_size(const cria_tokenizer *tokenizer,
                                               int64_t *size,
                                               cria_error *error);

/* The token `id` as the file spells it, which is not its text: byte-level BPE
 * spells a space as U+0120, and SentencePiece as U+2581. Lives as long as the
 * tokenizer. CRIA_NOT_FOUND: the id has none. */
CRIA_API cria_status cria_tokenizer_token(const cria_tokenizer *tokenizer,
                                          int32_t id, const char **token,
                                          cria_error *error);

/* The bytes that `id` adds to a text that has begun: of a special token, too,
 * and maybe a part of a character; none if the id has no token. `bytes` is
 * malloc'ed, and a NUL follows its `size` bytes: free() it. */
CRIA_API cria_status cria_tokenizer_bytes(const cria_tokenizer *tokenizer,
                                          int32_t id, char **bytes,
                                          size_t *size, cria_error *error);

/* The id of the token that the file spells this way, such as "<|im_end|>";
 * CRIA_NOT_FOUND if there is none. */
CRIA_API cria_status cria_tokenizer_find(const cria_tokenizer *tokenizer,
                                         const char *token, int32_t *id,
                                         cria_error *error);

/* The ids of `size` bytes of text; with `special`, also the ids that the
 * tokenizer's post-processor adds. `ids` is malloc'ed: free() it. */
CRIA_API cria_status cria_tokenizer_encode(const cria_tokenizer *tokenizer,
                                           const char *text, size_t size,
                                           int special, int32_t **ids,
                                           size_t *count, cria_error *error);

/* The same for text of users: special tokens that are written in it, such as
 * "<|im_end|>", stay text. (llama.cpp without `parse_special` and tokenizers
 * with `encode_special_tokens` do the same.) */
CRIA_API cria_status cria_tokenizer_encode_text(const cria_tokenizer *tokenizer,
                                                const char *text, size_t size,
                                                int special, int32_t **ids,
                                                size_t *count,
                                                cria_error *error);

/* The text of `ids`, without special tokens unless `special`; ids that have no
 * token are left out. NUL-terminated and malloc'ed: free() it. If the ids stand
 * for a NUL character, a C string ends there. */
CRIA_API cria_status cria_tokenizer_decode(const cria_tokenizer *tokenizer,
                                           const int32_t *ids, size_t count,
                                           int special, char **text,
                                           cria_error *error);

/* Decodes ids one by one; the texts together are that of cria_tokenizer_decode.
 * Never splits a character. */
typedef struct cria_stream cria_stream;

/* A stream for one text; with `special`, special tokens are a part of it. It
 * keeps the tokenizer alive. */
CRIA_API cria_status cria_stream_create(const cria_tokenizer *tokenizer,
                                        int special, cria_stream **stream,
                                        cria_error *error);
CRIA_API void cria_stream_free(cria_stream **stream);

/* From now on, the first of `count` stop strings that occurs ends the text, and
 * text that may become one of them is held back. They replace the strings set
 * before, whose held text comes with the next id; a count of 0 sets none. A
 * string may begin in `prompt`, the ids before those that are pushed from now
 * on. Strings are found in the bytes of tokens, special ones too, wherever
 * tokens begin and end. An empty string is CRIA_INVALID_ARGUMENT. */
CRIA_API cria_status cria_stream_set_stop_strings(
    cria_stream *stream, const char *const *strings, size_t count,
    const int32_t *prompt, size_t prompt_count, cria_error *error);

/* Whether the last id has completed a stop string: 1 or 0. The text then ends
 * before the string, and ids that are pushed after it add no text. */
CRIA_API int cria_stream_stopped(const cria_stream *stream);

/* The text that `id` completes, "" for none; lives until the next call. */
CRIA_API cria_status cria_stream_push(cria_stream *stream, int32_t id,
                                      const char **text, cria_error *error);
/* The rest, after the last id, with the same lifetime. Then the stream is like
 * a new one, without stop strings. */
CRIA_API cria_status cria_stream_finish(cria_stream *stream, const char **text,
                                        cria_error *error);

/* ---- Chat -------------------------------------------------------------- */

/* The template by which a checkpoint's folder writes a conversation as text:
 * chat_template.jinja, or the one in chat_template.json, or the one in
 * tokenizer_config.json. It is interpreted, and reaches nothing outside of it.
 * A rendering that takes more than a second or so, or more than 256 MiB, or
 * nests too deeply, is CRIA_RESOURCE_EXHAUSTED. */
typedef struct cria_chat cria_chat;

/* CRIA_NOT_FOUND if the folder, or file.gguf, has no template. */
CRIA_API cria_status cria_chat_open(const char *folder, cria_chat **chat,
                                    cria_error *error);

/* The template of `size` bytes of UTF-8 at `source`. It has no special tokens:
 * give those that it names, such as "bos_token", among the variables. */
CRIA_API cria_status cria_chat_parse(const char *source, size_t size,
                                     cria_chat **chat, cria_error *error);
CRIA_API void cria_chat_free(cria_chat **chat);

/* The text for `variables`, a JSON object: "messages", a list of objects with
 * "role" and "content", "add_generation_prompt", "tools" and others that the
 * template reads. Like all JSON, it may have 16 MiB and 500,000 values, nested
 * 64 deep; an object with a key twice is an error. Integers of up to 127 bits
 * are exact; larger ones are CRIA_UNIMPLEMENTED. The text has the special
 * tokens. But if it is encoded, special tokens written in the messages count as
 * well: cria_chat_encode avoids that. The text is NUL-terminated and
 * malloc'ed: free() it. */
CRIA_API cria_status cria_chat_render(const cria_chat *chat,
                                      const char *variables, char **text,
                                      cria_error *error);

/* The ids of the text for `variables`, in which only the template writes
 * special tokens. No byte of a special token comes from a text in `variables`,
 * keys included, however the template cuts, joins or changes it. Two
 * exceptions: a member "..._token" of `variables` counts as the template's, and
 * the "role" of a message may be a part of a token that the template begins, as
 * in '<|' + role + '|>'. `ids` is malloc'ed: free() it. */
CRIA_API cria_status cria_chat_encode(const cria_chat *chat,
                                      const cria_tokenizer *tokenizer,
                                      const char *variables, int32_t **ids,
                                      size_t *count, cria_error *error);

/* ---- Grammars ---------------------------------------------------------- */

/* What the text of a grammar is written in; docs/steer.md has the details. */
typedef enum cria_grammar_kind {
  CRIA_GRAMMAR_JSON_SCHEMA = 0, /* a JSON Schema: texts are JSON values that it
                                   describes. {} is any JSON value, and
                                   {"type": "object"} any object */
  CRIA_GRAMMAR_GBNF = 1,        /* rules in the notation of llama.cpp */
  CRIA_GRAMMAR_REGEX = 2        /* a regular expression of the whole text */
} cria_grammar_kind;

/* The texts that a model may write, over the tokens of a tokenizer. Many
 * threads may use one at once. */
typedef struct cria_grammar cria_grammar;

/* Reads a grammar of `size` bytes; `kind` is a cria_grammar_kind. `end_ids` are
 * the ids that end a text, such as those of cria_generation_end_ids: they may
 * come where the text is complete, and there alone. Grammars may come from
 * anybody: one that is wrong is CRIA_INVALID_ARGUMENT, a part that is not
 * supported CRIA_UNIMPLEMENTED, and one that is too large
 * CRIA_RESOURCE_EXHAUSTED; the error names the place. The first grammar of a
 * tokenizer sorts its tokens, which takes longer than the rest. */
CRIA_API cria_status cria_grammar_create(const cria_tokenizer *tokenizer,
                                         int32_t kind, const char *source,
                                         size_t size, const int32_t *end_ids,
                                         size_t end_count,
                                         cria_grammar **grammar,
                                         cria_error *error);
CRIA_API void cria_grammar_free(cria_grammar **grammar);

/* One text of a grammar, as far as it has come. A matcher belongs to one thread
 * at a time, and keeps its grammar alive. The grammar remembers states and
 * masks of all its texts; an idle matcher keeps only its own state, so matchers
 * may wait in any number. */
typedef struct cria_matcher cria_matcher;

/* A matcher before the first id of a text. */
CRIA_API cria_status cria_matcher_create(const cria_grammar *grammar,
                                         cria_matcher **matcher,
                                         cria_error *error);

/* Another matcher of the same text. It costs some bytes, however long the text
 * is: make one for each of several continuations, or to try ids. The copy may
 * go to another thread. */
CRIA_API cria_status cria_matcher_copy(const cria_matcher *from,
                                       cria_matcher **matcher,
                                       cria_error *error);
CRIA_API void cria_matcher_free(cria_matcher **matcher);

/* Writes the ids that may come next, as cria_sampler_allow takes them: the bit
 * of id i is bits[i / 32] >> i % 32 & 1. `words` is (vocab_size + 31) / 32 for
 * the model's vocab_size. The tokenizer may have more ids than the model: ids
 * that `words` words have no bits for may not come. Special tokens may not
 * come, except for end ids. CRIA_FAILED_PRECONDITION: no id may come, because
 * the text has ended, or the vocabulary cannot spell what the grammar wants.
 * The work for a mask and its memory are bounded; a grammar that needs more is
 * CRIA_RESOURCE_EXHAUSTED. After an error all bits are 0, and the text is as it
 * was. Call this while the session or the batch computes, in another thread:
 * the mask depends on the accepted ids alone. */
CRIA_API cria_status cria_matcher_mask(cria_matcher *matcher, uint32_t *bits,
                                       size_t words, cria_error *error);

/* Writes up to `most` ids that probably come next, and their number into
 * `count`: where the grammar has the text go on in one way alone, as in the
 * name of a property, the longest tokens that spell it. A model may spell it by
 * other tokens, so they are no more than ids to try: cria_batch_propose. Stops
 * where going on takes more work than a token may. */
CRIA_API cria_status cria_matcher_forced(cria_matcher *matcher, int32_t *ids,
                                         size_t most, size_t *count,
                                         cria_error *error);

/* Writes the masks after each of `count` ids that may come next, `words` words
 * each, as cria_batch_propose takes them. The text stays as it is. Lowers
 * `count` to the number of ids before the first that may not come, or after
 * which no id may. */
CRIA_API cria_status cria_matcher_masks_after(const cria_matcher *matcher,
                                              const int32_t *ids, size_t *count,
                                              uint32_t *masks, size_t words,
                                              cria_error *error);

/* Takes the next id of the text. CRIA_INVALID_ARGUMENT: the id may not come.
 * CRIA_RESOURCE_EXHAUSTED: the id takes too much work or memory, or the text is
 * nested too deeply. After an error the text is as it was. */
CRIA_API cria_status cria_matcher_accept(cria_matcher *matcher, int32_t id,
                                         cria_error *error);

/* Whether the text so far is one of the grammar: 1 or 0. It may be a beginning
 * of longer ones. */
CRIA_API int cria_matcher_complete(const cria_matcher *matcher);

/* Whether the text is complete and nothing may follow but an end id: 1 or 0. A
 * program can stop here, without drawing an end id. */
CRIA_API int cria_matcher_finished(const cria_matcher *matcher);

/* ---- Generation -------------------------------------------------------- */

/* What a checkpoint's folder says about generating text:
 * generation_config.json, and config.json for keys that it leaves out. Either
 * file may be missing. Or what a file.gguf says about the ids that begin and
 * end a text. */
typedef struct cria_generation cria_generation;

/* Reads these files. A key that would change a text and is not supported is
 * CRIA_UNIMPLEMENTED. */
CRIA_API cria_status cria_generation_open(const char *folder,
                                          cria_generation **generation,
                                          cria_error *error);
CRIA_API void cria_generation_free(cria_generation **generation);

/* Opens the folder as cria_generation_open does, and ignores the `count` keys
 * of generation_config.json that `allowed` names, each a NUL-terminated string.
 */
CRIA_API cria_status cria_generation_open_allowing(const char *folder,
                                                   const char *const *allowed,
                                                   size_t count,
                                                   cria_generation **generation,
                                                   cria_error *error);

/* Every known key of generation_config.json, as Markdown; a constant. */
CRIA_API const char *cria_generation_keys(void);

/* The options that the folder asks for; with `generation` NULL, those of a draw
 * from the plain distribution, temperature 1. */
CRIA_API cria_status cria_generation_options(const cria_generation *generation,
                                             cria_sampler_options *options,
                                             cria_error *error);

/* The id that begins a text; CRIA_NOT_FOUND if there is none. */
CRIA_API cria_status cria_generation_begin(const cria_generation *generation,
                                           int32_t *id, cria_error *error);

/* The ids that end a text; they live as long as `generation`. */
CRIA_API cria_status cria_generation_end_ids(const cria_generation *generation,
                                             const int32_t **ids, size_t *count,
                                             cria_error *error);

/* The strings that end a text as cria_stream_set_stop_strings does; they live
 * as long as `generation`. */
CRIA_API cria_status cria_generation_stop_strings(
    const cria_generation *generation, const char *const **strings,
    size_t *count, cria_error *error);

typedef struct cria_generation_limits {
  size_t size;
  int64_t max_new_tokens; /* ids after the prompt; -1: not given */
  int64_t max_length;     /* ids with the prompt, if `max_new_tokens` is not
                             given; -1: not given either */
} cria_generation_limits;

/* The most ids that the folder asks for. A session may hold fewer: max_seq of
 * cria_artifact_info. */
CRIA_API cria_status
cria_generation_get_limits(const cria_generation *generation,
                           cria_generation_limits *limits, cria_error *error);

/* Whether `id` ends the text: 1 or 0; 0 if `generation` is NULL. */
CRIA_API int cria_generation_ends(const cria_generation *generation,
                                  int32_t id);

#ifdef __cplusplus
}
#endif

#endif
