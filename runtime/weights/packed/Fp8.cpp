// Weights of 8-bit floats with scales; see Packed.h.

#include "runtime/base/Json.h"
#include "runtime/weights/Floats.h"
#include "runtime/weights/packed/PackedElements.h"

#include <algorithm>
#include <cmath>

namespace cria {

static constexpr uint64_t blockSize = 128;

namespace {

/// x = q * scale, as in DeepSeek-V3's weight_dequant and in vLLM.
class Fp8 : public PackedElements {
public:
  Fp8(const Checkpoint &checkpoint, const Checkpoint::Tensor &place,
      const Checkpoint::Tensor &scales)
      : PackedElements(checkpoint), shape(place.tensor->shape) {
    tensors = {&place, &scales};
  }

  [[gnu::cold]] std::string use(const PackedScheme &given) override;
  [[gnu::cold]] Result<std::string> load() override;
  uint64_t piece() const override { return 64 * mostBlockElements; }
  Status write(uint64_t first, uint64_t count, DType type,
               std::byte *to) const override;

private:
  Status read(uint64_t first, uint64_t count, float *to) const override;
  Status readBytes(uint64_t first, uint64_t count, std::byte *to) const;
  float scaleOf(uint64_t row, uint64_t column) const {
    return scales[row / rowsEach * perRow + column / columnsEach];
  }
  /// Takes scales for shared by blocks; returns whether there are as many.
  [[gnu::cold]] bool fits(const std::array<uint64_t, 2> &block);

  const Shape shape;
  uint64_t rowsEach = 1, columnsEach = 1; // elements that share a scale
  uint64_t perRow = 0;                    // scales of a row
  std::vector<float> scales;
};

} // namespace

/// How many blocks of `block` cover `size`; a block of 0 covers all.
static uint64_t blocksOf(uint64_t size, uint64_t block) {
  return block == 0 ? 1 : size / block + (size % block != 0);
}

bool Fp8::fits(const std::array<uint64_t, 2> &block) {
  Shape given = tensors[1]->tensor->shape;
  given.resize(std::max<size_t>(given.size(), 2), 1);
  perRow = blocksOf(shape[1], block[1]);
  rowsEach = block[0] ? block[0] : UINT64_MAX;
  columnsEach = block[1] ? block[1] : UINT64_MAX;
  return given == Shape{blocksOf(shape[0], block[0]), perRow};
}

std::string Fp8::use(const PackedScheme &given) {
  scheme = given;
  std::string expected = "one scale, one a row or one a block of 128 x 128";
  if (scheme.block) {
    auto [height, width] = *scheme.block;
    if (fits(*scheme.block))
      return "";
    expected = height == 0  ? "one scale"
               : width == 0 ? "one scale a row"
                            : concat({"one a block of ", height, " x ", width});
  } else if (fits({0, 0}) || fits({1, 0}) || fits({blockSize, blockSize})) {
    return "";
  }
  return concat({quote(tensors[1]->tensor->name), " is ",
                 shapeText(tensors[1]->tensor->shape), ", expected ", expected,
                 " of ", shapeText(shape)});
}

Result<std::string> Fp8::load() {
  const Checkpoint::Tensor &place = *tensors[1];
  Result<std::vector<float>> values = readFloats(fileOf(place), *place.tensor);
  if (!values.ok())
    return values.status();
  scales = std::move(*values);
  for (float scale : scales)
    if (!std::isfinite(scale))
      return Status(CRIA_INVALID_ARGUMENT,
                    {fileOf(place).path(), ": ", quote(place.tensor->name),
                     " has a scale that is not finite"});
  return std::string();
}

Status Fp8::readBytes(uint64_t first, uint64_t count, std::byte *to) const {
  const Checkpoint::Tensor &place = *tensors[0];
  return fileOf(place).read(place.tensor->begin + first, to, count);
}

/// In blocks of FP8 the bytes stay as they are, if the numbers of a block share
/// a scale. A block with NaN has NaN as its scale.
Status Fp8::write(uint64_t first, uint64_t count, DType type,
                  std::byte *to) const {
  uint64_t each = blockOf(type).elements;
  if (type != DType::FP8 ||
      (columnsEach != UINT64_MAX && columnsEach % each != 0))
    return PackedElements::write(first, count, type, to);
  std::vector<std::byte> bytes(std::min(count, piece()));
  for (uint64_t done = 0; done < count; done += bytes.size()) {
    uint64_t part = std::min<uint64_t>(bytes.size(), count - done);
    Status status = readBytes(first + done, part, bytes.data());
    if (!status.ok())
      return status;
    for (uint64_t i = 0; i < part; i += each) {
      uint64_t at = first + done + i;
      float scale = scaleOf(at / shape[1], at % shape[1]) * 256;
      if (std::any_of(&bytes[i], &bytes[i] + each, [](std::byte q) {
            return int(q | std::byte(0x80)) == 0xff;
          }))
        scale = NAN;
      uint16_t bits = narrowToF16(scale);
      if (std::isinf(widenF16(bits)))
        return Status(CRIA_INVALID_ARGUMENT,
                      {fileOf(*tensors[1]).path(), ": ",
                       quote(tensors[1]->tensor->name), " has the scale ",
                       scale / 256,
                       ", expected less than 256 in blocks of fp8"});
      std::memcpy(to, &bits, sizeof(bits));
      to = std::copy_n(&bytes[i], each, to + sizeof(bits));
    }
  }
  return Status();
}

Status Fp8::read(uint64_t first, uint64_t count, float *to) const {
  std::vector<std::byte> bytes(count);
  Status status = readBytes(first, count, bytes.data());
  if (!status.ok())
    return status;
  convertElements(bytes.data(), DType::F8_E4M3,
                  reinterpret_cast<std::byte *>(to), DType::F32, count);
  uint64_t columns = shape[1];
  for (uint64_t at = 0, end; at < count; at = end) {
    uint64_t row = (first + at) / columns, column = (first + at) % columns;
    uint64_t left = columns - column; // columns that have the same scale
    if (columnsEach != UINT64_MAX)
      left = std::min(left, columnsEach - column % columnsEach);
    end = std::min(count, at + left);
    float scale = scaleOf(row, column);
    for (uint64_t i = at; i < end; ++i)
      to[i] *= scale;
  }
  return Status();
}

/// The tensor of the scales; null if there is none or are two.
static const Checkpoint::Tensor *findScales(const Checkpoint &checkpoint,
                                            const std::string &name,
                                            std::string &problem) {
  std::string inverse = name + "_scale_inv", plain = name + "_scale";
  const Checkpoint::Tensor *one = checkpoint.find(inverse),
                           *other = checkpoint.find(plain);
  if (!one == !other)
    problem =
        concat({quote(name), " is F8_E4M3, expected one of ", quote(inverse),
                " and ", quote(plain), one ? ", got both" : ", got neither"});
  for (const char *suffix : {"_zero_point", "_zp"})
    if (problem.empty() && checkpoint.find(name + suffix))
      problem = concat({quote(name + suffix), " is not supported: 8-bit floats "
                                              "have scales alone"});
  return one ? one : other;
}

std::unique_ptr<PackedElements> findFp8(const Checkpoint &checkpoint,
                                        const std::string &name,
                                        const Checkpoint::Tensor &place,
                                        std::string &problem) {
  const Checkpoint::Tensor *scales = findScales(checkpoint, name, problem);
  const TensorEntry &tensor = *place.tensor;
  if (problem.empty() && tensor.shape.size() != 2)
    problem = concat({quote(name), " is F8_E4M3 of shape ",
                      shapeText(tensor.shape), ", expected a matrix"});
  if (!problem.empty())
    return nullptr;
  std::optional<DType> type = scales->tensor->type;
  if (!type || isBlocked(*type) || *type == DType::F8_E4M3)
    problem = concat({quote(scales->tensor->name), " is ",
                      quote(scales->tensor->typeName),
                      ", expected F32, F16 or BF16"});
  return std::make_unique<Fp8>(checkpoint, place, *scales);
}

} // namespace cria
