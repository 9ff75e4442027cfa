#include "runtime/Ranks.h"

#include "runtime/device/Sampler.h"
#include "runtime/session/Model.h"
#include "runtime/session/Session.h"
#include "runtime/weights/random/RandomWeights.h"
#include "test/runtime/Fixtures.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>

using namespace cria;
using namespace cria::test;
using testing::ElementsAre;

namespace {

// What the other of two ranks says.
std::vector<float> theirs; // logits, where all are put together
uint64_t theirBest;        // greedy

CriaRanks rankOfTwo(int rank) {
  CriaRanks ranks = {};
  ranks.rank = rank;
  ranks.size = 2;
  ranks.sum = [](void *, float *values, int64_t count) {
    for (int64_t i = 0; i < count; ++i)
      values[i] += theirs.at(static_cast<size_t>(i));
  };
  ranks.max = [](void *, uint64_t *values, int64_t count) {
    if (count == 1) // else it says which artifact and weights it has
      values[0] = std::max(values[0], theirBest);
  };
  ranks.broadcast = [](void *, void *, int64_t) {};
  return ranks;
}

/// What a rank sends of its best id.
uint64_t bestOf(float logit, uint32_t id) {
  uint32_t bits;
  memcpy(&bits, &logit, sizeof(bits));
  return uint64_t(bits | 1u << 31) << 32 | ~id; // of a positive logit
}

/// The fake model with a vocabulary of 10 that two ranks share, and three
/// matrices: (4, 6), half of its rows or columns for each rank, and rows 2
/// to 5 of (8, 3), half of them for each.
class RanksTest : public testing::Test {
protected:
  void SetUp() override {
    nlohmann::json manifest = fakeManifest();
    manifest["model"]["shards"] = 2;
    manifest["model"]["logits"] = 5;
    manifest["model"]["vocab_size"] = 10;
    manifest.erase("embedding");
    manifest = withMatrix(manifest, "rows", 2, 6, "f32");
    manifest["weights"].back()["split"] = "rows";
    manifest = withMatrix(manifest, "cols", 4, 3, "f32");
    manifest["weights"].back()["split"] = "cols";
    manifest = withMatrix(manifest, "fused", 2, 3, "f32");
    manifest["weights"].back()["split"] = "rows";
    manifest["weights"].back()["rows"] = {{"first", 2}, {"of", 8}};
    auto opened = Artifact::open(folder.write("a.cria", artifactOf(manifest)));
    ASSERT_TRUE(opened.ok()) << opened.status().message();
    artifact = *opened;
    std::vector<TestTensor> tensors = fakeTensors();
    std::vector<float> values;
    for (int i = 0; i < 24; ++i)
      values.push_back(static_cast<float>(i));
    for (const char *name : {"rows.weight", "cols.weight"})
      tensors.push_back({name, "F32", {4, 6}, bytesOf(values)});
    tensors.push_back({"fused.weight", "F32", {8, 3}, bytesOf(values)});
    folder.write("model.safetensors", safetensorsOf(tensors));
  }

  Status load(const CriaRanks *with, bool isRandom = false) {
    WeightSource source;
    source.checkpoint = folder.path();
    if (isRandom)
      source.checkpoint.reset();
    DeviceOptions device;
    device.kind = DeviceKind::Cpu;
    device.ranks = with;
    auto loaded = Model::load(artifact, source, device);
    if (loaded.ok())
      model = *loaded;
    return loaded.status();
  }
  std::vector<float> slot(size_t number, size_t count) const {
    auto *values = static_cast<const float *>(model->slots()[number]);
    return {values, values + count};
  }

  TemporaryFolder folder;
  std::shared_ptr<const Artifact> artifact;
  std::shared_ptr<const Model> model;
};

} // namespace

// Rows are used in place, columns copied.
TEST_F(RanksTest, BindsARanksShare) {
  CriaRanks first = rankOfTwo(0), second = rankOfTwo(1);
  ASSERT_TRUE(load(&first).ok());
  EXPECT_THAT(slot(5, 12), ElementsAre(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11));
  EXPECT_THAT(slot(6, 12),
              ElementsAre(0, 1, 2, 6, 7, 8, 12, 13, 14, 18, 19, 20));
  EXPECT_THAT(slot(7, 6), ElementsAre(6, 7, 8, 9, 10, 11));
  EXPECT_EQ(model->copiedBytes(), 12 * sizeof(float));
  ASSERT_TRUE(load(&second).ok());
  EXPECT_THAT(slot(5, 12),
              ElementsAre(12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23));
  EXPECT_THAT(slot(6, 12),
              ElementsAre(3, 4, 5, 9, 10, 11, 15, 16, 17, 21, 22, 23));
  EXPECT_THAT(slot(7, 6), ElementsAre(12, 13, 14, 15, 16, 17));
}

// Both ranks draw parts of the same random tensors.
TEST_F(RanksTest, DrawsARanksShare) {
  CriaRanks first = rankOfTwo(0), second = rankOfTwo(1);
  ASSERT_TRUE(load(&first, true).ok());
  std::vector<float> left = slot(6, 12);
  ASSERT_TRUE(load(&second, true).ok());
  std::vector<float> right = slot(6, 12), whole(24);
  ASSERT_TRUE(randomElements(DType::F32, "cols.weight", {4, 6}, 0)
                  ->write(0, 24, DType::F32,
                          reinterpret_cast<std::byte *>(whole.data()))
                  .ok());
  for (size_t row = 0; row < 4; ++row)
    for (size_t column = 0; column < 3; ++column) {
      EXPECT_EQ(left[row * 3 + column], whole[row * 6 + column]);
      EXPECT_EQ(right[row * 3 + column], whole[row * 6 + 3 + column]);
    }
}

TEST_F(RanksTest, RefusesAnotherNumberOfRanks) {
  CriaRanks three = rankOfTwo(0);
  three.size = 3;
  EXPECT_THAT(load(nullptr),
              fails(CRIA_FAILED_PRECONDITION,
                    "is for 2 ranks, expected 1, the processes"));
  EXPECT_THAT(load(&three),
              fails(CRIA_FAILED_PRECONDITION, "is for 2 ranks, expected 3"));
}

// Of equal logits the lowest id wins, whoever has it; what is not finite wins
// over all.
TEST_F(RanksTest, DrawsTheBestOfAllRanks) {
  std::vector<float> own = fakeLogits({1});
  float best = *std::max_element(own.begin(), own.end());
  auto ownId = static_cast<uint32_t>(std::max_element(own.begin(), own.end()) -
                                     own.begin());
  auto drawAs = [&](int rank) -> Result<int32_t> {
    CriaRanks ranks = rankOfTwo(rank);
    EXPECT_TRUE(load(&ranks).ok());
    auto session = Session::create(model, 1);
    EXPECT_TRUE(session.ok());
    SamplerOptions greedy;
    greedy.temperature = 0;
    auto sampler = Sampler::create(greedy, 10);
    int32_t id = 1;
    return (*session)->draw(&id, 1, *sampler);
  };
  theirBest = 0;
  EXPECT_EQ(*drawAs(0), static_cast<int32_t>(ownId));
  EXPECT_EQ(*drawAs(1), static_cast<int32_t>(ownId + 5));
  theirBest = bestOf(best, 2);
  EXPECT_EQ(*drawAs(1), 2);
  theirBest = bestOf(best, 7);
  EXPECT_EQ(*drawAs(0), static_cast<int32_t>(ownId));
  theirBest = bestOf(std::nextafter(best, 100.0f), 7);
  EXPECT_EQ(*drawAs(0), 7);
  theirBest = uint64_t(UINT32_MAX) << 32 | ~uint32_t(8);
  EXPECT_THAT(drawAs(0).status(),
              fails(CRIA_DATA_LOSS, "the logit of id 8 is nan"));
}

TEST_F(RanksTest, PutsLogitsTogether) {
  CriaRanks second = rankOfTwo(1);
  ASSERT_TRUE(load(&second).ok());
  auto session = Session::create(model, 1);
  ASSERT_TRUE(session.ok());
  theirs.assign(20, 0);
  for (size_t i = 0; i < 5; ++i)
    theirs[i] = theirs[10 + i] = static_cast<float>(i);
  std::vector<int32_t> ids = {1, 3};
  std::vector<float> logits(20), own = fakeLogits(ids), expected;
  for (size_t row = 0; row < 2; ++row) {
    for (size_t i = 0; i < 5; ++i)
      expected.push_back(static_cast<float>(i));
    expected.insert(expected.end(), own.begin() + 5 * row,
                    own.begin() + 5 * row + 5);
  }
  ASSERT_TRUE(
      (*session)->feed(ids.data(), 2, CRIA_LOGITS_ALL, logits.data()).ok());
  expectNear(logits, expected);
}
