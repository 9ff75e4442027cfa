/// Prints the counts of launches; docs/emulator.md describes the fields.
#pragma once

#include "tools/emulator/driver/Settings.h"

namespace cria::emulator {

/// A line of JSON.
std::string countsText(const Launch &launch, const LaunchCounts &counts,
                       double seconds);

/// Adds the line to the settings' file, or prints the instructions to stderr.
void printCounts(const Settings &settings, const Launch &launch,
                 const LaunchCounts &counts, double seconds);

} // namespace cria::emulator
