/// The bytes of a session's state: a header, then the rows of each KV cache for
/// the positions that the session holds, and then, if the rope of a text
/// depends on its length, the text; see History.
#pragma once

#include "runtime/base/Status.h"
#include "runtime/session/Model.h"

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

namespace cria {

/// What the header holds, all little-endian.
struct SessionHeader {
  static constexpr uint64_t magicNumber = 0x0431'5453'4149'5243; // "CRIAST1\4"

  uint64_t magic = magicNumber;
  uint64_t artifact; // its checksum
  uint64_t weights;  // Model::fingerprint
  int64_t position = 0;
  // See Session.
  int64_t written = 0;
  int64_t prompt = 0, expected = 0, promptBegin = 0, rotated = 0, source = 0;
  uint64_t bytes = 0;    // of all that follows the header,
  uint64_t history = 0;  // of them of the text
  uint64_t checksum = 0; // of all bytes, with 0 in this field
};

/// A stretch of a KV cache.
struct CacheRange {
  size_t cache;
  uint64_t begin, bytes;
};

/// The parts of the caches that hold the first `positions` positions: rows of
/// the last dimension but one if that is the context or a ring, else all of a
/// cache; if caches are in pages, the first pages, and of window pages those
/// that the next id needs.
std::vector<CacheRange> cacheRanges(const Manifest &manifest,
                                    int64_t positions);

/// The bytes of `ranges`.
uint64_t bytesOf(const std::vector<CacheRange> &ranges);

/// Writes `header` and its checksum in front of the rows at `state`.
void sealState(SessionHeader header, std::byte *state);

/// The header of a state without positions, for a session of `model`.
Result<SessionHeader> headerOf(const Model &model);

/// The header of the `size` bytes at `state`. Checks for damage, and compares
/// with the first three fields of `expected` and with `manifest`.
Result<SessionHeader> openState(const std::byte *state, uint64_t size,
                                const SessionHeader &expected,
                                const Manifest &manifest);

} // namespace cria
