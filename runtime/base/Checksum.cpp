#include "runtime/base/Checksum.h"

#include "runtime/Abi.h"

#include <cstring>

namespace cria {

static constexpr int lanes = 8;

/// Adds a word to each sum. The products of the lanes do not wait for one
/// another. A step is a bijection of the sum, and of the word.
static void add(const uint64_t *words, uint64_t *sums) {
  constexpr uint64_t prime = 0x9e3779b185ebca87;
  for (int i = 0; i < lanes; ++i) {
    sums[i] = (sums[i] ^ words[i]) * prime;
    sums[i] = sums[i] << 31 | sums[i] >> 33;
  }
}

uint64_t checksum(const std::byte *bytes, uint64_t size) {
  uint64_t sums[lanes] = {1, 2, 3, 4, 5, 6, 7, 8}, words[lanes];
  uint64_t at = 0;
  for (; size - at >= sizeof(words); at += sizeof(words)) {
    memcpy(words, bytes + at, sizeof(words));
    add(words, sums);
  }
  uint64_t rest[lanes] = {};
  memcpy(rest, bytes + at, size - at);
  add(rest, sums);
  uint64_t sum = criaFnv1a64(CRIA_FNV_OFFSET, &size, sizeof(size));
  return criaFnv1a64(sum, sums, sizeof(sums));
}

} // namespace cria
