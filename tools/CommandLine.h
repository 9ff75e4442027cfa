/// Shared parts of the tools' command lines.
#pragma once

#include "runtime/base/Json.h"
#include "runtime/cria.h"
#include "runtime/device/Device.h"
#include "tools/HelpText.h"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <memory>
#include <numeric>
#include <optional>
#include <sstream>
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

/// Checks that an option's value names a device.
inline std::string anyDevice(const std::string &text) {
  auto device = deviceNamed(text);
  return device.ok() ? "" : device.status().message();
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

/// --help of all tools alike: placeholders in words, lines of a terminal's
/// width. What options need or exclude is said where a command line is wrong.
class HelpFormatter : public CLI::Formatter {
public:
  std::string make_option_opts(const CLI::Option *option) const override {
    bool isFlag = option->get_type_size() == 0;
    if (isFlag || !option->nonpositional()) // whose name says what it is
      return "";
    std::string type = option->get_type_name();
    if (type == "INT" || type == "UINT")
      type = "N";
    return " " + (type == "FLOAT" ? "NUMBER" : type);
  }

  std::string make_option_desc(const CLI::Option *option) const override {
    return wrapped(option->get_description(), kHelpWidth - get_column_width());
  }

  std::string make_description(const CLI::App *app) const override {
    return wrapped(app->get_description(), kHelpWidth) + "\n";
  }

  std::string make_footer(const CLI::App *app) const override {
    std::string footer = app->get_footer();
    return footer.empty() ? "" : wrapped(footer, kHelpWidth) + "\n";
  }
};

/// Has the options that are added while it lives be a group of --help.
class HelpGroup {
public:
  HelpGroup(CLI::App &app, std::string name)
      : app(app), name(std::move(name)), begin(app.get_options().size()) {}
  ~HelpGroup() {
    std::vector<CLI::Option *> options = app.get_options(nullptr);
    for (size_t i = begin; i < options.size(); ++i)
      if (!options[i]->get_group().empty()) // else it is hidden
        options[i]->group(name);
  }

private:
  CLI::App &app;
  std::string name;
  size_t begin;
};

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

/// Reads the command line of `tool`, with --version. Returns the exit code if
/// there is nothing left to do.
inline std::optional<int> parseCommandLine(CLI::App &app, const char *tool,
                                           int argc, char **argv) {
  app.name(tool);
  app.formatter(std::make_shared<HelpFormatter>());
  app.set_version_flag("--version", std::string(tool) + " " + cria_version(),
                       "print the version");
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success &done) {
    app.exit(done);
    return finishOutput(tool);
  } catch (const CLI::ParseError &error) {
    // What is missing may be what is written wrong.
    std::vector<std::string> unknown = app.remaining();
    std::string what =
        unknown.empty() ? error.what() : unknownArgument(app, unknown.front());
    fprintf(stderr, "%s: error: %s\n", tool, what.c_str());
    return 2;
  }
  return std::nullopt;
}

} // namespace cria
