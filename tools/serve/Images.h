/// Images in a chat: the parts of a model that read them, and what a request
/// has of them.
#pragma once

#include "runtime/cria.hpp"
#include "runtime/cria_text.hpp"
#include "tools/image/Model.h"
#include "tools/image/Processor.h"
#include "tools/serve/Exchange.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace cria::serve {

/// The most images of a request, and pixels of one.
inline constexpr size_t kMostImages = 16;
inline constexpr int64_t kMostPixelsOfClients = 4096 * 4096;

/// A part of what reads images: a vision tower, or a projector. It makes a row
/// of each row that it is given.
struct VisionPart {
  Artifact artifact;
  std::string path;
  std::optional<Model> model;
  int64_t rows = 0;              // that one call is given
  int64_t inputs = 0, width = 0; // numbers of a row that is given, and made
};

/// What makes rows of an image, which are fed in place of ids: a tower of its
/// patches, and maybe a projector of the means of the tower's rows.
struct VisionTower {
  std::vector<VisionPart> parts;
  ImageSteps steps;
  int64_t side = 0; // pixels of a patch
  ImageNumbers numbers;
  int64_t rows = 0, width = 0; // of an image, and numbers of one
  /// Whether the rows of an image see one another, so that one call feeds them.
  bool areWhole = false;
  /// The type of the text's root of the width by which rows are divided first.
  std::optional<DType> unscaledIn;
};

/// An image in a prompt.
struct PlacedImage {
  std::vector<float> patches; // (patches, inputs)
  size_t begin = 0;           // of its rows, in the prompt's ids
};

/// The parts of the model of `config.json` in a folder that read images; none
/// if the server reads none of this model. Throws Error.
std::vector<std::string> imageParts(const std::string &weights);

/// Checks the parts at `paths` beside the text's artifact, at `textPath`, and
/// the checkpoint, and what the checkpoint says of images; loads no weights.
/// Throws Error.
VisionTower openVisionTower(const Artifact &text, const std::string &textPath,
                            const std::vector<std::string> &paths,
                            const std::string &weights);

/// Puts text and ids around the images of a chat's prompt, as the model wants
/// them. Throws Error.
std::vector<int32_t> surrounded(const VisionTower &tower,
                                const Tokenizer &tokenizer,
                                const std::vector<int32_t> &prompt);

/// The patches of the image in `url`, a data: URL of the request's `field`.
std::optional<ApiError> readPatches(const VisionTower &tower,
                                    const std::string &url, const char *field,
                                    std::vector<float> &patches);

/// What the sessions of the tower's parts make of an image's patches: the rows
/// that are fed. Throws Error.
std::vector<float> rowsOf(const VisionTower &tower,
                          std::vector<Session> &sessions,
                          const std::vector<float> &patches);

} // namespace cria::serve
