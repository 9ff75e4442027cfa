/// What cria-run is as a process: signals, stdout, a clock.
#pragma once

#include "runtime/Session.h"
#include "runtime/Status.h"

#include <chrono>
#include <string>

namespace cria {

/// From now on the first SIGINT or SIGTERM while there is a session to stop
/// cancels it, and any other ends the process.
void catchSignals();

/// The session to stop; null for none.
void setRunning(Session *session);

/// A file to take away where a signal ends the process, of a few; its
/// characters must live until it is removed from these again.
void addPartialFile(const char *path);
void removePartialFile(const char *path);

/// The signal that stopped the session, or 0.
int caughtSignal();
/// Lets the next signal stop the session again.
void forgetSignal();

/// Seconds since the first call.
double now();
/// The same of a moment.
double secondsAt(std::chrono::steady_clock::time_point moment);

/// Writes all of `text` to stdout.
Status writeOut(const std::string &text);

} // namespace cria
