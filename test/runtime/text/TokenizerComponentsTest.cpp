/// The components of tokenizers one by one: wrong and hostile files are
/// refused, and no text makes a component slow. tokenizer-families.test
/// compares their results with Hugging Face's.
#include "runtime/text/tokenizer/CharacterMap.h"
#include "runtime/text/tokenizer/Tokenizer.h"
#include "runtime/text/tokenizer/Unicode.h"

#include "test/runtime/Fixtures.h"

#include <gtest/gtest.h>

using namespace cria;
using namespace cria::test;
using nlohmann::json;

static Result<Tokenizer> parse(const json &model, const json &normalizer = {},
                               const json &post = {}) {
  json document = {
      {"model", model}, {"normalizer", normalizer}, {"post_processor", post}};
  return Tokenizer::parse(document.dump(), "t.json");
}

static std::vector<int32_t> encode(const Result<Tokenizer> &one,
                                   const std::string &text) {
  if (!one.ok())
    throw std::runtime_error(one.status().message());
  auto ids = one->encode(text);
  return ids.ok() ? *ids : std::vector<int32_t>{-1};
}

static json unigram() {
  return json::parse(R"({"type":"Unigram","unk_id":0,"vocab":[
    ["<unk>",0],["a",-1],["b",-1],["ab",-1.5],["bc",-9]]})");
}

TEST(Unigram, TakesTheMostProbableCut) {
  auto one = parse(unigram());
  EXPECT_EQ(encode(one, "ab"), (std::vector<int32_t>{3}));
  EXPECT_EQ(encode(one, "abc"), (std::vector<int32_t>{1, 4}));
  EXPECT_EQ(encode(one, "a?!b"), (std::vector<int32_t>{1, 0, 2})); // one run
}

TEST(Unigram, RefusesWrongFiles) {
  json model = unigram();
  model["unk_id"] = 5;
  EXPECT_THAT(parse(model).status(),
              fails(CRIA_INVALID_ARGUMENT, "'model.unk_id' is 5"));
  model = unigram();
  model["vocab"].push_back({"a", -3});
  EXPECT_THAT(parse(model).status(),
              fails(CRIA_INVALID_ARGUMENT, "repeats the token 'a'"));
  for (const json &entry : {json{"a"}, json("a"), json{1, 2}, json{"a", "b"}}) {
    model = unigram();
    model["vocab"].push_back(entry);
    EXPECT_THAT(parse(model).status(),
                fails(CRIA_INVALID_ARGUMENT, "at 5 expected a token and"));
  }
  model["vocab"] = json::array();
  EXPECT_THAT(parse(model).status(),
              fails(CRIA_INVALID_ARGUMENT, "'model.vocab' is"));
}

TEST(Unigram, SaysWhichCharacterIsUnknownWhereNoneMayBe) {
  json model = unigram();
  model.erase("unk_id");
  auto one = parse(model);
  ASSERT_TRUE(one.ok()) << one.status().message();
  EXPECT_THAT(one->encode("ab?").status(),
              fails(CRIA_INVALID_ARGUMENT, "'?' has no token"));
  // Within a token, a character needs none.
  EXPECT_EQ(encode(one, "abc"), (std::vector<int32_t>{1, 4}));
}

static json wordPiece() {
  return json::parse(R"({"type":"WordPiece","unk_token":"?",
    "continuing_subword_prefix":"##","max_input_chars_per_word":5,
    "vocab":{"?":0,"a":1,"ab":2,"##b":3,"##bc":4}})");
}

TEST(WordPiece, TakesTheLongestTokenOrNone) {
  auto one = parse(wordPiece());
  EXPECT_EQ(encode(one, "abb"), (std::vector<int32_t>{2, 3}));
  EXPECT_EQ(encode(one, "abbc"), (std::vector<int32_t>{2, 4}));
  EXPECT_EQ(encode(one, "abc"), (std::vector<int32_t>{0})); // ab, then no ##c
  EXPECT_EQ(encode(one, "abbbb"), (std::vector<int32_t>{2, 3, 3, 3}));
  EXPECT_EQ(encode(one, "abbbbb"), (std::vector<int32_t>{0})); // too long
}

TEST(WordPiece, RefusesWrongFiles) {
  json model = wordPiece();
  model["unk_token"] = "[UNK]";
  EXPECT_THAT(parse(model).status(),
              fails(CRIA_INVALID_ARGUMENT, "'[UNK]', which is not in the"));
  model = wordPiece();
  model.erase("continuing_subword_prefix");
  EXPECT_THAT(parse(model).status(),
              fails(CRIA_INVALID_ARGUMENT, "subword_prefix' is missing"));
}

TEST(PostProcessor, PutsClassAndSeparatorAround) {
  json post = {
      {"type", "BertProcessing"}, {"cls", {"a", 1}}, {"sep", {"ab", 2}}};
  EXPECT_EQ(encode(parse(wordPiece(), {}, post), "abc"),
            (std::vector<int32_t>{1, 0, 2}));
  post["sep"] = {"ab"};
  EXPECT_THAT(parse(wordPiece(), {}, post).status(),
              fails(CRIA_INVALID_ARGUMENT, "expected a token and its id"));
  post["sep"] = {"ab", 77};
  EXPECT_THAT(parse(wordPiece(), {}, post).status(),
              fails(CRIA_INVALID_ARGUMENT, "is 77, which is no token's id"));
}

// Tokens that share no beginnings would fill the memory.
TEST(Vocabulary, BoundsItsSize) {
  json model = wordPiece();
  for (int i = 0; i < 10; ++i)
    model["vocab"][std::to_string(i) + std::string(1'000'000, 'x')] = 5 + i;
  EXPECT_THAT(parse(model).status(),
              fails(CRIA_INVALID_ARGUMENT, "different beginnings of tokens"));
}

static json precompiled(const std::string &base64) {
  return {{"type", "Precompiled"}, {"precompiled_charsmap", base64}};
}

TEST(CharacterMap, RefusesWhatIsNone) {
  // Not base64; too short; a size beyond the end, or not in units; bad texts.
  for (const char *text : {"", "!!!!", "AAAA", "/////w==", "AwAAAAAAAA==",
                           "CAAAAAAAAAA=", "BAAAAAAAAAD/"})
    EXPECT_THAT(parse(wordPiece(), precompiled(text)).status(),
                fails(CRIA_INVALID_ARGUMENT, "precompiled_charsmap"))
        << text;
}

// Units that lead beyond the array replace nothing.
TEST(CharacterMap, SurvivesAnyUnits) {
  std::string bytes(4, '\0');
  bytes[1] = 4; // 256 units
  uint32_t state = 1;
  for (int i = 0; i < 1024 + 64; ++i) {
    state = state * 1664525 + 1013904223;
    bytes += static_cast<char>(i < 1024 ? state >> 24 : 'a' + i % 3);
  }
  static const char digits[] =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string base64;
  for (size_t at = 0; at + 3 <= bytes.size(); at += 3)
    for (int shift = 18; shift >= 0; shift -= 6) {
      uint32_t three = static_cast<uint8_t>(bytes[at]) << 16 |
                       static_cast<uint8_t>(bytes[at + 1]) << 8 |
                       static_cast<uint8_t>(bytes[at + 2]);
      base64 += digits[three >> shift & 63];
    }
  auto one = parse(wordPiece(), precompiled(base64));
  ASSERT_TRUE(one.ok()) << one.status().message();
  std::string text;
  for (char32_t c = 1; c < 0x500; ++c)
    appendCharacter(text, c);
  EXPECT_TRUE(one->encode(text).ok());
}

TEST(Unicode, NormalizesAMegabyteOfMarksInSeconds) {
  std::string text = "a";
  while (text.size() < 1u << 20)
    text += "\u0301\u0323\u0327"; // of different classes
  double start = processorSeconds();
  EXPECT_FALSE(normalize(text, NormalForm::NFC).empty());
  EXPECT_LT(processorSeconds() - start, 5);
}
