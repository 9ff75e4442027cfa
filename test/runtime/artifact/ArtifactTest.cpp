#include "runtime/artifact/Artifact.h"

#include "runtime/base/Features.h"
#include "test/runtime/Fixtures.h"

#include <gtest/gtest.h>

#include <cstring>
#include <dlfcn.h>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sys/resource.h>
#include <unistd.h>

using namespace cria;
using namespace cria::test;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;
namespace fs = std::filesystem;

namespace {

class ArtifactTest : public testing::Test {
protected:
  /// What opening an artifact of these bytes says.
  Status open(const std::string &bytes) {
    return Artifact::open(folder.write("x.cria", bytes)).status();
  }
  /// What opening the fake model says, its manifest changed at `pointer`.
  Status openWith(const char *pointer, nlohmann::json value) {
    nlohmann::json manifest = fakeManifest();
    manifest[nlohmann::json::json_pointer(pointer)] = std::move(value);
    return open(artifactOf(manifest));
  }

  TemporaryFolder folder;
};

CriaFooter &footerOf(std::string &artifact) {
  return *reinterpret_cast<CriaFooter *>(artifact.data() + artifact.size() -
                                         sizeof(CriaFooter));
}

} // namespace

TEST_F(ArtifactTest, OpensAndFindsItsEntries) {
  auto artifact =
      Artifact::open(folder.write("x.cria", artifactOf(fakeManifest())));
  ASSERT_TRUE(artifact.ok()) << artifact.status().message();
  EXPECT_NE((*artifact)->prefill(), nullptr);
  EXPECT_NE((*artifact)->decode(), nullptr);
  EXPECT_EQ((*artifact)->manifest().vocabSize, 5);
  EXPECT_EQ((*artifact)->manifest().weights[1].name(1), "layers.1.norm.weight");
  EXPECT_EQ((*artifact)->manifest().weightBytes(), 48u);
  EXPECT_EQ((*artifact)->manifestText(), fakeManifest().dump());
}

// The file is copied, the copy is checked, and the copy is loaded: no one can
// change it in between.
TEST_F(ArtifactTest, LoadsASealedCopy) {
  auto artifact =
      Artifact::open(folder.write("x.cria", artifactOf(fakeManifest())));
  ASSERT_TRUE(artifact.ok()) << artifact.status().message();
  Dl_info info;
  ASSERT_NE(dladdr(reinterpret_cast<void *>((*artifact)->decode()), &info), 0);
  std::string path = info.dli_fname; // /proc/PID/fd/N, as gdb sees it
  EXPECT_THAT(fs::read_symlink(path).string(), StartsWith("/memfd:cria"));
  int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  ASSERT_GE(descriptor, 0);
  EXPECT_EQ(fcntl(descriptor, F_GET_SEALS),
            F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL);
  close(descriptor);
  // The same bytes are loaded again where they are opened again.
  auto again = Artifact::open(folder.path("x.cria"));
  ASSERT_TRUE(again.ok()) << again.status().message();
  EXPECT_NE((*again)->decode(), (*artifact)->decode());
}

TEST_F(ArtifactTest, KeepsNothingOnceItIsFree) {
  std::string path = folder.write("x.cria", artifactOf(fakeManifest()));
  auto count = [] {
    auto entries = fs::directory_iterator("/proc/self/fd");
    return std::distance(fs::begin(entries), fs::end(entries));
  };
  auto before = count();
  for (int i = 0; i < 3; ++i)
    EXPECT_TRUE(Artifact::open(path).ok());
  EXPECT_EQ(count(), before);
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);)
    EXPECT_THAT(line, Not(HasSubstr("memfd:cria")));
}

TEST_F(ArtifactTest, SaysThatTheLimitOnFilesIsTooLow) {
  std::string path = folder.write("x.cria", artifactOf(fakeManifest()));
  struct rlimit before;
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  struct rlimit low = {4096, before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &low), 0);
  Status status = Artifact::open(path).status();
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
  EXPECT_THAT(status, fails(CRIA_RESOURCE_EXHAUSTED,
                            "the limit on file sizes (ulimit -f) is 4096"));
}

// Sizes are checked before anything is read: these files are holes.
TEST_F(ArtifactTest, RefusesFilesThatAreTooLarge) {
  std::string path = folder.write("x.cria", "");
  fs::resize_file(path, (uint64_t(1) << 28) + 1);
  for (Status status :
       {Artifact::open(path).status(), Artifact::inspect(path).status()})
    EXPECT_THAT(status,
                fails(CRIA_INVALID_ARGUMENT,
                      "has 268435457 bytes, expected at most 268435456"));
}

TEST_F(ArtifactTest, RejectsWhatIsNoArtifact) {
  EXPECT_THAT(open(""), fails(CRIA_INVALID_ARGUMENT, "not a Cria artifact"));
  EXPECT_THAT(
      open("random bytes, and enough of them to hold a footer ........"),
      fails(CRIA_INVALID_ARGUMENT, "not a Cria artifact: no ELF header"));
  EXPECT_THAT(Artifact::open(folder.path()).status(),
              fails(CRIA_INVALID_ARGUMENT, "is a folder, expected a file"));
  EXPECT_THAT(Artifact::open(folder.path("none.cria")).status(),
              fails(CRIA_NOT_FOUND, "No such file or directory"));
}

TEST_F(ArtifactTest, RejectsOtherFormatVersions) {
  for (uint32_t version : {0u, CRIA_FORMAT_VERSION + 1}) {
    std::string artifact = artifactOf(fakeManifest());
    footerOf(artifact).format_version = version;
    EXPECT_THAT(open(artifact), fails(CRIA_DATA_LOSS, "checksum"));
    sealArtifact(artifact);
    EXPECT_THAT(open(artifact),
                fails(CRIA_INCOMPATIBLE,
                      "artifact format v" + std::to_string(version) +
                          ", runtime supports v" +
                          std::to_string(CRIA_FORMAT_VERSION) + "; recompile"));
  }
}

/// Whether a byte belongs to the ELF header, the manifest or the footer.
static bool isHeader(const std::string &artifact, size_t byte) {
  CriaFooter footer;
  size_t end = artifact.size() - sizeof(footer);
  memcpy(&footer, &artifact[end], sizeof(footer));
  return byte < 64 || byte >= end - footer.manifest_size;
}

// A bit of every byte of the headers, or every bit, and a sample of the code.
TEST_F(ArtifactTest, FindsFlippedBits) {
  const size_t header = triesAll() ? 1 : 7, code = triesAll() ? 101 : 499;
  const std::string whole = artifactOf(fakeManifest());
  std::string artifact = whole;
  for (size_t bit = 0; bit < artifact.size() * 8;
       bit += isHeader(whole, bit / 8) ? header : code) {
    char &byte = artifact[bit / 8];
    byte = static_cast<char>(byte ^ 1 << bit % 8);
    Status status = Artifact::inspect(folder.write("x", artifact)).status();
    byte = whole[bit / 8];
    bool isMagic = bit / 8 < 4; // it is no artifact then
    ASSERT_EQ(status.code(), isMagic ? CRIA_INVALID_ARGUMENT : CRIA_DATA_LOSS)
        << "bit " << bit << ": " << status.message();
  }
}

TEST_F(ArtifactTest, FindsEveryTruncation) {
  const std::string artifact = artifactOf(fakeManifest());
  for (size_t size = 0; size < artifact.size(); size += isHeader(artifact, size)
                                                            ? 1
                                                        : triesAll() ? 29
                                                                     : 97) {
    Status status = open(artifact.substr(0, size));
    ASSERT_EQ(status.code(), size < 4 ? CRIA_INVALID_ARGUMENT : CRIA_DATA_LOSS)
        << size << ": " << status.message();
  }
}

TEST_F(ArtifactTest, RefusesACpuThatLacksFeatures) {
  EXPECT_THAT(openWith("/cpu/0/features", {"sse3", "warp", "fold"}),
              fails(CRIA_INCOMPATIBLE, "this CPU lacks: warp, fold"));
  EXPECT_THAT(openWith("/target/arch", "aarch64"),
              fails(CRIA_INCOMPATIBLE,
                    "compiled for aarch64 linux, this machine is x86_64"));
  EXPECT_THAT(openWith("/target/os", "darwin"),
              fails(CRIA_INCOMPATIBLE, "compiled for x86_64 darwin"));
  EXPECT_THAT(openWith("/target/kind", "cuda"),
              fails(CRIA_INCOMPATIBLE, "compiled for target 'cuda'"));
}

/// A fake manifest with code for CPUs of these names and features, in order.
static nlohmann::json
manifestFor(const std::vector<std::pair<std::string, std::string>> &cpus) {
  nlohmann::json manifest = fakeManifest();
  nlohmann::json code = manifest["cpu"][0];
  manifest["cpu"] = nlohmann::json::array();
  for (const auto &[name, feature] : cpus) {
    code["name"] = name;
    code["features"] = {feature};
    manifest["cpu"].push_back(code);
  }
  return manifest;
}

TEST_F(ArtifactTest, TakesTheFirstCodeThatThisCpuRuns) {
  std::string path = folder.write(
      "x.cria", artifactOf(manifestFor(
                    {{"best", "warp"}, {"good", "sse3"}, {"least", "sse3"}})));
  auto artifact = Artifact::open(path);
  ASSERT_TRUE(artifact.ok()) << artifact.status().message();
  EXPECT_EQ((*artifact)->cpuCode()->cpu, "good");
  artifact = Artifact::open(path, "least");
  ASSERT_TRUE(artifact.ok()) << artifact.status().message();
  EXPECT_EQ((*artifact)->cpuCode()->cpu, "least");
  EXPECT_THAT(
      Artifact::open(path, "best").status(),
      fails(CRIA_INCOMPATIBLE, "compiled for best; this CPU lacks: warp"));
  EXPECT_THAT(Artifact::open(path, "other").status(),
              fails(CRIA_INCOMPATIBLE,
                    "has no code for 'other', it is compiled "
                    "for best, good, least"));
}

TEST_F(ArtifactTest, SaysWhatTheLeastCodeLacks) {
  std::string path = folder.write(
      "x.cria", artifactOf(manifestFor({{"best", "warp"}, {"least", "fold"}})));
  EXPECT_THAT(Artifact::open(path).status(),
              fails(CRIA_INCOMPATIBLE, "compiled for best, least; for least "
                                       "this CPU lacks: fold"));
}

TEST_F(ArtifactTest, AgreesWithTheCompilerOnThisCpu) {
  const std::pair<const char *, bool> features[] = {
      {"sse4.2", __builtin_cpu_supports("sse4.2")},
      {"avx2", __builtin_cpu_supports("avx2")},
      {"fma", __builtin_cpu_supports("fma")},
      {"avx512f", __builtin_cpu_supports("avx512f")},
      {"avx512vnni", __builtin_cpu_supports("avx512vnni")},
      {"avx512bf16", __builtin_cpu_supports("avx512bf16")},
  };
  for (auto [name, isThere] : features)
    EXPECT_EQ(missingCpuFeatures({name}).empty(), isThere) << name;
}

TEST_F(ArtifactTest, RejectsFootersThatDoNotDescribeTheFile) {
  auto broken = [&](auto change) {
    std::string artifact = artifactOf(fakeManifest());
    change(footerOf(artifact));
    sealArtifact(artifact);
    return open(artifact);
  };
  auto bad = fails(CRIA_INVALID_ARGUMENT, "footer does not describe the file");
  EXPECT_THAT(broken([](CriaFooter &f) { f.manifest_offset = UINT64_MAX; }),
              bad);
  EXPECT_THAT(broken([](CriaFooter &f) { f.manifest_size = UINT64_MAX; }), bad);
  EXPECT_THAT(broken([](CriaFooter &f) { f.file_size += 1; }), bad);
  EXPECT_THAT(broken([](CriaFooter &f) { f.footer_size = 0; }), bad);
}

/// A cache of one layer whose rows these ropes have rotated.
static nlohmann::json cacheWithRope(const std::vector<int> &ropes) {
  return {{"symbol", "k"},
          {"bytes", 48},
          {"shape", {1, 1, 12, 1}},
          {"dtype", "f32"},
          {"rope", ropes}};
}

/// A ring of 12 places, in a model that is fed 4 tokens at once.
static nlohmann::json ring(int64_t window) {
  nlohmann::json cache = cacheWithRope({-1});
  cache["window"] = window;
  return cache;
}

TEST_F(ArtifactTest, SaysHowFarATextCanGoBack) {
  auto reach = [](const nlohmann::json &cache) {
    nlohmann::json manifest = fakeManifest();
    manifest["caches"][0] = cache;
    auto parsed = parseManifest(manifest.dump(), "here");
    return parsed.ok() ? parsed->reach() : -1;
  };
  EXPECT_EQ(reach(cacheWithRope({-1})), 12); // to the begin
  EXPECT_EQ(reach(ring(9)), 3);
  nlohmann::json state = cacheWithRope({-1});
  state.erase("rope");
  state["state"] = true;
  EXPECT_EQ(reach(state), 0);
}

TEST_F(ArtifactTest, RejectsHostileManifestsNamingTheField) {
  struct Case {
    const char *pointer;
    nlohmann::json value;
    const char *message;
  };
  const Case cases[] = {
      {"/format", 4, "'format' is 4"},
      {"/model/vocab_size", 0, "'model.vocab_size' is 0"},
      {"/model/max_seq", -1, "'model.max_seq' is -1"},
      {"/model/chunk", 0, "'model.chunk' is 0"},
      {"/model/chunk", "4", "'model.chunk' is \"4\""},
      {"/slots", 6, "slot 5 is filled by nothing"},
      {"/gaps", {{{"slot", 4}, {"count", 2}}}, "is slot 5 of 5"},
      {"/gaps", {{{"slot", 0}, {"count", 1}}}, "fills slot 0 again"},
      {"/slots", 1e9, "'slots' is 1000000000.0"},
      {"/weights/0/slot", 1, "fills slot 1 again"},
      {"/weights/1/slot", 4, "is slot 5 of 5"},
      {"/weights/1/count", 1 << 20, "'weights[1].slot' is slot 5 of 5"},
      {"/weights/1/name", "layers.norm.weight", "a name with {}"},
      {"/weights/1/experts", 0, "'weights[1].experts' is 0"},
      {"/weights/1/experts", 2, "expected matrices that are not adapted"},
      {"/weights/0/experts", 2, "'weights[1].slot' fills slot 1 again"},
      {"/weights/0/experts", 1 << 20, "'weights[0].slot' is slot 5 of 5"},
      {"/weights/0/dtype", "q5_0",
       "expected f32, f16, bf16, q8_0, q4_0 or fp8"},
      {"/weights/0/dtype", "q4_0",
       "'weights[0].shape' is [5, 2], expected a matrix with rows of a "
       "multiple "
       "of 32 elements"},
      {"/weights/1/dtype", "q8_0", "expected a matrix with rows of a multiple"},
      {"/weights/0/shape", {1ll << 40, 1ll << 40}, "too large"},
      {"/weights/0/shape", {-1}, "'weights[0].shape[0]' is -1"},
      {"/weights/0/split", "rows",
       "expected rows, or cols of a matrix, in a model of several ranks"},
      {"/model/shards", 0, "'model.shards' is 0"},
      {"/model/logits", 3,
       "'model.logits' is 3, expected an equal part of vocab_size for each of "
       "1 ranks"},
      {"/embedding", 2, "'embedding' is 2, no weight's slot"},
      {"/embedding", 1, "is a weight of shape [2], expected one matrix"},
      {"/rope/0/rows", 3, "expected at least max_seq, 12"},
      {"/batch",
       {{"rows", 0}, {"page", 4}, {"width", 3}},
       "'batch.rows' is 0, expected a whole number from 1 to 65536"},
      {"/batch",
       {{"rows", 2}, {"page", 5}, {"width", 2}},
       "expected the pages of max_seq positions"},
      {"/rope/0/slot", 4, "is slot 5 of 5"},
      {"/model/hidden", 0, "'model.hidden' is 0"},
      {"/caches/0/rope",
       {0},
       "'caches[0].rope' belongs to a cache of shape [12], expected layers, "
       "heads, "
       "at least max_seq positions, and numbers"},
      {"/caches/0", cacheWithRope({1}), "'caches[0].rope[0]' is 1"},
      {"/caches/0/window", 3, "'caches[0].window' is 3, expected a whole"},
      {"/caches/0", ring(10),
       "'caches[0].window' is 10, expected a whole "
       "number from 1 to 9"},
      {"/caches/0", cacheWithRope({0}), "rotates 2 numbers of 1"},
      {"/caches/0", cacheWithRope({-1, -1}), "expected 1 layers"},
      {"/caches/0/bytes", 47, "but [12] of f32 is another size"},
      {"/caches/0/dtype", "i8", "expected f32, f16, bf16, q8_0 or q4_0"},
      {"/caches/0/dtype", "fp8", "expected f32, f16, bf16, q8_0 or q4_0"},
      {"/caches/0/dtype", "q8_0", "but [12] of q8_0 is another size"},
      {"/cpu", nlohmann::json::array(),
       "'cpu' is empty, expected code for a CPU"},
      {"/cpu", std::vector<int>(65),
       "'cpu' has 65 elements, expected at most 64"},
      {"/cpu/0/name", 1, "'cpu[0].name' is 1"},
      {"/cpu/0/features", "sse3", "'cpu[0].features' is \"sse3\""},
      {"/cpu/0/entries", 7, "'cpu[0].entries' is 7"},
      {"/cpu/0/arena", -1, "'cpu[0].arena' is -1"},
      {"/cpu/0/entries/decode", "nowhere",
       "entry 'nowhere' is not in the code"},
      {"/plan/decode/weight_bytes", -1, "'plan.decode.weight_bytes' is -1"},
  };
  for (const Case &bad : cases)
    EXPECT_THAT(openWith(bad.pointer, bad.value),
                fails(CRIA_INVALID_ARGUMENT, bad.message))
        << bad.pointer;
}
