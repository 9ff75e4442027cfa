/// The state that the functions of the emulated driver share.
///
/// Work runs when it is submitted: a stream never has pending work. This is one
/// of the orders that the real driver may choose. As on a real device, the
/// launch of a kernel that fails still succeeds; the error then stays with the
/// context, and every later call returns it.
#pragma once

#include "tools/emulator/driver/Api.h"
#include "tools/emulator/driver/Settings.h"
#include "tools/emulator/translate/Program.h"

#include <algorithm>
#include <deque>
#include <map>
#include <mutex>
#include <set>
#include <variant>

/// A context: the primary one, or one that was created.
struct CUctx_st {
  bool isPrimary = false;
  CUdevice device = 0;
  unsigned flags = 0;
  CUresult error = CUDA_SUCCESS; ///< error that all later calls return
  std::set<uint64_t> allocations, hostAllocations;
  std::map<int, size_t> limits; ///< that were set, by CUlimit
  int cacheConfig = 0, bankConfig = 0;
  std::set<CUcontext> peers; ///< whose memory it may access
};

/// A CUDA array: an image whose layout programs do not see.
struct CUarray_st {
  CUcontext context = nullptr;
  cria::emulator::Image image;
  CUDA_ARRAY3D_DESCRIPTOR shape = {};
};

struct CUfunc_st {
  CUmodule module = nullptr;
  std::string name;
  cria::emulator::Kernel *kernel = nullptr;
  uint32_t maxDynamicShared = 0; ///< beyond the 48 KiB that are always allowed
};

struct CUmod_st {
  CUcontext context = nullptr;
  CUlibrary library = nullptr; ///< that it belongs to, or null
  std::unique_ptr<cria::emulator::Program> program;
  std::map<std::string, CUfunction> functions;
};

/// Code that each context loads when it first needs it.
struct CUlib_st {
  std::vector<std::string> texts; ///< PTX, to be linked
  std::map<std::string, CUkernel> kernels;
  std::map<CUcontext, CUmodule> modules;
};

/// A kernel of a library, of all contexts.
struct CUkern_st {
  CUlibrary library = nullptr;
  std::string name;
  std::map<CUdevice, int> maxDynamicShared;
};

struct CUmemPoolHandle_st {
  CUdevice device = 0;
  uint64_t most = 0; ///< bytes; 0: any
  uint64_t high = 0; ///< the most bytes that were in use
  uint64_t threshold = 0;
  int flags[3] = {1, 1, 1}; ///< reuse policies
  std::set<uint64_t> allocations;
};

namespace cria::emulator {

struct Capture;

/// The priorities of streams; a lower number is a higher priority. Priorities
/// have no effect, as no work waits.
constexpr int kLeastPriority = 0, kGreatestPriority = -5;

/// A launch of a kernel with its parameters.
struct KernelWork {
  CUfunction function = nullptr;
  Dim grid, block;
  Dim cluster = {0, 0, 0}; ///< 0: the launch gives none
  uint32_t dynamicShared = 0;
  bool cooperative = false;
  bool overlaps = false; ///< may begin before the previous launch has ended
  CUstream stream = nullptr;
  std::vector<char> parameters;
};

/// Copies `slices` times `rows` rows of `bytes` bytes. Pitches are the
/// distances between rows and between slices.
struct CopyWork {
  uint64_t to = 0, from = 0, bytes = 0;
  uint64_t rows = 1, slices = 1;
  uint64_t toPitch = 0, fromPitch = 0, toSlice = 0, fromSlice = 0;
};

/// Fills `rows` rows of `count` elements of `width` bytes.
struct FillWork {
  uint64_t to = 0, count = 0;
  uint32_t value = 0, width = 1;
  uint64_t rows = 1, pitch = 0;
};

struct HostWork {
  CUhostFn function = nullptr;
  void *userData = nullptr;
};

/// Records an event, or waits for one.
struct EventWork {
  CUevent event = nullptr;
  bool records = false;
};

/// Runs the nodes of a graph.
struct GraphWork {
  CUgraph graph = nullptr;
};

struct EmptyWork {};

/// What a stream does.
using Work = std::variant<KernelWork, CopyWork, FillWork, HostWork, GraphWork,
                          EmptyWork, EventWork>;

} // namespace cria::emulator

struct CUstream_st {
  CUcontext context = nullptr;
  unsigned flags = 0;
  int priority = 0;
  std::map<int, CUlaunchAttributeValue> attributes;
  std::shared_ptr<cria::emulator::Capture> capture;
};

struct CUgraphNode_st {
  cria::emulator::Work work;
  std::vector<void *> pointers; ///< to the parameters of a kernel, for queries
  CUgraph graph = nullptr;
  std::vector<CUgraphNode> after; ///< nodes that come before it
  CUgraphNode original = nullptr; ///< of a clone
};

struct CUgraph_st {
  std::vector<CUgraphNode> nodes;
  bool isChild = false; ///< belongs to a node
};

struct CUgraphExec_st {
  /// In the order in which they run.
  struct Step {
    CUgraphNode node;
    cria::emulator::Work work;
    bool enabled = true;
  };
  std::vector<Step> steps;
  unsigned long long flags = 0;
};

namespace cria::emulator {

/// How much each stream of a capture had done, by stream.
using Progress = std::map<CUstream, uint64_t>;

/// A graph that is being captured, by all streams that joined.
struct Capture {
  std::vector<std::unique_ptr<CUgraphNode_st>> nodes;
  uint64_t id = 0;
  CUstream origin = nullptr;
  CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
  bool invalidated = false;
  Progress done;                      ///< all work
  std::map<CUstream, Progress> known; ///< work that each stream comes after
};

} // namespace cria::emulator

struct CUevent_st {
  CUcontext context = nullptr;
  unsigned flags = 0;
  double time = 0; ///< when it was recorded, in seconds; 0: never
  std::shared_ptr<cria::emulator::Capture> capture;
  cria::emulator::Progress progress;
};

namespace cria::emulator {

/// 0x7f00...
std::string hexOf(uint64_t address);

/// The handles of a kind that exist. Owns the objects.
///
/// A handle is an address. The address of a destroyed object is not used again
/// for a while. So a program that uses the handle of a destroyed object gets an
/// error, not another object.
template <typename T> class Handles {
public:
  explicit Handles(const char *kind) : kind(kind) {}

  template <typename... Args> T *make(Args &&...args) {
    return adopt(std::make_unique<T>(std::forward<Args>(args)...));
  }
  T *adopt(std::unique_ptr<T> owned) {
    T *handle = owned.release();
    live.insert(handle);
    return handle;
  }
  bool has(T *handle) const { return live.count(handle) != 0; }
  bool erase(T *handle) {
    if (live.erase(handle) == 0)
      return false;
    destroy(handle);
    return true;
  }
  /// Erases all that `matches`.
  template <typename F> void eraseIf(F matches) {
    for (auto i = live.begin(); i != live.end();) {
      T *handle = *i;
      if (!matches(*handle)) {
        ++i;
        continue;
      }
      i = live.erase(i);
      destroy(handle);
    }
  }
  template <typename F> void forEach(F visit) {
    for (T *handle : live)
      visit(*handle);
  }

  /// What is wrong with a handle that does not exist.
  std::string describe(T *handle) const {
    if (!handle)
      return "expected " + std::string(kind) + ", got null";
    bool wasLive = std::find(gone.begin(), gone.end(), handle) != gone.end();
    return hexOf(uint64_t(handle)) +
           (wasLive ? " is " + std::string(kind) + " that was destroyed"
                    : " is not " + std::string(kind));
  }

private:
  /// Destroys the object but keeps its memory.
  void destroy(T *handle) {
    constexpr size_t kRemembered = 4096;
    handle->~T();
    gone.push_back(handle);
    if (gone.size() <= kRemembered)
      return;
    ::operator delete(gone.front());
    gone.pop_front();
  }

  const char *kind;
  std::set<T *> live;
  std::deque<T *> gone; ///< memory without an object, the oldest first
};

/// The primary context of a device, and how often it is retained.
struct Primary {
  std::unique_ptr<CUctx_st> context; ///< null before the first use
  unsigned uses = 0, flags = 0;
};

/// The devices and all objects on them. All members are guarded by `mutex`,
/// which a Call holds.
struct Driver {
  static Driver &get();

  /// Reads the environment again if it has changed.
  void refresh();
  bool initialized = false;
  Settings settings;
  std::string text; ///< text that the settings were read from
  std::unique_ptr<DeviceMemory> memory;
  std::map<std::string, uint64_t> calls; ///< by function
  std::set<std::string> missed;          ///< functions that are not implemented
  std::string function;                  ///< function that is being called
  /// The null stream means the thread's own, not the legacy one.
  bool nullIsPerThread = false;
  std::recursive_mutex mutex;

  std::map<CUdevice, Primary> primaries;
  Handles<CUctx_st> contexts{"a context"}; ///< besides the primary ones
  Handles<CUmod_st> modules{"a module"};
  Handles<CUfunc_st> functions{"a function"};
  Handles<CUlib_st> libraries{"a library"};
  Handles<CUkern_st> kernels{"a kernel"};
  Handles<CUstream_st> streams{"a stream"};
  Handles<CUevent_st> events{"an event"};
  Handles<CUgraph_st> graphs{"a graph"};
  Handles<CUgraphNode_st> nodes{"a graph node"};
  Handles<CUgraphExec_st> executables{"an executable graph"};
  Handles<CUmemPoolHandle_st> pools{"a memory pool"};
  Handles<CUarray_st> arrays{"an array"};
  Textures textures;
  std::map<CUdevice, CUmemoryPool> defaultPools, currentPools;
  std::set<std::shared_ptr<Capture>> captures; ///< under way
  uint64_t captureCount = 0;
  /// Launches that nothing else followed, by stream.
  std::map<CUstream, LaunchTrace> traces;
  std::string printed; ///< by kernels, since the program last waited

  bool isDevice(CUdevice device) const {
    return device >= 0 && unsigned(device) < settings.devices;
  }
  bool isContext(CUcontext context) {
    bool isPrimary = std::any_of(
        primaries.begin(), primaries.end(), [&](const auto &primary) {
          return context == primary.second.context.get() &&
                 primary.second.uses > 0;
        });
    return context && (isPrimary || contexts.has(context));
  }
  /// Bytes of each device.
  uint64_t capacity() const { return memory->capacity() / settings.devices; }
  /// Bytes of a device that its contexts do not take. Several devices share one
  /// range of addresses, so that the emulator knows what each of them holds.
  uint64_t freeOn(CUdevice device);
  /// Frees all that belongs to the context.
  void clear(CUctx_st &context);
  void unload(CUmodule module);
  /// Writes what kernels printed to the standard output.
  void flushPrinted();

  /// Prints what is wrong, and adds it to the report.
  void report(const Finding &finding);
  /// The same for a mistake of the program in the current call. The call fails,
  /// and the context does not change.
  void reportMisuse(const std::string &what, const std::string &details = "");
  /// CUDA_SUCCESS if the handle exists; else reports what is wrong with it.
  template <typename T>
  CUresult check(const Handles<T> &handles, T *handle,
                 CUresult error = CUDA_ERROR_INVALID_HANDLE) {
    if (handles.has(handle))
      return CUDA_SUCCESS;
    reportMisuse(handles.describe(handle));
    return error;
  }
  /// The handle of a kernel of a library may be passed as that of a function:
  /// replaces it by the function in the current context. The error if there is
  /// no such function.
  CUresult resolve(CUfunction &function);
  /// The pool that counts the allocation at `address`, or null.
  CUmemoryPool poolOf(uint64_t address);
  /// The primary context of a device, which need not be retained.
  CUcontext primaryContext(CUdevice device);
  CUresult checkContext(CUcontext context) {
    return isContext(context)
               ? CUDA_SUCCESS
               : check(contexts, context, CUDA_ERROR_INVALID_CONTEXT);
  }
};

/// The current context of this thread, null if there is none.
CUcontext currentContext();
std::vector<CUcontext> &contextStack();

/// Runs or captures `work`.
CUresult submit(CUstream stream, Work work);
/// Runs `work` now.
CUresult execute(const Work &work);
/// Blocks of `threads` threads that a multiprocessor holds at the same time, by
/// threads, blocks and shared memory; registers are not known.
uint64_t blocksPerSm(const CUfunc_st &function, uint64_t threads,
                     uint64_t dynamicShared);
/// The nodes of a graph in an order that its edges allow.
std::vector<CUgraphNode> orderOf(const CUgraph_st &graph);
/// Whether the kernel can be launched this way.
CUresult checkLaunch(const KernelWork &work);
/// The value of an attribute of a function; none if it is not known.
std::optional<int> attribute(const Driver &driver, const CUfunc_st &function,
                             CUfunction_attribute which);
CUresult setAttribute(CUfunction function, CUfunction_attribute which,
                      int value);
/// Where the parameter `index` of a kernel lies.
CUresult parameterInfo(const Kernel &kernel, size_t index, size_t *offset,
                       size_t *bytes);
/// The capture that `stream` takes part in, or null.
Capture *captureOf(CUstream stream);
/// CUDA_SUCCESS, or the error of a synchronous copy or fill while a stream is
/// captured: it would run on the legacy stream, which waits for all others.
CUresult forbidSynchronous();
/// Whether the range of the device is allocated, or is the host's; else reports
/// what is wrong.
bool isAnywhere(Driver &driver, uint64_t address, size_t bytes);
CUstreamCaptureMode &captureModeOfThread();
/// CUDA_SUCCESS, or the error of a call that must not be made while something
/// is captured (which ends the capture).
CUresult forbidCapture();
/// The stream of a handle; the error if there is none.
CUresult checkStream(CUstream stream);

/// Ends a function that returns a value by a pointer.
template <typename T, typename Value> CUresult give(T *to, Value value) {
  if (!to)
    return CUDA_ERROR_INVALID_VALUE;
  *to = value;
  return CUDA_SUCCESS;
}

/// What a function needs.
enum class Needs {
  Nothing,     ///< works always
  Initialized, ///< cuInit before it
  Healthy,     ///< cuInit; the current context, if there is one, has no error
  Context      ///< a current context without an error
};

/// One call of a driver function: counts it, injects faults, and checks what
/// it needs. Holds the driver's lock while it lives.
class Call {
public:
  Call(const char *function, Needs needs);
  ~Call();
  Call(const Call &) = delete;
  Call &operator=(const Call &) = delete;

  CUresult result = CUDA_SUCCESS; ///< else the function must return it
  Driver &driver;

private:
  std::unique_lock<std::recursive_mutex> lock;
  std::string outer; ///< function whose call contains this call
  bool outerIsPerThread;
};

} // namespace cria::emulator

/// Set by functions whose null stream is the thread's own; the next Call of the
/// thread reads and clears it. In C, because assembly names it.
extern "C" thread_local bool criaPerThreadStream
    __attribute__((visibility("hidden"), tls_model("initial-exec")));

/// Begins a function of the driver.
#define ENTER(needs)                                                           \
  ::cria::emulator::Call call(__func__, ::cria::emulator::Needs::needs);       \
  if (call.result != CUDA_SUCCESS)                                             \
    return call.result;                                                        \
  ::cria::emulator::Driver &driver = call.driver;                              \
  (void)driver
