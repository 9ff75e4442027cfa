/// The images that a module is loaded from: PTX text, a fat binary of nvcc, or
/// what cuLinkComplete returned.
#pragma once

#include "tools/emulator/driver/Api.h"

#include <string>
#include <variant>
#include <vector>

namespace cria::emulator {

/// Why an image has no PTX that can be run.
struct ImageError {
  CUresult result;
  std::string message;
};

/// PTX texts that are linked to one module. One text, unless the image is
/// linked.
using PtxTexts = std::vector<std::string>;

/// The PTX of `image` for a device of `capability` (80 for 8.0): of a fat
/// binary the newest that runs on the device. Machine code is refused.
std::variant<PtxTexts, ImageError> ptxOfImage(const void *image,
                                              unsigned capability);

/// An image of texts that are to be linked; ptxOfImage returns them again.
std::string linkedImage(const PtxTexts &texts);

/// The bytes that an LZ4 block stands for, at most `most`; none if the block is
/// broken.
std::variant<std::string, ImageError> unpackLz4(const char *data, size_t bytes,
                                                size_t most);

} // namespace cria::emulator
