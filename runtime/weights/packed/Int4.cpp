// A matrix W (N, K) has a row for each output. It is stored transposed:
//
//   W[n][k] = (q[k][n] - zero[g][n]) * scale[g][n]
//
// where g is the group of k. An int32 holds eight q, the first in its lowest
// bits. In GPTQ they are q[k] to q[k + 7] of one column n. In AWQ they are
// eight columns of one k, in the order 0 2 4 6 1 3 5 7. An int32 also holds
// eight zeros of one group: in AWQ in the order of its q; in GPTQ in order,
// each stored as zero - 1 modulo 16 in GPTQ's version 1 ("gptq"), and as it is
// in version 2 ("gptq_v2"). Sources: AutoGPTQ, qlinear_cuda_old.py,
// QuantLinear.forward; AutoAWQ, awq/utils/packing_utils.py, dequantize_gemm.
//
// compressed-tensors does not transpose: q[n][k], scale[n][g] and zero[n][g],
// where an int32 holds q of eight columns of one row, and zeros of eight rows
// of one group; without zeros, every zero is 8. Source: compressed-tensors,
// compressors/pack_quantized.
//
// Where quantization is symmetric, every zero is 8, whatever is stored: writers
// that call their files "gptq" have stored 8 where that format has 7.
#include "runtime/base/Json.h"
#include "runtime/weights/packed/PackedElements.h"

#include <algorithm>
#include <optional>

namespace cria {

static constexpr uint64_t perWord = 8;
/// Rows of W that are decoded at once: 256 numbers that follow one another in
/// each row of the transpose.
static constexpr uint64_t tileRows = 256;

/// The place of column i of eight in a word of AWQ.
static constexpr int awqOrder[perWord] = {0, 4, 1, 5, 2, 6, 3, 7};

static uint64_t wordsOf(uint64_t size) {
  return size / perWord + (size % perWord != 0);
}

namespace {

/// The tensors of one weight.
struct Int4Tensors {
  const Checkpoint::Tensor *q, *zeros, *scales;
  const Checkpoint::Tensor *groups; // g_idx, or null
  const Checkpoint::Tensor *shape;  // of compressed-tensors, else null
};

class Int4 : public PackedElements {
public:
  Int4(const Checkpoint &checkpoint, const Int4Tensors &places,
       const Shape &shape, PackedLayout layout)
      : PackedElements(checkpoint), places(places), rows(shape[0]),
        columns(shape[1]),
        groupCount(places.scales->tensor->shape[layout == PackedLayout::Rows]) {
    scheme.layout = layout;
    for (const Checkpoint::Tensor *place :
         {places.q, places.zeros, places.scales, places.groups, places.shape})
      if (place)
        tensors.push_back(place);
  }

  [[gnu::cold]] std::string use(const PackedScheme &given) override;
  [[gnu::cold]] Result<std::string> load() override;
  uint64_t piece() const override;

private:
  Status read(uint64_t first, uint64_t count, float *to) const override;
  Status readInts(const Checkpoint::Tensor &place, uint64_t begin,
                  uint64_t count, uint32_t *to) const;
  Status fail(const Checkpoint::Tensor &place, std::string_view what) const;
  [[gnu::cold]] Status checkShape();
  [[gnu::cold]] Status loadGroups();
  [[gnu::cold]] Status loadScales();
  Status loadZeros();
  [[gnu::cold]] Status checkZeros();
  Status readWords(uint64_t begin, uint64_t end,
                   std::vector<uint32_t> &words) const;
  void decodeRow(const std::vector<uint32_t> &words, uint64_t top,
                 uint64_t height, uint64_t row, uint64_t begin, uint64_t end,
                 float *to) const;

  const Int4Tensors places;
  const uint64_t rows, columns, groupCount; // of W
  std::vector<uint32_t> groups;             // by column
  std::vector<float> scales;                // (groupCount, rows)
  std::vector<uint8_t> zeros;               // likewise
  /// What contradicts the config and is read all the same.
  std::string warning;
};

} // namespace

/// Reads elements [begin, begin + count) of the int32 tensor at `place`.
Status Int4::readInts(const Checkpoint::Tensor &place, uint64_t begin,
                      uint64_t count, uint32_t *to) const {
  return fileOf(place).read(place.tensor->begin + begin * sizeof(uint32_t), to,
                            count * sizeof(uint32_t));
}

std::string Int4::use(const PackedScheme &given) {
  scheme = given;
  auto named = [](const Checkpoint::Tensor &place) {
    return quote(place.tensor->name);
  };
  if (scheme.block) {
    uint64_t size = (*scheme.block)[1];
    uint64_t count = size == 0 ? 1 : columns / size + (columns % size != 0);
    if (count != groupCount)
      return concat({named(*places.scales), " has ", groupCount,
                     " groups of columns, expected ", count, " by a ",
                     quote("group_size"), " of ",
                     size == 0 ? "-1" : std::to_string(size)});
  }
  if (scheme.actOrder == true && !places.groups && groupCount > 1)
    return concat({named(*places.q),
                   " has no g_idx beside it, expected one by the "
                   "order of activations"});
  bool hasZeros = places.zeros != nullptr;
  if (scheme.layout == PackedLayout::Rows && scheme.symmetric == hasZeros)
    return concat({named(*places.q), " has ", hasZeros ? "a" : "no",
                   " weight_zero_point beside it, expected ",
                   hasZeros ? "none" : "one"});
  return "";
}

Status Int4::fail(const Checkpoint::Tensor &place,
                  std::string_view what) const {
  return Status(CRIA_INVALID_ARGUMENT, {fileOf(place).path(), ": ",
                                        quote(place.tensor->name), " ", what});
}

/// Checks the numbers in weight_shape.
Status Int4::checkShape() {
  if (!places.shape)
    return Status();
  int64_t found[2] = {};
  Status status = fileOf(*places.shape)
                      .read(places.shape->tensor->begin, found, sizeof(found));
  if (!status.ok() || (static_cast<uint64_t>(found[0]) == rows &&
                       static_cast<uint64_t>(found[1]) == columns))
    return status;
  return fail(*places.shape,
              concat({"says [", found[0], ", ", found[1], "], expected [", rows,
                      ", ", columns, "]"}));
}

/// Finds the group of each column: from g_idx, or else groups of one size
/// follow one another.
Status Int4::loadGroups() {
  std::vector<uint32_t> inOrder(columns);
  uint64_t size = (columns + groupCount - 1) / groupCount;
  for (uint64_t k = 0; k < columns; ++k)
    inOrder[k] = static_cast<uint32_t>(k / size);
  groups = inOrder;
  if (!places.groups)
    return Status();
  Status status = readInts(*places.groups, 0, columns, groups.data());
  if (!status.ok())
    return status;
  for (uint32_t group : groups)
    if (group >= groupCount)
      return fail(*places.groups,
                  concat({"has group ", static_cast<int32_t>(group), " of ",
                          groupCount}));
  if (scheme.actOrder == false && groups != inOrder)
    warning = "columns are in the order of activations, as g_idx says, though "
              "the config says that they are not";
  return Status();
}

Status Int4::loadScales() {
  Result<std::vector<float>> read =
      readFloats(fileOf(*places.scales), *places.scales->tensor);
  if (!read.ok())
    return read.status();
  scales = std::move(*read);
  if (scheme.layout != PackedLayout::Rows)
    return Status();
  std::vector<float> stored = scales;
  for (uint64_t i = 0; i < scales.size(); ++i)
    scales[i % groupCount * rows + i / groupCount] = stored[i];
  return Status();
}

/// Reads zeros as they are stored; 8 if they are not.
Status Int4::loadZeros() {
  zeros.assign(groupCount * rows, 8);
  if (!places.zeros)
    return Status();
  uint64_t line = wordsOf(rows); // words of a group
  std::vector<uint32_t> words(groupCount * line);
  Status status = readInts(*places.zeros, 0, words.size(), words.data());
  for (uint64_t i = 0; i < zeros.size(); ++i) {
    uint64_t group = i / rows, row = i % rows;
    int place = scheme.layout == PackedLayout::Awq
                    ? awqOrder[row % perWord]
                    : static_cast<int>(row % perWord);
    uint64_t word = scheme.layout == PackedLayout::Rows
                        ? row / perWord * groupCount + group
                        : group * line + row / perWord;
    zeros[i] = static_cast<uint8_t>(words[word] >> place * 4 & 15);
  }
  return status;
}

/// Turns what is stored into zeros. If quantization is symmetric, zeros are 8.
/// Refuses what could be read in two ways.
Status Int4::checkZeros() {
  uint8_t added =
      scheme.layout == PackedLayout::Gptq && scheme.lessOne.value_or(true);
  uint8_t least = *std::min_element(zeros.begin(), zeros.end()),
          most = *std::max_element(zeros.begin(), zeros.end());
  // Version 1 of GPTQ's format stores 7 where version 2 stores 8.
  bool isEight = least == most && least + added == 8;
  bool isOther = scheme.layout == PackedLayout::Gptq && least == most &&
                 !isEight && (least == 7 || least == 8);
  if (scheme.symmetric == true && isOther)
    warning = concat({"zeros are stored as ", int(least), ", which is ",
                      least + added,
                      " in the format of the config; they are read as 8, for "
                      "the config says that quantization is symmetric"});
  else if (scheme.symmetric == true && !isEight)
    return fail(*places.zeros,
                concat({"has zeros from ", int(least) + added, " to ",
                        int(most) + added,
                        ", expected 8, for the config says that quantization "
                        "is symmetric"}));
  else if (!scheme.symmetric && isOther)
    return fail(*places.zeros,
                concat({"has ", int(least), " everywhere, which is a zero of ",
                        least + added,
                        ", or of 8 if quantization is symmetric: expected a "
                        "quantization_config whose 'sym' says which"}));
  for (uint8_t &zero : zeros)
    zero = scheme.symmetric == true ? 8 : (zero + added) & 15;
  return Status();
}

Result<std::string> Int4::load() {
  Status status = checkShape();
  for (auto step : {&Int4::loadGroups, &Int4::loadScales, &Int4::loadZeros,
                    &Int4::checkZeros})
    if (status.ok())
      status = (this->*step)();
  if (!status.ok())
    return status;
  return warning;
}

uint64_t Int4::piece() const {
  uint64_t tile = std::min(tileRows, rows) * columns;
  return (tile + mostBlockElements - 1) / mostBlockElements * mostBlockElements;
}

/// Reads the words that hold rows [begin, end) of W; both bounds are multiples
/// of 8, or the end of W. The words are (columns / 8, end - begin) in GPTQ,
/// (columns, (end - begin) / 8) in AWQ, (end - begin, columns / 8) in rows.
Status Int4::readWords(uint64_t begin, uint64_t end,
                       std::vector<uint32_t> &words) const {
  if (scheme.layout == PackedLayout::Rows) {
    uint64_t line = wordsOf(columns);
    words.resize((end - begin) * line);
    return readInts(*places.q, begin * line, words.size(), words.data());
  }
  bool isAwq = scheme.layout == PackedLayout::Awq;
  uint64_t lines = isAwq ? columns : columns / perWord;
  uint64_t unit = isAwq ? perWord : 1; // rows in a word
  uint64_t line = rows / unit, width = (end - begin) / unit;
  words.resize(lines * width);
  for (uint64_t i = 0; i < lines; ++i) {
    Status status = readInts(*places.q, i * line + begin / unit, width,
                             words.data() + i * width);
    if (!status.ok())
      return status;
  }
  return Status();
}

/// Decodes columns [begin, end) of one row of W. `words` holds `height` rows,
/// from row `top` on.
void Int4::decodeRow(const std::vector<uint32_t> &words, uint64_t top,
                     uint64_t height, uint64_t row, uint64_t begin,
                     uint64_t end, float *to) const {
  // The row's scales and zeros lie together for the loop.
  std::vector<float> scale(groupCount);
  std::vector<int> zero(groupCount);
  for (uint64_t group = 0; group < groupCount; ++group) {
    scale[group] = scales[group * rows + row];
    zero[group] = zeros[group * rows + row];
  }
  // The row's words, from one to the next.
  uint64_t at = row - top, step = height;
  bool isAwq = scheme.layout == PackedLayout::Awq;
  if (isAwq) {
    at /= perWord;
    step /= perWord;
  } else if (scheme.layout == PackedLayout::Rows) {
    at *= wordsOf(columns);
    step = 1;
  }
  for (uint64_t column = begin; column < end; ++column) {
    uint32_t word = words[(isAwq ? column : column / perWord) * step + at];
    int place =
        isAwq ? awqOrder[row % perWord] : static_cast<int>(column % perWord);
    auto q = static_cast<int>(word >> place * 4 & 15);
    uint32_t group = groups[column];
    *to++ = static_cast<float>(q - zero[group]) * scale[group];
  }
}

Status Int4::read(uint64_t first, uint64_t count, float *to) const {
  if (count == 0)
    return Status();
  uint64_t last = first + count;
  uint64_t top = first / columns / perWord * perWord;
  uint64_t bottom =
      std::min(rows, ((last - 1) / columns / perWord + 1) * perWord);
  std::vector<uint32_t> words;
  Status status = readWords(top, bottom, words);
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

  void shape(const Checkpoint::Tensor &place, const Shape &expected) {
    note(place.tensor->shape == expected, place, shapeText(place.tensor->shape),
         shapeText(expected));
  }
  void ints(const Checkpoint::Tensor &place) {
    const std::string &type = place.tensor->typeName;
    note(type == "I32" || type == "U32", place, quote(type), "I32");
  }
  void floats(const Checkpoint::Tensor &place) {
    std::optional<DType> type = place.tensor->type;
    note(type == DType::F16 || type == DType::BF16 || type == DType::F32, place,
         quote(place.tensor->typeName), "F16, BF16 or F32");
  }
  void note(bool holds, const Checkpoint::Tensor &place, const std::string &is,
            const std::string &expected) {
    if (!holds && problem.empty())
      problem = concat(
          {quote(place.tensor->name), " is ", is, ", expected ", expected});
  }

private:
  std::string &problem;
};

} // namespace

/// Whether q has the shape of AWQ or GPTQ; nothing if neither.
static std::optional<PackedLayout> layoutOf(const Int4Tensors &tensors,
                                            const Shape &shape) {
  const Shape &given = tensors.q->tensor->shape;
  bool fits = shape.size() == 2 && shape[0] > 0 && shape[1] > 0;
  if (fits && tensors.shape && given == Shape{shape[0], wordsOf(shape[1])})
    return PackedLayout::Rows;
  if (!fits || tensors.shape || shape[0] % perWord || shape[1] % perWord)
    return std::nullopt;
  if (given == Shape{shape[1] / perWord, shape[0]})
    return PackedLayout::Gptq;
  if (given == Shape{shape[1], shape[0] / perWord} && !tensors.groups)
    return PackedLayout::Awq;
  return std::nullopt;
}

static void check(const Int4Tensors &tensors, const Shape &shape, bool byRow,
                  std::string &problem) {
  Expectations expect(problem);
  uint64_t rows = shape[0], columns = shape[1];
  const Shape &scales = tensors.scales->tensor->shape;
  uint64_t groups = scales.size() > byRow ? scales[byRow] : 0;
  auto byGroup = [&](uint64_t size) {
    return byRow ? Shape{size, groups} : Shape{groups, size};
  };
  expect.floats(*tensors.scales);
  expect.note(groups > 0 && (tensors.groups || columns % groups == 0),
              *tensors.scales, shapeText(scales),
              concat({"groups of equal size of ", columns, " columns"}));
  expect.shape(*tensors.scales, byGroup(rows));
  expect.ints(*tensors.q);
  if (tensors.zeros) {
    expect.ints(*tensors.zeros);
    expect.shape(*tensors.zeros, byGroup(wordsOf(rows)));
  }
  if (tensors.groups) {
    expect.ints(*tensors.groups);
    expect.shape(*tensors.groups, {columns});
  }
  if (tensors.shape) {
    expect.shape(*tensors.shape, {2});
    expect.note(tensors.shape->tensor->typeName == "I64", *tensors.shape,
                quote(tensors.shape->tensor->typeName), "I64");
  }
}

std::unique_ptr<PackedElements> findInt4(const Checkpoint &checkpoint,
                                         const std::string &module,
                                         const Shape &shape,
                                         std::string &problem) {
  // GPTQ's and AWQ's names, and those of compressed-tensors.
  static constexpr const char *names[2][5] = {
      {".qweight", ".qzeros", ".scales", ".g_idx", nullptr},
      {".weight_packed", ".weight_zero_point", ".weight_scale", ".weight_g_idx",
       ".weight_shape"}};
  bool byRow = checkpoint.find(module + names[1][0]);
  const char *const *suffixes = names[byRow];
  const Checkpoint::Tensor *places[5] = {};
  for (int i = 0; i < 5; ++i)
    if (suffixes[i])
      places[i] = checkpoint.find(module + suffixes[i]);
  Int4Tensors tensors = {places[0], places[1], places[2], places[3], places[4]};
  if (!tensors.q)
    return nullptr;
  static constexpr int needed[2][2] = {{1, 2}, {2, 4}};
  for (int i : needed[byRow])
    if (!places[i] && problem.empty())
      problem = concat({quote(module + suffixes[i]), " is missing for ",
                        quote(module + suffixes[0])});
  if (!problem.empty())
    return nullptr;
  std::optional<PackedLayout> layout = layoutOf(tensors, shape);
  if (!layout)
    problem = concat({quote(tensors.q->tensor->name), " is ",
                      shapeText(tensors.q->tensor->shape),
                      ", expected eight elements a number of ",
                      byRow ? "" : "the transpose of ", shapeText(shape)});
  else
    check(tensors, shape, byRow, problem);
  if (!problem.empty())
    return nullptr;
  return std::make_unique<Int4>(checkpoint, tensors, shape, *layout);
}

} // namespace cria
