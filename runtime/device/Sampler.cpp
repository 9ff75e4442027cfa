#include "runtime/device/Sampler.h"

#include <algorithm>
#include <cfloat>
#include <cmath>
#include <functional>
#include <iterator>
#include <string>
#include <utility>

namespace cria {

uint64_t Random::next() {
  uint64_t z = state += 0x9E3779B97F4A7C15u;
  z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
  z = (z ^ z >> 27) * 0x94D049BB133111EBu;
  return z ^ z >> 31;
}

static constexpr float powerSeries[] = CRIA_POWER_SERIES;

uint64_t weigh(float score, float best, float scale) {
  // Keeps the difference finite: infinity times a scale of 0 would be NaN.
  float y = std::max(score - best, -FLT_MAX) * scale;
  y = std::max(y, -float(CRIA_WEIGHT_BITS + 1));
  float whole = (y + 0x1.8p23f) - 0x1.8p23f; // nearest, ties to even
  float rest = y - whole;
  float power = powerSeries[0];
  for (size_t i = 1; i < std::size(powerSeries); ++i)
    power = power * rest + powerSeries[i];
  auto bits = static_cast<uint64_t>(static_cast<uint32_t>(power * 0x1p24f));
  return bits << (CRIA_WEIGHT_BITS - 24) >> static_cast<uint32_t>(-whole);
}

/// a * b / 2^64.
static uint64_t multiplyHigh(uint64_t a, uint64_t b) {
  return static_cast<uint64_t>(static_cast<unsigned __int128>(a) * b >> 64);
}

Result<Sampler> Sampler::create(const SamplerOptions &options,
                                int64_t vocabSize) {
  if (Status status = options.check(); !status.ok())
    return status;
  if (vocabSize < 1 || vocabSize > CRIA_MAX_VOCAB)
    return Status(CRIA_INVALID_ARGUMENT, {"vocab_size is ", vocabSize,
                                          ", expected 1 to ", CRIA_MAX_VOCAB});
  return Sampler(options, vocabSize);
}

Sampler::Sampler(const SamplerOptions &options, int64_t vocabSize)
    : options(options), parameters{}, random(options.seed), scores(vocabSize) {
  parameters.top_p = options.topP < 1
                         ? static_cast<uint64_t>(options.topP * 0x1p64)
                         : UINT64_MAX;
  parameters.min_weight =
      static_cast<uint64_t>(std::ldexp(options.minP, CRIA_WEIGHT_BITS));
  parameters.greedy = options.temperature == 0;
  parameters.scale =
      parameters.greedy
          ? 0
          : static_cast<float>(std::min<double>(
                1 / (std::log(2.0) * options.temperature), FLT_MAX));
  parameters.penalty = static_cast<float>(options.repetitionPenalty);
  parameters.presence = static_cast<float>(options.presencePenalty);
  parameters.frequency = static_cast<float>(options.frequencyPenalty);
  parameters.top_k =
      static_cast<int32_t>(std::min<int64_t>(options.topK, INT32_MAX));
}

Status samplerIsInUse() {
  return Status(CRIA_FAILED_PRECONDITION,
                "another thread, or a step of a batch, is using the sampler");
}

/// Adds to what is known of an id, or takes away.
void Sampler::count(const Seen &added) {
  auto place =
      std::lower_bound(seen.begin(), seen.end(), added.id,
                       [](const Seen &one, int32_t id) { return one.id < id; });
  if (place == seen.end() || place->id != added.id)
    place = seen.insert(place, {added.id, 0, 0});
  place->times += added.times;
  place->drawn += added.drawn;
  if (!place->times)
    seen.erase(place);
}

void Sampler::accept(int64_t id, bool drawn) {
  if (id < 0 || id >= vocabSize() || !options.penalizes())
    return;
  Seen added = {static_cast<int32_t>(id), 1, drawn};
  count(added);
  auto most = static_cast<size_t>(options.penaltyWindow);
  if (window.size() < most)
    return window.push_back(added);
  if (!most)
    return;
  std::swap(window[oldest], added);
  oldest = (oldest + 1) % most;
  count({added.id, -added.times, -added.drawn});
}

Status Sampler::setBias(const std::vector<std::pair<int32_t, float>> &bias) {
  for (const auto &[id, added] : bias)
    if (id < 0 || id >= vocabSize() || !std::isfinite(added))
      return Status(CRIA_INVALID_ARGUMENT,
                    {"a bias of ", added, " for id ", id,
                     ", expected finite ones for ids from 0 to ",
                     vocabSize() - 1});
  biases = bias;
  return Status();
}

Status checkMask(const std::vector<uint32_t> &bits, int64_t vocabSize) {
  auto ids = static_cast<size_t>(vocabSize);
  size_t words = (ids + 31) / 32;
  if (!bits.empty() && bits.size() != words)
    return Status(CRIA_INVALID_ARGUMENT,
                  {bits.size(), " words of allowed ids, expected ", words});
  for (size_t id = 0; id < ids; ++id)
    if (bits.empty() || (bits[id / 32] >> id % 32 & 1))
      return Status();
  return Status(CRIA_INVALID_ARGUMENT, "no id is allowed");
}

Status Sampler::allow(const std::vector<uint32_t> &bits) {
  Status status = checkMask(bits, vocabSize());
  if (status.ok())
    allowed = bits;
  return status;
}

// Scores and candidates last for one draw, so they are not copied.
void Sampler::follow(const Sampler &before, int32_t id) {
  options = before.options;
  parameters = before.parameters;
  random = before.random;
  seen = before.seen;
  window = before.window;
  oldest = before.oldest;
  biases = before.biases;
  allowed = before.allowed;
  skip();
  accept(id, /*drawn=*/true);
}

CriaSampling Sampler::next() const {
  CriaSampling next = parameters;
  next.random = Random(random).next();
  return next;
}

/// Computes the scores and finds the best.
CriaSampled Sampler::penalize(const float *logits) {
  std::copy(logits, logits + scores.size(), scores.begin());
  for (const auto &[id, bias] : biases)
    scores[static_cast<size_t>(id)] += bias;
  for (const Seen &one : seen) {
    float &score = scores[static_cast<size_t>(one.id)];
    score = score < 0 ? score * parameters.penalty : score / parameters.penalty;
    if (!one.drawn)
      continue;
    score -= static_cast<float>(one.drawn) * parameters.frequency;
    score -= parameters.presence;
  }
  auto broken = std::find_if(scores.begin(), scores.end(),
                             [](float x) { return !std::isfinite(x); });
  bool isBroken = broken != scores.end();
  for (size_t id = 0; id < scores.size() && !allowed.empty(); ++id)
    if (!mayDraw(id) && !isBroken)
      scores[id] = -INFINITY;
  auto found =
      isBroken ? broken : std::max_element(scores.begin(), scores.end());
  auto id = static_cast<int32_t>(found - scores.begin());
  return {id, isBroken, logits[id], 0};
}

Result<int32_t> Sampler::take(const CriaSampled &sampled) {
  random.next();
  return check(sampled);
}

Result<int32_t> Sampler::check(const CriaSampled &sampled) const {
  if (sampled.id < 0 || sampled.id >= vocabSize())
    return Status(CRIA_DATA_LOSS,
                  {"the device drew id ", sampled.id, " of ", scores.size()});
  if (!sampled.broken)
    return sampled.id;
  if (std::isfinite(sampled.logit) &&
      (!biases.empty() || parameters.presence || parameters.frequency))
    return Status(CRIA_INVALID_ARGUMENT,
                  {"the logit of id ", sampled.id,
                   " is not finite with its bias and penalties"});
  if (std::isfinite(sampled.logit))
    return outOfRange("repetition_penalty", options.repetitionPenalty,
                      "one that leaves the logits finite");
  return Status(CRIA_DATA_LOSS,
                {"the logit of id ", sampled.id, " is ", sampled.logit,
                 ": the weights or the computation are broken"});
}

/// The top_k-th largest score; -infinity if top_k excludes nothing.
float Sampler::topKScore() const {
  auto k = static_cast<size_t>(parameters.top_k);
  if (k == 0 || k >= scores.size())
    return -INFINITY;
  std::vector<float> order = scores;
  std::nth_element(order.begin(), order.begin() + (k - 1), order.end(),
                   std::greater<>());
  return order[k - 1];
}

/// Takes candidates from the best down until they hold top_p of the whole
/// weight. Returns the score of the last one. A heap sorts only these
/// candidates.
float Sampler::topPScore() const {
  uint64_t target =
      std::max<uint64_t>(multiplyHigh(parameters.top_p, totalWeight()), 1);
  auto lower = [](const Candidate &a, const Candidate &b) {
    return a.score < b.score;
  };
  std::vector<Candidate> heap = candidates;
  std::make_heap(heap.begin(), heap.end(), lower);
  auto rest = heap.end();
  uint64_t held = 0;
  do {
    std::pop_heap(heap.begin(), rest, lower);
    held += (--rest)->weight;
  } while (rest != heap.begin() && held < target);
  return rest->score;
}

uint64_t Sampler::totalWeight() const {
  uint64_t total = 0;
  for (const Candidate &candidate : candidates)
    total += candidate.weight;
  return total;
}

/// Leaves in `candidates` the ids that may be drawn.
Status Sampler::filter(const float *logits) {
  CriaSampled best = penalize(logits);
  if (best.broken)
    return check(best).status();
  candidates.clear();
  if (parameters.greedy) {
    candidates.push_back({1, scores[best.id], best.id});
    return Status();
  }
  float least = topKScore();
  for (size_t id = 0; id < scores.size(); ++id)
    if (scores[id] >= least && mayDraw(id))
      candidates.push_back(
          {weigh(scores[id], scores[best.id], parameters.scale), scores[id],
           static_cast<int32_t>(id)});
  least = parameters.top_p != UINT64_MAX ? topPScore() : least;
  candidates.erase(std::remove_if(candidates.begin(), candidates.end(),
                                  [&](const Candidate &one) {
                                    return one.score < least ||
                                           one.weight < parameters.min_weight;
                                  }),
                   candidates.end());
  return Status();
}

Result<int32_t> Sampler::sample(const float *logits) {
  uint64_t drawn = random.next();
  if (Status status = filter(logits); !status.ok())
    return status;
  uint64_t left = multiplyHigh(drawn, totalWeight());
  for (const Candidate &candidate : candidates) {
    if (left < candidate.weight)
      return candidate.id;
    left -= candidate.weight;
  }
  return candidates.back().id; // not reached: `left` is less than the sum
}

Result<std::vector<Sampler::Choice>>
Sampler::distribution(const float *logits) {
  if (Status status = filter(logits); !status.ok())
    return status;
  auto total = static_cast<double>(totalWeight());
  std::vector<Choice> choices;
  for (const Candidate &candidate : candidates)
    choices.push_back(
        {candidate.id, static_cast<double>(candidate.weight) / total});
  return choices;
}

void likeliestIds(const float *logits, int64_t vocabSize, size_t count,
                  int32_t *ids) {
  size_t found = 0; // ids so far, sorted
  for (int64_t id = 0; id < vocabSize && count > 0; ++id) {
    if (found == count && !(logits[id] > logits[ids[count - 1]]))
      continue;
    size_t at = found < count ? found++ : count - 1;
    for (; at > 0 && logits[id] > logits[ids[at - 1]]; --at)
      ids[at] = ids[at - 1];
    ids[at] = static_cast<int32_t>(id);
  }
}

void logProbabilities(const float *logits, int64_t vocabSize,
                      const int32_t *ids, size_t count, double *out) {
  float best = *std::max_element(logits, logits + vocabSize);
  double sum = 0;
  for (int64_t id = 0; id < vocabSize; ++id)
    sum += std::exp(static_cast<double>(logits[id]) - best);
  for (size_t i = 0; i < count; ++i)
    out[i] = static_cast<double>(logits[ids[i]]) - best - std::log(sum);
}

} // namespace cria
