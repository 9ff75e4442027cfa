// What streams can be asked; values in memory that streams write and wait for.
#include "tools/emulator/driver/memory/Copies.h"

using namespace cria::emulator;

namespace {

bool isNamed(CUstream stream) { // else one of the default streams
  return stream && stream != CU_STREAM_LEGACY && stream != CU_STREAM_PER_THREAD;
}

/// Work runs when it is submitted, so a value that is not there yet would never
/// come.
template <typename T>
CUresult await(CUstream stream, CUdeviceptr at, T value, unsigned flags) {
  Driver &driver = Driver::get();
  if (CUresult result = checkStream(stream))
    return result;
  if (at % sizeof(T) || !onDevice(driver, at, sizeof(T)))
    return CUDA_ERROR_INVALID_VALUE;
  if (captureOf(stream))
    return CUDA_ERROR_NOT_SUPPORTED;
  T now = *reinterpret_cast<const volatile T *>(at);
  bool isThere = false;
  switch (flags & 3) {
  case CU_STREAM_WAIT_VALUE_GEQ:
    isThere = std::make_signed_t<T>(now - value) >= 0;
    break;
  case CU_STREAM_WAIT_VALUE_EQ:
    isThere = now == value;
    break;
  case CU_STREAM_WAIT_VALUE_AND:
    isThere = now & value;
    break;
  case CU_STREAM_WAIT_VALUE_NOR:
    isThere = ~(now | value);
    break;
  }
  if (isThere)
    return CUDA_SUCCESS;
  driver.reportMisuse("waits for a value at " + hexOf(at) +
                      " that no earlier call writes, which is not emulated");
  return CUDA_ERROR_NOT_SUPPORTED;
}

/// Writes in pieces of 4 bytes, as fills do.
CUresult write(CUstream stream, CUdeviceptr at, cuuint64_t value, size_t bytes,
               unsigned flags) {
  Driver &driver = Driver::get();
  if (flags > 1 || at % bytes)
    return CUDA_ERROR_INVALID_VALUE;
  for (size_t i = 0; i < bytes; i += 4)
    if (CUresult result = fillLater(
            driver, {at + i, 1, uint32_t(value >> (8 * i)), 4}, stream))
      return result;
  return CUDA_SUCCESS;
}

} // namespace

extern "C" {

CUresult cuStreamGetFlags(CUstream stream, unsigned *flags) {
  ENTER(Context);
  if (CUresult result = checkStream(stream))
    return result;
  return give(flags, isNamed(stream) ? stream->flags : 0u);
}

CUresult cuStreamGetPriority(CUstream stream, int *priority) {
  ENTER(Context);
  if (CUresult result = checkStream(stream))
    return result;
  return give(priority, isNamed(stream) ? stream->priority : 0);
}

CUresult cuStreamGetCtx(CUstream stream, CUcontext *context) {
  ENTER(Context);
  if (CUresult result = checkStream(stream))
    return result;
  return give(context, isNamed(stream) ? stream->context : currentContext());
}

CUresult cuStreamGetDevice(CUstream stream, CUdevice *device) {
  ENTER(Context);
  if (CUresult result = checkStream(stream))
    return result;
  return give(device,
              (isNamed(stream) ? stream->context : currentContext())->device);
}

CUresult cuStreamGetId(CUstream stream, unsigned long long *id) {
  ENTER(Context);
  if (CUresult result = checkStream(stream))
    return result;
  return give(id, (unsigned long long)(uintptr_t(stream)));
}

CUresult cuStreamAddCallback(CUstream stream, CUstreamCallback callback,
                             void *userData, unsigned flags) {
  ENTER(Context);
  if (CUresult result = checkStream(stream))
    return result;
  if (!callback || flags)
    return CUDA_ERROR_INVALID_VALUE;
  if (captureOf(stream))
    return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  callback(stream, currentContext()->error, userData);
  return CUDA_SUCCESS;
}

/// The graph of a capture has no handle before the capture ends.
CUresult cuStreamGetCaptureInfo_v3(CUstream stream,
                                   CUstreamCaptureStatus *status,
                                   cuuint64_t *id, CUgraph *graph,
                                   const CUgraphNode **after,
                                   const CUgraphEdgeData **edges,
                                   size_t *count) {
  ENTER(Context);
  if (CUresult result = checkStream(stream))
    return result;
  if (!status)
    return CUDA_ERROR_INVALID_VALUE;
  const Capture *capture = captureOf(stream);
  if (capture && (graph || after || edges || count)) {
    driver.reportMisuse("the graph of a capture is not shown before its end");
    return CUDA_ERROR_NOT_SUPPORTED;
  }
  if (capture && id)
    *id = capture->id;
  return cuStreamIsCapturing(stream, status);
}

CUresult cuStreamGetCaptureInfo_v2(CUstream stream,
                                   CUstreamCaptureStatus *status,
                                   cuuint64_t *id, CUgraph *graph,
                                   const CUgraphNode **after, size_t *count) {
  return cuStreamGetCaptureInfo_v3(stream, status, id, graph, after, nullptr,
                                   count);
}

/// The mode of a thread bounds which of its calls a capture forbids. Here
/// captures forbid the calls of all threads, unless the thread is relaxed.
CUresult cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode *mode) {
  ENTER(Nothing);
  if (!mode || unsigned(*mode) > CU_STREAM_CAPTURE_MODE_RELAXED)
    return CUDA_ERROR_INVALID_VALUE;
  std::swap(captureModeOfThread(), *mode);
  return CUDA_SUCCESS;
}

CUresult cuStreamWaitValue32_v2(CUstream stream, CUdeviceptr at,
                                cuuint32_t value, unsigned flags) {
  ENTER(Context);
  return await<uint32_t>(stream, at, value, flags);
}

CUresult cuStreamWaitValue64_v2(CUstream stream, CUdeviceptr at,
                                cuuint64_t value, unsigned flags) {
  ENTER(Context);
  return await<uint64_t>(stream, at, value, flags);
}

CUresult cuStreamWriteValue32_v2(CUstream stream, CUdeviceptr at,
                                 cuuint32_t value, unsigned flags) {
  ENTER(Context);
  return write(stream, at, value, 4, flags);
}

CUresult cuStreamWriteValue64_v2(CUstream stream, CUdeviceptr at,
                                 cuuint64_t value, unsigned flags) {
  ENTER(Context);
  return write(stream, at, value, 8, flags);
}

/// Attributes have no effect.
CUresult cuStreamSetAttribute(CUstream stream, int attribute,
                              const CUlaunchAttributeValue *value) {
  ENTER(Context);
  if (CUresult result = checkStream(stream))
    return result;
  if (!value)
    return CUDA_ERROR_INVALID_VALUE;
  if (isNamed(stream))
    stream->attributes[attribute] = *value;
  return CUDA_SUCCESS;
}

CUresult cuStreamGetAttribute(CUstream stream, int attribute,
                              CUlaunchAttributeValue *value) {
  ENTER(Context);
  if (CUresult result = checkStream(stream))
    return result;
  if (!value)
    return CUDA_ERROR_INVALID_VALUE;
  *value = {};
  if (!isNamed(stream))
    return CUDA_SUCCESS;
  auto set = stream->attributes.find(attribute);
  if (set != stream->attributes.end())
    *value = set->second;
  return CUDA_SUCCESS;
}

CUresult cuStreamCopyAttributes(CUstream to, CUstream from) {
  ENTER(Context);
  for (CUstream stream : {to, from})
    if (CUresult result = checkStream(stream))
      return result;
  if (isNamed(to) && isNamed(from))
    to->attributes = from->attributes;
  return CUDA_SUCCESS;
}

} // extern "C"
