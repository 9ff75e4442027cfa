/// Whether the branches of oneOf exclude each other.
#pragma once

#include "runtime/text/grammar/schema/Checks.h"
#include "runtime/text/grammar/schema/Conjunction.h"

namespace cria::grammar {

/// Exactly one branch of oneOf has to hold. It is enough that at most one can:
/// then oneOf says what anyOf does. Refuses `oneOf` where two branches may both
/// hold, as far as this can be seen: two branches are apart by their types, by
/// the values of enum and const, or by a property that both require and whose
/// schemas are apart.
void checkApart(const JsonTree &oneOf, Conjunctions &conjunctions,
                Checks &checks);

} // namespace cria::grammar
