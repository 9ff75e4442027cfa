#include "runtime/device/Sampler.h"
#include "runtime/device/Scores.h"

#include <algorithm>
#include <cfloat>
#include <cmath>
#include <functional>
#include <string>
#include <utility>

namespace cria {

uint64_t Random::next() {
  static constexpr uint64_t mix[][2] = CRIA_RANDOM_MIX;
  uint64_t z = state += CRIA_RANDOM_STEP;
  for (auto [shift, factor] : mix)
    z = (z ^ z >> shift) * factor;
  return z;
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
    : vocab(static_cast<size_t>(vocabSize)), options(options), parameters{},
      random(options.seed) {
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

// What belongs to one draw is not copied.
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
  next.random = random.now();
  return next;
}

/// Computes the scores, the best one of each block and the best of all.
CriaSampled Sampler::penalize(const float *logits) {
  scores = logits;
  if (!biases.empty() || !seen.empty() || !allowed.empty()) {
    adjusted.assign(logits, logits + vocab);
    scores = adjusted.data();
  }
  for (const auto &[id, bias] : biases)
    adjusted[static_cast<size_t>(id)] += bias;
  for (const Seen &one : seen) {
    float &score = adjusted[static_cast<size_t>(one.id)];
    score = score < 0 ? score * parameters.penalty : score / parameters.penalty;
    if (!one.drawn)
      continue;
    score -= static_cast<float>(one.drawn) * parameters.frequency;
    score -= parameters.presence;
  }
  if (!areFinite(scores, vocab)) {
    auto broken = std::find_if(scores, scores + vocab,
                               [](float x) { return !std::isfinite(x); });
    auto id = static_cast<int32_t>(broken - scores);
    return {id, true, logits[id], 0};
  }
  for (size_t id = 0; id < vocab && !allowed.empty(); ++id)
    if (!mayDraw(id))
      adjusted[id] = -INFINITY;
  bests.resize((vocab + kScoreBlock - 1) / kScoreBlock);
  for (size_t block = 0; block < bests.size(); ++block)
    bests[block] = bestOf(scores + block * kScoreBlock, sizeOf(block));
  auto found = std::max_element(bests.begin(), bests.end());
  const float *begin = scores + (found - bests.begin()) * kScoreBlock;
  auto id =
      static_cast<int32_t>(std::find(begin, scores + vocab, *found) - scores);
  return {id, false, logits[id], 0};
}

Result<int32_t> Sampler::take(const CriaSampled &sampled) {
  random.next();
  return check(sampled);
}

Result<int32_t> Sampler::check(const CriaSampled &sampled) const {
  if (sampled.id < 0 || sampled.id >= vocabSize())
    return Status(CRIA_DATA_LOSS,
                  {"the device drew id ", sampled.id, " of ", vocab});
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

size_t Sampler::sizeOf(size_t block) const {
  return std::min(kScoreBlock, vocab - block * kScoreBlock);
}

/// Calls `body` for each id of a score of at least `least`, ascending.
template <typename Body> void Sampler::forIds(float least, Body body) const {
  for (size_t block = 0; block < bests.size(); ++block) {
    if (bests[block] < least)
      continue;
    size_t first = block * kScoreBlock;
    for (size_t id = first; id < first + sizeOf(block); ++id)
      if (scores[id] >= least)
        body(id);
  }
}

/// The top_k-th largest score. If top_k excludes nothing, the least finite
/// number, because ids that may not be drawn have the score -infinity.
///
/// The best scores of top_k blocks are at least the top_k-th largest best score
/// of a block. So top_k scores are, and smaller ones are not looked at.
float Sampler::topKScore() const {
  auto k = static_cast<size_t>(parameters.top_k);
  if (k == 0 || k >= vocab)
    return -FLT_MAX;
  auto kth = [k](std::vector<float> &of) {
    auto at = of.begin() + static_cast<ptrdiff_t>(k - 1);
    std::nth_element(of.begin(), at, of.end(), std::greater<>());
    return *at;
  };
  std::vector<float> large = bests;
  float least = k <= large.size() ? kth(large) : -INFINITY;
  large.clear();
  forIds(least, [&](size_t id) { large.push_back(scores[id]); });
  return std::max(kth(large), -FLT_MAX);
}

/// The ids of scores of at least `least`, ascending.
std::vector<Sampler::Candidate> Sampler::candidates(float best,
                                                    float least) const {
  std::vector<Candidate> found;
  forIds(least, [&](size_t id) {
    found.push_back({weigh(scores[id], best, parameters.scale), scores[id],
                     static_cast<int32_t>(id)});
  });
  return found;
}

/// Weighs the ids of scores of at least `least`, a block after the other, whose
/// sums remain in `sums`. Returns the sum of all.
uint64_t Sampler::weighBlocks(float best, float least, uint64_t leastWeight) {
  uint64_t weights[kScoreBlock], total = 0;
  sums.assign(bests.size(), 0);
  for (size_t block = 0; block < bests.size(); ++block)
    if (bests[block] >= least)
      total += sums[block] =
          weighBlock(scores + block * kScoreBlock, sizeOf(block), best,
                     parameters.scale, least, leastWeight, weights);
  return total;
}

/// Takes ids from the best down, of scores of at least `least`, until they hold
/// top_p of the whole weight. Returns the score of the last one. Most of the
/// weight is near the best, so those further down are only looked at if need
/// be. A heap sorts only the ids that are taken.
float Sampler::topPScore(float best, float least) {
  uint64_t total = weighBlocks(best, least, 0), held = 0;
  uint64_t target =
      std::max<uint64_t>(multiplyHigh(parameters.top_p, total), 1);
  auto lower = [](const Candidate &a, const Candidate &b) {
    return a.score < b.score;
  };
  std::vector<Candidate> heap;
  for (float bits = 2; held < target; bits *= 2) {
    float bound = std::max(least, best - bits / parameters.scale);
    heap = candidates(best, bound);
    held = 0;
    for (const Candidate &candidate : heap)
      held += candidate.weight;
  }
  std::make_heap(heap.begin(), heap.end(), lower);
  auto rest = heap.end();
  held = 0;
  do {
    std::pop_heap(heap.begin(), rest, lower);
    held += (--rest)->weight;
  } while (rest != heap.begin() && held < target);
  return rest->score;
}

/// The least score that top_k and top_p leave.
float Sampler::leastScore(float best) {
  float least = topKScore();
  return parameters.top_p != UINT64_MAX ? topPScore(best, least) : least;
}

Result<int32_t> Sampler::sample(const float *logits) {
  uint64_t drawn = random.next();
  CriaSampled found = penalize(logits);
  if (found.broken || parameters.greedy)
    return check(found);
  float best = scores[found.id], least = leastScore(best);
  uint64_t total = weighBlocks(best, least, parameters.min_weight);
  uint64_t left = multiplyHigh(drawn, total);
  size_t block = 0;
  for (; left >= sums[block]; ++block) // `left` is less than the sum
    left -= sums[block];
  uint64_t weights[kScoreBlock];
  size_t first = block * kScoreBlock, at = 0;
  weighBlock(scores + first, sizeOf(block), best, parameters.scale, least,
             parameters.min_weight, weights);
  for (; left >= weights[at]; ++at)
    left -= weights[at];
  return static_cast<int32_t>(first + at);
}

Result<std::vector<Sampler::Choice>>
Sampler::distribution(const float *logits) {
  CriaSampled found = penalize(logits);
  if (found.broken)
    return check(found).status();
  if (parameters.greedy)
    return std::vector<Choice>{{found.id, 1}};
  float best = scores[found.id], least = leastScore(best);
  auto total =
      static_cast<double>(weighBlocks(best, least, parameters.min_weight));
  std::vector<Choice> choices;
  for (const Candidate &one : candidates(best, least))
    if (one.weight >= parameters.min_weight)
      choices.push_back({one.id, static_cast<double>(one.weight) / total});
  return choices;
}

void likeliestIds(const float *logits, int64_t vocabSize, size_t count,
                  int32_t *ids) {
  size_t found = 0; // ids so far, sorted
  auto vocab = static_cast<size_t>(vocabSize);
  for (size_t id = 0; id < vocab && count > 0; ++id) {
    size_t left = std::min(kScoreBlock, vocab - id);
    if (found == count && id % kScoreBlock == 0 &&
        !(bestOf(logits + id, left) > logits[ids[count - 1]])) {
      id += left - 1;
      continue;
    }
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
  auto vocab = static_cast<size_t>(vocabSize);
  float best = bestOf(logits, vocab);
  double sum = sumOfExps(logits, vocab, best);
  for (size_t i = 0; i < count; ++i)
    out[i] = static_cast<double>(logits[ids[i]]) - best - std::log(sum);
}

} // namespace cria
