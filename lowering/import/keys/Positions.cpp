/// Keys of positions and of rope. All keys of rope are read together, by
/// RopeConfig.cpp.
#include "lowering/import/keys/Keys.h"

using namespace cria;
using namespace cria::keys;
using nlohmann::json;

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

/// Whether positions are rotated at all.
static void positionKind(Reader &reader, llvm::StringRef key, Draft &draft) {
  std::string kind = reader.text(key, "nope");
  draft.rotates = kind == "rope";
  if (kind != "rope" && kind != "nope")
    reader.failKey(key, "expected rope or nope, got " + shownJson(kind));
}

static void ropeInterval(Reader &reader, llvm::StringRef key, Draft &draft) {
  if (!reader.find("no_rope_layers"))
    size<&Draft::noRopeInterval, kMaxDim>(reader, key, draft);
}

static constexpr LedgerKey kKeys[] = {
    {"max_position_embeddings", true, "", "positions that the model knows",
     sizeOfText<&Draft::maxPositions, kMaxPositions>},
    {"no_rope_layer_interval", false, "",
     "each n-th layer has no rope; for configs without no_rope_layers",
     ropeInterval},
    {"no_rope_layers", false, "", "0 for each layer without rope", ropeLayers},
    {"original_max_position_embeddings", true, "",
     "positions before rope was scaled", nullptr},
    {"partial_rotary_factor", false, "1", "part of a head that is rotated",
     nullptr},
    {"position_embedding_type", false, R"("rope")",
     "rope, or nope: positions are not rotated", positionKind},
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
    {"rotary_dim", false, "", "elements of a head that are rotated",
     optionalSize<&Draft::rotaryDim, kMaxHeadDim>},
};

llvm::ArrayRef<LedgerKey> keys::positionKeys() { return kKeys; }
