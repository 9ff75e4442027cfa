/// From logits to the next id. The steps, their order and their edge cases are
/// those of Hugging Face transformers: repetition penalty, temperature, top-k,
/// top-p, min-p, then a draw. Presence and frequency penalties, which OpenAI
/// defines, come after the repetition penalty, as in vLLM.
#pragma once

#include "runtime/Abi.h"
#include "runtime/base/SamplerOptions.h"
#include "runtime/base/Status.h"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace cria {

/// A stream of random numbers that depends on the seed alone: splitmix64, the
/// same on every machine.
class Random {
public:
  explicit Random(uint64_t seed) : state(seed) {}
  uint64_t next();
  uint64_t now() const { return state; }

private:
  uint64_t state;
};

/// The `count` ids of the largest logits, the largest first; of equal ones the
/// smaller id. `count` is at most `vocabSize`.
void likeliestIds(const float *logits, int64_t vocabSize, size_t count,
                  int32_t *ids);

/// The natural logarithms of the probabilities of `ids` in the whole
/// vocabulary: log softmax of `logits` (vocab_size), in double.
void logProbabilities(const float *logits, int64_t vocabSize,
                      const int32_t *ids, size_t count, double *out);

/// INVALID_ARGUMENT unless `bits` are a mask of Sampler::allow.
Status checkMask(const std::vector<uint32_t> &bits, int64_t vocabSize);

/// Draws ids for one text. Used by one thread at a time: where threads might
/// meet, each enters before it uses a sampler, and leaves afterwards.
class Sampler {
public:
  /// Checks the options; `vocabSize` is the number of logits.
  static Result<Sampler> create(const SamplerOptions &options,
                                int64_t vocabSize);

  /// False where another thread, or a step of a batch, is using the sampler.
  bool enter() { return !user.there.exchange(true, std::memory_order_acquire); }
  void leave() { user.there.store(false, std::memory_order_release); }

  int64_t vocabSize() const { return static_cast<int64_t>(vocab); }

  /// Notes that `id`, of the prompt or drawn, is in the text. Ids that the
  /// model does not have are ignored.
  void accept(int64_t id, bool drawn);

  /// Adds `bias` to the logits of ids from now on, before everything else; it
  /// replaces earlier biases. INVALID_ARGUMENT: an id that the model does not
  /// have, or a bias that is not finite.
  Status setBias(const std::vector<std::pair<int32_t, float>> &bias);

  /// Lets only ids be drawn whose bits are set. `bits` has (vocab_size + 31) /
  /// 32 words, the lowest id in the lowest bit; with no words, all ids may be
  /// drawn. INVALID_ARGUMENT if no id is left.
  Status allow(const std::vector<uint32_t> &bits);

  bool hasMask() const { return !allowed.empty(); }
  /// Becomes the sampler of the same vocabulary that `before` will be after it
  /// has drawn `id`.
  void follow(const Sampler &before, int32_t id);
  /// Goes on as if it had drawn an id; the caller then accepts it.
  void skip() { random.next(); }

  /// Whether draws need the logits on the host: devices know no biases and no
  /// allowed ids.
  bool needsLogits() const { return !biases.empty() || !allowed.empty(); }

  /// Whether the next id is the one of the largest logit, whatever the text.
  bool takesBest() const {
    return parameters.greedy && !options.penalizes() && !needsLogits();
  }

  /// The next id for `logits` (vocab_size); the caller then accepts it. At
  /// temperature 0, the id of the largest logit; if several are equal, the
  /// lowest id. A logit that is not finite is CRIA_DATA_LOSS.
  Result<int32_t> sample(const float *logits);

  /// An id that may be drawn.
  struct Choice {
    int32_t id;
    double probability;
  };
  /// The distribution that `sample` draws from, without drawing: the ids left
  /// after every step, ascending, their probabilities adding up to 1.
  Result<std::vector<Choice>> distribution(const float *logits);

  /// An id of the text so far.
  struct Seen {
    int32_t id;
    int32_t times; // in the text
    int32_t drawn; // of these, those that were drawn
  };

  // For a device that draws by itself: what it needs for the next draw, and the
  // ids that are weakened, ascending. Neither changes the sampler, so that a
  // step that failed may be repeated.
  CriaSampling next() const;
  const std::vector<Seen> &seenIds() const { return seen; }
  /// The id that the device drew. The next draw has another random number.
  Result<int32_t> take(const CriaSampled &sampled);

private:
  struct Candidate {
    uint64_t weight;
    float score;
    int32_t id;
  };

  Sampler(const SamplerOptions &options, int64_t vocabSize);
  void count(const Seen &added);
  Result<int32_t> check(const CriaSampled &sampled) const;
  CriaSampled penalize(const float *logits);
  size_t sizeOf(size_t block) const;
  template <typename Body> void forIds(float least, Body body) const;
  float topKScore() const;
  float topPScore(float best, float least);
  float leastScore(float best);
  std::vector<Candidate> candidates(float best, float least) const;
  uint64_t weighBlocks(float best, float least, uint64_t leastWeight);
  bool mayDraw(size_t id) const {
    return allowed.empty() || (allowed[id / 32] >> id % 32 & 1);
  }

  /// Whether somebody is using the sampler. A copy is another sampler.
  struct User {
    User() = default;
    User(const User &) {}
    User &operator=(const User &) { return *this; }
    std::atomic<bool> there{false};
  };

  User user;
  size_t vocab; // how many logits there are
  SamplerOptions options;
  CriaSampling parameters; // all but the random number
  Random random;
  std::vector<Seen> seen;   // that count, ascending; none without penalties
  std::vector<Seen> window; // the last ids, a ring, if only these count
  size_t oldest = 0;        // of the window
  std::vector<std::pair<int32_t, float>> biases;
  std::vector<uint32_t> allowed; // one bit for each id; none: all

  // Of one draw: the scores after the penalties, which are the logits or
  // `adjusted`, and of each block of ids the best score and the weight.
  const float *scores = nullptr;
  std::vector<float> adjusted, bests;
  std::vector<uint64_t> sums;
};

/// FAILED_PRECONDITION, because a sampler could not be entered.
Status samplerIsInUse();

/// Enters a sampler, unless it is null, and leaves it.
class SamplerUse {
public:
  explicit SamplerUse(Sampler *sampler)
      : sampler(sampler), entered(sampler && sampler->enter()) {}
  ~SamplerUse() {
    if (entered)
      sampler->leave();
  }
  SamplerUse(const SamplerUse &) = delete;
  SamplerUse &operator=(const SamplerUse &) = delete;

  Status status() const {
    return entered || !sampler ? Status() : samplerIsInUse();
  }

private:
  Sampler *sampler;
  bool entered;
};

} // namespace cria
