/// adapter_config.json of PEFT: what it says of an adapter's arithmetic. Every
/// key counts, changes nothing once the adapter is trained, or is refused.
#pragma once

#include "runtime/Json.h"
#include "runtime/ModulePattern.h"
#include "runtime/Status.h"

#include <cstdint>
#include <string>
#include <vector>

namespace cria {

/// The rank of an adapter's matrices at one module, and the factor of their
/// product.
struct LoraScale {
  uint64_t rank;
  double factor; // alpha / rank, or alpha / sqrt(rank)
};

class LoraConfig {
public:
  /// Reads the file at `path`. UNIMPLEMENTED: a key that changes the result
  /// otherwise than by W + factor * B A.
  static Result<LoraConfig> load(const std::string &path);

  /// What holds for the module of the model called `module`. Patterns are
  /// PEFT's: an expression that the name, or what follows one of its dots,
  /// matches whole. Two that match with different values are refused: which of
  /// them wins is a matter of their order, which JSON does not keep. `budget`
  /// pays for the patterns; see ModulePattern::matches.
  Result<LoraScale> at(const std::string &module, uint64_t &budget) const;

private:
  /// A member of rank_pattern or alpha_pattern.
  struct Override {
    ModulePattern pattern;
    double value;
  };

  void read(const JsonCursor &root);
  std::vector<Override> readOverrides(const JsonCursor &root,
                                      const std::string &key,
                                      double (*read)(const JsonCursor &));
  Result<double> choose(const std::vector<Override> &overrides,
                        double otherwise, const char *key,
                        const std::string &module, uint64_t &budget) const;

  std::string path;
  double rank = 0, alpha = 0;
  bool dividesByRoot = false; // use_rslora
  std::vector<Override> ranks, alphas;
};

} // namespace cria
