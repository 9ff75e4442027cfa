/// Products of few rows of 16 bits with floats in blocks (GemvBlocks.h):
///
///   sum += (sum of a word's products) * (scale of its block)
///
/// A scale's bytes are finite numbers, too: their products with zeros are zero.
///
/// A lane reads 32 bytes of the input for a piece of 16 bytes. These lie in two
/// planes, of the first 8 numbers of all pieces and of the others, so that
/// eight lanes read all banks.
#include "lowering/gpu/cuda/TensorCores.h"
#include "lowering/gpu/cuda/schedules/GemvBlocks.h"
#include "lowering/gpu/cuda/schedules/Schedules.h"
#include "lowering/gpu/cuda/schedules/WidenedBlocks.h"
#include "lowering/kernel/BlockProduct.h"

using namespace mlir;
using namespace cria;
using namespace cria::simt;

/// Numbers of the input in a load.
static constexpr int64_t kLoad = 8;
/// Bytes of the ring at most, and of an input that leaves it room in what a
/// kernel may declare. Larger ones are in shared memory that the launch gives.
static constexpr int64_t kRing = 36 << 10, kDeclaredInput = 11 << 10;

int64_t simt::widenedGemvBytes(int64_t numbers) {
  return numbers / BlockProduct::kNumbers * BlockProduct::blockBytes(8) * 2;
}

namespace {
class WidenedGemv : public BlockGemv {
public:
  WidenedGemv(Launch &launch, const GemvProblem &problem,
              const GemvSizes &sizes);
  int64_t launchedBytes() const override {
    return inputBytes() > kDeclaredInput ? inputBytes() : 0;
  }

private:
  int64_t inputBytes() const { return m * length * 2; }
  Rows makeInput();
  void compute() override;
  /// Where the input has what meets byte `byte` of a row of weights.
  Value placeOf(Value byte);
  SmallVector<Value> input(Value row, Value column);
  Value multiply(ValueRange x, const Piece &piece, const Column &column,
                 Value sum);
  SmallVector<Value> step(ArrayRef<RowAddress> sources, ValueRange columns,
                          ValueRange inputs, ValueRange sums) override;

  bool hasPlanes;
  Rows rows;
};
} // namespace

WidenedGemv::WidenedGemv(Launch &launch, const GemvProblem &problem,
                         const GemvSizes &sizes)
    : BlockGemv(launch, problem, sizes), hasPlanes(piece > kLoad),
      rows(makeInput()) {
  makeBlockRing(sizes, launchedBytes() ? kRing : kShared - inputBytes());
}

Rows WidenedGemv::makeInput() {
  Type type = getElementTypeOrSelf(given.stores[0].value.tensor.getType());
  return launchedBytes() ? b.launchedShared(type, m * length, length)
                         : b.shared(type, m * length, length);
}

Value WidenedGemv::placeOf(Value byte) {
  if (!hasPlanes)
    return byte;
  Value load = b.div(byte, kLoad);
  Value first =
      b.add(b.mul(b.rem(load, 2), length / 2), b.mul(b.div(load, 2), kLoad));
  return b.add(first, b.rem(byte, kLoad));
}

/// Numbers are stored in pairs: blocks begin at even bytes.
void WidenedGemv::compute() {
  Value zeros = b.zero(VectorType::get({2}, rows.element));
  for (int64_t r = 0; r < m; ++r)
    computeRow(
        launch, given, statistics, b.i32(r),
        [&](ValueRange loops, int64_t lanes, ArrayRef<Value> values) {
          Value number = b.rem(loops.back(), BlockProduct::kNumbers);
          Value block =
              b.mul(b.div(loops.back(), BlockProduct::kNumbers), bytes);
          Value first = b.add(b.add(block, BlockProduct::kScaleBytes), number);
          Value own = b.narrow(values[0], rows.element);
          int64_t together = lanes % 2 ? 1 : 2;
          for (int64_t i = 0; i < lanes; i += together) {
            SmallVector<Value> pair;
            for (int64_t j = i; j < i + together; ++j)
              pair.push_back(b.extract(own, j));
            b.store(b.pack(pair), rows, b.i32(r), placeOf(b.add(first, i)));
          }
          b.when(b.equal(number, b.i32(0)),
                 [&] { b.store(zeros, rows, b.i32(r), placeOf(block)); });
        });
}

/// A row of the input at a column.
SmallVector<Value> WidenedGemv::input(Value row, Value column) {
  SmallVector<Value> numbers;
  for (int64_t first = 0; first < piece; first += kLoad) {
    int64_t count = std::min(piece, kLoad);
    Value loaded = b.loadWide(rows, row, placeOf(b.add(column, first)), count);
    for (int64_t i = 0; i < count; ++i)
      numbers.push_back(b.extract(loaded, i));
  }
  return numbers;
}

/// `sum` and the product of a piece with one row of the input.
Value WidenedGemv::multiply(ValueRange x, const Piece &piece,
                            const Column &column, Value sum) {
  for (auto [i, word] : llvm::enumerate(piece.words)) {
    // Bytes 0 and 2, then 1 and 3.
    Value even = b.create<arith::ShLIOp>(word, b.i32(8)), product;
    std::array<Value, 2> pairs = {b.widen(cuda::floatsOf(b, even)),
                                  b.widen(cuda::floatsOf(b, word))};
    ValueRange own = x.drop_front(i * kWord);
    for (size_t byte = 0; byte < std::min<size_t>(kWord, own.size()); ++byte) {
      Value code = b.extract(pairs[byte % 2], static_cast<int64_t>(byte / 2));
      product =
          byte ? b.fma(code, own[byte], product) : b.fmul(code, own[byte]);
    }
    Value scale = i ? b.select(column.isB[i - 1], piece.scaleB, piece.scaleA)
                    : piece.scaleA;
    sum = b.fma(product, scale, sum);
  }
  return sum;
}

SmallVector<Value> WidenedGemv::step(ArrayRef<RowAddress> sources,
                                     ValueRange columns, ValueRange,
                                     ValueRange sums) {
  SmallVector<Value> next(sums);
  for (Value at : columns) {
    Column column = columnOf(at);
    SmallVector<Piece> pieces;
    for (const RowAddress &source : sources)
      pieces.push_back(load(source, column));
    for (int64_t row = 0; row < m; ++row) {
      SmallVector<Value> x = input(b.i32(row), at);
      for (size_t w = 0; w < sources.size(); ++w)
        next[w * m + row] = multiply(x, pieces[w], column, next[w * m + row]);
    }
  }
  return next;
}

std::unique_ptr<Gemv> cuda::makeWidenedGemv(Launch &launch,
                                            const GemvProblem &problem,
                                            const GemvSizes &sizes) {
  return std::make_unique<WidenedGemv>(launch, problem, sizes);
}
