/// What --list-devices prints.
#pragma once

namespace cria {

/// Prints a line for each device of this machine, under the name that --device
/// takes; says on stderr why there is no GPU.
void listDevices();

} // namespace cria
