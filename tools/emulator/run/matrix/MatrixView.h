/// A matrix in shared memory, as described by a matrix descriptor of wgmma.
///
/// The unit is 16 bytes: 8 elements of 16 bits that follow each other along K
/// ("K-major") or along M or N ("MN-major"). With S units (a swizzle of 16 S
/// bytes; S = 1: no swizzle), the PTX manual's canonical layouts are:
///
///   K-major   unit j along K of row r: r % 8 * 16 S + r / 8 * stride
///             + j * (S == 1 ? leading : 16)
///   MN-major  unit c along MN of column k, S > 1:
///             c % S * 16 + c / S * leading + k % 8 * 16 S + k / 8 * stride
///             S == 1: c * stride + k % 8 * 16 + k / 8 * leading
///
/// The swizzle then exchanges bits 4 to 6 of the whole address.
#pragma once

#include "tools/emulator/run/async/TensorMap.h"

namespace cria::emulator {

struct MatrixView {
  uint32_t start, leading, stride; ///< bytes
  uint32_t baseOffset;
  uint32_t swizzleBytes; ///< 0: none

  static constexpr MatrixView of(uint64_t descriptor) {
    constexpr uint32_t kSwizzles[] = {0, 128, 64, 32};
    auto field = [=](unsigned at) {
      return uint32_t(descriptor >> at & 0x3fff) << 4;
    };
    return {field(0), field(16), field(32), uint32_t(descriptor >> 49 & 7),
            kSwizzles[descriptor >> 62]};
  }
  /// Whether the swizzle's pattern begins where it must without a base offset:
  /// at rows of a multiple of 8.
  constexpr bool isAligned() const {
    return !swizzleBytes || start % (8 * swizzleBytes) < swizzleBytes;
  }
  /// The shared address of 8 elements: `unit` along the contiguous dimension,
  /// `index` along the other.
  constexpr uint32_t unitAt(bool isMnMajor, uint32_t unit,
                            uint32_t index) const {
    uint32_t units = swizzleBytes ? swizzleBytes / 16 : 1;
    uint32_t at = start + index % 8 * 16 * units;
    if (units > 1 && isMnMajor)
      at += unit % units * 16 + unit / units * leading + index / 8 * stride;
    else if (isMnMajor)
      at += unit * stride + index / 8 * leading;
    else
      at += index / 8 * stride + unit * (units > 1 ? 16 : leading);
    return uint32_t(swizzled(at, swizzleBytes));
  }
};

} // namespace cria::emulator
