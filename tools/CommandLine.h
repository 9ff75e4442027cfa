/// Shared parts of the tools' command lines.
#pragma once

#include "runtime/base/Json.h"
#include "runtime/cria.h"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <numeric>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace cria {

/// Checks that an option's value is a whole number from `least` to `most` in
/// plain decimal. CLI11 alone would read 0x10 as 16, 010 as 8 and, for unsigned
/// options, -1 as a large number.
template <typename Number> auto wholeNumber(Number least, Number most) {
  return [=](const std::string &text) -> std::string {
    Number number = 0;
    const char *end = text.data() + text.size();
    auto [stop, error] = std::from_chars(text.data(), end, number);
    bool isPlain = text == "0" || (text[0] >= '1' && text[0] <= '9');
    if (error == std::errc() && stop == end && isPlain && number >= least &&
        number <= most)
      return "";
    return quote(text) + " is not a whole number from " +
           std::to_string(least) + " to " + std::to_string(most);
  };
}

/// Checks that an option's value is a number.
inline std::string anyNumber(const std::string &text) {
  double number = 0;
  const char *end = text.data() + text.size();
  auto [stop, error] = std::from_chars(text.data(), end, number);
  return error == std::errc() && stop == end ? ""
                                             : quote(text) + " is not a number";
}

/// The number of letters to add, remove or replace to make `b` of `a`.
inline size_t editDistance(const std::string &a, const std::string &b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), 0);
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = std::exchange(row[0], i);
    for (size_t j = 1; j <= b.size(); ++j) {
      size_t replaced = diagonal + (a[i - 1] != b[j - 1]);
      diagonal = row[j];
      row[j] = std::min({replaced, row[j] + 1, row[j - 1] + 1});
    }
  }
  return row.back();
}

/// What is said of an argument that is no option of `app`.
inline std::string unknownArgument(const CLI::App &app,
                                   const std::string &argument) {
  std::string name = argument.substr(0, argument.find('=')), nearest;
  size_t least = name.size() / 2;
  for (const CLI::Option *option : app.get_options())
    for (const std::string &known : option->get_lnames())
      if (size_t distance = editDistance(name, "--" + known);
          distance < least) {
        least = distance;
        nearest = "--" + known;
      }
  return quote(argument) + " is no option" +
         (nearest.empty() ? ": --help lists them"
                          : ": did you mean " + nearest + "?");
}

/// Reads the command line of `tool`, with --version. Returns the exit code if
/// there is nothing left to do.
inline std::optional<int> parseCommandLine(CLI::App &app, const char *tool,
                                           int argc, char **argv) {
  app.set_version_flag("--version", std::string(tool) + " " + cria_version(),
                       "print the version");
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success &done) {
    return app.exit(done);
  } catch (const CLI::ExtrasError &) {
    fprintf(stderr, "%s: error: %s\n", tool,
            unknownArgument(app, app.remaining().front()).c_str());
    return 2;
  } catch (const CLI::ParseError &error) {
    fprintf(stderr, "%s: error: %s\n", tool, error.what());
    return 2;
  }
  return std::nullopt;
}

/// Flushes stdout. Returns the exit code: 0, or 1 after an error that says why
/// the output of `tool` could not be written.
inline int finishOutput(const char *tool) {
  bool failedBefore = ferror(stdout);
  if (fflush(stdout) == 0 && !failedBefore)
    return 0;
  fprintf(stderr, "%s: error: standard output: cannot write: %s\n", tool,
          strerror(errno));
  return 1;
}

} // namespace cria
