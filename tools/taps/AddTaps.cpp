/// %y = call @k(%x)
///   =>
/// %own = call @k(%x)
/// %y, %made = call @k_tap(%own, %turn, %made, %given, %force)
///
/// A tap makes the result of a kernel visible, and can replace it. The memory
/// of taps is memory of the session, as KV caches are: every target has such
/// memory, and the runtime can read and write it. `made` keeps the results that
/// the kernel computed, one for each turn of the loop around it. While the
/// tap's number in `force` is not 0, readers of the result get `given` instead.
///
/// If `given` has the results of a reference, each kernel runs on the
/// reference's inputs, and one pass over the model checks all kernels: a wrong
/// result is then the fault of the kernel that made it.
///
/// Numbers of experts are kept as f32, which has them exactly: the runtime
/// reads and writes floats alone.
#include "dialect/Signature.h"
#include "lowering/artifact/Manifest.h"
#include "lowering/entry/Entry.h"
#include "lowering/entry/LayerNumber.h"
#include "lowering/kernel/Destination.h"
#include "lowering/kernel/LinalgBuilder.h"
#include "tools/taps/ModuleNames.h"
#include "tools/taps/Passes.h"

#include "mlir/Dialect/Affine/IR/AffineOps.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/PatternMatch.h"

namespace cria {
#define GEN_PASS_DEF_ADDTAPS
#include "tools/taps/Passes.h.inc"
} // namespace cria

using namespace mlir;
using namespace cria;

namespace {
/// A result of a kernel that is not stored in an argument of the entry, and the
/// memory of its tap.
struct Tap {
  func::CallOp call;
  unsigned result;
  RankedTensorType memory; // (turns, ..., tokens, row)
  unsigned made, given;    // the numbers of the caches
  std::string symbol;
};

class TapAdder {
public:
  TapAdder(ModuleOp module, const Manifest &manifest,
           ArrayRef<std::string> kept)
      : module(module), symbols(module), kept(kept), names(manifest) {
    firstTap = manifest.get<ArrayAttr>("caches").size();
  }

  LogicalResult run();
  /// Descriptions for the manifest: of the memory, and of the kernels.
  SmallVector<Attribute> caches() const;
  DictionaryAttr description() const { return described; }

private:
  LogicalResult collect(func::FuncOp entry);
  FailureOr<DictionaryAttr> describe(func::CallOp call, func::FuncOp entry);
  LogicalResult addTap(OpResult result, Fields &object);
  void addTo(func::FuncOp entry);
  Value insertTap(const Tap &tap, Value made);
  func::FuncOp tapFunction(const Tap &tap);
  bool isKernelKept(func::CallOp call) const {
    return kept.empty() || llvm::is_contained(kept, call.getCallee());
  }

  ModuleOp module;
  SymbolTable symbols;
  ArrayRef<std::string> kept;
  RankedTensorType force; // one number for each tap
  ModuleNames names;
  unsigned firstTap;
  int64_t blocks = 0;    // the number of entry and loop bodies so far
  SmallVector<Tap> taps; // in the order of their memory
  SmallVector<func::CallOp> leftOut;
  SmallVector<Attribute> kernels;
  DictionaryAttr described;
};
} // namespace

/// The type in which a tap keeps elements; null if it keeps none.
static Type storedType(Type element) {
  if (element.isInteger(32))
    return Float32Type::get(element.getContext());
  return isa<FloatType>(element) ? element : Type();
}

/// The layer of its caches that a call updates: the only number of a layer that
/// a kernel takes.
static LayerNumber cacheLayer(func::CallOp call) {
  for (Value operand : call.getOperands())
    if (operand.getType().isIndex())
      if (std::optional<LayerNumber> number = layerNumber(operand))
        return *number;
  return {};
}

/// The turns of the loop around a call; 1 if there is no loop, nothing if the
/// number of turns is unknown.
static std::optional<int64_t> turnsAround(func::CallOp call) {
  Operation *parent = call->getParentOp();
  if (isa<func::FuncOp>(parent))
    return 1;
  auto loop = dyn_cast<scf::ForOp>(parent);
  if (!loop || !isa<func::FuncOp>(loop->getParentOp()) ||
      !loopNumber(loop.getInductionVar()))
    return std::nullopt;
  return loop.getStaticTripCount()->getSExtValue();
}

//===----------------------------------------------------------------------===//
// Descriptions for the manifest
//===----------------------------------------------------------------------===//

/// Adds a tap with memory for the result, and describes the memory in `object`.
LogicalResult TapAdder::addTap(OpResult result, Fields &object) {
  auto call = cast<func::CallOp>(result.getOwner());
  auto own = cast<RankedTensorType>(result.getType());
  auto chunk = symbols.lookup<func::FuncOp>(call.getCallee())
                   ->getAttrOfType<IntegerAttr>(kChunkAttribute);
  ArrayRef<int64_t> row = own.getShape().drop_front();
  if (own.getRank() < 2 || own.getRank() > 3 || !chunk ||
      llvm::is_contained(row, ShapedType::kDynamic))
    return call.emitOpError("expected results (tokens, row) or (tokens, heads, "
                            "size) to make visible, got ")
           << own;
  SmallVector<int64_t> shape = {*turnsAround(call)};
  shape.resize(4 - own.getRank(), 1);
  shape.push_back(own.isDynamicDim(0) ? chunk.getInt() : own.getDimSize(0));
  shape.append(row.begin(), row.end());
  auto made = static_cast<unsigned>(firstTap + 2 * taps.size());
  taps.push_back(
      {call, result.getResultNumber(),
       RankedTensorType::get(shape, storedType(own.getElementType())), made,
       made + 1,
       (call.getCallee() + "." + std::to_string(result.getResultNumber()))
           .str()});
  object.set("made", made)
      .set("given", made + 1)
      .set("force", taps.size() - 1)
      .set("row", row);
  return success();
}

FailureOr<DictionaryAttr> TapAdder::describe(func::CallOp call,
                                             func::FuncOp entry) {
  EntryArguments arguments = *EntryArguments::of(entry);
  MLIRContext *context = call.getContext();
  ModuleNames::Names modules = names.modulesOf(call);
  SmallVector<Fields> results;
  std::optional<int64_t> turns = turnsAround(call);
  if (!turns)
    return call.emitOpError(
        "expected to be called once, or in a loop with constant bounds");
  bool caches = false;
  for (OpResult result : call.getResults()) {
    Fields object(context);
    auto type = dyn_cast<RankedTensorType>(result.getType());
    BlockArgument argument = updatedArgument(result);
    if (argument &&
        arguments.all()[argument.getArgNumber()] == EntryArgument::Cache) {
      if (isState(type)) { // follows from what the kernel is given
        results.push_back(std::move(object));
        continue;
      }
      LayerNumber layer = cacheLayer(call);
      object.set("first", layer.first).set("step", layer.step);
      object.set("cache", llvm::count(arguments.all().take_front(
                                          argument.getArgNumber()),
                                      EntryArgument::Cache));
      object.set("names",
                 ModuleNames::ofAttention(modules, caches ? "value" : "key"));
      caches = true;
    } else if (argument) {
      // Hidden states get no description: the head reads the same values.
      if (arguments.all()[argument.getArgNumber()] == EntryArgument::Logits)
        object.set("logits", true);
    } else if (type && storedType(type.getElementType())) {
      bool areIntegers = type.getElementType().isInteger();
      if (areIntegers)
        object.set("integers", true);
      object.set("names", areIntegers ? ModuleNames::Names()
                                      : names.of(result, modules));
      if (failed(addTap(result, object)))
        return failure();
    }
    results.push_back(std::move(object));
  }
  for (Fields &object : results)
    if (caches && object.get("made") &&
        object.getAs<ArrayAttr>("names").empty())
      object.set("names", ModuleNames::ofAttention(modules, "query"));
  Fields kernel(context);
  kernel.set("kernel", call.getCallee())
      .set("entry", entry.getName())
      .set("block", blocks)
      .set("turns", *turns)
      .set("modules", modules)
      .set("results", results);
  if (!isKernelKept(call))
    kernel.set("left_out", true);
  return kernel.object();
}

/// Finds the taps of an entry, in the order of its kernels.
LogicalResult TapAdder::collect(func::FuncOp entry) {
  if (failed(EntryArguments::of(entry)))
    return failure();
  SmallVector<func::CallOp> calls;
  entry.walk([&](func::CallOp call) {
    auto callee = symbols.lookup<func::FuncOp>(call.getCallee());
    if (callee && !callee.isDeclaration())
      calls.push_back(call);
  });
  Block *before = nullptr;
  for (func::CallOp call : calls) {
    blocks += call->getBlock() != std::exchange(before, call->getBlock());
    FailureOr<DictionaryAttr> kernel = describe(call, entry);
    if (failed(kernel))
      return failure();
    kernels.push_back(*kernel);
    if (!isKernelKept(call))
      leftOut.push_back(call);
  }
  return success();
}

/// The memory of all taps, and `force`.
SmallVector<Attribute> TapAdder::caches() const {
  SmallVector<Attribute> all;
  auto add = [&](const Twine &symbol, RankedTensorType type) {
    Type element = type.getElementType();
    all.push_back(Fields(type.getContext())
                      .set("symbol", symbol.str())
                      .set("bytes", type.getNumElements() *
                                        (element.getIntOrFloatBitWidth() / 8))
                      .set("shape", type.getShape())
                      .set("dtype", element.isBF16()  ? "bf16"
                                    : element.isF16() ? "f16"
                                                      : "f32"));
  };
  for (const Tap &tap : taps) {
    add(tap.symbol + ".made", tap.memory);
    add(tap.symbol + ".given", tap.memory);
  }
  add("force", force);
  return all;
}

//===----------------------------------------------------------------------===//
// The program
//===----------------------------------------------------------------------===//

/// func @k_tap(%own, %turn, %made, %given, %force) -> (%passed, %made)
func::FuncOp TapAdder::tapFunction(const Tap &tap) {
  func::CallOp call = tap.call;
  auto own = cast<RankedTensorType>(call.getResult(tap.result).getType());
  Type element = own.getElementType(), stored = tap.memory.getElementType();
  RankedTensorType kept = own.clone(stored);
  OpBuilder outer(call->getParentOfType<func::FuncOp>());
  Type index = outer.getIndexType();
  auto function = func::FuncOp::create(
      outer, call.getLoc(),
      (call.getCallee() + "_tap" + std::to_string(tap.result)).str(),
      outer.getFunctionType({own, index, tap.memory, tap.memory, force},
                            {own, tap.memory}));
  function.setPrivate();
  function->setAttr(kChunkAttribute,
                    symbols.lookup<func::FuncOp>(call.getCallee())
                        ->getAttrOfType<IntegerAttr>(kChunkAttribute));
  Block *body = function.addEntryBlock();
  LinalgBuilder b(call.getLoc(), outer);
  b.setInsertionPointToStart(body);
  Value made = body->getArgument(2), given = body->getArgument(3);
  Value computed = body->getArgument(0);
  int64_t rank = own.getRank();
  SmallVector<OpFoldResult> offsets(4, b.getIndexAttr(0)),
      sizes(4 - rank, b.getIndexAttr(1));
  offsets[0] = body->getArgument(1);
  sizes.append(b.sizes(computed));

  AffineMap identity = b.getMultiDimIdentityMap(rank);
  Value place = b.slice(made, offsets, sizes, kept);
  Value rows = b.generic(rank, {computed}, {place}, {identity, identity},
                         [&](ArrayRef<Value> v) -> SmallVector<Value> {
                           if (stored == element)
                             return {v[0]};
                           return {arith::SIToFPOp::create(b, stored, v[0])};
                         })[0];
  made = b.insert(rows, made, offsets, sizes);

  SmallVector<OpFoldResult> ones(4, b.getIndexAttr(1)),
      number(4, b.getIndexAttr(0));
  number[3] = b.getIndexAttr((tap.made - firstTap) / 2);
  Value scalar = b.slice(body->getArgument(4), number, ones,
                         RankedTensorType::get({}, b.getF32Type()));
  Value forced = b.slice(given, offsets, sizes, kept);
  Value passed =
      b.generic(rank, {scalar, forced}, {computed},
                {b.select(rank, {}), identity, identity},
                [&](ArrayRef<Value> v) -> SmallVector<Value> {
                  Value is = arith::CmpFOp::create(b, arith::CmpFPredicate::UNE,
                                                   v[0], b.f32(0));
                  Value other = v[1];
                  if (stored != element)
                    other = arith::FPToSIOp::create(b, element, other);
                  return {arith::SelectOp::create(b, is, other, v[2])};
                })[0];
  func::ReturnOp::create(b, ValueRange{passed, made});
  symbols.insert(function); // may rename the function
  return function;
}

/// The number of the loop's turn in which the call runs.
static Value turnOf(OpBuilder &b, func::CallOp call) {
  auto loop = dyn_cast<scf::ForOp>(call->getParentOp());
  if (!loop)
    return arith::ConstantIndexOp::create(b, call.getLoc(), 0);
  LayerNumber number = *loopNumber(loop.getInductionVar());
  AffineExpr i = b.getAffineDimExpr(0);
  return affine::AffineApplyOp::create(b, call.getLoc(),
                                       (i - number.first).floorDiv(number.step),
                                       loop.getInductionVar());
}

/// Inserts the call of the tap's function after the kernel. Returns the updated
/// memory `made`.
Value TapAdder::insertTap(const Tap &tap, Value made) {
  func::CallOp call = tap.call;
  auto entry = call->getParentOfType<func::FuncOp>();
  func::FuncOp function = tapFunction(tap);
  SmallVector<unsigned> caches = EntryArguments::of(entry)->caches();
  OpBuilder b(call->getContext());
  b.setInsertionPointAfter(call);
  auto own = cast<OpResult>(call.getResult(tap.result));
  bool isKept = isKernelKept(call);
  auto tapped = func::CallOp::create(
      b, call.getLoc(), function,
      ValueRange{isKept ? Value(own) : destinationOf(own), turnOf(b, call),
                 made, entry.getArgument(caches[tap.given]),
                 entry.getArgument(caches.back())});
  own.replaceAllUsesExcept(tapped.getResult(0), tapped);
  return tapped.getResult(1);
}

/// Adds the memory of all taps to the arguments of an entry, and inserts the
/// taps of the entry's own kernels.
void TapAdder::addTo(func::FuncOp entry) {
  unsigned first = entry.getNumArguments();
  for (const Tap &tap : taps)
    for (int i = 0; i < 2; ++i)
      EntryArguments::append(entry, EntryArgument::Cache, tap.memory);
  EntryArguments::append(entry, EntryArgument::Cache, force);
  SmallVector<Value> updated(entry.getArguments().drop_front(first));
  llvm::MapVector<scf::ForOp, SmallVector<const Tap *>> inLoops;
  for (const Tap &tap : taps) {
    func::CallOp call = tap.call;
    if (call->getParentOfType<func::FuncOp>() != entry)
      continue;
    Value &made = updated[tap.made - firstTap];
    if (auto loop = dyn_cast<scf::ForOp>(call->getParentOp()))
      inLoops[loop].push_back(&tap);
    else
      made = insertTap(tap, made);
  }
  IRRewriter rewriter(entry.getContext());
  for (auto &[loop, inside] : inLoops) {
    auto start = llvm::map_to_vector(
        inside, [&](const Tap *tap) { return updated[tap->made - firstTap]; });
    rewriter.setInsertionPoint(loop);
    auto carry = [&, &inside = inside](OpBuilder &, Location,
                                       ArrayRef<BlockArgument> carried) {
      SmallVector<Value> made;
      for (auto [tap, memory] : llvm::zip_equal(inside, carried))
        made.push_back(insertTap(*tap, memory));
      return made;
    };
    auto longer =
        cast<LoopLikeOpInterface>(loop.getOperation())
            .replaceWithAdditionalYields(rewriter, start, false, carry);
    ResultRange results = (*longer)->getResults().take_back(inside.size());
    for (auto [tap, made] : llvm::zip_equal(inside, results))
      updated[tap->made - firstTap] = made;
  }
  Operation *ret = entry.front().getTerminator();
  ret->insertOperands(ret->getNumOperands(), updated);
  entry.setType(FunctionType::get(entry.getContext(), entry.getArgumentTypes(),
                                  ret->getOperandTypes()));
}

/// Removes calls. Results without taps are replaced by the tensors that the
/// kernels would have updated.
static void leaveOut(ArrayRef<func::CallOp> calls, SymbolTable &symbols) {
  for (func::CallOp call : calls) {
    Operation *callee = symbols.lookup(call.getCallee());
    for (OpResult result : call.getResults())
      result.replaceAllUsesWith(destinationOf(result));
    call.erase();
    if (SymbolTable::symbolKnownUseEmpty(callee, symbols.getOp()))
      symbols.erase(callee);
  }
}

LogicalResult TapAdder::run() {
  SmallVector<func::FuncOp> entries;
  for (auto function : module.getOps<func::FuncOp>())
    if (isEntry(function))
      entries.push_back(function);
  for (const std::string &name : kept) {
    auto kernel = symbols.lookup<func::FuncOp>(name);
    if (!kernel || kernel.isDeclaration() || isEntry(kernel))
      return emitError(module.getLoc(), "expected a kernel to keep, got '")
             << name << "'";
  }
  std::string text;
  llvm::raw_string_ostream stream(text);
  module.print(stream, OpPrintingFlags().useLocalScope());
  for (func::FuncOp entry : entries)
    if (failed(collect(entry)))
      return failure();
  force = RankedTensorType::get({1, 1, 1, static_cast<int64_t>(taps.size())},
                                Float32Type::get(module.getContext()));
  described = Fields(module.getContext())
                  .set("force", firstTap + 2 * taps.size())
                  .set("kernels", kernels)
                  .set("linalg", text);
  for (func::FuncOp entry : entries)
    addTo(entry);
  leaveOut(leftOut, symbols);
  return success();
}

namespace {
struct AddTaps : cria::impl::AddTapsBase<AddTaps> {
  using AddTapsBase::AddTapsBase;

  void runOnOperation() override {
    FailureOr<Manifest> manifest = Manifest::of(getOperation());
    if (failed(manifest))
      return signalPassFailure();
    SmallVector<std::string> names(kept.begin(), kept.end());
    TapAdder adder(getOperation(), *manifest, names);
    if (failed(adder.run()))
      return signalPassFailure();
    manifest->addTaps(adder.caches(), adder.description());
    manifest->store(getOperation());
  }
};
} // namespace
