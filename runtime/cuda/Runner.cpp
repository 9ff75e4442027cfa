#include "runtime/cuda/Runner.h"

#include "runtime/base/Json.h"
#include "runtime/cuda/Model.h"
#include "runtime/device/Sampler.h"
#include "runtime/ranks/JoinRanks.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <optional>
#include <tuple>

namespace cria::cuda {

/// The ids of a text that a device weakens, at most.
static constexpr size_t mostSeen = 1 << 14;

static uint64_t tilesOf(int64_t vocabSize) {
  return static_cast<uint64_t>(vocabSize + CRIA_SEEN_TILE - 1) / CRIA_SEEN_TILE;
}

Runner::Runner(const Model &model)
    : model(model), context(model.context()),
      usesGraphs(model.code().usesGraphs()) {}

Result<CUdeviceptr> Runner::zeroed(uint64_t bytes, const char *purpose) {
  Result<DeviceMemory> allocated = allocateDevice(context, bytes, purpose);
  if (!allocated.ok())
    return allocated.status();
  CUdeviceptr address = allocated->get();
  memory.push_back(std::move(*allocated));
  if (!address)
    return address;
  Status status = context->check(
      (*context)->cuMemsetD8Async(address, 0, bytes, stream.get()),
      "cuMemsetD8Async", std::string("clearing ") + purpose);
  if (!status.ok())
    return status;
  return address;
}

Status Runner::allocate(const PageCounts &counts, uint64_t stepBytes) {
  const Manifest &manifest = model.manifest();
  pages = counts;
  Result<Stream> made = makeStream(context);
  if (!made.ok())
    return made.status();
  stream = std::move(*made);
  for (const CacheSpec &spec : manifest.caches) {
    Result<CUdeviceptr> cache =
        zeroed(spec.bytes * static_cast<uint64_t>(pages.of(spec.kind())),
               "a KV cache");
    if (!cache.ok())
      return cache.status();
    caches.push_back(*cache);
  }
  Result<DeviceMemory> scratch =
      allocateDevice(context, manifest.cuda->arenaBytes, "scratch");
  if (!scratch.ok())
    return scratch.status();
  places[Argument::Arena] = scratch->get();
  memory.push_back(std::move(*scratch));
  struct Pair {
    Argument::Kind kind;
    PinnedMemory *pinned;
    uint64_t bytes;
  };
  for (auto [kind, pinned, bytes] :
       {Pair{Argument::State, &pinnedState, stepBytes},
        Pair{Argument::Logits, &pinnedRow, rowBytes()}}) {
    Result<CUdeviceptr> address = zeroed(bytes, "ids and logits");
    if (!address.ok())
      return address.status();
    places[kind] = *address;
    auto allocated = allocatePinned(context, bytes, "ids and logits");
    if (!allocated.ok())
      return allocated.status();
    *pinned = std::move(*allocated);
  }
  places[Argument::Ids] = places[Argument::State] + idsOffset;
  Status status = ropes.allocate(context, manifest);
  if (status.ok() && model.embedsOnHost())
    status = roomForEmbeddings();
  if (status.ok() && model.embedsOnHost()) {
    auto pinned = allocatePinned(context, chunkOfEmbeddings(), "embeddings");
    if (!pinned.ok())
      return pinned.status();
    pinnedEmbeddings = std::move(*pinned);
  }
  return status.ok() ? clearWorkspace() : status;
}

Status Runner::allocateDraws(int64_t rows, int64_t answers) {
  auto count = static_cast<uint64_t>(rows);
  for (auto [kind, pinned, bytes] :
       {std::tuple(Argument::Seen, &seen,
                   (1 + count * seenRoom()) * sizeof(int32_t)),
        std::tuple(Argument::Sampled, &sampled,
                   static_cast<uint64_t>(answers) * sizeof(CriaSampled))}) {
    auto allocated = allocatePinned(context, bytes, "drawing ids");
    if (!allocated.ok())
      return allocated.status();
    *pinned = std::move(*allocated);
    memset(pinned->get(), 0, bytes);
    // The device has pinned memory at the host's address.
    places[kind] = reinterpret_cast<CUdeviceptr>(pinned->get());
  }
  return Status();
}

bool Runner::drawsOnHost(const Sampler &sampler) {
  return sampler.needsLogits() || sampler.seenIds().size() > mostSeen;
}

/// Writes the table of seen ids that Abi.h describes.
CriaSampling Runner::ask(Sampler &sampler, int64_t row) {
  CriaSampling sampling = sampler.next();
  const std::vector<Sampler::Seen> &ids = sampler.seenIds();
  if (ids.empty())
    return sampling;
  uint64_t begin = 1 + static_cast<uint64_t>(row) * seenRoom();
  sampling.seen = static_cast<int32_t>(begin);
  auto tiles = static_cast<int32_t>(tilesOf(sampler.vocabSize()));
  int32_t *bounds = static_cast<int32_t *>(seen.get()) + begin;
  int32_t *next = bounds + tiles + 1;
  int32_t tile = 0, before = 0;
  for (const Sampler::Seen &one : ids) {
    for (; tile <= one.id / CRIA_SEEN_TILE; ++tile)
      bounds[tile] = before;
    *next++ = one.id;
    *next++ = one.drawn;
    ++before;
  }
  std::fill(bounds + tile, bounds + tiles + 1, before);
  return sampling;
}

CriaSampled Runner::answer(int64_t row) const {
  CriaSampled drawn;
  memcpy(&drawn, static_cast<const CriaSampled *>(sampled.get()) + row,
         sizeof(drawn));
  return drawn;
}

Status Runner::bringEmbeddings(const int32_t *ids, int64_t tokens,
                               const std::byte *given) {
  if (!model.embedsOnHost())
    return Status();
  auto *rows = static_cast<std::byte *>(pinnedEmbeddings.get());
  auto count = static_cast<uint64_t>(tokens);
  if (given) {
    memcpy(rows, given, count * model.manifest().embeddingBytes());
    return Status();
  }
  auto *own = reinterpret_cast<int32_t *>(
      static_cast<std::byte *>(pinnedState.get()) + idsOffset);
  std::iota(own, own + count, 0);
  return model.embed(ids, tokens, rows);
}

Status Runner::enqueueEmbeddings(int64_t tokens) {
  if (!model.embedsOnHost())
    return Status();
  return copyIn(embeddings.get(), pinnedEmbeddings.get(),
                static_cast<uint64_t>(tokens) *
                    model.manifest().embeddingBytes());
}

uint64_t Runner::rowBytes() const {
  return static_cast<uint64_t>(model.manifest().logitColumns) * sizeof(float);
}

uint64_t Runner::seenRoom() const {
  return tilesOf(model.manifest().vocabSize) + 1 + 2 * mostSeen;
}

uint64_t Runner::chunkOfEmbeddings() const {
  const Manifest &manifest = model.manifest();
  int64_t rows = manifest.batch ? manifest.batch->rows : 0;
  return static_cast<uint64_t>(std::max(manifest.chunk, rows)) *
         manifest.embeddingBytes();
}

Status Runner::clearWorkspace() {
  const Plan &plan = *model.manifest().cuda;
  Status status;
  if (plan.zeroedBytes)
    status = context->check(
        (*context)->cuMemsetD8Async(places[Argument::Arena] + plan.zeroedOffset,
                                    0, plan.zeroedBytes, stream.get()),
        "cuMemsetD8Async", "clearing scratch");
  Status cleared = context->wait(stream.get(), "clearing a session's memory");
  return status.ok() ? cleared : status;
}

CUdeviceptr Runner::address(const Argument &argument, uint64_t layer) const {
  switch (argument.kind) {
  case Argument::Weight: {
    uint64_t slot = argument.value + layer * argument.perLayer;
    if (model.embedsOnHost() && slot == model.embeddingSlot())
      return embeddings.get();
    CUdeviceptr own = ropes.slot(slot);
    if (!own && loras)
      own = loras->find(slot);
    return own ? own : model.slot(slot);
  }
  case Argument::Cache:
    return caches[argument.value] + argument.offset + layer * argument.perLayer;
  case Argument::Arena:
    return places[Argument::Arena] + argument.value;
  default:
    return places[argument.kind];
  }
}

/// Gives a launch its arguments.
Status Runner::bind(const LaunchStep &step, uint64_t layer,
                    Launch &launch) const {
  for (const Argument &argument : step.arguments) {
    launch.values.push_back(address(argument, layer));
    if (!argument.map)
      continue;
    TensorMap map = *argument.map;
    if (argument.kind == Argument::Cache) // counts pages, or has one
      map.sizes.back() *= static_cast<uint64_t>(
          pages.of(model.manifest().caches[argument.value].kind()));
    Status status = cuda::encode(*context, map, launch.values.back(),
                                 step.kernel, launch.maps.emplace_back());
    if (!status.ok())
      return status;
  }
  CUtensorMap *map = launch.maps.data();
  for (size_t i = 0; i < launch.values.size(); ++i)
    launch.parameters.push_back(
        step.arguments[i].map ? static_cast<void *>(map++) : &launch.values[i]);
  return Status();
}

/// Appends the launches of an entry.
Status Runner::expand(const Entry &entry, std::vector<Launch> &launches) const {
  for (const EntryStep &step : entry)
    for (uint64_t layer = 0; layer < step.layers; ++layer)
      for (const LaunchStep &from : step.launches) {
        if (!model.code().runs(from))
          continue;
        CUfunction function =
            from.isSum() ? nullptr : model.code().kernel(from.kernel);
        Launch launch = {&from, function, {}, {}, {}};
        Status status = bind(from, layer, launch);
        if (!status.ok())
          return status;
        launches.push_back(std::move(launch));
      }
  return Status();
}

Status Runner::expand(std::initializer_list<Expanded> entries) const {
  std::vector<std::vector<Launch>> made(entries.size());
  auto next = made.begin();
  for (const Expanded &each : entries)
    if (Status status = expand(*each.entry, *next++); !status.ok())
      return status;
  next = made.begin();
  for (const Expanded &each : entries)
    *each.launches = std::move(*next++);
  return Status();
}

Status Runner::use(const BoundLoras *others) {
  ahead.reset();
  uint64_t number = others ? others->number() : 0;
  if (number == lorasNumber)
    return Status();
  loras = others;
  Status status = makeLaunches();
  loras = nullptr;
  if (status.ok())
    lorasNumber = number;
  return status;
}

Status Runner::ended(const Status &status, const char *doing) {
  Status waited = context->wait(stream.get(), doing);
  return status.ok() ? waited : status;
}

Status Runner::perform(const Step &step, FunctionRef<Status()> work) {
  std::optional<WaitForRanks> waiting; // in the sums
  if (model.sharedWith())
    waiting.emplace();
  Timer marks(context);
  timer = kernelTimes ? &marks : nullptr;
  Status status = bringEmbeddings(step.ids, step.tokens, step.embeddings);
  if (status.ok())
    status = work();
  if (status.ok() && model.communicator())
    status = model.communicator()->status();
  timer = nullptr;
  if (!status.ok())
    return ended(status, "what was launched");
  return kernelTimes ? appendTimes(marks) : status;
}

Status Runner::trace(std::vector<KernelTime> *into) {
  if (into && !context->library().hasTimes())
    return Status(CRIA_UNAVAILABLE,
                  "the CUDA driver has no cuEventElapsedTime");
  ahead.reset();
  kernelTimes = into;
  return Status();
}

/// The last launch ended now, and each where the next begins.
Status Runner::appendTimes(const Timer &marks) {
  using Clock = std::chrono::steady_clock;
  Clock::time_point end = Clock::now();
  auto launches = marks.times();
  if (!launches.ok())
    return launches.status();
  size_t first = kernelTimes->size();
  for (const LaunchTime &launch : *launches)
    kernelTimes->push_back({launch.step->kernel, {}, launch.seconds});
  for (size_t i = kernelTimes->size(); i-- > first;) {
    KernelTime &time = (*kernelTimes)[i];
    end -= std::chrono::duration_cast<Clock::duration>(
        std::chrono::duration<double>(time.seconds));
    time.begin = end;
  }
  return Status();
}

void Runner::writeState(const CriaStepState &header, const int32_t *ids) {
  auto *to = static_cast<std::byte *>(pinnedState.get());
  static_assert(sizeof(header) <= idsOffset);
  memcpy(to, &header, sizeof(header));
  memcpy(to + idsOffset, ids,
         static_cast<size_t>(header.tokens) * sizeof(int32_t));
}

uint64_t Runner::pageBytes(size_t cache) const {
  return model.manifest().caches[cache].bytes;
}

CUdeviceptr Runner::at(size_t cache, int32_t page) const {
  return caches[cache] + pageBytes(cache) * static_cast<uint64_t>(page);
}

Status Runner::clearPage(PageKind kind, int32_t page) {
  return setPage(kind, std::nullopt, page);
}

Status Runner::copyPage(PageKind kind, int32_t from, int32_t to) {
  return setPage(kind, from, to);
}

/// Copies a page, or fills it with zeros.
Status Runner::setPage(PageKind kind, std::optional<int32_t> from, int32_t to) {
  ahead.reset();
  Current current(*context);
  Status status = current.status();
  for (size_t i = 0; i < caches.size() && status.ok(); ++i) {
    if (model.manifest().caches[i].kind() != kind)
      continue;
    CUresult result =
        from ? (*context)->cuMemcpyDtoDAsync(at(i, to), at(i, *from),
                                             pageBytes(i), stream.get())
             : (*context)->cuMemsetD8Async(at(i, to), 0, pageBytes(i),
                                           stream.get());
    status =
        context->check(result, from ? "cuMemcpyDtoDAsync" : "cuMemsetD8Async",
                       from ? "copying a page" : "clearing a page");
  }
  return status;
}

Status Runner::readPage(size_t cache, int32_t page, uint64_t begin,
                        std::byte *to, uint64_t bytes) {
  Current current(*context);
  if (!current.status().ok())
    return current.status();
  const char *doing = "saving a KV cache";
  return ended(copyOut(to, at(cache, page) + begin, bytes, doing), doing);
}

Status Runner::writePage(size_t cache, int32_t page, uint64_t begin,
                         const std::byte *from, uint64_t bytes) {
  ahead.reset();
  Current current(*context);
  if (!current.status().ok())
    return current.status();
  const char *doing = "restoring a KV cache";
  return ended(copyIn(at(cache, page) + begin, from, bytes, doing), doing);
}

Status Runner::copyIn(CUdeviceptr to, const void *from, uint64_t bytes,
                      const char *doing) {
  return context->check(
      (*context)->cuMemcpyHtoDAsync(to, from, bytes, stream.get()),
      "cuMemcpyHtoDAsync", doing);
}

Status Runner::copyOut(void *to, CUdeviceptr from, uint64_t bytes,
                       const char *doing) {
  return context->check(
      (*context)->cuMemcpyDtoHAsync(to, from, bytes, stream.get()),
      "cuMemcpyDtoHAsync", doing);
}

Status Runner::enqueueState(uint64_t bytes) {
  return copyIn(places[Argument::State], pinnedState.get(), bytes);
}

/// Launches a kernel. With `overlaps` it may begin before the launch before it
/// has ended.
Status Runner::launch(const Launch &launch, const unsigned (&grid)[3],
                      bool overlaps) {
  const LaunchStep &step = *launch.step;
  CUlaunchAttribute attribute = {};
  attribute.id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION;
  attribute.value.programmaticStreamSerializationAllowed = 1;
  CUlaunchConfig config = {grid[0],           grid[1],       grid[2],
                           step.block[0],     step.block[1], step.block[2],
                           step.shared,       stream.get(),  &attribute,
                           overlaps ? 1u : 0u};
  CUresult result = (*context)->cuLaunchKernelEx(
      &config, launch.function, const_cast<void **>(launch.parameters.data()),
      nullptr);
  if (result == CUDA_SUCCESS)
    return Status();
  return context->check(result, "cuLaunchKernelEx",
                        "launching " + quote(step.kernel));
}

Status Runner::launch(const std::vector<Launch> &launches, int64_t tokens,
                      int64_t rows, int64_t hiddenRows, bool follows) {
  // Launches that are timed stay apart.
  bool mayOverlap = model.code().mayOverlap() && !timer;
  bool overlaps = follows && mayOverlap;
  for (const Launch &launch : launches) {
    const LaunchStep &step = *launch.step;
    unsigned grid[3];
    for (int i = 0; i < 3; ++i)
      grid[i] =
          static_cast<unsigned>(step.grid[i].at(tokens, rows, hiddenRows));
    if (!grid[0] || !grid[1] || !grid[2])
      continue;
    Status marked = timer ? timer->mark(&step, stream.get()) : Status();
    if (!marked.ok())
      return marked;
    Status launched =
        step.isSum()
            ? model.communicator()->sum(launch.values[0],
                                        grid[0] * step.columns, stream.get())
            : this->launch(launch, grid, overlaps);
    if (!launched.ok())
      return launched;
    // NCCL's kernels do not say when the next launch may begin.
    overlaps = mayOverlap && !step.isSum();
  }
  return timer ? timer->mark(nullptr, stream.get()) : Status();
}

/// Records a graph. A driver that cannot, or has no memory for it, leaves the
/// runner without graphs.
Status Runner::record(GraphExec &graph, const char *what,
                      FunctionRef<Status()> enqueue) {
  std::string doing = std::string("recording ") + what;
  auto goOnWithout = [&] {
    usesGraphs = false;
    model.log()(CRIA_LOG_WARNING,
                std::string("the CUDA driver cannot record ") + what +
                    ": its kernels are launched one by one");
    return Status();
  };
  // Relaxed: other threads may allocate meanwhile, and this one does not.
  CUresult begun = (*context)->cuStreamBeginCapture(
      stream.get(), CU_STREAM_CAPTURE_MODE_RELAXED);
  if (begun == CUDA_ERROR_NOT_SUPPORTED ||
      begun == CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED)
    return goOnWithout();
  Status status = context->check(begun, "cuStreamBeginCapture", doing);
  if (!status.ok())
    return status;
  status = enqueue();
  CUgraph recorded = nullptr; // ends the capture, also of what failed
  CUresult ended = (*context)->cuStreamEndCapture(stream.get(), &recorded);
  Graph owned(context, recorded);
  if (status.ok())
    status = context->check(ended, "cuStreamEndCapture", doing);
  if (!status.ok())
    return status;
  CUgraphExec instance = nullptr;
  CUresult made =
      (*context)->cuGraphInstantiateWithFlags(&instance, recorded, 0);
  if (made == CUDA_ERROR_OUT_OF_MEMORY)
    return goOnWithout();
  status = context->check(made, "cuGraphInstantiateWithFlags", doing);
  if (status.ok())
    graph = GraphExec(context, instance);
  return status;
}

Status Runner::replay(GraphExec &graph, const char *what,
                      FunctionRef<Status()> enqueue) {
  Status status;
  if (replays() && !graph)
    status = record(graph, what, enqueue);
  if (!status.ok())
    return status;
  if (!replays())
    return enqueue();
  return context->check((*context)->cuGraphLaunch(graph.get(), stream.get()),
                        "cuGraphLaunch", std::string("launching ") + what);
}

void Runner::redirect(std::vector<Launch> &launches, Argument::Kind kind,
                      uint64_t value, CUdeviceptr to) {
  for (Launch &launch : launches)
    for (size_t i = 0; i < launch.values.size(); ++i) {
      const Argument &argument = launch.step->arguments[i];
      if (argument.kind == kind && argument.value == value)
        launch.values[i] = to;
    }
}

Status Runner::roomForEmbeddings() {
  if (embeddings)
    return Status();
  auto allocated = allocateDevice(context, chunkOfEmbeddings(), "embeddings");
  if (!allocated.ok())
    return allocated.status();
  embeddings = std::move(*allocated);
  return Status();
}

Status Runner::placeEmbeddings(std::vector<Launch> &launches,
                               const std::byte *given, int64_t tokens) {
  const Manifest &manifest = model.manifest();
  if (!manifest.embedding || model.embedsOnHost())
    return Status();
  const WeightSpec &table = manifest.weights[*manifest.embedding];
  uint64_t rowBytes = manifest.embeddingBytes();
  Status status;
  if (given)
    status = roomForEmbeddings();
  if (status.ok() && given)
    status = copyIn(embeddings.get(), given,
                    static_cast<uint64_t>(tokens) * rowBytes);
  redirect(launches, Argument::Weight, table.slot,
           given ? embeddings.get() : model.slot(table.slot));
  return status;
}

Status Runner::roomFor(std::vector<Launch> &launches, int64_t rows,
                       int64_t first) {
  if (rows > 1 && rows > logitsRows) {
    logits = DeviceMemory();
    logitsRows = 0;
    auto allocated = allocateDevice(
        context, static_cast<uint64_t>(rows) * rowBytes(), "logits");
    if (!allocated.ok())
      return allocated.status();
    logits = std::move(*allocated);
    logitsRows = rows;
  }
  redirect(launches, Argument::Logits, 0,
           logitsOf(rows) + static_cast<uint64_t>(first) * rowBytes());
  return Status();
}

/// The bytes of `rows` hidden states.
static uint64_t hiddenBytes(const Manifest &manifest, int64_t rows) {
  return static_cast<uint64_t>(rows * manifest.hiddenSize) * sizeof(float);
}

Status Runner::roomForHidden(std::vector<Launch> &launches, int64_t rows) {
  if (rows > hiddenRows) {
    hidden = DeviceMemory();
    hiddenRows = 0;
    auto allocated = allocateDevice(
        context, hiddenBytes(model.manifest(), rows), "hidden states");
    if (!allocated.ok())
      return allocated.status();
    hidden = std::move(*allocated);
    hiddenRows = rows;
  }
  if (rows)
    redirect(launches, Argument::Hidden, 0, hidden.get());
  return Status();
}

Status Runner::copyHidden(const Step &step) {
  if (!step.hiddenRows)
    return Status();
  const char *doing = "copying hidden states";
  return ended(copyOut(step.hidden, hidden.get(),
                       hiddenBytes(model.manifest(), step.hiddenRows), doing),
               doing);
}

} // namespace cria::cuda
