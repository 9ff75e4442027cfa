// Devices, their contexts, and errors.
#include "tools/emulator/cudart/Runtime.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <mutex>

namespace cria::cudart {
namespace {

thread_local Error lastError = 0;

struct Named {
  Error error;
  const char *name, *text;
};

/// The errors whose names or texts differ from the driver's, and the usual
/// ones. `text` null: the driver's.
constexpr Named kErrors[] = {
    {0, "cudaSuccess", nullptr},
    {1, "cudaErrorInvalidValue", nullptr},
    {2, "cudaErrorMemoryAllocation", nullptr},
    {3, "cudaErrorInitializationError", nullptr},
    {9, "cudaErrorInvalidConfiguration", "invalid configuration argument"},
    {12, "cudaErrorInvalidPitchValue", "invalid pitch argument"},
    {13, "cudaErrorInvalidSymbol", "invalid device symbol"},
    {21, "cudaErrorInvalidMemcpyDirection",
     "invalid copy direction for memcpy"},
    {35, "cudaErrorInsufficientDriver",
     "CUDA driver version is insufficient for CUDA runtime version"},
    {98, "cudaErrorInvalidDeviceFunction", "invalid device function"},
    {100, "cudaErrorNoDevice", nullptr},
    {101, "cudaErrorInvalidDevice", nullptr},
    {200, "cudaErrorInvalidKernelImage", nullptr},
    {201, "cudaErrorDeviceUninitialized", nullptr},
    {209, "cudaErrorNoKernelImageForDevice", nullptr},
    {218, "cudaErrorInvalidPtx", nullptr},
    {222, "cudaErrorUnsupportedPtxVersion", nullptr},
    {400, "cudaErrorInvalidResourceHandle", nullptr},
    {401, "cudaErrorIllegalState", nullptr},
    {500, "cudaErrorSymbolNotFound", nullptr},
    {600, "cudaErrorNotReady", nullptr},
    {700, "cudaErrorIllegalAddress", nullptr},
    {702, "cudaErrorLaunchTimeout", nullptr},
    {704, "cudaErrorPeerAccessAlreadyEnabled",
     "peer access is already enabled"},
    {705, "cudaErrorPeerAccessNotEnabled", "peer access has not been enabled"},
    {709, "cudaErrorContextIsDestroyed", nullptr},
    {710, "cudaErrorAssert", nullptr},
    {715, "cudaErrorIllegalInstruction", nullptr},
    {716, "cudaErrorMisalignedAddress", nullptr},
    {719, "cudaErrorLaunchFailure", nullptr},
    {720, "cudaErrorCooperativeLaunchTooLarge", nullptr},
    {801, "cudaErrorNotSupported", nullptr},
    {900, "cudaErrorStreamCaptureUnsupported", nullptr},
    {901, "cudaErrorStreamCaptureInvalidated", nullptr},
    {910, "cudaErrorGraphExecUpdateFailure",
     "the graph update was not performed because it included changes which "
     "violated constraints specific to instantiated graph update"},
    {999, "cudaErrorUnknown", nullptr},
};

const Named *named(Error error) {
  for (const Named &known : kErrors)
    if (known.error == error)
      return &known;
  return nullptr;
}

/// Retains the primary context of `device`, once.
Error contextOf(int device, CUcontext *context) {
  constexpr int kMostDevices = 8;
  static std::mutex mutex;
  static CUcontext contexts[kMostDevices];
  std::lock_guard<std::mutex> lock(mutex);
  if (Error error = cuInit(0))
    return error;
  if (device < 0 || device >= kMostDevices)
    return CUDA_ERROR_INVALID_DEVICE;
  if (!contexts[device])
    if (Error error = cuDevicePrimaryCtxRetain(&contexts[device], device))
      return error;
  *context = contexts[device];
  return 0;
}

/// The last error of the thread, or else the error that a kernel left in the
/// current context, which keeps it.
Error lastErrorOrContexts() {
  unsigned flags;
  Error kept = cuCtxGetFlags(&flags);
  bool isOfKernel =
      kept >= CUDA_ERROR_ILLEGAL_ADDRESS && kept < CUDA_ERROR_NOT_PERMITTED;
  return lastError ? lastError : isOfKernel ? kept : 0;
}

} // namespace

int &deviceOfThread() {
  static thread_local int device = 0;
  return device;
}

Error enter() {
  CUcontext context = nullptr;
  if (cuCtxGetCurrent(&context) == CUDA_SUCCESS && context)
    return 0;
  if (Error error = contextOf(deviceOfThread(), &context))
    return error;
  return cuCtxSetCurrent(context);
}

Error remember(Error error) {
  if (error && error != CUDA_ERROR_NOT_READY)
    lastError = error;
  return error;
}

} // namespace cria::cudart

using namespace cria::cudart;

namespace {

/// cudaDeviceProp of CUDA 13.
struct Properties {
  char name[256];
  CUuuid uuid;
  char luid[8];
  unsigned luidDeviceNodeMask;
  size_t totalGlobalMem, sharedMemPerBlock;
  int regsPerBlock, warpSize;
  size_t memPitch;
  int maxThreadsPerBlock, maxThreadsDim[3], maxGridSize[3];
  size_t totalConstMem;
  int major, minor;
  size_t textureAlignment, texturePitchAlignment;
  int multiProcessorCount, integrated, canMapHostMemory;
  int maxTexture1D, maxTexture1DMipmap, maxTexture2D[2], maxTexture2DMipmap[2];
  int maxTexture2DLinear[3], maxTexture2DGather[2], maxTexture3D[3];
  int maxTexture3DAlt[3], maxTextureCubemap, maxTexture1DLayered[2];
  int maxTexture2DLayered[3], maxTextureCubemapLayered[2];
  int maxSurface1D, maxSurface2D[2], maxSurface3D[3], maxSurface1DLayered[2];
  int maxSurface2DLayered[3], maxSurfaceCubemap, maxSurfaceCubemapLayered[2];
  size_t surfaceAlignment;
  int concurrentKernels, ECCEnabled, pciBusID, pciDeviceID, pciDomainID;
  int tccDriver, asyncEngineCount, unifiedAddressing, memoryBusWidth;
  int l2CacheSize, persistingL2CacheMaxSize, maxThreadsPerMultiProcessor;
  int streamPrioritiesSupported, globalL1CacheSupported, localL1CacheSupported;
  size_t sharedMemPerMultiprocessor;
  int regsPerMultiprocessor, managedMemory, isMultiGpuBoard;
  int multiGpuBoardGroupID, hostNativeAtomicSupported, pageableMemoryAccess;
  int concurrentManagedAccess, computePreemptionSupported;
  int canUseHostPointerForRegisteredMem, cooperativeLaunch;
  size_t sharedMemPerBlockOptin;
  int pageableMemoryAccessUsesHostPageTables, directManagedMemAccessFromHost;
  int maxBlocksPerMultiProcessor, accessPolicyMaxWindowSize;
  size_t reservedSharedMemPerBlock;
  int hostRegisterSupported, sparseCudaArraySupported;
  int hostRegisterReadOnlySupported, timelineSemaphoreInteropSupported;
  int memoryPoolsSupported, gpuDirectRDMASupported;
  unsigned gpuDirectRDMAFlushWritesOptions;
  int gpuDirectRDMAWritesOrdering;
  unsigned memoryPoolSupportedHandleTypes;
  int deferredMappingCudaArraySupported, ipcEventSupported, clusterLaunch;
  int unifiedFunctionPointers, deviceNumaConfig, deviceNumaId, mpsEnabled;
  int hostNumaId;
  unsigned gpuPciDeviceID, gpuPciSubsystemID;
  int hostNumaMultinodeIpcSupported, reserved[56];
};

} // namespace

API(cudaPeekAtLastError)() { return lastErrorOrContexts(); }

API(cudaGetLastError)() {
  Error error = lastErrorOrContexts();
  lastError = 0;
  return error;
}

extern "C" __attribute__((visibility("default"))) const char *
cudaGetErrorName(Error error) {
  const Named *known = named(error);
  const char *name = nullptr;
  if (known)
    return known->name;
  return cuGetErrorName(CUresult(error), &name) ? "unrecognized error code"
                                                : name;
}

extern "C" __attribute__((visibility("default"))) const char *
cudaGetErrorString(Error error) {
  const Named *known = named(error);
  const char *text = nullptr;
  if (known && known->text)
    return known->text;
  return cuGetErrorString(CUresult(error), &text) ? "unrecognized error code"
                                                  : text;
}

API(cudaDriverGetVersion)(int *version) { RETURN(cuDriverGetVersion(version)); }

API(cudaRuntimeGetVersion)(int *version) {
  if (!version)
    RETURN(CUDA_ERROR_INVALID_VALUE);
  *version = 13000;
  return 0;
}

API(cudaGetDeviceCount)(int *count) {
  TRY(cuInit(0));
  RETURN(cuDeviceGetCount(count));
}

API(cudaGetDevice)(int *device) {
  ENTER();
  RETURN(cuCtxGetDevice(device));
}

API(cudaSetDevice)(int device) {
  CUcontext context;
  TRY(contextOf(device, &context));
  deviceOfThread() = device;
  RETURN(cuCtxSetCurrent(context));
}

API(cudaInitDevice)(int device, unsigned, unsigned) {
  CUcontext context;
  RETURN(contextOf(device, &context));
}

API(cudaSetDeviceFlags)(unsigned flags) {
  ENTER();
  RETURN(cuDevicePrimaryCtxSetFlags_v2(deviceOfThread(), flags));
}

API(cudaGetDeviceFlags)(unsigned *flags) {
  ENTER();
  RETURN(cuCtxGetFlags(flags));
}

API(cudaDeviceSynchronize)() {
  ENTER();
  RETURN(cuCtxSynchronize());
}

API(cudaDeviceReset)() {
  ENTER();
  RETURN(cuDevicePrimaryCtxReset_v2(deviceOfThread()));
}

API(cudaDeviceGetAttribute)(int *value, int attribute, int device) {
  TRY(cuInit(0));
  RETURN(cuDeviceGetAttribute(value, CUdevice_attribute(attribute), device));
}

API(cudaGetDeviceProperties)(Properties *all, int device) {
  TRY(cuInit(0));
  if (!all)
    RETURN(CUDA_ERROR_INVALID_VALUE);
  memset(static_cast<void *>(all), 0, sizeof *all);
  TRY(cuDeviceGetName(all->name, sizeof all->name, device));
  TRY(cuDeviceGetUuid_v2(&all->uuid, device));
  TRY(cuDeviceTotalMem_v2(&all->totalGlobalMem, device));
  Error failed = 0;
  auto ask = [&](int attribute, auto &to) {
    int value = 0;
    Error error =
        cuDeviceGetAttribute(&value, CUdevice_attribute(attribute), device);
    failed = failed ? failed : error;
    to = std::remove_reference_t<decltype(to)>(value);
  };
#define PROPERTY(field, attribute) ask(attribute, all->field);
#include "tools/emulator/cudart/Properties.def"
  RETURN(failed);
}

API(cudaChooseDevice)(int *device, const Properties *) {
  TRY(cuInit(0));
  if (!device)
    RETURN(CUDA_ERROR_INVALID_VALUE);
  *device = 0;
  return 0;
}

API(cudaDeviceGetLimit)(size_t *value, int limit) {
  ENTER();
  RETURN(cuCtxGetLimit(value, limit));
}

API(cudaDeviceSetLimit)(int limit, size_t value) {
  ENTER();
  RETURN(cuCtxSetLimit(limit, value));
}

API(cudaDeviceGetCacheConfig)(int *config) {
  ENTER();
  RETURN(cuCtxGetCacheConfig(config));
}

API(cudaDeviceSetCacheConfig)(int config) {
  ENTER();
  RETURN(cuCtxSetCacheConfig(config));
}

API(cudaDeviceGetStreamPriorityRange)(int *least, int *greatest) {
  ENTER();
  RETURN(cuCtxGetStreamPriorityRange(least, greatest));
}

API(cudaDeviceGetPCIBusId)(char *id, int length, int device) {
  TRY(cuInit(0));
  RETURN(cuDeviceGetPCIBusId(id, length, device));
}

API(cudaDeviceGetByPCIBusId)(int *device, const char *id) {
  TRY(cuInit(0));
  RETURN(cuDeviceGetByPCIBusId(device, id));
}

API(cudaDeviceCanAccessPeer)(int *can, int device, int peer) {
  TRY(cuInit(0));
  RETURN(cuDeviceCanAccessPeer(can, device, peer));
}

API(cudaDeviceGetP2PAttribute)(int *value, int attribute, int from, int to) {
  TRY(cuInit(0));
  RETURN(cuDeviceGetP2PAttribute(value, attribute, from, to));
}

API(cudaDeviceEnablePeerAccess)(int peer, unsigned flags) {
  ENTER();
  CUcontext context;
  TRY(contextOf(peer, &context));
  RETURN(cuCtxEnablePeerAccess(context, flags));
}

API(cudaDeviceDisablePeerAccess)(int peer) {
  ENTER();
  CUcontext context;
  TRY(contextOf(peer, &context));
  RETURN(cuCtxDisablePeerAccess(context));
}

API(cudaCtxResetPersistingL2Cache)() {
  ENTER();
  RETURN(cuCtxResetPersistingL2Cache());
}

API(cudaProfilerStart)() {
  ENTER();
  RETURN(cuProfilerStart());
}

API(cudaProfilerStop)() {
  ENTER();
  RETURN(cuProfilerStop());
}

API(cudaGetDriverEntryPointByVersion)
(const char *symbol, void **function, unsigned version,
 unsigned long long flags, CUdriverProcAddressQueryResult *status) {
  ENTER();
  RETURN(cuGetProcAddress_v2(symbol, function, int(version), flags, status));
}

API(cudaGetDriverEntryPoint)
(const char *symbol, void **function, unsigned long long flags,
 CUdriverProcAddressQueryResult *status) {
  return cudaGetDriverEntryPointByVersion(symbol, function, 13000, flags,
                                          status);
}
