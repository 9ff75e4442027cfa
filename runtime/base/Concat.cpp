#include "runtime/base/Concat.h"

#include <cstdio>

namespace cria {

void TextPart::appendTo(std::string &whole) const {
  if (text > Real) {
    whole.append(reinterpret_cast<const char *>(text), value);
    return;
  }
  char number[400]; // the largest double has 309 digits in front of its point
  if (text == Real)
    snprintf(number, sizeof(number), "%f", real);
  else if (text == Signed)
    snprintf(number, sizeof(number), "%lld", static_cast<long long>(value));
  else
    snprintf(number, sizeof(number), "%llu",
             static_cast<unsigned long long>(value));
  whole += number;
}

std::string concat(std::initializer_list<TextPart> parts) {
  std::string whole;
  for (const TextPart &part : parts)
    part.appendTo(whole);
  return whole;
}

std::string mebibytes(uint64_t bytes) {
  char text[32];
  snprintf(text, sizeof(text), "%.1f MiB",
           static_cast<double>(bytes) / (1 << 20));
  return text;
}

} // namespace cria
