// How many blocks a multiprocessor holds: by threads, blocks and shared memory.
// Registers are not known, so a real device may hold fewer.
#include "tools/emulator/driver/Driver.h"
#include "tools/emulator/driver/Limits.h"

using namespace cria::emulator;

namespace {

constexpr uint64_t kSharedUnit = 128; ///< in which shared memory is given out

bool isBlockSize(int blockSize) {
  return blockSize >= 1 && unsigned(blockSize) <= kMaxThreads;
}

unsigned mostThreads(const CUfunc_st &function) {
  return unsigned(*attribute(Driver::get(), function,
                             CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK));
}

/// The block size with which most threads fit a multiprocessor. Of several the
/// largest.
CUresult potential(int *gridSize, int *blockSize, CUfunction function,
                   CUoccupancyB2DSize sharedOf, size_t dynamicShared,
                   int limit) {
  Driver &driver = Driver::get();
  if (CUresult result = driver.resolve(function))
    return result;
  if (!gridSize || !blockSize || limit < 0)
    return CUDA_ERROR_INVALID_VALUE;
  unsigned most = mostThreads(*function);
  if (limit)
    most = std::min(most, unsigned(limit));
  uint64_t best = 0, blocks = 0, threads = 0;
  for (unsigned size = most; size > 0; size = (size - 1) / 32 * 32) {
    uint64_t shared = sharedOf ? sharedOf(int(size)) : dynamicShared;
    uint64_t fit = blocksPerSm(*function, size, shared);
    if (fit * size <= best)
      continue;
    best = fit * size;
    blocks = fit;
    threads = size;
  }
  *blockSize = int(threads);
  *gridSize = int(blocks * limitsOf(driver.settings.capability).smCount);
  return CUDA_SUCCESS;
}

} // namespace

uint64_t cria::emulator::blocksPerSm(const CUfunc_st &function,
                                     uint64_t threads, uint64_t dynamicShared) {
  const DeviceLimits &limits = limitsOf(Driver::get().settings.capability);
  uint64_t own = function.kernel->sharedBytes + dynamicShared;
  if (threads > mostThreads(function) || own > limits.sharedPerBlock)
    return 0;
  uint64_t shared =
      (own + kSharedReserved + kSharedUnit - 1) / kSharedUnit * kSharedUnit;
  uint64_t warps = (threads + 31) / 32;
  return std::min<uint64_t>({limits.blocksPerSm,
                             limits.threadsPerSm / 32 / warps,
                             limits.sharedPerSm / shared});
}

extern "C" {

CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks,
                                                     CUfunction function,
                                                     int blockSize,
                                                     size_t dynamicShared) {
  ENTER(Context);
  if (CUresult result = driver.resolve(function))
    return result;
  if (!blocks || !isBlockSize(blockSize))
    return CUDA_ERROR_INVALID_VALUE;
  *blocks = int(blocksPerSm(*function, unsigned(blockSize), dynamicShared));
  return CUDA_SUCCESS;
}

CUresult cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(
    int *blocks, CUfunction function, int blockSize, size_t dynamicShared,
    unsigned flags) {
  return flags > 1 ? CUDA_ERROR_INVALID_VALUE
                   : cuOccupancyMaxActiveBlocksPerMultiprocessor(
                         blocks, function, blockSize, dynamicShared);
}

CUresult cuOccupancyMaxPotentialBlockSize(int *gridSize, int *blockSize,
                                          CUfunction function,
                                          CUoccupancyB2DSize sharedOf,
                                          size_t dynamicShared, int limit) {
  ENTER(Context);
  return potential(gridSize, blockSize, function, sharedOf, dynamicShared,
                   limit);
}

CUresult cuOccupancyMaxPotentialBlockSizeWithFlags(int *gridSize,
                                                   int *blockSize,
                                                   CUfunction function,
                                                   CUoccupancyB2DSize sharedOf,
                                                   size_t dynamicShared,
                                                   int limit, unsigned flags) {
  ENTER(Context);
  return flags > 1 ? CUDA_ERROR_INVALID_VALUE
                   : potential(gridSize, blockSize, function, sharedOf,
                               dynamicShared, limit);
}

CUresult cuOccupancyAvailableDynamicSMemPerBlock(size_t *bytes,
                                                 CUfunction function,
                                                 int blocks, int blockSize) {
  ENTER(Context);
  if (CUresult result = driver.resolve(function))
    return result;
  if (!bytes || blocks < 1 || !isBlockSize(blockSize) ||
      uint64_t(blocks) > blocksPerSm(*function, unsigned(blockSize), 0))
    return CUDA_ERROR_INVALID_VALUE;
  const DeviceLimits &limits = limitsOf(driver.settings.capability);
  uint64_t each =
      limits.sharedPerSm / unsigned(blocks) / kSharedUnit * kSharedUnit -
      kSharedReserved;
  *bytes = std::min<uint64_t>(each, limits.sharedPerBlock) -
           function->kernel->sharedBytes;
  return CUDA_SUCCESS;
}

CUresult cuOccupancyMaxPotentialClusterSize(int *size, CUfunction function,
                                            const CUlaunchConfig *config) {
  ENTER(Context);
  if (CUresult result = driver.resolve(function))
    return result;
  if (!size || !config)
    return CUDA_ERROR_INVALID_VALUE;
  if (driver.settings.capability < 90)
    return CUDA_ERROR_NOT_SUPPORTED;
  *size = int(kMaxCluster);
  return CUDA_SUCCESS;
}

CUresult cuOccupancyMaxActiveClusters(int *count, CUfunction function,
                                      const CUlaunchConfig *config) {
  ENTER(Context);
  if (CUresult result = driver.resolve(function))
    return result;
  if (!count || !config || (config->numAttrs && !config->attrs))
    return CUDA_ERROR_INVALID_VALUE;
  if (driver.settings.capability < 90)
    return CUDA_ERROR_NOT_SUPPORTED;
  uint64_t blocks = 1;
  for (unsigned i = 0; i < config->numAttrs; ++i)
    if (config->attrs[i].id == CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION) {
      const auto &cluster = config->attrs[i].value.clusterDim;
      blocks = uint64_t(cluster.x) * cluster.y * cluster.z;
    }
  uint64_t threads =
      uint64_t(config->blockDimX) * config->blockDimY * config->blockDimZ;
  if (!blocks || blocks > kMaxCluster || !threads)
    return CUDA_ERROR_INVALID_VALUE;
  *count = int(blocksPerSm(*function, threads, config->sharedMemBytes) *
               limitsOf(driver.settings.capability).smCount / blocks);
  return CUDA_SUCCESS;
}

} // extern "C"
