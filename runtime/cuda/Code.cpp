#include "runtime/cuda/Code.h"

#include "runtime/Json.h"
#include "runtime/cuda/Jit.h"

#include <algorithm>
#include <cctype>
#include <charconv>
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

Result<std::unique_ptr<const Code>>
Code::load(std::shared_ptr<Context> context, const Artifact &artifact,
           bool cache, std::vector<std::string> &warnings) {
  std::unique_ptr<Code> code(new Code(std::move(context)));
  code->path = artifact.path();
  Status status = code->loadImage(artifact, cache, warnings);
  if (!status.ok())
    return status;
  const Manifest &manifest = artifact.manifest();
  const Part &part = *manifest.cuda;
  int64_t rows = manifest.batch ? manifest.batch->rows : 0;
  for (auto [entry, tokens] :
       {std::pair(&part.prefill, manifest.chunk),
        std::pair(&part.encode, manifest.chunk), std::pair(&part.batch, rows),
        std::pair(&part.decode, int64_t(1)),
        std::pair(&part.sample, int64_t(1))})
    if (status = code->findKernels(*entry, tokens); !status.ok())
      return status;
  return std::unique_ptr<const Code>(std::move(code));
}

/// Loads the first of the usable images that the driver takes.
Status Code::loadImage(const Artifact &artifact, bool cache,
                       std::vector<std::string> &warnings) {
  Result<std::vector<Image>> images = candidates(artifact);
  if (!images.ok())
    return images.status();
  for (size_t i = 0;; ++i) {
    image = (*images)[i];
    Result<std::string_view> bytes = artifact.image(image);
    if (!bytes.ok())
      return bytes.status();
    Result<Loaded> loaded =
        loadModule(context, *bytes, image.isPtx,
                   concat({image.chip, " code of ", path}), cache, warnings);
    if (loaded.ok()) {
      module = std::move(loaded->module);
      text = image.chip + (image.isPtx ? " PTX, " : " cubin, ") + loaded->how;
      return Status();
    }
    // Drivers refuse machine code that is older or newer than they know. Other
    // code helps neither against a lack of memory nor a broken context.
    const Status &why = loaded.status();
    if (image.isPtx || i + 1 == images->size() ||
        why.code() == CRIA_RESOURCE_EXHAUSTED || !context->usable().ok())
      return why;
    warnings.push_back(concat(
        {"the cubin for ", image.chip, " is not used: ", why.message()}));
  }
}

/// The images that device and driver can use, the one for the latest chip first
/// and a cubin before PTX: at least one.
Result<std::vector<Image>> Code::candidates(const Artifact &artifact) const {
  auto rank = [](const Image &image) {
    return std::make_tuple(numberOf(image.chip), isExact(image.chip),
                           !image.isPtx);
  };
  std::string chips;
  int device = context->chip(), needed = 0;
  std::vector<Image> found;
  for (const Image &candidate : artifact.manifest().cuda->images) {
    chips += (chips.empty() ? "" : ", ") + candidate.chip;
    Result<std::string_view> data = artifact.image(candidate);
    if (!data.ok())
      return data.status();
    if (!runsOn(candidate, device))
      continue;
    int driver = candidate.isPtx ? driverForPtx(*data) : 0;
    if (candidate.wgmma)
      driver = std::max(driver, driverWithTensorMaps);
    if (driver > context->library().version() ||
        (candidate.wgmma && !context->library().hasTensorMaps()))
      needed = driver;
    else
      found.push_back(candidate);
  }
  std::stable_sort(
      found.begin(), found.end(),
      [&](const Image &a, const Image &b) { return rank(a) > rank(b); });
  if (!found.empty())
    return found;
  if (needed)
    return Status(CRIA_FAILED_PRECONDITION,
                  {path, ": its code needs a driver for CUDA ", needed / 1000,
                   ".", needed % 1000 / 10, ", this one supports ",
                   context->library().versionText()});
  return Status(CRIA_INCOMPATIBLE,
                {path, ": compiled for ", chips, "; ", context->deviceName(),
                 " is sm_", device, "; recompile"});
}

/// Finds the kernels of `entry`, whose calls have `chunk` tokens at most.
Status Code::findKernels(const Entry &entry, int64_t chunk) {
  for (const EntryStep &step : entry)
    for (const LaunchStep &launch : step.launches) {
      if (!runs(launch) || launch.isSum())
        continue;
      Status status = findKernel(launch.kernel);
      if (status.ok())
        status = checkLaunch(launch, chunk);
      if (status.ok())
        status = permitShared(launch);
      if (!status.ok())
        return status;
    }
  return Status();
}

Status Code::findKernel(const std::string &name) {
  if (kernels.count(name))
    return Status();
  CUfunction function = nullptr;
  CUresult result =
      (*context)->cuModuleGetFunction(&function, module.get(), name.c_str());
  if (result == CUDA_ERROR_NOT_FOUND)
    return Status(CRIA_INVALID_ARGUMENT,
                  {path, ": kernel ", quote(name), " is not in its ",
                   image.chip, " code"});
  Status status = context->check(result, "cuModuleGetFunction",
                                 "finding kernel " + quote(name));
  if (status.ok())
    kernels[name] = function;
  return status;
}

/// INCOMPATIBLE where the device cannot run so many threads or blocks.
Status Code::checkLaunch(const LaunchStep &launch, int64_t chunk) {
  auto refuse = [&](const std::string &what, uint64_t wanted, int most) {
    return Status(CRIA_INCOMPATIBLE,
                  {path, ": kernel ", quote(launch.kernel), " has ", wanted,
                   " ", what, ", ", context->deviceName(), " runs ", most});
  };
  int threads = 0;
  Status status = context->check(
      (*context)->cuFuncGetAttribute(&threads,
                                     CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK,
                                     kernel(launch.kernel)),
      "cuFuncGetAttribute", "asking about kernel " + quote(launch.kernel));
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
  CUfunction function = kernel(launch.kernel);
  Status status = context->check(
      (*context)->cuFuncGetAttribute(
          &fixed, CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES, function),
      "cuFuncGetAttribute", "asking about kernel " + quote(launch.kernel));
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
  return context->check(
      (*context)->cuFuncSetAttribute(
          function, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
          static_cast<int>(permitted)),
      "cuFuncSetAttribute", "preparing kernel " + quote(launch.kernel));
}

} // namespace cria::cuda
