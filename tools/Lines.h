/// The input of a tool: a file, a FIFO, a terminal. A read that fails is an
/// error and not the end, and nothing takes more memory than it may.
#pragma once

#include "runtime/base/Status.h"

#include <cstddef>
#include <string>

namespace cria {

/// Reads a file from its beginning to its end.
class Lines {
public:
  /// Opens `path`; "-" is standard input.
  static Result<Lines> open(const std::string &path);

  Lines(Lines &&other) noexcept;
  Lines &operator=(Lines &&) = delete;
  ~Lines();

  /// Reads the next line, without its end, of at most 64 MiB. False at the end
  /// of the file.
  Result<bool> next(std::string &line);

  /// All that is left, at most 64 MiB.
  Result<std::string> rest();

private:
  Lines(int fd, std::string name) : fd(fd), name(std::move(name)) {}
  Result<bool> fill();
  Status tooLong(const std::string &what) const;

  int fd;
  std::string name;
  std::string buffer; // bytes that were read; those before `at` are taken
  size_t at = 0, number = 0; // of lines
};

} // namespace cria
