/// Composes the elements of a model's weights: from a checkpoint, matched by
/// headers alone, which finds missing, mis-shaped and extra tensors; or from a
/// seed; and with adapters.
#pragma once

#include "runtime/artifact/Manifest.h"
#include "runtime/base/Status.h"
#include "runtime/weights/Checkpoint.h"
#include "runtime/weights/Elements.h"
#include "runtime/weights/lora/Lora.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace cria {

/// A weight's slot and its elements.
struct BoundWeight {
  const WeightSpec *weight = nullptr;
  uint64_t slot = 0;
  ElementsPtr elements;
  /// The tensors of the checkpoint that the elements come from: one, or several
  /// of a packed weight, the one with the elements first.
  std::vector<const Checkpoint::Tensor *> tensors = {};
  std::string reading = {}; // see PackedWeight

  /// Where compiled code can read the weight without a copy.
  std::optional<FilePlace> inPlace() const {
    return elements->inPlace(weight->type);
  }
  /// Writes the elements [begin, end) of the weight. `begin` is a multiple of
  /// mostBlockElements. Does not throw.
  Status write(std::byte *to, uint64_t begin, uint64_t end) const {
    return elements->write(begin, end - begin, weight->type, to);
  }
};

/// How each weight gets its bytes, with the problems and warnings. Refers to
/// the manifest, the checkpoint and the adapters.
struct Binding {
  /// A weight without bytes of its own, and the slot whose bytes it shares.
  struct Alias {
    uint64_t slot, of;
  };

  Status config; // of the config that says how weights are packed
  std::vector<BoundWeight> weights;     // complete when `problems` is empty
  std::vector<Alias> aliases;           // of weights that are tied
  std::vector<std::string> problems;    // each tensor that cannot be bound
  std::vector<std::string> extraLayers; // that only the checkpoint has, by name
  std::vector<std::string> warnings;    // conversions, extra tensors
  uint64_t unaligned = 0; // tensors moved only for their alignment

  /// The error of the config; else FAILED_PRECONDITION with the first ten
  /// problems and their number, or the first ten extra layers.
  Status status(const std::string &checkpoint) const;
  /// Bytes of weights that are used in place, and of the others.
  uint64_t mappedBytes() const { return bytes(true); }
  uint64_t copiedBytes() const { return bytes(false); }

private:
  uint64_t bytes(bool inPlace) const;
};

/// Matches by name, shape and type. An extra tensor is a warning. An extra
/// tensor of a layer that the artifact lacks is an error, because the
/// checkpoint is then of another model; `allowUnused` makes this a warning.
Binding matchWeights(const Manifest &manifest, const Checkpoint &checkpoint,
                     const Loras &loras = {}, bool allowUnused = false);

/// Makes each tied weight whose tensors equal its origin's an alias, unless
/// adapters change one of them; warns of each whose tensors differ. Compares
/// the bytes of tensors in their files.
Status shareTied(const Manifest &manifest, const Checkpoint &checkpoint,
                 const Loras &loras, Binding &binding);

/// Calls Elements::load of all weights, and adds the warnings, each once.
Status load(Binding &binding);

/// The weights of a model without a checkpoint: drawn by `seed`.
Binding drawWeights(const Manifest &manifest, uint64_t seed,
                    const Loras &loras);

/// The weights that hold adapters, filled from `loras`; manifest and adapters
/// must outlive them.
std::vector<BoundWeight> adapterWeights(const Manifest &manifest,
                                        const Loras &loras);

} // namespace cria
