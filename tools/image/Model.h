/// How models take images: what a checkpoint's config.json says of them, and
/// what is between the rows of a vision tower and a text.
#pragma once

#include "runtime/base/DType.h"
#include "runtime/base/FunctionRef.h"
#include "runtime/base/Json.h"
#include "runtime/base/Status.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace cria {

/// How a model takes images.
struct ImageModel {
  std::vector<std::string> parts; // names of cria-compile --part
  std::vector<const char *> id;   // keys of the config; the first that it has
                                  // is the id whose place rows take
  bool afterBegin = false; // no such id is in the text: the rows of the one
                           // image come after the first id
  /// If a text has another id for an image, in whose place are a blank line,
  /// this id, the image's, an id that ends the image, and a blank line: keys of
  /// the two ids.
  std::vector<const char *> begin = {}, end = {};
  /// The key of the number of rows that an image has in a text, if these are
  /// made of means of the tower's rows; null if they are not.
  const char *means = nullptr;
  /// Whether the rows of an image see one another, and the text multiplies
  /// embeddings, but not these rows, by the root of their width.
  bool seesAhead = false, isUnscaled = false;

  /// The parts but for the projector.
  size_t towers() const;
  /// "vision, projector"
  std::string partNames() const;
};

/// How the model of this config takes images; null if it does not.
const ImageModel *imageModelOf(const nlohmann::json &config);

/// The ids that stand for images in a prompt, and the number of an image's
/// means.
struct ImageNumbers {
  int32_t id = 0;                    // in the place of rows
  std::optional<int32_t> begin, end; // as ImageModel says
  int64_t means = 0;                 // 0: none
};

/// What the config says of them. `path` names it in errors.
Result<ImageNumbers> imageNumbersOf(const ImageModel &model,
                                    const nlohmann::json &config,
                                    const std::string &path, int64_t vocabSize);

/// The means of the rows of a square image over `count` smaller squares.
Result<std::vector<float>> meansOf(const std::vector<float> &rows,
                                   int64_t width, int64_t count);

/// Divides rows by the root of their width in the text's type, by which the
/// text multiplies them.
void unscale(std::vector<float> &rows, int64_t width, DType type);

/// What `surroundImages` needs of a tokenizer.
struct PromptCodec {
  FunctionRef<bool(int32_t id)> isSpecial;
  FunctionRef<Result<std::string>(const std::vector<int32_t> &ids)> decode;
  /// Of a text in which no special token counts.
  FunctionRef<Result<std::vector<int32_t>>(const std::string &text)> encode;
};

/// Puts what ImageModel::begin says in the place of each id that begins an
/// image, unless rows follow already. A text between special tokens is encoded
/// as a whole. NOT_FOUND if `codec` is null where it is needed.
Result<std::vector<int32_t>> surroundImages(const std::vector<int32_t> &prompt,
                                            const ImageNumbers &numbers,
                                            const PromptCodec *codec);

} // namespace cria
