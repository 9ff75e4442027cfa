#include "tools/image/Model.h"

#include "runtime/weights/Floats.h"

#include <algorithm>
#include <cmath>
#include <map>

namespace cria {

const ImageModel *imageModelOf(const nlohmann::json &config) {
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

size_t ImageModel::towers() const {
  return static_cast<size_t>(
      std::count_if(parts.begin(), parts.end(), [](const std::string &name) {
        return name != "projector";
      }));
}

std::string ImageModel::partNames() const {
  std::string all;
  for (const std::string &name : parts)
    all += (all.empty() ? "" : ", ") + name;
  return all;
}

Result<ImageNumbers> imageNumbersOf(const ImageModel &model,
                                    const nlohmann::json &config,
                                    const std::string &path,
                                    int64_t vocabSize) {
  Status status;
  JsonCursor root(config, path, status);
  auto idOf = [&](const std::vector<const char *> &keys) {
    for (const char *key : keys)
      if (auto found = root.find(key))
        return static_cast<int32_t>(found->integer(0, vocabSize - 1));
    (void)root[keys[0]]; // is missing
    return 0;
  };
  ImageNumbers numbers;
  numbers.id = idOf(model.id);
  if (!model.begin.empty()) {
    numbers.begin = idOf(model.begin);
    numbers.end = idOf(model.end);
  }
  if (model.means)
    numbers.means = root[model.means].integer(1, 1 << 20);
  return status.ok() ? Result<ImageNumbers>(numbers) : status;
}

Result<std::vector<float>> meansOf(const std::vector<float> &rows,
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

void unscale(std::vector<float> &rows, int64_t width, DType type) {
  float scale = std::sqrt(static_cast<float>(width));
  if (type == DType::BF16)
    scale = widenBf16(narrowToBf16(scale));
  else if (type == DType::F16)
    scale = widenF16(narrowToF16(scale));
  for (float &number : rows)
    number /= scale;
}

/// Encodes the text that some ids are, with a blank line before it, after it or
/// both.
static Result<std::vector<int32_t>>
withBlankLines(const PromptCodec &codec, const std::vector<int32_t> &ids,
               bool before, bool after) {
  Result<std::string> text = codec.decode(ids);
  if (!text.ok())
    return text.status();
  return codec.encode((before ? "\n\n" : "") + *text + (after ? "\n\n" : ""));
}

Result<std::vector<int32_t>> surroundImages(const std::vector<int32_t> &prompt,
                                            const ImageNumbers &numbers,
                                            const PromptCodec *codec) {
  if (!numbers.begin)
    return prompt;
  std::vector<int32_t> made, text; // `text` since the last special token
  bool follows = false;            // text follows an image
  auto flush = [&](bool precedes) {
    if (follows || precedes) {
      auto ids = withBlankLines(*codec, text, follows, precedes);
      if (!ids.ok())
        return ids.status();
      text = std::move(*ids);
    }
    made.insert(made.end(), text.begin(), text.end());
    text.clear();
    return Status();
  };
  for (size_t i = 0; i < prompt.size(); ++i) {
    int32_t id = prompt[i];
    bool isWhole = i + 1 < prompt.size() && prompt[i + 1] == numbers.id;
    bool begins = id == *numbers.begin && !isWhole;
    if (begins && !codec)
      return Status(CRIA_NOT_FOUND, "--image: expected a tokenizer, for the "
                                    "blank lines around an image, or the ids "
                                    "of all its rows");
    if (!begins && !(codec && codec->isSpecial(id))) {
      text.push_back(id);
      continue;
    }
    if (Status status = flush(begins); !status.ok())
      return status;
    made.push_back(id);
    if (begins)
      made.insert(made.end(), {numbers.id, *numbers.end});
    follows = begins;
  }
  if (Status status = flush(/*precedes=*/false); !status.ok())
    return status;
  return made;
}

} // namespace cria
