/// From logits to the next id. The steps, their order and their edge cases are
/// those of Hugging Face transformers: repetition penalty, temperature, top-k,
/// top-p, min-p, then a draw.
#pragma once

#include "runtime/Status.h"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace cria {

/// What decides how ids are drawn. The defaults draw from the plain
/// distribution.
struct SamplerOptions {
  double temperature = 1;       // divides the logits; 0: the largest one wins
  int64_t topK = 0;             // the K most likely ids; 0: all
  double topP = 1;              // the fewest most likely ids that reach P
  double minP = 0;              // at least P times the largest probability
  double repetitionPenalty = 1; // weakens every id of the text so far
  uint64_t seed = 0;

  /// CRIA_INVALID_ARGUMENT that names the first value out of range.
  Status check() const;
};

/// A stream of random numbers that depends on the seed alone: splitmix64, the
/// same on every machine.
class Random {
public:
  explicit Random(uint64_t seed) : state(seed) {}
  /// Uniform in [0, 1): the upper 53 bits of the next number.
  double next();

private:
  uint64_t state;
};

/// Draws ids for one text.
class Sampler {
public:
  /// Checks the options; `vocabSize` is the number of logits.
  static Result<Sampler> create(const SamplerOptions &options,
                                int64_t vocabSize);

  /// Notes that `id`, of the prompt or drawn, is in the text. Others than the
  /// model's are ignored.
  void accept(int64_t id);

  /// The next id for `logits` (vocab_size); the caller then accepts it. At
  /// temperature 0 the largest logit, of equal ones that with the lowest id.
  /// A logit that is not finite is CRIA_DATA_LOSS.
  Result<int32_t> sample(const float *logits);

  /// An id that may be drawn.
  struct Choice {
    int32_t id;
    double probability;
  };
  /// The distribution that `sample` draws from, without drawing: the ids left
  /// after every step, their probabilities adding up to 1.
  Result<std::vector<Choice>> distribution(const float *logits);

private:
  struct Candidate {
    float logit;
    int32_t id;
  };

  Sampler(const SamplerOptions &options, int64_t vocabSize);
  Status penalize(const float *logits);
  Status filter(const float *logits);
  void keepTopK();
  void keepTopP(double total);
  double weigh(const Candidate &candidate) const;
  int32_t draw();

  SamplerOptions options;
  Random random;
  std::vector<float> scores;         // (vocab_size), after the penalty
  std::vector<bool> seen;            // (vocab_size)
  std::vector<int32_t> text;         // the ids seen, each once
  std::vector<Candidate> candidates; // still in the race
  double largestLogit = 0;
};

} // namespace cria
