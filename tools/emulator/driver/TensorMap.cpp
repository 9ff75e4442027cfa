// Tensor maps. What the 128 bytes hold is our own; the rules for the arguments
// are the real driver's.
#include "tools/emulator/run/TensorMap.h"
#include "tools/emulator/driver/Driver.h"

#include <cstring>

using namespace cria::emulator;

namespace {

constexpr unsigned kElementBytes[] = {1, 2, 4, 4, 8, 8, 2, 4, 8, 2};
constexpr unsigned kSwizzleBytes[] = {0, 32, 64, 128};

/// The shape and the box; strides of all but the innermost dimension.
bool isValid(const TensorMap &map, const cuuint32_t *elementStrides) {
  if (map.address % 16 || map.rank < 1 || map.rank > 5)
    return false;
  for (unsigned i = 0; i < map.rank; ++i) {
    if (map.dims[i] == 0 || map.dims[i] > (uint64_t(1) << 32))
      return false;
    if (map.box[i] == 0 || map.box[i] > 256)
      return false;
    if (elementStrides[i] != 1)
      return false;
  }
  for (unsigned i = 0; i + 1 < map.rank; ++i)
    if (map.strides[i] % 16 || map.strides[i] >= (uint64_t(1) << 40))
      return false;
  unsigned row = map.box[0] * map.elementBytes;
  return row % 16 == 0 && (!map.swizzleBytes || row <= map.swizzleBytes);
}

} // namespace

extern "C" CUresult cuTensorMapEncodeTiled(
    CUtensorMap *map, CUtensorMapDataType type, cuuint32_t rank, void *address,
    const cuuint64_t *dims, const cuuint64_t *strides, const cuuint32_t *box,
    const cuuint32_t *elementStrides, CUtensorMapInterleave interleave,
    CUtensorMapSwizzle swizzle, CUtensorMapL2promotion,
    CUtensorMapFloatOOBfill fill) {
  ENTER(Initialized);
  if (driver.settings.capability < 90)
    return CUDA_ERROR_NOT_SUPPORTED;
  if (!map || uint64_t(map) % 64 || rank < 1 || rank > 5 || !dims || !box ||
      !elementStrides || (rank > 1 && !strides))
    return CUDA_ERROR_INVALID_VALUE;
  if (unsigned(type) > CU_TENSOR_MAP_DATA_TYPE_BFLOAT16 ||
      interleave != CU_TENSOR_MAP_INTERLEAVE_NONE ||
      unsigned(swizzle) > CU_TENSOR_MAP_SWIZZLE_128B)
    return CUDA_ERROR_INVALID_VALUE;
  TensorMap made;
  made.rank = rank;
  made.address = uint64_t(address);
  made.elementBytes = kElementBytes[type];
  made.swizzleBytes = kSwizzleBytes[swizzle];
  made.fillsWithNan = fill != CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE;
  std::copy_n(dims, rank, made.dims);
  std::copy_n(box, rank, made.box);
  std::copy_n(strides, rank - 1, made.strides);
  if (!isValid(made, elementStrides))
    return CUDA_ERROR_INVALID_VALUE;
  std::memset(map, 0, sizeof *map);
  std::memcpy(map, &made, sizeof made);
  return CUDA_SUCCESS;
}
