/// Settings in environment variables.
#pragma once

#include <string>

namespace cria {

/// The value of a variable; "" if it is not set.
std::string environment(const char *name);

/// The seconds in a variable, a number of at least 0; `otherwise` if it is not
/// set, or has something else.
double secondsOf(const char *name, double otherwise);

} // namespace cria
