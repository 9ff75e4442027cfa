/// Keys of attention: heads, their sizes, factors and biases. Some keys say
/// whether the MLP has biases, too.
#include "lowering/import/keys/Keys.h"

using namespace cria;
using namespace cria::keys;
using nlohmann::json;

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

/// Reads the rotated part of a query or key, which head_dim may say, too.
static void rotatedPart(Reader &reader, llvm::StringRef key, Draft &draft) {
  int64_t given = draft.headDim;
  size<&Draft::headDim, kMaxHeadDim>(reader, key, draft);
  if (given && given != draft.headDim)
    reader.failKey("head_dim", "expected " + llvm::Twine(draft.headDim) +
                                   ", as '" + key + "' says, got " +
                                   llvm::Twine(given));
}

static constexpr LedgerKey kKeys[] = {
    {"attention_bias", false, "false", "biases of the linears of attention",
     attentionBias},
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
    {"attn_logit_softcapping", false, "", "soft cap of attention scores",
     optionalPositive<&Draft::attentionSoftcap>},
    {"bias", false, "false", "biases of attention's result and of an MLP",
     resultBiases},
    {"global_head_dim", false, "", "size of a head in layers that see all keys",
     fullHeadDim},
    {"head_dim", true, "", "size of a head; default: hidden_size / heads",
     optionalSize<&Draft::headDim, kMaxHeadDim>},
    {"key_multiplier", false, "", "factor of keys", positive<&Draft::keyScale>},
    {"kv_lora_rank", false, "", "latent numbers of a token",
     size<&Draft::latentSize, kMaxDim>},
    {"num_attention_heads", true, "", "query heads",
     size<&Draft::heads, kMaxHeads>},
    {"num_global_key_value_heads", false, "",
     "KV heads of layers that see all keys", fullKvHeads},
    {"num_key_value_heads", true, "",
     "KV heads; default: as many as query heads",
     optionalSize<&Draft::kvHeads, kMaxHeads>},
    {"num_kv_shared_layers", false, "",
     "the last layers, which read the keys and values of earlier ones",
     kvSharedLayers},
    {"per_layer_config", false, "", "sizes of heads, by layer", ownHeads},
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
    {"query_pre_attn_scalar", false, "",
     "attention scores are divided by its root", positive<&Draft::queryScalar>},
    {"split_kv_b", false, "false",
     "kv_b_proj is two tensors, k_b_proj and v_b_proj, as in GGUF files",
     flag<&Draft::splitsLatentHeads>},
    {"use_bias", false, "false",
     "biases of the linears of attention and of an MLP", allBiases},
    {"use_qk_norm", false, "", "norms of queries and keys",
     flag<&Draft::normalizesHeads>},
    {"use_qkv_bias", false, "false", "biases of queries, keys and values",
     flag<&Draft::queryKeyValueBias>},
    {"v_head_dim", false, "", "size of a value",
     optionalSize<&Draft::valueDim, kMaxHeadDim>},
};

llvm::ArrayRef<LedgerKey> keys::attentionKeys() { return kKeys; }
