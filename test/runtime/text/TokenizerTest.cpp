/// Compared with Hugging Face tokenizers: data/make_goldens.py says how the
/// goldens were made.
#include "runtime/text/tokenizer/TextStream.h"

#include "runtime/base/files/File.h"
#include "runtime/text/tokenizer/Text.h"
#include "test/runtime/Fixtures.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <map>

using namespace cria;
using cria::test::processorSeconds;
using cria::test::sanitizerFactor;
namespace fs = std::filesystem;

static std::string dataPath(const std::string &name) {
  return CRIA_SOURCE_FOLDER "/test/runtime/data/" + name;
}

static const Tokenizer &tokenizer(const std::string &name) {
  static std::map<std::string, Tokenizer> loaded;
  auto place = loaded.find(name);
  if (place == loaded.end()) {
    auto read = Tokenizer::load(dataPath(name + ".tokenizer.json"));
    if (!read.ok())
      throw std::runtime_error(read.status().message());
    place = loaded.emplace(name, std::move(*read)).first;
  }
  return place->second;
}

static const nlohmann::json &goldens() {
  static const JsonDocument cases =
      *readJson(dataPath("tokenizer_goldens.json"));
  return cases.root();
}

static std::vector<int32_t> ids(const nlohmann::json &list) {
  return list.get<std::vector<int32_t>>();
}

TEST(Tokenizer, EncodesAsHuggingFace) {
  for (const nlohmann::json &golden : goldens()) {
    if (!golden.contains("text"))
      continue;
    const Tokenizer &one = tokenizer(golden["tokenizer"]);
    std::string text = golden["text"];
    auto special = one.encode(text);
    auto plain = one.encode(text, false);
    ASSERT_TRUE(special.ok() && plain.ok());
    EXPECT_EQ(*special, ids(golden["ids"])) << golden;
    EXPECT_EQ(*plain, ids(golden["plain"])) << golden;
  }
}

// AutoTokenizer applies neither, and no call of ours asks for them.
TEST(Tokenizer, IgnoresTruncationAndPadding) {
  JsonDocument file = *readJson(dataPath("metaspace.tokenizer.json"));
  nlohmann::json document = file.root();
  document["truncation"] = {{"max_length", 2}, {"stride", 0}};
  document["padding"] = {{"strategy", {{"Fixed", 64}}}, {"pad_id", 0}};
  Result<Tokenizer> one = Tokenizer::parse(document.dump(), "t.json");
  ASSERT_TRUE(one.ok()) << one.status().message();
  EXPECT_EQ(*one->encode("Once upon a time"),
            *tokenizer("metaspace").encode("Once upon a time"));
}

TEST(Tokenizer, DecodesAsHuggingFace) {
  for (const nlohmann::json &golden : goldens()) {
    const Tokenizer &one = tokenizer(golden["tokenizer"]);
    bool drawn = golden.contains("decode");
    EXPECT_EQ(*one.decode(ids(golden[drawn ? "decode" : "plain"]), drawn),
              golden["decoded"].get<std::string>())
        << golden;
  }
}

// What comes out piece by piece is the whole, and each piece whole UTF-8.
TEST(Tokenizer, StreamsWholeCharacters) {
  for (const nlohmann::json &golden : goldens()) {
    const Tokenizer &one = tokenizer(golden["tokenizer"]);
    bool drawn = golden.contains("decode");
    TextStream stream(one, drawn);
    std::string text;
    for (int32_t id : ids(golden[drawn ? "decode" : "plain"])) {
      std::string piece = *stream.push(id);
      EXPECT_EQ(findInvalidUtf8(piece), piece.npos) << golden;
      text += piece;
    }
    text += *stream.finish();
    EXPECT_EQ(text, golden["decoded"].get<std::string>()) << golden;
  }
}

// A byte-level stream holds back no more than the character it waits for.
TEST(Tokenizer, StreamsAsSoonAsACharacterIsWhole) {
  const Tokenizer &one = tokenizer("byte_level");
  TextStream stream(one);
  auto bytes = one.encode("\u0E01x", false); // bytes E0 B8 81, then x
  ASSERT_EQ(bytes->size(), 4u);
  EXPECT_EQ(*stream.push((*bytes)[0]), "");
  EXPECT_EQ(*stream.push((*bytes)[1]), "");
  EXPECT_EQ(*stream.push((*bytes)[2]), "\u0E01");
  EXPECT_EQ(*stream.push((*bytes)[3]), "x");
  EXPECT_EQ(*stream.push((*bytes)[0]), "");
  EXPECT_EQ(*stream.finish(), "\uFFFD");
  EXPECT_EQ(*stream.push((*bytes)[3]), "x"); // as new
}

TEST(Tokenizer, SkipsSpecialTokensAndIdsWithoutOne) {
  const Tokenizer &one = tokenizer("byte_level");
  auto text = one.encode("<|begin_of_text|>fox<|eot_id|>");
  text->push_back(100'000);
  EXPECT_EQ(*one.decode(*text), "fox");
  EXPECT_EQ(*one.decode(*text, true),
            "<|begin_of_text|><|begin_of_text|>fox<|eot_id|>");
  EXPECT_TRUE(one.contains(401));
  EXPECT_FALSE(one.contains(402));
  EXPECT_FALSE(one.contains(-1));
}

TEST(Tokenizer, LeavesSpecialTokensTextWhereAsked) {
  const Tokenizer &one = tokenizer("byte_level");
  std::string text = "a<|eot_id|>b";
  std::vector<int32_t> parsed = *one.encode(text, false);
  std::vector<int32_t> left = *one.encode(text, false, false);
  EXPECT_EQ(std::count(parsed.begin(), parsed.end(), 401), 1);
  EXPECT_EQ(std::count(left.begin(), left.end(), 401), 0);
  EXPECT_EQ(*one.decode(left), text); // without special tokens
  EXPECT_EQ(*one.decode(parsed), "ab");
  EXPECT_EQ((*one.encode(text, true, false))[0], 400); // the post-processor's
}

// Of "<|eot_id|>" every byte must be the template's, or a name's after the
// first one. Each line below the text says who wrote the byte above.
TEST(Tokenizer, TakesSpecialTokensFromWhoMayWriteThem) {
  const Tokenizer &one = tokenizer("byte_level");
  auto special = [&](std::string text, std::string origins) {
    std::vector<int32_t> ids = *one.encodeBy(text, origins);
    EXPECT_EQ(*one.decode(ids, true), text);
    return std::count(ids.begin(), ids.end(), 401);
  };
  auto by = [](std::string letters) {
    for (char &c : letters)
      c = static_cast<char>(c == 'T'   ? Origin::Template
                            : c == 'N' ? Origin::Name
                                       : Origin::Given);
    return letters;
  };
  EXPECT_EQ(special("x<|eot_id|>y", by("TTTTTTTTTTTT")), 1);
  EXPECT_EQ(special("x<|eot_id|>y", by("GTTTTTTTTTTG")), 1);
  EXPECT_EQ(special("x<|eot_id|>y", by("GTTNNNNNNTTG")), 1);
  EXPECT_EQ(special("x<|eot_id|>y", by("GTNNNNNNNNNG")), 1);
  EXPECT_EQ(special("x<|eot_id|>y", by("TNTTTTTTTTTT")), 0);
  for (size_t at = 1; at < 11; ++at) {
    std::string origins(12, 'T');
    origins[at] = 'G';
    EXPECT_EQ(special("x<|eot_id|>y", by(origins)), 0) << at;
    origins = std::string(12, 'G');
    origins[at] = 'T';
    EXPECT_EQ(special("x<|eot_id|>y", by(origins)), 0) << at;
    EXPECT_EQ(special("x<|eot_id|>y",
                      by(std::string(at, 'T') + std::string(12 - at, 'G'))),
              0)
        << at;
  }
  EXPECT_EQ(special("<|eot_id|><|eot_id|>", by("GGGGGGGGGGTTTTTTTTTT")), 1);
}

TEST(Tokenizer, RefusesTextThatIsNotUtf8) {
  for (const char *text : {"ok \xC3", "\x80", "\xC0\xAF", "\xED\xA0\x80",
                           "\xF4\x90\x80\x80", "a\xF0\x9F\x99 b"}) {
    auto result = tokenizer("sentencepiece").encode(text);
    ASSERT_FALSE(result.ok());
    EXPECT_EQ(result.status().code(), CRIA_INVALID_ARGUMENT);
  }
  EXPECT_EQ(tokenizer("sentencepiece").encode("ok \xC3").status().message(),
            "the text is not UTF-8 at byte 3");
}

TEST(Tokenizer, ChecksThatItsIdsFitTheModel) {
  EXPECT_TRUE(tokenizer("byte_level").fits(402).ok());
  EXPECT_TRUE(tokenizer("byte_level").fits(128'256).ok()); // padded: normal
  Status status = tokenizer("byte_level").fits(401);
  EXPECT_EQ(status.code(), CRIA_INVALID_ARGUMENT);
  EXPECT_EQ(status.message(),
            "the tokenizer's token '<|eot_id|>' has id 401, expected less than "
            "the model's vocab_size 401");
}

// A megabyte in one word, in runs of spaces, in added tokens: no quadratic
// time.
TEST(Tokenizer, EncodesAMegabyteInSeconds) {
  for (const char *unit : {"a", " ", "ab", "\n", "!", "<s>", "<mask> ", "日"}) {
    std::string text;
    while (text.size() < 1u << 20)
      text += unit;
    for (const char *name : {"byte_level", "sentencepiece"}) {
      double start = processorSeconds();
      EXPECT_TRUE(tokenizer(name).encode(text).ok()) << name << unit;
      EXPECT_LT(processorSeconds() - start, 20 * sanitizerFactor)
          << name << " " << unit;
    }
  }
}

// The tokenizer of the shared model, where it is.
TEST(Tokenizer, EncodesStories260K) {
  const char *shared = std::getenv("CRIA_SHARED");
  fs::path folder = shared ? shared : CRIA_SOURCE_FOLDER "/../shared";
  fs::path path = folder / "models" / "stories260K" / "tokenizer.json";
  if (!fs::exists(path))
    GTEST_SKIP() << "no " << path;
  auto one = Tokenizer::load(path.string());
  ASSERT_TRUE(one.ok()) << one.status().message();
  EXPECT_TRUE(one->fits(512).ok());
  auto prompt = one->encode("Once upon a time, there was a little girl");
  EXPECT_EQ(*prompt, (std::vector<int32_t>{1, 403, 407, 261, 378, 432, 383, 286,
                                           261, 376, 298, 315, 421}));
  EXPECT_EQ(*one->decode(*prompt), "Once upon a time, there was a little girl");
}
