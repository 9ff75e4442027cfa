#include "tools/emulator/driver/Limits.h"

namespace cria::emulator {

const DeviceLimits &limitsOf(unsigned capability) {
  static constexpr DeviceLimits kA100 = {
      108, 163 << 10, 164 << 10, 2048, 32, 40 << 20, 1410000, 1215000, 5120};
  static constexpr DeviceLimits kH100 = {
      132, 227 << 10, 228 << 10, 2048, 32, 50 << 20, 1980000, 2619000, 5120};
  static constexpr DeviceLimits kB200 = {
      148, 227 << 10, 228 << 10, 2048, 32, 126 << 20, 1965000, 3996000, 8192};
  static constexpr DeviceLimits kRtx5090 = {
      170, 99 << 10, 100 << 10, 1536, 24, 96 << 20, 2407000, 14001000, 512};
  return capability >= 120   ? kRtx5090
         : capability >= 100 ? kB200
         : capability >= 90  ? kH100
                             : kA100;
}

namespace {

struct Attribute {
  int id;
  unsigned value;
};

/// CU_DEVICE_ATTRIBUTE_MAX_PERSISTING_L2_CACHE_SIZE and ..._TENSOR_MAP_ACCESS_
/// SUPPORTED, which the runtime does not name.
constexpr int kMaxPersistingL2 = 108, kTensorMapAccess = 127;

/// The attributes that all devices share.
constexpr Attribute kCommon[] = {
    {CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK, kMaxThreads},
    {CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X, kMaxBlockDim[0]},
    {CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y, kMaxBlockDim[1]},
    {CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z, kMaxBlockDim[2]},
    {CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X, kMaxGridDim[0]},
    {CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y, kMaxGridDim[1]},
    {CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z, kMaxGridDim[2]},
    {CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK, kSharedAlways},
    {CU_DEVICE_ATTRIBUTE_TOTAL_CONSTANT_MEMORY, 65536},
    {CU_DEVICE_ATTRIBUTE_WARP_SIZE, 32},
    {CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK, 65536},
    {CU_DEVICE_ATTRIBUTE_INTEGRATED, 0},
    {CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY, 1},
    {CU_DEVICE_ATTRIBUTE_COMPUTE_MODE, 0},
    {CU_DEVICE_ATTRIBUTE_CONCURRENT_KERNELS, 1},
    {CU_DEVICE_ATTRIBUTE_ECC_ENABLED, 0},
    {CU_DEVICE_ATTRIBUTE_PCI_BUS_ID, 0},
    {CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID, 0},
    {CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT, 3},
    {CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING, 1},
    {CU_DEVICE_ATTRIBUTE_STREAM_PRIORITIES_SUPPORTED, 1},
    {CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR, 65536},
    {CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY, 1},
    {CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH, 1},
    {CU_DEVICE_ATTRIBUTE_RESERVED_SHARED_MEMORY_PER_BLOCK, kSharedReserved},
    {CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED, 1},
#define ATTRIBUTE(name, id, value) {id, value},
#include "tools/emulator/driver/Attributes.def"
};

} // namespace

std::optional<int> attributeOf(CUdevice_attribute attribute,
                               unsigned capability) {
  for (const Attribute &common : kCommon)
    if (common.id == attribute)
      return int(common.value);
  const DeviceLimits &limits = limitsOf(capability);
  const Attribute own[] = {
      {CU_DEVICE_ATTRIBUTE_CLOCK_RATE, limits.clockKhz},
      {CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, limits.smCount},
      {CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE, limits.memoryClockKhz},
      {CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH, limits.busBits},
      {CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE, limits.l2Bytes},
      {kMaxPersistingL2, limits.l2Bytes * 3 / 4},
      {CU_DEVICE_ATTRIBUTE_CLUSTER_LAUNCH, capability >= 90},
      {kTensorMapAccess, capability >= 90},
      {CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, capability / 10},
      {CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, capability % 10},
      {CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR, limits.threadsPerSm},
      {CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR, limits.blocksPerSm},
      {CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR,
       limits.sharedPerSm},
      {CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN,
       limits.sharedPerBlock},
  };
  for (const Attribute &one : own)
    if (one.id == attribute)
      return int(one.value);
  return std::nullopt;
}

} // namespace cria::emulator
