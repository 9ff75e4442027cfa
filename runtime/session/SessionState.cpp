#include "runtime/session/SessionState.h"

#include "runtime/Abi.h"

#include <algorithm>
#include <cstring>
#include <string>

namespace cria {

std::vector<CacheRange> cacheRanges(const Manifest &manifest,
                                    int64_t positions) {
  std::vector<CacheRange> ranges;
  for (size_t i = 0; i < manifest.caches.size(); ++i) {
    const CacheSpec &cache = manifest.caches[i];
    if (const auto &batch = manifest.batch; batch && !cache.isState) {
      int64_t pages = batch->countFor(positions);
      if (!cache.window)
        ranges.push_back({i, 0, cache.bytes * static_cast<uint64_t>(pages)});
      for (int64_t page = batch->firstInWindow(positions);
           cache.window && page < pages; ++page)
        ranges.push_back(
            {i, cache.bytes * static_cast<uint64_t>(page % batch->windowWidth),
             cache.bytes});
      continue;
    }
    uint64_t rows =
        cache.window ? cache.shape[2] : static_cast<uint64_t>(manifest.maxSeq);
    size_t dimension = cache.shape.size() > 1 ? cache.shape.size() - 2 : 0;
    uint64_t blocks = 1;
    for (size_t d = 0; d < dimension; ++d)
      blocks *= cache.shape[d];
    bool isByPosition = !cache.isState && dimension < cache.shape.size() &&
                        cache.shape[dimension] == rows &&
                        cache.bytes % (blocks * rows) == 0;
    if (!isByPosition) {
      ranges.push_back({i, 0, cache.bytes});
      continue;
    }
    uint64_t stride = cache.bytes / blocks;
    for (uint64_t block = 0; block < blocks && positions > 0; ++block)
      ranges.push_back(
          {i, block * stride,
           stride / rows * std::min(rows, static_cast<uint64_t>(positions))});
  }
  return ranges;
}

uint64_t bytesOf(const std::vector<CacheRange> &ranges) {
  uint64_t bytes = 0;
  for (const CacheRange &range : ranges)
    bytes += range.bytes;
  return bytes;
}

/// The checksum of a state, computed while the header's checksum field is 0.
static uint64_t checksumOf(const SessionHeader &header,
                           const std::byte *state) {
  uint64_t sum = criaFnv1a64(CRIA_FNV_OFFSET, &header, sizeof(header));
  return criaFnv1a64(sum, state + sizeof(header), header.bytes);
}

void sealState(SessionHeader header, std::byte *state) {
  header.checksum = 0;
  header.checksum = checksumOf(header, state);
  memcpy(state, &header, sizeof(header));
}

Result<SessionHeader> headerOf(const Model &model) {
  Result<uint64_t> weights = model.fingerprint();
  if (!weights.ok())
    return weights.status();
  SessionHeader header;
  header.artifact = model.artifact().checksum();
  header.weights = *weights;
  return header;
}

/// Whether the numbers of a header fit this manifest.
static bool fits(const SessionHeader &header, const Manifest &manifest) {
  for (int64_t number :
       {header.position, header.written, header.prompt, header.expected,
        header.promptBegin, header.rotated, header.source})
    if (number < 0 || number > manifest.maxSeq)
      return false;
  if (header.history > header.bytes ||
      (header.history && !manifest.keepsText()))
    return false;
  int64_t positions = std::max(header.position, header.source);
  return header.bytes - header.history ==
         bytesOf(cacheRanges(manifest, positions));
}

Result<SessionHeader> openState(const std::byte *state, uint64_t size,
                                const SessionHeader &expected,
                                const Manifest &manifest) {
  SessionHeader header;
  if (size < sizeof(header))
    return Status(
        CRIA_INVALID_ARGUMENT,
        {"a state of ", size, " bytes, expected at least ", sizeof(header)});
  memcpy(&header, state, sizeof(header));
  if (header.magic != expected.magic)
    return Status(CRIA_INVALID_ARGUMENT,
                  "not a session's state, or a state of another version");
  if (header.bytes != size - sizeof(header))
    return Status(CRIA_DATA_LOSS, {"the state has ", size, " bytes, expected ",
                                   header.bytes + sizeof(header)});
  SessionHeader unsealed = header;
  unsealed.checksum = 0;
  if (checksumOf(unsealed, state) != header.checksum)
    return Status(CRIA_DATA_LOSS, "checksum mismatch: the state is damaged");
  if (header.artifact != expected.artifact)
    return Status(CRIA_FAILED_PRECONDITION, "the state is of another artifact");
  if (header.weights != expected.weights)
    return Status(CRIA_FAILED_PRECONDITION, "the state is of other weights");
  if (!fits(header, manifest))
    return Status(CRIA_INVALID_ARGUMENT,
                  "the state's header does not fit the artifact");
  return header;
}

} // namespace cria
