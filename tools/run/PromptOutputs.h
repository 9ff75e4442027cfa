/// What a run keeps of its prompt besides the text: logits, hidden states, an
/// embedding.
#pragma once

#include "runtime/base/files/OutputFile.h"
#include "runtime/session/Outputs.h"
#include "runtime/session/Pooling.h"
#include "tools/run/Run.h"

#include <optional>
#include <string>
#include <vector>

namespace cria {

/// A NumPy file that is written row by row, and is removed if a signal ends the
/// process before the file is complete.
class RowFile {
public:
  /// For `rows` rows of `columns` numbers.
  RowFile(const std::string &path, uint64_t rows, int64_t columns);
  ~RowFile();

  Status status() const;
  /// Memory for the next `count` rows; `write` then writes them.
  float *room(int64_t count);
  Status write();
  Status commit();

private:
  OutputFile file;
  int64_t columns;
  std::vector<float> rows;
};

/// Takes the outputs of a prompt, chunk by chunk.
class PromptOutputs {
public:
  /// Begins the files that the options ask for.
  explicit PromptOutputs(const Run &run);

  /// Why a file cannot be made, or an output does not exist.
  const Status &status() const { return problem; }
  bool any() const { return logits || hidden || pooling; }
  /// Feeds a chunk of the prompt, the `count` ids or rows of an image from
  /// index `done` on, and takes the outputs that are wanted. `last`, if not
  /// null, receives the last logits, which live until the next call.
  Status feed(Run &run, int64_t count, int64_t done, const float **last);
  /// Completes the files, and the embedding.
  Status finish(const Run &run);

private:
  Status problem;
  std::optional<RowFile> logits, hidden;
  std::optional<Pooling> pooling;
  std::vector<float> lastLogits, states; // if no file takes them
};

} // namespace cria
