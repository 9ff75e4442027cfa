/// weight @w : tensor<64x64xbf16>
///   =>  weight @w : tensor<64x64x!llama.blocks<q8_0>>, where linears read it
#include "dialect/Dialect.h"
#include "passes/Passes.h"

#include "mlir/IR/Remarks.h"
#include "mlir/IR/SymbolTable.h"
#include "llvm/ADT/MapVector.h"

namespace cria {
#define GEN_PASS_DEF_QUANTIZEWEIGHTS
#include "passes/Passes.h.inc"
} // namespace cria

using namespace mlir;
using namespace cria;
using namespace cria::llama;

namespace {
struct QuantizeWeights : cria::impl::QuantizeWeightsBase<QuantizeWeights> {
  using QuantizeWeightsBase::QuantizeWeightsBase;

  void runOnOperation() override;

private:
  /// What reads a weight. If a weight has several readers, the last in this
  /// order counts.
  enum Reader { Product, Lookup, Head, Other };

  static Reader readerOf(OpOperand &use);
  FailureOr<Type> formatOf(StringRef option);
  void quantize(WeightOp weight, ArrayRef<GetWeightOp> reads, Type format);

  Type formats[3]; // by reader; null: the weight is not quantized
};
} // namespace

QuantizeWeights::Reader QuantizeWeights::readerOf(OpOperand &use) {
  Operation *reader = use.getOwner();
  // Routers choose, and rounding would change what they choose.
  if (auto linear = dyn_cast<LinearOp>(reader))
    return &use == &linear.getWeightMutable() && !linear.getAs() ? Product
                                                                 : Other;
  if (auto linear = dyn_cast<ExpertLinearOp>(reader))
    return &use == &linear.getWeightMutable() ? Product : Other;
  if (auto head = dyn_cast<HeadOp>(reader))
    return &use == &head.getWeightMutable() ? Head : Other;
  return isa<EmbedOp>(reader) ? Lookup : Other;
}

/// The type of blocks that an option names; null for "none".
FailureOr<Type> QuantizeWeights::formatOf(StringRef option) {
  if (option == "none")
    return Type();
  std::optional<BlockFormat> format = symbolizeBlockFormat(option);
  if (format)
    return Type(BlocksType::get(&getContext(), *format));
  return getOperation().emitError(
             "expected a format q8_0, q4_0, fp8 or none, got '")
         << option << "'";
}

/// Gives a weight, and the ops that read it, elements in blocks.
void QuantizeWeights::quantize(WeightOp weight, ArrayRef<GetWeightOp> reads,
                               Type format) {
  RankedTensorType type = weight.getTensorType();
  if (weight.getExperts() &&
      cast<BlocksType>(format).getFormat() == BlockFormat::FP8) {
    weight.emitWarning("stays ")
        << type.getElementType() << ": experts have no products in fp8";
    return;
  }
  if (int64_t numbers = type.getShape().back();
      numbers % BlocksType::kNumbers) {
    weight.emitWarning("stays ")
        << type.getElementType() << ": its rows of " << numbers
        << " numbers are not whole blocks of " << BlocksType::kNumbers;
    return;
  }
  remark::passed(weight.getLoc(),
                 remark::RemarkOpts::name("quantized").category(getArgument()))
      << remark::metric("Weight", weight.getSymName().str());
  auto quantized = RankedTensorType::get(type.getShape(), format);
  weight.setType(quantized);
  for (GetWeightOp read : reads) {
    read.getResult().setType(quantized);
    for (Operation *user : read->getUsers())
      if (auto embed = dyn_cast<EmbedOp>(user))
        embed.setAs(type.getElementType());
  }
}

void QuantizeWeights::runOnOperation() {
  const std::string *options[] = {&format.getValue(), &embedding.getValue(),
                                  &head.getValue()};
  for (auto [option, type] : llvm::zip(options, formats)) {
    FailureOr<Type> found = formatOf(option->empty() ? *options[0] : *option);
    if (failed(found))
      return signalPassFailure();
    type = *found;
  }
  llvm::MapVector<StringAttr, SmallVector<GetWeightOp>> reads;
  getOperation().walk([&](GetWeightOp read) {
    reads[read.getWeightAttr().getAttr()].push_back(read);
  });
  SymbolTable symbols(getOperation());
  for (auto &[name, all] : reads) {
    auto weight = symbols.lookup<WeightOp>(name);
    Reader reader = Product;
    for (GetWeightOp read : all)
      for (OpOperand &use : read->getUses())
        reader = std::max(reader, readerOf(use));
    // A module in the module has its own weights.
    bool isMatrix =
        weight && isa<FloatType>(weight.getTensorType().getElementType()) &&
        weight.getTensorType().getRank() == (weight.getExperts() ? 3 : 2);
    if (reader != Other && formats[reader] && isMatrix &&
        !weight.getAdapter() && !weight.getInput())
      quantize(weight, all, formats[reader]);
  }
}
