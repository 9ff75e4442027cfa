/// A copy of a file in memory that nobody can change: not another process, not
/// this process, not the owner of the file.
#pragma once

#include "runtime/base/Status.h"
#include "runtime/base/files/File.h"

#include <cstdint>
#include <string>
#include <string_view>

namespace cria {

/// A sealed memfd and its bytes; frees both.
class SealedMemory {
public:
  /// Holds nothing.
  SealedMemory() = default;
  /// A copy of the file as it is now.
  static Result<SealedMemory> copy(const File &file);
  /// A copy of `bytes`; errors call them `name`.
  static Result<SealedMemory> copy(std::string_view bytes,
                                   const std::string &name);

  SealedMemory(SealedMemory &&other) noexcept;
  SealedMemory &operator=(SealedMemory &&other) noexcept;
  ~SealedMemory();

  std::string_view bytes() const {
    return {static_cast<const char *>(data), size};
  }

  /// A path to these bytes for the dynamic loader. No other memory of this
  /// process has this path while this object lives. Debuggers find the bytes
  /// there, too. An error says why code cannot be loaded from memory here.
  Result<std::string> pathForLoader() const;

private:
  static Result<SealedMemory> create(const std::string &name, uint64_t size);
  Status append(const void *from, uint64_t count);
  Status seal();

  std::string name;
  int descriptor = -1;
  void *data = nullptr;
  uint64_t size = 0;
};

} // namespace cria
