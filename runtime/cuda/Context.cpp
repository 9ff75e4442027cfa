#include "runtime/cuda/Context.h"

#include "runtime/base/Json.h"

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <thread>

namespace cria::cuda {

Result<std::shared_ptr<Context>>
Context::create(std::shared_ptr<const Driver> driver, bool fenced,
                double patience, std::optional<int> index, bool primary) {
  std::shared_ptr<Context> context(new Context(std::move(driver)));
  context->primary = primary;
  context->fenced = fenced;
  context->patience = patience;
  Status status = context->openOne(index);
  if (!status.ok())
    return status;
  return context;
}

/// Opens device `index`, or else the first that can be; the error then tells of
/// all.
Status Context::openOne(std::optional<int> index) {
  Result<int> count = driver->deviceCount();
  if (!count.ok())
    return count.status();
  const char *visible = getenv("CUDA_VISIBLE_DEVICES");
  Status failure(CRIA_FAILED_PRECONDITION,
                 {"the CUDA driver ", driver->versionText(), " sees no device",
                  visible ? "; CUDA_VISIBLE_DEVICES is " + quote(visible)
                          : std::string()});
  if (index && *count > 0)
    return *index < 0 || *index >= *count ? noDevice(*index, *count)
                                          : open(*index);
  std::string seen;
  for (int i = 0; i < *count; ++i) {
    failure = open(i);
    if (failure.ok())
      return failure;
    seen += (i ? "; " : "") + failure.message();
  }
  return seen.empty() ? failure : Status(failure.code(), seen);
}

Status Context::open(CUdevice ordinal) {
  static constexpr int prohibited = 2;
  std::string which = "device " + std::to_string(ordinal);
  Status status = check((*this)->cuDeviceGet(&device, ordinal), "cuDeviceGet",
                        "opening " + which);
  if (!status.ok())
    return status;
  Result<DeviceInfo> info = driver->deviceInfo(ordinal);
  if (!info.ok())
    return info.status();
  name = info->name;
  capability = info->capability;
  if (attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_MODE) == prohibited)
    return Status(CRIA_UNAVAILABLE,
                  {which, " (", name, ") is in compute mode prohibited"});
  std::string doing = concat({"opening ", which, " (", name, ")"});
  if (primary)
    return check((*this)->cuDevicePrimaryCtxRetain(&context, device),
                 "cuDevicePrimaryCtxRetain", doing);
  status = check((*this)->cuCtxCreate(&context, CU_CTX_SCHED_AUTO, device),
                 "cuCtxCreate", doing);
  if (!status.ok())
    return status;
  CUcontext popped; // it was made the current one
  return check((*this)->cuCtxPopCurrent(&popped), "cuCtxPopCurrent", doing);
}

Context::~Context() {
  // Behind a kernel that never ends these calls would not return.
  if (context && !hangs && primary)
    (*this)->cuDevicePrimaryCtxRelease(device);
  else if (context && !hangs)
    (*this)->cuCtxDestroy(context);
}

int Context::attribute(CUdevice_attribute attribute) const {
  int value = 0;
  CUresult result = (*this)->cuDeviceGetAttribute(&value, attribute, device);
  return result == CUDA_SUCCESS ? value : 0;
}

uint64_t Context::freeBytes() const {
  size_t free = 0, total = 0;
  return (*this)->cuMemGetInfo(&free, &total) == CUDA_SUCCESS ? free : 0;
}

Status Context::check(CUresult result, const char *call,
                      std::string_view doing) {
  if (result == CUDA_SUCCESS)
    return Status(); // of thousands of calls, not one allocates
  Status status = driver->status(result, call, doing);
  if (isSticky(result))
    end(status);
  return status;
}

/// Remembers the first error that ended the context.
void Context::end(const Status &why) {
  std::lock_guard<std::mutex> lock(mutex);
  if (!ended)
    reason = why.message();
  ended = true;
}

Status Context::usable() const {
  if (!ended)
    return Status();
  std::lock_guard<std::mutex> lock(mutex);
  return Status(CRIA_ABORTED, {"the model's CUDA context has ended (", reason,
                               "); load the model again"});
}

/// Asks until the answer is not CUDA_ERROR_NOT_READY: for the event, or else
/// for the stream. What hangs is not waited for twice.
Status Context::poll(CUstream stream, CUevent event, std::string_view doing) {
  using Clock = std::chrono::steady_clock;
  using std::chrono::duration;
  if (hangs)
    return usable();
  Clock::time_point begin = Clock::now();
  for (;;) {
    CUresult result =
        event ? (*this)->cuEventQuery(event) : (*this)->cuStreamQuery(stream);
    if (result != CUDA_ERROR_NOT_READY)
      return check(result, event ? "cuEventQuery" : "cuStreamQuery", doing);
    // A decode step takes some milliseconds: waking up would add to it.
    double waited = duration<double>(Clock::now() - begin).count();
    if (waited > 0.01)
      std::this_thread::sleep_for(std::chrono::microseconds(50));
    if (Status well = waited > 0.1 && health ? health() : Status(); !well.ok())
      return hang(well);
    if (waited > patience)
      break;
  }
  return hang(
      Status(CRIA_DEADLINE_EXCEEDED,
             {"the device did not finish ", doing, " within ",
              static_cast<int64_t>(patience), " s; a kernel or copy hangs"}));
}

/// Gives up what will not end.
Status Context::hang(Status why) {
  hangs = true;
  end(why);
  return why;
}

Current::Current(Context &context)
    : context(context), failure(context.usable()) {
  if (!failure.ok())
    return;
  failure = context.check(context->cuCtxPushCurrent(context.context),
                          "cuCtxPushCurrent", "entering the context");
  pushed = failure.ok();
}

Current::~Current() {
  CUcontext popped;
  if (pushed)
    context->cuCtxPopCurrent(&popped);
}

Result<DeviceMemory> allocateDevice(const std::shared_ptr<Context> &context,
                                    uint64_t bytes, const char *purpose) {
  if (bytes == 0)
    return DeviceMemory();
  std::string doing =
      concat({"allocating ", mebibytes(bytes), " for ", purpose});
  uint64_t free = context->freeBytes();
  // Asking for it all would take the driver's own reserve first.
  if (free && bytes > free)
    return Status(CRIA_RESOURCE_EXHAUSTED,
                  {"not enough memory on ", context->deviceName(), " while ",
                   doing, "; ", mebibytes(free), " free"});
  CUdeviceptr pointer = 0;
  CUresult result = (*context)->cuMemAlloc(&pointer, bytes);
  if (result == CUDA_ERROR_OUT_OF_MEMORY)
    doing += concat({"; ", mebibytes(free), " free"});
  Status status = context->check(result, "cuMemAlloc", doing);
  if (!status.ok())
    return status;
  return DeviceMemory(context, pointer);
}

Result<PinnedMemory> allocatePinned(const std::shared_ptr<Context> &context,
                                    uint64_t bytes, const char *purpose) {
  void *pointer = nullptr;
  Status status = context->check(
      (*context)->cuMemHostAlloc(&pointer, bytes, 0), "cuMemHostAlloc",
      concat({"pinning ", mebibytes(bytes), " for ", purpose}));
  if (!status.ok())
    return status;
  return PinnedMemory(context, pointer);
}

Result<Stream> makeStream(const std::shared_ptr<Context> &context) {
  CUstream stream = nullptr;
  Status status = context->check(
      (*context)->cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING),
      "cuStreamCreate", "making a stream");
  if (!status.ok())
    return status;
  return Stream(context, stream);
}

Result<Event> makeEvent(const std::shared_ptr<Context> &context,
                        unsigned flags) {
  CUevent event = nullptr;
  Status status = context->check((*context)->cuEventCreate(&event, flags),
                                 "cuEventCreate", "making an event");
  if (!status.ok())
    return status;
  return Event(context, event);
}

} // namespace cria::cuda
