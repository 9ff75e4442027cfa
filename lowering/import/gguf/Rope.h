/// What the factors of rope's frequencies in a GGUF file come from.
#pragma once

#include <nlohmann/json.hpp>

#include <vector>

namespace cria::gguf {

/// The rope_scaling of a config.json that divides the frequencies of `base` by
/// `factors`. GGUF has what Llama 3's parameters make of them; where there are
/// such parameters, they are found again, so that frequencies are computed as
/// from a config.json, to the last bit. Else the factors are given one by one.
nlohmann::json ropeOfFactors(const std::vector<double> &factors, double base);

} // namespace cria::gguf
