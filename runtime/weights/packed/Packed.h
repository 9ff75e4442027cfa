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
///
/// Their elements are computed in f32, then converted to the type that the
/// compiled code reads.
#pragma once

#include "runtime/base/Status.h"
#include "runtime/weights/Checkpoint.h"
#include "runtime/weights/packed/PackedConfig.h"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace cria {

/// One such weight, a matrix. Immutable once it is loaded.
class PackedWeight {
public:
  virtual ~PackedWeight() = default;

  /// Takes the weight for stored as `given` says. Returns what contradicts this
  /// in the shapes of the tensors; empty if nothing does.
  virtual std::string use(const PackedScheme &given) = 0;

  /// Reads all tensors except the one with the elements; refuses invalid
  /// values. Called once.
  virtual Status load(const Checkpoint &checkpoint) = 0;

  /// Writes the elements [first, first + count), counted row by row.
  virtual Status read(const Checkpoint &checkpoint, float *to, uint64_t first,
                      uint64_t count) const = 0;

  /// How many elements to read at once, a multiple of mostBlockElements.
  virtual uint64_t stretch() const = 0;

  /// The format, for messages: "f8_e4m3", "gptq".
  const char *format() const;
  /// A text that differs if the same tensors are read in another way.
  std::string reading() const;

  /// How the weight is stored.
  PackedScheme scheme = {};
  /// The tensor with the elements.
  const Checkpoint::Place *elements = nullptr;
  /// The names of all tensors.
  std::vector<std::string> names;
  /// After `load`: what contradicts the config and is read all the same; empty
  /// for nothing.
  std::string warning;
};

/// What the quantization_config of the checkpoint's config.json says, completed
/// by the quantize_config.json beside it; of a checkpoint without both, what
/// `config` says, the config of the artifact. Reads nothing if no tensor is
/// packed.
Result<PackedConfig> readPackedConfig(const Checkpoint &checkpoint,
                                      const nlohmann::json &config);

/// The weight `name` of `shape`, if `checkpoint` has it packed. Null if it is
/// one plain tensor or missing, or if its tensors are wrong or are not as
/// `config` says, as `problem` then says. Reads headers alone.
std::shared_ptr<PackedWeight> findPacked(const Checkpoint &checkpoint,
                                         const std::string &name,
                                         const Shape &shape,
                                         const PackedConfig &config,
                                         std::string &problem);

} // namespace cria
