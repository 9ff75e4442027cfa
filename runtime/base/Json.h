/// Reading untrusted JSON: bounded size, depth and number of values, no
/// duplicate keys, and errors that name file, place and field.
#pragma once

#include "runtime/base/Status.h"

#include <nlohmann/json.hpp>

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace cria {

/// 'text' for a message of one line: made printable, and a long text is cut.
std::string quote(std::string_view text);

/// The whole number that `value` is, which may be written 32.0; nothing if it
/// is none or no int64.
std::optional<int64_t> wholeNumber(const nlohmann::json &value);

/// `value` as JSON, but with printable characters of strings as they are,
/// complete if that is at most `most` bytes; else some more bytes of its
/// beginning. So a message costs little memory.
std::string briefJson(const nlohmann::json &value, size_t most);

/// What a document may hold at most.
struct JsonLimits {
  uint64_t bytes = 16u << 20;
  uint64_t string = 4u << 20;
  uint64_t values = 500'000;
  int depth = 64;
  uint64_t memory = 48u << 20; // of a JsonDocument; see memoryOf
};

/// The most bytes of memory that a value takes as an element of an array. The
/// members of an object and the elements of an array count by themselves.
uint64_t memoryOf(const nlohmann::json &value);
/// What a member of an object takes besides its value.
uint64_t memoryOfKey(std::string_view key);

/// Owns a value and destroys it without allocating. nlohmann::json's own
/// destructor copies nested values into a list, and a destructor must not fail.
class JsonDocument {
public:
  JsonDocument() = default;
  explicit JsonDocument(nlohmann::json value) : value(std::move(value)) {}
  JsonDocument(const JsonDocument &) = default;
  JsonDocument(JsonDocument &&) = default;
  JsonDocument &operator=(JsonDocument other) {
    value.swap(other.value);
    return *this;
  }
  ~JsonDocument();

  nlohmann::json &root() { return value; }
  const nlohmann::json &root() const { return value; }

private:
  nlohmann::json value;
};

/// Takes the values of a document in the order of its text, for readers that
/// need no JsonDocument. Once `status` has an error, the parser stops.
class JsonSink {
public:
  virtual ~JsonSink() = default;
  /// A null, boolean, number or string. If a number is no 64-bit integer,
  /// `spelling` is its text.
  virtual void scalar(nlohmann::json value, const std::string &spelling) = 0;
  virtual void open(bool object) = 0;
  virtual void close() = 0;
  /// The key of the value that comes next.
  virtual void key(std::string name) = 0;

  Status status;
};

/// Parses `text` strictly: UTF-8 without a byte order mark, one value, nothing
/// after it. An error reads "FILE: at byte N: what".
Result<JsonDocument> parseJson(std::string_view text, const std::string &file,
                               const JsonLimits &limits = {});

/// Likewise, into `sink`, which must refuse keys that come twice.
Status parseJson(std::string_view text, const std::string &file,
                 const JsonLimits &limits, JsonSink &sink);

/// Reads and parses the file at `path`; errors name it by its path.
Result<JsonDocument> readJson(const std::string &path,
                              const JsonLimits &limits = {});

/// A place in a document. Its getters return the value or, where the place
/// does not hold what was asked for, a harmless default, and note the first
/// such error in the status that the root was made with:
///
///   Status status;
///   JsonCursor root(document, "config.json", status);
///   int64_t hidden = root["hidden_size"].integer(1, 1 << 20);
///   for (JsonCursor id : root["ids"].elements())
///     ids.push_back(id.integer(0, vocab - 1));
///   return status; // "config.json: 'hidden_size' is missing"
///
/// Refers to the document and the status, which must outlive it.
class JsonCursor {
public:
  /// `path` is the place of `value` in its document.
  JsonCursor(const nlohmann::json &value, const std::string &file,
             Status &status, std::string path = {});
  // Not inline, to keep code small: readers copy and destroy many cursors.
  JsonCursor(const JsonCursor &);
  JsonCursor(JsonCursor &&) noexcept;
  JsonCursor &operator=(JsonCursor &&) noexcept;
  ~JsonCursor();

  /// The member `key`, which must be there.
  JsonCursor operator[](std::string_view key) const;
  /// The member `key`, or nothing if it is absent or null.
  std::optional<JsonCursor> find(std::string_view key) const;
  /// The elements of an array of at most `limit`.
  std::vector<JsonCursor> elements(size_t limit = SIZE_MAX) const;
  /// The same, one at a time: the number of elements, 0 after an error, and the
  /// element at `index`, which must be less than it.
  size_t count(size_t limit = SIZE_MAX) const;
  JsonCursor element(size_t index) const;

  /// A whole number in [least, most].
  int64_t integer(int64_t least, int64_t most) const;
  /// The elements of an array of at most `limit` such numbers; 0 <= least.
  std::vector<uint64_t> sizes(size_t limit, int64_t least, int64_t most) const;
  /// A finite number in [least, most].
  double number(double least, double most) const;
  bool boolean() const;
  std::string string() const;

  /// Notes the error "FILE: 'field' what", unless there is one already.
  void fail(std::string_view what,
            cria_status code = CRIA_INVALID_ARGUMENT) const;
  /// "FILE: 'field' what"; without the FILE if its name is empty
  std::string say(std::string_view what) const;
  /// Notes an error with the value that was found and the one that was
  /// expected.
  void expected(std::string_view what,
                cria_status code = CRIA_INVALID_ARGUMENT) const;
  /// Whether no error has been noted at any cursor of this document.
  bool ok() const { return status->ok(); }

  /// The value itself.
  const nlohmann::json &raw() const { return *value; }

private:
  JsonCursor(const nlohmann::json &value, const JsonCursor &parent,
             std::string path);

  const nlohmann::json *value;
  std::string file;
  std::string path; // "rope.inv_freq[3]"
  Status *status;
};

/// Refuses a value that is well formed but not supported.
void refuse(const JsonCursor &place, std::string_view expected);

/// Refuses the members of `object` that are not among `keys`.
void onlyKeys(const JsonCursor &object,
              std::initializer_list<std::string_view> keys);

} // namespace cria
