// Arrays, textures and surfaces.
#include "tools/emulator/cudart/Runtime.h"

#include <algorithm>
#include <cstdint>

using namespace cria::cudart;

namespace {

enum FormatKind { Signed, Unsigned, Float };

struct ChannelFormat { // cudaChannelFormatDesc
  int x, y, z, w, kind;
};

struct ResourceDesc { // cudaResourceDesc
  int type;
  union {
    CUarray array;
    struct {
      void *pointer;
      ChannelFormat format;
      size_t bytes;
    } linear;
    struct {
      void *pointer;
      ChannelFormat format;
      size_t width, height, pitch;
    } pitched;
    int reserved[32];
  };
  unsigned flags;
};

struct TextureDesc { // cudaTextureDesc
  int addressMode[3], filterMode, readMode, sRGB;
  float borderColor[4];
  int normalizedCoords;
  unsigned maxAnisotropy;
  int mipmapFilterMode;
  float mipmapLevelBias, minMipmapLevelClamp, maxMipmapLevelClamp;
  int disableTrilinearOptimization, seamlessCubemap;
};

unsigned channelsOf(const ChannelFormat &format) {
  return unsigned(bool(format.x) + bool(format.y) + bool(format.z) +
                  bool(format.w));
}

/// The driver's format; 0 if it has none.
unsigned formatOf(const ChannelFormat &format) {
  switch (format.kind) {
  case Signed:
  case Unsigned: {
    unsigned first = format.kind == Signed ? CU_AD_FORMAT_SIGNED_INT8
                                           : CU_AD_FORMAT_UNSIGNED_INT8;
    return format.x == 8    ? first
           : format.x == 16 ? first + 1
           : format.x == 32 ? first + 2
                            : 0;
  }
  case Float:
    return format.x == 16   ? CU_AD_FORMAT_HALF
           : format.x == 32 ? CU_AD_FORMAT_FLOAT
                            : 0;
  default:
    return 0;
  }
}

int bitsOf(unsigned format) {
  switch (format) {
  case CU_AD_FORMAT_UNSIGNED_INT8:
  case CU_AD_FORMAT_SIGNED_INT8:
    return 8;
  case CU_AD_FORMAT_UNSIGNED_INT16:
  case CU_AD_FORMAT_SIGNED_INT16:
  case CU_AD_FORMAT_HALF:
    return 16;
  default:
    return 32;
  }
}

ChannelFormat formatOf(const CUDA_ARRAY3D_DESCRIPTOR &shape) {
  ChannelFormat format = {};
  int *channels[] = {&format.x, &format.y, &format.z, &format.w};
  for (unsigned i = 0; i < shape.NumChannels; ++i)
    *channels[i] = bitsOf(shape.Format);
  format.kind = shape.Format >= CU_AD_FORMAT_HALF          ? Float
                : shape.Format >= CU_AD_FORMAT_SIGNED_INT8 ? Signed
                                                           : Unsigned;
  return format;
}

Error allocate(CUarray *array, const ChannelFormat *format, Extent extent,
               unsigned flags) {
  if (!format)
    return CUDA_ERROR_INVALID_VALUE;
  CUDA_ARRAY3D_DESCRIPTOR shape = {extent.width,        extent.height,
                                   extent.depth,        formatOf(*format),
                                   channelsOf(*format), flags};
  return cuArray3DCreate_v2(array, &shape);
}

/// A copy of rows. An end that is an array is set later.
CUDA_MEMCPY2D rows(void *to, size_t toPitch, const void *from, size_t fromPitch,
                   size_t width, size_t height, Direction direction) {
  CUDA_MEMCPY2D copy = {};
  copy.srcMemoryType = sourceOf(direction);
  copy.srcHost = from;
  copy.srcDevice = CUdeviceptr(uintptr_t(from));
  copy.srcPitch = fromPitch;
  copy.dstMemoryType = destinationOf(direction);
  copy.dstHost = to;
  copy.dstDevice = CUdeviceptr(uintptr_t(to));
  copy.dstPitch = toPitch;
  copy.WidthInBytes = width;
  copy.Height = height;
  return copy;
}

void toArray(CUDA_MEMCPY2D &copy, CUarray array, size_t x, size_t y) {
  copy.dstMemoryType = CU_MEMORYTYPE_ARRAY;
  copy.dstArray = array;
  copy.dstXInBytes = x;
  copy.dstY = y;
}

void fromArray(CUDA_MEMCPY2D &copy, CUarray array, size_t x, size_t y) {
  copy.srcMemoryType = CU_MEMORYTYPE_ARRAY;
  copy.srcArray = array;
  copy.srcXInBytes = x;
  copy.srcY = y;
}

/// Copies `bytes` bytes, which fill rows of the array from (x, y) on: the rest
/// of one row, whole rows, and the beginning of one.
template <typename F>
Error eachRow(CUarray array, size_t x, size_t y, size_t bytes, F copy) {
  CUDA_ARRAY3D_DESCRIPTOR shape;
  if (Error error = cuArray3DGetDescriptor_v2(&shape, array))
    return error;
  size_t texel;
  if (Error error = texelBytes(array, texel))
    return error;
  size_t width = shape.Width * texel;
  if (x >= width)
    return CUDA_ERROR_INVALID_VALUE;
  for (size_t done = 0; done < bytes; x = 0, ++y) {
    size_t part = std::min(width - x, bytes - done);
    if (Error error = copy(x, y, done, part))
      return error;
    done += part;
  }
  return 0;
}

Error resourceOf(const ResourceDesc &from, CUDA_RESOURCE_DESC &to) {
  to = {};
  to.resType = from.type;
  switch (from.type) {
  case CU_RESOURCE_TYPE_ARRAY:
    to.res.array.hArray = from.array;
    return 0;
  case CU_RESOURCE_TYPE_LINEAR:
    to.res.linear = {CUdeviceptr(uintptr_t(from.linear.pointer)),
                     formatOf(from.linear.format),
                     channelsOf(from.linear.format), from.linear.bytes};
    return 0;
  case CU_RESOURCE_TYPE_PITCH2D:
    to.res.pitch2D = {CUdeviceptr(uintptr_t(from.pitched.pointer)),
                      formatOf(from.pitched.format),
                      channelsOf(from.pitched.format),
                      from.pitched.width,
                      from.pitched.height,
                      from.pitched.pitch};
    return 0;
  default: // the driver says what it lacks
    return 0;
  }
}

} // namespace

Error cria::cudart::texelBytes(CUarray array, size_t &bytes) {
  CUDA_ARRAY3D_DESCRIPTOR shape;
  if (Error error = cuArray3DGetDescriptor_v2(&shape, array))
    return error;
  bytes = size_t(bitsOf(shape.Format)) / 8 * shape.NumChannels;
  return 0;
}

/// The one function that returns a structure.
extern "C" __attribute__((visibility("default"))) ChannelFormat
cudaCreateChannelDesc(int x, int y, int z, int w, int kind) {
  return {x, y, z, w, kind};
}

API(cudaMallocArray)
(CUarray *array, const ChannelFormat *format, size_t width, size_t height,
 unsigned flags) {
  ENTER();
  RETURN(allocate(array, format, {width, height, 0}, flags));
}

API(cudaMalloc3DArray)
(CUarray *array, const ChannelFormat *format, Extent extent, unsigned flags) {
  ENTER();
  RETURN(allocate(array, format, extent, flags));
}

API(cudaFreeArray)(CUarray array) {
  ENTER();
  if (!array)
    return 0;
  RETURN(cuArrayDestroy(array));
}

API(cudaArrayGetInfo)
(ChannelFormat *format, Extent *extent, unsigned *flags, CUarray array) {
  ENTER();
  CUDA_ARRAY3D_DESCRIPTOR shape;
  TRY(cuArray3DGetDescriptor_v2(&shape, array));
  if (format)
    *format = formatOf(shape);
  if (extent)
    *extent = {shape.Width, shape.Height, shape.Depth};
  if (flags)
    *flags = shape.Flags;
  return 0;
}

API(cudaGetChannelDesc)(ChannelFormat *format, CUarray array) {
  return cudaArrayGetInfo(format, nullptr, nullptr, array);
}

API(cudaMemcpy2DToArray)
(CUarray to, size_t x, size_t y, const void *from, size_t pitch, size_t width,
 size_t height, Direction direction) {
  ENTER();
  CUDA_MEMCPY2D copy = rows(nullptr, 0, from, pitch, width, height, direction);
  toArray(copy, to, x, y);
  RETURN(cuMemcpy2D_v2(&copy));
}

API(cudaMemcpy2DToArrayAsync)
(CUarray to, size_t x, size_t y, const void *from, size_t pitch, size_t width,
 size_t height, Direction direction, CUstream stream) {
  ENTER();
  CUDA_MEMCPY2D copy = rows(nullptr, 0, from, pitch, width, height, direction);
  toArray(copy, to, x, y);
  RETURN(cuMemcpy2DAsync_v2(&copy, stream));
}

API(cudaMemcpy2DFromArray)
(void *to, size_t pitch, CUarray from, size_t x, size_t y, size_t width,
 size_t height, Direction direction) {
  ENTER();
  CUDA_MEMCPY2D copy = rows(to, pitch, nullptr, 0, width, height, direction);
  fromArray(copy, from, x, y);
  RETURN(cuMemcpy2D_v2(&copy));
}

API(cudaMemcpy2DFromArrayAsync)
(void *to, size_t pitch, CUarray from, size_t x, size_t y, size_t width,
 size_t height, Direction direction, CUstream stream) {
  ENTER();
  CUDA_MEMCPY2D copy = rows(to, pitch, nullptr, 0, width, height, direction);
  fromArray(copy, from, x, y);
  RETURN(cuMemcpy2DAsync_v2(&copy, stream));
}

API(cudaMemcpy2DArrayToArray)
(CUarray to, size_t toX, size_t toY, CUarray from, size_t fromX, size_t fromY,
 size_t width, size_t height, Direction direction) {
  ENTER();
  CUDA_MEMCPY2D copy = rows(nullptr, 0, nullptr, 0, width, height, direction);
  toArray(copy, to, toX, toY);
  fromArray(copy, from, fromX, fromY);
  RETURN(cuMemcpy2D_v2(&copy));
}

API(cudaMemcpyToArray)
(CUarray to, size_t x, size_t y, const void *from, size_t bytes,
 Direction direction) {
  ENTER();
  RETURN(eachRow(to, x, y, bytes,
                 [&](size_t x, size_t y, size_t done, size_t part) {
                   CUDA_MEMCPY2D copy =
                       rows(nullptr, 0, static_cast<const char *>(from) + done,
                            part, part, 1, direction);
                   toArray(copy, to, x, y);
                   return cuMemcpy2D_v2(&copy);
                 }));
}

API(cudaMemcpyFromArray)
(void *to, CUarray from, size_t x, size_t y, size_t bytes,
 Direction direction) {
  ENTER();
  RETURN(eachRow(
      from, x, y, bytes, [&](size_t x, size_t y, size_t done, size_t part) {
        CUDA_MEMCPY2D copy = rows(static_cast<char *>(to) + done, part, nullptr,
                                  0, part, 1, direction);
        fromArray(copy, from, x, y);
        return cuMemcpy2D_v2(&copy);
      }));
}

API(cudaCreateTextureObject)
(CUtexObject *object, const ResourceDesc *image, const TextureDesc *how,
 const void *view) {
  ENTER();
  if (!image || !how)
    RETURN(CUDA_ERROR_INVALID_VALUE);
  CUDA_RESOURCE_DESC resource;
  TRY(resourceOf(*image, resource));
  CUDA_TEXTURE_DESC texture = {};
  std::copy_n(how->addressMode, 3, texture.addressMode);
  std::copy_n(how->borderColor, 4, texture.borderColor);
  texture.filterMode = how->filterMode;
  texture.flags = (how->readMode ? 0 : CU_TRSF_READ_AS_INTEGER) |
                  (how->normalizedCoords ? CU_TRSF_NORMALIZED_COORDINATES : 0) |
                  (how->sRGB ? CU_TRSF_SRGB : 0);
  RETURN(cuTexObjectCreate(object, &resource, &texture, view));
}

API(cudaDestroyTextureObject)(CUtexObject object) {
  ENTER();
  RETURN(cuTexObjectDestroy(object));
}

API(cudaCreateSurfaceObject)(CUsurfObject *object, const ResourceDesc *image) {
  ENTER();
  if (!image)
    RETURN(CUDA_ERROR_INVALID_VALUE);
  CUDA_RESOURCE_DESC resource;
  TRY(resourceOf(*image, resource));
  RETURN(cuSurfObjectCreate(object, &resource));
}

API(cudaDestroySurfaceObject)(CUsurfObject object) {
  ENTER();
  RETURN(cuSurfObjectDestroy(object));
}
