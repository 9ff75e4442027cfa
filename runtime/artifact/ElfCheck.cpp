#include "runtime/artifact/ElfCheck.h"

#include "runtime/Abi.h"
#include "runtime/base/Json.h"

#include <algorithm>
#include <cstring>
#include <elf.h>
#include <iterator>
#include <map>
#include <optional>

namespace cria {

namespace {

#if defined(__aarch64__)
/// What this architecture calls what an object may have.
constexpr struct {
  uint16_t machine = EM_AARCH64;
  const char *name = "aarch64";
  uint64_t page = 64 << 10; // the largest
  uint32_t none = R_AARCH64_NONE, absolute = R_AARCH64_ABS64,
           data = R_AARCH64_GLOB_DAT, function = R_AARCH64_JUMP_SLOT,
           relative = R_AARCH64_RELATIVE;
} arch;
#else
constexpr struct {
  uint16_t machine = EM_X86_64;
  const char *name = "x86-64";
  uint64_t page = 4096;
  uint32_t none = R_X86_64_NONE, absolute = R_X86_64_64,
           data = R_X86_64_GLOB_DAT, function = R_X86_64_JUMP_SLOT,
           relative = R_X86_64_RELATIVE;
} arch;
#endif
constexpr uint64_t mostAlignment = 2 << 20;
constexpr uint64_t mostMemory = uint64_t(1) << 30; // of the loaded object
constexpr size_t mostSegments = 32;
constexpr uint64_t mostSymbols = 1 << 16;
constexpr size_t mostNameBytes = 1024;

/// A constant of <elf.h> and its name.
struct Constant {
  uint64_t value;
  const char *name;
  bool isString = false; // of a dynamic entry: its value is an index of the
                         // string table
};

/// Segments that are allowed.
constexpr Constant segments[] = {{PT_LOAD, "LOAD"},
                                 {PT_DYNAMIC, "DYNAMIC"},
                                 {PT_PHDR, "PHDR"},
                                 {PT_NOTE, "NOTE"},
                                 {PT_GNU_STACK, "GNU_STACK"},
                                 {PT_GNU_RELRO, "GNU_RELRO"},
                                 {PT_GNU_EH_FRAME, "GNU_EH_FRAME"}};

/// Segments that are refused by name.
constexpr Constant refusedSegments[] = {
    {PT_INTERP, "INTERP"},
    {PT_TLS, "TLS"},
    {PT_SHLIB, "SHLIB"},
    {PT_GNU_PROPERTY, "GNU_PROPERTY"},
};

/// Entries of the dynamic section that are allowed.
constexpr Constant tags[] = {
    {DT_SONAME, "SONAME"},     {DT_SYMTAB, "SYMTAB"},
    {DT_SYMENT, "SYMENT"},     {DT_STRTAB, "STRTAB"},
    {DT_STRSZ, "STRSZ"},       {DT_GNU_HASH, "GNU_HASH"},
    {DT_RELA, "RELA"},         {DT_RELASZ, "RELASZ"},
    {DT_RELAENT, "RELAENT"},   {DT_RELACOUNT, "RELACOUNT"},
    {DT_JMPREL, "JMPREL"},     {DT_PLTRELSZ, "PLTRELSZ"},
    {DT_PLTREL, "PLTREL"},     {DT_PLTGOT, "PLTGOT"},
    {DT_BIND_NOW, "BIND_NOW"}, {DT_FLAGS, "FLAGS"},
    {DT_FLAGS_1, "FLAGS_1"}};

/// Entries that are refused by name. Other entries are refused by number.
constexpr Constant refusedTags[] = {
    {DT_NEEDED, "NEEDED", true},
    {DT_INIT, "INIT"},
    {DT_FINI, "FINI"},
    {DT_INIT_ARRAY, "INIT_ARRAY"},
    {DT_INIT_ARRAYSZ, "INIT_ARRAYSZ"},
    {DT_FINI_ARRAY, "FINI_ARRAY"},
    {DT_FINI_ARRAYSZ, "FINI_ARRAYSZ"},
    {DT_PREINIT_ARRAY, "PREINIT_ARRAY"},
    {DT_PREINIT_ARRAYSZ, "PREINIT_ARRAYSZ"},
    {DT_RPATH, "RPATH", true},
    {DT_RUNPATH, "RUNPATH", true},
    {DT_TEXTREL, "TEXTREL"},
    {DT_SYMBOLIC, "SYMBOLIC"},
    {DT_AUDIT, "AUDIT", true},
    {DT_DEPAUDIT, "DEPAUDIT", true},
    {DT_AUXILIARY, "AUXILIARY", true},
    {DT_FILTER, "FILTER", true},
    {DT_CONFIG, "CONFIG", true},
    {DT_HASH, "HASH"},
    {DT_REL, "REL"},
    {DT_DEBUG, "DEBUG"},
    {DT_VERSYM, "VERSYM"},
    {DT_VERNEED, "VERNEED"},
    {DT_VERDEF, "VERDEF"},
};

/// Relocations that are refused by name. Others are refused by number.
constexpr Constant refusedRelocations[] = {
#if defined(__aarch64__)
    {R_AARCH64_IRELATIVE, "IRELATIVE"},   {R_AARCH64_COPY, "COPY"},
    {R_AARCH64_TLS_DTPMOD, "TLS_DTPMOD"}, {R_AARCH64_TLS_DTPREL, "TLS_DTPREL"},
    {R_AARCH64_TLS_TPREL, "TLS_TPREL"},   {R_AARCH64_TLSDESC, "TLSDESC"}};
#else
    {R_X86_64_IRELATIVE, "IRELATIVE"}, {R_X86_64_COPY, "COPY"},
    {R_X86_64_DTPMOD64, "DTPMOD64"},   {R_X86_64_DTPOFF64, "DTPOFF64"},
    {R_X86_64_TPOFF64, "TPOFF64"},     {R_X86_64_TLSDESC, "TLSDESC"}};
#endif

/// Functions that every process has, which code may call.
constexpr const char *imports[] = CRIA_IMPORTS;

template <size_t N>
const Constant *lookUp(const Constant (&list)[N], uint64_t value) {
  auto is = [&](const Constant &each) { return each.value == value; };
  auto found = std::find_if(std::begin(list), std::end(list), is);
  return found == std::end(list) ? nullptr : found;
}

/// The name of `value`, or the number.
template <size_t N>
std::string nameOf(const Constant (&list)[N], uint64_t value) {
  const Constant *found = lookUp(list, value);
  return found ? found->name : std::to_string(value);
}

/// Whether [begin, begin + size) lies within [from, from + length). Nothing
/// overflows.
bool isWithin(uint64_t begin, uint64_t size, uint64_t from, uint64_t length) {
  return begin >= from && begin - from <= length &&
         size <= length - (begin - from);
}

uint64_t pageOf(uint64_t address) { return address / arch.page; }

/// The object, checked part by part. Each step reads only what earlier steps
/// have checked.
class Object {
public:
  Object(std::string_view file, const std::string &path)
      : file(file), path(path) {}

  Status check();
  std::vector<ExportedSymbol> exported;

private:
  Status checkHeader();
  Status checkSegments();
  Status checkLoad(const Elf64_Phdr &load);
  Status checkPart(const Elf64_Phdr &segment);
  Status checkNotes(const Elf64_Phdr &segment);
  Status checkDynamic();
  Status checkStrings();
  Status checkValues();
  Status countSymbols();
  Status checkSymbols();
  Status checkSymbol(const Elf64_Sym &symbol);
  Status checkExport(const Elf64_Sym &symbol, std::string_view name);
  Status checkRelocations();
  Status checkTable(uint64_t address, uint64_t bytes, uint64_t relative);
  Status checkRelocation(const Elf64_Rela &relocation);

  Status fail(std::string_view what) const {
    return Status(CRIA_INVALID_ARGUMENT, {path, ": ", what});
  }

  /// The T at `offset` of the file; no alignment is assumed.
  template <typename T> T at(uint64_t offset) const {
    T value;
    memcpy(&value, file.data() + offset, sizeof(value));
    return value;
  }
  /// The loaded segment that contains [address, address + size), or null.
  const Elf64_Phdr *segmentOf(uint64_t address, uint64_t size) const;
  /// The offset in the file of the table of `size` bytes that the loader reads
  /// at `address`. None if a part of the table is not in the file or can be
  /// written: a relocation must not change what was checked.
  std::optional<uint64_t> findTable(uint64_t address, uint64_t size) const;
  /// The value of an entry of the dynamic section; 0 if it has no such entry.
  uint64_t valueOf(int64_t tag) const;
  bool has(int64_t tag) const { return entries.count(tag) != 0; }
  /// The text at `index` of the string table; none if `index` is outside of it.
  std::optional<std::string_view> stringAt(uint64_t index) const;

  std::string_view file;
  const std::string &path;
  Elf64_Ehdr header = {};
  std::vector<Elf64_Phdr> loads; // by address
  Elf64_Phdr dynamic = {};
  std::map<int64_t, uint64_t> entries; // of the dynamic section
  std::optional<Elf64_Dyn> refused;    // the first entry that is not allowed
  std::string_view strings;
  uint64_t symbolOffset = 0; // in the file
  uint64_t symbolCount = 0;
};

Status Object::check() {
  for (auto step :
       {&Object::checkHeader, &Object::checkSegments, &Object::checkDynamic,
        &Object::checkStrings, &Object::checkValues, &Object::countSymbols,
        &Object::checkSymbols, &Object::checkRelocations})
    if (Status status = (this->*step)(); !status.ok())
      return status;
  return Status();
}

const Elf64_Phdr *Object::segmentOf(uint64_t address, uint64_t size) const {
  for (const Elf64_Phdr &load : loads)
    if (isWithin(address, size, load.p_vaddr, load.p_memsz))
      return &load;
  return nullptr;
}

std::optional<uint64_t> Object::findTable(uint64_t address,
                                          uint64_t size) const {
  const Elf64_Phdr *load = segmentOf(address, size);
  if (!load || load->p_flags & PF_W ||
      !isWithin(address, size, load->p_vaddr, load->p_filesz))
    return std::nullopt;
  return load->p_offset + (address - load->p_vaddr);
}

uint64_t Object::valueOf(int64_t tag) const {
  auto found = entries.find(tag);
  return found == entries.end() ? 0 : found->second;
}

std::optional<std::string_view> Object::stringAt(uint64_t index) const {
  if (index >= strings.size())
    return std::nullopt;
  std::string_view rest = strings.substr(index, mostNameBytes + 1);
  size_t end = rest.find('\0');
  if (end == std::string_view::npos)
    return std::nullopt;
  return rest.substr(0, end);
}

// ---- Header and segments ----------------------------------------------------

Status Object::checkHeader() {
  if (file.size() < sizeof(header))
    return fail("is cut within its ELF header");
  header = at<Elf64_Ehdr>(0);
  const unsigned char *id = header.e_ident;
  if (memcmp(id, ELFMAG, SELFMAG) != 0 || id[EI_CLASS] != ELFCLASS64 ||
      id[EI_DATA] != ELFDATA2LSB || header.e_type != ET_DYN ||
      header.e_machine != arch.machine)
    return fail(concat({"is not an ELF shared object for ", arch.name}));
  if (header.e_phentsize != sizeof(Elf64_Phdr) || header.e_phnum == 0 ||
      header.e_phnum > mostSegments)
    return fail(concat({"has ", header.e_phnum, " program headers of ",
                        header.e_phentsize, " bytes, expected 1 to ",
                        mostSegments, " of ", sizeof(Elf64_Phdr)}));
  if (!isWithin(header.e_phoff, header.e_phnum * sizeof(Elf64_Phdr), 0,
                file.size()))
    return fail("its program headers lie outside the file");
  return Status();
}

Status Object::checkSegments() {
  std::vector<Elf64_Phdr> parts; // parts of loaded segments
  bool hasStack = false;
  for (size_t i = 0; i < header.e_phnum; ++i) {
    auto segment = at<Elf64_Phdr>(header.e_phoff + i * sizeof(Elf64_Phdr));
    if (!lookUp(segments, segment.p_type))
      return fail(
          concat({"has a segment ", nameOf(refusedSegments, segment.p_type),
                  ", which no artifact has"}));
    if (segment.p_type == PT_LOAD) {
      if (Status status = checkLoad(segment); !status.ok())
        return status;
    } else if (segment.p_type == PT_GNU_STACK) {
      hasStack = true;
      if (segment.p_flags & PF_X)
        return fail("asks for an executable stack");
    } else {
      parts.push_back(segment);
    }
  }
  if (!hasStack)
    return fail("asks for an executable stack, since it has no segment "
                "GNU_STACK");
  for (const Elf64_Phdr &segment : parts)
    if (Status status = checkPart(segment); !status.ok())
      return status;
  if (dynamic.p_type != PT_DYNAMIC)
    return fail("has no dynamic section");
  return Status();
}

Status Object::checkLoad(const Elf64_Phdr &load) {
  std::string name = "its segment at address " + std::to_string(load.p_vaddr);
  if (!(load.p_flags & PF_R))
    return fail(name + " cannot be read");
  if ((load.p_flags & PF_W) && (load.p_flags & PF_X))
    return fail(name + " is writable and executable");
  if (load.p_memsz == 0 || load.p_filesz > load.p_memsz ||
      !isWithin(load.p_offset, load.p_filesz, 0, file.size()))
    return fail(name + " lies outside the file");
  if (!isWithin(load.p_vaddr, load.p_memsz, 0, mostMemory))
    return fail(concat({name, " has ", load.p_memsz,
                        " bytes, expected an end below ", mostMemory}));
  if (load.p_align < arch.page || load.p_align > mostAlignment ||
      (load.p_align & (load.p_align - 1)) != 0 ||
      (load.p_vaddr - load.p_offset) % load.p_align != 0)
    return fail(name + " is not aligned");
  if (!loads.empty() && pageOf(loads.back().p_vaddr + loads.back().p_memsz -
                               1) >= pageOf(load.p_vaddr))
    return fail(name + " overlaps the one in front of it");
  // The loader may read the program headers where they are loaded.
  if ((load.p_flags & PF_W) && header.e_phoff < load.p_offset + load.p_memsz &&
      load.p_offset < header.e_phoff + header.e_phnum * sizeof(Elf64_Phdr))
    return fail("its program headers can be written");
  loads.push_back(load);
  return Status();
}

/// Checks a segment that describes a part of the loaded segments.
Status Object::checkPart(const Elf64_Phdr &segment) {
  std::string name =
      std::string("its segment ") + lookUp(segments, segment.p_type)->name;
  const Elf64_Phdr *load = segmentOf(segment.p_vaddr, segment.p_memsz);
  bool isRelro = segment.p_type == PT_GNU_RELRO; // may end in zeros that the
                                                 // file does not have
  bool isWritten = isRelro || segment.p_type == PT_DYNAMIC;
  if (!load || segment.p_filesz > segment.p_memsz ||
      segment.p_offset - load->p_offset != segment.p_vaddr - load->p_vaddr ||
      !(isRelro || isWithin(segment.p_vaddr, segment.p_memsz, load->p_vaddr,
                            load->p_filesz)))
    return fail(name + " lies outside the loaded segments");
  if (isWritten != ((load->p_flags & PF_W) != 0))
    return fail(name + (isWritten ? " cannot be written" : " can be written"));
  // lld leaves room for a header that it may not need in the end.
  if (segment.p_type == PT_PHDR &&
      (segment.p_offset != header.e_phoff ||
       segment.p_memsz < header.e_phnum * sizeof(Elf64_Phdr)))
    return fail(name + " is not its program headers");
  if (segment.p_type == PT_NOTE)
    return checkNotes(segment);
  if (segment.p_type == PT_DYNAMIC) {
    if (dynamic.p_type == PT_DYNAMIC)
      return fail("has two dynamic sections");
    if (!(segment.p_flags & PF_W) || segment.p_vaddr % sizeof(uint64_t) != 0)
      return fail(name + " is read-only or not aligned");
    dynamic = segment;
  }
  return Status();
}

/// The loader trusts the sizes in some kinds of notes. Only the build ID is
/// allowed: the loader skips it, and profilers identify an artifact by it.
Status Object::checkNotes(const Elf64_Phdr &segment) {
  static constexpr std::string_view owner("GNU", 4);
  uint64_t size = 0;
  for (uint64_t done = 0; done < segment.p_memsz; done += size) {
    uint64_t left = segment.p_memsz - done, begin = segment.p_offset + done;
    Elf64_Nhdr note = {};
    if (left >= sizeof(note))
      note = at<Elf64_Nhdr>(begin);
    size = sizeof(note) + owner.size() + (note.n_descsz + uint64_t(3)) / 4 * 4;
    if (note.n_type != NT_GNU_BUILD_ID || note.n_namesz != owner.size() ||
        size > left || file.substr(begin + sizeof(note), 4) != owner)
      return fail("has a note that is no build ID");
  }
  return Status();
}

// ---- The dynamic section ----------------------------------------------------

Status Object::checkDynamic() {
  for (uint64_t i = 0; i + sizeof(Elf64_Dyn) <= dynamic.p_memsz;
       i += sizeof(Elf64_Dyn)) {
    auto entry = at<Elf64_Dyn>(dynamic.p_offset + i);
    if (entry.d_tag == DT_NULL)
      return Status();
    const Constant *tag = lookUp(tags, static_cast<uint64_t>(entry.d_tag));
    if (!tag) {
      if (!refused)
        refused = entry;
    } else if (!entries.emplace(entry.d_tag, entry.d_un.d_val).second) {
      return fail(concat({"its dynamic section has ", tag->name, " twice"}));
    }
  }
  return fail("its dynamic section has no end");
}

/// Finds the string table, then names the refused entry, if there is one.
Status Object::checkStrings() {
  uint64_t size = valueOf(DT_STRSZ);
  std::optional<uint64_t> begin = findTable(valueOf(DT_STRTAB), size);
  if (begin && size != 0 && file[*begin + size - 1] == '\0')
    strings = file.substr(*begin, size);
  if (refused) {
    auto tag = static_cast<uint64_t>(refused->d_tag);
    const Constant *known = lookUp(refusedTags, tag);
    auto string =
        known && known->isString ? stringAt(refused->d_un.d_val) : std::nullopt;
    return fail(concat({"its dynamic section has ", nameOf(refusedTags, tag),
                        string ? " " + quote(*string) : "",
                        ", which no artifact has"}));
  }
  if (strings.empty())
    return fail(
        "its string table lies outside the loaded segments, can be written "
        "or has no end");
  return Status();
}

/// Checks the entries whose values the loader does not check.
Status Object::checkValues() {
  const std::pair<int64_t, uint64_t> constants[] = {
      {DT_SYMENT, sizeof(Elf64_Sym)},
      {DT_RELAENT, sizeof(Elf64_Rela)},
      {DT_PLTREL, DT_RELA},
  };
  for (auto [tag, expected] : constants)
    if (has(tag) && valueOf(tag) != expected)
      return fail(concat({"its dynamic section has ",
                          nameOf(tags, static_cast<uint64_t>(tag)), " ",
                          valueOf(tag), ", expected ", expected}));
  const std::pair<int64_t, int64_t> needs[] = {
      {DT_RELA, DT_RELASZ},     {DT_RELA, DT_RELAENT},
      {DT_RELASZ, DT_RELA},     {DT_RELACOUNT, DT_RELA},
      {DT_JMPREL, DT_PLTREL},   {DT_JMPREL, DT_PLTRELSZ},
      {DT_PLTRELSZ, DT_JMPREL},
  };
  for (auto [tag, needed] : needs)
    if (has(tag) && !has(needed))
      return fail(concat({"its dynamic section has ",
                          nameOf(tags, static_cast<uint64_t>(tag)), ", but no ",
                          nameOf(tags, static_cast<uint64_t>(needed))}));
  if (valueOf(DT_FLAGS) & DF_TEXTREL)
    return fail("its dynamic section has the flag TEXTREL, which no artifact "
                "has");
  if (valueOf(DT_FLAGS) & ~uint64_t(DF_BIND_NOW) ||
      valueOf(DT_FLAGS_1) & ~uint64_t(DF_1_NOW))
    return fail(concat({"its dynamic section has the flags ", valueOf(DT_FLAGS),
                        " and ", valueOf(DT_FLAGS_1), ", expected BIND_NOW"}));
  // If SONAME were a library's name, the loader would take this object for that
  // library.
  if (has(DT_SONAME) && stringAt(valueOf(DT_SONAME)) != CRIA_SONAME)
    return fail(concat({"its dynamic section has SONAME ",
                        quote(stringAt(valueOf(DT_SONAME)).value_or("")),
                        ", expected '" CRIA_SONAME "'"}));
  const Elf64_Phdr *load = segmentOf(valueOf(DT_PLTGOT), 3 * sizeof(uint64_t));
  if (has(DT_PLTGOT) && !(load && load->p_flags & PF_W))
    return fail("its dynamic section has a PLTGOT that cannot be written");
  return Status();
}

// ---- Symbols ----------------------------------------------------------------

/// Counts the symbols. Only the hash table says how many there are: its buckets
/// hold the first symbol of each chain, and a chain ends at a hash whose lowest
/// bit is set. The chain that begins last ends with the last symbol.
Status Object::countSymbols() {
  struct Hash {
    uint32_t buckets, firstSymbol, bloomWords, shift;
  };
  uint64_t address = valueOf(DT_GNU_HASH);
  std::optional<uint64_t> begin = findTable(address, sizeof(Hash));
  if (!begin)
    return fail(
        "its table GNU_HASH lies outside the loaded segments, or can be "
        "written");
  auto hash = at<Hash>(*begin);
  uint64_t bloom = uint64_t(hash.bloomWords) * sizeof(uint64_t);
  uint64_t buckets = uint64_t(hash.buckets) * sizeof(uint32_t);
  if (hash.buckets == 0 || hash.firstSymbol == 0 || hash.bloomWords == 0 ||
      (hash.bloomWords & (hash.bloomWords - 1)) != 0 || hash.shift >= 32 ||
      !findTable(address, sizeof(hash) + bloom + buckets))
    return fail("its table GNU_HASH is not whole");
  uint64_t bucket = *begin + sizeof(hash) + bloom;
  uint64_t last = 0;
  for (uint64_t i = 0; i < hash.buckets; ++i) {
    uint64_t first = at<uint32_t>(bucket + i * sizeof(uint32_t));
    if (first != 0 && first < hash.firstSymbol)
      return fail("its table GNU_HASH is not whole");
    last = std::max(last, first);
  }
  symbolCount = hash.firstSymbol;
  if (last != 0) {
    uint64_t chains = sizeof(hash) + bloom + buckets; // from the start of the
                                                      // table
    uint32_t end = 0;
    for (symbolCount = last; !(end & 1); ++symbolCount) {
      uint64_t link =
          chains + (symbolCount - hash.firstSymbol) * sizeof(uint32_t);
      if (symbolCount >= mostSymbols ||
          !findTable(address, link + sizeof(uint32_t)))
        return fail("its table GNU_HASH is not whole");
      end = at<uint32_t>(*begin + link);
    }
  }
  return Status();
}

Status Object::checkSymbols() {
  std::optional<uint64_t> begin =
      symbolCount <= mostSymbols
          ? findTable(valueOf(DT_SYMTAB), symbolCount * sizeof(Elf64_Sym))
          : std::nullopt;
  if (!begin)
    return fail(concat(
        {"its symbol table of ", symbolCount,
         " symbols lies outside the loaded segments, or can be written"}));
  symbolOffset = *begin;
  for (uint64_t i = 1; i < symbolCount; ++i)
    if (Status status =
            checkSymbol(at<Elf64_Sym>(symbolOffset + i * sizeof(Elf64_Sym)));
        !status.ok())
      return status;
  return Status();
}

Status Object::checkSymbol(const Elf64_Sym &symbol) {
  std::optional<std::string_view> name = stringAt(symbol.st_name);
  if (!name || name->empty())
    return fail("has a symbol without a name");
  unsigned type = ELF64_ST_TYPE(symbol.st_info);
  if (type == STT_GNU_IFUNC)
    return fail(concat({"symbol ", quote(*name),
                        " is an IFUNC, whose resolver would run on load"}));
  if (type != STT_NOTYPE && type != STT_OBJECT && type != STT_FUNC)
    return fail(concat({"symbol ", quote(*name), " is of type ", type,
                        ", expected a function or data"}));
  unsigned binding = ELF64_ST_BIND(symbol.st_info);
  if (binding != STB_GLOBAL && binding != STB_WEAK)
    return fail(concat({"symbol ", quote(*name), " has binding ", binding,
                        ", expected GLOBAL or WEAK"}));
  if (symbol.st_shndx != SHN_UNDEF)
    return checkExport(symbol, *name);
  if (std::find(std::begin(imports), std::end(imports), *name) !=
      std::end(imports))
    return Status();
  std::string expected;
  for (const char *import : imports)
    expected += std::string(expected.empty() ? "" : ", ") + import;
  return fail(concat(
      {"needs the symbol ", quote(*name), ", expected none but ", expected}));
}

Status Object::checkExport(const Elf64_Sym &symbol, std::string_view name) {
  const Elf64_Phdr *load = segmentOf(symbol.st_value, symbol.st_size);
  if (symbol.st_shndx >= SHN_LORESERVE || !load ||
      !isWithin(symbol.st_value, symbol.st_size, load->p_vaddr, load->p_filesz))
    return fail(concat({"symbol ", quote(name), " lies outside the file"}));
  bool isCode = ELF64_ST_TYPE(symbol.st_info) == STT_FUNC;
  if (isCode && !(load->p_flags & PF_X))
    return fail(concat({"function ", quote(name), " cannot be executed"}));
  exported.push_back({name, symbol.st_value,
                      load->p_offset + (symbol.st_value - load->p_vaddr),
                      symbol.st_size, isCode});
  return Status();
}

// ---- Relocations ------------------------------------------------------------

Status Object::checkRelocations() {
  Status status =
      checkTable(valueOf(DT_RELA), valueOf(DT_RELASZ), valueOf(DT_RELACOUNT));
  return status.ok() ? checkTable(valueOf(DT_JMPREL), valueOf(DT_PLTRELSZ), 0)
                     : status;
}

/// Checks a table of relocations. The loader assumes, without a check, that the
/// first `relative` ones are RELATIVE.
Status Object::checkTable(uint64_t address, uint64_t bytes, uint64_t relative) {
  uint64_t count = bytes / sizeof(Elf64_Rela);
  if (bytes == 0 && relative == 0)
    return Status();
  std::optional<uint64_t> begin = findTable(address, bytes);
  if (!begin || bytes % sizeof(Elf64_Rela) != 0 || relative > count)
    return fail("its relocations lie outside the loaded segments, or can be "
                "written");
  for (uint64_t i = 0; i < count; ++i) {
    auto relocation = at<Elf64_Rela>(*begin + i * sizeof(Elf64_Rela));
    if (i < relative && ELF64_R_TYPE(relocation.r_info) != arch.relative)
      return fail("has fewer RELATIVE relocations than RELACOUNT, " +
                  std::to_string(relative));
    if (Status status = checkRelocation(relocation); !status.ok())
      return status;
  }
  return Status();
}

Status Object::checkRelocation(const Elf64_Rela &relocation) {
  uint64_t type = ELF64_R_TYPE(relocation.r_info);
  uint64_t symbol = ELF64_R_SYM(relocation.r_info);
  if (type == arch.none)
    return Status();
  if (type == arch.data || type == arch.function || type == arch.absolute) {
    // The object's own symbols were bound when it was linked. Here the loader
    // would search the whole process for a symbol of that name.
    if (symbol == 0 || symbol >= symbolCount)
      return fail(concat(
          {"has a relocation for symbol ", symbol, " of ", symbolCount}));
    auto entry = at<Elf64_Sym>(symbolOffset + symbol * sizeof(Elf64_Sym));
    if (entry.st_shndx != SHN_UNDEF)
      return fail(concat({"looks up its own symbol ",
                          quote(stringAt(entry.st_name).value_or("")),
                          ", expected to be linked with -Bsymbolic"}));
  } else if (type != arch.relative) {
    return fail(concat({"has a relocation ", nameOf(refusedRelocations, type),
                        ", which no artifact has"}));
  }
  uint64_t target = relocation.r_offset, size = sizeof(uint64_t);
  const Elf64_Phdr *load = segmentOf(target, size);
  bool hitsDynamic = target < dynamic.p_vaddr + dynamic.p_memsz &&
                     dynamic.p_vaddr < target + size;
  if (!load || !(load->p_flags & PF_W) || hitsDynamic)
    return fail(concat({"has a relocation at address ", target,
                        ", where no data of it lies"}));
  return Status();
}

} // namespace

Result<std::vector<ExportedSymbol>> checkElf(std::string_view file,
                                             const std::string &path) {
  Object object(file, path);
  Status status = object.check();
  if (!status.ok())
    return status;
  return std::move(object.exported);
}

} // namespace cria
