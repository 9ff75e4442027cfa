#include "runtime/cuda/Model.h"

#include "runtime/base/Environment.h"
#include "runtime/cuda/Paged.h"
#include "runtime/cuda/Session.h"
#include "runtime/weights/RopeTables.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <numeric>

namespace cria::cuda {

/// Where the runtime puts tensors: every vector load is aligned.
static constexpr uint64_t alignment = 256;

/// Seconds a step may take: CRIA_CUDA_TIMEOUT, else a time beyond that of any
/// step. What is emulated takes thousands of times as long.
static double patience(DeviceKind kind) {
  double seconds = secondsOf("CRIA_CUDA_TIMEOUT", 0);
  return seconds > 0 ? seconds : kind == DeviceKind::Emulated ? 3600 : 30;
}

/// Opens a context on the chosen device. Without a choice, the ranks of a
/// machine take its devices in turn. NCCL refuses two ranks on one device.
Status Model::openContext(const DeviceOptions &options) {
  auto driver = Driver::open(options.kind);
  if (!driver.ok())
    return driver.status();
  std::optional<int> index = options.index;
  if (ranks && !index) {
    Result<int> count = (*driver)->deviceCount();
    if (!count.ok())
      return count.status();
    if (*count > 0)
      index = ranks->local % *count;
  }
  bool fenced = options.kind == DeviceKind::Emulated;
  auto context = Context::create(*driver, fenced, patience(options.kind), index,
                                 /*primary=*/ranks != nullptr);
  if (!context.ok())
    return context.status();
  owner = *context;
  return Status();
}

Result<std::unique_ptr<Model>>
Model::open(std::shared_ptr<const Artifact> artifact,
            const DeviceOptions &options) {
  std::unique_ptr<Model> model(new Model(std::move(artifact), options.ranks));
  if (!model->manifest().cuda)
    return Status(CRIA_FAILED_PRECONDITION,
                  model->artifact->path() +
                      ": has no code for CUDA; compile it with --target=cuda");
  if (Status status = model->openContext(options); !status.ok())
    return status;
  Current current(*model->owner);
  if (!current.status().ok())
    return current.status();
  auto code = Code::load(model->owner, *model->artifact, model->lines);
  if (!code.ok())
    return code.status();
  model->loaded = std::move(*code);
  return model;
}

std::string Model::device() const {
  return concat({owner->deviceName(), ", sm_", owner->chip(), ", CUDA driver ",
                 owner->library().versionText(), "; ", loaded->description()});
}

/// Device memory "for `purpose`" for slots of so many bytes: one stretch, or
/// one for each slot where the driver checks bounds. Slots of no bytes have
/// address 0.
static Status allocateSlots(const std::shared_ptr<Context> &owner,
                            const std::vector<uint64_t> &sizes,
                            const char *purpose,
                            std::vector<DeviceMemory> &memory,
                            std::vector<CUdeviceptr> &addresses) {
  auto add = [&](uint64_t bytes) -> Result<CUdeviceptr> {
    auto allocated = allocateDevice(owner, bytes, purpose);
    if (!allocated.ok())
      return allocated.status();
    memory.push_back(std::move(*allocated));
    return memory.back().get();
  };
  auto aligned = [](uint64_t bytes) {
    return (bytes + alignment - 1) / alignment * alignment;
  };
  Result<CUdeviceptr> next = CUdeviceptr{0};
  if (!owner->isFenced())
    next = add(std::accumulate(
        sizes.begin(), sizes.end(), uint64_t{0},
        [&](uint64_t sum, uint64_t bytes) { return sum + aligned(bytes); }));
  addresses.assign(sizes.size(), 0);
  for (size_t slot = 0; slot < sizes.size() && next.ok(); ++slot) {
    if (sizes[slot] == 0)
      continue;
    if (owner->isFenced() && !(next = add(sizes[slot])).ok())
      break;
    addresses[slot] = *next;
    *next += aligned(sizes[slot]);
  }
  return next.status();
}

/// Device memory for every slot.
Status Model::allocate(const std::vector<Binding::Alias> &aliases) {
  std::vector<uint64_t> sizes(manifest().slots);
  // The experts of a layer get their memory together, with the first of them.
  auto isFirst = [](const WeightSpec &weight, uint64_t i) {
    return i == 0 || weight.following(i - 1) == 1;
  };
  for (const WeightSpec &weight : manifest().weights)
    for (uint64_t i = 0; i < weight.tensors(); ++i)
      sizes[weight.slot + i] =
          isFirst(weight, i) ? weight.bytes() * weight.following(i) : 0;
  for (const RopeSpec &rope : manifest().ropes)
    sizes[rope.slot] = sizes[rope.slot + 1] = rope.bytes();
  for (const Binding::Alias &alias : aliases)
    sizes[alias.slot] = 0;
  if (embedsOnHost())
    sizes[table->slot] = 0;
  Status status = allocateSlots(owner, sizes, "weights", memory, addresses);
  for (const Binding::Alias &alias : aliases)
    addresses[alias.slot] = addresses[alias.of];
  for (const WeightSpec &weight : manifest().weights)
    for (uint64_t i = 0; i < weight.tensors() && status.ok(); ++i)
      if (!isFirst(weight, i))
        addresses[weight.slot + i] =
            addresses[weight.slot + i - 1] + weight.bytes();
  return status;
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

/// The elements of `bound`, which must outlive this, at `to`.
static Upload uploadOf(const BoundWeight &bound, CUdeviceptr to) {
  return {to, bound.weight->bytes(),
          [&bound](std::byte *to, uint64_t begin, uint64_t end) {
            DType type = bound.weight->type;
            return bound.write(to, elementsOf(type, begin),
                               elementsOf(type, end));
          },
          bytesOf(bound.weight->type, mostBlockElements)};
}

/// Whether only lookups read the table of embeddings, of a model that ranks
/// share.
bool Model::mayEmbedOnHost(const Binding &binding) const {
  if (!ranks || !manifest().embedding)
    return false;
  uint64_t slot = manifest().weights[*manifest().embedding].slot;
  return std::none_of(
      binding.aliases.begin(), binding.aliases.end(),
      [&](const Binding::Alias &alias) { return alias.of == slot; });
}

Status Model::embed(const int32_t *ids, int64_t count, std::byte *to) const {
  uint64_t columns = table->weight->shape[1], rowBytes = own.embeddingBytes();
  DType type = table->weight->type;
  std::vector<std::byte> whole;
  for (int64_t i = 0; i < count; ++i, to += rowBytes) {
    uint64_t row = static_cast<uint64_t>(ids[i]) * columns,
             begin = row / mostBlockElements * mostBlockElements,
             units = (row + columns - begin + mostBlockElements - 1) /
                     mostBlockElements,
             end = std::min(begin + units * mostBlockElements,
                            table->weight->elements());
    whole.resize(bytesOf(type, end - begin));
    if (Status status = table->write(whole.data(), begin, end); !status.ok())
      return status;
    memcpy(to, whole.data() + bytesOf(type, row - begin), rowBytes);
  }
  return Status();
}

Status Model::bind(const WeightSource &source) {
  said = source.log;
  said(CRIA_LOG_INFO, "runs on " + device());
  Current current(*owner);
  if (!current.status().ok())
    return current.status();
  if (ranks) {
    auto communicator = Communicator::create(owner, *ranks);
    if (!communicator.ok())
      return communicator.status();
    joined = std::move(*communicator);
  }
  auto opened = WeightLoader::open(source, manifest());
  if (!opened.ok())
    return opened.status();
  const Binding &binding = (*opened)->binding();
  copied = binding.mappedBytes() + binding.copiedBytes();
  lines.insert(lines.end(), binding.warnings.begin(), binding.warnings.end());
  if (mayEmbedOnHost(binding)) {
    table =
        &*std::find_if(binding.weights.begin(), binding.weights.end(),
                       [&](const BoundWeight &bound) {
                         return bound.weight == &own.weights[*own.embedding];
                       });
    copied -= table->weight->bytes();
    loader = std::move(*opened);
  }
  Status status = allocate(binding.aliases);
  if (!status.ok())
    return status;
  std::vector<Upload> uploads;
  addRopes(uploads);
  for (const BoundWeight &bound : binding.weights)
    if (&bound != table)
      uploads.push_back(uploadOf(bound, slot(bound.slot)));
  return upload(owner, uploads, source.progress);
}

Result<std::unique_ptr<Backend>>
Model::newBackend(const Threads &, const PageCounts &pages) const {
  return manifest().batch ? Paged::create(*this, pages)
                          : Session::create(*this);
}

namespace {

/// Adapters in memory of the device.
class DeviceLoras : public BoundLoras {
public:
  using BoundLoras::BoundLoras;
  Status fill(const std::shared_ptr<Context> &owner,
              const std::vector<BoundWeight> &adapters);

private:
  std::vector<DeviceMemory> memory;
};

} // namespace

Status DeviceLoras::fill(const std::shared_ptr<Context> &owner,
                         const std::vector<BoundWeight> &adapters) {
  std::vector<uint64_t> sizes(addresses.size());
  for (const BoundWeight &bound : adapters)
    sizes[bound.slot] = bound.weight->bytes();
  std::vector<CUdeviceptr> places;
  Status status = allocateSlots(owner, sizes, "LoRA adapters", memory, places);
  if (!status.ok())
    return status;
  addresses.assign(places.begin(), places.end());
  std::vector<Upload> uploads;
  for (const BoundWeight &bound : adapters)
    uploads.push_back(uploadOf(bound, places[bound.slot]));
  return upload(owner, uploads);
}

Result<std::unique_ptr<const BoundLoras>>
Model::bindLoras(const std::vector<LoraSource> &sources) const {
  auto loras = Loras::openKept(sources, manifest());
  if (!loras.ok())
    return loras.status();
  Current current(*owner);
  if (!current.status().ok())
    return current.status();
  auto bound = std::make_unique<DeviceLoras>(manifest().slots);
  Status status = bound->fill(owner, adapterWeights(manifest(), *loras));
  if (!status.ok())
    return status;
  return std::unique_ptr<const BoundLoras>(std::move(bound));
}

} // namespace cria::cuda
