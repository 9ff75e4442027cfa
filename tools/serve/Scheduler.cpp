#include "tools/serve/Scheduler.h"

#include <algorithm>
#include <cmath>
#include <ctime>
#include <set>
#include <utility>

namespace cria::serve {

static double secondsSince(Clock::time_point then) {
  return std::chrono::duration<double>(Clock::now() - then).count();
}

/// Seconds of CPU that this thread has had.
static double threadSeconds() {
  timespec time = {};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * time.tv_nsec;
}

namespace {
/// Adds the CPU time of this thread while it lives.
struct SpentSeconds {
  explicit SpentSeconds(double &to) : to(to) {}
  SpentSeconds(const SpentSeconds &) = delete;
  ~SpentSeconds() { to += threadSeconds() - begin; }

  double &to;
  double begin = threadSeconds();
};
} // namespace

/// What a client is told of an error of the library: whether its request is to
/// blame, or the server.
static ApiError toApiError(const Error &error) {
  switch (error.status()) {
  case CRIA_INVALID_ARGUMENT:
  case CRIA_OUT_OF_RANGE:
  case CRIA_RESOURCE_EXHAUSTED: // the whole pool is too small for the prompt
    return {400, error.what(), "", "invalid_value"};
  default:
    return internalError(error.what());
  }
}

static cria_batch_options batchOptions(const SchedulerOptions &options) {
  auto given = make<cria_batch_options>();
  given.threads = options.threads;
  given.pages = options.pages;
  given.chunk = options.chunk;
  given.reuse_drawn = options.reuseReplies;
  given.draft_rows = options.draftRows;
  given.texts = options.texts;
  return given;
}

Scheduler::Scheduler(const Engine &engine, const SchedulerOptions &options,
                     Metrics &metrics)
    : engine(engine), options(options), metrics(metrics),
      batch(engine, batchOptions(options)), info(batch.info()) {
  if (this->options.queueTokens == 0)
    this->options.queueTokens = 8 * info.pages * info.page;
  if (engine.drafter)
    drafter.emplace(*engine.drafter, engine.drafterSeq, engine.vocabSize,
                    options.threads);
  see();
}

// ---- Commands --------------------------------------------------------------

std::optional<ApiError> Scheduler::submit(std::shared_ptr<Job> job) {
  std::lock_guard lock(mutex);
  if (draining)
    return shuttingDown();
  int64_t ids = queuedIds + job->ids();
  if (queuedJobs >= options.queue ||
      (queuedJobs > 0 && ids > options.queueTokens))
    return ApiError{429,
                    std::to_string(queuedJobs) + " requests with " +
                        std::to_string(queuedIds) +
                        " tokens wait already; try again later",
                    "", "queue_full"};
  submitted.push_back(std::move(job));
  ++queuedJobs;
  queuedIds = ids;
  wake.notify_one();
  return std::nullopt;
}

void Scheduler::drain() {
  std::lock_guard lock(mutex);
  draining = true;
  wake.notify_one();
}

void Scheduler::stop() {
  std::lock_guard lock(mutex);
  draining = stopping = true;
  wake.notify_one();
}

bool Scheduler::isDraining() const {
  std::lock_guard lock(mutex);
  return draining;
}

/// Waits for something to do, and takes new jobs. False to end.
bool Scheduler::takeCommands() {
  std::vector<std::shared_ptr<Job>> jobs;
  bool refuses = false;
  {
    std::unique_lock lock(mutex);
    while (!wake.wait_for(lock, std::chrono::milliseconds(1),
                          [&] { return stopping || !isAhead(); })) {
    }
    auto isWanted = [&] {
      return stopping || !submitted.empty() || !running.empty() ||
             !waiting[0].empty() || !waiting[1].empty() || !passes.empty();
    };
    if (batch.isShared())
      while (!wake.wait_for(lock, SharedBatch::kRest, isWanted)) {
        lock.unlock();
        batch.rest();
        lock.lock();
      }
    else
      wake.wait(lock, isWanted);
    if (stopping)
      return false;
    jobs.swap(submitted);
    refuses = draining;
  }
  for (std::shared_ptr<Job> &job : jobs)
    if (job->needsPass())
      passes.push_back(std::move(job));
    else
      waiting[job->embeds].push_back({std::move(job)});
  if (!refuses)
    return true;
  // A job that has begun goes on.
  std::vector<std::shared_ptr<Job>> late;
  for (const Queue &queue : waiting)
    for (const Waiting &each : queue)
      if (!each.hasBegun())
        late.push_back(each.job);
  for (const auto &job : passes)
    if (job != passes.front() || passIndex + passDone == 0)
      late.push_back(job);
  for (const auto &job : late)
    failJob(job, shuttingDown());
  return true;
}

std::optional<ApiError> Scheduler::run() {
  std::optional<ApiError> error;
  computing = threadSeconds(); // not this loop's
  while (!error) {
    try {
      if (!takeCommands())
        break;
      dropGone();
      failLate();
      admit();
      if (!running.empty())
        propose();
      if ((!running.empty() && !step()) || !pass())
        error = internalError("the device failed: " + failure);
      see();
      metrics.scheduling = threadSeconds() - computing;
    } catch (const std::exception &problem) { // no memory, for example
      failAll(internalError(problem.what()));
      if (batch.isShared()) // what the other ranks have heard is not known
        error = internalError(problem.what());
    }
  }
  if (!error)
    batch.end();
  {
    std::lock_guard lock(mutex);
    draining = true;
    for (const auto &job : submitted)
      fail(job, shuttingDown());
    submitted.clear();
  }
  failAll(error.value_or(shuttingDown()));
  return error;
}

void Scheduler::see() {
  info = batch.info();
  int64_t texts = 0;
  for (const Queue &queue : waiting)
    for (const Waiting &each : queue)
      texts += static_cast<int64_t>(each.job->texts() - each.next);
  metrics.see(info, static_cast<int64_t>(running.size()), texts);
}

// ---- Leaving ---------------------------------------------------------------

void fail(const std::shared_ptr<Job> &job, const ApiError &error) {
  job->exchange->post([job, error] { job->delivery->fail(error); });
}

void Scheduler::leave(int64_t sequence) {
  batch.leave(sequence);
  auto found = running.find(sequence);
  embedding -= found->second.job->embeds;
  running.erase(found);
  if (drafter)
    drafter->forget(sequence);
}

/// Takes all that is left of a job away.
void Scheduler::remove(const std::shared_ptr<Job> &job) {
  for (auto at = running.begin(); at != running.end();) {
    auto [sequence, text] = std::pair(at->first, at->second.job);
    ++at;
    if (text == job)
      leave(sequence);
  }
  auto isOfJob = [&](const Waiting &each) { return each.job == job; };
  Queue &queue = waiting[job->embeds];
  auto found = std::find_if(queue.begin(), queue.end(), isOfJob);
  if (found != queue.end()) {
    queue.erase(found);
    unqueue(*job);
  }
  auto passed = std::find(passes.begin(), passes.end(), job);
  if (passed != passes.end()) {
    if (passed == passes.begin())
      resetPass();
    passes.erase(passed);
    unqueue(*job);
  }
}

void Scheduler::unqueue(const Job &job) {
  std::lock_guard lock(mutex);
  --queuedJobs;
  queuedIds -= job.ids();
}

void Scheduler::failJob(const std::shared_ptr<Job> &job,
                        const ApiError &error) {
  std::shared_ptr<Job> kept = job; // `job` may be a part of what is removed
  remove(kept);
  ++(error.status == 400   ? metrics.invalid
     : error.status == 503 ? metrics.refused
                           : metrics.failed);
  fail(kept, error);
}

/// The jobs for which `wanted` holds.
template <typename Wanted>
Scheduler::Jobs Scheduler::jobs(Wanted wanted) const {
  Jobs found;
  auto look = [&](const std::shared_ptr<Job> &job) {
    if (wanted(*job))
      found.insert(job);
  };
  for (const auto &[sequence, text] : running)
    look(text.job);
  for (const Queue &queue : waiting)
    for (const Waiting &each : queue)
      look(each.job);
  for (const auto &job : passes)
    look(job);
  return found;
}

/// Fails all jobs but those that are submitted, and counts these anew: an
/// exception may have dropped a job on its way from one list to another.
void Scheduler::failAll(const ApiError &error) {
  try {
    for (const auto &job : jobs([](const Job &) { return true; }))
      failJob(job, error);
  } catch (const std::exception &) {
    // Memory is missing even for that. A job that is dropped closes its
    // connection.
    while (!running.empty())
      leave(running.begin()->first);
    for (Queue &queue : waiting)
      queue.clear();
    passes.clear();
    resetPass();
  }
  std::lock_guard lock(mutex);
  queuedJobs = queuedIds = 0;
  for (const auto &job : submitted) {
    ++queuedJobs;
    queuedIds += job->ids();
  }
}

void Scheduler::dropGone() {
  for (const auto &job :
       jobs([](const Job &each) { return each.exchange->isGone(); })) {
    size_t before = running.size();
    remove(job);
    ++(running.size() < before ? metrics.cancelledRunning
                               : metrics.cancelledQueued);
  }
}

void Scheduler::failLate() {
  std::vector<std::shared_ptr<Job>> late;
  auto limit = static_cast<double>(options.queueSeconds);
  for (const Queue &queue : waiting)
    for (const Waiting &each : queue)
      if (!each.hasBegun() && secondsSince(each.job->arrived) > limit)
        late.push_back(each.job);
  for (size_t i = 1; i < passes.size(); ++i)
    if (secondsSince(passes[i]->arrived) > limit)
      late.push_back(passes[i]);
  for (const auto &job : late)
    failJob(job, {503,
                  "the request waited for more than " +
                      std::to_string(options.queueSeconds) + " seconds",
                  "", "queue_timeout"});
}

// ---- Letting in ------------------------------------------------------------

/// The queue whose first text is let in next; null: none. One embedding is
/// computed beside the texts, more where no text waits: a request may have a
/// thousand inputs.
Scheduler::Queue *Scheduler::nextQueue() {
  auto &[texts, embeddings] = waiting;
  if (!embeddings.empty() && (texts.empty() || embedding == 0))
    return &embeddings;
  return texts.empty() ? nullptr : &texts;
}

/// Whether the pages are free into which the state of a prompt goes, or no text
/// runs that may free them; and whether all texts that keep their pages to
/// their ends have enough until then. Other prompts wait in the batch.
bool Scheduler::hasPagesFor(const Job &job) const {
  if (job.state.empty() || running.empty())
    return true;
  auto pagesFor = [&](const Job &of, bool toEnd) {
    auto ids = static_cast<int64_t>(of.prompts[0].ids.size());
    ids += toEnd ? std::min(of.most, engine.maxSeq - ids) : 0;
    return (ids + info.page - 1) / info.page;
  };
  int64_t kept = 0;
  for (const auto &[sequence, text] : running)
    kept += text.job->state.empty() ? 0 : pagesFor(*text.job, true);
  return pagesFor(job, false) <= batch.info().free_pages &&
         (kept == 0 || kept + pagesFor(job, true) <= info.pages);
}

void Scheduler::admit() {
  while (!isAhead() && static_cast<int64_t>(running.size()) < info.texts) {
    Queue *queue = nextQueue();
    if (!queue)
      return;
    Waiting &first = queue->front();
    std::shared_ptr<Job> job = first.job;
    if (!hasPagesFor(*job))
      return;
    size_t index = first.next++;
    if (first.next == job->texts()) {
      queue->pop_front();
      unqueue(*job);
    }
    try {
      letIn(job, index);
    } catch (const Error &error) {
      failJob(job, toApiError(error));
    } catch (const std::exception &problem) { // `failAll` may not find the job
      failJob(job, internalError(problem.what()));
    }
  }
}

/// Begins the text after the prompt's.
void Scheduler::openText(Text &text) const {
  const Job &job = *text.job;
  text.stream.emplace(*engine.tokenizer, job.special);
  if (job.continues)
    for (int32_t id : text.prompt->ids)
      text.stream->push(id);
  if (!job.stops.empty())
    text.stream->setStopStrings(job.stops, text.prompt->ids);
}

/// A mask of all ids but `ids`. The model may not have all of them.
static std::vector<uint32_t> allBut(const std::vector<int32_t> &ids,
                                    int64_t vocabSize) {
  std::vector<uint32_t> bits(static_cast<size_t>(vocabSize + 31) / 32, ~0u);
  for (int32_t id : ids)
    if (id >= 0 && id < vocabSize)
      bits[static_cast<size_t>(id) / 32] &= ~(1u << id % 32);
  return bits;
}

/// Lets only ids be drawn next that the grammar has.
void Scheduler::allowNext(Text &text) const {
  text.sampler->allow(text.matcher->mask(engine.vocabSize));
}

/// Whether some ids may not be drawn from the beginning.
bool Scheduler::isMasked(const Job &job) const {
  return job.grammar || (job.minimum > 0 && !job.endIds.empty());
}

/// Makes what draws the text's ids.
void Scheduler::openSampler(Text &text,
                            const cria_sampler_options &sampling) const {
  const Job &job = *text.job;
  text.sampler.emplace(sampling, engine.vocabSize);
  if (!job.biasIds.empty())
    text.sampler->setBias(job.biasIds, job.biases);
  if (job.grammar) {
    text.matcher.emplace(*job.grammar);
    allowNext(text);
  } else if (isMasked(job))
    text.sampler->allow(allBut(job.endIds, engine.vocabSize));
}

void Scheduler::letIn(const std::shared_ptr<Job> &job, size_t index) {
  auto n = static_cast<size_t>(job->n);
  Text text;
  text.job = job;
  text.index = index;
  text.prompt = &job->prompts[index / n];
  text.last = Clock::now();
  if (drafter && !job->embeds)
    text.ids = text.prompt->ids;
  metrics.queued.add(secondsSince(job->arrived));
  metrics.promptTokens += static_cast<int64_t>(text.prompt->ids.size());
  int64_t room = engine.maxSeq - static_cast<int64_t>(text.prompt->ids.size());
  int64_t most = std::min(job->most, room);
  if (most == 0 && !job->embeds) {
    Event end;
    end.text = index;
    end.end = End::Length;
    return post({{job, {std::move(end)}}});
  }
  cria_sampler_options sampling = job->sampling;
  sampling.seed += index % n;
  auto given = make<cria_sequence_options>();
  if (job->embeds) {
    text.pooling.emplace(engine.pooling,
                         static_cast<int64_t>(text.prompt->ids.size()),
                         engine.hiddenSize);
    given.hidden = 1;
  } else {
    openSampler(text, sampling);
    openText(text);
    given.sampler = text.sampler->get();
  }
  given.end_ids = job->endIds.data();
  given.end_count = job->endIds.size();
  given.logits = job->logProbs.has_value();
  given.lora = job->adapters ? job->adapters->get() : nullptr;
  given.salt = job->salt;
  int64_t sequence = batch.join(given, *job, sampling, isMasked(*job));
  try {
    const std::vector<int32_t> &ids = text.prompt->ids;
    if (!job->state.empty())
      batch.restore(sequence, job->state);
    batch.feed(sequence, job->state.empty() ? ids : std::vector{ids.back()},
               most);
    running.emplace(sequence, std::move(text));
    embedding += job->embeds;
  } catch (const std::exception &) {
    batch.leave(sequence);
    throw;
  }
}

// ---- A step ----------------------------------------------------------------

/// Proposes what texts go on with, if there are rows for it: what a grammar
/// leaves them no choice in, else what the drafter says.
void Scheduler::propose() {
  auto texts = static_cast<int64_t>(running.size());
  int64_t most = (options.draftRows - texts) / texts;
  if (most < 1)
    return;
  for (auto &[sequence, text] : running) {
    if (!text.drawn || text.drawn < text.job->minimum)
      continue;
    try {
      std::vector<int32_t> ids;
      if (text.matcher)
        ids = text.matcher->forced(static_cast<size_t>(most));
      if (ids.empty() && drafter)
        ids = drafter->propose(sequence, text.ids, most);
      std::vector<uint32_t> masks;
      if (text.matcher)
        masks = text.matcher->masksAfter(ids, engine.vocabSize);
      if (!ids.empty())
        batch.propose(sequence, ids, masks);
    } catch (const std::exception &) { // no memory, say: a text needs no drafts
    }
  }
}

/// Runs a step and posts what it draws. False if the device is gone.
bool Scheduler::step() {
  Clock::time_point began = Clock::now();
  size_t results = 0;
  auto error = make<cria_error>();
  batch.beginStep();
  cria_status status = [&] {
    SpentSeconds spent(computing);
    return cria_batch_step(batch.get(), &results, nullptr, &error);
  }();
  metrics.step.add(secondsSince(began));
  metrics.rows.add(static_cast<double>(results));
  Events events;
  for (size_t i = 0; i < results; ++i) {
    auto result = make<cria_batch_result>();
    cria_batch_get_result(batch.get(), i, &result, nullptr);
    auto found = running.find(result.sequence);
    if (found == running.end()) // it ended, or its job failed, in this step
      continue;
    std::shared_ptr<Job> job = found->second.job;
    try {
      if (result.status != CRIA_OK) {
        events.erase(job);
        failJob(job, whyFailed(result, found->second));
        continue;
      }
      job->embeds ? pool(result, found->second)
                  : note(result, found->second, events);
      if (job->kept > kMostKept) {
        events.erase(job);
        failJob(job, answerTooLarge());
      }
    } catch (const std::exception &problem) {
      events.erase(job);
      failJob(job, internalError(problem.what()));
    }
  }
  post(std::move(events));
  failedSteps = status == CRIA_OK ? 0 : failedSteps + 1;
  bool mayGoOn = status == CRIA_OK || !batch.isShared();
  if (failedSteps < 2 && mayGoOn) // a step that failed may be repeated
    return true;
  failedSteps = 0;
  failure = error.message;
  failAll(internalError(failure));
  return status == CRIA_RESOURCE_EXHAUSTED && mayGoOn;
}

/// What a client is told of a text that failed.
ApiError Scheduler::whyFailed(const cria_batch_result &result,
                              const Text &text) const {
  int64_t ids = static_cast<int64_t>(text.prompt->ids.size()) + text.drawn,
          most = info.pages * info.page;
  if (result.status != CRIA_RESOURCE_EXHAUSTED || ids < most)
    return internalError(result.message);
  return {400,
          "the text has " + std::to_string(ids) +
              " tokens, its prompt included, and the server's KV caches hold " +
              std::to_string(most) + "; ask for fewer tokens",
          "", "context_length_exceeded"};
}

/// Makes the event of a result.
void Scheduler::note(const cria_batch_result &result, Text &text,
                     Events &events) {
  Job &job = *text.job;
  Event event;
  event.text = text.index;
  event.id = result.id;
  if (result.id >= 0) {
    double waited = secondsSince(text.drawn ? text.last : job.arrived);
    (text.drawn ? metrics.betweenTokens : metrics.firstToken).add(waited);
    text.last = Clock::now();
    ++text.drawn;
    if (drafter)
      text.ids.push_back(result.id);
    ++metrics.generatedTokens;
    event.piece = text.stream->push(result.id);
    if (job.logProbs)
      describe(result.logits, job, event);
    if (text.drawn == job.minimum) {
      text.sampler->allow({});
      batch.unmask(result.sequence);
    }
    if (text.matcher)
      text.matcher->accept(result.id);
  }
  if (text.stream->stopped() || result.finish == CRIA_FINISH_END ||
      (text.matcher && text.matcher->finished()))
    event.end = End::Stop;
  else if (result.finish != CRIA_FINISH_NONE)
    event.end = End::Length;
  else if (text.matcher)
    allowNext(text);
  if (event.end != End::None) {
    event.piece += text.stream->finish();
    event.reused = batch.sequence(result.sequence).reused;
    metrics.whole.add(secondsSince(job.arrived));
    ++(event.end == End::Stop ? metrics.stopped : metrics.reachedLength);
  }
  if (job.keptOfId > 0)
    job.kept += job.keptOfId + static_cast<int64_t>(event.piece.size());
  bool hasEnded = event.end != End::None;
  events[text.job].push_back(std::move(event));
  if (hasEnded)
    leave(result.sequence);
}

/// Takes hidden states, and posts the embedding after the last ones.
void Scheduler::pool(const cria_batch_result &result, Text &text) {
  auto rows = static_cast<int64_t>(result.hidden_rows);
  int64_t taken = text.pooling->rowsOf(text.pooled, rows);
  if (rows > 0)
    text.pooling->add(result.hidden + (rows - taken) * engine.hiddenSize,
                      taken);
  text.pooled += rows;
  if (result.finish == CRIA_FINISH_NONE)
    return;
  std::vector<float> made(static_cast<size_t>(engine.hiddenSize));
  text.pooling->finish(/*normalize=*/true, made.data());
  text.job->exchange->post(
      [job = text.job, index = text.index, made = std::move(made)] {
        job->delivery->take(index, made);
      });
  ++metrics.embedded;
  leave(result.sequence);
}

/// Adds the log-probabilities of an id.
void Scheduler::describe(const float *from, const Job &job,
                         Event &event) const {
  auto count =
      static_cast<size_t>(std::min<int64_t>(*job.logProbs, engine.vocabSize));
  event.top = topLogProbabilities(from, engine.vocabSize, count);
  call(cria_log_probabilities, from, engine.vocabSize, &event.id, size_t{1},
       &event.logProb);
}

/// Events on their way to the thread of I/O, which are counted.
struct Scheduler::Posted {
  Posted(std::shared_ptr<Job> job, std::vector<Event> events,
         std::shared_ptr<std::atomic<int64_t>> all)
      : job(std::move(job)), events(std::move(events)), all(std::move(all)) {
    *this->all += count();
  }
  Posted(const Posted &) = delete;
  ~Posted() { *all -= count(); }

  int64_t count() const { return static_cast<int64_t>(events.size()); }

  std::shared_ptr<Job> job;
  std::vector<Event> events;
  std::shared_ptr<std::atomic<int64_t>> all;
};

/// Posts the events of all clients together: the thread of I/O wakes once.
void Scheduler::post(Events events) {
  std::vector<std::shared_ptr<Posted>> all;
  for (auto &[job, own] : events)
    all.push_back(std::make_shared<Posted>(job, std::move(own), posted));
  if (all.empty())
    return;
  all[0]->job->exchange->post([all] {
    for (const auto &each : all)
      each->job->exchange->guard(
          [&each] { each->job->delivery->take(each->events); });
  });
}

/// Whether the thread of I/O must catch up first: the JSON of events may take
/// longer than the steps that draw them.
bool Scheduler::isAhead() const {
  constexpr int64_t most = 4096;
  return *posted > most;
}

// ---- Passes over prompts ---------------------------------------------------

/// Computes a chunk of a prompt of the first job whose prompts a session reads.
/// False if the device is gone.
bool Scheduler::pass() {
  if (passes.empty())
    return true;
  std::shared_ptr<Job> job = passes.front();
  try {
    SpentSeconds spent(computing);
    if (passIndex < job->images.size())
      encodeImage(*job);
    else if (!job->images.empty())
      readChunk(*job);
    else
      scoreChunk(*job);
    failedPasses = 0;
  } catch (const Error &error) {
    ApiError told = toApiError(error);
    failedPasses += told.status == 500;
    failure = told.message;
    failJob(job, told);
    return failedPasses < 2 && !batch.isShared(); // the next one may go well
  } catch (const std::exception &problem) { // no memory for logits, for example
    failJob(job, internalError(problem.what()));
    return true;
  }
  passed(job);
  return true;
}

/// Goes on after a chunk of the first job whose prompts a session reads.
void Scheduler::passed(const std::shared_ptr<Job> &job) {
  size_t prompt = job->images.empty() ? passIndex : 0;
  if (passDone + 1 < job->prompts[prompt].ids.size())
    return; // nothing is computed of the last id
  if (!job->images.empty()) {
    waiting[0].push_back({job});
    passes.pop_front();
    return resetPass();
  }
  job->exchange->post([job, index = passIndex, made = std::move(scores)] {
    job->delivery->takePrompt(index, made);
  });
  scores.clear();
  passDone = 0;
  if (++passIndex < job->prompts.size())
    return;
  waiting[0].push_back({job});
  passes.pop_front();
  resetPass();
}

/// Forgets what was computed for the first job of `passes`.
void Scheduler::resetPass() {
  passIndex = passDone = 0;
  scores = {};
  rows = {};
  logits = {}; // tens of megabytes
}

/// Computes the rows of the job's next image.
void Scheduler::encodeImage(const Job &job) {
  const std::vector<VisionPart> &parts = engine.tower->parts;
  while (towers.size() < parts.size())
    towers.emplace_back(*parts[towers.size()].model, options.threads);
  rows.push_back(rowsOf(*engine.tower, towers, job.images[passIndex].patches));
  ++passIndex;
}

/// Feeds a part of a prompt with images to a session: ids, or rows of an image.
/// Its state goes into the batch after the last but one id.
void Scheduler::readChunk(Job &job) {
  const std::vector<int32_t> &ids = job.prompts[0].ids;
  if (!reader)
    reader.emplace(*engine.model, options.threads);
  if (passDone == 0)
    beginPrompt(*reader, engine, job.adapters, ids.size());
  int64_t chunk = options.chunk > 0 ? options.chunk : engine.chunk;
  size_t end = std::min(ids.size() - 1, passDone + static_cast<size_t>(chunk));
  auto count = static_cast<size_t>(engine.tower->rows),
       width = static_cast<size_t>(engine.tower->width);
  const float *row = nullptr; // if an image stands here
  for (size_t i = 0; i < rows.size(); ++i) {
    size_t begin = job.images[i].begin;
    if (passDone < begin)
      end = std::min(end, begin);
    else if (passDone < begin + count) {
      end =
          engine.tower->areWhole ? begin + count : std::min(end, begin + count);
      row = rows[i].data() + (passDone - begin) * width;
    }
  }
  size_t fed = end - passDone;
  if (row)
    reader->feedEmbeddings({row, row + fed * width}, width);
  else
    reader->feed({ids.begin() + static_cast<int64_t>(passDone),
                  ids.begin() + static_cast<int64_t>(end)});
  passDone = end;
  if (passDone + 1 == ids.size())
    job.state = reader->save();
}

/// Feeds a chunk to the session, and adds the log-probabilities of the ids
/// after the chunk's. The first id has none.
void Scheduler::scoreChunk(const Job &job) {
  const std::vector<int32_t> &ids = job.prompts[passIndex].ids;
  auto vocabSize = static_cast<size_t>(engine.vocabSize);
  if (!scorer)
    scorer.emplace(*engine.model, options.threads);
  if (passDone == 0) {
    beginPrompt(*scorer, engine, job.adapters, ids.size());
    scores.assign(1, {});
    scores[0].id = ids[0];
  }
  int64_t chunk = options.chunk > 0 ? options.chunk : engine.chunk;
  size_t count =
      std::min(ids.size() - 1 - passDone, static_cast<size_t>(chunk));
  if (count == 0) // the prompt is one id
    return;
  logits.resize(count * vocabSize);
  auto from = ids.begin() + static_cast<int64_t>(passDone);
  std::vector<int32_t> fed(from, from + static_cast<int64_t>(count));
  batch.beginPass(job, fed, passDone, ids.size());
  scorer->feed(fed, CRIA_LOGITS_ALL, logits);
  for (size_t row = 0; row < count; ++row) {
    Event &event = scores.emplace_back();
    event.id = ids[passDone + row + 1];
    describe(&logits[row * vocabSize], job, event);
  }
  passDone += count;
}

} // namespace cria::serve
