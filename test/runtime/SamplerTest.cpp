/// Compared with the logits processors of transformers:
/// data/make_sampler_goldens.py says how the goldens were made.
#include "runtime/device/Sampler.h"

#include "runtime/base/Json.h"
#include "runtime/device/Scores.h"
#include "test/runtime/Fixtures.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

using namespace cria;
using namespace cria::test;
using testing::ElementsAre;

static constexpr double inf = std::numeric_limits<double>::infinity();

static Sampler sampler(const SamplerOptions &options, int64_t vocabSize) {
  return *Sampler::create(options, vocabSize);
}

static SamplerOptions greedy() {
  SamplerOptions options;
  options.temperature = 0;
  return options;
}

TEST(Sampler, DistributionsOfTransformers) {
  auto goldens =
      readJson(CRIA_SOURCE_FOLDER "/test/runtime/data/sampler_goldens.json");
  ASSERT_TRUE(goldens.ok()) << goldens.status().message();
  for (const nlohmann::json &golden : goldens->root()) {
    SamplerOptions options;
    options.temperature = golden["temperature"];
    options.topK = golden["top_k"];
    options.topP = golden["top_p"];
    options.minP = golden["min_p"];
    options.repetitionPenalty = golden["repetition_penalty"];
    std::vector<float> logits = golden["logits"];
    Sampler one = sampler(options, static_cast<int64_t>(logits.size()));
    for (int64_t id : golden["seen"])
      one.accept(id, true);
    auto choices = one.distribution(logits.data());
    ASSERT_TRUE(choices.ok());
    std::sort(choices->begin(), choices->end(),
              [](auto &a, auto &b) { return a.id < b.id; });
    ASSERT_EQ(choices->size(), golden["ids"].size()) << golden;
    for (size_t i = 0; i < choices->size(); ++i) {
      EXPECT_EQ((*choices)[i].id, golden["ids"][i]) << golden;
      EXPECT_NEAR((*choices)[i].probability, golden["probabilities"][i], 1e-6);
    }
  }
}

// The first numbers of splitmix64, as its author's code gives them for seed 0.
TEST(Sampler, RandomIsSplitmix64) {
  Random random(0);
  for (uint64_t expected :
       {0xE220A8397B1DCDAFu, 0x6E789E6AA1B965F4u, 0x06C45D188009454Fu})
    EXPECT_EQ(random.next(), expected);
}

TEST(Sampler, DrawsFollowTheDistribution) {
  const std::vector<float> logits = {0, 1, 2, -1};
  Sampler one = sampler({}, 4);
  double total = 0;
  for (float logit : logits)
    total += std::exp(logit);
  int counts[4] = {};
  for (int i = 0; i < 40'000; ++i)
    ++counts[*one.sample(logits.data())];
  for (int id = 0; id < 4; ++id)
    EXPECT_NEAR(counts[id] / 40'000.0, std::exp(logits[id]) / total, 0.01);
}

TEST(Sampler, SameSeedSameIds) {
  const std::vector<float> logits(1000, 0);
  auto draw = [&](uint64_t seed) {
    SamplerOptions options;
    options.seed = seed;
    Sampler one = sampler(options, 1000);
    std::vector<int32_t> ids;
    for (int i = 0; i < 8; ++i)
      ids.push_back(*one.sample(logits.data()));
    return ids;
  };
  EXPECT_EQ(draw(7), draw(7));
  EXPECT_NE(draw(7), draw(8));
  EXPECT_EQ(draw(UINT64_MAX), draw(UINT64_MAX));
  // The same on every machine.
  EXPECT_THAT(draw(0), ElementsAre(883, 431, 26, 970, 106, 327, 173, 771));
}

TEST(Sampler, GreedyTakesTheLowestIdOfEqualOnes) {
  const std::vector<float> logits = {1, 3, 3, 2};
  EXPECT_EQ(*sampler(greedy(), 4).sample(logits.data()), 1);
}

TEST(Sampler, GreedyHeedsThePenalty) {
  const std::vector<float> logits = {1, 3, 2.5, -1}, negative = {-2, -1, -1.5};
  SamplerOptions options = greedy();
  options.repetitionPenalty = 2;
  Sampler one = sampler(options, 4);
  one.accept(1, true);
  one.accept(1, true); // counts once
  EXPECT_EQ(*one.sample(logits.data()), 2);
  Sampler other = sampler(options, 3);
  other.accept(1, true);
  other.accept(99, true); // not the model's
  other.accept(-1, true);
  EXPECT_EQ(*other.sample(negative.data()), 2);
}

// What is left of logits of 0 shows what was taken from each. A prompt's ids
// count for the repetition penalty alone.
TEST(Sampler, TakesWhatWasDrawnFromLogits) {
  const std::vector<float> zeros(5);
  SamplerOptions options;
  options.presencePenalty = 0.5;
  options.frequencyPenalty = 0.25;
  auto takes = [&](const std::vector<double> &expected) {
    Sampler one = sampler(options, 5);
    one.accept(0, /*drawn=*/false);
    for (int64_t id : {4, 1, 3, 3, 1, 1})
      one.accept(id, /*drawn=*/true);
    auto choices = one.distribution(zeros.data());
    ASSERT_TRUE(choices.ok()) << choices.status().message();
    for (size_t id = 0; id < 5; ++id)
      EXPECT_NEAR(-std::log((*choices)[id].probability),
                  expected[id] - std::log((*choices)[2].probability), 1e-6)
          << id;
  };
  takes({0, 1.25, 0, 1, 0.75});
  options.penaltyWindow = 6;
  takes({0, 1.25, 0, 1, 0.75});
  options.penaltyWindow = 4; // 3, 3, 1, 1
  takes({0, 1, 0, 1, 0});
  options.penaltyWindow = 1;
  takes({0, 0.75, 0, 0, 0});
  options.presencePenalty = -0.5;
  takes({0, -0.25, 0, 0, 0});
}

TEST(Sampler, PenaltiesMayNotOverflow) {
  const std::vector<float> logits = {-1e38f, 0};
  SamplerOptions options;
  options.frequencyPenalty = 3e38;
  Sampler one = sampler(options, 2);
  one.accept(0, true);
  EXPECT_THAT(one.sample(logits.data()).status(),
              fails(CRIA_INVALID_ARGUMENT,
                    "the logit of id 0 is not finite with its bias and"));
}

// A tiny temperature is greedy, a huge one uniform; neither overflows.
TEST(Sampler, ExtremeTemperatures) {
  const std::vector<float> logits = {-3e38f, 3e38f, 0};
  SamplerOptions options;
  options.temperature = 1e-300;
  EXPECT_EQ(*sampler(options, 3).sample(logits.data()), 1);
  options.temperature = 1e300;
  Sampler hot = sampler(options, 3);
  auto choices = hot.distribution(logits.data());
  for (const auto &choice : *choices)
    EXPECT_NEAR(choice.probability, 1.0 / 3, 1e-9);
}

TEST(Sampler, RefusesLogitsThatAreNotFinite) {
  for (double bad : {inf, -inf, std::nan("")}) {
    std::vector<float> logits = {0, 1, static_cast<float>(bad)};
    EXPECT_THAT(sampler(greedy(), 3).sample(logits.data()).status(),
                fails(CRIA_DATA_LOSS, "the logit of id 2 is "));
    EXPECT_THAT(sampler({}, 3).sample(logits.data()).status(),
                fails(CRIA_DATA_LOSS, "the logit of id 2 is "));
  }
}

static Status checked(double SamplerOptions::*member, double value) {
  SamplerOptions options;
  options.*member = value;
  return Sampler::create(options, 8).status();
}

TEST(Sampler, RefusesParametersOutOfRange) {
  using O = SamplerOptions;
  const double nan = std::nan("");
  for (double bad : {-1.0, inf, -inf, nan})
    EXPECT_THAT(checked(&O::temperature, bad),
                fails(CRIA_INVALID_ARGUMENT, "temperature is "));
  for (double bad : {-0.1, 1.1, 2.0, inf, nan}) {
    EXPECT_THAT(checked(&O::topP, bad),
                fails(CRIA_INVALID_ARGUMENT, "top_p is "));
    EXPECT_THAT(checked(&O::minP, bad),
                fails(CRIA_INVALID_ARGUMENT, "min_p is "));
  }
  for (double bad : {0.0, -1.0, inf, nan})
    EXPECT_THAT(checked(&O::repetitionPenalty, bad),
                fails(CRIA_INVALID_ARGUMENT, "repetition_penalty is "));
  for (double bad : {inf, -1e39, nan}) {
    EXPECT_THAT(checked(&O::presencePenalty, bad),
                fails(CRIA_INVALID_ARGUMENT, "presence_penalty is "));
    EXPECT_THAT(checked(&O::frequencyPenalty, bad),
                fails(CRIA_INVALID_ARGUMENT, "frequency_penalty is "));
  }
  SamplerOptions options;
  options.topK = -1;
  EXPECT_THAT(Sampler::create(options, 8).status(),
              fails(CRIA_INVALID_ARGUMENT, "top_k is -1, expected 0 (all)"));
  options.topK = 0;
  options.penaltyWindow = -1;
  EXPECT_THAT(Sampler::create(options, 8).status(),
              fails(CRIA_INVALID_ARGUMENT, "penalty_window is -1"));
  EXPECT_THAT(Sampler::create({}, 0).status(),
              fails(CRIA_INVALID_ARGUMENT, "vocab_size is 0"));
  EXPECT_TRUE(checked(&O::topP, 0).ok());
}

// A vocabulary of Llama 3's size: milliseconds, not a full sort.
TEST(Sampler, LargeVocabulary) {
  const int64_t vocab = 128'256;
  std::vector<float> logits(vocab);
  Random random(1);
  for (float &logit : logits)
    logit = static_cast<float>(random.next() >> 40) * 0x1p-24f * 20;
  SamplerOptions options;
  options.topK = 50;
  options.topP = 0.9;
  Sampler one = sampler(options, vocab);
  double start = processorSeconds();
  for (int i = 0; i < 20; ++i)
    EXPECT_TRUE(one.sample(logits.data()).ok());
  EXPECT_LT((processorSeconds() - start) / 20, 0.1);
  EXPECT_LE(one.distribution(logits.data())->size(), 50u);
}

// What Abi.h says of CriaSampling, done plainly: of how many blocks the ids
// are, and which of them are passed over, makes no difference.
TEST(Sampler, DrawsAsDefined) {
  Random random(1);
  auto below = [&](uint64_t end) { return random.next() % end; };
  for (int round = 0; round < 200; ++round) {
    size_t vocab = 1 + below(round % 2 ? 20 : 5000);
    std::vector<float> logits(vocab);
    std::vector<uint32_t> mask((vocab + 31) / 32, UINT32_MAX);
    for (float &logit : logits) // many are equal
      logit = static_cast<float>(below(200)) / 8 - 12;
    SamplerOptions options;
    options.seed = random.next();
    options.temperature = std::ldexp(1.0, static_cast<int>(below(6)) - 3);
    options.topK = below(2) ? static_cast<int64_t>(below(vocab + 2)) : 0;
    options.topP = below(2) ? static_cast<double>(1 + below(999)) / 1000 : 1;
    options.minP = below(2) ? static_cast<double>(below(100)) / 1000 : 0;
    Sampler one = sampler(options, static_cast<int64_t>(vocab));
    if (below(2)) {
      for (uint32_t &word : mask)
        word = static_cast<uint32_t>(random.next() & random.next());
      mask[0] |= 1;
      ASSERT_TRUE(one.allow(mask).ok());
    }
    std::vector<std::pair<float, size_t>> order; // the likeliest first
    for (size_t id = 0; id < vocab; ++id)
      if (mask[id / 32] >> id % 32 & 1)
        order.push_back({-logits[id], id});
    std::sort(order.begin(), order.end());
    CriaSampling next = one.next();
    float best = -order[0].first;
    auto weightOf = [&](float score) { return weigh(score, best, next.scale); };
    auto keepEqual = [&](size_t count) { // and those as likely as the last
      while (count < order.size() &&
             order[count].first == order[count - 1].first)
        ++count;
      order.resize(std::min(count, order.size()));
    };
    if (options.topK)
      keepEqual(std::min<size_t>(options.topK, order.size()));
    auto sum = [&] {
      unsigned __int128 total = 0;
      for (auto [score, id] : order)
        total += weightOf(-score);
      return total;
    };
    if (options.topP < 1) {
      auto target = static_cast<uint64_t>(sum() * next.top_p >> 64);
      uint64_t held = 0;
      size_t count = 0;
      while (count < order.size() && (!count || held < target))
        held += weightOf(-order[count++].first);
      keepEqual(count);
    }
    while (weightOf(-order.back().first) < next.min_weight)
      order.pop_back();
    std::sort(order.begin(), order.end(),
              [](auto &a, auto &b) { return a.second < b.second; });
    uint64_t drawn = Random(next.random).next();
    auto left = static_cast<uint64_t>(sum() * drawn >> 64);
    size_t at = 0;
    for (; left >= weightOf(-order[at].first); ++at)
      left -= weightOf(-order[at].first);
    auto choices = one.distribution(logits.data());
    ASSERT_TRUE(choices.ok());
    ASSERT_EQ(choices->size(), order.size()) << round;
    for (size_t i = 0; i < order.size(); ++i)
      EXPECT_EQ((*choices)[i].id, static_cast<int32_t>(order[i].second));
    EXPECT_EQ(*one.sample(logits.data()),
              static_cast<int32_t>(order[at].second))
        << round;
  }
}

TEST(Sampler, BiasesMoveTheLikeliestId) {
  const std::vector<float> logits = {1, 3, 2};
  Sampler one = sampler(greedy(), 3);
  EXPECT_FALSE(one.needsLogits());
  ASSERT_TRUE(one.setBias({{2, 1.5f}}).ok());
  EXPECT_TRUE(one.needsLogits());
  EXPECT_EQ(*one.sample(logits.data()), 2);
  ASSERT_TRUE(one.setBias({{1, -5}, {0, 1.5f}}).ok());
  EXPECT_EQ(*one.sample(logits.data()), 0);
  ASSERT_TRUE(one.setBias({}).ok());
  EXPECT_EQ(*one.sample(logits.data()), 1);
  EXPECT_FALSE(one.needsLogits());
  for (auto &&bad : {std::pair(3, 1.0f), std::pair(-1, 1.0f),
                     std::pair(0, std::numeric_limits<float>::infinity())})
    EXPECT_THAT(one.setBias({bad}),
                fails(CRIA_INVALID_ARGUMENT,
                      "expected finite ones for ids from 0 to 2"));
  ASSERT_TRUE(one.setBias({{0, std::numeric_limits<float>::max()}}).ok());
  EXPECT_THAT(one.sample(std::vector<float>(3, 3e38f).data()).status(),
              fails(CRIA_INVALID_ARGUMENT, "not finite with its bias"));
}

TEST(Sampler, DrawsOnlyAllowedIds) {
  std::vector<float> logits(40, 0);
  logits[3] = 9;
  SamplerOptions flat;
  flat.temperature = 1e300; // the others would be as likely
  flat.topK = 5;            // more than are left
  for (const SamplerOptions &options : {greedy(), SamplerOptions(), flat}) {
    Sampler one = sampler(options, 40);
    ASSERT_TRUE(one.allow({1u << 7 | 1u << 9, 1u << 2}).ok());
    auto choices = one.distribution(logits.data());
    ASSERT_TRUE(choices.ok());
    for (const Sampler::Choice &choice : *choices)
      EXPECT_TRUE(choice.id == 7 || choice.id == 9 || choice.id == 34)
          << choice.id;
    EXPECT_THAT(one.allow({0, 0}),
                fails(CRIA_INVALID_ARGUMENT, "no id is allowed"));
    EXPECT_THAT(one.allow({1}), fails(CRIA_INVALID_ARGUMENT,
                                      "1 words of allowed ids, expected 2"));
    EXPECT_NE(*one.sample(logits.data()), 3);
    ASSERT_TRUE(one.allow({}).ok());
  }
  // Broken logits are told of, also those of ids that are not allowed.
  Sampler one = sampler(greedy(), 40);
  ASSERT_TRUE(one.allow({1, 0}).ok());
  logits[3] = static_cast<float>(inf);
  EXPECT_EQ(one.sample(logits.data()).status().code(), CRIA_DATA_LOSS);
}

TEST(Sampler, LogProbabilitiesAreLogSoftmax) {
  const float logits[] = {1000, 1001, 990};
  const int32_t ids[] = {0, 1, 2, 1};
  double found[4];
  logProbabilities(logits, 3, ids, 4, found);
  double total = std::log(std::exp(-1.0) + 1 + std::exp(-11.0));
  EXPECT_NEAR(found[0], -1 - total, 1e-12);
  EXPECT_NEAR(found[1], -total, 1e-12);
  EXPECT_NEAR(found[2], -11 - total, 1e-12);
  EXPECT_EQ(found[3], found[1]);
}
