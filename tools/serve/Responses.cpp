#include "tools/serve/Answer.h"

namespace cria::serve {

namespace {

/// What a request asked for as `tool_choice`.
json choiceOf(const Request &request) {
  using Choice = Request::ToolChoice;
  if (!request.toolName.empty())
    return {{"type", "function"}, {"name", request.toolName}};
  return request.toolChoice == Choice::None   ? "none"
         : request.toolChoice == Choice::Auto ? "auto"
                                              : "required";
}

/// An answer of /v1/responses: messages and calls of tools, whole or as typed
/// events.
class ResponsesAnswer : public Delivery {
public:
  ResponsesAnswer(const Engine &engine, const Request &request, const Job &job)
      : Delivery(job.exchange), stream(request.stream),
        parallelCalls(request.parallelCalls), marker(engine.calls.marker),
        promptTokens(static_cast<int64_t>(job.prompts[0].ids.size())) {
    if (request.mayCall())
      reader.emplace(engine.calls.format, request.toolNames,
                     request.mustCall());
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
        {"parallel_tool_calls", request.parallelCalls},
        {"previous_response_id", json()},
        {"reasoning", {{"effort", json()}, {"summary", json()}}},
        {"store", false},
        {"temperature", job.sampling.temperature},
        {"text",
         {{"format", request.textFormat.is_null() ? json{{"type", "text"}}
                                                  : request.textFormat}}},
        {"tool_choice", choiceOf(request)},
        {"tools", request.askedTools},
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
    if (stream && !hasBegun) {
      send("response.created", {{"response", response}});
      send("response.in_progress", {{"response", response}});
    }
    drawn += event.id >= 0;
    std::string piece = event.piece;
    std::vector<Call> calls;
    if (reader) {
      reader->push(piece); // the text before a marker
      if (event.id >= 0 && event.id == marker)
        reader->pushMarker();
      if (event.end != End::None)
        reader->finish();
      piece = reader->takeText();
      calls = reader->takeCalls();
    }
    addText(piece);
    for (const Call &call : calls)
      addCall(call);
    if (event.end != End::None)
      finish(event);
  }

  void addText(const std::string &piece) {
    if (piece.empty())
      return;
    if (!inMessage)
      beginMessage();
    text += piece;
    sendOfPart("response.output_text.delta",
               {{"delta", piece}, {"logprobs", json::array()}});
  }

  void beginMessage() {
    inMessage = true;
    item = "msg_" + exchange->id() + "_" + std::to_string(output.size());
    sendOfItem("response.output_item.added",
               {{"item", message("in_progress", json::array())}});
    sendOfPart("response.content_part.added", {{"part", part()}});
  }

  void endMessage(const char *status) {
    json made = message(status, json::array({part()}));
    sendOfPart("response.output_text.done",
               {{"text", text}, {"logprobs", json::array()}});
    sendOfPart("response.content_part.done", {{"part", part()}});
    sendOfItem("response.output_item.done", {{"item", made}});
    output.push_back(std::move(made));
    inMessage = false;
    text.clear();
  }

  void addCall(const Call &call) {
    if (hasCalls && !parallelCalls)
      return;
    hasCalls = true;
    if (inMessage)
      endMessage("completed");
    std::string id = makeCallId();
    item = "fc_" + id;
    json made = {{"id", item},      {"type", "function_call"},
                 {"call_id", id},   {"name", call.name},
                 {"arguments", ""}, {"status", "in_progress"}};
    sendOfItem("response.output_item.added", {{"item", made}});
    json named = {{"item_id", item}, {"delta", call.arguments}};
    sendOfItem("response.function_call_arguments.delta", named);
    named = {
        {"item_id", item}, {"name", call.name}, {"arguments", call.arguments}};
    sendOfItem("response.function_call_arguments.done", named);
    made["arguments"] = call.arguments;
    made["status"] = "completed";
    sendOfItem("response.output_item.done", {{"item", made}});
    output.push_back(std::move(made));
  }

  void finish(const Event &event) {
    hasEnded = true;
    bool isWhole = event.end == End::Stop;
    const char *status = isWhole ? "completed" : "incomplete";
    if (!inMessage && output.empty())
      beginMessage(); // without text
    if (inMessage)
      endMessage(status);
    response["status"] = status;
    if (!isWhole)
      response["incomplete_details"] = {{"reason", "max_output_tokens"}};
    response["output"] = std::move(output);
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

  json message(const char *status, json content) const {
    return {{"id", item},
            {"type", "message"},
            {"status", status},
            {"role", "assistant"},
            {"content", std::move(content)}};
  }

  /// Sends an event of the current item, if the answer is a stream.
  void sendOfItem(const char *type, json members) {
    members["output_index"] = output.size();
    if (stream)
      send(type, std::move(members));
  }

  /// Sends an event of the current message's only part.
  void sendOfPart(const char *type, json members) {
    members.update({{"item_id", item}, {"content_index", 0}});
    sendOfItem(type, std::move(members));
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

  bool stream, parallelCalls;
  std::optional<int32_t> marker;    // of calls
  std::optional<CallReader> reader; // of a text that may call tools
  int64_t promptTokens, drawn = 0, sent = 0;
  json response;               // without its output, until that is whole
  json output = json::array(); // its items that are whole
  std::string item;            // the name of the current one
  std::string text;            // of the current message
  bool inMessage = false, hasCalls = false;
  bool hasBegun = false, hasEnded = false;
};

} // namespace

std::unique_ptr<Delivery>
answerResponses(const Engine &engine, const Request &request, const Job &job) {
  return std::make_unique<ResponsesAnswer>(engine, request, job);
}

} // namespace cria::serve
