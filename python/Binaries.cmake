# Installs `libraries` into the wheel under the names that programs ask for, what they
# need that not every Linux has, `tools`, and `emulator`, which is empty or a library.
file(GET_RUNTIME_DEPENDENCIES LIBRARIES ${libraries} EXECUTABLES ${tools}
  RESOLVED_DEPENDENCIES_VAR needed
  PRE_INCLUDE_REGEXES "pcre2" "utf8proc" "png16" "jpeg" PRE_EXCLUDE_REGEXES ".*")
function(copy_to folder)
  file(MAKE_DIRECTORY ${folder})
  foreach(file IN LISTS ARGN)
    get_filename_component(name ${file} NAME)
    file(REAL_PATH ${file} real)
    file(COPY_FILE ${real} ${folder}/${name})
    if(CMAKE_INSTALL_DO_STRIP)
      execute_process(COMMAND ${strip} ${folder}/${name} COMMAND_ERROR_IS_FATAL ANY)
    endif()
  endforeach()
endfunction()
copy_to(${CMAKE_INSTALL_PREFIX}/cria/lib ${libraries} ${needed} ${emulator})
copy_to(${CMAKE_INSTALL_PREFIX}/cria/bin ${tools})
