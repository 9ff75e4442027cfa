/// Regular expressions: what ECMAScript, RE2 and Python agree on, by
/// characters.
///
///   a  .  [a-z]  [^a-z]  \d \w \s \D \W \S  \n \t \r \f \v \0 \xHH \uHHHH
///   \u{H}  (a)  (?:a)  (?<name>a)  a|b  a* a+ a? a{2} a{2,} a{2,5}, also lazy
///
/// `.` is any character but \n; \d, \w and \s are ASCII's. `^` and `$` may
/// begin and end an alternative that is in no group. Anything else is refused
/// by name.
#pragma once

#include "runtime/base/Status.h"
#include "runtime/text/grammar/Expression.h"

#include <string_view>

namespace cria::grammar {

/// What a regular expression has to match.
enum class Match {
  Whole, // the text
  Part   // some of the text, unless `^` or `$` says where
};

/// INVALID_ARGUMENT for a wrong expression, UNIMPLEMENTED for parts that are
/// not supported; an error names the character's place.
Result<Expression> parseRegex(std::string_view source, Match match);

/// The deepest nesting of groups, here and in GBNF.
inline constexpr int mostNesting = 200;
/// The largest number of a repetition.
inline constexpr uint32_t mostRepeats = 1'000'000;

} // namespace cria::grammar
