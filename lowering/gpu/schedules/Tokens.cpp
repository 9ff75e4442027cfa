#include "lowering/gpu/schedules/Tokens.h"
#include "lowering/gpu/schedules/Preconditions.h"
#include "lowering/gpu/schedules/Tuning.h"
#include "lowering/kernel/Product.h"

#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/Matchers.h"
#include "llvm/Support/CheckedArithmetic.h"
#include <numeric>

using namespace mlir;
using namespace cria;
using namespace cria::simt;

static constexpr int64_t kMostThreads = 512;
/// Turns of an op's loops for a token: more are for many blocks.
static constexpr int64_t kMostTurns = 1 << 20;
/// Terms that a thread adds in a turn of its loop.
static constexpr int64_t kUnroll = 8;

static RankedTensorType typeOf(Value tensor) {
  return cast<RankedTensorType>(tensor.getType());
}

/// All elements of a tensor, with a loop for each dimension.
static Element elementOf(Elements &elements, Value tensor) {
  Element element{tensor, {}};
  for (int64_t loop = 0; loop < typeOf(tensor).getRank(); ++loop)
    element.at.push_back(elements.dim(loop));
  return element;
}

static int64_t product(ArrayRef<int64_t> sizes) {
  return std::accumulate(sizes.begin(), sizes.end(), int64_t(1),
                         [](int64_t a, int64_t b) {
                           return llvm::checkedMul(a, b).value_or(INT64_MAX);
                         });
}

/// The elements of a token.
static int64_t unitsOf(Value tensor) {
  return product(typeOf(tensor).getShape().drop_front());
}

//===----------------------------------------------------------------------===//
// Ops
//===----------------------------------------------------------------------===//

/// Whether a tensor is one that the block computes, or a view of one.
bool TokenOps::isComputed(Value tensor) const {
  while (auto view = tensor.getDefiningOp<tensor::CollapseShapeOp>())
    tensor = view.getSrc();
  return !elements.isStored(tensor) && !stored.contains(tensor) &&
         !filledWith(tensor.getDefiningOp()) &&
         !isa_and_present<tensor::EmptyOp>(tensor.getDefiningOp());
}

/// Whether the op's first loop counts tokens, the others are constant, and it
/// reads what is computed of the same token only.
bool TokenOps::isOfToken(linalg::GenericOp op) const {
  if (!op.hasPureTensorSemantics() || op.getNumDpsInits() != 1 ||
      op.getNumReductionLoops() > 1 || !canClone(op, elements) ||
      !isOfBytes(op.getResult(0)))
    return false;
  OpOperand &init = *op.getDpsInitOperand(0);
  AffineMap map = op.getMatchingIndexingMap(&init);
  AffineExpr token = getAffineDimExpr(0, op.getContext());
  auto isFirst = [&](AffineMap map) {
    return map.getNumResults() && map.getResult(0) == token;
  };
  SmallVector<int64_t> ranges = op.getStaticLoopRanges();
  ArrayRef<int64_t> inner = ArrayRef(ranges).drop_front();
  if (!isFirst(map) || ShapedType::isDynamicShape(inner) ||
      product(inner) > kMostTurns)
    return false;
  if (op.getNumReductionLoops()) {
    Value begin = filledWith(init.get().getDefiningOp());
    if (!begin || !matchPattern(begin, m_Constant()) ||
        !map.isProjectedPermutation() ||
        map.getNumResults() + 1 != op.getNumLoops())
      return false;
  } else if (!map.isPermutation()) {
    return false;
  }
  for (OpOperand &operand : op->getOpOperands())
    if (isa<RankedTensorType>(operand.get().getType()) &&
        isComputed(operand.get()) &&
        !isFirst(op.getMatchingIndexingMap(&operand)))
      return false;
  auto reads = op.getBlock()->getOps<tensor::ExtractOp>();
  return llvm::all_of(reads, [&](tensor::ExtractOp read) {
    Value rows = withRows(read.getTensor());
    if (!isComputed(read.getTensor()))
      return !rows.getDefiningOp<tensor::CollapseShapeOp>() &&
             (rows == read.getTensor() || elements.isStored(rows));
    if (read.getTensor().getType().getDimSize(0) == 1)
      return true; // the index of a single token is folded
    return isLoop(read.getIndices()[0], 0);
  });
}

/// Adds the ops that a tensor is computed by, in order.
bool TokenOps::visit(Value tensor) {
  Operation *op = tensor.getDefiningOp();
  if (!isComputed(tensor) || ops.contains(op))
    return true;
  if (auto expand = dyn_cast<tensor::ExpandShapeOp>(op))
    return expand.getReassociationIndices()[0].size() == 1 &&
           visit(expand.getSrc());
  if (isa<tensor::CastOp>(op))
    return visit(op->getOperand(0));
  auto generic = dyn_cast<linalg::GenericOp>(op);
  if (!generic)
    return false;
  if (elements.dot(elementOf(elements, tensor), sizesOf(tensor))) {
    stored.insert(tensor);
    return true;
  }
  for (Value operand : op->getOperands())
    if (isa<RankedTensorType>(operand.getType()) && !visit(operand))
      return false;
  for (auto read : generic.getBlock()->getOps<tensor::ExtractOp>())
    if (!visit(read.getTensor()))
      return false;
  ops.insert(op);
  return isOfToken(generic);
}

bool TokenOps::add(const Part &part) {
  Size tokens = part.box[0];
  for (const Size &size : ArrayRef(part.box).drop_front())
    if (!size.isConstant())
      return false;
  for (const Store &store : part.stores)
    if (store.value.at.empty() || store.value.at[0] != elements.dim(0) ||
        !hasMemory(store.into.tensor) || !visit(store.value.tensor))
      return false;
  parts.push_back(part);
  return parts[0].box[0] == tokens;
}

//===----------------------------------------------------------------------===//
// The launch
//===----------------------------------------------------------------------===//

/// The element of a reduction, whose terms a thread adds in their order.
Value TokenOps::sum(Launch &launch, const Element &element, ArrayRef<Size> box,
                    ValueRange loops) {
  KernelBuilder &b = launch.b;
  Reduction reduction = *elements.reduction(element, box);
  Box longer(box);
  longer.push_back(reduction.terms);
  SmallVector<Value> turn(loops);
  turn.push_back(Value());
  linalg::GenericOp op = reduction.op;
  Value begin = filledWith(op.getDpsInits()[0].getDefiningOp());
  int64_t terms = reduction.terms.constant, step = std::gcd(terms, kUnroll);
  return b.loop(b.i32(0), b.i32(terms), step,
                {b.clone(*begin.getDefiningOp())->getResult(0)},
                [&](Value k, ValueRange carried) {
                  Value sum = carried[0];
                  for (int64_t i = 0; i < step; ++i) {
                    turn.back() = b.add(k, i);
                    Evaluator term(launch, longer, turn);
                    sum = term.payload(op, 0, reduction.loops, sum);
                  }
                  return SmallVector<Value>{sum};
                })[0];
}

/// Computes an op's elements of the block's token into shared memory.
void TokenOps::compute(Launch &launch, linalg::GenericOp op) {
  KernelBuilder &b = launch.b;
  Value tensor = op.getResult(0);
  Box box = sizesOf(tensor);
  Element element = elementOf(elements, tensor);
  int64_t units = unitsOf(tensor);
  int64_t stride = box.size() > 1 ? box.back().constant : 1;
  Type type = typeOf(tensor).getElementType();
  // LLVM loads three numbers as a vector of four: then the fourth is written.
  int64_t padded = llvm::alignTo(units, 128 / type.getIntOrFloatBitWidth());
  Rows rows = b.shared(type, padded, stride);
  SmallVector<Value> loops(box.size(), b.i32(0));
  loops[0] = b.block(0);
  auto store = [&](Value x, Value unit) {
    b.storeTo(x, b.address(rows, b.i32(0), unit));
  };
  auto reduction = op.getNumReductionLoops() ? elements.reduction(element, box)
                                             : std::nullopt;
  if (reduction && units == 1 && canReduce(elements, *reduction, box)) {
    Value all = reduce(launch, *reduction, box, loops, {});
    b.when(b.equal(b.thread(), b.i32(0)), [&] { store(all, b.i32(0)); });
  } else {
    SmallVector<unsigned> inner =
        llvm::to_vector(llvm::seq<unsigned>(1, box.size()));
    b.loop(b.thread(), b.i32(units), b.threads(), [&](Value unit) {
      split(b, box, inner, unit, loops);
      Evaluator evaluate(launch, box, loops);
      store(reduction ? sum(launch, element, box, loops) : evaluate(element),
            unit);
    });
  }
  b.loop(b.add(b.thread(), units), b.i32(padded), b.threads(),
         [&](Value unit) { store(b.zero(type), unit); });
  b.barrier();
  launch.hold(tensor, rows);
  elements.setStored(tensor);
}

bool TokenOps::emit(KernelFunction &function, const Twine &suffix) {
  int64_t bytes = 0, most = 1;
  for (Operation *op : ops) {
    Value tensor = op->getResult(0);
    most = std::max(most, unitsOf(tensor));
    // An array begins at 16 bytes; statistics need as much again.
    bytes += 2 * llvm::alignTo(unitsOf(tensor) *
                                   typeOf(tensor).getElementTypeBitWidth() / 8,
                               16);
  }
  if (bytes > kDeclaredMemory)
    return false;
  Launch launch(function, suffix,
                std::min(kMostThreads, int64_t(llvm::alignTo(most, kWarp))));
  KernelBuilder &b = launch.b;
  for (Operation *op : ops)
    compute(launch, cast<linalg::GenericOp>(op));
  for (const Part &part : parts) {
    SmallVector<unsigned> inner =
        llvm::to_vector(llvm::seq<unsigned>(1, part.box.size()));
    int64_t units = 1;
    for (unsigned loop : inner)
      units *= part.box[loop].constant;
    SmallVector<Value> loops(part.box.size());
    loops[0] = b.block(0);
    b.loop(b.thread(), b.i32(units), b.threads(), [&](Value unit) {
      split(b, part.box, inner, unit, loops);
      Evaluator evaluate(launch, part.box, loops);
      for (const Store &store : part.stores)
        launch.store(evaluate(store.value), store.into, loops);
    });
  }
  launch.finish({function.blocks(parts[0].box[0], 1)});
  return true;
}
