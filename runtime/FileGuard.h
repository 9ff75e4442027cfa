/// Survives the loss of a mapped file's pages.
#pragma once

#include "runtime/Status.h"

#include <cstdint>
#include <string>

namespace cria {

struct GuardedRange;

/// Guards a mapped file. Where another process has cut the file, or its disk
/// fails, a read would end this process with SIGBUS; of guarded pages it gives
/// zeros, and the guard says so. The first guard installs a handler of SIGBUS,
/// which leaves other addresses to the one before it.
class FileGuard {
public:
  /// Guards the `size` bytes at `begin`, where `path` is mapped.
  FileGuard(const void *begin, uint64_t size, std::string path);
  FileGuard(FileGuard &&other) noexcept;
  FileGuard &operator=(FileGuard &&) = delete;
  ~FileGuard();

  /// DATA_LOSS once a read found nothing.
  Status status() const;

private:
  GuardedRange *range;
  std::string path;
};

} // namespace cria
