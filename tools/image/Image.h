/// Images: files as pixels, and the changes of size that processors make.
#pragma once

#include "runtime/base/Status.h"

#include <array>
#include <cstdint>
#include <string>
#include <vector>

namespace cria {

/// More pixels, in all or in a row or column, are refused before memory is
/// allocated for them. Pillow warns of as many; a JPEG has no more in a row.
constexpr int64_t kMostPixels = 89'478'485, kMostInRow = 65'535;

/// Pixels of 8 bits for red, green and blue.
struct Image {
  int64_t height = 0, width = 0;
  std::vector<uint8_t> pixels; // (height, width, 3)

  Image() = default;
  /// A black image.
  Image(int64_t height, int64_t width)
      : height(height), width(width),
        pixels(static_cast<size_t>(height * width * 3)) {}
  uint8_t *row(int64_t y) { return &pixels[y * width * 3]; }
  const uint8_t *at(int64_t y, int64_t x) const {
    return &pixels[(y * width + x) * 3];
  }
};

/// Reads a PNG or JPEG file of at most 256 MiB and `kMostPixels` as Pillow's
/// convert("RGB") reads it after exif_transpose: transparency is dropped, 16
/// bits of a color lose the lower 8, and the image is turned as its EXIF says.
/// Refused by name: CMYK, and grey of 16 bits.
Result<Image> readImage(const std::string &path);
/// Likewise of the bytes of a file, called `name` in errors, with at most
/// `most` pixels.
Result<Image> readImage(const std::string &name, const std::string &bytes,
                        int64_t most);

/// What a resized pixel is the weighted mean of: pixels at a distance of less
/// than 1 (bilinear) or 2 (bicubic) of the pixels of the smaller image.
enum class Filter { Bilinear, Bicubic };

/// The bits after the point to which weights of pixels are rounded:
/// torchvision takes as many as fit in 16 with the largest weight, Pillow 22.
enum class Rounding { Torchvision, Pillow };

/// `image` as torchvision, with antialias, or Pillow before version 13 resizes
/// it, to the last bit.
Image resized(const Image &image, int64_t height, int64_t width, Filter filter,
              Rounding rounding);

/// The middle of `image`, with black around it where it is smaller.
Image cropped(const Image &image, int64_t height, int64_t width);

/// `image` in the middle of a square, with `color` around it.
Image squared(const Image &image, std::array<uint8_t, 3> color);

/// `image` turned or mirrored as EXIF's `orientation`, 1 to 8, says.
Image turned(Image image, int orientation);

// ---- For readImage ---------------------------------------------------------

/// A file, and what its reader finds in it.
struct ImageFile {
  const std::string &path, &bytes;
  const int64_t most; // pixels
  Image image;
  std::string exif; // a TIFF header and what follows it; may be empty

  Status fail(std::string_view what,
              cria_status code = CRIA_INVALID_ARGUMENT) const {
    return Status(code, {path, ": ", what});
  }
  /// Makes room for the pixels, unless there are none, or too many.
  Status allocate(uint64_t height, uint64_t width);
};

Status readPng(ImageFile &file);
Status readJpeg(ImageFile &file);

} // namespace cria
