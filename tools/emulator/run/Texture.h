/// Texture and surface objects: images in device memory that kernels read by
/// coordinates.
///
/// A read at x gives texel floor(x), or with linear filtering the mean of the
/// texels around x - 0.5, whose weights have 8 bits (CUDA programming guide,
/// "Texture Fetching"). Reads of textures, and accesses to surfaces, do not
/// take part in the search for races.
#pragma once

#include <cstdint>
#include <map>

namespace cria::emulator {

/// Texels in device memory, row after row.
struct Image {
  enum Kind : uint8_t { Unsigned, Signed, Float };

  uint64_t address = 0;
  /// In texels; height and depth are 0 if the image has fewer dimensions. The
  /// depth counts slices or layers, and each face of a cube is a layer.
  uint32_t width = 0, height = 0, depth = 0;
  uint64_t pitch = 0; ///< bytes of a row
  Kind kind = Unsigned;
  uint8_t bits = 0, channels = 0;
  bool isLayered = false, isCube = false;

  uint32_t texelBytes() const { return bits / 8u * channels; }
  uint64_t sliceBytes() const { return pitch * (height ? height : 1); }
  uint64_t bytes() const { return sliceBytes() * (depth ? depth : 1); }
};

/// An image, and how its texels are found and read.
struct Texture {
  enum Mode : uint8_t { Wrap, Clamp, Mirror, Border };

  Image image;
  Mode modes[3] = {Clamp, Clamp, Clamp};
  bool isSurface = false;
  bool isLinear = false;     ///< the mean of neighbours
  bool isNormalized = false; ///< coordinates are from 0 to 1
  bool asInteger = false;    ///< integers stay; else they are from 0 or -1 to 1
  float border[4] = {};
};

/// The objects that exist, by the numbers that kernels get.
class Textures {
public:
  uint64_t add(const Texture &texture) {
    objects[++last] = texture;
    return last;
  }
  bool erase(uint64_t object) { return objects.erase(object) != 0; }
  const Texture *find(uint64_t object) const {
    auto found = objects.find(object);
    return found == objects.end() ? nullptr : &found->second;
  }

private:
  std::map<uint64_t, Texture> objects;
  uint64_t last = 0;
};

/// The part of an instruction that says how many coordinates it has and what
/// they mean; and for surfaces, what happens outside.
struct TextureAccess {
  enum Outside : uint8_t { Trap, ClampTo, Zero };

  uint32_t dimensions = 1; ///< without the layer
  bool isLayered = false, isCube = false;
  bool isFloat = false; ///< coordinates are floats
  Outside outside = Trap;
  uint32_t bytes = 0; ///< of a surface access

  uint32_t packed() const {
    return dimensions | uint32_t(isLayered) << 2 | uint32_t(isCube) << 3 |
           uint32_t(isFloat) << 4 | uint32_t(outside) << 5 | bytes << 8;
  }
  static TextureAccess unpacked(uint32_t packed) {
    return {packed & 3,        bool(packed & 4),         bool(packed & 8),
            bool(packed & 16), Outside(packed >> 5 & 3), packed >> 8};
  }
};

struct Thread;

} // namespace cria::emulator

extern "C" {
/// tex: reads a texel at coordinates (the layer first), 4 words.
void emulatorTexture(cria::emulator::Thread *thread, uint32_t access,
                     uint64_t object, const uint32_t *coordinates,
                     uint32_t *texel, int line);
/// suld and sust: bytes of a surface.
void emulatorSurface(cria::emulator::Thread *thread, uint32_t access,
                     uint64_t object, const uint32_t *coordinates, char *bytes,
                     uint32_t stores, int line);
}
