/// Proposes what texts may go on with, by a smaller model of the same
/// vocabulary. The model that is served accepts what it draws itself, so that
/// the smaller one changes the time of a text and nothing else.
#pragma once

#include "runtime/cria.hpp"

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

namespace cria::serve {

/// Used by one thread.
class Drafter {
public:
  /// `threads` are as of a session. `model`, of contexts of `maxSeq` ids, must
  /// outlive this.
  Drafter(const Model &model, int64_t maxSeq, int64_t vocabSize,
          int32_t threads);

  /// At most `most` ids that the smaller model is likely to draw after `text`,
  /// which is the whole text of `sequence`. None once the smaller model has
  /// failed at this sequence, for want of memory for example.
  std::vector<int32_t> propose(int64_t sequence,
                               const std::vector<int32_t> &text, int64_t most);
  /// The sequence has left.
  void forget(int64_t sequence) { drafts.erase(sequence); }

private:
  /// What the smaller model knows of a text.
  struct Draft {
    std::optional<Session> session;     // none once it has failed
    std::vector<int32_t> fed = {};      // ids in the session
    std::vector<int32_t> proposed = {}; // the last time,
    size_t after = 0;                   // to follow this number of ids
    int64_t width = 3;                  // ids to propose
  };

  std::vector<int32_t> draw(Draft &draft, const std::vector<int32_t> &text,
                            int64_t count);

  const Model &model;
  int64_t maxSeq;
  int32_t threads;
  Sampler greedy;
  std::map<int64_t, Draft> drafts;
};

} // namespace cria::serve
