#include "runtime/Packed.h"

#include "runtime/Floats.h"
#include "runtime/Model.h"
#include "test/runtime/Fixtures.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>

using namespace cria;
using namespace cria::test;
using testing::ElementsAre;

namespace {

constexpr uint64_t rows = 130, columns = 160;

/// The fake model with a matrix of (130, 160), "m.weight", in slot 5.
class PackedTest : public testing::Test {
protected:
  void SetUp() override { use("f32"); }

  void use(const char *type) {
    open(withMatrix(fakeManifest(), "m", rows, columns, type));
  }
  void open(const nlohmann::json &manifest) {
    auto opened = Artifact::open(folder.write("a.cria", artifactOf(manifest)));
    ASSERT_TRUE(opened.ok()) << opened.status().message();
    artifact = *opened;
  }
  /// Binds a checkpoint of the fake model's tensors and `packed`.
  Status bind(const std::vector<TestTensor> &packed) {
    std::vector<TestTensor> tensors = fakeTensors();
    tensors.insert(tensors.end(), packed.begin(), packed.end());
    folder.write("model.safetensors", safetensorsOf(tensors));
    auto bound = Model::bind(artifact, folder.path());
    if (bound.ok())
      model = *bound;
    return bound.status();
  }
  std::vector<float> matrix(uint64_t count = rows * columns) const {
    std::vector<float> values(count);
    memcpy(values.data(), model->slots()[5], count * sizeof(float));
    return values;
  }

  TemporaryFolder folder;
  std::shared_ptr<const Artifact> artifact;
  std::shared_ptr<const Model> model;
};

/// Finite 8-bit floats of all kinds.
std::string fp8Bytes() {
  std::string bytes;
  for (uint64_t i = 0; i < rows * columns; ++i)
    bytes += static_cast<char>(i * 37 % 127 | (i % 3 ? 0x80 : 0));
  return bytes;
}

/// OCP's definition of E4M3 in f64.
double fp8Value(char byte) {
  int bits = static_cast<unsigned char>(byte), exponent = bits >> 3 & 15;
  double value = exponent ? std::ldexp(8 + (bits & 7), exponent - 10)
                          : std::ldexp(bits & 7, -9);
  return bits & 0x80 ? -value : value;
}

float scaleAt(uint64_t index) { return 0.01f + 0.003f * index; }

std::vector<float> scales(uint64_t count) {
  std::vector<float> values;
  for (uint64_t i = 0; i < count; ++i)
    values.push_back(scaleAt(i));
  return values;
}

/// What the elements are where element (row, column) has scale
/// row / rowsEach * perRow + column / columnsEach.
std::vector<float> fp8Expected(uint64_t rowsEach, uint64_t columnsEach,
                               uint64_t perRow) {
  std::vector<float> values;
  std::string bytes = fp8Bytes();
  for (uint64_t i = 0; i < bytes.size(); ++i) {
    uint64_t row = i / columns, column = i % columns;
    double scale = scaleAt(row / rowsEach * perRow + column / columnsEach);
    values.push_back(static_cast<float>(fp8Value(bytes[i]) * scale));
  }
  return values;
}

TestTensor fp8() {
  return {"m.weight", "F8_E4M3", {rows, columns}, fp8Bytes()};
}

TestTensor scaleTensor(const char *suffix, const Shape &shape) {
  uint64_t count = 1;
  for (uint64_t size : shape)
    count *= size;
  return {std::string("m.weight") + suffix, "F32", shape,
          bytesOf(scales(count))};
}

} // namespace

TEST_F(PackedTest, Fp8HasAScaleForEachBlock) {
  ASSERT_TRUE(bind({fp8(), scaleTensor("_scale_inv", {2, 2})}).ok());
  EXPECT_EQ(matrix(), fp8Expected(128, 128, 2));
  EXPECT_THAT(model->warnings(),
              ElementsAre("1 tensor dequantized from f8_e4m3 to f32"));
}

TEST_F(PackedTest, Fp8HasAScaleForEachRow) {
  for (const Shape &shape : {Shape{rows}, Shape{rows, 1}}) {
    ASSERT_TRUE(bind({fp8(), scaleTensor("_scale", shape)}).ok());
    EXPECT_EQ(matrix(), fp8Expected(1, columns, 1));
  }
}

TEST_F(PackedTest, Fp8HasOneScale) {
  for (const Shape &shape : {Shape{}, Shape{1}}) {
    ASSERT_TRUE(bind({fp8(), scaleTensor("_scale", shape)}).ok());
    EXPECT_EQ(matrix(), fp8Expected(rows, columns, 1));
  }
}

TEST_F(PackedTest, Fp8BecomesWhatTheCodeReads) {
  std::vector<float> values = fp8Expected(128, 128, 2);
  for (const char *type : {"bf16", "q8_0"}) {
    use(type);
    ASSERT_TRUE(bind({fp8(), scaleTensor("_scale_inv", {2, 2})}).ok());
    DType to = *weightTypeNamed(type);
    std::vector<char> expected(bytesOf(to, values.size()));
    convertElements(reinterpret_cast<const std::byte *>(values.data()),
                    DType::F32, reinterpret_cast<std::byte *>(expected.data()),
                    to, values.size());
    EXPECT_EQ(memcmp(model->slots()[5], expected.data(), expected.size()), 0)
        << type;
  }
}

// The scales of rows in front of those that are used are passed over.
TEST_F(PackedTest, Fp8OfSomeRows) {
  nlohmann::json manifest = withMatrix(fakeManifest(), "m", 5, columns, "f32");
  manifest["weights"].back()["rows"] = {{"first", 125}, {"of", rows}};
  open(manifest);
  ASSERT_TRUE(bind({fp8(), scaleTensor("_scale_inv", {2, 2})}).ok());
  std::vector<float> all = fp8Expected(128, 128, 2);
  EXPECT_EQ(matrix(5 * columns),
            std::vector<float>(all.begin() + 125 * columns, all.end()));
}

TEST_F(PackedTest, RefusesFp8ThatDoesNotFit) {
  auto refused = [&](const std::vector<TestTensor> &tensors,
                     const std::string &message) {
    EXPECT_THAT(bind(tensors), fails(CRIA_FAILED_PRECONDITION, message));
  };
  refused({fp8()}, "'m.weight' is F8_E4M3, and 'm.weight_scale_inv' or "
                   "'m.weight_scale' is missing");
  for (const Shape &shape : {Shape{2}, Shape{1, 2}, Shape{2, 1}, Shape{3, 2},
                             Shape{1, rows}, Shape{rows, 2}, Shape{2, 2, 1}})
    refused({fp8(), scaleTensor("_scale", shape)},
            "'m.weight_scale' is " + shapeText(shape) +
                ", expected one scale, one a row or one a block of 128 x 128 "
                "of [130, 160]");
  refused({fp8(), {"m.weight_scale", "I32", {1}, "1234"}},
          "'m.weight_scale' is 'I32', expected F32, F16 or BF16");
  TestTensor flat = fp8();
  flat.shape = {columns, rows};
  refused({flat, scaleTensor("_scale", {1})},
          "'m.weight' is [160, 130], expected [130, 160]");
  std::vector<float> bad = {std::numeric_limits<float>::infinity()};
  EXPECT_THAT(bind({fp8(), {"m.weight_scale", "F32", {1}, bytesOf(bad)}}),
              fails(CRIA_INVALID_ARGUMENT,
                    "'m.weight_scale' has a scale that is not finite"));
}

namespace {

/// The numbers of one matrix in groups of columns, and what they mean in f64.
struct Int4 {
  uint64_t groupCount;
  std::vector<uint32_t> groups; // by column

  static Int4 of(uint64_t count) {
    Int4 made = {count, {}};
    for (uint64_t k = 0; k < columns; ++k)
      made.groups.push_back(static_cast<uint32_t>(k * count / columns));
    return made;
  }
  uint32_t q(uint64_t row, uint64_t column) const {
    return (row * 7 + column * 3 + row * column) % 16;
  }
  uint32_t zero(uint64_t group, uint64_t row) const {
    return 1 + (group * 5 + row) % 15;
  }
  /// Exact in f16.
  double scale(uint64_t group, uint64_t row) const {
    return (1 + static_cast<double>((group * 11 + row) % 64)) / 256;
  }
  std::vector<float> expected() const {
    std::vector<float> values;
    for (uint64_t n = 0; n < int4Rows; ++n)
      for (uint64_t k = 0; k < columns; ++k) {
        uint64_t g = groups[k];
        double difference = static_cast<double>(q(n, k)) - zero(g, n);
        values.push_back(static_cast<float>(difference * scale(g, n)));
      }
    return values;
  }
  std::string scaleBytes() const {
    std::vector<uint16_t> halves;
    for (uint64_t g = 0; g < groupCount; ++g)
      for (uint64_t n = 0; n < int4Rows; ++n)
        halves.push_back(narrowToF16(static_cast<float>(scale(g, n))));
    return bytesOf(halves);
  }
  std::vector<TestTensor> gptq(bool withGroups = true) const;
  std::vector<TestTensor> awq() const;

  static constexpr uint64_t int4Rows = 264; // more than are decoded at once
};

} // namespace

// Packed as AutoGPTQ's QuantLinear.pack does: 8 rows of the transpose in one
// number, the first lowest; zeros less one.
std::vector<TestTensor> Int4::gptq(bool withGroups) const {
  std::vector<uint32_t> words(columns / 8 * int4Rows);
  std::vector<uint32_t> zeros(groupCount * int4Rows / 8);
  for (uint64_t n = 0; n < int4Rows; ++n) {
    for (uint64_t k = 0; k < columns; ++k)
      words[k / 8 * int4Rows + n] |= q(n, k) << k % 8 * 4;
    for (uint64_t g = 0; g < groupCount; ++g)
      zeros[(g * int4Rows + n) / 8] |= (zero(g, n) - 1) << n % 8 * 4;
  }
  std::vector<TestTensor> tensors = {
      {"m.qweight", "I32", {columns / 8, int4Rows}, bytesOf(words)},
      {"m.qzeros", "I32", {groupCount, int4Rows / 8}, bytesOf(zeros)},
      {"m.scales", "F16", {groupCount, int4Rows}, scaleBytes()}};
  if (withGroups)
    tensors.push_back({"m.g_idx", "I32", {columns}, bytesOf(groups)});
  return tensors;
}

// Packed as AutoAWQ's WQLinear_GEMM.from_linear does: place i of a number has
// column order[i] of eight.
std::vector<TestTensor> Int4::awq() const {
  static constexpr int order[8] = {0, 2, 4, 6, 1, 3, 5, 7};
  std::vector<uint32_t> words(columns * int4Rows / 8);
  std::vector<uint32_t> zeros(groupCount * int4Rows / 8);
  for (uint64_t n = 0; n < int4Rows; n += 8)
    for (int i = 0; i < 8; ++i) {
      uint64_t from = n + static_cast<uint64_t>(order[i]);
      for (uint64_t k = 0; k < columns; ++k)
        words[(k * int4Rows + n) / 8] |= q(from, k) << i * 4;
      for (uint64_t g = 0; g < groupCount; ++g)
        zeros[(g * int4Rows + n) / 8] |= zero(g, from) << i * 4;
    }
  return {{"m.qweight", "I32", {columns, int4Rows / 8}, bytesOf(words)},
          {"m.qzeros", "I32", {groupCount, int4Rows / 8}, bytesOf(zeros)},
          {"m.scales", "F16", {groupCount, int4Rows}, scaleBytes()}};
}

namespace {

class PackedInt4Test : public PackedTest {
protected:
  void SetUp() override { useRows(Int4::int4Rows); }
  void useRows(uint64_t count) {
    open(withMatrix(fakeManifest(), "m", count, columns, "f32"));
  }
  void expectMatrix(const Int4 &numbers) {
    EXPECT_EQ(matrix(Int4::int4Rows * columns), numbers.expected());
  }
};

} // namespace

TEST_F(PackedInt4Test, GptqInGroups) {
  for (uint64_t count : {1, 5}) // one, of all columns, and of 32
    for (bool withGroups : {true, false}) {
      Int4 numbers = Int4::of(count);
      Status status = bind(numbers.gptq(withGroups));
      ASSERT_TRUE(status.ok()) << status.message();
      expectMatrix(numbers);
      EXPECT_THAT(model->warnings(),
                  ElementsAre("1 tensor dequantized from gptq to f32"));
    }
}

// With act-order the columns of a group are anywhere.
TEST_F(PackedInt4Test, GptqInTheOrderOfActivations) {
  Int4 numbers = Int4::of(5);
  for (uint64_t k = 0; k < columns; ++k)
    numbers.groups[k] = static_cast<uint32_t>(k * 3 % 5);
  ASSERT_TRUE(bind(numbers.gptq()).ok());
  expectMatrix(numbers);
}

// AutoGPTQ adds the one to 4 bits: of a stored 15 it makes 0.
TEST_F(PackedInt4Test, GptqZerosWrap) {
  Int4 numbers = Int4::of(1);
  std::vector<TestTensor> tensors = numbers.gptq();
  tensors[1].bytes.assign(tensors[1].bytes.size(), '\xff');
  ASSERT_TRUE(bind(tensors).ok());
  EXPECT_EQ(matrix(1)[0],
            static_cast<float>(numbers.q(0, 0) * numbers.scale(0, 0)));
  EXPECT_EQ(matrix(2)[1],
            static_cast<float>(numbers.q(0, 1) * numbers.scale(0, 0)));
}

TEST_F(PackedInt4Test, AwqInGroups) {
  for (uint64_t count : {1, 5}) {
    Int4 numbers = Int4::of(count);
    Status status = bind(numbers.awq());
    ASSERT_TRUE(status.ok()) << status.message();
    expectMatrix(numbers);
    EXPECT_THAT(model->warnings(),
                ElementsAre("1 tensor dequantized from awq to f32"));
  }
}

TEST_F(PackedInt4Test, RefusesTensorsThatDoNotFit) {
  struct Case {
    size_t tensor; // of qweight, qzeros, scales, g_idx
    const char *type;
    Shape shape;
    const char *message;
  };
  uint64_t n = Int4::int4Rows;
  const Case cases[] = {
      {0, "I32", {columns, n}, "'m.qweight' is [160, 264], expected eight"},
      {0, "I32", {n, columns / 8}, "'m.qweight' is [264, 20], expected eight"},
      {0, "I32", {columns, n / 8}, "'m.qweight' is [160, 33], expected eight"},
      {0, "F32", {columns / 8, n}, "'m.qweight' is 'F32', expected I32"},
      {1, "I32", {5, n}, "'m.qzeros' is [5, 264], expected [5, 33]"},
      {1, "I32", {4, n / 8}, "'m.qzeros' is [4, 33], expected [5, 33]"},
      {1, "F32", {5, n / 8}, "'m.qzeros' is 'F32', expected I32"},
      {2, "F16", {}, "'m.scales' is [], expected groups of equal size"},
      {2, "F16", {0, n}, "'m.scales' is [0, 264], expected groups of equal"},
      {2, "F16", {5, n, 1}, "'m.scales' is [5, 264, 1], expected [5, 264]"},
      {2, "I16", {5, n}, "'m.scales' is 'I16', expected F16, BF16 or F32"},
      {3, "I32", {columns / 8}, "'m.g_idx' is [20], expected [160]"},
      {3, "I64", {columns}, "'m.g_idx' is 'I64', expected I32"},
  };
  for (const Case &bad : cases) {
    std::vector<TestTensor> tensors = Int4::of(5).gptq();
    TestTensor &tensor = tensors[bad.tensor];
    tensor.type = bad.type;
    tensor.shape = bad.shape;
    uint64_t bytes = bad.type[1] == '6' ? 8 : bad.type[1] == '3' ? 4 : 2;
    for (uint64_t size : bad.shape)
      bytes *= size;
    tensor.bytes.resize(bytes);
    EXPECT_THAT(bind(tensors), fails(CRIA_FAILED_PRECONDITION, bad.message));
  }
  std::vector<TestTensor> tensors = Int4::of(3).awq();
  EXPECT_THAT(bind(tensors),
              fails(CRIA_FAILED_PRECONDITION,
                    "'m.scales' is [3, 264], expected groups of equal size of "
                    "160 columns"));
  tensors.pop_back();
  EXPECT_THAT(bind(tensors), fails(CRIA_FAILED_PRECONDITION,
                                   "'m.scales' is missing for 'm.qweight'"));
}

TEST_F(PackedInt4Test, RefusesGroupsThatAreNotThere) {
  for (uint32_t bad : {5u, 0xffffffffu}) {
    Int4 numbers = Int4::of(5);
    std::vector<TestTensor> tensors = numbers.gptq();
    numbers.groups[7] = bad;
    tensors[3].bytes = bytesOf(numbers.groups);
    EXPECT_THAT(bind(tensors), fails(CRIA_INVALID_ARGUMENT,
                                     bad == 5 ? "'m.g_idx' has group 5 of 5"
                                              : "'m.g_idx' has group -1 of 5"));
  }
}

// Eight elements share a number.
TEST_F(PackedInt4Test, RefusesRowsThatAreNoWholeNumbers) {
  useRows(Int4::int4Rows - 1);
  EXPECT_THAT(bind(Int4::of(1).gptq()),
              fails(CRIA_FAILED_PRECONDITION, "'m.qweight' is [20, 264]"));
}
