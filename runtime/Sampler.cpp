#include "runtime/Sampler.h"

#include <algorithm>
#include <cmath>
#include <string>

namespace cria {

static Status outOfRange(const char *name, double found, const char *expected) {
  char text[160];
  snprintf(text, sizeof(text), "%s is %g, expected %s", name, found, expected);
  return Status(CRIA_INVALID_ARGUMENT, text);
}

Status SamplerOptions::check() const {
  if (!std::isfinite(temperature) || temperature < 0)
    return outOfRange("temperature", temperature, "a finite number >= 0");
  if (topK < 0)
    return Status(CRIA_INVALID_ARGUMENT, "top_k is " + std::to_string(topK) +
                                             ", expected 0 (all) or more");
  if (!(topP >= 0 && topP <= 1))
    return outOfRange("top_p", topP, "a number from 0 to 1");
  if (!(minP >= 0 && minP <= 1))
    return outOfRange("min_p", minP, "a number from 0 to 1");
  if (!std::isfinite(repetitionPenalty) || repetitionPenalty <= 0)
    return outOfRange("repetition_penalty", repetitionPenalty,
                      "a finite number > 0");
  return Status();
}

double Random::next() {
  uint64_t z = state += 0x9E3779B97F4A7C15u;
  z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
  z = (z ^ z >> 27) * 0x94D049BB133111EBu;
  z ^= z >> 31;
  return static_cast<double>(z >> 11) * 0x1p-53;
}

Result<Sampler> Sampler::create(const SamplerOptions &options,
                                int64_t vocabSize) {
  if (Status status = options.check(); !status.ok())
    return status;
  if (vocabSize < 1 || vocabSize > INT32_MAX)
    return Status(CRIA_INVALID_ARGUMENT,
                  "vocab_size is " + std::to_string(vocabSize) +
                      ", expected 1 to " + std::to_string(INT32_MAX));
  return Sampler(options, vocabSize);
}

Sampler::Sampler(const SamplerOptions &options, int64_t vocabSize)
    : options(options), random(options.seed), scores(vocabSize),
      seen(vocabSize) {}

void Sampler::accept(int64_t id) {
  if (id < 0 || id >= static_cast<int64_t>(seen.size()) || seen[id])
    return;
  seen[id] = true;
  text.push_back(static_cast<int32_t>(id));
}

/// score = logit of an id not seen; else logit / penalty where positive, logit
/// * penalty where negative: away from the top either way.
Status Sampler::penalize(const float *logits) {
  for (size_t id = 0; id < scores.size(); ++id) {
    if (!std::isfinite(logits[id]))
      return Status(CRIA_DATA_LOSS,
                    "the logit of id " + std::to_string(id) + " is " +
                        std::to_string(logits[id]) +
                        ": the weights or the computation are broken");
    scores[id] = logits[id];
  }
  float penalty = static_cast<float>(options.repetitionPenalty);
  if (penalty == 1.0f)
    return Status();
  for (int32_t id : text) {
    float &score = scores[id];
    score = score < 0 ? score * penalty : score / penalty;
    if (!std::isfinite(score))
      return outOfRange("repetition_penalty", options.repetitionPenalty,
                        "one that leaves the logits finite");
  }
  return Status();
}

/// The candidates whose logit is at least the k-th largest: with ties there may
/// be more than k.
void Sampler::keepTopK() {
  size_t k = scores.size();
  if (options.topK > 0)
    k = static_cast<size_t>(
        std::min<int64_t>(options.topK, static_cast<int64_t>(k)));
  float least = -INFINITY;
  if (k < scores.size()) {
    std::vector<float> order = scores;
    std::nth_element(order.begin(), order.begin() + (k - 1), order.end(),
                     [](float a, float b) { return a > b; });
    least = order[k - 1];
  }
  candidates.clear();
  for (size_t id = 0; id < scores.size(); ++id)
    if (scores[id] >= least)
      candidates.push_back({scores[id], static_cast<int32_t>(id)});
}

/// The candidate's probability over that of the most likely id: 1 for a draw
/// from one.
double Sampler::weigh(const Candidate &candidate) const {
  if (candidates.size() == 1)
    return 1;
  return std::exp((candidate.logit - largestLogit) / options.temperature);
}

/// The most likely candidates until they hold topP of `total`; one at least.
/// They come off a heap, so that only those kept are sorted.
void Sampler::keepTopP(double total) {
  auto lower = [](const Candidate &a, const Candidate &b) {
    return a.logit < b.logit || (a.logit == b.logit && a.id > b.id);
  };
  std::make_heap(candidates.begin(), candidates.end(), lower);
  auto rest = candidates.end();
  double held = 0;
  do {
    std::pop_heap(candidates.begin(), rest, lower);
    held += weigh(*--rest);
  } while (rest != candidates.begin() && held < options.topP * total);
  candidates.erase(candidates.begin(), rest);
  std::reverse(candidates.begin(), candidates.end());
}

int32_t Sampler::draw() {
  double total = 0;
  for (const Candidate &candidate : candidates)
    total += weigh(candidate);
  double left = random.next() * total;
  for (const Candidate &candidate : candidates)
    if ((left -= weigh(candidate)) < 0)
      return candidate.id;
  // Rounding left a little: the last that is possible at all.
  auto possible =
      std::find_if(candidates.rbegin(), candidates.rend(),
                   [&](const Candidate &one) { return weigh(one) > 0; });
  return possible->id;
}

/// Leaves in `candidates` what may be drawn.
Status Sampler::filter(const float *logits) {
  if (Status status = penalize(logits); !status.ok())
    return status;
  auto best = std::max_element(scores.begin(), scores.end());
  largestLogit = *best;
  if (options.temperature == 0) {
    candidates = {{*best, static_cast<int32_t>(best - scores.begin())}};
    return Status();
  }
  keepTopK();
  if (options.topP < 1) {
    double total = 0;
    for (const Candidate &candidate : candidates)
      total += weigh(candidate);
    keepTopP(total);
  }
  if (options.minP > 0)
    candidates.erase(std::remove_if(candidates.begin(), candidates.end(),
                                    [&](const Candidate &candidate) {
                                      return weigh(candidate) < options.minP;
                                    }),
                     candidates.end());
  return Status();
}

Result<int32_t> Sampler::sample(const float *logits) {
  if (Status status = filter(logits); !status.ok())
    return status;
  return draw();
}

Result<std::vector<Sampler::Choice>>
Sampler::distribution(const float *logits) {
  if (Status status = filter(logits); !status.ok())
    return status;
  double total = 0;
  for (const Candidate &candidate : candidates)
    total += weigh(candidate);
  std::vector<Choice> choices;
  for (const Candidate &candidate : candidates)
    choices.push_back({candidate.id, weigh(candidate) / total});
  return choices;
}

} // namespace cria
