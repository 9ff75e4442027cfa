#include "lowering/Resume.h"

#include "dialect/Dialect.h"
#include "lowering/entry/Entry.h"
#include "lowering/import/Program.h"

#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "llvm/ADT/StringMap.h"

using namespace mlir;
using namespace cria;

//===----------------------------------------------------------------------===//
// Options
//===----------------------------------------------------------------------===//

/// Sets the target and the CPU to those of a text at Tile.
static llvm::Error resumeTarget(CompileOptions &options,
                                const Manifest &manifest) {
  auto kind = getText(manifest.get<DictionaryAttr>("target"), "kind");
  auto cpu = getText(manifest.flags(), "cpu");
  if (!kind || !cpu)
    return llvm::createStringError(options.input +
                                   ": expected 'target' and the flag 'cpu' in "
                                   "'cria.manifest'");
  std::optional<StringRef> device, asked;
  if (options.device)
    device = *options.device == Device::Cuda ? "cuda" : "cpu";
  if (options.cpu)
    asked = *options.cpu;
  if (llvm::Error error = expectMade("target", device, *kind, options.input))
    return error;
  if (llvm::Error error = expectMade("cpu", asked, *cpu, options.input))
    return error;
  options.device = *kind == "cuda" ? Device::Cuda : Device::Cpu;
  options.cpu = cpu->str();
  return llvm::Error::success();
}

llvm::Error cria::resume(CompileOptions &options, Phase phase,
                         const Manifest &manifest) {
  if (llvm::Error error = resumeOptions(options.program, options.input,
                                        manifest, phase == Phase::Import))
    return error;
  return phase == Phase::Tile ? resumeTarget(options, manifest)
                              : llvm::Error::success();
}

llvm::Error cria::checkTarget(const PipelineOptions &options, StringRef input,
                              const Manifest &manifest) {
  Manifest now = manifest;
  now.setTarget(options.device, options.cpu, options.plain);
  auto same = [&](const char *key) {
    return now.object().get(key) == manifest.object().get(key);
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
  SmallVector<int64_t> shape;
  StringRef dtype;
};

/// Verifies a module of phase Linalg or Tile against its manifest.
class Resumed {
public:
  Resumed(ModuleOp module, Phase phase, const Manifest &manifest)
      : module(module), phase(phase), root(manifest.object()),
        model(manifest.model()), batch(root.getAs<DictionaryAttr>("batch")) {}
  LogicalResult verify();

private:
  void readSymbols();
  LogicalResult verifySymbol(func::FuncOp function);
  LogicalResult verifyEntry(func::FuncOp entry);
  LogicalResult verifyBatched(func::FuncOp entry,
                              const EntryArguments &arguments);
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
  DictionaryAttr root, model;
  DictionaryAttr batch; // null without --batch
  llvm::StringMap<Bound> symbols;
};
} // namespace

/// The numbers of an array, or nothing if it is none of numbers.
static std::optional<SmallVector<int64_t>> shapeIn(DictionaryAttr object,
                                                   StringRef name) {
  auto sizes = object ? object.getAs<ArrayAttr>(name) : ArrayAttr();
  if (!sizes || !llvm::all_of(sizes, asInteger))
    return std::nullopt;
  return llvm::map_to_vector(sizes,
                             [](Attribute size) { return *asInteger(size); });
}

static std::string nameOf(Type type) {
  std::string name;
  llvm::raw_string_ostream(name) << type;
  return name;
}

/// Whether a tensor or memref has the shape and type that the manifest names.
/// Blocks are stored as storageType says.
static bool isStored(ShapedType type, SmallVector<int64_t> shape,
                     StringRef dtype) {
  std::string element = dtype.str();
  if (auto format = llama::symbolizeBlockFormat(dtype);
      format && !shape.empty()) {
    auto blocks = llama::BlocksType::get(type.getContext(), *format);
    shape.back() /= blocks.kNumbers;
    shape.push_back(blocks.getBytes());
    element = "i8";
  }
  return type.getShape() == ArrayRef(shape) &&
         nameOf(type.getElementType()) == element;
}

static std::string show(ArrayRef<int64_t> shape) {
  return llvm::formatv("[{0:$[,]}]",
                       llvm::make_range(shape.begin(), shape.end()))
      .str();
}

void Resumed::readSymbols() {
  for (Attribute value : root.getAs<ArrayAttr>("weights")) {
    auto weight = dyn_cast<DictionaryAttr>(value);
    auto shape = shapeIn(weight, "shape");
    if (auto experts = weight ? getInteger(weight, "experts") : std::nullopt;
        shape && experts)
      shape->insert(shape->begin(), *experts);
    // Of several entries of a symbol, for its layers, the first has its slot.
    if (shape)
      symbols.try_emplace(getText(weight, "symbol").value_or(""),
                          Bound{getInteger(weight, "slot").value_or(-1),
                                getInteger(weight, "count").value_or(0) != 0,
                                std::move(*shape),
                                getText(weight, "dtype").value_or("")});
  }
  for (Attribute value : root.getAs<ArrayAttr>("rope")) {
    auto table = dyn_cast<DictionaryAttr>(value);
    auto pairs = table ? table.getAs<ArrayAttr>("inv_freq") : ArrayAttr();
    if (!pairs)
      continue;
    SmallVector<int64_t> shape = {getInteger(table, "rows").value_or(0),
                                  static_cast<int64_t>(pairs.size())};
    for (int64_t i : {0, 1}) {
      StringRef symbol = getText(table, "symbol").value_or("");
      symbols[(symbol + (i == 0 ? ".cos" : ".sin")).str()] = {
          getInteger(table, "slot").value_or(-1) + i, false, shape, "f32"};
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
  auto what = function->getAttrOfType<DictionaryAttr>(kWeightAttribute);
  if (!what)
    what = function->getAttrOfType<DictionaryAttr>(kRopeAttribute);
  auto slot = what ? what.getAs<IntegerAttr>("slot") : IntegerAttr();
  if (!slot)
    return function.emitError("expected a declaration with the attribute '")
           << kWeightAttribute << "' or '" << kRopeAttribute
           << "' and a slot in it";
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
           << " of shape " << show(bound.shape) << ", got " << signature;
  return success();
}

LogicalResult Resumed::verifyCaches(func::FuncOp entry,
                                    const EntryArguments &arguments) {
  auto caches = root.getAs<ArrayAttr>("caches");
  bool isBatched = arguments.has(EntryArgument::Pages);
  SmallVector<unsigned> places = arguments.caches();
  if (places.size() != caches.size())
    return entry.emitError("expected ")
           << caches.size() << " caches, got " << places.size();
  for (auto [place, value] : llvm::zip_equal(places, caches)) {
    auto type = cast<ShapedType>(entry.getArgumentTypes()[place]);
    auto cache = dyn_cast<DictionaryAttr>(value);
    auto shape = shapeIn(cache, "shape");
    if (isBatched) // the number of pages may be any
      type = type.clone(type.getShape().drop_front());
    StringRef dtype = getText(cache, "dtype").value_or("");
    if (!shape || !isStored(type, *shape, dtype))
      return entry.emitError("expected argument ")
             << place << " to be a cache of " << dtype << " and shape "
             << (shape ? show(*shape) : "") << ", got " << type;
  }
  return success();
}

/// @prefill and @batch have hidden states of as many numbers as the manifest
/// says; other entries have none.
LogicalResult Resumed::verifyHidden(func::FuncOp entry,
                                    const EntryArguments &arguments) {
  std::optional<int64_t> size;
  bool isBatch = entry.getName() == "batch";
  if (entry.getName() == "prefill" || isBatch)
    size = getInteger(model, "hidden");
  int64_t found = 0;
  if (arguments.has(EntryArgument::Hidden)) {
    unsigned place = arguments.at(EntryArgument::Hidden);
    auto type = cast<ShapedType>(entry.getArgumentTypes()[place]);
    found = type.getDimSize(1);
    int64_t chunk = isBatch ? getInteger(batch, "rows").value_or(0)
                            : *getInteger(model, "chunk");
    if (size && type.getDimSize(0) != chunk)
      return entry.emitError("expected hidden states of ")
             << chunk << " tokens, got " << type.getDimSize(0);
  }
  if (found == size.value_or(0))
    return success();
  return entry.emitError("expected hidden states of ")
         << size.value_or(0) << " numbers, got " << found;
}

LogicalResult Resumed::verifyArena(func::FuncOp entry,
                                   const EntryArguments &arguments) {
  auto bytes = entry->getAttrOfType<IntegerAttr>(kArenaBytesAttribute);
  unsigned place = arguments.at(EntryArgument::Arena);
  if (!bytes || place == entry.getNumArguments() ||
      cast<MemRefType>(entry.getArgumentTypes()[place]).getDimSize(0) !=
          bytes.getInt())
    return entry.emitError("expected an arena of as many bytes as the "
                           "attribute '")
           << kArenaBytesAttribute << "' says";
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
  if (isPaged != bool(batch) ||
      isBatch != arguments.has(EntryArgument::Positions))
    return entry.emitError("expected pages, and of @batch positions, if and "
                           "only if 'cria.manifest' has 'batch'");
  if (!isPaged)
    return success();
  int64_t width = getInteger(batch, "width").value_or(0);
  auto hasCache = [&](StringRef key) {
    return llvm::any_of(root.getAs<ArrayAttr>("caches"), [&](Attribute cache) {
      auto fields = dyn_cast<DictionaryAttr>(cache);
      return fields && fields.contains(key);
    });
  };
  if (hasCache("state") != arguments.has(EntryArgument::States))
    return entry.emitError("expected numbers of states if and only if "
                           "'cria.manifest' has caches with 'state'");
  if (hasCache("window") != arguments.has(EntryArgument::WindowPages))
    return entry.emitError("expected window pages if and only if "
                           "'cria.manifest' has caches with 'window'");
  for (EntryArgument what :
       {EntryArgument::Pages, EntryArgument::WindowPages}) {
    if (!arguments.has(what))
      continue;
    auto pages = cast<ShapedType>(entry.getArgumentTypes()[arguments.at(what)]);
    if (pages.getRank() != (isBatch ? 2 : 1) ||
        pages.getShape().back() != width)
      return entry.emitError("expected pages of ")
             << width << " numbers, got " << pages;
  }
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
                  : name == "batch" ? getInteger(batch, "rows").value_or(0)
                                    : *getInteger(model, "chunk");
  int64_t vocab = *getInteger(model, "vocab_size");
  int64_t columns =
      name == "encode" ? 1 : getInteger(model, "logits").value_or(vocab);
  int64_t said = entry->getAttrOfType<IntegerAttr>(kChunkAttribute).getInt();
  auto shape = [&](EntryArgument what) {
    return cast<ShapedType>(entry.getArgumentTypes()[arguments->at(what)])
        .getShape();
  };
  if (said != chunk || shape(EntryArgument::Ids) != ArrayRef(chunk))
    return entry.emitError("expected ids and the attribute '")
           << kChunkAttribute << "' of " << chunk << " tokens, got "
           << shape(EntryArgument::Ids)[0] << " and " << said;
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
  auto kind = getText(root.getAs<DictionaryAttr>("target"), "kind");
  if (phase == Phase::Tile && kind == "cuda" && failed(verifyKernels()))
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
    auto encoder = model.getAs<BoolAttr>("encoder");
    bool needed = name == "encode"   ? encoder && encoder.getValue()
                  : name == "batch"  ? bool(batch)
                  : name == "decode" ? !batch
                                     : true;
    auto entry = module.lookupSymbol<func::FuncOp>(name);
    if (needed && (!entry || !isEntry(entry)))
      return module.emitError("expected an entry function @") << name;
  }
  return success();
}

/// Whether the description of a symbol or cache is the one derived from the
/// program. A derived cache may have ropes that the manifest's has not: where
/// passes have since erased a use of rotated heads that nothing reads.
static bool isSame(std::tuple<Attribute, Attribute> descriptions) {
  auto [derived, own] = descriptions;
  Fields fields(derived.getContext(), cast<DictionaryAttr>(derived));
  auto said = dyn_cast<DictionaryAttr>(own);
  if (said && !said.contains("rope"))
    fields.erase("rope");
  return fields.object() == own;
}

LogicalResult cria::verifyResumed(ModuleOp module, Phase phase,
                                  const Manifest &manifest) {
  if (phase != Phase::Fuse)
    return Resumed(module, phase, manifest).verify();
  if (failed(verifyFused(module)))
    return failure();
  // The manifest's symbols and caches can be derived from the program: the
  // manifest must be equal to the derived one.
  Manifest now(module.getContext());
  now.describeInterface(module, module.lookupSymbol<func::FuncOp>("prefill"));
  if (bool(module.lookupSymbol("batch")) != manifest.object().contains("batch"))
    return module.emitError("expected @batch if, and only if, 'cria.manifest' "
                            "has 'batch'");
  for (const char *key : {"weights", "rope", "caches"}) {
    auto derived = now.get<ArrayAttr>(key), own = manifest.get<ArrayAttr>(key);
    if (derived.size() != own.size() ||
        !llvm::all_of(llvm::zip(derived, own), isSame))
      return module.emitError("expected ")
             << key << " as 'cria.manifest' has them";
  }
  return success();
}
