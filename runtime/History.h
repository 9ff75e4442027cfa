/// The input of a session, to be fed again.
#pragma once

#include "runtime/Backend.h"

#include <functional>

namespace cria {

/// The ids and embeddings at the positions from 0 on.
class History {
public:
  /// Replaces everything from `step`'s position on by the input of `step`.
  /// `rowBytes` is the size of one embedding.
  void append(const Step &step, uint64_t rowBytes);

  /// Calls `feed` with steps of the first `end` positions, in order, of at most
  /// `chunk` tokens and without logits, until one fails.
  Status replay(int64_t end, int64_t chunk,
                const std::function<Status(Step)> &feed) const;

private:
  /// Embeddings are of one step, which numbers its ids from 0 on.
  struct Part {
    int64_t position;
    std::vector<int32_t> ids;
    std::vector<std::byte> embeddings;
  };
  std::vector<Part> parts;
};

} // namespace cria
