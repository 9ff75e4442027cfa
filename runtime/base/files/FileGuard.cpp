#include "runtime/base/files/FileGuard.h"

#include <atomic>
#include <cerrno>
#include <csignal>
#include <mutex>
#include <sys/mman.h>
#include <unistd.h>
#include <utility>

namespace cria {

/// An element of a list that only grows, so that a signal handler can walk the
/// list. Freed elements are used again.
struct GuardedRange {
  std::atomic<uintptr_t> begin{0}, end{0}; // empty: free
  std::atomic<bool> isLost{false};
  GuardedRange *next = nullptr;
};

static std::atomic<GuardedRange *> ranges{nullptr};
static std::mutex writing; // locked by all who change the list; the handler
                           // only reads
static struct sigaction before;
static uintptr_t pageBytes;

/// Does what would happen without this handler.
static void passOn(int signal, siginfo_t *info, void *context) {
  if (before.sa_flags & SA_SIGINFO)
    return before.sa_sigaction(signal, info, context);
  if (before.sa_handler != SIG_DFL && before.sa_handler != SIG_IGN)
    return before.sa_handler(signal);
  bool isAccess = info->si_code > 0; // else a process sent the signal
  if (!isAccess && before.sa_handler == SIG_IGN)
    return;
  // The access is repeated, or the signal is sent again, and ends the process.
  ::signal(signal, SIG_DFL);
  if (!isAccess)
    raise(signal);
}

static void handle(int signal, siginfo_t *info, void *context) {
  int saved = errno;
  auto address = reinterpret_cast<uintptr_t>(info->si_addr);
  for (GuardedRange *at = ranges; at; at = at->next) {
    if (address < at->begin || address >= at->end)
      continue;
    void *page = reinterpret_cast<void *>(address / pageBytes * pageBytes);
    if (mmap(page, pageBytes, PROT_READ,
             MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == MAP_FAILED)
      break;
    at->isLost = true;
    errno = saved;
    return;
  }
  passOn(signal, info, context);
}

/// Called with `writing` held.
static void install() {
  if (pageBytes)
    return;
  pageBytes = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  struct sigaction action = {};
  action.sa_sigaction = handle;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK;
  sigaction(SIGBUS, nullptr, &before); // known before the handler runs
  sigaction(SIGBUS, &action, nullptr);
}

FileGuard::FileGuard(const void *begin, uint64_t size, std::string path)
    : range(nullptr), path(std::move(path)) {
  std::lock_guard<std::mutex> lock(writing);
  install();
  for (range = ranges; range && range->end != 0;)
    range = range->next;
  if (!range) {
    range = new GuardedRange;
    range->next = ranges;
    ranges = range;
  }
  auto address = reinterpret_cast<uintptr_t>(begin);
  range->isLost = false;
  range->begin = address;
  range->end = address + size;
}

FileGuard::FileGuard(FileGuard &&other) noexcept
    : range(std::exchange(other.range, nullptr)), path(std::move(other.path)) {}

FileGuard::~FileGuard() {
  if (!range)
    return;
  std::lock_guard<std::mutex> lock(writing);
  range->begin = UINTPTR_MAX; // first, so that the handler never sees a wrong
                              // range
  range->end = 0;
}

Status FileGuard::status() const {
  if (!range || !range->isLost)
    return Status();
  return Status(CRIA_DATA_LOSS,
                path + ": was cut, or cannot be read, while it was in use");
}

} // namespace cria
