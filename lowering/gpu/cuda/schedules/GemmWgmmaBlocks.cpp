/// A tiled product with weights in blocks by warpgroups (WgmmaTile.h), in steps
/// of four blocks. What is multiplied is the transpose, w x^T: lanes widen rows
/// of weights to registers (WidenedBlocks.h), which wgmma takes as its left
/// operand, while the products before run. So each number is widened once, and
/// never lies in shared memory.
///
///   warpgroup i, warp w   an eighth of the tile's units, 8 * `each`
///   lane 4g + t           units `each` g to `each` g + `each` - 1 of these, or
///                         smaller groups of `together`; rows 8p + 2t and 8p +
///                         2t + 1 of the input
///
/// A product has 64 rows of weights. Rows g and g + 8 of a warp's 16 belong to
/// a lane: the rows of its units for the first sum, in order, and then those
/// for the second. A tile of 256 rows of weights is two such products.
///
/// So that eight lanes read rows that lie side by side, weights are placed by
/// lanes: to the map a weight is a tensor of bytes
///
///   a row's   8 (g)   together   groups of 8 * together units
///
/// which is copied in this order.
#include "lowering/gpu/cuda/BoxTile.h"
#include "lowering/gpu/cuda/Layouts.h"
#include "lowering/gpu/cuda/TensorCores.h"
#include "lowering/gpu/cuda/schedules/Schedules.h"
#include "lowering/gpu/cuda/schedules/WgmmaTile.h"
#include "lowering/gpu/cuda/schedules/WidenedBlocks.h"
#include "lowering/kernel/BlockProduct.h"

using namespace mlir;
using namespace cria;
using namespace cria::simt;

/// Blocks of a step, and its terms: two boxes of the input.
static constexpr int64_t kBlocks = 4, kTileK = kBlocks * BlockProduct::kNumbers;

namespace {
class WidenedWgmmaGemm : public WgmmaTile {
public:
  WidenedWgmmaGemm(Launch &launch, const GemmProblem &problem)
      : WgmmaTile(launch, problem, columnsOf(problem), kTileK),
        bits(works[0].dots[0].bits),
        stride(cuda::WidenedBlocks::strideOf(bits, kBlocks)),
        each(unitsOfTile() / 64),
        blocks(b, works[0].dots[0], weightLength, kBlocks, x.rows.element) {
    together = each;
    leastTogether = 1;
    readers = kWarp; // lanes read what they widen
    stages = std::min(stages, kLaunchedMemory / slotBytes());
    // Rows of weights rather than rows of their blocks.
    int64_t count = k / BlockProduct::kNumbers;
    for (auto [work, own] : llvm::zip(works, weights))
      for (Operand &weight : own) {
        weight.row = launch.of.elements.simplify(weight.row.floorDiv(count),
                                                 work.longBox());
        weight.rows.stride = weightLength;
      }
  }
  void begin() override;

private:
  int64_t group() const override { return 8 * together; }
  Boxes boxesOf(const Operand &weight, int64_t units) override;
  Value firstW(Value step) override { return blocks.firstByte(step); }
  Address rowW(Value slot, Value row) override {
    return b.address(bytes, row, byteOfW(slot));
  }
  /// Where the weights of a slot begin.
  Value byteOfW(Value slot) {
    return b.add(b.mul(slot, slotBytes()), bytesOfX());
  }
  int64_t bytesOfW() const override { return n * stride; }
  /// A lane has few units of many rows.
  size_t finishedParts() const override { return 4; }
  std::vector<Sums> sum(cuda::Ring &ring, const Corner &corner,
                        Value before) override;
  using Products = SmallVector<Value>; // the sums of each
  Products multiply(const cuda::Ring::Slot &slot, Value step, Products sums,
                    llvm::function_ref<void()> begun);
  std::vector<Sums> sumsOf(ArrayRef<SmallVector<Value>> sums);
  int64_t products() const { return n / 128; }

  int64_t bits;
  int64_t stride; // of rows of weights in a slot
  int64_t each;   // units of a lane
  cuda::WidenedBlocks blocks;
  Rows bytes; // the slots
};
} // namespace

void WidenedWgmmaGemm::begin() {
  WgmmaTile::begin();
  bytes = b.launchedShared(b.getI8Type(), launchedBytes(), stride);
  blocks.lieIn(bytes);
}

WgmmaTile::Boxes WidenedWgmmaGemm::boxesOf(const Operand &weight,
                                           int64_t units) {
  auto type = cast<MemRefType>(weight.rows.base.getType());
  int64_t length = weightLength,
          groups = type.getNumElements() / (group() * length);
  SmallVector<int64_t> box = {stride, 8, together, units / group()};
  TensorMap map = {{length, 8, together, groups},
                   {together * length, length, group() * length},
                   box};
  return {launch.tensorMap(weight.rows, map), box, units};
}

/// Multiplies a step. `begun` is called when the step's first products have
/// begun, and all products of the previous step are done.
WidenedWgmmaGemm::Products
WidenedWgmmaGemm::multiply(const cuda::Ring::Slot &slot, Value step,
                           Products sums, llvm::function_ref<void()> begun) {
  Value startX = cuda::describeRows(b, b.address(slots, b.i32(0), b.i32(0)));
  Value chunks = b.mul(slot.number, slotBytes() / 16);
  Value row = b.add(b.mul(b.warp(), 8 * each), cuda::kMmaX.row(b, b.lane()));
  auto first = blocks.startOf(row, byteOfW(slot.number), step);
  // Of the lane's rows, which are units of its sums.
  auto read = [&](int64_t i, int64_t block) {
    int64_t further = i / each * unitsOfTile() + i % each * 8;
    return blocks.read(blocks.further(first, further), block);
  };
  for (Value &sum : sums)
    sum = cuda::fenceSums(b, sum);
  cuda::BoxTile tile{slots, {}, kTileM, kTileK};
  for (int64_t block = 0; block < kBlocks; ++block) {
    std::array<Value, 2> rows; // of the input, 16 terms
    for (auto [half, own] : llvm::enumerate(rows)) {
      int64_t term =
          block * BlockProduct::kNumbers + static_cast<int64_t>(half) * 16;
      own = cuda::further(b, startX, b.add(chunks, tile.chunksTo(0, term)));
    }
    for (auto [i, sum] : llvm::enumerate(sums)) {
      auto number = static_cast<int64_t>(i);
      auto top = read(2 * number, block), bottom = read(2 * number + 1, block);
      for (int64_t half = 0; half < 2; ++half) {
        auto up = blocks.widen(top, half), down = blocks.widen(bottom, half);
        auto w = cuda::fenceOperands(b, {up[0], down[0], up[1], down[1]});
        sum = cuda::multiplyTransposed(b, x.rows.element, kTileM, w, rows[half],
                                       sum);
        cuda::commitProducts(b);
        cuda::awaitProducts(b, 1);
      }
      if (block == 0 && number == 0)
        begun();
    }
  }
  return sums;
}

std::vector<GemmTile::Sums>
WidenedWgmmaGemm::sum(cuda::Ring &ring, const Corner &corner, Value before) {
  auto [tells, to] = teller();
  Products init;
  for (int64_t i = 0; i < products(); ++i)
    init.push_back(cuda::zeroSums(b, kTileM));
  Products sums =
      b.loop(corner.first, corner.end, 1, init,
             [&, tells = tells, to = to](Value at, ValueRange carried) {
               Value turn = b.add(before, b.sub(at, corner.first));
               cuda::Ring::Slot slot = ring.slot(turn);
               ring.await(slot);
               return multiply(slot, at, Products(carried), [&] {
                 cuda::warpBarrier(b);
                 // Opaque: LLVM would write the loop's body twice, for the
                 // first step.
                 b.when(b.both(tells, b.less(corner.first, b.opaque(at))), [&] {
                   ring.release(ring.slot(b.sub(turn, b.i32(1))), to);
                 });
               });
             });
  std::vector<SmallVector<Value>> done;
  for (Value each : sums)
    done.push_back(cuda::awaitSums(b, each));
  cuda::warpBarrier(b);
  b.when(tells, [&, to = to] {
    ring.release(ring.slot(b.sub(behind(corner, before), b.i32(1))), to);
  });
  return sumsOf(done);
}

std::vector<GemmTile::Sums>
WidenedWgmmaGemm::sumsOf(ArrayRef<SmallVector<Value>> sums) {
  // Computed anew: registers are few while products are added up.
  Value thread = b.opaque(b.thread());
  Value lane = b.rem(thread, kWarp), warp = b.div(thread, kWarp);
  Value row = cuda::kMmaSums.column(b, lane);
  Value unit = b.add(b.mul(warp, 8 * each),
                     b.mul(cuda::kMmaSums.row(b, lane), together));
  std::vector<Sums> result;
  for (int64_t first = 0; first < kTileM; first += 8)
    for (int64_t e = 0; e < 2; ++e)
      for (int64_t own = 0; own < each; own += together) {
        Sums &all = result.emplace_back();
        all.row = b.add(row, first + e);
        all.unit = b.add(unit, own * 8);
        for (int64_t s = 0; s < sumsOfUnit(); ++s) {
          SmallVector<Value> &values = all.values.emplace_back();
          for (int64_t i = 0; i < together; ++i) {
            int64_t number = s * each + own + i;
            values.push_back(sums[number / 2][first / 2 + number % 2 * 2 + e]);
          }
        }
      }
  return result;
}

GemmKernel cuda::makeWidenedWgmmaGemm(const GemmProblem &problem,
                                      const Twine &name) {
  // Rows lie apart by as much as a map can say.
  const Dot &dot = problem.works[0].dots[0];
  int64_t blocks = dot.terms.constant / BlockProduct::kNumbers;
  if (blocks * BlockProduct::blockBytes(dot.bits) % 16)
    return {};
  return beginWgmma<WidenedWgmmaGemm>(problem, name);
}
