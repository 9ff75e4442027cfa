#include "runtime/base/Api.h"

#include <algorithm>
#include <cstring>

using namespace cria;

/// The longest prefix of `text` with at most `most` bytes that does not cut a
/// UTF-8 character.
static std::string_view cut(std::string_view text, size_t most) {
  if (text.size() <= most)
    return text;
  auto continues = [](char byte) { return (byte & 0xc0) == 0x80; };
  while (most > 0 && continues(text[most]))
    --most;
  return text.substr(0, most);
}

cria_status cria::report(cria_status code, std::string_view message,
                         cria_error *error) {
  if (!error)
    return code;
  size_t size = std::min(error->size, sizeof(*error));
  if (size >= offsetof(cria_error, message))
    error->status = code;
  if (size > offsetof(cria_error, message)) {
    size_t room =
        std::min(size - offsetof(cria_error, message), sizeof(error->message));
    message = cut(message, room - 1);
    memcpy(error->message, message.data(), message.size());
    error->message[message.size()] = '\0';
  }
  return code;
}

Status cria::first(std::initializer_list<Status> checks) {
  for (const Status &status : checks)
    if (!status.ok())
      return status;
  return Status();
}

Status cria::notNull(const void *pointer, const char *what) {
  if (pointer)
    return Status();
  return Status(CRIA_INVALID_ARGUMENT, std::string(what) + " is NULL");
}

Status cria::notNull(
    std::initializer_list<std::pair<const void *, const char *>> all) {
  for (const auto &[pointer, what] : all)
    if (!pointer)
      return notNull(pointer, what);
  return Status();
}

cria_status cria::guarded(cria_error *error, FunctionRef<Status()> body) {
  if (error && structFit(error, error->size, sizeof(cria_error),
                         alignof(cria_error)) != StructFit::Good)
    return CRIA_INVALID_ARGUMENT;
  try {
    Status status = body();
    return report(status.code(), status.message(), error);
  } catch (const std::bad_alloc &) {
    return report(CRIA_RESOURCE_EXHAUSTED, "out of memory", error);
  } catch (const std::exception &problem) {
    return report(CRIA_INTERNAL, problem.what(), error);
  }
}

Status cria::checkCount(size_t count, const char *what) {
  if (count <= INT32_MAX)
    return Status();
  return Status(CRIA_OUT_OF_RANGE,
                {what, " is ", count, ", expected at most ", INT32_MAX});
}

/// A larger `size` is garbage: the caller did not set the field.
static constexpr size_t maxStructBytes = 4096;

StructFit cria::structFit(const void *given, size_t size, size_t known,
                          size_t alignment) {
  // Compilers make no struct whose size is not a multiple of its alignment.
  if (size < sizeof(size_t) || size > maxStructBytes || size % alignment != 0)
    return StructFit::WrongSize;
  auto *bytes = static_cast<const char *>(given);
  bool isKnown =
      size <= known || std::all_of(bytes + known, bytes + size,
                                   [](char byte) { return byte == 0; });
  return isKnown ? StructFit::Good : StructFit::UnknownFields;
}

Status cria::checkStruct(const void *given, size_t size, size_t known,
                         size_t alignment, const char *what) {
  switch (structFit(given, size, known, alignment)) {
  case StructFit::Good:
    break;
  case StructFit::WrongSize:
    return Status(CRIA_INVALID_ARGUMENT,
                  {what, "->size is ", size, ", expected ", known,
                   ": CRIA_INIT it first"});
  case StructFit::UnknownFields:
    return Status(CRIA_INVALID_ARGUMENT,
                  {what, " has ", size, " bytes and sets some after the ",
                   known, " that Cria ", cria_version(),
                   " knows: CRIA_INIT it first, or use a newer library"});
  }
  return Status();
}

#define CRIA_TEXT_OF(token) #token
#define CRIA_TEXT(macro) CRIA_TEXT_OF(macro)

const char *cria_version(void) {
  return CRIA_TEXT(CRIA_VERSION_MAJOR) "." CRIA_TEXT(
      CRIA_VERSION_MINOR) "." CRIA_TEXT(CRIA_VERSION_PATCH);
}

const char *cria_status_name(cria_status status) {
  switch (status) {
  case CRIA_OK:
    return "OK";
  case CRIA_CANCELLED:
    return "CANCELLED";
  case CRIA_INVALID_ARGUMENT:
    return "INVALID_ARGUMENT";
  case CRIA_DEADLINE_EXCEEDED:
    return "DEADLINE_EXCEEDED";
  case CRIA_NOT_FOUND:
    return "NOT_FOUND";
  case CRIA_PERMISSION_DENIED:
    return "PERMISSION_DENIED";
  case CRIA_RESOURCE_EXHAUSTED:
    return "RESOURCE_EXHAUSTED";
  case CRIA_FAILED_PRECONDITION:
    return "FAILED_PRECONDITION";
  case CRIA_ABORTED:
    return "ABORTED";
  case CRIA_OUT_OF_RANGE:
    return "OUT_OF_RANGE";
  case CRIA_UNIMPLEMENTED:
    return "UNIMPLEMENTED";
  case CRIA_INTERNAL:
    return "INTERNAL";
  case CRIA_UNAVAILABLE:
    return "UNAVAILABLE";
  case CRIA_DATA_LOSS:
    return "DATA_LOSS";
  case CRIA_INCOMPATIBLE:
    return "INCOMPATIBLE";
  }
  return "UNKNOWN";
}
