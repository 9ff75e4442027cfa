#include "lowering/artifact/Manifest.h"

#include "dialect/Dialect.h"
#include "lowering/Slots.h"
#include "runtime/Abi.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Utils/StaticValueUtils.h"

using namespace mlir;
using namespace cria;
using namespace cria::llama;
namespace json = llvm::json;

static std::string dtypeName(Type type) {
  return type.isBF16() ? "bf16" : type.isF16() ? "f16" : "f32";
}

static json::Array shapeOf(RankedTensorType type) {
  json::Array shape;
  for (int64_t size : type.getShape())
    shape.push_back(size);
  return shape;
}

static int64_t bytesOf(RankedTensorType type) {
  return type.getNumElements() * (type.getElementTypeBitWidth() / 8);
}

static json::Object describe(WeightOp weight, int64_t slot) {
  return json::Object{
      {"symbol", weight.getSymName()},
      {"name", weight.getSource()},
      {"count", static_cast<int64_t>(weight.getCount().value_or(0))},
      {"first", static_cast<int64_t>(weight.getFirst())},
      {"shape", shapeOf(weight.getTensorType())},
      {"dtype", dtypeName(weight.getTensorType().getElementType())},
      {"slot", slot}};
}

static json::Object describe(RopeTableOp table, int64_t slot) {
  json::Array frequencies;
  for (float frequency : table.getInvFreq())
    frequencies.push_back(frequency);
  return json::Object{{"symbol", table.getSymName()},
                      {"rows", static_cast<int64_t>(table.getPositions())},
                      {"inv_freq", std::move(frequencies)},
                      {"scale", table.getScale().convertToDouble()},
                      {"slot", slot}};
}

/// How often an op runs in one forward pass.
static int64_t tripCount(Operation *op) {
  int64_t count = 1;
  for (auto loop = op->getParentOfType<scf::ForOp>(); loop;
       loop = loop->getParentOfType<scf::ForOp>())
    if (std::optional<APInt> trips = loop.getStaticTripCount())
      count *= trips->getSExtValue();
  return count;
}

/// Operations and bytes of one token: the body's, and the head's.
static json::Object planOf(func::FuncOp forward) {
  int64_t bodyFlops = 0, bodyBytes = 0, headFlops = 0, headBytes = 0,
          cacheBytes = 0;
  forward.walk([&](Operation *op) {
    int64_t trips = tripCount(op);
    auto count = [&](Value weight, int64_t &flops, int64_t &bytes) {
      auto type = cast<RankedTensorType>(weight.getType());
      bytes += trips * bytesOf(type);
      if (type.getRank() == 2)
        flops += trips * 2 * type.getNumElements();
    };
    if (auto linear = dyn_cast<LinearOp>(op))
      count(linear.getWeight(), bodyFlops, bodyBytes);
    else if (auto head = dyn_cast<HeadOp>(op))
      count(head.getWeight(), headFlops, headBytes);
    else if (auto norm = dyn_cast<RMSNormOp>(op); norm && norm.getWeight())
      count(norm.getWeight(), bodyFlops, bodyBytes);
  });
  for (Type type : forward.getArgumentTypes())
    if (auto cache = dyn_cast<RankedTensorType>(type);
        cache && cache.getRank() == 4)
      cacheBytes += bytesOf(cache) / cache.getDimSize(2);
  return json::Object{
      {"decode", json::Object{{"flops", bodyFlops + headFlops},
                              {"weight_bytes", bodyBytes + headBytes},
                              {"kv_bytes_per_position", cacheBytes}}},
      {"prefill", json::Object{{"flops_per_token", bodyFlops}}},
      {"head", json::Object{{"flops", headFlops}, {"weight_bytes", headBytes}}}};
}

static json::Object modelOf(func::FuncOp forward, const json::Object *config,
                            const PipelineOptions &options) {
  json::Object model{{"chunk", options.chunk}};
  auto logits = cast<RankedTensorType>(forward.getResultTypes()[0]);
  model["vocab_size"] = logits.getDimSize(1);
  if (forward.getNumArguments() > 3) {
    auto cache = cast<RankedTensorType>(forward.getArgumentTypes()[3]);
    model["layers"] = cache.getDimSize(0);
    model["max_seq"] = cache.getDimSize(2);
    model["dtype"] = dtypeName(cache.getElementType());
  }
  if (config)
    for (const char *key : {"hidden_size", "max_position_embeddings"})
      if (auto value = config->getInteger(key))
        model[key] = *value;
  return model;
}

void Manifest::fromProgram(ModuleOp program, StringRef config,
                           const PipelineOptions &options) {
  root["format"] = static_cast<int64_t>(CRIA_FORMAT_VERSION);
  root["compiler"] = "cria " CRIA_VERSION;
  json::Array features;
  for (const std::string &feature : options.cpu.features)
    features.push_back(feature);
  root["target"] = json::Object{{"kind", "cpu"},
                                {"arch", "x86_64"},
                                {"os", "linux"},
                                {"cpu", options.cpu.name},
                                {"features", std::move(features)}};
  root["config"] = nullptr;
  if (!config.empty())
    root["config"] = llvm::cantFail(json::parse(config));
  auto forward = program.lookupSymbol<func::FuncOp>("forward");
  json::Object model =
      modelOf(forward, root["config"].getAsObject(), options);
  root["plan"] = planOf(forward);
  root["entries"] =
      json::Object{{"prefill", "cria_prefill"}, {"decode", "cria_decode"}};

  json::Array weights, tables, caches;
  int64_t slots = 0, parameters = 0;
  for (auto [op, slot] : assignSlots(program)) {
    if (auto weight = dyn_cast<WeightOp>(op)) {
      int64_t count = weight.getCount().value_or(1);
      parameters += count * weight.getTensorType().getNumElements();
      slots = slot + count;
      weights.push_back(describe(weight, slot));
    } else {
      slots = slot + 2;
      tables.push_back(describe(cast<RopeTableOp>(op), slot));
    }
  }
  for (auto [i, type] :
       llvm::enumerate(forward.getArgumentTypes().drop_front(3))) {
    auto cache = cast<RankedTensorType>(type);
    caches.push_back(
        json::Object{{"symbol", "cache" + std::to_string(i)},
                     {"bytes", bytesOf(cache)},
                     {"shape", shapeOf(cache)},
                     {"dtype", dtypeName(cache.getElementType())}});
  }
  model["parameters"] = parameters;
  root["model"] = std::move(model);
  root["weights"] = std::move(weights);
  root["rope"] = std::move(tables);
  root["caches"] = std::move(caches);
  root["slots"] = slots;
}

void Manifest::fromTile(ModuleOp module) {
  int64_t arena = 0;
  json::Array kernels;
  for (auto function : module.getOps<func::FuncOp>()) {
    if (auto bytes = function->getAttrOfType<IntegerAttr>("arena_bytes"))
      arena = std::max(arena, bytes.getInt());
    else if (!function.isDeclaration())
      kernels.push_back(function.getName());
  }
  root["arena"] = json::Object{{"bytes", arena}};
  root["kernels"] = std::move(kernels);
}

void Manifest::setFlag(StringRef name, json::Value value) {
  flags[name] = std::move(value);
}

std::string Manifest::text() const {
  json::Object copy(root);
  copy["flags"] = json::Object(flags);
  return llvm::formatv("{0}", json::Value(std::move(copy))).str();
}
