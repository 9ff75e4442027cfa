/// LoRA adapters in PEFT's layout: a folder with adapter_config.json and
/// adapter_model.safetensors, whose tensors
///
///   base_model.model.MODULE.lora_A.weight  (r, in)
///   base_model.model.MODULE.lora_B.weight  (out, r)
///
/// add factor * B A to the weight MODULE.weight, (out, in), of the model.
#pragma once

#include "runtime/Backend.h"
#include "runtime/LoraUpdate.h"
#include "runtime/Manifest.h"
#include "runtime/Safetensors.h"
#include "runtime/Status.h"

#include <map>
#include <string>
#include <vector>

namespace cria {

/// The adapter that "DIR" or "DIR=SCALE" names.
Result<LoraSource> parseLora(const std::string &text);

/// The adapters of a model and what they add to its weights.
class Loras {
public:
  Loras() = default;

  /// Opens adapters and checks that they fit the weights of `manifest`; reads
  /// configs and headers, nothing else. FAILED_PRECONDITION: targets that the
  /// model does not have, or of other shapes.
  static Result<Loras> open(const std::vector<LoraSource> &sources,
                            const Manifest &manifest);

  /// Reads the matrices.
  Status read();

  /// What is added to the checkpoint's tensor `name`; null for nothing. To be
  /// used after `read`, and as long as this lives.
  const LoraUpdate *find(const std::string &name) const;

private:
  /// The two matrices of one adapter for one weight.
  struct Pair {
    size_t file; // in `files`
    const TensorEntry *a = nullptr, *b = nullptr;
    LoraUpdate *update = nullptr;
    uint64_t rank = 0, firstRank = 0; // in the update
    double scale = 0;
  };
  class Opener;

  Status readPair(const Pair &pair) const;

  std::vector<Safetensors> files;
  std::vector<Pair> pairs;
  std::map<std::string, LoraUpdate> updates; // by the weight's name
};

} // namespace cria
