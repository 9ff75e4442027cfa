#include "lowering/gpu/schedules/Chains.h"

using namespace mlir;
using namespace cria;
using namespace cria::simt;

void simt::forChain(Launch &launch, const StateNumbers &numbers, Value first,
                    Value count, llvm::function_ref<void(Value)> body) {
  KernelBuilder &b = launch.b;
  auto read = [&](Value row) { return launch.value(numbers.read, row); };
  auto written = [&](Value row) { return launch.value(numbers.written, row); };
  Value own = read(first);
  Value follows =
      b.loop(b.i32(0), first, 1, b.i32(0), [&](Value row, ValueRange before) {
        Value writes = b.equal(written(row), own);
        return SmallVector<Value>{b.select(writes, b.i32(1), before[0])};
      })[0];
  b.when(b.equal(follows, b.i32(0)), [&] {
    b.loop(first, count, 1, own, [&](Value row, ValueRange last) {
      Value isNext = b.equal(read(row), last[0]);
      return SmallVector<Value>{b.choose(
          isNext,
          [&] {
            body(row);
            return written(row);
          },
          last[0])};
    });
  });
}
