/// What cria-run did and when, for a timeline.
#pragma once

#include "runtime/File.h"
#include "runtime/Status.h"

#include <nlohmann/json.hpp>

#include <cstdint>
#include <string>
#include <vector>

namespace cria {

/// A feed: a chunk of the prompt, or one new id.
struct RunEvent {
  const char *name;
  double begin, seconds; // since the start
  int64_t position, tokens;
};

/// Writes the feeds of a run to the file at `path`, in Chrome's trace format
/// (chrome://tracing, Perfetto).
inline Status writeTrace(const std::string &path,
                         const std::vector<RunEvent> &run) {
  OutputFile file(path);
  nlohmann::json events = nlohmann::json::array();
  for (const RunEvent &event : run)
    events.push_back(
        {{"name", event.name},
         {"ph", "X"},
         {"pid", 1},
         {"tid", 1},
         {"ts", event.begin * 1e6},
         {"dur", event.seconds * 1e6},
         {"args", {{"position", event.position}, {"tokens", event.tokens}}}});
  std::string text = nlohmann::json{{"traceEvents", events}}.dump() + "\n";
  file.write(text.data(), text.size());
  file.commit();
  return statusOf(file);
}

} // namespace cria
