#include "runtime/weights/packed/PackedConfig.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

using namespace cria;

// Whatever is not named here is refused by the compiler alone: see
// test/lowering/import-faults.test.
TEST(PackedConfig, RefusesWhatIsNotSupported) {
  static const std::pair<const char *, const char *> cases[] = {
      {R"({"bits":4})", R"('quantization_config.quant_method' is missing)"},
      {R"({"quant_method":"bitsandbytes"})",
       R"('quantization_config.quant_method' is "bitsandbytes", which)"},
      {R"({"quant_method":"gptq","bits":8})",
       R"('quantization_config.bits' is 8, which is not supported: expected 4)"},
      {R"({"quant_method":"gptq","bits":4,"group_size":0})",
       R"('quantization_config.group_size' is 0, expected -1 or)"},
      {R"({"quant_method":"gptq","bits":4,"group_size":32.5})",
       R"('quantization_config.group_size' is 32.5, expected a whole)"},
      {R"({"quant_method":"gptq","bits":4,"sym":1})",
       R"('quantization_config.sym' is 1, expected true or false)"},
      {R"({"quant_method":"gptq","bits":4,"format":"marlin"})",
       R"('quantization_config.format' is "marlin", which)"},
      {R"({"quant_method":"gptq","bits":4,"format":"gptq_v2","checkpoint_format":"gptq"})",
       R"('quantization_config.format' is 'gptq_v2', and 'checkpoint_format' is 'gptq': expected the same)"},
      {R"({"quant_method":"gptq","bits":4,"is_marlin_format":true})",
       R"('quantization_config.is_marlin_format' is true, which)"},
      {R"({"quant_method":"gptq","bits":4,"dynamic":{"+:q_proj":{"bits":8}}})",
       R"('quantization_config.dynamic.+:q_proj.bits' is 8, which is not supported: expected 4)"},
      {R"({"quant_method":"awq","bits":4,"version":"gemv"})",
       R"('quantization_config.version' is "gemv", which is not supported: expected "gemm")"},
      {R"({"quant_method":"awq","bits":4,"backend":"llm-awq"})",
       R"('quantization_config.backend' is "llm-awq", which)"},
      {R"({"quant_method":"fp8","fmt":"e5m2"})",
       R"('quantization_config.fmt' is "e5m2", which)"},
      {R"({"quant_method":"fp8","weight_block_size":[1,2,3]})",
       R"('quantization_config.weight_block_size' has 3 elements, expected at most 2)"},
      {R"({"quant_method":"auto-round","bits":4,"sym":true,"packing_format":"auto_round:mlx"})",
       R"('quantization_config.packing_format' is "auto_round:mlx", which)"},
      {R"({"quant_method":"auto-round","bits":4,"sym":false})",
       R"('quantization_config.packing_format' is missing)"},
      {R"({"quant_method":"auto-round","bits":4,"sym":true,"data_type":"mx_fp"})",
       R"('quantization_config.data_type' is "mx_fp", which)"},
      {R"({"quant_method":"auto-round","bits":4,"sym":true,"rotation_config":{"a":1}})",
       R"('quantization_config.rotation_config' is {"a":1}, which)"},
      {R"({"quant_method":"auto-round","bits":4,"sym":true,"extra_config":{"lm_head":{"bits":8}}})",
       R"('quantization_config.extra_config.lm_head.bits' is 8, which)"},
      {R"({"quant_method":"compressed-tensors"})",
       R"('quantization_config.config_groups' is missing)"},
      {R"({"quant_method":"compressed-tensors","config_groups":{"W4A16":["Linear"]}})",
       R"('quantization_config.config_groups.W4A16' is array, expected an object)"},
      {R"({"quant_method":"compressed-tensors","format":"marlin-24","config_groups":{"group_0":{"targets":["Linear"],"weights":{"num_bits":4,"type":"int","strategy":"group","group_size":32}}}})",
       R"('quantization_config.format' is "marlin-24", which)"},
      {R"({"quant_method":"compressed-tensors","format":"pack-quantized","config_groups":{"group_0":{"targets":["Linear"],"weights":{"num_bits":8,"type":"float","strategy":"channel"}}}})",
       R"('quantization_config.format' is "pack-quantized", which)"},
      {R"({"quant_method":"compressed-tensors","format":"pack-quantized","config_groups":{"group_0":{"targets":["Linear"],"weights":{"num_bits":8,"type":"int","strategy":"group","group_size":32}}}})",
       R"('quantization_config.config_groups.group_0.weights.num_bits' is 8, which)"},
      {R"({"quant_method":"compressed-tensors","format":"pack-quantized","config_groups":{"group_0":{"targets":["Linear"],"weights":{"num_bits":4,"type":"int","strategy":"tensor"}}}})",
       R"('quantization_config.config_groups.group_0.weights.strategy' is "tensor", which)"},
      {R"({"quant_method":"compressed-tensors","format":"pack-quantized","config_groups":{"group_0":{"targets":["Linear"],"weights":{"num_bits":4,"type":"int","strategy":"group","group_size":32,"dynamic":true}}}})",
       R"('quantization_config.config_groups.group_0.weights.dynamic' is true, which)"},
      {R"({"quant_method":"compressed-tensors","format":"float-quantized","config_groups":{"group_0":{"targets":["Linear"],"weights":{"num_bits":8,"type":"float","strategy":"channel","symmetric":false}}}})",
       R"('quantization_config.config_groups.group_0.weights.symmetric' is false, which)"},
      {R"({"quant_method":"compressed-tensors","format":"pack-quantized","config_groups":{"group_0":{"targets":["Linear"],"weights":{"num_bits":4,"type":"int","strategy":"group","group_size":32}}},"transform_config":{"a":1}})",
       R"('quantization_config.transform_config' is {"a":1}, which)"},
      {R"({"quant_method":"compressed-tensors","format":"pack-quantized","config_groups":{"group_0":{"targets":["Linear"],"weights":{"num_bits":4,"type":"int","strategy":"group","group_size":32}}},"sparsity_config":{"format":"sparse-24-bitmask"}})",
       R"('quantization_config.sparsity_config.format' is "sparse-24-bitmask", which)"},
  };
  for (const auto &[text, message] : cases) {
    nlohmann::json root = {
        {"quantization_config", nlohmann::json::parse(text)}};
    Status status;
    readPackedSchemes(
        JsonCursor(root, "c.json", status)["quantization_config"]);
    EXPECT_THAT(status.message(), testing::HasSubstr(message)) << text;
  }
}
