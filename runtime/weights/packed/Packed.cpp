#include "runtime/weights/packed/Packed.h"

#include "runtime/weights/packed/PackedFp8.h"
#include "runtime/weights/packed/PackedInt4.h"

#include <algorithm>
#include <filesystem>

namespace cria {

using nlohmann::json;

static const char *nameOf(PackedLayout layout) {
  static constexpr const char *names[] = {"f8_e4m3", "gptq", "awq",
                                          "compressed-tensors"};
  return names[static_cast<int>(layout)];
}

const char *PackedWeight::format() const { return nameOf(scheme.layout); }

std::string PackedWeight::reading() const {
  auto [height, width] = scheme.block.value_or(std::array<uint64_t, 2>{});
  return concat({format(), " ", height, " ", width, " ",
                 int(scheme.symmetric.value_or(false)), " ",
                 int(scheme.lessOne.value_or(true))});
}

static bool hasPacked(const Checkpoint &checkpoint) {
  const auto &all = checkpoint.tensors();
  return std::any_of(all.begin(), all.end(), [](const auto &each) {
    const TensorEntry &tensor = *each.second.tensor;
    return tensor.type == DType::F8_E4M3 || endsWith(tensor.name, ".qweight") ||
           endsWith(tensor.name, ".weight_packed");
  });
}

/// The object in the file at `path`; null if there is no file.
static Result<JsonDocument> readObject(const std::filesystem::path &path) {
  std::error_code ignored;
  if (!std::filesystem::exists(path, ignored))
    return JsonDocument();
  JsonLimits limits; // as the compiler's
  limits.bytes = 4 << 20;
  limits.values = 1 << 16;
  Result<JsonDocument> document = readJson(path, limits);
  if (document.ok() && !document->root().is_object())
    return Status(CRIA_INVALID_ARGUMENT,
                  path.string() + ": expected an object");
  return document;
}

/// Adds to `config` the keys of `older`, the quantize_config.json of `folder`,
/// that it lacks. Refuses keys that say how weights are stored and disagree.
static Status addOlder(const std::string &folder, const json &older,
                       json &config) {
  for (const char *key :
       {"quant_method", "bits", "group_size", "sym", "desc_act",
        "checkpoint_format", "format", "zero_point", "version"}) {
    json::const_iterator one = config.find(key), other = older.find(key);
    if (one != config.cend() && !one->is_null() && other != older.end() &&
        !other->is_null() && *one != *other)
      return Status(CRIA_INVALID_ARGUMENT,
                    {folder, "/quantize_config.json: '", key, "' is ",
                     other->dump(), ", expected ", one->dump(),
                     ", as quantization_config of config.json says"});
  }
  for (const auto &[key, value] : older.items())
    config.emplace(key, value);
  config.emplace("quant_method", "gptq"); // whose tools write this file
  return Status();
}

Result<PackedConfig> readPackedConfig(const Checkpoint &checkpoint,
                                      const json &artifact) {
  static constexpr char key[] = "quantization_config";
  PackedConfig result;
  if (!hasPacked(checkpoint))
    return result;
  std::filesystem::path folder = checkpoint.path();
  std::error_code ignored;
  if (!std::filesystem::is_directory(folder, ignored))
    folder = folder.parent_path();
  result.source = (folder / "config.json").string();
  Result<JsonDocument> config = readObject(folder / "config.json"),
                       older = readObject(folder / "quantize_config.json");
  if (!config.ok() || !older.ok())
    return config.ok() ? older.status() : config.status();
  // An object that has the quantization_config as its member, for messages.
  JsonDocument root(json::object());
  json &found = root.root()[key];
  auto take = [&](json &from) {
    if (auto member = from.find(key); member != from.end())
      found.swap(*member);
  };
  take(config->root());
  if (!older->root().is_null() && (found.is_null() || found.is_object())) {
    if (found.is_null())
      found = json::object();
    Status same = addOlder(folder.string(), older->root(), found);
    if (!same.ok())
      return same;
  }
  if (found.is_null()) {
    JsonDocument copy(artifact);
    take(copy.root());
    result.source = "the artifact's config";
  }
  Status status;
  if (!found.is_null())
    result.schemes =
        readPackedSchemes(JsonCursor(root.root(), result.source, status)[key]);
  if (!status.ok())
    return status;
  return result;
}

/// Takes the first scheme of `config` that the tensors fit.
static void choose(PackedWeight &weight, const PackedConfig &config,
                   std::string &problem) {
  if (config.schemes.empty())
    problem = weight.use({weight.scheme.layout, {}, {}, {}, {}});
  for (const PackedScheme &scheme : config.schemes) {
    bool alike = weight.scheme.layout == scheme.layout;
    std::string why =
        alike ? weight.use(scheme)
              : concat({quote(weight.elements->tensor->name), " is stored as ",
                        weight.format(), ", expected ", nameOf(scheme.layout)});
    if (why.empty())
      return problem.clear();
    if (problem.empty() || alike)
      problem = concat({why, ", as ", config.source, " says"});
  }
}

std::shared_ptr<PackedWeight> findPacked(const Checkpoint &checkpoint,
                                         const std::string &name,
                                         const Shape &shape,
                                         const PackedConfig &config,
                                         std::string &problem) {
  const Checkpoint::Place *place = checkpoint.find(name);
  static const std::string suffix = ".weight";
  std::shared_ptr<PackedWeight> weight;
  if (place && place->tensor->type == DType::F8_E4M3 &&
      place->tensor->shape == shape)
    weight = findFp8(checkpoint, name, *place, problem);
  else if (!place && endsWith(name, suffix))
    weight = findInt4(checkpoint, name.substr(0, name.size() - suffix.size()),
                      shape, problem);
  if (weight && problem.empty())
    choose(*weight, config, problem);
  return problem.empty() ? weight : nullptr;
}

} // namespace cria
