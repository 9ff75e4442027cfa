/// A CUDA runtime over the driver API, for programs that nvcc links with
/// `-cudart shared`. The names, types and values are those of NVIDIA's
/// <cuda_runtime_api.h> 13.0; no toolkit is needed.
///
/// Errors of the runtime have the numbers of the driver's, with a few more.
#pragma once

#include "tools/emulator/driver/Api.h"

namespace cria::cudart {

using Error = int; ///< cudaError_t

/// Errors that only the runtime has.
/// @{
constexpr Error kInvalidConfiguration = 9, kInvalidPitch = 12,
                kInvalidSymbol = 13, kInvalidMemcpyDirection = 21,
                kInsufficientDriver = 35, kInvalidDeviceFunction = 98;
/// @}

struct Dim3 {
  unsigned x, y, z;
};

enum Direction { HostToHost, HostToDevice, DeviceToHost, DeviceToDevice, Any };

/// Structures of the runtime, of the names in comments.
/// @{
struct PitchedPtr { // cudaPitchedPtr
  void *ptr;
  size_t pitch, xsize, ysize;
};

struct Extent { // cudaExtent
  size_t width, height, depth;
};

struct Memcpy3D { // cudaMemcpy3DParms
  CUarray srcArray;
  size_t srcPos[3];
  PitchedPtr srcPtr;
  CUarray dstArray;
  size_t dstPos[3];
  PitchedPtr dstPtr;
  Extent extent;
  Direction kind;
};
/// @}

/// The types of the two ends of a copy in `direction`.
/// @{
CUmemorytype sourceOf(Direction direction);
CUmemorytype destinationOf(Direction direction);
/// @}

/// Bytes of a texel of the array.
Error texelBytes(CUarray array, size_t &bytes);

/// The driver's description of a copy; an error if it makes no sense.
Error boxOf(const Memcpy3D *params, CUDA_MEMCPY3D &copy);

/// Makes the context of the thread's device current, unless another context
/// is; the error if it cannot.
Error enter();

/// The device of the thread, and what cudaSetDevice sets.
int &deviceOfThread();

/// Remembers an error for cudaGetLastError, and returns it.
Error remember(Error error);

/// What a host address was registered for: a kernel, or a variable of the
/// device. An error if it was not.
/// @{
Error kernelOf(const void *host, CUkernel *kernel);
Error functionOf(const void *host, CUfunction *function);
Error variableOf(const void *host, CUdeviceptr *address, size_t *bytes);
/// @}

} // namespace cria::cudart

/// Returns from the function if the expression is an error.
#define TRY(expression)                                                        \
  do {                                                                         \
    if (::cria::cudart::Error error = ::cria::cudart::Error(expression))       \
      return ::cria::cudart::remember(error);                                  \
  } while (0)
/// The beginning of a function that needs a context, and its end.
#define ENTER() TRY(::cria::cudart::enter())
#define RETURN(expression)                                                     \
  return ::cria::cudart::remember(::cria::cudart::Error(expression))
/// A function of the runtime.
#define API(name)                                                              \
  extern "C" __attribute__((visibility("default"))) ::cria::cudart::Error name
