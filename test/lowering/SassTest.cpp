#include "tools/plan/Sass.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

using namespace cria::sass;
using testing::DoubleNear;
using testing::Optional;

namespace {
/// What nvdisasm prints of a kernel `k`: labels and instructions.
std::string listing(std::initializer_list<const char *> lines) {
  std::string text = "\t.section\t.text.k,\"ax\",@progbits\n"
                     "\t.sectioninfo\t@\"SHI_REGISTERS=32\"\n.text.k:\n";
  for (std::string line : lines)
    text += line[0] == '.'
                ? line + ":\n"
                : "        /*0010*/                   " + line + " ;\n";
  return text + "\t.section\t.nv.info,\"\",@\"SHT_CUDA_INFO\"\n";
}

/// The figures of a kernel of 128 threads, whose first parameter (words 0x160
/// and 0x164) is a weight, and the second is not.
llvm::Expected<Figures> measure(std::initializer_list<const char *> lines) {
  std::string text = listing(lines);
  Parameters parameters;
  for (int64_t word : {0x160 / 4, 0x164 / 4})
    parameters.words[word] = 1;
  for (int64_t word : {0x168 / 4, 0x16c / 4})
    parameters.words[word] = 2;
  parameters.streamed = 1;
  return figuresOf(readListing(text).at("k"), 128, parameters);
}

Figures figures(std::initializer_list<const char *> lines) {
  auto found = measure(lines);
  if (found)
    return *found;
  ADD_FAILURE() << llvm::toString(found.takeError());
  return {};
}
} // namespace

// Two loads, then their uses: 1004 cycles a turn.
TEST(Sass, LoadsInFlightAreThoseBeforeTheFirstUse) {
  Figures ahead = figures({
      "MOV R2, c[0x0][0x160]",
      "MOV R3, c[0x0][0x164]",
      ".L_x_0",
      "LDG.E.128.CONSTANT R4, [R2.64]",
      "LDG.E.128.CONSTANT R8, [R2.64+0x200]",
      "IADD3 R20, R20, R4, RZ",
      "IADD3 R20, R20, R8, RZ",
      "ISETP.NE.AND P0, PT, R20, RZ, PT",
      "@P0 BRA `(.L_x_0)",
      "EXIT",
  });
  EXPECT_THAT(ahead.loads, Optional(DoubleNear(2000.0 / 1004, 1e-9)));
  EXPECT_EQ(ahead.mma, std::nullopt);
}

// Each load follows the use of the one before: 2004 cycles.
TEST(Sass, ASunkLoadIsAlone) {
  Figures sunk = figures({
      "MOV R2, c[0x0][0x160]",
      "MOV R3, c[0x0][0x164]",
      ".L_x_0",
      "LDG.E.128 R4, [R2.64]",
      "IADD3 R20, R20, R7, RZ",
      "LDG.E.128 R8, [R2.64+0x200]",
      "IADD3 R20, R20, R8, RZ",
      "ISETP.NE.AND P0, PT, R20, RZ, PT",
      "@P0 BRA `(.L_x_0)",
      "EXIT",
  });
  EXPECT_THAT(sunk.loads, Optional(DoubleNear(2000.0 / 2004, 1e-9)));
}

// The input of a product comes from a cache, and does not count.
TEST(Sass, OnlyWeightsStream) {
  Figures product = figures({
      "MOV R2, c[0x0][0x160]",
      "MOV R3, c[0x0][0x164]",
      "ULDC.64 UR4, c[0x0][0x168]",
      ".L_x_0",
      "LDG.E.128 R4, [R2.64]",
      "LDG.E.128 R8, [UR4]",
      "FFMA R20, R4, R8, R20",
      "@P0 BRA `(.L_x_0)",
      "EXIT",
  });
  EXPECT_THAT(product.loads, Optional(DoubleNear(1000.0 / 1002, 1e-9)));
}

// A pointer may be one of two, by a predicate or by the path to the loop.
TEST(Sass, PointersFlowOverGuardsAndBranches) {
  for (const char *own : {"@P1 IMAD.WIDE R2, R9, 0x2, R30", "NOP"}) {
    Figures either = figures({
        "MOV R30, c[0x0][0x168]",
        "MOV R31, c[0x0][0x16c]",
        "LDC.64 R2, c[0x0][0x160]",
        "@P2 BRA `(.L_x_1)",
        "IADD3 R2, P3, R2, R10, RZ",
        ".L_x_1",
        own,
        ".L_x_0",
        "LDG.E.64 R4, [R2.64]",
        "IADD3 R20, R20, R5, RZ",
        "@P0 BRA `(.L_x_0)",
        "EXIT",
    });
    EXPECT_THAT(either.loads, Optional(DoubleNear(500.0 / 1002, 1e-9)));
  }
}

// Two groups of copies are on their way while a lane waits for the first.
TEST(Sass, CopiesAreInFlightUntilTheirGroupIsAwaited) {
  Figures ring = figures({
      "MOV R2, c[0x0][0x160]",
      "MOV R3, c[0x0][0x164]",
      ".L_x_0",
      "LDGSTS.E.BYPASS.128 [R10], [R2.64]",
      "LDGDEPBAR",
      "DEPBAR.LE SB0, 0x1",
      "@P0 BRA `(.L_x_0)",
      "EXIT",
  });
  EXPECT_THAT(ring.loads, Optional(DoubleNear(2, 0.01)));
}

// One lane copies for its warp: 1024 bytes are two loads of a lane. Two stages
// are asked for in a turn, and awaited in the next, each by its barrier: 1000
// cycles and those between. What comes at the end of a row is left out.
TEST(Sass, BulkCopiesAreInFlightUntilTheirBarrierIsAwaited) {
  for (const char *rest : {"NOP", "UBLKCP.S.G [UR8], [UR6], UR12"}) {
    Figures ring = figures({
        "ULDC.64 UR6, c[0x0][0x160]",
        "UMOV UR5, 0x40",
        "UMOV UR12, 0x20",
        ".L_x_0",
        "SYNCS.PHASECHK.TRANS64.TRYWAIT P0, [R3+URZ], R0",
        "@P1 SYNCS.ARRIVE.TRANS64 RZ, [UR13], R2",
        "@UP1 UBLKCP.S.G [UR8], [UR6], UR5",
        "SYNCS.PHASECHK.TRANS64.TRYWAIT P0, [R3+URZ+0x8], R0",
        "@P1 SYNCS.ARRIVE.TRANS64 RZ, [UR13+0x8], R2",
        "@UP1 UBLKCP.S.G [UR8], [UR6], UR5",
        "@P2 SYNCS.ARRIVE.TRANS64 RZ, [UR13+0x8], R2",
        rest,
        "@P0 BRA `(.L_x_0)",
        "EXIT",
    });
    EXPECT_THAT(ring.loads, Optional(DoubleNear(4000.0 / 1004, 0.02)));
  }
}

// A kernel that asks for all at once waits for stage after stage. How many
// bytes a copy brings may have been kept in another register.
TEST(Sass, BulkCopiesOfAWholeRowArriveTogether) {
  Figures row = figures({
      "ULDC.64 UR6, c[0x0][0x160]",
      "UMOV UR5, 0x40",
      "MOV R9, UR5",
      "SYNCS.ARRIVE.TRANS64 RZ, [UR13], R2",
      "UBLKCP.S.G [UR8], [UR6], UR5",
      "UMOV UR5, 0x20",
      "SYNCS.ARRIVE.TRANS64 RZ, [UR13+0x8], R2",
      "R2UR UR14, R9",
      "UBLKCP.S.G [UR8], [UR6], UR14",
      "SYNCS.PHASECHK.TRANS64.TRYWAIT P0, [R3+URZ], R0",
      "SYNCS.PHASECHK.TRANS64.TRYWAIT P0, [R3+URZ+0x8], R0",
      "EXIT",
  });
  EXPECT_THAT(row.loads, Optional(DoubleNear(4000.0 / 1010, 0.01)));
}

// A block of 128 threads copies 512 pieces, four a thread.
TEST(Sass, LoopsOverABlocksPiecesAreCounted) {
  Figures pieces = figures({
      "MOV R2, c[0x0][0x160]",
      "MOV R3, c[0x0][0x164]",
      ".L_x_0",
      "MOV R0, R30",
      ".L_x_1",
      "LDGSTS.E.BYPASS.128 [R10], [R2.64]",
      "ISETP.GE.AND P0, PT, R0, 0x180, PT",
      "IADD3 R0, R0, 0x80, RZ",
      "@!P0 BRA `(.L_x_1)",
      "LDGDEPBAR",
      "DEPBAR.LE SB0, 0x0",
      "@P1 BRA `(.L_x_0)",
      "EXIT",
  });
  EXPECT_THAT(pieces.loads, Optional(DoubleNear(4000.0 / 1015, 1e-9)));
}

// Instructions are those of the loop with the most products. What comes back
// from after the kernel's end, such as a second look at a barrier, makes none.
TEST(Sass, InstructionsForEachMmaAreThoseOfTheMainLoop) {
  Figures product = figures({
      ".L_x_0",
      "HMMA.16816.F32.BF16 R4, R8, R12, R4",
      "@P0 BRA `(.L_x_0)",
      ".L_x_1",
      "LDSM.16.M88.4 R8, [R2]",
      "HMMA.16816.F32.BF16 R4, R8, R12, R4",
      "HMMA.16816.F32.BF16 R16, R8, R14, R16",
      "IADD3 R2, R2, 0x10, RZ",
      "@P0 BRA `(.L_x_1)",
      "EXIT",
      ".L_x_2",
      "NOP",
      "BRA `(.L_x_0)",
  });
  EXPECT_THAT(product.mma, Optional(2.5));
  EXPECT_EQ(product.loads, std::nullopt);
}

// A loop's first turn may be peeled into the loop around it.
TEST(Sass, OfLoopsWithAsManyMmasTheInnerOneIsTheMainLoop) {
  Figures product = figures({
      ".L_x_0",
      "HGMMA.64x256x16.F32.BF16 R24, gdesc[UR4], R24",
      "IADD3 R2, R2, 0x10, RZ",
      ".L_x_1",
      "HGMMA.64x256x16.F32.BF16 R24, gdesc[UR4], R24",
      "@P0 BRA `(.L_x_1)",
      "IADD3 R3, R3, 0x10, RZ",
      "@P1 BRA `(.L_x_0)",
      "EXIT",
  });
  EXPECT_THAT(product.mma, Optional(2));
}

// Of q, k and v, which have a loop each, the worst counts.
TEST(Sass, TheWorstOfSeveralWeightsCounts) {
  Figures both = figures({
      "MOV R2, c[0x0][0x160]",
      ".L_x_0",
      "LDGSTS.E.128 [R10], [R2.64]",
      "LDGDEPBAR",
      "DEPBAR.LE SB0, 0x0",
      "HMMA.16816.F32 R4, R8, R12, R4",
      "@P0 BRA `(.L_x_0)",
      ".L_x_1",
      "HMMA.16816.F32 R4, R8, R12, R4",
      "NOP",
      "@P0 BRA `(.L_x_1)",
      "EXIT",
  });
  EXPECT_THAT(both.mma, Optional(5));
}

TEST(Sass, RefusesCopiesWhoseBytesItDoesNotKnow) {
  auto found = measure({"UTMALDG.2D [UR8], [UR4]", "EXIT"});
  EXPECT_EQ(llvm::toString(found.takeError()),
            "SASS: figures of UTMALDG are not known");
}

TEST(Sass, SeveralKernelsAreToldApart) {
  std::string text = listing({"EXIT"}) +
                     "\t.section\t.text.other,\"ax\",@progbits\n"
                     "        /*0000*/  @!UP0 UMOV UR4, 0x1 ;\n"
                     "        /*0010*/  EXIT ;\n";
  auto kernels = readListing(text);
  ASSERT_EQ(kernels.size(), 2u);
  EXPECT_EQ(kernels["k"].code.size(), 1u);
  const Instruction &first = kernels["other"].code.at(0);
  EXPECT_EQ(first.guard, "!UP0");
  EXPECT_EQ(first.op, "UMOV");
  EXPECT_THAT(first.writes, testing::ElementsAre(kUniform + 4));
}
