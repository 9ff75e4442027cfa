#include "runtime/session/Model.h"

#include "test/runtime/Fixtures.h"

#include <gtest/gtest.h>

#include <cmath>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

using namespace cria;
using namespace cria::test;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

namespace fs = std::filesystem;

namespace {

/// The fake model with a matrix in blocks, in slot 5.
class WeightCacheTest : public testing::Test {
protected:
  void SetUp() override {
    fs::create_directory(folder.path("cache"));
    use("q8_0");
    writeCheckpoint(1);
  }

  void use(const char *type) {
    nlohmann::json manifest =
        withMatrix(fakeManifest(), "matrix", 41, 288, type);
    auto opened = Artifact::open(folder.write("a.cria", artifactOf(manifest)));
    ASSERT_TRUE(opened.ok()) << opened.status().message();
    artifact = *opened;
  }
  void writeCheckpoint(float scale) {
    std::vector<float> values;
    for (int i = 0; i < 41 * 288; ++i)
      values.push_back(scale * std::sin(static_cast<float>(i)));
    std::vector<TestTensor> tensors = fakeTensors();
    tensors.push_back({"matrix.weight", "F32", {41, 288}, bytesOf(values)});
    folder.write("model.safetensors", safetensorsOf(tensors));
  }
  /// Binds with the cache in `name` of the folder; "": without.
  void bind(const std::string &name = "cache") {
    WeightSource source;
    source.checkpoint = folder.path();
    source.cache = name.empty() ? "" : folder.path(name);
    source.loras = loras;
    auto bound = Model::load(artifact, source);
    ASSERT_TRUE(bound.ok()) << bound.status().message();
    model = *bound;
  }
  /// The blocks of the matrix.
  std::string blocks(const char *type = "q8_0") const {
    size_t size = 41 * 288 / 32 * (type[1] == '8' ? 34 : 18);
    return std::string(static_cast<const char *>(model->slots()[5]), size);
  }
  /// The files in the cache.
  std::vector<std::string> files() const {
    std::vector<std::string> found;
    for (const auto &entry : fs::directory_iterator(folder.path("cache")))
      found.push_back(entry.path());
    return found;
  }
  /// What the checkpoint's blocks are without a cache.
  std::string expected(const char *type = "q8_0") {
    bind("");
    return blocks(type);
  }
  /// Changes the byte at `offset` of the file, from its end if negative.
  static void change(const std::string &path, int64_t offset) {
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    if (offset < 0)
      offset += static_cast<int64_t>(fs::file_size(path));
    file.seekg(offset);
    char byte = static_cast<char>(file.get() ^ 1);
    file.seekp(offset);
    file.put(byte);
  }

  TemporaryFolder folder;
  std::shared_ptr<const Artifact> artifact;
  std::shared_ptr<const Model> model;
  std::vector<LoraSource> loras;
};

} // namespace

static constexpr char quantized[] = "1 tensor quantized from f32 to q8_0";

TEST_F(WeightCacheTest, MapsWhatTheFirstStartMade) {
  std::string blocksWithout = expected();
  EXPECT_EQ(model->copiedBytes(), blocksWithout.size());
  for (int times = 0; times < 2; ++times) {
    bind();
    EXPECT_EQ(blocks(), blocksWithout);
    EXPECT_EQ(model->copiedBytes(), 0u);
    EXPECT_EQ(files().size(), 1u);
  }
}

TEST_F(WeightCacheTest, MakesAFileForEachCheckpointAndType) {
  bind();
  writeCheckpoint(2);
  std::string other = expected();
  bind();
  EXPECT_EQ(blocks(), other);
  use("q4_0");
  other = expected("q4_0");
  bind();
  EXPECT_EQ(blocks("q4_0"), other);
  EXPECT_EQ(files().size(), 3u);
}

// Two shards have each tensor, and their files do not change.
TEST_F(WeightCacheTest, MakesAFileForEachShardThatTheIndexNames) {
  std::string other = expected();
  fs::rename(folder.path("model.safetensors"), folder.path("b"));
  writeCheckpoint(2);
  fs::rename(folder.path("model.safetensors"), folder.path("a"));
  nlohmann::json map = {{"embed.weight", "a"}, {"matrix.weight", "b"}};
  for (const char *shard : {"b", "a"}) {
    map["matrix.weight"] = shard;
    folder.write("model.safetensors.index.json",
                 nlohmann::json{{"weight_map", map}}.dump());
    bind();
    EXPECT_EQ(blocks() == other, shard[0] == 'b');
  }
  EXPECT_EQ(files().size(), 2u);
}

// Of a header: magic, size, length of the text, checksum; then the text.
TEST_F(WeightCacheTest, MakesADamagedFileAnew) {
  std::string blocksWithout = expected();
  bind();
  struct {
    int64_t offset;
    const char *warning;
  } cases[] = {
      {0, "is not a file of weights of this version; a new file replaces it"},
      {8, "is damaged, or of other weights; a new file replaces it"},
      {16, "is damaged, or of other weights"},
      {24, "is damaged, or of other weights"},
      {40, "is damaged, or of other weights"},
      {4096, "'matrix.weight' is damaged; a new file replaces it"},
      {4096 + 12545, "'matrix.weight' is damaged"}, // its last byte
      {-9, "its checksums are damaged"},
      {-1, "its checksums are damaged"}};
  for (auto [offset, warning] : cases) {
    change(files()[0], offset);
    bind();
    EXPECT_THAT(model->warnings(), testing::Contains(HasSubstr(warning)))
        << offset;
    EXPECT_EQ(blocks(), blocksWithout);
    bind();
    EXPECT_THAT(model->warnings(), ElementsAre(quantized));
  }
}

TEST_F(WeightCacheTest, MakesACutFileAnew) {
  std::string blocksWithout = expected();
  bind();
  for (uintmax_t size : {uintmax_t(0), uintmax_t(31), uintmax_t(5000)}) {
    model.reset();
    fs::resize_file(files()[0], size);
    bind();
    EXPECT_THAT(model->warnings(),
                ElementsAre(quantized, HasSubstr("a new file replaces it")));
    EXPECT_EQ(blocks(), blocksWithout);
  }
}

// The name of the file can be predicted.
TEST_F(WeightCacheTest, ReplacesLinksAndFifosUnderItsName) {
  std::string blocksWithout = expected(),
              precious = folder.write("precious", "text");
  bind();
  std::string name = files()[0];
  auto replaces = [&](const std::string &why) {
    bind();
    EXPECT_THAT(
        model->warnings(),
        ElementsAre(quantized, name + why + "; a new file replaces it"));
    EXPECT_EQ(blocks(), blocksWithout);
    EXPECT_TRUE(fs::is_regular_file(fs::symlink_status(name)));
  };
  fs::rename(name, folder.path("elsewhere"));
  fs::create_symlink(folder.path("elsewhere"), name);
  replaces(": is a symbolic link");
  fs::remove(name);
  fs::create_symlink(precious, name);
  replaces(": is a symbolic link");
  EXPECT_EQ(fs::file_size(precious), 4u);
  fs::remove(name);
  ASSERT_EQ(mkfifo(name.c_str(), 0600), 0);
  replaces(": is not a regular file");
  chmod(name.c_str(), 0666);
  replaces(": others than its owner may write to it");
}

TEST_F(WeightCacheTest, IsNotUsedWhereOthersMayWrite) {
  chmod(folder.path("cache").c_str(), 0777);
  bind();
  EXPECT_THAT(model->warnings(),
              ElementsAre(quantized, "the cache of weights is not used: " +
                                         folder.path("cache") +
                                         ": others than its owner may write "
                                         "to it"));
  EXPECT_THAT(files(), IsEmpty());
  if (geteuid() != 0)
    GTEST_SKIP() << "needs root, to give files away";
  chmod(folder.path("cache").c_str(), 0700);
  ASSERT_EQ(chown(folder.path("cache").c_str(), 12345, 0), 0);
  bind();
  EXPECT_THAT(model->warnings(),
              ElementsAre(quantized, HasSubstr("belongs to user 12345")));
  EXPECT_THAT(files(), IsEmpty());
}

// A user may name the folder by a link.
TEST_F(WeightCacheTest, MakesTheFolderAndFollowsALinkToIt) {
  fs::remove(folder.path("cache"));
  bind("cache");
  EXPECT_EQ(files().size(), 1u);
  fs::create_directory_symlink(folder.path("cache"), folder.path("link"));
  bind("link");
  EXPECT_EQ(files().size(), 1u);
  EXPECT_EQ(model->copiedBytes(), 0u);
  EXPECT_THAT(model->warnings(), ElementsAre(quantized));
}

TEST_F(WeightCacheTest, DoesWithoutAFolderThatCannotBeWritten) {
  std::string blocksWithout = expected();
  folder.write("plain", "no folder");
  bind("plain");
  EXPECT_EQ(blocks(), blocksWithout);
  EXPECT_THAT(
      model->warnings(),
      ElementsAre(quantized, HasSubstr("the cache of weights is not used: " +
                                       folder.path("plain"))));
}

// Like a disk that is full.
TEST_F(WeightCacheTest, LeavesNothingHalfWritten) {
  std::string blocksWithout = expected();
  rlimit before;
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  auto handler = signal(SIGXFSZ, SIG_IGN);
  rlimit small = {8192, before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
  bind();
  setrlimit(RLIMIT_FSIZE, &before);
  signal(SIGXFSZ, handler);
  EXPECT_EQ(blocks(), blocksWithout);
  EXPECT_THAT(model->warnings(),
              ElementsAre(quantized, HasSubstr("cannot write")));
  EXPECT_THAT(files(), IsEmpty());
}

TEST_F(WeightCacheTest, KeepsNothingWithMergedAdapters) {
  folder.write("adapter_config.json",
               R"({"peft_type": "LORA", "r": 1, "lora_alpha": 1})");
  folder.write("adapter_model.safetensors",
               safetensorsOf({{"base_model.model.matrix.lora_A.weight",
                               "F32",
                               {1, 288},
                               bytesOf(std::vector<float>(288, 1))},
                              {"base_model.model.matrix.lora_B.weight",
                               "F32",
                               {41, 1},
                               bytesOf(std::vector<float>(41, 1))}}));
  loras = {{folder.path(), 1}};
  bind();
  EXPECT_THAT(model->warnings(),
              ElementsAre(quantized, "the cache of weights is not used: "
                                     "adapters are merged into them"));
  EXPECT_THAT(files(), IsEmpty());
}

TEST_F(WeightCacheTest, IsNotUsedWhereNothingIsQuantized) {
  use("f32");
  bind();
  EXPECT_THAT(files(), IsEmpty());
}
