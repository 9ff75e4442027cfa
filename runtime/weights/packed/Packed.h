/// Weights that a checkpoint has in several tensors, as quantizers write them.
///
///   fp8   X.weight (N, K) F8_E4M3, with one of
///         X.weight_scale_inv, X.weight_scale: one number; one for each row,
///         (N, 1) or (N); or one for each block, of 128 x 128 unless the
///         config says another size, rounded up at the edges
///   GPTQ  X.qweight (K / 8, N), X.qzeros (groups, N / 8),
///         X.scales (groups, N), and X.g_idx (K), or none if groups follow one
///         another
///   AWQ   X.qweight (K, N / 8), X.qzeros and X.scales as above
///   rows  of compressed-tensors: X.weight_packed (N, K / 8), X.weight_shape,
///         X.weight_scale (N, groups) and, or not, X.weight_zero_point
///         (N / 8, groups) and X.weight_g_idx (K); K / 8 and N / 8 rounded up
///   mxfp4 of experts: X_blocks (E, N, K / 32, 16) U8, two E2M1 each, and
///         X_scales (E, N, K / 32) U8, exponents of 2 plus 127
///
/// Their elements are computed in f32, then converted to the type that the
/// compiled code reads.
#pragma once

#include "runtime/base/Status.h"
#include "runtime/weights/Checkpoint.h"
#include "runtime/weights/Elements.h"
#include "runtime/weights/packed/PackedConfig.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace cria {

/// One such weight.
struct PackedWeight {
  ElementsPtr elements;
  /// All its tensors; the first has the elements.
  std::vector<const Checkpoint::Tensor *> tensors;
  std::string format;  // for messages: "f8_e4m3", "gptq"
  std::string reading; // differs if the same tensors are read in another way
  DType type = DType::F32; // of the elements
};

/// Whether a tensor of `checkpoint` belongs to such a weight.
inline bool hasPacked(const Checkpoint &checkpoint) {
  const auto &all = checkpoint.tensors();
  return std::any_of(all.begin(), all.end(), [](const auto &each) {
    const TensorEntry &tensor = *each.second.tensor;
    return tensor.type == DType::F8_E4M3 || endsWith(tensor.name, ".qweight") ||
           endsWith(tensor.name, "_blocks") ||
           endsWith(tensor.name, ".weight_packed");
  });
}

/// What the quantization_config of the checkpoint's config.json says, completed
/// by the quantize_config.json beside it; of a checkpoint without both, what
/// `config` says, the config of the artifact. Reads nothing if no tensor is
/// packed.
Result<PackedConfig> readPackedConfig(const Checkpoint &checkpoint,
                                      const nlohmann::json &config);

/// The weight `name` of `shape`, if `checkpoint` has it packed. `place` is the
/// tensor of this name, or null. Nothing if it is one plain tensor or missing,
/// or if its tensors are wrong or are not as `config` says, as `problem` then
/// says. Reads headers alone; the checkpoint must outlive the elements.
std::optional<PackedWeight>
findPacked(const Checkpoint &checkpoint, const std::string &name,
           const Checkpoint::Tensor *place, const Shape &shape,
           const PackedConfig &config, std::string &problem);

} // namespace cria
