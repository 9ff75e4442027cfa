#include "lowering/import/Quantization.h"

#include "runtime/weights/packed/PackedConfig.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

using namespace cria;
using nlohmann::json;

namespace {

/// A key of quantization_config. A name may be a path, where * stands for any
/// key.
struct QuantizationKey {
  llvm::StringLiteral name;
  llvm::StringLiteral methods; // that have the key, separated by spaces
};

} // namespace

// Keys that runtime/weights/packed/PackedConfig.cpp reads, and keys that only
// say how the tensors were made or are run, or what the tensors say, too.
static constexpr llvm::StringLiteral kInt4 = "auto-round awq gptq",
                                     kRound = "auto-round gptq",
                                     kGptq = "awq gptq", kAwq = "awq",
                                     kFp8 = "fp8",
                                     kCompressed = "compressed-tensors";

static const QuantizationKey kKeys[] = {
    {"act_bits", kInt4},
    {"act_data_type", kInt4},
    {"act_dynamic", kInt4},
    {"act_group_aware", kGptq},
    {"act_group_size", kInt4},
    {"act_sym", kInt4},
    {"activation_scheme", "auto-round fp8"},
    {"amp", kInt4},
    {"autoround_version", kInt4},
    {"backend", kInt4},
    {"batch_size", kInt4},
    {"bits", kInt4},
    {"block_name_to_quantize", kInt4},
    {"cache_block_outputs", kGptq},
    {"checkpoint_format", "gptq"},
    {"config_groups.*.format", kCompressed},
    {"config_groups.*.input_activations", kCompressed},
    {"config_groups.*.output_activations", kCompressed},
    {"config_groups.*.targets", kCompressed},
    {"config_groups.*.weights.actorder", kCompressed},
    {"config_groups.*.weights.block_structure", kCompressed},
    {"config_groups.*.weights.dynamic", kCompressed},
    {"config_groups.*.weights.group_size", kCompressed},
    {"config_groups.*.weights.num_bits", kCompressed},
    {"config_groups.*.weights.observer", kCompressed},
    {"config_groups.*.weights.observer_kwargs", kCompressed},
    {"config_groups.*.weights.scale_dtype", kCompressed},
    {"config_groups.*.weights.strategy", kCompressed},
    {"config_groups.*.weights.symmetric", kCompressed},
    {"config_groups.*.weights.type", kCompressed},
    {"config_groups.*.weights.zp_dtype", kCompressed},
    {"damp_auto_increment", kGptq},
    {"damp_percent", kGptq},
    {"data_type", kInt4},
    {"dataset", kInt4},
    {"dequantize", "compressed-tensors fp8 mxfp4"},
    {"desc_act", kGptq},
    {"disable_exllama", "gptq"},
    {"do_fuse", kAwq},
    {"dynamic", "gptq"},
    {"enable_minmax_tuning", kInt4},
    {"enable_norm_bias_tuning", kInt4},
    {"enable_quanted_input", kInt4},
    {"exllama_config", kGptq},
    {"expert_dtype", kFp8},
    {"extra_config", "auto-round"},
    {"fmt", "auto-round fp8"},
    {"format", "awq compressed-tensors gptq"},
    {"fuse_max_seq_len", kAwq},
    {"global_compression_ratio", kCompressed},
    {"gradient_accumulate_steps", kInt4},
    {"group_size", kInt4},
    {"ignore", kCompressed},
    {"ignored_layers", kFp8},
    {"is_marlin_format", "gptq"},
    {"iters", kInt4},
    {"kv_cache_scheme", "compressed-tensors fp8"},
    {"lm_head", kRound},
    {"low_gpu_mem_usage", kInt4},
    {"lr", kInt4},
    {"max_input_length", kGptq},
    {"meta", kGptq},
    {"minmax_lr", kInt4},
    {"model_file_base_name", kGptq},
    {"model_name_or_path", kGptq},
    {"model_seqlen", kGptq},
    {"module_name_preceding_first_block", kGptq},
    {"modules_in_block_to_quantize", kGptq},
    {"modules_to_convert", kFp8},
    {"modules_to_fuse", kAwq},
    {"modules_to_not_convert", "auto-round awq fp8 mxfp4"},
    {"nsamples", kInt4},
    {"pack_dtype", kGptq},
    {"packing_format", "auto-round"},
    {"pad_token_id", kGptq},
    {"provider", kInt4},
    {"quant_method", "auto-round awq compressed-tensors fp8 gptq mxfp4"},
    {"quantization_status", kCompressed},
    {"rotation_config", "auto-round"},
    {"run_compressed", kCompressed},
    {"scale_dtype", kInt4},
    {"scale_fmt", kFp8},
    {"seqlen", kInt4},
    {"sparsity_config", kCompressed},
    {"static_attention_dtype", "auto-round"},
    {"static_groups", kGptq},
    {"static_kv_dtype", "auto-round"},
    {"super_bits", "auto-round"},
    {"super_group_size", "auto-round"},
    {"sym", kInt4},
    {"to_quant_block_names", kInt4},
    {"tokenizer", kGptq},
    {"transform_config", kCompressed},
    {"true_sequential", kGptq},
    {"use_cuda_fp16", kGptq},
    {"use_exllama", kGptq},
    {"version", "awq compressed-tensors"},
    {"weight_block_size", kFp8},
    {"zero_point", kAwq},
};

/// Refuses the keys of `object` that `method` does not have. `path` stands in
/// front of their names ("config_groups.group_0."), `pattern` in front of those
/// in the table ("config_groups.*.").
static void checkNames(const json &object, llvm::StringRef method,
                       const std::string &path, const std::string &pattern,
                       ObjectReader &reader, ConfigDraft &draft) {
  auto known = [&](const std::string &name, bool within) {
    return llvm::any_of(kKeys, [&](const QuantizationKey &key) {
      return llvm::is_contained(llvm::split(key.methods, ' '), method) &&
             (within ? key.name.starts_with(name) : key.name == name);
    });
  };
  for (const auto &[name, value] : object.items()) {
    if (value.is_null())
      continue;
    std::string each = pattern + (known(pattern + "*.", true) ? "*" : name);
    if (value.is_object() && known(each + ".", true))
      checkNames(value, method, path + name + ".", each + ".", reader, draft);
    else if (!known(each, false) && !known(each + ".", true))
      refuseUnknown(reader, path + name, value,
                    ("unknown key of " + method).str(), draft);
  }
}

void cria::checkQuantization(ObjectReader &reader, llvm::StringRef key,
                             ConfigDraft &draft) {
  const json *config = reader.find(key);
  if (!config)
    return;
  if (!config->is_object())
    return reader.failKey(key, "expected an object, got " + shownJson(*config));
  Status status;
  json root = {{key.str(), *config}};
  readPackedSchemes(JsonCursor(root, "", status)[key.str()]);
  if (!status.ok())
    return reader.fail(status.message());
  std::string method =
      llvm::StringRef(config->at("quant_method").get<std::string>()).lower();
  if (method == "intel/auto-round")
    method = "auto-round";
  checkNames(*config, method, key.str() + ".", "", reader, draft);
}
