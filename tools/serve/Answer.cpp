#include "tools/serve/Answer.h"

#include <chrono>
#include <cmath>
#include <random>
#include <utility>

namespace cria::serve {

int64_t unixTime() {
  using namespace std::chrono;
  return duration_cast<seconds>(system_clock::now().time_since_epoch()).count();
}

// Nine letters and digits, as Mistral's templates want.
std::string makeCallId() {
  static constexpr char characters[] = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                       "abcdefghijklmnopqrstuvwxyz";
  std::string id;
  std::random_device random;
  while (id.size() < 9)
    id += characters[random() % (sizeof(characters) - 1)];
  return id;
}

void Delivery::take(size_t, const std::vector<float> &) {}
void Delivery::takePrompt(size_t, const std::vector<Event> &) {}

void Delivery::fail(const ApiError &error) {
  exchange->respond(toResponse(error));
}

TextAnswer::TextAnswer(const Engine &engine, const Request &asked,
                       const Job &job, const char *prefix, const char *object,
                       const char *chunk)
    : Delivery(job.exchange), engine(engine), request(asked),
      id(prefix + exchange->id()),
      model(asked.model.empty() ? engine.name : asked.model), object(object),
      chunk(chunk), texts(job.texts()), left(texts.size()) {
  request.prompts.clear();
  request.messages = request.tools = json();
  for (const Ids &prompt : job.prompts) {
    promptTokens += static_cast<int64_t>(prompt.ids.size());
    echoes.push_back(prompt.echo);
    if (request.returnIds)
      promptIds.push_back(prompt.ids);
  }
}

std::string TextAnswer::bytesOf(int32_t token) const {
  return engine.tokenizer->bytes(token);
}

double TextAnswer::finite(double logProb) {
  return std::isfinite(logProb) ? logProb : -9999;
}

json TextAnswer::head(const char *name) const {
  return {{"id", id}, {"object", name}, {"created", created}, {"model", model}};
}

json TextAnswer::usage() const {
  int64_t drawn = 0, reused = 0;
  for (size_t i = 0; i < texts.size(); ++i) {
    drawn += texts[i].drawn;
    if (i % static_cast<size_t>(request.n) == 0)
      reused += texts[i].reused;
  }
  return {{"prompt_tokens", promptTokens},
          {"completion_tokens", drawn},
          {"total_tokens", promptTokens + drawn},
          {"prompt_tokens_details", {{"cached_tokens", reused}}}};
}

/// A choice, whole or a part. It takes the log-probabilities of `state`.
json TextAnswer::choice(json members, TextState &state, size_t index) const {
  json made = {{"index", index}};
  made.update(members);
  made["logprobs"] = std::move(state.logProbs);
  made["finish_reason"] =
      state.end == End::Stop ? json(state.callCount > 0 ? "tool_calls" : "stop")
      : state.end == End::Length ? json("length")
                                 : json();
  return made;
}

void TextAnswer::sendEvent(const std::string &text) {
  if (!hasBegun)
    exchange->begin("text/event-stream");
  hasBegun = true;
  exchange->send("data: " + text + "\n\n");
}

/// Sends what an event adds, if that is anything; the first one in any case.
void TextAnswer::sendChunk(const Event &event, const std::string &piece,
                           TextState &state, bool isFirst) {
  if (!isFirst && piece.empty() && state.calls.empty() &&
      event.end == End::None && state.logProbs.is_null() && !request.returnIds)
    return;
  json one = choice(part(piece, state, isFirst, event.text), state, event.text);
  if (request.returnIds) {
    if (isFirst)
      one["prompt_token_ids"] =
          promptIds[event.text / static_cast<size_t>(request.n)];
    one["token_ids"] = event.id < 0 ? json::array() : json{event.id};
  }
  // What is the same in each chunk is written once: most of a token's time
  // here is that of JSON.
  if (chunkBegin.empty()) {
    chunkBegin = toText(head(chunk));
    chunkBegin.back() = ',';
    chunkBegin += R"("choices":[)";
  }
  sendEvent(chunkBegin + toText(one) +
            (request.includeUsage ? R"(],"usage":null})" : "]}"));
}

void TextAnswer::begin(TextState &, size_t) {}

std::string TextAnswer::read(const Event &event, TextState &) {
  return event.piece;
}

void TextAnswer::takeOne(const Event &event) {
  TextState &state = texts[event.text];
  state.end = event.end;
  if (event.end != End::None)
    state.reused = event.reused;
  if (request.stream)
    state.logProbs = json();
  bool isFirst = !std::exchange(state.hasEvents, true);
  if (isFirst)
    begin(state, event.text);
  if (event.id >= 0) {
    ++state.drawn;
    if (request.logProbs)
      addLogProbs(event, state);
  }
  std::string piece = read(event, state);
  if (request.stream) {
    sendChunk(event, piece, state, isFirst);
  } else {
    state.text += piece;
    if (request.returnIds && event.id >= 0)
      state.ids.push_back(event.id);
  }
  left -= event.end != End::None;
}

void TextAnswer::take(const std::vector<Event> &events) {
  for (const Event &event : events)
    if (!hasEnded)
      takeOne(event);
  if (left == 0 && !hasEnded)
    finish();
}

void TextAnswer::finish() {
  hasEnded = true;
  if (request.stream) {
    if (request.includeUsage) {
      json last = head(chunk);
      last["choices"] = json::array();
      last["usage"] = usage();
      sendEvent(toText(last));
    }
    exchange->send("data: [DONE]\n\n");
    return exchange->end();
  }
  json made = head(object);
  made["choices"] = json::array();
  for (size_t i = 0; i < texts.size(); ++i) {
    json one = choice(whole(texts[i], i), texts[i], i);
    if (request.returnIds) {
      one["prompt_token_ids"] = promptIds[i / static_cast<size_t>(request.n)];
      one["token_ids"] = texts[i].ids;
    }
    made["choices"].push_back(std::move(one));
  }
  made["usage"] = usage();
  exchange->respond(toResponse(made));
}

void TextAnswer::fail(const ApiError &error) {
  if (hasEnded)
    return;
  hasEnded = true;
  if (!hasBegun)
    return Delivery::fail(error);
  // The status was sent already.
  sendEvent(toText(toJson(error)));
  exchange->send("data: [DONE]\n\n");
  exchange->end();
}

} // namespace cria::serve
