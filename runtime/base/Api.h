/// What the functions of cria.h and cria_text.h share: errors, structs, and the
/// wall that no exception passes.
#pragma once

#include "runtime/base/FunctionRef.h"
#include "runtime/base/Status.h"
#include "runtime/cria.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <initializer_list>
#include <memory>
#include <new>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace cria {

/// Writes `code` and `message` to `error`, which may be null, as far as it has
/// room, and returns `code`.
cria_status report(cria_status code, std::string_view message,
                   cria_error *error);

/// The first of `checks` that failed, or OK.
Status first(std::initializer_list<Status> checks);

/// INVALID_ARGUMENT that names `what` if `pointer` is null.
Status notNull(const void *pointer, const char *what);
/// The same for several pointers: the error names the first null one.
Status
notNull(std::initializer_list<std::pair<const void *, const char *>> all);

/// OUT_OF_RANGE if a number is above any that a model can have.
Status checkCount(size_t count, const char *what);

/// How the `size` of a caller's struct relates to this library's; see the rules
/// in cria.h.
enum class StructFit { Good, WrongSize, UnknownFields };

/// The fit of the struct at `given`, of `size` bytes, to one of `known` bytes.
StructFit structFit(const void *given, size_t size, size_t known,
                    size_t alignment);
/// The same as a status: INVALID_ARGUMENT that says what is wrong with `what`.
Status checkStruct(const void *given, size_t size, size_t known,
                   size_t alignment, const char *what);

/// INVALID_ARGUMENT unless `given` is a struct that this library can read and
/// write.
template <typename Struct>
Status checkStruct(const Struct *given, const char *what) {
  if (Status status = notNull(given, what); !status.ok())
    return status;
  return checkStruct(given, given->size, sizeof(Struct), alignof(Struct), what);
}

/// Copies a caller's struct to `known`; fields that the caller's lacks are 0.
template <typename Struct>
Status readStruct(const Struct *given, const char *what, Struct &known) {
  Status status = checkStruct(given, what);
  if (!status.ok())
    return status;
  memset(&known, 0, sizeof(known));
  memcpy(&known, given, std::min(given->size, sizeof(known)));
  known.size = sizeof(known);
  return status;
}

/// Copies `known` to a caller's struct, except `size` and the fields that the
/// caller's lacks.
template <typename Struct>
Status writeStruct(Struct known, Struct *given, const char *what) {
  Status status = checkStruct(given, what);
  if (!status.ok())
    return status;
  known.size = given->size;
  memcpy(given, &known, std::min(given->size, sizeof(known)));
  return status;
}

/// Runs `body` and reports what it returns or throws.
cria_status guarded(cria_error *error, FunctionRef<Status()> body);

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
    memcpy(copy, data, size); // empty data may have no address
  return copy;
}

/// Gives malloc'ed `ids` and their number to the caller; on an error NULL, 0
/// and the status.
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
