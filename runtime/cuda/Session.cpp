#include "runtime/cuda/Session.h"

#include "runtime/Json.h"
#include "runtime/Sampler.h"
#include "runtime/cuda/Model.h"

#include <algorithm>
#include <cstring>

namespace cria::cuda {

/// The ids follow the state at this distance, in pinned and device memory.
static constexpr uint64_t idsOffset = 64;

Session::Session(const Model &model)
    : model(model), context(model.context()),
      usesGraph(context->library().hasGraphs()) {}

Result<std::unique_ptr<Backend>> Session::create(const Model &model) {
  std::unique_ptr<Session> session(new Session(model));
  Current current(*session->context);
  Status status = current.status();
  if (status.ok())
    status = session->allocate();
  if (status.ok())
    status = session->ropes.allocate(session->context, model.manifest());
  if (status.ok())
    status = session->clearWorkspace();
  if (status.ok())
    status = session->expand();
  if (!status.ok())
    return status;
  return std::unique_ptr<Backend>(std::move(session));
}

/// Makes the launches of all entries, and forgets the graphs of those before.
Status Session::expand() {
  const Part &part = *model.manifest().cuda;
  std::vector<Launch> made[4];
  auto *next = made;
  for (const Entry *entry :
       {&part.prefill, &part.decode, &part.sample, &part.encode})
    if (Status status = expand(*entry, *next++); !status.ok())
      return status;
  prefillLaunches = std::move(made[0]);
  decodeLaunches = std::move(made[1]);
  sampleLaunches = std::move(made[2]);
  encodeLaunches = std::move(made[3]);
  for (GraphExec &graph : graphs)
    graph = GraphExec();
  return Status();
}

Status Session::use(const BoundLoras *chosen) {
  if (chosen == loras)
    return Status();
  Current current(*context);
  Status status = current.status();
  const BoundLoras *before = std::exchange(loras, chosen);
  if (status.ok())
    status = expand();
  if (!status.ok())
    loras = before;
  return status;
}

/// New device memory, zeroed in the stream.
Result<CUdeviceptr> Session::zeroed(uint64_t bytes, const char *purpose) {
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

Status Session::allocate() {
  const Manifest &manifest = model.manifest();
  Result<Stream> made = makeStream(context);
  if (!made.ok())
    return made.status();
  stream = std::move(*made);
  for (const CacheSpec &spec : manifest.caches) {
    Result<CUdeviceptr> cache = zeroed(spec.bytes, "a KV cache");
    if (!cache.ok())
      return cache.status();
    caches.push_back(*cache);
  }
  Result<DeviceMemory> scratch =
      allocateDevice(context, manifest.cuda->arenaBytes, "scratch");
  if (!scratch.ok())
    return scratch.status();
  arena = scratch->get();
  memory.push_back(std::move(*scratch));
  uint64_t stateBytes =
      idsOffset + static_cast<uint64_t>(manifest.chunk) * sizeof(int32_t);
  struct Pair {
    CUdeviceptr *device;
    PinnedMemory *pinned;
    uint64_t bytes;
  };
  for (auto [device, pinned, bytes] :
       {Pair{&state, &pinnedState, stateBytes},
        Pair{&logitsRow, &pinnedRow, rowBytes()}}) {
    Result<CUdeviceptr> address = zeroed(bytes, "ids and logits");
    if (!address.ok())
      return address.status();
    *device = *address;
    auto allocated = allocatePinned(context, bytes, "ids and logits");
    if (!allocated.ok())
      return allocated.status();
    *pinned = std::move(*allocated);
  }
  for (auto [pinned, bytes] :
       {std::pair(&seen, seenBytes()),
        std::pair(&sampled, uint64_t{sizeof(CriaSampled)})}) {
    auto allocated = allocatePinned(context, bytes, "drawing ids");
    if (!allocated.ok())
      return allocated.status();
    *pinned = std::move(*allocated);
    memset(pinned->get(), 0, bytes);
  }
  return Status();
}

uint64_t Session::rowBytes() const {
  return static_cast<uint64_t>(model.manifest().vocabSize) * sizeof(float);
}

uint64_t Session::hiddenBytes() const {
  return static_cast<uint64_t>(model.manifest().hiddenSize) * sizeof(float);
}

uint64_t Session::seenBytes() const {
  return static_cast<uint64_t>(model.manifest().vocabSize + 31) / 32 *
         sizeof(uint32_t);
}

/// Zeroes the part of the scratch whose values outlive a launch.
Status Session::clearWorkspace() {
  const Part &part = *model.manifest().cuda;
  Status status;
  if (part.zeroedBytes)
    status = context->check(
        (*context)->cuMemsetD8Async(arena + part.zeroedOffset, 0,
                                    part.zeroedBytes, stream.get()),
        "cuMemsetD8Async", "clearing scratch");
  Status cleared = context->wait(stream.get(), "clearing a session's memory");
  return status.ok() ? cleared : status;
}

CUdeviceptr Session::address(const Argument &argument, uint64_t layer) const {
  switch (argument.kind) {
  case Argument::Weight: {
    uint64_t slot = argument.value + layer * argument.perLayer;
    CUdeviceptr own = ropes.slot(slot);
    if (!own && loras)
      own = loras->find(slot);
    return own ? own : model.slot(slot);
  }
  case Argument::Cache:
    return caches[argument.value] + argument.offset + layer * argument.perLayer;
  case Argument::Arena:
    return arena + argument.value;
  case Argument::State:
    return state;
  case Argument::Ids:
    return state + idsOffset;
  case Argument::Logits:
    return logitsRow;
  case Argument::Hidden:
    return 0; // until there is room; nothing is launched with it before
  // The device has pinned memory at the host's address.
  case Argument::Seen:
    return reinterpret_cast<CUdeviceptr>(seen.get());
  case Argument::Sampled:
    return reinterpret_cast<CUdeviceptr>(sampled.get());
  }
  return 0;
}

/// What the device knows the tensor at `address` by.
Status Session::encode(const TensorMap &map, CUdeviceptr address,
                       const std::string &kernel, CUtensorMap &encoded) const {
  std::vector<cuuint64_t> sizes(map.sizes.begin(), map.sizes.end()), strides;
  for (uint64_t stride : map.strides)
    strides.push_back(stride * 2);
  std::vector<cuuint32_t> each(sizes.size(), 1);
  return context->check(
      (*context)->cuTensorMapEncodeTiled(
          &encoded,
          map.isBfloat ? CU_TENSOR_MAP_DATA_TYPE_BFLOAT16
                       : CU_TENSOR_MAP_DATA_TYPE_FLOAT16,
          static_cast<cuuint32_t>(sizes.size()),
          reinterpret_cast<void *>(address), sizes.data(), strides.data(),
          map.box.data(), each.data(), CU_TENSOR_MAP_INTERLEAVE_NONE,
          CU_TENSOR_MAP_SWIZZLE_128B, CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
          CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE),
      "cuTensorMapEncodeTiled", "preparing kernel " + quote(kernel));
}

/// Gives a launch its arguments.
Status Session::bind(const LaunchStep &step, uint64_t layer,
                     Launch &launch) const {
  for (const Argument &argument : step.arguments) {
    launch.values.push_back(address(argument, layer));
    if (!argument.map)
      continue;
    Status status = encode(*argument.map, launch.values.back(), step.kernel,
                           launch.maps.emplace_back());
    if (!status.ok())
      return status;
  }
  CUtensorMap *map = launch.maps.data();
  for (size_t i = 0; i < launch.values.size(); ++i)
    launch.parameters.push_back(
        step.arguments[i].map ? static_cast<void *>(map++) : &launch.values[i]);
  return Status();
}

/// The launches of an entry, layer after layer.
Status Session::expand(const Entry &entry,
                       std::vector<Launch> &launches) const {
  for (const EntryStep &step : entry)
    for (uint64_t layer = 0; layer < step.layers; ++layer)
      for (const LaunchStep &from : step.launches) {
        if (!model.code().runs(from))
          continue;
        Launch launch = {&from, model.code().kernel(from.kernel), {}, {}, {}};
        Status status = bind(from, layer, launch);
        if (!status.ok())
          return status;
        launches.push_back(std::move(launch));
      }
  return Status();
}

Status Session::step(const Step &step) {
  Current current(*context);
  if (!current.status().ok())
    return current.status();
  writeState(step, CriaSampling());
  Status status = advance(step, Wanted::Logits);
  if (status.ok() && step.isDecode())
    memcpy(step.logits, pinnedRow.get(), rowBytes());
  return status;
}

Result<int32_t> Session::draw(const Step &step, Sampler &sampler) {
  Current current(*context);
  if (!current.status().ok())
    return current.status();
  if (sampler.needsLogits()) {
    std::vector<float> row(static_cast<size_t>(model.manifest().vocabSize));
    Step whole = step;
    whole.logits = row.data();
    Status status = this->step(whole);
    if (!status.ok())
      return status;
    return sampler.sample(row.data());
  }
  CriaSampling sampling = sampler.next();
  writeState(step, sampling);
  if (sampling.penalty != 1)
    memcpy(seen.get(), sampler.seenBits().data(), seenBytes());
  Status status = advance(step, Wanted::Id);
  if (!status.ok())
    return status;
  CriaSampled drawn;
  memcpy(&drawn, sampled.get(), sizeof(drawn));
  return sampler.verdict(drawn);
}

Status Session::encode(const int32_t *ids, int64_t count) {
  Current current(*context);
  if (!current.status().ok())
    return current.status();
  Step step = {ids, count, 0, count, nullptr, count, count};
  writeState(step, CriaSampling());
  return traced([&] {
    Status status = ropes.enqueue(step, stream.get());
    if (status.ok())
      status = enqueueState(count);
    if (status.ok())
      status = launch(encodeLaunches, count, 0);
    return ended(status, "encoding");
  });
}

Status Session::readCache(size_t cache, uint64_t begin, std::byte *to,
                          uint64_t bytes) {
  Current current(*context);
  if (!current.status().ok())
    return current.status();
  const char *doing = "saving a KV cache";
  return ended(copyOut(to, caches[cache] + begin, bytes, doing), doing);
}

Status Session::writeCache(size_t cache, uint64_t begin, const std::byte *from,
                           uint64_t bytes) {
  Current current(*context);
  if (!current.status().ok())
    return current.status();
  const char *doing = "restoring a KV cache";
  return ended(copyIn(caches[cache] + begin, from, bytes, doing), doing);
}

/// What a step came to, when all that it launched has ended: that still uses
/// memory which may then be freed.
Status Session::ended(const Status &status, const char *doing) {
  Status waited = context->wait(stream.get(), doing);
  return status.ok() ? waited : status;
}

Status Session::advance(const Step &step, Wanted wanted) {
  return traced([&] {
    Status status = ropes.enqueue(step, stream.get());
    if (status.ok())
      status = step.isDecode() ? decode(wanted) : prefill(step, wanted);
    return status.ok() ? status : ended(status, "what was launched");
  });
}

Status Session::trace(std::vector<KernelTime> *into) {
  if (into && !context->library().hasTimes())
    return Status(CRIA_UNAVAILABLE,
                  "the CUDA driver has no cuEventElapsedTime");
  kernelTimes = into;
  return Status();
}

/// Does `work`, which waits for its launches. Where the user wants their times,
/// appends them: the last ended now, and each where the next begins.
template <typename Work> Status Session::traced(const Work &work) {
  using Clock = std::chrono::steady_clock;
  if (!kernelTimes)
    return work();
  Timer marks(context);
  timer = &marks;
  Status status = work();
  timer = nullptr;
  if (!status.ok())
    return status;
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

void Session::writeState(const Step &step, const CriaSampling &sampling) {
  auto *to = static_cast<std::byte *>(pinnedState.get());
  CriaStepState header = {static_cast<int32_t>(step.position),
                          static_cast<int32_t>(step.tokens),
                          static_cast<int32_t>(step.firstLogit),
                          static_cast<int32_t>(step.source),
                          sampling,
                          static_cast<int32_t>(step.firstHidden())};
  static_assert(sizeof(header) <= idsOffset);
  memcpy(to, &header, sizeof(header));
  memcpy(to + idsOffset, step.ids,
         static_cast<size_t>(step.tokens) * sizeof(int32_t));
}

Status Session::copyIn(CUdeviceptr to, const void *from, uint64_t bytes,
                       const char *doing) {
  return context->check(
      (*context)->cuMemcpyHtoDAsync(to, from, bytes, stream.get()),
      "cuMemcpyHtoDAsync", doing);
}

Status Session::copyOut(void *to, CUdeviceptr from, uint64_t bytes,
                        const char *doing) {
  return context->check(
      (*context)->cuMemcpyDtoHAsync(to, from, bytes, stream.get()),
      "cuMemcpyDtoHAsync", doing);
}

Status Session::enqueueState(int64_t tokens) {
  return copyIn(state, pinnedState.get(),
                idsOffset + static_cast<uint64_t>(tokens) * sizeof(int32_t));
}

/// Launches a kernel. With `overlaps` it may begin before the launch before it
/// has ended.
Status Session::launch(const Launch &launch, const unsigned (&grid)[3],
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

/// Launches kernels. Those behind the first may overlap the launch before; the
/// first may where it `follows` one, too, and no copy.
Status Session::launch(const std::vector<Launch> &launches, int64_t tokens,
                       int64_t rows, int64_t hiddenRows, bool follows) {
  // Launches that are timed stay apart.
  bool mayOverlap =
      model.code().isDependent() && context->library().hasOverlap() && !timer;
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
    Status launched = this->launch(launch, grid, overlaps);
    if (!launched.ok())
      return launched;
    overlaps = mayOverlap;
  }
  return timer ? timer->mark(nullptr, stream.get()) : Status();
}

Status Session::enqueueDecode(Wanted wanted) {
  Status status = enqueueState(1);
  if (status.ok())
    status = launch(decodeLaunches, 1, 1);
  if (!status.ok())
    return status;
  return wanted == Wanted::Id
             ? launch(sampleLaunches, 1, 1, 0, /*follows=*/true)
             : copyOut(pinnedRow.get(), logitsRow, rowBytes());
}

/// Records a decode step as a graph. A driver that cannot leaves the session
/// without one.
Status Session::capture(Wanted wanted) {
  const char *doing = "recording the decode step";
  // Relaxed: other threads may allocate meanwhile, and this one does not.
  CUresult begun = (*context)->cuStreamBeginCapture(
      stream.get(), CU_STREAM_CAPTURE_MODE_RELAXED);
  if (begun == CUDA_ERROR_NOT_SUPPORTED ||
      begun == CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED) {
    usesGraph = false;
    model.log()(CRIA_LOG_WARNING, "the CUDA driver records no decode step: its "
                                  "kernels are launched one by one");
    return Status();
  }
  Status status = context->check(begun, "cuStreamBeginCapture", doing);
  if (!status.ok())
    return status;
  status = enqueueDecode(wanted);
  CUgraph recorded = nullptr; // ends the capture, also of what failed
  CUresult ended = (*context)->cuStreamEndCapture(stream.get(), &recorded);
  Graph owned(context, recorded);
  if (status.ok())
    status = context->check(ended, "cuStreamEndCapture", doing);
  if (!status.ok())
    return status;
  CUgraphExec instance = nullptr;
  status = context->check(
      (*context)->cuGraphInstantiateWithFlags(&instance, recorded, 0),
      "cuGraphInstantiateWithFlags", doing);
  if (status.ok())
    graphs[static_cast<int>(wanted)] = GraphExec(context, instance);
  return status;
}

Status Session::decode(Wanted wanted) {
  const GraphExec &graph = graphs[static_cast<int>(wanted)];
  Status status;
  bool replays = usesGraph && !timer;
  if (replays && !graph)
    status = capture(wanted);
  if (status.ok())
    status = replays && graph
                 ? context->check(
                       (*context)->cuGraphLaunch(graph.get(), stream.get()),
                       "cuGraphLaunch", "launching the decode step")
                 : enqueueDecode(wanted);
  return status.ok() ? context->wait(stream.get(), "a decode step") : status;
}

/// Makes the prefill take `to` as the address of an argument.
void Session::redirect(Argument::Kind kind, uint64_t value, CUdeviceptr to) {
  for (Launch &launch : prefillLaunches)
    for (size_t i = 0; i < launch.values.size(); ++i) {
      const Argument &argument = launch.step->arguments[i];
      if (argument.kind == kind && argument.value == value)
        launch.values[i] = to;
    }
}

/// Makes the prefill look ids up in the step's embeddings, or in the model's.
Status Session::placeEmbeddings(const Step &step) {
  const Manifest &manifest = model.manifest();
  if (!manifest.embedding)
    return Status();
  const WeightSpec &table = manifest.weights[*manifest.embedding];
  uint64_t rowBytes = manifest.embeddingBytes();
  Status status;
  if (step.embeddings && !embeddings) {
    auto allocated = allocateDevice(
        context, static_cast<uint64_t>(manifest.chunk) * rowBytes,
        "embeddings");
    if (!allocated.ok())
      return allocated.status();
    embeddings = std::move(*allocated);
  }
  if (step.embeddings)
    status = copyIn(embeddings.get(), step.embeddings,
                    static_cast<uint64_t>(step.tokens) * rowBytes);
  redirect(Argument::Weight, table.slot,
           step.embeddings ? embeddings.get() : model.slot(table.slot));
  return status;
}

/// Makes the prefill's logits hold `rows` rows.
Status Session::roomFor(int64_t rows) {
  CUdeviceptr target = rows > 1 ? logits.get() : logitsRow;
  if (rows > 1 && rows > logitsRows) {
    logits = DeviceMemory();
    logitsRows = 0;
    auto allocated = allocateDevice(
        context, static_cast<uint64_t>(rows) * rowBytes(), "logits");
    if (!allocated.ok())
      return allocated.status();
    logits = std::move(*allocated);
    logitsRows = rows;
    target = logits.get();
  }
  redirect(Argument::Logits, 0, target);
  return Status();
}

/// Makes the prefill's hidden states hold `rows` rows.
Status Session::roomForHidden(int64_t rows) {
  if (rows <= hiddenRows)
    return Status();
  hidden = DeviceMemory();
  hiddenRows = 0;
  auto allocated = allocateDevice(
      context, static_cast<uint64_t>(rows) * hiddenBytes(), "hidden states");
  if (!allocated.ok())
    return allocated.status();
  hidden = std::move(*allocated);
  hiddenRows = rows;
  redirect(Argument::Hidden, 0, hidden.get());
  return Status();
}

Status Session::enqueuePrefill(const Step &step, Wanted wanted) {
  int64_t rows = step.tokens - step.firstLogit;
  Status status = roomFor(rows);
  if (status.ok())
    status = roomForHidden(step.hiddenRows);
  if (status.ok())
    status = placeEmbeddings(step);
  if (status.ok())
    status = enqueueState(step.tokens);
  if (status.ok())
    status = launch(prefillLaunches, step.tokens, rows, step.hiddenRows);
  if (status.ok() && wanted == Wanted::Id)
    status = launch(sampleLaunches, 1, 1, 0, /*follows=*/true);
  return status;
}

Status Session::prefill(const Step &step, Wanted wanted) {
  int64_t rows = step.tokens - step.firstLogit;
  Status status = enqueuePrefill(step, wanted);
  // The copy to memory that is not pinned would wait as well, but for ever.
  if (status.ok())
    status = context->wait(stream.get(), "a prefill step");
  if (status.ok() && step.hiddenRows)
    status = copyOut(step.hidden, hidden.get(),
                     static_cast<uint64_t>(step.hiddenRows) * hiddenBytes(),
                     "copying hidden states from the device");
  bool copies = wanted == Wanted::Logits && rows > 0;
  if (status.ok() && copies)
    status = copyOut(step.logits, rows > 1 ? logits.get() : logitsRow,
                     static_cast<uint64_t>(rows) * rowBytes());
  if (!status.ok() || (!copies && !step.hiddenRows))
    return status;
  return context->wait(stream.get(), "copying logits and hidden states");
}

} // namespace cria::cuda
