/// The body of a request to every endpoint of the server, with a model that
/// draws fixed ids: each request has one answer, which is JSON throughout.
#include "test/fuzz/Fuzz.h"
#include "tools/serve/Service.h"

using namespace cria;
using namespace cria::serve;

namespace {

/// Collects an answer.
class Collector : public Exchange {
public:
  Collector() : Exchange("1") {}

  void post(std::function<void()> work) override { work(); }
  void guard(const std::function<void()> &work) override { work(); }
  void respond(Response response) override {
    ++answers;
    fuzz::require(json::accept(response.body), "an answer is JSON");
  }
  void begin(const std::string &) override { ++answers; }
  void send(std::string_view bytes) override {
    if (bytes.substr(0, 7) == "event: ")
      bytes.remove_prefix(bytes.find('\n') + 1);
    fuzz::require(bytes.substr(0, 6) == "data: ", "an event has data");
    bytes.remove_prefix(6);
    fuzz::require(bytes == "[DONE]\n\n" || json::accept(bytes), "and is JSON");
  }
  void end() override { ++ends; }

  int answers = 0, ends = 0;
};

/// Answers a job with a few ids for each text.
std::optional<ApiError> draw(std::shared_ptr<Job> job) {
  if (job->texts() > 20)
    return internalError("too many texts");
  std::vector<Event> events;
  for (size_t text = 0; text < job->texts(); ++text)
    for (int32_t id : {300, 5, 767}) {
      Event event;
      event.text = text;
      event.id = id;
      event.piece = id == 5 ? "<tool_call>{\"name\": \"f\", \"arguments\": {}}"
                            : "\xC3\xA9";
      event.logProb = -0.5;
      if (job->logProbs)
        event.top.assign(static_cast<size_t>(*job->logProbs), {id, -0.5});
      event.end = id == 767 ? End::Stop : End::None;
      events.push_back(std::move(event));
    }
  job->delivery->take(events);
  return std::nullopt;
}

/// Text and template of examples/tiny, without a model.
struct TextEngine : Engine {
  TextEngine() {
    EngineOptions options;
    options.weights = CRIA_SOURCE_FOLDER "/examples/tiny";
    name = "tiny";
    maxSeq = 256;
    vocabSize = 768;
    loadText(options, *this);
    chat = Chat::parse(
        "{% for m in messages %}{{ m.role }}{{ m.content }}{% endfor %}");
    calls.format = CallFormat::Hermes;
  }
};

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  std::string_view body = fuzz::textOf(data, size);
  static Metrics metrics;
  static const TextEngine engine;
  static const ServiceOptions options = [] {
    ServiceOptions made;
    made.keys = {"key"};
    made.hosts = {"localhost"};
    made.origin = "*";
    return made;
  }();
  static const Service service(engine, metrics, options, draw,
                               [] { return false; });
  Head head{"POST", "", "localhost:80", "Bearer key", "application/json", ""};
  for (const char *path :
       {"/v1/completions", "/v1/chat/completions", "/v1/embeddings",
        "/v1/responses", "/tokenize", "/detokenize", "/apply-template"}) {
    head.path = path;
    fuzz::require(!service.answer(head), "the body is wanted");
    auto exchange = std::make_shared<Collector>();
    service.handle(head, body, exchange);
    fuzz::require(exchange->answers == 1, "a request has one answer");
  }
  // The same bytes in a header.
  std::string text(body.substr(0, 1000));
  head.path = "/tokenize";
  head.host = head.authorization = head.contentType = text;
  fuzz::require(service.answer(head).has_value(), "it is refused");
  head = {"GET", text, "localhost", "Bearer key", "", ""};
  fuzz::require(service.answer(head).has_value(), "no body is wanted");
  return 0;
}
