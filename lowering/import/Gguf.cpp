/// The config of a GGUF file. import/gguf makes a config.json from the
/// metadata, which is read like any other config. The ledger and errors use the
/// names of the keys in the GGUF file.
#include "lowering/import/Gguf.h"
#include "lowering/import/LedgerReport.h"
#include "lowering/import/Reader.h"
#include "lowering/import/gguf/Config.h"
#include "lowering/support/Json.h"
#include "runtime/gguf/Files.h"

using namespace cria;

bool cria::isGguf(llvm::StringRef path) { return gguf::isGguf(path.str()); }

/// Gives the keys of the config the names that files of its family have.
static void useOwnNames(gguf::Config &file) {
  auto config = nlohmann::json::parse(file.json);
  const Family *family = findFamily(config.value("model_type", ""));
  file.json = inOwnNames(*family, config).dump();
  for (auto &[key, origin] : file.origins)
    for (const auto &[own, usual] : family->ownNames())
      if (key == usual)
        key = own;
}

llvm::Expected<ModelConfig>
cria::readGgufConfig(llvm::StringRef path,
                     llvm::ArrayRef<std::string> allowed) {
  auto file = gguf::readConfig(path.str(), allowed.vec());
  if (!file.ok())
    return textError(file.status().message());
  useOwnNames(*file);
  llvm::Expected<ModelConfig> config = parseConfig(file->json);
  if (!config)
    return textError(
        path + ": " +
        renamed(llvm::toString(config.takeError()), file->origins));
  config->quantize = file->quantize;
  config->ledger.clear();
  for (const gguf::KeyFate &key : file->keys)
    config->ledger.push_back(
        {shownText(key.key), key.value, key.fate, key.note});
  for (std::string &line : config->warnings)
    line = (path + ": " + renamed(line, file->origins)).str();
  return config;
}

void cria::printGgufKeys(llvm::raw_ostream &os) { os << gguf::keysText(); }
