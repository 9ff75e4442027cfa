/// What an artifact says of its code for CUDA, checked: every index is in
/// range, every grid and block is one that some device could run.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace cria {
class JsonCursor;
} // namespace cria

namespace cria::cuda {

/// The generations of chips: from sm_80 on, from sm_90 on, sm_90a alone.
constexpr uint32_t mostGenerations = 3;

/// Code for a chip and what can run its instructions.
struct Image {
  std::string chip;   // "sm_80", "sm_90a"
  bool isPtx;         // else a cubin
  std::string symbol; // the exported data
  /// Each kernel waits for the launch before it (griddepcontrol.wait), so it
  /// may begin earlier.
  bool dependent = false;
  uint32_t generation = 0; // has the kernels for it
  uint64_t unpacked = 0;   // bytes of the data before zstd packed them
  /// The code is joined from parts of the data, unpacked: [spans[0], spans[1]),
  /// then [spans[2], spans[3]), ..., in ascending order. Empty: it is all the
  /// data.
  std::vector<uint64_t> spans = {};

  bool hasTensorMaps() const { return generation == mostGenerations - 1; }
};

/// A dimension of a grid: a number, or for a count n of at least `from` and at
/// most `to`, max(ceil(n / divisor), least), and 0 for others.
struct Dimension {
  enum Count { Fixed, Tokens, Logits, Hidden };

  Count count = Fixed;
  uint32_t value = 1; // the number, or the divisor
  uint32_t least = 0, from = 0, to = UINT32_MAX;

  /// The dimension for a call with these numbers of tokens, rows of logits and
  /// rows of hidden states.
  uint64_t at(int64_t tokens, int64_t logits, int64_t hidden = 0) const;
};

/// A tensor from which hardware copies boxes. Rows of 16-bit floats have 128
/// bytes and are swizzled; rows of bytes have a multiple of 16. The fastest
/// dimension comes first. The last dimension of a paged cache counts pages; a
/// plan says 1.
struct TensorMap {
  enum Type { Float16, Bfloat16, Bytes };

  Type type;
  std::vector<uint64_t> sizes; // one to five
  /// Of all dimensions but the first, in elements.
  std::vector<uint64_t> strides;
  std::vector<uint32_t> box; // its sizes

  uint64_t elementBytes() const { return type == Bytes ? 1 : 2; }
  /// Bytes from the first element to the end of the last.
  uint64_t bytes() const;
};

/// A parameter of a kernel: a device address, or a tensor map of what is there.
struct Argument {
  enum Kind {
    Weight,
    Cache,
    Arena,
    State,
    Ids,
    Positions, // of batches, and Pages, WindowPages and States
    Pages,
    WindowPages,
    States,
    Logits,
    Hidden,
    Seen, // of a draw, and Sampled and Sampling
    Sampled,
    Sampling
  };
  static constexpr int kinds = Sampling + 1;

  Kind kind;
  uint64_t value = 0; // slot, number of the cache, or offset in the arena
  /// What each layer adds to `value` (a weight: slots) or to the address (a
  /// cache: bytes).
  uint64_t perLayer = 0;
  uint64_t offset = 0; // bytes into the cache
  std::optional<TensorMap> map = {};
};

/// A launch of a kernel, or a sum over ranks. A sum has one argument, a place
/// in the arena, and its grid's first dimension is the number of rows there.
struct LaunchStep {
  std::string kernel; // "all_reduce" for a sum
  Dimension grid[3];
  uint32_t block[3];
  uint32_t shared; // bytes of dynamic shared memory
  std::vector<Argument> arguments;
  /// The generations of the images that have it, a bit each.
  uint32_t generations = UINT32_MAX;
  uint64_t columns = 0; // floats of a row of a sum; 0 for a launch

  bool isSum() const { return columns != 0; }
  bool isFor(const Image &image) const {
    return generations >> image.generation & 1;
  }
};

struct EntryStep {
  uint64_t layers = 1; // how often the launches are done, one after the other
  std::vector<LaunchStep> launches;
};

using Entry = std::vector<EntryStep>;

/// The manifest's key "cuda".
struct Plan {
  std::vector<Image> images;
  uint64_t arenaBytes = 0;
  uint64_t zeroedOffset = 0, zeroedBytes = 0; // zeroed when a session starts
  Entry prefill, decode, sample;
  Entry encode; // of a model with an encoder
  Entry batch;  // of batches, in place of `decode`
};

/// What the rest of the manifest says, with which a plan has to agree.
struct Surroundings {
  std::vector<uint64_t> slotBytes;  // of the weight in each slot, else 0
  std::vector<uint64_t> cacheBytes; // of each KV cache, or of a page of it
  int64_t chunk = 0;
  bool hasRanks = false, hasPages = false, hasEncoder = false;
};

/// Reads the plan at `at`. The first error stays in the status of the cursor.
Plan readPlan(const JsonCursor &at, const Surroundings &around);

} // namespace cria::cuda
