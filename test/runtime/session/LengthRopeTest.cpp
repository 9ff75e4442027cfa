#include "test/runtime/session/SessionFixture.h"

#include <functional>

using namespace cria;
using namespace cria::test;

namespace {

/// A text that a session keeps some of, in another session for each way.
struct Keeper {
  const char *name;
  std::function<std::unique_ptr<Session>(std::unique_ptr<Session>)> keep;
};

/// Ropes of other frequencies in longer texts.
class LengthRopeTest : public SessionTest,
                       public testing::WithParamInterface<const char *> {
protected:
  void SetUp() override {
    nlohmann::json manifest = fakeRotatingManifest();
    manifest["rope"][0].update(nlohmann::json::parse(GetParam()));
    use("length.cria", manifest);
  }

  std::vector<Keeper> keepers() {
    return {{"rewound", [](auto held) { return held; }},
            {"restored",
             [&](auto held) {
               std::vector<std::byte> state(held->stateBytes());
               EXPECT_TRUE(held->save(state.data()).ok());
               auto other = session();
               EXPECT_TRUE(other->restore(state.data(), state.size()).ok());
               return other;
             }},
            {"copied", [&](auto held) {
               auto other = session();
               EXPECT_TRUE(other->feed(ids.data(), 9, {}).ok());
               EXPECT_TRUE(other->copy(*held).ok());
               return other;
             }}};
  }
  /// The logits of the last of ids that are fed after others.
  std::vector<float> feed(Session &session, const int32_t *ids, int64_t count) {
    std::vector<float> last(5);
    Status status = session.feed(ids, count, CRIA_LOGITS_LAST, last.data());
    EXPECT_TRUE(status.ok()) << status.message();
    return last;
  }
};

} // namespace

INSTANTIATE_TEST_SUITE_P(
    Ropes, LengthRopeTest,
    testing::Values(
        R"({"original": 2, "growth": 4.0, "theta": 9.0})",
        R"({"original": 5, "long_inv_freq": [2.0, 0.25]})",
        R"({"original": 5, "long_inv_freq": [2.0, 0.25], "recompute": true})"));

// However a session came to hold the beginning of a text, and whatever followed
// there, the text is what it is in a new session.
TEST_P(LengthRopeTest, AKeptBeginningIsThatOfTheNewText) {
  for (const Keeper &keeper : keepers())
    for (int64_t held = 1; held <= 9; ++held)      // fed first, at once,
      for (int64_t kept = 1; kept <= held; ++kept) // of them kept,
        for (int64_t whole = kept + 1; whole <= 9; ++whole) { // and the text
          SCOPED_TRACE(testing::Message() << keeper.name << ' ' << held << ' '
                                          << kept << ' ' << whole);
          auto used = session(), fresh = session();
          feed(*used, ids.data(), held);
          ASSERT_TRUE(used->drop(kept, held).ok()); // the end: rewinds
          used = keeper.keep(std::move(used));
          ASSERT_TRUE(used->expectPrompt(whole).ok());
          auto last = feed(*used, &ids[kept], whole - kept);
          EXPECT_EQ(last, feed(*fresh, ids.data(), whole));
          for (int64_t i = whole; i < 12; ++i) // and what is generated then
            EXPECT_EQ(feed(*used, &ids[i % 9], 1),
                      feed(*fresh, &ids[i % 9], 1));
        }
}

// A prompt ends with a feed of several ids, even if nobody announced it.
TEST_P(LengthRopeTest, FeedsOfSeveralIdsMakeOnePrompt) {
  for (int64_t first = 1; first <= 7; ++first) {
    auto parts = session(), fresh = session();
    feed(*parts, ids.data(), first);
    EXPECT_EQ(feed(*parts, &ids[first], 9 - first),
              feed(*fresh, ids.data(), 9));
    // Its last id again.
    ASSERT_TRUE(parts->rewind(8).ok());
    auto last = feed(*parts, &ids[8], 1);
    ASSERT_TRUE(fresh->rewind(0).ok());
    EXPECT_EQ(last, feed(*fresh, ids.data(), 9));
  }
}

// What is generated after a prompt goes on as it did before a save or a copy,
// and after a rewind to what was generated.
TEST_P(LengthRopeTest, GeneratesOnBehindAKeptText) {
  for (const Keeper &keeper : keepers())
    for (int64_t prompt = 1; prompt <= 7; ++prompt)
      for (int64_t held = prompt; held <= 8; ++held) {
        SCOPED_TRACE(testing::Message()
                     << keeper.name << ' ' << prompt << ' ' << held);
        auto used = session(), fresh = session();
        for (Session *each : {used.get(), fresh.get()}) {
          feed(*each, ids.data(), prompt);
          for (int64_t i = prompt; i < held; ++i)
            feed(*each, &ids[i], 1);
        }
        for (int64_t i = 0; i < 3; ++i) // another continuation
          feed(*used, &ids[i], 1);
        ASSERT_TRUE(used->rewind(held).ok());
        used = keeper.keep(std::move(used));
        EXPECT_EQ(feed(*used, &ids[held], 1), feed(*fresh, &ids[held], 1));
      }
}

TEST_P(LengthRopeTest, RefusesStatesOfOtherTexts) {
  auto used = session();
  std::vector<float> rows(4, 0.5f);
  ASSERT_TRUE(used->feedEmbeddings(rows.data(), 2, 2).ok());
  ASSERT_TRUE(used->feed(ids.data(), 3, {}).ok());
  std::vector<std::byte> state(used->stateBytes());
  ASSERT_TRUE(used->save(state.data()).ok());
  EXPECT_TRUE(used->restore(state.data(), state.size()).ok());
  SessionHeader header;
  memcpy(&header, state.data(), sizeof(header));
  size_t text = state.size() - header.history;
  for (size_t i = text; i < state.size(); ++i) {
    std::vector<std::byte> forged = state;
    forged[i] ^= std::byte{0x84};
    sealState(header, forged.data());
    bool isEmbedding = i >= text + 16 && i < text + 16 + 4 * sizeof(float);
    if (!isEmbedding) {
      EXPECT_THAT(used->restore(forged.data(), forged.size()),
                  fails(CRIA_INVALID_ARGUMENT, "ids are not those of a text"))
          << i;
    }
  }
  EXPECT_EQ(used->position(), 5);
}
