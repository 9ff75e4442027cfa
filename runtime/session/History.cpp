#include "runtime/session/History.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <utility>

namespace cria {

void History::append(const Step &step, uint64_t rowBytes, bool asRows) {
  if (segments.empty() || step.embeddings || segments.back().asRows != asRows ||
      !segments.back().embeddings.empty()) {
    Segment segment = {
        step.position, {step.ids, step.ids + step.tokens}, {}, asRows};
    uint64_t bytes = static_cast<uint64_t>(step.tokens) * rowBytes;
    if (step.embeddings)
      segment.embeddings.assign(step.embeddings, step.embeddings + bytes);
    segments.push_back(std::move(segment));
    return;
  }
  std::vector<int32_t> &ids = segments.back().ids;
  ids.insert(ids.end(), step.ids, step.ids + step.tokens);
}

void History::cut(int64_t end) {
  while (!segments.empty() && segments.back().position >= end)
    segments.pop_back();
  if (segments.empty())
    return;
  Segment &last = segments.back();
  size_t count =
      std::min(last.ids.size(), static_cast<size_t>(end - last.position));
  last.embeddings.resize(last.embeddings.size() / last.ids.size() * count);
  last.ids.resize(count);
}

void History::drop(int64_t begin, int64_t end) {
  std::vector<Segment> kept;
  for (Segment &segment : segments) {
    auto size = static_cast<int64_t>(segment.ids.size());
    auto at = [&](int64_t position) {
      return std::clamp<int64_t>(position - segment.position, 0, size);
    };
    int64_t first = at(begin), last = at(end);
    auto &ids = segment.ids;
    auto &rows = segment.embeddings;
    auto width = static_cast<int64_t>(rows.size()) / size;
    rows.erase(rows.begin() + first * width, rows.begin() + last * width);
    // The ids of embeddings number them.
    bool numbers = !rows.empty();
    ids.erase(numbers ? ids.end() - (last - first) : ids.begin() + first,
              numbers ? ids.end() : ids.begin() + last);
    segment.position -=
        std::clamp<int64_t>(segment.position, begin, end) - begin;
    if (!ids.empty())
      kept.push_back(std::move(segment));
  }
  segments = std::move(kept);
}

int64_t History::lastIds() const {
  if (segments.empty() || !segments.back().embeddings.empty())
    return 0;
  return static_cast<int64_t>(segments.back().ids.size());
}

std::vector<int32_t> History::idsWith(int64_t count, const Step &step) const {
  const std::vector<int32_t> &last = segments.back().ids;
  std::vector<int32_t> ids(last.end() - count, last.end());
  ids.insert(ids.end(), step.ids, step.ids + step.tokens);
  return ids;
}

Status History::replay(int64_t end, int64_t chunk, int64_t rows,
                       FunctionRef<Status(Step)> feed) const {
  for (const Segment &segment : segments) {
    auto size = static_cast<int64_t>(segment.ids.size());
    int64_t tokens = 0;
    for (int64_t done = 0; done < size && segment.position + done < end;
         done += tokens) {
      int64_t position = segment.position + done;
      tokens = std::min(
          {size - done, segment.asRows ? rows : chunk, end - position});
      Step step = {&segment.ids[static_cast<size_t>(done)], tokens, position,
                   tokens, nullptr};
      step.isOfPrompt = !segment.asRows;
      if (!segment.embeddings.empty())
        step.embeddings = segment.embeddings.data(); // embeddings are one chunk
      Status status = feed(step);
      if (!status.ok())
        return status;
    }
  }
  return Status();
}

// Each segment is its number of positions, what they are, and then its
// embeddings, or its ids.
enum Kind : int64_t { OfPrefill, Embeddings, OfBatch };
struct PartHeader {
  int64_t count, kind;
};

std::vector<std::byte> History::write() const {
  std::vector<std::byte> bytes;
  auto add = [&](const void *data, size_t size) {
    auto *from = static_cast<const std::byte *>(data);
    bytes.insert(bytes.end(), from, from + size);
  };
  for (const Segment &segment : segments) {
    PartHeader header = {static_cast<int64_t>(segment.ids.size()),
                         segment.asRows               ? OfBatch
                         : segment.embeddings.empty() ? OfPrefill
                                                      : Embeddings};
    add(&header, sizeof(header));
    if (header.kind == Embeddings)
      add(segment.embeddings.data(), segment.embeddings.size());
    else
      add(segment.ids.data(), segment.ids.size() * sizeof(int32_t));
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
    if (header.kind == Embeddings) {
      width = manifest.embeddingBytes();
      most = std::min({most, manifest.chunk, manifest.vocabSize});
    }
    if (header.kind < OfPrefill || header.kind > OfBatch || count < 1 ||
        count > most || width == 0 ||
        static_cast<uint64_t>(end - bytes) / width <
            static_cast<uint64_t>(count))
      return bad;
    Segment segment = {
        position, std::vector<int32_t>(count), {}, header.kind == OfBatch};
    auto length = static_cast<size_t>(count) * width;
    if (header.kind == Embeddings) {
      std::iota(segment.ids.begin(), segment.ids.end(), 0);
      segment.embeddings.assign(bytes, bytes + length);
    } else {
      memcpy(segment.ids.data(), bytes, length);
    }
    for (int32_t id : segment.ids)
      if (id < 0 || id >= manifest.vocabSize)
        return bad;
    made.segments.push_back(std::move(segment));
    bytes += length;
    position += count;
  }
  return position == positions ? Result<History>(std::move(made)) : bad;
}

} // namespace cria
