/// A tiled product by fma:
///
///   block: 64 rows of the input x 64 rows of weights, in k steps of 32
///     both tiles to shared memory as f32
///     thread t: rows t / 8 * 4 + 0..3, columns t % 8 * 8 + 0..7
#include "lowering/gpu/schedules/Choose.h"

using namespace mlir;
using namespace cria;
using namespace cria::simt;

static constexpr int64_t kTileM = kOneTileRows, kTileN = 64, kTileK = 32;
/// Elements from one row of a tile to the next: rows side by side hit different
/// banks.
static constexpr int64_t kStride = kTileK + 1;
/// A thread's sums.
static constexpr int64_t kRows = 4, kColumns = 8;

namespace {
class FmaGemm : public GemmTile {
public:
  FmaGemm(Launch &launch, const GemmProblem &problem)
      : GemmTile(launch, problem.works,
                 problem.grouped({kTileM, kTileN, kTileK,
                                  problem.tuning.splits.blocks,
                                  problem.tuning.splits}),
                 problem.rows()),
        tileX(b.shared(b.getF32Type(), kTileM * kStride, kStride)),
        tileW(b.shared(b.getF32Type(), kTileN * kStride, kStride)) {}

private:
  UnitSum unitOf(Value row) {
    return {b.div(row, sumsOfUnit()), b.rem(row, sumsOfUnit())};
  }
  void multiplyTiles(Value rows) override {
    multiplyOne(rows, [&](const Corner &corner) { return multiply(corner); });
  }
  std::vector<Sums> multiply(const Corner &corner);
  Rows freeMemory() const override { return tileX; }
  void fill(const Rows &tile, int64_t rows, Type element,
            llvm::function_ref<Guarded(Value, Value)> at, Value first);
  SmallVector<Value> products(Value row, Value column, Value k,
                              ValueRange sums);

  Rows tileX, tileW;
};
} // namespace

/// Rows of a tile, columns [first, first + kTileK) of k.
void FmaGemm::fill(const Rows &tile, int64_t rows, Type element,
                   llvm::function_ref<Guarded(Value, Value)> at, Value first) {
  int64_t each = kTileK / width;
  Type type = width == 1 ? element : VectorType::get({width}, element);
  b.loop(b.thread(), b.i32(rows * each), kGemmThreads, [&](Value i) {
    Value row = b.div(i, each), column = b.mul(b.rem(i, each), width);
    Guarded from = at(row, b.add(first, column));
    auto load = [&] { return b.loadFrom(from.address, type); };
    Value value =
        from.exists ? b.choose(from.exists, load, b.zero(type)) : load();
    for (int64_t e = 0; e < width; ++e)
      b.store(b.widen(b.extract(value, e)), tile, row, b.add(column, e));
  });
}

/// The products at one k of kRows rows from `row` on with kColumns columns.
SmallVector<Value> FmaGemm::products(Value row, Value column, Value k,
                                     ValueRange sums) {
  SmallVector<Value> xs, next;
  for (int64_t i = 0; i < kRows; ++i)
    xs.push_back(b.load(tileX, b.add(row, i), k));
  for (int64_t j = 0; j < kColumns; ++j) {
    Value w = b.load(tileW, b.add(column, j), k);
    for (int64_t i = 0; i < kRows; ++i)
      next.push_back(b.fma(xs[i], w, sums[j * kRows + i]));
  }
  return next;
}

std::vector<GemmTile::Sums> FmaGemm::multiply(const Corner &corner) {
  Value row = b.mul(b.div(b.thread(), kTileN / kColumns), kRows);
  Value column = b.mul(b.rem(b.thread(), kTileN / kColumns), kColumns);
  SmallVector<Value> init(kRows * kColumns, b.f32(0));
  auto sums = b.loop(
      corner.first, corner.end, 1, init, [&](Value step, ValueRange carried) {
        Value first = b.mul(step, kTileK);
        fill(
            tileX, kTileM, x.rows.element,
            [&](Value r, Value c) { return elementX(corner, r, c); }, first);
        fill(
            tileW, kTileN, weights[0][0].rows.element,
            [&](Value r, Value c) { return elementW(corner, unitOf(r), c); },
            first);
        b.barrier();
        auto next = b.loop(b.i32(0), b.i32(kTileK), 1, carried,
                           [&](Value k, ValueRange sums) {
                             return products(row, column, k, sums);
                           });
        b.barrier();
        return next;
      });
  int64_t each = sumsOfUnit();
  std::vector<Sums> result;
  for (int64_t i = 0; i < kRows; ++i) {
    Sums &own = result.emplace_back();
    own = {b.add(row, i), b.div(column, each), {}};
    own.values.resize(each);
    for (int64_t j = 0; j < kColumns; ++j)
      own.values[j % each].push_back(sums[j * kRows + i]);
  }
  return result;
}

GemmKernel simt::makeFmaGemm(const GemmProblem &problem, const Twine &name) {
  auto launch = std::make_unique<Launch>(problem.function, name, kGemmThreads);
  auto tile = std::make_unique<FmaGemm>(*launch, problem);
  return {std::move(launch), std::move(tile)};
}
