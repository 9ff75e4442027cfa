#include "lowering/import/Config.h"
#include "lowering/import/Ledger.h"

using namespace cria;
using nlohmann::json;

/// Bounds far beyond any Llama; their products fit 64 bits.
static constexpr int64_t maxFileSize = 16 << 20, maxDim = 1 << 20,
                         maxHeads = 1 << 14, maxHeadDim = 1 << 12,
                         maxLayers = 1 << 12, maxVocab = 1 << 24,
                         maxPositions = 1 << 24,
                         maxParameters = int64_t(1) << 42;

static DType readDType(ObjectReader &reader) {
  std::string dtype = reader.text("dtype", ""),
              older = reader.text("torch_dtype", "");
  if (!dtype.empty() && !older.empty() && dtype != older)
    reader.fail("'dtype' and 'torch_dtype' disagree: " + shownJson(dtype) +
                " and " + shownJson(older));
  bool newer = !dtype.empty();
  const std::string &name = newer ? dtype : older;
  if (name == "float16")
    return DType::F16;
  if (name == "bfloat16")
    return DType::BF16;
  if (!name.empty() && name != "float32")
    reader.failKey(newer ? "dtype" : "torch_dtype",
                   "expected float32, float16 or bfloat16, got " +
                       shownJson(name));
  return DType::F32;
}

/// Head count, KV head count and head size, which depend on one another.
static void readHeads(ObjectReader &reader, ModelConfig &config) {
  config.heads = reader.integer("num_attention_heads", 1, maxHeads);
  config.kvHeads =
      reader.integer("num_key_value_heads", 1, maxHeads, config.heads);
  if (config.heads % config.kvHeads)
    reader.fail("'num_attention_heads' " + llvm::Twine(config.heads) +
                " is not a multiple of 'num_key_value_heads' " +
                llvm::Twine(config.kvHeads));
  if (!reader.find("head_dim") && config.hiddenSize % config.heads)
    reader.fail("'hidden_size' " + llvm::Twine(config.hiddenSize) +
                " is not a multiple of 'num_attention_heads' " +
                llvm::Twine(config.heads) + ", and there is no 'head_dim'");
  config.headDim = reader.integer("head_dim", 2, maxHeadDim,
                                  config.hiddenSize / config.heads);
  if (config.headDim < 2 || config.headDim % 2)
    reader.fail("the head size ('head_dim', or 'hidden_size' by "
                "'num_attention_heads') must be even, got " +
                llvm::Twine(config.headDim));
}

/// Takes a number that two keys may give; they must agree.
static void agree(ObjectReader &reader, llvm::StringRef what, bool &seen,
                  double &value, double given) {
  if (seen && value != given)
    reader.fail("'" + what + "' is given twice: " + shownJson(json(value)) +
                " and " + shownJson(json(given)));
  seen = true;
  value = given;
}

static void readLlama3(ObjectReader &top, ObjectReader &rope,
                       RopeConfig &config) {
  static constexpr llvm::StringLiteral original =
      "original_max_position_embeddings";
  config.kind = RopeConfig::Kind::Llama3;
  config.factor = rope.positive("factor");
  config.lowFreqFactor = rope.positive("low_freq_factor");
  config.highFreqFactor = rope.positive("high_freq_factor");
  ObjectReader &owner = top.find(original) && !rope.find(original) ? top : rope;
  config.originalPositions = owner.integer(original, 1, maxPositions);
  if (top.find(original) &&
      top.integer(original, 1, maxPositions) != config.originalPositions)
    rope.failKey(original, "the top level says otherwise");
  if (config.factor < 1.0)
    rope.failKey("factor",
                 "expected at least 1, got " + shownJson(json(config.factor)));
  if (config.highFreqFactor <= config.lowFreqFactor)
    rope.failKey("high_freq_factor",
                 "expected more than 'low_freq_factor' " +
                     shownJson(json(config.lowFreqFactor)) + ", got " +
                     shownJson(json(config.highFreqFactor)));
}

/// Reads rope_scaling or rope_parameters, which transformers 5 renamed it to.
static void readRopeObject(const json &object, llvm::StringRef key,
                           ObjectReader &top, RopeConfig &config,
                           bool &thetaSeen) {
  if (!object.is_object())
    return top.failKey(key, "expected an object, got " + shownJson(object));
  ObjectReader rope(object, key.str() + ".");
  std::string type = rope.text("rope_type", ""), older = rope.text("type", "");
  if (!type.empty() && !older.empty() && type != older)
    rope.failKey("type", "expected " + shownJson(type) +
                             " as 'rope_type' says, got " + shownJson(older));
  llvm::StringRef typeKey = type.empty() ? "type" : "rope_type";
  if (type.empty())
    type = older.empty() ? "default" : older;
  if (type != "default" && type != "llama3")
    rope.failKey(typeKey, "expected default or llama3, got " + shownJson(type));
  checkRopeKeys(object, type == "llama3", rope);
  if (rope.find("rope_theta"))
    agree(rope, "rope_theta", thetaSeen, config.theta,
          rope.positive("rope_theta"));
  if (type == "llama3")
    readLlama3(top, rope, config);
  if (llvm::Error error = rope.takeError())
    top.fail(llvm::toString(std::move(error)));
}

static RopeConfig readRope(ObjectReader &reader) {
  RopeConfig config;
  bool thetaSeen = false;
  if (reader.find("rope_theta"))
    agree(reader, "rope_theta", thetaSeen, config.theta,
          reader.positive("rope_theta"));
  const json *scaling = reader.find("rope_scaling"),
             *parameters = reader.find("rope_parameters");
  if (scaling && parameters && *scaling != *parameters)
    reader.fail("'rope_scaling' and 'rope_parameters' disagree");
  if (scaling)
    readRopeObject(*scaling, "rope_scaling", reader, config, thetaSeen);
  else if (parameters)
    readRopeObject(*parameters, "rope_parameters", reader, config, thetaSeen);
  return config;
}

/// Refuses what no machine holds. Within the bounds no product overflows.
static void checkSize(const ModelConfig &c, ObjectReader &reader) {
  int64_t attention = 2 * c.hiddenSize * c.headDim * (c.heads + c.kvHeads),
          mlp = 3 * c.hiddenSize * c.intermediateSize;
  int64_t perLayer = attention + mlp, ends = 2 * c.vocabSize * c.hiddenSize;
  if (perLayer > maxParameters / c.layers ||
      perLayer * c.layers + ends > maxParameters)
    reader.fail("expected at most " + llvm::Twine(maxParameters) +
                " parameters, got " + llvm::Twine(c.layers) + " layers of " +
                llvm::Twine(perLayer));
}

llvm::Expected<ModelConfig> cria::parseConfig(llvm::StringRef text) {
  llvm::Expected<json> parsed = parseJsonObject(text);
  if (!parsed)
    return parsed.takeError();
  ObjectReader reader(*parsed);
  ModelConfig config;
  std::string type = reader.text("model_type", std::nullopt);
  if (!reader.failed() && type != "llama")
    reader.failKey("model_type", "expected \"llama\", got " + shownJson(type));
  checkConfigKeys(*parsed, reader);
  config.vocabSize = reader.integer("vocab_size", 1, maxVocab);
  config.hiddenSize = reader.integer("hidden_size", 1, maxDim);
  config.intermediateSize = reader.integer("intermediate_size", 1, maxDim);
  config.layers = reader.integer("num_hidden_layers", 1, maxLayers);
  readHeads(reader, config);
  config.maxPositions =
      reader.integer("max_position_embeddings", 1, maxPositions, 2048);
  config.rmsNormEps = reader.positive("rms_norm_eps", 1e-6);
  config.rope = readRope(reader);
  config.tied = reader.flag("tie_word_embeddings", false);
  config.attentionBias = reader.flag("attention_bias", false);
  config.mlpBias = reader.flag("mlp_bias", false);
  config.dtype = readDType(reader);
  checkSize(config, reader);
  if (reader.failed())
    return reader.takeError();
  config.json = parsed->dump();
  return config;
}

llvm::Expected<ModelConfig> cria::readConfig(llvm::StringRef path) {
  llvm::Expected<std::string> text = readTextFile(path, maxFileSize);
  if (!text)
    return text.takeError();
  llvm::Expected<ModelConfig> config = parseConfig(*text);
  if (!config)
    return textError(path + ": " + llvm::toString(config.takeError()));
  return config;
}
