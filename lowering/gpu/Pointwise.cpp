/// One thread an element, or a pair that is rotated together.
#include "lowering/gpu/Emitters.h"

using namespace mlir;
using namespace cria;
using namespace cria::cuda;
using namespace cria::llama;

static constexpr int64_t kThreads = 256;

Steps cuda::emitPointwise(const Target &target, const KernelSpec &spec) {
  Steps steps;
  for (auto [i, output] : llvm::enumerate(spec.outputs)) {
    std::string name = target.name;
    if (i)
      name += "_" + std::to_string(i);
    Launch launch(spec.loc, target.module, name, kThreads, target.places);
    KernelBuilder &b = launch.b;
    int64_t units = output.units();
    Value unit = b.add(b.mul(b.block(0), kThreads), b.thread());
    b.when(b.less(unit, b.i32(units)), [&] {
      storeUnit(launch, output, b.block(1), unit,
                [](int64_t, int64_t) -> Value {
                  llvm_unreachable("an output without products");
                });
    });
    int64_t blocks = llvm::divideCeil(units, kThreads);
    steps.push_back(
        launch.finish({{blocks, {}}, launch.gridOf(output.expression, 1)}));
  }
  return steps;
}

Steps cuda::emitEmbed(const Target &target, EmbedOp op, Value result) {
  Launch launch(op.getLoc(), target.module, target.name, kThreads,
                target.places);
  KernelBuilder &b = launch.b;
  Rows ids = launch.rows(op.getIds()), table = launch.rows(op.getTable());
  Rows rows = launch.rows(result);
  int64_t columns = rowSize(op.getTable());
  int64_t width = accessWidth(table.element, columns);
  Value row = b.block(0);
  Value id = b.load(ids, b.i32(0), row);
  b.loop(b.mul(b.thread(), width), b.i32(columns), kThreads * width,
         [&](Value column) {
           Value x = b.loadWide(table, id, column, width, Access::ReadOnly);
           double scale = op.getScale().convertToDouble();
           if (scale != 1)
             x = b.fmul(x, b.splat(b.f32(scale), width));
           b.store(x, rows, row, column);
         });
  return {launch.finish({launch.gridOf(op.getIds(), 1)})};
}
