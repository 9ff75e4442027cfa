/// Machine code that the CUDA driver made of PTX, kept on disk by content.
///
/// A file is written beside its name and renamed, so two processes at once
/// leave one whole file; one that is damaged all the same is found by its
/// checksum and made again. The folder holds 256 MiB at most: what was used
/// longest ago goes first. Nothing here is an error: without a folder, or with
/// one that cannot be written, code is compiled each time.
///
/// Whoever writes into the folder chooses code that runs: a folder or a file is
/// used only if it belongs to the effective user, nobody else may write to it,
/// and its name is no symbolic link. Else a warning says why it is not.
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

  /// The code stored under `key`. What may not be trusted gives a line of
  /// `warnings`.
  std::optional<std::string> find(const CodeKey &key,
                                  std::vector<std::string> &warnings) const;
  /// Stores `code`, then removes what is too much.
  void store(const CodeKey &key, std::string_view code) const;

private:
  Result<std::string> read(const CodeKey &key) const;
  std::string path(const CodeKey &key) const;
  void prune() const;

  std::string folder; // "": none
  uint64_t capacity;
};

} // namespace cria::cuda
