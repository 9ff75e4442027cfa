#include "lowering/import/LedgerReport.h"

#include "lowering/import/Ledger.h"

#include "llvm/ADT/StringExtras.h"
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

/// "`hidden_size` (gpt2: `n_embd`)": the key, and what families call it
/// otherwise.
static std::string namesOf(const LedgerKey &key) {
  std::string names;
  for (const Family &family : families())
    for (const auto &[own, usual] : family.ownNames())
      if (usual == key.name)
        names += (names.empty() ? "" : ", ") + family.modelType.str() + ": `" +
                 own + "`";
  return "`" + key.name.str() + "`" + (names.empty() ? "" : " (" + names + ")");
}

static bool isRead(const LedgerKey &key) { return !key.readers().empty(); }

void cria::printKeys(llvm::raw_ostream &os) {
  os << "| honoured key | is | for | others may have |\n|---|---|---|---|\n";
  for (const LedgerKey &key : ledgerKeys())
    if (isRead(key))
      os << "| " << namesOf(key) << " | " << key.note << " | " << key.readers()
         << " | " << (key.everywhere ? "" : others(key)) << " |\n";
  os << "\n| other key | may have | because |\n|---|---|---|\n";
  for (const LedgerKey &key : ledgerKeys())
    if (!isRead(key))
      os << "| `" << key.name << "` | " << others(key) << " | " << key.note
         << " |\n";
}

/// The keys of `family` that may have one value alone.
static std::string fixedKeys(const Family &family) {
  std::string text;
  const nlohmann::json fixed = nlohmann::json::parse(family.fixed);
  for (const auto &[key, value] : fixed.items())
    text += (text.empty() ? "`" : ", `") + key + "` " + value.dump();
  return text;
}

/// The models of all families, in lines of at most 85 characters.
static void printModels(llvm::raw_ostream &os) {
  std::vector<std::string> models;
  for (const Family &family : families())
    if (!family.models.empty())
      models.push_back(family.models.str());
  std::string list = llvm::join(models, ", ");
  size_t column = 0;
  for (llvm::StringRef word : llvm::split(list, ' ')) {
    bool isFull = column + 1 + word.size() > 85;
    os << (column == 0 ? "" : isFull ? "\n" : " ") << word;
    column = (isFull ? 0 : column + (column != 0)) + word.size();
  }
  os << "\n";
}

void cria::printFamilies(llvm::raw_ostream &os) {
  printModels(os);
  os << "\n| `model_type` | models | differs from Llama by "
        "| only value that is supported |\n|---|---|---|---|\n";
  for (const Family &family : families())
    os << "| `" << family.modelType << "` | " << family.models << " | "
       << family.differs << " | " << fixedKeys(family) << " |\n";
}
