#include "runtime/weights/packed/Packed.h"

#include "runtime/weights/packed/PackedElements.h"

#include <filesystem>

namespace cria {

using nlohmann::json;

static const char *nameOf(PackedLayout layout) {
  static constexpr const char *names[] = {"f8_e4m3", "gptq", "awq",
                                          "compressed-tensors", "mxfp4"};
  return names[static_cast<int>(layout)];
}

const char *PackedElements::format() const { return nameOf(scheme.layout); }

Status PackedElements::write(uint64_t first, uint64_t count, DType type,
                             std::byte *to) const {
  auto compute = [&](uint64_t first, uint64_t count, float *values) {
    return read(first, count, values);
  };
  return writeFloats(first, count, piece(), type, to, compute);
}

/// A text that differs if the same tensors are read in another way.
static std::string readingOf(const PackedScheme &scheme) {
  auto [height, width] = scheme.block.value_or(std::array<uint64_t, 2>{});
  return concat({nameOf(scheme.layout), " ", height, " ", width, " ",
                 int(scheme.symmetric.value_or(false)), " ",
                 int(scheme.lessOne.value_or(true))});
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
                     briefJson(*other, 40), ", expected ", briefJson(*one, 40),
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
static void choose(PackedElements &weight, const PackedConfig &config,
                   std::string &problem) {
  if (config.schemes.empty())
    problem = weight.use({weight.scheme.layout, {}, {}, {}, {}});
  for (const PackedScheme &scheme : config.schemes) {
    bool alike = weight.scheme.layout == scheme.layout;
    std::string why =
        alike
            ? weight.use(scheme)
            : concat({quote(weight.tensors[0]->tensor->name), " is stored as ",
                      weight.format(), ", expected ", nameOf(scheme.layout)});
    if (why.empty())
      return problem.clear();
    if (problem.empty() || alike)
      problem = concat({why, ", as ", config.source, " says"});
  }
}

std::optional<PackedWeight>
findPacked(const Checkpoint &checkpoint, const std::string &name,
           const Checkpoint::Tensor *place, const Shape &shape,
           const PackedConfig &config, std::string &problem) {
  static const std::string suffix = ".weight";
  std::unique_ptr<PackedElements> found;
  if (place && place->tensor->type == DType::F8_E4M3 &&
      place->tensor->shape == shape)
    found = findFp8(checkpoint, name, *place, problem);
  else if (!place && shape.size() == 3)
    found = findMxfp4(checkpoint, name, shape, problem);
  else if (!place && endsWith(name, suffix))
    found = findInt4(checkpoint, name.substr(0, name.size() - suffix.size()),
                     shape, problem);
  if (found && problem.empty())
    choose(*found, config, problem);
  if (!found || !problem.empty())
    return std::nullopt;
  PackedWeight weight = {nullptr, found->tensors, found->format(),
                         readingOf(found->scheme)};
  weight.elements = std::move(found);
  return weight;
}

} // namespace cria
