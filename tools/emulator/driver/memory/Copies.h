/// Copies and fills: what their functions share.
#pragma once

#include "tools/emulator/driver/Driver.h"

namespace cria::emulator {

/// Whether the range is on the device; else reports where it lies.
bool onDevice(Driver &driver, uint64_t address, size_t bytes);

/// Runs the copy now, which is forbidden while another stream is captured.
CUresult copyNow(const CopyWork &work);
/// Runs the copy on `stream`.
CUresult copyLater(const CopyWork &work, CUstream stream);

/// Whether all rows are on the device.
CUresult checkFill(Driver &driver, const FillWork &work);
/// The same for fills, which are checked.
/// @{
CUresult fillNow(Driver &driver, const FillWork &work);
CUresult fillLater(Driver &driver, const FillWork &work, CUstream stream);
/// @}

/// The copy that `copy` describes, checked; the error if it cannot run.
CUresult copyOf(const CUDA_MEMCPY3D &copy, CopyWork &work);

} // namespace cria::emulator
