/// Whether the branches of oneOf exclude each other.
#pragma once

#include "runtime/text/grammar/schema/Checks.h"
#include "runtime/text/grammar/schema/Conjunction.h"

namespace cria::grammar {

/// A value must match exactly one branch of oneOf. If no value can match two
/// branches, oneOf means the same as anyOf. Refuses `oneOf` unless every two
/// branches are apart: by their types, by the values of enum and const, or by a
/// property that both require and whose schemas are apart.
void checkApart(const JsonTree &oneOf, Conjunctions &conjunctions,
                Checks &checks);

} // namespace cria::grammar
