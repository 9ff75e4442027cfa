/// How a checkpoint stores the weights that Packed.h reads, as the
/// `quantization_config` of a config.json says. The compiler checks a config
/// with it; the runtime reads weights by it.
#pragma once

#include "runtime/base/Json.h"

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace cria {

/// Which tensors a weight has; see Packed.h.
enum class PackedLayout { Fp8, Gptq, Awq, Rows, Mxfp4 };

/// One way to store weights. What the config does not say is absent.
struct PackedScheme {
  PackedLayout layout;
  /// The rows and columns whose elements share a scale; 0 stands for all.
  std::optional<std::array<uint64_t, 2>> block;
  /// Integers: whether every zero is 8.
  std::optional<bool> symmetric;
  /// GPTQ: whether zeros are stored less one, as in version 1 of the format.
  std::optional<bool> lessOne;
  /// Whether the columns of a group may be anywhere.
  std::optional<bool> actOrder;
};

/// What a config says. Each weight is stored in one of the ways.
struct PackedConfig {
  std::vector<PackedScheme> schemes; // empty: the config says nothing
  std::string source;                // who says it, for messages
};

/// Reads the object at `config`, a quantization_config. What is not supported
/// is an error at the cursor; keys that do not say how weights are stored are
/// not looked at.
std::vector<PackedScheme> readPackedSchemes(const JsonCursor &config);

} // namespace cria
