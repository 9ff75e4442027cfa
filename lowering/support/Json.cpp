#include "lowering/support/Json.h"

#include "runtime/base/Json.h"

#include "llvm/ADT/StringSet.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"

using namespace cria;
using nlohmann::json;

/// The deepest nesting of objects and arrays, and the most values. They bound
/// the memory that a malicious file can use.
static constexpr size_t maxDepth = 64, maxValues = 1 << 16;

namespace {
/// Builds a value from the parser's events, and checks limits that JSON does
/// not have: depth, number of values and duplicate keys. The parser has its own
/// stack, so nothing here recurses.
class StrictBuilder {
public:
  using number_integer_t = json::number_integer_t;
  using number_unsigned_t = json::number_unsigned_t;
  using number_float_t = json::number_float_t;
  using string_t = json::string_t;
  using binary_t = json::binary_t;

  explicit StrictBuilder(json &root) : dom(root, /*allow_exceptions_=*/false) {}

  bool null() { return count() && dom.null(); }
  bool boolean(bool value) { return count() && dom.boolean(value); }
  bool number_integer(number_integer_t value) {
    return count() && dom.number_integer(value);
  }
  bool number_unsigned(number_unsigned_t value) {
    return count() && dom.number_unsigned(value);
  }
  bool number_float(number_float_t value, const string_t &text) {
    return count() && dom.number_float(value, text);
  }
  bool string(string_t &value) { return count() && dom.string(value); }
  bool binary(binary_t &value) { return count() && dom.binary(value); }
  bool start_object(size_t size) { return enter() && dom.start_object(size); }
  bool end_object() { return leave() && dom.end_object(); }
  bool start_array(size_t size) { return enter() && dom.start_array(size); }
  bool end_array() { return leave() && dom.end_array(); }

  bool key(string_t &name) {
    if (!keys.back().insert(name).second)
      return fail("duplicate key '" + shownText(name) + "'");
    return dom.key(name);
  }

  bool parse_error(size_t position, const std::string &,
                   const nlohmann::detail::exception &error) {
    llvm::StringRef what = error.what();
    what = what.substr(what.find("] ") + 2);
    if (what.consume_front("parse error"))
      what = what.substr(what.find(": ") + 2);
    // The text that was read last is dropped: it may be long, or not be text at
    // all.
    what = what.take_front(what.find("; last read")).take_front(120);
    size_t offset = position ? position - 1 : 0;
    return fail("byte " + std::to_string(offset) + ": " + what.str());
  }

  std::string problem;

private:
  bool count() {
    return ++values <= maxValues ||
           fail("more than " + std::to_string(maxValues) + " values");
  }
  bool enter() {
    keys.emplace_back();
    return count() &&
           (keys.size() <= maxDepth ||
            fail("nesting is deeper than " + std::to_string(maxDepth)));
  }
  bool leave() {
    keys.pop_back();
    return true;
  }
  bool fail(std::string text) {
    problem = std::move(text);
    return false;
  }

  nlohmann::detail::json_sax_dom_parser<json> dom;
  std::vector<llvm::StringSet<>> keys; // of each open object or array
  size_t values = 0;
};
} // namespace

llvm::Error cria::textError(const llvm::Twine &message) {
  return llvm::createStringError(llvm::inconvertibleErrorCode(), message);
}

std::string cria::shownJson(const json &value) {
  std::string text = briefJson(value, 60);
  return text.size() <= 60 ? text : text.substr(0, 57) + "...";
}

std::string cria::shownText(llvm::StringRef text) {
  std::string quoted = shownJson(json(text.str()));
  return llvm::StringRef(quoted).trim('"').str();
}

llvm::Expected<json> cria::parseJsonObject(llvm::StringRef text) {
  if (text.starts_with("\xef\xbb\xbf"))
    return textError("byte 0: unexpected byte order mark");
  // The parser would treat a NUL as the end.
  if (size_t nul = text.find('\0'); nul != llvm::StringRef::npos)
    return textError("byte " + llvm::Twine(nul) + ": unexpected NUL");
  json root;
  StrictBuilder builder(root);
  if (!json::sax_parse(text.begin(), text.end(), &builder))
    return textError(builder.problem);
  if (!root.is_object())
    return textError(llvm::Twine("expected an object, got ") +
                     root.type_name());
  return root;
}

llvm::Expected<std::string> cria::readTextFile(llvm::StringRef path,
                                               uint64_t limit) {
  llvm::sys::fs::file_status status;
  if (std::error_code error = llvm::sys::fs::status(path, status))
    return textError(path + ": " + error.message());
  if (!llvm::sys::fs::is_regular_file(status))
    return textError(path + ": expected a regular file");
  if (status.getSize() > limit)
    return textError(path + ": expected at most " + llvm::Twine(limit) +
                     " bytes, got " + llvm::Twine(status.getSize()));
  auto buffer = llvm::MemoryBuffer::getFile(path);
  if (!buffer)
    return textError(path + ": " + buffer.getError().message());
  return (*buffer)->getBuffer().str();
}
