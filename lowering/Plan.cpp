#include "lowering/Plan.h"

#include "dialect/Dialect.h"
#include "lowering/Signature.h"

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
    int64_t share = isa<EmbedOp, AddRowsOp>(op) ? type.getDimSize(0) : 1;
    row.weightBytes += row.runs * bytesOf(type) / share;
    if (isa<LinearOp, HeadOp>(op) && type.getRank() == 2)
      row.flops += row.runs * 2 * type.getNumElements();
  }
  row.head = isa<HeadOp>(op);
  return row;
}

static AttentionRow attentionOf(GQAOp op) {
  RankedTensorType query = op.getQuery().getType(),
                   cache = op.getKeyCache().getType();
  AttentionRow row;
  row.runs = runsOf(op);
  row.flopsPerKey = 4 * query.getDimSize(1) * query.getDimSize(2);
  row.bytesPerKey = 2 * cache.getDimSize(1) * cache.getDimSize(3) *
                    (cache.getElementTypeBitWidth() / 8);
  row.window = op.getWindow().value_or(0);
  return row;
}

/// The part of the model that a module belongs to.
static StringRef partOf(WeightOp weight) {
  StringRef source = weight.getSource();
  if (weight.getAdapter())
    return "adapters";
  if (weight.getTensorType().getRank() == 1 && !source.ends_with(".bias"))
    return "norms";
  if (source.contains("attn"))
    return "attention";
  if (source.contains("mlp"))
    return "mlp";
  if (source.contains("embed"))
    return "embedding";
  return source.contains("head") ? "head" : "other";
}

static void countParameters(ModuleOp program, Plan &plan) {
  for (auto weight : program.getOps<WeightOp>()) {
    if (weight.getTied())
      continue;
    int64_t count = static_cast<int64_t>(weight.getCount().value_or(1)) *
                    weight.getTensorType().getNumElements();
    plan.parameters += count;
    std::string part = partOf(weight).str();
    auto found = llvm::find_if(
        plan.parts, [&](const auto &entry) { return entry.first == part; });
    if (found == plan.parts.end())
      plan.parts.push_back({part, count});
    else
      found->second += count;
  }
}

Plan cria::planOf(ModuleOp program) {
  Plan plan;
  auto forward = program.lookupSymbol<func::FuncOp>("forward");
  forward.walk([&](Operation *op) {
    if (isa<EmbedOp, AddRowsOp, RMSNormOp, LayerNormOp, LinearOp, HeadOp>(op))
      plan.rows.push_back(rowOf(op));
    else if (auto gqa = dyn_cast<GQAOp>(op))
      plan.attention.push_back(attentionOf(gqa));
  });
  for (Type type : cacheTypes(forward.getFunctionType())) {
    auto cache = cast<RankedTensorType>(type);
    plan.cacheBytes += bytesOf(cache);
    plan.cacheBytesPerPosition += bytesOf(cache) / cache.getDimSize(2);
  }
  countParameters(program, plan);
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

/// Keys that a token behind `depth` others sees.
static int64_t keysSeen(const AttentionRow &row, int64_t depth) {
  return row.window ? std::min(row.window, depth + 1) : depth + 1;
}

int64_t Plan::attentionFlops(int64_t depth) const {
  int64_t sum = 0;
  for (const AttentionRow &row : attention)
    sum += row.runs * row.flopsPerKey * keysSeen(row, depth);
  return sum;
}

int64_t Plan::attentionBytes(int64_t depth) const {
  int64_t sum = 0;
  for (const AttentionRow &row : attention)
    sum += row.runs * row.bytesPerKey * keysSeen(row, depth);
  return sum;
}

void cria::printCosts(const Plan &plan, int64_t depth, llvm::raw_ostream &os) {
  os << "\nparameters\n";
  auto line = [&](StringRef what, int64_t value) {
    os << llvm::format("  %-20s %16lld\n", what.str().c_str(),
                       static_cast<long long>(value));
  };
  for (const auto &[part, count] : plan.parts)
    line(part, count);
  line("total", plan.parameters);
  os << "\na token at depth " << depth << "\n";
  int64_t flops = plan.flops(false) + plan.flops(true),
          bytes = plan.weightBytes(false) + plan.weightBytes(true);
  line("flops, products", flops);
  line("flops, attention", plan.attentionFlops(depth));
  line("flops", flops + plan.attentionFlops(depth));
  line("bytes, weights", bytes);
  line("bytes, KV cache", plan.attentionBytes(depth));
  line("bytes", bytes + plan.attentionBytes(depth));
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
