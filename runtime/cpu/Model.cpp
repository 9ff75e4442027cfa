#include "runtime/cpu/Model.h"

#include "runtime/base/threads/Cores.h"
#include "runtime/base/threads/Nodes.h"
#include "runtime/cpu/Backend.h"
#include "runtime/weights/RopeTables.h"
#include "runtime/weights/WeightLoader.h"

#include <algorithm>

namespace cria::cpu {

Model::Model(std::shared_ptr<const Artifact> artifact, const CriaRanks *ranks)
    : code(std::move(artifact)), ranks(ranks),
      slotTable(code->manifest().slots) {}

Status Model::intact() const {
  for (const FileGuard &guard : guards)
    if (Status status = guard.status(); !status.ok())
      return status;
  return Status();
}

/// Fills a model's slots in three steps: reserves room in the arena for weights
/// that are not used in place, allocates the arena, then computes or converts
/// into it.
class Model::Builder {
public:
  Builder(std::shared_ptr<const Artifact> artifact, const CriaRanks *ranks);

  Status bind(const WeightSource &source);
  std::unique_ptr<const BoundModel> finish() { return std::move(model); }

private:
  void reserve(uint64_t slot, uint64_t bytes);
  void addTarget(const BoundWeight &target);
  Status allocate();
  std::byte *at(uint64_t slot) const;
  void fillRopes() const;
  void populateFile(const File &file, const Mapping &mapping,
                    const Binding &binding) const;
  Status mapFile(const File &file, const Binding &binding);
  Status useInPlace(const Binding &binding);
  Status fillUnits(uint64_t begin, uint64_t end) const;
  Status fillTargets(const Progress &progress) const;

  std::unique_ptr<Model> model;
  const Manifest manifest;                  // of this rank
  std::vector<const BoundWeight *> targets; // written into the arena
  std::vector<uint64_t> ends; // of the targets: running sum of their units
  std::vector<std::pair<uint64_t, uint64_t>> offsets; // (slot, in the arena)
  uint64_t arenaBytes = 0;
};

/// The number of pieces that a weight is divided into.
static uint64_t unitsOf(const WeightSpec &weight) {
  return (weight.elements() + mostBlockElements - 1) / mostBlockElements;
}

Model::Builder::Builder(std::shared_ptr<const Artifact> artifact,
                        const CriaRanks *ranks)
    : model(new Model(std::move(artifact), ranks)),
      manifest(model->code->manifest().ofRank(ranks ? ranks->rank : 0)) {
  for (const RopeSpec &rope : manifest.ropes) {
    reserve(rope.slot, rope.bytes());
    reserve(rope.slot + 1, rope.bytes());
  }
}

/// The bytes of a weight that starts at a cache line. The manifest bounds each
/// size so that their sum cannot overflow.
static uint64_t aligned(uint64_t bytes) { return (bytes + 63) / 64 * 64; }

void Model::Builder::reserve(uint64_t slot, uint64_t bytes) {
  offsets.emplace_back(slot, arenaBytes);
  arenaBytes += aligned(bytes);
}

/// Allocates the arena, once everything in it is reserved.
Status Model::Builder::allocate() {
  Result<Mapping> memory = Mapping::zeroed(arenaBytes, "weights");
  if (!memory.ok())
    return memory.status();
  model->arena = std::move(*memory);
  for (auto [slot, offset] : offsets)
    model->slotTable[slot] = model->arena.data() + offset;
  fillRopes();
  return Status();
}

/// The writable memory of a reserved slot in the arena.
std::byte *Model::Builder::at(uint64_t slot) const {
  auto *data = static_cast<const std::byte *>(model->slotTable[slot]);
  return model->arena.data() + (data - model->arena.data());
}

void Model::Builder::fillRopes() const {
  for (const RopeSpec &rope : manifest.ropes)
    fillRope(rope, reinterpret_cast<float *>(at(rope.slot)),
             reinterpret_cast<float *>(at(rope.slot + 1)));
}

/// Fills units [begin, end) of all targets; units are numbered across targets.
Status Model::Builder::fillUnits(uint64_t begin, uint64_t end) const {
  auto next = std::upper_bound(ends.begin(), ends.end(), begin);
  for (; begin < end; begin = *next++) {
    const BoundWeight &target =
        *targets[static_cast<size_t>(next - ends.begin())];
    uint64_t start = *next - unitsOf(*target.weight);
    uint64_t first = (begin - start) * mostBlockElements;
    uint64_t stop = std::min((std::min(end, *next) - start) * mostBlockElements,
                             target.weight->elements());
    Status status = target.write(
        at(target.slot) + bytesOf(target.weight->type, first), first, stop);
    if (!status.ok())
      return status;
  }
  return Status();
}

/// Fills all targets; each core fills one contiguous stretch. If there is a
/// progress callback, the cores fill 64 million elements between two calls.
/// Where there are NUMA nodes they fill one target after the other, each core
/// its part.
Status Model::Builder::fillTargets(const Progress &progress) const {
  static constexpr uint64_t most = (64 << 20) / mostBlockElements;
  uint64_t total = ends.empty() ? 0 : ends.back();
  uint64_t step = progress ? std::min(most, total) : total;
  bool oneByOne = hasNodes();
  for (uint64_t done = 0, count; done < total; done += count) {
    count = std::min(step, total - done);
    if (oneByOne)
      count = *std::upper_bound(ends.begin(), ends.end(), done) - done;
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

/// Adds a weight to be filled and reserves its slot.
void Model::Builder::addTarget(const BoundWeight &target) {
  if (target.weight->elements() == 0)
    return reserve(target.slot, 0);
  reserve(target.slot, target.weight->bytes());
  ends.push_back((ends.empty() ? 0 : ends.back()) + unitsOf(*target.weight));
  targets.push_back(&target);
}

/// Maps the pages of the weights that are used in place in `file` now, not at
/// their first use. Ranks leave out the weights of other ranks, and the table
/// of embeddings, from which a rank reads few rows.
void Model::Builder::populateFile(const File &file, const Mapping &mapping,
                                  const Binding &binding) const {
  static constexpr uint64_t mostBetween = 1 << 16; // norms and biases
  const WeightSpec *embedding = manifest.shards > 1 && manifest.embedding
                                    ? &manifest.weights[*manifest.embedding]
                                    : nullptr;
  std::vector<std::pair<uint64_t, uint64_t>> ranges;
  for (const BoundWeight &bound : binding.weights)
    if (auto place = bound.inPlace();
        place && place->file == &file && bound.weight != embedding)
      ranges.emplace_back(place->begin, place->begin + bound.weight->bytes());
  std::sort(ranges.begin(), ranges.end());
  std::vector<std::pair<uint64_t, uint64_t>> joined;
  for (auto [begin, end] : ranges)
    if (!joined.empty() && begin <= joined.back().second + mostBetween)
      joined.back().second = std::max(joined.back().second, end);
    else
      joined.emplace_back(begin, end);
  uint64_t last = 0;
  for (auto [begin, end] : joined) {
    if (manifest.shards > 1)
      expectFewReads(mapping.data() + last, begin - last);
    last = end;
  }
  if (manifest.shards > 1)
    expectFewReads(mapping.data() + last, mapping.size() - last);
  // Where there are NUMA nodes, each weight is divided between them.
  for (auto [begin, end] : hasNodes() ? ranges : joined)
    populate(mapping.data() + begin, end - begin);
}

/// Maps `file`, in which weights are used in place.
Status Model::Builder::mapFile(const File &file, const Binding &binding) {
  Result<Mapping> mapping = Mapping::ofFile(file);
  if (!mapping.ok())
    return mapping.status();
  model->guards.emplace_back(mapping->data(), mapping->size(), file.path());
  populateFile(file, *mapping, binding);
  model->files.push_back(std::move(*mapping));
  return Status();
}

/// Maps the files whose weights can be used in place, and uses these weights.
Status Model::Builder::useInPlace(const Binding &binding) {
  std::vector<const File *> mapped; // as in the model's `files`
  for (const BoundWeight &bound : binding.weights) {
    std::optional<FilePlace> place = bound.inPlace();
    if (!place)
      continue;
    auto found = std::find(mapped.begin(), mapped.end(), place->file);
    auto index = static_cast<size_t>(found - mapped.begin());
    if (index == mapped.size()) {
      if (Status status = mapFile(*place->file, binding); !status.ok())
        return status;
      mapped.push_back(place->file);
    }
    model->slotTable[bound.slot] = model->files[index].data() + place->begin;
  }
  return Status();
}

Status Model::Builder::bind(const WeightSource &source) {
  auto opened = WeightLoader::open(source, manifest);
  if (!opened.ok())
    return opened.status();
  const Binding &binding = (*opened)->binding();
  model->mapped = binding.mappedBytes();
  model->copied = binding.copiedBytes();
  model->lines = binding.warnings;
  Status status = useInPlace(binding);
  for (const BoundWeight &bound : binding.weights)
    if (!bound.inPlace())
      addTarget(bound);
  if (status.ok())
    status = allocate();
  if (status.ok())
    status = fillTargets(source.progress);
  if (!status.ok())
    return status;
  for (const Binding::Alias &alias : binding.aliases)
    model->slotTable[alias.slot] = model->slotTable[alias.of];
  return model->intact();
}

Result<std::unique_ptr<const BoundModel>>
Model::bind(std::shared_ptr<const Artifact> artifact,
            const WeightSource &source, const CriaRanks *ranks) {
  Builder builder(std::move(artifact), ranks);
  Status status = builder.bind(source);
  if (!status.ok())
    return status;
  return builder.finish();
}

Result<std::unique_ptr<cria::Backend>>
Model::newBackend(const Threads &threads, const PageCounts &pages) const {
  Threads counted = threads;
  if (counted.count == 0)
    counted.count = coreCount();
  return Backend::create(*code, slots(), counted, pages, ranks);
}

namespace {

/// Adapters in memory of their own.
class HostLoras : public BoundLoras {
public:
  using BoundLoras::BoundLoras;
  Status fill(const std::vector<BoundWeight> &adapters);

private:
  Mapping memory;
};

} // namespace

Status HostLoras::fill(const std::vector<BoundWeight> &adapters) {
  uint64_t bytes = 0;
  for (const BoundWeight &bound : adapters)
    bytes += aligned(bound.weight->bytes());
  Result<Mapping> made = Mapping::zeroed(bytes, "LoRA adapters");
  if (!made.ok())
    return made.status();
  memory = std::move(*made);
  std::byte *at = memory.data();
  for (const BoundWeight &bound : adapters) {
    Status status = bound.write(at, 0, bound.weight->elements());
    if (!status.ok())
      return status;
    addresses[bound.slot] = reinterpret_cast<uint64_t>(at);
    at += aligned(bound.weight->bytes());
  }
  return Status();
}

Result<std::unique_ptr<const BoundLoras>>
Model::bindLoras(const std::vector<LoraSource> &sources) const {
  Manifest own = code->manifest().ofRank(ranks ? ranks->rank : 0);
  auto loras = Loras::openKept(sources, own);
  if (!loras.ok())
    return loras.status();
  auto bound = std::make_unique<HostLoras>(own.slots);
  Status status = bound->fill(adapterWeights(own, *loras));
  if (!status.ok())
    return status;
  return std::unique_ptr<const BoundLoras>(std::move(bound));
}

} // namespace cria::cpu
