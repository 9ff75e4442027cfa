#include "runtime/weights/Fingerprint.h"

#include "runtime/Abi.h"
#include "runtime/weights/Checkpoint.h"

#include <algorithm>

namespace cria {

static constexpr uint64_t samples = 64, sampleBytes = 4096;

static Status addFile(const File &file, uint64_t &sum) {
  uint64_t size = file.size();
  sum = criaFnv1a64(sum, &size, sizeof(size));
  char buffer[sampleBytes];
  uint64_t step = std::max(size / samples, sampleBytes);
  for (uint64_t at = 0; at < size; at += step) {
    uint64_t count = std::min(sampleBytes, size - at);
    if (Status status = file.read(at, buffer, count); !status.ok())
      return status;
    sum = criaFnv1a64(sum, buffer, count);
  }
  return Status();
}

static Status addLora(const LoraSource &lora, uint64_t &sum) {
  sum = criaFnv1a64(sum, &lora.scale, sizeof(lora.scale));
  for (const char *name :
       {"/adapter_config.json", "/adapter_model.safetensors"}) {
    Result<File> file = File::open(lora.folder + name);
    Status status = file.ok() ? addFile(*file, sum) : file.status();
    if (!status.ok())
      return status;
  }
  return Status();
}

Result<uint64_t> fingerprint(const WeightSource &source) {
  uint64_t sum = criaFnv1a64(CRIA_FNV_OFFSET, &source.seed, sizeof(uint64_t));
  if (source.checkpoint) {
    Result<Checkpoint> checkpoint = Checkpoint::open(*source.checkpoint);
    if (!checkpoint.ok())
      return checkpoint.status();
    for (const TensorFile &file : checkpoint->files())
      if (Status status = addFile(file.file, sum); !status.ok())
        return status;
  }
  for (const LoraSource &lora : source.loras)
    if (Status status = addLora(lora, sum); !status.ok())
      return status;
  return sum;
}

} // namespace cria
