/// A request and its answer, for the parts of the server that know no sockets.
#pragma once

#include <nlohmann/json.hpp>

#include <atomic>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace cria::serve {

/// Members keep their order: a template may print the objects of a request.
using json = nlohmann::ordered_json;

/// `value` on one line. Bytes that are not UTF-8 become U+FFFD.
std::string toText(const json &value);

/// Why a request has no result.
struct ApiError {
  int status = 400; // of HTTP
  std::string message;
  std::string param = {}; // the field; "": none
  std::string code = {};  // OpenAI's word for it; "": none
};

/// The errors that several parts of the server make.
ApiError shuttingDown();
ApiError internalError(const std::string &message);
ApiError answerTooLarge();

/// The most bytes that one answer may take in memory until it is whole.
inline constexpr int64_t kMostKept = 256 << 20;

/// OpenAI's object: {"error": {"message", "type", "param", "code"}}.
json toJson(const ApiError &error);

/// A whole answer.
struct Response {
  int status = 200;
  std::string type = "application/json";
  std::string body = {};
  std::vector<std::pair<std::string, std::string>> headers = {};
};
Response toResponse(const json &value);
Response toResponse(const ApiError &error);

/// The parts of a request's header that count.
struct Head {
  std::string method, path; // the path without its query
  std::string host, authorization, contentType, origin;
};

/// One request's way back to its client. It lives on after the client has gone,
/// and is then silent.
class Exchange {
public:
  explicit Exchange(std::string id) : name(std::move(id)) {}
  virtual ~Exchange() = default;

  /// The request's number for people: header x-request-id.
  const std::string &id() const { return name; }
  /// Whether nobody waits for the answer any more. Any thread may ask.
  bool isGone() const { return gone.load(std::memory_order_relaxed); }

  /// Runs `work` on the thread of I/O. Any thread may call it; works of one
  /// thread run in their order.
  virtual void post(std::function<void()> work) = 0;

  /// Does `work` now, on the thread of I/O. If it fails, for want of memory,
  /// that costs this client's connection.
  virtual void guard(const std::function<void()> &work) = 0;

  // What follows is for the thread of I/O. An answer is one `respond`; or one
  // `begin`, any number of `send`, and `end`.
  virtual void respond(Response response) = 0;
  virtual void begin(const std::string &type) = 0;
  virtual void send(std::string_view bytes) = 0;
  virtual void end() = 0;

protected:
  std::atomic<bool> gone{false};

private:
  std::string name;
};

} // namespace cria::serve
