#include "runtime/text/GenerationKeys.h"

#include "test/runtime/Fixtures.h"

#include <gtest/gtest.h>

#include <utility>

using namespace cria;
using namespace cria::test;
using nlohmann::json;
using testing::ElementsAre;
using testing::IsEmpty;

static Generation parsed(const char *text) {
  auto result = Generation::parse(json::parse(text), "g.json");
  EXPECT_TRUE(result.ok()) << result.status().message();
  return result.ok() ? *result : Generation();
}

static Status errorOf(const json &document) {
  return Generation::parse(document, "g.json").status();
}

TEST(Generation, Llama3Defaults) {
  Generation one = parsed(R"({"bos_token_id":128000,"do_sample":true,
    "eos_token_id":[128001,128008,128009],"temperature":0.6,"top_p":0.9,
    "transformers_version":"4.45.0.dev0"})");
  EXPECT_TRUE(one.sample);
  EXPECT_EQ(one.bos, 128000);
  EXPECT_THAT(one.eos, ElementsAre(128001, 128008, 128009));
  EXPECT_TRUE(one.ends(128008));
  EXPECT_FALSE(one.ends(128000));
  EXPECT_EQ(one.defaults().temperature, 0.6);
  EXPECT_EQ(one.defaults().topP, 0.9);
  EXPECT_EQ(one.defaults().topK, 50); // as transformers
  EXPECT_THAT(one.irrelevant, ElementsAre("transformers_version"));
}

TEST(Generation, GreedyWithoutDoSample) {
  Generation one = parsed(
      R"({"do_sample":false,"temperature":0.6,"repetition_penalty":1.2})");
  EXPECT_EQ(one.defaults().temperature, 0);
  EXPECT_EQ(one.defaults().repetitionPenalty, 1.2);
  EXPECT_EQ(Generation().defaults().temperature, 0);
}

TEST(Generation, NullsAndLengths) {
  Generation one = parsed(R"({"top_k":null,"eos_token_id":null,"min_p":null,
    "max_new_tokens":7,"max_length":4096})");
  EXPECT_EQ(one.options.topK, 0);
  EXPECT_THAT(one.eos, IsEmpty());
  EXPECT_EQ(one.maxNewTokens, 7);
  EXPECT_EQ(one.maxLength, 4096);
}

TEST(Generation, StopStrings) {
  EXPECT_THAT(parsed(R"({"stop_strings":"\n\n"})").stopStrings,
              ElementsAre("\n\n"));
  EXPECT_THAT(parsed(R"({"stop_strings":["a","b"]})").stopStrings,
              ElementsAre("a", "b"));
  EXPECT_THAT(parsed(R"({"stop_strings":null})").stopStrings, IsEmpty());
  auto ignored =
      Generation::parse({{"stop_strings", "a"}}, "g.json", {"stop_strings"});
  ASSERT_TRUE(ignored.ok());
  EXPECT_THAT(ignored->stopStrings, IsEmpty());
  EXPECT_THAT(errorOf({{"stop_strings", {"a", ""}}}),
              fails(CRIA_INVALID_ARGUMENT,
                    "g.json: 'stop_strings[1]' is \"\", expected a text"));
}

TEST(Generation, RefusesWhatItDoesNotDo) {
  for (const char *text :
       {R"({"num_beams":4})", R"({"no_repeat_ngram_size":3})",
        R"({"typical_p":0.9})", R"({"suppress_tokens":[1]})",
        R"({"forced_eos_token_id":2})", R"({"num_beams":2})",
        R"({"guidance_scale":1.5})", R"({"surprise":1})"})
    EXPECT_THAT(errorOf(json::parse(text)),
                fails(CRIA_UNIMPLEMENTED, "g.json: '"))
        << text;
  EXPECT_THAT(errorOf({{"num_beams", 4}}),
              fails(CRIA_UNIMPLEMENTED, "'num_beams' is 4, which is not"));
}

TEST(Generation, PassesOverWhatTheUserAllows) {
  json document = {{"surprise", 1}, {"num_beams", 4}, {"top_k", 7}};
  auto one = Generation::parse(document, "g.json", {"surprise", "num_beams"});
  ASSERT_TRUE(one.ok()) << one.status().message();
  EXPECT_THAT(one->irrelevant, ElementsAre("num_beams", "surprise"));
  EXPECT_EQ(one->options.topK, 7);
  EXPECT_THAT(errorOf(document),
              fails(CRIA_UNIMPLEMENTED, "'num_beams' is 4, which is not"));
  EXPECT_THAT(errorOf({{"surprise", 1}}),
              fails(CRIA_UNIMPLEMENTED, "'surprise' is an unknown key"));
  EXPECT_TRUE(errorOf({{"surprise", nullptr}}).ok());
}

TEST(Generation, KnowsEachKeyOnce) {
  std::string last;
  for (const GenerationKey &key : GenerationKeys())
    EXPECT_LT(std::exchange(last, key.name), key.name);
}

TEST(Generation, TakesNeutralValues) {
  parsed(R"({"num_beams":1,"typical_p":1.0,"suppress_tokens":[],
    "forced_eos_token_id":null,"renormalize_logits":true,"num_beams":1,"low_memory":true,
    "remove_invalid_values":true,"use_mtp":true,"stop_strings":[],"top_k":0,
    "no_repeat_ngram_size":0,"length_penalty":2.0,"use_cache":true})");
}

TEST(Generation, RefusesValuesOutOfRange) {
  for (const char *text : {R"({"temperature":-1})",
                           R"({"temperature":"0.6"})",
                           R"({"top_k":-1})",
                           R"({"top_k":2.5})",
                           R"({"top_p":2})",
                           R"({"min_p":-0.1})",
                           R"({"repetition_penalty":0})",
                           R"({"eos_token_id":-2})",
                           R"({"eos_token_id":18446744073709551615})",
                           R"({"bos_token_id":-2})",
                           R"({"stop_strings":""})",
                           R"({"stop_strings":[1]})",
                           R"({"stop_strings":"a\u0000"})",
                           R"({"bos_token_id":[1]})",
                           R"({"pad_token_id":"x"})",
                           R"({"decoder_start_token_id":1.5})",
                           R"({"eos_token_id":[1,-2]})",
                           R"({"eos_token_id":[1,"2"]})",
                           R"({"do_sample":1})",
                           R"({"max_new_tokens":-1})",
                           R"([])"})
    EXPECT_THAT(errorOf(json::parse(text)),
                fails(CRIA_INVALID_ARGUMENT, "g.json: "))
        << text;
}

// transformers' classes write -1 where a model has no such token.
TEST(Generation, TakesMinusOneForNoId) {
  Generation one = parsed(R"({"bos_token_id":-1,"eos_token_id":[-1,7],
    "pad_token_id":-1,"decoder_start_token_id":-1})");
  EXPECT_EQ(one.bos, std::nullopt);
  EXPECT_THAT(one.eos, ElementsAre(7));
  EXPECT_TRUE(one.fits(8).ok());
  EXPECT_THAT(
      one.warnings,
      ElementsAre(
          "g.json: 'bos_token_id' is -1, which is no id: read as null",
          "g.json: 'decoder_start_token_id' is -1, which is no id: read as "
          "null",
          "g.json: 'eos_token_id[0]' is -1, which is no id: read as null",
          "g.json: 'pad_token_id' is -1, which is no id: read as null"));
  Generation config;
  EXPECT_TRUE(config.complete({{"eos_token_id", -1}}, "c.json").ok());
  EXPECT_THAT(config.eos, IsEmpty());
  EXPECT_THAT(
      config.warnings,
      ElementsAre(
          "c.json: 'eos_token_id' is -1, which is no id: read as null"));
}

TEST(Generation, TakesMissingIdsFromTheConfig) {
  TemporaryFolder folder;
  folder.write("config.json", R"({"bos_token_id":1,"eos_token_id":2})");
  auto without = Generation::load(folder.path());
  ASSERT_TRUE(without.ok());
  EXPECT_EQ(without->bos, 1);
  EXPECT_THAT(without->eos, ElementsAre(2));
  folder.write("generation_config.json", R"({"eos_token_id":[3,4]})");
  auto with = Generation::load(folder.path());
  ASSERT_TRUE(with.ok());
  EXPECT_EQ(with->bos, 1);
  EXPECT_THAT(with->eos, ElementsAre(3, 4));
  folder.write("generation_config.json", "{");
  EXPECT_THAT(Generation::load(folder.path()).status(),
              fails(CRIA_INVALID_ARGUMENT, "generation_config.json: at byte"));
}

TEST(Generation, ChecksThatItsIdsFitTheModel) {
  Generation one = parsed(R"({"bos_token_id":1,"eos_token_id":[2,9]})");
  EXPECT_TRUE(one.fits(10).ok());
  EXPECT_THAT(one.fits(9),
              fails(CRIA_INVALID_ARGUMENT, "eos_token_id has 9, expected less "
                                           "than the model's vocab_size 9"));
  EXPECT_THAT(one.fits(1), fails(CRIA_INVALID_ARGUMENT, "bos_token_id is 1"));
  // Nothing reads these.
  for (const char *key : {"pad_token_id", "decoder_start_token_id"})
    for (double id : {9., -2.}) {
      auto other = Generation::parse({{key, id}}, "g.json");
      ASSERT_TRUE(other.ok());
      EXPECT_TRUE(other->fits(9).ok());
    }
}
