/// Errors as values. Nothing in the runtime throws across a function it
/// exports, exits, or asserts on input.
#pragma once

#include "runtime/Concat.h"
#include "runtime/Printable.h"
#include "runtime/cria.h"

#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace cria {

/// A status code and, unless it is CRIA_OK, one line that names the file,
/// tensor or field, what was expected and what was found. Messages quote files
/// that nobody vouches for, so they are made printable here.
class [[nodiscard]] Status {
public:
  Status() = default;
  Status(cria_status code, std::string_view message)
      : statusCode(code), text(printable(message)) {}
  Status(cria_status code, std::initializer_list<TextPart> message)
      : Status(code, concat(message)) {}

  bool ok() const { return statusCode == CRIA_OK; }
  cria_status code() const { return statusCode; }
  const std::string &message() const { return text; }

private:
  cria_status statusCode = CRIA_OK;
  std::string text;
};

/// A value or the status that says why there is none.
template <typename T> class [[nodiscard]] Result {
public:
  Result(T value) : held(std::move(value)) {}
  Result(Status error) : failure(std::move(error)) {}

  bool ok() const { return held.has_value(); }
  const Status &status() const { return failure; }
  T &operator*() { return *held; }
  const T &operator*() const { return *held; }
  T *operator->() { return &*held; }
  const T *operator->() const { return &*held; }

private:
  std::optional<T> held;
  Status failure;
};

} // namespace cria
