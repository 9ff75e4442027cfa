/// The code of an artifact on a device: the best of its images, and the kernels
/// in it, checked against what the device can launch.
#pragma once

#include "runtime/Artifact.h"
#include "runtime/cuda/Context.h"

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace cria::cuda {

/// Whether `image` runs on sm_`device`. PTX also runs on later chips, a cubin
/// on later chips of the same generation. Code for a chip whose name ends in a
/// letter runs only on that chip.
bool runsOn(const Image &image, int device);

/// The CUDA version whose drivers take PTX with the ".version" of `ptx`: 12000
/// for 8.0. 0 if `ptx` has no version.
int driverForPtx(std::string_view ptx);

/// A loaded module. Immutable; share it between threads.
class Code {
public:
  /// Loads the best image of `artifact` into the current context; see
  /// loadModule. A cubin that the driver does not load gives way to the next
  /// best image, with a line of `warnings`.
  static Result<std::unique_ptr<const Code>>
  load(std::shared_ptr<Context> context, const Artifact &artifact, bool cache,
       std::vector<std::string> &warnings);

  /// The kernel called `name`, one that the artifact launches.
  CUfunction kernel(const std::string &name) const { return kernels.at(name); }
  /// Whether kernels wait for the launch before, so may begin earlier.
  bool isDependent() const { return image.dependent; }
  /// Whether a launch is for the image that is loaded.
  bool runs(const LaunchStep &launch) const { return launch.isFor(image); }
  /// "sm_80 PTX, compiled in 0.3 s".
  const std::string &description() const { return text; }

private:
  explicit Code(std::shared_ptr<Context> context)
      : context(std::move(context)) {}
  Status loadImage(const Artifact &artifact, bool cache,
                   std::vector<std::string> &warnings);
  Result<std::vector<Image>> candidates(const Artifact &artifact) const;
  Status findKernels(const Entry &entry, int64_t chunk);
  Status findKernel(const std::string &name);
  Status checkLaunch(const LaunchStep &launch, int64_t chunk);
  Status permitShared(const LaunchStep &launch);

  std::shared_ptr<Context> context;
  std::string path; // of the artifact
  Image image;      // the one that is loaded
  Module module;
  std::map<std::string, CUfunction> kernels;
  std::map<std::string, uint32_t> shared; // dynamic bytes permitted so far
  std::string text;
};

} // namespace cria::cuda
