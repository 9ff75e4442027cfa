/// What the functions of cria.h share: handles, errors, the wall that no
/// exception passes.
#pragma once

#include "runtime/Artifact.h"
#include "runtime/Model.h"
#include "runtime/Sampler.h"
#include "runtime/Session.h"
#include "runtime/Status.h"
#include "runtime/cria.h"
#include "runtime/tokenizer/Tokenizer.h"

#include <cstdlib>
#include <cstring>
#include <initializer_list>
#include <memory>
#include <new>
#include <string>

struct cria_artifact {
  std::shared_ptr<const cria::Artifact> object;
};

struct cria_model {
  std::shared_ptr<const cria::Model> object;
  std::string warnings;
  std::string device;
};

struct cria_session {
  std::unique_ptr<cria::Session> object;
};

struct cria_sampler {
  cria::Sampler object;
};

struct cria_tokenizer {
  std::shared_ptr<const cria::Tokenizer> object;
};

namespace cria {

/// Writes `status` to `error`, which may be null, and returns its code.
cria_status report(const Status &status, cria_error *error);

/// The first of `checks` that failed, or OK.
Status first(std::initializer_list<Status> checks);

/// INVALID_ARGUMENT saying that `what` is NULL, unless it is not.
Status notNull(const void *pointer, const char *what);

/// INVALID_ARGUMENT unless a public struct has the size this runtime knows.
Status hasSize(size_t found, size_t expected, const char *what);

/// Runs `body`, which returns a Status, and reports it.
template <typename Body> cria_status guarded(cria_error *error, Body body) {
  if (error && error->size != sizeof(cria_error))
    return CRIA_INVALID_ARGUMENT;
  try {
    return report(body(), error);
  } catch (const std::bad_alloc &) {
    return report(Status(CRIA_RESOURCE_EXHAUSTED, "out of memory"), error);
  } catch (const std::exception &problem) {
    return report(Status(CRIA_INTERNAL, problem.what()), error);
  }
}

/// Frees the object of `*handle` and forgets it.
template <typename Handle> void freeHandle(Handle **handle) {
  if (handle) {
    delete *handle;
    *handle = nullptr;
  }
}

/// A malloc'ed copy for the caller to free.
inline void *copyOut(const void *data, size_t size) {
  void *copy = malloc(size ? size : 1);
  if (!copy)
    throw std::bad_alloc();
  if (size)
    memcpy(copy, data, size); // of nothing, there may be no address
  return copy;
}

/// Gives `ids`, malloc'ed, and their number to the caller; or NULL, none and
/// the status.
inline Status copyIds(const Result<std::vector<int32_t>> &ids, int32_t **copy,
                      size_t *count) {
  *copy = nullptr;
  *count = 0;
  if (!ids.ok())
    return ids.status();
  *copy = static_cast<int32_t *>(
      copyOut(ids->data(), ids->size() * sizeof(int32_t)));
  *count = ids->size();
  return Status();
}

} // namespace cria
