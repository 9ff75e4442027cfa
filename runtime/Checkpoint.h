/// The files of a checkpoint: safetensors of a model folder, sharded or not, or
/// GGUF. Their headers are checked, and the place of each tensor is known.
#pragma once

#include "runtime/Status.h"
#include "runtime/TensorFile.h"

#include <string>
#include <unordered_map>
#include <vector>

namespace cria {

/// Headers only; nothing is mapped.
class Checkpoint {
public:
  /// A tensor and the file it is in.
  struct Place {
    size_t file;
    const TensorEntry *tensor;
  };

  /// Opens model.safetensors of folder `path`, else the shards that
  /// model.safetensors.index.json names; or the one file `path` itself. The
  /// tensors of a file.gguf get the names of Hugging Face's checkpoints. If the
  /// file is one part of several, all parts are opened.
  static Result<Checkpoint> open(const std::string &path);

  const std::string &path() const { return folder; }
  const std::vector<TensorFile> &files() const { return opened; }
  /// The tensor called `name`, or null.
  const Place *find(const std::string &name) const;
  /// Every tensor by name.
  const std::unordered_map<std::string, Place> &tensors() const {
    return places;
  }

private:
  Status add(TensorFile file);
  Status addFile(const std::string &path);
  Status addGguf(const std::string &path);
  Status addShards(const std::string &indexPath);

  std::string folder;
  std::vector<TensorFile> opened;
  std::unordered_map<std::string, Place> places;
};

} // namespace cria
