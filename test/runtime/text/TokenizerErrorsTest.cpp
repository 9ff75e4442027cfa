/// Tokenizer files that are wrong, hostile or not supported: each is refused
/// with the reason.
#include "runtime/text/tokenizer/TextStream.h"

#include "test/runtime/Fixtures.h"

#include <gtest/gtest.h>

#include <functional>
#include <tuple>

using namespace cria;
using namespace cria::test;
using nlohmann::json;

static json base() {
  return json::parse(R"({"version":"1.0","added_tokens":[
    {"id":5,"content":"<e>","single_word":false,"lstrip":false,"rstrip":false,
     "normalized":false,"special":true}],
    "model":{"type":"BPE","vocab":{"a":0,"b":1,"ab":2,"<u>":3," ":4},
             "merges":["a b"],"unk_token":"<u>"}})");
}

/// The status of loading the base with the change of an RFC 6902 patch.
static Status load(const std::string &path, const json &value) {
  json document =
      base().patch({{{"op", "add"}, {"path", path}, {"value", value}}});
  auto result = Tokenizer::parse(document.dump(), "t.json");
  return result.ok() ? Status() : result.status();
}

TEST(TokenizerErrors, BaseIsRight) {
  auto one = Tokenizer::parse(base().dump(), "t.json");
  ASSERT_TRUE(one.ok()) << one.status().message();
  EXPECT_EQ(*one->encode("ab<e>?b"), (std::vector<int32_t>{2, 5, 3, 1}));
}

TEST(TokenizerErrors, Syntax) {
  for (const char *text : {"", "{", "[]", "null", "{}", "{\"model\":3}"})
    EXPECT_EQ(Tokenizer::parse(text, "t.json").status().code(),
              CRIA_INVALID_ARGUMENT)
        << text;
  const std::pair<std::string, const char *> hostile[] = {
      {std::string(100'000, '['), "nested deeper than 64"},
      {R"({"model": {"vocab": {"a": 0, "a": 1}}})", "duplicate key 'a'"},
      {R"({"model": {"vocab": {"a": 1e999}}})", "number"},
      {"{\"model\": \"" + std::string(2 << 20, 'x') + "\"}", "string"}};
  for (const auto &[text, words] : hostile)
    EXPECT_THAT(Tokenizer::parse(text, "t.json").status(),
                fails(CRIA_INVALID_ARGUMENT, words));
  EXPECT_EQ(Tokenizer::load("/no/such/tokenizer.json").status().code(),
            CRIA_NOT_FOUND);
}

TEST(TokenizerErrors, UnknownMembersAndComponents) {
  const std::pair<const char *, json> cases[] = {
      {"/version", "2.0"},
      {"/surprise", 1},
      {"/model/surprise", 1},
      {"/model/type", "WordLevel"},
      {"/model/dropout", 0.1},
      {"/model/continuing_subword_prefix", "##"},
      {"/model/end_of_word_suffix", "</w>"},
      {"/normalizer", {{"type", "Nmt"}}},
      {"/normalizer", {{"type", "NFKC"}, {"surprise", 1}}},
      {"/pre_tokenizer", {{"type", "UnicodeScripts"}}},
      {"/pre_tokenizer", {{"type", "Whitespace"}, {"surprise", 1}}},
      {"/pre_tokenizer", {{"type", "Punctuation"}, {"behavior", "Odd"}}},
      {"/post_processor", {{"type", "Surprise"}}},
      {"/decoder", {{"type", "CTC"}}},
      {"/decoder",
       {{"type", "Strip"}, {"content", " "}, {"start", 0}, {"stop", 1}}}};
  for (const auto &[path, value] : cases)
    EXPECT_THAT(load(path, value), fails(CRIA_UNIMPLEMENTED, "t.json: '"))
        << path << value;
  json fuse = {{"type", "Fuse"}}, bytes = {{"type", "ByteFallback"}};
  EXPECT_THAT(
      load("/decoder", {{"type", "Sequence"}, {"decoders", {fuse, bytes}}}),
      fails(CRIA_UNIMPLEMENTED, "expected this step before Fuse"));
}

TEST(TokenizerErrors, Vocabulary) {
  EXPECT_THAT(load("/model/vocab/c", 1),
              fails(CRIA_INVALID_ARGUMENT, "gives id 1 to 'b' and to 'c'"));
  EXPECT_THAT(load("/model/vocab/c", -1),
              fails(CRIA_INVALID_ARGUMENT, "'model.vocab.c' is -1"));
  EXPECT_THAT(load("/model/vocab/c", 4e9),
              fails(CRIA_INVALID_ARGUMENT, "'model.vocab.c' is 4000000000.0"));
  EXPECT_THAT(load("/model/vocab/c", int64_t{1} << 40),
              fails(CRIA_INVALID_ARGUMENT, "'model.vocab.c'"));
  EXPECT_THAT(load("/model/vocab", json::array()),
              fails(CRIA_INVALID_ARGUMENT, "'model.vocab'"));
  EXPECT_THAT(load("/model/unk_token", "?"),
              fails(CRIA_INVALID_ARGUMENT, "'?', which is not in the"));
}

TEST(TokenizerErrors, Merges) {
  for (const char *merge : {"a", "a b c", "", "a  b"})
    EXPECT_THAT(load("/model/merges/-", merge),
                fails(CRIA_INVALID_ARGUMENT, "at 1 expected two tokens"));
  EXPECT_THAT(load("/model/merges/-", json{"a", "b", "a"}),
              fails(CRIA_INVALID_ARGUMENT, "at 1 expected two tokens"));
  EXPECT_THAT(load("/model/merges/-", "a c"),
              fails(CRIA_INVALID_ARGUMENT, "names 'c', which is not"));
  EXPECT_THAT(load("/model/merges/-", json{"b", "a"}),
              fails(CRIA_INVALID_ARGUMENT, "names 'ba', which is not"));
  EXPECT_THAT(load("/model", {{"vocab", json::object()}, {"merges", {"a b"}}}),
              fails(CRIA_INVALID_ARGUMENT, "at 0 names 'a', which is not"));
  EXPECT_THAT(load("/model/merges/-", json{"a", "b"}),
              fails(CRIA_INVALID_ARGUMENT, "at 1 repeats the merge at 0"));
}

TEST(TokenizerErrors, AddedTokens) {
  json token = base()["added_tokens"][0];
  EXPECT_THAT(load("/added_tokens/-", token),
              fails(CRIA_INVALID_ARGUMENT, "repeats '<e>'"));
  token["content"] = "<f>";
  EXPECT_THAT(load("/added_tokens/-", token),
              fails(CRIA_INVALID_ARGUMENT, "'<f>' has id 5, expected 6"));
  token["content"] = "a";
  EXPECT_THAT(load("/added_tokens/-", token),
              fails(CRIA_INVALID_ARGUMENT, "'a' has id 5, expected 0"));
  token["content"] = std::string(300, 'x');
  token["id"] = 6;
  EXPECT_THAT(load("/added_tokens/-", token),
              fails(CRIA_INVALID_ARGUMENT, "300 bytes, expected at most 256"));
}

TEST(TokenizerErrors, Templates) {
  json post = json::parse(R"({"type":"TemplateProcessing","single":[
    {"SpecialToken":{"id":"<e>","type_id":0}},
    {"Sequence":{"id":"A","type_id":0}}],"pair":[],
    "special_tokens":{"<e>":{"id":"<e>","ids":[5],"tokens":["<e>"]}}})");
  EXPECT_TRUE(load("/post_processor", post).ok());
  json twice = {{"type", "Sequence"}, {"processors", {post, post}}};
  EXPECT_THAT(load("/post_processor", twice),
              fails(CRIA_UNIMPLEMENTED, "one step that adds tokens"));
  post["special_tokens"]["<e>"]["ids"] = {77};
  EXPECT_THAT(load("/post_processor", post),
              fails(CRIA_INVALID_ARGUMENT, "is 77, which is no token's id"));
  post["special_tokens"] = json::object();
  EXPECT_THAT(load("/post_processor", post),
              fails(CRIA_INVALID_ARGUMENT, "'post_processor.special_tokens"));
  post["single"] = json::array();
  EXPECT_THAT(load("/post_processor", post),
              fails(CRIA_UNIMPLEMENTED, "the sequence A once"));
}

static json split(const char *expression) {
  return {{"type", "Split"},
          {"pattern", {{"Regex", expression}}},
          {"behavior", "Isolated"},
          {"invert", false}};
}

TEST(TokenizerErrors, Expressions) {
  EXPECT_THAT(load("/pre_tokenizer", split("(a")),
              fails(CRIA_INVALID_ARGUMENT, "missing closing parenthesis"));
  // Oniguruma takes these.
  for (const char *differs : {"(?<=a+)b", "a+*"})
    EXPECT_THAT(load("/pre_tokenizer", split(differs)),
                fails(CRIA_INVALID_ARGUMENT, "is wrong, or not supported: "));
  std::string deep(20, '[');
  deep += "a" + std::string(20, ']');
  for (const char *differs :
       {"^*a", "a$+", "\\w+", "\\bx", "[a&&]", "[[:alpha:]]", "[]",
        deep.c_str(), "a{2}+", "a{2}?", "a{,2}", "(?m:a)", "(*COMMIT)", "\\K",
        "\\p{Nonsense}", "(?i:[a[^b]])"})
    EXPECT_THAT(load("/pre_tokenizer", split(differs)),
                fails(CRIA_UNIMPLEMENTED, "in the regular expression"))
        << differs;
}

/// The status of encoding `text` after the change of a patch.
static Status encodeWith(const std::string &path, const json &value,
                         const std::string &text) {
  json document =
      base().patch({{{"op", "add"}, {"path", path}, {"value", value}}});
  auto one = Tokenizer::parse(document.dump(), "t.json");
  return one.ok() ? one->encode(text).status() : one.status();
}

// An expression that backtracks without end is stopped.
TEST(TokenizerErrors, ExpressionThatTakesTooLong) {
  EXPECT_THAT(encodeWith("/pre_tokenizer", split("(a|aa|a+)+[c-e]"),
                         std::string(5000, 'a')),
              fails(CRIA_INVALID_ARGUMENT, "takes too"));
}

static std::string times(int count, const std::string &part) {
  std::string all;
  for (int i = 0; i < count; ++i)
    all += part;
  return all;
}

// PCRE2's machine code counts no step of a group without a repeat: alone, it
// would run for years.
TEST(TokenizerErrors, ExpressionsThatBacktrackInMachineCode) {
  for (const char *part :
       {"(?:a|aa)", "(a|aa)", "(?i:a|aa)", "a?", "a??", "[a]?", "\\p{L}?", ".?",
        "a*", "(?:a?)", "(?:a|aa){1,2}", "(?:a|aa)?", "(?=(?:a|aa))(?:a|aa)"}) {
    std::string expression = times(40, part) + "[bc]";
    EXPECT_THAT(encodeWith("/pre_tokenizer", split(expression.c_str()),
                           std::string(60, 'a')),
                fails(CRIA_INVALID_ARGUMENT, "takes too long"))
        << part;
  }
  EXPECT_THAT(encodeWith("/pre_tokenizer", split("(?:a|aa){40}[bc]"),
                         std::string(60, 'a')),
              fails(CRIA_INVALID_ARGUMENT, "takes too long"));
}

static json sequence(const char *type, const char *key, json inner,
                     size_t count) {
  json all = {{"type", type}, {key, json::array()}};
  all[key].get_ref<json::array_t &>().assign(count, inner);
  return all;
}

// Sequences hold sequences: what counts is how many there are in all. 64 x 64
// pre-tokenizers would be 4,096 calls inside each other.
TEST(TokenizerErrors, BoundsComponentsInAll) {
  const std::tuple<const char *, const char *, json> kinds[] = {
      {"/pre_tokenizer", "pretokenizers", split("a")},
      {"/normalizer", "normalizers", {{"type", "Lowercase"}}},
      {"/decoder", "decoders", {{"type", "Fuse"}}},
      {"/post_processor",
       "processors",
       {{"type", "ByteLevel"},
        {"add_prefix_space", false},
        {"trim_offsets", true}}}};
  for (const auto &[path, key, component] : kinds) {
    json some = sequence("Sequence", key, component, 31);
    EXPECT_TRUE(load(path, sequence("Sequence", key, some, 1)).ok()) << path;
    json many = sequence("Sequence", key, some, 64);
    EXPECT_THAT(load(path, many),
                fails(CRIA_INVALID_ARGUMENT, "one of more than 64 components"));
    json empty = sequence("Sequence", key, json::object(), 0);
    EXPECT_THAT(load(path, sequence("Sequence", key, empty, 64)),
                fails(CRIA_INVALID_ARGUMENT, "one of more than 64 components"));
  }
}

TEST(TokenizerErrors, BoundsTheWorkOfNormalizers) {
  json lower = sequence("Sequence", "normalizers", {{"type", "Lowercase"}}, 63);
  json chinese = {{"type", "BertNormalizer"},
                  {"clean_text", false},
                  {"handle_chinese_chars", true},
                  {"lowercase", false}};
  EXPECT_TRUE(encodeWith("/normalizer", lower, std::string(10'000, 'a')).ok());
  EXPECT_THAT(encodeWith("/normalizer", lower, std::string(2'000'000, 'a')),
              fails(CRIA_INVALID_ARGUMENT, "takes too long"));
  EXPECT_THAT(encodeWith("/normalizer",
                         sequence("Sequence", "normalizers", chinese, 63),
                         times(100'000, "\u4f60")),
              fails(CRIA_INVALID_ARGUMENT, "takes too long"));
}

// What is done to added tokens while the file is loaded counts as well.
TEST(TokenizerErrors, BoundsTheWorkOnAddedTokens) {
  json document = base();
  document["normalizer"] =
      sequence("Sequence", "normalizers", {{"type", "NFKC"}}, 63);
  json token = document["added_tokens"][0];
  token["normalized"] = true;
  for (int i = 6; i < 12'000; ++i) {
    token["id"] = i;
    token["content"] = "<token " + std::to_string(i) + ">";
    document["added_tokens"].push_back(token);
  }
  EXPECT_THAT(
      Tokenizer::parse(document.dump(), "t.json").status(),
      fails(CRIA_INVALID_ARGUMENT, "normalizing the text takes too long"));
}

// The search for a literal text is linear: a quadratic one takes minutes here.
TEST(TokenizerErrors, SearchesForLongTextsInLinearTime) {
  json replace = {{"type", "Replace"},
                  {"pattern", {{"String", std::string(500'000, 'a') + "b"}}},
                  {"content", "x"}};
  std::string text(3'000'000, 'a');
  EXPECT_TRUE(encodeWith("/normalizer", replace, text).ok());
  json cut = split("");
  cut["pattern"] = replace["pattern"];
  EXPECT_TRUE(encodeWith("/pre_tokenizer", cut, text).ok());
}

// Each step spells each byte by two.
TEST(TokenizerErrors, PreTokenizersThatMultiplyTheText) {
  json spell = {{"type", "ByteLevel"},
                {"add_prefix_space", false},
                {"trim_offsets", true},
                {"use_regex", false}};
  EXPECT_THAT(encodeWith("/pre_tokenizer",
                         sequence("Sequence", "pretokenizers", spell, 63),
                         "\u00e9"),
              fails(CRIA_INVALID_ARGUMENT, "takes too long"));
}

TEST(TokenizerErrors, ModelsWithLongTokens) {
  std::string longest(30'000, 'a');
  json unigram = {{"type", "Unigram"}, {"unk_id", 0}};
  unigram["vocab"] =
      json::array({json::array({"<u>", 0}), json::array({"a", -1}),
                   json::array({longest, -1e9})});
  json pieces = {{"type", "WordPiece"},
                 {"unk_token", "<u>"},
                 {"continuing_subword_prefix", ""},
                 {"max_input_chars_per_word", 1'000'000}};
  pieces["vocab"] = {{"<u>", 0}, {"a", 1}, {longest + "b", 2}};
  json added = base()["added_tokens"];
  for (json &model : {std::ref(unigram), std::ref(pieces)}) {
    added[0]["id"] = model["vocab"].size();
    json document = {{"model", model}, {"added_tokens", added}};
    auto one = Tokenizer::parse(document.dump(), "t.json");
    ASSERT_TRUE(one.ok()) << one.status().message();
    EXPECT_TRUE(one->encode("aaaa").ok());
    EXPECT_THAT(one->encode(longest + longest).status(),
                fails(CRIA_INVALID_ARGUMENT, "encoding a word takes too long"));
  }
}

TEST(TokenizerErrors, DecodersThatMultiplyTheText) {
  json grow = {{"type", "Replace"},
               {"pattern", {{"String", "a"}}},
               {"content", std::string(200, 'a')}};
  json document = base();
  document["decoder"] = sequence("Sequence", "decoders", grow, 20);
  auto one = Tokenizer::parse(document.dump(), "t.json");
  ASSERT_TRUE(one.ok()) << one.status().message();
  EXPECT_THAT(one->decode({0}).status(),
              fails(CRIA_INVALID_ARGUMENT, "decoding a token takes too long"));
  EXPECT_EQ(*one->decode({1}), "b");
  TextStream stream(*one);
  EXPECT_THAT(stream.push(0).status(),
              fails(CRIA_INVALID_ARGUMENT, "decoding a token takes too long"));
}

TEST(TokenizerErrors, TextThatGrowsWithoutEnd) {
  json document = base();
  json grow = {{"type", "Replace"},
               {"pattern", {{"String", "a"}}},
               {"content", std::string(200, 'a')}};
  document["normalizer"] = {
      {"type", "Sequence"},
      {"normalizers", json::array({grow, grow, grow, grow, grow, grow})}};
  auto one = Tokenizer::parse(document.dump(), "t.json");
  ASSERT_TRUE(one.ok()) << one.status().message();
  EXPECT_THAT(
      one->encode("a").status(),
      fails(CRIA_INVALID_ARGUMENT, "normalizing the text takes too long"));
  EXPECT_THAT(one->encode(std::string(1'000'000, 'a')).status(),
              fails(CRIA_INVALID_ARGUMENT, "when it is normalized"));
}
