/// Makes text of files that may come from anybody safe to print.
#pragma once

#include <string>
#include <string_view>

namespace cria {

/// `text` as one line that does nothing to a terminal: control characters,
/// line separators and characters without a shape of their own (such as those
/// that turn the direction of writing) become escapes of JSON, \n or \u001b,
/// bytes that are not UTF-8 become \xff. Nothing else changes, so that a
/// printable text stays as it is.
std::string printable(std::string_view text);

/// The same for a text of many lines: newlines and tabs stay.
std::string printableLines(std::string_view text);

} // namespace cria
