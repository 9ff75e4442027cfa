#include "runtime/weights/Checkpoint.h"

#include "test/runtime/Fixtures.h"

#include <gtest/gtest.h>

using namespace cria;
using namespace cria::test;
using testing::ElementsAre;

static constexpr char indexName[] = "model.safetensors.index.json";

namespace {

class CheckpointTest : public testing::Test {
protected:
  /// Writes the fake tensors in two shards, and an index that maps them so.
  void writeShards() {
    std::vector<TestTensor> all = fakeTensors();
    folder.write("a.safetensors", safetensorsOf({all[0]}));
    folder.write("b.safetensors", safetensorsOf({all[1], all[2]}));
    map = {{all[0].name, "a.safetensors"},
           {all[1].name, "b.safetensors"},
           {all[2].name, "b.safetensors"}};
  }
  /// Opens the folder when the index is `map`.
  Result<Checkpoint> openMapped() {
    folder.write(indexName, nlohmann::json{{"weight_map", map}}.dump());
    return Checkpoint::open(folder.path());
  }

  TemporaryFolder folder;
  nlohmann::json map;
};

} // namespace

TEST_F(CheckpointTest, OpensOneFileOrItsFolder) {
  std::string path =
      folder.write("model.safetensors", safetensorsOf(fakeTensors()));
  for (const std::string &place : {path, folder.path()}) {
    auto checkpoint = Checkpoint::open(place);
    ASSERT_TRUE(checkpoint.ok()) << checkpoint.status().message();
    EXPECT_EQ(checkpoint->tensors().size(), 3u);
    ASSERT_NE(checkpoint->find("embed.weight"), nullptr);
    EXPECT_EQ(checkpoint->find("embed.bias"), nullptr);
  }
}

TEST_F(CheckpointTest, SaysWhatAFolderLacks) {
  EXPECT_THAT(Checkpoint::open(folder.path("no")).status(),
              fails(CRIA_NOT_FOUND, "no such file or folder"));
  EXPECT_THAT(Checkpoint::open(folder.path()).status(),
              fails(CRIA_NOT_FOUND, "has neither model.safetensors nor"));
  EXPECT_THAT(Checkpoint::open("meta-llama/Llama-3.2-1B").status(),
              fails(CRIA_NOT_FOUND, "hf download"));
  folder.write("pytorch_model.bin", "PK");
  EXPECT_THAT(Checkpoint::open(folder.path()).status(),
              fails(CRIA_NOT_FOUND,
                    "has pytorch_model.bin, expected model.safetensors"));
}

TEST_F(CheckpointTest, FindsTensorsInShards) {
  writeShards();
  auto checkpoint = openMapped();
  ASSERT_TRUE(checkpoint.ok());
  EXPECT_EQ(checkpoint->files().size(), 2u);
  EXPECT_NE(checkpoint->find("embed.weight")->file,
            checkpoint->find("layers.0.norm.weight")->file);
}

TEST_F(CheckpointTest, RejectsAMissingShard) {
  writeShards();
  map["other"] = "c.safetensors";
  EXPECT_THAT(openMapped().status(),
              fails(CRIA_NOT_FOUND, "c.safetensors: cannot open"));
}

// The first shard has all tensors; the index names only one of them there.
TEST_F(CheckpointTest, TakesATensorFromTheShardThatTheIndexNames) {
  writeShards();
  folder.write("a.safetensors", safetensorsOf(fakeTensors()));
  auto checkpoint = openMapped();
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.status().message();
  EXPECT_EQ(checkpoint->find("embed.weight")->file, 0u);
  EXPECT_EQ(checkpoint->find("layers.0.norm.weight")->file, 1u);
  EXPECT_THAT(
      checkpoint->warnings(),
      ElementsAre("several shards have 'layers.0.norm.weight'; "
                  "'layers.1.norm.weight'; each is read from the shard that "
                  "the index names"));
  map["layers.1.norm.weight"] = "a.safetensors";
  checkpoint = openMapped();
  EXPECT_EQ(checkpoint->find("layers.1.norm.weight")->file, 0u);
  // As in transformers, the last shard's where the index names none.
  map.erase("layers.1.norm.weight");
  checkpoint = openMapped();
  EXPECT_EQ(checkpoint->find("layers.1.norm.weight")->file, 1u);
}

TEST_F(CheckpointTest, FindsWhatTheIndexListsElsewhereOrNotAtAll) {
  writeShards();
  map["embed.weight"] = "b.safetensors";
  map["layers.0.norm.weight"] = "a.safetensors";
  map.erase("layers.1.norm.weight");
  map["ghost"] = "a.safetensors";
  auto checkpoint = openMapped();
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.status().message();
  EXPECT_EQ(checkpoint->tensors().size(), 3u);
  EXPECT_EQ(checkpoint->find("ghost"), nullptr);
  EXPECT_THAT(checkpoint->warnings(),
              ElementsAre("no shard has 'ghost', which the index lists"));
}

// With an escape, an index is read as a document.
TEST_F(CheckpointTest, ReadsPlainIndexesLikeAllOthers) {
  writeShards();
  map["gho\"st"] = "a.safetensors";
  auto checkpoint = openMapped();
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.status().message();
  EXPECT_EQ(checkpoint->tensors().size(), 3u);
  EXPECT_THAT(checkpoint->warnings(),
              ElementsAre("no shard has 'gho\"st', which the index lists"));
  map["gho\"st"] = "../a.safetensors";
  Status escaped = openMapped().status();
  map.erase("gho\"st");
  map["ghost"] = "../a.safetensors";
  for (const Status &status : {escaped, openMapped().status()})
    EXPECT_THAT(status, fails(CRIA_INVALID_ARGUMENT,
                              "is '../a.safetensors', expected the name of a "
                              "file in the index's folder"));
}

TEST_F(CheckpointTest, FindsTensorsOfBaseModels) {
  std::string path = folder.write(
      "b.safetensors", safetensorsOf({{"norm.weight", "F32", {0}, ""},
                                      {"model.head.weight", "F32", {0}, ""}}));
  auto checkpoint = Checkpoint::open(path);
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.status().message();
  EXPECT_NE(checkpoint->find("model.norm.weight"), nullptr);
  EXPECT_NE(checkpoint->find("head.weight"), nullptr);
  EXPECT_EQ(checkpoint->find("model.model.norm.weight"), nullptr);
}

TEST_F(CheckpointTest, RejectsShardNamesThatLeaveTheFolder) {
  for (const char *name :
       {"../a.safetensors", "/etc/passwd", "..", "", "x/y"}) {
    map = {{"embed.weight", name}};
    EXPECT_THAT(openMapped().status(),
                fails(CRIA_INVALID_ARGUMENT, "'weight_map.embed.weight' is '"));
  }
  map = {{"embed.weight", 3}};
  EXPECT_THAT(openMapped().status(),
              fails(CRIA_INVALID_ARGUMENT, "expected a string"));
  map = nlohmann::json::array();
  EXPECT_THAT(openMapped().status(),
              fails(CRIA_INVALID_ARGUMENT, "expected an object"));
}
