#include "lowering/entry/Costs.h"

#include "dialect/Dialect.h"
#include "dialect/Signature.h"
#include "lowering/entry/CacheWindows.h"
#include "lowering/entry/Entry.h"
#include "lowering/entry/LayerNumber.h"
#include "passes/Kernel.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/TypeUtilities.h"
#include "llvm/ADT/TypeSwitch.h"
#include "llvm/Support/Format.h"

#include <cmath>

using namespace mlir;
using namespace cria;
using namespace cria::llama;

static bool readsWeights(Operation *op) {
  if (auto sum = dyn_cast<ResidualOp>(op))
    return sum.getFactor() || sum.getTimes();
  return isa<EmbedOp, AddRowsOp, SetRowsOp, RMSNormOp, LayerNormOp, LinearOp,
             ExpertLinearOp, HeadLinearOp, HeadOp>(op);
}

/// The read of the weight that a value is, or is a view of; null if there is
/// none.
static GetWeightOp weightOf(Value value) {
  while (isa_and_nonnull<tensor::ExpandShapeOp, tensor::CollapseShapeOp,
                         tensor::ExtractSliceOp>(value.getDefiningOp()))
    value = value.getDefiningOp()->getOperand(0);
  return value.getDefiningOp<GetWeightOp>();
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

/// What a token reads of a weight: `bytes` of all, or of the experts that it
/// chooses, or of the row that it looks up.
static int64_t readOf(Operation *op, RankedTensorType weight, int64_t all) {
  if (isa<EmbedOp, AddRowsOp, SetRowsOp>(op))
    return all / weight.getDimSize(0);
  if (auto linear = dyn_cast<ExpertLinearOp>(op))
    return all / weight.getDimSize(0) * linear.getType().getDimSize(1);
  return all;
}

static CostRow rowOf(Operation *op) {
  CostRow row;
  if (auto name = op->getLoc()->findInstanceOf<NameLoc>())
    row.path = name.getName().str();
  row.op = op->getName().stripDialect().str();
  row.runs = runsOf(op);
  for (Value operand : op->getOperands()) {
    if (!weightOf(operand))
      continue;
    auto type = cast<RankedTensorType>(operand.getType());
    row.weightBytes += row.runs * readOf(op, type, storageBytes(type));
    bool isMatrix = isa<LinearOp, HeadOp>(op) && type.getRank() == 2;
    bool areMatrices =
        isa<ExpertLinearOp, HeadLinearOp>(op) && type.getRank() == 3;
    if (isMatrix || areMatrices)
      row.flops += row.runs * 2 * readOf(op, type, type.getNumElements());
  }
  row.head = isa<HeadOp>(op);
  return row;
}

static void countExperts(ExpertLinearOp op, Costs &costs) {
  costs.experts = op.getWeight().getType().getDimSize(0);
  costs.chosenExperts = op.getType().getDimSize(1);
  for (Value operand : {Value(op.getWeight()), Value(op.getBias())})
    if (operand && operand.getDefiningOp<GetWeightOp>()) {
      auto type = cast<RankedTensorType>(operand.getType());
      int64_t all = type.getNumElements();
      costs.idleParameters += runsOf(op) * (all - readOf(op, type, all));
    }
}

static AttentionRow attentionOf(GQAOp op) {
  RankedTensorType query = op.getQuery().getType(),
                   cache = pageOf(op.getKeyCache().getType());
  AttentionRow row;
  row.runs = runsOf(op);
  int64_t value = op.getType().getDimSize(2), caches = op.hasOneCache() ? 1 : 2;
  row.flopsPerKey = 2 * query.getDimSize(1) * (query.getDimSize(2) + value);
  row.bytesPerKey = caches * storageBytes(cache) /
                    (cache.getDimSize(0) * cache.getDimSize(2));
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
  if (source.contains("mlp") || source.contains("moe") ||
      source.contains("feed_forward"))
    return "mlp";
  if (source.contains("embed"))
    return "embedding";
  return source.contains("head") ? "head" : "other";
}

static void countParameters(ModuleOp program, Costs &costs) {
  for (auto weight : program.getOps<WeightOp>()) {
    if (weight.getTied())
      continue;
    int64_t count =
        weight.getLayerCount() * weight.getWholeType().getNumElements();
    costs.parameters += count;
    std::string part = partOf(weight).str();
    auto found = llvm::find_if(
        costs.parts, [&](const auto &entry) { return entry.first == part; });
    if (found == costs.parts.end())
      costs.parts.push_back({part, count});
    else
      found->second += count;
  }
}

/// Whether the op only makes the hidden states that @forward returns. Few calls
/// ask for them.
static bool makesHidden(Operation *op, func::FuncOp forward) {
  return returnsHidden(forward.getFunctionType()) && op->hasOneUse() &&
         isa<func::ReturnOp>(*op->user_begin()) &&
         op->use_begin()->getOperandNumber() == 1;
}

/// Adds caches that take `bytes`. Those of equal layers follow one another.
static void addCaches(CacheKind kind, RankedTensorType type, int64_t bytes,
                      RankedTensorType &last, Costs &costs) {
  costs.cacheBytes += bytes;
  if (type != last) {
    kind.layers = pageOf(type).getDimSize(0);
    costs.caches.push_back(kind);
  }
  costs.caches.back().bytes += bytes;
  last = type;
}

/// Adds the caches of @forward.
static void countCaches(func::FuncOp forward, Costs &costs) {
  FailureOr<SmallVector<int64_t>> windows = cacheWindows(forward); // verified
  RankedTensorType last;
  for (auto [type, window] :
       llvm::zip(cacheTypes(forward.getFunctionType()), *windows)) {
    auto cache = cast<RankedTensorType>(type);
    int64_t bytes = storageBytes(cache), positions = 0;
    if (!isState(cache)) {
      positions = cache.getDimSize(2);
      costs.cacheBytesPerPosition += bytes / positions;
    }
    const char *kind = window ? "ring" : positions ? "whole" : "state";
    addCaches({kind, window, 0, positions, 0}, cache, bytes, last, costs);
  }
}

void cria::countPages(ModuleOp fused, int64_t chunk, Costs &costs) {
  auto prefill = fused.lookupSymbol<func::FuncOp>("prefill");
  auto batch = fused.lookupSymbol<func::FuncOp>("batch");
  FunctionType type = prefill.getFunctionType();
  int64_t width =
      cast<RankedTensorType>(type.getInput(kPagesArgument)).getDimSize(0);
  costs.caches.clear();
  costs.cacheBytes = 0;
  FailureOr<SmallVector<int64_t>> windows = cacheWindows(prefill); // verified
  int64_t largest = *llvm::max_element(*windows);
  RankedTensorType last;
  for (auto [given, window] : llvm::zip(cacheTypes(type), *windows)) {
    auto cache = cast<RankedTensorType>(given);
    int64_t page = isState(cache) ? 0 : pageOf(cache).getDimSize(2), pages = 1;
    if (page)
      pages = window
                  ? windowPages(largest, std::max(chunk, *chunkOf(batch)), page)
                  : width;
    const char *kind = window ? "window" : page ? "whole" : "state";
    // A whole cache and one of a window are apart, also if their types are
    // equal.
    if (!costs.caches.empty() && costs.caches.back().kind != kind)
      last = {};
    addCaches({kind, window, 0, pages * page, 0}, cache,
              pages * storageBytes(pageOf(cache)), last, costs);
  }
}

Costs cria::costsOf(ModuleOp program) {
  Costs costs;
  auto forward = program.lookupSymbol<func::FuncOp>("forward");
  forward.walk([&](Operation *op) {
    if (makesHidden(op, forward))
      return;
    if (readsWeights(op))
      costs.rows.push_back(rowOf(op));
    else if (auto gqa = dyn_cast<GQAOp>(op))
      costs.attention.push_back(attentionOf(gqa));
    if (auto linear = dyn_cast<ExpertLinearOp>(op))
      countExperts(linear, costs);
  });
  countCaches(forward, costs);
  countParameters(program, costs);
  return costs;
}

/// The number of keys that a token after `depth` others sees.
static int64_t keysSeen(const AttentionRow &row, int64_t depth) {
  return row.window ? std::min(row.window, depth + 1) : depth + 1;
}

int64_t Costs::bytesOfPosition() const {
  int64_t bytes = 0;
  for (const CacheKind &kind : caches)
    if (kind.kind == "whole")
      bytes += kind.bytes / kind.positions;
  return bytes;
}

/// Adds the costs of an op.
static void addOp(KernelCost &kernel, Operation *op) {
  if (auto gqa = dyn_cast<GQAOp>(op)) {
    AttentionRow row = attentionOf(gqa);
    row.runs = 1;
    kernel.attention.push_back(row);
    kernel.f32 |= gqa.getQuery().getType().getElementType().isF32();
    return;
  }
  if (!readsWeights(op))
    return;
  CostRow row = rowOf(op);
  bool lookup = isa<EmbedOp, AddRowsOp, SetRowsOp>(op);
  int64_t bytes = row.weightBytes / row.runs;
  // The tokens of a prompt choose all experts between them.
  if (auto linear = dyn_cast<ExpertLinearOp>(op);
      linear && linear.getType().isDynamicDim(0))
    bytes = bytes / linear.getType().getDimSize(1) *
            linear.getWeight().getType().getDimSize(0);
  (lookup ? kernel.tokenBytes : kernel.weightBytes) += bytes;
  (row.head ? kernel.logitFlops : kernel.tokenFlops) += row.flops / row.runs;
  if (isa<LinearOp, ExpertLinearOp, HeadLinearOp, HeadOp>(op))
    kernel.f32 |= getElementTypeOrSelf(op->getOperand(0)).isF32();
}

/// Sets the layers of a kernel, which are those of its weights, or else of its
/// caches.
static void setLayers(KernelCost &kernel, KernelOp op) {
  std::optional<LayerNumber> layers;
  op.walk([&](Operation *inner) {
    for (Value operand : inner->getOperands())
      if (GetWeightOp weight = weightOf(operand);
          weight && weight.getLayer() && !layers)
        layers = layerNumber(weight.getLayer());
  });
  op.walk([&](GQAOp gqa) {
    if (!layers)
      layers = layerNumber(gqa.getLayer());
  });
  if (!layers)
    return;
  kernel.firstLayer = layers->first;
  kernel.layerStep = layers->step;
}

std::vector<KernelCost> cria::kernelCostsOf(ModuleOp program) {
  std::vector<KernelCost> kernels;
  for (auto entry : program.getOps<func::FuncOp>())
    entry.walk([&](KernelOp op) {
      KernelCost kernel;
      kernel.entry = entry.getName().str();
      kernel.kernel = op.getKernelName().str();
      SmallVector<Operation *> ops;
      for (Operation &inner : op.getBody().front().without_terminator())
        ops.push_back(&inner);
      kernel.path = kernelPath(ops);
      kernel.runs = runsOf(op);
      setLayers(kernel, op);
      op.walk([&](Operation *inner) { addOp(kernel, inner); });
      kernels.push_back(std::move(kernel));
    });
  return kernels;
}

int64_t KernelCost::bytes(int64_t depth, int64_t tokens) const {
  int64_t sum = weightBytes + tokenBytes * tokens;
  for (const AttentionRow &row : attention)
    sum += row.bytesPerKey * (keysSeen(row, depth) + tokens - 1);
  return sum;
}

int64_t KernelCost::flops(int64_t depth, int64_t tokens) const {
  int64_t sum = tokenFlops * tokens + logitFlops;
  for (const AttentionRow &row : attention)
    for (int64_t token = 0; token < tokens; ++token)
      sum += row.flopsPerKey * keysSeen(row, depth + token);
  return sum;
}

int64_t Costs::flops(bool head) const {
  int64_t sum = 0;
  for (const CostRow &row : rows)
    sum += row.head == head ? row.flops : 0;
  return sum;
}

int64_t Costs::weightBytes(bool head) const {
  int64_t sum = 0;
  for (const CostRow &row : rows)
    sum += row.head == head ? row.weightBytes : 0;
  return sum;
}

int64_t Costs::attentionFlops(int64_t depth) const {
  int64_t sum = 0;
  for (const AttentionRow &row : attention)
    sum += row.runs * row.flopsPerKey * keysSeen(row, depth);
  return sum;
}

int64_t Costs::attentionBytes(int64_t depth) const {
  int64_t sum = 0;
  for (const AttentionRow &row : attention)
    sum += row.runs * row.bytesPerKey * keysSeen(row, depth);
  return sum;
}

double Costs::expectedExperts(int64_t tokens) const {
  double all = static_cast<double>(experts);
  double left = 1 - static_cast<double>(chosenExperts) / all;
  return all * (1 - std::pow(left, static_cast<double>(tokens)));
}

void cria::printTotals(const Costs &costs, int64_t depth,
                       llvm::raw_ostream &os) {
  os << "\nparameters\n";
  auto line = [&](StringRef what, int64_t value) {
    os << llvm::format("  %-20s %16lld\n", what.str().c_str(),
                       static_cast<long long>(value));
  };
  for (const auto &[part, count] : costs.parts)
    line(part, count);
  line("total", costs.parameters);
  if (costs.experts)
    line("used by a token", costs.parameters - costs.idleParameters);
  os << "\na token at depth " << depth << "\n";
  int64_t flops = costs.flops(false) + costs.flops(true),
          bytes = costs.weightBytes(false) + costs.weightBytes(true);
  line("flops, products", flops);
  line("flops, attention", costs.attentionFlops(depth));
  line("flops", flops + costs.attentionFlops(depth));
  line("bytes, weights", bytes);
  line("bytes, KV cache", costs.attentionBytes(depth));
  line("bytes", bytes + costs.attentionBytes(depth));
}

void cria::printCosts(const Costs &costs, int64_t chunk,
                      llvm::raw_ostream &os) {
  os << llvm::format("%-44s %-9s %5s %14s %14s\n", "module", "op", "runs",
                     "flops/token", "weight bytes");
  auto line = [&](StringRef path, StringRef op, int64_t runs, int64_t flops,
                  int64_t bytes) {
    os << llvm::format("%-44s %-9s %5lld %14lld %14lld\n", path.str().c_str(),
                       op.str().c_str(), static_cast<long long>(runs),
                       static_cast<long long>(flops),
                       static_cast<long long>(bytes));
  };
  for (const CostRow &row : costs.rows)
    line(row.path, row.op, row.runs, row.flops, row.weightBytes);
  line("total", "", 1, costs.flops(false) + costs.flops(true),
       costs.weightBytes(false) + costs.weightBytes(true));
  os << "parameters: " << costs.parameters;
  if (costs.experts) {
    os << ", of which a token uses " << costs.parameters - costs.idleParameters
       << "\n"
       << "experts of a layer: " << costs.experts << ", of which a token uses "
       << costs.chosenExperts;
    for (int64_t tokens : {int64_t(8), chunk})
      os << llvm::format(", %lld tokens %.0f", static_cast<long long>(tokens),
                         costs.expectedExperts(tokens));
    os << " (on average)";
  }
  os << "\n"
     << "KV cache: " << costs.bytesOfPosition() << " bytes a position, "
     << costs.cacheBytes << " in all\n";
  for (const CacheKind &kind : costs.caches) {
    os << "  " << kind.kind << ", " << kind.layers << " layers";
    if (kind.positions)
      os << " of " << kind.positions << " positions";
    if (kind.window)
      os << " for a window of " << kind.window;
    os << ": " << kind.bytes << "\n";
  }
}
