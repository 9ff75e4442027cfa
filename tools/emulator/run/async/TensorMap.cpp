#include "tools/emulator/run/async/TensorMap.h"

#include <algorithm>

namespace cria::emulator {

TensorRow rowOf(const TensorMap &map, const int32_t *coordinates,
                uint32_t index) {
  TensorRow row;
  row.address = map.address;
  for (unsigned i = 1; i < map.rank; ++i) {
    int64_t at = int64_t(coordinates[i]) + index % map.box[i];
    index /= map.box[i];
    if (at < 0 || uint64_t(at) >= map.dims[i])
      return {};
    row.address += uint64_t(at) * map.strides[i - 1];
  }
  int64_t first = coordinates[0], end = first + map.box[0];
  int64_t low = std::max<int64_t>(first, 0);
  int64_t high = std::min<int64_t>(end, int64_t(map.dims[0]));
  if (low >= high)
    return {};
  row.skipped = uint32_t(low - first) * map.elementBytes;
  row.bytes = uint32_t(high - low) * map.elementBytes;
  row.address += uint64_t(low) * map.elementBytes;
  return row;
}

} // namespace cria::emulator
