/// The command-line options of ProgramOptions, for tools that parse by LLVM's
/// command-line library.
#pragma once

#include "lowering/Options.h"

#include "llvm/Support/CommandLine.h"

#include <memory>

namespace cria {

class ProgramFlags {
public:
  /// Adds an option for each row of the table of options; without `later`, for
  /// each that has its effect at Import.
  ProgramFlags(llvm::cl::OptionCategory &category, bool later) {
    for (const ProgramOption &option : programOptions())
      if (later || option.readBy == ProgramOption::ReadBy::Import)
        flags.push_back({&option, std::make_unique<llvm::cl::opt<std::string>>(
                                      llvm::StringRef(option.name),
                                      llvm::cl::value_desc(option.argument),
                                      llvm::cl::desc(option.help),
                                      llvm::cl::cat(category))});
  }

  /// Sets the options that are given.
  llvm::Error read(ProgramOptions &options) const {
    for (const auto &[option, flag] : flags)
      if (flag->getNumOccurrences())
        if (llvm::Error error = readOption(*option, *flag, options))
          return error;
    return llvm::Error::success();
  }

private:
  std::vector<std::pair<const ProgramOption *,
                        std::unique_ptr<llvm::cl::opt<std::string>>>>
      flags;
};

} // namespace cria
