/// The actions of OpenVLA: the ids that its text draws stand for numbers.
#pragma once

#include "runtime/base/Json.h"
#include "runtime/base/Status.h"
#include "runtime/text/tokenizer/Tokenizer.h"

#include <cstdint>
#include <string>
#include <vector>

namespace cria {

struct Run;

/// How ids become the numbers of an action, as predict_action of openvla's
/// prismatic/extern/hf/modeling_prismatic.py has it. The last ids of the
/// vocabulary are bins of [-1, 1]; a number is the center of its bin, moved to
/// where 98 % of the dataset's numbers are.
struct Actions {
  int64_t bins = 0, last = 0; // the edges of bins; the id after the first bin's
  std::vector<double> low, high;
  std::vector<bool> moves; // whether a number is moved, or stays in [-1, 1]

  /// The numbers of an action.
  int64_t count() const { return static_cast<int64_t>(low.size()); }
  /// The number that `id` stands for as the `i`-th of an action.
  double number(size_t i, int32_t id) const;
  /// Adds the empty token, with which every prompt ended when the model was
  /// trained, unless it is there.
  void finishPrompt(const Tokenizer &tokenizer,
                    std::vector<int32_t> &prompt) const;
};

/// Reads the statistics that --actions names from the model's config.
Status loadActions(Run &run);

/// Prints the numbers of the generated ids.
Status printActions(const Run &run);

} // namespace cria
