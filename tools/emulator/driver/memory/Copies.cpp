// Copies and fills. Host and device share one space of addresses; the driver
// checks whether an address belongs to the device.
#include "tools/emulator/driver/memory/Copies.h"

using namespace cria::emulator;

namespace cria::emulator {

bool onDevice(Driver &driver, uint64_t address, size_t bytes) {
  if (bytes == 0 || driver.memory->find(address, bytes))
    return true;
  driver.reportMisuse(std::to_string(bytes) + " bytes at " + hexOf(address) +
                          " are in no allocation",
                      "  the address is " + driver.memory->describe(address) +
                          "\n");
  return false;
}

bool isAnywhere(Driver &driver, uint64_t address, size_t bytes) {
  return !driver.memory->isReserved(address) ||
         onDevice(driver, address, bytes);
}

CUresult forbidSynchronous() {
  Driver &driver = Driver::get();
  if (driver.captures.empty() || driver.nullIsPerThread)
    return CUDA_SUCCESS;
  for (auto &capture : driver.captures)
    capture->invalidated = true;
  return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
}

CUresult copyNow(const CopyWork &work) {
  if (CUresult result = forbidSynchronous())
    return result;
  return execute(work);
}

CUresult copyLater(const CopyWork &work, CUstream stream) {
  if (CUresult result = checkStream(stream))
    return result;
  return submit(stream, work);
}

CUresult checkFill(Driver &driver, const FillWork &work) {
  uint64_t bytes = work.count * work.width;
  bool fits = work.count <= UINT64_MAX / work.width &&
              (work.rows <= 1 || work.pitch >= bytes);
  if (!fits || work.to % work.width ||
      (work.rows > 1 && work.pitch % work.width))
    return CUDA_ERROR_INVALID_VALUE;
  for (uint64_t row = 0; row < work.rows; ++row)
    if (!onDevice(driver, work.to + row * work.pitch, bytes))
      return CUDA_ERROR_INVALID_VALUE;
  return CUDA_SUCCESS;
}

CUresult fillNow(Driver &driver, const FillWork &work) {
  if (CUresult result = checkFill(driver, work))
    return result;
  if (CUresult result = forbidSynchronous())
    return result;
  return execute(work);
}

CUresult fillLater(Driver &driver, const FillWork &work, CUstream stream) {
  if (CUresult result = checkFill(driver, work))
    return result;
  if (CUresult result = checkStream(stream))
    return result;
  return submit(stream, work);
}

} // namespace cria::emulator

extern "C" {

CUresult cuMemcpy(CUdeviceptr to, CUdeviceptr from, size_t bytes) {
  ENTER(Context);
  if (!isAnywhere(driver, to, bytes) || !isAnywhere(driver, from, bytes))
    return CUDA_ERROR_INVALID_VALUE;
  return copyNow({to, from, bytes});
}

CUresult cuMemcpyAsync(CUdeviceptr to, CUdeviceptr from, size_t bytes,
                       CUstream stream) {
  ENTER(Context);
  if (!isAnywhere(driver, to, bytes) || !isAnywhere(driver, from, bytes))
    return CUDA_ERROR_INVALID_VALUE;
  return copyLater({to, from, bytes}, stream);
}

CUresult cuMemcpyHtoD_v2(CUdeviceptr to, const void *from, size_t bytes) {
  ENTER(Context);
  if (!onDevice(driver, to, bytes))
    return CUDA_ERROR_INVALID_VALUE;
  return copyNow({to, uint64_t(from), bytes});
}

CUresult cuMemcpyDtoH_v2(void *to, CUdeviceptr from, size_t bytes) {
  ENTER(Context);
  if (!onDevice(driver, from, bytes))
    return CUDA_ERROR_INVALID_VALUE;
  return copyNow({uint64_t(to), from, bytes});
}

CUresult cuMemcpyDtoD_v2(CUdeviceptr to, CUdeviceptr from, size_t bytes) {
  ENTER(Context);
  if (!onDevice(driver, to, bytes) || !onDevice(driver, from, bytes))
    return CUDA_ERROR_INVALID_VALUE;
  return copyNow({to, from, bytes});
}

CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr to, const void *from, size_t bytes,
                              CUstream stream) {
  ENTER(Context);
  if (!onDevice(driver, to, bytes))
    return CUDA_ERROR_INVALID_VALUE;
  return copyLater({to, uint64_t(from), bytes}, stream);
}

CUresult cuMemcpyDtoHAsync_v2(void *to, CUdeviceptr from, size_t bytes,
                              CUstream stream) {
  ENTER(Context);
  if (!onDevice(driver, from, bytes))
    return CUDA_ERROR_INVALID_VALUE;
  return copyLater({uint64_t(to), from, bytes}, stream);
}

CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr to, CUdeviceptr from, size_t bytes,
                              CUstream stream) {
  ENTER(Context);
  if (!onDevice(driver, to, bytes) || !onDevice(driver, from, bytes))
    return CUDA_ERROR_INVALID_VALUE;
  return copyLater({to, from, bytes}, stream);
}

CUresult cuMemsetD8_v2(CUdeviceptr to, unsigned char value, size_t count) {
  ENTER(Context);
  return fillNow(driver, {to, count, value, 1});
}

CUresult cuMemsetD16_v2(CUdeviceptr to, unsigned short value, size_t count) {
  ENTER(Context);
  return fillNow(driver, {to, count, value, 2});
}

CUresult cuMemsetD32_v2(CUdeviceptr to, unsigned value, size_t count) {
  ENTER(Context);
  return fillNow(driver, {to, count, value, 4});
}

CUresult cuMemsetD8Async(CUdeviceptr to, unsigned char value, size_t count,
                         CUstream stream) {
  ENTER(Context);
  return fillLater(driver, {to, count, value, 1}, stream);
}

CUresult cuMemsetD16Async(CUdeviceptr to, unsigned short value, size_t count,
                          CUstream stream) {
  ENTER(Context);
  return fillLater(driver, {to, count, value, 2}, stream);
}

CUresult cuMemsetD32Async(CUdeviceptr to, unsigned value, size_t count,
                          CUstream stream) {
  ENTER(Context);
  return fillLater(driver, {to, count, value, 4}, stream);
}

} // extern "C"
