#include "tools/bisect/Recording.h"

#include "runtime/base/Json.h"
#include "runtime/base/files/File.h"
#include "runtime/weights/Floats.h"
#include "runtime/weights/Safetensors.h"
#include "tools/bisect/Difference.h"

#include <nlohmann/json.hpp>

#include <algorithm>

namespace cria {

const Rows *Recording::find(const std::vector<std::string> &names,
                            uint64_t width, uint64_t end) const {
  for (const std::string &name : names) {
    auto found = results.find(name);
    if (found != results.end() && found->second.width == width &&
        found->second.count() >= end)
      return &found->second;
  }
  return nullptr;
}

DType Recording::type() const {
  DType type = DType::F32;
  for (const auto &[name, rows] : results)
    type = coarser(type, rows.type);
  return type;
}

/// The name of a type in safetensors.
static const char *typeName(DType type) {
  return type == DType::BF16 ? "BF16" : type == DType::F16 ? "F16" : "F32";
}

namespace {
/// A tensor to be written.
struct NamedTensor {
  std::string name, type;
  std::vector<uint64_t> shape;
  std::vector<std::byte> bytes;
};
} // namespace

static NamedTensor idsTensor(const char *name,
                             const std::vector<int32_t> &ids) {
  auto *bytes = reinterpret_cast<const std::byte *>(ids.data());
  return {name, "I32", {ids.size()}, {bytes, bytes + ids.size() * 4}};
}

static NamedTensor rowsTensor(const std::string &name, const Rows &rows) {
  NamedTensor tensor = {
      name, typeName(rows.type), {rows.count(), rows.width}, {}};
  DType type = rows.type == DType::BF16 || rows.type == DType::F16 ? rows.type
                                                                   : DType::F32;
  tensor.bytes.resize(bytesOf(type, rows.values.size()));
  convertElements(reinterpret_cast<const std::byte *>(rows.values.data()),
                  DType::F32, tensor.bytes.data(), type, rows.values.size());
  return tensor;
}

Status Recording::write(const std::string &path,
                        OutputFile::Named named) const {
  std::vector<NamedTensor> tensors = {idsTensor("ids", ids)};
  if (!sourceIds.empty())
    tensors.push_back(idsTensor("source_ids", sourceIds));
  for (const auto &[name, rows] : results)
    tensors.push_back(rowsTensor(name, rows));
  nlohmann::json header;
  uint64_t end = 0;
  for (const NamedTensor &tensor : tensors) {
    uint64_t begin = end;
    end += tensor.bytes.size();
    header[tensor.name] = {{"dtype", tensor.type},
                           {"shape", tensor.shape},
                           {"data_offsets", {begin, end}}};
  }
  std::string text = header.dump();
  text.resize((text.size() + 7) / 8 * 8, ' ');
  uint64_t size = text.size();
  OutputFile file(path, named);
  file.write(&size, sizeof(size));
  file.write(text.data(), text.size());
  for (const NamedTensor &tensor : tensors)
    file.write(tensor.bytes.data(), tensor.bytes.size());
  file.commit();
  return statusOf(file);
}

static Result<Rows> readRows(const File &file, const TensorEntry &tensor) {
  if (tensor.shape.size() != 2 || !tensor.type || isBlocked(*tensor.type))
    return Status(CRIA_INVALID_ARGUMENT,
                  file.path() + ": " + quote(tensor.name) + " is " +
                      tensor.typeName + " of " + shapeText(tensor.shape) +
                      ", expected floats of (positions, row)");
  std::vector<std::byte> bytes(tensor.end - tensor.begin);
  Rows rows = {*tensor.type, tensor.shape[1], {}};
  rows.values.resize(tensor.shape[0] * tensor.shape[1]);
  Status status = file.read(tensor.begin, bytes.data(), bytes.size());
  if (!status.ok())
    return status;
  convertElements(bytes.data(), *tensor.type,
                  reinterpret_cast<std::byte *>(rows.values.data()), DType::F32,
                  rows.values.size());
  return rows;
}

static Status readIds(const File &file, const TensorEntry &tensor,
                      std::vector<int32_t> &ids) {
  if (tensor.typeName != "I32" || tensor.shape.size() != 1)
    return Status(CRIA_INVALID_ARGUMENT,
                  file.path() + ": " + quote(tensor.name) + " is " +
                      tensor.typeName + " of " + shapeText(tensor.shape) +
                      ", expected I32 of one dimension");
  ids.resize(tensor.shape[0]);
  return file.read(tensor.begin, ids.data(), ids.size() * sizeof(int32_t));
}

Result<Recording> Recording::read(const std::string &path) {
  Result<TensorFile> opened = openSafetensors(path);
  if (!opened.ok())
    return opened.status();
  Recording recording;
  for (const TensorEntry &tensor : opened->tensors) {
    bool isIds = tensor.name == "ids", isSource = tensor.name == "source_ids";
    if (isIds || isSource) {
      Status status = readIds(opened->file, tensor,
                              isIds ? recording.ids : recording.sourceIds);
      if (!status.ok())
        return status;
      continue;
    }
    Result<Rows> rows = readRows(opened->file, tensor);
    if (!rows.ok())
      return rows.status();
    recording.results[tensor.name] = std::move(*rows);
  }
  return recording;
}

} // namespace cria
