/// The host runs out of memory, at every allocation in turn: loading, feeding,
/// drawing and text through the C API, which reports it and leaks nothing.
#include "runtime/cria_text.h"

#include "test/runtime/Allocations.h"
#include "test/runtime/Fixtures.h"

#include <gtest/gtest.h>

#include <cstdlib>

using namespace cria::test;

static constexpr char tokenizerJson[] =
    R"({"model": {"type": "BPE", "byte_fallback": false, "unk_token": null,)"
    R"("vocab": {"a": 0, "b": 1, "ab": 2, "c": 3, "<s>": 4},)"
    R"("merges": ["a b"]}, "added_tokens": [{"id": 4, "content": "<s>",)"
    R"("single_word": false, "lstrip": false, "rstrip": false,)"
    R"("normalized": false, "special": true}], "normalizer":)"
    R"({"type": "Replace", "pattern": {"String": "x"}, "content": "c"},)"
    R"("pre_tokenizer": {"type": "Split", "pattern": {"Regex": "c"},)"
    R"("behavior": "Isolated", "invert": false}, "post_processor": null,)"
    R"("decoder": {"type": "Fuse"}})";

namespace {

class HostMemoryTest : public testing::Test {
protected:
  void SetUp() override {
    CRIA_INIT(&error);
    artifactPath = folder.write("x.cria", artifactOf(fakeManifest()));
    folder.write("model.safetensors", safetensorsOf(fakeTensors()));
    folder.write("generation_config.json", R"({"top_k": 4, "top_p": 0.9})");
    folder.write("adapter_config.json",
                 R"({"peft_type": "LORA", "r": 1, "lora_alpha": 1,)"
                 R"("rank_pattern": {"e.*": 1}, "alpha_pattern": {"d": 2}})");
    folder.write("adapter_model.safetensors",
                 safetensorsOf({{"base_model.model.embed.lora_A.weight",
                                 "F32",
                                 {1, 2},
                                 bytesOf<float>({1, 2})},
                                {"base_model.model.embed.lora_B.weight",
                                 "F32",
                                 {5, 1},
                                 bytesOf<float>({1, 2, 3, 4, 5})}}));
    tokenizerPath = folder.write("tokenizer.json", tokenizerJson);
  }
  void TearDown() override { freeAll(); }

  void freeAll() {
    cria_artifact_free(&artifact);
    cria_model_free(&model);
    cria_session_free(&session);
    cria_tokenizer_free(&tokenizer);
    cria_stream_free(&stream);
    cria_generation_free(&generation);
    cria_sampler_free(&sampler);
    free(ids);
    free(text);
    ids = nullptr;
    text = nullptr;
  }

  cria_status loadText() {
    cria_sampler_options options;
    CRIA_INIT(&options);
    options.temperature = options.top_p = options.repetition_penalty = 1;
    if (cria_tokenizer_open(tokenizerPath.c_str(), &tokenizer, &error) ||
        cria_stream_create(tokenizer, 1, &stream, &error) ||
        cria_generation_open(folderPath.c_str(), &generation, &error) ||
        cria_generation_options(generation, &options, &error))
      return error.status;
    options.temperature = 0.5;
    return cria_sampler_create(&options, 5, &sampler, &error);
  }

  /// The model with an adapter, twice.
  cria_status loadModel() {
    cria_lora loras[2];
    for (cria_lora &lora : loras) {
      CRIA_INIT(&lora);
      lora.folder = folderPath.c_str();
      lora.scale = 0.5;
    }
    cria_model_options options;
    CRIA_INIT(&options);
    options.weights = folderPath.c_str();
    options.loras = loras;
    options.lora_count = 2;
    return cria_model_load(artifact, &options, &model, &error);
  }

  /// A text from load to end.
  cria_status run() {
    if (cria_artifact_open(artifactPath.c_str(), &artifact, &error) ||
        loadModel() || cria_session_create(model, nullptr, &session, &error) ||
        loadText() ||
        cria_tokenizer_encode(tokenizer, "abxa<s>", 7, 1, &ids, &count,
                              &error) ||
        cria_tokenizer_decode(tokenizer, ids, count, 1, &text, &error))
      return error.status;
    float logits[60], rows[2] = {1, 2};
    const char *part;
    if (cria_session_feed(session, ids, count, CRIA_LOGITS_ALL, logits, 60,
                          &error) ||
        cria_session_feed_embeddings(session, rows, 1, 2, &error) ||
        cria_session_draw(session, ids, 1, sampler, &drawn, &error) ||
        cria_stream_push(stream, drawn, &part, &error))
      return error.status;
    return cria_stream_finish(stream, &part, &error);
  }

  TemporaryFolder folder;
  std::string folderPath = folder.path(), artifactPath, tokenizerPath;
  cria_error error;
  cria_artifact *artifact = nullptr;
  cria_model *model = nullptr;
  cria_session *session = nullptr;
  cria_tokenizer *tokenizer = nullptr;
  cria_stream *stream = nullptr;
  cria_generation *generation = nullptr;
  cria_sampler *sampler = nullptr;
  int32_t *ids = nullptr;
  char *text = nullptr;
  size_t count = 0;
  int32_t drawn = -1;
};

} // namespace

TEST_F(HostMemoryTest, EveryAllocationMayFail) {
  if (!allocationsCanFail)
    GTEST_SKIP() << "ThreadSanitizer allocates";
  ASSERT_EQ(run(), CRIA_OK) << error.message;
  const std::string wanted = text;
  const int32_t wantedId = drawn;
  int64_t failures = 0;
  for (int64_t nth = 1;; ++nth) {
    freeAll();
    failAllocation(nth);
    cria_status status = run();
    failAllocation(0);
    if (status == CRIA_OK)
      break;
    ++failures;
    EXPECT_EQ(status, CRIA_RESOURCE_EXHAUSTED) << error.message;
    EXPECT_STREQ(error.message, "out of memory");
  }
  EXPECT_GT(failures, 500);
  EXPECT_EQ(text, wanted);
  EXPECT_EQ(drawn, wantedId);
}
