/// Finds the rope scaling from the factors of frequencies in a GGUF file.
#pragma once

#include <nlohmann/json.hpp>

#include <vector>

namespace cria::gguf {

/// The rope_scaling of a config.json that divides the frequencies of `base` by
/// `factors`. GGUF stores the factors that Llama 3's parameters give. If such
/// parameters exist, they are computed from the factors, so that frequencies
/// equal those of a config.json to the last bit. Else each factor is given.
nlohmann::json ropeOfFactors(const std::vector<double> &factors, double base);

} // namespace cria::gguf
