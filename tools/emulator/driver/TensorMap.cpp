// Tensor maps. The layout of the 128 bytes is our own; the rules for the
// arguments are the real driver's.
#include "tools/emulator/run/async/TensorMap.h"
#include "tools/emulator/driver/Driver.h"

#include <algorithm>
#include <cstring>

using namespace cria::emulator;

namespace {

constexpr uint8_t kElementBytes[] = {1, 2, 4, 4, 8, 8, 2, 4, 8, 2};
constexpr uint8_t kSwizzleBytes[] = {0, 32, 64, 128};

/// What is wrong with a dimension, or null.
const char *wrongDimension(const TensorMap &map, unsigned i,
                           cuuint32_t elementStride) {
  if (map.dims[i] == 0 || map.dims[i] > (uint64_t(1) << 32))
    return "expected dimensions of 1 to 2^32 elements";
  if (map.box[i] == 0 || map.box[i] > 256)
    return "expected a box of 1 to 256 elements in each dimension";
  if (elementStride == 0 || elementStride > 8)
    return "expected element strides of 1 to 8";
  if (i + 1 < map.rank &&
      (map.strides[i] % 16 || map.strides[i] >= (uint64_t(1) << 40)))
    return "expected strides that are multiples of 16 and less than 2^40";
  return nullptr;
}

/// What is wrong with the tensor and its box, or null.
const char *wrongTensor(const TensorMap &map,
                        const cuuint32_t *elementStrides) {
  if (map.address % 16)
    return "expected a tensor at a multiple of 16";
  for (unsigned i = 0; i < map.rank; ++i)
    if (const char *wrong = wrongDimension(map, i, elementStrides[i]))
      return wrong;
  if (map.rowBytes() % 16)
    return "expected rows of the box with a multiple of 16 bytes";
  if (map.swizzleBytes && map.rowBytes() > map.swizzleBytes)
    return "expected rows of the box that are no longer than the swizzle";
  return nullptr;
}

/// What a real device can do and this one cannot, or null.
const char *missingMode(const TensorMap &map, CUtensorMapInterleave interleave,
                        const cuuint32_t *elementStrides) {
  if (interleave != CU_TENSOR_MAP_INTERLEAVE_NONE)
    return "interleaved tensors are not supported";
  // The stride of the innermost dimension is ignored.
  for (unsigned i = 1; i < map.rank; ++i)
    if (elementStrides[i] != 1)
      return "element strides other than 1 are not supported";
  if (map.rowBytes() < map.swizzleBytes)
    return "rows of the box that are shorter than the swizzle are not "
           "supported";
  return nullptr;
}

/// What is wrong with the arguments that choose a mode, or null.
const char *wrongMode(CUtensorMapDataType type, CUtensorMapSwizzle swizzle,
                      CUtensorMapL2promotion promotion,
                      CUtensorMapFloatOOBfill fill) {
  if (unsigned(type) > CU_TENSOR_MAP_DATA_TYPE_BFLOAT16)
    return "unknown type of elements";
  if (unsigned(swizzle) > CU_TENSOR_MAP_SWIZZLE_128B)
    return "unknown swizzle";
  if (unsigned(promotion) > CU_TENSOR_MAP_L2_PROMOTION_L2_256B)
    return "unknown promotion";
  if (unsigned(fill) > CU_TENSOR_MAP_FLOAT_OOB_FILL_NAN_REQUEST_ZERO_FMA)
    return "unknown fill";
  if (fill != CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE &&
      type < CU_TENSOR_MAP_DATA_TYPE_FLOAT16)
    return "expected floats to fill with NaN";
  return nullptr;
}

CUresult refuse(Driver &driver, const char *why,
                CUresult result = CUDA_ERROR_INVALID_VALUE) {
  driver.reportMisuse(why);
  return result;
}

} // namespace

extern "C" CUresult cuTensorMapEncodeTiled(
    CUtensorMap *map, CUtensorMapDataType type, cuuint32_t rank, void *address,
    const cuuint64_t *dims, const cuuint64_t *strides, const cuuint32_t *box,
    const cuuint32_t *elementStrides, CUtensorMapInterleave interleave,
    CUtensorMapSwizzle swizzle, CUtensorMapL2promotion promotion,
    CUtensorMapFloatOOBfill fill) {
  ENTER(Initialized);
  if (driver.settings.capability < 90)
    return CUDA_ERROR_NOT_SUPPORTED;
  if (!map || uint64_t(map) % 64)
    return refuse(driver, "expected a map at a multiple of 64");
  if (rank < 1 || rank > 5 || !dims || !box || !elementStrides ||
      (rank > 1 && !strides))
    return refuse(driver, "expected 1 to 5 dimensions");
  if (const char *wrong = wrongMode(type, swizzle, promotion, fill))
    return refuse(driver, wrong);
  TensorMap made;
  made.rank = uint8_t(rank);
  made.address = uint64_t(address);
  made.elementBytes = kElementBytes[type];
  made.swizzleBytes = kSwizzleBytes[swizzle];
  made.fillsWithNan = fill != CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE;
  std::copy_n(dims, rank, made.dims);
  std::copy_n(box, rank, made.box);
  std::copy_n(strides, rank - 1, made.strides);
  if (const char *wrong = wrongTensor(made, elementStrides))
    return refuse(driver, wrong);
  if (const char *missing = missingMode(made, interleave, elementStrides))
    return refuse(driver, missing, CUDA_ERROR_NOT_SUPPORTED);
  std::memset(map, 0, sizeof *map);
  std::memcpy(map, &made, sizeof made);
  return CUDA_SUCCESS;
}
