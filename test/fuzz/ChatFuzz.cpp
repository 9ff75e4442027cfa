/// Chat templates: what parses renders a conversation, or fails, in bounds.
#include "runtime/chat/Template.h"
#include "test/fuzz/Fuzz.h"

using namespace cria;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  auto form = chat::Template::parse(fuzz::textOf(data, size), "t.jinja");
  if (!form.ok())
    return 0;
  static const auto variables = nlohmann::ordered_json::parse(
      R"({"messages": [{"role": "system", "content": " s\n"},
          {"role": "user", "content": "\u00e9 <think>"},
          {"role": "assistant", "content": null, "tool_calls": [{"id": "1"}]}],
          "tools": [{"a": [1, 2.5, true]}], "add_generation_prompt": true})");
  auto text = form->render(variables);
  fuzz::require(text.ok() || !text.status().message().empty(), "says why");
  return 0;
}
