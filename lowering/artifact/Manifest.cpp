#include "lowering/artifact/Manifest.h"

#include "dialect/Dialect.h"
#include "dialect/Signature.h"
#include "lowering/artifact/CacheRopes.h"
#include "lowering/entry/CacheWindows.h"
#include "lowering/entry/Costs.h"
#include "lowering/entry/Entry.h"
#include "lowering/import/Program.h"
#include "runtime/Abi.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

using namespace mlir;
using namespace cria;
using namespace cria::llama;

static std::string dtypeName(Type type) {
  if (auto blocks = dyn_cast<BlocksType>(type))
    return stringifyBlockFormat(blocks.getFormat()).str();
  return type.isBF16() ? "bf16" : type.isF16() ? "f16" : "f32";
}

/// The first slot of a symbol. Symbols have slots from import on.
template <typename Op> static int64_t slotOf(Op op) {
  return op.getSlotAttr().getInt();
}

/// The layers [first, first + count) of a weight, counted from its first.
struct LayerRange {
  int64_t first, count;
};

/// The layers that have a tensor, in ranges; {0, 0} for a weight without
/// layers.
static SmallVector<LayerRange> layerRanges(WeightOp weight) {
  auto all = static_cast<int64_t>(weight.getCount().value_or(0));
  std::optional<ArrayRef<int64_t>> layers = weight.getLayers();
  if (!layers)
    return {{0, all}};
  SmallVector<LayerRange> ranges;
  for (int64_t layer : *layers) {
    layer -= static_cast<int64_t>(weight.getFirst());
    if (ranges.empty() || ranges.back().first + ranges.back().count != layer)
      ranges.push_back({layer, 0});
    ++ranges.back().count;
  }
  return ranges;
}

/// Describes some layers of a weight.
static DictionaryAttr describe(WeightOp weight, LayerRange layers) {
  MLIRContext *context = weight.getContext();
  Fields object(context);
  ArrayRef<int64_t> shape = weight.getTensorType().getShape();
  object.set("symbol", weight.getSymName())
      .set("name", weight.getSource())
      .set("count", layers.count)
      .set("first", static_cast<int64_t>(weight.getFirst()) + layers.first)
      .set("shape", weight.getExperts() ? shape.drop_front() : shape)
      .set("dtype", dtypeName(weight.getTensorType().getElementType()))
      .set("slot", slotOf(weight) + layers.first * weight.getExpertCount());
  if (weight.getExperts())
    object.set("experts", weight.getExpertCount());
  if (weight.getFirstRow())
    object.set("rows", Fields(context)
                           .set("first", *weight.getFirstRow())
                           .set("of", *weight.getSourceRows()));
  if (auto split = weight.getSplit())
    object.set("split", stringifySplit(*split));
  if (weight.getTransposed())
    object.set("transposed", true);
  if (weight.getAdapter())
    object.set("adapter", true);
  if (weight.getInput())
    object.set("input", true);
  if (weight.getTied())
    object.set("tied", *weight.getTied());
  return object;
}

static DictionaryAttr describe(RopeTableOp table) {
  Fields object(table.getContext());
  object.set("symbol", table.getSymName())
      .set("rows", table.getPositions())
      .set("inv_freq", table.getInvFreq())
      .set("scale", table.getScale().convertToDouble())
      .set("slot", slotOf(table));
  if (table.getOriginal())
    object.set("original", *table.getOriginal());
  if (table.getLongInvFreq())
    object.set("long_inv_freq", *table.getLongInvFreq());
  if (table.getRecompute())
    object.set("recompute", true);
  if (table.getGrowth())
    object.set("growth", table.getGrowth()->convertToDouble())
        .set("theta", table.getTheta()->convertToDouble());
  return object;
}

/// Operations and bytes of one token, without the head and of the head.
static Fields describe(MLIRContext *context, const Costs &costs) {
  int64_t flops = costs.flops(false), bytes = costs.weightBytes(false);
  int64_t headFlops = costs.flops(true), headBytes = costs.weightBytes(true);
  return Fields(context)
      .set("decode",
           Fields(context)
               .set("flops", flops + headFlops)
               .set("weight_bytes", bytes + headBytes)
               .set("kv_bytes_per_position", costs.cacheBytesPerPosition))
      .set("prefill", Fields(context).set("flops_per_token", flops))
      .set("head", Fields(context)
                       .set("flops", headFlops)
                       .set("weight_bytes", headBytes));
}

static DictionaryAttr describe(MLIRContext *context, const KernelCost &cost) {
  SmallVector<Attribute> attention;
  for (const AttentionRow &row : cost.attention)
    attention.push_back(Fields(context)
                            .set("flops_per_key", row.flopsPerKey)
                            .set("bytes_per_key", row.bytesPerKey)
                            .set("window", row.window));
  return Fields(context)
      .set("kernel", cost.function())
      .set("path", cost.path)
      .set("layer", cost.firstLayer)
      .set("layer_step", cost.layerStep)
      .set("bytes", cost.weightBytes)
      .set("bytes_per_token", cost.tokenBytes)
      .set("flops_per_token", cost.tokenFlops)
      .set("flops_per_logits", cost.logitFlops)
      .set("attention", attention)
      .set("f32", cost.f32);
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

static Fields modelOf(func::FuncOp forward, DictionaryAttr config,
                      int64_t chunk) {
  Fields model(forward.getContext());
  model.set("chunk", chunk)
      .set("max_seq", positionsOf(forward->getParentOfType<ModuleOp>()));
  auto logits = cast<RankedTensorType>(forward.getResultTypes()[0]);
  int64_t shards = LlamaDialect::shardsOf(forward);
  model.set("vocab_size", logits.getDimSize(1));
  if (shards > 1)
    model.set("shards", shards);
  if (sharesVocabulary(forward))
    model.set("logits", logits.getDimSize(1))
        .set("vocab_size", logits.getDimSize(1) * shards);
  if (returnsHidden(forward.getFunctionType()))
    model.set(
        "hidden",
        cast<RankedTensorType>(forward.getResultTypes()[1]).getDimSize(1));
  if (ArrayRef<Type> caches = cacheTypes(forward.getFunctionType());
      !caches.empty()) {
    auto cache = cast<RankedTensorType>(caches.front());
    model.set("layers", cache.getDimSize(0));
    Type element = cache.getElementType();
    // The type of activations. Quantized caches have another element type.
    forward.walk([&](KVAppendOp op) {
      element = op.getRows().getType().getElementType();
    });
    model.set("dtype", dtypeName(element));
  }
  // Tokens also see later tokens, so a text must be one call.
  WalkResult causal = forward.walk([](GQAOp op) {
    return op.getCausal() || op.getOver() ? WalkResult::advance()
                                          : WalkResult::interrupt();
  });
  if (causal.wasInterrupted())
    model.set("bidirectional", true);
  if (seesAhead(forward))
    model.set("sees_ahead", true);
  WalkResult learned = forward.walk([](AddRowsOp op) {
    return op.getPosition() ? WalkResult::interrupt() : WalkResult::advance();
  });
  if (learned.wasInterrupted())
    model.set("learned_positions", true);
  int64_t front = 0; // rows that are set, whatever a call gives
  forward.walk([&](SetRowsOp op) {
    front = std::max(front, static_cast<int64_t>(op.getFirst()) +
                                op.getRows().getType().getDimSize(0));
  });
  if (front && causal.wasInterrupted())
    model.set("front_rows", front);
  for (const char *key : {"hidden_size", "max_position_embeddings"})
    if (auto value = getInteger(config, key))
      model.set(key, *value);
  return model;
}

static Fields cpuOf(const CpuTarget &cpu, DictionaryAttr root) {
  MLIRContext *context = root.getContext();
  Fields entries(context);
  entries.set("prefill", "cria_prefill");
  if (root.contains("batch"))
    entries.set("batch", "cria_batch");
  else
    entries.set("decode", "cria_decode");
  if (root.getAs<DictionaryAttr>("model").contains("encoder"))
    entries.set("encode", "cria_encode");
  return Fields(context)
      .set("name", cpu.name)
      .set("features", cpu.features)
      .set("entries", entries);
}

void Manifest::fromProgram(ModuleOp program, Attribute config, int64_t chunk) {
  auto forward = program.lookupSymbol<func::FuncOp>("forward");
  Costs costs = costsOf(program);
  Fields model = modelOf(forward, dyn_cast<DictionaryAttr>(config), chunk);
  model.set("parameters", costs.parameters);
  if (program.lookupSymbol("encode"))
    model.set("encoder", true);
  root.set("format", CRIA_FORMAT_VERSION)
      .set("compiler", "cria " CRIA_VERSION)
      .set("config", config)
      .set("plan", describe(program.getContext(), costs))
      .set("model", model);
  describeInterface(program, forward);
  describeEmbedding(forward);
}

void Manifest::fromFuse(ModuleOp program) {
  SmallVector<Attribute> kernels;
  for (const KernelCost &cost : kernelCostsOf(program))
    kernels.push_back(describe(program.getContext(), cost));
  if (get<DictionaryAttr>("plan"))
    root.set("plan", root.fieldsOf("plan").set("kernels", kernels));
  if (auto batch = program.lookupSymbol<func::FuncOp>("batch"))
    describeBatch(batch);
}

/// Describes the batch entry: the rows of a call, the positions of a page, and
/// the most pages of a text. A cache is described by one of its pages.
void Manifest::describeBatch(func::FuncOp batch) {
  describeCaches(batch);
  FunctionType type = batch.getFunctionType();
  ArrayRef<Type> caches = cacheTypes(type);
  auto pages = cast<RankedTensorType>(type.getInput(kPagesArgument));
  auto page =
      pageOf(cast<RankedTensorType>(*llvm::find_if(caches, [](Type type) {
        return !isState(cast<RankedTensorType>(type));
      })));
  root.set("batch", Fields(batch.getContext())
                        .set("rows", *chunkOf(batch))
                        .set("page", page.getDimSize(2))
                        .set("width", pages.getDimSize(1)));
}

void Manifest::setTarget(Device device, const CpuTarget &cpu, bool plain) {
  bool isCpu = device == Device::Cpu;
  root.set("target", Fields(root.getContext())
                         .set("kind", isCpu ? "cpu" : "cuda")
                         .set("arch", cpu.arch)
                         .set("os", "linux"));
  setFlag("cpu", cpu.flag);
  if (plain)
    setFlag("plain", true);
  if (isCpu)
    root.set("cpu", ArrayRef<Fields>(cpuOf(cpu, object())));
}

Fields Manifest::ownCpu() const {
  return Fields(root.getContext(),
                cast<DictionaryAttr>(get<ArrayAttr>("cpu")[0]));
}

void Manifest::renameEntries(StringRef suffix) {
  Fields cpu = ownCpu(), entries(root.getContext());
  for (NamedAttribute entry : cpu.getAs<DictionaryAttr>("entries"))
    entries.set(entry.getName(),
                (cast<StringAttr>(entry.getValue()).strref() + suffix).str());
  root.set("cpu", ArrayRef<Fields>(cpu.set("entries", entries)));
}

void Manifest::addCpu(const Manifest &other) {
  StringRef own = *getText(flags(), "cpu"),
            added = *getText(other.flags(), "cpu");
  setFlag("cpu", (own + "," + added).str());
  SmallVector<Attribute> cpus(get<ArrayAttr>("cpu").getValue());
  llvm::append_range(cpus, other.get<ArrayAttr>("cpu"));
  root.set("cpu", cpus);
}

void Manifest::setLedger(ArrayRef<LedgerRow> rows) {
  SmallVector<Attribute> ledger;
  for (const LedgerRow &row : rows)
    ledger.push_back(Fields(root.getContext())
                         .set("key", row.key)
                         .set("value", row.value)
                         .set("fate", row.fate)
                         .set("note", row.note));
  if (!rows.empty())
    root.set("ledger", ledger);
}

void Manifest::describeInterface(ModuleOp program, func::FuncOp function) {
  describeSymbols(program);
  describeCaches(function);
}

void Manifest::describeSymbols(ModuleOp program) {
  SmallVector<Attribute> weights, tables, gaps;
  int64_t slots = 0;
  for (auto weight : program.getOps<WeightOp>()) {
    slots += weight.getSlotCount();
    int64_t next = 0, experts = weight.getExpertCount();
    for (LayerRange layers : layerRanges(weight)) {
      if (layers.first > next)
        gaps.push_back(Fields(weight.getContext())
                           .set("slot", slotOf(weight) + next * experts)
                           .set("count", (layers.first - next) * experts)
                           .object());
      weights.push_back(describe(weight, layers));
      next = layers.first + layers.count;
    }
  }
  for (auto table : program.getOps<RopeTableOp>()) {
    slots += table.getSlotCount();
    tables.push_back(describe(table));
  }
  root.set("weights", weights).set("rope", tables).set("slots", slots);
  if (!gaps.empty())
    root.set("gaps", gaps);
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
    root.set("embedding", slotOf(table));
}

void Manifest::describeCaches(func::FuncOp forward) {
  std::optional<std::vector<LayerRopes>> ropes = cacheRopes(forward);
  FailureOr<SmallVector<int64_t>> windows = cacheWindows(forward); // verified
  SmallVector<Attribute> caches;
  for (auto [i, type] :
       llvm::enumerate(cacheTypes(forward.getFunctionType()))) {
    auto cache = pageOf(cast<RankedTensorType>(type));
    Fields object(forward.getContext());
    object.set("symbol", "cache" + std::to_string(i))
        .set("bytes", storageBytes(cache))
        .set("shape", cache.getShape())
        .set("dtype", dtypeName(cache.getElementType()));
    if (isState(cache))
      object.set("state", true);
    else if (ropes)
      object.set("rope", (*ropes)[i]);
    if (int64_t window = (*windows)[i])
      object.set("window", window);
    caches.push_back(object);
  }
  root.set("caches", caches);
}

void Manifest::fromTile(ModuleOp module) {
  int64_t arena = 0;
  SmallVector<StringRef> kernels;
  for (auto function : module.getOps<func::FuncOp>())
    if (auto bytes = function->getAttrOfType<IntegerAttr>(kArenaBytesAttribute))
      arena = std::max(arena, bytes.getInt());
  for (func::FuncOp kernel : kernelFunctions(module))
    kernels.push_back(kernel.getName());
  root.set("cpu", ArrayRef<Fields>(ownCpu().set("arena", arena)))
      .set("kernels", kernels);
}

void Manifest::addCuda(const CudaImage &image) {
  SmallVector<Attribute> images;
  for (const CudaBinary &binary : image.binaries) {
    bool isPtx = binary.format == "ptx";
    Fields object(root.getContext());
    object.set("chip", binary.chip)
        .set("format", binary.format)
        .set("symbol", binary.symbol())
        .set("unpacked", isPtx ? image.text.size() : binary.bytes.size());
    if (binary.dependent)
      object.set("dependent", true);
    if (binary.generation)
      object.set("generation", binary.generation);
    bool isWhole = binary.bytes.size() == image.text.size();
    if (!binary.spans.empty() && !isWhole) {
      SmallVector<size_t> spans;
      for (auto [offset, size] : binary.spans)
        spans.append({offset, offset + size});
      object.set("spans", spans);
    }
    images.push_back(object);
  }
  root.set("cuda", Fields(root.getContext(), image.plan).set("images", images));
  bool both = get<ArrayAttr>("cpu") != nullptr;
  root.set("target",
           root.fieldsOf("target").set("kind", both ? "cpu,cuda" : "cuda"));
  if (!both)
    root.set("kernels", image.kernels);
}

void Manifest::addTaps(ArrayRef<Attribute> caches, DictionaryAttr taps) {
  SmallVector<Attribute> all(get<ArrayAttr>("caches").getValue());
  llvm::append_range(all, caches);
  root.set("caches", all).set("taps", taps);
}

llvm::Expected<std::string> Manifest::text() const {
  auto json = toJson(object());
  if (!json)
    return llvm::createStringError("the manifest: " +
                                   llvm::toString(json.takeError()));
  return llvm::formatv("{0}", *json).str();
}

//===----------------------------------------------------------------------===//
// In a module
//===----------------------------------------------------------------------===//

static constexpr const char *kAttribute = "cria.manifest";

/// The module that has the manifest of `module`, or null.
static ModuleOp holderOf(ModuleOp module) {
  for (auto nested : module.getOps<ModuleOp>())
    if (nested->hasAttr(kAttribute))
      return nested;
  return {};
}

bool Manifest::isIn(ModuleOp module) { return bool(holderOf(module)); }

void Manifest::store(ModuleOp module) const {
  removeFrom(module);
  ModuleOp holder = ModuleOp::create(module.getLoc());
  holder->setAttr(kAttribute, object());
  module.push_back(holder);
}

void Manifest::removeFrom(ModuleOp module) {
  if (ModuleOp holder = holderOf(module))
    holder.erase();
}

/// The key that compilation reads and that is missing or out of range, or
/// nullptr.
static const char *missing(DictionaryAttr root) {
  auto model = root.getAs<DictionaryAttr>("model");
  if (!model)
    return "model";
  for (const char *key : {"chunk", "max_seq", "vocab_size"})
    if (!getInteger(model, key))
      return key;
  if (int64_t chunk = *getInteger(model, "chunk"); chunk < 1 || chunk > 4096)
    return "chunk";
  for (const char *key : {"weights", "rope", "caches"})
    if (!root.getAs<ArrayAttr>(key))
      return key;
  if (Attribute cpu = root.get("cpu")) {
    auto cpus = dyn_cast<ArrayAttr>(cpu);
    if (!cpus || cpus.size() != 1 || !isa<DictionaryAttr>(cpus[0]))
      return "cpu";
  }
  return root.getAs<DictionaryAttr>("flags") ? nullptr : "flags";
}

FailureOr<Manifest> Manifest::of(ModuleOp module) {
  ModuleOp holder = holderOf(module);
  if (!holder)
    return module.emitError("expected at the end a module with the attribute '")
           << kAttribute << "' that cria-compile --emit prints";
  auto error = [&] {
    return holder.emitError("expected '") << kAttribute << "' ";
  };
  auto root = holder->getAttrOfType<DictionaryAttr>(kAttribute);
  if (!root)
    return error() << "to be a dictionary, got " << holder->getAttr(kAttribute);
  if (auto json = toJson(root); !json)
    return holder.emitError("'")
           << kAttribute << "': " << llvm::toString(json.takeError());
  StringRef compiler = getText(root, "compiler").value_or("another compiler");
  if (compiler != "cria " CRIA_VERSION)
    return error() << "of cria " CRIA_VERSION ", got that of " << compiler;
  if (const char *key = missing(root))
    return error() << "with '" << key << "'";
  Manifest manifest;
  manifest.root = Fields(module.getContext(), root);
  return manifest;
}

std::vector<LedgerRow> Manifest::ledger() const {
  std::vector<LedgerRow> rows;
  if (auto ledger = get<ArrayAttr>("ledger"))
    for (Attribute value : ledger) {
      auto text = [&](StringRef key) {
        return getText(dyn_cast<DictionaryAttr>(value), key).value_or("").str();
      };
      rows.push_back({text("key"), text("value"), text("fate"), text("note")});
    }
  return rows;
}
