#include "tools/image/Processor.h"

#include <algorithm>
#include <filesystem>

namespace cria {

using Color = std::array<double, 3>;

// ---- What transformers' processors do unless a config says otherwise -------

namespace {
struct Preset {
  const char *name; // without "ImageProcessor"
  int64_t resample; // as Pillow numbers filters
  Color mean, deviation;
  bool isShortest, crops; // 224 is the shorter side; the middle is taken
  bool pads, squares;     // knows do_pad; a number as `size` means both sides
};
} // namespace

static constexpr int64_t kBilinear = 2, kBicubic = 3;
static constexpr Color kHalf = {0.5, 0.5, 0.5},
                       kClipMean = {0.48145466, 0.4578275, 0.40821073},
                       kClipDeviation = {0.26862954, 0.26130258, 0.27577711};
static constexpr Preset presets[] = {
    {"CLIP", kBicubic, kClipMean, kClipDeviation, true, true, false, false},
    {"Llava", kBicubic, kClipMean, kClipDeviation, true, true, true, false},
    {"Siglip", kBicubic, kHalf, kHalf, false, false, false, false},
    {"Gemma3", kBilinear, kHalf, kHalf, false, false, false, true},
};

/// The preset of "CLIPImageProcessor" or "CLIPImageProcessorFast"; null if
/// there is none. Older checkpoints have `feature_extractor_type`.
static const Preset *presetOf(const JsonCursor &root) {
  auto type = root.find("image_processor_type");
  if (!type)
    type = root.find("feature_extractor_type");
  std::string name = type ? type->string() : "";
  for (const Preset &preset : presets)
    for (const char *ending :
         {"ImageProcessor", "ImageProcessorFast", "FeatureExtractor"})
      if (name == std::string(preset.name) + ending)
        return &preset;
  std::string expected;
  for (const Preset &preset : presets)
    expected += std::string(preset.name) + "ImageProcessor, ";
  if (type)
    refuse(*type, "one of " + expected + "PrismaticImageProcessor");
  else
    (void)root["image_processor_type"]; // is missing
  return nullptr;
}

// ---- Values ----------------------------------------------------------------

static bool flag(const JsonCursor &root, const char *key, bool otherwise) {
  auto found = root.find(key);
  return found ? found->boolean() : otherwise;
}

/// Refuses `key` unless it is false, null or not there.
static void refuseFlag(const JsonCursor &root, const char *key) {
  if (auto found = root.find(key); found && found->boolean())
    refuse(*found, "false");
}

static Color colorOf(const JsonCursor &list, double least) {
  Color color = {1, 1, 1};
  if (size_t count = list.count(3); count != 3 && list.ok())
    list.expected("three numbers");
  else
    for (size_t i = 0; i < count; ++i)
      color[i] = list.element(i).number(least, 1e6);
  return color;
}

static Filter filterOf(const JsonCursor &value) {
  int64_t resample = value.integer(0, 5);
  if (resample != kBilinear && resample != kBicubic && value.ok())
    refuse(value, "2 (bilinear) or 3 (bicubic)");
  return resample == kBilinear ? Filter::Bilinear : Filter::Bicubic;
}

static int64_t side(const JsonCursor &value) {
  return value.integer(1, kMostInRow);
}

static ImageSteps::Size sizeOf(const JsonCursor &value) {
  if (!value.raw().is_object())
    return {side(value), side(value)};
  onlyKeys(value, {"height", "width"});
  return {side(value["height"]), side(value["width"])};
}

static void readSize(const JsonCursor &root, const Preset &preset,
                     ImageSteps &steps) {
  auto value = root.find("size");
  if (!value) {
    if (preset.isShortest)
      steps.shortest = 224;
    else
      steps.size = {224, 224};
  } else if (value->raw().is_object() && value->find("shortest_edge")) {
    onlyKeys(*value, {"shortest_edge"});
    steps.shortest = side((*value)["shortest_edge"]);
  } else if (value->raw().is_object() || preset.squares) {
    steps.size = sizeOf(*value);
  } else {
    steps.shortest = side(*value);
  }
}

/// The numbers for bytes, computed in f32 as torchvision does: where both apply
/// the factor is a part of mean and deviation.
static void readNumbers(const JsonCursor &root, const Preset &preset,
                        ImageSteps &steps) {
  auto mean = root.find("image_mean"), deviation = root.find("image_std"),
       factor = root.find("rescale_factor");
  Color means = mean ? colorOf(*mean, -1e6) : preset.mean,
        deviations = deviation ? colorOf(*deviation, 1e-9) : preset.deviation;
  double scale = factor ? factor->number(1e-9, 1e9) : 1.0 / 255;
  bool rescales = flag(root, "do_rescale", true),
       normalizes = flag(root, "do_normalize", true);
  auto inverse = static_cast<float>(rescales ? 1 / scale : 1);
  for (int color = 0; color < 3; ++color) {
    float from = static_cast<float>(means[color]) * inverse,
          by = static_cast<float>(deviations[color]) * inverse;
    for (int byte = 0; byte < 256; ++byte) {
      auto number = static_cast<float>(byte);
      steps.numbers[color][byte] = normalizes ? (number - from) / by
                                   : rescales
                                       ? number * static_cast<float>(scale)
                                       : number;
    }
  }
}

// ---- Configs ---------------------------------------------------------------

static std::vector<ImageSteps> readTransformers(const JsonCursor &root) {
  onlyKeys(root,
           {// obeyed:
            "crop_size", "do_center_crop", "do_normalize", "do_pad",
            "do_pan_and_scan", "do_rescale", "do_resize",
            "feature_extractor_type", "image_mean", "image_processor_type",
            "image_std", "resample", "rescale_factor", "size",
            // All images have three colors; pan and scan is off; what the
            // tower and the text are is said elsewhere.
            "_valid_processor_keys", "auto_map", "data_format",
            "default_to_square", "device", "disable_grouping", "do_convert_rgb",
            "image_seq_length", "input_data_format", "pad_size",
            "pan_and_scan_max_num_crops", "pan_and_scan_min_crop_size",
            "pan_and_scan_min_ratio_to_activate", "processor_class",
            "return_tensors"});
  const Preset *preset = presetOf(root);
  if (!preset)
    return {};
  ImageSteps steps;
  refuseFlag(root, "do_pan_and_scan");
  if (!preset->pads)
    refuseFlag(root, "do_pad");
  readNumbers(root, *preset, steps);
  if (preset->pads && flag(root, "do_pad", false)) {
    auto mean = root.find("image_mean");
    Color color = mean ? colorOf(*mean, 0) : preset->mean;
    steps.square.emplace();
    for (int i = 0; i < 3; ++i)
      (*steps.square)[i] = static_cast<uint8_t>(std::min(color[i], 1.0) * 255);
  }
  if (flag(root, "do_resize", true))
    readSize(root, *preset, steps);
  auto resample = root.find("resample");
  steps.filter = resample                        ? filterOf(*resample)
                 : preset->resample == kBilinear ? Filter::Bilinear
                                                 : Filter::Bicubic;
  if (flag(root, "do_center_crop", preset->crops)) {
    auto crop = root.find("crop_size");
    steps.crop = crop ? sizeOf(*crop) : ImageSteps::Size{224, 224};
  }
  return {steps};
}

/// OpenVLA's processor: prismatic/extern/hf/processing_prismatic.py of
/// openvla/openvla. It makes the keys tvf_... itself from the others.
static std::vector<ImageSteps> readPrismatic(const JsonCursor &root) {
  onlyKeys(root, {"auto_map", "image_processor_type", "image_resize_strategy",
                  "input_sizes", "interpolations", "means", "processor_class",
                  "stds", "tvf_crop_params", "tvf_do_letterbox",
                  "tvf_letterbox_fill", "tvf_normalize_params",
                  "tvf_resize_params", "use_fused_vision_backbone"});
  JsonCursor strategy = root["image_resize_strategy"];
  if (strategy.string() != "resize-naive")
    refuse(strategy, "\"resize-naive\"");
  JsonCursor sizes = root["input_sizes"];
  size_t count = sizes.count(2);
  for (const char *key : {"interpolations", "means", "stds"})
    if (JsonCursor list = root[key]; list.count() != count)
      list.expected(std::to_string(count) + " elements, as 'input_sizes' has");
  std::vector<ImageSteps> all;
  for (size_t i = 0; root.ok() && i < count; ++i) {
    std::vector<uint64_t> size = sizes.element(i).sizes(3, 1, kMostInRow);
    JsonCursor filter = root["interpolations"].element(i);
    if (filter.string() != "bicubic" && filter.string() != "bilinear")
      refuse(filter, "\"bicubic\" or \"bilinear\"");
    if (size.size() != 3 || size[0] != 3 || size[1] != size[2])
      sizes.element(i).expected("3 colors of a square");
    if (!root.ok())
      return {};
    ImageSteps steps;
    auto edge = static_cast<int64_t>(size[1]);
    steps.size = {edge, edge};
    steps.filter =
        filter.string() == "bicubic" ? Filter::Bicubic : Filter::Bilinear;
    steps.rounding = Rounding::Pillow;
    Color mean = colorOf(root["means"].element(i), -1e6),
          deviation = colorOf(root["stds"].element(i), 1e-9);
    for (int color = 0; color < 3; ++color)
      for (int byte = 0; byte < 256; ++byte)
        steps.numbers[color][byte] = (static_cast<float>(byte) / 255.0f -
                                      static_cast<float>(mean[color])) /
                                     static_cast<float>(deviation[color]);
    all.push_back(steps);
  }
  return all;
}

Result<std::vector<ImageSteps>> readImageSteps(const std::string &folder) {
  std::string path = folder + "/processor_config.json";
  std::error_code ignored;
  Result<JsonDocument> document = JsonDocument();
  const nlohmann::json *nested = nullptr;
  if (std::filesystem::exists(path, ignored)) {
    document = readJson(path);
    if (!document.ok())
      return document.status();
    auto found = document->root().find("image_processor");
    nested = found == document->root().end() ? nullptr : &*found;
  }
  if (!nested) {
    path = folder + "/preprocessor_config.json";
    document = readJson(path);
    if (!document.ok())
      return document.status();
  }
  Status status;
  JsonCursor root(nested ? *nested : document->root(), path, status,
                  nested ? "image_processor" : "");
  auto type = root.find("image_processor_type");
  auto all = type && type->raw() == "PrismaticImageProcessor"
                 ? readPrismatic(root)
                 : readTransformers(root);
  if (!status.ok())
    return status;
  return all;
}

// ---- Pixels ----------------------------------------------------------------

/// Whether an image that the steps make is not larger than one in a file.
static Status checkSize(const char *how, ImageSteps::Size made) {
  if (made.width <= kMostPixels / made.height)
    return Status();
  return Status(CRIA_INVALID_ARGUMENT,
                std::string("the image ") + how + " has " +
                    std::to_string(made.width) + " x " +
                    std::to_string(made.height) + " pixels, expected at most " +
                    std::to_string(kMostPixels));
}

Result<Image> ImageSteps::apply(const Image &image) const {
  int64_t shorter = std::min(image.height, image.width),
          longer = std::max(image.height, image.width);
  if (square) {
    if (Status status = checkSize("as a square", {longer, longer});
        !status.ok())
      return status;
    shorter = longer;
  }
  Image made = square ? squared(image, *square) : image;
  Size to = size.value_or(Size{made.height, made.width});
  if (shortest) {
    auto other = static_cast<int64_t>(static_cast<double>(*shortest * longer) /
                                      static_cast<double>(shorter));
    to = made.width <= made.height ? Size{other, *shortest}
                                   : Size{*shortest, other};
  }
  if (Status status = checkSize("resized", to); !status.ok())
    return status;
  made = resized(made, to.height, to.width, filter, rounding);
  return crop ? cropped(made, crop->height, crop->width) : made;
}

std::vector<float> patchesOf(const Image &image, const ImageSteps &steps,
                             int64_t side) {
  std::vector<float> rows;
  for (int64_t top = 0; top + side <= image.height; top += side)
    for (int64_t left = 0; left + side <= image.width; left += side)
      for (int color = 0; color < 3; ++color)
        for (int64_t y = top; y < top + side; ++y)
          for (int64_t x = left; x < left + side; ++x)
            rows.push_back(steps.numbers[color][image.at(y, x)[color]]);
  return rows;
}

} // namespace cria
