#include "tools/emulator/run/Texture.h"

#include "tools/emulator/run/Block.h"
#include "tools/emulator/run/matrix/Narrow.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace cria::emulator {
namespace {

/// An image may lie in memory that was freed.
constexpr char kImage[] = "the image of a texture or surface";

/// The channels of a texel: floats, or integers of 32 bits.
struct Texel {
  uint32_t channels[4] = {};
};

uint32_t bitsOf(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  return bits;
}

float floatOf(uint32_t bits) {
  float value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

int64_t remainder(int64_t value, int64_t by) { return (value % by + by) % by; }

/// One instruction of one thread that reads a texture.
class Fetch {
public:
  Fetch(Thread &thread, const Texture &texture, TextureAccess access, int line)
      : thread(thread), texture(texture), image(texture.image), access(access),
        line(line) {}

  Texel run(const uint32_t *coordinates) {
    uint32_t layer = 0;
    if (access.isLayered)
      layer = *coordinates++;
    float at[3] = {};
    if (access.isCube) {
      uint32_t layers = std::max(image.depth / 6, 1u);
      layer = std::min(layer, layers - 1) * 6 + faceOf(coordinates, at);
    } else {
      layer = std::min(layer, std::max(image.depth, 1u) - 1);
      for (uint32_t i = 0; i < access.dimensions; ++i)
        at[i] = floatOf(coordinates[i]);
    }
    if (!access.isFloat)
      return texelAt(coordinates, layer);
    return texture.isLinear ? mean(at, layer) : nearest(at, layer);
  }

private:
  uint32_t sizeOf(uint32_t dimension) const {
    uint32_t size = dimension == 0   ? image.width
                    : dimension == 1 ? image.height
                                     : image.depth;
    return std::max(size, 1u);
  }

  /// The face of a cube that the direction meets, and the place on the face
  /// (from 0 to 1).
  static uint32_t faceOf(const uint32_t *coordinates, float *at) {
    float x = floatOf(coordinates[0]), y = floatOf(coordinates[1]),
          z = floatOf(coordinates[2]);
    float ax = std::fabs(x), ay = std::fabs(y), az = std::fabs(z);
    uint32_t face;
    float s, t, m;
    if (ax >= ay && ax >= az) {
      face = x < 0;
      m = ax, s = x < 0 ? z : -z, t = -y;
    } else if (ay >= az) {
      face = 2 + (y < 0);
      m = ay, s = x, t = y < 0 ? -z : z;
    } else {
      face = 4 + (z < 0);
      m = az, s = z < 0 ? -x : x, t = -y;
    }
    at[0] = (s / m + 1) / 2;
    at[1] = (t / m + 1) / 2;
    return face;
  }

  /// A coordinate in texels.
  float scaled(const float *at, uint32_t dimension) const {
    float value = at[dimension];
    if (texture.isNormalized || access.isCube)
      value *= float(sizeOf(dimension));
    // Beyond this, neighbouring floats are more than a texel apart.
    constexpr float kFar = 1 << 24;
    return std::isnan(value) ? 0 : std::min(std::max(value, -kFar), kFar);
  }

  /// The texel for an index that may lie outside; -1 for the border.
  int64_t placeOf(int64_t index, uint32_t dimension) const {
    int64_t size = sizeOf(dimension);
    if (index >= 0 && index < size)
      return index;
    Texture::Mode mode = texture.modes[dimension];
    bool repeats = mode == Texture::Wrap || mode == Texture::Mirror;
    if (mode == Texture::Border)
      return -1;
    if (!repeats || !texture.isNormalized || access.isCube)
      return index < 0 ? 0 : size - 1;
    if (mode == Texture::Wrap)
      return remainder(index, size);
    int64_t inPair = remainder(index, 2 * size);
    return inPair < size ? inPair : 2 * size - 1 - inPair;
  }

  /// Coordinates that are integers name texels; outside are zeros.
  Texel texelAt(const uint32_t *coordinates, uint32_t layer) {
    int64_t place[3] = {0, 0, layer};
    for (uint32_t i = 0; i < access.dimensions; ++i) {
      place[i] = int32_t(coordinates[i]);
      if (place[i] < 0 || place[i] >= sizeOf(i))
        return {};
    }
    return load(place);
  }

  Texel nearest(const float *at, uint32_t layer) {
    int64_t place[3] = {0, 0, layer};
    for (uint32_t i = 0; i < access.dimensions; ++i)
      place[i] = placeOf(int64_t(std::floor(scaled(at, i))), i);
    return load(place);
  }

  Texel mean(const float *at, uint32_t layer) {
    int64_t first[3] = {0, 0, layer};
    float weights[3] = {};
    for (uint32_t i = 0; i < access.dimensions; ++i) {
      float value = scaled(at, i) - 0.5f;
      first[i] = int64_t(std::floor(value));
      weights[i] = std::round((value - std::floor(value)) * 256) / 256;
    }
    float sums[4] = {};
    for (uint32_t corner = 0; corner < 1u << access.dimensions; ++corner) {
      int64_t place[3] = {0, 0, layer};
      float weight = 1;
      for (uint32_t i = 0; i < access.dimensions; ++i) {
        bool isNext = corner >> i & 1;
        place[i] = placeOf(first[i] + isNext, i);
        weight *= isNext ? weights[i] : 1 - weights[i];
      }
      if (weight == 0)
        continue;
      Texel texel = load(place);
      for (uint32_t i = 0; i < 4; ++i)
        sums[i] += weight * floatOf(texel.channels[i]);
    }
    Texel result;
    for (uint32_t i = 0; i < 4; ++i)
      result.channels[i] = bitsOf(sums[i]);
    return result;
  }

  Texel load(const int64_t *place) {
    Texel texel;
    if (place[0] < 0 || place[1] < 0 || place[2] < 0) {
      for (uint32_t i = 0; i < image.channels; ++i)
        texel.channels[i] = texture.asInteger && image.kind != Image::Float
                                ? uint32_t(int64_t(texture.border[i]))
                                : bitsOf(texture.border[i]);
      return texel;
    }
    uint64_t address = image.address + uint64_t(place[2]) * image.sliceBytes() +
                       uint64_t(place[1]) * image.pitch +
                       uint64_t(place[0]) * image.texelBytes();
    if (!thread.block->mayRead(thread, address, image.texelBytes(), line,
                               kImage))
      return texel;
    for (uint32_t i = 0; i < image.channels; ++i)
      texel.channels[i] = channel(address + i * (image.bits / 8u));
    return texel;
  }

  uint32_t channel(uint64_t address) const {
    uint32_t bits = 0;
    std::memcpy(&bits, reinterpret_cast<const void *>(address),
                image.bits / 8u);
    if (image.kind == Image::Float)
      return image.bits == 16 ? bitsOf(floatOfHalf(uint16_t(bits))) : bits;
    uint32_t unused = 32u - image.bits;
    if (image.kind == Image::Signed)
      bits = uint32_t(int32_t(bits << unused) >> unused);
    if (texture.asInteger)
      return bits;
    double most = double((uint64_t(1) << image.bits) - 1);
    if (image.kind == Image::Unsigned)
      return bitsOf(float(bits / most));
    return bitsOf(float(std::max(int32_t(bits) / std::floor(most / 2), -1.0)));
  }

  Thread &thread;
  const Texture &texture;
  const Image &image;
  TextureAccess access;
  int line;
};

const Texture &objectOf(Thread &thread, uint64_t object, bool isSurface,
                        int line) {
  const Textures *textures = thread.block->launch().textures;
  const Texture *found = textures ? textures->find(object) : nullptr;
  if (!found || found->isSurface != isSurface)
    thread.block->report(Finding::Misuse, thread, line,
                         std::to_string(object) + " is no " +
                             (isSurface ? "surface" : "texture") + " object");
  return *found;
}

/// The address that a surface access means; 0 outside, if that is allowed. The
/// first coordinate counts bytes.
uint64_t surfaceAddress(Thread &thread, const Image &image,
                        TextureAccess access, const uint32_t *coordinates,
                        int line) {
  int64_t place[3] = {};
  uint32_t layer = access.isLayered ? *coordinates++ : 0;
  for (uint32_t i = 0; i < access.dimensions; ++i)
    place[i] = int32_t(coordinates[i]);
  if (access.isLayered)
    place[2] = layer;
  int64_t most[] = {int64_t(image.width) * image.texelBytes() - access.bytes,
                    int64_t(std::max(image.height, 1u)) - 1,
                    int64_t(std::max(image.depth, 1u)) - 1};
  for (int i = 0; i < 3; ++i) {
    if (place[i] >= 0 && place[i] <= most[i])
      continue;
    if (access.outside == TextureAccess::Zero)
      return 0;
    if (access.outside == TextureAccess::Trap)
      thread.block->report(Finding::OutOfBounds, thread, line,
                           "out of bounds: coordinate " + std::to_string(i) +
                               " of a surface is " + std::to_string(place[i]) +
                               ", the last is " + std::to_string(most[i]));
    place[i] = place[i] < 0 ? 0 : std::max<int64_t>(most[i], 0);
  }
  uint64_t address = image.address + uint64_t(place[2]) * image.sliceBytes() +
                     uint64_t(place[1]) * image.pitch + uint64_t(place[0]);
  bool isMemory =
      thread.block->mayRead(thread, address, access.bytes, line, kImage);
  return isMemory ? address : 0;
}

} // namespace

extern "C" {

void emulatorTexture(Thread *thread, uint32_t access, uint64_t object,
                     const uint32_t *coordinates, uint32_t *texel, int line) {
  const Texture &texture = objectOf(*thread, object, false, line);
  Texel found = Fetch(*thread, texture, TextureAccess::unpacked(access), line)
                    .run(coordinates);
  std::memcpy(texel, found.channels, sizeof found.channels);
}

void emulatorSurface(Thread *thread, uint32_t packed, uint64_t object,
                     const uint32_t *coordinates, char *bytes, uint32_t stores,
                     int line) {
  auto access = TextureAccess::unpacked(packed);
  const Texture &surface = objectOf(*thread, object, true, line);
  auto *memory = reinterpret_cast<char *>(
      surfaceAddress(*thread, surface.image, access, coordinates, line));
  if (memory && stores)
    std::memcpy(memory, bytes, access.bytes);
  else if (memory)
    std::memcpy(bytes, memory, access.bytes);
  else if (!stores)
    std::memset(bytes, 0, access.bytes);
}

} // extern "C"

} // namespace cria::emulator
