#include "tools/bench/Bench.h"

namespace cria::bench {

double Report::residentFraction() const {
  return static_cast<double>(residentBytes) /
         static_cast<double>(weightBytes + cacheBytes);
}

/// Null if it was not measured.
static nlohmann::json toJson(const Rate &rate) {
  return rate.problem.empty() ? nlohmann::json(rate.perSecond) : nullptr;
}

static nlohmann::json toJson(const Measured &row) {
  nlohmann::json json = {{"seconds", row.seconds},
                         {"tokens_per_second", row.tokensPerSecond},
                         {"floor_seconds", nullptr},
                         {"floor", nullptr},
                         {"fraction", nullptr}};
  if (row.floorSeconds > 0) {
    json["floor_seconds"] = row.floorSeconds;
    json["floor"] = row.boundByBytes ? "read" : "compute";
    json["fraction"] = row.fraction;
  }
  return json;
}

static nlohmann::json toJson(const KernelTable &table) {
  nlohmann::json json = {{"tokens", table.tokens},
                         {"depth", table.depth},
                         {"seconds", table.seconds()}};
  for (const KernelRow &row : table.rows) {
    nlohmann::json kernel = {
        {"kernel", row.name},           {"launches", row.launches},
        {"seconds", row.seconds},       {"bytes", row.bytes},
        {"operations", row.operations}, {"floor_seconds", nullptr}};
    if (row.floorSeconds > 0)
      kernel["floor_seconds"] = row.floorSeconds;
    json["kernels"].push_back(std::move(kernel));
  }
  return json;
}

nlohmann::json toJson(const Report &report) {
  nlohmann::json json = {{"artifact", printable(report.artifact)},
                         {"artifact_bytes", report.artifactBytes},
                         {"compiler", report.compiler},
                         {"target", report.target},
                         {"device", report.device},
                         {"type", report.type},
                         {"threads", report.threads},
                         {"ranks", report.ranks},
                         {"open_seconds", report.openSeconds},
                         {"bind_seconds", report.bindSeconds},
                         {"weight_bytes", report.weightBytes},
                         {"cache_bytes", report.cacheBytes},
                         {"resident_bytes", report.residentBytes},
                         {"resident_fraction", report.residentFraction()},
                         {"read_bytes_per_second", toJson(report.read)},
                         {"read_loop", report.read.name}};
  for (const Rate &rate : report.compute)
    json["operations_per_second"][rate.name] = toJson(rate);
  for (const auto &[depth, row] : report.decode) {
    json["decode"].push_back(toJson(row));
    json["decode"].back()["depth"] = depth;
  }
  for (const auto &[tokens, row] : report.prefill) {
    json["prefill"].push_back(toJson(row));
    json["prefill"].back()["tokens"] = tokens;
  }
  for (const BatchRow &row : report.batches) {
    nlohmann::json batch = toJson(row.measured);
    batch["sequences"] = row.sequences;
    batch["depth"] = row.depth;
    batch["ratio"] = nullptr;
    if (row.ratio > 0)
      batch["ratio"] = row.ratio;
    json["batch"].push_back(std::move(batch));
  }
  json["first_token"] = toJson(report.firstToken);
  json["first_token"]["tokens"] = report.firstLength;
  for (const KernelTable &table : report.kernels)
    json["kernels"].push_back(toJson(table));
  if (!report.code.is_null())
    json["code"] = report.code;
  return json;
}

} // namespace cria::bench
