// Streams and events.
#include "tools/emulator/cudart/Runtime.h"

using namespace cria::cudart;

API(cudaStreamCreate)(CUstream *stream) {
  ENTER();
  RETURN(cuStreamCreate(stream, 0));
}

API(cudaStreamCreateWithFlags)(CUstream *stream, unsigned flags) {
  ENTER();
  RETURN(cuStreamCreate(stream, flags));
}

API(cudaStreamCreateWithPriority)
(CUstream *stream, unsigned flags, int priority) {
  ENTER();
  RETURN(cuStreamCreateWithPriority(stream, flags, priority));
}

API(cudaStreamDestroy)(CUstream stream) {
  ENTER();
  RETURN(cuStreamDestroy_v2(stream));
}

API(cudaStreamSynchronize)(CUstream stream) {
  ENTER();
  RETURN(cuStreamSynchronize(stream));
}

API(cudaStreamQuery)(CUstream stream) {
  ENTER();
  RETURN(cuStreamQuery(stream));
}

API(cudaStreamWaitEvent)(CUstream stream, CUevent event, unsigned flags) {
  ENTER();
  RETURN(cuStreamWaitEvent(stream, event, flags));
}

API(cudaStreamGetFlags)(CUstream stream, unsigned *flags) {
  ENTER();
  RETURN(cuStreamGetFlags(stream, flags));
}

API(cudaStreamGetPriority)(CUstream stream, int *priority) {
  ENTER();
  RETURN(cuStreamGetPriority(stream, priority));
}

API(cudaStreamGetDevice)(CUstream stream, int *device) {
  ENTER();
  RETURN(cuStreamGetDevice(stream, device));
}

API(cudaStreamGetId)(CUstream stream, unsigned long long *id) {
  ENTER();
  RETURN(cuStreamGetId(stream, id));
}

API(cudaStreamSetAttribute)
(CUstream stream, int attribute, const CUlaunchAttributeValue *value) {
  ENTER();
  RETURN(cuStreamSetAttribute(stream, attribute, value));
}

API(cudaStreamGetAttribute)
(CUstream stream, int attribute, CUlaunchAttributeValue *value) {
  ENTER();
  RETURN(cuStreamGetAttribute(stream, attribute, value));
}

API(cudaStreamCopyAttributes)(CUstream to, CUstream from) {
  ENTER();
  RETURN(cuStreamCopyAttributes(to, from));
}

API(cudaStreamAddCallback)
(CUstream stream, CUstreamCallback callback, void *userData, unsigned flags) {
  ENTER();
  RETURN(cuStreamAddCallback(stream, callback, userData, flags));
}

API(cudaStreamBeginCapture)(CUstream stream, CUstreamCaptureMode mode) {
  ENTER();
  RETURN(cuStreamBeginCapture_v2(stream, mode));
}

API(cudaStreamEndCapture)(CUstream stream, CUgraph *graph) {
  ENTER();
  RETURN(cuStreamEndCapture(stream, graph));
}

API(cudaStreamIsCapturing)(CUstream stream, CUstreamCaptureStatus *status) {
  ENTER();
  RETURN(cuStreamIsCapturing(stream, status));
}

API(cudaStreamGetCaptureInfo)
(CUstream stream, CUstreamCaptureStatus *status, cuuint64_t *id, CUgraph *graph,
 const CUgraphNode **after, const CUgraphEdgeData **edges, size_t *count) {
  ENTER();
  RETURN(cuStreamGetCaptureInfo_v3(stream, status, id, graph, after, edges,
                                   count));
}

API(cudaThreadExchangeStreamCaptureMode)(CUstreamCaptureMode *mode) {
  ENTER();
  RETURN(cuThreadExchangeStreamCaptureMode(mode));
}

API(cudaEventCreate)(CUevent *event) {
  ENTER();
  RETURN(cuEventCreate(event, 0));
}

API(cudaEventCreateWithFlags)(CUevent *event, unsigned flags) {
  ENTER();
  RETURN(cuEventCreate(event, flags));
}

API(cudaEventDestroy)(CUevent event) {
  ENTER();
  RETURN(cuEventDestroy_v2(event));
}

API(cudaEventRecord)(CUevent event, CUstream stream) {
  ENTER();
  RETURN(cuEventRecord(event, stream));
}

API(cudaEventRecordWithFlags)(CUevent event, CUstream stream, unsigned flags) {
  ENTER();
  RETURN(cuEventRecordWithFlags(event, stream, flags));
}

API(cudaEventQuery)(CUevent event) {
  ENTER();
  RETURN(cuEventQuery(event));
}

API(cudaEventSynchronize)(CUevent event) {
  ENTER();
  RETURN(cuEventSynchronize(event));
}

API(cudaEventElapsedTime)(float *milliseconds, CUevent start, CUevent end) {
  ENTER();
  RETURN(cuEventElapsedTime(milliseconds, start, end));
}
