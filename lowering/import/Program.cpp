#include "lowering/import/Program.h"
#include "dialect/Attributes.h"
#include "dialect/Dialect.h"
#include "dialect/Elementwise.h"
#include "dialect/Signature.h"
#include "lowering/entry/CacheWindows.h"
#include "lowering/entry/LayerNumber.h"
#include "lowering/import/Nesting.h"
#include "lowering/import/Rows.h"
#include "lowering/support/Json.h"

#include "mlir/Bytecode/BytecodeReader.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Parser/Parser.h"
#include "llvm/ADT/TypeSwitch.h"
#include "llvm/Support/CheckedArithmetic.h"
#include "llvm/Support/MemoryBuffer.h"

using namespace mlir;
using namespace cria;
using namespace cria::llama;

/// Bounds that no program's text and no tensor reaches.
static constexpr uint64_t maxFileSize = 64 << 20;
static constexpr int64_t maxBytes = int64_t(1) << 44;
/// The most positions of a cache or a table.
static constexpr int64_t maxPositions = 1 << 24;
/// The most weights, each layer's counted, and rope tables: as many as the
/// runtime reads.
static constexpr uint64_t maxSlots = 1 << 20;
/// What the functions and the GPU's module are called that the compiler makes.
static constexpr StringLiteral reservedNames[] = {
    "forward", "prefill", "decode", "encode", "batch", "sample", "kernels"};

/// The bytes that mlir::isBytecode looks at.
static constexpr size_t kMagicSize = 4;

bool cria::isProgram(StringRef path) {
  if (path.ends_with(".mlir"))
    return true;
  auto begin = llvm::MemoryBuffer::getFileSlice(path, kMagicSize, 0);
  return begin && isBytecode((*begin)->getMemBufferRef());
}

OwningOpRef<ModuleOp> cria::loadProgram(StringRef path, MLIRContext *context) {
  context->loadDialect<arith::ArithDialect, func::FuncDialect, LlamaDialect,
                       math::MathDialect, scf::SCFDialect,
                       tensor::TensorDialect>();
  llvm::Expected<std::string> text = readTextFile(path, maxFileSize);
  llvm::Error error = !text ? text.takeError()
                      : isBytecode(llvm::MemoryBufferRef(*text, path))
                          ? llvm::Error::success()
                          : checkNesting(*text, path);
  if (!error)
    return parseSourceString<ModuleOp>(*text, ParserConfig(context), path);
  emitError(UnknownLoc::get(context)) << llvm::toString(std::move(error));
  return {};
}

namespace {
/// The functions of a program: `@forward`, or, at fuse, `@prefill` and either
/// `@decode` or, over paged caches, `@batch`. `encode` may be null.
struct Functions {
  func::FuncOp forward, encode, decode, batch;
};
} // namespace

/// Whether an op is the empty module that has the manifest.
static bool isManifest(Operation &op) {
  auto module = dyn_cast<ModuleOp>(op);
  return module && !module.getSymName() && module.getBody()->empty();
}

/// Finds the functions, or fails after a diagnostic.
static FailureOr<Functions> findFunctions(ModuleOp module, bool isFused) {
  Functions found;
  StringRef main = isFused ? "prefill" : "forward";
  for (Operation &op : module.getOps()) {
    if (isa<WeightOp, RopeTableOp>(op) || isManifest(op))
      continue;
    auto function = dyn_cast<func::FuncOp>(op);
    StringRef name = function ? function.getName() : "";
    bool isDecode = isFused && name == "decode",
         isBatch = isFused && name == "batch";
    if (name != main && name != "encode" && !isDecode && !isBatch)
      return op.emitError("expected only weights, rope tables and the "
                          "functions @")
             << main << (isFused ? ", @decode or @batch" : "")
             << " and @encode in a program"
             << (isFused ? "" : ", and private functions that they call");
    if (!function.getBody().hasOneBlock())
      return function.emitError("expected @")
             << name << " to be one block, got "
             << function.getBody().getBlocks().size();
    (isDecode       ? found.decode
     : isBatch      ? found.batch
     : name == main ? found.forward
                    : found.encode) = function;
  }
  if (!found.forward)
    return module.emitError("expected a function @") << main;
  if (isFused && bool(found.decode) == bool(found.batch))
    return module.emitError("expected a function @decode or @batch");
  if (found.encode && found.batch)
    return module.emitError("expected no @encode beside @batch");
  return found;
}

static LogicalResult expectType(func::FuncOp function, const Twine &what,
                                StringRef expected, Type found, bool holds) {
  if (holds)
    return success();
  return function.emitError("expected ")
         << what << " of type " << expected << ", got " << found;
}

static bool isTokens(Type type, int64_t rank) {
  auto tensor = dyn_cast<RankedTensorType>(type);
  return tensor && tensor.getRank() == rank && tensor.isDynamicDim(0) &&
         tensor.getNumDynamicDims() == 1 && !tensor.getEncoding();
}

/// The bytes of a tensor, with 1 for each dynamic dimension; nothing if a
/// dimension is empty or the tensor is larger than `maxBytes`.
static std::optional<int64_t> bytesOf(ShapedType type) {
  std::optional<int64_t> bytes = type.getElementTypeBitWidth() / 8;
  for (int64_t size : type.getShape()) {
    if (size != 0 && bytes && !ShapedType::isDynamic(size))
      bytes = llvm::checkedMul(*bytes, size);
    if (size == 0 || !bytes || *bytes > maxBytes)
      return std::nullopt;
  }
  return bytes;
}

static LogicalResult verifySize(Operation *op, Type type) {
  auto tensor = dyn_cast<RankedTensorType>(type);
  if (tensor && tensor.getEncoding())
    return op->emitError("expected tensors without an encoding, got ") << type;
  if (tensor)
    tensor = storageType(tensor);
  if (!tensor || !tensor.getElementType().isIntOrFloat() || bytesOf(tensor))
    return success();
  return op->emitError("expected tensors of 1 to ")
         << maxBytes << " bytes, got " << type;
}

/// Checks the type of hidden states: (tokens, hidden size).
static LogicalResult verifyHidden(func::FuncOp forward, Type hidden) {
  bool holds =
      isTokens(hidden, 2) &&
      isa<Float32Type, Float16Type, BFloat16Type>(getElementTypeOrSelf(hidden));
  return expectType(forward, "hidden states", "tensor<?xCxfloat>", hidden,
                    holds);
}

static bool isCache(Type type, bool paged) {
  auto tensor = dyn_cast<RankedTensorType>(type);
  if (!tensor || tensor.getRank() < 3 || isPaged(tensor) != paged ||
      (paged && !tensor.isDynamicDim(0)))
    return false;
  bool holdsState = isState(tensor);
  tensor = pageOf(tensor);
  if (holdsState)
    return tensor.hasStaticShape() &&
           isa<Float32Type, Float16Type, BFloat16Type>(tensor.getElementType());
  if (tensor.getRank() != 4 || !tensor.hasStaticShape())
    return false;
  auto blocks = dyn_cast<BlocksType>(tensor.getElementType());
  if (blocks)
    return blocks.getFormat() == BlockFormat::Q8_0 &&
           tensor.getDimSize(3) % BlocksType::kNumbers == 0;
  return isa<Float32Type, Float16Type, BFloat16Type>(tensor.getElementType());
}

/// Checks the types of pages and states: of one text, whose number of pages is
/// static, or, in `batch`, of each token.
static LogicalResult verifyNumbers(func::FuncOp function, bool batch) {
  FunctionType type = function.getFunctionType();
  NumberArguments numbers = numberArguments(type);
  auto isOfStates = [](Type cache) {
    auto type = dyn_cast<RankedTensorType>(cache);
    return type && isState(type);
  };
  ArrayRef<Type> caches = cacheTypes(type);
  if (llvm::all_of(caches, isOfStates))
    return function.emitError("expected a cache in pages");
  if (llvm::any_of(caches, isOfStates) != bool(numbers.states))
    return function.emitError("expected numbers of states after the pages if "
                              "and only if there are states");
  auto expectNumbers = [&](const char *name, std::optional<unsigned> argument,
                           StringRef each, int64_t count) {
    Type given = type.getInput(argument.value_or(kPagesArgument));
    auto tensor = dyn_cast<RankedTensorType>(given);
    bool holds = tensor && tensor.getElementType().isInteger(32) &&
                 (batch ? isTokens(given, 2)
                        : tensor.getRank() == 1 && tensor.hasStaticShape()) &&
                 (!count || tensor.getShape().back() == count);
    return expectType(
        function, name,
        ((batch ? "tensor<?x" : "tensor<") + each + "xi32>").str(), given,
        holds);
  };
  if (failed(expectNumbers("pages", numbers.pages, "W", 0)))
    return failure();
  int64_t width =
      cast<RankedTensorType>(type.getInput(*numbers.pages)).getShape().back();
  if (numbers.windowPages &&
      failed(expectNumbers("window_pages", numbers.windowPages,
                           std::to_string(width), width)))
    return failure();
  if (numbers.states && failed(expectNumbers("states", numbers.states, "2", 2)))
    return failure();
  bool hasChunk =
      function->getAttrOfType<IntegerAttr>(kChunkAttribute) != nullptr;
  if (hasChunk == batch)
    return success();
  return function.emitError("expected the attribute '")
         << kChunkAttribute << "' of @batch alone";
}

/// Checks the type (ids, position, first, caches...) -> (logits, caches...).
/// Over paged caches, numbers of pages and states follow `first`
/// (NumberArguments); then the number of tokens of another text, or of tokens
/// ahead, if there is one. In a batch, each token has a position.
static LogicalResult verifySignature(func::FuncOp forward, bool hasSource,
                                     bool paged = false, bool batch = false) {
  FunctionType type = forward.getFunctionType();
  ArrayRef<Type> inputs = type.getInputs();
  bool hides = returnsHidden(type);
  NumberArguments numbers = paged ? numberArguments(type) : NumberArguments();
  size_t count =
      paged ? std::max(numbers.end, kPagesArgument + 1) - kPagesArgument : 0;
  size_t scalars = 2 + count + hasSource + hides, outputs = hides ? 2 : 1;
  if (inputs.size() < 1 + scalars ||
      type.getNumResults() + scalars + 1 != inputs.size() + outputs)
    return forward.emitError("expected (ids, position, first")
           << (paged ? ", pages" : "")
           << (numbers.windowPages ? ", window_pages" : "")
           << (numbers.states ? ", states" : "")
           << (hasSource ? ", source" : "") << (hides ? ", first_hidden" : "")
           << ", caches...) -> (logits, " << (hides ? "hidden, " : "")
           << "caches...), got " << type;
  Type ids = inputs[0], logits = type.getResult(0);
  bool idsHold = isTokens(ids, 1) && getElementTypeOrSelf(ids).isInteger(32);
  bool logitsHold = isTokens(logits, 2) && getElementTypeOrSelf(logits).isF32();
  if (failed(expectType(forward, "ids", "tensor<?xi32>", ids, idsHold)) ||
      failed(
          expectType(forward, "logits", "tensor<?xVxf32>", logits, logitsHold)))
    return failure();
  if (paged && failed(verifyNumbers(forward, batch)))
    return failure();
  if (batch &&
      failed(expectType(forward, "positions", "tensor<?xi32>", inputs[1],
                        isTokens(inputs[1], 1) &&
                            getElementTypeOrSelf(inputs[1]).isInteger(32))))
    return failure();
  if (hides && failed(verifyHidden(forward, type.getResult(1))))
    return failure();
  SmallVector<const char *> names = {"position", "first"};
  names.append(count, nullptr); // which are checked
  if (hasSource)
    names.push_back("source");
  if (hides)
    names.push_back("first_hidden");
  for (size_t i = batch ? 1 : 0; i < scalars; ++i)
    if (names[i] && failed(expectType(forward, names[i], "index", inputs[1 + i],
                                      inputs[1 + i].isIndex())))
      return failure();
  for (size_t i = 1 + scalars; i < inputs.size(); ++i) {
    Type cache = inputs[i],
         returned = type.getResult(i - scalars - 1 + outputs);
    if (failed(expectType(forward, "argument " + Twine(i),
                          paged
                              ? "tensor<?xLxHxPxDxfloat> or "
                                "tensor<?xLxRxNxfloat>"
                              : "tensor<LxHxSxDxfloat> or tensor<LxRxNxfloat>",
                          cache, isCache(cache, paged))) ||
        failed(verifySize(forward, cache)))
      return failure();
    if (cache != returned)
      return forward.emitError("expected result ")
             << i - scalars - 1 + outputs << " to be the cache of argument "
             << i << ", " << cache << ", got " << returned;
  }
  return success();
}

/// @encode takes the arguments of @forward, and returns only the caches.
static LogicalResult verifyEncode(func::FuncOp encode, func::FuncOp forward) {
  FunctionType type = withoutHidden(forward.getFunctionType());
  auto expected = FunctionType::get(type.getContext(), type.getInputs(),
                                    type.getResults().drop_front());
  if (encode.getFunctionType() == expected)
    return success();
  return encode.emitError("expected @encode of type ")
         << expected << ", got " << encode.getFunctionType();
}

/// @decode has the type of @prefill for one token, without hidden states.
static LogicalResult verifyDecode(func::FuncOp decode, func::FuncOp prefill) {
  FunctionType type = withoutHidden(prefill.getFunctionType());
  SmallVector<Type> inputs(type.getInputs()), results(type.getResults());
  for (Type *tokens : {&inputs[0], &results[0]}) {
    auto tensor = cast<RankedTensorType>(*tokens);
    SmallVector<int64_t> shape(tensor.getShape());
    shape[0] = 1;
    *tokens = RankedTensorType::get(shape, tensor.getElementType());
  }
  auto expected = FunctionType::get(type.getContext(), inputs, results);
  if (decode.getFunctionType() == expected)
    return success();
  return decode.emitError("expected @decode of type ")
         << expected << ", got " << decode.getFunctionType();
}

/// Ops of arith and math on tensors must be elementwise, on integers or floats.
/// Only products and lookups read blocks.
static LogicalResult verifyOperands(Operation *op) {
  auto isTensor = [](Type type) { return isa<TensorType>(type); };
  bool isArithmetic =
      isa<arith::ArithDialect, math::MathDialect>(op->getDialect()) &&
      !isa<arith::ConstantOp, arith::SelectOp>(op);
  if (isArithmetic && !isElementwise(op) &&
      (llvm::any_of(op->getOperandTypes(), isTensor) ||
       llvm::any_of(op->getResultTypes(), isTensor)))
    return op->emitError("expected elementwise ops of one result on tensors, "
                         "got ")
           << op->getName();
  for (Type type :
       llvm::concat<Type>(op->getOperandTypes(), op->getResultTypes()))
    if (isElementwise(op) && getElementTypeOrSelf(type).isIndex())
      return op->emitError("expected tensors of integers or floats, got ")
             << type;
  bool readsBlocks = llvm::any_of(op->getOperandTypes(), [](Type type) {
    return isa<BlocksType>(getElementTypeOrSelf(type));
  });
  if (readsBlocks &&
      isa<tensor::ExpandShapeOp, tensor::CollapseShapeOp,
          tensor::ExtractSliceOp, tensor::ConcatOp, arith::SelectOp>(op))
    return op->emitError("expected a tensor in blocks to be read whole, got ")
           << op->getName() << " of it";
  return success();
}

static LogicalResult verifyOp(Operation *op) {
  bool known =
      isa_and_nonnull<LlamaDialect, arith::ArithDialect, math::MathDialect>(
          op->getDialect()) ||
      isa<scf::ForOp, scf::YieldOp, func::ReturnOp, tensor::DimOp,
          tensor::ExpandShapeOp, tensor::CollapseShapeOp,
          tensor::ExtractSliceOp, tensor::SplatOp, tensor::ConcatOp>(op);
  if (!known)
    return op->emitError("expected ops of llama, scf.for, arith, math and "
                         "reshapes of tensors in a program, got ")
           << op->getName();
  if (failed(verifyOperands(op)))
    return failure();
  if (auto concat = dyn_cast<tensor::ConcatOp>(op); concat && !concat.getDim())
    return op->emitError(
        "expected tensors to be joined along another dimension "
        "than the first, the token count");
  for (Type type : op->getResultTypes()) {
    if (failed(verifySize(op, type)))
      return failure();
    auto tensor = dyn_cast<RankedTensorType>(type);
    if (isa<UnrankedTensorType>(type) ||
        (tensor && tensor.getRank() > 0 &&
         llvm::any_of(tensor.getShape().drop_front(), ShapedType::isDynamic)))
      return op->emitError("expected no dynamic dimension but the first, the "
                           "token count, got ")
             << type;
  }
  return success();
}

/// The tensor that `tensor` is a slice or a reshape of; `tensor` itself if it
/// is neither.
static Value viewed(Value tensor) {
  while (isa_and_nonnull<tensor::ExtractSliceOp, tensor::ExpandShapeOp,
                         tensor::CollapseShapeOp>(tensor.getDefiningOp()))
    tensor = tensor.getDefiningOp()->getOperand(0);
  return tensor;
}

/// The ids must be the call's, and a table must have a row for each column of
/// the logits: the runtime only checks that ids are below the number of
/// columns.
static LogicalResult verifyEmbed(EmbedOp op, func::FuncOp function,
                                 int64_t vocab) {
  if (viewed(op.getIds()) != function.getArgument(0))
    return op.emitError("expected the ids that the function is given");
  int64_t rows = cast<RankedTensorType>(op.getTable().getType()).getDimSize(0);
  if (!ShapedType::isDynamic(rows) && rows >= vocab)
    return success();
  return op.emitError("expected a table of at least ")
         << vocab << " rows, one for each column of the logits, got "
         << op.getTable().getType();
}

/// A model with an input takes no ids: only the lookup of the ids reads it.
static LogicalResult verifyInput(GetWeightOp op) {
  auto weight =
      SymbolTable::lookupNearestSymbolFrom<WeightOp>(op, op.getWeightAttr());
  for (Operation *user : op->getUsers())
    if (weight.getInput() && !isa<EmbedOp>(user))
      return user->emitOpError("expected an input to be read by llama.embed, "
                               "got @")
             << op.getWeight();
  return success();
}

bool cria::seesAhead(func::FuncOp function) {
  return function
      .walk([](GQAOp op) {
        return op.getAhead() ? WalkResult::interrupt() : WalkResult::advance();
      })
      .wasInterrupted();
}

/// Ops must use the position, the pages and the number of the other text's
/// tokens, or of tokens ahead, that the function is given. The runtime keeps
/// these within the bounds of caches and tables.
static LogicalResult verifyPosition(Operation *op, func::FuncOp function,
                                    bool encodes) {
  Value position, pages, states, over, ahead;
  if (auto gqa = dyn_cast<GQAOp>(op)) {
    position = gqa.getPosition();
    pages = gqa.getPages();
    over = gqa.getOver();
    ahead = gqa.getAhead();
  } else if (auto append = dyn_cast<KVAppendOp>(op)) {
    position = append.getPosition();
    pages = append.getPages();
  } else if (auto of = dyn_cast<StateOpInterface>(op)) {
    position = of.getPosition();
    states = of.getStates();
  } else if (auto rope = dyn_cast<RopeOp>(op)) {
    position = rope.getPosition();
  } else if (auto add = dyn_cast<AddRowsOp>(op)) {
    position = add.getPosition();
  } else if (auto set = dyn_cast<SetRowsOp>(op)) {
    position = set.getPosition();
  }
  if (position && position != function.getArgument(1))
    return op->emitError("expected the position that the function is given");
  NumberArguments numbers = numberArguments(function.getFunctionType());
  auto isGiven = [&](Value value, std::optional<unsigned> argument) {
    return argument && value == function.getArgument(*argument);
  };
  if (pages && !isGiven(pages, numbers.pages) &&
      !isGiven(pages, numbers.windowPages))
    return op->emitError("expected the pages that the function is given");
  if (states && !isGiven(states, numbers.states))
    return op->emitError("expected the states that the function is given");
  if (over && (!encodes || over != function.getArgument(3)))
    return op->emitError(
        "expected 'over' to be the source that the function is given");
  if (ahead && (encodes || numbers.end >= function.getNumArguments() ||
                ahead != function.getArgument(numbers.end)))
    return op->emitError(
        "expected 'ahead' to be the number of tokens ahead that "
        "the function is given");
  return success();
}

/// What makes a value: kernels yield it, slices and reshapes are views of it.
static Value origin(Value value) {
  while (true) {
    value = viewed(value);
    auto kernel = value.getDefiningOp<KernelOp>();
    if (!kernel)
      return value;
    Operation *yield = kernel.getBody().front().getTerminator();
    value = yield->getOperand(cast<OpResult>(value).getResultNumber());
  }
}

/// Only llama.expert_linear may read the matrices of experts, which do not lie
/// together. It must get the numbers of experts from a llama.route over as many
/// experts, so that all numbers are in range.
static LogicalResult verifyExperts(Operation *op) {
  if (auto get = dyn_cast<GetWeightOp>(op)) {
    auto weight =
        SymbolTable::lookupNearestSymbolFrom<WeightOp>(op, get.getWeightAttr());
    for (OpOperand &use : get->getUses()) {
      auto linear = dyn_cast<ExpertLinearOp>(use.getOwner());
      if (weight.getExperts() &&
          !(linear && &use == &linear.getWeightMutable()))
        return use.getOwner()->emitOpError(
                   "expected experts to be read by llama.expert_linear, got @")
               << get.getWeight();
    }
    return success();
  }
  auto linear = dyn_cast<ExpertLinearOp>(op);
  if (!linear)
    return success();
  int64_t experts = // numbers of experts have 32 bits
      std::min<int64_t>(linear.getWeight().getType().getDimSize(0),
                        std::numeric_limits<int32_t>::max());
  Value chosen = origin(linear.getExperts());
  auto route = chosen.getDefiningOp<RouteOp>();
  if (route && chosen == route.getExperts() &&
      route.getLogits().getType().getDimSize(1) <= experts)
    return success();
  return op->emitOpError("expected what llama.route chose among at most ")
         << experts << " experts";
}

/// Checks that a weight has the layers that an op reads of it.
static LogicalResult verifyLayers(GetWeightOp op, WeightOp weight) {
  if (failed(verifyLayer(op, op.getLayer(), *weight.getCount())))
    return failure();
  LayerNumber number = *layerNumber(op.getLayer());
  for (int64_t i = number.first; i <= number.last; i += number.step) {
    if (!weight.hasLayer(i))
      return op.emitOpError("expected a layer that has @")
             << op.getWeight() << ", got " << weight.getFirst() + i;
    if (!number.step)
      break;
  }
  return success();
}

/// Checks that the layer that an op reads is within the weight or the cache.
static LogicalResult verifyLayers(Operation *op) {
  auto layers = [](Value cache) {
    return pageOf(cast<RankedTensorType>(cache.getType())).getDimSize(0);
  };
  return TypeSwitch<Operation *, LogicalResult>(op)
      .Case<GetWeightOp>([&](GetWeightOp get) {
        auto weight = SymbolTable::lookupNearestSymbolFrom<WeightOp>(
            op, get.getWeightAttr());
        return get.getLayer() ? verifyLayers(get, weight) : success();
      })
      .Case<GQAOp>([&](GQAOp gqa) {
        return verifyLayer(op, gqa.getLayer(), layers(gqa.getKeyCache()));
      })
      .Case<KVAppendOp>([&](KVAppendOp append) {
        return verifyLayer(op, append.getLayer(), layers(append.getCache()));
      })
      .Case([&](StateOpInterface of) {
        return verifyLayer(op, of.getLayer(), layers(of.getState()));
      })
      .Default(success());
}

/// The compiler makes functions whose names have a period, such as `rope.cos`,
/// or begin with `cria_`, and those in `reservedNames`. A program may not use
/// these names.
static LogicalResult verifyName(Operation *op, StringRef name) {
  if (!llvm::is_contained(reservedNames, name) && !name.contains('.') &&
      !name.starts_with("cria_"))
    return success();
  return op->emitError("expected a name that is not one of the compiler's, and "
                       "has no period, got @")
         << name;
}

static LogicalResult verifySymbols(ModuleOp module) {
  uint64_t slots = 0;
  for (auto weight : module.getOps<WeightOp>()) {
    slots += std::min<uint64_t>(weight.getSlotCount(), maxSlots + 1);
    if (slots > maxSlots)
      return weight.emitError("expected at most ")
             << maxSlots << " weights, each layer's counted";
    if (failed(verifyName(weight, weight.getSymName())) ||
        failed(verifySize(weight, weight.getType())))
      return failure();
  }
  for (auto table : module.getOps<RopeTableOp>())
    if (failed(verifyName(table, table.getSymName())))
      return failure();
  for (auto table : module.getOps<RopeTableOp>())
    if (static_cast<int64_t>(table.getPositions()) > maxPositions)
      return table.emitError("expected at most ")
             << maxPositions << " positions, got " << table.getPositions();
  return success();
}

/// The positions of the program whose main function is `forward`.
static int64_t positionsOf(ModuleOp module, func::FuncOp forward) {
  int64_t positions = maxPositions;
  auto atMost = [&](int64_t rows) {
    if (!ShapedType::isDynamic(rows))
      positions = std::min(positions, rows);
  };
  for (auto table : module.getOps<RopeTableOp>())
    atMost(static_cast<int64_t>(table.getPositions()));
  module.walk([&](AddRowsOp op) {
    if (op.getPosition())
      atMost(op.getTable().getType().getDimSize(0) +
             static_cast<int64_t>(op.getFirst()));
  });
  FunctionType type = forward.getFunctionType();
  FailureOr<SmallVector<int64_t>> windows = cacheWindows(forward);
  for (auto [i, input] : llvm::enumerate(cacheTypes(type))) {
    auto cache = cast<RankedTensorType>(input);
    if (isState(cache) ||
        (succeeded(windows) && (*windows)[i] && !isPaged(cache)))
      continue;
    int64_t pages = isPaged(cache)
                        ? cast<RankedTensorType>(type.getInput(kPagesArgument))
                              .getShape()
                              .back()
                        : 1;
    atMost(pageOf(cache).getDimSize(2) * pages);
  }
  return positions;
}

static LogicalResult verify(ModuleOp module, bool isFused) {
  FailureOr<Functions> functions = findFunctions(module, isFused);
  if (failed(functions) || failed(verifySymbols(module)))
    return failure();
  auto [forward, encode, decode, batch] = *functions;
  bool hasSource = encode || seesAhead(forward);
  if (failed(verifySignature(forward, hasSource, /*paged=*/bool(batch))) ||
      (batch && failed(verifySignature(batch, /*encodes=*/false, /*paged=*/true,
                                       /*batch=*/true))) ||
      (encode && failed(verifyEncode(encode, forward))) ||
      (decode && failed(verifyDecode(decode, forward))))
    return failure();
  if (batch && returnsHidden(batch.getFunctionType()) !=
                   returnsHidden(forward.getFunctionType()))
    return batch.emitError("expected hidden states of @batch if and only if "
                           "@prefill has them");
  auto logits = cast<RankedTensorType>(forward.getResultTypes()[0]);
  bool encodes = bool(encode);
  WalkResult result = module.walk([&](Operation *op) {
    auto function = op->getParentOfType<func::FuncOp>();
    if (!function)
      return WalkResult::advance();
    auto embed = dyn_cast<EmbedOp>(op);
    auto get = dyn_cast<GetWeightOp>(op);
    if (failed(verifyOp(op)) || failed(verifyPosition(op, function, encodes)) ||
        failed(verifyLayers(op)) || failed(verifyExperts(op)) ||
        (get && failed(verifyInput(get))) ||
        (embed && failed(verifyEmbed(embed, function, logits.getDimSize(1)))))
      return WalkResult::interrupt();
    return WalkResult::advance();
  });
  if (result.wasInterrupted())
    return failure();
  for (func::FuncOp function : {forward, encode, decode, batch})
    if (function && failed(cacheWindows(function)))
      return failure();
  for (func::FuncOp function : {forward, encode, decode, batch})
    if (function && failed(verifyRows(function, positionsOf(module, forward))))
      return failure();
  return success();
}

LogicalResult cria::verifyOps(func::FuncOp function) {
  WalkResult result = function.walk([&](Operation *op) {
    return op == function || succeeded(verifyOp(op)) ? WalkResult::advance()
                                                     : WalkResult::interrupt();
  });
  return failure(result.wasInterrupted());
}

LogicalResult cria::verifyProgram(ModuleOp module) {
  return verify(module, /*isFused=*/false);
}

LogicalResult cria::verifyFused(ModuleOp module) {
  for (Operation &op : module.getOps())
    if (isa<WeightOp, RopeTableOp>(op) && !op.hasAttr("slot"))
      return op.emitError("expected a slot");
  return verify(module, /*isFused=*/true);
}

int64_t cria::positionsOf(ModuleOp module) {
  return ::positionsOf(module, module.lookupSymbol<func::FuncOp>("forward"));
}
