/// Arrays, textures and surfaces: what their functions share.
#pragma once

#include "tools/emulator/driver/Driver.h"

namespace cria::emulator {

/// Sets kind, bits and channels of the image; false if the format (of
/// CU_AD_FORMAT) or the number of channels is not emulated.
bool setFormat(Image &image, unsigned format, unsigned channels);

} // namespace cria::emulator
