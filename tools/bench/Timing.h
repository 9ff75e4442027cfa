/// Clocks and medians.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <string>
#include <unistd.h>
#include <vector>

namespace cria::bench {

using Clock = std::chrono::steady_clock;

inline double secondsSince(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

inline double median(std::vector<double> values) {
  auto middle = values.begin() + static_cast<int64_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

/// The mean cost of a byte or an operation; 0, unknown, if either is unknown.
inline double meanCost(double before, double after) {
  return before > 0 && after > 0 ? (before + after) / 2 : 0;
}

/// Prints what is being done, if somebody watches.
inline void progress(const std::string &what) {
  if (isatty(STDERR_FILENO))
    fprintf(stderr, "cria-bench: %s\n", what.c_str());
}

} // namespace cria::bench
