// Dropping positions from the middle of a text, in caches of every type.
#include "runtime/session/DropPositions.h"

#include "runtime/weights/Floats.h"
#include "runtime/weights/RopeTables.h"
#include "test/runtime/Fixtures.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

using namespace cria;
using namespace cria::test;

namespace {

/// Caches in memory, and nothing that computes.
class MemoryBackend : public Backend {
public:
  std::vector<std::vector<std::byte>> caches;
  int writesLeft = INT32_MAX; // before they fail

  Status step(const Step &) override { return Status(); }
  Status trace(std::vector<KernelTime> *) override { return Status(); }
  Status clearPage(PageKind, int32_t) override { return Status(); }
  Status copyPage(PageKind, int32_t, int32_t) override { return Status(); }
  Status readPage(size_t cache, int32_t, uint64_t begin, std::byte *to,
                  uint64_t bytes) override {
    memcpy(to, caches[cache].data() + begin, bytes);
    return Status();
  }
  Status writePage(size_t cache, int32_t, uint64_t begin, const std::byte *from,
                   uint64_t bytes) override {
    if (writesLeft-- <= 0)
      return Status(CRIA_ABORTED, "the device is gone");
    memcpy(caches[cache].data() + begin, from, bytes);
    return Status();
  }
};

constexpr int64_t layers = 2, heads = 2, positions = 24, size = 64;

/// Keys that a rope of 24 pairs rotates in the first layer alone, and values;
/// of that type.
Manifest manifestOf(const std::string &type) {
  Manifest manifest;
  manifest.maxSeq = positions;
  RopeSpec rope = {};
  rope.rows = positions;
  rope.scale = 1.5f;
  for (int i = 0; i < 24; ++i)
    rope.inverseFrequencies.push_back(std::pow(10000.0f, -i / 24.0f));
  manifest.ropes = {rope};
  Shape shape = {layers, heads, positions, size};
  uint64_t bytes = *tensorBytes(shape, *weightTypeNamed(type));
  manifest.caches = {{"keys", bytes, shape, type, {0, -1}},
                     {"values", bytes, shape, type, {-1, -1}}};
  return manifest;
}

/// What the model has made of the id at a position, before rope.
float rowOf(int64_t cache, int64_t head, int64_t id, int64_t column) {
  return std::sin(static_cast<float>(7 * cache + 5 * head + 3 * id) +
                  1.3f * static_cast<float>(column));
}

/// The rows of `ids`, one a position, as the model's caches have them in f32;
/// computed in f64.
std::vector<float> rowsOf(const Manifest &manifest, size_t cache,
                          const std::vector<int64_t> &ids) {
  std::vector<float> rows;
  const RopeSpec &rope = manifest.ropes[0];
  size_t half = rope.inverseFrequencies.size();
  for (int64_t head = 0; head < layers * heads; ++head)
    for (size_t p = 0; p < ids.size(); ++p)
      for (size_t column = 0; column < size; ++column) {
        auto at = [&](size_t i) {
          return static_cast<double>(rowOf(static_cast<int64_t>(cache), head,
                                           ids[p], static_cast<int64_t>(i)));
        };
        double x = at(column);
        if (cache == 0 && head < heads && column < 2 * half) {
          bool upper = column >= half;
          float frequency = rope.inverseFrequencies[column % half];
          double angle = static_cast<double>(static_cast<float>(p) * frequency);
          double other = at(upper ? column - half : column + half);
          x = rope.scale * (x * std::cos(angle) +
                            (upper ? other : -other) * std::sin(angle));
        }
        rows.push_back(static_cast<float>(x));
      }
  return rows;
}

/// The cache with `rows` in it, one for each position.
std::vector<std::byte> cacheOf(const CacheSpec &spec,
                               const std::vector<float> &rows) {
  DType type = *weightTypeNamed(spec.type);
  uint64_t held = rows.size() / (layers * heads * size);
  std::vector<std::byte> cache(spec.bytes);
  for (uint64_t head = 0; head < layers * heads; ++head)
    convertElements(
        reinterpret_cast<const std::byte *>(&rows[head * held * size]),
        DType::F32, cache.data() + bytesOf(type, head * positions * size), type,
        held * size);
  return cache;
}

std::vector<float> widened(const CacheSpec &spec,
                           const std::vector<std::byte> &cache, uint64_t held) {
  DType type = *weightTypeNamed(spec.type);
  std::vector<float> rows(layers * heads * held * size);
  for (uint64_t head = 0; head < layers * heads; ++head)
    convertElements(cache.data() + bytesOf(type, head * positions * size), type,
                    reinterpret_cast<std::byte *>(&rows[head * held * size]),
                    DType::F32, held * size);
  return rows;
}

/// 9 positions; 2 to 4 are dropped.
const std::vector<int64_t> before = {0, 1, 2, 3, 4, 5, 6, 7, 8};
const std::vector<int64_t> after = {0, 1, 5, 6, 7, 8};

} // namespace

// What is left is what a text without those ids would have left, but for
// rounding: in a type of few bits once before rope turns it and once after.
TEST(DropPositionsTest, TurnsKeysAndMovesValues) {
  for (auto [type, error] : {std::pair("f32", 1e-6f),
                             {"f16", 2e-3f},
                             {"bf16", 1.5e-2f},
                             {"q8_0", 2.5e-2f}}) {
    Manifest manifest = manifestOf(type);
    MemoryBackend backend;
    for (size_t i : {0, 1})
      backend.caches.push_back(
          cacheOf(manifest.caches[i], rowsOf(manifest, i, before)));
    Caches caches(manifest, backend);
    ASSERT_TRUE(dropPositions(manifest, caches, 2, 5, 9).ok());
    for (size_t i : {0, 1}) {
      std::vector<float> expected = rowsOf(manifest, i, after);
      std::vector<float> found =
          widened(manifest.caches[i], backend.caches[i], 6);
      for (size_t j = 0; j < expected.size(); ++j)
        ASSERT_NEAR(found[j], expected[j], error) << type << ", " << j;
    }
    // Values move as they are, bit for bit.
    std::vector<std::byte> values =
        cacheOf(manifest.caches[1], rowsOf(manifest, 1, after));
    uint64_t row = values.size() / (layers * heads * positions);
    for (uint64_t head = 0; head < layers * heads; ++head)
      EXPECT_EQ(memcmp(&values[head * positions * row],
                       &backend.caches[1][head * positions * row], 6 * row),
                0)
          << type;
  }
}

TEST(DropPositionsTest, LeavesWhatIsInFrontWhereTheDeviceFails) {
  Manifest manifest = manifestOf("f32");
  MemoryBackend backend;
  for (size_t i : {0, 1})
    backend.caches.push_back(
        cacheOf(manifest.caches[i], rowsOf(manifest, i, before)));
  auto old = backend.caches;
  backend.writesLeft = 3;
  Caches caches(manifest, backend);
  EXPECT_THAT(dropPositions(manifest, caches, 2, 5, 9),
              fails(CRIA_ABORTED, "the device is gone"));
  for (size_t i : {0, 1})
    for (int64_t head = 0; head < layers * heads; ++head)
      EXPECT_EQ(memcmp(&old[i][head * positions * size * 4],
                       &backend.caches[i][head * positions * size * 4],
                       2 * size * 4),
                0);
}

TEST(DropPositionsTest, SaysWhyItCannot) {
  auto refused = [](void (*change)(Manifest &), const std::string &why) {
    Manifest manifest = manifestOf("f32");
    EXPECT_TRUE(mayDropPositions(manifest).ok());
    change(manifest);
    EXPECT_THAT(
        mayDropPositions(manifest),
        fails(CRIA_UNIMPLEMENTED,
              "positions cannot be dropped from within a text: " + why));
  };
  refused([](Manifest &m) { m.encoder = true; }, "the model attends to a text");
  refused([](Manifest &m) { m.bidirectional = true; },
          "the model's tokens see later tokens");
  refused([](Manifest &m) { m.batch = BatchSpec(); },
          "the KV caches are in pages");
  refused([](Manifest &m) { m.learnedPositions = true; },
          "the model adds a learned row for each position");
  refused([](Manifest &m) { m.caches[0].ropes.clear(); },
          "the artifact's manifest does not say");
}
