/// Keys of mixtures of experts.
#include "lowering/import/keys/Keys.h"

using namespace cria;
using namespace cria::keys;
using nlohmann::json;

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

static void sharedExperts(Reader &reader, llvm::StringRef key, Draft &draft) {
  if (reader.find(key))
    draft.sharedExperts = ofLayers(reader, key, 0, kMaxExperts);
}

static constexpr LedgerKey kKeys[] = {
    {"decoder_sparse_step", false, "", "each n-th layer has experts",
     size<&Draft::expertInterval, kMaxDim>},
    {"enable_moe_block", false, "", "whether layers have experts",
     flag<&Draft::mixes>},
    {"first_k_dense_replace", false, "", "the first layers have no experts",
     firstExperts},
    {"mlp_layer_types", false, "", "for each layer, dense or sparse: experts",
     mlpTypes},
    {"mlp_only_layers", false, "[]", "layers without experts",
     listOfLayers<&Draft::denseList>},
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
    {"norm_topk_prob", false, "",
     "the weights of a token's experts are divided by their sum",
     flag<&Draft::normalizesExperts>},
    {"num_dense_layers", false, "", "the first layers have no experts",
     firstExperts},
    {"num_experts", false, "", "experts of a layer", experts},
    {"num_experts_per_tok", false, "", "experts that a token chooses",
     chosenExperts},
    {"num_local_experts", false, "", "experts of a layer", experts},
    {"num_shared_expert", false, "",
     "width of the MLP beside the experts, in experts", sharedExperts},
    {"routed_scaling_factor", false, "",
     "factor of the weights of a token's experts",
     positive<&Draft::expertScale>},
    {"shared_expert_intermediate_size", false, "",
     "width of the MLP beside the experts", size<&Draft::sharedSize, kMaxDim>},
    {"shared_intermediate_size", false, "",
     "width of the MLP beside the experts, or of the MLP if there are none",
     size<&Draft::sharedSize, kMaxDim>},
    {"top_k_experts", false, "", "experts that a token chooses",
     optionalSize<&Draft::chosenExperts, kMaxExperts>},
    {"topk_group", false, "", "groups that a token chooses its experts from",
     optionalSize<&Draft::keptGroups, kMaxExperts>},
    {"topk_method", false, "", "whether experts are chosen in groups", choice},
    {"use_expert_bias", false, "",
     "a correction, with which experts are chosen",
     flag<&Draft::correctsScores>},
};

llvm::ArrayRef<LedgerKey> keys::expertKeys() { return kKeys; }
