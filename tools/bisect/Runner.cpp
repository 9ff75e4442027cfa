#include "tools/bisect/Runner.h"

#include "runtime/weights/Floats.h"

#include <algorithm>
#include <cstring>

namespace cria {

std::vector<std::string> Made::names() const {
  std::vector<std::string> names = {kernel.key(result, turn)};
  for (const TapName &name : kernel.results[result].names)
    if (name.step || turn == 0) // else it is the first turn's name
      names.push_back(name.at(turn));
  if (kernel.results[result].logits)
    names.push_back("logits");
  return names;
}

Result<Runner> Runner::open(const std::string &path,
                            const WeightSource &weights,
                            const DeviceOptions &device, int threads) {
  auto artifact = Artifact::open(path);
  if (!artifact.ok())
    return artifact.status();
  Result<Taps> taps = readTaps(**artifact);
  if (!taps.ok())
    return taps.status();
  auto model = Model::load(*artifact, weights, device);
  if (!model.ok())
    return model.status();
  Runner runner;
  runner.model = *model;
  runner.described = std::move(*taps);
  runner.threads = threads;
  return runner;
}

DType Runner::type() const {
  return dtypeNamed(manifest().dtype).value_or(DType::F32);
}

bool Runner::isBlocked() const {
  auto blocks = [](DType type) { return cria::isBlocked(type); };
  for (const WeightSpec &weight : manifest().weights)
    if (blocks(weight.type))
      return true;
  for (const CacheSpec &cache : manifest().caches)
    if (blocks(*weightTypeNamed(cache.type)))
      return true;
  return false;
}

std::vector<Runner::Call> Runner::callsOf(const Recording &prompt) const {
  std::vector<Call> calls;
  const std::vector<int32_t> &ids = prompt.ids;
  if (!prompt.sourceIds.empty())
    calls.push_back({"encode", prompt.sourceIds.data(),
                     static_cast<int64_t>(prompt.sourceIds.size()), 0});
  auto count = static_cast<int64_t>(ids.size());
  int64_t together = manifest().bidirectional ? count : count - 1;
  for (int64_t at = 0; at < count;) {
    int64_t tokens =
        at < together ? std::min(manifest().chunk, together - at) : 1;
    bool decodes = tokens == 1 && !manifest().bidirectional;
    calls.push_back({decodes ? "decode" : "prefill", &ids[at], tokens, at});
    at += tokens;
  }
  return calls;
}

/// One session, and its state from call to call.
class Runner::Run {
public:
  Run(const Runner &runner, std::unique_ptr<Session> session,
      const Recording *given)
      : manifest(runner.manifest()), taps(runner.described),
        session(std::move(session)), given(given),
        memory(manifest.caches.size()) {}

  Status perform(const Call &call, const Visitor &visit);

private:
  using Body = std::function<void(const TapKernel &, size_t, int64_t)>;
  void forEach(const std::string &entry, const Body &body) const;
  Status giveResults(const Call &call);
  bool give(const TapKernel &kernel, size_t result, const Call &call);
  Status giveCaches(const Call &call);
  Status feed(const Call &call);
  Status read(size_t cache);
  std::vector<std::byte> &bytesOf(size_t cache);
  Rows rowsOf(const TapKernel &kernel, size_t result, int64_t turn,
              const Call &call);
  void moveCacheRows(const TapResult &result, int64_t turn, int64_t position,
                     Rows &rows, bool write);

  const Manifest &manifest;
  const Taps &taps;
  std::unique_ptr<Session> session;
  const Recording *given;
  std::vector<std::vector<std::byte>> memory; // of caches that were read
  std::vector<float> logits;                  // of the call
};

static DType typeOf(const CacheSpec &spec) {
  return *weightTypeNamed(spec.type);
}

static void toFloats(const std::byte *from, DType type, float *to,
                     uint64_t count) {
  convertElements(from, type, reinterpret_cast<std::byte *>(to), DType::F32,
                  count);
}

static void fromFloats(const float *from, std::byte *to, DType type,
                       uint64_t count) {
  convertElements(reinterpret_cast<const std::byte *>(from), DType::F32, to,
                  type, count);
}

/// Calls `body` for the results of an entry, block by block and turn by turn.
void Runner::Run::forEach(const std::string &entry, const Body &body) const {
  auto kernel = taps.kernels.begin();
  while (kernel != taps.kernels.end()) {
    auto end =
        std::find_if(kernel, taps.kernels.end(), [&](const TapKernel &other) {
          return other.block != kernel->block;
        });
    for (int64_t turn = 0; turn < kernel->turns; ++turn)
      for (auto each = kernel; each != end && each->entry == entry; ++each)
        for (size_t i = 0; i < each->results.size(); ++i)
          body(*each, i, turn);
    kernel = end;
  }
}

std::vector<std::byte> &Runner::Run::bytesOf(size_t cache) {
  memory[cache].resize(manifest.caches[cache].bytes);
  return memory[cache];
}

Status Runner::Run::read(size_t cache) {
  return session->readCache(cache, bytesOf(cache).data());
}

/// Puts the given rows of a result, of all turns, into memory. False if some of
/// them were not given.
bool Runner::Run::give(const TapKernel &kernel, size_t result,
                       const Call &call) {
  const TapResult &tap = kernel.results[result];
  const CacheSpec &spec = manifest.caches[*tap.given];
  auto position = static_cast<uint64_t>(call.position),
       tokens = static_cast<uint64_t>(call.tokens),
       room = spec.bytes / spec.shape[0];
  for (int64_t turn = 0; turn < kernel.turns; ++turn) {
    Made made = {kernel, result, turn, call.position, {}};
    const Rows *rows = given->find(made.names(), tap.width, position + tokens);
    if (!rows)
      return false;
    fromFloats(rows->at(position),
               bytesOf(*tap.given).data() + static_cast<uint64_t>(turn) * room,
               typeOf(spec), tokens * tap.width);
  }
  return true;
}

/// Replaces the results of an entry by the given ones, if they are given.
Status Runner::Run::giveResults(const Call &call) {
  const CacheSpec &spec = manifest.caches[taps.force];
  std::vector<float> force(spec.bytes / sizeof(float));
  for (const TapKernel &kernel : taps.kernels)
    for (size_t i = 0; i < kernel.results.size(); ++i) {
      const TapResult &result = kernel.results[i];
      if (!result.made || kernel.entry != call.entry || !give(kernel, i, call))
        continue;
      force[result.force] = 1;
      Status status =
          session->writeCache(*result.given, bytesOf(*result.given).data());
      if (!status.ok())
        return status;
    }
  return session->writeCache(taps.force,
                             reinterpret_cast<const std::byte *>(force.data()));
}

/// Copies rows of a cache, from `position` on, to or from the rows of a result.
/// In one layer, the cache is (heads, positions, size), the result (positions,
/// heads, size).
void Runner::Run::moveCacheRows(const TapResult &result, int64_t turn,
                                int64_t position, Rows &rows, bool write) {
  const CacheSpec &spec = manifest.caches[*result.cache];
  uint64_t heads = spec.shape[1], positions = spec.shape[2],
           size = spec.shape[3], count = rows.count();
  auto layer = static_cast<uint64_t>(result.first + result.step * turn);
  if (layer >= spec.shape[0])
    return;
  std::vector<std::byte> &bytes = bytesOf(*result.cache);
  for (uint64_t row = 0; row < count; ++row)
    for (uint64_t head = 0; head < heads; ++head) {
      uint64_t at = (layer * heads + head) * positions +
                    static_cast<uint64_t>(position) + row;
      float *values = &rows.values[row * rows.width + head * size];
      std::byte *place = &bytes[cria::bytesOf(typeOf(spec), at * size)];
      if (write)
        fromFloats(values, place, typeOf(spec), size);
      else
        toFloats(place, typeOf(spec), values, size);
    }
}

/// Puts the given rows into the KV caches: all before the call, and also the
/// call's own rows if the kernels that make them are left out.
Status Runner::Run::giveCaches(const Call &call) {
  auto end =
      static_cast<uint64_t>(call.position + (taps.isPart() ? call.tokens : 0));
  std::vector<bool> isRead(memory.size());
  Status status;
  forEach(call.entry, [&](const TapKernel &kernel, size_t i, int64_t turn) {
    const TapResult &result = kernel.results[i];
    if (!result.cache || end == 0 || !status.ok())
      return;
    size_t cache = *result.cache;
    if (!isRead[cache])
      status = read(cache);
    isRead[cache] = true;
    const CacheSpec &spec = manifest.caches[cache];
    Made made = {kernel, i, turn, 0, {}};
    const Rows *rows =
        given->find(made.names(), spec.shape[1] * spec.shape[3], end);
    if (!rows || !status.ok())
      return;
    Rows some = *rows;
    some.values.resize(end * rows->width);
    moveCacheRows(result, turn, 0, some, true);
    status = session->writeCache(cache, memory[cache].data());
  });
  return status;
}

Status Runner::Run::feed(const Call &call) {
  if (call.entry == "encode")
    return session->encode(call.ids, call.tokens);
  logits.resize(static_cast<size_t>(call.tokens * manifest.vocabSize));
  return session->feed(call.ids, call.tokens, CRIA_LOGITS_ALL, logits.data());
}

/// The rows that a kernel has made in this call. Its memory was read before.
Rows Runner::Run::rowsOf(const TapKernel &kernel, size_t i, int64_t turn,
                         const Call &call) {
  const TapResult &result = kernel.results[i];
  auto tokens = static_cast<uint64_t>(call.tokens);
  if (result.logits)
    return {DType::F32, static_cast<uint64_t>(manifest.vocabSize), logits};
  const CacheSpec &spec = manifest.caches[result.made.value_or(*result.cache)];
  uint64_t width = result.cache ? spec.shape[1] * spec.shape[3] : result.width;
  Rows rows = {typeOf(spec), width, std::vector<float>(tokens * width)};
  if (result.cache)
    moveCacheRows(result, turn, call.position, rows, false);
  else
    toFloats(&memory[*result.made]
                    [static_cast<uint64_t>(turn) * spec.bytes / spec.shape[0]],
             typeOf(spec), rows.values.data(), tokens * width);
  return rows;
}

Status Runner::Run::perform(const Call &call, const Visitor &visit) {
  Status status;
  if (given)
    status = giveCaches(call);
  if (given && status.ok())
    status = giveResults(call);
  if (status.ok())
    status = feed(call);
  for (const TapKernel &kernel : taps.kernels)
    for (const TapResult &result : kernel.results)
      if (kernel.entry == call.entry && status.ok() &&
          (result.made || result.cache))
        status = read(result.made ? *result.made : *result.cache);
  if (!status.ok())
    return status;
  forEach(call.entry, [&](const TapKernel &kernel, size_t i, int64_t turn) {
    const TapResult &result = kernel.results[i];
    if (!kernel.leftOut && (result.made || result.cache || result.logits))
      visit({kernel, i, turn, call.position, rowsOf(kernel, i, turn, call)});
  });
  return Status();
}

Status Runner::run(const Recording &prompt, const Recording *given,
                   const Visitor &visit) const {
  auto session = Session::create(model, threads);
  if (!session.ok())
    return session.status();
  Run run(*this, std::move(*session), given);
  for (const Call &call : callsOf(prompt))
    if (Status status = run.perform(call, visit); !status.ok())
      return status;
  return Status();
}

Status Runner::record(Recording &recording) const {
  return run(recording, nullptr, [&](const Made &made) {
    Rows &all = recording.results[made.names().front()];
    all.type = made.rows.type;
    all.width = made.rows.width;
    all.values.insert(all.values.end(), made.rows.values.begin(),
                      made.rows.values.end());
  });
}

} // namespace cria
