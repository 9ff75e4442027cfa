#include "lowering/gpu/cuda/Layouts.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Utils/StaticValueUtils.h"
#include "llvm/ADT/SmallSet.h"
#include "gtest/gtest.h"

using namespace cria;
using namespace cria::cuda;
using namespace cria::simt;

// The right sides are the formulas of the PTX ISA, "Matrix Fragments" of each
// instruction: groupID = laneid / 4, threadID_in_group = laneid % 4.
static int64_t group(int64_t lane) { return lane / 4; }
static int64_t inGroup(int64_t lane) { return lane % 4; }

static void expect(const Layout &layout, int64_t registers,
                   llvm::function_ref<Place(int64_t lane, int64_t i)> isa) {
  for (int64_t lane = 0; lane < kWarp; ++lane)
    for (int64_t i = 0; i < registers; ++i) {
      Place first = layout.ofLane(lane), further = layout.ofRegister(i);
      Place sum = {first.row + further.row, first.column + further.column};
      EXPECT_EQ(sum, isa(lane, i)) << "lane " << lane << ", element " << i;
    }
}

// "row = groupID for ai where 0 <= i < 2 || 4 <= i < 6, groupID + 8 otherwise;
// col = (threadID_in_group * 2) + (i & 0x1) for i < 4, + 8 for i >= 4"
TEST(Layout, LeftOperandOf16Bits) {
  expect(kMmaX, 8, [](int64_t lane, int64_t i) -> Place {
    bool upper = i < 2 || (i >= 4 && i < 6);
    return {group(lane) + (upper ? 0 : 8),
            inGroup(lane) * 2 + (i & 1) + (i < 4 ? 0 : 8)};
  });
}

// "row = (threadID_in_group * 2) + (i & 0x1) for i < 2, + 8 for i >= 2;
// col = groupID", of the matrix k x n, whose columns are our rows.
TEST(Layout, RightOperandOf16Bits) {
  expect(kMmaW, 4, [](int64_t lane, int64_t i) -> Place {
    return {group(lane), inGroup(lane) * 2 + (i & 1) + (i < 2 ? 0 : 8)};
  });
}

// "row = groupID for ai where 0 <= i < 4 || 8 <= i < 12, groupID + 8 otherwise;
// col = (threadID_in_group * 4) + (i & 0x3) for i < 8, + 16 for i >= 8"
TEST(Layout, LeftOperandOfBytes) {
  expect(kMmaBytesX, 16, [](int64_t lane, int64_t i) -> Place {
    bool upper = i < 4 || (i >= 8 && i < 12);
    return {group(lane) + (upper ? 0 : 8),
            inGroup(lane) * 4 + (i & 3) + (i < 8 ? 0 : 16)};
  });
}

// "row = (threadID_in_group * 4) + (i & 0x3) for i < 4, + 16 for i >= 4;
// col = groupID"
TEST(Layout, RightOperandOfBytes) {
  expect(kMmaBytesW, 8, [](int64_t lane, int64_t i) -> Place {
    return {group(lane), inGroup(lane) * 4 + (i & 3) + (i < 4 ? 0 : 16)};
  });
}

// "row = groupID for ci where i < 2, groupID + 8 for i >= 2;
// col = (threadID_in_group * 2) + (i & 0x1)"
TEST(Layout, Sums) {
  expect(kMmaSums, 4, [](int64_t lane, int64_t i) -> Place {
    return {group(lane) + (i < 2 ? 0 : 8), inGroup(lane) * 2 + (i & 1)};
  });
}

// wgmma's figure of D for m64nNk16, warp 0: d[i] is in row laneid / 4 + 8 for
// every other pair, and eight columns further on for every four.
TEST(Layout, SumsOfWarpgroups) {
  expect(kWgmmaSums, 128, [](int64_t lane, int64_t i) -> Place {
    return {group(lane) + (i / 2 % 2 ? 8 : 0),
            i / 4 * 8 + inGroup(lane) * 2 + i % 2};
  });
}

// ldmatrix: "threads 0-7 hold the addresses of the rows of the first matrix,
// 8-15 of the second" and so on. Register j of lane l then has elements 2 * (l
// % 4) and the next of row l / 4 of matrix j: these must be mma's operands.
TEST(Layout, LoadsOfMatricesGiveOperands) {
  for (int64_t lane = 0; lane < kWarp; ++lane)
    for (int64_t j = 0; j < 4; ++j)
      for (int64_t e = 0; e < 2; ++e) {
        auto loaded = [&](const Layout &addresses) -> Place {
          Place row = addresses.ofLane(j * 8 + lane / 4);
          return {row.row, row.column * 8 + lane % 4 * 2 + e};
        };
        auto held = [&](const Layout &layout, int64_t i) -> Place {
          Place first = layout.ofLane(lane), further = layout.ofRegister(i);
          return {first.row + further.row, first.column + further.column};
        };
        EXPECT_EQ(loaded(kLoadX), held(kMmaX, j * 2 + e));
        // Two right operands: of rows 0 to 7, then of rows 8 to 15.
        Place w = held(kMmaW, j % 2 * 2 + e);
        w.row += j / 2 * 8;
        EXPECT_EQ(loaded(kLoadW), w);
      }
}

namespace {
/// A kernel in which numbers that are known fold to constants.
struct Kernel {
  Kernel() {
    context.loadDialect<mlir::arith::ArithDialect, mlir::gpu::GPUDialect>();
    module = mlir::ModuleOp::create(mlir::UnknownLoc::get(&context));
    b.emplace(module->getLoc(), *module->getBody(), "k", 32);
  }
  mlir::MLIRContext context;
  mlir::OwningOpRef<mlir::ModuleOp> module;
  std::optional<KernelBuilder> b;
};
} // namespace

// What kernels compute is what the compiler knows.
TEST(Layout, KernelsComputePlaces) {
  Kernel kernel;
  KernelBuilder &b = *kernel.b;
  for (const Layout &layout : {kMmaX, kMmaBytesX, kMmaSums, kLoadX, kLoadW})
    for (int64_t lane = 0; lane < kWarp; ++lane) {
      Place place = layout.ofLane(lane);
      EXPECT_EQ(mlir::getConstantIntValue(layout.row(b, b.i32(lane))),
                place.row);
      EXPECT_EQ(mlir::getConstantIntValue(layout.column(b, b.i32(lane))),
                place.column);
    }
}

// Eight rows of an ldmatrix hit all 32 banks: 16-byte chunks at eight places
// modulo 128 bytes. TMA's swizzle of 128 bytes is chunk ^ (row % 8).
TEST(Layout, SwizzlesSpreadRows) {
  Kernel kernel;
  KernelBuilder &b = *kernel.b;
  auto chunkOf = [&](int64_t row, int64_t chunk,
                     llvm::ArrayRef<int64_t> order) {
    return *mlir::getConstantIntValue(
        swizzle(b, b.i32(row), b.i32(chunk), order));
  };
  for (int64_t chunk = 0; chunk < 8; ++chunk)
    for (int64_t row = 0; row < 24; ++row)
      EXPECT_EQ(chunkOf(row, chunk, kSwizzle128), chunk ^ row % 8);
  for (int64_t chunk = 0; chunk < 4; ++chunk)
    for (int64_t first = 0; first < 32; first += 8) {
      llvm::SmallSet<int64_t, 8> banks;
      for (int64_t row = first; row < first + 8; ++row)
        banks.insert((row * 4 + chunkOf(row, chunk, kSwizzle64)) % 8);
      EXPECT_EQ(banks.size(), 8u);
    }
}
