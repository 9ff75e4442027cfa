# Installs the licences of what is linked into Cria, or compiled in, as Debian's packages
# of it have them: install_licences(FOLDER OPTION...), with options of install(FILES).
function(install_licences folder)
  foreach(package libboost-dev libcli11-dev libjpeg-dev libpcre2-dev libpng-dev
      libutf8proc-dev libzstd-dev llvm-22-dev nlohmann-json3-dev zlib1g-dev)
    install(FILES /usr/share/doc/${package}/copyright DESTINATION ${folder}
      RENAME ${package} OPTIONAL ${ARGN})
  endforeach()
endfunction()
