#include "tools/emulator/driver/Counts.h"

#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/raw_ostream.h"

namespace cria::emulator {
namespace {

struct KindName {
  RequestKind kind;
  const char *name;
};

constexpr KindName kKinds[] = {{RequestKind::GlobalLoad, "global_load"},
                               {RequestKind::GlobalStore, "global_store"},
                               {RequestKind::GlobalAtomic, "global_atomic"},
                               {RequestKind::GlobalCopy, "global_copy"},
                               {RequestKind::SharedLoad, "shared_load"},
                               {RequestKind::SharedStore, "shared_store"},
                               {RequestKind::SharedAtomic, "shared_atomic"},
                               {RequestKind::SharedCopy, "shared_copy"},
                               {RequestKind::MatrixLoad, "matrix_load"},
                               {RequestKind::MatrixStore, "matrix_store"},
                               {RequestKind::LocalLoad, "local_load"},
                               {RequestKind::LocalStore, "local_store"}};

const char *nameOf(RequestKind kind) {
  for (const KindName &one : kKinds)
    if (one.kind == kind)
      return one.name;
  return "";
}

using Json = llvm::json::OStream;

/// A number with four decimals.
void writeNumber(Json &json, const char *name, double value) {
  json.attributeBegin(name);
  json.rawValue(llvm::formatv("{0:f4}", value).str());
  json.attributeEnd();
}

/// a / b, or 0.
void writeRatio(Json &json, const char *name, uint64_t a, uint64_t b) {
  writeNumber(json, name, b ? double(a) / double(b) : 0);
}

void writeDim(Json &json, const char *name, const Dim &dim) {
  json.attributeArray(name, [&] {
    for (uint32_t size : {dim.x, dim.y, dim.z})
      json.value(size);
  });
}

void writeClasses(Json &json, const char *name, const CountPlan &plan,
                  const std::vector<uint64_t> &counts) {
  json.attributeObject(name, [&] {
    std::map<llvm::StringRef, uint64_t> sorted;
    for (size_t i = 0; i < counts.size(); ++i)
      if (counts[i])
        sorted[plan.classes[i].name] = counts[i];
    for (auto [one, count] : sorted)
      json.attribute(one, count);
  });
}

void writeOperations(Json &json, const CountPlan &plan,
                     const std::vector<uint64_t> &warps) {
  json.attributeObject("operations", [&] {
    for (size_t i = 0; i < warps.size(); ++i)
      if (plan.classes[i].operations && warps[i])
        json.attribute(plan.classes[i].name,
                       warps[i] * plan.classes[i].operations);
  });
}

void writeRequests(Json &json, RequestKind kind, const RequestCounts &counts) {
  json.attribute("bytes", counts.bytes);
  if (isLocal(kind))
    return;
  json.attribute("requests", counts.requests);
  if (isGlobal(kind)) {
    json.attribute("used_bytes", counts.used);
    json.attribute("sectors", counts.parts);
    json.attribute("least_sectors", counts.least);
    if (kind == RequestKind::GlobalLoad)
      json.attribute("block_sectors", counts.first);
    writeRatio(json, "sectors_per_request", counts.parts, counts.requests);
    writeRatio(json, "coalescing", counts.least, counts.parts);
  } else {
    json.attribute("wavefronts", counts.parts);
    json.attribute("least_wavefronts", counts.least);
    writeRatio(json, "conflicts", counts.parts, counts.least);
  }
  if (counts.unseen)
    json.attribute("unseen", counts.unseen);
}

/// The kinds of requests that the launch made.
void writeKinds(Json &json, const CountPlan &plan, const LaunchCounts &counts) {
  for (const KindName &one : kKinds) {
    RequestCounts sum = counts.ofKind(plan, one.kind);
    if (sum.bytes)
      json.attributeObject(one.name,
                           [&] { writeRequests(json, one.kind, sum); });
  }
}

/// The instructions that need more sectors or wavefronts than the fewest
/// possible.
void writeLosses(Json &json, const CountPlan &plan,
                 const LaunchCounts &counts) {
  json.attributeArray("losses", [&] {
    for (size_t i = 0; i < counts.sites.size(); ++i)
      if (counts.sites[i].parts > counts.sites[i].least)
        json.object([&] {
          json.attribute("line", plan.sites[i].line);
          json.attribute("kind", nameOf(plan.sites[i].kind));
          writeRequests(json, plan.sites[i].kind, counts.sites[i]);
        });
  });
}

void write(Json &json, const Launch &launch, const LaunchCounts &counts,
           double seconds) {
  const CountPlan &plan = *launch.countPlan;
  uint64_t blocks = launch.grid.total();
  uint64_t warps = blocks * ((launch.block.total() + 31) / 32);
  json.attribute("kernel", launch.name);
  writeDim(json, "grid", launch.grid);
  writeDim(json, "block", launch.block);
  json.attribute("static_shared", launch.staticShared);
  json.attribute("dynamic_shared", launch.dynamicShared);
  writeNumber(json, "seconds", seconds);
  json.attribute("instructions", counts.instructions());
  writeClasses(json, "thread_instructions", plan, counts.threadInstructions);
  writeClasses(json, "warp_instructions", plan, counts.warpInstructions);
  json.attribute("longest_block", counts.longestBlock);
  writeOperations(json, plan, counts.warpInstructions);
  writeRatio(json, "barriers_per_warp", counts.ofWarps(plan, "barrier"), warps);
  if (counts.bulkBytes)
    json.attribute("bulk_bytes", counts.bulkBytes);
  if (counts.multicastBytes)
    json.attribute("multicast_bytes", counts.multicastBytes);
  writeKinds(json, plan, counts);
  writeLosses(json, plan, counts);
}

} // namespace

std::string countsText(const Launch &launch, const LaunchCounts &counts,
                       double seconds) {
  std::string text;
  llvm::raw_string_ostream stream(text);
  Json json(stream);
  json.object([&] { write(json, launch, counts, seconds); });
  return text;
}

void printCounts(const Settings &settings, const Launch &launch,
                 const LaunchCounts &counts, double seconds) {
  if (settings.countFile.empty()) {
    fprintf(stderr, "cria-emulator: kernel '%s': %llu instructions in %.6f s\n",
            launch.name.c_str(), (unsigned long long)counts.instructions(),
            seconds);
    return;
  }
  if (FILE *file = fopen(settings.countFile.c_str(), "a")) {
    fputs((countsText(launch, counts, seconds) + "\n").c_str(), file);
    fclose(file);
  }
}

} // namespace cria::emulator
