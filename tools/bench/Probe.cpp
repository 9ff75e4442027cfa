#include "tools/bench/Probe.h"

#include <cerrno>
#include <csignal>
#include <cstring>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

namespace cria::bench {

static constexpr unsigned mostSeconds = 60;

/// Lets every signal that a probe can raise end this process, without a core
/// dump.
static void dieOfFaults() {
  for (int signal : {SIGILL, SIGSEGV, SIGBUS, SIGFPE, SIGTRAP, SIGSYS, SIGALRM})
    ::signal(signal, SIG_DFL);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  rlimit noCore = {0, 0};
  setrlimit(RLIMIT_CORE, &noCore);
  alarm(mostSeconds);
}

/// Waits for `child` to end. False if the system does not say how it ended,
/// because SIGCHLD is ignored.
static bool waitFor(pid_t child, int &how) {
  pid_t ended;
  do
    ended = waitpid(child, &how, 0);
  while (ended < 0 && errno == EINTR);
  return ended == child;
}

static Status cannotTry(const char *what) {
  return Status(CRIA_UNAVAILABLE,
                std::string("not tried: ") + what + ": " + strerror(errno));
}

Status tryInChild(const std::function<void()> &probe) {
  // The child sets this after the probe has returned.
  void *shared = mmap(nullptr, sizeof(int), PROT_READ | PROT_WRITE,
                      MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (shared == MAP_FAILED)
    return cannotTry("mmap");
  volatile int &returned = *static_cast<volatile int *>(shared);
  pid_t child = fork();
  if (child == 0) {
    dieOfFaults();
    probe();
    returned = 1;
    _exit(0);
  }
  Status status = child < 0 ? cannotTry("fork") : Status();
  if (child > 0) {
    int how = 0;
    bool isKnown = waitFor(child, how);
    if (!returned)
      status =
          Status(CRIA_UNAVAILABLE, isKnown && WIFSIGNALED(how)
                                       ? std::string("it ends with \"") +
                                             strsignal(WTERMSIG(how)) + "\""
                                       : "it does not return");
  }
  munmap(shared, sizeof(int));
  return status;
}

} // namespace cria::bench
