/// The JSON of answers. An answer of texts is one object, or a stream of
/// chunks as server-sent events; OpenAI's two endpoints differ in how an object
/// holds a text.
#pragma once

#include "tools/serve/Job.h"
#include "tools/serve/Request.h"

#include <memory>
#include <vector>

namespace cria::serve {

/// The answer to a request whose job has its prompts. `engine` must outlive it.
std::unique_ptr<Delivery>
answerCompletions(const Engine &engine, const Request &request, const Job &job);
std::unique_ptr<Delivery> answerChat(const Engine &engine,
                                     const Request &request, const Job &job);
std::unique_ptr<Delivery>
answerResponses(const Engine &engine, const Request &request, const Job &job);
std::unique_ptr<Delivery>
answerEmbeddings(const Engine &engine, const Request &request, const Job &job);

/// An id of a call, which no other one has.
std::string makeCallId();

/// Seconds since 1970.
int64_t unixTime();

/// The JSON of one text, which grows with each of its ids.
struct TextState {
  std::string text;           // so far; empty in a stream
  std::vector<int32_t> ids;   // drawn; empty in a stream
  json logProbs;              // of all ids, or in a stream of the last one
  int64_t drawn = 0;          // ids
  int64_t characters = 0;     // of the tokens so far
  int64_t reused = 0;         // ids of the prompt that were not computed
  bool hasEvents = false;     // it has had one
  json calls = json::array(); // all so far; in a stream the last event's
  int64_t callCount = 0;      // all so far
  End end = End::None;
};

/// What all answers of texts have in common.
class TextAnswer : public Delivery {
public:
  TextAnswer(const Engine &engine, const Request &request, const Job &job,
             const char *prefix, const char *object, const char *chunk);

  void take(const std::vector<Event> &events) override;
  void fail(const ApiError &error) override;

protected:
  /// Adds the log-probabilities of an id to `state.logProbs`.
  virtual void addLogProbs(const Event &event, TextState &state) const = 0;
  /// The text that an event adds; calls of tools go to `state`.
  virtual std::string read(const Event &event, TextState &state);
  /// Called before the first event of text `index`.
  virtual void begin(TextState &state, size_t index);
  /// The members of a choice that hold a text's whole answer.
  virtual json whole(const TextState &state, size_t index) const = 0;
  /// Those of a chunk that has `piece`; `isFirst` of the text.
  virtual json part(const std::string &piece, const TextState &state,
                    bool isFirst, size_t index) const = 0;

  /// The bytes of an id's token.
  std::string bytesOf(int32_t id) const;
  /// A finite number of JSON.
  static double finite(double logProb);

  const Engine &engine;
  Request request;                             // without its prompts
  std::vector<std::vector<int32_t>> promptIds; // if they are wanted
  std::vector<std::string> echoes;             // by prompt

private:
  void takeOne(const Event &event);
  void sendChunk(const Event &event, const std::string &piece, TextState &state,
                 bool isFirst);
  void sendEvent(const std::string &text);
  json head(const char *object) const;
  json choice(json members, TextState &state, size_t index) const;
  json usage() const;
  void finish();

  std::string id, model;
  const char *object, *chunk;
  int64_t created = unixTime(), promptTokens = 0;
  std::string chunkBegin; // the text of a chunk up to its choice
  std::vector<TextState> texts;
  size_t left; // texts that go on
  bool hasBegun = false, hasEnded = false;
};

} // namespace cria::serve
