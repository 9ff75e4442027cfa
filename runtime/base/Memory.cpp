#include "runtime/base/Memory.h"

#include "runtime/base/threads/Cores.h"

#include <cerrno>
#include <string>
#include <sys/mman.h>
#include <unistd.h>
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
  // Without MAP_NORESERVE the system refuses memory that it cannot give here,
  // where an error can be returned, as far as its overcommit policy knows.
  void *at = mmap(nullptr, size, PROT_READ | PROT_WRITE,
                  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (at == MAP_FAILED)
    return Status(CRIA_RESOURCE_EXHAUSTED,
                  {"cannot allocate ", size, " bytes for ", purpose});
  madvise(at, size, MADV_HUGEPAGE);
  mapping.begin = static_cast<std::byte *>(at);
  mapping.bytes = size;
  return mapping;
}

/// 4, 16 or 64 KiB.
static uint64_t bytesOfPage() { return static_cast<uint64_t>(getpagesize()); }

void expectFewReads(const std::byte *data, uint64_t size) {
  uint64_t pageBytes = bytesOfPage();
  auto address = reinterpret_cast<uintptr_t>(data);
  uintptr_t begin = (address + pageBytes - 1) / pageBytes * pageBytes;
  uintptr_t end = (address + size) / pageBytes * pageBytes;
  for (int advice : {MADV_RANDOM, MADV_NOHUGEPAGE})
    if (begin < end)
      madvise(reinterpret_cast<void *>(begin), end - begin, advice);
}

void populate(const std::byte *data, uint64_t size) {
#ifdef MADV_POPULATE_READ
  uint64_t pageBytes = bytesOfPage();
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

} // namespace cria
