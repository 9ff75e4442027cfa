/// Shared by the tests of the CUDA runtime: the fake model of
/// test/runtime/Fixtures.h with code in PTX written by hand, and the emulated
/// driver to run it.
#pragma once

#include "runtime/session/Model.h"
#include "runtime/session/Session.h"
#include "test/runtime/Fixtures.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace cria::test {

/// Sets variables of the environment, and puts them back when it goes.
class Environment {
public:
  Environment() = default;
  Environment(const Environment &) = delete;
  Environment &operator=(const Environment &) = delete;
  ~Environment();

  void set(const std::string &name, const std::string &value);

private:
  std::vector<std::pair<std::string, std::optional<std::string>>> before;
};

/// The fake model with code for CUDA as well; its cache has two layers, which
/// hold the same.
nlohmann::json cudaManifest();

/// The PTX of the fake model.
std::string cudaPtx();

/// C++ source of the symbol `name` with `bytes`, packed as images are.
std::string imageSource(const std::string &name, const std::string &bytes);

/// An artifact of `manifest`, which has code for the CPU as well and whose
/// images are all `ptx`.
std::string cudaArtifactOf(const nlohmann::json &manifest,
                           const std::string &ptx = cudaPtx());

/// A folder with the fake checkpoint, and models of it on the emulated driver.
class CudaTest : public testing::Test {
protected:
  void SetUp() override;
  /// Nothing more is left on the device than there was.
  void TearDown() override;

  /// Writes and opens an artifact.
  Result<std::shared_ptr<const Artifact>>
  open(const nlohmann::json &manifest = cudaManifest(),
       const std::string &ptx = cudaPtx());
  /// Binds the fake checkpoint to `artifact`.
  Result<std::shared_ptr<const Model>>
  bind(DeviceKind kind = DeviceKind::Emulated);
  /// What the emulated driver does wrong from now on: see docs/emulator.md.
  /// Calls are counted from here; but cuInit was called once already.
  void inject(const std::string &faults);
  /// That a model loads and computes.
  void expectWorks();

  TemporaryFolder folder;
  Environment environment;
  std::shared_ptr<const Artifact> artifact;
  bool leaks = false; // after a kernel that hangs, on purpose
  std::vector<int32_t> ids = {1, 0, 4, 2, 3, 3, 1, 0, 2};

private:
  uint64_t usedBytes();

  uint64_t usedBefore = 0;
};

} // namespace cria::test
