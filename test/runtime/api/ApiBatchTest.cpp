#include "runtime/cria.hpp"

#include "test/runtime/Allocations.h"
#include "test/runtime/Fixtures.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <thread>
#include <vector>

using namespace cria::test;
using testing::HasSubstr;

namespace {

class ApiBatchTest : public testing::Test {
protected:
  void SetUp() override {
    CRIA_INIT(&error);
    folder.write("x.cria", artifactOf(fakePagedManifest()));
    folder.write("model.safetensors", safetensorsOf(fakeTensors()));
  }

  TemporaryFolder folder;
  cria_error error;
};

} // namespace

// What examples do, and a sampler that is freed while a sequence draws by it.
TEST_F(ApiBatchTest, ComputesManyTexts) {
  cria::Artifact artifact(folder.path("x.cria"));
  cria::Model model(artifact, folder.path());
  cria::Batch batch(model);
  auto options = cria::make<cria_sequence_options>();
  auto drawing = cria::make<cria_sampler_options>();
  drawing.temperature = 30;
  cria_sampler *sampler = nullptr;
  cria::call(cria_sampler_create, &drawing, 5, &sampler);
  options.sampler = sampler;
  options.logits = 1;
  int64_t sampled = batch.join(options), greedy = batch.join();
  cria_sampler_free(&sampler);
  batch.feed(sampled, {1, 2, 3}, 4);
  batch.feed(greedy, {3, 2}, 4);
  std::vector<int32_t> ids;
  do
    for (const cria_batch_result &result : batch.step())
      if (result.sequence == greedy) {
        ids.push_back(result.id);
        EXPECT_EQ(result.logits, nullptr);
        EXPECT_STREQ(result.message, "");
        EXPECT_EQ(result.finish,
                  ids.size() == 4 ? CRIA_FINISH_LENGTH : CRIA_FINISH_NONE);
      } else {
        EXPECT_NE(result.logits, nullptr);
      }
  while (batch.unfinished());
  EXPECT_EQ(batch.results().back().finish, CRIA_FINISH_LENGTH);
  cria::Session session(model);
  auto likeliest = cria::make<cria_sampler_options>();
  cria::Sampler best(likeliest, 5);
  std::vector<int32_t> next = {3, 2}, expected;
  for (int i = 0; i < 4; ++i) {
    next = {session.draw(next, best)};
    expected.push_back(next[0]);
  }
  EXPECT_EQ(ids, expected);
  cria_batch_info info = batch.info();
  EXPECT_EQ(info.rows, 3);
  EXPECT_EQ(info.page, 4);
  EXPECT_EQ(info.page_bytes, 16u);
  EXPECT_EQ(info.pages, 30);
  EXPECT_EQ(info.free_pages, 30 - 2 - 2);
  EXPECT_EQ(info.prefilled, 5);
  EXPECT_EQ(info.decoded, 6);
  EXPECT_EQ(info.running + info.waiting, 0);
}

TEST_F(ApiBatchTest, StatesAndForks) {
  cria::Artifact artifact(folder.path("x.cria"));
  cria::Model model(artifact, folder.path());
  cria::Batch batch(model);
  int64_t first = batch.join();
  batch.feed(first, {1, 2, 3}, 0);
  batch.step();
  int64_t fork = batch.fork(first), restored = batch.join();
  batch.restore(restored, batch.save(first));
  for (int64_t sequence : {first, fork, restored})
    batch.feed(sequence, {4}, 1);
  std::vector<int32_t> ids;
  while (ids.size() < 3)
    for (const cria_batch_result &result : batch.step())
      ids.push_back(result.id);
  EXPECT_EQ(ids, std::vector<int32_t>(3, ids[0]));
  int64_t computed = 0, position = 0;
  cria::call(cria_batch_position, batch.get(), fork, &computed, &position);
  EXPECT_EQ(computed, 4);
  EXPECT_EQ(position, 5);
  batch.leave(fork);
  EXPECT_EQ(cria_batch_position(batch.get(), fork, &computed, nullptr, &error),
            CRIA_NOT_FOUND);
}

// Each id's once, also where the pages of the same ids are there.
TEST_F(ApiBatchTest, HiddenStates) {
  cria::Artifact artifact(folder.path("x.cria"));
  cria::Model model(artifact, folder.path());
  auto asked = cria::make<cria_batch_options>();
  asked.chunk = 4;
  cria::Batch batch(model, asked);
  auto options = cria::make<cria_sequence_options>();
  options.hidden = 1;
  std::vector<int32_t> ids = {1, 2, 3, 4, 3, 2};
  std::vector<float> all(12);
  auto outputs = cria::make<cria_outputs>();
  outputs.hidden_of = CRIA_LOGITS_ALL;
  outputs.hidden = all.data();
  outputs.hidden_capacity = all.size();
  cria::Session(model).feed(ids, outputs);
  for (int64_t drawn : {0, 2}) {
    int64_t sequence = batch.join(options);
    batch.feed(sequence, ids, drawn);
    std::vector<float> found;
    do
      for (const cria_batch_result &result : batch.step()) {
        EXPECT_EQ(result.id >= 0, !result.hidden && drawn);
        found.insert(found.end(), result.hidden,
                     result.hidden + 2 * result.hidden_rows);
      }
    while (batch.unfinished());
    // The first id that was drawn is computed, too.
    ASSERT_EQ(found.size(), drawn ? 14u : 12u);
    EXPECT_TRUE(std::equal(all.begin(), all.end(), found.begin()));
  }
  EXPECT_EQ(batch.info().reused, 0);

  nlohmann::json none = fakePagedManifest();
  none["model"].erase("hidden");
  folder.write("none.cria", artifactOf(none));
  cria::Artifact other(folder.path("none.cria"));
  cria::Model without(other, folder.path());
  int64_t sequence = 0;
  EXPECT_EQ(
      cria_batch_join(cria::Batch(without).get(), &options, &sequence, &error),
      CRIA_FAILED_PRECONDITION);
  EXPECT_STREQ(error.message,
               "the artifact's program returns no hidden states");
}

// Texts of one salt share pages; the time of a prompt tells nothing of others'.
TEST_F(ApiBatchTest, TextsOfOtherSaltsShareNoPages) {
  cria::Artifact artifact(folder.path("x.cria"));
  cria::Model model(artifact, folder.path());
  cria::Batch batch(model);
  auto options = cria::make<cria_sequence_options>();
  for (auto [salt, reused] : {std::pair(0, 0), {7, 0}, {0, 4}, {7, 4}}) {
    options.salt = salt;
    int64_t sequence = batch.join(options);
    batch.feed(sequence, {1, 2, 3, 4, 3, 2}, 1);
    while (batch.step(), batch.unfinished())
      ;
    cria_sequence_info info = batch.sequence(sequence);
    EXPECT_EQ(info.reused, reused);
    EXPECT_EQ(info.computed, 6);
    EXPECT_EQ(info.position, 7);
    batch.leave(sequence);
  }
  options.salt = -1;
  int64_t none = 0;
  EXPECT_EQ(cria_batch_join(batch.get(), &options, &none, &error),
            CRIA_INVALID_ARGUMENT);
  EXPECT_STREQ(error.message, "salt is -1, expected 0 or more");
  auto info = cria::make<cria_sequence_info>();
  EXPECT_EQ(cria_batch_get_sequence(batch.get(), 99, &info, &error),
            CRIA_NOT_FOUND);
}

// The host runs out of memory, at every allocation of a batch in turn: a call
// says so and may be repeated, or one sequence fails; the others draw the same.
TEST_F(ApiBatchTest, EveryAllocationMayFail) {
  if (!allocationsCanFail)
    GTEST_SKIP();
  cria::Artifact artifact(folder.path("x.cria"));
  cria::Model model(artifact, folder.path());
  auto options = cria::make<cria_batch_options>();
  options.pages = 4;
  options.threads = 1;
  std::vector<std::vector<int32_t>> expected;
  int failures = 1;
  for (int64_t nth = 0; failures > 0; ++nth) { // 0: none fails
    failures = nth == 0;
    auto repeat = [&](auto call) {
      while (call() != CRIA_OK) {
        ASSERT_EQ(error.status, CRIA_RESOURCE_EXHAUSTED) << error.message;
        ASSERT_LT(++failures, 5);
      }
    };
    std::vector<std::vector<int32_t>> drawn(4);
    for (auto &ids : drawn)
      ids.reserve(9);
    std::vector<bool> failed(4);
    failAllocation(nth);
    cria_batch *batch = nullptr;
    repeat([&] {
      return cria_batch_create(model.get(), &options, &batch, &error);
    });
    int64_t sequence = 0;
    for (int i = 0; i < 3; ++i) {
      repeat(
          [&] { return cria_batch_join(batch, nullptr, &sequence, &error); });
      int32_t ids[] = {1, 2, i, 3, i};
      repeat(
          [&] { return cria_batch_feed(batch, sequence, ids, 5, 5, &error); });
    }
    for (size_t results, unfinished = 1; unfinished > 0;) {
      if (cria_batch_step(batch, &results, &unfinished, &error) != CRIA_OK)
        ++failures;
      for (size_t i = 0; i < results; ++i) {
        auto result = cria::make<cria_batch_result>();
        cria_batch_get_result(batch, i, &result, nullptr);
        auto at = static_cast<size_t>(result.sequence);
        if (result.finish == CRIA_FINISH_FAILED)
          failed[at] = true;
        else
          drawn[at].push_back(result.id);
      }
    }
    failAllocation(0);
    cria_batch_free(&batch);
    if (nth == 0)
      expected = drawn;
    for (size_t i = 1; i < 4; ++i) {
      failures += failed[i];
      EXPECT_TRUE(failed[i] || drawn[i] == expected[i]) << nth;
    }
  }
}

// A step has the samplers that it draws with. Whoever comes second is refused.
TEST_F(ApiBatchTest, ASamplerBelongsToOneThreadAtATime) {
  cria::Artifact artifact(folder.path("x.cria"));
  cria::Model model(artifact, folder.path());
  cria::Batch batch(model);
  cria::Sampler sampler(cria::make<cria_sampler_options>(), 5);
  auto options = cria::make<cria_sequence_options>();
  options.sampler = sampler.get();
  int64_t number = batch.join(options);
  std::atomic<bool> done = false;
  auto mayFail = [](cria_status status) {
    EXPECT_TRUE(status == CRIA_OK || status == CRIA_FAILED_PRECONDITION);
    return status;
  };
  std::thread other([&] {
    const uint32_t some = 0b10110;
    while (!done) {
      mayFail(cria_sampler_allow(sampler.get(), &some, 1, nullptr));
      mayFail(cria_sampler_accept(sampler.get(), 1, nullptr));
    }
  });
  int32_t ids[] = {1, 2};
  while (mayFail(cria_batch_feed(batch.get(), number, ids, 2, 30, &error)))
    EXPECT_THAT(error.message, HasSubstr("is using the sampler"));
  for (size_t unfinished = 1; unfinished > 0;)
    mayFail(cria_batch_step(batch.get(), nullptr, &unfinished, &error));
  done = true;
  other.join();
  int64_t position = 0;
  cria::call(cria_batch_position, batch.get(), number, nullptr, &position);
  EXPECT_EQ(position, 32);
}

TEST_F(ApiBatchTest, RefusesWhatIsNotThere) {
  cria::Artifact artifact(folder.path("x.cria"));
  cria::Model model(artifact, folder.path());
  cria::Batch batch(model);
  int64_t number = 0;
  auto options = cria::make<cria_sequence_options>();
  options.end_count = 1;
  EXPECT_EQ(cria_batch_join(batch.get(), &options, &number, &error),
            CRIA_INVALID_ARGUMENT);
  EXPECT_STREQ(error.message, "end_ids is NULL");
  EXPECT_EQ(cria_batch_join(nullptr, nullptr, &number, &error),
            CRIA_INVALID_ARGUMENT);
  EXPECT_EQ(cria_batch_step(nullptr, nullptr, nullptr, &error),
            CRIA_INVALID_ARGUMENT);
  number = batch.join();
  EXPECT_EQ(cria_batch_feed(batch.get(), number, nullptr, 1, 1, &error),
            CRIA_INVALID_ARGUMENT);
  EXPECT_STREQ(error.message, "ids is NULL");
  auto drawing = cria::make<cria_sampler_options>();
  cria::Sampler other(drawing, 6);
  options = cria::make<cria_sequence_options>();
  options.sampler = other.get();
  EXPECT_EQ(cria_batch_join(batch.get(), &options, &number, &error),
            CRIA_INVALID_ARGUMENT);
  EXPECT_STREQ(error.message,
               "the sampler's vocab_size is 6, expected the model's 5");
  cria::Sampler taken(drawing, 5);
  options.sampler = taken.get();
  number = batch.join(options);
  EXPECT_EQ(cria_batch_join(batch.get(), &options, &number, &error),
            CRIA_INVALID_ARGUMENT);
  EXPECT_STREQ(error.message, "the sampler is that of sequence 2");
  auto result = cria::make<cria_batch_result>();
  EXPECT_EQ(cria_batch_get_result(batch.get(), 0, &result, &error),
            CRIA_OUT_OF_RANGE);
  EXPECT_STREQ(error.message, "result 0 of 0");
  std::vector<std::byte> state(1);
  EXPECT_EQ(cria_batch_save(batch.get(), number, state.data(), 1, &error),
            CRIA_INVALID_ARGUMENT);
  EXPECT_THAT(error.message, HasSubstr("capacity is 1 bytes, expected"));
  auto wrong = cria::make<cria_batch_options>();
  wrong.chunk = -1;
  cria_batch *none = nullptr;
  EXPECT_EQ(cria_batch_create(model.get(), &wrong, &none, &error),
            CRIA_INVALID_ARGUMENT);
  EXPECT_STREQ(error.message, "chunk is -1, expected 0 or more");
  wrong.chunk = 0;
  wrong.threads = 1025;
  EXPECT_EQ(cria_batch_create(model.get(), &wrong, &none, &error),
            CRIA_INVALID_ARGUMENT);
}
