/// The process of cria-run: signals, stdout, a clock.
#pragma once

#include "runtime/base/Status.h"
#include "runtime/session/Session.h"

#include <chrono>
#include <string>
#include <sys/types.h>

namespace cria {

/// From now on, a first SIGINT or SIGTERM cancels the session to stop, if there
/// is one. Any other such signal ends the process.
void catchSignals();

/// The session to stop; null for none.
void setRunning(Session *session);

/// A file to remove if a signal ends the process; there is room for a few. Its
/// characters must live until it is removed from the list.
void addPartialFile(const char *path);
void removePartialFile(const char *path);

/// A process that a signal which ends this one ends, too; 0 for none.
void setChild(pid_t child);

/// What to write to stderr if a signal ends the process; null for nothing. Its
/// characters must live as long.
void setLastWords(const char *text);

/// The signal that stopped the session, or 0.
int caughtSignal();
/// Lets the next signal stop the session again.
void forgetSignal();

/// Seconds since the first call.
double now();
/// The same for a moment.
double secondsAt(std::chrono::steady_clock::time_point moment);

/// Writes all of `text` to stdout.
Status writeOut(const std::string &text);

} // namespace cria
