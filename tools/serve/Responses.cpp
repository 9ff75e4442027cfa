#include "tools/serve/Answer.h"

namespace cria::serve {

namespace {

/// An answer of /v1/responses: one message, whole or as typed events.
class ResponsesAnswer : public Delivery {
public:
  ResponsesAnswer(const Engine &engine, const Request &request, const Job &job)
      : Delivery(job.exchange), stream(request.stream),
        message("msg_" + exchange->id()),
        promptTokens(static_cast<int64_t>(job.prompts[0].ids.size())) {
    response = {
        {"id", "resp_" + exchange->id()},
        {"object", "response"},
        {"created_at", unixTime()},
        {"status", "in_progress"},
        {"background", false},
        {"error", json()},
        {"incomplete_details", json()},
        {"instructions", request.instructions},
        {"max_output_tokens",
         request.maxTokens ? json(*request.maxTokens) : json()},
        {"metadata",
         request.metadata.is_null() ? json::object() : request.metadata},
        {"model", request.model.empty() ? engine.name : request.model},
        {"output", json::array()},
        {"parallel_tool_calls", true},
        {"previous_response_id", json()},
        {"reasoning", {{"effort", json()}, {"summary", json()}}},
        {"store", false},
        {"temperature", job.sampling.temperature},
        {"text",
         {{"format", request.textFormat.is_null() ? json{{"type", "text"}}
                                                  : request.textFormat}}},
        {"tool_choice", "auto"},
        {"tools", json::array()},
        {"top_p", request.topP.value_or(
                      job.sampling.top_p > 0 ? job.sampling.top_p : 1)},
        {"truncation", "disabled"},
        {"usage", json()},
        {"user", json()}};
  }

  void take(const std::vector<Event> &events) override {
    for (const Event &event : events)
      if (!hasEnded)
        takeOne(event);
  }

  void fail(const ApiError &error) override {
    if (hasEnded)
      return;
    hasEnded = true;
    if (!hasBegun)
      return Delivery::fail(error);
    // The status was sent already.
    response["status"] = "failed";
    response["error"] = {{"code", "server_error"}, {"message", error.message}};
    send("response.failed", {{"response", response}});
    exchange->end();
  }

private:
  void takeOne(const Event &event) {
    if (stream && !hasBegun)
      begin();
    drawn += event.id >= 0;
    text += event.piece;
    if (stream && !event.piece.empty())
      sendOfPart("response.output_text.delta",
                 {{"delta", event.piece}, {"logprobs", json::array()}});
    if (event.end != End::None)
      finish(event);
  }

  void begin() {
    send("response.created", {{"response", response}});
    send("response.in_progress", {{"response", response}});
    send("response.output_item.added",
         {{"output_index", 0}, {"item", item("in_progress", json::array())}});
    sendOfPart("response.content_part.added", {{"part", part()}});
  }

  void finish(const Event &event) {
    hasEnded = true;
    bool isWhole = event.end == End::Stop;
    const char *status = isWhole ? "completed" : "incomplete";
    json made = item(status, json::array({part()}));
    if (stream) {
      sendOfPart("response.output_text.done",
                 {{"text", text}, {"logprobs", json::array()}});
      sendOfPart("response.content_part.done", {{"part", part()}});
      send("response.output_item.done", {{"output_index", 0}, {"item", made}});
    }
    response["status"] = status;
    if (!isWhole)
      response["incomplete_details"] = {{"reason", "max_output_tokens"}};
    response["output"] = json::array({std::move(made)});
    response["usage"] = {
        {"input_tokens", promptTokens},
        {"input_tokens_details", {{"cached_tokens", event.reused}}},
        {"output_tokens", drawn},
        {"output_tokens_details", {{"reasoning_tokens", 0}}},
        {"total_tokens", promptTokens + drawn}};
    if (!stream)
      return exchange->respond(toResponse(response));
    send(isWhole ? "response.completed" : "response.incomplete",
         {{"response", std::move(response)}});
    exchange->end();
  }

  json part() const {
    return {{"type", "output_text"},
            {"text", text},
            {"annotations", json::array()},
            {"logprobs", json::array()}};
  }

  json item(const char *status, json content) const {
    return {{"id", message},
            {"type", "message"},
            {"status", status},
            {"role", "assistant"},
            {"content", std::move(content)}};
  }

  /// Sends an event of the message's only part.
  void sendOfPart(const char *type, json members) {
    members.update(
        {{"item_id", message}, {"output_index", 0}, {"content_index", 0}});
    send(type, std::move(members));
  }

  void send(const char *type, json members) {
    json event = {{"type", type}, {"sequence_number", sent++}};
    event.update(members);
    if (!hasBegun)
      exchange->begin("text/event-stream");
    hasBegun = true;
    exchange->send("event: " + std::string(type) + "\ndata: " + toText(event) +
                   "\n\n");
  }

  bool stream;
  std::string message; // its name
  int64_t promptTokens, drawn = 0, sent = 0;
  json response; // without its output, until that is whole
  std::string text;
  bool hasBegun = false, hasEnded = false;
};

} // namespace

std::unique_ptr<Delivery>
answerResponses(const Engine &engine, const Request &request, const Job &job) {
  return std::make_unique<ResponsesAnswer>(engine, request, job);
}

} // namespace cria::serve
