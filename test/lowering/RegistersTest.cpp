#include "lowering/gpu/cuda/Registers.h"

#include <gtest/gtest.h>

using cria::cuda::reuseRegisters;

namespace {

TEST(RegistersTest, EqualTurnsAreEqualText) {
  EXPECT_EQ(reuseRegisters("\t.reg .b32 %r<9>;\n"
                           "\tmov.u32 \t%r5, %tid.x;\n"
                           "\tadd.s32 \t%r6, %r5, 1;\n"
                           "\tst.shared.b32 \t[%r6], %r6;\n"
                           "\tadd.s32 \t%r8, %r5, 1;\n"
                           "\tst.shared.b32 \t[%r8], %r8;\n"
                           "\tret;\n"),
            "\t.reg .b32 %r<101>;\n"
            "\tmov.u32 \t%r1, %tid.x;\n"
            "\tadd.s32 \t%r2, %r1, 1;\n"
            "\tst.shared.b32 \t[%r2], %r2;\n"
            "\tadd.s32 \t%r2, %r1, 1;\n"
            "\tst.shared.b32 \t[%r2], %r2;\n"
            "\tret;\n");
}

// The sum of a loop is read before the loop's block changes it.
TEST(RegistersTest, ValuesOfSeveralBlocksKeepRegistersOfTheirOwn) {
  EXPECT_EQ(reuseRegisters("\t.reg .pred %p<2>;\n"
                           "\t.reg .b32 %r<9>;\n"
                           "\tmov.b32 \t%r1, 0;\n"
                           "$L__BB0_1:\n"
                           "\tadd.s32 \t%r2, %r1, 1;\n"
                           "\tmul.lo.s32 \t%r1, %r2, 3;\n"
                           "\tsetp.lt.s32 \t%p1, %r1, 9;\n"
                           "\t@%p1 bra \t$L__BB0_1;\n"
                           "\tret;\n"),
            "\t.reg .pred %p<101>;\n"
            "\t.reg .b32 %r<102>;\n"
            "\tmov.b32 \t%r101, 0;\n"
            "$L__BB0_1:\n"
            "\tadd.s32 \t%r1, %r101, 1;\n"
            "\tmul.lo.s32 \t%r101, %r1, 3;\n"
            "\tsetp.lt.s32 \t%p1, %r101, 9;\n"
            "\t@%p1 bra \t$L__BB0_1;\n"
            "\tret;\n");
}

// A statement under a predicate may leave its result as it was.
TEST(RegistersTest, ValuesThatAPredicateMakesKeepRegistersOfTheirOwn) {
  EXPECT_EQ(reuseRegisters("\t.reg .pred %p<2>;\n"
                           "\t.reg .b32 %r<9>;\n"
                           "\tsetp.ne.b32 \t%p1, 1, 0;\n"
                           "\t@%p1 mov.b32 \t%r1, 0;\n"
                           "\tadd.s32 \t%r2, %r1, 1;\n"
                           "\tst.shared.b32 \t[%r2], %r2;\n"
                           "\tret;\n"),
            "\t.reg .pred %p<101>;\n"
            "\t.reg .b32 %r<102>;\n"
            "\tsetp.ne.b32 \t%p1, 1, 0;\n"
            "\t@%p1 mov.b32 \t%r101, 0;\n"
            "\tadd.s32 \t%r1, %r101, 1;\n"
            "\tst.shared.b32 \t[%r1], %r1;\n"
            "\tret;\n");
}

// wgmma reads %r2 until the wait; %r3 may not take its place.
TEST(RegistersTest, ProductsInFlightKeepTheirRegisters) {
  EXPECT_EQ(reuseRegisters("\t.reg .b32 %r<9>;\n"
                           "\tmov.b32 \t%r1, 0;\n"
                           "\tmov.b32 \t%r2, 1;\n"
                           "\t// begin inline asm\n"
                           "\t{\n"
                           "wgmma.mma_async.sync.aligned {%r1}, {%r2}, 0;\n"
                           "}\n"
                           "\t// end inline asm\n"
                           "\tmov.b32 \t%r3, 2;\n"
                           "\twgmma.wait_group.sync.aligned 0;\n"
                           "\tst.shared.b32 \t[%r1], %r3;\n"
                           "\tret;\n"),
            "\t.reg .b32 %r<103>;\n"
            "\tmov.b32 \t%r101, 0;\n"
            "\tmov.b32 \t%r102, 1;\n"
            "\t// begin inline asm\n"
            "\t{\n"
            "wgmma.mma_async.sync.aligned {%r101}, {%r102}, 0;\n"
            "}\n"
            "\t// end inline asm\n"
            "\tmov.b32 \t%r1, 2;\n"
            "\twgmma.wait_group.sync.aligned 0;\n"
            "\tst.shared.b32 \t[%r101], %r1;\n"
            "\tret;\n");
}

} // namespace
