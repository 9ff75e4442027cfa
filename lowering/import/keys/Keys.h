/// The keys of config.json by what they are about, in files of their own, and
/// what reads a value of a usual kind.
#pragma once

#include "lowering/import/Ledger.h"

namespace cria::keys {

llvm::ArrayRef<LedgerKey> attentionKeys();
llvm::ArrayRef<LedgerKey> expertKeys();
llvm::ArrayRef<LedgerKey> layerKeys();
llvm::ArrayRef<LedgerKey> mlpKeys();
llvm::ArrayRef<LedgerKey> modelKeys();
llvm::ArrayRef<LedgerKey> positionKeys();
llvm::ArrayRef<LedgerKey> recurrenceKeys();
llvm::ArrayRef<LedgerKey> unreadKeys();

using Reader = ObjectReader;
using Draft = ConfigDraft;

/// Reads an integer of all layers. A list must have the same one for each.
int64_t ofLayers(Reader &reader, llvm::StringRef key, int64_t low,
                 int64_t high);
/// Reads a list of layers, and adds them to a list.
void addLayers(Reader &reader, llvm::StringRef key, std::vector<int64_t> &to);
/// Reads a list of factors into `to`.
void factors(Reader &reader, llvm::StringRef key, llvm::ArrayRef<double *> to);
/// Reads the name of a function.
GateFunction functionOf(Reader &reader, llvm::StringRef key,
                        const Draft &draft);

// Readers of one key. Sizes and numbers are positive.

template <auto field, int64_t high>
void size(Reader &reader, llvm::StringRef key, Draft &draft) {
  draft.*field = reader.integer(key, 1, high);
}

/// 0 if the key is null.
template <auto field, int64_t high>
void optionalSize(Reader &reader, llvm::StringRef key, Draft &draft) {
  if (reader.find(key))
    draft.*field = reader.integer(key, 1, high);
}

template <auto field>
void positive(Reader &reader, llvm::StringRef key, Draft &draft) {
  draft.*field = reader.positive(key);
}

/// 0 if the key is null.
template <auto field>
void optionalPositive(Reader &reader, llvm::StringRef key, Draft &draft) {
  if (reader.find(key))
    draft.*field = reader.positive(key);
}

template <auto field>
void flag(Reader &reader, llvm::StringRef key, Draft &draft) {
  draft.*field = reader.flag(key, false);
}

template <auto field>
void function(Reader &reader, llvm::StringRef key, Draft &draft) {
  draft.*field = functionOf(reader, key, draft);
}

/// Reads a size that only families which read ids have.
template <auto field, int64_t high>
void sizeOfText(Reader &reader, llvm::StringRef key, Draft &draft) {
  if (!draft.family->readsImages())
    size<field, high>(reader, key, draft);
}

template <auto field>
void listOfLayers(Reader &reader, llvm::StringRef key, Draft &draft) {
  addLayers(reader, key, draft.*field);
}

} // namespace cria::keys
