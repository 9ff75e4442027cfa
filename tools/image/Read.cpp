#include "runtime/base/files/File.h"
#include "tools/image/Image.h"

#include <string_view>

namespace cria {

static constexpr uint64_t kMostBytes = 256u << 20;

Status ImageFile::allocate(uint64_t height, uint64_t width) {
  std::string size = std::to_string(width) + " x " + std::to_string(height);
  if (height == 0 || width == 0)
    return fail("expected pixels, got " + size);
  if (width > kMostInRow || height > kMostInRow ||
      height * width > static_cast<uint64_t>(most))
    return fail("expected at most " + std::to_string(most) + " pixels and " +
                std::to_string(kMostInRow) + " in a row or column, got " +
                size);
  image = Image(static_cast<int64_t>(height), static_cast<int64_t>(width));
  return Status();
}

/// The number of `size` bytes at `at`, or 0 beyond the end.
static uint64_t numberAt(std::string_view exif, uint64_t at, int size) {
  if (at + size > exif.size())
    return 0;
  bool little = exif[0] == 'I';
  uint64_t number = 0;
  for (int i = 0; i < size; ++i)
    number = number << 8 |
             static_cast<uint8_t>(exif[at + (little ? size - 1 - i : i)]);
  return number;
}

/// The tag 0x0112 of the first directory; 1, as it is, without one.
static int orientationOf(std::string_view exif) {
  constexpr uint64_t kTag = 0x112, kShort = 3, kEntry = 12;
  if (exif.substr(0, 2) != "II" && exif.substr(0, 2) != "MM")
    return 1;
  uint64_t directory = numberAt(exif, 4, 4),
           entries = numberAt(exif, directory, 2);
  for (uint64_t i = 0; i < entries; ++i) {
    uint64_t entry = directory + 2 + i * kEntry;
    if (numberAt(exif, entry, 2) == kTag &&
        numberAt(exif, entry + 2, 2) == kShort) {
      uint64_t value = numberAt(exif, entry + 8, 2);
      return value >= 1 && value <= 8 ? static_cast<int>(value) : 1;
    }
  }
  return 1;
}

Result<Image> readImage(const std::string &path) {
  Result<std::string> bytes = readFile(path, kMostBytes);
  return bytes.ok() ? readImage(path, *bytes, kMostPixels) : bytes.status();
}

Result<Image> readImage(const std::string &name, const std::string &bytes,
                        int64_t most) {
  ImageFile file{name, bytes, most, {}, {}};
  Status status;
  if (bytes.rfind("\x89PNG\r\n\x1a\n", 0) == 0)
    status = readPng(file);
  else if (bytes.rfind("\xff\xd8\xff", 0) == 0)
    status = readJpeg(file);
  else
    status = file.fail("expected a PNG or JPEG file", CRIA_UNIMPLEMENTED);
  if (!status.ok())
    return status;
  return turned(std::move(file.image), orientationOf(file.exif));
}

} // namespace cria
