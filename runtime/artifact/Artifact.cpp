#include "runtime/artifact/Artifact.h"

#include "runtime/artifact/Unpack.h"
#include "runtime/base/Features.h"
#include "runtime/base/Json.h"
#include "runtime/base/files/File.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <dlfcn.h>
#include <link.h>

namespace cria {

// An artifact holds code and its manifest, some hundred kilobytes, and cubins
// of a few megabytes each. It never holds weights.
static constexpr uint64_t maxArtifactBytes = uint64_t(1) << 28;

/// Checks that `image` is one whole artifact and finds its footer.
static Result<CriaFooter> checkImage(std::string_view image,
                                     const std::string &path) {
  auto fail = [&](cria_status code, std::string_view what) {
    return Status(code, {path, ": ", what});
  };
  CriaFooter footer;
  if (image.size() < 4 || memcmp(image.data(), "\177ELF", 4) != 0)
    return fail(
        CRIA_INVALID_ARGUMENT,
        "is not a Cria artifact: no ELF header; cria-compile makes one");
  if (image.size() >= sizeof(footer))
    memcpy(&footer, image.data() + image.size() - sizeof(footer),
           sizeof(footer));
  if (image.size() < sizeof(footer) ||
      memcmp(footer.magic, CRIA_FOOTER_MAGIC, sizeof(footer.magic)) != 0)
    return fail(
        CRIA_DATA_LOSS,
        "is not a Cria artifact or a truncated one: no footer at its end");
  uint64_t covered = image.size() - sizeof(footer.checksum);
  uint64_t sum = criaFnv1a64(CRIA_FNV_OFFSET, image.data(), covered);
  // The version number may be damaged, too. The file has another format only if
  // its checksum is right.
  if (footer.format_version != CRIA_FORMAT_VERSION && sum == footer.checksum)
    return fail(
        CRIA_INCOMPATIBLE,
        concat({"artifact format v", footer.format_version,
                ", runtime supports v", CRIA_FORMAT_VERSION, "; recompile"}));
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
  auto incompatible = [&](std::string_view what) {
    return Status(CRIA_INCOMPATIBLE, {path, ": ", what});
  };
  std::string kind = manifest.hasCpu() ? "cpu" : "";
  if (manifest.cuda)
    kind += kind.empty() ? "cuda" : ",cuda";
  if (manifest.kind != kind)
    return incompatible(
        concat({"compiled for target ", quote(manifest.kind),
                ", this runtime finds code for ", quote(kind)}));
  if (manifest.arch != hostArch() || manifest.os != "linux")
    return incompatible(
        concat({"compiled for ", manifest.arch, " ", manifest.os,
                ", this machine is ", hostArch(), " linux"}));
  return Status();
}

/// The names of the CPUs that the manifest has code for: "x86-64-v4,
/// x86-64-v3".
static std::string cpuNames(const Manifest &manifest) {
  std::string names;
  for (const CpuCode &code : manifest.cpus)
    names += (names.empty() ? "" : ", ") + code.cpu;
  return names;
}

/// Why this CPU cannot run `code`; empty if it can.
static std::string obstacle(const CpuCode &code) {
  std::string names;
  for (const std::string &feature : missingCpuFeatures(code.features))
    names += (names.empty() ? "" : ", ") + feature;
  if (!names.empty())
    return "this CPU lacks: " + names;
  return permitTiles(code.features)
             ? ""
             : "the system refuses this process the AMX tiles";
}

/// Chooses the first code that this CPU can run; if `name` is not empty, the
/// code for the CPU `name`. INCOMPATIBLE if there is none. The message says
/// what the last code, which needs least, misses.
Status Artifact::choose(const std::string &name) {
  auto incompatible = [&](std::string_view what) {
    return Status(CRIA_INCOMPATIBLE, {file, ": ", what});
  };
  if (!contents.hasCpu())
    return incompatible("has no code for the CPU, it is compiled for " +
                        quote(contents.kind));
  std::string why;
  for (const CpuCode &code : contents.cpus) {
    if (!name.empty() && code.cpu != name)
      continue;
    why = obstacle(code);
    if (why.empty()) {
      chosen = &code;
      return Status();
    }
    bool several = name.empty() && contents.cpus.size() > 1;
    why = concat({"compiled for ", name.empty() ? cpuNames(contents) : name,
                  "; ", several ? concat({"for ", code.cpu, " "}) : "", why});
  }
  if (why.empty())
    return incompatible(concat({"has no code for ", quote(name),
                                ", it is compiled for ", cpuNames(contents)}));
  return incompatible(why);
}

/// INVALID_ARGUMENT if an artifact cannot have this number of bytes.
static Status checkSize(uint64_t bytes, const std::string &path) {
  if (bytes <= maxArtifactBytes)
    return Status();
  return Status(
      CRIA_INVALID_ARGUMENT,
      {path, ": has ", bytes, " bytes, expected at most ", maxArtifactBytes});
}

Result<std::shared_ptr<Artifact>> Artifact::parse(std::string_view bytes,
                                                  const std::string &path) {
  Result<CriaFooter> footer = checkImage(bytes, path);
  if (!footer.ok())
    return footer.status();
  std::shared_ptr<Artifact> artifact(new Artifact());
  artifact->file = path;
  artifact->bytes = bytes.size();
  artifact->sum = footer->checksum;
  artifact->text = bytes.substr(footer->manifest_offset, footer->manifest_size);
  Result<Manifest> manifest = parseManifest(artifact->text, path);
  if (!manifest.ok())
    return manifest.status();
  artifact->contents = std::move(*manifest);
  return artifact;
}

Result<std::shared_ptr<const Artifact>>
Artifact::inspect(const std::string &path) {
  Result<std::string> bytes = readFile(path, maxArtifactBytes);
  if (!bytes.ok())
    return bytes.status();
  Result<std::shared_ptr<Artifact>> artifact = parse(*bytes, path);
  if (!artifact.ok())
    return artifact.status();
  return std::shared_ptr<const Artifact>(*artifact);
}

Result<std::shared_ptr<const Artifact>> Artifact::open(const std::string &path,
                                                       const std::string &cpu) {
  return open(File::open(path), cpu);
}

Result<std::shared_ptr<const Artifact>>
Artifact::openDescriptor(int descriptor) {
  return open(File::of(descriptor), "");
}

Result<std::shared_ptr<const Artifact>> Artifact::open(const Result<File> &file,
                                                       const std::string &cpu) {
  if (!file.ok())
    return file.status();
  if (Status status = checkSize(file->size(), file->path()); !status.ok())
    return status;
  Result<SealedMemory> memory = SealedMemory::copy(*file);
  if (!memory.ok())
    return memory.status();
  return load(std::move(*memory), file->path(), cpu);
}

Result<std::shared_ptr<const Artifact>>
Artifact::openMemory(std::string_view bytes) {
  std::string name = "artifact in memory";
  if (Status status = checkSize(bytes.size(), name); !status.ok())
    return status;
  Result<SealedMemory> memory = SealedMemory::copy(bytes, name);
  if (!memory.ok())
    return memory.status();
  return load(std::move(*memory), name, "");
}

Result<std::shared_ptr<const Artifact>> Artifact::load(SealedMemory memory,
                                                       const std::string &path,
                                                       const std::string &cpu) {
  Result<std::shared_ptr<Artifact>> parsed = parse(memory.bytes(), path);
  if (!parsed.ok())
    return parsed.status();
  Artifact &artifact = **parsed;
  artifact.memory = std::move(memory);
  Status status = checkTarget(artifact.contents, path);
  artifact.cpu = artifact.choose(cpu);
  if (status.ok() && !artifact.contents.cuda)
    status = artifact.cpu;
  if (status.ok())
    status = artifact.checkCode();
  if (status.ok() && artifact.chosen)
    status = artifact.loadCode();
  if (!status.ok())
    return status;
  return std::shared_ptr<const Artifact>(*parsed);
}

/// Checks that the object can be loaded and has the symbols that the manifest
/// names.
Status Artifact::checkCode() {
  Result<std::vector<ExportedSymbol>> found = checkElf(memory.bytes(), file);
  if (!found.ok())
    return found.status();
  symbols = std::move(*found);
  for (const CpuCode &code : contents.cpus)
    for (const std::string *name :
         {&code.prefill, &code.decode, &code.encode, &code.batch}) {
      const ExportedSymbol *symbol = name->empty() ? nullptr : find(*name);
      if (!name->empty() && !(symbol && symbol->isCode))
        return Status(CRIA_INVALID_ARGUMENT,
                      {file, ": entry ", quote(*name), " is not in the code"});
    }
  if (contents.cuda)
    for (const cuda::Image &wanted : contents.cuda->images)
      if (Result<std::string_view> data = packed(wanted); !data.ok())
        return data.status();
  return Status();
}

Status Artifact::loadCode() {
  Result<std::string> path = memory.pathForLoader();
  if (!path.ok())
    return path.status();
  library = dlopen(path->c_str(), RTLD_NOW | RTLD_LOCAL);
  link_map *loaded = nullptr;
  if (!library || dlinfo(library, RTLD_DI_LINKMAP, &loaded) != 0)
    return Status(CRIA_INVALID_ARGUMENT,
                  {file, ": cannot be loaded: ", dlerror()});
  auto bind = [&](auto &entry, const std::string &name) {
    if (const ExportedSymbol *symbol = find(name))
      entry = reinterpret_cast<std::decay_t<decltype(entry)>>(loaded->l_addr +
                                                              symbol->address);
  };
  bind(decodeEntry, chosen->decode);
  bind(encodeEntry, chosen->encode);
  bind(batchEntry, chosen->batch);
  if (contents.batch)
    bind(pagedPrefillEntry, chosen->prefill);
  else
    bind(prefillEntry, chosen->prefill);
  return Status();
}

const ExportedSymbol *Artifact::find(const std::string &symbol) const {
  auto is = [&](const ExportedSymbol &each) { return each.name == symbol; };
  auto found = std::find_if(symbols.begin(), symbols.end(), is);
  return found == symbols.end() ? nullptr : &*found;
}

Result<std::string_view> Artifact::packed(const cuda::Image &image) const {
  auto fail = [&](std::string_view what) {
    return Status(CRIA_INVALID_ARGUMENT,
                  {file, ": image ", quote(image.symbol), " ", what});
  };
  const ExportedSymbol *symbol = find(image.symbol);
  if (!symbol)
    return fail("is not in the code");
  if (!image.spans.empty() && image.spans.back() > image.unpacked)
    return fail("ends before its spans");
  return memory.bytes().substr(symbol->offset, symbol->size);
}

Result<std::string> Artifact::image(const cuda::Image &image) const {
  Result<std::string_view> data = packed(image);
  if (!data.ok())
    return data.status();
  Result<std::string> whole = unpack(*data, image.unpacked);
  if (!whole.ok())
    return Status(whole.status().code(), {file, ": image ", quote(image.symbol),
                                          ": ", whole.status().message()});
  if (image.spans.empty())
    return whole;
  std::string text;
  for (size_t i = 0; i < image.spans.size(); i += 2)
    text.append(*whole, image.spans[i], image.spans[i + 1] - image.spans[i]);
  return text;
}

Artifact::~Artifact() {
  if (library)
    dlclose(library);
}

} // namespace cria
