#include "lowering/import/gguf/Config.h"

#include "lowering/import/gguf/Keys.h"
#include "lowering/import/gguf/Rope.h"
#include "runtime/base/Json.h"
#include "runtime/gguf/Files.h"
#include "runtime/gguf/Names.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <set>

namespace cria::gguf {

using nlohmann::json;

namespace {

/// Makes a config.json from one GGUF checkpoint. Stops at the first error.
class ConfigReader {
public:
  ConfigReader(const std::vector<OpenFile> &parts,
               const std::vector<std::string> &allowed)
      : parts(parts), header(parts.front().header), allowed(allowed) {}
  Result<Config> read();

private:
  void fail(const std::string &what, cria_status code = CRIA_INVALID_ARGUMENT) {
    if (status.ok())
      status = Status(code, parts.front().file.path() + ": " + what);
  }
  const TensorInfo *tensor(const std::string &name) const;
  bool isAllowed(const std::string &name) const;
  std::string full(const std::string &key) const;
  const Value *find(const std::string &key) const;
  std::optional<double> number(const std::string &key);
  std::optional<int64_t> whole(const std::string &key);
  void note(const std::string &name, const std::string &value,
            const std::string &fate, const std::string &why);
  void noteTensor(const std::string &name, const std::string &why);
  void readArchitecture();
  void checkKeys();
  void checkKey(const std::string &name, const Value &value);
  void readKey(const std::string &name, const Value &value, const Key &key);
  void checkMissing();
  void readVocabulary();
  void readHeads();
  void readLayers();
  void readStates(const Value &value);
  void readParts(json &types);
  void readStateSizes();
  const char *stateType() const;
  /// Whether the model is a Gemma 2 or 3.
  bool isGemma2() const;
  bool isGemma4() const;
  void readGemma4();
  void readProportionalRope();
  bool isLatent() const;
  void readLatent();
  void readExperts();
  void readShared(const char *count);
  void checkPattern(const Value &pattern);
  void readWindow();
  void setBiases(bool attention, bool mlp);
  void readTensors();
  void readDType();
  void readFormats(const std::string &main);
  std::string ropeType();
  void readRope();
  void readYarn(json &rope);
  void readLongRope(json &rope);
  void readFrequencies();
  void finishFamily();
  std::vector<double> factors(const std::string &name);

  const std::vector<OpenFile> &parts;
  const Header &header;
  const std::vector<std::string> &allowed;
  const Architecture *architecture = nullptr;
  Status status;
  json config = json::object();
  Config result;
};

} // namespace

const TensorInfo *ConfigReader::tensor(const std::string &name) const {
  for (const OpenFile &part : parts)
    for (const TensorInfo &info : part.header.tensors())
      if (info.name == name)
        return &info;
  return nullptr;
}

bool ConfigReader::isAllowed(const std::string &name) const {
  return std::find(allowed.begin(), allowed.end(), name) != allowed.end();
}

static std::string neverIgnored(const std::string &name) {
  return "; an unknown key is never ignored, but --allow-unknown=" + name +
         " lets it pass";
}

/// The full name of a key: "llama.block_count" for ".block_count".
std::string ConfigReader::full(const std::string &key) const {
  return key.front() == '.' ? architecture->name + key : key;
}

const Value *ConfigReader::find(const std::string &key) const {
  return header.find(full(key));
}

/// The number of a key; nothing if the key is absent.
std::optional<double> ConfigReader::number(const std::string &key) {
  const Value *value = find(key);
  if (!value)
    return std::nullopt;
  std::optional<double> got = value->number();
  if (!got || !std::isfinite(*got))
    fail("'" + full(key) + "' is " + value->shown() + ", expected a number");
  return got;
}

/// The integer of a key, which must not be negative; nothing if the key is
/// absent.
std::optional<int64_t> ConfigReader::whole(const std::string &key) {
  const Value *value = find(key);
  if (!value)
    return std::nullopt;
  std::optional<int64_t> got = value->integer();
  if (got && *got >= 0)
    return got;
  fail("'" + full(key) + "' is " + value->shown() + ", expected a size");
  return std::nullopt;
}

void ConfigReader::note(const std::string &name, const std::string &value,
                        const std::string &fate, const std::string &why) {
  result.keys.push_back({name, value, fate, why});
}

/// Adds a row to the ledger: `why` says what a tensor means for the config.
void ConfigReader::noteTensor(const std::string &name, const std::string &why) {
  const TensorInfo *info = tensor(name);
  std::string shape;
  for (uint64_t size : info ? info->shape : std::vector<uint64_t>())
    shape += (shape.empty() ? "" : ", ") + std::to_string(size);
  note(name,
       info ? "[" + shape + "] of " + std::string(info->type->name) : "absent",
       "honoured", why);
}

/// The model_type of architectures that config.json calls otherwise.
static constexpr struct {
  std::string_view architecture, modelType;
} modelTypes[] = {
    {"chatglm", "glm"},
    {"command-r", "cohere"},
    {"deepseek2", "deepseek_v3"},
    {"ernie4_5-moe", "ernie4_5_moe"},
    {"falcon-h1", "falcon_h1"},
    {"gemma3", "gemma3_text"},
    {"gemma4", "gemma4_text"},
    {"glm4moe", "glm4_moe"},
    {"gpt-oss", "gpt_oss"},
    {"gptneox", "gpt_neox"},
    {"granitehybrid", "granitemoehybrid"},
    {"hunyuan-dense", "hunyuan_v1_dense"},
    {"hunyuan-moe", "hunyuan_v1_moe"},
    {"lfm2moe", "lfm2_moe"},
    {"minimax-m2", "minimax_m2"},
    {"mistral3", "mistral"},
    {"nemotron_h_moe", "nemotron_h"},
    {"phi2", "phi"},
    {"qwen2moe", "qwen2_moe"},
    {"qwen35", "qwen3_5_text"},
    {"qwen35moe", "qwen3_5_moe_text"},
    {"qwen3moe", "qwen3_moe"},
    {"qwen3next", "qwen3_next"},
    {"qwen3vl", "qwen3_vl_text"},
    {"starcoder", "gpt_bigcode"},
};

static std::string modelTypeOf(std::string_view architecture) {
  for (const auto &known : modelTypes)
    if (known.architecture == architecture)
      return std::string(known.modelType);
  return std::string(architecture);
}

void ConfigReader::readArchitecture() {
  const Value *value = header.find("general.architecture");
  if (!value || !value->text())
    return fail(value ? "'general.architecture' is " + value->shown() +
                            ", expected a string"
                      : "'general.architecture' is missing");
  architecture = findArchitecture(*value->text());
  if (!architecture)
    return fail("'general.architecture' is " + value->shown() + ", expected " +
                    architectureNames(),
                CRIA_UNIMPLEMENTED);
  config["model_type"] = modelTypeOf(architecture->name);
  result.origins.emplace_back("model_type", "general.architecture");
}

/// Sets the value of a known key in the config.
void ConfigReader::readKey(const std::string &name, const Value &value,
                           const Key &key) {
  if (key.use == KeyUse::Neutral && value.shown() != key.config)
    return fail("'" + name + "' is " + value.shown() + ", expected " +
                    key.config + ": " + key.note,
                CRIA_UNIMPLEMENTED);
  if (key.use == KeyUse::Flag) {
    auto flag = value.boolean();
    if (!flag)
      return fail("'" + name + "' is " + value.shown() +
                  ", expected true or false");
    config[key.config] = *flag;
    result.origins.emplace_back(key.config, name);
    return;
  }
  if (key.use != KeyUse::Whole && key.use != KeyUse::Number)
    return;
  // GGUF allows some sizes to differ between layers; only equal sizes are
  // supported.
  auto numbers = value.size() <= mostLayers ? value.numbers() : std::nullopt;
  if (!numbers || numbers->empty() ||
      std::count(numbers->begin(), numbers->end(), numbers->front()) !=
          static_cast<int64_t>(numbers->size()))
    return fail("'" + name + "' is " + value.shown() +
                    ", expected a number, the same for all layers",
                CRIA_UNIMPLEMENTED);
  auto wholes = value.integers();
  if (key.use == KeyUse::Whole && !wholes)
    return fail("'" + name + "' is " + value.shown() +
                ", expected a whole number");
  json number = key.use == KeyUse::Number ? json(numbers->front())
                                          : json(wholes->front());
  auto [known, isNew] = config.emplace(key.config, number);
  if (!isNew && *known != number)
    return fail("'" + name + "' is " + value.shown() + ", expected " +
                    known->dump() + ", as another key says",
                CRIA_UNIMPLEMENTED);
  result.origins.emplace_back(key.config, name);
}

void ConfigReader::checkKey(const std::string &name, const Value &value) {
  const Key *key = findKey(name, architecture->name);
  if (!key && isAllowed(name))
    return note(name, value.shown(), "allowed", "--allow-unknown");
  if (!key)
    return fail("'" + printable(name) + "': unknown key, got " + value.shown() +
                    neverIgnored(printable(name)),
                CRIA_UNIMPLEMENTED);
  readKey(name, value, *key);
  bool counts = key->use != KeyUse::Any && key->use != KeyUse::Neutral;
  note(name, value.shown(), counts ? "honoured" : "irrelevant", key->note);
}

void ConfigReader::checkKeys() {
  for (const auto &[name, value] : header.metadata())
    if (status.ok())
      checkKey(name, value);
}

/// Checks required keys. Sets keys whose default in GGUF differs from the
/// default in transformers.
void ConfigReader::checkMissing() {
  const char *rms = ".attention.layer_norm_rms_epsilon",
             *other = ".attention.layer_norm_epsilon";
  auto counts = [&](const char *key) {
    return findKey(full(key), architecture->name)->use == KeyUse::Number;
  };
  bool isRms = counts(rms) && !(counts(other) && find(other));
  for (const char *key :
       {".attention.head_count", isRms ? rms : other, ".block_count",
        ".context_length", ".embedding_length"})
    if (!find(key))
      fail("'" + full(key) + "' is missing");
  // Models whose layers all have experts need no other width.
  if (!find(".feed_forward_length") && !find(".expert_feed_forward_length"))
    fail("'" + full(".feed_forward_length") + "' is missing");
  if (!find(".attention.head_count_kv"))
    config["num_key_value_heads"] = config["num_attention_heads"];
  if (!find(".rope.freq_base"))
    config["rope_theta"] = 10000.0;
}

void ConfigReader::readVocabulary() {
  const TensorInfo *embedding = tensor("token_embd.weight");
  if (!embedding || embedding->shape.size() != 2)
    return fail(embedding ? "'token_embd.weight' is not a matrix"
                          : "tensor 'token_embd.weight' is missing");
  auto rows = static_cast<int64_t>(embedding->shape[0]);
  if (auto size = whole(".vocab_size"); size && *size != rows)
    fail("'" + full(".vocab_size") + "' is " + std::to_string(*size) +
         ", but 'token_embd.weight' has " + std::to_string(rows) + " rows");
  config["vocab_size"] = rows;
  noteTensor("token_embd.weight", "rows of the embedding");
  bool tied = !tensor("output.weight");
  config["tie_word_embeddings"] = tied;
  noteTensor("output.weight", tied ? "the head is the embedding"
                                   : "the head is not the embedding");
}

/// Reads the size of heads, and how many of a head's dimensions are rotated.
void ConfigReader::readHeads() {
  if (isLatent())
    return readLatent();
  if (isGemma4())
    return readGemma4();
  auto key = whole(".attention.key_length"),
       rotated = whole(".rope.dimension_count");
  if (!key)
    key = whole(".attention.head_dim");
  auto heads = config["num_attention_heads"].get<int64_t>();
  int64_t size =
      key ? *key
          : config["hidden_size"].get<int64_t>() / std::max<int64_t>(heads, 1);
  for (const char *other : {".attention.value_length", ".attention.head_dim"})
    if (auto value = whole(other); value && *value != size)
      fail("'" + full(other) + "' is " + std::to_string(*value) +
               ", expected " + std::to_string(size) +
               ", the size of the other heads",
           CRIA_UNIMPLEMENTED);
  if (size > 0)
    config["head_dim"] = size;
  if (!rotated || *rotated == size || size <= 0)
    return;
  // transformers multiplies the factor with the head size and truncates the
  // product to an integer. The 0.5 keeps rounding errors from lowering the
  // result by one.
  double part =
      (static_cast<double>(*rotated) + 0.5) / static_cast<double>(size);
  config["partial_rotary_factor"] = part;
  result.origins.emplace_back("partial_rotary_factor",
                              full(".rope.dimension_count"));
}

/// Reads how many layers there are, and which have a state in place of
/// attention: those that a key lists, or those without KV heads.
void ConfigReader::readLayers() {
  auto all = config["num_hidden_layers"].get<int64_t>(),
       extra = countOf(header, *architecture, "nextn_predict_layers");
  if (all > mostLayers || all <= extra)
    return fail("'" + full(".block_count") + "' is " + std::to_string(all) +
                ", expected at most " + std::to_string(mostLayers) +
                ", and more than 'nextn_predict_layers'");
  config["num_hidden_layers"] = all - extra;
  if (const Value *flags = find(".attention.recurrent_layers"))
    readStates(*flags);
  const Value *value = find(".attention.head_count_kv");
  if (!value || isGemma4() || config.contains("num_key_value_heads"))
    return;
  auto counts = value->size() <= mostLayers ? value->integers() : std::nullopt;
  int64_t heads = 0;
  json types = json::array();
  for (int64_t count : counts.value_or(std::vector<int64_t>())) {
    if (count < 0 || (count && heads && count != heads))
      counts.reset();
    heads = std::max(heads, count);
    types.push_back(count ? "full_attention" : stateType());
    if (!counts)
      break;
  }
  if (!counts || !heads)
    return fail("'" + full(".attention.head_count_kv") + "' is " +
                    value->shown() +
                    ", expected a number, the same for all layers that have "
                    "attention, and 0 for the others",
                CRIA_UNIMPLEMENTED);
  config["num_key_value_heads"] = heads;
  if (config["model_type"] == "nemotron_h")
    readParts(types);
  if (value->isArray())
    config["layer_types"] = types;
  result.origins.emplace_back("layer_types", full(".attention.head_count_kv"));
}

/// Changes `types`, which says of each layer whether it has attention or a
/// state: layers that have a width are an MLP or experts. Removes the layers
/// after the model's last.
void ConfigReader::readParts(json &types) {
  const Value *value = find(".feed_forward_length");
  auto widths = value && value->isArray() && value->size() <= mostLayers
                    ? value->integers()
                    : std::nullopt;
  auto layers = config["num_hidden_layers"].get<size_t>();
  bool fits = widths && widths->size() >= layers && types.size() >= layers;
  int64_t width = 0;
  for (size_t i = 0; fits && i < layers; ++i) {
    int64_t own = (*widths)[i];
    if (!own)
      continue;
    fits = types[i] == stateType() && own > 0 && (!width || own == width);
    types[i] = config.contains("n_routed_experts") ? "moe" : "mlp";
    width = own;
  }
  if (!fits)
    return fail("'" + full(".feed_forward_length") + "' is " +
                    (value ? value->shown() : "missing") +
                    ", expected a number for each layer: 0, or the same for "
                    "all that have neither KV heads nor a state",
                CRIA_UNIMPLEMENTED);
  types.erase(types.begin() + static_cast<ptrdiff_t>(layers), types.end());
  if (width)
    config["intermediate_size"] = width;
}

/// Sets which layers have a state, of those that are not left out.
void ConfigReader::readStates(const Value &value) {
  auto flags = value.isArray() ? value.flags() : std::nullopt;
  auto layers = config["num_hidden_layers"].get<int64_t>();
  if (!flags || static_cast<int64_t>(flags->size()) < layers)
    return fail("'" + full(".attention.recurrent_layers") + "' is " +
                value.shown() + ", expected true or false for each layer");
  json types = json::array();
  for (int64_t i = 0; i < layers; ++i)
    types.push_back((*flags)[static_cast<size_t>(i)] ? stateType()
                                                     : "full_attention");
  config["layer_types"] = types;
}

/// Reads the size of a value of states, which no key has.
void ConfigReader::readStateSizes() {
  auto inner = whole(".ssm.inner_size"), heads = whole(".ssm.time_step_rank");
  if (!inner || !heads || !*heads || *inner % *heads)
    return fail("'" + full(".ssm.inner_size") + "' is " +
                (inner ? std::to_string(*inner) : "missing") +
                ", expected a multiple of '" + full(".ssm.time_step_rank") +
                "'");
  bool isMamba = config.contains("mamba_n_heads");
  config[isMamba ? "mamba_d_head" : "linear_value_head_dim"] = *inner / *heads;
  auto hidden = std::max<int64_t>(config["hidden_size"].get<int64_t>(), 1);
  if (config["model_type"] == "falcon_h1")
    config["mamba_d_ssm"] = *inner;
  else if (isMamba)
    config["mamba_expand"] = *inner / hidden;
}

/// What config.json calls layers with a state.
const char *ConfigReader::stateType() const {
  return std::string_view(architecture->name).substr(0, 4) == "lfm2"
             ? "conv"
             : "linear_attention";
}

bool ConfigReader::isGemma4() const {
  return architecture->name == std::string_view("gemma4");
}

/// Reads which layers of Gemma 4 have a window, and the sizes of both kinds.
void ConfigReader::readGemma4() {
  auto layers = config["num_hidden_layers"].get<size_t>();
  auto listed = [&](const char *key) {
    const Value *value = find(key);
    auto numbers =
        value && value->size() <= mostLayers ? value->integers() : std::nullopt;
    if (numbers && !value->isArray())
      numbers->resize(layers, numbers->front());
    if (!numbers || numbers->size() != layers || numbers->empty()) {
      fail("'" + full(key) + "' is " + (value ? value->shown() : "missing") +
           ", expected a number, or one for each layer");
      numbers = std::vector<int64_t>(layers, 1);
    }
    return *numbers;
  };
  const Value *pattern = find(".attention.sliding_window_pattern");
  auto windows = pattern ? pattern->flags() : std::nullopt;
  if (!windows || windows->size() != layers)
    return fail("'" + full(".attention.sliding_window_pattern") + "' is " +
                (pattern ? pattern->shown() : "missing") +
                ", expected true or false for each layer");
  std::vector<int64_t> heads = listed(".attention.head_count_kv"),
                       widths = listed(".feed_forward_length");
  int64_t width = *std::min_element(widths.begin(), widths.end());
  size_t wide = layers - std::min<size_t>(
                             layers, config.value("num_kv_shared_layers", 0));
  bool widens =
      width > 0 && widths.back() % 2 == 0 && widths.back() / 2 == width;
  json types = json::array();
  for (size_t i = 0; i < layers; ++i) {
    bool sees = (*windows)[i];
    types.push_back(sees ? "sliding_attention" : "full_attention");
    auto known = config.emplace(
        sees ? "num_key_value_heads" : "num_global_key_value_heads", heads[i]);
    if (*known.first != heads[i] ||
        widths[i] != (widens && i >= wide ? 2 : 1) * width)
      return fail("'" + full(".attention.head_count_kv") + "' and '" +
                      full(".feed_forward_length") +
                      "': expected the same in all layers with a window, in "
                      "all others, and in shared_kv_layers",
                  CRIA_UNIMPLEMENTED);
    std::string layer = "blk." + std::to_string(i);
    if (!sees && tensor(layer + ".attn_k.weight"))
      config["attention_k_eq_v"] = !tensor(layer + ".attn_v.weight");
  }
  config["layer_types"] = types;
  config["intermediate_size"] = width;
  config["use_double_wide_mlp"] = widens;
  config["enable_moe_block"] = config.value("num_experts", int64_t(0)) > 0;
  for (auto [key, other] :
       {std::pair(".attention.key_length", ".attention.value_length"),
        std::pair(".attention.key_length_swa", ".attention.value_length_swa"),
        std::pair(".attention.key_length_swa", ".rope.dimension_count_swa"),
        std::pair(".attention.key_length", ".rope.dimension_count")})
    if (!whole(key) || whole(other).value_or(*whole(key)) != *whole(key))
      return fail("'" + full(other) + "' is " +
                      (find(other) ? find(other)->shown() : "missing") +
                      ", expected '" + full(key) + "'",
                  CRIA_UNIMPLEMENTED);
  if (const TensorInfo *table = tensor("per_layer_token_embd.weight"))
    config["vocab_size_per_layer_input"] = table->shape.front();
}

/// Sets the ropes of Gemma 4: without a window, the first frequencies of a head
/// rotate, the others are divided by so much that they do not.
void ConfigReader::readProportionalRope() {
  std::vector<double> values = factors("rope_freqs.weight");
  size_t kept = 0;
  while (kept < values.size() && values[kept] == 1)
    ++kept;
  for (size_t i = kept; i < values.size(); ++i)
    if (!(values[i] >= 1e20))
      kept = 0;
  if (!kept)
    return fail("'rope_freqs.weight': expected 1, and then 1e30",
                CRIA_UNIMPLEMENTED);
  config["rope_parameters"] = {
      {"full_attention",
       {{"rope_type", "proportional"},
        {"partial_rotary_factor",
         static_cast<double>(kept) / static_cast<double>(values.size())},
        {"rope_theta", config["rope_theta"]}}},
      {"sliding_attention",
       {{"rope_type", "default"},
        {"rope_theta", number(".rope.freq_base_swa").value_or(1e4)}}}};
  config.erase("rope_theta");
  noteTensor("rope_freqs.weight", "the part of a head that rotates");
}

/// Whether keys and values are made of latent numbers.
bool ConfigReader::isLatent() const {
  return architecture->name == std::string_view("deepseek2") ||
         architecture->name == std::string_view("minicpm3");
}

/// Reads the sizes of latent attention, and which DeepSeek it is. Older files
/// have sizes of keys and values where others have sizes of what makes them.
/// MiniCPM 3 has no size of values, which are then as wide as a head.
void ConfigReader::readLatent() {
  auto need = [&](const char *key) {
    auto size = whole(key);
    if (!size)
      fail("'" + full(key) + "' is missing");
    return size.value_or(0);
  };
  bool isNew = find(".attention.key_length_mla");
  int64_t rotated = need(".rope.dimension_count"),
          key = need(isNew ? ".attention.key_length_mla"
                           : ".attention.key_length");
  bool isMini = config["model_type"] == "minicpm3";
  auto heads =
      std::max<int64_t>(config["num_attention_heads"].get<int64_t>(), 1);
  config["v_head_dim"] = isMini && !find(".attention.value_length")
                             ? config["hidden_size"].get<int64_t>() / heads
                             : need(isNew ? ".attention.value_length_mla"
                                          : ".attention.value_length");
  need(".attention.kv_lora_rank");
  if (!isMini)
    need(".expert_count");
  if (key <= rotated)
    fail("'" + full(".rope.dimension_count") + "' is " +
         std::to_string(rotated) + ", expected less than " +
         std::to_string(key) + ", the numbers of a key");
  config["qk_rope_head_dim"] = rotated;
  config["qk_nope_head_dim"] = key - rotated;
  config["num_key_value_heads"] = config["num_attention_heads"];
  config.emplace("q_lora_rank", nullptr);
  if (isMini)
    return;
  config["split_kv_b"] = tensor("blk.0.attn_k_b.weight") != nullptr;
  for (const char *key : {"n_group", "topk_group"})
    config.emplace(key, 1);
  config.emplace("first_k_dense_replace", 0);
  config.emplace("routed_scaling_factor", 1.0);
  // A file without the key has softmaxes, unless its sizes are GLM-4.7 Flash's.
  int64_t layers = config["num_hidden_layers"];
  bool isFlash =
      (layers == 47 || layers == 48) && config["vocab_size"] == 154880;
  auto score = whole(".expert_gating_func").value_or(isFlash ? 2 : 1);
  if (score != 1 && score != 2)
    fail("'" + full(".expert_gating_func") + "' is " + std::to_string(score) +
             ", expected 1 or 2",
         CRIA_UNIMPLEMENTED);
  if (score == 2)
    return;
  config["model_type"] = "deepseek_v2";
  if (config["n_group"] != 1)
    config["topk_method"] = "group_limited_greedy";
}

bool ConfigReader::isGemma2() const {
  std::string type = modelTypeOf(architecture->name);
  return type == "gemma2" || type == "gemma3_text";
}

/// Reads what llama.cpp knows of an architecture's experts and no key says. A
/// llama model with experts belongs to the family mixtral.
void ConfigReader::readExperts() {
  std::string type = config["model_type"];
  const Key *inner = findKey(full(".ssm.inner_size"), architecture->name);
  if (inner && inner->use == KeyUse::Read)
    readStateSizes();
  bool hasExperts = config.value("num_local_experts", int64_t(0)) > 0;
  if (type == "llama" && hasExperts) {
    config["model_type"] = "mixtral";
  } else if (type == "llama") {
    config.erase("num_local_experts");
    config.erase("num_experts_per_tok");
  }
  if (type == "qwen2_moe" || type == "olmoe")
    config["norm_topk_prob"] = false;
  if (type == "qwen3_moe" || type == "lfm2_moe" || type == "qwen3_next")
    config["norm_topk_prob"] = true;
  if ((type == "deepseek_v3" || type == "dots1" || type == "glm4_moe" ||
       type == "nemotron_h") &&
      !config.contains("norm_topk_prob"))
    config["norm_topk_prob"] = false;
  readShared(type == "ernie4_5_moe"     ? "moe_num_shared_experts"
             : type == "hunyuan_v1_moe" ? "num_shared_expert"
                                        : "");
}

/// Checks the width of the MLP beside the experts, which the key `count` of
/// config.json counts in experts; "": the architecture has another key.
void ConfigReader::readShared(const char *count) {
  auto width = whole(".expert_shared_feed_forward_length");
  if (!*count || !width)
    return;
  int64_t expected = config.value(count, int64_t(0)) *
                     config.value("moe_intermediate_size", int64_t(0));
  if (*width != expected)
    fail("'" + full(".expert_shared_feed_forward_length") + "' is " +
             std::to_string(*width) + ", expected " + std::to_string(expected) +
             ", the width of '" + full(".expert_shared_count") + "' experts",
         CRIA_UNIMPLEMENTED);
}

/// Fails unless each fourth layer has no window, as the families know it.
void ConfigReader::checkPattern(const Value &pattern) {
  auto flags = pattern.isArray() ? pattern.flags() : std::nullopt;
  auto period = pattern.integer();
  bool fits = flags || period == 4;
  for (size_t i = 0; flags && i < flags->size(); ++i)
    fits &= (*flags)[i] == (i % 4 != 3);
  if (!fits)
    fail("'" + full(".attention.sliding_window_pattern") + "' is " +
             pattern.shown() + ", expected each fourth layer without a window",
         CRIA_UNIMPLEMENTED);
}

/// A llama model with a window belongs to the family mistral, an olmo2 to
/// olmo3.
void ConfigReader::readWindow() {
  auto window = whole(".attention.sliding_window");
  std::string type = config["model_type"];
  if (type == "dots1" || type == "exaone4" || type == "mistral")
    config["sliding_window"] = nullptr; // unless the file has one
  if (const Value *pattern = find(".attention.sliding_window_pattern");
      pattern && !isGemma4())
    checkPattern(*pattern);
  const char *base = ".rope.freq_base_swa";
  if (auto own = number(base);
      own && type == "olmo2" && json(*own) != config["rope_theta"])
    fail("'" + full(base) + "' is " + std::to_string(*own) + ", expected '" +
             full(".rope.freq_base") + "'",
         CRIA_UNIMPLEMENTED);
  if (window && *window > 0) {
    config["sliding_window"] = *window;
    if (type == "llama")
      config["model_type"] = "mistral";
    else if (type == "olmo2")
      config["model_type"] = "olmo3";
  } else if (isGemma2() && window) {
    fail("'" + full(".attention.sliding_window") + "' is 0, expected a window");
  }
  result.origins.emplace_back("sliding_window",
                              full(".attention.sliding_window"));
}

/// The keys that say whether linears have biases, of the families that have
/// other keys than most, or whose keys are true by default. "": no key.
static const struct {
  std::string_view type, attention, mlp;
} biasKeys[] = {
    {"ernie4_5", "use_bias", ""},
    {"ernie4_5_moe", "use_bias", ""},
    {"glm", "attention_bias", ""},
    {"glm4", "attention_bias", ""},
    {"gpt2", "", ""},
    {"gpt_bigcode", "", ""},
    {"gpt_neox", "attention_bias", ""},
    {"gpt_oss", "attention_bias", ""},
    {"jais2", "attention_bias", "mlp_bias"},
    {"phi", "", ""},
    {"qwen2", "", ""},
    {"qwen2_moe", "qkv_bias", ""},
    {"seed_oss", "attention_bias", "mlp_bias"},
    {"stablelm", "use_qkv_bias", ""},
    {"starcoder2", "use_bias", ""},
};

/// Sets the keys of biases of attention's linears and the MLP's.
void ConfigReader::setBiases(bool attention, bool mlp) {
  for (const auto &keys : biasKeys)
    if (keys.type == config["model_type"].get<std::string>()) {
      if (!keys.attention.empty())
        config[std::string(keys.attention)] = attention;
      if (!keys.mlp.empty())
        config[std::string(keys.mlp)] = mlp;
      return;
    }
  if (attention)
    config["attention_bias"] = true;
  if (mlp)
    config["mlp_bias"] = true;
}

/// Reads from the names of the tensors whether there are biases and norms of
/// heads, and which layers have no experts. Fails on unknown tensors.
void ConfigReader::readTensors() {
  bool attention = false, mlp = false, headNorms = false, filters = false;
  std::set<int64_t> dense;
  for (const OpenFile &part : parts)
    for (const TensorInfo &info : part.header.tensors()) {
      if (isLeftOut(header, *architecture, info.name))
        continue;
      std::string name = checkpointName(*architecture, info.name);
      bool bias =
          name.size() > 5 && name.compare(name.size() - 5, 5, ".bias") == 0;
      attention |= bias && (name.find(".self_attn.") != name.npos ||
                            info.name.find(".attn_q.") != name.npos ||
                            info.name.find(".attn_qkv.") != name.npos);
      mlp |= bias && info.name.find(".ffn_up.") != name.npos;
      filters |= bias && (name.find(".conv.") != name.npos ||
                          name.find(".conv1d.") != name.npos);
      headNorms |= name.find(".self_attn.q_norm.") != name.npos;
      if (name.find(".mlp.gate_proj.") != name.npos)
        dense.insert(std::atoi(&name[name.find_first_of("0123456789")]));
      if (name.empty() && !isAllowed(info.name))
        fail("tensor " + quote(info.name) + " is unknown for " +
                 architecture->name + neverIgnored(printable(info.name)),
             CRIA_UNIMPLEMENTED);
    }
  std::string type = config["model_type"];
  setBiases(attention, mlp);
  if (type == "glm4_moe")
    config["use_qk_norm"] = headNorms;
  if (type == "lfm2" || type == "lfm2_moe")
    config["conv_bias"] = filters;
  if (type == "falcon_h1" || type == "granitemoehybrid" || type == "nemotron_h")
    config["mamba_conv_bias"] = filters;
  if ((type == "qwen2_moe" || type == "qwen3_moe" || type == "qwen3_next") &&
      !dense.empty())
    config["mlp_only_layers"] = dense;
  result.origins.emplace_back("attention_bias", "blk.0.attn_output.bias");
  result.origins.emplace_back("mlp_bias", "blk.0.ffn_down.bias");
  result.origins.emplace_back("mlp_only_layers", "blk.0.ffn_gate.weight");
}

/// The format in an artifact of a matrix with this GGUF type: a format of
/// blocks, or "none" if the matrix is stored in a float type.
static std::string formatOf(const std::string &type) {
  return type == "Q8_0" ? "q8_0" : type == "Q4_0" ? "q4_0" : "none";
}

/// Sets the quantization formats of a checkpoint whose most common matrix type
/// is `main`.
void ConfigReader::readFormats(const std::string &main) {
  std::string format = formatOf(main);
  if (format == "none")
    return;
  std::string embedding, head;
  for (const OpenFile &part : parts)
    for (const TensorInfo &info : part.header.tensors()) {
      if (info.name == "token_embd.weight")
        embedding = formatOf(info.type->name);
      if (info.name == "output.weight")
        head = formatOf(info.type->name);
    }
  if (head.empty())
    head = embedding;
  result.quantize = format;
  if (embedding != format)
    result.quantize += ",embedding=" + embedding;
  if (head != format)
    result.quantize += ",head=" + head;
  note("tensor formats", main, "honoured",
       "formats of blocks, without --quantize: " + result.quantize);
}

/// Sets the dtype: the type that most elements of matrices have, or bf16 if
/// this type has blocks.
void ConfigReader::readDType() {
  std::map<std::string, uint64_t> elements;
  for (const OpenFile &part : parts)
    for (const TensorInfo &info : part.header.tensors())
      if (info.shape.size() > 1)
        elements[info.type->name] += info.elements() / 256;
  std::string type = "F32";
  uint64_t most = 0;
  for (const auto &[name, count] : elements)
    if (count > most) {
      most = count;
      type = name;
    }
  bool isPlain = type == "F32" || type == "F16" || type == "F64";
  config["dtype"] = type == "F16" ? "float16"
                    : isPlain     ? "float32"
                                  : "bfloat16";
  note("tensor types", type, "honoured",
       "type of weights and activations, without --dtype: " +
           config["dtype"].get<std::string>());
  readFormats(type);
}

/// The values of a small F32 tensor.
std::vector<double> ConfigReader::factors(const std::string &name) {
  static constexpr uint64_t most = 1 << 12;
  for (const OpenFile &part : parts)
    for (const TensorInfo &info : part.header.tensors()) {
      if (info.name != name)
        continue;
      if (info.type->name != std::string("F32") || info.elements() > most) {
        fail("tensor '" + name + "' is of " + info.type->name + " with " +
             std::to_string(info.elements()) +
             " elements, expected F32 and at "
             "most " +
             std::to_string(most));
        return {};
      }
      std::vector<float> values(info.elements());
      Status got = part.file.read(info.begin, values.data(),
                                  values.size() * sizeof(float));
      if (!got.ok() && status.ok())
        status = got;
      return {values.begin(), values.end()};
    }
  fail("tensor '" + name + "' is missing");
  return {};
}

/// Sets rope_scaling from `rope_freqs.weight`: as Llama 3's parameters if these
/// produce the divisors in the file, and else as the divisors themselves.
void ConfigReader::readFrequencies() {
  if (!tensor("rope_freqs.weight"))
    return;
  if (config.contains("rope_scaling"))
    return fail("has both 'rope_freqs.weight' and '" +
                    full(".rope.scaling.type") + "'",
                CRIA_UNIMPLEMENTED);
  std::vector<double> values = factors("rope_freqs.weight");
  double base = config.value("rope_theta", 10000.0);
  config["rope_scaling"] = ropeOfFactors(values, base);
  noteTensor("rope_freqs.weight", "divisors of rope's frequencies");
}

/// The rope type: the type that the file names or, in older files, implies.
std::string ConfigReader::ropeType() {
  if (const Value *named = find(".rope.scaling.type"))
    return std::string(named->text().value_or("?"));
  if (tensor("rope_factors_long.weight"))
    return "longrope";
  auto factor = find(".rope.scaling.factor") ? number(".rope.scaling.factor")
                                             : number(".rope.scale_linear");
  return factor && *factor != 0 && *factor != 1 ? "linear" : "none";
}

void ConfigReader::readYarn(json &rope) {
  auto magnitude = number(".rope.scaling.attn_factor");
  if (auto original = whole(".rope.scaling.original_context_length"))
    rope["original_max_position_embeddings"] = *original;
  if (auto turns = number(".rope.scaling.yarn_beta_fast"))
    rope["beta_fast"] = *turns;
  if (auto turns = number(".rope.scaling.yarn_beta_slow"))
    rope["beta_slow"] = *turns;
  if (config["model_type"] == "gpt_oss")
    rope["truncate"] = false;
  if (auto tenth = number(".rope.scaling.yarn_log_multiplier");
      tenth && isLatent()) // the factor is an f32's shortest number
    rope["mscale"] = rope["mscale_all_dim"] = std::round(*tenth * 1e8) / 1e7;
  // ggml multiplies this factor with its own, 0.1 ln(factor) + 1.
  if (magnitude && *magnitude != 1)
    rope["attention_factor"] =
        *magnitude * (0.1 * std::log(rope["factor"].get<double>()) + 1);
}

void ConfigReader::readLongRope(json &rope) {
  rope["short_factor"] = factors("rope_factors_short.weight");
  rope["long_factor"] = factors("rope_factors_long.weight");
  auto positions = config["max_position_embeddings"].get<int64_t>();
  int64_t original =
      whole(".rope.scaling.original_context_length").value_or(positions);
  config["original_max_position_embeddings"] = original;
  double stretch = static_cast<double>(positions) /
                   static_cast<double>(std::max<int64_t>(original, 1));
  double usual =
      stretch > 1
          ? std::sqrt(1 + std::log(stretch) / std::log(double(original)))
          : 1;
  double magnitude = number(".rope.scaling.attn_factor").value_or(1);
  // The file's factor is rounded to f32. If it is equal to the default up to
  // this rounding, it is left out, so that the default is computed in double.
  if (!(std::abs(magnitude - usual) <= 1e-6 * usual))
    rope["attention_factor"] = magnitude;
}

void ConfigReader::readRope() {
  if (isGemma4())
    return readProportionalRope();
  std::string type = ropeType();
  json rope = {{"rope_type", type}};
  if (type == "linear" || type == "yarn")
    rope["factor"] = number(".rope.scaling.factor")
                         .value_or(number(".rope.scale_linear").value_or(1));
  if (type == "yarn")
    readYarn(rope);
  else if (type == "longrope")
    readLongRope(rope);
  else if (type != "linear" && type != "none")
    return fail("'" + full(".rope.scaling.type") + "' is " +
                    find(".rope.scaling.type")->shown() +
                    ", expected none, linear, yarn or longrope",
                CRIA_UNIMPLEMENTED);
  if (auto scale = number(".attention.temperature_scale")) {
    config["model_type"] = "ministral3";
    rope["llama_4_scaling_beta"] = *scale;
    rope["mscale"] = rope["mscale_all_dim"] = 1.0;
    rope["rope_theta"] = config["rope_theta"];
    config.erase("rope_theta");
    config["rope_parameters"] = rope;
  } else if (config["model_type"] == "olmo3") {
    // The layers with a window have the same base, and no scaling.
    json window = {{"rope_type", "default"},
                   {"rope_theta", config["rope_theta"]}};
    if (type == "none")
      rope = window;
    rope["rope_theta"] = config["rope_theta"];
    config.erase("rope_theta");
    config["rope_parameters"] = {{"full_attention", rope},
                                 {"sliding_attention", window}};
  } else if (type != "none") {
    config["rope_scaling"] = rope;
  } else if (config["model_type"] == "gpt_oss") {
    config["rope_scaling"] = {{"rope_type", "default"}}; // not the family's
  }
  readFrequencies();
  result.origins.emplace_back("rope_scaling", full(".rope.scaling"));
}

/// Sets values that llama.cpp knows for an architecture and that no key has.
void ConfigReader::finishFamily() {
  std::string type = modelTypeOf(architecture->name);
  auto size = config.value("head_dim", int64_t(1));
  auto heads =
      std::max<int64_t>(config["num_attention_heads"].get<int64_t>(), 1);
  if (auto width = whole(".expert_shared_feed_forward_length");
      width && type == "granite")
    config["intermediate_size"] = *width;
  if (type == "falcon_h1") {
    config["scaled_weights"] = true;
    config["mamba_rms_norm"] = tensor("blk.0.ssm_norm.weight") != nullptr;
    config["mamba_norm_before_gate"] = false; // llama.cpp knows no other
    if (!tensor("output.weight"))             // it would need another factor
      fail("tensor 'output.weight' is missing, and 'token_embd.weight' holds "
           "the factor of embeddings",
           CRIA_UNIMPLEMENTED);
  }
  if (type == "smollm3")
    config["no_rope_layer_interval"] = 4;
  if (type == "qwen3_next") // the file has two tensors
    config["split_qkvz"] = true;
  if (type == "lfm2_moe") // llama.cpp has no factor
    config["routed_scaling_factor"] = 1.0;
  if (type == "lfm2") // the file has the adjusted width
    config["block_auto_adjust_ff_dim"] = false;
  // Gemma 2 27B, which has 46 layers, and Gemma 3 27B, which has 62, scale
  // scores by the root of hidden size / heads instead of the head size.
  if (isGemma2())
    config["query_pre_attn_scalar"] =
        config["num_hidden_layers"] == (type == "gemma2" ? 46 : 62)
            ? config["hidden_size"].get<int64_t>() / heads
            : size;
  if (const Value *rotates = find(".rope.scaling.finetuned");
      rotates && type == "granitemoehybrid")
    config["position_embedding_type"] =
        rotates->boolean().value_or(true) ? "rope" : "nope";
  bool isGranite =
      type == "granite" || type == "granitemoe" || type == "granitemoehybrid";
  if (isGranite && !find(".attention.scale"))
    config["attention_multiplier"] = 1 / std::sqrt(static_cast<double>(size));
}

Result<Config> ConfigReader::read() {
  readArchitecture();
  if (!status.ok())
    return status;
  checkKeys();
  for (auto step : {&ConfigReader::checkMissing, &ConfigReader::readVocabulary,
                    &ConfigReader::readLayers, &ConfigReader::readHeads,
                    &ConfigReader::readExperts, &ConfigReader::readWindow,
                    &ConfigReader::readTensors, &ConfigReader::readDType,
                    &ConfigReader::readRope, &ConfigReader::finishFamily})
    if (status.ok())
      (this->*step)();
  if (!status.ok())
    return status;
  result.json = config.dump();
  std::sort(result.keys.begin(), result.keys.end(),
            [](const KeyFate &a, const KeyFate &b) { return a.key < b.key; });
  return std::move(result);
}

Result<Config> readConfig(const std::string &path,
                          const std::vector<std::string> &allowed) {
  Result<std::vector<OpenFile>> parts = openFiles(path);
  if (!parts.ok())
    return parts.status();
  return ConfigReader(*parts, allowed).read();
}

} // namespace cria::gguf
