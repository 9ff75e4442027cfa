// CUDA arrays: images in device memory. Their rows lie one after the other.
#include "tools/emulator/driver/memory/Copies.h"
#include "tools/emulator/driver/memory/Memory.h"
#include "tools/emulator/driver/memory/Textures.h"

using namespace cria::emulator;

bool cria::emulator::setFormat(Image &image, unsigned format,
                               unsigned channels) {
  switch (format) {
  case CU_AD_FORMAT_UNSIGNED_INT8:
  case CU_AD_FORMAT_UNSIGNED_INT16:
  case CU_AD_FORMAT_UNSIGNED_INT32:
    image.kind = Image::Unsigned;
    image.bits = uint8_t(8u << (format - CU_AD_FORMAT_UNSIGNED_INT8));
    break;
  case CU_AD_FORMAT_SIGNED_INT8:
  case CU_AD_FORMAT_SIGNED_INT16:
  case CU_AD_FORMAT_SIGNED_INT32:
    image.kind = Image::Signed;
    image.bits = uint8_t(8u << (format - CU_AD_FORMAT_SIGNED_INT8));
    break;
  case CU_AD_FORMAT_HALF:
  case CU_AD_FORMAT_FLOAT:
    image.kind = Image::Float;
    image.bits = format == CU_AD_FORMAT_HALF ? 16 : 32;
    break;
  default:
    return false;
  }
  image.channels = uint8_t(channels);
  return channels == 1 || channels == 2 || channels == 4;
}

namespace {

constexpr size_t kMostTexels = size_t(1) << 17; // in one dimension, as on GPUs

/// The image of an array, without memory; the error if there is none.
CUresult imageOf(Driver &driver, const CUDA_ARRAY3D_DESCRIPTOR &shape,
                 Image &image) {
  constexpr unsigned kKnown = CUDA_ARRAY3D_LAYERED | CUDA_ARRAY3D_SURFACE_LDST |
                              CUDA_ARRAY3D_CUBEMAP |
                              CUDA_ARRAY3D_TEXTURE_GATHER;
  if (!setFormat(image, shape.Format, shape.NumChannels) ||
      shape.Flags & ~kKnown) {
    driver.reportMisuse("arrays of format " + std::to_string(shape.Format) +
                        " with flags " + std::to_string(shape.Flags) +
                        " are not emulated");
    return CUDA_ERROR_NOT_SUPPORTED;
  }
  image.isLayered = shape.Flags & CUDA_ARRAY3D_LAYERED;
  image.isCube = shape.Flags & CUDA_ARRAY3D_CUBEMAP;
  bool isSolid = shape.Depth && !image.isLayered && !image.isCube;
  bool isWrongCube = image.isCube && (shape.Width != shape.Height ||
                                      shape.Depth == 0 || shape.Depth % 6);
  if (!shape.Width || shape.Width > kMostTexels || shape.Height > kMostTexels ||
      shape.Depth > kMostTexels || (isSolid && !shape.Height) ||
      (image.isLayered && !shape.Depth) || isWrongCube)
    return CUDA_ERROR_INVALID_VALUE;
  image.width = uint32_t(shape.Width);
  image.height = uint32_t(shape.Height);
  image.depth = uint32_t(shape.Depth);
  image.pitch = uint64_t(image.width) * image.texelBytes();
  return CUDA_SUCCESS;
}

CUresult create(Driver &driver, CUarray *array,
                const CUDA_ARRAY3D_DESCRIPTOR &shape) {
  if (!array)
    return CUDA_ERROR_INVALID_VALUE;
  Image image;
  if (CUresult result = imageOf(driver, shape, image))
    return result;
  if (CUresult result = forbidCapture())
    return result;
  CUdeviceptr address;
  if (CUresult result =
          allocate(driver, &address, image.bytes(), Allocation::Device))
    return result;
  image.address = address;
  *array = driver.arrays.make();
  **array = {currentContext(), image, shape};
  return CUDA_SUCCESS;
}

/// A copy of bytes between an array of one dimension and something else.
/// @{
CUDA_MEMCPY2D row(size_t bytes) {
  CUDA_MEMCPY2D copy = {};
  copy.WidthInBytes = bytes;
  copy.Height = 1;
  return copy;
}

void toArray(CUDA_MEMCPY2D &copy, CUarray array, size_t offset) {
  copy.dstMemoryType = CU_MEMORYTYPE_ARRAY;
  copy.dstArray = array;
  copy.dstXInBytes = offset;
}

void fromArray(CUDA_MEMCPY2D &copy, CUarray array, size_t offset) {
  copy.srcMemoryType = CU_MEMORYTYPE_ARRAY;
  copy.srcArray = array;
  copy.srcXInBytes = offset;
}

CUDA_MEMCPY2D fromHost(CUarray to, size_t offset, const void *from,
                       size_t bytes) {
  CUDA_MEMCPY2D copy = row(bytes);
  toArray(copy, to, offset);
  copy.srcMemoryType = CU_MEMORYTYPE_HOST;
  copy.srcHost = from;
  return copy;
}

CUDA_MEMCPY2D toHost(void *to, CUarray from, size_t offset, size_t bytes) {
  CUDA_MEMCPY2D copy = row(bytes);
  fromArray(copy, from, offset);
  copy.dstMemoryType = CU_MEMORYTYPE_HOST;
  copy.dstHost = to;
  return copy;
}
/// @}

} // namespace

extern "C" {

CUresult cuArrayCreate_v2(CUarray *array, const CUDA_ARRAY_DESCRIPTOR *shape) {
  ENTER(Context);
  if (!shape)
    return CUDA_ERROR_INVALID_VALUE;
  return create(
      driver, array,
      {shape->Width, shape->Height, 0, shape->Format, shape->NumChannels, 0});
}

CUresult cuArray3DCreate_v2(CUarray *array,
                            const CUDA_ARRAY3D_DESCRIPTOR *shape) {
  ENTER(Context);
  return shape ? create(driver, array, *shape) : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuArrayGetDescriptor_v2(CUDA_ARRAY_DESCRIPTOR *shape, CUarray array) {
  ENTER(Context);
  if (CUresult result = driver.check(driver.arrays, array))
    return result;
  const CUDA_ARRAY3D_DESCRIPTOR &all = array->shape;
  return give(shape, CUDA_ARRAY_DESCRIPTOR{all.Width, all.Height, all.Format,
                                           all.NumChannels});
}

CUresult cuArray3DGetDescriptor_v2(CUDA_ARRAY3D_DESCRIPTOR *shape,
                                   CUarray array) {
  ENTER(Context);
  if (CUresult result = driver.check(driver.arrays, array))
    return result;
  return give(shape, array->shape);
}

CUresult cuArrayDestroy(CUarray array) {
  ENTER(Context);
  if (CUresult result = driver.check(driver.arrays, array))
    return result;
  if (CUresult result = forbidCapture())
    return result;
  driver.memory->free(array->image.address, Allocation::Device);
  array->context->allocations.erase(array->image.address);
  driver.arrays.erase(array);
  return CUDA_SUCCESS;
}

CUresult cuMemcpyHtoA_v2(CUarray to, size_t offset, const void *from,
                         size_t bytes) {
  CUDA_MEMCPY2D copy = fromHost(to, offset, from, bytes);
  return cuMemcpy2D_v2(&copy);
}

CUresult cuMemcpyAtoH_v2(void *to, CUarray from, size_t offset, size_t bytes) {
  CUDA_MEMCPY2D copy = toHost(to, from, offset, bytes);
  return cuMemcpy2D_v2(&copy);
}

CUresult cuMemcpyDtoA_v2(CUarray to, size_t offset, CUdeviceptr from,
                         size_t bytes) {
  CUDA_MEMCPY2D copy = row(bytes);
  toArray(copy, to, offset);
  copy.srcMemoryType = CU_MEMORYTYPE_DEVICE;
  copy.srcDevice = from;
  return cuMemcpy2D_v2(&copy);
}

CUresult cuMemcpyAtoD_v2(CUdeviceptr to, CUarray from, size_t offset,
                         size_t bytes) {
  CUDA_MEMCPY2D copy = row(bytes);
  fromArray(copy, from, offset);
  copy.dstMemoryType = CU_MEMORYTYPE_DEVICE;
  copy.dstDevice = to;
  return cuMemcpy2D_v2(&copy);
}

CUresult cuMemcpyAtoA_v2(CUarray to, size_t toOffset, CUarray from,
                         size_t fromOffset, size_t bytes) {
  CUDA_MEMCPY2D copy = row(bytes);
  toArray(copy, to, toOffset);
  fromArray(copy, from, fromOffset);
  return cuMemcpy2D_v2(&copy);
}

CUresult cuMemcpyHtoAAsync_v2(CUarray to, size_t offset, const void *from,
                              size_t bytes, CUstream stream) {
  CUDA_MEMCPY2D copy = fromHost(to, offset, from, bytes);
  return cuMemcpy2DAsync_v2(&copy, stream);
}

CUresult cuMemcpyAtoHAsync_v2(void *to, CUarray from, size_t offset,
                              size_t bytes, CUstream stream) {
  CUDA_MEMCPY2D copy = toHost(to, from, offset, bytes);
  return cuMemcpy2DAsync_v2(&copy, stream);
}

} // extern "C"
