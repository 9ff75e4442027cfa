// The only file that includes Boost: it takes most of the time to compile.
#include "tools/serve/Http.h"

#include "tools/serve/Workers.h"

#define BOOST_ASIO_NO_DEPRECATED
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/read.hpp>
#include <boost/beast/http/string_body.hpp>

#include <algorithm>
#include <atomic>
#include <charconv>
#include <ctime>
#include <optional>
#include <poll.h>
#include <random>
#include <thread>
#include <unistd.h>
#include <unordered_set>

namespace cria::serve {

namespace asio = boost::asio;
namespace http = boost::beast::http;
using asio::ip::tcp;
using Code = boost::system::error_code;
using std::chrono::milliseconds;
using std::chrono::seconds;

namespace {

constexpr size_t kHeaderBytes = 16 << 10, kHeaderLines = 64, kPathBytes = 4096;
/// Bytes that are received and not parsed. This bounds the header of a chunk
/// and the trailer: the parser has no limit for them, and throws at a field of
/// 64 KiB.
constexpr size_t kUnparsedBytes = 2 * kHeaderBytes;
/// Tokenizing a body above this size may take seconds. One worker does all of
/// them, so that other requests do not wait.
constexpr size_t kLongBody = 256 << 10;
constexpr int kLingerSeconds = 2, kLateSeconds = 1;
/// A body must bring this many bytes in this time: 1 KiB a second.
constexpr size_t kPaceBytes = 10 << 10;
constexpr int kPaceSeconds = 10;
/// A client that has taken nothing for so long does not read its stream.
constexpr int kStallSeconds = 2;

using Clock = std::chrono::steady_clock;
using Headers = std::vector<std::pair<std::string, std::string>>;

const char *reasonOf(int status) {
  return http::obsolete_reason(static_cast<http::status>(status)).data();
}

std::string date() {
  char text[64];
  time_t now = time(nullptr);
  tm parts = {};
  strftime(text, sizeof(text), "%a, %d %b %Y %H:%M:%S GMT",
           gmtime_r(&now, &parts));
  return text;
}

std::string newId() {
  static std::mt19937_64 random{std::random_device()()};
  char text[32];
  snprintf(text, sizeof(text), "%016llx",
           static_cast<unsigned long long>(random()));
  return text;
}

class Connection;

/// The exchange of a connection's current request.
class Reply : public Exchange {
public:
  Reply(std::weak_ptr<Connection> to, asio::io_context &context)
      : Exchange(newId()), to(std::move(to)), context(context) {}

  void post(std::function<void()> work) override;
  void guard(const std::function<void()> &work) override;
  void respond(Response response) override;
  void begin(const std::string &type) override;
  void send(std::string_view bytes) override;
  void end() override;

  /// Nobody waits for the answer any more.
  void setGone() { gone = true; }
  /// The connection, if it still waits for this answer.
  std::shared_ptr<Connection> connection() const;
  /// Closes the connection if it still waits for this answer. Any thread may
  /// call it.
  static void abandon(const std::shared_ptr<Reply> &reply);

private:
  std::weak_ptr<Connection> to;
  asio::io_context &context;
};

/// Adds the bytes of one body to `all`, the sum over all bodies, and subtracts
/// them when it is destroyed.
class HeldBytes {
public:
  explicit HeldBytes(std::atomic<int64_t> &all) : all(all) {}
  HeldBytes(const HeldBytes &) = delete;
  ~HeldBytes() { set(0); }

  void set(int64_t bytes) { all += bytes - std::exchange(own, bytes); }

private:
  std::atomic<int64_t> &all;
  int64_t own = 0;
};

/// What connections share.
struct Shared {
  const HttpOptions &options;
  Metrics &metrics;
  asio::io_context &context;
  const Service *service = nullptr;
  Workers *workers = nullptr, *longWorkers = nullptr;
  std::unordered_set<Connection *> connections = {};
  std::atomic<int64_t> bodyBytes{0}; // received, and not yet parsed
  bool draining = false;
};

/// A client. Its state says which of its timers runs and what more of its bytes
/// mean:
///   Idle       no request; the first byte of one ends this state
///   Reading    a header or a body
///   Busy       a request waits for its answer, or an answer is written
///   Lingering  the answer is sent; what the client still sends is dropped, so
///              that the answer is not lost with it
class Connection : public std::enable_shared_from_this<Connection> {
public:
  enum class State { Idle, Reading, Busy, Lingering, Closed };

  Connection(tcp::socket peer, Shared &shared)
      : socket(std::move(peer)), shared(shared), timer(shared.context) {
    Code ignored;
    socket.non_blocking(true, ignored);
    shared.connections.insert(this);
    ++shared.metrics.connections;
  }
  ~Connection() { close(); }

  void start() { idle(); }
  State state() const { return now; }
  /// The server is about to end: a client that was served is let go, and one
  /// that sends a request, or has just come, has little time left.
  void hurry();
  void close();

  // The answer to the current request.
  bool isFor(const Reply *reply) const { return current.get() == reply; }
  void respond(Response response);
  void begin(const std::string &type);
  void send(std::string_view bytes);
  void end();

private:
  using Parser = http::request_parser<http::string_body>;

  /// The handler of an operation, which calls `step`. An exception of `step`,
  /// such as std::bad_alloc, costs this connection alone.
  auto then(void (Connection::*step)(Code error, size_t count)) {
    return [self = shared_from_this(), step](Code error, size_t count) {
      try {
        (self.get()->*step)(error, count);
      } catch (const std::exception &) {
        self->close();
      }
    };
  }

  void arm(Clock::duration time);
  void disarm() { deadline = Clock::time_point::max(); }
  void awaitDeadline();
  void idle();
  void watch();
  void onWatched(Code error, size_t count);
  void readHeader();
  void onHeader(Code error, size_t);
  void refuse(const ApiError &error);
  void answerHead();
  void readBody();
  void readPart();
  void onPart(Code error, size_t count);
  void keepPace();
  void dispatch();
  void writeHeader(int status, const Headers &headers);
  bool isStalled();
  void flush();
  void onWritten(Code error, size_t);
  void linger();

  tcp::socket socket;
  Shared &shared;
  asio::steady_timer timer; // set to the deadline, or to one before it
  Clock::time_point deadline = Clock::time_point::max(); // then it is closed
  boost::beast::flat_buffer buffer{kUnparsedBytes};
  std::optional<Parser> parser;
  Head head;
  Headers extra; // of every answer to this request
  std::shared_ptr<Reply> current;
  State now = State::Idle;
  std::string unsent, sending;
  std::shared_ptr<HeldBytes> held; // of the body that is read
  Clock::time_point bodyEnd;       // when the whole body must be there
  size_t paced = 0;                // bytes of it since `keepPace`
  Clock::time_point taken;         // when the client last took bytes
  bool isWatching = false, isWriting = false, isTiming = false;
  bool keepsAlive = false, isHead = false, isChunked = false, mayChunk = false;
  bool wasServed = false; // an answer was sent
  bool hasEnded = false;  // the answer is complete, if not sent
};

// ---- Replies ---------------------------------------------------------------

std::shared_ptr<Connection> Reply::connection() const {
  std::shared_ptr<Connection> found = to.lock();
  return found && found->isFor(this) ? found : nullptr;
}

static void guard(const std::weak_ptr<Connection> &to,
                  const std::function<void()> &work) {
  try {
    work();
  } catch (const std::exception &) {
    if (auto found = to.lock())
      found->close();
  }
}

void Reply::guard(const std::function<void()> &work) { serve::guard(to, work); }

void Reply::post(std::function<void()> work) {
  asio::post(context,
             [work = std::move(work), to = to] { serve::guard(to, work); });
}

void Reply::abandon(const std::shared_ptr<Reply> &reply) {
  while (!reply->isGone()) // or the client would wait for ever
    try {
      return asio::post(reply->context, [reply] {
        if (auto found = reply->connection())
          found->close();
      });
    } catch (const std::bad_alloc &) {
      std::this_thread::sleep_for(milliseconds(10));
    }
}

void Reply::respond(Response response) {
  if (auto found = connection())
    found->respond(std::move(response));
}

void Reply::begin(const std::string &type) {
  if (auto found = connection())
    found->begin(type);
}

void Reply::send(std::string_view bytes) {
  if (auto found = connection())
    found->send(bytes);
}

void Reply::end() {
  if (auto found = connection())
    found->end();
}

// ---- The life of a connection ----------------------------------------------

void Connection::close() {
  if (now == State::Closed)
    return;
  now = State::Closed;
  if (current)
    current->setGone();
  current.reset();
  held.reset();
  Code ignored;
  socket.close(ignored);
  timer.cancel();
  shared.connections.erase(this);
  --shared.metrics.connections;
}

/// Closes the connection after `time`, instead of when it was to close. A later
/// deadline leaves the timer as it is: setting it takes a system call.
void Connection::arm(Clock::duration time) {
  deadline = Clock::now() + time;
  if (!isTiming || deadline < timer.expiry())
    awaitDeadline();
}

void Connection::awaitDeadline() {
  isTiming = true;
  timer.expires_at(deadline);
  timer.async_wait([self = weak_from_this()](Code error) {
    auto found = self.lock();
    // A timer that was set anew may have expired before.
    if (!found || error || found->timer.expiry() > Clock::now())
      return;
    found->isTiming = false;
    if (found->deadline <= Clock::now())
      found->close();
    else if (found->deadline != Clock::time_point::max())
      found->awaitDeadline();
  });
}

void Connection::hurry() {
  Code ignored;
  bool sendsNothing = buffer.size() == 0 && socket.available(ignored) == 0;
  if (now == State::Idle && wasServed && sendsNothing)
    close();
  else if (now == State::Idle || now == State::Reading)
    arm(seconds(kLateSeconds));
}

void Connection::idle() {
  now = State::Idle;
  if (buffer.size() > 0 && !isWatching)
    return readHeader();
  Code ignored;
  if (buffer.size() > 0) // the next request is there, maybe as a whole
    socket.cancel(ignored);
  arm(seconds(shared.draining ? kLateSeconds : shared.options.idleSeconds));
  watch();
}

/// Reads a little, to see whether the client leaves or sends its next request.
void Connection::watch() {
  if (isWatching || now == State::Closed)
    return;
  if (buffer.size() >= kHeaderBytes) // reading on would take more memory
    return close();
  isWatching = true;
  socket.async_read_some(buffer.prepare(4096), then(&Connection::onWatched));
}

void Connection::onWatched(Code error, size_t count) {
  isWatching = false;
  if (now == State::Closed)
    return;
  if (error == asio::error::operation_aborted && now == State::Idle)
    return readHeader();
  if (error)
    return close();
  buffer.commit(count);
  if (now == State::Idle)
    return readHeader();
  if (now == State::Lingering)
    buffer.consume(buffer.size());
  watch();
}

// ---- Reading a request -----------------------------------------------------

void Connection::readHeader() {
  now = State::Reading;
  arm(seconds(shared.draining ? kLateSeconds : shared.options.headerSeconds));
  parser.emplace();
  parser->header_limit(kHeaderBytes);
  parser->body_limit(static_cast<uint64_t>(shared.options.bodyBytes));
  http::async_read_header(socket, buffer, *parser, then(&Connection::onHeader));
}

/// What is wrong with a request that cannot be read.
ApiError malformed(const Code &error, const HttpOptions &options) {
  if (error == http::error::header_limit)
    return {431,
            "the header has more than " + std::to_string(kHeaderBytes) +
                " bytes",
            "", "header_too_large"};
  if (error == http::error::body_limit)
    return {413,
            "the body has more than " + std::to_string(options.bodyBytes) +
                " bytes",
            "", "body_too_large"};
  if (error == http::error::buffer_overflow)
    return {400,
            "malformed HTTP: the header of a chunk or the trailer has more "
            "than " +
                std::to_string(kUnparsedBytes) + " bytes",
            "", "malformed_http"};
  return {400, "malformed HTTP: " + error.message(), "", "malformed_http"};
}

/// Whether the length of the body is known for sure. The parser ignores
/// encodings that it does not know: a proxy that knows them would see another
/// body, and what is a body for one would be a request for the other.
template <typename Message> bool hasClearLength(const Message &request) {
  auto encodings = request.count(http::field::transfer_encoding);
  return encodings == 0 ||
         (encodings == 1 && request.version() >= 11 &&
          request.count(http::field::content_length) == 0 &&
          boost::beast::iequals(request[http::field::transfer_encoding],
                                "chunked"));
}

bool isOfHttp(const Code &error) {
  return error.category() ==
         http::make_error_code(http::error::bad_method).category();
}

void Connection::onHeader(Code error, size_t) {
  if (now == State::Closed)
    return;
  const auto &request = parser->get();
  mayChunk = request.version() >= 11;
  isHead = request.method() == http::verb::head;
  keepsAlive = false;
  extra.clear();
  if (error == http::error::end_of_stream ||
      error == http::error::partial_message || (error && !isOfHttp(error)))
    return close();
  if (error)
    return refuse(malformed(error, shared.options));
  auto count = std::distance(request.begin(), request.end());
  if (count > static_cast<int64_t>(kHeaderLines))
    return refuse({431,
                   "the header has " + std::to_string(count) +
                       " lines, expected at most " +
                       std::to_string(kHeaderLines),
                   "", "header_too_large"});
  if (request.target().size() > kPathBytes)
    return refuse({414, "the path is too long", "", "path_too_long"});
  auto hosts = request.count(http::field::host);
  if (hosts > 1 || (hosts == 0 && mayChunk))
    return refuse({400, "expected one header Host", "", "malformed_http"});
  if (!hasClearLength(request))
    return refuse({400,
                   "expected Content-Length, or Transfer-Encoding: chunked", "",
                   "malformed_http"});
  auto text = [&](http::field field) {
    auto value = request[field];
    return std::string(value.data(), value.size());
  };
  std::string target(request.target().data(), request.target().size());
  head = {std::string(request.method_string()),
          target.substr(0, target.find('?')),
          text(http::field::host),
          text(http::field::authorization),
          text(http::field::content_type),
          text(http::field::origin)};
  keepsAlive = request.keep_alive() && mayChunk;
  extra = shared.service->headersFor(head);
  answerHead();
}

/// Answers a request from its header; what follows the header is then unknown.
void Connection::refuse(const ApiError &error) {
  parser.reset();
  held.reset();
  keepsAlive = false;
  ++shared.metrics.invalid;
  now = State::Busy;
  current = std::make_shared<Reply>(weak_from_this(), shared.context);
  respond(toResponse(error));
}

void Connection::answerHead() {
  std::optional<Response> answer = shared.service->answer(head);
  if (!answer)
    return readBody();
  keepsAlive = keepsAlive && parser->is_done();
  now = State::Busy;
  current = std::make_shared<Reply>(weak_from_this(), shared.context);
  respond(std::move(*answer));
}

void Connection::readBody() {
  held = std::make_shared<HeldBytes>(shared.bodyBytes);
  bodyEnd = Clock::now() + seconds(shared.options.bodySeconds);
  keepPace();
  if (mayChunk && boost::beast::iequals(parser->get()[http::field::expect],
                                        "100-continue")) {
    unsent = "HTTP/1.1 100 Continue\r\n\r\n";
    flush();
  }
  parser->eager(true);
  if (parser->is_done()) // a body of no bytes
    return dispatch();
  readPart();
}

/// Gives the client time for the next kPaceBytes of the body.
void Connection::keepPace() {
  paced = 0;
  if (!shared.draining)
    arm(std::min<Clock::duration>(seconds(kPaceSeconds),
                                  bodyEnd - Clock::now()));
}

void Connection::readPart() {
  http::async_read_some(socket, buffer, *parser, then(&Connection::onPart));
}

void Connection::onPart(Code error, size_t count) {
  if (now == State::Closed)
    return;
  if (error && (!isOfHttp(error) || error == http::error::partial_message))
    return close();
  if (error)
    return refuse(malformed(error, shared.options));
  held->set(static_cast<int64_t>(parser->get().body().size()));
  if (shared.bodyBytes > shared.options.allBodyBytes)
    return refuse({503, "the server reads too many requests", "", "busy"});
  if (parser->is_done())
    return dispatch();
  paced += count;
  if (paced >= kPaceBytes)
    keepPace();
  readPart();
}

/// Gives a complete request to a worker. The body counts until the worker has
/// read it, even if the client leaves before.
void Connection::dispatch() {
  now = State::Busy;
  if (isWriting) // 100 Continue, which the client has not taken yet
    arm(seconds(shared.options.writeSeconds));
  else
    disarm();
  current = std::make_shared<Reply>(weak_from_this(), shared.context);
  // The worker, the job and its events share this way back. When the last of
  // them is destroyed without an answer, there will be none.
  std::shared_ptr<Exchange> reply(
      current.get(), [owned = current](Reply *) { Reply::abandon(owned); });
  std::string body = std::move(parser->get().body());
  parser.reset();
  bool isLong = body.size() > kLongBody;
  (isLong ? shared.longWorkers : shared.workers)
      ->add([service = shared.service, reply = std::move(reply), head = head,
             body = std::move(body),
             held = std::move(held)] { service->handle(head, body, reply); });
  watch();
}

// ---- Writing an answer -----------------------------------------------------

void Connection::writeHeader(int status, const Headers &headers) {
  keepsAlive = keepsAlive && !shared.draining;
  unsent += "HTTP/1.1 " + std::to_string(status) + " " + reasonOf(status) +
            "\r\nDate: " + date() + "\r\nx-request-id: " + current->id() +
            "\r\n";
  for (const Headers *list : {&headers, &std::as_const(extra)})
    for (const auto &[name, value] : *list)
      unsent += name + ": " + value + "\r\n";
  if (!keepsAlive)
    unsent += "Connection: close\r\n";
  unsent += "\r\n";
}

void Connection::respond(Response response) {
  Headers headers = std::move(response.headers);
  if (response.status != 204) {
    headers.emplace_back("Content-Type", response.type);
    headers.emplace_back("Content-Length",
                         std::to_string(response.body.size()));
  }
  writeHeader(response.status, headers);
  if (!isHead)
    unsent += response.body;
  isChunked = false;
  end();
}

void Connection::begin(const std::string &type) {
  Headers headers = {{"Content-Type", type},
                     {"Cache-Control", "no-cache"},
                     {"X-Accel-Buffering", "no"}};
  isChunked = mayChunk;
  if (isChunked)
    headers.emplace_back("Transfer-Encoding", "chunked");
  else
    keepsAlive = false;
  writeHeader(200, headers);
}

/// Whether the client has taken nothing lately. This thread may have been too
/// busy to see that it did: then there is room in the socket.
bool Connection::isStalled() {
  pollfd room = {socket.native_handle(), POLLOUT, 0};
  return Clock::now() - taken > seconds(kStallSeconds) && !poll(&room, 1, 0);
}

void Connection::send(std::string_view bytes) {
  auto size = static_cast<int64_t>(unsent.size());
  if (size > shared.options.mostUnsentBytes ||
      (size > shared.options.unsentBytes && isStalled()))
    return close(); // the client does not read, or too slowly
  if (isChunked) {
    char size[16];
    char *end = std::to_chars(size, std::end(size), bytes.size(), 16).ptr;
    unsent.append(size, end).append("\r\n");
  }
  unsent += bytes;
  if (isChunked)
    unsent += "\r\n";
  flush();
}

void Connection::end() {
  if (isChunked)
    unsent += "0\r\n\r\n";
  isChunked = false;
  hasEnded = true;
  current->setGone();
  flush();
}

void Connection::flush() {
  if (isWriting)
    return;
  if (!hasEnded) { // the socket mostly has room for a part of an answer
    Code error;    // is found again below
    size_t count = socket.write_some(asio::buffer(unsent), error);
    if (count > 0)
      taken = Clock::now();
    unsent.erase(0, count);
    if (unsent.empty())
      return;
  }
  isWriting = true;
  sending.clear();
  sending.swap(unsent);
  if (now == State::Busy)
    arm(seconds(shared.options.writeSeconds));
  auto goesOn = [this](Code error, size_t) {
    taken = Clock::now();
    return error ? 0 : size_t{64} << 10; // the most to write next
  };
  asio::async_write(socket, asio::buffer(sending), goesOn,
                    then(&Connection::onWritten));
}

void Connection::onWritten(Code error, size_t) {
  isWriting = false;
  if (now == State::Closed)
    return;
  if (error)
    return close();
  if (!unsent.empty())
    return flush();
  if (now == State::Busy)
    disarm();
  if (!hasEnded)
    return;
  hasEnded = false;
  wasServed = true;
  current.reset();
  if (keepsAlive && !shared.draining)
    return idle();
  linger();
}

void Connection::linger() {
  now = State::Lingering;
  Code ignored;
  socket.shutdown(tcp::socket::shutdown_send, ignored);
  arm(seconds(kLingerSeconds));
  if (!isWatching)
    buffer.consume(buffer.size());
  watch();
}

} // namespace

// ---- The server ------------------------------------------------------------

class HttpServer::Loop {
public:
  Loop(const HttpOptions &given, Metrics &metrics)
      : options(given), shared{options, metrics, context} {
    Code error;
    auto address = asio::ip::make_address(
        options.host == "localhost" ? "127.0.0.1" : options.host, error);
    if (error)
      throw std::runtime_error("--host: expected an address of this machine, "
                               "got " +
                               options.host);
    tcp::endpoint endpoint(address, options.port);
    acceptor.open(endpoint.protocol());
    acceptor.set_option(tcp::acceptor::reuse_address(true));
    acceptor.bind(endpoint, error);
    if (error)
      throw std::runtime_error(options.host + ":" +
                               std::to_string(options.port) +
                               ": cannot listen: " + error.message());
  }

  std::string url() const {
    auto endpoint = acceptor.local_endpoint();
    std::string host = endpoint.address().to_string();
    if (endpoint.address().is_v6())
      host = "[" + host + "]";
    return "http://" + host + ":" + std::to_string(endpoint.port());
  }

  void listen() {
    Code error;
    acceptor.listen(tcp::acceptor::max_listen_connections, error);
    if (error)
      throw std::runtime_error(url() + ": cannot listen: " + error.message());
    for (int signal : {SIGINT, SIGTERM}) // until now they end the process
      signals.add(signal);
  }

  void run(const Service &service, std::function<void()> drain,
           std::function<void()> stop) {
    Workers workers(options.workers), longWorkers(1);
    shared.service = &service;
    shared.workers = &workers;
    shared.longWorkers = &longWorkers;
    onDrain = std::move(drain);
    onStop = std::move(stop);
    awaitSignal();
    while (!runUntilError())
      std::this_thread::sleep_for(milliseconds(10));
    for (Connection *each : all())
      each->close();
  }

  void shutDown() {
    asio::post(context, [this] { beginDrain(); });
  }

private:
  std::vector<Connection *> all() const {
    return {shared.connections.begin(), shared.connections.end()};
  }
  bool runUntilError();
  void accept();
  void onAccepted(Code error, tcp::socket peer);
  void awaitSignal();
  void beginDrain();
  void checkDrained();

  HttpOptions options;
  Shared shared; // outlives the connections, which end with the context
  asio::io_context context{1};
  tcp::acceptor acceptor{context};
  asio::signal_set signals{context};
  asio::steady_timer pause{context}, tick{context};
  std::function<void()> onDrain, onStop;
  Clock::time_point drainBegan, lastBusy;
  bool isAccepting = false, hasStopped = false;
};

/// Runs the loop. False if a handler threw, such as std::bad_alloc: Asio has
/// then destroyed the handler.
bool HttpServer::Loop::runUntilError() {
  try {
    if (!isAccepting)
      accept();
    if (shared.draining)
      checkDrained();
    context.run();
    return true;
  } catch (const std::exception &) {
    return false;
  }
}

void HttpServer::Loop::accept() {
  acceptor.async_accept([this](Code error, tcp::socket peer) {
    isAccepting = false;
    onAccepted(error, std::move(peer));
  });
  isAccepting = true;
}

void HttpServer::Loop::onAccepted(Code error, tcp::socket peer) {
  if (error == asio::error::operation_aborted)
    return;
  if (error) { // no file descriptors are left, for example
    pause.expires_after(milliseconds(100));
    return pause.async_wait([this](Code cancelled) {
      if (!cancelled && !isAccepting)
        accept();
    });
  }
  Code ignored;
  peer.set_option(tcp::no_delay(true), ignored);
  peer.set_option(asio::socket_base::keep_alive(true), ignored);
  if (static_cast<int64_t>(shared.connections.size()) < options.connections)
    std::make_shared<Connection>(std::move(peer), shared)->start();
  // else it is closed
  accept();
}

void HttpServer::Loop::awaitSignal() {
  signals.async_wait([this](Code error, int number) {
    if (error)
      return;
    if (shared.draining)
      _exit(128 + number);
    awaitSignal();
    beginDrain();
  });
}

void HttpServer::Loop::beginDrain() {
  if (shared.draining)
    return;
  shared.draining = true;
  drainBegan = lastBusy = Clock::now();
  onDrain();
  for (Connection *each : all())
    each->hurry();
  checkDrained();
}

/// Ends the loop when no client waits for anything. Meanwhile the server still
/// listens, so that clients hear that it ends.
void HttpServer::Loop::checkDrained() {
  bool isBusy =
      std::any_of(shared.connections.begin(), shared.connections.end(),
                  [](const Connection *each) {
                    return each->state() == Connection::State::Busy;
                  });
  auto passed = Clock::now();
  if (isBusy)
    lastBusy = passed;
  bool isQuiet = passed - lastBusy > milliseconds(100);
  if (isQuiet && (shared.connections.empty() ||
                  passed - lastBusy > seconds(kLateSeconds + kLingerSeconds)))
    return context.stop();
  if (!hasStopped && passed - drainBegan > seconds(options.drainSeconds)) {
    hasStopped = true;
    onStop();
  }
  tick.expires_after(milliseconds(20));
  tick.async_wait([this](Code cancelled) {
    if (!cancelled)
      checkDrained();
  });
}

HttpServer::HttpServer(const HttpOptions &options, Metrics &metrics)
    : loop(std::make_unique<Loop>(options, metrics)) {}

HttpServer::~HttpServer() = default;

std::string HttpServer::url() const { return loop->url(); }

void HttpServer::listen() { loop->listen(); }

void HttpServer::run(const Service &service, std::function<void()> drain,
                     std::function<void()> stop) {
  loop->run(service, std::move(drain), std::move(stop));
}

void HttpServer::shutDown() { loop->shutDown(); }

} // namespace cria::serve
