#include "lowering/artifact/CacheRopes.h"

#include "dialect/Dialect.h"
#include "dialect/Signature.h"
#include "lowering/entry/CacheWindows.h"
#include "lowering/entry/LayerNumber.h"

using namespace mlir;
using namespace cria;
using namespace cria::llama;

/// The rope of a layer whose rows are not known yet, and of a layer without
/// rope.
static constexpr int64_t kUnknown = -2, kNone = -1;

namespace {
/// Reads the ropes of all caches from one function.
class CacheRopeReader {
public:
  explicit CacheRopeReader(func::FuncOp function) : function(function) {
    for (auto [i, table] : llvm::enumerate(
             function->getParentOfType<ModuleOp>().getOps<RopeTableOp>()))
      tables[table.getSymName()] = static_cast<int64_t>(i);
    for (Type cache : cacheTypes(function.getFunctionType()))
      ropes.emplace_back(cast<RankedTensorType>(cache).getDimSize(0), kUnknown);
  }

  std::optional<std::vector<LayerRopes>> read();

private:
  int64_t ropeOf(Value rows) const;
  bool add(KVAppendOp append);
  bool fits(GQAOp attention);
  LayerRopes *ropesOf(Value cache);

  func::FuncOp function;
  llvm::StringMap<int64_t> tables;
  std::vector<LayerRopes> ropes;
};
} // namespace

/// The number of the rope table that rotated the heads, or kNone.
int64_t CacheRopeReader::ropeOf(Value rows) const {
  auto rope = inKernel(rows).getDefiningOp<RopeOp>();
  auto table = rope ? rope.getCos().getDefiningOp<GetRopeOp>() : GetRopeOp();
  return table ? tables.lookup(table.getTable()) : kNone;
}

LayerRopes *CacheRopeReader::ropesOf(Value cache) {
  BlockArgument argument = cacheArgument(cache);
  if (!argument || argument.getOwner() != &function.front())
    return nullptr;
  return &ropes[argument.getArgNumber() + ropes.size() -
                function.getNumArguments()];
}

bool CacheRopeReader::add(KVAppendOp append) {
  std::optional<LayerNumber> layers = layerNumber(append.getLayer());
  LayerRopes *cache = ropesOf(append.getCache());
  if (!layers || !cache)
    return false;
  int64_t rope = ropeOf(append.getRows());
  for (int64_t layer = layers->first; layer <= layers->last;
       layer += std::max<int64_t>(layers->step, 1)) {
    int64_t &known = (*cache)[layer];
    if (known != kUnknown && known != rope)
      return false;
    known = rope;
  }
  return true;
}

/// Whether queries are rotated with the same rope table as the keys.
bool CacheRopeReader::fits(GQAOp attention) {
  std::optional<LayerNumber> layers = layerNumber(attention.getLayer());
  LayerRopes *cache = ropesOf(attention.getKeyCache());
  if (!layers || !cache)
    return false;
  int64_t rope = ropeOf(attention.getQuery());
  for (int64_t layer = layers->first; layer <= layers->last;
       layer += std::max<int64_t>(layers->step, 1))
    if ((*cache)[layer] != rope)
      return false;
  return true;
}

/// Whether the rotated heads are only used as queries of `llama.gqa` and rows
/// of `llama.kv_append`.
static bool isForAttention(Value rotated) {
  return llvm::all_of(rotated.getUses(), [](OpOperand &use) {
    Operation *user = use.getOwner();
    if (isa<YieldOp>(user))
      return isForAttention(
          user->getParentOp()->getResult(use.getOperandNumber()));
    return isa<GQAOp, KVAppendOp>(user) && use.getOperandNumber() == 0;
  });
}

std::optional<std::vector<LayerRopes>> CacheRopeReader::read() {
  bool isKnown = true;
  function.walk([&](RopeOp rope) {
    isKnown &= !rope.getInterleaved() && isForAttention(rope) &&
               rope.getCos().getDefiningOp<GetRopeOp>();
  });
  function.walk([&](KVAppendOp append) { isKnown = isKnown && add(append); });
  function.walk([&](GQAOp gqa) { isKnown = isKnown && fits(gqa); });
  if (!isKnown)
    return std::nullopt;
  for (LayerRopes &cache : ropes)
    llvm::replace(cache, kUnknown, kNone);
  return std::move(ropes);
}

std::optional<std::vector<LayerRopes>> cria::cacheRopes(func::FuncOp function) {
  for (Type cache : cacheTypes(function.getFunctionType()))
    if (isPaged(cast<RankedTensorType>(cache)))
      return std::nullopt; // other texts may share a paged cache's rows
  return CacheRopeReader(function).read();
}
