#include "runtime/gguf/Files.h"

#include "lowering/import/gguf/Config.h"
#include "runtime/text/gguf/Text.h"
#include "runtime/weights/Checkpoint.h"
#include "runtime/weights/gguf/Order.h"
#include "test/runtime/Fixtures.h"

#include <gtest/gtest.h>

#include <cmath>

using namespace cria;
using namespace cria::test;
using namespace cria::gguf;

namespace {

template <typename T> std::string raw(T value) {
  return std::string(reinterpret_cast<const char *>(&value), sizeof(value));
}

std::string text(const std::string &value) {
  return raw<uint64_t>(value.size()) + value;
}

std::string key(const std::string &name, ValueType type,
                const std::string &payload) {
  return text(name) + raw(type) + payload;
}

std::string number(const std::string &name, uint32_t value) {
  return key(name, ValueType::U32, raw(value));
}

std::string string(const std::string &name, const std::string &value) {
  return key(name, ValueType::String, text(value));
}

std::string array(const std::string &name, ValueType element, uint64_t count,
                  const std::string &payload) {
  return key(name, ValueType::Array, raw(element) + raw(count) + payload);
}

/// A tensor info; dimensions as the format has them, the fastest first.
std::string info(const std::string &name, const std::vector<uint64_t> &shape,
                 uint32_t type, uint64_t offset) {
  std::string bytes = text(name) + raw<uint32_t>(shape.size());
  for (uint64_t size : shape)
    bytes += raw(size);
  return bytes + raw(type) + raw(offset);
}

/// A file of keys and tensor infos, and `data` after the padding.
std::string fileOf(const std::vector<std::string> &keys,
                   const std::vector<std::string> &infos = {},
                   size_t data = 0) {
  std::string bytes = "GGUF" + raw<uint32_t>(3) + raw<uint64_t>(infos.size()) +
                      raw<uint64_t>(keys.size());
  for (const auto *parts : {&keys, &infos})
    for (const std::string &part : *parts)
      bytes += part;
  if (data)
    bytes.resize((bytes.size() + 31) / 32 * 32 + data);
  return bytes;
}

/// The least keys that a config needs.
std::vector<std::string> keysOf(const std::string &name) {
  return {string("general.architecture", name),
          number(name + ".attention.head_count", 2),
          key(name + ".attention.layer_norm_rms_epsilon", ValueType::F32,
              raw(1e-5f)),
          number(name + ".block_count", name == "llama" ? 1 : 2),
          number(name + ".context_length", 16),
          number(name + ".embedding_length", 8),
          number(name + ".feed_forward_length", 8)};
}

std::vector<std::string> llamaKeys() { return keysOf("llama"); }

std::vector<std::string> with(std::vector<std::string> keys,
                              const std::string &more) {
  keys.push_back(more);
  return keys;
}

const std::string embedding = info("token_embd.weight", {8, 4}, 0, 0);

class GgufTest : public testing::Test {
protected:
  Status open(const std::string &bytes) {
    return openFiles(folder.write("x.gguf", bytes)).status();
  }
  Status openKeys(const std::vector<std::string> &keys) {
    return open(fileOf(keys));
  }
  Status openTensor(const std::string &tensor, size_t data) {
    return open(fileOf({}, {tensor}, data));
  }
  Result<Config> config(const std::vector<std::string> &keys,
                        const std::vector<std::string> &allowed = {}) {
    return readConfig(folder.write("x.gguf", fileOf(keys, {embedding}, 128)),
                      allowed);
  }
  Status tokenizer(const std::vector<std::string> &keys) {
    return readTokenizer(folder.write("x.gguf", fileOf(keys))).status();
  }

  TemporaryFolder folder;
};

/// Three tokens, and what makes them a tokenizer of GPT-2's kind.
std::vector<std::string> tokenizerKeys() {
  return {string("tokenizer.ggml.model", "gpt2"),
          string("tokenizer.ggml.pre", "gpt-2"),
          array("tokenizer.ggml.tokens", ValueType::String, 3,
                text("a") + text("b") + text("ab")),
          array("tokenizer.ggml.merges", ValueType::String, 1, text("a b"))};
}

} // namespace

// 600 tokens of one letter have 180,000 merges, which would take 130 MB.
TEST_F(GgufTest, BoundsTheMemoryOfMerges) {
  std::string tokens, scores;
  for (size_t length = 1; length <= 600; ++length) {
    tokens += text(std::string(length, 'a'));
    scores += raw(-static_cast<float>(length));
  }
  Status status =
      tokenizer({string("tokenizer.ggml.model", "llama"),
                 array("tokenizer.ggml.tokens", ValueType::String, 600, tokens),
                 array("tokenizer.ggml.scores", ValueType::F32, 600, scores)});
  EXPECT_THAT(status,
              fails(CRIA_INVALID_ARGUMENT, "too many for their number"));
}

// Tokens and merges are refused before the JSON that they stand for is made.
TEST_F(GgufTest, BoundsTheMemoryOfTokens) {
  std::vector<std::string> keys = tokenizerKeys();
  constexpr uint64_t merges = 7'000'000;
  keys.back() = array("tokenizer.ggml.merges", ValueType::String, merges,
                      std::string(merges * sizeof(uint64_t), '\0'));
  EXPECT_THAT(tokenizer(keys),
              fails(CRIA_INVALID_ARGUMENT,
                    "has 3 tokens and 7000000 merges that take 534 MiB, "
                    "expected at most 320"));
}

TEST_F(GgufTest, ReadsValuesOfAllTypes) {
  std::string path = folder.write(
      "x.gguf",
      fileOf({key("u8", ValueType::U8, "\xff"),
              key("i8", ValueType::I8, "\xff"),
              key("i64", ValueType::I64, raw<int64_t>(-5)),
              key("u64", ValueType::U64, raw(UINT64_MAX)),
              key("f32", ValueType::F32, raw(1e-5f)),
              key("f64", ValueType::F64, raw(0.25)),
              key("flag", ValueType::Bool, "\1"), string("text", "hi"),
              array("list", ValueType::U16, 2,
                    raw<uint16_t>(7) + raw<uint16_t>(8)),
              array("texts", ValueType::String, 2, text("a") + text(""))}));
  auto parts = openFiles(path);
  ASSERT_TRUE(parts.ok()) << parts.status().message();
  const Header &header = parts->front().header;
  EXPECT_EQ(header.find("u8")->integer(), 255);
  EXPECT_EQ(header.find("i8")->integer(), -1);
  EXPECT_EQ(header.find("i64")->integer(), -5);
  EXPECT_EQ(header.find("u64")->integer(), std::nullopt);
  EXPECT_EQ(header.find("f32")->number(), 1e-5);
  EXPECT_EQ(header.find("f64")->number(), 0.25);
  EXPECT_EQ(header.find("flag")->boolean(), true);
  EXPECT_EQ(header.find("text")->text(), "hi");
  EXPECT_EQ(header.find("list")->integers(), (std::vector<int64_t>{7, 8}));
  EXPECT_EQ(header.find("texts")->texts(),
            (std::vector<std::string_view>{"a", ""}));
  EXPECT_EQ(header.find("text")->integer(), std::nullopt);
  EXPECT_EQ(header.find("texts")->integers(), std::nullopt);
}

TEST_F(GgufTest, ReversesDimensions) {
  auto parts = openFiles(
      folder.write("x.gguf", fileOf({}, {info("t", {32, 3}, 8, 0)}, 102)));
  ASSERT_TRUE(parts.ok()) << parts.status().message();
  const TensorInfo &tensor = parts->front().header.tensors().front();
  EXPECT_EQ(tensor.shape, (std::vector<uint64_t>{3, 32}));
  EXPECT_EQ(tensor.end - tensor.begin, 102u); // three blocks of Q8_0
  EXPECT_EQ(tensor.begin % 32, 0u);
}

TEST_F(GgufTest, RejectsWhatIsNoGguf) {
  EXPECT_THAT(open(""), fails(CRIA_INVALID_ARGUMENT, "has 0 bytes"));
  EXPECT_THAT(
      open(std::string(24, 'x')),
      fails(CRIA_INVALID_ARGUMENT, "is not a GGUF file: begins with 'xxxx'"));
  EXPECT_THAT(open("GGUF" + raw<uint32_t>(1) + std::string(16, 0)),
              fails(CRIA_INCOMPATIBLE, "is of version 1 of GGUF"));
  EXPECT_THAT(open("GGUF" + raw<uint32_t>(3 << 24) + std::string(16, 0)),
              fails(CRIA_UNIMPLEMENTED, "is big-endian"));
}

TEST_F(GgufTest, RejectsTruncationAtEveryByte) {
  std::string whole =
      fileOf(with(llamaKeys(),
                  array("list", ValueType::String, 2, text("a") + text("bc"))),
             {embedding}, 128);
  ASSERT_TRUE(open(whole).ok());
  for (size_t size = 0; size < whole.size(); ++size) {
    Status status = open(whole.substr(0, size));
    ASSERT_TRUE(status.code() == CRIA_DATA_LOSS ||
                (size < 24 && status.code() == CRIA_INVALID_ARGUMENT))
        << size << ": " << status.message();
  }
}

TEST_F(GgufTest, BoundsWhatIsCountedBeforeMemoryIsTaken) {
  auto counts = [](uint64_t tensors, uint64_t keys) {
    return "GGUF" + raw<uint32_t>(3) + raw(tensors) + raw(keys);
  };
  EXPECT_THAT(open(counts(UINT64_MAX, 0)),
              fails(CRIA_INVALID_ARGUMENT, "has 18446744073709551615 tensors"));
  EXPECT_THAT(open(counts(0, UINT64_MAX)),
              fails(CRIA_INVALID_ARGUMENT, "has 18446744073709551615 keys"));
  EXPECT_THAT(open(counts(0, 1) + raw(UINT64_MAX)),
              fails(CRIA_DATA_LOSS,
                    "ends within a key: expected 18446744073709551615 bytes"));
  EXPECT_THAT(openKeys({key("k", ValueType::String, raw(UINT64_MAX))}),
              fails(CRIA_DATA_LOSS, "ends within 'k'"));
  EXPECT_THAT(
      openKeys({array("k", ValueType::U64, UINT64_MAX, "")}),
      fails(CRIA_INVALID_ARGUMENT, "'k' has 18446744073709551615 elements"));
  EXPECT_THAT(openKeys({array("k", ValueType::U64, 1 << 20, "")}),
              fails(CRIA_DATA_LOSS, "expected 8388608 bytes"));
}

TEST_F(GgufTest, RejectsValuesThatAreNone) {
  EXPECT_THAT(
      openKeys({key("k", ValueType(13), "")}),
      fails(CRIA_INVALID_ARGUMENT, "'k' has type 13, expected 0 to 12"));
  EXPECT_THAT(openKeys({array("k", ValueType::Array, 0, "")}),
              fails(CRIA_INVALID_ARGUMENT, "'k' is an array of type 9"));
  EXPECT_THAT(openKeys({key("k", ValueType::Bool, "\2")}),
              fails(CRIA_INVALID_ARGUMENT, "'k' is a boolean of 2"));
}

TEST_F(GgufTest, RejectsNamesThatAreTwiceEmptyOrUnprintable) {
  EXPECT_THAT(openKeys({number("k", 1), number("k", 1)}),
              fails(CRIA_INVALID_ARGUMENT, "duplicate key 'k'"));
  EXPECT_THAT(
      open(fileOf({}, {info("t", {1}, 0, 0), info("t", {1}, 0, 32)}, 64)),
      fails(CRIA_INVALID_ARGUMENT, "duplicate tensor 't'"));
  EXPECT_THAT(openKeys({number("", 1)}),
              fails(CRIA_INVALID_ARGUMENT, "a key has 0 bytes"));
  EXPECT_THAT(openKeys({number(std::string(257, 'k'), 1)}),
              fails(CRIA_INVALID_ARGUMENT, "a key has 257 bytes"));
  EXPECT_THAT(openKeys({number("\x1b[2J", 1)}),
              fails(CRIA_INVALID_ARGUMENT, "expected printable UTF-8"));
}

TEST_F(GgufTest, RejectsTensorsThatAreNone) {
  EXPECT_THAT(openTensor(info("t", {}, 0, 0), 4),
              fails(CRIA_INVALID_ARGUMENT, "tensor 't' has 0 dimensions"));
  EXPECT_THAT(openTensor(info("t", {1, 1, 1, 1, 1}, 0, 0), 4),
              fails(CRIA_INVALID_ARGUMENT, "tensor 't' has 5 dimensions"));
  EXPECT_THAT(openTensor(info("t", {1}, 4, 0), 4),
              fails(CRIA_UNIMPLEMENTED, "tensor 't' is of type 4"));
  EXPECT_THAT(openTensor(info("t", {0}, 0, 0), 4),
              fails(CRIA_INVALID_ARGUMENT, "has a dimension of 0"));
  EXPECT_THAT(openTensor(info("t", {1ull << 32, 1ull << 32}, 0, 0), 4),
              fails(CRIA_INVALID_ARGUMENT, "more elements than 64 bits"));
  EXPECT_THAT(openTensor(info("t", {1ull << 62}, 0, 0), 4),
              fails(CRIA_INVALID_ARGUMENT, "more bytes than 64 bits"));
  EXPECT_THAT(openTensor(info("t", {33}, 8, 0), 64),
              fails(CRIA_INVALID_ARGUMENT,
                    "rows of 33 elements, expected a multiple of 32 for Q8_0"));
}

TEST_F(GgufTest, RejectsTensorsOutsideTheFileOrOverOneAnother) {
  EXPECT_THAT(openTensor(info("t", {2}, 0, 0), 4),
              fails(CRIA_DATA_LOSS, "tensor 't' ends at byte 8 of the tensors, "
                                    "file has 4"));
  EXPECT_THAT(openTensor(info("t", {1}, 0, UINT64_MAX - 31), 4),
              fails(CRIA_DATA_LOSS, "tensor 't' ends at byte"));
  EXPECT_THAT(openTensor(info("t", {8}, 0, UINT64_MAX - 31), 4),
              fails(CRIA_INVALID_ARGUMENT, "ends beyond 2^64 bytes"));
  EXPECT_THAT(openTensor(info("t", {1}, 0, 8), 64),
              fails(CRIA_INVALID_ARGUMENT,
                    "tensor 't' begins at 8, expected a multiple of 32"));
  EXPECT_THAT(
      open(fileOf({}, {info("a", {16}, 0, 0), info("b", {1}, 0, 32)}, 64)),
      fails(CRIA_INVALID_ARGUMENT, "tensors 'a' and 'b' overlap"));
}

TEST_F(GgufTest, RejectsAlignmentsThatAreNone) {
  for (uint32_t bad : {0u, 3u, 1u << 17})
    EXPECT_THAT(openKeys({number("general.alignment", bad)}),
                fails(CRIA_INVALID_ARGUMENT,
                      "'general.alignment' is " + std::to_string(bad)));
  EXPECT_THAT(openKeys({string("general.alignment", "x")}),
              fails(CRIA_INVALID_ARGUMENT, "expected a power of two"));
}

// ---- Parts ------------------------------------------------------------------

static std::string part(uint16_t index, uint16_t count, int32_t tensors) {
  std::vector<std::string> keys = {
      key("split.no", ValueType::U16, raw(index)),
      key("split.count", ValueType::U16, raw(count)),
      key("split.tensors.count", ValueType::I32, raw(tensors))};
  return fileOf(keys, {info("t" + std::to_string(index), {1}, 0, 0)}, 4);
}

TEST_F(GgufTest, OpensAllPartsByAnyOfThem) {
  folder.write("m-00001-of-00002.gguf", part(0, 2, 2));
  folder.write("m-00002-of-00002.gguf", part(1, 2, 2));
  for (const char *name : {"m-00001-of-00002.gguf", "m-00002-of-00002.gguf"}) {
    auto parts = openFiles(folder.path(name));
    ASSERT_TRUE(parts.ok()) << parts.status().message();
    ASSERT_EQ(parts->size(), 2u);
    EXPECT_EQ((*parts)[1].header.tensors()[0].name, "t1");
  }
}

TEST_F(GgufTest, RejectsPartsThatDoNotFitTogether) {
  auto openPart = [&](const std::string &name) {
    return openFiles(folder.path(name)).status();
  };
  folder.write("a-00001-of-00002.gguf", part(0, 2, 2));
  EXPECT_THAT(openPart("a-00001-of-00002.gguf"),
              fails(CRIA_NOT_FOUND, "a-00002-of-00002.gguf: cannot open"));
  folder.write("a-00002-of-00002.gguf", part(0, 2, 2));
  EXPECT_THAT(
      openPart("a-00001-of-00002.gguf"),
      fails(CRIA_INVALID_ARGUMENT, "is part 1 of 2, expected part 2 of 2"));
  folder.write("a-00002-of-00002.gguf", part(1, 2, 2));
  folder.write("a-00001-of-00002.gguf", part(0, 2, 3));
  EXPECT_THAT(openPart("a-00001-of-00002.gguf"),
              fails(CRIA_INVALID_ARGUMENT,
                    "'split.tensors.count' is 3, the parts have 2"));
  EXPECT_THAT(open(part(0, 2, 2)),
              fails(CRIA_INVALID_ARGUMENT,
                    "expected a name that ends in -00001-of-00002.gguf"));
  EXPECT_THAT(open(part(7, 2, 2)),
              fails(CRIA_INVALID_ARGUMENT, "'split.no' is 7, expected 0 to 1"));
}

// ---- The config -------------------------------------------------------------

TEST_F(GgufTest, MakesAConfig) {
  auto made = config(llamaKeys());
  ASSERT_TRUE(made.ok()) << made.status().message();
  auto json = nlohmann::json::parse(made->json);
  EXPECT_EQ(json["model_type"], "llama");
  EXPECT_EQ(json["vocab_size"], 4);
  EXPECT_EQ(json["num_key_value_heads"], 2);
  EXPECT_EQ(json["head_dim"], 4);
  EXPECT_EQ(json["rms_norm_eps"], 1e-5);
  EXPECT_EQ(json["tie_word_embeddings"], true);
}

TEST_F(GgufTest, KnowsExperts) {
  auto json = [&](const std::vector<std::string> &keys) {
    auto made = config(keys);
    return made.ok() ? nlohmann::json::parse(made->json)
                     : nlohmann::json(std::string(made.status().message()));
  };
  auto mixtral = json(with(llamaKeys(), number("llama.expert_count", 4)));
  EXPECT_EQ(mixtral["model_type"], "mixtral");
  EXPECT_EQ(mixtral["num_local_experts"], 4);
  auto dense = json(with(llamaKeys(), number("llama.expert_count", 0)));
  EXPECT_EQ(dense["model_type"], "llama");
  EXPECT_FALSE(dense.contains("num_local_experts"));
  std::vector<std::string> keys =
      with(keysOf("glm4moe"), number("glm4moe.nextn_predict_layers", 1));
  auto glm = json(keys);
  EXPECT_EQ(glm["num_hidden_layers"], 1);
  EXPECT_EQ(glm["norm_topk_prob"], false);
  EXPECT_THAT(
      config(with(keys, number("glm4moe.expert_gating_func", 1))).status(),
      fails(CRIA_UNIMPLEMENTED, "gating_func' is 1, expected 2"));
  EXPECT_THAT(
      config(with(keys, number("glm4moe.expert_weights_norm", 1))).status(),
      fails(CRIA_INVALID_ARGUMENT, "weights_norm' is 1, expected true or"));
  // The tensors of the layer that predicts a token more are left out.
  std::string bytes = fileOf(keys,
                             {info("blk.0.exp_probs_b.bias", {8}, 0, 0),
                              info("blk.1.attn_norm.weight", {8}, 0, 32)},
                             64);
  auto checkpoint = Checkpoint::open(folder.write("x.gguf", bytes));
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.status().message();
  EXPECT_EQ(checkpoint->tensors().size(), 1u);
  EXPECT_TRUE(
      checkpoint->find("model.layers.0.mlp.gate.e_score_correction_bias"));
}

TEST_F(GgufTest, KnowsLayerNormsAndPatternsOfWindows) {
  std::vector<std::string> keys = keysOf("exaone4");
  auto pattern = [&](const std::string &flags) {
    return config(with(keys, array("exaone4.attention.sliding_window_pattern",
                                   ValueType::Bool, flags.size(), flags)))
        .status();
  };
  EXPECT_TRUE(pattern({1, 1, 1, 0, 1}).ok());
  EXPECT_THAT(pattern({1, 0}), fails(CRIA_UNIMPLEMENTED,
                                     "sliding_window_pattern' is [true, false]"
                                     ", expected each fourth layer without"));
  EXPECT_THAT(config(keysOf("jais2")).status(),
              fails(CRIA_INVALID_ARGUMENT,
                    "'jais2.attention.layer_norm_epsilon' is missing"));
}

// Also embedding models have `pooling_type`.
TEST_F(GgufTest, KnowsTheKeysOfOllama) {
  std::vector<std::string> keys = llamaKeys();
  for (const std::string &each :
       {number("general.parameter_count", 12), number("llama.pooling_type", 3),
        number("llama.attention.head_dim", 4),
        key("llama.attention.layer_norm_epsilon", ValueType::F32, raw(1e-5f)),
        // A whole number may be a float.
        key("llama.attention.value_length", ValueType::F32, raw(4.f))})
    keys.push_back(each);
  auto made = config(keys);
  ASSERT_TRUE(made.ok()) << made.status().message();
  EXPECT_EQ(nlohmann::json::parse(made->json)["head_dim"], 4);
  EXPECT_THAT(
      config(with(keys, number("llama.attention.key_length", 2))).status(),
      fails(CRIA_UNIMPLEMENTED, "value_length' is 4, expected 2"));
  keys.back() = key("llama.attention.value_length", ValueType::F32, raw(4.5f));
  EXPECT_THAT(config(keys).status(),
              fails(CRIA_INVALID_ARGUMENT, "is 4.5, expected a size"));
}

TEST_F(GgufTest, RefusesWhatItDoesNotKnowByName) {
  EXPECT_THAT(config({string("general.architecture", "mamba")}).status(),
              fails(CRIA_UNIMPLEMENTED,
                    "'general.architecture' is \"mamba\", expected arcee, "));
  EXPECT_THAT(config({}).status(), fails(CRIA_INVALID_ARGUMENT,
                                         "'general.architecture' is missing"));
  std::vector<std::string> odd = with(llamaKeys(), number("llama.odd", 1));
  EXPECT_THAT(config(odd).status(),
              fails(CRIA_UNIMPLEMENTED,
                    "'llama.odd': unknown key, got 1; an unknown key is never "
                    "ignored, but --allow-unknown=llama.odd lets it pass"));
  EXPECT_TRUE(config(odd, {"llama.odd"}).ok());
  EXPECT_THAT(
      config(with(keysOf("qwen2"), number("qwen2.expert_count", 8))).status(),
      fails(CRIA_UNIMPLEMENTED, "'qwen2.expert_count' is 8, expected 0"));
  EXPECT_THAT(
      config(with(llamaKeys(), number("llama.attention.value_length", 2)))
          .status(),
      fails(CRIA_UNIMPLEMENTED,
            "'llama.attention.value_length' is 2, expected 4"));
  EXPECT_THAT(config(with(llamaKeys(), string("llama.rope.scaling.type", "su")))
                  .status(),
              fails(CRIA_UNIMPLEMENTED, "'llama.rope.scaling.type' is \"su\""));
  EXPECT_THAT(
      config(with(llamaKeys(), string("general.type", "adapter"))).status(),
      fails(CRIA_UNIMPLEMENTED, "'general.type' is \"adapter\""));
  std::string tensor = info("blk.0.attn_sinks.weight", {8}, 0, 128);
  EXPECT_THAT(
      readConfig(
          folder.write("x.gguf", fileOf(llamaKeys(), {embedding, tensor}, 160)),
          {})
          .status(),
      fails(CRIA_UNIMPLEMENTED,
            "tensor 'blk.0.attn_sinks.weight' is unknown for llama"));
}

TEST_F(GgufTest, SaysWhatIsMissingOrOfAnotherType) {
  std::vector<std::string> keys = llamaKeys();
  keys.erase(keys.begin() + 3);
  EXPECT_THAT(config(keys).status(),
              fails(CRIA_INVALID_ARGUMENT, "'llama.block_count' is missing"));
  EXPECT_THAT(config(with(keys, string("llama.block_count", "1"))).status(),
              fails(CRIA_UNIMPLEMENTED,
                    "'llama.block_count' is \"1\", expected a number"));
  EXPECT_THAT(
      config(with(keys, key("llama.block_count", ValueType::F32, raw(1.5f))))
          .status(),
      fails(CRIA_INVALID_ARGUMENT, "expected a whole number"));
  EXPECT_THAT(config(with(llamaKeys(), number("llama.vocab_size", 5))).status(),
              fails(CRIA_INVALID_ARGUMENT,
                    "'llama.vocab_size' is 5, but 'token_embd.weight' has 4"));
  EXPECT_THAT(
      readConfig(folder.write("x.gguf", fileOf(llamaKeys())), {}).status(),
      fails(CRIA_INVALID_ARGUMENT, "tensor 'token_embd.weight' is missing"));
}

// ---- Tensors ----------------------------------------------------------------

TEST_F(GgufTest, PutsInterleavedRowsInOrder) {
  std::string data = bytesOf<float>({0, 1, 4, 5, 2, 3, 6, 7});
  std::string bytes =
      fileOf(llamaKeys(), {info("blk.0.attn_q.weight", {2, 4}, 0, 0)}, 32);
  auto checkpoint = Checkpoint::open(folder.write("x.gguf", bytes));
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.status().message();
  const Checkpoint::Tensor *place =
      checkpoint->find("model.layers.0.self_attn.q_proj.weight");
  ASSERT_TRUE(place);
  EXPECT_TRUE(place->tensor->decorate); // for two heads of two rows
  // One head of four rows: 0, 2, 1, 3.
  auto file = File::open(folder.write("data", data));
  ASSERT_TRUE(file.ok());
  ElementsPtr x = stored(*file, 0, DType::F32);
  EXPECT_TRUE(x->inPlace(DType::F32));
  x = gguf::interleaved(std::move(x), 4, 2);
  EXPECT_FALSE(x->inPlace(DType::F32));
  std::vector<float> found(8);
  ASSERT_TRUE(x->write(1, 7, DType::F32,
                       reinterpret_cast<std::byte *>(found.data() + 1))
                  .ok());
  EXPECT_EQ(found, (std::vector<float>{0, 1, 2, 3, 4, 5, 6, 7}));
}

TEST_F(GgufTest, TakesOneOffTheNormsOfGemma) {
  auto file = File::open(folder.write("data", bytesOf<float>({1, 1.5, 0.25})));
  ASSERT_TRUE(file.ok());
  std::vector<float> found(3);
  ASSERT_TRUE(
      gguf::minusOne(stored(*file, 0, DType::F32))
          ->write(0, 3, DType::F32, reinterpret_cast<std::byte *>(found.data()))
          .ok());
  EXPECT_EQ(found, (std::vector<float>{0, 0.5, -0.75}));
}

TEST_F(GgufTest, PutsHeadsOfValuesInGroups) {
  // Two groups of three parts of two elements; two elements in front, or none.
  auto file = File::open(folder.write(
      "data", bytesOf<float>({-2, -1, 0, 1, 6, 7, 2, 3, 8, 9, 4, 5, 10, 11})));
  ASSERT_TRUE(file.ok());
  auto read = [&](uint64_t begin, uint64_t first, uint64_t block) {
    std::vector<float> found(11);
    EXPECT_TRUE(gguf::inGroups(stored(*file, begin * sizeof(float), DType::F32),
                               {first, 2, 2, 3}, block)
                    ->write(first + 1, 11, DType::F32,
                            reinterpret_cast<std::byte *>(found.data()))
                    .ok());
    return found;
  };
  std::vector<float> expected{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11};
  EXPECT_EQ(read(0, 2, 1), expected);
  EXPECT_EQ(read(2, 0, 1), expected);
  EXPECT_EQ(read(2, 0, 4), expected); // parts begin within blocks
}

TEST_F(GgufTest, TakesLogarithmsOfDecays) {
  auto file = File::open(folder.write("data", bytesOf<float>({-1, -4, -0.5})));
  ASSERT_TRUE(file.ok());
  std::vector<float> found(3);
  ASSERT_TRUE(
      gguf::logOfMinus(stored(*file, 0, DType::F32))
          ->write(0, 3, DType::F32, reinterpret_cast<std::byte *>(found.data()))
          .ok());
  EXPECT_EQ(found, (std::vector<float>{0, std::log(4.0f), std::log(0.5f)}));
}

TEST_F(GgufTest, RefusesHeadsThatDoNotDivideTheRows) {
  std::string bytes =
      fileOf(llamaKeys(), {info("blk.0.attn_q.weight", {2, 6}, 0, 0)}, 48);
  EXPECT_THAT(Checkpoint::open(folder.write("x.gguf", bytes)).status(),
              fails(CRIA_INVALID_ARGUMENT,
                    "'llama.attention.head_count' is 2, expected heads"));
  bytes =
      fileOf(llamaKeys(), {info("blk.0.attn_qkv.weight", {2, 7}, 0, 0)}, 56);
  EXPECT_THAT(Checkpoint::open(folder.write("x.gguf", bytes)).status(),
              fails(CRIA_INVALID_ARGUMENT,
                    "'llama.attention.head_count' is 2, expected heads"));
  bytes = fileOf(keysOf("gptneox"),
                 {info("blk.0.attn_qkv.weight", {2, 9}, 0, 0)}, 72);
  EXPECT_THAT(Checkpoint::open(folder.write("x.gguf", bytes)).status(),
              fails(CRIA_INVALID_ARGUMENT,
                    "'gptneox.attention.head_count' is 2, expected heads"));
}

TEST_F(GgufTest, RefusesLayersAndFactorsThatNoKeySays) {
  EXPECT_THAT(config(with(keysOf("nemotron_h"),
                          number("nemotron_h.attention.head_count_kv", 2)))
                  .status(),
              fails(CRIA_UNIMPLEMENTED,
                    "'nemotron_h.feed_forward_length' is 8, expected a number "
                    "for each layer"));
  std::vector<std::string> keys =
      with(keysOf("falcon-h1"), number("falcon-h1.ssm.inner_size", 4));
  EXPECT_THAT(
      config(with(keys, number("falcon-h1.ssm.time_step_rank", 2))).status(),
      fails(CRIA_UNIMPLEMENTED, "tensor 'output.weight' is missing, and"));
}

TEST_F(GgufTest, RefusesHeadsOfValuesThatATensorDoesNotHave) {
  auto openWith = [&](const std::string &tensor, uint32_t inner) {
    std::vector<std::string> keys = keysOf("qwen35");
    keys.push_back(number("qwen35.ssm.group_count", 3));
    keys.push_back(number("qwen35.ssm.time_step_rank", 6));
    keys.push_back(number("qwen35.ssm.inner_size", inner));
    std::string bytes =
        fileOf(keys, {info("blk.0." + tensor + ".weight", {2, 6}, 0, 0)}, 48);
    return Checkpoint::open(folder.write("x.gguf", bytes)).status();
  };
  EXPECT_TRUE(openWith("attn_gate", 6).ok());
  for (auto [tensor, inner] : {std::pair("attn_gate", 12u),
                               {"attn_gate", 1u << 24},
                               {"ssm_out", 12u}}) // heads of several rows
    EXPECT_THAT(
        openWith(tensor, inner),
        fails(CRIA_INVALID_ARGUMENT, "'qwen35.ssm' has heads that 'blk.0."))
        << tensor << ", " << inner;
}

// ---- Text -------------------------------------------------------------------

TEST_F(GgufTest, MakesATokenizer) {
  EXPECT_TRUE(tokenizer(tokenizerKeys()).ok());
  EXPECT_THAT(tokenizer({}), fails(CRIA_NOT_FOUND, "has no tokenizer"));
}

TEST_F(GgufTest, RefusesTokenizersThatItDoesNotKnow) {
  std::vector<std::string> keys = tokenizerKeys();
  keys[0] = string("tokenizer.ggml.model", "rwkv");
  EXPECT_THAT(tokenizer(keys),
              fails(CRIA_UNIMPLEMENTED, "'tokenizer.ggml.model' is \"rwkv\""));
  keys = tokenizerKeys();
  keys[1] = string("tokenizer.ggml.pre", "falcon");
  EXPECT_THAT(tokenizer(keys),
              fails(CRIA_UNIMPLEMENTED, "'tokenizer.ggml.pre' is \"falcon\""));
  EXPECT_THAT(tokenizer(with(tokenizerKeys(), number("tokenizer.ggml.odd", 1))),
              fails(CRIA_UNIMPLEMENTED, "'tokenizer.ggml.odd' is 1"));
}

TEST_F(GgufTest, RefusesTokensThatAreNone) {
  auto withTokens = [&](uint64_t count, const std::string &payload) {
    std::vector<std::string> keys = tokenizerKeys();
    keys[2] = array("tokenizer.ggml.tokens", ValueType::String, count, payload);
    return keys;
  };
  EXPECT_THAT(tokenizer(withTokens(2, text("a") + text("a"))),
              fails(CRIA_INVALID_ARGUMENT, "tokens 0 and 1 are both 'a'"));
  EXPECT_THAT(tokenizer(withTokens(1, text("\xff"))),
              fails(CRIA_INVALID_ARGUMENT, "token 0 is '\\xff'"));
  EXPECT_THAT(tokenizer(withTokens(0, "")),
              fails(CRIA_INVALID_ARGUMENT, "expected 1 to 2097152 strings"));
  EXPECT_THAT(
      tokenizer(with(tokenizerKeys(), array("tokenizer.ggml.token_type",
                                            ValueType::I32, 1, raw(1)))),
      fails(CRIA_INVALID_ARGUMENT, "expected a type for each of 3"));
  EXPECT_THAT(tokenizer(with(tokenizerKeys(),
                             array("tokenizer.ggml.token_type", ValueType::I32,
                                   3, raw(1) + raw(9) + raw(1)))),
              fails(CRIA_INVALID_ARGUMENT, "token 1 is of type 9"));
  EXPECT_THAT(
      tokenizer(with(with(tokenizerKeys(), key("tokenizer.ggml.add_bos_token",
                                               ValueType::Bool, "\1")),
                     number("tokenizer.ggml.bos_token_id", 3))),
      fails(CRIA_INVALID_ARGUMENT, "expected the id of one of the 3 tokens"));
}

TEST_F(GgufTest, FindsWhatEndsATurn) {
  std::vector<std::string> keys = {
      array("tokenizer.ggml.tokens", ValueType::String, 4,
            text("a") + text("</s>") + text("<|im_end|>") + text("<|end|>")),
      array("tokenizer.ggml.token_type", ValueType::I32, 4,
            raw(1) + raw(3) + raw(3) + raw(1)),
      number("tokenizer.ggml.bos_token_id", 0),
      number("tokenizer.ggml.eos_token_id", 1)};
  auto ids = readTextIds(folder.write("x.gguf", fileOf(keys)));
  ASSERT_TRUE(ids.ok()) << ids.status().message();
  EXPECT_EQ(ids->bos, 0);
  EXPECT_EQ(ids->eos, (std::vector<int64_t>{1, 2})); // <|end|> is plain text
  auto more = [&](int32_t id) {
    keys.resize(4);
    keys.push_back(array("tokenizer.ggml.eos_token_ids", ValueType::I32, 2,
                         raw<int32_t>(1) + raw(id)));
    return readTextIds(folder.write("x.gguf", fileOf(keys)));
  };
  ids = more(3); // as ollama writes them
  ASSERT_TRUE(ids.ok()) << ids.status().message();
  EXPECT_EQ(ids->eos, (std::vector<int64_t>{1, 2, 3}));
  ids = more(-1); // no id, as in config.json
  ASSERT_TRUE(ids.ok()) << ids.status().message();
  EXPECT_EQ(ids->eos, (std::vector<int64_t>{1, 2}));
  EXPECT_THAT(more(4).status(),
              fails(CRIA_INVALID_ARGUMENT, "'tokenizer.ggml.eos_token_ids' is "
                                           "[1, 4], expected the id of one of "
                                           "the 4 tokens"));
}

// Few templates read them, so ids may be out of range.
TEST_F(GgufTest, GivesATemplateTheTokensThatAreThere) {
  std::vector<std::string> keys = {
      array("tokenizer.ggml.tokens", ValueType::String, 2,
            text("a") + text("</s>")),
      string("tokenizer.chat_template", "{{ eos_token }}"),
      number("tokenizer.ggml.eos_token_id", 1),
      number("tokenizer.ggml.padding_token_id", 2)};
  auto found = readChatTemplate(folder.write("x.gguf", fileOf(keys)));
  ASSERT_TRUE(found.ok()) << found.status().message();
  ASSERT_EQ(found->tokens.size(), 1u);
  EXPECT_EQ(found->tokens[0].second, "</s>");
}
