// Contexts.
#include "tools/emulator/driver/Driver.h"

using namespace cria::emulator;

namespace {

/// Removes a destroyed context from this thread. Other threads notice at their
/// next call.
void forget(CUcontext context) {
  auto &stack = contextStack();
  stack.erase(std::remove(stack.begin(), stack.end(), context), stack.end());
}

} // namespace

CUcontext Driver::primaryContext(CUdevice device) {
  Primary &primary = primaries[device];
  if (!primary.context) {
    primary.context = std::make_unique<CUctx_st>();
    primary.context->isPrimary = true;
    primary.context->device = device;
    primary.context->flags = primary.flags;
  }
  return primary.context.get();
}

extern "C" {

CUresult cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device) {
  ENTER(Initialized);
  if (!context)
    return CUDA_ERROR_INVALID_VALUE;
  if (!driver.isDevice(device))
    return CUDA_ERROR_INVALID_DEVICE;
  *context = driver.primaryContext(device);
  ++driver.primaries[device].uses;
  return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxRelease_v2(CUdevice device) {
  ENTER(Initialized);
  if (!driver.isDevice(device))
    return CUDA_ERROR_INVALID_DEVICE;
  Primary &primary = driver.primaries[device];
  if (primary.uses == 0) {
    driver.reportMisuse("the primary context is not retained");
    return CUDA_ERROR_INVALID_CONTEXT;
  }
  if (--primary.uses == 0)
    driver.clear(*primary.context);
  return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxReset_v2(CUdevice device) {
  ENTER(Initialized);
  if (!driver.isDevice(device))
    return CUDA_ERROR_INVALID_DEVICE;
  if (driver.primaries[device].context)
    driver.clear(*driver.primaries[device].context);
  return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxGetState(CUdevice device, unsigned *flags,
                                    int *active) {
  ENTER(Initialized);
  if (!driver.isDevice(device))
    return CUDA_ERROR_INVALID_DEVICE;
  if (!flags || !active)
    return CUDA_ERROR_INVALID_VALUE;
  *flags = driver.primaries[device].flags;
  *active = driver.primaries[device].uses != 0;
  return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxSetFlags_v2(CUdevice device, unsigned flags) {
  ENTER(Initialized);
  if (!driver.isDevice(device))
    return CUDA_ERROR_INVALID_DEVICE;
  driver.primaries[device].flags = flags;
  return CUDA_SUCCESS;
}

CUresult cuCtxCreate_v2(CUcontext *context, unsigned flags, CUdevice device) {
  ENTER(Initialized);
  if (!context)
    return CUDA_ERROR_INVALID_VALUE;
  if (!driver.isDevice(device))
    return CUDA_ERROR_INVALID_DEVICE;
  *context = driver.contexts.make();
  (*context)->device = device;
  (*context)->flags = flags;
  contextStack().push_back(*context);
  return CUDA_SUCCESS;
}

CUresult cuCtxCreate_v3(CUcontext *context, void *affinities, int count,
                        unsigned flags, CUdevice device) {
  return affinities || count ? CUDA_ERROR_NOT_SUPPORTED
                             : cuCtxCreate_v2(context, flags, device);
}

CUresult cuCtxCreate_v4(CUcontext *context, void *parameters, unsigned flags,
                        CUdevice device) {
  struct Parameters { // CUctxCreateParams
    const void *affinities;
    int count;
    const void *sharing;
  };
  auto *given = static_cast<const Parameters *>(parameters);
  bool isPlain = !given || (!given->count && !given->sharing);
  return isPlain ? cuCtxCreate_v2(context, flags, device)
                 : CUDA_ERROR_NOT_SUPPORTED;
}

CUresult cuCtxDestroy_v2(CUcontext context) {
  ENTER(Initialized);
  if (CUresult result =
          driver.check(driver.contexts, context, CUDA_ERROR_INVALID_CONTEXT))
    return result;
  driver.clear(*context);
  driver.contexts.erase(context);
  forget(context);
  return CUDA_SUCCESS;
}

CUresult cuCtxSetCurrent(CUcontext context) {
  ENTER(Initialized);
  if (context)
    if (CUresult result = driver.checkContext(context))
      return result;
  auto &stack = contextStack();
  if (!stack.empty())
    stack.pop_back();
  if (context)
    stack.push_back(context);
  return CUDA_SUCCESS;
}

CUresult cuCtxGetCurrent(CUcontext *context) {
  ENTER(Initialized);
  return give(context, currentContext());
}

CUresult cuCtxPushCurrent_v2(CUcontext context) {
  ENTER(Initialized);
  if (CUresult result = driver.checkContext(context))
    return result;
  contextStack().push_back(context);
  return CUDA_SUCCESS;
}

CUresult cuCtxPopCurrent_v2(CUcontext *context) {
  ENTER(Initialized);
  if (contextStack().empty())
    return CUDA_ERROR_INVALID_CONTEXT;
  if (context)
    *context = currentContext();
  contextStack().pop_back();
  return CUDA_SUCCESS;
}

CUresult cuCtxGetDevice(CUdevice *device) {
  ENTER(Context);
  return give(device, currentContext()->device);
}

CUresult cuCtxGetDevice_v2(CUdevice *device, CUcontext context) {
  ENTER(Initialized);
  if (CUresult result = driver.checkContext(context))
    return result;
  if (!device)
    return CUDA_ERROR_INVALID_VALUE;
  *device = context->device;
  return context->error;
}

CUresult cuCtxSynchronize() {
  ENTER(Context);
  return forbidCapture();
}

CUresult cuCtxSynchronize_v2(CUcontext context) {
  ENTER(Initialized);
  if (CUresult result = driver.checkContext(context))
    return result;
  return context->error ? context->error : forbidCapture();
}

} // extern "C"
