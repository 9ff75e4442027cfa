#include "dialect/Dialect.h"
#include "lowering/import/Config.h"
#include "lowering/import/Import.h"

#include "mlir/IR/MLIRContext.h"
#include "mlir/IR/Verifier.h"
#include <gmock/gmock.h>

using namespace cria;
using testing::HasSubstr;
using testing::Not;

/// A family that does not exist. It is a row, and nothing else of the compiler
/// knows it.
static Family wombat() {
  Family row = *findFamily("llama");
  row.modelType = "wombat";
  row.architecture = "WombatForCausalLM";
  row.keys = "hidden_act norm_eps partial_rotary_factor use_bias";
  row.defaults = R"({"hidden_act": "relu2", "norm_eps": 1e-6})";
  row.fixed = R"({"digs": true})";
  row.norm.function = NormKind::Layer;
  row.norms = {"", "fur", "", "paws"};
  row.lastNorm = "model.tail";
  row.attention.out = "self_attn.snout";
  row.mlp = {"", "teeth.wide", "teeth.narrow", ""};
  row.headNorm = HeadNorm::None;
  row.rope.part = 0.5;
  row.rope.isInterleaved = true;
  return row;
}

static constexpr char kConfig[] = R"({"model_type": "wombat", "digs": true,
    "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2,
    "num_attention_heads": 4, "vocab_size": 128, "use_bias": true,
    "max_position_embeddings": 64})";

TEST(FamilyTest, RowAloneMakesProgram) {
  Family row = wombat();
  auto config = parseConfig(kConfig, {}, row);
  ASSERT_TRUE(static_cast<bool>(config)) << llvm::toString(config.takeError());
  mlir::MLIRContext context;
  auto module = importModel(*config, ImportOptions(), &context);
  ASSERT_TRUE(module && mlir::succeeded(mlir::verify(*module)));
  std::string text;
  llvm::raw_string_ostream(text) << *module;
  for (const char *part :
       {"model.layers.{}.fur.weight", "model.layers.{}.teeth.wide.bias",
        "model.layers.{}.self_attn.snout.weight", "model.tail.weight",
        "llama.layernorm", "llama.activate relu2", "{interleaved}",
        "tensor<64x4xf32>"})
    EXPECT_THAT(text, HasSubstr(part));
  EXPECT_THAT(text, Not(HasSubstr("gate_proj")));
}

TEST(FamilyTest, RowMakesMixturesOfExperts) {
  Family row = wombat();
  row.keys = "hidden_act first_k_dense_replace norm_eps num_experts_per_tok "
             "num_local_experts n_shared_experts partial_rotary_factor "
             "use_bias";
  row.experts.router = "pouch.scent";
  row.experts.score = ExpertModules::Sigmoid;
  row.experts.weights = ExpertModules::Sum;
  row.experts.each = {"", "", "pouch.narrow", "pouch.{}.wide"};
  row.experts.shared = {"", "pouch.up", "pouch.down"};
  row.biases.mlp = Bias::Never;
  std::string text(kConfig);
  text.insert(text.rfind('}'), R"(, "hidden_act": "silu",
      "first_k_dense_replace": 1, "num_experts_per_tok": 3,
      "num_local_experts": 5, "n_shared_experts": 2)");
  auto config = parseConfig(text, {}, row);
  ASSERT_TRUE(static_cast<bool>(config)) << llvm::toString(config.takeError());
  mlir::MLIRContext context;
  auto module = importModel(*config, ImportOptions(), &context);
  ASSERT_TRUE(module && mlir::succeeded(mlir::verify(*module)));
  text.clear();
  llvm::raw_string_ostream(text) << *module;
  for (const char *part :
       {"@narrow[1] : tensor<64x96xf32>",
        "@experts_gate[1] experts : tensor<5x96x64xf32> from "
        "\"model.layers.{}.pouch.{}.wide.weight\" rows 0 of 192 {first = 1",
        "@experts_down[1] experts : tensor<5x64x96xf32> from "
        "\"model.layers.{}.pouch.narrow.weight\" {first = 1",
        "@shared_up[1] : tensor<192x64xf32>", "llama.activate silu",
        "top 3 score sigmoid normalize sum : tensor<?x5xf32>"})
    EXPECT_THAT(text, HasSubstr(part));
}

TEST(FamilyTest, RowSaysWhatIsRefused) {
  Family row = wombat();
  std::string wrong(kConfig);
  wrong.replace(wrong.find("\"digs\": true"), 12,
                "\"digs\": null, \"digs2\": 1");
  auto config = parseConfig(wrong, {}, row);
  ASSERT_FALSE(static_cast<bool>(config));
  EXPECT_THAT(llvm::toString(config.takeError()),
              HasSubstr("'digs2': unknown key"));
  wrong = kConfig;
  wrong.replace(wrong.find("true"), 4, "false");
  config = parseConfig(wrong, {}, row);
  ASSERT_FALSE(static_cast<bool>(config));
  EXPECT_THAT(llvm::toString(config.takeError()),
              HasSubstr("'digs': only true is supported, got false"));
}
