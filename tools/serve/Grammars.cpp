#include "tools/serve/Grammars.h"

#include <algorithm>

namespace cria::serve {

/// Grammars that are kept. Each may take tens of megabytes.
static constexpr size_t kMost = 16;

std::shared_ptr<const Grammar> Grammars::get(const Tokenizer &tokenizer,
                                             int64_t vocabSize,
                                             const Constraint &constraint,
                                             const std::vector<int32_t> &ends,
                                             int32_t salt) {
  {
    std::lock_guard lock(mutex);
    auto found =
        std::find_if(entries.begin(), entries.end(), [&](const Entry &entry) {
          return entry.salt == salt && entry.ends == ends &&
                 entry.constraint.kind == constraint.kind &&
                 entry.constraint.source == constraint.source;
        });
    if (found != entries.end()) {
      entries.splice(entries.begin(), entries, found);
      return found->grammar;
    }
  }
  auto made = std::make_shared<const Grammar>(tokenizer, constraint.kind,
                                              constraint.source, ends);
  Matcher(*made).mask(vocabSize);
  std::lock_guard lock(mutex);
  entries.push_front({constraint, ends, salt, made});
  if (entries.size() > kMost)
    entries.pop_back();
  return made;
}

} // namespace cria::serve
