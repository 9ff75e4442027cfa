#include "runtime/cria.h"

#include "runtime/base/Printable.h"
#include "test/runtime/Fixtures.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <sys/time.h>
#include <thread>
#include <unistd.h>
#include <vector>

using namespace cria::test;
using cria::printable;
using testing::HasSubstr;

namespace {

class ApiTest : public testing::Test {
protected:
  void SetUp() override {
    CRIA_INIT(&error);
    path = folder.write("x.cria", artifactOf(fakeManifest()));
    folder.write("model.safetensors", safetensorsOf(fakeTensors()));
    ASSERT_EQ(cria_artifact_open(path.c_str(), &artifact, &error), CRIA_OK)
        << error.message;
    ASSERT_EQ(cria_model_bind(artifact, folder.path().c_str(), &model, &error),
              CRIA_OK)
        << error.message;
    ASSERT_EQ(cria_session_create(model, nullptr, &session, &error), CRIA_OK)
        << error.message;
  }
  void TearDown() override {
    cria_artifact_free(&artifact);
    cria_model_free(&model);
    cria_session_free(&session);
  }

  /// Feeds `count` of up to 13 ids, without logits.
  cria_status feed(size_t count) {
    int32_t many[13] = {1, 2, 3};
    return cria_session_feed(session, many, count, CRIA_LOGITS_NONE, nullptr, 0,
                             &error);
  }

  TemporaryFolder folder;
  std::string path;
  cria_error error;
  cria_artifact *artifact = nullptr;
  cria_model *model = nullptr;
  cria_session *session = nullptr;
  int32_t ids[3] = {1, 2, 3};
  float logits[15] = {};
};

} // namespace

TEST_F(ApiTest, FeedsAndTells) {
  EXPECT_EQ(
      cria_session_feed(session, ids, 3, CRIA_LOGITS_ALL, logits, 15, &error),
      CRIA_OK);
  EXPECT_EQ(error.status, CRIA_OK);
  EXPECT_STREQ(error.message, "");
  EXPECT_EQ(logits[0], 2 + 3 + 1);
  int64_t position = -1;
  EXPECT_EQ(cria_session_position(session, &position, nullptr), CRIA_OK);
  EXPECT_EQ(position, 3);
  cria_session_timings timings;
  CRIA_INIT(&timings);
  EXPECT_EQ(cria_session_get_timings(session, &timings, nullptr), CRIA_OK);
  EXPECT_EQ(timings.prefill_tokens, 3);
  cria_artifact_info info;
  CRIA_INIT(&info);
  EXPECT_EQ(cria_artifact_get_info(artifact, &info, nullptr), CRIA_OK);
  EXPECT_EQ(info.vocab_size, 5);
  EXPECT_EQ(info.cache_bytes, 48u);
  EXPECT_EQ(cria_session_rewind(session, 0, nullptr), CRIA_OK);
}

// A feed takes the cancels that came before it, all at once.
TEST_F(ApiTest, ACancelEndsTheNextFeedAlone) {
  EXPECT_EQ(cria_session_cancel(session), CRIA_OK);
  EXPECT_EQ(cria_session_cancel(session), CRIA_OK);
  // One that feeds nothing for its arguments does not take them.
  EXPECT_EQ(feed(0), CRIA_INVALID_ARGUMENT);
  EXPECT_EQ(feed(13), CRIA_OUT_OF_RANGE);
  EXPECT_EQ(feed(3), CRIA_CANCELLED);
  EXPECT_STREQ(error.message, "cancelled after 0 of 3 positions");
  EXPECT_EQ(feed(3), CRIA_OK);
}

TEST_F(ApiTest, ResumeForgetsACancelThatCameTooLate) {
  EXPECT_EQ(feed(3), CRIA_OK);
  EXPECT_EQ(cria_session_cancel(session), CRIA_OK);
  EXPECT_EQ(cria_session_resume(session), CRIA_OK);
  EXPECT_EQ(feed(3), CRIA_OK) << error.message;
  EXPECT_EQ(cria_session_resume(session), CRIA_OK);
  EXPECT_EQ(cria_session_cancel(session), CRIA_OK);
  EXPECT_EQ(feed(3), CRIA_CANCELLED);
  EXPECT_EQ(cria_session_resume(nullptr), CRIA_INVALID_ARGUMENT);
}

// Whenever a cancel comes, in a feed or between two, one feed ends for it.
TEST_F(ApiTest, NoCancelIsLost) {
  constexpr int rounds = 100;
  std::atomic<int> cancelled{0};
  std::atomic<bool> failed{false};
  std::thread feeds([&] {
    while (cancelled < rounds && !failed) {
      cria_status status = cria_session_feed(session, ids, 1, CRIA_LOGITS_NONE,
                                             nullptr, 0, nullptr);
      if (status == CRIA_CANCELLED)
        ++cancelled;
      else if (status != CRIA_OK)
        failed = true;
      if (cria_session_rewind(session, 0, nullptr) != CRIA_OK)
        failed = true;
    }
  });
  for (int round = 0; round < rounds && !failed; ++round) {
    EXPECT_EQ(cria_session_cancel(session), CRIA_OK);
    while (cancelled == round && !failed)
      std::this_thread::yield();
    EXPECT_LE(cancelled, round + 1) << "two feeds ended for one cancel";
  }
  feeds.join();
  EXPECT_FALSE(failed);
}

static cria_session *interrupted = nullptr;

TEST_F(ApiTest, ASignalHandlerMayCancel) {
  interrupted = session;
  auto before = signal(SIGALRM, [](int) { cria_session_cancel(interrupted); });
  itimerval soon = {{0, 0}, {0, 2000}};
  ASSERT_EQ(setitimer(ITIMER_REAL, &soon, nullptr), 0);
  cria_status status;
  while ((status = feed(3)) == CRIA_OK)
    ASSERT_EQ(cria_session_rewind(session, 0, nullptr), CRIA_OK);
  EXPECT_EQ(status, CRIA_CANCELLED);
  signal(SIGALRM, before);
}

TEST_F(ApiTest, ChecksABindingFromHeaders) {
  char *report = nullptr;
  EXPECT_EQ(cria_model_check(artifact, folder.path().c_str(), &report, &error),
            CRIA_OK);
  EXPECT_THAT(report, HasSubstr("fits, 3 tensors"));
  free(report);
  folder.write("model.safetensors", safetensorsOf({fakeTensors()[0]}));
  EXPECT_EQ(cria_model_check(artifact, folder.path().c_str(), &report, &error),
            CRIA_FAILED_PRECONDITION);
  EXPECT_THAT(report, HasSubstr("'layers.0.norm.weight' is missing\n"));
  free(report);
  EXPECT_EQ(cria_model_check(artifact, "/nowhere", &report, &error),
            CRIA_NOT_FOUND);
  EXPECT_EQ(report, nullptr);
}

TEST_F(ApiTest, OpensAnArtifactInMemory) {
  std::string bytes = artifactOf(fakeManifest());
  cria_artifact *other = nullptr;
  ASSERT_EQ(
      cria_artifact_open_memory(bytes.data(), bytes.size(), &other, &error),
      CRIA_OK)
      << error.message;
  bytes.assign(bytes.size(), '\0');
  cria_model_free(&model);
  cria_session_free(&session);
  ASSERT_EQ(cria_model_bind(other, folder.path().c_str(), &model, &error),
            CRIA_OK);
  ASSERT_EQ(cria_session_create(model, nullptr, &session, &error), CRIA_OK);
  EXPECT_EQ(
      cria_session_feed(session, ids, 3, CRIA_LOGITS_ALL, logits, 15, &error),
      CRIA_OK);
  EXPECT_EQ(logits[0], 2 + 3 + 1);
  cria_artifact_free(&other);
  EXPECT_EQ(cria_artifact_open_memory(bytes.data(), 0, &other, &error),
            CRIA_INVALID_ARGUMENT);
  EXPECT_STREQ(error.message,
               "artifact in memory: is not a Cria artifact: no ELF header; "
               "cria-compile makes one");
  EXPECT_EQ(
      cria_artifact_open_memory(bytes.data(), (1 << 28) + 1, &other, &error),
      CRIA_INVALID_ARGUMENT);
  EXPECT_THAT(error.message, HasSubstr("expected at most 268435456"));
  EXPECT_EQ(other, nullptr);
}

// Also where it is for another CPU, and is no object that could be loaded.
TEST_F(ApiTest, InspectsWithoutLoading) {
  nlohmann::json manifest = fakeManifest();
  manifest["target"]["arch"] = "riscv64";
  path = folder.write("y.cria", artifactOf(manifest, "int x;", "-lm"));
  cria_artifact *other = nullptr;
  EXPECT_EQ(cria_artifact_open(path.c_str(), &other, &error),
            CRIA_INCOMPATIBLE);
  char *json = nullptr;
  cria_artifact_info info;
  CRIA_INIT(&info);
  ASSERT_EQ(cria_artifact_inspect(path.c_str(), &json, &info, &error), CRIA_OK)
      << error.message;
  EXPECT_EQ(json, manifest.dump());
  EXPECT_EQ(info.max_seq, 12);
  free(json);
  ASSERT_EQ(cria_artifact_inspect(path.c_str(), &json, nullptr, &error),
            CRIA_OK);
  free(json);
  EXPECT_EQ(cria_artifact_inspect("/nowhere", &json, &info, &error),
            CRIA_NOT_FOUND);
  EXPECT_EQ(json, nullptr);
}

// A message that has to be cut is cut between characters.
TEST_F(ApiTest, MessagesArePrintable) {
  nlohmann::json manifest = fakeManifest();
  manifest["cpu"][0]["entries"]["decode"] = "\x1b[2J\u009b31m\u202e\nno";
  folder.write("y.cria", artifactOf(manifest));
  cria_artifact *other = nullptr;
  cria_artifact_open(folder.path("y.cria").c_str(), &other, &error);
  EXPECT_THAT(error.message, HasSubstr("entry '\\u001b[2J\\u009b31m\\u202e"
                                       "\\nno' is not in the code"));
  for (size_t length = 1020; length < 1030; ++length) {
    std::string name(length, 'x');
    for (size_t i = 500; i + 2 < length; i += 3)
      name.replace(i, 3, "\u20ac");
    cria_artifact_open(name.c_str(), &other, &error);
    EXPECT_EQ(printable(error.message), error.message) << length;
  }
}

// The caller may free in any order, and twice.
TEST_F(ApiTest, ObjectsKeepAliveWhatTheyNeed) {
  cria_artifact_free(&artifact);
  cria_artifact_free(&artifact);
  EXPECT_EQ(artifact, nullptr);
  cria_model_free(&model);
  EXPECT_EQ(
      cria_session_feed(session, ids, 3, CRIA_LOGITS_LAST, logits, 5, &error),
      CRIA_OK);
  cria_session_free(&session);
  EXPECT_EQ(
      cria_session_feed(session, ids, 3, CRIA_LOGITS_LAST, logits, 5, &error),
      CRIA_INVALID_ARGUMENT);
  EXPECT_STREQ(error.message, "session is NULL");
  cria_session_free(nullptr);
}

TEST_F(ApiTest, RefusesNull) {
  auto refused = [&](cria_status status, const char *message) {
    EXPECT_EQ(status, CRIA_INVALID_ARGUMENT);
    EXPECT_STREQ(error.message, message);
  };
  cria_artifact *other = nullptr;
  refused(cria_artifact_open(nullptr, &other, &error), "path is NULL");
  refused(cria_artifact_open("x", nullptr, &error), "artifact is NULL");
  refused(cria_artifact_open_memory(nullptr, 1, &other, &error),
          "data is NULL");
  refused(cria_artifact_open_memory("x", 1, nullptr, &error),
          "artifact is NULL");
  refused(cria_artifact_manifest(artifact, nullptr, &error), "json is NULL");
  refused(cria_artifact_inspect("x", nullptr, nullptr, &error), "json is NULL");
  refused(cria_artifact_get_info(artifact, nullptr, &error), "info is NULL");
  refused(cria_model_bind(nullptr, "x", &model, &error), "artifact is NULL");
  refused(cria_model_bind(artifact, nullptr, &model, &error),
          "weights is NULL");
  refused(cria_model_random(artifact, 1, nullptr, &error), "model is NULL");
  refused(cria_model_warnings(model, nullptr, &error), "text is NULL");
  refused(cria_session_create(nullptr, nullptr, &session, &error),
          "model is NULL");
  refused(cria_session_feed(session, nullptr, 1, CRIA_LOGITS_NONE, nullptr, 0,
                            &error),
          "ids is NULL");
  refused(
      cria_session_feed(session, ids, 1, CRIA_LOGITS_LAST, nullptr, 5, &error),
      "logits is NULL");
  refused(cria_session_position(session, nullptr, &error), "position is NULL");
  EXPECT_EQ(cria_session_cancel(nullptr), CRIA_INVALID_ARGUMENT);
}

TEST_F(ApiTest, TakesACheckpointWithMoreLayersOnRequest) {
  std::vector<TestTensor> tensors = fakeTensors();
  tensors.push_back({"layers.2.norm.weight", "I8", {2}, "12"});
  TemporaryFolder deeper;
  deeper.write("model.safetensors", safetensorsOf(tensors));
  std::string weights = deeper.path();
  cria_model_options options;
  CRIA_INIT(&options);
  options.weights = weights.c_str();
  cria_model *other = nullptr;
  EXPECT_EQ(cria_model_load(artifact, &options, &other, &error),
            CRIA_FAILED_PRECONDITION);
  EXPECT_THAT(error.message, HasSubstr("does not have 'layers.2'"));
  options.allow_unused = 1;
  EXPECT_EQ(cria_model_load(artifact, &options, &other, &error), CRIA_OK);
  cria_model_free(&other);
}

TEST_F(ApiTest, KeepsQuantizedWeightsOnRequest) {
  nlohmann::json manifest = withMatrix(fakeManifest(), "m", 2, 32, "q8_0");
  std::vector<TestTensor> tensors = fakeTensors();
  tensors.push_back({"m.weight", "BF16", {2, 32}, std::string(128, '\x3c')});
  TemporaryFolder files;
  files.write("model.safetensors", safetensorsOf(tensors));
  std::string weights = files.path(), cache = files.path("cache");
  std::string name = files.write("q.cria", artifactOf(manifest));
  cria_artifact *quantized = nullptr;
  ASSERT_EQ(cria_artifact_open(name.c_str(), &quantized, &error), CRIA_OK);
  cria_model_options options;
  CRIA_INIT(&options);
  options.weights = weights.c_str();
  options.weight_cache = cache.c_str();
  for (int times = 0; times < 2; ++times) { // made, then found
    cria_model *other = nullptr;
    ASSERT_EQ(cria_model_load(quantized, &options, &other, &error), CRIA_OK)
        << error.message;
    cria_model_info info;
    CRIA_INIT(&info);
    EXPECT_EQ(cria_model_get_info(other, &info, &error), CRIA_OK);
    EXPECT_GE(info.mapped_bytes, 68u); // of the matrix: the others have 48
    cria_model_free(&other);
  }
  EXPECT_TRUE(std::filesystem::is_directory(cache));
  cria_artifact_free(&quantized);
}

TEST_F(ApiTest, SaysTheVersionOfItsHeader) {
  EXPECT_EQ(cria_version(), std::to_string(CRIA_VERSION_MAJOR) + "." +
                                std::to_string(CRIA_VERSION_MINOR) + "." +
                                std::to_string(CRIA_VERSION_PATCH));
}

TEST_F(ApiTest, RefusesAdaptersThatAreNotSet) {
  cria_model_options options;
  CRIA_INIT(&options);
  options.lora_count = 1;
  cria_model *other = nullptr;
  auto refused = [&](const char *message) {
    EXPECT_EQ(cria_model_load(artifact, &options, &other, &error),
              CRIA_INVALID_ARGUMENT);
    EXPECT_THAT(error.message, HasSubstr(message));
    EXPECT_EQ(other, nullptr);
  };
  refused("loras is NULL");
  cria_lora lora = {};
  options.loras = &lora;
  refused("lora->size is 0, expected");
  CRIA_INIT(&lora);
  refused("lora->folder is NULL");
  lora.folder = "/nowhere";
  refused("/nowhere: lora->scale is 0, expected 1 for the adapter as it was "
          "trained");
}

TEST_F(ApiTest, RefusesRoomThatIsTooSmallOrNoSuchLogits) {
  EXPECT_EQ(
      cria_session_feed(session, ids, 3, CRIA_LOGITS_ALL, logits, 14, &error),
      CRIA_INVALID_ARGUMENT);
  EXPECT_STREQ(error.message, "capacity is 14 floats, expected 3 x 5");
  EXPECT_EQ(cria_session_feed(session, ids, 3, 9, logits, 15, &error),
            CRIA_INVALID_ARGUMENT);
  EXPECT_EQ(cria_session_feed(session, ids, SIZE_MAX, CRIA_LOGITS_NONE, nullptr,
                              0, &error),
            CRIA_OUT_OF_RANGE);
  EXPECT_EQ(
      cria_session_feed(session, ids, 13, CRIA_LOGITS_NONE, nullptr, 0, &error),
      CRIA_OUT_OF_RANGE);
}

TEST_F(ApiTest, ReturnsWhatIsAskedForAndNamesWhatIsWrong) {
  cria_outputs outputs;
  CRIA_INIT(&outputs);
  auto feed = [&] {
    return cria_session_feed_outputs(session, ids, 3, &outputs, &error);
  };
  auto refused = [&](cria_status status, const char *message) {
    EXPECT_EQ(status, CRIA_INVALID_ARGUMENT);
    EXPECT_THAT(error.message, HasSubstr(message));
  };
  ASSERT_EQ(feed(), CRIA_OK) << error.message;
  float hidden[6] = {};
  outputs.logits_of = CRIA_LOGITS_LAST;
  outputs.hidden_of = CRIA_LOGITS_ALL;
  outputs.logits = logits;
  outputs.logits_capacity = 5;
  outputs.hidden = hidden;
  outputs.hidden_capacity = 5;
  refused(feed(), "the capacity of hidden is 5 floats, expected 3 x 2");
  outputs.hidden_capacity = 6;
  ASSERT_EQ(cria_session_rewind(session, 0, &error), CRIA_OK);
  ASSERT_EQ(feed(), CRIA_OK) << error.message;
  expectNear({logits, logits + 5}, [] {
    auto all = fakeLogits({1, 2, 3});
    return std::vector<float>{all.end() - 5, all.end()};
  }());
  expectNear({hidden, hidden + 6}, fakeHidden({1, 2, 3}));
  const int64_t row = 1;
  outputs.logit_rows = &row;
  outputs.logit_row_count = 1;
  refused(feed(), "logits_of and logit_rows both say");
  outputs.logits_of = CRIA_LOGITS_NONE;
  ASSERT_EQ(feed(), CRIA_OK) << error.message;
  outputs.hidden_of = 3;
  refused(feed(), "hidden_of is 3, no cria_logits");
  outputs.hidden_of = CRIA_LOGITS_ALL;
  outputs.hidden = nullptr;
  refused(feed(), "hidden is NULL");
  refused(cria_session_feed_outputs(session, ids, 3, nullptr, &error),
          "outputs is NULL");
  cria_artifact_info info;
  CRIA_INIT(&info);
  ASSERT_EQ(cria_artifact_get_info(artifact, &info, &error), CRIA_OK);
  EXPECT_EQ(info.hidden_size, 2);
}

TEST_F(ApiTest, EmbedsAndNamesWhatIsWrong) {
  float embedding[2] = {};
  cria_embed_options options;
  CRIA_INIT(&options);
  auto embed = [&](size_t capacity) {
    return cria_session_embed(session, ids, 3, &options, embedding, capacity,
                              &error);
  };
  std::vector<float> hidden = fakeHidden({1, 2, 3});
  options.pooling = CRIA_POOLING_LAST;
  ASSERT_EQ(embed(2), CRIA_OK) << error.message;
  expectNear({embedding, embedding + 2}, {hidden[4], hidden[5]});
  ASSERT_EQ(cria_session_rewind(session, 0, &error), CRIA_OK);
  ASSERT_EQ(cria_session_embed(session, ids, 3, nullptr, embedding, 2, &error),
            CRIA_OK);
  expectNear({embedding, embedding + 2},
             {(hidden[0] + hidden[2] + hidden[4]) / 3,
              (hidden[1] + hidden[3] + hidden[5]) / 3});
  EXPECT_EQ(embed(1), CRIA_INVALID_ARGUMENT);
  EXPECT_THAT(error.message,
              HasSubstr("embedding is 1 floats, expected 1 x 2"));
  options.pooling = 3;
  EXPECT_EQ(embed(2), CRIA_INVALID_ARGUMENT);
  EXPECT_STREQ(error.message, "pooling is 3, no cria_pooling");
}

TEST_F(ApiTest, DropsTheEndOfAText) {
  ASSERT_EQ(feed(3), CRIA_OK);
  EXPECT_EQ(cria_session_drop(session, 2, 4, &error), CRIA_OUT_OF_RANGE);
  EXPECT_EQ(cria_session_drop(session, 0, 2, &error), CRIA_UNIMPLEMENTED);
  ASSERT_EQ(cria_session_drop(session, 1, 3, &error), CRIA_OK) << error.message;
  int64_t position = 0;
  ASSERT_EQ(cria_session_position(session, &position, &error), CRIA_OK);
  EXPECT_EQ(position, 1);
  EXPECT_EQ(cria_session_drop(nullptr, 0, 0, &error), CRIA_INVALID_ARGUMENT);
}

TEST(Api, NamesEveryStatus) {
  EXPECT_STREQ(cria_status_name(CRIA_OK), "OK");
  EXPECT_STREQ(cria_status_name(CRIA_INCOMPATIBLE), "INCOMPATIBLE");
  EXPECT_STREQ(cria_status_name(static_cast<cria_status>(30)), "UNKNOWN");
}

TEST_F(ApiTest, SavesAndRestoresStates) {
  size_t size = 0;
  ASSERT_EQ(feed(3), CRIA_OK);
  ASSERT_EQ(cria_session_state_size(session, &size, &error), CRIA_OK);
  std::vector<char> state(size);
  EXPECT_EQ(cria_session_save(session, state.data(), size - 1, &error),
            CRIA_INVALID_ARGUMENT);
  EXPECT_THAT(error.message, HasSubstr("bytes, expected "));
  ASSERT_EQ(cria_session_save(session, state.data(), size, &error), CRIA_OK)
      << error.message;
  cria_session *other = nullptr;
  ASSERT_EQ(cria_session_create(model, nullptr, &other, &error), CRIA_OK);
  ASSERT_EQ(cria_session_restore(other, state.data(), size, &error), CRIA_OK)
      << error.message;
  int64_t position = 0;
  ASSERT_EQ(cria_session_position(other, &position, &error), CRIA_OK);
  EXPECT_EQ(position, 3);
  ASSERT_EQ(cria_session_rewind(session, 1, &error), CRIA_OK);
  ASSERT_EQ(cria_session_copy(session, other, &error), CRIA_OK);
  ASSERT_EQ(cria_session_position(other, &position, &error), CRIA_OK);
  EXPECT_EQ(position, 1);
  state[size - 1] ^= 1;
  EXPECT_EQ(cria_session_restore(other, state.data(), size, &error),
            CRIA_DATA_LOSS);
  EXPECT_EQ(cria_session_restore(other, nullptr, size, &error),
            CRIA_INVALID_ARGUMENT);
  cria_session_free(&other);
}

TEST_F(ApiTest, FeedsForChosenRows) {
  const int64_t rows[] = {0, 2};
  EXPECT_EQ(cria_session_feed_rows(session, ids, 3, rows, 2, logits, 9, &error),
            CRIA_INVALID_ARGUMENT);
  ASSERT_EQ(
      cria_session_feed_rows(session, ids, 3, rows, 2, logits, 10, &error),
      CRIA_OK)
      << error.message;
  float all[15];
  ASSERT_EQ(cria_session_rewind(session, 0, &error), CRIA_OK);
  ASSERT_EQ(
      cria_session_feed(session, ids, 3, CRIA_LOGITS_ALL, all, 15, &error),
      CRIA_OK);
  for (int i = 0; i < 5; ++i) {
    EXPECT_EQ(logits[i], all[i]);
    EXPECT_EQ(logits[5 + i], all[10 + i]);
  }
  double found[2];
  int32_t asked[] = {0, 4};
  ASSERT_EQ(cria_log_probabilities(all, 5, asked, 2, found, &error), CRIA_OK);
  EXPECT_NEAR(found[0] - found[1], all[0] - all[4], 1e-6);
  asked[1] = 5;
  EXPECT_EQ(cria_log_probabilities(all, 5, asked, 2, found, &error),
            CRIA_INVALID_ARGUMENT);
}

TEST_F(ApiTest, RanksIdsByTheirLogits) {
  const float some[] = {1, 3, 2, 3, -1};
  int32_t best[5] = {};
  double found[5], one = 0;
  for (size_t count = 0; count <= 5; ++count) {
    std::fill(best, best + 5, -1);
    ASSERT_EQ(cria_top_log_probabilities(some, 5, count, best, found, &error),
              CRIA_OK);
    const int32_t expected[] = {1, 3, 2, 0, 4};
    for (size_t i = 0; i < 5; ++i)
      EXPECT_EQ(best[i], i < count ? expected[i] : -1);
    for (size_t i = 0; i < count; ++i) {
      ASSERT_EQ(cria_log_probabilities(some, 5, &best[i], 1, &one, &error),
                CRIA_OK);
      EXPECT_EQ(found[i], one);
    }
  }
  EXPECT_EQ(cria_top_log_probabilities(some, 5, 0, nullptr, nullptr, &error),
            CRIA_OK);
  EXPECT_EQ(cria_top_log_probabilities(some, 5, 6, best, found, &error),
            CRIA_INVALID_ARGUMENT);
  EXPECT_STREQ(error.message, "count is 6, of 5 ids");
}

TEST_F(ApiTest, SamplersTakeBiasesAndAllowedIds) {
  cria_sampler_options options;
  CRIA_INIT(&options);
  cria_sampler *sampler = nullptr;
  ASSERT_EQ(cria_sampler_create(&options, 5, &sampler, &error), CRIA_OK);
  const float row[] = {5, 4, 3, 2, 1};
  const int32_t biased[] = {2};
  const float biases[] = {9};
  const uint32_t allowed = 0b11011;
  int32_t id = -1;
  ASSERT_EQ(cria_sampler_set_bias(sampler, biased, biases, 1, &error), CRIA_OK);
  ASSERT_EQ(cria_sampler_sample(sampler, row, &id, &error), CRIA_OK);
  EXPECT_EQ(id, 2);
  ASSERT_EQ(cria_sampler_allow(sampler, &allowed, 1, &error), CRIA_OK);
  ASSERT_EQ(cria_session_draw(session, ids, 3, sampler, &id, &error), CRIA_OK);
  EXPECT_NE(id, 2);
  ASSERT_EQ(cria_sampler_allow(sampler, nullptr, 0, &error), CRIA_OK);
  ASSERT_EQ(cria_sampler_set_bias(sampler, nullptr, nullptr, 0, &error),
            CRIA_OK);
  ASSERT_EQ(cria_sampler_sample(sampler, row, &id, &error), CRIA_OK);
  EXPECT_EQ(id, 0);
  EXPECT_EQ(cria_sampler_allow(sampler, nullptr, 1, &error),
            CRIA_INVALID_ARGUMENT);
  cria_sampler_free(&sampler);
}

TEST_F(ApiTest, OpensDescriptorsAndTellsOfProgress) {
  int descriptor = open(path.c_str(), O_RDONLY);
  cria_artifact *other = nullptr;
  ASSERT_EQ(cria_artifact_open_fd(descriptor, &other, &error), CRIA_OK)
      << error.message;
  close(descriptor);
  cria_artifact *none = nullptr;
  EXPECT_EQ(cria_artifact_open_fd(-1, &none, &error), CRIA_INVALID_ARGUMENT);
  int pipes[2];
  ASSERT_EQ(pipe(pipes), 0);
  EXPECT_EQ(cria_artifact_open_fd(pipes[0], &none, &error),
            CRIA_INVALID_ARGUMENT);
  EXPECT_THAT(error.message, HasSubstr("not a regular file"));
  close(pipes[0]);
  close(pipes[1]);
  cria_model_options options;
  CRIA_INIT(&options);
  uint64_t last[2] = {};
  options.progress_data = last;
  options.progress = [](void *data, uint64_t done, uint64_t total) {
    static_cast<uint64_t *>(data)[0] = done;
    static_cast<uint64_t *>(data)[1] = total;
  };
  cria_model *drawn = nullptr;
  ASSERT_EQ(cria_model_load(other, &options, &drawn, &error), CRIA_OK)
      << error.message;
  EXPECT_GT(last[0], 0u);
  EXPECT_EQ(last[0], last[1]);
  cria_model_free(&drawn);
  cria_artifact_free(&other);
}

TEST_F(ApiTest, ComputesOnThreadsOfTheCaller) {
  ASSERT_EQ(
      cria_session_feed(session, ids, 3, CRIA_LOGITS_ALL, logits, 15, &error),
      CRIA_OK);
  cria_session_options options;
  CRIA_INIT(&options);
  options.threads = 2;
  int64_t most = 100; // indexes that the caller runs
  options.parallel_data = &most;
  options.parallel_for = [](void *data, cria_task task, void *context,
                            int64_t count) {
    count = std::min(count, *static_cast<int64_t *>(data));
    auto half = [=](int64_t first) {
      for (int64_t i = first; i < count; i += 2)
        task(context, i);
    };
    std::thread other(half, 1);
    half(0);
    other.join();
  };
  cria_session *lent = nullptr;
  ASSERT_EQ(cria_session_create(model, &options, &lent, &error), CRIA_OK);
  float same[15];
  ASSERT_EQ(cria_session_feed(lent, ids, 3, CRIA_LOGITS_ALL, same, 15, &error),
            CRIA_OK)
      << error.message;
  EXPECT_EQ(memcmp(same, logits, sizeof(same)), 0);
  most = 7;
  EXPECT_EQ(cria_session_feed(lent, ids, 3, CRIA_LOGITS_ALL, same, 15, &error),
            CRIA_INVALID_ARGUMENT);
  EXPECT_STREQ(error.message, "parallel_for ran 7 of 8 tasks, expected each "
                              "once before it returns");
  cria_session_free(&lent);
}

TEST_F(ApiTest, SaysWhatItDoes) {
  struct Said {
    std::string warnings;
    std::vector<std::string> infos;
  } said;
  cria_model_options options;
  CRIA_INIT(&options);
  std::vector<TestTensor> tensors = fakeTensors();
  tensors.push_back({"other.weight", "F32", {1}, bytesOf<float>({1})});
  std::string weights = folder.path();
  folder.write("model.safetensors", safetensorsOf(tensors));
  options.weights = weights.c_str();
  options.device = CRIA_DEVICE_CPU;
  options.log_data = &said;
  options.log = [](void *data, int32_t level, const char *text) {
    auto *said = static_cast<Said *>(data);
    if (level == CRIA_LOG_WARNING)
      said->warnings += std::string(text) + "\n";
    else
      said->infos.push_back(text);
  };
  cria_model *saying = nullptr;
  ASSERT_EQ(cria_model_load(artifact, &options, &saying, &error), CRIA_OK)
      << error.message;
  const char *warnings = nullptr;
  ASSERT_EQ(cria_model_warnings(saying, &warnings, &error), CRIA_OK);
  EXPECT_THAT(warnings, HasSubstr("1 tensor is not used: 'other.weight'"));
  EXPECT_EQ(said.warnings, warnings);
  EXPECT_THAT(said.infos, testing::ElementsAre(HasSubstr("loaded in ")));
  cria_model_free(&saying);
}

TEST_F(ApiTest, KnowsTheCpu) {
  int32_t count = 0;
  EXPECT_EQ(cria_device_count(CRIA_DEVICE_CPU, &count, &error), CRIA_OK);
  EXPECT_EQ(count, 1);
  cria_device_info info;
  CRIA_INIT(&info);
  ASSERT_EQ(cria_device_get_info(CRIA_DEVICE_CPU, 0, &info, &error), CRIA_OK);
  EXPECT_GT(info.free_bytes, 0u);
  EXPECT_GE(info.memory_bytes, info.free_bytes);
  EXPECT_NE(std::string(info.name), "");
  EXPECT_EQ(info.compute_capability, 0);
  EXPECT_EQ(cria_device_get_info(CRIA_DEVICE_CPU, 1, &info, &error),
            CRIA_NOT_FOUND);
  EXPECT_STREQ(error.message, "there is no device 1, expected 0");
  EXPECT_EQ(cria_device_count(CRIA_DEVICE_AUTO, &count, &error),
            CRIA_INVALID_ARGUMENT);
  EXPECT_EQ(cria_device_count(9, &count, &error), CRIA_INVALID_ARGUMENT);
  EXPECT_STREQ(error.message, "device is 9, no cria_device");
}

TEST_F(ApiTest, RefusesImpossibleDevices) {
  cria_model_options options;
  CRIA_INIT(&options);
  const int32_t devices[] = {0, 1};
  auto refused = [&](cria_status status, const char *message) {
    cria_model *other = nullptr;
    EXPECT_EQ(cria_model_load(artifact, &options, &other, &error), status);
    EXPECT_STREQ(error.message, message);
  };
  options.device_count = 1;
  refused(CRIA_INVALID_ARGUMENT, "devices is NULL");
  options.devices = devices;
  options.device = CRIA_DEVICE_CPU;
  refused(CRIA_INVALID_ARGUMENT,
          "device_count is 1 for the CPU, which has no index");
  options.device_count = 2;
  refused(CRIA_UNIMPLEMENTED,
          "device_count is 2, expected 0 or 1: a model is on one device");
}

TEST_F(ApiTest, RefusesImpossibleRanks) {
  cria_ranks ranks;
  CRIA_INIT(&ranks);
  cria_model_options options;
  CRIA_INIT(&options);
  options.device = CRIA_DEVICE_CPU;
  options.ranks = &ranks;
  auto refused = [&](cria_status status, const char *message) {
    cria_model *other = nullptr;
    EXPECT_EQ(cria_model_load(artifact, &options, &other, &error), status);
    EXPECT_THAT(error.message, HasSubstr(message));
  };
  refused(CRIA_INVALID_ARGUMENT, "ranks->sum is NULL");
  ranks.sum = [](void *, float *, int64_t) {};
  ranks.max = [](void *, uint64_t *, int64_t) {};
  refused(CRIA_INVALID_ARGUMENT, "ranks->broadcast is NULL");
  ranks.broadcast = [](void *, void *, int64_t) {};
  ranks.rank = ranks.count = 2;
  ranks.locals = 1;
  refused(CRIA_INVALID_ARGUMENT, "ranks: rank 2 of 2, on its machine 0 of 1");
  ranks.rank = 1;
  refused(CRIA_FAILED_PRECONDITION, "is for 1 rank, expected 2");
  EXPECT_EQ(cria_ranks_join(&ranks, &error), CRIA_FAILED_PRECONDITION);
  EXPECT_THAT(error.message, HasSubstr("no mpirun, of MPICH or Open MPI, has"));
  EXPECT_EQ(cria_ranks_leave(&error), CRIA_OK);
}
