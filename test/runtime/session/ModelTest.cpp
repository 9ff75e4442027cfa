#include "runtime/session/Model.h"

#include "runtime/base/Limits.h"
#include "runtime/session/Preflight.h"
#include "runtime/weights/Floats.h"
#include "test/runtime/Fixtures.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

using namespace cria;
using namespace cria::test;
using testing::ElementsAre;
using testing::HasSubstr;

namespace {

class ModelTest : public testing::Test {
protected:
  void SetUp() override { use(fakeManifest()); }

  void use(const nlohmann::json &manifest) {
    auto opened = Artifact::open(folder.write("a.cria", artifactOf(manifest)));
    ASSERT_TRUE(opened.ok()) << opened.status().message();
    artifact = *opened;
  }
  /// Binds a checkpoint of `tensors`, the header padded by `padding` bytes.
  Status bind(const std::vector<TestTensor> &tensors, size_t padding = 0) {
    folder.write("model.safetensors", safetensorsOf(tensors, padding));
    auto bound = Model::bind(artifact, folder.path());
    if (bound.ok())
      model = *bound;
    return bound.status();
  }
  template <typename T> std::vector<T> slot(size_t index, size_t count) {
    std::vector<T> values(count);
    memcpy(values.data(), model->slots()[index], count * sizeof(T));
    return values;
  }

  TemporaryFolder folder;
  std::shared_ptr<const Artifact> artifact;
  std::shared_ptr<const Model> model;
};

} // namespace

// A header's length decides the alignment of the data: for one of four
// paddings everything is used in place.
TEST_F(ModelTest, UsesAlignedWeightsInPlaceAndCopiesOthers) {
  int inPlace = 0;
  for (size_t padding = 0; padding < 4; ++padding) {
    ASSERT_TRUE(bind(fakeTensors(), padding).ok());
    EXPECT_EQ(model->mappedBytes() + model->copiedBytes(), 48u);
    EXPECT_TRUE(model->warnings().empty());
    inPlace += model->copiedBytes() == 0;
    EXPECT_THAT(slot<float>(0, 3), ElementsAre(0, 1, 2));
    EXPECT_THAT(slot<uint16_t>(2, 2), ElementsAre(0x4000, 0x4040));
    for (size_t i = 0; i < 3; ++i)
      EXPECT_EQ(reinterpret_cast<uintptr_t>(model->slots()[i]) % (i ? 2 : 4),
                0u);
  }
  EXPECT_EQ(inPlace, 1);
}

TEST_F(ModelTest, ComputesRopeTables) {
  ASSERT_TRUE(bind(fakeTensors()).ok());
  for (size_t row = 0; row < 12; ++row) {
    EXPECT_EQ(slot<float>(3, 12)[row], std::cos(static_cast<float>(row)));
    EXPECT_EQ(slot<float>(4, 12)[row], std::sin(static_cast<float>(row)));
  }
}

TEST_F(ModelTest, ConvertsOtherFloatTypesAndSaysSo) {
  std::vector<TestTensor> tensors = fakeTensors();
  tensors[0] = {"embed.weight", "F16", {5, 2}, std::string(20, '\x3c')};
  std::vector<float> halfway = {1.00390625f, 1.01171875f}; // ties
  tensors[1] = {"layers.0.norm.weight", "F32", {2}, bytesOf(halfway)};
  ASSERT_TRUE(bind(tensors).ok());
  EXPECT_THAT(slot<float>(0, 1), ElementsAre(widenF16(0x3c3c)));
  EXPECT_THAT(slot<uint16_t>(1, 2), ElementsAre(0x3f80, 0x3f82));
  EXPECT_THAT(model->warnings(),
              ElementsAre("1 tensor converted from f32 to bf16, rounded to "
                          "nearest even",
                          "1 tensor converted from f16 to f32, exactly"));
}

TEST_F(ModelTest, ListsEveryMismatch) {
  std::vector<TestTensor> tensors = fakeTensors();
  tensors[0].shape = {2, 5};
  tensors[1].type = "I16";
  tensors.pop_back();
  EXPECT_THAT(bind(tensors),
              fails(CRIA_FAILED_PRECONDITION,
                    "does not fit the artifact, 3 tensors: 'embed.weight' is "
                    "[2, 5], expected [5, 2]; 'layers.0.norm.weight' is 'I16', "
                    "expected a float type; 'layers.1.norm.weight' is "
                    "missing"));
}

TEST_F(ModelTest, ListsTheFirstTenMismatchesAndTheirNumber) {
  nlohmann::json manifest = fakeManifest();
  manifest["weights"][1]["count"] = 30;
  manifest["weights"][1]["slot"] = 3;
  manifest["rope"][0]["slot"] = 1;
  manifest["slots"] = 33;
  use(manifest);
  EXPECT_THAT(bind({fakeTensors()[0]}),
              fails(CRIA_FAILED_PRECONDITION,
                    "'layers.9.norm.weight' is missing; and 20 more"));
}

TEST_F(ModelTest, WarnsOfExtraTensors) {
  std::vector<TestTensor> tensors = fakeTensors();
  tensors.push_back({"layers.0.rotary_emb.inv_freq", "F32", {1}, "1234"});
  tensors.push_back({"layers.1.norm.bias", "I8", {2}, "12"});
  tensors.push_back({"layers.norm.weight", "I8", {2}, "12"});
  tensors.push_back({"vision.layers.7.norm.weight", "I8", {2}, "12"});
  ASSERT_TRUE(bind(tensors).ok());
  EXPECT_THAT(model->warnings(),
              ElementsAre("3 tensors are not used: 'layers.1.norm.bias'; "
                          "'layers.norm.weight'; 'vision.layers.7.norm.weight'",
                          "1 tensor is not used (derived from the config): "
                          "'layers.0.rotary_emb.inv_freq'"));
}

// The layers after the last one that predict more tokens are no other model.
TEST_F(ModelTest, PassesOverLayersThatPredictMore) {
  nlohmann::json manifest = fakeManifest();
  manifest["config"] = {{"num_nextn_predict_layers", 1}};
  use(manifest);
  std::vector<TestTensor> tensors = fakeTensors();
  tensors.push_back({"layers.2.norm.weight", "I8", {2}, "12"});
  ASSERT_TRUE(bind(tensors).ok());
  EXPECT_THAT(model->warnings(),
              ElementsAre("1 tensor is not used: 'layers.2.norm.weight'"));
  tensors.push_back({"layers.3.norm.weight", "I8", {2}, "12"});
  EXPECT_THAT(bind(tensors), fails(CRIA_FAILED_PRECONDITION,
                                   "does not have 'layers.3'; --allow"));
}

// A checkpoint of a deeper model is another model: its text would be nonsense.
TEST_F(ModelTest, RefusesLayersBeyondTheArtifacts) {
  std::vector<TestTensor> tensors = fakeTensors();
  for (const char *name : {"model.layers.10.norm.weight", "layers.2.mlp.weight",
                           "layers.2.norm.weight"})
    tensors.push_back({name, "I8", {2}, "12"});
  EXPECT_THAT(
      bind(tensors),
      fails(CRIA_FAILED_PRECONDITION,
            "belongs to a model with more layers: the artifact does not "
            "have 'layers.2'; 'model.layers.10'; --allow-unused passes over "
            "them"));
  auto checkpoint = Checkpoint::open(folder.path());
  ASSERT_TRUE(checkpoint.ok());
  Binding binding = matchWeights(artifact->manifest(), *checkpoint);
  EXPECT_THAT(preflightReport(*artifact, binding, "here", 6, availableMemory()),
              HasSubstr("here: 2 layers that the artifact does not have\n"
                        "  'layers.2'\n  'model.layers.10'\n"));
  WeightSource source;
  source.checkpoint = folder.path();
  source.allowUnused = true;
  auto allowed = Model::load(artifact, source);
  ASSERT_TRUE(allowed.ok()) << allowed.status().message();
  EXPECT_THAT((*allowed)->warnings(),
              ElementsAre("3 tensors are not used: 'layers.2.mlp.weight'; "
                          "'layers.2.norm.weight'; "
                          "'model.layers.10.norm.weight'"));
}

/// The fake model with a head that is tied to the embedding, in slot 5.
static nlohmann::json tiedManifest() {
  nlohmann::json manifest = fakeManifest();
  nlohmann::json head = manifest["weights"][0];
  head.update({{"symbol", "head"},
               {"name", "lm_head.weight"},
               {"slot", 5},
               {"tied", "embed"}});
  manifest["weights"].push_back(head);
  manifest["slots"] = 6;
  return manifest;
}

TEST_F(ModelTest, SharesTheEmbeddingWithAHeadThatIsTied) {
  use(tiedManifest());
  std::vector<TestTensor> tensors = fakeTensors();
  for (int times = 0; times < 2; ++times) {
    ASSERT_TRUE(bind(tensors).ok());
    EXPECT_EQ(model->slots()[5], model->slots()[0]);
    EXPECT_EQ(model->mappedBytes() + model->copiedBytes(), 48u);
    EXPECT_TRUE(model->warnings().empty());
    tensors.push_back({"lm_head.weight", "F32", {5, 2}, tensors[0].bytes});
  }
  // The head alone.
  tensors.pop_back();
  tensors.erase(tensors.begin());
  ASSERT_TRUE(bind(tensors).ok());
  EXPECT_EQ(model->slots()[5], model->slots()[0]);
  EXPECT_EQ(model->mappedBytes() + model->copiedBytes(), 48u);
  EXPECT_TRUE(model->warnings().empty());
  EXPECT_EQ(memoryNeed(*artifact).weights, 48u);
  auto random = Model::random(artifact, 1);
  ASSERT_TRUE(random.ok());
  EXPECT_EQ((*random)->slots()[5], (*random)->slots()[0]);
}

TEST_F(ModelTest, UsesAHeadThatDiffersFromTheEmbeddingItIsTiedTo) {
  use(tiedManifest());
  std::vector<TestTensor> tensors = fakeTensors();
  std::vector<float> head(10, 0.5f);
  tensors.push_back({"lm_head.weight", "F32", {5, 2}, bytesOf(head)});
  ASSERT_TRUE(bind(tensors).ok());
  EXPECT_EQ(slot<float>(5, 10), head);
  EXPECT_THAT(slot<float>(0, 2), ElementsAre(0, 1));
  EXPECT_EQ(model->mappedBytes() + model->copiedBytes(), 88u);
  EXPECT_THAT(model->warnings(),
              ElementsAre("'lm_head.weight' differs from 'embed.weight', which "
                          "the config ties it to, and is used"));
  tensors.back() = {"lm_head.weight", "F32", {2}, "12345678"};
  EXPECT_THAT(bind(tensors), fails(CRIA_FAILED_PRECONDITION,
                                   "'lm_head.weight' is [2], expected [5, 2]"));
}

TEST_F(ModelTest, RefusesToTieWhatIsNotAlike) {
  for (const char *change :
       {R"({"tied": "norm"})", R"({"tied": "head"})", R"({"tied": "embed",
         "shape": [2, 5]})",
        R"({"tied": "embed", "rows": {"first": 0, "of": 5}})"}) {
    nlohmann::json manifest = tiedManifest();
    manifest["weights"][2].update(nlohmann::json::parse(change));
    auto opened = Artifact::open(folder.write("c.cria", artifactOf(manifest)));
    EXPECT_THAT(opened.status(),
                fails(CRIA_INVALID_ARGUMENT, "weights[2].tied"));
  }
}

TEST_F(ModelTest, ReportsABindingFromHeadersAlone) {
  std::vector<TestTensor> tensors = fakeTensors();
  tensors.pop_back();
  folder.write("model.safetensors", safetensorsOf(tensors));
  auto checkpoint = Checkpoint::open(folder.path());
  ASSERT_TRUE(checkpoint.ok());
  Binding binding = matchWeights(artifact->manifest(), *checkpoint);
  std::string text =
      preflightReport(*artifact, binding, "here", 6, availableMemory());
  EXPECT_THAT(text, HasSubstr("here: 1 tensors do not fit\n"));
  EXPECT_THAT(text, HasSubstr("  'layers.1.norm.weight' is missing\n"));
  EXPECT_THAT(text, HasSubstr("0.0 MiB of KV caches for 6 positions"));
  EXPECT_THAT(text, HasSubstr("longest context: 12 positions, the artifact's "
                              "max_seq; this machine's memory would hold "));
}

TEST_F(ModelTest, CountsMemoryByTheByte) {
  MemoryNeed need = memoryNeed(*artifact);
  EXPECT_EQ(need.weights, 48u);
  EXPECT_EQ(need.cachePerPosition, 4u);
  uint64_t all = need.total(12);
  EXPECT_EQ(all, need.total(0) + 48);
  EXPECT_EQ(need.longestContext(all), 12);
  EXPECT_EQ(need.longestContext(all - 1), 11);
  EXPECT_EQ(need.longestContext(47), 0);
  EXPECT_TRUE(fitsMemory(*artifact, 12, all).ok());
  EXPECT_THAT(fitsMemory(*artifact, 12, all - 1),
              fails(CRIA_RESOURCE_EXHAUSTED, "KV caches of 12 positions take"));
}

TEST_F(ModelTest, CountsRingsApartFromPositions) {
  nlohmann::json manifest = fakeManifest();
  manifest["caches"].push_back({{"symbol", "ring"},
                                {"bytes", 64},
                                {"shape", {1, 1, 8, 2}},
                                {"dtype", "f32"},
                                {"window", 5}});
  auto opened = Artifact::open(folder.write("r.cria", artifactOf(manifest)));
  ASSERT_TRUE(opened.ok()) << opened.status().message();
  MemoryNeed need = memoryNeed(**opened);
  EXPECT_EQ(need.rings, 64u);
  EXPECT_EQ(need.cachePerPosition, 4u);
  EXPECT_EQ(need.total(0), memoryNeed(*artifact).total(0) + 64 +
                               (*opened)->fileBytes() - artifact->fileBytes());
}

/// The fake model with a matrix in slot 5, of 45 times 256 elements and some
/// more, so that each core quantizes some.
static nlohmann::json quantizedManifest(const char *type) {
  return withMatrix(fakeManifest(), "matrix", 41, 288, type);
}

static std::vector<float> waves(size_t count) {
  std::vector<float> values;
  for (size_t i = 0; i < count; ++i)
    values.push_back(std::sin(static_cast<float>(i * i)));
  return values;
}

/// `values` as blocks.
static std::vector<uint8_t> blocksOf(const std::vector<float> &values,
                                     DType type) {
  std::vector<uint8_t> blocks(bytesOf(type, values.size()));
  convertElements(reinterpret_cast<const std::byte *>(values.data()),
                  DType::F32, reinterpret_cast<std::byte *>(blocks.data()),
                  type, values.size());
  return blocks;
}

TEST_F(ModelTest, QuantizesAndSaysSo) {
  std::vector<float> values = waves(41 * 288);
  std::vector<TestTensor> tensors = fakeTensors();
  tensors.push_back({"matrix.weight", "F32", {41, 288}, bytesOf(values)});
  for (DType type : {DType::Q8_0, DType::Q4_0}) {
    std::string name = dtypeName(type);
    use(quantizedManifest(name.c_str()));
    ASSERT_TRUE(bind(tensors).ok());
    std::vector<uint8_t> blocks = blocksOf(values, type);
    EXPECT_EQ(slot<uint8_t>(5, blocks.size()), blocks);
    EXPECT_EQ(model->mappedBytes() + model->copiedBytes(), 48 + blocks.size());
    EXPECT_THAT(model->warnings(),
                ElementsAre("1 tensor quantized from f32 to " + name));
  }
}

TEST_F(ModelTest, TellsHowFarItQuantized) {
  use(quantizedManifest("q8_0"));
  uint64_t last = 0, all = 0;
  WeightSource source;
  source.progress = [&](uint64_t done, uint64_t total) {
    EXPECT_LT(last, done);
    last = done;
    all = total;
  };
  ASSERT_TRUE(Model::load(artifact, source).ok());
  EXPECT_GT(all, 45u);
  EXPECT_EQ(last, all);
}

TEST_F(ModelTest, QuantizesRandomWeightsDrawnInF32) {
  use(quantizedManifest("f32"));
  auto drawn = Model::random(artifact, 42);
  ASSERT_TRUE(drawn.ok());
  model = *drawn;
  std::vector<float> values = slot<float>(5, 41 * 288);
  use(quantizedManifest("q4_0"));
  drawn = Model::random(artifact, 42);
  ASSERT_TRUE(drawn.ok());
  model = *drawn;
  std::vector<uint8_t> blocks = blocksOf(values, DType::Q4_0);
  EXPECT_EQ(slot<uint8_t>(5, blocks.size()), blocks);
}

/// A head in blocks, in slot 6, that is tied to a plain matrix.
static nlohmann::json tiedQuantizedManifest() {
  nlohmann::json manifest = quantizedManifest("bf16"), head;
  head = manifest["weights"][2];
  head.update({{"symbol", "head"},
               {"name", "lm_head.weight"},
               {"slot", 6},
               {"dtype", "q8_0"},
               {"tied", "matrix"}});
  manifest["weights"].push_back(head);
  manifest["slots"] = 7;
  return manifest;
}

TEST_F(ModelTest, QuantizesWhatATiedHeadShares) {
  use(tiedQuantizedManifest());
  std::vector<float> values = waves(41 * 288);
  std::vector<uint8_t> blocks = blocksOf(values, DType::Q8_0);
  std::vector<TestTensor> tensors = fakeTensors();
  tensors.push_back({"matrix.weight", "F32", {41, 288}, bytesOf(values)});
  for (int times = 0; times < 2; ++times) {
    ASSERT_TRUE(bind(tensors).ok());
    EXPECT_EQ(slot<uint8_t>(6, blocks.size()), blocks);
    EXPECT_EQ(slot<uint16_t>(5, 2)[1], narrowToBf16(values[1]));
    EXPECT_EQ(model->mappedBytes() + model->copiedBytes(),
              48 + values.size() * 2 + blocks.size());
    EXPECT_THAT(model->warnings(),
                ElementsAre("1 tensor converted from f32 to bf16, rounded to "
                            "nearest even",
                            "1 tensor quantized from f32 to q8_0"));
    tensors.push_back(tensors.back());
    tensors.back().name = "lm_head.weight";
  }
  EXPECT_EQ(memoryNeed(*artifact).weights,
            48 + values.size() * 2 + blocks.size());
  tensors = fakeTensors();
  EXPECT_THAT(bind(tensors), fails(CRIA_FAILED_PRECONDITION,
                                   "1 tensor: 'matrix.weight' is missing"));
}

TEST_F(ModelTest, QuantizesRandomWeightsOfAnotherType) {
  use(tiedQuantizedManifest());
  auto drawn = Model::random(artifact, 3);
  ASSERT_TRUE(drawn.ok());
  model = *drawn;
  std::vector<float> values;
  for (uint16_t bits : slot<uint16_t>(5, 41 * 288))
    values.push_back(widenBf16(bits));
  std::vector<uint8_t> blocks = blocksOf(values, DType::Q8_0);
  EXPECT_EQ(slot<uint8_t>(6, blocks.size()), blocks);
}

// Values computed once by the formula with Python's integers and doubles.
TEST_F(ModelTest, DrawsTheSameRandomWeightsEverywhere) {
  auto drawn = Model::random(artifact, 42);
  ASSERT_TRUE(drawn.ok());
  model = *drawn;
  EXPECT_EQ(model->copiedBytes(), 48u);
  EXPECT_THAT(slot<float>(0, 4), ElementsAre(0.0283439811f, 0.03078367f,
                                             -0.00509222364f, -0.00828379393f));
  EXPECT_THAT(slot<uint16_t>(1, 2), ElementsAre(0x3f7b, 0x3f73));
  EXPECT_THAT(slot<uint16_t>(2, 2), ElementsAre(0x3f70, 0x3f82));
  auto again = Model::random(artifact, 43);
  ASSERT_TRUE(again.ok());
  EXPECT_NE(*static_cast<const float *>((*again)->slots()[0]),
            slot<float>(0, 1)[0]);
}
