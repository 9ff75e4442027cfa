/// %k : tensor<5x4x512x64xbf16>
///   =>  %k : tensor<5x4x512x64x!llama.blocks<q8_0>>, wherever it goes
#include "dialect/Dialect.h"
#include "passes/CacheType.h"
#include "passes/Passes.h"

namespace cria {
#define GEN_PASS_DEF_QUANTIZECACHE
#include "passes/Passes.h.inc"
} // namespace cria

using namespace mlir;
using namespace cria;
using namespace cria::llama;

/// Reports an error if heads are not whole blocks.
static LogicalResult expectWholeBlocks(func::FuncOp function,
                                       RankedTensorType cache) {
  int64_t size = cache.getDimSize(3);
  if (size % BlocksType::kNumbers == 0 && !ShapedType::isDynamic(size))
    return success();
  return function.emitError("expected a head_dim that is a multiple of ")
         << BlocksType::kNumbers << ", for caches in blocks, got "
         << (ShapedType::isDynamic(size) ? "?" : std::to_string(size));
}

namespace {
struct QuantizeCache : cria::impl::QuantizeCacheBase<QuantizeCache> {
  using QuantizeCacheBase::QuantizeCacheBase;

  void runOnOperation() override {
    if (format == "none")
      return;
    if (format != stringifyBlockFormat(BlockFormat::Q8_0)) {
      getOperation().emitError("expected a format q8_0 or none, got '")
          << format << "'";
      return signalPassFailure();
    }
    for (auto function : getOperation().getOps<func::FuncOp>())
      if (function.getBody().hasOneBlock() && failed(quantizeCaches(function)))
        return signalPassFailure();
  }

private:
  /// Caches are the arguments of four dimensions.
  LogicalResult quantizeCaches(func::FuncOp function) {
    Type blocks = BlocksType::get(&getContext(), BlockFormat::Q8_0);
    for (BlockArgument argument : function.getArguments()) {
      auto type = dyn_cast<RankedTensorType>(argument.getType());
      if (!type || type.getRank() != 4 ||
          !isa<FloatType>(type.getElementType()))
        continue;
      if (failed(expectWholeBlocks(function, type)) ||
          failed(verifyCacheUses(argument)))
        return failure();
      setCacheType(argument, type.clone(blocks));
    }
    Operation *end = function.front().getTerminator();
    function.setType(FunctionType::get(&getContext(),
                                       function.front().getArgumentTypes(),
                                       end->getOperandTypes()));
    return success();
  }
};
} // namespace
