/// Libraries that are installed with this code and opened only when needed.
#pragma once

#include <string>

namespace cria {

/// The file `name` beside the library or program that this code is in, or in
/// ../lib from there; else `name` itself, for the system to find.
std::string libraryBeside(const std::string &name);

} // namespace cria
