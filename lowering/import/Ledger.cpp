/// The table of keys: all keys that transformers writes for these families,
/// from version 4.28 to 5, and other keys in published files. Keys that are not
/// in the table are refused.
#include "lowering/import/Ledger.h"

#include "lowering/import/Quantization.h"

#include "runtime/base/Json.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSwitch.h"

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

static void gate(Reader &reader, llvm::StringRef key, Draft &draft) {
  std::string name = reader.text(key, std::nullopt);
  // The first files of Gemma say gelu but mean its tanh approximation.
  if (draft.family->modelType == "gemma" && name == "gelu")
    name = "gelu_pytorch_tanh";
  auto found =
      llvm::StringSwitch<std::optional<GateFunction>>(name)
          .Cases({"silu", "swish"}, GateFunction::Silu)
          .Cases({"gelu_pytorch_tanh", "gelu_new"}, GateFunction::GeluTanh)
          .Case("gelu", GateFunction::Gelu)
          .Case("relu", GateFunction::Relu)
          .Case("relu2", GateFunction::Relu2)
          .Default(std::nullopt);
  draft.gate = found.value_or(GateFunction::Silu);
  if (!found)
    reader.failKey(key, "expected silu, swish, gelu_pytorch_tanh, gelu_new, "
                        "gelu, relu or relu2, got " +
                            shownJson(name));
}

static void layerTypes(Reader &reader, llvm::StringRef key, Draft &draft) {
  const json *list = reader.find(key);
  if (!list)
    return;
  for (const json &type : list->is_array() ? *list : json::array({*list}))
    if (type == "full_attention" || type == "sliding_attention")
      draft.layerTypes.push_back(type.get<std::string>());
    else
      reader.failKey(key, "expected a list of full_attention and "
                          "sliding_attention, got " +
                              shownJson(*list));
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
    {"_attn_implementation", "", "any", kHow, nullptr},
    {"_attn_implementation_autoset", "", "any", kHow, nullptr},
    {"_commit_hash", "", "any", kProvenance, nullptr},
    {"_name_or_path", "", "any", kProvenance, nullptr},
    {"add_cross_attention", "", "false", kEncoder, nullptr},
    {"architectures", "*", "", "the model with a head; the base model, if tied",
     nullptr},
    {"attention_bias", "gemma gemma2 granite llama olmo2 qwen3 smollm3",
     "false", "biases of the linears of attention",
     flag<&Draft::attentionBias>},
    {"attention_dropout", "", "any", kTraining, nullptr},
    {"attention_multiplier", "granite", "", "factor of attention scores",
     positive<&Draft::attentionMultiplier>},
    {"attn_logit_softcapping", "gemma2", "", "soft cap of attention scores",
     optionalPositive<&Draft::attentionSoftcap>},
    {"auto_map", "", "", "custom model code is not run", nullptr},
    {"bad_words_ids", "", "null", kGeneration, nullptr},
    {"begin_suppress_tokens", "", "null", kGeneration, nullptr},
    {"bos_token_id", "*", "", "begins a text, for the runtime", nullptr},
    {"cache_implementation", "", "any", kHow, nullptr},
    {"chunk_size_feed_forward", "", "0",
     "another way to compute the same numbers", nullptr},
    {"cross_attention_hidden_size", "", "null", kEncoder, nullptr},
    {"decoder_start_token_id", "", "null", kGeneration, nullptr},
    {"diversity_penalty", "", "0", kGeneration, nullptr},
    {"do_sample", "", "false", kGeneration, nullptr},
    {"dtype", "*", "", "type of weights and activations", dtype},
    {"early_stopping", "", "false", kGeneration, nullptr},
    {"embd_pdrop", "", "any", kTraining, nullptr},
    {"embedding_multiplier", "granite", "1", "factor of embeddings",
     optionalPositive<&Draft::embeddingMultiplier>},
    {"encoder_no_repeat_ngram_size", "", "0", kGeneration, nullptr},
    {"eos_token_id", "*", "", "ends a text, for the runtime", nullptr},
    {"exponential_decay_length_penalty", "", "null", kGeneration, nullptr},
    {"final_logit_softcapping", "gemma2", "", "soft cap of logits",
     optionalPositive<&Draft::logitSoftcap>},
    {"finetuning_task", "", "any", kProvenance, nullptr},
    {"forced_bos_token_id", "", "null", kGeneration, nullptr},
    {"forced_eos_token_id", "", "null", kGeneration, nullptr},
    {"head_dim", "*", "", "size of a head; default: hidden_size / heads",
     optionalSize<&Draft::headDim, kMaxHeadDim>},
    {"hidden_act", "gemma granite llama mistral olmo2 phi3 qwen2 qwen3 smollm3",
     R"("gelu_pytorch_tanh")", "the gate of an MLP", gate},
    {"hidden_activation", "gemma2", R"("gelu_pytorch_tanh")",
     "the gate of an MLP", gate},
    {"hidden_size", "*", "", "width of the residual stream",
     size<&Draft::hiddenSize, kMaxDim>},
    {"id2label", "", "any", kClasses, nullptr},
    {"initializer_range", "", "any", kTraining, nullptr},
    {"intermediate_size", "*", "", "width of an MLP",
     size<&Draft::intermediateSize, kMaxDim>},
    {"is_decoder", "", "false", "has no effect without an encoder", nullptr},
    {"is_encoder_decoder", "", "false", kEncoder, nullptr},
    {"label2id", "", "any", kClasses, nullptr},
    {"layer_types", "gemma2 qwen2 qwen3 smollm3", "",
     "for each layer, full attention or a window", layerTypes},
    {"length_penalty", "", "1", kGeneration, nullptr},
    {"logits_scaling", "granite", "1", "divisor of logits",
     optionalPositive<&Draft::logitsScaling>},
    {"max_length", "", "20", kGeneration, nullptr},
    {"max_position_embeddings", "*", "", "positions that the model knows",
     size<&Draft::maxPositions, kMaxPositions>},
    {"max_sequence_length", "", "any", "never read by transformers", nullptr},
    {"max_window_layers", "qwen2 qwen3", "any", "first layer with a window",
     windowLayers},
    {"min_length", "", "0", kGeneration, nullptr},
    {"mlp_bias", "granite llama smollm3", "false",
     "biases of the linears of an MLP", flag<&Draft::mlpBias>},
    {"model_type", "*", "", "the family", nullptr},
    {"no_repeat_ngram_size", "", "0", kGeneration, nullptr},
    {"no_rope_layer_interval", "smollm3", "",
     "each n-th layer has no rope; for configs without no_rope_layers",
     ropeInterval},
    {"no_rope_layers", "smollm3", "", "0 for each layer without rope",
     ropeLayers},
    {"num_attention_heads", "*", "", "query heads",
     size<&Draft::heads, kMaxHeads>},
    {"num_beam_groups", "", "1", kGeneration, nullptr},
    {"num_beams", "", "1", kGeneration, nullptr},
    {"num_hidden_layers", "*", "", "layers", size<&Draft::layers, kMaxLayers>},
    {"num_key_value_heads", "*", "",
     "KV heads; default: as many as query heads",
     optionalSize<&Draft::kvHeads, kMaxHeads>},
    {"num_return_sequences", "", "1", kGeneration, nullptr},
    {"original_max_position_embeddings", "*", "",
     "positions before rope was scaled", nullptr},
    {"output_attentions", "", "any", kReturned, nullptr},
    {"output_hidden_states", "", "any", kReturned, nullptr},
    {"output_scores", "", "any", kReturned, nullptr},
    {"pad_token_id", "", "id", "padding is never computed", nullptr},
    {"partial_rotary_factor", "phi3", "1", "part of a head that is rotated",
     nullptr},
    {"prefix", "", "null", kGeneration, nullptr},
    {"pretraining_tp", "", "1", "another way to compute the same numbers",
     nullptr},
    {"problem_type", "", "any", kClasses, nullptr},
    {"pruned_heads", "", "{}", "heads are not pruned", nullptr},
    {"quantization_config", "*", "", "how the checkpoint stores weights",
     quantization},
    {"query_pre_attn_scalar", "gemma2", "",
     "attention scores are divided by its root", positive<&Draft::queryScalar>},
    {"remove_invalid_values", "", "false", kGeneration, nullptr},
    {"repetition_penalty", "", "1", kGeneration, nullptr},
    {"resid_pdrop", "", "any", kTraining, nullptr},
    {"residual_multiplier", "granite", "1",
     "factor of what a layer adds to the residual stream",
     optionalPositive<&Draft::residualMultiplier>},
    {"return_dict", "", "any", kReturned, nullptr},
    {"return_dict_in_generate", "", "any", kReturned, nullptr},
    {"rms_norm_eps", "*", "", "epsilon of norms", positive<&Draft::rmsNormEps>},
    {"rope_parameters", "*", "", "rope: its type, base and scaling", nullptr},
    {"rope_scaling", "*", "", "older name of rope_parameters", nullptr},
    {"rope_theta", "*", "", "base of rope's frequencies", nullptr},
    {"sep_token_id", "", "id", "text has no segments", nullptr},
    {"sliding_window", "gemma2 mistral phi3 qwen2 qwen3 smollm3", "",
     "keys that a token sees in a layer with a window", window},
    {"suppress_tokens", "", "null", kGeneration, nullptr},
    {"task_specific_params", "", "any", "never read for these families",
     nullptr},
    {"temperature", "", "1", kGeneration, nullptr},
    {"tf_legacy_loss", "", "any", kTraining, nullptr},
    {"tie_encoder_decoder", "", "false", kEncoder, nullptr},
    {"tie_word_embeddings", "*", "", "the head is the embedding",
     flag<&Draft::tied>},
    {"tokenizer_class", "", "any", "tokenizer.json names the tokenizer",
     nullptr},
    {"top_k", "", "50", kGeneration, nullptr},
    {"top_p", "", "1", kGeneration, nullptr},
    {"torch_dtype", "*", "", "older name of dtype", dtype},
    {"torchscript", "", "any", kHow, nullptr},
    {"transformers.js_config", "", "any", "another runtime", nullptr},
    {"transformers_version", "", "any", kProvenance, nullptr},
    {"typical_p", "", "1", kGeneration, nullptr},
    {"unsloth_fixed", "", "any", kProvenance, nullptr},
    {"unsloth_version", "", "any", kProvenance, nullptr},
    {"use_bfloat16", "", "false", "dtype names the type", nullptr},
    {"use_bidirectional_attention", "", "false",
     "a token sees only the tokens before it", nullptr},
    {"use_cache", "", "any", kHow, nullptr},
    {"use_sliding_window", "qwen2 qwen3 smollm3", "false",
     "whether any layer has a window", flag<&Draft::useWindow>},
    {"vocab_size", "*", "", "rows of the embedding",
     size<&Draft::vocabSize, kMaxVocab>},
};

llvm::ArrayRef<LedgerKey> cria::ledgerKeys() { return kKeys; }

bool LedgerKey::isReadBy(const Family &family) const {
  if (families == "*")
    return true;
  auto names = llvm::split(families, ' ');
  return llvm::is_contained(names, family.modelType);
}

std::string LedgerKey::readers() const {
  if (families == "*")
    return "all";
  return llvm::join(llvm::split(families, ' '), ", ");
}

/// Checks a key that the family does not read. Returns why the key does not
/// matter.
static std::string checkIdle(const LedgerKey &entry, const json &value,
                             Reader &reader) {
  if (entry.neutral == "any" || entry.neutral == "id")
    return entry.note.str();
  if (entry.neutral.empty() && entry.families.empty())
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
  if (known && entry->isReadBy(*draft.family)) {
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
  llvm::StringRef name = draft.family->architecture;
  if (!names || *names == json::array({name.str()}))
    return;
  std::string expected = json::array({name.str()}).dump();
  name.consume_back("ForCausalLM");
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
