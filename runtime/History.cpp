#include "runtime/History.h"

#include <algorithm>

namespace cria {

void History::append(const Step &step, uint64_t rowBytes) {
  while (!parts.empty() && parts.back().position >= step.position)
    parts.pop_back();
  if (!parts.empty()) {
    std::vector<int32_t> &ids = parts.back().ids;
    ids.resize(static_cast<size_t>(step.position - parts.back().position));
  }
  if (parts.empty() || step.embeddings || !parts.back().embeddings.empty()) {
    Part part = {step.position, {step.ids, step.ids + step.tokens}, {}};
    uint64_t bytes = static_cast<uint64_t>(step.tokens) * rowBytes;
    if (step.embeddings)
      part.embeddings.assign(step.embeddings, step.embeddings + bytes);
    parts.push_back(std::move(part));
    return;
  }
  std::vector<int32_t> &ids = parts.back().ids;
  ids.insert(ids.end(), step.ids, step.ids + step.tokens);
}

Status History::replay(int64_t end, int64_t chunk,
                       const std::function<Status(Step)> &feed) const {
  for (const Part &part : parts) {
    auto size = static_cast<int64_t>(part.ids.size());
    int64_t tokens = 0;
    for (int64_t done = 0; done < size && part.position + done < end;
         done += tokens) {
      int64_t position = part.position + done;
      tokens = std::min({size - done, chunk, end - position});
      Step step = {&part.ids[static_cast<size_t>(done)], tokens, position,
                   tokens, nullptr};
      if (!part.embeddings.empty())
        step.embeddings = part.embeddings.data(); // embeddings are one chunk
      Status status = feed(step);
      if (!status.ok())
        return status;
    }
  }
  return Status();
}

} // namespace cria
