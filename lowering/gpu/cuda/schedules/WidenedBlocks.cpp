#include "lowering/gpu/cuda/schedules/WidenedBlocks.h"
#include "lowering/gpu/cuda/Layouts.h"
#include "lowering/gpu/cuda/TensorCores.h"
#include "lowering/kernel/BlockProduct.h"

#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include <numeric>

using namespace mlir;
using namespace cria;
using namespace cria::simt;

/// Bytes of the longest copy; a step begins at a multiple of a word.
static constexpr int64_t kChunk = 16, kWord = 4;
/// The f32 that has a byte, in bits 8 to 15, added to it.
static constexpr int64_t kBase = 1 << 15, kBaseBits = 0x47000000;
/// A base's bytes around byte 0 or 1.. of a word of four codes.
static constexpr int64_t kPlaceByte = 0x7404, kNextByte = 0x10;
/// The bytes of the low halves of two words.
static constexpr int64_t kLowHalves = 0x5410;

cuda::WidenedBlocks::WidenedBlocks(KernelBuilder &b, int64_t bits,
                                   int64_t rowBytes, int64_t rows,
                                   int64_t stages, Type type)
    : b(b), bits(bits), blockBytes(BlockProduct::blockBytes(bits)),
      piece(std::gcd(rowBytes, kChunk)),
      pieces(llvm::divideCeil(kBlocks * blockBytes + piece - kWord, piece)),
      type(type), memory(b.shared(b.getI8Type(), stages * rows * strideOf(bits),
                                  strideOf(bits))) {}

int64_t cuda::WidenedBlocks::strideOf(int64_t bits) {
  int64_t most = kBlocks * BlockProduct::blockBytes(bits) + kChunk - kWord;
  return llvm::alignTo(most - kChunk, 2 * kChunk) + kChunk;
}

/// Bytes of a stage's row before those of the step.
Value cuda::WidenedBlocks::before(Value step) {
  return b.mul(b.rem(step, piece / kWord), kWord);
}

void cuda::WidenedBlocks::fetch(Value first, int64_t count, Value step, At at) {
  Value from = b.sub(b.mul(step, kBlocks * blockBytes), before(step));
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

cuda::WidenedBlocks::Start cuda::WidenedBlocks::startOf(Value row, Value step) {
  Value own = cuda::kMmaW.column(b, b.lane());
  Address scale = b.address(memory, row, before(step));
  return {scale, b.further(b.further(scale, own), memory, 0,
                           BlockProduct::kScaleBytes)};
}

cuda::WidenedBlocks::Start cuda::WidenedBlocks::further(const Start &start,
                                                        int64_t rows) {
  return {b.further(start.scale, memory, rows, 0),
          b.further(start.codes, memory, rows, 0)};
}

SmallVector<Value> cuda::WidenedBlocks::widen(const Start &start,
                                              int64_t block) {
  auto half = [&](Address from, int64_t byte) {
    Address at = b.further(from, memory, 0, block * blockBytes + byte);
    Value bytes = b.loadFrom(at, VectorType::get({2}, b.getI8Type()));
    return b.bitcast(b.getI16Type(), bytes);
  };
  auto permute = [&](Value a, Value other, int64_t selector) -> Value {
    return b.create<NVVM::PermuteOp>(a.getType(), a, other, b.i32(selector),
                                     NVVM::PermuteMode::DEFAULT);
  };
  // Codes 2t, 2t + 1, 2t + 8 and 2t + 9 from `byte` on, one in each byte.
  auto four = [&](int64_t byte) {
    auto pair = [&](int64_t at) -> Value {
      return b.create<arith::ExtUIOp>(b.getI32Type(), half(start.codes, at));
    };
    return permute(pair(byte), pair(byte + 8), kLowHalves);
  };
  SmallVector<Value> words;
  int64_t bias = 1 << (bits - 1);
  if (bits == 8) {
    for (int64_t byte : {0, 16})
      words.push_back(b.exclusiveOr(four(byte), b.i32(0x80808080)));
  } else {
    Value both = four(0), halves = b.i32(0x0f0f0f0f);
    Value high = b.create<arith::ShRUIOp>(both, b.i32(4));
    words = {b.both(both, halves), b.both(high, halves)};
  }
  Value scale = b.widen(b.bitcast(b.getF16Type(), half(start.scale, 0))),
        less = b.fmul(scale, b.f32(static_cast<double>(-kBase - bias)));
  auto number = [&](Value word, int64_t byte) {
    Value based =
        permute(word, b.i32(kBaseBits), kPlaceByte + byte * kNextByte);
    return b.fma(b.bitcast(b.getF32Type(), based), scale, less);
  };
  SmallVector<Value> pairs;
  for (Value word : words)
    for (int64_t byte : {0, 2}) {
      Value two = b.pack({number(word, byte), number(word, byte + 1)});
      pairs.push_back(b.bits(b.narrow(two, type)));
    }
  return pairs;
}
