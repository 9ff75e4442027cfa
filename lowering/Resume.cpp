#include "lowering/Resume.h"

#include "dialect/Dialect.h"
#include "lowering/entry/Entry.h"
#include "lowering/import/Program.h"

#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "llvm/ADT/StringMap.h"

using namespace mlir;
using namespace cria;
namespace json = llvm::json;

//===----------------------------------------------------------------------===//
// Flags
//===----------------------------------------------------------------------===//

/// Fails if the user passed the flag with another value than the one that the
/// text was compiled with. `asked` is empty if the user did not pass the flag.
template <typename T>
static llvm::Error expectFlag(StringRef input, const char *flag,
                              std::optional<T> asked, T made) {
  if (!asked || *asked == made)
    return llvm::Error::success();
  return llvm::createStringError(
      llvm::formatv("--{0}={1}: expected {2}, which {3} is made for", flag,
                    *asked, made, input)
          .str());
}

static std::optional<int64_t> unlessZero(int64_t number) {
  return number ? std::optional(number) : std::nullopt;
}

static std::optional<StringRef> nameOf(std::optional<DType> type) {
  if (!type)
    return std::nullopt;
  return *type == DType::F32 ? "f32" : *type == DType::F16 ? "f16" : "bf16";
}

llvm::Error cria::checkModel(const CompileOptions &options,
                             const Manifest &manifest) {
  const json::Object &model = *manifest.object().getObject("model");
  auto dtype = model.getString("dtype");
  if (!dtype) // no caches
    return llvm::Error::success();
  if (llvm::Error error = expectFlag(options.input, "dtype",
                                     nameOf(options.import.dtype), *dtype))
    return error;
  return expectFlag(options.input, "max-seq", unlessZero(options.import.maxSeq),
                    *model.getInteger("max_seq"));
}

/// Sets the target and the CPU to those of a text at Tile.
static llvm::Error resumeTarget(CompileOptions &options,
                                const Manifest &manifest) {
  const json::Object &root = manifest.object();
  const json::Object *target = root.getObject("target");
  auto kind = target ? target->getString("kind") : std::nullopt;
  auto cpu = root.getObject("flags")->getString("cpu");
  if (!kind || !cpu)
    return llvm::createStringError(options.input +
                                   ": expected 'target' and the flag 'cpu' in "
                                   "'cria.manifest'");
  std::optional<StringRef> device, asked;
  if (options.device)
    device = *options.device == Device::Cuda ? "cuda" : "cpu";
  if (options.cpu)
    asked = *options.cpu;
  if (llvm::Error error = expectFlag(options.input, "target", device, *kind))
    return error;
  if (llvm::Error error = expectFlag(options.input, "cpu", asked, *cpu))
    return error;
  options.device = *kind == "cuda" ? Device::Cuda : Device::Cpu;
  options.cpu = cpu->str();
  return llvm::Error::success();
}

llvm::Error cria::resume(CompileOptions &options, Phase phase,
                         const Manifest &manifest) {
  const json::Object &root = manifest.object();
  int64_t chunk = *root.getObject("model")->getInteger("chunk");
  int64_t rank = root.getObject("flags")->getInteger("lora_rank").value_or(0);
  if (llvm::Error error =
          expectFlag(options.input, "chunk", options.chunk, chunk))
    return error;
  if (llvm::Error error = expectFlag(options.input, "lora-rank",
                                     unlessZero(options.import.loraRank), rank))
    return error;
  int64_t shards = root.getObject("model")->getInteger("shards").value_or(1);
  if (llvm::Error error = expectFlag(options.input, "shards",
                                     unlessZero(options.shards), shards))
    return error;
  for (auto [flag, format] :
       {std::pair("quantize", &options.quantize), {"kv", &options.kv}}) {
    if (format->empty())
      continue;
    if (llvm::Error error = expectFlag<StringRef>(
            options.input, flag, StringRef(*format),
            root.getObject("flags")->getString(flag).value_or("none")))
      return error;
    format->clear();
  }
  StringRef sizes =
      root.getObject("flags")->getString("schedules").value_or("");
  if (!options.schedules.empty() && options.schedules != sizes)
    return llvm::createStringError(
        llvm::formatv("--schedules: expected {0}, which {1} is made for, got a "
                      "file with {2}",
                      sizes.empty() ? "none" : sizes, options.input,
                      options.schedules)
            .str());
  options.schedules = sizes.str();
  if (llvm::Error error = checkModel(options, manifest))
    return error;
  int64_t batch = root.getObject("flags")->getInteger("batch").value_or(0);
  if (llvm::Error error =
          expectFlag(options.input, "batch", options.batch, batch))
    return error;
  options.chunk = chunk;
  options.shards = 0; // the program is split already
  options.batch = batch;
  options.import = {};
  return phase == Phase::Tile ? resumeTarget(options, manifest)
                              : llvm::Error::success();
}

llvm::Error cria::checkTarget(const PipelineOptions &options, StringRef input,
                              const Manifest &manifest) {
  Manifest now = manifest;
  now.setTarget(options.device, options.cpu, options.plain);
  auto same = [&](const char *key) {
    const llvm::json::Value *a = now.object().get(key);
    const llvm::json::Value *b = manifest.object().get(key);
    return a && b ? *a == *b : !a && !b;
  };
  if (same("target") && same("cpu"))
    return llvm::Error::success();
  return llvm::createStringError("--cpu=" + options.cpu.flag + ": expected " +
                                 "the CPU and features that " + input +
                                 " is made for");
}

//===----------------------------------------------------------------------===//
// Functions
//===----------------------------------------------------------------------===//

namespace {
/// A tensor that the runtime binds to a slot.
struct Bound {
  int64_t slot;
  bool layered;
  json::Array shape;
  std::string dtype;
};

/// Verifies a module of phase Linalg or Tile against its manifest.
class Resumed {
public:
  Resumed(ModuleOp module, Phase phase, const Manifest &manifest)
      : module(module), phase(phase), root(manifest.object()),
        model(*root.getObject("model")) {}
  LogicalResult verify();

private:
  void readSymbols();
  LogicalResult verifySymbol(func::FuncOp function);
  LogicalResult verifyEntry(func::FuncOp entry);
  LogicalResult verifyBatched(func::FuncOp entry,
                              const EntryArguments &arguments);
  /// A number of the manifest's `batch`; 0 if there is no `batch`.
  int64_t batch(StringRef key) const {
    const json::Object *object = root.getObject("batch");
    return object ? object->getInteger(key).value_or(0) : 0;
  }
  LogicalResult verifyCaches(func::FuncOp entry,
                             const EntryArguments &arguments);
  LogicalResult verifyTypes(func::FuncOp function);
  LogicalResult verifyHidden(func::FuncOp entry,
                             const EntryArguments &arguments);
  LogicalResult verifyArena(func::FuncOp entry,
                            const EntryArguments &arguments);
  LogicalResult verifyKernels();

  ModuleOp module;
  Phase phase;
  const json::Object &root, &model;
  llvm::StringMap<Bound> symbols;
};
} // namespace

static json::Array shapeOf(ShapedType type) {
  json::Array shape;
  for (int64_t size : type.getShape())
    shape.push_back(size);
  return shape;
}

static std::string nameOf(Type type) {
  std::string name;
  llvm::raw_string_ostream(name) << type;
  return name;
}

/// Whether a tensor or memref has the shape and type that the manifest names.
/// Blocks are stored as storageType says.
static bool isStored(ShapedType type, json::Array shape, StringRef dtype) {
  std::string element = dtype.str();
  if (auto format = llama::symbolizeBlockFormat(dtype);
      format && !shape.empty()) {
    auto blocks = llama::BlocksType::get(type.getContext(), *format);
    if (auto last = shape.back().getAsInteger())
      shape.back() = *last / blocks.kNumbers;
    shape.push_back(blocks.getBytes());
    element = "i8";
  }
  return shapeOf(type) == shape && nameOf(type.getElementType()) == element;
}

static std::string show(const json::Value &value) {
  return llvm::formatv("{0}", value).str();
}

void Resumed::readSymbols() {
  for (const json::Value &value : *root.getArray("weights"))
    if (const json::Object *weight = value.getAsObject())
      if (const json::Array *shape = weight->getArray("shape"))
        symbols[weight->getString("symbol").value_or("")] = {
            weight->getInteger("slot").value_or(-1),
            weight->getInteger("count").value_or(0) != 0, *shape,
            weight->getString("dtype").value_or("").str()};
  for (const json::Value &value : *root.getArray("rope")) {
    const json::Object *table = value.getAsObject();
    const json::Array *pairs = table ? table->getArray("inv_freq") : nullptr;
    if (!pairs)
      continue;
    json::Array shape{table->getInteger("rows").value_or(0),
                      static_cast<int64_t>(pairs->size())};
    for (int64_t i : {0, 1}) {
      StringRef symbol = table->getString("symbol").value_or("");
      symbols[(symbol + (i == 0 ? ".cos" : ".sin")).str()] = {
          table->getInteger("slot").value_or(-1) + i, false, shape, "f32"};
    }
  }
}

/// Arguments and results are tensors at Linalg, and contiguous memrefs at Tile.
LogicalResult Resumed::verifyTypes(func::FuncOp function) {
  FunctionType signature = function.getFunctionType();
  for (Type type : llvm::concat<const Type>(signature.getInputs(),
                                            signature.getResults())) {
    auto memref = dyn_cast<MemRefType>(type);
    bool fits = phase == Phase::Linalg
                    ? isa<RankedTensorType>(type)
                    : memref && memref.getLayout().isIdentity() &&
                          !memref.getMemorySpace();
    if (!type.isIndex() && !fits)
      return function.emitError("expected ")
             << (phase == Phase::Linalg ? "tensors" : "contiguous memrefs")
             << " and index numbers, got " << type;
  }
  return success();
}

/// A declaration stands for a weight or a rope table that has a slot in the
/// manifest.
LogicalResult Resumed::verifySymbol(func::FuncOp function) {
  auto what = function->getAttrOfType<DictionaryAttr>("weight");
  if (!what)
    what = function->getAttrOfType<DictionaryAttr>("rope");
  auto slot = what ? what.getAs<IntegerAttr>("slot") : IntegerAttr();
  if (!slot)
    return function.emitError("expected a declaration with the attribute "
                              "'weight' or 'rope' and a slot in it");
  auto found = symbols.find(function.getName());
  if (found == symbols.end())
    return function.emitError("expected a weight or rope table that the "
                              "manifest has, got @")
           << function.getName();
  const Bound &bound = found->second;
  if (slot.getInt() != bound.slot)
    return function.emitError("expected slot ")
           << bound.slot << ", got " << slot.getInt();
  FunctionType signature = function.getFunctionType();
  ArrayRef<Type> inputs = signature.getInputs();
  bool takesLayer = inputs.size() == 1 && inputs[0].isIndex();
  auto type = signature.getNumResults() == 1
                  ? dyn_cast<ShapedType>(signature.getResult(0))
                  : ShapedType();
  if ((bound.layered ? !takesLayer : !inputs.empty()) || !type ||
      !isStored(type, bound.shape, bound.dtype))
    return function.emitError("expected ")
           << (bound.layered ? "(index)" : "()") << " to " << bound.dtype
           << " of shape " << show(json::Array(bound.shape)) << ", got "
           << signature;
  return success();
}

LogicalResult Resumed::verifyCaches(func::FuncOp entry,
                                    const EntryArguments &arguments) {
  const json::Array &caches = *root.getArray("caches");
  bool isBatched = arguments.has(EntryArgument::Pages);
  SmallVector<unsigned> places = arguments.caches();
  if (places.size() != caches.size())
    return entry.emitError("expected ")
           << caches.size() << " caches, got " << places.size();
  for (auto [place, value] : llvm::zip_equal(places, caches)) {
    auto type = cast<ShapedType>(entry.getArgumentTypes()[place]);
    const json::Object *cache = value.getAsObject();
    const json::Array *shape = cache ? cache->getArray("shape") : nullptr;
    if (isBatched) // the number of pages may be any
      type = type.clone(type.getShape().drop_front());
    StringRef dtype =
        cache ? cache->getString("dtype").value_or("") : StringRef();
    if (!shape || !isStored(type, *shape, dtype))
      return entry.emitError("expected argument ")
             << place << " to be a cache of " << dtype << " and shape "
             << (shape ? show(json::Array(*shape)) : "") << ", got " << type;
  }
  return success();
}

/// @prefill has hidden states of as many numbers as the manifest says; other
/// entries have none.
LogicalResult Resumed::verifyHidden(func::FuncOp entry,
                                    const EntryArguments &arguments) {
  std::optional<int64_t> size;
  if (entry.getName() == "prefill")
    size = model.getInteger("hidden");
  int64_t found = 0;
  if (arguments.has(EntryArgument::Hidden)) {
    unsigned place = arguments.at(EntryArgument::Hidden);
    auto type = cast<ShapedType>(entry.getArgumentTypes()[place]);
    found = type.getDimSize(1);
    if (size && type.getDimSize(0) != *model.getInteger("chunk"))
      return entry.emitError("expected hidden states of ")
             << *model.getInteger("chunk") << " tokens, got "
             << type.getDimSize(0);
  }
  if (found == size.value_or(0))
    return success();
  return entry.emitError("expected hidden states of ")
         << size.value_or(0) << " numbers, got " << found;
}

LogicalResult Resumed::verifyArena(func::FuncOp entry,
                                   const EntryArguments &arguments) {
  auto bytes = entry->getAttrOfType<IntegerAttr>("arena_bytes");
  unsigned place = arguments.at(EntryArgument::Arena);
  if (!bytes || place == entry.getNumArguments() ||
      cast<MemRefType>(entry.getArgumentTypes()[place]).getDimSize(0) !=
          bytes.getInt())
    return entry.emitError("expected an arena of as many bytes as the "
                           "attribute 'arena_bytes' says");
  return success();
}

static constexpr StringLiteral kEntries[] = {"prefill", "decode", "encode",
                                             "batch"};

/// Entries over paged caches come with `--batch` alone. Their pages have the
/// shape that the manifest says.
LogicalResult Resumed::verifyBatched(func::FuncOp entry,
                                     const EntryArguments &arguments) {
  bool isPaged = arguments.has(EntryArgument::Pages),
       isBatch = entry.getName() == "batch";
  if (isPaged != bool(root.getObject("batch")) ||
      isBatch != arguments.has(EntryArgument::Positions))
    return entry.emitError("expected pages, and of @batch positions, if and "
                           "only if 'cria.manifest' has 'batch'");
  if (!isPaged)
    return success();
  auto pages = cast<ShapedType>(
      entry.getArgumentTypes()[arguments.at(EntryArgument::Pages)]);
  if (pages.getRank() != (isBatch ? 2 : 1) ||
      pages.getShape().back() != batch("width"))
    return entry.emitError("expected pages of ")
           << batch("width") << " numbers, got " << pages;
  return success();
}

LogicalResult Resumed::verifyEntry(func::FuncOp entry) {
  FailureOr<EntryArguments> arguments = EntryArguments::of(entry);
  if (failed(arguments))
    return failure();
  StringRef name = entry.getName();
  // The pass plan-launches checks the other arguments of @sample.
  if (arguments->drawsId())
    return success();
  if (!llvm::is_contained(kEntries, name))
    return entry.emitError("expected entry functions @prefill, @decode, "
                           "@encode and @batch, got @")
           << name;
  if (failed(verifyBatched(entry, *arguments)))
    return failure();
  int64_t chunk = name == "decode"  ? 1
                  : name == "batch" ? batch("rows")
                                    : *model.getInteger("chunk");
  int64_t vocab = *model.getInteger("vocab_size");
  int64_t columns =
      name == "encode" ? 1 : model.getInteger("logits").value_or(vocab);
  int64_t said = entry->getAttrOfType<IntegerAttr>("chunk").getInt();
  auto shape = [&](EntryArgument what) {
    return cast<ShapedType>(entry.getArgumentTypes()[arguments->at(what)])
        .getShape();
  };
  if (said != chunk || shape(EntryArgument::Ids) != ArrayRef(chunk))
    return entry.emitError("expected ids and the attribute 'chunk' of ")
           << chunk << " tokens, got " << shape(EntryArgument::Ids)[0]
           << " and " << said;
  ArrayRef<int64_t> logits = shape(EntryArgument::Logits);
  if (logits[0] != chunk || logits[1] != columns)
    return entry.emitError("expected logits of shape [")
           << chunk << "," << columns << "], got [" << logits[0] << ","
           << logits[1] << "]";
  if (failed(verifyHidden(entry, *arguments)) ||
      failed(verifyCaches(entry, *arguments)))
    return failure();
  return phase == Phase::Tile ? verifyArena(entry, *arguments) : success();
}

/// Checks the parts of a module that only CUDA's Tile has: kernels, the chips
/// that the kernels are for, and the entry @sample.
LogicalResult Resumed::verifyKernels() {
  auto modules = module.getOps<gpu::GPUModuleOp>();
  if (!llvm::hasSingleElement(modules))
    return module.emitError("expected one gpu.module");
  gpu::GPUModuleOp kernels = *modules.begin();
  ArrayAttr targets = kernels.getTargetsAttr();
  if (!targets || targets.empty() ||
      !llvm::all_of(targets, llvm::IsaPred<NVVM::NVVMTargetAttr>))
    return kernels.emitError("expected targets, each an #nvvm.target");
  auto sample = module.lookupSymbol<func::FuncOp>("sample");
  if (!sample || !isEntry(sample))
    return module.emitError("expected an entry function @sample");
  return success();
}

LogicalResult Resumed::verify() {
  const json::Object *target = root.getObject("target");
  if (phase == Phase::Tile && target && target->getString("kind") == "cuda" &&
      failed(verifyKernels()))
    return failure();
  readSymbols();
  for (auto function : module.getOps<func::FuncOp>()) {
    bool isSymbol = function.isDeclaration();
    if (isSymbol &&
        (failed(verifyTypes(function)) || failed(verifySymbol(function))))
      return failure();
    if (isEntry(function) &&
        (failed(verifyTypes(function)) || failed(verifyEntry(function))))
      return failure();
    if (!isSymbol && !function.getBody().hasOneBlock())
      return function.emitError("expected one block, got ")
             << function.getBody().getBlocks().size();
  }
  for (StringRef name : kEntries) {
    bool isBatched = root.getObject("batch");
    bool needed = name == "encode" ? model.getBoolean("encoder").value_or(false)
                  : name == "batch"  ? isBatched
                  : name == "decode" ? !isBatched
                                     : true;
    auto entry = module.lookupSymbol<func::FuncOp>(name);
    if (needed && (!entry || !isEntry(entry)))
      return module.emitError("expected an entry function @") << name;
  }
  return success();
}

LogicalResult cria::verifyResumed(ModuleOp module, Phase phase,
                                  const Manifest &manifest) {
  if (phase != Phase::Fuse)
    return Resumed(module, phase, manifest).verify();
  if (failed(verifyFused(module)))
    return failure();
  // The manifest's symbols and caches can be derived from the program: the
  // manifest must be equal to the derived one.
  Manifest now;
  now.describeInterface(module, module.lookupSymbol<func::FuncOp>("prefill"));
  if (bool(module.lookupSymbol("batch")) !=
      bool(manifest.object().get("batch")))
    return module.emitError("expected @batch if, and only if, 'cria.manifest' "
                            "has 'batch'");
  // Caches may have got ropes since: where passes erased a use of rotated heads
  // that nothing reads.
  json::Object derived = now.object();
  for (auto [cache, own] : llvm::zip(*manifest.object().getArray("caches"),
                                     *derived.getArray("caches")))
    if (!cache.getAsObject() || !cache.getAsObject()->get("rope"))
      own.getAsObject()->erase("rope");
  for (const char *key : {"weights", "rope", "caches"})
    if (*derived.get(key) != *manifest.object().get(key))
      return module.emitError("expected ")
             << key << " as 'cria.manifest' has them";
  return success();
}
