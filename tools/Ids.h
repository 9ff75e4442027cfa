/// Token ids as people and scripts write them: "1,403,407".
#pragma once

#include "runtime/base/Status.h"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace cria {

/// The ids of a list with commas, white space or both between them; no ids for
/// a blank list. Each id is in [0, 2^31).
Result<std::vector<int32_t>> parseIds(std::string_view list);

/// The list of `ids`.
std::string joinIds(const std::vector<int32_t> &ids);

} // namespace cria
