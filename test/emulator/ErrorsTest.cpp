// PTX that the emulator does not know is an error with line and text.
#include "test/emulator/Device.h"

#include <map>

namespace cria::emulator {
namespace {

/// The error of a kernel with `line` as its sixth line.
std::string errorOf(const std::string &line, unsigned capability = 80) {
  TestDevice device(capability);
  return device.load(
      kernelPtx(".param .u64 p", ".reg .b32 %r<4>; .reg .b64 %d<4>; .reg .f32 "
                                 "%f<4>; .reg .pred %q<2>;\n" +
                                     line + "\nret;\n"));
}

TEST(Errors, NameWhatIsUnknown) {
  EXPECT_EQ(errorOf("frob.b32 %r0, %r1;"),
            "line 7: unknown instruction: frob.b32");
  EXPECT_EQ(errorOf("ld.global.frob.b32 %r0, [%d0];"),
            "line 7: unknown modifier '.frob' of 'ld': ld.global.frob.b32");
  EXPECT_EQ(errorOf("add.wide.s32 %r0, %r1, %r2;"),
            "line 7: unknown modifier '.wide' of 'add': add.wide.s32");
  EXPECT_EQ(errorOf("add.sat.cc.s32 %r0, %r1, %r2;"),
            "line 7: no form of 'add' has these modifiers: add.sat.cc.s32");
  EXPECT_EQ(errorOf("add %r0, %r1, %r2;"),
            "line 7: no form of 'add' has these modifiers: add");
  EXPECT_EQ(errorOf("add.s32 %r0, %r1;"),
            "line 7: expected other operands: add.s32");
  EXPECT_EQ(errorOf("mov.b32 %r0, %frob;"),
            "line 7: unknown register '%frob': mov.b32");
  EXPECT_EQ(errorOf("mov.b32 %r9, %r0;"),
            "line 7: unknown register '%r9': mov.b32");
  EXPECT_EQ(errorOf("bra nowhere;"), "line 7: unknown label 'nowhere': bra");
  EXPECT_EQ(errorOf("call nobody;"),
            "line 7: call of unknown function 'nobody': call");
  EXPECT_EQ(errorOf("ld.global.v2.b32 {%r0, %r1, %r2}, [%d0];"),
            "line 7: expected 2 values: ld.global.v2.b32");
  EXPECT_EQ(errorOf("griddepcontrol.wait;"),
            "line 7: needs sm_90, the device is sm_80: griddepcontrol.wait");
  EXPECT_EQ(errorOf("griddepcontrol.wait;", 90), "");
  EXPECT_EQ(errorOf("mov.b32 %r0, 0f12;"), "line 7: bad number '0f12'");
  EXPECT_EQ(errorOf(".frob %r0;"), "line 7: unknown directive '.frob'");
}

TEST(Errors, NumbersOfCoordinatesAndValues) {
  for (auto [line, what] :
       {std::pair("tex.2d.v4.f32.f32 {%r0, %r1, %r2, %r3}, [%d0, {%f0}];",
                  "expected 2 coordinates: tex.2d.v4.f32.f32"),
        std::pair("tex.acube.v4.f32.f32 {%r0, %r1, %r2, %r3}, "
                  "[%d0, {%f0, %f1, %f2}];",
                  "expected 4 coordinates: tex.acube.v4.f32.f32"),
        std::pair("tex.1d.v4.s32.s32 {%r0, %r1}, [%d0, {%r2}];",
                  "expected 4 values: tex.1d.v4.s32.s32"),
        std::pair("tex.1d.v4.s32.s32 {%r0, %r1, %r2, %r3}, [%d0+8, {%r2}];",
                  "expected an object without an offset: tex.1d.v4.s32.s32"),
        std::pair("suld.b.1d.v2.b32.trap {%r0}, [%d0, {%r2}];",
                  "expected 2 values: suld.b.1d.v2.b32.trap")})
    EXPECT_EQ(errorOf(line), std::string("line 7: ") + what);
}

/// Of a product, which is `modifiers` and `operands` in line 7.
std::string errorOfProduct(const std::string &modifiers,
                           const std::string &operands,
                           const std::string &behind = "") {
  std::string text = errorOf("wgmma.fence.sync.aligned; wgmma.mma_async" +
                                 modifiers + " " + operands + ";" + behind,
                             90);
  return text.substr(0, text.rfind(": "));
}

TEST(Errors, SelectorsOfVideoInstructions) {
  for (auto [operands, what] : {
           std::pair("%r0.b4, %r1, %r2", "mask '.b4'"), // parts 0 to 3
           std::pair("%r0.bx, %r1, %r2", "mask '.bx'"),
           std::pair("%r0.h0, %r1, %r2", "mask '.h0'"),
           std::pair("%r0.b0, %r1.b10, %r2", "selector '.b10'"), // four parts
           std::pair("%r0.b0, %r1, %r2.b8765", "selector '.b8765'"),
       })
    EXPECT_EQ(errorOf("vadd4.u32.u32.u32 " + std::string(operands) + ", %r3;"),
              "line 7: unknown " + std::string(what) + ": vadd4.u32.u32.u32");
}

TEST(Errors, NameWhatIsWrongInProducts) {
  const std::string product = ".sync.aligned.m64n8k16.f32.bf16.bf16",
                    sums = "{%f0, %f1, %f2, %f3}",
                    rest = ", %d0, %d1, %q0, 1, 1, 0, 0";
  EXPECT_EQ(errorOfProduct("", "{%r0}, {%r1}"),
            "line 7: no form of 'wgmma' has these modifiers");
  EXPECT_EQ(errorOfProduct(product, "{%f0, %f1, %f2}" + rest),
            "line 7: expected 4 registers in operand 1");
  EXPECT_EQ(errorOfProduct(product, "{%d2, %f1, %f2, %f3}" + rest),
            "line 7: expected a register of 32 bits, got '%d2'");
  EXPECT_EQ(
      errorOfProduct(product, sums + ", {%r0, %r1, %r2}, %d1, %q0, 1, 1, 0"),
      "line 7: expected 4 registers in operand 2");
  EXPECT_EQ(errorOfProduct(product, sums + ", %d0, %d1, %q0, 2, 1, 0, 0"),
            "line 7: expected scales of 1 or -1 and transpositions of 0 or 1");
  EXPECT_EQ(
      errorOfProduct(product, sums + rest,
                     "\nwgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 " +
                         sums + rest + ";"),
      "line 8: missing wgmma.wait_group: the product at PTX line 7 uses "
      "'%f0' otherwise");
}

TEST(Errors, NameProductsThatOutliveTheirFunction) {
  const std::string message =
      "missing wgmma.wait_group: the function returns before the product at "
      "PTX line 10 has ended: ";
  auto load = [](const std::string &end) {
    return TestDevice(90).load(R"(.version 8.0
.target sm_90a
.address_size 64
.func multiply()
{
  .reg .f32 %f<4>;
  .reg .b64 %d<2>;
  .reg .pred %q;
  wgmma.fence.sync.aligned;
  wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {%f0, %f1, %f2, %f3}, %d0, %d1, %q, 1, 1, 0, 0;
  wgmma.commit_group.sync.aligned;
)" + end + "}\n.visible .entry k() { call multiply; ret; }\n");
  };
  EXPECT_EQ(load("ret;\n"), "line 12: " + message + "ret");
  EXPECT_EQ(load(""),
            "line 11: " + message + "wgmma.commit_group.sync.aligned");
}

TEST(Errors, NameWhatIsWrongInAsyncInstructions) {
  EXPECT_EQ(errorOf("setmaxnreg.inc.sync.aligned.u32 20;", 90),
            "line 7: expected a multiple of 8 from 24 to 256: "
            "setmaxnreg.inc.sync.aligned.u32");
  EXPECT_EQ(errorOf("cp.async.bulk.tensor.2d.global.shared::cta.bulk_group "
                    "[%d0, {%r0}], [%r1];",
                    90),
            "line 7: expected 2 coordinates: "
            "cp.async.bulk.tensor.2d.global.shared::cta.bulk_group");
}

TEST(Errors, NameTargetsAndVersions) {
  TestDevice device;
  auto load = [&](const std::string &head) {
    return device.load(head + "\n.address_size 64\n");
  };
  EXPECT_EQ(load(".version 8.0\n.target sm_90"),
            "line 1: the target sm_90 does not run on sm_80");
  EXPECT_EQ(load(".version 8.0\n.target sm_75"), "");
  EXPECT_EQ(load(".version 8.0\n.target sm_80, debug"), "");
  EXPECT_EQ(load(".version 9.4\n.target sm_80"), "");
  EXPECT_EQ(load(".version 10.0\n.target sm_80"),
            "line 1: unsupported .version 10.0");
  device.options.newestPtx = 84; // a driver of CUDA 12.4
  EXPECT_EQ(load(".version 8.4\n.target sm_80"), "");
  EXPECT_EQ(load(".version 8.5\n.target sm_80"),
            "line 1: unsupported .version 8.5");
  EXPECT_EQ(load(".target sm_80"), "line 1: expected .version");
}

/// The error of each kernel of a module, by name.
std::map<std::string, std::string> refusals(const std::string &ptx) {
  TestDevice device;
  EXPECT_EQ(device.load(".version 8.0\n.target sm_80\n" + ptx), "");
  std::map<std::string, std::string> errors;
  if (device.program)
    for (auto &[name, kernel] : device.program->allKernels()) {
      auto error = device.program->compile(*device.program->find(name));
      errors[name] =
          error ? "line " + std::to_string(error->line) + ": " + error->message
                : "";
    }
  return errors;
}

TEST(Errors, RefuseAKernelAndNotTheModule) {
  const std::string good = ".entry good()\n{\nret;\n}\n";
  using Refusals = std::map<std::string, std::string>;
  EXPECT_EQ(refusals(".entry bad()\n{\nfrob.b32 x;\nret;\n}\n" + good),
            (Refusals{{"bad", "line 5: unknown instruction: frob.b32"},
                      {"good", ""}}));
  EXPECT_EQ(
      refusals(".func f()\n{\nfrob;\nret;\n}\n"
               ".entry bad()\n{\ncall f;\nret;\n}\n" +
               good),
      (Refusals{{"bad", "line 5: unknown instruction: frob"}, {"good", ""}}));
  EXPECT_EQ(
      refusals(".entry bad()\n.frob 2, 1, 1\n{\nret;\n}\n" + good),
      (Refusals{{"bad", "line 4: unknown attribute '.frob' of a function"},
                {"good", ""}}));
  EXPECT_EQ(
      refusals(".entry bad()\n{\n.frob %x;\nret;\n}\n" + good),
      (Refusals{{"bad", "line 5: unknown directive '.frob'"}, {"good", ""}}));
  EXPECT_EQ(
      refusals(".global .texref t;\n.entry bad()\n{\n.reg.b64 %d;\n"
               "mov.u64 %d, t;\nret;\n}\n" +
               good),
      (Refusals{{"bad", "line 7: unknown name 't': mov.u64"}, {"good", ""}}));
}

TEST(Errors, AScopeHasOneVariableOfAName) {
  auto load = [](const std::string &body) {
    return TestDevice().load(".version 8.0\n.target sm_80\n.entry k()\n{\n" +
                             body + "\nret;\n}\n");
  };
  EXPECT_EQ(load(".local .b32 v;\n.shared .b32 v;"),
            "line 6: variable 'v' is defined twice");
  EXPECT_EQ(load(".local .b32 v;\n{ .param .b32 v; }"), "");
}

/// Blanks between the parts of a directive are a matter of taste.
TEST(Errors, DirectivesNeedNoBlanks) {
  TestDevice device;
  EXPECT_EQ(device.load(".version 8.0\n.target sm_80\n"
                        ".visible.entry k(.param.u64 p)\n"
                        "{.reg.b32 %r<3>;.shared.align 4 .b8 s[16];\n"
                        "{.reg.b16 h;cvt.u16.u32 h,%r1;}\nret;\n}\n"),
            "");
}

} // namespace
} // namespace cria::emulator
