/// tokenizer.json; what is taken then encodes and decodes.
#include "runtime/tokenizer/Tokenizer.h"
#include "test/fuzz/Fuzz.h"

using namespace cria;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  auto tokenizer = Tokenizer::parse(fuzz::textOf(data, size), "t.json");
  if (!tokenizer.ok())
    return 0;
  for (std::string text : {"Hello, world 12345", "a\u0301 \u4f60\U0001f600<s>"})
    if (auto ids = tokenizer->encode(text); ids.ok())
      (void)tokenizer->decode(*ids);
  return 0;
}
