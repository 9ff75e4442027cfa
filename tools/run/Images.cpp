#include "tools/run/Images.h"

#include "tools/image/Processor.h"
#include "tools/run/PromptOutputs.h"
#include "tools/run/Run.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <map>

namespace cria {

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
                        run.imageModel->partNames());
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

static Result<Eyes> openEyes(const Run &run, const ImageModel &model,
                             int64_t means) {
  std::string folder =
      run.options.weights.empty() ? run.compiledFrom : run.options.weights;
  auto steps = readImageSteps(folder);
  if (!steps.ok())
    return steps.status();
  Eyes eyes{std::move(*steps), {}, means, {}};
  if (eyes.steps.size() != model.towers())
    return Status(CRIA_INVALID_ARGUMENT,
                  {folder, ": the image processor is for ", eyes.steps.size(),
                   " towers, the model has ", model.towers()});
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
                  "model's folder");
  Result<ImageNumbers> numbers = imageNumbersOf(
      *model, run.config.root(), run.configPath, run.manifest().vocabSize);
  if (!numbers.ok())
    return numbers.status();
  Result<Eyes> eyes = openEyes(run, *model, numbers->means);
  if (!eyes.ok())
    return eyes.status();
  PromptImages &images = run.images;
  images.numbers = *numbers;
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
    unscale(*rows, images.width,
            dtypeNamed(run.manifest().dtype).value_or(DType::F32));
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

/// Puts text and ids around the images of the prompt, as the model wants them.
static Status surroundImages(Run &run) {
  const Tokenizer *tokenizer = run.tokenizer ? &*run.tokenizer : nullptr;
  auto isSpecial = [&](int32_t id) { return tokenizer->isSpecial(id); };
  auto decode = [&](const std::vector<int32_t> &ids) {
    return tokenizer->decode(ids);
  };
  auto encode = [&](const std::string &text) {
    return tokenizer->encode(text, /*special=*/false, /*parseSpecial=*/false);
  };
  PromptCodec codec{isSpecial, decode, encode};
  auto made = surroundImages(run.prompt, run.images.numbers,
                             tokenizer ? &codec : nullptr);
  if (!made.ok())
    return made.status();
  run.prompt = std::move(*made);
  return Status();
}

Status placeImages(Run &run) {
  PromptImages &images = run.images;
  images.begins.clear();
  if (images.rows.empty())
    return Status();
  if (Status status = surroundImages(run); !status.ok())
    return status;
  auto wanted = static_cast<int64_t>(images.rows.size());
  std::vector<int32_t> prompt = std::move(run.prompt);
  if (run.imageModel->afterBegin)
    prompt.insert(prompt.begin() + 1, images.numbers.id);
  int64_t found = std::count(prompt.begin(), prompt.end(), images.numbers.id);
  // An id for each image, or, as transformers' processors write it, each row.
  int64_t step = found == wanted ? 1 : images.count;
  if (found != wanted * step)
    return Status(CRIA_INVALID_ARGUMENT,
                  "the prompt has the id " + std::to_string(images.numbers.id) +
                      ", where an image stands, " + std::to_string(found) +
                      " times, expected " + std::to_string(wanted) +
                      " for the images of --image, or " +
                      std::to_string(wanted * images.count) +
                      " for their rows");
  run.prompt.clear();
  for (size_t i = 0; i < prompt.size(); ++i) {
    if (prompt[i] != images.numbers.id) {
      run.prompt.push_back(prompt[i]);
      continue;
    }
    auto begin = prompt.begin() + i;
    if (int64_t own =
            std::find_if(begin,
                         begin + std::min<int64_t>(step, prompt.end() - begin),
                         [&](int32_t id) { return id != images.numbers.id; }) -
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
    run.prompt.insert(run.prompt.end(), images.count, images.numbers.id);
    i += step - 1;
  }
  return Status();
}

} // namespace cria
