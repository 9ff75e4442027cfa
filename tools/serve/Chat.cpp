#include "tools/serve/Answer.h"

namespace cria::serve {

namespace {

class ChatAnswer : public TextAnswer {
public:
  ChatAnswer(const Engine &engine, const Request &request, const Job &job)
      : TextAnswer(engine, request, job, "chatcmpl-", "chat.completion",
                   "chat.completion.chunk") {}

private:
  json describe(int32_t id, double logProb) const {
    std::string bytes = bytesOf(id);
    json numbers = json::array();
    for (unsigned char byte : bytes)
      numbers.push_back(byte);
    return {{"token", bytes},
            {"logprob", finite(logProb)},
            {"bytes", std::move(numbers)}};
  }

  void addLogProbs(const Event &event, TextState &state) const override {
    json &to = state.logProbs;
    if (to.is_null())
      to = {{"content", json::array()}, {"refusal", json()}};
    json one = describe(event.id, event.logProb);
    one["top_logprobs"] = json::array();
    for (auto [id, logProb] : event.top)
      one["top_logprobs"].push_back(describe(id, logProb));
    to["content"].push_back(std::move(one));
  }

  json whole(const TextState &state, size_t) const override {
    return {{"message",
             {{"role", "assistant"},
              {"content", state.text},
              {"refusal", json()}}}};
  }

  json part(const std::string &piece, bool isFirst, size_t) const override {
    json delta = json::object();
    if (isFirst)
      delta["role"] = "assistant";
    if (isFirst || !piece.empty())
      delta["content"] = piece;
    return {{"delta", std::move(delta)}};
  }
};

} // namespace

std::unique_ptr<Delivery> answerChat(const Engine &engine,
                                     const Request &request, const Job &job) {
  return std::make_unique<ChatAnswer>(engine, request, job);
}

} // namespace cria::serve
