/// rmsnorm and layernorm of rows: one block a row, two or three passes over it,
/// the later ones from the first cache. Statistics in f32.
#include "lowering/gpu/Emitters.h"

using namespace mlir;
using namespace cria;
using namespace cria::cuda;
using namespace cria::llama;

static constexpr int64_t kThreads = 128;

/// Elements that a norm takes together: the last dimension.
static int64_t normSize(Operation *norm) {
  auto type = cast<RankedTensorType>(norm->getOperand(0).getType());
  return type.getDimSize(type.getRank() - 1);
}

namespace {
/// A row's statistics and how they are applied.
class RowNorm {
public:
  RowNorm(Launch &launch, Operation *norm, Value row)
      : launch(launch), b(launch.b), norm(norm), row(row),
        input(launch.rows(norm->getOperand(0))), columns(normSize(norm)),
        width(accessWidth(input.element, columns)),
        scratch(b.shared(b.getF32Type(), b.threads() / kWarp, 0)) {
    input.stride = columns;
  }

  void writeTo(const Rows &result, Value resultRow);

private:
  Value load(Value tensor, Value row, Value column, Access access);
  Value splat(Value x) { return b.splat(x, width); }
  /// The row's sum of f(x), divided by the columns.
  Value mean(llvm::function_ref<Value(Value)> f);
  Value reciprocalRoot(Value meanSquare, llvm::APFloat eps);
  Value apply(RMSNormOp op, Value x, Value column, Value rstd);
  Value apply(LayerNormOp op, Value x, Value column, Value mean, Value rstd);

  Launch &launch;
  KernelBuilder &b;
  Operation *norm;
  Value row;
  Rows input;
  int64_t columns, width;
  Rows scratch;
};
} // namespace

Value RowNorm::load(Value tensor, Value row, Value column, Access access) {
  return b.loadWide(launch.rows(tensor), row, column, width, access);
}

Value RowNorm::mean(llvm::function_ref<Value(Value)> f) {
  auto sums =
      b.loop(b.mul(b.thread(), width), b.i32(columns), b.threads() * width,
             {splat(b.f32(0))}, [&](Value column, ValueRange carried) {
               Value x = b.loadWide(input, row, column, width);
               return SmallVector<Value>{b.fadd(carried[0], f(x))};
             });
  Value total = b.blockSum(b.sum(sums[0]), scratch);
  return b.fmul(total, b.f32(1.0 / static_cast<double>(columns)));
}

Value RowNorm::reciprocalRoot(Value meanSquare, llvm::APFloat eps) {
  Value shifted = b.fadd(meanSquare, b.f32(eps.convertToDouble()));
  return b.fdiv(b.f32(1), b.sqrt(shifted));
}

/// Rounded to the op's type before the weight, as Hugging Face does, unless
/// the op says otherwise.
Value RowNorm::apply(RMSNormOp op, Value x, Value column, Value rstd) {
  Value y = b.fmul(x, splat(rstd));
  if (!op.getRoundOnce())
    y = b.rounded(y, op.getType().getElementType());
  if (!op.getWeight())
    return y;
  Value weight = load(op.getWeight(), b.i32(0), column, Access::ReadOnly);
  if (op.getUnitOffset())
    weight = b.fadd(weight, splat(b.f32(1)));
  return b.fmul(y, weight);
}

Value RowNorm::apply(LayerNormOp op, Value x, Value column, Value mean,
                     Value rstd) {
  Value y = b.fmul(b.fsub(x, splat(mean)), splat(rstd));
  if (Value gamma = op.getGamma())
    y = b.fmul(y, load(gamma, b.i32(0), column, Access::ReadOnly));
  if (Value beta = op.getBeta())
    y = b.fadd(y, load(beta, b.i32(0), column, Access::ReadOnly));
  return y;
}

void RowNorm::writeTo(const Rows &result, Value resultRow) {
  auto rms = dyn_cast<RMSNormOp>(norm);
  Value center, rstd;
  if (rms) {
    rstd = reciprocalRoot(mean([&](Value x) { return b.fmul(x, x); }),
                          rms.getEps());
  } else {
    center = mean([&](Value x) { return x; });
    // The scratch is read by all before it is written again.
    b.barrier();
    Value variance = mean([&](Value x) {
      Value apart = b.fsub(x, splat(center));
      return b.fmul(apart, apart);
    });
    rstd = reciprocalRoot(variance, cast<LayerNormOp>(norm).getEps());
  }
  b.loop(b.mul(b.thread(), width), b.i32(columns), b.threads() * width,
         [&](Value column) {
           Value x = b.loadWide(input, row, column, width);
           Value y =
               rms ? apply(rms, x, column, rstd)
                   : apply(cast<LayerNormOp>(norm), x, column, center, rstd);
           b.store(y, result, resultRow, column);
         });
}

void cuda::normalizeRow(Launch &launch, Operation *norm, Value row,
                        const Rows &result, Value resultRow) {
  RowNorm(launch, norm, row).writeTo(result, resultRow);
}

/// Blocks are (head, token) where heads are normalized one by one, else (0,
/// token). A row is normalized in shared memory, in f32, and finished from
/// there.
Steps cuda::emitFinish(const Target &target, const Output &output) {
  Operation *norm = output.products[0];
  Launch launch(norm->getLoc(), target.module, target.name, kThreads,
                target.places);
  KernelBuilder &b = launch.b;
  Value input = norm->getOperand(0);
  int64_t size = normSize(norm), heads = rowSize(input) / size;
  Value head = b.block(0), token = b.block(1);
  Rows row = b.shared(b.getF32Type(), size, size);
  normalizeRow(launch, norm, b.add(b.mul(token, heads), head), row, b.i32(0));
  b.barrier();
  int64_t units = size / output.unitColumns();
  Value first = b.mul(head, units), start = b.mul(head, size);
  b.loop(b.thread(), b.i32(units), kThreads, [&](Value i) {
    Value unit = b.add(first, i);
    storeUnit(launch, output, token, unit, [&](int64_t c, int64_t) {
      Value column = b.sub(output.column(b, unit, c), start);
      return b.loadWide(row, b.i32(0), column);
    });
  });
  return {launch.finish({{heads, {}}, launch.gridOf(input, 1)})};
}

Steps cuda::emitNorm(const Target &target, Operation *norm, Place result) {
  Launch launch(norm->getLoc(), target.module, target.name, kThreads,
                target.places);
  KernelBuilder &b = launch.b;
  Value input = norm->getOperand(0);
  auto type = cast<RankedTensorType>(input.getType());
  int64_t size = normSize(norm), heads = rowSize(input) / size;
  Rows rows = launch.rows(result, type.getElementType(), size);
  Value row = b.block(0);
  SmallVector<Dim> grid = {launch.gridOf(input, 1)};
  if (heads > 1) {
    row = b.add(b.mul(row, heads), b.block(1));
    grid.push_back({heads, {}});
  }
  normalizeRow(launch, norm, row, rows, row);
  return {launch.finish(grid)};
}
