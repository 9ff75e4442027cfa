/// A tiled product of 16 bits by warpgroups (WgmmaTile.h), in steps of 64: each
/// of two warpgroups has 64 rows of the input and all of the tile's columns.
///
/// Rows of weights lie in the tile so that a lane has the sums of neighbouring
/// units. Lane t holds columns 2t and 2t + 1 of each product p. For eight units
/// of one sum, weights are placed so that these columns are units 8t + 2p and
/// 8t + 2p + 1. To the map a weight is a tensor
///
///   k   2   4 (t)   4 (p)   groups of 32 units
///
/// which is copied in this order.
#include "lowering/gpu/cuda/Layouts.h"
#include "lowering/gpu/cuda/schedules/Schedules.h"
#include "lowering/gpu/cuda/schedules/WgmmaTile.h"

using namespace mlir;
using namespace cria;
using namespace cria::simt;

/// Terms of a step: a box's row.
static constexpr int64_t kTileK = 64;

namespace {
class WgmmaGemm : public WgmmaTile {
public:
  WgmmaGemm(Launch &launch, const GemmProblem &problem)
      : WgmmaTile(launch, problem, columnsOf(problem), kTileK) {
    together = 8;
    leastTogether = 2;
  }

private:
  int64_t group() const override { return 4 * together; }
  Boxes boxesOf(const Operand &weight, int64_t units) override;
  Value firstW(Value step) override { return b.mul(step, kTileK); }
  Address rowW(Value slot, Value row) override {
    Value start = b.mul(slot, slotBytes() / cuda::kBoxBytes);
    return b.address(slots, b.add(start, b.add(row, kTileM)), b.i32(0));
  }
  int64_t bytesOfW() const override { return n * cuda::kBoxBytes; }
  std::vector<Sums> sum(cuda::Ring &ring, const Corner &corner,
                        Value before) override;
  std::vector<Sums> sumsOf(ValueRange sums);
};
} // namespace

WgmmaTile::Boxes WgmmaGemm::boxesOf(const Operand &weight, int64_t units) {
  int64_t stride = weight.rows.stride;
  auto type = cast<MemRefType>(weight.rows.base.getType());
  int64_t groups = type.getNumElements() / (group() * stride);
  SmallVector<int64_t> box = {kTileK, 2, 4, together / 2, units / group()};
  TensorMap map = {{k, 2, 4, together / 2, groups},
                   {stride, together * stride, 2 * stride, group() * stride},
                   box};
  return {launch.tensorMap(weight.rows, map), box, units};
}

/// A step's slot is released once the next step's products have begun and this
/// step's are done, so that some products are always under way.
std::vector<GemmTile::Sums> WgmmaGemm::sum(cuda::Ring &ring,
                                           const Corner &corner, Value before) {
  Value warpgroup = b.div(b.thread(), cuda::kWarpgroup);
  auto [tells, to] = teller();
  Value startX = cuda::describeRows(
      b, b.address(slots, b.mul(warpgroup, kTileM / 2), b.i32(0)));
  Value startW =
      cuda::describeRows(b, b.address(slots, b.i32(kTileM), b.i32(0)));
  SmallVector<Value> sums = b.loop(
      corner.first, corner.end, 1, cuda::zeroSums(b, n),
      [&, tells = tells, to = to](Value at, ValueRange carried) {
        Value turn = b.add(before, b.sub(at, corner.first));
        cuda::Ring::Slot slot = ring.slot(turn);
        ring.await(slot);
        Value next = cuda::fenceSums(b, carried[0]);
        Value chunks = b.mul(slot.number, slotBytes() / 16);
        for (int64_t i = 0; i < kTileK / 16; ++i) {
          Value own = b.add(chunks, i * 2);
          next = cuda::multiplyTiles(b, x.rows.element, n,
                                     cuda::further(b, startX, own),
                                     cuda::further(b, startW, own), next);
        }
        cuda::commitProducts(b);
        cuda::awaitProducts(b, 1);
        // Opaque: LLVM would write the loop's body twice, for the first step.
        b.when(b.both(tells, b.less(corner.first, b.opaque(at))),
               [&] { ring.release(ring.slot(b.sub(turn, b.i32(1))), to); });
        return SmallVector<Value>{next};
      });
  SmallVector<Value> done = cuda::awaitSums(b, sums[0]);
  b.when(tells, [&, to = to] {
    ring.release(ring.slot(b.sub(behind(corner, before), b.i32(1))), to);
  });
  return sumsOf(done);
}

/// The sums of a lane, of rows g and g + 8 of its warp's 16.
std::vector<GemmTile::Sums> WgmmaGemm::sumsOf(ValueRange sums) {
  // Computed anew: registers are few while products are added up.
  Value thread = b.opaque(b.thread());
  Value lane = b.rem(thread, kWarp), warp = b.div(thread, kWarp);
  Value row = b.add(b.mul(warp, 16), cuda::kMmaSums.row(b, lane));
  Value unit = b.mul(b.rem(lane, 4), together);
  std::vector<Sums> result;
  for (int64_t i = 0; i < 2; ++i)
    for (int64_t first = 0; first < unitsOfTile(); first += group()) {
      Sums &own = result.emplace_back();
      own.row = b.add(row, i * 8);
      own.unit = b.add(unit, first);
      for (int64_t s = 0; s < sumsOfUnit(); ++s) {
        SmallVector<Value> &values = own.values.emplace_back();
        for (int64_t p = 0; p < together / 2; ++p)
          for (int64_t e = 0; e < 2; ++e) {
            int64_t product = (s * unitsOfTile() + first) / 8 + p;
            values.push_back(sums[product * 4 + i * 2 + e]);
          }
      }
    }
  return result;
}

GemmKernel cuda::makeWgmmaGemm(const GemmProblem &problem, const Twine &name) {
  return beginWgmma<WgmmaGemm>(problem, name);
}
