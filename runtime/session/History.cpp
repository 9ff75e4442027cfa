#include "runtime/session/History.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <utility>

namespace cria {

void History::append(const Step &step, uint64_t rowBytes) {
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

void History::cut(int64_t end) {
  while (!parts.empty() && parts.back().position >= end)
    parts.pop_back();
  if (parts.empty())
    return;
  Part &last = parts.back();
  size_t count =
      std::min(last.ids.size(), static_cast<size_t>(end - last.position));
  last.embeddings.resize(last.embeddings.size() / last.ids.size() * count);
  last.ids.resize(count);
}

int64_t History::lastIds() const {
  if (parts.empty() || !parts.back().embeddings.empty())
    return 0;
  return static_cast<int64_t>(parts.back().ids.size());
}

std::vector<int32_t> History::idsWith(int64_t count, const Step &step) const {
  const std::vector<int32_t> &last = parts.back().ids;
  std::vector<int32_t> ids(last.end() - count, last.end());
  ids.insert(ids.end(), step.ids, step.ids + step.tokens);
  return ids;
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

// Each part is its number of positions, whether they are embeddings, and then
// its embeddings, or its ids.
struct PartHeader {
  int64_t count, areEmbeddings;
};

std::vector<std::byte> History::write() const {
  std::vector<std::byte> bytes;
  auto add = [&](const void *data, size_t size) {
    auto *from = static_cast<const std::byte *>(data);
    bytes.insert(bytes.end(), from, from + size);
  };
  for (const Part &part : parts) {
    PartHeader header = {static_cast<int64_t>(part.ids.size()),
                         !part.embeddings.empty()};
    add(&header, sizeof(header));
    if (header.areEmbeddings)
      add(part.embeddings.data(), part.embeddings.size());
    else
      add(part.ids.data(), part.ids.size() * sizeof(int32_t));
  }
  return bytes;
}

Result<History> History::read(const std::byte *bytes, uint64_t size,
                              int64_t positions, const Manifest &manifest) {
  Status bad(CRIA_INVALID_ARGUMENT, "the state's ids are not those of a text");
  History made;
  const std::byte *end = bytes + size;
  int64_t position = 0;
  while (bytes != end) {
    PartHeader header;
    if (static_cast<size_t>(end - bytes) < sizeof(header))
      return bad;
    memcpy(&header, bytes, sizeof(header));
    bytes += sizeof(header);
    int64_t count = header.count, most = positions - position;
    uint64_t width = sizeof(int32_t);
    if (header.areEmbeddings) {
      width = manifest.embeddingBytes();
      most = std::min({most, manifest.chunk, manifest.vocabSize});
    }
    if (header.areEmbeddings >> 1 || count < 1 || count > most || width == 0 ||
        static_cast<uint64_t>(end - bytes) / width <
            static_cast<uint64_t>(count))
      return bad;
    Part part = {position, std::vector<int32_t>(count), {}};
    auto length = static_cast<size_t>(count) * width;
    if (header.areEmbeddings) {
      std::iota(part.ids.begin(), part.ids.end(), 0);
      part.embeddings.assign(bytes, bytes + length);
    } else {
      memcpy(part.ids.data(), bytes, length);
    }
    for (int32_t id : part.ids)
      if (id < 0 || id >= manifest.vocabSize)
        return bad;
    made.parts.push_back(std::move(part));
    bytes += length;
    position += count;
  }
  return position == positions ? Result<History>(std::move(made)) : bad;
}

} // namespace cria
