#include "runtime/PackedFp8.h"

#include "runtime/Elements.h"
#include "runtime/Floats.h"
#include "runtime/Json.h"

#include <algorithm>
#include <cmath>

namespace cria {

static constexpr uint64_t blockSize = 128;

namespace {

/// x = q * scale, as in DeepSeek-V3's weight_dequant and in vLLM.
class Fp8Weight : public PackedWeight {
public:
  Fp8Weight(const Checkpoint::Place &place, const Checkpoint::Place &scales)
      : scalesPlace(scales), columns(place.tensor->shape[1]) {
    elements = &place;
    names = {place.tensor->name, scales.tensor->name};
  }

  /// Whether the scales have one of the known shapes.
  bool fit();

  Status load(const Checkpoint &checkpoint) override;
  Status read(const Checkpoint &checkpoint, float *to, uint64_t first,
              uint64_t count) const override;
  uint64_t stretch() const override { return 64 * mostBlockElements; }
  const char *format() const override { return "f8_e4m3"; }

private:
  const Checkpoint::Place &scalesPlace;
  uint64_t columns;
  uint64_t rowsEach = 1, columnsEach = 1; // elements that share a scale
  uint64_t perRow = 0;                    // scales of a row
  std::vector<float> scales;
};

} // namespace

static uint64_t blocksOf(uint64_t size) {
  return size / blockSize + (size % blockSize != 0);
}

bool Fp8Weight::fit() {
  const Shape &shape = elements->tensor->shape;
  const Shape &given = scalesPlace.tensor->shape;
  if (given.empty() || given == Shape{1}) {
    rowsEach = columnsEach = UINT64_MAX;
    perRow = 1;
  } else if (given == Shape{shape[0], 1} || given == Shape{shape[0]}) {
    columnsEach = UINT64_MAX;
    perRow = 1;
  } else if (given == Shape{blocksOf(shape[0]), blocksOf(shape[1])}) {
    rowsEach = columnsEach = blockSize;
    perRow = given[1];
  }
  return perRow != 0;
}

Status Fp8Weight::load(const Checkpoint &checkpoint) {
  Result<std::vector<float>> values = readFloats(
      checkpoint.files()[scalesPlace.file].file, *scalesPlace.tensor);
  if (!values.ok())
    return values.status();
  scales = std::move(*values);
  for (float scale : scales)
    if (!std::isfinite(scale))
      return Status(CRIA_INVALID_ARGUMENT,
                    {checkpoint.files()[scalesPlace.file].file.path(), ": ",
                     quote(scalesPlace.tensor->name),
                     " has a scale that is not finite"});
  return Status();
}

Status Fp8Weight::read(const Checkpoint &checkpoint, float *to, uint64_t first,
                       uint64_t count) const {
  std::vector<std::byte> bytes(count);
  const File &file = checkpoint.files()[elements->file].file;
  Status status =
      file.read(elements->tensor->begin + first, bytes.data(), count);
  if (!status.ok())
    return status;
  convertElements(bytes.data(), DType::F8_E4M3,
                  reinterpret_cast<std::byte *>(to), DType::F32, count);
  for (uint64_t at = 0, end; at < count; at = end) {
    uint64_t row = (first + at) / columns, column = (first + at) % columns;
    uint64_t left = columns - column; // columns that have the same scale
    if (columnsEach != UINT64_MAX)
      left = std::min(left, columnsEach - column % columnsEach);
    end = std::min(count, at + left);
    float scale = scales[row / rowsEach * perRow + column / columnsEach];
    for (uint64_t i = at; i < end; ++i)
      to[i] *= scale;
  }
  return Status();
}

std::shared_ptr<PackedWeight> findFp8(const Checkpoint &checkpoint,
                                      const std::string &name,
                                      const Checkpoint::Place &place,
                                      std::string &problem) {
  const Checkpoint::Place *scales = nullptr;
  for (const char *suffix : {"_scale_inv", "_scale"})
    if (!scales)
      scales = checkpoint.find(name + suffix);
  const TensorEntry &tensor = *place.tensor;
  if (!scales)
    problem =
        concat({quote(name), " is F8_E4M3, and ", quote(name + "_scale_inv"),
                " or ", quote(name + "_scale"), " is missing"});
  else if (tensor.shape.size() != 2)
    problem = concat({quote(name), " is F8_E4M3 of shape ",
                      shapeText(tensor.shape), ", expected a matrix"});
  if (!problem.empty())
    return nullptr;
  auto weight = std::make_shared<Fp8Weight>(place, *scales);
  std::optional<DType> type = scales->tensor->type;
  if (!type || isBlocked(*type) || *type == DType::F8_E4M3)
    problem = concat({quote(scales->tensor->name), " is ",
                      quote(scales->tensor->typeName),
                      ", expected F32, F16 or BF16"});
  else if (!weight->fit())
    problem = concat(
        {quote(scales->tensor->name), " is ", shapeText(scales->tensor->shape),
         ", expected one scale, one a row or one a block of 128 x 128 of ",
         shapeText(tensor.shape)});
  return problem.empty() ? weight : nullptr;
}

} // namespace cria
