#include "tools/plan/Measured.h"

#include "lowering/support/Json.h"

#include <algorithm>

using namespace cria;

/// The function that a launch belongs to: "layers_attn_decode" for
/// "layers_attn_decode_merge".
static const KernelCost *functionOf(llvm::StringRef launch,
                                    llvm::ArrayRef<KernelCost> kernels) {
  const KernelCost *found = nullptr;
  for (const KernelCost &kernel : kernels) {
    llvm::StringRef rest = launch;
    std::string name = kernel.function();
    bool isOf =
        rest.consume_front(name) && (rest.empty() || rest.front() == '_');
    if (isOf && (!found || name.size() > found->function().size()))
      found = &kernel;
  }
  return found;
}

/// A number of an object, 0 if there is none.
static double number(const nlohmann::json &object, const char *key) {
  auto at = object.find(key);
  return at != object.end() && at->is_number() ? at->get<double>() : 0;
}

static std::string text(const nlohmann::json &object, const char *key) {
  auto at = object.find(key);
  return at != object.end() && at->is_string() ? at->get<std::string>() : "";
}

/// Reads the tables of cria-bench: all launches of a kernel in a step. If an
/// entry has several tables, the first one counts.
static void readTables(const nlohmann::json &tables,
                       llvm::ArrayRef<KernelCost> kernels,
                       Measurements &measured) {
  std::map<std::string, const nlohmann::json *> tableOf; // by function
  for (const nlohmann::json &table : tables) {
    if (!table.is_object() || !table.contains("kernels") ||
        !table["kernels"].is_array())
      continue;
    for (const nlohmann::json &row : table["kernels"]) {
      const KernelCost *kernel =
          row.is_object() ? functionOf(text(row, "kernel"), kernels) : nullptr;
      if (!kernel)
        continue;
      std::string name = kernel->function();
      if (tableOf.try_emplace(name, &table).first->second != &table)
        continue;
      MeasuredKernel &of = measured.kernels[name];
      auto runs = static_cast<double>(kernel->runs);
      of.seconds += number(row, "seconds") / runs;
      of.bytes += number(row, "bytes") / runs;
      of.operations += number(row, "operations") / runs;
    }
  }
}

/// Reads the events of a trace of cria-run.
static void readTrace(const nlohmann::json &events,
                      llvm::ArrayRef<KernelCost> kernels,
                      Measurements &measured) {
  std::map<std::string, std::vector<MeasuredKernel>> runs;
  for (const nlohmann::json &event : events) {
    if (!event.is_object() || text(event, "cat") != "kernel" ||
        !event.contains("args") || !event["args"].is_object())
      continue;
    const nlohmann::json &args = event["args"];
    const KernelCost *kernel = functionOf(text(args, "kernel"), kernels);
    if (kernel)
      runs[kernel->function()].push_back({number(event, "dur") / 1e6,
                                          number(args, "bytes"),
                                          number(args, "operations")});
  }
  for (auto &[name, all] : runs) {
    auto middle = all.begin() + static_cast<ptrdiff_t>(all.size() / 2);
    std::nth_element(all.begin(), middle, all.end(),
                     [](const MeasuredKernel &a, const MeasuredKernel &b) {
                       return a.seconds < b.seconds;
                     });
    measured.kernels[name] = *middle;
  }
}

llvm::Expected<Measurements>
cria::readMeasured(llvm::StringRef path, llvm::ArrayRef<KernelCost> kernels) {
  constexpr uint64_t most = uint64_t(256) << 20;
  llvm::Expected<std::string> read = readTextFile(path, most);
  if (!read)
    return read.takeError();
  // parseJsonObject is not used, because a trace may have more values than a
  // config.
  nlohmann::json file =
      nlohmann::json::parse(*read, nullptr, /*allow_exceptions=*/false);
  Measurements measured;
  auto array = [&](const char *key) -> const nlohmann::json * {
    bool there = file.is_object() && file.contains(key) && file[key].is_array();
    return there ? &file[key] : nullptr;
  };
  if (const nlohmann::json *tables = array("kernels"))
    readTables(*tables, kernels, measured);
  else if (const nlohmann::json *events = array("traceEvents"))
    readTrace(*events, kernels, measured);
  else
    return textError(path + ": expected a file of cria-bench --kernels --json "
                            "or cria-run --profile");
  if (measured.kernels.empty())
    return textError(path + ": has no kernel of this program");
  measured.device = text(file, "device");
  return measured;
}
