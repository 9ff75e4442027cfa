/// The safetensors files of a model folder, sharded or not: their headers,
/// checked, and where each tensor lies.
#pragma once

#include "runtime/Safetensors.h"
#include "runtime/Status.h"

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
  /// model.safetensors.index.json names; or the one file `path` itself.
  static Result<Checkpoint> open(const std::string &path);

  const std::string &path() const { return folder; }
  const std::vector<Safetensors> &files() const { return opened; }
  /// The tensor called `name`, or null.
  const Place *find(const std::string &name) const;
  /// Every tensor by name.
  const std::unordered_map<std::string, Place> &tensors() const {
    return places;
  }

private:
  Status addFile(const std::string &path);
  Status addShards(const std::string &indexPath);

  std::string folder;
  std::vector<Safetensors> opened;
  std::unordered_map<std::string, Place> places;
};

} // namespace cria
