// A matrix W (N, K) has a row for each output. It is stored transposed:
//
//   W[n][k] = (q[k][n] - zero[g][n]) * scale[g][n]
//
// where g is the group of k. An int32 holds eight q, the first in its lowest
// bits. In GPTQ they are q[k] to q[k + 7] of one column n. In AWQ they are
// eight columns of one k, in the order 0 2 4 6 1 3 5 7. An int32 also holds
// eight zeros of one group: in AWQ in the order of its q; in GPTQ in order,
// each stored as zero - 1 modulo 16 (GPTQ's version 1). Sources: AutoGPTQ,
// qlinear_cuda_old.py, QuantLinear.forward; AutoAWQ,
// awq/utils/packing_utils.py, dequantize_gemm.
#include "runtime/PackedInt4.h"

#include "runtime/Elements.h"
#include "runtime/Json.h"

#include <algorithm>
#include <optional>

namespace cria {

static constexpr uint64_t perWord = 8;
/// Rows of W that are decoded at once: so many numbers are read together from
/// each row of the transpose.
static constexpr uint64_t tileRows = 256;

/// The place of column i of eight in a word of AWQ.
static constexpr int awqOrder[perWord] = {0, 4, 1, 5, 2, 6, 3, 7};

namespace {

/// The tensors of one weight.
struct Int4Tensors {
  const Checkpoint::Place *q, *zeros, *scales;
  const Checkpoint::Place *groups; // g_idx, or null
};

class Int4Weight : public PackedWeight {
public:
  Int4Weight(const Int4Tensors &tensors, const Shape &shape, bool isAwq)
      : tensors(tensors), rows(shape[0]), columns(shape[1]),
        groupCount(tensors.scales->tensor->shape[0]), isAwq(isAwq) {
    elements = tensors.q;
    for (const Checkpoint::Place *place :
         {tensors.q, tensors.zeros, tensors.scales, tensors.groups})
      if (place)
        names.push_back(place->tensor->name);
  }

  Status load(const Checkpoint &checkpoint) override;
  Status read(const Checkpoint &checkpoint, float *to, uint64_t first,
              uint64_t count) const override;
  uint64_t stretch() const override;
  const char *format() const override { return isAwq ? "awq" : "gptq"; }

private:
  Status loadGroups(const Checkpoint &checkpoint);
  Status readWords(const Checkpoint &checkpoint, uint64_t begin, uint64_t end,
                   std::vector<uint32_t> &words) const;
  void decodeRow(const std::vector<uint32_t> &words, uint64_t top,
                 uint64_t height, uint64_t row, uint64_t begin, uint64_t end,
                 float *to) const;

  const Int4Tensors tensors;
  const uint64_t rows, columns, groupCount; // of W
  const bool isAwq;
  std::vector<uint32_t> groups; // by column
  std::vector<float> scales;    // (groupCount, rows)
  std::vector<uint8_t> zeros;   // likewise
};

} // namespace

/// Reads elements [begin, begin + count) of the int32 tensor at `place`.
static Status readInts(const Checkpoint &checkpoint,
                       const Checkpoint::Place &place, uint64_t begin,
                       uint64_t count, uint32_t *to) {
  const File &file = checkpoint.files()[place.file].file;
  return file.read(place.tensor->begin + begin * sizeof(uint32_t), to,
                   count * sizeof(uint32_t));
}

/// Finds the group of each column: from g_idx, or else groups of one size
/// follow one another.
Status Int4Weight::loadGroups(const Checkpoint &checkpoint) {
  groups.resize(columns);
  uint64_t size = (columns + groupCount - 1) / groupCount;
  for (uint64_t k = 0; k < columns; ++k)
    groups[k] = static_cast<uint32_t>(k / size);
  if (!tensors.groups)
    return Status();
  Status status =
      readInts(checkpoint, *tensors.groups, 0, columns, groups.data());
  if (!status.ok())
    return status;
  for (uint32_t group : groups)
    if (group >= groupCount)
      return Status(CRIA_INVALID_ARGUMENT,
                    {checkpoint.files()[tensors.groups->file].file.path(), ": ",
                     quote(tensors.groups->tensor->name), " has group ",
                     static_cast<int32_t>(group), " of ", groupCount});
  return Status();
}

Status Int4Weight::load(const Checkpoint &checkpoint) {
  Status status = loadGroups(checkpoint);
  if (!status.ok())
    return status;
  Result<std::vector<float>> read = readFloats(
      checkpoint.files()[tensors.scales->file].file, *tensors.scales->tensor);
  if (!read.ok())
    return read.status();
  scales = std::move(*read);
  std::vector<uint32_t> words(groupCount * rows / perWord);
  status = readInts(checkpoint, *tensors.zeros, 0, words.size(), words.data());
  if (!status.ok())
    return status;
  zeros.resize(groupCount * rows);
  for (uint64_t i = 0; i < zeros.size(); ++i) {
    int place = isAwq ? awqOrder[i % perWord] : static_cast<int>(i % perWord);
    uint32_t zero = words[i / perWord] >> place * 4 & 15;
    zeros[i] = static_cast<uint8_t>(isAwq ? zero : (zero + 1) & 15);
  }
  return Status();
}

uint64_t Int4Weight::stretch() const {
  uint64_t tile = std::min(tileRows, rows) * columns;
  return (tile + mostBlockElements - 1) / mostBlockElements * mostBlockElements;
}

/// Reads the words that hold rows [begin, end) of W; both bounds are multiples
/// of 8. The words are (columns / 8, end - begin) in GPTQ, (columns, (end -
/// begin) / 8) in AWQ.
Status Int4Weight::readWords(const Checkpoint &checkpoint, uint64_t begin,
                             uint64_t end, std::vector<uint32_t> &words) const {
  uint64_t lines = isAwq ? columns : columns / perWord;
  uint64_t unit = isAwq ? perWord : 1; // rows in a word
  uint64_t line = rows / unit, width = (end - begin) / unit;
  words.resize(lines * width);
  for (uint64_t i = 0; i < lines; ++i) {
    Status status = readInts(checkpoint, *tensors.q, i * line + begin / unit,
                             width, words.data() + i * width);
    if (!status.ok())
      return status;
  }
  return Status();
}

/// Decodes columns [begin, end) of one row of W. `words` holds `height` rows,
/// from row `top` on.
void Int4Weight::decodeRow(const std::vector<uint32_t> &words, uint64_t top,
                           uint64_t height, uint64_t row, uint64_t begin,
                           uint64_t end, float *to) const {
  // The row's scales and zeros lie together for the loop.
  std::vector<float> scale(groupCount);
  std::vector<int> zero(groupCount);
  for (uint64_t group = 0; group < groupCount; ++group) {
    scale[group] = scales[group * rows + row];
    zero[group] = zeros[group * rows + row];
  }
  uint64_t at = row - top;
  for (uint64_t column = begin; column < end; ++column) {
    uint32_t word = isAwq ? words[column * (height / perWord) + at / perWord]
                          : words[column / perWord * height + at];
    int place =
        isAwq ? awqOrder[row % perWord] : static_cast<int>(column % perWord);
    auto q = static_cast<int>(word >> place * 4 & 15);
    uint32_t group = groups[column];
    *to++ = static_cast<float>(q - zero[group]) * scale[group];
  }
}

Status Int4Weight::read(const Checkpoint &checkpoint, float *to, uint64_t first,
                        uint64_t count) const {
  if (count == 0)
    return Status();
  uint64_t last = first + count;
  uint64_t top = first / columns / perWord * perWord;
  uint64_t bottom = ((last - 1) / columns / perWord + 1) * perWord;
  std::vector<uint32_t> words;
  Status status = readWords(checkpoint, top, bottom, words);
  if (!status.ok())
    return status;
  for (uint64_t row = first / columns; row * columns < last; ++row) {
    uint64_t begin = std::max(first, row * columns) - row * columns;
    uint64_t end = std::min(last, (row + 1) * columns) - row * columns;
    decodeRow(words, top, bottom - top, row, begin, end, to);
    to += end - begin;
  }
  return Status();
}

namespace {

/// Notes the first tensor that is not as expected.
class Expectations {
public:
  explicit Expectations(std::string &problem) : problem(problem) {}

  void shape(const Checkpoint::Place &place, const Shape &expected) {
    note(place.tensor->shape == expected, place, shapeText(place.tensor->shape),
         shapeText(expected));
  }
  void ints(const Checkpoint::Place &place) {
    const std::string &type = place.tensor->typeName;
    note(type == "I32" || type == "U32", place, quote(type), "I32");
  }
  void floats(const Checkpoint::Place &place) {
    std::optional<DType> type = place.tensor->type;
    note(type == DType::F16 || type == DType::BF16 || type == DType::F32, place,
         quote(place.tensor->typeName), "F16, BF16 or F32");
  }
  void note(bool holds, const Checkpoint::Place &place, const std::string &is,
            const std::string &expected) {
    if (!holds && problem.empty())
      problem = concat(
          {quote(place.tensor->name), " is ", is, ", expected ", expected});
  }

private:
  std::string &problem;
};

} // namespace

/// Whether q has the shape of AWQ (true) or GPTQ (false); nothing if neither.
static std::optional<bool> isAwqShape(const Shape &shape, uint64_t rows,
                                      uint64_t columns, bool hasGroups) {
  bool gptq = shape == Shape{columns / perWord, rows};
  bool awq = shape == Shape{columns, rows / perWord};
  if (!gptq && (!awq || hasGroups))
    return std::nullopt;
  return !gptq;
}

static void check(const Int4Tensors &tensors, uint64_t rows, uint64_t columns,
                  std::string &problem) {
  Expectations expect(problem);
  const Shape &scales = tensors.scales->tensor->shape;
  uint64_t groups = scales.empty() ? 0 : scales[0];
  expect.floats(*tensors.scales);
  expect.note(groups > 0 && (tensors.groups || columns % groups == 0),
              *tensors.scales, shapeText(scales),
              concat({"groups of equal size of ", columns, " columns"}));
  expect.shape(*tensors.scales, {groups, rows});
  expect.ints(*tensors.q);
  expect.ints(*tensors.zeros);
  expect.shape(*tensors.zeros, {groups, rows / perWord});
  if (tensors.groups) {
    expect.ints(*tensors.groups);
    expect.shape(*tensors.groups, {columns});
  }
}

std::shared_ptr<PackedWeight> findInt4(const Checkpoint &checkpoint,
                                       const std::string &module,
                                       const Shape &shape,
                                       std::string &problem) {
  auto find = [&](const char *suffix) {
    return checkpoint.find(module + suffix);
  };
  Int4Tensors tensors = {find(".qweight"), find(".qzeros"), find(".scales"),
                         find(".g_idx")};
  if (!tensors.q)
    return nullptr;
  for (auto [place, suffix] : {std::pair(tensors.zeros, ".qzeros"),
                               std::pair(tensors.scales, ".scales")})
    if (!place && problem.empty())
      problem = concat({quote(module + suffix), " is missing for ",
                        quote(module + ".qweight")});
  if (!problem.empty())
    return nullptr;
  bool fits = shape.size() == 2 && shape[0] > 0 && shape[1] > 0 &&
              shape[0] % perWord == 0 && shape[1] % perWord == 0;
  std::optional<bool> isAwq;
  if (fits)
    isAwq = isAwqShape(tensors.q->tensor->shape, shape[0], shape[1],
                       tensors.groups != nullptr);
  if (!isAwq) {
    problem = concat({quote(module + ".qweight"), " is ",
                      shapeText(tensors.q->tensor->shape),
                      ", expected eight elements a number of the transpose of ",
                      shapeText(shape)});
    return nullptr;
  }
  check(tensors, shape[0], shape[1], problem);
  if (!problem.empty())
    return nullptr;
  return std::make_shared<Int4Weight>(tensors, shape, *isAwq);
}

} // namespace cria
