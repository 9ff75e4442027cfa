# Installs `libraries` into the wheel under the names that programs ask for, and
# what they need that not every Linux has.
file(GET_RUNTIME_DEPENDENCIES LIBRARIES ${libraries}
  RESOLVED_DEPENDENCIES_VAR needed
  PRE_INCLUDE_REGEXES "pcre2" "utf8proc" PRE_EXCLUDE_REGEXES ".*")
set(folder ${CMAKE_INSTALL_PREFIX}/cria/lib)
file(MAKE_DIRECTORY ${folder})
foreach(library IN LISTS libraries needed)
  get_filename_component(name ${library} NAME)
  file(REAL_PATH ${library} real)
  file(COPY_FILE ${real} ${folder}/${name})
endforeach()
