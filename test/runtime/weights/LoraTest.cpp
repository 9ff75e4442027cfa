#include "runtime/weights/lora/Lora.h"

#include "runtime/session/Model.h"
#include "runtime/weights/Binding.h"
#include "runtime/weights/Floats.h"
#include "test/runtime/Fixtures.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>

using namespace cria;
using namespace cria::test;
using testing::ElementsAre;

namespace {

/// An adapter for "embed.weight", (5, 2), of the fake model.
class LoraTest : public testing::Test {
protected:
  void SetUp() override {
    auto opened =
        Artifact::open(folder.write("a.cria", artifactOf(fakeManifest())));
    ASSERT_TRUE(opened.ok()) << opened.status().message();
    artifact = *opened;
    folder.write("model.safetensors", safetensorsOf(fakeTensors()));
  }

  /// Binds the checkpoint with what `config` and `tensors` are now.
  Status bind(const std::vector<double> &scales = {1}, bool unmerged = false) {
    folder.write("adapter_config.json", config.dump());
    folder.write("adapter_model.safetensors", safetensorsOf(tensors));
    WeightSource source;
    source.checkpoint = folder.path();
    source.loraUnmerged = unmerged;
    for (double scale : scales)
      source.loras.push_back({folder.path(), scale});
    auto bound = Model::load(artifact, source);
    if (bound.ok())
      model = *bound;
    return bound.status();
  }
  /// The same with another member of the config.
  Status bindWith(const std::string &key, const nlohmann::json &value) {
    nlohmann::json before = config;
    config[key] = value;
    Status status = bind();
    config = before;
    return status;
  }
  /// The first `count` elements of a slot.
  std::vector<float> slot(size_t index, size_t count) const {
    std::vector<float> values(count);
    memcpy(values.data(), model->slots()[index], sizeof(float) * count);
    return values;
  }
  std::vector<float> embedding() const { return slot(0, 10); }

  /// An artifact with room for adapters of rank 3 at "embed".
  void makeRoom() {
    nlohmann::json manifest = fakeManifest();
    manifest["slots"] = 7;
    for (auto [letter, slot] : {std::pair('A', 5), std::pair('B', 6)})
      manifest["weights"].push_back(
          {{"symbol", std::string("embed_lora_") + letter},
           {"name", std::string("embed.lora_") + letter + ".weight"},
           {"count", 0},
           {"first", 0},
           {"shape", letter == 'A' ? std::vector{3, 2} : std::vector{5, 3}},
           {"dtype", "f32"},
           {"slot", slot},
           {"adapter", true}});
    auto opened = Artifact::open(folder.write("b.cria", artifactOf(manifest)));
    ASSERT_TRUE(opened.ok()) << opened.status().message();
    artifact = *opened;
  }

  /// An artifact whose "matrix", (2, 32), is f32, and whose "head" in blocks is
  /// tied to it; the checkpoint has zeros there, and the adapter is for it.
  void useBlocks() {
    nlohmann::json manifest =
        withMatrix(withMatrix(fakeManifest(), "matrix", 2, 32, "f32"), "head",
                   2, 32, "q8_0");
    manifest["weights"].back()["tied"] = "matrix";
    auto opened = Artifact::open(folder.write("c.cria", artifactOf(manifest)));
    ASSERT_TRUE(opened.ok()) << opened.status().message();
    artifact = *opened;
    tensors = {{"base_model.model.matrix.lora_A.weight",
                "F32",
                {1, 32},
                bytesOf(std::vector<float>(32, 1))},
               {"base_model.model.matrix.lora_B.weight",
                "F32",
                {2, 1},
                bytesOf<float>({3, 5})}};
  }

  TemporaryFolder folder;
  std::string file = folder.path("adapter_model.safetensors");
  std::shared_ptr<const Artifact> artifact;
  std::shared_ptr<const Model> model;
  nlohmann::json config = {{"peft_type", "LORA"}, {"r", 1}, {"lora_alpha", 2}};
  std::vector<TestTensor> tensors = {{"base_model.model.embed.lora_A.weight",
                                      "F32",
                                      {1, 2},
                                      bytesOf<float>({1, 10})},
                                     {"base_model.model.embed.lora_B.weight",
                                      "F32",
                                      {5, 1},
                                      bytesOf<float>({0, 1, 2, 3, 4})}};
};

} // namespace

// 0 1 2 ... 9, plus alpha / r = 2 times B A.
TEST_F(LoraTest, AddsTheScaledProduct) {
  ASSERT_TRUE(bind().ok());
  EXPECT_THAT(embedding(), ElementsAre(0, 1, 4, 23, 8, 45, 12, 67, 16, 89));
  EXPECT_GE(model->copiedBytes(), 40u);
}

// transformers 5 calls the head of GPT-NeoX as other families' heads.
TEST_F(LoraTest, FindsTheHeadByTheNameOfItsModule) {
  nlohmann::json manifest = fakeManifest();
  manifest["weights"][0]["name"] = "embed_out.weight";
  auto opened = Artifact::open(folder.write("n.cria", artifactOf(manifest)));
  ASSERT_TRUE(opened.ok()) << opened.status().message();
  artifact = *opened;
  for (const char *part : {"A", "B"})
    tensors[*part - 'A'].name =
        std::string("base_model.model.lm_head.lora_") + part + ".weight";
  std::vector<TestTensor> checkpoint = fakeTensors();
  checkpoint[0].name = "embed_out.weight";
  folder.write("model.safetensors", safetensorsOf(checkpoint));
  Status status = bind();
  ASSERT_TRUE(status.ok()) << status.message();
  EXPECT_THAT(embedding(), ElementsAre(0, 1, 4, 23, 8, 45, 12, 67, 16, 89));
}

TEST_F(LoraTest, AddsSeveralAdaptersWithScales) {
  ASSERT_TRUE(bind({0.5, -2, 1}).ok());
  EXPECT_THAT(embedding(), ElementsAre(0, 1, 1, -7, 2, -15, 3, -23, 4, -31));
}

TEST_F(LoraTest, KeepsAdaptersApartWhereThereIsRoom) {
  EXPECT_THAT(bind({1}, true),
              fails(CRIA_FAILED_PRECONDITION,
                    "adapters of 'embed' have rank 1, the artifact keeps 0 "
                    "apart there: compile it with --lora-rank=1"));
  makeRoom();
  ASSERT_TRUE(bind({1, -0.5}, true).ok());
  EXPECT_EQ(model->mappedBytes() + model->copiedBytes(), 48u + 24 + 60);
  EXPECT_THAT(embedding(), ElementsAre(0, 1, 2, 3, 4, 5, 6, 7, 8, 9));
  EXPECT_THAT(slot(5, 6), ElementsAre(1, 10, 1, 10, 0, 0));
  EXPECT_THAT(slot(6, 9), ElementsAre(0, 0, 0, 2, -1, 0, 4, -2, 0));
  EXPECT_THAT(bind({1, 1, 1, 1}, true),
              fails(CRIA_FAILED_PRECONDITION,
                    "adapters of 'embed' have rank 4, the artifact keeps 3 "
                    "apart there: compile it with --lora-rank=4"));
}

// Of no meaning to an adapter, or merged all the same.
TEST_F(LoraTest, FillsRoomWithZerosOtherwise) {
  makeRoom();
  for (const std::vector<double> &scales :
       {std::vector<double>{}, {0.5, 0.5}}) {
    ASSERT_TRUE(bind(scales, scales.empty()).ok());
    EXPECT_EQ(embedding()[2], scales.empty() ? 2 : 4);
    EXPECT_EQ(slot(5, 6), std::vector<float>(6, 0));
    EXPECT_EQ(slot(6, 15), std::vector<float>(15, 0));
  }
}

TEST_F(LoraTest, TakesRankAndAlphaFromPatterns) {
  config["r"] = 7;
  EXPECT_THAT(bind(), fails(CRIA_FAILED_PRECONDITION,
                            file + ": does not fit the artifact, 2 tensors: "
                                   "'base_model.model.embed.lora_A.weight' is "
                                   "[1, 2], expected [7, 2]; "));
  config["rank_pattern"] = {{"embed", 1}, {"bed", 3}};
  config["alpha_pattern"] = {{"^e.b[e]d", 4}, {"x|y", 5}, {"^mbed$", 6}};
  ASSERT_TRUE(bind().ok());
  EXPECT_EQ(embedding()[2], 2 + 4);
  config["alpha_pattern"]["embed"] = 3;
  EXPECT_THAT(bind(),
              fails(CRIA_UNIMPLEMENTED, "'alpha_pattern' has two values for "
                                        "'embed'"));
}

TEST_F(LoraTest, DividesByTheRootOfTheRankWhereAsked) {
  config["use_rslora"] = true;
  config["r"] = 4;
  tensors[0].shape = {4, 2};
  tensors[0].bytes = bytesOf<float>({1, 0, 1, 0, 1, 0, 1, 0});
  tensors[1].shape = {5, 4};
  tensors[1].bytes = bytesOf(std::vector<float>(20, 1));
  ASSERT_TRUE(bind().ok());
  EXPECT_EQ(embedding()[2], 2 + 4); // 2 / sqrt(4) * 4 ones
}

TEST_F(LoraTest, AddsToRandomWeights) {
  WeightSource source;
  source.seed = 3;
  auto plain = Model::load(artifact, source);
  ASSERT_TRUE(bind().ok());
  source.loras = {{folder.path(), 1}};
  auto changed = Model::load(artifact, source);
  ASSERT_TRUE(plain.ok() && changed.ok());
  float before[4], after[4];
  memcpy(before, (*plain)->slots()[0], sizeof(before));
  memcpy(after, (*changed)->slots()[0], sizeof(after));
  EXPECT_EQ(after[0], before[0]);
  EXPECT_EQ(after[3], before[3] + 20);
}

// As in PEFT, an adapter changes its module alone, not the one that is tied to
// it, whether the checkpoint has a tensor of its own for that or not.
TEST_F(LoraTest, QuantizesTheSumOfATiedHead) {
  useBlocks();
  std::vector<TestTensor> checkpoint = fakeTensors();
  checkpoint.push_back(
      {"matrix.weight", "F32", {2, 32}, bytesOf(std::vector<float>(64, 0))});
  for (const char *module : {"matrix", "head"})
    for (bool hasOwn : {false, true}) {
      std::vector<TestTensor> all = checkpoint;
      all.push_back(checkpoint.back());
      all.back().name = "head.weight";
      folder.write("model.safetensors",
                   safetensorsOf(hasOwn ? all : checkpoint));
      for (TestTensor &tensor : tensors)
        tensor.name = "base_model.model." + std::string(module) +
                      tensor.name.substr(tensor.name.find(".lora_"));
      Status status = bind();
      ASSERT_TRUE(status.ok()) << status.message();
      std::vector<float> matrix = slot(5, 64), head(64);
      convertElements(static_cast<const std::byte *>(model->slots()[6]),
                      DType::Q8_0, reinterpret_cast<std::byte *>(head.data()),
                      DType::F32, 64);
      std::vector<float> &changed = module[0] == 'm' ? matrix : head;
      EXPECT_EQ(&changed == &head ? matrix : head, std::vector<float>(64, 0));
      for (size_t i = 0; i < changed.size(); ++i)
        EXPECT_NEAR(changed[i], i < 32 ? 6 : 10, 0.01) << i;
    }
}

/// An artifact with a head that is tied to the embedding, in slot 5.
static nlohmann::json tiedManifest() {
  nlohmann::json manifest = fakeManifest();
  nlohmann::json head = manifest["weights"][0];
  head.update({{"symbol", "head"},
               {"name", "head.weight"},
               {"slot", 5},
               {"tied", "embed"}});
  manifest["weights"].push_back(head);
  manifest["slots"] = 6;
  return manifest;
}

// W + 2 (B A) of a head is W + 2 (A B) transposed of an embedding.
TEST_F(LoraTest, ChangesOneOfTwoTiedModules) {
  auto opened =
      Artifact::open(folder.write("t.cria", artifactOf(tiedManifest())));
  ASSERT_TRUE(opened.ok()) << opened.status().message();
  artifact = *opened;
  std::vector<float> plain = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9},
                     changed = {0, 1, 4, 23, 8, 45, 12, 67, 16, 89};
  for (const char *letter : {"A", "B"})
    tensors[*letter - 'A'].name =
        std::string("base_model.model.head.lora_") + letter + ".weight";
  tensors.push_back({"base_model.model.head.base_layer.weight",
                     "F32",
                     {5, 2},
                     fakeTensors()[0].bytes});
  Status status = bind();
  ASSERT_TRUE(status.ok()) << status.message();
  EXPECT_EQ(slot(0, 10), plain);
  EXPECT_EQ(slot(5, 10), changed);
  EXPECT_THAT(model->warnings(), testing::IsEmpty());
  tensors = {{"base_model.model.model.embed.lora_embedding_A",
              "F32",
              {1, 5},
              tensors[1].bytes},
             {"base_model.model.model.embed.lora_embedding_B",
              "F32",
              {2, 1},
              tensors[0].bytes}};
  status = bind();
  ASSERT_TRUE(status.ok()) << status.message();
  EXPECT_EQ(slot(0, 10), changed);
  EXPECT_EQ(slot(5, 10), plain);
  tensors.pop_back();
  EXPECT_THAT(bind(), fails(CRIA_FAILED_PRECONDITION,
                            "embed.lora_embedding_B' is missing"));
}

// A module that is saved whole counts in place of the checkpoint's; so does
// what is below a pair.
TEST_F(LoraTest, ReplacesWhatIsSavedWhole) {
  std::vector<float> ones(10, 1);
  std::vector<TestTensor> pair = tensors;
  config["modules_to_save"] = {"norm", "embed"};
  tensors = {{"base_model.model.embed.weight", "F32", {5, 2}, bytesOf(ones)},
             {"base_model.model.model.layers.1.norm.weight",
              "F32",
              {2},
              bytesOf<float>({3, 5})}};
  ASSERT_TRUE(bind().ok());
  EXPECT_EQ(embedding(), ones);
  EXPECT_EQ(static_cast<const uint16_t *>(model->slots()[2])[1],
            narrowToBf16(5));
  EXPECT_THAT(bind({0.5}), fails(CRIA_UNIMPLEMENTED,
                                 "replaces the model's, expected a scale of 1, "
                                 "got 0.5"));
  EXPECT_THAT(bind({1}, true),
              fails(CRIA_UNIMPLEMENTED, "cannot be kept apart"));
  EXPECT_TRUE(bind({1, 1}).ok()); // twice the same
  config["modules_to_save"].push_back("lm_head");
  EXPECT_THAT(bind(), fails(CRIA_FAILED_PRECONDITION,
                            "has no tensor of 'lm_head', which "
                            "'modules_to_save' names"));
  tensors[0].shape = {2, 5};
  config.erase("modules_to_save");
  EXPECT_THAT(bind(), fails(CRIA_FAILED_PRECONDITION,
                            "embed.weight' is [2, 5], expected [5, 2]"));
  tensors = pair;
  tensors.push_back({"base_model.model.embed.base_layer.weight",
                     "F32",
                     {5, 2},
                     bytesOf(ones)});
  ASSERT_TRUE(bind({0.5}).ok());
  EXPECT_THAT(embedding(), ElementsAre(1, 1, 2, 11, 3, 21, 4, 31, 5, 41));
  WeightSource source;
  source.loras = {{folder.path(), 1}};
  EXPECT_THAT(Model::load(artifact, source).status(),
              fails(CRIA_UNIMPLEMENTED, "the weights are random"));
}

TEST_F(LoraTest, RefusesTwoAdaptersThatReplaceATensorByOthers) {
  TemporaryFolder others[2];
  WeightSource source;
  source.checkpoint = folder.path();
  for (size_t i = 0; i < 2; ++i) {
    others[i].write("adapter_config.json", config.dump());
    others[i].write("adapter_model.safetensors",
                    safetensorsOf({{"base_model.model.embed.weight",
                                    "F32",
                                    {5, 2},
                                    bytesOf(std::vector<float>(10, i))}}));
    source.loras.push_back({others[i].path(), 1});
  }
  EXPECT_THAT(Model::load(artifact, source).status(),
              fails(CRIA_FAILED_PRECONDITION,
                    "tensor 'base_model.model.embed.weight' differs from that "
                    "of another adapter, " +
                        others[0].path()));
}

// Every key counts, changes nothing, or is refused by name.
TEST_F(LoraTest, RefusesWhatChangesTheResultOtherwise) {
  const std::string path = folder.path("adapter_config.json");
  for (auto &[key, value] : std::vector<std::pair<const char *, std::string>>{
           {"peft_type", R"("LOHA")"},
           {"use_dora", "true"},
           {"lora_bias", "true"},
           {"bias", R"("all")"},
           {"bias", R"("lora_only")"},
           {"layer_replication", "[[0,2]]"},
           {"trainable_token_indices", "[1]"},
           {"alora_invocation_tokens", "[1,2]"},
           {"use_qalora", "true"},
           {"target_parameters", R"(["a.b"])"},
           {"init_lora_weights", R"("pissa")"},
           {"init_lora_weights", R"("loftq")"},
           {"init_lora_weights", R"("olora")"},
           {"use_bdlora", R"({"blocks":2})"},
           {"of_tomorrow", "0"}})
    EXPECT_THAT(bindWith(key, nlohmann::json::parse(value)),
                fails(CRIA_UNIMPLEMENTED, path + ": '" + key + "' is " + value +
                                              ", which is not supported"));
  for (auto &[key, value] : std::vector<std::pair<const char *, std::string>>{
           {"use_dora", "false"},
           {"modules_to_save", "null"},
           {"modules_to_save", "[]"},
           {"bias", R"("none")"},
           {"of_tomorrow", "{}"},
           {"init_lora_weights", R"("gaussian")"},
           {"init_lora_weights", "true"},
           {"lora_dropout", "0.5"},
           {"target_modules", R"(["q_proj"])"}})
    EXPECT_TRUE(bindWith(key, nlohmann::json::parse(value)).ok()) << key;
}

TEST_F(LoraTest, RefusesValuesOutOfRange) {
  for (auto &[key, value] : std::vector<std::pair<const char *, std::string>>{
           {"r", "0"},
           {"r", "8.5"},
           {"r", "65537"},
           {"lora_alpha", R"("16")"},
           {"use_rslora", "1"},
           {"rank_pattern", "[]"},
           {"rank_pattern", R"({"a": 0})"},
           {"alpha_pattern", R"({"a": null})"},
           {"alpha_pattern", R"({"(": 1})"}})
    EXPECT_THAT(bindWith(key, nlohmann::json::parse(value)),
                fails(CRIA_INVALID_ARGUMENT, key));
  EXPECT_THAT(bindWith("alpha_pattern", {{"\\w+", 1}}),
              fails(CRIA_UNIMPLEMENTED, "'alpha_pattern.\\w+' has '\\w' in a "
                                        "pattern, which is not supported"));
  config.erase("r");
  EXPECT_THAT(bind(), fails(CRIA_INVALID_ARGUMENT, "'r' is missing"));
  config = nlohmann::json::array();
  EXPECT_THAT(bind(), fails(CRIA_INVALID_ARGUMENT, "adapter_config.json"));
}

// A pattern whose repetitions nest takes milliseconds a module.
TEST_F(LoraTest, OneBudgetPaysForThePatternsOfAllModules) {
  nlohmann::json manifest = fakeManifest();
  manifest["weights"][1]["name"] = "{}." + std::string(400, 'a') + ".weight";
  manifest["weights"][1]["shape"] = {2, 2};
  manifest["weights"][1]["count"] = 200;
  manifest["rope"][0]["slot"] = 201;
  manifest["slots"] = 203;
  auto opened = Artifact::open(folder.write("c.cria", artifactOf(manifest)));
  ASSERT_TRUE(opened.ok()) << opened.status().message();
  artifact = *opened;
  config["rank_pattern"] = {{"(?:(?:(?:a|aa|aaa)*)*)*[bc]", 1}};
  auto adapt = [&](uint64_t first, uint64_t count) {
    tensors.clear();
    for (uint64_t i = first; i < first + count; ++i) {
      std::string name = "base_model.model." + std::to_string(i) + "." +
                         std::string(400, 'a') + ".lora_";
      tensors.push_back({name + "A.weight", "F32", {1, 2}, {}});
      tensors.push_back({name + "B.weight", "F32", {2, 1}, {}});
      for (size_t last : {tensors.size() - 2, tensors.size() - 1})
        tensors[last].bytes = bytesOf<float>({1, 1});
    }
    folder.write("adapter_config.json", config.dump());
    folder.write("adapter_model.safetensors", safetensorsOf(tensors));
    WeightSource source;
    source.loras.push_back({folder.path(), 1});
    return Loras::open(source, artifact->manifest()).status();
  };
  EXPECT_TRUE(adapt(0, 2).ok());
  EXPECT_THAT(adapt(0, 200), fails(CRIA_INVALID_ARGUMENT,
                                   ")*)*[bc]' takes too long to match"));
}

TEST_F(LoraTest, NamesTensorsThatDoNotFit) {
  tensors[1].shape = {1, 5};
  EXPECT_THAT(bind(), fails(CRIA_FAILED_PRECONDITION,
                            file + ": does not fit the artifact, 1 tensor: "
                                   "'base_model.model.embed.lora_B.weight' is "
                                   "[1, 5], expected [5, 1]"));
  tensors[1].shape = {5, 1};
  tensors[1].type = "I32";
  EXPECT_THAT(bind(), fails(CRIA_FAILED_PRECONDITION,
                            "lora_B.weight' is I32, expected a float type"));
  TestTensor b = tensors[1];
  tensors.pop_back();
  EXPECT_THAT(bind(),
              fails(CRIA_FAILED_PRECONDITION,
                    "'base_model.model.embed.lora_B.weight' is missing"));
  tensors = {{"base_model.model.head.lora_A.weight", "F32", {1, 2}, "12345678"},
             {"base_model.model.head.lora_B.weight", "F32", {1, 1}, "1234"},
             {"base_model.model.layers.1.norm.lora_A.weight", "F32", {0}, ""},
             {"base_model.model.layers.1.norm.lora_B.weight", "F32", {0}, ""}};
  EXPECT_THAT(bind(),
              fails(CRIA_FAILED_PRECONDITION,
                    "2 tensors: 'base_model.model.head.lora_A.weight' is for "
                    "'head.weight', which the model does not have; "
                    "'base_model.model.layers.1.norm.lora_A.weight' is for "
                    "'layers.1.norm.weight', which is [2], no matrix"));
}

TEST_F(LoraTest, RefusesTensorsThatAreNoPair) {
  for (const char *name :
       {"base_model.model.embed.lora_magnitude_vector",
        "base_model.model.embed.lora_B.bias", "base_model.model.score.weight",
        "embed.lora_A.weight", "base_model.model..lora_A.weigh"}) {
    std::vector<TestTensor> before = tensors;
    tensors.push_back({name, "F32", {1}, "1234"});
    EXPECT_THAT(bind(), fails(CRIA_UNIMPLEMENTED,
                              file + ": tensor '" + std::string(name) +
                                  "' is not supported: expected"));
    tensors = before;
  }
  tensors.clear();
  EXPECT_THAT(bind(), fails(CRIA_INVALID_ARGUMENT, file + ": has no tensors"));
}

TEST_F(LoraTest, NamesFilesThatAreMissing) {
  ASSERT_TRUE(bind().ok());
  WeightSource source;
  source.loras = {{folder.path("none"), 1}};
  EXPECT_THAT(Model::load(artifact, source).status(),
              fails(CRIA_NOT_FOUND, "none/adapter_config.json"));
  source.loras = {{folder.path(), NAN}};
  EXPECT_THAT(Model::load(artifact, source).status(),
              fails(CRIA_INVALID_ARGUMENT, "scale is not a finite number"));
}

TEST(Lora, ParsesFolderAndScale) {
  auto parsed = parseLora("a=b=-0.5e1");
  ASSERT_TRUE(parsed.ok());
  EXPECT_EQ(parsed->folder, "a=b");
  EXPECT_EQ(parsed->scale, -5);
  EXPECT_EQ(parseLora("x/y")->scale, 1);
  for (const char *text : {"", "=1", "a=", "a=b", "a=1x", "a=[1]", "a=nan"})
    EXPECT_EQ(parseLora(text).status().code(), CRIA_INVALID_ARGUMENT) << text;
}

// Ranges of every kind against the sum in f64, for shapes beyond a tile.
TEST(LoraUpdate, MergesAnyRangeOfElements) {
  constexpr uint64_t rows = 37, columns = 301, rank = 6, size = rows * columns;
  std::mt19937 random(7);
  std::uniform_real_distribution<float> draw(-1, 1);
  LoraUpdate update(rows, columns);
  update.widen(rank);
  update.allocate();
  std::vector<float> weight(size), merged(size);
  std::vector<double> exact(size);
  for (uint64_t k = 0; k < rank; ++k) {
    for (uint64_t j = 0; j < columns; ++j)
      update.ofA(k, j) = draw(random);
    for (uint64_t i = 0; i < rows; ++i)
      update.ofB(i, k) = draw(random);
  }
  for (uint64_t e = 0; e < size; ++e) {
    exact[e] = weight[e] = draw(random);
    for (uint64_t k = 0; k < rank; ++k)
      exact[e] += static_cast<double>(update.ofB(e / columns, k)) *
                  update.ofA(k, e % columns);
  }
  TemporaryFolder folder;
  auto file = File::open(folder.write("weight", bytesOf(weight)));
  ASSERT_TRUE(file.ok());
  ElementsPtr sum = plus(stored(*file, 0, DType::F32), update);
  EXPECT_FALSE(sum->inPlace(DType::F32));
  for (uint64_t begin = 0, count = 1; begin < size;
       begin += count, count *= 3) {
    count = std::min(count, size - begin);
    auto *to = reinterpret_cast<std::byte *>(&merged[begin]);
    ASSERT_TRUE(sum->write(begin, count, DType::F32, to).ok());
  }
  for (uint64_t e = 0; e < size; ++e)
    ASSERT_NEAR(merged[e], exact[e], 2e-6) << e;
  std::vector<uint16_t> narrow(size);
  ASSERT_TRUE(sum->write(0, size, DType::BF16,
                         reinterpret_cast<std::byte *>(narrow.data()))
                  .ok());
  for (uint64_t e = 0; e < size; ++e)
    ASSERT_EQ(narrow[e], narrowToBf16(merged[e])) << e;
}

// As the sum in f32, quantized: whatever the range of blocks.
TEST(LoraUpdate, QuantizesTheSum) {
  constexpr uint64_t rows = 35, columns = 544, size = rows * columns;
  LoraUpdate update(rows, columns);
  update.widen(1);
  update.allocate();
  std::vector<float> weight(size), values(size);
  for (uint64_t e = 0; e < size; ++e) {
    update.ofA(0, e % columns) = std::sin(static_cast<float>(e % columns));
    update.ofB(e / columns, 0) = static_cast<float>(e / columns);
    weight[e] = std::cos(static_cast<float>(e * e));
  }
  TemporaryFolder folder;
  auto file = File::open(folder.write("weight", bytesOf(weight)));
  ASSERT_TRUE(file.ok());
  ElementsPtr sum = plus(stored(*file, 0, DType::F32), update);
  auto *to = reinterpret_cast<std::byte *>(values.data());
  ASSERT_TRUE(sum->write(0, size, DType::F32, to).ok());
  for (DType type : {DType::Q8_0, DType::Q4_0}) {
    std::vector<std::byte> blocks(bytesOf(type, size)), expected(blocks.size());
    convertElements(to, DType::F32, expected.data(), type, size);
    for (uint64_t begin = 0, count = 32; begin < size;
         begin += count, count *= 3) {
      count = std::min(count, size - begin);
      std::byte *piece = blocks.data() + bytesOf(type, begin);
      ASSERT_TRUE(sum->write(begin, count, type, piece).ok());
    }
    EXPECT_EQ(blocks, expected) << dtypeName(type);
  }
}
