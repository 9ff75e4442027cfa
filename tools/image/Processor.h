/// The pixels that a vision tower reads of an image, by a checkpoint's own
/// preprocessor_config.json.
#pragma once

#include "runtime/base/Json.h"
#include "tools/image/Image.h"

#include <array>
#include <optional>
#include <string>
#include <vector>

namespace cria {

/// What a processor does with an image for one tower, in this order. It does
/// what transformers' processors do on torchvision, and OpenVLA's on Pillow.
struct ImageSteps {
  struct Size {
    int64_t height = 0, width = 0;
  };
  std::optional<std::array<uint8_t, 3>> square; // the color around the image
  std::optional<int64_t> shortest;              // the shorter side to be, or
  std::optional<Size> size;                     // both sides
  Filter filter = Filter::Bicubic;
  Rounding rounding = Rounding::Torchvision;
  std::optional<Size> crop;
  /// The number for a byte of each color.
  std::array<std::array<float, 256>, 3> numbers = {};

  Result<Image> apply(const Image &image) const;
};

/// The steps for each tower of a checkpoint's folder: of `image_processor` in
/// processor_config.json, or else of preprocessor_config.json. Each key is
/// obeyed, known to change nothing, or refused by name.
Result<std::vector<ImageSteps>> readImageSteps(const std::string &folder);

/// The rows of an image's patches of `side` by `side` pixels, as towers read
/// them: from left to right and then from above to below; each row is a patch's
/// numbers by color, row and column. Pixels that fill no patch are left out.
std::vector<float> patchesOf(const Image &image, const ImageSteps &steps,
                             int64_t side);

} // namespace cria
