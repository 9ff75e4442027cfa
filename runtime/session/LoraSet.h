/// LoRA adapters that a session may choose, among others that are resident.
#pragma once

#include "runtime/session/Model.h"

#include <cstdint>
#include <memory>
#include <vector>

namespace cria {

/// Adapters on their model's device, kept apart from its weights. Immutable;
/// share it between sessions and threads.
class LoraSet {
public:
  /// Reads the adapters of `sources`; if there are none, they are zeros. See
  /// Loras::open for errors.
  static Result<std::shared_ptr<const LoraSet>>
  load(std::shared_ptr<const Model> model,
       const std::vector<LoraSource> &sources) {
    auto bound = model->bound().bindLoras(sources);
    if (!bound.ok())
      return bound.status();
    return std::shared_ptr<const LoraSet>(
        new LoraSet(std::move(model), std::move(*bound)));
  }

  const std::shared_ptr<const Model> &model() const { return owner; }
  const BoundLoras &bound() const { return *loras; }
  /// No other set of this process has or had this number; it is not 0.
  uint64_t number() const { return loras->number(); }

private:
  LoraSet(std::shared_ptr<const Model> model,
          std::unique_ptr<const BoundLoras> loras)
      : owner(std::move(model)), loras(std::move(loras)) {}

  std::shared_ptr<const Model> owner;
  std::unique_ptr<const BoundLoras> loras; // destroyed before the model
};

} // namespace cria
