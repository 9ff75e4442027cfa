#include "lowering/artifact/Footer.h"

#include "runtime/Abi.h"

#include "llvm/Object/ELFObjectFile.h"
#include <cstring>

using llvm::Error;

Error cria::appendFooter(llvm::SmallVectorImpl<char> &bytes) {
  llvm::StringRef text(bytes.data(), bytes.size());
  auto file = llvm::object::ELF64LEFile::create(text);
  if (!file)
    return file.takeError();
  auto sections = file->sections();
  if (!sections)
    return sections.takeError();
  CriaFooter footer = {};
  std::memcpy(footer.magic, CRIA_FOOTER_MAGIC, sizeof footer.magic);
  footer.format_version = CRIA_FORMAT_VERSION;
  footer.footer_size = sizeof footer;
  for (const auto &section : *sections) {
    auto name = file->getSectionName(section);
    if (!name)
      return name.takeError();
    if (*name == ".cria.manifest") {
      footer.manifest_offset = section.sh_offset;
      footer.manifest_size = section.sh_size;
    }
  }
  footer.file_size = bytes.size() + sizeof footer;
  const char *raw = reinterpret_cast<const char *>(&footer);
  uint64_t hash = criaFnv1a64(CRIA_FNV_OFFSET, bytes.data(), bytes.size());
  footer.checksum = criaFnv1a64(hash, raw, offsetof(CriaFooter, checksum));
  bytes.append(raw, raw + sizeof footer);
  return Error::success();
}
