/// Keys of convolutions, of the delta rule and of Mamba.
#include "lowering/import/keys/Keys.h"

using namespace cria;
using namespace cria::keys;
using nlohmann::json;

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

static constexpr LedgerKey kKeys[] = {
    {"conv_L_cache", false, "", "tokens that a convolution's filter reads",
     filterSize},
    {"conv_bias", false, "", "biases of convolutions and their linears",
     flag<&Draft::convBias>},
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
    {"split_qkvz", false, "false",
     "in_proj_qkvz is two tensors, in_proj_qkv and in_proj_z, as in GGUF files",
     flag<&Draft::splitsDeltaGates>},
    {"ssm_in_multiplier", false, "", "factor of what Mamba reads",
     positive<&Draft::mambaInScale>},
    {"ssm_multipliers", false, "",
     "factors of Mamba's gates, values, keys, queries and steps", mambaFactors},
    {"ssm_out_multiplier", false, "", "factor of what Mamba computes",
     positive<&Draft::mambaScale>},
};

llvm::ArrayRef<LedgerKey> keys::recurrenceKeys() { return kKeys; }
