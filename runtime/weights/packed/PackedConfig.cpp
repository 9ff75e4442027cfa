// Sources: transformers, utils/quantization_config.py; AutoGPTQ and GPTQModel,
// quantization/config.py; AutoRound, inference/convert_model.py and
// inference/backend.py; compressed-tensors, quantization/quant_args.py.
#include "runtime/weights/packed/PackedConfig.h"

#include <algorithm>
#include <cctype>

namespace cria {

using nlohmann::json;

using Schemes = std::vector<PackedScheme>;

static constexpr int64_t mostShared = 1 << 20;

/// Refuses every value of `key` whose JSON is not in `supported`. Absent is
/// fine.
static void only(const JsonCursor &object, const char *key,
                 std::initializer_list<std::string_view> supported) {
  std::optional<JsonCursor> value = object.find(key);
  if (!value)
    return;
  std::optional<int64_t> whole = wholeNumber(value->raw());
  std::string found =
      whole ? std::to_string(*whole) : briefJson(value->raw(), 40);
  std::string texts;
  for (std::string_view each : supported) {
    if (found == each)
      return;
    texts += texts.empty() ? "" : " or ";
    texts += each;
  }
  refuse(*value, texts.empty() ? "null" : texts);
}

static std::optional<bool> flag(const JsonCursor &object, const char *key) {
  std::optional<JsonCursor> value = object.find(key);
  return value ? std::optional(value->boolean()) : std::nullopt;
}

/// A name in lower case; "" if absent.
static std::string name(const JsonCursor &object, const char *key) {
  std::optional<JsonCursor> value = object.find(key);
  std::string text = value ? value->string() : "";
  for (char &c : text)
    c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return text;
}

/// The block of a group of columns, from `group_size`: -1 for all columns.
static std::optional<std::array<uint64_t, 2>>
groupOf(const JsonCursor &object) {
  std::optional<JsonCursor> value = object.find("group_size");
  if (!value)
    return std::nullopt;
  int64_t size = value->integer(-1, mostShared);
  if (size == 0)
    value->expected("-1 or the columns of a group");
  return {{1, size < 0 ? 0 : static_cast<uint64_t>(size)}};
}

static std::optional<std::array<uint64_t, 2>> blockOf(const JsonCursor &object,
                                                      const char *key) {
  std::optional<JsonCursor> value = object.find(key);
  if (!value)
    return std::nullopt;
  std::vector<JsonCursor> sizes = value->elements(2);
  if (sizes.size() != 2) {
    value->fail("expected the rows and the columns of a block");
    return std::nullopt;
  }
  return {{static_cast<uint64_t>(sizes[0].integer(1, mostShared)),
           static_cast<uint64_t>(sizes[1].integer(1, mostShared))}};
}

/// The value of `key` or of `older`, an older name with the same meaning. If
/// both have values, these must be the same.
static std::string either(const JsonCursor &config, const char *key,
                          const char *older) {
  std::string value = name(config, key), other = name(config, older);
  if (!value.empty() && !other.empty() && value != other)
    config[older].fail(concat({"is ", quote(other), ", and '", key, "' is ",
                               quote(value), ": expected the same"}));
  return value.empty() ? other : value;
}

/// Refuses layers that are stored in another way. Layers that are not quantized
/// are no problem: their tensors say so.
static void checkLayers(const JsonCursor &config, const char *key) {
  std::optional<JsonCursor> layers = config.find(key);
  if (!layers)
    return;
  if (!layers->raw().is_object())
    return layers->expected("an object");
  for (const auto &[layer, value] : layers->raw().items()) {
    JsonCursor own = (*layers)[layer];
    std::optional<JsonCursor> bits;
    if (layer.rfind("-:", 0) == 0 ||
        ((bits = own.find("bits")) && bits->integer(1, 64) >= 16))
      continue;
    for (const char *each :
         {"bits", "group_size", "sym", "desc_act", "data_type"})
      if (auto found = own.find(each)) {
        auto all = config.find(each);
        json expected = all ? all->raw() : json("int"); // data_type's default
        if (expected != found->raw())
          refuse(*found, briefJson(expected, 40));
      }
  }
}

static Schemes readGptq(const JsonCursor &config) {
  only(config, "bits", {"4"});
  only(config, "pack_dtype", {"\"int32\""});
  only(config, "is_marlin_format", {"false"});
  checkLayers(config, "dynamic");
  PackedScheme scheme = {PackedLayout::Gptq,
                         groupOf(config),
                         flag(config, "sym"),
                         {},
                         flag(config, "desc_act")};
  std::string format = either(config, "checkpoint_format", "format");
  if (!format.empty())
    scheme.lessOne = format == "gptq";
  if (!format.empty() && format != "gptq" && format != "gptq_v2")
    refuse(config[config.find("checkpoint_format") ? "checkpoint_format"
                                                   : "format"],
           R"("gptq" or "gptq_v2")");
  return {scheme};
}

/// `sym` says nothing here: transformers 5 writes its default, true.
static Schemes readAwq(const JsonCursor &config) {
  only(config, "bits", {"4"});
  std::string format = either(config, "version", "format");
  if (!format.empty() && format != "gemm")
    refuse(config[config.find("version") ? "version" : "format"], R"("gemm")");
  if (name(config, "backend") == "llm-awq")
    refuse(config["backend"], "another: llm-awq packs weights in its own way");
  PackedScheme scheme = {PackedLayout::Awq, groupOf(config), {}, {}, {}};
  if (std::optional<bool> zeros = flag(config, "zero_point"))
    scheme.symmetric = !*zeros;
  return {scheme};
}

/// Refuses 8-bit floats of another kind than F8_E4M3, which has two names.
static void checkFp8Kind(const JsonCursor &config) {
  only(config, "fmt", {"\"e4m3\"", "\"float8_e4m3fn\""});
}

static Schemes readFp8(const JsonCursor &config) {
  checkFp8Kind(config);
  only(config, "kv_cache_scheme", {});
  return {
      {PackedLayout::Fp8, blockOf(config, "weight_block_size"), {}, {}, {}}};
}

/// The fp8 of AutoRound, where `group_size` is a block, -1 for rows or 0 for
/// the whole matrix.
static Schemes readAutoRoundFp8(const JsonCursor &config) {
  only(config, "bits", {"8"});
  checkFp8Kind(config);
  PackedScheme scheme = {PackedLayout::Fp8, {}, {}, {}, {}};
  std::optional<JsonCursor> size = config.find("group_size");
  if (size && size->raw().is_array())
    scheme.block = blockOf(config, "group_size");
  else if (size)
    scheme.block = {{size->integer(-1, 0) < 0 ? 1u : 0u, 0}};
  return {scheme};
}

static Schemes readAutoRound(const JsonCursor &config) {
  for (const char *key : {"rotation_config", "super_bits", "static_kv_dtype",
                          "static_attention_dtype"})
    only(config, key, {"{}"});
  checkLayers(config, "extra_config");
  std::string format = name(config, "packing_format");
  if (format == "auto_round:fp8" || format == "auto_round:fp8_static")
    return readAutoRoundFp8(config);
  only(config, "data_type", {"\"int\""});
  bool less = format.empty() || format == "auto_round:auto_gptq" ||
              format == "auto_round:gptq";
  bool same = format == "auto_round" || format == "auto_round:gptqmodel";
  if (format == "auto_round:auto_awq" || format == "auto_round:awq") {
    only(config, "bits", {"4"});
    return {{PackedLayout::Awq, groupOf(config), flag(config, "sym"), {}, {}}};
  }
  if (!less && !same)
    refuse(config["packing_format"],
           "auto_round with gptq, gptqmodel, awq or fp8");
  Schemes schemes = readGptq(config);
  schemes[0].lessOne = less;
  // Early versions did not name the format, and stored zeros in both ways.
  if (format.empty() && schemes[0].symmetric != true)
    config["packing_format"];
  return schemes;
}

/// The weights of one config group of compressed-tensors: 4-bit integers.
static PackedScheme readGroupInt4(const JsonCursor &weights) {
  only(weights, "num_bits", {"4"});
  PackedScheme scheme = {PackedLayout::Rows, groupOf(weights), true, {}, {}};
  if (std::optional<bool> symmetric = flag(weights, "symmetric"))
    scheme.symmetric = symmetric;
  std::string strategy = name(weights, "strategy");
  bool isGroup = scheme.block && (*scheme.block)[1] != 0;
  if (strategy == "channel" && !isGroup)
    scheme.block = {{1, 0}};
  else if (!(strategy.empty() && scheme.block) &&
           !(strategy == "group" && isGroup))
    refuse(weights["strategy"],
           "channel without a group_size, or group with one");
  std::optional<JsonCursor> order = weights.find("actorder");
  std::string kind = order && order->raw().is_string() ? order->string() : "";
  scheme.actOrder =
      kind == "group" || kind == "dynamic" || (order && order->raw() == true);
  return scheme;
}

/// The same, of 8-bit floats.
static PackedScheme readGroupFp8(const JsonCursor &weights) {
  only(weights, "num_bits", {"8"});
  only(weights, "symmetric", {"true"});
  only(weights, "strategy",
       {"\"tensor\"", "\"channel\"", "\"group\"", "\"block\""});
  std::string strategy = name(weights, "strategy");
  PackedScheme scheme = {PackedLayout::Fp8, {}, {}, {}, {}};
  if (strategy == "block")
    scheme.block = blockOf(weights, "block_structure");
  else if (strategy == "group")
    scheme.block = groupOf(weights);
  else if (!strategy.empty())
    scheme.block = {{strategy == "channel" ? 1u : 0u, 0}};
  return scheme;
}

static Schemes readCompressedTensors(const JsonCursor &config) {
  only(config, "kv_cache_scheme", {});
  only(config, "transform_config", {"{}"});
  if (auto sparsity = config.find("sparsity_config");
      sparsity && !sparsity->raw().empty())
    only(*sparsity, "format", {"\"dense\""});
  Schemes schemes;
  JsonCursor groups = config["config_groups"];
  if (!groups.ok())
    return schemes;
  if (!groups.raw().is_object())
    groups.expected("an object");
  for (const auto &[each, ignored] : groups.raw().items()) {
    JsonCursor group = groups[each];
    std::optional<JsonCursor> weights = group.find("weights");
    if (!weights)
      continue;
    only(*weights, "dynamic", {"false"});
    bool isFloat = name(*weights, "type") == "float";
    only(*weights, "type", {"\"int\"", "\"float\""});
    for (const JsonCursor &place : {config, group})
      only(place, "format",
           {isFloat ? "\"float-quantized\"" : "\"pack-quantized\"",
            isFloat ? "\"naive-quantized\"" : "\"mixed-precision\"",
            "\"mixed-precision\""});
    schemes.push_back(isFloat ? readGroupFp8(*weights)
                              : readGroupInt4(*weights));
  }
  return schemes;
}

static Schemes readMxfp4(const JsonCursor &) {
  return {{PackedLayout::Mxfp4, {}, {}, {}, {}}};
}

Schemes readPackedSchemes(const JsonCursor &config) {
  static constexpr struct {
    const char *name;
    Schemes (*read)(const JsonCursor &);
  } methods[] = {
      {"auto-round", readAutoRound},
      {"awq", readAwq},
      {"compressed-tensors", readCompressedTensors},
      {"fp8", readFp8},
      {"gptq", readGptq},
      {"intel/auto-round", readAutoRound},
      {"mxfp4", readMxfp4},
  };
  std::string given = name(config, "quant_method");
  for (const auto &method : methods)
    if (given == method.name)
      return method.read(config);
  if (config.find("quant_method"))
    refuse(config["quant_method"],
           "auto-round, awq, compressed-tensors, fp8, gptq or mxfp4");
  else if (config.ok())
    config["quant_method"].fail("is missing");
  return {};
}

} // namespace cria
