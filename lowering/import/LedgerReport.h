/// Prints the ledger: of one config, or all known keys.
#pragma once

#include "lowering/import/Config.h"

#include "llvm/Support/raw_ostream.h"

namespace cria {

/// Prints a table: each key of a config, its value and its fate.
void printLedger(llvm::ArrayRef<LedgerRow> rows, llvm::raw_ostream &os);

/// Prints every known key, as the Markdown of docs/config.md.
void printKeys(llvm::raw_ostream &os);

/// Prints the names of all models, as README.md lists them, and the table of
/// all families, as docs/config.md has it.
void printFamilies(llvm::raw_ostream &os);

/// Prints every known key of GGUF's metadata, as the Markdown of docs/gguf.md.
void printGgufKeys(llvm::raw_ostream &os);

} // namespace cria
