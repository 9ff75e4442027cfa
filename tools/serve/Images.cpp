#include "tools/serve/Images.h"

#include "runtime/base/Base64.h"
#include "runtime/base/Json.h"
#include "runtime/gguf/Files.h"
#include "tools/serve/Engine.h"

#include <cmath>

namespace cria::serve {

static JsonDocument configOf(const std::string &weights) {
  auto document = readJson(weights + "/config.json");
  if (!document.ok())
    raise(document.status());
  return std::move(*document);
}

static bool isLlava(const nlohmann::json &config) {
  auto type = config.find("model_type");
  return type != config.end() && *type == "llava";
}

bool takesImages(const std::string &weights) {
  return !gguf::isGguf(weights) && isLlava(configOf(weights).root());
}

/// What the manifest of a part says of its input: numbers of a row, and rows of
/// its own in front of a call's.
static std::pair<int64_t, int64_t> inputOf(const Artifact &part,
                                           const std::string &path) {
  Status status;
  auto document = parseJson(part.manifest(), path);
  if (!document.ok())
    raise(document.status());
  JsonCursor root(document->root(), path, status);
  int64_t slot = root["embedding"].integer(0, INT32_MAX), width = 0, front = 0;
  for (JsonCursor weight : root["weights"].elements())
    if (weight["slot"].integer(0, INT32_MAX) == slot)
      width = weight["shape"].element(1).integer(1, 1 << 24);
  if (auto rows = root["model"].find("front_rows"))
    front = rows->integer(0, 1 << 20);
  if (!status.ok())
    raise(status);
  return {width, front};
}

VisionTower openVisionTower(const Artifact &part, const std::string &path,
                            const std::string &weights, int64_t vocabSize) {
  JsonDocument config = configOf(weights);
  Status status;
  JsonCursor root(config.root(), weights + "/config.json", status);
  if (!isLlava(config.root()))
    root["model_type"].fail("is none whose images are read: expected \"llava\"",
                            CRIA_UNIMPLEMENTED);
  VisionTower tower;
  auto id = root.find("image_token_index");
  tower.id = static_cast<int32_t>(
      (id ? *id : root["image_token_id"]).integer(0, vocabSize - 1));
  if (!status.ok())
    raise(status);
  auto steps = readImageSteps(weights);
  if (!steps.ok())
    raise(steps.status());
  cria_artifact_info info = part.info();
  auto [inputs, front] = inputOf(part, path);
  tower.inputs = inputs;
  tower.side = std::llround(std::sqrt(static_cast<double>(inputs) / 3));
  tower.patches = info.max_seq - front;
  tower.width = info.hidden_size;
  if (steps->size() != 1 || tower.width == 0 ||
      3 * tower.side * tower.side != inputs)
    raise(Status(CRIA_INVALID_ARGUMENT,
                 {path,
                  ": expected an artifact of cria-compile --part=vision "
                  "of the model in ",
                  weights}));
  tower.steps = std::move(steps->front());
  return tower;
}

std::optional<ApiError> readPatches(const VisionTower &tower,
                                    const std::string &url, const char *field,
                                    std::vector<float> &patches) {
  auto refuse = [&](const std::string &what, const char *code) {
    return ApiError{400, what, field, code};
  };
  std::string_view rest = url;
  size_t comma = rest.find(";base64,");
  if (rest.substr(0, 5) != "data:")
    return refuse("'image_url' has an address, expected a data: URL: the "
                  "server opens no addresses",
                  "unsupported_value");
  auto bytes =
      comma == rest.npos ? std::nullopt : decodeBase64(rest.substr(comma + 8));
  if (!bytes)
    return refuse("'image_url' is no data: URL in base64", "invalid_image_url");
  auto image = readImage("the image", *bytes, kMostPixelsOfClients);
  auto pixels = image.ok() ? tower.steps.apply(*image) : image.status();
  if (!pixels.ok())
    return refuse(pixels.status().message(), "invalid_image");
  patches = patchesOf(*pixels, tower.steps, tower.side);
  if (static_cast<int64_t>(patches.size()) != tower.patches * tower.inputs)
    return refuse("the image has " +
                      std::to_string(static_cast<int64_t>(patches.size()) /
                                     tower.inputs) +
                      " patches, and the model reads " +
                      std::to_string(tower.patches),
                  "invalid_image");
  return std::nullopt;
}

} // namespace cria::serve
