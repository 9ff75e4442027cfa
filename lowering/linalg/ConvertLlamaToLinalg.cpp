/// llama.kernel "k" { linear; ... }
///   =>  func.func private @k_decode { linalg.generic; ... }  and a call
///
/// The pass that calls the lowerings of the ops. It lowers symbols, signatures
/// and functions.
#include "dialect/Signature.h"
#include "lowering/Passes.h"
#include "lowering/entry/CacheWindows.h"
#include "lowering/entry/Entry.h"
#include "lowering/import/Program.h"
#include "lowering/linalg/Lowering.h"

#include "mlir/Dialect/Affine/IR/AffineOps.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Bufferization/IR/Bufferization.h"
#include "mlir/Dialect/MPI/IR/MPI.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

namespace cria {
#define GEN_PASS_DEF_CONVERTLLAMATOLINALG
#include "lowering/Passes.h.inc"
} // namespace cria

using namespace mlir;
using namespace cria;
using namespace cria::llama;

/// The most tokens of one call.
static constexpr int64_t mostTokens = 1 << 20;

/// Declares a private function that stands for a tensor which the runtime
/// binds.
static void declare(OpBuilder &b, Location loc, StringRef name, Type type,
                    bool layered, StringRef attribute, DictionaryAttr what) {
  SmallVector<Type> inputs(layered ? 1 : 0, b.getIndexType());
  auto function =
      func::FuncOp::create(b, loc, name, b.getFunctionType(inputs, type));
  function.setPrivate();
  function->setAttr(attribute, what);
}

/// Replaces weights and tables by declarations that carry their slots.
static LogicalResult lowerSymbols(ModuleOp module) {
  OpBuilder b(module.getContext());
  for (Operation &op : llvm::make_early_inc_range(module.getOps())) {
    if (!isa<WeightOp, RopeTableOp>(op))
      continue;
    auto slot = op.getAttrOfType<IntegerAttr>("slot");
    if (!slot)
      return op.emitOpError("expected a slot; the pass assign-slots gives one");
    b.setInsertionPoint(&op);
    NamedAttribute slotAttr = b.getNamedAttr("slot", slot);
    if (auto weight = dyn_cast<WeightOp>(op)) {
      NamedAttrList what(
          {slotAttr, b.getNamedAttr("source", weight.getSourceAttr())});
      if (weight.getExperts())
        what.set("experts", b.getIndexAttr(weight.getExpertCount()));
      StringRef name = weight.getSymName();
      Type type = storageType(weight.getTensorType());
      bool layered = weight.getCount().has_value();
      op.setAttr("sym_name", b.getStringAttr(name + ".llama"));
      declare(b, op.getLoc(), name, type, layered, kWeightAttribute,
              what.getDictionary(b.getContext()));
    } else {
      auto table = cast<RopeTableOp>(op);
      for (int64_t i : {0, 1}) {
        std::string name =
            (table.getSymName() + (i == 0 ? ".cos" : ".sin")).str();
        declare(b, op.getLoc(), name, table.getTensorType(), false,
                kRopeAttribute,
                b.getDictionaryAttr(
                    b.getNamedAttr("slot", b.getIndexAttr(slot.getInt() + i))));
      }
    }
    op.erase();
  }
  return success();
}

/// Whether the function has the type of an entry: see createEntry. Entries are
/// public and have one block.
static bool hasEntryType(func::FuncOp function) {
  FunctionType type = function.getFunctionType();
  ArrayRef<Type> caches = cacheTypes(type), results = type.getResults(),
                 inputs = type.getInputs().drop_back(caches.size());
  auto isTensor = [](Type type, std::initializer_list<int64_t> ranks) {
    auto tensor = dyn_cast<RankedTensorType>(type);
    return tensor && llvm::is_contained(ranks, tensor.getRank());
  };
  size_t outputs = results.size() - caches.size();
  if (outputs == 2 && !inputs.empty() && inputs.back().isIndex())
    inputs = inputs.drop_back(); // the first token of hidden states
  else if (results.size() < caches.size() || outputs > 1)
    return false;
  if (inputs.size() < 3)
    return false;
  bool ofTokens = isTensor(inputs[1], {1});
  if (inputs.size() > 3 && !ofTokens && inputs.back().isIndex())
    inputs = inputs.drop_back(); // the tokens of another text, or ahead
  ArrayRef<Type> numbers = inputs.drop_front(3); // of pages and states
  bool isPaged = !numbers.empty();
  auto isCache = [&](Type cache) {
    auto type = dyn_cast<RankedTensorType>(cache);
    return isTensor(cache, {isPaged ? 5 : 4, isPaged ? 4 : 3}) &&
           isPaged == cria::isPaged(type) &&
           (!isa<BlocksType>(type.getElementType()) ||
            type.getShape().back() % BlocksType::kNumbers == 0);
  };
  return isTensor(inputs[0], {1}) && (ofTokens || inputs[1].isIndex()) &&
         inputs[2].isIndex() && (isPaged || !ofTokens) && numbers.size() <= 3 &&
         llvm::all_of(
             numbers,
             [&](Type type) { return isTensor(type, {ofTokens ? 2 : 1}); }) &&
         llvm::all_of(results.take_front(outputs),
                      [&](Type type) { return isTensor(type, {2}); }) &&
         llvm::all_of(caches, isCache) &&
         caches == results.take_back(caches.size());
}

/// Checks what the lowering relies on.
static LogicalResult verifyEntry(func::FuncOp function, int64_t chunk) {
  if (auto own = function->getAttrOfType<IntegerAttr>(kChunkAttribute))
    chunk = own.getType().isIndex() ? own.getInt() : 0;
  if (chunk < 1 || chunk > mostTokens)
    return function.emitError("expected a chunk of 1 to ")
           << mostTokens << " tokens, an index";
  if (!function.isPublic() || !function.getBody().hasOneBlock() ||
      !hasEntryType(function))
    return function.emitError(
               "expected an entry: one public block of type (ids, "
               "position, first, caches...) -> (logits, "
               "caches...), got ")
           << function.getFunctionType();
  if (failed(verifyRings(function, chunk)))
    return failure();
  return verifyOps(function);
}

/// The new entry, with an empty body.
static func::FuncOp createEntry(OpBuilder &b, func::FuncOp old, int64_t chunk) {
  FunctionType type = old.getFunctionType();
  if (auto own = old->getAttrOfType<IntegerAttr>(kChunkAttribute))
    chunk = own.getInt();
  auto ids = cast<RankedTensorType>(type.getInput(0));
  auto caches = llvm::map_to_vector(cacheTypes(type), [](Type cache) -> Type {
    return storageType(cast<RankedTensorType>(cache));
  });
  bool hasLogits = type.getNumResults() > caches.size();
  bool hasHidden = returnsHidden(type);
  // An entry without logits still has an argument for logits.
  auto logits = hasLogits ? cast<RankedTensorType>(type.getResult(0))
                          : RankedTensorType::get({1, 1}, b.getF32Type());
  int64_t room = ids.isDynamicDim(0) ? chunk : ids.getDimSize(0);
  auto roomFor = [&](RankedTensorType t) {
    SmallVector<int64_t> shape(t.getShape());
    shape[0] = room;
    return RankedTensorType::get(shape, t.getElementType());
  };
  SmallVector<Type> inputs, results;
  SmallVector<EntryArgument> arguments;
  auto add = [&](EntryArgument what, Type type) {
    arguments.push_back(what);
    inputs.push_back(type);
  };
  using Is = EntryArgument;
  Type index = b.getIndexType();
  add(Is::Ids, roomFor(ids));
  NumberArguments numbers = numberArguments(type);
  bool ofTokens = isa<RankedTensorType>(type.getInput(1));
  add(Is::Tokens, index);
  if (ofTokens)
    add(Is::Positions, roomFor(cast<RankedTensorType>(type.getInput(1))));
  else
    add(Is::Position, index);
  add(Is::First, index);
  if (hasHidden)
    add(Is::FirstHidden, index);
  for (auto [what, number] : {std::pair(Is::Pages, numbers.pages),
                              std::pair(Is::WindowPages, numbers.windowPages),
                              std::pair(Is::States, numbers.states)})
    if (number) {
      auto given = cast<RankedTensorType>(type.getInput(*number));
      add(what, ofTokens ? roomFor(given) : given);
    }
  // An entry over caches of one text always has it.
  if (!numbers.pages ||
      numbers.end + hasHidden + caches.size() < type.getNumInputs())
    add(Is::Source, index);
  add(Is::Logits, roomFor(logits));
  if (hasLogits)
    results.push_back(roomFor(logits));
  if (hasHidden) {
    auto hidden = cast<RankedTensorType>(type.getResult(1));
    add(Is::Hidden, roomFor(hidden.clone(b.getF32Type())));
    results.push_back(inputs.back());
  }
  for (Type cache : caches)
    add(Is::Cache, cache);
  llvm::append_range(results, caches);
  auto entry = func::FuncOp::create(b, old.getLoc(), old.getName(),
                                    b.getFunctionType(inputs, results));
  EntryArguments::set(entry, arguments);
  entry->setAttr(kChunkAttribute, b.getIndexAttr(room));
  if (Attribute invariant = old->getAttr(kInvariantAttribute))
    entry->setAttr(kInvariantAttribute, invariant);
  return entry;
}

static LogicalResult lowerEntry(func::FuncOp old, int64_t chunk,
                                const PromptForm &prompt) {
  OpBuilder outer(old);
  func::FuncOp entry = createEntry(outer, old, chunk);
  FailureOr<EntryArguments> known = EntryArguments::of(entry);
  if (failed(known))
    return failure();
  EntryArguments arguments = *known;
  old->remove();
  Block *body = entry.addEntryBlock();
  LinalgBuilder b(old.getLoc(), outer);
  b.setInsertionPointToStart(body);
  auto argument = [&](EntryArgument what) -> Value {
    return body->getArgument(arguments.at(what));
  };
  bool hasHidden = arguments.has(EntryArgument::Hidden);
  FunctionLowering lowering(
      b, entry, old.getName(),
      {argument(EntryArgument::Logits),
       hasHidden ? argument(EntryArgument::Hidden) : Value()},
      prompt);
  // The rows of the call's tokens, of a tensor with room for a chunk.
  auto rows = [&](Value value, Type old) -> Value {
    if (value.getType() == old)
      return value;
    SmallVector<OpFoldResult> sizes = b.sizes(value);
    SmallVector<OpFoldResult> zeros(sizes.size(), b.getIndexAttr(0));
    sizes[0] = argument(EntryArgument::Tokens);
    return b.slice(value, zeros, sizes);
  };
  // The order of arguments: ids, position, first; pages; window pages; states;
  // source (beside an encoder, or of tokens ahead); the first token of hidden
  // states; caches.
  using Is = EntryArgument;
  SmallVector<Value> values = {
      argument(Is::Ids),
      argument(arguments.has(Is::Positions) ? Is::Positions : Is::Position),
      argument(Is::First)};
  for (Is number : {Is::Pages, Is::WindowPages, Is::States, Is::Source})
    if (arguments.has(number))
      values.push_back(argument(number));
  size_t caches = cacheTypes(old.getFunctionType()).size();
  values.resize(old.getNumArguments() - caches - hasHidden);
  for (auto [value, type] : llvm::zip(values, old.getArgumentTypes()))
    value = rows(value, type);
  if (hasHidden)
    values.push_back(argument(Is::FirstHidden));
  for (unsigned i : arguments.caches())
    values.push_back(body->getArgument(i));
  for (auto [value, now] : llvm::zip_equal(old.getArguments(), values))
    lowering.set(value, now);
  lowering.lowerBlock(old.front());

  Operation *ret = old.front().getTerminator();
  b.setLoc(ret->getLoc());
  SmallVector<Value> results;
  for (size_t i = 0; i < ret->getNumOperands() - caches; ++i)
    results.push_back(lowering.storeOutput(
        static_cast<FunctionLowering::Output>(i), ret->getOperand(i)));
  for (Value value : ret->getOperands().take_back(caches))
    results.push_back(lowering.stored(value));
  func::ReturnOp::create(b, ret->getLoc(), results);
  lowering.boundKernels();
  old.erase();
  return success();
}

namespace {
struct ConvertLlamaToLinalg
    : cria::impl::ConvertLlamaToLinalgBase<ConvertLlamaToLinalg> {
  using ConvertLlamaToLinalgBase::ConvertLlamaToLinalgBase;

  void runOnOperation() override {
    PromptForm prompt = {recurrenceChunk, recurrenceInParts};
    auto refuse = [&](const Twine &expected) {
      getOperation().emitError("recurrence-chunk=")
          << prompt.chunk << ": expected " << expected;
      signalPassFailure();
    };
    if (prompt.chunk < 1)
      return refuse("at least 1");
    if (prompt.inParts && prompt.chunk % kTermsOfParts)
      return refuse("a multiple of " + Twine(kTermsOfParts) +
                    ", because products are in parts");
    for (StringRef name : widenedTypes) {
      OpBuilder b(&getContext());
      if (name != "bf16" && name != "f16") {
        getOperation().emitError("widened-types=")
            << name << ": expected bf16 or f16";
        return signalPassFailure();
      }
      prompt.widened.push_back(name == "bf16" ? b.getBF16Type()
                                              : b.getF16Type());
    }
    auto functions = llvm::to_vector(getOperation().getOps<func::FuncOp>());
    for (func::FuncOp function : functions)
      if (!function.isDeclaration() &&
          (failed(verifyEntry(function, chunk)) ||
           failed(lowerEntry(function, chunk, prompt))))
        return signalPassFailure();
    if (failed(lowerSymbols(getOperation())))
      return signalPassFailure();
    getOperation()->removeAttr(LlamaDialect::kShards);
  }
};
} // namespace
