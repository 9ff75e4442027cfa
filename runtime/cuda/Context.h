/// A CUDA device in use, and what is allocated on it: all that cuda/ holds
/// frees itself, without throwing, also after an error of the device.
///
/// Each model has a context of its own, not the device's primary one: an
/// illegal access ends a context for good, and so ends one model and not the
/// process. Only a model that ranks share has the primary one, as NCCL computes
/// in no other. Every function here that takes or is a Context may be called by
/// many threads.
#pragma once

#include "runtime/base/Status.h"
#include "runtime/cuda/Driver.h"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace cria::cuda {

class Context {
public:
  /// A context on device `index`, or without it on the first device that gives
  /// one; NOT_FOUND where there is no such one. `fenced` asks for an allocation
  /// of its own for each tensor, so that a driver which checks bounds finds
  /// what reads beyond one. `patience` is how many seconds a step may take.
  /// `primary` asks for the device's primary context.
  static Result<std::shared_ptr<Context>>
  create(std::shared_ptr<const Driver> driver, bool fenced, double patience,
         std::optional<int> index = std::nullopt, bool primary = false);

  Context(const Context &) = delete;
  Context &operator=(const Context &) = delete;
  ~Context();

  const Functions *operator->() const { return &driver->calls(); }
  const Driver &library() const { return *driver; }
  bool isFenced() const { return fenced; }

  const std::string &deviceName() const { return name; }
  /// 90 for sm_90.
  int chip() const { return capability; }
  /// An attribute of the device; 0 where the driver does not know it.
  int attribute(CUdevice_attribute attribute) const;
  /// Bytes free on the device; 0 where the driver does not say.
  uint64_t freeBytes() const;

  /// What Driver::status says; an error after which the context is of no use
  /// is remembered.
  Status check(CUresult result, const char *call, std::string_view doing);
  /// ABORTED with the error that ended the context, if one did.
  Status usable() const;
  /// Waits until `stream` is idle, or `event` has happened, at most `patience`
  /// seconds: after DEADLINE_EXCEEDED the context is of no use.
  Status wait(CUstream stream, std::string_view doing) {
    return poll(stream, nullptr, doing);
  }
  Status wait(CUevent event, std::string_view doing) {
    return poll(nullptr, event, doing);
  }
  /// Sets a function that `wait` calls while it waits for long. If the function
  /// returns an error, the awaited work will not end, and the context is ended.
  /// Do not call this while a thread waits.
  void setHealth(std::function<Status()> asked) { health = std::move(asked); }

  /// Calls `release` with the context current; does nothing after a kernel
  /// that never ended, which may still use what would be freed.
  template <typename Release> void free(Release release) noexcept;

private:
  friend class Current;
  explicit Context(std::shared_ptr<const Driver> driver)
      : driver(std::move(driver)) {}
  Status open(CUdevice device);
  Status openOne(std::optional<int> index);
  Status poll(CUstream stream, CUevent event, std::string_view doing);
  void end(const Status &why);
  Status hang(Status why);

  std::shared_ptr<const Driver> driver;
  CUdevice device = 0;
  CUcontext context = nullptr;
  std::string name;
  int capability = 0;
  bool fenced = false, primary = false;
  double patience = 0;
  std::function<Status()> health;
  std::atomic<bool> ended{false}, hangs{false};
  mutable std::mutex mutex; // of `reason`
  std::string reason;
};

/// Makes a context the current one of this thread while it lives.
class Current {
public:
  explicit Current(Context &context);
  Current(const Current &) = delete;
  Current &operator=(const Current &) = delete;
  ~Current();

  /// Why it could not be, or that the context has ended.
  const Status &status() const { return failure; }

private:
  Context &context;
  Status failure;
  bool pushed = false;
};

template <typename Release> void Context::free(Release release) noexcept {
  CUcontext previous;
  if (hangs || driver->calls().cuCtxPushCurrent(context) != CUDA_SUCCESS)
    return;
  release(); // an error says that the context ended, and took it along
  driver->calls().cuCtxPopCurrent(&previous);
}

/// Something of the driver's that is freed by `Functions::*Free`.
template <typename T, auto Free> class Handle {
public:
  Handle() = default;
  Handle(std::shared_ptr<Context> context, T value)
      : context(std::move(context)), value(value) {}
  Handle(Handle &&other) noexcept
      : context(std::move(other.context)),
        value(std::exchange(other.value, {})) {}
  Handle &operator=(Handle &&other) noexcept {
    std::swap(context, other.context);
    std::swap(value, other.value);
    return *this;
  }
  ~Handle() {
    if (context && value)
      context->free([&] { (context->operator->()->*Free)(value); });
  }

  T get() const { return value; }
  explicit operator bool() const { return value; }

private:
  std::shared_ptr<Context> context;
  T value = {};
};

using DeviceMemory = Handle<CUdeviceptr, &Functions::cuMemFree>;
using PinnedMemory = Handle<void *, &Functions::cuMemFreeHost>;
using Stream = Handle<CUstream, &Functions::cuStreamDestroy>;
using Event = Handle<CUevent, &Functions::cuEventDestroy>;
using Module = Handle<CUmodule, &Functions::cuModuleUnload>;
using Graph = Handle<CUgraph, &Functions::cuGraphDestroy>;
using GraphExec = Handle<CUgraphExec, &Functions::cuGraphExecDestroy>;

// In the current context:

/// `bytes` of device memory "for `purpose`". What is free is asked before, so
/// that an error names both numbers.
Result<DeviceMemory> allocateDevice(const std::shared_ptr<Context> &context,
                                    uint64_t bytes, const char *purpose);
/// `bytes` of host memory that the device copies from and to by itself.
Result<PinnedMemory> allocatePinned(const std::shared_ptr<Context> &context,
                                    uint64_t bytes, const char *purpose);
Result<Stream> makeStream(const std::shared_ptr<Context> &context);
Result<Event> makeEvent(const std::shared_ptr<Context> &context,
                        unsigned flags = CU_EVENT_DISABLE_TIMING);

} // namespace cria::cuda
