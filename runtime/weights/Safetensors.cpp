#include "runtime/weights/Safetensors.h"

#include "runtime/Abi.h"
#include "runtime/base/Json.h"
#include "runtime/base/PlainJson.h"

#include <algorithm>
#include <cstring>
#include <tuple>

namespace cria {

static constexpr uint64_t maxHeaderBytes = 100'000'000, maxNameBytes = 512;
static constexpr size_t maxRank = 8;
static constexpr char metadataKey[] = "__metadata__";

namespace {

/// An element type of the format.
struct ElementType {
  const char *name;
  uint64_t bits;
  std::optional<DType> type;
};

} // namespace

static const ElementType elementTypes[] = {
    {"F32", 32, DType::F32},        {"F16", 16, DType::F16},
    {"BF16", 16, DType::BF16},      {"F64", 64, DType::F64},
    {"BOOL", 8, std::nullopt},      {"U8", 8, std::nullopt},
    {"I8", 8, std::nullopt},        {"U16", 16, std::nullopt},
    {"I16", 16, std::nullopt},      {"U32", 32, std::nullopt},
    {"I32", 32, std::nullopt},      {"U64", 64, std::nullopt},
    {"I64", 64, std::nullopt},      {"C64", 64, std::nullopt},
    {"F8_E4M3", 8, DType::F8_E4M3}, {"F8_E5M2", 8, std::nullopt},
    {"F8_E8M0", 8, std::nullopt},   {"F4", 4, std::nullopt},
    {"F6_E2M3", 6, std::nullopt},   {"F6_E3M2", 6, std::nullopt},
};

namespace {

/// The header's text, and where the data begins.
struct Header {
  std::string text; // without the padding
  uint64_t end;
};

} // namespace

static Result<Header> readHeader(const File &file) {
  auto fail = [&](cria_status code, std::string_view what) {
    return Status(code, {file.path(), ": ", what});
  };
  if (file.size() < 8)
    return fail(
        CRIA_INVALID_ARGUMENT,
        concat({"has ", file.size(), " bytes, too few for safetensors"}));
  uint8_t prefix[8];
  Status status = file.read(0, prefix, sizeof(prefix));
  if (!status.ok())
    return status;
  if (memcmp(prefix, "version ", sizeof(prefix)) == 0)
    return fail(CRIA_INVALID_ARGUMENT,
                "is a Git LFS pointer, not the file itself: 'git lfs pull' "
                "brings it");
  uint64_t length = 0;
  for (int i = 7; i >= 0; --i)
    length = length << 8 | prefix[i];
  if (length == 0 || length > maxHeaderBytes)
    return fail(CRIA_INVALID_ARGUMENT,
                concat({"header length is ", length, ", expected 1 to ",
                        maxHeaderBytes}));
  if (length > file.size() - 8)
    return fail(CRIA_DATA_LOSS, concat({"expected a header of ", length,
                                        " bytes, file has ", file.size() - 8}));
  std::string text(length, '\0');
  status = file.read(8, text.data(), length);
  if (!status.ok())
    return status;
  text.erase(text.find_last_not_of(' ') + 1);
  if (text.empty() || text.front() != '{' || text.back() != '}')
    return fail(CRIA_INVALID_ARGUMENT,
                "header is no JSON object followed by spaces alone");
  return Header{std::move(text), 8 + length};
}

static const ElementType *findType(std::string_view name) {
  for (const ElementType &known : elementTypes)
    if (name == known.name)
      return &known;
  return nullptr;
}

/// The numbers of an array. 4.0 is none.
static Shape readSizes(const JsonCursor &at, size_t most) {
  Shape sizes = at.sizes(most, 0, INT64_MAX);
  for (size_t i = 0; i < sizes.size(); ++i)
    if (at.raw()[i].is_number_float())
      at.element(i).expected("digits alone");
  return sizes;
}

static TensorEntry readEntry(const std::string &name, const JsonCursor &at) {
  TensorEntry tensor;
  tensor.name = name;
  tensor.typeName = at["dtype"].string();
  tensor.shape = readSizes(at["shape"], maxRank);
  JsonCursor place = at["data_offsets"];
  Shape offsets = readSizes(place, 2);
  if (offsets.size() != 2) {
    place.expected("two offsets");
    return tensor;
  }
  tensor.begin = offsets[0];
  tensor.end = offsets[1];
  const ElementType *type = findType(tensor.typeName);
  if (!type) {
    at["dtype"].fail(concat({"is ", quote(tensor.typeName),
                             ", no type of safetensors known here"}),
                     CRIA_UNIMPLEMENTED);
    return tensor;
  }
  tensor.type = type->type;
  std::optional<uint64_t> bytes = packedBytes(tensor.shape, type->bits);
  if (tensor.end < tensor.begin)
    at["data_offsets"].fail("end before they begin");
  else if (!bytes)
    at["shape"].fail(
        concat({"is ", shapeText(tensor.shape), ", which overflows"}));
  else if (*bytes != tensor.end - tensor.begin)
    at["data_offsets"].fail(concat({"span ", tensor.end - tensor.begin,
                                    " bytes, but ", shapeText(tensor.shape),
                                    " of ", tensor.typeName, " has ", *bytes}));
  return tensor;
}

/// The tensor called `name`, whose description comes next.
static TensorEntry readPlainEntry(std::string_view name, PlainJson &json) {
  TensorEntry tensor;
  tensor.name = name;
  Shape place;
  auto readSizes = [&](Shape &sizes, size_t most) {
    sizes.reserve(most);
    json.array([&] {
      sizes.push_back(json.number());
      if (sizes.size() > most)
        json.fail();
    });
  };
  int members = 0;
  json.object([&](std::string_view key) {
    ++members;
    if (key == "dtype")
      tensor.typeName = json.string();
    else if (key == "shape")
      readSizes(tensor.shape, maxRank);
    else if (key == "data_offsets")
      readSizes(place, 2);
    else
      json.fail();
  });
  const ElementType *type = findType(tensor.typeName);
  if (members != 3 || !type || place.size() != 2 || place[1] < place[0] ||
      packedBytes(tensor.shape, type->bits) != place[1] - place[0]) {
    json.fail();
    return tensor;
  }
  tensor.type = type->type;
  tensor.begin = place[0];
  tensor.end = place[1];
  return tensor;
}

/// Reads the same tensors as `readEntries`. False if the header is not plain or
/// has an error.
static bool readPlainEntries(std::string_view text,
                             std::vector<TensorEntry> &tensors) {
  PlainJson json(text);
  json.object([&](std::string_view name) {
    if (name.size() > maxNameBytes)
      json.fail();
    else if (name == metadataKey)
      json.object([&](std::string_view) { json.string(); });
    else
      tensors.push_back(readPlainEntry(name, json));
  });
  return json.isPlain();
}

/// Reads every tensor of the header. Offsets still count from the header's end.
static Result<std::vector<TensorEntry>> readEntries(const std::string &text,
                                                    const std::string &path) {
  std::vector<TensorEntry> tensors;
  if (readPlainEntries(text, tensors))
    return tensors;
  tensors.clear();
  JsonLimits limits;
  limits.bytes = maxHeaderBytes;
  Result<JsonDocument> header = parseJson(text, path, limits);
  if (!header.ok())
    return header.status();
  Status status;
  for (const auto &[name, value] : header->root().items()) {
    JsonCursor at(value, path, status, name);
    if (name.size() > maxNameBytes)
      return Status(CRIA_INVALID_ARGUMENT,
                    {path, ": the name of a tensor has ", name.size(),
                     " bytes, expected at most ", maxNameBytes, ": ",
                     quote(name)});
    if (name != metadataKey)
      tensors.push_back(readEntry(name, at));
    else if (!value.is_object())
      at.expected("an object");
    else
      for (const auto &[key, text] : value.items())
        at[key].string();
    if (!status.ok())
      return status;
  }
  return tensors;
}

/// Sorts the tensors and checks that they fill [0, `size`) without a gap.
static Status checkLayout(std::vector<TensorEntry> &tensors, uint64_t size,
                          const std::string &path) {
  auto before = [](const TensorEntry &a, const TensorEntry &b) {
    return std::tie(a.begin, a.end) < std::tie(b.begin, b.end);
  };
  // Nearly all files are sorted, and a heap takes less code than std::sort.
  if (!std::is_sorted(tensors.begin(), tensors.end(), before)) {
    std::make_heap(tensors.begin(), tensors.end(), before);
    std::sort_heap(tensors.begin(), tensors.end(), before);
  }
  uint64_t end = 0;
  const TensorEntry *last = nullptr;
  for (const TensorEntry &tensor : tensors) {
    if (tensor.begin != end)
      return Status(CRIA_INVALID_ARGUMENT,
                    {path, ": tensor ", quote(tensor.name), " begins at ",
                     tensor.begin, ", expected ", end, ", the end of ",
                     last ? quote(last->name) : "the header"});
    end = tensor.end;
    last = &tensor;
  }
  if (end > size)
    return Status(CRIA_DATA_LOSS, {path, ": expected ", end,
                                   " bytes of tensors, file has ", size});
  if (end < size)
    return Status(
        CRIA_INVALID_ARGUMENT,
        {path, ": expected ", end, " bytes of tensors, file has ", size});
  return Status();
}

Result<TensorFile> openSafetensors(const std::string &path) {
  Result<File> file = File::open(path);
  if (!file.ok())
    return file.status();
  Result<Header> header = readHeader(*file);
  if (!header.ok())
    return header.status();
  Result<std::vector<TensorEntry>> tensors = readEntries(header->text, path);
  if (!tensors.ok())
    return tensors.status();
  uint64_t data = header->end;
  Status status = checkLayout(*tensors, file->size() - data, path);
  if (!status.ok())
    return status;
  for (TensorEntry &tensor : *tensors) {
    tensor.begin += data;
    tensor.end += data;
  }
  return TensorFile{std::move(*file), std::move(*tensors)};
}

} // namespace cria
