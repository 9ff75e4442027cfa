/// Products of many rows m of an input with rows n of weights, in tiles:
///
///   block: 64 rows of the input x 64 rows of weights, in k steps of 32
///     both tiles to shared memory; what is beyond an edge is zero
///     bf16, f16: each of 4 warps multiplies 32 x 32 by mma.sync m16n8k16
///     f32: each thread multiplies 4 x 8 by fma
///   each thread evaluates and stores the units whose sums it holds
///
/// The rows of weights of a unit (both products of a gated unit, both columns
/// of a rotated pair) are neighbours in the tile, two at most, so that one
/// thread holds all sums of a unit: mma.sync gives a thread two neighbouring
/// columns.
#include "lowering/gpu/Emitters.h"

#include "mlir/Dialect/LLVMIR/NVVMDialect.h"

using namespace mlir;
using namespace cria;
using namespace cria::cuda;

static constexpr int64_t kThreads = 128;
static constexpr int64_t kTileM = 64, kTileN = 64, kTileK = 32;
/// Elements of padding behind a row of a tile: rows begin 16 bytes further
/// along the banks, so that eight of them side by side hit different ones.
static constexpr int64_t kPad = 8;

namespace {
class Gemm {
public:
  Gemm(Launch &launch, const Output &output, Rows x, int64_t k)
      : launch(launch), b(launch.b), output(output), x(x), k(k) {
    element = x.element;
    for (Operation *product : output.products)
      weights.push_back(launch.rows(weightOf(product)));
    tensorCore = !element.isF32() && weights[0].element == element;
    width =
        std::min(accessWidth(element, k), accessWidth(weights[0].element, k));
    Type held = tensorCore ? element : b.getF32Type();
    stride = kTileK + kPad;
    tileX = b.shared(held, kTileM * stride, stride);
    tileW = b.shared(held, kTileN * stride, stride);
  }

  int64_t unitsOfTile() const { return kTileN / output.unitSums(); }
  void emit();

private:
  /// A sum: its row of the tile, its column, its value.
  struct Sum {
    Value row, column, value;
  };

  void fill(const Rows &tile, int64_t rows, Value first,
            llvm::function_ref<Value(Value row, Value column)> load);
  Value loadX(Value row, Value column);
  Value loadW(Value row, Value column);
  Value masked(Value inside, llvm::function_ref<Value()> load, Type element);
  SmallVector<Value> multiplyFma(ValueRange sums);
  SmallVector<Value> multiplyMma(ValueRange sums);
  SmallVector<Value> fragment(const Rows &tile, Value row, int64_t step,
                              int64_t rows);
  SmallVector<Sum> sumsFma(ValueRange sums);
  SmallVector<Sum> sumsMma(ValueRange sums);
  void storeSums(ArrayRef<Sum> sums);

  Launch &launch;
  KernelBuilder &b;
  const Output &output;
  Rows x;
  int64_t k, width, stride;
  Type element;
  SmallVector<Rows> weights;
  bool tensorCore;
  Rows tileX, tileW;
  Value firstRow, firstUnit, rows;
};
} // namespace

/// What `load` gives, or zero where it is outside.
Value Gemm::masked(Value inside, llvm::function_ref<Value()> load,
                   Type element) {
  Type type = width == 1 ? element : Type(VectorType::get({width}, element));
  Value zero = b.zero(type);
  return b.choose(inside, load, zero);
}

Value Gemm::loadX(Value row, Value column) {
  Value at = b.add(firstRow, row);
  Value inside = b.both(b.less(at, rows), b.less(column, b.i32(k)));
  return masked(
      inside, [&] { return b.load(x, at, column, width); }, x.element);
}

/// Row r of the tile is sum r % unitSums of unit r / unitSums.
Value Gemm::loadW(Value row, Value column) {
  int64_t sums = output.unitSums();
  auto products = static_cast<int64_t>(weights.size());
  Value unit = b.add(firstUnit, b.div(row, sums));
  Value inside =
      b.both(b.less(unit, b.i32(output.units())), b.less(column, b.i32(k)));
  Value sum = b.rem(row, sums);
  Type type = weights[0].element;
  Value result;
  for (int64_t s = 0; s < sums; ++s) {
    auto load = [&] {
      return b.load(weights[s % products], output.column(b, unit, s / products),
                    column, width, Access::ReadOnly);
    };
    Value mine = b.both(inside, b.equal(sum, b.i32(s)));
    result = result ? b.choose(mine, load, result) : masked(mine, load, type);
  }
  return result;
}

/// Rows of a tile, columns [first, first + kTileK) of k.
void Gemm::fill(const Rows &tile, int64_t rows, Value first,
                llvm::function_ref<Value(Value, Value)> load) {
  int64_t each = kTileK / width;
  b.loop(b.thread(), b.i32(rows * each), kThreads, [&](Value i) {
    Value row = b.div(i, each), column = b.mul(b.rem(i, each), width);
    Value value = load(row, b.add(first, column));
    b.store(b.widen(value), tile, row, column);
  });
}

// fma: thread t has rows t / 8 * 4 + 0..3 and columns t % 8 * 8 + 0..7.

SmallVector<Value> Gemm::multiplyFma(ValueRange sums) {
  Value row = b.mul(b.div(b.thread(), 8), 4);
  Value column = b.mul(b.rem(b.thread(), 8), 8);
  return b.loop(b.i32(0), b.i32(kTileK), 1, sums,
                [&](Value k, ValueRange carried) {
                  SmallVector<Value> xs, next;
                  for (int64_t i = 0; i < 4; ++i)
                    xs.push_back(b.load(tileX, b.add(row, i), k));
                  for (int64_t j = 0; j < 8; ++j) {
                    Value w = b.load(tileW, b.add(column, j), k);
                    for (int64_t i = 0; i < 4; ++i)
                      next.push_back(b.fma(xs[i], w, carried[j * 4 + i]));
                  }
                  return next;
                });
}

SmallVector<Gemm::Sum> Gemm::sumsFma(ValueRange sums) {
  Value row = b.mul(b.div(b.thread(), 8), 4);
  Value column = b.mul(b.rem(b.thread(), 8), 8);
  SmallVector<Sum> result;
  for (int64_t i = 0; i < 4; ++i)
    for (int64_t j = 0; j < 8; ++j)
      result.push_back({b.add(row, i), b.add(column, j), sums[j * 4 + i]});
  return result;
}

// mma.sync: warp w has rows w / 2 * 32 + 0..31 and columns w % 2 * 32 + 0..31,
// 2 x 4 products of 16 x 8. In a product, with g = lane / 4 and t = lane % 4, a
// lane holds of the input (g, 2t), (g + 8, 2t), (g, 2t + 8), (g + 8, 2t + 8),
// of the weights (g, 2t), (g, 2t + 8), two elements each, and the sums (g, 2t),
// (g, 2t + 1), (g + 8, 2t), (g + 8, 2t + 1) (PTX ISA, mma.m16n8k16).

/// The pairs at columns 2t and 2t + 8 of step `step`, of rows g and, where
/// there are 16, g + 8.
SmallVector<Value> Gemm::fragment(const Rows &tile, Value row, int64_t step,
                                  int64_t rows) {
  Value lane = b.lane();
  Value g = b.add(row, b.div(lane, 4)), t = b.mul(b.rem(lane, 4), 2);
  SmallVector<Value> pairs;
  for (int64_t column : {0, 8})
    for (int64_t down = 0; down < rows; down += 8)
      pairs.push_back(
          b.bits(b.load(tile, b.add(g, down), b.add(t, step + column), 2)));
  return pairs;
}

SmallVector<Value> Gemm::multiplyMma(ValueRange sums) {
  Value row = b.mul(b.div(b.warp(), 2), 32);
  Value column = b.mul(b.rem(b.warp(), 2), 32);
  SmallVector<Value> next(sums);
  for (int64_t step = 0; step < kTileK; step += 16) {
    SmallVector<SmallVector<Value>> xs, ws;
    for (int64_t i = 0; i < 2; ++i)
      xs.push_back(fragment(tileX, b.add(row, i * 16), step, 16));
    for (int64_t j = 0; j < 4; ++j)
      ws.push_back(fragment(tileW, b.add(column, j * 8), step, 8));
    for (int64_t i = 0; i < 2; ++i)
      for (int64_t j = 0; j < 4; ++j) {
        auto at = MutableArrayRef(next).slice((i * 4 + j) * 4, 4);
        b.mma(element, xs[i], ws[j], at);
      }
  }
  return next;
}

SmallVector<Gemm::Sum> Gemm::sumsMma(ValueRange sums) {
  Value lane = b.lane();
  Value row = b.add(b.mul(b.div(b.warp(), 2), 32), b.div(lane, 4));
  Value column = b.add(b.mul(b.rem(b.warp(), 2), 32), b.mul(b.rem(lane, 4), 2));
  SmallVector<Sum> result;
  for (int64_t i = 0; i < 2; ++i)
    for (int64_t j = 0; j < 4; ++j)
      for (int64_t s = 0; s < 4; ++s)
        result.push_back({b.add(row, i * 16 + s / 2 * 8),
                          b.add(column, j * 8 + s % 2),
                          sums[(i * 4 + j) * 4 + s]});
  return result;
}

/// `sums` has the sums of a unit side by side.
void Gemm::storeSums(ArrayRef<Sum> sums) {
  int64_t each = output.unitSums();
  auto products = static_cast<int64_t>(weights.size());
  for (size_t i = 0; i < sums.size(); i += each) {
    Value row = b.add(firstRow, sums[i].row);
    Value unit = b.add(firstUnit, b.div(sums[i].column, each));
    Value inside =
        b.both(b.less(row, rows), b.less(unit, b.i32(output.units())));
    b.when(inside, [&] {
      storeUnit(launch, output, row, unit, [&](int64_t c, int64_t p) {
        return sums[i + c * products + p].value;
      });
    });
  }
}

void Gemm::emit() {
  firstUnit = b.mul(b.block(0), unitsOfTile());
  firstRow = b.mul(b.block(1), kTileM);
  rows = launch.extent(output.products[0]->getOperand(0));
  SmallVector<Value> init(kTileM * kTileN / kThreads, b.f32(0));
  auto sums = b.loop(
      b.i32(0), b.i32(k), kTileK, init, [&](Value first, ValueRange carried) {
        fill(tileX, kTileM, first,
             [&](Value row, Value column) { return loadX(row, column); });
        fill(tileW, kTileN, first,
             [&](Value row, Value column) { return loadW(row, column); });
        b.barrier();
        auto next = tensorCore ? multiplyMma(carried) : multiplyFma(carried);
        b.barrier();
        return next;
      });
  storeSums(tensorCore ? sumsMma(sums) : sumsFma(sums));
}

Steps cuda::emitGemm(const Target &target, const KernelSpec &spec,
                     const Place *normalized) {
  Steps steps;
  auto type = cast<RankedTensorType>(spec.input.getType());
  int64_t k = type.getDimSize(1);
  for (auto [i, output] : llvm::enumerate(spec.outputs)) {
    std::string name = target.name;
    if (i)
      name += "_" + std::to_string(i);
    Launch launch(spec.loc, target.module, name, kThreads, target.places);
    Rows x = normalized ? launch.rows(*normalized, type.getElementType(), k)
                        : launch.rows(spec.input);
    Gemm gemm(launch, output, x, k);
    gemm.emit();
    int64_t blocks = llvm::divideCeil(output.units(), gemm.unitsOfTile());
    Value rows = spec.norm ? spec.norm->getOperand(0) : spec.input;
    steps.push_back(launch.finish({{blocks, {}}, launch.gridOf(rows, kTileM)}));
  }
  return steps;
}
