/* The C API of the Cria runtime: open an artifact, bind a checkpoint to it,
 * make sessions, feed token ids, read logits, sample.
 *
 *   artifact   compiled code and its manifest
 *   model      an artifact bound to the weights of one checkpoint
 *   session    one conversation: KV caches and scratch; shares the model
 *   sampler    logits to the next id
 *   LoRA set   adapters of a model, among which sessions choose
 *   batch      many texts at once, as sequences; shares the model
 *
 * These functions are in libcria (-lcria), which needs the C and C++ libraries
 * alone. Tokenizers and chat templates are in libcria-text: cria_text.h.
 *
 * Rules, for every function of either header:
 *  - It returns CRIA_OK or the reason why not. `error` may be NULL; else it
 *    receives the status and one line of text, "" on success.
 *  - A NULL handle or pointer is CRIA_INVALID_ARGUMENT, unless the function
 *    says what NULL means. A call that fails leaves NULL in the handle it was
 *    to make, unless an argument is NULL or has a wrong `size`.
 *  - No function prints, exits or throws.
 *  - An object keeps the objects alive that it was made from: free them in any
 *    order. A `_free` takes the address of the handle and sets it to NULL; a
 *    second call does nothing. No other call may use the handle meanwhile.
 *  - Artifacts, models, LoRA sets, tokenizers, chats, grammars and generations
 *    may be used by many threads at once. A session, a batch, a stream, a
 *    matcher and a sampler belong to one thread at a time; only
 *    cria_session_cancel and cria_session_resume may be called from another, or
 *    from a signal handler.
 *    A call that uses a sampler while another thread does, in a step of a batch
 *    for example, is CRIA_FAILED_PRECONDITION and does nothing.
 *  - Strings are UTF-8. A returned pointer lives as long as its object, or
 *    until that object's next call if the function says so.
 *  - An artifact is a program: open only artifacts that you trust, as you would
 *    run a program. Weights, configs and tokenizers may come from anybody.
 *    Errors and warnings are printable whatever the files contain: control
 *    characters are escaped.
 *  - A thread that calls needs a stack of CRIA_STACK_BYTES. The functions that
 *    recurse deeply, those of cria_chat, return CRIA_RESOURCE_EXHAUSTED if too
 *    little of it is left.
 *
 * Structs. CRIA_INIT sets every field to 0, which means the default; only
 * cria_lora has no defaults. `size` is the size of the struct in the caller's
 * cria.h, so that program and library may be of different versions:
 *  - A shorter struct than the library's lacks its last fields: they count as
 *    0, and are not written.
 *  - A longer one is accepted if every byte after the library's own is 0.
 *    Otherwise it asks for something that the library does not know:
 *    CRIA_INVALID_ARGUMENT.
 *  - A `size` above 4096, below that of `size` itself, or no multiple of the
 *    struct's alignment is CRIA_INVALID_ARGUMENT: nobody set it. With such an
 *    `error`, a call does nothing, and writes nothing to it.
 *
 * Versions. Releases with one CRIA_VERSION_MAJOR have one ABI: functions and
 * last fields of structs are added, and nothing is taken away or changes its
 * meaning. A function that has a better replacement is marked deprecated, with
 * the release and the replacement. It stays at least until the next major
 * version, whose library has another name (libcria.so.2).
 *
 * State of the process, not of an object. There is no other:
 *  - SIGBUS. The first model on the CPU that maps a checkpoint's files installs
 *    a handler, which stays. If somebody cuts such a file, or its disk fails,
 *    reads return zeros and calls return CRIA_DATA_LOSS. Every other SIGBUS
 *    goes to the previous handler, or has the effect that it had without one.
 *    A program that installs its own handler later replaces this one, and
 *    should pass on signals that are not its own.
 *  - The library. dlclose() does not unload it, for the handler's sake.
 *  - The CUDA driver. The first model on a device loads it; it stays, with the
 *    threads and handlers it makes.
 *  - Ranks. The first cria_ranks_join opens a library of MPI, which stays, and
 *    starts a thread. If the process then waits for the other ranks for longer
 *    than CRIA_MPI_TIMEOUT (60 seconds), this thread prints an error to stderr
 *    and ends the process: nothing else could end the wait.
 *  - AMX. Opening an artifact that needs it asks Linux to let this process use
 *    the tile registers.
 *  - The environment is read, never changed: CRIA_CUDA_DRIVER, CRIA_NCCL,
 *    CRIA_CUDA_TIMEOUT, CRIA_CUDA_IMAGE, CRIA_CUDA_WITHOUT and
 *    CUDA_VISIBLE_DEVICES, when a model is made; CRIA_MPI, CRIA_MPI_TIMEOUT and
 *    what mpirun sets, when ranks are joined. No thread may change it
 * meanwhile.
 *  - fork() copies no threads. The child may use the objects of its parent,
 *    except sessions and models on a GPU; it may make sessions of its own.
 */
#ifndef CRIA_RUNTIME_CRIA_H
#define CRIA_RUNTIME_CRIA_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#ifdef __cplusplus
extern "C" {
#endif

#define CRIA_API __attribute__((visibility("default")))
#define CRIA_VERSION_MAJOR 1
#define CRIA_VERSION_MINOR 0
#define CRIA_VERSION_PATCH 0

/* Why a call failed. The names and numbers are absl's, if it has them. */
typedef enum cria_status {
  CRIA_OK = 0,
  CRIA_CANCELLED = 1,
  CRIA_INVALID_ARGUMENT = 3,
  CRIA_DEADLINE_EXCEEDED = 4,
  CRIA_NOT_FOUND = 5,
  CRIA_PERMISSION_DENIED = 7,
  CRIA_RESOURCE_EXHAUSTED = 8,
  CRIA_FAILED_PRECONDITION = 9,
  CRIA_ABORTED = 10,
  CRIA_OUT_OF_RANGE = 11,
  CRIA_UNIMPLEMENTED = 12,
  CRIA_INTERNAL = 13,
  CRIA_UNAVAILABLE = 14,
  CRIA_DATA_LOSS = 15,
  CRIA_INCOMPATIBLE = 17 /* the artifact is for another runtime or machine */
} cria_status;

/* The stack that a thread needs to call a function of the library. */
#define CRIA_STACK_BYTES 524288

/* The status in words: "INVALID_ARGUMENT". Never NULL. */
CRIA_API const char *cria_status_name(cria_status status);

/* The runtime's version: "1.0.0". */
CRIA_API const char *cria_version(void);

/* Where a function says what went wrong. CRIA_INIT it first. */
typedef struct cria_error {
  size_t size;
  cria_status status;
  char message[1024]; /* one line, NUL-terminated; a longer line is cut between
                         characters */
} cria_error;

/* Readies any struct of this header: cria_error error; CRIA_INIT(&error);
 * Evaluates `pointer` twice. */
#define CRIA_INIT(pointer)                                                     \
  (memset((pointer), 0, sizeof(*(pointer))),                                   \
   (void)((pointer)->size = sizeof(*(pointer))))

/* ---- Artifacts --------------------------------------------------------- */

typedef struct cria_artifact cria_artifact;

/* Copies the file to memory that nobody can change, checks the copy - format,
 * checksum, manifest, CPU, and that loading it runs no code and needs no other
 * library - then loads it. The file may be changed or removed afterwards.
 * CRIA_INVALID_ARGUMENT: no artifact, or one with code that would run when it
 * is loaded; CRIA_DATA_LOSS: a damaged one; CRIA_INCOMPATIBLE: one for another
 * runtime or machine; CRIA_FAILED_PRECONDITION or CRIA_PERMISSION_DENIED: the
 * system has no /proc, or runs no code from memory (the sysctl
 * vm.memfd_noexec). */
CRIA_API cria_status cria_artifact_open(const char *path,
                                        cria_artifact **artifact,
                                        cria_error *error);

/* The same for an artifact of `size` bytes at `data`, which may be freed after
 * the call. */
CRIA_API cria_status cria_artifact_open_memory(const void *data, size_t size,
                                               cria_artifact **artifact,
                                               cria_error *error);

/* The same for the regular file that `descriptor` is open for, read from its
 * beginning. The descriptor stays the caller's; its offset does not change. */
CRIA_API cria_status cria_artifact_open_fd(int descriptor,
                                           cria_artifact **artifact,
                                           cria_error *error);
CRIA_API void cria_artifact_free(cria_artifact **artifact);

/* The manifest, JSON, NUL-terminated. */
CRIA_API cria_status cria_artifact_manifest(const cria_artifact *artifact,
                                            const char **json,
                                            cria_error *error);

typedef struct cria_artifact_info {
  size_t size;
  int64_t vocab_size;
  int64_t max_seq;       /* positions a session holds */
  int64_t chunk;         /* tokens of one prefill call */
  uint64_t weight_bytes; /* of the weights as compiled code reads them */
  uint64_t cache_bytes;  /* KV caches of one session */
  uint64_t arena_bytes;  /* scratch of one session */
  uint64_t file_bytes;   /* of the artifact */
  int64_t hidden_size;   /* numbers of a token's hidden state; 0: the artifact
                            returns none */
} cria_artifact_info;

/* The sizes in the manifest. */
CRIA_API cria_status cria_artifact_get_info(const cria_artifact *artifact,
                                            cria_artifact_info *info,
                                            cria_error *error);

/* Reads the manifest of the file at `path` and loads no code, so that it also
 * works for artifacts that are not trusted, or are for another CPU. `json` is
 * malloc'ed: free() it. `info` may be NULL. */
CRIA_API cria_status cria_artifact_inspect(const char *path, char **json,
                                           cria_artifact_info *info,
                                           cria_error *error);

/* ---- Devices ----------------------------------------------------------- */

/* Where a model's weights lie and its sessions compute. */
typedef enum cria_device {
  CRIA_DEVICE_AUTO = 0, /* the GPU if there is one and the artifact has code
                           for it, else the CPU; a warning says why */
  CRIA_DEVICE_CPU = 1,
  CRIA_DEVICE_CUDA = 2,
  CRIA_DEVICE_EMULATED = 3 /* a CUDA driver that computes on the CPU */
} cria_device;

/* How many devices of a kind there are; `device` is a cria_device, but not
 * CRIA_DEVICE_AUTO. There is one CRIA_DEVICE_CPU. CUDA_VISIBLE_DEVICES hides
 * GPUs. CRIA_UNAVAILABLE if there is no driver, CRIA_FAILED_PRECONDITION if it
 * is too old. For a driver without a device, the result is one of these, or 0
 * devices. */
CRIA_API cria_status cria_device_count(int32_t device, int32_t *count,
                                       cria_error *error);

typedef struct cria_device_info {
  size_t size;
  char name[128];             /* "NVIDIA H200", or the CPU's; NUL-terminated */
  uint64_t memory_bytes;      /* of the device; 0: unknown */
  uint64_t free_bytes;        /* that a model could take now; 0: unknown */
  int32_t compute_capability; /* 90 for sm_90; 0 for the CPU */
} cria_device_info;

/* What is known of device `index` of a kind, counted from 0. CRIA_NOT_FOUND if
 * there is none. To ask a GPU for its free memory, the call makes a context on
 * it: that takes some tenths of a second, and some memory, which does not count
 * as free. */
CRIA_API cria_status cria_device_get_info(int32_t device, int32_t index,
                                          cria_device_info *info,
                                          cria_error *error);

/* ---- Models ------------------------------------------------------------ */

typedef struct cria_model cria_model;

/* Reads only the headers of the checkpoint in folder `weights`. The report
 * lists missing, mis-shaped and extra tensors, the memory that weights and a
 * session take, and the longest context that this machine holds, at most the
 * artifact's. Returns the error that cria_model_bind would return for the
 * headers. The report is malloc'ed: free() it. There is a report whether the
 * tensors fit or not; it is NULL if the files cannot be read. */
CRIA_API cria_status cria_model_check(const cria_artifact *artifact,
                                      const char *weights, char **report,
                                      cria_error *error);

/* Binds the *.safetensors of folder `weights`, or a file.gguf (any part of it),
 * for CRIA_DEVICE_AUTO. On the CPU, weights are used in place in the mapped
 * files if type, order and alignment allow it. */
CRIA_API cria_status cria_model_bind(const cria_artifact *artifact,
                                     const char *weights, cria_model **model,
                                     cria_error *error);

/* Weights drawn from `seed`, the same on every machine; CRIA_DEVICE_AUTO. */
CRIA_API cria_status cria_model_random(const cria_artifact *artifact,
                                       uint64_t seed, cria_model **model,
                                       cria_error *error);

/* A LoRA adapter in PEFT's layout: W + scale * (alpha / r) * B A. */
typedef struct cria_lora {
  size_t size;
  const char *folder; /* of adapter_config.json, adapter_model.safetensors */
  double scale;       /* 1: as it was trained. 0 is refused, because it may have
                         been forgotten: leave the adapter out instead */
} cria_lora;

/* How much a line of `log` matters. */
typedef enum cria_log_level {
  CRIA_LOG_INFO = 1,   /* work that takes long, and how it is done */
  CRIA_LOG_WARNING = 2 /* what the user should know */
} cria_log_level;

/* The processes that share a model are its ranks, as many as cria-compile
 * --shards says. Each rank loads the model with its own cria_ranks. It makes
 * the same calls as the others, with the same arguments, in the same order and
 * from one thread, because feeds and draws wait for those of the other ranks.
 * If a call fails on one rank, the others may wait for it: end the program
 * then, and mpirun ends the other ranks.
 *
 * cria_ranks_join fills the struct. A caller that starts such processes itself
 * may fill it, too. All ranks call the functions in the same order; a call
 * returns when all ranks have made it. */
typedef struct cria_ranks {
  size_t size;
  int32_t rank;   /* of this process, from 0 */
  int32_t count;  /* ranks in all */
  int32_t local;  /* the number of this process among those on its machine; it
                     takes the GPU of this index if none is chosen */
  int32_t locals; /* ranks on this machine */
  void *data;     /* for the functions */
  /* Replaces each value by its sum, or its maximum, over all ranks. */
  void (*sum)(void *data, float *values, int64_t count);
  void (*max)(void *data, uint64_t *values, int64_t count);
  /* Gives all ranks the bytes of rank 0. */
  void (*broadcast)(void *data, void *bytes, int64_t count);
} cria_ranks;

/* Joins the processes that mpirun of MPICH or Open MPI has started together
 * with this one. A second call returns the same. CRIA_FAILED_PRECONDITION:
 * mpirun has not started this process; CRIA_UNAVAILABLE: the library
 * libcria-mpi-mpich.so or libcria-mpi-openmpi.so is not there. MPI may already
 * be initialized, with MPI_THREAD_FUNNELED or more; only the thread that calls
 * this library uses it. */
CRIA_API cria_status cria_ranks_join(cria_ranks *ranks, cria_error *error);

/* Leaves the other ranks. Call it after the last use of a shared model, before
 * the process ends with success, and before the caller's own MPI_Finalize.
 * Without ranks it does nothing. */
CRIA_API cria_status cria_ranks_leave(cria_error *error);

typedef struct cria_model_options {
  size_t size;
  const char *weights; /* a folder or file.gguf; NULL: drawn from `seed` */
  uint64_t seed;
  int32_t device;         /* a cria_device */
  int32_t no_cache;       /* has no effect: the CUDA driver keeps compiled code
                             itself, see CUDA_CACHE_DISABLE of its manual */
  const cria_lora *loras; /* merged into a copy of the weights they target; the
                             first one's `size` counts for all */
  size_t lora_count;
  int32_t lora_unmerged; /* 1: kept apart, in an artifact with room for them */
  int32_t allow_unused;  /* 1: the folder may have layers that the artifact does
                            not have; else these are an error */
  const char *weight_cache; /* a folder that keeps quantized weights, so that
                               only the first load quantizes them; NULL: none */
  /* Called by the thread that loads, with the units of work done and the total.
   * It must return, and call nothing of this model. NULL: not called. */
  void (*progress)(void *data, uint64_t done, uint64_t total);
  void *progress_data;
  /* Called with a cria_log_level and one line, which lives until the function
   * returns: while the model is loaded (also for the lines of
   * cria_model_warnings), and while its sessions work. Threads that use the
   * model and its sessions call it, maybe at once. It must return, and call
   * nothing of them. It may be called as long as any object of the model
   * exists. NULL: not called. */
  void (*log)(void *data, int32_t level, const char *text);
  void *log_data;
  /* Which GPU: `device_count` is 1 and `devices` an index below
   * cria_device_count; or 0, for the first that can be opened. More than 1 is
   * CRIA_UNIMPLEMENTED; an index for CRIA_DEVICE_CPU is
   * CRIA_INVALID_ARGUMENT. */
  const int32_t *devices;
  size_t device_count;
  /* The processes that share the model. Copied. NULL: only this process. */
  const cria_ranks *ranks;
} cria_model_options;

/* Does what cria_model_bind and cria_model_random do, with adapters and on a
 * device of choice. CRIA_UNAVAILABLE: no driver, or a busy device;
 * CRIA_FAILED_PRECONDITION: a driver without a device, or too old a driver. If
 * a device fails in a feed (CRIA_ABORTED, CRIA_DATA_LOSS) or does not finish it
 * in time (CRIA_DEADLINE_EXCEEDED), no session of the model can be used any
 * more. A model that is loaded anew works if the driver allows it. */
CRIA_API cria_status cria_model_load(const cria_artifact *artifact,
                                     const cria_model_options *options,
                                     cria_model **model, cria_error *error);
CRIA_API void cria_model_free(cria_model **model);

/* The device in words: "cpu", or "NVIDIA H200, sm_90, ...". */
CRIA_API cria_status cria_model_device(const cria_model *model,
                                       const char **text, cria_error *error);

/* What the user should know about the binding (conversions, extra tensors):
 * lines of text, each ended by '\n'; "" when there is nothing to say. */
CRIA_API cria_status cria_model_warnings(const cria_model *model,
                                         const char **text, cria_error *error);

typedef struct cria_model_info {
  size_t size;
  uint64_t mapped_bytes; /* weights used where they lie in the files */
  uint64_t copied_bytes; /* weights in memory of the model's own */
  double bind_seconds;
} cria_model_info;

/* How the weights were loaded. */
CRIA_API cria_status cria_model_get_info(const cria_model *model,
                                         cria_model_info *info,
                                         cria_error *error);

/* LoRA adapters that are resident with a model, kept apart from its weights, so
 * that sessions can choose. A model may have as many sets as fit its memory. */
typedef struct cria_lora_set cria_lora_set;

/* Reads `count` adapters and puts them where the weights of `model` lie, in an
 * artifact with room for them (cria-compile --lora-rank). The `size` of the
 * first one counts for all. Feeds add all of them to the weights, as with
 * `lora_unmerged`. With a count of 0 and `loras` NULL, the set adds nothing.
 * Other adapters may be merged into the model's weights.
 * CRIA_FAILED_PRECONDITION: no room, or adapters of another model. The files
 * are not needed afterwards. */
CRIA_API cria_status cria_lora_set_create(const cria_model *model,
                                          const cria_lora *loras, size_t count,
                                          cria_lora_set **set,
                                          cria_error *error);
CRIA_API void cria_lora_set_free(cria_lora_set **set);

/* ---- Sessions ---------------------------------------------------------- */

typedef struct cria_session cria_session;

/* A piece of work: call it once for each index. It does not throw, takes no
 * locks and waits for nothing. */
typedef void (*cria_task)(void *context, int64_t index);

/* Calls `task` with `context` and each index of [0, count), each once, in any
 * order, on any threads that have the stack they need (CRIA_STACK_BYTES).
 * Returns when all calls have returned. */
typedef void (*cria_parallel_for)(void *data, cria_task task, void *context,
                                  int64_t count);

typedef struct cria_session_options {
  size_t size;
  int32_t threads; /* 0: one for each core this process may use, fewer where
                      a control group sets a quota; at most 1024 */
  /* On the CPU, the function that runs the loops of a feed, in place of the
   * session's own threads; NULL: those. `threads` is then how many threads the
   * caller has; loops are divided by this number. With 1, the function is not
   * called. The thread that feeds calls it, some hundred times for each token,
   * never while it runs. It must not throw, feed, or free the session. The
   * numbers are the same as with other threads. If it leaves indexes out, the
   * feed is CRIA_INVALID_ARGUMENT, and so is every feed after it. Loading a
   * model starts threads of its own, which end before the call does. */
  cria_parallel_for parallel_for;
  void *parallel_data;
} cria_session_options;

/* A session at position 0 with threads of its own. `options` may be NULL. */
CRIA_API cria_status cria_session_create(const cria_model *model,
                                         const cria_session_options *options,
                                         cria_session **session,
                                         cria_error *error);
CRIA_API void cria_session_free(cria_session **session);

/* Which logits a feed returns. */
typedef enum cria_logits {
  CRIA_LOGITS_NONE = 0,
  CRIA_LOGITS_LAST = 1, /* (vocab_size): the logits after the last id */
  CRIA_LOGITS_ALL = 2   /* (count, vocab_size): after every id */
} cria_logits;

/* Appends `count` ids, at least one, each in [0, vocab_size). `which` is a
 * cria_logits; `capacity` is the number of floats at `logits`, which may be
 * NULL for CRIA_LOGITS_NONE. Nothing is fed if an id is out of range
 * (CRIA_INVALID_ARGUMENT) or position + count is beyond max_seq
 * (CRIA_OUT_OF_RANGE). A feed that fails or is cancelled on its way (see
 * cria_session_cancel) leaves the position after the chunks of ids that were
 * fed. If the rope depends on the length of the text, a feed may compute what
 * the session holds anew; see cria_session_expect_prompt. A model whose tokens
 * see later tokens takes a text in one feed from position 0, of at most a
 * chunk. */
CRIA_API cria_status cria_session_feed(cria_session *session,
                                       const int32_t *ids, size_t count,
                                       int32_t which, float *logits,
                                       size_t capacity, cria_error *error);

/* Feeds ids as cria_session_feed does. `logits` receives (row_count,
 * vocab_size): the logits after the ids at the indexes `rows` of `ids`, each
 * larger than the one before. If the first id of a chunk is among them, the
 * call takes memory for the logits of the whole chunk. */
CRIA_API cria_status cria_session_feed_rows(cria_session *session,
                                            const int32_t *ids, size_t count,
                                            const int64_t *rows,
                                            size_t row_count, float *logits,
                                            size_t capacity, cria_error *error);

/* What else a feed returns. CRIA_INIT asks for nothing. */
typedef struct cria_outputs {
  size_t size;
  int32_t logits_of; /* a cria_logits: after which ids */
  int32_t hidden_of; /* a cria_logits: of which ids */
  const int64_t
      *logit_rows;        /* after these ids, as in cria_session_feed_rows, */
  size_t logit_row_count; /* if this is not 0 */
  float *logits;          /* (rows, vocab_size) */
  size_t logits_capacity; /* floats */
  float *hidden;          /* (rows, hidden_size) */
  size_t hidden_capacity; /* floats */
} cria_outputs;

/* Feeds ids as cria_session_feed does, and returns what `outputs` asks for. The
 * hidden state of an id is the head's input: the output of the last layer after
 * the last norm, last_hidden_state of Hugging Face transformers, in the model's
 * type, as f32. cria_artifact_info has its size. CRIA_FAILED_PRECONDITION if
 * hidden states are wanted and the artifact returns none. */
CRIA_API cria_status cria_session_feed_outputs(cria_session *session,
                                               const int32_t *ids, size_t count,
                                               const cria_outputs *outputs,
                                               cria_error *error);

/* How the hidden states of a text become one embedding. */
typedef enum cria_pooling {
  CRIA_POOLING_MEAN = 0, /* their mean */
  CRIA_POOLING_LAST = 1, /* that of the last id */
  CRIA_POOLING_FIRST = 2 /* that of the first id, as BERT's [CLS] */
} cria_pooling;

typedef struct cria_embed_options {
  size_t size;
  int32_t pooling;   /* a cria_pooling */
  int32_t normalize; /* 1: divided by its Euclidean length */
} cria_embed_options;

/* Feeds ids as cria_session_feed does. `embedding` receives (hidden_size): the
 * pooled hidden states of these ids. Rewind to 0 before the next text.
 * `options` may be NULL; `capacity` is the number of floats at `embedding`.
 * Errors are those of cria_session_feed_outputs. */
CRIA_API cria_status cria_session_embed(cria_session *session,
                                        const int32_t *ids, size_t count,
                                        const cria_embed_options *options,
                                        float *embedding, size_t capacity,
                                        cria_error *error);

/* Runs the source text of a model with an encoder: `count` ids, at most a chunk
 * (CRIA_OUT_OF_RANGE). The ids fed afterwards attend to it, also after
 * cria_session_rewind; the position is then 0. Before this call, a feed is
 * CRIA_INVALID_ARGUMENT; so is this call on a model without encoder. A cancel
 * does not stop this call. */
CRIA_API cria_status cria_session_encode(cria_session *session,
                                         const int32_t *ids, size_t count,
                                         cria_error *error);

/* Appends `count` embeddings in place of ids, for example of an image before a
 * text. `rows` is (count, hidden), row after row; a row replaces an id's row
 * of the model's table of embeddings. They are rounded to the table's type. If
 * the model multiplies embeddings by a factor, these are multiplied, too. If
 * the artifact's model has "sees_ahead", as Gemma 3 that reads images, the rows
 * of one call see one another, and are at most a chunk (CRIA_OUT_OF_RANGE). Of
 * rows that cria_session_rewind cuts, those that stay may have seen the others.
 * A vision tower takes only such rows, the patches of an image in one call from
 * position 0; the rows that it has in front count as positions. Errors are
 * those of cria_session_feed; CRIA_INVALID_ARGUMENT also if `hidden` is not the
 * model's or a number is not finite; CRIA_FAILED_PRECONDITION if the artifact's
 * manifest names no "embedding". */
CRIA_API cria_status cria_session_feed_embeddings(cria_session *session,
                                                  const float *rows,
                                                  size_t count, size_t hidden,
                                                  cria_error *error);

/* The same, and returns what `outputs` asks for, as cria_session_feed_outputs
 * does of ids. */
CRIA_API cria_status cria_session_feed_embeddings_outputs(
    cria_session *session, const float *rows, size_t count, size_t hidden,
    const cria_outputs *outputs, cria_error *error);

/* Says, before a feed, that the text from position 0 on is a prompt of `count`
 * positions: those that the session holds, and those of the feeds that follow.
 * Models whose rope depends on the length of the prompt (dynamic, longrope)
 * need to know; with an artifact of --batch, feeds that are announced are
 * computed as one feed is (docs/batches.md). Without this call, a prompt ends
 * with the first feed, with the first one after a rewind to a place within the
 * prompt, and with each feed of several ids or embeddings. An id that is fed
 * alone behind a prompt counts as generated: it has the frequencies of the text
 * up to this id. If positions that the session holds have other frequencies in
 * the prompt, the feed computes them anew, so that it gives what a new session
 * gives for the whole prompt. CRIA_OUT_OF_RANGE above max_seq; 0 takes it back,
 * and so does cria_session_rewind. */
CRIA_API cria_status cria_session_expect_prompt(cria_session *session,
                                                size_t count,
                                                cria_error *error);

/* Chooses the adapters of the feeds that follow, of the same model. NULL: the
 * adapters that the model was loaded with, none unless `lora_unmerged`. The
 * session keeps the set alive. The session keeps what it holds: keys and values
 * of earlier positions were computed with the earlier adapters, and later ids
 * attend to them, unless a feed computes them anew (see
 * cria_session_expect_prompt). For a text as if the set had been chosen before,
 * rewind to 0 and feed the text again. On a GPU, the next feed of one id takes
 * as long as the first of a session, because it records its launches. */
CRIA_API cria_status cria_session_set_lora(cria_session *session,
                                           const cria_lora_set *set,
                                           cria_error *error);

/* The number of ids and embeddings that the session holds. */
CRIA_API cria_status cria_session_position(const cria_session *session,
                                           int64_t *position,
                                           cria_error *error);

/* Forgets ids: back to `position`, at most the current one; 0 starts anew. If
 * layers have a state (LFM2), the next feed computes what is left anew. */
CRIA_API cria_status cria_session_rewind(cria_session *session,
                                         int64_t position, cria_error *error);

/* Forgets the positions [begin, end). Later positions move down to `begin`, and
 * so does the session's position. Keys that move are rotated back by as much.
 * Attention then sees distances as if the ids had never been fed. But the
 * values that are left are not computed anew: in a model of more than one
 * layer, they were computed from the forgotten ids, too. So the logits that
 * follow are near those of the shorter text, not equal. For equal logits, feed
 * everything after `begin` again. CRIA_OUT_OF_RANGE unless 0 <= begin <= end <=
 * position. If no positions follow `end`, the call rewinds. Otherwise it is
 * CRIA_UNIMPLEMENTED, with the reason, for models whose attention depends on
 * more than differences of positions (learned positions, ropes that depend on
 * the length of the text), or whose tokens see later tokens or an encoded text.
 * If the device fails, the position is `begin`. */
CRIA_API cria_status cria_session_drop(cria_session *session, int64_t begin,
                                       int64_t end, cria_error *error);

/* A session's state is its position and the KV caches up to there; for models
 * whose rope depends on the length of the text, it has the ids and embeddings,
 * too. It has no threads, timings, cancel or LoRA set. */

/* The bytes that cria_session_save writes now; the next feed changes them. */
CRIA_API cria_status cria_session_state_size(const cria_session *session,
                                             size_t *size, cria_error *error);

/* Writes the state to the `capacity` bytes at `state`. */
CRIA_API cria_status cria_session_save(const cria_session *session, void *state,
                                       size_t capacity, cria_error *error);

/* Takes the state that a session saved, in this process or another, with the
 * same artifact and weights. The feeds that follow give what they would have
 * given there. The device may be another one of the same numbers. The state is
 * no program, but trust the bytes of others no more than their text.
 * CRIA_FAILED_PRECONDITION: the state is of another artifact or other weights.
 * Weights are compared by samples of the files that the model was loaded from:
 * they must still be there. CRIA_DATA_LOSS: damaged; CRIA_INVALID_ARGUMENT: no
 * state, or one of another version. After these errors the session is as
 * before; if the device fails, its position is 0. */
CRIA_API cria_status cria_session_restore(cria_session *session,
                                          const void *state, size_t size,
                                          cria_error *error);

/* Makes `to` hold what `from` holds. Both are of one model, and no other thread
 * uses either during the call. */
CRIA_API cria_status cria_session_copy(const cria_session *from,
                                       cria_session *to, cria_error *error);

/* Ends a feed: of ids, of embeddings, or to draw. A feed that runs returns
 * CRIA_CANCELLED before its next chunk of ids. If none runs, or the last chunk
 * of one has begun, the next feed returns it before its first chunk: a text is
 * one feed for each id, and a cancel may come between two. The feed that
 * returns CRIA_CANCELLED uses up the cancel; several cancels before it count as
 * one. Any thread and any signal handler may call it. */
CRIA_API cria_status cria_session_cancel(cria_session *session);

/* Forgets a cancel that no feed has used up. Call it before a new text or
 * reply, so that a cancel that came too late for the previous one does not end
 * this one. Any thread and any signal handler may call it. */
CRIA_API cria_status cria_session_resume(cria_session *session);

typedef struct cria_session_timings {
  size_t size;
  double prefill_seconds; /* in feeds of several ids, or of embeddings */
  int64_t prefill_tokens;
  double decode_seconds; /* in feeds of one id, drawing included */
  int64_t decode_tokens;
} cria_session_timings;

/* How long the session's feeds took since it was created. */
CRIA_API cria_status cria_session_get_timings(const cria_session *session,
                                              cria_session_timings *timings,
                                              cria_error *error);

/* ---- Sampling ---------------------------------------------------------- */

/* After CRIA_INIT: the likeliest id, always. Other values, NaN among them, are
 * CRIA_INVALID_ARGUMENT. */
typedef struct cria_sampler_options {
  size_t size;
  double temperature; /* >= 0: divides the logits; 0: the likeliest id */
  int64_t top_k;      /* >= 0: the K likeliest ids; 0: all */
  double top_p;       /* 0 to 1: the fewest likeliest ids that reach P;
                         0 or 1: all */
  double min_p;       /* 0 to 1: ids with P times the largest probability or
                         more; 0: all */
  double repetition_penalty; /* > 0: weakens every id of the text so far; 0 or
                                1: none */
  uint64_t seed;             /* the same seed draws the same ids */
  double presence_penalty;   /* taken from the logit of every id drawn so far,
                                after the repetition penalty; 0: none */
  double frequency_penalty;  /* the same, for each time that it was drawn */
  int64_t penalty_window;    /* >= 0: the last ids of the text that count for
                                penalties; 0: all */
} cria_sampler_options;

typedef struct cria_sampler cria_sampler;

/* Draws ids of one text from rows of `vocab_size` logits. */
CRIA_API cria_status cria_sampler_create(const cria_sampler_options *options,
                                         int64_t vocab_size,
                                         cria_sampler **sampler,
                                         cria_error *error);
CRIA_API void cria_sampler_free(cria_sampler **sampler);

/* Notes an id that was drawn, for the penalties. Ids outside of the vocabulary
 * are ignored. */
CRIA_API cria_status cria_sampler_accept(cria_sampler *sampler, int32_t id,
                                         cria_error *error);
/* Notes ids of the prompt. They count for the repetition penalty alone. */
CRIA_API cria_status cria_sampler_accept_prompt(cria_sampler *sampler,
                                                const int32_t *ids,
                                                size_t count,
                                                cria_error *error);

/* Adds biases[i] to the logit of ids[i] from now on, before penalty and
 * temperature. It replaces all earlier biases; a count of 0 removes them.
 * CRIA_INVALID_ARGUMENT: an id outside of the vocabulary, or a bias that is not
 * finite. */
CRIA_API cria_status cria_sampler_set_bias(cria_sampler *sampler,
                                           const int32_t *ids,
                                           const float *biases, size_t count,
                                           cria_error *error);

/* Lets only ids be drawn from now on whose bits are set: the bit of id i is
 * bits[i / 32] >> i % 32 & 1. `words` is (vocab_size + 31) / 32, or 0 for all
 * ids. A grammar gives a mask before each draw: cria_matcher_mask in
 * cria_text.h. CRIA_INVALID_ARGUMENT if no id is left: the mask is then as
 * before. */
CRIA_API cria_status cria_sampler_allow(cria_sampler *sampler,
                                        const uint32_t *bits, size_t words,
                                        cria_error *error);

/* The natural logarithms of the probabilities that `logits` (vocab_size) give
 * `count` ids before any sampling option: log softmax, computed in double. */
CRIA_API cria_status cria_log_probabilities(const float *logits,
                                            int64_t vocab_size,
                                            const int32_t *ids, size_t count,
                                            double *log_probabilities,
                                            cria_error *error);

/* The `count` likeliest ids by `logits`, with what cria_log_probabilities gives
 * them: the likeliest first, and of equally likely ones the smaller. `ids` and
 * `log_probabilities` have room for `count`, and may be NULL if it is 0.
 * CRIA_INVALID_ARGUMENT if `count` is above vocab_size. */
CRIA_API cria_status cria_top_log_probabilities(const float *logits,
                                                int64_t vocab_size,
                                                size_t count, int32_t *ids,
                                                double *log_probabilities,
                                                cria_error *error);

/* Draws the next id for `logits` (vocab_size). Logits that are not finite are
 * CRIA_DATA_LOSS; if penalties make them so, CRIA_INVALID_ARGUMENT. */
CRIA_API cria_status cria_sampler_sample(cria_sampler *sampler,
                                         const float *logits, int32_t *id,
                                         cria_error *error);

/* Feeds `count` ids as cria_session_feed does and draws the one that follows
 * them: the id that cria_sampler_sample would draw from their last logits. The
 * sampler's vocab_size must be the model's, else CRIA_INVALID_ARGUMENT. On a
 * GPU the logits stay there, unless the sampler has biases or allowed ids; and
 * where the ids that are drawn are fed, the GPU goes on with the next step
 * before it is asked for. The caller accepts the id. */
CRIA_API cria_status cria_session_draw(cria_session *session,
                                       const int32_t *ids, size_t count,
                                       cria_sampler *sampler, int32_t *id,
                                       cria_error *error);

/* ---- Batches ----------------------------------------------------------- */

/* Many texts of one model at once: a step reads the weights once for all of
 * them. A batch holds sequences. Each is like a session, but the KV caches of
 * all are in pages of one pool. The artifact is compiled by cria-compile
 * --batch=N; it runs sessions, too.
 *
 *   join, feed     a sequence gets ids, and the number of ids to draw
 *   step, result   each sequence that decodes goes on by one id
 *   leave          a sequence goes, between any two steps
 *
 * A batch belongs to one thread at a time. The ids that a sequence draws do not
 * depend on the other sequences, to the last bit. */
typedef struct cria_batch cria_batch;

typedef struct cria_batch_options {
  size_t size;
  int32_t threads; /* as in cria_session_options */
  int32_t refuse;  /* 1: a sequence that finds no page is refused; 0: it waits,
                      or another one gives its pages back and is computed anew
                      later. That is one that does not run, or the last one let
                      in */
  uint64_t cache_bytes; /* the most memory of KV caches, of all kinds of pages
                           and of states; 0: any */
  int64_t pages;        /* the most pages; 0: any. If both are 0, a context of
                           max_seq for each sequence that runs at once */
  int64_t chunk;        /* the most ids of a prompt that a step computes; 0: the
                           artifact's */
  int32_t reuse_drawn;  /* 1: pages with ids that were drawn are found by their
                           content, too. A prompt that has such ids, as the next
                           one of a chat, then uses the pages as they were
                           computed. Its bits may differ from those without the
                           pages */
  int64_t draft_rows; /* drafts fill a step up to this number of rows: ids that
                         a sequence may draw next are computed beside its last
                         id, and those that it then draws need no step of their
                         own. What it draws stays the same to the last bit. The
                         ids are those that cria_batch_propose gave or, without
                         any, those that followed when the sequence's last ids
                         stood there before. 0: none. docs/batches.md has what
                         further rows cost */
  int64_t texts; /* the most sequences that run at once, the artifact's rows at
                    most; rows beyond are for short prompts and drafts. 0: as
                    many as rows */
  int64_t window_pages; /* as `pages`, of layers with a window, which have pages
                           of their own: a text takes those of the window. 0:
                           enough for all texts, and as many again for prompts
                           that begin alike */
} cria_batch_options;

/* A batch without sequences. CRIA_UNIMPLEMENTED: an artifact without --batch,
 * or a device without code for batches. `options` may be NULL. */
CRIA_API cria_status cria_batch_create(const cria_model *model,
                                       const cria_batch_options *options,
                                       cria_batch **batch, cria_error *error);
CRIA_API void cria_batch_free(cria_batch **batch);

typedef struct cria_sequence_options {
  size_t size;
  cria_sampler *sampler;  /* of this sequence alone; it may be freed any time.
                             The batch accepts its ids. Masks and biases count
                             for the next draw; set them between two steps, for
                             a step has the sampler. With a mask a step draws one
                             id; biases count for all ids of a step. NULL: the
                             likeliest id */
  const int32_t *end_ids; /* any of them ends the text */
  size_t end_count;
  int32_t logits; /* 1: results have the logits that ids were drawn from */
  const cria_lora_set *lora; /* the adapters of this sequence, which keeps the
                                set alive. A step computes the sequences of one
                                set at once, and reads the weights for each set.
                                NULL: those of the model. A fork has the set of
                                its origin: pass NULL, or that set */
  int32_t salt;   /* 0 or more. Texts share pages only with texts of the same
                     number, so that nobody learns by the time of a prompt what
                     texts of others begin with. A fork has that of its origin */
  int32_t hidden; /* 1: results have the hidden states of all ids of the
                     sequence, which then finds no ids in pages and has no
                     drafts. CRIA_FAILED_PRECONDITION: the model has none */
} cria_sequence_options;

/* Adds a sequence that holds nothing, and returns its number, which no other
 * sequence of the batch has or will have. `options` may be NULL. */
CRIA_API cria_status cria_batch_join(cria_batch *batch,
                                     const cria_sequence_options *options,
                                     int64_t *sequence, cria_error *error);

/* Adds a sequence that holds what `from` holds, in the same pages. A page that
 * either of them writes is copied first. An id that was drawn last is part of
 * the sequence, and is computed with the next feed. */
CRIA_API cria_status cria_batch_fork(cria_batch *batch, int64_t from,
                                     const cria_sequence_options *options,
                                     int64_t *sequence, cria_error *error);

/* Takes a sequence away, even if it runs. Its full pages stay until others need
 * the memory: a text that begins with the same ids finds them. */
CRIA_API cria_status cria_batch_leave(cria_batch *batch, int64_t sequence,
                                      cria_error *error);

/* Appends `count` ids. The sequence then runs until it has drawn `most` ids, or
 * ends before. `most` may be 0: the ids are computed, and nothing is drawn.
 * `count` may be 0 if a sequence has ids left to compute, because it was
 * refused or forked. Nothing is fed if an id is out of range
 * (CRIA_INVALID_ARGUMENT), the context would overflow (CRIA_OUT_OF_RANGE), the
 * whole pool has too few pages (CRIA_RESOURCE_EXHAUSTED), or the sequence runs
 * (CRIA_FAILED_PRECONDITION). */
CRIA_API cria_status cria_batch_feed(cria_batch *batch, int64_t sequence,
                                     const int32_t *ids, size_t count,
                                     int64_t most, cria_error *error);

/* Proposes up to `count` ids that a sequence may draw next, which runs or
 * waits. The next step may compute them as drafts, as far as rows and pages are
 * left. A sequence whose sampler has a mask has drafts only with `masks`: for
 * each id `words` words as cria_sampler_allow takes them, the ids that may be
 * drawn after it; else `masks` is NULL. The mask of the sampler itself is for
 * the draw before all drafts. A restored sequence has no drafts, unless its ids
 * are known.
 * CRIA_FAILED_PRECONDITION: the batch has no draft_rows, or the sequence does
 * not run. CRIA_INVALID_ARGUMENT: an id is out of range, or a mask has other
 * words or no id. */
CRIA_API cria_status cria_batch_propose(cria_batch *batch, int64_t sequence,
                                        const int32_t *ids, size_t count,
                                        const uint32_t *masks, size_t words,
                                        cria_error *error);

/* Computes one id of each sequence that decodes, with its drafts, the ids of
 * short prompts in the rows that are left, and one chunk of one longer prompt
 * (docs/batches.md). At most as many sequences run as the option `texts` says;
 * the others wait. A sequence has a result for each id that it drew, in order.
 * `results` receives the number of results, `unfinished` the number of
 * sequences that still run or wait; either may be NULL. The failure of one
 * sequence is in its result. An error of the call is one of all sequences: they
 * are as before. Read the results, if there are any; then the call may be
 * repeated. */
CRIA_API cria_status cria_batch_step(cria_batch *batch, size_t *results,
                                     size_t *unfinished, cria_error *error);

/* Why a sequence no longer runs. */
typedef enum cria_finish {
  CRIA_FINISH_NONE = 0,    /* it goes on */
  CRIA_FINISH_END = 1,     /* it drew an end id */
  CRIA_FINISH_LENGTH = 2,  /* it drew as many ids as were wanted */
  CRIA_FINISH_CONTEXT = 3, /* the context is full: there is no room for the id
                              that was drawn */
  CRIA_FINISH_FAILED = 4   /* see `status` and `message` */
} cria_finish;

typedef struct cria_batch_result {
  size_t size;
  int64_t sequence;
  int32_t id;          /* that was drawn; -1: none */
  int32_t finish;      /* a cria_finish */
  cria_status status;  /* CRIA_RESOURCE_EXHAUSTED: refused, because there is no
                          page; it continues after a feed of no ids.
                          CRIA_DATA_LOSS: its logits are not finite */
  const char *message; /* of a failure; "" else */
  const float *logits; /* (vocab_size), if wanted; else NULL */
  /* (hidden_rows, hidden_size), if wanted; else NULL: of ids that a step has
   * computed, each once, in their order. The result of an id that is drawn has
   * none: a later step computes the id. */
  const float *hidden;
  size_t hidden_rows;
} cria_batch_result;

/* Result `index` of the last step, below `results`; the pointers live until the
 * next step. CRIA_OUT_OF_RANGE: there is none. */
CRIA_API cria_status cria_batch_get_result(const cria_batch *batch,
                                           size_t index,
                                           cria_batch_result *result,
                                           cria_error *error);

/* How many ids of a sequence are in its pages now, and how many it has. Either
 * pointer may be NULL. */
CRIA_API cria_status cria_batch_position(const cria_batch *batch,
                                         int64_t sequence, int64_t *computed,
                                         int64_t *position, cria_error *error);

typedef struct cria_sequence_info {
  size_t size;
  int64_t computed; /* ids that are in pages now */
  int64_t position; /* ids that the sequence has */
  int64_t reused;   /* ids that were found in pages when they were first needed,
                       and were not computed for this sequence */
} cria_sequence_info;

/* What is known of a sequence after the last step. */
CRIA_API cria_status cria_batch_get_sequence(const cria_batch *batch,
                                             int64_t sequence,
                                             cria_sequence_info *info,
                                             cria_error *error);

/* The state of a sequence, as cria_session_save writes it. Sessions and
 * sequences of one artifact can restore each other's states. It holds the
 * computed ids, not one that was drawn last. CRIA_FAILED_PRECONDITION: the
 * sequence gave its pages back. */
CRIA_API cria_status cria_batch_state_size(const cria_batch *batch,
                                           int64_t sequence, size_t *size,
                                           cria_error *error);
/* Writes the state to the `capacity` bytes at `state`. */
CRIA_API cria_status cria_batch_save(const cria_batch *batch, int64_t sequence,
                                     void *state, size_t capacity,
                                     cria_error *error);

/* Gives a state to a sequence that holds nothing. Errors are those of
 * cria_session_restore; CRIA_RESOURCE_EXHAUSTED if too few pages are free. The
 * sequence keeps its pages until it leaves, because its ids are not known. If
 * the model has states, or pages of windows, the ids are known, and the
 * sequence is as any other, unless the text has embeddings: of a model with
 * states, CRIA_UNIMPLEMENTED then. */
CRIA_API cria_status cria_batch_restore(cria_batch *batch, int64_t sequence,
                                        const void *state, size_t size,
                                        cria_error *error);

typedef struct cria_batch_info {
  size_t size;
  int64_t rows; /* ids that a step computes, each in a row */
  int64_t page; /* positions of a page */
  uint64_t page_bytes;
  int64_t pages;            /* of the pool */
  int64_t free_pages;       /* that no sequence has */
  int64_t kept_pages;       /* of the free ones, found by their content */
  int64_t running, waiting; /* sequences */
  /* Since the batch was made, ids: */
  int64_t prefilled;  /* computed in chunks of a prompt, */
  int64_t decoded;    /* each in a row: drawn ones, and those of short feeds; */
  int64_t recomputed; /* of both, computed once more; */
  int64_t reused;     /* found in pages. */
  int64_t put_back;   /* sequences that gave their pages back */
  int64_t drafted;    /* ids computed as drafts; */
  int64_t accepted;   /* of these, drawn: they count as decoded, too */
  int64_t texts;      /* sequences that run at once */
  /* Of layers with a window, if they have pages of their own; else 0: */
  uint64_t window_page_bytes;
  int64_t window_pages, free_window_pages, kept_window_pages;
} cria_batch_info;

/* The state of the batch after its last step. */
CRIA_API cria_status cria_batch_get_info(const cria_batch *batch,
                                         cria_batch_info *info,
                                         cria_error *error);

#ifdef __cplusplus
}
#endif

#endif
