/// --help of cria-compile, whose options are LLVM's, as that of other tools.
#pragma once

#include "tools/HelpText.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Support/raw_ostream.h"

#include <algorithm>
#include <vector>

namespace cria {

/// An option with what stands for its value, as other tools print it.
inline std::string helpName(const llvm::cl::Option &option) {
  std::string name = option.ArgStr.size() > 1 ? "--" : "-";
  name += option.ArgStr.str();
  std::string value = option.ValueStr.str();
  if (option.getValueExpectedFlag() == llvm::cl::ValueOptional)
    return value.empty() ? name : name + " [" + value + "]";
  return value.empty() ? name : name + " " + value;
}

/// Prints `name` and, from the column of text on, `text`.
inline void printHelpRow(llvm::StringRef name, const std::string &text,
                         llvm::raw_ostream &os) {
  os << "  " << name;
  size_t at = 2 + name.size();
  llvm::SmallVector<llvm::StringRef> lines;
  llvm::StringRef(text).split(lines, '\n');
  for (llvm::StringRef line : lines) {
    if (at + 2 > kHelpColumn) {
      os << "\n";
      at = 0;
    }
    os.indent(static_cast<unsigned>(kHelpColumn - at)) << line;
    at = kHelpColumn;
  }
  os << "\n";
}

/// Prints the options of `categories`, a group each.
inline void
printHelp(llvm::StringRef tool, const std::string &about,
          llvm::StringRef arguments,
          llvm::ArrayRef<const llvm::cl::OptionCategory *> categories,
          llvm::raw_ostream &os) {
  os << wrapped(about, kHelpWidth) << "\nUsage: " << tool << " [OPTIONS] "
     << arguments << "\n\nOptions:\n";
  printHelpRow("-h,--help", "Print this help message and exit", os);
  printHelpRow("--version", "Print the version", os);
  for (const llvm::cl::OptionCategory *category : categories) {
    std::vector<llvm::cl::Option *> options;
    for (const auto &[name, option] : llvm::cl::getRegisteredOptions())
      if (llvm::is_contained(option->Categories, category) &&
          !option->ArgStr.empty())
        options.push_back(option);
    llvm::sort(options, [](const auto *a, const auto *b) {
      return a->ArgStr < b->ArgStr;
    });
    os << "\n" << category->getName() << ":\n";
    for (const llvm::cl::Option *option : options)
      printHelpRow(helpName(*option),
                   wrapped(option->HelpStr.str(), kHelpWidth - kHelpColumn),
                   os);
  }
}

} // namespace cria
