/// LoRA adapters in PEFT's layout: a folder with adapter_config.json and
/// adapter_model.safetensors, whose tensors
///
///   base_model.model.MODULE.lora_A.weight  (r, in)
///   base_model.model.MODULE.lora_B.weight  (out, r)
///
/// add factor * B A to the weight MODULE.weight, (out, in), of the model, and
///
///   base_model.model.MODULE.lora_embedding_A  (r, ids)
///   base_model.model.MODULE.lora_embedding_B  (width, r)
///
/// add the transpose of that to an embedding, (ids, width): either to its
/// elements, or apart from them. If apart, compiled code has
/// weights of its own for A and B, MODULE.lora_A.weight and
/// MODULE.lora_B.weight. Their rank is the most that all adapters together may
/// have.
///
/// PEFT also saves whole tensors, which count in place of the model's:
///
///   base_model.model.MODULE.base_layer.weight  below the pair of an embedding
///                                              or a head
///   base_model.model.TENSOR                    of a module to save
#pragma once

#include "runtime/artifact/Manifest.h"
#include "runtime/base/Status.h"
#include "runtime/weights/Checkpoint.h"
#include "runtime/weights/Safetensors.h"
#include "runtime/weights/Source.h"
#include "runtime/weights/lora/LoraUpdate.h"

#include <map>
#include <string>
#include <vector>

namespace cria {

/// The adapters of a model and what they add to its weights.
class Loras {
public:
  Loras() = default;

  /// Opens the adapters of `source` and checks that they fit the weights of
  /// `manifest`; reads only configs and headers. FAILED_PRECONDITION: a target
  /// is missing in the model or has another shape, or there is no room for
  /// adapters that are kept apart.
  static Result<Loras> open(const WeightSource &source,
                            const Manifest &manifest);

  /// The same for adapters that are kept apart from the weights, with their
  /// matrices.
  static Result<Loras> openKept(const std::vector<LoraSource> &sources,
                                const Manifest &manifest);

  /// Reads the matrices.
  Status read();

  /// Lets the tensors that adapters saved whole count in `checkpoint`.
  Status replaceIn(Checkpoint &checkpoint) const;
  /// Whether there are such tensors.
  bool haveSaved() const;

  /// Whether adapters change the checkpoint's tensor `name`, or any tensor.
  bool change(const std::string &name) const;
  bool changeAny() const;
  /// The elements `x` of the checkpoint's tensor `name` with what adapters add,
  /// or `x` itself. Call `read` before they are written; this object must
  /// outlive them.
  ElementsPtr merged(const std::string &name, ElementsPtr x) const;

  /// The elements, in all rows and columns, of the adapter matrix that tensor
  /// `index` of `weight` holds. The rules of `merged` apply.
  ElementsPtr kept(const WeightSpec &weight, uint64_t index) const;

private:
  /// The two matrices of one adapter for one weight.
  struct Pair {
    size_t file; // in `files`
    const TensorEntry *a = nullptr, *b = nullptr;
    LoraUpdate *update = nullptr;
    uint64_t rank = 0, firstRank = 0; // in the update
    double scale = 0;
    bool ofEmbedding = false; // both are transposed
  };
  class Opener;

  Status readPair(const Pair &pair) const;
  const LoraUpdate *find(const std::string &name) const;

  bool unmerged = false;
  std::vector<TensorFile> files;
  /// The weights that a file's tensors replace, by the tensor's name.
  std::vector<std::multimap<std::string, std::string>> saved;
  std::vector<Pair> pairs;
  std::map<std::string, LoraUpdate> updates; // by the weight's name
};

} // namespace cria
