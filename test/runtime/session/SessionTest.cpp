#include "test/runtime/session/SessionFixture.h"

#include <atomic>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <thread>
#include <unistd.h>

using namespace cria;
using namespace cria::test;
using testing::ElementsAre;

TEST_F(SessionTest, ChunksWholePromptsAndSingleStepsAgree) {
  std::vector<float> whole(45), steps(45), last(5);
  ASSERT_TRUE(
      session()->feed(ids.data(), 9, CRIA_LOGITS_ALL, whole.data()).ok());
  expectNear(whole, fakeLogits(ids));
  auto stepwise = session(1);
  for (size_t i = 0; i < ids.size(); ++i)
    ASSERT_TRUE(
        stepwise->feed(&ids[i], 1, CRIA_LOGITS_LAST, &steps[i * 5]).ok());
  expectNear(steps, fakeLogits(ids));
  ASSERT_TRUE(
      session()->feed(ids.data(), 9, CRIA_LOGITS_LAST, last.data()).ok());
  expectNear(last, {whole.begin() + 40, whole.end()});
}

TEST_F(SessionTest, FeedsWithoutLogits) {
  auto quiet = session();
  ASSERT_TRUE(quiet->feed(ids.data(), 1, CRIA_LOGITS_NONE, nullptr).ok());
  ASSERT_TRUE(quiet->feed(&ids[1], 7, CRIA_LOGITS_NONE, nullptr).ok());
  std::vector<float> last(5), all = fakeLogits(ids);
  ASSERT_TRUE(quiet->feed(&ids[8], 1, CRIA_LOGITS_ALL, last.data()).ok());
  expectNear(last, {all.begin() + 40, all.end()});
  EXPECT_EQ(quiet->position(), 9);
  EXPECT_EQ(quiet->prefillTime().tokens, 7);
  EXPECT_EQ(quiet->decodeTime().tokens, 2);
}

TEST_F(SessionTest, RefusesWhatDoesNotFitTheContextWithBothNumbers) {
  auto full = session();
  ASSERT_TRUE(full->feed(ids.data(), 9, CRIA_LOGITS_NONE, nullptr).ok());
  EXPECT_THAT(full->feed(ids.data(), 4, CRIA_LOGITS_NONE, nullptr),
              fails(CRIA_OUT_OF_RANGE, "4 ids at position 9 make 13, the "
                                       "artifact's context holds 12"));
  EXPECT_EQ(full->position(), 9);
  EXPECT_TRUE(full->feed(ids.data(), 3, CRIA_LOGITS_NONE, nullptr).ok());
  EXPECT_THAT(full->feed(ids.data(), 1, CRIA_LOGITS_NONE, nullptr),
              fails(CRIA_OUT_OF_RANGE, "make 13"));
}

TEST_F(SessionTest, RefusesIdsOutsideTheVocabulary) {
  for (int32_t bad : {-1, 5, INT32_MAX, INT32_MIN}) {
    std::vector<int32_t> some = {1, 2, bad};
    auto fresh = session();
    EXPECT_THAT(
        fresh->feed(some.data(), 3, CRIA_LOGITS_NONE, nullptr),
        fails(CRIA_INVALID_ARGUMENT,
              "id " + std::to_string(bad) + " at index 2, expected 0 to 4"));
    EXPECT_EQ(fresh->position(), 0);
  }
  EXPECT_THAT(session()->feed(ids.data(), 0, CRIA_LOGITS_NONE, nullptr),
              fails(CRIA_INVALID_ARGUMENT, "no ids"));
}

TEST_F(SessionTest, RewindsToAnEarlierPosition) {
  auto used = session();
  ASSERT_TRUE(used->feed(ids.data(), 9, CRIA_LOGITS_NONE, nullptr).ok());
  EXPECT_THAT(used->rewind(10), fails(CRIA_OUT_OF_RANGE, "position 10"));
  EXPECT_THAT(used->rewind(-1), fails(CRIA_OUT_OF_RANGE, "position -1"));
  ASSERT_TRUE(used->rewind(3).ok());
  std::vector<float> logits(5);
  ASSERT_TRUE(used->feed(&ids[3], 1, CRIA_LOGITS_LAST, logits.data()).ok());
  std::vector<float> all = fakeLogits({ids.begin(), ids.begin() + 4});
  expectNear(logits, {all.begin() + 15, all.end()});
}

TEST_F(SessionTest, StopsWhereCancelled) {
  auto stopped = session();
  stopped->cancel();
  EXPECT_THAT(stopped->feed(ids.data(), 9, CRIA_LOGITS_NONE, nullptr),
              fails(CRIA_CANCELLED, "cancelled after 0 of 9 positions"));
  EXPECT_EQ(stopped->position(), 0);
  EXPECT_TRUE(stopped->feed(ids.data(), 9, CRIA_LOGITS_NONE, nullptr).ok());
}

TEST_F(SessionTest, ComputesATextAnewThatOutgrowsItsRope) {
  useRecomputedRope();
  for (int64_t first : {1, 3, 5}) {
    auto grown = session();
    std::vector<float> logits(5);
    ASSERT_TRUE(
        grown->feed(ids.data(), first, CRIA_LOGITS_LAST, logits.data()).ok());
    expectNear(logits, lastOf(first));
    for (int64_t i = first; i < 9; ++i) {
      ASSERT_TRUE(
          grown->feed(&ids[i], 1, CRIA_LOGITS_LAST, logits.data()).ok());
      expectNear(logits, lastOf(i + 1, i < 5 ? 1 : 2));
    }
    ASSERT_TRUE(grown->rewind(0).ok());
    ASSERT_TRUE(
        grown->feed(ids.data(), 2, CRIA_LOGITS_LAST, logits.data()).ok());
    expectNear(logits, lastOf(2));
  }
}

TEST_F(SessionTest, SaysThatItComputesATextAnew) {
  useRecomputedRope();
  std::vector<std::string> said;
  WeightSource source;
  source.log.data = &said;
  source.log.write = [](void *data, int32_t level, const char *text) {
    EXPECT_EQ(level, CRIA_LOG_INFO);
    static_cast<std::vector<std::string> *>(data)->push_back(text);
  };
  auto artifact = Artifact::open(folder.path("recomputed.cria"));
  auto loaded = Model::load(*artifact, source);
  ASSERT_TRUE(loaded.ok()) << loaded.status().message();
  model = *loaded;
  auto grown = session();
  ASSERT_TRUE(grown->feed(ids.data(), 4, CRIA_LOGITS_NONE, nullptr).ok());
  ASSERT_EQ(said.size(), 1u); // that it was loaded
  ASSERT_TRUE(grown->feed(&ids[4], 2, CRIA_LOGITS_NONE, nullptr).ok());
  EXPECT_THAT(said, ElementsAre(testing::HasSubstr("loaded in "),
                                "computes 4 positions anew: in the longer or "
                                "shorter text its rope has other "
                                "frequencies"));
}

TEST_F(SessionTest, GrowsAlsoWhereEmbeddingsCameFirst) {
  useRecomputedRope();
  auto grown = session();
  std::vector<float> rows(8, 0.5f), logits(5);
  ids = {0, 1, 2, 3, 4, 2}; // how embeddings are numbered, then 4 and 2
  ASSERT_TRUE(grown->feedEmbeddings(rows.data(), 4, 2).ok());
  for (int64_t i : {4, 5})
    ASSERT_TRUE(grown->feed(&ids[i], 1, CRIA_LOGITS_LAST, logits.data()).ok());
  expectNear(logits, lastOf(6, 2));
}

TEST_F(SessionTest, KeepsItsPlaceWhereCancelledWhileItIsComputedAnew) {
  useRecomputedRope();
  auto stopped = session();
  std::vector<float> logits(5);
  ASSERT_TRUE(stopped->feed(ids.data(), 5, CRIA_LOGITS_NONE, nullptr).ok());
  for (int64_t count : {1, 2}) {
    stopped->cancel();
    EXPECT_THAT(
        stopped->feed(&ids[5], count, CRIA_LOGITS_NONE, nullptr),
        fails(CRIA_CANCELLED, "cancelled after 0 of " + std::to_string(count)));
    EXPECT_EQ(stopped->position(), 5);
  }
  ASSERT_TRUE(stopped->rewind(3).ok()); // a text that is short again
  ASSERT_TRUE(stopped->feed(&ids[3], 1, CRIA_LOGITS_LAST, logits.data()).ok());
  expectNear(logits, lastOf(4));
  ASSERT_TRUE(stopped->feed(&ids[4], 2, CRIA_LOGITS_LAST, logits.data()).ok());
  expectNear(logits, lastOf(6, 2));
}

TEST_F(SessionTest, TakesEmbeddingsInPlaceOfIds) {
  auto fed = session();
  std::vector<float> rows(18, 0.5f), logits(15);
  ASSERT_TRUE(fed->expectPrompt(12).ok());
  ASSERT_TRUE(fed->feedEmbeddings(rows.data(), 9, 2).ok());
  EXPECT_EQ(fed->position(), 9);
  EXPECT_EQ(fed->prefillTime().tokens, 9);
  EXPECT_THAT(fed->feedEmbeddings(rows.data(), 4, 2),
              fails(CRIA_OUT_OF_RANGE, "4 embeddings at position 9 make 13"));
  EXPECT_EQ(fed->position(), 9);
  // The table is the model's again.
  ASSERT_TRUE(fed->rewind(0).ok());
  ASSERT_TRUE(fed->feed(ids.data(), 3, CRIA_LOGITS_ALL, logits.data()).ok());
  expectNear(logits, fakeLogits({ids.begin(), ids.begin() + 3}));
}

TEST_F(SessionTest, RefusesWhatIsNoEmbedding) {
  auto fed = session();
  std::vector<float> rows = {1, 2, 3, NAN, 5, 6};
  EXPECT_THAT(fed->feedEmbeddings(rows.data(), 2, 3),
              fails(CRIA_INVALID_ARGUMENT, "embeddings of 3 numbers, expected "
                                           "the model's hidden size 2"));
  EXPECT_THAT(fed->feedEmbeddings(rows.data(), 0, 2),
              fails(CRIA_INVALID_ARGUMENT, "no embeddings"));
  EXPECT_THAT(fed->feedEmbeddings(rows.data(), 3, 2),
              fails(CRIA_INVALID_ARGUMENT, "embedding 1, column 1 is nan, "
                                           "expected a finite f32"));
  EXPECT_THAT(fed->expectPrompt(13), fails(CRIA_OUT_OF_RANGE, "0 to 12"));
  EXPECT_EQ(fed->position(), 0);
  nlohmann::json manifest = fakeManifest();
  manifest.erase("embedding");
  auto artifact = Artifact::open(folder.write("z.cria", artifactOf(manifest)));
  ASSERT_TRUE(artifact.ok());
  auto bound = Model::bind(*artifact, folder.path());
  ASSERT_TRUE(bound.ok());
  EXPECT_THAT((*Session::create(*bound, 1))->feedEmbeddings(rows.data(), 1, 2),
              fails(CRIA_FAILED_PRECONDITION, "no single table"));
}

TEST_F(SessionTest, RefusesImpossibleThreadCounts) {
  EXPECT_THAT(Session::create(model, -1).status(),
              fails(CRIA_INVALID_ARGUMENT, "threads is -1"));
  EXPECT_THAT(Session::create(model, INT32_MAX).status(),
              fails(CRIA_INVALID_ARGUMENT, "expected 0 to 1024"));
}

TEST_F(SessionTest, SessionsOfOneModelRunSideBySide) {
  std::vector<float> solo(45);
  ASSERT_TRUE(
      session()->feed(ids.data(), 9, CRIA_LOGITS_ALL, solo.data()).ok());
  std::vector<std::vector<float>> results(8, std::vector<float>(45));
  std::vector<std::thread> threads;
  for (auto &result : results)
    threads.emplace_back([&] {
      for (int repeat = 0; repeat < 20; ++repeat)
        (void)session()->feed(ids.data(), 9, CRIA_LOGITS_ALL, result.data());
    });
  for (std::thread &thread : threads)
    thread.join();
  for (const auto &result : results)
    EXPECT_EQ(result, solo);
}

TEST_F(SessionTest, OthersGoOnWhereOneIsCancelledOrRefused) {
  std::vector<float> solo(45), result(45);
  ASSERT_TRUE(
      session()->feed(ids.data(), 9, CRIA_LOGITS_ALL, solo.data()).ok());
  auto troubled = session();
  std::atomic<bool> done = false;
  std::thread other([&] {
    const int32_t bad = 5;
    while (!done) {
      troubled->cancel();
      EXPECT_FALSE(
          troubled->feed(ids.data(), 9, CRIA_LOGITS_NONE, nullptr).ok());
      EXPECT_FALSE(troubled->feed(&bad, 1, CRIA_LOGITS_NONE, nullptr).ok());
      EXPECT_FALSE(Session::create(model, -1).ok());
    }
  });
  for (int repeat = 0; repeat < 50; ++repeat) {
    EXPECT_TRUE(
        session()->feed(ids.data(), 9, CRIA_LOGITS_ALL, result.data()).ok());
    EXPECT_EQ(result, solo);
  }
  done = true;
  other.join();
}

TEST_F(SessionTest, ReportsMemoryThatCannotBeHad) {
  nlohmann::json manifest = fakeManifest();
  manifest["cpu"][0]["arena"] = 1ll << 47;
  auto artifact = Artifact::open(folder.write("y.cria", artifactOf(manifest)));
  ASSERT_TRUE(artifact.ok());
  auto bound = Model::bind(*artifact, folder.path());
  ASSERT_TRUE(bound.ok());
  EXPECT_THAT(Session::create(*bound, 1).status(),
              fails(CRIA_RESOURCE_EXHAUSTED,
                    "cannot allocate 140737488355328 bytes for scratch"));
}

TEST_F(SessionTest, AttendsToASourceThatIsEncodedFirst) {
  nlohmann::json manifest = fakeManifest();
  manifest["model"]["encoder"] = true;
  manifest["cpu"][0]["entries"]["encode"] = "fake_encode";
  use("encoder.cria", manifest);
  auto one = session();
  std::vector<float> logits(5), shifted = fakeLogits({1});
  EXPECT_THAT(one->feed(ids.data(), 1, CRIA_LOGITS_LAST, logits.data()),
              fails(CRIA_INVALID_ARGUMENT, "none was encoded"));
  EXPECT_THAT(
      one->encode(ids.data(), 5),
      fails(CRIA_OUT_OF_RANGE, "5 ids to encode, the artifact takes 4"));
  int32_t wrong = 5;
  EXPECT_THAT(one->encode(&wrong, 1),
              fails(CRIA_INVALID_ARGUMENT, "id 5 at index 0"));
  EXPECT_THAT(one->encode(ids.data(), 0),
              fails(CRIA_INVALID_ARGUMENT, "no ids"));
  for (int64_t count : {3, 1}) {
    ASSERT_TRUE(one->encode(ids.data(), count).ok());
    EXPECT_EQ(one->position(), 0);
    ASSERT_TRUE(one->feed(ids.data(), 1, CRIA_LOGITS_LAST, logits.data()).ok());
    for (size_t v = 0; v < 5; ++v)
      EXPECT_NEAR(logits[v], shifted[v] + 100.0f * static_cast<float>(count),
                  1e-4);
  }
}

TEST_F(SessionTest, HasNoEncoder) {
  EXPECT_THAT(session()->encode(ids.data(), 1),
              fails(CRIA_INVALID_ARGUMENT, "the model has no encoder"));
}

TEST_F(SessionTest, TakesATextWholeWhereTokensSeeThoseBehindThem) {
  nlohmann::json manifest = fakeManifest();
  manifest["model"]["bidirectional"] = true;
  use("both-ways.cria", manifest);
  auto one = session();
  EXPECT_THAT(one->feed(ids.data(), 5, CRIA_LOGITS_NONE, nullptr),
              fails(CRIA_OUT_OF_RANGE, "of at most 4 ids"));
  EXPECT_TRUE(one->feed(ids.data(), 4, CRIA_LOGITS_NONE, nullptr).ok());
  EXPECT_THAT(one->feed(ids.data(), 1, CRIA_LOGITS_NONE, nullptr),
              fails(CRIA_OUT_OF_RANGE, "1 ids at position 4"));
  EXPECT_TRUE(one->rewind(0).ok());
  EXPECT_TRUE(one->feed(ids.data(), 1, CRIA_LOGITS_NONE, nullptr).ok());
}

// Weights that lie in a file which another process cuts.
TEST_F(SessionTest, SurvivesAnArtifactThatIsCutOrOverwritten) {
  std::string file = folder.path("x.cria");
  auto size = static_cast<size_t>(std::filesystem::file_size(file));
  auto expectWorks = [&] {
    std::vector<float> logits(45);
    Status status =
        session()->feed(ids.data(), 9, CRIA_LOGITS_ALL, logits.data());
    ASSERT_TRUE(status.ok()) << status.message();
    expectNear(logits, fakeLogits(ids));
  };
  std::fstream(file, std::ios::in | std::ios::out) << std::string(size, '\xcc');
  expectWorks();
  ASSERT_EQ(truncate(file.c_str(), 0), 0);
  expectWorks();
}

TEST_F(SessionTest, SurvivesAFileThatIsCut) {
  auto one = session(), other = session();
  ASSERT_TRUE(one->feed(ids.data(), 2, CRIA_LOGITS_NONE, nullptr).ok());
  std::string file = folder.path() + "/model.safetensors";
  ASSERT_EQ(truncate(file.c_str(), 0), 0);
  std::vector<float> logits(5);
  for (Session *each : {one.get(), other.get()})
    EXPECT_THAT(each->feed(ids.data(), 1, CRIA_LOGITS_LAST, logits.data()),
                fails(CRIA_DATA_LOSS, "model.safetensors: was cut"));
  EXPECT_EQ(one->position(), 2);
}

// A chunk has 4 ids: rows within one, at its ends, and none.
TEST_F(SessionTest, FeedsForChosenRows) {
  std::vector<float> all = fakeLogits(ids);
  for (const std::vector<int64_t> &rows : std::vector<std::vector<int64_t>>{
           {}, {0}, {8}, {1, 2, 7}, {3, 4}, {0, 1, 2, 3, 4, 5, 6, 7, 8}}) {
    auto fed = session();
    std::vector<float> logits(rows.size() * 5), expected;
    Outputs outputs;
    outputs.logits = {CRIA_LOGITS_NONE, logits.data(), rows.data(),
                      static_cast<int64_t>(rows.size())};
    ASSERT_TRUE(fed->feed(ids.data(), 9, outputs).ok());
    for (int64_t row : rows)
      expected.insert(expected.end(), &all[row * 5], &all[row * 5] + 5);
    expectNear(logits, expected);
    EXPECT_EQ(fed->position(), 9);
  }
  for (const std::vector<int64_t> &rows :
       std::vector<std::vector<int64_t>>{{-1}, {9}, {1, 1}, {2, 1}}) {
    Outputs outputs;
    outputs.logits = {CRIA_LOGITS_NONE, nullptr, rows.data(),
                      static_cast<int64_t>(rows.size())};
    EXPECT_THAT(session()->feed(ids.data(), 9, outputs),
                fails(CRIA_INVALID_ARGUMENT, "expected ascending ones from 0 "
                                             "to 8"));
  }
}

// Beside logits of other rows, over chunks and of a single id.
TEST_F(SessionTest, ReturnsHiddenStates) {
  std::vector<float> all = fakeHidden(ids), logits(5);
  for (size_t count : {size_t{1}, size_t{3}, size_t{9}}) {
    std::vector<float> hidden(2 * count), last(2);
    auto size = static_cast<int64_t>(count);
    auto fed = session(), other = session();
    ASSERT_TRUE(fed->feed(ids.data(), size,
                          Outputs{{CRIA_LOGITS_LAST, logits.data()},
                                  {CRIA_LOGITS_ALL, hidden.data()}})
                    .ok());
    expectNear(logits, lastOf(size));
    expectNear(hidden, {all.begin(), all.begin() + 2 * size});
    ASSERT_TRUE(other
                    ->feed(ids.data(), size,
                           Outputs{{}, {CRIA_LOGITS_LAST, last.data()}})
                    .ok());
    expectNear(last, {hidden.end() - 2, hidden.end()});
    EXPECT_EQ(fed->position(), size);
  }
}

TEST_F(SessionTest, ReturnsWhatEmbeddingsMake) {
  for (int64_t count : {3, 1}) {
    auto size = static_cast<size_t>(count);
    std::vector<float> rows = {6, 7, 2, 3, 8, 9}; // of the ids 3, 1, 4
    ids = {3, 1, 4};
    ids.resize(size);
    std::vector<float> logits(5 * size), hidden(2 * size);
    auto fed = session();
    ASSERT_TRUE(fed->feedEmbeddings(rows.data(), count, 2,
                                    {{CRIA_LOGITS_ALL, logits.data()},
                                     {CRIA_LOGITS_ALL, hidden.data()}})
                    .ok());
    expectNear(logits, fakeLogits(ids));
    expectNear(hidden, fakeHidden(ids));
    EXPECT_EQ(fed->position(), count);
    // One row of logits alone, which the decode entry would compute of an id.
    std::vector<float> last(5), first(logits.begin(), logits.begin() + 5);
    auto other = session();
    ASSERT_TRUE(other
                    ->feedEmbeddings(rows.data(), 1, 2,
                                     {{CRIA_LOGITS_LAST, last.data()}, {}})
                    .ok());
    expectNear(last, first);
  }
}

TEST_F(SessionTest, PoolsHiddenStates) {
  std::vector<float> all = fakeHidden(ids), embedding(2), expected(2);
  for (size_t i = 0; i < all.size(); ++i)
    expected[i % 2] += all[i] / 9;
  auto embed = [&](cria_pooling kind, bool normalize) {
    auto fed = session();
    EXPECT_TRUE(
        fed->embed(ids.data(), 9, kind, normalize, embedding.data()).ok());
    EXPECT_EQ(fed->position(), 9);
    return embedding;
  };
  expectNear(embed(CRIA_POOLING_MEAN, false), expected);
  expectNear(embed(CRIA_POOLING_LAST, false), {all.end() - 2, all.end()});
  expectNear(embed(CRIA_POOLING_FIRST, false), {all.begin(), all.begin() + 2});
  float length = std::hypot(expected[0], expected[1]);
  expectNear(embed(CRIA_POOLING_MEAN, true),
             {expected[0] / length, expected[1] / length});
}

TEST_F(SessionTest, HasNoHiddenStates) {
  nlohmann::json manifest = fakeManifest();
  manifest["model"].erase("hidden");
  use("bare.cria", manifest);
  float row[2] = {};
  auto bare = session();
  for (const Status &status :
       {bare->feed(ids.data(), 9, Outputs{{}, {CRIA_LOGITS_LAST, row}}),
        bare->feedEmbeddings(row, 1, 2, {{}, {CRIA_LOGITS_LAST, row}}),
        bare->embed(ids.data(), 9, CRIA_POOLING_MEAN, false, row)})
    EXPECT_THAT(status, fails(CRIA_FAILED_PRECONDITION,
                              "the artifact's program returns no hidden "
                              "states"));
  EXPECT_EQ(bare->position(), 0);
}

// The fake model's cache holds ids, which need no rotation.
TEST_F(SessionTest, DropsPositionsFromWithin) {
  nlohmann::json manifest = fakeManifest();
  manifest["caches"][0]["shape"] = {1, 1, 12, 1};
  manifest["caches"][0]["rope"] = {-1};
  use("droppable.cria", manifest);
  auto left = session();
  ASSERT_TRUE(left->feed(ids.data(), 8, CRIA_LOGITS_NONE, nullptr).ok());
  for (auto [begin, end] : {std::pair(-1, 2), {3, 2}, {2, 9}})
    EXPECT_THAT(left->drop(begin, end),
                fails(CRIA_OUT_OF_RANGE, "expected some of 0 to 8"));
  ASSERT_TRUE(left->drop(2, 2).ok());
  EXPECT_EQ(left->position(), 8);
  ASSERT_TRUE(left->drop(2, 5).ok());
  EXPECT_EQ(left->position(), 5);
  std::vector<int32_t> rest = {1, 0, 3, 1, 0, 2};
  std::vector<float> logits(5), expected = fakeLogits(rest);
  ASSERT_TRUE(left->feed(&ids[8], 1, CRIA_LOGITS_LAST, logits.data()).ok());
  expectNear(logits, {expected.end() - 5, expected.end()});
}

TEST_F(SessionTest, DropsTheEndOfAnyText) {
  auto used = session();
  ASSERT_TRUE(used->feed(ids.data(), 9, CRIA_LOGITS_NONE, nullptr).ok());
  EXPECT_THAT(used->drop(2, 5), fails(CRIA_UNIMPLEMENTED, "does not say"));
  EXPECT_EQ(used->position(), 9);
  ASSERT_TRUE(used->drop(3, 9).ok());
  std::vector<float> logits(5);
  ASSERT_TRUE(used->feed(&ids[3], 1, CRIA_LOGITS_LAST, logits.data()).ok());
  expectNear(logits, lastOf(4));
}

TEST_F(SessionTest, GoesOnFromASavedState) {
  auto first = session();
  ASSERT_TRUE(first->feed(ids.data(), 6, CRIA_LOGITS_NONE, nullptr).ok());
  std::vector<std::byte> state(first->stateBytes());
  ASSERT_TRUE(first->save(state.data()).ok());
  EXPECT_EQ(state.size(), sizeof(SessionHeader) + 6 * 4); // 4 bytes a position
  auto second = session(), third = session();
  ASSERT_TRUE(second->feed(ids.data(), 2, CRIA_LOGITS_NONE, nullptr).ok());
  ASSERT_TRUE(second->restore(state.data(), state.size()).ok());
  ASSERT_TRUE(third->copy(*first).ok());
  for (Session *other : {second.get(), third.get()}) {
    EXPECT_EQ(other->position(), 6);
    std::vector<float> logits(5);
    ASSERT_TRUE(other->feed(&ids[6], 3, CRIA_LOGITS_LAST, logits.data()).ok());
    expectNear(logits, lastOf(9));
  }
}

TEST_F(SessionTest, RefusesBadStates) {
  auto used = session();
  ASSERT_TRUE(used->feed(ids.data(), 6, CRIA_LOGITS_NONE, nullptr).ok());
  std::vector<std::byte> state(used->stateBytes());
  ASSERT_TRUE(used->save(state.data()).ok());
  auto restore = [&](const std::vector<std::byte> &bytes) {
    Status status = used->restore(bytes.data(), bytes.size());
    EXPECT_EQ(used->position(), 6);
    return status;
  };
  EXPECT_TRUE(restore(state).ok());
  for (size_t i = 0; i < state.size(); ++i) {
    std::vector<std::byte> damaged = state;
    damaged[i] ^= std::byte{4};
    EXPECT_FALSE(restore(damaged).ok()) << i;
  }
  for (size_t size : {size_t{0}, sizeof(SessionHeader), state.size() - 1})
    EXPECT_FALSE(restore({state.begin(), state.begin() + size}).ok()) << size;
  // Whole, but not of this artifact's shape.
  SessionHeader header;
  memcpy(&header, state.data(), sizeof(header));
  for (int64_t position : {int64_t{-1}, int64_t{5}, int64_t{13}}) {
    SessionHeader other = header;
    other.position = position;
    std::vector<std::byte> forged = state;
    sealState(other, forged.data());
    EXPECT_THAT(restore(forged), fails(CRIA_INVALID_ARGUMENT,
                                       "header does not fit the artifact"));
  }
}

TEST_F(SessionTest, StatesBelongToArtifactAndWeights) {
  std::vector<std::byte> state(session()->stateBytes());
  ASSERT_TRUE(session()->save(state.data()).ok());
  auto restore = [&](std::shared_ptr<const Model> other) {
    return (*Session::create(std::move(other), 1))
        ->restore(state.data(), state.size());
  };
  auto artifact = Artifact::open(folder.path() + "/x.cria");
  ASSERT_TRUE(artifact.ok());
  EXPECT_THAT(restore(*Model::random(*artifact, 1)),
              fails(CRIA_FAILED_PRECONDITION, "other weights"));
  EXPECT_TRUE(restore(*Model::bind(*artifact, folder.path())).ok());
  nlohmann::json manifest = fakeManifest();
  manifest["compiler"] = "another";
  use("y.cria", manifest);
  EXPECT_THAT(restore(model),
              fails(CRIA_FAILED_PRECONDITION, "another artifact"));
  EXPECT_THAT(session()->copy(*std::move(
                  *Session::create(*Model::random(*artifact, 1), 1))),
              fails(CRIA_INVALID_ARGUMENT, "different models"));
}
