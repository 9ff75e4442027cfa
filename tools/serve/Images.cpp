#include "tools/serve/Images.h"

#include "runtime/base/Json.h"
#include "runtime/gguf/Files.h"
#include "tools/serve/Engine.h"

#include <array>
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

Eyes openEyes(const Artifact &part, const std::string &path,
              const std::string &weights, int64_t vocabSize) {
  JsonDocument config = configOf(weights);
  Status status;
  JsonCursor root(config.root(), weights + "/config.json", status);
  if (!isLlava(config.root()))
    root["model_type"].fail("is none whose images are read: expected \"llava\"",
                            CRIA_UNIMPLEMENTED);
  Eyes eyes;
  auto id = root.find("image_token_index");
  eyes.id = static_cast<int32_t>(
      (id ? *id : root["image_token_id"]).integer(0, vocabSize - 1));
  if (!status.ok())
    raise(status);
  auto steps = readImageSteps(weights);
  if (!steps.ok())
    raise(steps.status());
  cria_artifact_info info = part.info();
  auto [inputs, front] = inputOf(part, path);
  eyes.inputs = inputs;
  eyes.side = std::llround(std::sqrt(static_cast<double>(inputs) / 3));
  eyes.patches = info.max_seq - front;
  eyes.width = info.hidden_size;
  if (steps->size() != 1 || eyes.width == 0 ||
      3 * eyes.side * eyes.side != inputs)
    raise(Status(CRIA_INVALID_ARGUMENT,
                 {path,
                  ": expected an artifact of cria-compile --part=vision "
                  "of the model in ",
                  weights}));
  eyes.steps = std::move(steps->front());
  return eyes;
}

/// The bytes that base64 stands for; nothing if it is none.
static std::optional<std::string> decoded(std::string_view text) {
  static const std::array<int8_t, 256> values = [] {
    std::array<int8_t, 256> all;
    all.fill(-1);
    std::string_view letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrst"
                               "uvwxyz0123456789+/";
    for (size_t i = 0; i < letters.size(); ++i)
      all[static_cast<uint8_t>(letters[i])] = static_cast<int8_t>(i);
    return all;
  }();
  for (int i = 0; i < 2 && !text.empty() && text.back() == '='; ++i)
    text.remove_suffix(1);
  if (text.size() % 4 == 1)
    return std::nullopt;
  std::string bytes;
  bytes.reserve(text.size() / 4 * 3 + 2);
  uint32_t bits = 0;
  int count = 0;
  for (char letter : text) {
    int8_t value = values[static_cast<uint8_t>(letter)];
    if (value < 0)
      return std::nullopt;
    bits = bits << 6 | static_cast<uint32_t>(value);
    if ((count += 6) >= 8)
      bytes += static_cast<char>(bits >> (count -= 8) & 255);
  }
  return bytes;
}

std::optional<ApiError> readPatches(const Eyes &eyes, const std::string &url,
                                    std::vector<float> &patches) {
  auto refuse = [](const std::string &what, const char *code) {
    return ApiError{400, what, "messages", code};
  };
  std::string_view rest = url;
  size_t comma = rest.find(";base64,");
  if (rest.substr(0, 5) != "data:")
    return refuse("'image_url' has an address, expected a data: URL: the "
                  "server opens no addresses",
                  "unsupported_value");
  auto bytes =
      comma == rest.npos ? std::nullopt : decoded(rest.substr(comma + 8));
  if (!bytes)
    return refuse("'image_url' is no data: URL in base64", "invalid_image_url");
  auto image = readImage("the image", *bytes, kMostPixelsOfClients);
  auto pixels = image.ok() ? eyes.steps.apply(*image) : image.status();
  if (!pixels.ok())
    return refuse(pixels.status().message(), "invalid_image");
  patches = patchesOf(*pixels, eyes.steps, eyes.side);
  if (static_cast<int64_t>(patches.size()) != eyes.patches * eyes.inputs)
    return refuse(
        "the image has " +
            std::to_string(static_cast<int64_t>(patches.size()) / eyes.inputs) +
            " patches, and the model reads " + std::to_string(eyes.patches),
        "invalid_image");
  return std::nullopt;
}

} // namespace cria::serve
