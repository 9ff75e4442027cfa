#include "lowering/artifact/Manifest.h"

#include "dialect/Dialect.h"
#include "lowering/Plan.h"
#include "lowering/Signature.h"
#include "lowering/Slots.h"
#include "lowering/import/Program.h"
#include "runtime/Abi.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

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
  json::Object object{
      {"symbol", weight.getSymName()},
      {"name", weight.getSource()},
      {"count", static_cast<int64_t>(weight.getCount().value_or(0))},
      {"first", static_cast<int64_t>(weight.getFirst())},
      {"shape", shapeOf(weight.getTensorType())},
      {"dtype", dtypeName(weight.getTensorType().getElementType())},
      {"slot", slot}};
  if (weight.getFirstRow())
    object["rows"] =
        json::Object{{"first", static_cast<int64_t>(*weight.getFirstRow())},
                     {"of", static_cast<int64_t>(*weight.getSourceRows())}};
  if (weight.getAdapter())
    object["adapter"] = true;
  if (weight.getTied())
    object["tied"] = weight.getTied()->str();
  return object;
}

static json::Array numbers(ArrayRef<float> values) {
  json::Array array;
  for (float value : values)
    array.push_back(value);
  return array;
}

static json::Object describe(RopeTableOp table, int64_t slot) {
  json::Object object{{"symbol", table.getSymName()},
                      {"rows", static_cast<int64_t>(table.getPositions())},
                      {"inv_freq", numbers(table.getInvFreq())},
                      {"scale", table.getScale().convertToDouble()},
                      {"slot", slot}};
  if (table.getOriginal())
    object["original"] = static_cast<int64_t>(*table.getOriginal());
  if (table.getLongInvFreq())
    object["long_inv_freq"] = numbers(*table.getLongInvFreq());
  if (table.getRecompute())
    object["recompute"] = true;
  if (table.getGrowth()) {
    object["growth"] = table.getGrowth()->convertToDouble();
    object["theta"] = table.getTheta()->convertToDouble();
  }
  return object;
}

/// Operations and bytes of one token: the body's, and the head's.
static json::Object describe(const Plan &plan) {
  int64_t flops = plan.flops(false), bytes = plan.weightBytes(false);
  int64_t headFlops = plan.flops(true), headBytes = plan.weightBytes(true);
  return json::Object{
      {"decode",
       json::Object{{"flops", flops + headFlops},
                    {"weight_bytes", bytes + headBytes},
                    {"kv_bytes_per_position", plan.cacheBytesPerPosition}}},
      {"prefill", json::Object{{"flops_per_token", flops}}},
      {"head",
       json::Object{{"flops", headFlops}, {"weight_bytes", headBytes}}}};
}

static json::Object modelOf(func::FuncOp forward, const json::Object *config,
                            const PipelineOptions &options) {
  json::Object model{
      {"chunk", options.chunk},
      {"max_seq", positionsOf(forward->getParentOfType<ModuleOp>())}};
  auto logits = cast<RankedTensorType>(forward.getResultTypes()[0]);
  model["vocab_size"] = logits.getDimSize(1);
  if (ArrayRef<Type> caches = cacheTypes(forward.getFunctionType());
      !caches.empty()) {
    auto cache = cast<RankedTensorType>(caches.front());
    model["layers"] = cache.getDimSize(0);
    model["dtype"] = dtypeName(cache.getElementType());
  }
  // Tokens see those behind them: a text is one call.
  WalkResult causal = forward.walk([](GQAOp op) {
    return op.getCausal() || op.getOver() ? WalkResult::advance()
                                          : WalkResult::interrupt();
  });
  if (causal.wasInterrupted())
    model["bidirectional"] = true;
  if (config)
    for (const char *key : {"hidden_size", "max_position_embeddings"})
      if (auto value = config->getInteger(key))
        model[key] = *value;
  return model;
}

static json::Object targetOf(const PipelineOptions &options) {
  json::Object target{{"kind", "cuda"}, {"arch", "x86_64"}, {"os", "linux"}};
  if (options.device != Device::Cpu)
    return target;
  json::Array features;
  for (const std::string &feature : options.cpu.features)
    features.push_back(feature);
  target["kind"] = "cpu";
  target["cpu"] = options.cpu.name;
  target["features"] = std::move(features);
  return target;
}

void Manifest::fromProgram(ModuleOp program, StringRef config,
                           const PipelineOptions &options) {
  root["format"] = static_cast<int64_t>(CRIA_FORMAT_VERSION);
  root["compiler"] = "cria " CRIA_VERSION;
  root["target"] = targetOf(options);
  root["config"] = nullptr;
  if (!config.empty())
    root["config"] = llvm::cantFail(json::parse(config));
  auto forward = program.lookupSymbol<func::FuncOp>("forward");
  json::Object model = modelOf(forward, root["config"].getAsObject(), options);
  Plan plan = planOf(program);
  root["plan"] = describe(plan);
  bool encodes = program.lookupSymbol("encode");
  if (encodes)
    model["encoder"] = true;
  if (options.device == Device::Cpu) {
    json::Object entries{{"prefill", "cria_prefill"},
                         {"decode", "cria_decode"}};
    if (encodes)
      entries["encode"] = "cria_encode";
    root["entries"] = std::move(entries);
  }

  describeSymbols(program);
  describeEmbedding(forward);
  describeCaches(forward);
  model["parameters"] = plan.parameters;
  root["model"] = std::move(model);
}

void Manifest::setLedger(ArrayRef<LedgerRow> rows) {
  json::Array ledger;
  for (const LedgerRow &row : rows)
    ledger.push_back(json::Object{{"key", row.key},
                                  {"value", row.value},
                                  {"fate", row.fate},
                                  {"note", row.note}});
  if (!rows.empty())
    root["ledger"] = std::move(ledger);
}

void Manifest::describeSymbols(ModuleOp program) {
  json::Array weights, tables;
  int64_t slots = 0;
  for (auto [op, slot] : assignSlots(program)) {
    if (auto weight = dyn_cast<WeightOp>(op)) {
      slots = slot + weight.getCount().value_or(1);
      weights.push_back(describe(weight, slot));
    } else {
      slots = slot + 2;
      tables.push_back(describe(cast<RopeTableOp>(op), slot));
    }
  }
  root["weights"] = std::move(weights);
  root["rope"] = std::move(tables);
  root["slots"] = slots;
}

/// The table of which a single op looks up the ids, where nothing else but what
/// the program returns reads it: then the runtime can put other rows in its
/// place for as long as it wants no logits.
static WeightOp embeddingOf(func::FuncOp forward) {
  SmallVector<EmbedOp> lookups;
  forward.walk([&](EmbedOp op) { lookups.push_back(op); });
  if (lookups.size() != 1 || lookups[0].getIds() != forward.getArgument(0))
    return {};
  auto read = lookups[0].getTable().getDefiningOp<GetWeightOp>();
  if (!read || read.getLayer())
    return {};
  bool readElsewhere = false;
  forward.walk([&](GetWeightOp other) {
    if (other.getWeight() == read.getWeight())
      readElsewhere |= !llvm::all_of(other->getUsers(), [&](Operation *user) {
        bool isHead =
            isa<HeadOp>(user) &&
            llvm::all_of(user->getUsers(), llvm::IsaPred<func::ReturnOp>);
        return user == lookups[0] || isHead;
      });
  });
  return readElsewhere ? WeightOp()
                       : SymbolTable::lookupNearestSymbolFrom<WeightOp>(
                             forward, read.getWeightAttr());
}

void Manifest::describeEmbedding(func::FuncOp forward) {
  WeightOp table = embeddingOf(forward);
  for (auto [op, slot] : assignSlots(forward->getParentOfType<ModuleOp>()))
    if (table && op == table)
      root["embedding"] = slot;
}

void Manifest::describeCaches(func::FuncOp forward) {
  json::Array caches;
  for (auto [i, type] :
       llvm::enumerate(cacheTypes(forward.getFunctionType()))) {
    auto cache = cast<RankedTensorType>(type);
    caches.push_back(
        json::Object{{"symbol", "cache" + std::to_string(i)},
                     {"bytes", bytesOf(cache)},
                     {"shape", shapeOf(cache)},
                     {"dtype", dtypeName(cache.getElementType())}});
  }
  root["caches"] = std::move(caches);
}

void Manifest::fromTile(ModuleOp module) {
  int64_t arena = 0;
  json::Array kernels;
  for (auto function : module.getOps<func::FuncOp>()) {
    if (auto bytes = function->getAttrOfType<IntegerAttr>("arena_bytes"))
      arena = std::max(arena, bytes.getInt());
    else if (function.isPrivate() && !function.isDeclaration())
      kernels.push_back(function.getName());
  }
  root["arena"] = json::Object{{"bytes", arena}};
  root["kernels"] = std::move(kernels);
}

void Manifest::addCuda(const CudaImage &image) {
  json::Object cuda(image.plan);
  json::Array images;
  for (const CudaBinary &binary : image.binaries)
    images.push_back(json::Object{{"chip", binary.chip},
                                  {"format", binary.format},
                                  {"symbol", binary.symbol()}});
  cuda["images"] = std::move(images);
  root["cuda"] = std::move(cuda);
  json::Object &target = *root["target"].getAsObject();
  bool both = target.get("cpu");
  target["kind"] = both ? "cpu,cuda" : "cuda";
  if (both)
    return;
  json::Array kernels;
  for (const std::string &name : image.kernels)
    kernels.push_back(name);
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
