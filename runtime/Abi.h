/* What compiled code and the runtime agree on: the only header both include.
 *
 * An artifact is an ELF shared object followed by a footer. The object exports
 * the entry functions its manifest names, each a CriaEntry, and needs no
 * library. Its manifest is UTF-8 JSON in the section ".cria.manifest".
 */
#ifndef CRIA_RUNTIME_ABI_H
#define CRIA_RUNTIME_ABI_H

#include <stdint.h>

/* The format of artifact, manifest and entry functions. A change of any of
 * them changes this number. */
#define CRIA_FORMAT_VERSION 17u

/* The functions that the object may take from the process, and its SONAME. The
 * runtime refuses an object with any others. */
#define CRIA_IMPORTS                                                           \
  { "memcpy", "memmove", "memset" }
#define CRIA_SONAME "cria"

#define CRIA_FOOTER_MAGIC "CRIAFOOT"

/* The last bytes of an artifact, little-endian. */
typedef struct CriaFooter {
  char magic[8];            /* CRIA_FOOTER_MAGIC, no terminator */
  uint32_t format_version;  /* CRIA_FORMAT_VERSION */
  uint32_t footer_size;     /* sizeof(CriaFooter) */
  uint64_t manifest_offset; /* from the start of the file */
  uint64_t manifest_size;   /* bytes, no terminator */
  uint64_t file_size;       /* the whole file, this footer included */
  uint64_t checksum;        /* criaFnv1a64 of every byte before this field */
} CriaFooter;

/* FNV-1a of `size` bytes, 64 bits wide, continued from `hash`; start with
 * CRIA_FNV_OFFSET. Each step is a bijection of the state, so any one changed
 * byte changes the result. */
#define CRIA_FNV_OFFSET 0xcbf29ce484222325u
static inline uint64_t criaFnv1a64(uint64_t hash, const void *data,
                                   uint64_t size) {
  const unsigned char *bytes = (const unsigned char *)data;
  for (uint64_t i = 0; i < size; ++i)
    hash = (hash ^ bytes[i]) * 0x100000001b3u;
  return hash;
}

/* The body of a parallel loop: iterations [begin, end) over `context`. */
typedef void (*CriaParallelBody)(void *context, int64_t begin, int64_t end);

/* What the host lends to compiled code. */
typedef struct CriaHost {
  /* Runs `body` over [0, count): the threads take one contiguous range each,
   * and the call returns when all are done. Not reentrant. */
  void (*parallel_for)(const struct CriaHost *host, CriaParallelBody body,
                       void *context, int64_t count);
  /* Entries call it before each kernel, with the kernel's number in the
   * manifest's "kernels". The kernel before it has then ended. */
  void (*enter)(const struct CriaHost *host, int64_t kernel);
  /* Replaces `count` values of `type`, a CRIA_SUM_*, by their sums over all
   * ranks. All ranks call it in the same order. Code for one rank does not call
   * it; then it may be null. */
  void (*all_reduce)(const struct CriaHost *host, void *values, int64_t count,
                     int32_t type);
} CriaHost;

/* The types of values that are summed over ranks. */
#define CRIA_SUM_F32 0

/* An entry function: the forward pass of `tokens` tokens at positions
 * position, position + 1, ... The decode entry takes tokens = 1; the prefill
 * entry at most the manifest's "chunk". The encode entry, if there is one, runs
 * the source text at position 0, also of at most "chunk" tokens, and leaves in
 * the caches what the other entries attend to.
 *
 *   ids     (tokens), each in [0, vocab)
 *   logits  (tokens - first_logit, columns) f32: the logits of tokens
 *           first_logit and later. There are as many columns as ids; if ranks
 *           share the vocabulary, only this rank's part of them. first_logit
 *           may equal tokens: then nothing is written. The decode entry takes
 *           first_logit = 0, the encode entry writes no logits
 *   hidden  (tokens - first_hidden, hidden) f32: the hidden states of tokens
 *           first_hidden and later. first_hidden may equal tokens: then nothing
 *           is written. The decode entry writes no hidden states, and no entry
 *           does unless the manifest's "model" has "hidden"
 *   source  the tokens of the text that was encoded; 0 without an encode entry.
 *           If the manifest's "model" has "sees_ahead": how many tokens after
 *           its own a token sees
 *   caches  one pointer for each of the manifest's "caches", 64-byte aligned,
 *           updated in place
 *   arena   the "arena" bytes of scratch that the manifest has for this code,
 *           64-byte aligned; nothing in it outlives the call
 *   slots   the manifest's "slots" pointers: every weight, layer after layer,
 *           aligned to its element, and the rope tables
 */
typedef void (*CriaEntry)(const int32_t *ids, int64_t tokens, int64_t position,
                          int64_t first_logit, int64_t first_hidden,
                          int64_t source, float *logits, float *hidden,
                          void *const *caches, void *arena,
                          const void *const *slots, const CriaHost *host);

/* An entry function over paged caches, if the manifest has "batch". Position p
 * of a text lies in place p % page of page pages[p / page] of every cache; of
 * caches with a "window", of page window_pages[p / page]. The prefill entry
 * takes `rows` tokens of one text from positions[0] on, at most "chunk". The
 * batch entry takes at most "rows" tokens, each with a position and tables of
 * pages, no two at one place. All tokens are put into their pages first; then
 * each attends to its own text up to its position. Tokens may be of one text,
 * at positions one after the other. The bits of a token's result do not depend
 * on the other tokens but those of its text that it sees.
 *
 *   positions  (rows); the prefill entry reads only the first one
 *   pages      (rows, width) of batch, (width) of prefill: numbers of pages,
 *              "width" of them for a text. The numbers after the page of the
 *              text's last position are not read
 *   window_pages  likewise, if a cache has a "window". Pages whose positions
 *              are all before the window of the text's first token of the call
 *              are any pages that hold finite numbers, and are not changed
 *   states     (rows, 2) of batch, (2) of prefill: the numbers of the states
 *              that a token's text reads and writes, if a cache is a "state".
 *              They may be equal. A token reads what an earlier one wrote; none
 *              writes a state that a token of another text reads or writes
 *   source     how many tokens after its own a token of prefill sees, if the
 *              manifest's "model" has "sees_ahead"
 *   caches     one pointer to pages, or states, for each of the manifest's
 *              "caches", whose "bytes" are those of one, 64-byte aligned. What
 * a state holds before position 0 is not used. Places after a text's last
 * position are read, but do not change the result: they must hold finite
 * numbers, such as zeros
 */
typedef void (*CriaBatchEntry)(const int32_t *ids, int64_t rows,
                               const int32_t *positions, const int32_t *pages,
                               const int32_t *window_pages,
                               const int32_t *states, int64_t first_logit,
                               int64_t first_hidden, int64_t source,
                               float *logits, float *hidden,
                               void *const *caches, void *arena,
                               const void *const *slots, const CriaHost *host);

/* Code for CUDA: the manifest's "cuda" lists its images, which are exported
 * data symbols (packed by zstd), and the kernels to launch for each entry.
 * All parameters of a kernel are device addresses. The ids of a step have
 * memory of their own, and so have the positions, pages and states of a batch;
 * logits and hidden states are those of a CriaEntry or a CriaBatchEntry. */

/* How an id is drawn from a row of logits. Every device draws the same id,
 * because all sums are sums of integers:
 *
 *   score   the logit; if the id was seen, divided by `penalty` if positive,
 *           multiplied by `penalty` if negative; then, if it was drawn n > 0
 *           times, less n * `frequency`, less `presence`; all in f32
 *   weight  2^(y + CRIA_WEIGHT_BITS) as an integer, where y = (score - best
 *           score) * scale and 2^y is computed in f32: `weigh` in Sampler.h
 *
 * First, the ids whose score is at least the top_k-th are kept. Of these, the
 * fewest ids of the largest scores that hold top_p of the weight are kept; ids
 * of equal score are all kept or all dropped. Then ids of a weight below
 * min_weight are dropped. The weights of the ids that are left sum to S. Drawn
 * is the first id whose weight, with the weights of lower ids, sums to more
 * than r * S / 2^64. The number r is splitmix64's: `random`, its state, grows
 * by CRIA_RANDOM_STEP, and each {shift, factor} of CRIA_RANDOM_MIX turns r,
 * which is the state at first, into (r ^ r >> shift) * factor. */
#define CRIA_WEIGHT_BITS 38
#define CRIA_MAX_VOCAB (1 << 24) /* so that S is below 2^63 */

/* ln(2)^k / k! for k = 7 to 0: 2^x for |x| <= 1/2, relative error 6e-9. */
#define CRIA_POWER_SERIES                                                      \
  {                                                                            \
    1.525273380e-5f, 1.540353039e-4f, 1.333355815e-3f, 9.618129108e-3f,        \
        5.550410866e-2f, 2.402265070e-1f, 6.931471806e-1f, 1.0f                \
  }

#define CRIA_RANDOM_STEP 0x9E3779B97F4A7C15u
#define CRIA_RANDOM_MIX                                                        \
  {                                                                            \
    {30, 0xBF58476D1CE4E5B9u}, {27, 0x94D049BB133111EBu}, { 31, 1u }           \
  }

typedef struct CriaSampling {
  uint64_t random;     /* splitmix64 before the draw */
  uint64_t top_p;      /* times 2^64; all ones: every id */
  uint64_t min_weight; /* as a weight */
  float scale;         /* log2(e) / temperature */
  float penalty;       /* 1: none */
  float presence;      /* 0: none */
  float frequency;     /* 0: none */
  int32_t top_k;       /* 0: every id */
  int32_t greedy;      /* not 0: the lowest id of the best score */
  int32_t seen;        /* where the ids that were seen begin, below; 0: none */
  int32_t zero;
} CriaSampling;

/* The ids of texts that were seen, as i32, for the entry "sample". For each
 * CRIA_SEEN_TILE ids of the vocabulary, how many ids before them were seen, and
 * last how many were seen in all; then each of these ids, ascending, and how
 * often it was drawn. */
#define CRIA_SEEN_TILE 1024

/* The result of the entry "sample". A session has two, and draws into the one
 * of the step's position modulo 2. */
typedef struct CriaSampled {
  int32_t id;     /* drawn, or the lowest whose score is not finite */
  int32_t broken; /* not 0: the score of `id` is not finite */
  float logit;    /* of that id */
  int32_t zero;
} CriaSampled;

/* What a kernel reads of the step, in device memory, 64-byte aligned. In a
 * session the entry "sample" turns it into the state of the next step: the
 * position is one more, and if the id was drawn at random, `random` is the next
 * state. The entry also puts the id where the next step reads its ids. */
typedef struct CriaStepState {
  int32_t position;      /* of the first token */
  int32_t tokens;        /* of this call */
  int32_t first_logit;   /* logits are wanted of this token and later */
  int32_t source;        /* as of CriaEntry and CriaBatchEntry */
  CriaSampling sampling; /* for the entry "sample" */
  int32_t first_hidden;  /* hidden states are wanted of this token and later */
  int32_t zero;
} CriaStepState;

#endif
