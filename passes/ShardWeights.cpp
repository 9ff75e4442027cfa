/// swiglu(linear(x, gate), linear(x, up)) -> linear(h, down)
///   =>  each rank has N-ths of gate's, up's rows and of down's columns:
///       all_reduce(linear(h, down))
///
/// The pass splits heads and the MLP's inner dimension. The linears that make
/// them are split by rows. The linears that read them are split by columns, so
/// their products are partial sums. Ops between these linears work on a rank's
/// heads as they do on all heads. The residual stream and its norms are not
/// split: each rank has all of them. The head is split by rows: a rank has the
/// logits of its part of the vocabulary.
///
/// A rank has a share of each expert. What the experts compute are partial
/// sums, and ranks add up what a token's experts compute together:
///
/// combine(w, expert_linear(h, down))
///   =>  all_reduce(combine(w, expert_linear(h, down)))
///
/// A norm of all heads together needs the squares of all ranks:
///
/// rmsnorm(q), rmsnorm(k)
///   =>  sums = all_reduce(square_sums(q, k));
///       rmsnorm(q) squares(sums), rmsnorm(k) squares(sums)
///
/// Where all queries read one KV head, as in latent attention, each rank has
/// the whole cache, and the rows for it. The matrices of heads are rows of a
/// weight:
///
/// head_linear(q, slice(expand(w)))  =>  each rank has the rows of its heads
///
/// The factors of adapters are split as the weight of their linear is: B by
/// rows, or A by columns.
#include "dialect/Dialect.h"
#include "passes/Passes.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/PatternMatch.h"
#include "mlir/IR/Remarks.h"
#include "mlir/Transforms/RegionUtils.h"
#include "llvm/ADT/TypeSwitch.h"

namespace cria {
#define GEN_PASS_DEF_SHARDWEIGHTS
#include "passes/Passes.h.inc"
} // namespace cria

using namespace mlir;
using namespace cria;
using namespace cria::llama;

namespace {
/// Splits one program, op by op.
class Sharder {
public:
  Sharder(ModuleOp module, func::FuncOp forward, int64_t shards)
      : symbols(module), forward(forward), shards(shards) {}

  LogicalResult run();

private:
  LogicalResult divide(Operation *op, const Twine &what, int64_t size);
  bool addsAdapter(ResidualOp op);
  LogicalResult findMaker(Operation *reader, Value value);
  LogicalResult findMakers(Operation *op);
  LogicalResult splitCaches();
  LogicalResult split(Operation *op);
  template <typename Linear>
  FailureOr<bool> splitMatrix(Linear op, int64_t dim, Split ofBias);
  LogicalResult split(LinearOp op);
  LogicalResult split(ExpertLinearOp op);
  LogicalResult split(HeadOp op);
  LogicalResult split(RMSNormOp op);
  LogicalResult split(scf::ForOp loop);
  LogicalResult reshape(tensor::ExpandShapeOp op);
  LogicalResult reshape(tensor::CollapseShapeOp op);
  LogicalResult split(tensor::ExtractSliceOp op);
  LogicalResult split(tensor::ConcatOp op);
  LogicalResult split(HeadLinearOp op);
  void splitView(Operation *view);
  template <typename Reshape>
  LogicalResult keepsShares(Reshape op, RankedTensorType after);
  LogicalResult splitWeight(Value read, Split how);
  LogicalResult checkReaders();
  void sumSquares(MutableArrayRef<RMSNormOp> norms);
  void sumSquares();

  /// The type of a rank's share of a dimension.
  RankedTensorType share(Type type, int64_t dim = 1) {
    auto tensor = cast<RankedTensorType>(type);
    SmallVector<int64_t> shape(tensor.getShape());
    shape[dim] /= shards;
    return tensor.clone(shape);
  }
  bool isSplit(Value value) const { return parts.contains(value); }
  void setSplit(Value value, Type type) {
    value.setType(type);
    parts.insert(value);
  }

  SymbolTable symbols;
  func::FuncOp forward;
  int64_t shards;
  llvm::DenseSet<Operation *> makers; // linears that are split by rows
  llvm::DenseSet<Value> parts;        // values of which a rank has a share
  llvm::DenseSet<Value> matrices;     // of a rank's heads: views of a weight
  SmallVector<RMSNormOp> wideNorms;   // norms of all heads together
};
} // namespace

/// Reports an error if `shards` does not divide a size.
LogicalResult Sharder::divide(Operation *op, const Twine &what, int64_t size) {
  if (size % shards == 0 && !ShapedType::isDynamic(size))
    return success();
  return op->emitError("expected shards to divide ")
         << size << " " << what << ", got " << shards;
}

/// Whether the op adds the product of an adapter to that of a linear.
bool Sharder::addsAdapter(ResidualOp op) {
  auto linear = op.getUpdate().getDefiningOp<LinearOp>();
  auto get = linear ? linear.getWeight().getDefiningOp<GetWeightOp>() : nullptr;
  auto weight = get ? symbols.lookup<WeightOp>(get.getWeight()) : WeightOp();
  return weight && weight.getAdapter();
}

/// Finds the linears that make heads or the operand of a gate, and their
/// adapters, and adds them to `makers`.
LogicalResult Sharder::findMaker(Operation *reader, Value value) {
  while (Operation *op = value.getDefiningOp()) {
    if (auto joined = dyn_cast<tensor::ConcatOp>(op)) {
      for (Value part : joined.getInputs().drop_back())
        if (failed(findMaker(reader, part)))
          return failure();
      value = joined.getInputs().back();
      continue;
    }
    if (isa<LinearOp, ExpertLinearOp>(op)) {
      makers.insert(op);
      return success();
    }
    if (auto sum = dyn_cast<ResidualOp>(op); sum && addsAdapter(sum)) {
      makers.insert(sum.getUpdate().getDefiningOp());
      value = sum.getStream();
      continue;
    }
    if (!isa<RopeOp, RMSNormOp, LayerNormOp, HeadLinearOp,
             tensor::ExpandShapeOp, tensor::ExtractSliceOp>(op))
      break;
    value = op->getOperand(0);
  }
  return reader->emitError(
             "expected a llama.linear to make a value that ranks share, got ")
         << (value.getDefiningOp()
                 ? value.getDefiningOp()->getName().getStringRef()
                 : "an argument");
}

/// Whether only linears read the result. If not, the op is not an MLP's gate.
static bool feedsLinears(Operation *op) {
  return llvm::all_of(op->getUsers(), llvm::IsaPred<LinearOp, ExpertLinearOp>);
}

/// Whether ranks share the KV heads of a cache. All read a single one.
static bool hasShares(RankedTensorType cache) {
  return cache.getDimSize(1) != 1;
}

LogicalResult Sharder::findMakers(Operation *op) {
  if (auto gqa = dyn_cast<GQAOp>(op)) {
    bool shares = hasShares(gqa.getKeyCache().getType());
    auto heads =
        shares ? gqa.getKeyCache().getType() : gqa.getQuery().getType();
    if (failed(divide(op, shares ? "KV heads" : "heads", heads.getDimSize(1))))
      return failure();
    return findMaker(op, gqa.getQuery());
  }
  if (auto append = dyn_cast<KVAppendOp>(op))
    return hasShares(append.getType()) ? findMaker(op, append.getRows())
                                       : success();
  // Each rank computes all of what a state is for.
  auto isOfState = [](Value factor) {
    return isa_and_present<StateOpInterface>(factor.getDefiningOp());
  };
  if (!isa<SwiGLUOp, ActivateOp>(op) || !feedsLinears(op) ||
      llvm::any_of(op->getOperands(), isOfState))
    return success();
  auto type = cast<RankedTensorType>(op->getResult(0).getType());
  // Rows of gate and up in turns, as gpt-oss's experts have, are not split.
  auto isSlice = [](Value factor) {
    return isa_and_present<tensor::CollapseShapeOp>(factor.getDefiningOp());
  };
  if (type.getRank() == 3 && llvm::any_of(op->getOperands(), isSlice))
    return success();
  // Neither are a layer's own numbers of each token, nor their gate.
  auto isOfLayer = [](Value factor) {
    auto slice = factor.getDefiningOp<tensor::ExtractSliceOp>();
    return slice && slice.isDynamicOffset(1);
  };
  if (type.getRank() == 2 && llvm::any_of(op->getOperands(), isOfLayer))
    return success();
  if (failed(
          divide(op, "of the MLP's intermediate size", type.getShape().back())))
    return failure();
  for (Value operand : op->getOperands())
    if (failed(findMaker(op, operand)))
      return failure();
  return success();
}

LogicalResult Sharder::splitCaches() {
  for (BlockArgument argument : forward.getArguments()) {
    auto type = dyn_cast<RankedTensorType>(argument.getType());
    if (!type || type.getRank() != 4 || !hasShares(type))
      continue;
    if (failed(divide(forward, "KV heads", type.getDimSize(1))))
      return failure();
    setSplit(argument, share(type));
  }
  return success();
}

/// Splits the weight that `read` is.
LogicalResult Sharder::splitWeight(Value read, Split how) {
  auto get = read.getDefiningOp<GetWeightOp>();
  auto weight = get ? symbols.lookup<WeightOp>(get.getWeight()) : WeightOp();
  if (!weight)
    return emitError(read.getLoc(), "expected a weight that ranks can share");
  if (weight.getSplit() && *weight.getSplit() != how)
    return weight.emitError("expected only rows, or only columns, to be split");
  if (!weight.getSplit()) {
    RankedTensorType type = weight.getTensorType();
    SmallVector<int64_t> shape(type.getShape());
    int64_t &size =
        shape[weight.getRowDimension() + (how == Split::Rows ? 0 : 1)];
    if (failed(divide(weight, how == Split::Rows ? "rows" : "columns", size)))
      return failure();
    if (how == Split::Cols && weight.getFirstRow())
      return weight.emitError("expected a whole tensor to split the columns "
                              "of, got rows of a fused one");
    size /= shards;
    weight.setType(type.clone(shape));
    weight.setSplit(how);
    remark::passed(weight.getLoc(), remark::RemarkOpts::name("split").category(
                                        "llama-shard-weights"))
        << remark::metric("Weight", weight.getSymName().str());
  }
  get.getResult().setType(weight.getTensorType());
  return success();
}

/// Splits the matrix of a linear, or the matrices of experts. If ranks share
/// the last dimension `dim` of the result, matrices are split by rows. If ranks
/// share the input, matrices are split by columns, and true is returned: each
/// rank's result is then a part of a sum.
template <typename Linear>
FailureOr<bool> Sharder::splitMatrix(Linear op, int64_t dim, Split ofBias) {
  bool reads = isSplit(op.getInput()), makes = makers.contains(op);
  if (reads && makes)
    return op.emitError(
        "expected an all-reduce between two linears that ranks share, got one "
        "linear that reads and makes shared values");
  if (!reads && !makes)
    return false;
  if (failed(splitWeight(op.getWeight(), makes ? Split::Rows : Split::Cols)))
    return failure();
  if (reads)
    return true;
  if (op.getBias() && failed(splitWeight(op.getBias(), ofBias)))
    return failure();
  setSplit(op, share(op.getType(), dim));
  return false;
}

/// Splits a linear. The bias of one that reads a shared value is added to the
/// sum over ranks, once.
LogicalResult Sharder::split(LinearOp op) {
  FailureOr<bool> isPart = splitMatrix(op, 1, Split::Rows);
  if (failed(isPart) || !*isPart)
    return isPart;
  OpBuilder b(op->getContext());
  b.setInsertionPointAfter(op);
  auto sum = AllReduceOp::create(b, op.getLoc(), op, op.getBias());
  op.getBiasMutable().clear();
  op.getResult().replaceAllUsesExcept(sum, sum);
  return success();
}

/// Splits the matrices of experts, and their biases (E, N). Ranks add up the
/// weighted sum of what a token's experts compute.
LogicalResult Sharder::split(ExpertLinearOp op) {
  FailureOr<bool> isPart = splitMatrix(op, 2, Split::Cols);
  if (failed(isPart) || !*isPart)
    return isPart;
  auto combine =
      op->hasOneUse() ? dyn_cast<CombineOp>(*op->user_begin()) : CombineOp();
  if (!combine || op.getBias())
    return op.emitError("expected only a llama.combine to read a product with "
                        "experts that ranks share, and no bias");
  OpBuilder b(op->getContext());
  b.setInsertionPointAfter(combine);
  auto sum = AllReduceOp::create(b, op.getLoc(), combine, /*bias=*/Value());
  combine.getResult().replaceAllUsesExcept(sum, sum);
  return success();
}

/// Splits a head by rows, if `shards` divides them and no lookup needs the
/// whole weight. Else each rank has all logits.
LogicalResult Sharder::split(HeadOp op) {
  auto get = op.getWeight().getDefiningOp<GetWeightOp>();
  auto onlyHeadsRead = [&](Operation *use) {
    auto other = dyn_cast<GetWeightOp>(use);
    return !other || !get || other.getWeight() != get.getWeight() ||
           llvm::all_of(other->getUsers(), llvm::IsaPred<HeadOp>);
  };
  bool isReturned = op->hasOneUse() && isa<func::ReturnOp>(*op->user_begin()) &&
                    op->use_begin()->getOperandNumber() == 0;
  bool isShared = true;
  forward.walk([&](Operation *use) { isShared &= onlyHeadsRead(use); });
  if (!get || get.getLayer() || !isShared || !isReturned ||
      op.getType().getDimSize(1) % shards)
    return success();
  if (failed(splitWeight(op.getWeight(), Split::Rows)) ||
      (op.getBias() && failed(splitWeight(op.getBias(), Split::Rows))))
    return failure();
  op.getResult().setType(share(op.getType()));
  return success();
}

/// Values that a loop carries are split if their initial values are.
LogicalResult Sharder::split(scf::ForOp loop) {
  for (auto [init, inner, result] : llvm::zip(
           loop.getInitArgs(), loop.getRegionIterArgs(), loop.getResults()))
    if (isSplit(init)) {
      setSplit(inner, init.getType());
      setSplit(result, init.getType());
    }
  return success();
}

/// Ranks share the second dimension of a value before a reshape and after.
template <typename Reshape>
LogicalResult Sharder::keepsShares(Reshape op, RankedTensorType after) {
  SmallVector<ReassociationIndices> groups = op.getReassociationIndices();
  if (groups.size() < 2 || groups[0].size() > 1 || after.getRank() < 2)
    return op.emitError("expected no reshape of tokens and heads together on a "
                        "value that ranks share");
  return divide(op, "numbers of the second dimension", after.getDimSize(1));
}

LogicalResult Sharder::reshape(tensor::ExpandShapeOp op) {
  if (failed(keepsShares(op, op.getResultType())))
    return failure();
  OpBuilder b(op);
  SmallVector<OpFoldResult> sizes = op.getMixedOutputShape();
  RankedTensorType type = share(op.getType());
  sizes[1] = b.getIndexAttr(type.getDimSize(1));
  auto made = tensor::ExpandShapeOp::create(
      b, op.getLoc(), type, op.getSrc(), op.getReassociationIndices(), sizes);
  parts.insert(made);
  op.replaceAllUsesWith(made.getResult());
  op.erase();
  return success();
}

LogicalResult Sharder::reshape(tensor::CollapseShapeOp op) {
  if (failed(keepsShares(op, op.getResultType())))
    return failure();
  setSplit(op.getResult(), share(op.getType()));
  return success();
}

/// A slice of the last dimension has a rank's share of the second.
LogicalResult Sharder::split(tensor::ExtractSliceOp op) {
  RankedTensorType from = op.getSourceType(); // split before
  bool isWhole = op.getType().getRank() == from.getRank() &&
                 from.getRank() > 2 && isZeroInteger(op.getMixedOffsets()[1]) &&
                 op.getType().getDimSize(1) == from.getDimSize(1) * shards;
  if (!isWhole)
    return op.emitError("expected a slice of all heads that ranks share");
  OpBuilder b(op);
  SmallVector<OpFoldResult> sizes = op.getMixedSizes();
  sizes[1] = b.getIndexAttr(from.getDimSize(1));
  auto made = tensor::ExtractSliceOp::create(
      b, op.getLoc(), share(op.getType()), op.getSource(), op.getMixedOffsets(),
      sizes, op.getMixedStrides());
  parts.insert(made);
  op.replaceAllUsesWith(made.getResult());
  op.erase();
  return success();
}

LogicalResult Sharder::split(tensor::ConcatOp op) {
  if (op.getDim() < 2 || !llvm::all_of(op.getInputs(), [&](Value input) {
        return isSplit(input);
      }))
    return op.emitError("expected values that ranks share to be joined with "
                        "others, along another dimension than theirs");
  setSplit(op.getResult(), share(op.getType()));
  return success();
}

/// Replaces a view of the rows of heads (H N, K) or (H, N, K) by one of a
/// rank's heads.
void Sharder::splitView(Operation *view) {
  OpBuilder b(view);
  Location loc = view->getLoc();
  RankedTensorType type = share(view->getResult(0).getType(), 0);
  Value made;
  if (auto expand = dyn_cast<tensor::ExpandShapeOp>(view)) {
    made = tensor::ExpandShapeOp::create(b, loc, type, expand.getSrc(),
                                         expand.getReassociationIndices());
  } else {
    auto slice = cast<tensor::ExtractSliceOp>(view);
    SmallVector<OpFoldResult> sizes = slice.getMixedSizes();
    sizes[0] = b.getIndexAttr(type.getDimSize(0));
    made = tensor::ExtractSliceOp::create(b, loc, type, slice.getSource(),
                                          slice.getMixedOffsets(), sizes,
                                          slice.getMixedStrides());
  }
  matrices.insert(made);
  view->getResult(0).replaceAllUsesWith(made);
  view->erase();
}

/// Splits the matrices of heads, which are a view of a weight's rows.
LogicalResult Sharder::split(HeadLinearOp op) {
  if (!isSplit(op.getInput()))
    return success();
  SmallVector<Operation *> views;
  Value root = op.getWeight();
  while (isa_and_nonnull<tensor::ExpandShapeOp, tensor::ExtractSliceOp>(
      root.getDefiningOp())) {
    Operation *view = root.getDefiningOp();
    auto slice = dyn_cast<tensor::ExtractSliceOp>(view);
    // Another head_linear may have split what is sliced.
    auto headsOf = [&](Value value) {
      int64_t heads = cast<RankedTensorType>(value.getType()).getDimSize(0);
      return matrices.contains(value) ? heads * shards : heads;
    };
    if (slice && (!isZeroInteger(slice.getMixedOffsets()[0]) ||
                  slice.getType().getRank() != 3 ||
                  headsOf(slice) != headsOf(slice.getSource())))
      return op.emitError("expected matrices of all heads");
    views.push_back(view);
    root = view->getOperand(0);
  }
  if (failed(splitWeight(root, Split::Rows)))
    return failure();
  for (Operation *view : llvm::reverse(views))
    if (!matrices.contains(view->getResult(0)))
      splitView(view);
  setSplit(op, share(op.getType()));
  return success();
}

LogicalResult Sharder::split(Operation *op) {
  if (auto linear = dyn_cast<HeadLinearOp>(op))
    return split(linear);
  if (auto linear = dyn_cast<LinearOp>(op))
    return split(linear);
  if (auto linear = dyn_cast<ExpertLinearOp>(op))
    return split(linear);
  if (auto head = dyn_cast<HeadOp>(op))
    return split(head);
  if (auto loop = dyn_cast<scf::ForOp>(op))
    return split(loop);
  if (llvm::none_of(op->getOperands(), [&](Value v) { return isSplit(v); }) ||
      isa<scf::YieldOp, func::ReturnOp>(op))
    return success();
  return llvm::TypeSwitch<Operation *, LogicalResult>(op)
      .Case<tensor::ExpandShapeOp, tensor::CollapseShapeOp>(
          [&](auto typed) { return reshape(typed); })
      .Case<tensor::ExtractSliceOp, tensor::ConcatOp>(
          [&](auto typed) { return split(typed); })
      .Case<KVAppendOp>([&](KVAppendOp append) {
        setSplit(append, append.getCache().getType());
        return success();
      })
      .Case<GQAOp>([&](GQAOp gqa) {
        setSplit(gqa, share(gqa.getType()));
        return gqa.getSinks() ? splitWeight(gqa.getSinks(), Split::Rows)
                              : success();
      })
      .Case<RopeOp, SwiGLUOp, ActivateOp>([&](auto typed) {
        setSplit(typed, typed->getOperand(0).getType());
        return success();
      })
      .Case<RMSNormOp>([&](RMSNormOp norm) { return split(norm); })
      .Case<ResidualOp>([&](ResidualOp sum) -> LogicalResult {
        if (!isSplit(sum.getStream()) || !isSplit(sum.getUpdate()))
          return sum.emitError("expected a sum of two values that ranks share");
        setSplit(sum, sum.getStream().getType());
        return success();
      })
      .Default([&](Operation *other) {
        return other->emitError("expected no ")
               << other->getName() << " on a value that ranks share";
      });
}

/// A norm of each head is split as its input is. A norm of all heads together
/// has a part of its weight, and needs the squares of all ranks.
LogicalResult Sharder::split(RMSNormOp op) {
  setSplit(op, op.getInput().getType());
  if (op.getType().getRank() == 3)
    return success();
  wideNorms.push_back(op);
  return op.getWeight() ? splitWeight(op.getWeight(), Split::Rows) : success();
}

/// Sums the squares of what the norms read over all ranks, before the first
/// norm.
void Sharder::sumSquares(MutableArrayRef<RMSNormOp> norms) {
  OpBuilder b(norms.front());
  SmallVector<Value> inputs;
  for (RMSNormOp norm : norms)
    inputs.push_back(norm.getInput());
  Location loc = norms.front().getLoc();
  auto part = SquareSumsOp::create(b, loc, inputs);
  auto sums = AllReduceOp::create(b, loc, part, /*bias=*/Value());
  for (auto [column, norm] : llvm::enumerate(norms)) {
    norm.getSquaresMutable().assign(sums);
    norm.setColumn(column);
    norm.setSize(uint64_t(shards * norm.getType().getDimSize(1)));
  }
}

/// Norms whose inputs can be made before the first of them share one sum: ranks
/// wait for each other once.
void Sharder::sumSquares() {
  IRRewriter rewriter(forward.getContext());
  for (MutableArrayRef<RMSNormOp> rest = wideNorms; !rest.empty();) {
    RMSNormOp first = rest.front();
    MutableArrayRef<RMSNormOp> together = rest.take_while([&](RMSNormOp norm) {
      return norm->getBlock() == first->getBlock() &&
             succeeded(moveValueDefinitions(rewriter, norm.getInput(), first));
    });
    sumSquares(together);
    rest = rest.drop_front(together.size());
  }
}

/// Checks that no op reads the whole of a weight that is split.
LogicalResult Sharder::checkReaders() {
  WalkResult result = forward.walk([&](GetWeightOp get) {
    auto weight = symbols.lookup<WeightOp>(get.getWeight());
    if (get.getType() == weight.getType())
      return WalkResult::advance();
    get.emitError("expected no reader of the whole weight @")
        << get.getWeight() << ", which ranks share";
    return WalkResult::interrupt();
  });
  return failure(result.wasInterrupted());
}

LogicalResult Sharder::run() {
  SmallVector<Operation *> ops;
  forward.walk<WalkOrder::PreOrder>([&](Operation *op) { ops.push_back(op); });
  for (Operation *op : ops)
    if (failed(findMakers(op)))
      return failure();
  if (failed(splitCaches()))
    return failure();
  for (Operation *op : llvm::drop_begin(ops)) // the function comes first
    if (failed(split(op)))
      return failure();
  if (failed(checkReaders()))
    return failure();
  sumSquares();
  Operation *ret = forward.front().getTerminator();
  forward.setType(FunctionType::get(forward.getContext(),
                                    forward.front().getArgumentTypes(),
                                    ret->getOperandTypes()));
  return success();
}

namespace {
struct ShardWeights : cria::impl::ShardWeightsBase<ShardWeights> {
  using ShardWeightsBase::ShardWeightsBase;

  void runOnOperation() override {
    ModuleOp module = getOperation();
    if (shards == 1)
      return;
    if (shards < 1) {
      module.emitError("expected at least 1 rank, got ") << shards.getValue();
      return signalPassFailure();
    }
    auto forward = module.lookupSymbol<func::FuncOp>("forward");
    bool fits = forward && forward.getBody().hasOneBlock() &&
                !module.lookupSymbol("encode");
    if (!fits || LlamaDialect::shardsOf(module) != 1) {
      module.emitError("expected a program to split over ranks: @forward "
                       "without @encode, not split yet");
      return signalPassFailure();
    }
    module->setAttr(LlamaDialect::kShards,
                    Builder(module).getI64IntegerAttr(shards));
    if (failed(Sharder(module, forward, shards).run()))
      signalPassFailure();
  }
};
} // namespace
