/// Sequences join, are fed, fork, move, fail and leave at random, with drafts
/// and without, in pools that are too small for them and on a device that
/// fails. Whatever happens, each draws what a session draws that is fed the
/// same ids, to the last bit.
#include "runtime/batch/Batch.h"

#include "runtime/session/Session.h"
#include "test/runtime/Fixtures.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <map>
#include <random>

using namespace cria;
using namespace cria::test;

namespace {

using Ids = std::vector<int32_t>;

/// Fails one call in `odds`, before or after it did its work; 0: none.
class FailingPages : public Backend {
public:
  FailingPages(std::unique_ptr<Backend> pages, std::mt19937 &random,
               const uint32_t &odds)
      : pages(std::move(pages)), random(random), odds(odds) {}

  Status step(const Step &step) override {
    return attempt([&] { return pages->step(step); });
  }
  Status clearPage(PageKind kind, int32_t page) override {
    return attempt([&] { return pages->clearPage(kind, page); });
  }
  Status copyPage(PageKind kind, int32_t from, int32_t to) override {
    return attempt([&] { return pages->copyPage(kind, from, to); });
  }
  Status readPage(size_t cache, int32_t page, uint64_t begin, std::byte *to,
                  uint64_t bytes) override {
    return attempt(
        [&] { return pages->readPage(cache, page, begin, to, bytes); });
  }
  Status writePage(size_t cache, int32_t page, uint64_t begin,
                   const std::byte *from, uint64_t bytes) override {
    return attempt(
        [&] { return pages->writePage(cache, page, begin, from, bytes); });
  }
  void inParallel(CriaParallelBody body, void *context,
                  int64_t count) override {
    pages->inParallel(body, context, count);
  }
  Status trace(std::vector<KernelTime> *into) override {
    return pages->trace(into);
  }

private:
  template <typename Body> Status attempt(Body body) {
    Status failed(CRIA_UNAVAILABLE, "the device fails");
    bool fails = odds && random() % odds == 0, isLate = random() % 2;
    if (fails && !isLate)
      return failed;
    Status status = body();
    return fails ? failed : status;
  }

  std::unique_ptr<Backend> pages;
  std::mt19937 &random;
  const uint32_t &odds;
};

/// What happened to a text: ids were fed, one was drawn, none was drawn, or
/// another sequence took the state.
struct Event {
  enum Kind { Fed, Drawn, Computed, Moved } kind;
  Ids ids;
  std::vector<float> logits = {}; // that the id was drawn from
};

/// A sequence's text. Events before `begin` are those of the sequence that it
/// was forked from, or whose state it took.
struct Text {
  uint64_t seed = 0;
  std::shared_ptr<Sampler> sampler = {};
  std::vector<Event> events = {};
  size_t begin = 0;
  bool isRunning = false;
  int64_t left = 0; // ids to draw
};

class BatchRandomTest : public testing::Test {
protected:
  void SetUp() override {
    folder.write("model.safetensors", safetensorsOf(fakeTensors()));
    for (nlohmann::json manifest :
         {fakePagedManifest(), fakeStatesManifest(), fakeWindowsManifest()}) {
      addModel(manifest, 1);
      manifest["batch"]["rows"] = 12;
      addModel(manifest, 3);
    }
  }
  void addModel(nlohmann::json manifest, int64_t shortFeed) {
    Models made = {modelOf(manifest), nullptr};
    EXPECT_EQ(made.ofBatch->shortFeed(), shortFeed);
    for (nlohmann::json &cache : manifest["caches"])
      if (cache.contains("window"))
        cache["window"] = 40;
    made.alone = modelOf(manifest);
    models.push_back(made);
  }
  std::shared_ptr<const Model> modelOf(const nlohmann::json &manifest) const {
    auto artifact =
        Artifact::open(folder.write("paged.cria", artifactOf(manifest)));
    EXPECT_TRUE(artifact.ok()) << artifact.status().message();
    return *Model::bind(*artifact, folder.path());
  }

  uint32_t below(uint32_t most) { return random() % most; }
  std::shared_ptr<Sampler> sampler(uint64_t seed) const {
    SamplerOptions options;
    options.temperature = seed % 3 ? 40 : 0;
    options.repetitionPenalty = seed % 2 ? 1 : 1.2;
    options.presencePenalty = seed % 5 ? 0 : 0.3;
    options.frequencyPenalty = seed % 4 ? 0 : 0.1;
    options.penaltyWindow = static_cast<int64_t>(seed % 7);
    options.seed = seed;
    return std::make_shared<Sampler>(*Sampler::create(options, 5));
  }
  /// Some ids; the beginnings of many are the same.
  Ids someIds(uint32_t most) {
    std::mt19937 beginning(below(3));
    Ids ids(1 + below(most));
    for (int32_t &id : ids)
      id = static_cast<int32_t>(beginning() % 5);
    return ids;
  }
  /// The number of one of the sequences; there is at least one.
  int64_t any() { return std::next(texts.begin(), below(texts.size()))->first; }

  void makeBatch();
  void join();
  void feed(int64_t number);
  void fork();
  void move();
  void leave(int64_t number);
  void act();
  void step();
  void finishAll();
  void checkPages();
  void compare(const Text &text);

  TemporaryFolder folder;
  /// Of a batch, and of sessions, whose caches have all positions.
  struct Models {
    std::shared_ptr<const Model> ofBatch, alone;
  };
  // Without a state, with one, and with window pages: of few rows, and of
  // enough for prompts of up to 3 ids to be short.
  std::vector<Models> models;
  std::shared_ptr<const Model> model, reference;
  std::mt19937 random;
  uint32_t odds = 0;
  std::unique_ptr<Batch> batch;
  std::map<int64_t, Text> texts; // by sequence
  std::vector<Text> gone;
  uint64_t nextSeed = 0;
};

void BatchRandomTest::makeBatch() {
  auto [ofBatch, alone] = models[below(6)];
  model = ofBatch;
  reference = alone;
  BatchOptions options;
  options.pages = 3 + below(20);
  options.windowPages = 3 + below(14);
  options.chunk = 1 + below(8);
  options.refuses = below(2);
  options.draftRows = below(2) ? below(9) : 0;
  int64_t rows = model->manifest().batch->rows;
  options.texts = below(2) ? 1 + below(rows) : rows;
  if (model->manifest().pageBytes(PageKind::State))
    options.states = 2 * options.texts + below(12); // some for drafts
  odds = below(2) ? 40 : 0;
  auto pages = std::make_unique<FailingPages>(
      std::move(*model->newBackend(
          1, {options.pages, options.windowPages, options.states})),
      random, odds);
  batch = std::move(*Batch::create(model, options, std::move(pages)));
}

void BatchRandomTest::join() {
  Text text;
  text.seed = ++nextSeed;
  text.sampler = sampler(text.seed);
  int64_t number = *batch->join({text.sampler, {}, true});
  texts[number] = std::move(text);
  feed(number);
}

/// Feeds ids, or no ids to a sequence that failed.
void BatchRandomTest::feed(int64_t number) {
  Text &text = texts[number];
  const Sequence &held = **batch->sequence(number);
  int64_t computed = held.computed, end = held.end();
  Ids ids = someIds(end || below(2) ? 4 : 20);
  int64_t most = below(6);
  bool mayGoOn = computed < end && !text.events.empty();
  if (mayGoOn && below(4)) {
    ids.clear();
    most = std::max<int64_t>(text.left, 1);
  }
  Status status =
      batch->feed(number, ids.data(), static_cast<int64_t>(ids.size()), most);
  if (!status.ok()) {
    EXPECT_TRUE(text.isRunning || status.code() == CRIA_OUT_OF_RANGE ||
                status.code() == CRIA_RESOURCE_EXHAUSTED)
        << status.message();
    return;
  }
  text.isRunning = true;
  text.left = most;
  if (!ids.empty())
    text.events.push_back({Event::Fed, ids});
}

void BatchRandomTest::fork() {
  int64_t from = any();
  Text text = texts[from];
  text.seed = ++nextSeed;
  text.sampler = sampler(text.seed);
  text.begin = text.events.size();
  text.isRunning = false;
  text.left = 0;
  int64_t number = *batch->fork(from, {text.sampler, {}, true});
  texts[number] = std::move(text);
  feed(number);
}

/// Saves the state of a sequence that finished, and restores it in another.
void BatchRandomTest::move() {
  int64_t from = any();
  Text text = texts[from];
  const Sequence &held = **batch->sequence(from);
  Result<uint64_t> size = batch->stateBytes(from);
  if (text.events.empty() || text.events.back().kind == Event::Fed ||
      held.end() - held.computed > 1 || !size.ok())
    return;
  std::vector<std::byte> state(*size);
  if (!batch->save(from, state.data()).ok())
    return;
  text.events.push_back({Event::Moved, {}});
  text.seed = ++nextSeed;
  text.sampler = sampler(text.seed);
  text.begin = text.events.size();
  text.isRunning = false;
  int64_t number = *batch->join({text.sampler, {}, true});
  if (batch->restore(number, state.data(), state.size()).ok()) {
    texts[number] = std::move(text);
    return;
  }
  EXPECT_TRUE(batch->leave(number).ok());
}

void BatchRandomTest::leave(int64_t number) {
  EXPECT_TRUE(batch->leave(number).ok());
  gone.push_back(std::move(texts[number]));
  texts.erase(number);
}

void BatchRandomTest::step() {
  for (const auto &[number, text] : texts)
    if (below(4) == 0) { // right ids are found by the text itself
      Ids ids = someIds(4);
      Status status =
          batch->propose(number, ids.data(), static_cast<int64_t>(ids.size()));
      EXPECT_TRUE(status.ok() || status.code() == CRIA_FAILED_PRECONDITION);
    }
  Sampler *taken = nullptr; // by another thread
  if (odds && !texts.empty() && below(10) == 0)
    taken = texts[any()].sampler.get();
  if (taken && !taken->enter())
    taken = nullptr;
  Status status = batch->step();
  if (taken)
    taken->leave();
  EXPECT_TRUE(status.ok() || odds) << status.message();
  for (const BatchResult &result : batch->results()) {
    Text &text = texts[result.sequence];
    text.isRunning = result.finish == Finish::None;
    if (result.id >= 0) {
      --text.left;
      text.events.push_back(
          {Event::Drawn, {result.id}, {result.logits, result.logits + 5}});
    } else if (result.finish == Finish::Length) {
      text.events.push_back({Event::Computed, {}});
    }
  }
}

void BatchRandomTest::act() {
  uint32_t choice = below(20);
  if (texts.empty() || (choice < 3 && texts.size() < 9))
    return join();
  switch (choice) {
  case 3:
    return leave(any());
  case 4:
    return texts.size() < 9 ? fork() : leave(any());
  case 5:
    return texts.size() < 9 ? move() : leave(any());
  case 6:
  case 7:
    return feed(any());
  default:
    return step();
  }
}

/// No page is in use that holds no position, or none of a sequence.
void BatchRandomTest::checkPages() {
  int64_t needed = 0, inWindows = 0;
  for (const auto &[number, text] : texts) {
    int64_t computed = (*batch->sequence(number))->computed,
            pages = (computed + 3) / 4;
    needed += pages;
    inWindows += pages - std::max<int64_t>(0, computed - 5) / 4;
  }
  auto used = [](const PagePool &pool) {
    return pool.pages() - pool.available();
  };
  EXPECT_LE(used(batch->pages()), needed);
  EXPECT_LE(used(batch->windowPages()), inWindows);
}

void BatchRandomTest::finishAll() {
  odds = 0;
  for (int i = 0; batch->unfinished() > 0; ++i) {
    ASSERT_LT(i, 5000);
    step();
  }
  while (!texts.empty())
    leave(texts.begin()->first);
  EXPECT_EQ(batch->pages().available(), batch->pages().pages());
  EXPECT_EQ(batch->windowPages().available(), batch->windowPages().pages());
  EXPECT_EQ(batch->states().available(), batch->states().pages());
}

void BatchRandomTest::compare(const Text &text) {
  auto session = std::move(*Session::create(reference, 1));
  std::shared_ptr<Sampler> own = sampler(text.seed);
  Ids pending, all;
  bool isFed = false; // what is pending, not drawn alone
  std::vector<float> logits(5);
  // In one piece or, announced, in two.
  auto feed = [&](cria_logits which) {
    auto count = static_cast<int64_t>(pending.size()), first = count / 2;
    Status status;
    if (count % 3 == 2) {
      status = session->expectPrompt(session->position() + count);
      if (status.ok())
        status =
            session->feed(pending.data(), first, CRIA_LOGITS_NONE, nullptr);
      count -= first;
    } else {
      first = 0;
    }
    if (count && status.ok())
      status = session->feed(&pending[static_cast<size_t>(first)], count, which,
                             logits.data());
    ASSERT_TRUE(status.ok()) << status.message();
    pending.clear();
    isFed = false;
  };
  for (size_t i = 0; i < text.events.size(); ++i) {
    if (i == text.begin) {
      own = sampler(text.seed);
      for (int32_t id : all)
        own->accept(id, /*drawn=*/false);
    }
    const Event &event = text.events[i];
    if (event.kind == Event::Moved) // without ids, and what was not computed
      pending = all = {};
    if (event.kind == Event::Drawn || event.kind == Event::Computed) {
      // None is pending: the last id was computed anew, and now draws.
      feed(CRIA_LOGITS_LAST);
    } else if (event.kind == Event::Fed && isFed) {
      feed(CRIA_LOGITS_NONE); // refused before it was computed
    }
    if (event.kind == Event::Drawn) {
      EXPECT_EQ(event.logits, logits);
      if (i >= text.begin) {
        EXPECT_EQ(event.ids[0], *own->sample(logits.data()));
      }
    }
    isFed |= event.kind == Event::Fed;
    for (int32_t id : event.ids) {
      pending.push_back(id);
      all.push_back(id);
      own->accept(id, event.kind == Event::Drawn);
    }
  }
}

} // namespace

// scripts/soak.sh sets CRIA_SOAK_SECONDS.
TEST_F(BatchRandomTest, DrawsTheSameWhateverElseHappens) {
  using Clock = std::chrono::steady_clock;
  const char *given = std::getenv("CRIA_SOAK_SECONDS");
  auto end = Clock::now() + std::chrono::seconds(given ? atoi(given) : 3);
  for (uint32_t seed = 0; seed < 20 || Clock::now() < end; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    random.seed(seed);
    gone.clear();
    makeBatch();
    for (int i = 0; i < 200; ++i) {
      act();
      checkPages();
    }
    finishAll();
    for (const Text &text : gone)
      compare(text);
    ASSERT_FALSE(HasFailure());
  }
}
