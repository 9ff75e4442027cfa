#include "runtime/Memory.h"

#include "runtime/cpu/Cores.h"

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <optional>
#include <string>
#include <sys/mman.h>
#include <utility>

namespace cria {

Mapping::Mapping(Mapping &&other) noexcept
    : begin(std::exchange(other.begin, nullptr)),
      bytes(std::exchange(other.bytes, 0)) {}

Mapping &Mapping::operator=(Mapping &&other) noexcept {
  std::swap(begin, other.begin);
  std::swap(bytes, other.bytes);
  return *this;
}

Mapping::~Mapping() {
  if (begin)
    munmap(begin, bytes);
}

Result<Mapping> Mapping::ofFile(const File &file) {
  Mapping mapping;
  if (file.size() == 0)
    return mapping;
  void *at =
      mmap(nullptr, file.size(), PROT_READ, MAP_PRIVATE, file.descriptor(), 0);
  if (at == MAP_FAILED)
    return errnoStatus(file.path(), "cannot map", errno);
  mapping.begin = static_cast<std::byte *>(at);
  mapping.bytes = file.size();
  return mapping;
}

Result<Mapping> Mapping::zeroed(uint64_t size, const char *purpose) {
  Mapping mapping;
  if (size == 0)
    return mapping;
  // MAP_NORESERVE is left out: what cannot be had is refused here, where it
  // can be said, as far as the system's overcommit policy knows.
  void *at = mmap(nullptr, size, PROT_READ | PROT_WRITE,
                  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (at == MAP_FAILED)
    return Status(CRIA_RESOURCE_EXHAUSTED, "cannot allocate " +
                                               std::to_string(size) +
                                               " bytes for " + purpose);
  madvise(at, size, MADV_HUGEPAGE);
  mapping.begin = static_cast<std::byte *>(at);
  mapping.bytes = size;
  return mapping;
}

static constexpr uint64_t pageBytes = 4096;

void populate(const std::byte *data, uint64_t size) {
#ifdef MADV_POPULATE_READ
  auto address = reinterpret_cast<uintptr_t>(data);
  uintptr_t begin = address / pageBytes * pageBytes;
  uint64_t pages = (address + size - begin + pageBytes - 1) / pageBytes;
  onAllCores(static_cast<int64_t>(pages), [&](int64_t from, int64_t to) {
    auto first = static_cast<uint64_t>(from), last = static_cast<uint64_t>(to);
    madvise(reinterpret_cast<void *>(begin + first * pageBytes),
            (last - first) * pageBytes, MADV_POPULATE_READ);
  });
#else
  (void)data, (void)size;
#endif
}

void release(const std::byte *data, uint64_t size) {
  auto address = reinterpret_cast<uintptr_t>(data);
  uintptr_t begin = (address + pageBytes - 1) / pageBytes * pageBytes;
  uintptr_t end = (address + size) / pageBytes * pageBytes;
  if (begin < end)
    madvise(reinterpret_cast<void *>(begin), end - begin, MADV_DONTNEED);
}

/// The number after `key` in a file of lines, or the file's only one; nothing
/// where there is none ("max").
static std::optional<uint64_t> numberIn(const char *path,
                                        const std::string &key) {
  std::ifstream file(path);
  uint64_t number = 0;
  if (key.empty())
    return file >> number ? std::make_optional(number) : std::nullopt;
  for (std::string word; file >> word;)
    if (word == key && file >> number)
      return number;
  return std::nullopt;
}

uint64_t availableMemory() {
  uint64_t available =
      numberIn("/proc/meminfo", "MemAvailable:").value_or(0) * 1024;
  auto limit = numberIn("/sys/fs/cgroup/memory.max", "");
  auto used = numberIn("/sys/fs/cgroup/memory.current", "");
  // What the group has cached of files goes when it is needed.
  auto cached = numberIn("/sys/fs/cgroup/memory.stat", "inactive_file");
  if (limit && used)
    available = std::min(available,
                         *limit - std::min(*limit, *used - cached.value_or(0)));
  return available;
}

} // namespace cria
