/// The table of keys: all keys that transformers writes for these families,
/// from version 4.28 to 5, and other keys in published files. Keys that are not
/// in the table are refused.
#include "lowering/import/Ledger.h"

#include "lowering/import/Quantization.h"

#include "runtime/base/Json.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSwitch.h"

#include <cfloat>

using namespace cria;
using nlohmann::json;

using Reader = ObjectReader;
using Draft = ConfigDraft;

template <auto field, int64_t high>
static void size(Reader &reader, llvm::StringRef key, Draft &draft) {
  draft.*field = reader.integer(key, 1, high);
}

/// 0 if the key is null.
template <auto field, int64_t high>
static void optionalSize(Reader &reader, llvm::StringRef key, Draft &draft) {
  if (reader.find(key))
    draft.*field = reader.integer(key, 1, high);
}

template <auto field>
static void positive(Reader &reader, llvm::StringRef key, Draft &draft) {
  draft.*field = reader.positive(key);
}

/// 0 if the key is null.
template <auto field>
static void optionalPositive(Reader &reader, llvm::StringRef key,
                             Draft &draft) {
  if (reader.find(key))
    draft.*field = reader.positive(key);
}

template <auto field>
static void flag(Reader &reader, llvm::StringRef key, Draft &draft) {
  draft.*field = reader.flag(key, false);
}

std::optional<GateFunction> cria::gateNamed(llvm::StringRef name) {
  return llvm::StringSwitch<std::optional<GateFunction>>(name)
      .Cases({"silu", "swish"}, GateFunction::Silu)
      .Cases({"gelu_pytorch_tanh", "gelu_new", "gelu_fast"},
             GateFunction::GeluTanh)
      .Case("gelu", GateFunction::Gelu)
      .Case("relu", GateFunction::Relu)
      .Case("relu2", GateFunction::Relu2)
      .Case("quick_gelu", GateFunction::QuickGelu)
      .Default(std::nullopt);
}

template <auto field>
static void function(Reader &reader, llvm::StringRef key, Draft &draft) {
  std::string name = reader.text(key, std::nullopt);
  if (draft.family->geluIsTanh && name == "gelu")
    name = "gelu_pytorch_tanh";
  auto found = gateNamed(name);
  draft.*field = found.value_or(GateFunction::Silu);
  if (!found)
    reader.failKey(key, "expected silu, swish, gelu_pytorch_tanh, gelu_new, "
                        "gelu_fast, gelu, relu, relu2 or quick_gelu, got " +
                            shownJson(name));
}

/// The function of an MLP. It is also that of what Mamba or a delta rule
/// convolved, unless another key, which is read later, says so.
static void gate(Reader &reader, llvm::StringRef key, Draft &draft) {
  function<&Draft::gate>(reader, key, draft);
  draft.convFunction = draft.gate;
}

/// Reads a size that only families which read ids have.
template <auto field, int64_t high>
static void sizeOfText(Reader &reader, llvm::StringRef key, Draft &draft) {
  if (!draft.family->readsImages())
    size<field, high>(reader, key, draft);
}

/// Reads attention_bias. The result of attention has a bias, too, unless the
/// family says otherwise or another key, which is read later, does.
static void attentionBias(Reader &reader, llvm::StringRef key, Draft &draft) {
  draft.queryKeyValueBias = draft.outBias = reader.flag(key, false);
}

static void resultBiases(Reader &reader, llvm::StringRef key, Draft &draft) {
  if (reader.find(key))
    draft.outBias = draft.mlpBias = reader.flag(key, false);
}

/// Biases of all linears: of the head, too, if the family says so.
static void allBiases(Reader &reader, llvm::StringRef key, Draft &draft) {
  attentionBias(reader, key, draft);
  draft.mlpBias = draft.headBias = draft.queryKeyValueBias;
}

/// The width of an MLP. Its default may depend on the hidden size, which is
/// read before.
static void mlpWidth(Reader &reader, llvm::StringRef key, Draft &draft) {
  if (draft.family->reads("mlp_ratio")) // of towers
    return;
  std::optional<int64_t> usual;
  if (int64_t factor = draft.family->mlpExpansion)
    usual = factor * draft.hiddenSize;
  draft.intermediateSize = reader.integer(key, 1, kMaxDim, usual);
}

/// Embeddings are as wide as the hidden states, whose width is read before.
static void embeddingWidth(Reader &reader, llvm::StringRef key, Draft &draft) {
  int64_t hidden = draft.hiddenSize;
  if (int64_t width = reader.integer(key, 1, kMaxDim, hidden); width != hidden)
    reader.failKey(key, "only " + llvm::Twine(hidden) +
                            ", which is 'hidden_size', is supported, got " +
                            llvm::Twine(width));
}

static void logitScale(Reader &reader, llvm::StringRef key, Draft &draft) {
  draft.logitScale = reader.positive(key);
}

static void layerTypes(Reader &reader, llvm::StringRef key, Draft &draft) {
  const json *list = reader.find(key);
  if (!list && draft.family->needsLayerTypes && draft.layerTypes.empty())
    reader.fail(reader.quoted(key) + " is missing");
  if (!list)
    return;
  llvm::StringRef other = draft.family->stateType();
  if (other.empty())
    other = "sliding_attention";
  bool areParts = draft.family->hasOnePart;
  draft.layerTypes.clear();
  for (const json &type : list->is_array() ? *list : json::array({*list}))
    if (type == "full_attention" || type == other.str() ||
        (areParts && (type == "mlp" || type == "moe")))
      draft.layerTypes.push_back(type.get<std::string>());
    else if (type == "attention") // older names
      draft.layerTypes.push_back("full_attention");
    else if (type == "mamba" && other == "linear_attention")
      draft.layerTypes.push_back(other.str());
    else
      reader.failKey(key, "expected a list of full_attention" +
                              llvm::Twine(areParts ? ", mlp, moe" : "") +
                              " and " + other + ", got " + shownJson(*list));
}

/// Reads a letter for each layer. layer_types, which is read later, counts.
static void layerLetters(Reader &reader, llvm::StringRef key, Draft &draft) {
  std::string letters = reader.text(key, "");
  for (char letter : letters) {
    llvm::StringRef type = letter == 'M'   ? "linear_attention"
                           : letter == '*' ? "full_attention"
                           : letter == '-' ? "mlp"
                           : letter == 'E' ? "moe"
                                           : "";
    if (type.empty())
      return reader.failKey(key, "expected letters of M, *, - and E, got " +
                                     shownJson(letters));
    draft.layerTypes.push_back(type.str());
  }
}

/// The number of layers; if types of layers are there, that of these.
static void layers(Reader &reader, llvm::StringRef key, Draft &draft) {
  std::optional<int64_t> listed;
  if (draft.family->hasOnePart && !draft.layerTypes.empty())
    listed = static_cast<int64_t>(draft.layerTypes.size());
  draft.layers = reader.integer(key, 1, kMaxLayers, listed);
}

/// Reads a list of factors into `to`.
static void factors(Reader &reader, llvm::StringRef key,
                    llvm::ArrayRef<double *> to) {
  const json *list = reader.find(key);
  if (!list)
    return;
  bool fits = list->is_array() && list->size() == to.size();
  for (size_t i = 0; fits && i < to.size(); ++i)
    if ((fits = (*list)[i].is_number()))
      *to[i] = (*list)[i].get<double>();
  if (!fits || llvm::any_of(to, [](double *factor) {
        return !(*factor >= FLT_MIN && *factor <= FLT_MAX);
      }))
    reader.failKey(key, "expected a list of " + llvm::Twine(to.size()) +
                            " positive f32, got " + shownJson(*list));
}

static void mlpFactors(Reader &reader, llvm::StringRef key, Draft &draft) {
  factors(reader, key, {&draft.gateScale, &draft.mlpScale});
}

static void mambaFactors(Reader &reader, llvm::StringRef key, Draft &draft) {
  llvm::SmallVector<double *> each;
  for (double &factor : draft.mambaFactors)
    each.push_back(&factor);
  factors(reader, key, each);
}

/// Reads the size of a head of Mamba; 0 if it follows from other keys.
static void mambaHeadDim(Reader &reader, llvm::StringRef key, Draft &draft) {
  const json *value = reader.find(key);
  if (value && (*value != "auto" || !draft.family->reads("mamba_expand")))
    draft.deltaValueDim = reader.integer(key, 1, kMaxHeadDim);
}

static void ropeLayers(Reader &reader, llvm::StringRef key, Draft &draft) {
  const json *list = reader.find(key);
  if (!list)
    return;
  for (const json &rotates : list->is_array() ? *list : json::array({*list}))
    if (rotates == 0 || rotates == 1)
      draft.ropeLayers.push_back(rotates.get<int64_t>());
    else
      reader.failKey(key,
                     "expected a list of 0 and 1, got " + shownJson(*list));
}

/// Reads an integer of all layers. A list must have the same one for each.
static int64_t ofLayers(Reader &reader, llvm::StringRef key, int64_t low,
                        int64_t high) {
  const json *list = reader.find(key);
  if (!list || !list->is_array())
    return reader.integer(key, low, high);
  std::optional<int64_t> number;
  if (!list->empty() && llvm::all_equal(*list))
    number = wholeNumber(list->front());
  if (number && *number >= low && *number <= high)
    return *number;
  reader.failKey(key, "expected one integer for all layers, from " +
                          llvm::Twine(low) + " to " + llvm::Twine(high) +
                          ", got " + shownJson(*list));
  return low;
}

template <auto field, int64_t high>
static void sizeOfLayers(Reader &reader, llvm::StringRef key, Draft &draft) {
  if (reader.find(key))
    draft.*field = ofLayers(reader, key, 1, high);
}

/// The fewest experts: layers of Granite may have the MLP beside them alone.
static int64_t leastExperts(const Draft &draft) {
  return draft.family->reads("shared_intermediate_size") ? 0 : 1;
}

static void chosenExperts(Reader &reader, llvm::StringRef key, Draft &draft) {
  draft.chosenExperts = reader.integer(key, leastExperts(draft), kMaxExperts);
}

/// Reads the number of experts, which transformers writes by more names than
/// one.
static void experts(Reader &reader, llvm::StringRef key, Draft &draft) {
  if (!reader.find(key))
    return;
  int64_t number = ofLayers(reader, key, leastExperts(draft), kMaxExperts);
  draft.mixes &= number != 0;
  if (draft.experts && draft.experts != number)
    reader.failKey(key, "expected " + llvm::Twine(draft.experts) +
                            ", as another key says, got " +
                            llvm::Twine(number));
  draft.experts = number;
}

template <auto field>
static void listOfLayers(Reader &reader, llvm::StringRef key, Draft &draft) {
  const json *list = reader.find(key);
  if (!list)
    return;
  for (const json &layer : list->is_array() ? *list : json::array({*list}))
    if (std::optional<int64_t> number = wholeNumber(layer);
        list->is_array() && number && *number >= 0)
      (draft.*field).push_back(*number);
    else
      reader.failKey(key, "expected a list of layers, got " + shownJson(*list));
}

/// Reads the size of a convolution's filters. A filter of one number is none.
static void filterSize(Reader &reader, llvm::StringRef key, Draft &draft) {
  draft.filterSize = reader.integer(key, 2, 64);
}

/// Reads the size of a key of a recurrence. With keys of one number a layer's
/// state would have the shape of a token's values, which would be taken for a
/// copy of it.
static void keySize(Reader &reader, llvm::StringRef key, Draft &draft) {
  draft.deltaKeyDim = reader.integer(key, 2, kMaxHeadDim);
}

/// Reads the list that says for each layer whether it has experts.
static void mlpTypes(Reader &reader, llvm::StringRef key, Draft &draft) {
  const json *list = reader.find(key);
  if (!list)
    return;
  draft.firstExperts = 0;
  for (const json &type : list->is_array() ? *list : json::array({*list})) {
    if (type != "dense" && type != "sparse")
      return reader.failKey(key, "expected a list of dense and sparse, got " +
                                     shownJson(*list));
    if (type == "dense")
      draft.denseList.push_back(static_cast<int64_t>(draft.mlpTypes.size()));
    draft.mlpTypes.push_back(type.get<std::string>());
  }
}

/// Whether experts are chosen in groups.
static void choice(Reader &reader, llvm::StringRef key, Draft &draft) {
  std::string method = reader.text(key, "greedy");
  if (method == "greedy")
    draft.expertGroups = draft.keptGroups = 1;
  else if (method != "group_limited_greedy")
    reader.failKey(key, "expected greedy or group_limited_greedy, got " +
                            shownJson(method));
}

static void firstExperts(Reader &reader, llvm::StringRef key, Draft &draft) {
  draft.firstExperts = reader.integer(key, 0, kMaxLayers, 0);
}

/// transformers writes -1 for the last layer.
static void lastExperts(Reader &reader, llvm::StringRef key, Draft &draft) {
  int64_t last = reader.integer(key, -1, kMaxLayers, -1);
  if (last >= 0)
    draft.lastExperts = last;
}

/// 0 if layers have no embeddings.
static void perLayerInputSize(Reader &reader, llvm::StringRef key,
                              Draft &draft) {
  if (reader.find(key))
    draft.perLayerInputSize = reader.integer(key, 0, kMaxHeadDim);
}

static void kvSharedLayers(Reader &reader, llvm::StringRef key, Draft &draft) {
  draft.kvSharedLayers = reader.integer(key, 0, kMaxLayers, 0);
}

/// Reads sizes of heads that differ from the other layers', by layer. They must
/// be the same for all layers that have an entry.
static void ownHeads(Reader &reader, llvm::StringRef key, Draft &draft) {
  const json *layers = reader.find(key);
  if (!layers)
    return;
  for (const auto &[layer, sizes] : layers->items()) {
    int64_t number;
    if (llvm::StringRef(layer).getAsInteger(10, number) || number < 0 ||
        !sizes.is_object() || sizes != *layers->begin())
      return reader.failKey(key, "expected the same sizes of heads for each "
                                 "layer that it names, got " +
                                     shownJson(*layers));
    draft.ownHeads.push_back(number);
  }
  llvm::sort(draft.ownHeads); // nlohmann sorts them as texts
  if (draft.ownHeads.empty())
    return;
  ObjectReader own(*layers->begin(), key.str() + ".*.");
  for (const auto &[name, value] : layers->begin()->items())
    if (name != "head_dim" && name != "num_key_value_heads")
      own.failKey(name, "only head_dim and num_key_value_heads are supported");
  int64_t size = own.integer("head_dim", 2, kMaxHeadDim, draft.headDim);
  draft.fullHeads = {
      own.integer("num_key_value_heads", 1, kMaxHeads, draft.kvHeads), size};
  if (llvm::Error error = own.takeError())
    reader.fail(llvm::toString(std::move(error)));
}

/// The size of heads in layers that see all keys. per_layer_config, which
/// newer configs have, counts.
static void fullHeadDim(Reader &reader, llvm::StringRef key, Draft &draft) {
  if (!reader.find("per_layer_config"))
    draft.fullHeads.headDim = reader.integer(key, 2, kMaxHeadDim);
}

static void fullKvHeads(Reader &reader, llvm::StringRef key, Draft &draft) {
  if (reader.find(key) && !reader.find("per_layer_config"))
    draft.fullHeads.kvHeads = reader.integer(key, 1, kMaxHeads);
}

static void sharedExperts(Reader &reader, llvm::StringRef key, Draft &draft) {
  if (reader.find(key))
    draft.sharedExperts = ofLayers(reader, key, 0, kMaxExperts);
}

/// Every layer must be of type 1, full attention.
static void attentionTypes(Reader &reader, llvm::StringRef key, Draft &) {
  if (reader.find(key))
    ofLayers(reader, key, 1, 1);
}

static void quantization(Reader &reader, llvm::StringRef key, Draft &draft) {
  checkQuantization(reader, key, draft);
}

/// Whether the config switches off the family's window, as it does unless
/// use_sliding_window is true. Nothing reads the window's keys then.
static bool dropsWindow(Reader &reader, const Draft &draft) {
  WindowRule rule = draft.family->window;
  return (rule == WindowRule::LastLayers || rule == WindowRule::WithoutRope) &&
         !reader.flag("use_sliding_window", false);
}

static void window(Reader &reader, llvm::StringRef key, Draft &draft) {
  if (!dropsWindow(reader, draft))
    optionalSize<&Draft::window, (int64_t(1) << 30)>(reader, key, draft);
}

static void windowLayers(Reader &reader, llvm::StringRef key, Draft &draft) {
  if (!dropsWindow(reader, draft) && !reader.find("layer_types"))
    draft.maxWindowLayers = reader.integer(key, 0, kMaxDim, 0);
}

static void windowPattern(Reader &reader, llvm::StringRef key, Draft &draft) {
  if (!reader.find("layer_types") && reader.find(key))
    size<&Draft::windowPattern, kMaxDim>(reader, key, draft);
}

/// Whether positions are rotated at all.
static void positionKind(Reader &reader, llvm::StringRef key, Draft &draft) {
  std::string kind = reader.text(key, "nope");
  draft.rotates = kind == "rope";
  if (kind != "rope" && kind != "nope")
    reader.failKey(key, "expected rope or nope, got " + shownJson(kind));
}

/// Reads the rotated part of a query or key, which head_dim may say, too.
static void rotatedPart(Reader &reader, llvm::StringRef key, Draft &draft) {
  int64_t given = draft.headDim;
  size<&Draft::headDim, kMaxHeadDim>(reader, key, draft);
  if (given && given != draft.headDim)
    reader.failKey("head_dim", "expected " + llvm::Twine(draft.headDim) +
                                   ", as '" + key + "' says, got " +
                                   llvm::Twine(given));
}

static void ropeInterval(Reader &reader, llvm::StringRef key, Draft &draft) {
  if (!reader.find("no_rope_layers"))
    size<&Draft::noRopeInterval, kMaxDim>(reader, key, draft);
}

/// Reads dtype, or torch_dtype, its older name.
static void dtype(Reader &reader, llvm::StringRef key, Draft &draft) {
  std::string name = reader.text("dtype", ""),
              older = reader.text("torch_dtype", "");
  if (!name.empty() && !older.empty() && name != older)
    reader.fail("'dtype' and 'torch_dtype' disagree: " + shownJson(name) +
                " and " + shownJson(older));
  name = reader.text(key, "");
  if (name == "float16")
    draft.dtype = DType::F16;
  else if (name == "bfloat16")
    draft.dtype = DType::BF16;
  else if (!name.empty() && name != "float32")
    reader.failKey(key, "expected float32, float16 or bfloat16, got " +
                            shownJson(name));
}

static constexpr llvm::StringLiteral
    kReturned = "chooses what Python returns",
    kHow = "changes speed or memory, not the numbers",
    kProvenance = "provenance", kTraining = "training",
    kClasses = "classification",
    kEncoder = "models with an encoder are given as .mlir",
    kGeneration = "generation_config.json replaced this key";

static const LedgerKey kKeys[] = {
    {"_attn_implementation", false, "any", kHow, nullptr},
    {"_attn_implementation_autoset", false, "any", kHow, nullptr},
    {"_commit_hash", false, "any", kProvenance, nullptr},
    {"_flash_attn_2_enabled", false, "any", kHow, nullptr},
    {"_name_or_path", false, "any", kProvenance, nullptr},
    {"_num_labels", false, "any", kClasses, nullptr},
    {"activation_dropout", false, "any", kTraining, nullptr},
    {"add_cross_attention", false, "false", kEncoder, nullptr},
    {"architectures", true, "",
     "the model with a head; the base model, if tied", nullptr},
    {"attention_bias", false, "false", "biases of the linears of attention",
     attentionBias},
    {"attention_dropout", false, "any", kTraining, nullptr},
    {"attention_in_multiplier", false, "", "factor of what attention reads",
     positive<&Draft::attentionInScale>},
    {"attention_k_eq_v", false, "",
     "in layers that see all keys, values are made of keys",
     flag<&Draft::keysAreValues>},
    {"attention_multiplier", false, "", "factor of attention scores",
     positive<&Draft::attentionMultiplier>},
    {"attention_out_bias", false, "false", "bias of attention's result",
     flag<&Draft::outBias>},
    {"attention_out_multiplier", false, "", "factor of what attention computes",
     positive<&Draft::attentionOutScale>},
    {"attention_probs_dropout_prob", false, "any", kTraining, nullptr},
    {"attn_implementation", false, "any", kHow, nullptr},
    {"attn_logit_softcapping", false, "", "soft cap of attention scores",
     optionalPositive<&Draft::attentionSoftcap>},
    {"attn_pdrop", false, "any", kTraining, nullptr},
    {"attn_type_list", false, "", "full attention in all layers",
     attentionTypes},
    {"auto_map", false, "", "custom model code is not run", nullptr},
    {"bad_words_ids", false, "null", kGeneration, nullptr},
    {"begin_suppress_tokens", false, "null", kGeneration, nullptr},
    {"bias", false, "false", "biases of attention's result and of an MLP",
     resultBiases},
    {"block_auto_adjust_ff_dim", false, "",
     "whether two thirds of intermediate_size are the width of an MLP",
     flag<&Draft::adjustsMlp>},
    {"block_ffn_dim_multiplier", false, "", "factor of these two thirds",
     positive<&Draft::mlpFactor>},
    {"block_multiple_of", false, "", "divides the width that this makes",
     size<&Draft::mlpMultiple, kMaxDim>},
    {"bos_token_id", true, "", "begins a text, for the runtime", nullptr},
    {"cache_implementation", false, "any", kHow, nullptr},
    {"chunk_size_feed_forward", false, "0",
     "another way to compute the same numbers", nullptr},
    {"classifier_dropout", false, "any", kTraining, nullptr},
    {"clip_qkv", false, "", "queries, keys and values are not clipped",
     nullptr},
    {"conv_L_cache", false, "", "tokens that a convolution's filter reads",
     filterSize},
    {"conv_bias", false, "", "biases of convolutions and their linears",
     flag<&Draft::convBias>},
    {"cross_attention_hidden_size", false, "null", kEncoder, nullptr},
    {"decoder_sparse_step", false, "", "each n-th layer has experts",
     size<&Draft::expertInterval, kMaxDim>},
    {"decoder_start_token_id", false, "null", kGeneration, nullptr},
    {"dim_model_base", false, "", "logits are divided by hidden_size over this",
     optionalSize<&Draft::baseSize, kMaxDim>},
    {"diversity_penalty", false, "0", kGeneration, nullptr},
    {"do_sample", false, "false", kGeneration, nullptr},
    {"dropout", false, "any", kTraining, nullptr},
    {"dtype", true, "", "type of weights and activations", dtype},
    {"early_stopping", false, "false", kGeneration, nullptr},
    {"embd_pdrop", false, "any", kTraining, nullptr},
    {"embedding_dropout", false, "any", kTraining, nullptr},
    {"embedding_multiplier", false, "1", "factor of embeddings",
     optionalPositive<&Draft::embeddingMultiplier>},
    {"enable_moe_block", false, "", "whether layers have experts",
     flag<&Draft::mixes>},
    {"encoder_no_repeat_ngram_size", false, "0", kGeneration, nullptr},
    {"eod_token_id", false, "id", "nothing reads it", nullptr},
    {"eos_token_id", true, "", "ends a text, for the runtime", nullptr},
    {"exponential_decay_length_penalty", false, "null", kGeneration, nullptr},
    {"final_logit_softcapping", false, "", "soft cap of logits",
     optionalPositive<&Draft::logitSoftcap>},
    {"finetuning_task", false, "any", kProvenance, nullptr},
    {"first_k_dense_replace", false, "", "the first layers have no experts",
     firstExperts},
    {"forced_bos_token_id", false, "null", kGeneration, nullptr},
    {"forced_eos_token_id", false, "null", kGeneration, nullptr},
    {"full_attention_interval", false, "",
     "each n-th layer has attention; for configs without layer_types",
     size<&Draft::attentionInterval, kMaxDim>},
    {"full_attn_idxs", false, "",
     "layers with attention; for configs without layer_types",
     listOfLayers<&Draft::attentionList>},
    {"global_head_dim", false, "", "size of a head in layers that see all keys",
     fullHeadDim},
    {"gradient_checkpointing", false, "any", kTraining, nullptr},
    {"head_dim", true, "", "size of a head; default: hidden_size / heads",
     optionalSize<&Draft::headDim, kMaxHeadDim>},
    {"hidden_act", false, R"("gelu_pytorch_tanh")", "the gate of an MLP", gate},
    {"hidden_activation", false, R"("gelu_pytorch_tanh")", "the gate of an MLP",
     gate},
    {"hidden_dropout", false, "any", kTraining, nullptr},
    {"hidden_dropout_prob", false, "any", kTraining, nullptr},
    {"hidden_size", true, "", "width of the residual stream",
     size<&Draft::hiddenSize, kMaxDim>},
    {"hidden_size_per_layer_input", false, "",
     "size of a layer's own embedding of each id", perLayerInputSize},
    {"hybrid_override_pattern", false, "",
     "for each layer a letter: M (Mamba), * (attention), - (MLP) or E "
     "(experts)",
     layerLetters},
    {"id2label", false, "any", kClasses, nullptr},
    {"image_size", false, "", "pixels of a side of an image",
     size<&Draft::imageSize, kMaxDim>},
    {"init_std", false, "any", kTraining, nullptr},
    {"initializer_range", false, "any", kTraining, nullptr},
    {"intermediate_size", true, "", "width of an MLP", mlpWidth},
    {"is_composition", false, "any", kProvenance, nullptr},
    {"is_decoder", false, "false", "has no effect without an encoder", nullptr},
    {"is_encoder_decoder", false, "false", kEncoder, nullptr},
    {"is_llama_config", false, "true", "model_type names the family", nullptr},
    {"key_multiplier", false, "", "factor of keys", positive<&Draft::keyScale>},
    {"kv_lora_rank", false, "", "latent numbers of a token",
     size<&Draft::latentSize, kMaxDim>},
    {"label2id", false, "any", kClasses, nullptr},
    {"layer_norm_eps", false, "", "epsilon of norms",
     positive<&Draft::normEps>},
    {"layer_types", false, "",
     "for each layer, full attention, a window, or what has a state",
     layerTypes},
    {"layerdrop", false, "any", kTraining, nullptr},
    {"length_penalty", false, "1", kGeneration, nullptr},
    {"linear_conv_kernel_dim", false, "",
     "tokens that a convolution's filter reads", filterSize},
    {"linear_key_head_dim", false, "", "size of a key of the delta rule",
     keySize},
    {"linear_num_key_heads", false, "", "heads of keys of the delta rule",
     size<&Draft::deltaKeyHeads, kMaxHeads>},
    {"linear_num_value_heads", false, "", "heads of the delta rule",
     size<&Draft::deltaHeads, kMaxHeads>},
    {"linear_value_head_dim", false, "", "size of a value of the delta rule",
     size<&Draft::deltaValueDim, kMaxHeadDim>},
    {"lm_head_multiplier", false, "", "factor of logits", logitScale},
    {"logit_scale", false, "1", "factor of logits", logitScale},
    {"logits_scaling", false, "1", "divisor of logits",
     optionalPositive<&Draft::logitsScaling>},
    {"mamba_conv_bias", false, "", "biases of Mamba's convolutions",
     flag<&Draft::convBias>},
    {"mamba_d_conv", false, "", "tokens that a convolution's filter reads",
     filterSize},
    {"mamba_d_head", false, "",
     "size of a value of Mamba; auto: its width by its heads", mambaHeadDim},
    {"mamba_d_ssm", false, "",
     "width of Mamba; default: mamba_expand * hidden_size",
     optionalSize<&Draft::mambaWidth, kMaxDim>},
    {"mamba_d_state", false, "", "size of a key of Mamba", keySize},
    {"mamba_expand", false, "", "width of Mamba, in hidden sizes",
     size<&Draft::mambaExpansion, kMaxDim>},
    {"mamba_hidden_act", false, "", "the function of what Mamba convolved",
     function<&Draft::convFunction>},
    {"mamba_n_groups", false, "", "heads of keys of Mamba",
     size<&Draft::deltaKeyHeads, kMaxHeads>},
    {"mamba_n_heads", false, "", "heads of Mamba",
     size<&Draft::deltaHeads, kMaxHeads>},
    {"mamba_norm_before_gate", false, "",
     "whether the norm behind Mamba's scan is in front of its gate",
     flag<&Draft::normalizesFirst>},
    {"mamba_rms_norm", false, "", "whether Mamba has a norm behind its scan",
     flag<&Draft::normalizesScan>},
    {"max_length", false, "20", kGeneration, nullptr},
    {"max_position_embeddings", true, "", "positions that the model knows",
     sizeOfText<&Draft::maxPositions, kMaxPositions>},
    {"max_sequence_length", false, "any", "never read by transformers",
     nullptr},
    {"max_window_layers", false, "any", "first layer with a window",
     windowLayers},
    {"min_length", false, "0", kGeneration, nullptr},
    {"mlp_bias", false, "false", "biases of the linears of an MLP",
     flag<&Draft::mlpBias>},
    {"mlp_layer_types", false, "", "for each layer, dense or sparse: experts",
     mlpTypes},
    {"mlp_multipliers", false, "",
     "factors of an MLP's gate, and of what it computes", mlpFactors},
    {"mlp_only_layers", false, "[]", "layers without experts",
     listOfLayers<&Draft::denseList>},
    {"mlp_ratio", false, "", "width of an MLP, by that of the residual stream",
     positive<&Draft::mlpRatio>},
    {"model_max_length", false, "any", "never read by transformers", nullptr},
    {"model_type", true, "", "the family", nullptr},
    {"moe_intermediate_size", false, "", "width of an expert",
     sizeOfLayers<&Draft::expertSize, kMaxDim>},
    {"moe_k", false, "", "experts that a token chooses",
     size<&Draft::chosenExperts, kMaxExperts>},
    {"moe_layer_end_index", false, "", "the last layer with experts",
     lastExperts},
    {"moe_layer_interval", false, "", "each n-th layer has experts",
     size<&Draft::expertInterval, kMaxDim>},
    {"moe_layer_start_index", false, "", "the first layers have no experts",
     firstExperts},
    {"moe_norm_min", false, "",
     "the least divisor of the weights of a token's experts",
     positive<&Draft::leastScores>},
    {"moe_num_experts", false, "", "experts of a layer", experts},
    {"moe_num_shared_experts", false, "",
     "width of the MLP beside the experts, in experts", sharedExperts},
    {"moe_shared_expert_intermediate_size", false, "",
     "width of the MLP beside the experts", size<&Draft::sharedSize, kMaxDim>},
    {"moe_topk", false, "", "experts that a token chooses",
     sizeOfLayers<&Draft::chosenExperts, kMaxExperts>},
    {"n_group", false, "", "groups of experts",
     optionalSize<&Draft::expertGroups, kMaxExperts>},
    {"n_routed_experts", false, "", "experts of a layer", experts},
    {"n_shared_experts", false, "",
     "width of the MLP beside the experts, in experts", sharedExperts},
    {"neftune_noise_alpha", false, "any", kTraining, nullptr},
    {"no_repeat_ngram_size", false, "0", kGeneration, nullptr},
    {"no_rope_layer_interval", false, "",
     "each n-th layer has no rope; for configs without no_rope_layers",
     ropeInterval},
    {"no_rope_layers", false, "", "0 for each layer without rope", ropeLayers},
    {"norm_eps", false, "", "epsilon of norms", positive<&Draft::normEps>},
    {"norm_epsilon", false, "", "epsilon of norms", positive<&Draft::normEps>},
    {"norm_topk_prob", false, "",
     "the weights of a token's experts are divided by their sum",
     flag<&Draft::normalizesExperts>},
    {"num_attention_heads", true, "", "query heads",
     size<&Draft::heads, kMaxHeads>},
    {"num_beam_groups", false, "1", kGeneration, nullptr},
    {"num_beams", false, "1", kGeneration, nullptr},
    {"num_channels", false, "", "numbers of a pixel",
     size<&Draft::channels, kMaxChannels>},
    {"num_dense_layers", false, "", "the first layers have no experts",
     firstExperts},
    {"num_experts", false, "", "experts of a layer", experts},
    {"num_experts_per_tok", false, "", "experts that a token chooses",
     chosenExperts},
    {"num_global_key_value_heads", false, "",
     "KV heads of layers that see all keys", fullKvHeads},
    {"num_hidden_layers", true, "", "layers", layers},
    {"num_key_value_heads", true, "",
     "KV heads; default: as many as query heads",
     optionalSize<&Draft::kvHeads, kMaxHeads>},
    {"num_kv_shared_layers", false, "",
     "the last layers, which read the keys and values of earlier ones",
     kvSharedLayers},
    {"num_local_experts", false, "", "experts of a layer", experts},
    {"num_register_tokens", false, "", "registers",
     optionalSize<&Draft::registers, kMaxDim>},
    {"num_return_sequences", false, "1", kGeneration, nullptr},
    {"num_shared_expert", false, "",
     "width of the MLP beside the experts, in experts", sharedExperts},
    {"original_max_position_embeddings", true, "",
     "positions before rope was scaled", nullptr},
    {"output_attentions", false, "any", kReturned, nullptr},
    {"output_hidden_states", false, "any", kReturned, nullptr},
    {"output_router_logits", false, "any", kReturned, nullptr},
    {"output_scores", false, "any", kReturned, nullptr},
    {"pad_token_id", false, "id", "padding is never computed", nullptr},
    {"partial_rotary_factor", false, "1", "part of a head that is rotated",
     nullptr},
    {"patch_size", false, "", "pixels of a side of a patch",
     size<&Draft::patchSize, kMaxDim>},
    {"per_layer_config", false, "", "sizes of heads, by layer", ownHeads},
    {"position_embedding_type", false, R"("rope")",
     "rope, or nope: positions are not rotated", positionKind},
    {"prefix", false, "null", kGeneration, nullptr},
    {"pretraining_tp", false, "any", "another way to compute the same numbers",
     nullptr},
    {"problem_type", false, "any", kClasses, nullptr},
    {"pruned_heads", false, "{}", "heads are not pruned", nullptr},
    {"q_lora_rank", false, "", "latent numbers of a query",
     optionalSize<&Draft::queryLatentSize, kMaxDim>},
    {"qk_head_dim", false, "", "size of a query or key",
     optionalSize<&Draft::queryDim, 2 * kMaxHeadDim>},
    {"qk_nope_head_dim", false, "", "part of a query or key without rope",
     size<&Draft::plainDim, kMaxHeadDim>},
    {"qk_rope_head_dim", false, "", "part of a query or key with rope",
     rotatedPart},
    {"qkv_bias", false, "false", "biases of queries, keys and values",
     flag<&Draft::queryKeyValueBias>},
    {"quantization_config", true, "", "how the checkpoint stores weights",
     quantization},
    {"query_pre_attn_scalar", false, "",
     "attention scores are divided by its root", positive<&Draft::queryScalar>},
    {"remove_invalid_values", false, "false", kGeneration, nullptr},
    {"repetition_penalty", false, "1", kGeneration, nullptr},
    {"resid_pdrop", false, "any", kTraining, nullptr},
    {"residual_dropout", false, "any", kTraining, nullptr},
    {"residual_multiplier", false, "1",
     "factor of what a layer adds to the residual stream",
     optionalPositive<&Draft::residualMultiplier>},
    {"return_dict", false, "any", kReturned, nullptr},
    {"return_dict_in_generate", false, "any", kReturned, nullptr},
    {"rms_norm_eps", false, "", "epsilon of norms", positive<&Draft::normEps>},
    {"rope_interleave", false, "",
     "whether pairs that rope rotates are neighbours",
     flag<&Draft::interleavesRope>},
    {"rope_interleaved", false, "false",
     "pairs that rope rotates are no neighbours", nullptr},
    {"rope_local_base_freq", false, "",
     "base of rope's frequencies in layers with a window", nullptr},
    {"rope_parameters", true, "", "rope: its type, base and scaling", nullptr},
    {"rope_scaling", true, "", "older name of rope_parameters", nullptr},
    {"rope_theta", true, "", "base of rope's frequencies", nullptr},
    {"routed_scaling_factor", false, "",
     "factor of the weights of a token's experts",
     positive<&Draft::expertScale>},
    {"rotary_dim", false, "", "elements of a head that are rotated",
     optionalSize<&Draft::rotaryDim, kMaxHeadDim>},
    {"router_aux_loss_coef", false, "any", kTraining, nullptr},
    {"router_jitter_noise", false, "any", kTraining, nullptr},
    {"scale_depth", false, "",
     "factor of what a layer adds, divided by the root of the layers",
     optionalPositive<&Draft::depthScale>},
    {"scale_emb", false, "", "factor of embeddings",
     optionalPositive<&Draft::embeddingMultiplier>},
    {"scaled_weights", false, "false",
     "weights hold the factors of what linears read and make, and layers are "
     "in model.scaled_layers, as in GGUF files",
     flag<&Draft::scalesWeights>},
    {"sep_token_id", false, "id", "text has no segments", nullptr},
    {"shared_expert_intermediate_size", false, "",
     "width of the MLP beside the experts", size<&Draft::sharedSize, kMaxDim>},
    {"shared_intermediate_size", false, "",
     "width of the MLP beside the experts, or of the MLP if there are none",
     size<&Draft::sharedSize, kMaxDim>},
    {"sliding_window", false, "",
     "keys that a token sees in a layer with a window", window},
    {"sliding_window_pattern", false, "",
     "each n-th layer has no window; for configs without layer_types",
     windowPattern},
    {"split_kv_b", false, "false",
     "kv_b_proj is two tensors, k_b_proj and v_b_proj, as in GGUF files",
     flag<&Draft::splitsLatentHeads>},
    {"split_qkvz", false, "false",
     "in_proj_qkvz is two tensors, in_proj_qkv and in_proj_z, as in GGUF files",
     flag<&Draft::splitsDeltaGates>},
    {"ssm_in_multiplier", false, "", "factor of what Mamba reads",
     positive<&Draft::mambaInScale>},
    {"ssm_multipliers", false, "",
     "factors of Mamba's gates, values, keys, queries and steps", mambaFactors},
    {"ssm_out_multiplier", false, "", "factor of what Mamba computes",
     positive<&Draft::mambaScale>},
    {"summary_activation", false, "any", kClasses, nullptr},
    {"summary_first_dropout", false, "any", kClasses, nullptr},
    {"summary_proj_to_labels", false, "any", kClasses, nullptr},
    {"summary_type", false, "any", kClasses, nullptr},
    {"summary_use_proj", false, "any", kClasses, nullptr},
    {"suppress_tokens", false, "null", kGeneration, nullptr},
    {"swiglu_alpha", false, "", "steepness of the gate of an MLP",
     positive<&Draft::gateAlpha>},
    {"swiglu_limit", false, "", "limit of the numbers of an MLP",
     positive<&Draft::gateLimit>},
    {"task_specific_params", false, "any", "never read for these families",
     nullptr},
    {"temperature", false, "1", kGeneration, nullptr},
    {"tf_legacy_loss", false, "any", kTraining, nullptr},
    {"tie_encoder_decoder", false, "false", kEncoder, nullptr},
    {"tie_word_embeddings", true, "", "the head is the embedding",
     flag<&Draft::tied>},
    {"tokenizer_class", false, "any", "tokenizer.json names the tokenizer",
     nullptr},
    {"top_k", false, "50", kGeneration, nullptr},
    {"top_k_experts", false, "", "experts that a token chooses",
     optionalSize<&Draft::chosenExperts, kMaxExperts>},
    {"top_p", false, "1", kGeneration, nullptr},
    {"topk_group", false, "", "groups that a token chooses its experts from",
     optionalSize<&Draft::keptGroups, kMaxExperts>},
    {"topk_method", false, "", "whether experts are chosen in groups", choice},
    {"torch_dtype", true, "", "older name of dtype", dtype},
    {"torchscript", false, "any", kHow, nullptr},
    {"transformers.js_config", false, "any", "another runtime", nullptr},
    {"transformers_version", false, "any", kProvenance, nullptr},
    {"typical_p", false, "1", kGeneration, nullptr},
    {"unsloth_fixed", false, "any", kProvenance, nullptr},
    {"unsloth_version", false, "any", kProvenance, nullptr},
    {"use_bfloat16", false, "false", "dtype names the type", nullptr},
    {"use_bias", false, "false",
     "biases of the linears of attention and of an MLP", allBiases},
    {"use_bidirectional_attention", false, "false",
     "a token sees only the tokens before it", nullptr},
    {"use_cache", false, "any", kHow, nullptr},
    {"use_double_wide_mlp", false, "",
     "layers that read others' keys and values have an MLP of twice the width",
     flag<&Draft::widensShared>},
    {"use_expert_bias", false, "",
     "a correction, with which experts are chosen",
     flag<&Draft::correctsScores>},
    {"use_mrope", false, "false", "a text has one position for each token",
     nullptr},
    {"use_qk_norm", false, "", "norms of queries and keys",
     flag<&Draft::normalizesHeads>},
    {"use_qkv_bias", false, "false", "biases of queries, keys and values",
     flag<&Draft::queryKeyValueBias>},
    {"use_sliding_window", false, "false", "whether any layer has a window",
     flag<&Draft::useWindow>},
    {"v_head_dim", false, "", "size of a value",
     optionalSize<&Draft::valueDim, kMaxHeadDim>},
    {"vocab_size", true, "", "rows of the embedding",
     sizeOfText<&Draft::vocabSize, kMaxVocab>},
    {"vocab_size_per_layer_input", false, "",
     "rows of the embeddings of layers",
     optionalSize<&Draft::perLayerVocab, kMaxVocab>},
    {"word_embed_proj_dim", false, "", "width of the embedding: hidden_size",
     embeddingWidth},
};

llvm::ArrayRef<LedgerKey> cria::ledgerKeys() { return kKeys; }

bool LedgerKey::isReadBy(const Family &family) const {
  return (everywhere && !family.ignores(name)) || family.reads(name);
}

std::string LedgerKey::readers() const {
  if (everywhere)
    return "all";
  std::vector<std::string> names;
  for (const Family &family : families())
    if (family.reads(name))
      names.push_back(family.modelType.str());
  return llvm::join(names, ", ");
}

/// Checks a key that the family does not read. Returns why the key does not
/// matter.
static std::string checkIdle(const LedgerKey &entry, const json &value,
                             Reader &reader) {
  if (entry.neutral == "any" || entry.neutral == "id")
    return entry.note.str();
  if (entry.neutral.empty() && entry.readers().empty())
    reader.failKey(entry.name, entry.note);
  else if (entry.neutral.empty())
    reader.failKey(entry.name, "is read for " + entry.readers() +
                                   " only, got " + shownJson(value));
  else if (value != json::parse(entry.neutral))
    reader.failKey(entry.name, "only " + entry.neutral + " is supported, got " +
                                   shownJson(value));
  return "the value has no effect";
}

void cria::refuseUnknown(Reader &reader, llvm::StringRef key, const json &value,
                         llvm::StringRef what, Draft &draft) {
  std::string name = reader.fullName(key);
  if (llvm::is_contained(draft.allowed, name))
    draft.ledger.push_back(
        {name, shownJson(value), "allowed", "--allow-unknown"});
  else
    reader.failKey(key, what + ", got " + shownJson(value) +
                            "; an unknown key is never ignored, but "
                            "--allow-unknown=" +
                            shownText(name) + " lets it pass");
}

static void checkKey(llvm::StringRef key, const json &value, bool given,
                     Reader &reader, Draft &draft) {
  LedgerRow row{key.str(), shownJson(value), given ? "honoured" : "default",
                ""};
  const LedgerKey *entry = llvm::find_if(
      kKeys, [&](const LedgerKey &candidate) { return candidate.name == key; });
  bool known = entry != std::end(kKeys);
  const json fixed = json::parse(draft.family->fixed);
  if (auto only = fixed.find(key.str()); only != fixed.end()) {
    row.fate = "irrelevant";
    row.note = "the only value that is supported";
    if (value != *only && !value.is_null())
      reader.failKey(key, "only " + only->dump() + " is supported, got " +
                              shownJson(value));
  } else if (draft.family->ignores(key)) {
    row.fate = "irrelevant";
    row.note = "has no effect on this family's text";
  } else if (known && entry->isReadBy(*draft.family)) {
    row.note = entry->note;
  } else if (known && llvm::is_contained(draft.allowed, key)) {
    row.fate = "allowed";
    row.note = "--allow-unknown";
  } else if (value.is_null()) {
    row.fate = "irrelevant";
    row.note = "null";
  } else if (known) {
    row.fate = "irrelevant";
    row.note = checkIdle(*entry, value, reader);
  } else {
    return refuseUnknown(reader, key, value, "unknown key", draft);
  }
  draft.ledger.push_back(std::move(row));
}

void cria::checkKeys(const json &config, const std::set<std::string> &added,
                     Reader &reader, Draft &draft) {
  // nlohmann's objects are sorted by key.
  for (const auto &[key, value] : config.items())
    checkKey(key, value, !added.count(key), reader, draft);
}

void cria::checkIds(Reader &reader, Draft &draft) {
  for (const char *key :
       {"bos_token_id", "eos_token_id", "pad_token_id", "sep_token_id"}) {
    const json *found = reader.find(key);
    if (!found)
      continue;
    bool isList = found->is_array() && llvm::StringRef(key) == "eos_token_id";
    bool isRead = llvm::StringRef("bos_token_id eos_token_id").contains(key);
    for (const json &id : isList ? *found : json::array({*found})) {
      std::optional<int64_t> number = wholeNumber(id);
      if (number == -1)
        draft.warnings.push_back(reader.quoted(key) +
                                 " is -1, which is no id: read as null");
      else if (number && *number >= 0 && *number < draft.vocabSize)
        continue;
      else if (isRead || !number)
        reader.failKey(
            key, "expected ids from 0 to " + llvm::Twine(draft.vocabSize - 1) +
                     ", less than 'vocab_size', got " + shownJson(*found));
      else
        draft.warnings.push_back(reader.quoted(key) + " is " +
                                 shownJson(*found) +
                                 ", which is no id of the vocabulary; nothing "
                                 "reads it");
    }
  }
}

/// A model with a head, or its base model if the head is the embedding.
static void checkArchitecture(Reader &reader, const Draft &draft) {
  const json *names = reader.find("architectures");
  auto [name, other] = draft.family->architecture.split(' ');
  if (!names || *names == json::array({name.str()}) ||
      *names == json::array({other.str()}))
    return;
  std::string expected = json::array({name.str()}).dump();
  if (!name.consume_back("ForCausalLM"))
    name.consume_back("LMHeadModel");
  if (*names != json::array({(name + "Model").str()}))
    reader.failKey("architectures", "only " + expected + " is supported, got " +
                                        shownJson(*names));
  else if (!draft.tied)
    reader.failKey("architectures",
                   shownJson(*names) +
                       " has no head, and 'tie_word_embeddings' is false; if "
                       "the checkpoint has lm_head.weight, write " +
                       expected);
}

void cria::readKeys(Reader &reader, Draft &draft) {
  for (const LedgerKey &key : kKeys)
    if (key.read && key.isReadBy(*draft.family))
      key.read(reader, key.name, draft);
  checkArchitecture(reader, draft);
}
