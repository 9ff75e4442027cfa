/// Images in a prompt: the rows that a model's parts for images make of them,
/// which are fed in place of ids.
#pragma once

#include "runtime/base/Status.h"
#include "tools/image/Image.h"
#include "tools/image/Model.h"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace cria {

struct Run;
struct Eyes;

/// The images of a run.
struct PromptImages {
  std::vector<Image> files;             // until their rows are computed
  std::shared_ptr<Eyes> eyes;           // the model's way from images to rows
  ImageNumbers numbers;                 // of the model's config
  std::vector<std::vector<float>> rows; // of each image
  std::vector<int64_t> begins;          // in the prompt, of each image
  int64_t width = 0, count = 0;         // of a row; rows of an image
  bool areWhole = false; // the rows of an image are fed by one call

  /// The row for index `at` of the prompt; null if an id stands there. Changes
  /// `count` so that all from there on are rows of one image, or ids.
  const float *at(int64_t at, int64_t &count) const;
};

/// Reads the config of the checkpoint, which says how the model takes images,
/// if the options or a chat template may need to know.
Status loadConfig(Run &run);

/// Reads the files of --image, before anything that takes long.
Status readImages(Run &run);
/// Computes their rows.
Status loadImages(Run &run);
/// Reads one more file, and computes its rows.
Status addImage(Run &run, const std::string &path);

/// Makes room in the prompt for the rows of all images: the id of an image
/// becomes as many as it has rows.
Status placeImages(Run &run);

} // namespace cria
