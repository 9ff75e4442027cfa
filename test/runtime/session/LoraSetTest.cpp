#include "runtime/cria.h"

#include "runtime/session/Session.h"
#include "test/runtime/Fixtures.h"

#include <gtest/gtest.h>

using namespace cria;
using namespace cria::test;
using testing::HasSubstr;

namespace {

class LoraSetTest : public testing::Test {
protected:
  void SetUp() override {
    folder.write("model.safetensors", safetensorsOf(adaptedTensors()));
    first = writeAdapter(folder, "first", {1, 2, 2, 3});
    second = writeAdapter(folder, "second", {-4, 0.5, 0, 16});
    auto opened = Artifact::open(
        folder.write("a.cria", artifactOf(withAdapters(fakeManifest()))));
    ASSERT_TRUE(opened.ok()) << opened.status().message();
    artifact = *opened;
    model = load({});
  }

  /// A model with `loras` kept apart.
  std::shared_ptr<const Model> load(const std::vector<LoraSource> &loras) {
    WeightSource source;
    source.checkpoint = folder.path();
    source.loras = loras;
    source.loraUnmerged = true;
    auto loaded = Model::load(artifact, source);
    EXPECT_TRUE(loaded.ok()) << loaded.status().message();
    return *loaded;
  }
  std::shared_ptr<const LoraSet> set(const std::vector<LoraSource> &loras) {
    auto made = LoraSet::load(model, loras);
    EXPECT_TRUE(made.ok()) << made.status().message();
    return *made;
  }
  std::unique_ptr<Session> session(std::shared_ptr<const Model> of) {
    return std::move(*Session::create(std::move(of), 2));
  }
  /// The logits after each of `count` ids from `begin` on.
  std::vector<float> feed(Session &session, size_t begin, size_t count) {
    std::vector<float> logits(count * 5);
    EXPECT_TRUE(session
                    .feed(&ids[begin], static_cast<int64_t>(count),
                          CRIA_LOGITS_ALL, logits.data())
                    .ok());
    return logits;
  }

  TemporaryFolder folder;
  std::string first, second;
  std::shared_ptr<const Artifact> artifact;
  std::shared_ptr<const Model> model;
  std::vector<int32_t> ids = {1, 0, 4, 2, 3, 3, 1, 0, 2};
};

} // namespace

// Each session computes what it would alone, in a model with its set alone.
TEST_F(LoraSetTest, SessionsOfOneModelChooseTheirOwn) {
  std::vector<std::vector<LoraSource>> choices = {
      {{first, 1}}, {{second, 1}}, {{second, -0.5}}, {}};
  std::vector<std::unique_ptr<Session>> together, alone;
  for (const auto &choice : choices) {
    together.push_back(session(model));
    ASSERT_TRUE(
        together.back()->setLoras(choice.empty() ? nullptr : set(choice)).ok());
    alone.push_back(session(load(choice)));
  }
  for (size_t begin = 0; begin < 9; begin += 3)
    for (size_t i = 0; i < choices.size(); ++i)
      EXPECT_EQ(feed(*together[i], begin, 3), feed(*alone[i], begin, 3)) << i;
  EXPECT_EQ(together[0]->rewind(0).ok(), true);
  expectNear(feed(*together[0], 0, 9), fakeLogits(ids));
}

TEST_F(LoraSetTest, AChoiceHoldsForTheFeedsThatFollow) {
  auto choosing = session(model);
  std::vector<float> plain = feed(*choosing, 0, 2);
  ASSERT_TRUE(choosing->setLoras(set({{first, 1}})).ok());
  EXPECT_EQ(choosing->position(), 2);
  std::vector<float> all = fakeLogits(ids), next = feed(*choosing, 2, 1);
  expectNear(next, {all.begin() + 10, all.begin() + 15});
  ASSERT_TRUE(choosing->setLoras(nullptr).ok());
  ASSERT_TRUE(choosing->rewind(0).ok());
  EXPECT_EQ(feed(*choosing, 0, 2), plain);
  EXPECT_NE(plain[1], all[1]);
}

// Null is what the model was loaded with; a set of none adds nothing.
TEST_F(LoraSetTest, AModelMayHaveASetOfItsOwn) {
  auto plain = feed(*session(model), 0, 3);
  model = load({{first, 1}});
  auto choosing = session(model);
  auto own = feed(*choosing, 0, 3);
  EXPECT_NE(own, plain);
  ASSERT_TRUE(choosing->setLoras(set({})).ok());
  ASSERT_TRUE(choosing->rewind(0).ok());
  EXPECT_EQ(feed(*choosing, 0, 3), plain);
  ASSERT_TRUE(choosing->setLoras(nullptr).ok());
  ASSERT_TRUE(choosing->rewind(0).ok());
  EXPECT_EQ(feed(*choosing, 0, 3), own);
}

// Batches tell texts of one set from those of others by it.
TEST_F(LoraSetTest, HasANumberOfItsOwn) {
  uint64_t number = set({})->number(); // of a set that is gone
  EXPECT_GT(number, 0u);
  EXPECT_GT(set({})->number(), number);
}

TEST_F(LoraSetTest, RefusesWhatDoesNotFit) {
  EXPECT_THAT(LoraSet::load(model, {{first, 1}, {second, 1}}).status(),
              fails(CRIA_FAILED_PRECONDITION,
                    "have rank 2, the artifact keeps 1 apart there: compile it "
                    "with --lora-rank=2"));
  EXPECT_THAT(LoraSet::load(model, {{folder.path("none"), 1}}).status(),
              fails(CRIA_NOT_FOUND, "none/adapter_config.json"));
  EXPECT_THAT(session(load({}))->setLoras(set({})),
              fails(CRIA_INVALID_ARGUMENT, "of another model"));
}

TEST_F(LoraSetTest, IsAnObjectOfTheApi) {
  cria_error error;
  CRIA_INIT(&error);
  cria_artifact *opened = nullptr;
  cria_model *bound = nullptr;
  cria_session *session = nullptr;
  cria_lora_set *set = nullptr;
  ASSERT_EQ(cria_artifact_open(folder.path("a.cria").c_str(), &opened, &error),
            CRIA_OK);
  ASSERT_EQ(cria_model_bind(opened, folder.path().c_str(), &bound, &error),
            CRIA_OK);
  ASSERT_EQ(cria_session_create(bound, nullptr, &session, &error), CRIA_OK);
  EXPECT_EQ(cria_lora_set_create(bound, nullptr, 1, &set, &error),
            CRIA_INVALID_ARGUMENT);
  EXPECT_STREQ(error.message, "loras is NULL");
  cria_lora lora;
  CRIA_INIT(&lora);
  lora.folder = first.c_str();
  EXPECT_EQ(cria_lora_set_create(bound, &lora, 1, &set, &error),
            CRIA_INVALID_ARGUMENT);
  EXPECT_THAT(error.message, HasSubstr("lora->scale is 0"));
  lora.scale = 1;
  ASSERT_EQ(cria_lora_set_create(bound, &lora, 1, &set, &error), CRIA_OK)
      << error.message;
  EXPECT_EQ(cria_session_set_lora(nullptr, set, &error), CRIA_INVALID_ARGUMENT);
  ASSERT_EQ(cria_session_set_lora(session, set, &error), CRIA_OK);
  // The session keeps what it needs.
  cria_lora_set_free(&set);
  cria_lora_set_free(&set);
  cria_model_free(&bound);
  cria_artifact_free(&opened);
  std::vector<float> logits(45);
  ASSERT_EQ(cria_session_feed(session, ids.data(), 9, CRIA_LOGITS_ALL,
                              logits.data(), 45, &error),
            CRIA_OK);
  expectNear(logits, fakeLogits(ids));
  cria_session_free(&session);
}
