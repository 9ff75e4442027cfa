#include "tools/serve/Images.h"

#include "runtime/base/Base64.h"
#include "runtime/base/Json.h"
#include "runtime/gguf/Files.h"
#include "tools/serve/Engine.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <strings.h>

namespace cria::serve {

static JsonDocument configOf(const std::string &weights) {
  auto document = readJson(weights + "/config.json");
  if (!document.ok())
    raise(document.status());
  return std::move(*document);
}

/// How the model takes images, if the server reads them: one tower's rows, in
/// the places of ids. Null if it does not.
static const ImageModel *modelOf(const nlohmann::json &config) {
  const ImageModel *model = imageModelOf(config);
  return model && model->towers() == 1 && !model->afterBegin ? model : nullptr;
}

std::vector<std::string> imageParts(const std::string &weights) {
  if (gguf::isGguf(weights))
    return {};
  const ImageModel *model = modelOf(configOf(weights).root());
  return model ? model->parts : std::vector<std::string>();
}

static JsonDocument manifestOf(const Artifact &artifact,
                               const std::string &path) {
  auto document = parseJson(artifact.manifest(), path);
  if (!document.ok())
    raise(document.status());
  return std::move(*document);
}

/// Opens the part at `path`, and finds its name.
static VisionPart openPart(const std::string &path, std::string &name) {
  VisionPart part{Artifact(path), path, {}};
  JsonDocument manifest = manifestOf(part.artifact, path);
  Status status;
  JsonCursor root(manifest.root(), path, status);
  if (auto flags = root.find("flags"))
    if (auto flag = flags->find("part"))
      name = flag->string();
  // Rows of its own may be in front of a call's.
  int64_t slot = 0, front = 0;
  if (auto embedding = root.find("embedding"))
    slot = embedding->integer(0, INT32_MAX);
  for (JsonCursor weight : root["weights"].elements())
    if (!name.empty() && weight["slot"].integer(0, INT32_MAX) == slot)
      part.inputs = weight["shape"].element(1).integer(1, 1 << 24);
  if (auto rows = root["model"].find("front_rows"))
    front = rows->integer(0, 1 << 20);
  if (!status.ok())
    raise(status);
  cria_artifact_info info = part.artifact.info();
  part.rows = info.max_seq - front;
  part.width = info.hidden_size;
  return part;
}

/// Opens one part for each name of the model.
static std::vector<VisionPart> openParts(const ImageModel &model,
                                         const std::vector<std::string> &paths,
                                         const std::string &weights) {
  std::map<std::string, VisionPart> opened;
  for (const std::string &path : paths) {
    std::string name;
    VisionPart part = openPart(path, name);
    bool isWanted = std::count(model.parts.begin(), model.parts.end(), name);
    if (!isWanted || !opened.emplace(name, std::move(part)).second)
      raise(Status(CRIA_INVALID_ARGUMENT,
                   {"--part=", path, ": is part '", name,
                    "', expected one for each part that reads images of the "
                    "model in ",
                    weights, ": ", model.partNames()}));
  }
  std::vector<VisionPart> parts;
  for (const std::string &name : model.parts) {
    auto found = opened.find(name);
    if (found == opened.end())
      raise(Status(
          CRIA_INVALID_ARGUMENT,
          {"the model's part '", name,
           "' is missing: give --part=FILE, from cria-compile --part=", name}));
    parts.push_back(std::move(found->second));
  }
  return parts;
}

/// Finds the rows of an image, and whether each part fits what is before it.
static void connectParts(VisionTower &tower, const std::string &weights) {
  const VisionPart &first = tower.parts.front(), &last = tower.parts.back();
  tower.side = std::llround(std::sqrt(static_cast<double>(first.inputs) / 3));
  tower.rows = first.rows;
  tower.width = last.width;
  if (first.width == 0 || 3 * tower.side * tower.side != first.inputs)
    raise(Status(CRIA_INVALID_ARGUMENT,
                 {first.path,
                  ": expected an artifact of cria-compile --part=vision of the "
                  "model in ",
                  weights}));
  if (tower.parts.size() > 1 && (last.width == 0 || last.inputs != first.width))
    raise(Status(CRIA_INVALID_ARGUMENT,
                 {last.path, ": reads rows of ", last.inputs,
                  " numbers, the tower makes ", first.width}));
  if (tower.numbers.means == 0)
    return;
  std::vector<float> column(static_cast<size_t>(first.rows));
  if (auto means = meansOf(column, 1, tower.numbers.means); !means.ok())
    raise(Status(means.status().code(),
                 {first.path, ": ", means.status().message()}));
  tower.rows = tower.numbers.means;
}

/// Checks that the text's artifact takes the rows of an image.
static void checkText(const ImageModel &model, const Artifact &text,
                      const std::string &path, VisionTower &tower) {
  JsonDocument manifest = manifestOf(text, path);
  Status status;
  JsonCursor of = JsonCursor(manifest.root(), path, status)["model"];
  auto ahead = of.find("sees_ahead");
  bool seesAhead = ahead && ahead->boolean();
  auto type = dtypeNamed(of["dtype"].string());
  if (!status.ok())
    raise(status);
  if (model.seesAhead && !seesAhead)
    raise(Status(CRIA_INVALID_ARGUMENT,
                 {path,
                  ": the rows of an image of this model see one another, but "
                  "not in this artifact: expected one of the model's folder"}));
  int64_t chunk = text.info().chunk;
  if (seesAhead && tower.rows > chunk)
    raise(Status(CRIA_INVALID_ARGUMENT,
                 {path, ": an image has ", tower.rows,
                  " rows that see one another, and a call takes ", chunk,
                  ": expected an artifact of cria-compile --chunk=", tower.rows,
                  " or more"}));
  tower.areWhole = seesAhead;
  if (model.isUnscaled)
    tower.unscaledIn = type.value_or(DType::F32);
}

VisionTower openVisionTower(const Artifact &text, const std::string &textPath,
                            const std::vector<std::string> &paths,
                            const std::string &weights) {
  JsonDocument config = configOf(weights);
  std::string path = weights + "/config.json";
  const ImageModel *model = modelOf(config.root());
  if (!model) {
    Status status;
    JsonCursor(config.root(), path, status)["model_type"].fail(
        "is none whose images are read: expected \"gemma3\" or \"llava\"",
        CRIA_UNIMPLEMENTED);
    raise(status);
  }
  auto numbers =
      imageNumbersOf(*model, config.root(), path, text.info().vocab_size);
  if (!numbers.ok())
    raise(numbers.status());
  auto steps = readImageSteps(weights);
  if (!steps.ok())
    raise(steps.status());
  if (steps->size() != 1)
    raise(Status(CRIA_INVALID_ARGUMENT,
                 {weights, ": the image processor is for ", steps->size(),
                  " towers, the model has 1"}));
  VisionTower tower;
  tower.parts = openParts(*model, paths, weights);
  tower.steps = std::move(steps->front());
  tower.numbers = *numbers;
  connectParts(tower, weights);
  checkText(*model, text, textPath, tower);
  return tower;
}

/// What `make` returns, or its error as a Status.
template <typename Make>
static auto tried(Make make) -> Result<decltype(make())> {
  try {
    return make();
  } catch (const Error &error) {
    return Status(error.status(), error.what());
  }
}

std::vector<int32_t> surrounded(const VisionTower &tower,
                                const Tokenizer &tokenizer,
                                const std::vector<int32_t> &prompt) {
  auto isSpecial = [&](int32_t id) {
    return tokenizer.decode({id}) != tokenizer.decode({id}, /*special=*/true);
  };
  auto decode = [&](const std::vector<int32_t> &ids) {
    return tried([&] { return tokenizer.decode(ids); });
  };
  auto encode = [&](const std::string &text) {
    return tried([&] { return tokenizer.encodeText(text, /*special=*/false); });
  };
  PromptCodec codec{isSpecial, decode, encode};
  auto made = surroundImages(prompt, tower.numbers, &codec);
  if (!made.ok())
    raise(made.status());
  return std::move(*made);
}

/// The bytes of the base64 that follows a comma in `url`. As in browsers, lines
/// may be broken, and padding may be missing.
static std::optional<std::string> bytesOf(std::string_view url) {
  constexpr std::string_view base64 = ";base64";
  std::string_view head = url.substr(0, url.find(','));
  if (head.size() == url.size() || head.size() < base64.size() ||
      strncasecmp(head.data() + head.size() - base64.size(), base64.data(),
                  base64.size()) != 0)
    return std::nullopt;
  std::string letters;
  letters.reserve(url.size() - head.size() + 2);
  for (char letter : url.substr(head.size() + 1))
    if (std::string_view(" \t\n\f\r").find(letter) == std::string_view::npos)
      letters += letter;
  if (letters.find('=') == letters.npos && letters.size() % 4 > 1)
    letters.append(4 - letters.size() % 4, '=');
  return decodeBase64(letters);
}

std::optional<ApiError> readPatches(const VisionTower &tower,
                                    const std::string &url, const char *field,
                                    std::vector<float> &patches) {
  auto refuse = [&](const std::string &what, const char *code) {
    return ApiError{400, what, field, code};
  };
  if (strncasecmp(url.c_str(), "data:", 5) != 0)
    return refuse("'image_url' has an address, expected a data: URL: the "
                  "server opens no addresses",
                  "unsupported_value");
  auto bytes = bytesOf(url);
  if (!bytes)
    return refuse("'image_url' is no data: URL in base64", "invalid_image_url");
  auto image = readImage("the image", *bytes, kMostPixelsOfClients);
  auto pixels = image.ok() ? tower.steps.apply(*image) : image.status();
  if (!pixels.ok())
    return refuse(pixels.status().message(), "invalid_image");
  patches = patchesOf(*pixels, tower.steps, tower.side);
  const VisionPart &part = tower.parts.front();
  auto numbers = static_cast<int64_t>(patches.size());
  if (numbers != part.rows * part.inputs)
    return refuse("the image has " + std::to_string(numbers / part.inputs) +
                      " patches, and the model reads " +
                      std::to_string(part.rows),
                  "invalid_image");
  return std::nullopt;
}

/// What a session of the part makes of `rows`.
static std::vector<float> forward(const VisionPart &part, Session &session,
                                  const std::vector<float> &rows) {
  auto outputs = make<cria_outputs>();
  std::vector<float> made(rows.size() / static_cast<size_t>(part.inputs) *
                          static_cast<size_t>(part.width));
  outputs.hidden_of = CRIA_LOGITS_ALL;
  outputs.hidden = made.data();
  outputs.hidden_capacity = made.size();
  session.rewind(0);
  session.feedEmbeddings(rows, static_cast<size_t>(part.inputs), outputs);
  return made;
}

std::vector<float> rowsOf(const VisionTower &tower,
                          std::vector<Session> &sessions,
                          const std::vector<float> &patches) {
  const std::vector<VisionPart> &parts = tower.parts;
  std::vector<float> rows = forward(parts[0], sessions[0], patches);
  if (tower.numbers.means) {
    auto means = meansOf(rows, parts[0].width, tower.numbers.means);
    if (!means.ok())
      raise(means.status());
    rows = std::move(*means);
  }
  if (parts.size() > 1)
    rows = forward(parts[1], sessions[1], rows);
  if (tower.unscaledIn)
    unscale(rows, tower.width, *tower.unscaledIn);
  return rows;
}

} // namespace cria::serve
