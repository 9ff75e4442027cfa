#include "runtime/Preflight.h"

#include "runtime/Limits.h"

#include <algorithm>

namespace cria {

uint64_t MemoryNeed::total(int64_t positions) const {
  return weights + code + scratch +
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
  need.cachePerPosition =
      manifest.cacheBytes() / static_cast<uint64_t>(manifest.maxSeq);
  return need;
}

static std::string mebibytes(uint64_t bytes) {
  char text[32];
  snprintf(text, sizeof(text), "%.1f MiB",
           static_cast<double>(bytes) / (1 << 20));
  return text;
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

/// What does not fit, line by line.
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
    text += concat({"fits, ", binding.sources.size(), " tensors\n"});
  for (const auto *lines : {&binding.problems, &binding.extraLayers})
    for (const std::string &line : *lines)
      text += concat({"  ", line, "\n"});
  for (const std::string &warning : binding.warnings)
    text += concat({"warning: ", warning, "\n"});
  return concat({text, "weights: ", mebibytes(binding.mappedBytes),
                 " in place, ", mebibytes(binding.copiedBytes), " copied, ",
                 binding.unaligned, " tensors for their alignment\n"});
}

std::string preflightReport(const Artifact &artifact, const Binding &binding,
                            const std::string &checkpoint, int64_t positions) {
  const Manifest &manifest = artifact.manifest();
  MemoryNeed need = memoryNeed(artifact);
  uint64_t memory = availableMemory();
  int64_t longest = need.longestContext(memory);
  std::string text = bindingLines(binding, checkpoint);
  text += concat(
      {"memory: ", mebibytes(need.weights), " of weights, ",
       mebibytes(need.cachePerPosition * static_cast<uint64_t>(positions)),
       " of KV caches for ", positions, " positions, ", mebibytes(need.scratch),
       " of scratch, ", mebibytes(need.code),
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
  return text;
}

} // namespace cria
