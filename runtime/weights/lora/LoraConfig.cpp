#include "runtime/weights/lora/LoraConfig.h"

#include "runtime/weights/lora/ModulePattern.h"

#include <algorithm>
#include <cmath>
#include <string_view>

namespace cria {

static constexpr int64_t maxRank = 1 << 16;
static constexpr double maxAlpha = 1e12;
static constexpr size_t maxOverrides = 4096;

/// Keys that are read, and keys that say how the adapter was made and where it
/// came from. The keys about targets are not read: the tensors say what was
/// trained.
static const std::string_view knownKeys[] = {
    "peft_type",      "r",
    "lora_alpha",     "use_rslora",
    "rank_pattern",   "alpha_pattern",
    "bias",           "init_lora_weights",
    "target_modules", "exclude_modules",
    "lora_dropout",   "layers_to_transform",
    "fan_in_fan_out", "megatron_config",
    "layers_pattern", "inference_mode",
    "task_type",      "auto_mapping",
    "peft_version",   "base_model_name_or_path",
    "revision",       "loftq_config",
    "megatron_core",  "corda_config",
    "eva_config",     "qalora_group_size",
    "lora_ga_config", "modules_to_save",
    "runtime_config"};

/// Initializations that leave the base model as it is. The others subtract the
/// adapter's first product from it.
static const std::string_view plainInits[] = {"gaussian", "eva", "orthogonal",
                                              "mica"};

template <typename List>
static bool contains(const List &list, std::string_view key) {
  return std::find(std::begin(list), std::end(list), key) != std::end(list);
}

/// Whether a value is null, false or empty.
static bool meansNothing(const nlohmann::json &value) {
  if (value.is_string())
    return value.get_ref<const std::string &>().empty();
  return value.is_null() || value == nlohmann::json(false) ||
         (value.is_structured() && value.empty());
}

static void checkInit(const JsonCursor &init) {
  const nlohmann::json &value = init.raw();
  bool isPlain = value.is_string() &&
                 contains(plainInits, value.get_ref<const std::string &>());
  if (!value.is_boolean() && !isPlain)
    refuse(init, "true, false, gaussian, eva, orthogonal or mica, which leave "
                 "the base model as it is");
}

static double readRank(const JsonCursor &at) {
  return static_cast<double>(at.integer(1, maxRank));
}

static double readAlpha(const JsonCursor &at) {
  return at.number(-maxAlpha, maxAlpha);
}

void LoraConfig::read(const JsonCursor &root) {
  if (root["peft_type"].string() != "LORA" && root.ok())
    refuse(root["peft_type"], "LORA");
  rank = readRank(root["r"]);
  alpha = readAlpha(root["lora_alpha"]);
  if (auto stabilized = root.find("use_rslora"))
    dividesByRoot = stabilized->boolean();
  ranks = readOverrides(root, "rank_pattern", readRank);
  alphas = readOverrides(root, "alpha_pattern", readAlpha);
  if (auto bias = root.find("bias"); bias && bias->string() != "none")
    refuse(*bias, "none");
  if (auto init = root.find("init_lora_weights"))
    checkInit(*init);
  if (auto whole = root.find("modules_to_save"))
    for (const JsonCursor &name : whole->elements(maxOverrides))
      wholeModules.push_back(name.string());
  if (!root.raw().is_object())
    return;
  for (const auto &[key, value] : root.raw().items())
    if (!contains(knownKeys, key) && !meansNothing(value))
      refuse(root[key], "null, false or nothing");
}

std::vector<LoraConfig::Override>
LoraConfig::readOverrides(const JsonCursor &root, const std::string &key,
                          double (*read)(const JsonCursor &)) {
  std::vector<Override> overrides;
  std::optional<JsonCursor> members = root.find(key);
  if (!members)
    return overrides;
  if (!members->raw().is_object() || members->raw().size() > maxOverrides) {
    members->expected("an object of at most " + std::to_string(maxOverrides));
    return overrides;
  }
  for (const auto &item : members->raw().items()) {
    JsonCursor member = (*members)[item.key()];
    double value = read(member);
    if (!root.ok())
      break;
    overrides.push_back({item.key(), value});
  }
  return overrides;
}

Result<LoraConfig> LoraConfig::load(const std::string &path) {
  JsonLimits limits;
  limits.values = 1 << 17;
  Result<JsonDocument> json = readJson(path, limits);
  if (!json.ok())
    return json.status();
  LoraConfig config;
  config.path = path;
  Status status;
  config.read(JsonCursor(json->root(), path, status));
  if (!status.ok())
    return status;
  return config;
}

/// The value of the overrides that match `module`, or `otherwise`.
Result<double> LoraConfig::choose(const std::vector<Override> &overrides,
                                  double otherwise, const char *key,
                                  const std::string &module,
                                  uint64_t &budget) const {
  std::optional<double> chosen;
  for (const Override &each : overrides) {
    Result<bool> matches = matchesModule(each.pattern, module, budget);
    if (!matches.ok())
      return Status(matches.status().code(),
                    {path, ": ", quote(concat({key, ".", each.pattern})), " ",
                     matches.status().message()});
    if (*matches && chosen.value_or(each.value) != each.value)
      return Status(CRIA_UNIMPLEMENTED,
                    {path, ": '", key, "' has two values for ", quote(module)});
    if (*matches)
      chosen = each.value;
  }
  return chosen.value_or(otherwise);
}

Result<LoraScale> LoraConfig::at(const std::string &module,
                                 uint64_t &budget) const {
  Result<double> r = choose(ranks, rank, "rank_pattern", module, budget);
  if (!r.ok())
    return r.status();
  Result<double> a = choose(alphas, alpha, "alpha_pattern", module, budget);
  if (!a.ok())
    return a.status();
  return LoraScale{static_cast<uint64_t>(*r),
                   *a / (dividesByRoot ? std::sqrt(*r) : *r)};
}

} // namespace cria
