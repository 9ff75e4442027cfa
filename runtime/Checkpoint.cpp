#include "runtime/Checkpoint.h"

#include "runtime/Json.h"
#include "runtime/Safetensors.h"
#include "runtime/gguf/Files.h"
#include "runtime/gguf/Tensors.h"

#include <filesystem>
#include <set>

namespace cria {

static constexpr char singleName[] = "model.safetensors";
static constexpr char indexName[] = "model.safetensors.index.json";

Result<Checkpoint> Checkpoint::open(const std::string &path) {
  namespace fs = std::filesystem;
  Checkpoint checkpoint;
  checkpoint.folder = path;
  std::error_code ignored;
  Status status;
  if (!fs::exists(path, ignored))
    return Status(CRIA_NOT_FOUND, path + ": no such file or folder");
  if (!fs::is_directory(path, ignored) && gguf::isGguf(path))
    status = checkpoint.addGguf(path);
  else if (!fs::is_directory(path, ignored))
    status = checkpoint.addFile(path);
  else if (fs::exists(fs::path(path) / singleName, ignored))
    status = checkpoint.addFile(fs::path(path) / singleName);
  else if (fs::exists(fs::path(path) / indexName, ignored))
    status = checkpoint.addShards(fs::path(path) / indexName);
  else
    status = Status(CRIA_NOT_FOUND,
                    {path, ": has neither ", singleName, " nor ", indexName});
  if (!status.ok())
    return status;
  return checkpoint;
}

Status Checkpoint::addFile(const std::string &path) {
  Result<TensorFile> file = openSafetensors(path);
  return file.ok() ? add(std::move(*file)) : file.status();
}

Status Checkpoint::addGguf(const std::string &path) {
  Result<std::vector<TensorFile>> files = gguf::openTensors(path);
  if (!files.ok())
    return files.status();
  for (TensorFile &file : *files)
    if (Status status = add(std::move(file)); !status.ok())
      return status;
  return Status();
}

Status Checkpoint::add(TensorFile file) {
  opened.push_back(std::move(file));
  // The entries stay where they are when `opened` grows.
  for (const TensorEntry &tensor : opened.back().tensors) {
    auto [place, isNew] =
        places.emplace(tensor.name, Place{opened.size() - 1, &tensor});
    if (!isNew)
      return Status(CRIA_INVALID_ARGUMENT,
                    {opened.back().file.path(), ": tensor ", quote(tensor.name),
                     " is also in ", opened[place->second.file].file.path()});
  }
  return Status();
}

/// Whether `name` is the name of a file in the index's own folder.
static bool isPlainName(const std::string &name) {
  return !name.empty() && name != "." && name != ".." &&
         name.find('/') == std::string::npos;
}

Status Checkpoint::addShards(const std::string &indexPath) {
  Result<JsonDocument> index = readJson(indexPath);
  if (!index.ok())
    return index.status();
  Status status;
  JsonCursor map = JsonCursor(index->root(), indexPath, status)["weight_map"];
  if (status.ok() && !map.raw().is_object())
    map.expected("an object");
  if (!status.ok())
    return status;
  std::set<std::string> shards;
  for (const auto &[tensor, value] : map.raw().items()) {
    std::string shard = map[tensor].string();
    if (status.ok() && !isPlainName(shard))
      map[tensor].fail(
          concat({"is ", quote(shard),
                  ", expected the name of a file in the index's folder"}));
    if (!status.ok())
      return status;
    shards.insert(shard);
  }
  std::filesystem::path parent = std::filesystem::path(indexPath).parent_path();
  for (const std::string &shard : shards) {
    status = addFile(parent / shard);
    if (!status.ok())
      return status;
  }
  for (const auto &[tensor, value] : map.raw().items()) {
    const Place *place = find(tensor);
    std::string shard = (parent / value.get<std::string>()).string();
    if (!place || opened[place->file].file.path() != shard)
      return Status(
          CRIA_INVALID_ARGUMENT,
          {indexPath, ": tensor ", quote(tensor), " is not in ", shard});
  }
  for (const auto &[tensor, place] : places)
    if (!map.raw().contains(tensor))
      return Status(CRIA_INVALID_ARGUMENT,
                    {opened[place.file].file.path(), ": tensor ", quote(tensor),
                     " is not in ", indexPath});
  return Status();
}

const Checkpoint::Place *Checkpoint::find(const std::string &name) const {
  auto found = places.find(name);
  return found == places.end() ? nullptr : &found->second;
}

} // namespace cria
