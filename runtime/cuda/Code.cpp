#include "runtime/cuda/Code.h"

#include "runtime/base/Environment.h"
#include "runtime/base/Json.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cstdio>
#include <tuple>

namespace cria::cuda {

/// The CUDA version that brought cuTensorMapEncodeTiled.
static constexpr int driverWithTensorMaps = 12000;

/// 90 for "sm_90a".
static int numberOf(const std::string &chip) {
  int number = 0;
  std::from_chars(chip.data() + 3, chip.data() + chip.size(), number);
  return number;
}

static bool isExact(const std::string &chip) {
  return !isdigit(static_cast<unsigned char>(chip.back()));
}

bool runsOn(const Image &image, int device) {
  int chip = numberOf(image.chip);
  if (isExact(image.chip))
    return chip == device;
  return chip <= device && (image.isPtx || chip / 10 == device / 10);
}

int driverForPtx(std::string_view ptx) {
  static constexpr std::string_view key = ".version";
  size_t at = ptx.find(key);
  if (at != std::string_view::npos)
    at = ptx.find_first_not_of(" \t", at + key.size());
  if (at == std::string_view::npos)
    return 0;
  int major = 0, minor = 0;
  const char *end = ptx.data() + ptx.size();
  auto [dot, error] = std::from_chars(ptx.data() + at, end, major);
  if (error != std::errc() || dot == end || *dot != '.')
    return 0;
  std::from_chars(dot + 1, end, minor);
  // PTX 7.x came with CUDA 11.x; 8.0 to 8.5 with 12.0 to 12.5, the rest of 8.x
  // one release later; 9.x with 13.x.
  if (major < 7)
    return 10000;
  return (major + 4) * 1000 + (minor + (major == 8 && minor > 5)) * 10;
}

Result<Choice> Choice::read() {
  Choice choice;
  choice.image = environment("CRIA_CUDA_IMAGE");
  std::string words = environment("CRIA_CUDA_WITHOUT");
  for (size_t at = 0; at < words.size();) {
    size_t end = std::min(words.find(',', at), words.size());
    std::string_view word = std::string_view(words).substr(at, end - at);
    at = end + 1;
    bool *feature = word == "graphs"     ? &choice.graphs
                    : word == "overlap"  ? &choice.overlap
                    : word == "carveout" ? &choice.carveout
                    : word == "ahead"    ? &choice.ahead
                                         : nullptr;
    if (!feature)
      return Status(CRIA_INVALID_ARGUMENT,
                    {"CRIA_CUDA_WITHOUT has ", quote(std::string(word)),
                     ", expected some of graphs,overlap,carveout,ahead"});
    *feature = false;
  }
  return choice;
}

static const char *formatOf(const Image &image) {
  return image.isPtx ? "PTX" : "cubin";
}

bool Choice::allows(const Image &candidate) const {
  const std::string &chip = candidate.chip;
  return image.empty() || image == chip ||
         image == chip + (candidate.isPtx ? ".ptx" : ".cubin");
}

namespace {
struct Candidate {
  const Image *image; // of the artifact
  std::string bytes;
};
} // namespace

/// The images that device and driver can use and that `choice` allows, the one
/// for the latest chip first and a cubin before PTX: at least one.
static Result<std::vector<Candidate>> candidates(const Context &context,
                                                 const Artifact &artifact,
                                                 const Choice &choice) {
  auto rank = [](const Image &image) {
    return std::make_tuple(numberOf(image.chip), isExact(image.chip),
                           !image.isPtx);
  };
  std::string chips;
  int device = context.chip(), needed = 0;
  std::vector<Candidate> found;
  for (const Image &image : artifact.manifest().cuda->images) {
    chips += (chips.empty() ? "" : ", ") + image.chip;
    if (!runsOn(image, device) || !choice.allows(image))
      continue;
    Result<std::string> bytes = artifact.image(image);
    if (!bytes.ok())
      return bytes.status();
    int driver = image.isPtx ? driverForPtx(*bytes) : 0;
    if (image.hasTensorMaps())
      driver = std::max(driver, driverWithTensorMaps);
    if (driver > context.library().version() ||
        (image.hasTensorMaps() && !context.library().hasTensorMaps())) {
      needed = driver;
      continue;
    }
    auto worse =
        std::find_if(found.begin(), found.end(), [&](const Candidate &each) {
          return rank(*each.image) < rank(image);
        });
    found.insert(worse, {&image, std::move(*bytes)});
  }
  if (!found.empty())
    return found;
  if (needed)
    return Status(CRIA_FAILED_PRECONDITION,
                  {artifact.path(), ": its code needs a driver for CUDA ",
                   needed / 1000, ".", needed % 1000 / 10,
                   ", this one supports ", context.library().versionText()});
  return Status(CRIA_INCOMPATIBLE,
                {artifact.path(), ": compiled for ", chips, "; ",
                 context.deviceName(), " is sm_", device,
                 choice.image.empty()
                     ? "; recompile"
                     : ", and CRIA_CUDA_IMAGE is " + quote(choice.image)});
}

Result<std::unique_ptr<const Code>>
Code::load(const std::shared_ptr<Context> &context, const Artifact &artifact,
           std::vector<std::string> &warnings) {
  Result<Choice> choice = Choice::read();
  if (!choice.ok())
    return choice.status();
  auto found = candidates(*context, artifact, *choice);
  if (!found.ok())
    return found.status();
  Status failure;
  for (const auto &[candidate, bytes] : *found) {
    const Image &image = *candidate;
    std::unique_ptr<Code> code(new Code(context, artifact, image, *choice));
    Status status = code->load(artifact, bytes);
    std::string name = concat({"the ", image.chip, " ", formatOf(image)});
    if (status.ok()) {
      for (const std::string &line : slowdownsOf(code->compilerLog()))
        warnings.push_back(
            concat({"the driver compiles ", name, " to slower code: ", line}));
      return std::unique_ptr<const Code>(std::move(code));
    }
    // Other code helps neither against a lack of memory nor a broken context.
    if (status.code() == CRIA_RESOURCE_EXHAUSTED || !context->usable().ok())
      return status;
    warnings.push_back(concat({name, " is not used: ", status.message()}));
    failure = failure.ok() ? status
                           : Status(failure.code(), {failure.message(), "; ",
                                                     status.message()});
  }
  if (failure.code() == CRIA_FAILED_PRECONDITION)
    failure = Status(failure.code(),
                     {failure.message(),
                      "; recompile the artifact, or install a newer driver"});
  return failure;
}

/// Loads the image and prepares all that it launches.
Status Code::load(const Artifact &artifact, const std::string &bytes) {
  Result<Loaded> loaded =
      loadModule(context, bytes, concat({image.chip, " code of ", path}));
  if (!loaded.ok())
    return loaded.status();
  module = std::move(*loaded);
  const Manifest &manifest = artifact.manifest();
  const Plan &plan = *manifest.cuda;
  int64_t rows = manifest.batch ? manifest.batch->rows : 0;
  DeviceMemory standIn;
  for (auto [entry, tokens] :
       {std::pair(&plan.prefill, manifest.chunk),
        std::pair(&plan.encode, manifest.chunk), std::pair(&plan.batch, rows),
        std::pair(&plan.decode, int64_t(1)),
        std::pair(&plan.sample, std::max(rows, int64_t(1)))})
    if (Status status = findKernels(*entry, tokens, standIn); !status.ok())
      return status;
  return Status();
}

std::string Code::description() const {
  char seconds[32];
  snprintf(seconds, sizeof(seconds), "%.1f s", module.seconds);
  return concat({image.chip, " ", formatOf(image), ", loaded in ", seconds});
}

Result<std::vector<KernelResources>> Code::resources() const {
  std::vector<KernelResources> all;
  for (const auto &[name, function] : kernels) {
    KernelResources &own = all.emplace_back(KernelResources{name, 0, 0, 0});
    for (auto [which, value] :
         {std::pair(CU_FUNC_ATTRIBUTE_NUM_REGS, &own.registers),
          std::pair(CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES, &own.localBytes),
          std::pair(CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES, &own.sharedBytes)})
      if (Status status = attribute(name, which, *value); !status.ok())
        return status;
  }
  return all;
}

Status Code::attribute(const std::string &kernel, CUfunction_attribute which,
                       int &value) const {
  return context->check(
      (*context)->cuFuncGetAttribute(&value, which, this->kernel(kernel)),
      "cuFuncGetAttribute", "asking about kernel " + quote(kernel));
}

/// Finds the kernels of `entry`, whose calls have `chunk` tokens at most.
Status Code::findKernels(const Entry &entry, int64_t chunk,
                         DeviceMemory &standIn) {
  for (const EntryStep &step : entry)
    for (const LaunchStep &launch : step.launches) {
      if (!runs(launch) || launch.isSum())
        continue;
      Status status = findKernel(launch.kernel);
      if (status.ok())
        status = checkLaunch(launch, chunk);
      if (status.ok())
        status = permitShared(launch);
      if (status.ok())
        status = checkMaps(launch, standIn);
      if (!status.ok())
        return status;
    }
  return Status();
}

Status Code::findKernel(const std::string &name) {
  if (kernels.count(name))
    return Status();
  CUfunction function = nullptr;
  CUresult result = (*context)->cuModuleGetFunction(
      &function, module.module.get(), name.c_str());
  if (result == CUDA_ERROR_NOT_FOUND)
    return Status(CRIA_INVALID_ARGUMENT,
                  {path, ": kernel ", quote(name), " is not in its ",
                   image.chip, " code"});
  Status status = context->check(result, "cuModuleGetFunction",
                                 "finding kernel " + quote(name));
  if (!status.ok())
    return status;
  kernels[name] = function;
  // A multiprocessor divides its memory between shared memory and the cache for
  // one kernel at a time: kernels that ask for another division do not overlap.
  // Without this hint the kernels run as well, so it may fail.
  static constexpr int allShared = 100; // percent
  CUresult hinted =
      choice.carveout
          ? (*context)->cuFuncSetAttribute(
                function, CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT,
                allShared)
          : CUDA_SUCCESS;
  return isSticky(hinted) ? context->check(hinted, "cuFuncSetAttribute",
                                           "preparing kernel " + quote(name))
                          : Status();
}

/// INCOMPATIBLE where the device cannot run so many threads or blocks.
Status Code::checkLaunch(const LaunchStep &launch, int64_t chunk) const {
  auto refuse = [&](const std::string &what, uint64_t wanted, int most) {
    return Status(CRIA_INCOMPATIBLE,
                  {path, ": kernel ", quote(launch.kernel), " has ", wanted,
                   " ", what, ", ", context->deviceName(), " runs ", most});
  };
  int threads = 0;
  Status status = attribute(launch.kernel,
                            CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, threads);
  if (!status.ok())
    return status;
  uint64_t wanted =
      uint64_t(1) * launch.block[0] * launch.block[1] * launch.block[2];
  if (wanted > static_cast<uint64_t>(threads))
    return refuse("threads a block", wanted, threads);
  static constexpr CUdevice_attribute limits[3] = {
      CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X, CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y,
      CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z};
  for (int i = 0; i < 3; ++i) {
    uint64_t blocks = launch.grid[i].at(chunk, chunk);
    int most = context->attribute(limits[i]);
    if (most > 0 && blocks > static_cast<uint64_t>(most))
      return refuse("blocks in a dimension of the grid", blocks, most);
  }
  return Status();
}

/// Permits a kernel the shared memory it is launched with: beyond 48 KiB a
/// device wants to be asked.
Status Code::permitShared(const LaunchStep &launch) {
  uint32_t &permitted = shared[launch.kernel];
  if (launch.shared <= permitted)
    return Status();
  int fixed = 0;
  Status status =
      attribute(launch.kernel, CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES, fixed);
  if (!status.ok())
    return status;
  int most =
      context->attribute(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN);
  uint64_t wanted = uint64_t(launch.shared) + static_cast<uint64_t>(fixed);
  if (most > 0 && wanted > static_cast<uint64_t>(most))
    return Status(CRIA_INCOMPATIBLE,
                  {path, ": kernel ", quote(launch.kernel), " needs ", wanted,
                   " bytes of shared memory, ", context->deviceName(), " has ",
                   most});
  permitted = launch.shared;
  return context->check((*context)->cuFuncSetAttribute(
                            kernel(launch.kernel),
                            CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
                            static_cast<int>(permitted)),
                        "cuFuncSetAttribute",
                        "preparing kernel " + quote(launch.kernel));
}

Status encode(Context &context, const TensorMap &map, CUdeviceptr address,
              const std::string &kernel, CUtensorMap &encoded) {
  std::vector<cuuint64_t> sizes(map.sizes.begin(), map.sizes.end()), strides;
  for (uint64_t stride : map.strides)
    strides.push_back(stride * map.elementBytes());
  std::vector<cuuint32_t> each(sizes.size(), 1);
  static constexpr CUtensorMapDataType types[] = {
      CU_TENSOR_MAP_DATA_TYPE_FLOAT16, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16,
      CU_TENSOR_MAP_DATA_TYPE_UINT8};
  return context.check(
      context->cuTensorMapEncodeTiled(
          &encoded, types[map.type], static_cast<cuuint32_t>(sizes.size()),
          reinterpret_cast<void *>(address), sizes.data(), strides.data(),
          map.box.data(), each.data(), CU_TENSOR_MAP_INTERLEAVE_NONE,
          map.type == TensorMap::Bytes ? CU_TENSOR_MAP_SWIZZLE_NONE
                                       : CU_TENSOR_MAP_SWIZZLE_128B,
          CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
          CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE),
      "cuTensorMapEncodeTiled", "preparing kernel " + quote(kernel));
}

/// Whether a driver takes a map depends on the sizes in it. So this finds out
/// while there is another image to take, before a session has the tensors.
/// `standIn` is memory in their place, allocated for the first map.
Status Code::checkMaps(const LaunchStep &launch, DeviceMemory &standIn) const {
  for (const Argument &argument : launch.arguments) {
    if (!argument.map)
      continue;
    if (!standIn) {
      auto allocated = allocateDevice(context, 1, "checking tensor maps");
      if (!allocated.ok())
        return allocated.status();
      standIn = std::move(*allocated);
    }
    CUtensorMap encoded;
    Status status =
        encode(*context, *argument.map, standIn.get(), launch.kernel, encoded);
    if (!status.ok())
      return status;
  }
  return Status();
}

} // namespace cria::cuda
