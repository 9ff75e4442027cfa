/// The code of an artifact on a device: the best of its images, and the kernels
/// in it, checked against what the device can launch.
#pragma once

#include "runtime/artifact/Artifact.h"
#include "runtime/artifact/CudaPlan.h"
#include "runtime/cuda/Context.h"
#include "runtime/cuda/Jit.h"

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

/// What the environment chooses, to compare images and features.
struct Choice {
  /// CRIA_CUDA_IMAGE, such as "sm_90", "sm_90.ptx" or "sm_90.cubin": no other
  /// image is used. "": the best one.
  std::string image;
  /// CRIA_CUDA_WITHOUT, such as "graphs,overlap", turns these off.
  bool graphs = true;   // a decode step is replayed as a graph
  bool overlap = true;  // launches begin before the launch before has ended
  bool carveout = true; // kernels ask for all shared memory
  bool ahead = true;    // a step is launched before the one before has ended

  /// INVALID_ARGUMENT for an unknown word.
  static Result<Choice> read();
  bool allows(const Image &image) const;
};

/// What a kernel takes of a multiprocessor, as the driver says.
struct KernelResources {
  std::string kernel;
  int registers, localBytes, sharedBytes; // of a thread, a thread, a block
};

/// Makes what the device knows the tensor at `address` by. `kernel` stands for
/// it in errors.
Status encode(Context &context, const TensorMap &map, CUdeviceptr address,
              const std::string &kernel, CUtensorMap &encoded);

/// A loaded module. Immutable; share it between threads.
class Code {
public:
  /// Loads the best image of `artifact` into the current context. An image
  /// gives way to the next best one, with a line of `warnings`, if the driver
  /// does not load it, or the device cannot launch its kernels, or the driver
  /// refuses one of its tensor maps. Other warnings say that the driver's
  /// compiler made slow code.
  static Result<std::unique_ptr<const Code>>
  load(const std::shared_ptr<Context> &context, const Artifact &artifact,
       std::vector<std::string> &warnings);

  /// The kernel called `name`, one that the artifact launches.
  CUfunction kernel(const std::string &name) const { return kernels.at(name); }
  /// Whether kernels wait for the launch before, so may begin earlier.
  bool mayOverlap() const {
    return image.dependent && choice.overlap && context->library().hasOverlap();
  }
  bool usesGraphs() const {
    return choice.graphs && context->library().hasGraphs();
  }
  bool looksAhead() const { return choice.ahead; }
  /// Whether a launch is for the image that is loaded.
  bool runs(const LaunchStep &launch) const { return launch.isFor(image); }
  /// "sm_80 PTX, loaded in 0.3 s".
  std::string description() const;
  /// The image that is loaded, the seconds that it took, and what the driver's
  /// compiler said.
  const Image &loaded() const { return image; }
  double seconds() const { return module.seconds; }
  const std::string &compilerLog() const { return module.log; }
  /// Of each kernel that the artifact launches, by name.
  Result<std::vector<KernelResources>> resources() const;

private:
  Code(const std::shared_ptr<Context> &context, const Artifact &artifact,
       const Image &image, const Choice &choice)
      : context(context), path(artifact.path()), image(image), choice(choice) {}
  Status load(const Artifact &artifact, const std::string &bytes);
  Status findKernels(const Entry &entry, int64_t chunk, DeviceMemory &standIn);
  Status findKernel(const std::string &name);
  Status attribute(const std::string &kernel, CUfunction_attribute which,
                   int &value) const;
  Status checkLaunch(const LaunchStep &launch, int64_t chunk) const;
  Status permitShared(const LaunchStep &launch);
  Status checkMaps(const LaunchStep &launch, DeviceMemory &standIn) const;

  std::shared_ptr<Context> context;
  std::string path; // of the artifact
  Image image;      // the one that is loaded
  Choice choice;
  Loaded module = {};
  std::map<std::string, CUfunction> kernels;
  std::map<std::string, uint32_t> shared; // dynamic bytes permitted so far
};

} // namespace cria::cuda
