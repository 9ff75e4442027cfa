#include "runtime/Artifact.h"

#include "runtime/File.h"
#include "runtime/Json.h"
#include "runtime/cpu/Features.h"

#include <cstddef>
#include <cstring>
#include <dlfcn.h>
#include <link.h>
#include <unistd.h>

namespace cria {

// An artifact is code and its manifest; weights never are in it.
static constexpr uint64_t maxArtifactBytes = uint64_t(1) << 30;

/// Checks that `image` is one whole artifact and finds its footer.
static Result<CriaFooter> checkImage(const std::string &image,
                                     const std::string &path) {
  auto fail = [&](cria_status code, const std::string &what) {
    return Status(code, path + ": " + what);
  };
  CriaFooter footer;
  if (image.size() < 4 || memcmp(image.data(), "\177ELF", 4) != 0)
    return fail(CRIA_INVALID_ARGUMENT, "is no Cria artifact: no ELF header");
  if (image.size() >= sizeof(footer))
    memcpy(&footer, image.data() + image.size() - sizeof(footer),
           sizeof(footer));
  if (image.size() < sizeof(footer) ||
      memcmp(footer.magic, CRIA_FOOTER_MAGIC, sizeof(footer.magic)) != 0)
    return fail(CRIA_DATA_LOSS,
                "is no Cria artifact or a truncated one: no footer at its end");
  uint64_t covered = image.size() - sizeof(footer.checksum);
  uint64_t sum = criaFnv1a64(CRIA_FNV_OFFSET, image.data(), covered);
  // A damaged version is damage; an intact one of another format, whose sum
  // may be another, is another format.
  if (footer.format_version != CRIA_FORMAT_VERSION && sum == footer.checksum)
    return fail(CRIA_INCOMPATIBLE,
                "artifact format v" + std::to_string(footer.format_version) +
                    ", runtime supports v" +
                    std::to_string(CRIA_FORMAT_VERSION) + "; recompile");
  if (sum != footer.checksum)
    return fail(CRIA_DATA_LOSS, "checksum mismatch: the artifact is damaged");
  if (footer.footer_size != sizeof(footer) ||
      footer.file_size != image.size() ||
      footer.manifest_offset > image.size() ||
      footer.manifest_size > image.size() - footer.manifest_offset)
    return fail(CRIA_INVALID_ARGUMENT, "footer does not describe the file");
  return footer;
}

/// INCOMPATIBLE unless the object is for this machine and has code for devices
/// that this runtime knows.
static Status checkTarget(const Manifest &manifest, const std::string &path) {
  auto incompatible = [&](const std::string &what) {
    return Status(CRIA_INCOMPATIBLE, path + ": " + what);
  };
  std::string kind = manifest.hasCpu() ? "cpu" : "";
  if (manifest.cuda)
    kind += kind.empty() ? "cuda" : ",cuda";
  if (manifest.kind != kind)
    return incompatible("compiled for target " + quote(manifest.kind) +
                        ", this runtime finds code for " + quote(kind));
  if (manifest.arch != hostArch() || manifest.os != "linux")
    return incompatible("compiled for " + manifest.arch + " " + manifest.os +
                        ", this machine is " + hostArch() + " linux");
  return Status();
}

/// INCOMPATIBLE unless this CPU can run the code for CPUs.
static Status checkCpu(const Manifest &manifest, const std::string &path) {
  auto incompatible = [&](const std::string &what) {
    return Status(CRIA_INCOMPATIBLE, path + ": " + what);
  };
  if (!manifest.hasCpu())
    return incompatible("has no code for the CPU, it is compiled for " +
                        quote(manifest.kind));
  std::string names;
  for (const std::string &feature : missingCpuFeatures(manifest.features))
    names += (names.empty() ? "" : ", ") + feature;
  if (!names.empty())
    return incompatible("compiled for " + manifest.cpu +
                        "; this CPU lacks: " + names);
  if (!permitTiles(manifest.features))
    return incompatible("the system refuses this process the AMX tiles");
  return Status();
}

Result<std::shared_ptr<const Artifact>>
Artifact::inspect(const std::string &path) {
  Result<std::string> image = readFile(path, maxArtifactBytes);
  if (!image.ok())
    return image.status();
  Result<CriaFooter> footer = checkImage(*image, path);
  if (!footer.ok())
    return footer.status();
  std::shared_ptr<Artifact> artifact(new Artifact());
  artifact->file = path;
  artifact->bytes = image->size();
  artifact->text =
      image->substr(footer->manifest_offset, footer->manifest_size);
  Result<Manifest> manifest = parseManifest(artifact->text, path);
  if (!manifest.ok())
    return manifest.status();
  artifact->contents = std::move(*manifest);
  return std::shared_ptr<const Artifact>(std::move(artifact));
}

Result<std::shared_ptr<const Artifact>>
Artifact::open(const std::string &path) {
  Result<std::shared_ptr<const Artifact>> checked = inspect(path);
  if (!checked.ok())
    return checked;
  // Nobody else has seen it yet.
  Artifact &artifact = const_cast<Artifact &>(**checked);
  Status status = checkTarget(artifact.contents, path);
  artifact.cpu = checkCpu(artifact.contents, path);
  if (status.ok() && !artifact.contents.cuda)
    status = artifact.cpu;
  if (!status.ok())
    return status;
  status = artifact.load();
  if (!status.ok())
    return status;
  return checked;
}

Status Artifact::load() {
  // By the file, not by its name: under a name that is loaded already, dlopen
  // gives what was loaded, even if the file has been replaced. The descriptor
  // stays open so that no other file gets its number meanwhile.
  Result<File> opened = File::open(file);
  if (!opened.ok())
    return opened.status();
  object.emplace(std::move(*opened));
  std::string name = "/proc/" + std::to_string(getpid()) + "/fd/" +
                     std::to_string(object->descriptor());
  library = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!library)
    return Status(CRIA_INVALID_ARGUMENT,
                  file + ": cannot be loaded: " + dlerror());
  Status status = contents.hasCpu() ? findEntries() : Status();
  if (contents.cuda)
    for (const cuda::Image &wanted : contents.cuda->images)
      if (status.ok())
        status = image(wanted).status();
  return status;
}

Status Artifact::findEntries() {
  prefillEntry =
      reinterpret_cast<CriaEntry>(dlsym(library, contents.prefill.c_str()));
  decodeEntry =
      reinterpret_cast<CriaEntry>(dlsym(library, contents.decode.c_str()));
  encodeEntry =
      reinterpret_cast<CriaEntry>(dlsym(library, contents.encode.c_str()));
  for (const std::string &symbol :
       {contents.prefill, contents.decode, contents.encode})
    if (!symbol.empty() && !dlsym(library, symbol.c_str()))
      return Status(CRIA_INVALID_ARGUMENT,
                    file + ": entry " + quote(symbol) + " is not in the code");
  return Status();
}

Result<std::string_view> Artifact::image(const cuda::Image &image) const {
  auto fail = [&](const std::string &what) {
    return Status(CRIA_INVALID_ARGUMENT,
                  file + ": image " + quote(image.symbol) + " " + what);
  };
  auto *data = static_cast<const char *>(
      library ? dlsym(library, image.symbol.c_str()) : nullptr);
  Dl_info info;
  void *entry = nullptr; // of the symbol table
  if (!data || !dladdr1(data, &info, &entry, RTLD_DL_SYMENT) || !entry)
    return fail("is not in the code");
  std::string_view whole(data, static_cast<const ElfW(Sym) *>(entry)->st_size);
  if (!image.isPtx)
    return whole;
  size_t end = whole.find('\0');
  if (end == std::string_view::npos)
    return fail("has no NUL at its end");
  return whole.substr(0, end);
}

Artifact::~Artifact() {
  if (library)
    dlclose(library);
}

} // namespace cria
