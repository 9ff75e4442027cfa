/// Keys of MLPs.
#include "lowering/import/keys/Keys.h"

using namespace cria;
using namespace cria::keys;

/// The function of an MLP. It is also that of what Mamba or a delta rule
/// convolved, unless another key, which is read later, says so.
static void gate(Reader &reader, llvm::StringRef key, Draft &draft) {
  function<&Draft::gate>(reader, key, draft);
  draft.convFunction = draft.gate;
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

static void mlpFactors(Reader &reader, llvm::StringRef key, Draft &draft) {
  factors(reader, key, {&draft.gateScale, &draft.mlpScale});
}

static constexpr LedgerKey kKeys[] = {
    {"block_auto_adjust_ff_dim", false, "",
     "whether two thirds of intermediate_size are the width of an MLP",
     flag<&Draft::adjustsMlp>},
    {"block_ffn_dim_multiplier", false, "", "factor of these two thirds",
     positive<&Draft::mlpFactor>},
    {"block_multiple_of", false, "", "divides the width that this makes",
     size<&Draft::mlpMultiple, kMaxDim>},
    {"hidden_act", false, R"("gelu_pytorch_tanh")", "the gate of an MLP", gate},
    {"hidden_activation", false, R"("gelu_pytorch_tanh")", "the gate of an MLP",
     gate},
    {"intermediate_size", true, "", "width of an MLP", mlpWidth},
    {"mlp_bias", false, "false", "biases of the linears of an MLP",
     flag<&Draft::mlpBias>},
    {"mlp_multipliers", false, "",
     "factors of an MLP's gate, and of what it computes", mlpFactors},
    {"mlp_ratio", false, "", "width of an MLP, by that of the residual stream",
     positive<&Draft::mlpRatio>},
    {"swiglu_alpha", false, "", "steepness of the gate of an MLP",
     positive<&Draft::gateAlpha>},
    {"swiglu_limit", false, "", "limit of the numbers of an MLP",
     positive<&Draft::gateLimit>},
    {"use_double_wide_mlp", false, "",
     "layers that read others' keys and values have an MLP of twice the width",
     flag<&Draft::widensShared>},
};

llvm::ArrayRef<LedgerKey> keys::mlpKeys() { return kKeys; }
