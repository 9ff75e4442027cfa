#include "runtime/cuda/Model.h"

#include "runtime/Binding.h"
#include "runtime/RandomWeights.h"
#include "runtime/ReadWeight.h"
#include "runtime/RopeTables.h"
#include "runtime/WeightCache.h"
#include "runtime/cuda/Session.h"
#include "runtime/cuda/Upload.h"

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

/// Collects what is to be uploaded.
class Model::Uploads {
public:
  Uploads(const Model &model, const Loras &loras)
      : model(model), loras(loras) {}

  void addRopes();
  void addAdapters();
  void addRandom(uint64_t seed);
  void addCheckpoint(const Checkpoint &checkpoint, const Binding &binding,
                     const WeightCache *cache);
  template <typename Fill>
  void add(const WeightSpec &weight, uint64_t slot, Fill fill);

  std::vector<Upload> all;

private:
  const Model &model;
  const Loras &loras;
};

void Model::Uploads::addRopes() {
  for (const RopeSpec &rope : model.manifest().ropes) {
    auto tables = std::make_shared<std::vector<float>>(rope.bytes() / 2);
    size_t half = rope.bytes() / sizeof(float);
    fillRope(rope, tables->data(), tables->data() + half);
    for (uint64_t i = 0; i < 2; ++i)
      all.push_back({model.slot(rope.slot + i), rope.bytes(),
                     [tables, first = i * half](std::byte *to, uint64_t begin,
                                                uint64_t end) {
                       auto *from = reinterpret_cast<const std::byte *>(
                           tables->data() + first);
                       memcpy(to, from + begin, end - begin);
                       return Status();
                     }});
  }
}

/// Has `fill` write elements [begin, end) of a slot, whole blocks.
template <typename Fill>
void Model::Uploads::add(const WeightSpec &weight, uint64_t slot, Fill fill) {
  all.push_back(
      {model.slot(slot), weight.bytes(),
       [type = weight.type, fill](std::byte *to, uint64_t begin, uint64_t end) {
         return fill(to, elementsOf(type, begin), elementsOf(type, end));
       },
       bytesOf(weight.type, mostBlockElements)});
}

void Model::Uploads::addAdapters() {
  for (const WeightSpec &weight : model.manifest().weights)
    for (uint64_t i = 0; i < weight.tensors() && weight.adapter; ++i)
      add(weight, weight.slot + i,
          [&weight, update = loras.kept(weight, i)](
              std::byte *to, uint64_t begin, uint64_t end) {
            fillAdapter(weight, update, to, begin, end);
            return Status();
          });
}

void Model::Uploads::addRandom(uint64_t seed) {
  for (const RandomSource &source : randomSources(model.manifest(), loras))
    add(*source.weight, source.slot,
        [source, seed](std::byte *to, uint64_t begin, uint64_t end) {
          fillRandom(to, source, seed, begin, end);
          return Status();
        });
}

void Model::Uploads::addCheckpoint(const Checkpoint &checkpoint,
                                   const Binding &binding,
                                   const WeightCache *cache) {
  for (const Binding::Source &source : binding.sources) {
    auto kept = cache ? cache->find(source.slot) : std::nullopt;
    add(*source.weight, source.slot,
        [&checkpoint, &source, cache, kept](std::byte *to, uint64_t begin,
                                            uint64_t end) {
          if (!kept)
            return readWeight(checkpoint, source, to, begin, end);
          DType type = source.weight->type;
          return cache->file().read(*kept + bytesOf(type, begin), to,
                                    bytesOf(type, end - begin));
        });
  }
}

Status Model::bind(const WeightSource &source) {
  Current current(*owner);
  if (!current.status().ok())
    return current.status();
  Result<Loras> loras = Loras::open(source, manifest());
  if (!loras.ok())
    return loras.status();
  std::optional<Checkpoint> checkpoint;
  Binding binding;
  if (source.checkpoint) {
    Result<Checkpoint> opened = Checkpoint::open(*source.checkpoint);
    if (!opened.ok())
      return opened.status();
    checkpoint.emplace(std::move(*opened));
    binding = matchWeights(manifest(), *checkpoint, *loras, source.allowUnused);
    Status fits = binding.status(*source.checkpoint);
    if (fits.ok())
      fits = shareTied(manifest(), *checkpoint, *loras, binding);
    if (fits.ok())
      fits = loadPacked(*checkpoint, binding);
    if (!fits.ok())
      return fits;
  } else {
    binding.aliases = sharedSlots(manifest());
  }
  Status status = loras->read();
  if (status.ok())
    status = allocate(binding.aliases);
  if (!status.ok())
    return status;
  Uploads uploads(*this, *loras);
  uploads.addRopes();
  uploads.addAdapters();
  std::optional<WeightCache> cache;
  if (checkpoint) {
    cache =
        WeightCache::open(source.cache, *checkpoint, binding, source.progress);
    uploads.addCheckpoint(*checkpoint, binding, cache ? &*cache : nullptr);
  } else
    uploads.addRandom(source.seed);
  copied = checkpoint ? binding.mappedBytes + binding.copiedBytes
                      : manifest().weightBytes();
  lines.insert(lines.end(), binding.warnings.begin(), binding.warnings.end());
  return upload(owner, uploads.all, source.progress);
}

Result<std::unique_ptr<Backend>> Model::newBackend(int) const {
  return Session::create(*this);
}

} // namespace cria::cuda
