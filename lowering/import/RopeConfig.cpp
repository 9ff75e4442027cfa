/// Reads the keys of rope, which say how positions become angles. transformers
/// has spelled them in two ways:
///
///   {"rope_theta": 1e4, "rope_scaling": {"type": "linear", "factor": 2}}
///   {"rope_parameters": {"rope_theta": 1e4, "rope_type": "linear", "factor":
///   2}}
///
/// Families that have a rope of their own in layers with a window have an
/// object of the second form for each kind of layer.
#include "lowering/import/Ledger.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include <cmath>

using namespace cria;
using nlohmann::json;
using Kind = RopeConfig::Kind;

static constexpr llvm::StringLiteral kOriginal =
    "original_max_position_embeddings";

namespace {
/// The keys of one type of rope, besides type and theta.
struct RopeType {
  llvm::StringLiteral name;
  Kind kind;
  std::vector<llvm::StringLiteral> keys;
};

/// Reads one object of rope keys.
class RopeReader {
public:
  RopeReader(ObjectReader &top, const json &object, llvm::StringRef name,
             ConfigDraft &draft, RopeConfig &config)
      : top(top), rope(object, name.str() + "."), object(object), draft(draft),
        config(config), headDim(config.dims) {}

  void read();
  ObjectReader &reader() { return rope; }
  /// Whether only this family has the key.
  bool isFamilys(llvm::StringRef key) const {
    return llvm::is_contained(llvm::split(draft.family->rope.keys, ' '), key);
  }

private:
  const RopeType &readType();
  void checkKeys(const RopeType &type);
  void readPart();
  void readOriginal();
  void readFactor();
  void readLlama3();
  void readYarn();
  void readAlpha();
  void readQueryFactor();
  void readLongRope();
  std::vector<double> readFactors(llvm::StringRef key);

  ObjectReader &top, rope;
  const json &object;
  ConfigDraft &draft;
  RopeConfig &config;
  int64_t headDim;
};
} // namespace

static const RopeType kTypes[] = {
    {"default", Kind::Default, {}},
    {"linear", Kind::Linear, {"factor"}},
    {"dynamic", Kind::Dynamic, {"factor"}},
    {"llama3",
     Kind::Llama3,
     {"factor", "high_freq_factor", "low_freq_factor", kOriginal}},
    {"longrope",
     Kind::LongRope,
     {"attention_factor", "factor", "long_factor", kOriginal, "short_factor"}},
    {"yarn",
     Kind::Yarn,
     {"attention_factor", "beta_fast", "beta_slow", "factor", "mscale",
      "mscale_all_dim", kOriginal, "truncate"}},
    {"proportional", Kind::Proportional, {}},
};

const RopeType &RopeReader::readType() {
  std::string type = rope.text("rope_type", ""), older = rope.text("type", "");
  if (!type.empty() && !older.empty() && type != older)
    rope.failKey("type", "expected " + shownJson(type) +
                             " as 'rope_type' says, got " + shownJson(older));
  llvm::StringRef key = type.empty() ? "type" : "rope_type";
  if (type.empty())
    type = older.empty() ? "default" : older;
  bool phi3 = draft.family->rope.isPhi3;
  // Older files of Phi 3 call longrope "su" or "yarn".
  llvm::StringRef name = phi3 && (type == "su" || type == "yarn")
                             ? llvm::StringRef("longrope")
                             : llvm::StringRef(type);
  const RopeType *found = llvm::find_if(kTypes, [&](const RopeType &candidate) {
    return candidate.name == name;
  });
  if (found != std::end(kTypes) &&
      (found->kind != Kind::Proportional ||
       draft.family->rope.isProportional) &&
      (!phi3 || found->kind == Kind::Default || found->kind == Kind::LongRope))
    return *found;
  rope.failKey(key, (phi3 ? "expected default or longrope, got "
                          : "expected default, linear, dynamic, llama3, "
                            "longrope or yarn, got ") +
                        shownJson(type));
  return kTypes[0];
}

/// Null counts as absent.
void RopeReader::checkKeys(const RopeType &type) {
  for (const auto &[key, value] : object.items()) {
    bool common = key == "rope_theta" || key == "rope_type" || key == "type" ||
                  key == "partial_rotary_factor";
    if (!value.is_null() && !common && !isFamilys(key) &&
        !llvm::is_contained(type.keys, key))
      refuseUnknown(rope, key, value,
                    ("unknown key for rope of type " + type.name).str(), draft);
  }
}

/// Reads how much of a head is rotated. In families that do not read the key,
/// transformers ignores a part other than 1, or fails.
void RopeReader::readPart() {
  ObjectReader &owner = rope.find("partial_rotary_factor") ? rope : top;
  double usual = draft.family->rope.part;
  if (draft.rotaryDim)
    usual = static_cast<double>(draft.rotaryDim) /
            static_cast<double>(draft.headDim);
  double part = owner.positive("partial_rotary_factor", usual), outer = usual;
  if (config.kind == Kind::Proportional) {
    auto size = static_cast<double>(headDim);
    config.zerosFrom = static_cast<int64_t>(std::floor(part * size / 2));
    if (part > 1)
      owner.failKey("partial_rotary_factor",
                    "expected at most 1, got " + shownJson(json(part)));
    return;
  }
  if (!draft.rotaryDim)
    outer = top.positive("partial_rotary_factor", part);
  if (part != outer)
    owner.failKey("partial_rotary_factor",
                  "expected " + shownJson(json(outer)) +
                      ", as the top level says, got " + shownJson(json(part)));
  if (part != 1.0 && !draft.family->reads("partial_rotary_factor"))
    owner.failKey("partial_rotary_factor",
                  "only 1 is supported, got " + shownJson(json(part)));
  config.dims = static_cast<int64_t>(static_cast<double>(headDim) * part);
  if (config.dims < 2 || config.dims > headDim || config.dims % 2)
    owner.failKey("partial_rotary_factor",
                  "expected an even part of a head of " + llvm::Twine(headDim) +
                      ", got " + llvm::Twine(config.dims));
}

/// Reads the positions before scaling. In transformers the key of the top level
/// has priority, or is not read where layers with a window have a rope of their
/// own; here both keys must agree.
void RopeReader::readOriginal() {
  bool isOne = draft.family->rope.windowTheta == 0;
  int64_t outer = top.integer(kOriginal, 1, kMaxPositions, 0),
          inner = rope.integer(kOriginal, 1, kMaxPositions,
                               isOne ? outer : draft.maxPositions);
  if (outer && inner != outer)
    rope.failKey(kOriginal, "expected " + llvm::Twine(outer) +
                                ", as the top level says, got " +
                                llvm::Twine(inner));
  config.originalPositions = inner ? inner : draft.maxPositions;
}

void RopeReader::readFactor() {
  config.factor = rope.positive("factor");
  if (config.factor < 1.0)
    rope.failKey("factor",
                 "expected at least 1, got " + shownJson(json(config.factor)));
}

void RopeReader::readLlama3() {
  config.lowFreqFactor = rope.positive("low_freq_factor");
  config.highFreqFactor = rope.positive("high_freq_factor");
  if (config.highFreqFactor <= config.lowFreqFactor)
    rope.failKey("high_freq_factor",
                 "expected more than 'low_freq_factor' " +
                     shownJson(json(config.lowFreqFactor)) + ", got " +
                     shownJson(json(config.highFreqFactor)));
}

void RopeReader::readYarn() {
  auto magnitude = [&](double scale) {
    return config.factor <= 1 ? 1.0 : 0.1 * scale * std::log(config.factor) + 1;
  };
  config.betaFast = rope.positive("beta_fast", 32);
  config.betaSlow = rope.positive("beta_slow", 1);
  if (config.betaFast < config.betaSlow)
    rope.failKey("beta_fast", "expected at least 'beta_slow' " +
                                  shownJson(json(config.betaSlow)) + ", got " +
                                  shownJson(json(config.betaFast)));
  config.truncate = rope.flag("truncate", true);
  bool scales = rope.find("mscale") && rope.find("mscale_all_dim");
  // transformers only reads the two keys together. A key that is null counts as
  // absent.
  double own = rope.positive("mscale", 1),
         all = rope.positive("mscale_all_dim", 1);
  if (!scales && (rope.find("mscale") || rope.find("mscale_all_dim")))
    rope.failKey(
        rope.find("mscale") ? "mscale" : "mscale_all_dim",
        "transformers only reads 'mscale' and 'mscale_all_dim' together");
  config.scale =
      rope.positive("attention_factor",
                    scales ? magnitude(own) / magnitude(all) : magnitude(1));
  if (draft.latentSize && scales)
    draft.scoreFactor = magnitude(all) * magnitude(all);
}

/// A fixed alpha in place of a factor stretches the base, whatever the length
/// of the text is.
void RopeReader::readAlpha() {
  auto dims = static_cast<double>(config.dims);
  config.theta *= std::pow(rope.positive("alpha"), dims / (dims - 2));
  config.kind = Kind::Default;
}

/// Queries beyond the original positions have a factor, which is not supported.
void RopeReader::readQueryFactor() {
  const json *beta = rope.find("llama_4_scaling_beta");
  if (beta && isFamilys("llama_4_scaling_beta") && *beta != 0)
    draft.mostPositions = config.originalPositions;
}

std::vector<double> RopeReader::readFactors(llvm::StringRef key) {
  std::vector<double> factors;
  const json *list = rope.find(key);
  if (!list) {
    rope.fail(rope.quoted(key) + " is missing");
    return factors;
  }
  for (const json &factor : list->is_array() ? *list : json::array({*list}))
    if (factor.is_number() && factor.get<double>() >= 1e-30 &&
        factor.get<double>() <= 1e30)
      factors.push_back(factor.get<double>());
  auto wanted = static_cast<size_t>(config.dims / 2);
  if (!list->is_array() || factors.size() != list->size() ||
      factors.size() != wanted)
    rope.failKey(key, "expected a list of " + llvm::Twine(wanted) +
                          " positive numbers, one for each frequency, got " +
                          shownJson(*list));
  return factors;
}

void RopeReader::readLongRope() {
  config.shortFactors = readFactors("short_factor");
  config.longFactors = readFactors("long_factor");
  double original = static_cast<double>(config.originalPositions);
  double stretch = static_cast<double>(draft.maxPositions) / original;
  config.factor = rope.positive("factor", stretch);
  double scale = 1;
  if (config.factor > 1)
    scale = std::sqrt(1 + std::log(config.factor) / std::log(original));
  config.scale = rope.positive("attention_factor", scale);
  if (config.factor > 1 && config.originalPositions < 2)
    rope.failKey(kOriginal, "expected at least 2, got 1");
}

void RopeReader::read() {
  const RopeType &type = readType();
  config.kind = type.kind;
  checkKeys(type);
  readPart();
  if (llvm::is_contained(type.keys, kOriginal))
    readOriginal();
  else
    config.originalPositions = draft.maxPositions;
  if (type.kind == Kind::Dynamic && config.dims >= 4 && isFamilys("alpha") &&
      rope.find("alpha"))
    readAlpha();
  else if (type.kind == Kind::LongRope)
    readLongRope();
  else if (type.kind != Kind::Default && type.kind != Kind::Proportional)
    readFactor();
  if (type.kind == Kind::Yarn)
    readYarn();
  else if (type.kind == Kind::Llama3)
    readLlama3();
  else if (config.kind == Kind::Dynamic && config.dims < 4)
    rope.failKey("rope_type", "expected heads of at least 4 rotated elements, "
                              "got " +
                                  llvm::Twine(config.dims));
  readQueryFactor();
  if (llvm::Error error = rope.takeError())
    top.fail(llvm::toString(std::move(error)));
}

/// Reads one rope. `theta` is its base if neither the object nor the key
/// `thetaKey` of the top level gives one. `headDim` is the size of a head.
static void readOne(ObjectReader &reader, const json &object,
                    llvm::StringRef key, double theta, llvm::StringRef thetaKey,
                    int64_t headDim, ConfigDraft &draft) {
  RopeConfig &config = draft.ropes.emplace_back();
  config.dims = headDim;
  RopeReader rope(reader, object, key, draft, config);
  config.theta = theta;
  bool outer = reader.find(thetaKey), inner = rope.reader().find("rope_theta");
  if (outer)
    config.theta = reader.positive(thetaKey);
  double given = config.theta;
  if (inner)
    config.theta = rope.reader().positive("rope_theta");
  if (outer && inner && given != config.theta)
    reader.fail("'" + thetaKey + "' is given twice: " + shownJson(json(given)) +
                " and " + shownJson(json(config.theta)));
  rope.read();
}

/// Reads the ropes of layers that see all keys and of layers with a window from
/// an object and its name each.
static void readTwo(ObjectReader &reader, const json &full,
                    llvm::StringRef fullName, const json &window,
                    llvm::StringRef windowName, ConfigDraft &draft) {
  const RopeRule &rule = draft.family->rope;
  int64_t headDim = draft.headDim, all = draft.fullHeads.headDim;
  readOne(reader, full, fullName, rule.theta, "rope_theta", all ? all : headDim,
          draft);
  readOne(reader, window, windowName, rule.windowTheta,
          rule.isProportional ? "rope_theta" : "rope_local_base_freq", headDim,
          draft);
}

/// Reads an object that has one for each kind of layer.
static void readPair(ObjectReader &reader, const json &object,
                     llvm::StringRef key, ConfigDraft &draft) {
  static constexpr llvm::StringLiteral kFull = "full_attention",
                                       kWindow = "sliding_attention";
  const json none = json::object();
  const json *full = &none, *window = &none;
  if (object.contains(kFull))
    full = &object[kFull.str()];
  if (object.contains(kWindow))
    window = &object[kWindow.str()];
  if (!full->is_object() || !window->is_object() ||
      object.size() != object.count(kFull) + object.count(kWindow))
    return reader.failKey(key, "expected an object for each of full_attention "
                               "and sliding_attention, got " +
                                   shownJson(object));
  readTwo(reader, *full, (key + "." + kFull).str(), *window,
          (key + "." + kWindow).str(), draft);
}

/// Reads rope_scaling. transformers adds its keys to the rope of layers without
/// a window, which has a rope_type already: so it does not read "type".
static void readOlder(ObjectReader &reader, const json &object,
                      ConfigDraft &draft) {
  static constexpr llvm::StringLiteral kName = "rope_scaling";
  json type = object.value("type", json());
  if (object.value("rope_type", json()).is_null() && !type.is_null() &&
      type != "default")
    return reader.failKey("rope_scaling.type",
                          "transformers reads 'rope_type' instead for " +
                              draft.family->modelType + ", got " +
                              shownJson(type));
  readTwo(reader, object, kName, json::object(), kName, draft);
}

void cria::readRope(ObjectReader &reader, ConfigDraft &draft) {
  const RopeRule &rule = draft.family->rope;
  const json *scaling = reader.find("rope_scaling"),
             *parameters = reader.find("rope_parameters");
  if (scaling && parameters && *scaling != *parameters)
    reader.fail("'rope_scaling' and 'rope_parameters' disagree");
  llvm::StringRef key = scaling ? "rope_scaling" : "rope_parameters";
  const json none = json::object();
  const json *object = scaling ? scaling : parameters ? parameters : &none;
  if (!object->is_object())
    return reader.failKey(key, "expected an object, got " + shownJson(*object));
  if (!rule.windowTheta)
    readOne(reader, *object, key, rule.theta, "rope_theta", draft.headDim,
            draft);
  else if (scaling && !rule.isProportional)
    readOlder(reader, *object, draft);
  else
    readPair(reader, *object, key, draft);
}
