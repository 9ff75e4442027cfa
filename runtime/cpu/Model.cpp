#include "runtime/cpu/Model.h"

#include "runtime/Binding.h"
#include "runtime/Floats.h"
#include "runtime/RandomWeights.h"
#include "runtime/RopeTables.h"
#include "runtime/cpu/Cores.h"
#include "runtime/cpu/Session.h"

#include <algorithm>

namespace cria::cpu {

Model::Model(std::shared_ptr<const Artifact> artifact)
    : code(std::move(artifact)), slotTable(code->manifest().slots) {}

Status Model::intact() const {
  for (const FileGuard &guard : guards)
    if (Status status = guard.status(); !status.ok())
      return status;
  return Status();
}

/// Fills a model's slots: first reserves room in the arena for whatever is not
/// used in place, then allocates it, then computes or converts into it.
class Model::Builder {
public:
  explicit Builder(std::shared_ptr<const Artifact> artifact);

  Status bind(const WeightSource &source);
  std::unique_ptr<const BoundModel> finish() { return std::move(model); }

private:
  /// A tensor that is written into the arena.
  struct Target {
    const WeightSpec *weight;
    uint64_t index; // in the weight's stack
    const std::byte *from;
    DType fromType;
    const LoraUpdate *update; // null for none

    uint64_t slot() const { return weight->slot + index; }
    uint64_t elements() const { return weight->elements(); }
  };

  Status bindCheckpoint(const std::string &weights, bool allowUnused);
  Status random(uint64_t seed);
  void reserve(uint64_t slot, uint64_t bytes);
  Status allocate();
  void share(const std::vector<Binding::Alias> &aliases);
  std::byte *at(uint64_t slot) const;
  void fillRopes() const;
  void convert(const Target &target, uint64_t begin, uint64_t end) const;
  Status mapFiles(Checkpoint &checkpoint, const Binding &binding);
  template <typename Fill>
  void fillTargets(const std::vector<Target> &targets, Fill fill) const;

  std::unique_ptr<Model> model;
  Loras loras;
  std::vector<std::pair<uint64_t, uint64_t>> offsets; // (slot, in the arena)
  uint64_t arenaBytes = 0;
};

Model::Builder::Builder(std::shared_ptr<const Artifact> artifact)
    : model(new Model(std::move(artifact))) {
  for (const RopeSpec &rope : model->code->manifest().ropes) {
    reserve(rope.slot, rope.bytes());
    reserve(rope.slot + 1, rope.bytes());
  }
}

void Model::Builder::reserve(uint64_t slot, uint64_t bytes) {
  offsets.emplace_back(slot, arenaBytes);
  // The manifest bounds each size so that their sum cannot overflow.
  arenaBytes += (bytes + 63) / 64 * 64;
}

/// Makes the arena, once all that goes into it is reserved, and reads what
/// adapters add to it.
Status Model::Builder::allocate() {
  Status status = loras.read();
  if (!status.ok())
    return status;
  Result<Mapping> memory = Mapping::zeroed(arenaBytes, "weights");
  if (!memory.ok())
    return memory.status();
  model->arena = std::move(*memory);
  for (auto [slot, offset] : offsets)
    model->slotTable[slot] = model->arena.data() + offset;
  fillRopes();
  return Status();
}

void Model::Builder::share(const std::vector<Binding::Alias> &aliases) {
  for (const Binding::Alias &alias : aliases)
    model->slotTable[alias.slot] = model->slotTable[alias.of];
}

/// The arena's memory of a reserved slot, writable.
std::byte *Model::Builder::at(uint64_t slot) const {
  auto *data = static_cast<const std::byte *>(model->slotTable[slot]);
  return model->arena.data() + (data - model->arena.data());
}

void Model::Builder::fillRopes() const {
  for (const RopeSpec &rope : model->code->manifest().ropes)
    fillRope(rope, reinterpret_cast<float *>(at(rope.slot)),
             reinterpret_cast<float *>(at(rope.slot + 1)));
}

/// Calls `fill(target, begin, end)` for ranges that together are all elements
/// of all targets; each core gets one contiguous stretch.
template <typename Fill>
void Model::Builder::fillTargets(const std::vector<Target> &targets,
                                 Fill fill) const {
  std::vector<uint64_t> ends; // running sum of elements
  for (const Target &target : targets)
    ends.push_back((ends.empty() ? 0 : ends.back()) + target.elements());
  if (ends.empty())
    return;
  onAllCores(static_cast<int64_t>(ends.back()), [&](int64_t from, int64_t to) {
    auto begin = static_cast<uint64_t>(from), end = static_cast<uint64_t>(to);
    auto next = std::upper_bound(ends.begin(), ends.end(), begin);
    while (begin < end) {
      const Target &target = targets[static_cast<size_t>(next - ends.begin())];
      uint64_t start = *next - target.elements();
      uint64_t stop = std::min(end, *next);
      if (begin < stop)
        fill(target, begin - start, stop - start);
      begin = stop;
      ++next;
    }
  });
}

Status Model::Builder::random(uint64_t seed) {
  std::vector<Target> targets;
  for (const WeightSpec &weight : model->code->manifest().weights)
    for (uint64_t i = 0;
         i < weight.tensors() && !weight.adapter && !weight.tied; ++i) {
      reserve(weight.slot + i, weight.bytes());
      targets.push_back(
          {&weight, i, nullptr, weight.type, loras.find(weight.name(i))});
    }
  Status status = allocate();
  if (!status.ok())
    return status;
  share(tiedSlots(model->code->manifest()));
  model->copied = model->code->manifest().weightBytes();
  fillTargets(targets, [&](const Target &target, uint64_t begin, uint64_t end) {
    const WeightSpec &weight = *target.weight;
    uint64_t first = weight.firstElement();
    std::byte *to = at(target.slot()) + bytesOf(weight.type, begin);
    fillRandom(to, weight.type, weight.name(target.index), weight.shape, seed,
               first + begin, first + end);
    if (target.update)
      target.update->merge(to, weight.type, to, weight.type, first + begin,
                           end - begin);
  });
  return Status();
}

/// Maps the files that weights are read from, and the pages of those that are
/// used in place.
Status Model::Builder::mapFiles(Checkpoint &checkpoint,
                                const Binding &binding) {
  struct Range {
    uint64_t begin = UINT64_MAX, end = 0;
  };
  std::vector<Range> inPlace(checkpoint.files().size());
  for (const Binding::Source &source : binding.sources)
    if (source.inPlace) {
      Range &range = inPlace[source.place->file];
      range.begin = std::min(range.begin, source.begin);
      range.end = std::max(range.end, source.begin + source.weight->bytes());
    }
  for (const Safetensors &file : checkpoint.files()) {
    Result<Mapping> mapping = Mapping::ofFile(file.file);
    if (!mapping.ok())
      return mapping.status();
    model->guards.emplace_back(mapping->data(), mapping->size(),
                               file.file.path());
    const Range &range = inPlace[model->files.size()];
    if (range.begin < range.end)
      populate(mapping->data() + range.begin, range.end - range.begin);
    model->files.push_back(std::move(*mapping));
  }
  return Status();
}

/// Writes elements [begin, end) of a target from those of the checkpoint.
void Model::Builder::convert(const Target &target, uint64_t begin,
                             uint64_t end) const {
  DType type = target.weight->type;
  const std::byte *from = target.from + bytesOf(target.fromType, begin);
  std::byte *to = at(target.slot()) + bytesOf(type, begin);
  if (target.update)
    target.update->merge(from, target.fromType, to, type,
                         target.weight->firstElement() + begin, end - begin);
  else
    convertElements(from, target.fromType, to, type, end - begin);
  release(from, bytesOf(target.fromType, end - begin));
}

Status Model::Builder::bindCheckpoint(const std::string &weights,
                                      bool allowUnused) {
  Result<Checkpoint> checkpoint = Checkpoint::open(weights);
  if (!checkpoint.ok())
    return checkpoint.status();
  Binding binding =
      matchWeights(model->code->manifest(), *checkpoint, loras, allowUnused);
  Status status = binding.status(weights);
  if (status.ok())
    status = shareTied(model->code->manifest(), *checkpoint, binding);
  if (!status.ok())
    return status;
  status = mapFiles(*checkpoint, binding);
  if (!status.ok())
    return status;
  std::vector<Target> targets;
  for (const Binding::Source &source : binding.sources) {
    const TensorEntry &tensor = *source.place->tensor;
    const std::byte *from = model->files[source.place->file].data();
    from += source.begin;
    if (source.inPlace) {
      model->slotTable[source.slot] = from;
      continue;
    }
    reserve(source.slot, source.weight->bytes());
    targets.push_back({source.weight, source.slot - source.weight->slot, from,
                       *tensor.type, source.update});
  }
  status = allocate();
  if (!status.ok())
    return status;
  fillTargets(targets, [&](const Target &target, uint64_t begin, uint64_t end) {
    convert(target, begin, end);
  });
  share(binding.aliases);
  model->mapped = binding.mappedBytes;
  model->copied = binding.copiedBytes;
  model->lines = std::move(binding.warnings);
  return model->intact();
}

Status Model::Builder::bind(const WeightSource &source) {
  auto opened = Loras::open(source, model->code->manifest());
  if (!opened.ok())
    return opened.status();
  loras = std::move(*opened);
  std::vector<Target> adapters; // what is filled from them alone
  for (const WeightSpec &weight : model->code->manifest().weights)
    for (uint64_t i = 0; i < weight.tensors() && weight.adapter; ++i) {
      reserve(weight.slot + i, weight.bytes());
      adapters.push_back(
          {&weight, i, nullptr, weight.type, loras.kept(weight, i)});
    }
  Status status = source.checkpoint
                      ? bindCheckpoint(*source.checkpoint, source.allowUnused)
                      : random(source.seed);
  if (status.ok())
    fillTargets(
        adapters, [&](const Target &target, uint64_t begin, uint64_t end) {
          DType type = target.weight->type;
          fillAdapter(*target.weight, target.update,
                      at(target.slot()) + bytesOf(type, begin), begin, end);
        });
  return status;
}

Result<std::unique_ptr<const BoundModel>>
Model::bind(std::shared_ptr<const Artifact> artifact,
            const WeightSource &source) {
  Builder builder(std::move(artifact));
  Status status = builder.bind(source);
  if (!status.ok())
    return status;
  return builder.finish();
}

Result<std::unique_ptr<Backend>> Model::newBackend(int threads) const {
  return Session::create(*code, slots(), threads ? threads : coreCount());
}

} // namespace cria::cpu
