#include "tools/serve/Exchange.h"

namespace cria::serve {

std::string toText(const json &value) {
  return value.dump(-1, ' ', false, json::error_handler_t::replace);
}

ApiError shuttingDown() {
  return {503, "the server is shutting down", "", "shutting_down"};
}

ApiError internalError(const std::string &message) {
  return {500, message, "", "internal_error"};
}

ApiError answerTooLarge() {
  return {400,
          "the answer takes more than " + std::to_string(kMostKept >> 20) +
              " MiB until it is whole: ask for a stream, or for fewer texts, "
              "tokens or log-probabilities",
          "", "answer_too_large"};
}

/// OpenAI's word for errors of this status.
static const char *typeOf(int status) {
  switch (status) {
  case 401:
    return "authentication_error";
  case 403:
    return "permission_error";
  case 429:
    return "rate_limit_error";
  default:
    return status < 500 ? "invalid_request_error" : "server_error";
  }
}

json toJson(const ApiError &error) {
  auto orNull = [](const std::string &text) {
    return text.empty() ? json() : json(text);
  };
  return {{"error",
           {{"message", error.message},
            {"type", typeOf(error.status)},
            {"param", orNull(error.param)},
            {"code", orNull(error.code)}}}};
}

Response toResponse(const json &value) {
  return {200, "application/json", toText(value)};
}

Response toResponse(const ApiError &error) {
  Response response = toResponse(toJson(error));
  response.status = error.status;
  if (error.status == 429 || error.status == 503)
    response.headers.emplace_back("Retry-After", "1");
  if (error.status == 401)
    response.headers.emplace_back("WWW-Authenticate", "Bearer");
  return response;
}

} // namespace cria::serve
