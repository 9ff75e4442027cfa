/// Text through the byte-level tokenizer of examples/tiny: UTF-8 comes back
/// unchanged, and other bytes are refused.
#include "runtime/text/tokenizer/TextStream.h"
#include "test/fuzz/Fuzz.h"

using namespace cria;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static const auto tokenizer =
      Tokenizer::load(CRIA_SOURCE_FOLDER "/examples/tiny/tokenizer.json");
  fuzz::require(tokenizer.ok(), "the tokenizer loads");
  std::string text(fuzz::textOf(data, size));
  auto ids = tokenizer->encode(text, false);
  if (!ids.ok())
    return 0;
  TextStream stream(*tokenizer, true);
  std::string again;
  for (int32_t id : *ids)
    again += *stream.push(id);
  fuzz::require(again + *stream.finish() == text, "text comes back");
  return 0;
}
