/// HTTP/1.1 over TCP: connections, their limits, and the way back of answers.
///
/// One thread does all I/O and never waits. Workers read bodies, the scheduler
/// computes; both come back by Exchange::post. A connection serves one request
/// at a time and, meanwhile, watches whether its client leaves.
#pragma once

#include "tools/serve/Metrics.h"
#include "tools/serve/Service.h"

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

namespace cria::serve {

struct HttpOptions {
  std::string host = "127.0.0.1"; // an address
  uint16_t port = 8080;           // 0: any
  int64_t connections = 1024;
  int64_t bodyBytes = 8 << 20;      // of one request
  int64_t allBodyBytes = 256 << 20; // of all that are read and not yet parsed
  int64_t unsentBytes = 1 << 20;    // of a stream that its client does not read
  int64_t mostUnsentBytes = 64 << 20; // of any stream
  int headerSeconds = 10, bodySeconds = 60, idleSeconds = 60, writeSeconds = 30;
  int drainSeconds = 30;
  int workers = 2;
};

class HttpServer {
public:
  /// Takes the port, but does not listen. Throws std::runtime_error.
  HttpServer(const HttpOptions &options, Metrics &metrics);
  ~HttpServer();

  /// "http://127.0.0.1:8080", with the port that was taken.
  std::string url() const;

  /// From now on, clients that connect and signals wait for `run`. Throws
  /// std::runtime_error.
  void listen();

  /// Serves until a signal ends it and every answer that has begun is written.
  /// After the first SIGINT or SIGTERM `drain` is called, and after
  /// drainSeconds more `stop`; a second signal ends the process. Throws
  /// std::runtime_error.
  void run(const Service &service, std::function<void()> drain,
           std::function<void()> stop);

  /// Has `run` end as after a signal. Any thread may call it.
  void shutDown();

private:
  class Loop;
  std::unique_ptr<Loop> loop;
};

} // namespace cria::serve
