/// Survives the loss of a mapped file's pages.
#pragma once

#include "runtime/base/Status.h"

#include <cstdint>
#include <string>

namespace cria {

struct GuardedRange;

/// Guards a mapped file. If another process has truncated the file, or its disk
/// fails, a read would end this process with SIGBUS. A read of guarded pages
/// gives zeros instead, and the guard notes it. The first guard installs a
/// handler of SIGBUS, which leaves other addresses to the previous handler.
class FileGuard {
public:
  /// Guards the `size` bytes at `begin`, where `path` is mapped.
  FileGuard(const void *begin, uint64_t size, std::string path);
  FileGuard(FileGuard &&other) noexcept;
  FileGuard &operator=(FileGuard &&) = delete;
  ~FileGuard();

  /// DATA_LOSS after a read of lost pages.
  Status status() const;

private:
  GuardedRange *range;
  std::string path;
};

} // namespace cria
