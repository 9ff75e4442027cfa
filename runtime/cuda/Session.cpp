#include "runtime/cuda/Session.h"

#include "runtime/Json.h"
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
    status = session->clearWorkspace();
  if (!status.ok())
    return status;
  const Part &part = *model.manifest().cuda;
  session->prefillLaunches = session->expand(part.prefill);
  session->decodeLaunches = session->expand(part.decode);
  return std::unique_ptr<Backend>(std::move(session));
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
  uint64_t rowBytes = static_cast<uint64_t>(manifest.vocabSize) * sizeof(float);
  for (auto [address, bytes] : {std::make_pair(&state, stateBytes),
                                std::make_pair(&logitsRow, rowBytes)}) {
    Result<CUdeviceptr> allocated = zeroed(bytes, "ids and logits");
    if (!allocated.ok())
      return allocated.status();
    *address = *allocated;
  }
  for (auto [pinned, bytes] : {std::make_pair(&pinnedState, stateBytes),
                               std::make_pair(&pinnedRow, rowBytes)}) {
    auto allocated = allocatePinned(context, bytes, "ids and logits");
    if (!allocated.ok())
      return allocated.status();
    *pinned = std::move(*allocated);
  }
  return Status();
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
  case Argument::Weight:
    return model.slot(argument.value + layer * argument.perLayer);
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
  }
  return 0;
}

/// The launches of an entry, layer after layer.
std::vector<Launch> Session::expand(const Entry &entry) const {
  std::vector<Launch> launches;
  for (const EntryStep &step : entry)
    for (uint64_t layer = 0; layer < step.layers; ++layer)
      for (const LaunchStep &from : step.launches) {
        Launch launch = {&from, model.code().kernel(from.kernel), {}, {}};
        for (const Argument &argument : from.arguments)
          launch.values.push_back(address(argument, layer));
        for (CUdeviceptr &value : launch.values)
          launch.parameters.push_back(&value);
        launches.push_back(std::move(launch));
      }
  return launches;
}

/// Makes the prefill's logits hold `rows` rows.
Status Session::roomFor(int64_t rows) {
  CUdeviceptr target = rows > 1 ? logits.get() : logitsRow;
  if (rows > 1 && rows > logitsRows) {
    logits = DeviceMemory();
    logitsRows = 0;
    uint64_t bytes = static_cast<uint64_t>(rows) * sizeof(float) *
                     static_cast<uint64_t>(model.manifest().vocabSize);
    auto allocated = allocateDevice(context, bytes, "logits");
    if (!allocated.ok())
      return allocated.status();
    logits = std::move(*allocated);
    logitsRows = rows;
    target = logits.get();
  }
  for (Launch &launch : prefillLaunches)
    for (size_t i = 0; i < launch.values.size(); ++i)
      if (launch.step->arguments[i].kind == Argument::Logits)
        launch.values[i] = target;
  return Status();
}

Status Session::step(const Step &step) {
  Current current(*context);
  if (!current.status().ok())
    return current.status();
  writeState(step);
  bool decodes = step.tokens == 1 && step.firstLogit == 0;
  Status status = decodes ? decode(step) : prefill(step);
  if (!status.ok()) {
    // What was launched before still uses the memory that may now be freed.
    Status ended = context->wait(stream.get(), "what was launched");
    (void)ended;
  }
  return status;
}

void Session::writeState(const Step &step) {
  auto *to = static_cast<std::byte *>(pinnedState.get());
  CriaStepState header = {static_cast<int32_t>(step.position),
                          static_cast<int32_t>(step.tokens),
                          static_cast<int32_t>(step.firstLogit), 0};
  memcpy(to, &header, sizeof(header));
  memcpy(to + idsOffset, step.ids,
         static_cast<size_t>(step.tokens) * sizeof(int32_t));
}

Status Session::enqueueState(int64_t tokens) {
  uint64_t bytes = idsOffset + static_cast<uint64_t>(tokens) * sizeof(int32_t);
  return context->check((*context)->cuMemcpyHtoDAsync(state, pinnedState.get(),
                                                      bytes, stream.get()),
                        "cuMemcpyHtoDAsync", "copying ids to the device");
}

Status Session::launch(const std::vector<Launch> &launches, int64_t tokens,
                       int64_t rows) {
  for (const Launch &launch : launches) {
    const LaunchStep &step = *launch.step;
    unsigned grid[3];
    for (int i = 0; i < 3; ++i)
      grid[i] = static_cast<unsigned>(step.grid[i].at(tokens, rows));
    if (!grid[0] || !grid[1] || !grid[2])
      continue;
    CUresult result = (*context)->cuLaunchKernel(
        launch.function, grid[0], grid[1], grid[2], step.block[0],
        step.block[1], step.block[2], step.shared, stream.get(),
        const_cast<void **>(launch.parameters.data()), nullptr);
    if (result != CUDA_SUCCESS)
      return context->check(result, "cuLaunchKernel",
                            "launching " + quote(step.kernel));
  }
  return Status();
}

Status Session::copyOut(CUdeviceptr from, float *to, int64_t rows) {
  uint64_t bytes = static_cast<uint64_t>(rows) * sizeof(float) *
                   static_cast<uint64_t>(model.manifest().vocabSize);
  return context->check(
      (*context)->cuMemcpyDtoHAsync(to, from, bytes, stream.get()),
      "cuMemcpyDtoHAsync", "copying logits from the device");
}

Status Session::enqueueDecode() {
  Status status = enqueueState(1);
  if (status.ok())
    status = launch(decodeLaunches, 1, 1);
  if (status.ok())
    status = copyOut(logitsRow, static_cast<float *>(pinnedRow.get()), 1);
  return status;
}

/// Records a decode step as a graph. A driver that cannot leaves the session
/// without one.
Status Session::capture() {
  const char *doing = "recording the decode step";
  // Relaxed: other threads may allocate meanwhile, and this one does not.
  CUresult begun = (*context)->cuStreamBeginCapture(
      stream.get(), CU_STREAM_CAPTURE_MODE_RELAXED);
  if (begun == CUDA_ERROR_NOT_SUPPORTED ||
      begun == CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED) {
    usesGraph = false;
    return Status();
  }
  Status status = context->check(begun, "cuStreamBeginCapture", doing);
  if (!status.ok())
    return status;
  status = enqueueDecode();
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
    graph = GraphExec(context, instance);
  return status;
}

Status Session::replay() {
  return context->check((*context)->cuGraphLaunch(graph.get(), stream.get()),
                        "cuGraphLaunch", "launching the decode step");
}

Status Session::decode(const Step &step) {
  Status status;
  if (usesGraph && !graph)
    status = capture();
  if (status.ok())
    status = graph ? replay() : enqueueDecode();
  if (status.ok())
    status = context->wait(stream.get(), "a decode step");
  if (status.ok())
    memcpy(step.logits, pinnedRow.get(),
           static_cast<size_t>(model.manifest().vocabSize) * sizeof(float));
  return status;
}

Status Session::prefill(const Step &step) {
  int64_t rows = step.tokens - step.firstLogit;
  Status status = roomFor(rows);
  if (status.ok())
    status = enqueueState(step.tokens);
  if (status.ok())
    status = launch(prefillLaunches, step.tokens, rows);
  // The copy to memory that is not pinned would wait as well, but for ever.
  if (status.ok())
    status = context->wait(stream.get(), "a prefill step");
  if (status.ok() && rows > 0)
    status = copyOut(rows > 1 ? logits.get() : logitsRow, step.logits, rows);
  if (status.ok() && rows > 0)
    status = context->wait(stream.get(), "copying logits");
  return status;
}

} // namespace cria::cuda
