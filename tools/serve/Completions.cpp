#include "tools/serve/Answer.h"

#include <algorithm>
#include <cstdio>

namespace cria::serve {

namespace {

/// A token as OpenAI's completions spell it: its text, or its bytes if they are
/// no whole characters.
std::string spell(const std::string &bytes) {
  static const std::string replacement = "\xEF\xBF\xBD"; // of what is not UTF-8
  if (bytes.find(replacement) != bytes.npos ||
      toText(bytes).find(replacement) == bytes.npos)
    return bytes;
  std::string text = "bytes:";
  for (unsigned char byte : bytes) {
    char hex[8];
    snprintf(hex, sizeof(hex), "\\x%02x", byte);
    text += hex;
  }
  return text;
}

int64_t characters(const std::string &text) {
  return std::count_if(text.begin(), text.end(),
                       [](char byte) { return (byte & 0xC0) != 0x80; });
}

class CompletionsAnswer : public TextAnswer {
public:
  CompletionsAnswer(const Engine &engine, const Request &request,
                    const Job &job)
      : TextAnswer(engine, request, job, "cmpl-", "text_completion",
                   "text_completion") {}

private:
  void addLogProbs(const Event &event, TextState &state) const override {
    json &to = state.logProbs;
    bool hasTop = request.logProbs > 0;
    if (to.is_null())
      to = {{"text_offset", json::array()},
            {"token_logprobs", json::array()},
            {"tokens", json::array()},
            {"top_logprobs", hasTop ? json::array() : json()}};
    std::string token = spell(bytesOf(event.id));
    to["text_offset"].push_back(state.characters);
    state.characters += characters(token);
    to["token_logprobs"].push_back(finite(event.logProb));
    to["tokens"].push_back(token);
    if (!hasTop)
      return;
    json top = json::object();
    for (auto [id, logProb] : event.top)
      top[spell(bytesOf(id))] = finite(logProb);
    top[token] = finite(event.logProb); // also if it is none of the likeliest
    to["top_logprobs"].push_back(std::move(top));
  }

  void takePrompt(size_t prompt, const std::vector<Event> &ids) override {
    Stream stream(*engine.tokenizer, !request.skipSpecialTokens);
    TextState state;
    int64_t shown = 0; // characters of the echo
    for (const Event &event : ids) {
      state.characters = shown;
      addLogProbs(event, state);
      shown += characters(stream.push(event.id));
    }
    json &made = state.logProbs;
    made["token_logprobs"][0] = json();
    if (made["top_logprobs"].is_array())
      made["top_logprobs"][0] = json();
    promptLogProbs.resize(prompt + 1);
    promptLogProbs[prompt] = std::move(made);
  }

  void begin(TextState &state, size_t index) override {
    if (promptLogProbs.empty())
      return;
    state.logProbs = promptLogProbs[index / static_cast<size_t>(request.n)];
    state.characters = characters(echoOf(index));
  }

  /// What stands before a text's own.
  const std::string &echoOf(size_t index) const {
    return echoes[index / static_cast<size_t>(request.n)];
  }
  json whole(const TextState &state, size_t index) const override {
    return {{"text", echoOf(index) + state.text}};
  }
  json part(const std::string &piece, const TextState &, bool isFirst,
            size_t index) const override {
    return {{"text", isFirst ? echoOf(index) + piece : piece}};
  }

  std::vector<json> promptLogProbs; // if they are wanted
};

} // namespace

std::unique_ptr<Delivery> answerCompletions(const Engine &engine,
                                            const Request &request,
                                            const Job &job) {
  return std::make_unique<CompletionsAnswer>(engine, request, job);
}

} // namespace cria::serve
