/// What becomes of every key of config.json.
#pragma once

#include "lowering/import/Reader.h"

namespace cria {

/// Fails on the first key, in alphabetical order, that is neither honoured nor
/// known to be irrelevant, and on values other than the only one supported.
/// Null counts as absent.
void checkConfigKeys(const nlohmann::json &config, ObjectReader &reader);

/// The same for rope_scaling and rope_parameters.
void checkRopeKeys(const nlohmann::json &rope, bool llama3,
                   ObjectReader &reader);

} // namespace cria
