#include "passes/Kernel.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Builders.h"

using namespace mlir;
using namespace cria;
using namespace cria::llama;

SmallVector<Block *> cria::blocksOutsideKernels(Operation *root) {
  SmallVector<Block *> blocks;
  root->walk<WalkOrder::PreOrder>([&](Block *block) {
    if (isa<KernelOp>(block->getParentOp()))
      return WalkResult::skip();
    blocks.push_back(block);
    return WalkResult::advance();
  });
  return blocks;
}

remark::RemarkOpts KernelGroup::remarkOptions(StringRef name) {
  StringRef function;
  Operation *parent = block->getParentOp();
  if (auto func = dyn_cast<func::FuncOp>(parent))
    function = func.getName();
  else if (auto func = parent->getParentOfType<func::FuncOp>())
    function = func.getName();
  return remark::RemarkOpts::name(name).category(pass).function(function);
}

void KernelGroup::missed(Operation *op, StringRef reason) {
  remark::missed(op->getLoc(), remarkOptions("left-out"))
      << remark::metric("Op", op->getName().getStringRef().str())
      << remark::reason("{0}", reason.str());
}

bool KernelGroup::tryInsert(Operation *op) {
  bool inside = llvm::all_of(
      op->getUsers(), [&](Operation *user) { return ops.contains(user); });
  if (inside)
    ops.insert(op);
  else
    missed(op, "its result has further uses");
  return inside;
}

void KernelGroup::absorbNorm() {
  Value input;
  Operation *first = nullptr;
  for (Operation *op : ops) {
    if (!isa<LinearOp, ExpertLinearOp>(op))
      continue;
    if (input && op->getOperand(0) != input)
      return missed(op, "the linears read different values");
    input = op->getOperand(0);
    first = first ? first : op;
  }
  if (!first)
    return;
  if (Operation *norm = producer<RMSNormOp, LayerNormOp>(input))
    tryInsert(norm);
}

/// Finds the ops between the first and the last op of the group that need a
/// result of the group, in order. These ops must be moved after the kernel.
/// Returns false if an op of the group needs one of them, or if one of them has
/// memory effects.
bool KernelGroup::findDependents(SmallVectorImpl<Operation *> &dependents) {
  llvm::SmallPtrSet<Operation *, 8> late;
  auto needs = [&](Operation *op, auto &&isSource) {
    WalkResult walk = op->walk([&](Operation *nested) {
      for (Value operand : nested->getOperands())
        if (Operation *source = operand.getDefiningOp();
            source && isSource(source))
          return WalkResult::interrupt();
      return WalkResult::advance();
    });
    return walk.wasInterrupted();
  };
  auto isLate = [&](Operation *op) { return late.contains(op); };
  auto isSource = [&](Operation *op) { return isLate(op) || ops.contains(op); };
  auto range = llvm::make_range(ops.front()->getIterator(),
                                std::next(ops.back()->getIterator()));
  for (Operation &op : range) {
    if (ops.contains(&op)) {
      if (needs(&op, isLate))
        return false;
    } else if (needs(&op, isSource)) {
      if (!isMemoryEffectFree(&op))
        return false;
      late.insert(&op);
      dependents.push_back(&op);
    }
  }
  return true;
}

/// `base`, followed by a number if the function already has a kernel of this
/// name.
static std::string uniqueName(Block *block, std::string base) {
  Operation *root = block->getParentOp();
  while (!isa<func::FuncOp>(root) && root->getParentOp())
    root = root->getParentOp();
  llvm::SmallPtrSet<StringAttr, 8> taken;
  root->walk([&](KernelOp op) { taken.insert(op.getKernelNameAttr()); });
  std::string name = base;
  for (unsigned i = 2;
       taken.contains(StringAttr::get(root->getContext(), name)); ++i)
    name = base + "_" + std::to_string(i);
  return name;
}

/// Results that are used outside of the group.
static SmallVector<Value> escaping(const llvm::SetVector<Operation *> &ops) {
  SmallVector<Value> values;
  for (Operation *op : ops)
    for (Value result : op->getResults())
      if (llvm::any_of(result.getUsers(),
                       [&](Operation *user) { return !ops.contains(user); }))
        values.push_back(result);
  return values;
}

KernelOp KernelGroup::outline(StringRef fallback) {
  SmallVector<Operation *> sorted = ops.takeVector(), dependents;
  llvm::sort(sorted,
             [](Operation *a, Operation *b) { return a->isBeforeInBlock(b); });
  ops.insert(sorted.begin(), sorted.end());
  if (!findDependents(dependents)) {
    missed(sorted.back(), "an op outside of the kernel is between its ops");
    return {};
  }
  std::string name = kernelName(sorted);
  name = uniqueName(block, name.empty() ? fallback.str() : name);
  SmallVector<Location> locations;
  for (Operation *op : sorted)
    locations.push_back(op->getLoc());
  OpBuilder b(block, std::next(sorted.back()->getIterator()));
  Location loc = b.getFusedLoc(locations);
  SmallVector<Value> values = escaping(ops);
  auto kernel = KernelOp::create(b, loc, TypeRange(ValueRange(values)), name);
  Block *body = b.createBlock(&kernel.getBody());
  for (Operation *op : sorted)
    op->moveBefore(body, body->end());
  b.setInsertionPointToEnd(body);
  YieldOp::create(b, loc, values);
  for (auto [value, result] : llvm::zip(values, kernel.getResults()))
    value.replaceUsesWithIf(result, [&](OpOperand &use) {
      return !kernel->isAncestor(use.getOwner());
    });
  Operation *last = kernel;
  for (Operation *op : dependents) {
    op->moveAfter(last);
    last = op;
  }
  remark::passed(loc, remarkOptions("kernel"))
      << remark::metric("Kernel", name) << remark::metric("Ops", sorted.size());
  return kernel;
}
