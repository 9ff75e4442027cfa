#include "tools/run/PromptOutputs.h"

#include "runtime/base/files/File.h"
#include "tools/run/Npy.h"
#include "tools/run/Process.h"

#include <cstdio>

namespace cria {

RowFile::RowFile(const std::string &path, uint64_t rows, int64_t columns)
    : file(path), columns(columns) {
  addPartialFile(file.temporary().c_str());
  std::string header = npyHeader({rows, static_cast<uint64_t>(columns)});
  file.write(header.data(), header.size());
}

RowFile::~RowFile() { removePartialFile(file.temporary().c_str()); }

float *RowFile::room(int64_t count) {
  rows.resize(static_cast<size_t>(count * columns));
  return rows.data();
}

Status RowFile::status() const { return statusOf(file); }

Status RowFile::write() {
  file.write(rows.data(), rows.size() * sizeof(float));
  return status();
}

Status RowFile::commit() {
  file.commit();
  return status();
}

PromptOutputs::PromptOutputs(const Run &run) {
  const RunOptions &options = run.options;
  const Manifest &manifest = run.manifest();
  if (!options.hidden.empty() || options.hasEmbedding)
    problem = run.session->model().checkHidden();
  if (!problem.ok())
    return;
  if (!options.logits.empty())
    logits.emplace(options.logits, run.prompt.size(), manifest.vocabSize);
  if (!options.hidden.empty())
    hidden.emplace(options.hidden, run.prompt.size(), manifest.hiddenSize);
  if (options.hasEmbedding)
    pooling.emplace(*poolingNamed(options.pooling),
                    static_cast<int64_t>(run.prompt.size()),
                    manifest.hiddenSize);
  for (const std::optional<RowFile> *file : {&logits, &hidden})
    if (problem.ok() && *file)
      problem = (*file)->status();
}

Status PromptOutputs::feed(Run &run, int64_t count, int64_t done,
                           const float **last) {
  int64_t vocab = run.manifest().vocabSize, rows = 0;
  Outputs wanted;
  if (logits) {
    rows = count;
    wanted.logits = {CRIA_LOGITS_ALL, logits->room(count)};
  } else if (last) {
    rows = 1;
    lastLogits.resize(static_cast<size_t>(vocab));
    wanted.logits = {CRIA_LOGITS_LAST, lastLogits.data()};
  }
  if (hidden) {
    wanted.hidden = {CRIA_LOGITS_ALL, hidden->room(count)};
  } else if (pooling) {
    states.resize(static_cast<size_t>(count * run.manifest().hiddenSize));
    wanted.hidden = {CRIA_LOGITS_ALL, states.data()};
  }
  const float *image = run.images.at(done, count);
  Status status = timed(run, "prefill", count, rows, [&] {
    return image ? run.session->feedEmbeddings(image, count, run.images.width,
                                               wanted)
                 : run.session->feed(&run.prompt[done], count, wanted);
  });
  if (!status.ok())
    return status;
  if (pooling) {
    int64_t pooled = pooling->rowsOf(done, count);
    pooling->add(wanted.hidden.to +
                     (count - pooled) * run.manifest().hiddenSize,
                 pooled);
  }
  if (logits)
    status = logits->write();
  if (status.ok() && hidden)
    status = hidden->write();
  if (last)
    *last = wanted.logits.to + (rows - 1) * vocab;
  return status;
}

/// The numbers of an embedding in JSON, with enough digits to read back the
/// same.
static std::string textOf(const std::vector<float> &embedding) {
  std::string text = "[";
  for (float number : embedding) {
    char digits[32];
    snprintf(digits, sizeof(digits), "%s%.9g", text.size() > 1 ? ", " : "",
             static_cast<double>(number));
    text += digits;
  }
  return text + "]\n";
}

/// Writes a NumPy file of one row.
static Status writeRow(const std::string &path, const std::vector<float> &row) {
  OutputFile file(path);
  std::string header = npyHeader({row.size()});
  file.write(header.data(), header.size());
  file.write(row.data(), row.size() * sizeof(float));
  file.commit();
  return statusOf(file);
}

Status PromptOutputs::finish(const Run &run) {
  Status status;
  for (std::optional<RowFile> *file : {&logits, &hidden})
    if (status.ok() && *file)
      status = (*file)->commit();
  if (!status.ok() || !pooling)
    return status;
  std::vector<float> row(static_cast<size_t>(run.manifest().hiddenSize));
  pooling->finish(run.options.normalize, row.data());
  const std::string &path = run.options.embedding;
  return path.empty() ? writeOut(textOf(row)) : writeRow(path, row);
}

} // namespace cria
