#include "lowering/import/families/Families.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

using namespace cria;

bool Family::reads(llvm::StringRef key) const {
  return llvm::is_contained(llvm::split(keys, ' '), key);
}

bool Family::readsUsual(llvm::StringRef key) const {
  return llvm::is_contained(llvm::split(usual, ' '), key);
}

bool Family::ignores(llvm::StringRef key) const {
  return llvm::is_contained(llvm::split(ignored, ' '), key);
}

std::vector<std::pair<std::string, std::string>> Family::ownNames() const {
  std::vector<std::pair<std::string, std::string>> names;
  for (llvm::StringRef pair : llvm::split(renamed, ' '))
    if (auto [own, usual] = pair.split('='); !own.empty())
      names.emplace_back(own, usual);
  return names;
}

static std::vector<Family> allFamilies() {
  std::vector<Family> all;
  for (llvm::ArrayRef<Family> rows :
       {textFamilies(), towerFamilies(), compositeFamilies()})
    all.insert(all.end(), rows.begin(), rows.end());
  llvm::sort(all, [](const Family &a, const Family &b) {
    return a.modelType < b.modelType;
  });
  return all;
}

llvm::ArrayRef<Family> cria::families() {
  static const std::vector<Family> all = allFamilies();
  return all;
}

const Family *cria::findFamily(llvm::StringRef modelType,
                               llvm::ArrayRef<Family> table) {
  const Family *found = llvm::find_if(
      table, [&](const Family &f) { return f.modelType == modelType; });
  return found == table.end() ? nullptr : found;
}
