#include "lowering/entry/Entry.h"

#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinTypes.h"

using namespace mlir;
using namespace cria;

static constexpr const char *kNames[] = {
    "ids",      "tokens", "position",  "first", "first_hidden", "source",
    "logits",   "hidden", "cache",     "arena", "seen",         "sampled",
    "sampling", "state",  "positions", "pages", "window_pages", "states"};

using Is = EntryArgument;
static constexpr EntryArgument kOfTokens[] = {
    Is::Ids, Is::Tokens, Is::Position, Is::First, Is::Source, Is::Logits};
static constexpr EntryArgument kOfText[] = {Is::Ids,   Is::Tokens, Is::Position,
                                            Is::First, Is::Pages,  Is::Logits};
static constexpr EntryArgument kOfTexts[] = {
    Is::Ids, Is::Tokens, Is::Positions, Is::First, Is::Pages, Is::Logits};
static constexpr EntryArgument kOfDrawing[] = {Is::Logits, Is::Seen,
                                               Is::Sampled, Is::Sampling};

/// More tokens than any text has.
static constexpr int64_t kMostTokens = int64_t(1) << 24;

std::optional<int64_t> cria::chunkOf(func::FuncOp function) {
  auto chunk = function->getAttrOfType<IntegerAttr>(kChunkAttribute);
  if (!chunk || !chunk.getValue().isSignedIntN(64))
    return std::nullopt;
  int64_t tokens = chunk.getValue().getSExtValue();
  return tokens > 0 && tokens <= kMostTokens ? std::optional(tokens)
                                             : std::nullopt;
}

LogicalResult cria::verifyMemory(func::FuncOp entry) {
  if (llvm::any_of(entry.getArgumentTypes(), llvm::IsaPred<TensorType>))
    return entry.emitError("expected an entry on memrefs, got ")
           << entry.getFunctionType();
  for (Type type : entry.getArgumentTypes())
    if (auto memref = dyn_cast<MemRefType>(type);
        memref && !isContiguousMemory(memref))
      return entry.emitOpError("expected contiguous arguments, got ") << type;
  return success();
}

StringRef EntryArguments::nameOf(EntryArgument what) {
  return kNames[static_cast<int>(what)];
}

static std::optional<EntryArgument> argumentOf(Attribute attribute) {
  auto name = dyn_cast<StringAttr>(attribute);
  const auto *found = name ? llvm::find(kNames, name.getValue()) : nullptr;
  if (!found || found == std::end(kNames))
    return std::nullopt;
  return static_cast<EntryArgument>(found - std::begin(kNames));
}

/// Whether a tensor or memref of the type can be the argument.
static bool fits(EntryArgument what, Type type) {
  auto shaped = dyn_cast<ShapedType>(type);
  if (shaped && !shaped.hasRank())
    return false;
  auto is = [&](int64_t rank, bool element) {
    return shaped && shaped.hasStaticShape() && shaped.getRank() == rank &&
           element;
  };
  // The number of pages, or of states, is dynamic.
  auto isPaged = [&](int64_t rank, bool element) {
    return shaped && shaped.getRank() == rank && shaped.isDynamicDim(0) &&
           shaped.getNumDynamicDims() == 1 && element;
  };
  Type element = shaped ? shaped.getElementType() : type;
  switch (what) {
  case EntryArgument::Pages:
  case EntryArgument::WindowPages:
  case EntryArgument::States:
    return is(1, element.isInteger(32)) || is(2, element.isInteger(32));
  case EntryArgument::Ids:
  case EntryArgument::Positions:
    return is(1, element.isInteger(32));
  case EntryArgument::Seen:
  case EntryArgument::Sampled:
  case EntryArgument::State:
    return is(2, element.isInteger(32));
  case EntryArgument::Sampling:
    return is(2, element.isInteger(8));
  case EntryArgument::Logits:
  case EntryArgument::Hidden:
    return is(2, element.isF32());
  case EntryArgument::Cache:
    return is(3, isa<FloatType>(element)) || is(4, isa<FloatType>(element)) ||
           is(5, element.isInteger(8)) || isPaged(4, isa<FloatType>(element)) ||
           isPaged(5, isa<FloatType>(element)) ||
           isPaged(6, element.isInteger(8));
  case EntryArgument::Arena:
    return is(1, element.isInteger(8));
  default:
    return type.isIndex();
  }
}

void EntryArguments::set(func::FuncOp entry, ArrayRef<EntryArgument> all) {
  auto names = llvm::map_to_vector(all, nameOf);
  entry->setAttr(kArgumentsAttribute, Builder(entry).getStrArrayAttr(names));
}

void EntryArguments::append(func::FuncOp entry, EntryArgument what, Type type) {
  auto names = entry->getAttrOfType<ArrayAttr>(kArgumentsAttribute);
  SmallVector<Attribute> all(names.getValue());
  all.push_back(StringAttr::get(entry.getContext(), nameOf(what)));
  entry->setAttr(kArgumentsAttribute, ArrayAttr::get(entry.getContext(), all));
  (void)entry.insertArgument(entry.getNumArguments(), type, {}, entry.getLoc());
}

bool EntryArguments::has(EntryArgument what) const {
  return llvm::is_contained(arguments, what);
}

unsigned EntryArguments::at(EntryArgument what) const {
  return llvm::find(arguments, what) - arguments.begin();
}

SmallVector<unsigned> EntryArguments::caches() const {
  SmallVector<unsigned> places;
  for (auto [i, argument] : llvm::enumerate(arguments))
    if (argument == EntryArgument::Cache)
      places.push_back(i);
  return places;
}

SmallVector<unsigned> EntryArguments::outputs(bool logits) const {
  SmallVector<unsigned> places;
  if (logits)
    places.push_back(at(EntryArgument::Logits));
  if (has(EntryArgument::Hidden))
    places.push_back(at(EntryArgument::Hidden));
  llvm::append_range(places, caches());
  return places;
}

/// Whether an argument is one that an entry with `arguments` may have or lack.
static bool isOptional(EntryArgument what, const EntryArguments &arguments) {
  if (what == Is::Arena)
    return true;
  if (arguments.drawsId())
    return what == Is::Tokens || what == Is::Ids || what == Is::State;
  if (what == Is::Source)
    return !arguments.has(Is::Positions);
  return llvm::is_contained(
      {Is::Cache, Is::FirstHidden, Is::Hidden, Is::WindowPages, Is::States},
      what);
}

/// Reports an argument that an entry of this kind must have and lacks, or has
/// and must not have.
static LogicalResult verifyKind(func::FuncOp entry,
                                const EntryArguments &arguments) {
  bool draws = arguments.drawsId();
  ArrayRef<EntryArgument> required = kOfTokens;
  if (draws)
    required = kOfDrawing;
  else if (arguments.has(Is::Pages))
    required = arguments.has(Is::Positions) ? ArrayRef(kOfTexts) : kOfText;
  for (EntryArgument what : required)
    if (!arguments.has(what))
      return entry.emitError("expected an argument '")
             << EntryArguments::nameOf(what) << "'";
  for (EntryArgument what : arguments.all())
    if (!llvm::is_contained(required, what) && !isOptional(what, arguments))
      return entry.emitError("expected no argument '")
             << EntryArguments::nameOf(what) << "' beside '"
             << (draws ? "sampled" : "ids") << "'";
  for (EntryArgument what : {Is::WindowPages, Is::States})
    if (arguments.has(what) && !arguments.has(Is::Pages))
      return entry.emitError("expected no argument '")
             << EntryArguments::nameOf(what) << "' without 'pages'";
  if (draws && arguments.has(Is::Ids) != arguments.has(Is::State))
    return entry.emitError("expected arguments 'ids' and 'state', or neither");
  if (arguments.has(Is::Hidden) != arguments.has(Is::FirstHidden))
    return entry.emitError("expected arguments 'first_hidden' and 'hidden', or "
                           "neither");
  if (!draws && !chunkOf(entry))
    return entry.emitError("expected the attribute '")
           << kChunkAttribute << "', a number of tokens";
  return success();
}

FailureOr<EntryArguments> EntryArguments::of(func::FuncOp entry) {
  auto names = entry->getAttrOfType<ArrayAttr>(kArgumentsAttribute);
  if (!names || names.size() != entry.getNumArguments())
    return entry.emitError("expected the attribute '")
           << kArgumentsAttribute << "' with a name for each of "
           << entry.getNumArguments() << " arguments";
  EntryArguments result;
  for (auto [i, name] : llvm::enumerate(names)) {
    auto what = argumentOf(name);
    bool again = what && *what != EntryArgument::Cache && result.has(*what);
    if (!what || again || !fits(*what, entry.getArgumentTypes()[i]))
      return entry.emitError("expected argument ")
             << i << " to be one of an entry, got " << name << " of type "
             << entry.getArgumentTypes()[i];
    result.arguments.push_back(*what);
  }
  if (failed(verifyKind(entry, result)))
    return failure();
  return result;
}
