#include "tools/run/Trace.h"

#include "runtime/base/Json.h"
#include "runtime/base/files/File.h"
#include "tools/run/Process.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <map>

namespace cria {

Result<MachineRates> readMachine(const std::string &path) {
  Result<JsonDocument> document = readJson(path);
  if (!document.ok())
    return document.status();
  Status status;
  JsonCursor root(document->root(), path, status);
  MachineRates rates;
  auto best = [&](const char *key) {
    double most = 0;
    JsonCursor object = root[key];
    for (const auto &[name, value] : object.raw().items())
      most = std::max(most, object[name].number(1, 1e18));
    return most;
  };
  rates.bytesPerSecond = best("read_bytes_per_second");
  rates.flops = best("operations_per_second");
  rates.f32Flops = root["operations_per_second"]["f32 FMA"].number(1, 1e18);
  if (!status.ok())
    return status;
  return rates;
}

namespace {

/// The launches of one run of a kernel function.
struct KernelRun {
  const KernelCost *cost; // null if the manifest has none
  int64_t run;            // of the feed
  const KernelTime *begin, *end;
};

/// Writes events.
class Trace {
public:
  Trace(const Manifest &manifest, const MachineRates &rates)
      : manifest(manifest), rates(rates) {}
  void add(const RunEvent &feed);
  std::string text() const {
    return nlohmann::json{{"displayTimeUnit", "ns"}, {"traceEvents", events}}
               .dump() +
           "\n";
  }

private:
  const KernelCost *costOf(std::string_view kernel) const;
  std::vector<KernelRun> runsOf(const RunEvent &feed) const;
  void add(const RunEvent &feed, const KernelRun &run);
  void addSlice(const std::string &name, const char *category, double begin,
                double seconds, nlohmann::json args);

  const Manifest &manifest;
  const MachineRates &rates;
  nlohmann::json events = nlohmann::json::array();
};

} // namespace

/// The cost of the kernel function that `kernel` is or belongs to: the launch
/// "layers_attn_decode_merge" belongs to "layers_attn_decode".
const KernelCost *Trace::costOf(std::string_view kernel) const {
  const KernelCost *found = nullptr;
  for (const KernelCost &cost : manifest.kernelCosts) {
    const std::string &name = cost.kernel;
    bool isOf = kernel.substr(0, name.size()) == name &&
                (kernel.size() == name.size() || kernel[name.size()] == '_');
    if (isOf && (!found || name.size() > found->kernel.size()))
      found = &cost;
  }
  return found;
}

/// Joins successive launches of one function into runs. A run ends when its
/// first launch comes again.
std::vector<KernelRun> Trace::runsOf(const RunEvent &feed) const {
  std::vector<KernelRun> runs;
  std::map<const KernelCost *, int64_t> counts;
  for (const KernelTime &time : feed.kernels) {
    const KernelCost *cost = costOf(time.kernel);
    bool goesOn = cost && !runs.empty() && runs.back().cost == cost &&
                  runs.back().begin->kernel != time.kernel;
    if (goesOn)
      runs.back().end = &time + 1;
    else
      runs.push_back({cost, counts[cost]++, &time, &time + 1});
  }
  return runs;
}

void Trace::addSlice(const std::string &name, const char *category,
                     double begin, double seconds, nlohmann::json args) {
  events.push_back({{"name", name},
                    {"cat", category},
                    {"ph", "X"},
                    {"pid", 1},
                    {"tid", 1},
                    {"ts", begin * 1e6},
                    {"dur", seconds * 1e6},
                    {"args", std::move(args)}});
}

void Trace::add(const RunEvent &feed, const KernelRun &run) {
  double begin = secondsAt(run.begin->begin), seconds = 0;
  for (const KernelTime *time = run.begin; time != run.end; ++time)
    seconds += time->seconds;
  nlohmann::json args = {{"kernel", std::string(run.begin->kernel)}};
  std::string name(run.begin->kernel);
  if (run.cost) {
    name = run.cost->path.empty() ? name : run.cost->pathOf(run.run);
    double bytes = run.cost->bytes(feed.position, feed.tokens, feed.logits),
           flops = run.cost->flops(feed.position, feed.tokens, feed.logits);
    args["kernel"] = run.cost->kernel;
    args["bytes"] = bytes;
    args["operations"] = flops;
    double peak = run.cost->f32 ? rates.f32Flops : rates.flops;
    if (rates.bytesPerSecond > 0 && seconds > 0) {
      double floor = std::max(bytes / rates.bytesPerSecond, flops / peak);
      args["floor_us"] = floor * 1e6;
      args["fraction"] = floor / seconds;
    }
  }
  addSlice(name, "kernel", begin, seconds, std::move(args));
  if (run.end - run.begin == 1)
    return;
  for (const KernelTime *time = run.begin; time != run.end; ++time)
    addSlice(std::string(time->kernel), "launch", secondsAt(time->begin),
             time->seconds, nlohmann::json::object());
}

void Trace::add(const RunEvent &feed) {
  addSlice(feed.name, "step", feed.begin, feed.seconds,
           {{"position", feed.position}, {"tokens", feed.tokens}});
  for (const KernelRun &run : runsOf(feed))
    add(feed, run);
}

Status writeTrace(const std::string &path, const Manifest &manifest,
                  const MachineRates &rates, const std::vector<RunEvent> &run) {
  OutputFile file(path);
  Trace trace(manifest, rates);
  for (const RunEvent &feed : run)
    trace.add(feed);
  std::string text = trace.text();
  file.write(text.data(), text.size());
  file.commit();
  return statusOf(file);
}

} // namespace cria
