/// A file that is there whole or not at all.
#pragma once

#include "runtime/Status.h"

#include <cstddef>
#include <string>

namespace cria {

/// Writes beside its path and renames at the end: an older file stays as it was
/// until then, and a failure leaves nothing behind. Devices and pipes are
/// written as they are.
class OutputFile {
public:
  static Result<OutputFile> create(const std::string &name);

  OutputFile(OutputFile &&other) noexcept;
  OutputFile &operator=(OutputFile &&) = delete;
  ~OutputFile();

  Status write(const void *data, size_t size);
  /// Makes what was written the file at `path`.
  Status commit();

  /// Where it is written until then; empty for a device or pipe.
  const std::string &temporary() const { return partial; }

private:
  OutputFile(std::string path, std::string partial, int fd);

  std::string path, partial;
  int fd;
};

} // namespace cria
