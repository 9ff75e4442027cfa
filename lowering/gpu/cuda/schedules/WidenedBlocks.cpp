#include "lowering/gpu/cuda/schedules/WidenedBlocks.h"
#include "lowering/gpu/cuda/Layouts.h"
#include "lowering/gpu/cuda/TensorCores.h"
#include "lowering/kernel/BlockProduct.h"

#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include <numeric>

using namespace mlir;
using namespace cria;
using namespace cria::simt;

/// Bytes of the longest copy.
static constexpr int64_t kChunk = 16;
/// The f32 that has a byte, in bits 8 to 15, added to it.
static constexpr int64_t kBase = 1 << 15, kBaseBits = 0x47000000;
/// A base's bytes around byte 0 or 1.. of a word of four codes.
static constexpr int64_t kPlaceByte = 0x7404, kNextByte = 0x10;
/// Words of the two low bytes of x and of y: x0 x1 y0 y1, or y0 x0 y1 x1.
static constexpr int64_t kLowHalves = 0x5410, kOddBytes = 0x1504;
/// The signs of four bytes, and their low halves.
static constexpr int64_t kSigns = 0x80808080, kNibbles = 0x0f0f0f0f;
/// The signs of two f16, and what follows the exponent's first bit until the
/// last bit of a float of 8 bits.
static constexpr int64_t kHalfSigns = 0x80008000, kHalfParts = 0x3f803f80;
/// What is added to codes so that none is negative.
static int64_t biasOf(int64_t bits) { return 1 << (bits - 1); }

/// Bytes of a step, with the most that a copy of `piece` bytes has before them.
static int64_t copiedBytes(int64_t stepBytes, int64_t piece) {
  return stepBytes + piece - std::gcd(stepBytes, piece);
}

Value cuda::floatsOf(KernelBuilder &b, Value word) {
  Value shifted = b.create<arith::ShRUIOp>(word, b.i32(1));
  Value signs = b.both(word, b.i32(kHalfSigns)),
        parts = b.both(shifted, b.i32(kHalfParts));
  return b.bitcast(VectorType::get({2}, b.getF16Type()),
                   b.create<arith::OrIOp>(signs, parts));
}

cuda::WidenedBlocks::WidenedBlocks(KernelBuilder &b, const Dot &dot,
                                   int64_t rowBytes, int64_t blocks, Type type)
    : b(b), bits(dot.bits), isFloat(dot.isFloat),
      blockBytes(BlockProduct::blockBytes(bits)),
      stepBytes(blocks * blockBytes), piece(std::gcd(rowBytes, kChunk)),
      pieces(llvm::divideCeil(copiedBytes(stepBytes, piece), piece)),
      type(type) {}

int64_t cuda::WidenedBlocks::strideOf(int64_t bits, int64_t blocks) {
  int64_t most = copiedBytes(blocks * BlockProduct::blockBytes(bits), kChunk);
  return llvm::alignTo(most - kChunk, 2 * kChunk) + kChunk;
}

/// How many bytes of earlier steps a row of a stage begins with.
Value cuda::WidenedBlocks::before(Value step) {
  return b.rem(b.mul(step, stepBytes), piece);
}

Value cuda::WidenedBlocks::firstByte(Value step) {
  return b.sub(b.mul(step, stepBytes), before(step));
}

void cuda::WidenedBlocks::fetch(Value first, int64_t count, Value step, At at) {
  Value from = firstByte(step);
  auto copy = [&](Value i) {
    Value row = b.div(i, pieces), byte = b.mul(b.rem(i, pieces), piece);
    auto [address, exists] = at(row, b.add(from, byte));
    cuda::copyAsync(b, b.address(memory, b.add(first, row), byte), address,
                    piece, exists);
  };
  int64_t all = count * pieces;
  // Narrower copies are many: their addresses would not fit registers.
  if (piece < kChunk)
    return b.loop(b.lane(), b.i32(all), kWarp, copy);
  for (int64_t i = 0; i < all; i += kWarp) {
    Value own = b.add(b.lane(), i);
    if (i + kWarp <= all)
      copy(own);
    else
      b.when(b.less(own, b.i32(all)), [&] { copy(own); });
  }
}

cuda::WidenedBlocks::Start cuda::WidenedBlocks::startOf(Value row, Value byte,
                                                        Value step) {
  Value own = cuda::kMmaW.column(b, b.lane());
  Address scale = b.address(memory, row, b.add(byte, before(step)));
  return {scale, b.further(b.further(scale, own), memory, 0,
                           BlockProduct::kScaleBytes)};
}

cuda::WidenedBlocks::Start cuda::WidenedBlocks::further(const Start &start,
                                                        int64_t rows) {
  return {b.further(start.scale, memory, rows, 0),
          b.further(start.codes, memory, rows, 0)};
}

/// Two bytes, i16.
static Value twoBytes(KernelBuilder &b, Address at) {
  Value bytes = b.loadFrom(at, VectorType::get({2}, b.getI8Type()));
  return b.bitcast(b.getI16Type(), bytes);
}

static Value permute(KernelBuilder &b, Value low, Value high,
                     int64_t selector) {
  return b.create<NVVM::PermuteOp>(low.getType(), low, high, b.i32(selector),
                                   NVVM::PermuteMode::DEFAULT);
}

/// The lane's bytes 2t, 2t + 1, 2t + 8 and 2t + 9 from `byte` on.
Value cuda::WidenedBlocks::fourCodes(const Address &codes, int64_t byte,
                                     int64_t order) {
  auto pair = [&](int64_t at) -> Value {
    return b.create<arith::ExtUIOp>(
        b.getI32Type(), twoBytes(b, b.further(codes, memory, 0, at)));
  };
  return permute(b, pair(byte), pair(byte + 8), order);
}

cuda::WidenedBlocks::Block cuda::WidenedBlocks::read(const Start &start,
                                                     int64_t block) {
  Address scale = b.further(start.scale, memory, 0, block * blockBytes);
  Block result;
  result.codes = b.further(start.codes, memory, 0, block * blockBytes);
  Value stored = b.bitcast(b.getF16Type(), twoBytes(b, scale));
  if (isFloat) {
    result.scale = type.isF16() ? b.splat(stored, 2) : b.widen(stored);
    return result;
  }
  result.scale = b.widen(stored);
  auto bias = static_cast<double>(-kBase - biasOf(bits));
  result.bias = b.fmul(result.scale, b.f32(bias));
  if (bits == 4)
    result.bytes = fourCodes(result.codes, 0, kLowHalves);
  return result;
}

SmallVector<Value> cuda::WidenedBlocks::widen(const Block &block,
                                              int64_t half) {
  if (isFloat)
    return widenFloats(block, half);
  Value codes; // plus the bias
  if (bits == 8) {
    codes = b.exclusiveOr(fourCodes(block.codes, half * 16, kLowHalves),
                          b.i32(kSigns));
  } else {
    Value bytes =
        half ? b.create<arith::ShRUIOp>(block.bytes, b.i32(4)) : block.bytes;
    codes = b.both(bytes, b.i32(kNibbles));
  }
  auto number = [&](int64_t byte) {
    Value based =
        permute(b, codes, b.i32(kBaseBits), kPlaceByte + byte * kNextByte);
    return b.fma(b.bitcast(b.getF32Type(), based), block.scale, block.bias);
  };
  SmallVector<Value> pairs;
  for (int64_t byte : {0, 2}) {
    Value two = b.pack({number(byte), number(byte + 1)});
    pairs.push_back(b.bits(b.narrow(two, type)));
  }
  return pairs;
}

SmallVector<Value> cuda::WidenedBlocks::widenFloats(const Block &block,
                                                    int64_t half) {
  Value codes = fourCodes(block.codes, half * 16, kOddBytes);
  Value others = b.create<arith::ShLIOp>(codes, b.i32(8));
  SmallVector<Value> pairs;
  for (Value word : {codes, others}) {
    Value two = floatsOf(b, word);
    if (type.isF16())
      two = b.create<arith::MulFOp>(two, block.scale);
    else
      two = b.narrow(b.fmul(b.widen(two), b.splat(block.scale, 2)), type);
    pairs.push_back(b.bits(two));
  }
  return pairs;
}
