// Streams and events. Work runs when it is submitted, so a stream never has
// pending work; what remains is capture, and the order that events give.
#include "tools/emulator/driver/Driver.h"

#include <chrono>

using namespace cria::emulator;

namespace cria::emulator {
namespace {

bool isDefault(CUstream stream) {
  return !stream || stream == CU_STREAM_LEGACY ||
         stream == CU_STREAM_PER_THREAD;
}

bool isLegacy(CUstream stream) {
  return stream ? stream == CU_STREAM_LEGACY : !Driver::get().nullIsPerThread;
}

double now() {
  return std::chrono::duration<double>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

void invalidateAll() {
  for (auto &capture : Driver::get().captures)
    capture->invalidated = true;
}

/// The legacy stream waits for all blocking streams, including captured ones.
CUresult forbidImplicit(CUstream stream) {
  if (!isLegacy(stream))
    return CUDA_SUCCESS;
  for (auto &capture : Driver::get().captures)
    if (!(capture->origin->flags & CU_STREAM_NON_BLOCKING)) {
      capture->invalidated = true;
      return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
    }
  return CUDA_SUCCESS;
}

void merge(Progress &into, const Progress &from) {
  for (auto [stream, count] : from)
    into[stream] = std::max(into[stream], count);
}

CUresult create(Driver &driver, CUstream *stream, unsigned flags,
                int priority) {
  if (!stream || flags > CU_STREAM_NON_BLOCKING)
    return CUDA_ERROR_INVALID_VALUE;
  auto made = std::make_unique<CUstream_st>();
  made->context = currentContext();
  made->flags = flags;
  made->priority =
      std::max(kGreatestPriority, std::min(kLeastPriority, priority));
  *stream = driver.streams.adopt(std::move(made));
  return CUDA_SUCCESS;
}

/// Ends all streams' part in `capture`.
void leave(Driver &driver, const std::shared_ptr<Capture> &capture) {
  driver.captures.erase(capture);
  driver.streams.forEach([&](CUstream_st &stream) {
    if (stream.capture == capture)
      stream.capture = nullptr;
  });
}

/// Whether the origin comes after all work of joined streams.
bool isJoined(const Capture &capture) {
  auto known = capture.known.find(capture.origin);
  for (auto [stream, count] : capture.done) {
    if (stream == capture.origin)
      continue;
    if (known == capture.known.end())
      return false;
    auto seen = known->second.find(stream);
    if (seen == known->second.end() || seen->second < count)
      return false;
  }
  return true;
}

} // namespace

CUresult checkStream(CUstream stream) {
  Driver &driver = Driver::get();
  return isDefault(stream) ? CUDA_SUCCESS
                           : driver.check(driver.streams, stream);
}

Capture *captureOf(CUstream stream) {
  return isDefault(stream) ? nullptr : stream->capture.get();
}

CUstreamCaptureMode &captureModeOfThread() {
  static thread_local CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
  return mode;
}

CUresult forbidCapture() {
  Driver &driver = Driver::get();
  if (captureModeOfThread() == CU_STREAM_CAPTURE_MODE_RELAXED)
    return CUDA_SUCCESS;
  for (auto &capture : driver.captures)
    if (capture->mode != CU_STREAM_CAPTURE_MODE_RELAXED) {
      invalidateAll();
      return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    }
  return CUDA_SUCCESS;
}

CUresult submit(CUstream stream, Work work) {
  Capture *capture = captureOf(stream);
  if (auto *kernel = std::get_if<KernelWork>(&work))
    kernel->stream = stream;
  if (!capture) {
    if (CUresult result = forbidImplicit(stream))
      return result;
    return execute(work);
  }
  if (capture->invalidated)
    return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  auto node = std::make_unique<CUgraphNode_st>();
  node->work = std::move(work);
  if (!capture->nodes.empty()) // in the order of capture
    node->after.push_back(capture->nodes.back().get());
  capture->nodes.push_back(std::move(node));
  ++capture->done[stream];
  return CUDA_SUCCESS;
}

} // namespace cria::emulator

extern "C" {

CUresult cuStreamCreate(CUstream *stream, unsigned flags) {
  ENTER(Context);
  return create(driver, stream, flags, 0);
}

CUresult cuStreamCreateWithPriority(CUstream *stream, unsigned flags,
                                    int priority) {
  ENTER(Context);
  return create(driver, stream, flags, priority);
}

CUresult cuStreamDestroy_v2(CUstream stream) {
  ENTER(Context);
  if (CUresult result = driver.check(driver.streams, stream))
    return result;
  if (stream->capture)
    leave(driver, stream->capture);
  driver.streams.erase(stream);
  return CUDA_SUCCESS;
}

CUresult cuStreamSynchronize(CUstream stream) {
  ENTER(Context);
  if (CUresult result = checkStream(stream))
    return result;
  if (Capture *capture = captureOf(stream)) {
    capture->invalidated = true;
    return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  }
  return forbidImplicit(stream);
}

CUresult cuStreamQuery(CUstream stream) {
  ENTER(Context);
  if (CUresult result = checkStream(stream))
    return result;
  if (Capture *capture = captureOf(stream)) {
    capture->invalidated = true;
    return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  }
  return forbidImplicit(stream);
}

/// A stream that waits for an event of a capture joins the capture.
CUresult cuStreamWaitEvent(CUstream stream, CUevent event, unsigned) {
  ENTER(Context);
  if (CUresult result = checkStream(stream))
    return result;
  if (CUresult result = driver.check(driver.events, event))
    return result;
  if (!event->capture || !driver.captures.count(event->capture)) {
    if (captureOf(stream))
      return CUDA_ERROR_STREAM_CAPTURE_ISOLATION;
    return CUDA_SUCCESS;
  }
  if (isDefault(stream))
    return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
  if (stream->capture && stream->capture != event->capture)
    return CUDA_ERROR_STREAM_CAPTURE_MERGE;
  stream->capture = event->capture;
  stream->capture->done.emplace(stream, 0);
  merge(stream->capture->known[stream], event->progress);
  return CUDA_SUCCESS;
}

CUresult cuStreamBeginCapture_v2(CUstream stream, CUstreamCaptureMode mode) {
  ENTER(Context);
  if (CUresult result = checkStream(stream))
    return result;
  if (isDefault(stream))
    return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  if (stream->capture)
    return CUDA_ERROR_ILLEGAL_STATE;
  stream->capture = std::make_shared<Capture>();
  stream->capture->origin = stream;
  stream->capture->mode = mode;
  stream->capture->id = ++driver.captureCount;
  driver.captures.insert(stream->capture);
  return CUDA_SUCCESS;
}

CUresult cuStreamEndCapture(CUstream stream, CUgraph *graph) {
  ENTER(Context);
  if (CUresult result = checkStream(stream))
    return result;
  if (!graph)
    return CUDA_ERROR_INVALID_VALUE;
  *graph = nullptr;
  if (isDefault(stream) || !stream->capture)
    return CUDA_ERROR_ILLEGAL_STATE;
  std::shared_ptr<Capture> capture = stream->capture;
  if (capture->origin != stream)
    return CUDA_ERROR_STREAM_CAPTURE_UNMATCHED;
  leave(driver, capture);
  if (capture->invalidated)
    return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  if (!isJoined(*capture))
    return CUDA_ERROR_STREAM_CAPTURE_UNJOINED;
  *graph = driver.graphs.make();
  for (auto &node : capture->nodes)
    node->graph = *graph;
  for (auto &node : capture->nodes)
    (*graph)->nodes.push_back(driver.nodes.adopt(std::move(node)));
  return CUDA_SUCCESS;
}

CUresult cuStreamIsCapturing(CUstream stream, CUstreamCaptureStatus *status) {
  ENTER(Context);
  if (CUresult result = checkStream(stream))
    return result;
  if (!status)
    return CUDA_ERROR_INVALID_VALUE;
  const Capture *capture = captureOf(stream);
  *status = !capture               ? CU_STREAM_CAPTURE_STATUS_NONE
            : capture->invalidated ? CU_STREAM_CAPTURE_STATUS_INVALIDATED
                                   : CU_STREAM_CAPTURE_STATUS_ACTIVE;
  return CUDA_SUCCESS;
}

CUresult cuEventCreate(CUevent *event, unsigned flags) {
  ENTER(Context);
  if (!event)
    return CUDA_ERROR_INVALID_VALUE;
  auto made = std::make_unique<CUevent_st>();
  made->context = currentContext();
  made->flags = flags;
  *event = driver.events.adopt(std::move(made));
  return CUDA_SUCCESS;
}

CUresult cuEventDestroy_v2(CUevent event) {
  ENTER(Context);
  if (CUresult result = driver.check(driver.events, event))
    return result;
  driver.events.erase(event);
  return CUDA_SUCCESS;
}

CUresult cuEventRecord(CUevent event, CUstream stream) {
  ENTER(Context);
  if (CUresult result = checkStream(stream))
    return result;
  if (CUresult result = driver.check(driver.events, event))
    return result;
  event->capture = isDefault(stream) ? nullptr : stream->capture;
  if (!event->capture) {
    if (CUresult result = forbidImplicit(stream))
      return result;
    event->time = now();
    return CUDA_SUCCESS;
  }
  event->progress = event->capture->known[stream];
  event->progress[stream] = event->capture->done[stream];
  return CUDA_SUCCESS;
}

/// An external event of a capture is recorded by a node of the graph.
CUresult cuEventRecordWithFlags(CUevent event, CUstream stream,
                                unsigned flags) {
  ENTER(Context);
  constexpr unsigned kExternal = 1;
  if (flags > kExternal)
    return CUDA_ERROR_INVALID_VALUE;
  if (CUresult result = checkStream(stream))
    return result;
  if (!flags || !captureOf(stream))
    return cuEventRecord(event, stream);
  if (CUresult result = driver.check(driver.events, event))
    return result;
  return submit(stream, EventWork{event, true});
}

CUresult cuEventQuery(CUevent event) {
  ENTER(Context);
  if (CUresult result = driver.check(driver.events, event))
    return result;
  return event->capture ? CUDA_ERROR_CAPTURED_EVENT : CUDA_SUCCESS;
}

CUresult cuEventSynchronize(CUevent event) {
  ENTER(Context);
  if (CUresult result = driver.check(driver.events, event))
    return result;
  return event->capture ? CUDA_ERROR_CAPTURED_EVENT : CUDA_SUCCESS;
}

CUresult cuEventElapsedTime(float *milliseconds, CUevent start, CUevent end) {
  ENTER(Context);
  for (CUevent event : {start, end})
    if (CUresult result = driver.check(driver.events, event))
      return result;
  if (!milliseconds)
    return CUDA_ERROR_INVALID_VALUE;
  bool timed = !((start->flags | end->flags) & CU_EVENT_DISABLE_TIMING);
  if (!timed || start->time == 0 || end->time == 0)
    return CUDA_ERROR_INVALID_HANDLE;
  *milliseconds = float((end->time - start->time) * 1e3);
  return CUDA_SUCCESS;
}

CUresult cuEventElapsedTime_v2(float *milliseconds, CUevent start,
                               CUevent end) {
  return cuEventElapsedTime(milliseconds, start, end);
}

} // extern "C"
