#include "lowering/import/Quantization.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

#include <algorithm>

using namespace cria;
using nlohmann::json;

namespace {

/// A key of quantization_config.
struct QuantizationKey {
  llvm::StringLiteral name;
  llvm::StringLiteral methods; // that have the key, separated by spaces
  /// The supported values, as a JSON list. "" if any value is supported:
  /// because the tensors say the same, or because the key only says how they
  /// were made or are run.
  llvm::StringLiteral values;
};

} // namespace

static const QuantizationKey kKeys[] = {
    {"activation_scheme", "fp8", ""}, // activations are not quantized
    {"backend", "awq gptq", ""},
    {"batch_size", "gptq", ""},
    {"bits", "awq gptq", "[4]"},
    {"block_name_to_quantize", "gptq", ""},
    {"cache_block_outputs", "gptq", ""},
    // GPTQModel's "gptq_v2" stores other zeros.
    {"checkpoint_format", "gptq", R"(["gptq"])"},
    {"damp_auto_increment", "gptq", ""},
    {"damp_percent", "gptq", ""},
    {"dataset", "gptq", ""},
    {"dequantize", "fp8", ""},
    {"desc_act", "gptq", ""},
    {"do_fuse", "awq", ""},
    {"dynamic", "gptq", "[{}]"},
    {"exllama_config", "awq gptq", ""},
    {"fmt", "fp8", R"(["e4m3"])"},
    {"fuse_max_seq_len", "awq", ""},
    {"group_size", "awq gptq", ""},
    {"ignored_layers", "fp8", ""},
    {"is_marlin_format", "gptq", "[false]"},
    {"kv_cache_scheme", "fp8", "[]"},
    {"lm_head", "gptq", ""},
    {"max_input_length", "gptq", ""},
    {"meta", "gptq", ""},
    {"model_file_base_name", "gptq", ""},
    {"model_name_or_path", "gptq", ""},
    {"model_seqlen", "gptq", ""},
    {"module_name_preceding_first_block", "gptq", ""},
    {"modules_in_block_to_quantize", "gptq", ""},
    {"modules_to_fuse", "awq", ""},
    {"modules_to_not_convert", "awq fp8", ""},
    {"pack_dtype", "gptq", R"(["int32"])"},
    {"pad_token_id", "gptq", ""},
    {"quant_method", "awq fp8 gptq", ""},
    {"scale_fmt", "fp8", ""},
    {"static_groups", "gptq", ""},
    {"sym", "gptq", ""},
    {"tokenizer", "gptq", ""},
    {"true_sequential", "gptq", ""},
    {"use_cuda_fp16", "gptq", ""},
    {"use_exllama", "gptq", ""},
    {"version", "awq", R"(["gemm", "GEMM"])"},
    {"weight_block_size", "fp8", "[[128, 128]]"},
    {"zero_point", "awq", "[true]"},
};

/// Checks one key of `method`.
static void checkKey(llvm::StringRef parent, llvm::StringRef name,
                     const json &value, llvm::StringRef method,
                     ObjectReader &reader) {
  std::string key = (parent + "." + name).str();
  const QuantizationKey *known = llvm::find_if(
      kKeys, [&](const QuantizationKey &each) { return each.name == name; });
  if (known == std::end(kKeys) ||
      !llvm::is_contained(llvm::split(known->methods, ' '), method))
    return reader.failKey(key, "unknown key of " + method + ", got " +
                                   shownJson(value));
  if (known->values.empty() || value.is_null())
    return;
  json values = json::parse(known->values);
  if (std::find(values.begin(), values.end(), value) != values.end())
    return;
  std::vector<std::string> texts{"null"};
  for (const json &each : values)
    texts.push_back(shownJson(each));
  reader.failKey(key, "only " + llvm::join(texts, " or ") +
                          " is supported, got " + shownJson(value));
}

void cria::checkQuantization(ObjectReader &reader, llvm::StringRef key) {
  const json *config = reader.find(key);
  if (!config)
    return;
  if (!config->is_object())
    return reader.failKey(key, "expected an object, got " + shownJson(*config));
  json method = config->value("quant_method", json());
  if (method != "awq" && method != "fp8" && method != "gptq")
    return reader.failKey((key + ".quant_method").str(),
                          "expected awq, fp8 or gptq, got " +
                              shownJson(method));
  for (const auto &[name, value] : config->items())
    checkKey(key, name, value, method.get<std::string>(), reader);
}
