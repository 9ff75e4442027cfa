/// What verifyProgram and checkNesting refuse, beyond what
/// import-program-invalid.test shows of cria-compile.
#include "lowering/import/Program.h"
#include "lowering/Compilation.h"
#include "lowering/import/Nesting.h"

#include "mlir/IR/Diagnostics.h"
#include "mlir/Parser/Parser.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

using namespace mlir;
using namespace cria;
using testing::HasSubstr;

/// A program over symbols and two caches, whose ops make rows %l of 32 numbers.
static std::string program(const std::string &ops,
                           const std::string &symbols = "") {
  return symbols + R"(
    llama.weight @t : tensor<32x32xf32> from "t"
    llama.rope_table @r {positions = 64 : i64, inv_freq = array<f32: 1.0, 0.1>}
    func.func @forward(%ids: tensor<?xi32>, %position: index, %first: index,
                       %k: tensor<1x2x64x16xf32>, %v: tensor<1x2x64x16xf32>)
        -> (tensor<?x32xf32>, tensor<1x2x64x16xf32>, tensor<1x2x64x16xf32>) {
      %c0 = arith.constant 0 : index
      %c1 = arith.constant 1 : index
      %n = tensor.dim %ids, %c0 : tensor<?xi32>
      %m = arith.subi %n, %first : index
      %t = llama.get_weight @t : tensor<32x32xf32>
      %cos, %sin = llama.get_rope @r : tensor<64x2xf32>
      %x = llama.embed %ids, %t : tensor<?xi32>, tensor<32x32xf32>
  )" + ops +
         R"(
      return %l, %k, %v : tensor<?x32xf32>, tensor<1x2x64x16xf32>, tensor<1x2x64x16xf32>
    })";
}

/// The first error or warning that the verifier reports, or "".
static std::string problem(const std::string &text) {
  DialectRegistry registry;
  registerCompilerDialects(registry);
  MLIRContext context(registry, MLIRContext::Threading::DISABLED);
  std::string first;
  ScopedDiagnosticHandler handler(&context, [&](Diagnostic &diagnostic) {
    if (first.empty())
      first = diagnostic.str();
  });
  auto module = parseSourceString<ModuleOp>(text, &context);
  EXPECT_TRUE(module) << first;
  bool holds = module && succeeded(verifyProgram(*module));
  EXPECT_TRUE(holds || !first.empty());
  return first;
}

static const char kAll[] =
    "%l = tensor.extract_slice %x[%first, 0] [%m, 32] [1, 1] : "
    "tensor<?x32xf32> to tensor<?x32xf32>";

TEST(Program, SlicesThatLieWithinTheirSourcesAreTaken) {
  EXPECT_EQ(problem(program(kAll)), "");
  // Every third column; the last row; learned positions; rows of rows.
  EXPECT_EQ(problem(program(std::string(kAll) + R"(
    %a = tensor.extract_slice %x[0, 1] [%n, 11] [1, 3] : tensor<?x32xf32> to tensor<?x11xf32>
    %n1 = arith.subi %n, %c1 : index
    %b = tensor.extract_slice %x[%n1, 0] [1, 32] [1, 1] : tensor<?x32xf32> to tensor<1x32xf32>
    %w = arith.constant dense<0.0> : tensor<64x32xf32>
    %c = tensor.extract_slice %w[%position, 0] [%n, 32] [1, 1] : tensor<64x32xf32> to tensor<?x32xf32>
    %d = llama.residual %x, %c : tensor<?x32xf32>
    %e = tensor.collapse_shape %x [[0, 1]] : tensor<?x32xf32> into tensor<?xf32>
    %n2 = arith.addi %n, %n : index
    %f = tensor.expand_shape %e [[0, 1]] output_shape [%n2, 16] : tensor<?xf32> into tensor<?x16xf32>
    %g = tensor.extract_slice %f[%n, 0] [%n, 16] [1, 1] : tensor<?x16xf32> to tensor<?x16xf32>
  )")),
            "");
}

TEST(Program, SlicesThatMayNotLieWithinTheirSourcesAreRefused) {
  for (auto [slice, dimension] :
       {std::pair("%x[%position, 0] [%n, 32] [1, 1]", "dimension 0 may not"),
        {"%x[%first, 0] [%n, 32] [1, 1]", "dimension 0 may not"},
        {"%x[%c1, 0] [%n, 32] [1, 1]", "dimension 0 may not"},
        {"%x[0, %first] [%n, 32] [1, 1]", "dimension 1 may not"},
        {"%x[0, 0] [%position, 32] [1, 1]", "dimension 0 may not"},
        {"%x[%c0, 0] [%m, 32] [2, 1]", "dimension 0 may not"},
        {"%x[%less, 0] [%first, 32] [1, 1]", "dimension 0 may not"},
        {"%x[0, 0] [%less, 32] [1, 1]", "dimension 0 may not"}})
    EXPECT_THAT(problem(program("%less = arith.subi %first, %c1 : index\n%l = "
                                "tensor.extract_slice " +
                                std::string(slice) +
                                " : tensor<?x32xf32> to tensor<?x32xf32>")),
                HasSubstr(dimension))
        << slice;
}

TEST(Program, NumbersOfRowsAgree) {
  std::string last = std::string(kAll) + "\n";
  EXPECT_THAT(
      problem(program(last + "%y = llama.residual %x, %l : tensor<?x32xf32>")),
      HasSubstr("expected operands of the same number of rows"));
  EXPECT_THAT(
      problem(program(last + "%y = llama.swiglu %l, %x : tensor<?x32xf32>")),
      HasSubstr("expected operands of the same number of rows"));
  // Two rows for each token.
  std::string rows = last + R"(
    %e = tensor.expand_shape %x [[0], [1, 2]] output_shape [%n, 2, 16] : tensor<?x32xf32> into tensor<?x2x16xf32>
    %f = tensor.collapse_shape %e [[0, 1], [2]] : tensor<?x2x16xf32> into tensor<?x16xf32>
    %n2 = tensor.dim %f, %c0 : tensor<?x16xf32>
    %h = tensor.expand_shape %f [[0], [1, 2]] output_shape [%n2, 1, 16] : tensor<?x16xf32> into tensor<?x1x16xf32>
    %i = tensor.expand_shape %f [[0], [1, 2]] output_shape [%n2, 2, 8] : tensor<?x16xf32> into tensor<?x2x8xf32>
  )";
  EXPECT_EQ(problem(program(rows)), "");
  EXPECT_THAT(
      problem(program(rows + "%y = llama.rope %i, %cos, %sin at %position : "
                             "tensor<?x2x8xf32>, tensor<64x2xf32>")),
      HasSubstr("expected a table with a row for each position"));
  EXPECT_THAT(problem(program(R"(
    %f = tensor.collapse_shape %x [[0, 1]] : tensor<?x32xf32> into tensor<?xf32>
    %l = tensor.expand_shape %f [[0, 1]] output_shape [%n, 32] : tensor<?xf32> into tensor<?x32xf32>
    %g = tensor.expand_shape %f [[0, 1]] output_shape [%n, 16] : tensor<?xf32> into tensor<?x16xf32>
  )")),
              HasSubstr("expected as many numbers as the source has"));
  EXPECT_THAT(problem(program(last + R"(
    %c3 = arith.constant 3 : index
    %y = scf.for %i = %c0 to %c3 step %c1 iter_args(%s = %x) -> tensor<?x32xf32> {
      scf.yield %l : tensor<?x32xf32>
    }
  )")),
              HasSubstr("expected operands of the same number of rows"));
}

TEST(Program, ArithmeticOfTensorsIsElementwise) {
  std::string last = std::string(kAll) + "\n";
  EXPECT_EQ(problem(program(last + R"(
    %y = arith.addf %x, %x : tensor<?x32xf32>
    %z = math.exp %y : tensor<?x32xf32>
    %c = arith.cmpf ogt, %x, %z : tensor<?x32xf32>
    %s = arith.select %c, %x, %z : tensor<?x32xi1>, tensor<?x32xf32>
  )")),
            "");
  EXPECT_THAT(
      problem(program(last + "%y = arith.addf %l, %x : tensor<?x32xf32>")),
      HasSubstr("expected operands of the same number of rows"));
  EXPECT_EQ(problem(program(last + "%y = arith.index_cast %ids : tensor<?xi32> "
                                   "to tensor<?xindex>")),
            "expected tensors of integers or floats, got 'tensor<?xindex>'");
  EXPECT_EQ(problem(program(last + R"(
    %i = arith.addi %ids, %ids : tensor<?xi32>
    %e = llama.get_weight @e : tensor<64x32xf32>
    %y = llama.embed %i, %e : tensor<?xi32>, tensor<64x32xf32>
  )",
                            "llama.weight @e : tensor<64x32xf32> from \"e\"")),
            "expected the ids that the function is given");
  EXPECT_EQ(problem(program(last + "%y, %o = arith.addui_extended %ids, %ids : "
                                   "tensor<?xi32>, tensor<?xi1>")),
            "expected elementwise ops of one result on tensors, got "
            "arith.addui_extended");
  EXPECT_EQ(
      problem(program(last + "%y = arith.minnumf %x, %x : tensor<?x32xf32>")),
      "expected elementwise ops of one result on tensors, got arith.minnumf");
}

TEST(Program, BlocksAreReadWhole) {
  std::string last = std::string(kAll) + "\n";
  EXPECT_EQ(problem(program(
                last + "%b = llama.get_weight @q : "
                       "tensor<32x64x!llama.blocks<q8_0>>\n%y = "
                       "tensor.extract_slice %b[0, 16] [32, 32] [1, 1] : "
                       "tensor<32x64x!llama.blocks<q8_0>> to "
                       "tensor<32x32x!llama.blocks<q8_0>>",
                "llama.weight @q : tensor<32x64x!llama.blocks<q8_0>> from "
                "\"q\"")),
            "expected a tensor in blocks to be read whole, got "
            "tensor.extract_slice of it");
  EXPECT_EQ(
      problem(program(last, "llama.weight @q : tensor<4x4xf32, \"a\"> "
                            "from \"q\"")),
      "expected tensors without an encoding, got 'tensor<4x4xf32, \"a\">'");
}

TEST(Program, SymbolsAreFewAndHaveOwnNames) {
  EXPECT_EQ(problem(program(kAll, "llama.weight @h[2000000000] : "
                                  "tensor<4xf32> from \"h.{}\"")),
            "expected at most 1048576 weights, each layer's counted");
  EXPECT_EQ(problem(program(kAll, "llama.weight @h[4611686018427387904] : "
                                  "tensor<4xf32> from \"h.{}\"\nllama.weight "
                                  "@i[4611686018427387904] : tensor<4xf32> "
                                  "from \"i.{}\"")),
            "expected at most 1048576 weights, each layer's counted");
  for (const char *name :
       {"kernels", "sample", "decode", "\"r.cos\"", "cria_prefill"})
    EXPECT_THAT(problem(program(kAll, std::string("llama.weight @") + name +
                                          " : tensor<4xf32> from \"h\"")),
                HasSubstr("expected a name that is not one of the compiler's"));
}

TEST(Program, MisspeltAttributesAreWarnedOfOnce) {
  std::string ops = std::string(kAll) + R"(
    %y = llama.rmsnorm %x {eps = 1.0e-5, unit_ofset} : tensor<?x32xf32>
    %z = llama.rmsnorm %y {eps = 1.0e-5, other.note} : tensor<?x32xf32>
  )";
  EXPECT_EQ(problem(program(ops)),
            "'llama.rmsnorm' has no attribute 'unit_ofset', which is ignored; "
            "did you mean 'unit_offset'?");
}

/// A text that nests `depth` brackets.
static std::string nested(const char *begin, const char *open, int depth,
                          const char *middle, const char *close) {
  std::string text = begin;
  for (int i = 0; i < depth; ++i)
    text += open;
  text += middle;
  for (int i = 0; i < depth; ++i)
    text += close;
  return text;
}

static std::string deep(const std::string &text) {
  return llvm::toString(checkNesting(text, "a.mlir"));
}

TEST(Nesting, IsBounded) {
  for (auto [begin, open, middle, close] :
       {std::tuple("", "module {\n", "", "}"),
        {"#a = ", "[", "", "]"},
        {"func.func private @f(", "tuple<", "i32", ">"},
        {"module {} loc(", "callsite(", "unknown", " at unknown)"},
        {"#m = affine_map<(d0) -> (", "(", "d0", ")"}}) {
    EXPECT_EQ(deep(nested(begin, open, 100, middle, close)), "");
    EXPECT_THAT(deep(nested(begin, open, 200000, middle, close)),
                HasSubstr("expected at most 128 brackets in each other"));
  }
  EXPECT_EQ(deep(nested("module {\n", "  module {\n", 200, "", "}")),
            "a.mlir:129:10: expected at most 128 brackets in each other, with "
            "aliases expanded");
}

TEST(Nesting, CountsAliasesAndOperators) {
  std::string chain = "#a0 = 1\n", types = "!t0 = i32\n",
              sum = "#m = affine_map<(d0) -> (d0";
  for (int i = 1; i < 200; ++i) {
    std::string now = std::to_string(i), before = std::to_string(i - 1);
    chain += "#a" + now + " = [#a" + before + "]\n";
    types += "!t" + now + " = ()\n -> (!t" + before + ")\n";
  }
  EXPECT_THAT(deep(chain), HasSubstr("a.mlir:130:"));
  EXPECT_THAT(deep(types), HasSubstr("128 brackets"));
  EXPECT_EQ(deep(sum + nested("", " + d0", 1000, "", "") + ")>"), "");
  EXPECT_THAT(deep(sum + nested("", " + d0", 2000, "", "") + ")>"),
              HasSubstr("1024 operators in one expression"));
  EXPECT_THAT(
      deep("#m = affine_map<(d0) -> (" + nested("", "-", 2000, "d0)>", "")),
      HasSubstr("1024 operators in one expression"));
}

TEST(Nesting, RefusesArraysThatCrashTheParser) {
  EXPECT_EQ(deep("module attributes {a = array<i64: 1>, b = array<f32>} {}"),
            "");
  for (const char *type : {"index", "!i"})
    EXPECT_EQ(
        deep("module attributes {a = array< " + std::string(type) + ": 1>} {}"),
        "a.mlir:1:28: expected an array of integers or floats");
}

TEST(Nesting, KnowsStringsCommentsAndArrows) {
  std::string text = "#a = [1]\n";
  for (int i = 0; i < 300; ++i)
    text +=
        "// ((((\nfunc.func private @f" + std::to_string(i) +
        "(!t<\"((\\\"(\">) -> i32 attributes {a = #a, b = affine_set<(d0) : "
        "(d0 >= 0, -d0 + 4 >= 0)>, c = dense<[-1.0e-05, -2.0]>}\n";
  EXPECT_EQ(deep(text), "");
}
