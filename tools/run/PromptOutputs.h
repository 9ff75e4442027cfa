/// What a run keeps of its prompt beside the text: logits, hidden states, an
/// embedding.
#pragma once

#include "runtime/OutputFile.h"
#include "runtime/Outputs.h"
#include "runtime/Pooling.h"
#include "tools/run/Run.h"

#include <optional>
#include <string>
#include <vector>

namespace cria {

/// A NumPy file that is written row after row, and is taken away where a signal
/// ends the process before it is whole.
class RowFile {
public:
  /// Of `rows` rows of `columns` numbers.
  RowFile(const std::string &path, uint64_t rows, int64_t columns);
  ~RowFile();

  Status status() const;
  /// Room for the next `count` rows, and what writes them.
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
  /// Begins the files of what the options ask for.
  explicit PromptOutputs(const Run &run);

  /// Why there is no file, or no such output.
  const Status &status() const { return problem; }
  bool any() const { return logits || hidden || pooling; }
  /// Feeds a chunk of the prompt, the ids from index `done` on, and takes what
  /// is wanted of it; `last`, if not null, receives the logits of the last id,
  /// which live until the next call.
  Status feed(Run &run, const int32_t *ids, int64_t count, int64_t done,
              const float **last);
  /// Makes the files whole, and the embedding.
  Status finish(const Run &run);

private:
  Status problem;
  std::optional<RowFile> logits, hidden;
  std::optional<Pooling> pooling;
  std::vector<float> lastLogits, states; // where no file takes them
};

} // namespace cria
