#include "tools/emulator/run/Video.h"

#include <algorithm>

using namespace cria::emulator;

namespace {

uint64_t maskOf(unsigned bits) { return (uint64_t(1) << bits) - 1; }

int64_t valueOf(uint64_t bits, unsigned width, bool isSigned) {
  unsigned above = 64 - width;
  return isSigned ? int64_t(bits << above) >> above
                  : int64_t(bits & maskOf(width));
}

int64_t shifted(const VideoConfig &config, int64_t a, int64_t b) {
  int64_t amount = config.wraps ? b & 31 : std::min<int64_t>(b, 32);
  return config.op == VideoOp::ShiftLeft ? int64_t(uint64_t(a) << amount)
                                         : a >> amount;
}

int64_t computed(const VideoConfig &config, int64_t a, int64_t b) {
  switch (config.op) {
  case VideoOp::Add:
    return a + b;
  case VideoOp::Sub:
    return a - b;
  case VideoOp::Average:
    return (a + b + (a + b >= 0)) >> 1;
  case VideoOp::AbsoluteDifference:
    return a > b ? a - b : b - a;
  case VideoOp::Min:
    return std::min(a, b);
  case VideoOp::Max:
    return std::max(a, b);
  case VideoOp::ShiftLeft:
  case VideoOp::ShiftRight:
    return shifted(config, a, b);
  case VideoOp::Equal:
    return a == b;
  case VideoOp::NotEqual:
    return a != b;
  case VideoOp::Less:
    return a < b;
  case VideoOp::LessEqual:
    return a <= b;
  case VideoOp::Greater:
    return a > b;
  case VideoOp::GreaterEqual:
    break;
  }
  return a >= b;
}

int64_t saturated(int64_t value, unsigned width, bool isSigned) {
  auto most = int64_t(maskOf(isSigned ? width - 1 : width));
  return std::clamp(value, isSigned ? -most - 1 : 0, most);
}

uint32_t combined(const VideoConfig &config, int64_t value, uint32_t c) {
  int64_t other = valueOf(c, 32, config.signedD);
  value = valueOf(uint64_t(value), 32, config.signedD);
  switch (config.second) {
  case VideoSecond::Min:
    return uint32_t(std::min(value, other));
  case VideoSecond::Max:
    return uint32_t(std::max(value, other));
  default:
    return uint32_t(value + other);
  }
}

} // namespace

uint32_t emulatorVideo(Thread *, uint32_t packed, uint32_t selectA,
                       uint32_t selectB, uint32_t selectD, uint32_t mask,
                       uint32_t a, uint32_t b, uint32_t c) {
  auto config = VideoConfig::unpacked(packed);
  auto ofA = VideoSelector::unpacked(selectA),
       ofB = VideoSelector::unpacked(selectB),
       ofD = VideoSelector::unpacked(selectD);
  uint64_t both = a | uint64_t(b) << 32;
  uint32_t result = c;
  for (unsigned i = 0; i < config.parts; ++i) {
    if (!(mask >> i & 1))
      continue;
    auto part = [&](const VideoSelector &of, bool isSigned) {
      unsigned at = (of.places >> (4 * i) & 15) * of.bits;
      return valueOf(both >> at, of.bits, isSigned);
    };
    int64_t value =
        computed(config, part(ofA, config.signedA), part(ofB, config.signedB));
    if (config.saturates)
      value = saturated(value, ofD.bits, config.signedD);
    if (config.second != VideoSecond::Merge) {
      result = combined(config, value, result);
      continue;
    }
    unsigned at = (ofD.places >> (4 * i) & 15) * ofD.bits;
    auto bits = uint32_t(maskOf(ofD.bits) << at);
    result = (result & ~bits) | (uint32_t(uint64_t(value) << at) & bits);
  }
  return result;
}

uint32_t emulatorFindNth(Thread *, uint32_t mask, uint32_t base, int32_t n) {
  int64_t left = n > 0 ? n : -int64_t(n);
  int64_t step = n < 0 ? -1 : 1;
  for (int64_t at = base; at >= 0 && at < 32; at += step) {
    bool isSet = mask >> at & 1;
    if (n == 0)
      return isSet ? uint32_t(at) : ~0u;
    if (isSet && --left == 0)
      return uint32_t(at);
  }
  return ~0u;
}
