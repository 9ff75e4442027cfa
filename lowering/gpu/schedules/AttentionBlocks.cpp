/// Caches whose elements an op widens: rows of memory are blocks, each with
/// numbers side by side and with what they share, their scale.
///
///   payload(row[first + i], row[byte], ...)  =>  number i of the block
///
/// The payload is cloned, with vectors of the numbers that a lane takes.
#include "lowering/gpu/schedules/Attention.h"
#include "lowering/kernel/Payload.h"
#include "lowering/kernel/Product.h"

#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/Matchers.h"
#include <numeric>

using namespace mlir;
using namespace cria;
using namespace cria::simt;

/// The slice of a cache that an operand is: [layer, 0, first, 0, o] [1, KVH, S,
/// B, n]. Of rows that were gathered from pages: [0, 0, 0, o] [KVH, S, B, n],
/// after a dimension for tokens if each token has its own pages.
static tensor::ExtractSliceOp sliceOf(OpOperand &operand) {
  return operand.get().getDefiningOp<tensor::ExtractSliceOp>();
}

static std::optional<int64_t> offsetOf(tensor::ExtractSliceOp slice) {
  return getConstantIntValue(slice.getMixedOffsets().back());
}

/// Numbers of a block.
static int64_t numbersOf(linalg::GenericOp widened) {
  return cast<RankedTensorType>(widened.getResultTypes()[0]).getShape().back();
}

bool simt::canLoadWidened(linalg::GenericOp widened, int64_t width) {
  unsigned number = widened.getNumLoops() - 1; // the loop of a block's numbers
  for (OpOperand *input : widened.getDpsInputOperands()) {
    tensor::ExtractSliceOp slice = sliceOf(*input);
    SmallVector<unsigned> dims = loops(widened.getMatchingIndexingMap(input));
    RankedTensorType type = slice.getSourceType();
    int64_t block = type.getRank() - 2;
    bool isOrdered = llvm::equal(dims, llvm::seq<unsigned>(0, dims.size()));
    if (!type.getElementType().isInteger(8) ||
        !isConstantIntValue(slice.getMixedOffsets()[block], 0) ||
        slice.getType().getDimSize(number - 1) != type.getDimSize(block) ||
        !offsetOf(slice) || !isOrdered || dims.size() < number)
      return false;
  }
  auto isKnown = [&](Value value) {
    return value.getParentBlock() == widened.getBlock() ||
           matchPattern(value, m_Constant());
  };
  return numbersOf(widened) % width == 0 &&
         llvm::all_of(widened.getBlock()->without_terminator(),
                      [&](Operation &op) {
                        return OpTrait::hasElementwiseMappableTraits(&op) &&
                               llvm::all_of(op.getOperands(), isKnown);
                      });
}

/// `width` bytes of a row from `column` on, which is `first` and a multiple of
/// `width`.
static Value loadBytes(KernelBuilder &b, const Rows &rows, Value row,
                       Value column, int64_t first, int64_t width) {
  int64_t each =
      std::gcd(std::gcd(rows.stride, first), std::min<int64_t>(width, 16));
  SmallVector<Value> bytes;
  for (int64_t at = 0; at < width; at += each) {
    Value part = b.load(rows, row, b.add(column, at), each);
    for (int64_t i = 0; i < each; ++i)
      bytes.push_back(each == 1 ? part : b.extract(part, i));
  }
  return b.pack(bytes);
}

Value simt::loadWidened(KernelBuilder &b, linalg::GenericOp widened,
                        const Rows &cache, Value row, Value column,
                        int64_t width) {
  int64_t numbers = numbersOf(widened);
  row = b.add(row, b.div(column, numbers));
  Value place = b.rem(column, numbers);
  IRMapping mapping;
  for (OpOperand *input : widened.getDpsInputOperands()) {
    int64_t first = *offsetOf(sliceOf(*input));
    bool isShared = !widened.getMatchingIndexingMap(input).isFunctionOfDim(
        widened.getNumLoops() - 1);
    Value bytes =
        isShared ? b.load(cache, row, b.i32(first))
                 : loadBytes(b, cache, row, b.add(place, first), first, width);
    mapping.map(widened.getMatchingBlockArgument(input), bytes);
  }
  for (Operation &op : widened.getBlock()->without_terminator()) {
    for (Value operand : op.getOperands())
      if (!mapping.contains(operand)) // a constant of the host
        mapping.map(operand, b.clone(*operand.getDefiningOp())->getResult(0));
    cloneOnVectors(b, op, mapping, width);
  }
  return mapping.lookupOrDefault(
      widened.getBlock()->getTerminator()->getOperand(0));
}
