#include "runtime/session/Preflight.h"

#include "runtime/base/Limits.h"

#include <algorithm>

namespace cria {

uint64_t MemoryNeed::total(int64_t positions) const {
  return weights + code + scratch + states + rings +
         cachePerPosition * static_cast<uint64_t>(positions);
}

int64_t MemoryNeed::longestContext(uint64_t memory) const {
  uint64_t fixed = total(0);
  if (memory < fixed)
    return 0;
  if (cachePerPosition == 0)
    return INT64_MAX;
  return static_cast<int64_t>((memory - fixed) / cachePerPosition);
}

MemoryNeed memoryNeed(const Artifact &artifact) {
  const Manifest &manifest = artifact.manifest();
  MemoryNeed need;
  need.weights = manifest.weightBytes();
  need.code = artifact.fileBytes();
  need.scratch = manifest.scratchBytes();
  for (size_t i = 0; i < manifest.caches.size(); ++i)
    if (const CacheSpec &cache = manifest.caches[i]; cache.isFixed())
      (cache.window ? need.rings : need.states) += manifest.cacheBytes(i);
  need.cachePerPosition = (manifest.cacheBytes() - need.states - need.rings) /
                          static_cast<uint64_t>(manifest.maxSeq);
  return need;
}

Status fitsMemory(const Artifact &artifact, int64_t positions,
                  uint64_t memory) {
  MemoryNeed need = memoryNeed(artifact);
  if (need.total(positions) <= memory)
    return Status();
  return Status(CRIA_RESOURCE_EXHAUSTED,
                {"weights, code, scratch and KV caches of ", positions,
                 " positions take ", mebibytes(need.total(positions)),
                 ", this machine has ", mebibytes(memory), " available"});
}

/// The number of weights that the checkpoint fills.
static int64_t tensorCount(const Binding &binding) {
  return std::count_if(
      binding.weights.begin(), binding.weights.end(),
      [](const BoundWeight &bound) { return !bound.tensors.empty(); });
}

/// What does not fit, one line each.
static std::string bindingLines(const Binding &binding,
                                const std::string &checkpoint) {
  std::string text = checkpoint + ": ";
  if (!binding.problems.empty())
    text += std::to_string(binding.problems.size()) + " tensors do not fit\n";
  else if (!binding.extraLayers.empty())
    text += concat({binding.extraLayers.size(),
                    binding.extraLayers.size() == 1 ? " layer" : " layers",
                    " that the artifact does not have\n"});
  else
    text += concat({"fits, ", tensorCount(binding), " tensors\n"});
  for (const auto *lines : {&binding.problems, &binding.extraLayers})
    for (const std::string &line : *lines)
      text += concat({"  ", line, "\n"});
  for (const std::string &warning : binding.warnings)
    text += concat({"warning: ", warning, "\n"});
  return concat({text, "weights: ", mebibytes(binding.mappedBytes()),
                 " in place, ", mebibytes(binding.copiedBytes()), " copied, ",
                 binding.unaligned, " tensors for their alignment\n"});
}

/// Whether ranks would split a weight. The compiler splits the matrices of
/// layers and the head.
static bool isShared(const Manifest &manifest, const WeightSpec &weight) {
  if (manifest.shards > 1)
    return weight.split != Split::None;
  bool isTable =
      manifest.embedding && &weight == &manifest.weights[*manifest.embedding];
  return weight.shape.size() == 2 && !weight.adapter && !isTable;
}

/// The memory that each of `ranks` ranks needs. `manifest` may be for another
/// number of ranks.
static MemoryNeed needOf(const Artifact &artifact, int64_t ranks) {
  const Manifest &manifest = artifact.manifest();
  MemoryNeed need = memoryNeed(artifact);
  auto before = static_cast<uint64_t>(manifest.shards),
       now = static_cast<uint64_t>(ranks);
  for (const WeightSpec &weight : manifest.weights)
    if (isShared(manifest, weight) && !manifest.isShared(weight)) {
      uint64_t bytes = weight.tensors() * weight.bytes();
      need.weights -= bytes;
      need.weights += bytes * before / now;
    }
  // All heads read a single KV head, so each rank has it.
  bool isWhole = before == 1 && !manifest.caches.empty() &&
                 manifest.caches[0].shape[1] == 1;
  if (!isWhole) {
    need.cachePerPosition = need.cachePerPosition * before / now;
    need.rings = need.rings * before / now;
  }
  return need;
}

/// "ranks: ...", or "" if the config does not say what ranks can split.
static std::string ranksLine(const Artifact &artifact, int64_t positions,
                             uint64_t memory) {
  const Manifest &manifest = artifact.manifest();
  const nlohmann::json &config = manifest.config.root();
  auto number = [&](const char *key) -> int64_t {
    return config.is_object() && config.contains(key)
               ? wholeNumber(config[key]).value_or(0)
               : 0;
  };
  int64_t heads = number("num_key_value_heads"),
          inner = number("intermediate_size");
  if (heads < 2)
    heads = number("num_attention_heads");
  if (heads < 1 || inner < 1)
    return "";
  for (int64_t ranks = 1; ranks <= std::min<int64_t>(heads, 1024); ++ranks) {
    uint64_t total = needOf(artifact, ranks).total(positions);
    if (heads % ranks == 0 && inner % ranks == 0 && total <= memory)
      return concat({"ranks: ", ranks, " at least, each with ",
                     mebibytes(total), " (cria-compile --shards=", ranks,
                     ")\n"});
  }
  return concat({"ranks: no number of them that divides ", heads,
                 " KV heads and an intermediate size of ", inner,
                 " makes a share fit\n"});
}

std::string preflightReport(const Artifact &artifact, const Binding &binding,
                            const std::string &checkpoint, int64_t positions,
                            uint64_t memory) {
  const Manifest &manifest = artifact.manifest();
  MemoryNeed need = memoryNeed(artifact);
  int64_t longest = need.longestContext(memory);
  std::string text = bindingLines(binding, checkpoint);
  if (manifest.shards > 1)
    text += concat({"each of ", manifest.shards, " ranks takes:\n"});
  text += concat(
      {"memory: ", mebibytes(need.weights), " of weights, ",
       mebibytes(need.cachePerPosition * static_cast<uint64_t>(positions)),
       " of KV caches for ", positions, " positions, ",
       need.rings ? mebibytes(need.rings) + " of rings for windows, " : "",
       need.states ? mebibytes(need.states) + " of states, " : "",
       mebibytes(need.scratch), " of scratch, ", mebibytes(need.code),
       " of code: ", mebibytes(need.total(positions)), " of ",
       mebibytes(memory), " available\n"});
  text +=
      "longest context: " + std::to_string(std::min(longest, manifest.maxSeq));
  if (longest < manifest.maxSeq)
    text += concat(
        {" positions fit this machine's memory, the artifact's max_seq is ",
         manifest.maxSeq, "\n"});
  else
    text += concat(
        {" positions, the artifact's max_seq; this machine's memory would "
         "hold ",
         longest == INT64_MAX ? "any number" : std::to_string(longest), "\n"});
  if (manifest.shards > 1 || need.total(positions) > memory)
    text += ranksLine(artifact, positions, memory);
  return text;
}

} // namespace cria
