#include "runtime/Checkpoint.h"

#include "test/runtime/Fixtures.h"

#include <gtest/gtest.h>

using namespace cria;
using namespace cria::test;

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
  /// What opening the folder says when the index is `map`.
  Status openMapped() {
    folder.write(indexName, nlohmann::json{{"weight_map", map}}.dump());
    return Checkpoint::open(folder.path()).status();
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
}

TEST_F(CheckpointTest, FindsTensorsInShards) {
  writeShards();
  EXPECT_TRUE(openMapped().ok());
  auto checkpoint = Checkpoint::open(folder.path());
  ASSERT_TRUE(checkpoint.ok());
  EXPECT_EQ(checkpoint->files().size(), 2u);
  EXPECT_NE(checkpoint->find("embed.weight")->file,
            checkpoint->find("layers.0.norm.weight")->file);
}

TEST_F(CheckpointTest, RejectsAMissingShard) {
  writeShards();
  map["other"] = "c.safetensors";
  EXPECT_THAT(openMapped(),
              fails(CRIA_NOT_FOUND, "c.safetensors: cannot open"));
}

TEST_F(CheckpointTest, RejectsATensorInTwoShards) {
  writeShards();
  folder.write("a.safetensors", safetensorsOf(fakeTensors()));
  EXPECT_THAT(openMapped(), fails(CRIA_INVALID_ARGUMENT, "is also in"));
}

TEST_F(CheckpointTest, RejectsATensorThatIsNotInItsShard) {
  writeShards();
  map["embed.weight"] = "b.safetensors";
  EXPECT_THAT(openMapped(),
              fails(CRIA_INVALID_ARGUMENT, "tensor 'embed.weight' is not in"));
  map["embed.weight"] = "a.safetensors";
  map["ghost"] = "a.safetensors";
  EXPECT_THAT(openMapped(),
              fails(CRIA_INVALID_ARGUMENT, "tensor 'ghost' is not in"));
}

TEST_F(CheckpointTest, RejectsATensorThatTheIndexLacks) {
  writeShards();
  map.erase("layers.1.norm.weight");
  EXPECT_THAT(openMapped(),
              fails(CRIA_INVALID_ARGUMENT,
                    "b.safetensors: tensor 'layers.1.norm.weight' is not in "));
}

TEST_F(CheckpointTest, RejectsShardNamesThatLeaveTheFolder) {
  for (const char *name :
       {"../a.safetensors", "/etc/passwd", "..", "", "x/y"}) {
    map = {{"embed.weight", name}};
    EXPECT_THAT(openMapped(),
                fails(CRIA_INVALID_ARGUMENT, "'weight_map.embed.weight' is '"));
  }
  map = {{"embed.weight", 3}};
  EXPECT_THAT(openMapped(), fails(CRIA_INVALID_ARGUMENT, "expected a string"));
  map = nlohmann::json::array();
  EXPECT_THAT(openMapped(), fails(CRIA_INVALID_ARGUMENT, "expected an object"));
}
