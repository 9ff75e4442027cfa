/// Tokenizer files that are wrong, hostile or beyond what is done: each is
/// refused by name.
#include "runtime/tokenizer/Tokenizer.h"

#include "test/runtime/Fixtures.h"

#include <gtest/gtest.h>

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
      {"/truncation", {{"max_length", 8}}},
      {"/padding", {{"pad_id", 0}}},
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
  EXPECT_THAT(load("/pre_tokenizer", split("\\p{Nonsense}")),
              fails(CRIA_INVALID_ARGUMENT, "is wrong"));
  for (const char *differs : {"^a", "a$", "\\w+", "\\bx", "[a[b]]", "[a&&b]",
                              "a{2}+", "a{,2}", "(?m:a)", "(*COMMIT)", "\\K"})
    EXPECT_THAT(load("/pre_tokenizer", split(differs)),
                fails(CRIA_UNIMPLEMENTED, "in the regular expression"))
        << differs;
}

// An expression that backtracks without end is stopped.
TEST(TokenizerErrors, ExpressionThatTakesTooLong) {
  json document = base();
  document["pre_tokenizer"] = split("(a|aa|a+)+[c-e]");
  auto one = Tokenizer::parse(document.dump(), "t.json");
  ASSERT_TRUE(one.ok()) << one.status().message();
  EXPECT_THAT(one->encode(std::string(5000, 'a')).status(),
              fails(CRIA_INVALID_ARGUMENT, "takes too"));
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
  EXPECT_THAT(one->encode("a").status(),
              fails(CRIA_INVALID_ARGUMENT, "grows beyond"));
}
