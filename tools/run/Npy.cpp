/// A NumPy file is the magic, a version, the length of a header, a header that
/// is a Python literal,
///
///   {'descr': '<f4', 'fortran_order': False, 'shape': (576, 4096), }
///
/// padded by spaces, and the array. The three keys come in any order.
#include "tools/run/Npy.h"

#include "runtime/base/DType.h"
#include "runtime/base/Json.h"
#include "runtime/base/files/File.h"
#include "runtime/weights/Floats.h"

#include <algorithm>
#include <cctype>
#include <string_view>
#include <utility>

namespace cria {

std::string npyHeader(const std::vector<uint64_t> &shape) {
  std::string text = "{'descr': '<f4', 'fortran_order': False, 'shape': (";
  for (uint64_t size : shape)
    text += std::to_string(size) + ", ";
  text += "), }";
  // Magic, version and length are 10 bytes; the total is a multiple of 64.
  text.append(63 - (text.size() + 10) % 64, ' ').push_back('\n');
  std::string header("\x93NUMPY\x01\x00", 8);
  header.push_back(static_cast<char>(text.size() & 0xFF));
  header.push_back(static_cast<char>(text.size() >> 8));
  return header + text;
}

namespace {

/// The longest header that NumPy itself accepts.
constexpr uint64_t maxHeader = 10000;

/// Reads the header's literal; the first problem stays.
class HeaderReader {
public:
  explicit HeaderReader(std::string_view text) : text(text) {}

  void read();

  std::string problem;
  DType type = DType::F32;
  Shape shape;

private:
  void skipSpace();
  bool take(char wanted);
  void expect(char wanted);
  std::string readString(const char *what);
  std::string readWord();
  void readType();
  void readOrder();
  void readShape();
  void fail(const std::string &why) {
    if (problem.empty())
      problem = why;
  }

  std::string_view text;
  size_t at = 0;
};

} // namespace

void HeaderReader::skipSpace() {
  while (at < text.size() && (text[at] == ' ' || text[at] == '\n'))
    ++at;
}

/// Takes `wanted`, and spaces before it, if it comes next.
bool HeaderReader::take(char wanted) {
  skipSpace();
  if (at == text.size() || text[at] != wanted)
    return false;
  ++at;
  return true;
}

void HeaderReader::expect(char wanted) {
  if (!take(wanted))
    fail("expected " + quote(std::string(1, wanted)) + " at byte " +
         std::to_string(at) + " of the header");
}

std::string HeaderReader::readString(const char *what) {
  char end = take('"') ? '"' : '\'';
  if (end == '\'' && !take('\'')) {
    fail(std::string("expected ") + what + ", a string, at byte " +
         std::to_string(at) + " of the header");
    return "";
  }
  size_t begin = at;
  at = std::min(text.find(end, at), text.size());
  std::string found(text.substr(begin, at - begin));
  expect(end);
  return found;
}

/// Letters and digits.
std::string HeaderReader::readWord() {
  skipSpace();
  size_t begin = at;
  while (at < text.size() && isalnum(static_cast<unsigned char>(text[at])))
    ++at;
  return std::string(text.substr(begin, at - begin));
}

void HeaderReader::readType() {
  std::string name = readString("the type");
  if (name == "<f2")
    type = DType::F16;
  else if (name == "<f8")
    type = DType::F64;
  else if (name != "<f4")
    fail("'descr' is " + quote(name) + ", expected '<f2', '<f4' or '<f8'");
}

void HeaderReader::readOrder() {
  std::string order = readWord();
  if (order != "False")
    fail("'fortran_order' is " + quote(order) + ", expected False: C order");
}

void HeaderReader::readShape() {
  expect('(');
  while (problem.empty() && !take(')')) {
    std::string size = readWord();
    bool isNumber = !size.empty() && size.size() <= 18 &&
                    std::all_of(size.begin(), size.end(), [](char digit) {
                      return digit >= '0' && digit <= '9';
                    });
    if (!isNumber)
      return fail("'shape' has " + quote(size) + ", expected a size");
    shape.push_back(std::stoull(size));
    if (shape.size() > 2)
      return fail("'shape' has more than two dimensions, expected "
                  "(positions, hidden)");
    if (!take(',')) {
      expect(')');
      break;
    }
  }
  if (shape.size() != 2)
    fail("'shape' has " + std::to_string(shape.size()) +
         " dimensions, expected (positions, hidden)");
}

void HeaderReader::read() {
  static constexpr std::pair<const char *, void (HeaderReader::*)()> keys[] = {
      {"descr", &HeaderReader::readType},
      {"fortran_order", &HeaderReader::readOrder},
      {"shape", &HeaderReader::readShape}};
  bool seen[3] = {};
  expect('{');
  while (problem.empty() && !take('}')) {
    std::string key = readString("a key");
    expect(':');
    auto found = std::find_if(std::begin(keys), std::end(keys),
                              [&](auto &known) { return key == known.first; });
    if (found == std::end(keys) || seen[found - keys])
      return fail("unexpected key " + quote(key) + " in the header");
    seen[found - keys] = true;
    (this->*found->second)();
    if (!take(',')) {
      expect('}');
      break;
    }
  }
  for (size_t i = 0; i < 3; ++i)
    if (!seen[i])
      fail(quote(keys[i].first) + " is missing in the header");
  skipSpace();
  if (at != text.size())
    fail("unexpected text at byte " + std::to_string(at) + " of the header");
}

/// The header's text, and the offset of the array.
static Result<std::string> readHeader(const File &file, uint64_t &offset) {
  unsigned char start[12] = {};
  auto invalid = [&](const std::string &why) {
    return Status(CRIA_INVALID_ARGUMENT, file.path() + ": " + why);
  };
  uint64_t fixed = std::min<uint64_t>(file.size(), sizeof(start));
  if (Status status = file.read(0, start, fixed); !status.ok())
    return status;
  if (fixed < 10 || std::string_view(reinterpret_cast<char *>(start), 6) !=
                        std::string_view("\x93NUMPY", 6))
    return invalid("no NumPy file");
  if (start[6] < 1 || start[6] > 3 || start[7] != 0)
    return invalid("is of version " + std::to_string(start[6]) + "." +
                   std::to_string(start[7]) + ", expected 1.0, 2.0 or 3.0");
  uint64_t length = start[8] | start[9] << 8;
  offset = 10;
  if (start[6] > 1) {
    length |= static_cast<uint64_t>(start[10]) << 16 |
              static_cast<uint64_t>(start[11]) << 24;
    offset = 12;
  }
  if (length > maxHeader || offset + length > file.size())
    return invalid("has a header of " + std::to_string(length) +
                   " bytes, expected at most " + std::to_string(maxHeader) +
                   " and no more than the file's");
  std::string header(length, ' ');
  Status status = file.read(offset, header.data(), length);
  offset += length;
  if (!status.ok())
    return status;
  return header;
}

Result<NpyMatrix> readNpyMatrix(const std::string &path, uint64_t limit) {
  Result<File> file = File::open(path);
  if (!file.ok())
    return file.status();
  uint64_t offset = 0;
  Result<std::string> text = readHeader(*file, offset);
  if (!text.ok())
    return text.status();
  HeaderReader header(*text);
  header.read();
  if (!header.problem.empty())
    return Status(CRIA_INVALID_ARGUMENT, path + ": " + header.problem);
  uint64_t there = file->size() - offset;
  std::optional<uint64_t> bytes = tensorBytes(header.shape, header.type);
  if (!bytes || elementsOf(header.type, *bytes) > limit)
    return Status(CRIA_OUT_OF_RANGE, path + ": shape " +
                                         shapeText(header.shape) +
                                         ", expected at most " +
                                         std::to_string(limit) + " numbers");
  if (*bytes != there)
    return Status(CRIA_DATA_LOSS, path + ": " + std::to_string(there) +
                                      " bytes of data, expected " +
                                      std::to_string(*bytes));
  NpyMatrix matrix = {header.shape[0], header.shape[1], {}};
  matrix.values.resize(elementsOf(header.type, *bytes));
  static constexpr uint64_t most = 1 << 16; // numbers that are read at once
  std::vector<std::byte> stored(bytesOf(header.type, most));
  for (uint64_t at = 0; at < matrix.values.size(); at += most) {
    uint64_t count = std::min<uint64_t>(most, matrix.values.size() - at);
    Status status = file->read(offset + bytesOf(header.type, at), stored.data(),
                               bytesOf(header.type, count));
    if (!status.ok())
      return status;
    convertElements(stored.data(), header.type,
                    reinterpret_cast<std::byte *>(matrix.values.data() + at),
                    DType::F32, count);
  }
  return matrix;
}

} // namespace cria
