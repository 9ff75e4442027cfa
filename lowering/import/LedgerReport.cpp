#include "lowering/import/LedgerReport.h"

#include "lowering/import/Ledger.h"

#include "llvm/Support/Format.h"

using namespace cria;

void cria::printLedger(llvm::ArrayRef<LedgerRow> rows, llvm::raw_ostream &os) {
  auto line = [&](llvm::StringRef key, llvm::StringRef value,
                  llvm::StringRef fate, llvm::StringRef note) {
    os << llvm::format("%-34s %-30s %-10s %s\n", key.str().c_str(),
                       value.str().c_str(), fate.str().c_str(),
                       note.str().c_str());
  };
  line("key", "value", "fate", "meaning, or why it is irrelevant");
  for (const LedgerRow &row : rows)
    line(row.key, row.value, row.fate, row.note);
}

/// The values that a family accepts which does not read the key.
static std::string others(const LedgerKey &key) {
  if (key.neutral == "any")
    return "any value";
  if (key.neutral == "id")
    return "an id, null";
  return key.neutral.empty() ? "null" : "`" + key.neutral.str() + "`, null";
}

static bool isRead(const LedgerKey &key) { return !key.readers().empty(); }

void cria::printKeys(llvm::raw_ostream &os) {
  os << "| honoured key | is | for | others may have |\n|---|---|---|---|\n";
  for (const LedgerKey &key : ledgerKeys())
    if (isRead(key))
      os << "| `" << key.name << "` | " << key.note << " | " << key.readers()
         << " | " << (key.everywhere ? "" : others(key)) << " |\n";
  os << "\n| other key | may have | because |\n|---|---|---|\n";
  for (const LedgerKey &key : ledgerKeys())
    if (!isRead(key))
      os << "| `" << key.name << "` | " << others(key) << " | " << key.note
         << " |\n";
}
