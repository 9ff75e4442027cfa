#include "tools/run/Process.h"

#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <unistd.h>

namespace cria {

/// Data of the signal handler: the session to stop, the files to remove.
static std::atomic<Session *> running{nullptr};
static std::atomic<const char *> partialFiles[4] = {};
static std::atomic<pid_t> child{0};
static std::atomic<const char *> lastWords{nullptr};
static volatile sig_atomic_t caught = 0;

/// The first signal during generation stops it before the next token. Any other
/// signal ends the process at once.
static void onSignal(int signal) {
  Session *session = running.load();
  if (caught || !session) {
    for (std::atomic<const char *> &file : partialFiles)
      if (const char *path = file.load())
        unlink(path);
    if (pid_t process = child.load())
      kill(process, SIGTERM);
    if (const char *words = lastWords.load())
      (void)!write(STDERR_FILENO, words, strlen(words));
    _exit(128 + signal);
  }
  caught = signal;
  session->cancel();
}

void catchSignals() {
  struct sigaction action = {};
  action.sa_handler = onSignal; // no SA_RESTART: a blocked write ends, too
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
  signal(SIGPIPE, SIG_IGN); // write() reports EPIPE
  signal(SIGXFSZ, SIG_IGN); // and EFBIG
}

void setRunning(Session *session) { running.store(session); }

/// Puts `after` in the first place that holds `before`.
static void replacePartialFile(const char *before, const char *after) {
  for (std::atomic<const char *> &file : partialFiles)
    if (const char *expected = before;
        file.compare_exchange_strong(expected, after))
      return;
}

void addPartialFile(const char *path) { replacePartialFile(nullptr, path); }
void removePartialFile(const char *path) { replacePartialFile(path, nullptr); }

void setChild(pid_t process) { child = process; }

void setLastWords(const char *text) { lastWords = text; }

int caughtSignal() { return caught; }

void forgetSignal() { caught = 0; }

double now() { return secondsAt(std::chrono::steady_clock::now()); }

double secondsAt(std::chrono::steady_clock::time_point moment) {
  static const auto start = moment;
  return std::chrono::duration<double>(moment - start).count();
}

Status writeOut(const std::string &text) {
  for (size_t done = 0; done < text.size();) {
    ssize_t written =
        write(STDOUT_FILENO, text.data() + done, text.size() - done);
    if (written >= 0)
      done += static_cast<size_t>(written);
    else if (errno == EINTR && caught)
      return Status(CRIA_CANCELLED, "interrupted");
    else if (errno != EINTR)
      return Status(CRIA_UNAVAILABLE,
                    std::string("standard output: cannot write: ") +
                        strerror(errno));
  }
  return Status();
}

} // namespace cria
