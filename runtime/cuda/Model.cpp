#include "runtime/cuda/Model.h"

#include "runtime/RopeTables.h"
#include "runtime/cuda/Session.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>

namespace cria::cuda {

/// Where the runtime puts tensors: every vector load is aligned.
static constexpr uint64_t alignment = 256;

/// Seconds a step may take: CRIA_CUDA_TIMEOUT, else a time beyond that of any
/// step. What is emulated takes thousands of times as long.
static double patience(DeviceKind kind) {
  if (const char *seconds = getenv("CRIA_CUDA_TIMEOUT"))
    if (double value = atof(seconds); value > 0)
      return value;
  return kind == DeviceKind::Emulated ? 3600 : 30;
}

Result<std::unique_ptr<Model>>
Model::open(std::shared_ptr<const Artifact> artifact,
            const DeviceOptions &options) {
  std::unique_ptr<Model> model(new Model(std::move(artifact)));
  if (!model->manifest().cuda)
    return Status(CRIA_FAILED_PRECONDITION,
                  model->artifact->path() +
                      ": has no code for CUDA; compile it with --target=cuda");
  auto driver = Driver::open(options.kind);
  if (!driver.ok())
    return driver.status();
  bool fenced = options.kind == DeviceKind::Emulated;
  auto context = Context::create(*driver, fenced, patience(options.kind));
  if (!context.ok())
    return context.status();
  model->owner = *context;
  Current current(*model->owner);
  if (!current.status().ok())
    return current.status();
  auto code =
      Code::load(model->owner, *model->artifact, options.cache, model->lines);
  if (!code.ok())
    return code.status();
  model->loaded = std::move(*code);
  return model;
}

std::string Model::device() const {
  return owner->deviceName() + ", sm_" + std::to_string(owner->chip()) +
         ", CUDA driver " + owner->library().versionText() + "; " +
         loaded->description();
}

/// Device memory for every slot: one stretch, or one for each slot where the
/// driver checks bounds.
Status Model::allocate(const std::vector<Binding::Alias> &aliases) {
  std::vector<uint64_t> sizes(manifest().slots);
  for (const WeightSpec &weight : manifest().weights)
    for (uint64_t i = 0; i < weight.tensors(); ++i)
      sizes[weight.slot + i] = weight.bytes();
  for (const RopeSpec &rope : manifest().ropes)
    sizes[rope.slot] = sizes[rope.slot + 1] = rope.bytes();
  for (const Binding::Alias &alias : aliases)
    sizes[alias.slot] = 0;
  addresses.resize(sizes.size());
  uint64_t total = 0;
  for (size_t slot = 0; slot < sizes.size(); ++slot) {
    addresses[slot] = total; // of one stretch; from its begin so far
    total += (sizes[slot] + alignment - 1) / alignment * alignment;
  }
  if (!owner->isFenced())
    sizes = {total};
  for (size_t i = 0; i < sizes.size(); ++i) {
    if (sizes[i] == 0)
      continue;
    auto allocated = allocateDevice(owner, sizes[i], "weights");
    if (!allocated.ok())
      return allocated.status();
    if (owner->isFenced())
      addresses[i] = allocated->get();
    else
      for (CUdeviceptr &address : addresses)
        address += allocated->get();
    memory.push_back(std::move(*allocated));
  }
  for (const Binding::Alias &alias : aliases)
    addresses[alias.slot] = addresses[alias.of];
  return Status();
}

/// Adds the two tables of each rope.
void Model::addRopes(std::vector<Upload> &uploads) const {
  for (const RopeSpec &rope : manifest().ropes) {
    auto tables = std::make_shared<std::vector<float>>(rope.bytes() / 2);
    size_t half = rope.bytes() / sizeof(float);
    fillRope(rope, tables->data(), tables->data() + half);
    for (uint64_t i = 0; i < 2; ++i)
      uploads.push_back({slot(rope.slot + i), rope.bytes(),
                         [tables, first = i * half](
                             std::byte *to, uint64_t begin, uint64_t end) {
                           auto *from = reinterpret_cast<const std::byte *>(
                               tables->data() + first);
                           memcpy(to, from + begin, end - begin);
                           return Status();
                         }});
  }
}

/// Adds a weight, whose elements `fill` writes.
void Model::addWeight(WeightFill fill, std::vector<Upload> &uploads) const {
  DType type = fill.weight->type;
  uploads.push_back({slot(fill.slot), fill.weight->bytes(),
                     [type, write = std::move(fill.write)](
                         std::byte *to, uint64_t begin, uint64_t end) {
                       return write(to, elementsOf(type, begin),
                                    elementsOf(type, end));
                     },
                     bytesOf(type, mostBlockElements)});
}

Status Model::bind(const WeightSource &source) {
  Current current(*owner);
  if (!current.status().ok())
    return current.status();
  auto loader = WeightLoader::open(source, manifest());
  if (!loader.ok())
    return loader.status();
  const Binding &binding = (*loader)->binding();
  Status status = allocate(binding.aliases);
  if (!status.ok())
    return status;
  std::vector<Upload> uploads;
  addRopes(uploads);
  for (WeightFill &fill : (*loader)->fills(/*mapped=*/false))
    addWeight(std::move(fill), uploads);
  copied = binding.mappedBytes + binding.copiedBytes;
  lines.insert(lines.end(), binding.warnings.begin(), binding.warnings.end());
  return upload(owner, uploads, source.progress);
}

Result<std::unique_ptr<Backend>> Model::newBackend(int) const {
  return Session::create(*this);
}

} // namespace cria::cuda
