/// Matching a checkpoint with the weights of a manifest, from headers alone:
/// finds missing, mis-shaped and extra tensors, and those to convert or merge.
#pragma once

#include "runtime/artifact/Manifest.h"
#include "runtime/base/Status.h"
#include "runtime/weights/Checkpoint.h"
#include "runtime/weights/lora/Lora.h"
#include "runtime/weights/packed/Packed.h"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace cria {

/// How each weight gets its bytes, with the problems and warnings. Refers to
/// the checkpoint and the adapters.
struct Binding {
  /// One slot: a tensor of the checkpoint, used in place or converted into the
  /// model's arena, with what adapters add.
  struct Source {
    const WeightSpec *weight;
    const Checkpoint::Place *place;
    uint64_t slot;
    bool inPlace;
    uint64_t begin; // in the file: where the weight's first element lies
    const LoraUpdate *update; // null for none
    /// The weight, if its elements are in several tensors, one of which is at
    /// `place`; else null. Loaded by `loadPacked`.
    std::shared_ptr<PackedWeight> packed;
  };

  /// A weight without bytes of its own, and the slot whose bytes it shares.
  struct Alias {
    uint64_t slot, of;
  };

  Status config;               // of the config that says how weights are packed
  std::vector<Source> sources; // complete when `problems` is empty
  std::vector<Alias> aliases;  // of weights that are tied
  std::vector<std::string> problems;    // each tensor that cannot be bound
  std::vector<std::string> extraLayers; // of the checkpoint alone, by name
  std::vector<std::string> warnings;    // conversions, extra tensors
  uint64_t mappedBytes = 0;             // weights used in place
  uint64_t copiedBytes = 0; // weights converted, moved or of adapters
  uint64_t unaligned = 0;   // tensors moved only for their alignment

  /// The error of the config; else FAILED_PRECONDITION with the first ten
  /// problems and their number, or the first ten extra layers.
  Status status(const std::string &checkpoint) const;
};

/// FAILED_PRECONDITION with the first ten problems of a file's tensors, and
/// the number of problems; OK if there are none.
Status unfit(const std::string &file, const std::vector<std::string> &problems);

/// Matches by name, shape and type. An extra tensor is a warning. An extra
/// tensor of a layer that the artifact lacks is an error, because the
/// checkpoint is then of another model; `allowUnused` makes this a warning.
Binding matchWeights(const Manifest &manifest, const Checkpoint &checkpoint,
                     const Loras &loras = {}, bool allowUnused = false);

/// Makes an alias of each source that is tied to a source of the same bytes and
/// type; warns if the bytes differ. Reads both, if there are two.
Status shareTied(const Manifest &manifest, const Checkpoint &checkpoint,
                 const Loras &loras, Binding &binding);

/// Reads the scales and indices of weights that are in several tensors. Warns
/// of what contradicts the config in them.
Status loadPacked(const Checkpoint &checkpoint, Binding &binding);

/// The aliases of a model whose weights no checkpoint holds.
std::vector<Binding::Alias> sharedSlots(const Manifest &manifest,
                                        const Loras &loras);
/// Whether a tied weight has the elements of its origin, adapters included.
bool isAlias(const Manifest &manifest, const WeightSpec &weight,
             const Loras &loras);

} // namespace cria
