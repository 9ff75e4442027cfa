// Weights of 4-bit floats with exponents; see Packed.h.

#include "runtime/weights/packed/PackedElements.h"

#include <cmath>

namespace cria {

static constexpr uint64_t blockElements = 32, blockBytes = 16;
static constexpr int exponentOfOne = 127;

namespace {

/// x = value(q) * 2^(scale - 127), as in OCP's Microscaling formats. Exact in
/// bf16, unless x is too small for it.
class Mxfp4 : public PackedElements {
public:
  Mxfp4(const Checkpoint &checkpoint, const Checkpoint::Tensor &blocks,
        const Checkpoint::Tensor &scales)
      : PackedElements(checkpoint) {
    scheme.layout = PackedLayout::Mxfp4;
    tensors = {&blocks, &scales};
  }

  std::string use(const PackedScheme &given) override {
    scheme = given;
    return "";
  }

private:
  Status read(uint64_t first, uint64_t count, float *to) const override;
};

} // namespace

Status Mxfp4::read(uint64_t first, uint64_t count, float *to) const {
  static constexpr float values[] = {0, 0.5, 1, 1.5, 2, 3, 4, 6};
  uint64_t block = first / blockElements,
           blocks = (first + count - 1) / blockElements - block + 1;
  std::vector<std::byte> pairs(blocks * blockBytes), scales(blocks);
  auto load = [&](size_t tensor, uint64_t from, std::vector<std::byte> &into) {
    const Checkpoint::Tensor &place = *tensors[tensor];
    return fileOf(place).read(place.tensor->begin + from, into.data(),
                              into.size());
  };
  Status status = load(0, block * blockBytes, pairs);
  if (status.ok())
    status = load(1, block, scales);
  for (uint64_t i = 0; i < count && status.ok(); ++i) {
    uint64_t at = first % blockElements + i;
    auto code = static_cast<unsigned>(pairs[at / 2]) >> at % 2 * 4;
    float value = std::ldexp(values[code & 7],
                             static_cast<int>(scales[at / blockElements]) -
                                 exponentOfOne);
    to[i] = code & 8 ? -value : value;
  }
  return status;
}

std::unique_ptr<PackedElements> findMxfp4(const Checkpoint &checkpoint,
                                          const std::string &name,
                                          const Shape &shape,
                                          std::string &problem) {
  const Checkpoint::Tensor *blocks = checkpoint.find(name + "_blocks"),
                           *scales = checkpoint.find(name + "_scales");
  if (!blocks && !scales)
    return nullptr;
  Shape expected = {shape[0], shape[1], shape[2] / blockElements};
  auto fits = [&](const Checkpoint::Tensor *place) {
    return place && place->tensor->typeName == "U8" &&
           place->tensor->shape == expected;
  };
  std::string text = shapeText(expected);
  bool fit = shape[2] % blockElements == 0 && fits(scales);
  expected.push_back(blockBytes);
  if (fit && fits(blocks))
    return std::make_unique<Mxfp4>(checkpoint, *blocks, *scales);
  problem =
      concat({"expected ", quote(name + "_scales"), ", U8 of ", text, ", and ",
              quote(name + "_blocks"), ", U8 of ", shapeText(expected)});
  return nullptr;
}

} // namespace cria
