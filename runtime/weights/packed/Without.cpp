// In place of the wing, in a build without it.
#include "runtime/weights/packed/Packed.h"

namespace cria {

Result<PackedConfig> readPackedConfig(const Checkpoint &checkpoint,
                                      const nlohmann::json &) {
  if (hasPacked(checkpoint))
    return Status(CRIA_UNIMPLEMENTED,
                  checkpoint.path() +
                      ": this build of libcria reads no weights "
                      "of 4-bit integers or 8-bit floats");
  return PackedConfig();
}

std::optional<PackedWeight> findPacked(const Checkpoint &, const std::string &,
                                       const Checkpoint::Tensor *,
                                       const Shape &, const PackedConfig &,
                                       std::string &) {
  return std::nullopt;
}

} // namespace cria
