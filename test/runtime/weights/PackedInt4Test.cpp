// Integers of 4 bits.
#include "runtime/weights/Floats.h"
#include "test/runtime/weights/PackedFixture.h"

#include <optional>

using namespace cria;
using namespace cria::test;
using testing::ElementsAre;

namespace {

/// The numbers of one matrix in groups of columns, and what they mean in f64.
struct Int4 {
  uint64_t groupCount;
  std::vector<uint32_t> groups;       // by column
  std::optional<uint32_t> zeros = {}; // what every zero is

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
    return zeros.value_or(1 + (group * 5 + row) % 15);
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
  std::vector<TestTensor> gptq(bool withGroups = true, uint32_t less = 1) const;
  std::vector<TestTensor> awq() const;
  std::vector<TestTensor> byRow(bool withZeros) const;

  static constexpr uint64_t int4Rows = 264; // more than are decoded at once
};

} // namespace

// Packed as AutoGPTQ's QuantLinear.pack does: 8 rows of the transpose in one
// number, the first lowest; zeros less one.
std::vector<TestTensor> Int4::gptq(bool withGroups, uint32_t less) const {
  std::vector<uint32_t> words(columns / 8 * int4Rows);
  std::vector<uint32_t> zeros(groupCount * int4Rows / 8);
  for (uint64_t n = 0; n < int4Rows; ++n) {
    for (uint64_t k = 0; k < columns; ++k)
      words[k / 8 * int4Rows + n] |= q(n, k) << k % 8 * 4;
    for (uint64_t g = 0; g < groupCount; ++g)
      zeros[(g * int4Rows + n) / 8] |= (zero(g, n) - less) << n % 8 * 4;
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

// Packed as compressed-tensors' pack_to_int32 does: 8 columns of a row in one
// number, and 8 rows of the zeros.
std::vector<TestTensor> Int4::byRow(bool withZeros) const {
  std::vector<uint32_t> words(int4Rows * columns / 8);
  std::vector<uint32_t> packedZeros(int4Rows / 8 * groupCount);
  std::vector<uint16_t> halves(int4Rows * groupCount);
  for (uint64_t n = 0; n < int4Rows; ++n) {
    for (uint64_t k = 0; k < columns; ++k)
      words[(n * columns + k) / 8] |= q(n, k) << k % 8 * 4;
    for (uint64_t g = 0; g < groupCount; ++g) {
      packedZeros[n / 8 * groupCount + g] |= zero(g, n) << n % 8 * 4;
      halves[n * groupCount + g] = narrowToF16(static_cast<float>(scale(g, n)));
    }
  }
  std::vector<int64_t> shape = {int4Rows, columns};
  std::vector<TestTensor> tensors = {
      {"m.weight_packed", "I32", {int4Rows, columns / 8}, bytesOf(words)},
      {"m.weight_scale", "F16", {int4Rows, groupCount}, bytesOf(halves)},
      {"m.weight_shape", "I64", {2}, bytesOf(shape)}};
  if (withZeros)
    tensors.push_back({"m.weight_zero_point",
                       "I32",
                       {int4Rows / 8, groupCount},
                       bytesOf(packedZeros)});
  return tensors;
}

namespace {

class PackedInt4Test : public PackedTest {
protected:
  void SetUp() override { useRows(Int4::int4Rows); }
  void useRows(uint64_t count) {
    open(withMatrix(fakeManifest(), "m", count, columns, "f32"));
  }
  static nlohmann::json
  gptqConfig(const nlohmann::json &more = nlohmann::json::object()) {
    nlohmann::json config = {{"quant_method", "gptq"}, {"bits", 4}};
    config.update(more);
    return config;
  }
  /// The config of a group of compressed-tensors.
  static nlohmann::json rowConfig(const nlohmann::json &weights) {
    nlohmann::json all = {{"num_bits", 4}, {"type", "int"}};
    all.update(weights);
    return {{"quant_method", "compressed-tensors"},
            {"format", "pack-quantized"},
            {"config_groups", {{"group_0", {{"weights", all}}}}}};
  }
  /// The one warning about `config` and `tensors`, "" if there is none.
  std::string warningOf(const nlohmann::json &config,
                        const std::vector<TestTensor> &tensors) {
    configure(config);
    Status status = bind(tensors);
    EXPECT_TRUE(status.ok()) << status.message();
    return status.ok() && model->warnings().size() == 2 ? model->warnings()[1]
                                                        : "";
  }
  void expectRefusal(const nlohmann::json &config,
                     const std::vector<TestTensor> &tensors,
                     const std::string &message) {
    configure(config);
    Status status = bind(tensors);
    EXPECT_FALSE(status.ok());
    EXPECT_THAT(status.message(), testing::HasSubstr(message));
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

// GPTQModel's "gptq_v2" and AutoRound's own format store zeros as they are.
TEST_F(PackedInt4Test, GptqOfVersion2) {
  Int4 numbers = Int4::of(5);
  const nlohmann::json configs[] = {
      gptqConfig({{"checkpoint_format", "gptq_v2"}, {"sym", false}}),
      gptqConfig({{"format", "gptq_v2"}, {"checkpoint_format", "gptq_v2"}}),
      {{"quant_method", "auto-round"},
       {"packing_format", "auto_round:gptqmodel"},
       {"bits", 4},
       {"sym", false}}};
  for (const nlohmann::json &config : configs) {
    EXPECT_EQ(warningOf(config, numbers.gptq(true, 0)), "");
    expectMatrix(numbers);
  }
}

// `sym` says that zeros are 8; some writers store 8 in version 1, too.
TEST_F(PackedInt4Test, SymmetricZerosAreEight) {
  Int4 numbers = Int4::of(5);
  numbers.zeros = 8;
  for (const char *format : {"gptq", "gptq_v2"})
    for (uint32_t less : {0, 1}) {
      std::string warning =
          warningOf(gptqConfig({{"checkpoint_format", format}, {"sym", true}}),
                    numbers.gptq(true, less));
      expectMatrix(numbers);
      if (less == (std::string(format) == "gptq"))
        EXPECT_EQ(warning, "");
      else
        EXPECT_EQ(warning,
                  concat({"1 weight: zeros are stored as ", 8 - less,
                          ", which is ", less ? 7 : 9,
                          " in the format of the config; they are read as 8, "
                          "for the config says that quantization is "
                          "symmetric"}));
    }
  expectRefusal(gptqConfig({{"sym", true}}), Int4::of(5).gptq(),
                "'m.qzeros' has zeros from 1 to 15, expected 8, for the config "
                "says that quantization is symmetric");
  nlohmann::json awq = {{"quant_method", "awq"}, {"zero_point", false}};
  EXPECT_EQ(warningOf(awq, numbers.awq()), "");
  expectMatrix(numbers);
  expectRefusal(awq, Int4::of(5).awq(), "has zeros from 1 to 15, expected 8");
  // With `sym` false, 9 is meant.
  numbers.zeros = 9;
  EXPECT_EQ(warningOf(gptqConfig({{"sym", false}}), numbers.gptq()), "");
  expectMatrix(numbers);
}

TEST_F(PackedInt4Test, GuessesNoZeros) {
  Int4 numbers = Int4::of(5);
  numbers.zeros = 9;
  for (const nlohmann::json &config : {nlohmann::json(), gptqConfig()})
    expectRefusal(config, numbers.gptq(),
                  "'m.qzeros' has 8 everywhere, which is a zero of 9, or of 8 "
                  "if quantization is symmetric: expected a "
                  "quantization_config whose 'sym' says which");
}

TEST_F(PackedInt4Test, RefusesWhatTheConfigContradicts) {
  Int4 numbers = Int4::of(5);
  expectRefusal(gptqConfig({{"group_size", 64}}), numbers.gptq(),
                "'m.scales' has 5 groups of columns, expected 3 by a "
                "'group_size' of 64, as " +
                    folder.path("config.json") + " says");
  expectRefusal(gptqConfig({{"group_size", -1}}), numbers.gptq(),
                "'m.scales' has 5 groups of columns, expected 1 by a "
                "'group_size' of -1, as ");
  expectRefusal(gptqConfig(), numbers.awq(),
                "'m.qweight' is stored as awq, expected gptq, as ");
  expectRefusal({{"quant_method", "awq"}}, numbers.gptq(false),
                "'m.qweight' is stored as gptq, expected awq, as ");
  expectRefusal(gptqConfig({{"desc_act", true}}), numbers.gptq(false),
                "'m.qweight' has no g_idx beside it, expected one");
  expectRefusal(gptqConfig({{"bits", 8}}), numbers.gptq(),
                "'quantization_config.bits' is 8, which is not supported: "
                "expected 4");
  folder.write("config.json", "[]");
  EXPECT_THAT(bind(numbers.gptq()),
              fails(CRIA_INVALID_ARGUMENT, "config.json: expected an object"));
}

// The tensor with the groups is what the numbers were made by.
TEST_F(PackedInt4Test, WarnsOfAnOrderThatTheConfigDenies) {
  Int4 numbers = Int4::of(5);
  nlohmann::json config = gptqConfig({{"desc_act", false}});
  EXPECT_EQ(warningOf(config, numbers.gptq()), "");
  for (uint64_t k = 0; k < columns; ++k)
    numbers.groups[k] = static_cast<uint32_t>(k * 3 % 5);
  EXPECT_EQ(warningOf(config, numbers.gptq()),
            "1 weight: columns are in the order of activations, as g_idx says, "
            "though the config says that they are not");
  expectMatrix(numbers);
}

TEST_F(PackedInt4Test, CompletesTheConfigByTheOlderFile) {
  Int4 numbers = Int4::of(5);
  numbers.zeros = 8;
  folder.write("quantize_config.json", R"({"bits":4,"sym":true})");
  EXPECT_NE(warningOf({{"quant_method", "gptq"}}, numbers.gptq(true, 0)), "");
  EXPECT_NE(warningOf(nullptr, numbers.gptq(true, 0)), "");
  expectMatrix(numbers);
  expectRefusal(gptqConfig({{"sym", false}}), numbers.gptq(),
                "quantize_config.json: 'sym' is true, expected false, as "
                "quantization_config of config.json says");
}

TEST_F(PackedInt4Test, TakesTheArtifactsConfigWithoutAnother) {
  Int4 numbers = Int4::of(5);
  numbers.zeros = 8;
  nlohmann::json manifest =
      withMatrix(fakeManifest(), "m", Int4::int4Rows, columns, "f32");
  manifest["config"] = {{"quantization_config", gptqConfig({{"sym", true}})}};
  open(manifest);
  ASSERT_TRUE(bind(numbers.gptq(true, 0)).ok());
  expectMatrix(numbers);
  manifest["config"] = {
      {"quantization_config", gptqConfig({{"group_size", 16}})}};
  open(manifest);
  EXPECT_THAT(bind(numbers.gptq()), fails(CRIA_FAILED_PRECONDITION,
                                          "expected 10 by a 'group_size' of "
                                          "16, as the artifact's "
                                          "config says"));
}

TEST_F(PackedInt4Test, RowsOfCompressedTensors) {
  for (uint64_t count : {1, 5}) {
    nlohmann::json weights = {{"strategy", "channel"}};
    if (count == 5)
      weights = {{"strategy", "group"}, {"group_size", 32}};
    Int4 numbers = Int4::of(count);
    weights["symmetric"] = false;
    EXPECT_EQ(warningOf(rowConfig(weights), numbers.byRow(true)), "");
    expectMatrix(numbers);
    EXPECT_EQ(model->warnings()[0],
              "1 tensor dequantized from compressed-tensors to f32");
    expectRefusal(rowConfig(weights), numbers.byRow(false),
                  "'m.weight_packed' has no weight_zero_point beside it");
    weights["symmetric"] = true;
    expectRefusal(rowConfig(weights), numbers.byRow(true),
                  "'m.weight_packed' has a weight_zero_point beside it");
    numbers.zeros = 8;
    EXPECT_EQ(warningOf(rowConfig(weights), numbers.byRow(false)), "");
    expectMatrix(numbers);
  }
}

TEST_F(PackedInt4Test, RowsInTheOrderOfActivations) {
  Int4 numbers = Int4::of(5);
  nlohmann::json config = rowConfig({{"strategy", "group"},
                                     {"group_size", 32},
                                     {"symmetric", false},
                                     {"actorder", "group"}});
  expectRefusal(config, numbers.byRow(true), "has no g_idx beside it");
  for (uint64_t k = 0; k < columns; ++k)
    numbers.groups[k] = static_cast<uint32_t>(k * 3 % 5);
  std::vector<TestTensor> tensors = numbers.byRow(true);
  tensors.push_back(
      {"m.weight_g_idx", "I32", {columns}, bytesOf(numbers.groups)});
  EXPECT_EQ(warningOf(config, tensors), "");
  expectMatrix(numbers);
}

TEST_F(PackedInt4Test, RefusesRowsThatDoNotFit) {
  std::vector<TestTensor> tensors = Int4::of(5).byRow(true);
  std::vector<int64_t> shape = {columns, Int4::int4Rows};
  tensors[2].bytes = bytesOf(shape);
  EXPECT_THAT(bind(tensors),
              fails(CRIA_INVALID_ARGUMENT, "'m.weight_shape' says [160, 264], "
                                           "expected [264, 160]"));
  tensors[2].type = "F64";
  EXPECT_THAT(bind(tensors), fails(CRIA_FAILED_PRECONDITION,
                                   "'m.weight_shape' is 'F64', expected I64"));
  tensors.erase(tensors.begin() + 2);
  EXPECT_THAT(bind(tensors),
              fails(CRIA_FAILED_PRECONDITION,
                    "'m.weight_shape' is missing for 'm.weight_packed'"));
}
