/// Images in a chat: the part of a model that reads them, and what a request
/// has of them.
#pragma once

#include "runtime/cria.hpp"
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

/// A vision tower with its projector: it makes rows of an image's patches, as
/// many as these, that are fed in place of ids.
struct VisionTower {
  std::optional<Model> model;
  ImageSteps steps;
  int64_t patches = 0;          // of an image
  int64_t side = 0, inputs = 0; // pixels, and numbers, of a patch
  int64_t width = 0;            // numbers of a row
  int32_t id = 0;               // stands in a prompt where an image does
};

/// An image in a prompt.
struct PlacedImage {
  std::vector<float> patches; // (patches, inputs)
  size_t begin = 0;           // of its rows, in the prompt's ids
};

/// Whether `config.json` of a folder is that of a model whose images the server
/// reads. Throws Error.
bool takesImages(const std::string &weights);

/// Checks the part at `path` beside the checkpoint, and what the checkpoint
/// says of images; loads no weights. Throws Error.
VisionTower openVisionTower(const Artifact &part, const std::string &path,
                            const std::string &weights, int64_t vocabSize);

/// The patches of the image in `url`, a data: URL of the request's `field`.
std::optional<ApiError> readPatches(const VisionTower &tower,
                                    const std::string &url, const char *field,
                                    std::vector<float> &patches);

} // namespace cria::serve
