/// What a vision tower has in front of its layers. The rows of a call are
/// registers and class, whatever the call gives for these, and patches.
#include "lowering/import/forward/Forward.h"

#include "mlir/Dialect/Tensor/IR/Tensor.h"

using namespace mlir;
using namespace cria;
using namespace cria::llama;
using namespace cria::forward;

/// The symbols of a call's rows and of VisionModules.
static constexpr llvm::StringLiteral patches = "patches",
                                     patchFilters = "patch_filters",
                                     positionRows = "position_rows",
                                     classRow = "class_row",
                                     registerRows = "register_rows";

void forward::declareInput(ModelBuilder &b, int64_t numbers) {
  b.declare(patches, "rows", {1, numbers}, {}).setInput(true);
}

Value forward::inputRows(ModelBuilder &b, Value ids) {
  return EmbedOp::create(b, ids, b.weight(patches), llvm::APFloat(1.0),
                         /*as=*/TypeAttr());
}

/// The rows that have no position; they are in front.
static int64_t firstPosition(const ModelBuilder &b) {
  const VisionModules &names = b.family.vision;
  bool isPlaced = names.classRow.empty() || names.placesClass;
  return b.config.registers + (isPlaced ? 0 : 1);
}

void forward::declareVision(ModelBuilder &b, int64_t positions) {
  const ModelConfig &c = b.config;
  const VisionModules &names = b.family.vision;
  int64_t side = c.patchSize, hidden = c.hiddenSize;
  declareInput(b, c.channels * side * side);
  b.declare(names.patches, "weight", {hidden, c.channels, side, side}, {},
            patchFilters);
  if (names.hasBias)
    b.declare(names.patches, "bias", {hidden}, {}, biasSymbol(patchFilters));
  auto declareRows = [&](StringRef name, StringRef symbol, int64_t rows) {
    SmallVector<int64_t> shape = {1, rows, hidden};
    b.declareTensor(name,
                    names.areStacked ? shape : ArrayRef(shape).drop_front(), {},
                    symbol);
  };
  declareRows(names.positions, positionRows, positions - firstPosition(b));
  if (names.areStacked)
    declareRows(names.classRow, classRow, 1);
  else
    b.declareTensor(names.classRow, {hidden}, {}, classRow);
  declareRows(names.registers, registerRows, c.registers);
  b.declareNorm(names.norm, hidden, /*layers=*/{});
}

/// A weight with rows, as a matrix.
static Value rows(ModelBuilder &b, StringRef symbol) {
  Value read = b.weight(symbol);
  auto type = cast<RankedTensorType>(read.getType());
  if (type.getRank() == 2)
    return read;
  if (type.getRank() == 1)
    return b.row(read);
  return tensor::CollapseShapeOp::create(
      b, read, ArrayRef<ReassociationIndices>{{0, 1}, {2}});
}

/// The product of a convolution whose steps are as wide as its filters is that
/// of a matrix.
Value forward::embedPatches(ModelBuilder &b, Value ids, Value position) {
  const VisionModules &names = b.family.vision;
  b.at(names.patches);
  Value pixels = inputRows(b, ids);
  Value filters = tensor::CollapseShapeOp::create(
      b, b.weight(patchFilters),
      ArrayRef<ReassociationIndices>{{0}, {1, 2, 3}});
  Value x = LinearOp::create(b, pixels, filters,
                             b.optionalWeight(biasSymbol(patchFilters)));
  auto first = static_cast<uint64_t>(b.config.registers);
  if (first)
    x = SetRowsOp::create(b, x, rows(b, registerRows), position,
                          /*first=*/uint64_t(0));
  if (!names.classRow.empty())
    x = SetRowsOp::create(b, x, rows(b, classRow), position, first);
  b.at(names.positions);
  x = AddRowsOp::create(b, x, rows(b, positionRows), position,
                        static_cast<uint64_t>(firstPosition(b)));
  return names.norm.empty() ? x : b.norm(names.norm, x);
}
