// Copies and fills of rectangles and boxes, and copies between devices.
#include "tools/emulator/driver/memory/Copies.h"

using namespace cria::emulator;

namespace {

/// One end of a copy of a box.
struct End {
  CUmemorytype type;
  uint64_t host, device;
  uint64_t x, y, z;     ///< in bytes, rows and slices
  uint64_t pitch, rows; ///< of a row, and rows of a slice
  CUarray array;
};

/// The place in memory of an end in an array.
CUresult enterArray(Driver &driver, End &end, const CopyWork &work) {
  if (CUresult result = driver.check(driver.arrays, end.array))
    return result;
  const Image &image = end.array->image;
  uint64_t width = uint64_t(image.width) * image.texelBytes();
  auto fits = [](uint64_t at, uint64_t count, uint64_t size) {
    return at <= size && count <= size - at;
  };
  if (!fits(end.x, work.bytes, width) ||
      !fits(end.y, work.rows, std::max(image.height, 1u)) ||
      !fits(end.z, work.slices, std::max(image.depth, 1u))) {
    driver.reportMisuse("the copy does not lie in the array of " +
                        std::to_string(width) + " bytes x " +
                        std::to_string(image.height) + " x " +
                        std::to_string(image.depth));
    return CUDA_ERROR_INVALID_VALUE;
  }
  end.type = CU_MEMORYTYPE_DEVICE;
  end.device = image.address;
  end.pitch = image.pitch;
  end.rows = std::max(image.height, 1u);
  return CUDA_SUCCESS;
}

/// The address of the first byte.
uint64_t startOf(const End &end) {
  uint64_t base = end.type == CU_MEMORYTYPE_HOST ? end.host : end.device;
  return base + end.z * end.pitch * end.rows + end.y * end.pitch + end.x;
}

/// Whether all rows of one end are memory.
bool isMemory(Driver &driver, const End &end, uint64_t start,
              const CopyWork &work, uint64_t pitch, uint64_t slice) {
  for (uint64_t z = 0; z < work.slices; ++z)
    for (uint64_t y = 0; y < work.rows; ++y) {
      uint64_t at = start + z * slice + y * pitch;
      bool isThere = end.type == CU_MEMORYTYPE_DEVICE
                         ? onDevice(driver, at, work.bytes)
                         : isAnywhere(driver, at, work.bytes);
      if (!isThere)
        return false;
    }
  return true;
}

CUresult describe(Driver &driver, End to, End from, CopyWork &work) {
  for (End *end : {&to, &from}) {
    if (end->type < CU_MEMORYTYPE_HOST || end->type > CU_MEMORYTYPE_UNIFIED)
      return CUDA_ERROR_INVALID_VALUE;
    if (end->type == CU_MEMORYTYPE_ARRAY)
      if (CUresult result = enterArray(driver, *end, work))
        return result;
  }
  auto fits = [&](End &end) {
    end.pitch = end.pitch ? end.pitch : end.x + work.bytes;
    end.rows = end.rows ? end.rows : end.y + work.rows;
    return work.rows * work.slices <= 1 || end.pitch >= end.x + work.bytes;
  };
  if (!fits(to) || !fits(from))
    return CUDA_ERROR_INVALID_VALUE;
  work.to = startOf(to);
  work.from = startOf(from);
  work.toPitch = to.pitch;
  work.fromPitch = from.pitch;
  work.toSlice = to.pitch * to.rows;
  work.fromSlice = from.pitch * from.rows;
  if (!isMemory(driver, to, work.to, work, work.toPitch, work.toSlice) ||
      !isMemory(driver, from, work.from, work, work.fromPitch, work.fromSlice))
    return CUDA_ERROR_INVALID_VALUE;
  return CUDA_SUCCESS;
}

CUresult copyOf(const CUDA_MEMCPY2D &copy, CopyWork &work) {
  work.bytes = copy.WidthInBytes;
  work.rows = copy.Height;
  return describe(
      Driver::get(),
      {copy.dstMemoryType, uint64_t(copy.dstHost), copy.dstDevice,
       copy.dstXInBytes, copy.dstY, 0, copy.dstPitch, 0, copy.dstArray},
      {copy.srcMemoryType, uint64_t(copy.srcHost), copy.srcDevice,
       copy.srcXInBytes, copy.srcY, 0, copy.srcPitch, 0, copy.srcArray},
      work);
}

/// The work of a copy of a rectangle or a box.
template <typename T> CUresult workOf(const T *copy, CopyWork &work) {
  return copy ? copyOf(*copy, work) : CUDA_ERROR_INVALID_VALUE;
}

template <typename T> CUresult now(const T *copy) {
  CopyWork work;
  CUresult result = workOf(copy, work);
  return result ? result : copyNow(work);
}

template <typename T> CUresult later(const T *copy, CUstream stream) {
  CopyWork work;
  CUresult result = workOf(copy, work);
  return result ? result : copyLater(work, stream);
}

/// CUDA_SUCCESS if memory of one context can be copied to that of another.
CUresult checkPeers(Driver &driver, CUdeviceptr to, CUcontext toContext,
                    CUdeviceptr from, CUcontext fromContext, size_t bytes) {
  for (CUcontext context : {toContext, fromContext})
    if (CUresult result = driver.checkContext(context))
      return result;
  bool isThere = onDevice(driver, to, bytes) && onDevice(driver, from, bytes);
  return isThere ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

} // namespace

CUresult cria::emulator::copyOf(const CUDA_MEMCPY3D &copy, CopyWork &work) {
  if (copy.srcLOD || copy.dstLOD)
    return CUDA_ERROR_INVALID_VALUE;
  work.bytes = copy.WidthInBytes;
  work.rows = copy.Height;
  work.slices = copy.Depth;
  return describe(Driver::get(),
                  {copy.dstMemoryType, uint64_t(copy.dstHost), copy.dstDevice,
                   copy.dstXInBytes, copy.dstY, copy.dstZ, copy.dstPitch,
                   copy.dstHeight, copy.dstArray},
                  {copy.srcMemoryType, uint64_t(copy.srcHost), copy.srcDevice,
                   copy.srcXInBytes, copy.srcY, copy.srcZ, copy.srcPitch,
                   copy.srcHeight, copy.srcArray},
                  work);
}

extern "C" {

CUresult cuMemcpy2D_v2(const CUDA_MEMCPY2D *copy) {
  ENTER(Context);
  return now(copy);
}

CUresult cuMemcpy2DUnaligned_v2(const CUDA_MEMCPY2D *copy) {
  ENTER(Context);
  return now(copy);
}

CUresult cuMemcpy2DAsync_v2(const CUDA_MEMCPY2D *copy, CUstream stream) {
  ENTER(Context);
  return later(copy, stream);
}

CUresult cuMemcpy3D_v2(const CUDA_MEMCPY3D *copy) {
  ENTER(Context);
  return now(copy);
}

CUresult cuMemcpy3DAsync_v2(const CUDA_MEMCPY3D *copy, CUstream stream) {
  ENTER(Context);
  return later(copy, stream);
}

CUresult cuMemcpy3DPeer(const CUDA_MEMCPY3D *copy) {
  ENTER(Context);
  return now(copy);
}

CUresult cuMemcpy3DPeerAsync(const CUDA_MEMCPY3D *copy, CUstream stream) {
  ENTER(Context);
  return later(copy, stream);
}

CUresult cuMemcpyPeer(CUdeviceptr to, CUcontext toContext, CUdeviceptr from,
                      CUcontext fromContext, size_t bytes) {
  ENTER(Context);
  CUresult result = checkPeers(driver, to, toContext, from, fromContext, bytes);
  return result ? result : copyNow({to, from, bytes});
}

CUresult cuMemcpyPeerAsync(CUdeviceptr to, CUcontext toContext,
                           CUdeviceptr from, CUcontext fromContext,
                           size_t bytes, CUstream stream) {
  ENTER(Context);
  CUresult result = checkPeers(driver, to, toContext, from, fromContext, bytes);
  return result ? result : copyLater({to, from, bytes}, stream);
}

CUresult cuMemsetD2D8_v2(CUdeviceptr to, size_t pitch, unsigned char value,
                         size_t width, size_t height) {
  ENTER(Context);
  return fillNow(driver, {to, width, value, 1, height, pitch});
}

CUresult cuMemsetD2D16_v2(CUdeviceptr to, size_t pitch, unsigned short value,
                          size_t width, size_t height) {
  ENTER(Context);
  return fillNow(driver, {to, width, value, 2, height, pitch});
}

CUresult cuMemsetD2D32_v2(CUdeviceptr to, size_t pitch, unsigned value,
                          size_t width, size_t height) {
  ENTER(Context);
  return fillNow(driver, {to, width, value, 4, height, pitch});
}

CUresult cuMemsetD2D8Async(CUdeviceptr to, size_t pitch, unsigned char value,
                           size_t width, size_t height, CUstream stream) {
  ENTER(Context);
  return fillLater(driver, {to, width, value, 1, height, pitch}, stream);
}

CUresult cuMemsetD2D16Async(CUdeviceptr to, size_t pitch, unsigned short value,
                            size_t width, size_t height, CUstream stream) {
  ENTER(Context);
  return fillLater(driver, {to, width, value, 2, height, pitch}, stream);
}

CUresult cuMemsetD2D32Async(CUdeviceptr to, size_t pitch, unsigned value,
                            size_t width, size_t height, CUstream stream) {
  ENTER(Context);
  return fillLater(driver, {to, width, value, 4, height, pitch}, stream);
}

} // extern "C"
