#include "tools/serve/Answer.h"

namespace cria::serve {

namespace {

class ChatAnswer : public TextAnswer {
public:
  ChatAnswer(const Engine &engine, const Request &request, const Job &job)
      : TextAnswer(engine, request, job, "chatcmpl-", "chat.completion",
                   "chat.completion.chunk") {
    if (request.mayCall())
      readers.assign(job.texts(), {engine.calls.format, request.toolNames,
                                   request.mustCall()});
  }

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

  std::string read(const Event &event, TextState &state) override {
    if (readers.empty())
      return event.piece;
    CallReader &reader = readers[event.text];
    reader.push(event.piece); // the text before a marker
    if (event.id >= 0 && event.id == engine.calls.marker)
      reader.pushMarker();
    if (event.end != End::None)
      reader.finish();
    if (request.stream)
      state.calls.clear();
    for (Call &call : reader.takeCalls())
      addCall(std::move(call), state);
    return reader.takeText();
  }

  void addCall(Call call, TextState &state) const {
    if (state.callCount == 1 && !request.parallelCalls)
      return;
    json made = {{"id", makeCallId()},
                 {"type", "function"},
                 {"function",
                  {{"name", std::move(call.name)},
                   {"arguments", std::move(call.arguments)}}}};
    if (request.stream)
      made["index"] = state.callCount;
    state.calls.push_back(std::move(made));
    ++state.callCount;
  }

  json whole(const TextState &state, size_t) const override {
    bool isCalls = state.text.empty() && state.callCount > 0;
    json message = {{"role", "assistant"},
                    {"content", isCalls ? json() : json(state.text)},
                    {"refusal", json()}};
    if (state.callCount > 0)
      message["tool_calls"] = state.calls;
    return {{"message", std::move(message)}};
  }

  json part(const std::string &piece, const TextState &state, bool isFirst,
            size_t) const override {
    json delta = json::object();
    if (isFirst)
      delta["role"] = "assistant";
    if (isFirst || !piece.empty())
      delta["content"] = piece;
    if (!state.calls.empty())
      delta["tool_calls"] = state.calls;
    return {{"delta", std::move(delta)}};
  }

  std::vector<CallReader> readers; // of texts that may call tools
};

} // namespace

std::unique_ptr<Delivery> answerChat(const Engine &engine,
                                     const Request &request, const Job &job) {
  return std::make_unique<ChatAnswer>(engine, request, job);
}

} // namespace cria::serve
