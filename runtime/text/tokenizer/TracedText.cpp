#include "runtime/text/tokenizer/TracedText.h"

#include <algorithm>

namespace cria {

/// The strictest origin of some bytes.
static char strictest(std::string_view origins) {
  static_assert(Origin::Template < Origin::Name &&
                Origin::Name < Origin::Given);
  return origins.empty() ? static_cast<char>(Origin::Template)
                         : *std::max_element(origins.begin(), origins.end());
}

void Rewriting::replace(size_t begin, size_t end, std::string_view bytes) {
  result.bytes += bytes;
  if (text.origins.empty())
    return;
  std::string_view old = text.bytes, owners = text.origins;
  old = old.substr(begin, end - begin);
  owners = owners.substr(begin, end - begin);
  if (old == bytes) {
    result.origins += owners;
    return;
  }
  // "l" and a mark may become an "l" with a mark: a part that stays, stays its
  // author's.
  size_t most = std::min(old.size(), bytes.size());
  size_t head = 0, tail = 0;
  while (head < most && old[head] == bytes[head])
    ++head;
  while (tail < most - head &&
         old[old.size() - 1 - tail] == bytes[bytes.size() - 1 - tail])
    ++tail;
  std::string_view changed = owners.substr(head, old.size() - head - tail);
  result.origins += owners.substr(0, head);
  result.origins.append(bytes.size() - head - tail,
                        strictest(changed.empty() ? owners : changed));
  result.origins += owners.substr(old.size() - tail);
}

} // namespace cria
