/// Grammars in llama.cpp's notation, GBNF:
///
///   root  ::= item ("," " "? item)*    # a comment
///   item  ::= [a-z]+ | "\"" [^"\x7F]{1,20} "\""
///
/// The rule of a text is `root`. A rule ends with its line, but for lines
/// within parentheses and around `|`.
#pragma once

#include "runtime/base/Status.h"
#include "runtime/text/grammar/Expression.h"

#include <string_view>
#include <vector>

namespace cria::grammar {

/// The rules, `root` first. INVALID_ARGUMENT for a wrong grammar; an error
/// names the line.
Result<std::vector<Rule>> parseGbnf(std::string_view source);

} // namespace cria::grammar
