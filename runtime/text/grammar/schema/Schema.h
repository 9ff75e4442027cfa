/// JSON Schema (2020-12) as a grammar of JSON texts. docs/steer.md lists the
/// keywords that are supported; one that would constrain and is not supported
/// is refused by name.
#pragma once

#include "runtime/base/Status.h"
#include "runtime/text/grammar/Expression.h"

#include <string_view>
#include <vector>

namespace cria::grammar {

/// The rules of a schema, the root first.
Result<std::vector<Rule>> parseSchema(std::string_view json);

} // namespace cria::grammar
