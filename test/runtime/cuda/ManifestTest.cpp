#include "runtime/artifact/CudaPlan.h"

#include "runtime/artifact/Manifest.h"
#include "test/runtime/cuda/Fixtures.h"

using namespace cria;
using namespace cria::test;
using nlohmann::json;

namespace {

/// What is said of the fake manifest with `value` at `pointer` in "cuda".
Status statusWith(const std::string &pointer, const json &value) {
  json manifest = cudaManifest();
  manifest["cuda"][json::json_pointer(pointer)] = value;
  return parseManifest(manifest.dump(), "x.cria").status();
}

// Where the kernels of a loop, and one outside, take their first argument.
const std::string looped = "/entries/decode/1/body/1/args/0";
const std::string plain = "/entries/decode/0/args/0";

} // namespace

TEST(CudaManifest, ReadsImagesScratchAndSteps) {
  auto manifest = parseManifest(cudaManifest().dump(), "x.cria");
  ASSERT_TRUE(manifest.ok()) << manifest.status().message();
  EXPECT_TRUE(manifest->hasCpu());
  EXPECT_EQ(manifest->scratchBytes(), 512u);
  const cuda::Plan &plan = *manifest->cuda;
  EXPECT_EQ(plan.images[0].chip, "sm_80");
  EXPECT_TRUE(plan.images[0].isPtx);
  EXPECT_FALSE(plan.images[0].dependent);
  EXPECT_EQ(plan.zeroedBytes, 256u);
  ASSERT_EQ(plan.decode.size(), 3u);
  EXPECT_EQ(plan.decode[1].layers, 2u);
  const cuda::LaunchStep &append = plan.decode[1].launches[0];
  EXPECT_EQ(append.kernel, "append");
  EXPECT_EQ(append.grid[0].at(3, 0), 2u);
  EXPECT_EQ(append.grid[1].at(3, 0), 1u);
  EXPECT_EQ(append.arguments[2].perLayer, 48u);
  const cuda::LaunchStep &logits = plan.decode[2].launches[0];
  EXPECT_EQ(logits.grid[0].at(4, 0), 0u);
  EXPECT_EQ(logits.shared, 64u);
}

TEST(CudaManifest, CountsBlocksOfCountsInARange) {
  json manifest = cudaManifest();
  manifest["cuda"]["entries"]["decode"][0]["grid"][0] = {
      {"tokens", 2}, {"least", 3}, {"from", 2}, {"to", 8}};
  auto parsed = parseManifest(manifest.dump(), "x.cria");
  ASSERT_TRUE(parsed.ok()) << parsed.status().message();
  const cuda::Dimension &size = parsed->cuda->decode[0].launches[0].grid[0];
  EXPECT_EQ(size.at(1, 0), 0u);
  EXPECT_EQ(size.at(2, 0), 3u);
  EXPECT_EQ(size.at(8, 0), 4u);
  EXPECT_EQ(size.at(9, 0), 0u);
}

TEST(CudaManifest, HasLaunchesForSomeGenerations) {
  json manifest = cudaManifest();
  json &step = manifest["cuda"]["entries"]["decode"][0];
  step["generations"] = {1, 2};
  step["args"][0] = {{"arena", 256},
                     {"map",
                      {{"dtype", "bf16"},
                       {"sizes", {8, 3}},
                       {"strides", {16}},
                       {"box", {64, 2}}}}};
  auto parsed = parseManifest(manifest.dump(), "x.cria");
  ASSERT_TRUE(parsed.ok()) << parsed.status().message();
  cuda::Image image = parsed->cuda->images[0];
  const cuda::LaunchStep &launch = parsed->cuda->decode[0].launches[0];
  EXPECT_FALSE(launch.isFor(image));
  EXPECT_FALSE(image.hasTensorMaps());
  image.generation = 1;
  EXPECT_TRUE(launch.isFor(image));
  image.generation = 2;
  EXPECT_TRUE(launch.isFor(image));
  EXPECT_TRUE(parsed->cuda->decode[1].launches[0].isFor(image));
  ASSERT_TRUE(launch.arguments[0].map);
  EXPECT_EQ(launch.arguments[0].map->bytes(), (8u + 2 * 16) * 2);
  for (const char *wrong : {"1", "[3]", "[0, 1, 2, 2]", "[-1]"}) {
    step["generations"] = json::parse(wrong);
    EXPECT_FALSE(parseManifest(manifest.dump(), "x.cria").ok()) << wrong;
  }
}

TEST(CudaManifest, HasMapsOfPages) {
  auto statusOf = [](const json &sizes, const json &strides) {
    json manifest = cudaManifest(), paged = fakePagedManifest();
    for (const char *key : {"model", "batch", "rope"})
      manifest[key] = paged[key];
    manifest["model"].erase("hidden");
    manifest["caches"][0].update({{"bytes", 96}, {"shape", {4, 6}}});
    manifest["cpu"] = paged["cpu"];
    json &entries = manifest["cuda"]["entries"];
    entries["batch"] = entries["decode"];
    entries.erase("decode");
    entries["batch"][0]["args"][0] = {{"cache", 0},
                                      {"map",
                                       {{"dtype", "bf16"},
                                        {"sizes", sizes},
                                        {"strides", strides},
                                        {"box", {64, 2, 1}}}}};
    return parseManifest(manifest.dump(), "x.cria").status();
  };
  EXPECT_EQ(statusOf({8, 2, 1}, {8, 48}).message(), "");
  std::string wanted = "map' has no pages of 96 bytes as last dimension";
  EXPECT_THAT(statusOf({8, 2, 1}, {8, 56}),
              fails(CRIA_INVALID_ARGUMENT, wanted));
  EXPECT_THAT(statusOf({8, 1, 2}, {8, 24}),
              fails(CRIA_INVALID_ARGUMENT, wanted));
}

TEST(CudaManifest, RefusesTensorMapsThatNoDeviceTakes) {
  json map = {
      {"dtype", "f16"}, {"sizes", {8, 3}}, {"strides", {8}}, {"box", {64, 2}}};
  auto refused = [&](const char *key, const json &value,
                     const std::string &message, const char *place = "arena") {
    json changed = map;
    changed[key] = value;
    EXPECT_THAT(statusWith(plain, {{place, 0}, {"map", changed}}),
                fails(CRIA_INVALID_ARGUMENT, message));
  };
  refused("dtype", "f32", "expected bf16, f16 or u8");
  refused("dtype", "u8", "expected multiples of 16 bytes");
  refused("sizes", json::array(), "is empty");
  refused("sizes", {8, 0}, "is 0, expected");
  refused("sizes", {1, 1, 1, 1, 1, 1}, "sizes");
  refused("strides", {8, 8}, "strides");
  refused("strides", {12}, "expected multiples of 16 bytes");
  refused("box", {32, 2}, "expected rows of 64 floats");
  refused("box", {64, 257}, "is 257, expected");
  refused("box", {64}, "expected 2 numbers");
  refused("sizes", {8, 64}, "has 1024 bytes, 512 are there");
  refused("sizes", {8, 64}, "has 1024 bytes, 96 are there", "cache");
  refused("dtype", "f16", "has 48 bytes, 0 are there", "state");
  // Bytes.
  map = {
      {"dtype", "u8"}, {"sizes", {8, 3}}, {"strides", {16}}, {"box", {144, 2}}};
  refused("box", {72, 2}, "or of a multiple of 16 bytes");
  refused("sizes", {8, 64}, "has 1016 bytes, 512 are there");
  map["dtype"] = "f16";
  map["strides"] = {8};
  map["box"] = {64, 2};
  // The last layer of a cache.
  json layer = {{"cache", 0}, {"layer_bytes", 48}, {"map", map}};
  layer["map"]["sizes"] = {8, 4};
  EXPECT_THAT(statusWith("/entries/decode/1/body/0/args/2", layer),
              fails(CRIA_INVALID_ARGUMENT, "has 64 bytes, 48 are there"));
  json many = {{"arena", 0}, {"map", map}};
  EXPECT_THAT(statusWith("/entries/decode/0/args", json(25, many)),
              fails(CRIA_INVALID_ARGUMENT, "has 25 tensor maps"));
}

TEST(CudaManifest, ACodeForCudaAloneNeedsNoEntries) {
  json manifest = cudaManifest();
  manifest["target"] = {{"kind", "cuda"}, {"arch", "x86_64"}, {"os", "linux"}};
  manifest.erase("cpu");
  auto parsed = parseManifest(manifest.dump(), "x.cria");
  ASSERT_TRUE(parsed.ok()) << parsed.status().message();
  EXPECT_FALSE(parsed->hasCpu());
  manifest.erase("cuda");
  EXPECT_THAT(parseManifest(manifest.dump(), "x.cria").status(),
              fails(CRIA_INVALID_ARGUMENT, "'cpu' is missing"));
}

TEST(CudaManifest, RefusesIndicesOutOfRange) {
  auto refused = [](const std::string &pointer, const json &value,
                    const std::string &message) {
    EXPECT_THAT(statusWith(pointer, value),
                fails(CRIA_INVALID_ARGUMENT, message));
  };
  refused(plain, {{"weight", 5}}, "reaches slot 5 of 5");
  refused(looped, {{"weight", 4}, {"layered", true}}, "reaches slot 5 of 5");
  refused(plain, {{"weight", 1}, {"layered", true}}, "outside a loop");
  refused(plain, {{"cache", 1}}, "is 1 of 1 caches");
  refused(looped, {{"cache", 0}, {"layer_bytes", 96}}, "exceeds the cache");
  refused(plain, {{"cache", 0}, {"layer_bytes", 8}}, "outside a loop");
  refused(plain, {{"arena", 512}}, "beyond the arena's 512");
  refused(plain, {{"arena", -1}}, "is -1, expected a whole number from 0");
  refused(plain, {{"something", 0}},
          "expected a weight, cache, arena, state, ids, logits, seen, sampled, "
          "sampling or hidden");
  refused("/workspace_zeroed/bytes", 513, "ends beyond the arena's 512");
}

TEST(CudaManifest, ReadsSumsOverRanks) {
  json manifest = cudaManifest();
  manifest["model"]["shards"] = 2;
  json &step = manifest["cuda"]["entries"]["prefill"][0];
  step = {{"all_reduce", {{"arena", 256}}},
          {"rows", {{"tokens", 1}}},
          {"columns", 8}};
  int64_t chunk = manifest["model"]["chunk"];
  auto most = 256 / (8 * 4); // rows that fit
  ASSERT_LE(chunk, most);
  auto parsed = parseManifest(manifest.dump(), "x.cria");
  ASSERT_TRUE(parsed.ok()) << parsed.status().message();
  const cuda::LaunchStep &sum = parsed->cuda->prefill[0].launches[0];
  EXPECT_TRUE(sum.isSum());
  EXPECT_EQ(sum.columns, 8u);
  EXPECT_EQ(sum.grid[0].at(3, 0), 3u);
  EXPECT_FALSE(parsed->cuda->decode[0].launches[0].isSum());
  auto refused = [&](const char *key, const json &value,
                     const std::string &message) {
    json changed = manifest;
    changed["cuda"]["entries"]["prefill"][0][key] = value;
    EXPECT_THAT(parseManifest(changed.dump(), "x.cria").status(),
                fails(CRIA_INVALID_ARGUMENT, message));
  };
  refused("all_reduce", {{"logits", 0}}, "expected a place in the arena");
  refused("columns", 0, "is 0, expected");
  refused("columns", 64, "bytes, 256 are there");
  manifest["model"].erase("shards");
  EXPECT_THAT(parseManifest(manifest.dump(), "x.cria").status(),
              fails(CRIA_INVALID_ARGUMENT, "is in a model of one rank"));
}

TEST(CudaManifest, RefusesLaunchesThatNoDeviceCanDo) {
  auto refused = [](const std::string &pointer, const json &value,
                    const std::string &message) {
    EXPECT_THAT(statusWith(pointer, value),
                fails(CRIA_INVALID_ARGUMENT, message));
  };
  refused("/entries/decode/0/block", {64, 32, 1}, "has 2048 threads");
  refused("/entries/decode/0/block", {0, 1, 1}, "is 0, expected");
  refused("/entries/decode/0/block", {1, 1}, "expected three dimensions");
  refused("/entries/decode/0/grid", json::array(), "expected three");
  refused("/entries/decode/0/grid/0", -1, "is -1, expected");
  refused("/entries/decode/0/grid/0", {{"tokens", 0}}, "is 0, expected");
  refused("/entries/decode/0/grid/0", {{"tokens", 1}, {"least", -1}},
          "is -1, expected");
  refused("/entries/decode/0/grid/0", {{"rows", 1}}, "'cuda.entries.decode");
  refused("/entries/decode/0/shared", -1, "is -1, expected");
  refused("/entries/decode/1/loop", 0, "is 0, expected");
  refused("/entries/decode/1/loop", 1 << 20, "expected a whole number");
  refused("/images", json::array(), "is empty");
  refused("/images/0/chip", "ptx", "expected a chip such as sm_80");
  refused("/images/0/format", "fatbin", "expected ptx or cubin");
  refused("/images/0/dependent", 1, "is 1, expected");
  refused("/images/0/spans", json::array(), "expected pairs of offsets");
  refused("/images/0/spans", {0, 8, 16}, "expected pairs of offsets");
  refused("/images/0/spans", {8, 4}, "is 4, expected");
}
