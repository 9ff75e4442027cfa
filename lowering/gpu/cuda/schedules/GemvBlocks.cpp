/// Products of few rows with integers in blocks (GemvBlocks.h): dp4a multiplies
/// words of weights and of the input's codes. What it makes of a scale is zero.
/// Of weights of four bits, low and high halves of bytes meet a row of the
/// input each.
///
///   sum += float(sum of a's words) * (scale of x, a) * (scale of w, a) + b's
///
/// If rows choose their weights, the block's row may have a row of the input
/// for each choice: then each row of weights meets the row of its choice.
#include "lowering/gpu/cuda/schedules/GemvBlocks.h"
#include "lowering/gpu/cuda/TensorCores.h"
#include "lowering/gpu/cuda/schedules/Schedules.h"
#include "lowering/kernel/BlockProduct.h"

#include <numeric>

using namespace mlir;
using namespace cria;
using namespace cria::simt;

/// Bytes of a load.
static constexpr int64_t kPiece = 16;
/// In each byte of a word: its low half, and -8.
static constexpr int32_t kLowHalves = 0x0f0f0f0f, kMinusEights = -0x07070708;

static int64_t halvesOf(int64_t bits) { return 8 / bits; }

/// Bytes of a row of weights.
static int64_t lengthOf(const Dot &dot) {
  return dot.terms.constant / BlockProduct::kNumbers *
         BlockProduct::blockBytes(dot.bits);
}

int64_t simt::blockGemvBytes(int64_t numbers, int64_t bits) {
  int64_t scale = sizeof(float);
  return numbers / BlockProduct::kNumbers *
         (halvesOf(bits) * BlockProduct::blockBytes(bits) + scale);
}

namespace {
/// With integers, times codes of the input.
class IntegerGemv : public BlockGemv {
public:
  IntegerGemv(Launch &launch, const GemvProblem &problem,
              const GemvSizes &sizes);

private:
  void compute() override;
  void storeCodes(Value row, Value block, Value number, int64_t lanes,
                  Value codes);
  /// Whether each row of weights has its own row of the input.
  bool haveInputs() const { return rows > m; }
  SmallVector<Value> inputs(const Work &work, ArrayRef<WeightRow> rows,
                            ValueRange columns) override;
  SmallVector<Value> step(ArrayRef<RowAddress> sources, ValueRange columns,
                          ValueRange inputs, ValueRange sums) override;

  int64_t terms() const { return works[0].dots[0].terms.constant; }
  /// One row of the input at a column: words of each half; -8 times the sum of
  /// each word's numbers, where weights of four bits are so much less than
  /// their bits say; the scales of its blocks.
  struct Input {
    SmallVector<SmallVector<Value>> words;
    SmallVector<Value> offsets;
    Value scaleA, scaleB;
  };
  Input input(Value row, const Column &column);
  Value multiply(const Input &x, const Piece &piece, const Column &column,
                 Value sum);

  /// Rows of the input.
  int64_t rows, bits, halves;
  /// Row `row * halves + half` of the input, and the scales of row `row`.
  Rows codes, scales;
};
} // namespace

/// By cp.async: bulk copies would have less in flight.
BlockGemv::BlockGemv(Launch &launch, const GemvProblem &problem,
                     const GemvSizes &sizes)
    : RingGemv(launch, problem.works, sizes, lengthOf(problem.works[0].dots[0]),
               /*bulk=*/false),
      given(*problem.input), statistics(problem.statistics),
      bytes(BlockProduct::blockBytes(works[0].dots[0].bits)),
      piece(std::gcd(length, kPiece)) {
  // Else ptxas spills to have more blocks on a multiprocessor.
  cuda::fitBlocks(b, sizes.resident);
}

void BlockGemv::makeBlockRing(const GemvSizes &sizes, int64_t left) {
  auto lead = static_cast<int64_t>(llvm::alignTo(bytes - 1, piece));
  makeRing({b.getI8Type(), piece, lead, sizes.ahead, sizes.turns, sizes.grain},
           left);
}

void BlockGemv::prepare() {
  RingGemv::prepare();
  compute();
  b.barrier();
}

IntegerGemv::IntegerGemv(Launch &launch, const GemvProblem &problem,
                         const GemvSizes &sizes)
    : BlockGemv(launch, problem, sizes), rows(gemvRows(works[0])),
      bits(works[0].dots[0].bits), halves(halvesOf(bits)),
      codes(b.shared(b.getI8Type(), rows * halves * length, length)),
      scales(b.shared(b.getF32Type(), rows * length / bytes, length / bytes)) {
  makeBlockRing(sizes, kShared - blockGemvBytes(rows * terms(), bits));
}

//===----------------------------------------------------------------------===//
// The input
//===----------------------------------------------------------------------===//

/// Some codes of a block, from `number` on. They are stored in pairs: blocks
/// begin at even bytes.
void IntegerGemv::storeCodes(Value row, Value block, Value number,
                             int64_t lanes, Value values) {
  int64_t each = BlockProduct::kNumbers / halves;
  Value half = b.add(b.mul(row, halves), b.div(number, each));
  Value column = b.add(b.add(b.mul(block, bytes), BlockProduct::kScaleBytes),
                       b.rem(number, each));
  int64_t together = std::gcd<int64_t>(lanes, 2);
  for (int64_t i = 0; i < lanes; i += together) {
    SmallVector<Value> pair;
    for (int64_t j = i; j < i + together; ++j)
      pair.push_back(b.extract(values, j));
    b.store(b.pack(pair), codes, half, b.add(column, i));
  }
}

void IntegerGemv::compute() {
  Value zeros = b.zero(VectorType::get({2}, b.getI8Type()));
  for (int64_t r = 0; r < m; ++r)
    computeRow(launch, given, statistics, row(r),
               [&](ValueRange loops, int64_t lanes, ArrayRef<Value> values) {
                 Value number = loops.back(), block = loops.drop_back().back();
                 // (t, block, number), or (t, choice, block, number).
                 Value row = haveInputs() ? loops[1] : b.i32(r);
                 storeCodes(row, block, number, lanes, values[0]);
                 b.when(b.equal(number, b.i32(0)), [&] {
                   Value scale = b.extract(values[1], 0);
                   b.store(b.widen(scale), scales, row, block);
                   for (int64_t half = 0; half < halves; ++half)
                     b.store(zeros, codes, b.add(b.mul(row, halves), half),
                             b.mul(block, bytes));
                 });
               });
}

/// The numbers of the rows of the input.
SmallVector<Value> IntegerGemv::inputs(const Work &, ArrayRef<WeightRow> rows,
                                       ValueRange columns) {
  SmallVector<Value> numbers;
  for (size_t i = 0; haveInputs() && i < columns.size(); ++i)
    for (const WeightRow &row : rows)
      numbers.push_back(launch.value(row.dot->x.at[1], row.loops));
  return numbers;
}

//===----------------------------------------------------------------------===//
// Products
//===----------------------------------------------------------------------===//

BlockGemv::Column BlockGemv::columnOf(Value at) {
  Column column{at, b.div(at, bytes), {}, {}};
  Value last = b.add(b.mul(column.a, bytes), bytes - 1);
  column.b = b.select(b.less(last, b.add(at, piece - 1)), b.add(column.a, 1),
                      column.a);
  for (int64_t byte = kWord; byte < piece; byte += kWord)
    column.isB.push_back(b.less(last, b.add(at, byte)));
  return column;
}

/// A vector of bytes as i32; two bytes are a word without the others.
SmallVector<Value> BlockGemv::words(Value bytes) {
  int64_t count = cast<VectorType>(bytes.getType()).getNumElements();
  if (count == 2) {
    Value low = b.bitcast(b.getI16Type(), bytes);
    return {b.create<arith::ExtUIOp>(b.getI32Type(), low)};
  }
  if (count == kWord)
    return {b.bits(bytes)};
  auto type = VectorType::get({count / kWord}, b.getI32Type());
  Value all = b.bitcast(type, bytes);
  SmallVector<Value> words;
  for (int64_t i = 0; i < count / kWord; ++i)
    words.push_back(b.extract(all, i));
  return words;
}

BlockGemv::Piece BlockGemv::load(const RowAddress &from, const Column &column) {
  auto bytesAt = [&](Value at, int64_t count) {
    return b.load(from.rows, from.row, b.add(from.first, at), count,
                  from.access);
  };
  auto scaleOf = [&](Value block) {
    Value half = b.bitcast(b.getF16Type(), bytesAt(b.mul(block, bytes),
                                                   BlockProduct::kScaleBytes));
    return b.widen(half);
  };
  Piece loaded{words(bytesAt(column.at, piece)), scaleOf(column.a), {}};
  if (!column.isB.empty())
    loaded.scaleB = scaleOf(column.b);
  return loaded;
}

IntegerGemv::Input IntegerGemv::input(Value row, const Column &column) {
  Input x;
  for (int64_t half = 0; half < halves; ++half)
    x.words.push_back(words(
        b.load(codes, b.add(b.mul(row, halves), half), column.at, piece)));
  Value offset = b.i32(kMinusEights);
  for (size_t word = 0; bits == 4 && word < x.words[0].size(); ++word) {
    Value sum = cuda::dotBytes(b, x.words[0][word], offset, b.i32(0));
    x.offsets.push_back(cuda::dotBytes(b, x.words[1][word], offset, sum));
  }
  x.scaleA = b.load(scales, row, column.a);
  if (!column.isB.empty())
    x.scaleB = b.load(scales, row, column.b);
  return x;
}

/// `sum` and the product of a piece with one row of the input.
Value IntegerGemv::multiply(const Input &x, const Piece &piece,
                            const Column &column, Value sum) {
  Value all = b.i32(0), ofA;
  for (auto [i, word] : llvm::enumerate(piece.words)) {
    if (bits == 8) {
      all = cuda::dotBytes(b, x.words[0][i], word, all);
    } else {
      Value mask = b.i32(kLowHalves);
      all = b.add(all, x.offsets[i]);
      Value high = b.create<arith::ShRUIOp>(word, b.i32(4));
      all = cuda::dotBytes(b, x.words[0][i], b.both(word, mask), all);
      all = cuda::dotBytes(b, x.words[1][i], b.both(high, mask), all);
    }
    ofA = i ? b.select(column.isB[i - 1], ofA, all) : all;
  }
  auto add = [&](Value integers, Value scaleX, Value scaleW) {
    Value real = b.create<arith::SIToFPOp>(b.getF32Type(), integers);
    sum = b.fma(real, b.fmul(scaleX, scaleW), sum);
  };
  add(ofA, x.scaleA, piece.scaleA);
  if (!column.isB.empty())
    add(b.sub(all, ofA), x.scaleB, piece.scaleB);
  return sum;
}

SmallVector<Value> IntegerGemv::step(ArrayRef<RowAddress> sources,
                                     ValueRange columns, ValueRange inputs,
                                     ValueRange sums) {
  SmallVector<Value> next(sums);
  SmallVector<Column> at;
  std::vector<Piece> pieces;
  for (Value column : columns) {
    at.push_back(columnOf(column));
    for (const RowAddress &source : sources)
      pieces.push_back(load(source, at.back()));
  }
  for (auto [i, column] : llvm::enumerate(at)) {
    auto add = [&, i = i, &column = column](const Input &x, size_t w,
                                            Value &sum) {
      sum = multiply(x, pieces[i * sources.size() + w], column, sum);
    };
    if (haveInputs())
      for (size_t w = 0; w < sources.size(); ++w)
        add(input(inputs[i * sources.size() + w], column), w, next[w]);
    for (int64_t row = 0; !haveInputs() && row < m; ++row) {
      Input x = input(b.i32(row), column);
      for (size_t w = 0; w < sources.size(); ++w)
        add(x, w, next[w * m + row]);
    }
  }
  return next;
}

std::unique_ptr<Gemv> cuda::makeBlockGemv(Launch &launch,
                                          const GemvProblem &problem,
                                          const GemvSizes &sizes) {
  return std::make_unique<IntegerGemv>(launch, problem, sizes);
}
