/// How --help of all tools looks: names of options, what stands for their
/// values, and a column of text, in lines of a terminal's width.
#pragma once

#include <cstddef>
#include <sstream>
#include <string>

namespace cria {

/// The column in which the text of options begins, and the width of all.
inline constexpr size_t kHelpColumn = 30, kHelpWidth = 80;

/// The words of `text` in lines of at most `width`.
inline std::string wrapped(const std::string &text, size_t width) {
  std::istringstream words(text);
  std::string lines;
  size_t begin = 0; // of the line
  for (std::string word; words >> word;) {
    bool isFull = lines.size() + 1 + word.size() - begin > width;
    if (isFull)
      begin = lines.size() + 1;
    if (!lines.empty())
      lines += isFull ? '\n' : ' ';
    lines += word;
  }
  return lines;
}

} // namespace cria
