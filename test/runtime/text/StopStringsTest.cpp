#include "runtime/text/tokenizer/StopStrings.h"

#include "runtime/base/Json.h"
#include "runtime/text/tokenizer/Text.h"
#include "runtime/text/tokenizer/TextStream.h"
#include "test/runtime/Fixtures.h"

#include <gtest/gtest.h>

using namespace cria;
using namespace cria::test;

namespace {

/// A text as a stream shows it.
struct Shown {
  std::vector<std::string> pieces; // of each id
  std::string rest;
  size_t count = 0; // ids up to the one that stopped the text
  bool stopped = false;

  std::string text() const {
    std::string all;
    for (const std::string &piece : pieces)
      all += piece;
    return all + rest;
  }
};

} // namespace

static Tokenizer load(const std::string &name) {
  auto loaded = Tokenizer::load(CRIA_SOURCE_FOLDER "/test/runtime/data/" +
                                name + ".tokenizer.json");
  EXPECT_TRUE(loaded.ok()) << loaded.status().message();
  return std::move(*loaded);
}

static Shown show(const Tokenizer &tokenizer,
                  const std::vector<std::string> &stops,
                  const std::vector<int32_t> &prompt,
                  const std::vector<int32_t> &ids) {
  TextStream stream(tokenizer);
  for (int32_t id : prompt)
    EXPECT_TRUE(stream.push(id).ok());
  Status status = stream.stopAt(stops, prompt);
  EXPECT_TRUE(status.ok()) << status.message();
  Shown shown;
  for (int32_t id : ids) {
    shown.pieces.push_back(*stream.push(id));
    ++shown.count;
    if ((shown.stopped = stream.stopped()))
      break;
  }
  shown.rest = *stream.finish();
  return shown;
}

/// The ids of tokens that the file spells this way.
static std::vector<int32_t> find(const Tokenizer &tokenizer,
                                 const std::vector<std::string> &tokens) {
  std::vector<int32_t> ids;
  for (const std::string &token : tokens) {
    auto id = tokenizer.find(token);
    EXPECT_TRUE(id) << token;
    ids.push_back(id.value_or(0));
  }
  return ids;
}

static int64_t firstEnd(const std::vector<std::string> &stops,
                        const std::string &text) {
  StopStrings one = *StopStrings::create(stops);
  for (size_t i = 0; i < text.size(); ++i)
    if (one.take(text.substr(i, 1)))
      return static_cast<int64_t>(i) + 1;
  return -1;
}

TEST(StopStrings, FindsTheFirstOne) {
  EXPECT_EQ(firstEnd({"stop"}, "nonstop flight"), 7);
  EXPECT_EQ(firstEnd({"stop"}, "sto p"), -1);
  EXPECT_EQ(firstEnd({"aab"}, "aaaab"), 5); // begins again within itself
  EXPECT_EQ(firstEnd({"abacabad"}, "abacabacabad"), 12);
  EXPECT_EQ(firstEnd({"abcd", "abce", "bcf"}, "abcf"), 4);
  EXPECT_EQ(firstEnd({"abcd", "c"}, "abcd"), 3);
  EXPECT_EQ(firstEnd({}, "abcd"), -1);
  std::string longOne(100'000, 'a');
  EXPECT_EQ(firstEnd({longOne + "b"}, longOne + longOne + "b"), 200'001);
}

TEST(StopStrings, SayWhereAStringBegins) {
  StopStrings one = *StopStrings::create({"abcd", "bx", "cx"});
  EXPECT_FALSE(one.take("1a"));
  EXPECT_EQ(one.begin(), 1);
  EXPECT_FALSE(one.take("bc"));
  EXPECT_EQ(one.begin(), 1);
  EXPECT_FALSE(one.take("-"));
  EXPECT_EQ(one.begin(), 5);
  EXPECT_TRUE(one.take("bcx-")); // not abcd
  EXPECT_EQ(one.begin(), 6);
  // Of two that end at a place, the longer one.
  one = *StopStrings::create({"c", "abc"});
  EXPECT_TRUE(one.take("-abc"));
  EXPECT_EQ(one.begin(), 1);
}

TEST(StopStrings, MayBeginInThePromptAndNotEndThere) {
  StopStrings one = *StopStrings::create({"aba"});
  one.takePrompt("xaba");
  EXPECT_FALSE(one.take("-"));
  one = *StopStrings::create({"aba"});
  one.takePrompt("xaba");
  EXPECT_TRUE(one.take("bac"));
  EXPECT_EQ(one.begin(), -1);
}

TEST(StopStrings, AreNeitherEmptyNorBroken) {
  EXPECT_THAT(StopStrings::create({"a", ""}).status(),
              fails(CRIA_INVALID_ARGUMENT, "a stop string is empty"));
  EXPECT_THAT(
      StopStrings::create({"a\xff"}).status(),
      fails(CRIA_INVALID_ARGUMENT, "a stop string is not UTF-8 at byte 1"));
}

// data/make_stop_goldens.py says how the goldens were made.
TEST(StopStrings, StopAsTransformers) {
  auto cases =
      readJson(CRIA_SOURCE_FOLDER "/test/runtime/data/stop_goldens.json");
  ASSERT_TRUE(cases.ok()) << cases.status().message();
  EXPECT_EQ(cases->root().size(), 160u);
  std::map<std::string, Tokenizer> tokenizers;
  for (const nlohmann::json &golden : cases->root()) {
    std::string name = golden["tokenizer"];
    auto place = tokenizers.find(name);
    if (place == tokenizers.end())
      place = tokenizers.emplace(name, load(name)).first;
    const Tokenizer &one = place->second;
    auto ids = golden["ids"].get<std::vector<int32_t>>();
    auto stops = golden["stops"].get<std::vector<std::string>>();
    Shown shown = show(one, stops, golden["prompt"], ids);
    EXPECT_EQ(shown.stopped, golden["stopped"].get<bool>()) << golden;
    EXPECT_EQ(shown.count, ids.size()) << golden;
    std::string whole = *one.decode(ids);
    if (!golden["prompt"].empty() || whole != *one.decode(ids, true))
      continue;
    std::string text = shown.text();
    EXPECT_EQ(whole.substr(0, text.size()), text) << golden;
    if (name == "metaspace" || name == "sentencepiece")
      continue; // broken runs of bytes, and a first blank, are other text
    EXPECT_EQ(shown.stopped, std::any_of(stops.begin(), stops.end(),
                                         [&](const std::string &stop) {
                                           return whole.compare(text.size(),
                                                                stop.size(),
                                                                stop) == 0;
                                         }))
        << golden;
  }
}

TEST(StopStrings, HideTextThatMayBecomeOne) {
  Tokenizer one = load("byte_level");
  auto ids = find(one, {"a", "b", "c", "a", "b", "x", "a"});
  Shown shown = show(one, {"abcd"}, {}, ids);
  EXPECT_THAT(shown.pieces,
              testing::ElementsAre("", "", "", "abc", "", "abx", ""));
  EXPECT_EQ(shown.rest, "a");
  ids = find(one, {"a", "b", "c", "d"});
  EXPECT_EQ(show(one, {"bcd"}, {}, ids).text(), "a");
  EXPECT_EQ(show(one, {"bcd", "xabc"}, find(one, {"x"}), ids).text(), "");
}

// Tokens begin before a string and end after it, within characters.
TEST(StopStrings, CutTokensAndCharacters) {
  Tokenizer one = load("byte_level");
  auto bytes = [&](const std::string &text) {
    std::vector<std::string> tokens;
    for (char byte : text)
      tokens.push_back(spellBytes({&byte, 1}));
    return find(one, tokens);
  };
  Shown shown = show(one, {"\u00e9!"}, {}, bytes("\u00e8\u00e9!"));
  EXPECT_TRUE(shown.stopped);
  EXPECT_EQ(shown.text(), "\u00e8"); // begins with the same byte as the string
  shown = show(one, {"\u00e9"}, bytes("\xc3"), bytes("\xa9"));
  EXPECT_TRUE(shown.stopped);
  auto ids = find(one, {"\u0120there", "\u0120the"}); // U+0120 is a space
  EXPECT_EQ(show(one, {"her"}, {}, ids).text(), " t");
  EXPECT_EQ(show(one, {"e t"}, {}, ids).text(), " ther");
}

TEST(StopStrings, HaveSpecialTokens) {
  Tokenizer one = load("byte_level");
  auto ids = find(one, {"a", "<|eot_id|>", "b"});
  EXPECT_EQ(show(one, {"b"}, {}, ids).text(), "a");
  EXPECT_EQ(show(one, {"<|eot"}, {}, ids).text(), "a");
  EXPECT_EQ(show(one, {"a<|eot_id|>"}, {}, ids).text(), "");
  EXPECT_EQ(show(one, {">b"}, {}, ids).text(), "a");
  EXPECT_EQ(show(one, {"|>c"}, {}, ids).text(), "ab");
}

TEST(StopStrings, CutTokensOfOtherDecoders) {
  Tokenizer one = load("sentencepiece");
  auto ids = find(one, {"\u2581fox", "\u2581there"}); // U+2581 is a space
  EXPECT_EQ(show(one, {"x th"}, {}, ids).text(), "fo");
  EXPECT_EQ(show(one, {"here"}, {}, ids).text(), "fox t");
  ids = find(one, {"<0xE2>", "<0x82>", "<0xAC>", "a"});
  EXPECT_EQ(show(one, {"\u20aca"}, {}, ids).text(), "");
  EXPECT_EQ(show(one, {"a"}, {}, ids).text(), "\u20ac");
}

// Text that is held back for old strings comes with the next id.
TEST(StopStrings, ReplaceOthersWithinAText) {
  Tokenizer one = load("byte_level");
  auto ids = find(one, {"a", "b", "c", "x"});
  TextStream stream(one);
  ASSERT_TRUE(stream.stopAt({"abx"}).ok());
  EXPECT_EQ(*stream.push(ids[0]), "");
  ASSERT_TRUE(stream.stopAt({"cx"}, {ids[0]}).ok());
  EXPECT_EQ(*stream.push(ids[1]), "ab");
  EXPECT_EQ(*stream.push(ids[2]), "");
  ASSERT_TRUE(stream.stopAt({}).ok());
  EXPECT_EQ(*stream.push(ids[3]), "cx");
  EXPECT_EQ(*stream.push(ids[0]), "a");
  // A string may begin in text that is held back.
  ASSERT_TRUE(stream.stopAt({"abx"}).ok());
  EXPECT_EQ(*stream.push(ids[0]), "");
  ASSERT_TRUE(stream.stopAt({"ab"}, {ids[3], ids[0]}).ok());
  EXPECT_EQ(*stream.push(ids[1]), "");
  EXPECT_TRUE(stream.stopped());
  ASSERT_TRUE(stream.stopAt({}).ok());
  EXPECT_EQ(*stream.push(ids[2]), "");
  EXPECT_EQ(*stream.finish(), "");
}

// A stream that has ended is as new.
TEST(StopStrings, AreForgottenAtTheEnd) {
  Tokenizer one = load("byte_level");
  auto ids = find(one, {"a", "b"});
  TextStream stream(one);
  ASSERT_TRUE(stream.stopAt({"a"}).ok());
  EXPECT_EQ(*stream.push(ids[0]), "");
  EXPECT_TRUE(stream.stopped());
  EXPECT_EQ(*stream.push(ids[1]), ""); // after the text
  EXPECT_EQ(*stream.finish(), "");
  EXPECT_FALSE(stream.stopped());
  EXPECT_EQ(*stream.push(ids[0]), "a");
}
