/// The input of a session, to be fed again.
#pragma once

#include "runtime/artifact/Manifest.h"
#include "runtime/base/FunctionRef.h"
#include "runtime/device/Backend.h"

#include <vector>

namespace cria {

/// The ids and embeddings at the positions from 0 on.
class History {
public:
  /// Adds the input of `step`. `rowBytes` is the size of one embedding.
  /// `asRows`: the batch entry ran its ids.
  void append(const Step &step, uint64_t rowBytes, bool asRows);
  /// Forgets all but the first `end` positions.
  void cut(int64_t end);
  /// Forgets the positions [begin, end); later ones move down.
  void drop(int64_t begin, int64_t end);

  /// The number of ids after the last embedding.
  int64_t lastIds() const;
  /// The last `count` ids, followed by the ids of `step`.
  std::vector<int32_t> idsWith(int64_t count, const Step &step) const;

  /// Calls `feed` with steps of the first `end` positions, in order and without
  /// logits, until one fails. They have at most `chunk` tokens, or, for the
  /// batch entry, `rows`.
  Status replay(int64_t end, int64_t chunk, int64_t rows,
                FunctionRef<Status(Step)> feed) const;

  /// The bytes that `read` takes.
  std::vector<std::byte> write() const;
  /// INVALID_ARGUMENT unless the `size` bytes are `positions` positions of
  /// `manifest`.
  static Result<History> read(const std::byte *bytes, uint64_t size,
                              int64_t positions, const Manifest &manifest);

private:
  /// Embeddings belong to one step, which numbers its ids from 0 on.
  struct Segment {
    int64_t position;
    std::vector<int32_t> ids;
    std::vector<std::byte> embeddings;
    bool asRows = false; // the batch entry ran the ids
  };
  std::vector<Segment> segments;
};

} // namespace cria
