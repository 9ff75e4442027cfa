#include "runtime/batch/Batch.h"

#include "runtime/session/Session.h"
#include "test/runtime/Fixtures.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <random>

using namespace cria;
using namespace cria::test;
using testing::ElementsAre;

namespace {

using Ids = std::vector<int32_t>;

/// What a sequence drew, and the logits that each id was drawn from.
struct Drawn {
  Ids ids;
  std::vector<std::vector<float>> logits;
  Finish finish = Finish::None;
  Status status;
};

class BatchTest : public testing::Test {
protected:
  void SetUp() override { use(fakePagedManifest(), fakeTensors()); }

  void use(const nlohmann::json &manifest, std::vector<TestTensor> tensors) {
    auto artifact =
        Artifact::open(folder.write("paged.cria", artifactOf(manifest)));
    ASSERT_TRUE(artifact.ok()) << artifact.status().message();
    folder.write("model.safetensors", safetensorsOf(tensors));
    auto bound = Model::bind(*artifact, folder.path());
    ASSERT_TRUE(bound.ok()) << bound.status().message();
    model = reference = *bound;
  }
  /// Window pages. Sessions alone have whole caches.
  void useWindows() {
    use(fakeWindowsManifest(40), fakeTensors());
    std::shared_ptr<const Model> alone = model;
    use(fakeWindowsManifest(), fakeTensors());
    reference = alone;
  }
  static int64_t used(const PagePool &pool) {
    return pool.pages() - pool.available();
  }
  /// Sixteen rows: prompts of up to 4 ids, a page, are short.
  void useManyRows() {
    nlohmann::json manifest = fakePagedManifest();
    manifest["batch"]["rows"] = 16;
    use(manifest, fakeTensors());
  }
  /// Logits of ids after id 4 are NaN.
  void useNan() {
    std::vector<TestTensor> tensors = fakeTensors();
    std::vector<float> embedding = {0, 1, 2, 3, 4, 5, 6, 7, NAN, NAN};
    tensors[0].bytes = bytesOf(embedding);
    use(fakePagedManifest(), tensors);
  }

  std::unique_ptr<Batch> batch(BatchOptions options = {}) {
    options.threads = 1;
    auto made = Batch::create(model, options);
    EXPECT_TRUE(made.ok()) << made.status().message();
    return std::move(*made);
  }
  /// A batch with this number of pages.
  std::unique_ptr<Batch> batchOf(int64_t pages, bool refuses = false,
                                 int64_t draftRows = 0) {
    BatchOptions options;
    options.pages = pages;
    options.refuses = refuses;
    options.draftRows = draftRows;
    return batch(options);
  }

  std::shared_ptr<Sampler> sampler(uint64_t seed) const {
    SamplerOptions options;
    options.temperature = 40;
    options.seed = seed;
    options.repetitionPenalty = 1.2;
    return std::make_shared<Sampler>(*Sampler::create(options, 5));
  }
  /// A sequence that draws with that seed.
  int64_t join(Batch &batch, uint64_t seed, const Ids &ends = {}) {
    return *batch.join({sampler(seed), ends, true});
  }

  /// What a session alone draws after `prompt`, and so on after each of the
  /// other texts. Each is one feed.
  Drawn alone(const std::vector<Ids> &texts, int64_t most, uint64_t seed) {
    auto session = std::move(*Session::create(reference, 1));
    std::shared_ptr<Sampler> sampler = this->sampler(seed);
    Drawn drawn;
    Ids next;
    for (const Ids &text : texts) {
      for (int32_t id : text)
        sampler->accept(id, /*drawn=*/false);
      next.insert(next.end(), text.begin(), text.end());
      for (int64_t i = 0; i < most; ++i) {
        std::vector<float> logits(5);
        Status status =
            session->feed(next.data(), static_cast<int64_t>(next.size()),
                          CRIA_LOGITS_LAST, logits.data());
        EXPECT_TRUE(status.ok()) << status.message();
        next = {*sampler->sample(logits.data())};
        sampler->accept(next[0], /*drawn=*/true);
        drawn.ids.push_back(next[0]);
        drawn.logits.push_back(logits);
      }
    }
    return drawn;
  }

  /// Steps until nothing runs.
  void finish(Batch &batch) {
    for (int i = 0; batch.unfinished() > 0; ++i) {
      ASSERT_LT(i, 10000);
      step(batch);
    }
  }
  void step(Batch &batch) {
    Status status = batch.step();
    ASSERT_TRUE(status.ok()) << status.message();
    for (const BatchResult &result : batch.results()) {
      Drawn &of = drawn[result.sequence];
      of.finish = result.finish;
      of.status = result.status;
      if (result.id < 0)
        continue;
      of.ids.push_back(result.id);
      if (result.logits)
        of.logits.emplace_back(result.logits, result.logits + 5);
    }
  }
  Status feed(Batch &batch, int64_t sequence, const Ids &ids, int64_t most) {
    return batch.feed(sequence, ids.data(), static_cast<int64_t>(ids.size()),
                      most);
  }
  /// Whether sequence `number` drew what `expected` did, to the last bit.
  void expectSame(int64_t number, const Drawn &expected) {
    EXPECT_EQ(drawn[number].ids, expected.ids) << number;
    EXPECT_EQ(drawn[number].logits, expected.logits) << number;
  }
  /// `count` ids of a text that `seed` makes.
  static Ids text(uint32_t seed, size_t count) {
    std::mt19937 random(seed);
    Ids ids(count);
    for (int32_t &id : ids)
      id = static_cast<int32_t>(random() % 5);
    return ids;
  }

  TemporaryFolder folder;
  std::shared_ptr<const Model> model, reference; // the latter for `alone`
  std::map<int64_t, Drawn> drawn;                // by sequence
};

} // namespace

TEST_F(BatchTest, ASessionIsABatchOfOneSequence) {
  auto session = std::move(*Session::create(model, 2));
  Ids ids = text(1, 20);
  std::vector<float> all(100), last(5);
  ASSERT_TRUE(session->feed(ids.data(), 20, CRIA_LOGITS_ALL, all.data()).ok());
  expectNear(all, fakeLogits(ids));
  ASSERT_TRUE(session->feed(&ids[0], 1, CRIA_LOGITS_LAST, last.data()).ok());
  ids.push_back(ids[0]);
  std::vector<float> expected = fakeLogits(ids);
  expected.erase(expected.begin(), expected.end() - 5);
  for (float &logit : expected)
    logit += 50; // the batch entry ran one
  expectNear(last, expected);
}

// A prompt is prefilled to its last id, however it is cut.
TEST_F(BatchTest, APromptsLastIdIsOfThePrompt) {
  auto session = std::move(*Session::create(model, 1));
  Ids ids = text(1, 9);
  std::vector<float> last(5);
  ASSERT_TRUE(session->expectPrompt(9).ok());
  ASSERT_TRUE(session->feed(ids.data(), 8, CRIA_LOGITS_NONE, nullptr).ok());
  ASSERT_TRUE(session->feed(&ids[8], 1, CRIA_LOGITS_LAST, last.data()).ok());
  std::vector<float> expected = fakeLogits(ids);
  expectNear(last, {expected.end() - 5, expected.end()});
}

// The rest of a feed that failed belongs to that feed, whatever was announced
// of an earlier text.
TEST_F(BatchTest, TheRestOfAFeedIsOfThatFeed) {
  useNan();
  auto session = std::move(*Session::create(model, 1));
  Ids earlier = {1, 2, 3, 1, 2, 3, 1, 2, 3, 1, 2, 3},
      ids = {3, 2, 1, 3, 2, 1, 3, 2, 1, 4}, rest = {1, 2};
  ASSERT_TRUE(
      session->feed(earlier.data(), 11, CRIA_LOGITS_NONE, nullptr).ok());
  ASSERT_TRUE(session->expectPrompt(12).ok());
  ASSERT_TRUE(session->feed(&earlier[11], 1, CRIA_LOGITS_NONE, nullptr).ok());
  ASSERT_TRUE(session->rewind(0).ok());
  EXPECT_EQ(session->draw(ids.data(), 10, *sampler(1)).status().code(),
            CRIA_DATA_LOSS);
  ASSERT_EQ(session->position(), 8); // a chunk
  std::vector<float> last(5);
  ASSERT_TRUE(
      session->feed(rest.data(), 2, CRIA_LOGITS_LAST, last.data()).ok());
  ids.resize(8);
  ids.insert(ids.end(), rest.begin(), rest.end());
  std::vector<float> expected = fakeLogits(ids); // prefill ran them
  expectNear(last, {expected.end() - 5, expected.end()});
}

// A rewound text leaves nothing that another one reads.
TEST_F(BatchTest, ASessionForgetsWhatWasNotANumber) {
  useNan();
  auto session = std::move(*Session::create(model, 1));
  Ids bad = {1, 4, 4, 4, 4, 4}, good = {1, 2, 3};
  std::vector<float> last(5);
  ASSERT_TRUE(session->feed(bad.data(), 6, CRIA_LOGITS_NONE, nullptr).ok());
  ASSERT_TRUE(session->rewind(0).ok());
  ASSERT_TRUE(
      session->feed(good.data(), 3, CRIA_LOGITS_LAST, last.data()).ok());
  EXPECT_TRUE(std::isfinite(last[0]));
}

TEST_F(BatchTest, DrawsWhatEachSequenceDrawsAlone) {
  auto many = batch();
  std::map<int64_t, Drawn> expected;
  for (uint32_t i = 0; i < 7; ++i) { // three run at once
    Ids prompt = text(i, 1 + i * 4);
    int64_t number = join(*many, i);
    ASSERT_TRUE(feed(*many, number, prompt, 9).ok());
    expected[number] = alone({prompt}, 9, i);
  }
  finish(*many);
  for (const auto &[number, of] : expected) {
    expectSame(number, of);
    EXPECT_EQ(drawn[number].finish, Finish::Length);
  }
  EXPECT_EQ(many->counts().recomputed, 0);
}

TEST_F(BatchTest, GoesOnAfterAReply) {
  auto chat = batch();
  int64_t number = join(*chat, 3);
  Ids first = text(1, 5), second = text(2, 3);
  ASSERT_TRUE(feed(*chat, number, first, 4).ok());
  finish(*chat);
  ASSERT_TRUE(feed(*chat, number, second, 4).ok());
  finish(*chat);
  expectSame(number, alone({first, second}, 4, 3));
}

TEST_F(BatchTest, EndsWhereAnEndIdIsDrawn) {
  Drawn expected = alone({{1, 2}}, 20, 5);
  auto one = batch();
  int64_t number = join(*one, 5, {expected.ids[6]});
  ASSERT_TRUE(feed(*one, number, {1, 2}, 20).ok());
  finish(*one);
  EXPECT_EQ(drawn[number].finish, Finish::End);
  auto first =
      std::find(expected.ids.begin(), expected.ids.end(), expected.ids[6]);
  EXPECT_EQ(drawn[number].ids, Ids(expected.ids.begin(), first + 1));
}

TEST_F(BatchTest, EndsWhereTheContextIsFull) {
  auto full = batch();
  int64_t number = join(*full, 1), other = join(*full, 2);
  ASSERT_TRUE(feed(*full, number, text(1, 38), 100).ok());
  ASSERT_TRUE(feed(*full, other, {1, 2}, 9).ok());
  finish(*full);
  EXPECT_EQ(drawn[number].finish, Finish::Context);
  EXPECT_EQ(drawn[number].ids.size(), 3u);
  EXPECT_EQ((*full->sequence(number))->computed, 40);
  expectSame(other, alone({{1, 2}}, 9, 2));
  EXPECT_THAT(feed(*full, number, {1}, 1),
              fails(CRIA_OUT_OF_RANGE, "1 ids at position 41 make 42, the "
                                       "artifact's context holds 40"));
}

TEST_F(BatchTest, RefusesABadFeedAndGoesOn) {
  auto some = batch();
  int64_t number = join(*some, 1);
  EXPECT_THAT(feed(*some, number, {1, 5}, 1),
              fails(CRIA_INVALID_ARGUMENT, "id 5 at index 1, expected 0 to 4"));
  EXPECT_THAT(feed(*some, number, {}, 1),
              fails(CRIA_INVALID_ARGUMENT, "expected at least one id"));
  EXPECT_THAT(feed(*some, number + 1, {1}, 1),
              fails(CRIA_NOT_FOUND, "the batch has no sequence 2"));
  ASSERT_TRUE(feed(*some, number, {1, 2}, 2).ok());
  EXPECT_THAT(feed(*some, number, {1}, 1),
              fails(CRIA_FAILED_PRECONDITION, "sequence 1 has not finished"));
  finish(*some);
  expectSame(number, alone({{1, 2}}, 2, 1));
}

TEST_F(BatchTest, ASequenceWhoseLogitsAreBrokenFailsAlone) {
  useNan();
  auto some = batchOf(3);
  int64_t bad = join(*some, 1), good = join(*some, 2);
  ASSERT_TRUE(feed(*some, bad, {1, 4, 4, 4, 4, 4, 4}, 5).ok());
  ASSERT_TRUE(feed(*some, good, {0, 0}, 1).ok());
  finish(*some);
  EXPECT_THAT(drawn[bad].status, fails(CRIA_DATA_LOSS, ""));
  EXPECT_EQ(drawn[bad].finish, Finish::Failed);
  EXPECT_EQ(drawn[good].finish, Finish::Length);
  // Its pages are others' later, without what was in them.
  ASSERT_TRUE(some->leave(bad).ok());
  int64_t later = join(*some, 3);
  ASSERT_TRUE(feed(*some, later, {0, 0, 1, 1, 0}, 1).ok());
  finish(*some);
  EXPECT_EQ(drawn[later].finish, Finish::Length);
}

/// Proposes ids in each step: those that the sequence draws next, but that
/// every third one is another. Returns the number of steps.
static int stepsWithDrafts(Batch &batch, int64_t number, const Ids &prompt,
                           const Drawn &expected, bool areRight,
                           const std::function<void()> &step) {
  int steps = 0;
  for (; batch.unfinished() > 0 && steps < 1000; ++steps) {
    const Sequence &held = **batch.sequence(number);
    auto drawn = static_cast<size_t>(held.end()) - prompt.size();
    Ids next;
    for (size_t i = drawn; i < expected.ids.size() && i < drawn + 2; ++i)
      next.push_back(areRight || i % 4 ? expected.ids[i]
                                       : (expected.ids[i] + 1) % 5);
    EXPECT_TRUE(
        batch.propose(number, next.data(), static_cast<int64_t>(next.size()))
            .ok());
    step();
  }
  return steps;
}

// Drafts save steps, and change no bit.
TEST_F(BatchTest, DraftsSaveStepsAlone) {
  for (bool areRight : {true, false}) {
    SCOPED_TRACE(areRight);
    auto one = batchOf(10, false, /*draftRows=*/3);
    drawn.clear();
    Ids prompt = text(1, 6);
    Drawn expected = alone({prompt}, 21, 7);
    int64_t number = join(*one, 7);
    ASSERT_TRUE(feed(*one, number, prompt, 21).ok());
    int steps = stepsWithDrafts(*one, number, prompt, expected, areRight,
                                [&] { step(*one); });
    expectSame(number, expected);
    EXPECT_EQ(drawn[number].finish, Finish::Length);
    const BatchCounts &counts = one->counts();
    EXPECT_EQ(counts.decoded, 20);
    EXPECT_EQ(counts.prefilled, 6);
    // Of the prompt, then three ids each; a wrong draft costs what comes after
    // it.
    EXPECT_EQ(steps, areRight ? 1 + 7 : 1 + 10);
    EXPECT_EQ(counts.accepted, 20 - (steps - 1));
    EXPECT_GT(counts.drafted, areRight ? 12 : 10);
  }
}

// The likeliest ids of a text of few ids repeat themselves.
TEST_F(BatchTest, LooksDraftsUpInTheText) {
  Ids prompt = {1, 2, 3, 1, 2, 3, 1, 2};
  auto plain = batchOf(10), drafting = batchOf(10, false, 3);
  int64_t numbers[] = {*plain->join({nullptr, {}, true}),
                       *drafting->join({nullptr, {}, true})};
  ASSERT_TRUE(feed(*plain, numbers[0], prompt, 30).ok());
  finish(*plain);
  Drawn expected = drawn[numbers[0]];
  drawn.clear();
  ASSERT_TRUE(feed(*drafting, numbers[1], prompt, 30).ok());
  int steps = 0;
  for (; drafting->unfinished() > 0; ++steps)
    step(*drafting);
  expectSame(numbers[1], expected);
  EXPECT_LT(steps, 20);
  EXPECT_EQ(drafting->counts().accepted, 30 - steps);
}

// Texts come first: drafts fill the rows that they leave.
TEST_F(BatchTest, DraftsTakeNoRowOfAText) {
  auto full = batchOf(30, false, 3);
  Ids prompt = {1, 2, 1, 2, 1, 2};
  for (int i = 0; i < 3; ++i) {
    int64_t number = *full->join({});
    ASSERT_TRUE(feed(*full, number, prompt, 9).ok());
  }
  while (full->runningCount() == 3)
    step(*full);
  EXPECT_EQ(full->counts().drafted, 0);
}

// With more rows than texts, drafts have rows whoever runs.
TEST_F(BatchTest, RowsBeyondTheTextsAreForDrafts) {
  BatchOptions options;
  options.draftRows = 9;
  options.texts = 2;
  useManyRows();
  auto full = batch(options);
  EXPECT_EQ(full->texts(), 2);
  EXPECT_EQ(full->pages().pages(), 2 * model->manifest().batch->width);
  Ids prompt = {1, 2, 1, 2, 1, 2};
  auto alone = batch();
  int64_t one = *alone->join({nullptr, {}, true});
  ASSERT_TRUE(feed(*alone, one, prompt, 9).ok());
  finish(*alone);
  Drawn expected = std::exchange(drawn, {})[one];
  for (int i = 0; i < 3; ++i)
    ASSERT_TRUE(feed(*full, *full->join({nullptr, {}, true}), prompt, 9).ok());
  for (int steps = 0; full->unfinished() > 0; ++steps) {
    step(*full);
    EXPECT_LE(full->runningCount(), 2u);
    EXPECT_TRUE(steps > 0 || full->waitingCount() == 1);
  }
  EXPECT_GT(full->counts().accepted, 0);
  EXPECT_EQ(drawn.size(), 3u);
  for (const auto &[number, of] : drawn)
    expectSame(number, expected);
  options.texts = 17;
  EXPECT_EQ(batch(options)->texts(), 16);
  options.texts = -1;
  EXPECT_THAT(Batch::create(model, options).status(),
              fails(CRIA_INVALID_ARGUMENT, "texts is -1, expected 0 or more"));
}

TEST_F(BatchTest, ADraftEndsWithItsText) {
  Ids prompt = text(1, 6);
  Drawn expected = alone({prompt}, 20, 7);
  int32_t end = expected.ids[8];
  auto first = std::find(expected.ids.begin(), expected.ids.end(), end);
  auto one = batchOf(10, false, 3);
  int64_t number = join(*one, 7, {end});
  ASSERT_TRUE(feed(*one, number, prompt, 20).ok());
  stepsWithDrafts(*one, number, prompt, expected, true, [&] { step(*one); });
  EXPECT_EQ(drawn[number].finish, Finish::End);
  EXPECT_EQ(drawn[number].ids, Ids(expected.ids.begin(), first + 1));
  // The context ends within a draft, too.
  auto full = batchOf(10, false, 3);
  prompt = text(2, 35);
  expected = alone({prompt}, 6, 7);
  number = join(*full, 7);
  drawn.clear();
  ASSERT_TRUE(feed(*full, number, prompt, 100).ok());
  stepsWithDrafts(*full, number, prompt, expected, true, [&] { step(*full); });
  EXPECT_EQ(drawn[number].finish, Finish::Context);
  expectSame(number, expected);
}

/// The ids that may be drawn as the i-th.
static uint32_t maskOf(size_t i) { return 1u << i % 5 | 1u << (i + 2) % 5; }

// A mask is for one draw: drafts come with those after them.
TEST_F(BatchTest, AMaskedTextHasDraftsWithMasks) {
  Ids prompt = text(1, 6);
  auto run = [&](const Drawn *expected, bool areRight) {
    auto one = batchOf(10, false, /*draftRows=*/3);
    drawn.clear();
    std::shared_ptr<Sampler> masked = sampler(7);
    int64_t number = *one->join({masked, {}, true});
    EXPECT_TRUE(feed(*one, number, prompt, 12).ok());
    int steps = 0;
    for (; one->unfinished() > 0 && steps < 100; ++steps) {
      size_t count = drawn[number].ids.size();
      EXPECT_TRUE(masked->allow({maskOf(count)}).ok());
      Ids next;
      std::vector<uint32_t> masks;
      for (size_t i = count; expected && i < std::min<size_t>(count + 2, 12);
           ++i) {
        // A wrong one that the mask has, too.
        int32_t id = expected->ids[i], other = static_cast<int32_t>(i % 5);
        next.push_back(areRight || id == other ? id : other);
        masks.push_back(maskOf(i + 1));
      }
      EXPECT_TRUE(one->propose(number, next.data(),
                               static_cast<int64_t>(next.size()), masks.data(),
                               1)
                      .ok());
      step(*one);
    }
    return std::pair(steps, one->counts());
  };
  auto [plain, none] = run(nullptr, true);
  EXPECT_EQ(plain, 12);
  EXPECT_EQ(none.drafted, 0);
  Drawn expected = drawn.begin()->second;
  for (size_t i = 0; i < 12; ++i)
    EXPECT_TRUE(maskOf(i) >> expected.ids[i] & 1) << i;
  for (bool areRight : {true, false}) {
    SCOPED_TRACE(areRight);
    auto [steps, counts] = run(&expected, areRight);
    expectSame(drawn.begin()->first, expected);
    EXPECT_GT(counts.drafted, counts.accepted * !areRight);
    EXPECT_EQ(steps, 12 - counts.accepted);
    EXPECT_EQ(steps == 1 + 4, areRight);
  }
}

TEST_F(BatchTest, AMaskedTextHasNoDraftsWithoutMasks) {
  auto one = batchOf(10, false, 3);
  std::shared_ptr<Sampler> masked = sampler(1);
  ASSERT_TRUE(masked->allow({0b11111}).ok());
  int64_t number = *one->join({masked, {}, true});
  ASSERT_TRUE(feed(*one, number, {1, 2, 1, 2, 1, 2}, 9).ok());
  for (int i = 0; i < 9; ++i) {
    step(*one);
    EXPECT_EQ(one->results().size(), 1u);
  }
  EXPECT_EQ(one->counts().drafted, 0);
}

// Id 4 writes NaN after the text. The text does not read it.
TEST_F(BatchTest, ADraftThatIsBrokenLeavesNothing) {
  useNan();
  Ids prompt = {1, 2, 3};
  auto plain = batchOf(10), drafting = batchOf(10, false, 3);
  int64_t number = *plain->join({nullptr, {}, true});
  ASSERT_TRUE(feed(*plain, number, prompt, 6).ok());
  finish(*plain);
  Drawn expected = drawn[number];
  drawn.clear();
  ASSERT_EQ(*drafting->join({nullptr, {}, true}), number);
  ASSERT_TRUE(feed(*drafting, number, prompt, 6).ok());
  while (drafting->unfinished() > 0) {
    Ids bad = {4, 4};
    ASSERT_TRUE(drafting->propose(number, bad.data(), 2).ok());
    step(*drafting);
  }
  expectSame(number, expected);
  EXPECT_GT(drafting->counts().putBack, 0);
}

// Only drafts that were computed count.
TEST_F(BatchTest, AFailedStepHasNoDrafts) {
  auto two = batchOf(20, false, 3);
  int64_t number = *two->join({nullptr, {}, true});
  std::shared_ptr<Sampler> shared = sampler(1);
  int64_t other = *two->join({shared, {}, true});
  ASSERT_TRUE(feed(*two, number, {1, 2, 3}, 6).ok());
  ASSERT_TRUE(feed(*two, other, {1}, 6).ok());
  step(*two);
  Ids ids = {1, 2};
  ASSERT_TRUE(two->propose(number, ids.data(), 2).ok());
  {
    SamplerUse elsewhere(shared.get());
    EXPECT_THAT(two->step(), fails(CRIA_FAILED_PRECONDITION, ""));
  }
  EXPECT_EQ(two->counts().drafted, 0);
  ASSERT_TRUE(two->propose(number, ids.data(), 2).ok());
  step(*two);
  EXPECT_GT(two->counts().drafted, 0);
}

TEST_F(BatchTest, RefusesBadProposals) {
  auto none = batch(), some = batchOf(10, false, 3);
  Ids ids = {1, 5};
  EXPECT_THAT(some->propose(9, ids.data(), 1),
              fails(CRIA_NOT_FOUND, "the batch has no sequence 9"));
  int64_t number = join(*some, 1);
  EXPECT_THAT(some->propose(number, ids.data(), 1),
              fails(CRIA_FAILED_PRECONDITION, "sequence 1 draws nothing now"));
  ASSERT_TRUE(feed(*some, number, {1}, 3).ok());
  EXPECT_THAT(some->propose(number, ids.data(), 2),
              fails(CRIA_INVALID_ARGUMENT, "id 5 at index 1, expected 0 to 4"));
  uint32_t nothing[] = {0, 0};
  EXPECT_THAT(some->propose(number, ids.data(), 1, nothing, 1),
              fails(CRIA_INVALID_ARGUMENT, "no id is allowed"));
  EXPECT_THAT(
      some->propose(number, ids.data(), 1, nothing, 2),
      fails(CRIA_INVALID_ARGUMENT, "2 words of allowed ids, expected 1"));
  number = join(*none, 1);
  ASSERT_TRUE(feed(*none, number, {1}, 3).ok());
  EXPECT_THAT(
      none->propose(number, ids.data(), 1),
      fails(CRIA_FAILED_PRECONDITION, "the batch was made without draft_rows"));
  BatchOptions options;
  options.draftRows = -1;
  EXPECT_THAT(
      Batch::create(model, options).status(),
      fails(CRIA_INVALID_ARGUMENT, "draft_rows is -1, expected 0 or more"));
}

// A long prompt takes as many steps as it has chunks; the others go on in each.
TEST_F(BatchTest, ALongPromptHoldsUpNobody) {
  BatchOptions options;
  options.chunk = 4;
  auto some = batch(options);
  int64_t fast = join(*some, 1), slow = join(*some, 2);
  ASSERT_TRUE(feed(*some, fast, {1, 2}, 20).ok());
  step(*some);
  ASSERT_TRUE(feed(*some, slow, text(3, 24), 1).ok());
  for (size_t i = 2; i <= 7; ++i) {
    step(*some);
    EXPECT_EQ(drawn[fast].ids.size(), i);
    EXPECT_EQ(drawn[slow].ids.size(), i == 7 ? 1u : 0u);
  }
}

// The batch entry adds 50 for each id that it ran.
TEST_F(BatchTest, RunsShortFeedsInRows) {
  useManyRows();
  EXPECT_EQ(model->shortFeed(), 4);
  Ids ids = text(1, 9);
  for (int64_t count : {1, 4, 5}) {
    bool isShort = count < 5;
    auto session = std::move(*Session::create(model, 1));
    std::vector<float> last(5);
    ASSERT_TRUE(session->feed(ids.data(), 5, CRIA_LOGITS_NONE, nullptr).ok());
    ASSERT_TRUE(session->rewind(0).ok());
    ASSERT_TRUE(
        session->feed(ids.data(), count, CRIA_LOGITS_LAST, last.data()).ok());
    std::vector<float> expected =
        fakeLogits({ids.begin(), ids.begin() + count});
    expected.erase(expected.begin(), expected.end() - 5);
    for (float &logit : expected)
      logit += isShort ? 50 * static_cast<float>(count) : 0;
    expectNear(last, expected);
    auto one = batch();
    int64_t number = join(*one, 1);
    ASSERT_TRUE(feed(*one, number, {ids.begin(), ids.begin() + count}, 1).ok());
    step(*one);
    EXPECT_EQ(drawn[number].logits, std::vector<std::vector<float>>{last});
    EXPECT_EQ(one->counts().decoded, isShort ? count : 0);
    drawn.clear();
  }
}

// A short feed may come in pieces that are announced, as a long one may, and
// the session may move in between.
TEST_F(BatchTest, AnAnnouncedPromptIsOneFeed) {
  useManyRows();
  Ids ids = text(1, 10);
  auto moved = [&](std::unique_ptr<Session> from, bool isCopied) {
    auto to = std::move(*Session::create(model, 1));
    std::vector<std::byte> state(from->stateBytes());
    Status status = from->save(state.data());
    if (status.ok())
      status =
          isCopied ? to->copy(*from) : to->restore(state.data(), state.size());
    EXPECT_TRUE(status.ok()) << status.message();
    return to;
  };
  for (int64_t count : {4, 5}) {
    auto whole = std::move(*Session::create(model, 1)),
         pieces = std::move(*Session::create(model, 1));
    std::vector<float> one(5), other(5);
    for (Session *session : {whole.get(), pieces.get()})
      ASSERT_TRUE(session->feed(ids.data(), 5, CRIA_LOGITS_NONE, nullptr).ok());
    ASSERT_TRUE(whole->feed(&ids[5], count, CRIA_LOGITS_LAST, one.data()).ok());
    ASSERT_TRUE(pieces->expectPrompt(5 + count).ok());
    pieces = moved(std::move(pieces), /*isCopied=*/count == 4);
    ASSERT_TRUE(
        pieces->feed(&ids[5], count - 2, CRIA_LOGITS_NONE, nullptr).ok());
    pieces = moved(std::move(pieces), /*isCopied=*/count == 5);
    auto some = batch();
    int64_t number = *some->join({nullptr, {}, true});
    std::vector<std::byte> state(pieces->stateBytes());
    ASSERT_TRUE(pieces->save(state.data()).ok());
    ASSERT_TRUE(some->restore(number, state.data(), state.size()).ok());
    ASSERT_TRUE(feed(*some, number,
                     {ids[static_cast<size_t>(3 + count)],
                      ids[static_cast<size_t>(4 + count)]},
                     1)
                    .ok());
    finish(*some);
    EXPECT_EQ(drawn[number].logits.front(), one) << count;
    drawn.clear();
    ASSERT_TRUE(pieces
                    ->feed(&ids[static_cast<size_t>(3 + count)], 2,
                           CRIA_LOGITS_LAST, other.data())
                    .ok());
    EXPECT_EQ(one, other) << count;
  }
}

TEST_F(BatchTest, ShortPromptsShareAStep) {
  useManyRows();
  auto some = batch();
  std::map<int64_t, Drawn> expected;
  for (uint32_t i = 0; i < 4; ++i) { // 1, 2, 3 and 2 ids
    Ids prompt = text(i, i == 3 ? 2 : i + 1);
    int64_t number = join(*some, i);
    ASSERT_TRUE(feed(*some, number, prompt, 5).ok());
    expected[number] = alone({prompt}, 5, i);
  }
  step(*some);
  EXPECT_EQ(drawn.size(), 4u);
  EXPECT_EQ(some->counts().decoded, 8);
  finish(*some);
  for (const auto &[number, of] : expected)
    expectSame(number, of);
}

// Texts draw in each step; the first prompt has the rows that they leave.
TEST_F(BatchTest, ShortPromptsTakeNoRowOfAText) {
  useManyRows();
  auto some = batch();
  std::map<int64_t, Drawn> expected;
  auto begin = [&](uint32_t seed, size_t count) {
    Ids prompt = text(seed, count);
    int64_t number = join(*some, seed);
    ASSERT_TRUE(feed(*some, number, prompt, 9).ok());
    expected[number] = alone({prompt}, 9, seed);
  };
  for (uint32_t i = 0; i < 13; ++i)
    begin(i, 1);
  step(*some);
  begin(13, 4);
  begin(14, 4);
  for (size_t steps : {2, 3, 4}) {
    step(*some);
    for (int64_t number = 1; number <= 13; ++number)
      EXPECT_EQ(drawn[number].ids.size(), steps);
    // The first prompt's last id is in the second step.
    EXPECT_EQ(drawn[14].ids.size(), steps - 2);
    EXPECT_EQ(drawn[15].ids.size(), steps == 4 ? 1u : 0u);
  }
  finish(*some);
  for (const auto &[number, of] : expected)
    expectSame(number, of);
}

// What was drawn needs no step for each id where it is computed anew. A text
// that was let in later goes on in each step.
TEST_F(BatchTest, ComputesAnewInRows) {
  useManyRows();
  auto some = batchOf(11);
  int64_t idle = join(*some, 1), busy = join(*some, 2), late = join(*some, 3);
  ASSERT_TRUE(feed(*some, idle, text(1, 4), 16).ok());
  finish(*some);
  ASSERT_TRUE(feed(*some, busy, text(3, 10), 19).ok());
  finish(*some);
  EXPECT_EQ((*some->sequence(idle))->computed, 0);
  ASSERT_TRUE(some->leave(busy).ok());
  ASSERT_TRUE(feed(*some, idle, text(2, 2), 16).ok());
  ASSERT_TRUE(feed(*some, late, {1}, 9).ok());
  for (size_t i = 0; i < 2; ++i) { // 4 + 16 + 2 ids in 15 rows
    EXPECT_EQ(drawn[idle].ids.size(), 16u);
    EXPECT_EQ(drawn[late].ids.size(), i);
    step(*some);
  }
  finish(*some);
  expectSame(idle, alone({text(1, 4), text(2, 2)}, 16, 1));
  expectSame(late, alone({{1}}, 9, 3));
}

TEST_F(BatchTest, FindsTheBeginningOfAPromptAgain) {
  auto some = batch();
  Ids prompt = text(1, 19);
  int64_t first = join(*some, 1);
  ASSERT_TRUE(feed(*some, first, prompt, 8).ok());
  finish(*some);
  EXPECT_EQ(some->counts().prefilled, 19);
  ASSERT_TRUE(some->leave(first).ok());
  prompt.back() = (prompt.back() + 1) % 5;
  int64_t second = join(*some, 2);
  ASSERT_TRUE(feed(*some, second, prompt, 8).ok());
  finish(*some);
  EXPECT_EQ(some->counts().prefilled, 19 + 3); // four pages of 4 were found
  EXPECT_EQ(some->counts().reused, 16);
  expectSame(second, alone({prompt}, 8, 2));
  // Another beginning makes all that follows another text.
  prompt.front() = (prompt.front() + 1) % 5;
  ASSERT_TRUE(feed(*some, join(*some, 3), prompt, 0).ok());
  finish(*some);
  EXPECT_EQ(some->counts().reused, 16);
}

// States are kept after 1, 2, 4, ... pages, and near the end of a prompt.
TEST_F(BatchTest, FindsAPromptAsFarAsStatesAreKept) {
  use(fakeStatesManifest(), fakeTensors());
  BatchOptions options;
  options.texts = 1; // and two states
  auto some = batch(options);
  EXPECT_EQ(some->states().pages(), 2);
  auto run = [&](const Ids &prompt, uint64_t seed) {
    int64_t reused = some->counts().reused, number = join(*some, seed);
    EXPECT_TRUE(feed(*some, number, prompt, 8).ok());
    finish(*some);
    expectSame(number, alone({prompt}, 8, seed));
    drawn.clear(); // another batch has the same numbers
    EXPECT_TRUE(some->leave(number).ok());
    return some->counts().reused - reused;
  };
  Ids prompt = text(1, 29), other = prompt;
  EXPECT_EQ(run(prompt, 1), 0);
  other.back() = (other.back() + 1) % 5;
  EXPECT_EQ(run(other, 2), 24); // seven pages are found, states after six
  other[22] = (other[22] + 1) % 5;
  EXPECT_EQ(run(other, 3), 0); // those after four pages gave way
  some = batch();
  EXPECT_EQ(run(prompt, 1), 0);
  EXPECT_EQ(run(other, 3), 16); // five pages are found, states after four
  EXPECT_EQ(some->states().available(), 6);
}

// Rows of one text leave the states after the last of them, here after 6 ids,
// not after the page of 4.
TEST_F(BatchTest, FindsNoStatesInTheMiddleOfAStep) {
  nlohmann::json manifest = fakeStatesManifest();
  manifest["batch"]["rows"] = 16;
  use(manifest, fakeTensors());
  BatchOptions options;
  options.reusesDrawn = true;
  auto some = batch(options);
  int64_t first = join(*some, 1);
  for (int i = 0; i < 2; ++i) {
    ASSERT_TRUE(feed(*some, first, {1, 2, 3}, 0).ok());
    finish(*some);
  }
  Ids prompt = {1, 2, 3, 1, 2, 4, 0, 3, 1};
  int64_t second = join(*some, 2);
  ASSERT_TRUE(feed(*some, second, prompt, 3).ok());
  finish(*some);
  EXPECT_EQ(some->counts().reused, 0);
  expectSame(second, alone({prompt}, 3, 2));
}

// An id that was drawn has other bits than one of a prompt.
TEST_F(BatchTest, FindsDrawnIdsOnRequestAlone) {
  for (bool reuses : {false, true}) {
    BatchOptions options;
    options.reusesDrawn = reuses;
    auto some = batch(options);
    int64_t first = join(*some, 1);
    ASSERT_TRUE(feed(*some, first, {1, 2}, 11).ok());
    finish(*some);
    Ids all = {1, 2};
    all.insert(all.end(), drawn[first].ids.begin(), drawn[first].ids.end());
    drawn.clear();
    int64_t second = join(*some, 2);
    ASSERT_TRUE(feed(*some, second, all, 3).ok());
    finish(*some);
    EXPECT_EQ(some->counts().reused, reuses ? 12 : 0);
    if (!reuses)
      expectSame(second, alone({all}, 3, 2));
  }
}

TEST_F(BatchTest, ForksShareWhatNeitherWrites) {
  auto some = batch();
  int64_t first = join(*some, 1);
  Ids prompt = text(1, 10);
  ASSERT_TRUE(feed(*some, first, prompt, 0).ok());
  finish(*some);
  EXPECT_EQ(drawn[first].finish, Finish::Length);
  int64_t held = some->pages().pages() - some->pages().available();
  EXPECT_EQ(held, 3);
  std::vector<int64_t> forks;
  for (uint64_t i = 0; i < 3; ++i)
    forks.push_back(*some->fork(first, {sampler(i), {}, true}));
  EXPECT_EQ(some->pages().pages() - some->pages().available(), held);
  for (int64_t fork : forks)
    ASSERT_TRUE(feed(*some, fork, {3}, 6).ok());
  finish(*some);
  for (uint64_t i = 0; i < 3; ++i) {
    // Alone, the same feeds: a prompt without draws, and an id.
    auto session = std::move(*Session::create(model, 1));
    std::vector<float> logits(5);
    ASSERT_TRUE(
        session->feed(prompt.data(), 10, CRIA_LOGITS_NONE, nullptr).ok());
    int32_t three = 3;
    ASSERT_TRUE(session->feed(&three, 1, CRIA_LOGITS_LAST, logits.data()).ok());
    EXPECT_EQ(drawn[forks[i]].logits.front(), logits);
  }
  EXPECT_EQ(some->pages().pages() - some->pages().available(),
            2 + 1 + 3 * 2); // two shared; the rest is each one's own
  // The first one's last page is as it was.
  ASSERT_TRUE(feed(*some, first, {3}, 1).ok());
  finish(*some);
  EXPECT_EQ(drawn[first].logits.front(), drawn[forks[0]].logits.front());
}

TEST_F(BatchTest, ASequenceThatFindsNoPageIsRefusedWithTheNumbers) {
  auto some = batchOf(6, /*refuses=*/true);
  int64_t first = join(*some, 1), second = join(*some, 2);
  ASSERT_TRUE(feed(*some, first, text(1, 10), 4).ok());
  ASSERT_TRUE(feed(*some, second, text(2, 6), 4).ok());
  finish(*some);
  expectSame(first, alone({text(1, 10)}, 4, 1));
  EXPECT_THAT(drawn[second].status,
              fails(CRIA_RESOURCE_EXHAUSTED, "sequence 2 needs 3 pages and "
                                             "has 2: 0 of the batch's 6 are "
                                             "free"));
  // It goes on once there are some.
  ASSERT_TRUE(some->leave(first).ok());
  ASSERT_TRUE(feed(*some, second, {},
                   4 - static_cast<int64_t>(drawn[second].ids.size()))
                  .ok());
  finish(*some);
  expectSame(second, alone({text(2, 6)}, 4, 2));
}

TEST_F(BatchTest, RefusesWhatNoPoolOfItsSizeHolds) {
  auto some = batchOf(3);
  int64_t number = join(*some, 1);
  EXPECT_THAT(feed(*some, number, text(1, 13), 1),
              fails(CRIA_RESOURCE_EXHAUSTED, "sequence 1 needs 4 pages and has "
                                             "0: 3 of the batch's 3 are free"));
  // A text that grows beyond it draws what there is room for.
  ASSERT_TRUE(feed(*some, number, text(1, 9), 10).ok());
  finish(*some);
  EXPECT_THAT(drawn[number].status,
              fails(CRIA_RESOURCE_EXHAUSTED, "needs 4 pages and has 3"));
  EXPECT_EQ(drawn[number].ids,
            (Ids{drawn[number].ids.begin(), drawn[number].ids.begin() + 4}));
}

// Pages are taken from the one that was let in last, which is computed anew as
// it was before: prompts by prefill, what was drawn by the batch entry.
TEST_F(BatchTest, ASequenceThatGaveItsPagesBackDrawsTheSame) {
  auto some = batchOf(11);
  std::map<int64_t, Drawn> expected;
  for (uint32_t i = 0; i < 5; ++i) {
    Ids prompt = text(i, 6 + i);
    int64_t number = join(*some, i);
    ASSERT_TRUE(feed(*some, number, prompt, 18).ok());
    expected[number] = alone({prompt}, 18, i);
  }
  finish(*some);
  for (const auto &[number, of] : expected) {
    expectSame(number, of);
    EXPECT_EQ(drawn[number].finish, Finish::Length);
  }
  EXPECT_GT(some->counts().putBack, 0);
  EXPECT_GT(some->counts().recomputed, 0);
}

// One that finished is computed anew where it goes on without its pages.
TEST_F(BatchTest, TakesPagesFromThoseThatDoNotRunFirst) {
  auto some = batchOf(8);
  int64_t idle = join(*some, 1), busy = join(*some, 2);
  Ids first = text(1, 9), second = text(2, 3);
  ASSERT_TRUE(feed(*some, idle, first, 4).ok());
  finish(*some);
  ASSERT_TRUE(feed(*some, busy, text(3, 10), 18).ok());
  finish(*some);
  EXPECT_EQ((*some->sequence(idle))->computed, 0);
  EXPECT_EQ((*some->sequence(idle))->end(), 13);
  EXPECT_THAT(some->stateBytes(idle).status(),
              fails(CRIA_FAILED_PRECONDITION, "gave its pages back"));
  expectSame(busy, alone({text(3, 10)}, 18, 2));
  ASSERT_TRUE(feed(*some, idle, second, 4).ok());
  finish(*some);
  expectSame(idle, alone({first, second}, 4, 1));
}

// A restored sequence, whose ids are not known, keeps its pages. One that was
// let in before it gives its own to it, and draws the same afterwards.
TEST_F(BatchTest, ARestoredSequenceTakesPagesFromAllOthers) {
  Ids prompt = text(1, 10), other = text(2, 9);
  auto session = std::move(*Session::create(model, 1));
  ASSERT_TRUE(session->expectPrompt(10).ok());
  ASSERT_TRUE(session->feed(prompt.data(), 9, CRIA_LOGITS_NONE, nullptr).ok());
  std::vector<std::byte> state(session->stateBytes());
  ASSERT_TRUE(session->save(state.data()).ok());
  auto some = batchOf(8);
  int64_t first = join(*some, 2);
  ASSERT_TRUE(feed(*some, first, other, 18).ok());
  step(*some);
  auto own = sampler(1);
  for (int i = 0; i < 9; ++i)
    own->accept(prompt[i], /*drawn=*/false);
  int64_t kept = *some->join({own, {}, true});
  ASSERT_TRUE(some->restore(kept, state.data(), state.size()).ok());
  ASSERT_TRUE(feed(*some, kept, {prompt[9]}, 18).ok());
  for (int i = 0; drawn[kept].finish == Finish::None; ++i) {
    ASSERT_LT(i, 100);
    step(*some);
  }
  ASSERT_TRUE(some->leave(kept).ok());
  finish(*some);
  expectSame(first, alone({other}, 18, 2));
  expectSame(kept, alone({prompt}, 18, 1));
  EXPECT_GT(some->counts().putBack, 0);
}

TEST_F(BatchTest, GivesAllPagesBack) {
  auto some = batchOf(10);
  for (uint32_t i = 0; i < 4; ++i)
    ASSERT_TRUE(feed(*some, join(*some, i), text(i, 9), 9).ok());
  for (int i = 0; i < 3; ++i)
    step(*some);
  for (int64_t number = 1; number <= 4; ++number)
    ASSERT_TRUE(some->leave(number).ok());
  EXPECT_EQ(some->unfinished(), 0u);
  EXPECT_EQ(some->pages().available(), 10);
}

TEST_F(BatchTest, CountsPagesByBytes) {
  BatchOptions options;
  options.cacheBytes = 5 * 16 + 15;
  EXPECT_EQ(batch(options)->pages().pages(), 5);
  options.pages = 3;
  EXPECT_EQ(batch(options)->pages().pages(), 3);
  EXPECT_EQ(batch()->pages().pages(), 30);
  BatchOptions many;
  many.pages = int64_t(1) << 31;
  EXPECT_THAT(Batch::create(model, many).status(),
              fails(CRIA_INVALID_ARGUMENT, "expected 1 to 2147483647"));
  options.cacheBytes = 15;
  EXPECT_THAT(Batch::create(model, options).status(),
              fails(CRIA_INVALID_ARGUMENT, "would have 0 pages of 16 bytes"));
}

// Of 36 positions a window of 6 and a prompt's chunk of 8 take four pages, and
// three where a row decodes.
TEST_F(BatchTest, WindowsTakeNoMoreThanTheirPages) {
  useWindows();
  BatchOptions options;
  options.windowPages = 3 * 3 + 1;
  auto some = batch(options);
  for (uint64_t i = 1; i <= 3; ++i)
    ASSERT_TRUE(feed(*some, join(*some, i), text(i, 20), 16).ok());
  while (some->unfinished() > 0) {
    step(*some);
    EXPECT_LE(used(some->windowPages()), 3 * 3);
  }
  EXPECT_EQ(used(some->pages()), 3 * 9);
  EXPECT_EQ(some->counts().putBack, 0);
  for (uint64_t i = 1; i <= 3; ++i) {
    expectSame(static_cast<int64_t>(i), alone({text(i, 20)}, 16, i));
    ASSERT_TRUE(some->leave(static_cast<int64_t>(i)).ok());
  }
  EXPECT_EQ(used(some->windowPages()), 0);
}

// A prompt goes on from the end of a page if the window before it is kept.
TEST_F(BatchTest, FindsAPromptAsFarAsItsWindowIsKept) {
  useWindows();
  BatchOptions options;
  options.windowPages = 12;
  auto some = batch(options);
  auto run = [&](const Ids &prompt, uint64_t seed) {
    int64_t reused = some->counts().reused, number = join(*some, seed);
    EXPECT_TRUE(feed(*some, number, prompt, 2).ok());
    finish(*some);
    expectSame(number, alone({prompt}, 2, seed));
    drawn.clear();
    EXPECT_TRUE(some->leave(number).ok());
    return some->counts().reused - reused;
  };
  Ids prompt = text(1, 29), other = prompt;
  EXPECT_EQ(run(prompt, 1), 0);
  other.back() = (other.back() + 1) % 5;
  EXPECT_EQ(run(other, 2), 28);
  other[18] = (other[18] + 1) % 5; // in the fifth page
  EXPECT_EQ(run(other, 3), 16);
  run(text(2, 17), 4); // takes the oldest pages
  EXPECT_EQ(run(prompt, 5), 28);
  run(text(3, 33), 6); // these two take all
  run(text(4, 33), 7);
  EXPECT_EQ(run(prompt, 8), 0);
}

// With three pages four ids are computed at once, whether they are fed or
// computed anew, by prefill or by rows.
TEST_F(BatchTest, ComputesAsManyIdsAsWindowPagesAllow) {
  useWindows();
  for (int64_t pages : {3, 4}) {
    BatchOptions options;
    options.windowPages = pages;
    auto some = batch(options);
    for (uint64_t i = 1; i <= 3; ++i)
      ASSERT_TRUE(feed(*some, join(*some, i), text(i, 14), 18).ok());
    while (some->unfinished() > 0) {
      int64_t before = some->counts().prefilled;
      step(*some);
      EXPECT_LE(some->counts().prefilled - before, pages == 3 ? 4 : 8);
    }
    for (int64_t i = 1; i <= 3; ++i)
      expectSame(i, alone({text(static_cast<uint64_t>(i), 14)}, 18,
                          static_cast<uint64_t>(i)));
    EXPECT_GT(some->counts().putBack, 0);
    drawn.clear();
  }
}

TEST_F(BatchTest, ForksShareWindows) {
  useWindows();
  auto some = batch();
  int64_t first = join(*some, 1);
  ASSERT_TRUE(feed(*some, first, text(1, 14), 3).ok());
  finish(*some);
  int64_t held = used(some->windowPages());
  int64_t second = *some->fork(first, {sampler(2), {}, true});
  EXPECT_EQ(used(some->windowPages()), held);
  ASSERT_TRUE(feed(*some, first, {3}, 9).ok());
  ASSERT_TRUE(feed(*some, second, {4}, 9).ok());
  finish(*some);
  auto session = std::move(*Session::create(reference, 1));
  Ids ids = text(1, 14);
  std::vector<float> logits(5);
  ASSERT_TRUE(session->feed(ids.data(), 14, CRIA_LOGITS_NONE, nullptr).ok());
  for (size_t i = 0; i < 2; ++i)
    ASSERT_TRUE(
        session->feed(&drawn[first].ids[i], 1, CRIA_LOGITS_NONE, nullptr).ok());
  Ids next = {drawn[first].ids[2], 4};
  ASSERT_TRUE(
      session->feed(next.data(), 2, CRIA_LOGITS_LAST, logits.data()).ok());
  EXPECT_EQ(drawn[second].logits.front(), logits);
}

TEST_F(BatchTest, RefusesForWantOfWindowPages) {
  useWindows();
  BatchOptions options;
  options.windowPages = 2;
  auto some = batch(options);
  EXPECT_THAT(feed(*some, join(*some, 1), text(1, 20), 1),
              fails(CRIA_RESOURCE_EXHAUSTED,
                    "sequence 1 needs 3 window pages and has 0: 2 of the "
                    "batch's 2 are free"));
  // A text that is no longer than its pages needs no others.
  ASSERT_TRUE(feed(*some, join(*some, 2), text(2, 7), 1).ok());
  step(*some);
  expectSame(2, alone({text(2, 7)}, 1, 2));
  options.windowPages = 5;
  options.refuses = true;
  some = batch(options);
  for (uint64_t i = 1; i <= 2; ++i)
    ASSERT_TRUE(feed(*some, join(*some, i), text(i, 11), 4).ok());
  finish(*some);
  expectSame(1, alone({text(1, 11)}, 4, 1));
  EXPECT_THAT(drawn[2].status,
              fails(CRIA_RESOURCE_EXHAUSTED, " window pages and has "));
}

// Less memory is less of both pools; the default has twice the texts' windows.
TEST_F(BatchTest, SharesBytesOutToWindows) {
  useWindows();
  EXPECT_EQ(batch()->windowPages().pages(), 2 * 3 * 3 + 4);
  BatchOptions options;
  options.cacheBytes = 16 * 26;
  EXPECT_EQ(batch(options)->windowPages().pages(), 11);
  EXPECT_EQ(batch(options)->pages().pages(), 15);
  options.windowPages = 5;
  options.pages = 5;
  EXPECT_EQ(batch(options)->windowPages().pages(), 5);
  EXPECT_EQ(batch(options)->pages().pages(), 5);
  // The window pages of one text come before the others.
  options.cacheBytes = 16 * 8;
  EXPECT_EQ(batch(options)->windowPages().pages(), 4);
  EXPECT_EQ(batch(options)->pages().pages(), 4);
  options.windowPages = -1;
  EXPECT_THAT(
      Batch::create(model, options).status(),
      fails(CRIA_INVALID_ARGUMENT, "would have -1 window pages of 16 bytes"));
}

// Window pages of a session are a ring. What went back too far is computed anew
// there, and by a batch that takes the state.
TEST_F(BatchTest, SessionsWithWindowsGoBack) {
  useWindows();
  Ids ids = text(1, 38);
  auto whole = std::move(*Session::create(reference, 1));
  for (int64_t left : {36, 30, 12, 5}) {
    auto session = std::move(*Session::create(model, 1));
    std::vector<float> expected(5), logits(5);
    ASSERT_TRUE(session->feed(ids.data(), 38, CRIA_LOGITS_NONE, nullptr).ok());
    ASSERT_TRUE(whole->rewind(0).ok());
    ASSERT_TRUE(whole->feed(ids.data(), left, CRIA_LOGITS_NONE, nullptr).ok());
    ASSERT_TRUE(session->rewind(left).ok());
    std::vector<std::byte> state(session->stateBytes());
    ASSERT_TRUE(session->save(state.data()).ok());
    auto other = std::move(*Session::create(model, 1));
    ASSERT_TRUE(other->restore(state.data(), state.size()).ok());
    auto some = batch();
    int64_t number = *some->join({nullptr, {}, true});
    ASSERT_TRUE(some->restore(number, state.data(), state.size()).ok());
    ASSERT_TRUE(feed(*some, number, {3}, 1).ok());
    finish(*some);
    int32_t next = 3;
    for (Session *each : {whole.get(), session.get(), other.get()}) {
      std::vector<float> &to = each == whole.get() ? expected : logits;
      ASSERT_TRUE(each->feed(&next, 1, CRIA_LOGITS_LAST, to.data()).ok());
      EXPECT_EQ(to, expected) << left;
    }
    EXPECT_EQ(drawn[number].logits.front(), expected) << left;
    drawn.clear();
    // A state has the window before its end alone.
    ASSERT_TRUE(other->rewind(left).ok());
    ASSERT_TRUE(other->feed(&next, 1, CRIA_LOGITS_LAST, logits.data()).ok());
    EXPECT_EQ(logits, expected) << left;
  }
}

TEST_F(BatchTest, StatesMoveBetweenBatchesAndSessions) {
  for (const nlohmann::json &manifest :
       {fakePagedManifest(), fakeStatesManifest(), fakeWindowsManifest()}) {
    use(manifest, fakeTensors());
    drawn.clear();
    Ids prompt = text(1, 10);
    Drawn expected = alone({prompt}, 6, 1);
    auto some = batch();
    int64_t first = join(*some, 1);
    ASSERT_TRUE(feed(*some, first, prompt, 3).ok());
    finish(*some);
    std::vector<std::byte> state(*some->stateBytes(first));
    ASSERT_TRUE(some->save(first, state.data()).ok());
    auto session = std::move(*Session::create(model, 1));
    ASSERT_TRUE(session->restore(state.data(), state.size()).ok());
    EXPECT_EQ(session->position(), 12); // without the id that was drawn last
    std::vector<float> logits(5);
    ASSERT_TRUE(
        session->feed(&expected.ids[2], 1, CRIA_LOGITS_LAST, logits.data())
            .ok());
    EXPECT_EQ(logits, expected.logits[3]);
    // And back, to a sequence that then decodes.
    state.resize(session->stateBytes());
    ASSERT_TRUE(session->save(state.data()).ok());
    int64_t second = *some->join({nullptr, {}, true});
    ASSERT_TRUE(some->restore(second, state.data(), state.size()).ok());
    ASSERT_TRUE(feed(*some, second, {expected.ids[3]}, 1).ok());
    finish(*some);
    EXPECT_EQ(drawn[second].logits.front(), expected.logits[4]);
    EXPECT_THAT(some->restore(second, state.data(), state.size()),
                fails(CRIA_FAILED_PRECONDITION, "holds 15 positions"));
    state[100] ^= std::byte(1);
    EXPECT_THAT(some->restore(join(*some, 1), state.data(), state.size()),
                fails(CRIA_DATA_LOSS, "damaged"));
  }
}

TEST_F(BatchTest, NeedsAnArtifactWithBatches) {
  use(fakeManifest(), fakeTensors());
  EXPECT_THAT(Batch::create(model, {}).status(),
              fails(CRIA_UNIMPLEMENTED, "compile it with --batch=N"));
}

// A step that has pages for some of a chunk, or that fails, leaves none of
// them: what is found by its content later follows the computed pages.
TEST_F(BatchTest, WhatWasNotComputedHoldsNoPages) {
  auto some = batchOf(8, /*refuses=*/true);
  int64_t first = join(*some, 1), second = join(*some, 2);
  Ids one = text(1, 17), other = text(2, 15);
  ASSERT_TRUE(feed(*some, first, one, 1).ok());
  ASSERT_TRUE(feed(*some, second, other, 1).ok());
  finish(*some);
  EXPECT_THAT(drawn[second].status,
              fails(CRIA_RESOURCE_EXHAUSTED, "sequence 2 needs 4 pages and has "
                                             "2: 1 of the batch's 8 are free"));
  EXPECT_EQ(some->pages().available(), 1);
  ASSERT_TRUE(some->leave(first).ok());
  int64_t third = join(*some, 2);
  ASSERT_TRUE(feed(*some, third, other, 1).ok());
  finish(*some);
  for (int64_t number : {third, second}) {
    if (number == second) {
      ASSERT_TRUE(feed(*some, second, {}, 1).ok());
    }
    finish(*some);
    expectSame(number, alone({other}, 1, 2));
  }
}

TEST_F(BatchTest, AStepThatFailsKeepsNothing) {
  auto some = batch();
  auto of = sampler(1);
  int64_t number = *some->join({of, {}, true});
  ASSERT_TRUE(feed(*some, number, text(1, 7), 3).ok());
  ASSERT_TRUE(of->enter()); // as another thread does
  for (int i = 0; i < 2; ++i)
    EXPECT_THAT(some->step(),
                fails(CRIA_FAILED_PRECONDITION, "is using the sampler"));
  EXPECT_THAT(some->fork(number, {of, {}, true}).status(),
              fails(CRIA_INVALID_ARGUMENT, "is that of sequence"));
  EXPECT_EQ(some->pages().available(), 30);
  of->leave();
  finish(*some);
  expectSame(number, alone({text(1, 7)}, 3, 1));
  ASSERT_TRUE(of->enter());
  EXPECT_THAT(feed(*some, number, {1}, 1),
              fails(CRIA_FAILED_PRECONDITION, "is using the sampler"));
  EXPECT_EQ((*some->sequence(number))->end(), 10);
}

TEST_F(BatchTest, RefusesManifestsThatBatchesAreNotFor) {
  auto refused = [&](const char *pointer, const nlohmann::json &value,
                     const char *message) {
    nlohmann::json manifest = fakePagedManifest();
    manifest[nlohmann::json::json_pointer(pointer)] = value;
    std::string path = folder.write("bad.cria", artifactOf(manifest));
    EXPECT_THAT(Artifact::open(path).status(),
                fails(CRIA_INVALID_ARGUMENT, message));
  };
  refused("/model/bidirectional", true, "is for a decoder-only model");
  refused("/caches", nlohmann::json::array(), "for a model with KV caches");
  nlohmann::json large = fakePagedManifest()["caches"];
  large[0].update({{"shape", {int64_t(1) << 37}}, {"bytes", int64_t(1) << 39}});
  refused("/caches", large, "makes a KV cache of 10 times");
  refused("/taps", nlohmann::json::object(), "'batch' is beside taps");
}
