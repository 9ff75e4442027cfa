// Texture and surface objects.
#include "tools/emulator/driver/memory/Textures.h"

using namespace cria::emulator;

namespace {

/// The most texels of linear memory, and of a row and a column of pitched
/// memory, as on GPUs.
constexpr size_t kMostLinear = size_t(1) << 28, kMostPitched = size_t(1) << 17;

/// The image that a resource means; the error if there is none.
CUresult imageOf(Driver &driver, const CUDA_RESOURCE_DESC &from, Image &image) {
  auto format = [&](unsigned number, unsigned channels) {
    if (setFormat(image, number, channels))
      return CUDA_SUCCESS;
    driver.reportMisuse("images of format " + std::to_string(number) +
                        " are not emulated");
    return CUDA_ERROR_NOT_SUPPORTED;
  };
  switch (from.resType) {
  case CU_RESOURCE_TYPE_ARRAY:
    if (CUresult result = driver.check(driver.arrays, from.res.array.hArray))
      return result;
    image = from.res.array.hArray->image;
    return CUDA_SUCCESS;
  case CU_RESOURCE_TYPE_LINEAR: {
    const auto &linear = from.res.linear;
    if (CUresult result = format(linear.format, linear.numChannels))
      return result;
    if (linear.sizeInBytes / image.texelBytes() > kMostLinear)
      return CUDA_ERROR_INVALID_VALUE;
    image.address = linear.devPtr;
    image.width = uint32_t(linear.sizeInBytes / image.texelBytes());
    image.pitch = linear.sizeInBytes;
    break;
  }
  case CU_RESOURCE_TYPE_PITCH2D: {
    const auto &pitched = from.res.pitch2D;
    if (CUresult result = format(pitched.format, pitched.numChannels))
      return result;
    if (pitched.width > kMostPitched || !pitched.height ||
        pitched.height > kMostPitched)
      return CUDA_ERROR_INVALID_VALUE;
    image.address = pitched.devPtr;
    image.width = uint32_t(pitched.width);
    image.height = uint32_t(pitched.height);
    image.pitch = pitched.pitchInBytes;
    if (image.pitch < uint64_t(image.width) * image.texelBytes())
      return CUDA_ERROR_INVALID_VALUE;
    break;
  }
  default:
    driver.reportMisuse("mipmapped arrays are not emulated");
    return CUDA_ERROR_NOT_SUPPORTED;
  }
  bool isMemory = image.width && isAnywhere(driver, image.address, 1);
  return isMemory ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/// How the texture is read; the error if the image cannot be read so.
CUresult setReads(Driver &driver, const CUDA_TEXTURE_DESC &how,
                  Texture &texture) {
  if (how.flags & CU_TRSF_SRGB) {
    driver.reportMisuse("textures of sRGB are not emulated");
    return CUDA_ERROR_NOT_SUPPORTED;
  }
  for (int i = 0; i < 3; ++i) {
    if (how.addressMode[i] < Texture::Wrap ||
        how.addressMode[i] > Texture::Border)
      return CUDA_ERROR_INVALID_VALUE;
    texture.modes[i] = Texture::Mode(how.addressMode[i]);
  }
  texture.isLinear = how.filterMode;
  texture.isNormalized = how.flags & CU_TRSF_NORMALIZED_COORDINATES;
  bool isInteger = texture.image.kind != Image::Float;
  texture.asInteger = isInteger && (how.flags & CU_TRSF_READ_AS_INTEGER ||
                                    texture.image.bits == 32);
  std::copy_n(how.borderColor, 4, texture.border);
  return texture.isLinear && texture.asInteger ? CUDA_ERROR_INVALID_VALUE
                                               : CUDA_SUCCESS;
}

/// The object of a handle, which must be of this kind; the error if there is
/// none.
CUresult find(Driver &driver, uint64_t object, bool isSurface,
              const Texture **found) {
  *found = driver.textures.find(object);
  if (*found && (*found)->isSurface == isSurface)
    return CUDA_SUCCESS;
  driver.reportMisuse(std::to_string(object) + " is no " +
                      (isSurface ? "surface" : "texture") + " object");
  return CUDA_ERROR_INVALID_VALUE;
}

CUresult destroy(Driver &driver, uint64_t object, bool isSurface) {
  const Texture *found;
  if (CUresult result = find(driver, object, isSurface, &found))
    return result;
  driver.textures.erase(object);
  return CUDA_SUCCESS;
}

} // namespace

extern "C" {

CUresult cuTexObjectCreate(CUtexObject *object, const CUDA_RESOURCE_DESC *image,
                           const CUDA_TEXTURE_DESC *how, const void *view) {
  ENTER(Context);
  if (!object || !image || !how)
    return CUDA_ERROR_INVALID_VALUE;
  if (view) {
    driver.reportMisuse("views of resources are not emulated");
    return CUDA_ERROR_NOT_SUPPORTED;
  }
  Texture texture;
  if (CUresult result = imageOf(driver, *image, texture.image))
    return result;
  if (CUresult result = setReads(driver, *how, texture))
    return result;
  return give(object, driver.textures.add(texture));
}

CUresult cuTexObjectDestroy(CUtexObject object) {
  ENTER(Context);
  return destroy(driver, object, false);
}

CUresult cuSurfObjectCreate(CUsurfObject *object,
                            const CUDA_RESOURCE_DESC *image) {
  ENTER(Context);
  if (!object || !image || image->resType != CU_RESOURCE_TYPE_ARRAY)
    return CUDA_ERROR_INVALID_VALUE;
  Texture surface;
  surface.isSurface = true;
  if (CUresult result = imageOf(driver, *image, surface.image))
    return result;
  return give(object, driver.textures.add(surface));
}

CUresult cuSurfObjectDestroy(CUsurfObject object) {
  ENTER(Context);
  return destroy(driver, object, true);
}

} // extern "C"
