/// Checkpoints with a matrix that is stored in fewer bits.
#pragma once

#include "runtime/session/Model.h"
#include "test/runtime/Fixtures.h"

#include <cstring>
#include <gtest/gtest.h>

namespace cria::test {

inline constexpr uint64_t rows = 130, columns = 160;

/// The fake model with a matrix of (130, 160), "m.weight", in slot 5.
class PackedTest : public testing::Test {
protected:
  void SetUp() override { use("f32"); }

  void use(const char *type) {
    open(withMatrix(fakeManifest(), "m", rows, columns, type));
  }
  void open(const nlohmann::json &manifest) {
    auto opened = Artifact::open(folder.write("a.cria", artifactOf(manifest)));
    ASSERT_TRUE(opened.ok()) << opened.status().message();
    artifact = *opened;
  }
  /// Gives the checkpoint a config.json with this quantization_config.
  void configure(const nlohmann::json &quantization) {
    folder.write("config.json",
                 nlohmann::json{{"quantization_config", quantization}}.dump());
  }
  /// Binds a checkpoint of the fake model's tensors and `packed`.
  Status bind(const std::vector<TestTensor> &packed) {
    std::vector<TestTensor> tensors = fakeTensors();
    tensors.insert(tensors.end(), packed.begin(), packed.end());
    folder.write("model.safetensors", safetensorsOf(tensors));
    auto bound = Model::bind(artifact, folder.path());
    if (bound.ok())
      model = *bound;
    return bound.status();
  }
  std::vector<float> matrix(uint64_t count = rows * columns) const {
    std::vector<float> values(count);
    memcpy(values.data(), model->slots()[5], count * sizeof(float));
    return values;
  }

  TemporaryFolder folder;
  std::shared_ptr<const Artifact> artifact;
  std::shared_ptr<const Model> model;
};

} // namespace cria::test
