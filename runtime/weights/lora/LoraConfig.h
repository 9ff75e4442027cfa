/// adapter_config.json of PEFT: an adapter's arithmetic. Every key is read, or
/// changes nothing once the adapter is trained, or is refused.
#pragma once

#include "runtime/base/Json.h"
#include "runtime/base/Status.h"

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
  /// Reads the file at `path`. UNIMPLEMENTED if a key changes the result in
  /// another way than W + factor * B A.
  static Result<LoraConfig> load(const std::string &path);

  /// The rank and factor of the module called `module`. Patterns are PEFT's: an
  /// expression must match the whole name, or all that follows one of its dots.
  /// Two matching patterns with different values are refused: their order
  /// would decide, which JSON does not keep. `budget` pays for the patterns;
  /// see matchesModule.
  Result<LoraScale> at(const std::string &module, uint64_t &budget) const;

  /// The ends of the names of modules that are saved whole.
  const std::vector<std::string> &modulesToSave() const { return wholeModules; }

private:
  /// A member of rank_pattern or alpha_pattern.
  struct Override {
    std::string pattern;
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
  std::vector<std::string> wholeModules;
};

} // namespace cria
