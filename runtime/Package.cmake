# Installs `libraries` and their archives, their `public_headers`, and what
# find_package(Cria) and pkg-config read. A program with an archive links `needs_of_...`.
include(CMakePackageConfigHelpers)
set(development COMPONENT development)
list(TRANSFORM libraries APPEND -static OUTPUT_VARIABLE archives)
install(TARGETS ${libraries} ${archives} EXPORT CriaTargets
  LIBRARY COMPONENT library NAMELINK_COMPONENT development
  ARCHIVE ${development})
install(FILES ${public_headers} TYPE INCLUDE ${development})

set(cmake ${CMAKE_INSTALL_LIBDIR}/cmake/Cria)
install(EXPORT CriaTargets NAMESPACE Cria:: FILE CriaConfig.cmake
  DESTINATION ${cmake} ${development})
set(version ${CMAKE_CURRENT_BINARY_DIR}/CriaConfigVersion.cmake)
write_basic_package_version_file(${version} COMPATIBILITY SameMajorVersion)
install(FILES ${version} DESTINATION ${cmake} ${development})

set(pkgconfig ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
file(RELATIVE_PATH include /${pkgconfig} /${CMAKE_INSTALL_INCLUDEDIR})
foreach(library ${libraries})
  foreach(target ${library} ${library}-static)
    target_include_directories(${target} INTERFACE
      $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
  endforeach()
  target_link_libraries(${library}-static INTERFACE ${needs_of_${library}})
  list(TRANSFORM needs_of_${library} PREPEND -l OUTPUT_VARIABLE needs)
  list(JOIN needs " " needs)
  configure_file(cria.pc.in ${library}.pc @ONLY)
  install(FILES ${CMAKE_CURRENT_BINARY_DIR}/${library}.pc
    DESTINATION ${pkgconfig} ${development})
endforeach()
