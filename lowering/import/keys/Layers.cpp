/// Keys that say which layers there are: with attention, with a window, with a
/// state.
#include "lowering/import/keys/Keys.h"

using namespace cria;
using namespace cria::keys;
using nlohmann::json;

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

/// Every layer must be of type 1, full attention.
static void attentionTypes(Reader &reader, llvm::StringRef key, Draft &) {
  if (reader.find(key))
    ofLayers(reader, key, 1, 1);
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

static constexpr LedgerKey kKeys[] = {
    {"attn_type_list", false, "", "full attention in all layers",
     attentionTypes},
    {"full_attention_interval", false, "",
     "each n-th layer has attention; for configs without layer_types",
     size<&Draft::attentionInterval, kMaxDim>},
    {"full_attn_idxs", false, "",
     "layers with attention; for configs without layer_types",
     listOfLayers<&Draft::attentionList>},
    {"hybrid_override_pattern", false, "",
     "for each layer a letter: M (Mamba), * (attention), - (MLP) or E "
     "(experts)",
     layerLetters},
    {"layer_types", false, "",
     "for each layer, full attention, a window, or what has a state",
     layerTypes},
    {"max_window_layers", false, "any", "first layer with a window",
     windowLayers},
    {"num_hidden_layers", true, "", "layers", layers},
    {"sliding_window", false, "",
     "keys that a token sees in a layer with a window", window},
    {"sliding_window_pattern", false, "",
     "each n-th layer has no window; for configs without layer_types",
     windowPattern},
    {"use_sliding_window", false, "false", "whether any layer has a window",
     flag<&Draft::useWindow>},
};

llvm::ArrayRef<LedgerKey> keys::layerKeys() { return kKeys; }
