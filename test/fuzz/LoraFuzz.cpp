/// adapter_config.json of a LoRA adapter, asked for the rank and the factor of
/// modules that its patterns may name.
#include "runtime/weights/lora/LoraConfig.h"
#include "test/fuzz/Fuzz.h"

#include <cmath>

using namespace cria;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static const fuzz::Folder folder;
  auto config = LoraConfig::load(
      folder.write("adapter_config.json", fuzz::textOf(data, size)));
  if (!config.ok())
    return 0;
  uint64_t budget = 1 << 20;
  for (const char *module : {"model.layers.0.self_attn.q_proj",
                             "model.layers.10.mlp.down_proj", "lm_head"}) {
    auto scale = config->at(module, budget);
    if (!scale.ok())
      continue;
    fuzz::require(scale->rank > 0, "a rank");
    fuzz::require(std::isfinite(scale->factor), "a finite factor");
  }
  return 0;
}
