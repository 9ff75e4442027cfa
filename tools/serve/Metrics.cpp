#include "tools/serve/Metrics.h"

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <sys/resource.h>
#include <unistd.h>

namespace cria::serve {

static std::string number(double value) {
  char text[32];
  snprintf(text, sizeof(text), "%.9g", value);
  return text;
}

void Histogram::add(double value) {
  auto bucket = std::lower_bound(bounds.begin(), bounds.end(), value);
  std::lock_guard lock(mutex);
  ++counts[static_cast<size_t>(bucket - bounds.begin())];
  sum += value;
}

static void printHead(const char *name, const char *help, const char *type,
                      std::string &to) {
  to += std::string("# HELP cria_") + name + " " + help + "\n# TYPE cria_" +
        name + " " + type + "\n";
}

void Histogram::print(const char *name, const char *help,
                      std::string &to) const {
  printHead(name, help, "histogram", to);
  std::string prefix = std::string("cria_") + name;
  std::lock_guard lock(mutex);
  int64_t all = 0;
  for (size_t i = 0; i < counts.size(); ++i) {
    all += counts[i];
    to += prefix + "_bucket{le=\"" +
          (i < bounds.size() ? number(bounds[i]) : "+Inf") + "\"} " +
          std::to_string(all) + "\n";
  }
  to += prefix + "_sum " + number(sum) + "\n" + prefix + "_count " +
        std::to_string(all) + "\n";
}

static const std::vector<double> seconds = {
    0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5,
    1,     2.5,    5,     10,   25,    50,   100, 250};

Metrics::Metrics()
    : firstToken(seconds), betweenTokens(seconds), whole(seconds),
      queued(seconds), step(seconds), rows({0, 1, 2, 4, 8, 16, 32, 64, 128}) {}

void Metrics::see(const cria_batch_info &seen, int64_t nowRunning,
                  int64_t nowWaiting) {
  std::lock_guard lock(mutex);
  info = seen;
  running = nowRunning;
  waiting = nowWaiting;
}

/// One value of a metric: its labels and the value.
using Sample = std::pair<const char *, double>;

static void print(const char *name, const char *help, const char *type,
                  std::initializer_list<Sample> samples, std::string &to) {
  printHead(name, help, type, to);
  for (auto [labels, value] : samples)
    to += std::string("cria_") + name + labels + " " + number(value) + "\n";
}

static double residentBytes() {
  std::ifstream file("/proc/self/statm");
  double pages = 0, resident = 0;
  file >> pages >> resident;
  return resident * static_cast<double>(sysconf(_SC_PAGESIZE));
}

static double cpuSeconds() {
  rusage usage = {};
  getrusage(RUSAGE_SELF, &usage);
  auto of = [](const timeval &time) {
    return static_cast<double>(time.tv_sec) + 1e-6 * time.tv_usec;
  };
  return of(usage.ru_utime) + of(usage.ru_stime);
}

std::string Metrics::text() const {
  std::string all;
  auto of = [](int64_t value) { return static_cast<double>(value); };
  const char *counter = "counter", *gauge = "gauge";
  {
    std::lock_guard lock(mutex);
    int64_t used = info.pages - info.free_pages;
    print("num_requests_running", "Texts that are computed now.", gauge,
          {{"", of(running)}}, all);
    print("num_requests_waiting", "Texts that wait for a row.", gauge,
          {{"", of(waiting)}}, all);
    print("rows", "Texts that can be computed at once.", gauge,
          {{"", of(info.texts)}}, all);
    print("kv_pages", "Pages of the KV caches.", gauge,
          {{"{state=\"used\"}", of(used)},
           {"{state=\"kept\"}", of(info.kept_pages)},
           {"{state=\"free\"}", of(info.free_pages - info.kept_pages)}},
          all);
    if (info.window_pages)
      print(
          "kv_window_pages", "Pages of the KV caches of windows.", gauge,
          {{"{state=\"used\"}", of(info.window_pages - info.free_window_pages)},
           {"{state=\"kept\"}", of(info.kept_window_pages)},
           {"{state=\"free\"}",
            of(info.free_window_pages - info.kept_window_pages)}},
          all);
    print("prefix_reused_tokens_total",
          "Tokens of prompts that were found in pages.", counter,
          {{"", of(info.reused)}}, all);
    print("recomputed_tokens_total",
          "Tokens that were computed once more, after a text gave back pages.",
          counter, {{"", of(info.recomputed)}}, all);
    print("spec_draft_tokens_total",
          "Tokens that were tried before they were drawn.", counter,
          {{"", of(info.drafted)}}, all);
    print("spec_accepted_tokens_total", "Of these, that were drawn.", counter,
          {{"", of(info.accepted)}}, all);
    print("preemptions_total", "Texts that gave their pages back.", counter,
          {{"", of(info.put_back)}}, all);
  }
  print("request_success_total", "Texts and embeddings that were completed.",
        counter,
        {{"{finished_reason=\"stop\"}", of(stopped)},
         {"{finished_reason=\"length\"}", of(reachedLength)},
         {"{finished_reason=\"embedding\"}", of(embedded)}},
        all);
  print("request_failure_total", "Requests that have an error as their answer.",
        counter,
        {{"{reason=\"invalid\"}", of(invalid)},
         {"{reason=\"busy\"}", of(refused)},
         {"{reason=\"internal\"}", of(failed)}},
        all);
  print("request_cancelled_total", "Requests whose clients left.", counter,
        {{"{state=\"waiting\"}", of(cancelledQueued)},
         {"{state=\"running\"}", of(cancelledRunning)}},
        all);
  print("prompt_tokens_total", "Tokens of prompts.", counter,
        {{"", of(promptTokens)}}, all);
  print("generation_tokens_total", "Tokens that were drawn.", counter,
        {{"", of(generatedTokens)}}, all);
  firstToken.print("time_to_first_token_seconds",
                   "From the request to its first token.", all);
  betweenTokens.print("inter_token_latency_seconds",
                      "Between two tokens of a text.", all);
  whole.print("e2e_request_latency_seconds",
              "From the request to the end of a text.", all);
  queued.print("request_queue_time_seconds",
               "From the request to its place in the batch.", all);
  step.print("step_seconds", "Of one step of the batch.", all);
  rows.print("step_rows", "Tokens that one step drew.", all);
  print("open_connections", "Connections of clients.", gauge,
        {{"", of(connections)}}, all);
  print("process_resident_memory_bytes", "Memory of the process.", gauge,
        {{"", residentBytes()}}, all);
  print("scheduler_cpu_seconds_total",
        "Time of the thread that computes, outside of steps.", counter,
        {{"", scheduling}}, all);
  print("process_cpu_seconds_total", "Time of all cores together.", counter,
        {{"", cpuSeconds()}}, all);
  return all;
}

} // namespace cria::serve
