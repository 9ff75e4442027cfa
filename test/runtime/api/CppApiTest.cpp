// cria.hpp and cria_text.hpp: what they add to the functions of the C API.
#include "runtime/cria_text.hpp"

#include "test/runtime/Fixtures.h"

#include <gtest/gtest.h>

#include <fcntl.h>
#include <unistd.h>
#include <utility>

using namespace cria::test;
using testing::ElementsAre;
using testing::HasSubstr;

namespace {

class CppApiTest : public testing::Test {
protected:
  void SetUp() override {
    folder.write("model.safetensors", safetensorsOf(adaptedTensors()));
    path = folder.write("x.cria", artifactOf(withAdapters(fakeManifest())));
  }
  /// The message of the error of that status that `body` throws.
  template <typename Body> std::string thrown(cria_status status, Body body) {
    try {
      body();
    } catch (const cria::Error &error) {
      EXPECT_EQ(error.status(), status) << error.what();
      return error.what();
    }
    ADD_FAILURE() << "nothing was thrown";
    return "";
  }

  TemporaryFolder folder;
  std::string path;
  std::vector<int32_t> ids = {1, 0, 4};
};

} // namespace

TEST_F(CppApiTest, FeedsAndDraws) {
  cria::Artifact artifact(path);
  cria::Model model(artifact, folder.path());
  cria::Session session(model, 1);
  cria_lora lora = cria::make<cria_lora>();
  std::string adapter = writeAdapter(folder, "adapter", {1, 2, 2, 3});
  lora.folder = adapter.c_str();
  lora.scale = 1;
  cria::LoraSet set(model, {lora});
  session.setLora(&set);
  std::vector<float> rows = session.feedRows(ids, {0, 2}, 5), all(15);
  session.rewind(0);
  session.feed(ids, CRIA_LOGITS_ALL, all);
  expectNear(all, fakeLogits(ids));
  EXPECT_EQ(std::vector<float>(rows.begin() + 5, rows.end()),
            std::vector<float>(all.begin() + 10, all.end()));
  EXPECT_EQ(session.timings().prefill_tokens, 6);
  cria::Session other = std::move(session);
  other.setLora(nullptr);
  cria::Sampler sampler(cria::make<cria_sampler_options>(), 5);
  sampler.allow({0x4});
  EXPECT_EQ(other.draw({1}, sampler), 2);
  other.cancel();
  other.resume();
  other.feedEmbeddings({0, 1, 2, 3}, 2);
  EXPECT_EQ(other.position(), 6);
  EXPECT_EQ(thrown(CRIA_OUT_OF_RANGE, [&] { other.rewind(7); }),
            "position 7, expected 0 to 6");
  other.rewind(0);
  std::vector<float> states(4);
  cria_outputs outputs = cria::make<cria_outputs>();
  outputs.hidden_of = CRIA_LOGITS_ALL;
  outputs.hidden = states.data();
  outputs.hidden_capacity = states.size() - 1;
  EXPECT_EQ(thrown(CRIA_INVALID_ARGUMENT,
                   [&] {
                     other.feedEmbeddings({6, 7, 2, 3}, 2, outputs);
                   }),
            "the capacity of hidden is 3 floats, expected 2 x 2");
  outputs.hidden_capacity = states.size();
  other.setLora(&set);
  other.feedEmbeddings({6, 7, 2, 3}, 2, outputs);
  expectNear(states, fakeHidden({3, 1}));
}

TEST_F(CppApiTest, OpensAndInspects) {
  int descriptor = open(path.c_str(), O_RDONLY);
  cria::Artifact artifact(descriptor);
  close(descriptor);
  cria_artifact_info info = cria::make<cria_artifact_info>();
  EXPECT_EQ(cria::Artifact::inspect(path, &info), artifact.manifest());
  EXPECT_EQ(info.vocab_size, 5);
  EXPECT_THAT(cria::Model::check(artifact, folder.path()), HasSubstr("memory"));
  folder.write("model.safetensors", safetensorsOf(fakeTensors()));
  EXPECT_THAT(thrown(CRIA_FAILED_PRECONDITION,
                     [&] { cria::Model::check(artifact, folder.path()); }),
              HasSubstr("does not fit the artifact"));
  EXPECT_GT(cria::Model(artifact, uint64_t{3}).info().copied_bytes, 0u);
  EXPECT_EQ(cria::deviceCount(CRIA_DEVICE_CPU), 1);
  EXPECT_GT(cria::deviceInfo(CRIA_DEVICE_CPU, 0).memory_bytes, 0u);
  EXPECT_NEAR(cria::logProbabilities({0, 0}, {1})[0], -0.693147, 1e-6);
}

TEST_F(CppApiTest, ReadsAndWritesText) {
  std::string file = folder.write("tokenizer.json", R"({
    "model": {"type": "BPE", "byte_fallback": false, "unk_token": null,
              "vocab": {"a": 0, "b": 1, "ab": 2}, "merges": ["a b"]},
    "added_tokens": [], "normalizer": null, "pre_tokenizer": null,
    "post_processor": null, "decoder": null})");
  cria::Tokenizer tokenizer(file);
  EXPECT_THAT(tokenizer.encode("abb"), ElementsAre(2, 1));
  EXPECT_THAT(tokenizer.encodeText("abb"), ElementsAre(2, 1));
  EXPECT_EQ(tokenizer.decode({2, 1}), "ab b"); // no decoder joins them
  EXPECT_EQ(tokenizer.token(tokenizer.find("ab")), "ab");
  cria::Matcher matcher(
      cria::Grammar(tokenizer, CRIA_GRAMMAR_REGEX, " a b", {2}));
  EXPECT_THAT(matcher.mask(3), ElementsAre(1));
  cria::Matcher copy = matcher.copy();
  copy.accept(0);
  copy.accept(1);
  EXPECT_TRUE(copy.complete() && copy.finished());
  EXPECT_FALSE(matcher.complete() || matcher.finished());
  cria::Chat chat = cria::Chat::parse("{{ messages[0].content }}b");
  std::string variables = R"({"messages": [{"role": "user", "content": "a"}]})";
  EXPECT_EQ(chat.render(variables), "ab");
  EXPECT_EQ(tokenizer.decode(chat.encode(tokenizer, variables)), "ab");
  folder.write("generation_config.json",
               R"({"bos_token_id": 1, "eos_token_id": [2, 0],
                   "max_new_tokens": 9, "stop_strings": "b b"})");
  cria::Generation generation(folder.path());
  EXPECT_EQ(generation.begin(), 1);
  EXPECT_THAT(generation.endIds(), ElementsAre(2, 0));
  EXPECT_EQ(generation.limits().max_new_tokens, 9);
  EXPECT_TRUE(generation.ends(2));
  EXPECT_EQ(generation.options().temperature, 0);
  cria::Stream stream(tokenizer);
  stream.setStopStrings(generation.stopStrings(), {0});
  EXPECT_EQ(stream.push(2), "");
  EXPECT_FALSE(stream.stopped());
  EXPECT_EQ(stream.push(1), "a");
  EXPECT_TRUE(stream.stopped());
}
