#include "lowering/import/Parts.h"

#include "lowering/import/Ledger.h"

#include "runtime/base/Json.h"

#include "llvm/ADT/StringExtras.h"

using namespace cria;
using nlohmann::json;

/// "text, vision or projector"
static std::string partNames(const Family &family) {
  std::vector<std::string> names = {kTextPart.str()};
  for (const ImagePart &part : family.parts)
    if (!part.name.empty())
      names.push_back(part.name.str());
  std::string last = names.back();
  names.pop_back();
  return names.empty() ? last : llvm::join(names, ", ") + " or " + last;
}

/// Makes `config` that of the tower of a part: the object of its keys, or what
/// the lists of timm's models say. Returns the tower's family, or null after an
/// error.
static const Family *unnestTower(json &config, const ImagePart &part,
                                 ObjectReader &reader) {
  json tower = json::object();
  if (!part.config.empty()) {
    tower = config.value(part.config.str(), json());
  } else {
    auto entry = [&](const char *key) {
      json list = config.value(key, json());
      auto place = static_cast<size_t>(part.place);
      return list.is_array() && place < list.size() ? list[place] : json();
    };
    // A small version of a model has the sizes of a tower beside its name.
    json id = entry("timm_model_ids");
    tower = id.is_object() ? id : json{{"model_type", id}};
    tower["image_size"] = entry("image_sizes");
    if (json act = entry("timm_override_act_layers"); !act.is_null())
      tower["hidden_act"] = act;
  }
  if (!tower.is_object()) {
    reader.failKey(part.config, "expected an object, got " + shownJson(tower));
    return nullptr;
  }
  ObjectReader inner(tower, part.config.empty() ? "" : part.config.str() + ".");
  std::string type = inner.text("model_type", std::nullopt);
  const Family *family = findFamily(type);
  if (!inner.failed() && (!family || !family->readsImages()))
    inner.failKey("model_type", "expected the family of a vision tower, got " +
                                    shownJson(type));
  if (llvm::Error error = inner.takeError()) {
    reader.fail(llvm::toString(std::move(error)));
    return nullptr;
  }
  for (const char *key : {"dtype", "torch_dtype"})
    if (config.contains(key))
      tower[key] = config[key];
  config = std::move(tower);
  return family;
}

/// The layers of a tower whose results the model reads.
static void chooseLayers(const ImagePart &part, ObjectReader &reader,
                         ConfigDraft &draft) {
  int64_t layer = part.layer;
  if (reader.find("vision_feature_layer"))
    layer = reader.integer("vision_feature_layer", -draft.layers, -1);
  if (std::string select =
          reader.text("vision_feature_select_strategy", "default");
      select != "default")
    reader.failKey("vision_feature_select_strategy",
                   "only \"default\" is supported, got " + shownJson(select));
  if (!layer)
    return;
  draft.usedLayers = draft.layers + 1 + layer;
  if (draft.usedLayers < 1)
    reader.fail("the model reads the results of layer " + llvm::Twine(layer) +
                " from the end, and its tower has " +
                llvm::Twine(draft.layers));
  draft.normalizesLast = false;
  if (layer == -1 && !draft.family->lastNorm.empty())
    reader.failKey("vision_feature_layer",
                   "expected -2 or less, because the last layer of this tower "
                   "has a norm, got -1");
}

/// The width of the text's embeddings.
static int64_t textSize(const Family &outer, ObjectReader &reader) {
  const json *text = reader.find("text_config");
  const json defaults = json::parse(outer.textDefaults);
  ObjectReader inner(text && text->is_object() ? *text : defaults,
                     "text_config.");
  auto fallback = wholeNumber(defaults.value("hidden_size", json()));
  int64_t size = inner.integer("hidden_size", 1, kMaxDim, fallback);
  if (llvm::Error error = inner.takeError())
    reader.fail(llvm::toString(std::move(error)));
  return size;
}

/// Reads the sizes of a projector, whose input has `width` columns.
static void readProjector(const Family &outer, int64_t width,
                          ObjectReader &reader, ConfigDraft &draft) {
  draft.projector = &outer.projector;
  draft.projectorIn = width;
  draft.projectorOut = textSize(outer, reader);
  draft.projectorBias = reader.flag("multimodal_projector_bias", true) &&
                        !outer.projector.isTransposed;
  std::string name = reader.text("projector_hidden_act", "gelu");
  std::optional<GateFunction> found = gateNamed(name);
  draft.projectorGate = found.value_or(GateFunction::Gelu);
  if (!found)
    reader.failKey("projector_hidden_act",
                   "expected the function of an MLP, got " + shownJson(name));
}

/// Reads the tower of a part.
static llvm::Expected<ModelConfig>
parseTower(json config, const Family &outer, const ImagePart &part,
           llvm::ArrayRef<std::string> allowed) {
  const json whole = config;
  ObjectReader outerReader(whole);
  ConfigDraft draft;
  draft.family = unnestTower(config, part, outerReader);
  if (outerReader.failed())
    return outerReader.takeError();
  draft.allowed = allowed;
  draft.json = whole.dump();
  std::set<std::string> added = addDefaults(*draft.family, config);
  ObjectReader reader(config,
                      part.config.empty() ? "" : part.config.str() + ".");
  readAll(config, added, reader, draft);
  if (reader.failed())
    return reader.takeError();
  chooseLayers(part, outerReader, draft);
  if (part.hasProjector)
    readProjector(outer, draft.hiddenSize, outerReader, draft);
  if (outerReader.failed())
    return outerReader.takeError();
  return static_cast<ModelConfig &&>(draft);
}

/// Reads a projector that is a part of its own. Its input has the columns of
/// all towers.
static llvm::Expected<ModelConfig>
parseProjector(const json &config, const Family &outer,
               llvm::ArrayRef<std::string> allowed) {
  int64_t width = 0;
  ConfigDraft draft;
  for (const ImagePart &part : outer.parts) {
    if (part.name.empty() || !part.hasTower)
      continue;
    auto tower = parseTower(config, outer, part, allowed);
    if (!tower)
      return tower.takeError();
    width += tower->hiddenSize;
    draft.dtype = tower->dtype;
    draft.normEps = tower->normEps;
  }
  ObjectReader reader(config);
  draft.family = &outer;
  draft.json = config.dump();
  draft.vocabSize = 1;
  draft.maxPositions = kMaxPositions;
  readProjector(outer, width, reader, draft);
  if (reader.failed())
    return reader.takeError();
  return static_cast<ModelConfig &&>(draft);
}

llvm::Expected<ModelConfig>
cria::parsePart(const json &config, const Family &outer, llvm::StringRef name,
                llvm::ArrayRef<std::string> allowed) {
  const ImagePart *part =
      llvm::find_if(outer.parts, [&](const ImagePart &candidate) {
        return candidate.name == name && !name.empty();
      });
  if (part == std::end(outer.parts))
    return textError("--part=" + name + ": expected " + partNames(outer));
  return part->hasTower ? parseTower(config, outer, *part, allowed)
                        : parseProjector(config, outer, allowed);
}
