/// The ledger for people: of one config, and of all that is known.
#pragma once

#include "lowering/import/Config.h"

#include "llvm/Support/raw_ostream.h"

namespace cria {

/// A table: each key of a config, its value and its fate.
void printLedger(llvm::ArrayRef<LedgerRow> rows, llvm::raw_ostream &os);

/// Every key that is known, as the Markdown of docs/config.md.
void printKeys(llvm::raw_ostream &os);

/// Every key of GGUF's metadata that is known, as the Markdown of docs/gguf.md.
void printGgufKeys(llvm::raw_ostream &os);

} // namespace cria
