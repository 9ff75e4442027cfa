#include "lowering/Plan.h"

#include "dialect/Dialect.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "llvm/ADT/TypeSwitch.h"
#include "llvm/Support/Format.h"

using namespace mlir;
using namespace cria;
using namespace cria::llama;

static int64_t bytesOf(RankedTensorType type) {
  return type.getNumElements() * (type.getElementTypeBitWidth() / 8);
}

/// How often an op runs in one forward pass.
static int64_t runsOf(Operation *op) {
  int64_t runs = 1;
  for (auto loop = op->getParentOfType<scf::ForOp>(); loop;
       loop = loop->getParentOfType<scf::ForOp>())
    if (std::optional<APInt> trips = loop.getStaticTripCount())
      runs *= trips->getSExtValue();
  return runs;
}

static PlanRow rowOf(Operation *op) {
  PlanRow row;
  if (auto name = op->getLoc()->findInstanceOf<NameLoc>())
    row.path = name.getName().str();
  row.op = op->getName().stripDialect().str();
  row.runs = runsOf(op);
  for (Value operand : op->getOperands()) {
    if (!operand.getDefiningOp<GetWeightOp>())
      continue;
    auto type = cast<RankedTensorType>(operand.getType());
    // A lookup reads one row.
    int64_t share = isa<EmbedOp>(op) ? type.getDimSize(0) : 1;
    row.weightBytes += row.runs * bytesOf(type) / share;
    if (isa<LinearOp, HeadOp>(op) && type.getRank() == 2)
      row.flops += row.runs * 2 * type.getNumElements();
  }
  row.head = isa<HeadOp>(op);
  return row;
}

Plan cria::planOf(ModuleOp program) {
  Plan plan;
  auto forward = program.lookupSymbol<func::FuncOp>("forward");
  forward.walk([&](Operation *op) {
    if (isa<EmbedOp, RMSNormOp, LayerNormOp, LinearOp, HeadOp>(op))
      plan.rows.push_back(rowOf(op));
  });
  for (Type type : forward.getArgumentTypes().drop_front(3)) {
    auto cache = cast<RankedTensorType>(type);
    plan.cacheBytes += bytesOf(cache);
    plan.cacheBytesPerPosition += bytesOf(cache) / cache.getDimSize(2);
  }
  for (auto weight : program.getOps<WeightOp>())
    plan.parameters += static_cast<int64_t>(weight.getCount().value_or(1)) *
                       weight.getTensorType().getNumElements();
  return plan;
}

int64_t Plan::flops(bool head) const {
  int64_t sum = 0;
  for (const PlanRow &row : rows)
    sum += row.head == head ? row.flops : 0;
  return sum;
}

int64_t Plan::weightBytes(bool head) const {
  int64_t sum = 0;
  for (const PlanRow &row : rows)
    sum += row.head == head ? row.weightBytes : 0;
  return sum;
}

void cria::printPlan(const Plan &plan, llvm::raw_ostream &os) {
  os << llvm::format("%-44s %-9s %5s %14s %14s\n", "module", "op", "runs",
                     "flops/token", "weight bytes");
  auto line = [&](StringRef path, StringRef op, int64_t runs, int64_t flops,
                  int64_t bytes) {
    os << llvm::format("%-44s %-9s %5lld %14lld %14lld\n", path.str().c_str(),
                       op.str().c_str(), static_cast<long long>(runs),
                       static_cast<long long>(flops),
                       static_cast<long long>(bytes));
  };
  for (const PlanRow &row : plan.rows)
    line(row.path, row.op, row.runs, row.flops, row.weightBytes);
  line("total", "", 1, plan.flops(false) + plan.flops(true),
       plan.weightBytes(false) + plan.weightBytes(true));
  os << "parameters: " << plan.parameters << "\n"
     << "KV cache: " << plan.cacheBytesPerPosition << " bytes a position, "
     << plan.cacheBytes << " in all\n";
}
