/// Images in a prompt: the rows that a model's parts for images make of them,
/// which are fed in place of ids.
#pragma once

#include "runtime/base/Json.h"
#include "runtime/base/Status.h"
#include "tools/image/Image.h"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace cria {

struct Run;
struct Eyes;

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
};

/// The images of a run.
struct PromptImages {
  std::vector<Image> files;             // until their rows are computed
  std::shared_ptr<Eyes> eyes;           // the model's way from images to rows
  int32_t id = 0;                       // in the places of rows
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
