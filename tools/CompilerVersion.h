/// --version of the compiler's tools.
#pragma once

#include "llvm/Config/llvm-config.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Support/raw_ostream.h"

#include <cstdlib>

namespace cria {

/// Makes --version print the version of Cria, which `tool` has, and LLVM's.
inline void setVersionPrinter(const char *tool) {
  llvm::cl::SetVersionPrinter([tool](llvm::raw_ostream &os) {
    os << tool << " " CRIA_VERSION ", LLVM " LLVM_VERSION_STRING "\n";
    llvm::raw_fd_ostream &out = llvm::outs();
    out.flush();
    if (!out.has_error())
      return;
    llvm::errs() << tool << ": error: standard output: cannot write: "
                 << out.error().message() << "\n";
    out.clear_error(); // or LLVM would abort
    std::exit(1);      // or it would exit with 0 after this
  });
}

} // namespace cria
