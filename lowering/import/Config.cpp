#include "lowering/import/Config.h"
#include "lowering/import/Gguf.h"
#include "lowering/import/Layers.h"
#include "lowering/import/Ledger.h"
#include "lowering/import/Parts.h"

#include "llvm/Support/FormatVariadic.h"

#include <cmath>
#include <set>
#include <utility>

using namespace cria;
using nlohmann::json;

static constexpr int64_t maxFileSize = 4 << 20, maxParameters = int64_t(1)
                                                                << 42;
/// The most patches of a side of an image: a text is as long as its patches.
static constexpr int64_t kMaxImageSide = 1 << 10;
/// The most layers that are compiled one by one.
static constexpr int64_t maxBodies = 256;

/// Checks and completes the sizes of latent attention.
static void finishLatent(ObjectReader &reader, ConfigDraft &draft) {
  if (draft.kvHeads != draft.heads)
    reader.failKey("num_key_value_heads",
                   "expected " + llvm::Twine(draft.heads) +
                       ", a key for each of 'num_attention_heads', got " +
                       llvm::Twine(draft.kvHeads));
  if (!draft.valueDim)
    draft.valueDim = draft.hiddenSize / draft.heads;
  int64_t size = draft.plainDim + draft.headDim;
  if (draft.queryDim && draft.queryDim != size)
    reader.failKey("qk_head_dim", "expected " + llvm::Twine(size) +
                                      ", the sum of 'qk_nope_head_dim' and "
                                      "'qk_rope_head_dim', got " +
                                      llvm::Twine(draft.queryDim));
}

/// Checks and completes head count, KV head count and head size, which depend
/// on one another.
static void finishHeads(ObjectReader &reader, ConfigDraft &draft) {
  if (!draft.kvHeads)
    draft.kvHeads = draft.heads;
  if (!draft.family->latent.row.empty())
    finishLatent(reader, draft);
  if (draft.heads % draft.kvHeads)
    reader.fail("'num_attention_heads' " + llvm::Twine(draft.heads) +
                " is not a multiple of 'num_key_value_heads' " +
                llvm::Twine(draft.kvHeads));
  if (!draft.headDim && draft.hiddenSize % draft.heads)
    reader.fail("'hidden_size' " + llvm::Twine(draft.hiddenSize) +
                " is not a multiple of 'num_attention_heads' " +
                llvm::Twine(draft.heads) + ", and there is no 'head_dim'");
  if (!draft.headDim)
    draft.headDim = draft.hiddenSize / draft.heads;
  if (draft.headDim < 2 || draft.headDim % 2)
    reader.fail("the head size ('head_dim', or 'hidden_size' by "
                "'num_attention_heads') must be even, got " +
                llvm::Twine(draft.headDim));
}

/// Checks and completes the sizes of heads of layers that see all keys.
static void finishFullHeads(ObjectReader &reader, ConfigDraft &draft) {
  HeadSizes &full = draft.fullHeads;
  if (!full.headDim || reader.failed())
    return;
  if (!draft.keysAreValues && draft.ownHeads.empty())
    full.kvHeads = 0; // transformers reads it only then
  if (!full.kvHeads)
    full.kvHeads = draft.kvHeads;
  if (draft.heads % full.kvHeads)
    reader.fail("'num_attention_heads' " + llvm::Twine(draft.heads) +
                " is not a multiple of 'num_global_key_value_heads' " +
                llvm::Twine(full.kvHeads));
  if (full.headDim % 2)
    reader.fail("'global_head_dim' must be even, got " +
                llvm::Twine(full.headDim));
}

/// Checks the table of the layers' own embeddings.
static void checkPerLayerInputs(ObjectReader &reader,
                                const ConfigDraft &draft) {
  if (draft.perLayerInputSize && draft.perLayerVocab < draft.vocabSize)
    reader.failKey("vocab_size_per_layer_input",
                   "expected at least 'vocab_size', " +
                       llvm::Twine(draft.vocabSize) + ", got " +
                       llvm::Twine(draft.perLayerVocab));
}

/// The key that says how many experts a token chooses.
static llvm::StringRef chosenKey(const Family &family) {
  for (const char *key : {"moe_k", "moe_topk", "top_k_experts"})
    if (family.reads(key))
      return key;
  return "num_experts_per_tok";
}

/// Checks and completes the numbers of experts.
static void finishExperts(ObjectReader &reader, ConfigDraft &draft) {
  const Family &family = *draft.family;
  if (!draft.mixes)
    draft.experts = 0;
  if (!draft.mixes && draft.sharedSize) // Granite's MLP
    draft.intermediateSize = std::exchange(draft.sharedSize, 0);
  if (family.experts.router.empty() || !draft.mixes)
    return;
  for (const char *key : {"moe_num_experts", "n_routed_experts", "num_experts",
                          "num_local_experts"})
    if (!draft.experts && family.reads(key) && !reader.failed())
      reader.fail("'" + llvm::Twine(key) + "' is missing");
  if (reader.failed())
    return;
  if (!draft.expertSize)
    draft.expertSize = draft.intermediateSize;
  draft.sharedSize += draft.sharedExperts * draft.expertSize;
  int64_t groups = draft.expertGroups, kept = draft.keptGroups,
          size = draft.experts / groups;
  if (!draft.chosenExperts)
    reader.fail(reader.quoted(chosenKey(family)) + " is missing");
  else if (draft.chosenExperts > draft.experts)
    reader.fail(reader.quoted(chosenKey(family)) + ": expected at most " +
                llvm::Twine(draft.experts) + ", the number of experts, got " +
                llvm::Twine(draft.chosenExperts));
  else if (draft.experts % groups || (groups > 1 && size < 2))
    reader.fail("'n_group': expected a divisor of " +
                llvm::Twine(draft.experts) +
                ", the number of experts, with at least 2 experts in a group, "
                "got " +
                llvm::Twine(groups));
  else if (kept > groups || kept * size < draft.chosenExperts)
    reader.fail("'topk_group': expected at most " + llvm::Twine(groups) +
                " groups with at least " + llvm::Twine(draft.chosenExperts) +
                " experts, got " + llvm::Twine(kept) + " of " +
                llvm::Twine(size) + " each");
}

/// Checks and completes the heads of layers with a matrix.
static void finishMatrices(ObjectReader &reader, ConfigDraft &draft) {
  if (!draft.deltaKeyHeads || reader.failed() ||
      llvm::none_of(draft.kinds, [](auto &kind) { return kind.hasState; }))
    return;
  bool isMamba = !draft.family->mamba.in.empty();
  const char *heads = isMamba ? "mamba_n_heads" : "linear_num_value_heads",
             *keyHeads = isMamba ? "mamba_n_groups" : "linear_num_key_heads";
  if (draft.deltaHeads % draft.deltaKeyHeads)
    reader.failKey(heads, "expected a multiple of " +
                              llvm::Twine(draft.deltaKeyHeads) + ", which is " +
                              reader.quoted(keyHeads) + ", got " +
                              llvm::Twine(draft.deltaHeads));
  if (!isMamba || !draft.family->reads("mamba_expand"))
    return;
  int64_t width = draft.mambaWidth ? draft.mambaWidth
                                   : draft.mambaExpansion * draft.hiddenSize;
  if (!draft.deltaValueDim)
    draft.deltaValueDim = width / draft.deltaHeads;
  if (draft.deltaValueDim * draft.deltaHeads != width)
    reader.failKey("mamba_d_head", "expected heads of " + llvm::Twine(width) +
                                       " numbers together, got " +
                                       llvm::Twine(draft.deltaHeads) + " of " +
                                       llvm::Twine(draft.deltaValueDim));
}

/// Sets the width of an MLP, which `key` and other keys make.
static void setMlpWidth(ObjectReader &reader, ConfigDraft &draft,
                        llvm::StringRef key, double width) {
  if (width < 1 || width > kMaxDim)
    reader.fail("'" + key + "': expected an MLP of 1 to " +
                llvm::Twine(kMaxDim) + ", got " +
                llvm::Twine(llvm::formatv("{0}", width).str()));
  else
    draft.intermediateSize = static_cast<int64_t>(width);
}

/// Completes the width of an MLP, as Lfm2MLP does.
static void finishMlp(ObjectReader &reader, ConfigDraft &draft) {
  if (!draft.adjustsMlp)
    return;
  double width = static_cast<double>(2 * draft.intermediateSize / 3);
  width = std::floor(draft.mlpFactor * width);
  auto multiple = static_cast<double>(draft.mlpMultiple);
  setMlpWidth(reader, draft, "block_ffn_dim_multiplier",
              std::ceil(width / multiple) * multiple);
}

static void finishFactors(ConfigDraft &draft) {
  double scores = draft.queryScalar
                      ? draft.queryScalar
                      : static_cast<double>(draft.plainDim + draft.headDim);
  if (draft.family->dividesScores || draft.queryScalar)
    draft.attentionScale = std::pow(scores, -0.5) * draft.scoreFactor;
  if (!draft.family->experts.routerNorm.empty())
    draft.routerScale = std::pow(static_cast<double>(draft.hiddenSize), -0.5);
  if (draft.attentionMultiplier)
    draft.attentionScale = draft.attentionMultiplier;
  if (draft.family->scalesEmbedding)
    draft.embeddingScale = std::sqrt(static_cast<double>(draft.hiddenSize));
  if (draft.embeddingMultiplier)
    draft.embeddingScale = draft.embeddingMultiplier;
  // Queries and keys are made of what attention reads, and so are values.
  draft.attentionScale *=
      draft.attentionInScale * draft.attentionInScale * draft.keyScale;
  draft.attentionOutScale *= draft.attentionInScale;
  for (double &factor : draft.mambaFactors)
    factor *= draft.mambaInScale;
  if (draft.residualMultiplier)
    draft.residualScale = draft.residualMultiplier;
  if (draft.logitsScaling)
    draft.logitScale = 1 / draft.logitsScaling;
  if (draft.depthScale)
    draft.residualScale =
        draft.depthScale / std::sqrt(static_cast<double>(draft.layers));
  if (draft.baseSize)
    draft.logitScale = static_cast<double>(draft.baseSize) /
                       static_cast<double>(draft.hiddenSize);
}

static void finishBiases(ConfigDraft &draft) {
  auto finish = [](Bias rule, bool &bias) {
    if (rule != Bias::Given)
      bias = rule == Bias::Always;
  };
  const Biases &rules = draft.family->biases;
  finish(rules.queryKeyValue, draft.queryKeyValueBias);
  finish(rules.out, draft.outBias);
  finish(rules.mlp, draft.mlpBias);
  finish(rules.head, draft.headBias);
}

/// Whether a layer has the window by the family's own rule.
static bool hasWindow(const ConfigDraft &draft, size_t layer) {
  switch (draft.family->window) {
  case WindowRule::None:
    return false;
  case WindowRule::Always:
    return true;
  case WindowRule::LastLayers:
    return draft.useWindow &&
           static_cast<int64_t>(layer) >= draft.maxWindowLayers;
  case WindowRule::FromLayer:
    return static_cast<int64_t>(layer) >= draft.maxWindowLayers;
  case WindowRule::Pattern:
    return (static_cast<int64_t>(layer) + 1) % draft.windowPattern != 0;
  case WindowRule::PatternAndLast:
    return (static_cast<int64_t>(layer) + 1) % draft.windowPattern != 0 &&
           static_cast<int64_t>(layer) + 1 < draft.layers;
  case WindowRule::WithoutRope:
    return draft.useWindow && !draft.kinds[layer].rotates;
  }
  llvm_unreachable("unknown rule");
}

/// Whether a layer's MLP is a mixture of experts.
static bool hasExperts(const ConfigDraft &draft, int64_t layer) {
  return draft.experts && layer >= draft.firstExperts &&
         layer <= draft.lastExperts &&
         (layer + 1) % draft.expertInterval == 0 &&
         !llvm::is_contained(draft.denseList, layer);
}

/// Whether a layer rotates queries and keys by the family's own rule.
static bool rotates(const ConfigDraft &draft, bool hasWindow) {
  switch (draft.family->rope.layers) {
  case RotatedLayers::All:
    return true;
  case RotatedLayers::Windowed:
    return hasWindow;
  case RotatedLayers::WindowedIfAny:
    return hasWindow || !draft.window;
  case RotatedLayers::None:
    return false;
  }
  llvm_unreachable("unknown rule");
}

/// Checks a list with one entry for each layer. Returns false after an error,
/// and if there is no list.
static bool hasEntries(ObjectReader &reader, llvm::StringRef key, size_t size,
                       const ConfigDraft &draft) {
  auto layers = static_cast<size_t>(draft.layers);
  // SmolLM3 may have more entries than layers.
  if (size && size != layers && (key != "no_rope_layers" || size < layers))
    reader.failKey(key, "expected " + llvm::Twine(layers) +
                            " entries, one for each of 'num_hidden_layers', "
                            "got " +
                            llvm::Twine(size));
  return size && !reader.failed();
}

/// Refuses layers whose kinds repeat so little that too much code is made of
/// them.
static void checkRuns(ObjectReader &reader, llvm::ArrayRef<LayerKind> kinds) {
  int64_t bodies = 0;
  for (const LayerRun &run : layerRuns(kinds))
    bodies += run.period;
  if (bodies > maxBodies && !reader.failed())
    reader.fail(
        "'layer_types', 'no_rope_layers' and 'mlp_only_layers': expected a "
        "pattern that repeats, because other layers are compiled one by one, "
        "at most " +
        llvm::Twine(maxBodies) + ", got " + llvm::Twine(bodies));
}

/// Refuses layers that read keys and values which no layer before them has, and
/// sizes of heads of other layers than those that see all keys.
static void checkSharedKv(ObjectReader &reader, const ConfigDraft &draft) {
  auto isFull = [](const LayerKind &kind) { return !kind.window; };
  llvm::ArrayRef<LayerKind> kinds = draft.kinds;
  if (draft.family->window == WindowRule::PatternAndLast && kinds.back().window)
    reader.failKey("layer_types", "expected the last layer to be "
                                  "full_attention, got sliding_attention");
  for (const LayerKind &kind : kinds)
    if (kind.sharesKv && llvm::none_of(kinds, [&](const LayerKind &other) {
          return !other.sharesKv && isFull(other) == isFull(kind);
        }))
      return reader.failKey("num_kv_shared_layers",
                            "expected layers of each type before the last " +
                                llvm::Twine(draft.kvSharedLayers) +
                                ", whose keys and values these read");
  std::vector<int64_t> full;
  for (auto [i, kind] : llvm::enumerate(kinds))
    if (isFull(kind))
      full.push_back(static_cast<int64_t>(i));
  if (!draft.ownHeads.empty() && draft.ownHeads != full)
    reader.failKey("per_layer_config",
                   "expected an entry for each layer with full_attention, and "
                   "no other");
}

static void finishLayers(ObjectReader &reader, ConfigDraft &draft) {
  draft.kinds.assign(static_cast<size_t>(draft.layers), LayerKind());
  bool ropeListed =
      hasEntries(reader, "no_rope_layers", draft.ropeLayers.size(), draft);
  bool typesListed =
      hasEntries(reader, "layer_types", draft.layerTypes.size(), draft);
  bool attentionListed = reader.find("full_attn_idxs") != nullptr;
  hasEntries(reader, "mlp_layer_types", draft.mlpTypes.size(), draft);
  for (size_t i = 0; i < draft.kinds.size() && !reader.failed(); ++i) {
    LayerKind &kind = draft.kinds[i];
    if (ropeListed)
      kind.rotates = draft.ropeLayers[i];
    else if (draft.noRopeInterval)
      kind.rotates = (static_cast<int64_t>(i) + 1) % draft.noRopeInterval != 0;
    kind.hasState =
        typesListed ? draft.layerTypes[i] == draft.family->stateType()
        : draft.attentionInterval
            ? (static_cast<int64_t>(i) + 1) % draft.attentionInterval != 0
            : attentionListed && !llvm::is_contained(draft.attentionList,
                                                     static_cast<int64_t>(i));
    kind.attends = !kind.hasState;
    if (draft.family->mamba.isBeside)
      kind.attends = kind.hasState = true;
    bool hasOnePart = draft.family->hasOnePart && typesListed;
    if (hasOnePart) {
      kind.attends = draft.layerTypes[i] == "full_attention";
      kind.hasMlp = !kind.attends && !kind.hasState;
    }
    bool sees = typesListed ? draft.layerTypes[i] == "sliding_attention"
                            : draft.window && hasWindow(draft, i);
    if (sees && !draft.window)
      reader.failKey("layer_types", "has sliding_attention, but there is no "
                                    "'sliding_window'");
    kind.window = sees ? draft.window : 0;
    kind.rotates &= draft.rotates && rotates(draft, sees);
    kind.rope = sees && !draft.ropes.empty() ? draft.ropes.size() - 1 : 0;
    kind.hasExperts = hasOnePart ? draft.layerTypes[i] == "moe"
                                 : hasExperts(draft, static_cast<int64_t>(i));
    kind.sharesKv =
        static_cast<int64_t>(i) >= draft.layers - draft.kvSharedLayers;
  }
  checkRuns(reader, draft.kinds);
  checkSharedKv(reader, draft);
}

/// The parameters of a layer's attention.
static int64_t attentionParameters(const ModelConfig &c) {
  if (!c.latentSize)
    return 2 * c.hiddenSize * std::max(c.headDim, c.fullHeads.headDim) *
           (c.heads + std::max(c.kvHeads, c.fullHeads.kvHeads));
  int64_t query = c.heads * (c.plainDim + c.headDim),
          keysAndValues = c.heads * (c.plainDim + c.valueDim),
          rank = c.queryLatentSize;
  int64_t ofQuery = rank ? rank * (c.hiddenSize + query) : c.hiddenSize * query;
  return ofQuery + c.hiddenSize * (c.latentSize + c.headDim) +
         c.latentSize * keysAndValues + c.heads * c.valueDim * c.hiddenSize;
}

/// Refuses a model that is too large for any machine. Within the bounds no
/// product overflows.
static void checkSize(const ModelConfig &c, ObjectReader &reader) {
  int64_t attention = attentionParameters(c),
          inner = std::max(c.intermediateSize * (c.widensShared ? 2 : 1),
                           c.experts * c.expertSize + c.sharedSize),
          mlp = 3 * c.hiddenSize * inner;
  int64_t embedding = c.perLayerInputSize * (c.vocabSize + 3 * c.hiddenSize),
          perLayer = attention + mlp + embedding,
          ends = 2 * c.vocabSize * c.hiddenSize;
  if (perLayer > maxParameters / c.layers ||
      perLayer * c.layers + ends > maxParameters)
    reader.fail("expected at most " + llvm::Twine(maxParameters) +
                " parameters, got " + llvm::Twine(c.layers) + " layers of " +
                llvm::Twine(perLayer));
}

/// The config of a model's text: text_config with the keys around it, which
/// count where both have a key. Adds keys that have no effect on the text to
/// the ledger. Returns the family of the text, or null after an error.
static const Family *unnest(json &config, const Family &outer,
                            ObjectReader &reader, ConfigDraft &draft) {
  json text = config.value("text_config", json());
  if (!text.is_object()) {
    reader.failKey("text_config", "expected an object, got " + shownJson(text));
    return nullptr;
  }
  ObjectReader inner(text, "text_config.");
  std::string type = inner.text("model_type", outer.text.str());
  const Family *family = findFamily(type);
  if (!family || !family->text.empty())
    inner.failKey("model_type",
                  "expected the family of a text, got " + shownJson(type));
  if (llvm::Error error = inner.takeError()) {
    reader.fail(llvm::toString(std::move(error)));
    return nullptr;
  }
  if (config.value("architectures", json()) ==
      json::array({outer.architecture.str()}))
    config["architectures"] = json::array({family->architecture.str()});
  for (const auto &[key, value] : config.items())
    if (outer.ignores(key))
      draft.ledger.push_back({key, shownJson(value), "irrelevant",
                              "has no effect on the model's text"});
    else if (key != "text_config" && key != "model_type" && !value.is_null())
      text[key] = value;
  const json defaults = json::parse(outer.textDefaults);
  if (type == outer.text)
    for (const auto &[key, value] : defaults.items())
      text.emplace(key, value);
  text["model_type"] = type;
  config = std::move(text);
  return family;
}

/// "gemma, gemma2, ... or smollm3"
static std::string familyNames() {
  std::string names;
  for (const Family &family : families().drop_back())
    names += (names.empty() ? "" : ", ") + family.modelType.str();
  return names + " or " + families().back().modelType.str();
}

std::set<std::string> cria::addDefaults(const Family &family, json &config) {
  std::set<std::string> added;
  json defaults = json::parse(family.defaults);
  json scaling = config.value("rope_scaling", json()); // an older name
  if (scaling == json::object())
    config.erase("rope_scaling"); // stands for the default in transformers
  else if (!scaling.is_null())
    defaults.erase("rope_parameters");
  if (config.value("rope_parameters", json()).is_null())
    config.erase("rope_parameters"); // null stands for the default
  for (const auto &[key, value] : defaults.items())
    if (config.emplace(key, value).second)
      added.insert(key);
  return added;
}

/// Pairs of usual names of keys and the family's own.
using Names = std::vector<std::pair<std::string, std::string>>;

/// Gives the keys of a config that the family calls otherwise their usual
/// names. Refuses a usual name that transformers does not read, unless the
/// value is the default, or `draft` allows the key. Returns the names that
/// messages undo: all but those that the config has as they are.
static llvm::Expected<Names> useUsualNames(const Family &family, json &config,
                                           ConfigDraft &draft) {
  Names names;
  const json defaults = json::parse(family.defaults);
  for (const auto &[own, usual] : family.ownNames()) {
    json value = config.value(own, json()), other = config.value(usual, json());
    if (!other.is_null() && !value.is_null() && other != value)
      return textError("'" + own + "' and '" + usual + "' disagree: " +
                       shownJson(value) + " and " + shownJson(other));
    bool isRead = !value.is_null() || family.readsUsual(usual) ||
                  other == defaults.value(usual, json());
    if (!other.is_null() && !isRead) {
      if (!llvm::is_contained(draft.allowed, usual))
        return textError("'" + usual + "': transformers reads '" + own +
                         "' instead for " + family.modelType + ", got " +
                         shownJson(other));
      draft.ledger.push_back(
          {usual, shownJson(other), "allowed", "--allow-unknown"});
      config.erase(usual);
    } else if (other.is_null()) {
      names.emplace_back(usual, own);
      if (config.contains(own))
        config[usual] = value;
    }
    config.erase(own);
  }
  return names;
}

json cria::inOwnNames(const Family &family, json config) {
  for (const auto &[own, usual] : family.ownNames())
    if (auto found = config.find(usual); found != config.end()) {
      config[own] = *found;
      config.erase(usual);
    }
  return config;
}

/// Checks and completes the sizes of a vision tower. What does not fill a
/// patch, at the right and below, is not read. A row of an image is a position.
static void finishVision(ObjectReader &reader, ConfigDraft &draft) {
  const VisionModules &modules = draft.family->vision;
  int64_t side = draft.imageSize / draft.patchSize;
  if (side < 1)
    reader.fail("'patch_size': expected at most " +
                llvm::Twine(draft.imageSize) + ", the 'image_size', got " +
                llvm::Twine(draft.patchSize));
  if (side > kMaxImageSide)
    reader.fail("'image_size': expected at most " + llvm::Twine(kMaxImageSide) +
                " patches a side, got " + llvm::Twine(side));
  if (draft.mlpRatio > 0)
    setMlpWidth(reader, draft, "mlp_ratio",
                static_cast<double>(draft.hiddenSize) * draft.mlpRatio);
  draft.usedLayers = draft.layers;
  draft.vocabSize = 1; // there are no ids
  draft.maxPositions =
      side * side + draft.registers + (modules.classRow.empty() ? 0 : 1);
  draft.rotates = false;
}

void cria::readAll(const json &config, const std::set<std::string> &added,
                   ObjectReader &reader, ConfigDraft &draft) {
  checkKeys(config, added, reader, draft);
  readKeys(reader, draft);
  if (reader.failed())
    return;
  bool isTower = draft.family->readsImages();
  if (isTower)
    finishVision(reader, draft);
  else
    checkIds(reader, draft);
  finishHeads(reader, draft);
  finishMlp(reader, draft);
  finishFullHeads(reader, draft);
  finishExperts(reader, draft);
  checkPerLayerInputs(reader, draft);
  if (reader.failed())
    return;
  if (!isTower && draft.family->rope.layers != RotatedLayers::None)
    readRope(reader, draft);
  finishLayers(reader, draft);
  finishMatrices(reader, draft);
  finishFactors(draft);
  finishBiases(draft);
  checkSize(draft, reader);
}

/// Python's json writes Infinity, which JSON has not. Reads it as transformers
/// 5 writes it.
static std::string tagInfinities(llvm::StringRef text) {
  std::string tagged;
  bool isQuoted = false;
  while (!text.empty()) {
    if (!isQuoted && text.consume_front("Infinity")) {
      tagged += R"({"__float__": "Infinity"})";
      continue;
    }
    size_t size = isQuoted && text.front() == '\\' ? 2 : 1;
    isQuoted ^= text.front() == '"';
    tagged += text.take_front(size);
    text = text.drop_front(std::min(size, text.size()));
  }
  return tagged;
}

llvm::Expected<ModelConfig>
cria::parseConfig(llvm::StringRef text, llvm::ArrayRef<std::string> allowed,
                  llvm::ArrayRef<Family> table, llvm::StringRef part) {
  llvm::Expected<json> config = parseJsonObject(
      text.contains("Infinity") ? tagInfinities(text) : text.str());
  if (!config)
    return config.takeError();
  ObjectReader typeReader(*config);
  std::string type = typeReader.text("model_type", std::nullopt);
  const Family *family = findFamily(type, table);
  if (!family)
    typeReader.failKey(
        "model_type", "expected " + familyNames() + ", got " + shownJson(type) +
                          "; other transformers can be written in the llama "
                          "dialect (examples/graphs)");
  if (typeReader.failed())
    return typeReader.takeError();
  if (part != kTextPart)
    return parsePart(*config, *family, part, allowed);
  ConfigDraft draft;
  json inner = json::object();
  if (!family->text.empty()) {
    addDefaults(*family, *config);
    inner = config->value("text_config", json());
    draft.seesAhead = family->seesAhead;
    family = unnest(*config, *family, typeReader, draft);
    if (typeReader.failed())
      return typeReader.takeError();
  }
  draft.family = family;
  draft.windowPattern = family->windowPattern;
  draft.interleavesRope = family->rope.isInterleaved;
  draft.allowed = allowed;
  llvm::Expected<Names> names = useUsualNames(*family, *config, draft);
  if (!names)
    return names.takeError();
  draft.json = config->dump();
  std::set<std::string> added = addDefaults(*family, *config);
  ObjectReader reader(*config, "", &inner, "text_config.");
  readAll(*config, added, reader, draft);
  if (reader.failed())
    return textError(renamed(llvm::toString(reader.takeError()), *names));
  for (std::string &line : draft.warnings)
    line = renamed(line, *names);
  for (LedgerRow &row : draft.ledger)
    for (const auto &[usual, own] : *names)
      if (row.key == usual)
        row.key = own;
  llvm::stable_sort(draft.ledger, [](const LedgerRow &a, const LedgerRow &b) {
    return a.key < b.key;
  });
  return static_cast<ModelConfig &&>(draft);
}

llvm::Expected<ModelConfig>
cria::readConfig(llvm::StringRef path, llvm::ArrayRef<std::string> allowed,
                 llvm::StringRef part) {
  if (isGguf(path) && part != kTextPart)
    return textError(path +
                     ": a GGUF file has no part but the text, got "
                     "--part=" +
                     part);
  if (isGguf(path))
    return readGgufConfig(path, allowed);
  llvm::Expected<std::string> text = readTextFile(path, maxFileSize);
  if (!text)
    return text.takeError();
  llvm::Expected<ModelConfig> config =
      parseConfig(*text, allowed, families(), part);
  if (!config)
    return textError(path + ": " + llvm::toString(config.takeError()));
  for (std::string &line : config->warnings)
    line = (path + ": " + line).str();
  return config;
}
