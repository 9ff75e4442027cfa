// Names of errors.
#include "tools/emulator/driver/Driver.h"

namespace {

struct Named {
  CUresult result;
  const char *name, *text;
};

#define NAMED(result, text)                                                    \
  { result, #result, text }

constexpr Named kErrors[] = {
    NAMED(CUDA_SUCCESS, "no error"),
    NAMED(CUDA_ERROR_INVALID_VALUE, "invalid argument"),
    NAMED(CUDA_ERROR_OUT_OF_MEMORY, "out of memory"),
    NAMED(CUDA_ERROR_NOT_INITIALIZED, "initialization error"),
    NAMED(CUDA_ERROR_DEINITIALIZED, "driver shutting down"),
    NAMED(CUDA_ERROR_STUB_LIBRARY, "CUDA driver is a stub library"),
    NAMED(CUDA_ERROR_DEVICE_UNAVAILABLE,
          "CUDA-capable device(s) is/are busy or unavailable"),
    NAMED(CUDA_ERROR_NO_DEVICE, "no CUDA-capable device is detected"),
    NAMED(CUDA_ERROR_INVALID_DEVICE, "invalid device ordinal"),
    NAMED(CUDA_ERROR_INVALID_IMAGE, "device kernel image is invalid"),
    NAMED(CUDA_ERROR_INVALID_CONTEXT, "invalid device context"),
    NAMED(CUDA_ERROR_NO_BINARY_FOR_GPU,
          "no kernel image is available for execution on the device"),
    NAMED(CUDA_ERROR_ECC_UNCORRECTABLE, "uncorrectable ECC error encountered"),
    NAMED(CUDA_ERROR_UNSUPPORTED_LIMIT,
          "limit is not supported on this architecture"),
    NAMED(CUDA_ERROR_INVALID_PTX, "a PTX JIT compilation failed"),
    NAMED(CUDA_ERROR_JIT_COMPILER_NOT_FOUND,
          "PTX JIT compiler library not found"),
    NAMED(CUDA_ERROR_UNSUPPORTED_PTX_VERSION,
          "the provided PTX was compiled with an unsupported toolchain."),
    NAMED(CUDA_ERROR_JIT_COMPILATION_DISABLED,
          "PTX JIT compilation was disabled"),
    NAMED(CUDA_ERROR_INVALID_SOURCE, "device kernel image is invalid"),
    NAMED(CUDA_ERROR_FILE_NOT_FOUND, "file not found"),
    NAMED(CUDA_ERROR_INVALID_HANDLE, "invalid resource handle"),
    NAMED(CUDA_ERROR_ILLEGAL_STATE,
          "the operation cannot be performed in the present state"),
    NAMED(CUDA_ERROR_NOT_FOUND, "named symbol not found"),
    NAMED(CUDA_ERROR_NOT_READY, "device not ready"),
    NAMED(CUDA_ERROR_ILLEGAL_ADDRESS,
          "an illegal memory access was encountered"),
    NAMED(CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES,
          "too many resources requested for launch"),
    NAMED(CUDA_ERROR_LAUNCH_TIMEOUT, "the launch timed out and was terminated"),
    NAMED(CUDA_ERROR_PRIMARY_CONTEXT_ACTIVE,
          "cannot set while device is active in this process"),
    NAMED(CUDA_ERROR_CONTEXT_IS_DESTROYED, "context is destroyed"),
    NAMED(CUDA_ERROR_ASSERT, "device-side assert triggered"),
    NAMED(CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED,
          "part or all of the requested memory range is already mapped"),
    NAMED(CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED,
          "pointer does not correspond to a registered memory region"),
    NAMED(CUDA_ERROR_HARDWARE_STACK_ERROR, "hardware stack error"),
    NAMED(CUDA_ERROR_ILLEGAL_INSTRUCTION,
          "an illegal instruction was encountered"),
    NAMED(CUDA_ERROR_MISALIGNED_ADDRESS, "misaligned address"),
    NAMED(CUDA_ERROR_INVALID_ADDRESS_SPACE,
          "operation not supported on global/shared address space"),
    NAMED(CUDA_ERROR_INVALID_PC, "invalid program counter"),
    NAMED(CUDA_ERROR_LAUNCH_FAILED, "unspecified launch failure"),
    NAMED(CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE,
          "too many blocks in cooperative launch"),
    NAMED(CUDA_ERROR_NOT_PERMITTED, "operation not permitted"),
    NAMED(CUDA_ERROR_NOT_SUPPORTED, "operation not supported"),
    NAMED(CUDA_ERROR_SYSTEM_DRIVER_MISMATCH,
          "system has unsupported display driver / cuda driver combination"),
    NAMED(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED,
          "operation not permitted when stream is capturing"),
    NAMED(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED,
          "operation failed due to a previous error during capture"),
    NAMED(CUDA_ERROR_STREAM_CAPTURE_MERGE,
          "operation would result in a merge of separate capture sequences"),
    NAMED(CUDA_ERROR_STREAM_CAPTURE_UNMATCHED,
          "capture was not ended in the same stream as it began"),
    NAMED(CUDA_ERROR_STREAM_CAPTURE_UNJOINED,
          "capturing stream has unjoined work"),
    NAMED(CUDA_ERROR_STREAM_CAPTURE_ISOLATION,
          "dependency created on uncaptured work in another stream"),
    NAMED(CUDA_ERROR_STREAM_CAPTURE_IMPLICIT,
          "operation would make the legacy stream depend on a capturing "
          "blocking stream"),
    NAMED(CUDA_ERROR_CAPTURED_EVENT,
          "operation not permitted on an event last recorded in a capturing "
          "stream"),
    NAMED(CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD,
          "attempt to terminate a thread-local capture sequence from another "
          "thread"),
    NAMED(CUDA_ERROR_TIMEOUT, "wait operation timed out"),
    NAMED(CUDA_ERROR_INVALID_CLUSTER_SIZE, "cluster misconfiguration"),
    NAMED(CUDA_ERROR_UNKNOWN, "unknown error"),
};

const Named *find(CUresult error) {
  for (const Named &named : kErrors)
    if (named.result == error)
      return &named;
  return nullptr;
}

} // namespace

extern "C" {

CUresult cuGetErrorName(CUresult error, const char **name) {
  const Named *found = find(error);
  if (!name)
    return CUDA_ERROR_INVALID_VALUE;
  *name = found ? found->name : nullptr;
  return found ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuGetErrorString(CUresult error, const char **text) {
  const Named *found = find(error);
  if (!text)
    return CUDA_ERROR_INVALID_VALUE;
  *text = found ? found->text : nullptr;
  return found ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

} // extern "C"
