// Memory, copies and fills.
#include "tools/emulator/cudart/Runtime.h"

#include <cstdint>
#include <cstring>

using namespace cria::cudart;

namespace {

CUdeviceptr at(const void *pointer) { return CUdeviceptr(uintptr_t(pointer)); }

/// Copies between host and device as `direction` says, so that an address of
/// the wrong kind is an error.
Error copy(void *to, const void *from, size_t bytes, Direction direction) {
  switch (direction) {
  case HostToHost:
    memcpy(to, from, bytes);
    return 0;
  case HostToDevice:
    return cuMemcpyHtoD_v2(at(to), from, bytes);
  case DeviceToHost:
    return cuMemcpyDtoH_v2(to, at(from), bytes);
  case DeviceToDevice:
    return cuMemcpyDtoD_v2(at(to), at(from), bytes);
  case Any:
    return cuMemcpy(at(to), at(from), bytes);
  }
  return kInvalidMemcpyDirection;
}

Error copyAsync(void *to, const void *from, size_t bytes, Direction direction,
                CUstream stream) {
  switch (direction) {
  case HostToDevice:
    return cuMemcpyHtoDAsync_v2(at(to), from, bytes, stream);
  case DeviceToHost:
    return cuMemcpyDtoHAsync_v2(to, at(from), bytes, stream);
  case DeviceToDevice:
    return cuMemcpyDtoDAsync_v2(at(to), at(from), bytes, stream);
  case HostToHost:
  case Any:
    return cuMemcpyAsync(at(to), at(from), bytes, stream);
  }
  return kInvalidMemcpyDirection;
}

CUDA_MEMCPY2D rectangle(void *to, size_t toPitch, const void *from,
                        size_t fromPitch, size_t width, size_t height,
                        Direction direction) {
  CUDA_MEMCPY2D copy = {};
  copy.srcMemoryType = sourceOf(direction);
  copy.dstMemoryType = destinationOf(direction);
  copy.srcHost = from;
  copy.srcDevice = at(from);
  copy.srcPitch = fromPitch;
  copy.dstHost = to;
  copy.dstDevice = at(to);
  copy.dstPitch = toPitch;
  copy.WidthInBytes = width;
  copy.Height = height;
  return copy;
}

/// The address of `symbol` plus an offset, if `bytes` bytes are there.
Error within(const void *symbol, size_t offset, size_t bytes, void **address) {
  CUdeviceptr start;
  size_t size;
  if (Error error = variableOf(symbol, &start, &size))
    return error;
  if (offset > size || bytes > size - offset)
    return CUDA_ERROR_INVALID_VALUE;
  *address = reinterpret_cast<void *>(start + offset);
  return 0;
}

struct PointerAttributes {
  int type, device;
  void *devicePointer, *hostPointer;
  long reserved[8];
};

/// An allocation of no bytes is null.
template <typename F> Error allocate(void **pointer, size_t bytes, F with) {
  if (!pointer)
    return CUDA_ERROR_INVALID_VALUE;
  if (bytes == 0) {
    *pointer = nullptr;
    return 0;
  }
  CUdeviceptr made;
  if (Error error = with(&made))
    return error;
  *pointer = reinterpret_cast<void *>(made);
  return 0;
}

} // namespace

CUmemorytype cria::cudart::sourceOf(Direction direction) {
  return direction == Any            ? CU_MEMORYTYPE_UNIFIED
         : direction <= HostToDevice ? CU_MEMORYTYPE_HOST
                                     : CU_MEMORYTYPE_DEVICE;
}

CUmemorytype cria::cudart::destinationOf(Direction direction) {
  return direction == Any ? CU_MEMORYTYPE_UNIFIED
         : direction == HostToDevice || direction == DeviceToDevice
             ? CU_MEMORYTYPE_DEVICE
             : CU_MEMORYTYPE_HOST;
}

/// If one end is an array, extents count texels, and places in arrays do.
Error cria::cudart::boxOf(const Memcpy3D *params, CUDA_MEMCPY3D &copy) {
  if (!params || params->kind > Any)
    return CUDA_ERROR_INVALID_VALUE;
  copy = {};
  copy.srcArray = params->srcArray;
  copy.dstArray = params->dstArray;
  copy.srcMemoryType =
      params->srcArray ? CU_MEMORYTYPE_ARRAY : sourceOf(params->kind);
  copy.dstMemoryType =
      params->dstArray ? CU_MEMORYTYPE_ARRAY : destinationOf(params->kind);
  copy.srcXInBytes = params->srcPos[0];
  copy.srcY = params->srcPos[1];
  copy.srcZ = params->srcPos[2];
  copy.srcHost = params->srcPtr.ptr;
  copy.srcDevice = at(params->srcPtr.ptr);
  copy.srcPitch = params->srcPtr.pitch;
  copy.srcHeight = params->srcPtr.ysize;
  copy.dstXInBytes = params->dstPos[0];
  copy.dstY = params->dstPos[1];
  copy.dstZ = params->dstPos[2];
  copy.dstHost = params->dstPtr.ptr;
  copy.dstDevice = at(params->dstPtr.ptr);
  copy.dstPitch = params->dstPtr.pitch;
  copy.dstHeight = params->dstPtr.ysize;
  copy.WidthInBytes = params->extent.width;
  copy.Height = params->extent.height;
  copy.Depth = params->extent.depth;
  if (CUarray array = copy.srcArray ? copy.srcArray : copy.dstArray) {
    size_t texel;
    if (Error error = texelBytes(array, texel))
      return error;
    copy.WidthInBytes *= texel;
    copy.srcXInBytes *= copy.srcArray ? texel : 1;
    copy.dstXInBytes *= copy.dstArray ? texel : 1;
  }
  return 0;
}

API(cudaMalloc)(void **pointer, size_t bytes) {
  ENTER();
  RETURN(allocate(pointer, bytes, [&](CUdeviceptr *made) {
    return cuMemAlloc_v2(made, bytes);
  }));
}

API(cudaMallocManaged)(void **pointer, size_t bytes, unsigned flags) {
  ENTER();
  RETURN(allocate(pointer, bytes, [&](CUdeviceptr *made) {
    return cuMemAllocManaged(made, bytes, flags);
  }));
}

API(cudaMallocAsync)(void **pointer, size_t bytes, CUstream stream) {
  ENTER();
  RETURN(allocate(pointer, bytes, [&](CUdeviceptr *made) {
    return cuMemAllocAsync(made, bytes, stream);
  }));
}

API(cudaMallocFromPoolAsync)
(void **pointer, size_t bytes, CUmemoryPool pool, CUstream stream) {
  ENTER();
  RETURN(allocate(pointer, bytes, [&](CUdeviceptr *made) {
    return cuMemAllocFromPoolAsync(made, bytes, pool, stream);
  }));
}

API(cudaMallocPitch)
(void **pointer, size_t *pitch, size_t width, size_t height) {
  ENTER();
  RETURN(cuMemAllocPitch_v2(reinterpret_cast<CUdeviceptr *>(pointer), pitch,
                            width, height, 4));
}

API(cudaMalloc3D)(PitchedPtr *pitched, Extent extent) {
  ENTER();
  if (!pitched)
    RETURN(CUDA_ERROR_INVALID_VALUE);
  pitched->xsize = extent.width;
  pitched->ysize = extent.height;
  RETURN(cuMemAllocPitch_v2(reinterpret_cast<CUdeviceptr *>(&pitched->ptr),
                            &pitched->pitch, extent.width,
                            extent.height * extent.depth, 4));
}

API(cudaFree)(void *pointer) {
  ENTER();
  if (!pointer)
    return 0;
  RETURN(cuMemFree_v2(at(pointer)));
}

API(cudaFreeAsync)(void *pointer, CUstream stream) {
  ENTER();
  RETURN(cuMemFreeAsync(at(pointer), stream));
}

API(cudaMallocHost)(void **pointer, size_t bytes) {
  ENTER();
  RETURN(cuMemAllocHost_v2(pointer, bytes));
}

API(cudaHostAlloc)(void **pointer, size_t bytes, unsigned flags) {
  ENTER();
  RETURN(cuMemHostAlloc(pointer, bytes, flags));
}

API(cudaFreeHost)(void *pointer) {
  ENTER();
  if (!pointer)
    return 0;
  RETURN(cuMemFreeHost(pointer));
}

API(cudaHostRegister)(void *pointer, size_t bytes, unsigned flags) {
  ENTER();
  RETURN(cuMemHostRegister_v2(pointer, bytes, flags));
}

API(cudaHostUnregister)(void *pointer) {
  ENTER();
  RETURN(cuMemHostUnregister(pointer));
}

API(cudaHostGetDevicePointer)(void **device, void *host, unsigned flags) {
  ENTER();
  RETURN(cuMemHostGetDevicePointer_v2(reinterpret_cast<CUdeviceptr *>(device),
                                      host, flags));
}

API(cudaHostGetFlags)(unsigned *flags, void *host) {
  ENTER();
  RETURN(cuMemHostGetFlags(flags, host));
}

API(cudaMemGetInfo)(size_t *free, size_t *total) {
  ENTER();
  RETURN(cuMemGetInfo_v2(free, total));
}

API(cudaMemcpy)(void *to, const void *from, size_t bytes, Direction kind) {
  ENTER();
  RETURN(copy(to, from, bytes, kind));
}

API(cudaMemcpyAsync)
(void *to, const void *from, size_t bytes, Direction kind, CUstream stream) {
  ENTER();
  RETURN(copyAsync(to, from, bytes, kind, stream));
}

API(cudaMemcpyPeer)(void *to, int, const void *from, int, size_t bytes) {
  ENTER();
  RETURN(copy(to, from, bytes, DeviceToDevice));
}

API(cudaMemcpyPeerAsync)
(void *to, int, const void *from, int, size_t bytes, CUstream stream) {
  ENTER();
  RETURN(copyAsync(to, from, bytes, DeviceToDevice, stream));
}

API(cudaMemcpyToSymbol)
(const void *symbol, const void *from, size_t bytes, size_t offset,
 Direction kind) {
  ENTER();
  void *to;
  TRY(within(symbol, offset, bytes, &to));
  RETURN(copy(to, from, bytes, kind));
}

API(cudaMemcpyToSymbolAsync)
(const void *symbol, const void *from, size_t bytes, size_t offset,
 Direction kind, CUstream stream) {
  ENTER();
  void *to;
  TRY(within(symbol, offset, bytes, &to));
  RETURN(copyAsync(to, from, bytes, kind, stream));
}

API(cudaMemcpyFromSymbol)
(void *to, const void *symbol, size_t bytes, size_t offset, Direction kind) {
  ENTER();
  void *from;
  TRY(within(symbol, offset, bytes, &from));
  RETURN(copy(to, from, bytes, kind));
}

API(cudaMemcpyFromSymbolAsync)
(void *to, const void *symbol, size_t bytes, size_t offset, Direction kind,
 CUstream stream) {
  ENTER();
  void *from;
  TRY(within(symbol, offset, bytes, &from));
  RETURN(copyAsync(to, from, bytes, kind, stream));
}

API(cudaMemcpy2D)
(void *to, size_t toPitch, const void *from, size_t fromPitch, size_t width,
 size_t height, Direction kind) {
  ENTER();
  if (toPitch < width || fromPitch < width)
    RETURN(kInvalidPitch);
  if (kind > Any)
    RETURN(kInvalidMemcpyDirection);
  auto copy = rectangle(to, toPitch, from, fromPitch, width, height, kind);
  RETURN(cuMemcpy2DUnaligned_v2(&copy));
}

API(cudaMemcpy2DAsync)
(void *to, size_t toPitch, const void *from, size_t fromPitch, size_t width,
 size_t height, Direction kind, CUstream stream) {
  ENTER();
  if (toPitch < width || fromPitch < width)
    RETURN(kInvalidPitch);
  if (kind > Any)
    RETURN(kInvalidMemcpyDirection);
  auto copy = rectangle(to, toPitch, from, fromPitch, width, height, kind);
  RETURN(cuMemcpy2DAsync_v2(&copy, stream));
}

API(cudaMemcpy3D)(const Memcpy3D *params) {
  ENTER();
  CUDA_MEMCPY3D copy;
  TRY(boxOf(params, copy));
  RETURN(cuMemcpy3D_v2(&copy));
}

API(cudaMemcpy3DAsync)(const Memcpy3D *params, CUstream stream) {
  ENTER();
  CUDA_MEMCPY3D copy;
  TRY(boxOf(params, copy));
  RETURN(cuMemcpy3DAsync_v2(&copy, stream));
}

API(cudaMemset)(void *to, int value, size_t bytes) {
  ENTER();
  RETURN(cuMemsetD8_v2(at(to), uint8_t(value), bytes));
}

API(cudaMemsetAsync)(void *to, int value, size_t bytes, CUstream stream) {
  ENTER();
  RETURN(cuMemsetD8Async(at(to), uint8_t(value), bytes, stream));
}

API(cudaMemset2D)
(void *to, size_t pitch, int value, size_t width, size_t height) {
  ENTER();
  RETURN(cuMemsetD2D8_v2(at(to), pitch, uint8_t(value), width, height));
}

API(cudaMemset2DAsync)
(void *to, size_t pitch, int value, size_t width, size_t height,
 CUstream stream) {
  ENTER();
  RETURN(
      cuMemsetD2D8Async(at(to), pitch, uint8_t(value), width, height, stream));
}

API(cudaMemPrefetchAsync)
(const void *pointer, size_t bytes, CUmemLocation location, unsigned flags,
 CUstream stream) {
  ENTER();
  RETURN(cuMemPrefetchAsync_v2(at(pointer), bytes, location, flags, stream));
}

API(cudaMemAdvise)
(const void *pointer, size_t bytes, int advice, CUmemLocation location) {
  ENTER();
  RETURN(cuMemAdvise_v2(at(pointer), bytes, advice, location));
}

API(cudaStreamAttachMemAsync)
(CUstream stream, void *pointer, size_t bytes, unsigned flags) {
  ENTER();
  RETURN(cuStreamAttachMemAsync(stream, at(pointer), bytes, flags));
}

/// An address that is unknown is the host's, and no error.
API(cudaPointerGetAttributes)
(PointerAttributes *attributes, const void *pointer) {
  ENTER();
  if (!attributes)
    RETURN(CUDA_ERROR_INVALID_VALUE);
  enum { Unregistered, Host, Device, Managed };
  *attributes = {Unregistered, -2, nullptr, const_cast<void *>(pointer), {}};
  unsigned type = 0;
  bool isManaged = false;
  int device = 0;
  if (cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
                            at(pointer)))
    return 0;
  TRY(cuPointerGetAttribute(&isManaged, CU_POINTER_ATTRIBUTE_IS_MANAGED,
                            at(pointer)));
  TRY(cuPointerGetAttribute(&device, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL,
                            at(pointer)));
  bool isDevice = type == CU_MEMORYTYPE_DEVICE;
  attributes->type = isManaged ? Managed : isDevice ? Device : Host;
  attributes->device = device;
  attributes->devicePointer = const_cast<void *>(pointer);
  if (isDevice && !isManaged)
    attributes->hostPointer = nullptr;
  return 0;
}

API(cudaDeviceGetDefaultMemPool)(CUmemoryPool *pool, int device) {
  ENTER();
  RETURN(cuDeviceGetDefaultMemPool(pool, device));
}

API(cudaDeviceGetMemPool)(CUmemoryPool *pool, int device) {
  ENTER();
  RETURN(cuDeviceGetMemPool(pool, device));
}

API(cudaDeviceSetMemPool)(int device, CUmemoryPool pool) {
  ENTER();
  RETURN(cuDeviceSetMemPool(device, pool));
}

API(cudaMemPoolCreate)(CUmemoryPool *pool, const CUmemPoolProps *properties) {
  ENTER();
  RETURN(cuMemPoolCreate(pool, properties));
}

API(cudaMemPoolDestroy)(CUmemoryPool pool) {
  ENTER();
  RETURN(cuMemPoolDestroy(pool));
}

API(cudaMemPoolTrimTo)(CUmemoryPool pool, size_t bytes) {
  ENTER();
  RETURN(cuMemPoolTrimTo(pool, bytes));
}

API(cudaMemPoolSetAttribute)(CUmemoryPool pool, int attribute, void *value) {
  ENTER();
  RETURN(cuMemPoolSetAttribute(pool, attribute, value));
}

API(cudaMemPoolGetAttribute)(CUmemoryPool pool, int attribute, void *value) {
  ENTER();
  RETURN(cuMemPoolGetAttribute(pool, attribute, value));
}

API(cudaMemPoolSetAccess)
(CUmemoryPool pool, const CUmemAccessDesc *map, size_t count) {
  ENTER();
  RETURN(cuMemPoolSetAccess(pool, map, count));
}
