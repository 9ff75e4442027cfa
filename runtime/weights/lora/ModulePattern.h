/// The patterns by which a LoRA adapter's config names modules: Python's
/// regular expressions, as far as names of modules need them.
#pragma once

#include "runtime/base/Status.h"

#include <cstdint>
#include <string_view>

namespace cria {

/// Whether `pattern` matches all of `module`, or all that follows one of its
/// dots: PEFT's (.*\.)?(PATTERN)$.
///
/// Patterns may have literals, classes, '.', \d, groups, '|', anchors and
/// repetitions. Other syntax of Python is UNIMPLEMENTED, and text that is not
/// such an expression is INVALID_ARGUMENT. Nothing is compiled: the text is
/// walked, and with it the set of positions in `module` that it may have
/// reached. Each position at each atom takes one from `budget`;
/// INVALID_ARGUMENT if that is too small.
Result<bool> matchesModule(std::string_view pattern, std::string_view module,
                           uint64_t &budget);

} // namespace cria
