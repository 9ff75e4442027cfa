#include "runtime/base/PlainJson.h"

#include "runtime/Abi.h"
#include "runtime/base/Json.h"

#include <algorithm>
#include <cstdlib>

namespace cria {

void PlainJson::fail() {
  plain = false;
  at = end; // nothing more is read
}

void PlainJson::skipSpace() {
  while (at != end && (*at == ' ' || *at == '\n' || *at == '\r' || *at == '\t'))
    ++at;
}

bool PlainJson::isPlain() {
  skipSpace();
  return plain && at == end;
}

/// Passes over `c` if it comes next.
bool PlainJson::take(char c) {
  skipSpace();
  bool isNext = at != end && *at == c;
  at += isNext;
  return isNext;
}

void PlainJson::expect(char c) {
  if (!take(c))
    fail();
}

void PlainJson::count() {
  if (++values > JsonLimits().values)
    fail();
}

std::string_view PlainJson::quoted() {
  constexpr ptrdiff_t most = 4 << 20; // as parseJson
  expect('"');
  const char *begin = at;
  auto isPlain = [](char c) {
    return c >= ' ' && static_cast<unsigned char>(c) < 0x80 && c != '"' &&
           c != '\\';
  };
  while (at != end && isPlain(*at))
    ++at;
  std::string_view text(begin, static_cast<size_t>(at - begin));
  if (at == end || *at != '"' || at - begin > most) {
    fail();
    return {};
  }
  ++at;
  return text;
}

std::string_view PlainJson::string() {
  count();
  return quoted();
}

uint64_t PlainJson::number() {
  count();
  skipSpace();
  const char *begin = at;
  uint64_t value = 0;
  while (at != end && *at >= '0' && *at <= '9' && at - begin < 18)
    value = 10 * value + static_cast<uint64_t>(*at++ - '0');
  if (at == begin || (*begin == '0' && at - begin > 1)) {
    fail();
    return 0;
  }
  return value;
}

void PlainJson::scalar() {
  skipSpace();
  if (at != end && *at == '"')
    string();
  else
    number();
}

static int compare(const void *x, const void *y) {
  auto value = [](const void *at) {
    return *static_cast<const uint64_t *>(at);
  };
  return (value(x) > value(y)) - (value(x) < value(y));
}

void PlainJson::object(FunctionRef<void(std::string_view key)> member) {
  count();
  expect('{');
  if (take('}'))
    return;
  size_t outer = seen.size();
  do {
    std::string_view key = quoted();
    expect(':');
    seen.push_back(criaFnv1a64(CRIA_FNV_OFFSET, key.data(), key.size()));
    if (plain)
      member(key);
  } while (take(','));
  expect('}');
  // Keys whose hashes are equal by chance are taken for equal: not plain.
  // std::sort would add a kilobyte to the library.
  std::qsort(seen.data() + outer, seen.size() - outer, sizeof(uint64_t),
             compare);
  auto first = seen.begin() + static_cast<ptrdiff_t>(outer);
  if (std::adjacent_find(first, seen.end()) != seen.end())
    fail();
  seen.resize(outer);
}

void PlainJson::array(FunctionRef<void()> element) {
  count();
  expect('[');
  if (take(']'))
    return;
  do
    element();
  while (take(','));
  expect(']');
}

} // namespace cria
