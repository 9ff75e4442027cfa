/// The header of a GGUF file, and all that is made of it: a config, names of
/// tensors, a tokenizer, a chat template.
#include "lowering/import/gguf/Config.h"
#include "runtime/gguf/Files.h"
#include "runtime/text/chat/Template.h"
#include "runtime/text/gguf/Text.h"
#include "runtime/text/tokenizer/Tokenizer.h"
#include "runtime/weights/gguf/Tensors.h"
#include "test/fuzz/Fuzz.h"

using namespace cria;

/// Tensors lie in the file, apart from one another.
static void checkTensors(const std::string &path, size_t size) {
  auto parts = gguf::openFiles(path);
  if (!parts.ok())
    return;
  uint64_t end = 0;
  for (const gguf::TensorInfo &tensor : parts->front().header.tensors()) {
    fuzz::require(tensor.begin >= end && tensor.begin < tensor.end &&
                      tensor.end <= size,
                  "tensors lie in the file, apart");
    end = tensor.end;
  }
  for (const auto &[key, value] : parts->front().header.metadata())
    fuzz::require(!value.shown().empty(), "a value can be shown");
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static const fuzz::Folder folder;
  std::string path = folder.write("x.gguf", fuzz::textOf(data, size));
  checkTensors(path, size);
  auto config = gguf::readConfig(path, {});
  if (config.ok())
    fuzz::require(
        !nlohmann::json::parse(config->json, nullptr, false).is_discarded(),
        "the config is JSON");
  (void)gguf::openTensors(path).ok();
  (void)gguf::readTextIds(path).ok();
  (void)chat::Template::load(path).ok();
  auto tokenizer = Tokenizer::load(path);
  if (tokenizer.ok())
    (void)tokenizer->encode("Once upon a time\xc3\xa9").ok();
  return 0;
}
