#include "runtime/cpu/Model.h"

#include "runtime/Binding.h"
#include "runtime/RandomWeights.h"
#include "runtime/ReadWeight.h"
#include "runtime/RopeTables.h"
#include "runtime/WeightCache.h"
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
  /// A tensor that is written into the arena, and what writes its elements
  /// [begin, end), whole blocks; called by many threads at once.
  struct Target {
    const WeightSpec *weight;
    uint64_t slot;
    std::function<Status(std::byte *to, uint64_t begin, uint64_t end)> fill;

    /// The pieces that it is divided into.
    uint64_t units() const {
      return (weight->elements() + mostBlockElements - 1) / mostBlockElements;
    }
  };

  Status bindCheckpoint(const WeightSource &source);
  Status random(const WeightSource &source);
  void reserve(uint64_t slot, uint64_t bytes);
  void addTarget(Target target);
  Status allocate();
  void share(const std::vector<Binding::Alias> &aliases);
  std::byte *at(uint64_t slot) const;
  void fillRopes() const;
  Status mapFiles(Checkpoint &checkpoint, const Binding &binding);
  Status mapCache(const WeightCache &cache, Binding &binding);
  Status fill(const Checkpoint &checkpoint, Binding &binding,
              const WeightSource &source);
  Status fillUnits(uint64_t begin, uint64_t end) const;
  Status fillTargets(const Progress &progress) const;

  std::unique_ptr<Model> model;
  Loras loras;
  std::vector<Target> targets;
  std::vector<uint64_t> ends; // of the targets: running sum of their units
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

/// Fills the units [begin, end) of all targets, one behind the other.
Status Model::Builder::fillUnits(uint64_t begin, uint64_t end) const {
  auto next = std::upper_bound(ends.begin(), ends.end(), begin);
  for (; begin < end; begin = *next++) {
    const Target &target = targets[static_cast<size_t>(next - ends.begin())];
    uint64_t start = *next - target.units();
    uint64_t first = (begin - start) * mostBlockElements;
    uint64_t stop = std::min((std::min(end, *next) - start) * mostBlockElements,
                             target.weight->elements());
    Status status = target.fill(
        at(target.slot) + bytesOf(target.weight->type, first), first, stop);
    if (!status.ok())
      return status;
  }
  return Status();
}

/// Fills all targets, each core one contiguous stretch; or where somebody waits
/// for news, one of each 64 million elements.
Status Model::Builder::fillTargets(const Progress &progress) const {
  static constexpr uint64_t most = (64 << 20) / mostBlockElements;
  uint64_t total = ends.empty() ? 0 : ends.back();
  uint64_t step = progress ? std::min(most, total) : total;
  for (uint64_t done = 0; done < total; done += step) {
    uint64_t count = std::min(step, total - done);
    auto range = [&](int64_t from, int64_t to) {
      return fillUnits(done + static_cast<uint64_t>(from),
                       done + static_cast<uint64_t>(to));
    };
    Status status = tryOnAllCores(static_cast<int64_t>(count), range);
    if (!status.ok())
      return status;
    if (progress)
      progress(done + count, total);
  }
  return Status();
}

/// Has a slot of the arena filled by `fill`.
void Model::Builder::addTarget(Target target) {
  if (target.weight->elements() == 0)
    return reserve(target.slot, 0);
  reserve(target.slot, target.weight->bytes());
  ends.push_back((ends.empty() ? 0 : ends.back()) + target.units());
  targets.push_back(std::move(target));
}

Status Model::Builder::random(const WeightSource &source) {
  for (RandomSource &each : randomSources(model->code->manifest(), loras))
    addTarget({each.weight, each.slot,
               [each, seed = source.seed](std::byte *to, uint64_t begin,
                                          uint64_t end) {
                 fillRandom(to, each, seed, begin, end);
                 return Status();
               }});
  Status status = allocate();
  if (status.ok())
    status = fillTargets(source.progress);
  if (!status.ok())
    return status;
  share(sharedSlots(model->code->manifest()));
  model->copied = model->code->manifest().weightBytes();
  return Status();
}

/// Maps the files, and the pages of the weights that are used in place.
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
  for (const TensorFile &file : checkpoint.files()) {
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

/// Maps the file of `cache` and uses its weights in place.
Status Model::Builder::mapCache(const WeightCache &cache, Binding &binding) {
  Result<Mapping> mapping = Mapping::ofFile(cache.file());
  if (!mapping.ok())
    return mapping.status();
  model->guards.emplace_back(mapping->data(), mapping->size(),
                             cache.file().path());
  populate(mapping->data(), mapping->size());
  for (Binding::Source &source : binding.sources)
    if (std::optional<uint64_t> offset = cache.find(source.slot)) {
      model->slotTable[source.slot] = mapping->data() + *offset;
      source.inPlace = true;
      binding.mappedBytes += source.weight->bytes();
      binding.copiedBytes -= source.weight->bytes();
    }
  model->files.push_back(std::move(*mapping));
  return Status();
}

/// Finds the sources of `binding` their memory, and fills what is not used in
/// place.
Status Model::Builder::fill(const Checkpoint &checkpoint, Binding &binding,
                            const WeightSource &source) {
  for (const Binding::Source &each : binding.sources)
    if (each.inPlace)
      model->slotTable[each.slot] =
          model->files[each.place->file].data() + each.begin;
  auto cache =
      WeightCache::open(source.cache, checkpoint, binding, source.progress);
  Status status = cache ? mapCache(*cache, binding) : Status();
  if (!status.ok())
    return status;
  for (const Binding::Source &each : binding.sources)
    if (!each.inPlace)
      addTarget({each.weight, each.slot,
                 [&](std::byte *to, uint64_t begin, uint64_t end) {
                   return readWeight(checkpoint, each, to, begin, end);
                 }});
  status = allocate();
  return status.ok() ? fillTargets(source.progress) : status;
}

Status Model::Builder::bindCheckpoint(const WeightSource &source) {
  Result<Checkpoint> checkpoint = Checkpoint::open(*source.checkpoint);
  if (!checkpoint.ok())
    return checkpoint.status();
  Binding binding = matchWeights(model->code->manifest(), *checkpoint, loras,
                                 source.allowUnused);
  Status status = binding.status(*source.checkpoint);
  if (status.ok())
    status = shareTied(model->code->manifest(), *checkpoint, loras, binding);
  if (status.ok())
    status = loadPacked(*checkpoint, binding);
  if (status.ok())
    status = mapFiles(*checkpoint, binding);
  if (status.ok())
    status = fill(*checkpoint, binding, source);
  if (!status.ok())
    return status;
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
  for (const WeightSpec &weight : model->code->manifest().weights)
    for (uint64_t i = 0; i < weight.tensors() && weight.adapter; ++i)
      addTarget({&weight, weight.slot + i,
                 [&weight, update = loras.kept(weight, i)](
                     std::byte *to, uint64_t begin, uint64_t end) {
                   fillAdapter(weight, update, to, begin, end);
                   return Status();
                 }});
  return source.checkpoint ? bindCheckpoint(source) : random(source);
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
