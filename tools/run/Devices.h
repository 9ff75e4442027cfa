/// The list that --list-devices prints.
#pragma once

namespace cria {

/// Prints a line for each device of this machine, under the name that --device
/// takes; if there is no GPU, prints the reason to stderr.
void listDevices();

} // namespace cria
