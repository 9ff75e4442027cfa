/// Errors as values. Nothing in the runtime throws across a function it
/// exports, exits, or asserts on input.
#pragma once

#include "runtime/base/Concat.h"
#include "runtime/base/Printable.h"
#include "runtime/cria.h"

#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace cria {

/// A status code and, unless it is CRIA_OK, one line that names the file,
/// tensor or field, what was expected and what was found. Messages quote
/// untrusted files, so they are made printable here.
///
/// As small as a pointer, because most functions return one: null for CRIA_OK.
class [[nodiscard]] Status {
public:
  Status() = default;
  Status(cria_status code, std::string_view message);
  Status(cria_status code, std::initializer_list<TextPart> message)
      : Status(code, concat(message)) {}
  Status(const Status &other);
  Status(Status &&other) noexcept
      : failure(std::exchange(other.failure, nullptr)) {}
  Status &operator=(Status other) noexcept {
    std::swap(failure, other.failure);
    return *this;
  }
  ~Status() {
    if (failure)
      forget();
  }

  bool ok() const { return !failure; }
  cria_status code() const;
  const std::string &message() const;

private:
  struct Failure;
  void forget();

  const Failure *failure = nullptr;
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
