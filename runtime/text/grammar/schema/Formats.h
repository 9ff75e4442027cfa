/// Formats of JSON Schema's strings.
#pragma once

#include <string_view>

namespace cria::grammar {

/// The regular expression of a format; null if it is not known.
const char *formatRegex(std::string_view name);

/// The names of all formats, for messages.
extern const char *const formatNames;

} // namespace cria::grammar
