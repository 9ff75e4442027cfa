/// A tiled product with matrices in blocks (BlockProduct.h), on tensor cores of
/// integers (mma.sync, sm_80):
///
///   block: 64 rows of the input x 64 rows of weights, in k steps of 4 blocks
///     two stages in shared memory, filled by cp.async a step ahead with the
///     bytes as they lie: the input's codes and scales, the weights' blocks
///     warp w: rows w / 2 * 32 + 0..31, columns w % 2 * 32 + 0..31, as 2 x 4
///     products of 16 x 8 x 32, a block each:
///       sums += float(codes of x . codes of w) * (scale of x * scale of w)
///
/// A row of the input's stage is 128 bytes, eight chunks of 16; chunk c of row
/// r lies at c ^ s, where s is r % 8 with its highest bit moved below the
/// others. So the eight rows of an ldmatrix hit all banks, and so do two chunks
/// of four rows, which eight lanes copy. A row of the weights' stage is an odd
/// number of 16 bytes: then four words of eight rows are in all banks. A block
/// of weights begins at an even byte: every other one's codes do not begin at a
/// word, and are shifted together from two.
///
/// With g = lane / 4 and t = lane % 4 a lane holds of weights the column g,
/// bytes 4t and 16 + 4t of its codes (PTX ISA, mma.m16n8k32): of four bits both
/// are halves of the same bytes.
#include "lowering/gpu/cuda/Layouts.h"
#include "lowering/gpu/cuda/TensorCores.h"
#include "lowering/gpu/cuda/schedules/MmaTile.h"
#include "lowering/gpu/cuda/schedules/Schedules.h"
#include "lowering/kernel/BlockProduct.h"

#include <numeric>

using namespace mlir;
using namespace cria;
using namespace cria::simt;

/// A tile, the blocks of numbers in a step, and stages. Integers become floats
/// in registers: one tile for all rows leaves four blocks on a multiprocessor.
static constexpr int64_t kTileM = kOneTileRows, kTileN = 64, kBlocks = 4,
                         kStages = 2;
static constexpr int64_t kNumbers = BlockProduct::kNumbers;
static constexpr int64_t kChunk = 16, kWord = 4;
static constexpr int64_t kWarpsDown = 2;
/// Threads that fill a row of a stage.
static constexpr int64_t kFillers = kGemmThreads / kTileM;
/// The order of chunks: what the bits of a row's number add.
static constexpr int64_t kOrder[] = {2, 4, 1};
/// In each byte of a word: its low half, the sign, and 8.
static constexpr int64_t kLowHalves = 0x0f0f0f0f, kEights = 0x08080808;
static constexpr int64_t kSigns = -0x7f7f7f80;

/// Bytes from a row of the weights' stage to the next.
static int64_t strideOf(int64_t blockBytes) {
  return llvm::alignTo(kBlocks * blockBytes - kChunk, 2 * kChunk) + kChunk;
}

namespace {
class BlockGemm : public MmaTile {
public:
  BlockGemm(Launch &launch, const GemmProblem &problem)
      : MmaTile(launch, problem.works,
                problem.grouped({kTileM, kTileN, kBlocks * kNumbers,
                                 problem.tuning.splits.blocks,
                                 problem.tuning.splits}),
                problem.rows(), kWarpsDown),
        bits(works[0].dots[0].bits), bytes(BlockProduct::blockBytes(bits)),
        scale(Operand::of(launch, works[0], works[0].dots[0].scale, k)),
        codes(b.shared(b.getI8Type(), kStages * kTileM * kBlocks * kNumbers,
                       kBlocks * kNumbers)),
        scales(b.shared(b.getF16Type(), kStages * kTileM * kBlocks, kBlocks)),
        weightBytes(b.shared(b.getI8Type(), kStages * kTileN * strideOf(bytes),
                             strideOf(bytes))) {}

private:
  void multiplyTiles(Value rows) override {
    multiplyOne(rows, [&](const Corner &corner) { return multiply(corner); });
  }
  std::vector<Sums> multiply(const Corner &corner);
  Rows freeMemory() const override { return codes; }
  Value columnOf(Value row, Value chunk);
  void fetch(const Corner &corner, Value step);
  SmallVector<Value> step(Value step, ValueRange sums);
  SmallVector<Value> weightsOf(Value row, Value word, int64_t block);
  Value scaleOf(Value row, int64_t block);
  Value word(Value row, Value word, int64_t byte);

  int64_t bits, bytes;
  Operand scale;
  /// Stage after stage.
  Rows codes, scales, weightBytes;
};
} // namespace

//===----------------------------------------------------------------------===//
// Stages
//===----------------------------------------------------------------------===//

/// Where a chunk of a row of the input lies.
Value BlockGemm::columnOf(Value row, Value chunk) {
  return b.mul(cuda::swizzle(b, row, chunk, kOrder), kChunk);
}

/// Begins to fill the stage of a step; what is after the end is zeros.
void BlockGemm::fetch(const Corner &corner, Value step) {
  Value row = b.div(b.thread(), kFillers), own = b.rem(b.thread(), kFillers);
  Value stage = b.mul(b.rem(step, kStages), kTileM);
  Value to = b.add(stage, row), block = b.mul(step, kBlocks);
  for (int64_t i = 0; i < kBlocks * kNumbers / kChunk; i += kFillers) {
    Value chunk = b.add(own, i);
    Guarded from = elementX(
        corner, row, b.add(b.mul(block, kNumbers), b.mul(chunk, kChunk)));
    cuda::copyAsync(b, b.address(codes, to, columnOf(row, chunk)), from.address,
                    kChunk, from.exists);
  }
  int64_t width = std::gcd<int64_t>(weightLength, 8);
  int64_t each = kBlocks * bytes / width;
  for (int64_t i = 0; i < each; i += kFillers) {
    Value column = b.mul(b.add(own, i), width);
    auto copy = [&] {
      Guarded from =
          elementW(corner, unitOf(row), b.add(b.mul(block, bytes), column));
      cuda::copyAsync(b, b.address(weightBytes, to, column), from.address,
                      width, from.exists);
    };
    if (i + kFillers <= each)
      copy();
    else
      b.when(b.less(b.add(own, i), b.i32(each)), copy);
  }
  int64_t blocks = k / kNumbers, together = std::gcd(blocks, kBlocks);
  b.when(b.equal(own, b.i32(0)), [&] {
    for (int64_t i = 0; i < kBlocks; i += together) {
      Guarded from = elementOf(scale, blocks, corner, row, b.add(block, i));
      cuda::copyAsync(b, b.address(scales, to, b.i32(i)), from.address,
                      2 * together, from.exists);
    }
  });
  cuda::commitCopies(b);
}

//===----------------------------------------------------------------------===//
// Products
//===----------------------------------------------------------------------===//

/// Four bytes from byte `byte` of a row of weights on, `at` words further.
Value BlockGemm::word(Value row, Value at, int64_t byte) {
  auto aligned = [&](int64_t byte) {
    return b.bits(
        b.load(weightBytes, row, b.add(b.mul(at, kWord), byte), kWord));
  };
  int64_t behind = byte % kWord * 8;
  if (!behind)
    return aligned(byte);
  Value low =
      b.create<arith::ShRUIOp>(aligned(byte - behind / 8), b.i32(behind));
  Value high = b.create<arith::ShLIOp>(aligned(byte - behind / 8 + kWord),
                                       b.i32(32 - behind));
  return b.create<arith::OrIOp>(low, high);
}

/// A lane's codes of a block.
SmallVector<Value> BlockGemm::weightsOf(Value row, Value at, int64_t block) {
  int64_t first = block * bytes + BlockProduct::kScaleBytes;
  if (bits == 8)
    return {word(row, at, first), word(row, at, first + kChunk)};
  // Each less 8, without a borrow from its neighbour.
  Value both = word(row, at, first), signs = b.i32(kSigns);
  auto codes = [&](Value halves) {
    Value code = b.both(halves, b.i32(kLowHalves));
    code = b.sub(b.create<arith::OrIOp>(code, signs), b.i32(kEights));
    return b.exclusiveOr(code, signs);
  };
  return {codes(both), codes(b.create<arith::ShRUIOp>(both, b.i32(4)))};
}

Value BlockGemm::scaleOf(Value row, int64_t block) {
  Value half =
      b.load(weightBytes, row, b.i32(block * bytes), BlockProduct::kScaleBytes);
  return b.widen(b.bitcast(b.getF16Type(), half));
}

SmallVector<Value> BlockGemm::step(Value step, ValueRange sums) {
  SmallVector<Value> next(sums);
  Value lane = b.lane();
  Value stage = b.mul(b.rem(step, kStages), kTileM);
  Value g = cuda::kMmaSums.row(b, lane);
  Value word = b.div(cuda::kMmaBytesW.column(b, lane), kWord);
  Value tileX = b.add(stage, firstRow(b.warp()));
  Value tileW = b.add(stage, firstColumn(b.warp()));
  for (int64_t block = 0; block < kBlocks; ++block) {
    SmallVector<SmallVector<Value>> xs, scalesX;
    for (int64_t i = 0; i < down(); ++i) {
      Value row = b.add(b.add(tileX, i * 16), cuda::kLoadX.row(b, lane));
      Value chunk = b.add(cuda::kLoadX.column(b, lane), block * 2);
      xs.push_back(
          cuda::loadMatrices(b, b.address(codes, row, columnOf(row, chunk))));
      Value own = b.add(b.add(tileX, i * 16), g);
      scalesX.push_back({b.loadWide(scales, own, b.i32(block)),
                         b.loadWide(scales, b.add(own, 8), b.i32(block))});
    }
    for (int64_t j = 0; j < across(); ++j) {
      Value tile = b.add(tileW, j * 8);
      Value column = b.add(tile, cuda::kMmaSums.column(b, lane));
      SmallVector<Value> ws = weightsOf(b.add(tile, g), word, block);
      Value scalesW[] = {scaleOf(column, block),
                         scaleOf(b.add(column, 1), block)};
      for (int64_t i = 0; i < down(); ++i)
        for (auto [s, dot] : llvm::enumerate(cuda::mmaBytes(b, xs[i], ws))) {
          Value &sum = next[(i * across() + j) * 4 + s];
          Value real = b.create<arith::SIToFPOp>(b.getF32Type(), dot);
          sum = b.fma(real, b.fmul(scalesX[i][s / 2], scalesW[s % 2]), sum);
        }
    }
  }
  return next;
}

std::vector<GemmTile::Sums> BlockGemm::multiply(const Corner &corner) {
  fetch(corner, corner.first);
  SmallVector<Value> init(down() * across() * 4, b.f32(0));
  auto sums = b.loop(
      corner.first, corner.end, 1, init, [&](Value at, ValueRange carried) {
        // This step's copies have landed, everybody's; and the
        // other stage is free.
        cuda::awaitCopies(b, 0);
        b.barrier();
        Value next = b.add(at, 1);
        b.when(b.less(next, corner.end), [&] { fetch(corner, next); });
        return step(at, carried);
      });
  return sumsOf(sums);
}

GemmKernel cuda::makeBlockGemm(const GemmProblem &problem, const Twine &name) {
  auto launch = std::make_unique<Launch>(problem.function, name, kGemmThreads);
  auto tile = std::make_unique<BlockGemm>(*launch, problem);
  return {std::move(launch), std::move(tile)};
}
