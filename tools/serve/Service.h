/// What the server does for each method and path, whatever carries requests.
///
/// A request's header is judged first: its answer, or its error, may need no
/// body. The body then goes to a worker thread, which answers at once or makes
/// a job of it.
#pragma once

#include "tools/serve/Engine.h"
#include "tools/serve/Exchange.h"
#include "tools/serve/Job.h"
#include "tools/serve/Metrics.h"

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace cria::serve {

struct ServiceOptions {
  std::vector<std::string> keys; // any of them is accepted; none: no key needed
  std::vector<std::string> hosts; // names of the server in the header Host that
                                  // are accepted; none: all
  std::string origin;             // whose pages may use the server; "": none
  bool openMetrics = false;       // /metrics needs no key
  std::string page;               // HTML of /
};

class Service {
public:
  /// `submit` gives a job to the scheduler, `isDraining` says whether the
  /// server is about to end. The references must outlive the service.
  Service(const Engine &engine, Metrics &metrics, ServiceOptions options,
          std::function<std::optional<ApiError>(std::shared_ptr<Job>)> submit,
          std::function<bool()> isDraining)
      : engine(engine), metrics(metrics), options(std::move(options)),
        submit(std::move(submit)), isDraining(std::move(isDraining)) {}

  /// The answer to a header; nothing if the body is needed. Takes microseconds.
  std::optional<Response> answer(const Head &head) const;

  /// Answers a request for which `answer` wants the body, now or later.
  void handle(const Head &head, std::string_view body,
              const std::shared_ptr<Exchange> &exchange) const;

  /// Headers that every answer to this request has.
  std::vector<std::pair<std::string, std::string>>
  headersFor(const Head &head) const;

private:
  std::optional<ApiError> check(const Head &head, bool isOpen) const;
  std::optional<size_t> keyOf(const Head &head) const;
  Response answerGet(const Head &head) const;
  Response health() const;
  json describe(const std::string &name) const;
  Response models() const;
  Response model(const std::string &name) const;
  std::optional<ApiError> answerBody(const Head &head, std::string_view body,
                                     const std::shared_ptr<Exchange> &) const;

  const Engine &engine;
  Metrics &metrics;
  ServiceOptions options;
  std::function<std::optional<ApiError>(std::shared_ptr<Job>)> submit;
  std::function<bool()> isDraining;
  int64_t began = static_cast<int64_t>(time(nullptr));
};

} // namespace cria::serve
