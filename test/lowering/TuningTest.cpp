#include "lowering/gpu/schedules/Tuning.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

using cria::simt::Tuning;
using testing::HasSubstr;

namespace {
std::string refusal(llvm::StringRef changes) {
  auto tuning = Tuning::readChanges(changes);
  return tuning ? "none" : llvm::toString(tuning.takeError());
}
} // namespace

TEST(Tuning, ChangesAreReadBack) {
  EXPECT_EQ(Tuning().changes(), "");
  auto tuning = Tuning::readChanges("gemm_some.m=32,gemv_floats.threads=64");
  ASSERT_TRUE(bool(tuning)) << llvm::toString(tuning.takeError());
  EXPECT_EQ(tuning->tiles[1].m, 32);
  EXPECT_EQ(tuning->gemvFloats.threads, 64);
  EXPECT_EQ(tuning->changes(), "gemv_floats.threads=64,gemm_some.m=32");
}

TEST(Tuning, NumbersHaveLimits) {
  EXPECT_EQ(refusal("gemm_tiny.m=64"), "unknown number 'gemm_tiny.m'");
  EXPECT_EQ(refusal("gemm_few.m"), "gemm_few.m: expected NAME=NUMBER");
  EXPECT_EQ(refusal("gemm_few.m=x"), "gemm_few.m=x: expected NAME=NUMBER");
  EXPECT_EQ(refusal("gemm.most_splits=9"),
            "gemm.most_splits: expected 1 to 8, got 9");
  EXPECT_EQ(refusal("attention_scan.ahead=-1"),
            "attention_scan.ahead: expected 1 to 8, got -1");
}

// Numbers that are in their limits, but with which no kernel can be built.
TEST(Tuning, NumbersMustFitEachOther) {
  EXPECT_EQ(refusal("gemv_floats.threads=80"),
            "gemv_floats.threads: expected a multiple of 32, got 80");
  EXPECT_EQ(refusal("gemv_blocks.warp_rows=3"),
            "gemv_blocks.warp_rows: expected 1, 2, 4 or 8, got 3");
  EXPECT_EQ(refusal("gemv_floats_bulk.threads=1024"),
            "gemv_floats_bulk: expected at most 2048 threads * resident, got "
            "8192");
  EXPECT_EQ(refusal("gemm_some.warps_down=3"),
            "gemm_some.warps_down: expected 1, 2 or 4, got 3");
  EXPECT_EQ(refusal("gemm_few.warps_down=4"),
            "gemm_few.m: expected a multiple of 64 with warps_down=4, got 32");
  EXPECT_EQ(refusal("gemm_few.n=32"),
            "gemm_few.n: expected a power of two and a multiple of 64 with "
            "warps_down=1, got 32");
  EXPECT_EQ(refusal("gemm_many.n=96"),
            "gemm_many.n: expected a power of two and a multiple of 32 with "
            "warps_down=2, got 96");
  EXPECT_EQ(refusal("gemm_many.n=256"),
            "gemm_many: expected m * n to be at most 16384, whose sums fit "
            "registers, got 32768");
  EXPECT_EQ(refusal("gemm_many.stages=6"),
            "gemm_many: expected at most 82944 bytes of shared memory, got "
            "stages * (m + n) * 2 * terms = 98304");
  EXPECT_EQ(refusal("gemm_some.terms=48"),
            "gemm_some.terms: expected 32 or 64, got 48");
  EXPECT_EQ(refusal("gemm_few.rows=200"),
            "gemm_some.rows: expected more than gemm_few.rows=200, got 64");
  EXPECT_EQ(refusal("gemm_warpgroups.wide=192"),
            "gemm_warpgroups.wide: expected 128 or 256, got 192");
  EXPECT_EQ(refusal("gemm_warpgroups.wide=128,gemm_warpgroups.narrow=256"),
            "gemm_warpgroups.narrow: expected at most wide=128, got 256");
  EXPECT_EQ(refusal("gemm_warpgroups.blocks=131"),
            "gemm_warpgroups.blocks: expected an even number, got 131");
  EXPECT_THAT(refusal("gemm_warpgroups.stages=5"),
              HasSubstr("stages * (128 + wide) * 128 = 245760"));
  EXPECT_EQ(refusal("attention_prompt.rows=40"),
            "attention_prompt.rows: expected a multiple of 16, got 40");
  EXPECT_EQ(refusal("recurrence_chunks.columns=24"),
            "recurrence_chunks.columns: expected a power of two, got 24");
  EXPECT_EQ(refusal("attention_warpgroups.keys=96"),
            "attention_warpgroups.keys: expected 64 or 128, got 96");
  EXPECT_THAT(refusal("attention_warpgroups.stages=4"),
              HasSubstr("expected at most 232448 bytes of shared memory"));
}
