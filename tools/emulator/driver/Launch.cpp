// Launches, and the execution of a stream's work.
#include "tools/emulator/driver/Counts.h"
#include "tools/emulator/driver/Driver.h"
#include "tools/emulator/driver/Limits.h"

#include <chrono>
#include <cstring>

using namespace cria::emulator;

namespace cria::emulator {
namespace {

/// The error of a real device for such a kernel.
CUresult resultOf(Finding::Kind kind) {
  switch (kind) {
  case Finding::OutOfBounds:
  case Finding::UseAfterFree:
    return CUDA_ERROR_ILLEGAL_ADDRESS;
  case Finding::Misaligned:
    return CUDA_ERROR_MISALIGNED_ADDRESS;
  case Finding::Deadlock:
    return CUDA_ERROR_LAUNCH_TIMEOUT;
  case Finding::Misuse:
    return CUDA_ERROR_ILLEGAL_INSTRUCTION;
  case Finding::Assertion:
    return CUDA_ERROR_ASSERT;
  default:
    return CUDA_ERROR_LAUNCH_FAILED;
  }
}

double now() {
  return std::chrono::duration<double>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

/// The cluster of the launch, or the one that the kernel requires; else one
/// block.
Dim clusterOf(const KernelWork &work) {
  const auto &needed = work.function->kernel->function->cluster;
  if (needed[0])
    return {needed[0], needed[1], needed[2]};
  return work.cluster.x ? work.cluster : Dim();
}

Launch launchOf(Driver &driver, const KernelWork &work) {
  const Kernel &kernel = *work.function->kernel;
  Program *program = work.function->module->program.get();
  Launch launch;
  launch.code = kernel.code;
  launch.blocks = kernel.blocks;
  launch.name = work.function->name;
  launch.sourceOf = [program](int line) { return program->sourceOf(line); };
  launch.grid = work.grid;
  launch.block = work.block;
  launch.cluster = clusterOf(work);
  launch.staticShared = uint32_t(kernel.sharedBytes);
  launch.dynamicShared = work.dynamicShared;
  launch.reservedShared = uint32_t(kernel.reservedBytes);
  launch.localBytes = kernel.localBytes;
  launch.recurses = kernel.recurses;
  launch.parameters = work.parameters;
  launch.countPlan = kernel.countPlan.get();
  launch.memory = driver.memory.get();
  launch.textures = &driver.textures;
  launch.checks = driver.settings.checks;
  launch.seed = driver.settings.seed;
  launch.cooperative = work.cooperative;
  launch.workers = driver.settings.threads;
  launch.timeLimit = driver.settings.timeLimit;
  return launch;
}

CUresult run(const KernelWork &work) {
  Driver &driver = Driver::get();
  if (CUresult result = driver.check(driver.functions, work.function))
    return result;
  double start = now();
  Launch launch = launchOf(driver, work);
  auto previous = driver.traces.find(work.stream);
  if (work.overlaps && previous != driver.traces.end())
    overlap(launch, previous->second);
  LaunchResult result = runLaunch(launch);
  driver.traces[work.stream] = result.trace;
  driver.printed += result.printed;
  if (launch.countPlan)
    printCounts(driver.settings, launch, result.counts, now() - start);
  if (result.finding) {
    driver.report(*result.finding);
    work.function->module->context->error = resultOf(result.finding->kind);
  }
  return CUDA_SUCCESS;
}

/// Whether memory was freed between the capture of a copy and its run.
bool isGone(uint64_t address, uint64_t bytes) {
  Driver &driver = Driver::get();
  const DeviceMemory &memory = *driver.memory;
  if (bytes == 0 || !memory.isReserved(address) || memory.find(address, bytes))
    return false;
  driver.report({Finding::UseAfterFree,
                 driver.function + ": a copy or fill of " +
                     std::to_string(bytes) + " bytes at " + hexOf(address) +
                     " is in no allocation",
                 "  the address is " + memory.describe(address) + "\n"});
  currentContext()->error = CUDA_ERROR_ILLEGAL_ADDRESS;
  return true;
}

CUresult run(const CopyWork &work) {
  Driver::get().traces.clear();
  for (uint64_t slice = 0; slice < work.slices; ++slice)
    for (uint64_t row = 0; row < work.rows; ++row) {
      uint64_t to = work.to + slice * work.toSlice + row * work.toPitch;
      uint64_t from = work.from + slice * work.fromSlice + row * work.fromPitch;
      if (isGone(to, work.bytes) || isGone(from, work.bytes))
        return CUDA_SUCCESS;
      std::memmove(reinterpret_cast<void *>(to), reinterpret_cast<void *>(from),
                   work.bytes);
    }
  return CUDA_SUCCESS;
}

template <typename T> void fill(const FillWork &work, uint64_t to) {
  std::fill_n(reinterpret_cast<T *>(to), work.count, T(work.value));
}

CUresult run(const FillWork &work) {
  Driver::get().traces.clear();
  for (uint64_t row = 0; row < work.rows; ++row) {
    uint64_t to = work.to + row * work.pitch;
    if (isGone(to, work.count * work.width))
      return CUDA_SUCCESS;
    if (work.width == 1)
      fill<uint8_t>(work, to);
    else if (work.width == 2)
      fill<uint16_t>(work, to);
    else
      fill<uint32_t>(work, to);
  }
  return CUDA_SUCCESS;
}

CUresult run(const EmptyWork &) { return CUDA_SUCCESS; }

CUresult run(const EventWork &work) {
  Driver &driver = Driver::get();
  if (CUresult result = driver.check(driver.events, work.event))
    return result;
  if (work.records)
    work.event->time = now();
  return CUDA_SUCCESS;
}

/// Executable graphs have the nodes of child graphs in their place.
CUresult run(const GraphWork &) { return CUDA_ERROR_UNKNOWN; }

CUresult run(const HostWork &work) {
  Driver::get().traces.clear();
  work.function(work.userData);
  return CUDA_SUCCESS;
}

bool inLimits(const Dim &dim, const unsigned (&limits)[3]) {
  return dim.x && dim.y && dim.z && dim.x <= limits[0] && dim.y <= limits[1] &&
         dim.z <= limits[2];
}

/// Whether the block fits: `.maxntid` bounds its threads, `.reqntid` fixes
/// them.
bool fitsBounds(const Function &function, const Dim &block) {
  const auto &most = function.maxThreads;
  if (!most[0])
    return true;
  if (function.requiresThreads)
    return block.x == most[0] && block.y == most[1] && block.z == most[2];
  return block.total() <= uint64_t(most[0]) * most[1] * most[2];
}

/// Whether the kernel allows the cluster, and the grid consists of whole
/// clusters.
bool fitsClusters(const KernelWork &work) {
  const Function &function = *work.function->kernel->function;
  Dim cluster = clusterOf(work);
  uint64_t most = function.maxCluster ? function.maxCluster : kMaxCluster;
  bool isNeeded = !work.cluster.x ||
                  (work.cluster.x == cluster.x && work.cluster.y == cluster.y &&
                   work.cluster.z == cluster.z);
  bool isSaid = work.cluster.x || function.cluster[0];
  return isNeeded && (isSaid || !function.needsCluster) && cluster.total() &&
         cluster.total() <= std::min<uint64_t>(most, kMaxCluster) &&
         work.grid.x % cluster.x == 0 && work.grid.y % cluster.y == 0 &&
         work.grid.z % cluster.z == 0;
}

uint64_t residentBlocks(const KernelWork &work, unsigned capability) {
  return blocksPerSm(*work.function, work.block.total(), work.dynamicShared) *
         limitsOf(capability).smCount;
}

/// Copies the parameters from the buffer that `extra` names.
CUresult gatherBuffer(KernelWork &work, void **extra) {
  void *const kEnd = nullptr, *const kPointer = reinterpret_cast<void *>(1),
              *const kSize = reinterpret_cast<void *>(2);
  const void *buffer = nullptr;
  const size_t *bytes = nullptr;
  for (; *extra != kEnd; extra += 2) {
    if (*extra == kPointer)
      buffer = extra[1];
    else if (*extra == kSize)
      bytes = static_cast<const size_t *>(extra[1]);
    else
      return CUDA_ERROR_INVALID_VALUE;
  }
  if (!buffer || !bytes || *bytes < work.parameters.size())
    return CUDA_ERROR_INVALID_VALUE;
  std::memcpy(work.parameters.data(), buffer, work.parameters.size());
  return CUDA_SUCCESS;
}

/// Copies the parameters into their buffer.
CUresult gather(KernelWork &work, void **parameters, void **extra) {
  Driver &driver = Driver::get();
  if (CUresult result = driver.resolve(work.function))
    return result;
  const Function &function = *work.function->kernel->function;
  work.parameters.assign(function.parameterBytes, 0);
  if (extra)
    return parameters ? CUDA_ERROR_INVALID_VALUE : gatherBuffer(work, extra);
  if (!parameters && !function.parameters.empty())
    return CUDA_ERROR_INVALID_VALUE;
  for (size_t i = 0; i < function.parameters.size(); ++i) {
    const Parameter &parameter = function.parameters[i];
    std::memcpy(work.parameters.data() + parameter.offset, parameters[i],
                parameter.size);
  }
  return CUDA_SUCCESS;
}

CUresult launch(KernelWork work, CUstream stream, void **parameters,
                void **extra) {
  if (CUresult result = checkStream(stream))
    return result;
  if (CUresult result = gather(work, parameters, extra))
    return result;
  if (CUresult result = checkLaunch(work))
    return result;
  return submit(stream, std::move(work));
}

/// Clusters and overlapping launches need sm_90.
CUresult applyAttributes(const CUlaunchConfig &config, KernelWork &work) {
  for (unsigned i = 0; i < config.numAttrs; ++i) {
    const CUlaunchAttribute &attribute = config.attrs[i];
    const auto &cluster = attribute.value.clusterDim;
    switch (int(attribute.id)) {
    case CU_LAUNCH_ATTRIBUTE_IGNORE:
    case CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW:
    case CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY:
    case CU_LAUNCH_ATTRIBUTE_PRIORITY:
    case CU_LAUNCH_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE:
      break;
    case CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION:
      if (Driver::get().settings.capability < 90)
        return CUDA_ERROR_NOT_SUPPORTED;
      work.overlaps = attribute.value.programmaticStreamSerializationAllowed;
      break;
    case CU_LAUNCH_ATTRIBUTE_COOPERATIVE:
      work.cooperative = attribute.value.cooperative != 0;
      break;
    case CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION:
      if (Driver::get().settings.capability < 90)
        return CUDA_ERROR_NOT_SUPPORTED;
      if (!cluster.x || !cluster.y || !cluster.z)
        return CUDA_ERROR_INVALID_VALUE;
      work.cluster = {cluster.x, cluster.y, cluster.z};
      break;
    case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP:
    case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN:
    case CU_LAUNCH_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT:
      break;
    default:
      Driver::get().reportMisuse("launch attribute " +
                                 std::to_string(attribute.id) +
                                 " is not emulated");
      return CUDA_ERROR_NOT_SUPPORTED;
    }
  }
  return CUDA_SUCCESS;
}

} // namespace

CUresult execute(const Work &work) {
  return std::visit([](const auto &some) { return run(some); }, work);
}

CUresult checkLaunch(const KernelWork &work) {
  Driver &driver = Driver::get();
  unsigned capability = driver.settings.capability;
  const Kernel &kernel = *work.function->kernel;
  if (!inLimits(work.block, kMaxBlockDim) || !inLimits(work.grid, kMaxGridDim))
    return CUDA_ERROR_INVALID_VALUE;
  if (work.block.total() > kMaxThreads ||
      !fitsBounds(*kernel.function, work.block))
    return CUDA_ERROR_INVALID_VALUE;
  if (!fitsClusters(work))
    return CUDA_ERROR_INVALID_CLUSTER_SIZE;
  uint64_t shared = kernel.sharedBytes + work.dynamicShared;
  if (shared > kSharedAlways &&
      work.dynamicShared > work.function->maxDynamicShared)
    return CUDA_ERROR_INVALID_VALUE;
  if (shared > limitsOf(capability).sharedPerBlock)
    return CUDA_ERROR_INVALID_VALUE;
  if (work.cooperative && work.grid.total() > residentBlocks(work, capability))
    return CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE;
  return CUDA_SUCCESS;
}

} // namespace cria::emulator

extern "C" {

CUresult cuLaunchKernel(CUfunction function, unsigned gridX, unsigned gridY,
                        unsigned gridZ, unsigned blockX, unsigned blockY,
                        unsigned blockZ, unsigned sharedBytes, CUstream stream,
                        void **parameters, void **extra) {
  ENTER(Context);
  KernelWork work;
  work.function = function;
  work.grid = {gridX, gridY, gridZ};
  work.block = {blockX, blockY, blockZ};
  work.dynamicShared = sharedBytes;
  return launch(std::move(work), stream, parameters, extra);
}

CUresult cuLaunchCooperativeKernel(CUfunction function, unsigned gridX,
                                   unsigned gridY, unsigned gridZ,
                                   unsigned blockX, unsigned blockY,
                                   unsigned blockZ, unsigned sharedBytes,
                                   CUstream stream, void **parameters) {
  ENTER(Context);
  KernelWork work;
  work.function = function;
  work.grid = {gridX, gridY, gridZ};
  work.block = {blockX, blockY, blockZ};
  work.dynamicShared = sharedBytes;
  work.cooperative = true;
  return launch(std::move(work), stream, parameters, nullptr);
}

CUresult cuLaunchKernelEx(const CUlaunchConfig *config, CUfunction function,
                          void **parameters, void **extra) {
  ENTER(Context);
  if (!config || (config->numAttrs && !config->attrs))
    return CUDA_ERROR_INVALID_VALUE;
  KernelWork work;
  work.function = function;
  work.grid = {config->gridDimX, config->gridDimY, config->gridDimZ};
  work.block = {config->blockDimX, config->blockDimY, config->blockDimZ};
  work.dynamicShared = config->sharedMemBytes;
  if (CUresult result = applyAttributes(*config, work))
    return result;
  return launch(std::move(work), config->hStream, parameters, extra);
}

CUresult cuLaunchHostFunc(CUstream stream, CUhostFn function, void *userData) {
  ENTER(Context);
  if (!function)
    return CUDA_ERROR_INVALID_VALUE;
  if (CUresult result = checkStream(stream))
    return result;
  return submit(stream, HostWork{function, userData});
}

} // extern "C"
