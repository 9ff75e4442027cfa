/// Machine code that the CUDA driver made of PTX, kept on disk by content.
///
/// A file is written under another name and renamed, so two processes leave one
/// whole file. A damaged file is found by its checksum and written again. The
/// folder holds at most 256 MiB: files that were used longest ago are removed
/// first. Nothing here is an error: without a folder, or with a folder that
/// cannot be written, code is compiled each time.
///
/// Whoever can write into the folder can choose code that runs. So a folder or
/// a file is used only if it belongs to the effective user, nobody else may
/// write to it, and it is not a symbolic link. Otherwise a warning says why.
#pragma once

#include "runtime/Status.h"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace cria::cuda {

/// Names the result of compiling `ptx` for a chip by a driver.
struct CodeKey {
  uint64_t high, low;

  static CodeKey of(std::string_view ptx, int chip, int driverVersion);
  /// 32 hexadecimal digits.
  std::string text() const;
};

/// The folder: CRIA_CACHE_DIR, else cria in XDG_CACHE_HOME or in ~/.cache.
class CodeCache {
public:
  /// Keeps at most `capacity` bytes.
  explicit CodeCache(uint64_t capacity = uint64_t(256) << 20);

  /// The code stored under `key`. A file that must not be trusted adds a line
  /// to `warnings`.
  std::optional<std::string> find(const CodeKey &key,
                                  std::vector<std::string> &warnings) const;
  /// Stores `code`, then removes files until the folder is small enough.
  void store(const CodeKey &key, std::string_view code) const;

private:
  Result<std::string> read(const CodeKey &key) const;
  std::string path(const CodeKey &key) const;
  void prune() const;

  std::string folder; // "": none
  uint64_t capacity;
};

} // namespace cria::cuda
