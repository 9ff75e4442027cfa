/// The thread that computes: it owns the batch, and a queue of jobs.
///
/// Between two steps it takes new jobs, drops those whose clients have gone,
/// and lets texts in while rows are free, first come, first served. An input of
/// which an embedding is wanted is a text that draws nothing. A text's
/// ids do not depend on the others, so neither does its answer. What a step
/// draws is posted to the thread of I/O, which makes JSON of it while the next
/// step computes.
#pragma once

#include "runtime/session/Pooling.h"
#include "tools/serve/Drafter.h"
#include "tools/serve/Job.h"
#include "tools/serve/Metrics.h"
#include "tools/serve/SharedBatch.h"

#include <atomic>
#include <condition_variable>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <vector>

namespace cria::serve {

struct SchedulerOptions {
  int32_t threads = 0; // as of a session
  int64_t pages = 0;   // of the pool; 0: the batch's default
  int64_t chunk = 0;   // ids of a prompt in a step; 0: the artifact's
  int64_t draftRows = 0, texts = 0; // see cria_batch_options
  bool reuseReplies = false;
  int64_t queue = 256;     // requests that may wait
  int64_t queueTokens = 0; // ids of prompts that may wait; 0: 8 pools
  int64_t queueSeconds = 60;
};

class Scheduler {
public:
  /// Throws Error. The arguments must outlive it.
  Scheduler(const Engine &engine, const SchedulerOptions &options,
            Metrics &metrics);

  // For any thread:
  /// Adds a job, or says why it cannot wait here.
  std::optional<ApiError> submit(std::shared_ptr<Job> job);
  /// From now on nothing is let in; what waits fails, what runs goes on.
  void drain();
  /// Has everything fail that is left, and ends `run`.
  void stop();
  bool isDraining() const;

  /// Computes until `stop`. Returns an error if the device is gone: nothing can
  /// be computed any more.
  std::optional<ApiError> run();

private:
  /// A text of a job that is in the batch.
  struct Text {
    std::shared_ptr<Job> job;
    size_t index = 0;
    const Ids *prompt = nullptr;
    std::optional<Sampler> sampler;
    std::optional<Matcher> matcher; // of the job's grammar
    std::optional<Stream> stream;
    std::optional<Pooling> pooling; // of an embedding
    int64_t pooled = 0;             // ids
    int64_t drawn = 0;
    std::vector<int32_t> ids; // of the whole text, for the drafter
    Clock::time_point last;   // when its last id was drawn, or it was let in
  };
  /// A job with texts that are not in the batch yet.
  struct Waiting {
    std::shared_ptr<Job> job;
    size_t next = 0; // index of its first such text

    bool hasBegun() const { return next > 0 || job->needsPass(); }
  };
  using Queue = std::deque<Waiting>;
  struct Posted;
  using Jobs = std::set<std::shared_ptr<Job>>;
  using Events = std::map<std::shared_ptr<Job>, std::vector<Event>>;

  bool takeCommands();
  void dropGone();
  void failLate();
  Queue *nextQueue();
  void admit();
  void letIn(const std::shared_ptr<Job> &job, size_t index);
  bool isMasked(const Job &job) const;
  void openSampler(Text &text, const cria_sampler_options &sampling) const;
  void openText(Text &text) const;
  void allowNext(Text &text) const;
  void propose();
  bool step();
  ApiError whyFailed(const cria_batch_result &result, const Text &text) const;
  void note(const cria_batch_result &result, Text &text, Events &events);
  void pool(const cria_batch_result &result, Text &text);
  void describe(const float *logits, const Job &job, Event &event) const;
  void leave(int64_t sequence);
  void remove(const std::shared_ptr<Job> &job);
  void unqueue(const Job &job);
  template <typename Wanted> Jobs jobs(Wanted wanted) const;
  void failAll(const ApiError &error);
  void failJob(const std::shared_ptr<Job> &job, const ApiError &error);
  bool pass();
  void passed(const std::shared_ptr<Job> &job);
  void resetPass();
  void scoreChunk(const Job &job);
  void encodeImage(const Job &job);
  void readChunk(Job &job);
  bool hasPagesFor(const Job &job) const;
  void post(Events events);
  bool isAhead() const;
  void see();

  const Engine &engine;
  SchedulerOptions options;
  Metrics &metrics;
  SharedBatch batch;
  cria_batch_info info;
  std::optional<Drafter> drafter;
  std::map<int64_t, Text> running; // by the numbers of sequences
  Queue waiting[2];                // texts, embeddings
  int64_t embedding = 0;           // of `running`
  // Jobs whose prompts a session reads, for their log-probabilities or because
  // they have images, before texts are drawn.
  std::deque<std::shared_ptr<Job>> passes;
  int failedSteps = 0, failedPasses = 0; // one after the other
  std::string failure;                   // why the last of them failed
  double computing = 0; // seconds of this thread's CPU, but for scheduling
  // Events that the thread of I/O has not taken yet; it may outlive this.
  std::shared_ptr<std::atomic<int64_t>> posted =
      std::make_shared<std::atomic<int64_t>>(0);

  // The first of them.
  size_t passIndex = 0, passDone = 0;   // of the job: prompt or image, and ids
  std::optional<Session> scorer;        // of log-probabilities
  std::optional<Session> reader;        // of prompts with images
  std::vector<Session> towers;          // of the parts that read images
  std::vector<std::vector<float>> rows; // of the job's images so far
  std::vector<Event> scores;            // of the ids of a prompt so far
  std::vector<float> logits;

  mutable std::mutex mutex; // for what follows
  std::condition_variable wake;
  std::vector<std::shared_ptr<Job>> submitted;
  int64_t queuedJobs = 0, queuedIds = 0; // submitted, or waiting
  bool draining = false, stopping = false;
};

} // namespace cria::serve
