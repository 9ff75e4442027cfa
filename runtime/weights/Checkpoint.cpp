#include "runtime/weights/Checkpoint.h"

#include "runtime/base/Json.h"
#include "runtime/base/PlainJson.h"
#include "runtime/base/threads/Cores.h"
#include "runtime/gguf/Files.h"
#include "runtime/weights/Elements.h"
#include "runtime/weights/Safetensors.h"
#include "runtime/weights/gguf/Tensors.h"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <new>
#include <set>

namespace cria {

static constexpr char singleName[] = "model.safetensors";
static constexpr char indexName[] = "model.safetensors.index.json";
static constexpr char weightMap[] = "weight_map";

/// What precedes the name of a tensor: first of one of a vision tower, whose
/// own checkpoint may have nothing in front. Pointers would need relocations.
static constexpr char nestings[][33] = {"vision_model.",
                                        "vision_tower.",
                                        "model.vision_tower.",
                                        "vision_tower.vision_model.",
                                        "model.vision_tower.vision_model.",
                                        "",
                                        "model.",
                                        "transformer.",
                                        "language_model.",
                                        "language_model.model.",
                                        "model.language_model."};
static constexpr size_t none = 5;

static bool startsWith(std::string_view name, std::string_view start) {
  return name.substr(0, start.size()) == start;
}

std::vector<std::string> otherNames(const std::string &name) {
  size_t cut = 0; // the length of the longest
  bool isOfTower = false;
  for (size_t i = 0; i < std::size(nestings); ++i)
    if (size_t length = strlen(nestings[i]);
        length > cut && startsWith(name, nestings[i])) {
      cut = length;
      isOfTower = i < none;
    }
  std::vector<std::string> others;
  auto add = [&](std::string_view prefix, size_t size) {
    if (std::string other = concat({prefix, name.substr(size)}); other != name)
      others.push_back(std::move(other));
  };
  for (size_t i = 0; i < std::size(nestings); ++i)
    if (i == none || (i < none) == isOfTower)
      add(nestings[i], cut);
  if (startsWith(name, "lm_head."))
    add("embed_out.", 8);
  return others;
}

bool isOfImages(std::string_view name) {
  if (startsWith(name, "model."))
    name.remove_prefix(6);
  for (std::string_view part :
       {"vision_tower.", "vision_model.", "visual.", "multi_modal_projector."})
    if (startsWith(name, part))
      return true;
  return false;
}

std::string firstTen(const std::vector<std::string> &items) {
  constexpr size_t most = 10;
  std::string text;
  for (size_t i = 0; i < std::min(items.size(), most); ++i)
    text += (i ? "; " : "") + items[i];
  if (items.size() > most)
    text += concat({"; and ", items.size() - most, " more"});
  return text;
}

Status unfit(const std::string &file,
             const std::vector<std::string> &problems) {
  if (problems.empty())
    return Status();
  return Status(
      CRIA_FAILED_PRECONDITION,
      {file, ": does not fit the artifact, ", problems.size(),
       problems.size() == 1 ? " tensor: " : " tensors: ", firstTen(problems)});
}

/// Whether `path` looks like the name of a repository on the Hugging Face Hub:
/// "meta-llama/Llama-3.2-1B".
static bool isHubName(const std::string &path) {
  size_t slash = path.find('/');
  return slash != 0 && slash != std::string::npos && path[0] != '.' &&
         slash + 1 < path.size() && path.find('/', slash + 1) == path.npos;
}

static Status noCheckpoint(const std::string &path) {
  return Status(CRIA_NOT_FOUND,
                {path, ": no such file or folder",
                 isHubName(path) ? "; a model of the Hugging Face Hub comes by "
                                   "'hf download NAME --local-dir=FOLDER'"
                                 : ""});
}

/// `folder` has no file of weights that this can read.
static Status noWeights(const std::string &folder) {
  static constexpr const char *kPickles[] = {"pytorch_model.bin",
                                             "pytorch_model.bin.index.json"};
  std::error_code ignored;
  for (const char *name : kPickles)
    if (std::filesystem::exists(std::filesystem::path(folder) / name, ignored))
      return Status(CRIA_NOT_FOUND,
                    {folder, ": has ", name, ", expected ", singleName,
                     ": load it in transformers and save it again"});
  return Status(CRIA_NOT_FOUND,
                {folder, ": has neither ", singleName, " nor ", indexName});
}

Result<Checkpoint> Checkpoint::open(const std::string &path) {
  namespace fs = std::filesystem;
  Checkpoint checkpoint;
  checkpoint.folder = path;
  std::error_code ignored;
  Status status;
  if (!fs::exists(path, ignored))
    return noCheckpoint(path);
  if (!fs::is_directory(path, ignored) && gguf::isGguf(path))
    status = checkpoint.addGguf(path);
  else if (!fs::is_directory(path, ignored))
    status = checkpoint.addFile(path);
  else if (fs::exists(fs::path(path) / singleName, ignored))
    status = checkpoint.addFile(fs::path(path) / singleName);
  else if (fs::exists(fs::path(path) / indexName, ignored))
    status = checkpoint.addShards(fs::path(path) / indexName);
  else
    status = noWeights(path);
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
        places.emplace(tensor.name, Tensor{opened.size() - 1, &tensor});
    if (!isNew)
      return Status(CRIA_INVALID_ARGUMENT,
                    {opened.back().file.path(), ": tensor ", quote(tensor.name),
                     " is also in ", opened[place->second.file].file.path()});
  }
  return Status();
}

/// Whether `name` is the name of a file in the index's own folder.
static bool isPlainName(std::string_view name) {
  return !name.empty() && name != "." && name != ".." &&
         name.find('/') == name.npos;
}

namespace {

/// An index, which names the shard of each tensor. The names are parts of the
/// text, or, if the text is not plain, of the document.
struct Index {
  std::string text;
  JsonDocument document;
  /// The shards of the tensors, in order. Neighbours differ.
  std::vector<std::string_view> shards;
  /// Each tensor; its `file` is a place in `shards`.
  std::unordered_map<std::string_view, Checkpoint::Tensor> tensors;

  void add(std::string_view name, std::string_view shard) {
    if (shards.empty() || shards.back() != shard)
      shards.push_back(shard);
    tensors.emplace(name, Checkpoint::Tensor{shards.size() - 1, nullptr});
  }
};

} // namespace

/// Reads the index of a plain text. False if it is not plain or has an error.
static bool readPlainIndex(Index &index) {
  PlainJson json(index.text);
  bool isMapped = false;
  json.object([&](std::string_view key) {
    if (key == weightMap) {
      isMapped = true;
      json.object([&](std::string_view name) {
        std::string_view shard = json.string();
        if (!isPlainName(shard))
          json.fail();
        index.add(name, shard);
      });
    } else if (key == "metadata") {
      json.object([&](std::string_view) { json.scalar(); });
    } else {
      json.fail();
    }
  });
  return json.isPlain() && isMapped;
}

/// Reads any index, that of the file at `path`.
static Status readIndex(const std::string &path, Index &index) {
  index.shards.clear();
  index.tensors.clear();
  Result<JsonDocument> document = parseJson(index.text, path);
  if (!document.ok())
    return document.status();
  index.document = std::move(*document);
  Status status;
  JsonCursor map = JsonCursor(index.document.root(), path, status)[weightMap];
  if (status.ok() && !map.raw().is_object())
    map.expected("an object");
  if (!status.ok())
    return status;
  for (const auto &item : map.raw().items()) {
    const auto *shard = item.value().get_ptr<const std::string *>();
    if (shard && isPlainName(*shard)) {
      index.add(item.key(), *shard);
      continue;
    }
    JsonCursor member = map[item.key()];
    member.string();
    if (status.ok())
      member.fail(
          concat({"is ", quote(*shard),
                  ", expected the name of a file in the index's folder"}));
    return status;
  }
  return status;
}

static std::vector<std::string> listOf(const std::set<std::string> &names) {
  return {names.begin(), names.end()};
}

/// Opens files on all cores. Where memory was too short, there is none.
static std::vector<std::optional<Result<TensorFile>>>
openAll(const std::vector<std::string> &paths) {
  std::vector<std::optional<Result<TensorFile>>> files(paths.size());
  auto open = [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      auto at = static_cast<size_t>(i);
      try {
        files[at].emplace(openSafetensors(paths[at]));
      } catch (const std::bad_alloc &) { // a thread may not throw
      }
    }
  };
  onAllCores(static_cast<int64_t>(paths.size()), open);
  return files;
}

Status Checkpoint::addShards(const std::string &indexPath) {
  Result<std::string> text = readFile(indexPath, JsonLimits().bytes);
  if (!text.ok())
    return text.status();
  Index index;
  index.text = std::move(*text);
  if (!readPlainIndex(index))
    if (Status status = readIndex(indexPath, index); !status.ok())
      return status;
  std::set<std::string> shards, repeated, absent;
  for (std::string_view shard : index.shards)
    shards.emplace(shard);
  std::filesystem::path parent = std::filesystem::path(indexPath).parent_path();
  places.reserve(index.tensors.size());
  std::vector<std::string> paths;
  for (const std::string &shard : shards)
    paths.push_back(parent / shard);
  for (std::optional<Result<TensorFile>> &file : openAll(paths)) {
    if (!file)
      throw std::bad_alloc();
    if (!file->ok())
      return file->status();
    opened.push_back(std::move(**file));
    for (const TensorEntry &tensor : opened.back().tensors) {
      Tensor here = {opened.size() - 1, &tensor};
      auto [place, isNew] = places.emplace(tensor.name, here);
      if (isNew)
        continue;
      repeated.insert(quote(tensor.name));
      auto named = index.tensors.find(tensor.name);
      const std::string &earlier = opened[place->second.file].file.path();
      if (named == index.tensors.end() ||
          earlier != parent / index.shards[named->second.file])
        place->second = here;
    }
  }
  for (const auto &[name, place] : index.tensors)
    if (!places.count(name))
      absent.insert(quote(name));
  if (!repeated.empty())
    notes.push_back(
        concat({"several shards have ", firstTen(listOf(repeated)),
                "; each is read from the shard that the index names"}));
  if (!absent.empty())
    notes.push_back(concat({"no shard has ", firstTen(listOf(absent)),
                            ", which the index lists"}));
  return Status();
}

ElementsPtr Checkpoint::elements(const Tensor &place) const {
  const TensorEntry &tensor = *place.tensor;
  ElementsPtr plain =
      stored(opened[place.file].file, tensor.begin, *tensor.type);
  return tensor.decorate ? tensor.decorate(std::move(plain)) : std::move(plain);
}

Result<bool> Checkpoint::areEqual(const Tensor &a, const Tensor &b) const {
  static constexpr uint64_t most = 1 << 20;
  if (a.tensor->typeName != b.tensor->typeName ||
      a.tensor->shape != b.tensor->shape)
    return false;
  uint64_t size = a.tensor->end - a.tensor->begin;
  std::vector<std::byte> blocks[2];
  for (uint64_t at = 0; at < size; at += most) {
    for (const Tensor *place : {&a, &b}) {
      std::vector<std::byte> &block = blocks[place == &b];
      block.resize(std::min(most, size - at));
      Status status = opened[place->file].file.read(place->tensor->begin + at,
                                                    block.data(), block.size());
      if (!status.ok())
        return status;
    }
    if (blocks[0] != blocks[1])
      return false;
  }
  return true;
}

Status
Checkpoint::replace(const std::string &file,
                    const std::multimap<std::string, std::string> &tensors) {
  if (tensors.empty())
    return Status();
  Result<TensorFile> saved = openSafetensors(file);
  if (!saved.ok())
    return saved.status();
  opened.push_back(std::move(*saved));
  for (const TensorEntry &tensor : opened.back().tensors)
    for (auto [at, end] = tensors.equal_range(tensor.name); at != end; ++at) {
      Tensor here = {opened.size() - 1, &tensor};
      auto [place, isNew] = replaced.emplace(at->second, here);
      Result<bool> same =
          isNew ? Result<bool>(true) : areEqual(place->second, here);
      if (!same.ok())
        return same.status();
      if (!*same)
        return Status(CRIA_FAILED_PRECONDITION,
                      {file, ": tensor ", quote(tensor.name),
                       " differs from that of another adapter, ",
                       opened[place->second.file].file.path()});
    }
  return Status();
}

const Checkpoint::Tensor *
Checkpoint::replacement(const std::string &name) const {
  auto found = replaced.find(name);
  return found == replaced.end() ? nullptr : &found->second;
}

const Checkpoint::Tensor *Checkpoint::find(const std::string &name) const {
  auto found = places.find(name);
  if (found != places.end())
    return &found->second;
  for (const std::string &other : otherNames(name))
    if (found = places.find(other); found != places.end())
      return &found->second;
  return nullptr;
}

} // namespace cria
