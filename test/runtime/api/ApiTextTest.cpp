#include "runtime/cria_text.h"

#include "test/runtime/Fixtures.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <set>
#include <string>
#include <tuple>
#include <vector>

using namespace cria::test;
using testing::HasSubstr;

static constexpr char tokenizerJson[] = R"({
  "model": {"type": "BPE", "byte_fallback": false, "unk_token": null,
            "vocab": {"a": 0, "b": 1, "ab": 2}, "merges": ["a b"]},
  "added_tokens": [], "normalizer": null, "pre_tokenizer": null,
  "post_processor": null, "decoder": null})";

namespace {

class ApiTextTest : public testing::Test {
protected:
  void SetUp() override {
    CRIA_INIT(&error);
    CRIA_INIT(&options);
    std::string path = folder.write("tokenizer.json", tokenizerJson);
    ASSERT_EQ(cria_tokenizer_open(path.c_str(), &tokenizer, &error), CRIA_OK)
        << error.message;
  }
  void TearDown() override { cria_tokenizer_free(&tokenizer); }

  TemporaryFolder folder;
  cria_tokenizer *tokenizer = nullptr;
  cria_sampler_options options;
  cria_error error;
};

} // namespace

TEST_F(ApiTextTest, EncodesAndDecodes) {
  int32_t *ids = nullptr;
  size_t count = 0;
  ASSERT_EQ(cria_tokenizer_encode(tokenizer, "abb", 3, 1, &ids, &count, &error),
            CRIA_OK)
      << error.message;
  ASSERT_EQ(count, 2u);
  EXPECT_EQ(ids[0], 2);
  EXPECT_EQ(ids[1], 1);
  char *text = nullptr;
  ASSERT_EQ(cria_tokenizer_decode(tokenizer, ids, count, 1, &text, &error),
            CRIA_OK);
  EXPECT_THAT(text, HasSubstr("ab"));
  free(text);
  free(ids);
  EXPECT_EQ(
      cria_tokenizer_encode(tokenizer, "\xff", 1, 1, &ids, &count, &error),
      CRIA_INVALID_ARGUMENT);
  EXPECT_EQ(ids, nullptr);
}

TEST_F(ApiTextTest, DrawsTextsOfAGrammar) {
  const std::string source = "( a| b){2}"; // tokens of this decoder begin so
  cria_grammar *grammar = nullptr;
  cria_matcher *matcher = nullptr, *copy = nullptr;
  const int32_t end = 4;
  ASSERT_EQ(cria_grammar_create(tokenizer, CRIA_GRAMMAR_REGEX, source.data(),
                                source.size(), &end, 1, &grammar, &error),
            CRIA_OK)
      << error.message;
  ASSERT_EQ(cria_matcher_create(grammar, &matcher, &error), CRIA_OK);
  cria_grammar_free(&grammar); // the matcher keeps it
  uint32_t bits = 0;
  ASSERT_EQ(cria_matcher_mask(matcher, &bits, 1, &error), CRIA_OK);
  EXPECT_EQ(bits, 3u);
  ASSERT_EQ(cria_matcher_accept(matcher, 0, &error), CRIA_OK);
  ASSERT_EQ(cria_matcher_copy(matcher, &copy, &error), CRIA_OK);
  ASSERT_EQ(cria_matcher_accept(copy, 1, &error), CRIA_OK);
  EXPECT_EQ(cria_matcher_complete(copy), 1);
  EXPECT_EQ(cria_matcher_finished(copy), 1);
  EXPECT_EQ(cria_matcher_complete(matcher), 0);
  ASSERT_EQ(cria_matcher_mask(copy, &bits, 1, &error), CRIA_OK);
  EXPECT_EQ(bits, 1u << end);
  cria_matcher_free(&copy);
  cria_matcher_free(&matcher);
}

TEST_F(ApiTextTest, RefusesWhatIsNoGrammar) {
  cria_grammar *grammar = nullptr;
  cria_matcher *matcher = nullptr;
  auto refused = [&](cria_status status, const char *message) {
    EXPECT_EQ(status, CRIA_INVALID_ARGUMENT);
    EXPECT_STREQ(error.message, message);
  };
  auto create = [&](int32_t kind, const char *source, const int32_t *ends) {
    return cria_grammar_create(tokenizer, kind, source, 1, ends, 1, &grammar,
                               &error);
  };
  const int32_t end = -1;
  refused(create(CRIA_GRAMMAR_REGEX, nullptr, &end), "source is NULL");
  refused(create(CRIA_GRAMMAR_REGEX, "a", nullptr), "end_ids is NULL");
  refused(create(CRIA_GRAMMAR_REGEX, "a", &end),
          "expected end ids of at least 0, got -1");
  refused(
      cria_grammar_create(tokenizer, 3, "a", 1, nullptr, 0, &grammar, &error),
      "kind is 3, expected a cria_grammar_kind");
  EXPECT_EQ(grammar, nullptr);
  refused(cria_matcher_create(nullptr, &matcher, &error), "grammar is NULL");
  refused(cria_matcher_copy(nullptr, &matcher, &error), "from is NULL");
  refused(cria_matcher_mask(nullptr, nullptr, 0, &error), "matcher is NULL");
  refused(cria_matcher_accept(nullptr, 0, &error), "matcher is NULL");
  EXPECT_EQ(cria_matcher_complete(nullptr), 0);
  EXPECT_EQ(cria_matcher_finished(nullptr), 0);
  cria_grammar_free(&grammar);
  cria_matcher_free(nullptr);
}

// "<e>" counts where a template writes it. In a user's text it is three
// characters that this vocabulary has not: what is left is "ab".
TEST_F(ApiTextTest, LeavesSpecialTokensOfUsersText) {
  std::string json = tokenizerJson;
  json.replace(json.find("\"added_tokens\": []"), 18,
               R"("added_tokens": [{"id": 3, "content": "<e>",
                  "single_word": false, "lstrip": false, "rstrip": false,
                  "normalized": false, "special": true}])");
  std::string path = folder.write("special.json", json);
  folder.write("chat_template.jinja", "{{ messages[0].content }}<e>");
  cria_tokenizer *special = nullptr;
  cria_chat *chat = nullptr;
  ASSERT_EQ(cria_tokenizer_open(path.c_str(), &special, &error), CRIA_OK)
      << error.message;
  ASSERT_EQ(cria_chat_open(folder.path().c_str(), &chat, &error), CRIA_OK)
      << error.message;
  int32_t *ids = nullptr;
  size_t count = 0;
  auto take = [&] {
    std::vector<int32_t> taken(ids, ids + count);
    free(ids);
    return taken;
  };
  ASSERT_EQ(cria_tokenizer_encode(special, "a<e>", 4, 0, &ids, &count, &error),
            CRIA_OK);
  EXPECT_EQ(take(), (std::vector<int32_t>{0, 3}));
  ASSERT_EQ(
      cria_tokenizer_encode_text(special, "a<e>", 4, 0, &ids, &count, &error),
      CRIA_OK);
  EXPECT_EQ(take(), (std::vector<int32_t>{0}));
  ASSERT_EQ(cria_chat_encode(chat, special,
                             R"({"messages": [{"content": "a<e>b"}]})", &ids,
                             &count, &error),
            CRIA_OK)
      << error.message;
  EXPECT_EQ(take(), (std::vector<int32_t>{2, 3}));
  EXPECT_EQ(cria_chat_encode(chat, nullptr, "{}", &ids, &count, &error),
            CRIA_INVALID_ARGUMENT);
  cria_chat_free(&chat);
  cria_tokenizer_free(&special);
}

// The stream keeps the tokenizer alive.
TEST_F(ApiTextTest, StreamsIds) {
  cria_stream *stream = nullptr;
  ASSERT_EQ(cria_stream_create(tokenizer, 0, &stream, &error), CRIA_OK);
  cria_tokenizer_free(&tokenizer);
  const char *text = nullptr;
  std::string all;
  ASSERT_EQ(cria_stream_push(stream, 2, &text, &error), CRIA_OK);
  all += text;
  ASSERT_EQ(cria_stream_finish(stream, &text, &error), CRIA_OK);
  all += text;
  EXPECT_EQ(all, "ab");
  cria_stream_free(&stream);
}

TEST_F(ApiTextTest, StopsStreams) {
  cria_stream *stream = nullptr;
  ASSERT_EQ(cria_stream_create(tokenizer, 0, &stream, &error), CRIA_OK);
  auto set = [&](const char *const *strings, const int32_t *prompt) {
    return cria_stream_set_stop_strings(stream, strings, 1, prompt, 1, &error);
  };
  const char *stops[] = {"b a"}, *empty[] = {""}, *none[] = {nullptr};
  int32_t prompt = 1;
  EXPECT_EQ(set(empty, &prompt), CRIA_INVALID_ARGUMENT);
  EXPECT_STREQ(error.message, "a stop string is empty");
  EXPECT_EQ(set(none, &prompt), CRIA_INVALID_ARGUMENT);
  EXPECT_EQ(set(nullptr, &prompt), CRIA_INVALID_ARGUMENT);
  EXPECT_EQ(set(stops, nullptr), CRIA_INVALID_ARGUMENT);
  ASSERT_EQ(set(stops, &prompt), CRIA_OK) << error.message;
  EXPECT_EQ(cria_stream_stopped(stream), 0);
  const char *text = nullptr;
  ASSERT_EQ(cria_stream_push(stream, 2, &text, &error), CRIA_OK); // "b ab"
  EXPECT_STREQ(text, "");
  EXPECT_EQ(cria_stream_stopped(stream), 1);
  EXPECT_EQ(cria_stream_stopped(nullptr), 0);
  cria_stream_free(&stream);
}

TEST_F(ApiTextTest, IgnoresAllowedKeysOfGeneration) {
  folder.write("generation_config.json", R"({"made_up": 1, "other": 2})");
  std::string path = folder.path();
  cria_generation *generation = nullptr;
  EXPECT_EQ(cria_generation_open(path.c_str(), &generation, &error),
            CRIA_UNIMPLEMENTED);
  const char *keys[] = {"made_up", "other"};
  EXPECT_EQ(
      cria_generation_open_allowing(path.c_str(), keys, 1, &generation, &error),
      CRIA_UNIMPLEMENTED);
  EXPECT_THAT(error.message, HasSubstr("'other'"));
  EXPECT_EQ(
      cria_generation_open_allowing(path.c_str(), keys, 2, &generation, &error),
      CRIA_OK);
  cria_generation_free(&generation);
  EXPECT_EQ(cria_generation_open_allowing(path.c_str(), nullptr, 1, &generation,
                                          &error),
            CRIA_INVALID_ARGUMENT);
  EXPECT_THAT(cria_generation_keys(), HasSubstr("| `max_new_tokens` |"));
}

TEST_F(ApiTextTest, SamplesAsTheFolderAsks) {
  folder.write("generation_config.json", R"({"eos_token_id": [2, 1]})");
  cria_generation *generation = nullptr;
  ASSERT_EQ(cria_generation_open(folder.path().c_str(), &generation, &error),
            CRIA_OK)
      << error.message;
  ASSERT_EQ(cria_generation_options(generation, &options, &error), CRIA_OK);
  EXPECT_EQ(options.temperature, 0);
  EXPECT_EQ(cria_generation_ends(generation, 1), 1);
  EXPECT_EQ(cria_generation_ends(generation, 0), 0);
  EXPECT_EQ(cria_generation_ends(nullptr, 0), 0);
  cria_generation_free(&generation);
  cria_sampler *sampler = nullptr;
  ASSERT_EQ(cria_sampler_create(&options, 3, &sampler, &error), CRIA_OK);
  float logits[3] = {1, 3, 2};
  int32_t id = -1;
  EXPECT_EQ(cria_sampler_accept(sampler, 0, &error), CRIA_OK);
  ASSERT_EQ(cria_sampler_sample(sampler, logits, &id, &error), CRIA_OK);
  EXPECT_EQ(id, 1);
  cria_sampler_free(&sampler);
}

// CRIA_INIT'ed options draw the likeliest id, and every 0 is "off".
TEST_F(ApiTextTest, OptionsOfZerosAreValid) {
  float logits[3] = {1, 3, 2};
  auto draw = [&](int accepted) {
    cria_sampler *sampler = nullptr;
    EXPECT_EQ(cria_sampler_create(&options, 3, &sampler, &error), CRIA_OK)
        << error.message;
    EXPECT_EQ(cria_sampler_accept(sampler, accepted, &error), CRIA_OK);
    int32_t id = -1;
    EXPECT_EQ(cria_sampler_sample(sampler, logits, &id, &error), CRIA_OK);
    cria_sampler_free(&sampler);
    return id;
  };
  CRIA_INIT(&options);
  EXPECT_EQ(draw(1), 1);
  // With a temperature, every id is drawn: top_p of 0 leaves them all.
  options.temperature = 5;
  std::set<int32_t> drawn;
  for (options.seed = 0; options.seed < 100; ++options.seed)
    drawn.insert(draw(1));
  EXPECT_EQ(drawn, (std::set<int32_t>{0, 1, 2}));
  // As with the values that are written "off" elsewhere.
  for (uint64_t seed = 0; seed < 100; ++seed) {
    CRIA_INIT(&options);
    options.temperature = 5;
    options.seed = seed;
    int32_t id = draw(1);
    options.top_p = options.repetition_penalty = 1;
    EXPECT_EQ(draw(1), id);
  }
}

// A checkpoint's top_p of 0 leaves one id, as in transformers, also through the
// options.
TEST_F(ApiTextTest, ACheckpointsTopPOfZeroIsNotOff) {
  folder.write("generation_config.json",
               R"({"do_sample": true, "temperature": 5.0, "top_p": 0.0})");
  cria_generation *generation = nullptr;
  ASSERT_EQ(cria_generation_open(folder.path().c_str(), &generation, &error),
            CRIA_OK)
      << error.message;
  ASSERT_EQ(cria_generation_options(generation, &options, &error), CRIA_OK);
  cria_generation_free(&generation);
  float logits[3] = {1, 3, 2};
  for (options.seed = 0; options.seed < 100; ++options.seed) {
    cria_sampler *sampler = nullptr;
    ASSERT_EQ(cria_sampler_create(&options, 3, &sampler, &error), CRIA_OK);
    int32_t id = -1;
    ASSERT_EQ(cria_sampler_sample(sampler, logits, &id, &error), CRIA_OK);
    EXPECT_EQ(id, 1);
    cria_sampler_free(&sampler);
  }
}

TEST_F(ApiTextTest, RefusesOptionsOutOfRange) {
  auto refuses = [&](auto member, double value) {
    CRIA_INIT(&options);
    options.*member = value;
    cria_sampler *sampler = nullptr;
    EXPECT_EQ(cria_sampler_create(&options, 3, &sampler, &error),
              CRIA_INVALID_ARGUMENT)
        << value;
    EXPECT_EQ(sampler, nullptr);
  };
  for (double value : {double(NAN), -1.0, double(INFINITY)}) {
    refuses(&cria_sampler_options::temperature, value);
    refuses(&cria_sampler_options::top_p, value);
    refuses(&cria_sampler_options::min_p, value);
    refuses(&cria_sampler_options::repetition_penalty, value);
  }
  refuses(&cria_sampler_options::top_p, 1.5);
  refuses(&cria_sampler_options::min_p, 1.5);
  CRIA_INIT(&options);
  options.top_k = -1;
  cria_sampler *sampler = nullptr;
  EXPECT_EQ(cria_sampler_create(&options, 3, &sampler, &error),
            CRIA_INVALID_ARGUMENT);
}

TEST_F(ApiTextTest, RefusesWrongOptions) {
  cria_sampler *sampler = nullptr;
  ASSERT_EQ(cria_generation_options(nullptr, &options, &error), CRIA_OK);
  EXPECT_EQ(options.temperature, 1);
  options.temperature = -1;
  EXPECT_EQ(cria_sampler_create(&options, 3, &sampler, &error),
            CRIA_INVALID_ARGUMENT);
  EXPECT_THAT(error.message, HasSubstr("temperature"));
  options.temperature = 1;
  EXPECT_EQ(cria_sampler_create(&options, 0, &sampler, &error),
            CRIA_INVALID_ARGUMENT);
  options.size = 0;
  EXPECT_EQ(cria_sampler_create(&options, 3, &sampler, &error),
            CRIA_INVALID_ARGUMENT);
  EXPECT_THAT(error.message, HasSubstr("options->size is 0"));
  EXPECT_EQ(cria_sampler_sample(nullptr, nullptr, nullptr, &error),
            CRIA_INVALID_ARGUMENT);
  EXPECT_EQ(cria_tokenizer_open(nullptr, &tokenizer, &error),
            CRIA_INVALID_ARGUMENT);
  EXPECT_EQ(cria_stream_push(nullptr, 0, nullptr, &error),
            CRIA_INVALID_ARGUMENT);
}

TEST_F(ApiTextTest, TellsTokensAndIds) {
  int64_t size = 0;
  ASSERT_EQ(cria_tokenizer_vocab_size(tokenizer, &size, &error), CRIA_OK);
  EXPECT_EQ(size, 3);
  const char *token = nullptr;
  ASSERT_EQ(cria_tokenizer_token(tokenizer, 2, &token, &error), CRIA_OK);
  EXPECT_STREQ(token, "ab");
  for (int32_t id : {-1, 3})
    EXPECT_EQ(cria_tokenizer_token(tokenizer, id, &token, &error),
              CRIA_NOT_FOUND);
  EXPECT_STREQ(error.message, "id 3 has no token");
  char *bytes = nullptr;
  size_t count = 0;
  ASSERT_EQ(cria_tokenizer_bytes(tokenizer, 2, &bytes, &count, &error),
            CRIA_OK);
  EXPECT_STREQ(bytes, " ab"); // this tokenizer's tokens are words
  EXPECT_EQ(count, 3u);
  free(bytes);
  ASSERT_EQ(cria_tokenizer_bytes(tokenizer, 3, &bytes, &count, &error),
            CRIA_OK);
  EXPECT_EQ(count, 0u);
  free(bytes);
  int32_t id = -1;
  ASSERT_EQ(cria_tokenizer_find(tokenizer, "b", &id, &error), CRIA_OK);
  EXPECT_EQ(id, 1);
  EXPECT_EQ(cria_tokenizer_find(tokenizer, "abb", &id, &error), CRIA_NOT_FOUND);
}

TEST_F(ApiTextTest, TellsIdsThatBeginAndEnd) {
  cria_generation *generation = nullptr;
  int32_t begin = -1;
  const int32_t *ends = nullptr;
  size_t count = 0;
  auto open = [&](const char *json) {
    cria_generation_free(&generation);
    folder.write("generation_config.json", json);
    return cria_generation_open(folder.path().c_str(), &generation, &error);
  };
  ASSERT_EQ(open("{}"), CRIA_OK) << error.message;
  EXPECT_EQ(cria_generation_begin(generation, &begin, &error), CRIA_NOT_FOUND);
  ASSERT_EQ(cria_generation_end_ids(generation, &ends, &count, &error),
            CRIA_OK);
  EXPECT_EQ(count, 0u);
  ASSERT_EQ(open(R"({"bos_token_id": 1, "eos_token_id": [2, 0]})"), CRIA_OK);
  ASSERT_EQ(cria_generation_begin(generation, &begin, &error), CRIA_OK);
  EXPECT_EQ(begin, 1);
  ASSERT_EQ(cria_generation_end_ids(generation, &ends, &count, &error),
            CRIA_OK);
  EXPECT_EQ(std::vector<int32_t>(ends, ends + count),
            (std::vector<int32_t>{2, 0}));
  cria_generation_free(&generation);
}

TEST_F(ApiTextTest, TellsHowManyIdsAreAskedFor) {
  for (auto [json, fresh, whole] :
       {std::make_tuple("{}", -1, -1),
        std::make_tuple(R"({"max_new_tokens": 7, "max_length": 40})", 7, 40)}) {
    folder.write("generation_config.json", json);
    cria_generation *generation = nullptr;
    ASSERT_EQ(cria_generation_open(folder.path().c_str(), &generation, &error),
              CRIA_OK)
        << error.message;
    cria_generation_limits limits;
    CRIA_INIT(&limits);
    ASSERT_EQ(cria_generation_get_limits(generation, &limits, &error), CRIA_OK);
    EXPECT_EQ(limits.max_new_tokens, fresh);
    EXPECT_EQ(limits.max_length, whole);
    limits.size = 0;
    EXPECT_EQ(cria_generation_get_limits(generation, &limits, &error),
              CRIA_INVALID_ARGUMENT);
    cria_generation_free(&generation);
  }
}

TEST_F(ApiTextTest, ParsesTemplates) {
  cria_chat *chat = nullptr;
  std::string source = "{{ bos_token }}{{ messages[0].content }}!";
  ASSERT_EQ(cria_chat_parse(source.data(), source.size(), &chat, &error),
            CRIA_OK)
      << error.message;
  char *text = nullptr;
  ASSERT_EQ(cria_chat_render(chat, R"({"messages": [{"content": "a"}],
                                 "bos_token": "<s>"})",
                             &text, &error),
            CRIA_OK)
      << error.message;
  EXPECT_STREQ(text, "<s>a!");
  free(text);
  cria_chat_free(&chat);
  EXPECT_EQ(cria_chat_parse("{{", 2, &chat, &error), CRIA_INVALID_ARGUMENT);
  EXPECT_THAT(error.message, HasSubstr("template in memory: "));
}
