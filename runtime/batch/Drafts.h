/// Ids that a text may draw next. A step computes them as rows beside the
/// text's last id, and keeps those that the text then draws: its ids stay the
/// same to the last bit, and it may go on by several ids in one step.
///
/// Unless the caller proposes ids, they are those that followed when the last
/// ids of the text stood there before ("prompt lookup"). How many ids are tried
/// depends on how many were drawn of those that were tried before, and on
/// nothing else, so that ranks try the same ones.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace cria {

/// Ids that may follow a text.
struct Draft {
  std::vector<int32_t> ids;
  /// The ids that may be drawn after each, as in Sampler::allow; or none, if
  /// any may.
  std::vector<std::vector<uint32_t>> masks;
};

class Drafts {
public:
  /// Proposes what follows a text of `length` ids.
  void propose(Draft draft, size_t length) {
    proposed = std::move(draft);
    after = length;
  }
  /// At most `most` ids that may follow `text`. Begins a step. Where draws have
  /// a mask (`isMasked`), ids are proposed with masks.
  const Draft &next(const std::vector<int32_t> &text, int64_t most,
                    bool isMasked);
  /// Notes that the step computes the first `count` of these ids.
  void tried(int64_t count) { tries = count; }
  /// Notes that one more of them was drawn.
  void accept() { ++drawn; }

private:
  void learn();

  Draft proposed, current;      // the latter of the step
  size_t after = 0;             // the length of the text that they follow
  int64_t tries = 0, drawn = 0; // ids of the last step
  int64_t width = 1;            // ids to look up
  int64_t rest = 0;             // steps to go without any
  int64_t pause = 1;            // the number of such steps after a failure
};

} // namespace cria
