#include "tools/serve/SharedBatch.h"

#include <cstring>
#include <iterator>
#include <map>
#include <optional>
#include <thread>

namespace cria::serve {

namespace {

enum class Order : uint8_t {
  Join,
  Feed,
  Propose,
  Leave,
  Unmask,
  Step,
  Pass,
  Rest,
  End
};

/// What a sequence begins with; ids and biases follow.
struct Joining {
  cria_sampler_options sampling;
  int32_t adapters, salt;
  bool embeds, logits, hasMask;
};

/// What a pass over a prompt begins with; ids follow.
struct Passing {
  uint64_t done, promptSize;
  int32_t adapters;
};

} // namespace

void beginPrompt(Session &session, const Engine &engine,
                 const LoraSet *adapters, size_t size) {
  session.rewind(0);
  if (!engine.adapters.empty())
    session.setLora(adapters);
  session.expectPrompt(size);
}

// ---- Rank 0 ----------------------------------------------------------------

/// Gives the options of rank 0 to all. The number of threads is a rank's own.
static cria_batch_options shared(const Engine &engine,
                                 cria_batch_options options) {
  int32_t threads = options.threads;
  if (engine.ranks)
    engine.ranks->broadcast(engine.ranks->data, &options, sizeof(options));
  options.threads = threads;
  return options;
}

SharedBatch::SharedBatch(const Engine &engine,
                         const cria_batch_options &options)
    : Batch(*engine.model, shared(engine, options)), engine(engine) {}

template <typename T> void SharedBatch::put(const T &value) {
  if (isShared())
    calls.append(reinterpret_cast<const char *>(&value), sizeof(value));
}

template <typename T> void SharedBatch::put(const std::vector<T> &values) {
  put(static_cast<uint64_t>(values.size()));
  if (isShared())
    calls.append(reinterpret_cast<const char *>(values.data()),
                 values.size() * sizeof(T));
}

/// The number of the adapters among the engine's; -1: none.
int32_t SharedBatch::numberOf(const LoraSet *adapters) const {
  int32_t number = 0;
  for (const auto &[name, each] : engine.adapters) {
    if (&each == adapters)
      return number;
    ++number;
  }
  return -1;
}

int64_t SharedBatch::join(const cria_sequence_options &options, const Job &job,
                          const cria_sampler_options &sampling, bool hasMask) {
  int64_t sequence = Batch::join(options);
  put(Order::Join);
  put(Joining{sampling, numberOf(job.adapters), job.salt, job.embeds,
              job.logProbs.has_value(), hasMask});
  put(job.endIds);
  put(job.biasIds);
  put(job.biases);
  return sequence;
}

void SharedBatch::feed(int64_t sequence, const std::vector<int32_t> &ids,
                       int64_t most) {
  Batch::feed(sequence, ids, most);
  put(Order::Feed);
  put(sequence);
  put(ids);
  put(most);
}

void SharedBatch::propose(int64_t sequence, const std::vector<int32_t> &ids,
                          const std::vector<uint32_t> &masks) {
  Batch::propose(sequence, ids, masks);
  put(Order::Propose);
  put(sequence);
  put(ids);
  put(!masks.empty());
}

void SharedBatch::leave(int64_t sequence) {
  cria_batch_leave(get(), sequence, nullptr);
  put(Order::Leave);
  put(sequence);
}

void SharedBatch::unmask(int64_t sequence) {
  put(Order::Unmask);
  put(sequence);
}

void SharedBatch::send() {
  const cria_ranks *ranks = engine.ranks;
  if (!ranks)
    return;
  uint64_t size = calls.size();
  ranks->broadcast(ranks->data, &size, sizeof(size));
  ranks->broadcast(ranks->data, calls.data(), static_cast<int64_t>(size));
  calls.clear();
}

void SharedBatch::beginStep() {
  put(Order::Step);
  send();
}

void SharedBatch::beginPass(const Job &job, const std::vector<int32_t> &ids,
                            size_t done, size_t promptSize) {
  put(Order::Pass);
  put(Passing{done, promptSize, numberOf(job.adapters)});
  put(ids);
  send();
}

void SharedBatch::rest() {
  put(Order::Rest);
  send();
}

void SharedBatch::end() {
  put(Order::End);
  send();
}

// ---- The other ranks -------------------------------------------------------

namespace {

/// Makes the calls of rank 0.
class Follower {
public:
  Follower(const Engine &engine, const cria_batch_options &options)
      : engine(engine), threads(options.threads),
        batch(*engine.model, options) {}

  void run() {
    while (!hasEnded) {
      receive();
      while (at < calls.size())
        hear(get<Order>());
    }
  }

private:
  void receive();
  void hear(Order order);
  void join();
  void pass();

  template <typename T> T get() {
    T value;
    memcpy(&value, calls.data() + at, sizeof(value));
    at += sizeof(value);
    return value;
  }
  template <typename T> std::vector<T> getAll() {
    std::vector<T> values(get<uint64_t>());
    memcpy(values.data(), calls.data() + at, values.size() * sizeof(T));
    at += values.size() * sizeof(T);
    return values;
  }
  const LoraSet *adapters(int32_t number) const {
    return number < 0 ? nullptr
                      : &std::next(engine.adapters.begin(), number)->second;
  }
  /// Masks of all ids: rank 0 has what they stand for.
  std::vector<uint32_t> masks(size_t count) const {
    auto words = static_cast<size_t>(engine.vocabSize + 31) / 32;
    return std::vector<uint32_t>(count * words, ~0u);
  }

  const Engine &engine;
  const int32_t threads;
  Batch batch;
  std::map<int64_t, Sampler> samplers; // by the numbers of sequences
  std::optional<Session> scorer;
  std::vector<float> logits;
  std::string calls;
  size_t at = 0; // in `calls`
  bool hasEnded = false;
};

} // namespace

void Follower::receive() {
  const cria_ranks &ranks = *engine.ranks;
  uint64_t size = 0;
  ranks.broadcast(ranks.data, &size, sizeof(size));
  calls.resize(size);
  ranks.broadcast(ranks.data, calls.data(), static_cast<int64_t>(size));
  at = 0;
}

void Follower::join() {
  auto joining = get<Joining>();
  auto ends = getAll<int32_t>(), biasIds = getAll<int32_t>();
  auto biases = getAll<float>();
  std::optional<Sampler> sampler;
  auto given = make<cria_sequence_options>();
  given.hidden = joining.embeds;
  if (!joining.embeds) {
    sampler.emplace(joining.sampling, engine.vocabSize);
    if (!biasIds.empty())
      sampler->setBias(biasIds, biases);
    if (joining.hasMask)
      sampler->allow(masks(1));
    given.sampler = sampler->get();
  }
  given.end_ids = ends.data();
  given.end_count = ends.size();
  given.logits = joining.logits;
  const LoraSet *set = adapters(joining.adapters);
  given.lora = set ? set->get() : nullptr;
  given.salt = joining.salt;
  int64_t sequence = batch.join(given);
  if (sampler)
    samplers.emplace(sequence, std::move(*sampler));
}

/// Feeds what rank 0 feeds.
void Follower::pass() {
  auto passing = get<Passing>();
  auto ids = getAll<int32_t>();
  if (!scorer)
    scorer.emplace(*engine.model, threads);
  if (passing.done == 0)
    beginPrompt(*scorer, engine, adapters(passing.adapters),
                passing.promptSize);
  logits.resize(ids.size() * static_cast<size_t>(engine.vocabSize));
  scorer->feed(ids, CRIA_LOGITS_ALL, logits);
}

void Follower::hear(Order order) {
  switch (order) {
  case Order::Join:
    return join();
  case Order::Feed: {
    auto sequence = get<int64_t>();
    auto ids = getAll<int32_t>();
    return batch.feed(sequence, ids, get<int64_t>());
  }
  case Order::Propose: {
    auto sequence = get<int64_t>();
    auto ids = getAll<int32_t>();
    return batch.propose(sequence, ids, masks(get<bool>() ? ids.size() : 0));
  }
  case Order::Leave: {
    auto sequence = get<int64_t>();
    batch.leave(sequence);
    samplers.erase(sequence);
    return;
  }
  case Order::Unmask:
    return samplers.at(get<int64_t>()).allow({});
  case Order::Step:
    batch.step();
    return;
  case Order::Pass:
    return pass();
  case Order::Rest:
    std::this_thread::sleep_for(SharedBatch::kRest);
    return;
  case Order::End:
    hasEnded = true;
  }
}

void follow(const Engine &engine, int32_t threads) {
  auto options = make<cria_batch_options>();
  options.threads = threads;
  Follower(engine, shared(engine, options)).run();
}

} // namespace cria::serve
