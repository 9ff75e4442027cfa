#include "lowering/artifact/Manifest.h"

#include "dialect/Dialect.h"
#include "dialect/Signature.h"
#include "lowering/artifact/CacheRopes.h"
#include "lowering/entry/Costs.h"
#include "lowering/entry/Entry.h"
#include "lowering/import/Program.h"
#include "runtime/Abi.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

using namespace mlir;
using namespace cria;
using namespace cria::llama;
namespace json = llvm::json;

static std::string dtypeName(Type type) {
  if (auto blocks = dyn_cast<BlocksType>(type))
    return stringifyBlockFormat(blocks.getFormat()).str();
  return type.isBF16() ? "bf16" : type.isF16() ? "f16" : "f32";
}

static json::Array shapeOf(RankedTensorType type) {
  json::Array shape;
  for (int64_t size : type.getShape())
    shape.push_back(size);
  return shape;
}

/// The first slot of a symbol. Symbols have slots from import on.
template <typename Op> static int64_t slotOf(Op op) {
  return op.getSlotAttr().getInt();
}

static json::Object describe(WeightOp weight) {
  json::Object object{
      {"symbol", weight.getSymName()},
      {"name", weight.getSource()},
      {"count", static_cast<int64_t>(weight.getCount().value_or(0))},
      {"first", static_cast<int64_t>(weight.getFirst())},
      {"shape", shapeOf(weight.getTensorType())},
      {"dtype", dtypeName(weight.getTensorType().getElementType())},
      {"slot", slotOf(weight)}};
  if (weight.getFirstRow())
    object["rows"] =
        json::Object{{"first", static_cast<int64_t>(*weight.getFirstRow())},
                     {"of", static_cast<int64_t>(*weight.getSourceRows())}};
  if (auto split = weight.getSplit())
    object["split"] = stringifySplit(*split);
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

static json::Object describe(RopeTableOp table) {
  json::Object object{{"symbol", table.getSymName()},
                      {"rows", static_cast<int64_t>(table.getPositions())},
                      {"inv_freq", numbers(table.getInvFreq())},
                      {"scale", table.getScale().convertToDouble()},
                      {"slot", slotOf(table)}};
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

/// Operations and bytes of one token, without the head and of the head.
static json::Object describe(const Costs &costs) {
  int64_t flops = costs.flops(false), bytes = costs.weightBytes(false);
  int64_t headFlops = costs.flops(true), headBytes = costs.weightBytes(true);
  return json::Object{
      {"decode",
       json::Object{{"flops", flops + headFlops},
                    {"weight_bytes", bytes + headBytes},
                    {"kv_bytes_per_position", costs.cacheBytesPerPosition}}},
      {"prefill", json::Object{{"flops_per_token", flops}}},
      {"head",
       json::Object{{"flops", headFlops}, {"weight_bytes", headBytes}}}};
}

static json::Object describe(const KernelCost &cost) {
  json::Array attention;
  for (const AttentionRow &row : cost.attention)
    attention.push_back(json::Object{{"flops_per_key", row.flopsPerKey},
                                     {"bytes_per_key", row.bytesPerKey},
                                     {"window", row.window}});
  return json::Object{{"kernel", cost.function()},
                      {"path", cost.path},
                      {"layer", cost.firstLayer},
                      {"layer_step", cost.layerStep},
                      {"bytes", cost.weightBytes},
                      {"bytes_per_token", cost.tokenBytes},
                      {"flops_per_token", cost.tokenFlops},
                      {"flops_per_logits", cost.logitFlops},
                      {"attention", std::move(attention)},
                      {"f32", cost.f32}};
}

/// Whether ranks share the rows of the head that makes the logits.
static bool sharesVocabulary(func::FuncOp forward) {
  Value logits = forward.front().getTerminator()->getOperand(0);
  auto head = logits.getDefiningOp<HeadOp>();
  auto get =
      head ? head.getWeight().getDefiningOp<GetWeightOp>() : GetWeightOp();
  return get && SymbolTable::lookupNearestSymbolFrom<WeightOp>(
                    forward, get.getWeightAttr())
                    .getSplit();
}

static json::Object modelOf(func::FuncOp forward, const json::Object *config,
                            int64_t chunk) {
  json::Object model{
      {"chunk", chunk},
      {"max_seq", positionsOf(forward->getParentOfType<ModuleOp>())}};
  auto logits = cast<RankedTensorType>(forward.getResultTypes()[0]);
  int64_t shards = LlamaDialect::shardsOf(forward);
  model["vocab_size"] = logits.getDimSize(1);
  if (shards > 1)
    model["shards"] = shards;
  if (sharesVocabulary(forward)) {
    model["logits"] = logits.getDimSize(1);
    model["vocab_size"] = logits.getDimSize(1) * shards;
  }
  if (returnsHidden(forward.getFunctionType()))
    model["hidden"] =
        cast<RankedTensorType>(forward.getResultTypes()[1]).getDimSize(1);
  if (ArrayRef<Type> caches = cacheTypes(forward.getFunctionType());
      !caches.empty()) {
    auto cache = cast<RankedTensorType>(caches.front());
    model["layers"] = cache.getDimSize(0);
    Type element = cache.getElementType();
    // The type of activations. Quantized caches have another element type.
    forward.walk([&](KVAppendOp op) {
      element = op.getRows().getType().getElementType();
    });
    model["dtype"] = dtypeName(element);
  }
  // Tokens also see later tokens, so a text must be one call.
  WalkResult causal = forward.walk([](GQAOp op) {
    return op.getCausal() || op.getOver() ? WalkResult::advance()
                                          : WalkResult::interrupt();
  });
  if (causal.wasInterrupted())
    model["bidirectional"] = true;
  WalkResult learned = forward.walk([](AddRowsOp op) {
    return op.getPosition() ? WalkResult::interrupt() : WalkResult::advance();
  });
  if (learned.wasInterrupted())
    model["learned_positions"] = true;
  if (config)
    for (const char *key : {"hidden_size", "max_position_embeddings"})
      if (auto value = config->getInteger(key))
        model[key] = *value;
  return model;
}

static json::Object cpuOf(const CpuTarget &cpu, const json::Object &root) {
  json::Array features;
  for (const std::string &feature : cpu.features)
    features.push_back(feature);
  json::Object entries{{"prefill", "cria_prefill"}};
  if (root.get("batch"))
    entries["batch"] = "cria_batch";
  else
    entries["decode"] = "cria_decode";
  if (root.getObject("model")->get("encoder"))
    entries["encode"] = "cria_encode";
  return json::Object{{"name", cpu.name},
                      {"features", std::move(features)},
                      {"entries", std::move(entries)}};
}

void Manifest::fromProgram(ModuleOp program, json::Value config,
                           int64_t chunk) {
  root["format"] = static_cast<int64_t>(CRIA_FORMAT_VERSION);
  root["compiler"] = "cria " CRIA_VERSION;
  auto forward = program.lookupSymbol<func::FuncOp>("forward");
  json::Object model = modelOf(forward, config.getAsObject(), chunk);
  root["config"] = std::move(config);
  Costs costs = costsOf(program);
  root["plan"] = describe(costs);
  if (program.lookupSymbol("encode"))
    model["encoder"] = true;
  describeInterface(program, forward);
  describeEmbedding(forward);
  model["parameters"] = costs.parameters;
  root["model"] = std::move(model);
  setFlag("chunk", chunk);
}

void Manifest::fromFuse(ModuleOp program) {
  json::Array kernels;
  for (const KernelCost &cost : kernelCostsOf(program))
    kernels.push_back(describe(cost));
  if (json::Object *plan = root.getObject("plan"))
    (*plan)["kernels"] = std::move(kernels);
  if (auto batch = program.lookupSymbol<func::FuncOp>("batch"))
    describeBatch(batch);
}

/// Describes the batch entry: the rows of a call, the positions of a page, and
/// the most pages of a text. A cache is described by one of its pages.
void Manifest::describeBatch(func::FuncOp batch) {
  root.getObject("model")->erase("hidden"); // these entries return none
  describeCaches(batch);
  FunctionType type = batch.getFunctionType();
  ArrayRef<Type> caches = cacheTypes(type);
  auto pages =
      cast<RankedTensorType>(type.getInputs().drop_back(caches.size()).back());
  auto page = pageOf(cast<RankedTensorType>(caches.front()));
  root["batch"] = json::Object{
      {"rows", batch->getAttrOfType<IntegerAttr>("chunk").getInt()},
      {"page", page.getDimSize(2)},
      {"width", pages.getDimSize(1)}};
}

void Manifest::setTarget(Device device, const CpuTarget &cpu, bool plain) {
  bool isCpu = device == Device::Cpu;
  root["target"] = json::Object{
      {"kind", isCpu ? "cpu" : "cuda"}, {"arch", "x86_64"}, {"os", "linux"}};
  setFlag("cpu", cpu.flag);
  if (plain)
    setFlag("plain", true);
  if (isCpu)
    root["cpu"] = json::Array{cpuOf(cpu, root)};
}

/// The description of the code for the compilation's own CPU.
static json::Object &firstCpu(json::Object &root) {
  return *(*root["cpu"].getAsArray())[0].getAsObject();
}

void Manifest::renameEntries(StringRef suffix) {
  json::Object &entries = *firstCpu(root)["entries"].getAsObject();
  for (auto &[name, symbol] : entries)
    symbol = (*symbol.getAsString() + suffix).str();
}

void Manifest::addCpu(const Manifest &other) {
  json::Object &flags = *root["flags"].getAsObject();
  StringRef flag = *other.root.getObject("flags")->getString("cpu");
  flags["cpu"] = (*flags.getString("cpu") + "," + flag).str();
  for (const json::Value &code : *other.root.getArray("cpu"))
    root["cpu"].getAsArray()->push_back(code);
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

void Manifest::describeInterface(ModuleOp program, func::FuncOp function) {
  describeSymbols(program);
  describeCaches(function);
}

void Manifest::describeSymbols(ModuleOp program) {
  json::Array weights, tables;
  int64_t slots = 0;
  for (auto weight : program.getOps<WeightOp>()) {
    slots += weight.getSlotCount();
    weights.push_back(describe(weight));
  }
  for (auto table : program.getOps<RopeTableOp>()) {
    slots += table.getSlotCount();
    tables.push_back(describe(table));
  }
  root["weights"] = std::move(weights);
  root["rope"] = std::move(tables);
  root["slots"] = slots;
}

/// The embedding table, if one op looks up the ids in it, and nothing else
/// reads it except the head whose logits the program returns. The runtime can
/// then replace the table by other rows, as long as it does not ask for logits.
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
  root.erase("embedding");
  if (WeightOp table = embeddingOf(forward))
    root["embedding"] = slotOf(table);
}

void Manifest::describeCaches(func::FuncOp forward) {
  std::optional<std::vector<LayerRopes>> ropes = cacheRopes(forward);
  json::Array caches;
  for (auto [i, type] :
       llvm::enumerate(cacheTypes(forward.getFunctionType()))) {
    auto cache = pageOf(cast<RankedTensorType>(type));
    caches.push_back(
        json::Object{{"symbol", "cache" + std::to_string(i)},
                     {"bytes", storageBytes(cache)},
                     {"shape", shapeOf(cache)},
                     {"dtype", dtypeName(cache.getElementType())}});
    if (ropes)
      (*caches.back().getAsObject())["rope"] = json::Array((*ropes)[i]);
  }
  root["caches"] = std::move(caches);
}

void Manifest::fromTile(ModuleOp module) {
  int64_t arena = 0;
  json::Array kernels;
  for (auto function : module.getOps<func::FuncOp>())
    if (auto bytes = function->getAttrOfType<IntegerAttr>("arena_bytes"))
      arena = std::max(arena, bytes.getInt());
  for (func::FuncOp kernel : kernelFunctions(module))
    kernels.push_back(kernel.getName());
  firstCpu(root)["arena"] = arena;
  root["kernels"] = std::move(kernels);
}

void Manifest::addCuda(const CudaImage &image) {
  json::Object cuda(image.plan);
  json::Array images;
  for (const CudaBinary &binary : image.binaries) {
    json::Object entry{{"chip", binary.chip},
                       {"format", binary.format},
                       {"symbol", binary.symbol()}};
    if (binary.dependent)
      entry["dependent"] = true;
    if (binary.wgmma)
      entry["wgmma"] = true;
    bool isWhole = binary.bytes.size() == image.text.size();
    if (!binary.spans.empty() && !isWhole) {
      json::Array spans;
      for (auto [offset, size] : binary.spans) {
        spans.push_back(static_cast<int64_t>(offset));
        spans.push_back(static_cast<int64_t>(offset + size));
      }
      entry["spans"] = std::move(spans);
    }
    images.push_back(std::move(entry));
  }
  cuda["images"] = std::move(images);
  root["cuda"] = std::move(cuda);
  json::Object &target = *root["target"].getAsObject();
  bool both = root.get("cpu");
  target["kind"] = both ? "cpu,cuda" : "cuda";
  if (both)
    return;
  json::Array kernels;
  for (const std::string &name : image.kernels)
    kernels.push_back(name);
  root["kernels"] = std::move(kernels);
}

void Manifest::addTaps(json::Array caches, json::Object taps) {
  for (json::Value &cache : caches)
    root["caches"].getAsArray()->push_back(std::move(cache));
  root["taps"] = std::move(taps);
}

void Manifest::setFlag(StringRef name, json::Value value) {
  json::Value &flags = root["flags"];
  if (!flags.getAsObject())
    flags = json::Object();
  (*flags.getAsObject())[name] = std::move(value);
}

std::string Manifest::text() const {
  return llvm::formatv("{0}", json::Value(json::Object(root))).str();
}

//===----------------------------------------------------------------------===//
// In a module
//===----------------------------------------------------------------------===//

static constexpr const char *kAttribute = "cria.manifest";

/// Whether objects and arrays nest at most `most` deep. LLVM's parser recurses,
/// so deep text would overflow the stack.
static bool isShallow(StringRef text) {
  constexpr int most = 80;
  int depth = 0;
  bool inString = false;
  for (size_t i = 0; i < text.size(); ++i) {
    if (inString && text[i] == '\\')
      ++i;
    else if (text[i] == '"')
      inString = !inString;
    else if (!inString && (text[i] == '[' || text[i] == '{'))
      ++depth;
    else if (!inString && (text[i] == ']' || text[i] == '}'))
      --depth;
    if (depth > most)
      return false;
  }
  return true;
}

bool Manifest::isIn(ModuleOp module) { return module->hasAttr(kAttribute); }

void Manifest::store(ModuleOp module) const {
  module->setAttr(kAttribute, StringAttr::get(module.getContext(), text()));
}

/// The key that compilation reads and that is missing or out of range, or
/// nullptr.
static const char *missing(const json::Object &root) {
  const json::Object *model = root.getObject("model");
  if (!model)
    return "model";
  for (const char *key : {"chunk", "max_seq", "vocab_size"})
    if (!model->getInteger(key))
      return key;
  if (int64_t chunk = *model->getInteger("chunk"); chunk < 1 || chunk > 4096)
    return "chunk";
  for (const char *key : {"weights", "rope", "caches"})
    if (!root.getArray(key))
      return key;
  if (const json::Value *cpu = root.get("cpu"))
    if (!cpu->getAsArray() || cpu->getAsArray()->size() != 1 ||
        !(*cpu->getAsArray())[0].getAsObject())
      return "cpu";
  return root.getObject("flags") ? nullptr : "flags";
}

FailureOr<Manifest> Manifest::of(ModuleOp module) {
  auto text = module->getAttrOfType<StringAttr>(kAttribute);
  if (!text)
    return module.emitError("expected the attribute '")
           << kAttribute << "' that cria-compile --emit prints";
  auto error = [&] {
    return module.emitError("expected '") << kAttribute << "' ";
  };
  if (!isShallow(text))
    return error() << "to be shallow JSON";
  llvm::Expected<json::Value> parsed = json::parse(text.getValue());
  if (!parsed) {
    std::string why = llvm::toString(parsed.takeError());
    return error() << "to be JSON: " << why;
  }
  json::Object *root = parsed->getAsObject();
  if (!root)
    return error() << "to be an object";
  StringRef compiler = root->getString("compiler").value_or("another compiler");
  if (compiler != "cria " CRIA_VERSION)
    return error() << "of cria " CRIA_VERSION ", got that of " << compiler;
  if (const char *key = missing(*root))
    return error() << "with '" << key << "'";
  Manifest manifest;
  manifest.root = std::move(*root);
  return manifest;
}

std::vector<LedgerRow> Manifest::ledger() const {
  std::vector<LedgerRow> rows;
  if (const json::Array *ledger = root.getArray("ledger"))
    for (const json::Value &value : *ledger) {
      auto text = [&](StringRef key) {
        const json::Object *row = value.getAsObject();
        return (row ? row->getString(key) : std::nullopt).value_or("").str();
      };
      rows.push_back({text("key"), text("value"), text("fate"), text("note")});
    }
  return rows;
}
