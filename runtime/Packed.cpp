#include "runtime/Packed.h"

#include "runtime/PackedFp8.h"
#include "runtime/PackedInt4.h"

#include <algorithm>

namespace cria {

std::shared_ptr<PackedWeight> findPacked(const Checkpoint &checkpoint,
                                         const std::string &name,
                                         const Shape &shape,
                                         std::string &problem) {
  const Checkpoint::Place *place = checkpoint.find(name);
  if (place && place->tensor->type == DType::F8_E4M3 &&
      place->tensor->shape == shape)
    return findFp8(checkpoint, name, *place, problem);
  static const std::string suffix = ".weight";
  size_t front = name.size() - std::min(name.size(), suffix.size());
  if (place || name.compare(front, std::string::npos, suffix) != 0)
    return nullptr;
  return findInt4(checkpoint, name.substr(0, front), shape, problem);
}

} // namespace cria
