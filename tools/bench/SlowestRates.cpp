/// The rates of ranks that share a model. They lie in the report between steps
/// of all ranks, so all ranks measure at the same time, and the slowest counts.
#include "tools/bench/Rates.h"

#include <cstring>
#include <utility>

namespace cria::bench {

namespace {

class SlowestRates : public Rates {
public:
  SlowestRates(std::unique_ptr<Rates> own, const CriaRanks &ranks)
      : own(std::move(own)), ranks(ranks) {
    names = this->own->units();
  }

  Result<double> read() override {
    return slowest([&] { return own->read(); });
  }
  std::string readLoopName() const override { return own->readLoopName(); }
  Result<double> compute(size_t unit) override {
    return slowest([&] { return own->compute(unit); });
  }

private:
  template <typename Measure> Result<double> slowest(Measure measure);

  std::unique_ptr<Rates> own;
  const CriaRanks &ranks;
};

} // namespace

/// Measures when all ranks are here. If one cannot, none has a rate.
template <typename Measure>
Result<double> SlowestRates::slowest(Measure measure) {
  uint64_t none = 0;
  ranks.max(ranks.data, &none, 1);
  Result<double> rate = measure();
  // Positive doubles are ordered as their bits are.
  double seconds = rate.ok() ? 1 / *rate : 0;
  uint64_t bits[2] = {0, !rate.ok()};
  memcpy(bits, &seconds, sizeof(seconds));
  ranks.max(ranks.data, bits, 2);
  if (!rate.ok())
    return rate;
  if (bits[1])
    return Status(CRIA_UNAVAILABLE, "another rank cannot measure it");
  memcpy(&seconds, bits, sizeof(seconds));
  return 1 / seconds;
}

std::unique_ptr<Rates> slowestRates(std::unique_ptr<Rates> own,
                                    const CriaRanks &ranks) {
  return std::make_unique<SlowestRates>(std::move(own), ranks);
}

} // namespace cria::bench
