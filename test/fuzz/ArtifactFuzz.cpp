/// An artifact, unchanged and with a matching footer: after the checksum the
/// manifest must still be checked. And an ELF object, which is checked but
/// never loaded.
#include "runtime/artifact/Artifact.h"
#include "runtime/artifact/ElfCheck.h"
#include "test/fuzz/Fuzz.h"

#include <cstring>

using namespace cria;

/// `manifest` with nothing before it and a footer after it.
static std::string sealed(std::string_view manifest) {
  CriaFooter footer = {};
  std::memcpy(footer.magic, CRIA_FOOTER_MAGIC, sizeof(footer.magic));
  footer.format_version = CRIA_FORMAT_VERSION;
  footer.footer_size = sizeof(footer);
  footer.manifest_size = manifest.size();
  footer.file_size = manifest.size() + sizeof(footer);
  std::string file(manifest);
  file.append(reinterpret_cast<const char *>(&footer), sizeof(footer));
  footer.checksum = criaFnv1a64(CRIA_FNV_OFFSET, file.data(),
                                file.size() - sizeof(footer.checksum));
  file.replace(manifest.size(), sizeof(footer),
               reinterpret_cast<const char *>(&footer), sizeof(footer));
  return file;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static const fuzz::Folder folder;
  std::string_view text = fuzz::textOf(data, size);
  auto plain = Artifact::inspect(folder.write("plain.cria", text));
  auto whole = Artifact::inspect(folder.write("whole.cria", sealed(text)));
  fuzz::require(!plain.ok() || plain.status().ok(), "a result or an error");
  fuzz::require(!whole.ok() || (*whole)->manifest().vocabSize > 0,
                "a manifest that is taken was checked");
  auto symbols = checkElf(text, "object.cria");
  if (symbols.ok())
    for (const ExportedSymbol &symbol : *symbols)
      fuzz::require(symbol.size <= size &&
                        symbol.offset <= size - symbol.size &&
                        !symbol.name.empty(),
                    "a symbol that is taken lies in the file");
  return 0;
}
