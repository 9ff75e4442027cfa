#include "runtime/base/Json.h"

#include "runtime/base/files/File.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstring>
#include <iterator>

namespace cria {

using nlohmann::json;

/// Empties containers from the inside out, so that their own destructors find
/// nothing to list. The depth of documents is bounded.
static void dismantle(json &value) {
  if (!value.is_structured())
    return;
  for (json &child : value)
    dismantle(child);
  value.clear();
}

JsonDocument::~JsonDocument() { dismantle(value); }

/// What the allocator adds to a block, the rounding of its size included.
static constexpr uint64_t ofBlock = 16;

/// The bytes that a string takes outside of itself.
static uint64_t heapOf(std::string_view text) {
  return text.size() < sizeof(std::string) / 2 ? 0 : text.size() + 1 + ofBlock;
}

uint64_t memoryOf(const json &value) {
  uint64_t memory = 2 * sizeof(json); // an array has room for more elements
  if (value.is_object())
    memory += sizeof(json::object_t) + ofBlock;
  else if (value.is_array())
    memory += sizeof(json::array_t) + ofBlock;
  else if (value.is_string())
    memory += sizeof(std::string) + ofBlock +
              heapOf(value.get_ref<const std::string &>());
  return memory;
}

uint64_t memoryOfKey(std::string_view key) {
  constexpr uint64_t ofNode = 32; // parent, children and colour
  return ofNode + sizeof(std::string) + ofBlock + heapOf(key);
}

namespace {

/// Reads the text and records how far the parser has come. The SAX interface
/// does not say it.
class Input {
public:
  using iterator_category = std::input_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char *;
  using reference = const char &;

  Input(const char *at, const char **reached) : at(at), reached(reached) {}
  reference operator*() const { return *at; }
  Input &operator++() {
    *reached = ++at;
    return *this;
  }
  bool operator==(const Input &other) const { return at == other.at; }
  bool operator!=(const Input &other) const { return at != other.at; }

private:
  const char *at;
  const char **reached;
};

/// Passes a document to the sink and stops at the first breach of the limits.
class Parser : public nlohmann::json_sax<json> {
public:
  Parser(const JsonLimits &limits, JsonSink &sink)
      : limits(limits), sink(sink) {}

  bool null() override { return scalar(nullptr); }
  bool boolean(bool value) override { return scalar(value); }
  bool number_integer(int64_t value) override { return scalar(value); }
  bool number_unsigned(uint64_t value) override { return scalar(value); }
  bool number_float(double value, const std::string &spelling) override {
    return scalar(value, spelling);
  }
  bool string(std::string &value) override { return scalar(std::move(value)); }
  bool binary(json::binary_t &) override { return stop("binary value"); }
  bool start_object(size_t) override { return open(true); }
  bool end_object() override { return close(); }
  bool start_array(size_t) override { return open(false); }
  bool end_array() override { return close(); }
  bool key(std::string &name) override {
    sink.key(std::move(name));
    return sink.status.ok();
  }

  bool parse_error(size_t, const std::string &,
                   const nlohmann::detail::exception &error) override {
    // error.what() is "[json.exception.parse_error.101] parse error at line 1,
    // column 4: syntax error while ...". Only the reason is kept; the caller
    // adds the place in bytes.
    std::string text = error.what();
    size_t reason = text.find("syntax error");
    if (reason == std::string::npos)
      reason = std::min(text.find("] ") + 2, text.size());
    return stop(text.erase(0, reason)); // Status escapes what is not UTF-8
  }

private:
  bool stop(std::string what) {
    if (sink.status.ok())
      sink.status = Status(CRIA_INVALID_ARGUMENT, std::move(what));
    return false;
  }

  bool count() {
    return ++values <= limits.values ||
           stop(concat({"more than ", limits.values, " values"}));
  }

  bool scalar(json value, const std::string &spelling = {}) {
    if (!count())
      return false;
    sink.scalar(std::move(value), spelling);
    return sink.status.ok();
  }

  bool open(bool object) {
    if (++depth > limits.depth)
      return stop("nested deeper than " + std::to_string(limits.depth));
    if (!count())
      return false;
    sink.open(object);
    return sink.status.ok();
  }

  bool close() {
    --depth;
    sink.close();
    return sink.status.ok();
  }

  const JsonLimits &limits;
  JsonSink &sink;
  int depth = 0;
  uint64_t values = 0;
};

/// Builds a document.
class Builder : public JsonSink {
public:
  explicit Builder(uint64_t most) : most(most) {}

  void scalar(json value, const std::string &) override {
    place(std::move(value));
  }
  void open(bool object) override {
    parents.push_back(place(object ? json::object() : json::array()));
  }
  void close() override { parents.pop_back(); }

  void key(std::string name) override {
    if (!spend(memoryOfKey(name)))
      return;
    auto [place, isNew] = parents.back()->get_ref<json::object_t &>().emplace(
        std::move(name), nullptr);
    if (!isNew)
      status =
          Status(CRIA_INVALID_ARGUMENT, "duplicate key " + quote(place->first));
    member = &place->second;
  }

  JsonDocument document;

private:
  bool spend(uint64_t bytes) {
    memory += bytes;
    if (memory > most && status.ok())
      status = Status(CRIA_INVALID_ARGUMENT,
                      {"takes more than ", most >> 20, " MiB of memory"});
    return memory <= most;
  }

  json *place(json value) {
    if (!spend(memoryOf(value)))
      return &document.root(); // the parser stops
    if (parents.empty())
      return &(document.root() = std::move(value));
    if (parents.back()->is_object())
      return &(*member = std::move(value));
    auto &array = parents.back()->get_ref<json::array_t &>();
    array.push_back(std::move(value));
    return &array.back();
  }

  const uint64_t most;
  uint64_t memory = 0;
  std::vector<json *> parents;
  json *member = nullptr;
};

} // namespace

std::string quote(std::string_view text) {
  constexpr size_t most = 200;
  if (text.size() <= most)
    return concat({"'", printable(text), "'"});
  size_t end = most;
  while (end > most - 3 && (text[end] & 0xc0) == 0x80) // within a character
    --end;
  return concat({"'", printable(text.substr(0, end)), "...'"});
}

std::optional<int64_t> wholeNumber(const json &value) {
  constexpr double limit = 9223372036854775808.0; // 2^63
  double number = value.is_number() ? value.get<double>() : limit;
  bool isInt = value.is_number_unsigned()
                   ? value.get<uint64_t>() <= static_cast<uint64_t>(INT64_MAX)
                   : value.is_number_integer();
  if (isInt || (value.is_number_float() && number == std::trunc(number) &&
                number >= -limit && number < limit))
    return value.get<int64_t>();
  return std::nullopt;
}

/// A scalar, a string without what is after `most` bytes. nlohmann::json's own
/// printer takes 6 KB of code.
static std::string scalarText(const json &value, size_t most) {
  if (const auto *text = value.get_ptr<const json::string_t *>())
    return concat({"\"", printable(text->substr(0, most)), "\""});
  if (value.is_null())
    return "null";
  if (value.is_boolean())
    return value.get<bool>() ? "true" : "false";
  if (value.is_number_unsigned())
    return std::to_string(value.get<uint64_t>());
  if (value.is_number_integer())
    return std::to_string(value.get<int64_t>());
  double real = value.get<double>(), size = std::abs(real);
  bool isPlain = real == 0 || (size >= 1e-4 && size < 1e15);
  char number[64];
  char *end = std::to_chars(number, number + sizeof(number), real,
                            isPlain ? std::chars_format::fixed
                                    : std::chars_format::scientific)
                  .ptr;
  std::string text(number, end);
  return text.find_first_of(".en") == text.npos ? text + ".0" : text;
}

static void addBrief(const json &value, size_t most, std::string &text) {
  if (value.is_structured()) {
    bool isObject = value.is_object(), isFirst = true;
    text += isObject ? '{' : '[';
    for (auto at = value.begin(); at != value.end() && text.size() <= most;
         ++at) {
      text += isFirst ? "" : ",";
      isFirst = false;
      if (isObject) {
        text += scalarText(at.key(), most) + ':';
      }
      addBrief(*at, most, text);
    }
    text += isObject ? '}' : ']';
  } else {
    text += scalarText(value, most);
  }
}

std::string briefJson(const json &value, size_t most) {
  std::string text;
  addBrief(value, most, text);
  return text;
}

static Status errorAt(const std::string &file, size_t byte,
                      const std::string &what) {
  return Status(CRIA_INVALID_ARGUMENT, {file, ": at byte ", byte, ": ", what});
}

/// The bytes of the longest string. The parser would hold that string twice.
static size_t longestString(std::string_view text) {
  size_t longest = 0, begin = 0;
  bool inside = false;
  for (size_t i = 0; i < text.size(); ++i) {
    if (inside && text[i] == '\\')
      ++i;
    else if (text[i] == '"') {
      longest = std::max(longest, inside ? i - begin : 0);
      inside = !inside;
      begin = i + 1;
    }
  }
  return inside ? std::max(longest, text.size() - begin) : longest;
}

Status parseJson(std::string_view text, const std::string &file,
                 const JsonLimits &limits, JsonSink &sink) {
  if (text.size() > limits.bytes)
    return Status(CRIA_INVALID_ARGUMENT,
                  {file, ": has ", text.size(), " bytes, expected at most ",
                   limits.bytes});
  if (text.empty())
    return errorAt(file, 0, "empty, expected JSON");
  if (text.substr(0, 3) == "\xEF\xBB\xBF")
    return errorAt(file, 0, "byte order mark, expected plain UTF-8");
  // The parser would take a NUL for the end of the text.
  if (size_t nul = text.find('\0'); nul != std::string_view::npos)
    return errorAt(file, nul, "NUL character");
  if (longestString(text) > limits.string)
    return Status(CRIA_INVALID_ARGUMENT, {file, ": has a string of more than ",
                                          limits.string, " bytes"});
  const char *reached = text.data();
  Parser parser(limits, sink);
  Input begin(text.data(), &reached);
  Input end(text.data() + text.size(), &reached);
  if (json::sax_parse(begin, end, &parser))
    return Status();
  Status error = errorAt(file, static_cast<size_t>(reached - text.data()),
                         sink.status.message());
  return Status(sink.status.code(), error.message());
}

Result<JsonDocument> parseJson(std::string_view text, const std::string &file,
                               const JsonLimits &limits) {
  Builder builder(limits.memory);
  if (Status status = parseJson(text, file, limits, builder); !status.ok())
    return status;
  return std::move(builder.document);
}

Result<JsonDocument> readJson(const std::string &path,
                              const JsonLimits &limits) {
  Result<std::string> text = readFile(path, limits.bytes);
  if (!text.ok())
    return text.status();
  return parseJson(*text, path, limits);
}

JsonCursor::JsonCursor(const json &value, const std::string &file,
                       Status &status, std::string path)
    : value(&value), file(file), path(std::move(path)), status(&status) {}

JsonCursor::JsonCursor(const json &value, const JsonCursor &parent,
                       std::string path)
    : value(&value), file(parent.file), path(std::move(path)),
      status(parent.status) {}

/// The value that a cursor points to after an error.
static const json &nothing() {
  static const json value;
  return value;
}

JsonCursor::JsonCursor(const JsonCursor &) = default;
JsonCursor::JsonCursor(JsonCursor &&) noexcept = default;
JsonCursor &JsonCursor::operator=(JsonCursor &&) noexcept = default;
JsonCursor::~JsonCursor() = default;

JsonCursor JsonCursor::operator[](std::string_view key) const {
  JsonCursor member(nothing(), *this,
                    path.empty() ? std::string(key) : concat({path, ".", key}));
  if (!value->is_object())
    expected("an object");
  else if (auto found = value->find(key); found != value->end())
    member.value = &*found;
  else
    member.fail("is missing");
  return member;
}

std::optional<JsonCursor> JsonCursor::find(std::string_view key) const {
  if (!value->is_object()) {
    expected("an object");
    return std::nullopt;
  }
  auto found = value->find(key);
  if (found == value->end() || found->is_null())
    return std::nullopt;
  return (*this)[key];
}

size_t JsonCursor::count(size_t limit) const {
  if (!value->is_array()) {
    expected("an array");
    return 0;
  }
  if (value->size() <= limit)
    return value->size();
  fail(concat({"has ", value->size(), " elements, expected at most ", limit}));
  return 0;
}

JsonCursor JsonCursor::element(size_t index) const {
  return {(*value)[index], *this, concat({path, "[", index, "]"})};
}

std::vector<JsonCursor> JsonCursor::elements(size_t limit) const {
  std::vector<JsonCursor> all;
  size_t size = count(limit);
  all.reserve(size);
  for (size_t i = 0; i < size; ++i)
    all.push_back(element(i));
  return all;
}

int64_t JsonCursor::integer(int64_t least, int64_t most) const {
  std::optional<int64_t> whole = wholeNumber(*value);
  if (whole && *whole >= least && *whole <= most)
    return *whole;
  std::string what = "a whole number";
  if (least != INT64_MIN)
    what += " from " + std::to_string(least);
  if (most != INT64_MAX)
    what += " to " + std::to_string(most);
  expected(what);
  return least;
}

std::vector<uint64_t> JsonCursor::sizes(size_t limit, int64_t least,
                                        int64_t most) const {
  std::vector<uint64_t> all(count(limit));
  for (size_t i = 0; i < all.size(); ++i) {
    std::optional<int64_t> whole = wholeNumber((*value)[i]);
    bool fits = whole && *whole >= least && *whole <= most;
    // A cursor has text, which takes time that only an error needs.
    all[i] =
        static_cast<uint64_t>(fits ? *whole : element(i).integer(least, most));
  }
  return all;
}

double JsonCursor::number(double least, double most) const {
  if (value->is_number()) {
    double found = value->get<double>();
    if (std::isfinite(found) && found >= least && found <= most)
      return found;
  }
  char range[80];
  snprintf(range, sizeof(range), "a number from %g to %g", least, most);
  expected(range);
  return least;
}

bool JsonCursor::boolean() const {
  if (value->is_boolean())
    return value->get<bool>();
  expected("true or false");
  return false;
}

std::string JsonCursor::string() const {
  if (value->is_string())
    return value->get<std::string>();
  expected("a string");
  return {};
}

std::string JsonCursor::say(std::string_view what) const {
  return concat({file, file.empty() ? "" : ": ",
                 path.empty() ? "" : quote(path) + " ", what});
}

void JsonCursor::fail(std::string_view what, cria_status code) const {
  if (status->ok())
    *status = Status(code, say(what));
}

void JsonCursor::expected(std::string_view what, cria_status code) const {
  std::string found = value->type_name();
  if (value->is_primitive() && !value->is_null())
    found = briefJson(*value, 40);
  if (found.size() > 40)
    found = found.substr(0, 40) + "...";
  fail(concat({"is ", found, ", expected ", what}), code);
}

void refuse(const JsonCursor &place, std::string_view expected) {
  std::string found = briefJson(place.raw(), 60);
  if (found.size() > 60)
    found = found.substr(0, 60) + "...";
  place.fail(
      concat({"is ", found, ", which is not supported: expected ", expected}),
      CRIA_UNIMPLEMENTED);
}

void onlyKeys(const JsonCursor &object,
              std::initializer_list<std::string_view> keys) {
  if (!object.raw().is_object())
    return object.expected("an object");
  for (const auto &[key, value] : object.raw().items())
    if (std::find(keys.begin(), keys.end(), key) == keys.end())
      object[key].fail("is not supported", CRIA_UNIMPLEMENTED);
}

} // namespace cria
