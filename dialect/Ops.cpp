/// Verifiers and type inference. A comment beside each check names the
/// constraint of Ops.td, such as rmsnorm_c1: `git grep rmsnorm_c1` shows text,
/// check and test.
#include "dialect/Dialect.h"

#include "mlir/IR/Matchers.h"
#include "mlir/IR/TypeUtilities.h"
#include "mlir/Interfaces/FunctionInterfaces.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/CheckedArithmetic.h"
#include <cmath>
#include <limits>

using namespace mlir;
using namespace cria::llama;

#include "dialect/Enums.cpp.inc"

static OptionalParseResult parseVisibility(OpAsmParser &parser,
                                           StringAttr &visibility) {
  StringRef keyword;
  if (failed(parser.parseOptionalKeyword(&keyword,
                                         {"public", "private", "nested"})))
    return std::nullopt;
  visibility = parser.getBuilder().getStringAttr(keyword);
  return success();
}

static void printVisibility(OpAsmPrinter &printer, Operation *,
                            StringAttr visibility) {
  printer << visibility.getValue();
}

/// `%position`, or `(%positions : tensor<?xi32>)` if each token has a position.
static ParseResult
parsePosition(OpAsmParser &parser,
              std::optional<OpAsmParser::UnresolvedOperand> &position,
              Type &type) {
  position.emplace();
  type = parser.getBuilder().getIndexType();
  if (failed(parser.parseOptionalLParen()))
    return parser.parseOperand(*position);
  return failure(parser.parseOperand(*position) ||
                 parser.parseColonType(type) || parser.parseRParen());
}

static ParseResult parsePosition(OpAsmParser &parser,
                                 OpAsmParser::UnresolvedOperand &position,
                                 Type &type) {
  std::optional<OpAsmParser::UnresolvedOperand> operand;
  if (failed(parsePosition(parser, operand, type)))
    return failure();
  position = *operand;
  return success();
}

static void printPosition(OpAsmPrinter &printer, Operation *, Value position,
                          Type type) {
  if (type.isIndex())
    printer << position;
  else
    printer << "(" << position << " : " << type << ")";
}

/// The type of `up`, after that of the gate if it differs.
static ParseResult parseGateTypes(OpAsmParser &parser, Type &gate, Type &up) {
  if (parser.parseType(gate))
    return failure();
  up = gate;
  return failure(succeeded(parser.parseOptionalComma()) &&
                 parser.parseType(up));
}

static void printGateTypes(OpAsmPrinter &printer, Operation *, Type gate,
                           Type up) {
  if (gate != up)
    printer << gate << ", ";
  printer << up;
}

/// Whether the rows of a tensor are whole blocks, if it is in blocks.
static bool hasWholeBlocks(RankedTensorType type) {
  return !isa<BlocksType>(type.getElementType()) ||
         type.getShape().back() % BlocksType::kNumbers == 0;
}

/// Whether a tensor is in blocks of floats.
static bool hasFloatBlocks(RankedTensorType type) {
  auto blocks = dyn_cast<BlocksType>(type.getElementType());
  return blocks && blocks.getFormat() == BlockFormat::FP8;
}

/// Names the results of an op in printed IR: after its symbol, after the weight
/// that it multiplies with, or else after the op.
///
///   %q_proj = llama.get_weight @q_proj
///   %q = llama.linear %rmsnorm, %q_proj
///   %layers_attn_qkv:3 = llama.kernel "layers_attn_qkv"
static void nameResults(Operation *op, OpAsmSetValueNameFn setName) {
  if (op->getNumResults() == 0)
    return;
  if (auto tables = dyn_cast<GetRopeOp>(op)) {
    setName(tables.getCos(), "cos");
    setName(tables.getSin(), "sin");
    return;
  }
  if (auto route = dyn_cast<RouteOp>(op)) {
    setName(route.getExperts(), "experts");
    setName(route.getWeights(), "weights");
    return;
  }
  StringRef name = op->getName().stripDialect();
  if (auto of = dyn_cast<StateOpInterface>(op))
    setName(of.getNext(), "state");
  if (auto get = dyn_cast<GetWeightOp>(op)) {
    name = get.getWeight();
  } else if (auto kernel = dyn_cast<KernelOp>(op)) {
    name = kernel.getKernelName();
  } else if (auto linear = dyn_cast<LinearOp>(op)) {
    auto weight = linear.getWeight().getDefiningOp<GetWeightOp>();
    StringRef symbol = weight ? weight.getWeight() : "";
    if (symbol.consume_back("_proj"))
      name = symbol;
  }
  setName(op->getResult(0), name);
}

#include "dialect/Interfaces.cpp.inc"

#define GET_OP_CLASSES
#include "dialect/Ops.cpp.inc"

/// Whether two dimensions may be equal at run time: a dynamic dimension may
/// have any size.
static bool compatible(int64_t a, int64_t b) {
  return a == b || ShapedType::isDynamic(a) || ShapedType::isDynamic(b);
}

/// "64" or "?".
static std::string dimension(int64_t size) {
  return ShapedType::isDynamic(size) ? "?" : std::to_string(size);
}

/// Reports an error if the size `found` cannot be `expected`; `what` names it.
static LogicalResult expectSize(Operation *op, const Twine &what,
                                int64_t expected, int64_t found) {
  if (compatible(expected, found))
    return success();
  return op->emitOpError("expected ")
         << what << " " << dimension(expected) << ", got " << dimension(found);
}

/// The number as arithmetic uses it, in f32.
static float toF32(const APFloat &value) {
  return static_cast<float>(value.convertToDouble());
}

static LogicalResult expectPositive(Operation *op, StringRef what,
                                    const APFloat &value) {
  float number = toF32(value);
  if (std::isfinite(number) && number > 0)
    return success();
  return op->emitOpError("expected ")
         << what << " to be positive and finite in f32, got "
         << value.convertToDouble();
}

static LogicalResult expectFinite(Operation *op, const APFloat &scale) {
  if (std::isfinite(toF32(scale)))
    return success();
  return op->emitOpError("expected a scale that is finite in f32, got ")
         << scale.convertToDouble();
}

/// Reports an error if `index` is constant and [index, index + count) is not
/// within [0, size). `what` names the index. Dynamic sizes count as fitting.
static LogicalResult expectWithin(Operation *op, StringRef what, Value index,
                                  int64_t count, int64_t size) {
  llvm::APInt constant;
  if (!index || ShapedType::isDynamic(size))
    return success();
  int64_t most = size - (ShapedType::isDynamic(count) ? 1 : count), first = 0;
  if (matchPattern(index, m_ConstantInt(&constant)))
    first = constant.getSExtValue();
  if (first >= 0 && first <= most)
    return success();
  if (most < 0)
    return op->emitOpError("expected at most ")
           << size << " tokens, got " << count;
  return op->emitOpError("expected ")
         << what << " from 0 to " << most << ", got " << first;
}

static int64_t dim(Value value, unsigned index) {
  return cast<RankedTensorType>(value.getType()).getDimSize(index);
}

static Type elementType(Value value) {
  return getElementTypeOrSelf(value.getType());
}

/// Checks a rank. Type inference needs this check because it also runs on
/// operands that were not verified yet.
static LogicalResult expectRank(std::optional<Location> loc, StringRef what,
                                Value value, int64_t rank) {
  auto type = dyn_cast<RankedTensorType>(value.getType());
  if (type && type.getRank() == rank)
    return success();
  return emitOptionalError(loc, "expected ", what, " of rank ", rank, ", got ",
                           value.getType());
}

/// Infers the type (tokens, out) of the product of an input (tokens, in) and a
/// weight (out, in).
static LogicalResult inferProduct(std::optional<Location> loc, Value input,
                                  Value weight, Type element,
                                  SmallVectorImpl<Type> &types) {
  if (failed(expectRank(loc, "an input", input, 2)) ||
      failed(expectRank(loc, "a weight", weight, 2)))
    return failure();
  types.push_back(
      RankedTensorType::get({dim(input, 0), dim(weight, 0)}, element));
  return success();
}

//===----------------------------------------------------------------------===//
// Symbols
//===----------------------------------------------------------------------===//

namespace {
/// The slots that a symbol uses.
struct SlotRange {
  Operation *op;
  uint64_t first, count;
};
} // namespace

static std::optional<uint64_t> slotCount(Operation &op) {
  if (auto weight = dyn_cast<WeightOp>(op))
    return weight.getSlotCount();
  if (auto table = dyn_cast<RopeTableOp>(op))
    return table.getSlotCount();
  return std::nullopt;
}

/// Checks the slots of all symbols in the block of `op`. Does nothing unless
/// `op` is the first symbol, so that the check runs once.
static LogicalResult verifySlots(Operation *op) {
  Block *block = op->getBlock();
  auto isSymbol = [](Operation &other) { return slotCount(other).has_value(); };
  if (!block || &*llvm::find_if(*block, isSymbol) != op)
    return success();
  SmallVector<SlotRange> ranges;
  for (Operation &other : llvm::make_filter_range(*block, isSymbol)) {
    auto slot = other.getAttrOfType<IntegerAttr>("slot");
    if (bool(slot) != op->hasAttr("slot")) // weight_c6
      return other.emitOpError("expected ")
             << (slot ? "no slot" : "a slot") << ", as " << op->getName()
             << " @" << SymbolTable::getSymbolName(op).getValue() << " has";
    if (slot)
      ranges.push_back(
          {&other, static_cast<uint64_t>(slot.getInt()), *slotCount(other)});
  }
  llvm::stable_sort(ranges, [](const SlotRange &a, const SlotRange &b) {
    return a.first < b.first;
  });
  uint64_t next = 0;
  for (const SlotRange &range : ranges) {
    if (range.first != next) // weight_c6, rope_table_c4
      return range.op->emitOpError("expected slot ")
             << next << ", the next one, got "
             << static_cast<int64_t>(range.first);
    next += range.count;
  }
  return success();
}

static bool isFloat(Type type) {
  return type.isF32() || type.isF16() || type.isBF16();
}

/// Whether a tensor of `rank` dimensions is in blocks, and its rows are whole
/// blocks.
static bool isInBlocks(RankedTensorType type, int64_t rank) {
  return isa<BlocksType>(type.getElementType()) && type.getRank() == rank &&
         hasWholeBlocks(type);
}

/// The last four dimensions of a cache: (layers, heads, positions, head size).
/// The positions of a paged cache are those of one page.
static ArrayRef<int64_t> cacheShape(Value cache) {
  return cast<RankedTensorType>(cache.getType()).getShape().take_back(4);
}

/// Reports an error if a cache is in blocks and its heads are not whole blocks.
static LogicalResult expectWholeBlocks(Operation *op, Value cache) {
  int64_t size = cacheShape(cache)[3];
  if (!isa<BlocksType>(elementType(cache)) || size % BlocksType::kNumbers == 0)
    return success();
  return op->emitOpError("expected a head size in whole blocks of ")
         << BlocksType::kNumbers << ", got " << dimension(size);
}

int64_t WeightOp::getExpertCount() {
  RankedTensorType type = getTensorType();
  return getExperts() && type.getRank() ? type.getDimSize(0) : 1;
}

int64_t WeightOp::getSlotCount() {
  auto count = static_cast<int64_t>(getCount().value_or(1));
  return llvm::checkedMul(count, getExpertCount())
      .value_or(std::numeric_limits<int64_t>::max());
}

int64_t WeightOp::getLayerCount() {
  return getLayers() ? static_cast<int64_t>(getLayers()->size())
                     : static_cast<int64_t>(getCount().value_or(1));
}

bool WeightOp::hasLayer(int64_t index) {
  return !getLayers() ||
         llvm::is_contained(*getLayers(),
                            static_cast<int64_t>(getFirst()) + index);
}

RankedTensorType WeightOp::getWholeType() {
  RankedTensorType type = getTensorType();
  if (!getSplit())
    return type;
  SmallVector<int64_t> shape(type.getShape());
  int64_t &size =
      shape[getRowDimension() + (*getSplit() == Split::Rows ? 0 : 1)];
  size = llvm::checkedMul(size, LlamaDialect::shardsOf(*this))
             .value_or(std::numeric_limits<int64_t>::max());
  return type.clone(shape);
}

static LogicalResult verifySplit(WeightOp weight) {
  int64_t rank = weight.getTensorType().getRank();
  bool isRows = *weight.getSplit() == Split::Rows;
  if (LlamaDialect::shardsOf(weight) < 2) // weight_c7
    return weight.emitOpError(
        "expected a weight with 'split' to be in a module with 'llama.shards'");
  if (rank == 0 || (!isRows && (rank != 2 + weight.getRowDimension() ||
                                weight.getFirstRow()))) // weight_c7
    return weight.emitOpError("expected ")
           << (isRows ? "'split rows' on a tensor with rows"
                      : "'split cols' on a matrix without 'rows'");
  return success();
}

static LogicalResult verifyInput(WeightOp weight) {
  RankedTensorType type = weight.getTensorType();
  if (type.getRank() == 2 && type.getDimSize(0) == 1 &&
      isFloat(type.getElementType()) && !weight.getCount() &&
      !weight.getFirstRow() && !weight.getTied() && !weight.getExperts() &&
      !weight.getAdapter() && !weight.getTransposed() &&
      !weight.getSplit()) // weight_c11
    return success();
  return weight.emitOpError("expected an input to be one whole row of floats, "
                            "got ")
         << type;
}

static LogicalResult verifyLayers(WeightOp weight) {
  ArrayRef<int64_t> layers = *weight.getLayers();
  auto first = static_cast<int64_t>(weight.getFirst()),
       last = first + static_cast<int64_t>(weight.getCount().value_or(0)) - 1;
  bool ascends = std::adjacent_find(layers.begin(), layers.end(),
                                    std::greater_equal<>()) == layers.end();
  if (weight.getCount() && ascends && !layers.empty() &&
      layers.front() == first && layers.back() == last) // weight_c9
    return success();
  return weight.emitOpError("expected layers that ascend from ")
         << first << " to " << last << ", the layers of the count";
}

LogicalResult WeightOp::verify() {
  auto type = dyn_cast<RankedTensorType>(getType());
  if (!type || !type.hasStaticShape() ||
      !(isFloat(type.getElementType()) ||
        isInBlocks(type, getExperts() ? 3 : 2))) // weight_c1
    return emitOpError("expected a static tensor of f32, f16 or bf16, or a "
                       "matrix in blocks of 32, got ")
           << getType();
  size_t layers = getCount() ? 1 : 0, found = getSource().count("{}");
  if (found != layers && !(getExperts() && found == layers + 1)) // weight_c2
    return emitOpError("expected ")
           << (getCount() ? "one '{}'" : "no '{}'") << " in the name"
           << (getExperts() ? ", or one more, for the expert" : "") << ", got "
           << found;
  if (getCount() && static_cast<int64_t>(*getCount()) <= 0) // weight_c3
    return emitOpError("expected a positive count, got ")
           << static_cast<int64_t>(*getCount());
  auto firstLayer = static_cast<int64_t>(getFirst());
  if (firstLayer < 0 ||
      !llvm::checkedAdd(firstLayer,
                        int64_t(getCount().value_or(1)))) // weight_c3
    return emitOpError("expected a first layer of at least 0, and layers whose "
                       "numbers fit 64 bits, got ")
           << firstLayer;
  if (getLayers() && failed(verifyLayers(*this)))
    return failure();
  bool hasMatrices =
      type.getRank() == (getExperts() ? 3 : 2) && found == layers;
  if (getTransposed() &&
      (!hasMatrices || getAdapter() || getTied())) // weight_c10
    return emitOpError("expected one tensor with a matrix, or with those of "
                       "experts, to be transposed, got ")
           << type;
  if (getExperts() && (type.getRank() != 3 || getAdapter() || getTied()))
    return emitOpError("expected experts of three dimensions, without "
                       "'adapter' and 'or', got ") // weight_c8
           << getType();
  if (getSplit() && failed(verifySplit(*this)))
    return failure();
  if (getInput() && failed(verifyInput(*this)))
    return failure();
  if (getFirstRow().has_value() != getSourceRows().has_value()) // weight_c4
    return emitOpError("expected first_row beside source_rows");
  if (!getFirstRow())
    return verifySlots(*this);
  auto row = static_cast<int64_t>(*getFirstRow()),
       rows = static_cast<int64_t>(*getSourceRows());
  int64_t taken =
      type.getRank() ? getWholeType().getDimSize(getRowDimension()) : 0;
  if (row < 0 || taken == 0 || rows < taken || row > rows - taken) // weight_c4
    return emitOpError("expected ") << taken << " rows from " << row
                                    << " on within the tensor's " << rows;
  return verifySlots(*this);
}

LogicalResult WeightOp::verifySymbolUses(SymbolTableCollection &symbols) {
  if (!getTied())
    return success();
  auto other = symbols.lookupNearestSymbolFrom<WeightOp>(*this, getTiedAttr());
  auto isWhole = [](WeightOp weight) {
    return !weight.getCount() && !weight.getFirstRow() && !weight.getAdapter();
  };
  if (!other || other.getWholeType().getShape() != getWholeType().getShape() ||
      other.getTied() || !isWhole(other) || !isWhole(*this)) // weight_c5
    return emitOpError("expected 'or' to name a whole weight of the shape of ")
           << getWholeType() << ", got " << getTiedAttr();
  return success();
}

RankedTensorType RopeTableOp::getTensorType() {
  return RankedTensorType::get({static_cast<int64_t>(getPositions()),
                                static_cast<int64_t>(getInvFreq().size())},
                               Float32Type::get(getContext()));
}

LogicalResult RopeTableOp::verify() {
  if (static_cast<int64_t>(getPositions()) <= 0 ||
      getInvFreq().empty()) // rope_table_c1
    return emitOpError("expected positions and frequencies, got ")
           << static_cast<int64_t>(getPositions()) << " and "
           << getInvFreq().size();
  size_t count = getInvFreq().size();
  bool grows = getGrowth() || getTheta();
  auto isPositive = [](std::optional<APFloat> x) {
    return x && std::isfinite(toF32(*x)) && toF32(*x) > 0;
  };
  bool fits = !getOriginal() && !getLongInvFreq() && !grows;
  if (getOriginal() && static_cast<int64_t>(*getOriginal()) > 0)
    fits = getLongInvFreq() ? getLongInvFreq()->size() == count && !grows
                            : isPositive(getGrowth()) &&
                                  isPositive(getTheta()) && count >= 2;
  if (!fits) // rope_table_c2
    return emitOpError("expected a positive 'original' with ")
           << count
           << " frequencies in 'long_inv_freq', or with 'growth' and 'theta'";
  if (getRecompute() && !getOriginal()) // rope_table_c3
    return emitOpError("expected 'original' beside 'recompute'");
  auto isFinite = [](float x) { return std::isfinite(x); };
  if (!llvm::all_of(getInvFreq(), isFinite) ||
      (getLongInvFreq() &&
       !llvm::all_of(*getLongInvFreq(), isFinite))) // rope_table_c5
    return emitOpError("expected finite frequencies");
  if (failed(expectFinite(*this, getScale()))) // rope_table_c5
    return failure();
  return verifySlots(*this);
}

LogicalResult GetWeightOp::verifySymbolUses(SymbolTableCollection &symbols) {
  auto weight =
      symbols.lookupNearestSymbolFrom<WeightOp>(*this, getWeightAttr());
  if (!weight) // get_weight_c1
    return emitOpError("expected a llama.weight, got ") << getWeightAttr();
  if (getResult().getType() != weight.getType()) // get_weight_c2
    return emitOpError("expected ")
           << weight.getType() << ", got " << getResult().getType();
  if (weight.getCount().has_value() != static_cast<bool>(getLayer())) {
    // get_weight_c3
    return emitOpError("expected ") << (getLayer() ? "no layer" : "a layer");
  }
  return success();
}

LogicalResult GetRopeOp::verifySymbolUses(SymbolTableCollection &symbols) {
  auto table =
      symbols.lookupNearestSymbolFrom<RopeTableOp>(*this, getTableAttr());
  if (!table) // get_rope_c1
    return emitOpError("expected a llama.rope_table, got ") << getTableAttr();
  if (getCos().getType() != table.getTensorType()) // get_rope_c2
    return emitOpError("expected ")
           << table.getTensorType() << ", got " << getCos().getType();
  return success();
}

//===----------------------------------------------------------------------===//
// Token-wise ops
//===----------------------------------------------------------------------===//

LogicalResult EmbedOp::inferReturnTypes(MLIRContext *,
                                        std::optional<Location> loc,
                                        Adaptor adaptor,
                                        SmallVectorImpl<Type> &types) {
  Value ids = adaptor.getIds(), table = adaptor.getTable();
  if (failed(expectRank(loc, "ids", ids, 1)) ||
      failed(expectRank(loc, "a table", table, 2)))
    return failure();
  Type type = adaptor.getAs().value_or(elementType(table));
  if (!isFloat(type)) // embed_c2
    return emitOptionalError(
        loc, "expected 'as' f32, f16 or bf16 beside a table in blocks");
  types.push_back(RankedTensorType::get({dim(ids, 0), dim(table, 1)}, type));
  return success();
}

LogicalResult EmbedOp::verify() {
  if (getAs() && !isa<BlocksType>(elementType(getTable()))) // embed_c2
    return emitOpError("expected no 'as' beside a table that is not in blocks");
  return expectFinite(*this, getScale()); // embed_c1
}

static LogicalResult verifySquares(RMSNormOp op) {
  auto size = static_cast<int64_t>(op.getSize().value_or(0)),
       column = static_cast<int64_t>(op.getColumn());
  if (!op.getSquares()) // rmsnorm_c4
    return op.getSize() ? op.emitOpError("expected no size without squares")
                        : success();
  if (op.getType().getRank() != 2 || size < 1) // rmsnorm_c4
    return op.emitOpError("expected squares beside an x of two dimensions and "
                          "a positive size");
  int64_t columns = dim(op.getSquares(), 1);
  if (column < 0 ||
      (!ShapedType::isDynamic(columns) && column >= columns)) // rmsnorm_c4
    return op.emitOpError("expected a column below ")
           << columns << ", got " << column;
  return expectSize(op, "the number of rows of squares to be", // rmsnorm_c4
                    dim(op.getInput(), 0), dim(op.getSquares(), 0));
}

LogicalResult RMSNormOp::verify() {
  int64_t rank = getInput().getType().getRank(),
          own = getWeight() ? getWeight().getType().getRank() : 0;
  if (own == rank) // rmsnorm_c1
    return emitOpError("expected heads beside a weight of two dimensions");
  for (int64_t i = 0; i < own; ++i)
    if (failed(expectSize(*this, "a weight of size", // rmsnorm_c1
                          dim(getInput(), rank - own + i),
                          dim(getWeight(), i))))
      return failure();
  if (!getWeight() && (getUnitOffset() || getRoundOnce())) // rmsnorm_c3
    return emitOpError("expected a weight beside unit_offset and round_once");
  if (failed(verifySquares(*this)))
    return failure();
  return expectPositive(*this, "eps", getEps()); // rmsnorm_c2
}

LogicalResult SquareSumsOp::inferReturnTypes(MLIRContext *context,
                                             std::optional<Location> loc,
                                             Adaptor adaptor,
                                             SmallVectorImpl<Type> &types) {
  ValueRange inputs = adaptor.getInputs();
  if (inputs.empty()) // square_sums_c1
    return emitOptionalError(loc, "expected a tensor");
  if (failed(expectRank(loc, "a tensor", inputs[0], 2)))
    return failure();
  auto columns = static_cast<int64_t>(inputs.size());
  types.push_back(RankedTensorType::get({dim(inputs[0], 0), columns},
                                        Float32Type::get(context)));
  return success();
}

LogicalResult SquareSumsOp::verify() {
  for (Value input : getInputs())
    if (failed(expectSize(*this, "the number of tokens to be", // square_sums_c1
                          dim(getResult(), 0), dim(input, 0))))
      return failure();
  return success();
}

LogicalResult LayerNormOp::verify() {
  for (Value vector : {getGamma(), getBeta()})
    if (vector &&
        failed(expectSize(*this, "gamma and beta of size", dim(getInput(), 1),
                          dim(vector, 0)))) // layernorm_c1
      return failure();
  if ((getBeta() || getUnitOffset()) && !getGamma()) // layernorm_c3
    return emitOpError("expected gamma beside ")
           << (getBeta() ? "beta" : "unit_offset");
  return expectPositive(*this, "eps", getEps()); // layernorm_c2
}

LogicalResult LinearOp::inferReturnTypes(MLIRContext *,
                                         std::optional<Location> loc,
                                         Adaptor adaptor,
                                         SmallVectorImpl<Type> &types) {
  return inferProduct(loc, adaptor.getInput(), adaptor.getWeight(),
                      adaptor.getAs().value_or(elementType(adaptor.getInput())),
                      types);
}

LogicalResult LinearOp::verify() {
  if (failed(expectSize(*this, "a weight of second dimension",
                        dim(getInput(), 1), dim(getWeight(), 1)))) // linear_c1
    return failure();
  if (getAs() && !getAs()->isF32()) // linear_c3
    return emitOpError("expected 'as' f32, got ") << *getAs();
  if (!getBias())
    return success();
  return expectSize(*this, "a bias of size", dim(getWeight(), 0),
                    dim(getBias(), 0)); // linear_c2
}

LogicalResult HeadOp::inferReturnTypes(MLIRContext *context,
                                       std::optional<Location> loc,
                                       Adaptor adaptor,
                                       SmallVectorImpl<Type> &types) {
  return inferProduct(loc, adaptor.getInput(), adaptor.getWeight(),
                      Float32Type::get(context), types);
}

LogicalResult HeadOp::verify() {
  if (failed(expectSize(*this, "a weight of second dimension",
                        dim(getInput(), 1), dim(getWeight(), 1)))) // head_c1
    return failure();
  if (failed(expectFinite(*this, getScale()))) // head_c2
    return failure();
  if (getBias() && failed(expectSize(*this, "a bias of size", // head_c3
                                     dim(getWeight(), 0), dim(getBias(), 0))))
    return failure();
  return getSoftcap() ? expectPositive(*this, "soft cap", *getSoftcap())
                      : success(); // head_c2
}

/// If each token has a position, reports an error unless there are `tokens`
/// positions.
static LogicalResult expectPositions(Operation *op, Value position,
                                     int64_t tokens) {
  if (position.getType().isIndex())
    return success();
  return expectSize(op, "the number of positions to be", tokens,
                    dim(position, 0));
}

/// Checks the position of the first row of a table.
static LogicalResult expectFirst(Operation *op, uint64_t first) {
  static constexpr int64_t kMost = std::numeric_limits<int32_t>::max();
  if (first <= kMost)
    return success();
  return op->emitOpError("expected 'first' from 0 to ")
         << kMost << ", got " << static_cast<int64_t>(first);
}

LogicalResult AddRowsOp::verify() {
  if (failed(expectSize(*this, "a table of second dimension", // add_rows_c1
                        dim(getInput(), 1), dim(getTable(), 1))) ||
      failed(expectFirst(*this, getFirst()))) // add_rows_c5
    return failure();
  if (getFirst() &&
      !(getPosition() && getPosition().getType().isIndex())) // add_rows_c5
    return emitOpError("expected 'first' beside one position");
  int64_t rows = dim(getTable(), 0);
  if (!ShapedType::isDynamic(rows))
    rows += static_cast<int64_t>(getFirst());
  if (getPosition() &&
      failed(expectWithin(*this, "a position", getPosition(), // add_rows_c4
                          dim(getInput(), 0), rows)))
    return failure();
  if (getPosition())
    return expectPositions(*this, getPosition(), // add_rows_c3
                           dim(getInput(), 0));
  return expectSize(*this,
                    "the number of rows of a table without a position to be", 1,
                    dim(getTable(), 0)); // add_rows_c2
}

LogicalResult AllReduceOp::verify() {
  if (LlamaDialect::shardsOf(*this) < 2) // all_reduce_c2
    return emitOpError("expected to be in a module with 'llama.shards'");
  if (!getBias())
    return success();
  return expectSize(*this, "a bias of size", dim(getInput(), 1),
                    dim(getBias(), 0)); // all_reduce_c1
}

LogicalResult SetRowsOp::verify() {
  if (failed(expectSize(*this, "rows of second dimension", // set_rows_c1
                        dim(getInput(), 1), dim(getRows(), 1))))
    return failure();
  return expectFirst(*this, getFirst()); // set_rows_c2
}

LogicalResult ResidualOp::verify() {
  if (getFactor() &&
      failed(expectSize(*this, "a factor of size", // residual_c2
                        dim(getStream(), 1), dim(getFactor(), 0))))
    return failure();
  if (getTimes() && failed(expectSize(*this, "times of size", // residual_c3
                                      1, dim(getTimes(), 0))))
    return failure();
  return expectFinite(*this, getScale()); // residual_c1
}

LogicalResult SwiGLUOp::verify() {
  RankedTensorType up = getUp().getType();
  SmallVector<int64_t> one(up.getShape());
  one.back() = 1;
  if (getGate().getType() != up && getGate().getType() != up.clone(one))
    return emitOpError("expected a gate of type ") // swiglu_c1
           << up << ", or of one column, got " << getGate().getType();
  bool isPlain = !getLimit() && getAlpha().isExactlyValue(1);
  if (!isPlain &&
      (!getLimit() || getActivation() != Activation::Silu)) // swiglu_c2
    return emitOpError(
        "expected a limit beside alpha, and the activation silu");
  if (getLimit() && failed(expectPositive(*this, "limit", *getLimit())))
    return failure();                                // swiglu_c2
  return expectPositive(*this, "alpha", getAlpha()); // swiglu_c2
}

//===----------------------------------------------------------------------===//
// Mixtures of experts
//===----------------------------------------------------------------------===//

LogicalResult RouteOp::inferReturnTypes(MLIRContext *context,
                                        std::optional<Location> loc,
                                        Adaptor adaptor,
                                        SmallVectorImpl<Type> &types) {
  if (failed(expectRank(loc, "logits", adaptor.getLogits(), 2)))
    return failure();
  auto k = static_cast<int64_t>(adaptor.getK());
  if (k < 1) // route_c1
    return emitOptionalError(loc, "expected to choose at least 1 expert, got ",
                             k);
  int64_t tokens = dim(adaptor.getLogits(), 0);
  for (Type type :
       {Type(IntegerType::get(context, 32)), Type(Float32Type::get(context))})
    types.push_back(RankedTensorType::get({tokens, k}, type));
  return success();
}

/// Checks the groups of a route among `experts` experts.
static LogicalResult verifyGroups(RouteOp op, int64_t experts) {
  auto number = [](std::optional<uint64_t> value) {
    return static_cast<int64_t>(value.value_or(0));
  };
  int64_t groups = number(op.getGroups()), kept = number(op.getKeptGroups()),
          best = number(op.getGroupBest()), k = number(op.getK());
  if (!op.getGroups() && !op.getKeptGroups())
    return success();
  if (groups < 1 || experts % groups || kept < 1 || kept > groups || best < 1 ||
      best > experts / groups || k > kept * (experts / groups)) // route_c2
    return op.emitOpError("expected groups that divide ")
           << experts << " experts, and to choose " << k
           << " of the kept groups, got " << kept << " of " << groups
           << " groups, scored by their best " << best;
  return success();
}

LogicalResult RouteOp::verify() {
  int64_t experts = dim(getLogits(), 1), k = static_cast<int64_t>(getK());
  if (ShapedType::isDynamic(experts) || k > experts) // route_c1
    return emitOpError("expected to choose at most ")
           << dimension(experts) << " experts, got " << k;
  if (failed(verifyGroups(*this, experts)))
    return failure();
  if (failed(expectFinite(*this, getScale())) || // route_c3
      failed(expectFinite(*this, getLogitScale())))
    return failure();
  float floor = toF32(getFloor());
  if (!std::isfinite(floor) || floor < 0) // route_c3
    return emitOpError("expected a floor of at least 0, finite in f32, got ")
           << getFloor().convertToDouble();
  if (getCorrection() && // route_c4
      failed(expectSize(*this, "a correction of size", experts,
                        dim(getCorrection(), 0))))
    return failure();
  if (!getFactors())
    return success();
  return expectSize(*this, "factors of size", experts, // route_c4
                    dim(getFactors(), 0));
}

LogicalResult ExpertLinearOp::inferReturnTypes(MLIRContext *,
                                               std::optional<Location> loc,
                                               Adaptor adaptor,
                                               SmallVectorImpl<Type> &types) {
  if (failed(expectRank(loc, "experts", adaptor.getExperts(), 2)) ||
      failed(expectRank(loc, "a weight", adaptor.getWeight(), 3)))
    return failure();
  types.push_back(RankedTensorType::get({dim(adaptor.getExperts(), 0),
                                         dim(adaptor.getExperts(), 1),
                                         dim(adaptor.getWeight(), 1)},
                                        elementType(adaptor.getInput())));
  return success();
}

LogicalResult ExpertLinearOp::verify() {
  int64_t rank = getInput().getType().getRank();
  if (failed(expectSize(*this, "a weight of last dimension", // expert_linear_c1
                        dim(getInput(), rank - 1), dim(getWeight(), 2))))
    return failure();
  if (rank == 3 &&
      failed(expectSize(*this, "rows of a token", // expert_linear_c2
                        dim(getExperts(), 1), dim(getInput(), 1))))
    return failure();
  if (failed(expectSize(*this, "tokens of x", // expert_linear_c4
                        dim(getExperts(), 0), dim(getInput(), 0))))
    return failure();
  for (unsigned i = 0; i < 2 && getBias(); ++i)
    if (failed(expectSize(*this, i ? "a bias of columns" : "a bias of rows",
                          dim(getWeight(), i),
                          dim(getBias(), i)))) // expert_linear_c3
      return failure();
  return success();
}

LogicalResult CombineOp::inferReturnTypes(MLIRContext *,
                                          std::optional<Location> loc,
                                          Adaptor adaptor,
                                          SmallVectorImpl<Type> &types) {
  Value x = adaptor.getInput();
  if (failed(expectRank(loc, "x", x, 3)))
    return failure();
  types.push_back(
      RankedTensorType::get({dim(x, 0), dim(x, 2)}, elementType(x)));
  return success();
}

LogicalResult CombineOp::verify() {
  for (unsigned i : {0, 1})
    if (failed(expectSize(*this, i ? "chosen experts" : "tokens", // combine_c1
                          dim(getWeights(), i), dim(getInput(), i))))
      return failure();
  return success();
}

//===----------------------------------------------------------------------===//
// Attention
//===----------------------------------------------------------------------===//

LogicalResult HeadLinearOp::inferReturnTypes(MLIRContext *,
                                             std::optional<Location> loc,
                                             Adaptor adaptor,
                                             SmallVectorImpl<Type> &types) {
  Value x = adaptor.getInput(), weight = adaptor.getWeight();
  if (failed(expectRank(loc, "x", x, 3)) ||
      failed(expectRank(loc, "a weight", weight, 3)))
    return failure();
  types.push_back(RankedTensorType::get(
      {dim(x, 0), dim(x, 1), dim(weight, adaptor.getTransposed() ? 2 : 1)},
      elementType(x)));
  return success();
}

LogicalResult HeadLinearOp::verify() {
  if (failed(expectSize(*this, "a matrix for each head:", // head_linear_c1
                        dim(getInput(), 1), dim(getWeight(), 0))))
    return failure();
  return expectSize(*this, "matrices with rows of", // head_linear_c2
                    dim(getInput(), 2),
                    dim(getWeight(), getTransposed() ? 1 : 2));
}

LogicalResult RopeOp::verify() {
  int64_t half = dim(getCos(), 1), size = dim(getInput(), 2);
  bool isKnown = !ShapedType::isDynamic(half) && !ShapedType::isDynamic(size);
  if (half == 0 || (isKnown && half > size / 2)) // rope_c1
    return emitOpError("expected tables of 1 to half of ")
           << dimension(size) << " columns, got " << half;
  if (failed(expectWithin(*this, "a position", getPosition(), // rope_c3
                          dim(getInput(), 0), dim(getCos(), 0))))
    return failure();
  return expectPositions(*this, getPosition(), dim(getInput(), 0)); // rope_c2
}

/// Reports an error if pages do not fit the cache or the positions.
static LogicalResult expectPages(Operation *op, Value pages, Value cache,
                                 Value position, int64_t tokens) {
  bool isPaged = cast<RankedTensorType>(cache.getType()).getRank() == 5;
  if (isPaged != bool(pages)) // kv_append_c4, gqa_c7
    return op->emitOpError("expected ")
           << (pages ? "a paged cache with 'pages', got "
                     : "'pages' with the paged cache ")
           << cache.getType();
  bool ofTokens =
      pages && cast<RankedTensorType>(pages.getType()).getRank() == 2;
  if (ofTokens == position.getType().isIndex()) // kv_append_c5, gqa_c8
    return op->emitOpError("expected pages of each token if and only if each "
                           "token has a position");
  if (ofTokens && // kv_append_c5, gqa_c8
      failed(expectSize(op, "the number of rows of pages to be", tokens,
                        dim(pages, 0))))
    return failure();
  return expectPositions(op, position, tokens);
}

/// Reports an error unless a ring has no pages, and places for the `window` of
/// each of the rows' tokens.
static LogicalResult expectRing(Operation *op, Value pages, Value rows,
                                int64_t window, int64_t places) {
  if (pages)
    return op->emitOpError("expected no pages of a ring");
  int64_t tokens = ShapedType::isDynamic(dim(rows, 0)) ? 1 : dim(rows, 0);
  if (ShapedType::isDynamic(places) || window - 1 <= places - tokens)
    return success();
  return op->emitOpError("expected a ring of at least ")
         << window - 1 + tokens << " places, got " << places;
}

LogicalResult KVAppendOp::verify() {
  ArrayRef<int64_t> cache = cacheShape(getCache());
  if (failed(expectSize(*this, "heads", cache[1],
                        dim(getRows(), 1))) || // kv_append_c1
      failed(expectSize(*this, "head size", cache[3],
                        dim(getRows(), 2)))) // kv_append_c1
    return failure();
  if (failed(expectPages(*this, getPages(), getCache(), getPosition(),
                         dim(getRows(), 0))))
    return failure();
  if (failed(expectWholeBlocks(*this, getCache()))) // kv_append_c3
    return failure();
  if (failed(expectWithin(*this, "a layer", getLayer(), 1, cache[0])) ||
      (!getPages() && !getRing() &&
       failed(expectWithin(*this, "a position", getPosition(), // kv_append_c6
                           dim(getRows(), 0), cache[2]))))
    return failure();
  if (getRing() &&
      failed(expectRing(*this, getPages(), getRows(), 1, cache[2])))
    return failure(); // kv_append_c7
  if (!isa<BlocksType>(elementType(getCache())) &&
      elementType(getRows()) != elementType(getCache())) // kv_append_c2
    return emitOpError("expected rows of ")
           << elementType(getCache()) << ", got " << elementType(getRows());
  return success();
}

LogicalResult GQAOp::inferReturnTypes(MLIRContext *,
                                      std::optional<Location> loc,
                                      Adaptor adaptor,
                                      SmallVectorImpl<Type> &types) {
  Value query = adaptor.getQuery();
  if (failed(expectRank(loc, "a query", query, 3)))
    return failure();
  auto type = cast<RankedTensorType>(query.getType());
  SmallVector<int64_t> shape(type.getShape());
  if (auto size = adaptor.getValueSize())
    shape[2] = static_cast<int64_t>(*size);
  types.push_back(type.clone(shape));
  return success();
}

/// Reports an error if values are not a part of the rows of a cache.
static LogicalResult verifyValueSize(GQAOp op) { // gqa_c11
  if (!op.getValueSize())
    return success();
  int64_t size = static_cast<int64_t>(*op.getValueSize()),
          row = cacheShape(op.getValueCache())[3];
  if (size < 1 || (!ShapedType::isDynamic(row) && size > row))
    return op.emitOpError("expected values of 1 to ")
           << dimension(row) << " numbers, got " << size;
  bool isWhole = size % BlocksType::kNumbers == 0 ||
                 !isa<BlocksType>(elementType(op.getValueCache()));
  if (isWhole)
    return success();
  return op.emitOpError("expected values of whole blocks of ")
         << BlocksType::kNumbers << " numbers, got " << size;
}

LogicalResult GQAOp::verify() {
  int64_t heads = dim(getQuery(), 1), kvHeads = cacheShape(getKeyCache())[1];
  if (heads <= 0 || kvHeads <= 0 || heads % kvHeads) // gqa_c1
    return emitOpError("expected query heads a multiple of the ")
           << dimension(kvHeads) << " KV heads, got " << dimension(heads);
  if (failed(expectSize(*this, "head size", cacheShape(getKeyCache())[3],
                        dim(getQuery(), 2)))) // gqa_c2
    return failure();
  if (failed(expectPages(*this, getPages(), getKeyCache(), getPosition(),
                         dim(getQuery(), 0))))
    return failure();
  if (failed(expectWithin(*this, "a layer", getLayer(), 1, // gqa_c9
                          cacheShape(getKeyCache())[0])))
    return failure();
  if (getPages() && getOver()) // gqa_c7
    return emitOpError("expected no 'over' with 'pages'");
  if (!getPosition().getType().isIndex() && !getCausal()) // gqa_c8
    return emitOpError("expected 'causal', because each token has a position");
  if (failed(expectWholeBlocks(*this, getKeyCache()))) // gqa_c6
    return failure();
  if (failed(expectFinite(*this, getScale()))) // gqa_c3
    return failure();
  if (getWindow() && static_cast<int64_t>(*getWindow()) <= 0) // gqa_c3
    return emitOpError("expected a positive window, got ")
           << static_cast<int64_t>(*getWindow());
  if (getRing() && !getWindow()) // gqa_c12
    return emitOpError("expected a window beside 'ring'");
  if (getRing() && failed(expectRing(*this, getPages(), getQuery(), // gqa_c12
                                     static_cast<int64_t>(*getWindow()),
                                     cacheShape(getKeyCache())[2])))
    return failure();
  if (getSinks() && failed(expectSize(*this, "sinks of size", heads, // gqa_c10
                                      dim(getSinks(), 0))))
    return failure();
  if (failed(verifyValueSize(*this)))
    return failure();
  if (getOver() && (getCausal() || getWindow())) // gqa_c5
    return emitOpError("expected neither causal nor a window beside 'over'");
  if (getAhead() && (!getCausal() || !getPosition().getType().isIndex()))
    return emitOpError( // gqa_c13
        "expected causal and one position of all tokens beside 'ahead'");
  return getSoftcap() ? expectPositive(*this, "soft cap", *getSoftcap())
                      : success(); // gqa_c4
}

int64_t GQAOp::getRoom() {
  int64_t places = cacheShape(getKeyCache())[2];
  if (!getPages())
    return places;
  int64_t pages =
      cast<RankedTensorType>(getPages().getType()).getShape().back();
  return ShapedType::isDynamic(pages) || ShapedType::isDynamic(places)
             ? ShapedType::kDynamic
             : pages * places;
}

//===----------------------------------------------------------------------===//
// States
//===----------------------------------------------------------------------===//

/// Reports an error if the numbers of states do not fit the state or the
/// positions.
static LogicalResult expectStates(Operation *op, Value states, Value state,
                                  Value position, int64_t tokens) {
  Type type = state.getType();
  bool areMany = cast<RankedTensorType>(type).getRank() == 4;
  if (areMany != bool(states)) // causal_conv_c5, delta_rule_c6
    return op->emitOpError("expected ")
           << (states ? "states of many texts with 'states', got "
                      : "'states' with the states of many texts ")
           << type;
  int64_t rank =
      states ? cast<RankedTensorType>(states.getType()).getRank() : 0;
  if ((rank == 2) == position.getType().isIndex()) // causal_conv_c6
    return op->emitOpError("expected states of each token if and only if each "
                           "token has a position");
  if (rank && failed(expectSize(op, "numbers of states to be", 2,
                                dim(states, static_cast<unsigned>(rank - 1)))))
    return failure();
  if (rank == 2 && failed(expectSize(op, "the number of rows of states to be",
                                     tokens, dim(states, 0))))
    return failure();
  return expectPositions(op, position, tokens);
}

LogicalResult CausalConvOp::verify() {
  int64_t columns = dim(getInput(), 1), filter = dim(getWeight(), 1);
  if (failed(expectStates(*this, getStates(), getState(), getPosition(),
                          dim(getInput(), 0))))
    return failure();
  unsigned layers = getStates() ? 1 : 0;
  if (failed(expectSize(*this, "the weight's columns to be", columns,
                        dim(getWeight(), 0))) || // causal_conv_c1
      failed(expectSize(*this, "the state's columns to be", columns,
                        dim(getState(), layers + 2))) ||
      (getBias() && failed(expectSize(*this, "the bias's size to be", columns,
                                      dim(getBias(), 0)))))
    return failure();
  if (filter < 2) // causal_conv_c2
    return emitOpError("expected filters of at least 2 numbers, got ")
           << dimension(filter);
  if (failed(expectSize(*this, "the state's rows to be", filter - 1,
                        dim(getState(), layers + 1))) || // causal_conv_c2
      failed(expectWithin(*this, "a layer", getLayer(), 1,
                          dim(getState(), layers)))) // causal_conv_c4
    return failure();
  if (elementType(getInput()) == elementType(getState())) // causal_conv_c3
    return success();
  return emitOpError("expected a state of ")
         << elementType(getInput()) << ", got " << elementType(getState());
}

/// Checks what heads with a matrix have: keys, steps and decays, and the state.
template <typename Op> static LogicalResult verifyMatrices(Op op) {
  if (failed(expectStates(op, op.getStates(), op.getState(), op.getPosition(),
                          dim(op.getValue(), 0))))
    return failure();
  unsigned layers = op.getStates() ? 1 : 0;
  int64_t heads = dim(op.getValue(), 1), keyHeads = dim(op.getKey(), 1);
  if (heads <= 0 || keyHeads <= 0 || heads % keyHeads)
    return op.emitOpError("expected heads a multiple of the ")
           << dimension(keyHeads) << " heads of keys, got " << dimension(heads);
  if (failed(expectSize(op, "the number of steps to be", heads,
                        dim(op.getStep(), 1))) ||
      failed(expectSize(op, "the number of decays to be", heads,
                        dim(op.getLogDecay(), 0))) ||
      failed(expectSize(op, "the state's rows to be",
                        heads * dim(op.getKey(), 2),
                        dim(op.getState(), layers + 1))) ||
      failed(expectSize(op, "the state's numbers to be", dim(op.getValue(), 2),
                        dim(op.getState(), layers + 2))))
    return failure();
  return expectWithin(op, "a layer", op.getLayer(), 1,
                      dim(op.getState(), layers));
}

LogicalResult DeltaRuleOp::verify() {
  // delta_rule_c1 delta_rule_c2 delta_rule_c3 delta_rule_c5 delta_rule_c6
  if (failed(verifyMatrices(*this)) ||
      failed(expectFinite(*this, getScale()))) // delta_rule_c4
    return failure();
  return expectPositive(*this, "eps", getEps()); // delta_rule_c4
}

LogicalResult SelectiveScanOp::verify() {
  // selective_scan_c1 selective_scan_c2 selective_scan_c3 selective_scan_c4
  // selective_scan_c5
  if (failed(verifyMatrices(*this)))
    return failure();
  return expectSize(*this, "the number of skips to be", // selective_scan_c2
                    dim(getValue(), 1), dim(getSkip(), 0));
}

//===----------------------------------------------------------------------===//
// Fusion
//===----------------------------------------------------------------------===//

LogicalResult KernelOp::verify() {
  StringRef name = getKernelName();
  bool identifier =
      !name.empty() && !llvm::isDigit(name.front()) &&
      llvm::all_of(name, [](char c) { return llvm::isAlnum(c) || c == '_'; });
  if (!identifier) // kernel_c2
    return emitOpError("expected a C identifier, got \"") << name << "\"";
  if ((*this)->getParentOfType<KernelOp>() ||
      !(*this)->getParentOfType<FunctionOpInterface>()) // kernel_c3
    return emitOpError("expected a function, and no kernel, around a kernel");
  return success();
}

LogicalResult KernelOp::verifyRegions() {
  auto yield = dyn_cast<YieldOp>(getBody().front().getTerminator());
  if (!yield || yield.getOperandTypes() != getResultTypes()) // kernel_c1
    return emitOpError("expected to yield values of the results' types");
  return success();
}
