#include "runtime/session/DropPositions.h"

#include "runtime/weights/Floats.h"
#include "runtime/weights/RopeTables.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>

namespace cria {

/// Positions that are moved at once. It bounds the size of each copy to or from
/// a device.
static constexpr int64_t mostRows = 4096;

static Status refused(const char *why) {
  return Status(
      CRIA_UNIMPLEMENTED,
      std::string("positions cannot be dropped from within a text: ") + why);
}

Status mayDropPositions(const Manifest &manifest) {
  if (manifest.encoder)
    return refused("the model attends to a text that was encoded");
  if (manifest.bidirectional)
    return refused("the model's tokens see later tokens");
  if (manifest.keepsText()) // computed anew
    return Status();
  if (manifest.batch)
    return refused("the KV caches are in pages, which other texts may share");
  if (manifest.learnedPositions)
    return refused("the model adds a learned row for each position to its "
                   "embeddings");
  for (const CacheSpec &cache : manifest.caches)
    if (cache.ropes.empty())
      return refused("the artifact's manifest does not say by which rope keys "
                     "are rotated");
  return Status();
}

namespace {
/// Cosines and sines that turn a row of one position to that of another.
class Turn {
public:
  /// For `count` rows: turns row i from position `from` + i to position `to` +
  /// i.
  Turn(const RopeSpec &rope, int64_t from, int64_t to, int64_t count)
      : half(rope.inverseFrequencies.size()) {
    for (int64_t i = 0; i < count; ++i)
      for (float frequency : rope.inverseFrequencies) {
        // The same angles as in the tables, which are rounded to f32.
        double angle = ropeAngle(static_cast<uint64_t>(to + i), frequency) -
                       static_cast<double>(ropeAngle(
                           static_cast<uint64_t>(from + i), frequency));
        cosines.push_back(static_cast<float>(std::cos(angle)));
        sines.push_back(static_cast<float>(std::sin(angle)));
      }
  }

  /// Turns rows of `size` numbers. As in RoPE, pair i is columns i and i +
  /// half; the columns from 2 * half on stay.
  void apply(std::vector<float> &rows, size_t size) const {
    const float *cosine = cosines.data(), *sine = sines.data();
    for (float *row = rows.data(); row < rows.data() + rows.size(); row += size)
      for (size_t i = 0; i < half; ++i, ++cosine, ++sine) {
        float low = row[i], high = row[half + i];
        row[i] = low * *cosine - high * *sine;
        row[half + i] = high * *cosine + low * *sine;
      }
  }

private:
  size_t half;
  std::vector<float> cosines, sines; // (rows, half)
};

/// Moves `count` rows of every cache from position `from` to a lower one, `to`.
class Mover {
public:
  Mover(const Manifest &manifest, Caches &caches, int64_t from, int64_t to,
        int64_t count)
      : caches(caches), from(from), to(to), count(count) {
    for (const RopeSpec &rope : manifest.ropes)
      turns.emplace_back(rope, from, to, count);
  }

  Status move(size_t number, const CacheSpec &cache);

private:
  void rotate(const Turn &turn, DType type, size_t size);

  Caches &caches;
  int64_t from, to, count;
  std::vector<Turn> turns; // one for each RoPE table
  std::vector<std::byte> rows;
  std::vector<float> wide;
};
} // namespace

/// Turns `rows`, of `size` numbers of `type`. Computes in f32 and rounds once.
void Mover::rotate(const Turn &turn, DType type, size_t size) {
  wide.resize(static_cast<size_t>(count) * size);
  auto *numbers = reinterpret_cast<std::byte *>(wide.data());
  convertElements(rows.data(), type, numbers, DType::F32, wide.size());
  turn.apply(wide, size);
  convertElements(numbers, DType::F32, rows.data(), type, wide.size());
}

/// Moves the rows of one cache, (layers, heads, positions, size).
Status Mover::move(size_t number, const CacheSpec &cache) {
  DType type = *weightTypeNamed(cache.type);
  uint64_t layers = cache.shape[0], heads = cache.shape[1],
           positions = cache.shape[2], size = cache.shape[3];
  uint64_t rowBytes = bytesOf(type, size);
  auto first = static_cast<uint64_t>(from), target = static_cast<uint64_t>(to);
  rows.resize(static_cast<uint64_t>(count) * rowBytes);
  for (uint64_t head = 0; head < layers * heads; ++head) {
    uint64_t begin = head * positions;
    Status status = caches.read(number, (begin + first) * rowBytes, rows.data(),
                                rows.size());
    if (!status.ok())
      return status;
    if (int64_t rope = cache.ropes[head / heads]; rope >= 0)
      rotate(turns[static_cast<size_t>(rope)], type, size);
    status = caches.write(number, (begin + target) * rowBytes, rows.data(),
                          rows.size());
    if (!status.ok())
      return status;
  }
  return Status();
}

Status dropPositions(const Manifest &manifest, Caches &caches, int64_t begin,
                     int64_t end, int64_t length) {
  Status status = mayDropPositions(manifest);
  // In order of positions: a row is read before it is overwritten.
  for (int64_t at = end; status.ok() && at < length; at += mostRows) {
    Mover mover(manifest, caches, at, begin + at - end,
                std::min(mostRows, length - at));
    for (size_t i = 0; status.ok() && i < manifest.caches.size(); ++i)
      status = mover.move(i, manifest.caches[i]);
  }
  return status;
}

} // namespace cria
