#include "tools/serve/Scheduler.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

namespace cria::serve {

static double secondsSince(Clock::time_point then) {
  return std::chrono::duration<double>(Clock::now() - then).count();
}

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

static Batch openBatch(const Engine &engine, const SchedulerOptions &options) {
  auto given = make<cria_batch_options>();
  given.threads = options.threads;
  given.pages = options.pages;
  given.chunk = options.chunk;
  given.reuse_drawn = options.reuseReplies;
  given.draft_rows = options.draftRows;
  given.texts = options.texts;
  return Batch(*engine.model, given);
}

Scheduler::Scheduler(const Engine &engine, const SchedulerOptions &options,
                     Metrics &metrics)
    : engine(engine), options(options), metrics(metrics),
      batch(openBatch(engine, options)), info(batch.info()) {
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
    wake.wait(lock, [&] {
      return stopping || !submitted.empty() || !running.empty() ||
             !waiting.empty() || !passes.empty();
    });
    if (stopping)
      return false;
    jobs.swap(submitted);
    refuses = draining;
  }
  for (std::shared_ptr<Job> &job : jobs)
    if (job->embeds || job->scores)
      passes.push_back(std::move(job));
    else
      waiting.push_back({std::move(job)});
  if (!refuses)
    return true;
  // A job that has begun goes on.
  std::vector<std::shared_ptr<Job>> late;
  for (const Waiting &each : waiting)
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
        error = internalError("the device failed");
      see();
    } catch (const std::exception &problem) { // no memory, for example
      failAll(internalError(problem.what()));
    }
  }
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
  for (const Waiting &each : waiting)
    texts += static_cast<int64_t>(each.job->texts() - each.next);
  metrics.see(info, static_cast<int64_t>(running.size()), texts);
}

// ---- Leaving ---------------------------------------------------------------

void fail(const std::shared_ptr<Job> &job, const ApiError &error) {
  job->exchange->post([job, error] { job->delivery->fail(error); });
}

void Scheduler::leave(int64_t sequence) {
  cria_batch_leave(batch.get(), sequence, nullptr);
  running.erase(sequence);
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
  auto found = std::find_if(waiting.begin(), waiting.end(), isOfJob);
  if (found != waiting.end()) {
    waiting.erase(found);
    unqueue(*job);
  }
  auto passed = std::find(passes.begin(), passes.end(), job);
  if (passed != passes.end()) {
    bool waits = passed != passes.begin() || !embeddingBegan;
    if (passed == passes.begin())
      resetPass();
    passes.erase(passed);
    if (waits)
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
  for (const Waiting &each : waiting)
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
    waiting.clear();
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
  for (const Waiting &each : waiting)
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

void Scheduler::admit() {
  while (!waiting.empty() && !isAhead() &&
         static_cast<int64_t>(running.size()) < info.texts) {
    Waiting &first = waiting.front();
    std::shared_ptr<Job> job = first.job;
    size_t index = first.next++;
    if (first.next == job->texts()) {
      waiting.pop_front();
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

void Scheduler::letIn(const std::shared_ptr<Job> &job, size_t index) {
  auto n = static_cast<size_t>(job->n);
  Text text;
  text.job = job;
  text.index = index;
  text.prompt = &job->prompts[index / n];
  text.last = Clock::now();
  if (drafter)
    text.ids = text.prompt->ids;
  metrics.queued.add(secondsSince(job->arrived));
  metrics.promptTokens += static_cast<int64_t>(text.prompt->ids.size());
  int64_t room = engine.maxSeq - static_cast<int64_t>(text.prompt->ids.size());
  int64_t most = std::min(job->most, room);
  if (most == 0) {
    Event end;
    end.text = index;
    end.end = End::Length;
    return post({{job, {std::move(end)}}});
  }
  cria_sampler_options sampling = job->sampling;
  sampling.seed += index % n;
  text.sampler.emplace(sampling, engine.vocabSize);
  if (!job->biasIds.empty())
    text.sampler->setBias(job->biasIds, job->biases);
  if (job->grammar) {
    text.matcher.emplace(*job->grammar);
    allowNext(text);
  }
  if (job->minimum > 0 && !job->endIds.empty())
    text.sampler->allow(allBut(job->endIds, engine.vocabSize));
  openText(text);
  auto given = make<cria_sequence_options>();
  given.sampler = text.sampler->get();
  given.end_ids = job->endIds.data();
  given.end_count = job->endIds.size();
  given.logits = job->logProbs.has_value();
  given.lora = job->adapters ? job->adapters->get() : nullptr;
  given.salt = job->salt;
  int64_t sequence = batch.join(given);
  try {
    batch.feed(sequence, text.prompt->ids, most);
    running.emplace(sequence, std::move(text));
  } catch (const std::exception &) {
    cria_batch_leave(batch.get(), sequence, nullptr);
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
  cria_status status = cria_batch_step(batch.get(), &results, nullptr, &error);
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
      note(result, found->second, events);
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
  if (failedSteps < 2) // a step that failed may be repeated
    return true;
  failedSteps = 0;
  failAll(internalError(error.message));
  return status == CRIA_RESOURCE_EXHAUSTED;
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
    if (text.drawn == job.minimum)
      text.sampler->allow({});
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

void Scheduler::post(Events events) {
  for (auto &[job, own] : events) {
    auto sent = std::make_shared<Posted>(job, std::move(own), posted);
    job->exchange->post([sent] { sent->job->delivery->take(sent->events); });
  }
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
  if (job->embeds && !std::exchange(embeddingBegan, true))
    unqueue(*job); // others need not wait for it
  try {
    job->embeds ? embedChunk(*job) : scoreChunk(*job);
    failedPasses = 0;
  } catch (const Error &error) {
    ApiError told = toApiError(error);
    failedPasses += told.status == 500;
    failJob(job, told);
    return failedPasses < 2;                // the next one may be computed
  } catch (const std::exception &problem) { // no memory for logits, for example
    failJob(job, internalError(problem.what()));
    return true;
  }
  passed(job);
  return true;
}

/// Goes on after a chunk of the first job whose prompts a session reads.
void Scheduler::passed(const std::shared_ptr<Job> &job) {
  size_t last = job->embeds ? 0 : 1; // nothing is computed of it
  if (passDone < job->prompts[passIndex].ids.size() - last)
    return;
  if (job->embeds) {
    std::vector<float> embedding(sums.begin(), sums.end());
    job->exchange->post([job, index = passIndex, made = std::move(embedding)] {
      job->delivery->take(index, made);
    });
    ++metrics.embedded;
  } else {
    job->exchange->post([job, index = passIndex, made = std::move(scores)] {
      job->delivery->takePrompt(index, made);
    });
    scores.clear();
  }
  passDone = 0;
  if (++passIndex < job->prompts.size())
    return;
  if (job->embeds)
    return remove(job);
  waiting.push_back({job});
  passes.pop_front();
  resetPass();
}

/// Forgets what was computed for the first job of `passes`.
void Scheduler::resetPass() {
  passIndex = passDone = 0;
  embeddingBegan = false;
  scores = {};
  logits = {}; // tens of megabytes
}

/// Feeds a chunk to the session, and adds the log-probabilities of the ids
/// after the chunk's. The first id has none.
void Scheduler::scoreChunk(const Job &job) {
  const std::vector<int32_t> &ids = job.prompts[passIndex].ids;
  auto vocabSize = static_cast<size_t>(engine.vocabSize);
  if (!scorer)
    scorer.emplace(*engine.model, options.threads);
  if (passDone == 0) {
    scorer->rewind(0);
    if (!engine.adapters.empty())
      scorer->setLora(job.adapters);
    scorer->expectPrompt(ids.size());
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
  scorer->feed({from, from + static_cast<int64_t>(count)}, CRIA_LOGITS_ALL,
               logits);
  for (size_t row = 0; row < count; ++row) {
    Event &event = scores.emplace_back();
    event.id = ids[passDone + row + 1];
    describe(&logits[row * vocabSize], job, event);
  }
  passDone += count;
}

/// Feeds a chunk to the session, and adds up its hidden states; after the last
/// chunk, `sums` is the embedding.
void Scheduler::embedChunk(const Job &job) {
  const std::vector<int32_t> &ids = job.prompts[passIndex].ids;
  auto hiddenSize = static_cast<size_t>(engine.embedderInfo.hidden_size);
  auto chunk = static_cast<size_t>(engine.embedderInfo.chunk);
  if (!session)
    session.emplace(*engine.embedder, options.threads);
  if (passDone == 0) {
    session->rewind(0);
    session->expectPrompt(ids.size());
    sums.assign(hiddenSize, 0);
    metrics.promptTokens += static_cast<int64_t>(ids.size());
  }
  size_t count = std::min(ids.size() - passDone, chunk);
  hidden.resize(count * hiddenSize);
  auto outputs = make<cria_outputs>();
  outputs.hidden_of = CRIA_LOGITS_ALL;
  outputs.hidden = hidden.data();
  outputs.hidden_capacity = hidden.size();
  auto from = ids.begin() + static_cast<int64_t>(passDone);
  session->feed({from, from + static_cast<int64_t>(count)}, outputs);
  bool isMean = options.pooling == CRIA_POOLING_MEAN;
  for (size_t row = 0; row < count; ++row) {
    const float *numbers = &hidden[row * hiddenSize];
    bool isFirst = passDone + row == 0;
    if (isMean)
      std::transform(sums.begin(), sums.end(), numbers, sums.begin(),
                     std::plus<double>());
    else if (isFirst || options.pooling == CRIA_POOLING_LAST)
      sums.assign(numbers, numbers + hiddenSize);
  }
  passDone += count;
  if (passDone < ids.size())
    return;
  // The mean has the direction of the sum, and the length is 1.
  double squares = 0;
  for (double number : sums)
    squares += number * number;
  for (double &number : sums)
    number /= squares > 0 ? std::sqrt(squares) : 1;
}

} // namespace cria::serve
