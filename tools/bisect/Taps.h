/// The manifest's description of an artifact's taps (tools/taps/AddTaps.cpp):
/// its kernels, and where their results can be read and replaced.
#pragma once

#include "runtime/artifact/Artifact.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace cria {

/// A module of the checkpoint, or an input or output of a module, in each turn
/// of a loop of layers.
struct TapName {
  std::string path; // "model.layers.{}.mlp.up_proj"
  std::string side; // in, out, query, key or value; "" for the module
  int64_t first = 0, step = 0;

  int64_t layer(int64_t turn) const { return first + step * turn; }
  /// "model.layers.3.mlp.up_proj:in"
  std::string at(int64_t turn) const;
};

/// A result of a kernel.
struct TapResult {
  /// The caches that keep the result and that can replace it.
  std::optional<size_t> made, given;
  size_t force = 0;            // its number in Taps::force
  uint64_t width = 0;          // of a row
  std::optional<size_t> cache; // the result is some rows of this KV cache
  int64_t first = 0, step = 0; // in turn t, of its layer first + step * t
  bool logits = false;
  bool integers = false; // numbers of experts: the same or others
  std::vector<TapName> names;
};

struct TapKernel {
  std::string name;  // "layers_mlp_down_decode"
  std::string entry; // "decode"
  int64_t block = 0; // kernels of one block take turns
  int64_t turns = 1;
  std::vector<TapName> modules; // whose weights it reads
  std::vector<TapResult> results;
  bool leftOut = false;

  /// The name of result `result` of turn `turn` that reference and artifact
  /// share: the same in `prefill` and `decode`.
  std::string key(size_t result, int64_t turn) const;
};

struct Taps {
  size_t force = 0; // the cache that says which of `given` are used
  std::vector<TapKernel> kernels;
  std::string linalg; // the compiled program at the phase linalg

  /// The text of a kernel.
  std::string textOf(const std::string &kernel) const;
  /// Whether some kernels are left out.
  bool isPart() const;
};

/// FAILED_PRECONDITION if the artifact was compiled without taps.
Result<Taps> readTaps(const Artifact &artifact);

} // namespace cria
