#include "lowering/cpu/VectorBuilder.h"
#include "dialect/Attributes.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/Dialect/X86Vector/X86VectorDialect.h"
#include "mlir/IR/TypeUtilities.h"
#include "llvm/Support/SaveAndRestore.h"

using namespace mlir;
using namespace cria;

Value VectorBuilder::index(int64_t value) {
  return create<arith::ConstantIndexOp>(value);
}

VectorType VectorBuilder::vectorType(int64_t lanes, Type element) {
  return VectorType::get({lanes}, element);
}

Value VectorBuilder::zero(int64_t lanes) {
  return create<arith::ConstantOp>(
      getZeroAttr(vectorType(lanes, getF32Type())));
}

Value VectorBuilder::load(Value memref, ValueRange at, int64_t lanes) {
  Type element = getElementTypeOrSelf(memref.getType());
  return create<vector::LoadOp>(vectorType(lanes, element), memref, at);
}

Value VectorBuilder::loadWide(Value memref, ValueRange at, int64_t lanes) {
  Value vector = load(memref, at, lanes);
  if (getElementTypeOrSelf(memref.getType()).isF32())
    return vector;
  return create<arith::ExtFOp>(vectorType(lanes, getF32Type()), vector);
}

std::array<Value, 2> VectorBuilder::loadHalves(Value memref, ValueRange at) {
  Type bits = vectorType(unit.lanes, getI32Type()),
       floats = vectorType(unit.lanes, getF32Type());
  Value pairs =
      create<vector::BitCastOp>(bits, load(memref, at, 2 * unit.lanes));
  auto constant = [&](uint32_t value) {
    return create<arith::ConstantOp>(
        DenseElementsAttr::get(cast<ShapedType>(bits), APInt(32, value)));
  };
  Value low = create<arith::ShLIOp>(pairs, constant(16)),
        high = create<arith::AndIOp>(pairs, constant(0xffff0000));
  return {create<vector::BitCastOp>(floats, low),
          create<vector::BitCastOp>(floats, high)};
}

void VectorBuilder::store(Value vector, Value memref, ValueRange at) {
  create<vector::StoreOp>(vector, memref, at);
}

void VectorBuilder::prefetch(Value memref, ValueRange at, unsigned level) {
  create<memref::PrefetchOp>(memref, at, /*isWrite=*/false,
                             /*localityHint=*/4 - level, /*isDataCache=*/true);
}

Value VectorBuilder::fma(Value a, Value b, Value acc) {
  return create<vector::FMAOp>(a, b, acc);
}

Value VectorBuilder::dotPairs(Value a, Value b, Value acc) {
  if (unit.neon)
    return intrinsic("llvm.aarch64.neon.bfdot.v4f32.v8bf16", acc.getType(),
                     {acc, a, b});
  return create<x86vector::DotBF16Op>(acc.getType(), acc, a, b);
}

Value VectorBuilder::dotBytes(Value w, Value x, Value acc) {
  auto type = cast<VectorType>(acc.getType());
  StringRef name = unit.neon ? "llvm.aarch64.neon.sdot.v4i32.v16i8"
                   : type.getNumElements() == 16
                       ? "llvm.x86.avx512.vpdpbusd.512"
                       : "llvm.x86.avx512.vpdpbusd.256";
  return intrinsic(name, type, {acc, w, x});
}

Value VectorBuilder::multiplyRows(Value a, Value b, Value acc) {
  bool isFloat = getElementTypeOrSelf(acc.getType()).isF32();
  return intrinsic(isFloat ? "llvm.aarch64.neon.bfmmla"
                           : "llvm.aarch64.neon.smmla.v4i32.v16i8",
                   acc.getType(), {acc, a, b});
}

std::pair<Value, Value> VectorBuilder::swappedHalves(Value a, Value b) {
  return {create<vector::ShuffleOp>(a, b, ArrayRef<int64_t>{0, 1, 4, 5}),
          create<vector::ShuffleOp>(a, b, ArrayRef<int64_t>{2, 3, 6, 7})};
}

Value VectorBuilder::intrinsic(StringRef name, Type type,
                               ValueRange arguments) {
  return create<LLVM::CallIntrinsicOp>(type, getStringAttr(name), arguments)
      .getResult(0);
}

/// Transposes by perfect shuffles: each round interleaves the rows of the upper
/// half with those of the lower half. (The canonicalizer would decompose
/// vector.transpose into scalars.)
SmallVector<Value> VectorBuilder::transposed(ArrayRef<Value> rows) {
  SmallVector<Value> now(rows);
  auto size = static_cast<int64_t>(rows.size());
  SmallVector<int64_t> low, high;
  for (int64_t i = 0; i < size / 2; ++i) {
    low.append({i, i + size});
    high.append({i + size / 2, i + size / 2 + size});
  }
  for (int64_t round = 1; round < size; round *= 2) {
    SmallVector<Value> next;
    for (int64_t i = 0; i < size / 2; ++i)
      for (ArrayRef<int64_t> half : {low, high})
        next.push_back(
            create<vector::ShuffleOp>(now[i], now[i + size / 2], half));
    now = next;
  }
  return now;
}

SmallVector<Value> VectorBuilder::sums(ArrayRef<Value> vectors) {
  /// A vector that holds lanes of some sums: the number of each sum, and the
  /// first of its lanes.
  struct Part {
    Value lanes;
    SmallVector<std::pair<size_t, int64_t>> sums; // number, first lane
  };
  SmallVector<Part> parts;
  for (auto [i, vector] : llvm::enumerate(vectors))
    parts.push_back({vector, {{i, 0}}});
  int64_t lanes = cast<VectorType>(vectors[0].getType()).getDimSize(0);
  bool isFloat = isa<FloatType>(getElementTypeOrSelf(vectors[0].getType()));
  for (int64_t left = lanes / 2; left; left /= 2) {
    // Adds the upper half of each sum's lanes to the lower half, for two
    // vectors at a time. Halves below 16 bytes stay within the same 16 bytes,
    // because one instruction then moves the halves of both vectors.
    SmallVector<Part> next;
    for (size_t i = 0; i < parts.size(); i += 2) {
      ArrayRef<Part> of = ArrayRef(parts).slice(i).take_front(2);
      int64_t width = cast<VectorType>(of[0].lanes.getType()).getDimSize(0);
      int64_t segment = of.size() == 1 || left >= 4 ? width : 4;
      SmallVector<int64_t> lower;
      Part part;
      for (int64_t first = 0; first < width; first += segment)
        for (auto [number, each] : llvm::enumerate(of))
          for (auto [sum, lane] : each.sums) {
            if (lane < first || lane >= first + segment)
              continue;
            part.sums.push_back({sum, static_cast<int64_t>(lower.size())});
            int64_t from = lane + static_cast<int64_t>(number) * width;
            for (int64_t j = 0; j < left; ++j)
              lower.push_back(from + j);
          }
      auto upper =
          llvm::map_to_vector(lower, [&](int64_t lane) { return lane + left; });
      Value a = of.front().lanes, b = of.back().lanes;
      Value x = create<vector::ShuffleOp>(a, b, lower),
            y = create<vector::ShuffleOp>(a, b, upper);
      part.lanes = isFloat ? create<arith::AddFOp>(x, y).getResult()
                           : create<arith::AddIOp>(x, y).getResult();
      next.push_back(part);
    }
    parts = next;
  }
  SmallVector<Value> result(vectors.size());
  for (const Part &part : parts)
    for (auto [sum, lane] : part.sums)
      result[sum] = create<vector::ExtractOp>(part.lanes, lane);
  return result;
}

Value VectorBuilder::splat(Value memref, ValueRange at, int64_t lanes) {
  Value scalar = create<memref::LoadOp>(memref, at);
  if (!scalar.getType().isF32())
    scalar = create<arith::ExtFOp>(getF32Type(), scalar);
  return create<vector::BroadcastOp>(vectorType(lanes, getF32Type()), scalar);
}

Value VectorBuilder::repeated(Value memref, ValueRange at, int64_t count,
                              int64_t elements) {
  Type element = cast<MemRefType>(memref.getType()).getElementType();
  Type number = getIntegerType(element.getIntOrFloatBitWidth() * count);
  Value bits =
      create<vector::BitCastOp>(vectorType(1, number), load(memref, at, count));
  Value all = create<vector::BroadcastOp>(vectorType(elements / count, number),
                                          create<vector::ExtractOp>(bits, 0));
  return create<vector::BitCastOp>(vectorType(elements, element), all);
}

// The elements are integers in between, because LLVM would call a library to
// move bf16 on CPUs without AVX512-BF16.
Value VectorBuilder::pairedRows(Value matrix, Value row, Value column,
                                int64_t lanes) {
  auto bits = [&](Value row) -> Value {
    return create<vector::BitCastOp>(vectorType(lanes, getI16Type()),
                                     load(matrix, {row, column}, lanes));
  };
  Value even = bits(row), odd = bits(add(row, 1));
  return create<vector::BitCastOp>(vectorType(2 * lanes, getBF16Type()),
                                   create<vector::InterleaveOp>(even, odd));
}

Value VectorBuilder::size(Value memref, unsigned dim) {
  return createOrFold<memref::DimOp>(memref, dim);
}

void VectorBuilder::parallel(Value end, llvm::function_ref<void(Value)> body) {
  auto op = create<scf::ForallOp>(ArrayRef<OpFoldResult>{end}, ValueRange{},
                                  std::nullopt);
  OpBuilder::InsertionGuard guard(*this);
  llvm::SaveAndRestore inside(inParallel, op);
  setInsertionPoint(op.getTerminator());
  body(op.getInductionVar(0));
}

Value VectorBuilder::scratch(ArrayRef<int64_t> shape, Type type) {
  OpBuilder::InsertionGuard guard(*this);
  setInsertionPointToStart(inParallel.getBody());
  return create<memref::AllocaOp>(MemRefType::get(shape, type),
                                  getI64IntegerAttr(64));
}

void VectorBuilder::parallelRanges(
    Value end, int64_t most, llvm::function_ref<void(Value, Value)> body) {
  parallel(end, [&](Value begin) {
    Value next = create<arith::IndexCastOp>(getI64Type(), add(begin, 1));
    auto last = create<LLVM::InlineAsmOp>(
        next.getType(), next, "", "=r,0", /*has_side_effects=*/false,
        /*is_align_stack=*/false, LLVM::TailCallKind::None,
        LLVM::AsmDialectAttr(), ArrayAttr());
    last->setAttr(kRangeEndAttribute, getUnitAttr());
    Value all =
        sub(create<arith::IndexCastOp>(getIndexType(), last.getRes()), begin);
    // Parts of the same size, or one less.
    Value parts = ceilDiv(all, most);
    auto startOf = [&](Value part) -> Value {
      return create<arith::DivUIOp>(mul(part, all), parts);
    };
    loop(index(0), parts, 1, [&](Value part) {
      Value first = startOf(part), last = startOf(add(part, 1));
      body(add(begin, first), sub(last, first));
    });
  });
}

void VectorBuilder::byRows(Value rows, llvm::function_ref<void()> one,
                           llvm::function_ref<void()> many) {
  when(
      less(rows, index(2)), [&] { when(less(index(0), rows), one); }, many);
}
