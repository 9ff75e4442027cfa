// Floats of 8 bits.
#include "runtime/weights/packed/Packed.h"

#include "runtime/weights/Floats.h"
#include "test/runtime/weights/PackedFixture.h"

#include <cmath>
#include <limits>

using namespace cria;
using namespace cria::test;
using testing::ElementsAre;

namespace {

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

// A quarter of each block of 128 shares its scale, whose f16 is rounded.
TEST_F(PackedTest, Fp8StaysInBlocksOfFp8) {
  use("fp8");
  std::string bytes = fp8Bytes();
  bytes[40] = '\x7f'; // NaN, in the second block
  TestTensor tensor = {"m.weight", "F8_E4M3", {rows, columns}, bytes};
  ASSERT_TRUE(bind({tensor, scaleTensor("_scale_inv", {2, 2})}).ok());
  auto *block = static_cast<const std::byte *>(model->slots()[5]);
  for (uint64_t i = 0; i < bytes.size(); i += 32, block += 34) {
    uint64_t row = i / columns, column = i % columns;
    uint16_t scale;
    memcpy(&scale, block, sizeof(scale));
    EXPECT_EQ(memcmp(block + 2, &bytes[i], 32), 0) << i;
    if (i == 32)
      EXPECT_TRUE(std::isnan(widenF16(scale)));
    else
      EXPECT_EQ(scale, narrowToF16(256 * scaleAt(row / 128 * 2 + column / 128)))
          << i;
  }
  EXPECT_THAT(model->warnings(),
              ElementsAre("1 tensor converted from f8_e4m3 to fp8"));
}

// 256 times such a scale is no f16.
TEST_F(PackedTest, RefusesScalesThatBlocksOfFp8CannotHave) {
  use("fp8");
  std::vector<float> large = {1, 1, 300, 1};
  EXPECT_THAT(
      bind({fp8(), {"m.weight_scale_inv", "F32", {2, 2}, bytesOf(large)}}),
      fails(CRIA_INVALID_ARGUMENT, "'m.weight_scale_inv' has the scale "
                                   "300.000000, expected less than 256 in "
                                   "blocks of fp8"));
}

// Scales count: equal numbers of 8 bits are not enough.
TEST_F(PackedTest, TiedWeightsShareTensorsThatAreEqual) {
  nlohmann::json manifest =
      withMatrix(fakeManifest(), "m", rows, columns, "f32");
  nlohmann::json tied = manifest["weights"].back();
  tied.update({{"tied", tied["symbol"]},
               {"symbol", "tied"},
               {"name", "tied.weight"},
               {"slot", 6}});
  manifest["weights"].push_back(tied);
  manifest["slots"] = 7;
  open(manifest);
  TestTensor own = fp8(), scale = scaleTensor("_scale", {rows});
  TestTensor other = own, otherScale = scale;
  other.name = "tied.weight";
  otherScale.name = "tied.weight_scale";
  ASSERT_TRUE(bind({own, scale, other, otherScale}).ok());
  EXPECT_EQ(model->slots()[6], model->slots()[5]);
  otherScale.bytes[0] ^= 1;
  ASSERT_TRUE(bind({own, scale, other, otherScale}).ok());
  EXPECT_NE(model->slots()[6], model->slots()[5]);
  EXPECT_THAT(model->warnings(), testing::Contains(testing::HasSubstr(
                                     "'tied.weight' differs from 'm.weight'")));
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
  const char *both = "'m.weight' is F8_E4M3, expected one of "
                     "'m.weight_scale_inv' and 'm.weight_scale', got ";
  refused({fp8()}, both + std::string("neither"));
  refused({fp8(), scaleTensor("_scale", {1}), scaleTensor("_scale_inv", {1})},
          both + std::string("both"));
  for (const char *zeros : {"_zero_point", "_zp"})
    refused({fp8(), scaleTensor("_scale", {1}), scaleTensor(zeros, {1})},
            "'m.weight" + std::string(zeros) + "' is not supported");
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

// The config says how many elements share a scale.
TEST_F(PackedTest, Fp8IsAsTheConfigSays) {
  auto uses = [&](const nlohmann::json &config, const Shape &shape) {
    configure(config);
    return bind({fp8(), scaleTensor("_scale", shape)});
  };
  nlohmann::json blocks = {{"quant_method", "fp8"},
                           {"weight_block_size", {64, 100}}};
  ASSERT_TRUE(uses(blocks, {3, 2}).ok());
  EXPECT_EQ(matrix(), fp8Expected(64, 100, 2));
  EXPECT_THAT(uses(blocks, {2, 2}),
              fails(CRIA_FAILED_PRECONDITION,
                    "'m.weight_scale' is [2, 2], expected one a block of 64 x "
                    "100 of [130, 160], as " +
                        folder.path("config.json") + " says"));
  nlohmann::json round = {{"quant_method", "auto-round"},
                          {"packing_format", "auto_round:fp8"},
                          {"group_size", -1}};
  EXPECT_TRUE(uses(round, {rows}).ok());
  EXPECT_THAT(uses(round, {1}),
              fails(CRIA_FAILED_PRECONDITION, "expected one scale a row of"));
  auto group = [&](const nlohmann::json &weights) {
    nlohmann::json all = {{"num_bits", 8}, {"type", "float"}};
    all.update(weights);
    return nlohmann::json{{"quant_method", "compressed-tensors"},
                          {"format", "float-quantized"},
                          {"config_groups", {{"group_0", {{"weights", all}}}}}};
  };
  EXPECT_TRUE(uses(group({{"strategy", "channel"}}), {rows, 1}).ok());
  EXPECT_TRUE(uses(group({{"strategy", "tensor"}}), {1}).ok());
  EXPECT_THAT(
      uses(group({{"strategy", "tensor"}}), {rows, 1}),
      fails(CRIA_FAILED_PRECONDITION, "is [130, 1], expected one scale of"));
  EXPECT_TRUE(
      uses(group({{"strategy", "group"}, {"group_size", 32}}), {rows, 5}).ok());
  EXPECT_EQ(matrix(), fp8Expected(1, 32, 5));
  EXPECT_TRUE(
      uses(group({{"strategy", "block"}, {"block_structure", {64, 80}}}),
           {3, 2})
          .ok());
  EXPECT_EQ(matrix(), fp8Expected(64, 80, 2));
  EXPECT_THAT(uses({{"quant_method", "gptq"}}, {1}),
              fails(CRIA_FAILED_PRECONDITION,
                    "'m.weight' is stored as f8_e4m3, expected gptq, as "));
}

namespace {

/// Two experts (3, 64), which a checkpoint has transposed, in slots 5 and 6.
nlohmann::json withExperts() {
  nlohmann::json manifest = withMatrix(fakeManifest(), "m", 3, 64, "f32");
  manifest["weights"].back().update({{"experts", 2}, {"transposed", true}});
  manifest["slots"] = 7;
  return manifest;
}

/// The value of a 4-bit float of OCP's E2M1.
float fp4Value(int bits) {
  int exponent = bits >> 1 & 3, mantissa = bits & 1;
  double value =
      exponent ? std::ldexp(2 + mantissa, exponent - 2) : 0.5 * mantissa;
  return static_cast<float>(bits & 8 ? -value : value);
}

TestTensor fp4Blocks(const Shape &shape) {
  std::string bytes;
  for (uint64_t i = 0; i < 2 * 3 * 64 / 2; ++i)
    bytes += static_cast<char>(i * 37);
  return {"m.weight_blocks", "U8", shape, bytes};
}

TestTensor fp4Scales(const Shape &shape) {
  std::string bytes;
  for (uint64_t i = 0; i < 2 * 3 * 2; ++i)
    bytes += static_cast<char>(120 + i);
  return {"m.weight_scales", "U8", shape, bytes};
}

} // namespace

TEST_F(PackedTest, Mxfp4OfExperts) {
  open(withExperts());
  TestTensor blocks = fp4Blocks({2, 3, 2, 16}), scales = fp4Scales({2, 3, 2});
  std::vector<float> expected, columnsFirst;
  for (uint64_t i = 0; i < 2 * 3 * 64; ++i)
    expected.push_back(std::ldexp(
        fp4Value(static_cast<unsigned char>(blocks.bytes[i / 2]) >> i % 2 * 4),
        static_cast<unsigned char>(scales.bytes[i / 32]) - 127));
  for (uint64_t e = 0; e < 2; ++e)
    for (uint64_t k = 0; k < 64; ++k)
      for (uint64_t n = 0; n < 3; ++n)
        columnsFirst.push_back(expected[(e * 3 + n) * 64 + k]);
  TestTensor plain = {"m.weight", "F32", {2, 64, 3}, bytesOf(columnsFirst)};
  for (bool isPacked : {true, false}) {
    ASSERT_TRUE(
        bind(isPacked ? std::vector{blocks, scales} : std::vector{plain}).ok());
    if (isPacked) {
      EXPECT_THAT(model->warnings(),
                  ElementsAre("1 tensor dequantized from mxfp4 to f32"));
    }
    for (size_t e = 0; e < 2; ++e)
      EXPECT_EQ(memcmp(model->slots()[5 + e], &expected[e * 3 * 64],
                       3 * 64 * sizeof(float)),
                0);
  }
}

TEST_F(PackedTest, RefusesMxfp4ThatDoesNotFit) {
  open(withExperts());
  auto refused = [&](const std::vector<TestTensor> &tensors,
                     const std::string &message) {
    EXPECT_THAT(bind(tensors), fails(CRIA_FAILED_PRECONDITION, message));
  };
  TestTensor blocks = fp4Blocks({2, 3, 2, 16}), scales = fp4Scales({2, 3, 2});
  const char *both = "expected 'm.weight_scales', U8 of [2, 3, 2], and "
                     "'m.weight_blocks', U8 of [2, 3, 2, 16]";
  refused({blocks}, both);
  refused({scales}, both);
  refused({blocks, fp4Scales({2, 6})}, both);
  refused({fp4Blocks({2, 3, 32}), scales}, both);
  refused({{"m.weight", "F32", {2, 3, 64}, std::string(2 * 3 * 64 * 4, '\0')}},
          "'m.weight' is [2, 3, 64], expected [2, 64, 3]");
  configure({{"quant_method", "fp8"}});
  refused({blocks, scales},
          "'m.weight_blocks' is stored as mxfp4, expected f8_e4m3, as ");
}
