/// Finds libraries that are installed with this code and opened when needed.
#pragma once

#include <string>

namespace cria {

/// The path of the file `name` in the folder of the library or program that has
/// this code, or in ../lib from there. If there is no such file, `name`, for
/// the system to find.
std::string libraryBeside(const std::string &name);

} // namespace cria
