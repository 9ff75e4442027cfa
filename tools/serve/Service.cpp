#include "tools/serve/Service.h"

#include "tools/serve/Request.h"
#include "tools/serve/Texts.h"

#include <algorithm>
#include <strings.h>

namespace cria::serve {

namespace {

/// A path with a body.
struct Post {
  const char *path;
  Endpoint endpoint;
};

const Post posts[] = {
    {"/v1/completions", Completions},
    {"/v1/chat/completions", ChatCompletions},
    {"/v1/embeddings", Embeddings},
    {"/tokenize", Tokenize},
    {"/v1/responses", Responses},
    {"/detokenize", Detokenize},
    {"/apply-template", ApplyTemplate},
};

const char *const gets[] = {"/", "/health", "/metrics", "/version",
                            "/v1/models"};
constexpr const char *kModels = "/v1/models/";

const Post *findPost(const std::string &path) {
  auto found =
      std::find_if(std::begin(posts), std::end(posts),
                   [&](const Post &post) { return path == post.path; });
  return found == std::end(posts) ? nullptr : &*found;
}

bool isGet(const std::string &path) {
  return std::find(std::begin(gets), std::end(gets), path) != std::end(gets) ||
         path.rfind(kModels, 0) == 0;
}

/// Whether two keys are equal, in a time that does not depend on where they
/// differ.
bool isEqual(const std::string &a, const std::string &b) {
  volatile unsigned char different = a.size() != b.size();
  for (size_t i = 0; i < a.size(); ++i)
    different = different | (static_cast<unsigned char>(a[i]) ^
                             static_cast<unsigned char>(b[i % b.size()]));
  return !different;
}

/// The name in a Host header, without the port.
std::string hostName(const std::string &host) {
  if (!host.empty() && host[0] == '[') // an IPv6 address
    return host.substr(0, std::min(host.find(']'), host.size() - 1) + 1);
  return host.substr(0, host.find(':'));
}

Response notAllowed(const char *allowed) {
  Response response =
      toResponse(ApiError{405, std::string("expected the method ") + allowed,
                          "", "method_not_allowed"});
  response.headers.emplace_back("Allow", allowed);
  return response;
}

ApiError unknownModel(const std::string &name) {
  return {404, "there is no model '" + name + "'", "model", "model_not_found"};
}

} // namespace

// ---- Headers ---------------------------------------------------------------

/// The index of the request's key.
std::optional<size_t> Service::keyOf(const Head &head) const {
  static const std::string scheme = "Bearer ";
  if (strncasecmp(head.authorization.c_str(), scheme.c_str(), scheme.size()))
    return std::nullopt;
  std::string given = head.authorization.substr(scheme.size());
  std::optional<size_t> found;
  for (size_t i = 0; i < options.keys.size(); ++i)
    if (isEqual(given, options.keys[i]))
      found = i;
  return found;
}

/// Refuses requests that another page's script may have made (by a name that
/// resolves to this machine), and those without a key.
std::optional<ApiError> Service::check(const Head &head, bool isOpen) const {
  std::string name = hostName(head.host);
  const auto &hosts = options.hosts;
  if (!hosts.empty() &&
      std::none_of(hosts.begin(), hosts.end(), [&](const std::string &known) {
        return !strcasecmp(known.c_str(), name.c_str());
      }))
    return ApiError{403,
                    "the header Host names another machine; a proxy should set "
                    "it to localhost",
                    "", "wrong_host"};
  if (!isOpen && !options.keys.empty() && !keyOf(head))
    return ApiError{401, "expected a key: Authorization: Bearer KEY", "",
                    "invalid_api_key"};
  return std::nullopt;
}

std::vector<std::pair<std::string, std::string>>
Service::headersFor(const Head &head) const {
  if (options.origin.empty() ||
      (options.origin != "*" && options.origin != head.origin))
    return {};
  return {{"Access-Control-Allow-Origin", options.origin},
          {"Access-Control-Allow-Headers", "authorization, content-type"},
          {"Access-Control-Allow-Methods", "GET, POST"},
          {"Vary", "Origin"}};
}

static bool isJson(const std::string &type) {
  static const std::string wanted = "application/json";
  return !strncasecmp(type.c_str(), wanted.c_str(), wanted.size()) &&
         (type.size() == wanted.size() || type[wanted.size()] == ';' ||
          type[wanted.size()] == ' ');
}

std::optional<Response> Service::answer(const Head &head) const {
  const Post *post = findPost(head.path);
  bool reads = head.method == "GET" || head.method == "HEAD";
  bool isOpen = head.path == "/" || head.path == "/health" ||
                (head.path == "/metrics" && options.openMetrics) ||
                head.method == "OPTIONS";
  if (auto error = check(head, isOpen))
    return toResponse(*error);
  if (!post && !isGet(head.path))
    return toResponse(
        ApiError{404, "there is no " + head.path, "", "not_found"});
  if (head.method == "OPTIONS") {
    Response response;
    response.status = 204;
    response.headers.emplace_back("Allow", post ? "POST" : "GET");
    return response;
  }
  if (post ? head.method != "POST" : !reads)
    return notAllowed(post ? "POST" : "GET");
  if (!post)
    return answerGet(head);
  if (!isJson(head.contentType)) // a form of another page cannot send it
    return toResponse(
        ApiError{415, "expected the header Content-Type: application/json", "",
                 "unsupported_media_type"});
  if (isDraining())
    return toResponse(shuttingDown());
  return std::nullopt;
}

// ---- Answers without a body ------------------------------------------------

Response Service::health() const {
  if (isDraining())
    return toResponse(shuttingDown());
  return toResponse(json{{"status", "ok"}});
}

json Service::describe(const std::string &name) const {
  return {{"id", name},
          {"object", "model"},
          {"created", began},
          {"owned_by", "cria"},
          {"root", engine.name},
          {"parent", name == engine.name ? json() : json(engine.name)},
          {"max_model_len", engine.maxSeq}};
}

Response Service::models() const {
  json list = {{"object", "list"}, {"data", {describe(engine.name)}}};
  for (const auto &[name, adapters] : engine.adapters)
    list["data"].push_back(describe(name));
  return toResponse(list);
}

Response Service::model(const std::string &name) const {
  if (name.empty() || !engine.find(name))
    return toResponse(unknownModel(name));
  return toResponse(describe(name));
}

Response Service::answerGet(const Head &head) const {
  const std::string &path = head.path;
  if (path == "/health")
    return health();
  if (path == "/version")
    return toResponse(json{{"version", cria_version()}});
  if (path == "/v1/models")
    return models();
  if (path == "/metrics")
    return {200, "text/plain; version=0.0.4; charset=utf-8", metrics.text()};
  if (path == "/")
    return {200,
            "text/html; charset=utf-8",
            options.page,
            {{"Content-Security-Policy",
              "default-src 'none'; style-src 'unsafe-inline'; script-src "
              "'unsafe-inline'; connect-src 'self'; base-uri 'none'; "
              "form-action 'none'; frame-ancestors 'none'"},
             {"X-Content-Type-Options", "nosniff"},
             {"Referrer-Policy", "no-referrer"}}};
  return model(path.substr(std::string(kModels).size()));
}

// ---- Answers to a body -----------------------------------------------------

/// What /tokenize, /detokenize and /apply-template answer.
static std::optional<ApiError> translate(const Engine &engine,
                                         const Request &request, json &made) {
  if (!engine.find(request.model))
    return unknownModel(request.model);
  if (request.endpoint == ApplyTemplate) {
    std::string text;
    auto error = renderMessages(engine, request, text);
    made = {{"prompt", text}};
    return error;
  }
  if (request.endpoint == Detokenize) {
    try {
      made = {
          {"prompt", engine.tokenizer->decode(request.prompts[0].ids, true)}};
    } catch (const Error &error) {
      return ApiError{400, error.what(), "tokens", "invalid_value"};
    }
    return std::nullopt;
  }
  std::vector<Ids> prompts;
  if (auto error = encodePrompts(engine, request, prompts))
    return error;
  made = {{"tokens", prompts[0].ids},
          {"count", prompts[0].ids.size()},
          {"max_model_len", engine.maxSeq}};
  return std::nullopt;
}

/// Answers now, submits a job, or returns the error.
std::optional<ApiError>
Service::answerBody(const Head &head, std::string_view body,
                    const std::shared_ptr<Exchange> &exchange) const {
  Request request;
  Endpoint endpoint = findPost(head.path)->endpoint;
  if (auto error = parseRequest(endpoint, body, engine.vocabSize, request))
    return error;
  if (endpoint & (Tokenize | Detokenize | ApplyTemplate)) {
    json made;
    if (auto error = translate(engine, request, made))
      return error;
    exchange->post([exchange, response = toResponse(made)] {
      exchange->respond(response);
    });
    return std::nullopt;
  }
  auto job = std::make_shared<Job>();
  job->exchange = exchange;
  if (auto key = keyOf(head)) // keys do not learn of each other's prompts
    job->salt = static_cast<int32_t>(*key) + 1;
  if (auto error = makeJob(engine, request, *job))
    return error;
  return submit(std::move(job));
}

void Service::handle(const Head &head, std::string_view body,
                     const std::shared_ptr<Exchange> &exchange) const {
  std::optional<ApiError> error;
  if (exchange->isGone())
    return;
  try {
    error = answerBody(head, body, exchange);
  } catch (const std::bad_alloc &) {
    error = ApiError{503, "the server is out of memory", "", "out_of_memory"};
  } catch (const std::exception &problem) {
    error = internalError(problem.what());
  }
  if (!error)
    return;
  ++(error->status >= 500   ? metrics.failed
     : error->status == 429 ? metrics.refused
                            : metrics.invalid);
  exchange->post([exchange, response = toResponse(*error)] {
    exchange->respond(response);
  });
}

} // namespace cria::serve
