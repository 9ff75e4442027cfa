/// A PNG or JPEG file; an accepted image is complete, and can be resized.
#include "test/fuzz/Fuzz.h"
#include "tools/image/Image.h"

using namespace cria;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static const fuzz::Folder folder;
  auto image = readImage(folder.write("image", fuzz::textOf(data, size)));
  if (!image.ok())
    return 0;
  auto pixels = static_cast<size_t>(image->height * image->width);
  fuzz::require(pixels > 0 && image->pixels.size() == 3 * pixels,
                "three colors for each pixel");
  if (pixels < 1 << 18) {
    Image small = resized(*image, 7, 5, Filter::Bicubic, Rounding::Torchvision);
    fuzz::require(small.pixels.size() == 3 * 7 * 5, "resized");
  }
  return 0;
}
