#include "lowering/import/Shrink.h"

#include "lowering/support/Json.h"
#include "runtime/base/Json.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/ADT/StringSwitch.h"
#include <cmath>
#include <set>
#include <tuple>

using namespace cria;
using nlohmann::json;

/// Smaller heads would be too different from the heads of real models.
static constexpr int64_t kLeastHeadDim = 8;

namespace {
struct Sizes {
  int64_t layers, hidden, vocab;
};

struct Heads {
  int64_t heads, kvHeads, headDim;
};

/// Edits one config.
class Shrinker {
public:
  Shrinker(const ModelConfig &config, const Sizes &sizes)
      : config(config), sizes(sizes), result(json::parse(config.json)) {}

  void shrinkLayers();
  void shrinkExperts(const std::vector<size_t> &kept);
  void shrinkIds();
  llvm::Error shrinkWidth();
  /// The edited config, in the family's own names of keys.
  json sibling() const { return inOwnNames(*config.family, result); }

private:
  bool isGiven(const char *key) const;
  std::vector<size_t> keptLayers() const;
  bool followPattern(const std::vector<size_t> &kept) const;
  std::vector<json *> ropes();
  double rotatedPart();
  std::optional<Heads> chooseHeads(double part) const;
  Heads chooseLatentHeads() const;
  void shrinkLatents();
  void shrinkFullHeads(const Heads &heads);
  void shrinkMamba();

  const ModelConfig &config;
  Sizes sizes;
  json result;
};
} // namespace

static llvm::Expected<Sizes> parseSizes(const ModelConfig &config,
                                        llvm::StringRef text) {
  Sizes sizes = {config.layers, config.hiddenSize, config.vocabSize};
  llvm::StringSet<> seen;
  for (llvm::StringRef part : llvm::split(text, ',')) {
    auto [name, number] = part.split('=');
    auto *size = llvm::StringSwitch<int64_t *>(name)
                     .Case("layers", &sizes.layers)
                     .Case("hidden", &sizes.hidden)
                     .Case("vocab", &sizes.vocab)
                     .Default(nullptr);
    if (!size)
      return textError(shownText(part) +
                       ": expected layers=N, hidden=N or vocab=N");
    if (!seen.insert(name).second)
      return textError(shownText(part) + ": is given twice");
    int64_t value;
    if (number.getAsInteger(10, value) || value < 1 || value > *size)
      return textError(shownText(part) + ": expected 1 to " +
                       llvm::Twine(*size) + ", the config's number");
    *size = value;
  }
  return sizes;
}

/// Whether the file, or else the family's default, gives the key a value.
bool Shrinker::isGiven(const char *key) const {
  json value = result.value(key, json());
  if (!result.contains(key))
    value = json::parse(config.family->defaults).value(key, json());
  return !value.is_null();
}

/// The first layer of each kind, and the first of the other layers, up to the
/// number of layers that is asked for.
std::vector<size_t> Shrinker::keptLayers() const {
  std::vector<size_t> firsts, others;
  for (size_t i = 0; i < config.kinds.size(); ++i) {
    bool known = llvm::any_of(firsts, [&](size_t first) {
      return config.kinds[first] == config.kinds[i];
    });
    (known ? others : firsts).push_back(i);
  }
  firsts.insert(firsts.end(), others.begin(), others.end());
  firsts.resize(static_cast<size_t>(sizes.layers));
  llvm::sort(firsts);
  return firsts;
}

/// Whether the layers, renumbered, have windows where the config has them.
bool Shrinker::followPattern(const std::vector<size_t> &kept) const {
  for (size_t i = 0; i < kept.size(); ++i)
    if (config.kinds[i].window != config.kinds[kept[i]].window)
      return false;
  return true;
}

/// Shrinks the rules that say which layers have experts.
void Shrinker::shrinkExperts(const std::vector<size_t> &kept) {
  std::vector<int64_t> dense, mixed;
  for (auto [i, layer] : llvm::enumerate(kept))
    (config.kinds[layer].hasExperts ? mixed : dense)
        .push_back(static_cast<int64_t>(i));
  int64_t first = mixed.empty() ? sizes.layers : mixed.front();
  if (config.family->reads("first_k_dense_replace"))
    result["first_k_dense_replace"] = first;
  if (config.family->reads("mlp_only_layers")) {
    result["mlp_only_layers"] = dense;
    result["decoder_sparse_step"] = 1;
  }
  if (!config.family->reads("moe_layer_interval"))
    return;
  result["moe_layer_start_index"] = first;
  result["moe_layer_end_index"] = mixed.empty() ? first : mixed.back();
  if (mixed.size() < 2 || mixed.back() - first + 1 == int64_t(mixed.size()))
    result["moe_layer_interval"] = 1;
}

/// Shrinks lists with one entry for each layer, and rules that count layers.
void Shrinker::shrinkLayers() {
  std::vector<size_t> kept = keptLayers();
  for (const char *key : {"layer_types", "mlp_layer_types", "no_rope_layers"})
    if (isGiven(key)) {
      json list = json::array();
      for (size_t layer : kept)
        list.push_back(result[key][layer]);
      result[key] = std::move(list);
    }
  if (auto letters = result.find("hybrid_override_pattern");
      letters != result.end() && letters->is_string()) {
    std::string own;
    for (size_t layer : kept)
      own += letters->get_ref<const std::string &>()[layer];
    *letters = own;
  }
  // These have the same entry for each layer.
  for (const char *key : {"attn_type_list", "moe_intermediate_size", "moe_topk",
                          "num_experts", "num_shared_expert"})
    if (auto list = result.find(key); list != result.end() && list->is_array())
      list->erase(list->begin() + sizes.layers, list->end());
  if (llvm::StringRef state = config.family->stateType();
      !state.empty() && !isGiven("layer_types") &&
      config.family->reads("layer_types") &&
      !isGiven("hybrid_override_pattern")) {
    json types = json::array();
    for (size_t layer : kept)
      types.push_back(config.kinds[layer].hasState ? state.str()
                                                   : "full_attention");
    result["layer_types"] = std::move(types);
  }
  result["num_hidden_layers"] = sizes.layers;
  if (config.family->reads("num_kv_shared_layers"))
    result["num_kv_shared_layers"] = llvm::count_if(
        kept, [&](size_t layer) { return config.kinds[layer].sharesKv; });
  if (config.family->window == WindowRule::PatternAndLast &&
      isGiven("layer_types"))
    result["layer_types"].back() = "full_attention";
  if (auto own = result.find("per_layer_config"); own != result.end()) {
    json sizesOfHeads = own->front(), renumbered = json::object();
    for (auto [i, layer] : llvm::enumerate(kept))
      if (!config.kinds[layer].window || i + 1 == kept.size())
        renumbered[std::to_string(i)] = sizesOfHeads;
    *own = std::move(renumbered);
  }
  auto first = [&](auto matches) {
    return llvm::find_if(kept, matches) - kept.begin();
  };
  shrinkExperts(kept);
  if (config.family->reads("max_window_layers") &&
      (config.family->window == WindowRule::LastLayers ||
       config.family->window == WindowRule::FromLayer) &&
      !isGiven("layer_types"))
    result["max_window_layers"] =
        first([&](size_t layer) { return config.kinds[layer].window != 0; });
  // The kept layers need not follow the family's pattern.
  if (config.family->window == WindowRule::Pattern && !isGiven("layer_types") &&
      !followPattern(kept)) {
    json types = json::array();
    for (size_t layer : kept)
      types.push_back(config.kinds[layer].window ? "sliding_attention"
                                                 : "full_attention");
    result["layer_types"] = std::move(types);
  }
  auto straight = first([&](size_t i) { return !config.kinds[i].rotates; });
  if (isGiven("no_rope_layer_interval") && !isGiven("no_rope_layers") &&
      straight < sizes.layers)
    result["no_rope_layer_interval"] = straight + 1;
}

/// Special ids that are beyond the new vocabulary become its last ids, in
/// order.
void Shrinker::shrinkIds() {
  result["vocab_size"] = sizes.vocab;
  if (config.family->reads("vocab_size_per_layer_input"))
    result["vocab_size_per_layer_input"] = sizes.vocab;
  // The default of transformers may be beyond the vocabulary.
  if (!result.contains("pad_token_id"))
    result["pad_token_id"] = nullptr;
  std::vector<json *> ids;
  for (const char *key :
       {"bos_token_id", "eos_token_id", "pad_token_id", "sep_token_id"})
    if (auto found = result.find(key); found != result.end()) {
      if (!found->is_array())
        ids.push_back(&*found);
      else
        for (json &id : *found)
          ids.push_back(&id);
    }
  std::set<int64_t> taken, beyond;
  for (json *id : ids)
    if (std::optional<int64_t> number = wholeNumber(*id))
      (*number < sizes.vocab ? taken : beyond).insert(*number);
  int64_t next = sizes.vocab - 1;
  for (int64_t old : llvm::reverse(beyond)) {
    while (taken.count(next))
      --next;
    for (json *id : ids)
      if (*id == old)
        *id = next < 0 ? json() : json(next);
    --next;
  }
}

/// The objects with rope's keys: one, or one for each kind of layer.
std::vector<json *> Shrinker::ropes() {
  std::vector<json *> found;
  for (const char *key : {"rope_scaling", "rope_parameters"})
    if (result.contains(key) && result[key].is_object()) {
      found.push_back(&result[key]);
      for (json &value : result[key])
        if (value.is_object())
          found.push_back(&value);
    }
  return found;
}

/// The part of a head that is rotated.
double Shrinker::rotatedPart() {
  if (config.family->rope.isProportional) // rotates all, by zero in part
    return 1;
  std::vector<json *> places = ropes();
  places.push_back(&result);
  for (const json *place : places)
    if (auto part = place->find("partial_rotary_factor");
        part != place->end() && part->is_number())
      return part->get<double>();
  if (config.family->reads("rotary_dim"))
    return static_cast<double>(config.ropes.front().dims) /
           static_cast<double>(config.headDim);
  return config.family->rope.part;
}

static int64_t rotated(int64_t headDim, double part) {
  return static_cast<int64_t>(static_cast<double>(headDim) * part);
}

/// The ratio of two numbers, at least 1.
static double apart(double a, double b) { return a < b ? b / a : a / b; }

/// Chooses numbers of heads and a head size. Among those that fit, the heads in
/// a group and the total width of the heads are nearest to the config's. Then
/// the number of heads and the head size shrink alike: each by the root of the
/// factor of the hidden size.
std::optional<Heads> Shrinker::chooseHeads(double part) const {
  auto heads = static_cast<double>(config.heads);
  double shrink = static_cast<double>(sizes.hidden) /
                  static_cast<double>(config.hiddenSize),
         group = heads / static_cast<double>(config.kvHeads),
         width = shrink * heads * static_cast<double>(config.headDim);
  int64_t leastSize = std::min(kLeastHeadDim, config.headDim);
  bool ownSize = isGiven("head_dim");
  std::optional<Heads> best;
  std::tuple<double, double, double> least;
  for (int64_t h = config.heads; h > 0; --h) {
    auto count = static_cast<double>(h);
    int64_t size = ownSize ? std::max(2 * std::llround(width / count / 2),
                                      static_cast<long long>(leastSize))
                           : sizes.hidden / h;
    if ((!ownSize && sizes.hidden % h) || size % 2 || size < leastSize ||
        rotated(size, part) % 2 || rotated(size, part) < 2)
      continue;
    for (int64_t k = std::min(h, config.kvHeads); k > 0; --k) {
      if (h % k || (h > k) != (config.heads > config.kvHeads))
        continue;
      std::tuple cost(apart(count / static_cast<double>(k), group),
                      apart(count * static_cast<double>(size), width),
                      apart(count * count, heads * heads * shrink));
      if (!best || cost < least) {
        best = {h, k, size};
        least = cost;
      }
    }
  }
  return best;
}

/// Heads of latent attention keep their sizes, so there are fewer of them. They
/// divide the hidden size, as transformers expects.
Heads Shrinker::chooseLatentHeads() const {
  int64_t heads =
      std::max<int64_t>(1, config.heads * sizes.hidden / config.hiddenSize);
  while (sizes.hidden % heads)
    --heads;
  return {heads, heads, config.headDim};
}

/// Shrinks the latent numbers as the hidden size. Whole blocks stay whole.
void Shrinker::shrinkLatents() {
  const std::pair<const char *, int64_t> ranks[] = {
      {"kv_lora_rank", config.latentSize},
      {"q_lora_rank", config.queryLatentSize}};
  for (auto [key, rank] : ranks)
    if (rank) {
      int64_t of = rank % 32 ? 1 : 32;
      result[key] =
          std::max(of, rank / of * sizes.hidden / config.hiddenSize * of);
    }
  if (config.family->reads("dim_model_base"))
    result["dim_model_base"] = std::max<int64_t>(
        1, std::llround(config.logitScale * static_cast<double>(sizes.hidden)));
}

/// Shrinks the heads of layers that see all keys as the others.
void Shrinker::shrinkFullHeads(const Heads &heads) {
  auto [kvHeads, headDim] = config.fullHeads;
  if (!headDim)
    return;
  int64_t size = std::max<int64_t>(2, headDim * heads.headDim / config.headDim /
                                          2 * 2),
          count =
              std::max<int64_t>(1, kvHeads * heads.kvHeads / config.kvHeads);
  while (heads.heads % count)
    --count;
  if (auto own = result.find("per_layer_config"); own != result.end()) {
    for (json &sizesOfHeads : *own)
      sizesOfHeads = {{"head_dim", size}, {"num_key_value_heads", count}};
    return;
  }
  result["global_head_dim"] = size;
  if (config.keysAreValues)
    result["num_global_key_value_heads"] = count;
}

/// Shrinks the heads of Mamba as the hidden size, if they can be: they may have
/// to be of mamba_expand hidden sizes together.
void Shrinker::shrinkMamba() {
  if (config.family->mamba.in.empty() ||
      llvm::none_of(config.kinds, [](auto &kind) { return kind.hasState; }))
    return;
  int64_t groups = config.deltaKeyHeads, size = config.deltaValueDim,
          ratio = config.deltaHeads * sizes.hidden / config.hiddenSize / groups,
          heads = std::max<int64_t>(ratio, 1) * groups, width = heads * size;
  if (config.family->reads("mamba_d_ssm"))
    result["mamba_d_ssm"] = width;
  else if (config.family->reads("mamba_expand"))
    width = config.deltaHeads * size / config.hiddenSize * sizes.hidden;
  while (heads > 0 && width % heads)
    heads -= groups;
  if (heads <= 0)
    heads = groups = 1;
  result["mamba_n_groups"] = groups;
  result["mamba_n_heads"] = heads;
  result["mamba_d_head"] = width / heads;
}

/// Reduces a list with an entry for each frequency to `count` entries, evenly
/// spaced.
static void resample(json &list, size_t count) {
  json picked = json::array();
  for (size_t i = 0; i < count; ++i)
    picked.push_back(list[i * list.size() / count]);
  list = std::move(picked);
}

llvm::Error Shrinker::shrinkWidth() {
  double part = rotatedPart();
  std::optional<Heads> heads = chooseHeads(part);
  if (config.latentSize) {
    heads = chooseLatentHeads();
    shrinkLatents();
  }
  if (!heads)
    return textError(
        "hidden=" + llvm::Twine(sizes.hidden) + ": no even head size from " +
        llvm::Twine(std::min(kLeastHeadDim, config.headDim)) +
        " on divides it into heads as " + llvm::Twine(config.heads) +
        " heads on " + llvm::Twine(config.kvHeads) + " KV heads are");
  result["num_attention_heads"] = heads->heads;
  result["num_key_value_heads"] = heads->kvHeads;
  if (isGiven("head_dim"))
    result["head_dim"] = heads->headDim;
  shrinkFullHeads(*heads);
  shrinkMamba();
  for (const char *key : {"hidden_size", "word_embed_proj_dim"})
    if (isGiven(key))
      result[key] = sizes.hidden;
  const std::pair<const char *, int64_t> widths[] = {
      {"hidden_size_per_layer_input", config.perLayerInputSize},
      {"intermediate_size", config.intermediateSize},
      {"moe_intermediate_size", config.expertSize},
      {"moe_shared_expert_intermediate_size", config.sharedSize},
      {"shared_expert_intermediate_size", config.sharedSize},
      {"shared_intermediate_size",
       config.sharedSize ? config.sharedSize : config.intermediateSize}};
  for (auto [key, width] : widths)
    if (width && isGiven(key)) {
      double inner = static_cast<double>(width) *
                     static_cast<double>(sizes.hidden) /
                     static_cast<double>(config.hiddenSize);
      int64_t shrunk = std::max(std::llround(inner), 1LL);
      if (result[key].is_array())
        result[key] = json(result[key].size(), shrunk);
      else
        result[key] = shrunk;
    }
  if (isGiven("rotary_dim"))
    result["rotary_dim"] = rotated(heads->headDim, part);
  for (json *rope : ropes())
    for (const char *key : {"long_factor", "short_factor"})
      if (rope->contains(key) && (*rope)[key].is_array())
        resample((*rope)[key],
                 static_cast<size_t>(rotated(heads->headDim, part) / 2));
  return llvm::Error::success();
}

llvm::Expected<std::string>
cria::shrinkConfig(const ModelConfig &config, llvm::StringRef text,
                   llvm::ArrayRef<std::string> allowed) {
  if (config.family->readsImages())
    return textError(text + ": expected a model that reads ids, got " +
                     config.family->modelType);
  llvm::Expected<Sizes> sizes = parseSizes(config, text);
  if (!sizes)
    return sizes.takeError();
  Shrinker shrinker(config, *sizes);
  if (sizes->layers < config.layers)
    shrinker.shrinkLayers();
  if (sizes->vocab < config.vocabSize)
    shrinker.shrinkIds();
  if (sizes->hidden < config.hiddenSize)
    if (llvm::Error error = shrinker.shrinkWidth())
      return error;
  std::string sibling = shrinker.sibling().dump(2) + "\n";
  if (auto checked = parseConfig(sibling, allowed); !checked)
    return textError(text + ": " + llvm::toString(checked.takeError()));
  return sibling;
}
