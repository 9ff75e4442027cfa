/// model.safetensors.index.json beside one good shard.
#include "runtime/weights/Checkpoint.h"
#include "test/fuzz/Fuzz.h"

using namespace cria;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static const fuzz::Folder folder;
  static const std::string header =
      R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})";
  static const std::string shard = folder.write(
      "1.safetensors", std::string(1, static_cast<char>(header.size())) +
                           std::string(7, '\0') + header + "data");
  folder.write("model.safetensors.index.json", fuzz::textOf(data, size));
  auto opened = Checkpoint::open(folder.path());
  fuzz::require(!opened.ok() || opened->find("a") || opened->tensors().empty(),
                "all that is there comes from the shard");
  return 0;
}
