#include "tools/run/Images.h"

#include "runtime/weights/Floats.h"
#include "tools/image/Processor.h"
#include "tools/run/PromptOutputs.h"
#include "tools/run/Run.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <map>

namespace cria {

/// How the model of this config takes images; null if it does not.
static const ImageModel *imageModelOf(const nlohmann::json &config) {
  static const std::map<std::string, ImageModel> models = {
      {"llava", {{"vision"}, {"image_token_index", "image_token_id"}, false}},
      {"gemma3",
       {{"vision", "projector"},
        {"image_token_index", "image_token_id"},
        false,
        {"boi_token_index", "boi_token_id"},
        {"eoi_token_index", "eoi_token_id"},
        "mm_tokens_per_image",
        true,
        true}},
      {"openvla", {{"vision", "vision2", "projector"}, {"pad_token_id"}, true}},
  };
  auto type = config.find("model_type");
  auto found = type != config.end() && type->is_string()
                   ? models.find(type->get<std::string>())
                   : models.end();
  return found == models.end() ? nullptr : &found->second;
}

/// The folder that describes the model; "" if there is none.
static std::string folderOf(const Run &run) {
  std::string folder =
      run.options.weights.empty() ? run.compiledFrom : run.options.weights;
  std::error_code ignored;
  return std::filesystem::is_directory(folder, ignored) ? folder : "";
}

Status loadConfig(Run &run) {
  const RunOptions &options = run.options;
  std::string folder = folderOf(run), path = folder + "/config.json";
  std::error_code ignored;
  bool isNeeded = !options.images.empty() || options.hasActions;
  if (isNeeded && folder.empty())
    return Status(CRIA_INVALID_ARGUMENT,
                  "--image needs --weights=DIR, for the model's config");
  if (!isNeeded && !(options.chat && !folder.empty() &&
                     std::filesystem::exists(path, ignored)))
    return Status();
  Result<JsonDocument> config = readJson(path);
  if (!config.ok())
    return config.status();
  run.config = std::move(*config);
  run.configPath = path;
  run.imageModel = imageModelOf(run.config.root());
  return Status();
}

// ---- The parts of a model --------------------------------------------------

namespace {
/// A part of a model, ready to compute.
struct Part {
  std::string name;
  std::unique_ptr<Session> session;

  const Manifest &manifest() const { return session->model().manifest(); }
  int64_t inputWidth() const {
    const Manifest &of = manifest();
    return static_cast<int64_t>(of.weights[*of.embedding].shape[1]);
  }
  int64_t width() const { return manifest().hiddenSize; }
  /// The side of a tower's patches, in pixels of three colors.
  int64_t patchSide() const {
    return std::llround(std::sqrt(static_cast<double>(inputWidth()) / 3));
  }
  /// The patches of an image.
  int64_t patches() const { return manifest().maxSeq - manifest().frontRows; }
};
} // namespace

static std::string joined(const std::vector<std::string> &names) {
  std::string all;
  for (const std::string &name : names)
    all += (all.empty() ? "" : ", ") + name;
  return all;
}

/// The name of an artifact's part; "" if it has none.
static std::string partOf(const Manifest &manifest) {
  const nlohmann::json &flags = manifest.flags.root();
  auto part = flags.find("part");
  return part != flags.end() && part->is_string() ? part->get<std::string>()
                                                  : "";
}

using Artifacts = std::map<std::string, std::shared_ptr<const Artifact>>;

/// The artifacts of --part, by the names of their parts.
static Result<Artifacts> openParts(const Run &run) {
  Artifacts parts;
  const std::vector<std::string> &names = run.imageModel->parts;
  for (const std::string &path : run.options.parts) {
    auto artifact = Artifact::open(path, run.options.cpu);
    if (!artifact.ok())
      return artifact.status();
    std::string name = partOf((*artifact)->manifest());
    if (std::find(names.begin(), names.end(), name) == names.end() ||
        !parts.emplace(name, *artifact).second)
      return Status(CRIA_INVALID_ARGUMENT,
                    "--part=" + path + ": is part '" + name +
                        "', expected one for each part that reads images: " +
                        joined(names));
  }
  return parts;
}

/// The artifact of the part `name`: one of --part, or else one that is compiled
/// as the text was.
static Result<std::shared_ptr<const Artifact>>
openPart(const Run &run, const Artifacts &given, const std::string &name) {
  if (auto found = given.find(name); found != given.end())
    return found->second;
  if (run.compiledFrom.empty())
    return Status(CRIA_INVALID_ARGUMENT,
                  "--image: the model's part '" + name +
                      "' is missing: give --part=FILE, from cria-compile "
                      "--part=" +
                      name);
  CompileRequest request;
  request.model = run.compiledFrom;
  request.flags = {"--part=" + name};
  auto path = compileFor(run, std::move(request));
  return path.ok() ? Artifact::open(*path, run.options.cpu) : path.status();
}

static Result<Part> loadPart(const Run &run, const Artifacts &given,
                             const std::string &name) {
  auto artifact = openPart(run, given, name);
  if (!artifact.ok())
    return artifact.status();
  WeightSource weights = weightSource(run.options);
  weights.loras.clear(); // the text has them
  auto model = Model::load(*artifact, weights, deviceOptions(run.options));
  if (!model.ok())
    return model.status();
  if (!(*model)->manifest().takesRows() || (*model)->manifest().hiddenSize == 0)
    return Status(CRIA_INVALID_ARGUMENT,
                  "part '" + name + "': expected a program from rows to rows");
  auto session = Session::create(*model, run.options.threads);
  if (!session.ok())
    return session.status();
  return Part{name, std::move(*session)};
}

/// What the part makes of `input`, rows of its inputWidth().
static Result<std::vector<float>> forward(const Part &part,
                                          const std::vector<float> &input) {
  auto count = static_cast<int64_t>(input.size()) / part.inputWidth();
  std::vector<float> rows(static_cast<size_t>(count * part.width()));
  Outputs outputs;
  outputs.hidden = {CRIA_LOGITS_ALL, rows.data()};
  Status status = part.session->rewind(0);
  if (status.ok()) {
    setRunning(part.session.get());
    status = part.session->feedEmbeddings(input.data(), count,
                                          part.inputWidth(), outputs);
    setRunning(nullptr);
  }
  if (!status.ok())
    return Status(status.code(),
                  "part '" + part.name + "': " + status.message());
  return rows;
}

// ---- Images ----------------------------------------------------------------

/// The patches of an image for a tower.
static Result<std::vector<float>> patchesFor(const Part &tower,
                                             const Image &image,
                                             const ImageSteps &steps,
                                             const std::string &path) {
  Result<Image> pixels = steps.apply(image);
  if (!pixels.ok())
    return Status(pixels.status().code(),
                  path + ": " + pixels.status().message());
  int64_t side = tower.patchSide();
  int64_t count = (pixels->height / side) * (pixels->width / side);
  if (count != tower.patches() || 3 * side * side != tower.inputWidth())
    return Status(CRIA_INVALID_ARGUMENT,
                  path + ": the checkpoint's processor makes " +
                      std::to_string(pixels->width) + " x " +
                      std::to_string(pixels->height) + " pixels, " +
                      std::to_string(count) + " patches; part '" + tower.name +
                      "' reads " + std::to_string(tower.patches()));
  return patchesOf(*pixels, steps, side);
}

/// Rows of `left` and `right` side by side.
static std::vector<float> sideBySide(const std::vector<float> &left,
                                     int64_t leftWidth,
                                     const std::vector<float> &right,
                                     int64_t rightWidth) {
  std::vector<float> rows;
  rows.reserve(left.size() + right.size());
  auto l = left.begin();
  for (auto r = right.begin(); r != right.end(); r += rightWidth) {
    rows.insert(rows.end(), l, l + leftWidth);
    l += leftWidth;
    rows.insert(rows.end(), r, r + rightWidth);
  }
  return rows;
}

/// The means of the rows of a square image over `count` smaller squares.
static Result<std::vector<float>> meansOf(const std::vector<float> &rows,
                                          int64_t width, int64_t count) {
  auto rootOf = [](int64_t n) {
    return std::llround(std::sqrt(static_cast<double>(n)));
  };
  int64_t all = static_cast<int64_t>(rows.size()) / width, side = rootOf(all),
          to = rootOf(count), step = side / std::max<int64_t>(to, 1);
  if (side * side != all || to * to != count || step * to != side)
    return Status(CRIA_INVALID_ARGUMENT,
                  "the tower makes " + std::to_string(all) +
                      " rows, expected those of a square that " +
                      std::to_string(count) + " squares divide");
  std::vector<float> means(static_cast<size_t>(count * width));
  for (int64_t i = 0; i < all; ++i) {
    int64_t square = i / side / step * to + i % side / step;
    for (int64_t j = 0; j < width; ++j)
      means[square * width + j] += rows[i * width + j];
  }
  for (float &mean : means)
    mean /= static_cast<float>(step * step);
  return means;
}

/// A model's way from images to rows.
struct Eyes {
  std::vector<ImageSteps> steps; // of each tower
  std::vector<Part> parts;       // the towers, and then maybe a projector
  /// The squares of an image, of whose rows the projector reads the means; 0 if
  /// it reads every row.
  int64_t means = 0;
  std::vector<std::vector<float>> patches; // of each image for each tower

  bool hasProjector() const { return parts.size() > steps.size(); }

  Result<std::vector<float>> look(const Image &image, const std::string &path);
};

Result<std::vector<float>> Eyes::look(const Image &image,
                                      const std::string &path) {
  Result<std::vector<float>> all = std::vector<float>();
  int64_t width = 0;
  for (size_t tower = 0; tower < steps.size(); ++tower) {
    auto input = patchesFor(parts[tower], image, steps[tower], path);
    if (!input.ok())
      return input;
    auto rows = forward(parts[tower], *input);
    if (!rows.ok())
      return rows;
    patches.push_back(std::move(*input));
    int64_t own = parts[tower].width();
    if (width && rows->size() / own != all->size() / width)
      return Status(CRIA_INVALID_ARGUMENT,
                    "the towers' rows differ in number: " +
                        std::to_string(all->size() / width) + " and " +
                        std::to_string(rows->size() / own));
    all = width ? sideBySide(*all, width, *rows, own) : std::move(*rows);
    width += own;
  }
  if (hasProjector() && parts.back().inputWidth() != width)
    return Status(CRIA_INVALID_ARGUMENT,
                  "part 'projector' reads rows of " +
                      std::to_string(parts.back().inputWidth()) +
                      " numbers, the towers make " + std::to_string(width));
  if (means)
    all = meansOf(*all, width, means);
  return hasProjector() && all.ok() ? forward(parts.back(), *all) : all;
}

/// Writes the patches of all images, if the tool is asked for them.
static Status writePatches(const Run &run, const Eyes &eyes) {
  if (run.options.patches.empty())
    return Status();
  int64_t width = eyes.parts[0].inputWidth();
  uint64_t rows = 0;
  for (const auto &patches : eyes.patches)
    rows += patches.size() / width;
  RowFile file(run.options.patches, rows, width);
  for (const auto &patches : eyes.patches) {
    float *to = file.room(static_cast<int64_t>(patches.size()) / width);
    std::copy(patches.begin(), patches.end(), to);
    if (Status status = file.write(); !status.ok())
      return status;
  }
  return file.commit();
}

/// The id that the first key of the config has that is there.
static Result<int32_t> idOf(const Run &run,
                            const std::vector<const char *> &keys) {
  Status status;
  JsonCursor config(run.config.root(), run.configPath, status);
  for (const char *key : keys)
    if (auto found = config.find(key)) {
      int64_t id = found->integer(0, run.manifest().vocabSize - 1);
      return status.ok() ? Result<int32_t>(static_cast<int32_t>(id)) : status;
    }
  (void)config[keys[0]]; // is missing
  return status;
}

static Result<Eyes> openEyes(const Run &run, const ImageModel &model) {
  std::string folder =
      run.options.weights.empty() ? run.compiledFrom : run.options.weights;
  auto steps = readImageSteps(folder);
  if (!steps.ok())
    return steps.status();
  Eyes eyes{std::move(*steps), {}, 0, {}};
  if (model.means) {
    Status status;
    JsonCursor config(run.config.root(), run.configPath, status);
    eyes.means = config[model.means].integer(1, 1 << 20);
    if (!status.ok())
      return status;
  }
  size_t towers = std::count_if(
      model.parts.begin(), model.parts.end(),
      [](const std::string &name) { return name != "projector"; });
  if (eyes.steps.size() != towers)
    return Status(CRIA_INVALID_ARGUMENT,
                  folder + ": the image processor is for " +
                      std::to_string(eyes.steps.size()) +
                      " towers, the model has " + std::to_string(towers));
  Result<Artifacts> given = openParts(run);
  if (!given.ok())
    return given.status();
  for (const std::string &name : model.parts) {
    Result<Part> part = loadPart(run, *given, name);
    if (!part.ok())
      return part.status();
    eyes.parts.push_back(std::move(*part));
  }
  return eyes;
}

/// INVALID_ARGUMENT or UNIMPLEMENTED with why the model takes no images.
static Status refuseImages(const Run &run) {
  const nlohmann::json &config = run.config.root();
  std::string type = "none";
  if (auto found = config.find("model_type"); found != config.end())
    type = briefJson(*found, 40);
  return Status(CRIA_UNIMPLEMENTED, "--image: expected a model of type "
                                    "\"gemma3\", \"llava\" or \"openvla\", "
                                    "got " +
                                        type);
}

Status readImages(Run &run) {
  for (const std::string &path : run.options.images) {
    Result<Image> image = readImage(path);
    if (!image.ok())
      return image.status();
    run.images.files.push_back(std::move(*image));
  }
  return Status();
}

/// Divides rows by the root of their width in the text's type, by which the
/// text multiplies them.
static void divide(const Run &run, std::vector<float> &rows, int64_t width) {
  DType type = dtypeNamed(run.manifest().dtype).value_or(DType::F32);
  float scale = std::sqrt(static_cast<float>(width));
  std::byte rounded[sizeof(float)];
  auto *bytes = reinterpret_cast<std::byte *>(&scale);
  convertElements(bytes, DType::F32, rounded, type, 1);
  convertElements(rounded, type, bytes, DType::F32, 1);
  for (float &number : rows)
    number /= scale;
}

/// Opens what makes rows of images.
static Status openEyes(Run &run) {
  const ImageModel *model = run.imageModel;
  if (!model)
    return refuseImages(run);
  if (run.ranks)
    return Status(CRIA_UNIMPLEMENTED,
                  "--image: expected an artifact for one rank");
  if (model->seesAhead && !run.manifest().seesAhead)
    return Status(CRIA_INVALID_ARGUMENT,
                  "--image: the rows of an image of this model see one "
                  "another, but not in this artifact: expected one of the "
                  "model's folder, without --batch");
  Result<int32_t> id = idOf(run, model->id);
  Result<Eyes> eyes = id.ok() ? openEyes(run, *model) : id.status();
  if (!eyes.ok())
    return eyes.status();
  PromptImages &images = run.images;
  images.id = *id;
  images.width = eyes->parts.back().width();
  images.areWhole = model->seesAhead;
  images.eyes = std::make_shared<Eyes>(std::move(*eyes));
  return Status();
}

/// Computes the rows of an image.
static Status see(Run &run, const Image &image, const std::string &path) {
  PromptImages &images = run.images;
  if (run.imageModel->afterBegin && !images.rows.empty())
    return Status(CRIA_INVALID_ARGUMENT,
                  "--image: this model takes one image, got " +
                      std::to_string(images.rows.size() + 1));
  auto rows = images.eyes->look(image, path);
  if (!rows.ok())
    return rows.status();
  images.count = static_cast<int64_t>(rows->size()) / images.width;
  if (run.imageModel->isUnscaled)
    divide(run, *rows, images.width);
  images.rows.push_back(std::move(*rows));
  return Status();
}

Status loadImages(Run &run) {
  PromptImages &images = run.images;
  double begin = now();
  Status status = images.files.empty() ? Status() : openEyes(run);
  for (size_t i = 0; i < images.files.size() && status.ok(); ++i)
    status = see(run, images.files[i], run.options.images[i]);
  if (!status.ok() || images.files.empty())
    return status;
  images.files = {};
  if (run.talks())
    fprintf(stderr, "cria-run: %zu images, of %lld rows each, in %.3f s\n",
            images.rows.size(), static_cast<long long>(images.count),
            now() - begin);
  return writePatches(run, *images.eyes);
}

Status addImage(Run &run, const std::string &path) {
  Result<Image> image = readImage(path);
  if (!image.ok())
    return image.status();
  Status status = run.images.eyes ? Status() : openEyes(run);
  return status.ok() ? see(run, *image, path) : status;
}

// ---- Images in a prompt ----------------------------------------------------

const float *PromptImages::at(int64_t at, int64_t &most) const {
  for (size_t i = 0; i < begins.size(); ++i) {
    if (at < begins[i]) {
      most = std::min(most, begins[i] - at);
      return nullptr;
    }
    if (int64_t rest = begins[i] + count - at; rest > 0) {
      most = areWhole ? rest : std::min(most, rest);
      return &rows[i][static_cast<size_t>((at - begins[i]) * width)];
    }
  }
  return nullptr;
}

/// Encodes the text that some ids are, with a blank line before it, after it or
/// both.
static Result<std::vector<int32_t>>
withBlankLines(const Tokenizer &tokenizer, const std::vector<int32_t> &ids,
               bool before, bool after) {
  Result<std::string> text = tokenizer.decode(ids);
  if (!text.ok())
    return text.status();
  return tokenizer.encode((before ? "\n\n" : "") + *text +
                              (after ? "\n\n" : ""),
                          /*special=*/false, /*parseSpecial=*/false);
}

/// Puts what ImageModel::begin says in the place of each id that begins an
/// image. A text between special tokens is encoded as a whole.
static Status surroundImages(Run &run) {
  const ImageModel &model = *run.imageModel;
  if (model.begin.empty())
    return Status();
  Result<int32_t> begin = idOf(run, model.begin), end = idOf(run, model.end);
  if (!begin.ok() || !end.ok())
    return begin.ok() ? end.status() : begin.status();
  std::vector<int32_t> made, text; // `text` since the last special token
  bool follows = false;            // text follows an image
  auto flush = [&](bool precedes) {
    if (follows || precedes) {
      auto ids = withBlankLines(*run.tokenizer, text, follows, precedes);
      if (!ids.ok())
        return ids.status();
      text = std::move(*ids);
    }
    made.insert(made.end(), text.begin(), text.end());
    text.clear();
    return Status();
  };
  for (size_t i = 0; i < run.prompt.size(); ++i) {
    int32_t id = run.prompt[i];
    bool isWhole = i + 1 < run.prompt.size() &&
                   run.prompt[i + 1] == run.images.id; // as --ids may have it
    bool begins = id == *begin && !isWhole;
    if (begins && !run.tokenizer)
      return Status(CRIA_NOT_FOUND, "--image: expected a tokenizer, for the "
                                    "blank lines around an image, or the ids "
                                    "of all its rows");
    if (!begins && !(run.tokenizer && run.tokenizer->isSpecial(id))) {
      text.push_back(id);
      continue;
    }
    if (Status status = flush(begins); !status.ok())
      return status;
    made.push_back(id);
    if (begins)
      made.insert(made.end(), {run.images.id, *end});
    follows = begins;
  }
  if (Status status = flush(/*precedes=*/false); !status.ok())
    return status;
  run.prompt = std::move(made);
  return Status();
}

Status placeImages(Run &run) {
  PromptImages &images = run.images;
  if (images.rows.empty())
    return Status();
  if (Status status = surroundImages(run); !status.ok())
    return status;
  auto wanted = static_cast<int64_t>(images.rows.size());
  std::vector<int32_t> prompt = std::move(run.prompt);
  if (run.imageModel->afterBegin)
    prompt.insert(prompt.begin() + 1, images.id);
  int64_t found = std::count(prompt.begin(), prompt.end(), images.id);
  // An id for each image, or, as transformers' processors write it, each row.
  int64_t step = found == wanted ? 1 : images.count;
  if (found != wanted * step)
    return Status(CRIA_INVALID_ARGUMENT,
                  "the prompt has the id " + std::to_string(images.id) +
                      ", where an image stands, " + std::to_string(found) +
                      " times, expected " + std::to_string(wanted) +
                      " for the images of --image, or " +
                      std::to_string(wanted * images.count) +
                      " for their rows");
  run.prompt.clear();
  images.begins.clear();
  for (size_t i = 0; i < prompt.size(); ++i) {
    if (prompt[i] != images.id) {
      run.prompt.push_back(prompt[i]);
      continue;
    }
    auto begin = prompt.begin() + i;
    if (int64_t own =
            std::find_if(begin,
                         begin + std::min<int64_t>(step, prompt.end() - begin),
                         [&](int32_t id) { return id != images.id; }) -
            begin;
        own < step)
      return Status(CRIA_INVALID_ARGUMENT,
                    "the prompt has the id of an image " + std::to_string(own) +
                        " times from index " + std::to_string(i) +
                        " on, expected " + std::to_string(step));
    auto at = static_cast<int64_t>(run.prompt.size());
    if (images.areWhole && !images.begins.empty() &&
        images.begins.back() + images.count == at)
      return Status(CRIA_INVALID_ARGUMENT,
                    "the prompt has an image right behind another, expected "
                    "ids between them, which end an image");
    images.begins.push_back(at);
    run.prompt.insert(run.prompt.end(), images.count, images.id);
    i += step - 1;
  }
  return Status();
}

} // namespace cria
