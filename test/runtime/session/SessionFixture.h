/// Sessions of the fake model.
#pragma once

#include "runtime/session/Session.h"
#include "test/runtime/Fixtures.h"

#include <gtest/gtest.h>

namespace cria::test {

class SessionTest : public testing::Test {
protected:
  void SetUp() override { use("x.cria", fakeManifest()); }

  /// Binds weights that are all used where they lie, whatever the header's
  /// length makes of their alignment.
  void use(const std::string &name, const nlohmann::json &manifest) {
    auto artifact = Artifact::open(folder.write(name, artifactOf(manifest)));
    ASSERT_TRUE(artifact.ok()) << artifact.status().message();
    model = nullptr;
    for (size_t padding = 0; !model || model->copiedBytes(); ++padding) {
      folder.write("model.safetensors", safetensorsOf(fakeTensors(), padding));
      auto bound = Model::bind(*artifact, folder.path());
      ASSERT_TRUE(bound.ok()) << bound.status().message();
      model = *bound;
    }
  }
  std::unique_ptr<Session> session(int threads = 2) {
    return std::move(*Session::create(model, threads));
  }
  /// The logits of the last of the first `count` ids.
  std::vector<float> lastOf(int64_t count, float frequency = 1) const {
    auto all = fakeLogits({ids.begin(), ids.begin() + count}, frequency);
    return {all.end() - 5, all.end()};
  }
  /// Another frequency in texts of more than 5 ids, all of it.
  void useRecomputedRope() {
    nlohmann::json manifest = fakeManifest();
    manifest["rope"][0].update(
        {{"original", 5}, {"long_inv_freq", {2.0}}, {"recompute", true}});
    use("recomputed.cria", manifest);
  }

  TemporaryFolder folder;
  std::shared_ptr<const Model> model;
  std::vector<int32_t> ids = {1, 0, 4, 2, 3, 3, 1, 0, 2};
};

} // namespace cria::test
