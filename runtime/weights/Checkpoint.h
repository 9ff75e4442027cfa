/// The files of a checkpoint: safetensors of a model folder, sharded or not, or
/// GGUF. Their headers are checked, and the place of each tensor is known.
#pragma once

#include "runtime/base/Status.h"
#include "runtime/weights/TensorFile.h"

#include <map>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace cria {

/// The other names that a tensor or module may have in a checkpoint.
/// transformers saves a model without its head (LlamaModel) as "norm.weight",
/// a model with it as "model.norm.weight", and the text of a model that reads
/// images, too, as "language_model.model.norm.weight" or
/// "model.language_model.norm.weight". It loads each as the others. Adapters
/// name the head "lm_head", which GPT-NeoX's checkpoints call "embed_out".
std::vector<std::string> otherNames(const std::string &name);

/// Whether a tensor belongs to the parts of a model that read images.
bool isOfImages(std::string_view name);

/// Whether a name has this end.
inline bool endsWith(std::string_view name, std::string_view end) {
  return name.size() >= end.size() &&
         name.substr(name.size() - end.size()) == end;
}

/// FAILED_PRECONDITION with the first ten problems of a file's tensors, and
/// the number of problems; OK if there are none.
Status unfit(const std::string &file, const std::vector<std::string> &problems);

/// The first ten of `items`, separated by "; ", and how many more there are.
std::string firstTen(const std::vector<std::string> &items);

/// Headers only; nothing is mapped.
class Checkpoint {
public:
  /// A tensor and the file it is in.
  struct Tensor {
    size_t file;
    const TensorEntry *tensor;
  };

  /// Opens model.safetensors of folder `path`, else the shards that
  /// model.safetensors.index.json names; or the one file `path` itself. As in
  /// transformers, shards may have tensors that the index does not list, and
  /// lack tensors that it lists. Of tensors in several shards, the index names
  /// the one that counts; if it names none of them, the last shard's does. The
  /// tensors of a file.gguf get the names of Hugging Face's checkpoints. If the
  /// file is one part of several, all parts are opened.
  static Result<Checkpoint> open(const std::string &path);

  const std::string &path() const { return folder; }
  const std::vector<TensorFile> &files() const { return opened; }
  /// The tensor called `name`, else the one called by one of its other names,
  /// or null.
  const Tensor *find(const std::string &name) const;
  /// Every tensor by name.
  const std::unordered_map<std::string_view, Tensor> &tensors() const {
    return places;
  }
  /// The elements of a tensor of a type that weights can have, in the order of
  /// Hugging Face's checkpoints. The checkpoint must outlive them.
  std::unique_ptr<Elements> elements(const Tensor &place) const;
  /// Whether two tensors have the same type, shape and bytes.
  Result<bool> areEqual(const Tensor &a, const Tensor &b) const;

  /// Lets tensors of another safetensors file, which adapters saved, count in
  /// place of the checkpoint's; `tensors` has the names that they take by their
  /// own. FAILED_PRECONDITION if an earlier file did so with another tensor.
  Status replace(const std::string &file,
                 const std::multimap<std::string, std::string> &tensors);
  bool hasReplacements() const { return !replaced.empty(); }
  /// What counts in place of the tensor called `name`, or null.
  const Tensor *replacement(const std::string &name) const;

  /// Where shards and index disagree.
  const std::vector<std::string> &warnings() const { return notes; }

private:
  Status add(TensorFile file);
  Status addFile(const std::string &path);
  Status addGguf(const std::string &path);
  Status addShards(const std::string &indexPath);

  std::string folder;
  std::vector<TensorFile> opened;
  std::unordered_map<std::string_view, Tensor> places; // by the entry's name
  std::map<std::string, Tensor> replaced;
  std::vector<std::string> notes;
};

} // namespace cria
